//! Subscripts of arrays as rows: `generate_subscripts`, and `_pg_expandarray`, by which drivers read keys.
//!
//! `_pg_expandarray` is the one function with a composite result; its rows are the text of the record, `(x,n)`, and
//! `(…).n` takes a field out of it.

use arrow::array::{Array, ArrayRef, AsArray, ListArray};

use super::kernel::*;
use super::series::lists;
use super::{Call, Param, Registry, Returns, textual};
use crate::error::{Result, SqlError, SqlState};
use crate::types::{Scalar, Type};

pub(super) fn register(r: &mut Registry) {
    let (int, boolean) = (Type::new(Scalar::Int4), Type::new(Scalar::Bool));
    let params = [Param::AnyArray, Param::Is(int), Param::Is(boolean)];
    r.set_returning("generate_subscripts", &params[..2], Returns::Is(int), subscripts);
    r.set_returning("generate_subscripts", &params, Returns::Is(int), subscripts);
    let text = Returns::Is(Type::new(Scalar::Text));
    r.set_returning("_pg_expandarray", &params[..1], text, expand);
    r.maybe2::<Text, Text, Int4>("record field", |_, record, field| record_field(record, field));
}

fn array<'a>(call: &'a Call, row: usize) -> Result<Option<ArrayRef>> {
    let input: &'a Input = &call.inputs[0];
    let list: &ListArray =
        input.array.as_list_opt().ok_or_else(|| SqlError::internal("an array that is no list"))?;
    let i = input.index(row);
    Ok((!list.is_null(i)).then(|| list.value(i)))
}

fn subscripts(call: &Call) -> Result<ArrayRef> {
    let dimension = call.column::<Int4>(1)?;
    let reverse = if call.inputs.len() > 2 { Some(call.column::<Bool>(2)?) } else { None };
    lists::<Int4>(call, |row, push| {
        let Some(array) = array(call, row)? else { return Ok(None) };
        // Arrays have one dimension.
        if row!(dimension, row) != 1 {
            return Ok(Some(()));
        }
        let length = i32::try_from(array.len()).map_err(|_| SqlError::out_of_range("integer"))?;
        let reverse = match &reverse {
            Some(reverse) => row!(reverse, row),
            None => false,
        };
        for i in 1..=length {
            push(if reverse { length + 1 - i } else { i })?;
        }
        Ok(Some(()))
    })
}

fn expand(call: &Call) -> Result<ArrayRef> {
    let item = Type { array: false, ..call.types[0] };
    lists::<Text>(call, |row, push| {
        let Some(array) = array(call, row)? else { return Ok(None) };
        for i in 0..array.len() {
            let value = textual::shown(&array, item, i, call.vars)?.unwrap_or_default();
            push(format!("({value},{})", i + 1))?;
        }
        Ok(Some(()))
    })
}

/// A field of `(x,n)`.
fn record_field(record: &str, field: &str) -> Result<Option<i32>> {
    let fields = record.trim_start_matches('(').trim_end_matches(')').rsplit_once(',');
    let value = match (field, fields) {
        ("x", Some((x, _))) => x,
        ("n", Some((_, n))) => n,
        _ => {
            let message = format!("column \"{field}\" not found in data type record");
            return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message));
        }
    };
    if value.is_empty() { Ok(None) } else { crate::text::parse_i32(value.as_bytes()).map(Some) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_a_record() {
        assert_eq!(record_field("(7,1)", "x").unwrap(), Some(7));
        assert_eq!(record_field("(7,1)", "n").unwrap(), Some(1));
        assert_eq!(record_field("(,2)", "x").unwrap(), None);
        assert!(record_field("(7,1)", "y").is_err());
    }
}
