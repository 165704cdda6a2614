//! The members of a JSON object and the elements of an array, as they are written.

use super::json::{Sink, read};
use super::jsonb::unescape;
use crate::Result;

/// The value of a member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JsonValue<'t> {
    Null,
    Bool(bool),
    /// As written.
    Number(&'t str),
    /// As written; [`json_string`] says what it stands for.
    String(&'t str),
    /// An object or an array, as written.
    Composite(&'t str),
}

/// Keys and values in their order; `None` if the text is no object.
pub fn json_members(text: &str) -> Result<Option<Vec<(String, JsonValue<'_>)>>> {
    let mut parts = Parts::new(text);
    read(text, &mut parts)?;
    Ok(parts.is_object.then_some(parts.found))
}

/// `None` if the text is no array.
pub fn json_elements(text: &str) -> Result<Option<Vec<JsonValue<'_>>>> {
    let mut parts = Parts::new(text);
    read(text, &mut parts)?;
    Ok(parts.is_array.then(|| parts.found.into_iter().map(|(_, value)| value).collect()))
}

/// The text that a string in quotes stands for.
pub fn json_string(written: &str) -> Result<String> {
    unescape(written)
}

struct Parts<'t> {
    text: &'t str,
    /// Objects and arrays that are open.
    depth: usize,
    /// Where the value that is open began.
    start: usize,
    /// Of the value that comes; elements of an array have none.
    key: String,
    found: Vec<(String, JsonValue<'t>)>,
    is_object: bool,
    is_array: bool,
}

impl<'t> Parts<'t> {
    fn new(text: &'t str) -> Self {
        let (key, found) = (String::new(), Vec::new());
        Self { text, depth: 0, start: 0, key, found, is_object: false, is_array: false }
    }

    fn value(&mut self, value: JsonValue<'t>) {
        if self.depth == 1 {
            self.found.push((std::mem::take(&mut self.key), value));
        }
    }

    fn begin(&mut self, at: usize) {
        if self.depth == 1 {
            self.start = at;
        }
        self.depth += 1;
    }
}

impl<'t> Sink<'t> for Parts<'t> {
    fn string(&mut self, raw: &'t str) -> Result<()> {
        self.value(JsonValue::String(raw));
        Ok(())
    }

    fn key(&mut self, raw: &'t str) -> Result<()> {
        if self.depth == 1 {
            self.key = unescape(raw)?;
        }
        Ok(())
    }

    fn number(&mut self, raw: &'t str) -> Result<()> {
        self.value(JsonValue::Number(raw));
        Ok(())
    }

    fn word(&mut self, raw: &'static str) {
        self.value(match raw {
            "true" => JsonValue::Bool(true),
            "false" => JsonValue::Bool(false),
            _ => JsonValue::Null,
        });
    }

    fn begin_object(&mut self, at: usize) -> Result<()> {
        self.is_object |= self.depth == 0;
        self.begin(at);
        Ok(())
    }

    fn begin_array(&mut self, at: usize) -> Result<()> {
        self.is_array |= self.depth == 0;
        self.begin(at);
        Ok(())
    }

    fn end(&mut self, at: usize) {
        self.depth -= 1;
        if self.depth == 1 {
            let written = &self.text[self.start..at];
            self.value(JsonValue::Composite(written));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_found() {
        let text = r#" {"a": 1.50, "b\n": "x\u0041\"", "c": [1, {"a": 2}], "d": {"x": {}}, "e": null, "f": true, "g": {}}"#;
        let found = json_members(text).unwrap().unwrap();
        let wanted = [
            ("a", JsonValue::Number("1.50")),
            ("b\n", JsonValue::String(r#""x\u0041\"""#)),
            ("c", JsonValue::Composite(r#"[1, {"a": 2}]"#)),
            ("d", JsonValue::Composite(r#"{"x": {}}"#)),
            ("e", JsonValue::Null),
            ("f", JsonValue::Bool(true)),
            ("g", JsonValue::Composite("{}")),
        ];
        assert_eq!(found, wanted.map(|(key, value)| (key.to_string(), value)));
        assert_eq!(json_string(r#""x\u0041\"""#).unwrap(), "xA\"");
        assert_eq!(json_members("[1]").unwrap(), None);
        assert_eq!(json_members("{}").unwrap(), Some(vec![]));
        let elements = json_elements(r#"[1, "a", {"b": [2]}, [3], null]"#).unwrap().unwrap();
        assert_eq!(elements.len(), 5);
        assert_eq!(elements[2], JsonValue::Composite(r#"{"b": [2]}"#));
        assert_eq!(json_elements("{}").unwrap(), None);
        assert!(json_members("{\"a\": }").is_err());
    }
}
