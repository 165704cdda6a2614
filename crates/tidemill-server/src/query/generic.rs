//! The query of a prepared statement, which is planned once if that is enough.
//!
//! PostgreSQL calls it a generic plan: the values of the parameters come when it is carried out. Here it is for what is
//! asked again and again and planned longer than carried out: reads of one view or table, above all of a key.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use arrow::datatypes::SchemaRef;
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result as PlanResult;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan, Volatility};
use parking_lot::Mutex;
use tidemill_sql::Result;
use tidemill_sql::planner::parameter::without_placeholders;
use tidemill_sql::planner::plan_error;
use tidemill_sql::types::{Type, vector_oid};
use tidemill_stream::view::GenericPlan;

use super::kept::KeptPlan;
use super::{Reads, Running, named_types, relabelled};
use crate::server::Server;

/// What is executed less often is not worth a plan of its own.
const EXECUTIONS_MIN: u64 = 2;

#[derive(Debug)]
pub struct PreparedQuery {
    pub plan: LogicalPlan,
    custom_plans: AtomicU64,
    generic_plans: AtomicU64,
    generic: OnceLock<Option<Generic>>,
    /// Of a query without parameters.
    kept: Mutex<Option<Arc<KeptPlan>>>,
}

#[derive(Debug)]
struct Generic {
    plan: GenericPlan,
    /// As the client sees it.
    schema: SchemaRef,
}

impl PreparedQuery {
    pub fn new(plan: LogicalPlan) -> Self {
        Self {
            plan,
            custom_plans: AtomicU64::new(0),
            generic_plans: AtomicU64::new(0),
            generic: OnceLock::new(),
            kept: Mutex::default(),
        }
    }

    pub fn kept(&self) -> Option<Arc<KeptPlan>> {
        self.kept.lock().clone()
    }

    pub fn keep(&self, plan: Option<Arc<KeptPlan>>) {
        *self.kept.lock() = plan;
    }

    /// It was carried out by the plan that is kept.
    pub fn note_kept(&self) {
        self.generic_plans.fetch_add(1, Ordering::Relaxed);
    }

    /// How often it was planned for the values at hand, and how often it was not.
    pub fn executions(&self) -> (u64, u64) {
        (self.custom_plans.load(Ordering::Relaxed), self.generic_plans.load(Ordering::Relaxed))
    }

    /// Whether the time has come for a generic plan.
    pub fn wants_plan(&self) -> bool {
        self.generic.get().is_none() && self.custom_plans.load(Ordering::Relaxed) + 1 >= EXECUTIONS_MIN
    }

    /// Makes the generic plan, if there can be one.
    pub async fn make_plan(&self, state: &SessionState) {
        let generic = self.generic_plan(state).await.unwrap_or_else(|error| {
            // The statement goes on: a plan with the values works, or tells the client what is wrong.
            tracing::debug!(%error, "no generic plan");
            None
        });
        self.generic.get_or_init(|| generic);
    }

    async fn generic_plan(&self, state: &SessionState) -> PlanResult<Option<Generic>> {
        if !is_simple(&self.plan)? {
            return Ok(None);
        }
        let Some(plan) = without_placeholders(state.optimize(&self.plan)?)? else { return Ok(None) };
        let physical = state.query_planner().create_physical_plan(&plan, state).await?;
        let Some(plan) = GenericPlan::compile(&physical) else { return Ok(None) };
        let schema = named_types(self.plan.schema().fields(), plan.schema());
        let is_plain = |field| {
            vector_oid(field).is_none() && Type::of_field(field).is_ok_and(|ty| !ty.scalar.is_object_name())
        };
        let all_plain = schema.fields().iter().all(|field| is_plain(field.as_ref()));
        Ok(all_plain.then_some(Generic { plan, schema }))
    }

    /// By the generic plan; `None` if there is none, and then the execution counts as planned with its values.
    pub fn run(&self, server: &Server, values: &[ScalarValue], reads: Reads) -> Result<Option<Running>> {
        let Some(Some(generic)) = self.generic.get() else {
            self.custom_plans.fetch_add(1, Ordering::Relaxed);
            return Ok(None);
        };
        self.generic_plans.fetch_add(1, Ordering::Relaxed);
        let snapshot = reads.snapshot(server, &[generic.plan.view()])?;
        let stream = generic.plan.execute(values, &snapshot).map_err(plan_error)?;
        Ok(Some(Running {
            schema: Arc::clone(&generic.schema),
            stream: relabelled(stream, Arc::clone(&generic.schema)),
            snapshots: None,
            nodes: None,
        }))
    }
}

/// Whether it only filters and projects one relation, by functions that give the same whenever they are called.
fn is_simple(plan: &LogicalPlan) -> PlanResult<bool> {
    let is_simple = |node: &LogicalPlan| {
        matches!(
            node,
            LogicalPlan::Projection(_)
                | LogicalPlan::Filter(_)
                | LogicalPlan::SubqueryAlias(_)
                | LogicalPlan::TableScan(_)
        )
    };
    Ok(!plan.exists(|node| Ok(!is_simple(node)))? && !has(plan, &changes)?)
}

/// Whether a plan has such an expression somewhere.
pub(super) fn has(plan: &LogicalPlan, is_meant: &dyn Fn(&Expr) -> bool) -> PlanResult<bool> {
    let mut has = false;
    plan.apply(|node| {
        for expr in node.expressions() {
            has |= expr.exists(|expr| Ok(is_meant(expr)))?;
        }
        Ok(if has { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(has)
}

/// Whether it is another value in another transaction, under other settings or in another place.
pub(super) fn changes(expr: &Expr) -> bool {
    match expr {
        Expr::ScalarFunction(call) => call.func.signature().volatility != Volatility::Immutable,
        Expr::ScalarSubquery(_)
        | Expr::InSubquery(_)
        | Expr::Exists(_)
        | Expr::SetComparison(_)
        | Expr::OuterReferenceColumn(..) => true,
        _ => false,
    }
}
