//! Text of a client: split into statements, parsed, prepared and planned over a table with a column of each type; continuous
//! views are made over a stream and a table of the same columns.
#![no_main]

use std::sync::{Arc, LazyLock};

use arrow::datatypes::Schema;
use datafusion::datasource::empty::EmptyTable;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::prelude::SessionContext;
use futures::executor::block_on;
use libfuzzer_sys::fuzz_target;
use tidemill_sql::parse::parse_query;
use tidemill_sql::statement::Statement;
use tidemill_sql::types::{Scalar, Type};
use tidemill_sql::{parse, planner, window_clause};
use tidemill_stream::stream::{StreamDefinition, StreamId, StreamTable};
use tidemill_stream::{transform, view};

const SCALARS: [Scalar; 13] = [
    Scalar::Bool, Scalar::Int2, Scalar::Int4, Scalar::Int8, Scalar::Float8, Scalar::Numeric, Scalar::Text,
    Scalar::Bytea, Scalar::Date, Scalar::Timestamptz, Scalar::Interval, Scalar::Uuid, Scalar::Jsonb,
];
/// What the views of the .slt files read, with the columns that they name.
const STREAMS: [&str; 4] = ["s", "s2", "reading", "n"];
const TABLES: [&str; 3] = ["t", "signal", "device"];
const NUMBERS: [&str; 10] = ["k", "v", "x", "j", "a", "b", "id", "factor", "device", "n"];

fn columns() -> Vec<(String, Type)> {
    let scalars = SCALARS.iter().flat_map(|s| {
        [(s.typname().to_string(), Type::new(*s)), (format!("{}s", s.typname()), Type::array(*s))]
    });
    let numbers = NUMBERS.iter().map(|name| (name.to_string(), Type::new(Scalar::Int4)));
    scalars.chain(numbers).chain([("name".to_string(), Type::new(Scalar::Text))]).collect()
}

fn context() -> SessionContext {
    let context = SessionContext::new_with_state(planner::session_state_builder().build());
    let schema = Schema::new(columns().iter().map(|(name, ty)| ty.field(name)).collect::<Vec<_>>());
    for name in TABLES {
        let table = EmptyTable::new(Arc::new(schema.clone()));
        context.register_table(name, Arc::new(table)).expect("the default schema takes tables");
    }
    context
}

static READING: LazyLock<SessionState> = LazyLock::new(|| context().state());
static DEFINING: LazyLock<SessionState> = LazyLock::new(|| {
    let context = context();
    for (id, name) in (1..).zip(STREAMS) {
        let stream = StreamDefinition { id: StreamId(id), name: name.into(), columns: columns() };
        context.register_table(name, Arc::new(StreamTable::new(&stream))).expect("the default schema takes streams");
    }
    context.state()
});

fn plan(mut statement: datafusion::sql::sqlparser::ast::Statement, text: &str, state: &SessionState) -> Option<LogicalPlan> {
    planner::prepare(&mut statement, state).ok()?;
    let statement = datafusion::sql::parser::Statement::Statement(Box::new(statement));
    block_on(state.statement_to_plan(statement)).map_err(|error| planner::plan_error_in(error, text)).ok()
}

fuzz_target!(|text: &str| {
    let Ok(statements) = parse::parse(text) else { return };
    for parsed in statements {
        match parsed.statement {
            Statement::Sql(statement) => {
                if let Some(plan) = plan(*statement, text, &READING) {
                    drop(READING.optimize(&plan));
                }
            }
            Statement::CreateView(create) => {
                let is_stream = |name: &datafusion::sql::sqlparser::ast::ObjectName| {
                    STREAMS.iter().any(|stream| name.to_string() == *stream)
                };
                if let Ok(query) = parse_query(&create.query_text) {
                    drop(planner::view_obstacle(&query, &create.query_text, &DEFINING, &is_stream));
                }
                let mut query = create.query;
                if window_clause::take(&mut query).is_err() {
                    continue;
                }
                let statement = datafusion::sql::sqlparser::ast::Statement::Query(query);
                if let Some(plan) = plan(statement, text, &DEFINING) {
                    drop(block_on(view::compile(&DEFINING, &plan, None)));
                    drop(block_on(transform::compile(&DEFINING, &plan)));
                }
            }
            _ => {}
        }
    }
});
