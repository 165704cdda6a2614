//! The parser's data types to ours.

use sqlparser::ast::{ArrayElemTypeDef, CharacterLength, DataType, ExactNumberInfo, TimezoneInfo};

use crate::error::{Result, SqlError, SqlState};
use crate::name::fold;
use crate::types::{Scalar, Type};

/// PostgreSQL's `NUMERIC_MAX_PRECISION`.
const NUMERIC_PRECISION_MAX: u64 = 1000;
/// PostgreSQL's limit for `varchar(n)`.
const CHARS_MAX: u64 = 10_485_760;

pub fn type_of(data_type: &DataType) -> Result<Type> {
    let plain = |scalar| Ok(Type::new(scalar));
    match data_type {
        DataType::Bool | DataType::Boolean => plain(Scalar::Bool),
        DataType::SmallInt(None) | DataType::Int2(None) => plain(Scalar::Int2),
        DataType::Int(None) | DataType::Integer(None) | DataType::Int4(None) => plain(Scalar::Int4),
        DataType::BigInt(None) | DataType::Int8(None) => plain(Scalar::Int8),
        DataType::Real | DataType::Float4 => plain(Scalar::Float4),
        DataType::Float8 | DataType::DoublePrecision | DataType::Double(ExactNumberInfo::None) => {
            plain(Scalar::Float8)
        }
        DataType::Float(info) => float(info),
        DataType::Numeric(info) | DataType::Decimal(info) | DataType::Dec(info) => numeric(info),
        DataType::Text => plain(Scalar::Text),
        DataType::Varchar(length) | DataType::CharacterVarying(length) | DataType::CharVarying(length) => {
            characters(Scalar::Varchar, length, None)
        }
        DataType::Char(length) | DataType::Character(length) => characters(Scalar::Bpchar, length, Some(1)),
        DataType::Bytea => plain(Scalar::Bytea),
        DataType::Date => plain(Scalar::Date),
        DataType::Time(precision, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => {
            fraction(Scalar::Time, *precision)
        }
        DataType::Timestamp(precision, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => {
            fraction(Scalar::Timestamp, *precision)
        }
        DataType::Timestamp(precision, TimezoneInfo::WithTimeZone | TimezoneInfo::Tz) => {
            fraction(Scalar::Timestamptz, *precision)
        }
        DataType::Interval { precision, .. } => fraction(Scalar::Interval, *precision),
        DataType::Uuid => plain(Scalar::Uuid),
        DataType::JSON => plain(Scalar::Json),
        DataType::JSONB => plain(Scalar::Jsonb),
        DataType::Array(ArrayElemTypeDef::SquareBracket(item, _) | ArrayElemTypeDef::AngleBracket(item)) => {
            // PostgreSQL ignores the number of dimensions and so do we: int[][] is int[].
            Ok(Type { array: true, ..type_of(item)? })
        }
        DataType::Custom(name, modifiers) if modifiers.is_empty() => {
            let ident = name.0.last().and_then(|p| p.as_ident());
            if ident.is_some_and(|i| i.quote_style.is_some() && i.value == "char") {
                return plain(Scalar::Char);
            }
            let last = ident.map(fold).unwrap_or_default();
            if matches!(last.as_str(), "serial" | "bigserial" | "smallserial" | "serial4" | "serial8") {
                return Err(SqlError::unsupported(format!("type {last} is not supported"))
                    .with_hint("Use an integer column and give its values in the INSERT."));
            }
            match Scalar::from_name(&last) {
                Some(scalar) if scalar.is_object_name() || scalar == Scalar::Xid => {
                    Err(SqlError::unsupported(format!("columns of type {last} are not supported")))
                }
                Some(scalar) => plain(scalar),
                None => Err(unknown(&last)),
            }
        }
        other => Err(unknown(&other.to_string().to_lowercase())),
    }
}

fn unknown(name: &str) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_OBJECT, format!("type \"{name}\" does not exist"))
}

fn float(info: &ExactNumberInfo) -> Result<Type> {
    match info {
        ExactNumberInfo::None => Ok(Type::new(Scalar::Float8)),
        ExactNumberInfo::Precision(0) => Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            "precision for type float must be at least 1 bit",
        )),
        ExactNumberInfo::Precision(bits @ ..=24) if *bits > 0 => Ok(Type::new(Scalar::Float4)),
        ExactNumberInfo::Precision(..=53) => Ok(Type::new(Scalar::Float8)),
        _ => Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            "precision for type float must be less than 54 bits",
        )),
    }
}

fn numeric(info: &ExactNumberInfo) -> Result<Type> {
    let (precision, scale) = match info {
        ExactNumberInfo::None => return Ok(Type::new(Scalar::Numeric)),
        ExactNumberInfo::Precision(precision) => (*precision, 0),
        ExactNumberInfo::PrecisionAndScale(precision, scale) => (*precision, *scale),
    };
    if !(1..=NUMERIC_PRECISION_MAX).contains(&precision) {
        let message = format!("NUMERIC precision {precision} must be between 1 and {NUMERIC_PRECISION_MAX}");
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    }
    if !(-1000..=1000).contains(&scale) {
        let message = format!("NUMERIC scale {scale} must be between -1000 and 1000");
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    }
    Ok(Type::new(Scalar::Numeric).with_typmod(Type::numeric_typmod(precision as u16, scale as i16)))
}

fn characters(scalar: Scalar, length: &Option<CharacterLength>, default: Option<u64>) -> Result<Type> {
    let length = match length {
        Some(CharacterLength::IntegerLength { length, .. }) => Some(*length),
        Some(CharacterLength::Max) => return Err(SqlError::syntax("syntax error at or near \"max\"")),
        None => default,
    };
    let Some(length) = length else { return Ok(Type::new(scalar)) };
    let name = scalar.typname().replace("bpchar", "char");
    if length == 0 {
        let message = format!("length for type {name} must be at least 1");
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    }
    if length > CHARS_MAX {
        let message = format!("length for type {name} cannot exceed {CHARS_MAX}");
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    }
    Ok(Type::new(scalar).with_typmod(length as i32 + 4))
}

/// PostgreSQL reduces a precision above 6 to 6, with a warning.
fn fraction(scalar: Scalar, precision: Option<u64>) -> Result<Type> {
    Ok(Type::new(scalar).with_typmod(precision.map_or(-1, |p| p.min(6) as i32)))
}
