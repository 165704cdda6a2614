//! A continuous view: its plan, split into what runs at each event, the state, and what runs at each read.

mod carry;
mod exec;
mod generic;
mod lookup;
mod plan;
mod read;
mod state;
mod states;
mod table;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use arrow::array::RecordBatch;
use datafusion::physical_expr::PhysicalExpr;
use parking_lot::Mutex;

use crate::engine::Running;
use crate::fold::Fold;
use crate::join::Joins;
use crate::ttl::{Alive, TimeToLive};
use crate::view::lookup::KeyFilter;

pub use exec::{Snapshot, StateExec, state_views};
pub use generic::GenericPlan;
pub(crate) use plan::view_session;
pub use plan::{ViewPlan, compile};
pub use state::{Frozen, Layer, ViewState};
pub use states::States;
pub(crate) use states::key_hashes;
pub use table::{ViewTable, as_view};

/// A fold that has grown beyond this is not kept for the next group of writes.
const SPARE_FOLD_BYTES_MAX: usize = 64 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
pub struct ViewId(pub u32);

/// A view that is kept up to date.
#[derive(Debug)]
pub struct View {
    pub id: ViewId,
    pub plan: Arc<ViewPlan>,
    /// Those of its front.
    joins: Arc<Joins>,
    /// An inactive view is readable and skips what is written meanwhile.
    active: AtomicBool,
    pub(crate) state: Mutex<ViewState>,
    /// Writes that have not ended and that readers may see.
    pub(crate) running: Mutex<Vec<Arc<Running>>>,
    /// An empty fold for the next group of writes: to make one costs more than to fold a row.
    spare: Mutex<Option<Fold>>,
    time_to_live: Mutex<Option<TimeToLive>>,
    /// When what had expired was last looked for.
    buried_us: AtomicI64,
    /// Somebody has looked up keys: large parts of the state are worth an index.
    looked_up: AtomicBool,
    /// How often the state has changed since the start.
    changes: AtomicU64,
    pub stats: ViewStats,
}

/// Counters since the server started.
#[derive(Debug, Default)]
pub struct ViewStats {
    pub input_rows: AtomicU64,
    pub input_bytes: AtomicU64,
    pub input_batches: AtomicU64,
    pub errors: AtomicU64,
    pub fold_us: AtomicU64,
    /// What the commits brought: deltas of state, their rows and bytes, and the time to apply them.
    pub deltas: AtomicU64,
    pub delta_rows: AtomicU64,
    pub delta_bytes: AtomicU64,
    pub apply_us: AtomicU64,
}

impl View {
    pub fn new(id: ViewId, plan: Arc<ViewPlan>, active: bool) -> crate::Result<Self> {
        let state = Mutex::new(ViewState::new(Arc::clone(&plan.aggregation))?);
        Ok(Self {
            id,
            joins: Joins::of(&plan.front),
            plan,
            active: AtomicBool::new(active),
            state,
            running: Mutex::default(),
            spare: Mutex::default(),
            time_to_live: Mutex::default(),
            buried_us: AtomicI64::new(i64::MIN),
            looked_up: AtomicBool::new(false),
            changes: AtomicU64::new(0),
            stats: ViewStats::default(),
        })
    }

    pub(crate) fn count_input(&self, batch: &RecordBatch) {
        self.stats.input_rows.fetch_add(batch.num_rows() as u64, Ordering::Relaxed);
        self.stats.input_bytes.fetch_add(batch.get_array_memory_size() as u64, Ordering::Relaxed);
        self.stats.input_batches.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_error(&self) {
        self.stats.errors.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_time(&self, elapsed: std::time::Duration) {
        self.stats.fold_us.fetch_add(elapsed.as_micros() as u64, Ordering::Relaxed);
    }

    /// Merges the delta of a commit that is in the log. That it can't be merged is a fault of an aggregate, which a start
    /// meets again: the view goes on without it there too.
    pub(crate) fn apply(&self, delta: &States) {
        self.note_change();
        let started = std::time::Instant::now();
        let applied = self.state.lock().apply(delta);
        self.stats.deltas.fetch_add(1, Ordering::Relaxed);
        self.stats.delta_rows.fetch_add(delta.num_rows() as u64, Ordering::Relaxed);
        self.stats.delta_bytes.fetch_add(delta.get_array_memory_size() as u64, Ordering::Relaxed);
        self.stats.apply_us.fetch_add(started.elapsed().as_micros() as u64, Ordering::Relaxed);
        if let Err(error) = applied {
            self.count_error();
            tracing::error!(view = self.id.0, %error, "could not apply a commit to a view");
        }
    }

    /// Before those who wrote are answered: what has the same version has the same rows.
    pub(crate) fn note_change(&self) {
        self.changes.fetch_add(1, Ordering::Release);
    }

    pub fn version(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// All that another view of the same columns has, which then has nothing.
    pub(crate) fn take_state_of(&self, other: &View) -> crate::Result<()> {
        let taken = {
            let mut state = other.state.lock();
            let taken = state.committed()?;
            state.clear()?;
            taken
        };
        self.state.lock().add(taken)
    }

    pub fn is_active(&self) -> bool {
        self.active.load(Ordering::Acquire)
    }

    pub fn joins(&self) -> &Arc<Joins> {
        &self.joins
    }

    pub fn time_to_live(&self) -> Option<TimeToLive> {
        *self.time_to_live.lock()
    }

    pub fn set_time_to_live(&self, time_to_live: Option<TimeToLive>) {
        *self.time_to_live.lock() = time_to_live;
    }

    /// What is alive, of a view with a time to live.
    pub(crate) fn alive(&self, now_us: i64) -> Option<Alive> {
        self.time_to_live().map(|time_to_live| time_to_live.at(now_us))
    }

    /// What is alive, if it is time to take away what is not.
    pub(crate) fn alive_if_due(&self, now_us: i64) -> Option<Alive> {
        let time_to_live = self.time_to_live()?;
        let last = self.buried_us.load(Ordering::Relaxed);
        if now_us < last.saturating_add(time_to_live.period_us()) {
            return None;
        }
        self.buried_us.store(now_us, Ordering::Relaxed);
        Some(time_to_live.at(now_us))
    }

    /// States with unique keys, with an index if look-ups want one: none of them is to scan what is large.
    pub(crate) fn states(&self, batch: RecordBatch) -> crate::Result<States> {
        let states = States::from(batch);
        if self.is_looked_up() && states.wants_index() {
            states.make_index(self.plan.aggregation.key_count())?;
        }
        Ok(states)
    }

    /// One batch of several, in commit order.
    pub(crate) fn merge(&self, states: &[States]) -> crate::Result<States> {
        match states {
            [only] => Ok(only.clone()),
            several => self.states(self.plan.aggregation.combine(several)?),
        }
    }

    /// An empty fold for events of the view.
    pub(crate) fn begin_fold(&self) -> crate::Result<Fold> {
        match self.spare.lock().take() {
            Some(fold) => Ok(fold),
            None => Ok(Fold::new(&self.plan.aggregation)?),
        }
    }

    /// Keeps a fold that was frozen for the next one who wants one, if it has not become large.
    pub(crate) fn end_fold(&self, fold: Fold) {
        if fold.size() <= SPARE_FOLD_BYTES_MAX {
            *self.spare.lock() = Some(fold);
        }
    }

    pub(crate) fn is_looked_up(&self) -> bool {
        self.looked_up.load(Ordering::Relaxed)
    }

    /// The groups that a condition on the keys wants.
    fn key_filter(&self, predicate: Arc<dyn PhysicalExpr>) -> datafusion::error::Result<Arc<KeyFilter>> {
        let filter = KeyFilter::try_new(predicate, self.plan.aggregation.key_schema())?;
        if filter.is_lookup() {
            self.looked_up.store(true, Ordering::Relaxed);
        }
        Ok(Arc::new(filter))
    }

    pub(crate) fn set_active(&self, active: bool) {
        self.active.store(active, Ordering::Release);
    }

    /// Bytes of its runs on disk; what is in memory is in the log.
    pub fn disk_bytes(&self) -> u64 {
        self.state.lock().runs().iter().map(|run| run.bytes()).sum()
    }

    /// Its runs on disk: how many, and their bytes.
    pub fn on_disk(&self) -> (usize, u64) {
        let state = self.state.lock();
        (state.runs().len(), state.runs().iter().map(|run| run.bytes()).sum())
    }

    /// Number of groups (rows, for a view without aggregates) and bytes of memory. Groups that were touched in
    /// several parts of the tree count once a part.
    pub fn size(&self) -> (usize, usize) {
        let state = self.state.lock();
        (state.groups(), state.memory())
    }

    /// The number that [`View::size`] gives.
    pub fn groups(&self) -> usize {
        self.state.lock().groups()
    }
}
