//! What clients see, on its way to the thread that records it.

use std::cell::{Cell, RefCell};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A thread's clients hand over what they saw in batches: when there are so many samples, or the batch is so old.
const BATCH_SAMPLES: usize = 64;
const BATCH_AGE_NS: u64 = 50_000_000;
/// The watcher is called when so many samples lie there; with more than the maximum, clients wait: memory is bounded,
/// and the lag shows it.
const CALL_SAMPLES: usize = 8 << 10;
const SAMPLES_MAX: usize = 32 << 10;

/// One slot, and what became of it. Times are nanoseconds since the start of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    pub client: u32,
    pub operation: u16,
    pub kind: Kind,
    /// The client was free and waited for the slot, so that a late begin is the generator's doing.
    pub was_idle: bool,
    pub due_ns: u64,
    pub begin_ns: u64,
    pub end_ns: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Done,
    Failed,
    /// Over its limit before it could begin.
    Skipped,
    /// Due before the end of the run, and not begun by then.
    Backlog,
}

/// Slots that were passed over together, evenly spread over their time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Passed {
    pub operation: u16,
    /// Skipped or backlog.
    pub kind: Kind,
    pub from_ns: u64,
    pub until_ns: u64,
    pub count: u64,
}

impl Sample {
    /// Of client 0, which was not idle.
    pub fn new(operation: u16, kind: Kind, due_ns: u64, begin_ns: u64, end_ns: u64) -> Sample {
        Sample { client: 0, operation, kind, was_idle: false, due_ns, begin_ns, end_ns }
    }
}

/// Where all threads leave their batches.
#[derive(Default)]
pub(crate) struct Inbox(Mutex<Vec<Sample>>);

impl Inbox {
    /// True when it is time for the watcher to look.
    fn add(&self, batch: &mut Vec<Sample>) -> bool {
        let mut samples = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while samples.len() >= SAMPLES_MAX {
            drop(samples);
            std::thread::sleep(Duration::from_millis(1));
            samples = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        }
        let before = samples.len();
        samples.append(batch);
        before < CALL_SAMPLES && samples.len() >= CALL_SAMPLES
    }

    /// `into` is empty, and is what the next batches are put into.
    pub fn fetch(&self, into: &mut Vec<Sample>) {
        std::mem::swap(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), into);
    }
}

/// The batch of one thread.
pub(crate) struct Outbox<F: Fn()> {
    inbox: Arc<Inbox>,
    batch: RefCell<Vec<Sample>>,
    sent_ns: Cell<u64>,
    call_watcher: F,
}

impl<F: Fn()> Outbox<F> {
    pub fn new(inbox: Arc<Inbox>, call_watcher: F) -> Self {
        let batch = RefCell::new(Vec::with_capacity(BATCH_SAMPLES));
        Self { inbox, batch, sent_ns: Cell::new(0), call_watcher }
    }

    pub fn push(&self, sample: Sample) {
        self.batch.borrow_mut().push(sample);
        let is_old = sample.end_ns.saturating_sub(self.sent_ns.get()) >= BATCH_AGE_NS;
        if is_old || self.batch.borrow().len() >= BATCH_SAMPLES {
            self.sent_ns.set(sample.end_ns);
            self.send();
        }
    }

    /// At once, what there is.
    pub fn send(&self) {
        if self.inbox.add(&mut self.batch.borrow_mut()) {
            (self.call_watcher)();
        }
    }
}
