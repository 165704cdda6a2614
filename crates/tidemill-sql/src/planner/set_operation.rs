//! The analyzer rule that gives the columns of a UNION, INTERSECT or EXCEPT their common type, as PostgreSQL finds it, and
//! counts the rows of INTERSECT ALL and EXCEPT ALL.
//!
//! ```text
//! Union                        Union
//!   Projection: 1 AS x    =>     Projection: numeric(1) AS x
//!   Projection: 2.5 AS x         Projection: 2.5 AS x
//! ```
//!
//! INTERSECT and EXCEPT come as joins. DataFusion knows them with ALL as joins of all rows, which keep every row that has
//! an equal on the other side; so there the n-th of equal rows is joined with the n-th:
//!
//! ```text
//! LeftSemi Join: x = x    =>    Projection: x
//!   A: x                          LeftSemi Join: x = x, row_number() = row_number()
//!   B: x                            Window: row_number() OVER (PARTITION BY x)
//!                                     A: x
//!                                   Window: row_number() OVER (PARTITION BY x)
//!                                     B: x
//! ```

pub(super) mod relation;

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, JoinType, NullEquality};
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::{
    Distinct, Expr, ExprFunctionExt, Join, LogicalPlan, LogicalPlanBuilder, Projection, Union, Window,
};
use datafusion::optimizer::analyzer::AnalyzerRule;

use super::coerce::{self, Context};
use super::resolve::Arg;
use crate::error::Result;
use crate::function::external;
use crate::types::Type;

#[derive(Debug)]
pub struct UnionTypes;

impl AnalyzerRule for UnionTypes {
    fn name(&self) -> &str {
        "postgresql_union_types"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> datafusion::error::Result<LogicalPlan> {
        unify_all(plan)
    }
}

/// Gives each set operation of a plan its types.
pub fn unify_all(plan: LogicalPlan) -> datafusion::error::Result<LogicalPlan> {
    let mut has_changed = false;
    let unified = plan.transform_up_with_subqueries(|plan| {
        let unified = match plan {
            LogicalPlan::Union(union) => unify(union)?,
            LogicalPlan::Join(join) => unify_sides(join)?,
            // It stands above one that has other types now, and an operation above itself asks for its own.
            other if has_changed => other.recompute_schema().map(Transformed::yes)?,
            other => Transformed::no(other),
        };
        has_changed |= unified.transformed;
        Ok(unified)
    });
    unified.map(|transformed| transformed.data)
}

fn unify(union: Union) -> datafusion::error::Result<Transformed<LogicalPlan>> {
    let columns = union.schema.fields().len();
    let types: Vec<Vec<Arg>> =
        union.inputs.iter().map(|input| types(input)).collect::<Result<_>>().map_err(external)?;
    let uniform = types.windows(2).all(|pair| pair[0] == pair[1]);
    if types.iter().any(|t| t.len() != columns) {
        return Ok(Transformed::no(LogicalPlan::Union(union)));
    }
    // One of the inputs may have got its types just now.
    let is_known = |input: &Arc<LogicalPlan>| {
        let pairs = input.schema().fields().iter().zip(union.schema.fields());
        pairs.into_iter().all(|(found, known)| found.data_type() == known.data_type())
    };
    if uniform && union.inputs.iter().all(is_known) {
        return Ok(Transformed::no(LogicalPlan::Union(union)));
    }
    let targets: Vec<Type> = (0..columns)
        .map(|i| coerce::common("UNION", types.iter().map(|t| t[i])))
        .collect::<Result<_>>()
        .map_err(external)?;
    let mut inputs = Vec::with_capacity(union.inputs.len());
    for (input, types) in union.inputs.into_iter().zip(types) {
        inputs.push(Arc::new(project(input, &types, &targets)?));
    }
    let union = Union::try_new_with_loose_types(inputs)?;
    Ok(Transformed::yes(LogicalPlan::Union(union)))
}

/// INTERSECT and EXCEPT are joins on all columns, in which null equals null.
fn unify_sides(join: Join) -> datafusion::error::Result<Transformed<LogicalPlan>> {
    let columns = join.left.schema().fields().len();
    let what = match join.join_type {
        JoinType::LeftSemi => "INTERSECT",
        JoinType::LeftAnti => "EXCEPT",
        _ => return Ok(Transformed::no(LogicalPlan::Join(join))),
    };
    let is_whole = join.on.len() == columns && join.right.schema().fields().len() == columns;
    if join.null_equality != NullEquality::NullEqualsNull || !is_whole || join.filter.is_some() {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    }
    // A select list is above its window functions: these are ours.
    if matches!(*join.left, LogicalPlan::Window(_)) {
        return Ok(Transformed::no(LogicalPlan::Join(join)));
    }
    // Of rows that differ there is one to keep or none.
    if is_distinct(&join.left) {
        return unified(join, what).map(|join| join.update_data(LogicalPlan::Join));
    }
    by_number(unified(join, what)?.data).map(Transformed::yes)
}

fn is_distinct(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Distinct(_) => true,
        LogicalPlan::SubqueryAlias(alias) => is_distinct(&alias.input),
        _ => false,
    }
}

fn unified(join: Join, what: &str) -> datafusion::error::Result<Transformed<Join>> {
    let (left, right) = (types(&join.left).map_err(external)?, types(&join.right).map_err(external)?);
    if left == right && left.iter().all(Option::is_some) {
        return Ok(Transformed::no(join));
    }
    let targets = left.iter().zip(&right).map(|(left, right)| coerce::common(what, [*left, *right]));
    let targets = targets.collect::<Result<Vec<_>>>().map_err(external)?;
    let sides = [
        project(Arc::clone(&join.left), &left, &targets)?,
        project(Arc::clone(&join.right), &right, &targets)?,
    ];
    let [left, right] = sides.map(Arc::new);
    let (kind, constraint, nulls) = (join.join_type, join.join_constraint, join.null_equality);
    Join::try_new(left, right, join.on, None, kind, constraint, nulls, join.null_aware).map(Transformed::yes)
}

/// Joins the n-th of the rows that are equal with the n-th of the other side.
fn by_number(join: Join) -> datafusion::error::Result<LogicalPlan> {
    let columns: Vec<Expr> = join.left.schema().columns().into_iter().map(Expr::Column).collect();
    let (left, left_number) = numbered(&join.left)?;
    let (right, right_number) = numbered(&join.right)?;
    let mut on = join.on;
    on.push((left_number, right_number));
    let (kind, constraint, nulls) = (join.join_type, join.join_constraint, join.null_equality);
    let join = Join::try_new(left, right, on, None, kind, constraint, nulls, join.null_aware)?;
    let projection = Projection::try_new(columns, Arc::new(LogicalPlan::Join(join)))?;
    Ok(LogicalPlan::Projection(projection))
}

fn numbered(side: &Arc<LogicalPlan>) -> datafusion::error::Result<(Arc<LogicalPlan>, Expr)> {
    let columns = side.schema().columns().into_iter().map(Expr::Column).collect();
    let number = row_number().partition_by(columns).build()?;
    let window = Window::try_new(vec![number], Arc::clone(side))?;
    let last = window.schema.fields().len() - 1;
    let number = Expr::Column(Column::from(window.schema.qualified_field(last)));
    Ok((Arc::new(LogicalPlan::Window(window)), number))
}

/// The types of a branch; a bare literal of a branch is still unknown.
fn types(input: &LogicalPlan) -> Result<Vec<Arg>> {
    let fields = input.schema().fields();
    (0..fields.len())
        .map(|i| match input {
            input if is_unknown_column(input, i) => Ok(None),
            _ if fields[i].data_type().is_null() => Ok(None),
            _ => Type::of_field(&fields[i]).map(|ty| Some(ty.with_typmod(-1))),
        })
        .collect()
}

fn is_unknown_column(plan: &LogicalPlan, i: usize) -> bool {
    match plan {
        LogicalPlan::Projection(projection) => is_unknown(&projection.expr[i]),
        LogicalPlan::Distinct(Distinct::All(input)) => is_unknown_column(input, i),
        LogicalPlan::SubqueryAlias(alias) => is_unknown_column(&alias.input, i),
        _ => false,
    }
}

fn is_unknown(expr: &Expr) -> bool {
    match expr {
        Expr::Alias(alias) => is_unknown(&alias.expr),
        Expr::Literal(value, None) => {
            matches!(value, datafusion::common::ScalarValue::Utf8(_) | datafusion::common::ScalarValue::Null)
        }
        _ => false,
    }
}

fn project(input: Arc<LogicalPlan>, from: &[Arg], to: &[Type]) -> datafusion::error::Result<LogicalPlan> {
    let cast =
        |i: usize, expr: Expr| coerce::cast_expr(expr, from[i], to[i], Context::Implicit).map_err(external);
    let exprs = match &*input {
        LogicalPlan::Projection(projection) => {
            let exprs = projection.expr.iter().enumerate().map(|(i, expr)| {
                let (relation, field) = projection.schema.qualified_field(i);
                let inner = expr.clone().unalias();
                Ok(cast(i, inner)?.alias_qualified(relation.cloned(), field.name()))
            });
            let exprs = exprs.collect::<datafusion::error::Result<Vec<_>>>()?;
            return Projection::try_new(exprs, Arc::clone(&projection.input)).map(LogicalPlan::Projection);
        }
        other => (0..to.len()).map(|i| {
            let (relation, field) = other.schema().qualified_field(i);
            let column = Expr::Column(Column::new(relation.cloned(), field.name()));
            Ok(cast(i, column)?.alias_qualified(relation.cloned(), field.name()))
        }),
    };
    let exprs = exprs.collect::<datafusion::error::Result<Vec<_>>>()?;
    LogicalPlanBuilder::from(Arc::unwrap_or_clone(Arc::clone(&input))).project(exprs)?.build()
}
