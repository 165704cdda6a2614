//! Conditions of the planner and constants in the words of the other side: those that mean the same there. Anything else
//! stays here.

use std::sync::Arc;

use arrow::array::Array;
use datafusion::common::{ScalarValue, ToDFSchema};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::expr_rewriter::unnormalize_col;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::physical_expr::create_physical_expr;
use tidemill_sql::text::{Context, TimeZone};
use tidemill_sql::types::Type;
use tidemill_sql::value::ValueEncoder;

use crate::connector::{Capabilities, TableFacts};
use crate::expression::Writer;
use crate::table::TableDefinition;

/// A condition on the rows of a table, in parentheses; `None` if it has to be judged here.
pub fn condition(
    expr: &Expr,
    table: &TableDefinition,
    facts: &TableFacts,
    capabilities: &Capabilities,
) -> Option<String> {
    let schema = Arc::new(table.schema());
    let (expr, columns) = (unnormalize_col(expr.clone()), Arc::clone(&schema).to_dfschema().ok()?);
    // What only the session's planner can carry out, such as a subquery, is no condition for others.
    let expr =
        create_physical_expr(&expr, &columns, &ExecutionProps::new(), &PhysicalPlanningContext::default());
    let columns = table.columns.iter().map(|column| column.operand(facts, capabilities.dialect)).collect();
    Writer { columns, capabilities, schema }.condition(&expr.ok()?)
}

/// The text form of a constant; `None` is null, or a value that has none.
pub fn constant_text(value: &ScalarValue, ty: Type) -> Option<String> {
    let array = value.to_array().ok()?;
    if array.is_null(0) {
        return None;
    }
    let context = Context { now_us: 0, zone: TimeZone::UTC };
    let mut text = Vec::new();
    ValueEncoder::new(&array, ty, &context).ok()?.write_text(0, &mut text).ok()?;
    String::from_utf8(text).ok()
}
