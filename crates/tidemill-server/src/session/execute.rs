//! From statement to outcome: one match.

use std::future::Future;
use std::sync::Arc;

use datafusion::common::ScalarValue;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use sqlparser::ast;
use tidemill_sql::planner::plan_error;
use tidemill_sql::statement::{Parsed, Statement};
use tidemill_sql::{Result, SqlError, SqlState};

use super::interrupt::Shield;
use super::rows::{Rows, Tag, describe, write_rows};
use super::wire::{Closed, Wire};
use super::write::Inserted;
use super::{Session, Transaction};
use crate::define;
use crate::pg::backend;
use crate::pg::wire_error::Notice;
use crate::query::kept::{Basis, KeptPlan, Watch};
use crate::query::{self, Reads, Ready, Running};

/// A statement either is answered, fails, or finds the connection gone.
pub type Step<T = ()> = std::result::Result<Result<T>, Closed>;

/// `?` for a [`Step`]: returns the inner error as an answer.
macro_rules! attempt {
    ($result:expr) => {
        match $result {
            Ok(value) => value,
            Err(error) => return Ok(Err(error)),
        }
    };
}
pub(super) use attempt;

/// What a statement gives.
pub(super) enum Outcome {
    /// It is done.
    Tag(String),
    /// Rows, and formats of theirs other than text: those of a binary cursor.
    Rows(Rows, Vec<i16>),
    /// The text had no statement.
    Empty,
}

impl Outcome {
    /// Tells the client; rows have been sent before.
    pub(super) fn complete(&self, wire: &mut Wire) {
        match self {
            Outcome::Tag(tag) => backend::command_complete(&mut wire.out, tag),
            Outcome::Rows(rows, _) => backend::command_complete(&mut wire.out, &rows.tag()),
            Outcome::Empty => backend::empty_query_response(&mut wire.out),
        }
    }
}

impl Session {
    /// 25P02, unless the statement ends a failed block.
    pub(super) fn check_failed(&self, statement: &Statement) -> Result<()> {
        let ends = matches!(
            statement,
            Statement::Commit { .. } | Statement::Rollback { .. } | Statement::RollbackTo(_)
        );
        if ends || !matches!(self.transaction, Transaction::Failed(_)) {
            return Ok(());
        }
        Err(SqlError::new(
            SqlState::IN_FAILED_SQL_TRANSACTION,
            "current transaction is aborted, commands ignored until end of transaction block",
        ))
    }

    /// Executes a statement. `whole` is the text to remember an insert's plan by; `values` are those of its parameters.
    pub(super) async fn execute(
        &mut self,
        wire: &mut Wire,
        parsed: Parsed,
        whole: Option<&str>,
        values: Vec<ScalarValue>,
    ) -> Step<Outcome> {
        attempt!(self.check_failed(&parsed.statement));
        self.start_statement();
        let Parsed { statement, text, .. } = parsed;
        match statement {
            Statement::Sql(statement) => match statement.as_ref() {
                ast::Statement::Insert(insert) => {
                    let Some(plan) = attempt!(self.insert_plan(insert)) else {
                        let done = Box::pin(self.insert_select(insert, &text, values)).await;
                        return Ok(done.map(Inserted::outcome));
                    };
                    let plan = Arc::new(plan);
                    if let Some(whole) = whole {
                        self.keep_insert(whole, &plan);
                    }
                    Ok(self.insert_now(&plan, &[]).await)
                }
                statement @ (ast::Statement::Update(_) | ast::Statement::Delete(_)) => {
                    Ok(Box::pin(self.modify(statement, &text, values)).await)
                }
                query => {
                    let rows = attempt!(Box::pin(self.select(query, &text, values)).await);
                    Ok(Ok(Outcome::Rows(rows, vec![])))
                }
            },
            Statement::Copy(copy) => Box::pin(self.copy(wire, copy)).await,
            Statement::CreateTableAs(create) => {
                Ok(Box::pin(self.create_table_as(wire, create, &text, values)).await)
            }
            Statement::Execute { name, arguments } => {
                Box::pin(self.execute_sql(wire, &name, &arguments)).await
            }
            Statement::Explain { options, statement } => {
                Ok(Box::pin(self.explain(options, &statement, &text, values)).await)
            }
            Statement::ExplainExecute { options, name, arguments } => {
                Ok(Box::pin(self.explain_execute(options, &name, &arguments)).await)
            }
            Statement::DeclareCursor(declare) => Ok(Box::pin(self.declare(declare, text, values)).await),
            Statement::Migrate(migrate) => Box::pin(self.migrate(wire, migrate)).await,
            // What is rare must not take room in the frames of what is not.
            other => Ok(Box::pin(self.command(wire, other)).await),
        }
    }

    /// A statement that returns rows.
    pub(super) async fn select(
        &mut self,
        statement: &ast::Statement,
        text: &str,
        values: Vec<ScalarValue>,
    ) -> Result<Rows> {
        let running = match values.is_empty() {
            true => self.run_text(statement, text).await?,
            false => self.run_query(statement, text, values).await?,
        };
        Ok(Rows::of_query(running, Tag::Counted("SELECT")))
    }

    /// As [`Session::run_query`], by the plan that is kept for the text if there is one.
    async fn run_text(&mut self, statement: &ast::Statement, text: &str) -> Result<Running> {
        self.start_query()?;
        let (server, basis) = (Arc::clone(&self.server), self.basis());
        let plans = &server.catalog.plans;
        if let Some(running) = self.run_kept(plans.get(text), &basis).await? {
            return Ok(running);
        }
        let state = self.planner();
        let plan = query::plan(&state, statement, text).await?;
        let (running, kept) = self.run_keeping(state, plan, basis).await?;
        if let Some(kept) = kept {
            plans.put(text, kept, || server.catalog.version());
        }
        Ok(running)
    }

    pub(super) fn basis(&self) -> Basis {
        Basis { catalog: self.server.catalog.version(), settings: self.settings.overridden() }
    }

    /// `None`: there is no plan that is still good.
    pub(super) async fn run_kept(
        &mut self,
        kept: Option<Arc<KeptPlan>>,
        basis: &Basis,
    ) -> Result<Option<Running>> {
        let Some(kept) = kept else { return Ok(None) };
        if !kept.is_good(basis).await {
            return Ok(None);
        }
        self.server.catalog.plans.note_use();
        let (reads, limit) = (self.reads(), self.settings.current().query_memory_limit_bytes);
        let ready = kept.ready(&self.server, self.planner(), reads, limit)?;
        self.start(ready).map(Some)
    }

    /// As [`Session::run_plan`], with a plan to be kept if it is one.
    pub(super) async fn run_keeping(
        &mut self,
        state: SessionState,
        plan: LogicalPlan,
        basis: Basis,
    ) -> Result<(Running, Option<Arc<KeptPlan>>)> {
        let watch = Watch::over(&plan, &state, basis);
        let (reads, limit) = (self.reads(), self.settings.current().query_memory_limit_bytes);
        let ready = query::ready(&self.server, state, plan, vec![], reads, limit).await?;
        let kept = watch.and_then(|watch| watch.keep(&ready));
        Ok((self.start(ready)?, kept))
    }

    fn reads(&mut self) -> Reads {
        self.work().map(|work| work.reads()).unwrap_or_default()
    }

    fn start(&mut self, ready: Ready) -> Result<Running> {
        let running = ready.run()?;
        self.follow_nodes(running.nodes.as_ref());
        Ok(running)
    }

    pub(super) async fn run_query(
        &mut self,
        statement: &ast::Statement,
        text: &str,
        values: Vec<ScalarValue>,
    ) -> Result<Running> {
        self.start_query()?;
        let state = self.planner();
        let plan = query::plan(&state, statement, text).await?;
        self.run_plan(state, plan, values).await
    }

    pub(super) async fn run_plan(
        &mut self,
        state: SessionState,
        plan: LogicalPlan,
        values: Vec<ScalarValue>,
    ) -> Result<Running> {
        let (reads, limit) = (self.reads(), self.settings.current().query_memory_limit_bytes);
        let ready = query::ready(&self.server, state, plan, values, reads, limit).await?;
        self.start(ready)
    }

    /// What comes before every read: the modes of the transaction are fixed, and from REPEATABLE READ on what it sees.
    pub(super) fn start_query(&mut self) -> Result<()> {
        self.start_statement();
        if !self.in_block() {
            return Ok(());
        }
        self.settings.query_seen();
        if !self.settings.keeps_snapshot() {
            return Ok(());
        }
        let server = Arc::clone(&self.server);
        if let Some(work) = self.work()
            && work.snapshot.is_none()
        {
            let snapshot =
                server.engine.snapshot(&server.catalog.kept()).map_err(|e| e.into_sql(plan_error))?;
            work.snapshot = Some(Arc::new(snapshot));
        }
        Ok(())
    }

    /// Sends all rows of an outcome of the simple protocol; the tag comes later.
    pub(super) async fn send(&mut self, wire: &mut Wire, outcome: &mut Outcome) -> Step {
        let Outcome::Rows(rows, formats) = outcome else { return Ok(Ok(())) };
        attempt!(describe(wire, &rows.schema, formats));
        let context = self.context();
        while let Some(batch) = attempt!(wire.flush_while(rows.next(usize::MAX)).await?) {
            let batch = attempt!(rows.shown(batch, formats));
            attempt!(write_rows(wire, &batch, &context, formats));
            wire.flush_if_full().await?;
        }
        if let Some(snapshots) = &rows.snapshots {
            attempt!(self.take_changes(wire, snapshots));
        }
        Ok(Ok(()))
    }

    /// A change of the catalog: on its own, whole or not at all.
    pub(super) async fn define(
        &mut self,
        wire: &mut Wire,
        tag: impl Into<String>,
        work: impl Future<Output = Result<Vec<Notice>>>,
    ) -> Result<Outcome> {
        let tag = tag.into();
        self.begin_definition(&tag).await?;
        let _shield = Shield::raised(&self.interrupt);
        let notices = work.await?;
        self.notices(wire, notices);
        Ok(Outcome::Tag(tag))
    }

    pub(super) async fn begin_definition(&mut self, tag: &str) -> Result<()> {
        self.refuse_in_block(tag)?;
        self.refuse_read_only(tag)?;
        // In a string of statements it comes after those before it, and before those after it.
        if matches!(self.transaction, Transaction::Implicit(_)) {
            self.end_implicit().await?;
            self.begin_implicit();
        }
        Ok(())
    }

    async fn command(&mut self, wire: &mut Wire, statement: Statement) -> Result<Outcome> {
        let server = Arc::clone(&self.server);
        match statement {
            Statement::CreateView(create) => {
                let tag = create.tag();
                let step_factor = self.settings.current().sliding_window_step_factor;
                let planner = self.planning();
                self.define(wire, tag, define::create_view(&planner, create, step_factor)).await
            }
            Statement::CreateStream(create) => {
                let tag = if create.server.is_some() { "CREATE FOREIGN TABLE" } else { "CREATE STREAM" };
                self.define(wire, tag, define::create_stream(&server, create)).await
            }
            Statement::CreateTable(create) => {
                let (planner, context) = (self.planner(), self.context());
                let work = define::create_table(&server, create, &planner, &context);
                self.define(wire, "CREATE TABLE", work).await
            }
            Statement::Foreign(statement) => {
                let (tag, planner) = (statement.tag(), self.planning());
                // What another server is asked can be interrupted; the change of the catalog is not.
                let imported = define::foreign::ask(&server, &statement).await?;
                self.define(wire, tag, define::foreign::carry_out(&planner, statement, imported)).await
            }
            Statement::Datasource(datasource) => self.datasource(&datasource).await,
            Statement::Truncate(truncate) => self.truncate(wire, &truncate).await,
            Statement::AlterStream { if_exists, name, action } => {
                let work = define::alter_stream(&server, &name, if_exists, action);
                self.define(wire, "ALTER STREAM", work).await
            }
            Statement::CreateExtension { if_not_exists, name } => {
                let notices = define::create_extension(&name, if_not_exists)?;
                self.notices(wire, notices);
                Ok(Outcome::Tag("CREATE EXTENSION".into()))
            }
            Statement::DropExtension { if_exists, names } => {
                let notices = define::drop_extension(&names, if_exists)?;
                self.notices(wire, notices);
                Ok(Outcome::Tag("DROP EXTENSION".into()))
            }
            Statement::AlterView { if_exists, name, action } => {
                let planner = self.planning();
                let work = define::alter_view(&planner, &name, if_exists, action);
                self.define(wire, "ALTER VIEW", work).await
            }
            Statement::Drop { kind, if_exists, names, cascade } => {
                let work = define::drop_objects(&server, kind, if_exists, &names, cascade);
                self.define(wire, format!("DROP {}", kind.keywords()), work).await
            }
            Statement::Comment { object, text } => {
                let work = define::comment::comment(&server.catalog, &object, text.as_deref());
                self.define(wire, "COMMENT", work).await
            }
            Statement::Activate(names) => self.activate(wire, "ACTIVATE", &names, true).await,
            Statement::Deactivate(names) => self.activate(wire, "DEACTIVATE", &names, false).await,
            Statement::Flush => {
                server.engine.flush().await.map_err(|e| e.into_sql(plan_error))?;
                Ok(Outcome::Tag("FLUSH".into()))
            }
            Statement::TruncateContinuousView(names) => {
                let work = async {
                    for name in &names {
                        let view = server.catalog.view(define::public(name)?)?;
                        server.engine.truncate(view.id()).await.map_err(|e| e.into_sql(plan_error))?;
                    }
                    Ok(vec![])
                };
                self.define(wire, "TRUNCATE CONTINUOUS VIEW", work).await
            }
            Statement::ExplainContinuousView { verbose, name } => self.explain_view(&name, verbose),
            Statement::Prepare { name, types, statement } => {
                self.prepare_sql(&name, &types, *statement).await
            }
            Statement::Deallocate(name) => self.deallocate(name.as_deref()),
            Statement::Fetch { cursor, direction, is_move } => self.fetch(&cursor, direction, is_move).await,
            Statement::Close(name) => self.close_cursor(name.as_deref()),
            Statement::Begin { .. }
            | Statement::Commit { .. }
            | Statement::Rollback { .. }
            | Statement::Savepoint(_)
            | Statement::Release(_)
            | Statement::RollbackTo(_)
            | Statement::SetTransaction { .. } => {
                let (tag, notices) = self.transaction_command(statement).await?;
                self.notices(wire, notices);
                Ok(Outcome::Tag(tag))
            }
            other => self.session_command(wire, other),
        }
    }

    async fn activate(
        &mut self,
        wire: &mut Wire,
        verb: &str,
        names: &[tidemill_sql::statement::Name],
        active: bool,
    ) -> Result<Outcome> {
        let server = Arc::clone(&self.server);
        let mut count = 0;
        let work = async {
            count = define::set_active(&server, names, active).await?;
            Ok(vec![])
        };
        self.define(wire, verb, work).await?;
        Ok(Outcome::Tag(format!("{verb} {count}")))
    }
}
