//! Joins of tables that are on one server are carried out there.
//!
//! ```text
//! HashJoin: o.buyer = c.id           =>  ForeignScan: SELECT l.c2, r.c2 FROM (SELECT buyer, price FROM orders) AS l(c1, c2)
//!   ForeignScan: SELECT buyer, price       JOIN (SELECT id, name FROM customers) AS r(c1, c2) ON (l.c1 = r.c1)
//!   ForeignScan: SELECT id, name
//! ```
//!
//! The rule comes before those of DataFusion, so that filters, limits and projections find a scan like any other; and so do
//! the other rules here.

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use datafusion::common::{JoinSide, JoinType, NullEquality};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::ScalarFunctionExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::projection::ProjectionExec;

use super::rule::{NodeRule, Plan};
use super::{Pushdown, SORT_KEY, with_columns};
use crate::dialect::{Comparison, Dialect, Operand};
use crate::expression::Writer;
use crate::scan::ForeignScanExec;
use crate::select::{Item, RemoteSelect};
use crate::table::TableDefinition;

pub(super) const RULE: NodeRule =
    NodeRule { name: "foreign_joins", is_on: |pushdown| pushdown.joins, replace: push_down };

fn push_down(plan: &Plan, _: &Pushdown) -> Result<Option<Plan>> {
    match plan.downcast_ref::<HashJoinExec>().and_then(Join::of) {
        Some(join) => join.pushed(),
        None => Ok(None),
    }
}

type Expr = Arc<dyn PhysicalExpr>;

/// One side of a join: a scan, and what is made of its columns.
struct Side<'a> {
    scan: &'a ForeignScanExec,
    columns: Vec<Expr>,
}

impl<'a> Side<'a> {
    fn of(plan: &'a Arc<dyn ExecutionPlan>) -> Option<Self> {
        if let Some(scan) = plan.downcast_ref::<ForeignScanExec>() {
            let schema = plan.schema();
            let column = |i: usize| Arc::new(Column::new(schema.field(i).name(), i)) as Expr;
            return Some(Side { scan, columns: (0..schema.fields().len()).map(column).collect() });
        }
        let projection = plan.downcast_ref::<ProjectionExec>()?;
        let Side { scan, columns } = Side::of(projection.input())?;
        let under = |expr| with_columns(expr, |i| columns.get(i).cloned());
        let columns = projection.expr().iter().map(|item| under(&item.expr)).collect::<Option<Vec<_>>>()?;
        Some(Side { scan, columns })
    }

    fn width(&self) -> usize {
        self.scan.select().items.len()
    }

    /// The side as a relation of this name with columns `c1`, `c2` and so on.
    fn relation(&self, dialect: &dyn Dialect, name: char) -> String {
        let columns: Vec<_> = (1..=self.width()).map(|i| format!("c{i}")).collect();
        let columns = if columns.is_empty() { String::new() } else { format!("({})", columns.join(", ")) };
        format!("({}) AS {name}{columns}", dialect.select(self.scan.select()))
    }

    /// What the relation's columns are there.
    fn operands(&self, name: char) -> impl Iterator<Item = Operand> {
        let items = self.scan.select().items.iter().enumerate();
        items.map(move |(i, item)| Operand {
            sql: format!("{name}.c{}", i + 1),
            ty: item.column.ty,
            value: None,
        })
    }
}

const LEFT: char = 'l';
const RIGHT: char = 'r';

/// A join of two scans of one server. Its columns are those of the left scan, then those of the right one.
struct Join<'a> {
    join: &'a HashJoinExec,
    left: Side<'a>,
    right: Side<'a>,
}

impl<'a> Join<'a> {
    fn of(join: &'a HashJoinExec) -> Option<Self> {
        let (left, right) = (Side::of(join.left())?, Side::of(join.right())?);
        let is_one_server = Arc::ptr_eq(left.scan.connector(), right.scan.connector());
        // What is missing of a multi-tenant table, because its node is, is not missing of another one.
        let may_be_left_out = |side: &Side<'_>| side.scan.member().is_some() && side.scan.dead_nodes().skip;
        let is_whole = !may_be_left_out(&left) && !may_be_left_out(&right);
        let is_done = left.scan.capabilities().joins && is_one_server && is_whole;
        // Nulls that are equal are found by comparing all with all there, and a full join there is one of equalities.
        let is_equal = join.null_equality() == NullEquality::NullEqualsNothing && !join.null_aware;
        let is_full = *join.join_type() == JoinType::Full && join.filter().is_some();
        (is_done && is_equal && !is_full).then_some(Join { join, left, right })
    }

    fn dialect(&self) -> &'static dyn Dialect {
        self.left.scan.capabilities().dialect
    }

    /// An expression over what a side gives.
    fn of_side(&self, side: JoinSide, expr: &Expr) -> Option<Expr> {
        match side {
            JoinSide::Left => with_columns(expr, |i| self.left.columns.get(i).cloned()),
            JoinSide::Right => {
                let expr = with_columns(expr, |i| self.right.columns.get(i).cloned())?;
                let moved = |i| Some(Arc::new(Column::new("", self.left.width() + i)) as Expr);
                with_columns(&expr, moved)
            }
            JoinSide::None => None,
        }
    }

    fn column_of(&self, side: JoinSide, index: usize) -> Option<Expr> {
        self.of_side(side, &(Arc::new(Column::new("", index)) as Expr))
    }

    fn operands(&self) -> Vec<Operand> {
        self.left.operands(LEFT).chain(self.right.operands(RIGHT)).collect()
    }

    fn schema(&self) -> SchemaRef {
        let (left, right) = (self.left.scan.schema(), self.right.scan.schema());
        Arc::new(Schema::new(left.fields().iter().chain(right.fields()).cloned().collect::<Vec<_>>()))
    }

    /// What rows have to fulfil to be joined.
    fn condition(&self) -> Option<String> {
        let capabilities = self.left.scan.capabilities();
        let writer = Writer { columns: self.operands(), capabilities, schema: self.schema() };
        let equal = self.join.on().iter().map(|(left, right)| {
            let (left, right) = (self.of_side(JoinSide::Left, left)?, self.of_side(JoinSide::Right, right)?);
            writer.compare(Comparison::Equal, &left, &right)
        });
        let mut conditions = equal.collect::<Option<Vec<_>>>()?;
        if let Some(filter) = self.join.filter() {
            let places = filter.column_indices();
            let column = |i: usize| places.get(i).and_then(|place| self.column_of(place.side, place.index));
            conditions.push(writer.condition(&with_columns(filter.expression(), column)?)?);
        }
        Some(conditions.join(" AND "))
    }

    /// What the join gives; `None` if it has something to compute of a side whose columns may be null for lack of a row.
    fn output(&self) -> Option<Vec<Expr>> {
        use JoinType::*;
        let of = |side| {
            let columns = if side == JoinSide::Left { &self.left.columns } else { &self.right.columns };
            (0..columns.len()).map(move |i| self.column_of(side, i))
        };
        let (left, right) = (of(JoinSide::Left), of(JoinSide::Right));
        let (kind, all) = (self.join.join_type(), left.chain(right).collect::<Option<Vec<_>>>()?);
        let (left, right) = all.split_at(self.left.columns.len());
        let (kept, made_null): (_, &[Expr]) = match kind {
            Inner => (&all[..], &[]),
            Left => (&all[..], right),
            Right => (&all[..], left),
            Full => (&all[..], &all),
            LeftSemi | LeftAnti => (left, &[]),
            RightSemi | RightAnti => (right, &[]),
            _ => return None,
        };
        if !made_null.iter().all(is_null_of_null) {
            return None;
        }
        match self.join.projection.as_ref() {
            Some(places) => places.iter().map(|place| kept.get(*place).cloned()).collect(),
            None => Some(kept.to_vec()),
        }
    }

    /// What is read, without what is selected of it.
    fn select(&self, condition: &str) -> Option<RemoteSelect> {
        use JoinType::*;
        let dialect = self.dialect();
        let (left, right) = (self.left.relation(dialect, LEFT), self.right.relation(dialect, RIGHT));
        let (word, (joined, exists)) = match self.join.join_type() {
            Inner => ("INNER", (format!("{left} JOIN {right} ON {condition}"), None)),
            Left => ("LEFT", (format!("{left} LEFT JOIN {right} ON {condition}"), None)),
            Right => ("RIGHT", (format!("{left} RIGHT JOIN {right} ON {condition}"), None)),
            Full => ("FULL", (format!("{left} FULL JOIN {right} ON {condition}"), None)),
            LeftSemi => ("SEMI", (left, Some(("", right)))),
            LeftAnti => ("ANTI", (left, Some(("NOT ", right)))),
            RightSemi => ("RIGHT SEMI", (right, Some(("", left)))),
            RightAnti => ("RIGHT ANTI", (right, Some(("NOT ", left)))),
            _ => return None,
        };
        let exists =
            exists.map(|(not, other)| format!("({not}EXISTS (SELECT 1 FROM {other} WHERE {condition}))"));
        let [left, right] = [&self.left, &self.right].map(|side| &side.scan.select().table.name);
        let table =
            TableDefinition { name: format!("({left}) {word} JOIN ({right})"), ..TableDefinition::default() };
        let all = RemoteSelect::of(Arc::new(table), &[], Arc::default(), dialect);
        Some(RemoteSelect { joined: Some(joined), conditions: exists.into_iter().collect(), ..all })
    }

    fn pushed(&self) -> Result<Option<Arc<dyn ExecutionPlan>>> {
        let condition = self.condition();
        let (Some(select), Some(output)) = (condition.and_then(|on| self.select(&on)), self.output()) else {
            return Ok(None);
        };
        let limit = self.join.fetch();
        if limit.is_some() && !self.left.scan.capabilities().limit {
            return Ok(None);
        }
        let mut used: Vec<usize> = Vec::new();
        for column in output.iter().flat_map(collect_columns) {
            if !used.contains(&column.index()) {
                used.push(column.index());
            }
        }
        if output.iter().all(|expr| expr.downcast_ref::<Column>().is_some()) && output.len() == used.len() {
            used = output.iter().filter_map(|expr| Some(expr.downcast_ref::<Column>()?.index())).collect();
            let select = RemoteSelect { limit, ..select.with_items(self.items(&used)) };
            return Ok(Some(Arc::new(self.left.scan.with_select(select, self.join.schema()))));
        }
        let select = RemoteSelect { limit, ..select.with_items(self.items(&used)) };
        let schema = select.schema();
        let scan = Arc::new(self.left.scan.with_select(select, Arc::clone(&schema)));
        let column = |i: usize| {
            let place = used.iter().position(|used| *used == i)?;
            Some(Arc::new(Column::new(schema.field(place).name(), place)) as Expr)
        };
        let exprs = output.iter().map(|expr| with_columns(expr, column));
        let Some(exprs) = exprs.collect::<Option<Vec<_>>>() else { return Ok(None) };
        let names = self.join.schema();
        let named = exprs.into_iter().zip(names.fields()).map(|(expr, field)| (expr, field.name().clone()));
        Ok(Some(Arc::new(ProjectionExec::try_new(named.collect::<Vec<_>>(), scan)?)))
    }

    /// These columns, as what is selected.
    fn items(&self, used: &[usize]) -> Vec<Item> {
        let items = self.left.scan.select().items.iter().chain(&self.right.scan.select().items);
        let all: Vec<_> = items.zip(self.operands()).collect();
        let used = used.iter().filter_map(|i| all.get(*i));
        used.map(|(item, operand)| Item { sql: operand.sql.clone(), column: item.column.clone() }).collect()
    }
}

/// A column, or the key of one: it is null where there is no row.
fn is_null_of_null(expr: &Expr) -> bool {
    let key = expr.downcast_ref::<ScalarFunctionExpr>().filter(|call| call.name() == SORT_KEY);
    let inner = key.and_then(|call| call.args().first()).unwrap_or(expr);
    inner.downcast_ref::<Column>().is_some()
}
