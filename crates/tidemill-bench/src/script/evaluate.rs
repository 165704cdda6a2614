//! Values of expressions, with pgbench's types, coercions and messages.

use super::expression::Expression;
use super::function::{self, Function};
use super::value::{Value, Variables, general};
use crate::random::Random;

/// What an expression may look at.
pub struct Scope<'a> {
    pub variables: &'a Variables,
    pub random: &'a mut Random,
    /// Where `debug` writes that it was: `script=0,command=1`.
    pub place: (usize, usize),
}

impl Scope<'_> {
    pub fn evaluate(&mut self, expression: &Expression) -> Result<Value, String> {
        match expression {
            Expression::Constant(value) => Ok(value.clone()),
            Expression::Variable(name) => self.variables.value(name),
            Expression::And(left, right) => self.logic(left, right, false),
            Expression::Or(left, right) => self.logic(left, right, true),
            Expression::Case(arms, other) => {
                for (condition, value) in arms {
                    if self.evaluate(condition)?.is_true() {
                        return self.evaluate(value);
                    }
                }
                self.evaluate(other)
            }
            Expression::Call(function, arguments) => {
                let values: Vec<Value> =
                    arguments.iter().map(|a| self.evaluate(a)).collect::<Result<_, _>>()?;
                self.call(*function, &values)
            }
        }
    }

    /// AND is decided by a false operand, OR by a true one. As pgbench has it, what begins with NULL is NULL, and the rest is not
    /// looked at.
    fn logic(&mut self, left: &Expression, right: &Expression, decisive: bool) -> Result<Value, String> {
        let left = self.evaluate(left)?;
        if left == Value::Null || left.bool()? == decisive {
            return Ok(left);
        }
        match self.evaluate(right)? {
            Value::Null => Ok(Value::Null),
            right => right.bool().map(Value::Bool),
        }
    }

    fn call(&mut self, function: Function, values: &[Value]) -> Result<Value, String> {
        match function {
            Function::Is => return Ok(Value::Bool(values[0] == values[1])),
            Function::Debug => {
                let (script, command) = self.place;
                eprintln!("debug(script={script},command={command}): {}", described(&values[0]));
                return Ok(values[0].clone());
            }
            Function::Pi => return Ok(Value::Double(std::f64::consts::PI)),
            _ if values.contains(&Value::Null) => return Ok(Value::Null),
            _ => {}
        }
        let int = |i: usize| values[i].int();
        let double = |i: usize| values[i].double();
        let random = &mut *self.random;
        Ok(match function {
            Function::Not => Value::Bool(!values[0].bool()?),
            Function::Abs => match &values[0] {
                Value::Double(value) => Value::Double(value.abs()),
                other => Value::Int(other.int()?.wrapping_abs()),
            },
            Function::Double => Value::Double(double(0)?),
            Function::Int => Value::Int(int(0)?),
            Function::Exp => Value::Double(double(0)?.exp()),
            Function::Ln => Value::Double(double(0)?.ln()),
            Function::Sqrt => Value::Double(double(0)?.sqrt()),
            Function::Power => Value::Double(double(0)?.powf(double(1)?)),
            Function::Greatest => extreme(values, |new, best| new > best)?,
            Function::Least => extreme(values, |new, best| new < best)?,
            Function::HashFnv1a => Value::Int(function::hash_fnv1a(int(0)?, self.seed(values.get(1))?)),
            Function::HashMurmur2 => Value::Int(function::hash_murmur2(int(0)?, self.seed(values.get(1))?)),
            Function::Permute => Value::Int(function::permute(int(0)?, int(1)?, self.seed(values.get(2))?)?),
            Function::Random => Value::Int(function::uniform(random, int(0)?, int(1)?)?),
            Function::RandomExponential => {
                Value::Int(function::exponential(random, int(0)?, int(1)?, double(2)?)?)
            }
            Function::RandomGaussian => Value::Int(function::gaussian(random, int(0)?, int(1)?, double(2)?)?),
            Function::RandomZipfian => Value::Int(function::zipfian(random, int(0)?, int(1)?, double(2)?)?),
            operator => binary(operator, &values[0], &values[1])?,
        })
    }

    fn seed(&self, given: Option<&Value>) -> Result<i64, String> {
        match given {
            Some(value) => value.int(),
            None => self.variables.value("default_seed")?.int(),
        }
    }
}

fn extreme(values: &[Value], is_better: fn(f64, f64) -> bool) -> Result<Value, String> {
    if values.iter().any(|value| matches!(value, Value::Double(_))) {
        let mut best = values[0].double()?;
        for value in values {
            let value = value.double()?;
            best = if is_better(value, best) { value } else { best };
        }
        return Ok(Value::Double(best));
    }
    let mut best = values[0].int()?;
    for value in values {
        let value = value.int()?;
        // By the sign of the order: as doubles large integers would be equal.
        best = if is_better(value.cmp(&best) as i8 as f64, 0.0) { value } else { best };
    }
    Ok(Value::Int(best))
}

fn binary(operator: Function, left: &Value, right: &Value) -> Result<Value, String> {
    let is_double = matches!(left, Value::Double(_)) || matches!(right, Value::Double(_));
    if is_double && let Some(value) = on_doubles(operator, left.double()?, right.double()?) {
        return Ok(value);
    }
    let (left, right) = (left.int()?, right.int()?);
    let checked = |value: Option<i64>, name: &str| {
        value.map(Value::Int).ok_or_else(|| format!("bigint {name} out of range"))
    };
    let nonzero = |value: i64| if value == 0 { Err("division by zero".to_owned()) } else { Ok(value) };
    match operator {
        Function::Add => checked(left.checked_add(right), "add"),
        Function::Subtract => checked(left.checked_sub(right), "sub"),
        Function::Multiply => checked(left.checked_mul(right), "mul"),
        Function::Divide => checked(left.checked_div(nonzero(right)?), "div"),
        Function::Modulo => Ok(Value::Int(left.wrapping_rem(nonzero(right)?))),
        Function::Equal => Ok(Value::Bool(left == right)),
        Function::NotEqual => Ok(Value::Bool(left != right)),
        Function::Less => Ok(Value::Bool(left < right)),
        Function::LessOrEqual => Ok(Value::Bool(left <= right)),
        Function::BitAnd => Ok(Value::Int(left & right)),
        Function::BitOr => Ok(Value::Int(left | right)),
        Function::Xor => Ok(Value::Int(left ^ right)),
        Function::ShiftLeft => Ok(Value::Int(left.wrapping_shl(right as u32))),
        _ => Ok(Value::Int(left.wrapping_shr(right as u32))),
    }
}

/// None where integers are wanted all the same.
fn on_doubles(operator: Function, left: f64, right: f64) -> Option<Value> {
    Some(match operator {
        Function::Add => Value::Double(left + right),
        Function::Subtract => Value::Double(left - right),
        Function::Multiply => Value::Double(left * right),
        Function::Divide => Value::Double(left / right),
        Function::Equal => Value::Bool(left == right),
        Function::NotEqual => Value::Bool(left != right),
        Function::Less => Value::Bool(left < right),
        Function::LessOrEqual => Value::Bool(left <= right),
        _ => return None,
    })
}

fn described(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => format!("boolean {value}"),
        Value::Int(value) => format!("int {value}"),
        Value::Double(value) => format!("double {}", general(*value, 15)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::script::expression::parse;

    fn value(text: &str) -> Result<Value, String> {
        let mut variables = Variables::default();
        variables.set("default_seed", Value::Int(0));
        variables.set("x", Value::Int(7));
        let expression = parse(text).map_err(|problem| problem.message)?;
        Scope { variables: &variables, random: &mut Random::new(1), place: (0, 0) }.evaluate(&expression)
    }

    #[test]
    fn precedence_is_pgbenchs() {
        for (text, wanted) in [
            ("1 + 2 * 3", 7),
            ("(1 + 2) * 3", 9),
            ("- 2 * 3", -6),
            ("10 - 2 - 3", 5),
            ("7 / 2 * 2", 6),
            ("-7 % 3", -1),
            ("~ 1 + 2", -4),
            ("1 | 2 << 1", 6),
            ("-9223372036854775808", i64::MIN),
            (":x % 4", 3),
            ("case when :x > 5 then 1 else 2 end", 1),
            ("greatest(1, :x, 3)", 7),
            ("least(9223372036854775807, 9223372036854775806)", i64::MAX - 1),
            ("int(2.5)", 2),
        ] {
            assert_eq!(value(text), Ok(Value::Int(wanted)), "{text}");
        }
    }

    #[test]
    fn logic_knows_null() {
        for (text, wanted) in [
            ("true and null", Value::Null),
            ("false and null", Value::Bool(false)),
            ("null or true", Value::Null),
            ("null and 1", Value::Null),
            ("true or null", Value::Bool(true)),
            ("not 1 = 2", Value::Bool(true)),
            ("1 is null", Value::Bool(false)),
            ("null isnull and 1 notnull", Value::Bool(true)),
            ("1.0 = 1", Value::Bool(true)),
            ("null + 1", Value::Null),
            ("true is not false", Value::Bool(true)),
        ] {
            assert_eq!(value(text), Ok(wanted), "{text}");
        }
    }

    #[test]
    fn errors_are_pgbenchs() {
        for (text, wanted) in [
            ("1 / 0", "division by zero"),
            ("9223372036854775807 + 1", "bigint add out of range"),
            ("-9223372036854775808 / -1", "bigint div out of range"),
            ("9223372036854775808", "syntax error"),
            ("99999999999999999999", "bigint constant overflow"),
            ("random(2, 1)", "empty range given to random"),
            ("not 1", "cannot coerce int to boolean"),
            ("1 + true", "cannot coerce boolean to int"),
            (":y", "undefined variable \"y\""),
            ("1 = 1 = 1", "syntax error"),
            ("nosuch(1)", "unexpected function name \"nosuch\""),
            ("abs(1, 2)", "unexpected number of arguments (abs)"),
            ("1 +", "unexpected end of the expression"),
            ("permute(1, 0)", "permute size parameter must be greater than zero"),
        ] {
            assert_eq!(value(text), Err(wanted.to_owned()), "{text}");
        }
    }
}
