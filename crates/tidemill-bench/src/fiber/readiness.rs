//! What has come for the sockets of a thread's fibers: one question to the kernel for all of them.

use std::cell::RefCell;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::event::{PollFlags, Timespec};

use super::switch::suspend;
use super::{Wait, block};

/// Answers taken from the kernel at once.
const EVENTS_MAX: usize = 256;
/// Told once for each arrival: nothing has to be armed again.
const READABLE: EventFlags = EventFlags::IN.union(EventFlags::RDHUP).union(EventFlags::ET);

thread_local! {
    static INSTALLED: RefCell<Option<Poller>> = const { RefCell::new(None) };
}

/// Of a thread that runs fibers.
pub(super) struct Poller {
    epoll: OwnedFd,
    sockets: Vec<Registered>,
    events: Vec<epoll::Event>,
}

#[derive(Default)]
struct Registered {
    /// Something has come since it was last waited for.
    is_ready: bool,
    /// The other end will send no more: to be read at any time.
    is_closed: bool,
    awaited_by: Option<usize>,
}

/// The thread's poller is gone with it.
pub(super) struct Installed(());

impl Drop for Installed {
    fn drop(&mut self) {
        INSTALLED.take();
    }
}

impl Poller {
    pub fn install() -> io::Result<Installed> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let poller = Poller { epoll, sockets: Vec::new(), events: Vec::with_capacity(EVENTS_MAX) };
        INSTALLED.replace(Some(poller));
        Ok(Installed(()))
    }

    fn add(&mut self, socket: &impl AsFd) -> io::Result<usize> {
        let index = self.sockets.len();
        epoll::add(&self.epoll, socket, EventData::new_u64(index as u64), READABLE)?;
        self.sockets.push(Registered::default());
        Ok(index)
    }

    fn watch(&self, socket: &impl AsFd, index: usize, flags: EventFlags) -> io::Result<()> {
        Ok(epoll::modify(&self.epoll, socket, EventData::new_u64(index as u64), flags)?)
    }

    /// True when there is nothing to wait for. Nobody waits from here on.
    fn take_ready(&mut self, index: usize) -> bool {
        let socket = &mut self.sockets[index];
        socket.awaited_by = None;
        std::mem::take(&mut socket.is_ready) || socket.is_closed
    }

    pub fn expect(&mut self, index: usize, fiber: usize) {
        self.sockets[index].awaited_by = Some(fiber);
    }

    /// Waits for arrivals, and tells which fibers they are for.
    pub fn wait(&mut self, timeout: Option<Duration>, woken: &mut Vec<usize>) -> io::Result<()> {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let only_look = match timeout {
            None => None,
            Some(Duration::ZERO) if self.sockets.is_empty() => return Ok(()),
            Some(timeout) => {
                // epoll itself counts milliseconds only.
                if timeout > Duration::ZERO && !block(&self.epoll, PollFlags::IN, Some(timeout))? {
                    return Ok(());
                }
                Some(&now)
            }
        };
        self.events.clear();
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut self.events), only_look) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        for event in &self.events {
            let (flags, data) = (event.flags, event.data);
            let Some(socket) = self.sockets.get_mut(data.u64() as usize) else { continue };
            socket.is_ready = true;
            socket.is_closed |= flags.intersects(EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR);
            woken.extend(socket.awaited_by.take());
        }
        Ok(())
    }
}

/// Of the thread's poller, where it has one.
pub(super) fn installed<T>(ask: impl FnOnce(&mut Poller) -> T) -> Option<T> {
    INSTALLED.with_borrow_mut(|poller| poller.as_mut().map(ask))
}

/// Kept beside a socket that does not block: how its owner waits for it. Both stay in one thread.
#[derive(Debug, Default)]
pub(crate) struct Readiness {
    index: Option<usize>,
}

impl Readiness {
    /// Until something has come (which may have been read meanwhile), or with `for_room` until more can be sent; false
    /// when the deadline was earlier.
    pub fn wait(&mut self, socket: &impl AsFd, for_room: bool, until: Option<Instant>) -> io::Result<bool> {
        let Some(index) = self.registered(socket)? else { return block_until(socket, for_room, until) };
        if for_room {
            installed(|poller| poller.watch(socket, index, READABLE | EventFlags::OUT)).transpose()?;
        }
        let is_ready = || installed(|poller| poller.take_ready(index)).unwrap_or(true);
        let is_there = is_ready() || {
            // Outside of a fiber, as when the thread is about to end, there is nobody to switch to.
            if suspend(Wait::Socket(index, until)).is_none() {
                return block_until(socket, for_room, until);
            }
            is_ready()
        };
        if for_room {
            installed(|poller| poller.watch(socket, index, READABLE)).transpose()?;
        }
        Ok(is_there)
    }

    /// With the thread's poller; none in threads without one.
    fn registered(&mut self, socket: &impl AsFd) -> io::Result<Option<usize>> {
        if self.index.is_none() {
            self.index = installed(|poller| poller.add(socket)).transpose()?;
        }
        Ok(self.index)
    }
}

fn block_until(socket: &impl AsFd, for_room: bool, until: Option<Instant>) -> io::Result<bool> {
    let room = if for_room { PollFlags::OUT } else { PollFlags::empty() };
    block(socket, PollFlags::IN | room, until.map(|at| at.saturating_duration_since(Instant::now())))
}
