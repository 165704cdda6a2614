//! The analyzer rule by which values that are equal are taken as equal, whatever their bytes.
//!
//! `1.0` and `1.00` are one numeric, a month and thirty days one interval, zero and minus zero one float. Comparisons see
//! to that themselves; where a plan groups, joins or sorts, this rule puts the key of the value ([`Key`]) in the place of
//! the value. A group shows the first of its values.
//!
//! ```text
//! Aggregate: n, count(*)     =>    Projection: first(n) AS n, count(*)
//!                                    Aggregate: sort_key(n), first(n), count(*)
//! ```

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::functions::encoding::expr_fn::encode;
use datafusion::logical_expr::expr::{AggregateFunction, InSubquery, Sort as SortExpr, WindowFunction};
use datafusion::logical_expr::utils::grouping_set_to_exprlist;
use datafusion::logical_expr::{
    Aggregate, Distinct, DistinctOn, Expr, ExprSchemable, GroupingSet, Join, LogicalPlan, Projection, Sort,
    Subquery, Window, lit, when,
};
use datafusion::optimizer::analyzer::AnalyzerRule;

use crate::aggregate;
use crate::error::{SqlError, SqlState};
use crate::function::{Key, external};
use crate::types::{Scalar, Type};

#[derive(Debug)]
pub struct EqualValues;

impl AnalyzerRule for EqualValues {
    fn name(&self) -> &str {
        "postgresql_equal_values"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|plan| {
            let plan = memberships(plan)?;
            plan.transform_data(|plan| match plan {
                LogicalPlan::Aggregate(aggregate) => group(aggregate),
                LogicalPlan::Distinct(Distinct::All(input)) => distinct(input),
                LogicalPlan::Distinct(Distinct::On(on)) => distinct_on(on),
                LogicalPlan::Join(join) => join_keys(join),
                LogicalPlan::Sort(sort) => order(sort),
                LogicalPlan::Window(window) => windows(window),
                other => Ok(Transformed::no(other)),
            })
        })
        .map(|transformed| transformed.data)
    }
}

/// Whether values may be equal and differ in their bytes, and whether the key can be shown in place of the value.
enum Kind {
    Exact,
    KeyIsShown,
    FirstIsShown,
}

fn kind(expr: &Expr, schema: &DFSchema) -> Result<Kind> {
    if Key::is_call(expr) {
        return Ok(Kind::Exact);
    }
    Ok(match expr.get_type(schema)? {
        DataType::Float32 | DataType::Float64 => Kind::KeyIsShown,
        DataType::List(item) if item.data_type().is_floating() || has_key(item.data_type()) => {
            Kind::FirstIsShown
        }
        DataType::LargeUtf8 => {
            comparable(expr, schema, "an equality")?;
            Kind::FirstIsShown
        }
        other if has_key(&other) => Kind::FirstIsShown,
        _ => Kind::Exact,
    })
}

fn has_key(data_type: &DataType) -> bool {
    matches!(data_type, DataType::LargeBinary | DataType::LargeUtf8 | DataType::Interval(_))
}

/// Of the two types that are json, only jsonb has an equality and an order.
fn comparable(expr: &Expr, schema: &DFSchema, what: &str) -> Result<()> {
    let (_, field) = expr.to_field(schema)?;
    if *field.data_type() != DataType::LargeUtf8 {
        return Ok(());
    }
    let ty = Type::of_field(&field).map_err(external)?;
    if ty.scalar != Scalar::Json {
        return Ok(());
    }
    let message = format!("could not identify {what} operator for type json");
    Err(external(SqlError::new(SqlState::UNDEFINED_FUNCTION, message)))
}

/// The expression to compare instead of this one.
fn keyed(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    Ok(match kind(&expr, schema)? {
        Kind::Exact => Transformed::no(expr),
        Kind::KeyIsShown | Kind::FirstIsShown => Transformed::yes(Key::call(expr.unalias())),
    })
}

fn all_keyed(exprs: Vec<Expr>, schema: &DFSchema) -> Result<Transformed<Vec<Expr>>> {
    let mut changed = false;
    let mut all = Vec::with_capacity(exprs.len());
    for expr in exprs {
        let expr = keyed(expr, schema)?;
        changed |= expr.transformed;
        all.push(expr.data);
    }
    Ok(if changed { Transformed::yes(all) } else { Transformed::no(all) })
}

fn all_sorted(sorts: Vec<SortExpr>, schema: &DFSchema) -> Result<Transformed<Vec<SortExpr>>> {
    for sort in &sorts {
        comparable(&sort.expr, schema, "an ordering")?;
    }
    let exprs = all_keyed(sorts.iter().map(|sort| sort.expr.clone()).collect(), schema)?;
    let sorted = sorts.into_iter().zip(exprs.data).map(|(sort, expr)| SortExpr { expr, ..sort }).collect();
    Ok(if exprs.transformed { Transformed::yes(sorted) } else { Transformed::no(sorted) })
}

/// Arrays in the order that PostgreSQL has them in: a null in an array comes after all else, but for Arrow it comes where
/// arrays that are null do. Where that is first, the nulls are sorted before.
///
/// ```text
/// ORDER BY x NULLS FIRST  =>  ORDER BY x IS NULL DESC, x
/// ```
fn items_ordered(sorts: Transformed<Vec<SortExpr>>, schema: &DFSchema) -> Result<Transformed<Vec<SortExpr>>> {
    let mut ordered = Vec::with_capacity(sorts.data.len());
    let mut changed = sorts.transformed;
    for sort in sorts.data {
        if sort.asc == sort.nulls_first && matches!(sort.expr.get_type(schema)?, DataType::List(_)) {
            changed = true;
            ordered.push(sort.expr.clone().is_null().sort(!sort.nulls_first, false));
            ordered.push(SortExpr { nulls_first: !sort.asc, ..sort });
        } else {
            ordered.push(sort);
        }
    }
    Ok(if changed { Transformed::yes(ordered) } else { Transformed::no(ordered) })
}

fn group(aggregate: Aggregate) -> Result<Transformed<LogicalPlan>> {
    let input = Arc::clone(&aggregate.input);
    let schema = input.schema();
    let mut changed = false;
    let mut aggregates = Vec::with_capacity(aggregate.aggr_expr.len());
    for expr in &aggregate.aggr_expr {
        let expr = over_keys(expr.clone(), schema)?;
        changed |= expr.transformed;
        aggregates.push(expr.data);
    }
    let groups: Vec<Expr> = grouping_set_to_exprlist(&aggregate.group_expr)?.into_iter().cloned().collect();
    // Of each group expression the number of the aggregate that is its first value.
    let mut firsts = vec![None; groups.len()];
    for (i, expr) in groups.iter().enumerate() {
        let kind = kind(expr, schema)?;
        changed |= !matches!(kind, Kind::Exact);
        if let Kind::FirstIsShown = kind {
            firsts[i] = Some(aggregates.len());
            aggregates.push(
                aggregate::first().call(vec![expr.clone().unalias()]).alias(format!("first value of {i}")),
            );
        }
    }
    if !changed {
        return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
    }
    let mut keys = group_keys(&aggregate.group_expr, schema)?;
    let is_grouping_set = matches!(keys[..], [Expr::GroupingSet(_)]);
    // Two names of one value have one key. Of each the number of its column.
    let places: Vec<usize> = match is_grouping_set {
        true => (0..groups.len()).collect(),
        false => once_each(&mut keys),
    };
    let doubled = if is_grouping_set { 0 } else { groups.len() - keys.len() };
    let below = Aggregate::try_new(input, keys, aggregates)?;
    let columns = below.schema.columns();
    let computed = groups.len() - doubled + usize::from(is_grouping_set);
    let mut shown = Vec::with_capacity(aggregate.schema.fields().len());
    for (i, first) in firsts.into_iter().enumerate() {
        let key = Expr::Column(columns[places[i]].clone());
        let value = match first.map(|first| Expr::Column(columns[computed + first].clone())) {
            None => key,
            Some(first) if !is_grouping_set => first,
            // A set that leaves the expression out has values of it all the same, and no key.
            Some(first) => when(key.is_not_null(), first).end()?,
        };
        shown.push((i, value));
    }
    // The number of the grouping set is for the analyzer alone, which looks for it in the aggregate.
    let results = computed + doubled..aggregate.schema.fields().len();
    shown.extend(results.map(|i| (i, Expr::Column(columns[i - doubled].clone()))));
    renamed(LogicalPlan::Aggregate(below), shown, &aggregate.schema)
}

/// Leaves out what is there already, and gives the place of each.
fn once_each(keys: &mut Vec<Expr>) -> Vec<usize> {
    let mut first: Vec<Expr> = Vec::with_capacity(keys.len());
    let place = |key: Expr| {
        first.iter().position(|known| *known == key).unwrap_or_else(|| {
            first.push(key);
            first.len() - 1
        })
    };
    let places = std::mem::take(keys).into_iter().map(place).collect();
    *keys = first;
    places
}

/// What to group by, in the same grouping sets.
fn group_keys(exprs: &[Expr], schema: &DFSchema) -> Result<Vec<Expr>> {
    let all = |exprs: &[Expr]| Ok(all_keyed(exprs.to_vec(), schema)?.data);
    if let [Expr::GroupingSet(set)] = exprs {
        return Ok(vec![Expr::GroupingSet(match set {
            GroupingSet::Rollup(exprs) => GroupingSet::Rollup(all(exprs)?),
            GroupingSet::Cube(exprs) => GroupingSet::Cube(all(exprs)?),
            GroupingSet::GroupingSets(sets) => {
                GroupingSet::GroupingSets(sets.iter().map(|set| all(set)).collect::<Result<_>>()?)
            }
        })]);
    }
    all(exprs)
}

/// What is shown of a plan, under the names that the columns of these numbers have in a schema.
fn renamed(
    plan: LogicalPlan,
    shown: Vec<(usize, Expr)>,
    names: &DFSchema,
) -> Result<Transformed<LogicalPlan>> {
    let named = |(i, value): (usize, Expr)| {
        let (relation, field) = names.qualified_field(i);
        match &value {
            Expr::Column(from) if from.relation.as_ref() == relation && from.name == *field.name() => value,
            _ => value.alias_qualified(relation.cloned(), field.name()),
        }
    };
    let exprs = shown.into_iter().map(named).collect();
    Ok(Transformed::yes(LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(plan))?)))
}

/// `count(DISTINCT x)` counts what differs, `grouping(x)` is about what is grouped by; our own aggregates mind that
/// themselves.
fn over_keys(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    expr.transform_up(|expr| match expr {
        Expr::AggregateFunction(AggregateFunction { func, mut params })
            if params.distinct && func.name() == "count" || func.name() == "grouping" =>
        {
            let args = all_keyed(std::mem::take(&mut params.args), schema)?;
            params.args = args.data;
            let expr = Expr::AggregateFunction(AggregateFunction { func, params });
            Ok(if args.transformed { Transformed::yes(expr) } else { Transformed::no(expr) })
        }
        other => Ok(Transformed::no(other)),
    })
}

fn distinct(input: Arc<LogicalPlan>) -> Result<Transformed<LogicalPlan>> {
    let columns = input.schema().columns().into_iter().map(Expr::Column).collect::<Vec<_>>();
    if !all_keyed(columns.clone(), input.schema())?.transformed {
        return Ok(Transformed::no(LogicalPlan::Distinct(Distinct::All(input))));
    }
    group(Aggregate::try_new(input, columns, vec![])?)
}

fn distinct_on(on: DistinctOn) -> Result<Transformed<LogicalPlan>> {
    let schema = Arc::clone(on.input.schema());
    let exprs = all_keyed(on.on_expr.clone(), &schema)?;
    let sorts = all_sorted(on.sort_expr.clone().unwrap_or_default(), &schema)?;
    if !exprs.transformed && !sorts.transformed {
        return Ok(Transformed::no(LogicalPlan::Distinct(Distinct::On(on))));
    }
    let sort_expr = on.sort_expr.is_some().then_some(sorts.data);
    let on = DistinctOn { on_expr: exprs.data, sort_expr, ..on };
    Ok(Transformed::yes(LogicalPlan::Distinct(Distinct::On(on))))
}

fn join_keys(mut join: Join) -> Result<Transformed<LogicalPlan>> {
    let mut changed = false;
    for (left, right) in &mut join.on {
        for (side, schema) in [(left, join.left.schema()), (right, join.right.schema())] {
            let key = keyed(side.clone(), schema)?;
            changed |= key.transformed;
            *side = key.data;
        }
    }
    let plan = LogicalPlan::Join(join);
    Ok(if changed { Transformed::yes(plan) } else { Transformed::no(plan) })
}

fn order(mut sort: Sort) -> Result<Transformed<LogicalPlan>> {
    let exprs = all_sorted(std::mem::take(&mut sort.expr), sort.input.schema())?;
    let exprs = items_ordered(exprs, sort.input.schema())?;
    sort.expr = exprs.data;
    let plan = LogicalPlan::Sort(sort);
    Ok(if exprs.transformed { Transformed::yes(plan) } else { Transformed::no(plan) })
}

fn windows(window: Window) -> Result<Transformed<LogicalPlan>> {
    let schema = Arc::clone(window.input.schema());
    let mut changed = false;
    let mut exprs = Vec::with_capacity(window.window_expr.len());
    for expr in &window.window_expr {
        let expr = expr.clone().transform_up(|expr| match expr {
            Expr::WindowFunction(function) => window_keys(function, &schema),
            other => Ok(Transformed::no(other)),
        })?;
        changed |= expr.transformed;
        exprs.push(expr.data);
    }
    if !changed {
        return Ok(Transformed::no(LogicalPlan::Window(window)));
    }
    let below = Window::try_new(exprs, Arc::clone(&window.input))?;
    let shown = below.schema.columns().into_iter().map(Expr::Column).enumerate().collect();
    renamed(LogicalPlan::Window(below), shown, &window.schema)
}

fn window_keys(mut function: Box<WindowFunction>, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let partitions = all_keyed(std::mem::take(&mut function.params.partition_by), schema)?;
    let orders = all_sorted(std::mem::take(&mut function.params.order_by), schema)?;
    let mut orders = items_ordered(orders, schema)?;
    for sort in &mut orders.data {
        if is_bytes(&sort.expr.get_type(schema)?) {
            let bytes = std::mem::take(&mut sort.expr);
            sort.expr = encode(bytes, lit("hex"));
            orders.transformed = true;
        }
    }
    let changed = partitions.transformed || orders.transformed;
    function.params.partition_by = partitions.data;
    function.params.order_by = orders.data;
    let expr = Expr::WindowFunction(function);
    Ok(if changed { Transformed::yes(expr) } else { Transformed::no(expr) })
}

/// The default frame of a window is a range, and DataFusion has no ranges of bytes. Their digits are in the same order.
fn is_bytes(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Binary | DataType::LargeBinary | DataType::FixedSizeBinary(_))
}

/// `x IN (SELECT …)`, which becomes a join later.
fn memberships(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let schemas: Vec<DFSchema> = plan.inputs().iter().map(|input| input.schema().as_ref().clone()).collect();
    let mut schema = DFSchema::empty();
    for input in &schemas {
        schema.merge(input);
    }
    plan.map_expressions(|expr| {
        expr.transform_up(|expr| match expr {
            Expr::InSubquery(membership) => membership_keys(membership, &schema),
            other => Ok(Transformed::no(other)),
        })
    })
}

fn membership_keys(membership: InSubquery, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let key = keyed(*membership.expr, schema)?;
    if !key.transformed {
        let membership = InSubquery { expr: Box::new(key.data), ..membership };
        return Ok(Transformed::no(Expr::InSubquery(membership)));
    }
    let Subquery { subquery, outer_ref_columns, spans } = membership.subquery;
    let columns = subquery.schema().columns().into_iter();
    let exprs = columns.map(|column| Key::call(Expr::Column(column))).collect();
    let subquery = Arc::new(LogicalPlan::Projection(Projection::try_new(exprs, subquery)?));
    let subquery = Subquery { subquery, outer_ref_columns, spans };
    let negated = membership.negated;
    Ok(Transformed::yes(Expr::InSubquery(InSubquery { expr: Box::new(key.data), subquery, negated })))
}
