//! MIGRATE TABLE: which tables are made where, and what the catalog has afterwards.

use std::sync::Arc;

use tidemill_federation::multi_tenant::{self, URL};
use tidemill_federation::write::Target;
use tidemill_federation::{Options, Place, Wrapper};
use tidemill_sql::name::NAME_BYTES_MAX;
use tidemill_sql::statement::{ForeignOption, Migrate, MigrateServer, MigrateTarget, OptionChange};
use tidemill_sql::types::{Scalar, Type};
use tidemill_sql::{Result, SqlError, SqlState};

use super::foreign::{checked, own_server};
use super::{dependency, drop, exists, missing, public};
use crate::catalog::{
    Catalog, Change, FIRST_USER_OID, ForeignServer, ForeignTable, ForeignTableColumn, ForeignTableObject,
    Relation, ServerObject, TableColumn,
};
use crate::pg::wire_error::Notice;
use crate::server::Server;
use crate::tables::foreign::children_by_name;

/// The server of multi-tenant tables that are made, as PGSpider calls it.
const MULTI_TENANT_SERVER: &str = "pgspider_core_svr";
const USE_SERVER: &str = "use_multitenant_server";

/// What a migration makes.
pub struct Plan {
    pub source: Relation,
    /// The columns that are moved.
    pub columns: Vec<TableColumn>,
    /// Where the tables are made.
    pub targets: Vec<Target>,
    /// The server of a multi-tenant table, if it is made as well.
    server: Option<(u32, ServerObject)>,
    /// The foreign tables that are made.
    tables: Vec<(u32, ForeignTableObject)>,
    /// What they take the place of.
    gone: Vec<Relation>,
    pub notices: Vec<Notice>,
}

impl Plan {
    pub fn new(catalog: &Catalog, migrate: &Migrate) -> Result<Self> {
        let source = source(catalog, migrate)?;
        let columns = columns(&source)?;
        let gone = match &migrate.target {
            MigrateTarget::Replace => replaced(catalog, &source)?,
            MigrateTarget::None | MigrateTarget::To(_) => vec![],
        };
        let (server, targets, tables, notices) = (None, vec![], vec![], vec![]);
        let mut plan = Self { source, columns, targets, server, tables, gone, notices };
        let named_server = plan.options(&migrate.options)?;
        let name = match &migrate.target {
            MigrateTarget::To(name) => Some(public(name)?.to_string()),
            MigrateTarget::Replace => Some(plan.source.name().to_string()),
            MigrateTarget::None => None,
        };
        let is_multi_tenant = migrate.servers.len() > 1 || named_server.is_some();
        if let Some(name) = name.as_ref().filter(|_| is_multi_tenant) {
            plan.add_parent(catalog, name, named_server.as_deref())?;
        } else if named_server.is_some() {
            let why = format!("option \"{USE_SERVER}\" has no effect: no foreign table is made");
            plan.notices.push(Notice::new(why));
        }
        for (i, server) in migrate.servers.iter().enumerate() {
            let number = migrate.servers[..i].iter().filter(|before| before.name == server.name).count();
            let name = name.as_ref().map(|name| match is_multi_tenant {
                true => format!("{name}__{}__{number}", server.name),
                false => name.clone(),
            });
            plan.add_table(catalog, server, name).map_err(|e| e.with_position(server.position))?;
        }
        plan.check_names(catalog)?;
        Ok(plan)
    }

    /// The server of the multi-tenant table, if it is named.
    fn options(&self, options: &[ForeignOption]) -> Result<Option<String>> {
        let unknown = |option: &&ForeignOption| option.name != USE_SERVER;
        if let Some(unknown) = options.iter().find(unknown) {
            let message = format!("invalid option \"{}\"", unknown.name);
            return Err(SqlError::new(SqlState::FDW_INVALID_OPTION_NAME, message)
                .with_hint(format!("Valid options in this context are: {USE_SERVER}")));
        }
        Ok(Options::new(options)?.get(USE_SERVER).map(str::to_string))
    }

    /// The multi-tenant table, and its server unless that is there.
    fn add_parent(&mut self, catalog: &Catalog, name: &str, server: Option<&str>) -> Result<()> {
        let server = server.map(str::to_string).or_else(|| of_source(catalog, &self.source));
        let server = server.unwrap_or_else(|| MULTI_TENANT_SERVER.to_string());
        let oid = match catalog.server(&server) {
            Ok(found) if found.has_multi_tenant_tables() => found.oid,
            Ok(_) => {
                let message = format!("server \"{server}\" has no multi-tenant tables");
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
                    .with_hint(format!("Name one of wrapper \"{}\".", multi_tenant::WRAPPER)));
            }
            Err(_) => {
                let (oid, wrapper) = (catalog.allocate_oid(), multi_tenant::WRAPPER.to_string());
                let options = Options::default();
                let object = ServerObject { name: server, kind: None, version: None, wrapper, options };
                self.server = Some((oid, object));
                oid
            }
        };
        let url = TableColumn {
            name: URL.to_string(),
            ty: Type::new(Scalar::Text),
            not_null: false,
            default: None,
            default_oid: 0,
        };
        let columns = self.columns.iter().cloned().chain([url]).collect();
        let object = object(name.to_string(), oid, columns, Options::default());
        self.tables.push((catalog.allocate_oid(), object));
        Ok(())
    }

    /// A table on a server; without a name there is no foreign table for it.
    fn add_table(&mut self, catalog: &Catalog, server: &MigrateServer, name: Option<String>) -> Result<()> {
        let found = own_server(catalog, &server.name)?;
        if found.has_multi_tenant_tables() {
            let message = format!("server \"{}\" has multi-tenant tables only", server.name);
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
                .with_hint("Name the servers of its children."));
        }
        let remote = remote_name(&self.source);
        let options = with_table_name(found.wrapper, Options::new(&server.options)?, remote)?;
        self.notices.extend(checked(found.wrapper, Place::Table, &options)?);
        let known = name.clone().unwrap_or_else(|| self.source.name().to_string());
        let object = object(known, found.oid, self.columns.clone(), options);
        let definition = Arc::clone(&ForeignTable::new(0, object.clone()).definition);
        let node = format!("/{}/", server.name);
        let (server, connector) = (found.object.name.clone(), found.connector()?);
        self.targets.push(Target { server, node, table: definition, connector, refusal: None });
        if name.is_some() {
            self.tables.push((catalog.allocate_oid(), object));
        }
        Ok(())
    }

    /// The names of the new tables are free, or become free.
    fn check_names(&self, catalog: &Catalog) -> Result<()> {
        for (_, table) in &self.tables {
            if table.name.len() > NAME_BYTES_MAX {
                let message = format!("name \"{}\" is too long", table.name);
                return Err(SqlError::new(SqlState::INVALID_NAME, message)
                    .with_detail(format!("Names have at most {NAME_BYTES_MAX} bytes.")));
            }
            let is_replaced = self.gone.iter().any(|gone| gone.name() == table.name);
            if !is_replaced && catalog.get(&table.name).is_some() {
                return Err(exists(&table.name));
            }
        }
        Ok(())
    }

    /// Puts the foreign tables into the catalog, all or none.
    pub async fn install(&self, server: &Server) -> Result<()> {
        let catalog = &server.catalog;
        let _change = catalog.change.lock().await;
        // Other sessions may have made or dropped something meanwhile.
        self.check_names(catalog)?;
        let is_there = |gone: &&Relation| catalog.get(gone.name()).is_some_and(|r| r.oid() == gone.oid());
        if let Some(other) = self.gone.iter().find(|gone| !is_there(gone)) {
            return Err(missing("relation", other.name()));
        }
        let (gone, _) = dependency::with_dependents(catalog, self.gone.clone(), false)?;
        let servers = self.server.iter().map(|(oid, object)| Change::PutServer(*oid, object));
        let tables = self.tables.iter().map(|(oid, object)| Change::PutForeignTable(*oid, object));
        let removed = gone.iter().map(|relation| Change::Remove(relation.oid()));
        catalog.persist(&removed.chain(servers).chain(tables).collect::<Vec<_>>())?;
        drop::uninstall(server, &gone);
        if let Some((oid, object)) = &self.server {
            catalog.install_server(ForeignServer::new(*oid, object.clone(), vec![], &catalog.suspected)?);
        }
        for (oid, object) in &self.tables {
            catalog.install(Relation::Foreign(Arc::new(ForeignTable::new(*oid, object.clone()))));
        }
        Ok(())
    }
}

fn source(catalog: &Catalog, migrate: &Migrate) -> Result<Relation> {
    let name = public(&migrate.source)?;
    let at = migrate.source.position;
    let found = catalog.get(name).ok_or_else(|| missing("relation", name).with_position(at))?;
    match (&found, &migrate.target) {
        (Relation::Stream(_), _) => {
            let message = format!("\"{name}\" is a stream, whose rows are not kept");
            Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message).with_position(at))
        }
        (Relation::Transform(_), _) => {
            let message = format!("\"{name}\" is a continuous transform, whose rows are not kept");
            Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message).with_position(at))
        }
        (Relation::View(_) | Relation::PlainView(_), MigrateTarget::Replace) => {
            let message = format!("\"{name}\" is a view and cannot be replaced by a foreign table");
            Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message).with_position(at))
        }
        _ => Ok(found),
    }
}

/// Without the one that tells the node.
fn columns(source: &Relation) -> Result<Vec<TableColumn>> {
    let column = |name: &str, ty: Type, not_null: bool| TableColumn {
        name: name.to_string(),
        ty,
        not_null,
        default: None,
        default_oid: 0,
    };
    let columns: Vec<TableColumn> = match source {
        Relation::Table(table) => {
            table.object.columns.iter().map(|c| column(&c.name, c.ty, c.not_null)).collect()
        }
        Relation::Foreign(table) => {
            let columns = table.object.columns.iter().map(|c| &c.column);
            columns.map(|c| column(&c.name, c.ty, c.not_null)).collect()
        }
        Relation::PlainView(view) => {
            view.object.columns.iter().map(|(name, ty)| column(name, *ty, false)).collect()
        }
        Relation::View(view) => {
            let schema = datafusion::catalog::TableProvider::schema(view.table.as_ref());
            let fields = schema.fields().iter();
            fields.map(|f| Ok(column(f.name(), Type::of_field(f)?, false))).collect::<Result<_>>()?
        }
        Relation::Stream(_) | Relation::Transform(_) => vec![],
    };
    Ok(columns.into_iter().filter(|column| column.name != URL).collect())
}

/// The source with its children, which no view reads.
fn replaced(catalog: &Catalog, source: &Relation) -> Result<Vec<Relation>> {
    let mut gone = vec![source.clone()];
    if let Relation::Foreign(table) = source
        && catalog.server_of(table)?.has_multi_tenant_tables()
    {
        gone.extend(children_by_name(catalog, &table.object.name)?.into_iter().map(Relation::Foreign));
    }
    dependency::with_dependents(catalog, gone, false).map(|(gone, _)| gone)
}

/// The server of the source, if that is multi-tenant.
fn of_source(catalog: &Catalog, source: &Relation) -> Option<String> {
    let Relation::Foreign(table) = source else { return None };
    let server = catalog.server_of(table).ok()?;
    let is_named = server.has_multi_tenant_tables() && server.oid >= FIRST_USER_OID;
    is_named.then(|| server.object.name.clone())
}

/// What the new tables are called unless the options say: as the source on its own server.
fn remote_name(source: &Relation) -> &str {
    match source {
        Relation::Foreign(table) => &table.definition.remote_table,
        other => other.name(),
    }
}

/// Options that name the table there.
fn with_table_name(wrapper: &Wrapper, options: Options, name: &str) -> Result<Options> {
    let is_name = |known: &&str| {
        wrapper.options.iter().any(|spec| spec.name == *known && spec.places.contains(&Place::Table))
    };
    match ["table_name", "table"].into_iter().find(is_name) {
        Some(key) if options.get(key).is_none() => {
            let named = ForeignOption { name: key.to_string(), value: name.to_string() };
            options.changed(&[OptionChange::Add(named)])
        }
        _ => Ok(options),
    }
}

fn object(name: String, server: u32, columns: Vec<TableColumn>, options: Options) -> ForeignTableObject {
    let column = |column| ForeignTableColumn { column, options: Options::default() };
    let columns = columns.into_iter().map(column).collect();
    ForeignTableObject { name, server, columns, options, children: vec![] }
}
