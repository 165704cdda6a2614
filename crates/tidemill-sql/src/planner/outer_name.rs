//! `b.id` in a subquery, where `b` is a relation around it: DataFusion looks first for a column `b` in the subquery, and for a
//! field of that. PostgreSQL takes a relation of that name at any level.
//!
//! ```text
//! FROM b WHERE EXISTS (SELECT FROM z WHERE z.id = b.id)
//! => FROM b WHERE EXISTS (SELECT FROM z WHERE z.id = "search path".b.id)
//! ```
//!
//! No column has the name of that schema, and a relation that is called without one is in it.

use sqlparser::ast::{Expr, Ident, Select, TableFactor, TableWithJoins};

use super::UNQUALIFIED;
use super::name::fold;

/// What the relations of the selects that are being visited are called, from the outermost.
#[derive(Debug, Default)]
pub struct Levels(Vec<Vec<String>>);

impl Levels {
    pub fn enter(&mut self, select: &Select) {
        let mut names = vec![];
        select.from.iter().for_each(|from| add(from, &mut names));
        self.0.push(names);
    }

    pub fn leave(&mut self) {
        self.0.pop();
    }

    /// Says of a column of a relation around this select that it is one.
    pub fn tell(&self, expr: &mut Expr) {
        let (Expr::CompoundIdentifier(parts), Some((own, around))) = (expr, self.0.split_last()) else {
            return;
        };
        if let [relation, _] = &parts[..] {
            let name = fold(relation);
            if !own.contains(&name) && around.iter().any(|level| level.contains(&name)) {
                let schema = Ident::with_quote_and_span('"', relation.span, UNQUALIFIED);
                parts.insert(0, schema);
            }
        }
    }
}

/// Those that are called without a schema.
fn add(from: &TableWithJoins, names: &mut Vec<String>) {
    for factor in std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation)) {
        match factor {
            TableFactor::Table { alias: Some(alias), .. }
            | TableFactor::Derived { alias: Some(alias), .. }
            | TableFactor::Function { alias: Some(alias), .. }
            | TableFactor::UNNEST { alias: Some(alias), .. } => names.push(fold(&alias.name)),
            TableFactor::Table { name, alias: None, .. } => {
                if let [only] = &name.0[..] {
                    names.extend(only.as_ident().map(fold));
                }
            }
            TableFactor::NestedJoin { table_with_joins, .. } => add(table_with_joins, names),
            _ => {}
        }
    }
}
