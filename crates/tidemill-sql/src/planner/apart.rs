//! Lists of IN are not made one across AND and OR.
//!
//! Blocked by: DataFusion takes two lists for sets of values. But null is equal to nothing, and an empty intersection is
//! null for null, which is something else than false in a select list and below NOT. Remove when: lists with null are not
//! made one, and an empty one minds null.
//!
//! ```text
//! x IN (1, 2) AND x NOT IN (2, NULL)   is not   x IN (1)   where x = 1
//! x IN (1) AND x IN (2)                is not   false      where x is null
//! (x = 1 OR x = 2) AND x IN (3)        is not   false      where x is null: equalities become a list, too
//! ```

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{BinaryExpr, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, Operator, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

type Rule = Arc<dyn OptimizerRule + Send + Sync>;

/// The rule that simplifies expressions, which finds no two lists beside each other; other rules are as they were.
pub(super) fn guarded(rule: Rule) -> Rule {
    match rule.name() {
        "simplify_expressions" => Arc::new(ListsApart { rule, apart: Arc::new(Apart::default().into()) }),
        _ => rule,
    }
}

#[derive(Debug)]
struct ListsApart {
    rule: Rule,
    apart: Arc<ScalarUDF>,
}

impl OptimizerRule for ListsApart {
    fn name(&self) -> &str {
        self.rule.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.rule.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        // The call shows in the names of some expressions.
        let names = NamePreserver::new(&plan);
        let named = |expr: Expr| {
            let name = names.save(&expr);
            self.hidden(expr)?.map_data(|expr| Ok(name.restore(expr)))
        };
        let hidden = plan.map_expressions(|expr| match expr {
            Expr::GroupingSet(_) => expr.map_children(named),
            expr => named(expr),
        })?;
        if !hidden.transformed {
            return self.rule.rewrite(hidden.data, config);
        }
        let rewritten = self.rule.rewrite(hidden.data, config)?;
        let shown = rewritten.data.map_expressions(shown)?;
        Ok(Transformed::new(shown.data, rewritten.transformed, rewritten.tnr))
    }
}

impl ListsApart {
    /// With what is a list, or may become one, in a call that says nothing to the rule.
    fn hidden(&self, expr: Expr) -> Result<Transformed<Expr>> {
        expr.transform_up(|expr| {
            let Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::And | Operator::Or), right }) = expr
            else {
                return Ok(Transformed::no(expr));
            };
            let hides = match op {
                Operator::And => may_be_list,
                _ => may_be_list_of_others,
            };
            let is_list = (hides(&left), hides(&right));
            let hidden = |expr: Box<Expr>, is_list: bool| match is_list {
                true => Box::new(Expr::ScalarFunction(ScalarFunction::new_udf(
                    Arc::clone(&self.apart),
                    vec![*expr],
                ))),
                false => expr,
            };
            let (left, right) = (hidden(left, is_list.0), hidden(right, is_list.1));
            let expr = Expr::BinaryExpr(BinaryExpr { left, op, right });
            Ok(Transformed::new_transformed(expr, is_list.0 || is_list.1))
        })
    }
}

fn shown(expr: Expr) -> Result<Transformed<Expr>> {
    expr.transform_up(|expr| match expr {
        Expr::ScalarFunction(mut call) if call.func.inner().as_ref().is::<Apart>() => {
            Ok(Transformed::yes(call.args.swap_remove(0)))
        }
        Expr::Alias(alias)
            if alias.relation.is_none() && alias.name == alias.expr.schema_name().to_string() =>
        {
            Ok(Transformed::yes(*alias.expr))
        }
        other => Ok(Transformed::no(other)),
    })
}

/// `x IN (…)` or `x NOT IN (…)` once it is simplified.
fn may_be_list(expr: &Expr) -> bool {
    match expr {
        Expr::InList(_) => true,
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
            may_be_equality(left) && may_be_equality(right)
        }
        Expr::Not(_) => may_be_list_of_others(expr),
        _ => false,
    }
}

fn may_be_equality(expr: &Expr) -> bool {
    match expr {
        Expr::BinaryExpr(BinaryExpr { op: Operator::Eq, .. }) => true,
        expr => may_be_list(expr),
    }
}

/// `x NOT IN (…)`: that `x IN (…) OR x IN (…)` is one list is right.
fn may_be_list_of_others(expr: &Expr) -> bool {
    match expr {
        Expr::InList(list) => list.negated,
        Expr::Not(inner) => inner.exists(|expr| Ok(is_comparison(expr))).unwrap_or(true),
        _ => false,
    }
}

fn is_comparison(expr: &Expr) -> bool {
    match expr {
        Expr::InList(_) => true,
        Expr::BinaryExpr(comparison) => matches!(comparison.op, Operator::Eq | Operator::NotEq),
        _ => false,
    }
}

/// The value of its argument, of which nothing is known.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Apart(Signature);

impl Default for Apart {
    fn default() -> Self {
        Self(Signature::any(1, Volatility::Immutable))
    }
}

impl ScalarUDFImpl for Apart {
    fn name(&self) -> &str {
        "__apart"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types[0].clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let field = args.arg_fields[0].as_ref();
        Ok(Arc::new(Field::new(self.name(), field.data_type().clone(), field.is_nullable())))
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(args.args.swap_remove(0))
    }
}
