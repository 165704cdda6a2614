//! The physical rule by which nothing is known of a key that some grouping set leaves out.
//!
//! What is known of the rows that are grouped (that a column is constant, sorted, or equal to another one) DataFusion takes for
//! known of the groups, too; but where the key is left out it is null. So groups that it takes for sorted are split, and
//! ORDER BY is taken for done.
//!
//! ```text
//! Aggregate: ROLLUP (x)  =>  Aggregate: ROLLUP (a value of which nothing is known)
//! ```
//!
//! Blocked by: `AggregateExec::compute_properties` projects what is known of its input through grouping sets (DataFusion 55).
//! Remove when: `SELECT x, count(*) FROM (SELECT 'a' AS x FROM t) s GROUP BY ROLLUP (x) ORDER BY x` is right without this rule.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, FieldRef, Schema};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::ColumnarValue;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::UnKnownColumn;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, PhysicalGroupBy};

type Expr = Arc<dyn PhysicalExpr>;

#[derive(Debug)]
pub(super) struct GroupingKeys;

impl PhysicalOptimizerRule for GroupingKeys {
    fn name(&self) -> &str {
        "grouping_keys"
    }

    fn schema_check(&self) -> bool {
        true
    }

    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|plan| {
            let aggregate = plan.downcast_ref::<AggregateExec>();
            match aggregate.filter(|aggregate| aggregate.group_expr().has_grouping_set()) {
                Some(aggregate) => Ok(Transformed::yes(Arc::new(with_unknown_keys(aggregate)?))),
                None => Ok(Transformed::no(plan)),
            }
        })
        .data()
    }
}

fn with_unknown_keys(aggregate: &AggregateExec) -> Result<AggregateExec> {
    let group = aggregate.group_expr();
    let is_left_out = |key: usize| group.groups().iter().any(|set| set[key]);
    let keys = group.expr().iter().enumerate().map(|(i, (key, name))| {
        let key = Arc::clone(key);
        (if is_left_out(i) { Arc::new(GroupingKey::new(i, key)) } else { key }, name.clone())
    });
    let keys = keys.collect();
    let group = PhysicalGroupBy::new(keys, group.null_expr().to_vec(), group.groups().to_vec(), true);
    let unknown = AggregateExec::try_new(
        *aggregate.mode(),
        group,
        aggregate.aggr_expr().to_vec(),
        aggregate.filter_expr().to_vec(),
        Arc::clone(aggregate.input()),
        aggregate.input_schema(),
    )?;
    Ok(unknown.with_limit_options(aggregate.limit_options()))
}

/// A key whose value is that of an expression, and of which nothing else is known.
#[derive(Debug)]
struct GroupingKey {
    /// Which key of the aggregate it is: those of equal expressions are not equal.
    number: usize,
    expr: Expr,
    /// An expression is taken for constant if all that it is made of is: this is never.
    unknown: Expr,
}

impl GroupingKey {
    fn new(number: usize, expr: Expr) -> Self {
        Self { number, expr, unknown: Arc::new(UnKnownColumn::new("grouping set")) }
    }
}

impl PartialEq for GroupingKey {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number && self.expr.eq(&other.expr)
    }
}

impl Eq for GroupingKey {}

impl Hash for GroupingKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.number.hash(state);
        self.expr.hash(state);
    }
}

impl fmt::Display for GroupingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.expr.fmt(f)
    }
}

impl PhysicalExpr for GroupingKey {
    fn data_type(&self, schema: &Schema) -> Result<DataType> {
        self.expr.data_type(schema)
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        self.expr.nullable(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        self.expr.evaluate(batch)
    }

    fn return_field(&self, schema: &Schema) -> Result<FieldRef> {
        self.expr.return_field(schema)
    }

    fn children(&self) -> Vec<&Expr> {
        vec![&self.expr, &self.unknown]
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Expr>) -> Result<Expr> {
        Ok(match children.into_iter().next() {
            Some(expr) => Arc::new(Self::new(self.number, expr)),
            None => self,
        })
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.expr.fmt_sql(f)
    }
}
