//! What slices of arrays really hold, and arrays that hold no more than that.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayData, ArrayRef, AsArray, FixedSizeListArray, GenericByteViewArray, GenericListArray,
    MapArray, OffsetSizeTrait, RecordBatch, RecordBatchOptions, StructArray,
};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{BinaryViewType, ByteViewType, DataType, StringViewType};
use arrow::error::ArrowError;

/// What fits into a view itself.
const VIEW_INLINE_BYTES: u32 = 12;

/// The first rows of `batch`: at most `rows_max`, and at most `bytes_max` bytes unless the first row alone has more.
/// With it, the mean bytes of a row.
pub fn window(batch: &RecordBatch, rows_max: usize, bytes_max: usize) -> (RecordBatch, usize) {
    let mut rows = batch.num_rows().min(rows_max);
    loop {
        let window = batch.slice(0, rows);
        let bytes = slice_bytes(&window);
        if bytes <= bytes_max || rows <= 1 {
            return (window, bytes.div_ceil(rows.max(1)).max(1));
        }
        // By steps, since the bytes may all be in a few rows far behind.
        rows = (rows * bytes_max / bytes).clamp(rows / 2, rows * 3 / 4).max(1);
    }
}

/// Bytes of the rows of `batch`, whatever else their buffers hold.
pub fn slice_bytes(batch: &RecordBatch) -> usize {
    batch.columns().iter().map(|column| array_bytes(column.as_ref())).sum()
}

fn array_bytes(array: &dyn Array) -> usize {
    let rows = array.len();
    let nulls = if array.nulls().is_some() { rows.div_ceil(8) } else { 0 };
    let values = match array.data_type() {
        DataType::Utf8View => rows * 16 + outlined_bytes(array.as_string_view()),
        DataType::BinaryView => rows * 16 + outlined_bytes(array.as_binary_view()),
        DataType::List(_) => list_bytes(array.as_list::<i32>()),
        DataType::LargeList(_) => list_bytes(array.as_list::<i64>()),
        DataType::Map(_, _) => {
            let map = array.as_map();
            rows * 4 + array_bytes(&map.entries().slice(range(map.offsets()).0, range(map.offsets()).1))
        }
        DataType::FixedSizeList(_, _) => array_bytes(array.as_fixed_size_list().values().as_ref()),
        DataType::Struct(_) => {
            array.as_struct().columns().iter().map(|column| array_bytes(column.as_ref())).sum()
        }
        _ => array.to_data().get_slice_memory_size().unwrap_or_else(|_| array.get_array_memory_size()),
    };
    nulls + values
}

fn outlined_bytes<T: ByteViewType>(array: &GenericByteViewArray<T>) -> usize {
    array.lengths().filter(|&length| length > VIEW_INLINE_BYTES).map(|length| length as usize).sum()
}

fn list_bytes<O: OffsetSizeTrait>(list: &GenericListArray<O>) -> usize {
    let (start, len) = range(list.offsets());
    list.len() * size_of::<O>() + array_bytes(list.values().slice(start, len).as_ref())
}

/// Start and length of the values that a list's offsets point at.
fn range<O: OffsetSizeTrait>(offsets: &OffsetBuffer<O>) -> (usize, usize) {
    let start = offsets[0].as_usize();
    (start, offsets[offsets.len() - 1].as_usize() - start)
}

/// Bytes of memory that `batch` keeps from being freed. A buffer that several columns share counts once.
pub fn resident_bytes(batch: &RecordBatch) -> usize {
    fn add(data: &ArrayData, seen: &mut Vec<usize>) -> usize {
        let nulls = data.nulls().map(|nulls| nulls.buffer());
        let mut bytes = 0;
        for buffer in data.buffers().iter().chain(nulls) {
            let address = buffer.data_ptr().as_ptr() as usize;
            if !seen.contains(&address) {
                seen.push(address);
                bytes += buffer.capacity();
            }
        }
        bytes + data.child_data().iter().map(|child| add(child, seen)).sum::<usize>()
    }
    let mut seen = Vec::new();
    batch.columns().iter().map(|column| add(&column.to_data(), &mut seen)).sum()
}

/// The same rows without the bytes that views of other rows refer to: IPC writes the buffers of views whole.
pub fn compact(batch: RecordBatch) -> Result<RecordBatch, ArrowError> {
    if !batch.schema_ref().fields().iter().any(|field| has_views(field.data_type())) {
        return Ok(batch);
    }
    let columns = batch.columns().iter().map(compact_array).collect::<Result<_, _>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(batch.schema(), columns, &options)
}

fn has_views(data_type: &DataType) -> bool {
    match data_type {
        DataType::Utf8View | DataType::BinaryView => true,
        DataType::List(field)
        | DataType::LargeList(field)
        | DataType::FixedSizeList(field, _)
        | DataType::Map(field, _) => has_views(field.data_type()),
        DataType::Struct(fields) => fields.iter().any(|field| has_views(field.data_type())),
        _ => false,
    }
}

fn compact_array(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    if !has_views(array.data_type()) {
        return Ok(Arc::clone(array));
    }
    Ok(match array.data_type() {
        DataType::Utf8View => Arc::new(array.as_byte_view::<StringViewType>().gc()),
        DataType::BinaryView => Arc::new(array.as_byte_view::<BinaryViewType>().gc()),
        DataType::List(_) => compact_list(array.as_list::<i32>())?,
        DataType::LargeList(_) => compact_list(array.as_list::<i64>())?,
        DataType::FixedSizeList(field, size) => {
            let list = array.as_fixed_size_list();
            let values = compact_array(list.values())?;
            Arc::new(FixedSizeListArray::try_new(Arc::clone(field), *size, values, list.nulls().cloned())?)
        }
        DataType::Map(field, sorted) => {
            let map = array.as_map();
            let (start, len) = range(map.offsets());
            let entries = compact_struct(&map.entries().slice(start, len))?;
            let offsets = OffsetBuffer::from_lengths(map.offsets().lengths());
            Arc::new(MapArray::try_new(Arc::clone(field), offsets, entries, map.nulls().cloned(), *sorted)?)
        }
        DataType::Struct(_) => Arc::new(compact_struct(array.as_struct())?),
        _ => Arc::clone(array),
    })
}

fn compact_list<O: OffsetSizeTrait>(list: &GenericListArray<O>) -> Result<ArrayRef, ArrowError> {
    let (start, len) = range(list.offsets());
    let values = compact_array(&list.values().slice(start, len))?;
    let offsets = OffsetBuffer::<O>::from_lengths(list.offsets().lengths());
    let (DataType::List(field) | DataType::LargeList(field)) = list.data_type() else {
        return Err(ArrowError::SchemaError(format!("{} is no list", list.data_type())));
    };
    Ok(Arc::new(GenericListArray::try_new(Arc::clone(field), offsets, values, list.nulls().cloned())?))
}

fn compact_struct(array: &StructArray) -> Result<StructArray, ArrowError> {
    let columns = array.columns().iter().map(compact_array).collect::<Result<Vec<_>, _>>()?;
    StructArray::try_new_with_length(array.fields().clone(), columns, array.nulls().cloned(), array.len())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use arrow::array::{Int64Array, ListArray, StringArray, StringViewArray};

    use super::*;

    fn batch(column: ArrayRef) -> RecordBatch {
        RecordBatch::try_from_iter([("c", column)]).unwrap()
    }

    #[test]
    fn a_slice_counts_only_its_rows() {
        let texts = || (0..1000).map(|n| format!("{n:0100}"));
        let numbers = Arc::new(Int64Array::from_iter_values(0..1000));
        let field = || arrow::datatypes::Field::new("item", DataType::Int64, true);
        let lists = ListArray::new(Arc::new(field()), OffsetBuffer::from_lengths([1; 1000]), numbers, None);
        for (column, row_bytes) in [
            (Arc::new(StringArray::from_iter_values(texts())) as ArrayRef, 104),
            (Arc::new(StringViewArray::from_iter_values(texts())), 116),
            (Arc::new(lists), 12),
        ] {
            let bytes = slice_bytes(&batch(column).slice(500, 10));
            assert!((row_bytes * 10..row_bytes * 10 + 8).contains(&bytes), "{bytes}");
        }
    }

    #[test]
    fn windows_are_bounded_however_bytes_are_spread() {
        let huge = |row: usize| (0..1000).map(move |n| "x".repeat(if n == row { 1_000_000 } else { 10 }));
        for (row, expected) in [(0, 1..2), (1, 1..2), (500, 100..501), (999, 100..1000), (1000, 1000..1001)] {
            let batch = batch(Arc::new(StringArray::from_iter_values(huge(row))));
            let (window, row_bytes) = window(&batch, 4096, 50_000);
            assert!(expected.contains(&window.num_rows()), "{row}: {}", window.num_rows());
            assert!(row_bytes * window.num_rows() < 50_000 || window.num_rows() == 1);
        }
    }
}
