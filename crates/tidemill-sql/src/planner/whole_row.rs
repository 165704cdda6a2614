//! `row_to_json(t)`: the whole row of a subquery in FROM as an object. Rows are no values here, so the object is built
//! of the columns that the subquery names.
//!
//! ```text
//! SELECT row_to_json(t) FROM (SELECT 1 AS a, 2 AS b) t
//! => SELECT "json of row"('a', t.a, 'b', t.b) AS row_to_json FROM (SELECT 1 AS a, 2 AS b) t
//! ```

use std::ops::ControlFlow;

use sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, Select, SelectItem, SetExpr,
    TableFactor, Value, VisitorMut,
};

use super::marker;
use super::name::fold;
use crate::function::JSON_OF_ROW;
use crate::walk::walk_mut;

/// Rewrites the calls in a select list; output columns have their names already.
pub(super) fn rewrite(select: &mut Select) {
    let mut rows = vec![];
    for table in &select.from {
        for factor in std::iter::once(&table.relation).chain(table.joins.iter().map(|j| &j.relation)) {
            rows.extend(named_columns(factor));
        }
    }
    if !rows.is_empty() {
        let _ = walk_mut(&mut select.projection, &mut Calls { rows });
    }
}

/// The functions in FROM whose one column has a name of its own; the name in FROM is that value too.
pub(super) const ELEMENTS: [&str; 4] =
    ["json_array_elements", "jsonb_array_elements", "json_array_elements_text", "jsonb_array_elements_text"];

/// `SELECT e FROM jsonb_array_elements('[1]') AS e` is `SELECT e.value AS e …`.
pub(super) fn single_values(select: &mut Select) {
    let factors = select.from.iter().flat_map(|table| {
        std::iter::once(&table.relation).chain(table.joins.iter().map(|join| &join.relation))
    });
    let mut values = Values(factors.filter_map(elements_name).collect());
    if !values.0.is_empty() {
        let _ = walk_mut(select, &mut values);
    }
}

/// What the rows of such a function are called, if its column is not named.
fn elements_name(factor: &TableFactor) -> Option<String> {
    let (name, alias) = match factor {
        TableFactor::Table { name, args: Some(_), alias, .. } => (name, alias),
        TableFactor::Function { name, alias, .. } => (name, alias),
        _ => return None,
    };
    let function = fold(name.0.last()?.as_ident()?);
    match alias {
        _ if !ELEMENTS.contains(&function.as_str()) => None,
        Some(alias) if alias.columns.is_empty() => Some(fold(&alias.name)),
        Some(_) => None,
        None => Some(function),
    }
}

struct Values(Vec<String>);

impl VisitorMut for Values {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Identifier(name) = expr
            && self.0.contains(&fold(name))
        {
            *expr = Expr::CompoundIdentifier(vec![name.clone(), Ident::with_quote('"', "value")]);
        }
        ControlFlow::Continue(())
    }
}

/// The alias of a subquery and the names of its columns, if it gives them all.
fn named_columns(factor: &TableFactor) -> Option<(String, Vec<Ident>)> {
    let TableFactor::Derived { subquery, alias: Some(alias), .. } = factor else { return None };
    let SetExpr::Select(select) = &*subquery.body else { return None };
    let name = |item: &SelectItem| match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(alias.clone()),
        SelectItem::UnnamedExpr(Expr::Identifier(ident)) => Some(ident.clone()),
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => parts.last().cloned(),
        _ => None,
    };
    let names: Option<Vec<Ident>> = match &alias.columns[..] {
        [] => select.projection.iter().map(name).collect(),
        columns => Some(columns.iter().map(|c| c.name.clone()).collect()),
    };
    Some((fold(&alias.name), names?))
}

struct Calls {
    rows: Vec<(String, Vec<Ident>)>,
}

impl VisitorMut for Calls {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Some(object) = self.object(expr) {
            *expr = object;
        }
        ControlFlow::Continue(())
    }
}

impl Calls {
    fn object(&self, expr: &Expr) -> Option<Expr> {
        let Expr::Function(Function { name, args: FunctionArguments::List(list), .. }) = expr else {
            return None;
        };
        let function = fold(name.0.last()?.as_ident()?);
        let build = match function.as_str() {
            "row_to_json" | "to_json" => JSON_OF_ROW,
            "to_jsonb" => "jsonb_build_object",
            _ => return None,
        };
        let [FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Identifier(row)))] = &list.args[..] else {
            return None;
        };
        let (_, names) = self.rows.iter().find(|(alias, _)| *alias == fold(row))?;
        let member = |column: &Ident| {
            let key = Expr::value(Value::SingleQuotedString(fold(column)));
            [key, Expr::CompoundIdentifier(vec![row.clone(), column.clone()])]
        };
        let args = names.iter().flat_map(member).map(|e| FunctionArg::Unnamed(FunctionArgExpr::Expr(e)));
        Some(marker::function(build, args.collect()))
    }
}
