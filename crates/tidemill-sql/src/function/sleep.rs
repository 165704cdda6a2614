//! `pg_sleep`: waits without holding a thread, so that a cancel or a timeout ends it at once.

use std::sync::Arc;

use arrow::array::{Array, AsArray, StringArray};
use arrow::datatypes::{DataType, Float64Type};
use async_trait::async_trait;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::async_udf::{AsyncScalarUDF, AsyncScalarUDFImpl};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

use super::{Param, Registry, Returns};
use crate::planner::vars::SessionVars;
use crate::types::{Scalar, Type};

pub(super) fn register(r: &mut Registry) {
    // The result is `void`, whose text is empty.
    let text = Returns::Is(Type::new(Scalar::Text));
    r.native("pg_sleep", &[Param::Is(Type::new(Scalar::Float8))], text, |args| Ok(call(args)));
}

fn call(args: Vec<Expr>) -> Expr {
    let signature = Signature::exact(vec![DataType::Float64], Volatility::Volatile);
    AsyncScalarUDF::new(Arc::new(Sleep { signature })).into_scalar_udf().call(args)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Sleep {
    signature: Signature,
}

impl ScalarUDFImpl for Sleep {
    fn name(&self) -> &str {
        "pg_sleep"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        datafusion::common::not_impl_err!("pg_sleep can only be called in a query")
    }
}

#[async_trait]
impl AsyncScalarUDFImpl for Sleep {
    async fn invoke_async_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let objects = SessionVars::with(&args, |vars| Arc::clone(&vars.objects));
        let seconds = args.args[0].to_array(args.number_rows)?;
        let seconds = seconds.as_primitive::<Float64Type>();
        for row in seconds.iter().flatten() {
            objects.sleep(row).await;
        }
        let done = (0..seconds.len()).map(|i| seconds.is_valid(i).then_some(""));
        Ok(match args.args[0] {
            ColumnarValue::Scalar(_) if args.number_rows == 1 => {
                ColumnarValue::Scalar(ScalarValue::Utf8(seconds.is_valid(0).then(String::new)))
            }
            _ => ColumnarValue::Array(Arc::new(done.collect::<StringArray>())),
        })
    }
}
