//! Values of prepared statements, in their binary form, and literals of INSERT.

use super::wire::{Fields, broken};
use crate::error::{Error, Result};
use crate::target::load::hex;
use crate::target::{Cell, Rows, Value};

/// A column, as far as reading its values goes.
#[derive(Debug, Clone)]
pub(super) struct Column {
    pub name: String,
    kind: u8,
    is_unsigned: bool,
}

mod kind {
    pub const TINY: u8 = 1;
    pub const SHORT: u8 = 2;
    pub const LONG: u8 = 3;
    pub const FLOAT: u8 = 4;
    pub const DOUBLE: u8 = 5;
    pub const NULL: u8 = 6;
    pub const TIMESTAMP: u8 = 7;
    pub const LONGLONG: u8 = 8;
    pub const INT24: u8 = 9;
    pub const DATE: u8 = 10;
    pub const TIME: u8 = 11;
    pub const DATETIME: u8 = 12;
    pub const YEAR: u8 = 13;
    pub const BLOB: u8 = 252;
    pub const VAR_STRING: u8 = 253;
}

const UNSIGNED: u64 = 0x20;

impl Column {
    pub fn read(packet: &[u8]) -> Result<Column> {
        let mut fields = Fields(packet);
        let mut names = [None; 6];
        for name in &mut names {
            *name = fields.text()?;
        }
        fields.bytes(1 + 2 + 4)?;
        let kind = fields.uint(1)? as u8;
        let is_unsigned = fields.uint(2)? & UNSIGNED != 0;
        let name = String::from_utf8_lossy(names[4].unwrap_or_default()).into_owned();
        Ok(Column { name, kind, is_unsigned })
    }
}

/// The parameters of COM_STMT_EXECUTE.
pub(super) fn put_parameters(out: &mut Vec<u8>, values: &[Value<'_>]) {
    if values.is_empty() {
        return;
    }
    let nulls = out.len();
    out.resize(nulls + values.len().div_ceil(8), 0);
    for (i, _) in values.iter().enumerate().filter(|(_, value)| **value == Value::Null) {
        out[nulls + i / 8] |= 1 << (i % 8);
    }
    // The types follow.
    out.push(1);
    for value in values {
        let kind = match value {
            Value::Null => kind::NULL,
            Value::Int(_) => kind::LONGLONG,
            Value::Float(_) => kind::DOUBLE,
            Value::Text(_) => kind::VAR_STRING,
            Value::Bytes(_) => kind::BLOB,
        };
        out.extend_from_slice(&[kind, 0]);
    }
    for value in values {
        match value {
            Value::Null => {}
            Value::Int(value) => out.extend_from_slice(&value.to_le_bytes()),
            Value::Float(value) => out.extend_from_slice(&value.to_le_bytes()),
            Value::Text(text) => put_text(out, text.as_bytes()),
            Value::Bytes(bytes) => put_text(out, bytes),
        }
    }
}

fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    match text.len() {
        n @ ..=250 => out.push(n as u8),
        n @ 251..=0xffff => {
            out.push(0xfc);
            out.extend_from_slice(&(n as u16).to_le_bytes());
        }
        n => {
            out.push(0xfe);
            out.extend_from_slice(&(n as u64).to_le_bytes());
        }
    }
    out.extend_from_slice(text);
}

fn keep_bytes(rows: &mut Rows, bytes: &[u8]) -> Result<()> {
    if !rows.has_room_for(bytes.len()) {
        return Err(Error::Unsupported("an answer is larger than 4 GB".to_owned()));
    }
    rows.push_bytes(bytes);
    Ok(())
}

pub(super) fn keep_text_row(rows: &mut Rows, columns: usize, packet: &[u8]) -> Result<()> {
    let mut fields = Fields(packet);
    for _ in 0..columns {
        match fields.text()? {
            Some(text) => keep_bytes(rows, text)?,
            None => rows.push(Cell::Null),
        }
    }
    Ok(())
}

pub(super) fn keep_binary_row(rows: &mut Rows, columns: &[Column], packet: &[u8]) -> Result<()> {
    let mut fields = Fields(packet);
    fields.bytes(1)?;
    // Two bits are reserved in front.
    let nulls = fields.bytes((columns.len() + 9) / 8)?;
    for (i, column) in columns.iter().enumerate() {
        if nulls[(i + 2) / 8] >> ((i + 2) % 8) & 1 == 1 {
            rows.push(Cell::Null);
            continue;
        }
        let size = match column.kind {
            kind::TINY => 1,
            kind::SHORT | kind::YEAR => 2,
            kind::LONG | kind::INT24 => 4,
            kind::LONGLONG => 8,
            kind::FLOAT => {
                rows.push(Cell::Float(f32::from_bits(fields.uint(4)? as u32).into()));
                continue;
            }
            kind::DOUBLE => {
                rows.push(Cell::Float(f64::from_bits(fields.uint(8)?)));
                continue;
            }
            kind::DATE | kind::DATETIME | kind::TIMESTAMP => {
                let text = moment(&mut fields)?;
                keep_bytes(rows, text.as_bytes())?;
                continue;
            }
            kind::TIME => {
                let text = time(&mut fields)?;
                keep_bytes(rows, text.as_bytes())?;
                continue;
            }
            _ => {
                keep_bytes(rows, fields.text()?.ok_or_else(|| broken("NULL in a row"))?)?;
                continue;
            }
        };
        let raw = fields.uint(size)?;
        let unused = 64 - 8 * size as u32;
        match (column.is_unsigned, i64::try_from(raw)) {
            (true, Ok(value)) => rows.push(Cell::Int(value)),
            (true, Err(_)) => keep_bytes(rows, raw.to_string().as_bytes())?,
            (false, _) => rows.push(Cell::Int((raw << unused) as i64 >> unused)),
        }
    }
    Ok(())
}

fn moment(fields: &mut Fields<'_>) -> Result<String> {
    let length = fields.uint(1)? as usize;
    let mut part = Fields(fields.bytes(length)?);
    let mut next = |bytes| if part.0.len() >= bytes { part.uint(bytes) } else { Ok(0) };
    let (year, month, day) = (next(2)?, next(1)?, next(1)?);
    let (hour, minute, second, micros) = (next(1)?, next(1)?, next(1)?, next(4)?);
    Ok(match length {
        ..=4 => format!("{year:04}-{month:02}-{day:02}"),
        5..=7 => format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}"),
        _ => format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{micros:06}"),
    })
}

fn time(fields: &mut Fields<'_>) -> Result<String> {
    let length = fields.uint(1)? as usize;
    let mut part = Fields(fields.bytes(length)?);
    let mut next = |bytes| if part.0.len() >= bytes { part.uint(bytes) } else { Ok(0) };
    let sign = if next(1)? == 1 { "-" } else { "" };
    let (days, hour, minute, second, micros) = (next(4)?, next(1)?, next(1)?, next(1)?, next(4)?);
    let hours = days * 24 + hour;
    Ok(match length {
        ..=8 => format!("{sign}{hours:02}:{minute:02}:{second:02}"),
        _ => format!("{sign}{hours:02}:{minute:02}:{second:02}.{micros:06}"),
    })
}

/// A value in the text of a statement, under the default sql_mode (backslashes escape).
pub(super) fn put_literal(out: &mut Vec<u8>, value: &Value<'_>) {
    match value {
        Value::Null => out.extend_from_slice(b"NULL"),
        Value::Int(value) => out.extend_from_slice(itoa::Buffer::new().format(*value).as_bytes()),
        Value::Float(value) => out.extend_from_slice(value.to_string().as_bytes()),
        Value::Bytes(bytes) => {
            out.extend_from_slice(b"x'");
            hex(bytes, out);
            out.push(b'\'');
        }
        Value::Text(text) => {
            out.push(b'\'');
            for byte in text.bytes() {
                match byte {
                    b'\'' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
                    0 => out.extend_from_slice(b"\\0"),
                    _ => out.push(byte),
                }
            }
            out.push(b'\'');
        }
    }
}
