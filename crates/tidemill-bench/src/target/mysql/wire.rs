//! Packets: three bytes of length, a sequence number, and what is in them.

use crate::error::{Error, Result};
use crate::target::channel::Channel;

/// A packet of this length is continued by the next one.
const PACKET_BYTES_MAX: usize = 0xff_ff_ff;

pub(super) fn broken(what: &str) -> Error {
    Error::Lost(format!("the server sent what is not the MySQL protocol: {what}"))
}

/// Reads a packet, all its pieces, into `into`; gives the sequence number of the last.
pub(super) fn receive(channel: &mut Channel, into: &mut Vec<u8>) -> Result<u8> {
    into.clear();
    loop {
        let range = channel.take(4)?;
        let head = channel.bytes(range);
        let length = usize::from(head[0]) | usize::from(head[1]) << 8 | usize::from(head[2]) << 16;
        let sequence = head[3];
        let range = channel.take(length)?;
        into.extend_from_slice(channel.bytes(range));
        if length < PACKET_BYTES_MAX {
            return Ok(sequence);
        }
    }
}

/// Appends a packet, cut into pieces where it is too long for one.
pub(super) fn send(out: &mut Vec<u8>, mut sequence: u8, body: &[u8]) {
    let mut rest = body;
    loop {
        let (piece, after) = rest.split_at(rest.len().min(PACKET_BYTES_MAX));
        out.extend_from_slice(&(piece.len() as u32).to_le_bytes()[..3]);
        out.push(sequence);
        out.extend_from_slice(piece);
        sequence = sequence.wrapping_add(1);
        rest = after;
        if piece.len() < PACKET_BYTES_MAX {
            return;
        }
    }
}

/// Fields of a packet, little-endian; what is short is not the protocol.
pub(super) struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    pub fn bytes(&mut self, n: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(n).ok_or_else(|| broken("a packet that is too short"))?;
        self.0 = rest;
        Ok(taken)
    }

    /// An integer of up to eight bytes.
    pub fn uint(&mut self, bytes: usize) -> Result<u64> {
        let taken = self.bytes(bytes)?;
        Ok(taken.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    /// A length-encoded integer; none stands for NULL.
    pub fn length(&mut self) -> Result<Option<u64>> {
        Ok(match self.uint(1)? {
            0xfb => None,
            0xfc => Some(self.uint(2)?),
            0xfd => Some(self.uint(3)?),
            0xfe => Some(self.uint(8)?),
            0xff => return Err(broken("a length that is none")),
            small => Some(small),
        })
    }

    pub fn count(&mut self) -> Result<u64> {
        self.length()?.ok_or_else(|| broken("NULL where a number must be"))
    }

    /// A length-encoded text; none stands for NULL.
    pub fn text(&mut self) -> Result<Option<&'a [u8]>> {
        match self.length()? {
            None => Ok(None),
            Some(length) => self.bytes(usize::try_from(length).unwrap_or(usize::MAX)).map(Some),
        }
    }

    /// Up to the next zero byte, or the end.
    pub fn until_zero(&mut self) -> &'a [u8] {
        let end = self.0.iter().position(|b| *b == 0);
        let text = &self.0[..end.unwrap_or(self.0.len())];
        self.0 = &self.0[end.map_or(self.0.len(), |end| end + 1)..];
        text
    }
}

/// An ERR packet. The code is the SQLSTATE where it says something, MySQL's number otherwise.
pub(super) fn server_error(body: &[u8]) -> Error {
    let mut fields = Fields(body.get(1..).unwrap_or_default());
    let number = fields.uint(2).unwrap_or(0);
    let mut code = number.to_string();
    if fields.0.first() == Some(&b'#') && fields.0.len() >= 6 {
        let state = String::from_utf8_lossy(&fields.0[1..6]).into_owned();
        if state != "HY000" {
            code = state;
        }
        fields.0 = &fields.0[6..];
    }
    Error::server(code, String::from_utf8_lossy(fields.0))
}

/// Of an OK packet.
pub(super) struct Ok41 {
    pub affected: u64,
    pub status: u64,
}

/// Of a status: a transaction is open.
pub(super) const IN_TRANSACTION: u64 = 1;
/// Another result follows this one.
pub(super) const MORE_RESULTS: u64 = 8;

pub(super) fn ok(body: &[u8]) -> Result<Ok41> {
    let mut fields = Fields(body.get(1..).unwrap_or_default());
    let affected = fields.count()?;
    fields.count()?;
    Ok(Ok41 { affected, status: fields.uint(2)? })
}

/// The end of columns or rows; gives the status.
pub(super) fn end(body: &[u8]) -> Option<u64> {
    (body.first() == Some(&0xfe) && body.len() < 9).then(|| body.get(3).copied().unwrap_or(0).into())
}
