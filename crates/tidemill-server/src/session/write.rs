//! INSERT: at once, or as part of the transaction.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::Schema;
use datafusion::common::ScalarValue;
use futures::StreamExt;
use sqlparser::ast;
use tidemill_federation::multi_tenant::URL;
use tidemill_federation::write::Writing;
use tidemill_sql::insert::{InsertParts, insert_parts, insert_shape};
use tidemill_sql::planner::{plan_error, vars};
use tidemill_sql::types::Type;
use tidemill_sql::{Result, SqlError, SqlState};
use tidemill_stream::engine::Part;
use tidemill_stream::join::JoinedRows;
use tidemill_stream::view::ViewId;

use super::execute::Outcome;
use super::foreign::Answer;
use super::interrupt::Shield;
use super::traced::Trace;
use super::{Session, Transaction};
use crate::catalog::{Catalog, Table};
use crate::insert::{Assign, Fill, InsertPlan, Parameter, Target, check_item};
use crate::join::Joining;

impl Session {
    /// The plan of an INSERT that needs no planner.
    pub(super) fn insert_plan(&self, insert: &ast::Insert) -> Result<Option<InsertPlan>> {
        match insert_shape(insert)? {
            Some(shape) => InsertPlan::new(&self.server, shape),
            None => Ok(None),
        }
    }

    pub(super) async fn insert_now(
        &mut self,
        plan: &InsertPlan,
        parameters: &[Parameter<'_>],
    ) -> Result<Outcome> {
        self.start_statement();
        self.refuse_read_only("INSERT")?;
        let mut writing = self.begin_writing("INSERT", &plan.target)?;
        let (arrays, rows) = plan.columns(parameters, &self.context())?;
        let fill = self.fill(&plan.target, |place| arrays[place].is_some()).await?;
        let events = self.events(&plan.target, &fill, arrays, rows, vars::now_us())?;
        let rows = self.write_rows_of(&mut writing, &plan.target, events).await?;
        let rows = self.end_writing(writing.as_ref()).await?.unwrap_or(rows as u64);
        Ok(inserted(rows))
    }

    /// What gives the columns that are not `written` their defaults.
    pub(super) async fn fill(&mut self, target: &Target, written: impl Fn(usize) -> bool) -> Result<Fill> {
        let Some(table) = target.table() else { return Ok(Fill::none()) };
        let (fill, others) = Fill::of(table, written);
        if others.is_empty() {
            return Ok(fill);
        }
        let planner = self.planner();
        Box::pin(async move { fill.with_computed(others, &planner).await }).await
    }

    /// Rows that are complete, and that the target takes.
    pub(super) fn events(
        &self,
        target: &Target,
        fill: &Fill,
        mut arrays: Vec<Option<ArrayRef>>,
        rows: usize,
        arrival_us: i64,
    ) -> Result<RecordBatch> {
        let context = self.context();
        fill.apply(&mut arrays, rows, &context, || self.vars())?;
        let events = target.stream().events(arrays, rows, arrival_us)?;
        target.check(&events, &context).map_err(|(_, error)| error)?;
        Ok(events)
    }

    pub(super) async fn write_events(&mut self, target: &Target, events: RecordBatch) -> Result<usize> {
        let (rows, stream) = (events.num_rows(), target.stream());
        self.check_backlog(target)?;
        stream.count(rows, events.get_array_memory_size());
        let targets = self.targets_of(target)?;
        let has_tables = self.work().is_some_and(|work| work.has_tables());
        let joining = match self.joining(target, targets.clone(), has_tables) {
            Some(joining) => Some(Box::pin(self.join(joining)).await?),
            None => None,
        };
        let server = Arc::clone(&self.server);
        match self.work() {
            Some(work) => {
                let set = work.set(&server.engine);
                let none = JoinedRows::default();
                let joined = joining.as_ref().map_or(&none, Joining::rows);
                set.add_joining(stream.id(), targets.as_deref(), &events, joined)
                    .map_err(|e| e.into_sql(plan_error))?;
                work.note(target);
                self.check_written()?;
            }
            None => self.write_now(target, targets, events).await?,
        }
        Ok(rows)
    }

    /// Refuses events of which too much waits to be delivered already.
    pub(super) fn check_backlog(&self, target: &Target) -> Result<()> {
        let deliveries = self.server.catalog.deliveries_behind(target.stream().id());
        let limit_bytes = || self.server.config.settings.transform_backlog_limit_bytes();
        deliveries.iter().flat_map(|all| all.iter()).try_for_each(|delivery| delivery.check(limit_bytes()))
    }

    /// For a stream whose events are joined with something.
    pub(super) fn joining(
        &self,
        target: &Target,
        targets: Option<Arc<[ViewId]>>,
        goes_on: bool,
    ) -> Option<Joining> {
        match target {
            Target::Stream(stream) => {
                Joining::begin(&self.server.engine, stream.id(), targets, goes_on, || self.planning())
            }
            Target::Table(_) | Target::Foreign(_) => None,
        }
    }

    /// What is joined is read, with what the transaction has written.
    pub(super) async fn join(&mut self, mut joining: Joining) -> Result<Joining> {
        if let Some(work) = self.work().filter(|work| work.has_tables()) {
            joining.see(&work.tables(), || work.reads()).await?;
        }
        joining.refresh().await?;
        self.missing.append(&mut joining.warnings);
        Ok(joining)
    }

    async fn write_now(
        &mut self,
        target: &Target,
        targets: Option<Arc<[ViewId]>>,
        events: RecordBatch,
    ) -> Result<()> {
        let (server, stream) = (Arc::clone(&self.server), target.stream().id());
        loop {
            let tables = tables_reached(&server.catalog, target);
            let _shared = Table::share_all(&tables).await;
            let _writing = server.catalog.writing.read().await;
            // A transform that was made while this waited may lead to others.
            if tables_reached(&server.catalog, target)
                .iter()
                .map(|table| table.oid)
                .ne(tables.iter().map(|table| table.oid))
            {
                continue;
            }
            let level = self.level_of(&tables);
            let part = Part::Events { stream, targets, batch: events };
            let shield = Shield::lowered(&self.interrupt);
            let written = server.engine.write_with(vec![part], level, || shield.raise()).await;
            return written.map_err(|e| e.into_sql(plan_error));
        }
    }

    /// The states that a transaction has folded wait in memory for its end.
    fn check_written(&mut self) -> Result<()> {
        let limit = self.settings.current().transaction_memory_limit_bytes;
        self.work().map_or(Ok(()), |work| check_memory(work.memory(), limit))
    }

    /// INSERT … SELECT: the query's rows are cast to the target's columns and written in one write set.
    pub(super) async fn insert_select(
        &mut self,
        insert: &ast::Insert,
        text: &str,
        values: Vec<ScalarValue>,
    ) -> Result<Inserted> {
        self.refuse_read_only("INSERT")?;
        let parts = insert_parts(insert)?;
        let target = Target::find(&self.server.catalog, &parts.name)?;
        let (mut writing, returned) = self.begin_insert(&parts, &target, text).await?;
        let own = matches!(self.transaction, Transaction::None);
        self.begin_implicit();
        let (rows, tells_nodes, trace) =
            self.insert_query(&parts, &target, &mut writing, text, values).await?;
        let answer = self.answer(writing.as_mut(), returned.as_ref(), "INSERT 0", text).await?;
        let rows = self.end_writing(writing.as_ref()).await?.unwrap_or(rows as u64);
        if own {
            self.end_implicit().await?;
        }
        Ok(Inserted { target, writing, tells_nodes, answer, rows, trace })
    }

    /// The query of an INSERT as it is planned; an error if a value of VALUES can't be one of its column.
    pub(super) fn insert_source(&self, parts: &InsertParts<'_>, target: &Target) -> Result<Box<ast::Query>> {
        let columns = target.columns(&parts.columns)?;
        target.check_literals(&parts.source, &columns, &self.context())?;
        let source = target.source(Cow::Borrowed(parts.source.as_ref()), &columns)?;
        Ok(Box::new(source.into_owned()))
    }

    /// How many rows the query has, and whether they may tell their nodes.
    async fn insert_query(
        &mut self,
        parts: &InsertParts<'_>,
        target: &Target,
        writing: &mut Option<Writing>,
        text: &str,
        values: Vec<ScalarValue>,
    ) -> Result<(usize, bool, Trace)> {
        let source = self.insert_source(parts, target)?;
        let (mut running, trace) = self.run_traced(source, text, values).await?;
        let wanted = written(parts, target, &running.schema)?;
        let (context, vars) = (self.context(), self.vars());
        let fill = self.fill(target, |place| wanted.iter().any(|column| column.place == place)).await?;
        let relation = target.stream().object.name.as_str();
        let assign = Assign { relation, context: &context, vars: &vars };
        let mut rows = 0;
        while let Some(batch) = running.stream.next().await {
            let batch = batch.map_err(plan_error)?;
            let mut arrays = vec![None; target.stream().width()];
            for &Written { item, place, name, types } in &wanted {
                arrays[place] = Some(assign.column(name, batch.column(item), types, rows)?);
            }
            let events = self.events(target, &fill, arrays, batch.num_rows(), self.began_us)?;
            rows += self.write_rows_of(writing, target, events).await?;
        }
        Ok((rows, tells_nodes(&wanted), trace))
    }
}

/// The tables that rows go into: the target, or those that transforms lead to.
fn tables_reached(catalog: &Catalog, target: &Target) -> Arc<[Arc<Table>]> {
    match target.table() {
        Some(table) => [Arc::clone(table)].into(),
        None => catalog.tables_behind(target.stream().id()).unwrap_or_default(),
    }
}

/// What an INSERT has done.
pub(super) struct Inserted {
    pub target: Target,
    /// Of a foreign table.
    pub writing: Option<Writing>,
    /// Rows may tell to which node they go.
    pub tells_nodes: bool,
    pub answer: Option<Answer>,
    pub rows: u64,
    pub trace: Trace,
}

impl Inserted {
    pub(super) fn outcome(self) -> Outcome {
        self.answer.map_or_else(|| inserted(self.rows), |answer| answer.outcome)
    }
}

pub(super) fn tells_nodes(written: &[Written<'_>]) -> bool {
    written.iter().any(|column| column.name == URL)
}

/// A column that an INSERT writes.
pub(super) struct Written<'a> {
    /// Of the query.
    item: usize,
    place: usize,
    name: &'a str,
    /// Of the query's column, and of the target's.
    types: (Type, Type),
}

/// What becomes of the columns of an INSERT's query; an error if that cannot be.
pub(super) fn written<'a>(
    parts: &InsertParts<'_>,
    target: &'a Target,
    schema: &Schema,
) -> Result<Vec<Written<'a>>> {
    let columns = target.columns(&parts.columns)?;
    if schema.fields().len() > columns.len() {
        return Err(SqlError::syntax("INSERT has more expressions than target columns"));
    }
    let mut written = Vec::new();
    for (item, (column, field)) in columns.iter().zip(schema.fields()).enumerate() {
        let Some((place, to)) = *column else { continue };
        let (name, from) = (target.column_name(place), Type::of_field(field)?);
        check_item(target, &parts.source, item, field, (place, to))?;
        written.push(Written { item, place, name, types: (from, to) });
    }
    Ok(written)
}

/// Refuses more than what a transaction may keep in memory.
pub(super) fn check_memory(bytes: usize, limit_bytes: usize) -> Result<()> {
    if bytes <= limit_bytes {
        return Ok(());
    }
    let message = format!("the writes of a transaction exceed the limit of {limit_bytes} bytes");
    Err(SqlError::new(SqlState::OUT_OF_MEMORY, message)
        .with_hint("Commit more often, or raise \"transaction_memory_limit\"."))
}

fn inserted(rows: u64) -> Outcome {
    // Not `format!`, which costs a row of its own.
    let mut tag = String::from("INSERT 0 ");
    tag.push_str(itoa::Buffer::new().format(rows));
    Outcome::Tag(tag)
}
