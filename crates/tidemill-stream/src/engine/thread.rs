//! Threads of the engine. Those that tidy up give way to those that somebody waits for.

use std::io;
use std::thread::{Builder, JoinHandle};

use tokio::runtime::{Handle, RuntimeFlavor};

/// The nice value of threads whose work only has to get done some time.
const BACKGROUND_NICE: libc::c_int = 10;

/// A thread that writers or readers wait for.
pub(super) fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    Builder::new().name(name.into()).spawn(body)
}

/// A thread that merges what could also stay as it is.
pub(super) fn spawn_background(
    name: &str,
    body: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    spawn(name, move || {
        be_nice();
        body();
    })
}

/// Work that takes long, on a thread that may be one of the runtime's: others take over what that one would do.
pub(super) fn blocking<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}

/// On Linux a nice value is a thread's own. That it can't be set, as in some sandboxes, costs latency and nothing else.
#[allow(unsafe_code)]
fn be_nice() {
    // SAFETY: takes numbers only; 0 is the calling thread.
    let result = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, BACKGROUND_NICE) };
    if result != 0 {
        tracing::debug!(error = %io::Error::last_os_error(), "could not lower the priority of a thread");
    }
}
