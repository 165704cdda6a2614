//! UPDATE and DELETE as statements that the servers carry out.
//!
//! They are planned as a query of the rows that are meant, with the new values; what each server would be asked for then is
//! what it is told to change.
//!
//! ```text
//! SELECT x * 2 FROM t WHERE y = 1  =>  Projection: x * 2
//!                                        ForeignScan: SELECT x, y … WHERE y = 1  =>  UPDATE … SET x = x * 2 WHERE y = 1
//! ```

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::union::UnionExec;

use crate::cascade::Cascade;
use crate::connector::{Connector, RemoteQuery};
use crate::node::{DeadNodes, Member};
use crate::pushdown::Source;
use crate::returned::columns_of;
use crate::scan::ForeignScanExec;
use crate::select::RemoteSelect;
use crate::table::TableDefinition;

#[derive(Debug, Clone)]
pub enum Verb {
    Delete,
    /// The columns that get the values of the query, by their names here.
    Update(Vec<String>),
}

/// What one server is told.
#[derive(Debug)]
pub struct Change {
    pub server: String,
    pub member: Option<Member>,
    pub dead_nodes: DeadNodes,
    pub table: Arc<TableDefinition>,
    pub connector: Arc<dyn Connector>,
    pub statement: RemoteQuery,
}

impl Change {
    /// As in the column that tells the node.
    pub fn node(&self) -> String {
        self.member.as_ref().map_or_else(|| format!("/{}/", self.server), |member| member.node.clone())
    }

    /// The statement, which gives back the rows that it changes if they are wanted, as rows with these columns.
    pub fn returning(&self, returned: Option<&SchemaRef>, cascade: Option<Arc<Cascade>>) -> RemoteQuery {
        let (columns, definition) = (columns_of(&self.table, returned), Arc::clone(&self.table));
        let mut statement = RemoteQuery { columns, definition, cascade, ..self.statement.clone() };
        if !statement.columns.is_empty() {
            let dialect = self.connector.capabilities().dialect;
            let names: Vec<_> = statement.columns.iter().map(|column| dialect.name(&column.remote)).collect();
            statement.sql += &format!(" RETURNING {}", names.join(", "));
        }
        statement
    }
}

/// The statements that change the rows of a query; `None` if some of the work would have to be done here.
pub fn on_servers(plan: &Arc<dyn ExecutionPlan>, verb: &Verb) -> Option<Vec<Change>> {
    let values = match verb {
        Verb::Delete => 0,
        Verb::Update(columns) => columns.len(),
    };
    let schema = plan.schema();
    let column = |i: usize| Arc::new(Column::new(schema.field(i).name(), i)) as Arc<dyn PhysicalExpr>;
    let sources = (0..values).map(|i| Source::of(&column(i))).collect::<Option<Vec<_>>>()?;
    let mut changes = Vec::new();
    collect(plan, &sources, verb, &mut changes).map(|()| changes)
}

/// Computes the new values that are the same for all rows and are left as they are written because that fails.
pub fn check_constants(plan: &Arc<dyn ExecutionPlan>) -> Result<()> {
    let row = RecordBatchOptions::new().with_row_count(Some(1));
    let row = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), vec![], &row)?;
    plan.apply(|node| {
        let projection = node.downcast_ref::<ProjectionExec>();
        for item in projection.map(ProjectionExec::expr).unwrap_or_default() {
            if collect_columns(&item.expr).is_empty() && !is_volatile(&item.expr) {
                item.expr.evaluate(&row)?;
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

/// `None`: something else than a scan stands for rows.
fn collect(
    plan: &Arc<dyn ExecutionPlan>,
    sources: &[Source],
    verb: &Verb,
    changes: &mut Vec<Change>,
) -> Option<()> {
    if let Some(scan) = plan.downcast_ref::<ForeignScanExec>() {
        changes.push(of_scan(scan, sources, verb)?);
        return Some(());
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let below = sources.iter().map(|source| source.below(projection)).collect::<Option<Vec<_>>>()?;
        return collect(projection.input(), &below, verb, changes);
    }
    if plan.downcast_ref::<UnionExec>().is_some() {
        return plan.children().into_iter().try_for_each(|side| collect(side, sources, verb, changes));
    }
    // A condition that no row of this node fulfils.
    if plan.downcast_ref::<EmptyExec>().is_some() {
        return Some(());
    }
    match (plan.name(), plan.children().as_slice()) {
        (
            "CooperativeExec" | "CoalescePartitionsExec" | "RepartitionExec" | "CoalesceBatchesExec",
            [below],
        ) => collect(below, sources, verb, changes),
        _ => None,
    }
}

fn of_scan(scan: &ForeignScanExec, sources: &[Source], verb: &Verb) -> Option<Change> {
    let select = scan.select();
    if !select.is_of_rows() || select.joined.is_some() {
        return None;
    }
    let capabilities = scan.capabilities();
    let relation = select.relation(capabilities.dialect);
    let mut sql = match verb {
        Verb::Delete => format!("DELETE FROM {relation}"),
        Verb::Update(columns) => {
            if !capabilities.dialect.assigns_at_once() && reads_assigned(select, columns, sources) {
                return None;
            }
            let assigned = columns.iter().zip(sources).map(|(name, source)| {
                let column = select.table.columns.iter().find(|column| column.name == *name)?;
                if select.facts.years.contains(&column.remote) && !is_kept_as_year(source) {
                    return None;
                }
                let value = match source {
                    Source::Constant(value) if value.data_type() == column.ty.arrow() => {
                        capabilities.dialect.assigned(value, column)?
                    }
                    source => select.value(source, column.ty, capabilities)?,
                };
                Some(format!("{} = {value}", capabilities.dialect.name(&column.remote)))
            });
            let assigned = assigned.collect::<Option<Vec<_>>>()?;
            format!("UPDATE {relation} SET {}", assigned.join(", "))
        }
    };
    if !select.conditions.is_empty() {
        sql += &format!(" WHERE {}", select.conditions.join(" AND "));
    }
    Some(Change {
        server: scan.server().to_string(),
        member: scan.member().cloned(),
        dead_nodes: scan.dead_nodes(),
        table: Arc::clone(&select.table),
        connector: Arc::clone(scan.connector()),
        statement: RemoteQuery { sql, table: select.table.name.clone(), relation, ..RemoteQuery::default() },
    })
}

/// Whether a column of years keeps this as the number that it is.
fn is_kept_as_year(source: &Source) -> bool {
    let Source::Constant(value) = source else { return false };
    let year = value.cast_to(&DataType::Int64);
    year.is_ok_and(|year| !matches!(year, ScalarValue::Int64(Some(1..=99))))
}

/// Whether a new value is made of a column that gets one itself, further to the left.
fn reads_assigned(select: &RemoteSelect, assigned: &[String], sources: &[Source]) -> bool {
    let reads = |source: &Source, name: &String| match source {
        Source::Column { index, .. } => select.items.get(*index).is_none_or(|item| item.column.name == *name),
        Source::Constant(_) => false,
        Source::Expression { .. } => true,
    };
    sources.iter().enumerate().any(|(i, source)| assigned[..i].iter().any(|name| reads(source, name)))
}
