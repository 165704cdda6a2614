//! Arrays of one dimension, with subscripts from 1.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayData, ArrayRef, AsArray, DynComparator, ListArray, MutableArrayData, make_array,
    make_comparator,
};
use arrow::buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::compute::SortOptions;
use arrow::datatypes::Field;

use super::kernel::{Bool, Input, Int4, Text, row};
use super::{Call, Param, Registry, Returns, compare, listed, string, textual};
use crate::error::{Result, SqlError, SqlState};
use crate::types::{Scalar, Type};

const TEXT: Type = Type::new(Scalar::Text);
const INT: Param = Param::Is(Type::new(Scalar::Int4));
/// A longer array is refused.
const ELEMENTS_MAX: usize = 134_217_727;

pub(super) fn register(r: &mut Registry) {
    use Param::{AnyArray, AnyElement};
    let int = Returns::Is(Type::new(Scalar::Int4));
    let bool = Returns::Is(Type::new(Scalar::Bool));
    r.variadic("array of", &[AnyElement], Returns::Array, build);
    r.kernel("array of nothing", &[], Returns::Array, build);
    r.kernel("array subscript", &[AnyArray, INT], Returns::Element, subscript);
    r.kernel("array slice", &[AnyArray, INT, INT], Returns::Array, slice);
    for name in ["array_length", "array_upper"] {
        r.kernel(name, &[AnyArray, INT], int, |call| dimension(call, |length| length));
    }
    r.kernel("array_lower", &[AnyArray, INT], int, |call| dimension(call, |_| 1));
    r.kernel("cardinality", &[AnyArray], int, |call| lengths(call, Some));
    r.kernel("array_ndims", &[AnyArray], int, |call| lengths(call, |n| (n > 0).then_some(1)));
    for name in ["array_append", "||"] {
        r.kernel(name, &[AnyArray, AnyElement], Returns::Array, |call| join(call, [false, true]));
    }
    for name in ["array_prepend", "||"] {
        r.kernel(name, &[AnyElement, AnyArray], Returns::Array, |call| join(call, [true, false]));
    }
    for name in ["array_cat", "||"] {
        r.kernel(name, &[AnyArray, AnyArray], Returns::Array, |call| join(call, [false, false]));
    }
    r.kernel("array_dims", &[AnyArray], Returns::Is(TEXT), |call| {
        let lists = list(&call.inputs[0])?;
        call.rows::<Text>(|row| {
            let span = span(lists, call.inputs[0].index(row));
            Ok(span.filter(|(start, end)| start < end).map(|(start, end)| format!("[1:{}]", end - start)))
        })
    });
    r.kernel("trim_array", &[AnyArray, INT], Returns::Array, trim);
    r.kernel("array_position", &[AnyArray, AnyElement], int, position);
    r.kernel("array_position", &[AnyArray, AnyElement, INT], int, position);
    r.kernel("array_positions", &[AnyArray, AnyElement], Returns::Is(Type::array(Scalar::Int4)), positions);
    r.kernel("array_remove", &[AnyArray, AnyElement], Returns::Array, |call| replace(call, false));
    r.kernel("array_replace", &[AnyArray, AnyElement, AnyElement], Returns::Array, |call| {
        replace(call, true)
    });
    r.kernel("array_fill", &[AnyElement, Param::Is(Type::array(Scalar::Int4))], Returns::Array, fill);
    r.kernel("array_to_string", &[AnyArray, Param::Is(TEXT)], Returns::Is(TEXT), to_string);
    r.kernel("array_to_string", &[AnyArray, Param::Is(TEXT), Param::Is(TEXT)], Returns::Is(TEXT), to_string);
    r.kernel("@>", &[AnyArray, AnyArray], bool, |call| sets(call, |a, b| b.iter().all(|x| a.contains(x))));
    r.kernel("<@", &[AnyArray, AnyArray], bool, |call| sets(call, |a, b| a.iter().all(|x| b.contains(x))));
    r.kernel("&&", &[AnyArray, AnyArray], bool, |call| {
        sets(call, |a, b| a.iter().any(|x| x.is_some() && b.contains(x)))
    });
    for name in ["array compare any", listed::EQUALS_ANY] {
        r.kernel(name, &[AnyElement, AnyArray, Param::Is(TEXT)], bool, |call| quantified(call, false));
    }
    for name in ["array compare all", listed::DIFFERS_ALL] {
        r.kernel(name, &[AnyElement, AnyArray, Param::Is(TEXT)], bool, |call| quantified(call, true));
    }
    r.set_returning("unnest", &[AnyArray], Returns::Element, |call| expanded(&call.inputs[0], call.rows));
    strings(r);
    alternatives(r);
}

fn internal(error: arrow::error::ArrowError) -> SqlError {
    SqlError::internal(error.to_string())
}

/// One list a row, put together from pieces of other arrays.
struct Lists<'a> {
    values: MutableArrayData<'a>,
    offsets: Vec<i32>,
    valid: Vec<bool>,
}

impl<'a> Lists<'a> {
    fn new(sources: Vec<&'a ArrayData>, rows: usize) -> Self {
        let values = MutableArrayData::new(sources, true, rows);
        Self { values, offsets: vec![0], valid: Vec::with_capacity(rows) }
    }

    fn end_row(&mut self, valid: bool) -> Result<()> {
        let end = i32::try_from(self.values.len()).map_err(|_| {
            SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "array size exceeds the maximum allowed")
        })?;
        self.offsets.push(end);
        self.valid.push(valid);
        Ok(())
    }

    fn finish(self) -> Result<ArrayRef> {
        let values = make_array(self.values.freeze());
        let field = Arc::new(Field::new_list_field(values.data_type().clone(), true));
        let offsets = OffsetBuffer::new(ScalarBuffer::from(self.offsets));
        let list = ListArray::try_new(field, offsets, values, Some(NullBuffer::from(self.valid)))
            .map_err(internal)?;
        Ok(Arc::new(list))
    }
}

fn list(input: &Input) -> Result<&ListArray> {
    input.array.as_list_opt::<i32>().ok_or_else(|| SqlError::internal("an array that is no list"))
}

fn ints(input: &Input) -> Result<&arrow::array::Int32Array> {
    input
        .array
        .as_primitive_opt::<arrow::datatypes::Int32Type>()
        .ok_or_else(|| SqlError::internal("a subscript that is no integer"))
}

/// Start and end of a row's elements; `None` if the array is null.
fn span(list: &ListArray, i: usize) -> Option<(usize, usize)> {
    let offsets = list.value_offsets();
    list.is_valid(i).then(|| (offsets[i] as usize, offsets[i + 1] as usize))
}

fn build(call: &Call) -> Result<ArrayRef> {
    if call.inputs.is_empty() {
        let empty = arrow::array::new_empty_array(&arrow::datatypes::DataType::Utf8).to_data();
        let mut lists = Lists::new(vec![&empty], call.rows);
        (0..call.rows).try_for_each(|_| lists.end_row(true))?;
        return lists.finish();
    }
    let sources: Vec<ArrayData> = call.inputs.iter().map(|input| input.array.to_data()).collect();
    let mut lists = Lists::new(sources.iter().collect(), call.rows * sources.len());
    for row in 0..call.rows {
        for (n, input) in call.inputs.iter().enumerate() {
            let i = input.index(row);
            lists.values.try_extend(n, i, i + 1).map_err(internal)?;
        }
        lists.end_row(true)?;
    }
    lists.finish()
}

fn subscript(call: &Call) -> Result<ArrayRef> {
    let (lists, indexes) = (list(&call.inputs[0])?, ints(&call.inputs[1])?);
    let picks = (0..call.rows).map(|row| {
        let (start, end) = span(lists, call.inputs[0].index(row))?;
        let i = call.inputs[1].index(row);
        let n = usize::try_from(if indexes.is_null(i) { 0 } else { indexes.value(i) }).ok()?;
        (n >= 1 && start + n <= end).then(|| (start + n - 1) as u64)
    });
    let picks: arrow::array::UInt64Array = picks.collect();
    arrow::compute::take(lists.values(), &picks, None).map_err(internal)
}

fn slice(call: &Call) -> Result<ArrayRef> {
    let lists = list(&call.inputs[0])?;
    let (lower, upper) = (ints(&call.inputs[1])?, ints(&call.inputs[2])?);
    let data = lists.values().to_data();
    let mut out = Lists::new(vec![&data], call.rows);
    for row in 0..call.rows {
        let Some((start, end)) = span(lists, call.inputs[0].index(row)) else {
            out.end_row(false)?;
            continue;
        };
        let bound = |array: &arrow::array::Int32Array, i: usize| array.is_valid(i).then(|| array.value(i));
        let first = bound(lower, call.inputs[1].index(row)).unwrap_or(1).max(1) as usize;
        let last = bound(upper, call.inputs[2].index(row))
            .map_or(end - start, |n| n.max(0) as usize)
            .min(end - start);
        if first <= last {
            out.values.try_extend(0, start + first - 1, start + last).map_err(internal)?;
        }
        out.end_row(true)?;
    }
    out.finish()
}

fn lengths(call: &Call, f: impl Fn(i32) -> Option<i32>) -> Result<ArrayRef> {
    let lists = list(&call.inputs[0])?;
    call.rows::<Int4>(|row| {
        let span = span(lists, call.inputs[0].index(row));
        Ok(span.and_then(|(start, end)| f((end - start) as i32)))
    })
}

/// Of the first dimension of an array that is not empty.
fn dimension(call: &Call, f: impl Fn(i32) -> i32) -> Result<ArrayRef> {
    let (lists, dimensions) = (list(&call.inputs[0])?, ints(&call.inputs[1])?);
    call.rows::<Int4>(|row| {
        let i = call.inputs[1].index(row);
        if dimensions.is_null(i) || dimensions.value(i) != 1 {
            return Ok(None);
        }
        let span = span(lists, call.inputs[0].index(row));
        Ok(span.filter(|(start, end)| start < end).map(|(start, end)| f((end - start) as i32)))
    })
}

/// Concatenation; which of the two operands are single elements. A null array counts as none.
fn join(call: &Call, elements: [bool; 2]) -> Result<ArrayRef> {
    let mut sources = vec![];
    for (input, element) in call.inputs.iter().zip(elements) {
        sources.push(if element { input.array.to_data() } else { list(input)?.values().to_data() });
    }
    let mut out = Lists::new(sources.iter().collect(), call.rows);
    for row in 0..call.rows {
        let mut any = false;
        for (n, (input, element)) in call.inputs.iter().zip(elements).enumerate() {
            let i = input.index(row);
            let part = if element { Some((i, i + 1)) } else { span(list(input)?, i) };
            if let Some((start, end)) = part {
                any = true;
                out.values.try_extend(n, start, end).map_err(internal)?;
            }
        }
        out.end_row(any)?;
    }
    out.finish()
}

/// Compares elements by value: numerics and intervals by their keys.
fn comparator(a: &ArrayRef, b: &ArrayRef, ty: Type) -> Result<DynComparator> {
    let keyed = matches!(
        ty.scalar,
        Scalar::Numeric | Scalar::Interval | Scalar::Float4 | Scalar::Float8 | Scalar::Jsonb
    );
    let (a, b) = if keyed { (compare::key(a)?, compare::key(b)?) } else { (Arc::clone(a), Arc::clone(b)) };
    make_comparator(&a, &b, SortOptions::default()).map_err(internal)
}

/// The positions (from 0, in the values) of the elements that equal the second argument; null equals null.
fn matches(call: &Call) -> Result<impl Fn(usize) -> Option<Vec<usize>>> {
    let lists = list(&call.inputs[0])?.clone();
    let compare = comparator(lists.values(), &call.inputs[1].array, Type { array: false, ..call.types[0] })?;
    let (list_constant, wanted_constant) = (call.inputs[0].constant, call.inputs[1].constant);
    Ok(move |row: usize| {
        let i = if list_constant { 0 } else { row };
        let wanted = if wanted_constant { 0 } else { row };
        let (start, end) = span(&lists, i)?;
        Some((start..end).filter(|at| compare(*at, wanted) == Ordering::Equal).map(|at| at - start).collect())
    })
}

fn position(call: &Call) -> Result<ArrayRef> {
    let matches = matches(call)?;
    let from = if call.inputs.len() > 2 { Some(call.column::<Int4>(2)?) } else { None };
    call.rows::<Int4>(|row| {
        let Some(found) = matches(row) else { return Ok(None) };
        let from = match &from {
            None => 1,
            Some(from) => from
                .get(row)?
                .ok_or_else(|| SqlError::new(SqlState("22004"), "initial position must not be null"))?,
        };
        Ok(found.iter().map(|at| *at as i32 + 1).find(|at| *at >= from))
    })
}

fn positions(call: &Call) -> Result<ArrayRef> {
    let matches = matches(call)?;
    let mut out = arrow::array::ListBuilder::new(arrow::array::Int32Builder::new());
    for row in 0..call.rows {
        match matches(row) {
            Some(found) => {
                found.iter().for_each(|at| out.values().append_value(*at as i32 + 1));
                out.append(true);
            }
            None => out.append(false),
        }
    }
    Ok(Arc::new(out.finish()))
}

/// Leaves matching elements out, or puts the third argument in their place.
fn replace(call: &Call, with_other: bool) -> Result<ArrayRef> {
    let matches = matches(call)?;
    let lists = list(&call.inputs[0])?;
    let mut sources = vec![lists.values().to_data()];
    sources.extend(call.inputs.get(2).map(|input| input.array.to_data()));
    let mut out = Lists::new(sources.iter().collect(), call.rows);
    for row in 0..call.rows {
        let (Some(found), Some((start, end))) = (matches(row), span(lists, call.inputs[0].index(row))) else {
            out.end_row(false)?;
            continue;
        };
        for at in 0..end - start {
            if !found.contains(&at) {
                out.values.try_extend(0, start + at, start + at + 1).map_err(internal)?;
            } else if with_other {
                let i = call.inputs[2].index(row);
                out.values.try_extend(1, i, i + 1).map_err(internal)?;
            }
        }
        out.end_row(true)?;
    }
    out.finish()
}

/// Without as many elements at the end.
fn trim(call: &Call) -> Result<ArrayRef> {
    let (lists, counts) = (list(&call.inputs[0])?, ints(&call.inputs[1])?);
    let data = lists.values().to_data();
    let mut out = Lists::new(vec![&data], call.rows);
    for row in 0..call.rows {
        let i = call.inputs[1].index(row);
        let (Some((start, end)), true) = (span(lists, call.inputs[0].index(row)), counts.is_valid(i)) else {
            out.end_row(false)?;
            continue;
        };
        let length = end - start;
        let count = usize::try_from(counts.value(i)).ok().filter(|count| *count <= length);
        let count = count.ok_or_else(|| {
            let message = format!("number of elements to trim must be between 0 and {length}");
            SqlError::new(SqlState("2202E"), message)
        })?;
        out.values.try_extend(0, start, end - count).map_err(internal)?;
        out.end_row(true)?;
    }
    out.finish()
}

fn fill(call: &Call) -> Result<ArrayRef> {
    let data = call.inputs[0].array.to_data();
    let dimensions = list(&call.inputs[1])?;
    let mut out = Lists::new(vec![&data], call.rows);
    for row in 0..call.rows {
        let Some((start, end)) = span(dimensions, call.inputs[1].index(row)) else {
            return Err(SqlError::new(
                SqlState("22004"),
                "dimension array or low bound array cannot be null",
            ));
        };
        if end - start != 1 {
            return Err(SqlError::unsupported("arrays of more than one dimension are not supported"));
        }
        let lengths = dimensions.values().as_primitive::<arrow::datatypes::Int32Type>();
        let length = lengths.value(start).max(0) as usize;
        if length > ELEMENTS_MAX {
            let message = format!("array size exceeds the maximum allowed ({ELEMENTS_MAX})");
            return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
        }
        let i = call.inputs[0].index(row);
        for _ in 0..length {
            out.values.try_extend(0, i, i + 1).map_err(internal)?;
        }
        out.end_row(true)?;
    }
    out.finish()
}

fn to_string(call: &Call) -> Result<ArrayRef> {
    let lists = list(&call.inputs[0])?;
    let separator = call.column::<Text>(1)?;
    let null_text = if call.inputs.len() > 2 { Some(call.column::<Text>(2)?) } else { None };
    let element = Type { array: false, ..call.types[0] };
    call.rows::<Text>(|row| {
        let separator = row!(separator, row);
        let Some((start, end)) = span(lists, call.inputs[0].index(row)) else { return Ok(None) };
        let null_text = null_text.as_ref().map(|column| column.get(row)).transpose()?.flatten();
        let mut parts = vec![];
        for at in start..end {
            let shown = textual::shown(lists.values(), element, at, call.vars)?;
            parts.extend(shown.or(null_text.map(str::to_string)));
        }
        Ok(Some(parts.join(separator)))
    })
}

/// A comparison of the elements of two arrays, by their text.
fn sets(call: &Call, f: impl Fn(&[Option<String>], &[Option<String>]) -> bool) -> Result<ArrayRef> {
    let element = Type { array: false, ..call.types[0] };
    let texts = |n: usize, row: usize| -> Result<Option<Vec<Option<String>>>> {
        let lists = list(&call.inputs[n])?;
        let Some((start, end)) = span(lists, call.inputs[n].index(row)) else { return Ok(None) };
        (start..end)
            .map(|at| textual::shown(lists.values(), element, at, call.vars))
            .collect::<Result<_>>()
            .map(Some)
    };
    call.rows::<Bool>(|row| Ok(texts(0, row)?.zip(texts(1, row)?).map(|(a, b)| f(&a, &b))))
}

/// `element op ANY/ALL (array)`; the operator is the third argument.
fn quantified(call: &Call, all: bool) -> Result<ArrayRef> {
    let lists = list(&call.inputs[1])?;
    let op = call.column::<Text>(2)?;
    let left = &call.inputs[0];
    let compare = comparator(&left.array, lists.values(), Type { array: false, ..call.types[1] })?;
    call.rows::<Bool>(|row| {
        let op = row!(op, row);
        let Some((start, end)) = span(lists, call.inputs[1].index(row)) else { return Ok(None) };
        let i = left.index(row);
        let mut unknown = false;
        for at in start..end {
            if left.array.is_null(i) || lists.values().is_null(at) {
                unknown = true;
                continue;
            }
            if holds(op, compare(i, at))? != all {
                return Ok(Some(!all));
            }
        }
        Ok((!unknown).then_some(all))
    })
}

fn holds(op: &str, order: Ordering) -> Result<bool> {
    Ok(match op {
        "=" => order.is_eq(),
        "<>" | "!=" => order.is_ne(),
        "<" => order.is_lt(),
        "<=" => order.is_le(),
        ">" => order.is_gt(),
        ">=" => order.is_ge(),
        other => {
            return Err(SqlError::unsupported(format!("operator {other} ANY/ALL (array) is not supported")));
        }
    })
}

/// The lists of a column, one for each row even where it is constant.
fn expanded(input: &Input, rows: usize) -> Result<ArrayRef> {
    if !input.constant || rows == 1 {
        return Ok(Arc::clone(&input.array));
    }
    let picks = arrow::array::UInt64Array::from(vec![0; rows]);
    arrow::compute::take(&input.array, &picks, None).map_err(internal)
}

fn strings(r: &mut Registry) {
    let text = Param::Is(TEXT);
    let texts = Returns::Is(Type::array(Scalar::Text));
    r.kernel("string_to_array", &[text, text], texts, split);
    r.kernel("string_to_array", &[text, text, text], texts, split);
    r.set_returning("string_to_table", &[text, text], Returns::Is(TEXT), split);
    r.set_returning("string_to_table", &[text, text, text], Returns::Is(TEXT), split);
}

fn split(call: &Call) -> Result<ArrayRef> {
    let (value, separator) = (call.column::<Text>(0)?, call.column::<Text>(1)?);
    let null_text = if call.inputs.len() > 2 { Some(call.column::<Text>(2)?) } else { None };
    string::text_lists(call, |row| {
        let value = row!(value, row);
        let null_text = null_text.as_ref().map(|column| column.get(row)).transpose()?.flatten();
        let parts: Vec<String> = match separator.get(row)? {
            _ if value.is_empty() => vec![],
            None => value.chars().map(String::from).collect(),
            Some("") => vec![value.to_string()],
            Some(separator) => value.split(separator).map(str::to_string).collect(),
        };
        Ok(Some(parts.into_iter().map(|part| (Some(part.as_str()) != null_text).then_some(part)).collect()))
    })
}

/// `greatest` and `least`: nulls do not count.
fn alternatives(r: &mut Registry) {
    // The planner refuses arrays: an element is a scalar here.
    r.variadic("greatest", &[Param::AnyElement], Returns::Element, |call| extreme(call, Ordering::Greater));
    r.variadic("least", &[Param::AnyElement], Returns::Element, |call| extreme(call, Ordering::Less));
}

fn extreme(call: &Call, wanted: Ordering) -> Result<ArrayRef> {
    let count = call.inputs.len();
    let mut comparators = vec![];
    for a in call.inputs {
        for b in call.inputs {
            comparators.push(comparator(&a.array, &b.array, call.types[0])?);
        }
    }
    let sources: Vec<ArrayData> = call.inputs.iter().map(|input| input.array.to_data()).collect();
    let mut out = MutableArrayData::new(sources.iter().collect(), true, call.rows);
    for row in 0..call.rows {
        let mut best: Option<usize> = None;
        for (n, input) in call.inputs.iter().enumerate() {
            if input.array.is_null(input.index(row)) {
                continue;
            }
            let better = best.is_none_or(|b| {
                comparators[n * count + b](input.index(row), call.inputs[b].index(row)) == wanted
            });
            if better {
                best = Some(n);
            }
        }
        match best {
            Some(n) => {
                let i = call.inputs[n].index(row);
                out.try_extend(n, i, i + 1).map_err(internal)?;
            }
            None => out.try_extend_nulls(1).map_err(internal)?,
        }
    }
    Ok(make_array(out.freeze()))
}
