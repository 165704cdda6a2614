//! Parquet files: wanted columns only, and no groups of rows in which a condition cannot hold.

use std::iter::Peekable;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, UInt64Array};
use arrow::datatypes::SchemaRef;
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::{Column, ScalarValue, ToDFSchema};
use datafusion::execution::context::ExecutionProps;
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::physical_expr::create_physical_expr;
use datafusion::physical_optimizer::pruning::PruningPredicateBuilder;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};
use parquet::file::metadata::RowGroupMetaData;
use parquet::file::reader::Length;
use tidemill_sql::copy::BATCH_BYTES_MAX;
use tidemill_sql::{Result, SqlError, SqlState};

use super::access::Access;
use super::place::Place;
use super::ranged::Ranged;
use super::{Scan, conversion};
use crate::table::{ForeignColumn, TableDefinition};

/// Groups of rows come together up to so many bytes of columns.
const ROUND_BYTES: usize = 16 << 20;

type Builder = ParquetRecordBatchReaderBuilder<Ranged>;

/// The columns of a file.
pub fn schema(place: &Place, access: &Access) -> Result<SchemaRef> {
    open(place, access).map(|(_, builder)| Arc::clone(builder.schema()))
}

fn open(place: &Place, access: &Access) -> Result<(Ranged, Builder)> {
    let file = Ranged::open(place, access)?;
    let builder = Builder::try_new(file.clone()).map_err(|error| wrong(place, &file, &error))?;
    Ok((file, builder))
}

/// It did not come, or it is broken.
fn wrong(place: &Place, file: &Ranged, error: &dyn std::error::Error) -> SqlError {
    file.failure().unwrap_or_else(|| broken(place, error.to_string()))
}

fn broken(place: &Place, detail: String) -> SqlError {
    SqlError::new(SqlState::FDW_ERROR, format!("could not read file \"{place}\"")).with_detail(detail)
}

/// False: nobody wants more.
pub fn read(scan: &Scan<'_>, place: &Place) -> Result<bool> {
    let (file, builder) = open(place, &scan.access)?;
    let found = Arc::clone(builder.schema());
    for column in &scan.definition().columns {
        check(scan, place, &found, column)?;
    }
    let wanted = scan.wanted()?.into_iter().map(|place| &scan.definition().columns[place]);
    let roots = wanted.clone().map(|column| found.index_of(&column.remote));
    let roots = roots.collect::<std::result::Result<Vec<_>, _>>();
    let mask =
        ProjectionMask::roots(builder.parquet_schema(), roots.map_err(|e| broken(place, e.to_string()))?);
    let groups = groups(&builder, scan.definition(), &scan.query.pruning);
    let metadata =
        ArrowReaderMetadata::try_new(Arc::clone(builder.metadata()), ArrowReaderOptions::default())
            .map_err(|error| wrong(place, &file, &error))?;
    let mut groups = groups.into_iter().peekable();
    while groups.peek().is_some() {
        let (round, columns) = round(&builder, &file, &mut groups, &mask)
            .ok_or_else(|| broken(place, "It has columns outside of the file.".to_string()))?;
        if !file.is_remote() {
            (scan.access.counted)(bytes(&columns));
        }
        file.prepare(&columns)?;
        let reader = Builder::new_with_metadata(file.clone(), metadata.clone())
            .with_projection(mask.clone())
            .with_batch_size(batch_rows(&builder, &round, &mask).min(scan.batch_rows))
            .with_row_groups(round);
        for batch in reader.build().map_err(|error| wrong(place, &file, &error))? {
            let batch = batch.map_err(|error| wrong(place, &file, &error))?;
            if !scan.pass_on(converted(scan, &batch, wanted.clone())?) {
                return Ok(false);
            }
        }
    }
    Ok(true)
}

/// As the table has its columns.
fn converted<'c>(
    scan: &Scan<'_>,
    batch: &RecordBatch,
    wanted: impl Iterator<Item = &'c ForeignColumn>,
) -> Result<RecordBatch> {
    let columns = wanted.map(|column| {
        let values = batch.column_by_name(&column.remote);
        let values = values.ok_or_else(|| SqlError::internal("a file has lost a column"))?;
        conversion::converted(values, column.ty).map_err(|error| bad_value(column, error))
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(&scan.schema), columns, &options)
        .map_err(|error| SqlError::internal(error.to_string()))
}

/// The groups that are read next, and where their wanted columns are; `None` if those are not in the file. Of what is
/// elsewhere these come before they are read, so that groups of few bytes come together.
fn round(
    builder: &Builder,
    file: &Ranged,
    groups: &mut Peekable<impl Iterator<Item = usize>>,
    mask: &ProjectionMask,
) -> Option<(Vec<usize>, Vec<Range<u64>>)> {
    let (mut round, mut ranges) = (Vec::new(), Vec::new());
    while let Some(group) = groups.peek() {
        let columns = columns(builder, file.len(), *group, mask)?;
        if file.is_remote() && !round.is_empty() && bytes(&ranges) + bytes(&columns) > ROUND_BYTES {
            break;
        }
        ranges.extend(columns);
        round.extend(groups.next());
    }
    Some((round, ranges))
}

/// So many that a batch has no more bytes than others have, if each row has as many as the file says of all of a group.
fn batch_rows(builder: &Builder, groups: &[usize], mask: &ProjectionMask) -> usize {
    let rows = |group: &usize| {
        let group = builder.metadata().row_group(*group);
        let columns = group.columns().iter().enumerate().filter(|(leaf, _)| mask.leaf_included(*leaf));
        let bytes = columns.map(|(_, column)| {
            column.unencoded_byte_array_data_bytes().unwrap_or(0).max(column.uncompressed_size())
        });
        let bytes: i64 = bytes.fold(0, i64::saturating_add);
        let bytes_per_row = usize::try_from(bytes / group.num_rows().max(1)).unwrap_or(0);
        BATCH_BYTES_MAX / bytes_per_row.max(1)
    };
    groups.iter().map(rows).min().unwrap_or(usize::MAX).max(1)
}

fn bytes(ranges: &[Range<u64>]) -> usize {
    let bytes: u64 = ranges.iter().map(|range| range.end - range.start).sum();
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

fn columns(builder: &Builder, size: u64, group: usize, mask: &ProjectionMask) -> Option<Vec<Range<u64>>> {
    let mut ranges = Vec::new();
    for (leaf, column) in builder.metadata().row_group(group).columns().iter().enumerate() {
        let start = column.dictionary_page_offset().unwrap_or_else(|| column.data_page_offset());
        let start = u64::try_from(start).ok()?;
        let end = start.checked_add(u64::try_from(column.compressed_size()).ok()?)?;
        if end > size {
            return None;
        }
        if mask.leaf_included(leaf) {
            ranges.push(start..end);
        }
    }
    Some(ranges)
}

fn check(scan: &Scan<'_>, place: &Place, found: &SchemaRef, column: &ForeignColumn) -> Result<()> {
    let ForeignColumn { name, ty, remote, .. } = column;
    let (table, server) = (&scan.query.table, scan.server);
    match found.field_with_name(remote) {
        Ok(field) if conversion::fits(field.data_type(), *ty) => Ok(()),
        Ok(field) => {
            let message = format!(
                "column \"{name}\" of foreign table \"{table}\" is of type {}, but column \"{remote}\" of file \"{place}\" on server \"{server}\" is of type {}",
                ty.with_typmod(-1).display(),
                field.data_type(),
            );
            Err(SqlError::new(SqlState::FDW_INVALID_DATA_TYPE, message)
                .with_hint("Give the foreign table's column the type that it has there."))
        }
        Err(_) => {
            let message = format!(
                "foreign table \"{table}\" does not fit server \"{server}\": file \"{place}\" has no column \"{remote}\""
            );
            Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message))
        }
    }
}

fn bad_value(column: &ForeignColumn, error: SqlError) -> SqlError {
    error.with_context(format!("column \"{}\"", column.name))
}

/// The groups of rows in which the conditions may hold. What cannot be told of a condition says nothing.
fn groups(builder: &Builder, definition: &TableDefinition, conditions: &[Expr]) -> Vec<usize> {
    let count = builder.metadata().num_row_groups();
    let mut kept = vec![true; count];
    let schema = Arc::new(definition.schema());
    let statistics = Groups { builder, definition };
    for condition in conditions {
        // The columns are those of this table, whatever it is called in the query.
        let pruned = unqualified(condition).and_then(|condition| {
            let expr = create_physical_expr(
                &condition,
                &Arc::clone(&schema).to_dfschema()?,
                &ExecutionProps::new(),
                &PhysicalPlanningContext::default(),
            )?;
            PruningPredicateBuilder::new()
                .with_file_schema(Arc::clone(&schema))
                .try_build(expr)?
                .prune(&statistics)
        });
        match pruned {
            Ok(pruned) => kept.iter_mut().zip(pruned).for_each(|(kept, may)| *kept &= may),
            Err(error) => tracing::debug!(%error, %condition, "a condition says nothing about row groups"),
        }
    }
    (0..count).filter(|group| kept[*group]).collect()
}

fn unqualified(condition: &Expr) -> datafusion::error::Result<Expr> {
    use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
    condition
        .clone()
        .transform(|expr| {
            Ok(match expr {
                Expr::Column(column) => Transformed::yes(Expr::Column(Column::new_unqualified(column.name))),
                other => Transformed::no(other),
            })
        })
        .data()
}

/// What the file says of its groups of rows.
struct Groups<'a> {
    builder: &'a Builder,
    definition: &'a TableDefinition,
}

impl Groups<'_> {
    /// Of a column whose extremes are extremes here.
    fn extremes(
        &self,
        column: &Column,
        of: impl Fn(&StatisticsConverter<'_>) -> parquet::errors::Result<ArrayRef>,
    ) -> Option<ArrayRef> {
        let known = self.definition.columns.iter().find(|known| known.name == column.name)?;
        if !conversion::keeps_order(known.ty) {
            return None;
        }
        let converter = self.converter(known)?;
        let leaf = converter.parquet_column_index()?;
        // Early writers had an order of their own for texts.
        let is_old = |group: &RowGroupMetaData| {
            group.column(leaf).statistics().is_some_and(|found| found.is_min_max_deprecated())
        };
        if self.builder.metadata().row_groups().iter().any(is_old) {
            return None;
        }
        let found = of(&converter).ok()?;
        conversion::converted(&found, known.ty).ok()
    }

    fn converter(&self, column: &ForeignColumn) -> Option<StatisticsConverter<'_>> {
        let schema = self.builder.schema();
        StatisticsConverter::try_new(&column.remote, schema, self.builder.parquet_schema()).ok()
    }
}

impl PruningStatistics for Groups<'_> {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        self.extremes(column, |found| found.row_group_mins(self.builder.metadata().row_groups()))
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        self.extremes(column, |found| found.row_group_maxes(self.builder.metadata().row_groups()))
    }

    fn num_containers(&self) -> usize {
        self.builder.metadata().num_row_groups()
    }

    fn null_counts(&self, column: &Column) -> Option<ArrayRef> {
        let known = self.definition.columns.iter().find(|known| known.name == column.name)?;
        let converter = self.converter(known)?.with_missing_null_counts_as_zero(false);
        let counts = converter.row_group_null_counts(self.builder.metadata().row_groups()).ok()?;
        Some(Arc::new(counts))
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        let rows = self.builder.metadata().row_groups().iter().map(|g| u64::try_from(g.num_rows()).ok());
        Some(Arc::new(rows.collect::<UInt64Array>()))
    }

    fn contained(
        &self,
        _: &Column,
        _: &std::collections::HashSet<ScalarValue>,
    ) -> Option<arrow::array::BooleanArray> {
        None
    }
}
