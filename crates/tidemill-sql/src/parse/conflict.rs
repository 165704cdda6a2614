//! ON CONFLICT behind a SELECT without FROM, where the parser takes ON for the name of a column.
//!
//! ```text
//! INSERT INTO t SELECT 1 ON CONFLICT DO NOTHING  =>  INSERT INTO t SELECT 1 WHERE TRUE ON CONFLICT DO NOTHING
//! ```

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan};

use super::token::keyword;

/// The tokens of a statement that the parser reads as PostgreSQL does.
pub fn with_conflict_told(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let conflict = tokens.iter().rposition(|token| keyword(&token.token) == Some(Keyword::CONFLICT));
    let Some(conflict) = conflict else { return tokens };
    let is_code = |token: &TokenWithSpan| !matches!(token.token, Token::Whitespace(_));
    let Some(on) = tokens[..conflict].iter().rposition(is_code) else { return tokens };
    if keyword(&tokens[on].token) == Some(Keyword::ON) && ends_select_list(&tokens[..on]) {
        let span = tokens[on].span;
        let condition =
            ["WHERE", "TRUE"].map(|word| TokenWithSpan { token: Token::make_keyword(word), span });
        tokens.splice(on..on, condition);
    }
    tokens
}

/// Whether the last clause is a SELECT of this level.
fn ends_select_list(tokens: &[TokenWithSpan]) -> bool {
    let mut depth = 0_usize;
    for token in tokens.iter().rev() {
        match &token.token {
            Token::RParen => depth += 1,
            Token::LParen if depth == 0 => return false,
            Token::LParen => depth -= 1,
            token if depth == 0 => match keyword(token) {
                Some(Keyword::SELECT) => return true,
                Some(Keyword::FROM | Keyword::WHERE | Keyword::VALUES | Keyword::INSERT) => return false,
                _ => {}
            },
            _ => {}
        }
    }
    false
}
