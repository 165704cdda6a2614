//! INSERT: at once, or as part of the transaction.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::common::ScalarValue;
use futures::StreamExt;
use sqlparser::ast;
use tidemill_sql::planner::{plan_error, vars};
use tidemill_sql::types::Type;
use tidemill_sql::{Result, SqlError, SqlState};
use tidemill_stream::engine::Part;
use tidemill_stream::stream::StreamDefinition;

use super::execute::Outcome;
use super::interrupt::Shield;
use super::{Session, Transaction};
use crate::catalog::Stream;
use crate::insert::{InsertPlan, Parameter, event_columns, target};

impl Session {
    pub(super) async fn insert_now(
        &mut self,
        plan: &InsertPlan,
        parameters: &[Parameter<'_>],
    ) -> Result<Outcome> {
        self.start_statement();
        self.refuse_read_only("INSERT")?;
        let events = plan.events(parameters, &self.context(), vars::now_us())?;
        let rows = self.write_events(&plan.stream, events).await?;
        Ok(inserted(rows))
    }

    pub(super) async fn write_events(&mut self, stream: &Arc<Stream>, events: RecordBatch) -> Result<usize> {
        let rows = events.num_rows();
        stream.count(rows, events.get_array_memory_size());
        let targets = self.targets()?;
        let (server, level) = (Arc::clone(&self.server), self.level());
        match self.work() {
            Some(work) => {
                let set = work.set(&server.engine);
                set.add(stream.id(), targets.as_deref(), &events).map_err(|e| e.into_sql(plan_error))?;
                self.check_written()?;
            }
            None => {
                let part = Part::Events { stream: stream.id(), targets, batch: events };
                let shield = Shield::lowered(&self.interrupt);
                let written = server.engine.write_with(vec![part], level, || shield.raise()).await;
                written.map_err(|e| e.into_sql(plan_error))?;
            }
        }
        Ok(rows)
    }

    /// The states that a transaction has folded wait in memory for its end.
    fn check_written(&mut self) -> Result<()> {
        let limit = self.settings.current().transaction_memory_limit_bytes;
        match self.work() {
            Some(work) if work.memory() > limit => {
                let message = format!("the writes of a transaction exceed the limit of {limit} bytes");
                Err(SqlError::new(SqlState::OUT_OF_MEMORY, message)
                    .with_hint("Commit more often, or raise \"transaction_memory_limit\"."))
            }
            _ => Ok(()),
        }
    }

    /// INSERT … SELECT: the query's rows are cast to the stream's columns and written in one write set.
    pub(super) async fn insert_select(
        &mut self,
        insert: &ast::Insert,
        text: &str,
        values: Vec<ScalarValue>,
    ) -> Result<Outcome> {
        self.refuse_read_only("INSERT")?;
        let (name, columns, source) = tidemill_sql::insert::insert_parts(insert).ok_or_else(|| {
            SqlError::unsupported("this form of INSERT is not supported")
                .with_position(1)
                .with_hint("INSERT INTO stream (columns) VALUES … or SELECT … is.")
        })?;
        let stream = target(&self.server, &name)?;
        let columns = event_columns(&stream, &columns)?;
        let statement = ast::Statement::Query(Box::new(source.clone()));
        let mut running = self.run_query(&statement, text, values).await?;
        let width = running.schema.fields().len();
        if width > columns.len() {
            return Err(SqlError::syntax("INSERT has more expressions than target columns"));
        }
        let schema = stream.definition.event_schema();
        let vars = self.vars();
        let own = matches!(self.transaction, Transaction::None);
        self.begin_implicit();
        let mut rows = 0;
        while let Some(batch) = running.stream.next().await {
            let batch = batch.map_err(plan_error)?;
            let mut arrays = vec![None; schema.fields().len()];
            for (i, (array, field)) in batch.columns().iter().zip(running.schema.fields()).enumerate() {
                let Some((place, ty)) = columns[i] else { continue };
                let from = Type::of_field(field)?;
                arrays[place] = Some(tidemill_sql::function::cast::cast(array, from, ty, false, &vars)?);
            }
            let events = StreamDefinition::event_batch(&schema, arrays, batch.num_rows(), self.began_us)
                .map_err(plan_error)?;
            rows += self.write_events(&stream, events).await?;
        }
        if own {
            self.end_implicit().await?;
        }
        Ok(inserted(rows))
    }
}

fn inserted(rows: usize) -> Outcome {
    Outcome::Tag(format!("INSERT 0 {rows}"))
}
