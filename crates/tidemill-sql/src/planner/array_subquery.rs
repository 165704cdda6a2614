//! `ARRAY(SELECT …)` as an aggregate over the subquery.
//!
//! ```text
//! ARRAY(SELECT a FROM t ORDER BY b)
//! => coalesce((SELECT array_agg(value ORDER BY key_1) FROM (SELECT a AS value, b AS key_1 FROM t) items), '{}')
//! ```

use sqlparser::ast::{
    self, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArguments, OrderBy,
    OrderByExpr, OrderByKind, Query, Select, SelectItem, SetExpr, Value,
};

use super::{from_function, marker};
use crate::error::{Result, SqlError};

const VALUE: &str = "value";

/// The subquery of `ARRAY(…)`.
pub(super) fn subquery(expr: &Expr) -> Option<&Query> {
    match expr {
        Expr::Function(Function { name, args: FunctionArguments::Subquery(query), .. })
            if name.0.len() == 1
                && name.0[0].as_ident().is_some_and(|i| i.value.eq_ignore_ascii_case("array")) =>
        {
            Some(query)
        }
        _ => None,
    }
}

pub(super) fn rewrite(query: &Query) -> Result<Expr> {
    let mut items = query.clone();
    let order = match items.order_by.take() {
        Some(OrderBy { kind: OrderByKind::Expressions(exprs), .. }) => exprs,
        _ => vec![],
    };
    if items.limit_clause.is_some() || items.fetch.is_some() {
        // Which rows there are depends on the order too.
        items.order_by.clone_from(&query.order_by);
    }
    let mut keys = vec![];
    match &mut *items.body {
        SetExpr::Select(select) if select.distinct.is_none() => {
            let (value, alias) = name_value(select)?;
            for (i, key) in order.into_iter().enumerate() {
                let is_value = is_first(&key.expr) || key.expr == value || alias.as_ref() == Some(&key.expr);
                let name = if is_value { VALUE.to_string() } else { format!("key_{i}") };
                if !is_value {
                    select.projection.push(item(key.expr, &name));
                }
                keys.push(OrderByExpr { expr: column(&name), ..key });
            }
        }
        _ => {
            // The order can only be by the one column.
            keys.extend(order.into_iter().map(|key| OrderByExpr { expr: column(VALUE), ..key }));
        }
    }
    let columns = (keys.is_empty() || keys.iter().all(|k| k.expr == column(VALUE)))
        .then(|| ast::TableAliasColumnDef { name: quoted(VALUE), data_type: None });
    let table = ast::TableFactor::Derived {
        lateral: false,
        subquery: Box::new(items),
        alias: Some(ast::TableAlias {
            explicit: true,
            name: quoted("items"),
            columns: columns.into_iter().collect(),
            at: None,
        }),
        sample: None,
    };
    let aggregate = from_function::select_from(array_agg(keys), "array", table);
    let empty = Expr::value(Value::SingleQuotedString("{}".into()));
    let args = [Expr::Subquery(Box::new(aggregate)), empty];
    Ok(marker::function(
        "coalesce",
        args.into_iter().map(|e| FunctionArg::Unnamed(FunctionArgExpr::Expr(e))).collect(),
    ))
}

/// Names the one column of the select list; returns what it was and its alias.
fn name_value(select: &mut Select) -> Result<(Expr, Option<Expr>)> {
    let [only] = &mut select.projection[..] else {
        return Err(SqlError::syntax("subquery must return only one column"));
    };
    let (expr, alias) = match only {
        SelectItem::UnnamedExpr(expr) => (expr.clone(), None),
        SelectItem::ExprWithAlias { expr, alias } => (expr.clone(), Some(Expr::Identifier(alias.clone()))),
        _ => {
            return Err(
                SqlError::unsupported("ARRAY(SELECT *) is not supported").with_hint("Name the column.")
            );
        }
    };
    *only = item(expr.clone(), VALUE);
    Ok((expr, alias))
}

/// `ORDER BY 1`.
fn is_first(expr: &Expr) -> bool {
    matches!(expr, Expr::Value(value) if matches!(&value.value, Value::Number(n, _) if n == "1"))
}

fn array_agg(order_by: Vec<OrderByExpr>) -> Expr {
    let arg = FunctionArg::Unnamed(FunctionArgExpr::Expr(column(VALUE)));
    let mut call = marker::function("array_agg", vec![arg]);
    if let Expr::Function(Function { args: FunctionArguments::List(list), .. }) = &mut call
        && !order_by.is_empty()
    {
        list.clauses.push(FunctionArgumentClause::OrderBy(order_by));
    }
    call
}

fn item(expr: Expr, name: &str) -> SelectItem {
    SelectItem::ExprWithAlias { expr, alias: quoted(name) }
}

fn column(name: &str) -> Expr {
    Expr::Identifier(quoted(name))
}

fn quoted(name: &str) -> ast::Ident {
    ast::Ident::with_quote('"', name)
}
