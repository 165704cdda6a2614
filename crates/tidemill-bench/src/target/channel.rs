//! A blocking connection with one buffer each way, shared by the protocols; and the list of all that are open.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};

use crate::error::{Error, Result};

const INPUT_BYTES: usize = 16 << 10;
/// What a server surely takes without anybody reading its answers: above this, reading goes on while writing.
const WRITE_BLIND_BYTES: usize = 16 << 10;
/// No message of a server is longer; a length beyond it is not the protocol.
const MESSAGE_BYTES_MAX: usize = 1 << 30;

pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

/// The sockets of a target, so that all can be ended from outside.
#[derive(Clone, Default)]
pub(crate) struct OpenSockets(Arc<Mutex<Vec<Weak<Socket>>>>);

impl OpenSockets {
    fn add(&self, socket: &Arc<Socket>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|socket| socket.strong_count() > 0);
        all.push(Arc::downgrade(socket));
    }

    pub(crate) fn shut_down(&self) {
        for socket in self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().filter_map(Weak::upgrade) {
            // One that is closed already is what is wanted.
            let _ = match &*socket {
                Socket::Tcp(stream) => stream.shutdown(Shutdown::Both),
                Socket::Unix(stream) => stream.shutdown(Shutdown::Both),
            };
        }
    }
}

impl Socket {
    pub(crate) fn tcp(host: &str, port: u16, timeout: Duration) -> std::io::Result<Socket> {
        let mut last = std::io::Error::new(ErrorKind::NotFound, "the host has no address");
        for address in (host, port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, timeout) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    return Ok(Socket::Tcp(stream));
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    pub(crate) fn unix(path: &str) -> std::io::Result<Socket> {
        UnixStream::connect(path).map(Socket::Unix)
    }

    pub(crate) fn set_timeout(&self, timeout: Option<Duration>) -> std::io::Result<()> {
        match self {
            Socket::Tcp(stream) => stream.set_read_timeout(timeout),
            Socket::Unix(stream) => stream.set_read_timeout(timeout),
        }
    }

    fn set_nonblocking(&self, is_on: bool) -> std::io::Result<()> {
        match self {
            Socket::Tcp(stream) => stream.set_nonblocking(is_on),
            Socket::Unix(stream) => stream.set_nonblocking(is_on),
        }
    }

    fn read(&self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Socket::Tcp(stream) => (&*stream).read(buffer),
            Socket::Unix(stream) => (&*stream).read(buffer),
        }
    }

    fn write(&self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Socket::Tcp(stream) => (&*stream).write(bytes),
            Socket::Unix(stream) => (&*stream).write(bytes),
        }
    }

    fn wait(&self) -> std::io::Result<()> {
        let flags = PollFlags::IN | PollFlags::OUT;
        let mut polled = [match self {
            Socket::Tcp(stream) => PollFd::new(stream, flags),
            Socket::Unix(stream) => PollFd::new(stream, flags),
        }];
        poll(&mut polled, None)?;
        Ok(())
    }
}

/// Bytes out are gathered in `out` until [`Channel::flush`]; bytes in are taken in whole pieces.
pub(crate) struct Channel {
    socket: Arc<Socket>,
    pub out: Vec<u8>,
    input: Vec<u8>,
    start: usize,
    end: usize,
}

impl Channel {
    pub fn new(socket: Socket, open: &OpenSockets) -> Channel {
        let socket = Arc::new(socket);
        open.add(&socket);
        Channel { socket, out: Vec::with_capacity(1024), input: vec![0; INPUT_BYTES], start: 0, end: 0 }
    }

    pub fn set_timeout(&self, timeout: Option<Duration>) -> Result<()> {
        self.socket.set_timeout(timeout).map_err(lost)
    }

    pub fn flush(&mut self) -> Result<()> {
        let is_small = self.out.len() <= WRITE_BLIND_BYTES;
        let written = if is_small { self.write_blind() } else { self.write_reading() };
        self.out.clear();
        written.map_err(lost)
    }

    fn write_blind(&self) -> std::io::Result<()> {
        let mut rest = &self.out[..];
        while !rest.is_empty() {
            match self.socket.write(rest) {
                Ok(n) => rest = &rest[n..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// A server that cannot get rid of its answers stops reading, so they are read meanwhile.
    fn write_reading(&mut self) -> std::io::Result<()> {
        self.socket.set_nonblocking(true)?;
        let mut written = 0;
        while written < self.out.len() {
            match self.socket.write(&self.out[written..]) {
                Ok(n) => written += n,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    self.socket.wait()?;
                    self.read_some()?;
                }
                Err(error) => return Err(error),
            }
        }
        self.socket.set_nonblocking(false)
    }

    fn read_some(&mut self) -> std::io::Result<()> {
        self.make_room(1);
        match self.socket.read(&mut self.input[self.end..]) {
            Ok(0) => Err(std::io::Error::new(ErrorKind::UnexpectedEof, "the server closed the connection")),
            Ok(n) => {
                self.end += n;
                Ok(())
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Space for `bytes` more behind `end`.
    fn make_room(&mut self, bytes: usize) {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        }
        if self.input.len() - self.end >= bytes {
            return;
        }
        self.input.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        if self.input.len() - self.end < bytes {
            self.input.resize((self.end + bytes).next_power_of_two(), 0);
        }
    }

    /// Waits for `bytes` bytes and shows them without taking them.
    pub fn peek(&mut self, bytes: usize) -> Result<&[u8]> {
        if bytes > MESSAGE_BYTES_MAX {
            return Err(Error::Lost(format!(
                "a message of {bytes} bytes was announced: this is not the protocol"
            )));
        }
        while self.end - self.start < bytes {
            self.make_room(bytes - (self.end - self.start));
            match self.socket.read(&mut self.input[self.end..]) {
                Ok(0) => return Err(Error::Lost("the server closed the connection".to_owned())),
                Ok(n) => self.end += n,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(lost(error)),
            }
        }
        Ok(&self.input[self.start..self.start + bytes])
    }

    /// Takes `bytes` bytes; the range is good for [`Channel::bytes`] until the next call that reads.
    pub fn take(&mut self, bytes: usize) -> Result<Range<usize>> {
        self.peek(bytes)?;
        let range = self.start..self.start + bytes;
        self.start = range.end;
        Ok(range)
    }

    pub fn bytes(&self, range: Range<usize>) -> &[u8] {
        &self.input[range]
    }
}

pub(crate) fn lost(error: std::io::Error) -> Error {
    Error::Lost(match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => "the server did not answer in time".to_owned(),
        _ => error.to_string(),
    })
}
