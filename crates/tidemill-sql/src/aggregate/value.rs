//! `min` and `max` of arrays, and the first value of a group whatever its type: a state is one value.

use std::cmp::Ordering;

use arrow::array::{Array, ArrayRef, make_comparator};
use arrow::compute::SortOptions;
use arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::{Accumulator, GroupsAccumulator};

use super::{Function, Resolved};
use crate::error::SqlError;
use crate::function::{external, sort_key};
use crate::types::Type;

/// `better` is how a value that replaces the one so far compares with it; `None`: the first stays.
pub(super) fn resolve(ty: Type, better: Option<Ordering>) -> Option<Resolved> {
    let data_type = ty.arrow();
    let states = [data_type.clone()];
    Resolved::new(&states, ty.with_typmod(-1), Value { data_type, better })
}

#[derive(Debug, Clone)]
struct Value {
    data_type: DataType,
    better: Option<Ordering>,
}

impl Function for Value {
    fn state(&self) -> Vec<DataType> {
        vec![self.data_type.clone()]
    }

    fn accumulator(&self) -> DfResult<Box<dyn Accumulator>> {
        Ok(Box::new(Best { better: self.better, value: ScalarValue::try_from(&self.data_type)? }))
    }

    fn groups(&self) -> Option<Box<dyn GroupsAccumulator>> {
        None
    }
}

#[derive(Debug)]
struct Best {
    better: Option<Ordering>,
    /// Null: none so far.
    value: ScalarValue,
}

impl Best {
    /// The best of the values in the order of their keys, nulls in arrays last.
    fn of(&self, values: &ArrayRef, better: Ordering) -> DfResult<Option<usize>> {
        let keys = sort_key(values).map_err(external)?;
        let order = SortOptions { descending: false, nulls_first: false };
        let compare = make_comparator(&keys, &keys, order)?;
        let present = (0..values.len()).filter(|i| values.is_valid(*i));
        Ok(present.reduce(|best, i| if compare(i, best) == better { i } else { best }))
    }

    fn take(&mut self, values: &ArrayRef) -> DfResult<()> {
        let Some(better) = self.better else {
            if self.value.is_null()
                && let Some(i) = (0..values.len()).find(|i| values.is_valid(*i))
            {
                self.value = ScalarValue::try_from_array(values, i)?.compacted();
            }
            return Ok(());
        };
        let Some(i) = self.of(values, better)? else { return Ok(()) };
        let value = ScalarValue::try_from_array(values, i)?.compacted();
        let both = ScalarValue::iter_to_array([self.value.clone(), value.clone()])?;
        if self.of(&both, better)? == Some(1) {
            self.value = value;
        }
        Ok(())
    }
}

impl Accumulator for Best {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        match values {
            [values] => self.take(values),
            _ => Err(external(SqlError::internal("an aggregate of one argument got others"))),
        }
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> DfResult<()> {
        self.update_batch(states)
    }

    fn state(&mut self) -> DfResult<Vec<ScalarValue>> {
        Ok(vec![self.value.clone()])
    }

    fn evaluate(&mut self) -> DfResult<ScalarValue> {
        Ok(self.value.clone())
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.value.size() - size_of_val(&self.value)
    }
}
