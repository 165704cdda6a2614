//! Mathematical functions.

use datafusion::logical_expr::Volatility;

use super::Registry;
use super::kernel::{Float8, Int4, Int8, Numeric};
use crate::error::{Result, SqlError, SqlState};
use crate::numeric::Numeric as Number;

pub(super) fn register(r: &mut Registry) {
    rounding(r);
    powers(r);
    trigonometry(r);
    integers(r);
    r.strict4::<Float8, Float8, Float8, Int4, Int4>("width_bucket", |_, x, low, high, n| {
        bucket(x, low, high, n)
    });
    r.strict4::<Numeric, Numeric, Numeric, Int4, Int4>("width_bucket", |_, x, low, high, n| {
        numeric_bucket(&x, &low, &high, n)
    });
    r.nullary::<Float8>("random", Volatility::Volatile, |_| Ok(random()));
    r.nullary::<Float8>("pi", Volatility::Immutable, |_| Ok(std::f64::consts::PI));
}

fn range(what: &str) -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("value out of range: {what}"))
}

fn not_infinite(result: f64, argument: f64) -> Result<f64> {
    if result.is_infinite() && !argument.is_infinite() { Err(range("overflow")) } else { Ok(result) }
}

fn rounding(r: &mut Registry) {
    for name in ["ceil", "ceiling"] {
        r.strict1::<Float8, Float8>(name, |_, x| Ok(x.ceil()));
        r.strict1::<Numeric, Numeric>(name, |_, x| x.ceil());
    }
    r.strict1::<Float8, Float8>("floor", |_, x| Ok(x.floor()));
    r.strict1::<Numeric, Numeric>("floor", |_, x| x.floor());
    r.strict1::<Float8, Float8>("round", |_, x| Ok(x.round_ties_even()));
    r.strict1::<Numeric, Numeric>("round", |_, x| x.round(0));
    r.strict2::<Numeric, Int4, Numeric>("round", |_, x, scale| x.round(scale));
    r.strict1::<Float8, Float8>("trunc", |_, x| Ok(x.trunc()));
    r.strict1::<Numeric, Numeric>("trunc", |_, x| x.trunc(0));
    r.strict2::<Numeric, Int4, Numeric>("trunc", |_, x, scale| x.trunc(scale));
    r.strict1::<Float8, Float8>("sign", |_, x| {
        Ok(if x > 0.0 {
            1.0
        } else if x < 0.0 {
            -1.0
        } else {
            x
        })
    });
    r.strict1::<Numeric, Numeric>("sign", |_, x| Ok(x.sign()));
    r.maybe1::<Numeric, Int4>("scale", |_, x| Ok(x.scale()));
    r.maybe1::<Numeric, Int4>("min_scale", |_, x| Ok(x.min_scale()));
    r.strict1::<Numeric, Numeric>("trim_scale", |_, x| Ok(x.trim_scale()));
}

fn powers(r: &mut Registry) {
    for name in ["sqrt", "|/"] {
        r.strict1::<Float8, Float8>(name, |_, x| {
            if x < 0.0 {
                Err(bad_power("cannot take square root of a negative number"))
            } else {
                Ok(x.sqrt())
            }
        });
    }
    r.strict1::<Numeric, Numeric>("sqrt", |_, x| x.sqrt());
    for name in ["cbrt", "||/"] {
        r.strict1::<Float8, Float8>(name, |_, x| Ok(x.cbrt()));
    }
    r.strict1::<Float8, Float8>("exp", |_, x| {
        let y = not_infinite(x.exp(), x)?;
        if y == 0.0 && x.is_finite() { Err(range("underflow")) } else { Ok(y) }
    });
    r.strict1::<Numeric, Numeric>("exp", |_, x| x.exp());
    r.strict1::<Float8, Float8>("ln", |_, x| positive(x).map(f64::ln));
    r.strict1::<Numeric, Numeric>("ln", |_, x| x.ln());
    for name in ["log", "log10"] {
        r.strict1::<Float8, Float8>(name, |_, x| positive(x).map(f64::log10));
        r.strict1::<Numeric, Numeric>(name, |_, x| x.log10());
    }
    r.strict2::<Numeric, Numeric, Numeric>("log", |_, base, x| Number::log(&base, &x));
    for name in ["power", "pow"] {
        r.strict2::<Float8, Float8, Float8>(name, |_, x, y| power(x, y));
        r.strict2::<Numeric, Numeric, Numeric>(name, |_, x, y| x.power(&y));
    }
    r.strict2::<Numeric, Numeric, Numeric>("div", |_, a, b| a.div_trunc(&b));
}

fn positive(x: f64) -> Result<f64> {
    let bad = |message: &str| Err(SqlError::new(SqlState::INVALID_ARGUMENT_FOR_LOG, message));
    if x == 0.0 {
        return bad("cannot take logarithm of zero");
    }
    if x < 0.0 { bad("cannot take logarithm of a negative number") } else { Ok(x) }
}

fn bad_power(message: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_ARGUMENT_FOR_POWER, message)
}

/// `dpow` of PostgreSQL.
pub(super) fn power(x: f64, y: f64) -> Result<f64> {
    if x == 0.0 && y < 0.0 {
        return Err(bad_power("zero raised to a negative power is undefined"));
    }
    if x < 0.0 && x.is_finite() && y.is_finite() && y.floor() != y {
        return Err(bad_power("a negative number raised to a non-integer power yields a complex result"));
    }
    let result = x.powf(y);
    if x.is_finite() && y.is_finite() {
        if result.is_infinite() {
            return Err(range("overflow"));
        }
        if result == 0.0 && x != 0.0 {
            return Err(range("underflow"));
        }
    }
    Ok(result)
}

fn trigonometry(r: &mut Registry) {
    let total: [(&'static str, fn(f64) -> f64); 7] = [
        ("degrees", f64::to_degrees),
        ("radians", f64::to_radians),
        ("atan", f64::atan),
        ("sinh", f64::sinh),
        ("cosh", f64::cosh),
        ("tanh", f64::tanh),
        ("asinh", f64::asinh),
    ];
    for (name, f) in total {
        r.strict1::<Float8, Float8>(name, move |_, x| Ok(f(x)));
    }
    let periodic: [(&'static str, fn(f64) -> f64); 4] =
        [("sin", f64::sin), ("cos", f64::cos), ("tan", f64::tan), ("cot", |x| 1.0 / x.tan())];
    for (name, f) in periodic {
        r.strict1::<Float8, Float8>(
            name,
            move |_, x| {
                if x.is_infinite() { Err(range_input()) } else { Ok(f(x)) }
            },
        );
    }
    let bounded: [(&'static str, fn(f64) -> f64, f64, f64); 4] = [
        ("asin", f64::asin, -1.0, 1.0),
        ("acos", f64::acos, -1.0, 1.0),
        ("acosh", f64::acosh, 1.0, f64::INFINITY),
        ("atanh", f64::atanh, -1.0, 1.0),
    ];
    for (name, f, low, high) in bounded {
        r.strict1::<Float8, Float8>(
            name,
            move |_, x| {
                if x < low || x > high { Err(range_input()) } else { Ok(f(x)) }
            },
        );
    }
    r.strict2::<Float8, Float8, Float8>("atan2", |_, y, x| Ok(y.atan2(x)));
}

fn range_input() -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "input is out of range")
}

fn integers(r: &mut Registry) {
    r.strict2::<Int4, Int4, Int4>("gcd", |_, a, b| narrow(gcd(a.into(), b.into())));
    r.strict2::<Int8, Int8, Int8>("gcd", |_, a, b| wide(gcd(a.into(), b.into())));
    r.strict2::<Numeric, Numeric, Numeric>("gcd", |_, a, b| a.gcd(&b));
    r.strict2::<Int4, Int4, Int4>("lcm", |_, a, b| narrow(lcm(a.into(), b.into())));
    r.strict2::<Int8, Int8, Int8>("lcm", |_, a, b| wide(lcm(a.into(), b.into())));
    r.strict2::<Numeric, Numeric, Numeric>("lcm", |_, a, b| a.lcm(&b));
    r.strict1::<Int8, Numeric>("factorial", |_, n| Number::factorial(n));
}

fn gcd(a: i128, b: i128) -> i128 {
    let (mut a, mut b) = (a.abs(), b.abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

fn lcm(a: i128, b: i128) -> i128 {
    if a == 0 || b == 0 { 0 } else { (a / gcd(a, b) * b).abs() }
}

fn narrow(value: i128) -> Result<i32> {
    value.try_into().map_err(|_| SqlError::out_of_range("integer"))
}

fn wide(value: i128) -> Result<i64> {
    value.try_into().map_err(|_| SqlError::out_of_range("bigint"))
}

fn bucket_error(message: &str) -> SqlError {
    SqlError::new(SqlState("2201G"), message)
}

fn bucket(x: f64, low: f64, high: f64, count: i32) -> Result<i32> {
    if count <= 0 {
        return Err(bucket_error("count must be greater than zero"));
    }
    if x.is_nan() || low.is_nan() || high.is_nan() {
        return Err(bucket_error("operand, lower bound, and upper bound cannot be NaN"));
    }
    if !low.is_finite() || !high.is_finite() {
        return Err(bucket_error("lower and upper bounds must be finite"));
    }
    if low == high {
        return Err(bucket_error("lower bound cannot equal upper bound"));
    }
    let past = count.checked_add(1).ok_or_else(|| SqlError::out_of_range("integer"));
    let (below, above) = if low < high { (x < low, x >= high) } else { (x > low, x <= high) };
    match (below, above) {
        (true, _) => Ok(0),
        (_, true) => past,
        // Halves keep a span beyond the range of a float in it.
        _ => {
            let part = (x / 2.0 - low / 2.0) / (high / 2.0 - low / 2.0);
            Ok(((part * f64::from(count)) as i32 + 1).min(count))
        }
    }
}

fn numeric_bucket(x: &Number, low: &Number, high: &Number, count: i32) -> Result<i32> {
    if count <= 0 {
        return Err(bucket_error("count must be greater than zero"));
    }
    if x.is_nan() || low.is_nan() || high.is_nan() {
        return Err(bucket_error("operand, lower bound, and upper bound cannot be NaN"));
    }
    if low.is_infinite() || high.is_infinite() {
        return Err(bucket_error("lower and upper bounds must be finite"));
    }
    if low == high {
        return Err(bucket_error("lower bound cannot equal upper bound"));
    }
    let ascending = low < high;
    let (below, above) = if ascending { (x < low, x >= high) } else { (x > low, x <= high) };
    if below {
        return Ok(0);
    }
    if above {
        return count.checked_add(1).ok_or_else(|| SqlError::out_of_range("integer"));
    }
    let (distance, span) =
        if ascending { (x.sub(low)?, high.sub(low)?) } else { (low.sub(x)?, low.sub(high)?) };
    distance.mul(&Number::from(count))?.div_trunc(&span)?.to_i32().map(|n| n + 1)
}

fn random() -> f64 {
    (random_bits() >> 11) as f64 / (1u64 << 53) as f64
}

/// 64 random bits: SipHash, whose keys the system chose, over a counter.
pub(super) fn random_bits() -> u64 {
    use std::cell::RefCell;
    use std::hash::{BuildHasher, RandomState};
    thread_local!(static STATE: RefCell<(RandomState, u64)> = RefCell::new((RandomState::new(), 0)));
    STATE.with_borrow_mut(|(keys, counter)| {
        *counter += 1;
        keys.hash_one(*counter)
    })
}
