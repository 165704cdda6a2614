//! Growing columns: vectors that become Arrow arrays without a copy and, unlike builders, can be cut back.

use std::sync::Arc;

use crate::{Result, SqlError, SqlState};
use arrow::array::{
    ArrayRef, ArrowPrimitiveType, BooleanArray, BooleanBufferBuilder, FixedSizeBinaryArray, GenericByteArray,
    NullBufferBuilder, OffsetSizeTrait, PrimitiveArray,
};
use arrow::buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{ArrowNativeType, ByteArrayType, DataType};

/// Values of a fixed width.
pub struct Fixed<T> {
    values: Vec<T>,
    nulls: NullBufferBuilder,
}

impl<T: ArrowNativeType + Default> Fixed<T> {
    pub fn new(rows: usize) -> Self {
        Self { values: Vec::with_capacity(rows), nulls: NullBufferBuilder::new(rows) }
    }

    #[inline]
    pub fn push(&mut self, value: T) {
        self.values.push(value);
        self.nulls.append_non_null();
    }

    #[inline]
    pub fn extend(&mut self, values: impl ExactSizeIterator<Item = T>) {
        self.nulls.append_n_non_nulls(values.len());
        self.values.extend(values);
    }

    #[inline]
    pub fn push_null(&mut self) {
        self.values.push(T::default());
        self.nulls.append_null();
    }

    pub fn len(&self) -> usize {
        self.values.len()
    }

    pub fn truncate(&mut self, rows: usize) {
        self.values.truncate(rows);
        self.nulls.truncate(rows);
    }

    pub fn finish<P: ArrowPrimitiveType<Native = T>>(
        &mut self,
        data_type: &DataType,
        next_rows: usize,
    ) -> ArrayRef {
        let next = Vec::with_capacity(next_rows);
        let values = ScalarBuffer::from(std::mem::replace(&mut self.values, next));
        Arc::new(PrimitiveArray::<P>::new(values, self.nulls.finish()).with_data_type(data_type.clone()))
    }
}

/// Bits.
pub struct Bits {
    values: BooleanBufferBuilder,
    nulls: NullBufferBuilder,
}

impl Bits {
    pub fn new(rows: usize) -> Self {
        Self { values: BooleanBufferBuilder::new(rows), nulls: NullBufferBuilder::new(rows) }
    }

    #[inline]
    pub fn push(&mut self, value: bool) {
        self.values.append(value);
        self.nulls.append_non_null();
    }

    pub fn push_null(&mut self) {
        self.values.append(false);
        self.nulls.append_null();
    }

    pub fn len(&self) -> usize {
        self.values.len()
    }

    pub fn truncate(&mut self, rows: usize) {
        if rows < self.values.len() {
            self.values.truncate(rows);
            self.nulls.truncate(rows);
        }
    }

    pub fn finish(&mut self) -> ArrayRef {
        Arc::new(BooleanArray::new(self.values.finish(), self.nulls.finish()))
    }
}

/// Values of sixteen bytes.
pub struct Sixteens {
    values: Vec<u8>,
    nulls: NullBufferBuilder,
}

impl Sixteens {
    pub fn new(rows: usize) -> Self {
        Self { values: Vec::with_capacity(rows * 16), nulls: NullBufferBuilder::new(rows) }
    }

    pub fn push(&mut self, value: [u8; 16]) {
        self.values.extend_from_slice(&value);
        self.nulls.append_non_null();
    }

    pub fn push_null(&mut self) {
        self.values.extend_from_slice(&[0; 16]);
        self.nulls.append_null();
    }

    pub fn len(&self) -> usize {
        self.nulls.len()
    }

    pub fn truncate(&mut self, rows: usize) {
        self.values.truncate(rows * 16);
        self.nulls.truncate(rows);
    }

    pub fn finish(&mut self) -> ArrayRef {
        let next = Vec::with_capacity(self.values.len());
        let values = Buffer::from_vec(std::mem::replace(&mut self.values, next));
        Arc::new(FixedSizeBinaryArray::new(16, values, self.nulls.finish()))
    }
}

/// Values of any length, in offsets of type `O`.
pub struct Bytes<O> {
    values: Vec<u8>,
    offsets: Vec<O>,
    nulls: NullBufferBuilder,
}

impl<O: OffsetSizeTrait> Bytes<O> {
    pub fn new(rows: usize) -> Self {
        let mut offsets = Vec::with_capacity(rows + 1);
        offsets.push(O::zero());
        Self { values: Vec::new(), offsets, nulls: NullBufferBuilder::new(rows) }
    }

    #[inline]
    pub fn push(&mut self, value: &[u8]) -> Result<()> {
        self.values.extend_from_slice(value);
        self.close()
    }

    /// Lets `write` append one value; on an error nothing of it stays.
    #[inline]
    pub fn push_with(&mut self, write: impl FnOnce(&mut Vec<u8>) -> Result<()>) -> Result<()> {
        let start = self.values.len();
        match write(&mut self.values) {
            Ok(()) => self.close(),
            Err(e) => {
                self.values.truncate(start);
                Err(e)
            }
        }
    }

    #[inline]
    fn close(&mut self) -> Result<()> {
        let Some(end) = O::from_usize(self.values.len()) else {
            self.values.truncate(self.offsets.last().map_or(0, |o| o.as_usize()));
            return Err(SqlError::new(
                SqlState::PROGRAM_LIMIT_EXCEEDED,
                "more than 2 GiB of values in one batch",
            ));
        };
        self.offsets.push(end);
        self.nulls.append_non_null();
        Ok(())
    }

    pub fn push_null(&mut self) {
        self.offsets.push(self.offsets.last().copied().unwrap_or_default());
        self.nulls.append_null();
    }

    pub fn len(&self) -> usize {
        self.nulls.len()
    }

    /// Bytes of all values.
    pub fn size(&self) -> usize {
        self.values.len()
    }

    pub fn truncate(&mut self, rows: usize) {
        if rows < self.len() {
            self.offsets.truncate(rows + 1);
            self.values.truncate(self.offsets[rows].as_usize());
            self.nulls.truncate(rows);
        }
    }

    /// Text must have been checked as UTF-8, value by value.
    pub fn finish<T: ByteArrayType<Offset = O>>(&mut self) -> ArrayRef {
        let rows = self.len();
        let bytes = self.values.len();
        let offsets = std::mem::replace(&mut self.offsets, Vec::with_capacity(rows + 1));
        self.offsets.push(O::zero());
        let values = std::mem::replace(&mut self.values, Vec::with_capacity(bytes));
        let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
        Arc::new(
            GenericByteArray::<T>::try_new(offsets, Buffer::from_vec(values), self.nulls.finish())
                .expect("offsets grow, and every text was checked when it was appended"),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{Array, AsArray};
    use arrow::datatypes::{Int32Type, Utf8Type};

    #[test]
    fn what_is_cut_back_is_gone() {
        let mut fixed = Fixed::<i32>::new(2);
        fixed.push(1);
        fixed.push_null();
        fixed.truncate(1);
        fixed.push(3);
        let array = fixed.finish::<Int32Type>(&DataType::Int32, 0);
        assert_eq!(array.as_primitive::<Int32Type>().iter().collect::<Vec<_>>(), [Some(1), Some(3)]);
        assert_eq!(fixed.len(), 0);

        let mut bytes = Bytes::<i32>::new(2);
        bytes.push(b"abc").unwrap();
        bytes.push_null();
        bytes.push(b"de").unwrap();
        bytes.truncate(2);
        assert!(
            bytes
                .push_with(|v| {
                    v.push(b'x');
                    Err(SqlError::internal("no"))
                })
                .is_err()
        );
        bytes.push(b"f").unwrap();
        let array = bytes.finish::<Utf8Type>();
        assert_eq!(array.as_string::<i32>().iter().collect::<Vec<_>>(), [Some("abc"), None, Some("f")]);
        assert_eq!(bytes.finish::<Utf8Type>().len(), 0);
    }
}
