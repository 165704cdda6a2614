//! What is under way on servers: a process that ends before it has told them would leave it to them, with its locks.

use std::sync::LazyLock;

use tokio::sync::watch;

/// Of the process, which is what ends.
static COUNT: LazyLock<watch::Sender<usize>> = LazyLock::new(watch::Sender::default);

/// A piece of work on a server, from its beginning until it has come to its end there, or nobody can do more about it. Whoever
/// gives it up in a task of its own begins another one before this one goes.
#[derive(Debug)]
pub struct Underway(());

impl Underway {
    pub fn begin() -> Self {
        COUNT.send_modify(|count| *count += 1);
        Self(())
    }
}

impl Drop for Underway {
    fn drop(&mut self) {
        COUNT.send_modify(|count| *count -= 1);
    }
}

/// Returns when nothing is under way.
pub async fn until_none() {
    // The sender is static.
    drop(COUNT.subscribe().wait_for(|count| *count == 0).await);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_under_way_is_waited_for() {
        let (one, two) = (Underway::begin(), Underway::begin());
        drop(one);
        let mut waiting = Box::pin(until_none());
        assert!(futures::poll!(&mut waiting).is_pending());
        drop(two);
        waiting.await;
    }
}
