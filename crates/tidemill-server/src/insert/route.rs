//! The way of a transform's rows into a stream or a table: as INSERT … SELECT, by the place of their columns.

use arrow::array::RecordBatch;
use arrow::datatypes::Schema;
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use sqlparser::ast;
use tidemill_sql::function::cast;
use tidemill_sql::planner::SessionVars;
use tidemill_sql::planner::coerce::check_assignable;
use tidemill_sql::text::Context;
use tidemill_sql::types::{Scalar, Type};
use tidemill_sql::{Result, SqlError};
use tidemill_stream::stream::{ARRIVAL, ARRIVAL_COLUMN, StreamId};
use tidemill_stream::transform::{Output, TransformPlan};

use super::{Fill, Target, check_item, position_of_item};

#[derive(Debug)]
pub struct Route {
    target: Target,
    columns: Vec<Routed>,
    fill: Fill,
}

/// A column of the rows.
#[derive(Debug)]
struct Routed {
    item: usize,
    place: usize,
    /// Of the rows, and of the target.
    types: (Type, Type),
}

impl Route {
    /// For the rows of `plan`, whose query is at hand for the places of errors. A column named as the time of arrival is that,
    /// wherever it stands; the others are written in their order.
    pub async fn plan(
        target: Target,
        plan: &TransformPlan,
        query: &ast::Query,
        defining: &SessionState,
    ) -> Result<Route> {
        let places = target.columns(&[])?;
        let mut columns = Vec::new();
        for (item, field) in plan.schema.fields().iter().enumerate().filter(|(i, _)| *i != plan.arrival) {
            let Some((place, to)) = places.get(columns.len()).copied().flatten() else {
                return Err(too_many(&target, &plan.schema, position_of_item(query, item)));
            };
            let from = Type::of_field(field)?;
            check_item(&target, query, item, field, (place, to))?;
            columns.push(Routed { item, place, types: (from, to) });
        }
        let timestamptz = Type::new(Scalar::Timestamptz);
        let arrival =
            plan.schema.fields().get(plan.arrival).map(|field| Type::of_field(field)).transpose()?;
        if let Some(from) = arrival {
            check_assignable(ARRIVAL, timestamptz, from, position_of_item(query, plan.arrival))?;
        }
        let types = (arrival.unwrap_or(timestamptz), timestamptz);
        columns.push(Routed { item: plan.arrival, place: ARRIVAL_COLUMN, types });
        let is_written = |place| columns.iter().any(|column| column.place == place);
        let fill = match target.table() {
            Some(table) => {
                let (fill, others) = Fill::of(table, is_written);
                fill.with_computed(others, &at_each_event(defining)).await?
            }
            None => Fill::none(),
        };
        Ok(Route { target, columns, fill })
    }
}

fn too_many(target: &Target, schema: &Schema, position: Option<usize>) -> SqlError {
    let object = &target.stream().object;
    let error =
        SqlError::syntax("a continuous transform has more columns than its output").with_detail(format!(
            "It has {}, \"{}\" has {}.",
            schema.fields().iter().filter(|field| field.name() != ARRIVAL).count(),
            object.name,
            object.columns.len(),
        ));
    match position {
        Some(position) => error.with_position(position),
        None => error,
    }
}

/// A planner that leaves the time as something to be asked for.
fn at_each_event(defining: &SessionState) -> SessionState {
    SessionStateBuilder::new_from_existing(defining.clone())
        .with_optimizer_rules(vec![])
        .with_physical_optimizer_rules(vec![])
        .build()
}

impl Output for Route {
    fn stream(&self) -> StreamId {
        self.target.stream().id()
    }

    fn events(&self, rows: &RecordBatch) -> Result<RecordBatch> {
        let (stream, vars) = (self.target.stream(), SessionVars::default());
        let mut arrays = vec![None; stream.width()];
        for Routed { item, place, types: (from, to) } in &self.columns {
            arrays[*place] = Some(cast::cast(rows.column(*item), *from, *to, false, &vars)?);
        }
        let context = Context { now: vars.transaction_now.clone(), zone: vars.zone.clone() };
        self.fill.apply(&mut arrays, rows.num_rows(), &context, || vars)?;
        let events = stream.events(arrays, rows.num_rows(), context.now.us())?;
        self.target.check(&events, &context).map_err(|(_, error)| error)?;
        stream.count(events.num_rows(), events.get_array_memory_size());
        Ok(events)
    }
}
