//! `jsonb`: JSON in PostgreSQL's normal form. Keys are unique (the last one wins) and ordered by length, then
//! bytes; numbers are written out as numeric prints them; strings have only the escapes that they need.

use crate::error::{Result, SqlError, SqlState};

use super::json::{Sink, read};

/// PostgreSQL's limits of numeric.
const WHOLE_DIGITS_MAX: i64 = 131_072;
const SCALE_MAX: i64 = 16_383;

/// Appends the normal form of a JSON text; after an error `out` is as before.
pub fn write_jsonb(text: &str, out: &mut Vec<u8>) -> Result<()> {
    let mut tree = Tree::default();
    read(text, &mut tree)?;
    tree.write(out);
    Ok(())
}

type Id = usize;

enum Node {
    /// A string, a number or a word, as it is written.
    Scalar(Vec<u8>),
    Array(Vec<Id>),
    Object(Vec<(String, Id)>),
}

/// All nodes of a document in one vector, so that neither writing nor dropping it recurses. The first is the
/// root.
#[derive(Default)]
struct Tree {
    nodes: Vec<Node>,
    open: Vec<Id>,
    /// The key of the next value, while its object is open.
    key: Option<String>,
}

impl Tree {
    fn add(&mut self, node: Node) -> Id {
        let id = self.nodes.len();
        self.nodes.push(node);
        match self.open.last().map(|parent| &mut self.nodes[*parent]) {
            Some(Node::Array(items)) => items.push(id),
            Some(Node::Object(members)) => members.push((self.key.take().unwrap_or_default(), id)),
            Some(Node::Scalar(_)) | None => {}
        }
        id
    }

    fn write(&self, out: &mut Vec<u8>) {
        enum Step<'a> {
            Value(Id),
            Key(&'a str),
            Text(&'static [u8]),
        }
        let mut steps = vec![Step::Value(0)];
        while let Some(step) = steps.pop() {
            match step {
                Step::Text(text) => out.extend_from_slice(text),
                Step::Key(key) => {
                    write_string(key, out);
                    out.extend_from_slice(b": ");
                }
                // Steps are taken from the end, so that they are put there in reverse.
                Step::Value(id) => match &self.nodes[id] {
                    Node::Scalar(text) => out.extend_from_slice(text),
                    Node::Array(items) => {
                        steps.push(Step::Text(b"]"));
                        for (i, item) in items.iter().enumerate().rev() {
                            steps.push(Step::Value(*item));
                            steps.push(Step::Text(if i == 0 { b"[" } else { b", " }));
                        }
                        if items.is_empty() {
                            out.push(b'[');
                        }
                    }
                    Node::Object(members) => {
                        steps.push(Step::Text(b"}"));
                        for (i, (key, value)) in members.iter().enumerate().rev() {
                            steps.push(Step::Value(*value));
                            steps.push(Step::Key(key));
                            steps.push(Step::Text(if i == 0 { b"{" } else { b", " }));
                        }
                        if members.is_empty() {
                            out.push(b'{');
                        }
                    }
                },
            }
        }
    }
}

impl Sink<'_> for Tree {
    fn string(&mut self, raw: &str) -> Result<()> {
        let mut text = Vec::with_capacity(raw.len());
        write_string(&unescape(raw)?, &mut text);
        self.add(Node::Scalar(text));
        Ok(())
    }

    fn key(&mut self, raw: &str) -> Result<()> {
        self.key = Some(unescape(raw)?);
        Ok(())
    }

    fn number(&mut self, raw: &str) -> Result<()> {
        let text = plain_number(raw)?;
        self.add(Node::Scalar(text));
        Ok(())
    }

    fn word(&mut self, raw: &'static str) {
        self.add(Node::Scalar(raw.as_bytes().to_vec()));
    }

    fn begin_object(&mut self, _: usize) -> Result<()> {
        let id = self.add(Node::Object(Vec::new()));
        self.open.push(id);
        Ok(())
    }

    fn begin_array(&mut self, _: usize) -> Result<()> {
        let id = self.add(Node::Array(Vec::new()));
        self.open.push(id);
        Ok(())
    }

    fn end(&mut self, _: usize) {
        let closed = self.open.pop();
        if let Some(Node::Object(members)) = closed.and_then(|id| self.nodes.get_mut(id)) {
            // The sort is stable: of equal keys the last one comes last, and is kept.
            members.sort_by(|(a, _), (b, _)| a.len().cmp(&b.len()).then_with(|| a.cmp(b)));
            members.reverse();
            members.dedup_by(|later, kept| later.0 == kept.0);
            members.reverse();
        }
    }
}

/// What a string in quotes stands for. Its escapes are known to be well formed.
pub(crate) fn unescape(raw: &str) -> Result<String> {
    let mut rest = raw.strip_prefix('"').and_then(|raw| raw.strip_suffix('"')).unwrap_or(raw);
    let mut text = String::with_capacity(rest.len());
    let mut high = None;
    while let Some(slash) = memchr::memchr(b'\\', rest.as_bytes()) {
        if high.is_some() && slash > 0 {
            return Err(lone_surrogate());
        }
        text.push_str(&rest[..slash]);
        let escape = rest.as_bytes().get(slash + 1).copied().unwrap_or(b'\\');
        rest = &rest[slash + 2..];
        if escape == b'u' {
            let (hex, after) = rest.split_at(4);
            rest = after;
            let unit = u32::from_str_radix(hex, 16).expect("the reader has checked the digits");
            text.extend(code_point(unit, &mut high)?);
            continue;
        }
        if high.is_some() {
            return Err(lone_surrogate());
        }
        text.push(match escape {
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            other => char::from(other),
        });
    }
    if high.is_some() {
        return Err(lone_surrogate());
    }
    text.push_str(rest);
    Ok(text)
}

/// `high` is the first half of a pair that has been read before.
fn code_point(unit: u32, high: &mut Option<u32>) -> Result<Option<char>> {
    match (unit, high.take()) {
        (0xd800..=0xdbff, None) => {
            *high = Some(unit);
            Ok(None)
        }
        (0xd800..=0xdbff, Some(_)) => {
            Err(invalid("Unicode high surrogate must not follow a high surrogate."))
        }
        (0xdc00..=0xdfff, Some(high)) => {
            Ok(char::from_u32(0x10000 + ((high - 0xd800) << 10) + (unit - 0xdc00)))
        }
        (0xdc00..=0xdfff, None) | (_, Some(_)) => Err(lone_surrogate()),
        (0, None) => {
            Err(SqlError::new(SqlState::UNTRANSLATABLE_CHARACTER, "unsupported Unicode escape sequence")
                .with_detail("\\u0000 cannot be converted to text."))
        }
        (_, None) => Ok(char::from_u32(unit)),
    }
}

fn lone_surrogate() -> SqlError {
    invalid("Unicode low surrogate must follow a high surrogate.")
}

fn invalid(detail: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, "invalid input syntax for type json")
        .with_detail(detail)
}

fn write_string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    for byte in text.bytes() {
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0c => out.extend_from_slice(b"\\f"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            ..0x20 => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}

/// A JSON number without exponent, with the digits after the point that its exponent leaves. There is no
/// negative zero.
fn plain_number(raw: &str) -> Result<Vec<u8>> {
    let overflow = || SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value overflows numeric format");
    let (mantissa, exponent) = match raw.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i64>().map_err(|_| overflow())?),
        None => (raw, 0),
    };
    let unsigned = mantissa.strip_prefix('-').unwrap_or(mantissa);
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let is_zero = !unsigned.bytes().any(|byte| matches!(byte, b'1'..=b'9'));
    if exponent.unsigned_abs() > u64::from(u32::MAX / 4) {
        return Err(overflow());
    }
    let scale = (fraction.len() as i64 - exponent).max(0);
    let digits = format!("{whole}{fraction}");
    let leading = digits.bytes().take_while(|byte| *byte == b'0').count() as i64;
    // Digits before the point; negative when zeros follow it.
    let point = if is_zero { 0 } else { whole.len() as i64 + exponent - leading };
    if scale > SCALE_MAX || point > WHOLE_DIGITS_MAX {
        return Err(overflow());
    }
    let significant = if is_zero { "" } else { &digits[leading as usize..] };
    let digit = |at: i64| {
        usize::try_from(at).ok().and_then(|at| significant.as_bytes().get(at)).copied().unwrap_or(b'0')
    };
    let mut text = Vec::new();
    if mantissa.len() > unsigned.len() && !is_zero {
        text.push(b'-');
    }
    text.extend((0..point).map(digit));
    if point <= 0 {
        text.push(b'0');
    }
    if scale > 0 {
        text.push(b'.');
        text.extend((point..point + scale).map(digit));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deep_nesting_is_refused_and_does_not_overflow_the_stack() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let mut out = Vec::new();
        write_jsonb(&nested(6_000), &mut out).unwrap();
        assert_eq!(out.len(), 12_000);
        let error = write_jsonb(&nested(1_000_000), &mut out).unwrap_err();
        assert_eq!((error.state.0, out.len()), ("54001", 12_000));
    }

    #[test]
    fn the_last_of_equal_keys_is_kept() {
        let mut out = Vec::new();
        write_jsonb(r#"{"b":1,"a":2,"aa":3,"a":[1e2,-0],"b":{"x":{}}}"#, &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), r#"{"a": [100, 0], "b": {"x": {}}, "aa": 3}"#);
    }
}
