//! Columns of any type from and to text, by the types' input and output functions.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, StringArray, StringBuilder};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::Field;

use super::cast::{each, strings};
use super::kernel::*;
use super::object;
use crate::error::{Result, SqlError, SqlState};
use crate::numeric::Numeric as Number;
use crate::planner::vars::SessionVars;
use crate::text;
use crate::types::{Scalar, Type};

/// Reads each text as a value of the type.
pub(super) fn read(array: &StringArray, to: Type, vars: &SessionVars) -> Result<ArrayRef> {
    let context = context(vars);
    let array: ArrayRef = Arc::new(array.clone());
    match to.scalar {
        Scalar::Bool => each::<Text, Bool>(&array, |s| text::parse_bool(s.as_bytes())),
        Scalar::Int2 => each::<Text, Int2>(&array, |s| text::parse_i16(s.as_bytes())),
        Scalar::Int4 => each::<Text, Int4>(&array, |s| text::parse_i32(s.as_bytes())),
        Scalar::Int8 => each::<Text, Int8>(&array, |s| text::parse_i64(s.as_bytes())),
        Scalar::Oid | Scalar::Xid => each::<Text, Oid>(&array, |s| text::parse_oid(s.as_bytes())),
        kind if kind.is_object_name() => each::<Text, Oid>(&array, |s| object::read(kind, s, vars)),
        Scalar::Float4 => each::<Text, Float4>(&array, |s| text::parse_f32(s.as_bytes())),
        Scalar::Float8 => each::<Text, Float8>(&array, |s| text::parse_f64(s.as_bytes())),
        Scalar::Numeric => each::<Text, Numeric>(&array, Number::parse),
        Scalar::Char => each::<Text, Text>(&array, |s| Ok(text::letter(s))),
        Scalar::Text | Scalar::Varchar | Scalar::Bpchar | Scalar::Name => Ok(array),
        Scalar::Bytea => each::<Text, Bytea>(&array, |s| {
            let mut out = Vec::new();
            text::parse_bytea(s.as_bytes(), &mut out)?;
            Ok(out)
        }),
        Scalar::Date => each::<Text, Date>(&array, |s| text::parse_date(s.as_bytes(), &context)),
        Scalar::Time => each::<Text, Time>(&array, |s| text::parse_time(s.as_bytes(), &context)),
        Scalar::Timestamp => {
            each::<Text, Timestamp>(&array, |s| text::parse_timestamp(s.as_bytes(), &context))
        }
        Scalar::Timestamptz => {
            each::<Text, Timestamptz>(&array, |s| text::parse_timestamptz(s.as_bytes(), &context))
        }
        Scalar::Interval => each::<Text, Interval>(&array, |s| text::parse_interval(s.as_bytes())),
        Scalar::Uuid => each::<Text, Uuid>(&array, |s| text::parse_uuid(s.as_bytes())),
        Scalar::Json => each::<Text, Json>(&array, |s| super::json_value::checked(s).map(|()| s.to_string())),
        Scalar::Jsonb => each::<Text, Jsonb>(&array, super::json_value::canonical),
        other => Err(SqlError::internal(format!("type {} has no input function", other.display()))),
    }
}

/// Writes each value as text.
pub(super) fn write(array: &ArrayRef, from: Type, vars: &SessionVars) -> Result<ArrayRef> {
    if array.as_string_opt::<i32>().is_some() {
        return Ok(Arc::clone(array));
    }
    // Boolean casts to text are words, not the letters of its output function.
    if from.scalar == Scalar::Bool {
        return each::<Bool, Text>(array, |b| Ok(b.to_string()));
    }
    macro_rules! written {
        ($marker:ty, |$value:ident, $out:ident| $write:expr) => {
            each::<$marker, Text>(array, |$value| {
                let mut buffer = Vec::new();
                let $out = &mut buffer;
                $write;
                String::from_utf8(buffer).map_err(|e| SqlError::internal(e.to_string()))
            })
        };
    }
    match from.scalar {
        Scalar::Int2 => each::<Int2, Text>(array, |i| Ok(i.to_string())),
        Scalar::Int4 => each::<Int4, Text>(array, |i| Ok(i.to_string())),
        Scalar::Int8 => each::<Int8, Text>(array, |i| Ok(i.to_string())),
        Scalar::Oid | Scalar::Xid => each::<Oid, Text>(array, |i| Ok(i.to_string())),
        kind if kind.is_object_name() => each::<Oid, Text>(array, |oid| Ok(object::show(kind, oid, vars))),
        Scalar::Float4 => written!(Float4, |v, out| text::write_f32(v, out)),
        Scalar::Float8 => written!(Float8, |v, out| text::write_f64(v, out)),
        Scalar::Numeric => each::<Numeric, Text>(array, |n| Ok(n.to_string())),
        Scalar::Bytea => written!(Bytea, |v, out| text::write_bytea(v, out)),
        Scalar::Date => written!(Date, |v, out| text::write_date(v, out)),
        Scalar::Time => written!(Time, |v, out| text::write_time(v, out)),
        Scalar::Timestamp => written!(Timestamp, |v, out| text::write_timestamp(v, out)),
        Scalar::Timestamptz => written!(Timestamptz, |v, out| text::write_timestamptz(v, &vars.zone, out)),
        Scalar::Interval => written!(Interval, |v, out| text::write_interval(v, out)),
        Scalar::Uuid => written!(Uuid, |v, out| text::write_uuid(v, out)),
        Scalar::Json | Scalar::Jsonb => each::<Json, Text>(array, |s| Ok(s.to_string())),
        _ => Ok(Arc::clone(array)),
    }
}

/// One value as its output function writes it; `None` is null.
pub(crate) fn shown(array: &ArrayRef, ty: Type, i: usize, vars: &SessionVars) -> Result<Option<String>> {
    if array.is_null(i) {
        return Ok(None);
    }
    let one = array.slice(i, 1);
    if ty.array {
        let list = one.as_list_opt::<i32>().ok_or_else(|| SqlError::internal("an array that is no list"))?;
        return Ok(Some(strings(&write_arrays(list, ty, vars)?)?.value(0).to_string()));
    }
    if ty.scalar == Scalar::Bool {
        return Ok(Some(if one.as_boolean().value(0) { "t" } else { "f" }.to_string()));
    }
    Ok(Some(strings(&write(&one, ty, vars)?)?.value(0).to_string()))
}

pub(super) fn context(vars: &SessionVars) -> text::Context {
    text::Context { now: vars.transaction_now.clone(), zone: vars.zone.clone() }
}

/// `{1,2,NULL}`.
pub(super) fn write_arrays(list: &ListArray, ty: Type, vars: &SessionVars) -> Result<ArrayRef> {
    let element = Type { array: false, ..ty };
    let mut out = StringBuilder::new();
    for i in 0..list.len() {
        if list.is_null(i) {
            out.append_null();
            continue;
        }
        let values = list.value(i);
        let mut text = String::from("{");
        for j in 0..values.len() {
            if j > 0 {
                text.push(',');
            }
            match shown(&values, element, j, vars)? {
                Some(value) => push_element(&mut text, &value),
                None => text.push_str("NULL"),
            }
        }
        text.push('}');
        out.append_value(text);
    }
    Ok(Arc::new(out.finish()))
}

fn push_element(out: &mut String, value: &str) {
    let special = |c: char| matches!(c, '{' | '}' | ',' | '"' | '\\') || c.is_ascii_whitespace();
    if !value.is_empty() && !value.eq_ignore_ascii_case("null") && !value.contains(special) {
        return out.push_str(value);
    }
    out.push('"');
    for c in value.chars() {
        if matches!(c, '"' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out.push('"');
}

/// Reads array literals; `cast` reads a column of element texts.
pub(super) fn read_arrays(
    array: &StringArray,
    to: Type,
    cast: impl Fn(&ArrayRef) -> Result<ArrayRef>,
) -> Result<ArrayRef> {
    let mut elements = StringBuilder::new();
    let mut lengths = Vec::with_capacity(array.len());
    for text in array {
        let items = text.map(split_array).transpose()?.unwrap_or_default();
        lengths.push(items.len());
        items.into_iter().for_each(|item| elements.append_option(item));
    }
    let elements: ArrayRef = Arc::new(elements.finish());
    let values = cast(&elements)?;
    let field = Arc::new(Field::new_list_field(to.scalar.arrow(), true));
    let offsets = OffsetBuffer::from_lengths(lengths);
    ListArray::try_new(field, offsets, values, array.nulls().cloned())
        .map(|list| Arc::new(list) as ArrayRef)
        .map_err(|e| SqlError::internal(e.to_string()))
}

/// The elements of `{a,"b c",NULL}`.
fn split_array(text: &str) -> Result<Vec<Option<String>>> {
    let malformed = |detail: &str| {
        SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, format!("malformed array literal: \"{text}\""))
            .with_detail(detail)
    };
    let inner = text
        .trim()
        .strip_prefix('{')
        .ok_or_else(|| malformed("Array value must start with \"{\" or dimension information."))?;
    let mut chars = inner.chars().peekable();
    let mut items = vec![];
    loop {
        while chars.next_if(|c| c.is_ascii_whitespace()).is_some() {}
        let (mut item, mut quoted) = (String::new(), false);
        loop {
            match chars.next() {
                None => return Err(malformed("Unexpected end of input.")),
                Some('{') => {
                    return Err(SqlError::unsupported("arrays of more than one dimension are not supported"));
                }
                Some('\\') => item.push(chars.next().ok_or_else(|| malformed("Unexpected end of input."))?),
                Some('"') => {
                    quoted = true;
                    loop {
                        match chars.next() {
                            None => return Err(malformed("Unexpected end of input.")),
                            Some('"') => break,
                            Some('\\') => {
                                item.push(chars.next().ok_or_else(|| malformed("Unexpected end of input."))?)
                            }
                            Some(c) => item.push(c),
                        }
                    }
                }
                Some(c @ (',' | '}')) => {
                    let plain = item.trim_end();
                    let empty = plain.is_empty() && !quoted;
                    if empty && !(c == '}' && items.is_empty()) {
                        return Err(malformed(&format!("Unexpected \"{c}\" character.")));
                    }
                    if !empty {
                        let null = !quoted && plain.eq_ignore_ascii_case("null");
                        let value = if quoted { item.clone() } else { plain.to_string() };
                        items.push((!null).then_some(value));
                    }
                    if c == '}' {
                        return match chars.all(|c| c.is_ascii_whitespace()) {
                            true => Ok(items),
                            false => Err(malformed("Junk after closing right brace.")),
                        };
                    }
                    break;
                }
                Some(c) => item.push(c),
            }
        }
    }
}
