//! The analyzer rule that turns subqueries, wherever they stand in a select list or a condition, and lateral subqueries
//! into joins (after Neumann and Kemper, "Unnesting Arbitrary Queries"). DataFusion does so for some shapes: those are left to
//! it where a condition is true or not, and null is as good as false.
//!
//! ```text
//! Projection: t.a, (SELECT u.b FROM u WHERE u.x < t.a)
//!   TableScan: t
//! =>
//! Projection: t.a, __result_1.value
//!   Left Join: t.a IS NOT DISTINCT FROM __result_1.c0
//!     TableScan: t
//!     SubqueryAlias: __result_1
//!       Aggregate: groupBy=[c0], aggr=[single_value(u.b)]
//!         Filter: u.x < c0
//!           Cross Join:
//!             __outer_1: the distinct values of t.a, as c0
//!             TableScan: u
//! ```

mod reference;
mod value;

use std::cell::Cell;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, JoinType, NullEquality};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{BinaryExpr, SetComparison};
use datafusion::logical_expr::logical_plan::Subquery;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    Aggregate, Expr, Filter, Join, LogicalPlan, LogicalPlanBuilder, Operator, Projection, Sort, SortExpr, lit,
};
use datafusion::optimizer::analyzer::AnalyzerRule;

use super::apply::{Apply, Domain};
use super::{row_membership, values};
use reference::{has_rewritten, is_anti_join, is_plain, outer_columns, own_columns};

pub(super) use reference::{free_columns, has_subquery, is_constant, is_single, placed, referred, subquery};
use value::with_column;
pub(super) use value::{any_row, unpacked};

#[derive(Debug)]
pub struct CorrelatedSubqueries;

impl AnalyzerRule for CorrelatedSubqueries {
    fn name(&self) -> &str {
        "postgresql_correlated_subqueries"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        Names::default().rewrite(plan, false)
    }
}

/// Makes names for what the rule adds, each once a statement.
#[derive(Default)]
pub(super) struct Names {
    next: Cell<usize>,
}

impl Names {
    pub(super) fn new_name(&self, what: &str) -> String {
        self.next.set(self.next.get() + 1);
        format!("__{what}_{}", self.next.get())
    }

    /// With `all`, nothing that refers to a plan around it is left to DataFusion.
    fn rewrite(&self, plan: LogicalPlan, all: bool) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|plan| match plan {
            LogicalPlan::Projection(projection) => self.projection(projection),
            LogicalPlan::Filter(filter) => self.filter(filter, all),
            LogicalPlan::Aggregate(aggregate) => self.aggregate(aggregate),
            LogicalPlan::Sort(sort) => self.sort(sort),
            LogicalPlan::Values(values) if values.values.iter().flatten().any(has_subquery) => {
                let computed = values::above_rows(values, &self.new_name("row"), has_subquery)?;
                self.projection(computed).map(|plan| Transformed::yes(plan.data))
            }
            LogicalPlan::Join(join) => match has_rewritten(&join.filter, &join.schema) {
                true if join.join_type == JoinType::Inner => self.join_condition(join, all),
                true => self.outer_join(join),
                false => self.lateral(join),
            },
            other => Ok(Transformed::no(other)),
        })
        .map(|transformed| transformed.data)
    }

    fn projection(&self, projection: Projection) -> Result<Transformed<LogicalPlan>> {
        if !has_rewritten(&projection.expr, projection.input.schema()) {
            return Ok(Transformed::no(LogicalPlan::Projection(projection)));
        }
        let mut input = Arc::unwrap_or_clone(Arc::clone(&projection.input));
        let mut exprs = Vec::with_capacity(projection.expr.len());
        for (i, expr) in projection.expr.iter().enumerate() {
            let (relation, field) = projection.schema.qualified_field(i);
            let replaced = self.replace(expr.clone(), &mut input)?;
            exprs.push(if replaced == *expr {
                replaced
            } else {
                replaced.unalias().alias_qualified(relation.cloned(), field.name())
            });
        }
        Ok(Transformed::yes(LogicalPlanBuilder::from(input).project(exprs)?.build()?))
    }

    fn filter(&self, filter: Filter, all: bool) -> Result<Transformed<LogicalPlan>> {
        if !has_subquery(&filter.predicate) {
            return Ok(Transformed::no(LogicalPlan::Filter(filter)));
        }
        // What asks no subquery is asked first: fewer rows have one, and a condition stays with the tables that it joins.
        let waits = |part: &Expr| has_subquery(part) || part.is_volatile();
        let (later, first): (Vec<_>, Vec<_>) =
            split_conjunction_owned(filter.predicate.clone()).into_iter().partition(waits);
        let mut input = Arc::unwrap_or_clone(Arc::clone(&filter.input));
        if let Some(first) = conjunction(first) {
            input = LogicalPlanBuilder::from(input).filter(first)?.build()?;
        }
        let replaced = later.iter().map(|part| match is_anti_join(part) {
            true if !all => Ok(part.clone()),
            _ => self.condition(part.clone(), &mut input, all),
        });
        let replaced = replaced.collect::<Result<Vec<_>>>()?;
        if replaced == later {
            return Ok(Transformed::no(LogicalPlan::Filter(filter)));
        }
        let later = conjunction(replaced).unwrap_or_else(|| lit(true));
        let columns = filter.input.schema().columns().into_iter().map(Expr::Column);
        let plan = LogicalPlanBuilder::from(input).filter(later)?.project(columns)?.build()?;
        Ok(Transformed::yes(plan))
    }

    /// A condition for which null is as good as false. DataFusion makes semi-joins of the subqueries in it that are plain
    /// enough.
    fn condition(&self, expr: Expr, input: &mut LogicalPlan, all: bool) -> Result<Expr> {
        let plain = |subquery: &Subquery| {
            let plan = subquery.subquery.as_ref();
            free_columns(plan).is_empty() || (!all && is_plain(plan))
        };
        match expr {
            Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::And | Operator::Or), right }) => {
                let left = Box::new(self.condition(*left, input, all)?);
                let right = Box::new(self.condition(*right, input, all)?);
                Ok(Expr::BinaryExpr(BinaryExpr { left, op, right }))
            }
            Expr::Not(inner) if matches!(*inner, Expr::Exists(_)) => {
                Ok(Expr::Not(Box::new(self.condition(*inner, input, all)?)))
            }
            Expr::Exists(of) if plain(&of.subquery) => with_column(of).map(Expr::Exists),
            Expr::InSubquery(of) if !of.negated && plain(&of.subquery) => Ok(Expr::InSubquery(of)),
            Expr::SetComparison(of) if !all && row_membership::is(&of) => {
                let tested = Box::new(self.replace(*of.expr, input)?);
                row_membership::exists(SetComparison { expr: tested, ..of }, input.schema())
            }
            other => self.replace(other, input),
        }
    }

    /// What an inner join asks of subqueries is asked of its rows.
    fn join_condition(&self, mut join: Join, all: bool) -> Result<Transformed<LogicalPlan>> {
        let parts = join.filter.take().map(split_conjunction_owned).unwrap_or_default();
        let (later, first): (Vec<_>, Vec<_>) = parts.into_iter().partition(has_subquery);
        join.filter = conjunction(first);
        let Some(later) = conjunction(later) else { return self.lateral(join) };
        let joined = self.lateral(join)?.data;
        let filter = Filter::try_new(later, Arc::new(joined))?;
        self.filter(filter, all).map(|plan| Transformed::yes(plan.data))
    }

    /// The subqueries become columns of the aggregate's input.
    fn aggregate(&self, aggregate: Aggregate) -> Result<Transformed<LogicalPlan>> {
        let input = aggregate.input.schema();
        aggregate.aggr_expr.iter().try_for_each(|call| own_columns(call, input))?;
        let exprs = || aggregate.group_expr.iter().chain(&aggregate.aggr_expr);
        if !has_rewritten(exprs(), aggregate.input.schema()) {
            return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
        }
        let mut input = Arc::unwrap_or_clone(Arc::clone(&aggregate.input));
        let mut named = |expr: Expr| {
            let (relation, name) = expr.qualified_name();
            let replaced = self.replace(expr.clone(), &mut input)?;
            Ok(match replaced == expr {
                true => Transformed::no(expr),
                false => Transformed::yes(replaced.unalias().alias_qualified(relation, name)),
            })
        };
        let replaced = exprs().map(|expr| match expr {
            Expr::GroupingSet(_) => expr.clone().map_children(&mut named),
            expr => named(expr.clone()),
        });
        let mut group = replaced.map(|expr| Ok(expr?.data)).collect::<Result<Vec<_>>>()?;
        let calls = group.split_off(aggregate.group_expr.len());
        // Not by the builder, which groups by what depends on a key, too.
        let aggregate = Aggregate::try_new(Arc::new(input), group, calls)?;
        Ok(Transformed::yes(LogicalPlan::Aggregate(aggregate)))
    }

    /// DataFusion has subqueries in select lists, not in ORDER BY: there they become columns that are dropped after.
    fn sort(&self, sort: Sort) -> Result<Transformed<LogicalPlan>> {
        if !sort.expr.iter().any(|s| has_subquery(&s.expr)) {
            return Ok(Transformed::no(LogicalPlan::Sort(sort)));
        }
        let columns: Vec<Expr> = sort.input.schema().columns().into_iter().map(Expr::Column).collect();
        let mut wide = columns.clone();
        let mut order = Vec::with_capacity(sort.expr.len());
        for SortExpr { expr, asc, nulls_first } in sort.expr {
            let key = if has_subquery(&expr) {
                let name = self.new_name("key");
                wide.push(expr.alias(name.as_str()));
                Expr::Column(Column::new_unqualified(name))
            } else {
                expr
            };
            order.push(key.sort(asc, nulls_first));
        }
        let projection = Projection::try_new(wide, sort.input)?;
        let plan = LogicalPlanBuilder::from(self.projection(projection)?.data)
            .sort_with_limit(order, sort.fetch)?
            .project(columns)?
            .build()?;
        Ok(Transformed::yes(plan))
    }

    /// `FROM t, LATERAL (SELECT …)`.
    pub(super) fn lateral(&self, join: Join) -> Result<Transformed<LogicalPlan>> {
        let (subquery, alias) = match join.right.as_ref() {
            LogicalPlan::Subquery(subquery) => (subquery, None),
            LogicalPlan::SubqueryAlias(alias) => match alias.input.as_ref() {
                LogicalPlan::Subquery(subquery) => (subquery, Some(alias.alias.clone())),
                _ => return Ok(Transformed::no(LogicalPlan::Join(join))),
            },
            _ => return Ok(Transformed::no(LogicalPlan::Join(join))),
        };
        let outer = outer_columns(subquery, join.left.schema());
        if outer.is_empty() || !matches!(join.join_type, JoinType::Inner | JoinType::Left) {
            return Ok(Transformed::no(LogicalPlan::Join(join)));
        }
        let domain = Domain::of(&join.left, &outer, self)?;
        let mut right = self.applied(&domain, &subquery.subquery)?;
        if let Some(alias) = alias {
            right = domain.rename(right, &subquery.subquery, &alias)?;
        }
        let schema = Arc::clone(&join.schema);
        let on = join.on.into_iter().map(|(l, r)| l.eq(r));
        let filter = on.chain(join.filter).reduce(Expr::and);
        let plan = LogicalPlanBuilder::from(Arc::unwrap_or_clone(join.left))
            .join_detailed(
                right,
                join.join_type,
                (outer, domain.columns()),
                filter,
                NullEquality::NullEqualsNull,
            )?
            .project(schema.columns().into_iter().map(Expr::Column))?
            .build()?;
        Ok(Transformed::yes(plan))
    }

    /// The rows of a plan for each of the domain, with no subquery in it that refers to a plan between.
    fn applied(&self, domain: &Domain, plan: &LogicalPlan) -> Result<LogicalPlan> {
        let plan = self.rewrite(plan.clone(), true)?;
        let applied = Apply::new(domain, self).plan(&plan)?;
        // What referred to the domain from further inside refers to the plan around it now.
        self.rewrite(applied, false)
    }
}
