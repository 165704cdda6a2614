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

use std::cell::Cell;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, ExprSchema, JoinType, NullEquality, ScalarValue};
use datafusion::error::Result;
use datafusion::functions_aggregate::expr_fn::{bool_or, count};
use datafusion::logical_expr::expr::{
    AggregateFunction, BinaryExpr, InSubquery, SetComparison, SetQuantifier,
};
use datafusion::logical_expr::logical_plan::Subquery;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    Aggregate, Distinct, Expr, Filter, Join, LogicalPlan, LogicalPlanBuilder, Operator, Projection, Sort,
    SortExpr, lit, when,
};
use datafusion::optimizer::analyzer::AnalyzerRule;

use super::apply::{Apply, Domain};
use super::{marker, row_membership, single_value, values};
use crate::function::Key;

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
            LogicalPlan::Join(join) => {
                match has_rewritten(join.filter.iter(), &join.left) && join.join_type == JoinType::Inner {
                    true => self.join_condition(join, all),
                    false => self.lateral(join),
                }
            }
            other => Ok(Transformed::no(other)),
        })
        .map(|transformed| transformed.data)
    }

    fn projection(&self, projection: Projection) -> Result<Transformed<LogicalPlan>> {
        if !has_rewritten(&projection.expr, &projection.input) {
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
            Expr::Exists(of) if plain(&of.subquery) => Ok(Expr::Exists(of)),
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
        let exprs = || aggregate.group_expr.iter().chain(&aggregate.aggr_expr);
        if !has_rewritten(exprs(), &aggregate.input) {
            return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
        }
        let mut input = Arc::unwrap_or_clone(Arc::clone(&aggregate.input));
        let replaced = exprs().map(|expr| {
            let (relation, name) = expr.qualified_name();
            let replaced = self.replace(expr.clone(), &mut input)?;
            Ok(if replaced == *expr { replaced } else { replaced.unalias().alias_qualified(relation, name) })
        });
        let mut group = replaced.collect::<Result<Vec<_>>>()?;
        let calls = group.split_off(aggregate.group_expr.len());
        Ok(Transformed::yes(LogicalPlanBuilder::from(input).aggregate(group, calls)?.build()?))
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

    /// The expression with its subqueries as columns, which are joined to the input; but not those that have one value.
    fn replace(&self, expr: Expr, input: &mut LogicalPlan) -> Result<Expr> {
        let replaced = expr.transform_down(|expr| match &expr {
            Expr::ScalarSubquery(subquery) => match self.join_value(subquery, input)? {
                Some(value) => Ok(Transformed::yes(value)),
                None => Ok(Transformed::no(expr)),
            },
            Expr::Exists(exists_of) => match self.join_match(&exists_of.subquery, input)? {
                Some(found) if exists_of.negated => Ok(Transformed::yes(found.is_null())),
                Some(found) => Ok(Transformed::yes(found.is_not_null())),
                None => Ok(Transformed::no(expr)),
            },
            Expr::InSubquery(of) => {
                let tested = Box::new(self.replace(of.expr.as_ref().clone(), input)?);
                let of = InSubquery { expr: tested, ..of.clone() };
                let value = match free_columns(&of.subquery.subquery).is_empty() {
                    true => self.membership(&of, input)?,
                    false => self.comparison(&equal_any(&of), input)?,
                };
                Ok(Transformed::yes(if of.negated { Expr::Not(Box::new(value)) } else { value }))
            }
            Expr::SetComparison(of) => {
                let tested = Box::new(self.replace(of.expr.as_ref().clone(), input)?);
                let of = SetComparison { expr: tested, ..of.clone() };
                Ok(Transformed::yes(self.comparison(&of, input)?))
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
        let plan = subquery.subquery.as_ref();
        let values = match is_single(plan) {
            true => self.applied(&domain, plan)?,
            false => {
                let applied = self.applied(&domain, plan)?;
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

    /// `x op ANY (SELECT y …)` as a value: true if some comparison is, else null if one is null, else false. ALL is what is
    /// left when some comparison is false.
    ///
    /// ```text
    /// (SELECT CASE WHEN bool_or(x op y) THEN true WHEN count(x op y) < count(*) THEN NULL ELSE false END FROM …)
    /// ```
    fn comparison(&self, of: &SetComparison, input: &mut LogicalPlan) -> Result<Expr> {
        let mut outer = of.subquery.outer_ref_columns.clone();
        let tested = referred(of.expr.as_ref().clone(), input.schema(), &mut outer)?;
        let (plan, items) = unpacked(of.subquery.subquery.as_ref())?;
        let compared = marker::unpack(tested)
            .into_iter()
            .zip(items)
            .map(|(x, y)| Expr::BinaryExpr(BinaryExpr::new(Box::new(x), of.op, Box::new(y))));
        let of_rows = if of.op == Operator::NotEq { Expr::or } else { Expr::and };
        let compared = compared.reduce(of_rows).unwrap_or_else(|| lit(true));
        let is_all = of.quantifier == SetQuantifier::All;
        let compared = if is_all { Expr::Not(Box::new(compared)) } else { compared };
        let column = |name: &str| Expr::Column(Column::new_unqualified(name));
        let (rows, found, known) = (column("__rows"), column("__found"), column("__known"));
        let answer = when(rows.clone().eq(lit(0_i64)), lit(is_all))
            .when(found, lit(!is_all))
            .when(known.lt(rows), lit(ScalarValue::Boolean(None)))
            .otherwise(lit(is_all))?;
        let plan = LogicalPlanBuilder::from(plan)
            .project([compared.alias("__compared")])?
            .aggregate(
                Vec::<Expr>::new(),
                [
                    count(lit(1_i64)).alias("__rows"),
                    bool_or(column("__compared")).alias("__found"),
                    count(column("__compared")).alias("__known"),
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

    /// `x IN (SELECT y …)` as a value, where the rows are the same for every x.
    ///
    /// ```text
    /// CASE WHEN y IS NOT NULL THEN true WHEN rows = 0 THEN false WHEN x IS NULL OR known < rows THEN NULL ELSE false END
    /// FROM … LEFT JOIN (SELECT DISTINCT y …) ON x = y, (SELECT count(*) AS rows, count(y) AS known …)
    /// ```
    fn membership(&self, of: &InSubquery, input: &mut LogicalPlan) -> Result<Expr> {
        let (plan, item, is_keyed) = unkeyed(of.subquery.subquery.as_ref());
        let (items, all) = (self.new_name("items"), self.new_name("rows"));
        let distinct = LogicalPlanBuilder::from(plan.clone())
            .project([item.clone().alias("item")])?
            .distinct()?
            .alias(items.as_str())?
            .build()?;
        let counted = [count(lit(1_i64)).alias("rows"), count(item).alias("known")];
        let counted = LogicalPlanBuilder::from(plan)
            .aggregate(Vec::<Expr>::new(), counted)?
            .alias(all.as_str())?
            .build()?;
        let column = |relation: &str, name: &str| Expr::Column(Column::new(Some(relation), name));
        let (rows, known) = (column(&all, "rows"), column(&all, "known"));
        let (found, tested) = (column(&items, "item"), of.expr.as_ref().clone());
        let key = if is_keyed { Key::call(found.clone()) } else { found.clone() };
        let left = std::mem::take(input);
        *input = LogicalPlanBuilder::from(left)
            .join_on(distinct, JoinType::Left, [tested.clone().eq(key)])?
            .cross_join(counted)?
            .build()?;
        when(found.is_not_null(), lit(true))
            .when(rows.clone().eq(lit(0_i64)), lit(false))
            .when(tested.is_null().or(known.lt(rows)), lit(ScalarValue::Boolean(None)))
            .otherwise(lit(false))
    }

    /// Joins a value that is not null for the rows that the subquery has a row for.
    fn join_match(&self, subquery: &Subquery, input: &mut LogicalPlan) -> Result<Option<Expr>> {
        let outer = outer_columns(subquery, input);
        if outer.is_empty() {
            return Ok(None);
        }
        let domain = Domain::of(input, &outer, self)?;
        let applied = self.applied(&domain, &subquery.subquery)?;
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

/// The columns of the input that the subquery refers to, from whatever depth.
fn outer_columns(subquery: &Subquery, input: &LogicalPlan) -> Vec<Column> {
    let mut columns = free_columns(&subquery.subquery);
    columns.retain(|column| input.schema().has_column(column));
    columns
}

/// The columns that a plan refers to and that are of none of its own plans: a name is of the nearest plan that has it.
pub(super) fn free_columns(plan: &LogicalPlan) -> Vec<Column> {
    let mut columns: Vec<Column> = vec![];
    let mut note = |column: Column| {
        if !columns.contains(&column) {
            columns.push(column);
        }
    };
    // The closures give no errors.
    let _ = plan.apply(|node| {
        let bound = |column: &Column| node.inputs().iter().any(|input| input.schema().has_column(column));
        node.apply_expressions(|expr| {
            expr.apply(|expr| {
                if let Expr::OuterReferenceColumn(_, column) = expr {
                    note(column.clone());
                }
                let inner = subquery(expr).map(|inner| free_columns(&inner.subquery)).unwrap_or_default();
                inner.into_iter().filter(|column| !bound(column)).for_each(&mut note);
                Ok(TreeNodeRecursion::Continue)
            })
        })
    });
    columns
}

fn subquery(expr: &Expr) -> Option<&Subquery> {
    match expr {
        Expr::ScalarSubquery(subquery) => Some(subquery),
        Expr::Exists(of) => Some(&of.subquery),
        Expr::InSubquery(of) => Some(&of.subquery),
        Expr::SetComparison(of) => Some(&of.subquery),
        _ => None,
    }
}

/// Whether DataFusion makes the right semi-join of a subquery that refers to the plan around it, which it does from filters
/// over joins alone: an aggregate has a row for no rows, a limit counts.
fn is_plain(plan: &LogicalPlan) -> bool {
    let is_plain = |node: &LogicalPlan| {
        let kind = match node {
            LogicalPlan::Filter(filter) => return !refers_from_inside(&filter.predicate),
            LogicalPlan::Projection(_) | LogicalPlan::SubqueryAlias(_) | LogicalPlan::TableScan(_) => true,
            LogicalPlan::Join(join) => join.join_type == JoinType::Inner,
            LogicalPlan::Distinct(Distinct::All(_)) => true,
            _ => false,
        };
        kind && !node.contains_outer_reference()
            && node.expressions().iter().all(|expr| !refers_from_inside(expr))
    };
    !plan.exists(|node| Ok(!is_plain(node))).unwrap_or(true)
}

/// Whether a subquery in the expression refers to anything around it.
fn refers_from_inside(expr: &Expr) -> bool {
    let refers = |expr: &Expr| subquery(expr).is_some_and(|of| !free_columns(&of.subquery).is_empty());
    expr.exists(|expr| Ok(refers(expr))).unwrap_or(true)
}

/// `x NOT IN (SELECT …)` as a whole condition, over rows that are the same for every x.
fn is_anti_join(condition: &Expr) -> bool {
    let constant = |of: &InSubquery| free_columns(&of.subquery.subquery).is_empty();
    match condition {
        Expr::InSubquery(of) => of.negated && constant(of),
        Expr::Not(inner) => matches!(&**inner, Expr::InSubquery(of) if !of.negated && constant(of)),
        _ => false,
    }
}

/// Whether an expression over the input has subqueries that DataFusion does not plan there.
fn has_rewritten<'e>(exprs: impl IntoIterator<Item = &'e Expr>, input: &LogicalPlan) -> bool {
    let rewritten = |expr: &Expr| match expr {
        Expr::ScalarSubquery(subquery) => !outer_columns(subquery, input).is_empty(),
        Expr::Exists(of) => !outer_columns(&of.subquery, input).is_empty(),
        Expr::InSubquery(_) | Expr::SetComparison(_) => true,
        _ => false,
    };
    exprs.into_iter().any(|expr| expr.exists(|expr| Ok(rewritten(expr))).unwrap_or(true))
}

/// The expression as one of a subquery, to which its columns are those of the plan around; they are added to `outer`.
pub(super) fn referred(expr: Expr, schema: &DFSchema, outer: &mut Vec<Expr>) -> Result<Expr> {
    let referred = expr.transform_up(|expr| match expr {
        Expr::Column(column) => {
            let field = Arc::clone(schema.field_from_column(&column)?);
            let reference = Expr::OuterReferenceColumn(field, column);
            outer.push(reference.clone());
            Ok(Transformed::yes(reference))
        }
        other => Ok(Transformed::no(other)),
    })?;
    Ok(referred.data)
}

/// The rows of a subquery, and the columns that are compared: those of a packed row.
pub(super) fn unpacked(plan: &LogicalPlan) -> Result<(LogicalPlan, Vec<Expr>)> {
    if let LogicalPlan::Projection(projection) = plan
        && let [item] = &projection.expr[..]
        && let items @ [_, _, ..] = &marker::unpack(item.clone().unalias())[..]
    {
        return Ok((projection.input.as_ref().clone(), items.to_vec()));
    }
    Ok((plan.clone(), vec![Expr::Column(Column::from(plan.schema().qualified_field(0)))]))
}

/// The rows of a subquery with the value itself where it gives the key of one, and whether it did.
fn unkeyed(plan: &LogicalPlan) -> (LogicalPlan, Expr, bool) {
    if let LogicalPlan::Projection(projection) = plan
        && let [item] = &projection.expr[..]
        && let key = item.clone().unalias()
        && Key::is_call(&key)
        && let Expr::ScalarFunction(call) = key
        && let [value] = &call.args[..]
    {
        return (projection.input.as_ref().clone(), value.clone(), true);
    }
    (plan.clone(), Expr::Column(Column::from(plan.schema().qualified_field(0))), false)
}

fn equal_any(of: &InSubquery) -> SetComparison {
    SetComparison::new(of.expr.clone(), of.subquery.clone(), Operator::Eq, SetQuantifier::Any)
}
