//! A session: one connection's settings, transaction, statements and portals, and the loop that serves it.

mod auth;
mod copy;
mod execute;
mod extended;
mod wire;

pub use auth::SUPERUSER;
pub(crate) use execute::format_of;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use datafusion::execution::session_state::SessionState;
use tidemill_sql::objects::NoObjects;
use tidemill_sql::planner::{SessionVars, vars};
use tidemill_sql::text::{Context, TimeZone};
use tidemill_sql::{Result, SqlError, SqlState, parse};
use tidemill_stream::engine::{Level, WriteSet};
use tokio::sync::Notify;

use crate::activity::{Activity, State};
use crate::pg::backend::{self, TransactionStatus};
use crate::pg::frontend::Frontend;
use crate::pg::wire_error::{Notice, ProtocolError, Recovery, Severity};
use crate::query;
use crate::server::{Peer, Server};
use crate::settings::{InsertLevel, SessionSettings};
use crate::system::{SessionInfo, Snapshots};

use auth::Opened;
use extended::{Portal, Prepared};
use wire::{Closed, Socket, Wire};

pub struct Session {
    server: Arc<Server>,
    settings: SessionSettings,
    user: String,
    transaction: Transaction,
    /// When the transaction, or the statement outside of one, began.
    began_us: i64,
    statements: HashMap<String, Arc<Prepared>>,
    portals: HashMap<String, Portal>,
    /// Inserts that were planned for a text, so that a repeated one is not parsed again.
    inserts: lru::LruCache<String, Arc<crate::insert::InsertPlan>>,
    cancel: Arc<Notify>,
    activity: Arc<Activity>,
    /// Whether the activity says that a statement runs.
    busy: bool,
}

/// Texts of inserts whose plans a session keeps.
const INSERT_CACHE_ENTRIES: usize = 64;
/// Longest text that is kept.
const INSERT_CACHE_TEXT_BYTES_MAX: usize = 4096;
/// Prepared statements of a session at most.
pub const STATEMENTS_MAX: usize = 10_000;

/// Where a session is with respect to transactions.
enum Transaction {
    None,
    /// Statements of one string, or of one pipeline up to Sync: committed at its end.
    Implicit(Option<WriteSet>),
    Open(Option<WriteSet>),
    Failed,
}

/// Serves a connection to its end.
pub async fn run(server: Arc<Server>, socket: Box<dyn Socket>, peer: Peer, client: Option<SocketAddr>) {
    let mut wire = Wire::new(socket);
    let opened = match auth::open(&server, &mut wire, peer).await {
        Ok(Opened::Session(request)) => request,
        Ok(Opened::Cancel) => return,
        Err(closed) => return tracing::debug!(%closed, "a connection was not opened"),
    };
    let (process_id, secret, cancel) = server.register();
    let mut settings = SessionSettings::new(Arc::clone(&server.config.settings), &opened.user);
    let started = settings.apply_startup(&opened.settings);
    let user = opened.user.clone();
    let mut session = Session {
        server: Arc::clone(&server),
        settings,
        user: opened.user,
        transaction: Transaction::None,
        began_us: vars::now_us(),
        statements: HashMap::new(),
        portals: HashMap::new(),
        inserts: lru::LruCache::new(
            std::num::NonZeroUsize::new(INSERT_CACHE_ENTRIES).unwrap_or(std::num::NonZeroUsize::MIN),
        ),
        cancel,
        activity: Arc::new(Activity::new(process_id, user, client)),
        busy: false,
    };
    server.show(Arc::clone(&session.activity));
    let closed = match started {
        Ok(notices) => {
            session.greet(&mut wire, process_id, &secret, notices);
            session.serve(&mut wire).await.err()
        }
        Err(error) => Some(auth::refuse(&mut wire, ProtocolError::fatal(error)).await),
    };
    server.unregister(process_id);
    if let Some(closed) = closed {
        tracing::debug!(%closed, "a session ended");
    }
}

impl Session {
    fn greet(&mut self, wire: &mut Wire, process_id: u32, secret: &[u8], notices: Vec<Notice>) {
        for (name, value) in self.settings.initial_reports() {
            backend::parameter_status(&mut wire.out, name, &value);
        }
        backend::backend_key_data(&mut wire.out, process_id, secret);
        self.notices(wire, notices);
        self.ready(wire);
    }

    async fn serve(&mut self, wire: &mut Wire) -> std::result::Result<(), Closed> {
        let mut skipping = false;
        loop {
            match wire.receive().await? {
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
                    self.end_implicit(wire).await;
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
                    if let Err(error) = self.extended(wire, message).await? {
                        self.fail(wire, &error);
                        skipping = true;
                    }
                }
            }
        }
    }

    /// The simple protocol: all statements of a string, one after the other, up to the first error.
    async fn simple(&mut self, wire: &mut Wire, text: &str) -> std::result::Result<(), Closed> {
        self.portals.remove("");
        if let Some(plan) = self.cached_insert(text) {
            if let Err(error) = self.insert_now(wire, &plan, &[]).await {
                self.fail(wire, &error);
            }
            return Ok(());
        }
        self.show_busy(text);
        let statements = match parse::parse(text) {
            Ok(statements) => statements,
            Err(error) => {
                self.fail(wire, &error);
                return Ok(());
            }
        };
        if statements.is_empty() {
            backend::empty_query_response(&mut wire.out);
            return Ok(());
        }
        let several = statements.len() > 1;
        if several && matches!(self.transaction, Transaction::None) {
            self.transaction = Transaction::Implicit(None);
        }
        let whole = (!several).then_some(text);
        for parsed in statements {
            let offset = parsed.offset;
            if let Err(error) = self.execute(wire, parsed, whole).await? {
                self.fail(wire, &error.moved_by(offset));
                break;
            }
        }
        self.end_implicit(wire).await;
        Ok(())
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

    /// Commits what an implicit transaction has gathered.
    async fn end_implicit(&mut self, wire: &mut Wire) {
        if !matches!(self.transaction, Transaction::Implicit(_)) {
            return;
        }
        let Transaction::Implicit(Some(set)) = std::mem::replace(&mut self.transaction, Transaction::None)
        else {
            return;
        };
        if let Err(error) = set.commit(self.level()).await {
            self.fail(wire, &error.into_sql(tidemill_sql::planner::plan_error));
        }
    }

    /// Reports an error; a transaction is over for everything but its end.
    fn fail(&mut self, wire: &mut Wire, error: &SqlError) {
        if error.state == SqlState::INTERNAL_ERROR {
            tracing::error!(message = error.message, "an internal error");
        }
        backend::error_response(&mut wire.out, Severity::Error, error);
        self.transaction = match std::mem::replace(&mut self.transaction, Transaction::None) {
            Transaction::Open(_) | Transaction::Failed => Transaction::Failed,
            _ => Transaction::None,
        };
    }

    /// Lets other sessions see the statement.
    fn show_busy(&mut self, text: &str) {
        self.busy = true;
        let in_block = matches!(self.transaction, Transaction::Open(_));
        let began_us = if in_block { self.began_us } else { vars::now_us() };
        self.activity.start(text, &self.settings.current().application_name, began_us);
    }

    fn show_waiting(&mut self) {
        if std::mem::take(&mut self.busy) {
            self.activity.wait(match self.transaction {
                Transaction::None | Transaction::Implicit(_) => State::Idle,
                Transaction::Open(_) => State::IdleInTransaction,
                Transaction::Failed => State::IdleInFailedTransaction,
            });
        }
    }

    /// Takes over what a statement changed by `set_config`.
    fn take_changes(&mut self, wire: &mut Wire, snapshots: &Snapshots) -> Result<()> {
        for change in snapshots.take_changes() {
            let notices = self.settings.set_text(&change.name, change.value.as_deref(), change.scope)?;
            self.notices(wire, notices);
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
                Transaction::Failed => TransactionStatus::Failed,
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

    fn level(&self) -> Level {
        match self.settings.current().insert_level {
            InsertLevel::Async => Level::Async,
            InsertLevel::SyncReceive => Level::SyncReceive,
            InsertLevel::SyncCommit => Level::SyncCommit,
        }
    }

    /// Inside a block the clock of `now()` stands still.
    fn start_statement(&mut self) {
        if !matches!(self.transaction, Transaction::Open(_)) {
            self.began_us = vars::now_us();
        }
    }

    fn context(&self) -> Context {
        let zone = self.settings.current().time_zone.name().to_string();
        Context { now_us: self.began_us, zone: TimeZone::parse(&zone).unwrap_or(TimeZone::UTC) }
    }

    fn vars(&self) -> SessionVars {
        SessionVars {
            transaction_now_us: self.began_us,
            statement_now_us: vars::now_us(),
            zone: self.context().zone,
            user: self.user.clone(),
            database: crate::tables::DATABASE.into(),
            search_path: crate::tables::existing(&self.settings.current().search_path),
            objects: Arc::new(NoObjects),
        }
    }

    /// A planner for one statement.
    fn planner(&self) -> SessionState {
        let vars = self.vars();
        let info = SessionInfo {
            process_id: self.activity.process_id,
            user: self.user.clone(),
            search_path: vars.search_path.clone(),
            settings: self.settings.clone(),
            server: self.activity.client.map(|_| self.server.config.listen),
            client: self.activity.client,
        };
        query::state_for(&self.server, vars, info)
    }

    /// The views that read what this session writes; `None` for all.
    fn targets(&self) -> Result<Option<Arc<[tidemill_stream::view::ViewId]>>> {
        let names = &self.settings.current().stream_targets;
        if names.is_empty() {
            return Ok(None);
        }
        let ids = names.iter().map(|n| Ok(self.server.catalog.view(n)?.id())).collect::<Result<Vec<_>>>()?;
        Ok(Some(ids.into()))
    }
}
