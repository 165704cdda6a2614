//! Cursors: a portal's place in its rows, DECLARE, FETCH, MOVE and CLOSE.

use std::sync::Arc;

use arrow::array::{RecordBatch, UInt32Array};
use arrow::compute::take_record_batch;
use arrow::datatypes::SchemaRef;
use datafusion::common::ScalarValue;
use sqlparser::ast;
use tidemill_sql::planner::vars;
use tidemill_sql::statement::{DeclareCursor, FetchDirection};
use tidemill_sql::{Result, SqlError, SqlState};

use super::execute::Outcome;
use super::extended::{Portal, State};
use super::rows::{Rows, Tag};
use super::{PORTALS_MAX, Session};
use crate::system::Snapshots;

/// A place in a result. Rows that were passed are kept only if it may go back.
pub(super) struct Cursor {
    rows: Rows,
    kept: Option<Kept>,
    /// Number of rows before the place; the row under the cursor is the last of them, unless `at_end`.
    passed: u64,
    at_end: bool,
}

#[derive(Default)]
struct Kept {
    batches: Vec<RecordBatch>,
    /// The number of the row after each batch.
    ends: Vec<u64>,
    bytes: usize,
    bytes_max: usize,
}

impl Kept {
    fn len(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    fn push(&mut self, batch: RecordBatch) -> Result<()> {
        self.bytes += batch.get_array_memory_size();
        check_memory(self.bytes, self.bytes_max)?;
        self.ends.push(self.len() + batch.num_rows() as u64);
        self.batches.push(batch);
        Ok(())
    }

    /// The batch that has row `number`, and where the batch begins.
    fn batch_of(&self, number: u64) -> (&RecordBatch, u64) {
        let place = self.ends.partition_point(|end| *end <= number);
        let start = if place == 0 { 0 } else { self.ends[place - 1] };
        (&self.batches[place], start)
    }
}

fn check_memory(bytes: usize, bytes_max: usize) -> Result<()> {
    if bytes <= bytes_max {
        return Ok(());
    }
    let message = format!("the rows of a cursor exceed the limit of {bytes_max} bytes");
    Err(SqlError::new(SqlState::OUT_OF_MEMORY, message).with_hint(
        "Fetch fewer rows at a time, declare the cursor NO SCROLL, or raise \"query_memory_limit\".",
    ))
}

fn only_forward() -> SqlError {
    SqlError::new(SqlState::INVALID_OBJECT_STATE, "cursor can only scan forward")
        .with_hint("Declare it with SCROLL option to enable backward scan.")
}

impl Cursor {
    /// `scroll` is the number of bytes that passed rows may take, `None` if the cursor goes forward only.
    pub(super) fn new(rows: Rows, scroll: Option<usize>) -> Self {
        let kept = scroll.map(|bytes_max| Kept { bytes_max, ..Kept::default() });
        Self { rows, kept, passed: 0, at_end: false }
    }

    pub(super) fn schema(&self) -> &SchemaRef {
        &self.rows.schema
    }

    pub(super) fn shown(&self, batch: RecordBatch, formats: &[i16]) -> Result<RecordBatch> {
        self.rows.shown(batch, formats)
    }

    pub(super) fn snapshots(&self) -> Option<&Arc<Snapshots>> {
        self.rows.snapshots.as_ref()
    }

    pub(super) fn restart_count(&mut self) {
        self.rows.restart_count();
    }

    pub(super) fn tag(&self) -> String {
        self.rows.tag()
    }

    /// The next rows, `max` of them at most; `None` puts the cursor behind the last row.
    pub(super) async fn forward(&mut self, max: u64) -> Result<Option<RecordBatch>> {
        let limit = usize::try_from(max).unwrap_or(usize::MAX);
        let Some(kept) = &mut self.kept else {
            let batch = self.rows.next(limit).await?;
            self.at_end = batch.is_none();
            self.passed += batch.as_ref().map_or(0, |b| b.num_rows() as u64);
            return Ok(batch);
        };
        if self.passed == kept.len() {
            match self.rows.next(usize::MAX).await? {
                Some(batch) => kept.push(batch)?,
                None => {
                    self.at_end = true;
                    return Ok(None);
                }
            }
        }
        let (batch, start) = kept.batch_of(self.passed);
        let from = (self.passed - start) as usize;
        let count = (batch.num_rows() - from).min(limit);
        self.passed += count as u64;
        Ok(Some(batch.slice(from, count)))
    }

    /// The rows before the one under the cursor, last first, `max` of them at most; `None` puts the cursor before the
    /// first row.
    fn back(&mut self, max: u64) -> Result<Option<RecordBatch>> {
        let kept = self.kept.as_ref().ok_or_else(only_forward)?;
        let before = if self.at_end { self.passed } else { self.passed.saturating_sub(1) };
        self.at_end = false;
        let Some(last) = before.checked_sub(1) else {
            self.passed = 0;
            return Ok(None);
        };
        let (batch, start) = kept.batch_of(last);
        let count = max.min(before - start);
        let places = (before - start - count..before - start).rev();
        let places: UInt32Array = places.map(|place| place as u32).collect();
        let rows = take_record_batch(batch, &places).map_err(|e| SqlError::internal(e.to_string()))?;
        self.passed = before - count + 1;
        Ok(Some(rows))
    }

    fn rewind(&mut self) -> Result<()> {
        if self.kept.is_none() && (self.passed > 0 || self.at_end) {
            return Err(only_forward());
        }
        (self.passed, self.at_end) = (0, false);
        Ok(())
    }

    /// Moves over `count` rows, forward or backward, and gives them to `take`.
    async fn step(&mut self, count: i64, take: &mut impl FnMut(RecordBatch) -> Result<()>) -> Result<u64> {
        let mut left = count.unsigned_abs();
        while left > 0 {
            let batch = if count > 0 { self.forward(left).await? } else { self.back(left)? };
            let Some(batch) = batch else { break };
            left -= batch.num_rows() as u64;
            take(batch)?;
        }
        Ok(count.unsigned_abs() - left)
    }

    async fn skip(&mut self, count: i64) -> Result<u64> {
        self.step(count, &mut |_| Ok(())).await
    }

    /// As PostgreSQL's `DoPortalRunFetch`: moves, and gives the rows of the direction to `take`.
    async fn fetch(
        &mut self,
        direction: FetchDirection,
        take: &mut impl FnMut(RecordBatch) -> Result<()>,
    ) -> Result<u64> {
        match direction {
            FetchDirection::Forward(0) | FetchDirection::Relative(0) => self.again(take).await,
            FetchDirection::Forward(count) => self.step(count, take).await,
            FetchDirection::ForwardAll => self.step(i64::MAX, take).await,
            FetchDirection::BackwardAll => self.step(-i64::MAX, take).await,
            FetchDirection::First => self.absolute(1, take).await,
            FetchDirection::Last => self.absolute(-1, take).await,
            FetchDirection::Absolute(number) => self.absolute(number, take).await,
            FetchDirection::Relative(count) => {
                let towards = count - count.signum();
                if towards == 0 || self.skip(towards).await? == towards.unsigned_abs() {
                    return self.step(count.signum(), take).await;
                }
                Ok(0)
            }
        }
    }

    /// The row under the cursor.
    async fn again(&mut self, take: &mut impl FnMut(RecordBatch) -> Result<()>) -> Result<u64> {
        if self.passed == 0 || self.at_end {
            return Ok(0);
        }
        if self.kept.is_none() {
            return Err(only_forward());
        }
        self.passed -= 1;
        self.step(1, take).await
    }

    async fn absolute(
        &mut self,
        number: i64,
        take: &mut impl FnMut(RecordBatch) -> Result<()>,
    ) -> Result<u64> {
        if number < 0 {
            self.skip(i64::MAX).await?;
            if self.kept.is_none() {
                return Err(only_forward());
            }
            self.skip(number + 1).await?;
            return self.step(-1, take).await;
        }
        let before = number.saturating_sub(1).max(0);
        if number == 0 || self.at_end || (before as u64) < self.passed {
            self.rewind()?;
        }
        if number == 0 {
            return Ok(0);
        }
        let missing = before - self.passed as i64;
        if self.skip(missing).await? < missing as u64 {
            return Ok(0);
        }
        self.step(1, take).await
    }
}

/// What `DECLARE` says about a cursor.
#[derive(Debug, Clone)]
pub(crate) struct Declared {
    pub text: String,
    pub binary: bool,
    pub hold: bool,
    pub scroll: bool,
    pub created_us: i64,
}

impl Session {
    pub(super) async fn declare(
        &mut self,
        declare: DeclareCursor,
        text: String,
        values: Vec<ScalarValue>,
    ) -> Result<Outcome> {
        if !declare.hold && !self.in_block() {
            let message = "DECLARE CURSOR can only be used in transaction blocks";
            return Err(SqlError::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, message));
        }
        if self.portals.contains(&declare.name) {
            let message = format!("cursor \"{}\" already exists", declare.name);
            return Err(SqlError::new(SqlState::DUPLICATE_CURSOR, message));
        }
        self.check_portal_count()?;
        let statement = ast::Statement::Query(declare.query);
        let rows = self.select(&statement, &text, values).await?;
        let scroll = declare.scroll.then(|| self.settings.current().query_memory_limit_bytes);
        let mut portal = Portal::new(self.number_portal(), None, vec![], vec![]);
        portal.state = State::Rows(Cursor::new(rows, scroll));
        portal.declared = Some(Declared {
            text,
            binary: declare.binary,
            hold: declare.hold,
            scroll: declare.scroll,
            created_us: vars::now_us(),
        });
        self.portals.insert(&declare.name, portal);
        Ok(Outcome::Tag("DECLARE CURSOR".into()))
    }

    pub(super) async fn fetch(
        &mut self,
        name: &str,
        direction: FetchDirection,
        is_move: bool,
    ) -> Result<Outcome> {
        let limit = self.settings.current().query_memory_limit_bytes;
        let portal = self.portals.get_mut(name).ok_or_else(|| no_cursor(name))?;
        // As in PostgreSQL, a cursor whose FETCH fails or is interrupted cannot be run any more: what it reads ends with it.
        let State::Rows(mut cursor) = std::mem::replace(&mut portal.state, State::Done) else {
            let message = format!("portal \"{name}\" cannot be run");
            return Err(SqlError::new(SqlState::INVALID_OBJECT_STATE, message));
        };
        let (mut batches, mut bytes) = (Vec::new(), 0);
        let mut take = |batch: RecordBatch| {
            if !is_move {
                bytes += batch.get_array_memory_size();
                check_memory(bytes, limit)?;
                batches.push(batch);
            }
            Ok(())
        };
        let count = cursor.fetch(direction, &mut take).await?;
        let (schema, snapshots) = (Arc::clone(cursor.schema()), cursor.snapshots().cloned());
        portal.state = State::Rows(cursor);
        if is_move {
            return Ok(Outcome::Tag(format!("MOVE {count}")));
        }
        let formats = match &portal.declared {
            Some(declared) if declared.binary => vec![1],
            _ => vec![],
        };
        let mut rows = Rows::of_batches(schema, batches, Tag::Counted("FETCH"));
        rows.snapshots = snapshots;
        Ok(Outcome::Rows(rows, formats))
    }

    /// `CLOSE name`, or `CLOSE ALL`.
    pub(super) fn close_cursor(&mut self, name: Option<&str>) -> Result<Outcome> {
        match name {
            None => {
                self.portals.clear();
                Ok(Outcome::Tag("CLOSE CURSOR ALL".into()))
            }
            Some(name) => {
                self.portals.remove(name).ok_or_else(|| no_cursor(name))?;
                Ok(Outcome::Tag("CLOSE CURSOR".into()))
            }
        }
    }

    pub(super) fn number_portal(&mut self) -> u64 {
        self.next_portal += 1;
        self.next_portal - 1
    }

    pub(super) fn check_portal_count(&self) -> Result<()> {
        if self.portals.len() < PORTALS_MAX {
            return Ok(());
        }
        let message = format!("a session can have at most {PORTALS_MAX} cursors and portals");
        Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message))
    }
}

pub(super) fn no_cursor(name: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_CURSOR_NAME, format!("cursor \"{name}\" does not exist"))
}

#[cfg(test)]
mod tests {
    use arrow::array::{AsArray, Int32Array};
    use arrow::datatypes::{DataType, Field, Int32Type, Schema};

    use super::*;

    /// The numbers 1 to `count` in batches of 3.
    fn cursor(count: i32, scroll: bool) -> Cursor {
        let schema = Arc::new(Schema::new(vec![Field::new("x", DataType::Int32, false)]));
        let numbers: Vec<i32> = (1..=count).collect();
        let batches = numbers.chunks(3).map(|chunk| {
            let column = Arc::new(Int32Array::from(chunk.to_vec()));
            RecordBatch::try_new(Arc::clone(&schema), vec![column]).unwrap()
        });
        let batches = batches.collect();
        Cursor::new(Rows::of_batches(schema, batches, Tag::Counted("SELECT")), scroll.then_some(1 << 20))
    }

    async fn fetch(cursor: &mut Cursor, direction: FetchDirection) -> Result<Vec<i32>, String> {
        let mut found = Vec::new();
        let mut take = |batch: RecordBatch| {
            found.extend(batch.column(0).as_primitive::<Int32Type>().values().iter().copied());
            Ok(())
        };
        cursor.fetch(direction, &mut take).await.map_err(|e| e.into_report().message)?;
        Ok(found)
    }

    /// Answers of PostgreSQL 15 to the same fetches.
    #[tokio::test]
    async fn all_directions() {
        use FetchDirection::*;
        let cursor = &mut cursor(7, true);
        for (direction, expected) in [
            (Forward(2), vec![1, 2]),
            (Relative(0), vec![2]),
            (Forward(-1), vec![1]),
            (Forward(-1), vec![]),
            (Forward(4), vec![1, 2, 3, 4]),
            (Absolute(6), vec![6]),
            (Forward(-4), vec![5, 4, 3, 2]),
            (Last, vec![7]),
            (Forward(1), vec![]),
            (Forward(-2), vec![7, 6]),
            (Absolute(-2), vec![6]),
            (Relative(-2), vec![4]),
            (ForwardAll, vec![5, 6, 7]),
            (BackwardAll, vec![7, 6, 5, 4, 3, 2, 1]),
            (Relative(0), vec![]),
            (First, vec![1]),
            (Absolute(0), vec![]),
            (Relative(3), vec![3]),
            (Absolute(9), vec![]),
            (Absolute(-9), vec![]),
            (Forward(1), vec![1]),
        ] {
            assert_eq!(fetch(cursor, direction).await, Ok(expected), "{direction:?}");
        }
    }

    #[tokio::test]
    async fn without_scroll_only_forward() {
        use FetchDirection::*;
        let back = Err("cursor can only scan forward".to_string());
        let mut c = cursor(7, false);
        assert_eq!(fetch(&mut c, First).await, Ok(vec![1]));
        assert_eq!(fetch(&mut c, Absolute(5)).await, Ok(vec![5]));
        assert_eq!(fetch(&mut c, Absolute(2)).await, back);
        assert_eq!(fetch(&mut c, Forward(-1)).await, back);
        assert_eq!(fetch(&mut c, Forward(0)).await, back);
        assert_eq!(fetch(&mut c, ForwardAll).await, Ok(vec![6, 7]));
        assert_eq!(fetch(&mut c, Last).await, back);
    }

    #[tokio::test]
    async fn kept_rows_are_bounded() {
        let mut c = cursor(1000, true);
        c.kept.as_mut().unwrap().bytes_max = 1000;
        assert!(fetch(&mut c, FetchDirection::Last).await.unwrap_err().contains("exceed the limit"));
    }
}
