//! A small server without a server: streams, views planned from PostgreSQL's SQL, an engine.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::util::pretty::pretty_format_batches;
use datafusion::datasource::MemTable;
use datafusion::logical_expr::LogicalPlan;
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;
use tidemill_sql::planner::{self, plan_error_in};
use tidemill_sql::types::{Scalar, Type};
use tidemill_stream::disk::Disk;
use tidemill_stream::engine::{Engine, Fatal, Level, Options, Part};
use tidemill_stream::stream::{StreamDefinition, StreamId, StreamTable};
use tidemill_stream::transform::{self, Output, Transform, TransformPlan};
use tidemill_stream::view::{self, View, ViewId, ViewTable, state_views};
use tidemill_stream::window::Window;

pub struct Harness {
    pub stream: StreamDefinition,
    pub engine: Arc<Engine>,
    pub fatal: Fatal,
    plans: Plans,
    views: Vec<Arc<View>>,
}

pub fn stream() -> StreamDefinition {
    StreamDefinition {
        id: StreamId(1),
        name: "s".into(),
        columns: vec![
            ("k".into(), Type::new(Scalar::Int4)),
            ("t".into(), Type::new(Scalar::Text)),
            ("x".into(), Type::new(Scalar::Int8)),
            ("y".into(), Type::new(Scalar::Float8)),
        ],
    }
}

/// Streams that transforms write to, with the columns of `s`.
pub const OUTPUTS: [(&str, StreamId); 2] = [("a", StreamId(2)), ("b", StreamId(3))];

/// A session that plans views and transforms.
fn streaming() -> SessionContext {
    let context = context();
    context.register_table("s", Arc::new(StreamTable::new(&stream()))).unwrap();
    for (name, id) in OUTPUTS {
        let definition = StreamDefinition { id, name: name.into(), ..stream() };
        context.register_table(name, Arc::new(StreamTable::new(&definition))).unwrap();
    }
    context
}

/// Rows become events as they are: the columns of the query, in their order.
#[derive(Debug)]
struct AsTheyAre {
    stream: StreamId,
    arrival: usize,
}

impl Output for AsTheyAre {
    fn stream(&self) -> StreamId {
        self.stream
    }

    fn events(&self, rows: &RecordBatch) -> tidemill_sql::Result<RecordBatch> {
        let others = (0..rows.num_columns()).filter(|i| *i != self.arrival);
        let columns = std::iter::once(self.arrival).chain(others).map(|i| rows.column(i).clone()).collect();
        Ok(RecordBatch::try_new(stream().event_schema(), columns).unwrap())
    }
}

/// Whether to try everything rather than a sample: `make crash`.
pub fn everything() -> bool {
    std::env::var_os("TIDEMILL_TEST_EVERYTHING").is_some()
}

pub fn context() -> SessionContext {
    SessionContext::new_with_state(planner::session_state_builder().build())
}

pub async fn plan(context: &SessionContext, query: &str) -> tidemill_sql::Result<LogicalPlan> {
    let mut statement = Parser::parse_sql(&PostgreSqlDialect {}, query).unwrap().remove(0);
    let state = context.state();
    planner::prepare(&mut statement, &state)?;
    let plan = state.statement_to_plan(Statement::Statement(Box::new(statement))).await;
    plan.map_err(|e| plan_error_in(e, query))
}

/// Sorts rows of the printed table, so that results compare whatever their order.
pub fn printed(batches: &[RecordBatch]) -> Vec<String> {
    let text = pretty_format_batches(batches).unwrap().to_string();
    let mut lines: Vec<_> = text.lines().filter(|l| l.starts_with('|')).skip(1).map(str::to_string).collect();
    lines.sort();
    lines
}

/// Views planned once, for tests that open many engines over them, and the transforms in front of them.
#[derive(Clone)]
pub struct Plans(pub Vec<(String, Arc<view::ViewPlan>)>, pub Vec<(Arc<TransformPlan>, Vec<StreamId>)>);

impl Plans {
    pub async fn compile(queries: &[String]) -> Plans {
        Plans::compile_windowed(queries, None).await
    }

    pub async fn compile_windowed(queries: &[String], window: Option<Window>) -> Plans {
        let mut plans = Vec::new();
        for query in queries {
            let context = streaming();
            let plan = plan(&context, query).await.unwrap();
            plans.push((
                query.clone(),
                Arc::new(view::compile(&context.state(), &plan, window).await.unwrap()),
            ));
        }
        Plans(plans, Vec::new())
    }

    /// Adds transforms of queries, and the streams that they write to.
    pub async fn with_transforms(mut self, transforms: &[(String, Vec<StreamId>)]) -> Plans {
        for (query, outputs) in transforms {
            let context = streaming();
            let plan = plan(&context, query).await.unwrap();
            let plan = transform::compile(&context.state(), &plan).await.unwrap();
            self.1.push((Arc::new(plan), outputs.clone()));
        }
        self
    }

    /// Tells what the batch queries find in the streams that transforms write to: queries over `s`.
    pub fn where_outputs_are(mut self, outputs: &[(&str, String)]) -> Plans {
        let defined: Vec<_> = outputs.iter().map(|(name, query)| format!("{name} AS ({query})")).collect();
        for (query, _) in &mut self.0 {
            *query = format!("WITH {} {query}", defined.join(", "));
        }
        self
    }

    /// The number of a transform.
    pub fn transform_id(transform: usize) -> ViewId {
        ViewId(500 + transform as u32)
    }

    /// The batch query of a view over all `events`, and of its rows those that a filter lets pass.
    pub async fn batch_query(&self, view: usize, events: &[RecordBatch], filter: &str) -> Vec<RecordBatch> {
        let context = context();
        let table = MemTable::try_new(stream().event_schema(), vec![events.to_vec()]).unwrap();
        context.register_table("s", Arc::new(table)).unwrap();
        let query = format!("SELECT * FROM ({}) q {filter}", self.0[view].0);
        let plan = plan(&context, &query).await.unwrap();
        context.execute_logical_plan(plan).await.unwrap().collect().await.unwrap()
    }

    pub fn id(view: usize) -> ViewId {
        ViewId(100 + view as u32)
    }
}

impl Harness {
    pub async fn open(disk: Arc<dyn Disk>, options: Options, queries: &[String]) -> Harness {
        Harness::start(disk, options, &Plans::compile(queries).await).unwrap()
    }

    pub fn start(disk: Arc<dyn Disk>, options: Options, plans: &Plans) -> tidemill_stream::Result<Harness> {
        let view = |(i, (_, plan)): (usize, &(String, Arc<view::ViewPlan>))| {
            View::new(Plans::id(i), Arc::clone(plan), true).map(Arc::new)
        };
        let views: Vec<Arc<View>> = plans.0.iter().enumerate().map(view).collect::<Result<_, _>>()?;
        let fatal = Fatal::new(|_| {});
        let engine = Arc::new(Engine::open(disk, options, views.clone(), fatal.clone())?);
        for (i, (plan, outputs)) in plans.1.iter().enumerate() {
            let output = |stream: &StreamId| {
                Arc::new(AsTheyAre { stream: *stream, arrival: plan.arrival }) as Arc<dyn Output>
            };
            let outputs = outputs.iter().map(output).collect();
            let transform = Transform::new(Plans::transform_id(i), Arc::clone(plan), outputs, true);
            engine.add_transform(Arc::new(transform));
        }
        Ok(Harness { stream: stream(), engine, fatal, plans: plans.clone(), views })
    }

    /// Adds a view that reads what is written from now on; returns its number.
    pub async fn add_view(&mut self, query: &str) -> usize {
        let plan = Plans::compile(&[query.to_string()]).await.0.remove(0);
        let number = self.views.len();
        let view = Arc::new(View::new(Plans::id(number), Arc::clone(&plan.1), true).unwrap());
        self.engine.add_view(Arc::clone(&view));
        self.views.push(view);
        self.plans.0.push(plan);
        number
    }

    pub fn views(&self) -> &[Arc<View>] {
        &self.views
    }

    pub fn view(&self, view: usize) -> &Arc<View> {
        &self.views[view]
    }

    pub async fn insert(&self, batch: RecordBatch, level: Level) -> tidemill_stream::Result<()> {
        self.engine.write(vec![Part::Events { stream: self.stream.id, targets: None, batch }], level).await
    }

    /// What a reader sees in a view.
    pub async fn try_read(&self, view: usize) -> tidemill_stream::Result<Vec<RecordBatch>> {
        self.try_read_where(view, "").await
    }

    /// The same of those of its rows that `filter`, a WHERE clause or nothing, lets pass.
    async fn try_read_where(&self, view: usize, filter: &str) -> tidemill_stream::Result<Vec<RecordBatch>> {
        let view = &self.views[view];
        let context = context();
        let table = ViewTable::new(Arc::clone(view), view.plan.finish.schema());
        context.register_table("v", Arc::new(table)).unwrap();
        let plan = plan(&context, &format!("SELECT * FROM v {filter}")).await?;
        let plan = context.state().create_physical_plan(&plan).await?;
        let snapshot = self.engine.snapshot(&state_views(&plan))?;
        let mut state = context.state();
        let config = state.config().clone().with_extension(Arc::new(snapshot));
        *state.config_mut() = config;
        Ok(datafusion::physical_plan::collect(plan, state.task_ctx()).await?)
    }

    /// The batch query of a view over these events.
    pub async fn batch_query(&self, view: usize, events: &[RecordBatch]) -> Vec<RecordBatch> {
        self.plans.batch_query(view, events, "").await
    }

    pub async fn read(&self, view: usize) -> Vec<RecordBatch> {
        self.try_read(view).await.unwrap()
    }

    pub async fn assert_equal(&self, events: &[RecordBatch], note: &str) {
        for i in 0..self.views.len() {
            let ours = printed(&self.read(i).await);
            let theirs = printed(&self.plans.batch_query(i, events, "").await);
            assert_eq!(ours, theirs, "{note}: view {} differs from its batch query", self.plans.0[i].0);
        }
    }

    /// Of the views that have the columns of the filter.
    pub async fn assert_equal_where(
        &self,
        events: &[RecordBatch],
        columns: &[&str],
        filter: &str,
        note: &str,
    ) {
        for (i, view) in self.views.iter().enumerate() {
            let schema = view.plan.finish.schema();
            if columns.iter().any(|column| schema.index_of(column).is_err()) {
                continue;
            }
            let ours = printed(&self.try_read_where(i, filter).await.unwrap());
            let theirs = printed(&self.plans.batch_query(i, events, filter).await);
            assert_eq!(ours, theirs, "{note}: view {} differs {filter}", self.plans.0[i].0);
        }
    }
}
