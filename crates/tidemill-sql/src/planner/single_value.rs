//! The aggregate that holds a scalar subquery to its one row.

use std::sync::{Arc, LazyLock};

use arrow::array::{ArrayRef, StructArray};
use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion::common::ScalarValue;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};

use crate::error::{SqlError, SqlState};
use crate::function::external;

/// Fails at the second row.
pub(super) fn checked() -> Arc<AggregateUDF> {
    static UDAF: LazyLock<Arc<AggregateUDF>> = LazyLock::new(|| SingleValue::udaf(true));
    Arc::clone(&UDAF)
}

/// Gives a value and the number of rows, so that whoever needs the value fails.
pub(super) fn counted() -> Arc<AggregateUDF> {
    static UDAF: LazyLock<Arc<AggregateUDF>> = LazyLock::new(|| SingleValue::udaf(false));
    Arc::clone(&UDAF)
}

pub(super) fn too_many_rows() -> DataFusionError {
    let message = "more than one row returned by a subquery used as an expression";
    external(SqlError::new(SqlState::CARDINALITY_VIOLATION, message))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct SingleValue {
    signature: Signature,
    is_checked: bool,
}

impl SingleValue {
    fn udaf(is_checked: bool) -> Arc<AggregateUDF> {
        let signature = Signature::any(1, Volatility::Immutable);
        Arc::new(AggregateUDF::from(Self { signature, is_checked }))
    }

    fn counted_fields(value: &Field) -> Fields {
        let value = value.clone().with_name("value").with_nullable(true);
        vec![value, Field::new("rows", DataType::Int64, false)].into()
    }
}

impl AggregateUDFImpl for SingleValue {
    fn name(&self) -> &str {
        if self.is_checked { "single_value" } else { "counted_value" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let value = Field::new("value", types[0].clone(), true);
        Ok(if self.is_checked { types[0].clone() } else { DataType::Struct(Self::counted_fields(&value)) })
    }

    fn return_field(&self, fields: &[FieldRef]) -> Result<FieldRef> {
        if !self.is_checked {
            let fields = Self::counted_fields(&fields[0]);
            return Ok(Arc::new(Field::new(self.name(), DataType::Struct(fields), true)));
        }
        // The PostgreSQL type is in the metadata.
        Ok(Arc::new(fields[0].as_ref().clone().with_name(self.name()).with_nullable(true)))
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let counted = match args.return_field.data_type() {
            DataType::Struct(fields) if !self.is_checked => Some(fields.clone()),
            _ => None,
        };
        let value = counted.as_ref().map_or(&args.return_field, |fields| &fields[0]);
        let empty = ScalarValue::try_from(value.data_type())?;
        Ok(Box::new(Value { value: empty, rows: 0, counted }))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let value = args.input_fields[0].as_ref().clone().with_name("value").with_nullable(true);
        Ok(vec![Arc::new(value), Arc::new(Field::new("rows", DataType::Int64, false))])
    }
}

#[derive(Debug)]
struct Value {
    value: ScalarValue,
    rows: i64,
    /// What is given, if it is not the value alone.
    counted: Option<Fields>,
}

impl Value {
    fn take(&mut self, value: &ArrayRef, i: usize, rows: i64) -> Result<()> {
        self.rows += rows;
        if self.rows > 1 && self.counted.is_none() {
            return Err(too_many_rows());
        }
        if rows > 0 {
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
        let Some(fields) = &self.counted else { return Ok(self.value.clone()) };
        let values = vec![self.value.to_array()?, ScalarValue::from(self.rows).to_array()?];
        Ok(ScalarValue::Struct(Arc::new(StructArray::new(fields.clone(), values, None))))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.value.size()
    }
}
