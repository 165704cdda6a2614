//! From statement to outcome: one match.

use std::sync::Arc;

use arrow::array::{RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::ScalarValue;
use futures::StreamExt;
use sqlparser::ast;
use tidemill_sql::insert::insert_shape;
use tidemill_sql::planner::{display_name, plan_error};
use tidemill_sql::statement::{Parsed, Statement};
use tidemill_sql::text::Context;
use tidemill_sql::types::Type;
use tidemill_sql::{Result, SqlError, SqlState};
use tidemill_stream::engine::Part;

use super::wire::{Closed, Wire};
use super::{Session, Transaction};
use crate::define;
use crate::insert::{InsertPlan, Parameter};
use crate::pg::backend::{self, ColumnDesc, RowWriter};
use crate::pg::wire_error::Notice;
use crate::query;
use crate::settings::Scope;
use crate::value::ValueEncoder;

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

impl Session {
    /// Executes a statement of the simple protocol. `whole` is the text to remember an insert's plan by.
    pub(super) async fn execute(&mut self, wire: &mut Wire, parsed: Parsed, whole: Option<&str>) -> Step {
        let ends = matches!(
            parsed.statement,
            Statement::Commit { .. } | Statement::Rollback { .. } | Statement::RollbackTo(_)
        );
        if matches!(self.transaction, Transaction::Failed) && !ends {
            return Ok(Err(SqlError::new(
                SqlState::IN_FAILED_SQL_TRANSACTION,
                "current transaction is aborted, commands ignored until end of transaction block",
            )));
        }
        self.start_statement();
        let Parsed { statement, text, .. } = parsed;
        match statement {
            Statement::Sql(statement) => match statement.as_ref() {
                ast::Statement::Insert(insert) => {
                    let Some(shape) = insert_shape(insert) else {
                        return Ok(self.insert_select(wire, insert, &text).await);
                    };
                    let plan = Arc::new(attempt!(InsertPlan::new(&self.server, shape)));
                    if let Some(whole) = whole {
                        self.keep_insert(whole, &plan);
                    }
                    Ok(self.insert_now(wire, &plan, &[]).await)
                }
                statement => self.select(wire, statement, &text).await,
            },
            Statement::Copy(copy) => self.copy(wire, copy).await,
            other => Ok(self.command(wire, other).await),
        }
    }

    async fn select(&mut self, wire: &mut Wire, statement: &ast::Statement, text: &str) -> Step {
        let state = self.planner();
        let plan = attempt!(query::plan(&state, statement, text).await);
        let running = attempt!(query::run(&self.server, state, plan, vec![]).await);
        self.send_rows(wire, running, &[]).await
    }

    /// Sends a result: description, rows, tag.
    async fn send_rows(&mut self, wire: &mut Wire, mut running: query::Running, formats: &[i16]) -> Step {
        attempt!(describe(wire, &running.schema, formats));
        let context = self.context();
        let mut rows = 0;
        let cancel = Arc::clone(&self.cancel);
        let timeout = self.settings.current().statement_timeout;
        let deadline = timeout.map(|t| tokio::time::Instant::now() + t);
        loop {
            let next = tokio::select! {
                next = running.stream.next() => next,
                () = cancel.notified() => {
                    return Ok(Err(SqlError::new(SqlState::QUERY_CANCELED, "canceling statement due to user request")));
                }
                () = sleep_until(deadline) => {
                    return Ok(Err(SqlError::new(SqlState::QUERY_CANCELED, "canceling statement due to statement timeout")));
                }
            };
            let Some(batch) = next else { break };
            let batch = attempt!(batch.map_err(plan_error).and_then(|b| running.with_names(b, formats)));
            rows += batch.num_rows();
            attempt!(write_rows(wire, &batch, &context, formats));
            wire.flush_if_full().await?;
        }
        if let Some(snapshots) = &running.snapshots {
            attempt!(self.take_changes(wire, snapshots));
        }
        backend::command_complete(&mut wire.out, &format!("SELECT {rows}"));
        Ok(Ok(()))
    }

    /// Executes an insert: at once, or as part of the transaction.
    pub(super) async fn insert_now(
        &mut self,
        wire: &mut Wire,
        plan: &InsertPlan,
        parameters: &[Parameter<'_>],
    ) -> Result<()> {
        self.start_statement();
        let events = plan.events(parameters, &self.context(), tidemill_sql::planner::vars::now_us())?;
        let rows = self.write_events(&plan.stream, events).await?;
        backend::command_complete(&mut wire.out, &format!("INSERT 0 {rows}"));
        Ok(())
    }

    pub(super) async fn write_events(
        &mut self,
        stream: &Arc<crate::catalog::Stream>,
        events: RecordBatch,
    ) -> Result<usize> {
        let rows = events.num_rows();
        stream.count(rows, events.get_array_memory_size());
        let targets = self.targets()?;
        let level = self.level();
        match &mut self.transaction {
            Transaction::Open(set) | Transaction::Implicit(set) => {
                let set = set.get_or_insert_with(|| self.server.engine.begin(false));
                set.add(stream.id(), targets.as_deref(), &events).map_err(|e| e.into_sql(plan_error))?;
            }
            _ => {
                let part = Part::Events { stream: stream.id(), targets, batch: events };
                self.server.engine.write(vec![part], level).await.map_err(|e| e.into_sql(plan_error))?;
            }
        }
        Ok(rows)
    }

    /// INSERT … SELECT: the query's rows are cast to the stream's columns and written in one write set.
    async fn insert_select(&mut self, wire: &mut Wire, insert: &ast::Insert, text: &str) -> Result<()> {
        let (name, columns, source) = tidemill_sql::insert::insert_parts(insert).ok_or_else(|| {
            SqlError::unsupported("this form of INSERT is not supported")
                .with_position(1)
                .with_hint("INSERT INTO stream (columns) VALUES … or SELECT … is.")
        })?;
        let stream = crate::insert::target(&self.server, &name)?;
        let columns = crate::insert::event_columns(&stream, &columns)?;
        let state = self.planner();
        let statement = ast::Statement::Query(Box::new(source.clone()));
        let plan = query::plan(&state, &statement, text).await?;
        let mut running = query::run(&self.server, state, plan, vec![]).await?;
        let width = running.schema.fields().len();
        if width > columns.len() {
            return Err(SqlError::syntax("INSERT has more expressions than target columns"));
        }
        let schema = stream.definition.event_schema();
        let vars = self.vars();
        let own = matches!(self.transaction, Transaction::None);
        if own {
            self.transaction = Transaction::Implicit(None);
        }
        let mut rows = 0;
        while let Some(batch) = running.stream.next().await {
            let batch = batch.map_err(plan_error)?;
            let mut arrays = vec![None; schema.fields().len()];
            for (i, (array, field)) in batch.columns().iter().zip(running.schema.fields()).enumerate() {
                let Some((place, ty)) = columns[i] else { continue };
                let from = Type::of_field(field)?;
                arrays[place] = Some(tidemill_sql::function::cast::cast(array, from, ty, false, &vars)?);
            }
            let events = tidemill_stream::stream::StreamDefinition::event_batch(
                &schema,
                arrays,
                batch.num_rows(),
                self.began_us,
            )
            .map_err(plan_error)?;
            rows += self.write_events(&stream, events).await?;
        }
        if own
            && let Transaction::Implicit(Some(set)) =
                std::mem::replace(&mut self.transaction, Transaction::None)
        {
            set.commit(self.level()).await.map_err(|e| e.into_sql(plan_error))?;
        }
        backend::command_complete(&mut wire.out, &format!("INSERT 0 {rows}"));
        Ok(())
    }

    /// Statements whose answer is a tag, or a few rows that need no query.
    pub(super) async fn command(&mut self, wire: &mut Wire, statement: Statement) -> Result<()> {
        let server = Arc::clone(&self.server);
        let (tag, notices): (String, Vec<Notice>) = match statement {
            Statement::CreateView(create) => {
                let tag = if create.continuous { "CREATE CONTINUOUS VIEW" } else { "CREATE VIEW" };
                let step_factor = self.settings.current().sliding_window_step_factor;
                (tag.into(), define::create_view(&server, create, step_factor).await?)
            }
            Statement::CreateStream(create) => {
                let tag = if create.server.is_some() { "CREATE FOREIGN TABLE" } else { "CREATE STREAM" };
                (tag.into(), define::create_stream(&server, create).await?)
            }
            Statement::AlterStream { if_exists, name, action } => {
                ("ALTER STREAM".into(), define::alter_stream(&server, &name, if_exists, action).await?)
            }
            Statement::Drop { kind, if_exists, names, cascade } => {
                let notices = define::drop_objects(&server, kind, if_exists, &names, cascade).await?;
                (format!("DROP {}", kind.keywords()), notices)
            }
            Statement::Activate(names) => {
                (format!("ACTIVATE {}", define::set_active(&server, &names, true).await?), vec![])
            }
            Statement::Deactivate(names) => {
                (format!("DEACTIVATE {}", define::set_active(&server, &names, false).await?), vec![])
            }
            Statement::Flush => {
                server.engine.flush().await.map_err(|e| e.into_sql(plan_error))?;
                ("FLUSH".into(), vec![])
            }
            Statement::TruncateContinuousView(names) => {
                for name in &names {
                    let view = server.catalog.view(define::public(name)?)?;
                    server.engine.truncate(view.id()).await.map_err(|e| e.into_sql(plan_error))?;
                }
                ("TRUNCATE CONTINUOUS VIEW".into(), vec![])
            }
            Statement::Set { local, name, value } => {
                let scope = if local { Scope::Local } else { Scope::Session };
                let notices = match &value {
                    Some(values) => {
                        let values: Vec<&str> = values.iter().map(String::as_str).collect();
                        self.settings.set(&name, &values, scope)?
                    }
                    None => self.settings.reset(&name, scope)?,
                };
                ("SET".into(), notices)
            }
            Statement::Reset(name) => {
                let notices = match name {
                    Some(name) => self.settings.reset(&name, Scope::Session)?,
                    None => {
                        self.settings.reset_all();
                        vec![]
                    }
                };
                ("RESET".into(), notices)
            }
            Statement::Show(name) => return self.show(wire, name.as_deref()),
            Statement::ExplainContinuousView { name, .. } => return self.explain_view(wire, &name),
            other => return self.transaction_command(wire, other).await,
        };
        self.notices(wire, notices);
        backend::command_complete(&mut wire.out, &tag);
        Ok(())
    }

    async fn transaction_command(&mut self, wire: &mut Wire, statement: Statement) -> Result<()> {
        let mut notices = Vec::new();
        let tag = match statement {
            Statement::Begin { modes } => {
                if matches!(self.transaction, Transaction::Open(_)) {
                    notices.push(Notice::warning(
                        SqlState::ACTIVE_SQL_TRANSACTION,
                        "there is already a transaction in progress",
                    ));
                } else {
                    self.end_implicit(wire).await;
                    self.settings.begin();
                    self.transaction = Transaction::Open(None);
                }
                for (name, value) in modes {
                    notices.extend(self.settings.set(&name, &[&value], Scope::Local)?);
                }
                "BEGIN"
            }
            Statement::Commit { chain: false } => {
                match std::mem::replace(&mut self.transaction, Transaction::None) {
                    Transaction::Open(set) => {
                        self.settings.commit();
                        if let Some(set) = set {
                            set.commit(self.level()).await.map_err(|e| e.into_sql(plan_error))?;
                        }
                        "COMMIT"
                    }
                    Transaction::Failed => {
                        self.settings.rollback();
                        "ROLLBACK"
                    }
                    other => {
                        self.transaction = other;
                        notices.push(no_transaction());
                        "COMMIT"
                    }
                }
            }
            Statement::Rollback { chain: false } => {
                match std::mem::replace(&mut self.transaction, Transaction::None) {
                    Transaction::Open(_) | Transaction::Failed => self.settings.rollback(),
                    _ => notices.push(no_transaction()),
                }
                "ROLLBACK"
            }
            Statement::Discard(what) if what == "ALL" => {
                self.settings.reset_all();
                self.statements.clear();
                self.portals.clear();
                "DISCARD ALL"
            }
            Statement::Deallocate(None) => {
                self.statements.clear();
                "DEALLOCATE ALL"
            }
            Statement::Deallocate(Some(name)) => {
                if self.statements.remove(&name).is_none() {
                    return Err(SqlError::new(
                        SqlState::INVALID_SQL_STATEMENT_NAME,
                        format!("prepared statement \"{name}\" does not exist"),
                    ));
                }
                "DEALLOCATE"
            }
            other => return Err(not_yet(&other)),
        };
        self.notices(wire, notices);
        backend::command_complete(&mut wire.out, tag);
        Ok(())
    }

    fn show(&mut self, wire: &mut Wire, name: Option<&str>) -> Result<()> {
        match name {
            Some(name) => {
                let (name, value) = self.settings.show(name)?;
                self.text_rows(wire, &[&name], &[vec![value]])?;
            }
            None => {
                let rows: Vec<_> =
                    self.settings.show_all().into_iter().map(|(n, v, d)| vec![n, v, d.to_string()]).collect();
                self.text_rows(wire, &["name", "setting", "description"], &rows)?;
            }
        }
        backend::command_complete(&mut wire.out, "SHOW");
        Ok(())
    }

    fn explain_view(&mut self, wire: &mut Wire, name: &tidemill_sql::statement::Name) -> Result<()> {
        use std::sync::atomic::Ordering::Relaxed;
        let view = self.server.catalog.view(define::public(name)?)?;
        let plan = &view.view.plan;
        let (groups, bytes) = view.view.size();
        let mut lines = vec!["Finish".to_string()];
        let finish = datafusion::physical_plan::displayable(plan.finish.as_ref()).indent(false).to_string();
        lines.extend(finish.lines().map(|l| format!("  {l}")));
        lines.push(format!("State: {groups} groups, {bytes} bytes of memory"));
        lines.push("Front".into());
        for branch in &plan.front.branches {
            lines.push(format!(
                "  stream {}: {} columns in",
                branch.stream.0,
                branch.output_schema().fields().len()
            ));
        }
        let stats = &view.view.stats;
        lines.push(format!(
            "Input: {} rows in {} batches, {} errors",
            stats.input_rows.load(Relaxed),
            stats.input_batches.load(Relaxed),
            stats.errors.load(Relaxed)
        ));
        let rows: Vec<_> = lines.into_iter().map(|l| vec![l]).collect();
        self.text_rows(wire, &["QUERY PLAN"], &rows)?;
        backend::command_complete(&mut wire.out, "EXPLAIN");
        Ok(())
    }

    fn text_rows(&self, wire: &mut Wire, names: &[&str], rows: &[Vec<String>]) -> Result<()> {
        let fields: Vec<_> = names.iter().map(|n| Field::new(*n, DataType::Utf8, false)).collect();
        let schema = Arc::new(Schema::new(fields));
        let columns = (0..names.len())
            .map(|i| Arc::new(rows.iter().map(|r| Some(r[i].as_str())).collect::<StringArray>()) as _)
            .collect();
        let batch = RecordBatch::try_new(Arc::clone(&schema), columns)
            .map_err(|e| SqlError::internal(e.to_string()))?;
        describe(wire, &schema, &[])?;
        write_rows(wire, &batch, &self.context(), &[])
    }
}

async fn sleep_until(deadline: Option<tokio::time::Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

fn no_transaction() -> Notice {
    Notice::warning(SqlState::NO_ACTIVE_SQL_TRANSACTION, "there is no transaction in progress")
}

fn not_yet(statement: &Statement) -> SqlError {
    let shown = format!("{statement:?}");
    let word = shown.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_uppercase();
    SqlError::unsupported(format!("{word} is not supported yet"))
        .with_position(1)
        .with_hint("docs/compat.md lists what is.")
}

pub(crate) fn format_of(formats: &[i16], column: usize) -> i16 {
    match formats {
        [] => 0,
        [one] => *one,
        many => many.get(column).copied().unwrap_or(0),
    }
}

pub(super) fn describe(wire: &mut Wire, schema: &SchemaRef, formats: &[i16]) -> Result<()> {
    let types = schema.fields().iter().map(|f| Type::of_field(f)).collect::<Result<Vec<_>>>()?;
    let columns = schema.fields().iter().zip(&types).enumerate().map(|(i, (field, ty))| ColumnDesc {
        name: display_name(field.name()),
        table_oid: 0,
        column: 0,
        type_oid: tidemill_sql::types::vector_oid(field).unwrap_or_else(|| ty.oid()),
        type_len: ty.length(),
        typmod: ty.typmod,
        format: format_of(formats, i),
    });
    backend::row_description(&mut wire.out, columns)
}

pub(super) fn write_rows(
    wire: &mut Wire,
    batch: &RecordBatch,
    context: &Context,
    formats: &[i16],
) -> Result<()> {
    let encoders = batch
        .columns()
        .iter()
        .zip(batch.schema_ref().fields())
        .map(|(array, field)| ValueEncoder::new(array, Type::of_field(field)?, context))
        .collect::<Result<Vec<_>>>()?;
    let mut value = Vec::new();
    for row in 0..batch.num_rows() {
        let mut writer = RowWriter::start(&mut wire.out);
        for (i, encoder) in encoders.iter().enumerate() {
            if encoder.is_null(row) {
                writer.null();
                continue;
            }
            value.clear();
            match format_of(formats, i) {
                0 => encoder.write_text(row, &mut value)?,
                _ => encoder.write_binary(row, &mut value)?,
            }
            writer.bytes(&value);
        }
        writer.finish()?;
    }
    Ok(())
}

/// A parameter of a query as a scalar.
pub(super) fn scalar(parameter: Parameter<'_>, ty: Type, context: &Context) -> Result<ScalarValue> {
    let mut builder = crate::value::ColumnBuilder::new(ty, context, 1);
    match parameter {
        (_, None) => builder.append_null(),
        (0, Some(bytes)) => builder.append_text(bytes)?,
        (_, Some(bytes)) => builder.append_binary(bytes)?,
    }
    ScalarValue::try_from_array(&builder.finish(), 0).map_err(|e| SqlError::internal(e.to_string()))
}
