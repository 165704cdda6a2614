//! `= <> < <= > >=`: DataFusion's own comparisons, over keys for the types whose bytes don't compare as their values do.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, Decimal128Builder, LargeBinaryArray, LargeBinaryBuilder};
use arrow::datatypes::DataType;
use datafusion::logical_expr::expr::BinaryExpr;
use datafusion::logical_expr::{
    ColumnarValue, Expr, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::{Param, Registry, Returns};
use crate::calendar::interval_order_key;
use crate::error::{Result, SqlError};
use crate::numeric::Numeric;
use crate::types::{Scalar, Type};

pub(super) fn register(r: &mut Registry) {
    use Scalar::*;
    let plain = [
        Bool,
        Int2,
        Int4,
        Int8,
        Float4,
        Float8,
        Text,
        Bytea,
        Date,
        Time,
        Timestamp,
        Timestamptz,
        Uuid,
        Jsonb,
        Oid,
    ];
    for scalar in plain {
        for array in [false, true] {
            let ty = Type { array, ..Type::new(scalar) };
            register_for(r, ty, ty, PLAIN);
        }
    }
    // With one of these, `float4 = int4` compares as float8.
    for (left, right) in [(Float4, Float8), (Float8, Float4)] {
        register_for(r, Type::new(left), Type::new(right), PLAIN);
    }
    for scalar in [Numeric, Interval] {
        register_for(
            r,
            Type::new(scalar),
            Type::new(scalar),
            [
                |args| keyed(Operator::Eq, args),
                |args| keyed(Operator::NotEq, args),
                |args| keyed(Operator::Lt, args),
                |args| keyed(Operator::LtEq, args),
                |args| keyed(Operator::Gt, args),
                |args| keyed(Operator::GtEq, args),
            ],
        );
    }
}

const PLAIN: [fn(Vec<Expr>) -> Result<Expr>; 6] = [
    |args| comparison(Operator::Eq, args),
    |args| comparison(Operator::NotEq, args),
    |args| comparison(Operator::Lt, args),
    |args| comparison(Operator::LtEq, args),
    |args| comparison(Operator::Gt, args),
    |args| comparison(Operator::GtEq, args),
];

fn register_for(r: &mut Registry, left: Type, right: Type, builders: [fn(Vec<Expr>) -> Result<Expr>; 6]) {
    for (name, build) in ["=", "<>", "<", "<=", ">", ">="].into_iter().zip(builders) {
        r.native(name, &[Param::Is(left), Param::Is(right)], Returns::Is(Type::new(Scalar::Bool)), build);
    }
}

fn comparison(op: Operator, args: Vec<Expr>) -> Result<Expr> {
    let [left, right] =
        <[Expr; 2]>::try_from(args).map_err(|_| SqlError::internal("a comparison has two operands"))?;
    Ok(Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right))))
}

fn keyed(op: Operator, args: Vec<Expr>) -> Result<Expr> {
    comparison(op, args.into_iter().map(|arg| ScalarUDF::new_from_impl(Key::new()).call(vec![arg])).collect())
}

/// What to compare, hash and group by instead of a numeric (its bytes without the scale) or an interval (its length with
/// months of 30 days, as PostgreSQL compares intervals).
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Key {
    signature: Signature,
}

impl Key {
    fn new() -> Self {
        Self { signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Key {
    fn name(&self) -> &str {
        "sort_key"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, args: &[DataType]) -> datafusion::error::Result<DataType> {
        Ok(match args {
            [DataType::Interval(_)] => DataType::Decimal128(38, 0),
            _ => DataType::LargeBinary,
        })
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> datafusion::error::Result<ColumnarValue> {
        super::invoke(&args, &Default::default(), |call| key(&call.inputs[0].array))
    }
}

pub(super) fn key(array: &ArrayRef) -> Result<ArrayRef> {
    if let Some(numerics) = array.as_any().downcast_ref::<LargeBinaryArray>() {
        let mut out = LargeBinaryBuilder::with_capacity(numerics.len(), numerics.value_data().len());
        numerics.iter().for_each(|value| out.append_option(value.map(Numeric::key)));
        return Ok(Arc::new(out.finish()));
    }
    let intervals =
        arrow::array::AsArray::as_primitive_opt::<arrow::datatypes::IntervalMonthDayNanoType>(array)
            .ok_or_else(|| SqlError::internal(format!("no key for {}", array.data_type())))?;
    let mut out = Decimal128Builder::with_capacity(intervals.len())
        .with_precision_and_scale(38, 0)
        .map_err(|e| SqlError::internal(e.to_string()))?;
    intervals.iter().for_each(|value| out.append_option(value.map(interval_order_key)));
    Ok(Arc::new(out.finish()))
}
