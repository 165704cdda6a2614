//! Decoding of what a client sends after start-up, without copying: messages are slices of the receive buffer.

use bytes::{Buf, Bytes, BytesMut};
use tidemill_sql::SqlError;

use super::MESSAGE_BYTES_MAX;
pub use super::bind::{Bind, Formats, Params};
pub use super::body::Text;
use super::body::{Body, be_u32, violation};
use super::startup::{self, Startup};
use super::wire_error::{ProtocolError, Recovery};

/// The limit for messages that hold no user data, as in PostgreSQL's `PQ_SMALL_MESSAGE_LIMIT`.
const SMALL_MESSAGE_BYTES_MAX: usize = 10_000;
/// The limit for a password or SASL message, as in PostgreSQL's `PG_MAX_AUTH_TOKEN_LENGTH`.
const PASSWORD_BYTES_MAX: usize = 65_535;
/// How much room is asked for at once while a long message arrives: a length field alone reserves no more
/// than this.
const READ_AHEAD_BYTES_MAX: usize = 1 << 20;
/// Type byte and length word.
const HEADER_BYTES: usize = 5;

/// Cuts the bytes of one connection into messages.
///
/// After an error whose recovery is not [`Recovery::Close`] the faulty message is gone and decoding goes on
/// with the next.
#[derive(Debug)]
pub struct Decoder {
    buffer: BytesMut,
    message_bytes_max: usize,
}

/// A message of a client in the phases after authentication.
#[derive(Debug, Clone)]
pub enum Frontend {
    Query(Text),
    Parse(Parse),
    Bind(Bind),
    Describe(Target),
    Execute {
        portal: Text,
        rows_max: Option<u32>,
    },
    Close(Target),
    Flush,
    Sync,
    Terminate,
    CopyData(Bytes),
    CopyDone,
    CopyFail(Text),
    /// The fast-path function call, which is not supported; its body was not looked at.
    FunctionCall,
}

/// What Describe and Close mean. An empty name is the unnamed statement or portal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    Statement(Text),
    Portal(Text),
}

#[derive(Debug, Clone)]
pub struct Parse {
    pub name: Text,
    pub sql: Text,
    /// Types of the parameters as far as the client says; 0 leaves one open.
    pub param_oids: Vec<u32>,
}

impl Default for Decoder {
    fn default() -> Self {
        Self { buffer: BytesMut::new(), message_bytes_max: MESSAGE_BYTES_MAX }
    }
}

impl Decoder {
    /// A decoder that refuses messages longer than `message_bytes_max` (and than PostgreSQL's own limit).
    pub fn with_message_limit(message_bytes_max: usize) -> Self {
        Self { buffer: BytesMut::new(), message_bytes_max: message_bytes_max.min(MESSAGE_BYTES_MAX) }
    }

    /// Where received bytes are appended.
    pub fn buffer_mut(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    /// How many bytes are worth reserving before the next read, between 8 KiB and 1 MiB.
    pub fn read_ahead(&self) -> usize {
        let missing = match (self.buffer.get(1..HEADER_BYTES), self.buffer.len()) {
            (Some(length), have) => (be_u32(length) as usize).saturating_add(1).saturating_sub(have),
            (None, _) => 0,
        };
        missing.clamp(8 * 1024, READ_AHEAD_BYTES_MAX)
    }

    /// The next packet before the connection has a protocol version; `None` until it is complete.
    pub fn next_startup(&mut self) -> Result<Option<Startup>, ProtocolError> {
        startup::decode(&mut self.buffer)
    }

    /// The body of the next message while a password or SASL response is due; `None` until it is complete.
    pub fn next_password(&mut self) -> Result<Option<Bytes>, ProtocolError> {
        match self.buffer.first() {
            None => Ok(None),
            Some(b'p') => Ok(self.take_body(PASSWORD_BYTES_MAX)?.map(|(_, body)| body)),
            Some(other) => {
                Err(ProtocolError::violation(format!("expected password response, got message type {other}")))
            }
        }
    }

    /// The next message; `None` until it is complete.
    #[allow(clippy::should_implement_trait)] // not an iterator: `None` means "not yet"
    pub fn next(&mut self) -> Result<Option<Frontend>, ProtocolError> {
        let Some(&kind) = self.buffer.first() else {
            return Ok(None);
        };
        let Some((limit, recovery)) = rules(kind) else {
            return Err(ProtocolError::violation(format!("invalid frontend message type {kind}")));
        };
        let Some((kind, body)) = self.take_body(limit.min(self.message_bytes_max))? else {
            return Ok(None);
        };
        decode_body(kind, body).map(Some).map_err(|error| ProtocolError { error, recovery })
    }

    /// Takes a whole message off the buffer. `limit` counts the length word, as the protocol does.
    fn take_body(&mut self, limit: usize) -> Result<Option<(u8, Bytes)>, ProtocolError> {
        let Some(length) = self.buffer.get(1..HEADER_BYTES) else {
            return Ok(None);
        };
        let length = be_u32(length) as usize;
        if !(4..=limit).contains(&length) {
            return Err(ProtocolError::violation("invalid message length"));
        }
        if self.buffer.len() <= length {
            return Ok(None);
        }
        let mut message = self.buffer.split_to(length + 1).freeze();
        let kind = message[0];
        message.advance(HEADER_BYTES);
        Ok(Some((kind, message)))
    }
}

/// The length limit of a message type and what an error in such a message does; `None` for an unknown type.
fn rules(kind: u8) -> Option<(usize, Recovery)> {
    Some(match kind {
        b'Q' | b'F' => (MESSAGE_BYTES_MAX, Recovery::Ready),
        b'P' | b'B' => (MESSAGE_BYTES_MAX, Recovery::SkipToSync),
        b'D' | b'E' | b'C' | b'H' => (SMALL_MESSAGE_BYTES_MAX, Recovery::SkipToSync),
        b'S' | b'X' | b'c' | b'f' => (SMALL_MESSAGE_BYTES_MAX, Recovery::Ready),
        b'd' => (MESSAGE_BYTES_MAX, Recovery::Ready),
        _ => return None,
    })
}

fn decode_body(kind: u8, body: Bytes) -> Result<Frontend, SqlError> {
    if kind == b'd' {
        return Ok(Frontend::CopyData(body));
    }
    if kind == b'B' {
        return Bind::decode(body).map(Frontend::Bind);
    }
    let mut body = Body(body);
    let message = match kind {
        b'Q' => Frontend::Query(body.text()?),
        b'P' => Frontend::Parse(Parse::decode(&mut body)?),
        b'D' => Frontend::Describe(Target::decode(&mut body, "DESCRIBE")?),
        b'C' => Frontend::Close(Target::decode(&mut body, "CLOSE")?),
        b'E' => {
            let portal = body.text()?;
            // Zero is "no limit", and PostgreSQL reads a negative number as the same.
            let rows_max = i32::try_from(body.u32()?).ok().filter(|rows| *rows > 0).map(i32::unsigned_abs);
            Frontend::Execute { portal, rows_max }
        }
        b'H' => Frontend::Flush,
        b'S' => Frontend::Sync,
        // PostgreSQL does not look at what may follow in a Terminate, nor do we in a call that is refused
        // anyway.
        b'X' => return Ok(Frontend::Terminate),
        b'F' => return Ok(Frontend::FunctionCall),
        b'c' => Frontend::CopyDone,
        b'f' => Frontend::CopyFail(body.text()?),
        _ => {
            return Err(SqlError::internal(format!("no decoder for frontend message type {kind}")));
        }
    };
    body.end()?;
    Ok(message)
}

impl Target {
    fn decode(body: &mut Body, message: &str) -> Result<Self, SqlError> {
        let kind = body.u8()?;
        let name = body.text()?;
        match kind {
            b'S' => Ok(Target::Statement(name)),
            b'P' => Ok(Target::Portal(name)),
            other => Err(violation(format!("invalid {message} message subtype {other}"))),
        }
    }
}

impl Parse {
    fn decode(body: &mut Body) -> Result<Self, SqlError> {
        let name = body.text()?;
        let sql = body.text()?;
        let count = usize::from(body.u16()?);
        let oids = body.take(count * 4)?;
        Ok(Self { name, sql, param_oids: oids.chunks_exact(4).map(be_u32).collect() })
    }
}

/// Runs every decoder over `bytes` and looks at every part of every message; the entry point for fuzzing.
/// Returns how many messages were understood.
pub fn decode_all(bytes: &[u8]) -> usize {
    let mut understood = 0;
    let mut decoder = Decoder::default();
    decoder.buffer_mut().extend_from_slice(bytes);
    while let Ok(Some(_)) = decoder.next_startup() {
        understood += 1;
    }
    let mut decoder = Decoder::default();
    decoder.buffer_mut().extend_from_slice(bytes);
    while let Ok(Some(body)) = decoder.next_password() {
        understood += usize::from(super::scram::InitialResponse::decode(body).is_ok());
    }
    loop {
        match decoder.next() {
            Ok(Some(message)) => {
                understood += 1;
                touch(&message);
            }
            Err(error) if error.recovery != Recovery::Close => {}
            Ok(None) | Err(_) => break,
        }
    }
    std::hint::black_box(decoder.read_ahead());
    understood
}

fn touch(message: &Frontend) {
    if let Frontend::Bind(bind) = message {
        let values: usize = bind.params().flatten().map(<[u8]>::len).sum();
        let formats = (0..bind.params().len()).filter(|index| bind.param_formats().get(*index) == 1).count();
        std::hint::black_box((
            bind.portal(),
            bind.statement(),
            values,
            formats,
            bind.result_formats().iter().len(),
        ));
    }
    std::hint::black_box(format!("{message:?}").len());
}

#[cfg(test)]
#[path = "frontend_tests.rs"]
mod tests;
