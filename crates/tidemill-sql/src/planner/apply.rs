//! A correlated plan for all values of its outer columns at once.
//!
//! [`Apply::plan`] gives the rows that the plan has for each row of a [`Domain`], with the domain's columns beside them.
//! The domain is pushed down to where nothing is correlated any more and joined there.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, JoinType, NullEquality, ScalarValue, TableReference};
use datafusion::datasource::cte_worktable::CteWorkTable;
use datafusion::datasource::provider_as_source;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::expr::{BinaryExpr, Exists, InSubquery};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::logical_plan::Subquery;
use datafusion::logical_expr::{
    Aggregate, Distinct, Expr, ExprFunctionExt, ExprSchemable, FetchType, Join, Limit, LogicalPlan,
    LogicalPlanBuilder, Operator, RecursiveQuery, SkipType, Sort, TableScan, Union, Unnest, Values, Window,
    lit, when,
};

use super::correlated::Names;
use super::ordered;
use crate::error::SqlError;

/// The distinct values of some columns of an outer plan, under names of their own.
pub(super) struct Domain {
    pub plan: LogicalPlan,
    name: String,
    /// The outer columns, in the order of the domain's.
    outer: Vec<Column>,
}

impl Domain {
    pub fn of(input: &LogicalPlan, outer: &[Column], names: &Names) -> Result<Self> {
        let name = names.new_name("outer");
        let exprs =
            outer.iter().enumerate().map(|(i, c)| Expr::Column(c.clone()).alias(format!("{name}_c{i}")));
        let plan = LogicalPlanBuilder::from(input.clone())
            .project(exprs)?
            .distinct()?
            .alias(name.as_str())?
            .build()?;
        Ok(Self { plan, name, outer: outer.to_vec() })
    }

    pub fn columns(&self) -> Vec<Column> {
        (0..self.outer.len()).map(|i| self.column(i)).collect()
    }

    fn column(&self, i: usize) -> Column {
        Column::new(Some(self.name.as_str()), format!("{}_c{i}", self.name))
    }

    fn exprs(&self) -> Vec<Expr> {
        self.columns().into_iter().map(Expr::Column).collect()
    }

    /// The same rows under another name.
    fn copy(&self, names: &Names) -> Result<Self> {
        Self::of(&self.plan, &self.columns(), names).map(|copy| Self { outer: self.outer.clone(), ..copy })
    }

    /// The domain's column for an outer one.
    fn of_outer(&self, column: &Column) -> Option<Column> {
        self.outer.iter().position(|c| c == column).map(|i| self.column(i))
    }

    /// What `plan` gave, as a relation of this name.
    pub fn rename(
        &self,
        applied: LogicalPlan,
        plan: &LogicalPlan,
        name: &TableReference,
    ) -> Result<LogicalPlan> {
        let mut exprs = self.exprs();
        for (relation, field) in plan.schema().iter() {
            let column = Expr::Column(Column::new(relation.cloned(), field.name()));
            exprs.push(column.alias_qualified(Some(name.clone()), field.name()));
        }
        LogicalPlanBuilder::from(applied).project(exprs)?.build()
    }
}

/// Pushes a domain into a plan.
pub(super) struct Apply<'a> {
    domain: &'a Domain,
    names: &'a Names,
    /// In the recursive term of a CTE: its name, and the scan of its rows with the domain's columns.
    work: Option<(&'a str, &'a LogicalPlan)>,
}

impl<'a> Apply<'a> {
    pub fn new(domain: &'a Domain, names: &'a Names) -> Self {
        Self { domain, names, work: None }
    }

    pub fn plan(&self, plan: &LogicalPlan) -> Result<LogicalPlan> {
        if !self.correlated(plan)? {
            return self.with_domain(plan);
        }
        match plan {
            LogicalPlan::Projection(projection) => {
                let mut exprs = self.domain.exprs();
                for (i, expr) in projection.expr.iter().enumerate() {
                    let (relation, field) = projection.schema.qualified_field(i);
                    exprs.push(self.named(expr, relation, field.name())?);
                }
                LogicalPlanBuilder::from(self.plan(&projection.input)?).project(exprs)?.build()
            }
            LogicalPlan::Filter(filter) => {
                let predicate = self.expr(&filter.predicate)?;
                LogicalPlanBuilder::from(self.plan(&filter.input)?).filter(predicate)?.build()
            }
            LogicalPlan::SubqueryAlias(alias) => {
                let applied = self.plan(&alias.input)?;
                self.domain.rename(applied, &alias.input, &alias.alias)
            }
            // A lateral subquery's own outer columns are gone by now.
            LogicalPlan::Subquery(subquery) => self.plan(&subquery.subquery),
            LogicalPlan::Join(join) => self.join(join),
            LogicalPlan::Aggregate(aggregate) => self.aggregate(aggregate),
            LogicalPlan::Sort(sort) => self.sort(sort),
            LogicalPlan::Limit(limit) => self.limit(limit),
            LogicalPlan::Distinct(Distinct::All(input)) => {
                LogicalPlanBuilder::from(self.plan(input)?).distinct()?.build()
            }
            LogicalPlan::Union(union) => self.union(union),
            LogicalPlan::Unnest(unnest) => self.unnest(unnest),
            LogicalPlan::Window(window) => self.window(window),
            LogicalPlan::RecursiveQuery(query) => self.recursive(query),
            LogicalPlan::TableScan(scan) => self.work_table(scan, plan),
            LogicalPlan::Values(values) => self.values(values),
            other => Err(unsupported(other)),
        }
    }

    /// Every row of the domain with every row of an uncorrelated plan.
    fn with_domain(&self, plan: &LogicalPlan) -> Result<LogicalPlan> {
        match plan {
            LogicalPlan::EmptyRelation(empty)
                if empty.produce_one_row && plan.schema().fields().is_empty() =>
            {
                Ok(self.domain.plan.clone())
            }
            _ => LogicalPlanBuilder::from(self.domain.plan.clone()).cross_join(plan.clone())?.build(),
        }
    }

    fn correlated(&self, plan: &LogicalPlan) -> Result<bool> {
        let mut found = false;
        plan.apply_with_subqueries(|node| {
            found |= matches!((node, self.work), (LogicalPlan::TableScan(scan), Some((name, _))) if scan.table_name.table() == name);
            node.apply_expressions(|expr| {
                found |= expr.exists(|e| Ok(self.refers(e)))?;
                Ok(datafusion::common::tree_node::TreeNodeRecursion::Continue)
            })
        })?;
        Ok(found)
    }

    fn refers(&self, expr: &Expr) -> bool {
        matches!(expr, Expr::OuterReferenceColumn(_, column) if self.domain.of_outer(column).is_some())
    }

    /// The expression with the domain's columns in the place of the outer ones.
    fn expr(&self, expr: &Expr) -> Result<Expr> {
        let replaced = expr.clone().transform_down(|expr| {
            Ok(match &expr {
                Expr::OuterReferenceColumn(_, column) => match self.domain.of_outer(column) {
                    Some(column) => Transformed::yes(Expr::Column(column)),
                    None => Transformed::no(expr),
                },
                Expr::ScalarSubquery(subquery) => {
                    Transformed::yes(Expr::ScalarSubquery(self.inner(subquery)?))
                }
                Expr::Exists(exists) => Transformed::yes(Expr::Exists(Exists {
                    subquery: self.inner(&exists.subquery)?,
                    negated: exists.negated,
                })),
                Expr::InSubquery(of) => Transformed::yes(Expr::InSubquery(InSubquery {
                    expr: of.expr.clone(),
                    subquery: self.inner(&of.subquery)?,
                    negated: of.negated,
                })),
                _ => Transformed::no(expr),
            })
        })?;
        Ok(replaced.data)
    }

    /// A subquery within the plan: what was two levels out for it is one level out now.
    fn inner(&self, subquery: &Subquery) -> Result<Subquery> {
        let rename = |expr: Expr| match &expr {
            Expr::OuterReferenceColumn(field, column) => match self.domain.of_outer(column) {
                Some(column) => Transformed::yes(Expr::OuterReferenceColumn(Arc::clone(field), column)),
                None => Transformed::no(expr),
            },
            _ => Transformed::no(expr),
        };
        let plan = subquery.subquery.as_ref().clone().transform_up_with_subqueries(|node| {
            let names = NamePreserver::new(&node);
            node.map_expressions(|expr| {
                let name = names.save(&expr);
                expr.transform_up(|e| Ok(rename(e)))?.map_data(|expr| Ok(name.restore(expr)))
            })
        })?;
        let outer = subquery.outer_ref_columns.iter().map(|e| rename(e.clone()).data).collect();
        Ok(Subquery {
            subquery: Arc::new(plan.data),
            outer_ref_columns: outer,
            spans: subquery.spans.clone(),
        })
    }

    /// As `expr`, under the name that it had.
    fn named(&self, expr: &Expr, relation: Option<&TableReference>, name: &str) -> Result<Expr> {
        let replaced = self.expr(expr)?;
        Ok(match &replaced {
            Expr::Column(column) if column.relation.as_ref() == relation && column.name == name => replaced,
            _ => replaced.unalias().alias_qualified(relation.cloned(), name),
        })
    }

    fn join(&self, join: &Join) -> Result<LogicalPlan> {
        let kinds = [JoinType::Inner, JoinType::Left, JoinType::LeftSemi, JoinType::LeftAnti];
        if !kinds.contains(&join.join_type) || join.null_aware {
            return Err(unsupported(&LogicalPlan::Join(join.clone())));
        }
        let equal = |left: Expr, right: Expr| match join.null_equality {
            NullEquality::NullEqualsNothing => left.eq(right),
            NullEquality::NullEqualsNull => Expr::BinaryExpr(BinaryExpr::new(
                Box::new(left),
                Operator::IsNotDistinctFrom,
                Box::new(right),
            )),
        };
        let on = join.on.iter().map(|(l, r)| Ok(equal(self.expr(l)?, self.expr(r)?)));
        let mut condition: Vec<Expr> = on.collect::<Result<_>>()?;
        condition.extend(join.filter.as_ref().map(|f| self.expr(f)).transpose()?);
        let left = self.plan(&join.left)?;
        if !self.correlated(&join.right)? {
            let filter = condition.into_iter().reduce(Expr::and).unwrap_or(lit(true));
            let right = join.right.as_ref().clone();
            return LogicalPlanBuilder::from(left).join_on(right, join.join_type, [filter])?.build();
        }
        // Each side with a domain of its own, joined on equal values of it.
        let copy = self.domain.copy(self.names)?;
        let right = Apply { domain: &copy, names: self.names, work: self.work }.plan(&join.right)?;
        let keys = (self.domain.columns(), copy.columns());
        let filter = condition.into_iter().reduce(Expr::and);
        let joined = LogicalPlanBuilder::from(left).join_detailed(
            right,
            join.join_type,
            keys,
            filter,
            NullEquality::NullEqualsNull,
        )?;
        let mut exprs = self.domain.exprs();
        exprs.extend(columns(&join.schema));
        joined.project(exprs)?.build()
    }

    /// Grouped by the domain as well. An aggregate without groups has a row even for the values that no row is left of.
    fn aggregate(&self, aggregate: &Aggregate) -> Result<LogicalPlan> {
        let mut group = self.domain.exprs();
        for expr in &aggregate.group_expr {
            if matches!(expr, Expr::GroupingSet(_)) {
                return Err(unsupported(&LogicalPlan::Aggregate(aggregate.clone())));
            }
            group.push(self.named_as_before(expr)?);
        }
        let calls =
            aggregate.aggr_expr.iter().map(|e| self.named_as_before(e)).collect::<Result<Vec<_>>>()?;
        let input = self.plan(&aggregate.input)?;
        let grouped = LogicalPlan::Aggregate(Aggregate::try_new(Arc::new(input), group, calls)?);
        if !aggregate.group_expr.is_empty() {
            return Ok(grouped);
        }
        let copy = self.domain.copy(self.names)?;
        let right = {
            let renamed = copy.columns().into_iter().zip(self.domain.exprs());
            let mut exprs: Vec<Expr> =
                renamed.map(|(to, from)| from.alias_qualified(to.relation, to.name)).collect();
            exprs.extend(columns(&aggregate.schema));
            exprs.push(lit(true).alias(MATCHED));
            LogicalPlanBuilder::from(grouped).project(exprs)?.build()?
        };
        let keys = (self.domain.columns(), copy.columns());
        let joined = LogicalPlanBuilder::from(self.domain.plan.clone()).join_detailed(
            right,
            JoinType::Left,
            keys,
            None,
            NullEquality::NullEqualsNull,
        )?;
        let mut exprs = self.domain.exprs();
        for (expr, column) in aggregate.aggr_expr.iter().zip(aggregate.schema.columns()) {
            let value = Expr::Column(column.clone());
            let empty = of_no_rows(expr, aggregate.input.schema())?;
            exprs.push(if empty.is_null() {
                value
            } else {
                let missing = Expr::Column(Column::new_unqualified(MATCHED)).is_null();
                when(missing, Expr::Literal(empty, None))
                    .otherwise(value)?
                    .alias_qualified(column.relation.clone(), column.name)
            });
        }
        joined.project(exprs)?.build()
    }

    /// As `expr`, with an alias if it would be called otherwise.
    fn named_as_before(&self, expr: &Expr) -> Result<Expr> {
        let before = expr.qualified_name();
        let replaced = self.expr(expr)?;
        if replaced.qualified_name() == before {
            return Ok(replaced);
        }
        Ok(replaced.unalias().alias_qualified(before.0, before.1))
    }

    fn sort(&self, sort: &Sort) -> Result<LogicalPlan> {
        let input = self.plan(&sort.input)?;
        let exprs = sort.expr.iter().map(|s| Ok(self.expr(&s.expr)?.sort(s.asc, s.nulls_first)));
        let exprs = exprs.collect::<Result<Vec<_>>>()?;
        LogicalPlanBuilder::from(input).sort_with_limit(exprs, None)?.build()
    }

    /// The first rows for each value of the domain.
    fn limit(&self, limit: &Limit) -> Result<LogicalPlan> {
        let (SkipType::Literal(skip), FetchType::Literal(fetch)) =
            (limit.get_skip_type()?, limit.get_fetch_type()?)
        else {
            return Err(unsupported(&LogicalPlan::Limit(limit.clone())));
        };
        // The order may be of columns that are not shown, so the sort is found wherever it is.
        let keyed = ordered::keyed(&limit.input, &|| self.names.new_name("order"))?;
        let (input, order) = keyed.unwrap_or_else(|| (limit.input.as_ref().clone(), vec![]));
        let order = order.into_iter().map(|s| Ok(self.expr(&s.expr)?.sort(s.asc, s.nulls_first)));
        let order = order.collect::<Result<Vec<_>>>()?;
        let number = datafusion::functions_window::expr_fn::row_number().partition_by(self.domain.exprs());
        let number = if order.is_empty() { number.build()? } else { number.order_by(order).build()? };
        let number = number.alias(ROW_NUMBER);
        let place = || Expr::Column(Column::new_unqualified(ROW_NUMBER));
        let mut condition = place().gt(lit(skip as u64));
        if let Some(fetch) = fetch {
            condition = condition.and(place().lt_eq(lit(skip.saturating_add(fetch) as u64)));
        }
        let mut exprs = self.domain.exprs();
        exprs.extend(columns(limit.input.schema()));
        LogicalPlanBuilder::from(self.plan(&input)?)
            .window([number])?
            .filter(condition)?
            .project(exprs)?
            .build()
    }

    fn union(&self, union: &Union) -> Result<LogicalPlan> {
        let mut inputs = Vec::with_capacity(union.inputs.len());
        for input in &union.inputs {
            let applied = self.plan(input)?;
            let mut exprs = self.domain.exprs();
            for (from, (relation, field)) in columns(input.schema()).into_iter().zip(union.schema.iter()) {
                exprs.push(from.alias_qualified(relation.cloned(), field.name()));
            }
            inputs.push(Arc::new(LogicalPlanBuilder::from(applied).project(exprs)?.build()?));
        }
        self.united(inputs)
    }

    /// Each row is one of the domain's.
    fn values(&self, values: &Values) -> Result<LogicalPlan> {
        let mut rows = Vec::with_capacity(values.values.len());
        for row in &values.values {
            let mut exprs = self.domain.exprs();
            for (i, expr) in row.iter().enumerate() {
                let (relation, field) = values.schema.qualified_field(i);
                exprs.push(self.named(expr, relation, field.name())?);
            }
            rows.push(LogicalPlanBuilder::from(self.domain.plan.clone()).project(exprs)?.build()?);
        }
        match rows.len() {
            1 => Ok(rows.remove(0)),
            _ => self.united(rows.into_iter().map(Arc::new).collect()),
        }
    }

    /// All rows of plans that have the domain's columns in front.
    fn united(&self, inputs: Vec<Arc<LogicalPlan>>) -> Result<LogicalPlan> {
        let union = LogicalPlan::Union(Union::try_new_with_loose_types(inputs)?);
        // A union's columns lose their relations; the domain's are needed with theirs.
        let mut exprs = vec![];
        for (column, to) in union.schema().columns().into_iter().zip(self.domain.columns()) {
            exprs.push(Expr::Column(column).alias_qualified(to.relation, to.name));
        }
        exprs.extend(union.schema().columns().into_iter().skip(exprs.len()).map(Expr::Column));
        LogicalPlanBuilder::from(union).project(exprs)?.build()
    }

    fn unnest(&self, unnest: &Unnest) -> Result<LogicalPlan> {
        let input = self.plan(&unnest.input)?;
        LogicalPlanBuilder::from(input)
            .unnest_columns_with_options(unnest.exec_columns.clone(), unnest.options.clone())?
            .build()
    }

    fn window(&self, window: &Window) -> Result<LogicalPlan> {
        let input = self.plan(&window.input)?;
        let mut calls = Vec::with_capacity(window.window_expr.len());
        for expr in &window.window_expr {
            let (relation, name) = expr.qualified_name();
            let mut call = self.expr(expr)?.unalias();
            if let Expr::WindowFunction(function) = &mut call {
                function.params.partition_by.extend(self.domain.exprs());
            }
            calls.push(call.alias_qualified(relation, name));
        }
        LogicalPlanBuilder::from(input).window(calls)?.build()
    }
}

impl Apply<'_> {
    /// The rows of a CTE that refers to itself carry the domain's columns from its first rows on.
    fn recursive(&self, query: &RecursiveQuery) -> Result<LogicalPlan> {
        let plain = |plan: &LogicalPlan, applied: LogicalPlan| {
            let names = query.schema.fields().iter().map(|f| f.name());
            let values = columns(plan.schema()).into_iter().zip(names).map(|(value, name)| value.alias(name));
            let keys = self.domain.columns().into_iter().map(|c| Expr::Column(c.clone()).alias(c.name));
            LogicalPlanBuilder::from(applied).project(keys.chain(values))?.build()
        };
        let first = plain(&query.static_term, self.plan(&query.static_term)?)?;
        let schema = Arc::new(first.schema().as_arrow().clone());
        let table = provider_as_source(Arc::new(CteWorkTable::new(&query.name, schema)));
        let scan = LogicalPlanBuilder::scan(query.name.as_str(), table, None)?.build()?;
        let inner = Apply { domain: self.domain, names: self.names, work: Some((&query.name, &scan)) };
        let next = plain(&query.recursive_term, inner.plan(&query.recursive_term)?)?;
        let all = LogicalPlanBuilder::from(first)
            .to_recursive_query(query.name.clone(), next, query.is_distinct)?
            .build()?;
        self.with_names(&all, &query.schema)
    }

    fn work_table(&self, scan: &TableScan, plan: &LogicalPlan) -> Result<LogicalPlan> {
        match self.work {
            Some((name, rows)) if scan.table_name.table() == name => self.with_names(rows, plan.schema()),
            _ => Err(unsupported(plan)),
        }
    }

    /// The domain's columns and those of `schema` out of a plan that has them in this order.
    fn with_names(&self, plan: &LogicalPlan, schema: &DFSchema) -> Result<LogicalPlan> {
        let keys = self.domain.columns().into_iter().map(|c| (c.relation, c.name));
        let names =
            keys.chain(schema.iter().map(|(relation, field)| (relation.cloned(), field.name().clone())));
        let exprs = columns(plan.schema()).into_iter().zip(names);
        let exprs = exprs.map(|(column, (relation, name))| column.alias_qualified(relation, name));
        LogicalPlanBuilder::from(plan.clone()).project(exprs)?.build()
    }
}

const MATCHED: &str = "__matched";
const ROW_NUMBER: &str = "__row_number";

fn columns(schema: &DFSchema) -> Vec<Expr> {
    schema.columns().into_iter().map(Expr::Column).collect()
}

/// What an aggregate is when there are no rows: 0 for a count, null for most others.
fn of_no_rows(expr: &Expr, schema: &DFSchema) -> Result<ScalarValue> {
    match expr.clone().unalias() {
        Expr::AggregateFunction(call) => {
            let ty = Expr::AggregateFunction(call.clone()).get_type(schema)?;
            call.func.default_value(&ty)
        }
        _ => Ok(ScalarValue::Null),
    }
}

fn unsupported(plan: &LogicalPlan) -> DataFusionError {
    let message = "a subquery that refers to the outer query is not supported in this form";
    let detail = format!("It would have to be carried through: {}.", plan.display());
    crate::function::external(SqlError::unsupported(message).with_detail(detail))
}
