//! `corr`, `covar_pop`, `covar_samp` and the `regr_` functions: one state, `float8_regr_accum` in PostgreSQL's float.c.

use std::sync::Arc;

use arrow::array::{ArrayRef, Float64Array, Int64Array};
use arrow::datatypes::DataType;

use super::fixed::{Fixed, Moment, column};
use super::{Resolved, float};
use crate::error::Result;
use crate::planner::coerce;
use crate::types::{Scalar, Type};

pub(super) fn resolve(name: &str, types: &[Type]) -> Option<Resolved> {
    let [y, x] = types else { return None };
    // Numeric is read as float8 by the state; the other casts are Arrow's.
    let argument = |ty: &Type| match ty.scalar {
        Scalar::Numeric if !ty.array => Some(ty.arrow()),
        _ => coerce::castable(*ty, Type::new(Scalar::Float8), coerce::Context::Implicit)
            .then_some(DataType::Float64),
    };
    let arguments = [argument(y)?, argument(x)?];
    if name == "regr_count" {
        let finish = |states: &[Pairs]| {
            Ok(Arc::new(Int64Array::from_iter_values(states.iter().map(|s| s.count as i64))) as ArrayRef)
        };
        return Resolved::new(&arguments, Type::new(Scalar::Int8), Fixed::new(2, finish));
    }
    let finish = match name {
        "corr" => |states: &[Pairs]| finish(states, Pairs::corr),
        "covar_pop" => |states: &[Pairs]| finish(states, |s| Some(s.xy / s.count)),
        "covar_samp" => {
            |states: &[Pairs]| finish(states, |s| (s.count > 1.0).then(|| s.xy / (s.count - 1.0)))
        }
        "regr_avgx" => |states: &[Pairs]| finish(states, |s| Some(s.x / s.count)),
        "regr_avgy" => |states: &[Pairs]| finish(states, |s| Some(s.y / s.count)),
        "regr_intercept" => |states: &[Pairs]| finish(states, Pairs::intercept),
        "regr_r2" => |states: &[Pairs]| finish(states, Pairs::r2),
        "regr_slope" => |states: &[Pairs]| finish(states, |s| (s.xx != 0.0).then(|| s.xy / s.xx)),
        "regr_sxx" => |states: &[Pairs]| finish(states, |s| Some(s.xx)),
        "regr_sxy" => |states: &[Pairs]| finish(states, |s| Some(s.xy)),
        "regr_syy" => |states: &[Pairs]| finish(states, |s| Some(s.yy)),
        _ => return None,
    };
    Resolved::new(&arguments, Type::new(Scalar::Float8), Fixed::new(2, finish))
}

fn finish(states: &[Pairs], f: impl Fn(&Pairs) -> Option<f64>) -> Result<ArrayRef> {
    if states.iter().any(Pairs::overflowed) {
        return Err(float::overflow());
    }
    let results = states.iter().map(|s| if s.count > 0.0 { f(s) } else { None });
    Ok(Arc::new(results.collect::<Float64Array>()))
}

/// Count and sums of pairs (y, x), and the sums of products of their differences from the means. Those are NaN when an
/// infinity came in, and infinite after an overflow.
#[derive(Debug, Clone, Copy, Default)]
struct Pairs {
    count: f64,
    x: f64,
    xx: f64,
    y: f64,
    yy: f64,
    xy: f64,
}

impl Pairs {
    fn corr(&self) -> Option<f64> {
        (self.xx != 0.0 && self.yy != 0.0).then(|| self.xy / (self.xx * self.yy).sqrt())
    }

    fn r2(&self) -> Option<f64> {
        if self.xx == 0.0 {
            return None;
        }
        Some(if self.yy == 0.0 { 1.0 } else { self.xy * self.xy / (self.xx * self.yy) })
    }

    fn intercept(&self) -> Option<f64> {
        (self.xx != 0.0).then(|| (self.y - self.x * self.xy / self.xx) / self.count)
    }

    fn settle(&mut self, (xx, yy, xy): (f64, f64, f64), x_finite: bool, y_finite: bool) {
        let (x_overflows, y_overflows) = (self.x.is_infinite(), self.y.is_infinite());
        settle(xx, &mut self.xx, x_finite, x_overflows);
        settle(yy, &mut self.yy, y_finite, y_overflows);
        settle(xy, &mut self.xy, x_finite && y_finite, x_overflows || y_overflows);
    }

    fn overflowed(&self) -> bool {
        [self.xx, self.yy, self.xy].into_iter().any(f64::is_infinite)
    }

    fn fields(&self) -> [f64; 6] {
        [self.count, self.x, self.xx, self.y, self.yy, self.xy]
    }
}

/// Products after a step that began with `before`: infinite for good if nothing infinite went into it.
fn settle(before: f64, after: &mut f64, is_finite: bool, overflows: bool) {
    if before.is_infinite() {
        *after = before;
    } else if after.is_infinite() || overflows {
        *after = if is_finite { f64::INFINITY } else { f64::NAN };
    }
}

impl Moment for Pairs {
    /// (y, x)
    type Value<'a> = (f64, f64);

    fn values(args: &[ArrayRef]) -> Result<impl Iterator<Item = (f64, f64)> + '_> {
        Ok(float::pairs(args)?.into_iter())
    }

    fn add(&mut self, (y, x): (f64, f64)) {
        let before = self.count;
        self.count += 1.0;
        let (x_finite, y_finite) = (self.x.is_finite() && x.is_finite(), self.y.is_finite() && y.is_finite());
        let (xx, yy, xy) = (self.xx, self.yy, self.xy);
        self.x += x;
        self.y += y;
        if before > 0.0 {
            let (dx, dy) = (x * self.count - self.x, y * self.count - self.y);
            let scale = 1.0 / (self.count * before);
            self.xx += dx * dx * scale;
            self.yy += dy * dy * scale;
            self.xy += dx * dy * scale;
            self.settle((xx, yy, xy), x_finite, y_finite);
            return;
        }
        if !x.is_finite() {
            (self.xx, self.xy) = (f64::NAN, f64::NAN);
        }
        if !y.is_finite() {
            (self.yy, self.xy) = (f64::NAN, f64::NAN);
        }
    }

    fn merge(&mut self, other: &Self) {
        if other.count == 0.0 {
            return;
        }
        if self.count == 0.0 {
            *self = *other;
            return;
        }
        let count = self.count + other.count;
        let (dx, dy) =
            (self.x / self.count - other.x / other.count, self.y / self.count - other.y / other.count);
        let weight = self.count * other.count / count;
        let (x_finite, y_finite) =
            (self.x.is_finite() && other.x.is_finite(), self.y.is_finite() && other.y.is_finite());
        let larger = |a: f64, b: f64| if b.is_infinite() { b } else { a };
        let before = (larger(self.xx, other.xx), larger(self.yy, other.yy), larger(self.xy, other.xy));
        self.xx += other.xx + dx * dx * weight;
        self.yy += other.yy + dy * dy * weight;
        self.xy += other.xy + dx * dy * weight;
        self.x += other.x;
        self.y += other.y;
        self.count = count;
        self.settle(before, x_finite, y_finite);
    }

    fn columns() -> Vec<DataType> {
        vec![DataType::Float64; 6]
    }

    fn write(states: &[Self]) -> Vec<ArrayRef> {
        let column = |i: usize| Float64Array::from_iter_values(states.iter().map(|s| s.fields()[i]));
        (0..6).map(|i| Arc::new(column(i)) as ArrayRef).collect()
    }

    fn read(columns: &[ArrayRef]) -> Result<Vec<Self>> {
        let fields = (0..6).map(|i| column::<Float64Array>(columns, i)).collect::<Result<Vec<_>>>()?;
        let state = |row| {
            let [count, x, xx, y, yy, xy] = std::array::from_fn(|i| fields[i].value(row));
            Self { count, x, xx, y, yy, xy }
        };
        Ok((0..fields[0].len()).map(state).collect())
    }
}
