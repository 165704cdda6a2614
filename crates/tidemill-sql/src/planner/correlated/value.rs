//! Values of subqueries as columns of what they are joined to.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, JoinType, NullEquality, ScalarValue};
use datafusion::error::Result;
use datafusion::functions_aggregate::expr_fn::{bool_or, count};
use datafusion::logical_expr::expr::{
    AggregateFunction, BinaryExpr, Exists, InSubquery, SetComparison, SetQuantifier,
};
use datafusion::logical_expr::logical_plan::Subquery;
use datafusion::logical_expr::{Distinct, Expr, LogicalPlan, LogicalPlanBuilder, Operator, lit, when};

use super::Names;
use super::reference::{is_constant, is_single, outer_columns, referred};
use crate::function::Key;
use crate::planner::apply::Domain;
use crate::planner::{lazy_value, marker, single_value};

impl Names {
    /// The expression with its subqueries as columns, which are joined to the input; but not those that have one value.
    pub fn replace(&self, expr: Expr, input: &mut LogicalPlan) -> Result<Expr> {
        let replaced = lazy_value::guarded(expr)?.transform_down(|expr| match &expr {
            Expr::ScalarSubquery(subquery) => match self.join_value(subquery, input)? {
                Some(value) => Ok(Transformed::yes(value)),
                None => Ok(Transformed::no(expr)),
            },
            Expr::Exists(exists_of) => match self.join_match(&exists_of.subquery, input)? {
                Some(found) if exists_of.negated => Ok(Transformed::yes(found.is_null())),
                Some(found) => Ok(Transformed::yes(found.is_not_null())),
                None if is_constant(&exists_of.subquery) => Ok(Transformed::yes(any_row(exists_of)?)),
                None => Ok(Transformed::no(expr)),
            },
            Expr::InSubquery(of) => {
                let tested = Box::new(self.replace(of.expr.as_ref().clone(), input)?);
                let of = InSubquery { expr: tested, ..of.clone() };
                let value = match is_constant(&of.subquery) {
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
        let outer = outer_columns(subquery, input.schema());
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
                let call = AggregateFunction::new_udf(
                    single_value::checked(),
                    vec![value],
                    false,
                    None,
                    vec![],
                    None,
                );
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
        let outer = outer_columns(subquery, input.schema());
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

/// `EXISTS (SELECT FROM …)` with something in the select list: DataFusion joins by columns.
pub fn with_column(of: Exists) -> Result<Exists> {
    if !of.subquery.subquery.schema().fields().is_empty() {
        return Ok(of);
    }
    let plan = LogicalPlanBuilder::from(of.subquery.subquery.as_ref().clone()).project([lit(1)])?.build()?;
    Ok(Exists { subquery: Subquery { subquery: Arc::new(plan), ..of.subquery }, ..of })
}

/// EXISTS where nothing around it matters: whether one row can be counted.
pub fn any_row(of: &Exists) -> Result<Expr> {
    let counted = LogicalPlanBuilder::from(of.subquery.subquery.as_ref().clone())
        .limit(0, Some(1))?
        .aggregate(Vec::<Expr>::new(), [count(lit(1_i64)).alias("count")])?
        .build()?;
    let rows = Expr::ScalarSubquery(Subquery { subquery: Arc::new(counted), ..of.subquery.clone() });
    Ok(if of.negated { rows.eq(lit(0_i64)) } else { rows.gt(lit(0_i64)) })
}

/// The rows of a subquery, and the columns that are compared: those of a packed row.
pub fn unpacked(plan: &LogicalPlan) -> Result<(LogicalPlan, Vec<Expr>)> {
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
