//! Arrays of one dimension: `{a,"b c",NULL}`.

use crate::error::{Result, SqlError, SqlState};

/// The elements of an array literal; `None` is NULL. A prefix like `[1:2]=` must fit and begin with 1.
pub fn parse_array(text: &str) -> Result<Vec<Option<String>>> {
    let mut literal = Literal { text, rest: text };
    let bound = literal.bound()?;
    literal.skip_space();
    if !literal.eat('{') {
        let detail = match bound {
            Some(_) => "Array contents must start with \"{\".",
            None => "Array value must start with \"{\" or dimension information.",
        };
        return Err(literal.malformed(detail));
    }
    let elements = literal.elements()?;
    literal.skip_space();
    if !literal.rest.is_empty() {
        return Err(literal.malformed("Junk after closing right brace."));
    }
    match bound {
        Some(upper) if upper != elements.len() => {
            Err(literal.malformed("Specified array dimensions do not match array contents."))
        }
        _ => Ok(elements),
    }
}

/// Writes elements as PostgreSQL's `array_out` does.
pub fn write_array<'a>(elements: impl IntoIterator<Item = Option<&'a str>>, out: &mut Vec<u8>) {
    out.push(b'{');
    for (i, element) in elements.into_iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        match element {
            Some(element) => write_element(element.as_bytes(), out),
            None => out.extend_from_slice(b"NULL"),
        }
    }
    out.push(b'}');
}

/// In quotes when it could be taken for something else.
pub fn write_element(element: &[u8], out: &mut Vec<u8>) {
    let special = |b: &u8| super::is_space(*b) || matches!(b, b'"' | b'\\' | b'{' | b'}' | b',');
    if !element.is_empty() && !element.iter().any(special) && !element.eq_ignore_ascii_case(b"null") {
        return out.extend_from_slice(element);
    }
    out.push(b'"');
    for &byte in element {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(byte);
    }
    out.push(b'"');
}

struct Literal<'a> {
    text: &'a str,
    rest: &'a str,
}

impl Literal<'_> {
    /// The number of elements that `[1:n]=` announces.
    fn bound(&mut self) -> Result<Option<usize>> {
        self.skip_space();
        if !self.eat('[') {
            return Ok(None);
        }
        let first = self.bound_number()?;
        let (lower, upper) = if self.eat(':') { (first, self.bound_number()?) } else { (1, first) };
        if !self.eat(']') {
            return Err(self.malformed("Missing \"]\" after array dimensions."));
        }
        if upper < lower {
            let message = "upper bound cannot be less than lower bound";
            return Err(SqlError::new(SqlState::ARRAY_SUBSCRIPT_ERROR, message));
        }
        self.skip_space();
        if self.rest.starts_with('[') {
            return Err(multidimensional());
        }
        if !self.eat('=') {
            return Err(self.malformed("Missing \"=\" after array dimensions."));
        }
        match usize::try_from(upper) {
            Ok(upper) if lower == 1 => Ok(Some(upper)),
            _ => Err(SqlError::unsupported("arrays with a lower bound other than 1 are not supported")),
        }
    }

    fn bound_number(&mut self) -> Result<i64> {
        let unsigned = self.rest.strip_prefix(['+', '-']).unwrap_or(self.rest);
        let digits = unsigned.bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            return Err(self.malformed("\"[\" must introduce explicitly-specified array dimensions."));
        }
        let (number, rest) = self.rest.split_at(self.rest.len() - unsigned.len() + digits);
        self.rest = rest;
        number.parse::<i32>().map(i64::from).map_err(|_| {
            SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "array bound is out of integer range")
        })
    }

    /// After the opening brace, up to and with the closing one.
    fn elements(&mut self) -> Result<Vec<Option<String>>> {
        let mut elements = Vec::new();
        self.skip_space();
        if self.eat('}') {
            return Ok(elements);
        }
        loop {
            self.skip_space();
            elements.push(self.element()?);
            self.skip_space();
            match self.next()? {
                ',' => {}
                '}' => return Ok(elements),
                c @ ('{' | '\\') => return Err(self.unexpected(c)),
                _ => return Err(self.malformed("Unexpected array element.")),
            }
        }
    }

    fn element(&mut self) -> Result<Option<String>> {
        match self.rest.chars().next() {
            Some('{') => Err(multidimensional()),
            Some(c @ ('}' | ',')) => Err(self.unexpected(c)),
            Some('"') => self.quoted().map(Some),
            _ => self.bare(),
        }
    }

    fn quoted(&mut self) -> Result<String> {
        let mut element = String::new();
        self.next()?;
        loop {
            match self.next()? {
                '"' => return Ok(element),
                '\\' => element.push(self.next()?),
                c => element.push(c),
            }
        }
    }

    /// Without the space behind it, unless that is escaped.
    fn bare(&mut self) -> Result<Option<String>> {
        let mut element = String::new();
        let (mut kept, mut is_escaped) = (0, false);
        loop {
            match self.rest.chars().next() {
                Some(',' | '}') => break,
                Some('{') => return Err(self.unexpected('{')),
                Some('"') => return Err(self.malformed("Unexpected array element.")),
                _ => {}
            }
            let c = self.next()?;
            if c == '\\' {
                element.push(self.next()?);
                (is_escaped, kept) = (true, element.len());
            } else {
                element.push(c);
                if !is_space(c) {
                    kept = element.len();
                }
            }
        }
        element.truncate(kept);
        let is_null = !is_escaped && element.eq_ignore_ascii_case("null");
        Ok((!is_null).then_some(element))
    }

    fn next(&mut self) -> Result<char> {
        let c = self.rest.chars().next().ok_or_else(|| self.malformed("Unexpected end of input."))?;
        self.rest = &self.rest[c.len_utf8()..];
        Ok(c)
    }

    fn eat(&mut self, wanted: char) -> bool {
        let rest = self.rest.strip_prefix(wanted);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start_matches(is_space);
    }

    fn unexpected(&self, c: char) -> SqlError {
        self.malformed(&format!("Unexpected \"{c}\" character."))
    }

    #[cold]
    fn malformed(&self, detail: &str) -> SqlError {
        let message = format!("malformed array literal: \"{}\"", self.text);
        SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message).with_detail(detail)
    }
}

fn is_space(c: char) -> bool {
    u8::try_from(c).is_ok_and(super::is_space)
}

fn multidimensional() -> SqlError {
    SqlError::unsupported("arrays of more than one dimension are not supported")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Literals and their contents as PostgreSQL 15 prints them.
    #[test]
    fn literals_are_read_and_written_as_postgresql_does() {
        for (literal, printed) in [
            ("{a,\"b c\",NULL}", "{a,\"b c\",NULL}"),
            ("{ }", "{}"),
            ("[1:2]={a,b}", "{a,b}"),
            ("[1]={a}", "{a}"),
            ("{a b , c}", "{\"a b\",c}"),
            ("{nULl,\"null\"}", "{NULL,\"null\"}"),
            ("{\"a\\\"b\"}", "{\"a\\\"b\"}"),
            ("{\\\"a}", "{\"\\\"a\"}"),
            (" { ä , \"\" } ", "{ä,\"\"}"),
        ] {
            let elements = parse_array(literal).unwrap();
            let mut out = Vec::new();
            write_array(elements.iter().map(|element| element.as_deref()), &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), printed, "{literal}");
        }
    }

    /// Literals and the detail of the error that PostgreSQL 15 gives.
    #[test]
    fn errors_are_those_of_postgresql() {
        const END: &str = "Unexpected end of input.";
        const ELEMENT: &str = "Unexpected array element.";
        const START: &str = "Array value must start with \"{\" or dimension information.";
        const JUNK: &str = "Junk after closing right brace.";
        for (literal, detail) in [
            ("{", END),
            ("{a", END),
            ("{\"a", END),
            ("{a\\", END),
            ("{a\\}", END),
            ("a", START),
            ("", START),
            ("{a}b", JUNK),
            ("{}}", JUNK),
            ("{a} x", JUNK),
            ("{a,}", "Unexpected \"}\" character."),
            ("{,a}", "Unexpected \",\" character."),
            ("{a,,b}", "Unexpected \",\" character."),
            ("{a{b}", "Unexpected \"{\" character."),
            ("{a\"b\"}", ELEMENT),
            ("{\"a\"b}", ELEMENT),
            ("{\"a\" \"b\"}", ELEMENT),
            ("[1:2]={a}", "Specified array dimensions do not match array contents."),
            ("[1:2]{a,b}", "Missing \"=\" after array dimensions."),
            ("[1:2", "Missing \"]\" after array dimensions."),
            ("[a:2]={a}", "\"[\" must introduce explicitly-specified array dimensions."),
        ] {
            let error = parse_array(literal).unwrap_err();
            assert_eq!((error.state.0, error.detail.as_deref()), ("22P02", Some(detail)), "{literal}");
            assert_eq!(error.message, format!("malformed array literal: \"{literal}\""));
        }
        for (literal, state) in [("{{a}}", "0A000"), ("[2:3]={a,b}", "0A000"), ("[1:0]={}", "2202E")] {
            assert_eq!(parse_array(literal).unwrap_err().state.0, state, "{literal}");
        }
    }
}
