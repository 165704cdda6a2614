//! A stream: its definition, and what stands for it in plans.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, TimestampMicrosecondArray, new_null_array};
use arrow::datatypes::{Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use tidemill_sql::types::{Scalar, Type};
use tidemill_sql::{SqlError, SqlState};

use crate::leaf::{Leaf, Source};

/// The column that every event has: when it arrived. It is the first column inside, so that added columns come last,
/// and the last one that users see.
pub const ARRIVAL: &str = "arrival_timestamp";
/// Where it is among the columns of a batch of events.
pub const ARRIVAL_COLUMN: usize = 0;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct StreamId(pub u32);

/// A stream's columns, without [`ARRIVAL`].
#[derive(Debug, Clone)]
pub struct StreamDefinition {
    pub id: StreamId,
    pub name: String,
    pub columns: Vec<(String, Type)>,
}

impl StreamDefinition {
    /// The schema of batches of events: [`ARRIVAL`], then the columns.
    pub fn event_schema(&self) -> SchemaRef {
        let arrival = Type::new(Scalar::Timestamptz).field(ARRIVAL);
        let fields = std::iter::once(arrival).chain(self.columns.iter().map(|(name, ty)| ty.field(name)));
        Arc::new(Schema::new(fields.collect::<Vec<Field>>()))
    }

    /// Brings columns that were written (in the writer's order, `None` for those that the statement did not name)
    /// into the order of [`StreamDefinition::event_schema`].
    pub fn event_batch(
        schema: &SchemaRef,
        mut columns: Vec<Option<ArrayRef>>,
        rows: usize,
        arrival_us: i64,
    ) -> Result<RecordBatch> {
        if let (Some(arrival), Some(field)) = (columns.first_mut(), schema.fields().first()) {
            let times = || TimestampMicrosecondArray::from(vec![arrival_us; rows]);
            arrival.get_or_insert_with(|| Arc::new(times().with_data_type(field.data_type().clone())));
        }
        let arrays = schema.fields().iter().zip(columns);
        let arrays = arrays.map(|(field, c)| c.unwrap_or_else(|| new_null_array(field.data_type(), rows)));
        Ok(RecordBatch::try_new(Arc::clone(schema), arrays.collect())?)
    }
}

/// A stream in the eyes of the planner. It can be planned by a view and never be read.
#[derive(Debug)]
pub struct StreamTable {
    id: StreamId,
    name: String,
    schema: SchemaRef,
}

impl StreamTable {
    pub fn new(definition: &StreamDefinition) -> Self {
        Self { id: definition.id, name: definition.name.clone(), schema: definition.event_schema() }
    }

    pub fn id(&self) -> StreamId {
        self.id
    }
}

#[async_trait]
impl TableProvider for StreamTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let source = StreamSource { stream: self.id, name: self.name.clone() };
        Ok(Arc::new(StreamExec::try_new(source, &self.schema, projection)?))
    }
}

/// Where a stream's events enter the plan of a view. [`crate::front::Front`] replaces it.
pub type StreamExec = Leaf<StreamSource>;

#[derive(Debug)]
pub struct StreamSource {
    stream: StreamId,
    name: String,
}

impl StreamExec {
    pub fn stream(&self) -> StreamId {
        self.source().stream
    }
}

impl fmt::Display for StreamSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Source for StreamSource {
    const NAME: &'static str = "StreamExec";

    fn unreadable(&self) -> DataFusionError {
        DataFusionError::External(Box::new(read_of_stream(&self.name)))
    }
}

/// PipelineDB's answer to `SELECT … FROM stream`.
pub fn read_of_stream(name: &str) -> SqlError {
    SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{name}\" is a stream"))
        .with_hint("Streams can only be read by a continuous view's FROM clause.")
}

/// The stream behind a table of the planner, if it is one.
pub fn as_stream(table: &dyn TableProvider) -> Option<&StreamTable> {
    (table as &dyn Any).downcast_ref::<StreamTable>()
}
