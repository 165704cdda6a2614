//! Rewrites a parsed statement so that DataFusion's SQL planner gives it PostgreSQL's meaning: constructs become markers
//! (see [`super::marker`]), output columns get PostgreSQL's names, set-returning functions in FROM become subqueries.

use std::ops::ControlFlow;

use datafusion::execution::SessionState;
use sqlparser::ast::{
    self, Expr, Query, Select, SetExpr, Spanned, Statement, TableFactor, Value, VisitorMut,
};

use super::construct::{
    between, binary, boolean, case, in_list, interval_literal, like, number, plain_operator, qualify,
    restore_ordinal, subscripts, syntax_call, unary,
};
use super::nesting::Nesting;
use super::outer_name::Levels;
use super::place::{self, Text};
use super::{
    allowed, array_subquery, clause, distinct_from, foreign_clause, grouping, marker, membership,
    merged_column, name, named_window, pattern_list, relkind, set_operation, system_column, table_function,
    values, whole_row,
};
use crate::data_type::type_of;
use crate::error::{Result, SqlError};
use crate::types::Type;
use crate::walk::{Walk, walk_mut};

/// Prepares a statement for planning in a session whose state is given: its functions are those that may be called.
pub fn prepare(statement: &mut Statement, state: &SessionState) -> Result<()> {
    run(statement, state, "", &[])
}

/// As [`prepare`], with the statement's text, so that errors tell the places of operators, and the types of those
/// parameters that the client has declared.
pub fn prepare_text(
    statement: &mut Statement,
    text: &str,
    parameters: &[Option<Type>],
    state: &SessionState,
) -> Result<()> {
    run(statement, state, text, parameters)
}

/// As [`prepare`], for a query alone.
pub fn prepare_query(query: &mut Query, state: &SessionState) -> Result<()> {
    run(query, state, "", &[])
}

/// As [`prepare`], for an expression alone.
pub fn prepare_expr(expr: &mut Expr, state: &SessionState) -> Result<()> {
    run(expr, state, "", &[])
}

/// Checks the items of RETURNING as they are written.
pub fn check_returning(items: &[ast::SelectItem], state: &SessionState) -> Result<()> {
    allowed::returning(items, &|name| state.aggregate_functions().contains_key(name))
}

fn run(node: &mut impl Walk, state: &SessionState, text: &str, parameters: &[Option<Type>]) -> Result<()> {
    distinct_from::rewrite(node);
    let (text, nesting, levels) = (Text::new(text), Nesting::default(), Levels::default());
    match walk_mut(node, &mut Rewriter { state, text, parameters, nesting, levels }) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(*error),
    }
}

pub(super) struct Rewriter<'a> {
    pub(super) state: &'a SessionState,
    text: Text<'a>,
    parameters: &'a [Option<Type>],
    nesting: Nesting,
    levels: Levels,
}

impl VisitorMut for Rewriter<'_> {
    type Break = Box<SqlError>;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Self::Break> {
        if let Err(error) = self.nesting.enter(query) {
            return ControlFlow::Break(Box::new(error));
        }
        control(
            foreign_clause::query(query, &self.text)
                .and_then(|()| clause::distinct_on(query))
                .map(|()| merged_column::rewrite_order(query))
                .and_then(|()| allowed::query(query, &|name| self.is_aggregate(name)))
                .and_then(|()| named_window::resolve(query))
                .map(|()| set_operation::relation::name_branches(&mut query.body)),
        )
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Self::Break> {
        let checked = foreign_clause::select(select, &self.text)
            .and_then(|()| grouping::positions(select))
            .and_then(|()| allowed::select(select, &|name| self.is_aggregate(name)));
        if let Err(error) = checked {
            return ControlFlow::Break(Box::new(error));
        }
        grouping::of_having(select, &|name| self.is_aggregate(name));
        self.levels.enter(select);
        merged_column::rewrite(select);
        name::assign(&mut select.projection);
        relkind::rewrite(select);
        whole_row::rewrite(select);
        whole_row::single_values(select);
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        clause::minus_before_power(expr);
        if let Err(error) = pattern_list::rewrite(expr, &self.text) {
            return ControlFlow::Break(Box::new(error));
        }
        qualify(expr);
        if let Some(query) = array_subquery::subquery(expr) {
            match array_subquery::rewrite(query) {
                Ok(rewritten) => *expr = rewritten,
                Err(error) => return ControlFlow::Break(Box::new(error)),
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_select(&mut self, select: &mut Select) -> ControlFlow<Self::Break> {
        self.levels.leave();
        if let ast::GroupByExpr::Expressions(exprs, _) = &mut select.group_by {
            if let Err(error) = grouping::expand(exprs, &self.text) {
                return ControlFlow::Break(Box::new(error));
            }
            exprs.iter_mut().for_each(restore_ordinal);
        }
        if let Some(ast::Distinct::On(exprs)) = &mut select.distinct {
            exprs.iter_mut().for_each(restore_ordinal);
        }
        if let Some(condition) = select.selection.take() {
            select.selection = Some(boolean(condition, "WHERE"));
        }
        if let Some(condition) = select.having.take() {
            select.having = Some(boolean(condition, "HAVING"));
        }
        system_column::rewrite(select);
        control(clause::joins(select))
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<Self::Break> {
        self.nesting.leave();
        if let SetExpr::Values(values) = &mut *query.body {
            values::unify_columns(values);
        }
        query.with.iter_mut().for_each(set_operation::relation::of_with);
        if let Some(ast::OrderBy { kind: ast::OrderByKind::Expressions(exprs), .. }) = &mut query.order_by {
            exprs.iter_mut().for_each(|order| restore_ordinal(&mut order.expr));
        }
        control(clause::limit(query))
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Self::Break> {
        let rewritten =
            foreign_clause::factor(factor, &self.text).and_then(|()| table_function::rewrite(factor));
        self.nesting.factor(factor);
        control(rewritten)
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Self::Break> {
        control(self.table_function(factor))
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        let mut taken = std::mem::replace(expr, Expr::value(Value::Null));
        let at = self.place(&taken);
        if let Some(query) = compared(&mut taken) {
            set_operation::relation::in_from(query);
        }
        let of_subquery =
            matches!(taken, Expr::InSubquery { .. } | Expr::AnyOp { .. } | Expr::AllOp { .. }) && at > 0;
        match self.rewrite(taken) {
            Ok(rewritten) => {
                *expr = rewritten;
                self.levels.tell(expr);
                place::annotate(expr, at);
                ControlFlow::Continue(())
            }
            Err(error) if of_subquery && error.position.is_none() => {
                ControlFlow::Break(Box::new(error.with_position(at)))
            }
            Err(error) => ControlFlow::Break(Box::new(error)),
        }
    }
}

/// The subquery whose values are those of an expression, or are compared with it.
fn compared(expr: &mut Expr) -> Option<&mut Query> {
    match expr {
        Expr::Subquery(query) => Some(query),
        Expr::InSubquery { subquery, .. } => Some(subquery),
        _ => None,
    }
}

fn control(result: Result<()>) -> ControlFlow<Box<SqlError>> {
    match result {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => ControlFlow::Break(Box::new(error)),
    }
}

impl Rewriter<'_> {
    fn is_aggregate(&self, name: &str) -> bool {
        self.state.aggregate_functions().contains_key(name)
    }

    /// Where the operator, the name or the cast of an expression stands, whose operands have been rewritten.
    fn place(&self, expr: &Expr) -> usize {
        let text = &self.text;
        match expr {
            Expr::BinaryOp { left, op, right } => text.operator(&plain_operator(op), left, right),
            Expr::AnyOp { left, compare_op, right, .. } | Expr::AllOp { left, compare_op, right } => {
                text.operator(&plain_operator(compare_op), left, right)
            }
            Expr::InSubquery { expr, subquery, .. } => text.word_between(expr, subquery),
            Expr::Like { expr, pattern: right, .. }
            | Expr::ILike { expr, pattern: right, .. }
            | Expr::SimilarTo { expr, pattern: right, .. }
            | Expr::Between { expr, low: right, .. }
            | Expr::IsDistinctFrom(expr, right)
            | Expr::IsNotDistinctFrom(expr, right) => text.operator("word", expr, right),
            Expr::InList { expr, list, .. } => {
                list.first().map_or(0, |first| text.operator("word", expr, first))
            }
            Expr::UnaryOp { op, expr } => text.before(&op.to_string(), expr),
            Expr::Cast { kind: ast::CastKind::DoubleColon, expr, .. } => text.cast(expr),
            Expr::Cast { expr, .. } => text.before("cast", expr),
            Expr::Function(function) => place::of_span(function.name.span()).0,
            Expr::Array(array) => array.elem.first().map_or(0, |first| text.before("array", first)),
            _ => 0,
        }
    }

    /// The type that the client has declared for `$n`.
    fn declared(&self, name: &str) -> Option<Type> {
        let number: usize = name.strip_prefix('$')?.parse().ok()?;
        *self.parameters.get(number.checked_sub(1)?)?
    }

    fn rewrite(&self, expr: Expr) -> Result<Expr> {
        Ok(match expr {
            Expr::Value(value) => match value.value {
                Value::Number(digits, _) => number(&digits, value.span)?,
                Value::EscapedStringLiteral(s)
                | Value::NationalStringLiteral(s)
                | Value::UnicodeStringLiteral(s) => marker::text_at(s, value.span),
                Value::DollarQuotedString(s) => marker::text_at(s.value, value.span),
                Value::Placeholder(ref name) => match self.declared(name) {
                    Some(ty) => marker::parameter(Expr::Value(value), ty),
                    None => Expr::Value(value),
                },
                _ => Expr::Value(value),
            },
            Expr::Identifier(ident) if name::is_keyword_function(&ident) => {
                marker::call(&ident.value.to_lowercase(), vec![])
            }
            Expr::Nested(inner) => *inner,
            Expr::UnaryOp { op, expr } => unary(op, *expr)?,
            Expr::BinaryOp { left, op, right } => binary(*left, op, *right)?,
            Expr::Cast { expr, data_type, .. } => self.cast(*expr, &data_type)?,
            Expr::TypedString(typed) => match (typed.value.span, typed.value.into_string()) {
                (span, Some(value)) => self.cast(marker::text_at(value, span), &typed.data_type)?,
                (_, None) => return Err(SqlError::syntax("a typed literal requires a string")),
            },
            Expr::Interval(interval) => interval_literal(interval)?,
            Expr::Case { operand, conditions, else_result, .. } => case(operand, conditions, else_result)?,
            Expr::InList { expr, list, negated } => in_list(*expr, list, negated)?,
            Expr::Between { expr, negated, low, high } => between(*expr, negated, *low, *high)?,
            Expr::Like { negated, any: false, expr, pattern, escape_char } => {
                like(if negated { "!~~" } else { "~~" }, *expr, *pattern, escape_char)?
            }
            Expr::ILike { negated, any: false, expr, pattern, escape_char } => {
                like(if negated { "!~~*" } else { "~~*" }, *expr, *pattern, escape_char)?
            }
            Expr::SimilarTo { negated, expr, pattern, escape_char } => {
                let mut args = vec![*pattern];
                args.extend(escape_char.map(Expr::Value));
                let pattern = marker::call("similar_to_escape", args);
                marker::op(if negated { "!~" } else { "~" }, *expr, pattern)
            }
            Expr::IsDistinctFrom(left, right) => marker::op(marker::DISTINCT, *left, *right),
            Expr::IsNotDistinctFrom(left, right) => marker::op(marker::NOT_DISTINCT, *left, *right),
            Expr::IsTrue(e) => Expr::IsTrue(Box::new(boolean(*e, "IS TRUE"))),
            Expr::IsNotTrue(e) => Expr::IsNotTrue(Box::new(boolean(*e, "IS NOT TRUE"))),
            Expr::IsFalse(e) => Expr::IsFalse(Box::new(boolean(*e, "IS FALSE"))),
            Expr::IsNotFalse(e) => Expr::IsNotFalse(Box::new(boolean(*e, "IS NOT FALSE"))),
            Expr::IsUnknown(e) => Expr::IsUnknown(Box::new(boolean(*e, "IS UNKNOWN"))),
            Expr::IsNotUnknown(e) => Expr::IsNotUnknown(Box::new(boolean(*e, "IS NOT UNKNOWN"))),
            Expr::AnyOp { left, compare_op, right, .. } => match *right {
                Expr::Subquery(query) => membership::some(*left, &plain_operator(&compare_op), *query)?,
                array => marker::op(&format!("{}{}", marker::ANY, plain_operator(&compare_op)), *left, array),
            },
            Expr::AllOp { left, compare_op, right } => match *right {
                Expr::Subquery(query) => membership::all(*left, &plain_operator(&compare_op), *query)?,
                array => marker::op(&format!("{}{}", marker::ALL, plain_operator(&compare_op)), *left, array),
            },
            Expr::InSubquery { expr, subquery, negated: false } => membership::some(*expr, "=", *subquery)?,
            Expr::InSubquery { expr, subquery, negated: true } => membership::none(*expr, "=", *subquery)?,
            Expr::Array(array) => marker::op(marker::ARRAY, marker::pack(array.elem), marker::text("")),
            Expr::CompoundFieldAccess { root, access_chain } => subscripts(*root, access_chain)?,
            Expr::Function(function) => self.function(function)?,
            other => syntax_call(other)?,
        })
    }

    fn cast(&self, expr: Expr, data_type: &ast::DataType) -> Result<Expr> {
        let ty = type_of(data_type).map_err(|e| match self.text.cast(&expr) {
            0 => e,
            at => e.with_position(self.text.word(at)),
        })?;
        Ok(marker::cast(expr, ty))
    }
}
