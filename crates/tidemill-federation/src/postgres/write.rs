//! Writing: a transaction with `COPY … FROM STDIN (FORMAT binary)`, INSERT, UPDATE and DELETE.

use std::pin::Pin;
use std::sync::Arc;

use arrow::datatypes::Schema;
use arrow::record_batch::RecordBatch;
use async_trait::async_trait;
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{SinkExt, TryStreamExt, join};
use tidemill_sql::copy::{CopyColumn, CopyEncoder, CopyFormat, TextOptions};
use tidemill_sql::{Result, SqlError, SqlState};
use tokio_postgres::types::{self, Kind};
use tokio_postgres::{Client, CopyInSink, Error, Statement};

use super::column::{Found, fits, is_read_as_text, mismatch};
use super::connect::Pool;
use super::deferred;
use super::error::{Fault, failed, incomplete, lost};
use super::fate;
use super::insert::{context, insert_sql, inserting, names, parameters, returning};
use super::running::Running;
use super::value::{Encoded, Raw};
use crate::cascade::Cascade;
use crate::cell::{Cell, Rows};
use crate::connector::{Answer, Insertion, RemoteColumn, RemoteQuery, Writer, unknown};
use crate::dialect::quote_always;
use crate::health::cause;

/// Rows of one INSERT, and its parameters, at most; the protocol counts those in two bytes.
const INSERT_ROWS_MAX: usize = 1000;
const PARAMETERS_MAX: usize = u16::MAX as usize;
const BATCH_ROWS: usize = 8192;
const BEGIN: &str = "BEGIN";
const COMMIT: &str = "COMMIT";

/// A transaction on a connection of its own.
pub struct Transaction {
    /// The COPY that is under way; it ends before the connection is asked for anything else.
    copying: Option<Copying>,
    running: Running,
    /// It is open there. A Tidemill is told so by the first statement.
    is_open: bool,
    /// More statements are to come.
    is_block: bool,
}

struct Copying {
    into: Insertion,
    query: RemoteQuery,
    sink: Pin<Box<CopyInSink<Bytes>>>,
    encoder: CopyEncoder,
    rows: u64,
}

impl Transaction {
    pub async fn begin(pool: &Arc<Pool>, is_block: bool) -> Result<Self> {
        let kept = pool.get().await?;
        let is_open = is_block || !kept.is_tidemill;
        let begin = if is_open { BEGIN } else { "" };
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
                    .map_err(|e| failed(&pool.server, &RemoteQuery::command(begin), &e))?;
                new
            }
            Err(error) => return Err(failed(&pool.server, &RemoteQuery::command(begin), &error)),
        };
        let running = Running::new(connection, pool);
        Ok(Self { copying: None, running, is_open, is_block })
    }

    async fn open(&mut self) -> Result<()> {
        if !self.is_open {
            self.command(BEGIN).await?;
            self.is_open = true;
        }
        Ok(())
    }

    async fn command(&self, sql: &str) -> Result<()> {
        self.client()?.batch_execute(sql).await.map_err(|e| self.failed(&RemoteQuery::command(sql), &e))
    }

    fn client(&self) -> Result<&Client> {
        let connection = self.running.connection.as_ref();
        connection
            .map(|connection| &connection.client)
            .ok_or_else(|| SqlError::internal("a transaction is over"))
    }

    fn is_tidemill(&self) -> bool {
        self.running.connection.as_ref().is_some_and(|connection| connection.is_tidemill)
    }

    fn failed(&self, query: &RemoteQuery, error: &Error) -> SqlError {
        failed(&self.running.pool.server, query, error)
    }

    fn incomplete(&self, query: &RemoteQuery, rows: u64, told: u64) -> SqlError {
        let gap = format!("There were {rows} rows, and it says that they are {told}.");
        incomplete(&self.running.pool.server, query, gap)
    }

    async fn copy(&self, into: &Insertion) -> Result<Copying> {
        self.tell(into.cascade.as_ref()).await?;
        let names = names(&into.columns);
        let copy = |format: &str| format!("COPY {} ({names}) FROM STDIN (FORMAT {format})", into.relation);
        let mut query = inserting(into, copy("binary"));
        let client = self.client()?;
        let (found, prepared) = join!(self.found(into, &into.columns), client.prepare(&query.sql));
        let casts = self.casts(&query, &into.columns, &found?)?;
        let (format, prepared) = if casts.iter().all(Option::is_none) {
            (CopyFormat::Binary, prepared)
        } else {
            query.sql = copy("text");
            (CopyFormat::Text(TextOptions::text()), client.prepare(&query.sql).await)
        };
        let prepared = prepared.map_err(|e| self.failed(&query, &e))?;
        let sink = client.copy_in(&prepared).await.map_err(|e| self.failed(&query, &e))?;
        let columns = into.columns.iter().map(|c| CopyColumn { name: c.name.clone(), ty: c.ty }).collect();
        let encoder = CopyEncoder::new(format, columns, &context());
        let mut copying = Copying { into: into.clone(), query, sink: Box::pin(sink), encoder, rows: 0 };
        let mut start = Vec::new();
        copying.encoder.start(&mut start);
        self.send(&mut copying, start).await?;
        Ok(copying)
    }

    /// What the columns are there. A Tidemill, whose streams nobody can read, tells it by the parameters of an INSERT.
    async fn found(&self, into: &Insertion, columns: &[RemoteColumn]) -> Result<Vec<Found>> {
        let client = self.client()?;
        if self.is_tidemill() && into.returned.is_empty() {
            let insert = inserting(into, insert_sql(into, 1, &vec![None; columns.len()]));
            let statement =
                client.prepare(&insert.sql).await.map_err(|error| self.failed(&insert, &error))?;
            let found = |ty: &types::Type| Found { ty: ty.clone(), modifier: -1 };
            return Ok(statement.params().iter().map(found).collect());
        }
        let select = inserting(into, format!("SELECT {} FROM {}", names(columns), into.relation));
        let statement = client.prepare(&select.sql).await.map_err(|error| self.failed(&select, &error))?;
        Ok(statement.columns().iter().map(Found::from).collect())
    }

    /// Binary values say nothing about their types, so what the server calls them has to fit. Values of a type that there is none of
    /// here are given and told as texts: the type's name there.
    fn casts(
        &self,
        query: &RemoteQuery,
        wanted: &[RemoteColumn],
        found: &[Found],
    ) -> Result<Vec<Option<String>>> {
        let tells_none = self.is_tidemill();
        let cast = |(wanted, found): (&RemoteColumn, &Found)| {
            let ty = &found.ty;
            // The binary form of an enum is its text.
            let is_enum = matches!(ty.kind(), Kind::Enum(_));
            match is_read_as_text(wanted.ty, ty.oid()) {
                true if is_enum => Ok(None),
                true => Ok(Some(format!("{}.{}", quote_always(ty.schema()), quote_always(ty.name())))),
                false if fits(wanted.ty, ty.oid()) && (tells_none || found.keeps_modifier(wanted.ty)) => {
                    Ok(None)
                }
                false => Err(self.mismatch(query, wanted, found)),
            }
        };
        wanted.iter().zip(found).map(cast).collect()
    }

    fn mismatch(&self, query: &RemoteQuery, wanted: &RemoteColumn, found: &Found) -> SqlError {
        mismatch(&self.running.pool.server, &query.table, &query.relation, wanted, found)
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

    async fn copy_rows(&mut self, into: &Insertion, rows: &RecordBatch) -> Result<()> {
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
        copying.rows += rows.num_rows() as u64;
        self.send(&mut copying, bytes).await?;
        self.copying = Some(copying);
        Ok(())
    }

    async fn end_copy(&mut self) -> Result<()> {
        let Some(mut copying) = self.copying.take() else { return Ok(()) };
        let mut end = Vec::new();
        copying.encoder.finish(&mut end);
        self.send(&mut copying, end).await?;
        let ended = copying.sink.as_mut().finish().await;
        let taken = ended.map_err(|error| self.failed(&copying.query, &error))?;
        // A trigger may have left some out.
        match taken > copying.rows {
            true => Err(self.incomplete(&copying.query, copying.rows, taken)),
            false => Ok(()),
        }
    }

    /// `INSERT … VALUES`, for what COPY cannot do.
    async fn insert_rows(&self, into: &Insertion, rows: &RecordBatch) -> Result<Answer> {
        let columns: Vec<_> = into.columns.iter().chain(&into.returned).cloned().collect();
        let found = self.found(into, &columns).await?;
        let casts = self.casts(&inserting(into, String::new()), &columns, &found)?;
        let at_once = (PARAMETERS_MAX / into.columns.len().max(1)).clamp(1, INSERT_ROWS_MAX);
        let mut all = Answer::default();
        for start in (0..rows.num_rows()).step_by(at_once) {
            let part = rows.slice(start, at_once.min(rows.num_rows() - start));
            let query = RemoteQuery {
                columns: into.returned.clone(),
                ..inserting(into, insert_sql(into, part.num_rows(), &casts))
            };
            let answer = self.run(&query, &parameters(into, &part)?).await?;
            all.count += answer.count;
            all.rows.extend(answer.rows);
        }
        Ok(all)
    }

    /// Tells a server that may have nodes itself the way that the statement has come.
    async fn tell(&self, cascade: Option<&Arc<Cascade>>) -> Result<()> {
        let Some(cascade) = cascade.filter(|_| self.is_tidemill()) else { return Ok(()) };
        let set = RemoteQuery::command(cascade.settings(false));
        self.client()?.batch_execute(&set.sql).await.map_err(|error| self.failed(&set, &error))
    }

    /// What it has said.
    fn hear(&self, cascade: Option<&Arc<Cascade>>) {
        if let (Some(cascade), Some(connection)) = (cascade, &self.running.connection)
            && connection.is_tidemill
        {
            cascade.warn(connection.take_warnings(&self.running.pool.server));
        }
    }

    /// What a statement returns of a type that there is none of here is told as a text.
    async fn prepared(&self, query: &RemoteQuery) -> Result<Statement> {
        let failed = |error: Error| self.failed(query, &error);
        let client = self.client()?;
        let statement = client.prepare(&query.sql).await.map_err(failed)?;
        let found: Vec<_> = statement.columns().iter().map(Found::from).collect();
        let casts = self.casts(query, &query.columns, &found)?;
        let Some(place) = casts.iter().position(Option::is_some) else { return Ok(statement) };
        match query.sql.strip_suffix(&returning(&query.columns, &[])) {
            Some(changes) => {
                let sql = changes.to_string() + &returning(&query.columns, &casts);
                client.prepare(&sql).await.map_err(failed)
            }
            None => Err(self.mismatch(query, &query.columns[place], &found[place])),
        }
    }

    async fn run(&self, query: &RemoteQuery, parameters: &[Encoded]) -> Result<Answer> {
        self.tell(query.cascade.as_ref()).await?;
        let statement = self.prepared(query).await?;
        let answer = self.attended(self.answer(query, &statement, parameters)).await;
        answer.map_err(|fault| fault.told(&self.running.pool.server, query))
    }

    async fn attended<T>(
        &self,
        work: impl Future<Output = std::result::Result<T, Fault>>,
    ) -> std::result::Result<T, Fault> {
        match &self.running.connection {
            Some(connection) => self.running.pool.attended(connection, work).await,
            None => work.await,
        }
    }

    async fn answer(
        &self,
        query: &RemoteQuery,
        statement: &Statement,
        parameters: &[Encoded],
    ) -> std::result::Result<Answer, Fault> {
        let mut found = std::pin::pin!(self.client()?.query_raw(statement, parameters).await?);
        let fields: Vec<_> = query.columns.iter().map(|column| column.ty.field(&column.name)).collect();
        let server = &self.running.pool.server;
        let mut rows = Rows::new(server, query, Arc::new(Schema::new(fields)), BATCH_ROWS);
        let (mut answer, mut told) = (Answer::default(), 0);
        while let Some(row) = found.try_next().await? {
            for place in 0..row.len() {
                let Raw(value) = row.try_get(place)?;
                rows.put(place, value.map_or(Cell::Null, Cell::Binary))?;
            }
            told += 1;
            if !row.is_empty()
                && let Some(batch) = rows.end_row()?
            {
                answer.keep(server, batch)?;
            }
        }
        answer.rows.extend(rows.finish()?);
        let Some(count) = found.rows_affected() else {
            let gap = format!("It has sent {told} rows, and not said that they are all.");
            return Err(incomplete(server, query, gap).into());
        };
        // By a rule a command may return rows of another one, of which it counts none.
        if told != count && count > 0 && !statement.columns().is_empty() {
            return Err(self.incomplete(query, told, count).into());
        }
        answer.count = count;
        self.hear(query.cascade.as_ref());
        Ok(answer)
    }
}

#[async_trait]
impl Writer for Transaction {
    async fn insert(&mut self, into: &Insertion, rows: &RecordBatch) -> Result<Answer> {
        self.open().await?;
        // COPY has no nodes.
        let is_plain = into.definition.nodes.is_empty();
        if into.skips_conflicts || !into.returned.is_empty() || !is_plain {
            self.end_copy().await?;
            return self.insert_rows(into, rows).await;
        }
        self.copy_rows(into, rows).await?;
        Ok(Answer { count: rows.num_rows() as u64, rows: vec![] })
    }

    async fn generated(&mut self, into: &Insertion) -> Result<Arc<[String]>> {
        let pool = Arc::clone(&self.running.pool);
        let is_tidemill = self.running.connection.as_ref().is_some_and(|connection| connection.is_tidemill);
        if is_tidemill || !into.definition.nodes.is_empty() {
            return Ok(Arc::new([]));
        }
        if let Some(known) = pool.generated.known(&into.relation) {
            return Ok(known);
        }
        self.flush().await?;
        let asked = pool.generated.ask(self.client()?, &into.relation).await;
        asked.map_err(|error| self.failed(&inserting(into, String::new()), &error))
    }

    async fn execute(&mut self, statement: &RemoteQuery) -> Result<Answer> {
        self.end_copy().await?;
        let was_open = self.is_open;
        self.open().await?;
        let answer = self.run(statement, &[]).await;
        if let Err(error) = &answer
            && error.state == SqlState::ACTIVE_SQL_TRANSACTION
            && !was_open
        {
            self.command("ROLLBACK").await?;
            self.is_open = false;
        }
        answer
    }

    /// A Tidemill changes its own tables, and what it has, outside of transactions only.
    async fn execute_alone(&mut self, statement: &RemoteQuery) -> Result<Answer> {
        if self.is_open || self.is_block {
            return Err(SqlError::internal("a transaction is open"));
        }
        self.tell(statement.cascade.as_ref()).await?;
        let prepared = self.prepared(statement).await?;
        let answer = self.attended(self.answer(statement, &prepared, &[])).await;
        answer.map_err(|fault| fault.of_alone(&self.running.pool.server, statement))
    }

    async fn id(&mut self) -> Result<Option<String>> {
        self.end_copy().await?;
        if self.running.connection.as_ref().is_some_and(|connection| connection.is_tidemill) {
            return Ok(None);
        }
        fate::id(self.client()?).await.map_err(|error| self.failed(&RemoteQuery::default(), &error))
    }

    /// A COPY whose sink is dropped fails there, which is what a savepoint undoes.
    fn forget(&mut self) {
        self.copying = None;
    }

    async fn flush(&mut self) -> Result<()> {
        self.end_copy().await?;
        match self.is_open && self.client()?.is_closed() {
            true => Err(lost(&self.running.pool.server, "connection closed")),
            false => Ok(()),
        }
    }

    /// A Tidemill has no constraints that it could defer.
    async fn judge(&mut self) -> Result<()> {
        self.flush().await?;
        if !self.is_open {
            return Ok(());
        }
        let client = self.client()?;
        let judging = async {
            let judged = if self.is_tidemill() {
                client.batch_execute("").await
            } else {
                deferred::judge(client).await
            };
            judged.map_err(Fault::from)
        };
        let judged = self.attended(judging).await;
        judged.map_err(|fault| fault.told(&self.running.pool.server, &RemoteQuery::command(COMMIT)))
    }

    /// Given up, it closes the connection: a cancel would end a wait for a standby, and leave that without what the server has.
    async fn commit(&mut self) -> Result<()> {
        self.flush().await?;
        let connection = self.running.connection.take();
        let connection = connection.ok_or_else(|| SqlError::internal("a transaction is over"))?;
        let pool = &self.running.pool;
        if !self.is_open {
            pool.put(connection);
            return Ok(());
        }
        let committing = async { connection.client.batch_execute(COMMIT).await.map_err(Fault::from) };
        match pool.attended(&connection, committing).await {
            Ok(()) => pool.put(connection),
            Err(Fault::Told(error)) if error.as_db_error().is_some() => {
                let failed = self.failed(&RemoteQuery::command(COMMIT), &error);
                self.running.connection = Some(connection);
                return Err(failed);
            }
            Err(Fault::Told(error)) => return Err(unknown(&pool.server, error.to_string())),
            Err(Fault::Found(error)) => return Err(unknown(&pool.server, cause(&error))),
        }
        Ok(())
    }

    fn stop(&self) -> Option<BoxFuture<'static, Result<()>>> {
        let token = self.running.connection.as_ref()?.client.cancel_token();
        let pool = Arc::clone(&self.running.pool);
        Some(Box::pin(async move { pool.cancel(token).await }))
    }
}
