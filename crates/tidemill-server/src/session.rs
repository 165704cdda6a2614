//! A session: one connection's settings, transaction, statements and portals, and the loop that serves it.

mod asked;
mod auth;
mod command;
mod copy;
mod cursor;
mod execute;
mod explain;
mod extended;
mod foreign;
pub mod interrupt;
mod matched;
mod migrate;
mod modify;
mod parameter_type;
mod portals;
mod prepared;
mod returned;
mod rows;
mod subquery;
mod table;
mod traced;
mod transaction;
mod truncate;
pub mod wire;
mod write;

pub use auth::SUPERUSER;
pub(crate) use cursor::Declared;
pub(crate) use prepared::Prepared;
pub(crate) use rows::format_of;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::{Arc, Weak};

use datafusion::execution::session_state::SessionState;
use tidemill_federation::node::Nodes;
use tidemill_sql::objects::NoObjects;
use tidemill_sql::planner::{SessionVars, vars};
use tidemill_sql::statement::Parsed;
use tidemill_sql::text::{Context, Now};
use tidemill_sql::{Result, SqlError, SqlState, parse};
use tidemill_stream::engine::Level;
use tidemill_stream::view::ViewId;
use tokio::time::Instant;

use crate::activity::{Activity, State, without_secrets};
use crate::catalog::Table;
use crate::insert::Target;
use crate::listen::Connection;
use crate::pg::backend::{self, TransactionStatus};
use crate::pg::frontend::Frontend;
use crate::pg::wire_error::{Notice, ProtocolError, Recovery, Severity};
use crate::query::Planner;
use crate::registry::Entry;
use crate::server::Server;
use crate::settings::{InsertLevel, SessionSettings};
use crate::system::{SessionInfo, Snapshots};

use asked::Asked;
use auth::Opened;
use execute::Step;
use interrupt::Interrupt;
use portals::Portals;
use transaction::Transaction;
use wire::{Closed, Received, Socket, Wire};

pub struct Session {
    server: Arc<Server>,
    settings: SessionSettings,
    user: String,
    transaction: Transaction,
    /// When the transaction, or the statement outside of one, began.
    began_us: i64,
    statements: HashMap<String, Arc<Prepared>>,
    portals: Portals,
    next_portal: u64,
    /// Portals from here on were made in the current transaction.
    first_portal: u64,
    /// Inserts that were planned for a text, so that a repeated one is not parsed again.
    inserts: lru::LruCache<String, Arc<crate::insert::InsertPlan>>,
    /// The same of the extended protocol's statements without a name, which drivers prepare again and again.
    unnamed: lru::LruCache<String, Arc<Prepared>>,
    interrupt: Arc<Interrupt>,
    /// When the statement of the extended protocol that is under way has taken too long.
    deadline: Option<Instant>,
    activity: Arc<Activity>,
    /// Whether the activity says that a statement runs.
    busy: bool,
    /// The server's end of the connection.
    server_address: Option<SocketAddr>,
    /// The foreign tables that the last query that had any has read.
    nodes: Option<Arc<Nodes>>,
    /// Those of queries that may have something to say yet: of cursors, for example.
    reading: Vec<Weak<Nodes>>,
    /// What the statement has left out, besides.
    missing: Vec<SqlError>,
    asked: Asked,
}

/// Texts of inserts whose plans a session keeps.
const INSERT_CACHE_ENTRIES: NonZeroUsize = NonZeroUsize::new(64).expect("it is not zero");
/// Longest text that is kept.
const INSERT_CACHE_TEXT_BYTES_MAX: usize = 4096;
/// Prepared statements of a session at most.
const STATEMENTS_MAX: usize = 10_000;
/// Cursors and portals of a session at most.
const PORTALS_MAX: usize = 10_000;

/// Serves a connection to its end.
pub async fn run(server: Arc<Server>, socket: Box<dyn Socket>, connection: Connection) {
    let mut wire = Wire::new(socket);
    let limit = server.config.settings.authentication_timeout();
    let opening = tokio::time::timeout(limit, auth::open(&server, &mut wire, connection.peer));
    let opened = tokio::select! {
        opened = opening => opened,
        why = server.until_stopped() => return tracing::debug!(why, "a connection was not opened"),
    };
    let opened = match opened {
        Ok(Ok(Opened::Session(request))) => request,
        Ok(Ok(Opened::Cancel)) => return,
        Ok(Err(closed)) => return tracing::debug!(%closed, "a connection was not opened"),
        Err(_) => return tracing::debug!("a connection took too long to authenticate"),
    };
    let limit = server.config.settings.max_connections();
    let entry = match server.sessions.register(&opened.user, connection.client, limit) {
        Ok(entry) => entry,
        Err(error) => {
            auth::refuse(&mut wire, ProtocolError::fatal(error)).await;
            return;
        }
    };
    // Who ends all sessions may not have seen this one.
    if server.ailment().is_some() {
        entry.interrupt.terminate();
    }
    match wire.client() {
        Ok(client) => entry.interrupt.watch(client),
        Err(error) => tracing::warn!(%error, "a client's socket is not watched"),
    }
    let mut settings = SessionSettings::new(Arc::clone(&server.config.settings), &opened.user);
    let started = settings.apply_startup(&opened.settings);
    let mut session = Session::new(&server, settings, opened.user, &entry, &connection);
    let closed = match started {
        Ok(notices) => {
            session.greet(&mut wire, &entry, notices);
            session.serve(&mut wire).await.err()
        }
        Err(error) => Some(auth::refuse(&mut wire, ProtocolError::fatal(error)).await),
    };
    if let Some(closed) = closed {
        tracing::debug!(%closed, "a session ended");
    }
}

impl Session {
    fn new(
        server: &Arc<Server>,
        settings: SessionSettings,
        user: String,
        entry: &Entry,
        connection: &Connection,
    ) -> Self {
        Self {
            server: Arc::clone(server),
            settings,
            user,
            transaction: Transaction::None,
            began_us: vars::now_us(),
            statements: HashMap::new(),
            portals: Portals::default(),
            next_portal: 0,
            first_portal: 0,
            inserts: lru::LruCache::new(INSERT_CACHE_ENTRIES),
            unnamed: lru::LruCache::new(INSERT_CACHE_ENTRIES),
            interrupt: Arc::clone(&entry.interrupt),
            deadline: None,
            activity: Arc::clone(&entry.activity),
            busy: false,
            server_address: connection.server,
            nodes: None,
            reading: Vec::new(),
            missing: Vec::new(),
            asked: Asked::default(),
        }
    }

    fn greet(&mut self, wire: &mut Wire, entry: &Entry, notices: Vec<Notice>) {
        for (name, value) in self.settings.initial_reports() {
            backend::parameter_status(&mut wire.out, name, &value);
        }
        backend::backend_key_data(&mut wire.out, entry.activity.process_id, &entry.secret);
        self.notices(wire, notices);
        self.ready(wire);
    }

    async fn serve(&mut self, wire: &mut Wire) -> std::result::Result<(), Closed> {
        match self.answer_messages(wire).await {
            Err(Closed::Terminated) => {
                let error = SqlError::new(
                    SqlState::ADMIN_SHUTDOWN,
                    "terminating connection due to administrator command",
                );
                Err(auth::refuse(wire, ProtocolError::fatal(error)).await)
            }
            ended => ended,
        }
    }

    async fn answer_messages(&mut self, wire: &mut Wire) -> std::result::Result<(), Closed> {
        let mut skipping = false;
        loop {
            match self.receive(wire).await? {
                Err(error) if error.recovery == Recovery::Close => {
                    return Err(auth::refuse(wire, error).await);
                }
                Err(error) => {
                    self.fail(wire, &error.error);
                    match error.recovery {
                        Recovery::Ready => self.ready(wire),
                        _ => skipping = true,
                    }
                }
                Ok(Frontend::Terminate) => return Ok(()),
                Ok(Frontend::Sync) => {
                    skipping = false;
                    if let Err(error) = self.guarded_sync().await? {
                        self.fail(wire, &error);
                    }
                    self.ready(wire);
                }
                Ok(Frontend::Query(text)) if !skipping => {
                    self.simple(wire, text.as_str()).await?;
                    self.ready(wire);
                }
                // Messages of a COPY that failed are still on their way.
                Ok(Frontend::CopyData(_) | Frontend::CopyDone | Frontend::CopyFail(_)) => {}
                Ok(Frontend::Flush) => wire.flush().await?,
                Ok(Frontend::FunctionCall) => {
                    self.fail(wire, &SqlError::unsupported("the fast-path function call is not supported"));
                    self.ready(wire);
                }
                Ok(_) if skipping => {}
                Ok(message) => {
                    if let Err(error) = self.guarded_extended(wire, message).await? {
                        self.fail(wire, &error);
                        skipping = true;
                    }
                }
            }
        }
    }

    /// The next message. Waiting for it ends with the session, or when the client has been idle for too long.
    async fn receive(&mut self, wire: &mut Wire) -> std::result::Result<Received, Closed> {
        if let Some(received) = wire.received() {
            return Ok(received);
        }
        let current = self.settings.current();
        let (limit, state, message) = if self.in_block() {
            (
                current.idle_in_transaction_session_timeout,
                SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT,
                "terminating connection due to idle-in-transaction timeout",
            )
        } else {
            (
                current.idle_session_timeout,
                SqlState::IDLE_SESSION_TIMEOUT,
                "terminating connection due to idle-session timeout",
            )
        };
        let interrupt = Arc::clone(&self.interrupt);
        tokio::select! {
            biased;
            received = wire.receive() => received,
            () = interrupt.terminated() => Err(Closed::Terminated),
            () = elapsed(limit) => {
                let error = ProtocolError::fatal(SqlError::new(state, message));
                Err(auth::refuse(wire, error).await)
            }
        }
    }

    fn statement_deadline(&self) -> Option<Instant> {
        self.settings.current().statement_timeout.map(|limit| Instant::now() + limit)
    }

    /// The time limit counts from the first message to the end of Execute.
    async fn guarded_extended(&mut self, wire: &mut Wire, message: Frontend) -> Step {
        let executes = matches!(message, Frontend::Execute { .. });
        let interrupt = Arc::clone(&self.interrupt);
        if self.deadline.is_none() {
            // What came while nothing ran is for nothing, as in PostgreSQL.
            interrupt.forget_cancel();
            self.deadline = self.statement_deadline();
        }
        let deadline = self.deadline;
        let done = {
            let work = std::pin::pin!(self.extended(wire, message));
            interrupt.guard(deadline, work).await
        };
        if executes {
            self.deadline = None;
            interrupt.forget_cancel();
        }
        done
    }

    /// The commit of what the messages have gathered has a time limit of its own.
    async fn guarded_sync(&mut self) -> Step {
        self.deadline = None;
        if !matches!(self.transaction, Transaction::Implicit(_)) {
            return Ok(self.end_implicit().await);
        }
        let (interrupt, deadline) = (Arc::clone(&self.interrupt), self.statement_deadline());
        interrupt.forget_cancel();
        let work = std::pin::pin!(async { Ok(self.end_implicit().await) });
        interrupt.guard(deadline, work).await
    }

    /// The simple protocol: all statements of a string, one after the other, up to the first error.
    async fn simple(&mut self, wire: &mut Wire, text: &str) -> std::result::Result<(), Closed> {
        self.portals.remove("");
        let interrupt = Arc::clone(&self.interrupt);
        interrupt.forget_cancel();
        if !matches!(self.transaction, Transaction::Failed(_))
            && let Some(plan) = self.cached_insert(text)
        {
            let deadline = self.statement_deadline();
            let done = {
                let work = std::pin::pin!(async { Ok(self.insert_now(&plan, &[]).await) });
                interrupt.guard(deadline, work).await?
            };
            match done {
                Ok(outcome) => {
                    self.warn_of_nodes(wire);
                    outcome.complete(wire);
                }
                Err(error) => self.fail(wire, &error),
            }
            interrupt.forget_cancel();
            return Ok(());
        }
        self.show_busy(text);
        let statements = match parse::parse(text) {
            Ok(statements) => statements,
            Err(error) => {
                self.fail(wire, &without_secrets(error, text));
                return Ok(());
            }
        };
        if statements.is_empty() {
            backend::empty_query_response(&mut wire.out);
            return Ok(());
        }
        if statements.len() > 1 {
            self.begin_implicit();
        }
        let whole = (statements.len() == 1).then_some(text);
        let last = statements.len() - 1;
        for (i, parsed) in statements.into_iter().enumerate() {
            let offset = parsed.offset;
            let deadline = self.statement_deadline();
            let work = Box::pin(self.simple_statement(wire, parsed, whole, i == last));
            let done = interrupt.guard(deadline, work).await?;
            interrupt.forget_cancel();
            if let Err(error) = done {
                self.fail(wire, &error.moved_by(offset));
                break;
            }
        }
        Ok(())
    }

    /// The last statement of a string is done only when what the string has written is committed.
    async fn simple_statement(
        &mut self,
        wire: &mut Wire,
        parsed: Parsed,
        whole: Option<&str>,
        is_last: bool,
    ) -> Step {
        let mut outcome = match self.execute(wire, parsed, whole, vec![]).await? {
            Ok(outcome) => outcome,
            Err(error) => return Ok(Err(error)),
        };
        if let Err(error) = self.send(wire, &mut outcome).await? {
            return Ok(Err(error));
        }
        if is_last && let Err(error) = self.end_implicit().await {
            return Ok(Err(error));
        }
        self.warn_of_nodes(wire);
        outcome.complete(wire);
        Ok(Ok(()))
    }

    fn cached_insert(&mut self, text: &str) -> Option<Arc<crate::insert::InsertPlan>> {
        let plan = self.inserts.get(text)?;
        let current = plan.version == self.server.catalog.version();
        if current { Some(Arc::clone(plan)) } else { self.inserts.pop(text).and(None) }
    }

    fn keep_insert(&mut self, text: &str, plan: &Arc<crate::insert::InsertPlan>) {
        if text.len() <= INSERT_CACHE_TEXT_BYTES_MAX {
            self.inserts.put(text.to_string(), Arc::clone(plan));
        }
    }

    /// Reports an error; a transaction is over for everything but its end.
    fn fail(&mut self, wire: &mut Wire, error: &SqlError) {
        if error.state == SqlState::INTERNAL_ERROR {
            tracing::error!(message = error.message, "an internal error");
        }
        backend::error_response(&mut wire.out, Severity::Error, error);
        // There is no answer from which something could be missing.
        self.nodes.iter().for_each(|nodes| drop(nodes.warnings()));
        self.fail_transaction();
    }

    /// Lets other sessions see the statement.
    fn show_busy(&mut self, text: &str) {
        self.busy = true;
        let began_us = if self.in_block() { self.began_us } else { vars::now_us() };
        self.activity.start(text, &self.settings.current().application_name, began_us);
    }

    fn show_waiting(&mut self) {
        if std::mem::take(&mut self.busy) {
            self.activity.wait(match self.transaction {
                Transaction::None | Transaction::Implicit(_) => State::Idle,
                Transaction::Open(_) => State::IdleInTransaction,
                Transaction::Failed(_) => State::IdleInFailedTransaction,
            });
        }
    }

    /// Takes over what a statement changed by `set_config`, and answers `pg_reload_conf`.
    fn take_changes(&mut self, wire: &mut Wire, snapshots: &Snapshots) -> Result<()> {
        for change in snapshots.take_changes() {
            let notices = self.settings.set_text(&change.name, change.value.as_deref(), change.scope)?;
            self.notices(wire, notices);
        }
        if snapshots.take_reload() {
            self.notices(wire, vec![crate::settings::reload()]);
        }
        Ok(())
    }

    fn ready(&mut self, wire: &mut Wire) {
        self.show_waiting();
        for (name, value) in self.settings.take_reports() {
            backend::parameter_status(&mut wire.out, name, &value);
        }
        backend::ready_for_query(
            &mut wire.out,
            match self.transaction {
                Transaction::None | Transaction::Implicit(_) => TransactionStatus::Idle,
                Transaction::Open(_) => TransactionStatus::InTransaction,
                Transaction::Failed(_) => TransactionStatus::Failed,
            },
        );
    }

    fn notices(&self, wire: &mut Wire, notices: Vec<Notice>) {
        for notice in notices {
            if self.settings.current().shows(notice.severity) {
                backend::notice_response(&mut wire.out, &notice);
            }
        }
    }

    /// A query that reads foreign tables begins.
    fn follow_nodes(&mut self, nodes: Option<&Arc<Nodes>>) {
        if let Some(nodes) = nodes {
            let servers = nodes.all().iter().map(|node| node.server.as_str());
            self.asked.note(servers, &self.server.catalog);
            self.reading.push(Arc::downgrade(nodes));
            self.nodes = Some(Arc::clone(nodes));
        }
    }

    /// Tells what is missing from the answers so far, and which servers have gone or come back.
    fn warn_of_nodes(&mut self, wire: &mut Wire) {
        let mut warnings = std::mem::take(&mut self.missing);
        let (asked, catalog) = (&mut self.asked, &self.server.catalog);
        self.reading.retain(|nodes| {
            let Some(nodes) = nodes.upgrade() else { return false };
            let missing = nodes.warnings();
            if !missing.is_empty() {
                let named = nodes.all().iter().filter(|node| node.error().is_some());
                asked.told(named.map(|node| node.server.clone()), catalog);
            }
            warnings.extend(missing);
            true
        });
        let notice = |body| Notice { severity: Severity::Warning, body };
        self.notices(wire, warnings.into_iter().map(notice).collect());
        let changes = self.asked.changes(&self.server.catalog);
        self.notices(wire, changes);
    }

    fn level(&self) -> Level {
        match self.settings.current().insert_level {
            InsertLevel::Async => Level::Async,
            InsertLevel::SyncReceive => Level::SyncReceive,
            InsertLevel::SyncCommit => Level::SyncCommit,
        }
    }

    /// A table is not told from others by the setting for streams: what is in it is durable. `tables` are written to.
    fn level_of(&self, tables: &[Arc<Table>]) -> Level {
        if tables.is_empty() { self.level() } else { Level::SyncCommit }
    }

    /// Inside a transaction the clock of `now()` stands still.
    fn start_statement(&mut self) {
        if matches!(self.transaction, Transaction::None) {
            self.began_us = vars::now_us();
        }
    }

    fn context(&self) -> Context {
        Context { now: self.began_us.into(), zone: self.settings.current().zone.clone() }
    }

    fn vars(&self) -> SessionVars {
        SessionVars {
            transaction_now: Now::noting(self.began_us),
            statement_now_us: vars::now_us(),
            zone: self.settings.current().zone.clone(),
            user: self.user.clone(),
            database: crate::tables::DATABASE.into(),
            search_path: crate::tables::existing(&self.settings.current().search_path),
            objects: Arc::new(NoObjects),
        }
    }

    fn planner(&self) -> SessionState {
        self.planning().state()
    }

    /// A planner for one statement.
    fn planning(&self) -> Planner {
        let vars = self.vars();
        let info = SessionInfo {
            process_id: self.activity.process_id,
            search_path: vars.search_path.clone(),
            settings: self.settings.clone(),
            server: self.server_address,
            client: self.activity.client,
            cursors: self
                .portals
                .iter()
                .filter_map(|(name, portal)| Some((name.to_owned(), portal.declared.clone()?)))
                .collect(),
            statements: self.statements.iter().map(|(name, p)| (name.clone(), Arc::clone(p))).collect(),
            nodes: self.nodes.clone(),
        };
        Planner::new(&self.server, vars, info)
    }

    /// The views and transforms that read what this session writes to `target`; `None` for all.
    fn targets_of(&self, target: &Target) -> Result<Option<Arc<[ViewId]>>> {
        if target.table().is_some() { Ok(None) } else { self.targets() }
    }

    /// The views and transforms that read what this session writes; `None` for all.
    fn targets(&self) -> Result<Option<Arc<[ViewId]>>> {
        let names = &self.settings.current().stream_targets;
        if names.is_empty() {
            return Ok(None);
        }
        let ids = names.iter().map(|n| self.server.catalog.target(n)).collect::<Result<Vec<_>>>()?;
        Ok(Some(ids.into()))
    }
}

async fn elapsed(limit: Option<std::time::Duration>) {
    match limit {
        Some(limit) => tokio::time::sleep(limit).await,
        None => std::future::pending().await,
    }
}
