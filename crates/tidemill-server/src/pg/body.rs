//! Reading the parts of a message's body, with the checks and the messages of PostgreSQL.

use bytes::Bytes;
use tidemill_sql::{SqlError, SqlState};

use super::wire_error::invalid_utf8;

/// Bytes that were checked to be UTF-8 when they were decoded.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Text(Bytes);

/// A message body that is taken apart from the front into parts that share its memory.
pub(super) struct Body(pub(super) Bytes);

impl Body {
    fn scan<T>(
        &mut self,
        read: impl FnOnce(&mut Scan<'_>) -> Result<T, SqlError>,
    ) -> Result<(T, Bytes), SqlError> {
        let mut scan = Scan { bytes: &self.0, at: 0 };
        let value = read(&mut scan)?;
        let at = scan.at;
        Ok((value, self.0.split_to(at)))
    }

    pub(super) fn u8(&mut self) -> Result<u8, SqlError> {
        Ok(self.scan(|scan| scan.u8())?.0)
    }

    pub(super) fn u16(&mut self) -> Result<u16, SqlError> {
        Ok(self.scan(|scan| scan.u16())?.0)
    }

    pub(super) fn u32(&mut self) -> Result<u32, SqlError> {
        Ok(self.scan(|scan| scan.u32())?.0)
    }

    pub(super) fn take(&mut self, count: usize) -> Result<Bytes, SqlError> {
        Ok(self.scan(|scan| scan.take(count).map(|_| ()))?.1)
    }

    /// A string up to its terminating zero, which is left out.
    pub(super) fn text(&mut self) -> Result<Text, SqlError> {
        let (_, mut bytes) = self.scan(|scan| scan.text().map(|_| ()))?;
        bytes.truncate(bytes.len() - 1);
        Ok(Text(bytes))
    }

    pub(super) fn end(&self) -> Result<(), SqlError> {
        Scan { bytes: &self.0, at: 0 }.end()
    }
}

impl Text {
    pub fn as_str(&self) -> &str {
        checked_text(&self.0)
    }
}

impl TryFrom<Bytes> for Text {
    type Error = SqlError;

    fn try_from(bytes: Bytes) -> Result<Self, SqlError> {
        std::str::from_utf8(&bytes).map_err(|error| invalid_utf8(&bytes, error))?;
        Ok(Self(bytes))
    }
}

impl std::fmt::Debug for Text {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.as_str().fmt(f)
    }
}

impl std::ops::Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

pub(super) fn checked_text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("decoding checked that this is UTF-8")
}

/// A position in borrowed bytes; every step is bounds-checked and reports PostgreSQL's message.
pub(super) struct Scan<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
}

impl<'a> Scan<'a> {
    fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8], SqlError> {
        let taken = self.rest().get(..count).ok_or_else(|| violation("insufficient data left in message"))?;
        self.at += count;
        Ok(taken)
    }

    pub(super) fn u8(&mut self) -> Result<u8, SqlError> {
        let byte = *self.rest().first().ok_or_else(|| violation("no data left in message"))?;
        self.at += 1;
        Ok(byte)
    }

    pub(super) fn u16(&mut self) -> Result<u16, SqlError> {
        Ok(be_u16(self.take(2)?))
    }

    pub(super) fn u32(&mut self) -> Result<u32, SqlError> {
        Ok(be_u32(self.take(4)?))
    }

    pub(super) fn text(&mut self) -> Result<&'a str, SqlError> {
        let rest = self.rest();
        let end = memchr::memchr(0, rest).ok_or_else(|| violation("invalid string in message"))?;
        let bytes = &rest[..end];
        self.at += end + 1;
        std::str::from_utf8(bytes).map_err(|error| invalid_utf8(bytes, error))
    }

    /// A list of format codes; returns how many there are.
    pub(super) fn formats(&mut self) -> Result<usize, SqlError> {
        let count = usize::from(self.u16()?);
        for code in self.take(count * 2)?.chunks_exact(2) {
            let code = be_u16(code).cast_signed();
            if !matches!(code, 0 | 1) {
                let message = format!("unsupported format code: {code}");
                return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
            }
        }
        Ok(count)
    }

    pub(super) fn end(&self) -> Result<(), SqlError> {
        if self.rest().is_empty() { Ok(()) } else { Err(violation("invalid message format")) }
    }
}

pub(super) fn violation(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::PROTOCOL_VIOLATION, message)
}

/// The first two bytes, which the caller knows to be there, in network order.
pub(super) fn be_u16(bytes: &[u8]) -> u16 {
    u16::from_be_bytes([bytes[0], bytes[1]])
}

/// The first four bytes, which the caller knows to be there, in network order.
pub(super) fn be_u32(bytes: &[u8]) -> u32 {
    u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}
