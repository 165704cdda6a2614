//! Aggregates: each server folds its rows into partial states, which are merged and finished here.
//!
//! ```text
//! Aggregate(Final): g, avg(x)          Aggregate(Final): g, avg(x)
//!   Aggregate(Partial): g, avg(x)  =>    Union
//!     Union                                ForeignScan: SELECT g, coalesce(sum(x), 0), count(x) … GROUP BY 1
//!       ForeignScan: SELECT g, x
//! ```
//!
//! What a state consists of is told by the aggregates of `tidemill-sql`. A side of the union that cannot do that is folded
//! here.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use tidemill_sql::types::{Scalar, Type};

use super::{Pushdown, Source, Target, push};
use crate::connector::RemoteColumn;
use crate::scan::{ForeignScanExec, RemoteAggregate};

#[derive(Debug)]
pub struct PartialAggregates;

impl PhysicalOptimizerRule for PartialAggregates {
    fn name(&self) -> &str {
        "foreign_partial_aggregates"
    }

    fn schema_check(&self) -> bool {
        true
    }

    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        options: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if !Pushdown::of(options).aggregates {
            return Ok(plan);
        }
        plan.transform_up(|plan| {
            let pushed = match plan.downcast_ref::<AggregateExec>() {
                Some(aggregate) => pushed(aggregate)?,
                None => None,
            };
            Ok(pushed.map_or_else(|| Transformed::no(plan), Transformed::yes))
        })
        .data()
    }
}

fn pushed(aggregate: &AggregateExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let is_single = match aggregate.mode() {
        AggregateMode::Partial => false,
        AggregateMode::Single => true,
        _ => return Ok(None),
    };
    let group = aggregate.group_expr();
    let is_filtered = aggregate.filter_expr().iter().any(Option::is_some);
    if group.has_grouping_set() || is_filtered || !aggregate.aggr_expr().iter().all(|call| is_known(call)) {
        return Ok(None);
    }
    let arguments = aggregate.aggr_expr().iter().map(|call| call.expressions());
    let exprs: Vec<_> =
        group.expr().iter().map(|(key, _)| Arc::clone(key)).chain(arguments.flatten()).collect();
    let Some(sources) = exprs.iter().map(Source::of).collect::<Option<Vec<_>>>() else { return Ok(None) };
    let states = Arc::new(partial(aggregate, aggregate.input())?);
    let target = States { aggregate, keys: group.expr().len(), schema: states.schema() };
    let Some(pushed) = push(aggregate.input(), &sources, &target)? else { return Ok(None) };
    if !is_single {
        return Ok(Some(pushed));
    }
    if pushed.output_partitioning().partition_count() != 1 {
        return Ok(None);
    }
    let finished = AggregateExec::try_new(
        AggregateMode::Final,
        group.as_final(),
        aggregate.aggr_expr().to_vec(),
        vec![None; aggregate.aggr_expr().len()],
        pushed,
        aggregate.input_schema(),
    )?;
    Ok(Some(Arc::new(finished.with_limit_options(aggregate.limit_options()))))
}

/// The partial states of other rows, folded here.
pub(super) fn partial(aggregate: &AggregateExec, input: &Arc<dyn ExecutionPlan>) -> Result<AggregateExec> {
    AggregateExec::try_new(
        AggregateMode::Partial,
        aggregate.group_expr().clone(),
        aggregate.aggr_expr().to_vec(),
        aggregate.filter_expr().to_vec(),
        Arc::clone(input),
        aggregate.input_schema(),
    )
}

/// One argument, each of its values as often as it comes, in any order.
pub(super) fn is_known(call: &AggregateFunctionExpr) -> bool {
    let known = ["count", "sum", "avg", "min", "max"].contains(&call.fun().name());
    known && !call.is_distinct() && call.order_bys().is_empty() && call.expressions().len() == 1
}

pub(super) struct States<'a> {
    pub aggregate: &'a AggregateExec,
    pub keys: usize,
    /// Of the keys and the states.
    pub schema: SchemaRef,
}

impl Target for States<'_> {
    fn scan(&self, scan: &ForeignScanExec, sources: &[Source]) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let select = scan.select();
        if select.limit.is_some() || select.aggregate.is_some() {
            return Ok(None);
        }
        let Some(items) = self.items(scan, sources) else { return Ok(None) };
        // A state that consists of something else is made here.
        let types = items.iter().map(|(_, column)| column.ty.arrow());
        if !types.eq(self.schema.fields().iter().map(|field| field.data_type().clone())) {
            return Ok(None);
        }
        let mut select = select.clone();
        select.aggregate = Some(RemoteAggregate { keys: self.keys, items });
        Ok(Some(Arc::new(scan.with_select(select, Arc::clone(&self.schema)))))
    }

    fn other(&self, plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(partial(self.aggregate, plan)?))
    }

    fn keeps_projections(&self) -> bool {
        false
    }
}

type Item = (String, RemoteColumn);

impl States<'_> {
    /// What the server is to select, column by column.
    fn items(&self, scan: &ForeignScanExec, sources: &[Source]) -> Option<Vec<Item>> {
        let (keys, arguments) = sources.split_at(self.keys);
        let mut items = Vec::with_capacity(self.schema.fields().len());
        for (i, key) in keys.iter().enumerate() {
            items.push(match key {
                Source::Column { index, keyed: false } => scan.select().key(*index, scan.capabilities())?,
                Source::Constant(value) => {
                    let ty = Type::of_field(self.schema.field(i)).ok()?;
                    (scan.capabilities().dialect.literal(value, ty)?, column(self.schema.field(i).name(), ty))
                }
                Source::Expression(expr) => {
                    let key = scan.select().writer(scan.capabilities()).key(expr)?;
                    let sql = scan.capabilities().dialect.grouped(&key);
                    (sql, column(self.schema.field(i).name(), key.ty))
                }
                Source::Column { .. } => return None,
            });
        }
        for (call, argument) in self.aggregate.aggr_expr().iter().zip(arguments) {
            items.extend(state(call.fun().name(), scan, argument)?);
        }
        Some(items)
    }
}

fn column(name: &str, ty: Type) -> RemoteColumn {
    RemoteColumn { name: name.to_string(), ty, remote: name.to_string() }
}

/// The columns of the state of an aggregate.
fn state(function: &str, scan: &ForeignScanExec, argument: &Source) -> Option<Vec<Item>> {
    let of = |sql: String, scalar| (sql, column(function, Type::new(scalar)));
    if let Source::Constant(value) = argument
        && function == "count"
        && !value.is_null()
    {
        let is_known = scan.capabilities().aggregates.iter().any(|known| known.name == function);
        return is_known.then(|| vec![of("count(*)".into(), Scalar::Int8)]);
    }
    let x = scan.select().operand(argument, scan.capabilities())?;
    let (ty, dialect) = (x.ty, scan.capabilities().dialect);
    if !scan.capabilities().aggregates(function, ty) {
        return None;
    }
    let count = || of(format!("count({})", x.sql), Scalar::Int8);
    Some(match (function, ty.scalar) {
        ("count", _) => vec![count()],
        ("sum", Scalar::Int2 | Scalar::Int4) => {
            // An overflow is an error there already.
            vec![of(dialect.integer_sum(&x), Scalar::Int8), of("false".into(), Scalar::Bool)]
        }
        ("avg", Scalar::Int2 | Scalar::Int4) => {
            vec![of(format!("coalesce({}, 0)", dialect.integer_sum(&x)), Scalar::Int8), count()]
        }
        ("sum" | "avg", Scalar::Float4 | Scalar::Float8) => {
            let (sum, infinite) = dialect.float_sum(&x);
            vec![of(format!("coalesce({sum}, 0)"), Scalar::Float8), count(), of(infinite, Scalar::Bool)]
        }
        ("min" | "max", _) => {
            let value = dialect.extreme(function, &x);
            match ty.scalar {
                // The state has no zone.
                Scalar::Timestamptz => vec![of(value, Scalar::Timestamp)],
                _ => vec![(value, column(function, ty.with_typmod(-1)))],
            }
        }
        _ => return None,
    })
}
