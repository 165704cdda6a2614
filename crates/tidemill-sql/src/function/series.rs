//! `generate_series` as a set-returning function: one list a row, which the planner unnests.

use std::sync::Arc;

use arrow::array::{ArrayRef, ListArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{Field, IntervalMonthDayNano};

use super::kernel::{Int4, Int8, Interval, Numeric, Sql, Timestamp, Timestamptz, row};
use super::{Call, Param, Registry, Returns, datetime};
use crate::error::{Result, SqlError, SqlState};
use crate::numeric::Numeric as Number;
use crate::planner::vars::SessionVars;
use crate::types::{Scalar, Type};

/// More values in one call than fit here are refused: they are all in memory at once, some of them twice. (A series between
/// integer literals in FROM is not made here and has no limit.)
const VALUES_BYTES_MAX: usize = 256 << 20;

pub(super) fn register(r: &mut Registry) {
    let of = |scalar| Param::Is(Type::new(scalar));
    for scalar in [Scalar::Int4, Scalar::Int8, Scalar::Numeric] {
        for count in [2, 3] {
            let params = vec![of(scalar); count];
            let returns = Returns::Is(Type::new(scalar));
            match scalar {
                Scalar::Int4 => r.set_returning("generate_series", &params, returns, integers::<Int4>),
                Scalar::Int8 => r.set_returning("generate_series", &params, returns, integers::<Int8>),
                _ => r.set_returning("generate_series", &params, returns, numerics),
            }
        }
    }
    let step = of(Scalar::Interval);
    for scalar in [Scalar::Timestamp, Scalar::Timestamptz] {
        let params = [of(scalar), of(scalar), step];
        let returns = Returns::Is(Type::new(scalar));
        match scalar {
            Scalar::Timestamp => r.set_returning("generate_series", &params, returns, |call| {
                instants::<Timestamp>(call, |_, at, step| datetime::add_interval(at, step))
            }),
            _ => r.set_returning("generate_series", &params, returns, |call| {
                instants::<Timestamptz>(call, datetime::add_interval_tz)
            }),
        }
    }
}

fn zero_step() -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "step size cannot equal zero")
}

fn values_max<R: Sql>() -> usize {
    VALUES_BYTES_MAX / size_of::<R::Out>()
}

fn too_long(values_max: usize) -> SqlError {
    let message = format!(
        "a series of more than {values_max} values is only possible in FROM, between integer literals"
    );
    SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
        .with_hint("Two shorter series in FROM give as many rows as their product.")
}

/// Collects one list a row; `f` appends a row's values and says whether the row is not null.
pub(super) fn lists<R: Sql>(
    call: &Call,
    f: impl Fn(usize, &mut dyn FnMut(R::Out) -> Result<()>) -> Result<Option<()>>,
) -> Result<ArrayRef> {
    let mut values = R::builder(0);
    let mut lengths = vec![];
    let mut valid = vec![];
    let mut total = 0;
    let values_max = values_max::<R>();
    for row in 0..call.rows {
        let mut length = 0;
        let mut push = |value| {
            length += 1;
            total += 1;
            if total > values_max {
                return Err(too_long(values_max));
            }
            R::append(&mut values, Some(value))
        };
        valid.push(f(row, &mut push)?.is_some());
        lengths.push(length);
    }
    let field = Arc::new(Field::new_list_field(R::SCALAR.arrow(), true));
    let offsets = OffsetBuffer::from_lengths(lengths);
    ListArray::try_new(field, offsets, R::finish(values), Some(valid.into()))
        .map(|list| Arc::new(list) as ArrayRef)
        .map_err(|e| SqlError::internal(e.to_string()))
}

fn integers<T>(call: &Call) -> Result<ArrayRef>
where
    T: for<'a> Sql<Ref<'a> = <T as Sql>::Out>,
    T::Out: Copy + Into<i64> + TryFrom<i64>,
{
    let (start, stop) = (call.column::<T>(0)?, call.column::<T>(1)?);
    let step = if call.inputs.len() > 2 { Some(call.column::<T>(2)?) } else { None };
    lists::<T>(call, |row, push| {
        let (mut at, stop): (i64, i64) = (row!(start, row).into(), row!(stop, row).into());
        let step: i64 = match &step {
            Some(step) => row!(step, row).into(),
            None => 1,
        };
        if step == 0 {
            return Err(zero_step());
        }
        // Before the first of them is made.
        if (i128::from(stop) - i128::from(at)) / i128::from(step) >= values_max::<T>() as i128 {
            return Err(too_long(values_max::<T>()));
        }
        while if step > 0 { at <= stop } else { at >= stop } {
            match T::Out::try_from(at) {
                Ok(value) => push(value)?,
                Err(_) => break,
            }
            match at.checked_add(step) {
                Some(next) => at = next,
                None => break,
            }
        }
        Ok(Some(()))
    })
}

fn numerics(call: &Call) -> Result<ArrayRef> {
    let (start, stop) = (call.column::<Numeric>(0)?, call.column::<Numeric>(1)?);
    let step = if call.inputs.len() > 2 { Some(call.column::<Numeric>(2)?) } else { None };
    lists::<Numeric>(call, |row, push| {
        let (mut at, stop) = (row!(start, row), row!(stop, row));
        let step = match &step {
            Some(step) => row!(step, row),
            None => Number::ONE,
        };
        for (what, value) in [("start", &at), ("stop", &stop), ("step size", &step)] {
            if !value.is_finite() {
                let kind = if value.is_nan() { "NaN" } else { "infinity" };
                let shown = if what == "step size" { what.to_string() } else { format!("{what} value") };
                return Err(SqlError::new(
                    SqlState::INVALID_PARAMETER_VALUE,
                    format!("{shown} cannot be {kind}"),
                ));
            }
        }
        if step.is_zero() {
            return Err(zero_step());
        }
        while if step.is_negative() { at >= stop } else { at <= stop } {
            let next = at.add(&step)?;
            push(at)?;
            at = next;
        }
        Ok(Some(()))
    })
}

fn instants<T>(
    call: &Call,
    add: fn(&SessionVars, i64, IntervalMonthDayNano) -> Result<i64>,
) -> Result<ArrayRef>
where
    T: for<'a> Sql<Ref<'a> = i64, Out = i64>,
{
    let (start, stop) = (call.column::<T>(0)?, call.column::<T>(1)?);
    let step = call.column::<Interval>(2)?;
    lists::<T>(call, |row, push| {
        let (mut at, stop, step) = (row!(start, row), row!(stop, row), row!(step, row));
        let direction = crate::calendar::interval_order_key(step).signum();
        if direction == 0 {
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "step size cannot equal zero"));
        }
        while if direction > 0 { at <= stop } else { at >= stop } {
            push(at)?;
            let next = add(call.vars, at, step)?;
            // An interval of mixed signs may stand still.
            if (next - at).signum() as i128 != direction {
                break;
            }
            at = next;
        }
        Ok(Some(()))
    })
}
