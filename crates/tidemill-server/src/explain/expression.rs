//! A physical expression as SQL.

use std::sync::Arc;

use arrow::array::Array;
use arrow::datatypes::Schema;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CaseExpr, CastExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, Literal, NotExpr,
};
use datafusion::physical_expr::{PhysicalExpr, PhysicalSortExpr, ScalarFunctionExpr};
use tidemill_sql::aggregate::name_within_group;
use tidemill_sql::name::{quote_ident, quote_literal};
use tidemill_sql::planner::display_name;
use tidemill_sql::text::{Context, TimeZone};
use tidemill_sql::types::{Scalar, Type};

use tidemill_sql::value::ValueEncoder;

use crate::query::aside::Interruptible;

type Expr = Arc<dyn PhysicalExpr>;

/// Operators and calls are in parentheses, as PostgreSQL deparses them.
pub fn text(expr: &Expr) -> String {
    if let Some(column) = expr.downcast_ref::<Column>() {
        return name(column.name());
    }
    if let Some(literal) = expr.downcast_ref::<Literal>() {
        return constant(literal);
    }
    if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
        let operator = match binary.op() {
            Operator::NotEq => "<>".to_string(),
            operator => operator.to_string(),
        };
        return format!("({} {operator} {})", text(binary.left()), text(binary.right()));
    }
    if let Some(call) = expr.downcast_ref::<ScalarFunctionExpr>() {
        return function(call);
    }
    if let Some(condition) = expr.downcast_ref::<Interruptible>() {
        return text(condition.expr());
    }
    if let Some(not) = expr.downcast_ref::<NotExpr>() {
        return format!("(NOT {})", text(not.arg()));
    }
    if let Some(null) = expr.downcast_ref::<IsNullExpr>() {
        return format!("({} IS NULL)", text(null.arg()));
    }
    if let Some(null) = expr.downcast_ref::<IsNotNullExpr>() {
        return format!("({} IS NOT NULL)", text(null.arg()));
    }
    if let Some(list) = expr.downcast_ref::<InListExpr>() {
        let not = if list.negated() { "NOT " } else { "" };
        return format!("({} {not}IN ({}))", text(list.expr()), texts(list.list()));
    }
    if let Some(cast) = expr.downcast_ref::<CastExpr>() {
        return match Type::of_field(cast.target_field()) {
            Ok(ty) => format!("({})::{}", text(cast.expr()), ty.display()),
            Err(_) => text(cast.expr()),
        };
    }
    if let Some(case) = expr.downcast_ref::<CaseExpr>() {
        return case_text(case);
    }
    plain(&expr.to_string())
}

pub fn texts(exprs: &[Expr]) -> String {
    exprs.iter().map(text).collect::<Vec<_>>().join(", ")
}

/// A column's name, quoted unless it is the text of an expression.
pub fn name(name: &str) -> String {
    let name = display_name(name).replace("count(Int64(1))", "count(*)");
    if name.contains('(') { plain(&without_metadata(name)) } else { quote_ident(&name) }
}

/// The name of an expression shows what its literals carry along: `Utf8("") FieldMetadata { inner: {"pg.type": "text"} }`.
fn without_metadata(mut name: String) -> String {
    const BEGIN: &str = " FieldMetadata { inner: {";
    const END: &str = "} }";
    while let Some(from) = name.find(BEGIN)
        && let Some(length) = name[from..].find(END)
    {
        name.replace_range(from..from + length + END.len(), "");
    }
    name
}

/// What DataFusion shows, without the numbers of columns: `n@0` is `n`.
fn plain(shown: &str) -> String {
    let mut text = String::with_capacity(shown.len());
    let mut chars = shown.chars().peekable();
    while let Some(c) = chars.next() {
        if c == '@' && chars.peek().is_some_and(char::is_ascii_digit) {
            while chars.next_if(char::is_ascii_digit).is_some() {}
        } else {
            text.push(c);
        }
    }
    text
}

fn function(call: &ScalarFunctionExpr) -> String {
    let is_operator = |name: &str| !name.chars().any(|c| c.is_alphanumeric() || c == '_');
    match (call.name(), call.args()) {
        (name, [left, right]) if is_operator(name) => format!("({} {name} {})", text(left), text(right)),
        (name, [operand]) if is_operator(name) => format!("({name} {})", text(operand)),
        (name, args) => format!("{name}({})", texts(args)),
    }
}

fn case_text(case: &CaseExpr) -> String {
    let mut shown = String::from("CASE");
    if let Some(operand) = case.expr() {
        shown += &format!(" {}", text(operand));
    }
    for (when, then) in case.when_then_expr() {
        shown += &format!(" WHEN {} THEN {}", text(when), text(then));
    }
    if let Some(otherwise) = case.else_expr() {
        shown += &format!(" ELSE {}", text(otherwise));
    }
    shown + " END"
}

fn constant(literal: &Literal) -> String {
    let shown = || {
        let field = literal.return_field(&Schema::empty()).ok()?;
        let ty = Type::of_field(&field).ok()?;
        let array = literal.value().to_array().ok()?;
        if array.is_null(0) {
            return Some("NULL".to_string());
        }
        let mut bytes = Vec::new();
        let context = Context { now: 0.into(), zone: TimeZone::UTC };
        ValueEncoder::new(&array, ty, &context).ok()?.write_text(0, &mut bytes).ok()?;
        let value = String::from_utf8(bytes).ok()?;
        Some(match ty.scalar {
            _ if ty.array => format!("{}::{}", quote_literal(&value), ty.display()),
            Scalar::Int2 | Scalar::Int4 | Scalar::Int8 | Scalar::Numeric => value,
            Scalar::Bool => if value == "t" { "true" } else { "false" }.to_string(),
            _ => format!("{}::{}", quote_literal(&value), ty.display()),
        })
    };
    shown().unwrap_or_else(|| literal.value().to_string())
}

/// `sum(DISTINCT x ORDER BY y) FILTER (WHERE z)`
pub fn aggregate(function: &AggregateFunctionExpr, filter: Option<&Expr>) -> String {
    let arguments = function.expressions();
    let name = function.fun().name();
    let filter = filter.map_or_else(String::new, |filter| format!(" FILTER (WHERE {})", text(filter)));
    if let Some(name) = name_within_group(name) {
        let direct = &arguments[function.order_bys().len().min(arguments.len())..];
        let order = order(function.order_bys());
        return format!("{name}({}) WITHIN GROUP (ORDER BY {order}){filter}", texts(direct));
    }
    let counts_rows = name == "count"
        && matches!(arguments.as_slice(), [only] if only.downcast_ref::<Literal>()
            .is_some_and(|literal| *literal.value() == ScalarValue::Int64(Some(1))));
    let mut inner = if counts_rows { "*".to_string() } else { texts(&arguments) };
    if function.is_distinct() {
        inner.insert_str(0, "DISTINCT ");
    }
    if !function.order_bys().is_empty() {
        inner += &format!(" ORDER BY {}", order(function.order_bys()));
    }
    format!("{name}({inner}){filter}")
}

/// As PostgreSQL: what is not the default of the direction is told.
pub fn order<'a>(items: impl IntoIterator<Item = &'a PhysicalSortExpr>) -> String {
    let item = |item: &PhysicalSortExpr| {
        let direction = if item.options.descending { " DESC" } else { "" };
        let nulls = match (item.options.descending, item.options.nulls_first) {
            (false, true) => " NULLS FIRST",
            (true, false) => " NULLS LAST",
            _ => "",
        };
        format!("{}{direction}{nulls}", text(&item.expr))
    };
    items.into_iter().map(item).collect::<Vec<_>>().join(", ")
}
