//! Values in PostgreSQL's text or binary form to Arrow columns and back: for Bind, COPY and DataRow.

mod array;
mod binary;
mod buffer;
mod digit;
mod encode;
mod encode_binary;
mod source;
#[cfg(test)]
pub(crate) mod tests;
mod text;

use std::sync::Arc;

use crate::text::Context;
use crate::types::{Scalar, Type};
use crate::{Result, SqlError, SqlState};
use arrow::array::{ArrayRef, ListArray, NullBufferBuilder};
use arrow::buffer::{OffsetBuffer, ScalarBuffer};
use arrow::datatypes::{
    BinaryType, DataType, Date32Type, Field, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type,
    IntervalMonthDayNano, IntervalMonthDayNanoType, LargeBinaryType, LargeUtf8Type, Time64MicrosecondType,
    TimestampMicrosecondType, UInt32Type, Utf8Type,
};

use buffer::{Bits, Bytes, Fixed, Sixteens};
pub use encode::ValueEncoder;

/// Builds a column of one type from values in PostgreSQL's text or binary form. Modifiers (`varchar(10)`) are
/// applied.
pub struct ColumnBuilder {
    ty: Type,
    arrow: DataType,
    /// Whether `append_number` may be tried: the slots of dates and times are integers too.
    is_number: bool,
    context: Context,
    slots: Slots,
}

/// The values, by how Arrow keeps them.
enum Slots {
    Bool(Bits),
    Int2(Fixed<i16>),
    /// int4 and date.
    Int4(Fixed<i32>),
    /// int8, time, timestamp and timestamptz.
    Int8(Fixed<i64>),
    Oid(Fixed<u32>),
    Float4(Fixed<f32>),
    Float8(Fixed<f64>),
    Interval(Fixed<IntervalMonthDayNano>),
    Uuid(Sixteens),
    /// text, varchar, char, name and bytea.
    Short(Bytes<i32>),
    /// numeric, json and jsonb.
    Long(Bytes<i64>),
    List(Box<Lists>),
}

struct Lists {
    items: ColumnBuilder,
    offsets: Vec<i32>,
    nulls: NullBufferBuilder,
}

impl ColumnBuilder {
    /// With room for `rows` values.
    pub fn new(ty: Type, context: &Context, rows: usize) -> Self {
        let slots = match ty.scalar {
            _ if ty.array => Slots::List(Box::new(Lists {
                items: ColumnBuilder::new(Type { array: false, ..ty }, context, rows),
                offsets: vec![0],
                nulls: NullBufferBuilder::new(rows),
            })),
            Scalar::Bool => Slots::Bool(Bits::new(rows)),
            Scalar::Int2 => Slots::Int2(Fixed::new(rows)),
            Scalar::Int4 | Scalar::Date => Slots::Int4(Fixed::new(rows)),
            Scalar::Int8 | Scalar::Time | Scalar::Timestamp | Scalar::Timestamptz => {
                Slots::Int8(Fixed::new(rows))
            }
            Scalar::Float4 => Slots::Float4(Fixed::new(rows)),
            Scalar::Float8 => Slots::Float8(Fixed::new(rows)),
            Scalar::Interval => Slots::Interval(Fixed::new(rows)),
            Scalar::Uuid => Slots::Uuid(Sixteens::new(rows)),
            Scalar::Text | Scalar::Varchar | Scalar::Bpchar | Scalar::Name | Scalar::Char | Scalar::Bytea => {
                Slots::Short(Bytes::new(rows))
            }
            Scalar::Numeric | Scalar::Json | Scalar::Jsonb => Slots::Long(Bytes::new(rows)),
            Scalar::Oid
            | Scalar::Xid
            | Scalar::Regproc
            | Scalar::Regprocedure
            | Scalar::Regclass
            | Scalar::Regtype
            | Scalar::Regnamespace
            | Scalar::Regrole => Slots::Oid(Fixed::new(rows)),
        };
        let is_number = matches!(
            ty.scalar,
            Scalar::Int2 | Scalar::Int4 | Scalar::Int8 | Scalar::Oid | Scalar::Float8 if !ty.array
        );
        Self { ty, arrow: ty.arrow(), is_number, context: context.clone(), slots }
    }

    pub fn ty(&self) -> Type {
        self.ty
    }

    /// A plain number at `data[at..]` that is followed by `stop`: appends it and returns where `stop` is.
    /// `None` appends nothing and says nothing about whether there is a value.
    #[inline]
    pub fn append_number(&mut self, data: &[u8], at: usize, stop: u8) -> Option<usize> {
        if !self.is_number {
            return None;
        }
        match &mut self.slots {
            Slots::Int4(slots) => {
                let (value, end) = stopped(digit::integer(data, at), data, stop)?;
                slots.push(i32::try_from(value).ok()?);
                Some(end)
            }
            Slots::Int8(slots) => {
                let (value, end) = stopped(digit::integer(data, at), data, stop)?;
                slots.push(value);
                Some(end)
            }
            Slots::Float8(slots) => {
                let (value, end) = stopped(digit::float(data, at), data, stop)?;
                slots.push(value);
                Some(end)
            }
            Slots::Int2(slots) => {
                let (value, end) = stopped(digit::integer(data, at), data, stop)?;
                slots.push(i16::try_from(value).ok()?);
                Some(end)
            }
            Slots::Oid(slots) => {
                let (value, end) = stopped(digit::integer(data, at), data, stop)?;
                slots.push(u32::try_from(value).ok()?);
                Some(end)
            }
            _ => None,
        }
    }

    #[inline]
    pub fn append_null(&mut self) {
        match &mut self.slots {
            Slots::Bool(slots) => slots.push_null(),
            Slots::Int2(slots) => slots.push_null(),
            Slots::Int4(slots) => slots.push_null(),
            Slots::Int8(slots) => slots.push_null(),
            Slots::Oid(slots) => slots.push_null(),
            Slots::Float4(slots) => slots.push_null(),
            Slots::Float8(slots) => slots.push_null(),
            Slots::Interval(slots) => slots.push_null(),
            Slots::Uuid(slots) => slots.push_null(),
            Slots::Short(slots) => slots.push_null(),
            Slots::Long(slots) => slots.push_null(),
            Slots::List(lists) => {
                lists.offsets.push(lists.offsets.last().copied().unwrap_or(0));
                lists.nulls.append_null();
            }
        }
    }

    /// Values appended since the last `finish`.
    pub fn len(&self) -> usize {
        match &self.slots {
            Slots::Bool(slots) => slots.len(),
            Slots::Int2(slots) => slots.len(),
            Slots::Int4(slots) => slots.len(),
            Slots::Int8(slots) => slots.len(),
            Slots::Oid(slots) => slots.len(),
            Slots::Float4(slots) => slots.len(),
            Slots::Float8(slots) => slots.len(),
            Slots::Interval(slots) => slots.len(),
            Slots::Uuid(slots) => slots.len(),
            Slots::Short(slots) => slots.len(),
            Slots::Long(slots) => slots.len(),
            Slots::List(lists) => lists.nulls.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of the values of variable length, roughly.
    pub fn size(&self) -> usize {
        match &self.slots {
            Slots::Short(slots) => slots.size(),
            Slots::Long(slots) => slots.size(),
            Slots::List(lists) => lists.items.size() + lists.items.len() * 16,
            _ => 0,
        }
    }

    /// Keeps the first `rows` values.
    pub fn truncate(&mut self, rows: usize) {
        match &mut self.slots {
            Slots::Bool(slots) => slots.truncate(rows),
            Slots::Int2(slots) => slots.truncate(rows),
            Slots::Int4(slots) => slots.truncate(rows),
            Slots::Int8(slots) => slots.truncate(rows),
            Slots::Oid(slots) => slots.truncate(rows),
            Slots::Float4(slots) => slots.truncate(rows),
            Slots::Float8(slots) => slots.truncate(rows),
            Slots::Interval(slots) => slots.truncate(rows),
            Slots::Uuid(slots) => slots.truncate(rows),
            Slots::Short(slots) => slots.truncate(rows),
            Slots::Long(slots) => slots.truncate(rows),
            Slots::List(lists) => lists.truncate(rows),
        }
    }

    /// The column of type `ty().arrow()`; the builder is empty again and keeps its size.
    pub fn finish(&mut self) -> ArrayRef {
        self.take(self.len())
    }

    /// The column of type `ty().arrow()`, and no more to come.
    pub fn into_array(mut self) -> ArrayRef {
        self.take(0)
    }

    fn take(&mut self, next_rows: usize) -> ArrayRef {
        let arrow = &self.arrow;
        match &mut self.slots {
            Slots::Bool(slots) => slots.finish(),
            Slots::Int2(slots) => slots.finish::<Int16Type>(arrow, next_rows),
            Slots::Int4(slots) if self.ty.scalar == Scalar::Date => {
                slots.finish::<Date32Type>(arrow, next_rows)
            }
            Slots::Int4(slots) => slots.finish::<Int32Type>(arrow, next_rows),
            Slots::Int8(slots) => match self.ty.scalar {
                Scalar::Int8 => slots.finish::<Int64Type>(arrow, next_rows),
                Scalar::Time => slots.finish::<Time64MicrosecondType>(arrow, next_rows),
                _ => slots.finish::<TimestampMicrosecondType>(arrow, next_rows),
            },
            Slots::Oid(slots) => slots.finish::<UInt32Type>(arrow, next_rows),
            Slots::Float4(slots) => slots.finish::<Float32Type>(arrow, next_rows),
            Slots::Float8(slots) => slots.finish::<Float64Type>(arrow, next_rows),
            Slots::Interval(slots) => slots.finish::<IntervalMonthDayNanoType>(arrow, next_rows),
            Slots::Uuid(slots) => slots.finish(),
            Slots::Short(slots) if self.ty.scalar == Scalar::Bytea => slots.finish::<BinaryType>(),
            Slots::Short(slots) => slots.finish::<Utf8Type>(),
            Slots::Long(slots) if self.ty.scalar == Scalar::Numeric => slots.finish::<LargeBinaryType>(),
            Slots::Long(slots) => slots.finish::<LargeUtf8Type>(),
            Slots::List(lists) => lists.finish(),
        }
    }
}

impl Lists {
    /// The items appended since the last list are one more list.
    fn close(&mut self) -> Result<()> {
        let end = i32::try_from(self.items.len()).map_err(|_| {
            SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "too many array elements in one batch")
        })?;
        self.offsets.push(end);
        self.nulls.append_non_null();
        Ok(())
    }

    /// Drops items of a list that was not closed.
    fn undo(&mut self) {
        self.items.truncate(self.offsets.last().map_or(0, |&o| o as usize));
    }

    fn truncate(&mut self, rows: usize) {
        self.offsets.truncate(rows + 1);
        self.nulls.truncate(rows);
        self.undo();
    }

    fn finish(&mut self) -> ArrayRef {
        let items = self.items.finish();
        let offsets = OffsetBuffer::new(ScalarBuffer::from(std::mem::replace(&mut self.offsets, vec![0])));
        let field = Arc::new(Field::new_list_field(items.data_type().clone(), true));
        Arc::new(ListArray::new(field, offsets, items, self.nulls.finish()))
    }
}

#[inline]
fn stopped<T>(number: Option<(T, usize)>, data: &[u8], stop: u8) -> Option<(T, usize)> {
    number.filter(|(_, end)| data.get(*end) == Some(&stop))
}

/// Text as PostgreSQL has it: UTF-8 without NUL. The message shows the bytes of the first bad character.
pub fn check_utf8(bytes: &[u8]) -> Result<&str> {
    let (text, valid) = match std::str::from_utf8(bytes) {
        Ok(text) => (text, bytes.len()),
        Err(e) => ("", e.valid_up_to()),
    };
    let Some(bad) = memchr::memchr(0, &bytes[..valid]).or((valid < bytes.len()).then_some(valid)) else {
        return Ok(text);
    };
    // As many bytes as the first one announces, or as there are.
    let length = match bytes[bad] {
        0xc0..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf7 => 4,
        _ => 1,
    };
    let shown: Vec<_> = bytes[bad..].iter().take(length).map(|b| format!("0x{b:02x}")).collect();
    let message = format!("invalid byte sequence for encoding \"UTF8\": {}", shown.join(" "));
    Err(SqlError::new(SqlState::CHARACTER_NOT_IN_REPERTOIRE, message))
}
