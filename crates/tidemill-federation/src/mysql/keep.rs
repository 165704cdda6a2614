//! What a column there would make of a value: INSERT and UPDATE refuse what it would keep as another one without a word.
//! Strict mode refuses the rest there.

use std::str::from_utf8;
use std::sync::Arc;

use mysql_async::consts::{ColumnFlags, ColumnType};
use mysql_async::prelude::Queryable;
use mysql_async::{Column, Conn, Error, Row, Value};
use tidemill_sql::text::write_timestamp;
use tidemill_sql::types::Scalar;
use tidemill_sql::{Result, SqlError};

use super::check::mismatch;
use super::connect::Pool;
use super::kind::{self, BINARY};
use super::write::{names, query};
use crate::cell::Cell;
use crate::connector::Insertion;
use crate::value::Values;

/// The decimals of a float that has as many as it needs.
const DECIMALS_ANY: u8 = 31;
/// Bytes of a character, by which the connection counts the length of a varchar.
const CHARACTER_BYTES: usize = 4;

/// A column that values go into.
#[derive(Debug)]
pub struct Kept {
    found: Column,
    /// As it is declared there: `enum('a','b')`.
    declared: String,
    /// The values of an enum, or the parts of a set.
    members: Vec<String>,
}

/// The columns of an insertion. What is of another type is an error.
pub async fn described(pool: &Pool, conn: &mut Conn, into: &Insertion) -> Result<Vec<Kept>> {
    let select = query(into, format!("SELECT {} FROM {}", names(into), into.relation));
    let failed = |error: Error| pool.failed(&select, &error);
    let all = declared(pool, conn, into).await?;
    let statement = conn.prep(select.sql.as_str()).await.map_err(failed)?;
    let mut columns = Vec::with_capacity(into.columns.len());
    for (column, found) in into.columns.iter().zip(statement.columns()) {
        if !kind::fits(found, column.ty) {
            return Err(mismatch(pool, &select, column, found));
        }
        let row = all.iter().find(|row| is_named(row, &column.remote));
        let declared = row.and_then(|row| told(row, 1)).unwrap_or_default();
        columns.push(Kept { found: found.clone(), members: members(&declared), declared });
    }
    conn.close(statement).await.map_err(failed)?;
    Ok(columns)
}

/// Of those columns the ones that MySQL makes of others.
pub async fn generated(pool: &Pool, conn: &mut Conn, into: &Insertion) -> Result<Arc<[String]>> {
    let all = declared(pool, conn, into).await?;
    let is_generated = |remote: &str| {
        let row = all.iter().find(|row| is_named(row, remote));
        let more = row.and_then(|row| told(row, 5)).unwrap_or_default().to_uppercase();
        ["STORED GENERATED", "VIRTUAL GENERATED", "PERSISTENT"].iter().any(|kind| more.contains(kind))
    };
    let columns = into.definition.columns.iter().map(|column| column.remote.clone());
    Ok(columns.filter(|remote| is_generated(remote)).collect())
}

/// All columns of the table: name, type, null, key, default, and what else there is.
async fn declared(pool: &Pool, conn: &mut Conn, into: &Insertion) -> Result<Vec<Row>> {
    let show = query(into, format!("SHOW COLUMNS FROM {}", into.relation));
    conn.query(show.sql.as_str()).await.map_err(|error| pool.failed(&show, &error))
}

/// Names of columns know no case there.
fn is_named(row: &Row, name: &str) -> bool {
    told(row, 0).is_some_and(|found| found.to_lowercase() == name.to_lowercase())
}

fn told(row: &Row, place: usize) -> Option<String> {
    row.get_opt(place)?.ok()
}

impl Kept {
    /// As errors tell it.
    pub fn shown(&self) -> String {
        if self.declared.is_empty() { kind::shown(&self.found) } else { self.declared.clone() }
    }

    /// A value as the column keeps it.
    pub fn value(&self, values: &Values<'_>, place: usize, row: usize, text: &mut Vec<u8>) -> Result<Value> {
        let scalar = values.scalar(place);
        let cell = match values.get(place, row, text)? {
            // Its spaces at the end say nothing.
            Cell::Text(written) if scalar == Scalar::Bpchar => Cell::Text(written.trim_ascii_end()),
            cell => cell,
        };
        let mut time = Vec::new();
        if let Cell::Time(us) = cell {
            write_timestamp(us, &mut time);
        }
        let refusal = match cell {
            Cell::Integer(value) => self.refusal_of_year(value),
            Cell::Float(value) => self.refusal_of_float(value),
            Cell::Time(_) => self.refusal_of_digits(&time, "of a second"),
            Cell::Bytes(bytes) => self.refusal_of_bytes(bytes),
            Cell::Text(written) => match scalar {
                Scalar::Time => self.refusal_of_digits(written, "of a second"),
                Scalar::Numeric => self.refusal_of_number(written),
                _ => self.refusal_of_text(from_utf8(written).unwrap_or_default()),
            },
            _ => None,
        };
        if let Some(why) = refusal {
            return Err(values.refused(place, &why));
        }
        Ok(match cell {
            Cell::Null => Value::NULL,
            Cell::Bool(value) => Value::Int(value.into()),
            Cell::Integer(value) => Value::Int(value),
            Cell::Float(value) => Value::Double(value),
            Cell::Time(_) => Value::Bytes(time),
            Cell::Bytes(bytes) | Cell::Text(bytes) => Value::Bytes(bytes.to_vec()),
            _ => return Err(SqlError::internal("a value of no kind that MySQL has")),
        })
    }

    fn is(&self, ty: ColumnType) -> bool {
        self.found.column_type() == ty
    }

    fn is_text(&self) -> bool {
        self.found.character_set() != BINARY
    }

    /// `char(n)` and `binary(n)`
    fn is_padded(&self) -> bool {
        self.is(ColumnType::MYSQL_TYPE_STRING) && self.members.is_empty()
    }

    fn refusal_of_year(&self, value: i64) -> Option<String> {
        let is_short = self.is(ColumnType::MYSQL_TYPE_YEAR) && (1..=99).contains(&value);
        is_short.then(|| "a year of two digits would become one of this century or the last".to_string())
    }

    fn refusal_of_float(&self, value: f64) -> Option<String> {
        let decimals = self.found.decimals();
        if !value.is_finite() {
            return Some("MySQL has no infinity and no NaN".to_string());
        }
        let is_short = self.is(ColumnType::MYSQL_TYPE_FLOAT);
        if is_short && f64::from(value as f32) != value {
            return Some("it would be rounded to a float of four bytes".to_string());
        }
        let rounded = format!("{value:.*}", usize::from(decimals));
        let is_kept = match is_short {
            true => rounded.parse() == Ok(value as f32),
            false => rounded.parse() == Ok(value),
        };
        (decimals < DECIMALS_ANY && !is_kept)
            .then(|| format!("the column has {decimals} digits behind the point"))
    }

    fn refusal_of_number(&self, written: &[u8]) -> Option<String> {
        let number = from_utf8(written).unwrap_or_default();
        if number.contains(|c: char| c.is_ascii_alphabetic()) {
            return Some("MySQL has no infinity and no NaN".to_string());
        }
        if let Some(refusal) = number.parse().ok().and_then(|year| self.refusal_of_year(year)) {
            return Some(refusal);
        }
        let exact = if number.contains('.') { number.trim_end_matches('0') } else { number };
        self.refusal_of_digits(exact.as_bytes(), "behind the point")
    }

    /// Digits behind the point that the column has no place for would be rounded.
    fn refusal_of_digits(&self, written: &[u8], of: &str) -> Option<String> {
        let point = written.iter().position(|byte| *byte == b'.');
        let digits = point.map_or(0, |point| written.len() - point - 1);
        let decimals = self.found.decimals();
        (digits > usize::from(decimals)).then(|| format!("the column has {decimals} digits {of}"))
    }

    fn refusal_of_bytes(&self, bytes: &[u8]) -> Option<String> {
        let length = self.length();
        let is_filled = self.is_padded() && bytes.len() < length;
        is_filled.then(|| format!("the column fills it up to {length} bytes"))
    }

    fn refusal_of_text(&self, text: &str) -> Option<String> {
        if !self.members.is_empty() {
            return self.refusal_of_member(text);
        }
        let is_cut = match self.found.column_type() {
            _ if !self.is_text() || !text.ends_with(' ') => false,
            ColumnType::MYSQL_TYPE_STRING => true,
            // Longer ones are refused there, unless what is too long is spaces.
            ColumnType::MYSQL_TYPE_VAR_STRING => text.chars().count() > self.length() / CHARACTER_BYTES,
            ColumnType::MYSQL_TYPE_BLOB => text.len() > self.bytes_max(),
            _ => false,
        };
        is_cut.then(|| "the column loses spaces at the end".to_string())
    }

    /// Case and order are those of the declaration.
    fn refusal_of_member(&self, text: &str) -> Option<String> {
        let is_kept = if self.is_set() {
            let parts: Vec<_> = text.split(',').filter(|part| !part.is_empty()).collect();
            let kept = self.members.iter().map(String::as_str).filter(|known| parts.contains(known));
            kept.collect::<Vec<_>>().join(",") == text
        } else {
            self.members.iter().any(|member| member == text)
        };
        (!is_kept).then(|| format!("the column has {}, in this case and order", self.declared))
    }

    fn is_set(&self) -> bool {
        self.found.flags().contains(ColumnFlags::SET_FLAG)
    }

    fn length(&self) -> usize {
        usize::try_from(self.found.column_length()).unwrap_or(usize::MAX)
    }

    /// Of the longest text.
    fn bytes_max(&self) -> usize {
        match (self.is(ColumnType::MYSQL_TYPE_BLOB), self.declared.as_str()) {
            (false, _) => self.length(),
            (true, "tinytext") => usize::from(u8::MAX),
            (true, "text") => usize::from(u16::MAX),
            (true, _) => usize::MAX,
        }
    }

    /// Whether every value of another column is kept as it is, or refused there.
    pub fn keeps_all_of(&self, other: &Kept) -> bool {
        use ColumnType::*;
        if self.declared == other.declared && !self.declared.is_empty() {
            return true;
        }
        let (to, from) = (self.found.column_type(), other.found.column_type());
        match to {
            MYSQL_TYPE_YEAR => from == to,
            MYSQL_TYPE_TINY | MYSQL_TYPE_SHORT | MYSQL_TYPE_INT24 | MYSQL_TYPE_LONG | MYSQL_TYPE_LONGLONG => {
                other.found.decimals() == 0
            }
            MYSQL_TYPE_FLOAT => from == to && self.found.decimals() == DECIMALS_ANY,
            MYSQL_TYPE_DOUBLE => self.found.decimals() == DECIMALS_ANY,
            MYSQL_TYPE_STRING => false,
            // What is too long is refused there, unless it is spaces, with which no char and no member ends.
            MYSQL_TYPE_VAR_STRING | MYSQL_TYPE_BLOB if self.is_text() => {
                from == MYSQL_TYPE_STRING || self.bytes_max() >= other.bytes_max()
            }
            MYSQL_TYPE_VAR_STRING | MYSQL_TYPE_BLOB => true,
            _ => self.found.decimals() >= other.found.decimals(),
        }
    }
}

/// Of an enum or a set, as MySQL writes the declaration.
fn members(declared: &str) -> Vec<String> {
    let list = declared.strip_prefix("enum(").or_else(|| declared.strip_prefix("set("));
    let (mut members, mut member): (Vec<String>, Option<String>) = (vec![], None);
    let mut letters = list.unwrap_or_default().chars().peekable();
    while let Some(letter) = letters.next() {
        let Some(open) = &mut member else {
            member = (letter == '\'').then(String::new);
            continue;
        };
        match letter {
            '\'' if letters.next_if_eq(&'\'').is_none() => members.extend(member.take()),
            '\\' => open.extend(letters.next().map(unescaped)),
            letter => open.push(letter),
        }
    }
    members
}

fn unescaped(letter: char) -> char {
    match letter {
        '0' => '\0',
        'n' => '\n',
        'r' => '\r',
        letter => letter,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_read_as_they_are_written() {
        assert_eq!(members("enum('x','it''s','a,b','\\\\n','')"), ["x", "it's", "a,b", "\\n", ""]);
        assert_eq!(members("set('one')"), ["one"]);
        assert_eq!(members("varchar(5)"), Vec::<String>::new());
    }
}
