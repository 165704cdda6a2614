//! COMMENT ON: what users say about relations and columns.

use tidemill_sql::statement::{Commented, Name};
use tidemill_sql::{Result, SqlError, SqlState};

use super::drop::fits;
use super::{missing, public};
use crate::catalog::{Catalog, Change, Relation};
use crate::pg::wire_error::Notice;
use crate::system::{self, column_names};
use crate::tables::SCHEMAS;

pub async fn comment(catalog: &Catalog, object: &Commented, text: Option<&str>) -> Result<Vec<Notice>> {
    let _change = catalog.change.lock().await;
    let (relation, column) = match object {
        Commented::Relation(kind, name) => {
            let relation = named(catalog, name)?;
            if !fits(catalog, &relation, *kind)? {
                let word = kind.keywords().to_lowercase();
                let message = format!("\"{}\" is not a {word}", name.name);
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
            }
            (relation, "")
        }
        Commented::Column { relation: name, column } => {
            let relation = named(catalog, name)?;
            if !column_names(&relation)?.contains(column) {
                let message = format!("column \"{column}\" of relation \"{}\" does not exist", name.name);
                return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message));
            }
            (relation, column.as_str())
        }
    };
    // As in PostgreSQL, no text is no comment.
    let text = text.filter(|text| !text.is_empty());
    catalog.persist(&[Change::Comment { oid: relation.oid(), column, text }])?;
    Ok(vec![])
}

fn named(catalog: &Catalog, name: &Name) -> Result<Relation> {
    if let Some(schema) = name.schema.as_deref().filter(|schema| SCHEMAS.contains(schema))
        && system::find(schema, &name.name).is_some()
    {
        let message = format!("permission denied: \"{}\" is a system catalog", name.name);
        return Err(SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message));
    }
    let plain = public(name)?;
    catalog.get(plain).ok_or_else(|| missing("relation", plain))
}
