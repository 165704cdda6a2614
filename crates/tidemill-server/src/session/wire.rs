//! One connection's bytes: a decoder in front, a buffer behind.

use std::io;
use std::net::TcpStream;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::pin;
use std::time::Duration;

use bytes::BytesMut;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use crate::pg::frontend::{Decoder, Frontend};
use crate::pg::startup::Startup;
use crate::pg::wire_error::ProtocolError;

/// Results are sent on when this many bytes have gathered, so that a long one starts early and needs little memory.
pub const FLUSH_BYTES: usize = 64 << 10;
/// How long results wait for more.
const PAUSE_MAX: Duration = Duration::from_millis(100);

/// TCP and Unix sockets alike.
pub trait Socket: AsyncRead + AsyncWrite + Unpin + Send {
    /// Another handle of it.
    fn handle(&self) -> io::Result<OwnedFd>;
}

impl<T: AsyncRead + AsyncWrite + Unpin + Send + AsFd> Socket for T {
    fn handle(&self) -> io::Result<OwnedFd> {
        self.as_fd().try_clone_to_owned()
    }
}

pub struct Wire {
    socket: Box<dyn Socket>,
    decoder: Decoder,
    /// What is written here goes out with the next flush.
    pub out: BytesMut,
}

/// Why a connection ends.
#[derive(Debug, thiserror::Error)]
pub enum Closed {
    /// The client has gone, with or without a good-bye.
    #[error("the client has closed the connection")]
    Client,
    #[error("{0}")]
    Io(#[from] io::Error),
    /// An administrator wants it, or the server ends.
    #[error("the connection is terminated")]
    Terminated,
    /// The reason has been sent to the client.
    #[error("{0}")]
    Refused(String),
}

/// A message, or one that can't be read.
pub type Received = Result<Frontend, ProtocolError>;

impl Wire {
    pub fn new(socket: Box<dyn Socket>) -> Self {
        Self { socket, decoder: Decoder::default(), out: BytesMut::with_capacity(8 << 10) }
    }

    /// Tells whether the client is there, while nothing is read of it.
    pub fn client(&self) -> io::Result<Client> {
        // Of any socket, as far as a look into it goes.
        self.socket.handle().map(|handle| Client(TcpStream::from(handle)))
    }

    /// The next message, if it is here already.
    pub fn received(&mut self) -> Option<Received> {
        self.decoder.next().transpose()
    }

    /// The next message; sends what has gathered before it waits.
    pub async fn receive(&mut self) -> Result<Received, Closed> {
        loop {
            match self.received() {
                Some(received) => return Ok(received),
                None => self.fill().await?,
            }
        }
    }

    /// True if the next message is here already and is a Sync.
    pub fn next_is_sync(&mut self) -> bool {
        self.decoder.buffer_mut().first() == Some(&b'S')
    }

    pub async fn receive_startup(&mut self) -> Result<Result<Startup, ProtocolError>, Closed> {
        loop {
            match self.decoder.next_startup() {
                Ok(Some(startup)) => return Ok(Ok(startup)),
                Err(error) => return Ok(Err(error)),
                Ok(None) => self.fill().await?,
            }
        }
    }

    pub async fn receive_password(&mut self) -> Result<Result<bytes::Bytes, ProtocolError>, Closed> {
        loop {
            match self.decoder.next_password() {
                Ok(Some(body)) => return Ok(Ok(body)),
                Err(error) => return Ok(Err(error)),
                Ok(None) => self.fill().await?,
            }
        }
    }

    /// One byte in answer to an encryption request.
    pub async fn send_byte(&mut self, byte: u8) -> Result<(), Closed> {
        self.out.extend_from_slice(&[byte]);
        self.flush().await
    }

    /// True if the client has sent something before it was answered: after an encryption request that is an attack.
    pub fn has_unread(&mut self) -> bool {
        !self.decoder.buffer_mut().is_empty()
    }

    async fn fill(&mut self) -> Result<(), Closed> {
        self.flush().await?;
        let ahead = self.decoder.read_ahead();
        let buffer = self.decoder.buffer_mut();
        buffer.reserve(ahead);
        match self.socket.read_buf(buffer).await? {
            0 => Err(Closed::Client),
            _ => Ok(()),
        }
    }

    pub async fn flush(&mut self) -> Result<(), Closed> {
        if !self.out.is_empty() {
            self.socket.write_all_buf(&mut self.out).await?;
        }
        self.socket.flush().await?;
        Ok(())
    }

    /// Waits for more to send. What has gathered goes out meanwhile, if that takes long.
    pub async fn flush_while<T>(&mut self, more: impl Future<Output = T>) -> Result<T, Closed> {
        let mut more = pin!(more);
        if !self.out.is_empty() {
            if let Ok(done) = timeout(PAUSE_MAX, more.as_mut()).await {
                return Ok(done);
            }
            self.flush().await?;
        }
        Ok(more.await)
    }

    /// Sends what has gathered if it is much.
    pub async fn flush_if_full(&mut self) -> Result<(), Closed> {
        if self.out.len() >= FLUSH_BYTES {
            self.flush().await?;
        }
        Ok(())
    }
}

/// The message that says good-bye.
const TERMINATE: [u8; 5] = [b'X', 0, 0, 0, 4];

/// The other end of a connection.
#[derive(Debug)]
pub struct Client(TcpStream);

impl Client {
    pub fn is_gone(&self) -> bool {
        let mut ahead = [0; TERMINATE.len() + 1];
        match self.0.peek(&mut ahead) {
            Ok(read) => read == 0 || ahead[..read] == TERMINATE,
            Err(error) => error.kind() != io::ErrorKind::WouldBlock,
        }
    }
}
