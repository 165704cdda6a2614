//! A session: text, prepared statements, bulk inserts.

use std::sync::Arc;

use super::value::{Column, keep_binary_row, keep_text_row, put_literal, put_parameters};
use super::wire::{Fields, IN_TRANSACTION, MORE_RESULTS, broken, end, ok, receive, send, server_error};
use crate::error::{Error, Result};
use crate::target::channel::Channel;
use crate::target::{Connection, Done, Load, Rows, Statement, Value};

/// An INSERT of a load is sent when it has this many bytes: far below the server's max_allowed_packet.
const INSERT_BYTES: usize = 512 << 10;

mod command {
    pub const QUIT: u8 = 1;
    pub const QUERY: u8 = 3;
    pub const PREPARE: u8 = 22;
    pub const EXECUTE: u8 = 23;
    pub const CLOSE: u8 = 25;
}

pub(super) struct Session {
    channel: Channel,
    packet: Vec<u8>,
    body: Vec<u8>,
    prepared: Vec<u32>,
    /// Of the last result.
    status: u64,
    /// It can be cancelled for as long as this is there.
    _key: Option<Arc<u64>>,
}

impl Session {
    pub fn new(channel: Channel, key: Option<Arc<u64>>) -> Self {
        Self { channel, packet: Vec::new(), body: Vec::new(), prepared: Vec::new(), status: 0, _key: key }
    }

    fn receive(&mut self) -> Result<()> {
        receive(&mut self.channel, &mut self.packet).map(drop)
    }

    fn send(&mut self, command: u8, fill: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
        self.body.clear();
        self.body.push(command);
        fill(&mut self.body);
        send(&mut self.channel.out, 0, &self.body);
        self.channel.flush()
    }

    /// All results of a statement or a text; the rows of the last one that has columns are kept.
    fn results(&mut self, mut rows: Option<&mut Rows>, is_binary: bool) -> Result<Done> {
        let mut done = Done::default();
        loop {
            self.receive()?;
            self.status = match self.packet.first() {
                Some(0x00) => {
                    let ok = ok(&self.packet)?;
                    done.affected = ok.affected;
                    rows.iter_mut().for_each(|rows| rows.end_without_columns());
                    ok.status
                }
                Some(0xff) => return Err(server_error(&self.packet)),
                Some(0xfb) => {
                    // LOAD DATA LOCAL: an empty file is sent, the server answers with the error or with OK.
                    return Err(Error::Unsupported("LOAD DATA LOCAL has no file here".to_owned()));
                }
                _ => {
                    let columns = self.columns()?;
                    if let Some(rows) = rows.as_deref_mut() {
                        rows.start(columns.len());
                        rows.set_names(columns.iter().map(|column| column.name.clone()).collect::<Vec<_>>());
                    }
                    done.rows = 0;
                    self.rows(&columns, rows.as_deref_mut(), is_binary, &mut done)?
                }
            };
            if self.status & MORE_RESULTS == 0 {
                return Ok(done);
            }
        }
    }

    fn columns(&mut self) -> Result<Vec<Column>> {
        let count = Fields(&self.packet).count()?;
        let mut columns = Vec::new();
        for _ in 0..count {
            self.receive()?;
            columns.push(Column::read(&self.packet)?);
        }
        self.receive()?;
        end(&self.packet).ok_or_else(|| broken("columns without an end"))?;
        Ok(columns)
    }

    fn rows(
        &mut self,
        columns: &[Column],
        mut rows: Option<&mut Rows>,
        is_binary: bool,
        done: &mut Done,
    ) -> Result<u64> {
        loop {
            self.receive()?;
            if self.packet.first() == Some(&0xff) {
                return Err(server_error(&self.packet));
            }
            if let Some(status) = end(&self.packet) {
                return Ok(status);
            }
            done.rows += 1;
            rows.iter_mut().for_each(|rows| rows.start_row());
            match (rows.as_deref_mut(), is_binary) {
                (Some(rows), true) => keep_binary_row(rows, columns, &self.packet)?,
                (Some(rows), false) => keep_text_row(rows, columns.len(), &self.packet)?,
                (None, _) => {}
            }
        }
    }

    fn prepare_id(&mut self, sql: &str) -> Result<u32> {
        self.send(command::PREPARE, |body| body.extend_from_slice(sql.as_bytes()))?;
        self.receive()?;
        if self.packet.first() == Some(&0xff) {
            return Err(server_error(&self.packet));
        }
        let mut fields = Fields(&self.packet);
        fields.bytes(1)?;
        let id = fields.uint(4)? as u32;
        for count in [fields.uint(2)?, fields.uint(2)?] {
            // The descriptions come again with each result.
            for _ in 0..count + u64::from(count > 0) {
                receive(&mut self.channel, &mut self.body)?;
            }
        }
        Ok(id)
    }

    fn execute_id(&mut self, id: u32, values: &[Value<'_>], rows: Option<&mut Rows>) -> Result<Done> {
        self.send(command::EXECUTE, |body| {
            body.extend_from_slice(&id.to_le_bytes());
            // No cursor; once.
            body.extend_from_slice(&[0, 1, 0, 0, 0]);
            put_parameters(body, values);
        })?;
        self.results(rows, true)
    }
}

impl Connection for Session {
    fn execute(&mut self, sql: &str) -> Result<Done> {
        self.send(command::QUERY, |body| body.extend_from_slice(sql.as_bytes()))?;
        self.results(None, false)
    }

    fn query(&mut self, sql: &str, rows: &mut Rows) -> Result<Done> {
        rows.start(0);
        self.send(command::QUERY, |body| body.extend_from_slice(sql.as_bytes()))?;
        self.results(Some(rows), false)
    }

    fn prepare(&mut self, sql: &str) -> Result<Statement> {
        let id = self.prepare_id(sql)?;
        self.prepared.push(id);
        Ok(Statement(self.prepared.len() as u32 - 1))
    }

    fn run(
        &mut self,
        statement: Statement,
        values: &[Value<'_>],
        mut rows: Option<&mut Rows>,
    ) -> Result<Done> {
        rows.iter_mut().for_each(|rows| rows.start(0));
        self.execute_id(self.prepared[statement.0 as usize], values, rows)
    }

    fn run_once(&mut self, sql: &str, values: &[Value<'_>], mut rows: Option<&mut Rows>) -> Result<Done> {
        rows.iter_mut().for_each(|rows| rows.start(0));
        let id = self.prepare_id(sql)?;
        let done = self.execute_id(id, values, rows);
        // The server does not answer to this.
        self.send(command::CLOSE, |body| body.extend_from_slice(&id.to_le_bytes()))?;
        done
    }

    fn load<'a>(&'a mut self, table: &str, columns: &[&str]) -> Result<Box<dyn Load + 'a>> {
        let head = format!("insert into {table} ({}) values ", columns.join(", ")).into_bytes();
        // An INSERT would say that there is no such table only after the first batch.
        self.execute(&format!("select 1 from {table} limit 0"))?;
        self.execute("start transaction")?;
        Ok(Box::new(Inserting { sql: head.clone(), head, session: self, rows: 0, is_finished: false }))
    }

    fn is_in_transaction(&self) -> bool {
        self.status & IN_TRANSACTION != 0
    }

    fn is_encrypted(&self) -> bool {
        self.channel.is_encrypted()
    }

    fn version(&mut self) -> Result<String> {
        let mut rows = Rows::default();
        self.query("select version(), @@version_comment", &mut rows)?;
        let text = |column| rows.text(0, column).unwrap_or_default().into_owned();
        Ok(format!("{} {}", text(0), text(1)))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // A server that is gone needs no good-bye.
        let _ = self.send(command::QUIT, |_| {});
    }
}

struct Inserting<'a> {
    session: &'a mut Session,
    head: Vec<u8>,
    sql: Vec<u8>,
    rows: u64,
    is_finished: bool,
}

impl Inserting<'_> {
    fn insert(&mut self) -> Result<()> {
        if self.sql.len() == self.head.len() {
            return Ok(());
        }
        let sql = &self.sql;
        self.session.send(command::QUERY, |body| body.extend_from_slice(sql))?;
        self.sql.truncate(self.head.len());
        self.session.results(None, false).map(drop)
    }
}

impl Load for Inserting<'_> {
    fn row(&mut self, values: &[Value<'_>]) -> Result<()> {
        let is_first = self.sql.len() == self.head.len();
        self.sql.extend_from_slice(if is_first { b"(" } else { b",(" });
        for (i, value) in values.iter().enumerate() {
            if i > 0 {
                self.sql.push(b',');
            }
            put_literal(&mut self.sql, value);
        }
        self.sql.push(b')');
        self.rows += 1;
        if self.sql.len() < INSERT_BYTES { Ok(()) } else { self.insert() }
    }

    fn finish(mut self: Box<Self>) -> Result<u64> {
        self.insert()?;
        self.session.execute("commit")?;
        self.is_finished = true;
        Ok(self.rows)
    }
}

impl Drop for Inserting<'_> {
    fn drop(&mut self) {
        if !self.is_finished {
            // Why it failed has been told; the connection must be usable again.
            let _ = self.session.execute("rollback");
        }
    }
}
