//! What a log record holds: deltas of state, truncations, checkpoints.
//!
//! ```text
//! COMMIT      count u32, then a delta each: view u32, states
//! TRUNCATE    view u32
//! MOVE        count u32, then a move each: view u32, view u32
//! FULL_COMMIT count u32, views u32 that are emptied; count u32, then a view each: view u32, runs u32, names; then as COMMIT
//! CHECKPOINT  count u32, then a view each: view u32, runs u32, names, batches u32, states
//! states      rows u32, form u8, bytes u32, bytes
//! ```
//!
//! Little endian. A few rows of state are written in arrow's row format (13 to 73 bytes a row), more of them as an Arrow
//! IPC stream, whose schema alone is several hundred bytes.

use std::borrow::Borrow;
use std::io::Cursor;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::ipc::reader::StreamReader;
use arrow::ipc::writer::StreamWriter;
use arrow::row::{RowConverter, SortField};

use crate::engine::run_store::run_name;
use crate::error::{Error, Result};
use crate::run::Run;
use crate::view::ViewId;

pub const COMMIT: u8 = 1;
pub const TRUNCATE: u8 = 2;
pub const CHECKPOINT: u8 = 3;
pub const FULL_COMMIT: u8 = 4;
pub const MOVE: u8 = 5;

/// States of at most this many rows are written row by row.
const ROW_FORM_MAX: usize = 64;
const FORM_ROWS: u8 = 0;
const FORM_IPC: u8 = 1;

/// The state of one view in a checkpoint.
#[derive(Debug, Default)]
pub struct Persisted {
    pub runs: Vec<String>,
    pub batches: Vec<RecordBatch>,
}

pub fn encode_commit<B: Borrow<RecordBatch>>(deltas: &[(ViewId, B)], out: &mut Vec<u8>) -> Result<()> {
    put_u32(out, deltas.len());
    for (view, states) in deltas {
        put_u32(out, view.0 as usize);
        encode_states(states.borrow(), out)?;
    }
    Ok(())
}

/// What comes before the deltas of a FULL_COMMIT: states that are in runs already.
pub fn encode_runs(runs: &[(ViewId, Vec<Arc<Run>>)], out: &mut Vec<u8>) {
    put_u32(out, runs.len());
    for (view, runs) in runs {
        put_u32(out, view.0 as usize);
        encode_names(runs.iter().map(|run| run_name(run)), out);
    }
}

fn encode_names(names: impl ExactSizeIterator<Item = impl AsRef<str>>, out: &mut Vec<u8>) {
    put_u32(out, names.len());
    for name in names {
        put_u32(out, name.as_ref().len());
        out.extend_from_slice(name.as_ref().as_bytes());
    }
}

/// What comes before the deltas of a FULL_COMMIT.
pub fn encode_emptied(views: &[ViewId], out: &mut Vec<u8>) {
    put_u32(out, views.len());
    views.iter().for_each(|view| put_u32(out, view.0 as usize));
}

/// What a MOVE holds.
pub fn encode_moves(moved: &[(ViewId, ViewId)], out: &mut Vec<u8>) {
    put_u32(out, moved.len());
    for (from, to) in moved {
        put_u32(out, from.0 as usize);
        put_u32(out, to.0 as usize);
    }
}

pub fn encode_checkpoint<'a>(
    views: impl ExactSizeIterator<Item = (ViewId, &'a Persisted)>,
    out: &mut Vec<u8>,
) -> Result<()> {
    put_u32(out, views.len());
    for (view, persisted) in views {
        put_u32(out, view.0 as usize);
        encode_names(persisted.runs.iter(), out);
        put_u32(out, persisted.batches.len());
        for batch in &persisted.batches {
            encode_states(batch, out)?;
        }
    }
    Ok(())
}

fn put_u32(out: &mut Vec<u8>, value: usize) {
    out.extend_from_slice(&(value as u32).to_le_bytes());
}

fn encode_states(states: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
    put_u32(out, states.num_rows());
    let fields = sort_fields(&states.schema());
    let by_row = states.num_rows() <= ROW_FORM_MAX && RowConverter::supports_fields(&fields);
    out.push(if by_row { FORM_ROWS } else { FORM_IPC });
    let length_at = out.len();
    put_u32(out, 0);
    if by_row {
        let rows = RowConverter::new(fields)?.convert_columns(states.columns())?;
        for row in rows.iter() {
            put_u32(out, row.as_ref().len());
            out.extend_from_slice(row.as_ref());
        }
    } else {
        let mut writer = StreamWriter::try_new(&mut *out, &states.schema())?;
        writer.write(states)?;
        writer.finish()?;
    }
    let length = (out.len() - length_at - 4) as u32;
    out[length_at..length_at + 4].copy_from_slice(&length.to_le_bytes());
    Ok(())
}

fn sort_fields(schema: &SchemaRef) -> Vec<SortField> {
    schema.fields().iter().map(|f| SortField::new(f.data_type().clone())).collect()
}

/// Reads a payload front to back; everything missing or contradictory is [`Error::Corrupt`].
pub struct Reader<'a> {
    rest: &'a [u8],
}

/// The states of a view in a record, not decoded yet: a view that was dropped is passed over without its schema.
pub struct EncodedStates<'a> {
    rows: usize,
    form: u8,
    bytes: &'a [u8],
}

fn corrupt() -> Error {
    Error::Corrupt("a record of the log does not have the form that its checksum promises".into())
}

impl<'a> Reader<'a> {
    pub fn new(payload: &'a [u8]) -> Self {
        Self { rest: payload }
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let (head, rest) = self.rest.split_at_checked(count).ok_or_else(corrupt)?;
        self.rest = rest;
        Ok(head)
    }

    pub fn u32(&mut self) -> Result<u32> {
        let bytes = self.take(4)?.try_into().map_err(|_| corrupt())?;
        Ok(u32::from_le_bytes(bytes))
    }

    pub fn view(&mut self) -> Result<ViewId> {
        Ok(ViewId(self.u32()?))
    }

    pub fn names(&mut self) -> Result<Vec<String>> {
        (0..self.u32()?).map(|_| self.string()).collect()
    }

    fn string(&mut self) -> Result<String> {
        let length = self.u32()? as usize;
        String::from_utf8(self.take(length)?.to_vec()).map_err(|_| corrupt())
    }

    pub fn states(&mut self) -> Result<EncodedStates<'a>> {
        let rows = self.u32()? as usize;
        let form = self.take(1)?[0];
        let length = self.u32()? as usize;
        Ok(EncodedStates { rows, form, bytes: self.take(length)? })
    }
}

impl EncodedStates<'_> {
    pub fn decode(&self, schema: &SchemaRef) -> Result<RecordBatch> {
        let batch = match self.form {
            FORM_ROWS => self.decode_rows(schema)?,
            FORM_IPC => self.decode_ipc(schema)?,
            _ => return Err(corrupt()),
        };
        if batch.num_rows() != self.rows || batch.schema().fields() != schema.fields() {
            return Err(Error::Corrupt(
                "the states in the log are of another layout than the view: was it written by another version?".into(),
            ));
        }
        Ok(batch)
    }

    fn decode_rows(&self, schema: &SchemaRef) -> Result<RecordBatch> {
        let converter = RowConverter::new(sort_fields(schema))?;
        let parser = converter.parser();
        let mut reader = Reader::new(self.bytes);
        let mut rows = Vec::with_capacity(self.rows.min(ROW_FORM_MAX));
        for _ in 0..self.rows {
            let length = reader.u32()? as usize;
            rows.push(parser.parse(reader.take(length)?));
        }
        let columns = converter.convert_rows(rows)?;
        let options = arrow::array::RecordBatchOptions::new().with_row_count(Some(self.rows));
        Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
    }

    fn decode_ipc(&self, schema: &SchemaRef) -> Result<RecordBatch> {
        let reader = StreamReader::try_new(Cursor::new(self.bytes), None)?;
        let batches = reader.collect::<Result<Vec<_>, _>>()?;
        Ok(arrow::compute::concat_batches(schema, &batches)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, Int64Array, StringArray};
    use arrow::datatypes::{DataType, Field, Schema};

    fn batch(rows: usize) -> RecordBatch {
        let schema = Schema::new(vec![
            Field::new("k0", DataType::Utf8, true),
            Field::new("a0s0", DataType::Int64, true),
        ]);
        let keys: StringArray = (0..rows).map(|i| (i % 3 != 0).then(|| format!("key {i}"))).collect();
        let sums: Int64Array = (0..rows as i64).map(Some).collect();
        RecordBatch::try_new(Arc::new(schema), vec![Arc::new(keys) as ArrayRef, Arc::new(sums)]).unwrap()
    }

    #[test]
    fn states_survive_in_both_forms() {
        for rows in [0, 1, ROW_FORM_MAX, ROW_FORM_MAX + 1, 5000] {
            let states = batch(rows);
            let mut out = Vec::new();
            encode_commit(&[(ViewId(7), states.clone())], &mut out).unwrap();
            let mut reader = Reader::new(&out);
            assert_eq!(reader.u32().unwrap(), 1);
            assert_eq!(reader.view().unwrap(), ViewId(7));
            assert_eq!(reader.states().unwrap().decode(&states.schema()).unwrap(), states);
        }
    }

    #[test]
    fn one_row_of_state_is_small() {
        let mut out = Vec::new();
        encode_commit(&[(ViewId(7), batch(1))], &mut out).unwrap();
        assert!(out.len() < 64, "{} bytes", out.len());
    }

    #[test]
    fn a_short_record_is_an_error() {
        let states = batch(3);
        let mut out = Vec::new();
        encode_commit(&[(ViewId(7), states.clone())], &mut out).unwrap();
        for length in 0..out.len() {
            let mut reader = Reader::new(&out[..length]);
            let read = reader.u32().and_then(|_| reader.view()).and_then(|_| reader.states());
            assert!(read.is_err());
        }
    }
}
