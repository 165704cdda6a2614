//! What PostgreSQL 15 answers for a thousand operations (`golden.tsv`) is what `Numeric` answers.

use super::{Numeric, Spread};
use crate::error::{Result, SqlError};

const TABLE: &str = include_str!("golden.tsv");

#[test]
fn agrees_with_postgresql() {
    let rows = TABLE.lines().filter(|line| !line.starts_with('#'));
    let failures: Vec<String> = rows.filter_map(check).collect();
    assert!(failures.is_empty(), "{} differ:\n{}", failures.len(), failures.join("\n"));
}

/// The storage encoding and the binary format keep every number of the table, its scale included.
#[test]
fn every_number_survives_its_encodings() {
    let mut count = 0;
    for number in TABLE.lines().flat_map(|line| line.split('\t').skip(1)) {
        let Ok(value) = Numeric::parse(number) else { continue };
        let bytes = value.to_bytes();
        let stored = Numeric::decode(&bytes).unwrap();
        assert_eq!(stored.to_string(), value.to_string());
        assert_eq!(stored.to_bytes(), bytes, "{number}");
        let mut wire = Vec::new();
        value.to_wire(&mut wire);
        assert_eq!(Numeric::from_wire(&wire).unwrap().to_string(), value.to_string());
        count += 1;
    }
    assert!(count > 2000, "the table has only {count} numbers");
}

/// A line that tells the difference, if there is one.
fn check(row: &str) -> Option<String> {
    let fields: Vec<&str> = row.split('\t').collect();
    let [operation, a, b, expected] = fields[..] else { return Some(format!("malformed row {row:?}")) };
    let actual = match evaluate(operation, a, b) {
        Ok(text) => text,
        Err(error) => describe(&error),
    };
    (actual != expected).then(|| format!("{operation}({a}, {b}): {actual}, not {expected}"))
}

fn describe(error: &SqlError) -> String {
    let detail = error.detail.as_ref().map_or(String::new(), |detail| format!(" | {detail}"));
    format!("ERROR {:?} {}{detail}", error.state, error.message)
}

fn evaluate(operation: &str, a: &str, b: &str) -> Result<String> {
    if let Some(result) = from_machine(operation, a).or_else(|| aggregate(operation, a)) {
        return result;
    }
    let x = Numeric::parse(a)?;
    match unary(operation, &x) {
        Some(result) => result,
        None => binary(operation, &x, b).map(|value| value.to_string()),
    }
}

fn from_machine(operation: &str, a: &str) -> Option<Result<String>> {
    Some(match operation {
        "factorial" => Numeric::factorial(a.parse().unwrap()).map(|value| value.to_string()),
        "from_f64" => Ok(Numeric::from(a.parse::<f64>().unwrap()).to_string()),
        "from_f32" => Ok(Numeric::from(a.parse::<f32>().unwrap()).to_string()),
        _ => return None,
    })
}

fn unary(operation: &str, x: &Numeric) -> Option<Result<String>> {
    let number = |value: Result<Numeric>| value.map(|value| value.to_string());
    let scale = |scale: Option<i32>| Ok(scale.map_or("NULL".to_owned(), |scale| scale.to_string()));
    Some(match operation {
        "parse" => Ok(x.to_string()),
        "neg" => Ok(x.neg().to_string()),
        "abs" => Ok(x.abs().to_string()),
        "sign" => Ok(x.sign().to_string()),
        "ceil" => number(x.ceil()),
        "floor" => number(x.floor()),
        "sqrt" => number(x.sqrt()),
        "exp" => number(x.exp()),
        "ln" => number(x.ln()),
        "log10" => number(x.log10()),
        "trim_scale" => Ok(x.trim_scale().to_string()),
        "scale" => scale(x.scale()),
        "min_scale" => scale(x.min_scale()),
        "to_i16" => x.to_i16().map(|value| value.to_string()),
        "to_i32" => x.to_i32().map(|value| value.to_string()),
        "to_i64" => x.to_i64().map(|value| value.to_string()),
        "to_f64" => x.to_f64().map(|value| hex(&value.to_be_bytes())),
        "to_f32" => x.to_f32().map(|value| hex(&value.to_be_bytes())),
        "to_wire" => {
            let mut wire = Vec::new();
            x.to_wire(&mut wire);
            Ok(hex(&wire))
        }
        _ => return None,
    })
}

fn binary(operation: &str, x: &Numeric, b: &str) -> Result<Numeric> {
    let y = || Numeric::parse(b);
    let int = || b.parse().unwrap();
    match operation {
        "add" => x.add(&y()?),
        "sub" => x.sub(&y()?),
        "mul" => x.mul(&y()?),
        "div" => x.div(&y()?),
        "div_trunc" => x.div_trunc(&y()?),
        "rem" => x.rem(&y()?),
        "gcd" => x.gcd(&y()?),
        "lcm" => x.lcm(&y()?),
        "log" => Numeric::log(x, &y()?),
        "power" => x.power(&y()?),
        "cmp" => Ok(Numeric::from(x.cmp(&y()?) as i32)),
        "round" => x.round(int()),
        "trunc" => x.trunc(int()),
        "typmod" => {
            let (precision, scale) = b.split_once(',').unwrap();
            x.apply_typmod(precision.parse().unwrap(), scale.parse().unwrap())
        }
        _ => panic!("unknown operation {operation}"),
    }
}

/// The operand is a list of values.
fn aggregate(operation: &str, list: &str) -> Option<Result<String>> {
    let (finish, spread): (fn(_, &_, &_, _) -> _, _) = match operation {
        "avg" => (|n, sum, _, _| Numeric::avg_of(sum, n).map(Some), Spread::Sample),
        "var_samp" => (Numeric::variance_of, Spread::Sample),
        "var_pop" => (Numeric::variance_of, Spread::Population),
        "stddev_samp" => (Numeric::stddev_of, Spread::Sample),
        "stddev_pop" => (Numeric::stddev_of, Spread::Population),
        _ => return None,
    };
    let (mut n, mut sum, mut squares) = (0, Numeric::ZERO, Numeric::ZERO);
    for value in list.split(',').map(|text| Numeric::parse(text).unwrap()) {
        n += 1;
        sum = sum.add(&value).unwrap();
        squares = squares.add(&value.mul(&value).unwrap()).unwrap();
    }
    let result: Result<Option<Numeric>> = finish(n, &sum, &squares, spread);
    Some(result.map(|value| value.map_or("NULL".to_owned(), |value| value.to_string())))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
