//! Regular expressions and the patterns of LIKE and SIMILAR TO. Matching is DataFusion's (Rust's regex crate): it has
//! PostgreSQL's syntax but for back references and look-around.

use datafusion::functions::regex::expr_fn as regex;
use datafusion::logical_expr::Expr;

use super::kernel::{Int4, Sql, Text};
use super::{Param, Registry, Returns, registry, string};
use crate::error::{Result, SqlError, SqlState};
use crate::planner::coerce::{Context, cast_expr};
use crate::types::{Scalar, Type};
use datafusion::common::ScalarValue;

const TEXT: Param = Param::Is(Type::new(Scalar::Text));
/// Stands where a pattern matched.
const MARK: char = '\u{1}';
/// Each may be another level of the search for the end of a pattern.
const PERCENTS_MAX: usize = 1000;

pub(super) fn register(r: &mut Registry) {
    let text = Returns::Is(Type::new(Scalar::Text));
    let texts = Returns::Is(Type::array(Scalar::Text));
    let int = Returns::Is(Type::new(Scalar::Int4));
    for count in [3, 4] {
        r.native("regexp_replace", &[TEXT; 4][..count], text, |args| {
            let mut args = args.into_iter();
            let (Some(s), Some(pattern), Some(new)) = (args.next(), args.next(), args.next()) else {
                return Err(SqlError::internal("regexp_replace without its arguments"));
            };
            Ok(regex::regexp_replace(s, pattern, call("regexp replacement", vec![new])?, args.next()))
        });
    }
    for count in [2, 3] {
        let params = &[TEXT; 3][..count];
        r.native("regexp_match", params, texts, matched);
        r.native("regexp_like", params, Returns::Is(Type::new(Scalar::Bool)), |args| {
            let [s, pattern, flags] = three(args)?;
            Ok(regex::regexp_like(required(s)?, required(pattern)?, flags))
        });
    }
    r.native("regexp_count", &[TEXT, TEXT], int, |args| {
        let [s, pattern, _] = three(args)?;
        let count = regex::regexp_count(required(s)?, required(pattern)?, None, None);
        Ok(Expr::Cast(datafusion::logical_expr::Cast::new(Box::new(count), Int4::SCALAR.arrow())))
    });
    for name in ["substring", "regexp_substr"] {
        r.native(name, &[TEXT, TEXT], text, |args| {
            let one = Expr::Literal(ScalarValue::Int32(Some(1)), None);
            call("array subscript", vec![matched(args)?, one])
        });
    }
    // DataFusion knows `\1`; the whole match and the dollar are written differently in Rust.
    r.strict1::<Text, Text>("regexp replacement", |_, new| Ok(new.replace('$', "$$").replace("\\&", "${0}")));
    r.strict2::<Text, Text, Text>("like_escape", |_, pattern, escape| like_escape(pattern, escape));
    r.strict2::<Text, Text, Text>("like_pattern", |_, text, pattern| like_pattern(text, pattern, false));
    r.strict2::<Text, Text, Text>("ilike_pattern", |_, text, pattern| like_pattern(text, pattern, true));
    r.strict1::<Text, Text>("similar_to_escape", |_, pattern| similar_to_regex(pattern, Some('\\')));
    r.strict2::<Text, Text, Text>("similar_to_escape", |_, pattern, escape| {
        similar_to_regex(pattern, escape_character(escape)?)
    });
    r.native("regexp_split_to_array", &[TEXT, TEXT], texts, |args| {
        call("split at marks", vec![marked(args)?])
    });
    r.kernel("split at marks", &[TEXT], texts, |call| {
        let column = call.column::<Text>(0)?;
        string::text_lists(call, |row| {
            Ok(column.get(row)?.map(|s| s.split(MARK).map(|part| Some(part.to_string())).collect()))
        })
    });
    r.native("regexp_split_to_table", &[TEXT, TEXT], text, |args| {
        let parts = call("split at marks", vec![marked(args)?])?;
        Ok(Expr::Unnest(datafusion::logical_expr::expr::Unnest::new(parts)))
    });
}

/// Whether a pattern ends in the middle of an escape.
pub(super) fn ends_in_escape(pattern: &str) -> bool {
    pattern.bytes().rev().take_while(|b| *b == b'\\').count() % 2 == 1
}

/// The pattern to match a text with: one that ends with the escape character is an error if the text gets that far, as in
/// PostgreSQL's `MatchText`, and matches nothing otherwise.
fn like_pattern(text: &str, pattern: &str, ignore_case: bool) -> Result<String> {
    if !ends_in_escape(pattern) {
        return Ok(pattern.to_string());
    }
    if pattern.bytes().filter(|b| *b == b'%').count() > PERCENTS_MAX {
        let message =
            format!("a LIKE pattern that ends with the escape character has more than {PERCENTS_MAX} %");
        return Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, message));
    }
    let chars = |text: &str| match ignore_case {
        true => text.chars().flat_map(char::to_lowercase).collect::<Vec<_>>(),
        false => text.chars().collect(),
    };
    reach_end(&chars(text), &chars(pattern))?;
    Ok(if text.is_empty() { "_" } else { "" }.to_string())
}

/// How a match ended that can't succeed: at a difference, or because there was no more text.
#[derive(PartialEq, Eq)]
enum Missed {
    Differs,
    Short,
}

fn reach_end(mut text: &[char], mut pattern: &[char]) -> Result<Missed> {
    let end = || {
        let message = "LIKE pattern must not end with escape character";
        SqlError::new(SqlState::INVALID_ESCAPE_SEQUENCE, message)
    };
    while let ([c, text_rest @ ..], [p, pattern_rest @ ..]) = (text, pattern) {
        match p {
            '%' => {
                pattern = pattern_rest;
                while let [wild @ ('%' | '_'), rest @ ..] = pattern {
                    if *wild == '_' {
                        let [_, rest @ ..] = text else { return Ok(Missed::Short) };
                        text = rest;
                    }
                    pattern = rest;
                }
                let first = match pattern {
                    ['\\', next, ..] | [next, ..] if pattern.len() > 1 || *next != '\\' => *next,
                    _ => return Err(end()),
                };
                while let [c, rest @ ..] = text {
                    if *c == first && reach_end(text, pattern)? == Missed::Short {
                        return Ok(Missed::Short);
                    }
                    text = rest;
                }
                return Ok(Missed::Short);
            }
            '\\' => {
                let [next, rest @ ..] = pattern_rest else { return Err(end()) };
                if next != c {
                    return Ok(Missed::Differs);
                }
                pattern = rest;
            }
            '_' => pattern = pattern_rest,
            p if p == c => pattern = pattern_rest,
            _ => return Ok(Missed::Differs),
        }
        text = text_rest;
    }
    Ok(if text.is_empty() { Missed::Short } else { Missed::Differs })
}

fn three(args: Vec<Expr>) -> Result<[Option<Expr>; 3]> {
    let mut args = args.into_iter();
    Ok([args.next(), args.next(), args.next()])
}

fn required(arg: Option<Expr>) -> Result<Expr> {
    arg.ok_or_else(|| SqlError::internal("a call without its argument"))
}

fn matched(args: Vec<Expr>) -> Result<Expr> {
    let [s, pattern, flags] = three(args)?;
    Ok(regex::regexp_match(required(s)?, required(pattern)?, flags))
}

/// The text with a mark in place of each match.
fn marked(args: Vec<Expr>) -> Result<Expr> {
    let [s, pattern, _] = three(args)?;
    Ok(regex::regexp_replace(required(s)?, required(pattern)?, text(&MARK.to_string())?, Some(text("g")?)))
}

fn text(value: &str) -> Result<Expr> {
    let literal = Expr::Literal(ScalarValue::Utf8(Some(value.to_string())), None);
    cast_expr(literal, None, Type::new(Scalar::Text), Context::Implicit)
}

/// A call of one of our own functions that has one overload.
pub(super) fn call(name: &str, args: Vec<Expr>) -> Result<Expr> {
    let overload = registry().function(name).first();
    super::call(overload.ok_or_else(|| SqlError::internal(format!("no function {name}")))?, args)
}

fn escape_character(escape: &str) -> Result<Option<char>> {
    let mut chars = escape.chars();
    match (chars.next(), chars.next()) {
        (first, None) => Ok(first),
        _ => Err(SqlError::new(SqlState::INVALID_ESCAPE_SEQUENCE, "invalid escape string")
            .with_hint("Escape string must be empty or one character.")),
    }
}

/// A pattern with another escape character as one with the backslash.
pub(crate) fn like_escape(pattern: &str, escape: &str) -> Result<String> {
    let escape = escape_character(escape)?;
    let mut out = String::with_capacity(pattern.len());
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        if Some(c) == escape {
            // One at the end is an error for what gets that far.
            out.push('\\');
            out.extend(chars.next());
        } else if c == '\\' {
            out.push_str("\\\\");
        } else {
            out.push(c);
        }
    }
    Ok(out)
}

/// `a%(b|c)_` as `^(?:a.*(?:b|c).)$`.
fn similar_to_regex(pattern: &str, escape: Option<char>) -> Result<String> {
    let mut out = String::from("^(?s:");
    let mut in_brackets = false;
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        match c {
            c if Some(c) == escape => {
                let next = chars.next().ok_or_else(|| {
                    SqlError::new(SqlState::INVALID_ESCAPE_SEQUENCE, "invalid escape sequence")
                })?;
                if !next.is_alphanumeric() {
                    out.push('\\');
                }
                out.push(next);
            }
            '[' if !in_brackets => {
                in_brackets = true;
                out.push('[');
            }
            ']' if in_brackets => {
                in_brackets = false;
                out.push(']');
            }
            '\\' => out.push_str("\\\\"),
            c if in_brackets => out.push(c),
            '%' => out.push_str(".*"),
            '_' => out.push('.'),
            '(' => out.push_str("(?:"),
            '.' | '^' | '$' => out.extend(['\\', c]),
            c => out.push(c),
        }
    }
    out.push_str(")$");
    Ok(out)
}
