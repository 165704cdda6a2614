//! Ctrl-C ends a run early and keeps what was measured; a second one ends the program.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag::{register, register_conditional_shutdown};

static FLAG: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// What a shell reports for a program that SIGINT ended.
const KILLED: i32 = 130;

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
