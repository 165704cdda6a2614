//! Threads of queries: a task that computes for seconds in one poll keeps no session waiting there.

use std::io;

use parking_lot::Mutex;
use tokio::runtime::{Builder, Handle, Runtime};

/// What a thread of queries may use as its stack: as much as one of a session, for the same plans.
const STACK_BYTES: usize = 8 << 20;

/// Threads of the tasks into which what computes for long is divided. Nothing does in most servers most of the time, so
/// they start when the first query wants them.
#[derive(Debug, Default)]
pub struct QueryThreads(Mutex<Option<Runtime>>);

impl QueryThreads {
    pub fn handle(&self) -> io::Result<Handle> {
        let mut runtime = self.0.lock();
        if let Some(started) = &*runtime {
            return Ok(started.handle().clone());
        }
        let mut builder = Builder::new_multi_thread();
        let started = builder.enable_all().thread_name("query").thread_stack_size(STACK_BYTES).build()?;
        Ok(runtime.insert(started).handle().clone())
    }
}

impl Drop for QueryThreads {
    /// By a thread that must not wait, perhaps.
    fn drop(&mut self) {
        if let Some(runtime) = self.0.get_mut().take() {
            runtime.shutdown_background();
        }
    }
}
