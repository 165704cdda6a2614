//! States of an aggregate as values: a struct of the state's columns, or bytes for another server.
//!
//! The bytes are the columns in Arrow's row format behind a checksum, into which the layout goes as well: what another
//! aggregate has made is not taken for a state.

use std::any::Any;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryArray, BinaryBuilder, StructArray};
use arrow::datatypes::{DataType, Field, Fields, Schema};
use arrow::row::{RowConverter, SortField};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::{
    ColumnarValue, GroupsAccumulator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::physical_expr::GroupsAccumulatorAdapter;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;

use super::layout::Layout;
use crate::error::{SqlError, SqlState};
use crate::function::external;
use crate::types::{Scalar, Type};

/// The function that gives the state of one row.
pub const PARTIAL_STATE: &str = "partial_state";

/// An accumulator for groups: the aggregate's own, or one that is made of its accumulators (DataFusion's own function for
/// this is private).
pub fn groups_accumulator(function: &Arc<AggregateFunctionExpr>) -> DfResult<Box<dyn GroupsAccumulator>> {
    if function.groups_accumulator_supported() {
        return function.create_groups_accumulator();
    }
    let function = Arc::clone(function);
    Ok(Box::new(GroupsAccumulatorAdapter::new(move || function.create_accumulator())))
}

/// A name for the states that a column of a table shows, which no other column has.
pub fn state_name(schema: &Schema, column: &str) -> String {
    let mut name = format!("{column} (state)");
    while schema.index_of(&name).is_ok() {
        name.push('\'');
    }
    name
}

/// How the states of an aggregate are held and sent.
pub struct StateForm {
    layout: Layout,
    function: Arc<AggregateFunctionExpr>,
    fields: Fields,
    converter: RowConverter,
    /// Of the layout: states of another aggregate have another.
    seed: u32,
}

impl fmt::Debug for StateForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StateForm({})", self.layout)
    }
}

const CHECKSUM_BYTES: usize = 4;

impl StateForm {
    pub fn try_new(layout: Layout) -> DfResult<Self> {
        let function = Arc::new(layout.function()?);
        let fields = function.state_fields()?.into_iter().enumerate();
        let fields: Fields =
            fields.map(|(i, f)| Field::new(format!("s{i}"), f.data_type().clone(), true)).collect();
        let sorted = fields.iter().map(|field| SortField::new(field.data_type().clone()));
        let converter = RowConverter::new(sorted.collect())?;
        let seed = crc32c::crc32c(layout.encode().as_bytes());
        Ok(Self { layout, function, fields, converter, seed })
    }

    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Of states as columns.
    pub fn data_type(&self) -> DataType {
        DataType::Struct(self.fields.clone())
    }

    pub(super) fn function(&self) -> &Arc<AggregateFunctionExpr> {
        &self.function
    }

    pub(super) fn fields(&self) -> &Fields {
        &self.fields
    }

    /// States whose columns these are, as one.
    pub fn as_struct(&self, columns: Vec<ArrayRef>) -> DfResult<ArrayRef> {
        Ok(Arc::new(StructArray::try_new(self.fields.clone(), columns, None)?))
    }

    /// Of states as bytes.
    pub fn encoded_type(&self) -> Type {
        Type::new(Scalar::Bytea)
    }

    pub(super) fn encode(&self, columns: &[ArrayRef]) -> DfResult<BinaryArray> {
        let rows = self.converter.convert_columns(columns)?;
        let mut encoded = BinaryBuilder::with_capacity(rows.num_rows(), rows.size());
        let mut state = Vec::new();
        for row in rows.iter() {
            state.clear();
            state.extend_from_slice(&crc32c::crc32c_append(self.seed, row.data()).to_be_bytes());
            state.extend_from_slice(row.data());
            encoded.append_value(&state);
        }
        Ok(encoded.finish())
    }

    fn decode(&self, encoded: &BinaryArray) -> DfResult<Vec<ArrayRef>> {
        let foreign = || {
            let message = format!("this is no state of {}", self.layout);
            external(
                SqlError::new(SqlState::INVALID_BINARY_REPRESENTATION, message)
                    .with_hint("The view may have been replaced meanwhile."),
            )
        };
        let parser = self.converter.parser();
        let mut rows = Vec::with_capacity(encoded.len());
        for state in encoded.iter().flatten() {
            let (sum, row) = state.split_first_chunk::<CHECKSUM_BYTES>().ok_or_else(foreign)?;
            if u32::from_be_bytes(*sum) != crc32c::crc32c_append(self.seed, row) {
                return Err(foreign());
            }
            rows.push(parser.parse(row));
        }
        // Arrow takes all rows for its own. What a server has put behind the right checksum may be none.
        match catch_unwind(AssertUnwindSafe(|| self.converter.convert_rows(rows))) {
            Ok(columns) => Ok(columns?),
            Err(_) => Err(foreign()),
        }
    }

    /// The columns of states that are not null.
    pub(super) fn columns(&self, states: &ArrayRef) -> DfResult<Vec<ArrayRef>> {
        match states.as_binary_opt::<i32>() {
            Some(encoded) => self.decode(encoded),
            None => {
                let states = states.as_struct_opt();
                let states = states.ok_or_else(|| external(SqlError::internal("states that are none")))?;
                Ok(states.columns().to_vec())
            }
        }
    }

    /// Whether a function is [`StateForm::encoding`] of some states.
    pub fn is_encoding(function: &ScalarUDF) -> bool {
        (function.inner().as_ref() as &dyn Any).is::<Encoding>()
    }

    /// States as columns in the form that is sent.
    pub fn encoding(self: &Arc<Self>) -> ScalarUDF {
        let signature = Signature::any(1, Volatility::Immutable);
        ScalarUDF::new_from_impl(Encoding { states: Arc::clone(self), signature })
    }
}

/// There is one form of states for a layout.
impl PartialEq for StateForm {
    fn eq(&self, other: &Self) -> bool {
        self.layout == other.layout
    }
}

impl Eq for StateForm {}

impl Hash for StateForm {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.layout.hash(state);
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Encoding {
    states: Arc<StateForm>,
    signature: Signature,
}

impl ScalarUDFImpl for Encoding {
    fn name(&self) -> &str {
        PARTIAL_STATE
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(Type::new(Scalar::Bytea).arrow())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let columns = ColumnarValue::values_to_arrays(&args.args)?;
        let states = columns.first().and_then(|column| column.as_struct_opt());
        let states = states.ok_or_else(|| external(SqlError::internal("states that are none")))?;
        let encoded = self.states.encode(states.columns())?;
        let (offsets, values, _) = encoded.into_parts();
        // A row without a partner in an outer join has none.
        let encoded = BinaryArray::try_new(offsets, values, states.nulls().cloned())?;
        Ok(ColumnarValue::Array(Arc::new(encoded)))
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{BooleanArray, Int64Array};

    use super::*;

    fn form(layout: &str) -> StateForm {
        let prefix = format!("tidemill 1, datafusion {}", datafusion::DATAFUSION_VERSION);
        StateForm::try_new(Layout::decode(&format!("{prefix}|{layout}")).unwrap()).unwrap()
    }

    fn columns() -> Vec<ArrayRef> {
        vec![Arc::new(Int64Array::from(vec![Some(7), None])), Arc::new(BooleanArray::from(vec![false, true]))]
    }

    #[test]
    fn states_come_back_as_they_were() {
        let form = form("sum|0|23|");
        let encoded = form.encode(&columns()).unwrap();
        assert_eq!(form.decode(&encoded).unwrap(), columns());
        let as_struct = form.as_struct(columns()).unwrap();
        assert_eq!(form.columns(&as_struct).unwrap(), columns());
    }

    #[test]
    fn what_is_no_state_of_the_aggregate_is_an_error() {
        let sum = form("sum|0|23|");
        // Its state has columns of the same types.
        let other = form("sum|0|21|");
        assert_eq!(other.data_type(), sum.data_type());
        let encoded = other.encode(&columns()).unwrap();
        let mut damaged = sum.encode(&columns()).unwrap().value(0).to_vec();
        *damaged.last_mut().unwrap() ^= 1;
        // With the right checksum.
        let forged = [&crc32c::crc32c_append(sum.seed, b"x").to_be_bytes()[..], b"x"].concat();
        for bytes in [encoded.value(0), &damaged, &forged, b"", b"abc", b"abcdefgh"] {
            let error = sum.decode(&BinaryArray::from(vec![bytes])).unwrap_err();
            assert!(error.to_string().contains("this is no state of sum(integer)"), "{error}");
        }
    }
}
