//! Joins in which null equals null keep to their own keys.
//!
//! Blocked by: DataFusion makes keys of a join's further equalities, and one join of several, and a join has one way to compare
//! null for all of its keys. Remove when: each key has its own. Until then two rules do not touch such joins.

use std::sync::Arc;

use datafusion::common::NullEquality;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::{Join, JoinType, LogicalPlan};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

type Rule = Arc<dyn OptimizerRule + Send + Sync>;

/// The rule, or one that leaves such joins as they are.
pub(super) fn guarded(rule: Rule) -> Rule {
    match rule.name() {
        "extract_equijoin_predicate" => Arc::new(OneNode(rule)),
        "eliminate_cross_join" => Arc::new(WholePlan(rule)),
        _ => rule,
    }
}

fn is_null_safe(join: &Join) -> bool {
    join.null_equality == NullEquality::NullEqualsNull && !join.on.is_empty()
}

/// A rule that sees each node on its own.
#[derive(Debug)]
struct OneNode(Rule);

impl OptimizerRule for OneNode {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        match &plan {
            LogicalPlan::Join(join) if is_null_safe(join) => Ok(Transformed::no(plan)),
            _ => self.0.rewrite(plan, config),
        }
    }
}

/// A rule that goes over the plan itself and looks for inner joins: meanwhile these are none.
#[derive(Debug)]
struct WholePlan(Rule);

impl OptimizerRule for WholePlan {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let hidden = plan.transform_up_with_subqueries(|plan| {
            Ok(match plan {
                LogicalPlan::Join(join) if is_null_safe(&join) && join.join_type == JoinType::Inner => {
                    Transformed::yes(LogicalPlan::Join(Join { join_type: HIDDEN, null_aware: true, ..join }))
                }
                other => Transformed::no(other),
            })
        })?;
        if !hidden.transformed {
            return self.0.rewrite(hidden.data, config);
        }
        let rewritten = self.0.rewrite(hidden.data, config)?;
        let shown = rewritten.data.transform_up_with_subqueries(|plan| {
            Ok(match plan {
                LogicalPlan::Join(join) if join.join_type == HIDDEN && join.null_aware => {
                    let join_type = JoinType::Inner;
                    Transformed::yes(LogicalPlan::Join(Join { join_type, null_aware: false, ..join }))
                }
                other => Transformed::no(other),
            })
        })?;
        Ok(Transformed::new(shown.data, rewritten.transformed, rewritten.tnr))
    }
}

/// Only anti joins are aware of null otherwise.
const HIDDEN: JoinType = JoinType::Full;
