//! String functions. Positions and lengths count characters.

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::expr::Cast;

use super::kernel::{Bytea, Int4, Int8, Text, row};
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
    digests(r);
    joining(r);
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

/// DataFusion has the digests; its constants are evaluated by its own function.
fn digests(r: &mut Registry) {
    r.native("md5", &[Param::Is(TEXT)], Returns::Is(TEXT), |mut args| {
        let digest = datafusion::functions::crypto::expr_fn::md5(args.remove(0));
        Ok(Expr::Cast(Cast::new(Box::new(digest), DataType::Utf8)))
    });
    for (name, build) in [
        ("sha224", (|args: Vec<_>| digest("sha224", args)) as fn(_) -> _),
        ("sha256", |args| digest("sha256", args)),
        ("sha384", |args| digest("sha384", args)),
        ("sha512", |args| digest("sha512", args)),
    ] {
        r.native(name, &[Param::Is(Type::new(Scalar::Bytea))], Returns::Is(Type::new(Scalar::Bytea)), build);
    }
    r.strict2::<Bytea, Text, Text>("encode", |_, bytes, format| encode(bytes, format));
    r.strict2::<Text, Text, Bytea>("decode", |_, text, format| decode(text, format));
}

fn digest(
    name: &str,
    mut args: Vec<datafusion::logical_expr::Expr>,
) -> Result<datafusion::logical_expr::Expr> {
    let method = datafusion::logical_expr::Expr::Literal(ScalarValue::Utf8(Some(name.to_string())), None);
    Ok(datafusion::functions::crypto::expr_fn::digest(args.remove(0), method))
}

fn bad_format(format: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("unrecognized encoding: \"{format}\""))
}

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
/// Base64 lines are this long, as MIME has them.
const BASE64_LINE: usize = 76;

fn encode(bytes: &[u8], format: &str) -> Result<String> {
    match format.to_ascii_lowercase().as_str() {
        "hex" => Ok(bytes.iter().map(|b| format!("{b:02x}")).collect()),
        "escape" => Ok(bytes
            .iter()
            .map(|b| match b {
                b'\\' => "\\\\".to_string(),
                0 | 0x80.. => format!("\\{b:03o}"),
                _ => char::from(*b).to_string(),
            })
            .collect()),
        "base64" => {
            let mut out = String::new();
            for (i, chunk) in bytes.chunks(3).enumerate() {
                if i > 0 && i * 4 % BASE64_LINE == 0 {
                    out.push('\n');
                }
                let word = chunk.iter().fold(0u32, |w, b| w << 8 | u32::from(*b)) << (8 * (3 - chunk.len()));
                for k in 0..4 {
                    let sextet = (word >> (18 - 6 * k)) & 63;
                    out.push(if k <= chunk.len() { char::from(BASE64[sextet as usize]) } else { '=' });
                }
            }
            Ok(out)
        }
        _ => Err(bad_format(format)),
    }
}

fn decode(text: &str, format: &str) -> Result<Vec<u8>> {
    let invalid = |message: String| SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message);
    match format.to_ascii_lowercase().as_str() {
        "hex" => {
            let digits: Vec<char> = text.chars().filter(|c| !c.is_ascii_whitespace()).collect();
            if digits.len() % 2 == 1 {
                return Err(invalid("invalid hexadecimal data: odd number of digits".into()));
            }
            let value = |c: char| {
                c.to_digit(16).ok_or_else(|| invalid(format!("invalid hexadecimal digit: \"{c}\"")))
            };
            digits.chunks(2).map(|pair| Ok((value(pair[0])? * 16 + value(pair[1])?) as u8)).collect()
        }
        "escape" => {
            let mut out = Vec::new();
            crate::text::parse_bytea(text.as_bytes(), &mut out)?;
            Ok(out)
        }
        "base64" => {
            let mut bits = 0u32;
            let mut count = 0;
            let mut out = vec![];
            for c in text.bytes().filter(|b| !b.is_ascii_whitespace() && *b != b'=') {
                let sextet = BASE64.iter().position(|b| *b == c).ok_or_else(|| {
                    invalid(format!(
                        "invalid symbol \"{}\" found while decoding base64 sequence",
                        char::from(c)
                    ))
                })?;
                bits = bits << 6 | sextet as u32;
                count += 6;
                if count >= 8 {
                    count -= 8;
                    out.push((bits >> count) as u8);
                }
            }
            Ok(out)
        }
        _ => Err(bad_format(format)),
    }
}

fn joining(r: &mut Registry) {
    r.strict2::<Text, Text, Text>("||", |_, a, b| Ok(format!("{a}{b}")));
    r.kernel("||", &[Param::Is(TEXT), Param::Any], Returns::Is(TEXT), concat_operator);
    r.kernel("||", &[Param::Any, Param::Is(TEXT)], Returns::Is(TEXT), concat_operator);
    r.strict2::<Bytea, Bytea, Bytea>("||", |_, a, b| Ok([a, b].concat()));
    r.variadic("concat", &[Param::Any], Returns::Is(TEXT), |call| join(call, 0, |_| Ok(Some(String::new()))));
    r.variadic("concat_ws", &[Param::Is(TEXT), Param::Any], Returns::Is(TEXT), |call| {
        let separator = call.column::<Text>(0)?;
        join(call, 1, |row| Ok(separator.get(row)?.map(str::to_string)))
    });
    r.variadic("format", &[Param::Is(TEXT), Param::Any], Returns::Is(TEXT), format_call);
}

fn concat_operator(call: &Call) -> Result<ArrayRef> {
    call.rows::<Text>(|row| {
        let shown = |i: usize| {
            let input = &call.inputs[i];
            operand(&input.array, call.types[i], input.index(row), call)
        };
        Ok(shown(0)?.zip(shown(1)?).map(|(a, b)| a + &b))
    })
}

/// A value beside `||` is cast to text, so a boolean is a word.
fn operand(array: &ArrayRef, ty: Type, i: usize, call: &Call) -> Result<Option<String>> {
    let shown = textual::shown(array, ty, i, call.vars)?;
    Ok(match (ty.scalar, ty.array, shown.as_deref()) {
        (Scalar::Bool, false, Some("t")) => Some("true".into()),
        (Scalar::Bool, false, Some("f")) => Some("false".into()),
        _ => shown,
    })
}

/// The arguments from `first` on that are not null, with a separator between them.
fn join(call: &Call, first: usize, separator: impl Fn(usize) -> Result<Option<String>>) -> Result<ArrayRef> {
    call.rows::<Text>(|row| {
        let Some(separator) = separator(row)? else { return Ok(None) };
        let mut values = vec![];
        for (input, ty) in call.inputs.iter().zip(call.types).skip(first) {
            values.extend(textual::shown(&input.array, *ty, input.index(row), call.vars)?);
        }
        Ok(Some(values.join(&separator)))
    })
}

fn format_call(call: &Call) -> Result<ArrayRef> {
    let template = call.column::<Text>(0)?;
    call.rows::<Text>(|row| {
        let template = row!(template, row);
        let mut values = vec![];
        for (input, ty) in call.inputs.iter().zip(call.types).skip(1) {
            values.push(textual::shown(&input.array, *ty, input.index(row), call.vars)?);
        }
        format(template, &values).map(Some)
    })
}

/// `%s %I %L %%`, with positions (`%2$s`), widths and `-`.
fn format(template: &str, values: &[Option<String>]) -> Result<String> {
    let invalid = |message: &str| SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message);
    let mut out = String::new();
    let mut chars = template.chars().peekable();
    let mut next = 0;
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        if chars.next_if_eq(&'%').is_some() {
            out.push('%');
            continue;
        }
        let mut number = String::new();
        while let Some(digit) = chars.next_if(char::is_ascii_digit) {
            number.push(digit);
        }
        let mut position = None;
        if !number.is_empty() && chars.next_if_eq(&'$').is_some() {
            let n: usize = number.parse().map_err(|_| invalid("number is out of range"))?;
            position =
                Some(n.checked_sub(1).ok_or_else(|| {
                    invalid("format specifies argument 0, but arguments are numbered from 1")
                })?);
            number.clear();
        }
        let left = chars.next_if_eq(&'-').is_some();
        while let Some(digit) = chars.next_if(char::is_ascii_digit) {
            number.push(digit);
        }
        let width: usize = if number.is_empty() {
            0
        } else {
            number.parse().map_err(|_| invalid("number is out of range"))?
        };
        let kind = chars.next().ok_or_else(|| {
            invalid("unterminated format() type specifier").with_hint("For a single \"%\" use \"%%\".")
        })?;
        let index = position.unwrap_or(next);
        next = index + 1;
        let value = values.get(index).ok_or_else(|| invalid("too few arguments for format()"))?;
        let text = match (kind, value) {
            ('s', value) => value.clone().unwrap_or_default(),
            ('I', Some(value)) => quote_ident(value),
            ('I', None) => {
                let state = SqlState("22004");
                return Err(SqlError::new(state, "null values cannot be formatted as an SQL identifier"));
            }
            ('L', value) => value.as_deref().map_or("NULL".into(), quote_literal),
            (other, _) => {
                return Err(invalid(&format!("unrecognized format() type specifier \"{other}\""))
                    .with_hint("For a single \"%\" use \"%%\"."));
            }
        };
        let missing = width.saturating_sub(text.chars().count());
        if width > RESULT_BYTES_MAX {
            return Err(too_large());
        }
        let blanks = " ".repeat(missing);
        out += &if left { text + &blanks } else { blanks + &text };
    }
    Ok(out)
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
