//! `sum`, `avg`, `stddev` and `variance` of numeric: exact.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Int64Array, LargeBinaryArray};
use arrow::datatypes::DataType;

use super::Resolved;
use super::fixed::{Fixed, Moment, column};
use super::integer::numerics;
use crate::error::{Result, SqlError, SqlState};
use crate::numeric::{Numeric, Spread};
use crate::types::{Scalar, Type};

const NUMERIC: Type = Type::new(Scalar::Numeric);

pub(super) fn sum_or_avg(name: &str, types: &[Type]) -> Option<Resolved> {
    let [Type { scalar: Scalar::Numeric, array: false, .. }] = types else { return None };
    match name {
        "sum" => Resolved::new(&[NUMERIC.arrow()], NUMERIC, Fixed::new(1, Sum::finish)),
        "avg" => Resolved::new(&[NUMERIC.arrow()], NUMERIC, Fixed::new(1, Sum::avg)),
        _ => None,
    }
}

pub(super) fn spread(name: &str, types: &[Type]) -> Option<Resolved> {
    let [Type { scalar: Scalar::Numeric, array: false, .. }] = types else { return None };
    let finish = match name {
        "stddev" | "stddev_samp" => {
            |states: &[Squares]| finish_squares(states, Numeric::stddev_of, Spread::Sample)
        }
        "stddev_pop" => |states: &[Squares]| finish_squares(states, Numeric::stddev_of, Spread::Population),
        "variance" | "var_samp" => {
            |states: &[Squares]| finish_squares(states, Numeric::variance_of, Spread::Sample)
        }
        "var_pop" => |states: &[Squares]| finish_squares(states, Numeric::variance_of, Spread::Population),
        _ => return None,
    };
    Resolved::new(&[NUMERIC.arrow()], NUMERIC, Fixed::new(1, finish))
}

/// A sum that remembers when it left the range of numeric: an error when it is read.
#[derive(Debug, Clone)]
struct Total(Option<Numeric>);

impl Default for Total {
    fn default() -> Self {
        Self(Some(Numeric::ZERO))
    }
}

impl Total {
    fn add(&mut self, value: Result<Numeric>) {
        self.0 = match (&self.0, value) {
            (Some(sum), Ok(value)) => sum.add(&value).ok(),
            _ => None,
        };
    }

    fn merge(&mut self, other: &Self) {
        self.0 = match (&self.0, &other.0) {
            (Some(a), Some(b)) => a.add(b).ok(),
            _ => None,
        };
    }

    fn get(&self) -> Result<&Numeric> {
        let overflow =
            || SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value overflows numeric format");
        self.0.as_ref().ok_or_else(overflow)
    }

    /// A column in which null is a total out of range.
    fn write<'a>(totals: impl Iterator<Item = &'a Total>) -> ArrayRef {
        let bytes = totals.map(|total| total.0.as_ref().map(Numeric::to_bytes));
        Arc::new(bytes.collect::<LargeBinaryArray>())
    }

    fn read(columns: &[ArrayRef], i: usize) -> Result<Vec<Total>> {
        let total = |bytes: Option<&[u8]>| Ok(Total(bytes.map(Numeric::decode).transpose()?));
        column::<LargeBinaryArray>(columns, i)?.iter().map(total).collect()
    }
}

fn values(args: &[ArrayRef]) -> Result<impl Iterator<Item = Numeric> + '_> {
    let array = args.first().and_then(|a| a.as_binary_opt::<i64>());
    let array = array.ok_or_else(|| SqlError::internal("a numeric aggregate of something else"))?;
    let decode = |bytes: Option<&[u8]>| bytes.map_or(Ok(Numeric::ZERO), Numeric::decode);
    Ok(array.iter().map(decode).collect::<Result<Vec<_>>>()?.into_iter())
}

#[derive(Debug, Clone, Default)]
struct Sum {
    count: i64,
    sum: Total,
}

impl Sum {
    fn finish(states: &[Self]) -> Result<ArrayRef> {
        numerics(states, |s| if s.count > 0 { s.sum.get().cloned().map(Some) } else { Ok(None) })
    }

    fn avg(states: &[Self]) -> Result<ArrayRef> {
        numerics(states, |s| (s.count > 0).then(|| Numeric::avg_of(s.sum.get()?, s.count)).transpose())
    }
}

impl Moment for Sum {
    type Value<'a> = Numeric;

    fn values(args: &[ArrayRef]) -> Result<impl Iterator<Item = Numeric> + '_> {
        values(args)
    }

    fn add(&mut self, value: Numeric) {
        self.count += 1;
        self.sum.add(Ok(value));
    }

    fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.sum.merge(&other.sum);
    }

    fn columns() -> Vec<DataType> {
        vec![DataType::Int64, DataType::LargeBinary]
    }

    fn write(states: &[Self]) -> Vec<ArrayRef> {
        let counts = Int64Array::from_iter_values(states.iter().map(|s| s.count));
        vec![Arc::new(counts), Total::write(states.iter().map(|s| &s.sum))]
    }

    fn read(columns: &[ArrayRef]) -> Result<Vec<Self>> {
        let counts = column::<Int64Array>(columns, 0)?.values().iter();
        Ok(counts.zip(Total::read(columns, 1)?).map(|(count, sum)| Self { count: *count, sum }).collect())
    }
}

#[derive(Debug, Clone, Default)]
struct Squares {
    count: i64,
    sum: Total,
    squares: Total,
}

type Last = fn(i64, &Numeric, &Numeric, Spread) -> Result<Option<Numeric>>;

fn finish_squares(states: &[Squares], last: Last, spread: Spread) -> Result<ArrayRef> {
    numerics(states, |s| last(s.count, s.sum.get()?, s.squares.get()?, spread))
}

impl Moment for Squares {
    type Value<'a> = Numeric;

    fn values(args: &[ArrayRef]) -> Result<impl Iterator<Item = Numeric> + '_> {
        values(args)
    }

    fn add(&mut self, value: Numeric) {
        self.count += 1;
        self.squares.add(value.mul(&value));
        self.sum.add(Ok(value));
    }

    fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.sum.merge(&other.sum);
        self.squares.merge(&other.squares);
    }

    fn columns() -> Vec<DataType> {
        vec![DataType::Int64, DataType::LargeBinary, DataType::LargeBinary]
    }

    fn write(states: &[Self]) -> Vec<ArrayRef> {
        let counts = Int64Array::from_iter_values(states.iter().map(|s| s.count));
        let (sums, squares) = (states.iter().map(|s| &s.sum), states.iter().map(|s| &s.squares));
        vec![Arc::new(counts), Total::write(sums), Total::write(squares)]
    }

    fn read(columns: &[ArrayRef]) -> Result<Vec<Self>> {
        let counts = column::<Int64Array>(columns, 0)?.values().iter();
        let sums = Total::read(columns, 1)?.into_iter().zip(Total::read(columns, 2)?);
        Ok(counts.zip(sums).map(|(count, (sum, squares))| Self { count: *count, sum, squares }).collect())
    }
}
