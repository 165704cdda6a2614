//! Rows on their way to the client: description, encoding, tag.

use std::sync::Arc;

use arrow::array::{RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt;
use tidemill_sql::planner::{display_name, plan_error};
use tidemill_sql::text::Context;
use tidemill_sql::types::{Type, vector_oid};
use tidemill_sql::{Result, SqlError};

use super::wire::Wire;
use crate::pg::backend::{self, ColumnDesc, RowWriter};
use crate::query::{Running, with_names};
use crate::system::Snapshots;
use tidemill_sql::value::ValueEncoder;

/// The result of a statement that returns rows, read batch by batch.
pub(super) struct Rows {
    pub schema: SchemaRef,
    stream: SendableRecordBatchStream,
    rest: Option<RecordBatch>,
    tag: Tag,
    /// Rows given out so far.
    count: u64,
    /// The names of what its columns have the numbers of, and what its functions change in the session.
    pub snapshots: Option<Arc<Snapshots>>,
}

/// What the client is told at the end.
#[derive(Debug, Clone, Copy)]
pub(super) enum Tag {
    /// With the number of rows.
    Counted(&'static str),
    Plain(&'static str),
}

impl Rows {
    pub(super) fn of_query(running: Running, tag: Tag) -> Self {
        Self {
            schema: running.schema,
            stream: running.stream,
            rest: None,
            tag,
            count: 0,
            snapshots: running.snapshots,
        }
    }

    pub(super) fn of_batches(schema: SchemaRef, batches: Vec<RecordBatch>, tag: Tag) -> Self {
        let batches = futures::stream::iter(batches.into_iter().map(Ok));
        let stream = Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&schema), batches));
        Self { schema, stream, rest: None, tag, count: 0, snapshots: None }
    }

    /// Columns of text.
    pub(super) fn of_text(names: &[&str], rows: &[Vec<String>], tag: Tag) -> Result<Self> {
        let schema = text_schema(names);
        let column = |i: usize| Arc::new(rows.iter().map(|r| Some(r[i].as_str())).collect::<StringArray>());
        let columns = (0..names.len()).map(|i| column(i) as _).collect();
        let batch = RecordBatch::try_new(Arc::clone(&schema), columns)
            .map_err(|e| SqlError::internal(e.to_string()))?;
        Ok(Self::of_batches(schema, vec![batch], tag))
    }

    /// The next rows, `max` of them at most.
    pub(super) async fn next(&mut self, max: usize) -> Result<Option<RecordBatch>> {
        let batch = loop {
            let batch = match self.rest.take() {
                Some(batch) => Some(batch),
                None => self.stream.next().await.transpose().map_err(plan_error)?,
            };
            match batch {
                Some(batch) if batch.num_rows() == 0 => {}
                Some(batch) => break batch,
                None => return Ok(None),
            }
        };
        let count = batch.num_rows().min(max);
        if count < batch.num_rows() {
            self.rest = Some(batch.slice(count, batch.num_rows() - count));
        }
        self.count += count as u64;
        Ok(Some(batch.slice(0, count)))
    }

    /// The batch as the client wants to see it.
    pub(super) fn shown(&self, batch: RecordBatch, formats: &[i16]) -> Result<RecordBatch> {
        match &self.snapshots {
            Some(snapshots) => with_names(&self.schema, snapshots, batch, formats),
            None => Ok(batch),
        }
    }

    /// The tag counts the rows of one Execute.
    pub(super) fn restart_count(&mut self) {
        self.count = 0;
    }

    pub(super) fn tag(&self) -> String {
        match self.tag {
            Tag::Counted(verb) => format!("{verb} {}", self.count),
            Tag::Plain(verb) => verb.into(),
        }
    }
}

pub(super) fn text_schema(names: &[&str]) -> SchemaRef {
    Arc::new(Schema::new(names.iter().map(|n| Field::new(*n, DataType::Utf8, false)).collect::<Vec<_>>()))
}

pub(crate) fn format_of(formats: &[i16], column: usize) -> i16 {
    match formats {
        [] => 0,
        [one] => *one,
        many => many.get(column).copied().unwrap_or(0),
    }
}

pub(super) fn describe(wire: &mut Wire, schema: &SchemaRef, formats: &[i16]) -> Result<()> {
    let types = schema.fields().iter().map(|f| Type::of_field(f)).collect::<Result<Vec<_>>>()?;
    let columns = schema.fields().iter().zip(&types).enumerate().map(|(i, (field, ty))| ColumnDesc {
        name: display_name(field.name()),
        table_oid: 0,
        column: 0,
        type_oid: vector_oid(field).unwrap_or_else(|| ty.oid()),
        type_len: ty.length(),
        typmod: ty.typmod,
        format: format_of(formats, i),
    });
    backend::row_description(&mut wire.out, columns)
}

pub(super) fn write_rows(
    wire: &mut Wire,
    batch: &RecordBatch,
    context: &Context,
    formats: &[i16],
) -> Result<()> {
    let encoders = batch
        .columns()
        .iter()
        .zip(batch.schema_ref().fields())
        .map(|(array, field)| ValueEncoder::new(array, Type::of_field(field)?, context))
        .collect::<Result<Vec<_>>>()?;
    let mut value = Vec::new();
    for row in 0..batch.num_rows() {
        let mut writer = RowWriter::start(&mut wire.out);
        for (i, encoder) in encoders.iter().enumerate() {
            if encoder.is_null(row) {
                writer.null();
                continue;
            }
            value.clear();
            match format_of(formats, i) {
                0 => encoder.write_text(row, &mut value)?,
                _ => encoder.write_binary(row, &mut value)?,
            }
            writer.bytes(&value);
        }
        writer.finish()?;
    }
    Ok(())
}
