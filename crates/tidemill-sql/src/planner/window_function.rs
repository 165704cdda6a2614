//! Window functions: which arguments they take, and what DataFusion's need that PostgreSQL's don't.

use std::sync::{Arc, LazyLock};

use datafusion::common::{DFSchema, ScalarValue};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{Expr, ExprSchemable, Volatility};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;

use crate::error::{Result, SqlError, SqlState};
use crate::function::{Body, Overload, Param, Returns};
use crate::types::{Scalar, Type};

/// What can be called of DataFusion's window functions: PostgreSQL's, all of them.
pub const NAMES: [&str; 11] = [
    "row_number",
    "rank",
    "dense_rank",
    "percent_rank",
    "cume_dist",
    "ntile",
    "lag",
    "lead",
    "first_value",
    "last_value",
    "nth_value",
];

/// The parameters of each: nothing is run, calls are only judged by them.
static SIGNATURES: LazyLock<Vec<Overload>> = LazyLock::new(|| {
    use Param::AnyElement;
    let int = Param::Is(Type::new(Scalar::Int4));
    let mut all: Vec<(&'static str, Vec<Param>)> = NAMES[..5].iter().map(|name| (*name, vec![])).collect();
    all.push(("ntile", vec![int]));
    for name in ["lag", "lead"] {
        all.push((name, vec![AnyElement]));
        all.push((name, vec![AnyElement, int]));
        all.push((name, vec![AnyElement, int, AnyElement]));
    }
    all.extend([("first_value", vec![AnyElement]), ("last_value", vec![AnyElement])]);
    all.push(("nth_value", vec![AnyElement, int]));
    all.into_iter().map(|(name, params)| signature(name, params)).collect()
});

fn signature(name: &'static str, params: Vec<Param>) -> Overload {
    let body = Body::Native(|_| Err(SqlError::internal("a window function is not an expression")));
    let returns = Returns::Element;
    Overload { name, params, variadic: false, returns, volatility: Volatility::Immutable, set: false, body }
}

pub fn signatures(name: &str) -> Vec<&'static Overload> {
    SIGNATURES.iter().filter(|signature| signature.name == name).collect()
}

/// The arguments of a call as DataFusion understands them, which takes only constants for all but the first, and for a
/// position neither null nor, in `nth_value`, what is not positive.
pub fn arguments(name: &str, mut args: Vec<Expr>, schema: &DFSchema) -> Result<Vec<Expr>> {
    let position = match name {
        "lag" | "lead" | "nth_value" => 1,
        "ntile" => 0,
        _ => return Ok(args),
    };
    for arg in args.iter_mut().skip(position) {
        if arg.any_column_refs() {
            let message = format!("{name} is supported only with constants behind its first argument");
            return Err(SqlError::unsupported(message));
        }
    }
    let Some(arg) = args.get_mut(position) else { return Ok(args) };
    *arg = folded(arg.clone())?;
    match arg {
        Expr::Literal(ScalarValue::Int32(Some(1..)), _) => {}
        Expr::Literal(ScalarValue::Int32(Some(_)), _) if matches!(name, "lag" | "lead") => {}
        Expr::Literal(ScalarValue::Int32(Some(_)), _) => {
            let state = match name {
                "ntile" => SqlState::INVALID_ARGUMENT_FOR_NTILE,
                _ => SqlState::INVALID_ARGUMENT_FOR_NTH_VALUE,
            };
            return Err(SqlError::new(state, format!("argument of {name} must be greater than zero")));
        }
        Expr::Literal(ScalarValue::Int32(None), _) if position == 1 => return nothing(args, schema),
        _ => {
            return Err(SqlError::unsupported(format!(
                "{name} is supported only with a number as its argument"
            )));
        }
    }
    Ok(args)
}

/// At no position there is no value, not even the default.
fn nothing(mut args: Vec<Expr>, schema: &DFSchema) -> Result<Vec<Expr>> {
    for (i, arg) in args.iter_mut().enumerate() {
        let value = match i {
            1 => ScalarValue::Int32(Some(1)),
            _ => arg.get_type(schema).and_then(|ty| ScalarValue::try_from(&ty)).map_err(super::plan_error)?,
        };
        *arg = Expr::Literal(value, None);
    }
    Ok(args)
}

fn folded(expr: Expr) -> Result<Expr> {
    let context = SimplifyContext::builder().with_schema(Arc::new(DFSchema::empty())).build();
    ExprSimplifier::new(context).simplify(expr).map_err(super::plan_error)
}
