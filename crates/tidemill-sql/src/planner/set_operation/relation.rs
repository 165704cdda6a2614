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

use datafusion::error::Result;
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use sqlparser::ast::{
    Ident, Query, SetExpr, TableAlias, TableFactor, TableSample, TableSampleKind, TableSampleModifier, With,
};

use super::unify_all;
use crate::planner::from_function;

const NAME: &str = "tidemill set operation";

#[derive(Debug)]
pub(crate) struct SetOperations;

impl RelationPlanner for SetOperations {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        match relation {
            TableFactor::Derived { lateral, subquery, alias, sample: None } if is_operation(&subquery) => {
                let marked = TableFactor::Derived { lateral, subquery, alias: None, sample: mark() };
                let plan = unify_all(context.plan(marked)?)?;
                Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, alias))))
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

/// A query that is one gets a query around it.
pub(crate) fn in_from(query: &mut Query) {
    if !is_operation(query) {
        return;
    }
    let table = TableFactor::Derived {
        lateral: false,
        subquery: Box::new(query.clone()),
        alias: Some(TableAlias {
            explicit: true,
            name: Ident::with_quote('"', NAME),
            columns: vec![],
            at: None,
        }),
        sample: None,
    };
    *query = from_function::all_from(table);
}
