//! Operators as PostgreSQL's scanner (`scan.l`) cuts them, which the parser's tokenizer cuts in other places.
//!
//! The tokenizer is kept from making long operators (`Characters`); those that stand side by side are joined here and cut
//! anew: an operator of several characters may end in `+` or `-` only if it has one of ``~ ! @ # % ^ & | ` ?`` in it.
//!
//! ```text
//! a>-1  =>  a > - 1        a@-1  =>  a @- 1        - +1  =>  - + 1
//! ```

use sqlparser::dialect::{Dialect, PostgreSqlDialect};
use sqlparser::tokenizer::{Location, Span, Token, TokenWithSpan, Tokenizer};
use std::any::TypeId;

use super::dialect::{POSTGRESQL, as_postgresql};
use super::position::Positions;
use crate::error::{Result, SqlError};

/// Characters of an operator's name: PostgreSQL's `NAMEDATALEN` less one.
const OPERATOR_CHARS_MAX: usize = 63;
/// Those that the SQL standard has no operators of.
const NOT_OF_STANDARD: &str = "~!@#%^&|`?";

/// PostgreSQL's dialect for the tokenizer, which then makes no operators but those that it knows.
#[derive(Debug)]
pub(super) struct Characters;

impl Dialect for Characters {
    fn dialect(&self) -> TypeId {
        TypeId::of::<PostgreSqlDialect>()
    }

    fn is_custom_operator_part(&self, _: char) -> bool {
        false
    }

    /// Their operators are made here.
    fn supports_geometric_types(&self) -> bool {
        false
    }

    fn identifier_quote_style(&self, identifier: &str) -> Option<char> {
        POSTGRESQL.identifier_quote_style(identifier)
    }

    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        POSTGRESQL.is_delimited_identifier_start(ch)
    }

    fn is_identifier_start(&self, ch: char) -> bool {
        POSTGRESQL.is_identifier_start(ch)
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        POSTGRESQL.is_identifier_part(ch)
    }

    as_postgresql! {
        supports_unicode_string_literal
        supports_nested_comments
        supports_string_escape_constant
        supports_numeric_literal_underscores
    }
}

/// The tokens of a text with its operators.
pub(super) fn tokens(sql: &str, positions: &Positions) -> Result<Vec<TokenWithSpan>> {
    let scanned = Tokenizer::new(&Characters, sql).tokenize_with_location();
    let scanned = scanned.map_err(|e| positions.tokenizer_error(&e))?;
    let mut tokens = Vec::with_capacity(scanned.len());
    let mut run = Run::default();
    for token in scanned {
        match &token.token {
            // A question mark with a number behind it is an operator and an operand.
            Token::Placeholder(text) if text.starts_with('?') => {
                let (mark, number) = (token.span.start, moved(token.span.start, 1));
                let rest = text[1..].to_string();
                run.push(TokenWithSpan { token: Token::Question, span: Span { start: mark, end: number } });
                if !rest.is_empty() {
                    run.end(&mut tokens, positions)?;
                    let span = Span { start: number, end: token.span.end };
                    tokens.push(TokenWithSpan { token: Token::Number(rest, false), span });
                }
            }
            part if is_operator(part) => run.push(token),
            _ => {
                run.end(&mut tokens, positions)?;
                tokens.push(token);
            }
        }
    }
    run.end(&mut tokens, positions)?;
    Ok(tokens)
}

/// Whether a token is of nothing but characters of operators.
fn is_operator(token: &Token) -> bool {
    use Token::*;
    match token {
        Char(ch) => *ch == '`',
        Number(..) | Word(_) | Whitespace(_) | Comma | LParen | RParen | Period | SemiColon | EOF => false,
        SingleQuotedString(_) | EscapedStringLiteral(_) | DollarQuotedString(_) | Placeholder(_) => false,
        Colon | DoubleColon | Assignment | LBracket | RBracket | LBrace | RBrace | Backslash => false,
        other => is_operator_text(&other.to_string()),
    }
}

fn is_operator_text(text: &str) -> bool {
    text.chars().all(|ch| "+-*/<>=".contains(ch) || NOT_OF_STANDARD.contains(ch))
}

/// Operators that stand side by side.
#[derive(Default)]
struct Run {
    tokens: Vec<TokenWithSpan>,
}

impl Run {
    fn push(&mut self, token: TokenWithSpan) {
        self.tokens.push(token);
    }

    /// Adds what PostgreSQL makes of them.
    fn end(&mut self, out: &mut Vec<TokenWithSpan>, positions: &Positions) -> Result<()> {
        match self.tokens.as_slice() {
            [] => return Ok(()),
            [one] if one.token != Token::DoubleEq => out.append(&mut self.tokens),
            [first, .., last] | [first @ last] => {
                let (mut start, end) = (first.span.start, last.span.end);
                let text = match self.tokens.iter().any(|token| token.token == Token::Neq) {
                    // It is written in two ways, which is of consequence here.
                    true => positions.slice(positions.char_at(start), positions.char_at(end)).to_string(),
                    false => self.tokens.iter().map(|token| token.token.to_string()).collect(),
                };
                let mut text = text.as_str();
                while !text.is_empty() {
                    let length = operator_length(text);
                    if length > OPERATOR_CHARS_MAX {
                        let message = format!("operator too long at or near \"{}\"", &text[..length]);
                        return Err(SqlError::syntax(message).with_position(positions.char_at(start) + 1));
                    }
                    let span = Span { start, end: moved(start, length) };
                    out.push(TokenWithSpan { token: operator(&text[..length]), span });
                    (start, text) = (span.end, &text[length..]);
                }
                self.tokens.clear();
            }
        }
        Ok(())
    }
}

/// Bytes of the first operator of a text of such characters.
fn operator_length(text: &str) -> usize {
    let signs_cut = text.trim_end_matches(['+', '-']).len().max(1);
    if text[..text.len() - 1].contains(|ch| NOT_OF_STANDARD.contains(ch)) { text.len() } else { signs_cut }
}

/// The parser's token of an operator; one that it does not know is no operator of any type.
fn operator(text: &str) -> Token {
    let custom = || Token::CustomBinaryOperator(text.to_string());
    match text {
        "?" => Token::Question,
        "?|" => Token::QuestionPipe,
        "?&" => Token::QuestionAnd,
        "==" => custom(),
        _ => match Tokenizer::new(&Characters, text).tokenize() {
            Ok(tokens) if tokens.len() == 1 => tokens.into_iter().next().unwrap_or_else(custom),
            _ => custom(),
        },
    }
}

/// A location so many characters further in its line.
fn moved(location: Location, chars: usize) -> Location {
    Location { column: location.column + chars as u64, ..location }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(sql: &str) -> String {
        let tokens = tokens(sql, &Positions::new(sql)).unwrap();
        let is_code = |token: &&TokenWithSpan| !matches!(token.token, Token::Whitespace(_));
        tokens.iter().filter(is_code).map(|t| t.token.to_string()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn operators_end_where_postgresql_ends_them() {
        for (written, wanted) in [
            ("a>-1", "a > - 1"),
            ("a>=-1", "a >= - 1"),
            ("a<>-1", "a <> - 1"),
            ("a<-1", "a < - 1"),
            ("a>+-+1", "a > + - + 1"),
            ("-+1", "- + 1"),
            ("a*-1", "a * - 1"),
            ("a||-1", "a ||- 1"),
            ("a!=-1", "a !=- 1"),
            ("a%-1", "a %- 1"),
            ("a^-1", "a ^- 1"),
            ("a@-1", "a @- 1"),
            ("a->-1", "a -> - 1"),
            ("a#>>b", "a #>> b"),
            ("a#-b", "a #- b"),
            ("a==b", "a == b"),
            ("a?b?1?|c?&d?-e", "a ? b ? 1 ?| c ?& d ?- e"),
            ("a<->b", "a <-> b"),
            ("a~~*b!~~*c", "a ~~* b !~~* c"),
            ("count(*)-1", "count ( * ) - 1"),
            ("a<--1\n2", "a < 2"),
            ("a-/*b*/-c", "a - - c"),
            ("ä>-'ä>-ö'>-ö", "ä > - 'ä>-ö' > - ö"),
        ] {
            assert_eq!(cut(written), wanted, "{written}");
        }
    }

    #[test]
    fn a_long_operator_is_refused() {
        let sql = |length| format!("1 {} 2", "<".repeat(length));
        assert!(tokens(&sql(OPERATOR_CHARS_MAX), &Positions::new("")).is_ok());
        let sql = sql(OPERATOR_CHARS_MAX + 1);
        let error = tokens(&sql, &Positions::new(&sql)).unwrap_err();
        assert!(error.message.starts_with("operator too long at or near \"<<"), "{}", error.message);
        assert_eq!(error.position, Some(3));
    }
}
