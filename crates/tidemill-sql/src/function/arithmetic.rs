//! `+ - * / % ^` and the bit operators over numbers.
//!
//! Integers and floats run column by column; a batch in which nothing overflows never looks at a row twice.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, PrimitiveArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{Float32Type, Float64Type, Int16Type, Int32Type, Int64Type};

use super::kernel::{Float4, Float8, Int2, Int4, Int8, Numeric};
use super::{Body, Call, Overload, Param, Registry, Returns};
use crate::error::{Result, SqlError, SqlState};
use crate::types::{Scalar, Type};
use datafusion::logical_expr::Volatility;

pub(super) fn register(r: &mut Registry) {
    integers::<Int16Type>(r, Scalar::Int2);
    integers::<Int32Type>(r, Scalar::Int4);
    integers::<Int64Type>(r, Scalar::Int8);
    float8(r);
    float4(r);
    numerics(r);
    shifts(r);
}

/// The checked operations of an integer type.
trait Integer: ArrowPrimitiveType {
    const NAME: &'static str;
    fn add(a: Self::Native, b: Self::Native) -> Option<Self::Native>;
    fn sub(a: Self::Native, b: Self::Native) -> Option<Self::Native>;
    fn mul(a: Self::Native, b: Self::Native) -> Option<Self::Native>;
    fn div(a: Self::Native, b: Self::Native) -> Option<Self::Native>;
    fn rem(a: Self::Native, b: Self::Native) -> Self::Native;
    fn abs(a: Self::Native) -> Option<Self::Native>;
    fn neg(a: Self::Native) -> Option<Self::Native>;
    fn not(a: Self::Native) -> Self::Native;
    fn and(a: Self::Native, b: Self::Native) -> Self::Native;
    fn or(a: Self::Native, b: Self::Native) -> Self::Native;
    fn xor(a: Self::Native, b: Self::Native) -> Self::Native;
    fn is_zero(a: Self::Native) -> bool;
}

macro_rules! integer {
    ($($arrow:ty, $name:literal);*) => {$(
        impl Integer for $arrow {
            const NAME: &'static str = $name;
            fn add(a: Self::Native, b: Self::Native) -> Option<Self::Native> { a.checked_add(b) }
            fn sub(a: Self::Native, b: Self::Native) -> Option<Self::Native> { a.checked_sub(b) }
            fn mul(a: Self::Native, b: Self::Native) -> Option<Self::Native> { a.checked_mul(b) }
            fn div(a: Self::Native, b: Self::Native) -> Option<Self::Native> { a.checked_div(b) }
            fn rem(a: Self::Native, b: Self::Native) -> Self::Native { a.wrapping_rem(b) }
            fn abs(a: Self::Native) -> Option<Self::Native> { a.checked_abs() }
            fn neg(a: Self::Native) -> Option<Self::Native> { a.checked_neg() }
            fn not(a: Self::Native) -> Self::Native { !a }
            fn and(a: Self::Native, b: Self::Native) -> Self::Native { a & b }
            fn or(a: Self::Native, b: Self::Native) -> Self::Native { a | b }
            fn xor(a: Self::Native, b: Self::Native) -> Self::Native { a ^ b }
            fn is_zero(a: Self::Native) -> bool { a == 0 }
        }
    )*};
}

integer!(Int16Type, "smallint"; Int32Type, "integer"; Int64Type, "bigint");

fn integers<T: Integer>(r: &mut Registry, scalar: Scalar) {
    type Op<T> = fn(
        <T as ArrowPrimitiveType>::Native,
        <T as ArrowPrimitiveType>::Native,
    ) -> Result<<T as ArrowPrimitiveType>::Native>;
    fn range<T: Integer>(value: Option<T::Native>) -> Result<T::Native> {
        value.ok_or_else(|| SqlError::out_of_range(T::NAME))
    }
    fn nonzero<T: Integer>(b: T::Native) -> Result<()> {
        if T::is_zero(b) { Err(SqlError::division_by_zero()) } else { Ok(()) }
    }
    let binary: [(&'static str, Op<T>); 9] = [
        ("+", |a, b| range::<T>(T::add(a, b))),
        ("-", |a, b| range::<T>(T::sub(a, b))),
        ("*", |a, b| range::<T>(T::mul(a, b))),
        ("/", |a, b| nonzero::<T>(b).and_then(|()| range::<T>(T::div(a, b)))),
        ("%", |a, b| nonzero::<T>(b).map(|()| T::rem(a, b))),
        ("mod", |a, b| nonzero::<T>(b).map(|()| T::rem(a, b))),
        ("&", |a, b| Ok(T::and(a, b))),
        ("|", |a, b| Ok(T::or(a, b))),
        ("#", |a, b| Ok(T::xor(a, b))),
    ];
    for (name, op) in binary {
        add(r, name, scalar, 2, move |call| zip::<T>(call, op));
    }
    let unary: [(&'static str, fn(T::Native) -> Result<T::Native>); 5] = [
        ("-", |a| range::<T>(T::neg(a))),
        ("+", |a| Ok(a)),
        ("~", |a| Ok(T::not(a))),
        ("@", |a| range::<T>(T::abs(a))),
        ("abs", |a| range::<T>(T::abs(a))),
    ];
    for (name, op) in unary {
        add(r, name, scalar, 1, move |call| map::<T>(call, op));
    }
}

fn add(
    r: &mut Registry,
    name: &'static str,
    scalar: Scalar,
    operands: usize,
    kernel: impl Fn(&Call) -> Result<ArrayRef> + Send + Sync + 'static,
) {
    r.add(Overload {
        name,
        params: vec![Param::Is(Type::new(scalar)); operands],
        variadic: false,
        returns: Returns::Is(Type::new(scalar)),
        volatility: Volatility::Immutable,
        set: false,
        body: Body::Closure(Box::new(kernel)),
    });
}

fn primitive<T: ArrowPrimitiveType>(call: &Call, i: usize) -> Result<PrimitiveArray<T>> {
    let array = call.inputs[i].array.as_any().downcast_ref::<PrimitiveArray<T>>();
    array.cloned().ok_or_else(|| SqlError::internal(format!("argument {i} is not {}", T::DATA_TYPE)))
}

fn map<T: ArrowPrimitiveType>(call: &Call, op: impl Fn(T::Native) -> Result<T::Native>) -> Result<ArrayRef> {
    Ok(Arc::new(primitive::<T>(call, 0)?.try_unary::<_, T, SqlError>(op)?))
}

/// An operation over two columns, one of which may be a constant.
fn zip<T: ArrowPrimitiveType>(
    call: &Call,
    op: impl Fn(T::Native, T::Native) -> Result<T::Native>,
) -> Result<ArrayRef> {
    let (a, b) = (primitive::<T>(call, 0)?, primitive::<T>(call, 1)?);
    let nulls = || Arc::new(PrimitiveArray::<T>::new_null(call.rows));
    let result = match (call.inputs[0].constant, call.inputs[1].constant) {
        (true, true) if a.is_null(0) || b.is_null(0) => return Ok(nulls()),
        (true, true) => PrimitiveArray::<T>::from_value(op(a.value(0), b.value(0))?, call.rows),
        (true, false) if a.is_null(0) => return Ok(nulls()),
        (true, false) => {
            let constant = a.value(0);
            b.try_unary::<_, T, SqlError>(|b| op(constant, b))?
        }
        (false, true) if b.is_null(0) => return Ok(nulls()),
        (false, true) => {
            let constant = b.value(0);
            a.try_unary::<_, T, SqlError>(|a| op(a, constant))?
        }
        (false, false) => zip_columns(&a, &b, op)?,
    };
    Ok(Arc::new(result))
}

fn zip_columns<T: ArrowPrimitiveType>(
    a: &PrimitiveArray<T>,
    b: &PrimitiveArray<T>,
    op: impl Fn(T::Native, T::Native) -> Result<T::Native>,
) -> Result<PrimitiveArray<T>> {
    let nulls = NullBuffer::union(a.nulls(), b.nulls());
    let pairs = a.values().iter().zip(b.values().iter());
    let values = match &nulls {
        None => pairs.map(|(a, b)| op(*a, *b)).collect::<Result<Vec<_>>>()?,
        // What is below a null is any value and must not fail.
        Some(nulls) => pairs
            .enumerate()
            .map(|(i, (a, b))| if nulls.is_valid(i) { op(*a, *b) } else { Ok(T::default_value()) })
            .collect::<Result<Vec<_>>>()?,
    };
    Ok(PrimitiveArray::new(values.into(), nulls))
}

/// PostgreSQL's checks of a float result: infinite only if an operand is, zero only if the operation allows it.
fn checked64(result: f64, operands_infinite: bool, zero_allowed: bool) -> Result<f64> {
    if result.is_infinite() && !operands_infinite {
        return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range: overflow"));
    }
    if result == 0.0 && !zero_allowed {
        return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value out of range: underflow"));
    }
    Ok(result)
}

fn float_op(name: &str, a: f64, b: f64, round: fn(f64) -> f64) -> Result<f64> {
    let infinite = a.is_infinite() || b.is_infinite();
    match name {
        "+" => checked64(round(a + b), infinite, true),
        "-" => checked64(round(a - b), infinite, true),
        "*" => checked64(round(a * b), infinite, a == 0.0 || b == 0.0),
        _ if b == 0.0 && !a.is_nan() => Err(SqlError::division_by_zero()),
        _ => checked64(round(a / b), infinite, a == 0.0 || b.is_infinite()),
    }
}

fn float8(r: &mut Registry) {
    add(r, "+", Scalar::Float8, 2, |call| zip::<Float64Type>(call, |a, b| float_op("+", a, b, |x| x)));
    add(r, "-", Scalar::Float8, 2, |call| zip::<Float64Type>(call, |a, b| float_op("-", a, b, |x| x)));
    add(r, "*", Scalar::Float8, 2, |call| zip::<Float64Type>(call, |a, b| float_op("*", a, b, |x| x)));
    add(r, "/", Scalar::Float8, 2, |call| zip::<Float64Type>(call, |a, b| float_op("/", a, b, |x| x)));
    for name in ["@", "abs"] {
        add(r, name, Scalar::Float8, 1, |call| map::<Float64Type>(call, |a| Ok(a.abs())));
    }
    add(r, "-", Scalar::Float8, 1, |call| map::<Float64Type>(call, |a| Ok(-a)));
    add(r, "+", Scalar::Float8, 1, |call| map::<Float64Type>(call, Ok));
    r.strict2::<Float8, Float8, Float8>("^", |_, a, b| super::math::power(a, b));
}

fn float4(r: &mut Registry) {
    fn op(name: &'static str) -> impl Fn(f32, f32) -> Result<f32> {
        // Exact in double precision, then rounded once: the same as single precision arithmetic.
        move |a, b| float_op(name, f64::from(a), f64::from(b), |x| f64::from(x as f32)).map(|x| x as f32)
    }
    for name in ["+", "-", "*", "/"] {
        add(r, name, Scalar::Float4, 2, move |call| zip::<Float32Type>(call, op(name)));
    }
    for name in ["@", "abs"] {
        add(r, name, Scalar::Float4, 1, |call| map::<Float32Type>(call, |a| Ok(a.abs())));
    }
    for name in ["+", "-", "*", "/"] {
        r.strict2::<Float4, Float8, Float8>(name, move |_, a, b| float_op(name, f64::from(a), b, |x| x));
        r.strict2::<Float8, Float4, Float8>(name, move |_, a, b| float_op(name, a, f64::from(b), |x| x));
    }
    add(r, "-", Scalar::Float4, 1, |call| map::<Float32Type>(call, |a| Ok(-a)));
    add(r, "+", Scalar::Float4, 1, |call| map::<Float32Type>(call, Ok));
}

fn numerics(r: &mut Registry) {
    r.strict2::<Numeric, Numeric, Numeric>("+", |_, a, b| a.add(&b));
    r.strict2::<Numeric, Numeric, Numeric>("-", |_, a, b| a.sub(&b));
    r.strict2::<Numeric, Numeric, Numeric>("*", |_, a, b| a.mul(&b));
    r.strict2::<Numeric, Numeric, Numeric>("/", |_, a, b| a.div(&b));
    r.strict2::<Numeric, Numeric, Numeric>("%", |_, a, b| a.rem(&b));
    r.strict2::<Numeric, Numeric, Numeric>("mod", |_, a, b| a.rem(&b));
    r.strict2::<Numeric, Numeric, Numeric>("^", |_, a, b| a.power(&b));
    r.strict1::<Numeric, Numeric>("-", |_, a| Ok(a.neg()));
    r.strict1::<Numeric, Numeric>("+", |_, a| Ok(a));
    r.strict1::<Numeric, Numeric>("@", |_, a| Ok(a.abs()));
    r.strict1::<Numeric, Numeric>("abs", |_, a| Ok(a.abs()));
}

/// The shift count is taken modulo the width, as the machine that PostgreSQL runs on does.
fn shifts(r: &mut Registry) {
    r.strict2::<Int2, Int4, Int2>("<<", |_, a, n| Ok(i32::from(a).wrapping_shl(n as u32) as i16));
    r.strict2::<Int2, Int4, Int2>(">>", |_, a, n| Ok(i32::from(a).wrapping_shr(n as u32) as i16));
    r.strict2::<Int4, Int4, Int4>("<<", |_, a, n| Ok(a.wrapping_shl(n as u32)));
    r.strict2::<Int4, Int4, Int4>(">>", |_, a, n| Ok(a.wrapping_shr(n as u32)));
    r.strict2::<Int8, Int4, Int8>("<<", |_, a, n| Ok(a.wrapping_shl(n as u32)));
    r.strict2::<Int8, Int4, Int8>(">>", |_, a, n| Ok(a.wrapping_shr(n as u32)));
}
