//! Sorts a batch of states by its key columns, as runs and merges need it.

use arrow::array::{RecordBatch, UInt32Array};
use arrow::compute::take_record_batch;
use arrow::error::ArrowError;

use super::{KeyEncoder, Keys, Result};

/// Rows of a window.
const WINDOW_ROWS: usize = 8192;

/// The rows of a batch in key order, window by window; rows with equal keys keep their order. Beside the batch itself it
/// holds a number a row.
#[derive(Debug)]
pub struct Sorted {
    batch: RecordBatch,
    /// `None`: they are in order.
    order: Option<Vec<u32>>,
    next: usize,
}

impl Sorted {
    pub fn try_new(batch: RecordBatch, encoder: &KeyEncoder) -> Result<Self> {
        let order = order(&encoder.encode(&batch)?)?;
        Ok(Self { batch, order, next: 0 })
    }
}

impl Iterator for Sorted {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        let rows = WINDOW_ROWS.min(self.batch.num_rows() - self.next);
        if rows == 0 {
            return None;
        }
        let range = self.next..self.next + rows;
        self.next = range.end;
        Some(match &self.order {
            None => Ok(self.batch.slice(range.start, rows)),
            Some(order) => {
                let rows = UInt32Array::from_iter_values(order[range].iter().copied());
                take_record_batch(&self.batch, &rows).map_err(Into::into)
            }
        })
    }
}

/// The numbers of the rows in the order of their keys; `None` if that is how they are.
fn order(keys: &Keys) -> Result<Option<Vec<u32>>> {
    if (1..keys.len()).all(|row| keys.get(row - 1) <= keys.get(row)) {
        return Ok(None);
    }
    let rows = u32::try_from(keys.len())
        .map_err(|_| ArrowError::InvalidArgumentError("more than 4 billion rows to sort".to_owned()))?;
    // Almost every comparison is decided by eight bytes that lie beside the row number.
    let skip = common_prefix(keys);
    let mut order: Vec<(u64, u32)> =
        (0..rows).map(|row| (word(&keys.get(row as usize)[skip..]), row)).collect();
    order.sort_unstable_by(|a, b| {
        a.0.cmp(&b.0).then_with(|| keys.get(a.1 as usize).cmp(keys.get(b.1 as usize))).then(a.1.cmp(&b.1))
    });
    Ok(Some(order.into_iter().map(|(_, row)| row).collect()))
}

/// Length of what all keys begin with; there is at least one.
fn common_prefix(keys: &Keys) -> usize {
    let first = keys.get(0);
    (1..keys.len()).fold(first.len(), |length, row| {
        let key = keys.get(row);
        match key.starts_with(&first[..length]) {
            true => length,
            false => first.iter().zip(key).take_while(|(a, b)| a == b).count(),
        }
    })
}

/// The first eight bytes as a number that compares like them; where a key ends, zeros follow.
fn word(key: &[u8]) -> u64 {
    match key.first_chunk() {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => {
            let mut bytes = [0; 8];
            bytes[..key.len()].copy_from_slice(key);
            u64::from_be_bytes(bytes)
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, AsArray, Int64Array, StringArray};
    use arrow::compute::concat_batches;
    use arrow::datatypes::Int64Type;

    use super::*;

    fn sorted(keys: Vec<ArrayRef>) -> RecordBatch {
        let count = keys.len();
        let rows = keys[0].len() as i64;
        let columns = keys
            .into_iter()
            .chain([Arc::new(Int64Array::from_iter_values(0..rows)) as ArrayRef])
            .enumerate()
            .map(|(i, column)| (format!("c{i}"), column, true));
        let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
        let encoder = KeyEncoder::try_new(batch.schema_ref(), count).unwrap();
        let schema = batch.schema();
        let windows: Vec<_> = Sorted::try_new(batch, &encoder).unwrap().collect::<Result<_>>().unwrap();
        concat_batches(&schema, &windows).unwrap()
    }

    fn positions(batch: &RecordBatch) -> Vec<i64> {
        batch.columns().last().unwrap().as_primitive::<Int64Type>().values().to_vec()
    }

    #[test]
    fn nulls_first_negatives_next_equal_keys_in_order() {
        let key = Int64Array::from(vec![Some(300), None, Some(-1), Some(7), Some(-1), Some(i64::MIN), None]);
        assert_eq!(positions(&sorted(vec![Arc::new(key)])), [1, 6, 5, 2, 4, 3, 0]);
    }

    #[test]
    fn texts_with_common_beginnings() {
        let a = StringArray::from(vec!["prefix-b", "prefix-a", "prefix-", "prefix-b", "prefix-aaaaaaaaaaaa"]);
        let b = Int64Array::from(vec![2, 1, 1, 1, 1]);
        assert_eq!(positions(&sorted(vec![Arc::new(a), Arc::new(b)])), [2, 1, 4, 3, 0]);
    }

    #[test]
    fn what_is_sorted_is_not_copied() {
        let key: ArrayRef = Arc::new(Int64Array::from_iter_values(0..10));
        let batch = RecordBatch::try_from_iter([("key", Arc::clone(&key))]).unwrap();
        let encoder = KeyEncoder::try_new(batch.schema_ref(), 1).unwrap();
        let window = Sorted::try_new(batch, &encoder).unwrap().next().unwrap().unwrap();
        assert_eq!(window.column(0).to_data().buffers()[0].as_ptr(), key.to_data().buffers()[0].as_ptr());
    }
}
