//! Text of a client: split into statements, parsed, prepared and planned over a table with a column of each type.
#![no_main]

use std::sync::{Arc, LazyLock};

use arrow::datatypes::Schema;
use datafusion::datasource::empty::EmptyTable;
use datafusion::execution::session_state::SessionState;
use datafusion::prelude::SessionContext;
use libfuzzer_sys::fuzz_target;
use tidemill_sql::statement::Statement;
use tidemill_sql::types::{Scalar, Type};
use tidemill_sql::{parse, planner};

static STATE: LazyLock<SessionState> = LazyLock::new(|| {
    let scalars = [
        Scalar::Bool, Scalar::Int2, Scalar::Int4, Scalar::Int8, Scalar::Float8, Scalar::Numeric, Scalar::Text,
        Scalar::Bytea, Scalar::Date, Scalar::Timestamptz, Scalar::Interval, Scalar::Uuid, Scalar::Jsonb,
    ];
    let columns = scalars.iter().flat_map(|s| [Type::new(*s).field(s.typname()), Type::array(*s).field(format!("{}s", s.typname()))]);
    let table = EmptyTable::new(Arc::new(Schema::new(columns.collect::<Vec<_>>())));
    let context = SessionContext::new_with_state(planner::session_state_builder().build());
    context.register_table("t", Arc::new(table)).expect("the default schema takes tables");
    context.state()
});

fuzz_target!(|text: &str| {
    let Ok(statements) = parse::parse(text) else { return };
    for parsed in statements {
        let Statement::Sql(mut statement) = parsed.statement else { continue };
        if planner::prepare(&mut statement, &STATE).is_err() {
            continue;
        }
        let statement = datafusion::sql::parser::Statement::Statement(statement);
        match futures::executor::block_on(STATE.statement_to_plan(statement)) {
            Ok(plan) => drop(STATE.optimize(&plan)),
            Err(error) => drop(planner::plan_error_in(error, text)),
        }
    }
});
