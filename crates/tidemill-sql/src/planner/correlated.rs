//! The analyzer rule that turns correlated scalar subqueries, wherever they stand in a select list or a condition, and
//! lateral subqueries into joins. DataFusion does so for some shapes; here the rule is general, as PostgreSQL's users
//! expect (after Neumann and Kemper, "Unnesting Arbitrary Queries").
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

use std::cell::Cell;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, ExprSchema, JoinType, NullEquality, ScalarValue};
use datafusion::error::Result;
use datafusion::functions_aggregate::expr_fn::{bool_or, count};
use datafusion::logical_expr::expr::{AggregateFunction, InSubquery};
use datafusion::logical_expr::logical_plan::Subquery;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    Distinct, Expr, Filter, Join, LogicalPlan, LogicalPlanBuilder, Projection, Sort, SortExpr, lit, when,
};
use datafusion::optimizer::analyzer::AnalyzerRule;

use super::apply::{Apply, Domain};
use super::single_value;

#[derive(Debug)]
pub struct CorrelatedSubqueries;

impl AnalyzerRule for CorrelatedSubqueries {
    fn name(&self) -> &str {
        "postgresql_correlated_subqueries"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let names = Names::default();
        plan.transform_up_with_subqueries(|plan| match plan {
            LogicalPlan::Projection(projection) => names.projection(projection),
            LogicalPlan::Filter(filter) => names.filter(filter),
            LogicalPlan::Sort(sort) => names.sort(sort),
            LogicalPlan::Join(join) => names.lateral(join),
            other => Ok(Transformed::no(other)),
        })
        .map(|transformed| transformed.data)
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

    fn projection(&self, projection: Projection) -> Result<Transformed<LogicalPlan>> {
        if !projection.expr.iter().any(|e| has_correlated(e, projection.input.as_ref(), true)) {
            return Ok(Transformed::no(LogicalPlan::Projection(projection)));
        }
        let mut input = Arc::unwrap_or_clone(Arc::clone(&projection.input));
        let mut exprs = Vec::with_capacity(projection.expr.len());
        for (i, expr) in projection.expr.iter().enumerate() {
            let (relation, field) = projection.schema.qualified_field(i);
            let replaced = self.replace(expr.clone(), &mut input, true)?;
            exprs.push(if replaced == *expr {
                replaced
            } else {
                replaced.unalias().alias_qualified(relation.cloned(), field.name())
            });
        }
        Ok(Transformed::yes(LogicalPlanBuilder::from(input).project(exprs)?.build()?))
    }

    fn filter(&self, filter: Filter) -> Result<Transformed<LogicalPlan>> {
        if !has_correlated(&filter.predicate, filter.input.as_ref(), false) {
            return Ok(Transformed::no(LogicalPlan::Filter(filter)));
        }
        let columns: Vec<Expr> = filter.input.schema().columns().into_iter().map(Expr::Column).collect();
        let mut input = Arc::unwrap_or_clone(filter.input);
        // What asks no subquery is asked first: fewer rows have one, and a condition stays with the tables that it joins.
        let waits = |part: &Expr| has_subquery(part) || part.is_volatile();
        let (later, first): (Vec<_>, Vec<_>) =
            split_conjunction_owned(filter.predicate).into_iter().partition(waits);
        if let Some(first) = conjunction(first) {
            input = LogicalPlanBuilder::from(input).filter(first)?.build()?;
        }
        let later = later.into_iter().map(|part| self.replace(part, &mut input, false));
        let later = conjunction(later.collect::<Result<Vec<_>>>()?).unwrap_or_else(|| lit(true));
        let plan = LogicalPlanBuilder::from(input).filter(later)?.project(columns)?.build()?;
        Ok(Transformed::yes(plan))
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
    fn lateral(&self, join: Join) -> Result<Transformed<LogicalPlan>> {
        let (subquery, alias) = match join.right.as_ref() {
            LogicalPlan::Subquery(subquery) => (subquery, None),
            LogicalPlan::SubqueryAlias(alias) => match alias.input.as_ref() {
                LogicalPlan::Subquery(subquery) => (subquery, Some(alias.alias.clone())),
                _ => return Ok(Transformed::no(LogicalPlan::Join(join))),
            },
            _ => return Ok(Transformed::no(LogicalPlan::Join(join))),
        };
        let outer = outer_columns(subquery, &join.left);
        if outer.is_empty() || !matches!(join.join_type, JoinType::Inner | JoinType::Left) {
            return Ok(Transformed::no(LogicalPlan::Join(join)));
        }
        let domain = Domain::of(&join.left, &outer, self)?;
        let mut right = Apply::new(&domain, self).plan(&subquery.subquery)?;
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

    /// The expression with its correlated subqueries as columns, which are joined to the input. EXISTS in a condition
    /// is left to DataFusion, which makes semi-joins of it.
    fn replace(&self, expr: Expr, input: &mut LogicalPlan, exists: bool) -> Result<Expr> {
        let replaced = expr.transform_down(|expr| match &expr {
            Expr::ScalarSubquery(subquery) => match self.join_value(subquery, input)? {
                Some(value) => Ok(Transformed::yes(value)),
                None => Ok(Transformed::no(expr)),
            },
            Expr::Exists(exists_of) if exists => match self.join_match(&exists_of.subquery, input)? {
                Some(found) if exists_of.negated => Ok(Transformed::yes(found.is_null())),
                Some(found) => Ok(Transformed::yes(found.is_not_null())),
                None => Ok(Transformed::no(expr)),
            },
            Expr::InSubquery(of) if exists => {
                let value = self.membership(of, input)?;
                Ok(Transformed::yes(if of.negated { Expr::Not(Box::new(value)) } else { value }))
            }
            _ => Ok(Transformed::no(expr)),
        })?;
        Ok(replaced.data)
    }

    /// Joins the one value that the subquery has for each row of the input.
    fn join_value(&self, subquery: &Subquery, input: &mut LogicalPlan) -> Result<Option<Expr>> {
        let outer = outer_columns(subquery, input);
        if outer.is_empty() {
            return Ok(None);
        }
        let domain = Domain::of(input, &outer, self)?;
        let apply = Apply::new(&domain, self);
        let plan = subquery.subquery.as_ref();
        let values = match is_single(plan) {
            true => apply.plan(plan)?,
            false => {
                let applied = apply.plan(plan)?;
                let value = Expr::Column(Column::from(plan.schema().qualified_field(0)));
                let call =
                    AggregateFunction::new_udf(single_value::udaf(), vec![value], false, None, vec![], None);
                let group = domain.columns().into_iter().map(Expr::Column);
                let call = Expr::AggregateFunction(call).alias("value");
                LogicalPlanBuilder::from(applied).aggregate(group, [call])?.build()?
            }
        };
        let place = values.schema().fields().len() - 1;
        let value = match is_single(plan) {
            true => Column::from(plan.schema().qualified_field(0)),
            false => Column::from(values.schema().qualified_field(place)),
        };
        self.join(input, &outer, &domain, values, Expr::Column(value)).map(Some)
    }

    /// `x IN (SELECT y …)` as a value: true if some y is x, else null if some y or x is not known, else false.
    ///
    /// ```text
    /// (SELECT CASE WHEN count(*) = 0 THEN false WHEN bool_or(y = x) THEN true
    ///              WHEN count(y = x) < count(*) THEN NULL ELSE false END FROM …)
    /// ```
    fn membership(&self, of: &InSubquery, input: &mut LogicalPlan) -> Result<Expr> {
        let mut outer = of.subquery.outer_ref_columns.clone();
        let schema = Arc::clone(input.schema());
        let tested = of.expr.as_ref().clone().transform_up(|expr| match expr {
            Expr::Column(column) => {
                let field = Arc::clone(schema.field_from_column(&column)?);
                let reference = Expr::OuterReferenceColumn(field, column);
                outer.push(reference.clone());
                Ok(Transformed::yes(reference))
            }
            other => Ok(Transformed::no(other)),
        })?;
        let plan = of.subquery.subquery.as_ref().clone();
        let item = Expr::Column(Column::from(plan.schema().qualified_field(0)));
        let column = |name: &str| Expr::Column(Column::new_unqualified(name));
        let (rows, found, known) = (column("__rows"), column("__found"), column("__known"));
        let answer = when(rows.clone().eq(lit(0_i64)), lit(false))
            .when(found, lit(true))
            .when(known.lt(rows), lit(ScalarValue::Boolean(None)))
            .otherwise(lit(false))?;
        let plan = LogicalPlanBuilder::from(plan)
            .project([item.eq(tested.data).alias("__equal")])?
            .aggregate(
                Vec::<Expr>::new(),
                [
                    count(lit(1_i64)).alias("__rows"),
                    bool_or(column("__equal")).alias("__found"),
                    count(column("__equal")).alias("__known"),
                ],
            )?
            .project([answer.alias("__answer")])?
            .build()?;
        let spans = of.subquery.spans.clone();
        let subquery = Subquery { subquery: Arc::new(plan), outer_ref_columns: outer, spans };
        match self.join_value(&subquery, input)? {
            Some(value) => Ok(value),
            None => Ok(Expr::ScalarSubquery(subquery)),
        }
    }

    /// Joins a value that is not null for the rows that the subquery has a row for.
    fn join_match(&self, subquery: &Subquery, input: &mut LogicalPlan) -> Result<Option<Expr>> {
        let outer = outer_columns(subquery, input);
        if outer.is_empty() {
            return Ok(None);
        }
        let domain = Domain::of(input, &outer, self)?;
        let applied = Apply::new(&domain, self).plan(&subquery.subquery)?;
        let keys = domain.columns().into_iter().map(Expr::Column);
        let matched = LogicalPlanBuilder::from(applied).project(keys)?.build()?;
        let matched = LogicalPlan::Distinct(Distinct::All(Arc::new(matched)));
        self.join(input, &outer, &domain, matched, lit(true)).map(Some)
    }

    fn join(
        &self,
        input: &mut LogicalPlan,
        outer: &[Column],
        domain: &Domain,
        values: LogicalPlan,
        value: Expr,
    ) -> Result<Expr> {
        let name = self.new_name("result");
        let mut exprs: Vec<Expr> = domain.columns().into_iter().map(Expr::Column).collect();
        exprs.push(value.alias("value"));
        let right = LogicalPlanBuilder::from(values).project(exprs)?.alias(name.as_str())?.build()?;
        let keys: Vec<Column> =
            domain.columns().into_iter().map(|c| Column::new(Some(name.as_str()), c.name)).collect();
        let left = std::mem::take(input);
        *input = LogicalPlanBuilder::from(left)
            .join_detailed(right, JoinType::Left, (outer.to_vec(), keys), None, NullEquality::NullEqualsNull)?
            .build()?;
        Ok(Expr::Column(Column::new(Some(name), "value")))
    }
}

fn has_subquery(expr: &Expr) -> bool {
    let is_subquery = |e: &Expr| {
        matches!(e, Expr::ScalarSubquery(_) | Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_))
    };
    expr.exists(|e| Ok(is_subquery(e))).unwrap_or(false)
}

/// Whether the plan has one row for each value of its outer columns, or less.
fn is_single(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::Projection(projection) => is_single(&projection.input),
        LogicalPlan::Filter(filter) => is_single(&filter.input),
        LogicalPlan::SubqueryAlias(alias) => is_single(&alias.input),
        LogicalPlan::EmptyRelation(_) => true,
        _ => false,
    }
}

/// The columns of the input that the subquery refers to.
fn outer_columns(subquery: &Subquery, input: &LogicalPlan) -> Vec<Column> {
    let mut columns = Vec::new();
    for expr in &subquery.outer_ref_columns {
        if let Expr::OuterReferenceColumn(_, column) = expr
            && input.schema().has_column(column)
            && !columns.contains(column)
        {
            columns.push(column.clone());
        }
    }
    columns
}

fn has_correlated(expr: &Expr, input: &LogicalPlan, exists: bool) -> bool {
    let correlated = |expr: &Expr| match expr {
        Expr::ScalarSubquery(subquery) => !outer_columns(subquery, input).is_empty(),
        Expr::Exists(of) if exists => !outer_columns(&of.subquery, input).is_empty(),
        Expr::InSubquery(_) => exists,
        _ => false,
    };
    expr.exists(|expr| Ok(correlated(expr))).unwrap_or(false)
}
