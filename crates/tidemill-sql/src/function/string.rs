//! String functions. Positions and lengths count characters.

mod encoding;
mod join;

use std::sync::Arc;

use arrow::array::ArrayRef;

use super::kernel::{Bytea, Int4, Int8, Text};
use super::{Call, Param, Registry, Returns, textual};
use crate::error::{Result, SqlError, SqlState};
use crate::name::{quote_ident, quote_literal};
use crate::types::{Scalar, Type};

/// Larger results than this are refused, as PostgreSQL refuses them.
const RESULT_BYTES_MAX: usize = 0x3fff_ffff;

const TEXT: Type = Type::new(Scalar::Text);

pub(super) fn register(r: &mut Registry) {
    lengths(r);
    parts(r);
    padding(r);
    searching(r);
    quoting(r);
    encoding::register(r);
    join::register(r);
}

fn lengths(r: &mut Registry) {
    for name in ["length", "char_length", "character_length"] {
        r.strict1::<Text, Int4>(name, |_, s| Ok(s.chars().count() as i32));
    }
    r.strict1::<Bytea, Int4>("length", |_, b| Ok(b.len() as i32));
    r.strict1::<Text, Int4>("octet_length", |_, s| Ok(s.len() as i32));
    r.strict1::<Bytea, Int4>("octet_length", |_, b| Ok(b.len() as i32));
    r.strict1::<Text, Int4>("bit_length", |_, s| Ok(s.len() as i32 * 8));
    r.strict1::<Text, Text>("upper", |_, s| Ok(s.to_uppercase()));
    r.strict1::<Text, Text>("lower", |_, s| Ok(s.to_lowercase()));
    r.strict1::<Text, Text>("initcap", |_, s| Ok(initcap(s)));
    r.strict1::<Text, Text>("reverse", |_, s| Ok(s.chars().rev().collect()));
    r.strict1::<Text, Int4>("ascii", |_, s| Ok(s.chars().next().map_or(0, |c| c as i32)));
    r.strict1::<Int4, Text>("chr", |_, code| chr(code));
    r.strict1::<Int4, Text>("to_hex", |_, i| Ok(format!("{i:x}")));
    r.strict1::<Int8, Text>("to_hex", |_, i| Ok(format!("{i:x}")));
}

fn initcap(s: &str) -> String {
    let mut inside = false;
    let mut out = String::with_capacity(s.len());
    for c in s.chars() {
        if inside {
            out.extend(c.to_lowercase())
        } else {
            out.extend(c.to_uppercase())
        }
        inside = c.is_alphanumeric();
    }
    out
}

fn chr(code: i32) -> Result<String> {
    let limit = |message: String| SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message);
    match u32::try_from(code) {
        Err(_) => Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "character number must be positive")),
        Ok(0) => Err(limit("null character not permitted".into())),
        Ok(code) => match char::from_u32(code) {
            Some(c) => Ok(c.to_string()),
            None => Err(limit(format!("requested character not valid for encoding: {code}"))),
        },
    }
}

fn parts(r: &mut Registry) {
    for name in ["substr", "substring"] {
        r.strict2::<Text, Int4, Text>(name, |_, s, from| substring(s, from, None));
        r.strict3::<Text, Int4, Int4, Text>(name, |_, s, from, n| substring(s, from, Some(n)));
        r.strict2::<Bytea, Int4, Bytea>(name, |_, b, from| byte_range(b, from, None));
        r.strict3::<Bytea, Int4, Int4, Bytea>(name, |_, b, from, n| byte_range(b, from, Some(n)));
    }
    r.strict2::<Text, Int4, Text>("left", |_, s, n| Ok(split_left(s, n).0.to_string()));
    r.strict2::<Text, Int4, Text>("right", |_, s, n| Ok(right(s, n).to_string()));
    r.strict3::<Text, Text, Int4, Text>("split_part", |_, s, separator, n| split_part(s, separator, n));
    r.strict3::<Text, Text, Int4, Text>("overlay", |_, s, new, from| {
        overlay(s, new, from, new.chars().count() as i32)
    });
    r.strict4::<Text, Text, Int4, Int4, Text>("overlay", |_, s, new, from, n| overlay(s, new, from, n));
}

/// First and one past the last position (from 0) that `from` and `length` mean in PostgreSQL.
fn bounds(from: i32, length: Option<i32>) -> Result<(usize, usize)> {
    let start = i64::from(from) - 1;
    let end = match length {
        None => i64::MAX,
        Some(length) if length < 0 => {
            return Err(SqlError::new(SqlState("22011"), "negative substring length not allowed"));
        }
        Some(length) => start + i64::from(length),
    };
    Ok((start.max(0) as usize, end.max(0) as usize))
}

fn substring(s: &str, from: i32, length: Option<i32>) -> Result<String> {
    let (start, end) = bounds(from, length)?;
    Ok(s.chars().skip(start).take(end.saturating_sub(start)).collect())
}

fn byte_range(b: &[u8], from: i32, length: Option<i32>) -> Result<Vec<u8>> {
    let (start, end) = bounds(from, length)?;
    let start = start.min(b.len());
    Ok(b[start..end.clamp(start, b.len())].to_vec())
}

/// The first n characters and the rest; a negative n counts from the end.
fn split_left(s: &str, n: i32) -> (&str, &str) {
    let n = if n >= 0 { n as usize } else { s.chars().count().saturating_sub(n.unsigned_abs() as usize) };
    s.split_at(s.char_indices().nth(n).map_or(s.len(), |(at, _)| at))
}

fn right(s: &str, n: i32) -> &str {
    let skip = if n >= 0 { s.chars().count().saturating_sub(n as usize) } else { n.unsigned_abs() as usize };
    &s[s.char_indices().nth(skip).map_or(s.len(), |(at, _)| at)..]
}

fn split_part(s: &str, separator: &str, n: i32) -> Result<String> {
    if n == 0 {
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "field position must not be zero"));
    }
    let index = n.unsigned_abs() as usize - 1;
    let field = match (separator.is_empty(), n > 0) {
        (true, _) => (index == 0).then_some(s),
        (false, true) => s.split(separator).nth(index),
        (false, false) => s.rsplit(separator).nth(index),
    };
    Ok(field.unwrap_or_default().to_string())
}

fn overlay(s: &str, new: &str, from: i32, length: i32) -> Result<String> {
    if from <= 0 {
        return Err(SqlError::new(SqlState("22011"), "negative substring length not allowed"));
    }
    let before = substring(s, 1, Some(from - 1))?;
    let rest = from.checked_add(length).ok_or_else(|| SqlError::out_of_range("integer"))?;
    Ok(before + new + &substring(s, rest, None)?)
}

fn padding(r: &mut Registry) {
    r.strict2::<Text, Int4, Text>("lpad", |_, s, n| pad(s, n, " ", true));
    r.strict3::<Text, Int4, Text, Text>("lpad", |_, s, n, fill| pad(s, n, fill, true));
    r.strict2::<Text, Int4, Text>("rpad", |_, s, n| pad(s, n, " ", false));
    r.strict3::<Text, Int4, Text, Text>("rpad", |_, s, n, fill| pad(s, n, fill, false));
    r.strict2::<Text, Int4, Text>("repeat", |_, s, n| repeat(s, n));
    r.strict1::<Text, Text>("ltrim", |_, s| Ok(s.trim_start_matches(' ').to_string()));
    r.strict1::<Text, Text>("rtrim", |_, s| Ok(s.trim_end_matches(' ').to_string()));
    r.strict2::<Text, Text, Text>("ltrim", |_, s, set| {
        Ok(s.trim_start_matches(|c| set.contains(c)).to_string())
    });
    r.strict2::<Text, Text, Text>("rtrim", |_, s, set| {
        Ok(s.trim_end_matches(|c| set.contains(c)).to_string())
    });
    for name in ["btrim", "trim"] {
        r.strict1::<Text, Text>(name, |_, s| Ok(s.trim_matches(' ').to_string()));
        r.strict2::<Text, Text, Text>(name, |_, s, set| Ok(s.trim_matches(|c| set.contains(c)).to_string()));
    }
}

fn too_large() -> SqlError {
    SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "requested length too large")
}

fn pad(s: &str, length: i32, fill: &str, left: bool) -> Result<String> {
    let length = length.max(0) as usize;
    if length > RESULT_BYTES_MAX {
        return Err(too_large());
    }
    let have = s.chars().count();
    if have >= length || fill.is_empty() {
        return Ok(s.chars().take(length).collect());
    }
    let filling: String = fill.chars().cycle().take(length - have).collect();
    Ok(if left { filling + s } else { s.to_string() + &filling })
}

fn repeat(s: &str, n: i32) -> Result<String> {
    let n = n.max(0) as usize;
    if s.len().saturating_mul(n) > RESULT_BYTES_MAX {
        return Err(too_large());
    }
    Ok(s.repeat(n))
}

fn searching(r: &mut Registry) {
    for name in ["strpos", "position"] {
        r.strict2::<Text, Text, Int4>(name, |_, s, wanted| {
            Ok(s.find(wanted).map_or(0, |at| s[..at].chars().count() as i32 + 1))
        });
    }
    for name in ["starts_with", "^@"] {
        r.strict2::<Text, Text, super::kernel::Bool>(name, |_, s, prefix| Ok(s.starts_with(prefix)));
    }
    r.strict3::<Text, Text, Text, Text>("replace", |_, s, from, to| {
        Ok(if from.is_empty() { s.to_string() } else { s.replace(from, to) })
    });
    r.strict3::<Text, Text, Text, Text>("translate", |_, s, from, to| {
        let to: Vec<char> = to.chars().collect();
        let map = |c| match from.chars().position(|f| f == c) {
            Some(i) => to.get(i).copied(),
            None => Some(c),
        };
        Ok(s.chars().filter_map(map).collect())
    });
}

fn quoting(r: &mut Registry) {
    r.strict1::<Text, Text>("quote_ident", |_, s| Ok(quote_ident(s)));
    r.strict1::<Text, Text>("quote_literal", |_, s| Ok(quote_literal(s)));
    r.kernel("quote_nullable", &[Param::Any], Returns::Is(TEXT), |call| {
        let input = &call.inputs[0];
        call.rows::<Text>(|row| {
            let value = textual::shown(&input.array, call.types[0], input.index(row), call.vars)?;
            Ok(Some(value.map_or("NULL".to_string(), |s| quote_literal(&s))))
        })
    });
}

/// A text column of one array of texts a row.
pub(super) fn text_lists(
    call: &Call,
    f: impl Fn(usize) -> Result<Option<Vec<Option<String>>>>,
) -> Result<ArrayRef> {
    let mut out = arrow::array::ListBuilder::new(arrow::array::StringBuilder::new());
    for row in 0..call.rows {
        match f(row)? {
            Some(items) => {
                items.into_iter().for_each(|item| out.values().append_option(item));
                out.append(true);
            }
            None => out.append(false),
        }
    }
    Ok(Arc::new(out.finish()))
}
