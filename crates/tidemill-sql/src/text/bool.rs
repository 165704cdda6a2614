//! `boolean`: any unique prefix of true, false, yes, no, on and off, or 1 and 0.

use crate::error::Result;

use super::{invalid, trim};

pub fn parse_bool(bytes: &[u8]) -> Result<bool> {
    match bytes {
        b"t" | b"true" | b"1" => return Ok(true),
        b"f" | b"false" | b"0" => return Ok(false),
        _ => {}
    }
    let word = trim(bytes).to_ascii_lowercase();
    let spells = |full: &[u8], length_min: usize| word.len() >= length_min && full.starts_with(&word);
    if spells(b"true", 1) || spells(b"yes", 1) || spells(b"on", 2) || word == b"1" {
        Ok(true)
    } else if spells(b"false", 1) || spells(b"no", 1) || spells(b"off", 2) || word == b"0" {
        Ok(false)
    } else {
        Err(invalid("boolean", bytes))
    }
}

pub fn write_bool(value: bool, out: &mut Vec<u8>) {
    out.push(if value { b't' } else { b'f' });
}
