//! A query that is carried out, with what EXPLAIN ANALYZE shows of it afterwards.

use std::sync::Arc;

use chrono::{DateTime, Utc};
use datafusion::common::ScalarValue;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use sqlparser::ast;
use tidemill_federation::node::Nodes;
use tidemill_sql::Result;

use super::Session;
use crate::query::{self, Running};

pub(super) struct Trace {
    pub physical: Arc<dyn ExecutionPlan>,
    /// When it was planned and began to be carried out.
    pub began: DateTime<Utc>,
    /// The foreign tables that it reads.
    pub nodes: Option<Arc<Nodes>>,
}

impl Session {
    pub(super) async fn run_traced(
        &mut self,
        query: Box<ast::Query>,
        text: &str,
        values: Vec<ScalarValue>,
    ) -> Result<(Running, Trace)> {
        self.start_query()?;
        let state = self.planner();
        let plan = query::plan(&state, &ast::Statement::Query(query), text).await?;
        self.trace(state, plan, values).await
    }

    pub(super) async fn trace(
        &mut self,
        state: SessionState,
        plan: LogicalPlan,
        values: Vec<ScalarValue>,
    ) -> Result<(Running, Trace)> {
        let reads = self.work().map(|work| work.reads()).unwrap_or_default();
        let limit = self.settings.current().query_memory_limit_bytes;
        let ready = query::ready(&self.server, state, plan, values, reads, limit).await?;
        let (physical, began) = (Arc::clone(&ready.physical), Utc::now());
        let running = ready.run()?;
        self.follow_nodes(running.nodes.as_ref());
        let nodes = running.nodes.clone();
        Ok((running, Trace { physical, began, nodes }))
    }
}
