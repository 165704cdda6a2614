//! `json`: checks the text, which is kept as it is. The reader has no recursion, so that no nesting can
//! exhaust the stack.

use crate::error::{Result, SqlError, SqlState};

/// About what PostgreSQL allows with its default of `max_stack_depth`.
const DEPTH_MAX: usize = 6_500;
/// How much of the line an error shows.
const SHOWN_BYTES_MAX: usize = 50;

/// Whether PostgreSQL's `json` takes the text.
pub fn check_json(text: &str) -> Result<()> {
    read(text, &mut Checked)
}

/// What is told about a text while it is read. Strings and keys come raw: with their quotes and escapes,
/// known to be well formed.
pub(crate) trait Sink<'t> {
    fn string(&mut self, _raw: &'t str) -> Result<()> {
        Ok(())
    }
    fn key(&mut self, _raw: &'t str) -> Result<()> {
        Ok(())
    }
    fn number(&mut self, _raw: &'t str) -> Result<()> {
        Ok(())
    }
    /// `true`, `false` or `null`.
    fn word(&mut self, _raw: &'static str) {}
    /// Begins at this byte of the text.
    fn begin_object(&mut self, _at: usize) -> Result<()> {
        Ok(())
    }
    fn begin_array(&mut self, _at: usize) -> Result<()> {
        Ok(())
    }
    /// Has ended before this byte.
    fn end(&mut self, _at: usize) {}
}

struct Checked;

impl Sink<'_> for Checked {}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Container {
    Array,
    Object,
}

pub(crate) fn read<'t>(text: &'t str, sink: &mut impl Sink<'t>) -> Result<()> {
    let mut reader = Reader { lexer: Lexer { text, at: 0 }, open: Vec::new() };
    loop {
        if reader.value(sink)? {
            // An object or array has been opened: its first key or value comes next.
            continue;
        }
        if !reader.after_value(sink)? {
            return Ok(());
        }
    }
}

struct Reader<'a> {
    lexer: Lexer<'a>,
    open: Vec<Container>,
}

impl<'t> Reader<'t> {
    /// Reads a value. Whether another one comes next, because it has opened something that is not empty.
    fn value(&mut self, sink: &mut impl Sink<'t>) -> Result<bool> {
        let token = self.lexer.next()?;
        match token.kind {
            Kind::String => sink.string(token.text).map_err(|e| self.lexer.located(e, &token))?,
            Kind::Number => sink.number(token.text)?,
            Kind::Word(word) => sink.word(word),
            Kind::Punctuation(b'{') => return self.object(sink),
            Kind::Punctuation(b'[') => return self.array(sink),
            _ => return Err(self.lexer.expected("JSON value", &token)),
        }
        Ok(false)
    }

    fn object(&mut self, sink: &mut impl Sink<'t>) -> Result<bool> {
        self.push(Container::Object)?;
        sink.begin_object(self.lexer.at - 1)?;
        let token = self.lexer.next()?;
        match token.kind {
            Kind::Punctuation(b'}') => {
                self.close(sink);
                Ok(false)
            }
            Kind::String => self.key(&token, sink).map(|()| true),
            _ => Err(self.lexer.expected("string or \"}\"", &token)),
        }
    }

    fn array(&mut self, sink: &mut impl Sink<'t>) -> Result<bool> {
        self.push(Container::Array)?;
        sink.begin_array(self.lexer.at - 1)?;
        let before = self.lexer.at;
        if self.lexer.next()?.kind == Kind::Punctuation(b']') {
            self.close(sink);
            return Ok(false);
        }
        self.lexer.at = before;
        Ok(true)
    }

    /// A key and its colon.
    fn key(&mut self, token: &Token<'t>, sink: &mut impl Sink<'t>) -> Result<()> {
        sink.key(token.text).map_err(|e| self.lexer.located(e, token))?;
        let colon = self.lexer.next()?;
        match colon.kind {
            Kind::Punctuation(b':') => Ok(()),
            _ => Err(self.lexer.expected("\":\"", &colon)),
        }
    }

    /// Closes what ends after a value. Whether another value follows.
    fn after_value(&mut self, sink: &mut impl Sink<'t>) -> Result<bool> {
        loop {
            let token = self.lexer.next()?;
            match (self.open.last(), token.kind) {
                (None, Kind::End) => return Ok(false),
                (None, _) => return Err(self.lexer.expected("end of input", &token)),
                (Some(Container::Array), Kind::Punctuation(b']'))
                | (Some(Container::Object), Kind::Punctuation(b'}')) => self.close(sink),
                (Some(Container::Array), Kind::Punctuation(b',')) => return Ok(true),
                (Some(Container::Object), Kind::Punctuation(b',')) => {
                    let key = self.lexer.next()?;
                    if key.kind != Kind::String {
                        return Err(self.lexer.expected("string", &key));
                    }
                    return self.key(&key, sink).map(|()| true);
                }
                (Some(Container::Array), _) => return Err(self.lexer.expected("\",\" or \"]\"", &token)),
                (Some(Container::Object), _) => return Err(self.lexer.expected("\",\" or \"}\"", &token)),
            }
        }
    }

    fn push(&mut self, container: Container) -> Result<()> {
        if self.open.len() == DEPTH_MAX {
            return Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded")
                .with_detail(format!("JSON may be nested {DEPTH_MAX} levels deep.")));
        }
        self.open.push(container);
        Ok(())
    }

    fn close(&mut self, sink: &mut impl Sink<'t>) {
        self.open.pop();
        sink.end(self.lexer.at);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    String,
    Number,
    Word(&'static str),
    Punctuation(u8),
    End,
}

struct Token<'a> {
    kind: Kind,
    text: &'a str,
    /// Where in the text it ends.
    end: usize,
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    fn next(&mut self) -> Result<Token<'a>> {
        let bytes = self.text.as_bytes();
        while matches!(bytes.get(self.at), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
        let start = self.at;
        let (kind, end) = match bytes.get(start) {
            None => (Kind::End, start),
            Some(b'"') => (Kind::String, self.string_end(start)?),
            Some(b'-' | b'0'..=b'9') => (Kind::Number, self.number_end(start)?),
            Some(&byte @ (b'{' | b'}' | b'[' | b']' | b',' | b':')) => (Kind::Punctuation(byte), start + 1),
            Some(_) => self.word(start)?,
        };
        self.at = end;
        Ok(Token { kind, text: &self.text[start..end], end })
    }

    fn word(&self, start: usize) -> Result<(Kind, usize)> {
        let end = self.word_end(start);
        match &self.text[start..end] {
            "true" => Ok((Kind::Word("true"), end)),
            "false" => Ok((Kind::Word("false"), end)),
            "null" => Ok((Kind::Word("null"), end)),
            _ => Err(self.invalid_token(start, end.max(start + 1))),
        }
    }

    /// Past a run of letters, digits, underscores and whatever is not ASCII.
    fn word_end(&self, start: usize) -> usize {
        let is_word = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_' || *b >= 0x80;
        start + self.text.as_bytes()[start..].iter().take_while(|b| is_word(b)).count()
    }

    fn number_end(&self, start: usize) -> Result<usize> {
        let bytes = self.text.as_bytes();
        let digits = |from: usize| bytes[from..].iter().take_while(|b| b.is_ascii_digit()).count();
        let mut at = start + usize::from(bytes[start] == b'-');
        let whole = digits(at);
        let mut is_valid = whole == 1 || (whole > 1 && bytes[at] != b'0');
        at += whole;
        if bytes.get(at) == Some(&b'.') {
            let fraction = digits(at + 1);
            is_valid &= fraction > 0;
            at += 1 + fraction;
        }
        if matches!(bytes.get(at), Some(b'e' | b'E')) {
            at += 1 + usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
            let exponent = digits(at);
            is_valid &= exponent > 0;
            at += exponent;
        }
        let end = self.word_end(at);
        if is_valid && end == at { Ok(at) } else { Err(self.invalid_token(start, end)) }
    }

    fn string_end(&self, start: usize) -> Result<usize> {
        let bytes = self.text.as_bytes();
        let mut at = start + 1;
        loop {
            match bytes.get(at) {
                None => return Err(self.invalid_token(start, at)),
                Some(b'"') => return Ok(at + 1),
                Some(b'\\') => at = self.escape_end(start, at + 1)?,
                Some(byte @ ..0x20) => {
                    return Err(self.error(format!("Character with value 0x{byte:02x} must be escaped."), at));
                }
                Some(_) => at += 1,
            }
        }
    }

    /// `at` is behind the backslash.
    fn escape_end(&self, start: usize, at: usize) -> Result<usize> {
        let bytes = self.text.as_bytes();
        match bytes.get(at) {
            None => Err(self.invalid_token(start, at)),
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(at + 1),
            Some(b'u') => {
                for i in at + 1..at + 5 {
                    match bytes.get(i) {
                        None => return Err(self.invalid_token(start, i)),
                        Some(byte) if byte.is_ascii_hexdigit() => {}
                        Some(_) => {
                            let detail = "\"\\u\" must be followed by four hexadecimal digits.";
                            return Err(self.error(detail, self.char_end(i)));
                        }
                    }
                }
                Ok(at + 5)
            }
            Some(_) => {
                let end = self.char_end(at);
                Err(self.error(format!("Escape sequence \"\\{}\" is invalid.", &self.text[at..end]), end))
            }
        }
    }

    fn char_end(&self, at: usize) -> usize {
        at + self.text[at..].chars().next().map_or(0, char::len_utf8)
    }

    #[cold]
    fn invalid_token(&self, start: usize, end: usize) -> SqlError {
        let end = end.min(self.text.len());
        self.error(format!("Token \"{}\" is invalid.", &self.text[start..end]), end)
    }

    #[cold]
    fn expected(&self, what: &str, token: &Token<'_>) -> SqlError {
        match token.kind {
            Kind::End => self.error("The input string ended unexpectedly.", token.end),
            _ => self.error(format!("Expected {what}, but found \"{}\".", token.text), token.end),
        }
    }

    #[cold]
    fn error(&self, detail: impl Into<String>, end: usize) -> SqlError {
        SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, "invalid input syntax for type json")
            .with_detail(detail)
            .with_context(self.context(end))
    }

    fn located(&self, error: SqlError, token: &Token<'_>) -> SqlError {
        error.with_context(self.context(token.end))
    }

    /// The line up to the error, shortened in front.
    fn context(&self, end: usize) -> String {
        let line_start = self.text[..end].rfind('\n').map_or(0, |newline| newline + 1);
        let line = 1 + self.text[..end].bytes().filter(|byte| *byte == b'\n').count();
        let mut start = self.text.ceil_char_boundary(line_start.max(end.saturating_sub(SHOWN_BYTES_MAX - 1)));
        if start - line_start <= 3 {
            start = line_start;
        }
        let prefix = if start > line_start { "..." } else { "" };
        let suffix = if self.text[end..].is_empty() || self.text[end..].starts_with(['\n', '\r']) {
            ""
        } else {
            "..."
        };
        format!("JSON data, line {line}: {prefix}{}{suffix}", &self.text[start..end])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts with the detail and the context of the error that PostgreSQL 15 gives.
    #[test]
    fn errors_are_those_of_postgresql() {
        const ENDED: &str = "The input string ended unexpectedly.";
        const LONG: &str = "123456789012345678901234567890123456789012345678901234567890 abcdef";
        for (text, detail, context) in [
            ("{\"a\":1,}", "Expected string, but found \"}\".", "line 1: {\"a\":1,}"),
            ("{", ENDED, "line 1: {"),
            ("", ENDED, "line 1: "),
            ("[1,]", "Expected JSON value, but found \"]\".", "line 1: [1,]"),
            ("[1 2]", "Expected \",\" or \"]\", but found \"2\".", "line 1: [1 2..."),
            ("{\"a\" 1}", "Expected \":\", but found \"1\".", "line 1: {\"a\" 1..."),
            ("{1:2}", "Expected string or \"}\", but found \"1\".", "line 1: {1..."),
            (
                "{\"a\":1 \"b\":2}",
                "Expected \",\" or \"}\", but found \"\"b\"\".",
                "line 1: {\"a\":1 \"b\"...",
            ),
            ("tru", "Token \"tru\" is invalid.", "line 1: tru"),
            ("01", "Token \"01\" is invalid.", "line 1: 01"),
            ("12abc", "Token \"12abc\" is invalid.", "line 1: 12abc"),
            (".5", "Token \".\" is invalid.", "line 1: ...."),
            ("\"abc", "Token \"\"abc\" is invalid.", "line 1: \"abc"),
            ("\"a\\qb\"", "Escape sequence \"\\q\" is invalid.", "line 1: \"a\\q..."),
            ("\"\\u12g4\"", "\"\\u\" must be followed by four hexadecimal digits.", "line 1: \"\\u12g..."),
            ("\"a\nb\"", "Character with value 0x0a must be escaped.", "line 1: \"a"),
            ("[1,\n 2,\n x]", "Token \"x\" is invalid.", "line 3:  x..."),
            ("1\"a\"", "Expected end of input, but found \"\"a\"\".", "line 1: 1\"a\""),
            (
                LONG,
                "Token \"abcdef\" is invalid.",
                "line 1: ...901234567890123456789012345678901234567890 abcdef",
            ),
        ] {
            let error = check_json(text).unwrap_err();
            assert_eq!((error.state.0, error.detail.as_deref()), ("22P02", Some(detail)), "{text}");
            assert_eq!(error.context, Some(format!("JSON data, {context}")), "{text}");
        }
    }
}
