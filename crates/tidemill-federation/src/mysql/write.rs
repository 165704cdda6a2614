//! Writing: a transaction with INSERT, UPDATE and DELETE. Tables of an engine without transactions keep what they were given.

use std::sync::Arc;

use arrow::datatypes::Schema;
use arrow::record_batch::RecordBatch;
use async_trait::async_trait;
use futures::future::BoxFuture;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Error, Params, Value};
use tidemill_sql::{Result, SqlError};

use super::connect::{Connection, KILL_QUERY, Pool, SQL_MODE};
use super::dialect::MysqlDialect;
use super::keep::{self, Kept};
use super::scan::cell;
use crate::cell::Rows;
use crate::connector::{Answer, Assigned, Assignment, Insertion, RemoteQuery, Writer, unknown};
use crate::dialect::Dialect;
use crate::value::{Values, not_kept};

/// Of one INSERT, at most.
const INSERT_ROWS_MAX: usize = 1000;
const INSERT_BYTES_MAX: usize = 1 << 20;
const PARAMETERS_MAX: usize = u16::MAX as usize;
const BATCH_ROWS: usize = 8192;
/// A value that does not fit is an error, a zero is no wish for a number, and rows are counted that are found.
const STRICT: &str = "SET sql_mode = 'STRICT_ALL_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO,\
                      NO_AUTO_VALUE_ON_ZERO,NO_ENGINE_SUBSTITUTION'";

pub struct Transaction {
    pool: Arc<Pool>,
    /// What it does there ends when it is dropped.
    connection: Option<Connection>,
    /// The columns of the last insertion.
    described: Option<(Insertion, Arc<[Kept]>)>,
}

impl Transaction {
    pub async fn begin(pool: Arc<Pool>) -> Result<Self> {
        let mut connection = pool.get().await?;
        let strict = RemoteQuery::command(STRICT);
        if connection.is_used && connection.conn()?.query_drop(STRICT).await.is_err() {
            // It was lost since it was used the last time.
            connection = pool.connect().await?;
        }
        let conn = connection.conn()?;
        conn.query_drop(STRICT).await.map_err(|error| pool.failed(&strict, &error))?;
        let begun = conn.query_drop("START TRANSACTION").await;
        begun.map_err(|error| pool.failed(&RemoteQuery::command("START TRANSACTION"), &error))?;
        Ok(Self { pool, connection: Some(connection), described: None })
    }

    fn conn(&mut self) -> Result<&mut Conn> {
        let connection = self.connection.as_mut();
        connection.ok_or_else(|| SqlError::internal("a transaction is over"))?.conn()
    }

    /// The columns that get values. What is of another type is an error.
    async fn describe(&mut self, into: &Insertion) -> Result<Arc<[Kept]>> {
        if let Some((known, columns)) = &self.described
            && known == into
        {
            return Ok(Arc::clone(columns));
        }
        let pool = Arc::clone(&self.pool);
        let columns: Arc<[Kept]> = keep::described(&pool, self.conn()?, into).await?.into();
        self.described = Some((into.clone(), Arc::clone(&columns)));
        Ok(columns)
    }

    /// The new values of an UPDATE, which are refused as those of an INSERT are.
    async fn check_assigned(&mut self, statement: &RemoteQuery) -> Result<()> {
        if let Some((into, row)) = Values::of_constants(statement)? {
            let columns = self.describe(&into).await?;
            let (values, mut text) = (Values::new(&into, &row)?, Vec::new());
            for (place, column) in columns.iter().enumerate() {
                column.value(&values, place, 0, &mut text)?;
            }
        }
        for Assignment { column, value } in &statement.assigned {
            let Assigned::Column(from) = value else { continue };
            let both = Insertion::of(statement, vec![column.clone(), from.clone()]);
            if let [to, of] = &*self.describe(&both).await?
                && !to.keeps_all_of(of)
            {
                let why =
                    format!("\"{}\" is {}, \"{}\" is {}", column.remote, to.shown(), from.remote, of.shown());
                return Err(not_kept(statement, column, from, &why));
            }
        }
        Ok(())
    }

    async fn insert_rows(&mut self, into: &Insertion, rows: usize, values: Vec<Value>) -> Result<()> {
        let row = format!("({})", vec!["?"; into.columns.len()].join(", "));
        let sql =
            format!("INSERT INTO {} ({}) VALUES {}", into.relation, names(into), vec![row; rows].join(", "));
        let query = query(into, sql);
        let done = self.conn()?.exec_drop(query.sql.as_str(), Params::Positional(values)).await;
        done.map_err(|error| self.pool.failed(&query, &error))
    }
}

pub(super) fn names(into: &Insertion) -> String {
    let names: Vec<_> = into.columns.iter().map(|column| MysqlDialect.name(&column.remote)).collect();
    names.join(", ")
}

/// As errors tell it.
pub(super) fn query(into: &Insertion, sql: String) -> RemoteQuery {
    let (table, relation) = (into.definition.name.clone(), into.relation.clone());
    RemoteQuery { sql, table, relation, ..RemoteQuery::default() }
}

#[async_trait]
impl Writer for Transaction {
    async fn insert(&mut self, into: &Insertion, rows: &RecordBatch) -> Result<Answer> {
        let columns = self.describe(into).await?;
        let rows_max = (PARAMETERS_MAX / columns.len().max(1)).clamp(1, INSERT_ROWS_MAX);
        let (mut given, mut waiting, mut bytes) = (Vec::new(), 0, 0);
        for row in 0..rows.num_rows() {
            {
                let (values, mut text) = (Values::new(into, rows)?, Vec::new());
                for (place, column) in columns.iter().enumerate() {
                    let value = column.value(&values, place, row, &mut text)?;
                    bytes += usize::try_from(value.bin_len()).unwrap_or(0);
                    given.push(value);
                }
            }
            waiting += 1;
            if waiting >= rows_max || bytes >= INSERT_BYTES_MAX {
                self.insert_rows(into, waiting, std::mem::take(&mut given)).await?;
                (waiting, bytes) = (0, 0);
            }
        }
        if waiting > 0 {
            self.insert_rows(into, waiting, given).await?;
        }
        Ok(Answer { count: rows.num_rows() as u64, rows: vec![] })
    }

    async fn generated(&mut self, into: &Insertion) -> Result<Arc<[String]>> {
        let pool = Arc::clone(&self.pool);
        keep::generated(&pool, self.conn()?, into).await
    }

    async fn execute(&mut self, statement: &RemoteQuery) -> Result<Answer> {
        self.check_assigned(statement).await?;
        let pool = Arc::clone(&self.pool);
        let failed = |error: Error| pool.failed(statement, &error);
        let conn = self.conn()?;
        // Not everything can be prepared there; what has columns can.
        if statement.columns.is_empty() {
            let mut found = conn.query_iter(statement.sql.as_str()).await.map_err(failed)?;
            let mut count = found.affected_rows();
            while found.next().await.map_err(failed)?.is_some() {
                count += 1;
            }
            return Ok(Answer { count, rows: vec![] });
        }
        let fields: Vec<_> = statement.columns.iter().map(|column| column.ty.field(&column.name)).collect();
        let mut rows = Rows::new(&pool.server, statement, Arc::new(Schema::new(fields)), BATCH_ROWS);
        let mut found = conn.exec_iter(statement.sql.as_str(), ()).await.map_err(failed)?;
        let (mut answer, mut text) = (Answer::default(), String::new());
        while let Some(row) = found.next().await.map_err(failed)? {
            answer.count += 1;
            for (place, column) in statement.columns.iter().enumerate() {
                let value: &Value = row.as_ref(place).unwrap_or(&Value::NULL);
                rows.put(place, cell(value, column.ty.scalar, &mut text))?;
            }
            if let Some(batch) = rows.end_row()? {
                answer.keep(&pool.server, batch)?;
            }
        }
        answer.rows.extend(rows.finish()?);
        Ok(answer)
    }

    /// It defers nothing, but may be gone.
    async fn judge(&mut self) -> Result<()> {
        let pool = Arc::clone(&self.pool);
        let asked = self.conn()?.ping().await;
        asked.map_err(|error| pool.failed(&RemoteQuery::command("COMMIT"), &error))
    }

    async fn commit(&mut self) -> Result<()> {
        let pool = Arc::clone(&self.pool);
        let conn = self.conn()?;
        match conn.query_drop("COMMIT").await {
            Ok(()) => {}
            Err(error @ Error::Server(_)) => {
                return Err(pool.failed(&RemoteQuery::command("COMMIT"), &error));
            }
            Err(error) => return Err(unknown(&pool.server, error.to_string())),
        }
        // Queries are not meant to be strict.
        if conn.query_drop(SQL_MODE).await.is_ok()
            && let Some(connection) = self.connection.take()
        {
            pool.put(connection);
        }
        Ok(())
    }

    fn stop(&self) -> Option<BoxFuture<'static, Result<()>>> {
        let (pool, stop) = (Arc::clone(&self.pool), self.connection.as_ref()?.stop()?);
        Some(Box::pin(async move {
            stop.await.map_err(|error| pool.failed(&RemoteQuery::command(KILL_QUERY), &error))
        }))
    }
}
