//! EXPLAIN CONTINUOUS VIEW: what happens to an event, what is kept, and what happens at a read.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use datafusion::catalog::TableProvider;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use tidemill_sql::Result;
use tidemill_sql::name::split_nodes;
use tidemill_sql::statement::ExplainOptions;
use tidemill_sql::types::Type;
use tidemill_stream::front::{Branch, Step};
use tidemill_stream::join::{Join, Kind};

use super::Explain;
use super::expression::{aggregate, text, texts};
use crate::catalog::{Catalog, ContinuousView};

/// From the result down to the streams, as a plan is read.
pub fn lines(catalog: &Catalog, view: &ContinuousView, verbose: bool) -> Result<Vec<String>> {
    let mut lines = vec![format!("Continuous View {}", view.object.name)];
    if verbose {
        let schema = view.table.schema();
        let columns = schema
            .fields()
            .iter()
            .map(|field| Ok(format!("{} {}", field.name(), Type::of_field(field)?.display())));
        lines.push(format!("  Output: {}", columns.collect::<Result<Vec<_>>>()?.join(", ")));
        let options: Vec<_> =
            view.object.options.written.iter().map(|(name, value)| format!("{name}={value}")).collect();
        if !options.is_empty() {
            lines.push(format!("  Options: {}", options.join(", ")));
        }
        lines.push(format!("  Active: {}", view.view.is_active()));
    }
    finish(view, verbose, &mut lines);
    state(view, verbose, &mut lines);
    for branch in &view.view.plan.front.branches {
        front(catalog, branch, verbose, &mut lines);
    }
    counters(view, verbose, &mut lines);
    Ok(lines)
}

/// What runs at a read.
fn finish(view: &ContinuousView, verbose: bool, lines: &mut Vec<String>) {
    let options = ExplainOptions { verbose, costs: false, ..ExplainOptions::default() };
    let explain = Explain { options, views: &|_| None, began: None, nodes: None };
    lines.push("  Finish".into());
    lines.extend(explain.lines(&view.view.plan.finish, 0).into_iter().map(|line| format!("    {line}")));
}

fn state(view: &ContinuousView, verbose: bool, lines: &mut Vec<String>) {
    let plan = &view.view.plan;
    let aggregation = &plan.aggregation;
    let (groups, memory) = view.view.size();
    let (runs, disk) = view.view.on_disk();
    let what = if aggregation.keeps_rows() { "rows" } else { "groups" };
    lines.push(format!(
        "  State: {groups} {what}, {memory} bytes of memory, {disk} bytes of disk in {runs} runs"
    ));
    let keys = &aggregation.keys()[usize::from(aggregation.has_panes() && !aggregation.keeps_rows())..];
    if !keys.is_empty() {
        lines.push(format!("    Group Key: {}", texts(keys)));
    }
    let functions: Vec<_> =
        aggregation.aggregates().map(|(function, filter)| aggregate(function, filter)).collect();
    if !functions.is_empty() {
        lines.push(format!("    Aggregates: {}", functions.join(", ")));
    }
    if let Some(window) = &plan.window {
        let (span, pane) = (seconds(window.span_us()), seconds(window.pane_us()));
        lines.push(format!("    Window: {span} in panes of {pane}"));
    }
    if let Some(ttl) = view.view.time_to_live() {
        let column = aggregation.output_schema();
        let column = column.fields().get(ttl.column).map_or("?", |field| field.name().as_str());
        lines.push(format!("    Time to Live: {} by {column}", seconds(ttl.us)));
    }
    if verbose {
        let schema = aggregation.state_schema();
        let columns = schema.fields().iter().map(|f| format!("{} {}", f.name(), f.data_type()));
        lines.push(format!("    Columns: {}", columns.collect::<Vec<_>>().join(", ")));
    }
}

fn seconds(us: i64) -> String {
    format!("{} s", us as f64 / 1e6)
}

/// What runs at each event.
fn front(catalog: &Catalog, branch: &Branch, verbose: bool, lines: &mut Vec<String>) {
    let streams = catalog.streams();
    let name = streams.iter().find(|stream| stream.id() == branch.stream);
    lines.push(format!("  Front on stream {}", name.map_or("?", |stream| stream.object.name.as_str())));
    if verbose {
        let input = branch.input_schema();
        let columns: Vec<_> = input.fields().iter().map(|field| field.name().as_str()).collect();
        if !columns.is_empty() {
            lines.push(format!("    Columns: {}", columns.join(", ")));
        }
    }
    for (i, step) in branch.steps().iter().enumerate() {
        let before = i.checked_sub(1).and_then(|before| branch.steps().get(before));
        match step {
            Step::Filter { predicate, .. } => lines.push(format!("    Filter: {}", text(predicate))),
            Step::Project { expressions, .. } => lines.push(format!("    Output: {}", texts(expressions))),
            Step::Join(step) => join(&step.join, before, lines),
        }
    }
}

/// The expression behind a column that the step before has computed.
fn computed(expr: &Arc<dyn PhysicalExpr>, before: Option<&Step>) -> Arc<dyn PhysicalExpr> {
    let column = expr.downcast_ref::<Column>();
    let found = column.zip(before).and_then(|(column, step)| match step {
        Step::Project { expressions, .. } => expressions.get(column.index()),
        Step::Filter { .. } | Step::Join(_) => None,
    });
    // Another column has a name that says less.
    Arc::clone(found.filter(|found| !found.is::<Column>()).unwrap_or(expr))
}

/// `before` is the step before it.
fn join(join: &Join, before: Option<&Step>, lines: &mut Vec<String>) {
    let kind = match join.kind {
        Kind::Inner => "Join",
        Kind::Left => "Left Join",
        Kind::Semi => "Semi Join",
        Kind::Anti => "Anti Join",
        Kind::Mark => "Mark Join",
    };
    let relations: Vec<_> = join.joined.relations.iter().map(|name| split_nodes(name).0).collect();
    lines.push(format!("    {kind} with {}", relations.join(", ")));
    let keys = join.keys().iter().map(|(event, row)| {
        format!("{} = {}", text(&computed(event, before)), text(&computed(row, join.prepared())))
    });
    let conditions: Vec<_> = keys.chain(join.conditions().map(text)).collect();
    if !conditions.is_empty() {
        lines.push(format!("      Join Cond: {}", conditions.join(" AND ")));
    }
    lines.push(match join.loaded() {
        Some(loaded) => {
            format!("      Rows: {}, {} bytes of memory", loaded.row_count(), loaded.memory_bytes())
        }
        None => "      Rows: not read yet".into(),
    });
}

/// Since the server started.
fn counters(view: &ContinuousView, verbose: bool, lines: &mut Vec<String>) {
    let stats = &view.view.stats;
    let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Relaxed);
    let (rows, batches) = (count(&stats.input_rows), count(&stats.input_batches));
    lines.push(format!("  Input: {rows} rows in {batches} batches, {} errors", count(&stats.errors)));
    if verbose {
        let milliseconds = |us: u64| us as f64 / 1e3;
        lines.push(format!("  Fold Time: {:.3} ms", milliseconds(count(&stats.fold_us))));
        let (deltas, delta_rows) = (count(&stats.deltas), count(&stats.delta_rows));
        let apply = milliseconds(count(&stats.apply_us));
        lines.push(format!("  Applied: {delta_rows} rows in {deltas} deltas, {apply:.3} ms"));
    }
}
