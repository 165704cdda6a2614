//! Which of MySQL's types hold values of which of PostgreSQL's.

use mysql_async::Column;
use mysql_async::consts::{ColumnFlags, ColumnType};
use tidemill_sql::types::{Scalar, Type};

/// The character set of what is no text.
pub const BINARY: u16 = 63;

/// Whether values of a column there are values of a type here.
pub fn fits(found: &Column, wanted: Type) -> bool {
    use ColumnType::*;
    use Scalar::*;
    if wanted.array {
        return false;
    }
    let ty = found.column_type();
    let is_integer = matches!(
        ty,
        MYSQL_TYPE_TINY
            | MYSQL_TYPE_SHORT
            | MYSQL_TYPE_INT24
            | MYSQL_TYPE_LONG
            | MYSQL_TYPE_LONGLONG
            | MYSQL_TYPE_YEAR
    );
    let is_decimal = matches!(ty, MYSQL_TYPE_DECIMAL | MYSQL_TYPE_NEWDECIMAL);
    match wanted.scalar {
        Bool => ty == MYSQL_TYPE_TINY,
        Int2 | Int4 | Int8 | Oid => is_integer,
        Float4 => ty == MYSQL_TYPE_FLOAT,
        Float8 => matches!(ty, MYSQL_TYPE_FLOAT | MYSQL_TYPE_DOUBLE),
        Numeric => is_integer || is_decimal,
        Bytea => is_string(ty) && found.character_set() == BINARY,
        Uuid => is_string(ty),
        Date => matches!(ty, MYSQL_TYPE_DATE | MYSQL_TYPE_NEWDATE),
        Time => matches!(ty, MYSQL_TYPE_TIME | MYSQL_TYPE_TIME2),
        // What is an instant there is shown in UTC.
        Timestamp => is_datetime(ty) || is_instant(ty),
        Timestamptz => is_instant(ty),
        Json | Jsonb => ty == MYSQL_TYPE_JSON || (is_string(ty) && found.character_set() != BINARY),
        _ => (is_string(ty) && found.character_set() != BINARY) || ty == MYSQL_TYPE_JSON,
    }
}

fn is_string(ty: ColumnType) -> bool {
    use ColumnType::*;
    matches!(
        ty,
        MYSQL_TYPE_VARCHAR
            | MYSQL_TYPE_VAR_STRING
            | MYSQL_TYPE_STRING
            | MYSQL_TYPE_TINY_BLOB
            | MYSQL_TYPE_MEDIUM_BLOB
            | MYSQL_TYPE_LONG_BLOB
            | MYSQL_TYPE_BLOB
            | MYSQL_TYPE_ENUM
            | MYSQL_TYPE_SET
    )
}

fn is_datetime(ty: ColumnType) -> bool {
    matches!(ty, ColumnType::MYSQL_TYPE_DATETIME | ColumnType::MYSQL_TYPE_DATETIME2)
}

fn is_instant(ty: ColumnType) -> bool {
    matches!(ty, ColumnType::MYSQL_TYPE_TIMESTAMP | ColumnType::MYSQL_TYPE_TIMESTAMP2)
}

/// As messages name the type of a column there.
pub fn shown(found: &Column) -> String {
    let name = format!("{:?}", found.column_type()).replace("MYSQL_TYPE_", "").to_lowercase();
    let unsigned = found.flags().contains(ColumnFlags::UNSIGNED_FLAG);
    match (name.as_str(), unsigned) {
        ("var_string" | "string", _) if found.character_set() == BINARY => "binary".to_string(),
        ("blob", _) if found.character_set() != BINARY => "text".to_string(),
        ("var_string", _) => "varchar".to_string(),
        ("string", _) => "char".to_string(),
        (name, true) => format!("{name} unsigned"),
        (name, false) => name.to_string(),
    }
}

/// The type here of a column there, by `information_schema.columns`: the types of `mysql_fdw`, with instants as instants.
pub fn imported(
    data_type: &str,
    column_type: &str,
    precision: Option<u64>,
    scale: Option<u64>,
) -> Option<Type> {
    let unsigned = column_type.contains("unsigned");
    let scalar = match data_type {
        "tinyint" | "year" => Scalar::Int2,
        "smallint" if unsigned => Scalar::Int4,
        "smallint" => Scalar::Int2,
        "mediumint" => Scalar::Int4,
        "int" if unsigned => Scalar::Int8,
        "int" => Scalar::Int4,
        "bigint" if unsigned => return Some(decimal(20, 0)),
        "bigint" => Scalar::Int8,
        "float" => Scalar::Float4,
        "double" => Scalar::Float8,
        "decimal" => return Some(decimal(precision?, scale.unwrap_or(0))),
        "char" | "varchar" | "tinytext" | "text" | "mediumtext" | "longtext" | "enum" | "set" => Scalar::Text,
        "binary" | "varbinary" | "tinyblob" | "blob" | "mediumblob" | "longblob" => Scalar::Bytea,
        "date" => Scalar::Date,
        "time" => Scalar::Time,
        "datetime" => Scalar::Timestamp,
        "timestamp" => Scalar::Timestamptz,
        "json" => Scalar::Json,
        "uuid" => Scalar::Uuid,
        _ => return None,
    };
    Some(Type::new(scalar))
}

/// `numeric(p, s)`; PostgreSQL's typmod.
fn decimal(precision: u64, scale: u64) -> Type {
    let typmod = i32::try_from((precision << 16) | scale).map_or(-1, |modifier| modifier + 4);
    Type::new(Scalar::Numeric).with_typmod(typmod)
}
