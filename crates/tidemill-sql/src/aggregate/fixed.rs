//! States of a fixed size: one value a group, folded without a virtual call a row.

use std::fmt::Debug;
use std::marker::PhantomData;

use arrow::array::AsArray;
use arrow::array::{Array, ArrayRef, BooleanArray, Float64Array};
use arrow::buffer::{BooleanBuffer, NullBuffer};
use arrow::datatypes::{DataType, Float32Type, Float64Type};
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result as DfResult};
use datafusion::logical_expr::{Accumulator, EmitTo, GroupsAccumulator};

use super::Function;
use crate::error::{Result, SqlError};
use crate::function::external;
use crate::numeric::Numeric;

/// A state of a fixed size.
pub(super) trait Moment: Clone + Default + Debug + Send + Sync + 'static {
    /// One row's arguments.
    type Value<'a>;

    /// Bytes that a state holds elsewhere, about.
    const HEAP: usize = 0;

    /// The rows of the arguments; what a null row gives is not looked at.
    fn values(args: &[ArrayRef]) -> Result<impl Iterator<Item = Self::Value<'_>> + '_>;

    fn add(&mut self, value: Self::Value<'_>);

    /// All rows of arguments without nulls.
    fn add_columns(&mut self, args: &[ArrayRef]) -> Result<()> {
        Self::values(args)?.for_each(|value| self.add(value));
        Ok(())
    }

    fn merge(&mut self, other: &Self);

    fn columns() -> Vec<DataType>;

    fn write(states: &[Self]) -> Vec<ArrayRef>;

    /// The inverse of `write`.
    fn read(columns: &[ArrayRef]) -> Result<Vec<Self>>;
}

/// Derived, these would ask the same of the type of the values, of which a state holds none.
macro_rules! impl_copy {
    ($name:ident) => {
        impl<T> Clone for $name<T> {
            fn clone(&self) -> Self {
                *self
            }
        }
        impl<T> Copy for $name<T> {}
    };
}
pub(super) use impl_copy;

/// Results of states, one row each.
pub(super) type Finish<M> = fn(&[M]) -> Result<ArrayRef>;

/// An aggregate whose state is `M`.
pub(super) struct Fixed<M> {
    /// Arguments; ORDER BY expressions may come after them.
    arguments: usize,
    finish: Finish<M>,
    state: PhantomData<M>,
}

impl<M: Moment> Fixed<M> {
    pub fn new(arguments: usize, finish: Finish<M>) -> Self {
        Self { arguments, finish, state: PhantomData }
    }
}

impl<M> Debug for Fixed<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Fixed<{}>", std::any::type_name::<M>())
    }
}

impl<M: Moment> Function for Fixed<M> {
    fn state(&self) -> Vec<DataType> {
        M::columns()
    }

    fn accumulator(&self) -> DfResult<Box<dyn Accumulator>> {
        Ok(Box::new(One { state: M::default(), arguments: self.arguments, finish: self.finish }))
    }

    fn groups(&self) -> Option<Box<dyn GroupsAccumulator>> {
        Some(Box::new(Many { states: Vec::<M>::new(), arguments: self.arguments, finish: self.finish }))
    }
}

struct One<M> {
    state: M,
    arguments: usize,
    finish: Finish<M>,
}

impl<M: Debug> Debug for One<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "One({:?})", self.state)
    }
}

impl<M: Moment> Accumulator for One<M> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        let args = arguments(values, self.arguments)?;
        // Taken out, so that the compiler can keep it in registers.
        let mut state = std::mem::take(&mut self.state);
        match non_null(args) {
            None => state.add_columns(args).map_err(external)?,
            Some(nulls) => {
                let rows = M::values(args).map_err(external)?;
                rows.zip(nulls.iter()).filter(|(_, valid)| *valid).for_each(|(value, _)| state.add(value));
            }
        }
        self.state = state;
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> DfResult<()> {
        M::read(states).map_err(external)?.iter().for_each(|state| self.state.merge(state));
        Ok(())
    }

    fn state(&mut self) -> DfResult<Vec<ScalarValue>> {
        M::write(std::slice::from_ref(&self.state))
            .iter()
            .map(|column| ScalarValue::try_from_array(column, 0))
            .collect()
    }

    fn evaluate(&mut self) -> DfResult<ScalarValue> {
        ScalarValue::try_from_array(&(self.finish)(std::slice::from_ref(&self.state)).map_err(external)?, 0)
    }

    fn size(&self) -> usize {
        size_of_val(self) + M::HEAP
    }
}

struct Many<M> {
    /// By group.
    states: Vec<M>,
    arguments: usize,
    finish: Finish<M>,
}

impl<M> Debug for Many<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Many({})", self.states.len())
    }
}

impl<M: Moment> GroupsAccumulator for Many<M> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> DfResult<()> {
        self.states.resize(total, M::default());
        add(&mut self.states, arguments(values, self.arguments)?, groups.iter().copied(), filter)
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total: usize) -> DfResult<()> {
        self.states.resize(total, M::default());
        let others = M::read(states).map_err(external)?;
        others.iter().zip(groups).for_each(|(state, group)| self.states[*group].merge(state));
        Ok(())
    }

    fn state(&mut self, emit: EmitTo) -> DfResult<Vec<ArrayRef>> {
        Ok(M::write(&emit.take_needed(&mut self.states)))
    }

    fn evaluate(&mut self, emit: EmitTo) -> DfResult<ArrayRef> {
        (self.finish)(&emit.take_needed(&mut self.states)).map_err(external)
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> DfResult<Vec<ArrayRef>> {
        let rows = values.first().map_or(0, |v| v.len());
        let mut states = vec![M::default(); rows];
        add(&mut states, arguments(values, self.arguments)?, 0..rows, filter)?;
        Ok(M::write(&states))
    }

    fn size(&self) -> usize {
        self.states.capacity() * (size_of::<M>() + M::HEAP)
    }
}

/// Folds each row into the state of its group.
fn add<M: Moment>(
    states: &mut [M],
    args: &[ArrayRef],
    groups: impl Iterator<Item = usize>,
    filter: Option<&BooleanArray>,
) -> DfResult<()> {
    let rows = M::values(args).map_err(external)?.zip(groups);
    match wanted(non_null(args), filter) {
        None => rows.for_each(|(value, group)| states[group].add(value)),
        Some(wanted) => {
            rows.zip(wanted.iter()).filter(|(_, wanted)| *wanted).for_each(|((value, group), _)| {
                states[group].add(value);
            })
        }
    }
    Ok(())
}

/// The arguments without the ORDER BY expressions behind them.
fn arguments(values: &[ArrayRef], count: usize) -> DfResult<&[ArrayRef]> {
    values
        .get(..count)
        .ok_or_else(|| DataFusionError::Internal(format!("an aggregate of {count} arguments got fewer")))
}

/// The rows in which no argument is null.
pub(super) fn non_null(args: &[ArrayRef]) -> Option<NullBuffer> {
    let mut nulls = None;
    for arg in args {
        nulls = NullBuffer::union(nulls.as_ref(), arg.logical_nulls().as_ref());
    }
    nulls.filter(|nulls| nulls.null_count() > 0)
}

/// The rows that are valid and pass the filter; `None`: all.
pub(super) fn wanted(nulls: Option<NullBuffer>, filter: Option<&BooleanArray>) -> Option<BooleanBuffer> {
    let passed = filter.map(|filter| match filter.nulls() {
        Some(nulls) => filter.values() & nulls.inner(),
        None => filter.values().clone(),
    });
    match (nulls, passed) {
        (Some(nulls), Some(passed)) => Some(nulls.inner() & &passed),
        (Some(nulls), None) => Some(nulls.into_inner()),
        (None, passed) => passed,
    }
}

/// A column of numbers as float8.
pub(super) fn float8(array: &ArrayRef) -> Result<Float64Array> {
    match array.data_type() {
        DataType::Float64 => Ok(array.as_primitive::<Float64Type>().clone()),
        DataType::Float32 => Ok(array.as_primitive::<Float32Type>().unary(f64::from)),
        DataType::LargeBinary => {
            let numbers = array.as_binary::<i64>().iter();
            numbers.map(|bytes| bytes.map(|b| Numeric::decode(b)?.to_f64()).transpose()).collect()
        }
        other => Err(SqlError::internal(format!("{other} is not a number"))),
    }
}

/// The column of a state, which this program wrote.
pub(super) fn column<T: 'static>(columns: &[ArrayRef], i: usize) -> Result<&T> {
    let found = columns.get(i).and_then(|c| c.as_any().downcast_ref::<T>());
    found.ok_or_else(|| SqlError::internal(format!("column {i} of an aggregate's state has another type")))
}
