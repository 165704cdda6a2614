//! Threads of queries: a task that computes for seconds in one poll keeps no session waiting there.

use std::io;

use tokio::runtime::{Builder, EnterGuard, Handle, Runtime};

/// What a thread of queries may use as its stack: as much as one of a session, for the same plans.
const STACK_BYTES: usize = 8 << 20;

/// Threads of the tasks into which what computes for long is divided.
#[derive(Debug)]
pub struct QueryThreads {
    handle: Handle,
    runtime: Option<Runtime>,
}

impl QueryThreads {
    pub fn start() -> io::Result<Self> {
        let mut builder = Builder::new_multi_thread();
        let runtime = builder.enable_all().thread_name("query").thread_stack_size(STACK_BYTES).build()?;
        Ok(Self { handle: runtime.handle().clone(), runtime: Some(runtime) })
    }

    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// Tasks that are spawned meanwhile run there.
    pub fn enter(&self) -> EnterGuard<'_> {
        self.handle.enter()
    }
}

impl Drop for QueryThreads {
    /// By a thread that must not wait, perhaps.
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}
