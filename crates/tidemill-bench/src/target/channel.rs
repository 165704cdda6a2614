//! A connection with one buffer each way, shared by the protocols.

mod socket;

use std::io::ErrorKind;
use std::ops::Range;
use std::time::{Duration, Instant};

use rustls::ClientConnection;

use crate::error::{Error, Result};
use crate::fiber::Readiness;
pub(crate) use socket::{OpenSockets, Socket};
use socket::{Stream, closed};

const INPUT_BYTES: usize = 32 << 10;
/// No message of a server is longer; a length beyond it is not the protocol.
const MESSAGE_BYTES_MAX: usize = 1 << 30;

/// Bytes out are gathered in `out` until [`Channel::flush`]; bytes in are taken in whole pieces.
pub(crate) struct Channel {
    stream: Stream,
    readiness: Readiness,
    /// The last read may have left something: the next one need not be waited for.
    may_have_more: bool,
    /// How long an answer may take.
    timeout: Option<Duration>,
    pub out: Vec<u8>,
    input: Vec<u8>,
    start: usize,
    end: usize,
}

impl Channel {
    pub fn new(socket: Socket, open: &OpenSockets) -> Channel {
        Channel {
            stream: Stream::new(socket, open),
            readiness: Readiness::default(),
            may_have_more: false,
            timeout: None,
            out: Vec::with_capacity(1024),
            input: vec![0; INPUT_BYTES],
            start: 0,
            end: 0,
        }
    }

    /// From here on under TLS.
    pub fn encrypt(&mut self, tls: ClientConnection) -> Result<()> {
        self.stream.encrypt(tls);
        let until = self.deadline();
        loop {
            match self.stream.shake_hands() {
                Ok(()) => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => self.wait(until)?,
                Err(error) => return Err(Error::Lost(format!("no agreement on TLS: {error}"))),
            }
        }
        // The first answer may have come along with the end of the handshake.
        self.may_have_more = true;
        Ok(())
    }

    pub fn is_encrypted(&self) -> bool {
        self.stream.is_encrypted()
    }

    fn deadline(&self) -> Option<Instant> {
        self.timeout.map(|timeout| Instant::now() + timeout)
    }

    fn wait(&mut self, until: Option<Instant>) -> Result<()> {
        match self.readiness.wait(&*self.stream.socket, false, until).map_err(lost)? {
            true => Ok(()),
            false => Err(Error::Lost("the server did not answer in time".to_owned())),
        }
    }

    pub fn set_timeout(&mut self, timeout: Option<Duration>) {
        self.timeout = timeout;
    }

    pub fn flush(&mut self) -> Result<()> {
        let written = self.write();
        self.out.clear();
        written.map_err(lost)
    }

    /// A server that cannot get rid of its answers stops reading, so they are read meanwhile.
    fn write(&mut self) -> std::io::Result<()> {
        let mut written = 0;
        while written < self.out.len() {
            let taken = self.stream.write(&self.out[written..]);
            written += self.or_read(taken)?.unwrap_or(0);
        }
        loop {
            let flushed = self.stream.flush();
            if self.or_read(flushed)?.is_some() {
                return Ok(());
            }
        }
    }

    /// None if there was no room to write and something else was done meanwhile.
    fn or_read<T>(&mut self, written: std::io::Result<T>) -> std::io::Result<Option<T>> {
        match written {
            Ok(written) => Ok(Some(written)),
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(None),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                self.readiness.wait(&*self.stream.socket, true, None)?;
                self.read_some()?;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// What has come so far, if anything.
    fn read_some(&mut self) -> std::io::Result<()> {
        self.make_room(1);
        self.may_have_more = false;
        match self.stream.read(&mut self.input[self.end..]) {
            Ok(0) => Err(closed()),
            Ok(n) => {
                self.end += n;
                self.may_have_more = self.end == self.input.len() || self.stream.is_encrypted();
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

    /// What has come and was not taken.
    #[inline]
    pub fn unread(&self) -> &[u8] {
        &self.input[self.start..self.end]
    }

    /// Waits for `bytes` bytes and shows them without taking them.
    #[inline]
    pub fn peek(&mut self, bytes: usize) -> Result<&[u8]> {
        if self.unread().len() < bytes {
            self.fill(bytes)?;
        }
        Ok(&self.unread()[..bytes])
    }

    fn fill(&mut self, bytes: usize) -> Result<()> {
        if bytes > MESSAGE_BYTES_MAX {
            return Err(Error::Lost(format!(
                "a message of {bytes} bytes was announced: this is not the protocol"
            )));
        }
        let until = self.deadline();
        while self.end - self.start < bytes {
            if !self.may_have_more {
                self.wait(until)?;
            }
            self.make_room(bytes - (self.end - self.start));
            self.read_some().map_err(lost)?;
        }
        Ok(())
    }

    /// Takes `bytes` bytes; the range is good for [`Channel::bytes`] until the next call that waits.
    #[inline]
    pub fn take(&mut self, bytes: usize) -> Result<Range<usize>> {
        self.peek(bytes)?;
        Ok(self.take_unread(bytes))
    }

    /// The same of bytes that have come.
    #[inline]
    pub fn take_unread(&mut self, bytes: usize) -> Range<usize> {
        debug_assert!(bytes <= self.unread().len(), "only what has come can be taken");
        let range = self.start..self.start + bytes;
        self.start = range.end;
        range
    }

    pub fn bytes(&self, range: Range<usize>) -> &[u8] {
        &self.input[range]
    }
}

pub(crate) fn lost(error: std::io::Error) -> Error {
    Error::Lost(error.to_string())
}
