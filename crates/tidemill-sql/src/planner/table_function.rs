//! Functions in FROM that have several columns: each is a query over what holds the same rows.

use std::ops::ControlFlow;

use sqlparser::ast::{self, Expr, FunctionArg, FunctionArgExpr, TableFactor, Value, VisitorMut};

use super::name::fold;
use crate::error::{Result, SqlError};
use crate::walk::walk_mut;

/// Functions without arguments, and the system relation that has their rows.
const RELATIONS: [(&str, &str); 20] = [
    ("pg_get_keywords", "pg_catalog.\"pg_get_keywords()\""),
    ("pg_show_all_settings", "pg_catalog.pg_settings"),
    ("pg_timezone_names", "pg_catalog.pg_timezone_names"),
    ("pg_timezone_abbrevs", "pg_catalog.pg_timezone_abbrevs"),
    ("pg_lock_status", "pg_catalog.pg_locks"),
    ("pg_cursor", "pg_catalog.pg_cursors"),
    ("pg_prepared_statement", "pg_catalog.pg_prepared_statements"),
    ("pg_available_extensions", "pg_catalog.pg_available_extensions"),
    ("get_views", "pipelinedb.views"),
    ("get_transforms", "pipelinedb.transforms"),
    ("get_streams", "pipelinedb.streams"),
    ("get_stream_readers", "pipelinedb.stream_readers"),
    ("get_stream_stats", "pipelinedb.stream_stats"),
    ("get_proc_query_stats", "pipelinedb.proc_query_stats"),
    // As PipelineDB named them before it was an extension.
    ("pipeline_views", "pipelinedb.views"),
    ("pipeline_queries", "pipelinedb.views"),
    ("pipeline_transforms", "pipelinedb.transforms"),
    ("pipeline_streams", "pipelinedb.streams"),
    ("pipeline_stream_readers", "pipelinedb.stream_readers"),
    ("pipeline_get_stream_readers", "pipelinedb.stream_readers"),
];

/// Functions of one argument, written `$1`.
const QUERIES: [(&str, &str); 6] = [
    (
        "pg_options_to_table",
        "SELECT split_part(o, '=', 1) AS option_name,
                CASE WHEN strpos(o, '=') > 0 THEN substr(o, strpos(o, '=') + 1) END AS option_value
         FROM (SELECT unnest($1) AS o) AS options",
    ),
    ("json_each", "SELECT k AS key, $1::json -> k AS value FROM (SELECT json_object_keys($1) AS k) AS keys"),
    (
        "json_each_text",
        "SELECT k AS key, $1::json ->> k AS value FROM (SELECT json_object_keys($1) AS k) AS keys",
    ),
    (
        "jsonb_each",
        "SELECT k AS key, $1::jsonb -> k AS value FROM (SELECT jsonb_object_keys($1) AS k) AS keys",
    ),
    (
        "jsonb_each_text",
        "SELECT k AS key, $1::jsonb ->> k AS value FROM (SELECT jsonb_object_keys($1) AS k) AS keys",
    ),
    // No privileges are ever granted or revoked, so an access list is null.
    (
        "aclexplode",
        "SELECT 0::oid AS grantor, 0::oid AS grantee, a AS privilege_type, false AS is_grantable
         FROM (SELECT unnest($1) AS a) AS items WHERE a IS NULL",
    ),
];

/// Rewrites a factor that is one of these functions.
pub(super) fn rewrite(factor: &mut TableFactor) -> Result<()> {
    let (name, args, alias) = match &*factor {
        TableFactor::Table { name, args: Some(args), alias, with_ordinality: false, .. } => {
            (name, &args.args, alias)
        }
        TableFactor::Function { name, args, alias, with_ordinality: false, .. } => (name, args, alias),
        _ => return Ok(()),
    };
    let Some(function) = name.0.last().and_then(|p| p.as_ident()).map(fold) else { return Ok(()) };
    let text = match &args[..] {
        [] => RELATIONS
            .iter()
            .find(|(name, _)| *name == function)
            .map(|(_, relation)| format!("SELECT * FROM {relation}")),
        [_] => QUERIES.iter().find(|(name, _)| *name == function).map(|(_, query)| (*query).to_string()),
        _ => None,
    };
    let Some(text) = text else { return Ok(()) };
    let mut query = crate::parse::parse_query(&text)?;
    if let [arg] = &args[..] {
        let FunctionArg::Unnamed(FunctionArgExpr::Expr(arg)) = arg else {
            return Err(SqlError::unsupported(format!("function {function} does not take named arguments")));
        };
        let _ = walk_mut(query.as_mut(), &mut Argument(arg));
    }
    let lateral = !args.is_empty();
    let alias = alias.clone().unwrap_or_else(|| ast::TableAlias {
        explicit: true,
        name: ast::Ident::with_quote('"', function),
        columns: vec![],
        at: None,
    });
    *factor = TableFactor::Derived { lateral, subquery: query, alias: Some(alias), sample: None };
    Ok(())
}

/// Puts the argument in the place of `$1`.
struct Argument<'a>(&'a Expr);

impl VisitorMut for Argument<'_> {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if matches!(expr, Expr::Value(value) if matches!(value.value, Value::Placeholder(_))) {
            *expr = self.0.clone();
        }
        ControlFlow::Continue(())
    }
}
