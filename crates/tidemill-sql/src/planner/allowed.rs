//! What PostgreSQL allows in which clause, checked on the tree as it was written, where places are known: aggregates and
//! window functions, constants that are no positions, what DISTINCT may be ordered by.

use std::ops::ControlFlow;

use sqlparser::ast::{
    self, Expr, Function, JoinConstraint, JoinOperator, LimitClause, OrderByExpr, Query, Select, SelectItem,
    SetExpr, Spanned, Value, Visitor,
};

use super::{name, place, within_group};
use crate::aggregate;
use crate::error::{Result, SqlError, SqlState};
use crate::walk::{walk, walk_expressions_mut};

/// Whether a function of this name is an aggregate.
pub type IsAggregate<'a> = &'a dyn Fn(&str) -> bool;

pub fn query(query: &mut Query, is_aggregate: IsAggregate<'_>) -> Result<()> {
    writes_nothing(query)?;
    if let SetExpr::Values(values) = &*query.body {
        for expr in values.rows.iter().flat_map(|row| row.content.iter()) {
            refuse(expr, "VALUES", is_aggregate)?;
        }
    }
    if let Some(LimitClause::LimitOffset { limit, offset, .. }) = &query.limit_clause {
        for (expr, clause) in
            limit.iter().map(|l| (l, "LIMIT")).chain(offset.iter().map(|o| (&o.value, "OFFSET")))
        {
            refuse(expr, clause, is_aggregate)?;
        }
    }
    let Some(ast::OrderBy { kind: ast::OrderByKind::Expressions(items), .. }) = &mut query.order_by else {
        return Ok(());
    };
    let width = width(&query.body);
    for item in items.iter() {
        position(&item.expr, "ORDER BY", width)?;
        nesting(&item.expr, is_aggregate)?;
    }
    match &*query.body {
        SetExpr::Select(select) if matches!(select.distinct, Some(ast::Distinct::Distinct)) => {
            items.iter_mut().try_for_each(|item| distinct_order(item, &select.projection))
        }
        _ => Ok(()),
    }
}

/// A query only reads: PostgreSQL has statements that write in WITH, and behind it.
fn writes_nothing(query: &Query) -> Result<()> {
    let (statement, verb) = match &*query.body {
        SetExpr::Insert(statement) => (statement, "INSERT"),
        SetExpr::Update(statement) => (statement, "UPDATE"),
        SetExpr::Delete(statement) => (statement, "DELETE"),
        SetExpr::Merge(statement) => (statement, "MERGE"),
        _ => return Ok(()),
    };
    let (place, hint) = match (query.with.is_some(), verb) {
        (false, _) => ("in", "Carry out each statement by itself, in a transaction block if need be."),
        (true, "INSERT") => ("behind", "INSERT INTO … WITH … SELECT does the same."),
        (true, _) => ("behind", "Use a subquery."),
    };
    let at = place::of_span(statement.span()).0;
    let message = format!("{verb} {place} WITH is not supported");
    Err(located(SqlState::FEATURE_NOT_SUPPORTED, message, at).with_hint(hint))
}

pub fn select(select: &Select, is_aggregate: IsAggregate<'_>) -> Result<()> {
    if let Some(condition) = &select.selection {
        refuse(condition, "WHERE", is_aggregate)?;
    }
    for join in select.from.iter().flat_map(|from| &from.joins) {
        if let JoinOperator::Join(JoinConstraint::On(condition))
        | JoinOperator::Inner(JoinConstraint::On(condition))
        | JoinOperator::Left(JoinConstraint::On(condition))
        | JoinOperator::LeftOuter(JoinConstraint::On(condition))
        | JoinOperator::Right(JoinConstraint::On(condition))
        | JoinOperator::RightOuter(JoinConstraint::On(condition))
        | JoinOperator::FullOuter(JoinConstraint::On(condition)) = &join.join_operator
        {
            refuse(condition, "JOIN conditions", is_aggregate)?;
        }
    }
    if let ast::GroupByExpr::Expressions(items, _) = &select.group_by {
        let width = projected(&select.projection);
        for item in items {
            position(item, "GROUP BY", width)?;
            refuse(item, "GROUP BY", is_aggregate)?;
        }
    }
    if let Some(condition) = &select.having {
        find(condition, is_aggregate, &mut |_, found| match found {
            Found::Window(at) => Err(window_refused("HAVING", at)),
            Found::Aggregate(_) => Ok(()),
        })?;
        nesting(condition, is_aggregate)?;
    }
    select.projection.iter().filter_map(shown).try_for_each(|expr| nesting(expr, is_aggregate))?;
    select.projection.iter().filter_map(shown).chain(&select.having).try_for_each(|expr| {
        find(expr, is_aggregate, &mut |function, _| within_group::direct_arguments(function, select))
    })
}

/// RETURNING is of single rows.
pub fn returning(items: &[SelectItem], is_aggregate: IsAggregate<'_>) -> Result<()> {
    items.iter().filter_map(shown).try_for_each(|expr| refuse(expr, "RETURNING", is_aggregate))
}

pub(super) fn shown(item: &SelectItem) -> Option<&Expr> {
    match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    }
}

/// A call that is not everywhere allowed, and where it stands.
enum Found {
    Aggregate(usize),
    Window(usize),
}

fn window_refused(clause: &str, at: usize) -> SqlError {
    located(SqlState::WINDOWING_ERROR, format!("window functions are not allowed in {clause}"), at)
}

pub(super) fn located(state: SqlState, message: impl Into<String>, at: usize) -> SqlError {
    let error = SqlError::new(state, message);
    if at > 0 { error.with_position(at) } else { error }
}

/// Neither aggregates nor window functions may be in the clause. Those of subqueries are theirs.
fn refuse(expr: &Expr, clause: &str, is_aggregate: IsAggregate<'_>) -> Result<()> {
    find(expr, is_aggregate, &mut |_, found| match found {
        Found::Aggregate(at) => {
            let message = format!("aggregate functions are not allowed in {clause}");
            Err(located(SqlState::GROUPING_ERROR, message, at))
        }
        Found::Window(at) => Err(window_refused(clause, at)),
    })
}

/// Whether an aggregate, not one of a subquery, is in the expression.
pub(super) fn has_aggregate(expr: &Expr, is_aggregate: IsAggregate<'_>) -> bool {
    let stop = |_: &Function, found| match found {
        Found::Aggregate(at) => Err(located(SqlState::GROUPING_ERROR, "", at)),
        Found::Window(_) => Ok(()),
    };
    find(expr, is_aggregate, &mut { stop }).is_err()
}

/// What to do with a call.
type Met<'a> = &'a mut dyn FnMut(&Function, Found) -> Result<()>;

fn find(expr: &Expr, is_aggregate: IsAggregate<'_>, met: Met<'_>) -> Result<()> {
    let mut calls = Calls { is_aggregate, subqueries: 0, met };
    match walk(expr, &mut calls) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(*error),
    }
}

struct Calls<'a> {
    is_aggregate: IsAggregate<'a>,
    subqueries: usize,
    met: Met<'a>,
}

impl Visitor for Calls<'_> {
    type Break = Box<SqlError>;

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<Self::Break> {
        self.subqueries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<Self::Break> {
        self.subqueries -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<Self::Break> {
        let (function, found) = match kind(expr, self.is_aggregate) {
            Some(found) if self.subqueries == 0 => found,
            _ => return ControlFlow::Continue(()),
        };
        match (self.met)(function, found) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(Box::new(error)),
        }
    }
}

/// An expression that is a call of an aggregate or of a window function.
fn kind<'e>(expr: &'e Expr, is_aggregate: IsAggregate<'_>) -> Option<(&'e Function, Found)> {
    let Expr::Function(function) = expr else { return None };
    let at = place::of_span(function.name.span()).0;
    if function.over.is_some() {
        return Some((function, Found::Window(at)));
    }
    let name = function.name.0.last().and_then(|part| part.as_ident()).map(name::fold)?;
    let is_hypothetical = !function.within_group.is_empty() && aggregate::within_group(&name).is_some();
    (is_aggregate(&name) || is_hypothetical).then_some((function, Found::Aggregate(at)))
}

/// Calls inside of aggregates and of window functions.
fn nesting(expr: &Expr, is_aggregate: IsAggregate<'_>) -> Result<()> {
    let mut nesting = Nesting { is_aggregate, subqueries: 0, around: vec![] };
    match walk(expr, &mut nesting) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(*error),
    }
}

struct Nesting<'a> {
    is_aggregate: IsAggregate<'a>,
    subqueries: usize,
    /// The calls around the expression: true for aggregates.
    around: Vec<bool>,
}

impl Nesting<'_> {
    fn check(&self, found: &Found) -> Result<()> {
        let (message, state, at) = match (found, self.around.last()) {
            (Found::Aggregate(at), Some(true)) => {
                ("aggregate function calls cannot be nested", SqlState::GROUPING_ERROR, *at)
            }
            (Found::Window(at), Some(true)) => (
                "aggregate function calls cannot contain window function calls",
                SqlState::GROUPING_ERROR,
                *at,
            ),
            (Found::Window(at), Some(false)) => {
                ("window function calls cannot be nested", SqlState::WINDOWING_ERROR, *at)
            }
            _ => return Ok(()),
        };
        Err(located(state, message, at))
    }
}

impl Visitor for Nesting<'_> {
    type Break = Box<SqlError>;

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<Self::Break> {
        self.subqueries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<Self::Break> {
        self.subqueries -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<Self::Break> {
        let Some((function, found)) = kind(expr, self.is_aggregate).filter(|_| self.subqueries == 0) else {
            return ControlFlow::Continue(());
        };
        let filter = function.filter.as_deref().map_or(Ok(()), |f| refuse(f, "FILTER", self.is_aggregate));
        if let Err(error) = filter.and_then(|()| self.check(&found)) {
            return ControlFlow::Break(Box::new(error));
        }
        self.around.push(matches!(found, Found::Aggregate(_)));
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &Expr) -> ControlFlow<Self::Break> {
        if self.subqueries == 0 && kind(expr, self.is_aggregate).is_some() {
            self.around.pop();
        }
        ControlFlow::Continue(())
    }
}

/// A constant in ORDER BY or GROUP BY is the number of a column of the select list.
pub(super) fn position(expr: &Expr, clause: &str, width: Option<usize>) -> Result<()> {
    let Expr::Value(value) = expr else { return Ok(()) };
    let at = place::of_span(value.span).0;
    let number = match &value.value {
        Value::Number(digits, _) => digits.parse::<usize>().ok(),
        Value::Placeholder(_) => return Ok(()),
        _ => None,
    };
    match (number, width) {
        (None, _) => {
            let message = format!("non-integer constant in {clause}");
            Err(located(SqlState::SYNTAX_ERROR, message, at))
        }
        (Some(number), Some(width)) if number == 0 || number > width => {
            let message = format!("{clause} position {number} is not in select list");
            Err(located(SqlState::INVALID_COLUMN_REFERENCE, message, at))
        }
        _ => Ok(()),
    }
}

/// How many columns a query gives, if no `*` leaves that open.
pub(super) fn width(body: &SetExpr) -> Option<usize> {
    match body {
        SetExpr::Select(select) => projected(&select.projection),
        SetExpr::Query(query) => width(&query.body),
        SetExpr::SetOperation { left, .. } => width(left),
        SetExpr::Values(values) => values.rows.first().map(|row| row.content.len()),
        _ => None,
    }
}

pub(super) fn projected(items: &[SelectItem]) -> Option<usize> {
    items.iter().all(is_expression).then_some(items.len())
}

fn is_expression(item: &SelectItem) -> bool {
    matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. })
}

/// DISTINCT is ordered by what it shows. An expression of the select list becomes its number.
fn distinct_order(item: &mut OrderByExpr, items: &[SelectItem]) -> Result<()> {
    if matches!(item.expr, Expr::Value(_)) {
        return Ok(());
    }
    let is_column = matches!(item.expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
    let shows_all = !items.iter().all(is_expression);
    let wanted = plain(&item.expr);
    let shown = |shown: &SelectItem| match shown {
        SelectItem::UnnamedExpr(expr) => plain(expr) == wanted,
        SelectItem::ExprWithAlias { expr, alias } => {
            plain(expr) == wanted
                || matches!(&wanted, Expr::Identifier(name) if name::fold(name) == name::fold(alias))
        }
        _ => false,
    };
    match items.iter().position(shown) {
        // Its own name is as good, and `*` before it may be any number of columns.
        Some(_) if is_column || shows_all => Ok(()),
        Some(index) => {
            item.expr = Expr::value(Value::Number((index + 1).to_string(), false));
            Ok(())
        }
        None if is_column && shows_all => Ok(()),
        None => {
            let message = "for SELECT DISTINCT, ORDER BY expressions must appear in select list";
            Err(located(SqlState::INVALID_COLUMN_REFERENCE, message, place::extent(&item.expr).0))
        }
    }
}

/// The expression with columns by their names alone, folded, and wherever it stands.
pub(super) fn plain(expr: &Expr) -> Expr {
    let mut expr = expr.clone();
    let _ = walk_expressions_mut(&mut expr, |expr: &mut Expr| {
        if let Expr::BinaryOp { op: ast::BinaryOperator::Custom(name), .. } = expr {
            *name = place::split(name).0.to_string();
        }
        let last = match expr {
            Expr::CompoundIdentifier(parts) => parts.last().cloned(),
            Expr::Identifier(name) => Some(name.clone()),
            _ => None,
        };
        if let Some(last) = last {
            *expr = Expr::Identifier(ast::Ident::new(name::fold(&last)));
        }
        ControlFlow::<()>::Continue(())
    });
    expr
}
