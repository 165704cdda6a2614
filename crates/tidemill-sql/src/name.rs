//! Names: folding, quoting, and the place of a name in a text.

mod reserved;

use sqlparser::ast::{Ident, ObjectName};

use crate::error::{Result, SqlError};
use crate::statement::Name;

/// PostgreSQL's `NAMEDATALEN - 1`.
pub const NAME_BYTES_MAX: usize = 63;

/// Lower case unless quoted, and cut to [`NAME_BYTES_MAX`] bytes at a character.
pub fn fold(ident: &Ident) -> String {
    let mut name = match ident.quote_style {
        Some(_) => ident.value.clone(),
        None => ident.value.to_lowercase(),
    };
    if name.contains(NODE) {
        return name;
    }
    let mut end = NAME_BYTES_MAX.min(name.len());
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    name.truncate(end);
    name
}

/// What comes before each node in the name of a table. It can't be typed in a name.
const NODE: char = '\u{1}';

/// The name of a table of which only these nodes are wanted.
pub fn with_nodes(name: &str, nodes: &[String]) -> String {
    nodes.iter().fold(name.to_string(), |name, node| format!("{name}{NODE}{node}"))
}

/// The name of a table, and the nodes that are wanted of it; `None`: all.
pub fn split_nodes(name: &str) -> (&str, Option<Vec<&str>>) {
    match name.split_once(NODE) {
        Some((name, nodes)) => (name, Some(nodes.split(NODE).collect())),
        None => (name, None),
    }
}

/// `name`, `schema.name` or `database.schema.name`.
pub fn resolve(name: &ObjectName, position: usize) -> Result<Name> {
    let parts: Vec<String> = name.0.iter().filter_map(|p| p.as_ident()).map(fold).collect();
    of_parts(&parts, position)
}

/// As [`resolve`], of the parts of a name.
pub fn of_parts(parts: &[String], position: usize) -> Result<Name> {
    let [rest @ .., last] = parts else {
        return Err(SqlError::syntax("a name is missing").with_position(position));
    };
    let schema = match rest {
        [] => None,
        [schema] | [_, schema] => Some(schema.clone()),
        _ => {
            let message = format!("improper qualified name (too many dotted names): {}", parts.join("."));
            return Err(SqlError::syntax(message).with_position(position));
        }
    };
    Ok(Name { schema, name: last.clone(), position })
}

/// In double quotes unless it is a plain lower-case name that PostgreSQL's parser takes as one.
pub fn quote_ident(name: &str) -> String {
    let plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        && !reserved::is_reserved(name);
    if plain { name.to_string() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// A string literal.
pub fn quote_literal(text: &str) -> String {
    let doubled = text.replace('\'', "''");
    match text.contains('\\') {
        true => format!("E'{}'", doubled.replace('\\', "\\\\")),
        false => format!("'{doubled}'"),
    }
}
