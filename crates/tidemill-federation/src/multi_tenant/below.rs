//! Conditions on the node of rows, as the server reads them that has nodes itself: what is `/west/north/` here is `/north/`
//! there. So they leave nodes out there, and the whole server here if none of its nodes is meant.
//!
//! ```text
//! of "/west":  __spd_url = '/west/north/'             =>  __spd_url = '/north/'
//!              __spd_url IN ('/west/north/', '/east/')  =>  __spd_url IN ('/north/')
//!              __spd_url LIKE '/west/n%'              =>  __spd_url LIKE '/n%'
//!              __spd_url = '/east/'                   =>  false
//! ```

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{BinaryExpr, InList, Like};
use datafusion::logical_expr::{Expr, Operator, lit};

use super::URL;

/// A filter over the rows of a server. `prefix` is the name of the server's node without the slash at its end, `node` the
/// name of a row's node as it is here, for what compares it in another way.
///
/// A row passes or does not: what no row can fulfil is false, also where it would be null.
pub(super) fn localized(filter: Expr, prefix: Option<&str>, node: &Expr) -> Result<Expr> {
    let condition = |expr: Expr| {
        if let Expr::BinaryExpr(BinaryExpr { op: Operator::And | Operator::Or, .. }) = &expr {
            return Ok(Transformed::no(expr));
        }
        let found = match prefix.and_then(|prefix| below(&expr, prefix)) {
            Some(below) => below,
            None => expr.transform(|expr| Ok(replaced(expr, node))).data()?,
        };
        Ok(Transformed::new(found, true, TreeNodeRecursion::Jump))
    };
    filter.transform_down(condition).data()
}

fn replaced(expr: Expr, node: &Expr) -> Transformed<Expr> {
    if is_node(&expr) { Transformed::yes(node.clone()) } else { Transformed::no(expr) }
}

pub(super) fn is_node(expr: &Expr) -> bool {
    matches!(expr, Expr::Column(column) if column.name == URL)
}

/// What a comparison with constants is there; `None`: it is another one.
fn below(expr: &Expr, prefix: &str) -> Option<Expr> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => {
            let constant = match (is_node(left), is_node(right)) {
                (true, false) => right,
                (false, true) => left,
                _ => return None,
            };
            let rest = rest_of_name(text(constant)?, prefix);
            match (op, rest) {
                (Operator::Eq, Some(rest)) => Some(there().eq(lit(rest))),
                (Operator::NotEq, Some(rest)) => Some(there().not_eq(lit(rest))),
                (Operator::Eq, None) => Some(never(false)),
                (Operator::NotEq, None) => Some(never(true)),
                _ => None,
            }
        }
        Expr::InList(InList { expr, list, negated }) if is_node(expr) => {
            let names = list.iter().map(text).collect::<Option<Vec<_>>>()?;
            let rests = names.into_iter().filter_map(|name| rest_of_name(name, prefix));
            let rests: Vec<_> = rests.map(lit).collect();
            Some(if rests.is_empty() { never(*negated) } else { there().in_list(rests, *negated) })
        }
        Expr::Like(Like { negated, expr, pattern, escape_char: None, case_insensitive: false })
            if is_node(expr) =>
        {
            Some(match rest_of_pattern(text(pattern)?, prefix)? {
                Some(rest) if *negated => there().not_like(lit(rest)),
                Some(rest) => there().like(lit(rest)),
                None => never(*negated),
            })
        }
        _ => None,
    }
}

fn there() -> Expr {
    Expr::Column(Column::new_unqualified(URL))
}

/// Of a condition that is the same for all nodes there.
fn never(negated: bool) -> Expr {
    if negated { there().is_not_null() } else { lit(false) }
}

fn text(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Literal(ScalarValue::Utf8(Some(text)), _) => Some(text),
        _ => None,
    }
}

/// `None`: no node there has this name.
fn rest_of_name<'n>(name: &'n str, prefix: &str) -> Option<&'n str> {
    name.strip_prefix(prefix).filter(|rest| rest.starts_with('/'))
}

/// What of a pattern is left for the names there, which begin with a slash: nothing if none fulfils it. `None`: its `%` may stand
/// for a part of the prefix.
fn rest_of_pattern<'p>(pattern: &'p str, prefix: &str) -> Option<Option<&'p str>> {
    let mut rest = pattern.chars();
    for wanted in prefix.chars() {
        let is_met = match rest.next() {
            Some('%') => return None,
            Some('_') => true,
            Some('\\') => rest.next()? == wanted,
            found => found == Some(wanted),
        };
        if !is_met {
            return Some(None);
        }
    }
    let rest = rest.as_str();
    Some(rest.starts_with(['/', '%', '_', '\\']).then_some(rest))
}

#[cfg(test)]
mod tests {
    use datafusion::logical_expr::col;

    use super::*;

    #[test]
    fn conditions_are_those_of_the_nodes_there() {
        let url = || col(URL);
        let names = |names: &[&str]| names.iter().map(|name| lit(*name)).collect::<Vec<_>>();
        let whole = || lit("whole");
        for (here, there) in [
            (url().eq(lit("/west/north/")), url().eq(lit("/north/"))),
            (lit("/west/north/").eq(url()), url().eq(lit("/north/"))),
            (url().eq(lit("/east/")), lit(false)),
            (url().eq(lit("/westward/")), lit(false)),
            (url().not_eq(lit("/west/north/")), url().not_eq(lit("/north/"))),
            (url().not_eq(lit("/east/")), url().is_not_null()),
            (
                url().in_list(names(&["/west/a/", "/east/", "/west/b/"]), false),
                url().in_list(names(&["/a/", "/b/"]), false),
            ),
            (url().in_list(names(&["/east/", "/westward/"]), false), lit(false)),
            (url().in_list(names(&["/east/"]), true), url().is_not_null()),
            (url().like(lit("/west/n%")), url().like(lit("/n%"))),
            (url().like(lit("/west%")), url().like(lit("%"))),
            (url().like(lit("/we_t\\/_/")), url().like(lit("\\/_/"))),
            (url().like(lit("/east/%")), lit(false)),
            (url().like(lit("/westward/%")), lit(false)),
            (url().like(lit("/we")), lit(false)),
            (url().not_like(lit("/east/%")), url().is_not_null()),
            (url().like(lit("%/north/")), whole().like(lit("%/north/"))),
            (url().gt(lit("/west/")), whole().gt(lit("/west/"))),
            (
                url().eq(lit("/east/")).or(url().eq(lit("/west/a/")).and(col("x").gt(url()))),
                lit(false).or(url().eq(lit("/a/")).and(col("x").gt(whole()))),
            ),
        ] {
            assert_eq!(localized(here.clone(), Some("/west"), &whole()).unwrap(), there, "{here}");
        }
        let other = localized(url().eq(lit("/east/")), None, &whole()).unwrap();
        assert_eq!(other, whole().eq(lit("/east/")));
    }
}
