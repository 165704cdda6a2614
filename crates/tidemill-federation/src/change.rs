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
use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::union::UnionExec;
use futures::future::try_join_all;
use tidemill_sql::SqlError;

use crate::cascade::Cascade;
use crate::connector::{Assigned, Assignment, Connector, RemoteQuery};
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

/// Why a statement cannot be left to the servers.
#[derive(Debug)]
pub enum Obstacle {
    /// The rows of one of them cannot be changed.
    Server(SqlError),
    /// Rows have to be filtered here.
    Condition,
    /// The new value of this column is another one on this server.
    Value { column: String, server: String, is_constant: bool },
}

/// The statements that change the rows of a query of this table; none if some of the work would have to be done here.
pub fn on_servers(
    plan: &Arc<dyn ExecutionPlan>,
    table: &str,
    verb: &Verb,
) -> std::result::Result<Vec<Change>, Obstacle> {
    if let Some(refusal) = refusal(plan, table) {
        return Err(Obstacle::Server(refusal));
    }
    let values = match verb {
        Verb::Delete => 0,
        Verb::Update(columns) => columns.len(),
    };
    let schema = plan.schema();
    let column = |i: usize| Source::Column { index: i, keyed: false };
    let sources: Vec<_> = (0..values.min(schema.fields().len())).map(column).collect();
    let mut changes = Vec::new();
    collect(plan, &sources, verb, &mut changes).map(|()| changes)
}

/// Why the rows of one of the servers that are asked cannot be changed.
fn refusal(plan: &Arc<dyn ExecutionPlan>, table: &str) -> Option<SqlError> {
    if let Some(scan) = plan.downcast_ref::<ForeignScanExec>() {
        let connector = scan.connector();
        let is_meant = scan.member().map_or(scan.table(), |member| &member.table) == table;
        if !is_meant || connector.changes_rows() {
            return None;
        }
        let message = match connector.is_writable() {
            true => "rows of foreign tables of this kind of server are only added",
            false => "foreign tables of this kind of server are only read",
        };
        let (name, server) = (scan.table(), scan.server());
        let error = SqlError::unsupported(message)
            .with_detail(format!("Foreign table \"{name}\" is on server \"{server}\"."));
        return Some(match scan.member() {
            Some(_) => error.with_hint(format!("Name the nodes that are meant: {table} IN ('/node/').")),
            None => error,
        });
    }
    plan.children().into_iter().find_map(|below| refusal(below, table))
}

/// An error if a column that gets a value is of another type there, as far as its server tells.
pub async fn check_assigned(changes: &[Change]) -> tidemill_sql::Result<()> {
    let checks = changes.iter().map(|change| async {
        let is_assigned =
            |name: &str| change.statement.assigned.iter().any(|assigned| assigned.column.name == name);
        let columns = change.table.columns.iter().enumerate();
        let used: Vec<_> =
            columns.filter(|(_, column)| is_assigned(&column.name)).map(|(place, _)| place).collect();
        match used.is_empty() {
            true => Ok(()),
            false => change.connector.facts(&change.table, &used).await.map(|_| ()),
        }
    });
    try_join_all(checks).await.map(|_| ())
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

fn collect(
    plan: &Arc<dyn ExecutionPlan>,
    sources: &[Source],
    verb: &Verb,
    changes: &mut Vec<Change>,
) -> std::result::Result<(), Obstacle> {
    if let Some(scan) = plan.downcast_ref::<ForeignScanExec>() {
        changes.push(of_scan(scan, sources, verb)?);
        return Ok(());
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        let below = sources.iter().map(|source| source.below(projection)).collect::<Option<Vec<_>>>();
        return collect(projection.input(), &below.ok_or(Obstacle::Condition)?, verb, changes);
    }
    if plan.downcast_ref::<UnionExec>().is_some() {
        return plan.children().into_iter().try_for_each(|side| collect(side, sources, verb, changes));
    }
    // A condition that no row of this node fulfils.
    if plan.downcast_ref::<EmptyExec>().is_some() {
        return Ok(());
    }
    match (plan.name(), plan.children().as_slice()) {
        (
            "CooperativeExec" | "CoalescePartitionsExec" | "RepartitionExec" | "CoalesceBatchesExec",
            [below],
        ) => collect(below, sources, verb, changes),
        // Something else than a scan stands for rows.
        _ => Err(Obstacle::Condition),
    }
}

fn of_scan(scan: &ForeignScanExec, sources: &[Source], verb: &Verb) -> std::result::Result<Change, Obstacle> {
    let select = scan.select();
    if !select.is_of_rows() || select.joined.is_some() {
        return Err(Obstacle::Condition);
    }
    let dialect = scan.capabilities().dialect;
    let relation = select.relation(dialect);
    let mut assigned = Vec::new();
    let mut sql = match verb {
        Verb::Delete => format!("DELETE FROM {relation}"),
        Verb::Update(columns) => {
            let mut written = Vec::with_capacity(columns.len());
            for place in 0..columns.len() {
                let Some((sql, new)) = assignment(scan, columns, sources, place) else {
                    let is_constant = matches!(sources.get(place), Some(Source::Constant(_)));
                    let (column, server) = (columns[place].clone(), scan.server().to_string());
                    return Err(Obstacle::Value { column, server, is_constant });
                };
                written.push(sql);
                assigned.push(new);
            }
            format!("UPDATE {relation} SET {}", written.join(", "))
        }
    };
    if !select.conditions.is_empty() {
        sql += &format!(" WHERE {}", select.conditions.join(" AND "));
    }
    Ok(Change {
        server: scan.server().to_string(),
        member: scan.member().cloned(),
        dead_nodes: scan.dead_nodes(),
        table: Arc::clone(&select.table),
        connector: Arc::clone(scan.connector()),
        statement: RemoteQuery {
            sql,
            table: select.table.name.clone(),
            relation,
            definition: Arc::clone(&select.table),
            assigned,
            ..RemoteQuery::default()
        },
    })
}

/// The new value of one of the columns that get one; `None`: it is not the same there.
fn assignment(
    scan: &ForeignScanExec,
    columns: &[String],
    sources: &[Source],
    place: usize,
) -> Option<(String, Assignment)> {
    let (select, capabilities) = (scan.select(), scan.capabilities());
    let (source, dialect) = (sources.get(place)?, capabilities.dialect);
    if !dialect.assigns_at_once() && reads_one_of(select, source, &columns[..place]) {
        return None;
    }
    let column = select.table.columns.iter().find(|column| column.name == columns[place])?;
    let is_constant = matches!(source, Source::Constant(_));
    if select.facts.years.contains(&column.remote) && !is_constant {
        return None;
    }
    let value = match source {
        Source::Constant(value) if value.data_type() == column.ty.arrow() => {
            dialect.assigned(value, column)?
        }
        source => select.value(source, column.ty, capabilities)?,
    };
    let assigned = match source {
        Source::Constant(value) => Assigned::Constant(value.clone()),
        Source::Column { index, .. } => Assigned::Column(select.items.get(*index)?.column.clone()),
        Source::Expression { .. } => Assigned::Expression,
    };
    let assignment = Assignment { column: column.remote_column(), value: assigned };
    Some((format!("{} = {value}", dialect.name(&column.remote)), assignment))
}

/// Whether a new value is made of a column that gets one itself, further to the left.
fn reads_one_of(select: &RemoteSelect, source: &Source, assigned: &[String]) -> bool {
    match source {
        Source::Column { index, .. } => {
            select.items.get(*index).is_none_or(|item| assigned.contains(&item.column.name))
        }
        Source::Constant(_) => false,
        Source::Expression { .. } => !assigned.is_empty(),
    }
}
