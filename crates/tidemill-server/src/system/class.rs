//! `pg_class`, `pg_attribute` and `pg_attrdef`: relations and their columns, the users' and the system's.
//!
//! A stream is a foreign table, as in PipelineDB 1.x. A continuous view is a view; what PipelineDB 0.8 wrote as
//! `relkind = 'C'` is understood by the planner, which looks for the option that all continuous views have.

use arrow::datatypes::Schema;
use datafusion::catalog::TableProvider;
use tidemill_sql::Result;
use tidemill_sql::objects::{DELETABLE, INSERTABLE, UPDATABLE};
use tidemill_sql::planner::CONTINUOUS_OPTION;
use tidemill_sql::types::Type;
use tidemill_stream::stream::ARRIVAL;

use super::datatype::{self, DataType};
use super::namespace::{OWNER_OID, namespace_oid};
use super::{FUNCTION_RESULT, Fillers, PG_CATALOG, Rows, Snapshot, SystemRelation, all};
use crate::catalog::{ForeignTable, ForeignTableColumn, Relation, Table};
use crate::tables::{SCHEMA, foreign};

pub(super) const FILLERS: Fillers = &[
    (PG_CATALOG, "pg_class", classes),
    (PG_CATALOG, "pg_attribute", attributes),
    (PG_CATALOG, "pg_attrdef", defaults),
];

/// The option of a transform, which PipelineDB 1.x takes for a view too.
const TRANSFORM_OPTION: &str = "action=transform";

/// Rows that a plan without statistics is to expect, as PostgreSQL says "never analyzed".
const UNKNOWN_ROWS: f64 = -1.0;

/// A stream, a view, a table or a system relation: what the catalogs say of all relations.
#[derive(Debug)]
pub struct Class {
    pub oid: u32,
    pub schema: &'static str,
    pub name: String,
    pub kind: char,
    pub options: Option<Vec<String>>,
    pub columns: Vec<Attribute>,
}

/// A column as `pg_attribute` describes it.
#[derive(Debug)]
pub struct Attribute {
    pub name: String,
    pub ty: &'static DataType,
    pub typmod: i32,
    pub not_null: bool,
    /// The number and the text of its default.
    pub default: Option<(u32, String)>,
    /// Of a foreign table's column.
    pub options: Option<Vec<String>>,
}

impl Class {
    pub fn of_user(relation: &Relation) -> Result<Self> {
        let (kind, options, columns) = match relation {
            Relation::Stream(stream) => ('f', None, fields(&stream.table.schema())?),
            Relation::View(view) => {
                let written =
                    view.object.options.written.iter().map(|(name, value)| format!("{name}={value}"));
                let options = std::iter::once(CONTINUOUS_OPTION.to_string()).chain(written).collect();
                ('v', Some(options), fields(&view.table.schema())?)
            }
            Relation::Transform(transform) => {
                let options = vec![TRANSFORM_OPTION.into(), format!("outputfunc={}", transform.call())];
                ('v', Some(options), fields(&transform.schema)?)
            }
            Relation::Table(table) => return Self::of_table(table),
            Relation::PlainView(view) => ('v', None, view.columns().to_vec()),
            Relation::Foreign(table) => return Self::of_foreign(table),
        };
        // The arrival time comes after the columns that were declared, as in PipelineDB 1.x.
        let (arrival, declared): (Vec<_>, Vec<_>) =
            columns.into_iter().partition(|(name, _)| kind == 'f' && name == ARRIVAL);
        let columns = declared.into_iter().chain(arrival).map(|(name, ty)| {
            let row = datatype::of_type(ty)?;
            Ok(Attribute { name, ty: row, typmod: ty.typmod, not_null: false, default: None, options: None })
        });
        Ok(Self {
            oid: relation.oid(),
            schema: SCHEMA,
            name: relation.name().to_string(),
            kind,
            options,
            columns: columns.collect::<Result<_>>()?,
        })
    }

    fn of_foreign(table: &ForeignTable) -> Result<Self> {
        let columns = table.object.columns.iter().map(|ForeignTableColumn { column, options }| {
            Ok(Attribute {
                name: column.name.clone(),
                ty: datatype::of_type(column.ty)?,
                typmod: column.ty.typmod,
                not_null: column.not_null,
                default: None,
                options: (!options.is_empty()).then(|| options.shown()),
            })
        });
        Ok(Self {
            oid: table.oid,
            schema: SCHEMA,
            name: table.object.name.clone(),
            kind: 'f',
            options: None,
            columns: columns.collect::<Result<_>>()?,
        })
    }

    fn of_table(table: &Table) -> Result<Self> {
        let columns = table.object.columns.iter().enumerate().map(|(i, column)| {
            Ok(Attribute {
                name: column.name.clone(),
                ty: datatype::of_type(column.ty)?,
                typmod: column.ty.typmod,
                not_null: column.not_null,
                default: table.default(i).map(|default| (column.default_oid, default.shown(column.ty))),
                options: None,
            })
        });
        Ok(Self {
            oid: table.oid,
            schema: SCHEMA,
            name: table.object.name.clone(),
            kind: 'r',
            options: None,
            columns: columns.collect::<Result<_>>()?,
        })
    }

    pub fn of_system(relation: &SystemRelation) -> Result<Self> {
        let columns = relation.columns.iter().map(|column| {
            let ty = match DataType::of_shown(column.shown) {
                Some(ty) => ty,
                None => datatype::of_type(column.ty)?,
            };
            let name = column.name.to_string();
            let (typmod, not_null) = (column.ty.typmod, column.not_null);
            Ok(Attribute { name, ty, typmod, not_null, default: None, options: None })
        });
        Ok(Self {
            oid: relation.oid,
            schema: relation.schema,
            name: relation.name.to_string(),
            kind: relation.kind,
            options: None,
            columns: columns.collect::<Result<_>>()?,
        })
    }

    /// All relations, the system's first.
    pub fn every(snapshot: &Snapshot) -> Result<Vec<Class>> {
        let system = all().iter().filter(|r| r.kind != FUNCTION_RESULT).map(Class::of_system);
        system.chain(snapshot.relations.iter().map(Class::of_user)).collect()
    }
}

fn fields(schema: &Schema) -> Result<Vec<(String, Type)>> {
    schema.fields().iter().map(|field| Ok((field.name().clone(), Type::of_field(field)?))).collect()
}

fn classes(snapshot: &Snapshot, rows: &mut Rows) -> Result<()> {
    for class in Class::every(snapshot)? {
        rows.add([
            ("oid", class.oid.into()),
            ("relname", class.name.into()),
            ("relnamespace", namespace_oid(class.schema)?.into()),
            ("relowner", OWNER_OID.into()),
            ("reltuples", UNKNOWN_ROWS.into()),
            ("relpersistence", 'p'.into()),
            ("relkind", class.kind.into()),
            ("relnatts", class.columns.len().into()),
            ("relispopulated", true.into()),
            ("relreplident", if class.kind == 'r' { 'd' } else { 'n' }.into()),
            ("reloptions", class.options.into()),
        ])?;
    }
    Ok(())
}

fn attributes(snapshot: &Snapshot, rows: &mut Rows) -> Result<()> {
    for class in Class::every(snapshot)? {
        for (i, column) in class.columns.into_iter().enumerate() {
            rows.add([
                ("attrelid", class.oid.into()),
                ("attname", column.name.into()),
                ("atttypid", column.ty.oid.into()),
                ("attstattarget", (-1).into()),
                ("attlen", column.ty.length.into()),
                ("attnum", (i + 1).into()),
                ("attcacheoff", (-1).into()),
                ("atttypmod", column.typmod.into()),
                ("attbyval", column.ty.by_value.into()),
                ("attalign", column.ty.align.into()),
                ("attstorage", column.ty.storage.into()),
                ("attnotnull", column.not_null.into()),
                ("atthasdef", column.default.is_some().into()),
                ("attislocal", true.into()),
                ("attcollation", column.ty.collation.into()),
                ("attfdwoptions", column.options.into()),
            ])?;
        }
    }
    Ok(())
}

fn defaults(snapshot: &Snapshot, rows: &mut Rows) -> Result<()> {
    for class in Class::every(snapshot)? {
        for (i, column) in class.columns.into_iter().enumerate() {
            let Some((oid, text)) = column.default else { continue };
            rows.add([
                ("oid", oid.into()),
                ("adrelid", class.oid.into()),
                ("adnum", (i + 1).into()),
                ("adbin", text.into()),
            ])?;
        }
    }
    Ok(())
}

/// The names of a relation's columns in the order of their numbers.
pub fn column_names(relation: &Relation) -> Result<Vec<String>> {
    Ok(Class::of_user(relation)?.columns.into_iter().map(|column| column.name).collect())
}

/// Which statements change the rows of a relation.
pub fn changes(snapshot: &Snapshot, relation: &Relation) -> i32 {
    match relation {
        Relation::Stream(_) => INSERTABLE,
        Relation::Table(_) => INSERTABLE | UPDATABLE | DELETABLE,
        Relation::Foreign(table) => foreign::changes(&snapshot.server.catalog, table),
        Relation::View(_) | Relation::Transform(_) | Relation::PlainView(_) => 0,
    }
}

/// The query of a view, as `pg_get_viewdef` shows it.
pub fn definition(relation: &Relation) -> Option<String> {
    let query = match relation {
        Relation::View(view) => &view.object.query,
        Relation::Transform(transform) => &transform.object.query,
        Relation::PlainView(view) => &view.object.query,
        Relation::Stream(_) | Relation::Table(_) | Relation::Foreign(_) => return None,
    };
    Some(format!(" {};", query.trim().trim_end_matches(';')))
}

/// Bytes on disk: a stream keeps nothing, a view and a table their runs. What is in the log belongs to the database.
pub fn disk_bytes(relation: &Relation) -> u64 {
    match relation {
        Relation::View(view) => view.view.disk_bytes(),
        Relation::Table(table) => table.view.disk_bytes(),
        Relation::Stream(_) | Relation::Transform(_) | Relation::PlainView(_) | Relation::Foreign(_) => 0,
    }
}
