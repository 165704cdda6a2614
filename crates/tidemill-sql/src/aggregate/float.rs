//! `sum`, `avg`, `stddev` and `variance` of floating-point numbers.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Float32Array, Float64Array, Int64Array};
use arrow::datatypes::{DataType, Float32Type, Float64Type};

use super::Resolved;
use super::fixed::{Fixed, Moment, column, float8};
use crate::error::{Result, SqlError, SqlState};
use crate::types::{Scalar, Type};

const FLOAT8: Type = Type::new(Scalar::Float8);

pub(super) fn sum_or_avg(name: &str, types: &[Type]) -> Option<Resolved> {
    let [Type { scalar: scalar @ (Scalar::Float4 | Scalar::Float8), array: false, .. }] = types else {
        return None;
    };
    let arguments = [scalar.arrow()];
    match (name, scalar) {
        ("sum", Scalar::Float4) => {
            Resolved::new(&arguments, Type::new(Scalar::Float4), Fixed::new(1, Sum::finish_float4))
        }
        ("sum", _) => Resolved::new(&arguments, FLOAT8, Fixed::new(1, Sum::finish)),
        ("avg", _) => Resolved::new(&arguments, FLOAT8, Fixed::new(1, Sum::avg)),
        _ => None,
    }
}

pub(super) fn spread(name: &str, types: &[Type]) -> Option<Resolved> {
    let [ty @ Type { scalar: Scalar::Float4 | Scalar::Float8, array: false, .. }] = types else {
        return None;
    };
    let finish = match name {
        "stddev" | "stddev_samp" => |states: &[Spread]| finish_spread(states, |s| s.sample().map(f64::sqrt)),
        "stddev_pop" => |states: &[Spread]| finish_spread(states, |s| s.population().map(f64::sqrt)),
        "variance" | "var_samp" => |states: &[Spread]| finish_spread(states, Spread::sample),
        "var_pop" => |states: &[Spread]| finish_spread(states, Spread::population),
        _ => return None,
    };
    Resolved::new(&[ty.arrow()], FLOAT8, Fixed::new(1, finish))
}

fn finish_spread(states: &[Spread], f: impl Fn(&Spread) -> Option<f64>) -> Result<ArrayRef> {
    if states.iter().any(|state| state.squares == f64::INFINITY) {
        return Err(overflow());
    }
    Ok(Arc::new(states.iter().map(f).collect::<Float64Array>()))
}

pub(super) fn overflow() -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range: overflow")
}

/// The values of a column of float4 or float8.
fn floats(args: &[ArrayRef]) -> Result<impl Iterator<Item = f64> + '_> {
    let [single, double] =
        [DataType::Float32, DataType::Float64].map(|ty| args.first().filter(|a| *a.data_type() == ty));
    if single.is_none() && double.is_none() {
        return Err(SqlError::internal("a floating-point aggregate of something else"));
    }
    let single = single.map(|a| a.as_primitive::<Float32Type>().values().iter().map(|v| f64::from(*v)));
    let double = double.map(|a| a.as_primitive::<Float64Type>().values().iter().copied());
    Ok(single.into_iter().flatten().chain(double.into_iter().flatten()))
}

#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    sum: f64,
    count: i64,
    /// An infinity came in, so an infinite sum is no overflow.
    infinite: bool,
}

impl Sum {
    fn checked(&self) -> Result<Option<f64>> {
        if self.sum.is_infinite() && !self.infinite {
            return Err(overflow());
        }
        Ok((self.count > 0).then_some(self.sum))
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
        let averages = states.iter().map(|s| Ok(s.checked()?.map(|sum| sum / s.count as f64)));
        Ok(Arc::new(averages.collect::<Result<Float64Array>>()?))
    }
}

impl Moment for Sum {
    type Value<'a> = f64;

    fn values(args: &[ArrayRef]) -> Result<impl Iterator<Item = f64> + '_> {
        floats(args)
    }

    fn add(&mut self, value: f64) {
        self.sum += value;
        self.count += 1;
        self.infinite |= value.is_infinite();
    }

    fn add_columns(&mut self, args: &[ArrayRef]) -> Result<()> {
        let values = float8(&args[0])?;
        self.count += values.len() as i64;
        // In lanes; one after the other would wait for each addition.
        self.sum += arrow::compute::sum(&values).unwrap_or(0.0);
        self.infinite |= self.sum.is_infinite() && values.values().iter().any(|value| value.is_infinite());
        Ok(())
    }

    fn merge(&mut self, other: &Self) {
        self.sum += other.sum;
        self.count += other.count;
        self.infinite |= other.infinite;
    }

    fn columns() -> Vec<DataType> {
        vec![DataType::Float64, DataType::Int64, DataType::Boolean]
    }

    fn write(states: &[Self]) -> Vec<ArrayRef> {
        vec![
            Arc::new(Float64Array::from_iter_values(states.iter().map(|s| s.sum))),
            Arc::new(Int64Array::from_iter_values(states.iter().map(|s| s.count))),
            Arc::new(BooleanArray::new(states.iter().map(|s| s.infinite).collect(), None)),
        ]
    }

    fn read(columns: &[ArrayRef]) -> Result<Vec<Self>> {
        let (sums, counts) = (column::<Float64Array>(columns, 0)?, column::<Int64Array>(columns, 1)?);
        let infinite = column::<BooleanArray>(columns, 2)?.values();
        let states = sums.values().iter().zip(counts.values()).zip(infinite.iter());
        Ok(states.map(|((sum, count), infinite)| Self { sum: *sum, count: *count, infinite }).collect())
    }
}

/// Count, sum, and the sum of squared differences from the mean: the method of Youngs and Cramer, `float8_accum` in
/// PostgreSQL's float.c. An infinity that came in makes the squares NaN; infinite squares are an overflow.
#[derive(Debug, Clone, Copy, Default)]
struct Spread {
    count: f64,
    sum: f64,
    squares: f64,
}

impl Spread {
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

impl Moment for Spread {
    type Value<'a> = f64;

    fn values(args: &[ArrayRef]) -> Result<impl Iterator<Item = f64> + '_> {
        floats(args)
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
        let state = |i| Self { count: counts.value(i), sum: sums.value(i), squares: squares.value(i) };
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
