//! Writing: a transaction on a connection of its own, which blocks and therefore works in threads that may.

use std::sync::Arc;

use arrow::datatypes::Schema;
use arrow::record_batch::RecordBatch;
use async_trait::async_trait;
use futures::future::BoxFuture;
use rusqlite::types::Value;
use rusqlite::{Connection, InterruptHandle, OpenFlags, Statement, params_from_iter};
use tidemill_sql::text::write_timestamp;
use tidemill_sql::{Result, SqlError};

use super::Database;
use super::declared::{Affinity, check_columns, generated, is_epoch};
use super::scan::cell;
use crate::cell::{Cell, Rows};
use crate::connector::{Answer, Assigned, Assignment, Insertion, RemoteColumn, RemoteQuery, Writer};
use crate::dialect::quote_always;
use crate::generated::refused;
use crate::value::{Values, not_kept};

const BATCH_ROWS: usize = 8192;
/// Nobody else writes from here on. What does not fit into memory waits there, so that who reads meanwhile is no obstacle.
const BEGIN: &str = "PRAGMA cache_spill = off; BEGIN IMMEDIATE";
/// Decimal digits with which a number is surely read as it was written.
const DIGITS_MAX: usize = 15;

pub struct Transaction {
    database: Database,
    /// `None` while a thread has it; if nobody waited for that, it is lost.
    connection: Option<Connection>,
    /// Of the connection, wherever that is.
    interrupt: Option<Arc<InterruptHandle>>,
}

/// What nobody waits for keeps no other writer out.
impl Drop for Transaction {
    fn drop(&mut self) {
        if let (None, Some(interrupt)) = (&self.connection, &self.interrupt) {
            interrupt.interrupt();
        }
    }
}

impl Transaction {
    pub async fn begin(database: Database) -> Result<Self> {
        let mut transaction = Self { database, connection: None, interrupt: None };
        let opened = blocking(transaction.database.clone(), |database| {
            let connection = database.open_with(OpenFlags::SQLITE_OPEN_READ_WRITE)?;
            let begin = RemoteQuery::command(BEGIN);
            connection.execute_batch(BEGIN).map_err(|error| database.failed(&begin, &error))?;
            Ok(connection)
        });
        let connection = opened.await?;
        transaction.interrupt = Some(Arc::new(connection.get_interrupt_handle()));
        transaction.connection = Some(connection);
        Ok(transaction)
    }

    async fn run<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&Database, &Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let connection = self.connection.take();
        let connection = connection.ok_or_else(|| SqlError::internal("a transaction is over"))?;
        let worked = blocking(self.database.clone(), |database| {
            let done = work(database, &connection);
            Ok((connection, done))
        });
        let (connection, done) = worked.await?;
        self.connection = Some(connection);
        done
    }
}

async fn blocking<T: Send + 'static>(
    database: Database,
    work: impl FnOnce(&Database) -> Result<T> + Send + 'static,
) -> Result<T> {
    let worked = tokio::task::spawn_blocking(move || work(&database)).await;
    worked.map_err(|error| SqlError::internal(error.to_string()))?
}

#[async_trait]
impl Writer for Transaction {
    async fn insert(&mut self, into: &Insertion, rows: &RecordBatch) -> Result<Answer> {
        let (into, rows) = (into.clone(), rows.clone());
        self.run(move |database, connection| insert(database, connection, &into, &rows)).await
    }

    async fn generated(&mut self, into: &Insertion) -> Result<Arc<[String]>> {
        let into = into.clone();
        self.run(move |database, connection| generated(database, connection, &query_of(&into))).await
    }

    async fn execute(&mut self, statement: &RemoteQuery) -> Result<Answer> {
        let query = statement.clone();
        self.run(move |database, connection| {
            check_assigned(database, connection, &query)?;
            let statement = connection.prepare(&query.sql);
            let mut statement = statement.map_err(|error| database.failed(&query, &error))?;
            let mut work = Work::new(database, &query);
            work.step(&mut statement, vec![])?;
            work.finish()
        })
        .await
    }

    async fn commit(&mut self) -> Result<()> {
        self.execute(&RemoteQuery::command("COMMIT")).await?;
        self.connection = None;
        Ok(())
    }

    fn stop(&self) -> Option<BoxFuture<'static, Result<()>>> {
        let interrupt = Arc::clone(self.interrupt.as_ref()?);
        Some(Box::pin(async move {
            interrupt.interrupt();
            Ok(())
        }))
    }
}

fn insert(
    database: &Database,
    connection: &Connection,
    into: &Insertion,
    rows: &RecordBatch,
) -> Result<Answer> {
    let query = query_of(into);
    let affinities = check_columns(database, connection, &query)?;
    let places: Vec<Place> =
        into.columns.iter().map(|column| Place::of(&query, &affinities, column)).collect();
    let statement = connection.prepare_cached(&query.sql);
    let mut statement = statement.map_err(|error| database.failed(&query, &error))?;
    let (values, mut text) = (Values::new(into, rows)?, Vec::new());
    let mut work = Work::new(database, &query);
    for row in 0..rows.num_rows() {
        let given = places.iter().enumerate().map(|(i, place)| place.value(&values, i, row, &mut text));
        work.step(&mut statement, given.collect::<Result<_>>()?)?;
    }
    work.finish()
}

fn query_of(into: &Insertion) -> RemoteQuery {
    RemoteQuery {
        sql: insert_sql(into),
        columns: into.returned.clone(),
        table: into.definition.name.clone(),
        relation: into.relation.clone(),
        definition: Arc::clone(&into.definition),
        ..RemoteQuery::default()
    }
}

/// The new values of an UPDATE, which are refused as those of an INSERT are.
fn check_assigned(database: &Database, connection: &Connection, update: &RemoteQuery) -> Result<()> {
    if update.assigned.is_empty() {
        return Ok(());
    }
    let generated = generated(database, connection, update)?;
    if let Some(made) = update.assigned.iter().find(|made| generated.contains(&made.column.remote)) {
        let message = format!("column \"{}\" can only be updated to DEFAULT", made.column.name);
        return Err(refused(&made.column, message, &update.relation));
    }
    let affinities = check_columns(database, connection, update)?;
    let place = |column: &RemoteColumn| Place::of(update, &affinities, column);
    if let Some((into, row)) = Values::of_constants(update)? {
        let (values, mut text) = (Values::new(&into, &row)?, Vec::new());
        for (i, column) in into.columns.iter().enumerate() {
            place(column).value(&values, i, 0, &mut text)?;
        }
    }
    for Assignment { column, value } in &update.assigned {
        if let Assigned::Column(from) = value
            && place(column).is_number()
            && !place(from).is_number()
        {
            let why = format!("\"{}\" makes numbers of texts", column.remote);
            return Err(not_kept(update, column, from, &why));
        }
    }
    Ok(())
}

fn insert_sql(into: &Insertion) -> String {
    let names = |columns: &[RemoteColumn]| {
        let names: Vec<_> = columns.iter().map(|column| quote_always(&column.remote)).collect();
        names.join(", ")
    };
    let values = vec!["?"; into.columns.len()].join(", ");
    let mut sql = format!("INSERT INTO {} ({}) VALUES ({values})", into.relation, names(&into.columns));
    if into.skips_conflicts {
        sql += " ON CONFLICT DO NOTHING";
    }
    if !into.returned.is_empty() {
        sql += &format!(" RETURNING {}", names(&into.returned));
    }
    sql
}

/// A statement that is carried out, perhaps several times.
struct Work<'a> {
    database: &'a Database,
    query: &'a RemoteQuery,
    rows: Rows<'a>,
    answer: Answer,
}

impl<'a> Work<'a> {
    fn new(database: &'a Database, query: &'a RemoteQuery) -> Self {
        let fields: Vec<_> = query.columns.iter().map(|column| column.ty.field(&column.name)).collect();
        let rows = Rows::new(&database.name, query, Arc::new(Schema::new(fields)), BATCH_ROWS);
        Self { database, query, rows, answer: Answer::default() }
    }

    fn step(&mut self, statement: &mut Statement<'_>, values: Vec<Value>) -> Result<()> {
        let failed = |error: rusqlite::Error| self.database.failed(self.query, &error);
        if self.query.columns.is_empty() && !statement.readonly() {
            let changed = statement.execute(params_from_iter(values)).map_err(failed)?;
            self.answer.count += changed as u64;
            return Ok(());
        }
        let mut found = statement.query(params_from_iter(values)).map_err(failed)?;
        while let Some(row) = found.next().map_err(failed)? {
            self.answer.count += 1;
            for (place, column) in self.query.columns.iter().enumerate() {
                let value = row.get_ref(place).map_err(failed)?;
                self.rows.put(place, cell(value, is_epoch(self.query, &column.remote)))?;
            }
            if !self.query.columns.is_empty()
                && let Some(batch) = self.rows.end_row()?
            {
                self.answer.keep(&self.database.name, batch)?;
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Answer> {
        self.answer.rows.extend(self.rows.finish()?);
        Ok(self.answer)
    }
}

/// What becomes of the values of a column.
struct Place {
    is_epoch: bool,
    affinity: Option<Affinity>,
}

impl Place {
    /// `affinities` are those of the columns of the query's table.
    fn of(query: &RemoteQuery, affinities: &[Option<Affinity>], column: &RemoteColumn) -> Self {
        let known = query.definition.columns.iter().position(|known| known.name == column.name);
        let affinity = known.and_then(|place| affinities.get(place).copied().flatten());
        Self { is_epoch: is_epoch(query, &column.remote), affinity }
    }

    fn value(&self, values: &Values<'_>, column: usize, row: usize, text: &mut Vec<u8>) -> Result<Value> {
        Ok(match values.get(column, row, text)? {
            Cell::Null => Value::Null,
            Cell::Bool(value) => Value::Integer(value.into()),
            Cell::Integer(value) => Value::Integer(value),
            Cell::Float(value) if value.is_nan() => return Err(values.refused(column, "NaN is null there")),
            Cell::Float(value) => Value::Real(value),
            Cell::Time(us) if self.is_epoch && us % 1_000_000 == 0 => Value::Integer(us / 1_000_000),
            Cell::Time(_) if self.is_epoch => {
                return Err(values.refused(column, "it is no whole number of seconds"));
            }
            Cell::Time(us) => {
                let mut written = Vec::new();
                write_timestamp(us, &mut written);
                Value::Text(String::from_utf8_lossy(&written).into_owned())
            }
            Cell::Bytes(bytes) => Value::Blob(bytes.to_vec()),
            Cell::Text(written) if self.is_number() && is_long(written) => {
                let why = format!("of more than {DIGITS_MAX} digits, numbers are rounded there");
                return Err(values.refused(column, &why));
            }
            Cell::Text(written) => Value::Text(String::from_utf8_lossy(written).into_owned()),
            _ => return Err(SqlError::internal("a value of no kind that SQLite has")),
        })
    }

    /// Texts that look like numbers become numbers.
    fn is_number(&self) -> bool {
        matches!(self.affinity, Some(Affinity::Integer | Affinity::Real | Affinity::Numeric))
    }
}

fn is_long(text: &[u8]) -> bool {
    let is_number = text.iter().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(byte));
    is_number && text.iter().filter(|byte| byte.is_ascii_digit()).count() > DIGITS_MAX
}
