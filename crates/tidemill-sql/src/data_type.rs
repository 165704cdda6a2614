//! Types as they are written in SQL.

use sqlparser::ast::{
    ArrayElemTypeDef, CharacterLength, DataType, ExactNumberInfo, ObjectName, TimezoneInfo,
};

use crate::error::{Result, SqlError, SqlState};
use crate::name::fold;
use crate::types::{Scalar, Type};

/// PostgreSQL's `NUMERIC_MAX_PRECISION`.
const NUMERIC_PRECISION_MAX: u64 = 1000;
/// PostgreSQL's limit for `varchar(n)`.
const CHARS_MAX: u64 = 10_485_760;

/// The type that a written type means.
pub fn type_of(data_type: &DataType) -> Result<Type> {
    let plain = |scalar| Ok(Type::new(scalar));
    match data_type {
        DataType::Boolean | DataType::Bool => plain(Scalar::Bool),
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
            timed(Scalar::Time, *precision)
        }
        DataType::Timestamp(precision, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => {
            timed(Scalar::Timestamp, *precision)
        }
        DataType::Timestamp(precision, TimezoneInfo::WithTimeZone | TimezoneInfo::Tz) => {
            timed(Scalar::Timestamptz, *precision)
        }
        DataType::Interval { precision, .. } => timed(Scalar::Interval, *precision),
        DataType::Uuid => plain(Scalar::Uuid),
        DataType::Regclass => plain(Scalar::Regclass),
        DataType::JSON => plain(Scalar::Json),
        DataType::JSONB => plain(Scalar::Jsonb),
        DataType::Array(
            ArrayElemTypeDef::SquareBracket(element, _)
            | ArrayElemTypeDef::AngleBracket(element)
            | ArrayElemTypeDef::Parenthesis(element),
        ) => {
            // PostgreSQL ignores the number of dimensions and so do we: int[][] is int[].
            type_of(element).map(|element| Type { array: true, ..element })
        }
        DataType::Custom(name, modifiers) => custom(name, modifiers),
        other => Err(unknown(&other.to_string().to_lowercase())),
    }
}

/// The type of a column, of which there are fewer.
pub fn column_type(data_type: &DataType) -> Result<Type> {
    let custom = custom_name(data_type).unwrap_or_default();
    if matches!(custom.as_str(), "serial" | "bigserial" | "smallserial" | "serial4" | "serial8") {
        return Err(SqlError::unsupported(format!("type {custom} is not supported"))
            .with_hint("Use an integer column and give its values in the INSERT."));
    }
    let ty = type_of(data_type)?;
    if ty.scalar.is_object_name() || ty.scalar == Scalar::Xid {
        let message = format!("columns of type {} are not supported", ty.with_typmod(-1).display());
        return Err(SqlError::unsupported(message));
    }
    Ok(ty)
}

/// `typname` of a written type, also of one that is not known here.
pub fn name_of(data_type: &DataType) -> Option<String> {
    match data_type {
        DataType::Array(
            ArrayElemTypeDef::SquareBracket(element, _)
            | ArrayElemTypeDef::AngleBracket(element)
            | ArrayElemTypeDef::Parenthesis(element),
        ) => name_of(element),
        other => match type_of(other) {
            Ok(ty) => Some(ty.scalar.typname().to_string()),
            Err(_) => custom_name(other),
        },
    }
}

/// The last part of a type name that the parser does not know.
pub fn custom_name(data_type: &DataType) -> Option<String> {
    match data_type {
        DataType::Custom(name, _) => name.0.last().and_then(|part| part.as_ident()).map(fold),
        _ => None,
    }
}

fn custom(name: &ObjectName, modifiers: &[String]) -> Result<Type> {
    let last = name.0.last().and_then(|part| part.as_ident());
    if last.is_some_and(|ident| ident.quote_style.is_some() && ident.value == "char") {
        return Ok(Type::new(Scalar::Char));
    }
    let last = last.map(fold).unwrap_or_default();
    if let Some(element) = last.strip_prefix('_').and_then(Scalar::from_typname) {
        return Ok(Type::array(element));
    }
    let number = |i: usize| modifiers.get(i).and_then(|m| m.parse::<u64>().ok());
    let scalar = Scalar::from_name(&last).ok_or_else(|| unknown(&name.to_string()))?;
    match scalar {
        Scalar::Numeric if !modifiers.is_empty() => {
            numeric_type(number(0).unwrap_or(0), number(1).unwrap_or(0) as i64)
        }
        Scalar::Varchar => characters_of(scalar, number(0)),
        // `bpchar` has no length unless one is written.
        Scalar::Bpchar => characters_of(scalar, number(0)),
        Scalar::Time | Scalar::Timestamp | Scalar::Timestamptz | Scalar::Interval => timed(scalar, number(0)),
        _ => Ok(Type::new(scalar)),
    }
}

fn unknown(name: &str) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_OBJECT, format!("type \"{}\" does not exist", name.replace('"', "")))
}

fn float(info: &ExactNumberInfo) -> Result<Type> {
    let invalid = |message: &str| Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    match info {
        ExactNumberInfo::None => Ok(Type::new(Scalar::Float8)),
        ExactNumberInfo::Precision(0) => invalid("precision for type float must be at least 1 bit"),
        ExactNumberInfo::Precision(1..=24) => Ok(Type::new(Scalar::Float4)),
        ExactNumberInfo::Precision(25..=53) => Ok(Type::new(Scalar::Float8)),
        _ => invalid("precision for type float must be less than 54 bits"),
    }
}

fn numeric(info: &ExactNumberInfo) -> Result<Type> {
    match info {
        ExactNumberInfo::None => Ok(Type::new(Scalar::Numeric)),
        ExactNumberInfo::Precision(precision) => numeric_type(*precision, 0),
        ExactNumberInfo::PrecisionAndScale(precision, scale) => numeric_type(*precision, *scale),
    }
}

fn numeric_type(precision: u64, scale: i64) -> Result<Type> {
    let invalid = |message: String| Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    if !(1..=NUMERIC_PRECISION_MAX).contains(&precision) {
        return invalid(format!(
            "NUMERIC precision {precision} must be between 1 and {NUMERIC_PRECISION_MAX}"
        ));
    }
    if !(-1000..=1000).contains(&scale) {
        return invalid(format!("NUMERIC scale {scale} must be between -1000 and 1000"));
    }
    Ok(Type::new(Scalar::Numeric).with_typmod(Type::numeric_typmod(precision as u16, scale as i16)))
}

fn characters(scalar: Scalar, length: &Option<CharacterLength>, default: Option<u64>) -> Result<Type> {
    match length {
        Some(CharacterLength::IntegerLength { length, .. }) => characters_of(scalar, Some(*length)),
        Some(CharacterLength::Max) => Err(SqlError::syntax("syntax error at or near \"max\"")),
        None => characters_of(scalar, default),
    }
}

fn characters_of(scalar: Scalar, length: Option<u64>) -> Result<Type> {
    let name = if scalar == Scalar::Varchar { "varchar" } else { "char" };
    match length {
        None => Ok(Type::new(scalar)),
        Some(0) => Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("length for type {name} must be at least 1"),
        )),
        Some(length) if length > CHARS_MAX => Err(SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            format!("length for type {name} cannot exceed {CHARS_MAX}"),
        )),
        Some(length) => Ok(Type::new(scalar).with_typmod(length as i32 + 4)),
    }
}

/// More than six decimals of a second are six.
fn timed(scalar: Scalar, precision: Option<u64>) -> Result<Type> {
    Ok(Type::new(scalar).with_typmod(precision.map_or(-1, |p| p.min(6) as i32)))
}
