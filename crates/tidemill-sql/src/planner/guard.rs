//! DataFusion's optimizer rules with what comes around them, where one is wrong about a plan: then it is not called, or sees
//! another plan. Each guard is a file that says what blocks the rule, and when the guard can go.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use super::{apart, compared_column, doubtful_key, kept_condition, last_branch, null_safe_join};

type Rule = Arc<dyn OptimizerRule + Send + Sync>;
/// What the rule makes of a plan.
pub(super) type Rewrite<'a> = dyn Fn(LogicalPlan) -> Result<Transformed<LogicalPlan>> + 'a;
type Guard = fn(LogicalPlan, &Rewrite<'_>) -> Result<Transformed<LogicalPlan>>;

/// By the name of the rule, the innermost first.
const GUARDS: [(&str, Guard); 8] = [
    ("extract_equijoin_predicate", null_safe_join::of_node),
    ("eliminate_cross_join", null_safe_join::of_plan),
    ("simplify_expressions", apart::lists),
    ("push_down_filter", kept_condition::above),
    ("push_down_filter", compared_column::once),
    ("propagate_empty_relation", last_branch::renamed),
    ("replace_distinct_aggregate", doubtful_key::distinct),
    ("eliminate_join", doubtful_key::joins),
];

/// The rule with all that comes around it.
pub(super) fn guarded(rule: Rule) -> Rule {
    GUARDS.iter().fold(rule, |rule, (name, guard)| match rule.name() == *name {
        true => Arc::new(Guarded { rule, guard: *guard }),
        false => rule,
    })
}

#[derive(Debug)]
struct Guarded {
    rule: Rule,
    guard: Guard,
}

impl OptimizerRule for Guarded {
    fn name(&self) -> &str {
        self.rule.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.rule.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        (self.guard)(plan, &|plan| self.rule.rewrite(plan, config))
    }
}
