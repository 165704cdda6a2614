//! What transforms write to foreign tables. It is kept here at the commit of the events that it comes from, and delivered in the
//! background: a server that is down keeps no events from coming in, and gets all of it when it is back.
//!
//! ```text
//! events ─► waiting ─(all of it, at one commit)─► sending ─(one transaction there)─► foreign table
//!                                                  mark: which transaction that is, and of which server
//! ```
//!
//! The mark is durable before the transaction there is committed. After a crash, or a connection that was lost at that moment, the
//! server is asked what became of it: so each row is there once. A server that cannot tell may get the rows of one such
//! transaction again.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use arrow::array::{Array, ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::Int64Type;
use datafusion::common::runtime::SpawnedTask;
use futures::{StreamExt, TryStreamExt};
use parking_lot::Mutex;
use tidemill_federation::cascade::Route;
use tidemill_federation::connector::Fate;
use tidemill_federation::underway::Underway;
use tidemill_federation::write::Writing;
use tidemill_sql::planner::{plan_error, vars};
use tidemill_sql::types::{Scalar, Type};
use tidemill_sql::{Result, SqlError, SqlState};
use tidemill_stream::engine::{Engine, Level, Part};
use tidemill_stream::view::ViewId;

use crate::catalog::{QueueObject, Relation, Table, TableColumn, TableObject};
use crate::insert::ForeignTarget;
use crate::pg::wire_error::Notice;
use crate::query;
use crate::server::Server;

/// How often it is looked whether something waits.
const POLL: Duration = Duration::from_millis(20);
/// What could not be delivered is tried again after so long, and after twice as long each time, up to a maximum.
const RETRY_MIN: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(5);

/// One output of a transform.
#[derive(Debug)]
pub struct Delivery {
    queue: Arc<Queue>,
    /// It delivers until it is dropped.
    task: Mutex<Option<SpawnedTask<()>>>,
}

#[derive(Debug)]
struct Queue {
    /// The number of the foreign table.
    output: u32,
    /// As it was called when the transform was planned.
    name: String,
    /// What the transform writes to.
    waiting: Arc<Table>,
    sending: Arc<Table>,
    mark: Arc<Table>,
    /// Bytes of what is not delivered, as of the last look.
    backlog_bytes: AtomicU64,
    status: Mutex<Status>,
}

#[derive(Debug, Clone, Default)]
pub struct Status {
    /// Since the server started.
    pub delivered_rows: u64,
    /// Why the last attempt failed.
    pub error: Option<SqlError>,
    /// Since when attempts fail, in microseconds since 1970.
    pub failing_since_us: Option<i64>,
}

impl Delivery {
    /// `name` is that of the foreign table.
    pub fn new(name: &str, object: &QueueObject) -> Result<Self> {
        let table = |oid, columns| {
            Ok::<_, SqlError>(Arc::new(Table::new(oid, TableObject { name: name.into(), columns })?))
        };
        let column = |name: &str, ty| TableColumn {
            name: name.into(),
            ty: Type::new(ty),
            not_null: false,
            default: None,
            default_oid: 0,
        };
        let marked = vec![column("id", Scalar::Text), column("server", Scalar::Int8)];
        let queue = Queue {
            output: object.output,
            name: name.to_string(),
            waiting: table(object.waiting, object.columns.clone())?,
            sending: table(object.sending, object.columns.clone())?,
            mark: table(object.mark, marked)?,
            backlog_bytes: AtomicU64::new(0),
            status: Mutex::default(),
        };
        Ok(Self { queue: Arc::new(queue), task: Mutex::default() })
    }

    /// The number of the foreign table.
    pub fn output(&self) -> u32 {
        self.queue.output
    }

    /// The foreign table, as it was called when the transform was planned.
    pub fn name(&self) -> &str {
        &self.queue.name
    }

    /// What the transform writes to.
    pub fn target(&self) -> &Arc<Table> {
        &self.queue.waiting
    }

    /// What the engine keeps of it.
    pub fn tables(&self) -> [&Arc<Table>; 3] {
        [&self.queue.waiting, &self.queue.sending, &self.queue.mark]
    }

    pub fn status(&self) -> Status {
        self.queue.status.lock().clone()
    }

    /// Rows that are not delivered yet, and their bytes in memory and on disk.
    pub fn backlog(&self) -> (usize, u64) {
        self.queue.backlog()
    }

    /// Refuses events while more than this waits.
    pub fn check(&self, limit_bytes: u64) -> Result<()> {
        if self.queue.backlog_bytes.load(Ordering::Relaxed) <= limit_bytes {
            return Ok(());
        }
        let name = &self.queue.name;
        let message =
            format!("what waits for foreign table \"{name}\" exceeds the limit of {limit_bytes} bytes");
        let error = SqlError::new(SqlState::CONFIGURATION_LIMIT_EXCEEDED, message).with_hint(
            "tidemill.deliveries tells what keeps it waiting; \"transform_backlog_limit\" is the limit.",
        );
        Err(match &self.queue.status.lock().error {
            Some(why) => error.with_detail(why.message.clone()),
            None => error,
        })
    }

    /// Delivers in the background.
    pub fn start(&self, server: &Arc<Server>) {
        let mut task = self.task.lock();
        task.get_or_insert_with(|| SpawnedTask::spawn(run(Arc::downgrade(server), Arc::clone(&self.queue))));
    }

    /// Takes it out of the engine; what has not been delivered is gone.
    pub fn end(&self, engine: &Engine) {
        drop(self.task.lock().take());
        self.tables().iter().for_each(|table| engine.remove_view(table.id()));
    }

    /// What is lost by its end.
    pub fn undelivered(&self) -> Option<Notice> {
        let (rows, _) = self.backlog();
        let (noun, verb) = if rows == 1 { ("row", "was") } else { ("rows", "were") };
        (rows > 0).then(|| {
            Notice::new(format!(
                "{rows} {noun} for foreign table \"{}\" {verb} not delivered",
                self.queue.name
            ))
        })
    }
}

impl Queue {
    fn backlog(&self) -> (usize, u64) {
        let of = |table: &Table| {
            let (rows, memory) = table.view.size();
            (rows, memory as u64 + table.view.disk_bytes())
        };
        let (waiting, sending) = (of(&self.waiting), of(&self.sending));
        (waiting.0 + sending.0, waiting.1 + sending.1)
    }

    fn note(&self, done: Result<u64>) -> bool {
        let (name, mut status) = (&self.name, self.status.lock());
        match done {
            Ok(rows) => {
                status.delivered_rows += rows;
                if status.error.take().is_some() {
                    tracing::info!(table = name, "rows of transforms are delivered again");
                }
                status.failing_since_us = None;
                true
            }
            Err(error) => {
                if status.error.as_ref().is_none_or(|known| known.message != error.message) {
                    tracing::warn!(table = name, %error, "rows of transforms could not be delivered and are kept");
                }
                status.failing_since_us.get_or_insert_with(vars::now_us);
                status.error = Some(error);
                false
            }
        }
    }
}

async fn run(server: Weak<Server>, queue: Arc<Queue>) {
    let mut pause = POLL;
    loop {
        tokio::time::sleep(pause).await;
        let Some(server) = server.upgrade().filter(|server| server.ailment().is_none()) else { return };
        let (rows, bytes) = queue.backlog();
        queue.backlog_bytes.store(bytes, Ordering::Relaxed);
        if rows == 0 {
            continue;
        }
        let Some(target) = queue.foreign_table(&server) else { continue };
        let done = queue.deliver(&server, &target).await;
        if let (Err(error), Some(_)) = (&done, server.ailment()) {
            return tracing::debug!(%error, "a delivery is left to the next start");
        }
        pause = match queue.note(done) {
            true => POLL,
            false => (pause * 2).clamp(RETRY_MIN, RETRY_MAX),
        };
    }
}

impl Queue {
    fn foreign_table(&self, server: &Server) -> Option<ForeignTarget> {
        server.catalog.relations().into_iter().find_map(|relation| match relation {
            Relation::Foreign(table) if table.oid == self.output => {
                Some(ForeignTarget { table, nodes: None })
            }
            _ => None,
        })
    }

    /// How many rows were delivered.
    async fn deliver(&self, server: &Server, target: &ForeignTarget) -> Result<u64> {
        if self.sending.view.groups() > 0 {
            if self.is_there(server).await? {
                return self.forget(server).await;
            }
        } else if self.waiting.view.groups() > 0 {
            let moved = server.engine.hand_over(self.waiting.id(), self.sending.id()).await;
            moved.map_err(|e| e.into_sql(plan_error))?;
        } else {
            return Ok(0);
        }
        self.send(server, target).await?;
        self.forget(server).await
    }

    /// Whether a transaction of before, whose end nobody has seen, has delivered what is being sent.
    async fn is_there(&self, server: &Server) -> Result<bool> {
        let marks: Vec<RecordBatch> =
            query::rows(server, &self.mark).await?.try_collect().await.map_err(plan_error)?;
        // Without a mark it was never committed.
        let Some(mark) = marks.iter().find(|batch| batch.num_rows() > 0) else { return Ok(false) };
        let (id, of) = (mark.column(0).as_string::<i32>(), mark.column(1).as_primitive::<Int64Type>());
        let of = u32::try_from(of.value(0)).ok().and_then(|of| server.catalog.server_numbered(of));
        let name = &self.name;
        let fate = match of {
            Some(of) if id.is_valid(0) => of.connector()?.fate(id.value(0)).await?,
            _ => Fate::Unknown,
        };
        match fate {
            Fate::Committed => return Ok(true),
            Fate::RolledBack => {}
            Fate::Running(why) => {
                let message =
                    format!("the last transaction that writes to \"{name}\" has not ended yet: {why}");
                return Err(SqlError::new(SqlState::OBJECT_IN_USE, message));
            }
            Fate::Unknown => {
                tracing::warn!(
                    table = name,
                    "rows of transforms are delivered again: their server does not tell whether it has them"
                );
            }
        }
        Ok(false)
    }

    /// It ends with the server: what was given up before the COMMIT is sent again at the next start.
    async fn send(&self, server: &Server, target: &ForeignTarget) -> Result<()> {
        let _underway = Underway::begin();
        let (target, of) = target.next(&server.catalog)?;
        let mut writing: Writing = target.writing(&server.catalog)?.along(Route::new(&server.identity, ""));
        let written = async {
            let mut rows = query::rows(server, &self.sending).await?;
            while let Some(batch) = rows.next().await {
                writing.insert(&batch.map_err(plan_error)?).await?;
            }
            self.set_mark(server, writing.id().await?, of).await?;
            writing.flush().await
        };
        tokio::select! {
            biased;
            written = written => written?,
            why = server.until_stopped() => return Err(SqlError::new(SqlState::ADMIN_SHUTDOWN, why)),
        };
        writing.commit(server.until_stopped()).await
    }

    /// `of` is the number of the server.
    async fn set_mark(&self, server: &Server, id: Option<String>, of: u32) -> Result<()> {
        let id: ArrayRef = Arc::new(StringArray::from(vec![id]));
        let of: ArrayRef = Arc::new(Int64Array::from(vec![i64::from(of)]));
        let events = self.mark.stream.events(vec![None, Some(id), Some(of)], 1, vars::now_us())?;
        let events = Part::Events { stream: self.mark.stream.id(), targets: None, batch: events };
        write(server, vec![emptied(&self.mark), events]).await
    }

    /// What was being sent is there.
    async fn forget(&self, server: &Server) -> Result<u64> {
        let rows = self.sending.view.groups() as u64;
        write(server, vec![emptied(&self.sending), emptied(&self.mark)]).await.map(|()| rows)
    }
}

fn emptied(table: &Table) -> Part {
    let view: ViewId = table.id();
    Part::Truncate { view }
}

async fn write(server: &Server, parts: Vec<Part>) -> Result<()> {
    server.engine.write(parts, Level::SyncCommit).await.map_err(|e| e.into_sql(plan_error))
}
