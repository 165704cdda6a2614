//! What the server's messages say: types, columns, rows, what a command did.

use super::wire::{Fields, Format, broken};
use crate::error::{Error, Result};
use crate::target::{Cell, Rows};

pub(super) fn parameter_types(body: &[u8]) -> Result<Vec<Format>> {
    let mut fields = Fields(body);
    (0..fields.u16()?).map(|_| fields.u32().map(Format::of)).collect()
}

/// Names and types of RowDescription.
pub(super) fn columns(body: &[u8]) -> Result<Vec<(String, Format)>> {
    let mut fields = Fields(body);
    let count = fields.u16()?;
    let mut found = Vec::with_capacity(usize::from(count));
    for _ in 0..count {
        let name = String::from_utf8_lossy(fields.text()?).into_owned();
        fields.bytes(6)?;
        found.push((name, Format::of(fields.u32()?)));
        fields.bytes(8)?;
    }
    Ok(found)
}

/// The number at the end of a command tag: `INSERT 0 5`, `SELECT 5`, `COPY 5`.
pub(super) fn affected(body: &[u8]) -> u64 {
    let tag = body.strip_suffix(&[0]).unwrap_or(body);
    let digits = tag.rsplit(|b| *b == b' ').next().unwrap_or_default();
    if tag.starts_with(b"SELECT") {
        return 0;
    }
    std::str::from_utf8(digits).ok().and_then(|d| d.parse().ok()).unwrap_or(0)
}

pub(super) fn keep_row(rows: &mut Rows, columns: &[Format], body: &[u8]) -> Result<()> {
    let mut fields = Fields(body);
    let count = usize::from(fields.u16()?);
    if count != columns.len() {
        return Err(broken("a row with another number of columns"));
    }
    rows.start_row();
    if !rows.has_room_for(body.len()) {
        return Err(Error::Unsupported("an answer is larger than 4 GB".to_owned()));
    }
    rows.reserve(count, body.len());
    for format in columns {
        let length = fields.u32()? as i32;
        if length < 0 {
            rows.push(Cell::Null);
            continue;
        }
        let bytes = fields.bytes(length as usize)?;
        let wrong = |_| broken("a number of the wrong size");
        match format {
            Format::Text | Format::Bytes => rows.push_bytes(bytes),
            Format::Int2 => rows.push(Cell::Int(i16::from_be_bytes(bytes.try_into().map_err(wrong)?).into())),
            Format::Int4 => rows.push(Cell::Int(i32::from_be_bytes(bytes.try_into().map_err(wrong)?).into())),
            Format::Int8 => rows.push(Cell::Int(i64::from_be_bytes(bytes.try_into().map_err(wrong)?))),
            Format::Float4 => {
                rows.push(Cell::Float(f32::from_be_bytes(bytes.try_into().map_err(wrong)?).into()))
            }
            Format::Float8 => rows.push(Cell::Float(f64::from_be_bytes(bytes.try_into().map_err(wrong)?))),
        }
    }
    Ok(())
}
