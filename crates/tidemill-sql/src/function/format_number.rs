//! `to_char` of numbers: PostgreSQL's templates.

use super::Registry;
use super::kernel::{Float8, Int4, Int8, Numeric, Text};
use crate::error::{Result, SqlError, SqlState};
use crate::numeric::Numeric as Number;

pub(super) fn register(r: &mut Registry) {
    r.strict2::<Numeric, Text, Text>("to_char", |_, n, template| format(n, template));
    r.strict2::<Int4, Text, Text>("to_char", |_, n, template| format(Number::from(n), template));
    r.strict2::<Int8, Text, Text>("to_char", |_, n, template| format(Number::from(n), template));
    r.strict2::<Float8, Text, Text>("to_char", |_, n, template| format(Number::from(n), template));
    r.strict2::<Text, Text, Numeric>("to_number", |_, text, template| read(text, template));
}

/// A template without its modifiers.
#[derive(Default)]
struct Template {
    /// Before the decimal point: `9`, `0`, `,` and literals.
    whole: Vec<char>,
    decimals: usize,
    /// All decimals are `9`.
    optional_decimals: bool,
    has_point: bool,
    no_fill: bool,
    angle_brackets: bool,
    sign_after: bool,
    sign_before: bool,
    roman: bool,
}

fn parse(template: &str) -> Result<Template> {
    let mut out = Template::default();
    let upper = template.to_ascii_uppercase();
    let mut rest = upper.as_str();
    while let Some(c) = rest.chars().next() {
        let (used, token) = match rest.get(..2) {
            Some(pair @ ("FM" | "PR" | "RN" | "MI" | "PL" | "SG" | "EE" | "TH")) => (2, pair),
            _ => (c.len_utf8(), &rest[..c.len_utf8()]),
        };
        let started = !out.whole.is_empty() || out.has_point;
        match token {
            "FM" => out.no_fill = true,
            "PR" => out.angle_brackets = true,
            "RN" => out.roman = true,
            "S" | "SG" | "MI" if started => out.sign_after = true,
            "S" | "SG" | "MI" => out.sign_before = true,
            "PL" | "EE" | "TH" | "V" => {
                return Err(SqlError::unsupported(format!(
                    "\"{token}\" is not supported in a template of to_char"
                )));
            }
            "." | "D" if out.has_point => return Err(SqlError::syntax("multiple decimal points")),
            "." | "D" => (out.has_point, out.optional_decimals) = (true, true),
            "9" | "0" if out.has_point => {
                out.decimals += 1;
                out.optional_decimals &= token == "9";
            }
            "," | "G" if out.has_point => {}
            "," | "G" => out.whole.push(','),
            _ => out.whole.push(c),
        }
        rest = &rest[used..];
    }
    Ok(out)
}

fn format(value: Number, template: &str) -> Result<String> {
    let template = parse(template)?;
    if template.roman {
        let number = value.round(0)?.to_i32().unwrap_or(0);
        let shown = if (1..4000).contains(&number) { roman(number as usize) } else { "#".repeat(15) };
        return Ok(if template.no_fill { shown } else { format!("{shown:>15}") });
    }
    if !value.is_finite() {
        return Err(SqlError::unsupported("to_char of NaN and infinity is not supported"));
    }
    let rounded = value.round(template.decimals as i32)?;
    let negative = rounded.is_negative();
    let shown = rounded.abs().to_string();
    let (whole, decimals) = shown.split_once('.').unwrap_or((&shown, ""));
    let slots = template.whole.iter().filter(|c| matches!(c, '9' | '0')).count();
    // A zero before the point is not shown in a place for digits that may be absent.
    let digits = if whole == "0" { "" } else { whole };
    let overflow = digits.len() > slots;
    let mut out = String::new();
    let mut seen = false;
    let mut slot = 0;
    for c in &template.whole {
        match c {
            '9' | '0' => {
                let from_right = slots - slot;
                slot += 1;
                if overflow {
                    out.push('#');
                    seen = true;
                } else if from_right <= digits.len() {
                    out.push(char::from(digits.as_bytes()[digits.len() - from_right]));
                    seen = true;
                } else if *c == '0' || seen || (from_right == 1 && !template.has_point) {
                    out.push('0');
                    seen = true;
                } else if !template.no_fill {
                    out.push(' ');
                }
            }
            ',' if seen => out.push(','),
            ',' if template.no_fill => {}
            ',' => out.push(' '),
            literal => out.push(*literal),
        }
    }
    if template.has_point {
        out.push('.');
        out.push_str(&if overflow { "#".repeat(template.decimals) } else { decimals.to_string() });
        // FM drops the zeros at the end that a 9 stands for; one that a 0 stands for stays.
        while template.no_fill && template.optional_decimals && out.ends_with('0') {
            out.pop();
        }
    }
    Ok(signed(out, negative, &template))
}

fn signed(body: String, negative: bool, template: &Template) -> String {
    let blanks = body.len() - body.trim_start_matches(' ').len();
    let (padding, number) = body.split_at(blanks);
    let fill = if template.no_fill { "" } else { " " };
    if template.angle_brackets {
        return if negative {
            format!("{padding}<{number}>")
        } else {
            format!("{padding}{fill}{number}{fill}")
        };
    }
    if template.sign_after {
        return format!(
            "{body}{}",
            if negative {
                "-"
            } else if template.sign_before {
                ""
            } else {
                "+"
            }
        );
    }
    match (negative, template.sign_before) {
        (true, _) => format!("{padding}-{number}"),
        (false, true) => format!("{padding}+{number}"),
        (false, false) => format!("{fill}{body}"),
    }
}

fn roman(mut number: usize) -> String {
    const STEPS: [(usize, &str); 13] = [
        (1000, "M"),
        (900, "CM"),
        (500, "D"),
        (400, "CD"),
        (100, "C"),
        (90, "XC"),
        (50, "L"),
        (40, "XL"),
        (10, "X"),
        (9, "IX"),
        (5, "V"),
        (4, "IV"),
        (1, "I"),
    ];
    let mut out = String::new();
    for (value, letters) in STEPS {
        while number >= value {
            out.push_str(letters);
            number -= value;
        }
    }
    out
}

/// Digits, point and sign of the text; the template says which of its characters are decoration.
fn read(text: &str, template: &str) -> Result<Number> {
    let decimals = parse(template)?.has_point;
    let negative = text.contains('-') || (text.contains('<') && text.contains('>'));
    let digits: String = text.chars().filter(|c| c.is_ascii_digit() || (*c == '.' && decimals)).collect();
    if digits.is_empty() {
        return Err(SqlError::new(
            SqlState::INVALID_TEXT_REPRESENTATION,
            format!("invalid input syntax for type numeric: \"{text}\""),
        ));
    }
    let value = Number::parse(&digits)?;
    Ok(if negative { value.neg() } else { value })
}
