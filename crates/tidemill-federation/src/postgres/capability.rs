//! What is left to PostgreSQL, and to another Tidemill.

use tidemill_sql::aggregate::OF_PAIRS;
use tidemill_sql::types::Scalar;

use super::dialect::{PostgresDialect, TidemillDialect};
use crate::connector::{Aggregate, Capabilities, Function, Logic};
use crate::dialect::{Comparison, Dialect};

/// The types whose comparisons are the same there and here.
const COMPARED: &[Scalar] = &[
    Scalar::Bool,
    Scalar::Int2,
    Scalar::Int4,
    Scalar::Int8,
    Scalar::Float4,
    Scalar::Float8,
    Scalar::Numeric,
    Scalar::Text,
    Scalar::Varchar,
    Scalar::Name,
    Scalar::Bytea,
    Scalar::Date,
    Scalar::Time,
    Scalar::Timestamp,
    Scalar::Timestamptz,
    Scalar::Interval,
    Scalar::Uuid,
    Scalar::Oid,
];
const GROUPED: &[Scalar] = &[
    Scalar::Bool,
    Scalar::Int2,
    Scalar::Int4,
    Scalar::Int8,
    Scalar::Text,
    Scalar::Varchar,
    Scalar::Name,
    Scalar::Bytea,
    Scalar::Date,
    Scalar::Time,
    Scalar::Timestamp,
    Scalar::Timestamptz,
    Scalar::Uuid,
    Scalar::Oid,
];
/// Floats have two zeros, numerics have decimals, and a month is as long as thirty days.
const GROUPED_BY_KEY: &[Scalar] = &[Scalar::Float4, Scalar::Float8, Scalar::Numeric, Scalar::Interval];
/// PostgreSQL has `min` and `max` of these.
const EXTREMES: &[Scalar] = &[
    Scalar::Int2,
    Scalar::Int4,
    Scalar::Int8,
    Scalar::Float4,
    Scalar::Float8,
    Scalar::Numeric,
    Scalar::Text,
    Scalar::Varchar,
    Scalar::Name,
    Scalar::Date,
    Scalar::Time,
    Scalar::Timestamp,
    Scalar::Timestamptz,
    Scalar::Interval,
    Scalar::Oid,
];
const SUMMED: &[Scalar] =
    &[Scalar::Int2, Scalar::Int4, Scalar::Int8, Scalar::Float4, Scalar::Float8, Scalar::Numeric];
const BOOL: &[Scalar] = &[Scalar::Bool];

const AGGREGATES: &[Aggregate] = &[
    Aggregate { names: &["count"], of: &[] },
    Aggregate { names: &["sum", "avg"], of: SUMMED },
    Aggregate { names: &["sum", "avg"], of: &[Scalar::Interval] },
    Aggregate { names: &["min", "max"], of: EXTREMES },
    Aggregate { names: &["stddev", "stddev_samp", "stddev_pop"], of: SUMMED },
    Aggregate { names: &["variance", "var_samp", "var_pop"], of: SUMMED },
    Aggregate { names: &OF_PAIRS, of: SUMMED },
    Aggregate { names: &["bool_and", "bool_or", "every"], of: BOOL },
    Aggregate { names: &["bit_and", "bit_or", "bit_xor"], of: INTEGERS },
];

const INTEGERS: &[Scalar] = &[Scalar::Int2, Scalar::Int4, Scalar::Int8];
const NUMBERS: &[Scalar] = &[Scalar::Int2, Scalar::Int4, Scalar::Int8, Scalar::Float4, Scalar::Float8];
const NUMERIC: &[Scalar] = &[Scalar::Numeric];
const INT4: &[Scalar] = &[Scalar::Int4];
const TEXT: &[Scalar] = &[Scalar::Text, Scalar::Varchar];
const FLOAT8: &[Scalar] = &[Scalar::Float8];
const DATE: &[Scalar] = &[Scalar::Date];
const MOMENTS: &[Scalar] = &[Scalar::Date, Scalar::Timestamp];

/// Not among them: what depends on a collation, or settings.
const FUNCTIONS: &[Function] = &[
    Function::new(&["+", "-", "*", "/"], &[NUMBERS, NUMBERS]),
    Function::new(&["%"], &[INTEGERS, INTEGERS]),
    Function::new(&["-", "abs"], &[NUMBERS]),
    Function::new(&["floor", "ceil", "ceiling"], &[FLOAT8]),
    Function::new(&["+", "-", "*", "/", "%"], &[NUMERIC, NUMERIC]),
    Function::new(&["-", "abs", "floor", "ceil", "ceiling", "round", "trunc"], &[NUMERIC]),
    Function::new(&["round", "trunc"], &[NUMERIC, INT4]),
    Function::new(&["||"], &[TEXT, TEXT]),
    Function::new(&["length", "char_length", "character_length", "reverse"], &[TEXT]),
    Function::new(&["ltrim", "rtrim", "btrim"], &[TEXT]),
    Function::new(&["ltrim", "rtrim", "btrim", "strpos", "starts_with"], &[TEXT, TEXT]),
    Function::new(&["replace"], &[TEXT, TEXT, TEXT]),
    Function::new(&["left", "right", "substr", "substring"], &[TEXT, INT4]),
    Function::new(&["substr", "substring"], &[TEXT, INT4, INT4]),
    Function::new(&["date_trunc"], &[TEXT, &[Scalar::Timestamp]]),
    Function::new(&["date_trunc"], &[TEXT, &[Scalar::Timestamptz], TEXT]),
    Function::new(&["extract", "date_part"], &[TEXT, MOMENTS]),
    Function::new(&["+", "-"], &[DATE, INT4]),
    Function::new(&["-"], &[DATE, DATE]),
    Function::new(&["+", "-"], &[MOMENTS, &[Scalar::Interval]]),
];

/// Connections are in UTC.
const FUNCTIONS_IN_UTC: &[Function] = &[
    Function::new(&["date_trunc", "extract", "date_part"], &[TEXT, &[Scalar::Timestamptz]]),
    Function::new(&["+", "-"], &[&[Scalar::Timestamptz], &[Scalar::Interval]]),
];

const CASTS: &[(Scalar, Scalar)] = &[
    (Scalar::Int2, Scalar::Int4),
    (Scalar::Int2, Scalar::Int8),
    (Scalar::Int4, Scalar::Int8),
    (Scalar::Int4, Scalar::Int2),
    (Scalar::Int8, Scalar::Int4),
    (Scalar::Int8, Scalar::Int2),
    (Scalar::Int2, Scalar::Float8),
    (Scalar::Int4, Scalar::Float8),
    (Scalar::Int8, Scalar::Float8),
    (Scalar::Float4, Scalar::Float8),
    (Scalar::Int2, Scalar::Text),
    (Scalar::Int4, Scalar::Text),
    (Scalar::Int8, Scalar::Text),
    (Scalar::Int2, Scalar::Numeric),
    (Scalar::Int4, Scalar::Numeric),
    (Scalar::Int8, Scalar::Numeric),
    (Scalar::Numeric, Scalar::Int4),
    (Scalar::Numeric, Scalar::Int8),
    (Scalar::Date, Scalar::Timestamp),
    (Scalar::Timestamp, Scalar::Date),
];

const CASTS_IN_UTC: &[(Scalar, Scalar)] = &[
    (Scalar::Timestamptz, Scalar::Date),
    (Scalar::Timestamptz, Scalar::Timestamp),
    (Scalar::Date, Scalar::Timestamptz),
    (Scalar::Timestamp, Scalar::Timestamptz),
];

/// An index on the one serves for values of the other.
const MIXED: &[(Scalar, Scalar)] = &[
    (Scalar::Int2, Scalar::Int4),
    (Scalar::Int2, Scalar::Int8),
    (Scalar::Int4, Scalar::Int8),
    (Scalar::Date, Scalar::Timestamp),
];

pub(crate) static CAPABILITIES: Capabilities = capabilities(&PostgresDialect);
/// Of another Tidemill.
pub(crate) static OF_TIDEMILL: Capabilities = capabilities(&TidemillDialect);

const fn capabilities(dialect: &'static dyn Dialect) -> Capabilities {
    Capabilities {
        dialect,
        label: "Remote SQL",
        comparisons: &Comparison::ALL,
        lists: true,
        logic: &[Logic::And, Logic::Or, Logic::Not, Logic::IsNull, Logic::Truth, Logic::Like],
        equal: COMPARED,
        ordered: COMPARED,
        grouped: GROUPED,
        grouped_by_key: GROUPED_BY_KEY,
        aggregates: AGGREGATES,
        joins: true,
        limit: true,
        sort: true,
        functions: FUNCTIONS,
        functions_in_utc: FUNCTIONS_IN_UTC,
        casts: CASTS,
        casts_in_utc: CASTS_IN_UTC,
        mixed: MIXED,
        cases: true,
        modifiers: true,
        prunes: false,
    }
}
