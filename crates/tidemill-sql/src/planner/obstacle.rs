//! What of a query a continuous view cannot have, and where that stands. The plan decides whether a query can be one; it
//! has lost the places, so they are looked for in the tree.
//!
//! A view does one layer of a query at each event (filters, projections, UNION ALL), keeps the states of the aggregate
//! above it, and does what is above that when it is read. So it can have neither two sides to join, nor an aggregate over
//! something that is done when the view is read.

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
pub fn view_obstacle(query: &Query, text: &str, state: &SessionState) -> Option<SqlError> {
    let is_aggregate = |name: &str| state.aggregate_functions().contains_key(name);
    let mut search = Search { text: Text::new(text), is_aggregate: &is_aggregate, defined: vec![] };
    search.query(query).err()
}

struct Search<'a> {
    text: Text<'a>,
    is_aggregate: &'a dyn Fn(&str) -> bool,
    /// The names of WITH clauses around, and what is done last in their queries.
    defined: Vec<(String, Option<Layer>)>,
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
            let last = self.query(&cte.query)?;
            self.defined.push((name, last));
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
        select.selection.iter().try_for_each(|condition| no_subquery(condition, "WHERE"))?;
        let projected = || select.projection.iter().filter_map(projected);
        projected().try_for_each(|expr| no_subquery(expr, "the select list"))?;
        if let ast::GroupByExpr::Expressions(exprs, _) = &select.group_by {
            exprs.iter().try_for_each(|expr| self.no_grouping_set(expr))?;
            exprs.iter().try_for_each(|expr| no_subquery(expr, "GROUP BY"))?;
        }
        select.having.iter().try_for_each(|condition| no_subquery(condition, "HAVING"))?;
        let mut last = source;
        let aggregate = self.aggregate(select);
        for layer in aggregate.into_iter().chain(distinct(select)) {
            if let Some(inner) = last {
                return Err(inner.refused_under(layer.what));
            }
            last = Some(layer);
        }
        let above = projected().find_map(|expr| self.call(expr, Call::Window).or(self.call(expr, Call::Set)));
        Ok(above.or(last))
    }

    /// What the one relation of a FROM clause does last.
    fn from(&mut self, select: &Select) -> Result<Option<Layer>> {
        let Some((first, others)) = select.from.split_first() else {
            let at = place::of_span(select.select_token.0.span).0;
            let message = "SELECT without FROM in a continuous view is not supported yet";
            return Err(located(message, ONLY_STREAMS, at));
        };
        let joined = others.first().map(|from| &from.relation);
        self.relation(&first.relation, first.joins.first().map(|join| &join.relation).or(joined))
    }

    fn relation(&mut self, factor: &TableFactor, joined: Option<&TableFactor>) -> Result<Option<Layer>> {
        if let Some(other) = joined {
            let hint = "Make a continuous view of each side, and join them in the query that reads them.";
            let at = place::of_span(other.span()).0;
            return Err(located("joins in a continuous view are not supported yet", hint, at));
        }
        match factor {
            TableFactor::Table { name, args: None, .. } => {
                let known = self.defined.iter().rev().find(|(defined, _)| is_named(name, defined));
                Ok(known.and_then(|(_, last)| *last))
            }
            TableFactor::Derived { subquery, .. } => self.query(subquery),
            TableFactor::NestedJoin { table_with_joins: nested, .. } => {
                self.relation(&nested.relation, nested.joins.first().map(|join| &join.relation))
            }
            other => {
                let at = place::of_span(other.span()).0;
                let message = "functions in FROM of a continuous view are not supported yet";
                Err(located(message, "Call the function in the select list.", at))
            }
        }
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
mod tests {
    use super::*;
    use crate::parse::parse_query;
    use crate::planner::session_state_builder;

    /// The message, and the text from its place on.
    fn obstacle(sql: &str) -> Option<(String, String)> {
        let state = session_state_builder().build();
        let error = view_obstacle(&parse_query(sql).unwrap(), sql, &state)?;
        assert_eq!(error.state.0, "0A000", "{sql}");
        assert!(error.hint.is_some(), "{sql}");
        let at = error.position.map_or(sql.len(), |position| position - 1);
        Some((error.message.clone(), sql[at..].to_string()))
    }

    #[test]
    fn an_obstacle_has_a_place() {
        for (sql, message, at) in [
            ("SELECT count(*) FROM a JOIN b ON a.k = b.k", "joins in", "b ON a.k"),
            ("SELECT count(*) FROM a, b", "joins in", "b"),
            ("SELECT count(*) FROM (a CROSS JOIN b)", "joins in", "b)"),
            ("SELECT k FROM a WHERE k IN (SELECT 1)", "subqueries in WHERE", "SELECT 1)"),
            ("SELECT k FROM a WHERE EXISTS (SELECT 1)", "subqueries in WHERE", "SELECT 1)"),
            ("SELECT (SELECT 1) FROM a", "subqueries in the select list", "SELECT 1)"),
            ("SELECT count(*) FROM a HAVING count(*) > (SELECT 1)", "subqueries in HAVING", "SELECT 1)"),
            ("SELECT k FROM a GROUP BY RollUp (k)", "GROUP BY ROLLUP in", "RollUp (k)"),
            (
                "SELECT k FROM a GROUP BY GROUPING SETS ((), (k))",
                "GROUP BY GROUPING SETS in",
                "GROUPING SETS (",
            ),
            (
                "SELECT max(c) FROM (SELECT count(*) c FROM a) t",
                "an aggregate over an aggregate",
                "count(*) c",
            ),
            ("SELECT DISTINCT k FROM (SELECT k FROM a GROUP BY k) t", "DISTINCT over an aggregate", "k) t"),
            (
                "WITH t AS (SELECT k FROM a LIMIT 3) SELECT max(k) FROM t",
                "an aggregate over LIMIT",
                "3) SELECT",
            ),
            (
                "SELECT max(n) FROM (SELECT rank() OVER () n FROM a) t",
                "an aggregate over a window function",
                "rank()",
            ),
            (
                "SELECT count(*) FROM a UNION ALL SELECT count(*) FROM b",
                "UNION ALL over an aggregate",
                "count(*) FROM a",
            ),
            ("SELECT k FROM a EXCEPT SELECT k FROM b", "EXCEPT in", "EXCEPT SELECT"),
            ("WITH RECURSIVE t AS (SELECT k FROM a UNION SELECT k FROM t) TABLE t", "WITH RECURSIVE", "t AS"),
        ] {
            let (found, place) = obstacle(sql).unwrap();
            assert!(found.starts_with(message), "{sql}: {found}");
            assert!(place.starts_with(at), "{sql}: {place}");
        }
    }

    #[test]
    fn what_a_view_can_have_is_no_obstacle() {
        for sql in [
            "SELECT k, count(*) FROM a GROUP BY k HAVING count(*) > 1 ORDER BY 2 LIMIT 3",
            "WITH t AS (SELECT k FROM a UNION ALL SELECT k FROM a) SELECT sum(k) FROM (SELECT * FROM t) u",
            "SELECT k FROM a UNION SELECT k FROM b UNION SELECT k FROM c",
            "SELECT rank() OVER (ORDER BY k), unnest(ARRAY[k]) FROM a",
            "SELECT DISTINCT ON (k) k, x FROM a ORDER BY k, x",
        ] {
            assert_eq!(obstacle(sql), None, "{sql}");
        }
    }
}
