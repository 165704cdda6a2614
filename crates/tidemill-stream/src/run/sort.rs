//! Sorts a batch of states by its key columns, as runs and merges need it.

use arrow::array::{RecordBatch, UInt32Array};
use arrow::compute::take_record_batch;
use arrow::error::ArrowError;

use super::{KeyEncoder, Keys, Result};

/// The rows of `batch` in key order. Rows with equal keys keep their order.
pub fn sort_by_key(batch: &RecordBatch, encoder: &KeyEncoder) -> Result<RecordBatch> {
    let keys = encoder.encode(batch)?;
    if (1..keys.len()).all(|row| keys.get(row - 1) <= keys.get(row)) {
        return Ok(batch.clone());
    }
    let rows = u32::try_from(keys.len())
        .map_err(|_| ArrowError::InvalidArgumentError("more than 4 billion rows to sort".to_owned()))?;
    // Almost every comparison is decided by eight bytes that lie beside the row number.
    let skip = common_prefix(&keys);
    let mut order: Vec<(u64, u32)> =
        (0..rows).map(|row| (word(&keys.get(row as usize)[skip..]), row)).collect();
    order.sort_unstable_by(|a, b| {
        a.0.cmp(&b.0).then_with(|| keys.get(a.1 as usize).cmp(keys.get(b.1 as usize))).then(a.1.cmp(&b.1))
    });
    let indices: UInt32Array = order.into_iter().map(|(_, row)| row).collect::<Vec<_>>().into();
    Ok(take_record_batch(batch, &indices)?)
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
        sort_by_key(&batch, &KeyEncoder::try_new(batch.schema_ref(), count).unwrap()).unwrap()
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
        let batch = sorted(vec![Arc::clone(&key)]);
        assert!(Arc::ptr_eq(batch.column(0), &key));
    }
}
