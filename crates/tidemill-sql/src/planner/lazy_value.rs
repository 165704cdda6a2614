//! Scalar subqueries whose value may not be needed: they run all the same, but that they have too many rows is an error only
//! where the value is needed.
//!
//! ```text
//! CASE WHEN c THEN (SELECT k FROM t) END
//! => CASE WHEN c THEN needed_value((SELECT counted_value(k) FROM (SELECT k FROM t LIMIT 2))) END
//! ```

use std::sync::{Arc, LazyLock};

use arrow::array::Array;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::cast::{as_int64_array, as_struct_array};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, internal_err};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{AggregateFunction, Case};
use datafusion::logical_expr::logical_plan::Subquery;
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlanBuilder, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};

use super::correlated::{free_columns, is_single};
use super::single_value;

/// Rows that tell that there are too many.
const ROWS_MAX: usize = 2;

/// Whether there is such a subquery in the expression.
pub(super) fn waits(expr: &Expr) -> bool {
    let waits = |part: &Expr| part.exists(|e| Ok(is_wanted(e))).unwrap_or(true);
    expr.exists(|expr| Ok(optional(expr).into_iter().any(waits))).unwrap_or(true)
}

/// The expression with such subqueries as told above.
pub(super) fn guarded(expr: Expr) -> Result<Expr> {
    if !waits(&expr) {
        return Ok(expr);
    }
    let guarded = expr.transform_down(|expr| {
        let guarded = |part: Expr| part.transform_down(guarded_value).map(|part| part.data);
        Ok(match expr {
            Expr::Case(case) => Transformed::yes(Expr::Case(branches(case, guarded)?)),
            Expr::ScalarFunction(mut call) if call.func.name() == COALESCE => {
                let later = call.args.split_off(1.min(call.args.len()));
                call.args.extend(later.into_iter().map(guarded).collect::<Result<Vec<_>>>()?);
                Transformed::yes(Expr::ScalarFunction(call))
            }
            Expr::BinaryExpr(mut both) if is_connective(both.op) => {
                both.right = Box::new(guarded(*both.right)?);
                Transformed::yes(Expr::BinaryExpr(both))
            }
            other => Transformed::no(other),
        })
    });
    guarded.map(|guarded| guarded.data)
}

const COALESCE: &str = "coalesce";

/// The parts of an expression that are evaluated for some rows only.
fn optional(expr: &Expr) -> Vec<&Expr> {
    match expr {
        Expr::Case(case) => {
            let values = case.when_then_expr.iter().map(|(_, value)| value.as_ref());
            let later = case.when_then_expr.iter().skip(1).map(|(condition, _)| condition.as_ref());
            values.chain(later).chain(case.else_expr.as_deref()).collect()
        }
        Expr::ScalarFunction(call) if call.func.name() == COALESCE => call.args.iter().skip(1).collect(),
        Expr::BinaryExpr(both) if is_connective(both.op) => vec![&both.right],
        _ => vec![],
    }
}

fn is_connective(op: Operator) -> bool {
    matches!(op, Operator::And | Operator::Or)
}

fn branches(case: Case, guarded: impl Fn(Expr) -> Result<Expr>) -> Result<Case> {
    let mut when_then_expr = Vec::with_capacity(case.when_then_expr.len());
    for (i, (condition, value)) in case.when_then_expr.into_iter().enumerate() {
        let condition = if i == 0 { condition } else { Box::new(guarded(*condition)?) };
        when_then_expr.push((condition, Box::new(guarded(*value)?)));
    }
    let else_expr = case.else_expr.map(|value| guarded(*value).map(Box::new)).transpose()?;
    Ok(Case { when_then_expr, else_expr, ..case })
}

/// A subquery that may have too many rows.
fn is_wanted(expr: &Expr) -> bool {
    matches!(expr, Expr::ScalarSubquery(subquery) if !is_single(&subquery.subquery))
}

fn guarded_value(expr: Expr) -> Result<Transformed<Expr>> {
    let subquery = match expr {
        Expr::ScalarSubquery(subquery) if !is_single(&subquery.subquery) => subquery,
        other => return Ok(Transformed::no(other)),
    };
    let plan = subquery.subquery.as_ref();
    let value = Expr::Column(Column::from(plan.schema().qualified_field(0)));
    let counted = AggregateFunction::new_udf(single_value::counted(), vec![value], false, None, vec![], None);
    let mut rows = LogicalPlanBuilder::from(plan.clone());
    if free_columns(plan).is_empty() {
        rows = rows.limit(0, Some(ROWS_MAX))?;
    }
    let counted = Expr::AggregateFunction(counted).alias("counted");
    let plan = Arc::new(rows.aggregate(Vec::<Expr>::new(), [counted])?.build()?);
    let counted = Expr::ScalarSubquery(Subquery { subquery: plan, ..subquery });
    Ok(Transformed::new(needed_value().call(vec![counted]), true, TreeNodeRecursion::Jump))
}

fn needed_value() -> Arc<ScalarUDF> {
    static UDF: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        let signature = Signature::any(1, Volatility::Immutable);
        Arc::new(ScalarUDF::from(NeededValue { signature }))
    });
    Arc::clone(&UDF)
}

/// The value of a subquery, or the error that there are several.
#[derive(Debug, PartialEq, Eq, Hash)]
struct NeededValue {
    signature: Signature,
}

impl ScalarUDFImpl for NeededValue {
    fn name(&self) -> &str {
        "needed_value"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match &types[0] {
            DataType::Struct(fields) => Ok(fields[0].data_type().clone()),
            other => internal_err!("a counted value of type {other}"),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        match args.arg_fields[0].data_type() {
            // The PostgreSQL type is in the metadata.
            DataType::Struct(fields) => {
                let value: &Field = &fields[0];
                Ok(Arc::new(value.clone().with_name(self.name()).with_nullable(true)))
            }
            other => internal_err!("a counted value of type {other}"),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let counted = as_struct_array(&arrays[0])?;
        let rows = as_int64_array(counted.column(1))?;
        let has_several = |i: usize| counted.is_valid(i) && rows.value(i) > 1;
        if args.number_rows > 0 && (0..counted.len()).any(has_several) {
            return Err(single_value::too_many_rows());
        }
        // The rest is null where no row was joined.
        let value = arrow::compute::nullif(counted.column(0), &arrow::compute::is_null(counted)?)?;
        match &args.args[0] {
            ColumnarValue::Scalar(_) => {
                Ok(ColumnarValue::Scalar(datafusion::common::ScalarValue::try_from_array(&value, 0)?))
            }
            ColumnarValue::Array(_) => Ok(ColumnarValue::Array(value)),
        }
    }
}
