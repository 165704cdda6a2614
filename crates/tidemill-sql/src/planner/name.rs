//! The names of output columns: what PostgreSQL's `FigureColname` says, made unique by a suffix that the wire hides.

use std::collections::HashSet;

use sqlparser::ast::{self, Expr, SelectItem};

use crate::data_type;

/// What separates a name from the number that makes it unique: a character that nobody types.
const SUFFIX: char = '\u{1}';

/// The name to show to a client.
pub fn display_name(name: &str) -> &str {
    name.split_once(SUFFIX).map_or(name, |(shown, _)| shown)
}

/// Gives each expression of a select list its name, and equal names a suffix: DataFusion refuses duplicates.
pub fn assign(projection: &mut [SelectItem]) {
    let mut seen = HashSet::new();
    // Columns that keep their qualifier: DataFusion takes an alias that is their name for none.
    let mut qualified = HashSet::new();
    let has_wildcard = projection
        .iter()
        .any(|item| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..)));
    for item in projection {
        // Beside `*` a column would have the name that it has there.
        if has_wildcard
            && let SelectItem::UnnamedExpr(expr @ (Expr::Identifier(_) | Expr::CompoundIdentifier(_))) = item
        {
            if let Some(name) = figure(expr) {
                seen.insert(name.clone());
                let alias = ast::Ident::with_quote('"', unique(&mut seen, &qualified, &name));
                *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
            }
            continue;
        }
        let (name, named) = match item {
            SelectItem::UnnamedExpr(Expr::Identifier(ident)) => (fold(ident), !is_keyword_function(ident)),
            SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => match parts.last() {
                // Qualified columns may share a name.
                Some(last)
                    if parts.len() > 1
                        && !seen.contains(&fold(last))
                        && seen.insert(parts.iter().map(fold).collect::<Vec<_>>().join(".")) =>
                {
                    qualified.insert(fold(last));
                    continue;
                }
                Some(last) => (fold(last), true),
                None => continue,
            },
            SelectItem::UnnamedExpr(expr) => (figure(expr).unwrap_or("?column?".into()), false),
            SelectItem::ExprWithAlias { alias, .. } => (fold(alias), true),
            _ => continue,
        };
        let unique = unique(&mut seen, &qualified, &name);
        let keep = named && unique == name;
        if keep {
            continue;
        }
        let alias = ast::Ident::with_quote('"', unique);
        let expr = match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => expr.clone(),
            _ => continue,
        };
        *item = SelectItem::ExprWithAlias { expr, alias };
    }
}

/// Of a branch of a set operation, which nothing outside knows the relations of: columns do not share a name, and those of
/// an outer query have one.
pub fn assign_branch(projection: &mut [SelectItem]) {
    let mut seen = HashSet::new();
    for item in projection {
        let (expr, name, is_column) = match item {
            SelectItem::UnnamedExpr(expr) => {
                let is_column = matches!(expr, Expr::CompoundIdentifier(_))
                    || matches!(expr, Expr::Identifier(ident) if !is_keyword_function(ident));
                (&*expr, figure(expr).unwrap_or("?column?".into()), is_column)
            }
            SelectItem::ExprWithAlias { expr, alias } => (&*expr, fold(alias), false),
            _ => continue,
        };
        let unique = unique(&mut seen, &HashSet::new(), &name);
        if is_column || unique != name {
            let alias = ast::Ident::with_quote('"', unique);
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
        }
    }
}

/// A function that is called without parentheses, but that the parser takes for a column.
pub fn is_keyword_function(ident: &ast::Ident) -> bool {
    let words = ["current_schema", "current_role"];
    ident.quote_style.is_none() && words.iter().any(|word| ident.value.eq_ignore_ascii_case(word))
}

/// A name that is not one of these, with a number if need be; it is from now on.
pub fn unique(seen: &mut HashSet<String>, qualified: &HashSet<String>, name: &str) -> String {
    let mut candidate = name.to_string();
    let mut n = 0;
    while qualified.contains(&candidate) || !seen.insert(candidate.clone()) {
        n += 1;
        candidate = format!("{name}{SUFFIX}{n}");
    }
    candidate
}

/// An identifier as it is looked up: in lower case unless quoted.
pub fn fold(ident: &ast::Ident) -> String {
    if ident.quote_style.is_some() { ident.value.clone() } else { ident.value.to_lowercase() }
}

/// The name that PostgreSQL gives an expression without an alias.
fn figure(expr: &Expr) -> Option<String> {
    strong(expr).or_else(|| weak(expr))
}

/// Names that win over the name of a type.
fn strong(expr: &Expr) -> Option<String> {
    let fixed = |name: &str| Some(name.to_string());
    match expr {
        Expr::Identifier(ident) => Some(fold(ident)),
        Expr::CompoundIdentifier(parts) => parts.last().map(fold),
        Expr::CompoundFieldAccess { root, access_chain } => {
            access_chain.iter().rev().find_map(named_access).or_else(|| strong(root))
        }
        Expr::Nested(inner) | Expr::Collate { expr: inner, .. } => strong(inner),
        Expr::Cast { expr, .. } => strong(expr),
        Expr::Function(function) => function.name.0.last().and_then(|part| part.as_ident()).map(fold),
        Expr::Extract { .. } => fixed("extract"),
        Expr::Ceil { .. } => fixed("ceil"),
        Expr::Floor { .. } => fixed("floor"),
        Expr::Position { .. } => fixed("position"),
        Expr::Substring { shorthand, .. } => fixed(if *shorthand { "substr" } else { "substring" }),
        Expr::Overlay { .. } => fixed("overlay"),
        Expr::Trim { trim_where, .. } => fixed(match trim_where {
            Some(ast::TrimWhereField::Leading) => "ltrim",
            Some(ast::TrimWhereField::Trailing) => "rtrim",
            _ => "btrim",
        }),
        Expr::AtTimeZone { .. } => fixed("timezone"),
        Expr::Array(_) => fixed("array"),
        Expr::Exists { .. } => fixed("exists"),
        Expr::Tuple(_) => fixed("row"),
        Expr::Subquery(query) => first_column(&query.body),
        Expr::Case { else_result: Some(otherwise), .. } => strong(otherwise),
        _ => None,
    }
}

/// The name of a query's first column. Of set operations the first query tells.
fn first_column(body: &ast::SetExpr) -> Option<String> {
    match body {
        ast::SetExpr::Select(select) => match select.projection.first()? {
            SelectItem::UnnamedExpr(expr) => figure(expr),
            SelectItem::ExprWithAlias { alias, .. } => Some(fold(alias)),
            _ => None,
        },
        ast::SetExpr::Query(query) => first_column(&query.body),
        ast::SetExpr::SetOperation { left, .. } => first_column(left),
        ast::SetExpr::Values(_) => Some("column1".into()),
        _ => None,
    }
}

/// The name that an access has: subscripts have none.
fn named_access(access: &ast::AccessExpr) -> Option<String> {
    match access {
        ast::AccessExpr::Dot(Expr::Identifier(field)) => Some(fold(field)),
        _ => None,
    }
}

/// Names that a cast or a CASE falls back to.
fn weak(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Cast { expr, data_type, .. } => match strong(expr) {
            Some(name) => Some(name),
            None => data_type::name_of(data_type),
        },
        Expr::TypedString(typed) => data_type::name_of(&typed.data_type),
        Expr::Interval(_) => Some("interval".into()),
        Expr::Case { .. } => Some("case".into()),
        Expr::Nested(inner) | Expr::Collate { expr: inner, .. } => weak(inner),
        _ => None,
    }
}
