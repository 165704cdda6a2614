//! Aggregates whose state is their input: `array_agg`, `string_agg`, the json ones, and every aggregate that minds
//! `DISTINCT` or `ORDER BY`. Rows are kept in the order in which they came; sorting waits until the result is wanted.

use std::fmt::Debug;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, LargeStringArray, ListArray, StructArray, UInt32Array};
use arrow::buffer::OffsetBuffer;
use arrow::compute::{SortColumn, SortOptions, concat, lexsort_to_indices, take};
use arrow::datatypes::{DataType, Field, Fields};
use arrow::row::{RowConverter, SortField};
use datafusion::common::ScalarValue;
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::{Accumulator, GroupsAccumulator};

use super::{Function, Resolved};
use crate::error::{Result, SqlError, SqlState};
use crate::function::{canonical_json, external, quote_json, sort_key};
use crate::types::{Scalar, Type};

pub(super) fn resolve(name: &str, types: &[Type]) -> Option<Resolved> {
    let arguments: Vec<_> = types.iter().map(|ty| ty.arrow()).collect();
    let (last, returns) = match (name, types) {
        ("array_agg", [Type { scalar, array: false, .. }]) => (Last::Array, Type::array(*scalar)),
        (
            "string_agg",
            [Type { scalar: Scalar::Bytea, array: false, .. }, Type { scalar: Scalar::Bytea, .. }],
        ) => (Last::Bytes, Type::new(Scalar::Bytea)),
        ("string_agg", [text, delimiter]) if is_text(text) && is_text(delimiter) => {
            (Last::Text, Type::new(Scalar::Text))
        }
        // `prepare` has made json of the values and text of the keys.
        ("json_agg", [_]) => (Last::JsonArray, Type::new(Scalar::Json)),
        ("jsonb_agg", [_]) => (Last::JsonbArray, Type::new(Scalar::Jsonb)),
        ("json_object_agg", [_, _]) => (Last::JsonObject, Type::new(Scalar::Json)),
        ("jsonb_object_agg", [_, _]) => (Last::JsonbObject, Type::new(Scalar::Jsonb)),
        _ => return None,
    };
    let kept = Kept { last, arguments: arguments.clone(), orders: vec![], is_distinct: false };
    Resolved::new(&arguments, returns, kept)
}

fn is_text(ty: &Type) -> bool {
    !ty.array && crate::planner::coerce::is_string(ty.scalar)
}

/// One item of an aggregate's ORDER BY.
#[derive(Debug, Clone)]
pub(super) struct Order {
    pub data_type: DataType,
    pub options: SortOptions,
}

/// What becomes of the rows, in their order, without repetitions if those are not wanted.
#[derive(Debug, Clone)]
enum Last {
    Fold(Arc<dyn Function>),
    Array,
    Text,
    Bytes,
    JsonArray,
    JsonbArray,
    JsonObject,
    JsonbObject,
}

/// An aggregate that keeps its rows: arguments, then the values of ORDER BY.
#[derive(Debug, Clone)]
pub(super) struct Kept {
    last: Last,
    arguments: Vec<DataType>,
    orders: Vec<Order>,
    is_distinct: bool,
}

impl Kept {
    pub fn new(
        function: Arc<dyn Function>,
        arguments: Vec<DataType>,
        orders: Vec<Order>,
        is_distinct: bool,
    ) -> Self {
        Self { last: Last::Fold(function), arguments, orders, is_distinct }
    }

    fn no_rows(&self) -> Batches {
        Batches::new(self.arguments.iter().chain(self.orders.iter().map(|o| &o.data_type)))
    }

    /// The rows in the order that is asked for.
    fn sorted(&self, columns: Vec<ArrayRef>) -> DfResult<Vec<ArrayRef>> {
        let arguments = self.arguments.len();
        if self.orders.is_empty() && !self.is_distinct || columns[0].is_empty() {
            return Ok(columns);
        }
        let mut sort = Vec::with_capacity(columns.len());
        for (column, order) in columns[arguments..].iter().zip(&self.orders) {
            sort.push(SortColumn { values: keyed(column)?, options: Some(order.options) });
        }
        if self.is_distinct {
            // Nulls last, as PostgreSQL sorts to find repetitions.
            let options = Some(SortOptions { descending: false, nulls_first: false });
            for column in &columns[..arguments] {
                sort.push(SortColumn { values: keyed(column)?, options });
            }
        }
        let mut order = stable(&sort)?;
        if self.is_distinct {
            order = without_repetitions(&columns[..arguments], &order)?;
        }
        columns.iter().map(|column| Ok(take(column, &order, None)?)).collect()
    }

    fn finish(&self, columns: Vec<ArrayRef>) -> DfResult<ScalarValue> {
        let columns = self.sorted(columns)?;
        let arguments = &columns[..self.arguments.len()];
        let first = &arguments[0];
        let text = |value: Option<String>| ScalarValue::LargeUtf8(value);
        Ok(match &self.last {
            Last::Fold(function) => {
                let mut accumulator = function.accumulator()?;
                accumulator.update_batch(arguments)?;
                accumulator.evaluate()?
            }
            Last::Array if first.is_empty() => ScalarValue::try_from(&DataType::List(
                Field::new_list_field(first.data_type().clone(), true).into(),
            ))?,
            Last::Array => {
                let item = Arc::new(Field::new_list_field(first.data_type().clone(), true));
                let offsets = OffsetBuffer::from_lengths([first.len()]);
                ScalarValue::List(Arc::new(ListArray::try_new(item, offsets, Arc::clone(first), None)?))
            }
            Last::Text => {
                let joined = joined(arguments)?;
                let text =
                    joined.map(|bytes| String::from_utf8(bytes).expect("text joined with text is text"));
                ScalarValue::Utf8(text)
            }
            Last::Bytes => ScalarValue::Binary(joined(arguments)?),
            Last::JsonArray => text(json_array(first)?),
            Last::JsonbArray => text(canonical(json_array(first)?)?),
            Last::JsonObject => text(json_object(arguments)?),
            Last::JsonbObject => text(canonical(json_object(arguments)?)?),
        })
    }
}

impl Function for Kept {
    fn state(&self) -> Vec<DataType> {
        vec![self.no_rows().data_type()]
    }

    fn accumulator(&self) -> DfResult<Box<dyn Accumulator>> {
        Ok(Box::new(Rows { kept: self.clone(), rows: self.no_rows() }))
    }

    fn groups(&self) -> Option<Box<dyn GroupsAccumulator>> {
        None
    }
}

#[derive(Debug)]
struct Rows {
    kept: Kept,
    rows: Batches,
}

impl Accumulator for Rows {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        if values.first().is_some_and(|v| !v.is_empty()) {
            self.rows.push(values[..self.rows.fields.len()].to_vec());
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> DfResult<()> {
        for i in 0..states[0].len() {
            self.rows.push_list(&states[0], i)?;
        }
        Ok(())
    }

    fn state(&mut self) -> DfResult<Vec<ScalarValue>> {
        Ok(vec![self.rows.to_list()?])
    }

    fn evaluate(&mut self) -> DfResult<ScalarValue> {
        self.kept.finish(self.rows.columns()?)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        // Rows leave a window in the order in which they came.
        let gone = values.first().map_or(0, |v| v.len());
        let columns = self.rows.columns()?;
        let left = columns[0].len().saturating_sub(gone);
        self.rows.batches = vec![columns.iter().map(|c| c.slice(c.len() - left, left)).collect()];
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.rows.size()
    }
}

/// Rows in the order in which they came, as a state: a list of structs.
#[derive(Debug)]
pub(super) struct Batches {
    fields: Fields,
    batches: Vec<Vec<ArrayRef>>,
}

impl Batches {
    pub fn new<'a>(types: impl IntoIterator<Item = &'a DataType>) -> Self {
        let types = types.into_iter().enumerate();
        let fields = types.map(|(i, ty)| Field::new(format!("c{i}"), ty.clone(), true)).collect();
        Self { fields, batches: vec![] }
    }

    pub fn data_type(&self) -> DataType {
        DataType::List(self.item())
    }

    fn item(&self) -> Arc<Field> {
        Arc::new(Field::new_list_field(DataType::Struct(self.fields.clone()), true))
    }

    pub fn push(&mut self, columns: Vec<ArrayRef>) {
        self.batches.push(columns);
    }

    /// Adds the rows of one state; whether there are any.
    pub fn push_list(&mut self, states: &ArrayRef, i: usize) -> DfResult<bool> {
        let lists = states.as_list_opt::<i32>();
        let lists = lists.ok_or_else(|| external(SqlError::internal("kept rows that are no list")))?;
        let has_rows = lists.is_valid(i) && lists.value_length(i) > 0;
        if has_rows {
            self.batches.push(lists.value(i).as_struct().columns().to_vec());
        }
        Ok(has_rows)
    }

    pub fn columns(&self) -> DfResult<Vec<ArrayRef>> {
        let column = |(i, field): (usize, &Arc<Field>)| -> DfResult<ArrayRef> {
            let parts: Vec<&dyn Array> = self.batches.iter().map(|batch| &*batch[i] as &dyn Array).collect();
            match parts[..] {
                [] => Ok(arrow::array::new_empty_array(field.data_type())),
                _ => Ok(concat(&parts)?),
            }
        };
        self.fields.iter().enumerate().map(column).collect()
    }

    pub fn to_list(&self) -> DfResult<ScalarValue> {
        let columns = self.columns()?;
        let offsets = OffsetBuffer::from_lengths([columns[0].len()]);
        let rows = StructArray::try_new(self.fields.clone(), columns, None)?;
        let list = ListArray::try_new(self.item(), offsets, Arc::new(rows), None)?;
        Ok(ScalarValue::List(Arc::new(list)))
    }

    pub fn size(&self) -> usize {
        self.batches.iter().flatten().map(|column| column.get_array_memory_size()).sum()
    }
}

/// A column that Arrow orders as PostgreSQL orders the values, and in which equal values are equal.
pub(super) fn keyed(column: &ArrayRef) -> DfResult<ArrayRef> {
    sort_key(column).map_err(external)
}

/// The order of the rows; equal ones stay as they are.
pub(super) fn stable(sort: &[SortColumn]) -> DfResult<UInt32Array> {
    let rows = sort[0].values.len();
    let mut sort = sort.to_vec();
    sort.push(SortColumn { values: Arc::new(UInt32Array::from_iter_values(0..rows as u32)), options: None });
    Ok(lexsort_to_indices(&sort, None)?)
}

/// Of equal rows, which are neighbours, the first.
fn without_repetitions(columns: &[ArrayRef], order: &UInt32Array) -> DfResult<UInt32Array> {
    let keys = columns.iter().map(keyed).collect::<DfResult<Vec<_>>>()?;
    let fields = keys.iter().map(|key| SortField::new(key.data_type().clone())).collect();
    let rows = RowConverter::new(fields)?.convert_columns(&keys)?;
    let mut last = None;
    let is_new = |i: &u32| {
        let row = rows.row(*i as usize);
        last.replace(row) != Some(row)
    };
    Ok(order.values().iter().copied().filter(is_new).collect::<Vec<_>>().into())
}

/// `string_agg`: each value but the first after its own row's delimiter. Null if there is none.
fn joined(arguments: &[ArrayRef]) -> DfResult<Option<Vec<u8>>> {
    let bytes = |array: &ArrayRef| arrow::compute::cast(array, &DataType::Binary);
    let (values, delimiters) = (bytes(&arguments[0])?, bytes(&arguments[1])?);
    let mut out: Option<Vec<u8>> = None;
    for (value, delimiter) in values.as_binary::<i32>().iter().zip(delimiters.as_binary::<i32>()) {
        let Some(value) = value else { continue };
        match &mut out {
            None => out = Some(value.to_vec()),
            Some(out) => {
                out.extend(delimiter.unwrap_or_default());
                out.extend(value);
            }
        }
    }
    Ok(out)
}

fn json_array(values: &ArrayRef) -> DfResult<Option<String>> {
    let items: Vec<_> = large_text(values)?.iter().map(|v| v.unwrap_or("null").to_string()).collect();
    Ok((!items.is_empty()).then(|| format!("[{}]", items.join(", "))))
}

fn json_object(arguments: &[ArrayRef]) -> DfResult<Option<String>> {
    let (keys, values) = (large_text(&arguments[0])?, large_text(&arguments[1])?);
    let mut members = Vec::with_capacity(keys.len());
    for (key, value) in keys.iter().zip(values.iter()) {
        let key = key.ok_or_else(|| {
            external(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "field name must not be null"))
        })?;
        let mut member = String::new();
        quote_json(key, &mut member);
        members.push(member + " : " + value.unwrap_or("null"));
    }
    Ok((!members.is_empty()).then(|| format!("{{ {} }}", members.join(", "))))
}

fn canonical(json: Option<String>) -> DfResult<Option<String>> {
    let canonical: Result<_> = json.map(|text| canonical_json(&text)).transpose();
    canonical.map_err(external)
}

fn large_text(array: &ArrayRef) -> DfResult<LargeStringArray> {
    Ok(arrow::compute::cast(array, &DataType::LargeUtf8)?.as_string::<i64>().clone())
}
