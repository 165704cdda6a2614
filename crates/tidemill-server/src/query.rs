//! Queries: plan, take a snapshot of the views that are read, run.

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use datafusion::common::{ParamValues, ScalarValue};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::SessionState;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::LogicalPlan;
use sqlparser::ast;
use tidemill_sql::planner::{self, SessionVars, plan_error};
use tidemill_sql::{Result, SqlError};
use tidemill_stream::view::{Snapshot, state_views};

use crate::memory::QueryMemory;
use crate::server::Server;
use crate::system::{SessionInfo, Snapshots};
use crate::tables::{Relations, Streams};

/// A planner for one statement of one session.
pub fn state_for(server: &Arc<Server>, vars: SessionVars, session: SessionInfo) -> SessionState {
    let mut state = server.reading.clone();
    let path = &session.search_path;
    state.register_catalog_list(Relations::list(Arc::clone(&server.catalog), Streams::Refused, path));
    state.config_mut().set_extension(Arc::new(Snapshots::new(Arc::clone(server), session)));
    state.config_mut().options_mut().extensions.insert(vars);
    state.mark_start_execution();
    state
}

/// Plans a statement that is none of ours; everything but queries is refused.
pub async fn plan(state: &SessionState, statement: &ast::Statement, text: &str) -> Result<LogicalPlan> {
    let is_query = matches!(statement, ast::Statement::Query(_) | ast::Statement::Explain { .. });
    if !is_query {
        let words: Vec<_> = text.split_whitespace().take(2).map(str::to_uppercase).collect();
        return Err(SqlError::unsupported(format!("{} is not supported", words.join(" ")))
            .with_position(1)
            .with_hint("docs/compat.md lists what is."));
    }
    let mut statement = statement.clone();
    planner::prepare_text(&mut statement, text, state)?;
    let statement = datafusion::sql::parser::Statement::Statement(Box::new(statement));
    state.statement_to_plan(statement).await.map_err(|e| planner::plan_error_in(e, text))
}

/// A running query and the schema of its result.
pub struct Running {
    pub schema: SchemaRef,
    pub stream: SendableRecordBatchStream,
}

/// Executes a plan over one snapshot of all the views it reads: the one given, or one of this moment.
pub async fn run(
    server: &Server,
    mut state: SessionState,
    plan: LogicalPlan,
    parameters: Vec<ScalarValue>,
    snapshot: Option<Arc<Snapshot>>,
    memory_limit_bytes: usize,
) -> Result<Running> {
    let plan = match parameters.is_empty() {
        true => plan,
        false => plan.with_param_values(ParamValues::from(parameters)).map_err(plan_error)?,
    };
    let physical = state.create_physical_plan(&plan).await.map_err(plan_error)?;
    let snapshot = match snapshot {
        Some(snapshot) => snapshot,
        None => {
            let views = state_views(&physical);
            Arc::new(server.engine.snapshot(&views).map_err(|e| e.into_sql(plan_error))?)
        }
    };
    let config = state.config().clone().with_extension(snapshot);
    *state.config_mut() = config;
    let pool = QueryMemory::new(Arc::clone(&server.memory), memory_limit_bytes);
    let runtime = RuntimeEnvBuilder::from_runtime_env(state.runtime_env()).with_memory_pool(Arc::new(pool));
    let context = TaskContext::from(&state).with_runtime(runtime.build_arc().map_err(plan_error)?);
    let stream =
        datafusion::physical_plan::execute_stream(physical, Arc::new(context)).map_err(plan_error)?;
    Ok(Running { schema: stream.schema(), stream })
}
