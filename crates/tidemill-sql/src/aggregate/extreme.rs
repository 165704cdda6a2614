//! `min` and `max`, in PostgreSQL's order of each type.

use std::cmp::Ordering;
use std::fmt::Debug;
use std::marker::PhantomData;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, AsArray, LargeBinaryArray, PrimitiveArray, StringArray,
};
use arrow::datatypes::{
    DataType, Date32Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type,
    IntervalMonthDayNanoType, Time64MicrosecondType, TimestampMicrosecondType, UInt32Type,
};

use super::fixed::{Fixed, Moment, column};
use super::{Resolved, value};
use crate::calendar::interval_order_key;
use crate::error::{Result, SqlError};
use crate::numeric::Numeric;
use crate::types::{Scalar, Type};

pub(super) fn resolve(name: &str, types: &[Type]) -> Option<Resolved> {
    if name == "min" { of::<Least>(types) } else { of::<Greatest>(types) }
}

/// The first value that is not null, in the order in which events came.
pub(super) fn first(_: &str, types: &[Type]) -> Option<Resolved> {
    of::<First>(types)
}

fn of<S: Side>(types: &[Type]) -> Option<Resolved> {
    let [ty @ Type { scalar, array, .. }] = types else { return None };
    if *array {
        return value::resolve(*ty, S::BETTER);
    }
    // An extreme has no modifier; the first value is that of a group, with its type.
    let shown = if S::BETTER.is_some() { ty.with_typmod(-1) } else { *ty };
    match scalar {
        Scalar::Int2 => fixed::<Int16Type, S>(*ty),
        Scalar::Int4 => fixed::<Int32Type, S>(*ty),
        Scalar::Int8 => fixed::<Int64Type, S>(*ty),
        Scalar::Float4 => fixed::<Float32Type, S>(*ty),
        Scalar::Float8 => fixed::<Float64Type, S>(*ty),
        Scalar::Oid => fixed::<UInt32Type, S>(*ty),
        Scalar::Date => fixed::<Date32Type, S>(*ty),
        Scalar::Time => fixed::<Time64MicrosecondType, S>(*ty),
        Scalar::Timestamp => fixed::<TimestampMicrosecondType, S>(*ty),
        Scalar::Interval => fixed::<IntervalMonthDayNanoType, S>(*ty),
        Scalar::Timestamptz => {
            let finish = |states: &[Extreme<TimestampMicrosecondType, S>]| {
                let array = Extreme::array(states).with_timezone("UTC");
                Ok(Arc::new(array) as ArrayRef)
            };
            Resolved::new(&[ty.arrow()], shown, Fixed::new(1, finish))
        }
        Scalar::Numeric => {
            Resolved::new(&[ty.arrow()], shown, Fixed::new(1, ExtremeBytes::<Numbers, S>::finish))
        }
        // PostgreSQL has min and max of text and of char(n); varchar, "char" and name are taken as text.
        Scalar::Text | Scalar::Varchar | Scalar::Bpchar | Scalar::Name | Scalar::Char => {
            let shown = if ty.scalar == Scalar::Bpchar { Scalar::Bpchar } else { Scalar::Text };
            let finish = Fixed::new(1, ExtremeBytes::<Texts, S>::finish);
            Resolved::new(&[DataType::Utf8], Type::new(shown), finish)
        }
        _ if S::BETTER.is_none() => value::resolve(*ty, None),
        _ => None,
    }
}

fn fixed<T: Ordered, S: Side>(ty: Type) -> Option<Resolved> {
    let finish = |states: &[Extreme<T, S>]| Ok(Arc::new(Extreme::array(states)) as ArrayRef);
    Resolved::new(&[ty.arrow()], ty.with_typmod(-1), Fixed::new(1, finish))
}

/// Whether the least or the greatest value is wanted.
trait Side: Debug + Send + Sync + 'static {
    /// How a value that replaces the one so far compares with it; `None`: the first stays.
    const BETTER: Option<Ordering>;
}

#[derive(Debug)]
struct Least;
#[derive(Debug)]
struct Greatest;
#[derive(Debug)]
struct First;

impl Side for Least {
    const BETTER: Option<Ordering> = Some(Ordering::Less);
}

impl Side for Greatest {
    const BETTER: Option<Ordering> = Some(Ordering::Greater);
}

impl Side for First {
    const BETTER: Option<Ordering> = None;
}

/// A type of fixed width and its order.
trait Ordered: ArrowPrimitiveType {
    fn compare(a: Self::Native, b: Self::Native) -> Ordering;
}

macro_rules! ordered {
    ($compare:expr => $($ty:ty),*) => {
        $(impl Ordered for $ty {
            #[inline]
            fn compare(a: Self::Native, b: Self::Native) -> Ordering {
                $compare(a, b)
            }
        })*
    };
}

ordered!(|a, b| Ord::cmp(&a, &b) =>
    Int16Type, Int32Type, Int64Type, UInt32Type, Date32Type, Time64MicrosecondType, TimestampMicrosecondType);
// NaN is greater than everything, and equal to itself.
ordered!(|a: f32, b: f32| a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan())) => Float32Type);
ordered!(|a: f64, b: f64| a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan())) => Float64Type);
ordered!(|a, b| interval_order_key(a).cmp(&interval_order_key(b)) => IntervalMonthDayNanoType);

/// The best value so far.
struct Extreme<T: ArrowPrimitiveType, S>(Option<T::Native>, PhantomData<S>);

impl<T: ArrowPrimitiveType, S> Debug for Extreme<T, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Extreme({:?})", self.0)
    }
}

impl<T: ArrowPrimitiveType, S> Clone for Extreme<T, S> {
    fn clone(&self) -> Self {
        Self(self.0, PhantomData)
    }
}

impl<T: ArrowPrimitiveType, S> Default for Extreme<T, S> {
    fn default() -> Self {
        Self(None, PhantomData)
    }
}

impl<T: Ordered, S: Side> Extreme<T, S> {
    fn array(states: &[Self]) -> PrimitiveArray<T> {
        states.iter().map(|s| s.0).collect()
    }
}

impl<T: Ordered, S: Side> Moment for Extreme<T, S> {
    type Value<'a> = T::Native;

    fn values(args: &[ArrayRef]) -> Result<impl Iterator<Item = T::Native> + '_> {
        let array = args.first().and_then(|a| a.as_primitive_opt::<T>());
        let array = array.ok_or_else(|| SqlError::internal("min or max of another type"))?;
        Ok(array.values().iter().copied())
    }

    #[inline]
    fn add(&mut self, value: T::Native) {
        if self.0.is_none_or(|best| S::BETTER == Some(T::compare(value, best))) {
            self.0 = Some(value);
        }
    }

    fn merge(&mut self, other: &Self) {
        other.0.into_iter().for_each(|value| self.add(value));
    }

    fn columns() -> Vec<DataType> {
        vec![T::DATA_TYPE]
    }

    fn write(states: &[Self]) -> Vec<ArrayRef> {
        vec![Arc::new(Self::array(states))]
    }

    fn read(columns: &[ArrayRef]) -> Result<Vec<Self>> {
        let array = column::<PrimitiveArray<T>>(columns, 0)?;
        Ok(array.iter().map(|value| Self(value, PhantomData)).collect())
    }
}

/// A type whose values are bytes.
trait Bytes: Debug + Send + Sync + 'static {
    const DATA_TYPE: DataType;
    /// What is compared.
    fn key(value: &[u8]) -> &[u8];
    fn values(args: &[ArrayRef]) -> Result<impl Iterator<Item = &[u8]> + '_>;
    fn array<'a>(values: impl Iterator<Item = Option<&'a [u8]>>) -> Result<ArrayRef>;
}

#[derive(Debug)]
struct Texts;

impl Bytes for Texts {
    const DATA_TYPE: DataType = DataType::Utf8;

    fn key(value: &[u8]) -> &[u8] {
        value
    }

    fn values(args: &[ArrayRef]) -> Result<impl Iterator<Item = &[u8]> + '_> {
        Ok(column::<StringArray>(args, 0)?.iter().map(|text| text.unwrap_or_default().as_bytes()))
    }

    fn array<'a>(values: impl Iterator<Item = Option<&'a [u8]>>) -> Result<ArrayRef> {
        let text = |bytes| std::str::from_utf8(bytes).map_err(|e| SqlError::internal(e.to_string()));
        Ok(Arc::new(values.map(|bytes| bytes.map(text).transpose()).collect::<Result<StringArray>>()?))
    }
}

#[derive(Debug)]
struct Numbers;

impl Bytes for Numbers {
    const DATA_TYPE: DataType = DataType::LargeBinary;

    fn key(value: &[u8]) -> &[u8] {
        Numeric::key(value)
    }

    fn values(args: &[ArrayRef]) -> Result<impl Iterator<Item = &[u8]> + '_> {
        Ok(column::<LargeBinaryArray>(args, 0)?.iter().map(Option::unwrap_or_default))
    }

    fn array<'a>(values: impl Iterator<Item = Option<&'a [u8]>>) -> Result<ArrayRef> {
        Ok(Arc::new(values.collect::<LargeBinaryArray>()))
    }
}

#[derive(Debug)]
struct ExtremeBytes<B, S>(Option<Box<[u8]>>, PhantomData<(B, S)>);

impl<B, S> Clone for ExtremeBytes<B, S> {
    fn clone(&self) -> Self {
        Self(self.0.clone(), PhantomData)
    }
}

impl<B, S> Default for ExtremeBytes<B, S> {
    fn default() -> Self {
        Self(None, PhantomData)
    }
}

impl<B: Bytes, S: Side> ExtremeBytes<B, S> {
    fn finish(states: &[Self]) -> Result<ArrayRef> {
        B::array(states.iter().map(|s| s.0.as_deref()))
    }
}

impl<B: Bytes, S: Side> Moment for ExtremeBytes<B, S> {
    type Value<'a> = &'a [u8];

    const HEAP: usize = 32;

    fn values(args: &[ArrayRef]) -> Result<impl Iterator<Item = &[u8]> + '_> {
        B::values(args)
    }

    fn add(&mut self, value: &[u8]) {
        // Of equal numbers the last one is shown: 1.500 after 1.5.
        let replaces = |best: &[u8]| match B::key(value).cmp(B::key(best)) {
            Ordering::Equal => S::BETTER.is_some() && value != best,
            order => S::BETTER == Some(order),
        };
        if self.0.as_deref().is_none_or(replaces) {
            self.0 = Some(value.into());
        }
    }

    fn merge(&mut self, other: &Self) {
        other.0.iter().for_each(|value| self.add(value));
    }

    fn columns() -> Vec<DataType> {
        vec![B::DATA_TYPE]
    }

    fn write(states: &[Self]) -> Vec<ArrayRef> {
        vec![Self::finish(states).expect("what came in as text is text")]
    }

    fn read(columns: &[ArrayRef]) -> Result<Vec<Self>> {
        let Some(array) = columns.first() else {
            return Err(SqlError::internal("a state without its column"));
        };
        let value = |(i, bytes): (usize, &[u8])| Self(array.is_valid(i).then(|| bytes.into()), PhantomData);
        Ok(B::values(columns)?.enumerate().map(value).collect())
    }
}
