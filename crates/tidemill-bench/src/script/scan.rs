//! Where a statement of a script ends, as psql's lexer has it.

use super::parse::ScriptError;

/// A statement without its end, and what the end is.
#[derive(Debug, PartialEq)]
pub(super) struct Scanned {
    pub sql: String,
    /// Of the text, the semicolon included.
    pub length: usize,
    pub end: End,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum End {
    Semicolon,
    /// A backslash command comes next.
    Backslash,
    Text,
}

/// Scans to the first end; lines of errors are counted from 0.
pub(super) fn scan(text: &str) -> Result<Scanned, ScriptError> {
    Scan { text, at: 0, sql: String::new(), parentheses: 0, words: Words::default() }.run()
}

struct Scan<'a> {
    text: &'a str,
    at: usize,
    sql: String,
    parentheses: usize,
    words: Words,
}

impl Scan<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn run(mut self) -> Result<Scanned, ScriptError> {
        while let Some(next) = self.rest().chars().next() {
            match next {
                ';' if self.parentheses == 0 && self.words.blocks == 0 => {
                    return Ok(Scanned { sql: self.sql, length: self.at + 1, end: End::Semicolon });
                }
                // `\;` joins statements into one text.
                '\\' if self.rest().starts_with("\\;") => {
                    self.at += 2;
                    self.sql.push(';');
                    self.words.start();
                    continue;
                }
                '\\' => return Ok(Scanned { sql: self.sql, length: self.at, end: End::Backslash }),
                '(' => self.parentheses += 1,
                ')' => self.parentheses = self.parentheses.saturating_sub(1),
                _ => {}
            }
            let length = self.token(next)?;
            let token = &self.text[self.at..self.at + length];
            if is_word_start(next) {
                self.words.take(token, self.parentheses > 0);
            }
            // Whether psql has such a variable; pgbench's are none of psql's.
            self.sql.push_str(if token.starts_with(":{?") { "FALSE" } else { token });
            self.at += length;
        }
        Ok(Scanned { sql: self.sql, length: self.at, end: End::Text })
    }

    /// Bytes of the token at hand. A quoted text or a comment is one: what looks like an end in it is none.
    fn token(&self, next: char) -> Result<usize, ScriptError> {
        let rest = self.rest();
        match next {
            '\'' => {
                let is_escaped = self.sql.ends_with(['e', 'E'])
                    && !self.sql[..self.sql.len() - 1].ends_with(|c: char| c.is_alphanumeric() || c == '_');
                self.quoted('\'', is_escaped)
            }
            '"' => self.quoted('"', false),
            '-' if rest.starts_with("--") => Ok(rest.find('\n').unwrap_or(rest.len())),
            '/' if rest.starts_with("/*") => self.comment(),
            '$' => self.dollar_quoted(),
            // A variable is no word, whatever its name.
            ':' if rest.starts_with("::") => Ok(2),
            ':' if rest.starts_with(":{?") => Ok(existence_length(rest).unwrap_or(1)),
            ':' => Ok(1 + word_length(&rest[1..])),
            next if is_word_start(next) => Ok(word_length(rest)),
            other => Ok(other.len_utf8()),
        }
    }

    fn error<T>(&self, message: String) -> Result<T, ScriptError> {
        Err(ScriptError { message, line: self.text[..self.at].matches('\n').count() })
    }

    fn quoted(&self, quote: char, is_escaped: bool) -> Result<usize, ScriptError> {
        let mut characters = self.rest().char_indices().skip(1);
        while let Some((at, character)) = characters.next() {
            if character == '\\' && is_escaped {
                characters.next();
            } else if character == quote {
                return Ok(at + 1);
            }
        }
        self.error(format!("unterminated {quote}"))
    }

    fn comment(&self) -> Result<usize, ScriptError> {
        let rest = self.rest();
        let mut depth = 0;
        let mut at = 0;
        while at < rest.len() {
            let (step, change) = match &rest.as_bytes()[at..] {
                [b'/', b'*', ..] => (2, 1),
                [b'*', b'/', ..] => (2, -1),
                _ => (1, 0),
            };
            at += step;
            depth += change;
            if depth == 0 {
                return Ok(at);
            }
        }
        self.error("unterminated /* comment".to_owned())
    }

    fn dollar_quoted(&self) -> Result<usize, ScriptError> {
        let rest = self.rest();
        let is_tag = |c: char| c.is_alphanumeric() || c == '_';
        let tag_end = rest[1..].find(|c| !is_tag(c)).map_or(rest.len(), |end| end + 1);
        // `$1` is a parameter, `a$b$` a name.
        let is_quote = rest[tag_end..].starts_with('$')
            && !rest[1..].starts_with(|c: char| c.is_ascii_digit())
            && !self.sql.ends_with(|c| is_tag(c) || c == '$');
        if !is_quote {
            return Ok(1);
        }
        let tag = &rest[..=tag_end];
        match rest[tag.len()..].find(tag) {
            Some(end) => Ok(end + 2 * tag.len()),
            None => self.error(format!("unterminated {tag}")),
        }
    }
}

/// Of `:{?name}`; none where it does not end, or names nothing.
fn existence_length(text: &str) -> Option<usize> {
    let length = text[3..].find(|c: char| !is_word_start(c) && !c.is_ascii_digit())?;
    (length > 0 && text[3 + length..].starts_with('}')).then_some(length + 4)
}

fn is_word_start(c: char) -> bool {
    c.is_ascii_alphabetic() || c == '_' || !c.is_ascii()
}

fn word_length(text: &str) -> usize {
    text.find(|c: char| !is_word_start(c) && !c.is_ascii_digit() && c != '$').unwrap_or(text.len())
}

/// The words of a statement: the body of a function or procedure in SQL (`BEGIN ATOMIC … END`) has semicolons that end nothing.
#[derive(Default)]
struct Words {
    count: usize,
    /// Initials of the first ones, of those words that CREATE [OR REPLACE] FUNCTION and PROCEDURE are made of.
    head: [u8; 4],
    /// BEGINs, and CASEs in them, that are open.
    blocks: usize,
}

impl Words {
    const OF_HEADS: [&'static str; 5] = ["create", "or", "replace", "function", "procedure"];

    /// Of the next statement of the same text.
    fn start(&mut self) {
        (self.count, self.head) = (0, Default::default());
    }

    fn take(&mut self, word: &str, is_in_parentheses: bool) {
        let is = |other: &str| word.eq_ignore_ascii_case(other);
        if let Some(initial) = self.head.get_mut(self.count)
            && Self::OF_HEADS.iter().any(|known| is(known))
        {
            *initial = word.as_bytes()[0].to_ascii_lowercase();
        }
        self.count += 1;
        if is_in_parentheses
            || !matches!(self.head, [b'c', b'f' | b'p', ..] | [b'c', b'o', b'r', b'f' | b'p'])
        {
            return;
        }
        if is("begin") || (is("case") && self.blocks > 0) {
            self.blocks += 1;
        } else if is("end") {
            self.blocks = self.blocks.saturating_sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statements(mut text: &str) -> Vec<String> {
        let mut found = Vec::new();
        loop {
            let scanned = scan(text).unwrap();
            text = &text[scanned.length..];
            found.push(scanned.sql.trim().to_owned());
            if scanned.end == End::Text {
                return found;
            }
        }
    }

    #[test]
    fn the_body_of_a_function_is_not_cut() {
        for head in ["create function", "CREATE OR REPLACE PROCEDURE"] {
            let body = format!(
                "{head} f(a int) begin atomic select 1; select case when a = 1 then 2 end; begin; end; END"
            );
            assert_eq!(statements(&format!("{body};\nselect 2")), [body.as_str(), "select 2"]);
        }
        // Elsewhere these words begin nothing.
        assert_eq!(statements("begin; select 1; end"), ["begin", "select 1", "end"]);
        assert_eq!(statements("create table begin (i int); end"), ["create table begin (i int)", "end"]);
        assert_eq!(
            statements("create function f() as 'begin'; select :begin; x"),
            ["create function f() as 'begin'", "select :begin", "x"]
        );
        assert_eq!(
            statements("create table t () \\; create function f() begin atomic select 1; end; x"),
            ["create table t () ; create function f() begin atomic select 1; end", "x"]
        );
    }
}
