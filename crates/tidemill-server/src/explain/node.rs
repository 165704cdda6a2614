//! The nodes of a physical plan in PostgreSQL's words.

use std::sync::Arc;

use datafusion::common::JoinType;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::InputOrderMode;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::limit::{GlobalLimitExec, LocalLimitExec};
use datafusion::physical_plan::memory::LazyMemoryExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use tidemill_federation::pushdown::limit::InTurnExec;
use tidemill_federation::scan::ForeignScanExec;
use tidemill_sql::name::quote_ident;
use tidemill_stream::view::{StateExec, ViewId};

use super::Views;
use super::expression::{aggregate, order, text};

pub struct Node<'p> {
    pub title: String,
    pub properties: Vec<(&'static str, String)>,
    pub children: Vec<&'p Arc<dyn ExecutionPlan>>,
}

/// The view whose state a node reads.
pub fn view_of(plan: &Arc<dyn ExecutionPlan>) -> Option<ViewId> {
    plan.downcast_ref::<StateExec>()?.view()
}

impl<'p> Node<'p> {
    pub fn of(plan: &'p Arc<dyn ExecutionPlan>, views: Views<'_>) -> Self {
        let (title, properties) = described(plan, views).unwrap_or_else(|| (spelled(plan.name()), vec![]));
        Self { title, properties, children: plan.children() }
    }
}

type Described = (String, Vec<(&'static str, String)>);

fn described(plan: &Arc<dyn ExecutionPlan>, views: Views<'_>) -> Option<Described> {
    if let Some(state) = plan.downcast_ref::<StateExec>() {
        return Some(state_scan(state, views));
    }
    if let Some(scan) = plan.downcast_ref::<ForeignScanExec>() {
        return Some(foreign_scan(scan));
    }
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        return Some(aggregation(aggregate));
    }
    if let Some(sort) = plan.downcast_ref::<SortExec>() {
        return Some(("Sort".into(), first_of(sort.expr(), sort.fetch())));
    }
    if let Some(merge) = plan.downcast_ref::<SortPreservingMergeExec>() {
        return Some(("Sort Preserving Merge".into(), first_of(merge.expr(), merge.fetch())));
    }
    if let Some(limit) = plan.downcast_ref::<GlobalLimitExec>() {
        let rows = limit.fetch().map(|rows| ("Rows", rows.to_string()));
        let skipped = (limit.skip() > 0).then(|| ("Offset", limit.skip().to_string()));
        return Some(("Limit".into(), rows.into_iter().chain(skipped).collect()));
    }
    if let Some(limit) = plan.downcast_ref::<LocalLimitExec>() {
        return Some(("Limit".into(), vec![("Rows", limit.fetch().to_string())]));
    }
    if let Some(limit) = plan.downcast_ref::<InTurnExec>() {
        let rows = ("Rows", limit.rows().to_string());
        return Some(("Limit".into(), vec![rows, ("Nodes", "one after the other".into())]));
    }
    if let Some(lazy) = plan.downcast_ref::<LazyMemoryExec>() {
        let shown = lazy.generators().first().map(|generator| generator.read().to_string());
        let function = shown.as_deref().and_then(|shown| shown.split(':').next()).unwrap_or("function");
        return Some((format!("Function Scan on {function}"), vec![]));
    }
    join(plan).or_else(|| {
        let title = match plan.name() {
            "UnionExec" | "InterleaveExec" => "Append",
            "PlaceholderRowExec" | "EmptyExec" => "Result",
            "WindowAggExec" | "BoundedWindowAggExec" => "WindowAgg",
            "RecursiveQueryExec" => "Recursive Union",
            "WorkTableExec" => "WorkTable Scan",
            "DataSourceExec" => "Memory Scan",
            "CrossJoinExec" => "Nested Loop",
            _ => return None,
        };
        Some((title.to_string(), vec![]))
    })
}

/// An order, and how many rows are wanted of it.
fn first_of(key: &[PhysicalSortExpr], rows: Option<usize>) -> Vec<(&'static str, String)> {
    let limit = rows.map(|rows| ("Limit", rows.to_string()));
    std::iter::once(("Sort Key", order(key))).chain(limit).collect()
}

fn foreign_scan(scan: &ForeignScanExec) -> Described {
    let (title, relations) = match scan.select().joined {
        Some(_) => ("Foreign Scan".to_string(), Some(("Relations", scan.table().to_string()))),
        None => (format!("Foreign Scan on {}", quote_ident(scan.table())), None),
    };
    let remote = (scan.capabilities().label, scan.remote_sql().to_string());
    let keys: Vec<_> = scan.dynamic_filters().map(text).collect();
    let filter = (!keys.is_empty()).then(|| ("Dynamic Filter", keys.join(", ")));
    (title, relations.into_iter().chain([remote]).chain(filter).collect())
}

fn state_scan(state: &StateExec, views: Views<'_>) -> Described {
    let (how, condition) = match state.condition() {
        Some((how, condition)) => (how, Some(("Key Cond", text(&named(condition, state))))),
        None => ("Scan", None),
    };
    let title = match state.view().and_then(views) {
        Some((view, _)) => format!("State {how} on {view}"),
        None => format!("State {how}"),
    };
    (title, condition.into_iter().collect())
}

/// A condition on the keys by the names that they have in what the state gives.
fn named(condition: &Arc<dyn PhysicalExpr>, state: &StateExec) -> Arc<dyn PhysicalExpr> {
    let schema = state.schema();
    let name = |expr: Arc<dyn PhysicalExpr>| {
        let field = expr.downcast_ref::<Column>().map(|key| (key.index(), schema.fields().get(key.index())));
        Ok(match field {
            Some((index, Some(field))) => Transformed::yes(Arc::new(Column::new(field.name(), index)) as _),
            _ => Transformed::no(expr),
        })
    };
    Arc::clone(condition).transform(name).data().unwrap_or_else(|_| Arc::clone(condition))
}

fn aggregation(node: &AggregateExec) -> Described {
    let groups: Vec<_> = node.group_expr().expr().iter().map(|(key, _)| text(key)).collect();
    let kind = match (groups.is_empty(), node.input_order_mode()) {
        (true, _) => "Aggregate",
        (false, InputOrderMode::Linear) => "HashAggregate",
        (false, _) => "GroupAggregate",
    };
    let title = match node.mode() {
        AggregateMode::Partial => format!("Partial {kind}"),
        AggregateMode::Final | AggregateMode::FinalPartitioned => format!("Finalize {kind}"),
        _ => kind.to_string(),
    };
    let mut properties = Vec::new();
    if !groups.is_empty() {
        properties.push(("Group Key", groups.join(", ")));
    }
    let functions = node.aggr_expr().iter().zip(node.filter_expr());
    let functions: Vec<_> =
        functions.map(|(function, filter)| aggregate(function, filter.as_ref())).collect();
    if !functions.is_empty() {
        properties.push(("Aggregates", functions.join(", ")));
    }
    (title, properties)
}

fn join(plan: &Arc<dyn ExecutionPlan>) -> Option<Described> {
    let filtered = |filter: Option<&JoinFilter>| {
        filter.map(|filter| ("Join Filter", text(filter.expression()))).into_iter()
    };
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        let condition = ("Hash Cond", equalities(join.on()));
        let properties = std::iter::once(condition).chain(filtered(join.filter())).collect();
        return Some((format!("Hash {}", kind(*join.join_type())), properties));
    }
    if let Some(join) = plan.downcast_ref::<SortMergeJoinExec>() {
        let condition = ("Merge Cond", equalities(join.on()));
        let properties = std::iter::once(condition).chain(filtered(join.filter().as_ref())).collect();
        return Some((format!("Merge {}", kind(join.join_type())), properties));
    }
    let join = plan.downcast_ref::<NestedLoopJoinExec>()?;
    let title = match *join.join_type() {
        JoinType::Inner => "Nested Loop".to_string(),
        other => format!("Nested Loop {}", kind(other)),
    };
    Some((title, filtered(join.filter()).collect()))
}

fn kind(join_type: JoinType) -> &'static str {
    match join_type {
        JoinType::Inner => "Join",
        JoinType::Left => "Left Join",
        JoinType::Right => "Right Join",
        JoinType::Full => "Full Join",
        JoinType::LeftSemi => "Semi Join",
        JoinType::RightSemi => "Right Semi Join",
        JoinType::LeftAnti => "Anti Join",
        JoinType::RightAnti => "Right Anti Join",
        JoinType::LeftMark | JoinType::RightMark => "Mark Join",
    }
}

fn equalities(on: &[(Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>)]) -> String {
    let equal = |(left, right): &(_, _)| format!("({} = {})", text(left), text(right));
    on.iter().map(equal).collect::<Vec<_>>().join(" AND ")
}

/// `CoalescePartitionsExec` as `Coalesce Partitions`.
fn spelled(name: &str) -> String {
    let mut title = String::new();
    for c in name.trim_end_matches("Exec").chars() {
        if c.is_uppercase() && !title.is_empty() {
            title.push(' ');
        }
        title.push(c);
    }
    title
}
