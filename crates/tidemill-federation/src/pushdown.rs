//! What runs on the servers beyond conditions and LIMIT: one rule a file, each over physical plans.
//!
//! A rule follows the columns that an operator uses down to the scans below it, through projections and unions, and gives
//! the scans more to do.

pub mod aggregate;
pub mod eager;
pub mod top_k;

use std::any::Any;
use std::sync::Arc;

use datafusion::common::config::{ConfigEntry, ConfigExtension, ConfigOptions, ExtensionOptions};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{ScalarValue, config_err};
use datafusion::error::Result;
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::union::UnionExec;

use crate::scan::ForeignScanExec;

/// All rules, in their order; they come after those of DataFusion.
pub fn rules() -> Vec<Arc<dyn PhysicalOptimizerRule + Send + Sync>> {
    vec![Arc::new(aggregate::PartialAggregates), Arc::new(eager::EagerAggregates), Arc::new(top_k::TopK)]
}

/// What is left to the servers. The rules find it in the configuration of the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pushdown {
    /// Conditions, and LIMIT.
    pub filters: bool,
    pub aggregates: bool,
    /// Aggregates below joins.
    pub eager_aggregates: bool,
    pub top_k: bool,
}

impl Default for Pushdown {
    fn default() -> Self {
        Self { filters: true, aggregates: true, eager_aggregates: true, top_k: true }
    }
}

impl Pushdown {
    fn of(options: &ConfigOptions) -> Self {
        options.extensions.get::<Pushdown>().copied().unwrap_or_default()
    }
}

impl ConfigExtension for Pushdown {
    const PREFIX: &'static str = "tidemill_pushdown";
}

impl ExtensionOptions for Pushdown {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(*self)
    }

    /// The session's settings are the server's to change, not DataFusion's.
    fn set(&mut self, key: &str, _: &str) -> Result<()> {
        config_err!("{key} is not a setting of the planner")
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        vec![]
    }
}

/// The name of what values are compared by where their bytes don't say it.
pub(crate) const SORT_KEY: &str = "sort_key";

/// What an expression is, if it is no more than this.
#[derive(Debug, Clone)]
pub(crate) enum Source {
    /// A column of the node below, or the key of one.
    Column {
        index: usize,
        keyed: bool,
    },
    Constant(ScalarValue),
    /// Of columns of the node below.
    Expression(Arc<dyn PhysicalExpr>),
}

impl Source {
    pub(crate) fn of(expr: &Arc<dyn PhysicalExpr>) -> Option<Self> {
        if let Some(column) = expr.downcast_ref::<Column>() {
            return Some(Source::Column { index: column.index(), keyed: false });
        }
        if let Some(literal) = expr.downcast_ref::<Literal>() {
            return Some(Source::Constant(literal.value().clone()));
        }
        let Some(call) = expr.downcast_ref::<ScalarFunctionExpr>().filter(|call| call.name() == SORT_KEY)
        else {
            return Some(Source::Expression(Arc::clone(expr)));
        };
        match (Self::of(call.args().first()?)?, call.args().len()) {
            (Source::Column { index, .. }, 1) => Some(Source::Column { index, keyed: true }),
            _ => None,
        }
    }

    /// The same in terms of what is below a projection.
    pub(crate) fn below(&self, projection: &ProjectionExec) -> Option<Self> {
        let (index, keyed) = match self {
            Source::Column { index, keyed } => (index, keyed),
            Source::Constant(_) => return Some(self.clone()),
            Source::Expression(expr) => {
                let replace = |expr: Arc<dyn PhysicalExpr>| {
                    let found = expr.downcast_ref::<Column>().and_then(|c| projection.expr().get(c.index()));
                    Ok(match found {
                        // What takes its place is in terms of the node below already.
                        Some(below) => {
                            Transformed::new(Arc::clone(&below.expr), true, TreeNodeRecursion::Jump)
                        }
                        None => Transformed::no(expr),
                    })
                };
                return Self::of(&Arc::clone(expr).transform_down(replace).data().ok()?);
            }
        };
        Some(match Source::of(&projection.expr().get(*index)?.expr)? {
            Source::Column { index, keyed: below } => Source::Column { index, keyed: *keyed || below },
            _ if *keyed => return None,
            other => other,
        })
    }
}

/// What a rule makes of the plan below an operator.
trait Target {
    /// Of a scan whose columns the sources are; `None`: it cannot do that.
    fn scan(&self, scan: &ForeignScanExec, sources: &[Source]) -> Result<Option<Arc<dyn ExecutionPlan>>>;

    /// Of one side of a union that is no such scan.
    fn other(&self, plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>>;

    /// Whether the projections on the way stay.
    fn keeps_projections(&self) -> bool;
}

/// The plan with more to do for its scans; `None` if there is none that can.
fn push(
    plan: &Arc<dyn ExecutionPlan>,
    sources: &[Source],
    target: &dyn Target,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(scan) = plan.downcast_ref::<ForeignScanExec>() {
        return target.scan(scan, sources);
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let below = sources.iter().map(|source| source.below(projection)).collect::<Option<Vec<_>>>();
        let Some(below) = below else { return Ok(None) };
        let pushed = push(projection.input(), &below, target)?;
        return match pushed {
            Some(pushed) if target.keeps_projections() => {
                replace_children_if_necessary(Arc::clone(plan), vec![pushed]).map(Some)
            }
            pushed => Ok(pushed),
        };
    }
    if plan.downcast_ref::<UnionExec>().is_some() {
        let mut any = false;
        let sides = plan.children().into_iter().map(|side| match push(side, sources, target)? {
            Some(pushed) => {
                any = true;
                Ok(pushed)
            }
            None => target.other(side),
        });
        let sides = sides.collect::<Result<Vec<_>>>()?;
        return if any { UnionExec::try_new(sides).map(Some) } else { Ok(None) };
    }
    match (plan.name(), plan.children().as_slice()) {
        // It lets others run; a scan waits for its server.
        ("CooperativeExec", [below]) => push(below, sources, target),
        _ => Ok(None),
    }
}
