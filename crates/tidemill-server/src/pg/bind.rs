//! The Bind message, read in place: the parameters of a prepared statement without an allocation or a copy.

use bytes::Bytes;
use tidemill_sql::SqlError;

use super::body::{Scan, be_u16, be_u32, checked_text, violation};

/// Bind, kept as its body and the places of its parts: decoding allocates nothing.
#[derive(Debug, Clone)]
pub struct Bind {
    body: Bytes,
    statement_at: usize,
    param_formats_at: usize,
    params_at: usize,
    result_formats_at: usize,
}

/// Format codes as Bind carries them: none (all text), one for all, or one each. 0 is text, 1 is binary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Formats<'a>(&'a [u8]);

/// The parameter values of a Bind in order; `None` is NULL.
#[derive(Debug, Clone)]
pub struct Params<'a> {
    left: usize,
    bytes: &'a [u8],
}

impl Bind {
    pub(super) fn decode(body: Bytes) -> Result<Self, SqlError> {
        let mut scan = Scan { bytes: &body, at: 0 };
        scan.text()?;
        let statement_at = scan.at;
        scan.text()?;
        let param_formats_at = scan.at;
        let format_count = scan.formats()?;
        let params_at = scan.at;
        let param_count = usize::from(scan.u16()?);
        if format_count > 1 && format_count != param_count {
            return Err(violation(format!(
                "bind message has {format_count} parameter formats but {param_count} parameters"
            )));
        }
        for _ in 0..param_count {
            let length = scan.u32()?;
            // -1 is NULL; any other negative length is more than any message holds.
            if length != u32::MAX {
                scan.take(length as usize)?;
            }
        }
        let result_formats_at = scan.at;
        scan.formats()?;
        scan.end()?;
        Ok(Self { statement_at, param_formats_at, params_at, result_formats_at, body })
    }

    pub fn portal(&self) -> &str {
        checked_text(&self.body[..self.statement_at - 1])
    }

    pub fn statement(&self) -> &str {
        checked_text(&self.body[self.statement_at..self.param_formats_at - 1])
    }

    pub fn param_formats(&self) -> Formats<'_> {
        Formats(&self.body[self.param_formats_at + 2..self.params_at])
    }

    pub fn params(&self) -> Params<'_> {
        let bytes = &self.body[self.params_at..self.result_formats_at];
        Params { left: usize::from(be_u16(bytes)), bytes: &bytes[2..] }
    }

    pub fn result_formats(&self) -> Formats<'_> {
        Formats(&self.body[self.result_formats_at + 2..])
    }

    /// The whole message, for those who keep a parameter longer than the message (`Bytes::slice_ref`).
    pub fn body(&self) -> &Bytes {
        &self.body
    }
}

impl<'a> Formats<'a> {
    /// How many codes were sent; a list longer than one must match the number of columns or parameters.
    pub fn count(self) -> usize {
        self.0.len() / 2
    }

    /// The format of item `index`; text for an item past the end of the list.
    pub fn get(self, index: usize) -> i16 {
        let index = if self.count() == 1 { 0 } else { index };
        self.0.get(index * 2..index * 2 + 2).map_or(0, |code| be_u16(code).cast_signed())
    }

    /// The codes as sent.
    pub fn iter(self) -> impl ExactSizeIterator<Item = i16> + 'a {
        self.0.chunks_exact(2).map(|code| be_u16(code).cast_signed())
    }
}

impl<'a> Iterator for Params<'a> {
    type Item = Option<&'a [u8]>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let (length, rest) = self.bytes.split_at(4);
        let length = be_u32(length);
        if length == u32::MAX {
            self.bytes = rest;
            return Some(None);
        }
        let (value, rest) = rest.split_at(length as usize);
        self.bytes = rest;
        Some(Some(value))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Params<'_> {}
