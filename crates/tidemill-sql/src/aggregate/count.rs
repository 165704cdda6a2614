//! `count`: DataFusion's, with a fold of groups of our own.
//!
//! It is the one aggregate of DataFusion that is folded for every row; what is compiled here is optimised in every
//! profile, DataFusion's own functions are not (see the workspace's `Cargo.toml`).

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int64Array};
use arrow::datatypes::{DataType, FieldRef, Int64Type};
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result};
use datafusion::functions_aggregate::count::Count as Theirs;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDFImpl, EmitTo, GroupsAccumulator, ReversedUDAF, SetMonotonicity, Signature,
    StatisticsArgs,
};

use super::fixed::{non_null, wanted};

#[derive(Debug, PartialEq, Eq, Hash, Default)]
pub(super) struct Count(Theirs);

impl AggregateUDFImpl for Count {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.0.return_type(types)
    }

    fn is_nullable(&self) -> bool {
        self.0.is_nullable()
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.0.state_fields(args)
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.0.accumulator(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        self.0.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        if args.is_distinct {
            return self.0.create_groups_accumulator(args);
        }
        Ok(Box::new(Counts::default()))
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        self.0.reverse_expr()
    }

    fn default_value(&self, ty: &DataType) -> Result<ScalarValue> {
        self.0.default_value(ty)
    }

    fn value_from_stats(&self, args: &StatisticsArgs) -> Option<ScalarValue> {
        // Of one value at most, or of nulls alone, the statistics say that there is one, also if there is none.
        if args.is_distinct { None } else { self.0.value_from_stats(args) }
    }

    fn set_monotonicity(&self, ty: &DataType) -> SetMonotonicity {
        self.0.set_monotonicity(ty)
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.0.create_sliding_accumulator(args)
    }
}

/// By group.
#[derive(Debug, Default)]
struct Counts(Vec<i64>);

impl GroupsAccumulator for Counts {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.0.resize(total, 0);
        match wanted(non_null(values), filter) {
            None => groups.iter().for_each(|group| self.0[*group] += 1),
            Some(wanted) => {
                groups
                    .iter()
                    .zip(wanted.iter())
                    .for_each(|(group, wanted)| self.0[*group] += i64::from(wanted));
            }
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.0.resize(total, 0);
        let Some(counts) = states.first().and_then(|column| column.as_primitive_opt::<Int64Type>()) else {
            return Err(DataFusionError::Internal("the state of a count is one column of bigint".into()));
        };
        groups.iter().zip(counts.values()).for_each(|(group, count)| self.0[*group] += count);
        Ok(())
    }

    fn state(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(emit)?])
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        Ok(Arc::new(Int64Array::from(emit.take_needed(&mut self.0))))
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let rows = values.first().map_or(0, |column| column.len());
        let counts: Int64Array = match wanted(non_null(values), filter) {
            None => vec![1; rows].into(),
            Some(wanted) => wanted.iter().map(i64::from).collect::<Vec<_>>().into(),
        };
        Ok(vec![Arc::new(counts)])
    }

    fn size(&self) -> usize {
        self.0.capacity() * size_of::<i64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_counted_by_group_filter_and_nulls() {
        let column: ArrayRef = Arc::new(Int64Array::from(vec![Some(5), None, Some(6), Some(7)]));
        let filter = BooleanArray::from(vec![Some(true), Some(true), None, Some(true)]);
        let mut counts = Counts::default();
        counts.update_batch(std::slice::from_ref(&column), &[0, 0, 1, 2], None, 4).unwrap();
        counts.update_batch(std::slice::from_ref(&column), &[0, 0, 1, 2], Some(&filter), 4).unwrap();
        let states = counts.convert_to_state(&[column], Some(&filter)).unwrap();
        assert_eq!(states[0].as_primitive::<Int64Type>().values(), &[1, 0, 0, 1]);
        counts.merge_batch(&states, &[3, 3, 3, 3], 4).unwrap();
        let first = counts.evaluate(EmitTo::First(1)).unwrap();
        assert_eq!(first.as_primitive::<Int64Type>().values(), &[2]);
        let rest = counts.state(EmitTo::All).unwrap();
        assert_eq!(rest[0].as_primitive::<Int64Type>().values(), &[1, 2, 2]);
    }
}
