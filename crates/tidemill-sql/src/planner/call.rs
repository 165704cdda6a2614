//! Calls in the tree: names without their schemas, clauses that a kind of function does not take, arguments in their order.

use std::ops::ControlFlow;

use sqlparser::ast::{
    self, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Query, Spanned, Value, Visitor,
};

use super::construct::{boolean, restore_ordinal};
use super::prepare::Rewriter;
use super::{marker, name, place, window_function, within_group};
use crate::aggregate;
use crate::error::{Result, SqlError, SqlState};
use crate::function::{Registry, registry};
use crate::types::{Scalar, Type};
use crate::walk::walk;

impl Rewriter<'_> {
    pub(super) fn function(&self, mut function: ast::Function) -> Result<Expr> {
        let name = unqualified(&function.name);
        let place = place::of_span(function.name.span()).0;
        let at = |error: SqlError| if place > 0 { error.with_position(place) } else { error };
        // What a rewrite has put there stands nowhere.
        if Registry::is_internal(&name) && place > 0 {
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
            name_subqueries(&mut function, place);
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
pub fn unqualified(name: &ast::ObjectName) -> String {
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

/// DataFusion tells calls from each other by their names, and all subqueries in them have the same.
fn name_subqueries(function: &mut ast::Function, place: usize) {
    let named = |expr: &mut Expr, which: String| {
        if has_query(expr) {
            let taken = std::mem::replace(expr, Expr::value(Value::Null));
            *expr = marker::op(marker::NAMED, taken, marker::text(format!("{place} {which}")));
        }
    };
    if let FunctionArguments::List(list) = &mut function.args {
        for (i, arg) in list.args.iter_mut().enumerate() {
            if let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = arg {
                named(expr, i.to_string());
            }
        }
    }
    if let Some(filter) = &mut function.filter {
        named(filter, "filter".into());
    }
}

fn has_query(expr: &Expr) -> bool {
    struct Search;
    impl Visitor for Search {
        type Break = ();

        fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            ControlFlow::Break(())
        }
    }
    walk(expr, &mut Search).is_break()
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
