//! `sum`, `avg`, `stddev` and `variance` of integers: exact sums, as PostgreSQL's.

use std::fmt::Debug;
use std::marker::PhantomData;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, Decimal128Array, Decimal256Array, Int64Array,
    LargeBinaryBuilder,
};
use arrow::datatypes::{DataType, Int16Type, Int32Type, Int64Type, i256};

use super::Resolved;
use super::fixed::{Fixed, Moment, column, impl_copy};
use crate::error::{Result, SqlError};
use crate::numeric::{Numeric, Spread};
use crate::types::{Scalar, Type};

const NUMERIC: Type = Type::new(Scalar::Numeric);

pub(super) fn sum_or_avg(name: &str, types: &[Type]) -> Option<Resolved> {
    let [Type { scalar, array: false, .. }] = types else { return None };
    let arguments = [scalar.arrow()];
    match (name, scalar) {
        ("sum", Scalar::Int2) => {
            Resolved::new(&arguments, Type::new(Scalar::Int8), Fixed::new(1, Sum::<Int16Type>::finish))
        }
        ("sum", Scalar::Int4) => {
            Resolved::new(&arguments, Type::new(Scalar::Int8), Fixed::new(1, Sum::<Int32Type>::finish))
        }
        ("sum", Scalar::Int8) => Resolved::new(&arguments, NUMERIC, Fixed::new(1, Wide::<Int64Type>::sum)),
        ("avg", Scalar::Int2) => Resolved::new(&arguments, NUMERIC, Fixed::new(1, Narrow::<Int16Type>::avg)),
        ("avg", Scalar::Int4) => Resolved::new(&arguments, NUMERIC, Fixed::new(1, Narrow::<Int32Type>::avg)),
        ("avg", Scalar::Int8) => Resolved::new(&arguments, NUMERIC, Fixed::new(1, Wide::<Int64Type>::avg)),
        _ => None,
    }
}

pub(super) fn spread(name: &str, types: &[Type]) -> Option<Resolved> {
    let [Type { scalar, array: false, .. }] = types else { return None };
    match scalar {
        Scalar::Int2 => spread_of::<Int16Type>(name),
        Scalar::Int4 => spread_of::<Int32Type>(name),
        Scalar::Int8 => spread_of::<Int64Type>(name),
        _ => None,
    }
}

fn spread_of<T: Integer>(name: &str) -> Option<Resolved> {
    let finish = match name {
        "stddev" | "stddev_samp" => {
            |states: &[Squares<T>]| finish_squares(states, Numeric::stddev_of, Spread::Sample)
        }
        "stddev_pop" => {
            |states: &[Squares<T>]| finish_squares(states, Numeric::stddev_of, Spread::Population)
        }
        "variance" | "var_samp" => {
            |states: &[Squares<T>]| finish_squares(states, Numeric::variance_of, Spread::Sample)
        }
        "var_pop" => |states: &[Squares<T>]| finish_squares(states, Numeric::variance_of, Spread::Population),
        _ => return None,
    };
    Resolved::new(&[T::DATA_TYPE], NUMERIC, Fixed::new(1, finish))
}

/// An integer type of PostgreSQL.
trait Integer: ArrowPrimitiveType<Native: Into<i64> + Copy> + Debug + Send + Sync {}

impl Integer for Int16Type {}
impl Integer for Int32Type {}
impl Integer for Int64Type {}

fn integers<T: Integer>(args: &[ArrayRef]) -> Result<impl Iterator<Item = i64> + '_> {
    let values = args.first().and_then(|a| a.as_primitive_opt::<T>());
    let values = values.ok_or_else(|| SqlError::internal("an integer aggregate of something else"))?;
    Ok(values.values().iter().map(|value| (*value).into()))
}

/// The sum of small integers, in 64 bits.
#[derive(Debug)]
struct Sum<T> {
    sum: i64,
    seen: bool,
    /// The sum left the range of bigint, which is an error when it is read.
    overflowed: bool,
    of: PhantomData<T>,
}

impl_copy!(Sum);

impl<T> Default for Sum<T> {
    fn default() -> Self {
        Self { sum: 0, seen: false, overflowed: false, of: PhantomData }
    }
}

impl<T: Integer> Sum<T> {
    fn finish(states: &[Self]) -> Result<ArrayRef> {
        if states.iter().any(|s| s.overflowed) {
            return Err(SqlError::out_of_range("bigint"));
        }
        Ok(Arc::new(states.iter().map(|s| s.seen.then_some(s.sum)).collect::<Int64Array>()))
    }

    fn plus(&mut self, sum: i64) {
        let (sum, overflowed) = self.sum.overflowing_add(sum);
        self.sum = sum;
        self.overflowed |= overflowed;
    }
}

impl<T: Integer> Moment for Sum<T> {
    type Value<'a> = i64;

    fn values(args: &[ArrayRef]) -> Result<impl Iterator<Item = i64> + '_> {
        integers::<T>(args)
    }

    fn add(&mut self, value: i64) {
        self.seen = true;
        self.plus(value);
    }

    fn add_columns(&mut self, args: &[ArrayRef]) -> Result<()> {
        // A batch has fewer than 2^32 rows, and a row of 32 bits at most: its sum fits.
        let sum = integers::<T>(args)?.fold(0i64, i64::wrapping_add);
        self.seen |= !args[0].is_empty();
        self.plus(sum);
        Ok(())
    }

    fn merge(&mut self, other: &Self) {
        self.seen |= other.seen;
        self.overflowed |= other.overflowed;
        self.plus(other.sum);
    }

    fn columns() -> Vec<DataType> {
        vec![DataType::Int64, DataType::Boolean]
    }

    fn write(states: &[Self]) -> Vec<ArrayRef> {
        vec![
            Arc::new(states.iter().map(|s| s.seen.then_some(s.sum)).collect::<Int64Array>()),
            Arc::new(BooleanArray::new(states.iter().map(|s| s.overflowed).collect(), None)),
        ]
    }

    fn read(columns: &[ArrayRef]) -> Result<Vec<Self>> {
        let (sums, overflows) = (column::<Int64Array>(columns, 0)?, column::<BooleanArray>(columns, 1)?);
        let state = |(sum, overflowed): (Option<i64>, bool)| Self {
            sum: sum.unwrap_or(0),
            seen: sum.is_some(),
            overflowed,
            of: PhantomData,
        };
        Ok(sums.iter().zip(overflows.values().iter()).map(state).collect())
    }
}

/// Sum and count of small integers. PostgreSQL does not look for an overflow here either: it takes 2^32 rows.
#[derive(Debug)]
struct Narrow<T> {
    sum: i64,
    count: i64,
    of: PhantomData<T>,
}

impl_copy!(Narrow);

impl<T> Default for Narrow<T> {
    fn default() -> Self {
        Self { sum: 0, count: 0, of: PhantomData }
    }
}

impl<T: Integer> Narrow<T> {
    fn avg(states: &[Self]) -> Result<ArrayRef> {
        numerics(states, |s| {
            (s.count > 0).then(|| Numeric::avg_of(&Numeric::from(s.sum), s.count)).transpose()
        })
    }
}

impl<T: Integer> Moment for Narrow<T> {
    type Value<'a> = i64;

    fn values(args: &[ArrayRef]) -> Result<impl Iterator<Item = i64> + '_> {
        integers::<T>(args)
    }

    fn add(&mut self, value: i64) {
        self.sum = self.sum.wrapping_add(value);
        self.count += 1;
    }

    fn merge(&mut self, other: &Self) {
        self.sum = self.sum.wrapping_add(other.sum);
        self.count += other.count;
    }

    fn columns() -> Vec<DataType> {
        vec![DataType::Int64, DataType::Int64]
    }

    fn write(states: &[Self]) -> Vec<ArrayRef> {
        vec![
            Arc::new(Int64Array::from_iter_values(states.iter().map(|s| s.sum))),
            Arc::new(Int64Array::from_iter_values(states.iter().map(|s| s.count))),
        ]
    }

    fn read(columns: &[ArrayRef]) -> Result<Vec<Self>> {
        let (sums, counts) = (column::<Int64Array>(columns, 0)?, column::<Int64Array>(columns, 1)?);
        let pairs = sums.values().iter().zip(counts.values());
        Ok(pairs.map(|(sum, count)| Self { sum: *sum, count: *count, of: PhantomData }).collect())
    }
}

/// Sum and count of integers, in 128 bits: they do not overflow in 2^63 rows.
#[derive(Debug)]
struct Wide<T> {
    sum: i128,
    count: i64,
    of: PhantomData<T>,
}

impl_copy!(Wide);

impl<T> Default for Wide<T> {
    fn default() -> Self {
        Self { sum: 0, count: 0, of: PhantomData }
    }
}

/// As stored: all values fit, as 2^126 has 38 digits.
const WIDE: DataType = DataType::Decimal128(38, 0);

impl<T: Integer> Wide<T> {
    fn sum(states: &[Self]) -> Result<ArrayRef> {
        numerics(states, |s| Ok((s.count > 0).then(|| Numeric::from(s.sum))))
    }

    fn avg(states: &[Self]) -> Result<ArrayRef> {
        numerics(states, |s| {
            (s.count > 0).then(|| Numeric::avg_of(&Numeric::from(s.sum), s.count)).transpose()
        })
    }
}

impl<T: Integer> Moment for Wide<T> {
    type Value<'a> = i64;

    fn values(args: &[ArrayRef]) -> Result<impl Iterator<Item = i64> + '_> {
        integers::<T>(args)
    }

    fn add(&mut self, value: i64) {
        self.sum += i128::from(value);
        self.count += 1;
    }

    fn merge(&mut self, other: &Self) {
        self.sum += other.sum;
        self.count += other.count;
    }

    fn columns() -> Vec<DataType> {
        vec![WIDE, DataType::Int64]
    }

    fn write(states: &[Self]) -> Vec<ArrayRef> {
        let sums = Decimal128Array::from_iter_values(states.iter().map(|s| s.sum)).with_data_type(WIDE);
        vec![Arc::new(sums), Arc::new(Int64Array::from_iter_values(states.iter().map(|s| s.count)))]
    }

    fn read(columns: &[ArrayRef]) -> Result<Vec<Self>> {
        let (sums, counts) = (column::<Decimal128Array>(columns, 0)?, column::<Int64Array>(columns, 1)?);
        let pairs = sums.values().iter().zip(counts.values());
        Ok(pairs.map(|(sum, count)| Self { sum: *sum, count: *count, of: PhantomData }).collect())
    }
}

/// Count, sum and sum of squares of integers, exact.
#[derive(Debug)]
struct Squares<T> {
    count: i64,
    sum: i128,
    squares: i256,
    of: PhantomData<T>,
}

impl_copy!(Squares);

impl<T> Default for Squares<T> {
    fn default() -> Self {
        Self { count: 0, sum: 0, squares: i256::ZERO, of: PhantomData }
    }
}

const SQUARES: DataType = DataType::Decimal256(76, 0);

impl<T: Integer> Moment for Squares<T> {
    type Value<'a> = i64;

    fn values(args: &[ArrayRef]) -> Result<impl Iterator<Item = i64> + '_> {
        integers::<T>(args)
    }

    fn add(&mut self, value: i64) {
        let wide = i128::from(value);
        self.count += 1;
        self.sum += wide;
        self.squares = self.squares.wrapping_add(i256::from_i128(wide * wide));
    }

    fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.sum += other.sum;
        self.squares = self.squares.wrapping_add(other.squares);
    }

    fn columns() -> Vec<DataType> {
        vec![DataType::Int64, WIDE, SQUARES]
    }

    fn write(states: &[Self]) -> Vec<ArrayRef> {
        let sums = Decimal128Array::from_iter_values(states.iter().map(|s| s.sum)).with_data_type(WIDE);
        let squares =
            Decimal256Array::from_iter_values(states.iter().map(|s| s.squares)).with_data_type(SQUARES);
        let counts = Int64Array::from_iter_values(states.iter().map(|s| s.count));
        vec![Arc::new(counts), Arc::new(sums), Arc::new(squares)]
    }

    fn read(columns: &[ArrayRef]) -> Result<Vec<Self>> {
        let counts = column::<Int64Array>(columns, 0)?;
        let (sums, squares) =
            (column::<Decimal128Array>(columns, 1)?, column::<Decimal256Array>(columns, 2)?);
        let state = |i| Self {
            count: counts.value(i),
            sum: sums.value(i),
            squares: squares.value(i),
            of: PhantomData,
        };
        Ok((0..counts.len()).map(state).collect())
    }
}

type Last = fn(i64, &Numeric, &Numeric, Spread) -> Result<Option<Numeric>>;

fn finish_squares<T: Integer>(states: &[Squares<T>], last: Last, spread: Spread) -> Result<ArrayRef> {
    numerics(states, |s| {
        let (low, high) = s.squares.to_parts();
        last(s.count, &Numeric::from(s.sum), &Numeric::from_decimal256(low, high, 0), spread)
    })
}

/// A column of numerics, one for each state.
pub(super) fn numerics<S>(states: &[S], f: impl Fn(&S) -> Result<Option<Numeric>>) -> Result<ArrayRef> {
    let mut out = LargeBinaryBuilder::with_capacity(states.len(), states.len() * 12);
    let mut bytes = Vec::new();
    for state in states {
        match f(state)? {
            Some(number) => {
                bytes.clear();
                number.encode(&mut bytes);
                out.append_value(&bytes);
            }
            None => out.append_null(),
        }
    }
    Ok(Arc::new(out.finish()))
}
