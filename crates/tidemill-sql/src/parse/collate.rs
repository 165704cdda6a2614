//! COLLATE behind a cast, which the parser only takes in front of it.
//!
//! What a value is compared by does not depend on which of the two comes first.
//!
//! ```text
//! x::varchar(10)::text COLLATE "C"  =>  x COLLATE "C" ::varchar(10)::text
//! ```

use std::ops::Range;

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan, Word};

/// Words behind the first of a type's name.
const TYPE_WORDS: [Keyword; 6] =
    [Keyword::PRECISION, Keyword::VARYING, Keyword::WITH, Keyword::WITHOUT, Keyword::TIME, Keyword::ZONE];

/// The tokens of a statement with each COLLATE in front of the casts before it.
pub fn with_collations_first(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let chains = chains(&tokens);
    if chains.is_empty() {
        return tokens;
    }
    let mut ordered = Vec::with_capacity(tokens.len());
    let mut rest = 0;
    for chain in chains {
        ordered.extend_from_slice(&tokens[rest..chain.start]);
        rest = chain.start;
        chain.clauses.iter().for_each(|clause| ordered.extend_from_slice(&tokens[clause.clone()]));
        for clause in chain.clauses {
            ordered.extend_from_slice(&tokens[rest..clause.start]);
            rest = clause.end;
        }
    }
    ordered.extend_from_slice(&tokens[rest..]);
    ordered
}

/// Casts, one after the other, with COLLATE behind some of them.
struct Chain {
    /// The first cast.
    start: usize,
    /// COLLATE with its name.
    clauses: Vec<Range<usize>>,
}

fn chains(tokens: &[TokenWithSpan]) -> Vec<Chain> {
    if !tokens.iter().any(|token| is_collate(&token.token)) {
        return Vec::new();
    }
    let is_code = |i: &usize| !matches!(tokens[*i].token, Token::Whitespace(_));
    let code: Vec<usize> = (0..tokens.len()).filter(is_code).collect();
    let token = |place: usize| code.get(place).map(|i| &tokens[*i].token);
    let (mut chains, mut at) = (Vec::new(), 1);
    while at < code.len() {
        let (first, mut clauses) = (at, Vec::new());
        while token(at) == Some(&Token::DoubleColon) {
            at = type_end(at + 1, &token);
            if token(at).is_some_and(is_collate) && is_word(token(at + 1)) {
                let mut last = at + 1;
                while token(last + 1) == Some(&Token::Period) && is_word(token(last + 2)) {
                    last += 2;
                }
                clauses.push(code[at]..code[last] + 1);
                at = last + 1;
            }
        }
        if !clauses.is_empty() {
            chains.push(Chain { start: code[first], clauses });
        }
        at = at.max(first + 1);
    }
    chains
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

#[cfg(test)]
mod tests {
    use sqlparser::dialect::PostgreSqlDialect;
    use sqlparser::tokenizer::Tokenizer;

    use super::*;

    fn moved(sql: &str) -> String {
        let tokens = Tokenizer::new(&PostgreSqlDialect {}, sql).tokenize_with_location().unwrap();
        let is_code = |token: &&TokenWithSpan| !matches!(token.token, Token::Whitespace(_));
        let ordered = with_collations_first(tokens);
        ordered.iter().filter(is_code).map(|t| t.token.to_string()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn each_collation_comes_before_the_casts_behind_its_value() {
        for (written, wanted) in [
            ("x::text COLLATE \"C\" < y", "x COLLATE \"C\" :: text < y"),
            (
                "x::varchar(2)::character varying COLLATE a.\"C\"",
                "x COLLATE a . \"C\" :: varchar ( 2 ) :: character varying",
            ),
            ("x::a COLLATE b::c COLLATE d", "x COLLATE b COLLATE d :: a :: c"),
            ("x::a COLLATE b, y::c COLLATE d", "x COLLATE b :: a , y COLLATE d :: c"),
            ("x::text, y COLLATE d", "x :: text , y COLLATE d"),
            // There is no value.
            ("::text COLLATE d", ":: text COLLATE d"),
        ] {
            assert_eq!(moved(written), wanted, "{written}");
        }
    }

    #[test]
    fn many_collations_take_no_longer_than_as_many_words() {
        let sql = "x::text COLLATE c, ".repeat(100_000);
        assert!(moved(&sql).ends_with("x COLLATE c :: text ,"));
    }
}
