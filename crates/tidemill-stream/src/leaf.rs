//! A leaf that stands for something in the plan of a view. It is taken out of the plan before that is carried out.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, ReplaceChildrenOptions};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};

/// What a leaf stands for.
pub trait Source: fmt::Debug + fmt::Display + Send + Sync + 'static {
    const NAME: &'static str;

    /// For who carries the plan out as it is.
    fn unreadable(&self) -> DataFusionError;
}

#[derive(Debug)]
pub struct Leaf<S> {
    source: S,
    /// Those of the source's columns that the plan reads.
    columns: Vec<usize>,
    properties: Arc<PlanProperties>,
}

impl<S: Source> Leaf<S> {
    /// `schema` is that of all columns; without a projection all of them are read.
    pub fn try_new(source: S, schema: &SchemaRef, projection: Option<&Vec<usize>>) -> Result<Self> {
        let all = || (0..schema.fields().len()).collect();
        let columns: Vec<usize> = projection.cloned().unwrap_or_else(all);
        let properties = Arc::new(PlanProperties::new(
            EquivalenceProperties::new(Arc::new(schema.project(&columns)?)),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        ));
        Ok(Self { source, columns, properties })
    }

    pub fn source(&self) -> &S {
        &self.source
    }

    pub fn columns(&self) -> &[usize] {
        &self.columns
    }
}

impl<S: Source> DisplayAs for Leaf<S> {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.schema().fields().iter().map(|f| f.name().clone()).collect();
        write!(f, "{}: {} [{}]", S::NAME, self.source, names.join(", "))
    }
}

impl<S: Source> ExecutionPlan for Leaf<S> {
    fn name(&self) -> &str {
        S::NAME
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![]
    }

    fn replace_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn execute(&self, _: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        Err(self.source.unreadable())
    }
}
