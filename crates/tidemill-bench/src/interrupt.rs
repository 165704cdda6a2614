//! Ctrl-C ends a run early and keeps what was measured; a second one ends the program.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag::{register, register_conditional_shutdown};

use crate::target::Target;

static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// What a shell reports for a program that SIGINT ended.
const KILLED: i32 = 130;

/// How often somebody looks whether there was a signal.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// From the first request to give up to the end of the connections.
const GRACE: Duration = Duration::from_secs(1);

/// From here on a first signal only sets the flag.
pub fn listen() -> std::io::Result<()> {
    let flag = FLAG.get_or_init(Arc::default);
    for signal in [SIGINT, SIGTERM] {
        // In this order: the first signal finds the flag unset, the second one finds it set.
        register_conditional_shutdown(signal, KILLED, Arc::clone(flag))?;
        register(signal, Arc::clone(flag))?;
    }
    Ok(())
}

pub fn interrupted() -> bool {
    FLAG.get().is_some_and(|flag| flag.load(Ordering::Relaxed))
}

/// Does what asks a target beside a run, such as a check. After a signal the server is asked to give it up, and what does not end
/// then ends with its connections; it comes back with an error.
pub fn cancelling<T>(target: &Target, work: impl FnOnce() -> T) -> T {
    std::thread::scope(|scope| {
        let (working, is_over) = mpsc::channel::<()>();
        scope.spawn(move || cancel_when_interrupted(target, &is_over));
        let done = work();
        drop(working);
        done
    })
}

fn cancel_when_interrupted(target: &Target, is_over: &mpsc::Receiver<()>) {
    let mut since: Option<Instant> = None;
    while is_over.recv_timeout(LOOK_EVERY) == Err(RecvTimeoutError::Timeout) {
        if !interrupted() {
            continue;
        }
        if since.get_or_insert_with(Instant::now).elapsed() >= GRACE {
            return target.give_up();
        }
        // Again and again: between two questions there is nothing that could be given up.
        target.cancel();
    }
}
