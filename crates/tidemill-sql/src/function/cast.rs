//! Casts between all types: `CAST`, `::` and every implicit coercion.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, StringArray, new_null_array};
use arrow::datatypes::{DataType, Field, FieldRef, TimeUnit};
use datafusion::common::ScalarValue;
use datafusion::common::metadata::FieldMetadata;
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::kernel::*;
use super::{datetime, textual};
use crate::error::{Result, SqlError, SqlState};
use crate::numeric::Numeric as Number;
use crate::planner::vars::SessionVars;
use crate::types::{Scalar, Type};

/// The expression that casts; the planner has checked that the cast exists. An explicit cast may cut text off.
pub fn expr(expr: Expr, from: Type, to: Type, explicit: bool) -> Result<Expr> {
    let relabels = from.arrow() == to.arrow() && to.typmod < 0 && is_relabel(from.scalar, to.scalar);
    if relabels && (from.scalar == to.scalar || to.scalar == Scalar::Text) {
        return Ok(expr);
    }
    if !from.array && is_widening(from.scalar, to.scalar) {
        if let Expr::Literal(value, None) = &expr {
            let cast = value.cast_to(&to.arrow()).map_err(crate::planner::plan_error)?;
            return Ok(Expr::Literal(cast, None));
        }
        return Ok(Expr::Cast(Cast::new(Box::new(expr), to.arrow())));
    }
    let zone_free = !depends_on_session(from.scalar, to.scalar);
    if zone_free && let Expr::Literal(value, _) = &expr {
        let array = value.to_array().map_err(crate::planner::plan_error)?;
        return constant(&cast(&array, from, to, explicit, &SessionVars::default())?, to);
    }
    let volatility = if zone_free { Volatility::Immutable } else { Volatility::Stable };
    let udf = CastUdf { from, to, explicit, signature: Signature::user_defined(volatility) };
    Ok(ScalarUDF::new_from_impl(udf).call(vec![expr]))
}

pub fn is_cast(function: &ScalarUDF) -> bool {
    function.inner().is::<CastUdf>()
}

/// A value of a type that is held like `to`, named as `to`.
pub fn relabel(expr: Expr, to: Type) -> Expr {
    let metadata = FieldMetadata::from(&to.field(""));
    if let Expr::Literal(value, _) = expr {
        return Expr::Literal(value, Some(metadata).filter(|metadata| !metadata.is_empty()));
    }
    let signature = Signature::user_defined(Volatility::Immutable);
    ScalarUDF::new_from_impl(CastUdf { from: to, to, explicit: false, signature }).call(vec![expr])
}

/// A literal of unknown type, read as `to`.
pub fn literal(value: ScalarValue, to: Type, explicit: bool) -> Result<Expr> {
    match value {
        ScalarValue::Utf8(Some(text)) => {
            let lower = text.to_ascii_lowercase();
            let moves = ["now", "today", "tomorrow", "yesterday"].iter().any(|word| lower.contains(word));
            let text_type = Type::new(Scalar::Text);
            let literal = Expr::Literal(ScalarValue::Utf8(Some(text)), None);
            if to.scalar == Scalar::Text && !to.array {
                return Ok(known(literal, to));
            }
            if matches!(to.scalar, Scalar::Date | Scalar::Timestamp | Scalar::Time) && moves {
                let signature = Signature::user_defined(Volatility::Stable);
                let udf = CastUdf { from: text_type, to, explicit, signature };
                return Ok(ScalarUDF::new_from_impl(udf).call(vec![literal]));
            }
            expr(literal, text_type, to, explicit)
        }
        _ => {
            let null = ScalarValue::try_from(&to.arrow()).map_err(crate::planner::plan_error)?;
            Ok(known(Expr::Literal(null, None), to))
        }
    }
}

fn constant(array: &ArrayRef, to: Type) -> Result<Expr> {
    let value = ScalarValue::try_from_array(array, 0).map_err(crate::planner::plan_error)?;
    Ok(known(Expr::Literal(value, None), to))
}

/// Text without metadata is a literal of unknown type, so a known one says what it is; others do where Arrow does not.
fn known(expr: Expr, ty: Type) -> Expr {
    let mut field = ty.field("");
    if ty.scalar == Scalar::Text && !ty.array {
        field = field.with_metadata([(crate::types::TYPE_KEY.to_string(), "text".to_string())].into());
    }
    match expr {
        Expr::Literal(value, None) if !field.metadata().is_empty() => {
            Expr::Literal(value, Some(FieldMetadata::from(&field)))
        }
        other => other,
    }
}

/// Only the name of the type changes, not the value.
fn is_relabel(from: Scalar, to: Scalar) -> bool {
    let string = |s| s != Scalar::Char && crate::planner::coerce::is_string(s);
    from == to || (string(from) && from != Scalar::Bpchar && matches!(to, Scalar::Text | Scalar::Varchar))
}

/// DataFusion's cast does the same and cannot fail, and its optimizer understands it.
fn is_widening(from: Scalar, to: Scalar) -> bool {
    use Scalar::*;
    matches!(
        (from, to),
        (Int2, Int4 | Int8 | Float4 | Float8)
            | (Int4, Int8 | Float4 | Float8)
            | (Int8, Float4 | Float8)
            | (Float4, Float8)
    )
}

/// On its time zone, or on which objects there are.
fn depends_on_session(from: Scalar, to: Scalar) -> bool {
    (from == Scalar::Timestamptz) != (to == Scalar::Timestamptz)
        || (from.is_object_name() && crate::planner::coerce::is_string(to))
        || (to.is_object_name() && crate::planner::coerce::is_string(from))
}

/// A cast as a function.
#[derive(Debug, PartialEq, Eq, Hash)]
struct CastUdf {
    from: Type,
    to: Type,
    explicit: bool,
    signature: Signature,
}

impl ScalarUDFImpl for CastUdf {
    fn name(&self) -> &str {
        self.to.scalar.typname()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> datafusion::error::Result<Vec<DataType>> {
        Ok(types.to_vec())
    }

    fn return_type(&self, _: &[DataType]) -> datafusion::error::Result<DataType> {
        Ok(self.to.arrow())
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs) -> datafusion::error::Result<FieldRef> {
        Ok(Arc::new(self.to.field(self.name())))
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> datafusion::error::Result<ColumnarValue> {
        SessionVars::with(&args, |vars| {
            super::invoke(&args, vars, |call| {
                cast(&call.inputs[0].array, self.from, self.to, self.explicit, call.vars)
            })
        })
    }
}

/// Other Arrow forms of a type (views, dictionaries, decimals) as the one we use.
pub(crate) fn plain_form(array: &ArrayRef) -> Result<ArrayRef, arrow::error::ArrowError> {
    match array.data_type() {
        DataType::Utf8View | DataType::Dictionary(..) => arrow::compute::cast(array, &DataType::Utf8),
        DataType::Null => Ok(arrow::array::new_null_array(&DataType::Utf8, array.len())),
        DataType::BinaryView => arrow::compute::cast(array, &DataType::Binary),
        DataType::Int8 | DataType::UInt8 => arrow::compute::cast(array, &DataType::Int16),
        DataType::UInt16 => arrow::compute::cast(array, &DataType::Int32),
        DataType::UInt64 => arrow::compute::cast(array, &DataType::Int64),
        DataType::Timestamp(unit, zone) if *unit != TimeUnit::Microsecond => {
            arrow::compute::cast(array, &DataType::Timestamp(TimeUnit::Microsecond, zone.clone()))
        }
        DataType::Decimal32(..) | DataType::Decimal64(..) | DataType::Decimal128(..) => {
            let DataType::Decimal128(_, scale) = wide_decimal(array.data_type()) else {
                return Ok(Arc::clone(array));
            };
            let wide = arrow::compute::cast(array, &wide_decimal(array.data_type()))?;
            let values = wide.as_primitive::<arrow::datatypes::Decimal128Type>();
            let mut builder = Numeric::builder(values.len());
            for value in values {
                let value = value.map(|mantissa| Number::from_decimal(mantissa, scale));
                Numeric::append(&mut builder, value)
                    .map_err(|e| arrow::error::ArrowError::ExternalError(Box::new(e)))?;
            }
            Ok(Numeric::finish(builder))
        }
        _ => Ok(Arc::clone(array)),
    }
}

fn wide_decimal(ty: &DataType) -> DataType {
    match ty {
        DataType::Decimal32(_, s) | DataType::Decimal64(_, s) | DataType::Decimal128(_, s) => {
            DataType::Decimal128(38, *s)
        }
        other => other.clone(),
    }
}

/// Casts a column.
pub fn cast(array: &ArrayRef, from: Type, to: Type, explicit: bool, vars: &SessionVars) -> Result<ArrayRef> {
    if *array.data_type() == DataType::Null {
        return Ok(new_null_array(&to.arrow(), array.len()));
    }
    match (from.array, to.array) {
        (false, false) => cast_scalars(array, from, to, explicit, vars),
        (true, true) => {
            let list = as_list(array)?;
            let (from, to) = (Type { array: false, ..from }, Type { array: false, ..to });
            let values = cast(list.values(), from, to, explicit, vars)?;
            let field = Arc::new(Field::new_list_field(values.data_type().clone(), true));
            ListArray::try_new(field, list.offsets().clone(), values, list.nulls().cloned())
                .map(|list| Arc::new(list) as ArrayRef)
                .map_err(|e| SqlError::internal(e.to_string()))
        }
        (true, false) => {
            let text = textual::write_arrays(as_list(array)?, from, vars)?;
            cast_scalars(&text, Type::new(Scalar::Text), to, explicit, vars)
        }
        (false, true) => {
            let array = textual::write(array, from, vars)?;
            textual::read_arrays(strings(&array)?, to, |elements| {
                let element = Type { array: false, ..to };
                cast_scalars(elements, Type::new(Scalar::Text), element, explicit, vars)
            })
        }
    }
}

fn as_list(array: &ArrayRef) -> Result<&ListArray> {
    array
        .as_list_opt::<i32>()
        .ok_or_else(|| SqlError::internal(format!("{} is not a list", array.data_type())))
}

pub(super) fn strings(array: &ArrayRef) -> Result<&StringArray> {
    array
        .as_string_opt::<i32>()
        .ok_or_else(|| SqlError::internal(format!("{} is not text", array.data_type())))
}

fn cast_scalars(
    array: &ArrayRef,
    from: Type,
    to: Type,
    explicit: bool,
    vars: &SessionVars,
) -> Result<ArrayRef> {
    use Scalar::*;
    let string = crate::planner::coerce::is_string;
    let number_of_object = |s: Scalar| s == Oid || s.is_object_name();
    let converted = match (from.scalar, to.scalar) {
        (a, b) if a == b => Arc::clone(array),
        // The blanks that fill a char(n) up do not count.
        (Bpchar, Text | Varchar) => each::<super::kernel::Text, super::kernel::Text>(array, |s| {
            Ok(s.trim_end_matches(' ').to_string())
        })?,
        (a, Char) if string(a) => {
            each::<super::kernel::Text, super::kernel::Text>(array, |s| Ok(crate::text::letter(s)))?
        }
        (a, b) if string(a) && string(b) => Arc::clone(array),
        (a, b) if number_of_object(a) && number_of_object(b) => Arc::clone(array),
        (a, _) if string(a) => textual::read(strings(array)?, to, vars)?,
        (_, b) if string(b) => textual::write(array, from, vars)?,
        (Int2 | Int4 | Int8 | Float4 | Float8 | Scalar::Numeric | Oid | Bool, _) => number(array, to.scalar)?,
        (from, _) if from.is_object_name() => number(array, to.scalar)?,
        (Json, Jsonb) | (Jsonb, Json) | (Jsonb, _) => json(array, to, vars)?,
        _ => datetime::cast(array, from.scalar, to.scalar, vars)?,
    };
    restrict(converted, to, explicit)
}

/// What a type modifier asks for.
fn restrict(array: ArrayRef, to: Type, explicit: bool) -> Result<ArrayRef> {
    if let Some((precision, scale)) = to.numeric_precision_scale() {
        return each::<Numeric, Numeric>(&array, |n| n.apply_typmod(i32::from(precision), i32::from(scale)));
    }
    if let Some(max) = to.max_chars() {
        return each::<Text, Text>(&array, |s| fit(s, to, max, explicit));
    }
    if to.scalar == Scalar::Name {
        return each::<Text, Text>(&array, |s| Ok(s[..s.floor_char_boundary(63)].to_string()));
    }
    if (0..6).contains(&to.typmod) {
        return datetime::restrict(array, to);
    }
    Ok(array)
}

/// `char(n)` is padded; what is too long is an error unless it is blank or the cast is explicit.
fn fit(text: &str, ty: Type, max: usize, explicit: bool) -> Result<String> {
    let cut = text.char_indices().nth(max).map(|(at, _)| at);
    let kept = match cut {
        None => text,
        Some(at) if explicit || text[at..].chars().all(|c| c == ' ') => &text[..at],
        Some(_) => {
            let shown = Type { array: false, ..ty }.display();
            return Err(SqlError::new(
                SqlState::STRING_DATA_RIGHT_TRUNCATION,
                format!("value too long for type {shown}"),
            ));
        }
    };
    let padding = if ty.scalar == Scalar::Bpchar { max.saturating_sub(kept.chars().count()) } else { 0 };
    Ok(format!("{kept}{}", " ".repeat(padding)))
}

/// Applies a function to each value that is there.
pub(super) fn each<A: Sql, R: Sql>(
    array: &ArrayRef,
    f: impl Fn(A::Ref<'_>) -> Result<R::Out>,
) -> Result<ArrayRef> {
    let typed = array
        .as_any()
        .downcast_ref::<A::Array>()
        .ok_or_else(|| SqlError::internal(format!("{} is not {}", array.data_type(), A::SCALAR.display())))?;
    let mut builder = R::builder(typed.len());
    for i in 0..typed.len() {
        let value = if typed.is_null(i) { None } else { Some(f(A::get(typed, i)?)?) };
        R::append(&mut builder, value)?;
    }
    Ok(R::finish(builder))
}

/// From a number (or bool) to a number (or bool).
fn number(array: &ArrayRef, to: Scalar) -> Result<ArrayRef> {
    match array.data_type() {
        DataType::Boolean => each::<Bool, Int4>(array, |b| Ok(i32::from(b))),
        DataType::Int16 => integer(&arrow_cast(array, &DataType::Int64)?, to),
        DataType::Int32 if to == Scalar::Bool => each::<Int4, Bool>(array, |i| Ok(i != 0)),
        DataType::Int32 | DataType::UInt32 => integer(&arrow_cast(array, &DataType::Int64)?, to),
        DataType::Int64 => integer(array, to),
        DataType::Float32 => match to {
            Scalar::Numeric => each::<Float4, Numeric>(array, |f| Ok(Number::from(f))),
            Scalar::Float8 => arrow_cast(array, &DataType::Float64),
            _ => float(&arrow_cast(array, &DataType::Float64)?, to),
        },
        DataType::Float64 => float(array, to),
        _ => match to {
            Scalar::Int2 => each::<Numeric, Int2>(array, |n| n.to_i16()),
            Scalar::Int4 => each::<Numeric, Int4>(array, |n| n.to_i32()),
            Scalar::Int8 => each::<Numeric, Int8>(array, |n| n.to_i64()),
            Scalar::Float4 => each::<Numeric, Float4>(array, |n| n.to_f32()),
            Scalar::Float8 => each::<Numeric, Float8>(array, |n| n.to_f64()),
            _ => Err(no_cast(array, to)),
        },
    }
}

fn integer(array: &ArrayRef, to: Scalar) -> Result<ArrayRef> {
    match to {
        Scalar::Int2 => {
            each::<Int8, Int2>(array, |i| i16::try_from(i).map_err(|_| SqlError::out_of_range("smallint")))
        }
        Scalar::Int4 => {
            each::<Int8, Int4>(array, |i| i32::try_from(i).map_err(|_| SqlError::out_of_range("integer")))
        }
        Scalar::Int8 => Ok(Arc::clone(array)),
        to if to == Scalar::Oid || to.is_object_name() => each::<Int8, Oid>(array, |i| {
            // As C: a negative int4 wraps around, what is beyond 32 bits does not fit.
            u32::try_from(i)
                .or_else(|_| i32::try_from(i).map(|i| i as u32))
                .map_err(|_| SqlError::out_of_range("OID"))
        }),
        Scalar::Float4 => arrow_cast(array, &DataType::Float32),
        Scalar::Float8 => arrow_cast(array, &DataType::Float64),
        Scalar::Numeric => each::<Int8, Numeric>(array, |i| Ok(Number::from(i))),
        _ => Err(no_cast(array, to)),
    }
}

/// Rounds half to even, as C's `rint`.
fn float(array: &ArrayRef, to: Scalar) -> Result<ArrayRef> {
    fn rounded(f: f64, low: f64, high: f64, name: &str) -> Result<f64> {
        let rounded = f.round_ties_even();
        // `high` is one more than the largest value.
        if rounded >= low && rounded < high { Ok(rounded) } else { Err(SqlError::out_of_range(name)) }
    }
    match to {
        Scalar::Int2 => {
            each::<Float8, Int2>(array, |f| Ok(rounded(f, -32768.0, 32768.0, "smallint")? as i16))
        }
        Scalar::Int4 => {
            each::<Float8, Int4>(array, |f| Ok(rounded(f, -2147483648.0, 2147483648.0, "integer")? as i32))
        }
        Scalar::Int8 => {
            let limit = 9223372036854775808.0;
            each::<Float8, Int8>(array, |f| Ok(rounded(f, -limit, limit, "bigint")? as i64))
        }
        Scalar::Numeric => each::<Float8, Numeric>(array, |f| Ok(Number::from(f))),
        Scalar::Float4 => each::<Float8, Float4>(array, |f| {
            let single = f as f32;
            let range = |what| {
                SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("value out of range: {what}"))
            };
            match () {
                () if single.is_infinite() && !f.is_infinite() => Err(range("overflow")),
                () if single == 0.0 && f != 0.0 => Err(range("underflow")),
                () => Ok(single),
            }
        }),
        Scalar::Float8 => Ok(Arc::clone(array)),
        _ => Err(no_cast(array, to)),
    }
}

fn arrow_cast(array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    arrow::compute::cast(array, to).map_err(|e| SqlError::internal(e.to_string()))
}

fn no_cast(array: &ArrayRef, to: Scalar) -> SqlError {
    SqlError::internal(format!("no cast from {} to {}", array.data_type(), to.display()))
}

/// Between the json types, and a scalar out of a jsonb.
fn json(array: &ArrayRef, to: Type, vars: &SessionVars) -> Result<ArrayRef> {
    match to.scalar {
        Scalar::Json => Ok(Arc::clone(array)),
        Scalar::Jsonb => each::<Json, Jsonb>(array, super::json_value::canonical),
        scalar => {
            let what = |text: &str| match text.as_bytes().first() {
                Some(b'{') => "object",
                Some(b'[') => "array",
                Some(b'"') => "string",
                Some(b't' | b'f') => "boolean",
                Some(b'n') => "null",
                _ => "numeric",
            };
            let wanted = if scalar == Scalar::Bool { "boolean" } else { "numeric" };
            let text = each::<Jsonb, Text>(array, |text| {
                if what(text) != wanted {
                    return Err(SqlError::new(
                        SqlState::INVALID_PARAMETER_VALUE,
                        format!("cannot cast jsonb {} to type {}", what(text), scalar.display()),
                    ));
                }
                Ok(text.to_string())
            })?;
            if scalar == Scalar::Bool {
                return textual::read(strings(&text)?, to, vars);
            }
            let numerics = textual::read(strings(&text)?, Type::new(Scalar::Numeric), vars)?;
            cast_scalars(&numerics, Type::new(Scalar::Numeric), to, true, vars)
        }
    }
}
