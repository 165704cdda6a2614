//! `(VALUES (3))` as a value, and behind `ANY` and `IN`: the parser takes the word for a function's name there.

use sqlparser::ast::Expr;
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::Token;

use super::token::keyword;

/// The query behind a parenthesis, or `None` and nothing taken.
pub(super) fn parse(parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
    let is_there = parser.get_current_token().token == Token::LParen && follow(parser, 0);
    is_there.then(|| parser.parse_query().map(Expr::Subquery))
}

/// Whether the rows of VALUES come after so many tokens.
pub(super) fn follow(parser: &Parser, tokens: usize) -> bool {
    keyword(&parser.peek_nth_token_ref(tokens).token) == Some(Keyword::VALUES)
        && parser.peek_nth_token_ref(tokens + 1).token == Token::LParen
}
