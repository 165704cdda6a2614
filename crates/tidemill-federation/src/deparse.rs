//! Conditions of the planner and constants in the words of the other side: those that mean the same there. Anything else
//! stays here.

use std::sync::Arc;

use arrow::array::Array;
use arrow::datatypes::SchemaRef;
use datafusion::common::{DFSchema, Result, ScalarValue, ToDFSchema};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::expr_rewriter::unnormalize_col;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::physical_expr::create_physical_expr;
use tidemill_sql::text::{Context, TimeZone};
use tidemill_sql::types::Type;
use tidemill_sql::value::ValueEncoder;

use crate::connector::Capabilities;
use crate::expression::Writer;
use crate::fact::TableFacts;
use crate::table::TableDefinition;

/// Writes conditions on the rows of a table.
pub struct Conditions<'a> {
    columns: DFSchema,
    writer: Writer<'a>,
}

impl<'a> Conditions<'a> {
    pub fn on(
        table: &TableDefinition,
        schema: &SchemaRef,
        facts: &TableFacts,
        capabilities: &'a Capabilities,
    ) -> Result<Self> {
        let operands = table.columns.iter().map(|column| column.operand(facts, capabilities.dialect));
        let writer = Writer { columns: operands.collect(), capabilities, schema: Arc::clone(schema) };
        Ok(Self { columns: Arc::clone(schema).to_dfschema()?, writer })
    }

    /// In parentheses; `None` if it has to be judged here.
    pub fn write(&self, expr: &Expr) -> Option<String> {
        let expr = unnormalize_col(expr.clone());
        // What only the session's planner can carry out, such as a subquery, is no condition for others.
        let (properties, context) = (ExecutionProps::new(), PhysicalPlanningContext::default());
        self.writer.condition(&create_physical_expr(&expr, &self.columns, &properties, &context).ok()?)
    }
}

/// The text form of a constant; `None` is null, or a value that has none.
pub fn constant_text(value: &ScalarValue, ty: Type) -> Option<String> {
    let array = value.to_array().ok()?;
    if array.is_null(0) {
        return None;
    }
    let context = Context { now: 0.into(), zone: TimeZone::UTC };
    let mut text = Vec::new();
    ValueEncoder::new(&array, ty, &context).ok()?.write_text(0, &mut text).ok()?;
    String::from_utf8(text).ok()
}
