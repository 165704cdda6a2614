//! What runs on the servers beyond conditions and LIMIT: one rule a file, each over physical plans.
//!
//! A rule follows the columns that an operator uses down to the scans below it, through projections and unions, and gives
//! the scans more to do.

mod aggregate;
mod distinct;
pub(crate) mod dynamic_filter;
mod eager;
mod join;
mod key;
pub mod limit;
mod page_range;
mod rule;
mod state;
mod subquery_value;
mod top_k;

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use arrow::datatypes::Schema;
use datafusion::common::config::{ConfigEntry, ConfigExtension, ConfigOptions, ExtensionOptions};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{ScalarValue, config_err};
use datafusion::error::Result;
use datafusion::physical_expr::expressions::{CastExpr, Column, Literal};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::union::UnionExec;

use rule::NodeRule;
use tidemill_sql::planner::WholeOrder;

use crate::scan::ForeignScanExec;

type Rule = Arc<dyn PhysicalOptimizerRule + Send + Sync>;

/// All rules in their order around those of DataFusion.
pub fn rules(of_datafusion: Vec<Rule>) -> Vec<Rule> {
    let first = [join::RULE, dynamic_filter::HASHED_SUBQUERIES];
    let folds = [aggregate::RULE, distinct::RULE, eager::RULE];
    let last = [top_k::RULE, dynamic_filter::RULE, subquery_value::RULE, page_range::RULE, limit::RULE];
    let ours = |rule: NodeRule| Arc::new(rule) as Rule;
    let mut rules: Vec<Rule> = first.into_iter().map(ours).chain(of_datafusion).collect();
    rules.extend(folds.into_iter().map(ours));
    // A server does not tell which of its columns are equal, or constant. The sorts that it does are taken away after this.
    rules.push(Arc::new(WholeOrder));
    rules.extend(last.into_iter().map(ours));
    rules
}

/// What is left to the servers. The rules find it in the configuration of the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pushdown {
    /// Conditions, and LIMIT.
    pub filters: bool,
    pub aggregates: bool,
    /// Aggregates below joins.
    pub eager_aggregates: bool,
    /// Joins of tables of one server.
    pub joins: bool,
    pub top_k: bool,
    /// The keys of the other side of a join.
    pub dynamic_filters: bool,
    /// How long a scan waits for them.
    pub dynamic_filter_wait: Duration,
    /// Connections that read one large table.
    pub scan_connections: usize,
}

impl Default for Pushdown {
    fn default() -> Self {
        Self {
            filters: true,
            aggregates: true,
            eager_aggregates: true,
            joins: true,
            top_k: true,
            dynamic_filters: true,
            dynamic_filter_wait: Duration::from_millis(500),
            scan_connections: 4,
        }
    }
}

impl Pushdown {
    /// What leaves nothing to the servers.
    pub const NOTHING: Self = Self {
        filters: false,
        aggregates: false,
        eager_aggregates: false,
        joins: false,
        top_k: false,
        dynamic_filters: false,
        dynamic_filter_wait: Duration::ZERO,
        scan_connections: 1,
    };

    /// For the rules to find.
    pub fn configure(self, options: &mut ConfigOptions) {
        // Keys are gathered by ours.
        options.optimizer.hash_join_inlist_pushdown_max_distinct_values = 0;
        options.extensions.insert(self);
    }

    pub(crate) fn of(options: &ConfigOptions) -> Self {
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

/// What an expression is.
#[derive(Debug, Clone)]
pub(crate) enum Source {
    /// A column of the node below, or the key of one.
    Column {
        index: usize,
        keyed: bool,
    },
    Constant(ScalarValue),
    /// Of columns of the node below, or the key of it.
    Expression {
        expr: Arc<dyn PhysicalExpr>,
        keyed: bool,
    },
}

impl Source {
    /// `None`: the key of a constant, which nobody is asked for.
    pub(crate) fn of(expr: &Arc<dyn PhysicalExpr>) -> Option<Self> {
        if let Some(column) = expr.downcast_ref::<Column>() {
            return Some(Source::Column { index: column.index(), keyed: false });
        }
        if let Some(literal) = expr.downcast_ref::<Literal>() {
            return Some(Source::Constant(literal.value().clone()));
        }
        // A union has the fields of its sides made alike by casts that change nothing.
        if let Some(cast) = expr.downcast_ref::<CastExpr>()
            && let Some(literal) = cast.expr().downcast_ref::<Literal>()
            && literal.value().data_type() == *cast.cast_type()
        {
            return Some(Source::Constant(literal.value().clone()));
        }
        match expr.downcast_ref::<ScalarFunctionExpr>().filter(|call| call.name() == SORT_KEY) {
            Some(call) => Self::of(call.args().first()?)?.key(),
            None => Some(Source::Expression { expr: Arc::clone(expr), keyed: false }),
        }
    }

    /// The key of it.
    fn key(self) -> Option<Self> {
        Some(match self {
            Source::Column { index, .. } => Source::Column { index, keyed: true },
            Source::Expression { expr, .. } => Source::Expression { expr, keyed: true },
            Source::Constant(_) => return None,
        })
    }

    pub(crate) fn is_keyed(&self) -> bool {
        matches!(self, Source::Column { keyed: true, .. } | Source::Expression { keyed: true, .. })
    }

    /// The same in terms of what is below a projection.
    pub(crate) fn below(&self, projection: &ProjectionExec) -> Option<Self> {
        let column = |index: usize| projection.expr().get(index).map(|item| Arc::clone(&item.expr));
        let below = match self {
            Source::Column { index, .. } => Source::of(&column(*index)?)?,
            Source::Constant(_) => return Some(self.clone()),
            Source::Expression { expr, .. } => Source::of(&with_columns(expr, column)?)?,
        };
        if self.is_keyed() { below.key() } else { Some(below) }
    }
}

/// An expression with something else in the place of each column, by its index; `None` if one has nothing.
pub(crate) fn with_columns(
    expr: &Arc<dyn PhysicalExpr>,
    column: impl Fn(usize) -> Option<Arc<dyn PhysicalExpr>>,
) -> Option<Arc<dyn PhysicalExpr>> {
    let mut are_known = true;
    let replace = |expr: Arc<dyn PhysicalExpr>| {
        let Some(found) = expr.downcast_ref::<Column>() else { return Ok(Transformed::no(expr)) };
        Ok(match column(found.index()) {
            // It is in other terms already.
            Some(other) => Transformed::new(other, true, TreeNodeRecursion::Jump),
            None => {
                are_known = false;
                Transformed::no(expr)
            }
        })
    };
    let replaced = Arc::clone(expr).transform_down(replace).data().ok()?;
    are_known.then_some(replaced)
}

/// What a rule makes of the plan below an operator.
trait Target {
    /// Of a scan whose columns the sources are; `None`: it cannot do that.
    fn scan(&self, scan: &ForeignScanExec, sources: &[Source]) -> Result<Option<Arc<dyn ExecutionPlan>>>;

    /// Of one side of a union that is no such scan. It has what the operator is over, projections included.
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
    push_below(plan, &[], sources, target)
}

/// `left` are the projections on the way, the uppermost first, that do not stay.
fn push_below(
    plan: &Arc<dyn ExecutionPlan>,
    left: &[&ProjectionExec],
    sources: &[Source],
    target: &dyn Target,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    if let Some(scan) = plan.downcast_ref::<ForeignScanExec>() {
        return target.scan(scan, sources);
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let below = sources.iter().map(|source| source.below(projection)).collect::<Option<Vec<_>>>();
        let Some(below) = below else { return Ok(None) };
        if target.keeps_projections() {
            let pushed = push_below(projection.input(), left, &below, target)?;
            return pushed
                .map(|pushed| replace_children_if_necessary(Arc::clone(plan), vec![pushed]))
                .transpose();
        }
        return push_below(projection.input(), &[left, &[projection]].concat(), &below, target);
    }
    if plan.downcast_ref::<UnionExec>().is_some() {
        let sides = plan.children();
        let pushed = sides.iter().map(|side| push_below(side, left, sources, target));
        let pushed = pushed.collect::<Result<Vec<_>>>()?;
        if pushed.iter().all(Option::is_none) {
            return Ok(None);
        }
        let sides = sides.into_iter().zip(pushed).map(|(side, pushed)| match pushed {
            Some(pushed) => Ok(pushed),
            None => target.other(&projected(left, side, &plan.schema())?),
        });
        return UnionExec::try_new(sides.collect::<Result<Vec<_>>>()?).map(Some);
    }
    match (plan.name(), plan.children().as_slice()) {
        // It lets others run; a scan waits for its server.
        ("CooperativeExec", [below]) => push_below(below, left, sources, target),
        _ => Ok(None),
    }
}

/// A side of a union below the projections that were above the union. Its columns may be called otherwise than the union's.
fn projected(
    projections: &[&ProjectionExec],
    side: &Arc<dyn ExecutionPlan>,
    union: &Schema,
) -> Result<Arc<dyn ExecutionPlan>> {
    let mut side = Arc::clone(side);
    let names =
        |schema: &Schema| schema.fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>();
    let own = names(&side.schema());
    if own != names(union) {
        let columns = own.iter().zip(names(union)).enumerate();
        let columns =
            columns.map(|(i, (own, name))| (Arc::new(Column::new(own, i)) as Arc<dyn PhysicalExpr>, name));
        side = Arc::new(ProjectionExec::try_new(columns.collect::<Vec<_>>(), side)?);
    }
    for projection in projections.iter().rev() {
        side = Arc::new(ProjectionExec::try_new(projection.expr().to_vec(), side)?);
    }
    Ok(side)
}
