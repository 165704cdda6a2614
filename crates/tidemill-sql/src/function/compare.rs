//! `= <> < <= > >=`: DataFusion's own comparisons, over keys for the types whose bytes don't compare as their values do.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Decimal128Builder, LargeBinaryArray, LargeBinaryBuilder, ListArray,
    make_comparator,
};
use arrow::compute::SortOptions;
use arrow::datatypes::{
    DataType, Field, Float32Type, Float64Type, IntervalMonthDayNano, IntervalMonthDayNanoType,
};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::expr::BinaryExpr;
use datafusion::logical_expr::{
    ColumnarValue, Expr, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::kernel::Bool;
use super::{Call, Param, Registry, Returns, cast};
use crate::calendar::{DAY_US, interval_order_key};
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
    register_for(r, Type::new(Bpchar), Type::new(Bpchar), TRIMMED);
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

/// Blanks at the end of a `character` do not count.
const TRIMMED: [fn(Vec<Expr>) -> Result<Expr>; 6] = [
    |args| trimmed(Operator::Eq, args),
    |args| trimmed(Operator::NotEq, args),
    |args| trimmed(Operator::Lt, args),
    |args| trimmed(Operator::LtEq, args),
    |args| trimmed(Operator::Gt, args),
    |args| trimmed(Operator::GtEq, args),
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

fn trimmed(op: Operator, args: Vec<Expr>) -> Result<Expr> {
    let (from, to) = (Type::new(Scalar::Bpchar), Type::new(Scalar::Text));
    let args = args.into_iter().map(|arg| cast::expr(arg, from, to, false)).collect::<Result<_>>()?;
    comparison(op, args)
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
        key_function().call(vec![value])
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

/// What makes the key of a value, whatever its type.
pub fn key_function() -> ScalarUDF {
    ScalarUDF::new_from_impl(Key::new())
}

/// A value of a type that has this key; `None` if none is known.
pub fn value_of_key(key: &ScalarValue, ty: Type) -> Option<ScalarValue> {
    if key.is_null() {
        return ScalarValue::try_from(&ty.arrow()).ok();
    }
    match (ty.scalar, key) {
        _ if ty.array => None,
        (Scalar::Numeric, ScalarValue::LargeBinary(Some(key))) => {
            Numeric::from_key(key).ok().map(|value| ScalarValue::LargeBinary(Some(value.to_bytes())))
        }
        (Scalar::Interval, ScalarValue::Decimal128(Some(us), ..)) => {
            let (days, us) = (us / i128::from(DAY_US), us % i128::from(DAY_US));
            let nanoseconds = i64::try_from(us * 1_000).ok()?;
            let value = IntervalMonthDayNano::new(0, i32::try_from(days).ok()?, nanoseconds);
            Some(ScalarValue::IntervalMonthDayNano(Some(value)))
        }
        (_, key) => (key.data_type() == ty.arrow() && !is_json(ty)).then(|| key.clone()),
    }
}

fn is_json(ty: Type) -> bool {
    matches!(ty.scalar, Scalar::Json | Scalar::Jsonb)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_tells_a_value() {
        let numeric = |text: &str| ScalarValue::LargeBinary(Some(Numeric::parse(text).unwrap().to_bytes()));
        let interval = |months, days, us: i64| Some(IntervalMonthDayNano::new(months, days, us * 1_000));
        let check = |scalar, value: ScalarValue, wanted: ScalarValue| {
            let key = ScalarValue::try_from_array(&key(&value.to_array().unwrap()).unwrap(), 0).unwrap();
            assert_eq!(value_of_key(&key, Type::new(scalar)), Some(wanted));
        };
        for (text, plain) in [
            ("1.500", "1.5"),
            ("0.00", "0"),
            ("-1234567890123456789012345678901234567890.120", "-1234567890123456789012345678901234567890.12"),
            ("100", "100"),
            ("1e40", "1e40"),
            ("1e-40", "1e-40"),
            ("NaN", "NaN"),
            ("-Infinity", "-Infinity"),
        ] {
            check(Scalar::Numeric, numeric(text), numeric(plain));
        }
        let of = ScalarValue::IntervalMonthDayNano;
        check(Scalar::Interval, of(interval(1, -1, 5)), of(interval(0, 29, 5)));
        check(Scalar::Interval, of(interval(0, 0, -90_000_000_000)), of(interval(0, -1, -3_600_000_000)));
        check(Scalar::Float8, ScalarValue::Float64(Some(-0.0)), ScalarValue::Float64(Some(0.0)));
        check(Scalar::Interval, of(None), of(None));
    }
}
