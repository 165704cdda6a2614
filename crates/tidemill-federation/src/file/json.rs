//! JSON lines: an object a line, whose members are columns.

use std::io::{BufRead, BufReader, Read};
use std::sync::Arc;

use tidemill_sql::copy::ROW_BYTES_MAX;
use tidemill_sql::text::{JsonValue, json_members, json_string};
use tidemill_sql::types::Scalar;
use tidemill_sql::value::check_utf8;
use tidemill_sql::{Result, SqlError, SqlState};

use super::Scan;
use super::input::{Input, read_error};
use super::place::Place;
use crate::cell::{Cell, Rows};
use crate::option::Options;

/// Options are the name and the format.
pub fn check(options: &Options) -> Result<()> {
    let other = options.iter().map(|(name, _)| name).find(|name| !["filename", "format"].contains(name));
    other.map_or(Ok(()), |name| {
        let format = options.get("format").unwrap_or_default();
        let message = format!("cannot specify {} in format \"{format}\"", name.to_uppercase());
        Err(SqlError::new(SqlState::FDW_INVALID_OPTION_NAME, message)
            .with_hint("Valid options in this context are: filename, format"))
    })
}

/// False: nobody wants more.
pub fn read(scan: &Scan<'_>, place: &Place) -> Result<bool> {
    let mut file = BufReader::new(Input::open(place, &scan.access)?);
    let mut rows = Rows::new(scan.server, scan.query, Arc::clone(&scan.schema), scan.batch_rows);
    let (mut line, mut number) = (Vec::new(), 0_u64);
    loop {
        line.clear();
        let taken = (&mut file).take(ROW_BYTES_MAX as u64).read_until(b'\n', &mut line);
        let count = taken.map_err(|error| read_error(place, &error))?;
        if count == 0 {
            break;
        }
        number += 1;
        (scan.access.counted)(count);
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let told = |mut error: SqlError| {
            let line = format!("line {number}");
            error.context = Some(match error.context.take() {
                Some(inner) => format!("{inner}\n{line}"),
                None => line,
            });
            error
        };
        row(scan, &line, &mut rows).map_err(told)?;
        if let Some(batch) = rows.end_row()?
            && !scan.pass_on(batch)
        {
            return Ok(false);
        }
    }
    match rows.finish()? {
        Some(batch) => Ok(scan.pass_on(batch)),
        None => Ok(true),
    }
}

/// A member that is not there is null; of several of one name the last counts.
fn row(scan: &Scan<'_>, line: &[u8], rows: &mut Rows<'_>) -> Result<()> {
    let Some(members) = json_members(check_utf8(line)?)? else {
        return Err(SqlError::new(SqlState::BAD_COPY_FILE_FORMAT, "a line is no JSON object"));
    };
    for (place, column) in scan.query.columns.iter().enumerate() {
        let found = members.iter().rev().find(|(key, _)| *key == column.remote).map(|(_, value)| value);
        let is_json = matches!(column.ty.scalar, Scalar::Json | Scalar::Jsonb) && !column.ty.array;
        match found {
            None | Some(JsonValue::Null) => rows.put(place, Cell::Null)?,
            Some(JsonValue::Bool(value)) => rows.put(place, Cell::Bool(*value))?,
            Some(JsonValue::Number(written)) => rows.put(place, Cell::Number(written))?,
            Some(JsonValue::String(written)) if is_json => rows.put(place, Cell::Json(written))?,
            Some(JsonValue::String(written)) => {
                rows.put(place, Cell::Text(json_string(written)?.as_bytes()))?;
            }
            Some(JsonValue::Composite(written)) => rows.put(place, Cell::Json(written))?,
        }
    }
    Ok(())
}
