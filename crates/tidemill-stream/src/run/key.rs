//! Group keys as bytes that compare like the keys.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use arrow::row::{RowConverter, Rows, SortField};

use super::{Result, RunError};

/// Encodes key columns. Encoders of the same key types give the same bytes, in any process.
#[derive(Debug)]
pub struct KeyEncoder {
    /// `None` without key columns: then every row has the empty key.
    converter: Option<RowConverter>,
    columns: usize,
}

impl KeyEncoder {
    /// The key is the first `keys` columns of `schema`.
    pub fn try_new(schema: &Schema, keys: usize) -> Result<Self> {
        let Some(fields) = schema.fields().get(..keys) else {
            return Err(RunError::Schema {
                column: schema.fields().len(),
                found: "missing".to_owned(),
                expected: "a key column".to_owned(),
            });
        };
        let fields: Vec<_> = fields.iter().map(|field| SortField::new(field.data_type().clone())).collect();
        let converter = if keys == 0 { None } else { Some(RowConverter::new(fields)?) };
        Ok(Self { converter, columns: keys })
    }

    pub fn columns(&self) -> usize {
        self.columns
    }

    /// The keys of a batch whose first columns are the key.
    pub fn encode(&self, batch: &RecordBatch) -> Result<Keys> {
        match batch.columns().get(..self.columns) {
            Some(columns) => self.encode_columns(columns, batch.num_rows()),
            None => Err(RunError::Schema {
                column: batch.num_columns(),
                found: "missing".to_owned(),
                expected: "a key column".to_owned(),
            }),
        }
    }

    /// The keys of key columns alone, as for a look-up. `len` counts only without key columns.
    pub fn encode_columns(&self, columns: &[ArrayRef], len: usize) -> Result<Keys> {
        Ok(match &self.converter {
            Some(converter) => {
                let rows = converter.convert_columns(columns)?;
                Keys { len: rows.num_rows(), rows: Some(rows) }
            }
            None => Keys { rows: None, len },
        })
    }
}

/// The encoded keys of a batch.
#[derive(Debug)]
pub struct Keys {
    rows: Option<Rows>,
    len: usize,
}

impl Keys {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The key of row `row`, which is below `len`.
    pub fn get(&self, row: usize) -> &[u8] {
        self.rows.as_ref().map_or(&[], |rows| rows.row(row).data())
    }

    /// The first row at or behind `from` whose key is not below `key`. Looks near `from` first.
    pub fn lower_bound(&self, from: usize, key: &[u8]) -> usize {
        let (mut low, mut high, mut step) = (from, from, 1);
        while high < self.len && self.get(high) < key {
            low = high + 1;
            high += step;
            step *= 2;
        }
        let mut high = high.min(self.len);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.get(middle) < key {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// The first row whose key is above `key`.
    pub fn upper_bound(&self, key: &[u8]) -> usize {
        let row = self.lower_bound(0, key);
        row + usize::from(row < self.len && self.get(row) == key)
    }

    pub fn find(&self, key: &[u8]) -> Option<usize> {
        let (mut low, mut high) = (0, self.len);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.get(middle).cmp(key) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return Some(middle),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        None
    }

    /// Each key above the one before it, and the first above `previous`.
    pub fn check_ascending(&self, previous: Option<&[u8]>) -> Result<()> {
        let mut previous = previous;
        for row in 0..self.len {
            let key = self.get(row);
            if previous.is_some_and(|previous| previous >= key) {
                return Err(RunError::Unsorted);
            }
            previous = Some(key);
        }
        Ok(())
    }

    pub fn memory_bytes(&self) -> usize {
        self.rows.as_ref().map_or(0, Rows::size)
    }
}

/// `batch` under `schema`. Column types must agree exactly, and nulls be where they may; names don't matter.
pub(super) fn conform(schema: &SchemaRef, batch: &RecordBatch) -> Result<RecordBatch> {
    let (expected, found) = (schema.fields(), batch.schema_ref().fields());
    for column in 0..expected.len().max(found.len()) {
        let expected = expected.get(column).map(|field| field.data_type());
        let found = found.get(column).map(|field| field.data_type());
        if expected != found {
            let name =
                |data_type: Option<&DataType>| data_type.map_or("missing".to_owned(), DataType::to_string);
            return Err(RunError::Schema { column, found: name(found), expected: name(expected) });
        }
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    Ok(RecordBatch::try_new_with_options(Arc::clone(schema), batch.columns().to_vec(), &options)?)
}
