//! A plan in the lines of PostgreSQL's EXPLAIN.
//!
//! Filters and projections are no nodes of their own, as in PostgreSQL: the node below them shows what it lets through, and
//! with VERBOSE what comes out. Costs are row counts where they are known; nothing else is estimated.

pub mod expression;
mod node;
pub mod view;
pub mod write;

use std::sync::Arc;

use chrono::{DateTime, TimeDelta, Utc};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::metrics::MetricValue;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::{ExecutionPlan, StatisticsArgs, StatisticsContext};
use tidemill_federation::node::Nodes;
use tidemill_federation::scan::ForeignScanExec;
use tidemill_sql::statement::ExplainOptions;
use tidemill_stream::view::ViewId;

use expression::{name, text};
use node::Node;

/// Names the view of a state, and says how many groups it has.
pub type Views<'a> = &'a dyn Fn(ViewId) -> Option<(String, usize)>;

/// Makes the lines.
pub struct Explain<'a> {
    pub options: ExplainOptions,
    pub views: Views<'a>,
    /// When the plan began to be carried out, if it was.
    pub began: Option<DateTime<Utc>>,
    /// What foreign servers sent then.
    pub nodes: Option<Arc<Nodes>>,
}

/// A node, with the filters and projections above it that are shown as a part of it.
struct Place<'p> {
    plan: &'p Arc<dyn ExecutionPlan>,
    /// The uppermost of them: what comes out of it is what comes out of the place.
    outermost: &'p Arc<dyn ExecutionPlan>,
    filters: Vec<&'p Arc<dyn PhysicalExpr>>,
}

impl<'p> Place<'p> {
    fn of(outermost: &'p Arc<dyn ExecutionPlan>) -> Self {
        let mut place = Self { plan: outermost, outermost, filters: vec![] };
        loop {
            if let Some(filter) = place.plan.downcast_ref::<FilterExec>() {
                place.filters.push(filter.predicate());
                place.plan = filter.input();
            } else if let Some(projection) = place.plan.downcast_ref::<ProjectionExec>() {
                place.plan = projection.input();
            } else if let (
                "AsideExec"
                | "CooperativeExec"
                | "CoalesceBatchesExec"
                | "KeysExec"
                | "NullSideExec"
                | "SeriesExec",
                [below],
            ) = (place.plan.name(), place.plan.children().as_slice())
            {
                place.plan = below;
            } else {
                return place;
            }
        }
    }

    /// The expressions of the uppermost projection, or the columns.
    fn output(&self) -> Vec<String> {
        match self.outermost.downcast_ref::<ProjectionExec>() {
            Some(projection) => projection.expr().iter().map(|item| text(&item.expr)).collect(),
            None => {
                let schema = self.outermost.schema();
                schema.fields().iter().map(|field| name(field.name())).collect()
            }
        }
    }
}

/// A node at some depth.
pub fn head(depth: usize, title: &str) -> String {
    match depth {
        0 => title.to_string(),
        _ => format!("{}->  {title}", " ".repeat(6 * depth - 4)),
    }
}

pub fn milliseconds(time: TimeDelta) -> f64 {
    time.num_microseconds().unwrap_or_default().max(0) as f64 / 1000.0
}

/// What is told of the node at this depth.
pub fn property(depth: usize, name: &str, value: &str) -> String {
    format!("{}{name}: {value}", " ".repeat(6 * depth + 2))
}

impl Explain<'_> {
    pub fn lines(&self, plan: &Arc<dyn ExecutionPlan>, depth: usize) -> Vec<String> {
        let mut lines = Vec::new();
        self.add(&Place::of(plan), depth, &mut lines);
        lines
    }

    fn add(&self, place: &Place<'_>, depth: usize, lines: &mut Vec<String>) {
        let Node { title, mut properties, children } = Node::of(place.plan, self.views);
        self.add_sent(place.plan, &mut properties);
        lines.push(head(depth, &format!("{title}{}{}", self.estimate(place), self.measured(place))));
        if self.options.verbose {
            let output = place.output();
            if !output.is_empty() {
                lines.push(property(depth, "Output", &output.join(", ")));
            }
        }
        lines.extend(properties.iter().map(|(name, value)| property(depth, name, value)));
        if !place.filters.is_empty() {
            let all: Vec<_> = place.filters.iter().rev().map(|filter| text(filter)).collect();
            lines.push(property(depth, "Filter", &all.join(" AND ")));
            let removed = self.removed(place).map(|rows| rows.to_string());
            lines.extend(removed.map(|rows| property(depth, "Rows Removed by Filter", &rows)));
        }
        for child in children {
            self.add(&Place::of(child), depth + 1, lines);
        }
    }

    fn estimate(&self, place: &Place<'_>) -> String {
        if !self.options.costs {
            return String::new();
        }
        let groups = node::view_of(place.plan).and_then(self.views).map(|(_, groups)| groups);
        let known = match groups.filter(|_| place.filters.is_empty()) {
            Some(groups) => Some(groups),
            None => StatisticsContext::new()
                .compute(place.outermost.as_ref(), &StatisticsArgs::new())
                .ok()
                .and_then(|statistics| statistics.num_rows.get_value().copied()),
        };
        known.map_or_else(String::new, |rows| format!("  (rows={rows})"))
    }

    fn measured(&self, place: &Place<'_>) -> String {
        let Some(began) = self.began else { return String::new() };
        let plan = measuring(place.outermost);
        let (Some(rows), Some(metrics)) = (output_rows(plan), plan.metrics()) else {
            return String::new();
        };
        let (mut first, mut last) = (None::<DateTime<Utc>>, None::<DateTime<Utc>>);
        for metric in metrics.iter() {
            match metric.value() {
                MetricValue::StartTimestamp(at) => first = first.into_iter().chain(at.value()).min(),
                MetricValue::EndTimestamp(at) => last = last.into_iter().chain(at.value()).max(),
                _ => {}
            }
        }
        let since = |at: DateTime<Utc>| milliseconds(at - began);
        match (first, last) {
            (Some(first), Some(last)) if self.options.timing => {
                format!(" (actual time={:.3}..{:.3} rows={rows} loops=1)", since(first), since(last))
            }
            _ => format!(" (actual rows={rows} loops=1)"),
        }
    }

    /// What a foreign server was asked in the end, and what came of it.
    fn add_sent(&self, plan: &Arc<dyn ExecutionPlan>, properties: &mut Vec<(&'static str, String)>) {
        let scan = plan.downcast_ref::<ForeignScanExec>();
        let node = scan.zip(self.nodes.as_ref()).and_then(|(scan, nodes)| nodes.find(scan.query()));
        let (Some(scan), Some(node)) = (scan, node) else { return };
        for (name, value) in properties.iter_mut() {
            if *name == scan.capabilities().label {
                *value = node.remote_sql().to_string();
            }
        }
        let time = node.time().filter(|_| self.options.timing);
        let time = time.map_or_else(String::new, |time| format!(" time={:.3}", time.as_secs_f64() * 1e3));
        let sent = format!("{} rows={} bytes={}{time}", node.name(), node.rows(), node.bytes());
        properties.push(("Node", sent));
    }

    fn removed(&self, place: &Place<'_>) -> Option<usize> {
        self.began?;
        let removed = output_rows(place.plan)?.checked_sub(output_rows(measuring(place.outermost))?)?;
        (removed > 0).then_some(removed)
    }
}

/// The node, or the one below it that counts its rows: `CooperativeExec` does not.
fn measuring(plan: &Arc<dyn ExecutionPlan>) -> &Arc<dyn ExecutionPlan> {
    match plan.children().as_slice() {
        [below] if plan.metrics().is_none() => measuring(below),
        _ => plan,
    }
}

/// Rows that have come out of a node, if it counts them.
fn output_rows(plan: &Arc<dyn ExecutionPlan>) -> Option<usize> {
    plan.metrics().and_then(|metrics| metrics.output_rows())
}
