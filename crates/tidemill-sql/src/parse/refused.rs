//! Forms of PostgreSQL that there are not here, and that the parser would take for something else.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::position::Positions;
use super::token;
use crate::error::{Result, SqlError};

/// Refuses `WHERE CURRENT OF` and `FROM ONLY`.
pub fn check(tokens: &[TokenWithSpan], positions: &Positions) -> Result<()> {
    let mut code = tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_)));
    let [mut before, mut word] = [code.next(), code.next()];
    let keyword = |token: &TokenWithSpan| token::keyword(&token.token);
    for next in code.map(Some).chain([None]) {
        let refused = match (before.and_then(keyword), word.and_then(keyword), next) {
            (Some(Keyword::WHERE), Some(Keyword::CURRENT), Some(next)) if is(next, "of") => {
                Some(("WHERE CURRENT OF", "Name the row by its columns."))
            }
            (Some(Keyword::FROM | Keyword::JOIN | Keyword::UPDATE), Some(Keyword::ONLY), Some(next))
                if matches!(next.token, Token::Word(_) | Token::LParen) =>
            {
                Some(("ONLY", "No table inherits from another one; leave the word out."))
            }
            _ => None,
        };
        if let (Some((what, hint)), Some(word)) = (refused, word) {
            return Err(SqlError::unsupported(format!("{what} is not supported"))
                .with_position(positions.char_at(word.span.start) + 1)
                .with_hint(hint));
        }
        (before, word) = (word, next);
    }
    Ok(())
}

fn is(token: &TokenWithSpan, word: &str) -> bool {
    matches!(&token.token, Token::Word(w) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word))
}
