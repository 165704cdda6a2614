//! Texts made of several values: `||`, `concat`, `format`.

use arrow::array::ArrayRef;

use super::{RESULT_BYTES_MAX, TEXT, too_large};
use crate::error::{Result, SqlError, SqlState};
use crate::function::kernel::{Bytea, Text, row};
use crate::function::{Call, Param, Registry, Returns, textual};
use crate::name::{quote_ident, quote_literal};
use crate::types::{Scalar, Type};

pub(super) fn register(r: &mut Registry) {
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
