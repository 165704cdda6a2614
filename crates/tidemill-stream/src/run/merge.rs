//! Merges inputs that are sorted by key: brings the rows of each group together without merging their states.
//!
//! The rows of all inputs come out in key order; rows of equal keys are next to each other, those of an earlier input
//! first, since some aggregates depend on the order. Beside each row is the number of its group, which is what
//! `GroupsAccumulator::merge_batch` takes. Stretches in which no other input has a key are passed on in one piece.
//!
//! Memory: a window of each input and one chunk. Keys are encoded only in windows in which inputs overlap.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::compute::{concat_batches, interleave, take};
use arrow::datatypes::SchemaRef;

use super::compact::window;
use super::key::conform;
use super::{KeyEncoder, Keys, Result, RunError};

/// A chunk ends at the first end of a group at or behind this many rows…
const CHUNK_ROWS: usize = 8192;
/// … or about this many bytes, so that no column of it outgrows 32-bit offsets unless single rows do.
const CHUNK_BYTES: usize = 16 * 1024 * 1024;
/// A window that no other input reaches into becomes a chunk of its own, without a copy, from this many rows.
const PASS_ROWS: usize = 1024;
/// From this mean length on, pieces are copied whole and not row by row.
const CONCAT_ROWS: usize = 32;

/// Rows of whole groups.
#[derive(Debug)]
pub struct Chunk {
    pub batch: RecordBatch,
    /// The number of each row's group, from 0, never falling.
    pub groups: Vec<usize>,
    pub group_count: usize,
}

impl Chunk {
    /// Every row is a group of its own: there is nothing to merge.
    pub fn is_unique(&self) -> bool {
        self.group_count == self.groups.len()
    }

    /// The first `keys` columns, one row a group.
    pub fn group_keys(&self, keys: usize) -> Result<Vec<ArrayRef>> {
        let columns = &self.batch.columns()[..keys];
        if self.is_unique() {
            return Ok(columns.to_vec());
        }
        let is_first = |&row: &usize| row == 0 || self.groups[row] != self.groups[row - 1];
        let firsts: UInt32Array =
            (0..self.groups.len()).filter(is_first).map(|row| row as u32).collect::<Vec<_>>().into();
        Ok(columns.iter().map(|column| take(column, &firsts, None)).collect::<Result<_, _>>()?)
    }
}

/// An iterator over [`Chunk`]s. Ends after an error.
#[derive(Debug)]
pub struct Merge<I> {
    schema: SchemaRef,
    encoder: KeyEncoder,
    cursors: Vec<Cursor<I>>,
    /// The cursors that have rows left, by their next key, then by their number.
    order: Vec<usize>,
    chunk: Pieces,
    started: bool,
}

impl<I, E> Merge<I>
where
    I: Iterator<Item = Result<RecordBatch, E>>,
    E: From<RunError>,
{
    /// `inputs` are ordered from the oldest to the newest, each sorted by its first `keys` columns, keys unique
    /// within it; their batches may have any size. If there are several inputs, their order is checked at the bounds
    /// of windows, and row by row in windows that overlap.
    pub fn try_new(schema: SchemaRef, keys: usize, inputs: Vec<I>) -> Result<Self> {
        let encoder = KeyEncoder::try_new(&schema, keys)?;
        let cursors = inputs.into_iter().map(Cursor::new).collect();
        Ok(Self { schema, encoder, cursors, order: Vec::new(), chunk: Pieces::default(), started: false })
    }

    fn start(&mut self) -> Result<(), E> {
        self.started = true;
        let alone = self.cursors.len() == 1;
        for number in 0..self.cursors.len() {
            if self.cursors[number].load(&self.schema, &self.encoder, alone)? {
                self.order.push(number);
            }
        }
        let cursors = &self.cursors;
        self.order.sort_by_key(|&number| (cursors[number].key(), number));
        Ok(())
    }

    fn next_chunk(&mut self) -> Result<Option<Chunk>, E> {
        if !self.started {
            self.start()?;
        }
        while let Some(&head) = self.order.first() {
            if self.chunk.is_full() {
                return self.take_chunk();
            }
            let stretch = self.stretch()?;
            if stretch == 0 {
                self.take_group()?;
                continue;
            }
            let cursor = &mut self.cursors[head];
            let passes = stretch == cursor.window.num_rows() && stretch >= PASS_ROWS;
            if passes && !self.chunk.is_empty() {
                return self.take_chunk();
            }
            let count = if passes { stretch } else { stretch.min(self.chunk.room(cursor.row_bytes)) };
            self.chunk.push(cursor, count);
            self.settle(0)?;
            if passes {
                return self.take_chunk();
            }
        }
        self.take_chunk()
    }

    /// How many rows of the first cursor's window lie below all keys of the others.
    fn stretch(&mut self) -> Result<usize> {
        let Some(&next) = self.order.get(1) else {
            return Ok(self.cursors[self.order[0]].left());
        };
        let [head, next] =
            self.cursors.get_disjoint_mut([self.order[0], next]).expect("a cursor is in the order only once");
        head.rows_below(next.key(), &self.encoder)
    }

    /// Takes the first row of every cursor that is at the first key.
    fn take_group(&mut self) -> Result<(), E> {
        let cursors = &self.cursors;
        let key = cursors[self.order[0]].key();
        let ties = 1 + self.order[1..].iter().take_while(|&&number| cursors[number].key() == key).count();
        self.chunk.group_count += 1;
        for &number in &self.order[..ties] {
            self.chunk.push_tied(&mut self.cursors[number]);
        }
        // From behind: what is already settled is sorted and stays behind what is not.
        for position in (0..ties).rev() {
            self.settle(position)?;
        }
        Ok(())
    }

    /// Puts the cursor at `position`, which has moved on, in its place among those behind it.
    fn settle(&mut self, position: usize) -> Result<(), E> {
        let number = self.order[position];
        let alone = self.cursors.len() == 1;
        if self.cursors[number].left() == 0 {
            if !self.cursors[number].load(&self.schema, &self.encoder, alone)? {
                self.order.remove(position);
                return Ok(());
            }
        } else if self.order.len() > 1 {
            self.cursors[number].encode(&self.encoder)?;
        }
        let cursors = &self.cursors;
        let place = (cursors[number].key(), number);
        let smaller =
            self.order[position + 1..].partition_point(|&other| (cursors[other].key(), other) < place);
        self.order[position..=position + smaller].rotate_left(1);
        Ok(())
    }

    fn take_chunk(&mut self) -> Result<Option<Chunk>, E> {
        for cursor in &mut self.cursors {
            cursor.source = None;
        }
        let chunk = std::mem::take(&mut self.chunk);
        Ok(if chunk.is_empty() { None } else { Some(chunk.finish(&self.schema)?) })
    }
}

impl<I, E> Iterator for Merge<I>
where
    I: Iterator<Item = Result<RecordBatch, E>>,
    E: From<RunError>,
{
    type Item = Result<Chunk, E>;

    fn next(&mut self) -> Option<Self::Item> {
        let chunk = self.next_chunk();
        if chunk.is_err() {
            self.order.clear();
            self.chunk = Pieces::default();
        }
        chunk.transpose()
    }
}

/// An input and its window: the rows that are being merged.
#[derive(Debug)]
struct Cursor<I> {
    input: I,
    /// What follows the window in the input's batch.
    rest: Option<RecordBatch>,
    window: RecordBatch,
    row_bytes: usize,
    /// The next row.
    at: usize,
    /// All keys of the window; encoded only when another input reaches into it.
    keys: Option<Keys>,
    /// First and last key of the window. Not set in an only input.
    first: Vec<u8>,
    last: Option<Vec<u8>>,
    /// The window's number among the sources of the chunk.
    source: Option<usize>,
}

impl<I> Cursor<I> {
    fn new(input: I) -> Self {
        Self {
            input,
            rest: None,
            window: RecordBatch::new_empty(SchemaRef::new(arrow::datatypes::Schema::empty())),
            row_bytes: 1,
            at: 0,
            keys: None,
            first: Vec::new(),
            last: None,
            source: None,
        }
    }

    fn left(&self) -> usize {
        self.window.num_rows() - self.at
    }

    /// The next key. Only asked for at the start of a window or after [`Cursor::encode`].
    fn key(&self) -> &[u8] {
        self.keys.as_ref().map_or(&self.first, |keys| keys.get(self.at))
    }

    fn encode(&mut self, encoder: &KeyEncoder) -> Result<()> {
        if self.keys.is_none() {
            let keys = encoder.encode(&self.window)?;
            keys.check_ascending(None)?;
            self.keys = Some(keys);
        }
        Ok(())
    }

    /// How many of the next rows have keys below `limit`.
    fn rows_below(&mut self, limit: &[u8], encoder: &KeyEncoder) -> Result<usize> {
        if self.key() >= limit {
            return Ok(0);
        }
        if self.last.as_deref().is_some_and(|last| last < limit) {
            return Ok(self.left());
        }
        self.encode(encoder)?;
        let end = self.keys.as_ref().map_or(self.at, |keys| keys.lower_bound(self.at, limit));
        Ok(end - self.at)
    }
}

impl<I, E> Cursor<I>
where
    I: Iterator<Item = Result<RecordBatch, E>>,
    E: From<RunError>,
{
    /// Moves the window on; `false` at the end of the input. Without other inputs (`alone`) keys are of no interest.
    fn load(&mut self, schema: &SchemaRef, encoder: &KeyEncoder, alone: bool) -> Result<bool, E> {
        while self.rest.as_ref().is_none_or(|rest| rest.num_rows() == 0) {
            let Some(batch) = self.input.next() else { return Ok(false) };
            self.rest = Some(conform(schema, &batch?)?);
        }
        let Some(rest) = self.rest.take() else { return Ok(false) };
        (self.window, self.row_bytes) = window(&rest, CHUNK_ROWS, CHUNK_BYTES);
        let rows = self.window.num_rows();
        if rows < rest.num_rows() {
            self.rest = Some(rest.slice(rows, rest.num_rows() - rows));
        }
        self.at = 0;
        self.keys = None;
        self.source = None;
        if !alone {
            self.set_bounds(encoder)?;
        }
        Ok(true)
    }

    fn set_bounds(&mut self, encoder: &KeyEncoder) -> Result<()> {
        let rows = self.window.num_rows();
        let first = encoder.encode(&self.window.slice(0, 1))?;
        let last = encoder.encode(&self.window.slice(rows - 1, 1))?;
        let (first, last) = (first.get(0), last.get(0));
        let follows = self.last.as_deref().is_none_or(|previous| previous < first);
        if !follows || (rows > 1 && first >= last) {
            return Err(RunError::Unsorted);
        }
        self.first = first.to_vec();
        self.last = Some(last.to_vec());
        Ok(())
    }
}

/// A chunk that is being put together: which rows of which windows, in order.
#[derive(Debug, Default)]
struct Pieces {
    sources: Vec<RecordBatch>,
    pieces: Vec<Piece>,
    groups: Vec<usize>,
    group_count: usize,
    bytes: usize,
}

#[derive(Debug)]
struct Piece {
    source: usize,
    start: usize,
    rows: usize,
}

impl Pieces {
    fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    fn is_full(&self) -> bool {
        self.groups.len() >= CHUNK_ROWS || self.bytes >= CHUNK_BYTES
    }

    /// Rows that are still taken; at least one unless the chunk is full.
    fn room(&self, row_bytes: usize) -> usize {
        let by_bytes = CHUNK_BYTES.saturating_sub(self.bytes).div_ceil(row_bytes);
        CHUNK_ROWS.saturating_sub(self.groups.len()).min(by_bytes)
    }

    /// Takes the next `rows` rows of `cursor`, each a group of its own.
    fn push<I>(&mut self, cursor: &mut Cursor<I>, rows: usize) {
        self.groups.extend(self.group_count..self.group_count + rows);
        self.group_count += rows;
        self.push_piece(cursor, rows);
    }

    /// Takes the next row of `cursor` into the last group.
    fn push_tied<I>(&mut self, cursor: &mut Cursor<I>) {
        self.groups.push(self.group_count - 1);
        self.push_piece(cursor, 1);
    }

    fn push_piece<I>(&mut self, cursor: &mut Cursor<I>, rows: usize) {
        let source = *cursor.source.get_or_insert_with(|| {
            self.sources.push(cursor.window.clone());
            self.sources.len() - 1
        });
        let start = cursor.at;
        match self.pieces.last_mut() {
            Some(last) if last.source == source && last.start + last.rows == start => last.rows += rows,
            _ => self.pieces.push(Piece { source, start, rows }),
        }
        self.bytes += rows * cursor.row_bytes;
        cursor.at += rows;
    }

    fn finish(self, schema: &SchemaRef) -> Result<Chunk> {
        let slice = |piece: &Piece| self.sources[piece.source].slice(piece.start, piece.rows);
        let batch = match self.pieces.as_slice() {
            [piece] => slice(piece),
            pieces if self.groups.len() >= pieces.len() * CONCAT_ROWS => {
                let slices: Vec<_> = pieces.iter().map(slice).collect();
                concat_batches(schema, &slices)?
            }
            _ => self.interleave(schema)?,
        };
        Ok(Chunk { batch, groups: self.groups, group_count: self.group_count })
    }

    fn interleave(&self, schema: &SchemaRef) -> Result<RecordBatch> {
        let mut indices = Vec::with_capacity(self.groups.len());
        for piece in &self.pieces {
            indices.extend((piece.start..piece.start + piece.rows).map(|row| (piece.source, row)));
        }
        let columns = (0..schema.fields().len())
            .map(|column| {
                let sources: Vec<_> =
                    self.sources.iter().map(|batch| batch.column(column).as_ref()).collect();
                interleave(&sources, &indices)
            })
            .collect::<Result<Vec<_>, _>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(indices.len()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
    }
}
