//! IMPORT FOREIGN SCHEMA of a folder of Parquet files.

use std::path::Path;

use tidemill_sql::statement::ImportSelection;
use tidemill_sql::{Result, SqlError, SqlState};

use super::access::Access;
use super::place::{self, Place};
use super::url::Url;
use super::{conversion, parquet};
use crate::connector::{ImportedColumn, ImportedTable};
use crate::option::Options;

const ENDING: &str = ".parquet";

/// The files of a folder as tables, each called like its file. Blocks. `None` if there is no such folder.
pub fn tables(
    folder: &str,
    selection: &ImportSelection,
    access: &Access,
) -> Result<Option<Vec<ImportedTable>>> {
    let table = |name: &str| name.strip_suffix(ENDING).is_some_and(|name| selection.has(name));
    let files = match Url::parse(folder)? {
        None if !Path::new(folder).is_dir() => return Ok(None),
        None => place::local(Path::new(folder), table)?,
        Some(url) => {
            let url = url.folder()?;
            let is_parquet = |name: &str| name.ends_with(ENDING);
            let found = access.list(&url, &is_parquet)?;
            // A folder of a store is what begins with its name.
            if found.is_empty() {
                return Ok(None);
            }
            found.into_iter().filter(|file| table(file.name())).collect()
        }
    };
    files.iter().map(|file| imported_table(file, access)).collect::<Result<_>>().map(Some)
}

fn imported_table(file: &Place, access: &Access) -> Result<ImportedTable> {
    let name = file.name().strip_suffix(ENDING).unwrap_or_default().to_string();
    let schema = parquet::schema(file, access)?;
    let columns = schema.fields().iter().map(|field| imported(field, &name)).collect::<Result<_>>()?;
    Ok(ImportedTable { name, columns, options: Options::of([("filename", &file.to_string())]) })
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
