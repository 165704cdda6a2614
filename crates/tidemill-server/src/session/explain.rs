//! EXPLAIN of queries, of what writes rows, and of continuous views.

use std::sync::Arc;
use std::time::Instant;

use arrow::datatypes::Schema;
use datafusion::common::ScalarValue;
use datafusion::physical_plan::ExecutionPlan;
use futures::StreamExt;
use sqlparser::ast;
use tidemill_federation::multi_tenant::URL;
use tidemill_sql::Result;
use tidemill_sql::insert::insert_parts;
use tidemill_sql::planner::plan_error;
use tidemill_sql::statement::{ExplainOptions, Name};
use tidemill_sql::types::Type;
use tidemill_stream::view::ViewId;

use super::Session;
use super::execute::Outcome;
use super::modify::{Change, Changed};
use super::rows::{Rows, Tag};
use super::write::written;
use crate::catalog::Relation;
use crate::define;
use crate::explain::{Explain, view, write};
use crate::insert::Target;
use crate::query;

pub(super) const COLUMN: &str = "QUERY PLAN";

impl Session {
    pub(super) async fn explain(
        &mut self,
        options: ExplainOptions,
        statement: &ast::Statement,
        text: &str,
        values: Vec<ScalarValue>,
    ) -> Result<Outcome> {
        let started = Instant::now();
        let mut lines = match statement {
            ast::Statement::Query(query) => {
                return self.explain_query(options, query.clone(), text, values).await;
            }
            ast::Statement::Insert(insert) => self.explain_insert(options, insert, text, values).await?,
            change => self.explain_change(options, change, text, values).await?,
        };
        if options.summary == Some(true) {
            lines.push(planning_time(started));
        }
        Ok(Outcome::Rows(explained(lines)?, vec![]))
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
    ) -> Result<Vec<String>> {
        let parts = insert_parts(insert)?;
        let target = Target::find(&self.server.catalog, &parts.name)?;
        let Target::Foreign(foreign) = &target else {
            parts.refuse_clauses()?;
            let source = self.insert_source(&parts, &target)?;
            let (schema, physical) = self.planned(source, text, values).await?;
            written(&parts, &target, &schema)?;
            let head = write::local("Insert", &target.stream().object.name);
            return Ok(self.over(options, head, &physical));
        };
        // Not as a part of a block, nor refused where that only reads: nothing is written.
        let writing = foreign.writing(&self.server.catalog)?;
        let (writing, _) = self.with_clauses(writing, &parts, foreign, text).await?;
        let source = self.insert_source(&parts, &target)?;
        let (schema, physical) = self.planned(source, text, values).await?;
        let tells_nodes = written(&parts, &target, &schema)?.iter().any(|column| column.name == URL);
        let head = write::foreign_insert(&foreign.table.object.name, &writing, tells_nodes);
        Ok(self.over(options, head, &physical))
    }

    /// What an UPDATE or a DELETE is to the servers of a foreign table, or the plan by which it is carried out here.
    async fn explain_change(
        &mut self,
        options: ExplainOptions,
        statement: &ast::Statement,
        text: &str,
        values: Vec<ScalarValue>,
    ) -> Result<Vec<String>> {
        let change = Change::new(statement)?;
        let verb = if change.verb == "UPDATE" { "Update" } else { "Delete" };
        match change.table(self)? {
            Changed::Foreign(target) => {
                let returned = change.returned(&target);
                self.returned_schema(returned.as_ref(), text).await?;
                let changes = self.foreign_changes(&change, &target, text, values).await?;
                Ok(write::foreign_changes(verb, &target.table.object.name, &changes))
            }
            Changed::Table(table) => {
                let places = change.places(&table)?;
                let query = change.query(&table, &places)?;
                let (schema, physical) = self.planned(query, text, values).await?;
                let types = schema.fields().iter().map(|field| Type::of_field(field));
                change.check_types(&table, &places, &types.collect::<Result<Vec<_>>>()?)?;
                Ok(self.over(options, write::local(verb, &table.object.name), &physical))
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
    ) -> Vec<String> {
        let views = self.views();
        head.extend(Explain { options, views: &views, began: None, nodes: None }.lines(plan, 1));
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
    ) -> Result<Outcome> {
        let started = Instant::now();
        self.start_query()?;
        let state = self.planner();
        let plan = query::plan(&state, &ast::Statement::Query(query), text).await?;
        let reads = self.work().map(|work| work.reads()).unwrap_or_default();
        let limit = self.settings.current().query_memory_limit_bytes;
        let ready = query::ready(&self.server, state, plan, values, reads, limit).await?;
        let planned = planning_time(started);
        let physical = ready.physical.clone();
        let (mut began, mut snapshots, mut nodes) = (None, None, None);
        let executing = Instant::now();
        if options.analyze {
            began = Some(chrono::Utc::now());
            let mut running = ready.run()?;
            self.follow_nodes(running.nodes.as_ref());
            while let Some(batch) = running.stream.next().await {
                batch.map_err(plan_error)?;
            }
            (snapshots, nodes) = (running.snapshots, running.nodes);
        }
        let executed = executing.elapsed();
        let views = self.views();
        let mut lines = Explain { options, views: &views, began, nodes }.lines(&physical, 0);
        if options.summary.unwrap_or(options.analyze) {
            lines.push(planned);
            if options.analyze {
                lines.push(format!("Execution Time: {:.3} ms", executed.as_secs_f64() * 1e3));
            }
        }
        let mut rows = explained(lines)?;
        rows.snapshots = snapshots;
        Ok(Outcome::Rows(rows, vec![]))
    }

    pub(super) fn explain_view(&mut self, name: &Name, verbose: bool) -> Result<Outcome> {
        let catalog = &self.server.catalog;
        let lines = view::lines(catalog, &*catalog.view(define::public(name)?)?, verbose)?;
        Ok(Outcome::Rows(explained(lines)?, vec![]))
    }
}

fn planning_time(started: Instant) -> String {
    format!("Planning Time: {:.3} ms", started.elapsed().as_secs_f64() * 1e3)
}

fn explained(lines: Vec<String>) -> Result<Rows> {
    let rows: Vec<_> = lines.into_iter().map(|line| vec![line]).collect();
    Rows::of_text(&[COLUMN], &rows, Tag::Plain("EXPLAIN"))
}
