//! Rows as they came, in one buffer that is used again from statement to statement.

use std::borrow::Cow;
use std::sync::Arc;

/// Memory that is kept from one statement to the next.
const CELLS_KEPT: usize = 8 << 10;
const BYTES_KEPT: usize = 128 << 10;

/// The rows of one statement.
#[derive(Debug, Default)]
pub struct Rows {
    columns: usize,
    /// All rows are counted, and the last one is kept.
    is_last_only: bool,
    /// Only the final result counts, also if it is one without columns.
    is_final_only: bool,
    /// Rows before those that are kept.
    dropped: usize,
    cells: Vec<Cell>,
    bytes: Vec<u8>,
    /// Of the columns; empty where nobody asked the database for them.
    names: Arc<[String]>,
    /// Where they are wanted: the last rows of the results before this one, of the same text.
    earlier: Option<Vec<NamedValue>>,
}

/// The name of a column, and a value; none is NULL.
pub type NamedValue = (String, Option<String>);

/// Databases with typed answers give numbers; a number may also come as text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Cell {
    Null,
    Int(i64),
    Float(f64),
    /// Text or bytes: a range of the buffer.
    Bytes {
        start: u32,
        end: u32,
    },
}

impl Rows {
    /// Of each answer keeps the last row: a large answer then costs a client no memory.
    pub fn of_last_row() -> Self {
        Self { is_last_only: true, ..Self::default() }
    }

    pub(crate) fn is_last_only(&self) -> bool {
        self.is_last_only
    }

    /// A row that is counted and not kept.
    pub(crate) fn drop_row(&mut self) {
        self.dropped += 1;
    }

    /// Its cells come next.
    pub(crate) fn start_row(&mut self) {
        if self.is_last_only && !self.cells.is_empty() {
            self.drop_row();
            self.cells.clear();
            self.bytes.clear();
        }
    }

    /// Forgets the rows, keeps the memory, except that of an answer that was unusually large: each client has such a buffer.
    pub fn start(&mut self, columns: usize) {
        if let Some(mut earlier) = self.earlier.take() {
            earlier.extend(self.last_row());
            self.earlier = Some(earlier);
        }
        self.columns = columns;
        self.dropped = 0;
        self.cells.clear();
        self.cells.shrink_to(CELLS_KEPT);
        self.bytes.clear();
        self.bytes.shrink_to(BYTES_KEPT);
    }

    /// Begins with none. From here on the last row of each result is kept, or that of the final one alone.
    pub fn keep_last_rows(&mut self, of_each: bool) {
        self.start(0);
        self.earlier = of_each.then(Vec::new);
        self.is_final_only = !of_each;
    }

    /// A statement without columns has ended.
    pub(crate) fn end_without_columns(&mut self) {
        if self.is_final_only {
            self.start(0);
        }
    }

    /// What was kept, result by result.
    pub fn take_last_rows(&mut self) -> Vec<NamedValue> {
        let mut kept = self.earlier.take().unwrap_or_default();
        kept.extend(self.last_row());
        kept
    }

    fn last_row(&self) -> Vec<NamedValue> {
        let Some(row) = self.len().checked_sub(1) else { return Vec::new() };
        let value = |column| {
            let name = self.name(column).unwrap_or_default().to_owned();
            (name, self.text(row, column).map(Cow::into_owned))
        };
        (0..self.columns).map(value).collect()
    }

    pub(crate) fn set_names(&mut self, names: impl Into<Arc<[String]>>) {
        self.names = names.into();
    }

    pub fn name(&self, column: usize) -> Option<&str> {
        self.names.get(column).map(String::as_str)
    }

    /// For a row that comes.
    pub(crate) fn reserve(&mut self, cells: usize, bytes: usize) {
        self.cells.reserve(cells);
        self.bytes.reserve(bytes);
    }

    #[inline]
    pub fn push(&mut self, cell: Cell) {
        self.cells.push(cell);
    }

    #[inline]
    pub fn push_bytes(&mut self, bytes: &[u8]) {
        let start = self.bytes.len() as u32;
        self.bytes.extend_from_slice(bytes);
        self.cells.push(Cell::Bytes { start, end: self.bytes.len() as u32 });
    }

    /// Bytes that one row or answer may have in all: `u32` positions.
    pub(crate) fn has_room_for(&self, bytes: usize) -> bool {
        self.bytes.len() + bytes <= u32::MAX as usize
    }

    pub fn len(&self) -> usize {
        self.dropped + self.cells.len().checked_div(self.columns).unwrap_or(0)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn columns(&self) -> usize {
        self.columns
    }

    /// NULL too where there is no such row or column, or the row was not kept.
    pub fn cell(&self, row: usize, column: usize) -> Cell {
        let kept = row.checked_sub(self.dropped).filter(|_| column < self.columns);
        kept.and_then(|row| self.cells.get(row * self.columns + column)).copied().unwrap_or(Cell::Null)
    }

    pub fn is_null(&self, row: usize, column: usize) -> bool {
        self.cell(row, column) == Cell::Null
    }

    /// None for NULL and for what is no number.
    pub fn int(&self, row: usize, column: usize) -> Option<i64> {
        match self.cell(row, column) {
            Cell::Null => None,
            Cell::Int(value) => Some(value),
            Cell::Float(value) => (value.fract() == 0.0).then_some(value as i64),
            Cell::Bytes { start, end } => {
                std::str::from_utf8(self.range(start, end)).ok()?.trim().parse().ok()
            }
        }
    }

    pub fn float(&self, row: usize, column: usize) -> Option<f64> {
        match self.cell(row, column) {
            Cell::Null => None,
            Cell::Int(value) => Some(value as f64),
            Cell::Float(value) => Some(value),
            Cell::Bytes { start, end } => {
                std::str::from_utf8(self.range(start, end)).ok()?.trim().parse().ok()
            }
        }
    }

    pub fn text(&self, row: usize, column: usize) -> Option<Cow<'_, str>> {
        match self.cell(row, column) {
            Cell::Null => None,
            Cell::Int(value) => Some(Cow::Owned(value.to_string())),
            Cell::Float(value) => Some(Cow::Owned(value.to_string())),
            Cell::Bytes { start, end } => Some(String::from_utf8_lossy(self.range(start, end))),
        }
    }

    /// None for NULL and for numbers.
    pub fn bytes(&self, row: usize, column: usize) -> Option<&[u8]> {
        match self.cell(row, column) {
            Cell::Bytes { start, end } => Some(self.range(start, end)),
            _ => None,
        }
    }

    fn range(&self, start: u32, end: u32) -> &[u8] {
        &self.bytes[start as usize..end as usize]
    }
}
