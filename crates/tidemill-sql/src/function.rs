//! Scalar functions and operators with PostgreSQL's names, overloads, results and errors.
//!
//! An [`Overload`] is one row of what `pg_proc` and `pg_operator` are in PostgreSQL: parameter types, a result type and
//! what to run. [`registry`] holds them all. The planner picks one for a call by PostgreSQL's own rules (`planner::resolve`),
//! casts the arguments to the parameter types, and plans a [`Call`] of exactly that overload; so a kernel never meets a
//! type that it did not ask for, and DataFusion's coercion has nothing left to do.

mod arithmetic;
mod array;
pub mod cast;
mod catalog;
mod command;
mod compare;
mod datetime;
mod format;
mod format_number;
mod interval;
mod json;
mod json_access;
mod json_build;
mod json_edit;
mod json_order;
mod json_value;
mod kernel;
pub(crate) mod listed;
mod math;
mod object;
mod operator;
mod pattern;
mod privilege;
pub(crate) mod series;
mod session;
mod size;
mod sleep;
mod string;
mod subscript;
pub mod system;
pub(crate) mod textual;

pub(crate) use pattern::like_escape;
use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::DataFusionError;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::aggregate;
use crate::error::{Result, SqlError};
use crate::planner::vars::SessionVars;
use crate::types::{Scalar, Type};

pub(crate) use compare::{Key, key as sort_key};
pub use compare::{key_function, value_of_key};
pub(crate) use interval::{divide as divide_interval, interpolate as interpolate_interval};
pub(crate) use json_build::JSON_OF_ROW;
pub(crate) use json_value::{canonical as canonical_json, quote as quote_json};
pub(crate) use kernel::{Call, Input};
pub(crate) use object::identifiers;

/// What a parameter accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Param {
    Is(Type),
    /// Any type, the same for all such parameters (`anyelement`), also the element of [`Param::AnyArray`].
    AnyElement,
    AnyArray,
    /// Any type, each parameter its own (`"any"`).
    Any,
}

/// What a call returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Returns {
    Is(Type),
    Element,
    Array,
}

/// How a call is carried out.
pub(crate) enum Body {
    /// Rows in, rows out.
    Kernel(fn(&Call) -> Result<ArrayRef>),
    /// As `Kernel`, boxed: made by the adaptors in `kernel`.
    Closure(Box<dyn Fn(&Call) -> Result<ArrayRef> + Send + Sync>),
    /// DataFusion has an expression that does the same.
    Native(fn(Vec<Expr>) -> Result<Expr>),
}

/// One function or operator for one list of parameter types.
pub struct Overload {
    pub name: &'static str,
    pub params: Vec<Param>,
    /// The last parameter may be repeated.
    pub variadic: bool,
    pub returns: Returns,
    pub volatility: Volatility,
    /// The kernel returns a list for each row, which the planner unnests.
    pub set: bool,
    pub(crate) body: Body,
}

impl Overload {
    /// The parameter at this position of a call.
    pub fn param(&self, i: usize) -> Param {
        self.params[i.min(self.params.len() - 1)]
    }

    pub fn takes(&self, n: usize) -> bool {
        if self.variadic { n + 1 >= self.params.len() && n > 0 } else { n == self.params.len() }
    }

    /// The type of a call whose arguments already have the parameter types.
    pub fn result(&self, args: &[Type]) -> Type {
        let element = || {
            args.iter().enumerate().find_map(|(i, ty)| match self.param(i) {
                Param::AnyElement => Some(Type::new(ty.scalar)),
                Param::AnyArray => Some(Type::new(ty.scalar)),
                _ => None,
            })
        };
        match self.returns {
            Returns::Is(ty) => ty,
            Returns::Element => element().unwrap_or(Type::new(Scalar::Text)),
            Returns::Array => Type::array(element().unwrap_or(Type::new(Scalar::Text)).scalar),
        }
    }
}

impl std::fmt::Debug for Overload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{:?}", self.name, self.params)
    }
}

/// All functions and operators.
pub struct Registry {
    functions: HashMap<&'static str, Vec<&'static Overload>>,
    operators: HashMap<&'static str, Vec<&'static Overload>>,
    /// Of the overloads that are added next.
    volatility: Volatility,
}

impl Registry {
    fn new() -> Self {
        Self { functions: HashMap::new(), operators: HashMap::new(), volatility: Volatility::Immutable }
    }

    /// What `f` adds depends on the session: its time zone or its clock.
    fn stable(&mut self, f: impl FnOnce(&mut Registry)) {
        self.volatility = Volatility::Stable;
        f(self);
        self.volatility = Volatility::Immutable;
    }

    /// What `f` adds is run for each row, whatever its arguments.
    fn volatile(&mut self, f: impl FnOnce(&mut Registry)) {
        let before = std::mem::replace(&mut self.volatility, Volatility::Volatile);
        f(self);
        self.volatility = before;
    }

    /// The planner's own functions have a space in their names, which keeps them from users ([`Registry::is_internal`]).
    pub fn function(&self, name: &str) -> &[&'static Overload] {
        self.functions.get(name).map_or(&[], Vec::as_slice)
    }

    pub fn operator(&self, name: &str) -> &[&'static Overload] {
        self.operators.get(name).map_or(&[], Vec::as_slice)
    }

    /// Whether a function of this name could not be called by a user.
    pub fn is_internal(name: &str) -> bool {
        name.contains(' ')
    }

    /// Of those that users may call.
    pub fn function_names(&self) -> impl Iterator<Item = &'static str> {
        self.functions.keys().copied().filter(|name| !Registry::is_internal(name))
    }

    pub fn operator_names(&self) -> impl Iterator<Item = &'static str> {
        self.operators.keys().copied()
    }

    pub(crate) fn add(&mut self, overload: Overload) {
        // The registry is made once and lives as long as the process.
        let overload: &'static Overload = Box::leak(Box::new(overload));
        let is_operator = overload.name.starts_with(|c: char| !c.is_alphanumeric() && c != '_');
        let map = if is_operator { &mut self.operators } else { &mut self.functions };
        map.entry(overload.name).or_default().push(overload);
    }
}

pub fn registry() -> &'static Registry {
    static REGISTRY: OnceLock<Registry> = OnceLock::new();
    REGISTRY.get_or_init(|| {
        let mut registry = Registry::new();
        arithmetic::register(&mut registry);
        compare::register(&mut registry);
        operator::register(&mut registry);
        math::register(&mut registry);
        string::register(&mut registry);
        pattern::register(&mut registry);
        format::register(&mut registry);
        datetime::register(&mut registry);
        json::register(&mut registry);
        json_edit::register(&mut registry);
        array::register(&mut registry);
        series::register(&mut registry);
        subscript::register(&mut registry);
        system::register(&mut registry);
        registry.stable(catalog::register);
        registry.stable(privilege::register);
        registry.stable(session::register);
        registry.stable(size::register);
        size::register_pretty(&mut registry);
        registry.volatile(sleep::register);
        registry.volatile(command::register);
        // For whom no rule has found states.
        registry.volatile(aggregate::combine::register);
        registry
    })
}

/// The expression that calls an overload with arguments of its parameter types.
pub fn call(overload: &'static Overload, args: Vec<Expr>) -> Result<Expr> {
    match &overload.body {
        Body::Native(build) => build(args),
        _ => Ok(ScalarUDF::new_from_impl(OverloadUdf::new(overload)).call(args)),
    }
}

/// An overload as DataFusion calls it.
#[derive(Debug)]
struct OverloadUdf {
    overload: &'static Overload,
    signature: Signature,
}

impl OverloadUdf {
    fn new(overload: &'static Overload) -> Self {
        // To plan a query is not to make the rows of a series: they would be in the plan, and be hashed and written with it.
        let volatility = if overload.set { Volatility::Volatile } else { overload.volatility };
        Self { overload, signature: Signature::user_defined(volatility) }
    }
}

impl PartialEq for OverloadUdf {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self.overload, other.overload)
    }
}

impl Eq for OverloadUdf {}

impl Hash for OverloadUdf {
    fn hash<H: Hasher>(&self, state: &mut H) {
        std::ptr::from_ref(self.overload).hash(state);
    }
}

impl ScalarUDFImpl for OverloadUdf {
    fn name(&self) -> &str {
        self.overload.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> datafusion::error::Result<Vec<DataType>> {
        Ok(arg_types.to_vec())
    }

    fn return_type(&self, arg_types: &[DataType]) -> datafusion::error::Result<DataType> {
        let types = arg_types.iter().map(Type::from_arrow).collect::<Result<Vec<_>>>().map_err(external)?;
        Ok(self.overload.result(&types).arrow())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> datafusion::error::Result<FieldRef> {
        let types = args
            .arg_fields
            .iter()
            .map(|f| Type::of_field(f))
            .collect::<Result<Vec<_>>>()
            .map_err(external)?;
        let mut ty = self.overload.result(&types);
        ty.array |= self.overload.set;
        Ok(Arc::new(ty.field(self.overload.name)))
    }

    fn simplify(
        &self,
        args: Vec<Expr>,
        _: &SimplifyContext,
    ) -> datafusion::error::Result<ExprSimplifyResult> {
        listed::simplify(self.overload.name, args)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> datafusion::error::Result<ColumnarValue> {
        SessionVars::with(&args, |vars| {
            invoke(&args, vars, |call| match &self.overload.body {
                Body::Kernel(kernel) => kernel(call),
                Body::Closure(kernel) => kernel(call),
                Body::Native(_) => Err(SqlError::internal(format!("{} has no kernel", self.overload.name))),
            })
        })
    }
}

/// Runs a kernel over one batch. When all arguments are constant it runs over one row (a volatile function without
/// arguments over all).
pub(crate) fn invoke(
    args: &ScalarFunctionArgs,
    vars: &SessionVars,
    kernel: impl FnOnce(&Call) -> Result<ArrayRef>,
) -> datafusion::error::Result<ColumnarValue> {
    let constant = !args.args.is_empty() && args.args.iter().all(|a| matches!(a, ColumnarValue::Scalar(_)));
    let inputs = args.args.iter().map(Input::new).collect::<datafusion::error::Result<Vec<_>>>()?;
    let rows = if constant { 1 } else { args.number_rows };
    let types =
        args.arg_fields.iter().map(|f| Type::of_field(f)).collect::<Result<Vec<_>>>().map_err(external)?;
    let call = Call { inputs: &inputs, types: &types, rows, vars, returns: args.return_field.data_type() };
    let array = kernel(&call).map_err(external)?;
    debug_assert_eq!(array.len(), rows);
    if constant {
        return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?));
    }
    Ok(ColumnarValue::Array(array))
}

pub(crate) fn external(error: SqlError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}
