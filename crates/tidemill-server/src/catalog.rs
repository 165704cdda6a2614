//! The catalog: which streams, views, tables and foreign servers there are, kept in one ACID file.
//!
//! The file holds definitions only: names, columns, the text of queries. States belong to the engine, which knows
//! objects by their numbers alone; a number is never used twice, so a state that outlives its definition after a crash
//! is recognised as nobody's.

mod foreign;
mod object;
mod store;
mod table;
mod transform;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use parking_lot::{Mutex, RwLock};
use sqlparser::ast::Query;
use tidemill_sql::parse::parse_query;
use tidemill_sql::planner::plan_error;
use tidemill_sql::types::Type;
use tidemill_sql::{Result, SqlError, SqlState};
use tidemill_stream::stream::{StreamDefinition, StreamId, StreamTable};
use tidemill_stream::view::{View, ViewId, ViewTable};
use tokio::sync::Notify;

use crate::delivery::Delivery;
use crate::join::joining;
use crate::query::kept::KeptPlans;

pub use foreign::{
    ChildObject, ForeignServer, ForeignTable, ForeignTableColumn, ForeignTableObject,
    MULTI_TENANT_SERVER_OID, SCHEMA_OPTIONS, ServerObject, TABLE_OPTIONS, UserMappingObject,
};
pub use object::{
    PlainViewObject, QueueObject, StreamObject, TableColumn, TableObject, TransformObject, ViewObject,
    ViewOptions,
};
pub use store::Loaded;
use store::Store;
pub use table::{Default, Table};
pub use transform::{ContinuousTransform, Ways};

/// The first number of a user's object, as in PostgreSQL.
pub const FIRST_USER_OID: u32 = 16_384;

/// A relation that users can name.
#[derive(Debug, Clone)]
pub enum Relation {
    Stream(Arc<Stream>),
    View(Arc<ContinuousView>),
    Transform(Arc<ContinuousTransform>),
    Table(Arc<Table>),
    PlainView(Arc<PlainView>),
    Foreign(Arc<ForeignTable>),
}

#[derive(Debug)]
pub struct Stream {
    pub oid: u32,
    pub object: StreamObject,
    pub definition: StreamDefinition,
    pub table: Arc<StreamTable>,
    schema: SchemaRef,
    pub stats: Arc<StreamStats>,
}

/// Counters since the server started.
#[derive(Debug, Default)]
pub struct StreamStats {
    pub rows: AtomicU64,
    pub batches: AtomicU64,
    pub bytes: AtomicU64,
}

#[derive(Debug)]
pub struct ContinuousView {
    pub oid: u32,
    pub object: ViewObject,
    pub view: Arc<View>,
    pub table: Arc<ViewTable>,
}

#[derive(Debug)]
pub struct PlainView {
    pub oid: u32,
    pub object: PlainViewObject,
    pub query: Box<Query>,
}

impl Relation {
    pub fn oid(&self) -> u32 {
        match self {
            Relation::Stream(s) => s.oid,
            Relation::View(v) => v.oid,
            Relation::Transform(t) => t.oid,
            Relation::Table(t) => t.oid,
            Relation::PlainView(v) => v.oid,
            Relation::Foreign(t) => t.oid,
        }
    }

    pub fn name(&self) -> &str {
        match self {
            Relation::Stream(s) => &s.object.name,
            Relation::View(v) => &v.object.name,
            Relation::Transform(t) => &t.object.name,
            Relation::Table(t) => &t.object.name,
            Relation::PlainView(v) => &v.object.name,
            Relation::Foreign(t) => &t.object.name,
        }
    }

    /// As messages name the kind.
    pub fn kind(&self) -> &'static str {
        match self {
            Relation::Stream(_) => "stream",
            Relation::View(_) => "continuous view",
            Relation::Transform(_) => "continuous transform",
            Relation::Table(_) => "table",
            Relation::PlainView(_) => "view",
            Relation::Foreign(_) => "foreign table",
        }
    }
}

impl PlainView {
    pub fn new(oid: u32, object: PlainViewObject) -> Result<Self> {
        let query = parse_query(&object.query)?;
        Ok(Self { oid, object, query })
    }

    pub fn columns(&self) -> &[(String, Type)] {
        &self.object.columns
    }
}

impl Stream {
    pub fn new(oid: u32, object: StreamObject) -> Self {
        let definition = StreamDefinition {
            id: StreamId(oid),
            name: object.name.clone(),
            columns: object.columns.clone(),
        };
        let table = Arc::new(StreamTable::new(&definition));
        let schema = definition.event_schema();
        Self { oid, object, definition, table, schema, stats: Arc::default() }
    }

    /// The same stream with another definition: its figures go on.
    pub fn altered(&self, object: StreamObject) -> Self {
        Self { stats: Arc::clone(&self.stats), ..Self::new(self.oid, object) }
    }

    pub fn id(&self) -> StreamId {
        StreamId(self.oid)
    }

    /// A batch of events; `columns` are in the order of the events, the time of arrival first.
    pub fn events(
        &self,
        columns: Vec<Option<ArrayRef>>,
        rows: usize,
        arrival_us: i64,
    ) -> Result<RecordBatch> {
        StreamDefinition::event_batch(&self.schema, columns, rows, arrival_us).map_err(plan_error)
    }

    /// The number of columns of its events.
    pub fn width(&self) -> usize {
        self.schema.fields().len()
    }

    pub fn count(&self, rows: usize, bytes: usize) {
        self.stats.rows.fetch_add(rows as u64, Ordering::Relaxed);
        self.stats.batches.fetch_add(1, Ordering::Relaxed);
        self.stats.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

impl ContinuousView {
    pub fn id(&self) -> ViewId {
        ViewId(self.oid)
    }

    pub fn streams(&self) -> Vec<StreamId> {
        self.view.plan.streams()
    }
}

/// Comments by relation and column; that on the relation itself has no column.
pub type Comments = BTreeMap<(u32, String), String>;

/// All relations. Readers take a cheap copy of the maps' entries; one statement at a time changes them.
#[derive(Debug)]
pub struct Catalog {
    store: Store,
    relations: RwLock<HashMap<String, Relation>>,
    /// By number.
    servers: RwLock<BTreeMap<u32, Arc<ForeignServer>>>,
    comments: RwLock<Arc<Comments>>,
    /// The tables behind streams.
    behind: RwLock<HashMap<StreamId, Arc<[Arc<Table>]>>>,
    /// What is to be delivered of what is written to streams.
    deliveries: RwLock<HashMap<StreamId, Arc<[Arc<Delivery>]>>>,
    next_oid: Mutex<u32>,
    /// Grows with every change; what was planned against another version is planned again.
    version: AtomicU64,
    /// Those of this version.
    pub(crate) plans: KeptPlans,
    /// Held by the statement that changes the catalog, from its checks to the end.
    pub change: tokio::sync::Mutex<()>,
    /// Shared by who writes events, so that no way leads to other tables meanwhile; held alone by who makes a transform.
    pub writing: tokio::sync::RwLock<()>,
    /// Somebody found a foreign server dead: it is probed now.
    pub suspected: Arc<Notify>,
}

impl Catalog {
    /// Opens the file; its objects are given to the caller, who plans them and puts them in with
    /// [`Catalog::install`].
    pub fn open(path: &Path) -> Result<(Catalog, Loaded)> {
        let store = Store::open(path)?;
        let mut loaded = store.load()?;
        let comments = std::mem::take(&mut loaded.comments).into_iter();
        let comments = comments.map(|(oid, column, text)| ((oid, column), text)).collect();
        let catalog = Catalog {
            store,
            relations: RwLock::default(),
            servers: RwLock::default(),
            comments: RwLock::new(Arc::new(comments)),
            behind: RwLock::default(),
            deliveries: RwLock::default(),
            next_oid: Mutex::new(loaded.next_oid.max(FIRST_USER_OID)),
            version: AtomicU64::new(1),
            plans: KeptPlans::default(),
            change: tokio::sync::Mutex::new(()),
            writing: tokio::sync::RwLock::default(),
            suspected: Arc::default(),
        };
        catalog.install_server(ForeignServer::of_multi_tenant_tables()?);
        Ok((catalog, loaded))
    }

    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    pub fn get(&self, name: &str) -> Option<Relation> {
        self.relations.read().get(name).cloned()
    }

    pub fn stream(&self, name: &str) -> Option<Arc<Stream>> {
        match self.get(name) {
            Some(Relation::Stream(stream)) => Some(stream),
            _ => None,
        }
    }

    /// The view of this name, or PostgreSQL's errors for another kind of relation and for none.
    pub fn view(&self, name: &str) -> Result<Arc<ContinuousView>> {
        match self.get(name) {
            Some(Relation::View(view)) => Ok(view),
            Some(other) => Err(SqlError::new(
                SqlState::WRONG_OBJECT_TYPE,
                format!("\"{name}\" is a {}, not a continuous view", other.kind()),
            )),
            None => Err(SqlError::new(
                SqlState::UNDEFINED_TABLE,
                format!("continuous view \"{name}\" does not exist"),
            )),
        }
    }

    /// All relations, by number.
    pub fn relations(&self) -> Vec<Relation> {
        let mut all: Vec<_> = self.relations.read().values().cloned().collect();
        all.sort_by_key(Relation::oid);
        all
    }

    pub fn streams(&self) -> Vec<Arc<Stream>> {
        self.relations()
            .into_iter()
            .filter_map(|r| if let Relation::Stream(s) = r { Some(s) } else { None })
            .collect()
    }

    pub fn views(&self) -> Vec<Arc<ContinuousView>> {
        self.relations()
            .into_iter()
            .filter_map(|r| if let Relation::View(v) = r { Some(v) } else { None })
            .collect()
    }

    /// The table of this name, or PostgreSQL's errors for another kind of relation and for none.
    pub fn table(&self, name: &str) -> Result<Arc<Table>> {
        match self.get(name) {
            Some(Relation::Table(table)) => Ok(table),
            Some(_) => Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{name}\" is not a table"))),
            None => {
                Err(SqlError::new(SqlState::UNDEFINED_TABLE, format!("relation \"{name}\" does not exist")))
            }
        }
    }

    /// All whose state the engine keeps: views and tables.
    pub fn kept(&self) -> Vec<ViewId> {
        let id = |relation: &Relation| match relation {
            Relation::View(view) => Some(view.id()),
            Relation::Table(table) => Some(table.id()),
            Relation::Stream(_) | Relation::Transform(_) | Relation::PlainView(_) | Relation::Foreign(_) => {
                None
            }
        };
        self.relations().iter().filter_map(id).collect()
    }

    /// The views that read a stream.
    pub fn readers(&self, stream: StreamId) -> Vec<Arc<ContinuousView>> {
        self.views().into_iter().filter(|v| v.streams().contains(&stream)).collect()
    }

    /// The views that name a relation in their queries.
    pub fn plain_readers(&self, name: &str) -> Vec<Arc<PlainView>> {
        let reads = |view: &PlainView| view.object.reads.iter().any(|read| read == name);
        self.relations()
            .into_iter()
            .filter_map(|r| if let Relation::PlainView(v) = r { Some(v) } else { None })
            .filter(|view| reads(view))
            .collect()
    }

    /// What can't be without a relation: the continuous views and transforms that read a stream, write to it or join a table, the
    /// views that name it.
    pub fn dependents(&self, relation: &Relation) -> Vec<Relation> {
        let (oid, stream) = (relation.oid(), StreamId(relation.oid()));
        let folding = match relation {
            Relation::Stream(_) => self.readers(stream).into_iter().map(Relation::View).collect(),
            Relation::Table(_) | Relation::Foreign(_) => joining(self, relation.name()),
            _ => vec![],
        };
        let carries = |t: &Arc<ContinuousTransform>| t.streams().contains(&stream) || t.writes_to(oid);
        let carrying = self.transforms().into_iter().filter(carries).map(Relation::Transform);
        let carrying =
            carrying.filter(|t| !folding.iter().any(|known| known.oid() == t.oid())).collect::<Vec<_>>();
        let naming = self.plain_readers(relation.name()).into_iter().map(Relation::PlainView);
        folding.into_iter().chain(carrying).chain(naming).collect()
    }

    /// A number that no object ever had. It lasts once something is stored.
    pub fn allocate_oid(&self) -> u32 {
        let mut next = self.next_oid.lock();
        let oid = *next;
        *next += 1;
        oid
    }

    fn note_change(&self) {
        self.version.fetch_add(1, Ordering::AcqRel);
        self.plans.clear();
    }

    /// Puts a relation in that the file has already.
    pub fn install(&self, relation: Relation) {
        let carries = matches!(relation, Relation::Transform(_));
        self.relations.write().insert(relation.name().to_string(), relation);
        if carries {
            self.find_ways();
        }
        self.note_change();
    }

    /// Takes a relation out that the file no longer has.
    pub fn uninstall(&self, name: &str) {
        let gone = self.relations.write().remove(name);
        if matches!(gone, Some(Relation::Transform(_))) {
            self.find_ways();
        }
        self.note_change();
    }

    /// All foreign servers, by number.
    pub fn servers(&self) -> Vec<Arc<ForeignServer>> {
        self.servers.read().values().cloned().collect()
    }

    /// The server of this name, or PostgreSQL's error.
    pub fn server(&self, name: &str) -> Result<Arc<ForeignServer>> {
        self.servers().into_iter().find(|server| server.object.name == name).ok_or_else(|| {
            SqlError::new(SqlState::UNDEFINED_OBJECT, format!("server \"{name}\" does not exist"))
        })
    }

    /// The server of this number.
    pub fn server_numbered(&self, oid: u32) -> Option<Arc<ForeignServer>> {
        self.servers.read().get(&oid).cloned()
    }

    /// The server of a foreign table.
    pub fn server_of(&self, table: &ForeignTable) -> Result<Arc<ForeignServer>> {
        let found = self.servers.read().get(&table.object.server).cloned();
        found.ok_or_else(|| {
            SqlError::internal(format!("foreign table \"{}\" has no server", table.object.name))
        })
    }

    /// The tables that are, or have children, of a foreign server.
    pub fn foreign_tables(&self, server: u32) -> Vec<Arc<ForeignTable>> {
        self.relations()
            .into_iter()
            .filter_map(|r| if let Relation::Foreign(t) = r { Some(t) } else { None })
            .filter(|table| table.object.uses(server))
            .collect()
    }

    /// As [`Catalog::install`], of a server.
    pub fn install_server(&self, server: ForeignServer) {
        self.servers.write().insert(server.oid, Arc::new(server));
        self.note_change();
    }

    /// As [`Catalog::uninstall`], of a server.
    pub fn uninstall_server(&self, oid: u32) {
        self.servers.write().remove(&oid);
        self.note_change();
    }

    /// Makes changes durable, all or none.
    pub fn persist(&self, changes: &[Change<'_>]) -> Result<()> {
        self.store.apply(changes, *self.next_oid.lock())?;
        let mut comments = self.comments.write();
        for change in changes {
            match change {
                Change::Comment { oid, column, text: Some(text) } => {
                    Arc::make_mut(&mut *comments).insert((*oid, column.to_string()), text.to_string());
                }
                Change::Comment { oid, column, text: None } => {
                    Arc::make_mut(&mut *comments).remove(&(*oid, column.to_string()));
                }
                Change::Remove(oid) if comments.keys().any(|(of, _)| of == oid) => {
                    Arc::make_mut(&mut *comments).retain(|(of, _), _| of != oid);
                }
                _ => {}
            }
        }
        Ok(())
    }

    pub fn comments(&self) -> Arc<Comments> {
        Arc::clone(&self.comments.read())
    }

    /// Bytes of the catalog's file.
    pub fn disk_bytes(&self) -> u64 {
        self.store.disk_bytes()
    }
}

/// One change of the file.
#[derive(Debug)]
pub enum Change<'a> {
    PutStream(u32, &'a StreamObject),
    PutView(u32, &'a ViewObject),
    PutTransform(u32, &'a TransformObject),
    PutTable(u32, &'a TableObject),
    PutPlainView(u32, &'a PlainViewObject),
    PutServer(u32, &'a ServerObject),
    PutUserMapping(u32, &'a UserMappingObject),
    PutForeignTable(u32, &'a ForeignTableObject),
    /// With its comments.
    Remove(u32),
    Comment {
        oid: u32,
        column: &'a str,
        text: Option<&'a str>,
    },
}
