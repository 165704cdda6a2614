//! Parameters in a plan that is made once and carried out many times.
//!
//! DataFusion makes no physical expression of a placeholder. In a generic plan the call of a function stands in its
//! place; [`with_values`] puts the value of one execution there.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::metadata::FieldMetadata;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{ScalarValue, internal_err};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Placeholder, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};

/// Stands for `$1`, `$2` … in a plan without values.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Parameter {
    /// From 0.
    number: usize,
    /// With the PostgreSQL type in the metadata.
    field: FieldRef,
    signature: Signature,
}

impl ScalarUDFImpl for Parameter {
    fn name(&self) -> &str {
        "parameter"
    }

    /// Volatile: no rule may compute it.
    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.field.data_type().clone())
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(Arc::clone(&self.field))
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        internal_err!("parameter ${} has no value", self.number + 1)
    }
}

/// Puts calls in the places of the placeholders of an optimized plan. `None` if the type of one is unknown.
pub fn without_placeholders(plan: LogicalPlan) -> Result<Option<LogicalPlan>> {
    let mut all_known = true;
    let plan = plan.transform_up_with_subqueries(|node| {
        let names = NamePreserver::new(&node);
        node.map_expressions(|expr| {
            let name = names.save(&expr);
            let replaced = expr.transform_up(|expr| {
                let Expr::Placeholder(placeholder) = &expr else { return Ok(Transformed::no(expr)) };
                let call = call(placeholder);
                all_known &= call.is_some();
                Ok(call.map_or(Transformed::no(expr), Transformed::yes))
            })?;
            Ok(replaced.update_data(|expr| name.restore(expr)))
        })
    });
    Ok(Some(plan.data()?).filter(|_| all_known))
}

fn call(placeholder: &Placeholder) -> Option<Expr> {
    let number = placeholder.id.strip_prefix('$')?.parse::<usize>().ok()?.checked_sub(1)?;
    let known = placeholder.field.as_ref()?;
    let field =
        Field::new(known.name(), known.data_type().clone(), true).with_metadata(known.metadata().clone());
    let signature = Signature::nullary(Volatility::Volatile);
    let parameter = Parameter { number, field: Arc::new(field), signature };
    let function = Arc::new(ScalarUDF::new_from_impl(parameter));
    Some(Expr::ScalarFunction(ScalarFunction::new_udf(function, vec![])))
}

/// Whether it stands for a parameter, before or after [`without_placeholders`].
pub fn is_parameter(expr: &Expr) -> bool {
    match expr {
        Expr::Placeholder(_) => true,
        Expr::ScalarFunction(call) => as_parameter(&call.func).is_some(),
        _ => false,
    }
}

pub fn has_parameters(expr: &Arc<dyn PhysicalExpr>) -> bool {
    let mut found = false;
    // The closure does not fail.
    let _ = expr.apply(|expr| {
        found |= parameter(expr).is_some();
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    found
}

/// The expression with the values of its parameters.
pub fn with_values(expr: &Arc<dyn PhysicalExpr>, values: &[ScalarValue]) -> Result<Arc<dyn PhysicalExpr>> {
    let bound = Arc::clone(expr).transform_up(|expr| {
        let Some(parameter) = parameter(&expr) else { return Ok(Transformed::no(expr)) };
        let Some(value) = values.get(parameter.number) else {
            return internal_err!("parameter ${} has no value", parameter.number + 1);
        };
        let metadata = Some(FieldMetadata::from(parameter.field.as_ref())).filter(|data| !data.is_empty());
        Ok(Transformed::yes(Arc::new(Literal::new_with_metadata(value.clone(), metadata)) as _))
    });
    bound.data()
}

fn parameter(expr: &Arc<dyn PhysicalExpr>) -> Option<&Parameter> {
    as_parameter(expr.downcast_ref::<ScalarFunctionExpr>()?.fun())
}

fn as_parameter(function: &ScalarUDF) -> Option<&Parameter> {
    function.inner().downcast_ref()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use arrow::array::{AsArray, Int32Array, RecordBatch};
    use arrow::datatypes::{Int32Type, Schema};
    use datafusion::common::DFSchema;
    use datafusion::logical_expr::col;
    use datafusion::prelude::SessionContext;

    use super::*;

    #[test]
    fn a_value_takes_the_place_of_its_parameter() {
        let schema = Arc::new(Schema::new(vec![Field::new("k", DataType::Int32, true)]));
        let typed = Some(Arc::new(Field::new("", DataType::Int32, true)));
        let placeholder = Placeholder { id: "$2".into(), field: typed };
        let expr = col("k") + call(&placeholder).unwrap();
        assert!(is_parameter(&Expr::Placeholder(placeholder)));
        let planner = SessionContext::new();
        let expr =
            planner.create_physical_expr(expr, &DFSchema::try_from(Arc::clone(&schema)).unwrap()).unwrap();
        assert!(has_parameters(&expr));
        let batch = RecordBatch::try_new(schema, vec![Arc::new(Int32Array::from(vec![1, 2]))]).unwrap();
        assert!(expr.evaluate(&batch).is_err());
        for value in [5, 7] {
            let bound = with_values(&expr, &[ScalarValue::Null, ScalarValue::from(value)]).unwrap();
            assert!(!has_parameters(&bound));
            let sums = bound.evaluate(&batch).unwrap().into_array(2).unwrap();
            assert_eq!(sums.as_primitive::<Int32Type>().values().as_ref(), [1 + value, 2 + value]);
        }
        assert!(with_values(&expr, &[ScalarValue::Null]).is_err());
    }
}
