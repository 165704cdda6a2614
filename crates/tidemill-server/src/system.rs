//! System relations: what `pg_catalog`, `information_schema` and `pipelinedb` say about the server.
//!
//! A relation is its columns and a function from a [`Snapshot`] to rows. All relations that one query reads see one
//! snapshot, taken when the first of them is scanned. Those of PostgreSQL have PostgreSQL 15's columns and numbers
//! (`columns.tsv`); the ones that nothing is kept for here have the columns and no rows.

mod class;
mod column;
mod comment;
mod continuous_query;
mod database;
mod datatype;
mod foreign;
mod information;
mod keyword;
mod language;
mod listing;
mod metric;
mod namespace;
mod node;
mod objects;
mod pipelinedb;
mod procedure;
mod role;
mod rows;
mod session;
mod setting;
mod snapshot;
mod table;

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use tidemill_sql::Result;
use tidemill_sql::types::Type;

pub use class::column_names;
pub use column::Column;
pub use foreign::SERVER as STREAM_SERVER;
pub use pipelinedb::EXTENSION;
pub use rows::{Rows, Value};
pub use snapshot::{SessionInfo, Snapshot, Snapshots};
pub use table::SystemTable;

/// The schemas of system relations. `pg_catalog` is searched before the path, the others only when named or on the path.
pub const PG_CATALOG: &str = "pg_catalog";
pub const INFORMATION_SCHEMA: &str = "information_schema";
pub const PIPELINEDB: &str = "pipelinedb";
pub const TIDEMILL: &str = "tidemill";

/// The first number of our own system relations: above what `initdb` gives out, below the users' objects.
const FIRST_OWN_OID: u32 = 15_000;

/// The kind of what holds the rows of a table function; it is not listed.
const FUNCTION_RESULT: char = 'F';

/// Fills in the rows of a relation.
pub type Fill = fn(&Snapshot, &mut Rows) -> Result<()>;

/// A relation that the server makes up when it is read.
#[derive(Debug)]
pub struct SystemRelation {
    /// 0 until the relation is one of [`all`].
    pub oid: u32,
    pub schema: &'static str,
    pub name: &'static str,
    /// `pg_class.relkind`: `r` or `v`.
    pub kind: char,
    pub columns: Vec<Column>,
    arrow: SchemaRef,
    fill: Option<Fill>,
}

impl SystemRelation {
    /// A relation of our own: a view with nullable columns.
    pub fn new(
        schema: &'static str,
        name: &'static str,
        columns: &[(&'static str, Type)],
        fill: Fill,
    ) -> Self {
        let columns = columns.iter().map(|(name, ty)| Column::new(name, *ty)).collect();
        Self::with_columns(0, schema, name, 'v', columns, Some(fill))
    }

    fn with_columns(
        oid: u32,
        schema: &'static str,
        name: &'static str,
        kind: char,
        columns: Vec<Column>,
        fill: Option<Fill>,
    ) -> Self {
        let fields = columns.iter().map(Column::field).collect::<Vec<_>>();
        Self { oid, schema, name, kind, columns, arrow: Arc::new(Schema::new(fields)), fill }
    }

    pub fn arrow_schema(&self) -> &SchemaRef {
        &self.arrow
    }

    /// The rows as the snapshot has them.
    pub fn batch(&self, snapshot: &Snapshot) -> Result<RecordBatch> {
        let mut rows = Rows::new(&self.columns);
        if let Some(fill) = self.fill {
            fill(snapshot, &mut rows)?;
        }
        rows.finish(&self.arrow)
    }
}

/// All system relations, by schema and name.
pub fn all() -> &'static [SystemRelation] {
    &REGISTRY.relations
}

/// The relation of this number; what holds the rows of a table function has none.
pub fn of_oid(oid: u32) -> Option<&'static SystemRelation> {
    REGISTRY.relations.iter().find(|r| r.oid == oid && r.kind != FUNCTION_RESULT)
}

/// The relation of this name in this schema.
pub fn find(schema: &str, name: &str) -> Option<&'static SystemRelation> {
    REGISTRY.places.get(&(schema, name)).map(|place| &REGISTRY.relations[*place])
}

struct Registry {
    relations: Vec<SystemRelation>,
    places: HashMap<(&'static str, &'static str), usize>,
}

static REGISTRY: LazyLock<Registry> = LazyLock::new(|| {
    let mut relations = column::of_postgresql(&fillers());
    for (i, mut relation) in own().into_iter().enumerate() {
        relation.oid = FIRST_OWN_OID + i as u32;
        relations.push(relation);
    }
    let places = relations.iter().enumerate().map(|(i, r)| ((r.schema, r.name), i)).collect();
    Registry { relations, places }
});

/// What fills PostgreSQL's relations; those without are empty.
fn fillers() -> HashMap<(&'static str, &'static str), Fill> {
    [
        class::FILLERS,
        comment::FILLERS,
        database::FILLERS,
        datatype::FILLERS,
        foreign::FILLERS,
        information::FILLERS,
        keyword::FILLERS,
        language::FILLERS,
        listing::FILLERS,
        namespace::FILLERS,
        pipelinedb::FILLERS,
        procedure::FILLERS,
        role::FILLERS,
        session::FILLERS,
        setting::FILLERS,
    ]
    .into_iter()
    .flatten()
    .map(|(schema, name, fill)| ((*schema, *name), *fill))
    .collect()
}

/// The relations that PostgreSQL does not have, in the order in which they are numbered: add at the end.
fn own() -> Vec<SystemRelation> {
    let all = [pipelinedb::relations(), node::relations(), metric::relations()];
    all.into_iter().flatten().collect()
}

/// A few lines of a file: which function fills which relation.
type Fillers = &'static [(&'static str, &'static str, Fill)];
