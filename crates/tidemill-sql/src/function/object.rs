//! Names of objects to their numbers and back: the object identifier types.

use crate::error::{Result, SqlError, SqlState};
use crate::name::quote_ident;
use crate::planner::vars::SessionVars;
use crate::types::{Scalar, Type};

/// A text as a value of an object identifier type: a number, or the name of an object that there is.
pub(super) fn read(kind: Scalar, text: &str, vars: &SessionVars) -> Result<u32> {
    match find(kind, text, vars)? {
        Some(oid) => Ok(oid),
        None => Err(missing(kind, text)),
    }
}

/// As [`read`], with `None` if there is no such object.
pub(super) fn find(kind: Scalar, text: &str, vars: &SessionVars) -> Result<Option<u32>> {
    if text == "-" {
        return Ok(Some(0));
    }
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        return crate::text::parse_oid(text.as_bytes()).map(Some);
    }
    let found = match kind {
        Scalar::Regtype => return Ok(find_type(text, vars)),
        Scalar::Regprocedure => {
            let parts = identifiers(text.split('(').next().unwrap_or(text))?;
            let arguments = text.split_once('(').map_or("", |(_, rest)| rest.trim_end_matches([')', ' ']));
            let wanted: Vec<_> = split_types(arguments).iter().map(|t| find_type(t, vars)).collect();
            let mut found = vars.objects.find(kind, &parts);
            found.retain(|oid| {
                let described = vars.objects.function(*oid);
                let types =
                    described.map(|d| split_types(&d.arguments).iter().map(|t| find_type(t, vars)).collect());
                types.as_ref() == Some(&wanted)
            });
            found
        }
        _ => vars.objects.find(kind, &identifiers(text)?),
    };
    match found[..] {
        [] => Ok(None),
        [one] => Ok(Some(one)),
        [_, _, ..] => Err(SqlError::new(
            SqlState::AMBIGUOUS_FUNCTION,
            format!("more than one function named \"{text}\""),
        )),
    }
}

fn split_types(list: &str) -> Vec<String> {
    list.split(',').map(|t| t.trim().to_string()).filter(|t| !t.is_empty()).collect()
}

fn find_type(text: &str, vars: &SessionVars) -> Option<u32> {
    let plain = text.trim();
    let plain = plain.split('(').next().map(str::trim_end).filter(|_| plain.ends_with(')')).unwrap_or(plain);
    let plain = plain.strip_prefix("pg_catalog.").unwrap_or(plain);
    let (plain, array) = match plain.strip_suffix("[]") {
        Some(item) => (item, true),
        None => (plain, false),
    };
    let ours = match plain {
        "\"char\"" => Some(Scalar::Char),
        plain => Scalar::from_name(&plain.to_lowercase()),
    };
    match ours {
        Some(scalar) => Some(Type { array, ..Type::new(scalar) }.oid()),
        None => {
            vars.objects.find(Scalar::Regtype, &[text.trim().trim_matches('"').to_string()]).first().copied()
        }
    }
}

fn missing(kind: Scalar, text: &str) -> SqlError {
    let shown = text.replace('"', "");
    let (state, what) = match kind {
        Scalar::Regclass => (SqlState::UNDEFINED_TABLE, "relation"),
        Scalar::Regproc | Scalar::Regprocedure => (SqlState::UNDEFINED_FUNCTION, "function"),
        Scalar::Regnamespace => (SqlState::INVALID_SCHEMA_NAME, "schema"),
        Scalar::Regrole => (SqlState::UNDEFINED_OBJECT, "role"),
        _ => (SqlState::UNDEFINED_OBJECT, "type"),
    };
    SqlError::new(state, format!("{what} \"{shown}\" does not exist"))
}

/// The number of an object as its type writes it: the name, with the schema where the name alone would not find it.
pub(super) fn show(kind: Scalar, oid: u32, vars: &SessionVars) -> String {
    if oid == 0 {
        return "-".into();
    }
    if kind == Scalar::Regtype {
        return type_name(oid, None, vars);
    }
    let Some(named) = vars.objects.name(kind, oid) else { return oid.to_string() };
    let name = match (&named.schema, named.visible) {
        (Some(schema), false) => format!("{}.{}", quote_ident(schema), quote_ident(&named.name)),
        _ => quote_ident(&named.name),
    };
    match (kind, vars.objects.function(oid)) {
        (Scalar::Regprocedure, Some(described)) => {
            format!("{name}({})", described.arguments.replace(", ", ","))
        }
        _ => name,
    }
}

/// `format_type`.
pub(super) fn type_name(oid: u32, typmod: Option<i32>, vars: &SessionVars) -> String {
    if oid == 0 {
        return "-".into();
    }
    match Type::from_oid(oid) {
        // `bpchar` without a length is not `character`, which is `character(1)`.
        Some(ty) if ty.scalar == Scalar::Bpchar && typmod == Some(-1) => {
            if ty.array {
                "bpchar[]".into()
            } else {
                "bpchar".into()
            }
        }
        Some(ty) => ty.with_typmod(typmod.unwrap_or(-1)).display(),
        None => vars.objects.type_name(oid).unwrap_or_else(|| "???".into()),
    }
}

/// `a."B c"` as `a` and `B c`.
pub(crate) fn identifiers(text: &str) -> Result<Vec<String>> {
    let invalid = || SqlError::new(SqlState::INVALID_NAME, "invalid name syntax");
    let mut parts = vec![];
    let mut rest = text.trim();
    loop {
        let part;
        if let Some(inner) = rest.strip_prefix('"') {
            let mut name = String::new();
            let mut chars = inner.char_indices().peekable();
            let end = loop {
                match chars.next().ok_or_else(invalid)? {
                    (_, '"') if chars.peek().is_some_and(|(_, c)| *c == '"') => {
                        chars.next();
                        name.push('"');
                    }
                    (at, '"') => break at,
                    (_, c) => name.push(c),
                }
            };
            part = name;
            rest = &inner[end + 1..];
        } else {
            let end = rest.find('.').unwrap_or(rest.len());
            part = rest[..end].trim().to_lowercase();
            rest = &rest[end..];
        }
        if part.is_empty() {
            return Err(invalid());
        }
        parts.push(part);
        rest = match rest.trim_start() {
            "" => return Ok(parts),
            more => more.strip_prefix('.').ok_or_else(invalid)?.trim_start(),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_folded_unless_quoted() {
        assert_eq!(identifiers(r#"Public."a.""B" "#).unwrap(), ["public", "a.\"B"]);
        assert!(identifiers("a.").is_err());
        assert!(identifiers("\"a").is_err());
        assert!(identifiers("").is_err());
    }
}
