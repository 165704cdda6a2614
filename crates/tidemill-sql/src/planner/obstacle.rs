//! What of a query a continuous view cannot have, and where that stands. The plan decides whether a query can be one; it
//! has lost the places, so they are looked for in the tree.
//!
//! A view does one layer of a query at each event (filters, projections, joins with tables, UNION ALL), keeps the states of
//! the aggregate above it, and does what is above that when it is read. So it can have neither a stream on both sides of a
//! join, nor a join or an aggregate over something that is done when the view is read.

use std::ops::ControlFlow;

use datafusion::execution::SessionState;
use sqlparser::ast::{
    self, Expr, LimitClause, Query, Select, SelectItem, SetExpr, SetOperator, SetQuantifier, Spanned,
    TableFactor, Visitor,
};

use super::name;
use super::place::{self, Text};
use crate::error::{Result, SqlError, SqlState};
use crate::function::registry;
use crate::walk::{walk, walk_expressions};

/// The first thing in a query that a continuous view cannot have; positions are those of the query's text.
pub fn view_obstacle(
    query: &Query,
    text: &str,
    state: &SessionState,
    is_stream: &dyn Fn(&ast::ObjectName) -> bool,
) -> Option<SqlError> {
    last_layer(query, text, state, is_stream).err()
}

/// The same of a continuous transform, which does nothing but that one layer.
pub fn transform_obstacle(
    query: &Query,
    text: &str,
    state: &SessionState,
    is_stream: &dyn Fn(&ast::ObjectName) -> bool,
) -> Option<SqlError> {
    let mut found = match last_layer(query, text, state, is_stream) {
        Ok(last) => {
            let Layer { what, at } = last?;
            let hint = "Have it in a continuous view over a stream that the transform writes to.";
            located(format!("{what} in a continuous transform is not supported"), hint, at)
        }
        Err(error) => error,
    };
    found.message = found.message.replace("continuous view", "continuous transform");
    Some(found)
}

fn last_layer(
    query: &Query,
    text: &str,
    state: &SessionState,
    is_stream: &dyn Fn(&ast::ObjectName) -> bool,
) -> Result<Option<Layer>> {
    let is_aggregate = |name: &str| state.aggregate_functions().contains_key(name);
    Search { text: Text::new(text), is_aggregate: &is_aggregate, is_stream, defined: vec![] }.query(query)
}

struct Search<'a> {
    text: Text<'a>,
    is_aggregate: &'a dyn Fn(&str) -> bool,
    is_stream: &'a dyn Fn(&ast::ObjectName) -> bool,
    /// The queries of the WITH clauses around.
    defined: Vec<Defined>,
}

struct Defined {
    name: String,
    /// What it does last.
    last: Option<Layer>,
    reads_stream: bool,
}

/// What a query does last and not event by event.
#[derive(Debug, Clone, Copy)]
struct Layer {
    what: &'static str,
    at: usize,
}

const AGGREGATE: &str = "an aggregate";

impl Layer {
    /// Of an expression, as far as it is known where that stands.
    fn of(what: &'static str, expr: &Expr) -> Layer {
        Layer { what, at: place::extent(expr).0 }
    }

    fn refused_under(self, outer: &str) -> SqlError {
        let hint = match outer {
            "UNION ALL" => "Make a continuous view of each branch, and read them with UNION ALL.",
            _ => "Make the inner query a continuous view and read it with the outer query.",
        };
        let message = format!("{outer} over {} is not supported in a continuous view yet", self.what);
        located(message, hint, self.at)
    }
}

fn located(message: impl Into<String>, hint: &str, at: usize) -> SqlError {
    let error = SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).with_hint(hint);
    if at > 0 { error.with_position(at) } else { error }
}

impl Search<'_> {
    fn query(&mut self, query: &Query) -> Result<Option<Layer>> {
        let outer = self.defined.len();
        for cte in query.with.iter().flat_map(|with| &with.cte_tables) {
            let name = name::fold(&cte.alias.name);
            if crate::relation::relations(&cte.query).iter().any(|read| is_named(read, &name)) {
                let hint = "Have the recursion in the query that reads the view.";
                let at = place::of_span(cte.alias.name.span).0;
                return Err(located("WITH RECURSIVE in a continuous view is not supported yet", hint, at));
            }
            let reads_stream = self.reads_stream(&cte.query);
            let last = if reads_stream { self.query(&cte.query)? } else { None };
            self.defined.push(Defined { name, last, reads_stream });
        }
        let body = self.body(&query.body)?;
        self.defined.truncate(outer);
        let order = match &query.order_by {
            Some(ast::OrderBy { kind: ast::OrderByKind::Expressions(items), .. }) => &items[..],
            _ => &[],
        };
        order.iter().try_for_each(|item| no_subquery(&item.expr, "ORDER BY"))?;
        let ordered = order.first().map(|item| Layer::of("ORDER BY", &item.expr));
        Ok(limited(query).or(ordered).or(body))
    }

    fn body(&mut self, body: &SetExpr) -> Result<Option<Layer>> {
        match body {
            SetExpr::Select(select) => self.select(select),
            SetExpr::Query(query) => self.query(query),
            SetExpr::SetOperation { op, set_quantifier, left, right } => {
                self.set_operation(*op, *set_quantifier, left, right)
            }
            SetExpr::Values(values) => {
                let at = place::of_span(values.span()).0;
                Err(located("VALUES in a continuous view is not supported yet", ONLY_STREAMS, at))
            }
            _ => Ok(None),
        }
    }

    fn set_operation(
        &mut self,
        op: SetOperator,
        quantifier: SetQuantifier,
        left: &SetExpr,
        right: &SetExpr,
    ) -> Result<Option<Layer>> {
        let branches = [self.body(left)?, self.body(right)?];
        let behind = place::of_span(right.span()).0;
        if op != SetOperator::Union {
            let at = self.text.word_before(&op.to_string(), behind);
            let hint = format!("Make a continuous view of each side, and read them with {op}.");
            return Err(located(format!("{op} in a continuous view is not supported yet"), &hint, at));
        }
        let is_all = quantifier == SetQuantifier::All;
        // UNION over UNION is one.
        let is_layer = |layer: &Layer| is_all || layer.what != "UNION";
        if let Some(layer) = branches.into_iter().flatten().find(is_layer) {
            return Err(layer.refused_under(if is_all { "UNION ALL" } else { "UNION" }));
        }
        let union = || Layer { what: "UNION", at: self.text.word_before("UNION", behind) };
        Ok((!is_all).then(union))
    }

    fn select(&mut self, select: &Select) -> Result<Option<Layer>> {
        let source = self.from(select)?;
        select.selection.iter().try_for_each(|condition| self.no_stream_in(condition, "WHERE"))?;
        let projected = || select.projection.iter().filter_map(projected);
        let aggregate = self.aggregate(select);
        let select_list = "the select list";
        projected().try_for_each(|expr| match aggregate {
            Some(_) => no_subquery(expr, select_list),
            None => self.no_stream_in(expr, select_list),
        })?;
        if let ast::GroupByExpr::Expressions(exprs, _) = &select.group_by {
            exprs.iter().try_for_each(|expr| self.no_grouping_set(expr))?;
            exprs.iter().try_for_each(|expr| self.no_stream_in(expr, "GROUP BY"))?;
        }
        select.having.iter().try_for_each(|condition| no_subquery(condition, "HAVING"))?;
        let mut last = source;
        for layer in aggregate.into_iter().chain(distinct(select)) {
            if let Some(inner) = last {
                return Err(inner.refused_under(layer.what));
            }
            last = Some(layer);
        }
        let above = projected().find_map(|expr| self.call(expr, Call::Window).or(self.call(expr, Call::Set)));
        Ok(above.or(last))
    }

    /// What the stream of a FROM clause does last.
    fn from(&mut self, select: &Select) -> Result<Option<Layer>> {
        let Some((first, others)) = select.from.split_first() else {
            let at = place::of_span(select.select_token.0.span).0;
            let message = "SELECT without FROM in a continuous view is not supported yet";
            return Err(located(message, ONLY_STREAMS, at));
        };
        let others = others.iter().flat_map(|from| {
            let joined = from.joins.iter().map(|join| (&join.relation, Some(&join.join_operator)));
            std::iter::once((&from.relation, None)).chain(joined)
        });
        let joined = first.joins.iter().map(|join| (&join.relation, Some(&join.join_operator)));
        self.joined(&first.relation, joined.chain(others))
    }

    fn joined<'q>(
        &mut self,
        first: &'q TableFactor,
        others: impl Iterator<Item = (&'q TableFactor, Option<&'q ast::JoinOperator>)>,
    ) -> Result<Option<Layer>> {
        let mut others = others.peekable();
        if others.peek().is_none() {
            return self.relation(first);
        }
        let mut last = self.side(first)?;
        let mut has_stream = self.factor_reads_stream(first);
        for (factor, operator) in others {
            let (reads, at) = (self.factor_reads_stream(factor), place::of_span(factor.span()).0);
            if let TableFactor::Derived { lateral: true, .. } = factor {
                let message = "LATERAL in a continuous view is not supported yet";
                return Err(located(message, "Join the table itself, with the condition in ON.", at));
            }
            if reads && has_stream {
                let hint =
                    "Make a continuous view of each stream, and join them in the query that reads them.";
                let message = "joins of streams are not supported in a continuous view yet";
                return Err(located(message, hint, at));
            }
            last = last.or(self.side(factor)?);
            if let Some(layer) = last {
                return Err(layer.refused_under("a join"));
            }
            use ast::JoinOperator::{FullOuter, Left, LeftOuter, Right, RightOuter};
            let word = match operator {
                Some(FullOuter(_)) => Some("FULL JOIN"),
                Some(Left(_) | LeftOuter(_)) if reads => Some("LEFT JOIN with a stream on its right"),
                Some(Right(_) | RightOuter(_)) if has_stream => Some("RIGHT JOIN with a stream on its left"),
                _ => None,
            };
            if let Some(word) = word {
                let message = format!("{word} in a continuous view is not supported");
                let hint = "Rows of a table that no event joins can't be kept; events without a row can: stream LEFT JOIN table.";
                return Err(located(message, hint, at));
            }
            has_stream |= reads;
        }
        Ok(None)
    }

    /// Of a relation that is joined: what reads no stream may do anything.
    fn side(&mut self, factor: &TableFactor) -> Result<Option<Layer>> {
        if self.factor_reads_stream(factor) { self.relation(factor) } else { Ok(None) }
    }

    fn relation(&mut self, factor: &TableFactor) -> Result<Option<Layer>> {
        match factor {
            TableFactor::Table { name, args: None, .. } => {
                let known = self.defined.iter().rev().find(|defined| is_named(name, &defined.name));
                Ok(known.and_then(|defined| defined.last))
            }
            TableFactor::Derived { subquery, .. } => self.query(subquery),
            TableFactor::NestedJoin { table_with_joins: nested, .. } => {
                let joined = nested.joins.iter().map(|join| (&join.relation, Some(&join.join_operator)));
                self.joined(&nested.relation, joined)
            }
            other => {
                let at = place::of_span(other.span()).0;
                let message = "functions in FROM of a continuous view are not supported yet";
                Err(located(message, "Call the function in the select list.", at))
            }
        }
    }

    fn reads_stream(&self, query: &Query) -> bool {
        crate::relation::relations(query).iter().any(|name| self.is_stream_name(name))
    }

    fn is_stream_name(&self, name: &ast::ObjectName) -> bool {
        match self.defined.iter().rev().find(|defined| is_named(name, &defined.name)) {
            Some(defined) => defined.reads_stream,
            None => (self.is_stream)(name),
        }
    }

    fn factor_reads_stream(&self, factor: &TableFactor) -> bool {
        match factor {
            TableFactor::Table { name, args: None, .. } => self.is_stream_name(name),
            TableFactor::Derived { subquery, .. } => self.reads_stream(subquery),
            TableFactor::NestedJoin { table_with_joins: nested, .. } => {
                let joined = nested.joins.iter().map(|join| &join.relation);
                std::iter::once(&nested.relation).chain(joined).any(|factor| self.factor_reads_stream(factor))
            }
            _ => false,
        }
    }

    /// Subqueries over tables are joins; those over streams would be joins of streams.
    fn no_stream_in(&self, expr: &Expr, clause: &str) -> Result<()> {
        let reads = subqueries(expr).iter().any(|query| self.reads_stream(query));
        if reads { no_subquery(expr, clause) } else { Ok(()) }
    }

    fn no_grouping_set(&self, expr: &Expr) -> Result<()> {
        let (word, first) = match expr {
            Expr::Rollup(sets) => ("ROLLUP", sets),
            Expr::Cube(sets) => ("CUBE", sets),
            Expr::GroupingSets(sets) => ("GROUPING SETS", sets),
            _ => return Ok(()),
        };
        let inside = first.iter().flatten().map(|expr| place::extent(expr).0).find(|at| *at > 0);
        let at = inside.map_or(0, |at| self.text.word_before(word.split(' ').next().unwrap_or(word), at));
        let hint =
            format!("Group by all of its expressions here, and by {word} in the query that reads the view.");
        Err(located(format!("GROUP BY {word} in a continuous view is not supported yet"), &hint, at))
    }

    fn aggregate(&self, select: &Select) -> Option<Layer> {
        let grouped = match &select.group_by {
            ast::GroupByExpr::Expressions(exprs, _) => exprs.first(),
            ast::GroupByExpr::All(_) => None,
        };
        let exprs = select.projection.iter().filter_map(projected).chain(&select.having);
        let called = exprs.into_iter().find_map(|expr| self.call(expr, Call::Aggregate));
        called.or(grouped.map(|expr| Layer::of(AGGREGATE, expr)))
    }

    /// The first call of a kind in an expression.
    fn call(&self, expr: &Expr, kind: Call) -> Option<Layer> {
        let found = walk_expressions(expr, |expr: &Expr| {
            let Expr::Function(function) = expr else { return ControlFlow::Continue(()) };
            let name = function.name.0.last().and_then(|part| part.as_ident()).map(name::fold);
            let name = name.unwrap_or_default();
            let what = match kind {
                Call::Window => function.over.is_some().then_some("a window function"),
                Call::Aggregate => {
                    let folds = (self.is_aggregate)(&name) || !function.within_group.is_empty();
                    (function.over.is_none() && folds).then_some(AGGREGATE)
                }
                Call::Set => {
                    registry().function(&name).iter().any(|f| f.set).then_some("a set-returning function")
                }
            };
            match what {
                Some(what) => ControlFlow::Break(Layer { what, at: place::of_span(function.name.span()).0 }),
                None => ControlFlow::Continue(()),
            }
        });
        found.break_value()
    }
}

const ONLY_STREAMS: &str = "A continuous view reads streams; read it together with other rows in a query.";

#[derive(Debug, Clone, Copy)]
enum Call {
    Aggregate,
    Window,
    Set,
}

fn projected(item: &SelectItem) -> Option<&Expr> {
    match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    }
}

fn is_named(relation: &ast::ObjectName, name: &str) -> bool {
    matches!(&relation.0[..], [part] if part.as_ident().is_some_and(|ident| name::fold(ident) == name))
}

fn limited(query: &Query) -> Option<Layer> {
    let limit = match &query.limit_clause {
        Some(LimitClause::LimitOffset { limit, offset, .. }) => {
            limit.as_ref().or(offset.as_ref().map(|offset| &offset.value))
        }
        Some(LimitClause::OffsetCommaLimit { limit, .. }) => Some(limit),
        None => query.fetch.as_ref().and_then(|fetch| fetch.quantity.as_ref()),
    };
    limit.map(|rows| Layer::of("LIMIT", rows))
}

fn distinct(select: &Select) -> Option<Layer> {
    let at = place::of_span(select.select_token.0.span).0;
    select.distinct.as_ref().map(|_| Layer { what: "DISTINCT", at })
}

fn subqueries(expr: &Expr) -> Vec<Query> {
    struct All(Vec<Query>);
    impl Visitor for All {
        type Break = ();

        fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
            self.0.push(query.clone());
            ControlFlow::Continue(())
        }
    }
    let mut all = All(vec![]);
    let _ = walk(expr, &mut all);
    all.0
}

/// A view's expressions are over one event, or over its aggregates.
fn no_subquery(expr: &Expr, clause: &str) -> Result<()> {
    struct First;
    impl Visitor for First {
        type Break = usize;

        fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<usize> {
            ControlFlow::Break(place::of_span(query.span()).0)
        }
    }
    let ControlFlow::Break(at) = walk(expr, &mut First) else { return Ok(()) };
    let message = format!("subqueries in {clause} of a continuous view are not supported yet");
    Err(located(message, "Have the subquery in the query that reads the view.", at))
}

#[cfg(test)]
#[path = "obstacle_tests.rs"]
mod tests;
