//! Functions that tell the server to do something with continuous views: `activate`, `deactivate`,
//! `truncate_continuous_view`, `flush`. Each row is carried out once, in order.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, StringArray};
use arrow::datatypes::DataType;
use async_trait::async_trait;
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::async_udf::{AsyncScalarUDF, AsyncScalarUDFImpl};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};

use super::object::identifiers;
use super::{Param, Registry, Returns, external};
use crate::error::Result;
use crate::objects::Command;
use crate::planner::vars::SessionVars;
use crate::types::{Scalar, Type};

const BOOL: Type = Type::new(Scalar::Bool);
/// The result is `void`, whose text is empty.
const VOID: Type = Type::new(Scalar::Text);

pub(super) fn register(r: &mut Registry) {
    let text = Param::Is(Type::new(Scalar::Text));
    r.native("activate", &[], Returns::Is(BOOL), |args| Ok(call(Act::Activate, args)));
    r.native("activate", &[text], Returns::Is(BOOL), |args| Ok(call(Act::Activate, args)));
    r.native("deactivate", &[], Returns::Is(BOOL), |args| Ok(call(Act::Deactivate, args)));
    r.native("deactivate", &[text], Returns::Is(BOOL), |args| Ok(call(Act::Deactivate, args)));
    r.native("truncate_continuous_view", &[text], Returns::Is(VOID), |args| Ok(call(Act::Truncate, args)));
    r.native("flush", &[], Returns::Is(BOOL), |args| Ok(call(Act::Flush, args)));
    r.native("pipeline_flush", &[], Returns::Is(BOOL), |args| Ok(call(Act::Flush, args)));
}

fn call(act: Act, args: Vec<Expr>) -> Expr {
    let kinds = vec![TypeSignature::Nullary, TypeSignature::Any(1)];
    let signature = Signature::one_of(kinds, Volatility::Volatile);
    AsyncScalarUDF::new(Arc::new(Commanding { act, signature })).into_scalar_udf().call(args)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Act {
    Activate,
    Deactivate,
    Truncate,
    Flush,
}

impl Act {
    fn name(self) -> &'static str {
        match self {
            Act::Activate => "activate",
            Act::Deactivate => "deactivate",
            Act::Truncate => "truncate_continuous_view",
            Act::Flush => "flush",
        }
    }

    fn command(self, view: Option<&str>) -> Result<Command> {
        let view = view.map(identifiers).transpose()?;
        Ok(match self {
            Act::Activate => Command::Activate(view),
            Act::Deactivate => Command::Deactivate(view),
            Act::Truncate => Command::Truncate(view.unwrap_or_default()),
            Act::Flush => Command::Flush,
        })
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Commanding {
    act: Act,
    signature: Signature,
}

impl ScalarUDFImpl for Commanding {
    fn name(&self) -> &str {
        self.act.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> DfResult<Vec<DataType>> {
        Ok(types.to_vec())
    }

    fn return_type(&self, _: &[DataType]) -> DfResult<DataType> {
        Ok(if self.act == Act::Truncate { VOID.arrow() } else { BOOL.arrow() })
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        datafusion::common::not_impl_err!("{} can only be called in a query", self.act.name())
    }
}

#[async_trait]
impl AsyncScalarUDFImpl for Commanding {
    async fn invoke_async_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let objects = SessionVars::with(&args, |vars| Arc::clone(&vars.objects));
        let views = args.args.first().map(|arg| arg.to_array(args.number_rows)).transpose()?;
        let mut done = Vec::with_capacity(args.number_rows);
        for row in 0..args.number_rows {
            let view =
                views.as_ref().map(|v| v.as_string::<i32>()).map(|v| v.is_valid(row).then(|| v.value(row)));
            // Strict: null for null.
            let asked = view != Some(None);
            if asked {
                let command = self.act.command(view.flatten()).map_err(external)?;
                objects.command(command).await.map_err(external)?;
            }
            done.push(asked);
        }
        let array: ArrayRef = match self.act {
            Act::Truncate => Arc::new(done.iter().map(|done| done.then_some("")).collect::<StringArray>()),
            _ => Arc::new(done.iter().map(|done| done.then_some(true)).collect::<BooleanArray>()),
        };
        Ok(ColumnarValue::Array(array))
    }
}
