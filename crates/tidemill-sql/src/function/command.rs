//! Functions that tell the server to do something with continuous views: `activate`, `deactivate`,
//! `truncate_continuous_view`, `set_ttl`, `ttl_expire`, `flush`. Each row is carried out once, in order.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int32Array, StringArray};
use arrow::datatypes::DataType;
use async_trait::async_trait;
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::async_udf::{AsyncScalarUDF, AsyncScalarUDFImpl};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDFImpl, Signature, TypeSignature, Volatility,
};

use super::object::identifiers;
use super::{Param, Registry, Returns, external};
use crate::error::{Result, SqlError};
use crate::objects::Command;
use crate::planner::coerce;
use crate::planner::vars::SessionVars;
use crate::types::{Scalar, Type};

const BOOL: Type = Type::new(Scalar::Bool);
const INT: Type = Type::new(Scalar::Int4);
/// The result is `void`, whose text is empty.
const VOID: Type = Type::new(Scalar::Text);

pub(super) fn register(r: &mut Registry) {
    let text = Param::Is(Type::new(Scalar::Text));
    r.native("activate", &[], Returns::Is(BOOL), |args| Ok(call(Act::Activate, args)));
    r.native("activate", &[text], Returns::Is(BOOL), |args| Ok(call(Act::Activate, args)));
    r.native("deactivate", &[], Returns::Is(BOOL), |args| Ok(call(Act::Deactivate, args)));
    r.native("deactivate", &[text], Returns::Is(BOOL), |args| Ok(call(Act::Deactivate, args)));
    r.native("truncate_continuous_view", &[text], Returns::Is(VOID), |args| Ok(call(Act::Truncate, args)));
    let interval = Param::Is(Type::new(Scalar::Interval));
    r.native("set_ttl", &[text, interval, text], Returns::Is(VOID), |args| {
        let [view, ttl, column] =
            <[Expr; 3]>::try_from(args).map_err(|_| SqlError::internal("set_ttl has three arguments"))?;
        let text =
            |ttl| coerce::cast_expr(ttl, Some(Type::new(Scalar::Interval)), VOID, coerce::Context::Explicit);
        Ok(call(Act::SetTtl, vec![view, text(ttl)?, column]))
    });
    r.native("ttl_expire", &[text], Returns::Is(INT), |args| Ok(call(Act::Expire, args)));
    r.native("flush", &[], Returns::Is(BOOL), |args| Ok(call(Act::Flush, args)));
    r.native("pipeline_flush", &[], Returns::Is(BOOL), |args| Ok(call(Act::Flush, args)));
}

fn call(act: Act, args: Vec<Expr>) -> Expr {
    let kinds = vec![TypeSignature::Nullary, TypeSignature::Any(1), TypeSignature::Any(3)];
    let signature = Signature::one_of(kinds, Volatility::Volatile);
    AsyncScalarUDF::new(Arc::new(Commanding { act, signature })).into_scalar_udf().call(args)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Act {
    Activate,
    Deactivate,
    Truncate,
    SetTtl,
    Expire,
    Flush,
}

impl Act {
    fn name(self) -> &'static str {
        match self {
            Act::Activate => "activate",
            Act::Deactivate => "deactivate",
            Act::Truncate => "truncate_continuous_view",
            Act::SetTtl => "set_ttl",
            Act::Expire => "ttl_expire",
            Act::Flush => "flush",
        }
    }

    /// `rest`: the arguments behind the name of the view.
    fn command(self, view: Option<&str>, rest: [Option<&str>; 2]) -> Result<Command> {
        let view = view.map(identifiers).transpose()?;
        let [ttl, column] = rest.map(|argument| argument.map(str::to_string));
        Ok(match self {
            Act::Activate => Command::Activate(view),
            Act::Deactivate => Command::Deactivate(view),
            Act::Truncate => Command::Truncate(view.unwrap_or_default()),
            Act::SetTtl => Command::SetTtl { view: view.unwrap_or_default(), ttl, column },
            Act::Expire => Command::Expire(view.unwrap_or_default()),
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
        Ok(match self.act {
            Act::Truncate | Act::SetTtl => VOID.arrow(),
            Act::Expire => INT.arrow(),
            Act::Activate | Act::Deactivate | Act::Flush => BOOL.arrow(),
        })
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        datafusion::common::not_impl_err!("{} can only be called in a query", self.act.name())
    }
}

#[async_trait]
impl AsyncScalarUDFImpl for Commanding {
    async fn invoke_async_with_args(&self, args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        let objects = SessionVars::with(&args, |vars| Arc::clone(&vars.objects));
        let arrays =
            args.args.iter().map(|arg| arg.to_array(args.number_rows)).collect::<DfResult<Vec<_>>>()?;
        let mut done = Vec::with_capacity(args.number_rows);
        for row in 0..args.number_rows {
            let argument = |i: usize| {
                let texts = arrays.get(i)?.as_string_opt::<i32>()?;
                Some(texts.is_valid(row).then(|| texts.value(row)))
            };
            let view = argument(0);
            // Strict: null for null.
            if view == Some(None) {
                done.push(None);
                continue;
            }
            let rest = [argument(1).flatten(), argument(2).flatten()];
            let command = self.act.command(view.flatten(), rest).map_err(external)?;
            done.push(Some(objects.command(command).await.map_err(external)?));
        }
        let done = done.into_iter();
        let array: ArrayRef = match self.act {
            Act::Truncate | Act::SetTtl => {
                Arc::new(done.map(|done| done.map(|_| "")).collect::<StringArray>())
            }
            Act::Expire => {
                let count = |count| i32::try_from(count).unwrap_or(i32::MAX);
                Arc::new(done.map(|done| done.map(count)).collect::<Int32Array>())
            }
            Act::Activate | Act::Deactivate | Act::Flush => {
                Arc::new(done.map(|done| done.map(|_| true)).collect::<BooleanArray>())
            }
        };
        Ok(ColumnarValue::Array(array))
    }
}
