//! Many clients in one thread, each written as if it had a thread of its own: where it must wait, another one goes on.
//!
//! A thread for each client costs two switches by the kernel for every answer, which is more than all the rest of an
//! operation. Here a thread asks the kernel once (`epoll`) for whatever has come for all of its clients. A fiber is a
//! stack; to switch costs nanoseconds. Outside of fibers the same calls block the thread.

mod readiness;
mod switch;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

pub(crate) use readiness::Readiness;
use readiness::{Poller, installed};
use switch::{Fiber, State, suspend};

/// Before the kernel is asked again: a client reads an answer in one, and sends its next question in the other.
const ROUNDS: usize = 2;

/// What a fiber waits for before it goes on.
#[derive(Debug, Clone, Copy)]
enum Wait {
    /// That the others have had their turn.
    Turn,
    Until(Instant),
    /// That something has come for a socket, or this moment.
    Socket(usize, Option<Instant>),
}

/// Runs all of them in this thread until the last has ended. A body that panics takes the thread along.
pub(crate) fn run_together(bodies: Vec<Box<dyn FnOnce()>>) -> std::io::Result<()> {
    let _installed = Poller::install()?;
    let mut fibers = Fibers::new(bodies)?;
    while fibers.alive > 0 {
        // Those that wait for their turn only come behind those that something has come for.
        for _ in 0..ROUNDS {
            for _ in 0..fibers.ready.len() {
                fibers.resume_next();
            }
        }
        fibers.wait()?;
    }
    Ok(())
}

struct Fibers {
    all: Vec<Slot>,
    alive: usize,
    ready: VecDeque<usize>,
    timers: BinaryHeap<Reverse<Timer>>,
    woken: Vec<usize>,
}

struct Slot {
    fiber: Fiber,
    /// Counts what it has waited for, so that a timer that came too late is known as such.
    waits: u64,
    is_waiting: bool,
}

/// In the order of time.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Timer {
    at: Instant,
    fiber: usize,
    wait: u64,
}

impl Fibers {
    fn new(bodies: Vec<Box<dyn FnOnce()>>) -> std::io::Result<Self> {
        let fiber = |body| Ok(Slot { fiber: Fiber::new(body)?, waits: 0, is_waiting: false });
        let all = bodies.into_iter().map(fiber).collect::<std::io::Result<Vec<_>>>()?;
        let ready = (0..all.len()).collect();
        Ok(Self { alive: all.len(), ready, all, timers: BinaryHeap::new(), woken: Vec::new() })
    }

    fn resume_next(&mut self) {
        let Some(index) = self.ready.pop_front() else { return };
        let slot = &mut self.all[index];
        let wait = match slot.fiber.resume() {
            State::Ended => {
                self.alive -= 1;
                return;
            }
            State::Waits(wait) => wait,
        };
        slot.waits += 1;
        slot.is_waiting = true;
        let until = match wait {
            Wait::Turn => return self.wake(index),
            Wait::Until(at) => Some(at),
            Wait::Socket(socket, until) => {
                installed(|poller| poller.expect(socket, index));
                until
            }
        };
        if let Some(at) = until {
            self.timers.push(Reverse(Timer { at, fiber: index, wait: slot.waits }));
        }
    }

    fn wake(&mut self, index: usize) {
        if std::mem::take(&mut self.all[index].is_waiting) {
            self.ready.push_back(index);
        }
    }

    /// Until somebody is ready; only looks when somebody is already.
    fn wait(&mut self) -> std::io::Result<()> {
        let timeout = match self.ready.is_empty() {
            true => self.next_timer().map(|at| at.saturating_duration_since(Instant::now())),
            false => Some(Duration::ZERO),
        };
        if self.alive > 0 {
            let mut woken = std::mem::take(&mut self.woken);
            installed(|poller| poller.wait(timeout, &mut woken)).transpose()?;
            woken.drain(..).for_each(|index| self.wake(index));
            self.woken = woken;
        }
        self.wake_timers();
        Ok(())
    }

    /// The next moment that somebody still waits for.
    fn next_timer(&mut self) -> Option<Instant> {
        while let Some(Reverse(timer)) = self.timers.peek() {
            if self.is_current(timer) {
                return Some(timer.at);
            }
            self.timers.pop();
        }
        None
    }

    fn is_current(&self, timer: &Timer) -> bool {
        let slot = &self.all[timer.fiber];
        slot.is_waiting && slot.waits == timer.wait
    }

    fn wake_timers(&mut self) {
        if self.timers.is_empty() {
            return;
        }
        let now = Instant::now();
        while self.timers.peek().is_some_and(|Reverse(timer)| timer.at <= now) {
            let Some(Reverse(timer)) = self.timers.pop() else { return };
            if self.is_current(&timer) {
                self.wake(timer.fiber);
            }
        }
    }
}

/// Lets the other fibers of this thread go on first.
pub(crate) fn yield_now() {
    let _ = suspend(Wait::Turn);
}

pub(crate) fn sleep(duration: Duration) {
    sleep_until(Instant::now() + duration);
}

pub(crate) fn sleep_until(at: Instant) {
    if suspend(Wait::Until(at)).is_none() {
        std::thread::sleep(at.saturating_duration_since(Instant::now()));
    }
}

/// Blocks this thread until one of the flags holds for a descriptor; false when the time is over.
fn block(
    socket: &impl std::os::fd::AsFd,
    flags: PollFlags,
    timeout: Option<Duration>,
) -> std::io::Result<bool> {
    let timeout = timeout
        .map(|timeout| Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: timeout.subsec_nanos().into() });
    match poll(&mut [PollFd::new(socket, flags)], timeout.as_ref()) {
        Ok(events) => Ok(events > 0),
        // Whoever waits looks again.
        Err(rustix::io::Errno::INTR) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    use std::rc::Rc;

    use super::*;

    #[test]
    fn fibers_take_turns_and_timers_come_in_order() {
        let order = Rc::new(RefCell::new(Vec::new()));
        let start = Instant::now();
        let body = |name: &'static str, ms: u64| {
            let order = Rc::clone(&order);
            Box::new(move || {
                order.borrow_mut().push(name);
                yield_now();
                sleep_until(start + Duration::from_millis(ms));
                order.borrow_mut().push(name);
            }) as Box<dyn FnOnce()>
        };
        run_together(vec![body("a", 30), body("b", 20), body("c", 10)]).unwrap();
        assert_eq!(*order.borrow(), ["a", "b", "c", "c", "b", "a"]);
    }

    #[test]
    fn a_fiber_waits_for_what_another_one_sends() {
        let (mut left, mut right) = UnixStream::pair().unwrap();
        left.set_nonblocking(true).unwrap();
        right.set_nonblocking(true).unwrap();
        let mut answer = [0; 4];
        let asks = move || {
            let mut ready = Readiness::default();
            left.write_all(b"ping").unwrap();
            assert!(ready.wait(&left, false, None).unwrap());
            assert_eq!(left.read(&mut answer).unwrap(), 4);
            assert_eq!(&answer, b"pong");
            // Nothing more comes: the deadline ends it.
            let soon = Instant::now() + Duration::from_millis(5);
            assert!(!ready.wait(&left, false, Some(soon)).unwrap());
        };
        let answers = move || {
            let (mut ready, mut question) = (Readiness::default(), [0; 8]);
            assert!(ready.wait(&right, false, None).unwrap());
            assert_eq!(right.read(&mut question).unwrap(), 4);
            right.write_all(b"pong").unwrap();
            // The other end is closed when its fiber ends, and that is something to read as well.
            assert!(ready.wait(&right, false, None).unwrap());
            assert_eq!(right.read(&mut question).unwrap(), 0);
        };
        run_together(vec![Box::new(answers), Box::new(asks)]).unwrap();
    }

    #[test]
    fn a_closed_socket_is_readable_for_good() {
        let (mut left, right) = UnixStream::pair().unwrap();
        left.set_nonblocking(true).unwrap();
        (&right).write_all(b"bye").unwrap();
        drop(right);
        let body = move || {
            let (mut ready, mut buffer) = (Readiness::default(), [0; 8]);
            for expected in [3, 0, 0] {
                assert!(ready.wait(&left, false, None).unwrap());
                assert_eq!(left.read(&mut buffer).unwrap(), expected);
            }
        };
        run_together(vec![Box::new(body)]).unwrap();
    }
}
