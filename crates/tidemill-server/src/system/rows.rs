//! Rows of a system relation, written by the names of their columns.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Float32Array, Float64Array, Int16Array, Int32Array, Int64Array,
    IntervalMonthDayNanoArray, LargeStringArray, ListBuilder, PrimitiveBuilder, RecordBatch,
    RecordBatchOptions, StringArray, StringBuilder, TimestampMicrosecondArray, UInt32Array, new_null_array,
};
use arrow::datatypes::{
    ArrowPrimitiveType, Float32Type, Int16Type, IntervalMonthDayNano, SchemaRef, UInt32Type,
};
use tidemill_sql::types::{Scalar, Type};
use tidemill_sql::{Result, SqlError};

use super::Column;

/// A value of a system relation. Integers of all widths are `Int`; instants are microseconds since 1970.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Null,
    Bool(bool),
    Int(i64),
    Oid(u32),
    Float(f64),
    Text(String),
    Time(i64),
    /// Microseconds.
    Interval(i64),
    Texts(Vec<String>),
    Oids(Vec<u32>),
    Ints(Vec<i64>),
}

macro_rules! values {
    ($($from:ty => $variant:ident $convert:expr),* $(,)?) => {$(
        impl From<$from> for Value {
            fn from(value: $from) -> Value {
                Value::$variant($convert(value))
            }
        }
    )*};
}

values! {
    bool => Bool |v| v,
    i16 => Int i64::from,
    i32 => Int i64::from,
    i64 => Int |v| v,
    u32 => Oid |v| v,
    u64 => Int |v: u64| i64::try_from(v).unwrap_or(i64::MAX),
    usize => Int |v: usize| i64::try_from(v).unwrap_or(i64::MAX),
    f64 => Float |v| v,
    char => Text String::from,
    &str => Text str::to_owned,
    &String => Text |v: &String| v.clone(),
    String => Text |v| v,
    Vec<String> => Texts |v| v,
    Vec<u32> => Oids |v| v,
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Value {
        value.map_or(Value::Null, Into::into)
    }
}

/// The rows of one relation so far, by column.
#[derive(Debug)]
pub struct Rows<'a> {
    columns: &'a [Column],
    values: Vec<Vec<Value>>,
    count: usize,
}

impl<'a> Rows<'a> {
    pub(super) fn new(columns: &'a [Column]) -> Self {
        Self { columns, values: vec![Vec::new(); columns.len()], count: 0 }
    }

    /// Adds a row. A column that is not mentioned is null, or the zero of its type where null is not allowed.
    pub fn add<const N: usize>(&mut self, row: [(&str, Value); N]) -> Result<()> {
        self.add_all(row)
    }

    /// As [`Rows::add`], of any number of columns.
    pub fn add_all<'n>(&mut self, row: impl IntoIterator<Item = (&'n str, Value)>) -> Result<()> {
        let mut place = 0;
        self.count += 1;
        for (name, value) in row {
            // Columns usually come in order.
            let found = (place..self.columns.len()).chain(0..place).find(|i| self.columns[*i].name == name);
            place = found.ok_or_else(|| SqlError::internal(format!("there is no system column {name}")))?;
            self.values[place].truncate(self.count - 1);
            self.values[place].push(value);
        }
        for (column, values) in self.columns.iter().zip(&mut self.values) {
            if values.len() < self.count {
                values.push(if column.not_null { zero(column.ty) } else { Value::Null });
            }
        }
        Ok(())
    }

    /// How many rows there are so far.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    pub(super) fn finish(self, schema: &SchemaRef) -> Result<RecordBatch> {
        let arrays = self.columns.iter().zip(self.values).map(|(column, values)| {
            array(column.ty, &values).ok_or_else(|| {
                let shown = column.ty.display();
                SqlError::internal(format!("a value of system column {} is not of type {shown}", column.name))
            })
        });
        let options = RecordBatchOptions::new().with_row_count(Some(self.count));
        RecordBatch::try_new_with_options(Arc::clone(schema), arrays.collect::<Result<_>>()?, &options)
            .map_err(|e| SqlError::internal(e.to_string()))
    }
}

fn zero(ty: Type) -> Value {
    if ty.array {
        return match ty.scalar {
            Scalar::Oid => Value::Oids(vec![]),
            Scalar::Int2 => Value::Ints(vec![]),
            _ => Value::Texts(vec![]),
        };
    }
    match ty.arrow() {
        arrow::datatypes::DataType::UInt32 => Value::Oid(0),
        arrow::datatypes::DataType::Boolean => Value::Bool(false),
        arrow::datatypes::DataType::Utf8 => Value::Text(String::new()),
        arrow::datatypes::DataType::Float32 | arrow::datatypes::DataType::Float64 => Value::Float(0.0),
        _ => Value::Int(0),
    }
}

/// The values as a column of the type; `None` if one does not fit.
fn array(ty: Type, values: &[Value]) -> Option<ArrayRef> {
    use arrow::datatypes::DataType as D;
    if values.iter().all(|v| *v == Value::Null) {
        return Some(new_null_array(&ty.arrow(), values.len()));
    }
    if ty.array {
        return list(ty, values);
    }
    Some(match ty.arrow() {
        D::Boolean => Arc::new(
            each(values, |v| if let Value::Bool(b) = v { Some(*b) } else { None })?.collect::<BooleanArray>(),
        ),
        D::Int16 => Arc::new(each(values, |v| integer(v)?.try_into().ok())?.collect::<Int16Array>()),
        D::Int32 => Arc::new(each(values, |v| integer(v)?.try_into().ok())?.collect::<Int32Array>()),
        D::Int64 => Arc::new(each(values, integer)?.collect::<Int64Array>()),
        D::UInt32 => Arc::new(each(values, |v| integer(v)?.try_into().ok())?.collect::<UInt32Array>()),
        D::Float32 => Arc::new(each(values, |v| Some(float(v)? as f32))?.collect::<Float32Array>()),
        D::Float64 => Arc::new(each(values, float)?.collect::<Float64Array>()),
        D::Utf8 => Arc::new(
            each(values, |v| if let Value::Text(s) = v { Some(s.as_str()) } else { None })?
                .collect::<StringArray>(),
        ),
        D::LargeUtf8 => Arc::new(
            each(values, |v| if let Value::Text(s) = v { Some(s.as_str()) } else { None })?
                .collect::<LargeStringArray>(),
        ),
        D::Timestamp(..) => {
            let instants = each(values, |v| if let Value::Time(us) = v { Some(*us) } else { None })?;
            Arc::new(instants.collect::<TimestampMicrosecondArray>().with_data_type(ty.arrow()))
        }
        D::Interval(_) => {
            let micros = each(values, |v| if let Value::Interval(us) = v { Some(*us) } else { None })?;
            let value = |us: i64| IntervalMonthDayNano::new(0, 0, us.saturating_mul(1_000));
            Arc::new(micros.map(|us| us.map(value)).collect::<IntervalMonthDayNanoArray>())
        }
        _ => return None,
    })
}

/// The values, nulls as `None`; `None` for the whole if one is of another kind.
fn each<'v, T: 'v>(
    values: &'v [Value],
    convert: impl Fn(&'v Value) -> Option<T>,
) -> Option<impl Iterator<Item = Option<T>> + 'v> {
    let converted = values.iter().map(|v| if *v == Value::Null { Some(None) } else { convert(v).map(Some) });
    Some(converted.collect::<Option<Vec<_>>>()?.into_iter())
}

fn integer(value: &Value) -> Option<i64> {
    match value {
        Value::Int(number) => Some(*number),
        Value::Oid(oid) => Some(i64::from(*oid)),
        _ => None,
    }
}

fn float(value: &Value) -> Option<f64> {
    match value {
        Value::Float(number) => Some(*number),
        Value::Int(number) => Some(*number as f64),
        _ => None,
    }
}

fn list(ty: Type, values: &[Value]) -> Option<ArrayRef> {
    match ty.scalar.arrow() {
        arrow::datatypes::DataType::Utf8 => {
            let mut builder = ListBuilder::new(StringBuilder::new());
            for value in values {
                match value {
                    Value::Null => builder.append_null(),
                    Value::Texts(items) => builder.append_value(items.iter().map(Some)),
                    _ => return None,
                }
            }
            Some(Arc::new(builder.finish()))
        }
        arrow::datatypes::DataType::UInt32 => numbers::<UInt32Type>(values, |n| n.try_into().ok()),
        arrow::datatypes::DataType::Int16 => numbers::<Int16Type>(values, |n| n.try_into().ok()),
        arrow::datatypes::DataType::Float32 => numbers::<Float32Type>(values, |n| Some(n as f32)),
        _ => None,
    }
}

fn numbers<T: ArrowPrimitiveType>(
    values: &[Value],
    convert: impl Fn(i64) -> Option<T::Native>,
) -> Option<ArrayRef> {
    let mut builder = ListBuilder::new(PrimitiveBuilder::<T>::new());
    for value in values {
        let items: Vec<i64> = match value {
            Value::Null => {
                builder.append_null();
                continue;
            }
            Value::Oids(items) => items.iter().map(|n| i64::from(*n)).collect(),
            Value::Ints(items) => items.clone(),
            _ => return None,
        };
        builder
            .append_value(items.into_iter().map(&convert).collect::<Option<Vec<_>>>()?.into_iter().map(Some));
    }
    Some(Arc::new(builder.finish()))
}
