//! Json values as trees, for the functions that look into them, and their two written forms.

use crate::error::{Result, SqlError, SqlState};
use crate::text::{JsonSink, check_json, read_json, unescape_json, write_jsonb};

/// Deeper nesting than this is refused: trees are walked by recursion.
const DEPTH_MAX: usize = 1000;

/// Numbers keep their digits, objects their order and duplicates.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Node {
    Null,
    Bool(bool),
    Number(String),
    String(String),
    Array(Vec<Node>),
    Object(Vec<(String, Node)>),
}

/// Fails unless the text is json.
pub(crate) fn checked(text: &str) -> Result<()> {
    check_json(text)
}

/// The text of a jsonb: keys in its order (by length, then bytes), the last of equal keys, one space after `:` and `,`.
pub(crate) fn canonical(text: &str) -> Result<String> {
    let mut out = Vec::with_capacity(text.len());
    write_jsonb(text, &mut out)?;
    String::from_utf8(out).map_err(|_| SqlError::internal("json that is not text"))
}

pub(crate) fn parse(text: &str) -> Result<Node> {
    let mut tree = Tree::default();
    read_json(text, &mut tree)?;
    tree.last.ok_or_else(|| SqlError::internal("json without a value"))
}

#[derive(Default)]
struct Tree {
    /// What is open, each with the key that it will have in the one around it.
    open: Vec<(Option<String>, Node)>,
    /// Of the next value.
    key: Option<String>,
    /// The value that was closed at the outermost level.
    last: Option<Node>,
}

impl Tree {
    fn add(&mut self, key: Option<String>, node: Node) {
        match self.open.last_mut() {
            Some((_, Node::Array(items))) => items.push(node),
            Some((_, Node::Object(members))) => members.push((key.unwrap_or_default(), node)),
            _ => self.last = Some(node),
        }
    }

    fn add_next(&mut self, node: Node) {
        let key = self.key.take();
        self.add(key, node);
    }

    fn begin(&mut self, node: Node) -> Result<()> {
        if self.open.len() == DEPTH_MAX {
            return Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "json is nested too deeply"));
        }
        self.open.push((self.key.take(), node));
        Ok(())
    }
}

impl<'t> JsonSink<'t> for Tree {
    fn string(&mut self, raw: &'t str) -> Result<()> {
        self.add_next(Node::String(unescape_json(raw)?));
        Ok(())
    }

    fn key(&mut self, raw: &'t str) -> Result<()> {
        self.key = Some(unescape_json(raw)?);
        Ok(())
    }

    fn number(&mut self, raw: &'t str) -> Result<()> {
        self.add_next(Node::Number(raw.to_string()));
        Ok(())
    }

    fn word(&mut self, raw: &'static str) {
        self.add_next(match raw {
            "null" => Node::Null,
            word => Node::Bool(word == "true"),
        });
    }

    fn begin_object(&mut self, _: usize) -> Result<()> {
        self.begin(Node::Object(vec![]))
    }

    fn begin_array(&mut self, _: usize) -> Result<()> {
        self.begin(Node::Array(vec![]))
    }

    fn end(&mut self, _: usize) {
        if let Some((key, node)) = self.open.pop() {
            self.add(key, node);
        }
    }
}

/// The values directly inside a json text, as they are written, with their keys if it is an object.
pub(super) fn children(text: &str) -> Result<Vec<(Option<String>, &str)>> {
    let mut inside = Children { text, depth: 0, start: 0, key: None, found: vec![] };
    read_json(text, &mut inside)?;
    Ok(inside.found)
}

struct Children<'t> {
    text: &'t str,
    depth: usize,
    /// Where the child that is open begins.
    start: usize,
    key: Option<String>,
    found: Vec<(Option<String>, &'t str)>,
}

impl<'t> Children<'t> {
    fn add(&mut self, raw: &'t str) {
        if self.depth == 1 {
            self.found.push((self.key.take(), raw));
        }
    }

    fn begin(&mut self, at: usize) {
        if self.depth == 1 {
            self.start = at;
        }
        self.depth += 1;
    }
}

impl<'t> JsonSink<'t> for Children<'t> {
    fn string(&mut self, raw: &'t str) -> Result<()> {
        self.add(raw);
        Ok(())
    }

    fn key(&mut self, raw: &'t str) -> Result<()> {
        if self.depth == 1 {
            self.key = Some(unescape_json(raw)?);
        }
        Ok(())
    }

    fn number(&mut self, raw: &'t str) -> Result<()> {
        self.add(raw);
        Ok(())
    }

    fn word(&mut self, raw: &'static str) {
        self.add(raw);
    }

    fn begin_object(&mut self, at: usize) -> Result<()> {
        self.begin(at);
        Ok(())
    }

    fn begin_array(&mut self, at: usize) -> Result<()> {
        self.begin(at);
        Ok(())
    }

    fn end(&mut self, at: usize) {
        self.depth -= 1;
        self.add(&self.text[self.start..at]);
    }
}

pub(crate) fn shown(node: &Node, spaced: bool) -> String {
    let mut out = String::new();
    write(node, &mut out, spaced);
    out
}

pub(crate) fn write(node: &Node, out: &mut String, spaced: bool) {
    let (comma, colon) = if spaced { (", ", ": ") } else { (",", ":") };
    match node {
        Node::Null => out.push_str("null"),
        Node::Bool(b) => out.push_str(if *b { "true" } else { "false" }),
        Node::Number(n) => out.push_str(n),
        Node::String(s) => quote(s, out),
        Node::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push_str(comma);
                }
                write(item, out, spaced);
            }
            out.push(']');
        }
        Node::Object(members) => {
            out.push('{');
            for (i, (key, value)) in members.iter().enumerate() {
                if i > 0 {
                    out.push_str(comma);
                }
                quote(key, out);
                out.push_str(colon);
                write(value, out, spaced);
            }
            out.push('}');
        }
    }
}

/// As `escape_json`.
pub(crate) fn quote(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            c if c < ' ' => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
}
