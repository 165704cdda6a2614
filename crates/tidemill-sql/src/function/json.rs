//! json and jsonb: reading, writing in PostgreSQL's two forms, access and construction.

use arrow::array::{Array, ArrayRef, AsArray};

use super::kernel::{Int4, Json, Jsonb, Sql, Text, row};
use super::{Call, Param, Registry, Returns, string, textual};
use crate::error::{Result, SqlError, SqlState};
use crate::numeric::Numeric as Number;
use crate::types::{Scalar, Type};

/// Deeper nesting than this is refused.
const DEPTH_MAX: usize = 1000;

const TEXT: Type = Type::new(Scalar::Text);

/// A json value; numbers keep their digits, objects their order and duplicates.
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
    parse(text).map(|_| ())
}

/// The text of a jsonb: keys in its order (by length, then bytes), the last of equal keys, one space after `:` and `,`.
pub(crate) fn canonical(text: &str) -> Result<String> {
    let node = normal(parse(text)?)?;
    let mut out = String::new();
    write(&node, &mut out, true);
    Ok(out)
}

fn normal(node: Node) -> Result<Node> {
    let storable = |text: &str| match text.contains('\0') {
        true => Err(SqlError::new(SqlState::UNTRANSLATABLE_CHARACTER, "unsupported Unicode escape sequence")
            .with_detail("\\u0000 cannot be converted to text.")),
        false => Ok(()),
    };
    Ok(match node {
        Node::String(text) => {
            storable(&text)?;
            Node::String(text)
        }
        Node::Number(digits) => Node::Number(Number::parse(&digits)?.to_string()),
        Node::Array(items) => Node::Array(items.into_iter().map(normal).collect::<Result<_>>()?),
        Node::Object(members) => {
            let mut sorted: Vec<(String, Node)> = vec![];
            for (key, value) in members.into_iter().rev() {
                storable(&key)?;
                if !sorted.iter().any(|(k, _)| *k == key) {
                    sorted.push((key, normal(value)?));
                }
            }
            sorted.sort_by(|(a, _), (b, _)| a.len().cmp(&b.len()).then_with(|| a.cmp(b)));
            Node::Object(sorted)
        }
        other => other,
    })
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

pub(crate) fn parse(text: &str) -> Result<Node> {
    let mut parser = Parser { text, at: 0, depth: 0 };
    let node = parser.value()?;
    parser.blanks();
    if parser.at < text.len() { Err(parser.unexpected("end of input")) } else { Ok(node) }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl Parser<'_> {
    fn blanks(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r']).len();
    }

    fn peek(&mut self) -> Option<u8> {
        self.blanks();
        self.text.as_bytes().get(self.at).copied()
    }

    fn unexpected(&self, wanted: &str) -> SqlError {
        let rest = &self.text[self.at..];
        let error =
            SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, "invalid input syntax for type json");
        if rest.is_empty() {
            return error.with_detail("The input string ended unexpectedly.");
        }
        let word = rest.find(|c: char| !c.is_alphanumeric() && c != '_').filter(|end| *end > 0);
        let end = word.unwrap_or_else(|| {
            if rest.starts_with(char::is_alphanumeric) {
                rest.len()
            } else {
                rest.chars().next().map_or(0, char::len_utf8)
            }
        });
        let token = &rest[..end];
        if token.starts_with(char::is_alphabetic) {
            return error.with_detail(format!("Token \"{token}\" is invalid."));
        }
        error.with_detail(format!("Expected {wanted}, but found \"{token}\"."))
    }

    fn value(&mut self) -> Result<Node> {
        match self.peek() {
            Some(b'{') => self.nested(Self::object),
            Some(b'[') => self.nested(Self::array),
            Some(b'"') => self.string().map(Node::String),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => {
                for (word, node) in
                    [("null", Node::Null), ("true", Node::Bool(true)), ("false", Node::Bool(false))]
                {
                    let rest = &self.text[self.at..];
                    if rest.starts_with(word)
                        && !rest[word.len()..].starts_with(|c: char| c.is_alphanumeric())
                    {
                        self.at += word.len();
                        return Ok(node);
                    }
                }
                Err(self.unexpected("JSON value"))
            }
        }
    }

    fn nested(&mut self, inner: fn(&mut Self) -> Result<Node>) -> Result<Node> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "json is nested too deeply"));
        }
        self.at += 1;
        let node = inner(self)?;
        self.at += 1;
        self.depth -= 1;
        Ok(node)
    }

    fn object(&mut self) -> Result<Node> {
        let mut members = vec![];
        if self.peek() == Some(b'}') {
            return Ok(Node::Object(members));
        }
        loop {
            if self.peek() != Some(b'"') {
                return Err(self.unexpected(if members.is_empty() { "string or \"}\"" } else { "string" }));
            }
            let key = self.string()?;
            if self.peek() != Some(b':') {
                return Err(self.unexpected("\":\""));
            }
            self.at += 1;
            members.push((key, self.value()?));
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => return Ok(Node::Object(members)),
                _ => return Err(self.unexpected("\",\" or \"}\"")),
            }
        }
    }

    fn array(&mut self) -> Result<Node> {
        let mut items = vec![];
        if self.peek() == Some(b']') {
            return Ok(Node::Array(items));
        }
        loop {
            items.push(self.value()?);
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => return Ok(Node::Array(items)),
                _ => return Err(self.unexpected("\",\" or \"]\"")),
            }
        }
    }

    fn number(&mut self) -> Result<Node> {
        let rest = &self.text[self.at..];
        let end =
            rest.find(|c: char| !matches!(c, '0'..='9' | '+' | '-' | '.' | 'e' | 'E')).unwrap_or(rest.len());
        let digits = &rest[..end];
        let follows = rest[end..].starts_with(char::is_alphanumeric);
        if follows || serde_json::from_str::<serde_json::Number>(digits).is_err() && !is_long_number(digits) {
            let word = rest
                .find(|c: char| !c.is_alphanumeric() && !matches!(c, '+' | '-' | '.'))
                .unwrap_or(rest.len());
            let error =
                SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, "invalid input syntax for type json");
            return Err(error.with_detail(format!("Token \"{}\" is invalid.", &rest[..word])));
        }
        self.at += end;
        Ok(Node::Number(digits.to_string()))
    }

    fn string(&mut self) -> Result<String> {
        let rest = &self.text.as_bytes()[self.at + 1..];
        let mut end = 0;
        while rest.get(end).is_some_and(|b| *b != b'"') {
            end += if rest[end] == b'\\' { 2 } else { 1 };
        }
        let stop = (self.at + end + 2).min(self.text.len());
        let error = |detail: &str| {
            SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, "invalid input syntax for type json")
                .with_detail(detail)
        };
        let token =
            self.text.get(self.at..stop).ok_or_else(|| error("The input string ended unexpectedly."))?;
        let text =
            serde_json::from_str(token).map_err(|_| error(&format!("Token \"{token}\" is invalid.")))?;
        self.at = stop;
        Ok(text)
    }
}

/// Numbers that are beyond a double are json too.
fn is_long_number(digits: &str) -> bool {
    let unsigned = digits.strip_prefix('-').unwrap_or(digits);
    let leading_zero =
        unsigned.len() > 1 && unsigned.starts_with('0') && !unsigned[1..].starts_with(['.', 'e', 'E']);
    let bare_point = unsigned.starts_with('.') || unsigned.ends_with('.') || unsigned.contains(".e");
    !leading_zero && !bare_point && Number::parse(digits).is_ok()
}

pub(super) fn register(r: &mut Registry) {
    access::<Json>(r);
    access::<Jsonb>(r);
    inspect::<Json>(r);
    inspect::<Jsonb>(r);
    construct(r);
    r.strict2::<Jsonb, Text, super::kernel::Bool>("?", |_, json, key| {
        Ok(match parse(json)? {
            Node::Object(members) => members.iter().any(|(k, _)| k == key),
            Node::Array(items) => items.contains(&Node::String(key.to_string())),
            Node::String(s) => s == key,
            _ => false,
        })
    });
    r.strict2::<Jsonb, Jsonb, super::kernel::Bool>("@>", |_, a, b| {
        Ok(contains(&parse(a)?, &parse(b)?, true))
    });
    r.strict2::<Jsonb, Jsonb, super::kernel::Bool>("<@", |_, a, b| {
        Ok(contains(&parse(b)?, &parse(a)?, true))
    });
    r.strict2::<Jsonb, Jsonb, Jsonb>("||", |_, a, b| concatenate(parse(a)?, parse(b)?));
    r.strict2::<Jsonb, Text, Jsonb>("-", |_, json, key| {
        let node = match parse(json)? {
            Node::Object(members) => Node::Object(members.into_iter().filter(|(k, _)| k != key).collect()),
            Node::Array(items) => {
                let removed = Node::String(key.to_string());
                Node::Array(items.into_iter().filter(|item| *item != removed).collect())
            }
            _ => return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "cannot delete from scalar")),
        };
        Ok(shown(&node, true))
    });
}

pub(crate) fn shown(node: &Node, spaced: bool) -> String {
    let mut out = String::new();
    write(node, &mut out, spaced);
    out
}

/// As `->>` shows a value: a string without quotes, null as NULL.
fn plain(node: Node, spaced: bool) -> Option<String> {
    match node {
        Node::Null => None,
        Node::String(s) => Some(s),
        other => Some(shown(&other, spaced)),
    }
}

fn member(node: Node, key: &str) -> Option<Node> {
    match node {
        Node::Object(members) => members.into_iter().rev().find(|(k, _)| k == key).map(|(_, value)| value),
        _ => None,
    }
}

fn item(node: Node, index: i32) -> Option<Node> {
    match node {
        Node::Array(mut items) => {
            let at = if index >= 0 {
                index as usize
            } else {
                items.len().checked_sub(index.unsigned_abs() as usize)?
            };
            (at < items.len()).then(|| items.swap_remove(at))
        }
        _ => None,
    }
}

/// One step of a path: a key, or an index if the value is an array.
fn step(node: Node, key: &str) -> Option<Node> {
    match node {
        Node::Array(_) => item(node, key.parse().ok()?),
        _ => member(node, key),
    }
}

fn access<J: for<'a> Sql<Out = String, Ref<'a> = &'a str>>(r: &mut Registry) {
    if J::SCALAR == Scalar::Json {
        r.maybe2::<J, Text, J>("->", |_, json, key| Ok(raw_step(json, Some(key), None)?.map(str::to_string)));
        r.maybe2::<J, Int4, J>("->", |_, json, i| Ok(raw_step(json, None, Some(i))?.map(str::to_string)));
        r.maybe2::<J, Text, Text>("->>", |_, json, key| {
            raw_step(json, Some(key), None)?.map_or(Ok(None), raw_text)
        });
        r.maybe2::<J, Int4, Text>("->>", |_, json, i| {
            raw_step(json, None, Some(i))?.map_or(Ok(None), raw_text)
        });
    } else {
        r.maybe2::<J, Text, J>("->", |_, json, key| Ok(member(parse(json)?, key).map(|n| shown(&n, true))));
        r.maybe2::<J, Int4, J>("->", |_, json, i| Ok(item(parse(json)?, i).map(|n| shown(&n, true))));
        r.maybe2::<J, Text, Text>("->>", |_, json, key| {
            Ok(member(parse(json)?, key).and_then(|n| plain(n, true)))
        });
        r.maybe2::<J, Int4, Text>("->>", |_, json, i| Ok(item(parse(json)?, i).and_then(|n| plain(n, true))));
    }
    let texts = Param::Is(Type::array(Scalar::Text));
    let ours = Param::Is(Type::new(J::SCALAR));
    r.kernel("#>", &[ours, texts], Returns::Is(Type::new(J::SCALAR)), |call| by_path::<J>(call));
    r.kernel("#>>", &[ours, texts], Returns::Is(TEXT), by_path::<Text>);
    let prefix = J::SCALAR == Scalar::Jsonb;
    let (path, path_text) = if prefix {
        ("jsonb_extract_path", "jsonb_extract_path_text")
    } else {
        ("json_extract_path", "json_extract_path_text")
    };
    r.variadic(path, &[ours, Param::Is(TEXT)], Returns::Is(Type::new(J::SCALAR)), |call| by_keys::<J>(call));
    r.variadic(path_text, &[ours, Param::Is(TEXT)], Returns::Is(TEXT), by_keys::<Text>);
}

/// The values directly inside a json text, as they are written, with their keys if it is an object.
fn children(text: &str) -> Result<Vec<(Option<String>, &str)>> {
    let mut parser = Parser { text, at: 0, depth: 0 };
    let object = match parser.peek() {
        Some(b'{') => true,
        Some(b'[') => false,
        _ => return Ok(vec![]),
    };
    parser.at += 1;
    let mut out = vec![];
    while !matches!(parser.peek(), Some(b'}' | b']') | None) {
        let key = if object { Some(parser.string()?) } else { None };
        if object {
            parser.blanks();
            parser.at += 1;
        }
        parser.blanks();
        let start = parser.at;
        parser.value()?;
        out.push((key, &text[start..parser.at]));
        if parser.peek() == Some(b',') {
            parser.at += 1;
        }
    }
    Ok(out)
}

/// One step into a json text; what is found is shown as it is written there.
fn raw_step<'a>(text: &'a str, key: Option<&str>, index: Option<i32>) -> Result<Option<&'a str>> {
    let mut inside = children(text)?;
    if inside.first().is_some_and(|(key, _)| key.is_some()) {
        return Ok(inside
            .into_iter()
            .rev()
            .find(|(k, _)| key.is_some() && k.as_deref() == key)
            .map(|(_, value)| value));
    }
    let Some(index) = index else { return Ok(None) };
    let at = if index >= 0 {
        Some(index as usize)
    } else {
        inside.len().checked_sub(index.unsigned_abs() as usize)
    };
    Ok(at.filter(|at| *at < inside.len()).map(|at| inside.swap_remove(at).1))
}

fn raw_text(text: &str) -> Result<Option<String>> {
    Ok(match text.as_bytes().first() {
        Some(b'"') => plain(parse(text)?, false),
        Some(b'n') => None,
        _ => Some(text.to_string()),
    })
}

fn found<R: Sql<Out = String>>(node: Option<Node>, spaced: bool) -> Option<String> {
    if R::SCALAR == Scalar::Text { plain(node?, spaced) } else { Some(shown(&node?, spaced)) }
}

/// Follows a path of keys and indexes; a null key finds nothing.
fn walk<R: Sql<Out = String>>(
    json: &str,
    keys: impl Iterator<Item = Result<Option<String>>>,
    spaced: bool,
) -> Result<Option<String>> {
    if spaced {
        let mut node = Some(parse(json)?);
        for key in keys {
            let key = key?;
            node = node.zip(key).and_then(|(node, key)| step(node, &key));
        }
        return Ok(found::<R>(node, spaced));
    }
    let mut text = json.trim();
    for key in keys {
        let Some(key) = key? else { return Ok(None) };
        let Some(next) = raw_step(text, Some(&key), key.parse().ok())? else { return Ok(None) };
        text = next;
    }
    if R::SCALAR == Scalar::Text { raw_text(text) } else { Ok(Some(text.to_string())) }
}

fn by_path<R: Sql<Out = String>>(call: &Call) -> Result<ArrayRef> {
    let json = call.column::<Json>(0)?;
    let spaced = call.types[0].scalar == Scalar::Jsonb;
    let path = &call.inputs[1];
    let lists =
        path.array.as_list_opt::<i32>().ok_or_else(|| SqlError::internal("a path that is no array"))?;
    call.rows::<R>(|row| {
        let json = row!(json, row);
        let i = path.index(row);
        if lists.is_null(i) {
            return Ok(None);
        }
        let keys = lists.value(i);
        let keys = super::cast::strings(&keys)?.iter().map(|key| Ok(key.map(str::to_string)));
        walk::<R>(json, keys, spaced)
    })
}

fn by_keys<R: Sql<Out = String>>(call: &Call) -> Result<ArrayRef> {
    let json = call.column::<Json>(0)?;
    let spaced = call.types[0].scalar == Scalar::Jsonb;
    let keys = (1..call.inputs.len()).map(|i| call.column::<Text>(i)).collect::<Result<Vec<_>>>()?;
    call.rows::<R>(|row| {
        let keys = keys.iter().map(|key| Ok(key.get(row)?.map(str::to_string)));
        walk::<R>(row!(json, row), keys, spaced)
    })
}

fn inspect<J>(r: &mut Registry)
where
    J: for<'a> Sql<Ref<'a> = &'a str, Out = String>,
{
    let jsonb = J::SCALAR == Scalar::Jsonb;
    let name = |json, b| if jsonb { b } else { json };
    r.strict1::<J, Text>(name("json_typeof", "jsonb_typeof"), |_, json| {
        Ok(match parse(json)? {
            Node::Null => "null",
            Node::Bool(_) => "boolean",
            Node::Number(_) => "number",
            Node::String(_) => "string",
            Node::Array(_) => "array",
            Node::Object(_) => "object",
        }
        .to_string())
    });
    r.strict1::<J, Int4>(name("json_array_length", "jsonb_array_length"), |_, json| match parse(json)? {
        Node::Array(items) => Ok(items.len() as i32),
        Node::Object(_) => Err(not_array("cannot get array length of a non-array")),
        _ => Err(not_array("cannot get array length of a scalar")),
    });
    let ours = [Param::Is(Type::new(J::SCALAR))];
    let text = Returns::Is(TEXT);
    r.set_returning(name("json_object_keys", "jsonb_object_keys"), &ours, text, |call| {
        elements(call, |node| match node {
            Node::Object(members) => Ok(members.into_iter().map(|(key, _)| Some(key)).collect()),
            other => Err(unfit(call, "object_keys", &other)),
        })
    });
    r.set_returning(name("json_array_elements_text", "jsonb_array_elements_text"), &ours, text, |call| {
        let spaced = call.types[0].scalar == Scalar::Jsonb;
        elements(call, |node| match node {
            Node::Array(items) => Ok(items.into_iter().map(|item| plain(item, spaced)).collect()),
            other => Err(unfit(call, "array_elements_text", &other)),
        })
    });
    let same = Returns::Is(Type::new(J::SCALAR));
    r.set_returning(name("json_array_elements", "jsonb_array_elements"), &ours, same, |call| {
        let spaced = call.types[0].scalar == Scalar::Jsonb;
        let texts = elements(call, |node| match node {
            Node::Array(items) => Ok(items.iter().map(|item| Some(shown(item, spaced))).collect()),
            other => Err(unfit(call, "array_elements", &other)),
        })?;
        arrow::compute::cast(&texts, call.returns).map_err(|e| SqlError::internal(e.to_string()))
    });
}

/// What the two families of functions say of a value that they can't take apart.
fn unfit(call: &Call, function: &str, node: &Node) -> SqlError {
    let binary = call.types[0].scalar == Scalar::Jsonb;
    let kind = match node {
        Node::Array(_) => "an array",
        Node::Object(_) => "an object",
        _ => "a scalar",
    };
    not_array(&match (binary, function) {
        (_, "object_keys") => {
            format!("cannot call {}_object_keys on {kind}", if binary { "jsonb" } else { "json" })
        }
        (true, _) => format!("cannot extract elements from {kind}"),
        (false, _) if matches!(node, Node::Object(_)) => {
            format!("cannot call json_{function} on a non-array")
        }
        (false, _) => format!("cannot call json_{function} on a scalar"),
    })
}

fn not_array(message: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

fn elements(call: &Call, f: impl Fn(Node) -> Result<Vec<Option<String>>>) -> Result<ArrayRef> {
    let json = call.column::<Json>(0)?;
    string::text_lists(call, |row| json.get(row)?.map(|json| f(parse(json)?)).transpose())
}

fn contains(a: &Node, b: &Node, top: bool) -> bool {
    match (a, b) {
        (Node::Object(a), Node::Object(b)) => {
            b.iter().all(|(key, value)| a.iter().any(|(k, v)| k == key && contains(v, value, false)))
        }
        (Node::Array(a), Node::Array(b)) => b.iter().all(|value| a.iter().any(|v| contains(v, value, false))),
        // An array contains a scalar that is one of its elements, at the top only.
        (Node::Array(a), scalar) if top && !matches!(scalar, Node::Object(_)) => {
            a.iter().any(|item| !matches!(item, Node::Array(_)) && contains(item, scalar, false))
        }
        (Node::Number(a), Node::Number(b)) => Number::parse(a).ok() == Number::parse(b).ok(),
        (a, b) => a == b,
    }
}

fn concatenate(a: Node, b: Node) -> Result<String> {
    let merged = match (a, b) {
        (Node::Object(mut a), Node::Object(b)) => {
            a.extend(b);
            Node::Object(a)
        }
        (a, b) => {
            let items = |node| if let Node::Array(items) = node { items } else { vec![node] };
            let mut all = items(a);
            all.extend(items(b));
            Node::Array(all)
        }
    };
    Ok(shown(&normal(merged)?, true))
}

fn construct(r: &mut Registry) {
    let json = Returns::Is(Type::new(Scalar::Json));
    let jsonb = Returns::Is(Type::new(Scalar::Jsonb));
    r.kernel("to_json", &[Param::Any], json, |call| build(call, false, |values| Ok(values.remove(0))));
    r.kernel("to_jsonb", &[Param::Any], jsonb, |call| build(call, true, |values| Ok(values.remove(0))));
    r.kernel("array_to_json", &[Param::AnyArray], json, |call| {
        build(call, false, |values| Ok(values.remove(0)))
    });
    for (name, returns, kernel) in [
        ("json_build_array", json, (|call| build_all(call, false, false)) as fn(&Call) -> _),
        ("jsonb_build_array", jsonb, |call| build_all(call, true, false)),
        ("json_build_object", json, |call| build_all(call, false, true)),
        ("jsonb_build_object", jsonb, |call| build_all(call, true, true)),
    ] {
        r.variadic(name, &[Param::Any], returns, kernel);
        r.kernel(name, &[], returns, kernel);
    }
}

/// Builds one json of the arguments of each row; null arguments make the single-argument forms null.
fn build(call: &Call, binary: bool, f: impl Fn(&mut Vec<String>) -> Result<String>) -> Result<ArrayRef> {
    call.rows::<Json>(|row| {
        let mut values = vec![];
        for (input, ty) in call.inputs.iter().zip(call.types) {
            let i = input.index(row);
            if input.array.is_null(i) {
                return Ok(None);
            }
            values.push(value_text(&input.array, *ty, i, call)?);
        }
        let text = f(&mut values)?;
        if binary { canonical(&text).map(Some) } else { Ok(Some(text)) }
    })
}

fn build_all(call: &Call, binary: bool, object: bool) -> Result<ArrayRef> {
    if object && call.inputs.len() % 2 == 1 {
        let error = SqlError::new(
            SqlState::INVALID_PARAMETER_VALUE,
            "argument list must have even number of elements",
        );
        let function = if binary { "jsonb_build_object" } else { "json_build_object" };
        return Err(error.with_hint(format!(
            "The arguments of {function}() must consist of alternating keys and values."
        )));
    }
    call.rows::<Json>(|row| {
        let mut parts = vec![];
        for (n, (input, ty)) in call.inputs.iter().zip(call.types).enumerate() {
            let i = input.index(row);
            if object && n % 2 == 0 {
                let key = textual::shown(&input.array, *ty, i, call.vars)?.ok_or_else(|| {
                    let message = format!("argument {} cannot be null", n + 1);
                    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
                        .with_hint("Object keys should be text.")
                })?;
                let mut quoted = String::new();
                quote(&key, &mut quoted);
                parts.push(quoted + " : ");
            } else {
                let value = value_text(&input.array, *ty, i, call)?;
                match parts.last_mut() {
                    Some(last) if object => last.push_str(&value),
                    _ => parts.push(value),
                }
            }
        }
        let joined = parts.join(", ");
        let text = if object { format!("{{{joined}}}") } else { format!("[{joined}]") };
        if binary { canonical(&text).map(Some) } else { Ok(Some(text)) }
    })
}

/// A value of any type as json: numbers and booleans as they are, timestamps in ISO form, the rest as strings.
pub(crate) fn value_text(array: &ArrayRef, ty: Type, i: usize, call: &Call) -> Result<String> {
    if array.is_null(i) {
        return Ok("null".into());
    }
    if ty.array {
        let list =
            array.as_list_opt::<i32>().ok_or_else(|| SqlError::internal("an array that is no list"))?;
        let values = list.value(i);
        let element = Type { array: false, ..ty };
        let items =
            (0..values.len()).map(|j| value_text(&values, element, j, call)).collect::<Result<Vec<_>>>()?;
        return Ok(format!("[{}]", items.join(",")));
    }
    let text = textual::shown(array, ty, i, call.vars)?.unwrap_or_default();
    use Scalar::*;
    Ok(match ty.scalar {
        Bool => if text == "t" { "true" } else { "false" }.to_string(),
        Json | Jsonb => text,
        Int2 | Int4 | Int8 | Float4 | Float8 | Numeric if !text.contains(['N', 'I']) => text,
        scalar => {
            let iso = match scalar {
                Timestamp | Timestamptz => text.replacen(' ', "T", 1),
                _ => text,
            };
            let iso = if scalar == Timestamptz && iso.len() > 3 && iso.as_bytes()[iso.len() - 3] != b':' {
                iso + ":00"
            } else {
                iso
            };
            let mut quoted = String::new();
            quote(&iso, &mut quoted);
            quoted
        }
    })
}
