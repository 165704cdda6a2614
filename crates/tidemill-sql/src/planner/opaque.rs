//! A value of which the optimizer knows nothing.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

/// The function whose value is that of its argument.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Opaque {
    name: &'static str,
    signature: Signature,
    is_nullable: bool,
}

impl Opaque {
    /// It may be null if its argument may be.
    pub fn new(name: &'static str) -> Self {
        Self { name, signature: Signature::any(1, Volatility::Immutable), is_nullable: false }
    }

    /// It may be null, also after optimizing: as if it were another value each time, it is not computed ahead.
    pub fn nullable(name: &'static str) -> Self {
        Self { name, signature: Signature::any(1, Volatility::Volatile), is_nullable: true }
    }

    pub fn function(self) -> Arc<ScalarUDF> {
        Arc::new(ScalarUDF::from(self))
    }
}

pub(super) fn call(function: &Arc<ScalarUDF>, value: Expr) -> Expr {
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(function), vec![value]))
}

impl ScalarUDFImpl for Opaque {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types[0].clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let field = args.arg_fields[0].as_ref();
        let is_nullable = self.is_nullable || field.is_nullable();
        let own = Field::new(self.name, field.data_type().clone(), is_nullable);
        Ok(Arc::new(own.with_metadata(field.metadata().clone())))
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(args.args.swap_remove(0))
    }
}
