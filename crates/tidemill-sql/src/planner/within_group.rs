//! Aggregates with WITHIN GROUP: which arguments they take, and how DataFusion is told of them.
//!
//! The columns of WITHIN GROUP become arguments as well as the ORDER BY of an ordinary aggregate. Types follow
//! PostgreSQL's rules: it takes the direct arguments and these columns as one list of arguments.
//!
//! ```text
//! rank(5) WITHIN GROUP (ORDER BY x)   =>   "rank within group"(x, 5 ORDER BY x)
//! ```

use std::ops::ControlFlow;
use std::sync::LazyLock;

use datafusion::logical_expr::Volatility;
use sqlparser::ast::{
    self, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Query, Select, SelectItem, Value, Visitor,
};

use super::allowed::{located, plain, shown};
use super::{marker, name, place, resolve};
use crate::aggregate;
use crate::error::{Result, SqlError, SqlState};
use crate::function::{Body, Overload, Param, Returns};
use crate::types::{Scalar, Type};
use crate::walk::walk;

/// Of the ordered-set aggregates; a hypothetical-set aggregate takes any columns and as many direct arguments.
static SIGNATURES: LazyLock<Vec<Overload>> = LazyLock::new(|| {
    let (float, interval) = (Type::new(Scalar::Float8), Type::new(Scalar::Interval));
    let mut all = vec![("mode", vec![Param::AnyElement])];
    for fraction in [float, Type::array(Scalar::Float8)] {
        for value in [float, interval] {
            all.push(("percentile_cont", vec![Param::Is(fraction), Param::Is(value)]));
        }
        all.push(("percentile_disc", vec![Param::Is(fraction), Param::AnyElement]));
    }
    let overload = |(name, params)| Overload {
        name,
        params,
        variadic: false,
        returns: Returns::Element,
        volatility: Volatility::Immutable,
        set: false,
        body: Body::Native(|_| Err(SqlError::internal("an aggregate is not an expression"))),
    };
    all.into_iter().map(overload).collect()
});

pub fn signatures(name: &str) -> Vec<&'static Overload> {
    SIGNATURES.iter().filter(|signature| signature.name == name).collect()
}

/// The call as one of an ordinary aggregate; each argument knows the others, as their types decide together.
pub fn rewrite(mut function: ast::Function, name: &str, args: Vec<Expr>, at: usize) -> Result<Expr> {
    let ours = aggregate::within_group(name).ok_or_else(|| SqlError::internal("no ordered-set aggregate"))?;
    let order = std::mem::take(&mut function.within_group);
    let direct = args.len();
    let all: Vec<Expr> = args.into_iter().chain(order.iter().map(|item| item.expr.clone())).collect();
    let argument = |i: usize| {
        let which = marker::text(format!("{i} {name} {direct}"));
        let mut arg = marker::op(marker::ARGUMENT, marker::pack(all.clone()), which);
        place::annotate(&mut arg, at);
        arg
    };
    let columns = direct..all.len();
    let args = columns.clone().chain(0..direct).map(argument);
    let args = args.map(|arg| FunctionArg::Unnamed(FunctionArgExpr::Expr(arg))).collect();
    let order_by =
        order.into_iter().zip(columns).map(|(item, i)| ast::OrderByExpr { expr: argument(i), ..item });
    function.name = ast::ObjectName::from(vec![ast::Ident::with_quote('"', ours)]);
    function.args = FunctionArguments::List(ast::FunctionArgumentList {
        duplicate_treatment: None,
        args,
        clauses: vec![ast::FunctionArgumentClause::OrderBy(order_by.collect())],
    });
    Ok(Expr::Function(function))
}

/// What is wrong with the clauses of a call that has WITHIN GROUP.
pub fn misplaced(name: &str, function: &ast::Function) -> Option<SqlError> {
    let syntax = |message: &str| Some(SqlError::syntax(message));
    if let FunctionArguments::List(list) = &function.args {
        if list.duplicate_treatment.is_some() {
            return syntax("cannot use DISTINCT with WITHIN GROUP");
        }
        if !list.clauses.is_empty() {
            return syntax("cannot use multiple ORDER BY clauses with WITHIN GROUP");
        }
    }
    function
        .over
        .is_some()
        .then(|| SqlError::unsupported(format!("OVER is not supported for ordered-set aggregate {name}")))
}

/// A hypothetical row has the columns of WITHIN GROUP.
pub fn check_hypothetical(name: &str, types: &[resolve::Arg], direct: usize) -> Result<()> {
    let columns = types.len() - direct;
    if columns == direct {
        return Ok(());
    }
    let message = format!("function {name}({}) does not exist", resolve::names(types).join(", "));
    Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, message).with_hint(format!(
        "To use the hypothetical-set aggregate {name}, the number of hypothetical direct arguments (here {direct}) \
         must match the number of ordering columns (here {columns})."
    )))
}

/// What stands in front of WITHIN GROUP is the same for all rows of a group.
pub fn direct_arguments(function: &ast::Function, select: &Select) -> Result<()> {
    let FunctionArguments::List(list) = &function.args else { return Ok(()) };
    let name = function.name.0.last().and_then(|part| part.as_ident()).map(name::fold);
    let is_known = name.is_some_and(|name| aggregate::within_group(&name).is_some());
    if function.within_group.is_empty() || list.args.is_empty() || !is_known {
        return Ok(());
    }
    let grouped = grouped(select);
    list.args.iter().try_for_each(|arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => only(&grouped, expr),
        _ => Ok(()),
    })
}

/// The expressions of GROUP BY; those that are numbers or names of the select list stand for what that has there.
fn grouped(select: &Select) -> Vec<Expr> {
    let ast::GroupByExpr::Expressions(items, _) = &select.group_by else { return vec![] };
    let items = items.iter().flat_map(|item| match item {
        Expr::Rollup(sets) | Expr::Cube(sets) | Expr::GroupingSets(sets) => sets.iter().flatten().collect(),
        Expr::Tuple(parts) => parts.iter().collect(),
        other => vec![other],
    });
    let mut grouped = vec![];
    for item in items {
        grouped.push(plain(item));
        let projected = match item {
            Expr::Value(value) => match &value.value {
                Value::Number(number, _) => number.parse::<usize>().ok().and_then(|n| n.checked_sub(1)),
                _ => None,
            },
            Expr::Identifier(name) => select.projection.iter().position(|item| {
                matches!(item, SelectItem::ExprWithAlias { alias, .. } if name::fold(alias) == name::fold(name))
            }),
            _ => None,
        };
        grouped.extend(projected.and_then(|i| select.projection.get(i)).and_then(shown).map(plain));
    }
    grouped
}

/// Whether an expression is made of what is grouped by alone.
fn only(grouped: &[Expr], expr: &Expr) -> Result<()> {
    struct Columns<'a> {
        grouped: &'a [Expr],
        /// How many expressions around are grouped by, or queries of their own.
        inside: usize,
    }
    impl Visitor for Columns<'_> {
        type Break = Box<SqlError>;

        fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<Self::Break> {
            self.inside += 1;
            ControlFlow::Continue(())
        }

        fn post_visit_query(&mut self, _: &Query) -> ControlFlow<Self::Break> {
            self.inside -= 1;
            ControlFlow::Continue(())
        }

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<Self::Break> {
            self.inside += usize::from(self.grouped.contains(&plain(expr)));
            let is_column = match expr {
                Expr::Identifier(ident) => !name::is_keyword_function(ident),
                Expr::CompoundIdentifier(_) => true,
                _ => false,
            };
            if self.inside > 0 || !is_column {
                return ControlFlow::Continue(());
            }
            let message = format!(
                "column \"{expr}\" must appear in the GROUP BY clause or be used in an aggregate function"
            );
            let error = located(SqlState::GROUPING_ERROR, message, place::extent(expr).0);
            let detail = "Direct arguments of an ordered-set aggregate must use only grouped columns.";
            ControlFlow::Break(Box::new(error.with_detail(detail)))
        }

        fn post_visit_expr(&mut self, expr: &Expr) -> ControlFlow<Self::Break> {
            self.inside -= usize::from(self.grouped.contains(&plain(expr)));
            ControlFlow::Continue(())
        }
    }
    match walk(expr, &mut Columns { grouped, inside: 0 }) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(error) => Err(*error),
    }
}
