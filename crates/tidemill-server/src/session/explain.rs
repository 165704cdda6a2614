//! EXPLAIN of queries, of what writes rows, and of continuous views.

use std::sync::Arc;

use arrow::datatypes::Schema;
use chrono::{DateTime, Utc};
use datafusion::common::ScalarValue;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use futures::StreamExt;
use sqlparser::ast;
use tidemill_federation::write::Writing;
use tidemill_sql::Result;
use tidemill_sql::insert::insert_parts;
use tidemill_sql::planner::plan_error;
use tidemill_sql::statement::{ExplainOptions, Name, Statement};
use tidemill_sql::types::Type;
use tidemill_stream::view::ViewId;

use super::Session;
use super::execute::Outcome;
use super::modify::{Change, Changed};
use super::prepared::Body;
use super::rows::{Rows, Tag};
use super::traced::Trace;
use super::write::{Inserted, tells_nodes, written};
use crate::catalog::Relation;
use crate::define;
use crate::explain::write::Done;
use crate::explain::{Explain, milliseconds, view, write};
use crate::insert::Target;
use crate::query;
use crate::system::Snapshots;

pub(super) const COLUMN: &str = "QUERY PLAN";
/// As PostgreSQL says it of SHOW and its kin, which drivers prepare.
const NO_PLAN: &str = "Utility statements have no plan structure";

impl Session {
    pub(super) async fn explain(
        &mut self,
        options: ExplainOptions,
        statement: &ast::Statement,
        text: &str,
        values: Vec<ScalarValue>,
    ) -> Result<Outcome> {
        let started = Utc::now();
        let shown = match statement {
            ast::Statement::Query(query) => self.explain_query(options, query.clone(), text, values).await?,
            ast::Statement::Insert(insert) if options.analyze => {
                let done = self.insert_select(insert, text, values).await?;
                self.inserted(options, &done)
            }
            ast::Statement::Insert(insert) => self.explain_insert(options, insert, text, values).await?,
            change => self.explain_change(options, change, text, values).await?,
        };
        shown.outcome(options, started)
    }

    /// Of a prepared statement with these values.
    pub(super) async fn explain_execute(
        &mut self,
        options: ExplainOptions,
        name: &str,
        arguments: &[ast::Expr],
    ) -> Result<Outcome> {
        let started = Utc::now();
        let (prepared, arguments) = self.called(name, arguments).await?;
        let prepared = self.current(&prepared).await?;
        let values = self.scalars(&arguments, &prepared.parameters)?;
        if let Body::Query(query) = &prepared.body {
            self.start_query()?;
            let shown = self.explain_plan(options, self.planner(), query.plan.clone(), values).await?;
            return shown.outcome(options, started);
        }
        match prepared.parsed.as_ref().map(|parsed| (&parsed.statement, &parsed.text)) {
            Some((Statement::Sql(statement), text)) => self.explain(options, statement, text, values).await,
            _ => Ok(Outcome::Rows(explained(vec![NO_PLAN.to_string()])?, vec![])),
        }
    }

    /// The query as which a statement is planned.
    pub(super) async fn planned_query(
        &mut self,
        statement: &ast::Statement,
        text: &str,
    ) -> Result<Box<ast::Query>> {
        match statement {
            ast::Statement::Query(query) => Ok(query.clone()),
            ast::Statement::Insert(insert) => {
                let parts = insert_parts(insert)?;
                self.insert_source(&parts, &Target::find(&self.server.catalog, &parts.name)?)
            }
            change => Ok(self.modifying_query(change, text).await?.0),
        }
    }

    /// Where the rows of an INSERT go, and where they come from.
    async fn explain_insert(
        &mut self,
        options: ExplainOptions,
        insert: &ast::Insert,
        text: &str,
        values: Vec<ScalarValue>,
    ) -> Result<Shown> {
        let parts = insert_parts(insert)?;
        let target = Target::find(&self.server.catalog, &parts.name)?;
        let Target::Foreign(foreign) = &target else {
            parts.refuse_clauses()?;
            let source = self.insert_source(&parts, &target)?;
            let (schema, physical) = self.planned(source, text, values).await?;
            written(&parts, &target, &schema)?;
            let head = write::local("Insert", &target.stream().object.name, None);
            return Ok(Shown::planned(self.over(options, head, &physical, None)));
        };
        // Not as a part of a block, nor refused where that only reads: nothing is written.
        let writing = foreign.writing(&self.server.catalog)?;
        let (writing, _) = self.with_clauses(writing, &parts, foreign, text).await?;
        let source = self.insert_source(&parts, &target)?;
        let (schema, physical) = self.planned(source, text, values).await?;
        let tells_nodes = tells_nodes(&written(&parts, &target, &schema)?);
        let head = write::foreign_insert(&foreign.table.object.name, &writing, tells_nodes, None);
        Ok(Shown::planned(self.over(options, head, &physical, None)))
    }

    /// An INSERT that was carried out.
    fn inserted(&self, options: ExplainOptions, done: &Inserted) -> Shown {
        let Inserted { target, writing, tells_nodes, answer, trace, .. } = done;
        let (name, done_at) = (&target.stream().object.name, Utc::now());
        let result = Done {
            writing: writing.as_ref(),
            returned: answer.as_ref().map_or(0, |answer| answer.count),
            time: options.timing.then(|| done_at - trace.began),
        };
        let head = match writing {
            Some(writing) => write::foreign_insert(name, writing, *tells_nodes, Some(&result)),
            None => write::local("Insert", name, Some(&result)),
        };
        let lines = self.over(options, head, &trace.physical, Some(trace));
        Shown { done_at: Some(done_at), planned_at: trace.began, ..Shown::planned(lines) }
    }

    /// What an UPDATE or a DELETE is to the servers of a foreign table, or the plan by which it is carried out here.
    async fn explain_change(
        &mut self,
        options: ExplainOptions,
        statement: &ast::Statement,
        text: &str,
        values: Vec<ScalarValue>,
    ) -> Result<Shown> {
        let change = Change::new(statement)?;
        let verb = if change.verb == "UPDATE" { "Update" } else { "Delete" };
        match change.table(self)? {
            Changed::Foreign(target) if options.analyze => {
                let done = self.modify_foreign(&change, &target, text, values).await?;
                let done_at = Utc::now();
                let result = Done {
                    writing: Some(&done.writing),
                    returned: done.answer.as_ref().map_or(0, |answer| answer.count),
                    time: options.timing.then(|| done_at - done.began),
                };
                let name = &target.table.object.name;
                let returned = change.returned(&target).map(|returned| returned.columns());
                let lines =
                    write::foreign_changes(verb, name, &done.changes, returned.as_ref(), Some(&result));
                Ok(Shown { done_at: Some(done_at), planned_at: done.began, ..Shown::planned(lines) })
            }
            Changed::Foreign(target) => {
                let changes = self.foreign_changes(&change, &target, text, values).await?;
                let name = &target.table.object.name;
                let returned = change.returned(&target);
                if let Some(returned) = &returned {
                    // Not as a part of a block: nothing is written.
                    self.returning(Writing::changing(name, &changes), returned, text).await?;
                }
                let returned = returned.map(|returned| returned.columns());
                Ok(Shown::planned(write::foreign_changes(verb, name, &changes, returned.as_ref(), None)))
            }
            Changed::Table(table) if options.analyze => {
                let (_, trace) = self.modify_table(&change, &table, text, values).await?;
                let done_at = Utc::now();
                let time = options.timing.then(|| done_at - trace.began);
                let result = Done { writing: None, returned: 0, time };
                let head = write::local(verb, &table.object.name, Some(&result));
                let lines = self.over(options, head, &trace.physical, Some(&trace));
                Ok(Shown { done_at: Some(done_at), planned_at: trace.began, ..Shown::planned(lines) })
            }
            Changed::Table(table) => {
                let places = change.places(&table)?;
                let query = change.query(&table, &places)?;
                let (schema, physical) = self.planned(query, text, values).await?;
                let types = schema.fields().iter().map(|field| Type::of_field(field));
                change.check_types(&table, &places, &types.collect::<Result<Vec<_>>>()?)?;
                let head = write::local(verb, &table.object.name, None);
                Ok(Shown::planned(self.over(options, head, &physical, None)))
            }
        }
    }

    async fn planned(
        &mut self,
        query: Box<ast::Query>,
        text: &str,
        values: Vec<ScalarValue>,
    ) -> Result<(Schema, Arc<dyn ExecutionPlan>)> {
        self.start_query()?;
        let state = self.planner();
        let plan = query::plan(&state, &ast::Statement::Query(query), text).await?;
        let schema = plan.schema().as_arrow().clone();
        Ok((schema, query::physical(&state, plan, values).await?))
    }

    /// A plan, and what is done with its rows.
    fn over(
        &self,
        options: ExplainOptions,
        mut head: Vec<String>,
        plan: &Arc<dyn ExecutionPlan>,
        trace: Option<&Trace>,
    ) -> Vec<String> {
        let depth = usize::from(!head.is_empty());
        let (views, began) = (self.views(), trace.map(|trace| trace.began));
        let nodes = trace.and_then(|trace| trace.nodes.clone());
        head.extend(Explain { options, views: &views, began, nodes }.lines(plan, depth));
        head
    }

    /// The names of views and tables, and how many groups or rows they have.
    fn views(&self) -> impl Fn(ViewId) -> Option<(String, usize)> + use<> {
        let relations = self.server.catalog.relations();
        move |id| {
            relations.iter().find_map(|relation| match relation {
                Relation::View(view) if view.id() == id => {
                    Some((view.object.name.clone(), view.view.size().0))
                }
                Relation::Table(table) if table.id() == id => {
                    Some((table.object.name.clone(), table.view.size().0))
                }
                _ => None,
            })
        }
    }

    async fn explain_query(
        &mut self,
        options: ExplainOptions,
        query: Box<ast::Query>,
        text: &str,
        values: Vec<ScalarValue>,
    ) -> Result<Shown> {
        self.start_query()?;
        let state = self.planner();
        let plan = query::plan(&state, &ast::Statement::Query(query), text).await?;
        self.explain_plan(options, state, plan, values).await
    }

    async fn explain_plan(
        &mut self,
        options: ExplainOptions,
        state: SessionState,
        plan: LogicalPlan,
        values: Vec<ScalarValue>,
    ) -> Result<Shown> {
        if !options.analyze {
            let physical = query::physical(&state, plan, values).await?;
            let planned_at = Utc::now();
            let lines = self.over(options, vec![], &physical, None);
            return Ok(Shown { planned_at, ..Shown::planned(lines) });
        }
        let (mut running, trace) = self.trace(state, plan, values).await?;
        while let Some(batch) = running.stream.next().await {
            batch.map_err(plan_error)?;
        }
        let done_at = Some(Utc::now());
        let lines = self.over(options, vec![], &trace.physical, Some(&trace));
        Ok(Shown { lines, planned_at: trace.began, done_at, snapshots: running.snapshots })
    }

    pub(super) fn explain_view(&mut self, name: &Name, verbose: bool) -> Result<Outcome> {
        let catalog = &self.server.catalog;
        let lines = view::lines(catalog, &*catalog.view(define::public(name)?)?, verbose)?;
        Ok(Outcome::Rows(explained(lines)?, vec![]))
    }
}

/// A statement in lines, and what else is told of it.
struct Shown {
    lines: Vec<String>,
    planned_at: DateTime<Utc>,
    /// When it had been carried out, if it was.
    done_at: Option<DateTime<Utc>>,
    snapshots: Option<Arc<Snapshots>>,
}

impl Shown {
    /// Just now.
    fn planned(lines: Vec<String>) -> Self {
        Self { lines, planned_at: Utc::now(), done_at: None, snapshots: None }
    }

    fn outcome(mut self, options: ExplainOptions, started: DateTime<Utc>) -> Result<Outcome> {
        if options.summary.unwrap_or(options.analyze) {
            let planning = milliseconds(self.planned_at - started);
            self.lines.push(format!("Planning Time: {planning:.3} ms"));
            let execution = self.done_at.map(|done_at| milliseconds(done_at - self.planned_at));
            self.lines.extend(execution.map(|ms| format!("Execution Time: {ms:.3} ms")));
        }
        let mut rows = explained(self.lines)?;
        rows.snapshots = self.snapshots;
        Ok(Outcome::Rows(rows, vec![]))
    }
}

fn explained(lines: Vec<String>) -> Result<Rows> {
    let rows: Vec<_> = lines.into_iter().map(|line| vec![line]).collect();
    Rows::of_text(&[COLUMN], &rows, Tag::Plain("EXPLAIN"))
}
