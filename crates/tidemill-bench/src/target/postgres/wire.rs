//! Messages of the protocol: writing them into the channel's buffer, reading them out of it.

use std::ops::Range;

use crate::error::{Error, Result, ServerError};
use crate::target::Value;
use crate::target::channel::Channel;

/// A message that came: good until the next is received.
pub(super) struct Message {
    pub tag: u8,
    pub body: Range<usize>,
}

/// Tag and length, which counts itself.
const HEAD_BYTES: usize = 5;

pub(super) fn receive(channel: &mut Channel) -> Result<Message> {
    let (tag, length) = head(channel.peek(HEAD_BYTES)?);
    if length < HEAD_BYTES {
        return Err(broken("a length below 4"));
    }
    let message = channel.take(length)?;
    Ok(Message { tag, body: message.start + HEAD_BYTES..message.end })
}

/// The next message if all of it has come. An answer of many rows costs what this costs.
#[inline]
pub(super) fn received(channel: &mut Channel) -> Option<Message> {
    let unread = channel.unread();
    let (tag, length) = head(unread.get(..HEAD_BYTES)?);
    if !(HEAD_BYTES..=unread.len()).contains(&length) {
        return None;
    }
    let message = channel.take_unread(length);
    Some(Message { tag, body: message.start + HEAD_BYTES..message.end })
}

/// Tag and length of a message, all of it counted.
#[inline]
fn head(bytes: &[u8]) -> (u8, usize) {
    (bytes[0], 1 + u32::from_be_bytes([bytes[1], bytes[2], bytes[3], bytes[4]]) as usize)
}

#[cold]
pub(super) fn broken(what: &str) -> Error {
    Error::Lost(format!("the server sent what is not the PostgreSQL protocol: {what}"))
}

/// Appends a message; its length is put in afterwards.
pub(super) fn send(out: &mut Vec<u8>, tag: u8, body: impl FnOnce(&mut Vec<u8>)) {
    out.push(tag);
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    body(out);
    let length = (out.len() - at) as u32;
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
}

pub(super) fn put_text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
    out.push(0);
}

pub(super) fn put_i16(out: &mut Vec<u8>, value: usize) {
    out.extend_from_slice(&(value as u16).to_be_bytes());
}

/// Types that go over the wire as numbers or bytes; all else is text. OIDs of `pg_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    Text,
    Int2,
    Int4,
    Int8,
    Float4,
    Float8,
    Bytes,
}

impl Format {
    pub fn of(oid: u32) -> Format {
        match oid {
            17 => Format::Bytes,
            20 => Format::Int8,
            21 => Format::Int2,
            23 => Format::Int4,
            700 => Format::Float4,
            701 => Format::Float8,
            _ => Format::Text,
        }
    }

    pub fn code(self) -> usize {
        usize::from(self != Format::Text)
    }

    /// How this value goes to a parameter of this type: text fits every type, bytes go as they are.
    fn for_value(self, value: &Value<'_>) -> Format {
        match (self, value) {
            (Format::Int8, Value::Int(_)) | (Format::Float8, Value::Float(_)) => self,
            (Format::Int4, Value::Int(v)) if i32::try_from(*v).is_ok() => self,
            (Format::Int2, Value::Int(v)) if i16::try_from(*v).is_ok() => self,
            (_, Value::Bytes(_)) => Format::Bytes,
            _ => Format::Text,
        }
    }
}

/// Bind of the unnamed portal. Parameter types that are not known (fewer `types` than values) go as text.
pub(super) fn bind(
    out: &mut Vec<u8>,
    statement: &str,
    types: &[Format],
    values: &[Value<'_>],
    results: &[Format],
) {
    let format = |i: usize, value| types.get(i).copied().unwrap_or(Format::Text).for_value(value);
    send(out, b'B', |out| {
        out.push(0);
        put_text(out, statement);
        put_i16(out, values.len());
        for (i, value) in values.iter().enumerate() {
            put_i16(out, format(i, value).code());
        }
        put_i16(out, values.len());
        for (i, value) in values.iter().enumerate() {
            put_value(out, format(i, value), value);
        }
        put_i16(out, results.len());
        results.iter().for_each(|result| put_i16(out, result.code()));
    });
}

fn put_value(out: &mut Vec<u8>, format: Format, value: &Value<'_>) {
    match (value, format) {
        (Value::Null, _) => out.extend_from_slice(&(-1i32).to_be_bytes()),
        (Value::Int(v), Format::Int8) => put_number(out, v.to_be_bytes()),
        (Value::Int(v), Format::Int4) => put_number(out, (*v as i32).to_be_bytes()),
        (Value::Int(v), Format::Int2) => put_number(out, (*v as i16).to_be_bytes()),
        (Value::Int(v), _) => put_bytes(out, itoa::Buffer::new().format(*v).as_bytes()),
        (Value::Float(v), Format::Float8) => put_number(out, v.to_be_bytes()),
        (Value::Float(v), _) => put_bytes(out, v.to_string().as_bytes()),
        (Value::Text(text), _) => put_bytes(out, text.as_bytes()),
        (Value::Bytes(bytes), _) => put_bytes(out, bytes),
    }
}

fn put_number<const BYTES: usize>(out: &mut Vec<u8>, number: [u8; BYTES]) {
    out.extend_from_slice(&(BYTES as i32).to_be_bytes());
    out.extend_from_slice(&number);
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as i32).to_be_bytes());
    out.extend_from_slice(bytes);
}

/// The fields of a body, one after the other; what is short is not the protocol.
pub(super) struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    #[inline]
    pub fn bytes(&mut self, n: usize) -> Result<&'a [u8]> {
        let (taken, rest) =
            self.0.split_at_checked(n).ok_or_else(|| broken("a message that is too short"))?;
        self.0 = rest;
        Ok(taken)
    }

    #[inline]
    pub fn u16(&mut self) -> Result<u16> {
        let b = self.bytes(2)?;
        Ok(u16::from_be_bytes([b[0], b[1]]))
    }

    #[inline]
    pub fn u32(&mut self) -> Result<u32> {
        let b = self.bytes(4)?;
        Ok(u32::from_be_bytes([b[0], b[1], b[2], b[3]]))
    }

    pub fn text(&mut self) -> Result<&'a [u8]> {
        let end = self.0.iter().position(|b| *b == 0).ok_or_else(|| broken("a text without an end"))?;
        let text = self.bytes(end)?;
        self.bytes(1)?;
        Ok(text)
    }
}

/// ErrorResponse.
pub(super) fn server_error(body: &[u8]) -> Error {
    let mut error = ServerError::default();
    let mut fields = Fields(body);
    while let Ok([kind]) = fields.bytes(1) {
        let Ok(text) = fields.text() else { break };
        let text = String::from_utf8_lossy(text).into_owned();
        match kind {
            b'C' => error.code = text,
            b'M' => error.message = text,
            b'D' => error.detail = text,
            b'H' => error.hint = text,
            _ => {}
        }
    }
    Error::Server(Box::new(error))
}
