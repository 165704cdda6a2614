//! `x IN ((SELECT …), y)`: a list that begins with a subquery, which the parser takes for the subquery of `IN`; and
//! `x IN (VALUES (1), (2))`, a subquery that it takes for a list.

use sqlparser::ast::Expr;
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::token::keyword;
use super::values;

/// The condition behind an operand, or `None` and nothing taken.
pub(super) fn parse(parser: &mut Parser, operand: &Expr) -> Option<Result<Expr, ParserError>> {
    let mut ahead = (0..).map(|n| parser.peek_nth_token_no_skip(n)).filter(is_code);
    let first = ahead.next()?;
    let negated = keyword(&first.token) == Some(Keyword::NOT);
    let word = if negated { ahead.next()? } else { first };
    if keyword(&word.token) != Some(Keyword::IN) {
        return None;
    }
    let words = if negated { 3 } else { 2 };
    let is_open = |token: Option<TokenWithSpan>| token.is_some_and(|t| t.token == Token::LParen);
    if !is_open(ahead.next()) {
        return None;
    }
    if values::follow(parser, words) {
        (0..words).for_each(|_| parser.advance_token());
        return Some(subquery(parser, operand, negated));
    }
    if !is_open(ahead.next()) {
        return None;
    }
    let mut depth = 1;
    while depth > 0 {
        match ahead.next()?.token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            Token::EOF => return None,
            _ => {}
        }
    }
    let next = ahead.next()?;
    let goes_on = keyword(&next.token).is_some_and(|word| OF_QUERIES.contains(&word));
    if goes_on || matches!(next.token, Token::RParen | Token::EOF) {
        return None;
    }
    (0..words).for_each(|_| parser.advance_token());
    Some(list(parser, operand, negated))
}

/// What may follow a query in parentheses.
const OF_QUERIES: [Keyword; 8] = [
    Keyword::UNION,
    Keyword::INTERSECT,
    Keyword::EXCEPT,
    Keyword::ORDER,
    Keyword::LIMIT,
    Keyword::OFFSET,
    Keyword::FETCH,
    Keyword::FOR,
];

fn is_code(token: &TokenWithSpan) -> bool {
    !matches!(token.token, Token::Whitespace(_))
}

fn subquery(parser: &mut Parser, operand: &Expr, negated: bool) -> Result<Expr, ParserError> {
    let subquery = parser.parse_query()?;
    parser.expect_token(&Token::RParen)?;
    Ok(Expr::InSubquery { expr: Box::new(operand.clone()), subquery, negated })
}

fn list(parser: &mut Parser, operand: &Expr, negated: bool) -> Result<Expr, ParserError> {
    let list = parser.parse_comma_separated(Parser::parse_expr)?;
    parser.expect_token(&Token::RParen)?;
    Ok(Expr::InList { expr: Box::new(operand.clone()), list, negated })
}
