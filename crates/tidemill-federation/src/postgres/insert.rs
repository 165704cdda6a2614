//! Statements that add rows, and their parameters.

use arrow::record_batch::RecordBatch;
use tidemill_sql::Result;
use tidemill_sql::text::{Context, TimeZone};
use tidemill_sql::value::ValueEncoder;

use super::dialect::PostgresDialect;
use super::value::Encoded;
use crate::connector::{Insertion, RemoteColumn, RemoteQuery};
use crate::dialect::{Dialect, quote_always};

/// As a cast names it.
const INET: &str = r#""pg_catalog"."inet""#;

pub(super) fn names(columns: &[RemoteColumn]) -> String {
    let names: Vec<_> = columns.iter().map(|column| quote_always(&column.remote)).collect();
    names.join(", ")
}

/// A statement that adds rows, as errors tell it.
pub(super) fn inserting(into: &Insertion, sql: String) -> RemoteQuery {
    RemoteQuery {
        sql,
        columns: into.columns.clone(),
        table: into.definition.name.clone(),
        relation: into.relation.clone(),
        cascade: into.cascade.clone(),
        ..RemoteQuery::default()
    }
}

/// `casts` are those of the columns, then those of what is returned.
pub(super) fn insert_sql(into: &Insertion, rows: usize, casts: &[Option<String>]) -> String {
    let width = into.columns.len();
    let (casts, returned) = casts.split_at(width);
    let value = |(place, cast): (usize, &Option<String>)| match cast {
        Some(ty) => format!("${place}::text::{ty}"),
        None => format!("${place}"),
    };
    let row = |row: usize| {
        let row: Vec<_> = (row * width + 1..).zip(casts).map(value).collect();
        format!("({})", row.join(", "))
    };
    let values: Vec<_> = (0..rows).map(row).collect();
    let columns = names(&into.columns);
    let mut sql = format!("INSERT INTO {} ({columns}) VALUES {}", into.relation, values.join(", "));
    if into.skips_conflicts {
        sql += " ON CONFLICT DO NOTHING";
    }
    sql + &returning(&into.returned, returned)
}

/// The end of a statement; those columns that have a cast are told as texts.
pub(super) fn returning(columns: &[RemoteColumn], casts: &[Option<String>]) -> String {
    let casts = casts.iter().map(Option::as_deref).chain(std::iter::repeat(None));
    let column = |(column, cast): (&RemoteColumn, Option<&str>)| {
        let name = quote_always(&column.remote);
        match cast {
            Some(INET) => PostgresDialect.address(&name),
            Some(_) => PostgresDialect.as_text(&name),
            None => name,
        }
    };
    let columns: Vec<_> = columns.iter().zip(casts).map(column).collect();
    if columns.is_empty() { String::new() } else { format!(" RETURNING {}", columns.join(", ")) }
}

/// The values, row by row.
pub(super) fn parameters(into: &Insertion, rows: &RecordBatch) -> Result<Vec<Encoded>> {
    let context = context();
    let encoders = into.columns.iter().zip(rows.columns());
    let encoders = encoders.map(|(column, array)| ValueEncoder::new(array, column.ty, &context));
    let encoders = encoders.collect::<Result<Vec<_>>>()?;
    let mut values = Vec::with_capacity(rows.num_rows() * encoders.len());
    for row in 0..rows.num_rows() {
        for encoder in &encoders {
            values.push(Encoded(match encoder.is_null(row) {
                true => None,
                false => {
                    let mut bytes = Vec::new();
                    encoder.write_binary(row, &mut bytes)?;
                    Some(bytes)
                }
            }));
        }
    }
    Ok(values)
}

pub(super) fn context() -> Context {
    Context { now: 0.into(), zone: TimeZone::UTC }
}
