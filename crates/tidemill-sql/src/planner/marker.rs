//! Markers: how [`super::prepare`] hands a construct to [`super::lower`] through DataFusion's SQL planner.
//!
//! The planner asks extensions about one kind of expression only with the schema at hand: the binary operator. So each
//! construct whose types follow PostgreSQL's rules is written as a binary operator with a private name:
//!
//! ```text
//! x::numeric(10,2)     x  cast  'numeric,false,655366'
//! lower(x)             __pack(x)  call  'lower'
//! CASE WHEN c THEN 1 ELSE 2.5 END     __pack(c, 1, 2.5)  case  'else'
//! 42                   '42'  literal  'int4,false,-1'
//! ```
//!
//! The operands are planned by DataFusion first; the marker then becomes an ordinary, fully typed expression. Names with
//! a space can't come from a user's statement.

use arrow::datatypes::DataType;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use sqlparser::ast;
use sqlparser::tokenizer::Span;

use super::place;
use crate::types::{Scalar, Type};

pub const CALL: &str = "tidemill call";
/// One argument of a window function: `__pack(all arguments)  argument  '1 lag'` is the second one. Of an aggregate with
/// WITHIN GROUP, `'1 rank 1'` tells that one argument is direct.
pub const ARGUMENT: &str = "tidemill argument";
/// An expression, and what it is called within others.
pub const NAMED: &str = "tidemill named";
pub const CAST: &str = "tidemill cast";
pub const PARAMETER: &str = "tidemill parameter";
pub const LITERAL: &str = "tidemill literal";
pub const CASE: &str = "tidemill case";
pub const IN: &str = "tidemill in";
pub const NOT_IN: &str = "tidemill not in";
pub const ARRAY: &str = "tidemill array";
pub const PREFIX: &str = "tidemill prefix";
pub const BOOLEAN: &str = "tidemill boolean";
/// `x  assign  'int4,false,-1 name'`: as INSERT makes it the value of the column of this name. In a pack it comes with
/// examples of all types in its column.
pub const ASSIGN: &str = "tidemill assign";
pub const UNIFY: &str = "tidemill unify";
/// `k  merged  '2'`: a column that two relations have, of which it is the first one's.
pub const MERGED: &str = "tidemill merged";
pub const DISTINCT: &str = "tidemill distinct";
pub const NOT_DISTINCT: &str = "tidemill not distinct";
/// Followed by the operator.
pub const ANY: &str = "tidemill any ";
pub const ALL: &str = "tidemill all ";
/// Followed by the operator; the right operand is a subquery.
pub const SOME_ROW: &str = "tidemill some row ";
pub const EACH_ROW: &str = "tidemill each row ";
pub const NO_ROW: &str = "tidemill no row ";

pub const PACK: &str = "__pack";

pub fn op(name: &str, left: ast::Expr, right: ast::Expr) -> ast::Expr {
    ast::Expr::BinaryOp {
        left: Box::new(left),
        op: ast::BinaryOperator::Custom(name.into()),
        right: Box::new(right),
    }
}

pub fn text(value: impl Into<String>) -> ast::Expr {
    ast::Expr::value(ast::Value::SingleQuotedString(value.into()))
}

/// A text that stands somewhere in the statement.
pub fn text_at(value: impl Into<String>, span: Span) -> ast::Expr {
    ast::Expr::Value(ast::ValueWithSpan { value: ast::Value::SingleQuotedString(value.into()), span })
}

pub fn call(name: &str, args: Vec<ast::Expr>) -> ast::Expr {
    op(CALL, pack(args), text(name))
}

pub fn cast(expr: ast::Expr, ty: Type) -> ast::Expr {
    op(CAST, expr, text(encode(ty)))
}

/// A value as INSERT assigns it to a column.
pub fn assigned(expr: ast::Expr, ty: Type, column: &str) -> ast::Expr {
    op(ASSIGN, expr, text(format!("{} {column}", encode(ty))))
}

/// The value of such a marker, and what it is assigned to.
pub fn take_assigned(expr: &mut ast::Expr) -> Option<ast::Expr> {
    match expr {
        ast::Expr::BinaryOp { left, op, right } if is(op, ASSIGN) => {
            let value = std::mem::replace(&mut **left, ast::Expr::value(ast::Value::Null));
            let target = std::mem::replace(&mut **right, ast::Expr::value(ast::Value::Null));
            *expr = value;
            Some(target)
        }
        _ => None,
    }
}

/// A parameter whose type is declared.
pub fn parameter(expr: ast::Expr, ty: Type) -> ast::Expr {
    op(PARAMETER, expr, text(encode(ty)))
}

/// A number as it is written, perhaps with a minus sign in front.
pub fn literal(number: &str, ty: Type) -> ast::Expr {
    literal_at(number, ty, Span::empty())
}

pub fn literal_at(number: &str, ty: Type, span: Span) -> ast::Expr {
    op(LITERAL, text_at(number, span), text(encode(ty)))
}

/// The number of a literal marker.
pub fn as_literal(expr: &ast::Expr) -> Option<(&str, Type)> {
    match expr {
        ast::Expr::BinaryOp { left, op, right } if is(op, LITERAL) => match (&**left, &**right) {
            (ast::Expr::Value(number), ast::Expr::Value(ty)) => match (&number.value, &ty.value) {
                (ast::Value::SingleQuotedString(number), ast::Value::SingleQuotedString(ty)) => {
                    Some((number, decode(ty)?))
                }
                _ => None,
            },
            _ => None,
        },
        _ => None,
    }
}

/// Whether an operator is this marker, with or without places.
pub fn is(op: &ast::BinaryOperator, marker: &str) -> bool {
    matches!(op, ast::BinaryOperator::Custom(name) if place::split(name).0 == marker)
}

/// Several operands as one.
pub fn pack(args: Vec<ast::Expr>) -> ast::Expr {
    let args = args.into_iter().map(|e| ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(e))).collect();
    function(PACK, args)
}

pub fn function(name: &str, args: Vec<ast::FunctionArg>) -> ast::Expr {
    ast::Expr::Function(ast::Function {
        name: ast::ObjectName::from(vec![ast::Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: ast::FunctionArguments::None,
        args: ast::FunctionArguments::List(ast::FunctionArgumentList {
            duplicate_treatment: None,
            args,
            clauses: vec![],
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: vec![],
    })
}

/// The operands of a pack after planning.
pub fn unpack(expr: Expr) -> Vec<Expr> {
    match expr {
        Expr::ScalarFunction(function) if function.func.name() == PACK => function.args,
        other => vec![other],
    }
}

fn encode(ty: Type) -> String {
    format!("{},{},{}", ty.scalar.typname(), ty.array, ty.typmod)
}

pub fn decode(text: &str) -> Option<Type> {
    let mut parts = text.split(',');
    let scalar = Scalar::ALL.into_iter().find(|s| Some(s.typname()) == parts.clone().next())?;
    parts.next();
    Some(Type { scalar, array: parts.next()?.parse().ok()?, typmod: parts.next()?.parse().ok()? })
}

/// The function that stands for a pack while DataFusion plans; it is never in a finished plan.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Pack {
    signature: Signature,
}

impl Pack {
    pub fn udf() -> ScalarUDF {
        ScalarUDF::new_from_impl(Self { signature: Signature::user_defined(Volatility::Immutable) })
    }
}

impl ScalarUDFImpl for Pack {
    fn name(&self) -> &str {
        PACK
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> datafusion::error::Result<Vec<DataType>> {
        Ok(types.to_vec())
    }

    fn return_type(&self, _: &[DataType]) -> datafusion::error::Result<DataType> {
        Ok(DataType::Null)
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> datafusion::error::Result<ColumnarValue> {
        datafusion::common::internal_err!("{PACK} is a marker of the planner")
    }
}
