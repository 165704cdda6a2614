//! `->`, `->>`, `#>` and `#>>`: what is inside a json value, by keys, indexes and paths.

use arrow::array::{Array, ArrayRef, AsArray};

use super::json_value::{Node, children, parse, shown};
use super::kernel::{Int4, Json, Sql, Text, row};
use super::{Call, Param, Registry, Returns};
use crate::error::{Result, SqlError};
use crate::types::{Scalar, Type};

const TEXT: Type = Type::new(Scalar::Text);

/// As `->>` shows a value: a string without quotes, null as NULL.
pub(super) fn plain(node: Node, spaced: bool) -> Option<String> {
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

pub(super) fn access<J: for<'a> Sql<Out = String, Ref<'a> = &'a str>>(r: &mut Registry) {
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
