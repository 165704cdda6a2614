//! A small server without a server: streams, views planned from SQL by DataFusion's own functions, an engine.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::util::pretty::pretty_format_batches;
use datafusion::datasource::MemTable;
use datafusion::prelude::{SessionConfig, SessionContext};
use tidemill_sql::types::{Scalar, Type};
use tidemill_stream::disk::Disk;
use tidemill_stream::engine::{Engine, Fatal, Level, Options, Part};
use tidemill_stream::stream::{StreamDefinition, StreamId, StreamTable};
use tidemill_stream::view::{self, View, ViewId, ViewTable, state_views};

pub struct Harness {
    pub stream: StreamDefinition,
    pub engine: Arc<Engine>,
    views: Vec<(String, Arc<View>)>,
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

fn context() -> SessionContext {
    SessionContext::new_with_config(SessionConfig::new().with_target_partitions(1))
}

/// Sorts rows of the printed table, so that results compare whatever their order.
pub fn printed(batches: &[RecordBatch]) -> Vec<String> {
    let text = pretty_format_batches(batches).unwrap().to_string();
    let mut lines: Vec<_> = text.lines().filter(|l| l.starts_with('|')).skip(1).map(str::to_string).collect();
    lines.sort();
    lines
}

impl Harness {
    pub async fn open(disk: Arc<dyn Disk>, options: Options, queries: &[String]) -> Harness {
        let stream = stream();
        let mut views = Vec::new();
        for (i, query) in queries.iter().enumerate() {
            let context = context();
            context.register_table("s", Arc::new(StreamTable::new(&stream))).unwrap();
            let plan = context.state().create_logical_plan(query).await.unwrap();
            let plan = view::compile(&context.state(), &plan).await.unwrap();
            views.push((
                query.clone(),
                Arc::new(View::new(ViewId(100 + i as u32), Arc::new(plan), true).unwrap()),
            ));
        }
        let fatal = Fatal::new(|_| {});
        let registered = views.iter().map(|(_, v)| Arc::clone(v)).collect();
        let engine = Arc::new(Engine::open(disk, options, registered, fatal).unwrap());
        Harness { stream, engine, views }
    }

    pub async fn insert(&self, batch: RecordBatch, level: Level) -> tidemill_stream::Result<()> {
        self.engine.write(vec![Part::Events { stream: self.stream.id, targets: None, batch }], level).await
    }

    pub async fn read(&self, view: usize) -> Vec<RecordBatch> {
        let (_, view) = &self.views[view];
        let context = context();
        let table = ViewTable::new(Arc::clone(view), view.plan.finish.schema());
        context.register_table("v", Arc::new(table)).unwrap();
        let plan = context.sql("SELECT * FROM v").await.unwrap().create_physical_plan().await.unwrap();
        let snapshot = self.engine.snapshot(&state_views(&plan)).unwrap();
        let mut state = context.state();
        let config = state.config().clone().with_extension(Arc::new(snapshot));
        *state.config_mut() = config;
        datafusion::physical_plan::collect(plan, state.task_ctx()).await.unwrap()
    }

    /// The batch query over all events.
    pub async fn batch_query(&self, view: usize, events: &[RecordBatch]) -> Vec<RecordBatch> {
        let context = context();
        let table = MemTable::try_new(self.stream.event_schema(), vec![events.to_vec()]).unwrap();
        context.register_table("s", Arc::new(table)).unwrap();
        context.sql(&self.views[view].0).await.unwrap().collect().await.unwrap()
    }

    pub async fn assert_equal(&self, events: &[RecordBatch], note: &str) {
        for i in 0..self.views.len() {
            let (ours, theirs) = (printed(&self.read(i).await), printed(&self.batch_query(i, events).await));
            assert_eq!(ours, theirs, "{note}: view {} differs from its batch query", self.views[i].0);
        }
    }

    pub fn definitions(&self) -> HashMap<usize, String> {
        self.views.iter().map(|(q, _)| q.clone()).enumerate().collect()
    }
}
