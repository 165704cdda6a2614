//! Definitions: CREATE, ALTER and DROP of streams, tables and views, and what is done to views by name.

mod command;
pub mod comment;
mod continuous_view;
mod dependency;
mod drop;
pub mod foreign;
mod foreign_table;
pub mod migrate;
mod option;
mod output;
pub mod plain_view;
mod rename;
mod stream;
mod table;
mod transform;

use tidemill_federation::wrapper::{WRAPPERS, Wrapper};
use tidemill_sql::statement::Name;
use tidemill_sql::types::Type;
use tidemill_sql::{Result, SqlError, SqlState};

use crate::pg::wire_error::Notice;
use crate::system::EXTENSION;

pub use command::{carry_out, set_active};
pub use continuous_view::{create_view, plan_view};
pub use drop::drop_objects;
pub use rename::alter_view;
pub use stream::{alter_stream, create_stream};
pub use table::{NewTable, create_table, is_new, truncate};
pub use transform::load_transforms;

/// Columns of a relation at most, as in PostgreSQL.
pub const COLUMNS_MAX: usize = 1600;

/// Names of relations are in the schema `public`, or without a schema.
pub fn public(name: &Name) -> Result<&str> {
    match name.schema.as_deref() {
        None | Some("public") => Ok(&name.name),
        Some(schema) => {
            let message = format!("schema \"{schema}\" does not exist");
            Err(SqlError::new(SqlState::INVALID_SCHEMA_NAME, message).with_position(name.position))
        }
    }
}

fn exists(name: &str) -> SqlError {
    SqlError::new(SqlState::DUPLICATE_TABLE, format!("relation \"{name}\" already exists"))
}

fn skipped(name: &str) -> Notice {
    Notice::new(format!("relation \"{name}\" already exists, skipping"))
}

fn missing(kind: &str, name: &str) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_TABLE, format!("{kind} \"{name}\" does not exist"))
}

/// As PostgreSQL: a view that takes another's place has its columns, and may have more behind them.
fn check_columns(before: &[(String, Type)], after: &[(String, Type)]) -> Result<()> {
    let invalid = |message: String| SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message);
    if after.len() < before.len() {
        return Err(invalid("cannot drop columns from view".into()));
    }
    for ((old, from), (new, to)) in before.iter().zip(after) {
        if old != new {
            let message = format!("cannot change name of view column \"{old}\" to \"{new}\"");
            return Err(invalid(message));
        }
        if from != to {
            let (from, to) = (from.display(), to.display());
            let message = format!("cannot change data type of view column \"{old}\" from {from} to {to}");
            return Err(invalid(message));
        }
    }
    Ok(())
}

/// What PipelineDB 1.x's and the wrappers' scripts create is built in; there is no other extension.
pub fn create_extension(name: &Name, if_not_exists: bool) -> Result<Vec<Notice>> {
    let shown = &name.name;
    if !is_built_in(name) {
        let message = format!("extension \"{shown}\" is not available");
        let known = WRAPPERS.iter().map(|wrapper| wrapper.name).chain([EXTENSION]).collect::<Vec<_>>();
        return Err(SqlError::unsupported(message)
            .with_position(name.position)
            .with_hint(format!("These are built in: {}.", known.join(", "))));
    }
    let skipped = if if_not_exists { "already exists, skipping" } else { "is built in, nothing to create" };
    Ok(vec![Notice::new(format!("extension \"{shown}\" {skipped}"))])
}

fn is_built_in(extension: &Name) -> bool {
    extension.name == EXTENSION || Wrapper::find(&extension.name).is_some()
}

/// What is built in stays; of others there are none.
pub fn drop_extension(names: &[Name], if_exists: bool) -> Result<Vec<Notice>> {
    let drop = |name: &Name| {
        let shown = &name.name;
        if is_built_in(name) {
            let message =
                format!("cannot drop extension \"{shown}\" because it is required by the database system");
            return Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message)
                .with_position(name.position)
                .with_hint("It is built in. DROP SERVER with CASCADE drops what uses it."));
        }
        let message = format!("extension \"{shown}\" does not exist");
        match if_exists {
            true => Ok(Notice::new(format!("{message}, skipping"))),
            false => Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message)),
        }
    };
    names.iter().map(drop).collect()
}
