//! The types of PostgreSQL that Tidemill has: their OIDs, names, modifiers and the Arrow type that holds each.

use arrow::datatypes::{DataType, Field, IntervalUnit, TimeUnit};

use crate::error::{Result, SqlError, SqlState};

/// Field metadata under which a column says which of several PostgreSQL types with the same Arrow type it is
/// (`varchar`, `bpchar`, `name`, `jsonb`, ...). Only a hint for display: it may be lost in a plan, and nothing depends on it.
pub const TYPE_KEY: &str = "pg.type";
/// Field metadata for the type modifier (`varchar(10)`, `numeric(10,2)`), as PostgreSQL stores it in `atttypmod`.
pub const TYPMOD_KEY: &str = "pg.typmod";

/// The vectors of PostgreSQL's catalogs: lists here, shown as `1 2 3`. The number of the type by which a column's
/// [`TYPE_KEY`] calls it.
pub fn vector_oid(field: &Field) -> Option<u32> {
    match field.metadata().get(TYPE_KEY)?.as_str() {
        "int2vector" => Some(22),
        "oidvector" => Some(30),
        _ => None,
    }
}

/// The scalar types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scalar {
    Bool,
    Int2,
    Int4,
    Int8,
    Float4,
    Float8,
    Numeric,
    Text,
    Varchar,
    Bpchar,
    Name,
    Bytea,
    Date,
    Time,
    Timestamp,
    Timestamptz,
    Interval,
    Uuid,
    Json,
    Jsonb,
    Oid,
    /// `"char"`: one letter.
    Char,
    Xid,
    Regproc,
    Regprocedure,
    Regclass,
    Regtype,
    Regnamespace,
    Regrole,
}

/// A type with its modifier: a scalar, or an array of one. `typmod` is -1 without a modifier, else as in PostgreSQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Type {
    pub scalar: Scalar,
    pub array: bool,
    pub typmod: i32,
}

struct Entry {
    scalar: Scalar,
    oid: u32,
    array_oid: u32,
    /// `pg_type.typname`.
    typname: &'static str,
    /// As `format_type` shows it.
    display: &'static str,
    /// Bytes, -1 for variable length, as `pg_type.typlen`.
    length: i16,
}

const fn entry(
    scalar: Scalar,
    oid: u32,
    array_oid: u32,
    typname: &'static str,
    display: &'static str,
    length: i16,
) -> Entry {
    Entry { scalar, oid, array_oid, typname, display, length }
}

const TABLE: [Entry; 29] = [
    entry(Scalar::Bool, 16, 1000, "bool", "boolean", 1),
    entry(Scalar::Int2, 21, 1005, "int2", "smallint", 2),
    entry(Scalar::Int4, 23, 1007, "int4", "integer", 4),
    entry(Scalar::Int8, 20, 1016, "int8", "bigint", 8),
    entry(Scalar::Float4, 700, 1021, "float4", "real", 4),
    entry(Scalar::Float8, 701, 1022, "float8", "double precision", 8),
    entry(Scalar::Numeric, 1700, 1231, "numeric", "numeric", -1),
    entry(Scalar::Text, 25, 1009, "text", "text", -1),
    entry(Scalar::Varchar, 1043, 1015, "varchar", "character varying", -1),
    entry(Scalar::Bpchar, 1042, 1014, "bpchar", "character", -1),
    entry(Scalar::Name, 19, 1003, "name", "name", 64),
    entry(Scalar::Bytea, 17, 1001, "bytea", "bytea", -1),
    entry(Scalar::Date, 1082, 1182, "date", "date", 4),
    entry(Scalar::Time, 1083, 1183, "time", "time without time zone", 8),
    entry(Scalar::Timestamp, 1114, 1115, "timestamp", "timestamp without time zone", 8),
    entry(Scalar::Timestamptz, 1184, 1185, "timestamptz", "timestamp with time zone", 8),
    entry(Scalar::Interval, 1186, 1187, "interval", "interval", 16),
    entry(Scalar::Uuid, 2950, 2951, "uuid", "uuid", 16),
    entry(Scalar::Json, 114, 199, "json", "json", -1),
    entry(Scalar::Jsonb, 3802, 3807, "jsonb", "jsonb", -1),
    entry(Scalar::Oid, 26, 1028, "oid", "oid", 4),
    entry(Scalar::Char, 18, 1002, "char", "\"char\"", 1),
    entry(Scalar::Xid, 28, 1011, "xid", "xid", 4),
    entry(Scalar::Regproc, 24, 1008, "regproc", "regproc", 4),
    entry(Scalar::Regprocedure, 2202, 2207, "regprocedure", "regprocedure", 4),
    entry(Scalar::Regclass, 2205, 2210, "regclass", "regclass", 4),
    entry(Scalar::Regtype, 2206, 2211, "regtype", "regtype", 4),
    entry(Scalar::Regnamespace, 4089, 4090, "regnamespace", "regnamespace", 4),
    entry(Scalar::Regrole, 4096, 4097, "regrole", "regrole", 4),
];

impl Scalar {
    pub const ALL: [Scalar; TABLE.len()] = {
        let mut all = [Scalar::Bool; TABLE.len()];
        let mut i = 0;
        while i < TABLE.len() {
            all[i] = TABLE[i].scalar;
            i += 1;
        }
        all
    };

    fn entry(self) -> &'static Entry {
        &TABLE[self as usize]
    }

    pub fn oid(self) -> u32 {
        self.entry().oid
    }

    pub fn array_oid(self) -> u32 {
        self.entry().array_oid
    }

    /// `pg_type.typname`, for example `int4`.
    pub fn typname(self) -> &'static str {
        self.entry().typname
    }

    /// As messages and `format_type` name it, for example `integer`.
    pub fn display(self) -> &'static str {
        self.entry().display
    }

    pub fn length(self) -> i16 {
        self.entry().length
    }

    pub fn arrow(self) -> DataType {
        match self {
            Scalar::Bool => DataType::Boolean,
            Scalar::Int2 => DataType::Int16,
            Scalar::Int4 => DataType::Int32,
            Scalar::Int8 => DataType::Int64,
            Scalar::Float4 => DataType::Float32,
            Scalar::Float8 => DataType::Float64,
            Scalar::Numeric => DataType::LargeBinary,
            Scalar::Text | Scalar::Varchar | Scalar::Bpchar | Scalar::Name | Scalar::Char => DataType::Utf8,
            Scalar::Bytea => DataType::Binary,
            Scalar::Date => DataType::Date32,
            Scalar::Time => DataType::Time64(TimeUnit::Microsecond),
            Scalar::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
            Scalar::Timestamptz => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            Scalar::Interval => DataType::Interval(IntervalUnit::MonthDayNano),
            Scalar::Uuid => DataType::FixedSizeBinary(16),
            Scalar::Json | Scalar::Jsonb => DataType::LargeUtf8,
            Scalar::Oid
            | Scalar::Xid
            | Scalar::Regproc
            | Scalar::Regprocedure
            | Scalar::Regclass
            | Scalar::Regtype
            | Scalar::Regnamespace
            | Scalar::Regrole => DataType::UInt32,
        }
    }

    /// The PostgreSQL type that a column of this Arrow type is shown as.
    pub fn from_arrow(data_type: &DataType) -> Option<Scalar> {
        Some(match data_type {
            DataType::Boolean => Scalar::Bool,
            DataType::Int8 | DataType::UInt8 | DataType::Int16 => Scalar::Int2,
            DataType::UInt16 | DataType::Int32 => Scalar::Int4,
            DataType::UInt32 => Scalar::Oid,
            DataType::Int64 | DataType::UInt64 => Scalar::Int8,
            DataType::Float16 | DataType::Float32 => Scalar::Float4,
            DataType::Float64 => Scalar::Float8,
            DataType::LargeBinary
            | DataType::Decimal32(..)
            | DataType::Decimal64(..)
            | DataType::Decimal128(..)
            | DataType::Decimal256(..) => Scalar::Numeric,
            DataType::Utf8 | DataType::Utf8View | DataType::Null => Scalar::Text,
            DataType::LargeUtf8 => Scalar::Json,
            DataType::Binary | DataType::BinaryView => Scalar::Bytea,
            DataType::Date32 | DataType::Date64 => Scalar::Date,
            DataType::Time32(_) | DataType::Time64(_) => Scalar::Time,
            DataType::Timestamp(_, None) => Scalar::Timestamp,
            DataType::Timestamp(_, Some(_)) => Scalar::Timestamptz,
            DataType::Interval(_) | DataType::Duration(_) => Scalar::Interval,
            DataType::FixedSizeBinary(16) => Scalar::Uuid,
            DataType::Dictionary(_, value) => return Scalar::from_arrow(value),
            _ => return None,
        })
    }

    /// From `pg_type.typname`.
    pub fn from_typname(name: &str) -> Option<Scalar> {
        TABLE.iter().find(|e| e.typname == name).map(|e| e.scalar)
    }

    /// Whether its values are numbers of objects that are shown by their names.
    pub fn is_object_name(self) -> bool {
        use Scalar::*;
        matches!(self, Regproc | Regprocedure | Regclass | Regtype | Regnamespace | Regrole)
    }

    /// From `typname` or one of SQL's spellings, in lower case and without modifiers.
    pub fn from_name(name: &str) -> Option<Scalar> {
        Some(match name {
            "int" | "int4" | "integer" | "serial" => Scalar::Int4,
            "smallint" => Scalar::Int2,
            "bigint" => Scalar::Int8,
            "real" => Scalar::Float4,
            "float" | "double" | "double precision" => Scalar::Float8,
            "decimal" | "dec" => Scalar::Numeric,
            "boolean" => Scalar::Bool,
            "char" | "character" => Scalar::Bpchar,
            "character varying" | "char varying" => Scalar::Varchar,
            "string" => Scalar::Text,
            "time without time zone" => Scalar::Time,
            "timestamp without time zone" => Scalar::Timestamp,
            "timestamp with time zone" => Scalar::Timestamptz,
            _ => return Scalar::from_typname(name),
        })
    }
}

impl Type {
    pub const fn new(scalar: Scalar) -> Type {
        Type { scalar, array: false, typmod: -1 }
    }

    pub const fn array(scalar: Scalar) -> Type {
        Type { scalar, array: true, typmod: -1 }
    }

    pub fn with_typmod(self, typmod: i32) -> Type {
        Type { typmod, ..self }
    }

    pub fn oid(self) -> u32 {
        if self.array { self.scalar.array_oid() } else { self.scalar.oid() }
    }

    pub fn from_oid(oid: u32) -> Option<Type> {
        TABLE.iter().find_map(|e| {
            if e.oid == oid {
                Some(Type::new(e.scalar))
            } else if e.array_oid == oid {
                Some(Type::array(e.scalar))
            } else {
                None
            }
        })
    }

    /// `pg_type.typlen`.
    pub fn length(self) -> i16 {
        if self.array { -1 } else { self.scalar.length() }
    }

    pub fn arrow(self) -> DataType {
        if self.array {
            DataType::List(Field::new_list_field(self.scalar.arrow(), true).into())
        } else {
            self.scalar.arrow()
        }
    }

    pub fn from_arrow(data_type: &DataType) -> Result<Type> {
        let (inner, array) = match data_type {
            DataType::List(f) | DataType::LargeList(f) | DataType::FixedSizeList(f, _) => {
                (f.data_type(), true)
            }
            other => (other, false),
        };
        let scalar = Scalar::from_arrow(inner).ok_or_else(|| {
            SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                format!("a column of type {data_type} has no type in PostgreSQL"),
            )
        })?;
        Ok(Type { scalar, array, typmod: -1 })
    }

    /// The type of a column, with what its metadata tells beyond the Arrow type.
    pub fn of_field(field: &Field) -> Result<Type> {
        let mut ty = Type::from_arrow(field.data_type())?;
        if let Some(hint) = field.metadata().get(TYPE_KEY).and_then(|n| Scalar::from_typname(n))
            && hint.arrow() == ty.scalar.arrow()
        {
            ty.scalar = hint;
        }
        if let Some(typmod) = field.metadata().get(TYPMOD_KEY).and_then(|m| m.parse().ok()) {
            ty.typmod = typmod;
        }
        Ok(ty)
    }

    /// A nullable field of this type that remembers what the Arrow type alone does not say.
    pub fn field(self, name: impl Into<String>) -> Field {
        let mut metadata = std::collections::HashMap::new();
        if Scalar::from_arrow(&self.scalar.arrow()) != Some(self.scalar) {
            metadata.insert(TYPE_KEY.to_string(), self.scalar.typname().to_string());
        }
        if self.typmod >= 0 {
            metadata.insert(TYPMOD_KEY.to_string(), self.typmod.to_string());
        }
        Field::new(name, self.arrow(), true).with_metadata(metadata)
    }

    /// As `field`, for a list that is shown as a vector.
    pub fn vector_field(self, name: impl Into<String>, typname: &str) -> Field {
        Field::new(name, self.arrow(), true)
            .with_metadata([(TYPE_KEY.to_string(), typname.to_string())].into())
    }

    /// Precision and scale of `numeric(p,s)`.
    pub fn numeric_precision_scale(self) -> Option<(u16, i16)> {
        if self.scalar != Scalar::Numeric || self.typmod < 4 {
            return None;
        }
        let packed = self.typmod - 4;
        // As PostgreSQL 15: 16 bits of precision, 11 bits of signed scale.
        let scale = ((packed & 0x7ff) ^ 1024) - 1024;
        Some(((packed >> 16) as u16, scale as i16))
    }

    pub fn numeric_typmod(precision: u16, scale: i16) -> i32 {
        ((i32::from(precision) << 16) | (i32::from(scale) & 0x7ff)) + 4
    }

    /// Length limit of `varchar(n)` and `char(n)`, in characters.
    pub fn max_chars(self) -> Option<usize> {
        match self.scalar {
            Scalar::Varchar | Scalar::Bpchar if self.typmod >= 4 => Some(self.typmod as usize - 4),
            _ => None,
        }
    }

    /// As `format_type(oid, typmod)`: `character varying(10)`, `numeric(10,2)`, `timestamp(3) with time zone`, `integer[]`.
    pub fn display(self) -> String {
        let base = match (self.scalar, self.typmod) {
            (Scalar::Numeric, _) if self.numeric_precision_scale().is_some() => {
                let (p, s) = self.numeric_precision_scale().unwrap_or_default();
                format!("numeric({p},{s})")
            }
            (Scalar::Varchar | Scalar::Bpchar, m) if m >= 4 => {
                format!("{}({})", self.scalar.display(), m - 4)
            }
            (Scalar::Time | Scalar::Timestamp | Scalar::Timestamptz, m) if m >= 0 => {
                let (word, zone) =
                    self.scalar.display().split_once(' ').unwrap_or((self.scalar.display(), ""));
                format!("{word}({m}) {zone}")
            }
            (Scalar::Interval, m) if (0..=6).contains(&m) => format!("interval({m})"),
            _ => self.scalar.display().to_string(),
        };
        if self.array { base + "[]" } else { base }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_in_the_order_of_the_enum() {
        for (i, e) in TABLE.iter().enumerate() {
            assert_eq!(e.scalar as usize, i);
            assert_eq!(Type::from_oid(e.oid), Some(Type::new(e.scalar)));
            assert_eq!(Type::from_oid(e.array_oid), Some(Type::array(e.scalar)));
        }
    }

    #[test]
    fn modifiers_are_shown_as_postgresql_does() {
        let numeric = Type::new(Scalar::Numeric).with_typmod(Type::numeric_typmod(10, -2));
        assert_eq!(numeric.numeric_precision_scale(), Some((10, -2)));
        assert_eq!(
            Type::new(Scalar::Numeric).with_typmod(Type::numeric_typmod(10, 2)).display(),
            "numeric(10,2)"
        );
        assert_eq!(Type::new(Scalar::Varchar).with_typmod(14).display(), "character varying(10)");
        assert_eq!(Type::new(Scalar::Timestamptz).with_typmod(3).display(), "timestamp(3) with time zone");
        assert_eq!(Type::array(Scalar::Int4).display(), "integer[]");
    }

    #[test]
    fn a_field_remembers_its_type() {
        for ty in
            [Type::new(Scalar::Jsonb), Type::new(Scalar::Varchar).with_typmod(14), Type::array(Scalar::Name)]
        {
            assert_eq!(Type::of_field(&ty.field("a")).unwrap(), ty);
        }
    }
}
