//! `= <> < <= > >=`: DataFusion's own comparisons, over keys for the types whose bytes don't compare as their values do.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Decimal128Builder, LargeBinaryArray, LargeBinaryBuilder, ListArray,
    make_comparator,
};
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Field, Float32Type, Float64Type, IntervalMonthDayNanoType};
use datafusion::logical_expr::expr::BinaryExpr;
use datafusion::logical_expr::{
    ColumnarValue, Expr, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::kernel::Bool;
use super::{Call, Param, Registry, Returns};
use crate::calendar::interval_order_key;
use crate::error::{Result, SqlError};
use crate::numeric::Numeric;
use crate::types::{Scalar, Type};

pub(super) fn register(r: &mut Registry) {
    use Scalar::*;
    let plain = [Bool, Int2, Int4, Int8, Text, Bytea, Date, Time, Timestamp, Timestamptz, Uuid, Oid];
    for scalar in plain {
        register_for(r, Type::new(scalar), Type::new(scalar), PLAIN);
        register_arrays(r, Type::array(scalar), PLAIN);
    }
    // With one of these, `float4 = int4` compares as float8.
    for (left, right) in [(Float4, Float8), (Float8, Float4)] {
        register_for(r, Type::new(left), Type::new(right), KEYED);
    }
    for scalar in [Float4, Float8, Numeric, Interval, Jsonb] {
        register_for(r, Type::new(scalar), Type::new(scalar), KEYED);
        register_arrays(r, Type::array(scalar), KEYED);
    }
}

/// DataFusion knows which arrays are equal; in its order, null comes before other elements.
fn register_arrays(r: &mut Registry, array: Type, equality: [fn(Vec<Expr>) -> Result<Expr>; 6]) {
    let (operands, bool) = ([Param::Is(array); 2], Returns::Is(Type::new(Scalar::Bool)));
    r.native("=", &operands, bool, equality[0]);
    r.native("<>", &operands, bool, equality[1]);
    r.kernel("<", &operands, bool, |call| compare_arrays(call, Ordering::is_lt));
    r.kernel("<=", &operands, bool, |call| compare_arrays(call, Ordering::is_le));
    r.kernel(">", &operands, bool, |call| compare_arrays(call, Ordering::is_gt));
    r.kernel(">=", &operands, bool, |call| compare_arrays(call, Ordering::is_ge));
}

fn compare_arrays(call: &Call, holds: fn(Ordering) -> bool) -> Result<ArrayRef> {
    let (left, right) = (&call.inputs[0], &call.inputs[1]);
    let order = SortOptions { descending: false, nulls_first: false };
    let compare = make_comparator(&key(&left.array)?, &key(&right.array)?, order)
        .map_err(|e| SqlError::internal(e.to_string()))?;
    call.rows::<Bool>(|row| {
        let (i, j) = (left.index(row), right.index(row));
        let known = left.array.is_valid(i) && right.array.is_valid(j);
        Ok(known.then(|| holds(compare(i, j))))
    })
}

const KEYED: [fn(Vec<Expr>) -> Result<Expr>; 6] = [
    |args| keyed(Operator::Eq, args),
    |args| keyed(Operator::NotEq, args),
    |args| keyed(Operator::Lt, args),
    |args| keyed(Operator::LtEq, args),
    |args| keyed(Operator::Gt, args),
    |args| keyed(Operator::GtEq, args),
];

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
    comparison(op, args.into_iter().map(Key::call).collect())
}

/// What to compare, hash and group by instead of a numeric (its bytes without the scale), an interval (its length with
/// months of 30 days, as PostgreSQL compares intervals), a float (there is one zero, and one NaN, which is the largest), a
/// jsonb (its members in order), or an array of those.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Key {
    signature: Signature,
}

impl Key {
    fn new() -> Self {
        Self { signature: Signature::any(1, Volatility::Immutable) }
    }

    pub fn call(value: Expr) -> Expr {
        ScalarUDF::new_from_impl(Key::new()).call(vec![value])
    }

    /// Whether an expression is such a key already.
    pub fn is_call(expr: &Expr) -> bool {
        match expr {
            Expr::Alias(alias) => Key::is_call(&alias.expr),
            Expr::ScalarFunction(function) => function.func.inner().downcast_ref::<Key>().is_some(),
            _ => false,
        }
    }
}

/// The value that a call of [`Key`] makes the key of.
pub fn keyed_value(expr: &Expr) -> Option<&Expr> {
    match expr {
        Expr::ScalarFunction(function) if Key::is_call(expr) => function.args.first(),
        _ => None,
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
        Ok(args.first().map_or(DataType::Null, key_type))
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> datafusion::error::Result<ColumnarValue> {
        super::invoke(&args, &Default::default(), |call| key(&call.inputs[0].array))
    }
}

fn key_type(values: &DataType) -> DataType {
    match values {
        DataType::Interval(_) => DataType::Decimal128(38, 0),
        DataType::LargeUtf8 => DataType::LargeBinary,
        DataType::List(item) => {
            DataType::List(Arc::new(Field::new_list_field(key_type(item.data_type()), true)))
        }
        other => other.clone(),
    }
}

/// The keys of values; of a type whose bytes compare as its values do, these.
pub fn key(array: &ArrayRef) -> Result<ArrayRef> {
    if let Some(floats) = array.as_primitive_opt::<Float64Type>() {
        let plain = |x: f64| if x.is_nan() { f64::NAN } else { x + 0.0 };
        return Ok(Arc::new(floats.unary::<_, Float64Type>(plain)));
    }
    if let Some(floats) = array.as_primitive_opt::<Float32Type>() {
        let plain = |x: f32| if x.is_nan() { f32::NAN } else { x + 0.0 };
        return Ok(Arc::new(floats.unary::<_, Float32Type>(plain)));
    }
    if let Some(numerics) = array.as_any().downcast_ref::<LargeBinaryArray>() {
        let mut out = LargeBinaryBuilder::with_capacity(numerics.len(), numerics.value_data().len());
        numerics.iter().for_each(|value| out.append_option(value.map(Numeric::key)));
        return Ok(Arc::new(out.finish()));
    }
    if let Some(documents) = array.as_string_opt::<i64>() {
        return super::json_order::keys(documents);
    }
    if let Some(lists) = array.as_list_opt::<i32>() {
        let field = Arc::new(Field::new_list_field(key_type(&lists.value_type()), true));
        let keys = key(lists.values())?;
        let lists = ListArray::try_new(field, lists.offsets().clone(), keys, lists.nulls().cloned());
        return Ok(Arc::new(lists.map_err(|e| SqlError::internal(e.to_string()))?));
    }
    let Some(intervals) = array.as_primitive_opt::<IntervalMonthDayNanoType>() else {
        return Ok(Arc::clone(array));
    };
    let mut out = Decimal128Builder::with_capacity(intervals.len())
        .with_precision_and_scale(38, 0)
        .map_err(|e| SqlError::internal(e.to_string()))?;
    intervals.iter().for_each(|value| out.append_option(value.map(interval_order_key)));
    Ok(Arc::new(out.finish()))
}
