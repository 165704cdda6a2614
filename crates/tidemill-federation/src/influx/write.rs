//! Writing: rows wait as lines of the line protocol until the commit sends them. InfluxDB has no transactions, so what it
//! refuses then is told, but what came before it stays; nothing of a statement that fails before its commit is sent.

use std::sync::Arc;

use arrow::record_batch::RecordBatch;
use async_trait::async_trait;
use tidemill_sql::{Result, SqlError, SqlState};

use super::dialect::{TIME, TIME_TEXT};
use super::http::Address;
use crate::cell::Cell;
use crate::connector::{Answer, Insertion, RemoteQuery, Writer, unknown};
use crate::health::{cause, is_absence};
use crate::value::Values;

/// Of all lines that wait.
const LINES_BYTES_MAX: usize = 64 << 20;
/// Of one request, about.
const REQUEST_BYTES: usize = 4 << 20;

pub struct Points {
    address: Arc<Address>,
    lines: Vec<u8>,
}

impl Points {
    pub fn new(address: Arc<Address>) -> Self {
        Self { address, lines: Vec::new() }
    }
}

#[async_trait]
impl Writer for Points {
    async fn insert(&mut self, into: &Insertion, rows: &RecordBatch) -> Result<Answer> {
        let (values, tags) = (Values::new(into, rows)?, tags(into));
        let mut line = Line::default();
        for row in 0..rows.num_rows() {
            line.start(&into.definition.remote_table);
            for (place, column) in into.columns.iter().enumerate() {
                line.add(&values, place, row, &column.remote, tags.contains(&column.remote.as_str()))?;
            }
            line.write(&mut self.lines).ok_or_else(|| no_field(into))?;
        }
        if self.lines.len() > LINES_BYTES_MAX {
            let message = format!("more than {LINES_BYTES_MAX} bytes of points wait for their commit");
            return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
                .with_hint("Insert them in several statements."));
        }
        Ok(Answer { count: rows.num_rows() as u64, rows: vec![] })
    }

    async fn execute(&mut self, _: &RemoteQuery) -> Result<Answer> {
        Err(SqlError::unsupported("InfluxDB has no transactions, and only takes rows that are inserted")
            .with_hint("Outside of a transaction block it can be read, too."))
    }

    async fn commit(&mut self) -> Result<()> {
        let mut rest = self.lines.as_slice();
        while !rest.is_empty() {
            let near = REQUEST_BYTES.min(rest.len());
            let end = memchr::memchr(b'\n', &rest[near - 1..]).map_or(rest.len(), |found| near + found);
            let is_first = rest.len() == self.lines.len();
            let written = self.address.write(&rest[..end]).await;
            written.map_err(|error| if is_first { error } else { self.partly(error) })?;
            rest = &rest[end..];
        }
        Ok(())
    }
}

impl Points {
    /// What came before it is there.
    fn partly(&self, error: SqlError) -> SqlError {
        match is_absence(&error) {
            true => unknown(&self.address.server, cause(&error)),
            false => error.with_hint("Points of the same statement that were sent before are there."),
        }
    }
}

/// The columns that are tags, as the table's option says.
fn tags(into: &Insertion) -> Vec<&str> {
    let listed = into.definition.options.get("tags").unwrap_or_default();
    listed.split(',').map(str::trim).filter(|tag| !tag.is_empty()).collect()
}

fn no_field(into: &Insertion) -> SqlError {
    let message =
        format!("a row of foreign table \"{}\" has no field that is not null", into.definition.name);
    SqlError::new(SqlState::NOT_NULL_VIOLATION, message)
        .with_detail("InfluxDB keeps a row of tags and a time only together with a field.")
}

/// The parts of one line: `measurement,tag=value field=value time`.
#[derive(Default)]
struct Line {
    key: String,
    fields: String,
    time: String,
    text: Vec<u8>,
}

impl Line {
    fn start(&mut self, measurement: &str) {
        self.key = escaped(measurement, &[',', ' ']);
        self.fields.clear();
        self.time.clear();
    }

    fn add(&mut self, values: &Values<'_>, place: usize, row: usize, name: &str, is_tag: bool) -> Result<()> {
        let refused = |why: &str| Err(values.refused(place, why));
        let cell = values.get(place, row, &mut self.text)?;
        let written = match (cell, name) {
            (Cell::Null, _) => return Ok(()),
            (Cell::Time(us), TIME) => match us.checked_mul(1000) {
                Some(ns) => {
                    self.time = ns.to_string();
                    return Ok(());
                }
                None => return refused("it is no time of InfluxDB"),
            },
            (_, TIME | TIME_TEXT) => return refused("the time of a point is a timestamp"),
            (Cell::Text(text), _) if is_tag => match std::str::from_utf8(text) {
                Ok("") => return refused("a tag that is empty is none there"),
                Ok(text) if text.contains('\n') || text.ends_with('\\') => {
                    return refused("a tag has no line breaks, and no backslash at its end");
                }
                Ok(text) => {
                    let (name, text) = (escaped(name, &[',', '=', ' ']), escaped(text, &[',', '=', ' ']));
                    self.key += &format!(",{name}={text}");
                    return Ok(());
                }
                Err(_) => return Err(SqlError::internal("a text that is none")),
            },
            _ if is_tag => return refused("a tag is a text"),
            (Cell::Bool(value), _) => value.to_string(),
            (Cell::Integer(value), _) => format!("{value}i"),
            (Cell::Float(value), _) if !value.is_finite() => return refused("InfluxDB has no such number"),
            (Cell::Float(value), _) => format!("{value:?}"),
            (Cell::Text(text), _) => {
                let text = String::from_utf8_lossy(text);
                format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
            }
            _ => return refused("there is no field of its type"),
        };
        let comma = if self.fields.is_empty() { "" } else { "," };
        self.fields += &format!("{comma}{}={written}", escaped(name, &[',', '=', ' ']));
        Ok(())
    }

    /// `None`: it has no field.
    fn write(&self, out: &mut Vec<u8>) -> Option<()> {
        if self.fields.is_empty() {
            return None;
        }
        out.extend_from_slice(format!("{} {} {}", self.key, self.fields, self.time).trim_end().as_bytes());
        out.push(b'\n');
        Some(())
    }
}

fn escaped(text: &str, special: &[char]) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        if special.contains(&letter) {
            escaped.push('\\');
        }
        escaped.push(letter);
    }
    escaped
}
