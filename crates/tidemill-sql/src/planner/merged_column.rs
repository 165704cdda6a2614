//! Columns that `JOIN … USING` and `NATURAL JOIN` merge, where DataFusion does not find them. It does where one stands by
//! itself; in an expression it may be that of either relation, and it is found by a marker that takes the first relation's.
//! That is the one which inner and left joins mean. `RIGHT JOIN` and `FULL JOIN` have rows on the right alone: so the columns
//! are merged by expressions, where the join is of two relations. And DataFusion joins no column that is merged already.
//!
//! ```text
//! SELECT k FROM a JOIN b USING (k) WHERE k > 0
//! => SELECT k FROM a JOIN b USING (k) WHERE (k merged '2') > 0
//!
//! SELECT * FROM a JOIN b USING (k) JOIN c USING (k)
//! => SELECT (k merged '3') AS k, a.* EXCEPT (k), b.* EXCEPT (k), c.* EXCEPT (k) FROM a JOIN b USING (k) JOIN c ON (k merged '0') = c.k
//!
//! SELECT * FROM a FULL JOIN b USING (k) WHERE k > 0
//! => SELECT coalesce(a.k, b.k) AS k, a.* EXCEPT (k), b.* EXCEPT (k) FROM a FULL JOIN b ON a.k = b.k
//!    WHERE coalesce(a.k, b.k) > 0
//! ```

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::common::{Column as PlannedColumn, DFSchema};
use datafusion::logical_expr::Expr as PlannedExpr;
use sqlparser::ast::{
    BinaryOperator, Expr, FunctionArg, FunctionArgExpr, Ident, JoinConstraint, JoinOperator, ObjectName,
    OrderBy, OrderByKind, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, TableFactor,
    TableWithJoins, VisitorMut, WildcardAdditionalOptions,
};

use super::marker;
use super::name::{fold, is_keyword_function};
use crate::walk::{Walk, walk_mut};

/// Rewrites a select whose joins merge columns.
pub fn rewrite(select: &mut Select) {
    let Some(merged) = Merged::of(select) else { return };
    merged.replace(&mut select.from);
    merged.join(&mut select.from);
    let items = std::mem::take(&mut select.projection);
    select.projection = items.into_iter().flat_map(|item| merged.item(item)).collect();
    merged.replace(&mut select.selection);
    merged.replace(&mut select.group_by);
    merged.replace(&mut select.having);
    merged.replace(&mut select.distinct);
    merged.replace(&mut select.named_window);
}

/// The same in ORDER BY, which stands outside of the select: a name by itself is what that shows, if it does.
pub fn rewrite_order(query: &mut Query) {
    let SetExpr::Select(select) = &*query.body else { return };
    let Some(OrderBy { kind: OrderByKind::Expressions(items), .. }) = &mut query.order_by else { return };
    let Some(merged) = Merged::of(select) else { return };
    for item in items {
        let is_shown = |column: &Column| select.projection.iter().any(|item| shows(item, &column.name));
        if !merged.column(&item.expr).is_some_and(|column| is_shown(&column)) {
            merged.replace(&mut item.expr);
        }
    }
}

/// What the marker means: of a column that so many relations have, the first one's. It stays as it is, ambiguous, if more
/// have it.
pub fn found(column: PlannedExpr, relations: &str, schema: &DFSchema) -> PlannedExpr {
    let PlannedExpr::Column(PlannedColumn { relation: None, name, .. }) = &column else { return column };
    let mut all = schema.columns_with_unqualified_name(name);
    all.retain(|column| column.relation.is_some());
    let is_more = relations.parse().is_ok_and(|most: usize| most > 0 && all.len() > most);
    match all.into_iter().next() {
        Some(first) if !is_more => PlannedExpr::Column(first),
        _ => column,
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
    columns: Vec<Column>,
    side: Side,
    /// Two relations, and any column may be one of both.
    is_natural: bool,
}

struct Relation {
    /// What its columns are qualified with; empty if they are not.
    name: String,
    /// The columns that it is joined by.
    using: Vec<String>,
}

#[derive(Clone)]
struct Column {
    name: String,
    /// How many relations have it, which the marker checks; 0 if that is not known.
    relations: usize,
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
        let mut merged = Merged { relations: vec![], columns: vec![], side: Side::Left, is_natural: false };
        for from in &select.from {
            merged.relations.push(Relation { name: called(&from.relation), using: vec![] });
            let before = merged.columns.len();
            for join in &from.joins {
                let mut operator = join.join_operator.clone();
                let (constraint, side) = constraint(&mut operator)?;
                let using = match &*constraint {
                    JoinConstraint::Using(columns) => names(columns)?,
                    JoinConstraint::Natural => {
                        merged.is_natural = true;
                        vec![]
                    }
                    _ => vec![],
                };
                if !using.is_empty() && side != Side::Left {
                    merged.side = side;
                }
                for name in &using {
                    match merged.columns[before..].iter_mut().find(|column| column.name == *name) {
                        Some(column) => column.relations += 1,
                        None => merged.columns.push(Column { name: name.clone(), relations: 2 }),
                    }
                }
                merged.relations.push(Relation { name: called(&join.relation), using });
            }
        }
        let is_known = match (merged.side, &merged.relations[..]) {
            _ if merged.is_natural => merged.relations.len() == 2,
            (Side::Left, _) => merged.is_whole() || !merged.is_again() || !has_wildcard(select),
            (_, [left, right]) => left.name != right.name && merged.is_whole(),
            _ => false,
        };
        (is_known && (merged.is_natural || !merged.columns.is_empty())).then_some(merged)
    }

    /// Whether some column is merged by several joins.
    fn is_again(&self) -> bool {
        self.columns.iter().any(|column| column.relations > 2)
    }

    /// Whether all joins merge the same columns, if they merge any, the first one does, and all relations have names.
    fn is_whole(&self) -> bool {
        let merging = |relation: &&Relation| !relation.using.is_empty();
        let count = 1 + self.relations.iter().filter(merging).count();
        let distinct: HashSet<&String> = self.relations.iter().map(|relation| &relation.name).collect();
        self.columns.iter().all(|column| column.relations == count)
            && self.relations.get(1).as_ref().is_some_and(merging)
            && !distinct.contains(&String::new())
            && distinct.len() == self.relations.len()
    }

    /// The conditions of joins by columns that DataFusion does not find on the left, or does not merge so.
    fn join(&self, from: &mut [TableWithJoins]) {
        let mut relations = self.relations.iter();
        for table in from {
            let mut merged: HashSet<&String> = HashSet::new();
            relations.next();
            for (join, relation) in table.joins.iter_mut().zip(&mut relations) {
                let is_again = relation.using.iter().any(|name| merged.contains(name));
                if (is_again || self.side != Side::Left)
                    && let Some((constraint, _)) = constraint(&mut join.join_operator)
                    && let Some(condition) = self.condition(relation)
                {
                    *constraint = JoinConstraint::On(condition);
                }
                merged.extend(&relation.using);
            }
        }
    }

    /// What joins a relation to those before it.
    fn condition(&self, relation: &Relation) -> Option<Expr> {
        if relation.name.is_empty() {
            return None;
        }
        let left = |name: &String| match (self.side, self.relations.first()) {
            (Side::Right | Side::Any, Some(first)) => of(&first.name, name),
            // More relations may have it than there are here.
            _ => marked(Ident::with_quote('"', name), 0),
        };
        let equal = relation
            .using
            .iter()
            .map(|name| binary(left(name), BinaryOperator::Eq, of(&relation.name, name)));
        equal.reduce(|all, next| binary(all, BinaryOperator::And, next))
    }

    /// A merged column, which is written in such a way.
    fn value(&self, column: &Column, written: Ident) -> Expr {
        match (self.side, &self.relations[..]) {
            (Side::Right, [_, right]) => of(&right.name, &column.name),
            (Side::Any, [left, right]) => {
                coalesce(of(&left.name, &column.name), of(&right.name, &column.name))
            }
            _ => marked(written, column.relations),
        }
    }

    /// A merged column that an expression is, by itself.
    fn column(&self, expr: &Expr) -> Option<Column> {
        let Expr::Identifier(ident) = expr else { return None };
        let name = fold(ident);
        match self.columns.iter().filter(|column| column.name == name).collect::<Vec<_>>()[..] {
            [column] => Some(column.clone()),
            [] if self.is_natural && !is_keyword_function(ident) && !self.is_relation(&name) => {
                Some(Column { name, relations: 0 })
            }
            // It is merged in several items of FROM.
            _ => None,
        }
    }

    /// Of which the name alone is a whole row.
    fn is_relation(&self, name: &str) -> bool {
        self.relations.iter().any(|relation| relation.name == name)
    }

    fn item(&self, item: SelectItem) -> Vec<SelectItem> {
        match item {
            SelectItem::Wildcard(_) if self.is_whole() => {
                let merged = self.columns.iter().map(|column| {
                    let ident = Ident::with_quote('"', &column.name);
                    SelectItem::ExprWithAlias { expr: self.value(column, ident.clone()), alias: ident }
                });
                merged.chain(self.relations.iter().map(|relation| self.others(relation))).collect()
            }
            SelectItem::UnnamedExpr(expr) => match self.column(&expr) {
                // DataFusion finds what one join merges.
                Some(column) if self.side == Side::Left && column.relations <= 2 => {
                    vec![SelectItem::UnnamedExpr(expr)]
                }
                Some(column) => {
                    let alias = Ident::with_quote('"', &column.name);
                    let mut expr = expr;
                    self.replace(&mut expr);
                    vec![SelectItem::ExprWithAlias { expr, alias }]
                }
                None => {
                    let mut item = SelectItem::UnnamedExpr(expr);
                    self.replace(&mut item);
                    vec![item]
                }
            },
            mut other => {
                self.replace(&mut other);
                vec![other]
            }
        }
    }

    /// What a relation has besides.
    fn others(&self, relation: &Relation) -> SelectItem {
        let is_first = self.relations.first().is_some_and(|first| std::ptr::eq(first, relation));
        let has = |column: &&Column| is_first || relation.using.contains(&column.name);
        let mut names = self.columns.iter().filter(has).map(|column| Ident::with_quote('"', &column.name));
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
            && let Expr::Identifier(ident) = &*expr
        {
            *expr = self.merged.value(&column, ident.clone());
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

/// What columns of a relation are qualified with.
fn called(factor: &TableFactor) -> String {
    let name = match factor {
        TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. }
        | TableFactor::Function { alias: Some(alias), .. } => Some(&alias.name),
        TableFactor::Table { name, alias: None, .. } => name.0.last().and_then(|part| part.as_ident()),
        _ => None,
    };
    name.map(fold).unwrap_or_default()
}

fn has_wildcard(select: &Select) -> bool {
    select.projection.iter().any(|item| matches!(item, SelectItem::Wildcard(_)))
}

fn marked(column: Ident, relations: usize) -> Expr {
    marker::op(marker::MERGED, Expr::Identifier(column), marker::text(relations.to_string()))
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
