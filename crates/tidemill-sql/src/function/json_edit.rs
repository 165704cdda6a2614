//! Functions that change json: `jsonb_set`, `jsonb_insert`, deletion, `jsonb_strip_nulls`; and `jsonb_pretty`.

use arrow::array::{Array, ArrayRef, AsArray};

use super::json_value::{Node, parse, quote, shown, write};
use super::kernel::{Bool, Int4, Json, Jsonb, Text, row};
use super::{Call, Param, Registry, Returns};
use crate::error::{Result, SqlError, SqlState};
use crate::types::{Scalar, Type};

const JSONB: Param = Param::Is(Type::new(Scalar::Jsonb));
const TEXTS: Param = Param::Is(Type::array(Scalar::Text));
const BOOL: Param = Param::Is(Type::new(Scalar::Bool));

pub(super) fn register(r: &mut Registry) {
    let jsonb = Returns::Is(Type::new(Scalar::Jsonb));
    let bool = Returns::Is(Type::new(Scalar::Bool));
    for last in [&[][..], &[BOOL]] {
        let params = [&[JSONB, TEXTS, JSONB], last].concat();
        r.kernel("jsonb_set", &params, jsonb, |call| edit(call, Change::set));
        r.kernel("jsonb_insert", &params, jsonb, |call| edit(call, Change::insert));
    }
    r.kernel("#-", &[JSONB, TEXTS], jsonb, |call| edit(call, |_| Change::Delete));
    r.kernel("jsonb_delete_path", &[JSONB, TEXTS], jsonb, |call| edit(call, |_| Change::Delete));
    r.strict2::<Jsonb, Int4, Jsonb>("-", |_, json, index| delete_index(parse(json)?, index));
    r.kernel("-", &[JSONB, TEXTS], jsonb, delete_keys);
    r.kernel("?|", &[JSONB, TEXTS], bool, |call| has_keys(call, false));
    r.kernel("?&", &[JSONB, TEXTS], bool, |call| has_keys(call, true));
    r.strict1::<Jsonb, Jsonb>("jsonb_strip_nulls", |_, json| Ok(shown(&without_nulls(parse(json)?), true)));
    r.strict1::<Json, Json>("json_strip_nulls", |_, json| Ok(shown(&without_nulls(parse(json)?), false)));
    r.strict1::<Jsonb, Text>("jsonb_pretty", |_, json| {
        let mut out = String::new();
        pretty(&parse(json)?, 0, &mut out);
        Ok(out)
    });
    for (name, binary) in [("json_object", false), ("jsonb_object", true)] {
        let returns = Returns::Is(Type::new(if binary { Scalar::Jsonb } else { Scalar::Json }));
        r.boxed(name, &[TEXTS], returns, move |call| object_of_pairs(call, binary));
        r.boxed(name, &[TEXTS, TEXTS], returns, move |call| object_of_columns(call, binary));
    }
}

fn invalid(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

/// The texts of a row's array; `None` if it is null.
fn texts(call: &Call, i: usize, row: usize) -> Result<Option<Vec<Option<String>>>> {
    let input = &call.inputs[i];
    let lists =
        input.array.as_list_opt::<i32>().ok_or_else(|| SqlError::internal("a path that is no array"))?;
    let at = input.index(row);
    if lists.is_null(at) {
        return Ok(None);
    }
    let values = lists.value(at);
    Ok(Some(super::cast::strings(&values)?.iter().map(|text| text.map(str::to_string)).collect()))
}

/// What is done at the end of a path.
#[derive(Clone, Copy)]
enum Change {
    Set { create: bool },
    Insert { after: bool },
    Delete,
}

impl Change {
    fn set(flag: Option<bool>) -> Self {
        Change::Set { create: flag.unwrap_or(true) }
    }

    fn insert(flag: Option<bool>) -> Self {
        Change::Insert { after: flag.unwrap_or(false) }
    }
}

fn edit(call: &Call, change: fn(Option<bool>) -> Change) -> Result<ArrayRef> {
    let documents = call.column::<Jsonb>(0)?;
    let value = if call.inputs.len() > 2 { Some(call.column::<Jsonb>(2)?) } else { None };
    let flag = if call.inputs.len() > 3 { Some(call.column::<Bool>(3)?) } else { None };
    call.rows::<Jsonb>(|row| {
        let mut document = parse(row!(documents, row))?;
        let Some(path) = texts(call, 1, row)? else { return Ok(None) };
        let value = match &value {
            Some(value) => parse(row!(value, row))?,
            None => Node::Null,
        };
        let change = match &flag {
            Some(flag) => change(Some(row!(flag, row))),
            None => change(None),
        };
        if !matches!(document, Node::Array(_) | Node::Object(_)) {
            return Err(invalid(match change {
                Change::Delete => "cannot delete path in scalar",
                _ => "cannot set path in scalar",
            }));
        }
        apply(&mut document, &path, 1, &value, change)?;
        Ok(Some(shown(&document, true)))
    })
}

/// Follows the rest of a path whose first key is the `level`th, and makes the change at its end. A path that leads
/// nowhere changes nothing.
fn apply(node: &mut Node, path: &[Option<String>], level: usize, value: &Node, change: Change) -> Result<()> {
    let Some((key, rest)) = path.split_first() else { return Ok(()) };
    let Some(key) = key else {
        let message = format!("path element at position {level} is null");
        return Err(SqlError::new(SqlState("22004"), message));
    };
    match node {
        Node::Object(members) => match members.iter().position(|(name, _)| name == key) {
            Some(at) if !rest.is_empty() => apply(&mut members[at].1, rest, level + 1, value, change)?,
            Some(at) => match change {
                Change::Set { .. } => members[at].1 = value.clone(),
                Change::Delete => drop(members.remove(at)),
                Change::Insert { .. } => {
                    return Err(invalid("cannot replace existing key")
                        .with_hint("Try using the function jsonb_set to replace key value."));
                }
            },
            None if !rest.is_empty() => {}
            None => match change {
                Change::Set { create: true } | Change::Insert { .. } => {
                    members.push((key.clone(), value.clone()));
                    members.sort_by(|(a, _), (b, _)| a.len().cmp(&b.len()).then_with(|| a.cmp(b)));
                }
                Change::Set { create: false } | Change::Delete => {}
            },
        },
        Node::Array(items) => {
            let index: i32 = key.trim().parse().map_err(|_| {
                let message = format!("path element at position {level} is not an integer: \"{key}\"");
                SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message)
            })?;
            apply_to_item(items, index, rest, level, value, change)?;
        }
        _ => {}
    }
    Ok(())
}

fn apply_to_item(
    items: &mut Vec<Node>,
    index: i32,
    rest: &[Option<String>],
    level: usize,
    value: &Node,
    change: Change,
) -> Result<()> {
    // From the end if it is negative; `Err`: beyond an end.
    let at = match usize::try_from(index) {
        Ok(at) if at < items.len() => Ok(at),
        Ok(_) => Err(items.len()),
        Err(_) => items.len().checked_sub(index.unsigned_abs() as usize).ok_or(0),
    };
    match (at, change) {
        (Ok(at), _) if !rest.is_empty() => return apply(&mut items[at], rest, level + 1, value, change),
        (Err(_), _) if !rest.is_empty() => {}
        (Ok(at), Change::Set { .. }) => items[at] = value.clone(),
        (Ok(at), Change::Delete) => drop(items.remove(at)),
        (Ok(at), Change::Insert { after }) => items.insert(at + usize::from(after), value.clone()),
        (Err(end), Change::Set { create: true } | Change::Insert { .. }) => items.insert(end, value.clone()),
        (Err(_), Change::Set { create: false } | Change::Delete) => {}
    }
    Ok(())
}

fn delete_index(node: Node, index: i32) -> Result<String> {
    let mut items = match node {
        Node::Array(items) => items,
        Node::Object(_) => return Err(invalid("cannot delete from object using integer index")),
        _ => return Err(invalid("cannot delete from scalar")),
    };
    let at = match usize::try_from(index) {
        Ok(at) => Some(at),
        Err(_) => items.len().checked_sub(index.unsigned_abs() as usize),
    };
    if let Some(at) = at.filter(|at| *at < items.len()) {
        items.remove(at);
    }
    Ok(shown(&Node::Array(items), true))
}

fn delete_keys(call: &Call) -> Result<ArrayRef> {
    let documents = call.column::<Jsonb>(0)?;
    call.rows::<Jsonb>(|row| {
        let document = parse(row!(documents, row))?;
        let Some(keys) = texts(call, 1, row)? else { return Ok(None) };
        let keys: Vec<String> = keys.into_iter().flatten().collect();
        let kept = match document {
            Node::Object(members) => {
                Node::Object(members.into_iter().filter(|(key, _)| !keys.contains(key)).collect())
            }
            Node::Array(items) => {
                let is_kept = |item: &Node| !matches!(item, Node::String(text) if keys.contains(text));
                Node::Array(items.into_iter().filter(is_kept).collect())
            }
            _ => return Err(invalid("cannot delete from scalar")),
        };
        Ok(Some(shown(&kept, true)))
    })
}

fn has_keys(call: &Call, all: bool) -> Result<ArrayRef> {
    let documents = call.column::<Jsonb>(0)?;
    call.rows::<Bool>(|row| {
        let document = parse(row!(documents, row))?;
        let Some(keys) = texts(call, 1, row)? else { return Ok(None) };
        let has = |key: &String| match &document {
            Node::Object(members) => members.iter().any(|(name, _)| name == key),
            Node::Array(items) => items.iter().any(|item| matches!(item, Node::String(s) if s == key)),
            Node::String(text) => text == key,
            _ => false,
        };
        let mut keys = keys.iter().flatten();
        Ok(Some(if all { keys.all(has) } else { keys.any(has) }))
    })
}

/// Without the members of objects that are null, at any depth.
fn without_nulls(node: Node) -> Node {
    match node {
        Node::Object(members) => {
            let members = members.into_iter().filter(|(_, value)| *value != Node::Null);
            Node::Object(members.map(|(key, value)| (key, without_nulls(value))).collect())
        }
        Node::Array(items) => Node::Array(items.into_iter().map(without_nulls).collect()),
        other => other,
    }
}

fn pretty(node: &Node, depth: usize, out: &mut String) {
    let line = |depth: usize, out: &mut String| {
        out.push('\n');
        out.extend(std::iter::repeat_n("    ", depth));
    };
    match node {
        Node::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                out.push_str(if i > 0 { "," } else { "" });
                line(depth + 1, out);
                pretty(item, depth + 1, out);
            }
            line(depth, out);
            out.push(']');
        }
        Node::Object(members) => {
            out.push('{');
            for (i, (key, value)) in members.iter().enumerate() {
                out.push_str(if i > 0 { "," } else { "" });
                line(depth + 1, out);
                quote(key, out);
                out.push_str(": ");
                pretty(value, depth + 1, out);
            }
            line(depth, out);
            out.push('}');
        }
        scalar => write(scalar, out, true),
    }
}

/// `json_object('{key, value, …}')`.
fn object_of_pairs(call: &Call, binary: bool) -> Result<ArrayRef> {
    call.rows::<Json>(|row| {
        let Some(all) = texts(call, 0, row)? else { return Ok(None) };
        if all.len() % 2 == 1 {
            return Err(SqlError::new(SqlState("2202E"), "array must have even number of elements"));
        }
        object(all.chunks(2).map(|pair| (&pair[0], &pair[1])), binary).map(Some)
    })
}

/// `json_object(keys, values)`.
fn object_of_columns(call: &Call, binary: bool) -> Result<ArrayRef> {
    call.rows::<Json>(|row| {
        let (Some(keys), Some(values)) = (texts(call, 0, row)?, texts(call, 1, row)?) else {
            return Ok(None);
        };
        if keys.len() != values.len() {
            return Err(SqlError::new(SqlState("2202E"), "mismatched array dimensions"));
        }
        object(keys.iter().zip(&values), binary).map(Some)
    })
}

fn object<'a>(
    members: impl Iterator<Item = (&'a Option<String>, &'a Option<String>)>,
    binary: bool,
) -> Result<String> {
    let mut parts = vec![];
    for (key, value) in members {
        let Some(key) = key else {
            return Err(SqlError::new(SqlState("22004"), "null value not allowed for object key"));
        };
        let mut part = String::new();
        quote(key, &mut part);
        part.push_str(" : ");
        match value {
            Some(value) => quote(value, &mut part),
            None => part.push_str("null"),
        }
        parts.push(part);
    }
    let text = format!("{{{}}}", parts.join(", "));
    if binary { super::canonical_json(&text) } else { Ok(text) }
}
