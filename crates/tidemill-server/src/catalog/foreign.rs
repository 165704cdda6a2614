//! Foreign servers with their user mappings, and foreign tables.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use serde::{Deserialize, Serialize};
use tidemill_federation::connector::Connector;
use tidemill_federation::multi_tenant::{self, URL};
use tidemill_federation::{self as federation, ForeignColumn, Options, TableDefinition, Wrapper};
use tidemill_sql::Result;
use tokio::sync::Notify;

use super::{Stream, StreamObject, TableColumn};
use crate::session::SUPERUSER;

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ServerObject {
    pub name: String,
    /// `TYPE 'text'`
    #[serde(rename = "type")]
    pub kind: Option<String>,
    pub version: Option<String>,
    pub wrapper: String,
    pub options: Options,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct UserMappingObject {
    /// The number of the server.
    pub server: u32,
    /// `None` is PUBLIC.
    pub user: Option<String>,
    pub options: Options,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ForeignTableObject {
    pub name: String,
    /// The number of the server.
    pub server: u32,
    pub columns: Vec<ForeignTableColumn>,
    pub options: Options,
    /// Of a multi-tenant table that names them; others are found by their names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<ChildObject>,
}

/// A table of a server.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ChildObject {
    /// The number of the server.
    pub server: u32,
    /// May be empty.
    pub schema: String,
    pub table: String,
    /// It has nodes itself, and a column that tells them.
    #[serde(default)]
    pub has_nodes: bool,
    /// As a foreign table of its server has.
    #[serde(default)]
    pub options: Options,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ForeignTableColumn {
    #[serde(flatten)]
    pub column: TableColumn,
    #[serde(default)]
    pub options: Options,
}

/// A foreign server. A change of it or of its mappings makes another one, with connections of its own.
#[derive(Debug)]
pub struct ForeignServer {
    pub oid: u32,
    pub object: ServerObject,
    pub wrapper: &'static Wrapper,
    /// With their numbers.
    pub mappings: Vec<(u32, UserMappingObject)>,
    reached: Arc<federation::Server>,
}

#[derive(Debug)]
pub struct ForeignTable {
    pub oid: u32,
    pub object: ForeignTableObject,
    pub definition: Arc<TableDefinition>,
    /// Stands for it where rows are written.
    pub stream: Arc<Stream>,
    /// Which node of a multi-tenant table gets the next row.
    pub turn: Arc<AtomicUsize>,
}

impl UserMappingObject {
    /// As messages name whom it is for.
    pub fn user(&self) -> &str {
        self.user.as_deref().unwrap_or("public")
    }
}

impl ForeignServer {
    /// `suspected` asks for its probe at once.
    pub fn new(
        oid: u32,
        object: ServerObject,
        mappings: Vec<(u32, UserMappingObject)>,
        suspected: &Arc<Notify>,
    ) -> Result<Self> {
        let wrapper = Wrapper::get(&object.wrapper)?;
        let of = |user: Option<&str>| {
            let found = mappings.iter().find(|(_, mapping)| mapping.user.as_deref() == user);
            found.map(|(_, mapping)| mapping.options.clone())
        };
        let mapping = of(Some(SUPERUSER)).or_else(|| of(None));
        let mut reached = federation::Server::new(&object.name, wrapper, object.options.clone(), mapping);
        if wrapper.name != multi_tenant::WRAPPER {
            reached = reached.watched(suspected);
        }
        Ok(Self { oid, object, wrapper, mappings, reached: Arc::new(reached) })
    }

    /// The server as it is reached, and whether it is there.
    pub fn reached(&self) -> &Arc<federation::Server> {
        &self.reached
    }

    /// The user's connections to it.
    pub fn connector(&self) -> Result<Arc<dyn Connector>> {
        self.reached.connector(SUPERUSER)
    }

    pub fn mapping(&self, user: Option<&str>) -> Option<&(u32, UserMappingObject)> {
        self.mappings.iter().find(|(_, mapping)| mapping.user.as_deref() == user)
    }
}

impl ForeignTable {
    pub fn new(oid: u32, object: ForeignTableObject) -> Self {
        let definition = Arc::new(TableDefinition {
            name: object.name.clone(),
            columns: object.remote_columns().collect(),
            remote_schema: object.option(SCHEMA_OPTIONS).unwrap_or_default().to_string(),
            nodes: vec![],
            remote_table: object.option(TABLE_OPTIONS).unwrap_or(&object.name).to_string(),
            options: object.options.clone(),
        });
        let columns = object.columns.iter().map(|c| (c.column.name.clone(), c.column.ty)).collect();
        let stream = StreamObject { name: object.name.clone(), columns, declared: true, server: None };
        Self { oid, object, definition, stream: Arc::new(Stream::new(oid, stream)), turn: Arc::default() }
    }
}

/// Where the wrappers have the names that a table has on the other side.
pub const SCHEMA_OPTIONS: [&str; 2] = ["schema_name", "dbname"];
pub const TABLE_OPTIONS: [&str; 2] = ["table_name", "table"];

impl ForeignTableObject {
    fn option(&self, names: [&str; 2]) -> Option<&str> {
        names.into_iter().find_map(|name| self.options.get(name))
    }

    fn remote_columns(&self) -> impl Iterator<Item = ForeignColumn> {
        self.columns.iter().map(|ForeignTableColumn { column, options }| ForeignColumn {
            is_state: false,
            name: column.name.clone(),
            ty: column.ty,
            not_null: column.not_null,
            remote: options.get("column_name").unwrap_or(&column.name).to_string(),
            options: options.clone(),
        })
    }

    /// Whether it is one of several servers' tables.
    pub fn uses(&self, server: u32) -> bool {
        self.server == server || self.children.iter().any(|child| child.server == server)
    }

    /// A child that a multi-tenant table names.
    pub fn child(&self, server: &str, child: &ChildObject) -> TableDefinition {
        TableDefinition {
            name: format!("{server}.{}", child.table),
            columns: self.remote_columns().filter(|c| child.has_nodes || c.name != URL).collect(),
            remote_schema: child.schema.clone(),
            remote_table: child.table.clone(),
            nodes: vec![],
            options: child.options.clone(),
        }
    }
}

/// The server of multi-tenant tables that name their children.
pub const MULTI_TENANT_SERVER_OID: u32 = 14_992;

impl ForeignServer {
    pub fn of_multi_tenant_tables() -> Result<Self> {
        let object = ServerObject {
            name: "tidemill".into(),
            kind: None,
            version: None,
            wrapper: multi_tenant::WRAPPER.into(),
            options: Options::default(),
        };
        Self::new(MULTI_TENANT_SERVER_OID, object, vec![], &Arc::default())
    }

    pub fn has_multi_tenant_tables(&self) -> bool {
        self.wrapper.name == multi_tenant::WRAPPER
    }
}
