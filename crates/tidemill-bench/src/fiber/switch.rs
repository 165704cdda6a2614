//! The switch between the stacks of fibers: the one place that knows how it is done.

use std::cell::Cell;
use std::io;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};

use super::Wait;

/// SQLite evaluates on the client's stack. Only what is touched is memory.
const STACK_BYTES: usize = 1 << 20;

type Pause = Yielder<(), Wait>;

thread_local! {
    /// How the fiber that runs in this thread pauses; none between fibers.
    static RUNNING: Cell<Option<*const Pause>> = const { Cell::new(None) };
}

pub(super) struct Fiber(Coroutine<(), Wait, ()>);

pub(super) enum State {
    Waits(Wait),
    Ended,
}

impl Fiber {
    pub fn new(body: Box<dyn FnOnce()>) -> io::Result<Self> {
        let stack = DefaultStack::new(STACK_BYTES)?;
        Ok(Self(Coroutine::with_stack(stack, move |pause: &Pause, ()| {
            RUNNING.set(Some(std::ptr::from_ref(pause)));
            body();
        })))
    }

    /// Until it waits for something. Not to be called on a fiber that has ended.
    pub fn resume(&mut self) -> State {
        let paused = self.0.resume(());
        RUNNING.set(None);
        match paused {
            CoroutineResult::Yield(wait) => State::Waits(wait),
            CoroutineResult::Return(()) => State::Ended,
        }
    }
}

/// Pauses the fiber that calls it; none, and at once, where no fiber runs.
#[allow(unsafe_code)]
pub(super) fn suspend(wait: Wait) -> Option<()> {
    let running = RUNNING.get()?;
    // SAFETY: `RUNNING` is set while the fiber that it belongs to runs in this thread, and cleared whenever that fiber
    // pauses or ends (`resume`); the pointee lives on that fiber's stack, below this very call.
    unsafe { &*running }.suspend(wait);
    RUNNING.set(Some(running));
    Some(())
}
