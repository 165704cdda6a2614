//! Arrays of one dimension: PostgreSQL's literal `{1,NULL,"a b"}` and its binary form, into a list column.

use crate::{Result, SqlError, SqlState};

use super::Lists;
use super::binary::insufficient;

/// PostgreSQL's `MAXDIM`.
const DIMENSIONS_MAX: i32 = 6;
/// PostgreSQL's `MaxArraySize`: elements that fit an allocation of 1 GiB.
const ELEMENTS_MAX: i32 = 134_217_727;

impl Lists {
    pub(super) fn append_text(&mut self, text: &[u8]) -> Result<()> {
        let mut literal = Literal { text, at: 0, item: Vec::new() };
        let appended = literal.parse(self);
        self.closed(appended)
    }

    pub(super) fn append_binary(&mut self, bytes: &[u8]) -> Result<()> {
        let appended = self.binary_items(bytes);
        self.closed(appended)
    }

    fn closed(&mut self, appended: Result<()>) -> Result<()> {
        match appended {
            Ok(()) => self.close(),
            Err(error) => {
                self.undo();
                Err(error)
            }
        }
    }

    fn binary_items(&mut self, bytes: &[u8]) -> Result<()> {
        let mut rest = bytes;
        let dimensions = word(&mut rest)?;
        if dimensions < 0 {
            let message = format!("invalid number of dimensions: {dimensions}");
            return Err(SqlError::new(SqlState::INVALID_BINARY_REPRESENTATION, message));
        }
        if dimensions > DIMENSIONS_MAX {
            let message = format!(
                "number of array dimensions ({dimensions}) exceeds the maximum allowed ({DIMENSIONS_MAX})"
            );
            return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
        }
        if !matches!(word(&mut rest)?, 0 | 1) {
            return Err(SqlError::new(SqlState::INVALID_BINARY_REPRESENTATION, "invalid array flags"));
        }
        self.check_element_type(word(&mut rest)? as u32)?;
        if dimensions > 1 {
            return Err(multidimensional());
        }
        let count = if dimensions == 0 { 0 } else { element_count(&mut rest)? };
        for number in 1..=count {
            self.binary_item(&mut rest, number)?;
        }
        if rest.is_empty() { Ok(()) } else { Err(incorrect("incorrect binary data format")) }
    }

    fn check_element_type(&self, got: u32) -> Result<()> {
        let expected = self.items.ty();
        if got == expected.oid() {
            return Ok(());
        }
        let name = crate::types::Type::from_oid(got).map_or("???".to_string(), |t| t.display());
        Err(SqlError::new(
            SqlState::DATATYPE_MISMATCH,
            format!(
                "binary data has array element type {got} ({name}) instead of expected {} ({})",
                expected.oid(),
                expected.with_typmod(-1).display()
            ),
        ))
    }

    fn binary_item(&mut self, rest: &mut &[u8], number: i32) -> Result<()> {
        let length = word(rest)?;
        let Ok(length) = usize::try_from(length) else {
            if length != -1 {
                return Err(insufficient());
            }
            self.items.append_null();
            return Ok(());
        };
        let (item, after) = rest.split_at_checked(length).ok_or_else(insufficient)?;
        *rest = after;
        self.items.append_binary(item).map_err(|e| match e.state {
            // A longer element is told apart from a longer value.
            SqlState::INVALID_BINARY_REPRESENTATION if e.message == "incorrect binary data format" => {
                incorrect(&format!("improper binary format in array element {number}"))
            }
            _ => e,
        })
    }
}

/// The only dimension: its length, and its lower bound, which a list cannot hold.
fn element_count(rest: &mut &[u8]) -> Result<i32> {
    let count = word(rest)?;
    let lower_bound = word(rest)?;
    if !(0..=ELEMENTS_MAX).contains(&count) {
        return Err(SqlError::new(
            SqlState::PROGRAM_LIMIT_EXCEEDED,
            format!("array size exceeds the maximum allowed ({ELEMENTS_MAX})"),
        ));
    }
    if lower_bound != 1 && count > 0 {
        return Err(lower_bounds());
    }
    Ok(count)
}

fn word(rest: &mut &[u8]) -> Result<i32> {
    let (word, after) = rest.split_first_chunk::<4>().ok_or_else(insufficient)?;
    *rest = after;
    Ok(i32::from_be_bytes(*word))
}

fn incorrect(message: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_BINARY_REPRESENTATION, message)
}

fn multidimensional() -> SqlError {
    SqlError::unsupported("arrays of more than one dimension are not supported")
}

fn lower_bounds() -> SqlError {
    SqlError::unsupported("arrays with a lower bound other than 1 are not supported")
}

/// An array literal that is being read.
struct Literal<'a> {
    text: &'a [u8],
    at: usize,
    item: Vec<u8>,
}

impl Literal<'_> {
    fn parse(&mut self, lists: &mut Lists) -> Result<()> {
        self.skip_space();
        if self.peek() == Some(b'[') {
            self.dimension()?;
        }
        if self.peek() != Some(b'{') {
            return Err(self.malformed("Array value must start with \"{\" or dimension information."));
        }
        self.at += 1;
        self.skip_space();
        if self.peek() == Some(b'}') {
            self.at += 1;
        } else {
            while self.element(lists)? {}
        }
        self.skip_space();
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.malformed("Junk after closing right brace.")),
        }
    }

    /// `[1:n]=`, which changes nothing.
    fn dimension(&mut self) -> Result<()> {
        let rest = &self.text[self.at..];
        let end = memchr::memchr(b']', rest)
            .ok_or_else(|| self.malformed("Missing \"]\" after array dimensions."))?;
        let bounds = std::str::from_utf8(&rest[1..end]).unwrap_or_default();
        let (lower, _) = bounds.split_once(':').unwrap_or(("1", bounds));
        self.at += end + 1;
        self.skip_space();
        match (lower.trim(), self.peek()) {
            (_, Some(b'[')) => Err(multidimensional()),
            ("1", Some(b'=')) => {
                self.at += 1;
                self.skip_space();
                Ok(())
            }
            (_, Some(b'=')) => Err(lower_bounds()),
            _ => Err(self.malformed("Missing \"=\" after array dimensions.")),
        }
    }

    /// One element and what follows it: whether there is another.
    fn element(&mut self, lists: &mut Lists) -> Result<bool> {
        self.skip_space();
        self.item.clear();
        match self.peek() {
            Some(b'{') => return Err(multidimensional()),
            Some(c @ (b'}' | b',')) => return Err(self.unexpected(c)),
            Some(b'"') => {
                self.quoted()?;
                lists.items.append_text(&self.item)?;
            }
            _ if self.bare()? => lists.items.append_null(),
            _ => lists.items.append_text(&self.item)?,
        }
        self.skip_space();
        let next = self.peek();
        self.at += 1;
        match next {
            Some(b',') => Ok(true),
            Some(b'}') => Ok(false),
            Some(c @ (b'{' | b'\\')) => Err(self.unexpected(c)),
            Some(_) => Err(self.malformed("Unexpected array element.")),
            None => Err(self.malformed("Unexpected end of input.")),
        }
    }

    fn quoted(&mut self) -> Result<()> {
        self.at += 1;
        loop {
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => {
                    self.at += 1;
                    self.item.push(self.peek().ok_or_else(|| self.malformed("Unexpected end of input."))?);
                }
                Some(byte) => self.item.push(byte),
                None => return Err(self.malformed("Unexpected end of input.")),
            }
            self.at += 1;
        }
        self.at += 1;
        Ok(())
    }

    /// An element without quotes, without the space behind it; whether it is NULL.
    fn bare(&mut self) -> Result<bool> {
        let mut kept = 0;
        let mut escaped = false;
        while let Some(byte) = self.peek() {
            match byte {
                b',' | b'}' => break,
                b'{' => return Err(self.unexpected(byte)),
                b'"' => return Err(self.malformed("Unexpected array element.")),
                b'\\' => {
                    self.at += 1;
                    self.item.push(self.peek().ok_or_else(|| self.malformed("Unexpected end of input."))?);
                    (escaped, kept) = (true, self.item.len());
                }
                _ => {
                    self.item.push(byte);
                    if !is_space(byte) {
                        kept = self.item.len();
                    }
                }
            }
            self.at += 1;
        }
        self.item.truncate(kept);
        Ok(!escaped && self.item.eq_ignore_ascii_case(b"null"))
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while self.peek().is_some_and(is_space) {
            self.at += 1;
        }
    }

    fn unexpected(&self, byte: u8) -> SqlError {
        self.malformed(&format!("Unexpected \"{}\" character.", byte as char))
    }

    fn malformed(&self, detail: &str) -> SqlError {
        let text = String::from_utf8_lossy(self.text);
        SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, format!("malformed array literal: \"{text}\""))
            .with_detail(detail)
    }
}

/// PostgreSQL's `array_isspace`.
fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0b | 0x0c)
}
