//! CREATE, ALTER and IMPORT of foreign tables.

use std::sync::Arc;

use tidemill_federation::connector::{ImportedColumn, ImportedTable};
use tidemill_federation::multi_tenant::{CHILD_OPTIONS, CHILDREN_MAX, HAS_NODES, URL};
use tidemill_federation::option::{parse_bool, validate};
use tidemill_federation::{Options, Place, Wrapper};
use tidemill_sql::statement::{
    Child, Column, CreateForeignTable, CreateMultiTenant, ForeignColumn, ForeignTableAction, ImportSchema,
    Name, Statement,
};
use tidemill_sql::types::{Scalar, Type};
use tidemill_sql::{Result, SqlError, SqlState, parse};

use super::foreign::{checked, own_server};
use super::rename::rename;
use super::stream::alter_stream_locked;
use super::{COLUMNS_MAX, exists, missing, plain_view, public, skipped};
use crate::catalog::{
    Catalog, Change, ChildObject, ForeignTable, ForeignTableColumn, ForeignTableObject,
    MULTI_TENANT_SERVER_OID, Relation, SCHEMA_OPTIONS, TABLE_OPTIONS, TableColumn,
};
use crate::join;
use crate::pg::wire_error::Notice;
use crate::query::Planner;
use crate::tables::{SCHEMA, SCHEMAS};

/// Whose options the columns of children have that a multi-tenant table names.
const CHILD_WRAPPER: &str = "postgres_fdw";

pub fn create(catalog: &Catalog, create: CreateForeignTable) -> Result<Vec<Notice>> {
    let name = public(&create.name)?;
    if catalog.get(name).is_some() {
        return if create.if_not_exists { Ok(vec![skipped(name)]) } else { Err(exists(name)) };
    }
    let server = own_server(catalog, &create.server)?;
    let options = Options::new(&create.options)?;
    let mut notices = checked(server.wrapper, Place::Table, &options)?;
    let mut object = ForeignTableObject {
        name: name.to_string(),
        server: server.oid,
        columns: vec![],
        options,
        children: vec![],
    };
    for column in create.columns {
        notices.extend(add_column(server.wrapper, &mut object, column)?);
    }
    put(catalog, &ForeignTable::new(catalog.allocate_oid(), object))?;
    Ok(notices)
}

/// The table gets the column that tells the node of a row, unless it is declared.
pub fn create_multi_tenant(catalog: &Catalog, create: CreateMultiTenant) -> Result<Vec<Notice>> {
    let name = public(&create.name)?;
    if catalog.get(name).is_some() {
        return if create.if_not_exists { Ok(vec![skipped(name)]) } else { Err(exists(name)) };
    }
    if create.children.len() > CHILDREN_MAX {
        let message = format!("multi-tenant tables can have at most {CHILDREN_MAX} children");
        return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
    }
    let mut notices = Vec::new();
    let mut children = Vec::with_capacity(create.children.len());
    for child in create.children {
        let position = child.position;
        let (child, of_child) = named_child(catalog, child).map_err(|error| error.with_position(position))?;
        children.push(child);
        notices.extend(of_child);
    }
    let mut object = ForeignTableObject {
        name: name.to_string(),
        server: MULTI_TENANT_SERVER_OID,
        columns: vec![],
        options: Options::default(),
        children,
    };
    let wrapper = Wrapper::get(CHILD_WRAPPER)?;
    for column in create.columns {
        notices.extend(add_column(wrapper, &mut object, column)?);
    }
    if !object.columns.iter().any(|known| known.column.name == URL) {
        let column = Column { name: URL.to_string(), ty: Type::new(Scalar::Text), position: 0 };
        add_column(wrapper, &mut object, ForeignColumn { column, not_null: false, options: vec![] })?;
    }
    put(catalog, &ForeignTable::new(catalog.allocate_oid(), object))?;
    Ok(notices)
}

/// A child that a multi-tenant table names.
fn named_child(catalog: &Catalog, child: Child) -> Result<(ChildObject, Vec<Notice>)> {
    let Child { server, schema, table, options, .. } = child;
    let found = own_server(catalog, &server)?;
    if found.has_multi_tenant_tables() {
        let message = format!("the tables of server \"{server}\" have children themselves");
        return Err(SqlError::unsupported(message).with_hint("Name their children."));
    }
    let is_name = |option: &str| SCHEMA_OPTIONS.contains(&option) || TABLE_OPTIONS.contains(&option);
    if let Some(said) = options.iter().find(|option| is_name(&option.name)) {
        let message = format!("invalid option \"{}\"", said.name);
        return Err(SqlError::new(SqlState::FDW_INVALID_OPTION_NAME, message)
            .with_hint("The child's name tells it: server.schema.table."));
    }
    let of_wrapper = found.wrapper.options.iter().filter(|spec| !is_name(spec.name));
    validate(of_wrapper.chain(CHILD_OPTIONS), Place::Table, &Options::new(&options)?)?;
    let (own, options): (Vec<_>, Vec<_>) = options.into_iter().partition(|o| o.name == HAS_NODES);
    let (own, options) = (Options::new(&own)?, Options::new(&options)?);
    let has_nodes = own.get(HAS_NODES).and_then(parse_bool).unwrap_or(false);
    if has_nodes && !found.wrapper.speaks_postgresql() {
        let message = format!("server \"{server}\" cannot have multi-tenant tables");
        return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
            .with_hint("A Tidemill has, or a PGSpider: a server of tidemill_fdw or pgspider_fdw."));
    }
    let notices = checked(found.wrapper, Place::Table, &options)?;
    let schema = schema.unwrap_or_default();
    Ok((ChildObject { server: found.oid, schema, table, has_nodes, options }, notices))
}

fn put(catalog: &Catalog, table: &ForeignTable) -> Result<()> {
    catalog.persist(&[Change::PutForeignTable(table.oid, &table.object)])?;
    install(catalog, table.oid, &table.object);
    Ok(())
}

fn install(catalog: &Catalog, oid: u32, object: &ForeignTableObject) {
    catalog.install(Relation::Foreign(Arc::new(ForeignTable::new(oid, object.clone()))));
}

fn add_column(
    wrapper: &Wrapper,
    table: &mut ForeignTableObject,
    column: ForeignColumn,
) -> Result<Vec<Notice>> {
    let ForeignColumn { column, not_null, options } = column;
    if table.columns.iter().any(|known| known.column.name == column.name) {
        let message = format!("column \"{}\" specified more than once", column.name);
        return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message).with_position(column.position));
    }
    if table.columns.len() >= COLUMNS_MAX {
        let message = format!("tables can have at most {COLUMNS_MAX} columns");
        return Err(SqlError::new(SqlState::TOO_MANY_COLUMNS, message));
    }
    let options = Options::new(&options)?;
    let notices = checked(wrapper, Place::Column, &options)?;
    let column = TableColumn { name: column.name, ty: column.ty, not_null, default: None, default_oid: 0 };
    table.columns.push(ForeignTableColumn { column, options });
    Ok(notices)
}

/// The changes of one statement, all or none.
pub async fn alter(
    planner: &Planner,
    name: &Name,
    if_exists: bool,
    actions: Vec<ForeignTableAction>,
) -> Result<Vec<Notice>> {
    let catalog = planner.server.catalog.as_ref();
    let plain = public(name)?;
    let table = match catalog.get(plain) {
        Some(Relation::Foreign(table)) => table,
        Some(Relation::Stream(_)) => {
            return match parse::foreign::of_stream(name, if_exists, &actions)? {
                Statement::AlterStream { action, .. } => {
                    alter_stream_locked(&planner.server, name, if_exists, action)
                }
                _ => Err(SqlError::internal("a change of a stream is none")),
            };
        }
        Some(_) => {
            let message = format!("\"{plain}\" is not a foreign table");
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        None if if_exists => {
            return Ok(vec![Notice::new(format!("relation \"{plain}\" does not exist, skipping"))]);
        }
        None => return Err(missing("relation", plain)),
    };
    if let [ForeignTableAction::RenameTo(to)] = actions.as_slice() {
        let to = public(to)?;
        if catalog.get(to).is_some() {
            return Err(exists(to));
        }
        return rename(planner, Relation::Foreign(table), to).await.map(|()| vec![]);
    }
    let wrapper = catalog.server_of(&table)?.wrapper;
    let mut object = table.object.clone();
    let mut notices = Vec::new();
    for action in actions {
        notices.extend(change(wrapper, &mut object, action)?);
    }
    install(catalog, table.oid, &object);
    let checked = match join::check_readers(&planner.server, plain).await {
        Ok(()) => plain_view::check_readers(planner, plain).await,
        Err(error) => Err(error),
    };
    let kept = match checked {
        Ok(()) => catalog.persist(&[Change::PutForeignTable(table.oid, &object)]),
        Err(error) => Err(error),
    };
    if kept.is_err() {
        catalog.install(Relation::Foreign(table));
    }
    kept.map(|()| notices)
}

fn change(
    wrapper: &Wrapper,
    table: &mut ForeignTableObject,
    action: ForeignTableAction,
) -> Result<Vec<Notice>> {
    match action {
        ForeignTableAction::AddColumn { if_not_exists, column } => {
            let name = &column.column.name;
            if !table.columns.iter().any(|known| known.column.name == *name) {
                return add_column(wrapper, table, column);
            }
            let message = format!("column \"{name}\" of relation \"{}\" already exists", table.name);
            return match if_not_exists {
                true => Ok(vec![Notice::new(format!("{message}, skipping"))]),
                false => Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message)),
            };
        }
        ForeignTableAction::DropColumn { if_exists, name } => match place(table, &name) {
            Ok(place) => drop(table.columns.remove(place)),
            Err(error) if if_exists => {
                return Ok(vec![Notice::new(format!("{}, skipping", error.message))]);
            }
            Err(error) => return Err(error),
        },
        ForeignTableAction::ColumnType { name, column } => {
            let place = place(table, &name)?;
            table.columns[place].column.ty = column.ty;
        }
        ForeignTableAction::ColumnNotNull { name, not_null } => {
            let place = place(table, &name)?;
            table.columns[place].column.not_null = not_null;
        }
        ForeignTableAction::ColumnOptions { name, options } => {
            let place = place(table, &name)?;
            let options = table.columns[place].options.changed(&options)?;
            let notices = checked(wrapper, Place::Column, &options)?;
            table.columns[place].options = options;
            return Ok(notices);
        }
        ForeignTableAction::Options(changes) => {
            let options = table.options.changed(&changes)?;
            let notices = checked(wrapper, Place::Table, &options)?;
            table.options = options;
            return Ok(notices);
        }
        ForeignTableAction::RenameColumn { from, to } => {
            let place = place(table, &from)?;
            if table.columns.iter().any(|known| known.column.name == to) {
                let message = format!("column \"{to}\" of relation \"{}\" already exists", table.name);
                return Err(SqlError::new(SqlState::DUPLICATE_COLUMN, message));
            }
            table.columns[place].column.name = to;
        }
        ForeignTableAction::RenameTo(to) => {
            return Err(SqlError::syntax("RENAME is a statement of its own").with_position(to.position));
        }
    }
    Ok(vec![])
}

fn place(table: &ForeignTableObject, name: &str) -> Result<usize> {
    table.columns.iter().position(|known| known.column.name == name).ok_or_else(|| {
        let message = format!("column \"{name}\" of relation \"{}\" does not exist", table.name);
        SqlError::new(SqlState::UNDEFINED_COLUMN, message)
    })
}

/// What can be known to be wrong before the server is asked.
pub fn check_import(catalog: &Catalog, import: &ImportSchema) -> Result<Vec<Notice>> {
    let server = own_server(catalog, &import.server)?;
    if import.into != SCHEMA {
        let into = &import.into;
        return Err(match SCHEMAS.contains(&into.as_str()) {
            true => {
                let message = format!("permission denied for schema {into}");
                SqlError::new(SqlState::INSUFFICIENT_PRIVILEGE, message)
            }
            false => {
                SqlError::new(SqlState::INVALID_SCHEMA_NAME, format!("schema \"{into}\" does not exist"))
            }
        });
    }
    let options = Options::new(&import.options)?;
    checked(server.wrapper, Place::Import, &options)
}

/// The tables that the server has, all or none of them.
pub fn import(catalog: &Catalog, import: &ImportSchema, tables: Vec<ImportedTable>) -> Result<Vec<Notice>> {
    let notices = check_import(catalog, import)?;
    let server = own_server(catalog, &import.server)?;
    let options = Options::new(&import.options)?;
    let keeps_not_null = options.get("import_not_null").and_then(parse_bool).unwrap_or(true);
    let mut new = Vec::with_capacity(tables.len());
    for ImportedTable { name, columns, options } in tables {
        if catalog.get(&name).is_some() {
            return Err(exists(&name).with_context(format!("importing foreign table \"{name}\"")));
        }
        let columns =
            columns.into_iter().map(|ImportedColumn { name, ty, not_null, options }| ForeignTableColumn {
                options,
                column: TableColumn {
                    name,
                    ty,
                    not_null: not_null && keeps_not_null,
                    default: None,
                    default_oid: 0,
                },
            });
        let columns = columns.collect();
        let object = ForeignTableObject { name, server: server.oid, columns, options, children: vec![] };
        new.push((catalog.allocate_oid(), object));
    }
    let changes: Vec<_> = new.iter().map(|(oid, object)| Change::PutForeignTable(*oid, object)).collect();
    catalog.persist(&changes)?;
    new.iter().for_each(|(oid, object)| install(catalog, *oid, object));
    Ok(notices)
}
