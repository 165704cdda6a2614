//! `relkind = 'C'`: how PipelineDB 0.8 found its continuous views in `pg_class`.
//!
//! There and here a continuous view is a view to all clients, so its `relkind` is `v`. In a query on `pg_class` a
//! comparison with `'C'` asks instead for the option that continuous views have.
//!
//! ```text
//! SELECT relname FROM pg_class WHERE relkind = 'C'
//! => SELECT relname FROM pg_class WHERE (relkind = 'v' AND 'action=materialize' = ANY (reloptions))
//! ```

use std::ops::ControlFlow;

use sqlparser::ast::{self, BinaryOperator, Expr, Ident, Select, TableFactor, Value, VisitorMut};

use super::name::fold;
use crate::walk::walk_mut;

/// The option of `pg_class.reloptions` by which a continuous view is known.
pub const CONTINUOUS_OPTION: &str = "action=materialize";

/// Rewrites the comparisons of a select on `pg_class`; its subqueries have their own turn.
pub(super) fn rewrite(select: &mut Select) {
    let mut aliases = vec![];
    for table in &select.from {
        for factor in std::iter::once(&table.relation).chain(table.joins.iter().map(|j| &j.relation)) {
            aliases.extend(pg_class(factor));
        }
    }
    if aliases.is_empty() {
        return;
    }
    let mut comparisons = Comparisons { aliases, depth: 0 };
    let _ = walk_mut(&mut select.selection, &mut comparisons);
    let _ = walk_mut(&mut select.projection, &mut comparisons);
    let _ = walk_mut(&mut select.from, &mut comparisons);
}

/// The name by which the query calls `pg_class`.
fn pg_class(factor: &TableFactor) -> Option<String> {
    let TableFactor::Table { name, alias, args: None, .. } = factor else { return None };
    let parts: Vec<String> = name.0.iter().filter_map(|p| p.as_ident()).map(fold).collect();
    let found = matches!(
        parts.iter().map(String::as_str).collect::<Vec<_>>()[..],
        ["pg_class"] | ["pg_catalog", "pg_class"]
    );
    found.then(|| alias.as_ref().map_or("pg_class".to_string(), |alias| fold(&alias.name)))
}

struct Comparisons {
    aliases: Vec<String>,
    /// Of subqueries, which are left alone.
    depth: usize,
}

impl VisitorMut for Comparisons {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut ast::Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut ast::Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if self.depth > 0 {
            return ControlFlow::Continue(());
        }
        match expr {
            Expr::BinaryOp { left, op: BinaryOperator::Eq, right } if is_letter(right) => {
                if let Some(test) = self.is_continuous(left) {
                    *expr = test;
                }
            }
            Expr::InList { expr: tested, list, negated: false } if list.iter().any(is_letter) => {
                if let Some(test) = self.is_continuous(tested) {
                    let mut rest = list.clone();
                    rest.retain(|item| !is_letter(item));
                    let rest = Expr::InList { expr: tested.clone(), list: rest, negated: false };
                    *expr = Expr::Nested(Box::new(binary(test, BinaryOperator::Or, rest)));
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

impl Comparisons {
    fn is_continuous(&self, expr: &Expr) -> Option<Expr> {
        let beside = |name: &str| match expr {
            Expr::Identifier(ident) if fold(ident) == "relkind" => Some(Expr::Identifier(Ident::new(name))),
            Expr::CompoundIdentifier(parts) => match &parts[..] {
                [table, column] if fold(column) == "relkind" && self.aliases.contains(&fold(table)) => {
                    Some(Expr::CompoundIdentifier(vec![table.clone(), Ident::new(name)]))
                }
                _ => None,
            },
            _ => None,
        };
        let is_view = binary(beside("relkind")?, BinaryOperator::Eq, text("v"));
        let has_option = Expr::AnyOp {
            left: Box::new(text(CONTINUOUS_OPTION)),
            compare_op: BinaryOperator::Eq,
            right: Box::new(beside("reloptions")?),
            is_some: false,
        };
        Some(Expr::Nested(Box::new(binary(is_view, BinaryOperator::And, has_option))))
    }
}

fn is_letter(expr: &Expr) -> bool {
    match expr {
        Expr::Value(value) => matches!(&value.value, Value::SingleQuotedString(letter) if letter == "C"),
        Expr::Cast { expr, .. } => is_letter(expr),
        _ => false,
    }
}

fn text(value: &str) -> Expr {
    Expr::value(Value::SingleQuotedString(value.into()))
}

fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}
