//! Functions in FROM: `FROM f(x) AS t(c)` is `FROM (SELECT f(x) AS f) AS t(c)`.

use std::ops::ControlFlow;

use sqlparser::ast::{self, Expr, FunctionArg, FunctionArgExpr, Query, Select, SetExpr, TableFactor};

use super::call::unqualified;
use super::construct::restore_ordinal;
use super::prepare::Rewriter;
use super::{marker, name, whole_row};
use crate::error::Result;
use crate::function::registry;
use crate::types::{Scalar, Type};
use crate::walk::walk_expressions;

impl Rewriter<'_> {
    /// `FROM f(x) AS t(c)` is `FROM (SELECT f(x) AS f) AS t(c)`.
    pub(super) fn table_function(&self, factor: &mut TableFactor) -> Result<()> {
        let (name, args, alias, ordinality) = match factor {
            TableFactor::Table { name, args: Some(args), alias, with_ordinality, .. } => {
                (name.clone(), args.args.clone(), alias.clone(), *with_ordinality)
            }
            TableFactor::Function { name, args, alias, with_ordinality, .. } => {
                (name.clone(), args.clone(), alias.clone(), *with_ordinality)
            }
            TableFactor::UNNEST { array_exprs, alias, with_ordinality, .. } => {
                let args = array_exprs.iter().map(|e| FunctionArg::Unnamed(FunctionArgExpr::Expr(e.clone())));
                (
                    ast::ObjectName::from(vec![ast::Ident::new("unnest")]),
                    args.collect(),
                    alias.clone(),
                    *with_ordinality,
                )
            }
            _ => return Ok(()),
        };
        let function = unqualified(&name);
        if registry().function(&function).is_empty() && self.state.table_functions().contains_key(&function) {
            return Ok(());
        }
        let column = match function.as_str() {
            name if whole_row::ELEMENTS.contains(&name) => "value".to_string(),
            _ => alias.as_ref().map_or(function.clone(), |alias| name::fold(&alias.name)),
        };
        let alias = alias.unwrap_or_else(|| ast::TableAlias {
            explicit: true,
            name: ast::Ident::with_quote('"', function.clone()),
            columns: vec![],
            at: None,
        });
        let lateral = args.iter().any(mentions_column);
        let query = match lazy_series(&function, &args) {
            Some(table) => select_from(series_value(&args), &column, table),
            None => {
                let call = match marker::function(&function, args) {
                    Expr::Function(call) => self.function(call)?,
                    other => other,
                };
                query_of(SetExpr::Select(Box::new(select(call, &column))))
            }
        };
        let query = if ordinality { numbered(query, &column) } else { query };
        *factor =
            TableFactor::Derived { lateral, subquery: Box::new(query), alias: Some(alias), sample: None };
        Ok(())
    }
}

/// `WITH ORDINALITY`: the rows with their numbers.
fn numbered(query: Query, column: &str) -> Query {
    let rows = TableFactor::Derived {
        lateral: false,
        subquery: Box::new(query),
        alias: Some(ast::TableAlias {
            explicit: true,
            name: ast::Ident::with_quote('"', "rows"),
            columns: vec![],
            at: None,
        }),
        sample: None,
    };
    let mut number = marker::function("row_number", vec![]);
    if let Expr::Function(call) = &mut number {
        let window =
            ast::WindowSpec { window_name: None, partition_by: vec![], order_by: vec![], window_frame: None };
        call.over = Some(ast::WindowType::WindowSpec(window));
    }
    let number = marker::cast(number, Type::new(Scalar::Int8));
    let mut query = select_from(Expr::Identifier(ast::Ident::with_quote('"', column)), column, rows);
    if let SetExpr::Select(select) = &mut *query.body {
        let alias = ast::Ident::with_quote('"', "ordinality");
        select.projection.push(ast::SelectItem::ExprWithAlias { expr: number, alias });
    }
    query
}

/// A series between integer literals comes from DataFusion's table function, which makes it row by row.
fn lazy_series(function: &str, args: &[FunctionArg]) -> Option<TableFactor> {
    if function != "generate_series" || !(2..=3).contains(&args.len()) {
        return None;
    }
    let mut plain = args.to_vec();
    for arg in &mut plain {
        let FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) = arg else { return None };
        let (number, ty) = marker::as_literal(expr)?;
        // A step of zero has PostgreSQL's error message only in our own function.
        if ty.scalar == Scalar::Numeric || number == "0" && args.len() == 3 {
            return None;
        }
        restore_ordinal(expr);
    }
    Some(TableFactor::Table {
        name: ast::ObjectName::from(vec![ast::Ident::new("generate_series")]),
        alias: None,
        args: Some(ast::TableFunctionArgs { args: plain, settings: None }),
        with_hints: vec![],
        version: None,
        with_ordinality: false,
        partitions: vec![],
        json_path: None,
        sample: None,
        index_hints: vec![],
    })
}

/// The value of a lazy series in its type.
fn series_value(args: &[FunctionArg]) -> Expr {
    let wide = args.iter().any(|arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => {
            marker::as_literal(expr).is_some_and(|(_, ty)| ty.scalar == Scalar::Int8)
        }
        _ => false,
    });
    let value = Expr::Identifier(ast::Ident::new("value"));
    marker::cast(value, Type::new(if wide { Scalar::Int8 } else { Scalar::Int4 }))
}

fn mentions_column(arg: &FunctionArg) -> bool {
    let mut found = false;
    let _ = walk_expressions(arg, |expr: &Expr| {
        found |= matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
        ControlFlow::<()>::Continue(())
    });
    found
}

pub fn select_from(expr: Expr, column: &str, table: TableFactor) -> Query {
    let mut select = select(expr, column);
    select.from = vec![ast::TableWithJoins { relation: table, joins: vec![] }];
    query_of(SetExpr::Select(Box::new(select)))
}

/// `SELECT * FROM table`
pub fn all_from(table: TableFactor) -> Box<Select> {
    let mut select = select(Expr::value(ast::Value::Null), "all");
    select.projection = vec![ast::SelectItem::Wildcard(ast::WildcardAdditionalOptions::default())];
    select.from = vec![ast::TableWithJoins { relation: table, joins: vec![] }];
    Box::new(select)
}

fn select(expr: Expr, column: &str) -> Select {
    let item = ast::SelectItem::ExprWithAlias { expr, alias: ast::Ident::with_quote('"', column) };
    Select {
        select_token: ast::helpers::attached_token::AttachedToken::empty(),
        optimizer_hints: vec![],
        distinct: None,
        select_modifiers: None,
        top: None,
        top_before_distinct: false,
        projection: vec![item],
        exclude: None,
        into: None,
        from: vec![],
        lateral_views: vec![],
        prewhere: None,
        selection: None,
        connect_by: vec![],
        group_by: ast::GroupByExpr::Expressions(vec![], vec![]),
        cluster_by: vec![],
        distribute_by: vec![],
        sort_by: vec![],
        having: None,
        named_window: vec![],
        qualify: None,
        window_before_qualify: false,
        value_table_mode: None,
        flavor: ast::SelectFlavor::Standard,
    }
}

/// A query that is no more than its body.
pub fn query_of(body: SetExpr) -> Query {
    Query {
        with: None,
        body: Box::new(body),
        order_by: None,
        limit_clause: None,
        fetch: None,
        locks: vec![],
        for_clause: None,
        settings: None,
        format_clause: None,
        pipe_operators: vec![],
    }
}
