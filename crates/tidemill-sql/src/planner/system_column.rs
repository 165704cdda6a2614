//! `tableoid` and `xmin` of system catalogs: columns that every table of PostgreSQL has and no `SELECT *` shows.
//!
//! ```text
//! SELECT c.tableoid, c.xmin FROM pg_class c
//! => SELECT 'pg_catalog.pg_class'::regclass::oid AS tableoid, '1'::xid AS xmin FROM pg_class c
//! ```

use std::ops::ControlFlow;

use sqlparser::ast::{Expr, Ident, Select, SelectItem, TableFactor, VisitorMut};

use super::marker;
use super::name::fold;
use crate::types::{Scalar, Type};
use crate::walk::walk_mut;

/// Rewrites a select that is prepared already, its subqueries before it: what is left of a name there is this one's.
pub(super) fn rewrite(select: &mut Select) {
    let mut tables = vec![];
    for table in &select.from {
        for factor in std::iter::once(&table.relation).chain(table.joins.iter().map(|j| &j.relation)) {
            tables.extend(catalog(factor));
        }
    }
    if tables.is_empty() {
        return;
    }
    let columns = Columns { tables };
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) = item
            && let Some((name, value)) = columns.value(expr)
        {
            *item = SelectItem::ExprWithAlias { expr: value, alias: Ident::with_quote('"', name) };
        }
    }
    let _ = walk_mut(select, &mut Replace(&columns));
}

/// What a catalog is called in the query, and its name.
fn catalog(factor: &TableFactor) -> Option<(String, String)> {
    let TableFactor::Table { name, alias, args: None, .. } = factor else { return None };
    let parts: Vec<String> = name.0.iter().filter_map(|p| p.as_ident()).map(fold).collect();
    let name = match &parts[..] {
        [name] if name.starts_with("pg_") => name,
        [schema, name] if schema == "pg_catalog" => name,
        _ => return None,
    };
    Some((alias.as_ref().map_or_else(|| name.clone(), |alias| fold(&alias.name)), name.clone()))
}

struct Columns {
    tables: Vec<(String, String)>,
}

impl Columns {
    /// The name and the value of a system column.
    fn value(&self, expr: &Expr) -> Option<(&'static str, Expr)> {
        let (column, table) = match expr {
            Expr::Identifier(column) => match &self.tables[..] {
                [(_, table)] => (fold(column), table),
                _ => return None,
            },
            Expr::CompoundIdentifier(parts) => match &parts[..] {
                [table, column] => {
                    let table = fold(table);
                    (
                        fold(column),
                        self.tables.iter().find(|(alias, _)| *alias == table).map(|(_, name)| name)?,
                    )
                }
                _ => return None,
            },
            _ => return None,
        };
        let cast = |expr, scalar| marker::cast(expr, Type::new(scalar));
        match column.as_str() {
            "tableoid" => {
                let name = marker::text(format!("pg_catalog.\"{table}\""));
                Some(("tableoid", cast(cast(name, Scalar::Regclass), Scalar::Oid)))
            }
            // The rows of the catalogs are made up by no transaction of anybody's.
            "xmin" => Some(("xmin", cast(marker::text("1"), Scalar::Xid))),
            _ => None,
        }
    }
}

struct Replace<'a>(&'a Columns);

impl VisitorMut for Replace<'_> {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Some((_, value)) = self.0.value(expr) {
            *expr = value;
        }
        ControlFlow::Continue(())
    }
}
