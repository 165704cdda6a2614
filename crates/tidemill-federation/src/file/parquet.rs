//! Parquet files: wanted columns only, and no groups of rows in which a condition cannot hold.

use std::fs::File;
use std::path::Path;
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
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::file::metadata::RowGroupMetaData;
use tidemill_sql::statement::ImportSelection;
use tidemill_sql::{Result, SqlError, SqlState};

use super::{Scan, conversion, file_error};
use crate::connector::{ImportedColumn, ImportedTable};
use crate::option::Options;
use crate::table::{ForeignColumn, TableDefinition};

type Builder = ParquetRecordBatchReaderBuilder<File>;

fn open(path: &Path) -> Result<Builder> {
    let file = File::open(path).map_err(|error| file_error("open", path, &error))?;
    Builder::try_new(file).map_err(|error| broken(path, &error))
}

fn broken(path: &Path, error: &dyn std::error::Error) -> SqlError {
    let message = format!("could not read file \"{}\"", path.display());
    SqlError::new(SqlState::FDW_ERROR, message).with_detail(error.to_string())
}

/// False: nobody wants more.
pub fn read(scan: &Scan<'_>, path: &Path) -> Result<bool> {
    let builder = open(path)?;
    let found = Arc::clone(builder.schema());
    for column in &scan.definition().columns {
        check(scan, path, &found, column)?;
    }
    let wanted = scan.wanted()?.into_iter().map(|place| &scan.definition().columns[place]);
    let roots = wanted.clone().map(|column| found.index_of(&column.remote).map_err(|e| broken(path, &e)));
    let roots = roots.collect::<Result<Vec<_>>>()?;
    let mask = ProjectionMask::roots(builder.parquet_schema(), roots);
    let groups = groups(&builder, scan.definition(), &scan.query.pruning);
    let bytes = groups.iter().map(|group| read_bytes(&builder, *group, &mask)).sum();
    (scan.counted)(bytes);
    let reader = builder.with_projection(mask).with_row_groups(groups).with_batch_size(scan.batch_rows);
    for batch in reader.build().map_err(|error| broken(path, &error))? {
        let batch = batch.map_err(|error| broken(path, &error))?;
        let columns = wanted.clone().map(|column| {
            let values = batch.column_by_name(&column.remote);
            let values = values.ok_or_else(|| SqlError::internal("a file has lost a column"))?;
            conversion::converted(values, column.ty).map_err(|error| bad_value(column, error))
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&scan.schema), columns, &options)
            .map_err(|error| SqlError::internal(error.to_string()))?;
        if !scan.pass_on(batch) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn read_bytes(builder: &Builder, group: usize, mask: &ProjectionMask) -> usize {
    let columns = builder.metadata().row_group(group).columns().iter().enumerate();
    let read = columns.filter(|(leaf, _)| mask.leaf_included(*leaf)).map(|(_, c)| c.compressed_size());
    usize::try_from(read.sum::<i64>()).unwrap_or(0)
}

fn check(scan: &Scan<'_>, path: &Path, found: &SchemaRef, column: &ForeignColumn) -> Result<()> {
    let ForeignColumn { name, ty, remote, .. } = column;
    let (table, server, path) = (&scan.query.table, scan.server, path.display());
    match found.field_with_name(remote) {
        Ok(field) if conversion::fits(field.data_type(), *ty) => Ok(()),
        Ok(field) => {
            let message = format!(
                "column \"{name}\" of foreign table \"{table}\" is of type {}, but column \"{remote}\" of file \"{path}\" on server \"{server}\" is of type {}",
                ty.with_typmod(-1).display(),
                field.data_type(),
            );
            Err(SqlError::new(SqlState::FDW_INVALID_DATA_TYPE, message)
                .with_hint("Give the foreign table's column the type that it has there."))
        }
        Err(_) => {
            let message = format!(
                "foreign table \"{table}\" does not fit server \"{server}\": file \"{path}\" has no column \"{remote}\""
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

/// The files of a folder as tables. Blocks. `None` if there is no such folder.
pub fn tables(folder: &Path, selection: &ImportSelection) -> Result<Option<Vec<ImportedTable>>> {
    if !folder.is_dir() {
        return Ok(None);
    }
    let failed = |error| file_error("open", folder, &error);
    let mut tables = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let is_parquet = path.extension().is_some_and(|ending| ending == "parquet") && path.is_file();
        let Some(name) = path.file_stem().and_then(|name| name.to_str()).filter(|_| is_parquet) else {
            continue;
        };
        if !selection.has(name) {
            continue;
        }
        let options = Options::of([("filename", path.to_str().unwrap_or_default())]);
        let file = open(&path)?;
        let columns = file.schema().fields().iter().map(|field| imported(field, name));
        tables.push(ImportedTable {
            name: name.to_string(),
            columns: columns.collect::<Result<_>>()?,
            options,
        });
    }
    tables.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(Some(tables))
}

fn imported(field: &arrow::datatypes::Field, table: &str) -> Result<ImportedColumn> {
    let name = field.name().clone();
    let Some(ty) = conversion::imported(field) else {
        let message = format!(
            "column \"{name}\" of table \"{table}\" is of type {}, which there is none of here",
            field.data_type()
        );
        return Err(SqlError::new(SqlState::FDW_INVALID_DATA_TYPE, message)
            .with_hint(format!("Leave the table out: EXCEPT ({table}).")));
    };
    let options = Options::of([("column_name", &name)]);
    Ok(ImportedColumn { name, ty, not_null: !field.is_nullable(), options })
}
