//! `combine(x)` and what belongs to it: the view whose column `x` is, and its states in the place of what it shows.
//!
//! ```text
//! Aggregate: combine(v.avg)        Aggregate: merge of avg(integer) (v."avg (state)")
//!   Filter: v.k > 1           =>     Filter: v.k > 1
//!     TableScan: v                     TableScan: v, with "avg (state)"
//! ```
//!
//! The column is followed down to the tables that it comes from, which may be foreign ones, and the states are carried up
//! the same way.

use std::sync::Arc;

use datafusion::catalog::TableProvider;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema};
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::expr::{AggregateFunction, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    Aggregate, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, Projection, SubqueryAlias, TableScan,
    Union, WindowFunctionDefinition,
};
use futures::FutureExt;
use futures::future::BoxFuture;
use tidemill_federation::view_state;
use tidemill_sql::aggregate::combine::{Combination, merged, not_combinable, written};
use tidemill_sql::aggregate::{PARTIAL_STATE, StateForm};
use tidemill_sql::planner::plan_error;
use tidemill_sql::{Result, SqlError, SqlState};
use tidemill_stream::view::as_view;

type PlanResult<T> = datafusion::error::Result<T>;

/// The plan with states where calls want them.
pub async fn resolve(mut plan: LogicalPlan, session: &SessionState) -> Result<LogicalPlan> {
    while let Some((found, wanted)) = first_call(&plan)? {
        let states = Carrier { session, name: wanted.name };
        let replaced = match &found {
            LogicalPlan::Aggregate(node) => {
                let shown = states.carried(&node.input, &wanted.columns).await?;
                aggregate(node, &wanted.columns, shown)
            }
            LogicalPlan::Projection(node) => {
                let shown = states.carried(&node.input, &wanted.columns).await?;
                projection(node, &wanted.columns, shown)
            }
            _ => return Err(SqlError::internal("a node that calls no functions wants states")),
        };
        let replaced = replaced.map_err(plan_error)?;
        let replace = |node: LogicalPlan| {
            Ok(match node == found {
                true => Transformed::new(replaced.clone(), true, TreeNodeRecursion::Jump),
                false => Transformed::no(node),
            })
        };
        plan = plan.transform_down_with_subqueries(replace).data().map_err(plan_error)?;
    }
    Ok(plan)
}

/// The states that the calls of a node want.
struct Wanted {
    /// Of the first call.
    name: &'static str,
    columns: Vec<Column>,
}

/// A node with such calls.
fn first_call(plan: &LogicalPlan) -> Result<Option<(LogicalPlan, Wanted)>> {
    let (mut found, mut problem) = (None, None);
    let visit = |node: &LogicalPlan| {
        let calls = match node {
            LogicalPlan::Aggregate(aggregate) => calls(&aggregate.aggr_expr),
            LogicalPlan::Projection(projection) => calls(&projection.expr),
            _ => misplaced(node),
        };
        match calls {
            Ok(None) => return Ok(TreeNodeRecursion::Continue),
            Ok(Some(wanted)) => found = Some((node.clone(), wanted)),
            Err(error) => problem = Some(error),
        }
        Ok(TreeNodeRecursion::Stop)
    };
    plan.apply_with_subqueries(visit).map_err(plan_error)?;
    match problem {
        Some(error) => Err(error),
        None => Ok(found),
    }
}

/// Elsewhere there are no states to be had.
fn misplaced(node: &LogicalPlan) -> Result<Option<Wanted>> {
    let mut name = None;
    let mut visit = |expr: &Expr| {
        name = match expr {
            Expr::WindowFunction(window) => match &window.fun {
                WindowFunctionDefinition::AggregateUDF(function) => written(function).map(Combination::name),
                WindowFunctionDefinition::WindowUDF(_) => None,
            },
            expr => call(expr).map(|(name, _)| name),
        };
        Ok(if name.is_some() { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    };
    node.apply_expressions(|expr| expr.apply(&mut visit)).map_err(plan_error)?;
    name.map_or(Ok(None), |name| Err(not_combinable(name)))
}

/// The function that an expression calls, and its arguments.
fn call(expr: &Expr) -> Option<(&'static str, &[Expr])> {
    match expr {
        Expr::AggregateFunction(call) => Some((written(&call.func)?.name(), &call.params.args)),
        Expr::ScalarFunction(call) if call.name() == PARTIAL_STATE && !is_state(call) => {
            Some((PARTIAL_STATE, &call.args))
        }
        _ => None,
    }
}

/// Whether it has got its states.
fn is_state(call: &ScalarFunction) -> bool {
    StateForm::is_encoding(&call.func)
}

fn calls(exprs: &[Expr]) -> Result<Option<Wanted>> {
    let (mut wanted, mut problem): (Option<Wanted>, _) = (None, None);
    let mut visit = |expr: &Expr| {
        let Some((name, arguments)) = call(expr) else { return Ok(TreeNodeRecursion::Continue) };
        problem = match expr {
            Expr::AggregateFunction(AggregateFunction { params, .. })
                if params.distinct || !params.order_by.is_empty() =>
            {
                Some(SqlError::unsupported(format!("{name} with DISTINCT or ORDER BY is not supported")))
            }
            _ => None,
        };
        match arguments {
            [Expr::Column(column)] => {
                let wanted = wanted.get_or_insert(Wanted { name, columns: vec![] });
                if !wanted.columns.contains(column) {
                    wanted.columns.push(column.clone());
                }
            }
            _ => problem = Some(not_combinable(name)),
        }
        Ok(if problem.is_some() { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    };
    for expr in exprs {
        expr.apply(&mut visit).map_err(plan_error)?;
    }
    problem.map_or(Ok(wanted), Err)
}

/// A plan with the states of some of its columns.
struct Carried {
    plan: LogicalPlan,
    states: Vec<States>,
}

/// The column that has the states of another.
#[derive(Clone)]
struct States {
    column: Column,
    form: Arc<StateForm>,
    /// They are bytes, as they come from another server.
    is_encoded: bool,
}

impl States {
    fn expr(&self) -> Expr {
        Expr::Column(self.column.clone())
    }

    fn encoded(&self) -> Expr {
        if self.is_encoded { self.expr() } else { self.form.encoding().call(vec![self.expr()]) }
    }
}

fn aggregate(node: &Aggregate, columns: &[Column], shown: Carried) -> PlanResult<LogicalPlan> {
    let names = NamePreserver::new_for_projection();
    let schema = node.input.schema();
    let replace = |expr: Expr| {
        let Expr::AggregateFunction(call) = &expr else { return Ok(Transformed::no(expr)) };
        let (Some(combination), [Expr::Column(column)]) = (written(&call.func), call.params.args.as_slice())
        else {
            return Ok(Transformed::no(expr));
        };
        let Some(place) = columns.iter().position(|wanted| wanted == column) else {
            return Ok(Transformed::no(expr));
        };
        let (_, returns) = expr.to_field(schema)?;
        let states = &shown.states[place];
        let mut call = call.clone();
        call.func = Arc::new(merged(&states.form, states.is_encoded, combination, &returns));
        call.params.args = vec![states.expr()];
        Ok(Transformed::yes(Expr::AggregateFunction(call)))
    };
    let replaced = node.aggr_expr.iter().map(|expr| {
        let name = names.save(expr);
        Ok(name.restore(expr.clone().transform_up(replace).data()?))
    });
    let replaced = replaced.collect::<PlanResult<_>>()?;
    Aggregate::try_new(Arc::new(shown.plan), node.group_expr.clone(), replaced).map(LogicalPlan::Aggregate)
}

fn projection(node: &Projection, columns: &[Column], shown: Carried) -> PlanResult<LogicalPlan> {
    let names = NamePreserver::new_for_projection();
    let replace = |expr: Expr| {
        let Some((_, [Expr::Column(column)])) = call(&expr) else { return Ok(Transformed::no(expr)) };
        let place = columns.iter().position(|wanted| wanted == column);
        Ok(place.map_or(Transformed::no(expr), |place| Transformed::yes(shown.states[place].encoded())))
    };
    let replaced = node.expr.iter().map(|expr| {
        let name = names.save(expr);
        Ok(name.restore(expr.clone().transform_up(replace).data()?))
    });
    let replaced = replaced.collect::<PlanResult<_>>()?;
    Projection::try_new(replaced, Arc::new(shown.plan)).map(LogicalPlan::Projection)
}

/// Carries states up to a call.
struct Carrier<'a> {
    session: &'a SessionState,
    /// Of the call.
    name: &'static str,
}

impl Carrier<'_> {
    /// The plan with the states of these of its columns, in their order.
    fn carried<'p>(&'p self, plan: &'p LogicalPlan, columns: &'p [Column]) -> BoxFuture<'p, Result<Carried>> {
        async move {
            let places = columns.iter().map(|column| plan.schema().index_of_column(column));
            let places: Vec<usize> = places.collect::<PlanResult<_>>().map_err(plan_error)?;
            match plan {
                LogicalPlan::TableScan(scan) => self.of_table(scan, &places).await,
                LogicalPlan::SubqueryAlias(alias) => {
                    let below = self.carried(&alias.input, &at(alias.input.schema(), &places)).await?;
                    aliased(alias, below).map_err(plan_error)
                }
                LogicalPlan::Projection(node) => self.through_projection(node, &places).await,
                LogicalPlan::Union(union) => self.through_union(union, &places).await,
                LogicalPlan::Filter(_)
                | LogicalPlan::Join(_)
                | LogicalPlan::Sort(_)
                | LogicalPlan::Limit(_)
                | LogicalPlan::Window(_) => self.by_name(plan, columns).await,
                _ => Err(not_combinable(self.name)),
            }
        }
        .boxed()
    }

    async fn of_table(&self, scan: &TableScan, places: &[usize]) -> Result<Carried> {
        let mut table = source_as_provider(&scan.source).map_err(plan_error)?;
        let mut projection = scan.projection.clone();
        let mut states = Vec::with_capacity(places.len());
        for place in places {
            let place = scan.projection.as_ref().map_or(Some(*place), |shown| shown.get(*place).copied());
            let place = place.ok_or_else(|| not_combinable(self.name))?;
            let (with_state, form, is_encoded) = match as_view(table.as_ref()) {
                Some(view) => {
                    let found = view.with_state(place).map_err(plan_error)?;
                    let (table, form) = found.ok_or_else(|| not_combinable(self.name))?;
                    (Arc::new(table) as Arc<dyn TableProvider>, form, false)
                }
                None => {
                    let found = view_state::with_state(&table, place, self.session).await;
                    let (table, form) = found.unwrap_or_else(|| Err(not_combinable(self.name)))?;
                    (table, form, true)
                }
            };
            let schema = with_state.schema();
            let last = schema.fields().len() - 1;
            projection = projection.map(|shown| shown.into_iter().chain([last]).collect());
            let column = Column::new(Some(scan.table_name.clone()), schema.field(last).name());
            states.push(States { column, form, is_encoded });
            table = with_state;
        }
        let plan = LogicalPlanBuilder::scan(scan.table_name.clone(), provider_as_source(table), projection);
        let plan = plan.and_then(LogicalPlanBuilder::build).map_err(plan_error)?;
        Ok(Carried { plan, states })
    }

    async fn through_projection(&self, node: &Projection, places: &[usize]) -> Result<Carried> {
        let columns = places.iter().map(|place| match node.expr[*place].clone().unalias() {
            Expr::Column(column) => Ok(column),
            _ => Err(not_combinable(self.name)),
        });
        let Carried { plan, mut states } =
            self.carried(&node.input, &columns.collect::<Result<Vec<_>>>()?).await?;
        let mut exprs = node.expr.clone();
        for state in &mut states {
            let taken = |name: &str| exprs.iter().any(|expr| expr.schema_name().to_string() == name);
            let mut name = state.column.name.clone();
            while taken(&name) || !node.schema.fields_with_unqualified_name(&name).is_empty() {
                name.push('\'');
            }
            exprs.push(state.expr().alias(&name));
            state.column = Column::new_unqualified(name);
        }
        let plan = Projection::try_new(exprs, Arc::new(plan)).map_err(plan_error)?;
        Ok(Carried { plan: LogicalPlan::Projection(plan), states })
    }

    /// All sides show the same aggregates.
    async fn through_union(&self, union: &Union, places: &[usize]) -> Result<Carried> {
        let mut sides = Vec::with_capacity(union.inputs.len());
        for input in &union.inputs {
            sides.push((input.schema(), self.carried(input, &at(input.schema(), places)).await?));
        }
        let forms: Vec<_> = sides.first().map(|(_, side)| &side.states[..]).unwrap_or_default().to_vec();
        for (_, side) in &sides {
            for (first, other) in forms.iter().zip(&side.states) {
                if first.form != other.form {
                    let (first, other) = (first.form.layout(), other.form.layout());
                    let message = format!("states of {first} and {other} cannot be combined");
                    return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message));
                }
            }
        }
        let width = union.schema.fields().len();
        let aligned = sides.into_iter().map(|(schema, side)| {
            let own = schema.columns().into_iter().map(Expr::Column);
            let states = side.states.iter().enumerate();
            let states = states.map(|(i, states)| states.encoded().alias(format!("state {i}")));
            Projection::try_new(own.chain(states).collect(), Arc::new(side.plan))
                .map(|side| Arc::new(LogicalPlan::Projection(side)))
        });
        let plan = aligned.collect::<PlanResult<Vec<_>>>().and_then(Union::try_new);
        let plan = LogicalPlan::Union(plan.map_err(plan_error)?);
        let columns = at(plan.schema(), &(width..width + forms.len()).collect::<Vec<_>>());
        let carried = forms.into_iter().zip(columns);
        let states = carried.map(|(states, column)| States { column, is_encoded: true, ..states }).collect();
        Ok(Carried { plan, states })
    }

    /// Through a node whose columns are those of the nodes below.
    async fn by_name(&self, plan: &LogicalPlan, columns: &[Column]) -> Result<Carried> {
        let mut found: Vec<Option<States>> = vec![None; columns.len()];
        let mut inputs = Vec::new();
        for input in plan.inputs() {
            let is_own = |i: &usize| found[*i].is_none() && input.schema().has_column(&columns[*i]);
            let own: Vec<usize> = (0..columns.len()).filter(is_own).collect();
            if own.is_empty() {
                inputs.push(input.clone());
                continue;
            }
            let wanted: Vec<_> = own.iter().map(|i| columns[*i].clone()).collect();
            let below = self.carried(input, &wanted).await?;
            for (i, states) in own.into_iter().zip(below.states) {
                found[i] = Some(states);
            }
            inputs.push(below.plan);
        }
        let states =
            found.into_iter().collect::<Option<Vec<_>>>().ok_or_else(|| not_combinable(self.name))?;
        let plan = plan.with_new_exprs(plan.expressions(), inputs).and_then(LogicalPlan::recompute_schema);
        Ok(Carried { plan: plan.map_err(plan_error)?, states })
    }
}

fn at(schema: &DFSchema, places: &[usize]) -> Vec<Column> {
    places.iter().map(|place| Column::from(schema.qualified_field(*place))).collect()
}

fn aliased(alias: &SubqueryAlias, below: Carried) -> PlanResult<Carried> {
    let plan = SubqueryAlias::try_new(Arc::new(below.plan), alias.alias.clone())?;
    let named = |states: States| {
        let column = Column::new(Some(alias.alias.clone()), states.column.name);
        States { column, ..states }
    };
    let states = below.states.into_iter().map(named).collect();
    Ok(Carried { plan: LogicalPlan::SubqueryAlias(plan), states })
}
