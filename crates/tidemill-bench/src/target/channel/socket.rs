//! Sockets that do not block, plain or under TLS; and the list of all that are open.

use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use rustix::net::{self, RecvFlags, SendFlags};
use rustls::ClientConnection;

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
    pub(crate) fn tcp(host: &str, port: u16, timeout: Duration) -> Result<Socket> {
        let mut last = Error::new(ErrorKind::NotFound, "the host has no address");
        for address in (host, port).to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, timeout) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    stream.set_nonblocking(true)?;
                    return Ok(Socket::Tcp(stream));
                }
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    pub(crate) fn unix(path: &str) -> Result<Socket> {
        let stream = UnixStream::connect(path)?;
        stream.set_nonblocking(true)?;
        Ok(Socket::Unix(stream))
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Socket::Tcp(stream) => stream.as_fd(),
            Socket::Unix(stream) => stream.as_fd(),
        }
    }
}

/// Straight to the kernel: the C library's calls are points where a thread may be cancelled, which costs as much as the rest
/// of what we do for a call.
impl Read for &Socket {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let (read, _) = net::recv(self, buffer, RecvFlags::empty())?;
        Ok(read)
    }
}

impl Write for &Socket {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        Ok(net::send(self, bytes, SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }
}

/// What a connection reads and writes: bytes that may be encrypted on their way.
pub(super) struct Stream {
    pub socket: Arc<Socket>,
    tls: Option<Box<ClientConnection>>,
}

impl Stream {
    pub fn new(socket: Socket, open: &OpenSockets) -> Stream {
        let socket = Arc::new(socket);
        open.add(&socket);
        Stream { socket, tls: None }
    }

    pub fn encrypt(&mut self, tls: ClientConnection) {
        self.tls = Some(Box::new(tls));
    }

    pub fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }

    /// Does its part of the handshake, `WouldBlock` when it is the server's turn.
    pub fn shake_hands(&mut self) -> Result<()> {
        loop {
            self.flush()?;
            let Some(tls) = self.tls.as_mut().filter(|tls| tls.is_handshaking()) else { return Ok(()) };
            receive(tls, &self.socket)?;
        }
    }

    pub fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let Some(tls) = &mut self.tls else { return (&*self.socket).read(buffer) };
        loop {
            match tls.reader().read(buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => receive(tls, &self.socket)?,
                read => return read,
            }
        }
    }

    /// Takes some of the bytes. What was taken is sent when `flush` says so.
    pub fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        match &mut self.tls {
            None => (&*self.socket).write(bytes),
            Some(tls) => match tls.writer().write(bytes)? {
                0 => self.flush().map(|()| 0),
                taken => Ok(taken),
            },
        }
    }

    pub fn flush(&mut self) -> Result<()> {
        let Some(tls) = &mut self.tls else { return Ok(()) };
        while tls.wants_write() {
            tls.write_tls(&mut &*self.socket)?;
        }
        Ok(())
    }
}

/// One piece of what has come, decrypted.
fn receive(tls: &mut ClientConnection, socket: &Socket) -> Result<()> {
    if tls.read_tls(&mut &*socket)? == 0 {
        return Err(closed());
    }
    tls.process_new_packets().map(drop).map_err(|error| Error::new(ErrorKind::InvalidData, error))
}

pub(super) fn closed() -> Error {
    Error::new(ErrorKind::UnexpectedEof, "the server closed the connection")
}
