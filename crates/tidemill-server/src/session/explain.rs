//! EXPLAIN of queries and of continuous views.

use std::time::Instant;

use datafusion::common::ScalarValue;
use futures::StreamExt;
use sqlparser::ast;
use tidemill_sql::Result;
use tidemill_sql::planner::plan_error;
use tidemill_sql::statement::{ExplainOptions, Name};

use super::Session;
use super::execute::Outcome;
use super::rows::{Rows, Tag};
use crate::catalog::Relation;
use crate::define;
use crate::explain::{Explain, view};
use crate::query;

pub(super) const COLUMN: &str = "QUERY PLAN";

impl Session {
    pub(super) async fn explain(
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
        let planned = started.elapsed();
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
        let relations = self.server.catalog.relations();
        let views = |id| {
            relations.iter().find_map(|relation| match relation {
                Relation::View(view) if view.id() == id => {
                    Some((view.object.name.clone(), view.view.size().0))
                }
                Relation::Table(table) if table.id() == id => {
                    Some((table.object.name.clone(), table.view.size().0))
                }
                _ => None,
            })
        };
        let mut lines = Explain { options, views: &views, began, nodes }.lines(&physical);
        if options.summary.unwrap_or(options.analyze) {
            lines.push(format!("Planning Time: {:.3} ms", planned.as_secs_f64() * 1e3));
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

fn explained(lines: Vec<String>) -> Result<Rows> {
    let rows: Vec<_> = lines.into_iter().map(|line| vec![line]).collect();
    Rows::of_text(&[COLUMN], &rows, Tag::Plain("EXPLAIN"))
}
