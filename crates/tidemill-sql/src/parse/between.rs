//! `BETWEEN SYMMETRIC` and `BETWEEN ASYMMETRIC`, which the parser does not know.
//!
//! ```text
//! x BETWEEN SYMMETRIC a AND b      =>  (x BETWEEN a AND b OR x BETWEEN b AND a)
//! x NOT BETWEEN SYMMETRIC a AND b  =>  (x NOT BETWEEN a AND b AND x NOT BETWEEN b AND a)
//! ```

use sqlparser::ast::{BinaryOperator, Expr};
use sqlparser::dialect::{Dialect, Precedence};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;

use super::dialect::POSTGRESQL;

/// The condition behind an operand, or `None` and nothing taken.
pub(super) fn parse(parser: &mut Parser, operand: &Expr) -> Option<Result<Expr, ParserError>> {
    let is = |place: usize, expected: &str| {
        matches!(&parser.peek_nth_token_ref(place).token,
            Token::Word(w) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(expected))
    };
    let negated = is(0, "NOT");
    let kind = usize::from(negated) + 1;
    let symmetric = is(kind, "SYMMETRIC");
    if !is(kind - 1, "BETWEEN") || !symmetric && !is(kind, "ASYMMETRIC") {
        return None;
    }
    (0..=kind).for_each(|_| parser.advance_token());
    Some(bounds(parser).map(|(low, high)| condition(operand, negated, symmetric, low, high)))
}

fn bounds(parser: &mut Parser) -> Result<(Expr, Expr), ParserError> {
    let precedence = POSTGRESQL.prec_value(Precedence::Between);
    let low = parser.parse_subexpr(precedence)?;
    parser.expect_keyword_is(Keyword::AND)?;
    Ok((low, parser.parse_subexpr(precedence)?))
}

fn condition(operand: &Expr, negated: bool, symmetric: bool, low: Expr, high: Expr) -> Expr {
    let between = |low: &Expr, high: &Expr| Expr::Between {
        expr: Box::new(operand.clone()),
        negated,
        low: Box::new(low.clone()),
        high: Box::new(high.clone()),
    };
    let one = between(&low, &high);
    if !symmetric {
        return one;
    }
    let op = if negated { BinaryOperator::And } else { BinaryOperator::Or };
    let other = between(&high, &low);
    Expr::Nested(Box::new(Expr::BinaryOp { left: Box::new(one), op, right: Box::new(other) }))
}
