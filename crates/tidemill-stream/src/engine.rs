//! The engine: all streams' events go in here, all views' states come out.
//!
//! The *committer* takes the writes of all sessions that wait at that moment, folds their events into one delta of state
//! a view, logs the deltas as one record, syncs if one of the writers asked for that, applies them to the views under the
//! gate and answers the writers. For a small group one of the writers' sessions is the committer, the *leader*, which
//! passes the lead on: no other thread is woken. Otherwise it is a thread, and if much waits, the *folder* folds it while
//! that thread syncs the group before. So the group grows with the load, and the latency of a lone writer is that of its
//! own sync.

mod cascade;
mod checkpoint;
mod commit;
mod fold_group;
mod maintain;
mod queue;
mod record;
mod recover;
mod run_store;
mod running;
mod thread;
mod write_set;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use arrow::array::RecordBatch;
use parking_lot::{Mutex, RwLock};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::clock::{Clock, SystemClock};
use crate::disk::Disk;
use crate::engine::cascade::Registry;
use crate::engine::commit::Committer;
use crate::engine::queue::{Answer, Lead, Queue};
use crate::error::{Error, Result};
use crate::join::Joins;
use crate::run::Run;
use crate::stream::StreamId;
use crate::transform::Transform;
use crate::view::{Frozen, Snapshot, States, View, ViewId};

pub use commit::Fatal;
pub(crate) use run_store::run_schema;
pub(crate) use running::Running;
pub use write_set::{WriteSet, Written};

/// A small group waits so long for the sessions that wrote a moment ago, whose clients have just been answered: a sync for
/// ten rows costs what one for five does. Linux adds its timer slack of 50 us.
const GATHER: Duration = Duration::from_micros(10);
/// Bytes of events and deltas that may wait; a writer beyond that waits itself.
pub const QUEUE_BYTES_MAX: usize = 64 << 20;

/// When a write is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Accepted in memory.
    Async,
    /// Visible in every view.
    SyncReceive,
    /// Visible, and synced to disk.
    SyncCommit,
}

#[derive(Debug, Clone)]
pub struct Options {
    /// A checkpoint is due when the log has grown by this many bytes and by twice the size of the state.
    pub checkpoint_log_bytes: u64,
    /// Readers of a write that goes on see what it had folded this long ago at the latest.
    pub publish_delay: Duration,
    /// Size of a log segment.
    pub segment_bytes: u64,
    /// State in memory beyond this goes to disk.
    pub memory_bytes: usize,
    /// How long a small group gathers the writes of other sessions.
    pub commit_delay: Duration,
    /// Larger states are written to runs, smaller ones into the checkpoint's record.
    pub inline_bytes: usize,
    /// Decoded blocks of runs that are kept in memory.
    pub cache_bytes: usize,
    /// Held back on disk for a checkpoint when the disk is full.
    pub reserve_bytes: u64,
    /// Tells which panes are in a sliding window.
    pub clock: Arc<dyn Clock>,
    /// Where the writers of a group are woken, by one task: from a thread outside each of them costs a wake-up of a
    /// thread. Without it the committer wakes them.
    pub runtime: Option<Handle>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            checkpoint_log_bytes: 256 << 10,
            publish_delay: Duration::from_millis(30),
            segment_bytes: 16 << 20,
            memory_bytes: 512 << 20,
            commit_delay: Duration::ZERO,
            inline_bytes: 1 << 20,
            cache_bytes: 128 << 20,
            reserve_bytes: 256 << 10,
            clock: Arc::new(SystemClock),
            runtime: None,
        }
    }
}

/// One part of a write: everything in a write is applied at one commit, or nothing.
#[derive(Debug)]
pub enum Part {
    /// Events of a stream, for all its active readers or only those in `targets`.
    Events { stream: StreamId, targets: Option<Arc<[ViewId]>>, batch: RecordBatch },
    /// States that the writer has folded itself.
    Delta { view: ViewId, states: States },
    /// States that the writer has folded itself and that no longer fit into memory.
    Runs { view: ViewId, runs: Vec<Arc<Run>> },
    /// Forget the state of a view.
    Truncate { view: ViewId },
    /// Give the state of a view to another of the same columns.
    Move { from: ViewId, to: ViewId },
}

/// What travels to the committer.
pub(crate) struct Write {
    parts: Vec<Part>,
    /// Of the parts.
    bytes: usize,
    level: Level,
    /// Folds of the same write that readers see until the commit replaces them.
    running: Option<Arc<running::Running>>,
    answer: Option<oneshot::Sender<Answer>>,
    /// Room in the queue, given back when the write has been folded.
    _room: OwnedSemaphorePermit,
}

pub(crate) struct Shared {
    options: Options,
    registry: RwLock<Registry>,
    runs: run_store::RunStore,
    /// Held while a commit is applied and while a snapshot is taken: all views are read at one commit.
    gate: Mutex<()>,
    room: Arc<Semaphore>,
    queue: Queue,
    fatal: Fatal,
    maintenance: maintain::Maintenance,
    /// Writes that go on.
    write_sets: AtomicUsize,
    /// Bytes of memory that the states of all views take: as of the maintenance thread's last look, and what came since.
    memory: AtomicUsize,
    log_bytes: AtomicU64,
    commits: AtomicU64,
}

pub struct Engine {
    shared: Arc<Shared>,
    committer: Arc<Mutex<Committer>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Engine {
    /// Opens the log in `disk`, brings `views` to the state of the last commit and starts the threads.
    pub fn open(
        disk: Arc<dyn Disk>,
        options: Options,
        views: Vec<Arc<View>>,
        fatal: Fatal,
    ) -> Result<Engine> {
        let mut registry = Registry::default();
        for view in views {
            registry.insert_view(view);
        }
        let (log, recovered) = recover::recover(&disk, &options, &registry)?;
        let shared = Arc::new(Shared {
            options,
            registry: RwLock::new(registry),
            runs: recovered.runs,
            gate: Mutex::new(()),
            room: Arc::new(Semaphore::new(QUEUE_BYTES_MAX)),
            queue: Queue::default(),
            fatal,
            maintenance: maintain::Maintenance::new(recovered.named),
            log_bytes: AtomicU64::new(log.size_bytes()),
            write_sets: AtomicUsize::new(0),
            memory: AtomicUsize::new(0),
            commits: AtomicU64::new(0),
        });
        let committer = Arc::new(Mutex::new(Committer::new(Arc::clone(&shared), log)));
        let threads = commit::start(&shared, &committer).map_err(|e| Error::Stopped(e.to_string()))?;
        Ok(Engine { shared, committer, threads: Mutex::new(threads) })
    }

    /// Adds a view; what is written from now on is folded into it.
    pub fn add_view(&self, view: Arc<View>) {
        self.shared.registry.write().insert_view(view);
    }

    /// Removes a view and its state. The caller has made sure that the catalog no longer names it.
    pub fn remove_view(&self, id: ViewId) {
        let view = self.shared.registry.write().remove_view(id);
        if let Some(view) = view {
            self.shared.maintenance.retire(view.state.lock().runs().iter().cloned());
        }
    }

    /// Adds a transform; what is written from now on goes through it. The caller has made sure that no stream feeds itself
    /// by it.
    pub fn add_transform(&self, transform: Arc<Transform>) {
        self.shared.registry.write().insert_transform(transform);
    }

    pub fn remove_transform(&self, id: ViewId) {
        self.shared.registry.write().remove_transform(id);
    }

    /// Gives what is written to its streams to a view or a transform from now on, or no longer.
    pub fn set_active(&self, id: ViewId, active: bool) {
        let registry = self.shared.registry.read();
        if let Some(view) = registry.views.get(&id) {
            view.set_active(active);
        }
        if let Some(transform) = registry.transforms.get(&id) {
            transform.set_active(active);
        }
    }

    pub fn view(&self, id: ViewId) -> Option<Arc<View>> {
        self.shared.registry.read().views.get(&id).cloned()
    }

    /// The joins of all that takes what is written to `stream`, and what transforms make of it.
    pub fn joins(&self, stream: StreamId, targets: Option<&[ViewId]>) -> Vec<(ViewId, Arc<Joins>)> {
        self.shared.registry.read().joins(stream, targets)
    }

    /// Which change of a state was the last.
    pub fn version(&self, view: ViewId) -> Option<u64> {
        self.shared.registry.read().views.get(&view).map(|view| view.version())
    }

    /// Writes all parts at one commit and returns when `level` is reached. Waits while the queue is full.
    pub async fn write(&self, parts: Vec<Part>, level: Level) -> Result<()> {
        self.submit(parts, level, None, || ()).await
    }

    /// Like [`Engine::write`]. `submitted` is told when the write can't be taken back any more; before that, while it
    /// waits for room, dropping the future takes it back.
    pub async fn write_with(
        &self,
        parts: Vec<Part>,
        level: Level,
        submitted: impl FnOnce() + Send,
    ) -> Result<()> {
        self.submit(parts, level, None, submitted).await
    }

    async fn submit(
        &self,
        parts: Vec<Part>,
        level: Level,
        running: Option<Arc<running::Running>>,
        submitted: impl FnOnce() + Send,
    ) -> Result<()> {
        let bytes: usize = parts.iter().map(Part::bytes).sum();
        let permits = bytes.clamp(1, QUEUE_BYTES_MAX) as u32;
        let room = Arc::clone(&self.shared.room)
            .acquire_many_owned(permits)
            .await
            .map_err(|_| self.shared.stopped())?;
        submitted();
        if level == Level::Async {
            let write = Write { parts, bytes, level, running, answer: None, _room: room };
            return self.shared.queue.push(write, None).map(drop).map_err(|_| self.shared.stopped());
        }
        let (answer, mut done) = oneshot::channel();
        let write = Write { parts, bytes, level, running, answer: Some(answer), _room: room };
        let lead = self.shared.queue.push(write, self.may_lead()).map_err(|_| self.shared.stopped())?;
        if let Some(lead) = lead {
            self.lead(lead).await;
        }
        loop {
            match done.await {
                Ok(Answer::Written(result)) => return result,
                Ok(Answer::Lead(lead, next)) => {
                    done = next;
                    self.lead(lead).await;
                }
                Err(_) => return Err(self.shared.stopped()),
            }
        }
    }

    /// A session is a task of a runtime, and who wants groups to grow for a while has a thread wait for that.
    fn may_lead(&self) -> Option<&Arc<Shared>> {
        let options = &self.shared.options;
        (options.runtime.is_some() && options.commit_delay.is_zero()).then_some(&self.shared)
    }

    /// Lets the sessions that are ready write too, and commits. The sync keeps this worker of the runtime waiting, and no
    /// second one.
    async fn lead(&self, lead: Lead) {
        tokio::task::yield_now().await;
        if self.shared.queue.is_worth_waiting() {
            std::thread::sleep(GATHER);
        }
        if let Some(mut committer) = self.committer.try_lock() {
            committer.lead(lead);
        }
    }

    /// Starts a write whose events are folded as they come, by the caller's thread: for COPY and transactions.
    /// With `visible`, readers see them before the write ends.
    pub fn begin(self: &Arc<Self>, visible: bool) -> WriteSet {
        WriteSet::new(Arc::clone(self), visible)
    }

    /// Returns when everything accepted before is visible, and durable.
    pub async fn flush(&self) -> Result<()> {
        self.write(Vec::new(), Level::SyncCommit).await
    }

    /// Forgets the state of a view, in order with the writes around it.
    pub async fn truncate(&self, view: ViewId) -> Result<()> {
        self.write(vec![Part::Truncate { view }], Level::SyncCommit).await
    }

    /// Gives all that a view has to another of the same columns, in order with the writes around it: what one is written to
    /// while the other is worked off.
    pub async fn hand_over(&self, from: ViewId, to: ViewId) -> Result<()> {
        self.write(vec![Part::Move { from, to }], Level::SyncCommit).await
    }

    /// Takes away the groups of a view that have outlived its time to live, and tells how many. They have not been shown
    /// since they expired: this is about memory and disk.
    pub async fn expire(&self, view: ViewId) -> Result<u64> {
        let Some(view) = self.view(view) else { return Ok(0) };
        let done = self.shared.maintenance.request_burial(view);
        done.await.unwrap_or_else(|_| Err(self.shared.stopped()))
    }

    /// The states of `views` at one commit; views that are gone are left out.
    pub fn snapshot(&self, views: &[ViewId]) -> Result<Snapshot> {
        let views: Vec<Arc<View>> = {
            let registry = self.shared.registry.read();
            views.iter().filter_map(|id| registry.views.get(id).cloned()).collect()
        };
        let _gate = self.shared.gate.lock();
        // Read once: all windows of a query end at the same time.
        let now_us = self.shared.options.clock.now_us();
        let mut states: HashMap<ViewId, Frozen> = HashMap::new();
        for view in &views {
            let mut frozen = view.state.lock().freeze()?;
            frozen.first_pane = view.plan.window.map(|window| window.first_pane(now_us));
            frozen.alive = view.alive(now_us);
            states.insert(view.id, frozen);
        }
        running::append_running(&views, &mut states, self.shared.options.publish_delay)?;
        Ok(Snapshot::new(states))
    }

    /// Bytes on disk: log and runs.
    pub fn disk_bytes(&self) -> u64 {
        self.log_bytes() + self.shared.runs.bytes()
    }

    /// Bytes of the log's segments.
    pub fn log_bytes(&self) -> u64 {
        self.shared.log_bytes.load(Ordering::Relaxed)
    }

    /// The error of the disk after which the engine takes nothing more.
    pub fn failure(&self) -> Option<String> {
        self.shared.fatal.cause()
    }

    /// Commit groups since the start.
    pub fn commits(&self) -> u64 {
        self.shared.commits.load(Ordering::Relaxed)
    }

    /// Takes in what waits, writes a checkpoint and ends the threads.
    pub fn shutdown(&self) {
        self.shared.queue.close();
        self.shared.maintenance.stop();
        for thread in self.threads.lock().drain(..) {
            if thread.join().is_err() {
                tracing::error!("a thread of the engine panicked");
            }
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.shutdown();
    }
}

impl Part {
    fn as_runs(&self) -> Option<(ViewId, Vec<Arc<Run>>)> {
        match self {
            Part::Runs { view, runs } => Some((*view, runs.clone())),
            _ => None,
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Part::Events { batch, .. } => batch.get_array_memory_size(),
            Part::Delta { states, .. } => states.memory_bytes(),
            Part::Runs { .. } | Part::Truncate { .. } | Part::Move { .. } => 0,
        }
    }
}

impl Shared {
    fn stopped(&self) -> Error {
        Error::Stopped(self.fatal.cause().unwrap_or_else(|| "shutdown".into()))
    }

    fn view(&self, id: ViewId) -> Option<Arc<View>> {
        self.registry.read().views.get(&id).cloned()
    }

    /// What a write that goes on may hold in memory.
    fn write_set_bytes(&self) -> usize {
        write_set::share_bytes(self.options.memory_bytes, self.write_sets.load(Ordering::Relaxed))
    }
}

/// Where the log lies in the data directory.
fn log_dir() -> PathBuf {
    PathBuf::from("log")
}
