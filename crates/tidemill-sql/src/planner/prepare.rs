//! Rewrites a parsed statement so that DataFusion's SQL planner gives it PostgreSQL's meaning: constructs become markers
//! (see [`super::marker`]), output columns get PostgreSQL's names, set-returning functions in FROM become subqueries.

use std::ops::ControlFlow;

use datafusion::execution::SessionState;
use sqlparser::ast::Spanned;
use sqlparser::ast::{
    self, AccessExpr, BinaryOperator, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Query, Select,
    SetExpr, Statement, Subscript, TableFactor, TrimWhereField, UnaryOperator, Value, VisitMut, VisitorMut,
};
use sqlparser::tokenizer::Span;

use super::place::{self, Text};
use super::{
    allowed, array_subquery, clause, marker, merged_column, name, named_window, relkind, system_column,
    table_function, types, whole_row, window_function, within_group,
};
use crate::aggregate;
use crate::error::{Result, SqlError, SqlState};
use crate::function::{Registry, like_escape, registry};
use crate::types::{Scalar, Type};

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

fn run<T: VisitMut>(
    node: &mut T,
    state: &SessionState,
    text: &str,
    parameters: &[Option<Type>],
) -> Result<()> {
    match node.visit(&mut Rewriter { state, text: Text::new(text), parameters }) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(*error),
    }
}

struct Rewriter<'a> {
    state: &'a SessionState,
    text: Text<'a>,
    parameters: &'a [Option<Type>],
}

impl VisitorMut for Rewriter<'_> {
    type Break = Box<SqlError>;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Self::Break> {
        merged_column::rewrite_order(query);
        control(
            allowed::query(query, &|name| self.is_aggregate(name))
                .and_then(|()| named_window::resolve(query)),
        )
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<Self::Break> {
        if let Err(error) = allowed::select(select, &|name| self.is_aggregate(name)) {
            return ControlFlow::Break(Box::new(error));
        }
        merged_column::rewrite(select);
        name::assign(&mut select.projection);
        relkind::rewrite(select);
        whole_row::rewrite(select);
        whole_row::single_values(select);
        for item in &mut select.projection {
            if let ast::SelectItem::ExprWithAlias { expr, .. } = item {
                exists_values(expr);
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        clause::minus_before_power(expr);
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
        if let ast::GroupByExpr::Expressions(exprs, _) = &mut select.group_by {
            clause::group_by(exprs);
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
        if let SetExpr::Values(values) = &mut *query.body {
            unify_columns(values);
        }
        if let Some(ast::OrderBy { kind: ast::OrderByKind::Expressions(exprs), .. }) = &mut query.order_by {
            exprs.iter_mut().for_each(|order| restore_ordinal(&mut order.expr));
        }
        control(clause::limit(query))
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Self::Break> {
        control(table_function::rewrite(factor))
    }

    fn post_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<Self::Break> {
        control(self.table_function(factor))
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Self::Break> {
        let taken = std::mem::replace(expr, Expr::value(Value::Null));
        let at = self.place(&taken);
        match self.rewrite(taken) {
            Ok(rewritten) => {
                *expr = rewritten;
                place::annotate(expr, at);
                ControlFlow::Continue(())
            }
            Err(error) => ControlFlow::Break(Box::new(error)),
        }
    }
}

/// EXISTS in a select list is a value; in WHERE, DataFusion makes a join of it.
fn exists_values(expr: &mut Expr) {
    let _ = ast::visit_expressions_mut(expr, |expr: &mut Expr| {
        clause::exists_value(expr);
        ControlFlow::<()>::Continue(())
    });
}

fn control(result: Result<()>) -> ControlFlow<Box<SqlError>> {
    match result {
        Ok(()) => ControlFlow::Continue(()),
        Err(error) => ControlFlow::Break(Box::new(error)),
    }
}

/// A bare integer here is a position or a count, not a value of a type.
fn restore_ordinal(expr: &mut Expr) {
    if let Some((number, _)) = marker::as_literal(expr) {
        let (digits, negative) = (number.trim_start_matches('-').to_string(), number.starts_with('-'));
        let number = Expr::value(Value::Number(digits, false));
        *expr = if negative {
            Expr::UnaryOp { op: UnaryOperator::Minus, expr: Box::new(number) }
        } else {
            number
        };
    }
}

/// More different expressions in one column of VALUES than this are left to DataFusion's coercion.
const VALUES_KINDS_MAX: usize = 16;

/// Each column of VALUES has the common type of its rows. A row is planned by itself, so where the rows may differ each
/// value is accompanied by one example of every kind in its column, in their order.
fn unify_columns(values: &mut ast::Values) {
    let columns = values.rows.first().map_or(0, |row| row.content.len());
    for column in 0..columns {
        let mut kinds: Vec<(String, Expr)> = vec![];
        for expr in values.rows.iter().filter_map(|row| row.content.get(column)) {
            let kind = kind(expr);
            if kinds.len() <= VALUES_KINDS_MAX && !kinds.iter().any(|(k, _)| *k == kind) {
                kinds.push((kind, expr.clone()));
            }
        }
        // One literal and one computed value of a type differ in what DataFusion knows of them.
        let alike = kinds.len() < 2 && !(values.rows.len() > 1 && kinds.iter().any(|(_, e)| is_cast(e)));
        if alike || kinds.len() > VALUES_KINDS_MAX {
            continue;
        }
        for expr in values.rows.iter_mut().filter_map(|row| row.content.get_mut(column)) {
            let mut all = vec![std::mem::replace(expr, Expr::value(Value::Null))];
            all.extend(kinds.iter().map(|(_, example)| example.clone()));
            *expr = marker::op(marker::UNIFY, marker::pack(all), marker::text("VALUES"));
            place::annotate(expr, 0);
        }
    }
}

/// Expressions of one kind have one type.
fn kind(expr: &Expr) -> String {
    match expr {
        Expr::Value(value) => match value.value {
            Value::Boolean(_) => "boolean".into(),
            Value::Placeholder(_) => expr.to_string(),
            _ => "unknown".into(),
        },
        Expr::BinaryOp { right, .. } if is_cast(expr) => right.to_string(),
        other => other.to_string(),
    }
}

fn is_cast(expr: &Expr) -> bool {
    matches!(expr, Expr::BinaryOp { op, .. }
        if marker::is(op, marker::LITERAL) || marker::is(op, marker::CAST))
}

pub(super) fn boolean(expr: Expr, place: &str) -> Expr {
    let mut marked = marker::op(marker::BOOLEAN, expr, marker::text(place));
    place::annotate(&mut marked, 0);
    marked
}

/// A number by its size: int4, int8 or numeric.
fn number(digits: &str, span: Span) -> Result<Expr> {
    let digits = digits.replace('_', "");
    let scalar = if digits.contains(['.', 'e', 'E']) {
        Scalar::Numeric
    } else if digits.parse::<i32>().is_ok() {
        Scalar::Int4
    } else if digits.parse::<i64>().is_ok() {
        Scalar::Int8
    } else {
        Scalar::Numeric
    };
    Ok(marker::literal_at(&digits, Type::new(scalar), span))
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
            Expr::AnyOp { left, compare_op, right, .. } if !matches!(*right, Expr::Subquery(_)) => {
                marker::op(&format!("{}{}", marker::ANY, plain_operator(&compare_op)), *left, *right)
            }
            Expr::AllOp { left, compare_op, right } if !matches!(*right, Expr::Subquery(_)) => {
                marker::op(&format!("{}{}", marker::ALL, plain_operator(&compare_op)), *left, *right)
            }
            Expr::Array(array) => marker::op(marker::ARRAY, marker::pack(array.elem), marker::text("")),
            Expr::Subquery(mut query) => {
                clause::scalar_subquery(&mut query);
                Expr::Subquery(query)
            }
            Expr::CompoundFieldAccess { root, access_chain } => subscripts(*root, access_chain)?,
            Expr::Function(function) => self.function(function)?,
            other => syntax_call(other)?,
        })
    }

    fn cast(&self, expr: Expr, data_type: &ast::DataType) -> Result<Expr> {
        let ty = types::resolve(data_type).map_err(|e| match self.text.cast(&expr) {
            0 => e,
            at => e.with_position(self.text.word(at)),
        })?;
        Ok(marker::cast(expr, ty))
    }

    fn function(&self, mut function: ast::Function) -> Result<Expr> {
        let name = unqualified(&function.name);
        let place = place::of_span(function.name.span()).0;
        let at = |error: SqlError| if place > 0 { error.with_position(place) } else { error };
        if Registry::is_internal(&name) {
            let message = format!("function {name} does not exist");
            return Err(at(SqlError::new(SqlState::UNDEFINED_FUNCTION, message)));
        }
        function.name = ast::ObjectName::from(vec![ast::Ident::with_quote('"', name.clone())]);
        if let Some(ast::WindowType::WindowSpec(spec)) = &mut function.over
            && let Some(frame) = &mut spec.window_frame
        {
            restore_bound(&mut frame.start_bound);
            frame.end_bound.iter_mut().for_each(restore_bound);
        }
        if let Some(filter) = function.filter.take() {
            function.filter = Some(Box::new(boolean(*filter, "FILTER")));
        }
        if let Some(call) = clock_with_precision(&name, &function.args) {
            return Ok(call);
        }
        if !function.within_group.is_empty() && aggregate::within_group(&name).is_some() {
            return match within_group::misplaced(&name, &function) {
                Some(problem) => Err(at(problem)),
                None => {
                    let args = positional(&name, taken_arguments(&mut function))?;
                    within_group::rewrite(function, &name, args, place)
                }
            };
        }
        if let Some((state, problem)) = self.misplaced(&name, &function) {
            return Err(at(SqlError::new(state, problem)));
        }
        let takes = match name.as_str() {
            "count" => arguments(&function).len() == 1,
            _ => true,
        };
        if self.is_folded(&name) && takes && function.within_group.is_empty() {
            json_arguments(&name, &mut function.args);
            return window_arguments(function, &name, place);
        }
        let mut args = match function.args {
            FunctionArguments::None => vec![],
            FunctionArguments::List(list) => positional(&name, list.args)?,
            FunctionArguments::Subquery(_) => {
                return Err(SqlError::syntax("syntax error at or near \"SELECT\""));
            }
        };
        args.extend(function.within_group.into_iter().map(|order| order.expr));
        Ok(marker::call(&name, args))
    }

    /// Whether DataFusion plans the call: an aggregate or a window function.
    fn is_folded(&self, name: &str) -> bool {
        self.state.aggregate_functions().contains_key(name)
            || self.state.window_functions().contains_key(name)
    }

    /// What is wrong with a call that has clauses which its kind of function does not take.
    fn misplaced(&self, name: &str, function: &ast::Function) -> Option<(SqlState, String)> {
        let wrong = |problem: String| Some((SqlState::WRONG_OBJECT_TYPE, problem));
        let missing = |problem: String| Some((SqlState::FEATURE_NOT_SUPPORTED, problem));
        let is_window = self.state.window_functions().contains_key(name);
        let is_aggregate = self.state.aggregate_functions().contains_key(name);
        let (is_distinct, has_clauses) = match &function.args {
            FunctionArguments::List(list) => (list.duplicate_treatment.is_some(), !list.clauses.is_empty()),
            _ => (false, false),
        };
        if is_window || is_aggregate {
            return match function.over {
                _ if is_aggregate && aggregate::within_group(name).is_some() => {
                    wrong(format!("WITHIN GROUP is required for ordered-set aggregate {name}"))
                }
                None if is_window => wrong(format!("window function {name} requires an OVER clause")),
                _ if name == "count" && arguments(function).is_empty() => {
                    wrong(format!("{name}(*) must be used to call a parameterless aggregate function"))
                }
                None => None,
                Some(_) if is_distinct => missing("DISTINCT is not implemented for window functions".into()),
                Some(_) if is_window && function.filter.is_some() => {
                    missing("FILTER is not implemented for non-aggregate window functions".into())
                }
                Some(_) if has_clauses => {
                    missing("aggregate ORDER BY is not implemented for window functions".into())
                }
                Some(_) => None,
            };
        }
        // A function that does not exist is that first of all.
        if registry().function(name).is_empty() && !matches!(name, "coalesce" | "nullif") {
            return None;
        }
        let not = |what: &str| wrong(format!("{what} specified, but {name} is not an aggregate function"));
        match function {
            _ if !function.within_group.is_empty() => not("WITHIN GROUP"),
            _ if is_distinct => not("DISTINCT"),
            _ if has_clauses => not("ORDER BY"),
            _ if function.filter.is_some() => not("FILTER"),
            _ if function.over.is_some() => wrong(format!(
                "OVER specified, but {name} is not a window function nor an aggregate function"
            )),
            _ => None,
        }
    }

    /// `FROM f(x) AS t(c)` is `FROM (SELECT f(x) AS f) AS t(c)`.
    fn table_function(&self, factor: &mut TableFactor) -> Result<()> {
        let (name, args, alias, ordinality) = match factor {
            TableFactor::Table { name, args: Some(args), alias, with_ordinality, .. } => {
                (name.clone(), args.args.clone(), alias.clone(), *with_ordinality)
            }
            TableFactor::Function { name, args, alias, with_ordinality, .. } => {
                (name.clone(), args.clone(), alias.clone(), *with_ordinality)
            }
            TableFactor::UNNEST { array_exprs, alias, with_ordinality, .. } => {
                let args = array_exprs.iter().map(|e| FunctionArg::Unnamed(FunctionArgExpr::Expr(e.clone())));
                (
                    ast::ObjectName::from(vec![ast::Ident::new("unnest")]),
                    args.collect(),
                    alias.clone(),
                    *with_ordinality,
                )
            }
            _ => return Ok(()),
        };
        let function = unqualified(&name);
        if registry().function(&function).is_empty() && self.state.table_functions().contains_key(&function) {
            return Ok(());
        }
        let column = match function.as_str() {
            name if whole_row::ELEMENTS.contains(&name) => "value".to_string(),
            _ => alias.as_ref().map_or(function.clone(), |alias| name::fold(&alias.name)),
        };
        let alias = alias.unwrap_or_else(|| ast::TableAlias {
            explicit: true,
            name: ast::Ident::with_quote('"', function.clone()),
            columns: vec![],
            at: None,
        });
        let lateral = args.iter().any(mentions_column);
        let query = match lazy_series(&function, &args) {
            Some(table) => select_from(series_value(&args), &column, table),
            None => {
                let call = match marker::function(&function, args) {
                    Expr::Function(call) => self.function(call)?,
                    other => other,
                };
                select(call, &column)
            }
        };
        let query = if ordinality { numbered(query, &column) } else { query };
        *factor =
            TableFactor::Derived { lateral, subquery: Box::new(query), alias: Some(alias), sample: None };
        Ok(())
    }
}

/// `WITH ORDINALITY`: the rows with their numbers.
fn numbered(query: Query, column: &str) -> Query {
    let rows = TableFactor::Derived {
        lateral: false,
        subquery: Box::new(query),
        alias: Some(ast::TableAlias {
            explicit: true,
            name: ast::Ident::with_quote('"', "rows"),
            columns: vec![],
            at: None,
        }),
        sample: None,
    };
    let mut number = marker::function("row_number", vec![]);
    if let Expr::Function(call) = &mut number {
        let window =
            ast::WindowSpec { window_name: None, partition_by: vec![], order_by: vec![], window_frame: None };
        call.over = Some(ast::WindowType::WindowSpec(window));
    }
    let number = marker::cast(number, Type::new(Scalar::Int8));
    let mut query = select_from(Expr::Identifier(ast::Ident::with_quote('"', column)), column, rows);
    if let SetExpr::Select(select) = &mut *query.body {
        let alias = ast::Ident::with_quote('"', "ordinality");
        select.projection.push(ast::SelectItem::ExprWithAlias { expr: number, alias });
    }
    query
}

/// A series between integer literals comes from DataFusion's table function, which makes it row by row.
fn lazy_series(function: &str, args: &[FunctionArg]) -> Option<TableFactor> {
    if function != "generate_series" || !(2..=3).contains(&args.len()) {
        return None;
    }
    let mut plain = args.to_vec();
    for arg in &mut plain {
        let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = arg else { return None };
        let (number, ty) = marker::as_literal(expr)?;
        // A step of zero has PostgreSQL's error message only in our own function.
        if ty.scalar == Scalar::Numeric || number == "0" && args.len() == 3 {
            return None;
        }
        restore_ordinal(expr);
    }
    Some(TableFactor::Table {
        name: ast::ObjectName::from(vec![ast::Ident::new("generate_series")]),
        alias: None,
        args: Some(ast::TableFunctionArgs { args: plain, settings: None }),
        with_hints: vec![],
        version: None,
        with_ordinality: false,
        partitions: vec![],
        json_path: None,
        sample: None,
        index_hints: vec![],
    })
}

/// The value of a lazy series in its type.
fn series_value(args: &[FunctionArg]) -> Expr {
    let wide = args.iter().any(|arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => {
            marker::as_literal(expr).is_some_and(|(_, ty)| ty.scalar == Scalar::Int8)
        }
        _ => false,
    });
    let value = Expr::Identifier(ast::Ident::new("value"));
    marker::cast(value, Type::new(if wide { Scalar::Int8 } else { Scalar::Int4 }))
}

fn mentions_column(arg: &FunctionArg) -> bool {
    let mut found = false;
    let _ = ast::visit_expressions(arg, |expr: &Expr| {
        found |= matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
        ControlFlow::<()>::Continue(())
    });
    found
}

pub(super) fn select_from(expr: Expr, column: &str, table: TableFactor) -> Query {
    let mut query = select(expr, column);
    if let SetExpr::Select(select) = &mut *query.body {
        select.from = vec![ast::TableWithJoins { relation: table, joins: vec![] }];
    }
    query
}

fn select(expr: Expr, column: &str) -> Query {
    let item = ast::SelectItem::ExprWithAlias { expr, alias: ast::Ident::with_quote('"', column) };
    let select = Select {
        select_token: ast::helpers::attached_token::AttachedToken::empty(),
        optimizer_hints: vec![],
        distinct: None,
        select_modifiers: None,
        top: None,
        top_before_distinct: false,
        projection: vec![item],
        exclude: None,
        into: None,
        from: vec![],
        lateral_views: vec![],
        prewhere: None,
        selection: None,
        connect_by: vec![],
        group_by: ast::GroupByExpr::Expressions(vec![], vec![]),
        cluster_by: vec![],
        distribute_by: vec![],
        sort_by: vec![],
        having: None,
        named_window: vec![],
        qualify: None,
        window_before_qualify: false,
        value_table_mode: None,
        flavor: ast::SelectFlavor::Standard,
    };
    Query {
        with: None,
        body: Box::new(SetExpr::Select(Box::new(select))),
        order_by: None,
        limit_clause: None,
        fetch: None,
        locks: vec![],
        for_clause: None,
        settings: None,
        format_clause: None,
        pipe_operators: vec![],
    }
}

/// `current_timestamp(3)` is a cast to the type with that precision.
fn clock_with_precision(name: &str, args: &FunctionArguments) -> Option<Expr> {
    let scalar = match name {
        "current_timestamp" => Scalar::Timestamptz,
        "localtimestamp" => Scalar::Timestamp,
        "localtime" => Scalar::Time,
        _ => return None,
    };
    let FunctionArguments::List(list) = args else { return None };
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(precision))] = &list.args[..] else { return None };
    let precision: i32 = marker::as_literal(precision)?.0.parse().ok().filter(|p| *p >= 0)?;
    Some(marker::cast(marker::call(name, vec![]), Type::new(scalar).with_typmod(precision.min(6))))
}

fn taken_arguments(function: &mut ast::Function) -> Vec<FunctionArg> {
    match &mut function.args {
        FunctionArguments::List(list) => std::mem::take(&mut list.args),
        _ => vec![],
    }
}

fn arguments(function: &ast::Function) -> &[FunctionArg] {
    match &function.args {
        FunctionArguments::List(list) => &list.args,
        _ => &[],
    }
}

/// A function's name without the schemas in which functions are.
fn unqualified(name: &ast::ObjectName) -> String {
    let parts: Vec<String> = name.0.iter().filter_map(|part| part.as_ident()).map(name::fold).collect();
    match &parts[..] {
        // PostgreSQL's `version()` is another function.
        [schema, name] if schema == "pipelinedb" && name == "version" => "pipeline_version".into(),
        [schema, name]
            if matches!(schema.as_str(), "pg_catalog" | "public" | "pipelinedb" | "information_schema") =>
        {
            name.clone()
        }
        _ => parts.join("."),
    }
}

/// Arguments in the order of the parameters. Only `make_interval` is called with names in practice.
fn positional(function: &str, args: Vec<FunctionArg>) -> Result<Vec<Expr>> {
    const MAKE_INTERVAL: [&str; 7] = ["years", "months", "weeks", "days", "hours", "mins", "secs"];
    let mut out = vec![];
    for arg in args {
        let arg = match arg {
            FunctionArg::ExprNamed { name: Expr::Identifier(name), arg, operator } => {
                FunctionArg::Named { name, arg, operator }
            }
            other => other,
        };
        match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => out.push(expr),
            FunctionArg::Named { name, arg: FunctionArgExpr::Expr(expr), .. }
                if function == "make_interval" =>
            {
                let name = name::fold(&name);
                let position = MAKE_INTERVAL.iter().position(|p| *p == name).ok_or_else(|| {
                    SqlError::new(
                        SqlState::UNDEFINED_FUNCTION,
                        format!("make_interval has no argument \"{name}\""),
                    )
                })?;
                while out.len() <= position {
                    out.push(marker::literal("0", Type::new(Scalar::Int4)));
                }
                out[position] = expr;
            }
            FunctionArg::Unnamed(_) => {
                return Err(SqlError::new(
                    SqlState::WRONG_OBJECT_TYPE,
                    format!("{function}(*) specified, but {function} is not an aggregate function"),
                ));
            }
            _ => {
                return Err(SqlError::unsupported(format!(
                    "function {function} does not take named arguments"
                )));
            }
        }
    }
    Ok(out)
}

/// The json aggregates collect json: `json_agg(x)` is `json_agg(to_json(x))`, and keys are text.
fn json_arguments(name: &str, args: &mut FunctionArguments) {
    let (convert, object) = match name {
        "json_agg" => ("to_json", false),
        "jsonb_agg" => ("to_jsonb", false),
        "json_object_agg" => ("to_json", true),
        "jsonb_object_agg" => ("to_jsonb", true),
        _ => return,
    };
    let FunctionArguments::List(list) = args else { return };
    let last = if object { 1 } else { 0 };
    for (i, arg) in list.args.iter_mut().enumerate().take(last + 1) {
        let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = arg else { continue };
        let taken = std::mem::replace(expr, Expr::value(Value::Null));
        *expr = if i == last {
            marker::call(convert, vec![taken])
        } else {
            marker::cast(taken, Type::new(Scalar::Text))
        };
    }
}

/// The arguments of a window function are those of one of its signatures. `ntile` is an int4, which DataFusion's is not.
fn window_arguments(mut function: ast::Function, name: &str, at: usize) -> Result<Expr> {
    let signatures = window_function::signatures(name);
    let FunctionArguments::List(list) = &mut function.args else { return Ok(Expr::Function(function)) };
    if signatures.is_empty() {
        return Ok(Expr::Function(function));
    }
    let args = positional(name, std::mem::take(&mut list.args))?;
    if !signatures.iter().any(|signature| signature.takes(args.len())) {
        return Ok(marker::call(name, args));
    }
    let argument = |i: usize| {
        let which = marker::text(format!("{i} {name}"));
        let mut arg = marker::op(marker::ARGUMENT, marker::pack(args.clone()), which);
        place::annotate(&mut arg, at);
        FunctionArg::Unnamed(FunctionArgExpr::Expr(arg))
    };
    list.args = (0..args.len()).map(argument).collect();
    let call = Expr::Function(function);
    Ok(if name == "ntile" { marker::cast(call, Type::new(Scalar::Int4)) } else { call })
}

fn restore_bound(bound: &mut ast::WindowFrameBound) {
    if let ast::WindowFrameBound::Preceding(Some(expr)) | ast::WindowFrameBound::Following(Some(expr)) = bound
    {
        restore_ordinal(expr);
        // An interval: the frame wants its text.
        if let Expr::BinaryOp { left, op, .. } = &**expr
            && marker::is(op, marker::CAST)
            && matches!(**left, Expr::Value(_))
        {
            *expr = left.clone();
        }
    }
}

fn unary(op: UnaryOperator, expr: Expr) -> Result<Expr> {
    if let (UnaryOperator::Minus, Some((digits, _))) = (op, marker::as_literal(&expr)) {
        let negated = digits.strip_prefix('-').map_or_else(|| format!("-{digits}"), str::to_string);
        return number(&negated, Span::empty());
    }
    let name = match op {
        UnaryOperator::Not => {
            return Ok(Expr::UnaryOp { op, expr: Box::new(boolean(expr, "NOT")) });
        }
        UnaryOperator::Plus => "+",
        UnaryOperator::Minus => "-",
        UnaryOperator::BitwiseNot => "~",
        UnaryOperator::PGAbs => "@",
        UnaryOperator::PGSquareRoot => "|/",
        UnaryOperator::PGCubeRoot => "||/",
        other => return Err(SqlError::unsupported(format!("operator {other} is not supported"))),
    };
    Ok(marker::op(marker::PREFIX, expr, marker::text(name)))
}

fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Result<Expr> {
    let op = match op {
        BinaryOperator::PGCustomBinaryOperator(_) => BinaryOperator::Custom(plain_operator(&op)),
        BinaryOperator::BitwiseXor | BinaryOperator::PGExp => BinaryOperator::Custom("^".into()),
        other => other,
    };
    if let (Expr::Tuple(a), Expr::Tuple(b)) = (&left, &right) {
        return clause::compare_rows(a, &op, b);
    }
    Ok(Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) })
}

/// The operator without `OPERATOR(pg_catalog.…)` around it.
fn plain_operator(op: &BinaryOperator) -> String {
    match op {
        BinaryOperator::PGCustomBinaryOperator(parts) => parts.last().cloned().unwrap_or_default(),
        other => other.to_string(),
    }
}

fn interval_literal(interval: ast::Interval) -> Result<Expr> {
    let span = interval.value.span();
    let text = match *interval.value {
        Expr::Value(ast::ValueWithSpan { value: Value::SingleQuotedString(text), .. }) => text,
        other => match marker::as_literal(&other) {
            Some((number, _)) => number.to_string(),
            None => return Err(SqlError::syntax("an interval literal requires a string")),
        },
    };
    let typmod =
        interval.fractional_seconds_precision.or(interval.leading_precision).map_or(-1, |p| p.min(6) as i32);
    let ty = Type::new(Scalar::Interval).with_typmod(typmod);
    // `interval '5' day`: a bare number counts the field; the last field of a range decides.
    let text = match (&interval.leading_field, &interval.last_field) {
        (Some(field), None) if text.trim().parse::<f64>().is_ok() => format!("{text} {field}"),
        (Some(ast::DateTimeField::Year), Some(_)) if text.contains('-') => text,
        _ => text,
    };
    Ok(marker::cast(marker::text_at(text, span), ty))
}

fn case(
    operand: Option<Box<Expr>>,
    conditions: Vec<ast::CaseWhen>,
    otherwise: Option<Box<Expr>>,
) -> Result<Expr> {
    let mut parts = vec![];
    for arm in conditions {
        parts.push(match &operand {
            Some(operand) => {
                let mut equal = binary((**operand).clone(), BinaryOperator::Eq, arm.condition)?;
                place::annotate(&mut equal, 0);
                equal
            }
            None => arm.condition,
        });
        parts.push(arm.result);
    }
    let flag = marker::text(if otherwise.is_some() { "else" } else { "" });
    parts.extend(otherwise.map(|e| *e));
    Ok(marker::op(marker::CASE, marker::pack(parts), flag))
}

fn in_list(expr: Expr, list: Vec<Expr>, negated: bool) -> Result<Expr> {
    if let Expr::Tuple(_) = &expr {
        let comparisons = list
            .into_iter()
            .map(|row| binary(expr.clone(), BinaryOperator::Eq, row))
            .collect::<Result<Vec<_>>>()?;
        let any = comparisons.into_iter().reduce(|a, b| Expr::BinaryOp {
            left: Box::new(a),
            op: BinaryOperator::Or,
            right: Box::new(b),
        });
        let any = any.ok_or_else(|| SqlError::syntax("IN needs at least one row"))?;
        return if negated { unary(UnaryOperator::Not, any) } else { Ok(any) };
    }
    Ok(marker::op(if negated { marker::NOT_IN } else { marker::IN }, expr, marker::pack(list)))
}

fn between(expr: Expr, negated: bool, low: Expr, high: Expr) -> Result<Expr> {
    let compare = |op, bound| {
        let mut compared = Expr::BinaryOp { left: Box::new(expr.clone()), op, right: Box::new(bound) };
        place::annotate(&mut compared, 0);
        compared
    };
    let (lower, join, upper) = if negated {
        (compare(BinaryOperator::Lt, low), BinaryOperator::Or, compare(BinaryOperator::Gt, high))
    } else {
        (compare(BinaryOperator::GtEq, low), BinaryOperator::And, compare(BinaryOperator::LtEq, high))
    };
    Ok(Expr::BinaryOp { left: Box::new(lower), op: join, right: Box::new(upper) })
}

fn like(op: &str, expr: Expr, pattern: Expr, escape: Option<ast::ValueWithSpan>) -> Result<Expr> {
    let pattern = match (escape, &pattern) {
        (None, _) => pattern,
        // A pattern that is known stays known.
        (
            Some(ast::ValueWithSpan { value: Value::SingleQuotedString(escape), .. }),
            Expr::Value(ast::ValueWithSpan { value: Value::SingleQuotedString(text), span }),
        ) => marker::text_at(like_escape(text, &escape)?, *span),
        (Some(escape), _) => marker::call("like_escape", vec![pattern, Expr::Value(escape)]),
    };
    Ok(marker::op(op, expr, pattern))
}

/// `t.a[1]` comes from the parser as `t` with the accesses `.a` and `[1]`; only `(t).a` asks for a field.
fn qualify(expr: &mut Expr) {
    let Expr::CompoundFieldAccess { root, access_chain } = expr else { return };
    let mut parts = match &**root {
        Expr::Identifier(ident) => vec![ident.clone()],
        Expr::CompoundIdentifier(parts) => parts.clone(),
        _ => return,
    };
    let names = access_chain.iter().take_while(|a| matches!(a, AccessExpr::Dot(Expr::Identifier(_)))).count();
    for access in access_chain.drain(..names) {
        if let AccessExpr::Dot(Expr::Identifier(ident)) = access {
            parts.push(ident);
        }
    }
    if parts.len() > 1 {
        **root = Expr::CompoundIdentifier(parts);
    }
}

fn subscripts(root: Expr, chain: Vec<AccessExpr>) -> Result<Expr> {
    chain.into_iter().try_fold(root, |expr, access| match access {
        AccessExpr::Subscript(Subscript::Index { index }) => {
            Ok(marker::call("array subscript", vec![expr, index]))
        }
        AccessExpr::Subscript(Subscript::Slice { lower_bound, upper_bound, .. }) => {
            let null = || marker::cast(Expr::value(Value::Null), Type::new(Scalar::Int4));
            let (lower, upper) = (lower_bound.unwrap_or_else(null), upper_bound.unwrap_or_else(null));
            Ok(marker::call("array slice", vec![expr, lower, upper]))
        }
        AccessExpr::Dot(Expr::Identifier(field)) => {
            Ok(marker::call("record field", vec![expr, marker::text(name::fold(&field))]))
        }
        AccessExpr::Dot(_) => Err(SqlError::unsupported("composite types are not supported")),
    })
}

/// Constructs that are functions with a grammar of their own.
fn syntax_call(expr: Expr) -> Result<Expr> {
    Ok(match expr {
        Expr::Extract { field, expr, .. } => {
            let field = field.to_string().trim_matches(['\'', '"']).to_lowercase();
            marker::call("extract", vec![marker::text(field), *expr])
        }
        Expr::Position { expr, r#in } => marker::call("position", vec![*r#in, *expr]),
        Expr::Substring { expr, substring_from, substring_for, .. } => {
            let mut args = vec![*expr];
            match (substring_from, substring_for) {
                (from, None) => args.extend(from.map(|e| *e)),
                (from, Some(length)) => {
                    args.push(from.map_or_else(|| marker::literal("1", Type::new(Scalar::Int4)), |e| *e));
                    args.push(*length);
                }
            }
            marker::call("substring", args)
        }
        Expr::Trim { trim_where, trim_what, expr, trim_characters } => {
            let function = match trim_where {
                Some(TrimWhereField::Leading) => "ltrim",
                Some(TrimWhereField::Trailing) => "rtrim",
                _ => "btrim",
            };
            let mut args = vec![*expr];
            args.extend(trim_what.map(|e| *e));
            args.extend(trim_characters.into_iter().flatten());
            marker::call(function, args)
        }
        Expr::Overlay { expr, overlay_what, overlay_from, overlay_for } => {
            let mut args = vec![*expr, *overlay_what, *overlay_from];
            args.extend(overlay_for.map(|e| *e));
            marker::call("overlay", args)
        }
        Expr::AtTimeZone { timestamp, time_zone } => marker::call("timezone", vec![*time_zone, *timestamp]),
        Expr::Ceil { expr, field: ast::CeilFloorKind::DateTimeField(ast::DateTimeField::NoDateTime) } => {
            marker::call("ceil", vec![*expr])
        }
        Expr::Floor { expr, field: ast::CeilFloorKind::DateTimeField(ast::DateTimeField::NoDateTime) } => {
            marker::call("floor", vec![*expr])
        }
        Expr::Collate { expr, collation } => {
            let last =
                collation.0.last().and_then(|part| part.as_ident()).map(name::fold).unwrap_or_default();
            if !matches!(last.to_lowercase().as_str(), "default" | "c" | "posix" | "ucs_basic") {
                return Err(SqlError::new(
                    SqlState::UNDEFINED_OBJECT,
                    format!("collation \"{last}\" for encoding \"UTF8\" does not exist"),
                ));
            }
            *expr
        }
        other => other,
    })
}
