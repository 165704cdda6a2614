//! json and jsonb: operators and functions that look at whole values.

use arrow::array::ArrayRef;

use super::json_access::{access, plain};
use super::json_build::construct;
use super::json_value::{Node, canonical, parse, shown};
use super::kernel::{Int4, Json, Jsonb, Sql, Text};
use super::{Call, Param, Registry, Returns, string};
use crate::error::{Result, SqlError, SqlState};
use crate::numeric::Numeric as Number;
use crate::types::{Scalar, Type};

const TEXT: Type = Type::new(Scalar::Text);

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
    canonical(&shown(&merged, true))
}
