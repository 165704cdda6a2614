//! Columns whose values the server makes of others: they are left out of what is written.

use arrow::array::Array;
use arrow::record_batch::RecordBatch;
use tidemill_sql::{Result, SqlError, SqlState};

use crate::connector::{Insertion, RemoteColumn};

/// The rows without the columns that are generated there; `None`: there are none of them. A value for one is an error.
pub fn left_out(
    into: &Insertion,
    rows: &RecordBatch,
    generated: &[String],
) -> Result<Option<(Insertion, RecordBatch)>> {
    let is_generated = |column: &RemoteColumn| generated.contains(&column.remote);
    if !into.columns.iter().any(is_generated) {
        return Ok(None);
    }
    let (mut columns, mut places) = (Vec::new(), Vec::new());
    for (place, column) in into.columns.iter().enumerate() {
        if !is_generated(column) {
            columns.push(column.clone());
            places.push(place);
        } else if rows.column(place).null_count() < rows.num_rows() {
            let message = format!("cannot insert a non-DEFAULT value into column \"{}\"", column.name);
            return Err(refused(column, message, &into.relation));
        }
    }
    let rows = rows.project(&places).map_err(|error| SqlError::internal(error.to_string()))?;
    Ok(Some((Insertion { columns, ..into.clone() }, rows)))
}

/// The error for a value of such a column.
pub fn refused(column: &RemoteColumn, message: String, relation: &str) -> SqlError {
    let detail = format!("Column \"{}\" of {relation} is a generated column.", column.remote);
    SqlError::new(SqlState::GENERATED_ALWAYS, message).with_detail(detail)
}
