//! What InfluxDB answers: a document a line, with results, which have series, which have columns and values.

use tidemill_sql::text::{JsonValue, json_elements, json_members, json_string};
use tidemill_sql::{Result, SqlError, SqlState};

/// A part of the rows of one measurement.
#[derive(Debug, Default)]
pub struct Series {
    pub name: String,
    pub columns: Vec<String>,
    /// Arrays, as written.
    pub rows: Vec<String>,
}

/// The series of one line, or what is wrong.
pub fn series(line: &str) -> Result<std::result::Result<Vec<Series>, String>> {
    if let Some(said) = error_of(line) {
        return Ok(Err(said));
    }
    let mut found = Vec::new();
    for result in elements(member(line, "results")?.as_ref())? {
        let JsonValue::Composite(result) = result else { return Err(garbled()) };
        if let Some(said) = error_of(result) {
            return Ok(Err(said));
        }
        for series in elements(member(result, "series")?.as_ref())? {
            let JsonValue::Composite(series) = series else { return Err(garbled()) };
            found.push(one(series)?);
        }
    }
    Ok(Ok(found))
}

fn one(text: &str) -> Result<Series> {
    let mut series = Series::default();
    for (key, value) in json_members(text)?.ok_or_else(garbled)? {
        match (key.as_str(), value) {
            ("name", JsonValue::String(name)) => series.name = json_string(name)?,
            ("columns", columns) => {
                for column in elements(Some(&columns))? {
                    let JsonValue::String(column) = column else { return Err(garbled()) };
                    series.columns.push(json_string(column)?);
                }
            }
            ("values", rows) => {
                for row in elements(Some(&rows))? {
                    let JsonValue::Composite(row) = row else { return Err(garbled()) };
                    series.rows.push(row.to_string());
                }
            }
            _ => {}
        }
    }
    Ok(series)
}

/// The values of a row.
pub fn values(row: &str) -> Result<Vec<JsonValue<'_>>> {
    json_elements(row)?.ok_or_else(garbled)
}

/// The rows of answers whose values are texts: what SHOW says.
pub fn texts(series: &Series) -> Result<Vec<Vec<String>>> {
    let text = |value: JsonValue<'_>| match value {
        JsonValue::String(written) => json_string(written),
        _ => Err(garbled()),
    };
    let row = |row: &String| values(row)?.into_iter().map(text).collect();
    series.rows.iter().map(row).collect()
}

/// What an answer says is wrong.
pub fn error_of(text: &str) -> Option<String> {
    match member(text, "error").ok()?? {
        JsonValue::String(said) => json_string(said).ok(),
        _ => None,
    }
}

fn member<'t>(text: &'t str, name: &str) -> Result<Option<JsonValue<'t>>> {
    let members = json_members(text)?.ok_or_else(garbled)?;
    Ok(members.into_iter().find(|(key, _)| key == name).map(|(_, value)| value))
}

fn elements<'t>(array: Option<&JsonValue<'t>>) -> Result<Vec<JsonValue<'t>>> {
    match array {
        None => Ok(vec![]),
        Some(JsonValue::Composite(array)) => json_elements(array)?.ok_or_else(garbled),
        Some(_) => Err(garbled()),
    }
}

fn garbled() -> SqlError {
    SqlError::new(SqlState::FDW_ERROR, "an answer that is none of InfluxDB's")
}
