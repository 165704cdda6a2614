//! The two threads of a commit: the folder and the committer.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::engine::fold_group::{Group, fold_group};
use crate::engine::maintain::Maintainer;
use crate::engine::thread::{spawn, spawn_background};
use crate::engine::{Level, Part, Shared, Write, record};
use crate::error::{Error, Result, disk_full};
use crate::log::{Log, LogError, Lsn};
use crate::run::Run;
use crate::view::ViewId;

/// Writes in one commit group at most.
const GROUP_WRITES_MAX: usize = 4096;
/// A group of at most this many bytes of events and deltas is folded by the committer.
const INLINE_BYTES_MAX: usize = 64 << 10;
/// What was acknowledged without a sync is synced this much later at most.
const LAZY_SYNC: Duration = Duration::from_millis(10);
/// What the states may take beyond their limit before writers wait, at least.
const MEMORY_SLACK_MIN: usize = 16 << 20;
/// So long for one group: a disk that is full is for the log to notice.
const MEMORY_PATIENCE: Duration = Duration::from_secs(10);
/// Of the buffer of a record.
const PAYLOAD_BYTES_KEPT: usize = 1 << 20;
/// How often the committer looks whether states want merging while nothing is written.
const IDLE: Duration = Duration::from_millis(200);

/// Told once when the engine can't go on: an error of the disk after which nothing that was not synced can be trusted.
#[derive(Clone)]
pub struct Fatal {
    cause: Arc<Mutex<Option<String>>>,
    tell: Arc<dyn Fn(&str) + Send + Sync>,
}

impl Fatal {
    pub fn new(tell: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self { cause: Arc::default(), tell: Arc::new(tell) }
    }

    pub fn cause(&self) -> Option<String> {
        self.cause.lock().clone()
    }

    fn raise(&self, cause: &str) {
        let mut slot = self.cause.lock();
        if slot.is_none() {
            *slot = Some(cause.to_string());
            drop(slot);
            tracing::error!(cause, "the engine stops: what was not synced can't be trusted any more");
            (self.tell)(cause);
        }
    }
}

/// The writes on their way: those that wait, and the group that the folder has ready for the committer.
///
/// A small group is folded by the committer itself, because waking another thread costs more than the folding; a large
/// one by the folder, while the committer syncs the one before it. Groups are taken in order: nobody takes writes while
/// an earlier group is being folded or waits for the committer.
#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<QueueState>,
    /// For the folder.
    large: Condvar,
    /// For the committer.
    ready: Condvar,
}

#[derive(Default)]
struct QueueState {
    writes: Vec<Write>,
    /// Of the events and deltas in `writes`.
    bytes: usize,
    folding: bool,
    folded: Option<Group>,
    closed: bool,
}

impl QueueState {
    fn is_free(&self) -> bool {
        !self.folding && self.folded.is_none() && !self.writes.is_empty()
    }

    fn is_for_folder(&self) -> bool {
        self.is_free() && self.bytes > INLINE_BYTES_MAX
    }

    fn is_for_committer(&self) -> bool {
        self.is_free() && self.bytes <= INLINE_BYTES_MAX
    }

    fn take(&mut self) -> Vec<Write> {
        let rest = self.writes.split_off(group_end(&self.writes));
        let writes = std::mem::replace(&mut self.writes, rest);
        self.bytes = self.writes.iter().map(|w| w.bytes).sum();
        writes
    }
}

/// However the committer ends, with a panic too.
struct Abandon<'a>(&'a Queue);

impl Drop for Abandon<'_> {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

/// What the committer does next.
enum Next {
    Fold(Vec<Write>),
    Commit(Group),
    Idle,
    Closed,
}

impl Queue {
    /// Gives the write back if the queue is closed.
    pub(super) fn push(&self, write: Write) -> Result<(), Box<Write>> {
        let mut state = self.state.lock();
        if state.closed {
            return Err(Box::new(write));
        }
        let was_for_committer = state.is_for_committer();
        state.bytes += write.bytes;
        state.writes.push(write);
        let (for_folder, for_committer) = (state.is_for_folder(), state.is_for_committer());
        drop(state);
        if for_folder {
            self.large.notify_one();
        } else if for_committer && !was_for_committer {
            self.ready.notify_one();
        }
        Ok(())
    }

    /// The committer is gone: nobody is to wait for it any more.
    fn abandon(&self) {
        let mut state = self.state.lock();
        let (writes, folded) = (std::mem::take(&mut state.writes), state.folded.take());
        state.bytes = 0;
        drop(state);
        self.close();
        drop((writes, folded));
    }

    pub(super) fn close(&self) {
        self.state.lock().closed = true;
        self.large.notify_all();
        self.ready.notify_all();
    }

    /// The folder waits for a large group; `None` once the queue is closed.
    fn take_large(&self) -> Option<Vec<Write>> {
        let mut state = self.state.lock();
        while !state.is_for_folder() {
            if state.closed && state.writes.is_empty() {
                return None;
            }
            self.large.wait(&mut state);
        }
        state.folding = true;
        Some(state.take())
    }

    fn put_folded(&self, group: Group) {
        let mut state = self.state.lock();
        state.folding = false;
        state.folded = Some(group);
        drop(state);
        self.ready.notify_one();
    }

    /// The committer waits for something to do, at most for `patience`.
    fn next(&self, patience: Duration, delay: Duration) -> Next {
        let mut state = self.state.lock();
        let mut gathered = false;
        loop {
            if let Some(group) = state.folded.take() {
                if state.is_for_folder() {
                    self.large.notify_one();
                }
                return Next::Commit(group);
            }
            if state.is_for_committer() {
                if !gathered {
                    gathered = true;
                    MutexGuard::unlocked(&mut state, || gather(delay));
                    continue;
                }
                return Next::Fold(state.take());
            }
            if state.closed && !state.folding && state.writes.is_empty() {
                self.large.notify_all();
                return Next::Closed;
            }
            if self.ready.wait_for(&mut state, patience).timed_out() {
                return Next::Idle;
            }
        }
    }
}

/// Lets the group grow. Without a delay sessions that are about to write run first, if there are any, and nobody waits.
fn gather(delay: Duration) {
    if delay.is_zero() {
        std::thread::yield_now();
    } else {
        std::thread::sleep(delay);
    }
}

/// A truncation is a group of its own: it comes after what was written before it and before what comes after.
fn group_end(writes: &[Write]) -> usize {
    let truncates = |w: &Write| w.parts.iter().any(|p| matches!(p, Part::Truncate { .. }));
    if writes.first().is_some_and(truncates) {
        return 1;
    }
    writes.iter().position(truncates).unwrap_or(writes.len()).min(GROUP_WRITES_MAX)
}

pub(super) fn start(shared: &Arc<Shared>, log: Log) -> std::io::Result<Vec<JoinHandle<()>>> {
    let folder = {
        let shared = Arc::clone(shared);
        spawn("folder", move || fold_forever(&shared))?
    };
    let committer = {
        let mut committer = Committer::new(Arc::clone(shared), log);
        spawn("committer", move || committer.run())?
    };
    let maintainer = {
        let maintainer = Maintainer::new(Arc::clone(shared));
        spawn_background("maintainer", move || maintainer.run())?
    };
    Ok(vec![folder, committer, maintainer])
}

fn fold_forever(shared: &Shared) {
    while let Some(writes) = shared.queue.take_large() {
        shared.queue.put_folded(fold_group(shared, writes));
    }
}

pub(super) struct Committer {
    pub(super) shared: Arc<Shared>,
    pub(super) log: Log,
    /// Bytes of log since the last checkpoint.
    pub(super) since_checkpoint: u64,
    /// The last record that the views hold.
    pub(super) applied: Lsn,
    /// When the first record was written that is not synced yet.
    unsynced_since: Option<Instant>,
    payload: Vec<u8>,
}

impl Committer {
    fn new(shared: Arc<Shared>, log: Log) -> Self {
        let since_checkpoint = log.size_bytes();
        let applied = log.last_lsn();
        Self { shared, log, since_checkpoint, applied, unsynced_since: None, payload: Vec::new() }
    }

    fn run(&mut self) {
        let shared = Arc::clone(&self.shared);
        let _abandon = Abandon(&shared.queue);
        loop {
            self.wait_for_memory();
            let patience = if self.unsynced_since.is_some() { LAZY_SYNC } else { IDLE };
            match shared.queue.next(patience, shared.options.commit_delay) {
                Next::Fold(writes) => self.commit(fold_group(&shared, writes)),
                Next::Commit(group) => self.commit(group),
                Next::Idle if self.lacks_commits() => self.try_checkpoint(),
                Next::Idle => {}
                Next::Closed => break,
            }
            self.sync_if_late();
            self.checkpoint_if_due();
        }
        self.checkpoint_at_end();
    }

    /// Writers that outrun the maintenance thread wait until it has written states to disk.
    fn wait_for_memory(&self) {
        let limit = self.shared.options.memory_bytes;
        let over = || self.shared.memory.load(Ordering::Relaxed) > limit + (limit / 4).max(MEMORY_SLACK_MIN);
        if over() {
            self.shared.maintenance.flush_and_wait(&[], MEMORY_PATIENCE);
        }
    }

    fn commit(&mut self, group: Group) {
        let Group { deltas, emptied, writes, failed } = group;
        failed.iter().for_each(|(write, _)| self.retire_runs(write));
        self.answer(failed.into_iter().map(|(write, error)| (write, Err(error))));
        let level = writes.iter().map(|w| w.level).max().unwrap_or(Level::Async);
        let runs: Vec<_> = writes.iter().flat_map(|w| &w.parts).filter_map(Part::as_runs).collect();
        let logged = self.log_commit(&deltas, &runs, &emptied, level);
        match logged {
            Ok(()) => self.apply(&deltas, runs, &emptied, writes),
            Err(error) => self.refuse(writes, error),
        }
    }

    /// Nothing of the group is in the log or the views.
    fn refuse(&mut self, writes: Vec<Write>, error: Error) {
        let text = error.to_string();
        let full = matches!(error, Error::Log(LogError::DiskFull(_)));
        if full || matches!(error, Error::Log(LogError::TooLarge { .. })) {
            writes.iter().for_each(|write| self.retire_runs(write));
        } else {
            // Nobody knows what is in the log.
            self.give_up(&text);
        }
        let mut first = Some(error);
        self.answer(writes.into_iter().map(|write| {
            let error = first.take().unwrap_or_else(|| match full {
                true => Error::Sql(disk_full(text.clone())),
                false => Error::Stopped(text.clone()),
            });
            (write, Err(error))
        }));
    }

    /// What a write has put into runs is not wanted.
    fn retire_runs(&self, write: &Write) {
        let runs = write.parts.iter().filter_map(Part::as_runs);
        self.shared.maintenance.retire(runs.flat_map(|(_, runs)| runs));
    }

    fn log_commit(
        &mut self,
        deltas: &[(ViewId, RecordBatch)],
        runs: &[(ViewId, Vec<Arc<Run>>)],
        emptied: &[ViewId],
        level: Level,
    ) -> Result<()> {
        if let Some(cause) = self.shared.fatal.cause() {
            return Err(Error::Stopped(cause));
        }
        if self.lacks_commits() {
            self.checkpoint_with_reserve()?;
        }
        self.payload.clear();
        if !emptied.is_empty() || !runs.is_empty() {
            record::encode_emptied(emptied, &mut self.payload);
            record::encode_runs(runs, &mut self.payload);
            record::encode_commit(deltas, &mut self.payload)?;
            self.append(record::FULL_COMMIT)?;
        } else if !deltas.is_empty() {
            record::encode_commit(deltas, &mut self.payload)?;
            self.append(record::COMMIT)?;
        }
        // One large commit need not cost its memory for ever.
        self.payload.shrink_to(PAYLOAD_BYTES_KEPT);
        if level == Level::SyncCommit {
            self.sync()?;
        }
        Ok(())
    }

    /// Commits that were acknowledged before they were synced can be in the views and not in the log: a full disk met
    /// at their sync cuts them off. A checkpoint brings them in; without it nothing may be written after them.
    fn lacks_commits(&self) -> bool {
        self.log.last_lsn() < self.applied
    }

    fn append(&mut self, kind: u8) -> Result<()> {
        self.log.append(kind, &[&self.payload])?;
        self.unsynced_since.get_or_insert_with(Instant::now);
        self.since_checkpoint += self.payload.len() as u64;
        Ok(())
    }

    /// Afterwards everything before is durable, or cut off.
    pub(super) fn sync(&mut self) -> Result<()> {
        self.unsynced_since = None;
        self.log.sync()?;
        Ok(())
    }

    fn apply(
        &mut self,
        deltas: &[(ViewId, RecordBatch)],
        runs: Vec<(ViewId, Vec<Arc<Run>>)>,
        emptied: &[ViewId],
        writes: Vec<Write>,
    ) {
        // Until the next checkpoint a start may ask for them, whatever becomes of the views.
        self.shared.maintenance.name(runs.iter().flat_map(|(_, runs)| runs).cloned());
        {
            let gate = self.shared.gate.lock();
            for view in emptied.iter().filter_map(|id| self.shared.view(*id)) {
                let mut state = view.state.lock();
                self.shared.maintenance.retire(state.runs().iter().cloned());
                if let Err(error) = state.clear() {
                    tracing::error!(view = view.id.0, %error, "could not empty a view");
                }
            }
            for (id, runs) in runs {
                match self.shared.view(id) {
                    Some(view) => runs.into_iter().for_each(|run| view.state.lock().add_run(run)),
                    None => self.shared.maintenance.retire(runs),
                }
            }
            for (id, delta) in deltas {
                // A view that was dropped meanwhile wants nothing.
                if let Some(view) = self.shared.view(*id) {
                    view.apply(delta);
                    self.shared.memory.fetch_add(delta.get_array_memory_size(), Ordering::Relaxed);
                }
            }
            for running in writes.iter().filter_map(|w| w.running.as_ref()) {
                running.withdraw();
            }
            drop(gate);
        }
        self.applied = self.log.last_lsn();
        self.shared.commits.fetch_add(1, Ordering::Relaxed);
        self.shared.log_bytes.store(self.log.size_bytes(), Ordering::Relaxed);
        self.answer(writes.into_iter().map(|write| (write, Ok(()))));
    }

    /// Tells the writers what became of their writes.
    fn answer(&self, written: impl Iterator<Item = (Write, Result<()>)>) {
        let mut answers = Vec::new();
        for (write, result) in written {
            if result.is_err()
                && let Some(running) = &write.running
            {
                running.withdraw();
            }
            match (write.answer, result) {
                (Some(answer), result) => answers.push((answer, result)),
                (None, Ok(())) => {}
                (None, Err(error)) => tracing::warn!(%error, "a write that was acknowledged early failed"),
            }
        }
        let several = answers.len() > 1;
        // A session may have gone away: its answer goes with it.
        let deliver = move || answers.into_iter().for_each(|(answer, result)| drop(answer.send(result)));
        match &self.shared.options.runtime {
            Some(runtime) if several => drop(runtime.spawn(async move { deliver() })),
            _ => deliver(),
        }
    }

    pub(super) fn give_up(&self, cause: &str) {
        self.shared.fatal.raise(cause);
        self.shared.queue.close();
    }

    fn sync_if_late(&mut self) {
        if self.unsynced_since.is_none_or(|since| since.elapsed() < LAZY_SYNC) {
            return;
        }
        match self.sync() {
            Ok(()) => {}
            Err(error @ Error::Log(LogError::DiskFull(_))) => {
                tracing::warn!(%error, "what was acknowledged without a sync is not on disk yet");
            }
            Err(error) => self.give_up(&error.to_string()),
        }
    }
}
