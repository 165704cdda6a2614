//! Measurements with their tags and fields, for IMPORT FOREIGN SCHEMA and for the check of a table.

use tidemill_sql::statement::ImportSelection;
use tidemill_sql::types::{Scalar, Type};
use tidemill_sql::{Result, SqlError, SqlState};

use super::answer;
use super::dialect::{TIME, TIME_TEXT};
use super::http::Address;
use crate::connector::{ImportedColumn, ImportedTable, RemoteQuery};
use crate::option::Options;

/// What a measurement has besides its time.
#[derive(Debug)]
pub struct Measurement {
    pub name: String,
    pub tags: Vec<String>,
    /// With their types: float, integer, string, boolean.
    pub fields: Vec<(String, String)>,
}

impl Measurement {
    /// What a column is: `time`, `tag`, or the type of a field.
    pub fn kind(&self, name: &str) -> Option<&str> {
        match name {
            TIME => Some("time"),
            TIME_TEXT => Some("tag"),
            _ if self.tags.iter().any(|tag| tag == name) => Some("tag"),
            _ => self.fields.iter().find(|(field, _)| field == name).map(|(_, kind)| kind.as_str()),
        }
    }
}

/// Those that there are, or that of ` FROM "measurement"`.
pub async fn measurements(address: &Address, from: &str) -> Result<Vec<Measurement>> {
    let mut found: Vec<Measurement> = Vec::new();
    for (name, rows) in show(address, &format!("SHOW FIELD KEYS{from}")).await? {
        let fields = rows.into_iter().map(|row| match <[String; 2]>::try_from(row) {
            Ok([field, kind]) => Ok((field, kind)),
            Err(_) => Err(SqlError::new(SqlState::FDW_ERROR, "a field without a type")),
        });
        found.push(Measurement { name, tags: vec![], fields: fields.collect::<Result<_>>()? });
    }
    for (name, rows) in show(address, &format!("SHOW TAG KEYS{from}")).await? {
        if let Some(measurement) = found.iter_mut().find(|known| known.name == name) {
            measurement.tags.extend(rows.into_iter().flatten());
        }
    }
    Ok(found)
}

async fn show(address: &Address, sql: &str) -> Result<Vec<(String, Vec<Vec<String>>)>> {
    let query = RemoteQuery { sql: sql.to_string(), ..RemoteQuery::default() };
    let (mut answer, mut found) = (address.ask(sql).await?, Vec::<(String, Vec<Vec<String>>)>::new());
    while let Some(line) = answer.line().await.map_err(|error| address.lost(&error))? {
        let parsed = answer::series(&line).map_err(|error| address.failed(&query, &error.message))?;
        for series in parsed.map_err(|said| address.failed(&query, &said))? {
            let rows = answer::texts(&series)?;
            // What is long comes in parts.
            match found.iter_mut().find(|(name, _)| *name == series.name) {
                Some((_, known)) => known.extend(rows),
                None => found.push((series.name, rows)),
            }
        }
    }
    Ok(found)
}

pub async fn tables(address: &Address, selection: &ImportSelection) -> Result<Vec<ImportedTable>> {
    let found = measurements(address, "").await?;
    let mut tables: Vec<_> =
        found.into_iter().filter(|found| selection.has(&found.name)).map(imported).collect();
    tables.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(tables)
}

fn imported(found: Measurement) -> ImportedTable {
    let column = |name: &str, scalar, not_null| ImportedColumn {
        name: name.to_string(),
        ty: Type::new(scalar),
        not_null,
        options: Options::of([("column_name", name)]),
    };
    let mut columns = vec![column(TIME, Scalar::Timestamptz, true)];
    columns.extend(found.tags.iter().map(|tag| column(tag, Scalar::Text, false)));
    columns.extend(found.fields.iter().map(|(field, kind)| {
        let scalar = match kind.as_str() {
            "float" => Scalar::Float8,
            "integer" => Scalar::Int8,
            "boolean" => Scalar::Bool,
            _ => Scalar::Text,
        };
        column(field, scalar, false)
    }));
    let tags = found.tags.join(", ");
    let options = match found.tags.is_empty() {
        true => Options::of([("table", found.name.as_str())]),
        false => Options::of([("table", found.name.as_str()), ("tags", &tags)]),
    };
    ImportedTable { name: found.name, columns, options }
}
