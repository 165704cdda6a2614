//! `x op ANY (SELECT y …)`, `ALL`, and `IN`, which is `= ANY`.
//!
//! The operator is resolved for the types of both sides. What is an equality then becomes `InSubquery`, anything else
//! `SetComparison`, and a row `(a, b)` one packed column on each side; [`super::correlated`] makes joins of them.
//!
//! ```text
//! t.i IN (SELECT u.n …)    =>    sort_key(t.i::numeric) IN (SELECT sort_key(u.n) …)
//! ```

use std::sync::Arc;

use datafusion::common::DFSchema;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::expr::{BinaryExpr, InSubquery, SetComparison, SetQuantifier};
use datafusion::logical_expr::logical_plan::Subquery;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, Operator};
use sqlparser::ast;

use super::{allowed, from_function, marker, plan_error};
use crate::error::{Result, SqlError};

/// What the rows of a subquery are called beside the columns that they are compared with. Nobody can write it.
const ROWS: &str = "rows of subquery";

/// How many of the rows have to compare as wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quantifier {
    Some,
    All,
    None,
}

/// The quantifier and the operator of a marker.
pub(super) fn quantifier(name: &str) -> Option<(Quantifier, &str)> {
    let markers = [
        (marker::SOME_ROW, Quantifier::Some),
        (marker::EACH_ROW, Quantifier::All),
        (marker::NO_ROW, Quantifier::None),
    ];
    markers.into_iter().find_map(|(prefix, quantifier)| Some((quantifier, name.strip_prefix(prefix)?)))
}

pub(super) fn some(left: ast::Expr, op: &str, query: ast::Query) -> Result<ast::Expr> {
    marked(marker::SOME_ROW, left, op, query)
}

pub(super) fn all(left: ast::Expr, op: &str, query: ast::Query) -> Result<ast::Expr> {
    marked(marker::EACH_ROW, left, op, query)
}

pub(super) fn none(left: ast::Expr, op: &str, query: ast::Query) -> Result<ast::Expr> {
    marked(marker::NO_ROW, left, op, query)
}

fn marked(quantifier: &str, left: ast::Expr, op: &str, query: ast::Query) -> Result<ast::Expr> {
    let op = if op == "!=" { "<>" } else { op };
    let name = format!("{quantifier}{op}");
    let parts = match left {
        ast::Expr::Tuple(parts) => parts,
        one => vec![one],
    };
    let given = allowed::width(&query.body);
    if let Some(given) = given.filter(|given| *given != parts.len()) {
        let few = if given < parts.len() { "few" } else { "many" };
        return Err(SqlError::syntax(format!("subquery has too {few} columns")));
    }
    let query = if parts.len() == 1 { query } else { packed(query, parts.len()) };
    Ok(marker::op(&name, marker::pack(parts), ast::Expr::Subquery(Box::new(query))))
}

/// All columns of the query as one.
fn packed(query: ast::Query, width: usize) -> ast::Query {
    let names: Vec<_> = (0..width).map(|i| ast::Ident::with_quote('"', format!("item_{i}"))).collect();
    let columns = names.iter().map(|name| ast::TableAliasColumnDef { name: name.clone(), data_type: None });
    let table = ast::TableFactor::Derived {
        lateral: false,
        subquery: Box::new(query),
        alias: Some(ast::TableAlias {
            explicit: true,
            name: ast::Ident::with_quote('"', ROWS),
            columns: columns.collect(),
            at: None,
        }),
        sample: None,
    };
    let pack = marker::pack(names.into_iter().map(ast::Expr::Identifier).collect());
    from_function::select_from(pack, "row", table)
}

/// The rows of a subquery.
pub(super) struct Rows {
    subquery: Subquery,
    plan: LogicalPlan,
    /// What is compared, over the plan.
    items: Vec<Expr>,
    /// The same as columns whose names nothing else has.
    named: LogicalPlan,
}

impl Rows {
    pub fn of(expr: Expr) -> Result<Self> {
        let Expr::ScalarSubquery(subquery) = expr else {
            return Err(SqlError::internal(format!("a comparison with rows of {expr}")));
        };
        let plan = Arc::unwrap_or_clone(Arc::clone(&subquery.subquery));
        let (plan, items) = match plan {
            LogicalPlan::Projection(projection) if is_packed(&projection.expr) => {
                let items = projection.expr.into_iter().flat_map(|e| marker::unpack(e.unalias())).collect();
                (Arc::unwrap_or_clone(projection.input), items)
            }
            plan => {
                let items: Vec<_> = plan.schema().columns().into_iter().map(Expr::Column).collect();
                (plan, items)
            }
        };
        let columns = items.iter().enumerate().map(|(i, item)| item.clone().alias(format!("item_{i}")));
        let named = LogicalPlanBuilder::from(plan.clone())
            .project(columns)
            .and_then(|plan| plan.alias(ROWS)?.build())
            .map_err(plan_error)?;
        Ok(Self { subquery, plan, items, named })
    }

    pub fn schema(&self) -> &DFSchema {
        self.named.schema()
    }

    pub fn columns(&self) -> Vec<Expr> {
        self.named.schema().columns().into_iter().map(Expr::Column).collect()
    }

    /// The expression over the subquery's own columns.
    fn own(&self, expr: Expr) -> Result<Expr> {
        let columns = self.named.schema().columns();
        let own = expr.transform_up(|expr| {
            Ok(match &expr {
                Expr::Column(column) => match columns.iter().position(|named| named == column) {
                    Some(i) => Transformed::yes(self.items[i].clone()),
                    None => Transformed::no(expr),
                },
                _ => Transformed::no(expr),
            })
        });
        own.map(|own| own.data).map_err(plan_error)
    }

    /// The comparison, given those of each column with its item.
    pub fn compared(self, quantifier: Quantifier, op: &str, compared: Vec<Expr>) -> Result<Expr> {
        let refused =
            || SqlError::unsupported(format!("operator {op} is not supported with ANY or ALL here"));
        let is_row = compared.len() > 1;
        let (mut left, mut right, mut common) = (vec![], vec![], None);
        for comparison in compared {
            let Expr::BinaryExpr(BinaryExpr { left: x, op, right: y }) = comparison else {
                return Err(refused());
            };
            let columns = self.named.schema().columns();
            if x.column_refs().iter().any(|column| columns.contains(column)) || !is_comparison(op) {
                return Err(refused());
            }
            left.push(*x);
            right.push(self.own(*y)?);
            common = Some(op);
        }
        let Some(op) = common else { return Err(refused()) };
        if is_row && !matches!(op, Operator::Eq | Operator::NotEq) {
            return Err(refused());
        }
        let (expr, item) = match (is_row, left.pop().zip(right.pop())) {
            (false, Some((x, y))) => (x, y.alias("item")),
            (true, Some((x, y))) => {
                left.push(x);
                right.push(y);
                let pack = marker::Pack::udf();
                (pack.call(left), pack.call(right).alias("item"))
            }
            (_, None) => return Err(refused()),
        };
        let subquery =
            LogicalPlanBuilder::from(self.plan).project([item]).and_then(LogicalPlanBuilder::build);
        let subquery = Subquery { subquery: Arc::new(subquery.map_err(plan_error)?), ..self.subquery };
        let expr = Box::new(expr);
        Ok(match (quantifier, op) {
            (Quantifier::Some, Operator::Eq) if !is_row => {
                Expr::InSubquery(InSubquery { expr, subquery, negated: false })
            }
            (Quantifier::None, Operator::Eq) | (Quantifier::All, Operator::NotEq) if !is_row => {
                Expr::InSubquery(InSubquery { expr, subquery, negated: true })
            }
            (Quantifier::Some, op) => {
                Expr::SetComparison(SetComparison { expr, subquery, op, quantifier: SetQuantifier::Any })
            }
            (Quantifier::All, op) => {
                Expr::SetComparison(SetComparison { expr, subquery, op, quantifier: SetQuantifier::All })
            }
            (Quantifier::None, op) => Expr::Not(Box::new(Expr::SetComparison(SetComparison {
                expr,
                subquery,
                op,
                quantifier: SetQuantifier::Any,
            }))),
        })
    }
}

fn is_packed(exprs: &[Expr]) -> bool {
    let is_pack = |e: &Expr| matches!(e, Expr::ScalarFunction(f) if f.func.name() == marker::PACK);
    matches!(exprs, [Expr::Alias(alias)] if is_pack(&alias.expr))
}

fn is_comparison(op: Operator) -> bool {
    matches!(
        op,
        Operator::Eq | Operator::NotEq | Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq
    )
}
