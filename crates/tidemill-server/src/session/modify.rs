//! UPDATE and DELETE: the rows of a table are read, and what is to be there afterwards is written in their place.
//!
//! ```text
//! UPDATE t AS a SET x = e WHERE c
//!   => SELECT *, CASE WHEN hit THEN e END FROM (SELECT *, (c) IS TRUE AS hit FROM t) AS a
//! DELETE FROM t AS a WHERE c
//!   => SELECT *, (c) IS TRUE FROM t AS a
//! ```
//!
//! With other tables (`FROM`, `USING`) a join tells which rows are meant: `matched.rs`.
//!
//! Nobody else writes to the table meanwhile, and the old rows go and the new ones come at one commit. It takes the time and the
//! disk that the table takes, not what is changed: tables are for what views are joined with. It takes no such memory: the
//! new rows are a write set, which goes to runs when it is large.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::compute::kernels::zip::zip;
use arrow::compute::{filter, not};
use arrow::datatypes::SchemaRef;
use datafusion::common::ScalarValue;
use futures::StreamExt;
use sqlparser::ast::{self, Expr, SelectItem, Spanned, TableFactor, TableWithJoins};
use tidemill_sql::function::cast;
use tidemill_sql::insert::{Value, refuse_returning, value};
use tidemill_sql::name::{fold, resolve, split_nodes};
use tidemill_sql::planner::coerce::check_assignable;
use tidemill_sql::planner::plan_error;
use tidemill_sql::types::Type;
use tidemill_sql::{Result, SqlError, SqlState, parse};
use tidemill_stream::engine::Level;

use super::Session;
use super::execute::Outcome;
use super::interrupt::Shield;
use super::matched::Matched;
use super::traced::Trace;
use crate::catalog::{Relation, Table};
use crate::define::public;
use crate::insert::{Fill, ForeignTarget, Place, Target};
use crate::query;
use crate::tables::no_nodes;

/// The column that tells which rows are meant. Nobody can write it.
const HIT: &str = "row is meant";

/// What is to be done with the rows of a table.
pub(super) struct Change<'a> {
    pub verb: &'static str,
    pub relation: &'a TableWithJoins,
    /// What its rows are joined with.
    pub others: Option<&'a [TableWithJoins]>,
    pub selection: Option<&'a Expr>,
    /// The new values of an UPDATE; nothing: the rows go.
    pub assignments: Option<&'a [ast::Assignment]>,
    pub returning: Option<&'a [SelectItem]>,
}

/// What it is done to.
pub(super) enum Changed {
    Table(Arc<Table>),
    Foreign(ForeignTarget),
}

impl Session {
    /// The query of an UPDATE or a DELETE, for the types of its parameters, and the columns of its rows if it has any.
    pub(super) async fn modifying_query(
        &mut self,
        statement: &ast::Statement,
        text: &str,
    ) -> Result<(Box<ast::Query>, Option<SchemaRef>)> {
        let change = Change::new(statement)?;
        match change.table(self)? {
            Changed::Table(table) => Ok((change.query(&table, &change.places(&table)?)?, None)),
            Changed::Foreign(target) => {
                let (query, _) = change.foreign(&target)?;
                Ok((query, self.returned_schema(change.returned(&target).as_ref(), text).await?))
            }
        }
    }

    pub(super) async fn modify(
        &mut self,
        statement: &ast::Statement,
        text: &str,
        values: Vec<ScalarValue>,
    ) -> Result<Outcome> {
        let change = Change::new(statement)?;
        let (rows, answer) = match change.table(self)? {
            Changed::Table(table) => (self.modify_table(&change, &table, text, values).await?.0, None),
            Changed::Foreign(target) => {
                let done = self.modify_foreign(&change, &target, text, values).await?;
                (done.rows, done.answer)
            }
        };
        Ok(answer.map_or_else(|| Outcome::Tag(format!("{} {rows}", change.verb)), |answer| answer.outcome))
    }

    /// How many rows were meant.
    pub(super) async fn modify_table(
        &mut self,
        change: &Change<'_>,
        table: &Arc<Table>,
        text: &str,
        values: Vec<ScalarValue>,
    ) -> Result<(u64, Trace)> {
        self.begin_definition(change.verb).await?;
        let _alone = table.hold().await;
        let places = change.places(table)?;
        let query = change.query(table, &places)?;
        let (running, trace) = self.run_traced(query, text, values).await?;
        let types = running.schema.fields().iter().map(|field| Type::of_field(field));
        let types = types.collect::<Result<Vec<_>>>()?;
        change.check_types(table, &places, &types)?;
        let width = table.object.columns.len();
        let (mut stream, matched) = match change.others {
            None => (running.stream, None),
            Some(_) => {
                let limit_bytes = self.settings.current().transaction_memory_limit_bytes;
                let matched = Matched::of(running.stream, width, limit_bytes).await?;
                if matched.is_empty() {
                    return Ok((0, trace));
                }
                (query::rows(&self.server, table).await?, Some(matched))
            }
        };
        let mut writing = self.server.engine.begin(false);
        writing.replace(table.id());
        let mut meant = 0;
        while let Some(batch) = stream.next().await {
            let batch = batch.map_err(plan_error)?;
            let marked = match &matched {
                Some(matched) => matched.marked(&batch)?,
                None => batch.columns().to_vec(),
            };
            let hit = marked[width].as_boolean();
            meant += hit.true_count();
            let kept = match change.assignments {
                Some(_) => self.assigned_rows(&marked, hit, &places, &types)?,
                None => {
                    let kept = not(hit).map_err(arrow_error)?;
                    let kept = marked[..width].iter().map(|column| filter(column, &kept));
                    kept.collect::<std::result::Result<_, _>>().map_err(arrow_error)?
                }
            };
            let rows = kept.first().map_or(0, |column| column.len());
            let columns = std::iter::once(None).chain(kept.into_iter().map(Some)).collect();
            let target = Target::Table(Arc::clone(table));
            let events = self.events(&target, &Fill::none(), columns, rows, self.began_us)?;
            let added = writing.add(table.stream.id(), None, &events);
            added.map_err(|e| e.into_sql(plan_error))?;
        }
        if meant > 0 {
            let shield = Shield::lowered(&self.interrupt);
            let written = writing.commit_with(Level::SyncCommit, || shield.raise()).await;
            written.map_err(|e| e.into_sql(plan_error))?;
        }
        Ok((meant as u64, trace))
    }

    /// The columns of the table with the new values where rows are meant.
    fn assigned_rows(
        &self,
        marked: &[ArrayRef],
        hit: &BooleanArray,
        places: &[Place],
        types: &[Type],
    ) -> Result<Vec<ArrayRef>> {
        let new = marked.len() - places.len();
        let mut columns = marked[..new - 1].to_vec();
        let vars = self.vars();
        for (i, (place, ty)) in places.iter().enumerate() {
            let value = cast::cast(&marked[new + i], types[new + i], *ty, false, &vars)?;
            columns[*place] = zip(hit, &value, &columns[*place]).map_err(arrow_error)?;
        }
        Ok(columns)
    }
}

impl<'a> Change<'a> {
    pub(super) fn new(statement: &'a ast::Statement) -> Result<Self> {
        match statement {
            ast::Statement::Update(update) => Self::of_update(update),
            ast::Statement::Delete(delete) => Self::of_delete(delete),
            _ => Err(SqlError::internal("this statement changes no rows")),
        }
    }

    fn of_update(update: &'a ast::Update) -> Result<Self> {
        let others = update.from.as_ref().map(|from| match from {
            ast::UpdateTableFromKind::BeforeSet(tables) | ast::UpdateTableFromKind::AfterSet(tables) => {
                tables.as_slice()
            }
        });
        Ok(Change {
            verb: "UPDATE",
            relation: &update.table,
            others,
            selection: update.selection.as_ref(),
            assignments: Some(&update.assignments),
            returning: update.returning.as_deref(),
        })
    }

    fn of_delete(delete: &'a ast::Delete) -> Result<Self> {
        let (ast::FromTable::WithFromKeyword(from) | ast::FromTable::WithoutKeyword(from)) = &delete.from;
        let [relation] = from.as_slice() else {
            return Err(SqlError::syntax("DELETE is of one table").with_position(1));
        };
        let selection = delete.selection.as_ref();
        let (others, returning) = (delete.using.as_deref(), delete.returning.as_deref());
        Ok(Change { verb: "DELETE", relation, others, selection, assignments: None, returning })
    }

    pub(super) fn table(&self, session: &Session) -> Result<Changed> {
        let TableFactor::Table { name, .. } = &self.relation.relation else {
            return Err(SqlError::syntax(format!("{} is of a table", self.verb)).with_position(1));
        };
        let name = resolve(name, name.span().start.column.max(1) as usize)?;
        let (plain, nodes) = split_nodes(public(&name)?);
        let found = session.server.catalog.get(plain);
        if nodes.is_some() && !matches!(found, Some(Relation::Foreign(_))) {
            return Err(no_nodes(plain, found.is_some()).with_position(name.position));
        }
        match found {
            Some(Relation::Table(table)) => refuse_returning(self.returning).map(|()| Changed::Table(table)),
            Some(Relation::Foreign(table)) => {
                self.refuse_others()?;
                let nodes = nodes.map(|nodes| nodes.into_iter().map(String::from).collect());
                Ok(Changed::Foreign(ForeignTarget { table, nodes }))
            }
            Some(other) => {
                let what = if self.verb == "UPDATE" { "update" } else { "delete from" };
                let message = format!("cannot {what} {} \"{plain}\"", other.kind());
                Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
                    .with_position(name.position)
                    .with_hint("Only the rows of tables can be changed."))
            }
            None => {
                let message = format!("relation \"{plain}\" does not exist");
                Err(SqlError::new(SqlState::UNDEFINED_TABLE, message).with_position(name.position))
            }
        }
    }

    /// The columns that are assigned to, from 0.
    pub(super) fn places(&self, table: &Table) -> Result<Vec<Place>> {
        let columns: Vec<_> = table.object.columns.iter().map(|c| (c.name.as_str(), c.ty)).collect();
        self.places_among(&table.object.name, &columns)
    }

    pub(super) fn places_among(&self, relation: &str, columns: &[(&str, Type)]) -> Result<Vec<Place>> {
        let mut places: Vec<Place> = Vec::new();
        for assignment in self.assignments.unwrap_or_default() {
            let ast::AssignmentTarget::ColumnName(target) = &assignment.target else {
                let place = assignment.target.span().start.column.max(1) as usize;
                return Err(SqlError::unsupported("assignment to several columns at once is not supported")
                    .with_position(place)
                    .with_hint("Assign to each column by itself."));
            };
            let position = target.span().start.column.max(1) as usize;
            let name = target.0.last().and_then(|part| part.as_ident()).map(fold).unwrap_or_default();
            let Some(place) = columns.iter().position(|(known, _)| *known == name) else {
                let message = format!("column \"{name}\" of relation \"{relation}\" does not exist");
                return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message).with_position(position));
            };
            if places.iter().any(|(p, _)| *p == place) {
                let message = format!("multiple assignments to same column \"{name}\"");
                return Err(SqlError::syntax(message));
            }
            places.push((place, columns[place].1));
        }
        Ok(places)
    }

    fn refuse_others(&self) -> Result<()> {
        let Some(others) = self.others else { return Ok(()) };
        let place = others.first().map_or(1, |other| other.span().start.column.max(1) as usize);
        let clause = if self.verb == "UPDATE" { "UPDATE … FROM" } else { "DELETE … USING" };
        Err(SqlError::unsupported(format!("{clause} of a foreign table is not supported"))
            .with_position(place)
            .with_hint("Its servers know nothing of other tables; tables that are kept here can be joined."))
    }

    /// The query that gives the table's columns, whether the row is meant, and the new values.
    pub(super) fn query(&self, table: &Table, places: &[Place]) -> Result<Box<ast::Query>> {
        if let Some(others) = self.others {
            return self.joining_query(table, places, others);
        }
        let meant = match self.selection {
            Some(condition) => Expr::IsTrue(Box::new(Expr::Nested(Box::new(condition.clone())))),
            None => parse::parse_expr("TRUE")?,
        };
        let alias = ast::Ident::with_quote('"', HIT);
        let mut inner = parse::parse_query("SELECT * FROM t")?;
        if let ast::SetExpr::Select(select) = inner.body.as_mut() {
            select.from = vec![self.relation.clone()];
            select.projection.push(SelectItem::ExprWithAlias { expr: meant, alias: alias.clone() });
        }
        let Some(assignments) = self.assignments else { return Ok(inner) };
        let mut outer = parse::parse_query("SELECT * FROM (SELECT 1) AS t")?;
        if let ast::SetExpr::Select(select) = outer.body.as_mut() {
            for (i, (assignment, place)) in assignments.iter().zip(places).enumerate() {
                let expr = guarded(&alias, new_value(assignment, table, place.0)?);
                select.projection.push(new_item(i, expr));
            }
            for table in &mut select.from {
                if let TableFactor::Derived { subquery, alias, .. } = &mut table.relation {
                    **subquery = std::mem::replace(&mut *inner, (**subquery).clone());
                    if let (Some(alias), Some(name)) = (alias.as_mut(), self.name()) {
                        alias.name = name;
                    }
                }
            }
        }
        Ok(outer)
    }

    /// The name by which the statement's expressions know the table.
    pub(super) fn name(&self) -> Option<ast::Ident> {
        match &self.relation.relation {
            TableFactor::Table { alias: Some(alias), .. } => Some(alias.name.clone()),
            TableFactor::Table { name, .. } => name.0.last()?.as_ident().cloned(),
            _ => None,
        }
    }

    pub(super) fn check_types(&self, table: &Table, places: &[Place], types: &[Type]) -> Result<()> {
        let new = types.len() - places.len();
        let values = self.assignments.unwrap_or_default().iter().zip(places).zip(&types[new..]);
        for ((assignment, (place, ty)), from) in values {
            // A literal of unknown type is read by the column's.
            let is_unknown =
                matches!(value(&assignment.value), Some(Value::String(_) | Value::Null | Value::Default));
            if !is_unknown {
                let position = assignment.value.span().start.column.max(1) as usize;
                check_assignable(&table.object.columns[*place].name, *ty, *from, Some(position))?;
            }
        }
        Ok(())
    }
}

pub(super) fn new_value(assignment: &ast::Assignment, table: &Table, place: usize) -> Result<Expr> {
    match value(&assignment.value) {
        Some(Value::Default) => match table.default(place) {
            Some(default) => Ok(default.expr.clone()),
            None => parse::parse_expr("NULL"),
        },
        Some(Value::Parameter(number)) => {
            let ty = table.object.columns[place].ty.with_typmod(-1);
            parse::parse_expr(&format!("CAST(${number} AS {})", ty.display()))
        }
        _ => Ok(assignment.value.clone()),
    }
}

pub(super) fn new_item(place: usize, expr: Expr) -> SelectItem {
    let alias = ast::Ident::with_quote('"', format!("new value {place}"));
    SelectItem::ExprWithAlias { expr, alias }
}

/// An expression that is only carried out for the rows that are meant.
fn guarded(hit: &ast::Ident, value: Expr) -> Expr {
    use ast::helpers::attached_token::AttachedToken;
    Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions: vec![ast::CaseWhen {
            condition: Expr::Identifier(hit.clone()),
            result: Expr::Nested(Box::new(value)),
        }],
        else_result: None,
    }
}

pub(super) fn arrow_error(error: arrow::error::ArrowError) -> SqlError {
    plan_error(error.into())
}
