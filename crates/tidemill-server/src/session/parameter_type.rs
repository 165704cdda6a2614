//! Which types the parameters of a planned statement have.

use std::collections::HashSet;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::{Expr, LogicalPlan};
use tidemill_sql::planner::plan_error;
use tidemill_sql::types::{Scalar, Type};
use tidemill_sql::{Result, SqlError, SqlState};

/// Types of `$1 …`; a parameter whose type nothing tells is text.
pub(super) fn parameter_types(plan: &LogicalPlan) -> Result<Vec<Type>> {
    let found = plan.get_parameter_fields().map_err(plan_error)?;
    let (mut types, mut is_typed) = (Vec::new(), HashSet::new());
    for (name, field) in found {
        let number: usize = name.trim_start_matches('$').parse().unwrap_or(0);
        if number == 0 || number > usize::from(u16::MAX) {
            return Err(SqlError::new(
                SqlState::UNDEFINED_PARAMETER,
                format!("there is no parameter {name}"),
            ));
        }
        if types.len() < number {
            types.resize(number, Type::new(Scalar::Text));
        }
        if let Some(field) = field {
            types[number - 1] = Type::of_field(&field)?;
            is_typed.insert(name);
        }
    }
    if let Some(name) = shown_untyped(plan, &is_typed)? {
        let number: usize = name.trim_start_matches('$').parse().unwrap_or(1);
        let ty = types[number - 1].with_typmod(-1).display();
        let message = format!("inconsistent types deduced for parameter {name}");
        return Err(SqlError::new(SqlState::AMBIGUOUS_PARAMETER, message)
            .with_detail(format!("{ty} versus text"))
            .with_hint("Cast the parameter where it is selected."));
    }
    Ok(types)
}

/// One of these parameters that is a column as it is, and whose type is not told there: the column is described as text.
fn shown_untyped(plan: &LogicalPlan, is_typed: &HashSet<String>) -> Result<Option<String>> {
    let mut found = None;
    let visited = plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Projection(projection) = node {
            found = projection.expr.iter().find_map(|expr| match expr.clone().unalias() {
                Expr::Placeholder(Placeholder { id, field: None }) => is_typed.contains(&id).then_some(id),
                _ => None,
            });
        }
        Ok(if found.is_some() { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    visited.map_err(plan_error)?;
    Ok(found)
}
