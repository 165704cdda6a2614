//! Queries: plan, take a snapshot of the views that are read, run.

pub mod aside;
mod combine;
mod generic;
pub(crate) mod kept;
pub mod threads;
mod whole;
pub mod wide;

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, StringArray};
use arrow::datatypes::{Field, Fields, Schema, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::common::metadata::{FieldMetadata, ScalarAndMetadata};
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::{ParamValues, ScalarValue};
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::execution::session_state::SessionState;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{FutureExt, StreamExt};
use parking_lot::Mutex;
use sqlparser::ast;
use tidemill_federation::cascade::Route;
use tidemill_federation::fact::Telling;
use tidemill_federation::node::Nodes;
use tidemill_federation::pushdown::Pushdown;
use tidemill_federation::transaction::Transactions;
use tidemill_sql::function::cast;
use tidemill_sql::planner::{self, SessionVars, plan_error};
use tidemill_sql::types::{Scalar, Type, vector_oid};
use tidemill_sql::{Result, SqlError, SqlState};
use tidemill_stream::engine::Written;
use tidemill_stream::view::{Snapshot, ViewId, state_views};

use crate::catalog::PlainView;
use crate::define::plain_view;
use crate::memory::QueryMemory;
use crate::server::Server;
use crate::session::format_of;
use crate::system::{SessionInfo, Snapshots};
use crate::tables::Relations;

pub use whole::rows;

pub use generic::PreparedQuery;

/// Views over views at most.
const VIEW_NESTING_MAX: usize = 32;

/// What plans one statement of one session, and the queries of the plain views that it reads.
#[derive(Clone)]
pub struct Planner {
    pub server: Arc<Server>,
    vars: SessionVars,
    snapshots: Arc<Snapshots>,
    /// How many views the query that is planned is inside of.
    depth: usize,
    /// Instead of what the session's settings say.
    pushdown: Option<Pushdown>,
    /// The user's relations that were looked up.
    reads: Arc<Mutex<Vec<String>>>,
    /// What a relation of this name has instead of its rows.
    rows: Option<(String, Arc<dyn TableProvider>)>,
}

impl fmt::Debug for Planner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Planner").field("depth", &self.depth).finish_non_exhaustive()
    }
}

impl Planner {
    pub fn new(server: &Arc<Server>, mut vars: SessionVars, session: SessionInfo) -> Self {
        let snapshots = Arc::new(Snapshots::new(Arc::clone(server), session));
        vars.objects = Arc::clone(&snapshots) as _;
        Self {
            server: Arc::clone(server),
            vars,
            snapshots,
            depth: 0,
            pushdown: None,
            reads: Arc::default(),
            rows: None,
        }
    }

    /// As this one, where a relation has these rows.
    pub fn with_rows(self, name: &str, rows: Arc<dyn TableProvider>) -> Self {
        Self { rows: Some((name.to_string(), rows)), ..self }
    }

    /// The rows that a relation has here.
    pub fn rows_of(&self, name: &str) -> Option<Arc<dyn TableProvider>> {
        self.rows.as_ref().filter(|(known, _)| known == name).map(|(_, rows)| Arc::clone(rows))
    }

    /// What is left to foreign servers.
    pub fn pushdown(&self) -> Pushdown {
        self.pushdown.unwrap_or(self.snapshots.session().settings.current().pushdown)
    }

    /// As this one, whatever the settings keep from foreign servers.
    pub fn leaving_all_to_servers(self) -> Self {
        Self { pushdown: Some(Pushdown::default()), ..self }
    }

    /// What one query of the session may use.
    pub fn memory_limit_bytes(&self) -> usize {
        self.snapshots.session().settings.current().query_memory_limit_bytes
    }

    /// The schemas that the session looks names up in.
    pub fn search_path(&self) -> &[String] {
        &self.vars.search_path
    }

    pub fn state(&self) -> SessionState {
        let mut state = self.server.reading.clone();
        state.register_catalog_list(Relations::of_planner(self.clone(), &self.vars.search_path));
        state.config_mut().set_extension(Arc::clone(&self.snapshots));
        state.config_mut().options_mut().extensions.insert(self.vars.clone());
        self.pushdown().configure(state.config_mut().options_mut());
        let current = self.snapshots.session().settings.current();
        state.config_mut().set_extension(Arc::new(current.dead_nodes));
        state.config_mut().set_extension(Arc::<Telling>::default());
        state.config_mut().set_extension(Arc::new(Route::new(&self.server.identity, &current.cascade_route)));
        state.mark_start_execution();
        state
    }

    /// As this one, for the query of a view, which was written under this search path.
    pub fn inside_view(&self, search_path: &[String]) -> Self {
        let vars = SessionVars { search_path: search_path.to_vec(), ..self.vars.clone() };
        Self { vars, depth: self.depth + 1, reads: Arc::default(), ..self.clone() }
    }

    /// As this one, whatever the session's search path, zone and settings of pushdown are: for what others read too.
    pub fn for_all(&self) -> Self {
        let vars = SessionVars { objects: Arc::clone(&self.vars.objects), ..SessionVars::default() };
        Self { vars, pushdown: Some(Pushdown::default()), reads: Arc::default(), ..self.clone() }
    }

    pub fn note_read(&self, name: &str) {
        let mut reads = self.reads.lock();
        if !reads.iter().any(|read| read == name) {
            reads.push(name.to_string());
        }
    }

    /// The user's relations that the queries planned so far have named.
    pub fn reads(&self) -> Vec<String> {
        self.reads.lock().clone()
    }

    /// The query of a view, with the view's columns.
    pub async fn view(&self, view: &PlainView) -> Result<LogicalPlan> {
        if self.depth >= VIEW_NESTING_MAX {
            let message = format!("views are nested more than {VIEW_NESTING_MAX} deep");
            return Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, message));
        }
        let inside = self.inside_view(&view.object.search_path);
        let query = ast::Statement::Query(view.query.clone());
        let text = view.object.query.clone();
        // In a task of its own: views over views would take too much of one stack.
        let planned = SpawnedTask::spawn(async move { plan(&inside.state(), &query, &text).await });
        let planned = planned.join().await.map_err(|e| SqlError::internal(e.to_string()))?;
        // Positions are places in the view's text, not in the statement's.
        planned.and_then(|plan| plain_view::shown(plan, &view.object)).map_err(|mut error| {
            error.position = None;
            error.with_context(format!("view \"{}\"", view.object.name))
        })
    }
}

/// Plans a statement that is none of ours; everything but queries is refused.
pub async fn plan(state: &SessionState, statement: &ast::Statement, text: &str) -> Result<LogicalPlan> {
    plan_with(state, statement, text, &[]).await
}

/// As [`plan`], for a statement whose client has declared the types of some parameters.
pub async fn plan_with(
    state: &SessionState,
    statement: &ast::Statement,
    text: &str,
    parameters: &[Option<Type>],
) -> Result<LogicalPlan> {
    let is_query = matches!(statement, ast::Statement::Query(_));
    if !is_query {
        let words: Vec<_> = text.split_whitespace().take(2).map(str::to_uppercase).collect();
        return Err(SqlError::unsupported(format!("{} is not supported", words.join(" ")))
            .with_position(1)
            .with_hint("docs/compat.md lists what is."));
    }
    let mut statement = statement.clone();
    planner::prepare_text(&mut statement, text, parameters, state)?;
    let statement = datafusion::sql::parser::Statement::Statement(Box::new(statement));
    let plan = state.statement_to_plan(statement).await.map_err(|e| planner::plan_error_in(e, text))?;
    planner::check_doubled(&plan)?;
    // Before anybody asks for the types of the columns.
    let plan = planner::unify_all(plan).map_err(plan_error)?;
    combine::resolve(plan, state).await
}

/// A running query and the schema of its result.
pub struct Running {
    pub schema: SchemaRef,
    pub stream: SendableRecordBatchStream,
    /// What its functions have changed in the session is to be taken over at its end.
    pub snapshots: Option<Arc<Snapshots>>,
    /// The foreign tables that it reads.
    pub nodes: Option<Arc<Nodes>>,
}

/// What a query sees: the snapshot of its transaction, or one of the moment, and what the transaction has written.
#[derive(Default)]
pub struct Reads {
    pub snapshot: Option<Arc<Snapshot>>,
    pub written: Written,
    /// On foreign servers.
    pub foreign: Option<Arc<Transactions>>,
}

impl Reads {
    fn snapshot(self, server: &Server, views: &[ViewId]) -> Result<Arc<Snapshot>> {
        let taken = match self.snapshot {
            Some(snapshot) => snapshot,
            None => Arc::new(server.engine.snapshot(views).map_err(|e| e.into_sql(plan_error))?),
        };
        if self.written.is_empty() {
            return Ok(taken);
        }
        self.written.over(&taken).map(Arc::new).map_err(|e| e.into_sql(plan_error))
    }
}

/// Executes a plan over one snapshot of all the views and tables it reads.
pub async fn run(
    server: &Server,
    state: SessionState,
    plan: LogicalPlan,
    parameters: Vec<ScalarValue>,
    reads: Reads,
    memory_limit_bytes: usize,
) -> Result<Running> {
    ready(server, state, plan, parameters, reads, memory_limit_bytes).await?.run()
}

/// A query that only has to be started.
pub struct Ready {
    pub physical: Arc<dyn ExecutionPlan>,
    fields: Fields,
    context: TaskContext,
    snapshots: Option<Arc<Snapshots>>,
    nodes: Option<Arc<Nodes>>,
}

/// As [`run`], up to the start.
pub async fn ready(
    server: &Server,
    state: SessionState,
    plan: LogicalPlan,
    parameters: Vec<ScalarValue>,
    reads: Reads,
    memory_limit_bytes: usize,
) -> Result<Ready> {
    let fields = plan.schema().fields().clone();
    let physical = physical(&state, plan, parameters).await?;
    Ready::new(server, state, physical, fields, reads, memory_limit_bytes)
}

/// A plan with the values of its parameters, as it is carried out.
pub async fn physical(
    state: &SessionState,
    plan: LogicalPlan,
    parameters: Vec<ScalarValue>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let plan = match parameters.is_empty() {
        true => plan,
        false => {
            let parameters = typed(&plan, parameters)?;
            plan.with_param_values(ParamValues::List(parameters)).map_err(plan_error)?
        }
    };
    // Nothing is half done when a rule of the planner panics: the session goes on.
    match AssertUnwindSafe(state.create_physical_plan(&plan)).catch_unwind().await {
        Ok(planned) => planned.map_err(plan_error),
        Err(_) => Err(SqlError::internal("the query cannot be planned: the planner panicked")),
    }
}

impl Ready {
    /// `fields` are those of the logical plan.
    fn new(
        server: &Server,
        mut state: SessionState,
        physical: Arc<dyn ExecutionPlan>,
        fields: Fields,
        reads: Reads,
        memory_limit_bytes: usize,
    ) -> Result<Self> {
        let foreign_writes = reads.foreign.clone();
        let snapshot = reads.snapshot(server, &state_views(&physical))?;
        let mut config = state.config().clone().with_extension(snapshot);
        if let Some(transactions) = foreign_writes {
            config.set_extension(transactions);
        }
        if let Some(foreign) = tidemill_federation::snapshot::Snapshots::of(&physical) {
            config.set_extension(Arc::new(foreign));
        }
        let nodes = Nodes::of(&physical).map(Arc::new);
        if let Some(nodes) = &nodes {
            config.set_extension(Arc::clone(nodes));
        }
        *state.config_mut() = config;
        let pool = QueryMemory::new(Arc::clone(&server.memory), memory_limit_bytes);
        let runtime =
            RuntimeEnvBuilder::from_runtime_env(state.runtime_env()).with_memory_pool(Arc::new(pool));
        let context = TaskContext::from(&state).with_runtime(runtime.build_arc().map_err(plan_error)?);
        let snapshots = state.config().get_extension::<Snapshots>();
        Ok(Self { physical, fields, context, snapshots, nodes })
    }

    pub fn run(self) -> Result<Running> {
        let Self { physical, fields, context, snapshots, nodes } = self;
        let stream =
            datafusion::physical_plan::execute_stream(physical, Arc::new(context)).map_err(plan_error)?;
        let schema = named_types(&fields, &stream.schema());
        let stream = relabelled(stream, Arc::clone(&schema));
        Ok(Running { schema, stream, snapshots, nodes })
    }
}

/// The same columns under the names and with the types of another schema.
fn relabelled(stream: SendableRecordBatchStream, schema: SchemaRef) -> SendableRecordBatchStream {
    let relabelled = Arc::clone(&schema);
    let batches = stream.map(move |batch| {
        let (_, columns, rows) = batch?.into_parts();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&relabelled), columns, &options)?)
    });
    Box::pin(RecordBatchStreamAdapter::new(schema, batches))
}

/// Parameters with the types that their places have where Arrow does not tell them.
fn typed(plan: &LogicalPlan, parameters: Vec<ScalarValue>) -> Result<Vec<ScalarAndMetadata>> {
    let fields = plan.get_parameter_fields().map_err(plan_error)?;
    let metadata = |i: usize| {
        let field = fields.get(&format!("${}", i + 1))?.as_ref()?;
        Some(FieldMetadata::from(field.as_ref())).filter(|metadata| !metadata.is_empty())
    };
    Ok(parameters
        .into_iter()
        .enumerate()
        .map(|(i, value)| ScalarAndMetadata::new(value, metadata(i)))
        .collect())
}

/// The schema of the rows with the types that the logical plan tells: which of several types with one Arrow type a column
/// has may be lost on the way through the optimizer.
fn named_types(logical: &Fields, physical: &SchemaRef) -> SchemaRef {
    let fields = physical.fields().iter().enumerate().map(|(i, field)| match logical.get(i) {
        Some(known) => {
            let mut metadata = field.metadata().clone();
            metadata.extend(known.metadata().clone());
            field.as_ref().clone().with_name(known.name()).with_metadata(metadata).with_nullable(true)
        }
        None => field.as_ref().clone(),
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// Numbers of objects as text columns of their names, and vectors as theirs, where the client wants text.
pub fn with_names(
    schema: &SchemaRef,
    snapshots: &Arc<Snapshots>,
    batch: RecordBatch,
    formats: &[i16],
) -> Result<RecordBatch> {
    let shown = |i: usize| {
        let field = schema.field(i);
        let ty = Type::of_field(field).ok()?;
        let special = ty.scalar.is_object_name() || vector_oid(field).is_some();
        (special && format_of(formats, i) == 0).then_some(ty)
    };
    if !(0..batch.num_columns()).any(|i| shown(i).is_some()) {
        return Ok(batch);
    }
    let vars = SessionVars { objects: Arc::clone(snapshots) as _, ..SessionVars::default() };
    let mut fields = Vec::with_capacity(batch.num_columns());
    let mut columns = Vec::with_capacity(batch.num_columns());
    for (i, (column, field)) in batch.columns().iter().zip(schema.fields()).enumerate() {
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

/// `{1,2}` as `1 2`.
fn vectors(column: &ArrayRef, ty: Type, vars: &SessionVars) -> Result<ArrayRef> {
    let text = cast::cast(column, ty, Type::new(Scalar::Text), true, vars)?;
    let spaced = |array: &str| array.trim_matches(['{', '}']).replace(',', " ");
    Ok(Arc::new(text.as_string::<i32>().iter().map(|array| array.map(spaced)).collect::<StringArray>()))
}
