//! `generate_series` as a set-returning function: one list a row, which the planner unnests. In a plan where it is the only
//! one of its kind the lists come in pieces (`planner/series.rs`).

use std::sync::Arc;

use arrow::array::{ArrayRef, ListArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::Field;

use super::kernel::{Int4, Int8, Interval, Numeric, Sql, Timestamp, Timestamptz, row};
use super::{Call, Param, Registry, Returns};
use crate::calendar;
use crate::error::{Result, SqlError, SqlState};
use crate::numeric::Numeric as Number;
use crate::text::TimeZone;
use crate::types::{Scalar, Type};

pub const NAME: &str = "generate_series";

/// More values in one call than fit here are refused: they are all in memory at once, some of them twice.
const VALUES_BYTES_MAX: usize = 256 << 20;

pub(super) fn register(r: &mut Registry) {
    let of = |scalar| Param::Is(Type::new(scalar));
    let mut add = |scalar, params: &[Param], kernel| {
        r.set_returning(NAME, params, Returns::Is(Type::new(scalar)), kernel);
    };
    for count in [2, 3] {
        add(Scalar::Int4, &vec![of(Scalar::Int4); count], whole::<Int4>);
        add(Scalar::Int8, &vec![of(Scalar::Int8); count], whole::<Int8>);
        add(Scalar::Numeric, &vec![of(Scalar::Numeric); count], whole::<Numeric>);
    }
    let step = of(Scalar::Interval);
    add(Scalar::Timestamp, &[of(Scalar::Timestamp), of(Scalar::Timestamp), step], whole::<Timestamp>);
    add(Scalar::Timestamptz, &[of(Scalar::Timestamptz), of(Scalar::Timestamptz), step], whole::<Timestamptz>);
}

fn zero_step() -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "step size cannot equal zero")
}

fn too_long(values_max: usize) -> SqlError {
    let message = format!("a list of more than {values_max} values is too long");
    SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
        .with_hint("A series that is alone in FROM, or in the select list, is not made as a list.")
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
    let values_max = VALUES_BYTES_MAX / size_of::<R::Out>();
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

/// A type that there are series of.
pub(crate) trait Series: Sql<Out: Send, Builder: Send> {
    /// The series of a row; `None` if that is NULL.
    fn steps(call: &Call, row: usize) -> Result<Option<Steps<Self::Out>>>;
}

/// The values of one series, one after the other.
pub(crate) struct Steps<V> {
    next: Option<V>,
    /// The value after one.
    after: After<V>,
}

type After<V> = Box<dyn Fn(&V) -> Result<Option<V>> + Send>;

impl<V> Steps<V> {
    fn take(&mut self) -> Result<Option<V>> {
        let Some(value) = self.next.take() else { return Ok(None) };
        self.next = (self.after)(&value)?;
        Ok(Some(value))
    }
}

fn whole<R: Series>(call: &Call) -> Result<ArrayRef> {
    lists::<R>(call, |row, push| {
        let Some(mut steps) = R::steps(call, row)? else { return Ok(None) };
        while let Some(value) = steps.take()? {
            push(value)?;
        }
        Ok(Some(()))
    })
}

/// Lists of the values of series, made piece by piece.
pub(crate) trait Pieces: Send {
    /// Goes on with the series of a row; false if that is NULL.
    fn start(&mut self, call: &Call, row: usize) -> Result<bool>;
    /// Makes at most `max` of its values: how many, and whether these were the last.
    fn make(&mut self, max: usize) -> Result<(usize, bool)>;
    /// What was made since the last time.
    fn finish(&mut self) -> ArrayRef;
}

pub(crate) fn pieces(scalar: Scalar) -> Option<Box<dyn Pieces>> {
    Some(match scalar {
        Scalar::Int4 => Making::<Int4>::boxed(),
        Scalar::Int8 => Making::<Int8>::boxed(),
        Scalar::Numeric => Making::<Numeric>::boxed(),
        Scalar::Timestamp => Making::<Timestamp>::boxed(),
        Scalar::Timestamptz => Making::<Timestamptz>::boxed(),
        _ => return None,
    })
}

struct Making<R: Series> {
    steps: Option<Steps<R::Out>>,
    values: R::Builder,
}

impl<R: Series> Making<R> {
    fn boxed() -> Box<dyn Pieces> {
        Box::new(Self { steps: None, values: R::builder(0) })
    }
}

impl<R: Series> Pieces for Making<R> {
    fn start(&mut self, call: &Call, row: usize) -> Result<bool> {
        self.steps = R::steps(call, row)?;
        Ok(self.steps.is_some())
    }

    fn make(&mut self, max: usize) -> Result<(usize, bool)> {
        let Some(steps) = &mut self.steps else { return Ok((0, true)) };
        let mut made = 0;
        while made < max
            && let Some(value) = steps.take()?
        {
            R::append(&mut self.values, Some(value))?;
            made += 1;
        }
        Ok((made, steps.next.is_none()))
    }

    fn finish(&mut self) -> ArrayRef {
        R::finish(std::mem::replace(&mut self.values, R::builder(0)))
    }
}

impl Series for Int4 {
    fn steps(call: &Call, row: usize) -> Result<Option<Steps<i32>>> {
        integers::<Int4>(call, row)
    }
}

impl Series for Int8 {
    fn steps(call: &Call, row: usize) -> Result<Option<Steps<i64>>> {
        integers::<Int8>(call, row)
    }
}

impl Series for Timestamp {
    fn steps(call: &Call, row: usize) -> Result<Option<Steps<i64>>> {
        instants::<Timestamp>(call, row, None)
    }
}

impl Series for Timestamptz {
    fn steps(call: &Call, row: usize) -> Result<Option<Steps<i64>>> {
        instants::<Timestamptz>(call, row, Some(call.vars.zone.clone()))
    }
}

fn integers<T>(call: &Call, row: usize) -> Result<Option<Steps<T::Out>>>
where
    T: for<'a> Sql<Ref<'a> = <T as Sql>::Out>,
    T::Out: Copy + Into<i64> + TryFrom<i64>,
{
    let (start, stop) = (call.column::<T>(0)?, call.column::<T>(1)?);
    let (start, stop): (T::Out, i64) = (row!(start, row), row!(stop, row).into());
    let step: i64 = match call.inputs.get(2) {
        Some(_) => row!(call.column::<T>(2)?, row).into(),
        None => 1,
    };
    if step == 0 {
        return Err(zero_step());
    }
    let is_in = move |at: i64| if step > 0 { at <= stop } else { at >= stop };
    // The end of the type's range ends a series, too.
    let after = move |at: &T::Out| {
        let next = (*at).into().checked_add(step).filter(|next| is_in(*next));
        Ok(next.and_then(|next| T::Out::try_from(next).ok()))
    };
    Ok(Some(Steps { next: Some(start).filter(|start| is_in((*start).into())), after: Box::new(after) }))
}

impl Series for Numeric {
    fn steps(call: &Call, row: usize) -> Result<Option<Steps<Number>>> {
        let (start, stop) = (call.column::<Numeric>(0)?, call.column::<Numeric>(1)?);
        let (start, stop) = (row!(start, row), row!(stop, row));
        let step = match call.inputs.get(2) {
            Some(_) => row!(call.column::<Numeric>(2)?, row),
            None => Number::ONE,
        };
        for (what, value) in [("start", &start), ("stop", &stop), ("step size", &step)] {
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
        let is_down = step.is_negative();
        let is_in = move |at: &Number| if is_down { *at >= stop } else { *at <= stop };
        let next = Some(start).filter(&is_in);
        let after = move |at: &Number| Ok(Some(at.add(&step)?).filter(&is_in));
        Ok(Some(Steps { next, after: Box::new(after) }))
    }
}

fn instants<T>(call: &Call, row: usize, zone: Option<TimeZone>) -> Result<Option<Steps<i64>>>
where
    T: for<'a> Sql<Ref<'a> = i64, Out = i64>,
{
    let (start, stop) = (call.column::<T>(0)?, call.column::<T>(1)?);
    let step = call.column::<Interval>(2)?;
    let (start, stop, step) = (row!(start, row), row!(stop, row), row!(step, row));
    let direction = calendar::interval_order_key(step).signum();
    if direction == 0 {
        return Err(zero_step());
    }
    let is_in = move |at: &i64| if direction > 0 { *at <= stop } else { *at >= stop };
    let after = move |at: &i64| {
        let next = calendar::add_interval(*at, step, zone.as_ref())?;
        // An interval of mixed signs may stand still.
        let moves = i128::from((next - at).signum()) == direction;
        Ok(Some(next).filter(|next| moves && is_in(next)))
    };
    Ok(Some(Steps { next: Some(start).filter(is_in), after: Box::new(after) }))
}
