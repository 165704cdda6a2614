//! A generic plan: a read of one view that is planned once and carried out with other values of its parameters.
//!
//! ```text
//! ProjectionExec: k, count              ─┐
//!   FilterExec: k = $1                   ├─ steps
//!     ProjectionExec: k, c AS count     ─┘  (finish plan of the view, and what the query adds)
//!       StateExec: lookup=k0 = $1       <- leaf
//! ```
//!
//! Planning costs more than finding a group does. Steps and leaf are taken out of a physical plan, as the front of a view
//! is; an execution puts the values into the expressions and runs them over what the leaf gives.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt;
use tidemill_sql::planner::parameter::{has_parameters, with_values};

use crate::front::Step;
use crate::join::JoinedRows;
use crate::view::exec::{Snapshot, StateExec};
use crate::view::{View, ViewId};

#[derive(Debug)]
pub struct GenericPlan {
    view: Arc<View>,
    /// Without filter.
    leaf: StateExec,
    /// The groups that are wanted, over the keys of the state; `None`: all.
    predicate: Option<Arc<dyn PhysicalExpr>>,
    /// The first one runs first.
    steps: Vec<Step>,
    schema: SchemaRef,
}

impl GenericPlan {
    /// Of a plan that reads one view and only filters and projects. `None` if it does more, or if parameters filter and
    /// no key is looked up by them: their values may say more than their places do, so each execution is planned anew.
    pub fn compile(plan: &Arc<dyn ExecutionPlan>) -> Option<Self> {
        let mut steps = Vec::new();
        let mut below = plan;
        let leaf = loop {
            if let Some(leaf) = below.downcast_ref::<StateExec>() {
                break leaf;
            }
            below = match below.downcast_ref::<CooperativeExec>() {
                Some(node) => node.input(),
                None => {
                    let (step, input) = Step::compile(below)?;
                    steps.push(step);
                    input
                }
            };
        };
        steps.reverse();
        let view = Arc::clone(leaf.view_read()?);
        let predicate = leaf.condition().map(|(_, predicate)| Arc::clone(predicate));
        let filters =
            |step: &Step| matches!(step, Step::Filter { predicate, .. } if has_parameters(predicate));
        if steps.iter().any(filters) && !predicate.as_ref().is_some_and(has_parameters) {
            return None;
        }
        Some(Self { leaf: leaf.of_view(&view, None), view, predicate, steps, schema: plan.schema() })
    }

    pub fn view(&self) -> ViewId {
        self.view.id
    }

    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The rows at the commit of the snapshot.
    pub fn execute(&self, values: &[ScalarValue], snapshot: &Snapshot) -> Result<SendableRecordBatchStream> {
        let bind = |expr: &Arc<dyn PhysicalExpr>| with_values(expr, values);
        let steps = self.steps.iter().map(|step| step.map(bind)).collect::<Result<Vec<_>>>()?;
        let filter = match &self.predicate {
            Some(predicate) => Some(self.view.key_filter(bind(predicate)?)?),
            None => None,
        };
        let leaf = self.leaf.of_view(&self.view, filter);
        let rows = leaf.read(snapshot, 0)?.map(move |batch| {
            let mut batch = batch?;
            for step in &steps {
                batch = step.run(&batch, &JoinedRows::default())?;
            }
            Ok(batch)
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), rows)))
    }
}
