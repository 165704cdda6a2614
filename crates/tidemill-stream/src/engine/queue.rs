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

/// The writes that wait, and the group that the folder has ready for the committer.
///
/// A small group is folded and committed by the session of one of its writers, the *leader*: waking another thread costs
/// more than all of that. It passes the lead on to a session whose write came meanwhile. Where there is no session to
/// lead, or more to do than a group, the committer's thread does it. A large group is folded by the folder, while the
/// committer syncs the one before it. Groups are taken in order: nobody takes writes while an earlier group is being
/// folded or committed by a leader, or waits for the committer.
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
    /// Writes of the last group that was led.
    led_writes: usize,
    /// … and of those that came while it was committed: so many sessions write at the moment, about.
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

    fn take(&mut self) -> Vec<Write> {
        let rest = self.writes.split_off(group_end(&self.writes));
        let writes = mem::replace(&mut self.writes, rest);
        self.bytes = self.writes.iter().map(|w| w.bytes).sum();
        writes
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
        let writes = state.take();
        state.led_writes = writes.len();
        Some(writes)
    }

    /// Whether the group is small and lacks the writes of sessions that wrote a moment ago.
    pub(super) fn is_worth_waiting(&self) -> bool {
        let state = self.state.lock();
        state.writes.len() < state.writers.min(GROUP_WRITES_WANTED)
    }

    /// Gives the lead to a session whose write waits, if that is all that is to be done.
    pub(super) fn pass_on(&self, lead: Lead) {
        let mut state = self.state.lock();
        state.writers = state.led_writes + state.writes.len();
        let mut lead = Some(lead);
        if !state.closed && !state.called && state.bytes <= INLINE_BYTES_MAX {
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

/// A truncation is a group of its own: it comes after what was written before it and before what comes after.
fn group_end(writes: &[Write]) -> usize {
    let truncates = |w: &Write| w.parts.iter().any(|p| matches!(p, Part::Truncate { .. }));
    if writes.first().is_some_and(truncates) {
        return 1;
    }
    writes.iter().position(truncates).unwrap_or(writes.len()).min(GROUP_WRITES_MAX)
}
