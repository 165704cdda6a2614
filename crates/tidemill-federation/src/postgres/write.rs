//! Writing: a transaction with `COPY … FROM STDIN (FORMAT binary)`, UPDATE and DELETE.

use std::pin::Pin;
use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use async_trait::async_trait;
use bytes::Bytes;
use futures::{SinkExt, join};
use tidemill_sql::copy::{CopyColumn, CopyEncoder, CopyFormat};
use tidemill_sql::text::{Context, TimeZone};
use tidemill_sql::{Result, SqlError, SqlState};
use tokio_postgres::{Client, CopyInSink, Error};

use super::connect::Pool;
use super::error::failed;
use super::scan::{Running, fits, mismatch};
use crate::connector::{Insertion, RemoteQuery, Writer};
use crate::dialect::quote_always;

/// A transaction on a connection of its own.
pub struct Transaction {
    /// The COPY that is under way; it ends before the connection is asked for anything else.
    copying: Option<Copying>,
    running: Running,
    /// Otherwise each statement is one.
    is_block: bool,
}

struct Copying {
    into: Insertion,
    query: RemoteQuery,
    sink: Pin<Box<CopyInSink<Bytes>>>,
    encoder: CopyEncoder,
}

impl Transaction {
    pub async fn begin(pool: &Arc<Pool>, is_block: bool) -> Result<Self> {
        let kept = pool.get().await?;
        let begin = if is_block { "BEGIN" } else { "" };
        let is_used = kept.is_used;
        let connection = match kept.client.batch_execute(begin).await {
            Ok(()) => kept,
            // It was lost since it was used the last time.
            Err(error) if is_used => {
                tracing::debug!(%error, "a kept connection was lost");
                let new = pool.connect().await?;
                new.client
                    .batch_execute(begin)
                    .await
                    .map_err(|e| failed(&pool.server, &command(begin), &e))?;
                new
            }
            Err(error) => return Err(failed(&pool.server, &command(begin), &error)),
        };
        let running = Running { connection: Some(connection), pool: Arc::clone(pool) };
        Ok(Self { copying: None, running, is_block })
    }

    fn client(&self) -> Result<&Client> {
        let connection = self.running.connection.as_ref();
        connection
            .map(|connection| &connection.client)
            .ok_or_else(|| SqlError::internal("a transaction is over"))
    }

    fn failed(&self, query: &RemoteQuery, error: &Error) -> SqlError {
        failed(&self.running.pool.server, query, error)
    }

    async fn copy(&self, into: &Insertion) -> Result<Copying> {
        let names: Vec<_> = into.columns.iter().map(|column| quote_always(&column.remote)).collect();
        let names = names.join(", ");
        let query = RemoteQuery {
            sql: format!("COPY {} ({names}) FROM STDIN (FORMAT binary)", into.relation),
            columns: into.columns.clone(),
            table: into.table.clone(),
            relation: into.relation.clone(),
            ..RemoteQuery::default()
        };
        let client = self.client()?;
        let select = format!("SELECT {names} FROM {}", into.relation);
        let (described, prepared) = join!(client.prepare(&select), client.prepare(&query.sql));
        let described = described.map_err(|e| self.failed(&query, &e))?;
        for (wanted, found) in into.columns.iter().zip(described.columns()) {
            if !fits(wanted.ty, found.type_().oid()) {
                let server = &self.running.pool.server;
                return Err(mismatch(server, &into.table, &into.relation, wanted, found));
            }
        }
        let prepared = prepared.map_err(|e| self.failed(&query, &e))?;
        let sink = client.copy_in(&prepared).await.map_err(|e| self.failed(&query, &e))?;
        let columns = into.columns.iter().map(|c| CopyColumn { name: c.name.clone(), ty: c.ty }).collect();
        let context = Context { now_us: 0, zone: TimeZone::UTC };
        let encoder = CopyEncoder::new(CopyFormat::Binary, columns, &context);
        let mut copying = Copying { into: into.clone(), query, sink: Box::pin(sink), encoder };
        let mut start = Vec::new();
        copying.encoder.start(&mut start);
        self.send(&mut copying, start).await?;
        Ok(copying)
    }

    async fn send(&self, copying: &mut Copying, bytes: Vec<u8>) -> Result<()> {
        match copying.sink.as_mut().send(Bytes::from(bytes)).await {
            Ok(()) => Ok(()),
            // What is wrong is told at the end.
            Err(error) => match copying.sink.as_mut().finish().await {
                Err(told) => Err(self.failed(&copying.query, &told)),
                Ok(_) => Err(self.failed(&copying.query, &error)),
            },
        }
    }

    async fn end_copy(&mut self) -> Result<()> {
        let Some(mut copying) = self.copying.take() else { return Ok(()) };
        let mut end = Vec::new();
        copying.encoder.finish(&mut end);
        self.send(&mut copying, end).await?;
        let ended = copying.sink.as_mut().finish().await;
        ended.map(drop).map_err(|error| self.failed(&copying.query, &error))
    }
}

#[async_trait]
impl Writer for Transaction {
    async fn insert(&mut self, into: &Insertion, rows: &RecordBatch) -> Result<()> {
        let mut copying = match self.copying.take() {
            Some(copying) if copying.into == *into => copying,
            other => {
                self.copying = other;
                self.end_copy().await?;
                self.copy(into).await?
            }
        };
        let mut bytes = Vec::new();
        copying.encoder.rows(rows, &mut bytes)?;
        self.send(&mut copying, bytes).await?;
        self.copying = Some(copying);
        Ok(())
    }

    async fn execute(&mut self, statement: &RemoteQuery) -> Result<u64> {
        self.end_copy().await?;
        let done = self.client()?.execute(&statement.sql, &[]).await;
        done.map_err(|error| self.failed(statement, &error))
    }

    async fn commit(&mut self) -> Result<()> {
        self.end_copy().await?;
        let server = &self.running.pool.server;
        let commit = if self.is_block { "COMMIT" } else { "" };
        match self.client()?.batch_execute(commit).await {
            Ok(()) => {}
            Err(error) if error.as_db_error().is_some() => return Err(self.failed(&command(commit), &error)),
            Err(error) => {
                let message =
                    format!("whether the transaction on server \"{server}\" was committed is not known");
                return Err(SqlError::new(SqlState::TRANSACTION_RESOLUTION_UNKNOWN, message)
                    .with_detail(error.to_string()));
            }
        }
        if let Some(connection) = self.running.connection.take() {
            self.running.pool.put(connection);
        }
        Ok(())
    }
}

fn command(sql: &str) -> RemoteQuery {
    RemoteQuery { sql: sql.to_string(), ..RemoteQuery::default() }
}
