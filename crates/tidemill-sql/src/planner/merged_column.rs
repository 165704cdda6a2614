//! `RIGHT JOIN … USING` and `FULL JOIN … USING`: DataFusion takes a merged column from the left side, which has none for rows
//! that are on the right alone. So the columns are merged by expressions, where the join is of two relations.
//!
//! ```text
//! SELECT * FROM a FULL JOIN b USING (k) WHERE k > 0
//! => SELECT coalesce(a.k, b.k) AS k, a.* EXCEPT (k), b.* EXCEPT (k) FROM a FULL JOIN b ON a.k = b.k
//!    WHERE coalesce(a.k, b.k) > 0
//! ```

use std::ops::ControlFlow;

use sqlparser::ast::{
    BinaryOperator, Expr, FunctionArg, FunctionArgExpr, Ident, JoinConstraint, JoinOperator, ObjectName,
    OrderBy, OrderByKind, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, TableFactor,
    VisitorMut, WildcardAdditionalOptions,
};

use super::marker;
use super::name::fold;
use crate::walk::{Walk, walk_mut};

/// Rewrites a select whose one join merges columns of its right side.
pub fn rewrite(select: &mut Select) {
    let Some(merged) = Merged::of(select) else { return };
    let Some(join) = select.from.first_mut().and_then(|from| from.joins.first_mut()) else { return };
    if let JoinOperator::Right(constraint)
    | JoinOperator::RightOuter(constraint)
    | JoinOperator::FullOuter(constraint) = &mut join.join_operator
        && let Some(condition) = merged.condition()
    {
        *constraint = JoinConstraint::On(condition);
    }
    let items = std::mem::take(&mut select.projection);
    select.projection = items.into_iter().flat_map(|item| merged.item(item)).collect();
    merged.replace(&mut select.selection);
    merged.replace(&mut select.group_by);
    merged.replace(&mut select.having);
    merged.replace(&mut select.distinct);
    merged.replace(&mut select.named_window);
}

/// The same in ORDER BY, which stands outside of the select: what that does not show is looked for below it.
pub fn rewrite_order(query: &mut Query) {
    let SetExpr::Select(select) = &*query.body else { return };
    let Some(mut merged) = Merged::of(select) else { return };
    merged.columns.retain(|column| !select.projection.iter().any(|item| shows(item, column)));
    if let Some(OrderBy { kind: OrderByKind::Expressions(items), .. }) = &mut query.order_by {
        merged.replace(items);
    }
}

fn shows(item: &SelectItem, column: &str) -> bool {
    match item {
        SelectItem::Wildcard(_) => true,
        SelectItem::UnnamedExpr(Expr::Identifier(ident)) => fold(ident) == column,
        SelectItem::ExprWithAlias { alias, .. } => fold(alias) == column,
        _ => false,
    }
}

/// Two relations and the columns that they have in common.
struct Merged {
    left: String,
    right: String,
    columns: Vec<String>,
    is_full: bool,
}

impl Merged {
    fn of(select: &Select) -> Option<Merged> {
        let [from] = &select.from[..] else { return None };
        let [join] = &from.joins[..] else { return None };
        let (constraint, is_full) = match &join.join_operator {
            JoinOperator::Right(constraint) | JoinOperator::RightOuter(constraint) => (constraint, false),
            JoinOperator::FullOuter(constraint) => (constraint, true),
            _ => return None,
        };
        let JoinConstraint::Using(columns) = constraint else { return None };
        let column = |name: &ObjectName| match &name.0[..] {
            [only] => only.as_ident().map(fold),
            _ => None,
        };
        let columns = columns.iter().map(column).collect::<Option<Vec<_>>>()?;
        let (left, right) = (called(&from.relation)?, called(&join.relation)?);
        (left != right).then_some(Merged { left, right, columns, is_full })
    }

    fn condition(&self) -> Option<Expr> {
        let equal = self
            .columns
            .iter()
            .map(|column| binary(of(&self.left, column), BinaryOperator::Eq, of(&self.right, column)));
        equal.reduce(|all, next| binary(all, BinaryOperator::And, next))
    }

    fn value(&self, column: &str) -> Expr {
        let right = of(&self.right, column);
        match self.is_full {
            true => coalesce(of(&self.left, column), right),
            false => right,
        }
    }

    /// A merged column that an expression is, by itself.
    fn column(&self, expr: &Expr) -> Option<&String> {
        let Expr::Identifier(ident) = expr else { return None };
        let name = fold(ident);
        self.columns.iter().find(|column| **column == name)
    }

    fn item(&self, item: SelectItem) -> Vec<SelectItem> {
        match item {
            SelectItem::Wildcard(_) => {
                let merged = self.columns.iter().map(|column| SelectItem::ExprWithAlias {
                    expr: self.value(column),
                    alias: Ident::with_quote('"', column),
                });
                merged.chain([&self.left, &self.right].map(|side| self.others(side))).collect()
            }
            SelectItem::UnnamedExpr(expr) if self.column(&expr).is_some() => {
                let alias = self.column(&expr).map(|column| Ident::with_quote('"', column));
                let mut expr = expr;
                self.replace(&mut expr);
                vec![match alias {
                    Some(alias) => SelectItem::ExprWithAlias { expr, alias },
                    None => SelectItem::UnnamedExpr(expr),
                }]
            }
            mut other => {
                self.replace(&mut other);
                vec![other]
            }
        }
    }

    /// What a side has besides.
    fn others(&self, side: &str) -> SelectItem {
        let mut names = self.columns.iter().map(|column| Ident::with_quote('"', column));
        let except = names.next().map(|first_element| sqlparser::ast::ExceptSelectItem {
            first_element,
            additional_elements: names.collect(),
        });
        let options = WildcardAdditionalOptions { opt_except: except, ..Default::default() };
        let side = ObjectName::from(vec![Ident::with_quote('"', side)]);
        SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(side), options)
    }

    fn replace(&self, node: &mut impl Walk) {
        let _ = walk_mut(node, &mut Names { merged: self, subqueries: 0 });
    }
}

/// Subqueries may have columns of these names themselves.
struct Names<'a> {
    merged: &'a Merged,
    subqueries: usize,
}

impl VisitorMut for Names<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.subqueries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.subqueries -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if self.subqueries == 0
            && let Some(column) = self.merged.column(expr)
        {
            *expr = self.merged.value(column);
        }
        ControlFlow::Continue(())
    }
}

/// What columns of a relation are qualified with.
fn called(factor: &TableFactor) -> Option<String> {
    match factor {
        TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. }
        | TableFactor::Function { alias: Some(alias), .. } => Some(fold(&alias.name)),
        TableFactor::Table { name, alias: None, .. } => name.0.last()?.as_ident().map(fold),
        _ => None,
    }
}

fn of(relation: &str, column: &str) -> Expr {
    Expr::CompoundIdentifier([relation, column].map(|name| Ident::with_quote('"', name)).to_vec())
}

fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

fn coalesce(left: Expr, right: Expr) -> Expr {
    let args = [left, right].map(|expr| FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)));
    marker::function("coalesce", args.to_vec())
}
