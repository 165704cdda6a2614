//! InfluxQL. A row is there if any of the fields that are selected is, so all are.

use datafusion::common::ScalarValue;
use tidemill_sql::types::{Scalar, Type};

use crate::deparse::constant_text;
use crate::dialect::{Comparison, Dialect, Operand};
use crate::select::RemoteSelect;

/// The time of a row, and the same as a text.
pub const TIME: &str = "time";
pub const TIME_TEXT: &str = "time_text";

#[derive(Debug)]
pub struct InfluxDialect;

impl Dialect for InfluxDialect {
    fn name(&self, name: &str) -> String {
        match name {
            TIME => name.to_string(),
            name => format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\"")),
        }
    }

    fn literal(&self, value: &ScalarValue, ty: Type) -> Option<String> {
        if value.is_null() {
            return None;
        }
        if let ScalarValue::Float64(Some(value)) = value {
            // There are no exponents.
            return value.is_finite().then(|| match value.fract() == 0.0 {
                true => format!("{value}.0"),
                false => value.to_string(),
            });
        }
        if let ScalarValue::TimestampMicrosecond(Some(us), _) = value {
            return us.checked_mul(1000).map(|ns| ns.to_string());
        }
        let text = constant_text(value, ty).filter(|_| !ty.array)?;
        match ty.scalar {
            Scalar::Bool => Some(if text == "t" { "true" } else { "false" }.to_string()),
            Scalar::Int2 | Scalar::Int4 | Scalar::Int8 => Some(text),
            Scalar::Text | Scalar::Varchar if text.chars().any(char::is_control) => None,
            Scalar::Text | Scalar::Varchar if !text.is_empty() => {
                Some(format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'")))
            }
            _ => None,
        }
    }

    /// A column with a constant.
    fn compare(&self, sign: Comparison, left: &Operand, right: &Operand) -> Option<String> {
        match (&left.value, &right.value) {
            (None, Some(_)) => {}
            (Some(_), None) => return self.compare(turned(sign), right, left),
            _ => return None,
        }
        let name = &left.sql;
        if name == TIME {
            return time(sign, right);
        }
        if *name == self.name(TIME_TEXT) || (left.is_text() && sign != Comparison::Equal) {
            return None;
        }
        Some(format!("({name} {} {})", sign.sql(), right.sql))
    }

    fn in_list(&self, value: &Operand, items: &[Operand], negated: bool) -> Option<String> {
        if negated || value.sql == TIME {
            return None;
        }
        let equal = items.iter().map(|item| self.compare(Comparison::Equal, value, item));
        Some(format!("({})", equal.collect::<Option<Vec<_>>>()?.join(" OR ")))
    }

    /// A condition on the time is one of the whole query there.
    fn or(&self, left: &str, right: &str) -> Option<String> {
        let is_timed = [left, right].iter().any(|side| side.contains("time "));
        (!is_timed).then(|| format!("({left} OR {right})"))
    }

    fn truth(&self, operand: &Operand) -> Option<String> {
        operand.value.is_none().then(|| format!("({} = true)", operand.sql))
    }

    fn select(&self, select: &RemoteSelect) -> String {
        let mut query = format!("SELECT * FROM {}", select.relation(self));
        if !select.conditions.is_empty() {
            query += &format!(" WHERE {}", select.conditions.join(" AND "));
        }
        if let Some(rows) = select.limit {
            query += &format!(" LIMIT {rows}");
        }
        query
    }
}

/// The same with its sides in the other order.
fn turned(sign: Comparison) -> Comparison {
    match sign {
        Comparison::Less => Comparison::Greater,
        Comparison::LessOrEqual => Comparison::GreaterOrEqual,
        Comparison::Greater => Comparison::Less,
        Comparison::GreaterOrEqual => Comparison::LessOrEqual,
        other => other,
    }
}

/// Nanoseconds there are cut to microseconds here, so each of these is a thousand of those.
fn time(sign: Comparison, constant: &Operand) -> Option<String> {
    let Some(ScalarValue::TimestampMicrosecond(Some(us), _)) = constant.value else { return None };
    let (from, to) = (us.checked_mul(1000)?, us.checked_add(1)?.checked_mul(1000)?);
    Some(match sign {
        Comparison::Less => format!("(time < {from})"),
        Comparison::LessOrEqual => format!("(time < {to})"),
        Comparison::Greater => format!("(time >= {to})"),
        Comparison::GreaterOrEqual => format!("(time >= {from})"),
        Comparison::Equal => format!("(time >= {from} AND time < {to})"),
        _ => return None,
    })
}
