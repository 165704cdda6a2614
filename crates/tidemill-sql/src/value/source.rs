//! A column to be shown, brought once into one of few forms; no downcast is left to the single value.

use crate::{Result, SqlError};
use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, BinaryArray, BinaryViewArray, FixedSizeBinaryArray,
    LargeBinaryArray, LargeStringArray, StringArray, StringViewArray,
};
use arrow::buffer::{BooleanBuffer, ScalarBuffer};
use arrow::compute::take;
use arrow::datatypes::*;

use super::ValueEncoder;

/// Temporal values are in the units of `ColumnBuilder`: days, microseconds and `IntervalMonthDayNano`.
pub(super) enum Source {
    Null,
    Bool(BooleanBuffer),
    Int2(ScalarBuffer<i16>),
    Int4(ScalarBuffer<i32>),
    Int8(ScalarBuffer<i64>),
    Oid(ScalarBuffer<u32>),
    Float4(ScalarBuffer<f32>),
    Float8(ScalarBuffer<f64>),
    Numeric(LargeBinaryArray),
    Decimal(ScalarBuffer<i128>, i8),
    Decimal256(ScalarBuffer<i256>, i8),
    Text(StringArray),
    TextView(StringViewArray),
    LargeText(LargeStringArray),
    Bytea(BinaryArray),
    ByteaView(BinaryViewArray),
    Date(ScalarBuffer<i32>),
    Time(ScalarBuffer<i64>),
    Timestamp(ScalarBuffer<i64>),
    Interval(ScalarBuffer<IntervalMonthDayNano>),
    Uuid(FixedSizeBinaryArray),
    /// Item `i` of the offsets is where list `i` starts.
    List(ScalarBuffer<i64>, Box<ValueEncoder>),
}

impl Source {
    /// The forms of scalars; lists are made by `ValueEncoder`.
    pub fn new(array: &dyn Array) -> Result<Source> {
        Ok(match array.data_type() {
            DataType::Null => Source::Null,
            DataType::Boolean => Source::Bool(array.as_boolean().values().clone()),
            DataType::Int8 => Source::Int2(map::<Int8Type, _>(array, i16::from)),
            DataType::UInt8 => Source::Int2(map::<UInt8Type, _>(array, i16::from)),
            DataType::Int16 => Source::Int2(same::<Int16Type>(array)),
            DataType::UInt16 => Source::Int4(map::<UInt16Type, _>(array, i32::from)),
            DataType::Int32 => Source::Int4(same::<Int32Type>(array)),
            DataType::UInt32 => Source::Oid(same::<UInt32Type>(array)),
            DataType::Int64 => Source::Int8(same::<Int64Type>(array)),
            DataType::UInt64 => {
                Source::Int8(try_map::<UInt64Type, _>(array, "bigint", |v| v.try_into().ok())?)
            }
            DataType::Float16 => Source::Float4(map::<Float16Type, _>(array, f32::from)),
            DataType::Float32 => Source::Float4(same::<Float32Type>(array)),
            DataType::Float64 => Source::Float8(same::<Float64Type>(array)),
            DataType::LargeBinary => Source::Numeric(array.as_binary().clone()),
            DataType::Decimal32(_, scale) => {
                Source::Decimal(map::<Decimal32Type, _>(array, i128::from), *scale)
            }
            DataType::Decimal64(_, scale) => {
                Source::Decimal(map::<Decimal64Type, _>(array, i128::from), *scale)
            }
            DataType::Decimal128(_, scale) => Source::Decimal(same::<Decimal128Type>(array), *scale),
            DataType::Decimal256(_, scale) => Source::Decimal256(same::<Decimal256Type>(array), *scale),
            DataType::Utf8 => Source::Text(array.as_string().clone()),
            DataType::Utf8View => Source::TextView(array.as_string_view().clone()),
            DataType::LargeUtf8 => Source::LargeText(array.as_string().clone()),
            DataType::Binary => Source::Bytea(array.as_binary().clone()),
            DataType::BinaryView => Source::ByteaView(array.as_binary_view().clone()),
            DataType::FixedSizeBinary(16) => Source::Uuid(array.as_fixed_size_binary().clone()),
            DataType::Dictionary(..) => {
                let dictionary = array.as_any_dictionary();
                return Source::new(&taken(dictionary.values(), dictionary.keys())?);
            }
            _ => return temporal(array),
        })
    }
}

fn temporal(array: &dyn Array) -> Result<Source> {
    Ok(match array.data_type() {
        DataType::Date32 => Source::Date(same::<Date32Type>(array)),
        DataType::Date64 => {
            let days = |millis: i64| i32::try_from(millis.div_euclid(86_400_000)).ok();
            Source::Date(try_map::<Date64Type, _>(array, "date", days)?)
        }
        DataType::Time32(TimeUnit::Second) => {
            Source::Time(map::<Time32SecondType, _>(array, |v| i64::from(v) * 1_000_000))
        }
        DataType::Time32(_) => Source::Time(map::<Time32MillisecondType, _>(array, |v| i64::from(v) * 1_000)),
        DataType::Time64(TimeUnit::Nanosecond) => {
            Source::Time(map::<Time64NanosecondType, _>(array, |v| v / 1_000))
        }
        DataType::Time64(_) => Source::Time(same::<Time64MicrosecondType>(array)),
        DataType::Timestamp(unit, _) => Source::Timestamp(match unit {
            TimeUnit::Second => micros::<TimestampSecondType>(array, 1_000_000, "timestamp")?,
            TimeUnit::Millisecond => micros::<TimestampMillisecondType>(array, 1_000, "timestamp")?,
            TimeUnit::Microsecond => same::<TimestampMicrosecondType>(array),
            TimeUnit::Nanosecond => map::<TimestampNanosecondType, _>(array, |v| v.div_euclid(1_000)),
        }),
        DataType::Duration(unit) => Source::Interval(match unit {
            TimeUnit::Second => nanos::<DurationSecondType>(array, 1_000_000_000)?,
            TimeUnit::Millisecond => nanos::<DurationMillisecondType>(array, 1_000_000)?,
            TimeUnit::Microsecond => nanos::<DurationMicrosecondType>(array, 1_000)?,
            TimeUnit::Nanosecond => nanos::<DurationNanosecondType>(array, 1)?,
        }),
        DataType::Interval(IntervalUnit::YearMonth) => {
            let months = |months| IntervalMonthDayNano::new(months, 0, 0);
            Source::Interval(map::<IntervalYearMonthType, _>(array, months))
        }
        DataType::Interval(IntervalUnit::DayTime) => {
            let day_time = |v: IntervalDayTime| {
                IntervalMonthDayNano::new(0, v.days, i64::from(v.milliseconds) * 1_000_000)
            };
            Source::Interval(map::<IntervalDayTimeType, _>(array, day_time))
        }
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            Source::Interval(same::<IntervalMonthDayNanoType>(array))
        }
        other => {
            return Err(SqlError::unsupported(format!("a column of type {other} has no type in PostgreSQL")));
        }
    })
}

/// The values behind dictionary keys.
pub(super) fn taken(values: &dyn Array, keys: &dyn Array) -> Result<ArrayRef> {
    take(values, keys, None).map_err(|e| SqlError::internal(format!("a dictionary cannot be read: {e}")))
}

fn same<T: ArrowPrimitiveType>(array: &dyn Array) -> ScalarBuffer<T::Native> {
    array.as_primitive::<T>().values().clone()
}

fn map<T: ArrowPrimitiveType, U: ArrowNativeType>(
    array: &dyn Array,
    f: impl Fn(T::Native) -> U,
) -> ScalarBuffer<U> {
    array.as_primitive::<T>().values().iter().map(|v| f(*v)).collect()
}

/// As `map` for what may not fit; what is behind a NULL may be anything.
fn try_map<T: ArrowPrimitiveType, U: ArrowNativeType>(
    array: &dyn Array,
    type_name: &str,
    f: impl Fn(T::Native) -> Option<U>,
) -> Result<ScalarBuffer<U>> {
    let array = array.as_primitive::<T>();
    let values = array.iter().map(|v| v.map_or(Some(U::default()), &f));
    values
        .collect::<Option<Vec<_>>>()
        .map(ScalarBuffer::from)
        .ok_or_else(|| SqlError::out_of_range(type_name))
}

fn micros<T: ArrowPrimitiveType<Native = i64>>(
    array: &dyn Array,
    factor: i64,
    type_name: &str,
) -> Result<ScalarBuffer<i64>> {
    try_map::<T, _>(array, type_name, |v| v.checked_mul(factor))
}

fn nanos<T: ArrowPrimitiveType<Native = i64>>(
    array: &dyn Array,
    factor: i64,
) -> Result<ScalarBuffer<IntervalMonthDayNano>> {
    let interval = |v: i64| Some(IntervalMonthDayNano::new(0, 0, v.checked_mul(factor)?));
    try_map::<T, _>(array, "interval", interval)
}
