//! The two threads of a commit: the folder and the committer.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::engine::fold_group::{Group, fold_group};
use crate::engine::maintain::Maintainer;
use crate::engine::queue::{Answer, Lead, Next, Queue};
use crate::engine::thread::{spawn, spawn_background};
use crate::engine::{Level, Part, Shared, Write, record};
use crate::error::{Error, Result, disk_full};
use crate::log::{Log, LogError, Lsn};
use crate::run::Run;
use crate::view::{States, ViewId};

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

/// However the committer's thread ends, with a panic too.
struct Abandon<'a>(&'a Queue);

impl Drop for Abandon<'_> {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

/// Dropped while a session that leads panics: what it has done of the group nobody knows.
struct Panic<'a>(&'a Shared);

impl Drop for Panic<'_> {
    fn drop(&mut self) {
        self.0.fatal.raise("a commit panicked");
        self.0.queue.abandon();
    }
}

pub(super) fn start(
    shared: &Arc<Shared>,
    committer: &Arc<Mutex<Committer>>,
) -> std::io::Result<Vec<JoinHandle<()>>> {
    let folder = {
        let shared = Arc::clone(shared);
        spawn("folder", move || fold_forever(&shared))?
    };
    let committing = {
        let (shared, committer) = (Arc::clone(shared), Arc::clone(committer));
        spawn("committer", move || commit_forever(&shared, &committer))?
    };
    let maintainer = {
        let maintainer = Maintainer::new(Arc::clone(shared));
        spawn_background("maintainer", move || maintainer.run())?
    };
    Ok(vec![folder, committing, maintainer])
}

fn fold_forever(shared: &Shared) {
    while let Some(writes) = shared.queue.take_large() {
        shared.queue.put_folded(fold_group(shared, writes));
    }
}

fn commit_forever(shared: &Shared, committer: &Mutex<Committer>) {
    let _abandon = Abandon(&shared.queue);
    loop {
        let patience = committer.lock().patience();
        let next = shared.queue.next(patience, shared.options.commit_delay);
        let mut committer = committer.lock();
        match next {
            Next::Fold(writes) => committer.commit(fold_group(shared, writes)),
            Next::Commit(group) => committer.commit(group),
            Next::Idle if committer.lacks_commits() => committer.try_checkpoint(),
            Next::Idle => {}
            Next::Closed => break,
        }
        committer.sync_if_late();
        committer.checkpoint_if_due();
        committer.wait_for_memory();
    }
    committer.lock().checkpoint_at_end();
}

/// Writes the log. Whoever has it, the thread or a session that leads, does nothing that another would have to wait for
/// without it.
pub(super) struct Committer {
    pub(super) shared: Arc<Shared>,
    pub(super) log: Log,
    /// Bytes of log since the last checkpoint.
    pub(super) since_checkpoint: u64,
    /// … when it was last looked whether one is due.
    pub(super) looked_at: u64,
    /// The last record that the views hold.
    pub(super) applied: Lsn,
    /// When the first record was written that is not synced yet.
    unsynced_since: Option<Instant>,
    /// The thread is one of the runtime's.
    in_session: bool,
    payload: Vec<u8>,
}

impl Committer {
    pub(super) fn new(shared: Arc<Shared>, log: Log) -> Self {
        let since_checkpoint = log.size_bytes();
        let applied = log.last_lsn();
        Self {
            shared,
            log,
            since_checkpoint,
            looked_at: 0,
            applied,
            unsynced_since: None,
            in_session: false,
            payload: Vec::new(),
        }
    }

    fn patience(&self) -> Duration {
        if self.unsynced_since.is_some() { LAZY_SYNC } else { IDLE }
    }

    /// Commits the group that the lead is for, and passes the lead on.
    pub(super) fn lead(&mut self, lead: Lead) {
        if self.lacks_memory() {
            return;
        }
        let shared = Arc::clone(&self.shared);
        let Some(writes) = shared.queue.take_led(&lead) else { return };
        let in_panic = Panic(&shared);
        let was_synced = self.unsynced_since.is_none();
        self.in_session = true;
        self.commit(fold_group(&shared, writes));
        self.in_session = false;
        std::mem::forget(in_panic);
        let is_late = self.since_checkpoint >= self.looked_at + shared.options.checkpoint_log_bytes;
        if (was_synced && self.unsynced_since.is_some()) || is_late || self.lacks_commits() {
            shared.queue.call_committer();
        }
        shared.queue.pass_on(lead);
    }

    fn lacks_memory(&self) -> bool {
        let limit = self.shared.options.memory_bytes;
        self.shared.memory.load(Ordering::Relaxed) > limit + (limit / 4).max(MEMORY_SLACK_MIN)
    }

    /// Writers that outrun the maintenance thread wait until it has written states to disk.
    fn wait_for_memory(&self) {
        if self.lacks_memory() {
            self.shared.maintenance.flush_and_wait(&[], MEMORY_PATIENCE);
        }
    }

    fn commit(&mut self, group: Group) {
        let Group { deltas, emptied, moved, writes, failed } = group;
        failed.iter().for_each(|(write, _)| self.retire_runs(write));
        self.answer(failed.into_iter().map(|(write, error)| (write, Err(error))));
        let level = writes.iter().map(|w| w.level).max().unwrap_or(Level::Async);
        let runs: Vec<_> = writes.iter().flat_map(|w| &w.parts).filter_map(Part::as_runs).collect();
        let logged = match moved.is_empty() {
            true => self.log_commit(&deltas, &runs, &emptied, level),
            false => self.log_moves(&moved),
        };
        match logged {
            Ok(()) => {
                self.move_states(&moved);
                self.apply(&deltas, runs, &emptied, writes);
            }
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
        deltas: &[(ViewId, States)],
        runs: &[(ViewId, Vec<Arc<Run>>)],
        emptied: &[ViewId],
        level: Level,
    ) -> Result<()> {
        self.check_alive()?;
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

    /// Whether something may be written.
    fn check_alive(&mut self) -> Result<()> {
        if let Some(cause) = self.shared.fatal.cause() {
            return Err(Error::Stopped(cause));
        }
        if self.lacks_commits() {
            self.checkpoint_with_reserve()?;
        }
        Ok(())
    }

    fn log_moves(&mut self, moved: &[(ViewId, ViewId)]) -> Result<()> {
        self.check_alive()?;
        self.payload.clear();
        record::encode_moves(moved, &mut self.payload);
        self.append(record::MOVE)?;
        self.sync()
    }

    fn move_states(&self, moved: &[(ViewId, ViewId)]) {
        if moved.is_empty() {
            return;
        }
        let _gate = self.shared.gate.lock();
        for (from, to) in moved {
            let (Some(from), Some(to)) = (self.shared.view(*from), self.shared.view(*to)) else { continue };
            to.note_change();
            from.note_change();
            if let Err(error) = to.take_state_of(&from) {
                tracing::error!(view = from.id.0, %error, "could not move the state of a view");
            }
        }
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
        deltas: &[(ViewId, States)],
        runs: Vec<(ViewId, Vec<Arc<Run>>)>,
        emptied: &[ViewId],
        writes: Vec<Write>,
    ) {
        // Until the next checkpoint a start may ask for them, whatever becomes of the views.
        self.shared.maintenance.name(runs.iter().flat_map(|(_, runs)| runs).cloned());
        {
            let gate = self.shared.gate.lock();
            for view in emptied.iter().filter_map(|id| self.shared.view(*id)) {
                view.note_change();
                let mut state = view.state.lock();
                self.shared.maintenance.retire(state.runs().iter().cloned());
                if let Err(error) = state.clear() {
                    tracing::error!(view = view.id.0, %error, "could not empty a view");
                }
            }
            for (id, runs) in runs {
                match self.shared.view(id) {
                    Some(view) => {
                        view.note_change();
                        runs.into_iter().for_each(|run| view.state.lock().add_run(run));
                    }
                    None => self.shared.maintenance.retire(runs),
                }
            }
            for (id, delta) in deltas {
                // A view that was dropped meanwhile wants nothing.
                if let Some(view) = self.shared.view(*id) {
                    view.apply(delta);
                    self.shared.memory.fetch_add(delta.memory_bytes(), Ordering::Relaxed);
                }
            }
            for running in writes.iter().filter_map(|w| w.running.as_ref()) {
                running.withdraw();
            }
            drop(gate);
        }
        self.applied = self.log.last_lsn();
        self.shared.commits.fetch_add(1, Ordering::SeqCst);
        self.shared.maintenance.stir();
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
                (Some(answer), result) => answers.push((answer, Answer::Written(result))),
                (None, Ok(())) => {}
                (None, Err(error)) => tracing::warn!(%error, "a write that was acknowledged early failed"),
            }
        }
        let several = answers.len() > 1;
        // A session may have gone away: its answer goes with it.
        let deliver = move || answers.into_iter().for_each(|(answer, told)| drop(answer.send(told)));
        match &self.shared.options.runtime {
            Some(runtime) if several && !self.in_session => drop(runtime.spawn(async move { deliver() })),
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
