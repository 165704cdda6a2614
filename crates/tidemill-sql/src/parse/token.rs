//! What PostgreSQL's scanner does and the parser's tokenizer does not: strings that go on in the next line, numbers with
//! letters behind, ISNULL and NOTNULL as words, and names that are words of the parser's only.

use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace, Word};

use super::position::Positions;
use crate::error::{Result, SqlError};

/// The tokens of a statement as PostgreSQL scans them.
pub fn scanned(tokens: &[TokenWithSpan], positions: &Positions) -> Result<Vec<TokenWithSpan>> {
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    // Whether there was a line break since the last token that counts.
    let mut new_line = false;
    for token in tokens {
        if let Token::Whitespace(space) = &token.token {
            let breaks = matches!(space, Whitespace::Newline | Whitespace::SingleLineComment { .. });
            new_line |= breaks;
            out.push(token.clone());
            continue;
        }
        let last = out.iter().rposition(|t| !matches!(t.token, Token::Whitespace(_)));
        let broken = std::mem::take(&mut new_line);
        if let (Token::SingleQuotedString(text), Some(last)) = (&token.token, last)
            && let Token::SingleQuotedString(begun) | Token::EscapedStringLiteral(begun) =
                &mut out[last].token
        {
            if !broken {
                return Err(near(token, positions, "syntax error"));
            }
            begun.push_str(text);
            continue;
        }
        match &token.token {
            Token::Word(word) if is_null_test(word, last.map(|last| &out[last].token)) => {
                out.push(TokenWithSpan { token: Token::make_keyword("IS"), ..token.clone() });
                out.push(TokenWithSpan { token: Token::make_keyword("NULL"), ..token.clone() });
            }
            Token::Word(word) if word.quote_style == Some('"') && word.value.is_empty() => {
                return Err(near(token, positions, "zero-length delimited identifier"));
            }
            Token::Word(Word { quote_style: None, .. }) if joined_to_number(&out, token) => {
                let number = &out[out.len() - 1];
                let both = TokenWithSpan { span: number.span.union(&token.span), ..token.clone() };
                return Err(near(&both, positions, "trailing junk after numeric literal"));
            }
            Token::Number(number, _) if number.contains('_') => {
                return Err(near(token, positions, "trailing junk after numeric literal"));
            }
            Token::Word(word) if is_table_name(word, last.map(|last| &out[last].token)) => {
                let name = Token::make_word(&word.value.to_lowercase(), Some('"'));
                out.push(TokenWithSpan { token: name, ..token.clone() });
            }
            Token::HexStringLiteral(_) | Token::SingleQuotedByteStringLiteral(_) => {
                return Err(bit_string(token, positions));
            }
            _ => out.push(token.clone()),
        }
    }
    Ok(out)
}

/// The keyword that a token is, unless it is quoted.
pub(super) fn keyword(token: &Token) -> Option<Keyword> {
    match token {
        Token::Word(Word { quote_style: None, keyword, .. }) => Some(*keyword),
        _ => None,
    }
}

/// `x ISNULL`: the word can't be a name unless quoted or written behind AS or a dot.
fn is_null_test(word: &Word, last: Option<&Token>) -> bool {
    let name = match last {
        None | Some(Token::Period | Token::Comma | Token::LParen) => true,
        Some(Token::Word(before)) => before.keyword == Keyword::AS || before.keyword == Keyword::SELECT,
        Some(_) => false,
    };
    word.quote_style.is_none() && !name && word.value.eq_ignore_ascii_case("isnull")
}

/// `INSERT INTO local`: the parser expects Hive's `INSERT INTO LOCAL DIRECTORY`.
fn is_table_name(word: &Word, last: Option<&Token>) -> bool {
    let is_into = matches!(last, Some(Token::Word(Word { keyword: Keyword::INTO, quote_style: None, .. })));
    is_into && word.quote_style.is_none() && matches!(word.keyword, Keyword::LOCAL | Keyword::DIRECTORY)
}

fn joined_to_number(out: &[TokenWithSpan], token: &TokenWithSpan) -> bool {
    out.last()
        .is_some_and(|last| matches!(last.token, Token::Number(..)) && last.span.end == token.span.start)
}

/// `0x10` is no number before PostgreSQL 16, and `X'10'` is of a type that there is not.
fn bit_string(token: &TokenWithSpan, positions: &Positions) -> SqlError {
    let error = near(token, positions, "trailing junk after numeric literal");
    match error.message.contains("\"0") {
        true => error,
        false => {
            let position = error.position.unwrap_or(1);
            SqlError::unsupported("bit strings are not supported").with_position(position)
        }
    }
}

fn near(token: &TokenWithSpan, positions: &Positions, what: &str) -> SqlError {
    let (start, end) = (positions.char_at(token.span.start), positions.char_at(token.span.end));
    let text = positions.slice(start, end.max(start + 1));
    SqlError::syntax(format!("{what} at or near \"{text}\"")).with_position(start + 1)
}
