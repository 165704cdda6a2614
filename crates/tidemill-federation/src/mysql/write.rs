//! Writing: a transaction with INSERT, UPDATE and DELETE. Tables of an engine without transactions keep what they were given.

use std::sync::Arc;

use arrow::datatypes::Schema;
use arrow::record_batch::RecordBatch;
use async_trait::async_trait;
use futures::future::BoxFuture;
use mysql_async::prelude::Queryable;
use mysql_async::{Column, Conn, Error, Params, Value};
use tidemill_sql::text::write_timestamp;
use tidemill_sql::types::Scalar;
use tidemill_sql::{Result, SqlError};

use super::check::mismatch;
use super::connect::{Connection, KILL_QUERY, Pool, SQL_MODE};
use super::dialect::MysqlDialect;
use super::kind;
use super::scan::cell;
use crate::cell::{Cell, Rows};
use crate::connector::{Answer, Insertion, RemoteQuery, Writer, unknown};
use crate::dialect::Dialect;
use crate::value::Values;

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
    described: Option<(Insertion, Arc<[Column]>)>,
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
    async fn describe(&mut self, into: &Insertion) -> Result<Arc<[Column]>> {
        if let Some((known, columns)) = &self.described
            && known == into
        {
            return Ok(Arc::clone(columns));
        }
        let query = query(into, format!("SELECT {} FROM {}", names(into), into.relation));
        let pool = Arc::clone(&self.pool);
        let failed = |error: Error| pool.failed(&query, &error);
        let conn = self.conn()?;
        let statement = conn.prep(query.sql.as_str()).await.map_err(failed)?;
        for (column, found) in into.columns.iter().zip(statement.columns()) {
            if !kind::fits(found, column.ty) {
                return Err(mismatch(&pool, &query, column, found));
            }
        }
        let columns: Arc<[Column]> = statement.columns().into();
        conn.close(statement).await.map_err(failed)?;
        self.described = Some((into.clone(), Arc::clone(&columns)));
        Ok(columns)
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

fn names(into: &Insertion) -> String {
    let names: Vec<_> = into.columns.iter().map(|column| MysqlDialect.name(&column.remote)).collect();
    names.join(", ")
}

/// As errors tell it.
fn query(into: &Insertion, sql: String) -> RemoteQuery {
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
                    let value = kept(&values, place, row, column, &mut text)?;
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

    async fn execute(&mut self, statement: &RemoteQuery) -> Result<Answer> {
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

/// A value as the column keeps it.
fn kept(values: &Values<'_>, place: usize, row: usize, column: &Column, text: &mut Vec<u8>) -> Result<Value> {
    use mysql_async::consts::ColumnType::{MYSQL_TYPE_FLOAT, MYSQL_TYPE_YEAR};
    Ok(match values.get(place, row, text)? {
        Cell::Null => Value::NULL,
        Cell::Bool(value) => Value::Int(value.into()),
        cell if column.column_type() == MYSQL_TYPE_YEAR && is_short(cell) => {
            return Err(
                values.refused(place, "a year of two digits would become one of this century or the last")
            );
        }
        Cell::Integer(value) => Value::Int(value),
        Cell::Float(value) if !value.is_finite() => {
            return Err(values.refused(place, "MySQL has no infinity and no NaN"));
        }
        Cell::Float(value)
            if column.column_type() == MYSQL_TYPE_FLOAT && f64::from(value as f32) != value =>
        {
            return Err(values.refused(place, "it would be rounded to a float of four bytes"));
        }
        Cell::Float(value) => Value::Double(value),
        Cell::Time(us) => {
            let mut written = Vec::new();
            write_timestamp(us, &mut written);
            time(values, place, written, column)?
        }
        Cell::Bytes(bytes) => Value::Bytes(bytes.to_vec()),
        Cell::Text(written) if values.scalar(place) == Scalar::Time => {
            time(values, place, written.to_vec(), column)?
        }
        Cell::Text(written) => Value::Bytes(written.to_vec()),
        _ => return Err(SqlError::internal("a value of no kind that MySQL has")),
    })
}

/// A number that is no year of four digits, nor zero.
fn is_short(cell: Cell<'_>) -> bool {
    match cell {
        Cell::Integer(value) => (1..=99).contains(&value),
        Cell::Text(written) => matches!(std::str::from_utf8(written).map(str::parse), Ok(Ok(1..=99))),
        _ => false,
    }
}

/// Parts of a second that the column has no place for would be rounded.
fn time(values: &Values<'_>, place: usize, written: Vec<u8>, column: &Column) -> Result<Value> {
    let fraction = written.iter().position(|byte| *byte == b'.').map_or(0, |point| written.len() - point - 1);
    if fraction > usize::from(column.decimals()) {
        let why = format!("the column has {} digits of a second", column.decimals());
        return Err(values.refused(place, &why));
    }
    Ok(Value::Bytes(written))
}
