//! Json values made of others: `to_json`, `json_build_array`, `json_build_object` and their like.

use arrow::array::{Array, ArrayRef, AsArray};

use super::json_value::{canonical, quote};
use super::kernel::Json;
use super::{Call, Param, Registry, Returns, textual};
use crate::error::{Result, SqlError, SqlState};
use crate::types::{Scalar, Type};

/// `row_to_json` of the names and values of a row: it has no blanks.
pub const JSON_OF_ROW: &str = "json of row";

pub(super) fn construct(r: &mut Registry) {
    let json = Returns::Is(Type::new(Scalar::Json));
    let jsonb = Returns::Is(Type::new(Scalar::Jsonb));
    r.kernel("to_json", &[Param::Any], json, |call| build(call, false, |values| Ok(values.remove(0))));
    r.kernel("to_jsonb", &[Param::Any], jsonb, |call| build(call, true, |values| Ok(values.remove(0))));
    r.kernel("array_to_json", &[Param::AnyArray], json, |call| {
        build(call, false, |values| Ok(values.remove(0)))
    });
    for (name, returns, kernel) in [
        ("json_build_array", json, (|call| build_all(call, false, false)) as fn(&Call) -> _),
        ("jsonb_build_array", jsonb, |call| build_all(call, true, false)),
        ("json_build_object", json, |call| build_all(call, false, true)),
        ("jsonb_build_object", jsonb, |call| build_all(call, true, true)),
        (JSON_OF_ROW, json, |call| build_parts(call, false, Some(":"), ",")),
    ] {
        r.variadic(name, &[Param::Any], returns, kernel);
        r.kernel(name, &[], returns, kernel);
    }
}

/// Builds one json of the arguments of each row; null arguments make the single-argument forms null.
fn build(call: &Call, binary: bool, f: impl Fn(&mut Vec<String>) -> Result<String>) -> Result<ArrayRef> {
    call.rows::<Json>(|row| {
        let mut values = vec![];
        for (input, ty) in call.inputs.iter().zip(call.types) {
            let i = input.index(row);
            if input.array.is_null(i) {
                return Ok(None);
            }
            values.push(value_text(&input.array, *ty, i, call)?);
        }
        let text = f(&mut values)?;
        if binary { canonical(&text).map(Some) } else { Ok(Some(text)) }
    })
}

fn build_all(call: &Call, binary: bool, object: bool) -> Result<ArrayRef> {
    if object && call.inputs.len() % 2 == 1 {
        let error = SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            "argument list must have even number of elements",
        );
        let function = if binary { "jsonb_build_object" } else { "json_build_object" };
        return Err(error.with_hint(format!(
            "The arguments of {function}() must consist of alternating keys and values."
        )));
    }
    build_parts(call, binary, object.then_some(" : "), ", ")
}

/// An object, if something stands between keys and values, or else an array.
fn build_parts(call: &Call, binary: bool, colon: Option<&str>, comma: &str) -> Result<ArrayRef> {
    let object = colon.is_some();
    call.rows::<Json>(|row| {
        let mut parts = vec![];
        for (n, (input, ty)) in call.inputs.iter().zip(call.types).enumerate() {
            let i = input.index(row);
            if object && n % 2 == 0 {
                let key = textual::shown(&input.array, *ty, i, call.vars)?.ok_or_else(|| {
                    let message = format!("argument {} cannot be null", n + 1);
                    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
                        .with_hint("Object keys should be text.")
                })?;
                let mut quoted = String::new();
                quote(&key, &mut quoted);
                parts.push(quoted + colon.unwrap_or_default());
            } else {
                let value = value_text(&input.array, *ty, i, call)?;
                match parts.last_mut() {
                    Some(last) if object => last.push_str(&value),
                    _ => parts.push(value),
                }
            }
        }
        let joined = parts.join(comma);
        let text = if object { format!("{{{joined}}}") } else { format!("[{joined}]") };
        if binary { canonical(&text).map(Some) } else { Ok(Some(text)) }
    })
}

/// A value of any type as json: numbers and booleans as they are, timestamps in ISO form, the rest as strings.
pub(crate) fn value_text(array: &ArrayRef, ty: Type, i: usize, call: &Call) -> Result<String> {
    if array.is_null(i) {
        return Ok("null".into());
    }
    if ty.array {
        let list =
            array.as_list_opt::<i32>().ok_or_else(|| SqlError::internal("an array that is no list"))?;
        let values = list.value(i);
        let element = Type { array: false, ..ty };
        let items =
            (0..values.len()).map(|j| value_text(&values, element, j, call)).collect::<Result<Vec<_>>>()?;
        return Ok(format!("[{}]", items.join(",")));
    }
    let text = textual::shown(array, ty, i, call.vars)?.unwrap_or_default();
    use Scalar::*;
    Ok(match ty.scalar {
        Bool => if text == "t" { "true" } else { "false" }.to_string(),
        Json | Jsonb => text,
        Int2 | Int4 | Int8 | Float4 | Float8 | Numeric if !text.contains(['N', 'I']) => text,
        scalar => {
            let iso = match scalar {
                Timestamp | Timestamptz => text.replacen(' ', "T", 1),
                _ => text,
            };
            let iso = if scalar == Timestamptz && iso.len() > 3 && iso.as_bytes()[iso.len() - 3] != b':' {
                iso + ":00"
            } else {
                iso
            };
            let mut quoted = String::new();
            quote(&iso, &mut quoted);
            quoted
        }
    })
}
