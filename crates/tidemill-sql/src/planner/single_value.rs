//! The aggregate that holds a scalar subquery to its one row.

use std::sync::{Arc, LazyLock};

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};

use crate::error::{SqlError, SqlState};
use crate::function::external;

pub(super) fn udaf() -> Arc<AggregateUDF> {
    static UDAF: LazyLock<Arc<AggregateUDF>> =
        LazyLock::new(|| Arc::new(AggregateUDF::from(SingleValue::new())));
    Arc::clone(&UDAF)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct SingleValue {
    signature: Signature,
}

impl SingleValue {
    fn new() -> Self {
        Self { signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl AggregateUDFImpl for SingleValue {
    fn name(&self) -> &str {
        "single_value"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types[0].clone())
    }

    fn return_field(&self, fields: &[FieldRef]) -> Result<FieldRef> {
        // The PostgreSQL type is in the metadata.
        Ok(Arc::new(fields[0].as_ref().clone().with_name(self.name()).with_nullable(true)))
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let empty = ScalarValue::try_from(args.return_field.data_type())?;
        Ok(Box::new(Value { value: empty, rows: 0 }))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let value = args.return_field.as_ref().clone().with_name("value");
        Ok(vec![Arc::new(value), Arc::new(Field::new("rows", DataType::Int64, false))])
    }
}

#[derive(Debug)]
struct Value {
    value: ScalarValue,
    rows: i64,
}

impl Value {
    fn take(&mut self, value: &ArrayRef, i: usize, rows: i64) -> Result<()> {
        self.rows += rows;
        if self.rows > 1 {
            let message = "more than one row returned by a subquery used as an expression";
            return Err(external(SqlError::new(SqlState::CARDINALITY_VIOLATION, message)));
        }
        if rows == 1 {
            self.value = ScalarValue::try_from_array(value, i)?;
        }
        Ok(())
    }
}

impl Accumulator for Value {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        (0..values[0].len()).try_for_each(|i| self.take(&values[0], i, 1))
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let rows = datafusion::common::cast::as_int64_array(&states[1])?;
        (0..states[0].len()).try_for_each(|i| self.take(&states[0], i, rows.value(i)))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.value.clone(), ScalarValue::from(self.rows)])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(self.value.clone())
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.value.size()
    }
}
