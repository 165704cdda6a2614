//! `sum`, `avg`, `stddev` and `variance` of floating-point numbers.

use std::fmt::Debug;
use std::marker::PhantomData;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, Float32Array, Float64Array, Int64Array,
};
use arrow::datatypes::{DataType, Float32Type, Float64Type};

use super::Resolved;
use super::fixed::{Fixed, Moment, column, float8, impl_copy};
use crate::error::{Result, SqlError, SqlState};
use crate::types::{Scalar, Type};

const FLOAT8: Type = Type::new(Scalar::Float8);

pub(super) fn sum_or_avg(name: &str, types: &[Type]) -> Option<Resolved> {
    let [Type { scalar, array: false, .. }] = types else { return None };
    let arguments = [scalar.arrow()];
    match (name, scalar) {
        ("sum", Scalar::Float4) => {
            let function = Fixed::new(1, Sum::<Float32Type>::finish_float4);
            Resolved::new(&arguments, Type::new(Scalar::Float4), function)
        }
        ("sum", Scalar::Float8) => {
            Resolved::new(&arguments, FLOAT8, Fixed::new(1, Sum::<Float64Type>::finish))
        }
        ("avg", Scalar::Float4) => Resolved::new(&arguments, FLOAT8, Fixed::new(1, Sum::<Float32Type>::avg)),
        ("avg", Scalar::Float8) => Resolved::new(&arguments, FLOAT8, Fixed::new(1, Sum::<Float64Type>::avg)),
        _ => None,
    }
}

pub(super) fn spread(name: &str, types: &[Type]) -> Option<Resolved> {
    let [Type { scalar, array: false, .. }] = types else { return None };
    match scalar {
        Scalar::Float4 => spread_of::<Float32Type>(name),
        Scalar::Float8 => spread_of::<Float64Type>(name),
        _ => None,
    }
}

fn spread_of<T: Float>(name: &str) -> Option<Resolved> {
    let finish = match name {
        "stddev" | "stddev_samp" => {
            |states: &[Spread<T>]| finish_spread(states, |s| s.sample().map(f64::sqrt))
        }
        "stddev_pop" => |states: &[Spread<T>]| finish_spread(states, |s| s.population().map(f64::sqrt)),
        "variance" | "var_samp" => |states: &[Spread<T>]| finish_spread(states, Spread::sample),
        "var_pop" => |states: &[Spread<T>]| finish_spread(states, Spread::population),
        _ => return None,
    };
    Resolved::new(&[T::DATA_TYPE], FLOAT8, Fixed::new(1, finish))
}

fn finish_spread<T>(states: &[Spread<T>], f: impl Fn(&Spread<T>) -> Option<f64>) -> Result<ArrayRef> {
    if states.iter().any(|state| state.squares == f64::INFINITY) {
        return Err(overflow());
    }
    Ok(Arc::new(states.iter().map(f).collect::<Float64Array>()))
}

/// A floating-point type of PostgreSQL; sums are float8 whatever the type.
trait Float: ArrowPrimitiveType<Native: Into<f64> + Copy> + Debug + Send + Sync {}

impl Float for Float32Type {}
impl Float for Float64Type {}

fn floats<T: Float>(args: &[ArrayRef]) -> Result<impl Iterator<Item = f64> + '_> {
    let values = args.first().and_then(|a| a.as_primitive_opt::<T>());
    let values = values.ok_or_else(|| SqlError::internal("a floating-point aggregate of something else"))?;
    Ok(values.values().iter().map(|value| (*value).into()))
}

pub(super) fn overflow() -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range: overflow")
}

#[derive(Debug)]
struct Sum<T> {
    sum: f64,
    /// Twice the number of values, and one more if an infinity was among them: then an infinite sum is no overflow.
    /// In one field, because the states of a million groups are fetched from memory.
    seen: u64,
    of: PhantomData<T>,
}

impl_copy!(Sum);

impl<T> Default for Sum<T> {
    fn default() -> Self {
        Self { sum: 0.0, seen: 0, of: PhantomData }
    }
}

impl<T> Sum<T> {
    fn new(sum: f64, count: i64, infinite: bool) -> Self {
        Self { sum, seen: ((count as u64) << 1) | u64::from(infinite), of: PhantomData }
    }

    fn count(&self) -> i64 {
        (self.seen >> 1) as i64
    }

    fn infinite(&self) -> bool {
        self.seen & 1 == 1
    }

    fn plus(&mut self, other: &Self) {
        self.sum += other.sum;
        let infinite = (self.seen | other.seen) & 1;
        self.seen = ((self.seen & !1) + (other.seen & !1)) | infinite;
    }

    fn checked(&self) -> Result<Option<f64>> {
        if self.sum.is_infinite() && !self.infinite() {
            return Err(overflow());
        }
        Ok((self.count() > 0).then_some(self.sum))
    }

    fn finish(states: &[Self]) -> Result<ArrayRef> {
        Ok(Arc::new(states.iter().map(Self::checked).collect::<Result<Float64Array>>()?))
    }

    fn finish_float4(states: &[Self]) -> Result<ArrayRef> {
        let narrow = |sum: f64| match sum as f32 {
            narrow if narrow.is_infinite() && sum.is_finite() => Err(overflow()),
            narrow => Ok(narrow),
        };
        let sums = states.iter().map(|s| s.checked()?.map(narrow).transpose());
        Ok(Arc::new(sums.collect::<Result<Float32Array>>()?))
    }

    fn avg(states: &[Self]) -> Result<ArrayRef> {
        let averages = states.iter().map(|s| Ok(s.checked()?.map(|sum| sum / s.count() as f64)));
        Ok(Arc::new(averages.collect::<Result<Float64Array>>()?))
    }
}

impl<T: Float> Moment for Sum<T> {
    type Value<'a> = f64;

    fn values(args: &[ArrayRef]) -> Result<impl Iterator<Item = f64> + '_> {
        floats::<T>(args)
    }

    fn add(&mut self, value: f64) {
        self.sum += value;
        self.seen = (self.seen + 2) | u64::from(value.is_infinite());
    }

    fn add_columns(&mut self, args: &[ArrayRef]) -> Result<()> {
        let values = float8(&args[0])?;
        // In lanes; one after the other would wait for each addition.
        let sum = arrow::compute::sum(&values).unwrap_or(0.0);
        let infinite = !sum.is_finite() && values.values().iter().any(|value| value.is_infinite());
        self.plus(&Self::new(sum, values.len() as i64, infinite));
        Ok(())
    }

    fn merge(&mut self, other: &Self) {
        self.plus(other);
    }

    fn columns() -> Vec<DataType> {
        vec![DataType::Float64, DataType::Int64, DataType::Boolean]
    }

    fn write(states: &[Self]) -> Vec<ArrayRef> {
        vec![
            Arc::new(Float64Array::from_iter_values(states.iter().map(|s| s.sum))),
            Arc::new(Int64Array::from_iter_values(states.iter().map(Self::count))),
            Arc::new(BooleanArray::new(states.iter().map(Self::infinite).collect(), None)),
        ]
    }

    fn read(columns: &[ArrayRef]) -> Result<Vec<Self>> {
        let (sums, counts) = (column::<Float64Array>(columns, 0)?, column::<Int64Array>(columns, 1)?);
        let infinite = column::<BooleanArray>(columns, 2)?.values();
        let states = sums.values().iter().zip(counts.values()).zip(infinite.iter());
        Ok(states.map(|((sum, count), infinite)| Self::new(*sum, *count, infinite)).collect())
    }
}

/// Count, sum, and the sum of squared differences from the mean: the method of Youngs and Cramer, `float8_accum` in
/// PostgreSQL's float.c. An infinity that came in makes the squares NaN; infinite squares are an overflow.
#[derive(Debug)]
struct Spread<T> {
    count: f64,
    sum: f64,
    squares: f64,
    of: PhantomData<T>,
}

impl_copy!(Spread);

impl<T> Default for Spread<T> {
    fn default() -> Self {
        Self { count: 0.0, sum: 0.0, squares: 0.0, of: PhantomData }
    }
}

impl<T> Spread<T> {
    /// The squares after a step, of which is known whether all that went into it was finite.
    fn checked(&self, squares: f64, finite: bool) -> f64 {
        match self.sum.is_infinite() || squares.is_infinite() {
            _ if self.squares == f64::INFINITY => f64::INFINITY,
            true if finite => f64::INFINITY,
            true => f64::NAN,
            false => squares,
        }
    }

    fn population(&self) -> Option<f64> {
        (self.count > 0.0).then(|| self.squares / self.count)
    }

    fn sample(&self) -> Option<f64> {
        (self.count > 1.0).then(|| self.squares / (self.count - 1.0))
    }
}

impl<T: Float> Moment for Spread<T> {
    type Value<'a> = f64;

    fn values(args: &[ArrayRef]) -> Result<impl Iterator<Item = f64> + '_> {
        floats::<T>(args)
    }

    fn add(&mut self, value: f64) {
        let (before, finite) = (self.count, self.sum.is_finite());
        self.count += 1.0;
        self.sum += value;
        if before > 0.0 {
            let difference = value * self.count - self.sum;
            let squares = self.squares + difference * difference / (self.count * before);
            self.squares = self.checked(squares, finite && value.is_finite());
        } else if !value.is_finite() {
            self.squares = f64::NAN;
        }
    }

    fn merge(&mut self, other: &Self) {
        if other.count == 0.0 {
            return;
        }
        if self.count == 0.0 {
            *self = *other;
            return;
        }
        let count = self.count + other.count;
        let difference = self.sum / self.count - other.sum / other.count;
        let between = self.count * other.count * difference * difference / count;
        let squares = self.squares + other.squares + between;
        let finite = self.sum.is_finite() && other.sum.is_finite();
        self.count = count;
        self.sum += other.sum;
        let overflowed = self.squares == f64::INFINITY || other.squares == f64::INFINITY;
        self.squares = if overflowed { f64::INFINITY } else { self.checked(squares, finite) };
    }

    fn columns() -> Vec<DataType> {
        vec![DataType::Float64; 3]
    }

    fn write(states: &[Self]) -> Vec<ArrayRef> {
        [|s: &Self| s.count, |s: &Self| s.sum, |s: &Self| s.squares]
            .into_iter()
            .map(|field| Arc::new(Float64Array::from_iter_values(states.iter().map(field))) as ArrayRef)
            .collect()
    }

    fn read(columns: &[ArrayRef]) -> Result<Vec<Self>> {
        let [counts, sums, squares] =
            [column::<Float64Array>(columns, 0)?, column(columns, 1)?, column(columns, 2)?];
        let state = |i| Self {
            count: counts.value(i),
            sum: sums.value(i),
            squares: squares.value(i),
            of: PhantomData,
        };
        Ok((0..counts.len()).map(state).collect())
    }
}

/// The first two arguments as float8, pair by pair.
pub(super) fn pairs(args: &[ArrayRef]) -> Result<Vec<(f64, f64)>> {
    let [first, second] = args else {
        return Err(SqlError::internal("an aggregate of two arguments got others"));
    };
    let (first, second) = (float8(first)?, float8(second)?);
    Ok(first.values().iter().copied().zip(second.values().iter().copied()).collect())
}
