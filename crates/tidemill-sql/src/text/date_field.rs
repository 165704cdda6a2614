//! Splits the text of a date, time or interval into fields, by what the characters look like.

/// PostgreSQL's `MAXDATEFIELDS`.
const FIELDS_MAX: usize = 25;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Digits, possibly with a point.
    Number,
    /// Digits with two delimiters, or digits and text; also zone names with punctuation (`America/New_York`).
    Date,
    /// Digits with colons.
    Time,
    /// Letters: a month, a unit, a zone, `today` ...
    Word,
    /// A sign and letters: `-infinity`.
    SignedWord,
    /// A sign and digits: an offset, or a signed number of an interval.
    Signed,
}

/// A field, in lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    pub kind: Kind,
    pub text: String,
}

/// `None` is text that cannot be split. `is_keyword` says which words are not the start of a zone's name;
/// `bytes_max` is the length up to which PostgreSQL reads.
pub fn split(bytes: &[u8], bytes_max: usize, is_keyword: impl Fn(&str) -> bool) -> Option<Vec<Field>> {
    let mut fields = Vec::new();
    let mut cursor = Cursor { bytes, at: 0 };
    let mut used = 0;
    while let Some(byte) = cursor.peek() {
        if super::is_space(byte) {
            cursor.at += 1;
            continue;
        }
        let mut text = String::new();
        let kind = match byte {
            b'0'..=b'9' => cursor.number(&mut text),
            b'.' => {
                cursor.take_one(&mut text);
                cursor.take(&mut text, |b| b.is_ascii_digit());
                Kind::Number
            }
            b'a'..=b'z' | b'A'..=b'Z' => cursor.word(&mut text, &is_keyword),
            b'+' | b'-' => cursor.signed(&mut text)?,
            _ if byte.is_ascii_punctuation() => {
                cursor.at += 1;
                continue;
            }
            _ => return None,
        };
        used += text.len() + 1;
        if fields.len() == FIELDS_MAX || used > bytes_max {
            return None;
        }
        fields.push(Field { kind, text });
    }
    Some(fields)
}

struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Cursor<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn take_one(&mut self, text: &mut String) {
        if let Some(byte) = self.peek() {
            text.push(char::from(byte.to_ascii_lowercase()));
            self.at += 1;
        }
    }

    /// Only ASCII is taken.
    fn take(&mut self, text: &mut String, wanted: impl Fn(u8) -> bool) {
        while self.peek().is_some_and(&wanted) {
            self.take_one(text);
        }
    }

    fn number(&mut self, text: &mut String) -> Kind {
        self.take(text, |b| b.is_ascii_digit());
        match self.peek() {
            Some(b':') => {
                self.take(text, |b| b.is_ascii_digit() || matches!(b, b':' | b'.'));
                Kind::Time
            }
            Some(delimiter @ (b'-' | b'/' | b'.')) => self.date(text, delimiter),
            _ => Kind::Number,
        }
    }

    /// What follows the first delimiter of a date, where the month may be a word.
    fn date(&mut self, text: &mut String, delimiter: u8) -> Kind {
        self.take_one(text);
        if !self.peek().is_some_and(|b| b.is_ascii_digit()) {
            self.take(text, |b| b.is_ascii_alphanumeric() || b == delimiter);
            return Kind::Date;
        }
        self.take(text, |b| b.is_ascii_digit());
        if self.peek() == Some(delimiter) {
            self.take(text, |b| b.is_ascii_digit() || b == delimiter);
            return Kind::Date;
        }
        if delimiter == b'.' { Kind::Number } else { Kind::Date }
    }

    fn word(&mut self, text: &mut String, is_keyword: impl Fn(&str) -> bool) -> Kind {
        self.take(text, |b| b.is_ascii_alphabetic());
        let is_date = match self.peek() {
            Some(b'-' | b'/' | b'.') => true,
            Some(b'+' | b'0'..=b'9') => !is_keyword(text),
            _ => false,
        };
        if !is_date {
            return Kind::Word;
        }
        self.take_one(text);
        self.take(text, |b| {
            b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'/' | b'_' | b'.' | b':')
        });
        Kind::Date
    }

    fn signed(&mut self, text: &mut String) -> Option<Kind> {
        self.take_one(text);
        while self.peek().is_some_and(super::is_space) {
            self.at += 1;
        }
        match self.peek()? {
            b'0'..=b'9' => {
                self.take(text, |b| b.is_ascii_digit() || matches!(b, b':' | b'.' | b'-'));
                Some(Kind::Signed)
            }
            b'a'..=b'z' | b'A'..=b'Z' => {
                self.take(text, |b| b.is_ascii_alphabetic());
                Some(Kind::SignedWord)
            }
            _ => None,
        }
    }
}
