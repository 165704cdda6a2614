//! `UPDATE … FROM` and `DELETE … USING`: which rows of a table are meant is found by a join.
//!
//! ```text
//! UPDATE t AS a SET x = e FROM f WHERE c
//!   => SELECT a.*, TRUE AS hit, e FROM t AS a, f WHERE c
//! ```
//!
//! The rows of the table have no number, so what was found of one is kept by its values: rows that are equal join the same. Of several
//! rows that one joins the first that comes counts, as in PostgreSQL.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, new_null_array};
use arrow::compute::{filter_record_batch, interleave};
use arrow::row::{RowConverter, Rows, SortField};
use datafusion::execution::SendableRecordBatchStream;
use futures::StreamExt;
use sqlparser::ast::{self, SelectItem, TableWithJoins};
use tidemill_sql::planner::plan_error;
use tidemill_sql::{Result, SqlError, parse};

use super::modify::{Change, arrow_error, new_item, new_value};
use super::write::check_memory;
use crate::catalog::Table;
use crate::insert::Place;

/// Of an entry beside the bytes of its key, at least.
const ENTRY_BYTES: usize = 64;

/// What a join has found, by the values of the table's row.
pub(super) struct Matched {
    converter: RowConverter,
    /// Columns of the table.
    width: usize,
    /// Where the new values of a row are: a batch, from 1, and a row of it.
    places: HashMap<Box<[u8]>, (usize, usize)>,
    /// The new values, by columns. The first part of each is a null.
    values: Vec<Vec<ArrayRef>>,
}

impl Matched {
    /// `found` has the columns of the table, `hit` and the new values.
    pub(super) async fn of(
        mut found: SendableRecordBatchStream,
        width: usize,
        limit_bytes: usize,
    ) -> Result<Self> {
        let schema = found.schema();
        let keys = schema.fields().iter().take(width).map(|f| SortField::new(f.data_type().clone()));
        let converter = RowConverter::new(keys.collect()).map_err(arrow_error)?;
        let values = schema.fields().iter().skip(width + 1);
        let values = values.map(|field| vec![new_null_array(field.data_type(), 1)]).collect();
        let mut matched = Self { converter, width, places: HashMap::new(), values };
        let (mut batches, mut bytes) = (0, 0);
        while let Some(batch) = found.next().await {
            let batch = batch.map_err(plan_error)?;
            let keys = matched.keys(&batch)?;
            batches += 1;
            let mut kept = 0;
            let is_first = keys.iter().map(|key| {
                let is_first = !matched.places.contains_key(key.as_ref());
                if is_first {
                    bytes += key.as_ref().len() + ENTRY_BYTES;
                    matched.places.insert(key.as_ref().into(), (batches, kept));
                    kept += 1;
                }
                is_first
            });
            let is_first = is_first.collect::<BooleanArray>();
            let new: Vec<_> = (width + 1..batch.num_columns()).collect();
            let new = batch.project(&new).map_err(arrow_error)?;
            // It is a copy, or else one row would keep all of a batch.
            let new = filter_record_batch(&new, &is_first).map_err(arrow_error)?;
            for (parts, column) in matched.values.iter_mut().zip(new.columns()) {
                bytes += column.get_array_memory_size();
                parts.push(Arc::clone(column));
            }
            check_memory(bytes, limit_bytes)?;
        }
        Ok(matched)
    }

    fn keys(&self, batch: &RecordBatch) -> Result<Rows> {
        self.converter.convert_columns(&batch.columns()[..self.width]).map_err(arrow_error)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Rows of the table with whether they are meant and the new values.
    pub(super) fn marked(&self, rows: &RecordBatch) -> Result<Vec<ArrayRef>> {
        let keys = self.keys(rows)?;
        let places: Vec<_> = keys.iter().map(|key| self.places.get(key.as_ref()).copied()).collect();
        let hit = places.iter().map(|place| Some(place.is_some())).collect::<BooleanArray>();
        let places: Vec<_> = places.into_iter().map(Option::unwrap_or_default).collect();
        let new = self.values.iter().map(|parts| {
            let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
            interleave(&parts, &places).map_err(arrow_error)
        });
        let mut columns = rows.columns()[..self.width].to_vec();
        columns.push(Arc::new(hit));
        for column in new {
            columns.push(column?);
        }
        Ok(columns)
    }
}

impl Change<'_> {
    /// The query that gives the table's columns and the new values of the rows that are meant.
    pub(super) fn joining_query(
        &self,
        table: &Table,
        places: &[Place],
        others: &[TableWithJoins],
    ) -> Result<Box<ast::Query>> {
        let mut query = parse::parse_query("SELECT t.*, TRUE FROM t")?;
        let (ast::SetExpr::Select(select), Some(name)) = (query.body.as_mut(), self.name()) else {
            return Err(SqlError::internal("a query without a SELECT"));
        };
        if let Some(SelectItem::QualifiedWildcard(kind, _)) = select.projection.first_mut() {
            *kind = ast::SelectItemQualifiedWildcardKind::ObjectName(name.into());
        }
        for (i, (assignment, place)) in self.assignments.unwrap_or_default().iter().zip(places).enumerate() {
            select.projection.push(new_item(i, new_value(assignment, table, place.0)?));
        }
        select.from = std::iter::once(self.relation).chain(others).cloned().collect();
        select.selection = self.selection.cloned();
        Ok(query)
    }
}
