//! `combine(x)` of a column of a continuous view that shows an aggregate: the aggregate over the events of all groups that are
//! combined. It merges the states of the groups, not what is shown of them, so `avg`, `count(DISTINCT x)` and percentiles are
//! what they would be over the events.
//!
//! What is planned first is a call over the values that the column shows. A rule finds out which view they are from and puts
//! a [`merged`] call over the states in its place.
//!
//! States come as columns (a struct), or as bytes from another server, which has made them by `partial_combine(x)` (the
//! state of what is combined) or `partial_state(x)` (that of one row).

use std::any::Any;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray};
use arrow::compute::{and, filter, is_not_null, prep_null_mask_filter};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature, Volatility,
};

use super::no_function;
use super::state_form::{PARTIAL_STATE, StateForm, groups_accumulator};
use crate::error::{Result, SqlError, SqlState};
use crate::function::{Param, Registry, Returns, external};
use crate::types::{Scalar, Type};

/// What is written of a column that shows an aggregate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Combination {
    /// `combine`: the value.
    Value,
    /// `partial_combine`: the state, for another server.
    State,
    /// `partial_layout`: what it is a state of, for another server.
    Layout,
}

impl Combination {
    pub const ALL: [Self; 3] = [Self::Value, Self::State, Self::Layout];

    pub fn name(self) -> &'static str {
        match self {
            Self::Value => "combine",
            Self::State => "partial_combine",
            Self::Layout => "partial_layout",
        }
    }

    pub fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.name() == name)
    }

    fn returns(self, argument: &Field) -> Field {
        match self {
            Self::Value => argument.clone().with_name(self.name()).with_nullable(true),
            Self::State => Type::new(Scalar::Bytea).field(self.name()),
            Self::Layout => Type::new(Scalar::Text).field(self.name()),
        }
    }
}

/// For a call whose argument is something else.
pub fn not_combinable(name: &str) -> SqlError {
    SqlError::new(
        SqlState::WRONG_OBJECT_TYPE,
        format!("{name} is of a column of a continuous view that shows an aggregate"),
    )
    .with_hint("The column must come from the view, or a foreign table of it, as it is.")
}

/// What an aggregate is if it is called as it is written.
pub fn written(function: &AggregateUDF) -> Option<Combination> {
    let function = function.inner().as_ref() as &dyn Any;
    function.downcast_ref::<Written>().map(|written| written.combination)
}

/// Calls as they are written.
pub(super) fn all() -> impl Iterator<Item = AggregateUDF> {
    Combination::ALL.into_iter().map(|combination| {
        AggregateUDF::new_from_impl(Written {
            combination,
            signature: Signature::user_defined(Volatility::Immutable),
        })
    })
}

/// Adds [`PARTIAL_STATE`] as it is written.
pub fn register(registry: &mut Registry) {
    registry.kernel(PARTIAL_STATE, &[Param::Any], Returns::Is(Type::new(Scalar::Bytea)), |_| {
        Err(not_combinable(PARTIAL_STATE))
    });
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Written {
    combination: Combination,
    signature: Signature,
}

impl AggregateUDFImpl for Written {
    fn name(&self) -> &str {
        self.combination.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> DfResult<Vec<DataType>> {
        if types.len() == 1 {
            return Ok(types.to_vec());
        }
        let types = types.iter().map(Type::from_arrow).collect::<Result<Vec<_>>>().map_err(external)?;
        Err(external(no_function(self.name(), &types)))
    }

    fn return_type(&self, types: &[DataType]) -> DfResult<DataType> {
        let argument = types.first().cloned().unwrap_or(DataType::Null);
        Ok(self.combination.returns(&Field::new("", argument, true)).data_type().clone())
    }

    fn return_field(&self, fields: &[FieldRef]) -> DfResult<FieldRef> {
        let argument = fields.first().ok_or_else(|| external(not_combinable(self.name())))?;
        Ok(Arc::new(self.combination.returns(argument)))
    }

    fn state_fields(&self, _: StateFieldsArgs) -> DfResult<Vec<FieldRef>> {
        Err(external(not_combinable(self.name())))
    }

    fn accumulator(&self, _: AccumulatorArgs) -> DfResult<Box<dyn Accumulator>> {
        Err(external(not_combinable(self.name())))
    }
}

/// The call over states that stands for a written one.
pub fn merged(
    states: &Arc<StateForm>,
    is_encoded: bool,
    combination: Combination,
    returns: &Field,
) -> AggregateUDF {
    AggregateUDF::new_from_impl(Merged {
        states: Arc::clone(states),
        is_encoded,
        combination,
        returns: Arc::new(returns.clone()),
        signature: Signature::any(1, Volatility::Immutable),
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Merged {
    states: Arc<StateForm>,
    /// States come as bytes, and are bytes on the way to be merged, as another server can make them.
    is_encoded: bool,
    combination: Combination,
    returns: FieldRef,
    signature: Signature,
}

impl AggregateUDFImpl for Merged {
    fn name(&self) -> &str {
        self.combination.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(self.returns.data_type().clone())
    }

    fn return_field(&self, _: &[FieldRef]) -> DfResult<FieldRef> {
        Ok(Arc::clone(&self.returns))
    }

    fn state_fields(&self, _: StateFieldsArgs) -> DfResult<Vec<FieldRef>> {
        Ok(match self.is_encoded {
            true => vec![Arc::new(Type::new(Scalar::Bytea).field("state"))],
            false => self.states.fields().iter().cloned().collect(),
        })
    }

    fn accumulator(&self, _: AccumulatorArgs) -> DfResult<Box<dyn Accumulator>> {
        Ok(Box::new(Merging { how: self.how(), inner: self.states.function().create_accumulator()? }))
    }

    fn groups_accumulator_supported(&self, _: AccumulatorArgs) -> bool {
        true
    }

    fn create_groups_accumulator(&self, _: AccumulatorArgs) -> DfResult<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(Merging { how: self.how(), inner: groups_accumulator(self.states.function())? }))
    }
}

impl Merged {
    fn how(&self) -> How {
        let Self { states, is_encoded, combination, .. } = self;
        How { states: Arc::clone(states), is_encoded: *is_encoded, combination: *combination }
    }
}

#[derive(Debug, Clone)]
struct How {
    states: Arc<StateForm>,
    is_encoded: bool,
    combination: Combination,
}

impl How {
    fn sent(&self, columns: Vec<ArrayRef>) -> DfResult<Vec<ArrayRef>> {
        Ok(match self.is_encoded {
            true => vec![Arc::new(self.states.encode(&columns)?)],
            false => columns,
        })
    }

    fn received(&self, states: &[ArrayRef]) -> DfResult<Vec<ArrayRef>> {
        match (self.is_encoded, states) {
            (true, [encoded]) => self.states.columns(encoded),
            _ => Ok(states.to_vec()),
        }
    }
}

/// What merges states instead of folding values.
#[derive(Debug)]
struct Merging<A> {
    how: How,
    inner: A,
}

impl Merging<Box<dyn Accumulator>> {
    fn columns(&mut self) -> DfResult<Vec<ArrayRef>> {
        self.inner.state()?.iter().map(ScalarValue::to_array).collect()
    }
}

impl Accumulator for Merging<Box<dyn Accumulator>> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        let present = present(values)?;
        match present.is_empty() {
            true => Ok(()),
            false => self.inner.merge_batch(&self.how.states.columns(&present)?),
        }
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> DfResult<()> {
        self.inner.merge_batch(&self.how.received(states)?)
    }

    fn state(&mut self) -> DfResult<Vec<ScalarValue>> {
        let columns = self.columns()?;
        let sent = self.how.sent(columns)?;
        sent.iter().map(|column| ScalarValue::try_from_array(column, 0)).collect()
    }

    fn evaluate(&mut self) -> DfResult<ScalarValue> {
        match self.how.combination {
            Combination::Value => self.inner.evaluate(),
            Combination::State => {
                let columns = self.columns()?;
                let state = self.how.states.encode(&columns)?;
                ScalarValue::try_from_array(&state, 0)
            }
            Combination::Layout => Ok(ScalarValue::Utf8(Some(self.how.states.layout().encode()))),
        }
    }

    fn size(&self) -> usize {
        self.inner.size()
    }
}

impl GroupsAccumulator for Merging<Box<dyn GroupsAccumulator>> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        indices: &[usize],
        wanted: Option<&BooleanArray>,
        groups: usize,
    ) -> DfResult<()> {
        let Some(states) = values.first() else { return Ok(()) };
        let mut kept = is_not_null(states)?;
        if let Some(wanted) = wanted {
            kept = and(&kept, &prep_null_mask_filter(wanted))?;
        }
        if kept.false_count() == 0 {
            return self.inner.merge_batch(&self.how.states.columns(states)?, indices, groups);
        }
        let indices: Vec<usize> = kept.values().set_indices().map(|row| indices[row]).collect();
        let columns = self.how.states.columns(&filter(states, &kept)?)?;
        self.inner.merge_batch(&columns, &indices, groups)
    }

    fn merge_batch(&mut self, states: &[ArrayRef], indices: &[usize], groups: usize) -> DfResult<()> {
        self.inner.merge_batch(&self.how.received(states)?, indices, groups)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> DfResult<ArrayRef> {
        let states = &self.how.states;
        match self.how.combination {
            Combination::Value => self.inner.evaluate(emit_to),
            Combination::State => Ok(Arc::new(states.encode(&self.inner.state(emit_to)?)?)),
            Combination::Layout => {
                let groups = self.inner.evaluate(emit_to)?.len();
                ScalarValue::Utf8(Some(states.layout().encode())).to_array_of_size(groups)
            }
        }
    }

    fn state(&mut self, emit_to: EmitTo) -> DfResult<Vec<ArrayRef>> {
        let columns = self.inner.state(emit_to)?;
        self.how.sent(columns)
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        wanted: Option<&BooleanArray>,
    ) -> DfResult<Vec<ArrayRef>> {
        let rows = values.first().map_or(0, |column| column.len());
        let (inner, indices) =
            (groups_accumulator(self.how.states.function())?, (0..rows).collect::<Vec<_>>());
        let mut each = Merging { how: self.how.clone(), inner };
        each.update_batch(values, &indices, wanted, rows)?;
        each.state(EmitTo::All)
    }

    fn size(&self) -> usize {
        self.inner.size()
    }
}

/// The states without the nulls that an outer join may have put among them.
fn present(values: &[ArrayRef]) -> DfResult<ArrayRef> {
    let states = values.first().ok_or_else(|| external(SqlError::internal("combine without states")))?;
    Ok(match states.null_count() {
        0 => Arc::clone(states),
        _ => filter(states, &is_not_null(states)?)?,
    })
}
