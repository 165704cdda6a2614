//! `JOIN … USING` where DataFusion does not find the merged column. It takes it from the left side, which has none for rows
//! that `RIGHT JOIN` and `FULL JOIN` have on the right alone: so the columns are merged by expressions, where the join is of
//! two relations. And it knows a column that one join has merged, but not one that several have: of inner and left joins
//! that all merge the same columns, it is the one of the first relation.
//!
//! ```text
//! SELECT * FROM a FULL JOIN b USING (k) WHERE k > 0
//! => SELECT coalesce(a.k, b.k) AS k, a.* EXCEPT (k), b.* EXCEPT (k) FROM a FULL JOIN b ON a.k = b.k
//!    WHERE coalesce(a.k, b.k) > 0
//!
//! SELECT * FROM a JOIN b USING (k) JOIN c USING (k) WHERE k > 0
//! => SELECT a.k AS k, a.* EXCEPT (k), b.* EXCEPT (k), c.* EXCEPT (k) FROM a JOIN b ON a.k = b.k JOIN c ON a.k = c.k
//!    WHERE a.k > 0
//! ```

use std::collections::HashSet;
use std::ops::ControlFlow;

use sqlparser::ast::{
    BinaryOperator, Expr, FunctionArg, FunctionArgExpr, Ident, JoinConstraint, JoinOperator, ObjectName,
    OrderBy, OrderByKind, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, TableFactor,
    VisitorMut, WildcardAdditionalOptions,
};

use super::marker;
use super::name::fold;
use crate::walk::{Walk, walk_mut};

/// Rewrites a select whose joins merge columns in such a way.
pub fn rewrite(select: &mut Select) {
    let Some(merged) = Merged::of(select) else { return };
    let joins = select.from.iter_mut().flat_map(|from| &mut from.joins);
    for (join, relation) in joins.zip(&merged.relations[1..]) {
        if let Some((constraint @ JoinConstraint::Using(_), _)) = constraint(&mut join.join_operator)
            && let Some(condition) = merged.condition(&relation.name)
        {
            *constraint = JoinConstraint::On(condition);
        }
    }
    let items = std::mem::take(&mut select.projection);
    select.projection = items.into_iter().flat_map(|item| merged.item(item)).collect();
    merged.replace(&mut select.from);
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

/// Relations that are joined, and the columns that they have in common.
struct Merged {
    /// From the left.
    relations: Vec<Relation>,
    columns: Vec<String>,
    side: Side,
}

struct Relation {
    name: String,
    /// Whether it has the columns.
    is_merged: bool,
}

/// Which relation has a value for each row.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    /// The first one.
    Left,
    /// The second of two.
    Right,
    /// One or the other of two.
    Any,
}

impl Merged {
    fn of(select: &Select) -> Option<Merged> {
        let [from] = &select.from[..] else { return None };
        let first = Relation { name: called(&from.relation)?, is_merged: true };
        let mut merged = Merged { relations: vec![first], columns: vec![], side: Side::Left };
        for (i, join) in from.joins.iter().enumerate() {
            let mut operator = join.join_operator.clone();
            let (constraint, side) = constraint(&mut operator)?;
            let is_merged = match &*constraint {
                JoinConstraint::Using(columns) => {
                    let columns = names(columns)?;
                    if i == 0 {
                        merged.columns = columns;
                    } else if !same(&columns, &merged.columns) {
                        return None;
                    }
                    true
                }
                JoinConstraint::Natural => return None,
                _ => false,
            };
            if side != Side::Left && from.joins.len() > 1 {
                return None;
            }
            merged.side = side;
            merged.relations.push(Relation { name: called(&join.relation)?, is_merged });
        }
        let merging = merged.relations.iter().filter(|relation| relation.is_merged).count();
        let is_lost = merging > 2 || merging == 2 && merged.side != Side::Left;
        let distinct: HashSet<&String> = merged.relations.iter().map(|relation| &relation.name).collect();
        let is_known = !merged.columns.is_empty() && distinct.len() == merged.relations.len();
        (is_lost && is_known).then_some(merged)
    }

    /// What joins a relation to the first one.
    fn condition(&self, relation: &str) -> Option<Expr> {
        let first = &self.relations.first()?.name;
        let equal = self
            .columns
            .iter()
            .map(|column| binary(of(first, column), BinaryOperator::Eq, of(relation, column)));
        equal.reduce(|all, next| binary(all, BinaryOperator::And, next))
    }

    fn value(&self, column: &str) -> Expr {
        let [left, .., right] = &self.relations[..] else { return Expr::Identifier(Ident::new(column)) };
        let (left, right) = (of(&left.name, column), of(&right.name, column));
        match self.side {
            Side::Left => left,
            Side::Right => right,
            Side::Any => coalesce(left, right),
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
                merged.chain(self.relations.iter().map(|relation| self.others(relation))).collect()
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

    /// What a relation has besides.
    fn others(&self, relation: &Relation) -> SelectItem {
        let columns: &[String] = if relation.is_merged { &self.columns } else { &[] };
        let mut names = columns.iter().map(|column| Ident::with_quote('"', column));
        let except = names.next().map(|first_element| sqlparser::ast::ExceptSelectItem {
            first_element,
            additional_elements: names.collect(),
        });
        let options = WildcardAdditionalOptions { opt_except: except, ..Default::default() };
        let name = ObjectName::from(vec![Ident::with_quote('"', &relation.name)]);
        SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options)
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

/// How a join is constrained, and which side of it has all rows.
fn constraint(operator: &mut JoinOperator) -> Option<(&mut JoinConstraint, Side)> {
    Some(match operator {
        JoinOperator::Right(constraint) | JoinOperator::RightOuter(constraint) => (constraint, Side::Right),
        JoinOperator::FullOuter(constraint) => (constraint, Side::Any),
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint)
        | JoinOperator::CrossJoin(constraint) => (constraint, Side::Left),
        _ => return None,
    })
}

/// The names of USING.
fn names(columns: &[ObjectName]) -> Option<Vec<String>> {
    let column = |name: &ObjectName| match &name.0[..] {
        [only] => only.as_ident().map(fold),
        _ => None,
    };
    columns.iter().map(column).collect()
}

fn same(a: &[String], b: &[String]) -> bool {
    a.len() == b.len() && a.iter().all(|name| b.contains(name))
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
