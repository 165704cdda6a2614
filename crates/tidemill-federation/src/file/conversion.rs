//! Arrow columns of files into the columns that PostgreSQL's types have here: without loss, or not at all.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, LargeBinaryBuilder};
use arrow::compute::kernels::cast::{CastOptions, cast_with_options};
use arrow::datatypes::{
    DataType, Decimal32Type, Decimal64Type, Decimal128Type, Field, IntervalUnit, TimeUnit,
};
use tidemill_sql::numeric::Numeric;
use tidemill_sql::text::{Context, TimeZone};
use tidemill_sql::types::{Scalar, Type};
use tidemill_sql::value::ColumnBuilder;
use tidemill_sql::{Result, SqlError};

/// The type here that holds what a column of a file has; `None` if there is none.
pub fn imported(field: &Field) -> Option<Type> {
    use DataType::*;
    let scalar = match field.data_type() {
        Boolean => Scalar::Bool,
        Int8 | UInt8 | Int16 => Scalar::Int2,
        UInt16 | Int32 => Scalar::Int4,
        UInt32 | Int64 => Scalar::Int8,
        Float16 | Float32 => Scalar::Float4,
        Float64 => Scalar::Float8,
        UInt64 | Decimal32(..) | Decimal64(..) | Decimal128(..) => Scalar::Numeric,
        Utf8 | LargeUtf8 | Utf8View => Scalar::Text,
        Binary | LargeBinary | BinaryView | FixedSizeBinary(_) => Scalar::Bytea,
        Date32 | Date64 => Scalar::Date,
        Time32(_) | Time64(_) => Scalar::Time,
        Timestamp(_, None) => Scalar::Timestamp,
        Timestamp(_, Some(_)) => Scalar::Timestamptz,
        Interval(IntervalUnit::MonthDayNano) => Scalar::Interval,
        Dictionary(_, value) => return imported(&Field::new("", value.as_ref().clone(), true)),
        _ => return None,
    };
    Some(Type::new(scalar))
}

/// Whether values of an Arrow type are values of a type here.
pub fn fits(found: &DataType, wanted: Type) -> bool {
    use DataType::*;
    if let Dictionary(_, value) = found {
        return fits(value, wanted);
    }
    if wanted.array {
        return *found == wanted.arrow();
    }
    match wanted.scalar {
        Scalar::Bool => *found == Boolean,
        Scalar::Int2 | Scalar::Int4 | Scalar::Int8 | Scalar::Oid => found.is_integer(),
        Scalar::Float4 => matches!(found, Float16 | Float32),
        Scalar::Float8 => matches!(found, Float16 | Float32 | Float64),
        Scalar::Numeric => {
            found.is_integer() || matches!(found, Decimal32(..) | Decimal64(..) | Decimal128(..))
        }
        Scalar::Text | Scalar::Varchar | Scalar::Bpchar | Scalar::Name | Scalar::Json | Scalar::Jsonb => {
            matches!(found, Utf8 | LargeUtf8 | Utf8View)
        }
        Scalar::Bytea => matches!(found, Binary | LargeBinary | BinaryView | FixedSizeBinary(_)),
        Scalar::Uuid => matches!(found, FixedSizeBinary(16) | Utf8 | LargeUtf8 | Utf8View),
        Scalar::Date => matches!(found, Date32 | Date64),
        Scalar::Time => matches!(found, Time32(_) | Time64(_)),
        Scalar::Timestamp => matches!(found, Timestamp(_, None)),
        Scalar::Timestamptz => matches!(found, Timestamp(_, Some(_))),
        Scalar::Interval => matches!(found, Interval(IntervalUnit::MonthDayNano)),
        _ => false,
    }
}

/// Whether the order of an Arrow type is that of what is made of it, so that its extremes are extremes here.
pub fn keeps_order(ty: Type) -> bool {
    use Scalar::*;
    let scalar = matches!(ty.scalar, Int2 | Int4 | Int8 | Text | Varchar | Date | Timestamp | Timestamptz);
    // A modifier may cut or round.
    scalar && !ty.array && ty.typmod < 0
}

/// The values as the type has them. A value that does not fit is an error.
pub fn converted(array: &ArrayRef, wanted: Type) -> Result<ArrayRef> {
    let array = match array.data_type() {
        DataType::Dictionary(_, value) => cast(array, value)?,
        _ => Arc::clone(array),
    };
    let text = DataType::Utf8;
    match (wanted.scalar, array.data_type()) {
        (Scalar::Numeric, _) => numerics(&array, wanted),
        // They have rules of their own, or modifiers.
        (Scalar::Varchar | Scalar::Bpchar | Scalar::Name | Scalar::Json | Scalar::Jsonb, _) => {
            parsed(&cast(&array, &text)?, wanted)
        }
        (Scalar::Uuid, found) if *found != DataType::FixedSizeBinary(16) => {
            parsed(&cast(&array, &text)?, wanted)
        }
        (Scalar::Text, _) => {
            let array = cast(&array, &text)?;
            // PostgreSQL's texts have no byte of zero.
            match memchr::memchr(0, array.as_string::<i32>().value_data()) {
                Some(_) => parsed(&array, wanted),
                None => Ok(array),
            }
        }
        (Scalar::Timestamp | Scalar::Timestamptz, DataType::Timestamp(TimeUnit::Nanosecond, _)) => {
            micros(&array, wanted)
        }
        _ => cast(&array, &wanted.arrow()),
    }
}

fn cast(array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let options = CastOptions { safe: false, ..CastOptions::default() };
    cast_with_options(array, to, &options).map_err(|error| {
        let state = tidemill_sql::SqlState::NUMERIC_VALUE_OUT_OF_RANGE;
        SqlError::new(state, error.to_string())
    })
}

/// Nanoseconds are cut, downwards also before 1970.
fn micros(array: &ArrayRef, wanted: Type) -> Result<ArrayRef> {
    let nanos = array.as_primitive::<arrow::datatypes::TimestampNanosecondType>();
    let micros = nanos.unary::<_, arrow::datatypes::TimestampMicrosecondType>(|ns| ns.div_euclid(1000));
    cast(&(Arc::new(micros) as ArrayRef), &wanted.arrow())
}

fn parsed(array: &ArrayRef, wanted: Type) -> Result<ArrayRef> {
    let context = Context { now: 0.into(), zone: TimeZone::UTC };
    let mut builder = ColumnBuilder::new(wanted, &context, array.len());
    for value in array.as_string::<i32>() {
        match value {
            Some(text) => builder.append_text(text.as_bytes())?,
            None => builder.append_null(),
        }
    }
    Ok(builder.finish())
}

fn numerics(array: &ArrayRef, wanted: Type) -> Result<ArrayRef> {
    let (array, scale) = match array.data_type() {
        DataType::Decimal32(_, scale) => {
            let values = array.as_primitive::<Decimal32Type>();
            (values.unary::<_, Decimal128Type>(i128::from), *scale)
        }
        DataType::Decimal64(_, scale) => {
            let values = array.as_primitive::<Decimal64Type>();
            (values.unary::<_, Decimal128Type>(i128::from), *scale)
        }
        DataType::Decimal128(_, scale) => (array.as_primitive::<Decimal128Type>().clone(), *scale),
        _ => {
            let wide = cast(array, &DataType::Decimal128(38, 0))?;
            (wide.as_primitive::<Decimal128Type>().clone(), 0)
        }
    };
    let (mut built, mut bytes) = (LargeBinaryBuilder::new(), Vec::new());
    for value in &array {
        let Some(value) = value else {
            built.append_null();
            continue;
        };
        let mut value = Numeric::from_decimal(value, scale);
        if let Some((precision, scale)) = wanted.numeric_precision_scale() {
            value = value.apply_typmod(i32::from(precision), i32::from(scale))?;
        }
        bytes.clear();
        value.encode(&mut bytes);
        built.append_value(&bytes);
    }
    Ok(Arc::new(built.finish()))
}
