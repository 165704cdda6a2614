//! The analyzer rule that gives the columns of a UNION their common type, as PostgreSQL finds it.
//!
//! ```text
//! Union                        Union
//!   Projection: 1 AS x    =>     Projection: numeric(1) AS x
//!   Projection: 2.5 AS x         Projection: 2.5 AS x
//! ```

use std::sync::Arc;

use datafusion::common::Column;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Projection, Union};
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

/// Gives each UNION of a plan its types.
pub fn unify_all(plan: LogicalPlan) -> datafusion::error::Result<LogicalPlan> {
    let unified = plan.transform_up_with_subqueries(|plan| match plan {
        LogicalPlan::Union(union) => unify(union),
        other => Ok(Transformed::no(other)),
    });
    unified.map(|transformed| transformed.data)
}

fn unify(union: Union) -> datafusion::error::Result<Transformed<LogicalPlan>> {
    let columns = union.schema.fields().len();
    let types: Vec<Vec<Arg>> =
        union.inputs.iter().map(|input| types(input)).collect::<Result<_>>().map_err(external)?;
    let uniform = types.windows(2).all(|pair| pair[0] == pair[1]);
    if uniform || types.iter().any(|t| t.len() != columns) {
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

/// The types of a branch; a bare literal of a branch is still unknown.
fn types(input: &LogicalPlan) -> Result<Vec<Arg>> {
    let fields = input.schema().fields();
    (0..fields.len())
        .map(|i| match input {
            LogicalPlan::Projection(projection) if is_unknown(&projection.expr[i]) => Ok(None),
            _ if fields[i].data_type().is_null() => Ok(None),
            _ => Type::of_field(&fields[i]).map(|ty| Some(ty.with_typmod(-1))),
        })
        .collect()
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
