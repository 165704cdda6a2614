//! COLLATE behind a cast, which the parser only takes in front of it.
//!
//! What a value is compared by does not depend on which of the two comes first.
//!
//! ```text
//! x::varchar(10)::text COLLATE "C"  =>  x COLLATE "C" ::varchar(10)::text
//! ```

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan, Word};

/// Words behind the first of a type's name.
const TYPE_WORDS: [Keyword; 6] =
    [Keyword::PRECISION, Keyword::VARYING, Keyword::WITH, Keyword::WITHOUT, Keyword::TIME, Keyword::ZONE];

/// The tokens of a statement with each COLLATE in front of the casts before it.
pub fn with_collations_first(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let collations = tokens.iter().filter(|token| is_collate(&token.token)).count();
    for _ in 0..collations {
        let Some((cast, clause)) = misplaced(&tokens) else { break };
        let moved: Vec<_> = tokens.drain(clause).collect();
        tokens.splice(cast..cast, moved);
    }
    tokens
}

/// The place of the first cast before a COLLATE, and the places of that with its name.
fn misplaced(tokens: &[TokenWithSpan]) -> Option<(usize, std::ops::RangeInclusive<usize>)> {
    let is_code = |i: &usize| !matches!(tokens[*i].token, Token::Whitespace(_));
    let code: Vec<usize> = (0..tokens.len()).filter(is_code).collect();
    let token = |place: usize| code.get(place).map(|i| &tokens[*i].token);
    let mut at = 0;
    while at < code.len() {
        let first = at;
        while token(at) == Some(&Token::DoubleColon) {
            at = type_end(at + 1, &token);
        }
        if at > first && token(at).is_some_and(is_collate) && is_word(token(at + 1)) {
            let mut last = at + 1;
            while token(last + 1) == Some(&Token::Period) && is_word(token(last + 2)) {
                last += 2;
            }
            return Some((code[first], code[at]..=code[last]));
        }
        at = at.max(first + 1);
    }
    None
}

/// What comes behind the name of a type, its modifiers and its brackets.
fn type_end<'t>(mut at: usize, token: &impl Fn(usize) -> Option<&'t Token>) -> usize {
    at += 1;
    while token(at) == Some(&Token::Period) {
        at += 2;
    }
    loop {
        let closing = match token(at) {
            Some(Token::LParen) => Token::RParen,
            Some(Token::LBracket) => Token::RBracket,
            Some(Token::Word(Word { quote_style: None, keyword, .. })) if TYPE_WORDS.contains(keyword) => {
                at += 1;
                continue;
            }
            _ => return at,
        };
        while token(at).is_some_and(|found| *found != closing) {
            at += 1;
        }
        at += 1;
    }
}

fn is_collate(token: &Token) -> bool {
    matches!(token, Token::Word(Word { quote_style: None, keyword: Keyword::COLLATE, .. }))
}

fn is_word(token: Option<&Token>) -> bool {
    matches!(token, Some(Token::Word(_)))
}
