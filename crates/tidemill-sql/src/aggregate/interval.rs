//! `sum` and `avg` of intervals.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, IntervalMonthDayNanoArray};
use arrow::datatypes::{DataType, IntervalMonthDayNano, IntervalUnit};

use super::Resolved;
use super::fixed::{Fixed, Moment, column};
use crate::calendar;
use crate::error::Result;
use crate::function::divide_interval;
use crate::types::{Scalar, Type};

pub(super) fn sum_or_avg(name: &str, types: &[Type]) -> Option<Resolved> {
    let [ty @ Type { scalar: Scalar::Interval, array: false, .. }] = types else { return None };
    match name {
        "sum" => Resolved::new(&[ty.arrow()], Type::new(Scalar::Interval), Fixed::new(1, Sum::finish)),
        "avg" => Resolved::new(&[ty.arrow()], Type::new(Scalar::Interval), Fixed::new(1, Sum::avg)),
        _ => None,
    }
}

/// Count and sum, whose parts are wide enough not to overflow before they are read.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    count: i64,
    months: i64,
    days: i64,
    /// Microseconds in the state, as PostgreSQL has them; nanoseconds would overflow 1,000 times sooner.
    micros: i64,
}

const NANOS_PER_MICRO: i64 = 1000;

impl Sum {
    fn total(&self) -> Result<IntervalMonthDayNano> {
        let nanos = self.micros.checked_mul(NANOS_PER_MICRO);
        let parts = i32::try_from(self.months).ok().zip(i32::try_from(self.days).ok()).zip(nanos);
        let ((months, days), nanos) = parts.ok_or_else(calendar::interval_out_of_range)?;
        Ok(IntervalMonthDayNano::new(months, days, nanos))
    }

    fn results(states: &[Self], f: impl Fn(&Self) -> Result<IntervalMonthDayNano>) -> Result<ArrayRef> {
        let results = states.iter().map(|s| (s.count > 0).then(|| f(s)).transpose());
        Ok(Arc::new(results.collect::<Result<IntervalMonthDayNanoArray>>()?))
    }

    fn finish(states: &[Self]) -> Result<ArrayRef> {
        Self::results(states, Self::total)
    }

    fn avg(states: &[Self]) -> Result<ArrayRef> {
        Self::results(states, |s| divide_interval(s.total()?, s.count as f64))
    }
}

impl Moment for Sum {
    type Value<'a> = IntervalMonthDayNano;

    fn values(args: &[ArrayRef]) -> Result<impl Iterator<Item = IntervalMonthDayNano> + '_> {
        Ok(column::<IntervalMonthDayNanoArray>(args, 0)?.values().iter().copied())
    }

    fn add(&mut self, value: IntervalMonthDayNano) {
        self.count += 1;
        self.months += i64::from(value.months);
        self.days += i64::from(value.days);
        self.micros = self.micros.saturating_add(value.nanoseconds / NANOS_PER_MICRO);
    }

    fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.months += other.months;
        self.days += other.days;
        self.micros = self.micros.saturating_add(other.micros);
    }

    fn columns() -> Vec<DataType> {
        debug_assert_eq!(Type::new(Scalar::Interval).arrow(), DataType::Interval(IntervalUnit::MonthDayNano));
        vec![DataType::Int64; 4]
    }

    fn write(states: &[Self]) -> Vec<ArrayRef> {
        [|s: &Self| s.count, |s: &Self| s.months, |s: &Self| s.days, |s: &Self| s.micros]
            .into_iter()
            .map(|field| Arc::new(Int64Array::from_iter_values(states.iter().map(field))) as ArrayRef)
            .collect()
    }

    fn read(columns: &[ArrayRef]) -> Result<Vec<Self>> {
        let fields = (0..4).map(|i| column::<Int64Array>(columns, i)).collect::<Result<Vec<_>>>()?;
        let state = |row| {
            let [count, months, days, micros] = std::array::from_fn(|i| fields[i].value(row));
            Self { count, months, days, micros }
        };
        Ok((0..fields[0].len()).map(state).collect())
    }
}
