//! Statements that write to foreign tables: a transaction of their own on each server.

use std::sync::Arc;

use arrow::array::RecordBatch;
use chrono::{DateTime, Utc};
use datafusion::common::ScalarValue;
use sqlparser::ast::{self, SelectItem};
use tidemill_federation::cascade::Route;
use tidemill_federation::change::{self, Obstacle, Verb};
use tidemill_federation::multi_tenant::URL;
use tidemill_federation::write::Writing;
use tidemill_sql::insert::{InsertParts, is_default};
use tidemill_sql::planner::plan_error;
use tidemill_sql::{Result, SqlError, SqlState, parse, planner};

use super::Session;
use super::execute::Outcome;
use super::interrupt::Shield;
use super::modify::Change;
use super::returned::Returned;
use crate::insert::{ForeignTarget, Target, rows_of};
use crate::query;
use crate::tables::foreign::check_updatable;

impl Session {
    /// The writing half of a statement, if its target is foreign. In a block it is a part of that.
    pub(super) fn begin_writing(&mut self, verb: &str, target: &Target) -> Result<Option<Writing>> {
        let Target::Foreign(foreign) = target else { return Ok(None) };
        self.refuse_read_only(verb)?;
        let writing = foreign.writing(&self.server.catalog)?;
        Ok(Some(self.within_block(writing)))
    }

    pub(super) fn within_block(&mut self, writing: Writing) -> Writing {
        let route = Route::new(&self.server.identity, &self.settings.current().cascade_route);
        let writing = writing.along(route);
        let servers = writing.written().map(|written| written.target.server.as_str());
        self.asked.note(servers, &self.server.catalog);
        let is_block = self.in_block();
        match self.work() {
            Some(work) => writing.within(work.foreign(is_block)),
            None => writing,
        }
    }

    /// The writing half of an INSERT with its clauses, and what it gives back.
    pub(super) async fn begin_insert<'a>(
        &mut self,
        parts: &InsertParts<'a>,
        target: &Target,
        text: &str,
    ) -> Result<(Option<Writing>, Option<Returned<'a>>)> {
        let Target::Foreign(foreign) = target else {
            return parts.refuse_clauses().map(|()| (None, None));
        };
        let Some(writing) = self.begin_writing("INSERT", target)? else { return Ok((None, None)) };
        let (writing, returned) = self.with_clauses(writing, parts, foreign, text).await?;
        Ok((Some(writing), returned))
    }

    pub(super) async fn with_clauses<'a>(
        &mut self,
        mut writing: Writing,
        parts: &InsertParts<'a>,
        target: &ForeignTarget,
        text: &str,
    ) -> Result<(Writing, Option<Returned<'a>>)> {
        if parts.skips_conflicts()? {
            writing = writing.skipping_conflicts()?;
        }
        let returned = Returned::of_insert(parts, target);
        if let Some(returned) = &returned {
            writing = self.returning(writing, returned, text).await?;
        }
        Ok((writing, returned))
    }

    /// With the rows that are to come back. What is asked of them is looked at before anything is written.
    pub(super) async fn returning(
        &mut self,
        writing: Writing,
        returned: &Returned<'_>,
        text: &str,
    ) -> Result<Writing> {
        self.returned_schema(Some(returned), text).await?;
        writing.returning(returned.columns())
    }

    /// Rows for the target of a statement; how many.
    pub(super) async fn write_rows_of(
        &mut self,
        writing: &mut Option<Writing>,
        target: &Target,
        events: RecordBatch,
    ) -> Result<usize> {
        match writing {
            None => self.write_events(target, events).await,
            Some(writing) => {
                writing.insert(&rows_of(&events)?).await?;
                Ok(events.num_rows())
            }
        }
    }

    /// Outside of a block, what was written lasts from here on. How many rows it was. Up to the COMMITs it is undone by an
    /// interrupt; one that comes while they are under way is an error that says what is known.
    pub(super) async fn end_writing(&mut self, writing: Option<&Writing>) -> Result<Option<u64>> {
        let Some(writing) = writing else { return Ok(None) };
        let rows = match writing.flush().await {
            Ok(rows) => rows,
            Err(error) => return Err(writing.transactions().half_done(error).await),
        };
        let _shield = Shield::asking(&self.interrupt);
        writing.commit(self.interrupt.asked()).await?;
        Ok(Some(rows))
    }

    /// What the servers of a foreign table are told by an UPDATE or a DELETE.
    pub(super) async fn foreign_changes(
        &mut self,
        change: &Change<'_>,
        target: &ForeignTarget,
        text: &str,
        values: Vec<ScalarValue>,
    ) -> Result<Vec<change::Change>> {
        check_updatable(&self.server.catalog, target, change.verb)?;
        let (query, names) = change.foreign(target)?;
        // What is to be changed is found where it is.
        let state = self.planning().leaving_all_to_servers().state();
        let plan = query::plan(&state, &ast::Statement::Query(query), text).await?;
        let plan = Box::pin(self.with_subqueries(&state, plan, &values)).await?;
        let physical = query::physical(&state, plan, values).await?;
        let verb = match change.verb {
            "DELETE" => Verb::Delete,
            _ => Verb::Update(names),
        };
        let name = &target.table.object.name;
        match change::on_servers(&physical, name, &verb) {
            Ok(changes) => change::check_assigned(&changes).await.map(|()| changes),
            Err(Obstacle::Server(refusal)) => Err(refusal),
            Err(obstacle) => {
                change::check_constants(&physical).map_err(plan_error)?;
                Err(cannot_be_left(change.verb, name, &obstacle))
            }
        }
    }

    /// UPDATE and DELETE of a foreign table, which its servers carry out.
    pub(super) async fn modify_foreign(
        &mut self,
        change: &Change<'_>,
        target: &ForeignTarget,
        text: &str,
        values: Vec<ScalarValue>,
    ) -> Result<Modified> {
        self.refuse_read_only(change.verb)?;
        let changes = self.foreign_changes(change, target, text, values).await?;
        let returned = change.returned(target);
        let mut writing = self.within_block(Writing::changing(&target.table.object.name, &changes));
        if let Some(returned) = &returned {
            writing = self.returning(writing, returned, text).await?;
        }
        let (began, interrupt) = (Utc::now(), Arc::clone(&self.interrupt));
        let _shield = self.carry_out(&mut writing, &changes).await?;
        let warnings = writing.warnings();
        let answer = tokio::select! {
            biased;
            answer = self.answer(Some(&mut writing), returned.as_ref(), change.verb, text) => answer,
            why = interrupt.asked() => Err(SqlError::new(SqlState::QUERY_CANCELED, why)),
        };
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => return Err(writing.transactions().half_done(error).await),
        };
        let rows = self.end_writing(Some(&writing)).await?.unwrap_or(0);
        self.missing.extend(warnings);
        Ok(Modified { changes, writing, answer, rows, began })
    }

    /// Has servers carry out statements. Once what one of them does may last at once, an interrupt drops nothing any more: while the
    /// shield is there the work has to look for it, and its errors tell which nodes are changed.
    pub(super) async fn carry_out(
        &mut self,
        writing: &mut Writing,
        changes: &[change::Change],
    ) -> Result<Option<Shield>> {
        let alone = writing.execute(changes).await?;
        if alone.is_empty() {
            return Ok(None);
        }
        let shield = Shield::asking(&self.interrupt);
        writing.execute_alone(changes, &alone, self.interrupt.asked()).await?;
        Ok(Some(shield))
    }

    /// What RETURNING gives of the rows that were written.
    pub(super) async fn answer(
        &mut self,
        writing: Option<&mut Writing>,
        returned: Option<&Returned<'_>>,
        verb: &'static str,
        text: &str,
    ) -> Result<Option<Answer>> {
        let rows = writing.map(Writing::take_rows).unwrap_or_default();
        let Some(returned) = returned else { return Ok(None) };
        let count = rows.iter().map(RecordBatch::num_rows).sum();
        Ok(Some(Answer { count, outcome: self.returned(returned, rows, verb, text).await? }))
    }
}

/// The rows of RETURNING.
pub(super) struct Answer {
    pub count: usize,
    pub outcome: Outcome,
}

/// What an UPDATE or a DELETE of a foreign table has done.
pub(super) struct Modified {
    pub changes: Vec<change::Change>,
    pub writing: Writing,
    pub answer: Option<Answer>,
    pub rows: u64,
    /// When the servers were told.
    pub began: DateTime<Utc>,
}

fn cannot_be_left(verb: &str, table: &str, obstacle: &Obstacle) -> SqlError {
    let (detail, hint) = match obstacle {
        Obstacle::Value { column, server, is_constant: true } => (
            format!(
                "There is no way to write the new value of \"{column}\" for server \"{server}\" without a change."
            ),
            "INSERT gives such values as they are.",
        ),
        Obstacle::Value { column, server, is_constant: false } => (
            format!("The new value of \"{column}\" does not mean the same on server \"{server}\"."),
            "Constants do: docs/federation.md lists what else does.",
        ),
        Obstacle::Server(_) | Obstacle::Condition => (
            "Its condition does not mean the same there.".to_string(),
            "Conditions of comparisons with constants do: docs/federation.md lists what does.",
        ),
    };
    SqlError::unsupported(format!("this {verb} cannot be left to the servers of \"{table}\""))
        .with_detail(detail)
        .with_hint(hint)
}

impl Change<'_> {
    pub(super) fn returned(&self, target: &ForeignTarget) -> Option<Returned<'_>> {
        let alias = match &self.relation.relation {
            ast::TableFactor::Table { alias, .. } => alias.clone(),
            _ => None,
        };
        let table = std::sync::Arc::clone(&target.table);
        self.returning.map(|items| Returned { table, alias, items })
    }

    /// `SELECT values FROM relation WHERE condition`, and the columns that get the values.
    pub(super) fn foreign(&self, target: &ForeignTarget) -> Result<(Box<ast::Query>, Vec<String>)> {
        let columns = &target.table.object.columns;
        let columns: Vec<_> = columns.iter().map(|c| (c.column.name.as_str(), c.column.ty)).collect();
        let places = self.places_among(&target.table.object.name, &columns)?;
        let mut query = parse::parse_query("SELECT 1 FROM t")?;
        let ast::SetExpr::Select(select) = query.body.as_mut() else {
            return Err(SqlError::internal("a query without a SELECT"));
        };
        select.from = vec![self.relation.clone()];
        select.selection = self.selection.cloned();
        let Some(assignments) = self.assignments else { return Ok((query, vec![])) };
        select.projection.clear();
        for (i, (assignment, (place, ty))) in assignments.iter().zip(&places).enumerate() {
            if columns[*place].0 == URL {
                let message = format!("column \"{URL}\" tells the node of a row and cannot be assigned to");
                return Err(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message));
            }
            let value = match is_default(&assignment.value) {
                true => parse::parse_expr("NULL")?,
                false => assignment.value.clone(),
            };
            let expr = planner::assigned(value, *ty, columns[*place].0);
            let alias = ast::Ident::with_quote('"', format!("new value {i}"));
            select.projection.push(SelectItem::ExprWithAlias { expr, alias });
        }
        let names = places.iter().map(|(place, _)| columns[*place].0.to_string()).collect();
        Ok((query, names))
    }
}
