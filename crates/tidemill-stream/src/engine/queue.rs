//! The writes on their way to the log, and who commits them.

use std::mem;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex, MutexGuard};
use tokio::sync::oneshot;

use crate::engine::fold_group::Group;
use crate::engine::{Part, Shared, Write};
use crate::error::Result;

/// Writes in one commit group at most.
const GROUP_WRITES_MAX: usize = 4096;
/// A group of at most this many bytes of events and deltas is folded by whoever commits it: some 40,000 events take a
/// millisecond, and to hand them to two threads costs more than these do at the same time.
const INLINE_BYTES_MAX: usize = 512 << 10;
/// A group of so many writes is not worth waiting for more: its sync costs each of them little.
const GROUP_WRITES_WANTED: usize = 8;
/// So many sessions that write much keep two processors busy while the disk syncs a part of them, and are not to wait
/// for each other.
const OVERLAP_WRITERS: usize = 4;
/// What a write has at least that is not cheap by itself: a few hundred events, by whose number a sync is divided.
const OVERLAP_WRITE_BYTES: usize = 8 << 10;

/// The writes that wait, and the group that the folder has ready for the committer.
///
/// A small group is folded and committed by the session of one of its writers, the *leader*: waking another thread costs
/// more than all of that. It passes the lead on to a session whose write came meanwhile. Where there is no session to
/// lead, or more to do than a group, the committer's thread does it. So it does while several sessions write some hundred
/// events each: it syncs what half of them wrote while the other half prepare theirs on all processors, which is worth
/// the thread that is woken. A large group is folded by the folder, while the committer syncs the one before it. Groups
/// are taken in order: nobody takes writes while an earlier group is being folded or committed by a leader, or waits for
/// the committer.
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
    /// A session leads or is about to.
    led: bool,
    /// The committer's thread does something, with or without a group.
    busy: bool,
    /// The committer is to look around.
    called: bool,
    closed: bool,
    /// Writes of the group that is being committed.
    taken: usize,
    /// … of the last one, and of those that came meanwhile: so many sessions write at the moment, about.
    writers: usize,
}

/// What a writer is told.
pub(super) enum Answer {
    Written(Result<()>),
    /// Commit the group that the write is in; the answer to the write comes here.
    Lead(Lead, oneshot::Receiver<Answer>),
}

/// The right to take the next group if it is small, and the duty: whoever loses it has the committer do it.
pub(super) struct Lead(Arc<Shared>);

impl Drop for Lead {
    fn drop(&mut self) {
        self.0.queue.resign();
    }
}

/// What the committer does next.
pub(super) enum Next {
    Fold(Vec<Write>),
    Commit(Group),
    Idle,
    Closed,
}

impl QueueState {
    fn is_free(&self) -> bool {
        !self.led && !self.folding && self.folded.is_none() && !self.writes.is_empty()
    }

    fn is_for_folder(&self) -> bool {
        self.is_free() && self.bytes > INLINE_BYTES_MAX
    }

    fn is_for_committer(&self) -> bool {
        self.is_free() && self.bytes <= INLINE_BYTES_MAX
    }

    /// Whether the sessions go on while the committer's thread syncs what some of them wrote.
    fn is_for_overlap(&self) -> bool {
        self.writers >= OVERLAP_WRITERS && self.bytes >= self.writes.len() * OVERLAP_WRITE_BYTES
    }

    fn take(&mut self) -> Vec<Write> {
        let rest = self.writes.split_off(group_end(&self.writes));
        let writes = mem::replace(&mut self.writes, rest);
        self.bytes = self.writes.iter().map(|w| w.bytes).sum();
        self.taken = writes.len();
        writes
    }

    /// The group that was taken is committed.
    fn count_writers(&mut self) {
        if self.taken > 0 {
            self.writers = mem::take(&mut self.taken) + self.writes.len();
        }
    }
}

impl Queue {
    /// Gives the write back if the queue is closed. Its session is to lead if it may and nobody else does anything.
    pub(super) fn push(
        &self,
        write: Write,
        may_lead: Option<&Arc<Shared>>,
    ) -> Result<Option<Lead>, Box<Write>> {
        let mut state = self.state.lock();
        if state.closed {
            return Err(Box::new(write));
        }
        let was_for_committer = state.is_for_committer();
        state.bytes += write.bytes;
        state.writes.push(write);
        let (for_folder, for_committer) = (state.is_for_folder(), state.is_for_committer());
        if for_committer
            && !was_for_committer
            && !state.busy
            && !state.is_for_overlap()
            && let Some(shared) = may_lead
        {
            state.led = true;
            return Ok(Some(Lead(Arc::clone(shared))));
        }
        drop(state);
        if for_folder {
            self.large.notify_one();
        } else if for_committer && !was_for_committer {
            self.ready.notify_one();
        }
        Ok(None)
    }

    /// The group of whoever has the lead; none if it has become large.
    pub(super) fn take_led(&self, _: &Lead) -> Option<Vec<Write>> {
        let mut state = self.state.lock();
        if state.writes.is_empty() || state.bytes > INLINE_BYTES_MAX {
            return None;
        }
        Some(state.take())
    }

    /// Whether the group is small and lacks the writes of sessions that wrote a moment ago.
    pub(super) fn is_worth_waiting(&self) -> bool {
        let state = self.state.lock();
        state.writes.len() < state.writers.min(GROUP_WRITES_WANTED)
    }

    /// Gives the lead to a session whose write waits, if that is all that is to be done.
    pub(super) fn pass_on(&self, lead: Lead) {
        let mut state = self.state.lock();
        state.count_writers();
        let mut lead = Some(lead);
        let is_for_session = state.bytes <= INLINE_BYTES_MAX && !state.is_for_overlap();
        if !state.closed && !state.called && is_for_session {
            for write in &mut state.writes {
                let Some(waiting) = write.answer.take() else { continue };
                let (answer, done) = oneshot::channel();
                let Some(token) = lead.take() else { break };
                match waiting.send(Answer::Lead(token, done)) {
                    Ok(()) => {
                        write.answer = Some(answer);
                        break;
                    }
                    // That session has gone away.
                    Err(Answer::Lead(token, _)) => lead = Some(token),
                    Err(Answer::Written(_)) => {}
                }
            }
        }
        drop(state);
        drop(lead);
    }

    fn resign(&self) {
        let mut state = self.state.lock();
        state.led = false;
        let (for_folder, for_committer) = (state.is_for_folder(), state.is_for_committer());
        // It waits for the lead to end before it looks around or stops.
        let is_awaited = state.called || state.closed;
        drop(state);
        if for_folder {
            self.large.notify_one();
        }
        if for_committer || is_awaited {
            self.ready.notify_one();
        }
    }

    /// Has the committer look around.
    pub(super) fn call_committer(&self) {
        self.state.lock().called = true;
        self.ready.notify_one();
    }

    /// The committer is gone: nobody is to wait for it any more.
    pub(super) fn abandon(&self) {
        let mut state = self.state.lock();
        let (writes, folded) = (mem::take(&mut state.writes), state.folded.take());
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
    pub(super) fn take_large(&self) -> Option<Vec<Write>> {
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

    pub(super) fn put_folded(&self, group: Group) {
        let mut state = self.state.lock();
        state.folding = false;
        state.folded = Some(group);
        drop(state);
        self.ready.notify_one();
    }

    /// The committer waits for something to do, at most for `patience`.
    pub(super) fn next(&self, patience: Duration, delay: Duration) -> Next {
        let mut state = self.state.lock();
        state.busy = false;
        if !state.led {
            state.count_writers();
        }
        let next = self.wait(&mut state, patience, delay);
        state.busy = true;
        next
    }

    fn wait(&self, state: &mut MutexGuard<'_, QueueState>, patience: Duration, delay: Duration) -> Next {
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
                    MutexGuard::unlocked(state, || gather(delay));
                    continue;
                }
                return Next::Fold(state.take());
            }
            if mem::take(&mut state.called) {
                return Next::Idle;
            }
            if state.closed && !state.folding && !state.led && state.writes.is_empty() {
                self.large.notify_all();
                return Next::Closed;
            }
            if self.ready.wait_for(state, patience).timed_out() {
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

/// A truncation or a move is a group of its own: it comes after what was written before it and before what comes after.
fn group_end(writes: &[Write]) -> usize {
    let is_alone = |w: &Write| w.parts.iter().any(|p| matches!(p, Part::Truncate { .. } | Part::Move { .. }));
    if writes.first().is_some_and(is_alone) {
        return 1;
    }
    writes.iter().position(is_alone).unwrap_or(writes.len()).min(GROUP_WRITES_MAX)
}

#[cfg(test)]
mod tests {
    use tokio::sync::Semaphore;

    use super::*;
    use crate::engine::Level;

    fn write(bytes: usize) -> Write {
        let room = Arc::new(Semaphore::new(1)).try_acquire_owned().expect("the only permit");
        Write { parts: Vec::new(), bytes, level: Level::SyncCommit, running: None, answer: None, _room: room }
    }

    /// After a group of `taken` writes, while the writes of so many `bytes` wait.
    fn is_for_overlap(taken: usize, bytes: &[usize]) -> bool {
        let mut state = QueueState { taken, ..QueueState::default() };
        state.writes = bytes.iter().map(|bytes| write(*bytes)).collect();
        state.bytes = bytes.iter().sum();
        state.count_writers();
        state.is_for_overlap()
    }

    #[test]
    fn sessions_that_write_much_do_not_wait_for_each_other() {
        const LARGE: usize = OVERLAP_WRITE_BYTES;
        assert!(is_for_overlap(2, &[LARGE, LARGE]));
        assert!(is_for_overlap(3, &[2 * LARGE]), "one that waits, three that have been answered");
        assert!(!is_for_overlap(1, &[LARGE, LARGE]), "too few to keep the processors busy");
        assert!(!is_for_overlap(10, &[500, 500]), "a sync for each few rows is dear");
        assert!(!is_for_overlap(1, &[]));
    }

    #[test]
    fn the_writers_are_counted_when_a_group_was_committed() {
        let mut state = QueueState::default();
        state.writes.extend([write(1), write(1)]);
        assert_eq!(state.take().len(), 2);
        state.writes.push(write(1));
        state.count_writers();
        assert_eq!(state.writers, 3);
        // Nothing was committed since.
        state.count_writers();
        assert_eq!(state.writers, 3);
    }
}
