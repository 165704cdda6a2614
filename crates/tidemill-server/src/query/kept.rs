//! Plans of queries of which all work is left to foreign servers, kept for whoever asks the same again.
//!
//! Such a query may take the servers half a millisecond, and to plan it takes more than one.
//! A plan is as good as a new one while all is as it was that it was made of: the text, the catalog, the session's settings,
//! and what the servers tell of their tables, which are asked as they are for a new plan. What depends on more is not kept:
//! on the clock, or on a function that is not immutable, unless it is a cast, which the time zone is enough for.
//!
//! ```text
//! SortPreservingMerge: v, fetch=1
//!   Union
//!     ForeignScan: SELECT v FROM t ORDER BY v LIMIT 1
//!     ForeignScan: SELECT v FROM t ORDER BY v LIMIT 1
//! ```

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::datatypes::Fields;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::UnionExec;
use lru::LruCache;
use parking_lot::Mutex;
use tidemill_federation::fact::{Telling, Told};
use tidemill_federation::pushdown::limit::InTurnExec;
use tidemill_federation::scan::ForeignScanExec;
use tidemill_sql::Result;
use tidemill_sql::function::cast;
use tidemill_sql::planner::{SessionVars, plan_error};
use tidemill_sql::text::Now;

use super::generic::{changes, has};
use super::{Reads, Ready};
use crate::server::Server;
use crate::settings::Overridden;

/// Texts whose plans are kept.
const PLANS_MAX: NonZeroUsize = NonZeroUsize::new(64).expect("it is not zero");
/// Longest text that is kept.
const TEXT_BYTES_MAX: usize = 4096;
/// Scans of a plan that is kept at most: about five kilobytes each.
const SCANS_MAX: usize = 64;

/// What a plan is made of, besides what foreign servers tell.
#[derive(Debug, Clone, PartialEq)]
pub struct Basis {
    /// The version of the catalog.
    pub catalog: u64,
    pub settings: Overridden,
}

/// Sees what else is asked for while a query is planned.
pub struct Watch {
    basis: Basis,
    now: Now,
    telling: Arc<Telling>,
}

impl Watch {
    /// `None`: it would keep no plan of this query.
    pub fn over(plan: &LogicalPlan, state: &SessionState, basis: Basis) -> Option<Self> {
        let now = state.config().options().extensions.get::<SessionVars>()?.transaction_now.clone();
        let telling = state.config().get_extension::<Telling>()?;
        let stays = || !has(plan, &|expr| changes(expr) && !is_cast(expr)).unwrap_or(true);
        (now.was_read() == Some(false) && stays()).then_some(Self { basis, now, telling })
    }

    /// `None`: it is for this execution only.
    pub fn keep(self, ready: &Ready) -> Option<Arc<KeptPlan>> {
        let (scans, told) = (scans(&ready.physical)?, self.telling.take());
        if scans > SCANS_MAX || self.now.was_read() == Some(true) || told.has_states() {
            return None;
        }
        let (physical, fields) = (Arc::clone(&ready.physical), ready.fields.clone());
        Some(Arc::new(KeptPlan { physical, fields, basis: self.basis, told }))
    }
}

/// It may depend on the clock, which is noted, and on the settings.
fn is_cast(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarFunction(call) if cast::is_cast(&call.func))
}

#[derive(Debug)]
pub struct KeptPlan {
    physical: Arc<dyn ExecutionPlan>,
    /// Of the logical plan.
    fields: Fields,
    basis: Basis,
    told: Told,
}

impl KeptPlan {
    /// Whether it would be the same if it was made now.
    pub async fn is_good(&self, basis: &Basis) -> bool {
        self.basis == *basis && self.told.holds().await
    }

    pub fn ready(
        &self,
        server: &Server,
        state: SessionState,
        reads: Reads,
        memory_limit_bytes: usize,
    ) -> Result<Ready> {
        let physical = reset_plan_states(Arc::clone(&self.physical)).map_err(plan_error)?;
        Ready::new(server, state, physical, self.fields.clone(), reads, memory_limit_bytes)
    }
}

/// How many foreign tables a plan reads if it does nothing but put rows together; `None` if there is more to it.
fn scans(plan: &Arc<dyn ExecutionPlan>) -> Option<usize> {
    if let Some(scan) = plan.downcast_ref::<ForeignScanExec>() {
        return scan.dynamic_filters().next().is_none().then_some(1);
    }
    let is_plain = |expr: &Arc<dyn PhysicalExpr>| expr.is::<Column>() || expr.is::<Literal>();
    let passes = match plan.downcast_ref::<ProjectionExec>() {
        Some(projection) => projection.expr().iter().all(|item| is_plain(&item.expr)),
        None => {
            plan.is::<UnionExec>()
                || plan.is::<CoalescePartitionsExec>()
                || plan.is::<SortPreservingMergeExec>()
                || plan.is::<InTurnExec>()
                || plan.is::<CooperativeExec>()
                || plan.is::<GlobalLimitExec>()
                || plan.is::<LocalLimitExec>()
        }
    };
    if !passes {
        return None;
    }
    plan.children().into_iter().map(scans).sum()
}

/// The plans of all sessions, by text.
#[derive(Debug)]
pub struct KeptPlans {
    plans: Mutex<LruCache<String, Arc<KeptPlan>>>,
    /// How often one was used instead of a new one.
    uses: AtomicU64,
}

impl Default for KeptPlans {
    fn default() -> Self {
        Self { plans: Mutex::new(LruCache::new(PLANS_MAX)), uses: AtomicU64::new(0) }
    }
}

impl KeptPlans {
    pub fn get(&self, text: &str) -> Option<Arc<KeptPlan>> {
        self.plans.lock().get(text).cloned()
    }

    /// A catalog that has changed since the plan was made has dropped its plans already: `version` is asked under the lock.
    pub fn put(&self, text: &str, plan: Arc<KeptPlan>, version: impl FnOnce() -> u64) {
        let mut plans = self.plans.lock();
        if text.len() <= TEXT_BYTES_MAX && plan.basis.catalog == version() {
            plans.put(text.to_string(), plan);
        }
    }

    /// They hold on to the servers that they read.
    pub fn clear(&self) {
        self.plans.lock().clear();
    }

    pub fn note_use(&self) {
        self.uses.fetch_add(1, Ordering::Relaxed);
    }

    pub fn uses(&self) -> u64 {
        self.uses.load(Ordering::Relaxed)
    }
}
