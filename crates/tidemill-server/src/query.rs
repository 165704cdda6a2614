//! Queries: plan, take a snapshot of the views that are read, run.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray};
use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::common::{ParamValues, ScalarValue};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use sqlparser::ast;
use tidemill_sql::function::cast;
use tidemill_sql::planner::{self, SessionVars, plan_error};
use tidemill_sql::types::{Scalar, Type, vector_oid};
use tidemill_sql::{Result, SqlError};
use tidemill_stream::view::state_views;

use crate::server::Server;
use crate::session::format_of;
use crate::system::{SessionInfo, Snapshots};
use crate::tables::{Relations, Streams};

/// A planner for one statement of one session.
pub fn state_for(server: &Arc<Server>, mut vars: SessionVars, session: SessionInfo) -> SessionState {
    let mut state = server.reading.clone();
    let path = &session.search_path;
    state.register_catalog_list(Relations::list(Arc::clone(&server.catalog), Streams::Refused, path));
    let snapshots = Arc::new(Snapshots::new(Arc::clone(server), session));
    vars.objects = Arc::clone(&snapshots) as _;
    state.config_mut().set_extension(snapshots);
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
    let plan = state.statement_to_plan(statement).await.map_err(|e| planner::plan_error_in(e, text))?;
    // Before anybody asks for the types of the columns.
    planner::unify_all(plan).map_err(plan_error)
}

/// A running query and the schema of its result.
pub struct Running {
    pub schema: SchemaRef,
    pub stream: SendableRecordBatchStream,
    /// What its functions have changed in the session is to be taken over at its end.
    pub snapshots: Option<Arc<Snapshots>>,
}

/// Executes a plan over one snapshot of all the views it reads.
pub async fn run(
    server: &Server,
    mut state: SessionState,
    plan: LogicalPlan,
    parameters: Vec<ScalarValue>,
) -> Result<Running> {
    let plan = match parameters.is_empty() {
        true => plan,
        false => plan.with_param_values(ParamValues::from(parameters)).map_err(plan_error)?,
    };
    let physical = state.create_physical_plan(&plan).await.map_err(plan_error)?;
    let views = state_views(&physical);
    let engine = Arc::clone(&server.engine);
    let snapshot = engine.snapshot(&views).map_err(|e| e.into_sql(plan_error))?;
    let config = state.config().clone().with_extension(Arc::new(snapshot));
    *state.config_mut() = config;
    let stream = datafusion::physical_plan::execute_stream(physical, state.task_ctx()).map_err(plan_error)?;
    let snapshots = state.config().get_extension::<Snapshots>();
    Ok(Running { schema: stream.schema(), stream, snapshots })
}

impl Running {
    /// Numbers of objects as text columns of their names, and vectors as theirs, where the client wants text.
    pub fn with_names(&self, batch: RecordBatch, formats: &[i16]) -> Result<RecordBatch> {
        let shown = |i: usize| {
            let field = self.schema.field(i);
            let ty = Type::of_field(field).ok()?;
            let special = ty.scalar.is_object_name() || vector_oid(field).is_some();
            (special && format_of(formats, i) == 0).then_some(ty)
        };
        let Some(snapshots) = &self.snapshots else { return Ok(batch) };
        if !(0..batch.num_columns()).any(|i| shown(i).is_some()) {
            return Ok(batch);
        }
        let vars = SessionVars { objects: Arc::clone(snapshots) as _, ..SessionVars::default() };
        let mut fields = Vec::with_capacity(batch.num_columns());
        let mut columns = Vec::with_capacity(batch.num_columns());
        for (i, (column, field)) in batch.columns().iter().zip(self.schema.fields()).enumerate() {
            let text = match shown(i) {
                None => {
                    fields.push(Arc::clone(field));
                    columns.push(Arc::clone(column));
                    continue;
                }
                Some(ty) if vector_oid(field).is_some() => vectors(column, ty, &vars)?,
                Some(ty) => {
                    let text = Type { array: ty.array, ..Type::new(Scalar::Text) };
                    cast::cast(column, ty, text, true, &vars)?
                }
            };
            fields.push(Arc::new(Field::new(field.name(), text.data_type().clone(), true)));
            columns.push(text);
        }
        let schema = Arc::new(Schema::new(fields));
        RecordBatch::try_new(schema, columns).map_err(|e| SqlError::internal(e.to_string()))
    }
}

/// `{1,2}` as `1 2`.
fn vectors(column: &ArrayRef, ty: Type, vars: &SessionVars) -> Result<ArrayRef> {
    let text = cast::cast(column, ty, Type::new(Scalar::Text), true, vars)?;
    let spaced = |array: &str| array.trim_matches(['{', '}']).replace(',', " ");
    Ok(Arc::new(text.as_string::<i32>().iter().map(|array| array.map(spaced)).collect::<StringArray>()))
}
