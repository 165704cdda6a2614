//! Set operations as relations: whoever reads their columns has to know the types that they have in the end.
//!
//! DataFusion's SQL planner gives a set operation the types of its first query, and the analyzer the right ones when
//! all else is planned. So what stands in FROM gets its types as soon as it is planned, and what stands elsewhere is
//! put into FROM.
//!
//! ```text
//! WITH x AS (SELECT 1 AS n UNION SELECT 2.5) SELECT n + 1 FROM x
//! => WITH x AS (SELECT * FROM (SELECT 1 AS n UNION SELECT 2.5) AS …) SELECT n + 1 FROM x
//! ```

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::Spans;
use datafusion::error::Result;
use datafusion::logical_expr::logical_plan::Subquery;
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use sqlparser::ast::{
    Ident, Query, Select, SelectItem, SetExpr, TableAlias, TableFactor, TableSample, TableSampleKind,
    TableSampleModifier, With,
};

use super::unify_all;
use crate::planner::{correlated, from_function, name};

const NAME: &str = "tidemill set operation";
/// Of a branch whose columns are to have names of their own.
const BRANCH: &str = "tidemill branch";

#[derive(Debug)]
pub(crate) struct SetOperations;

impl RelationPlanner for SetOperations {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        match relation {
            TableFactor::Derived { lateral, subquery, alias: Some(alias), sample: None }
                if alias.name.value == BRANCH =>
            {
                let plain = TableFactor::Derived { lateral, subquery, alias: None, sample: mark() };
                let plan = named_apart(context.plan(plain)?)?;
                Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, None))))
            }
            TableFactor::Derived { lateral, subquery, alias, sample: None }
                if lateral || is_operation(&subquery) =>
            {
                let marked = TableFactor::Derived { lateral, subquery, alias: None, sample: mark() };
                let plan = unify_all(context.plan(marked)?)?;
                let planned = match lateral {
                    true => of_lateral(plan, alias)?,
                    false => PlannedRelation::new(plan, alias),
                };
                Ok(RelationPlanning::Planned(Box::new(planned)))
            }
            // This is what was asked for above.
            TableFactor::Derived { lateral, subquery, alias, sample: Some(_) } => {
                let plain = TableFactor::Derived { lateral, subquery, alias, sample: None };
                Ok(RelationPlanning::Original(Box::new(plain)))
            }
            other => Ok(RelationPlanning::Original(Box::new(other))),
        }
    }
}

/// DataFusion sees that a lateral subquery refers to what is around it, but not that only a subquery in it does.
fn of_lateral(mut plan: LogicalPlan, mut alias: Option<TableAlias>) -> Result<PlannedRelation> {
    let is_seen = !plan.all_out_ref_exprs().is_empty() || correlated::free_columns(&plan).is_empty();
    // How many names there have to be DataFusion says.
    let named = alias.as_mut().filter(|alias| {
        let names = alias.columns.len();
        names == 0 || names == plan.schema().fields().len()
    });
    let Some(named) = named.filter(|_| !is_seen) else { return Ok(PlannedRelation::new(plan, alias)) };
    let names = std::mem::take(&mut named.columns);
    if !names.is_empty() {
        let columns = plan.schema().columns().into_iter().map(Expr::Column).zip(&names);
        let columns: Vec<_> = columns.map(|(column, named)| column.alias(name::fold(&named.name))).collect();
        plan = LogicalPlanBuilder::from(plan).project(columns)?.build()?;
    }
    let (outer_ref_columns, spans) = (vec![], Spans::new());
    let subquery = Subquery { subquery: Arc::new(plan), outer_ref_columns, spans };
    Ok(PlannedRelation::new(LogicalPlan::Subquery(subquery), alias))
}

/// What no statement has: TABLESAMPLE is refused before.
fn mark() -> Option<TableSampleKind> {
    let sample = TableSample {
        modifier: TableSampleModifier::TableSample,
        name: None,
        quantity: None,
        seed: None,
        bucket: None,
        offset: None,
    };
    Some(TableSampleKind::BeforeTableAlias(Box::new(sample)))
}

fn is_operation(query: &Query) -> bool {
    match &*query.body {
        SetExpr::SetOperation { .. } => true,
        SetExpr::Query(inner) => is_operation(inner),
        _ => false,
    }
}

/// The queries of WITH that are set operations.
pub(crate) fn of_with(with: &mut With) {
    if !with.recursive {
        with.cte_tables.iter_mut().for_each(|table| in_from(&mut table.query));
    }
}

/// The branches of a set operation, whose columns are found by their names only. Nobody knows yet what `*` of several
/// relations stands for, so a branch with it gets a query around it.
pub(crate) fn name_branches(body: &mut SetExpr) {
    let SetExpr::SetOperation { left, right, .. } = body else { return };
    for branch in [left, right] {
        match &mut **branch {
            SetExpr::Select(select) if is_of_several(select) => {
                let query = from_function::query_of(SetExpr::Select(select.clone()));
                *select = select_from(query, BRANCH);
            }
            SetExpr::Select(select) => name::assign_branch(&mut select.projection),
            SetExpr::Query(query) => match &mut *query.body {
                SetExpr::Select(select) if is_of_several(select) => {
                    **branch = SetExpr::Select(select_from((**query).clone(), BRANCH));
                }
                SetExpr::Select(select) => name::assign_branch(&mut select.projection),
                _ => {}
            },
            operation => name_branches(operation),
        }
    }
}

fn is_of_several(select: &Select) -> bool {
    let is_several = select.from.len() > 1 || select.from.iter().any(|from| !from.joins.is_empty());
    is_several
        && select
            .projection
            .iter()
            .any(|item| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..)))
}

fn named_apart(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut seen = HashSet::new();
    let columns = plan.schema().columns().into_iter().map(|column| {
        let name = name::unique(&mut seen, &HashSet::new(), &column.name);
        Expr::Column(column).alias(name)
    });
    let columns: Vec<_> = columns.collect();
    LogicalPlanBuilder::from(plan).project(columns)?.build()
}

/// A query that is one gets a query around it.
pub(crate) fn in_from(query: &mut Query) {
    if is_operation(query) {
        *query = from_function::query_of(SetExpr::Select(select_from(query.clone(), NAME)));
    }
}

/// `SELECT * FROM (query) AS name`
fn select_from(query: Query, name: &str) -> Box<Select> {
    let name = Ident::with_quote('"', name);
    let alias = TableAlias { explicit: true, name, columns: vec![], at: None };
    let subquery = Box::new(query);
    from_function::all_from(TableFactor::Derived {
        lateral: false,
        subquery,
        alias: Some(alias),
        sample: None,
    })
}
