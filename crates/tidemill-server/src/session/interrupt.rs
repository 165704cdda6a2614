//! What ends a statement, or the session, from outside: a cancel request, a time limit, the server's shutdown.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::Duration;

use futures::task::AtomicWaker;
use tidemill_sql::{SqlError, SqlState};
use tokio::sync::watch;
use tokio::time::{Instant, Sleep};

use super::execute::Step;
use super::wire::{Client, Closed};

/// Shared between a session and whoever may interrupt it.
#[derive(Debug, Default)]
pub struct Interrupt {
    canceled: AtomicBool,
    terminated: AtomicBool,
    /// What keeps the work from being dropped: one of the three below.
    shielded: AtomicU8,
    /// Why work that is asked to end is to do so.
    asked: watch::Sender<Option<&'static str>>,
    waker: AtomicWaker,
    client: OnceLock<Client>,
}

/// An interrupt drops the work, asks it to end by itself, or waits.
const OPEN: u8 = 0;
const ASKING: u8 = 1;
const CLOSED: u8 = 2;

/// How often a statement looks whether its client is still there.
const CLIENT_CHECK_INTERVAL: Duration = Duration::from_millis(500);

impl Interrupt {
    /// Ends the statement that runs; without one it does nothing.
    pub fn cancel(&self) {
        self.canceled.store(true, Ordering::Release);
        self.waker.wake();
    }

    /// Ends the session.
    pub fn terminate(&self) {
        self.terminated.store(true, Ordering::Release);
        self.waker.wake();
    }

    pub fn is_terminated(&self) -> bool {
        self.terminated.load(Ordering::Acquire)
    }

    /// The client whose statements end when it goes.
    pub(super) fn watch(&self, client: Client) {
        let _ = self.client.set(client);
    }

    /// A cancel request for an earlier statement is not for the next one.
    pub(super) fn forget_cancel(&self) {
        self.canceled.store(false, Ordering::Relaxed);
    }

    fn cause(&self, is_due: bool) -> Option<Stop> {
        if self.is_terminated() {
            return Some(Stop::Terminated);
        }
        if self.canceled.swap(false, Ordering::AcqRel) {
            return Some(Stop::Canceled("canceling statement due to user request"));
        }
        is_due.then_some(Stop::Canceled("canceling statement due to statement timeout"))
    }

    async fn stopped(&self, deadline: Option<Instant>) -> Stop {
        let mut check = Instant::now() + CLIENT_CHECK_INTERVAL;
        let first = deadline.map_or(check, |at| at.min(check));
        let mut is_left = false;
        let mut sleep: Pin<Box<Sleep>> = Box::pin(tokio::time::sleep_until(first));
        std::future::poll_fn(|context| {
            self.waker.register(context.waker());
            let now = Instant::now();
            let is_due = deadline.is_some_and(|at| now >= at);
            if now >= check {
                is_left = self.client.get().is_some_and(Client::is_gone);
                check = now + CLIENT_CHECK_INTERVAL;
                sleep.as_mut().reset(deadline.filter(|at| *at > now).map_or(check, |at| at.min(check)));
            }
            // The sleep only wakes: work that has used up the task's budget keeps it from ever being ready.
            let _ = sleep.as_mut().poll(context);
            let shielded = self.shielded.load(Ordering::Acquire);
            if shielded == CLOSED {
                return Poll::Pending;
            }
            match if is_left { Some(Stop::Left) } else { self.cause(is_due) } {
                Some(stop) if shielded == OPEN => return Poll::Ready(stop),
                Some(stop) => {
                    self.asked.send_if_modified(|asked| asked.replace(stop.reason()).is_none());
                }
                None => {}
            }
            Poll::Pending
        })
        .await
    }

    /// Waits until what works behind a shield that [asks](Shield::asking) is to end, and tells why.
    pub(super) async fn asked(&self) -> &'static str {
        let mut asked = self.asked.subscribe();
        match asked.wait_for(Option::is_some).await.map(|why| *why) {
            Ok(Some(why)) => why,
            // The sender is `self`.
            _ => std::future::pending().await,
        }
    }

    /// Runs `work` until it is done or interrupted, and drops it then.
    pub(super) async fn guard<T>(
        &self,
        deadline: Option<Instant>,
        work: impl Future<Output = Step<T>>,
    ) -> Step<T> {
        tokio::select! {
            biased;
            done = work => done,
            stop = self.stopped(deadline) => match stop {
                Stop::Canceled(message) => Ok(Err(SqlError::new(SqlState::QUERY_CANCELED, message))),
                Stop::Terminated => Err(Closed::Terminated),
                Stop::Left => Err(Closed::Client),
            },
        }
    }

    /// Waits for the end of the session, whatever else is going on.
    pub(super) async fn terminated(&self) {
        std::future::poll_fn(|context| {
            self.waker.register(context.waker());
            if self.is_terminated() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await
    }
}

enum Stop {
    Canceled(&'static str),
    Terminated,
    /// The client has gone.
    Left,
}

impl Stop {
    fn reason(&self) -> &'static str {
        match self {
            Stop::Canceled(message) => message,
            Stop::Terminated => "terminating connection due to administrator command",
            Stop::Left => "the client has closed the connection",
        }
    }
}

/// While it is raised nothing interrupts the session: what has been handed to the committer can't be taken back, and a
/// change of the catalog is made whole. While it asks, the work ends by itself, with what it has to tell.
pub(super) struct Shield(Arc<Interrupt>);

impl Shield {
    pub(super) fn lowered(interrupt: &Arc<Interrupt>) -> Self {
        Self(Arc::clone(interrupt))
    }

    pub(super) fn raised(interrupt: &Arc<Interrupt>) -> Self {
        let shield = Self::lowered(interrupt);
        shield.raise();
        shield
    }

    /// What works behind it has to look for [what is asked](Interrupt::asked).
    pub(super) fn asking(interrupt: &Arc<Interrupt>) -> Self {
        let shield = Self::lowered(interrupt);
        shield.0.shielded.store(ASKING, Ordering::Release);
        shield
    }

    pub(super) fn raise(&self) {
        self.0.shielded.store(CLOSED, Ordering::Release);
    }
}

impl Drop for Shield {
    fn drop(&mut self) {
        self.0.shielded.store(OPEN, Ordering::Release);
        self.0.asked.send_replace(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_shield_holds_an_interrupt_back() {
        let interrupt = Arc::new(Interrupt::default());
        let shield = Shield::raised(&interrupt);
        interrupt.cancel();
        let done = interrupt.guard(None, async { Ok(Ok(1)) }).await;
        assert_eq!(done.unwrap().unwrap(), 1);
        drop(shield);
        let canceled = interrupt.guard(None, std::future::pending::<Step>()).await;
        assert_eq!(canceled.unwrap().unwrap_err().message, "canceling statement due to user request");
    }

    #[tokio::test]
    async fn a_shield_asks_the_work_to_end() {
        let interrupt = Arc::new(Interrupt::default());
        let commit = async {
            let _shield = Shield::asking(&interrupt);
            let why = interrupt.asked().await;
            // It takes its time.
            tokio::task::yield_now().await;
            Ok(Ok(why))
        };
        let late = interrupt.guard(Some(Instant::now()), commit).await;
        assert_eq!(late.unwrap().unwrap(), "canceling statement due to statement timeout");
        let next = interrupt.guard(Some(Instant::now()), std::future::pending::<Step>()).await;
        assert!(next.unwrap().is_err());
    }

    #[tokio::test]
    async fn a_deadline_and_the_end() {
        let interrupt = Interrupt::default();
        let late = interrupt.guard(Some(Instant::now()), std::future::pending::<Step>()).await;
        assert_eq!(late.unwrap().unwrap_err().message, "canceling statement due to statement timeout");
        interrupt.terminate();
        let ended = interrupt.guard(None, std::future::pending::<Step>()).await;
        assert!(matches!(ended, Err(Closed::Terminated)));
    }
}
