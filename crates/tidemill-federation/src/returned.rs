//! RETURNING: the rows that a server has written, as rows of the table that the statement names.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringArray};
use arrow::datatypes::SchemaRef;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use tidemill_sql::{Result, SqlError};

use crate::connector::RemoteColumn;
use crate::multi_tenant::URL;
use crate::table::{ForeignColumn, TableDefinition};

/// What a server is asked for of the rows that it writes; nothing if they are not wanted.
pub fn columns_of(table: &TableDefinition, returned: Option<&SchemaRef>) -> Vec<RemoteColumn> {
    let Some(schema) = returned else { return vec![] };
    let own = table.columns.iter().filter(|column| schema.index_of(&column.name).is_ok());
    own.map(ForeignColumn::remote_column).collect()
}

/// The same rows with the columns of the table, of which one tells the node if the table has several.
pub fn of_table(rows: &RecordBatch, schema: &SchemaRef, node: Option<&str>) -> Result<RecordBatch> {
    let column = |name: &str| match (rows.column_by_name(name), node.filter(|_| name == URL)) {
        (Some(below), Some(node)) => Ok(below_node(below, node)),
        (Some(column), None) => Ok(Arc::clone(column)),
        (None, Some(node)) => Ok(Arc::new(StringArray::from(vec![node; rows.num_rows()])) as ArrayRef),
        (None, None) => Err(SqlError::internal(format!("column \"{name}\" did not come back"))),
    };
    let columns = schema.fields().iter().map(|field| column(field.name())).collect::<Result<_>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
        .map_err(|error| SqlError::internal(error.to_string()))
}

/// `/north/` of the server `/west/` is `/west/north/`.
fn below_node(below: &ArrayRef, node: &str) -> ArrayRef {
    let Some(below) = below.as_string_opt::<i32>() else {
        return Arc::new(StringArray::from(vec![node; below.len()]));
    };
    let full = |below: Option<&str>| below.map(|below| format!("{}{below}", node.trim_end_matches('/')));
    Arc::new(below.iter().map(full).collect::<StringArray>())
}
