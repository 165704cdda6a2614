//! What the columns of a server are, and whether that goes with what is declared of them here.

use tidemill_sql::types::{Scalar, Type};
use tidemill_sql::{SqlError, SqlState};
use tokio_postgres::Column;

use crate::connector::RemoteColumn;
use crate::modifier::is_within;

/// What a column is on the other side.
pub(super) struct Found {
    pub ty: tokio_postgres::types::Type,
    pub modifier: i32,
}

impl From<&Column> for Found {
    fn from(column: &Column) -> Self {
        Self { ty: column.type_().clone(), modifier: column.type_modifier() }
    }
}

impl Found {
    /// Whether its values are as the modifier of a type here says. The types themselves fit.
    pub(super) fn keeps_modifier(&self, ours: Type) -> bool {
        Type::from_oid(self.ty.oid()).is_none_or(|found| is_within(found.with_typmod(self.modifier), ours))
    }
}

/// A column has another type there.
pub(super) fn mismatch(
    server: &str,
    table: &str,
    relation: &str,
    wanted: &RemoteColumn,
    found: &Found,
) -> SqlError {
    let is_modifier = fits(wanted.ty, found.ty.oid());
    let shown = |ty: Type, typmod| ty.with_typmod(if is_modifier { typmod } else { -1 }).display();
    let found = match Type::from_oid(found.ty.oid()) {
        Some(ty) => shown(ty, found.modifier),
        None => found.ty.name().to_string(),
    };
    let message = format!(
        "column \"{}\" of foreign table \"{table}\" is of type {}, but column \"{}\" of {relation} on server \"{server}\" is of type {found}",
        wanted.name,
        shown(wanted.ty, wanted.ty.typmod),
        wanted.remote,
    );
    SqlError::new(SqlState::FDW_INVALID_DATA_TYPE, message)
        .with_hint("Give the foreign table's column the type that it has there.")
}

/// Whether a column of a type there, by its number, is shown by its text: there is no such type here.
pub(super) fn is_read_as_text(ours: Type, theirs: u32) -> bool {
    let is_text = matches!(ours.scalar, Scalar::Text | Scalar::Varchar) && !ours.array;
    is_text && Type::from_oid(theirs).is_none()
}

/// Whether values of a type there, by its number, are in the binary form of a type here.
pub(super) fn fits(ours: Type, theirs: u32) -> bool {
    use Scalar::*;
    let is_text = |ty: Type| matches!(ty.scalar, Text | Varchar | Bpchar | Name);
    ours.oid() == theirs
        || Type::from_oid(theirs).is_some_and(|ty| is_text(ty) && is_text(ours) && ty.array == ours.array)
}
