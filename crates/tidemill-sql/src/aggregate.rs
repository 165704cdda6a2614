//! Aggregates with PostgreSQL's names, result types, values and errors.
//!
//! An aggregate is resolved by the types of its arguments to a [`Function`]: what its state is, how a state is made, and
//! what it finishes to. A state is the same whether a query folds a table or a continuous view folds a stream: it can be
//! written to columns, read back and merged, and `finish(merge(a, b))` is the aggregate over both inputs. So no state may
//! fail when it is merged: what can overflow (`sum(integer)`) remembers that it did and fails when it is finished.

mod bits;
pub mod combine;
mod count;
mod decimal;
mod extreme;
mod fixed;
mod float;
mod integer;
mod interval;
mod kept;
mod layout;
mod ordered_set;
mod regression;
mod state_form;
mod value;

use std::fmt::Debug;
use std::sync::Arc;

use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::expr::AggregateFunctionParams;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Expr, GroupsAccumulator, Signature, Volatility,
};

use crate::error::{Result, SqlError, SqlState};
use crate::function::external;
use crate::types::{Scalar, Type};

pub use layout::Layout;
pub use state_form::{PARTIAL_STATE, StateForm, groups_accumulator, state_name};

/// How an aggregate works for the types of its arguments.
pub(crate) trait Function: Debug + Send + Sync {
    /// Of the columns of its state.
    fn state(&self) -> Vec<DataType>;
    fn accumulator(&self) -> DfResult<Box<dyn Accumulator>>;
    /// `None`: groups are folded by an accumulator each.
    fn groups(&self) -> Option<Box<dyn GroupsAccumulator>>;
    /// Of an ordered-set aggregate, the same for rows in this order.
    fn within_group(&self, _: &[SortOptions]) -> Option<Arc<dyn Function>> {
        None
    }
}

/// An aggregate for given arguments.
pub(crate) struct Resolved {
    /// What the arguments are cast to; only casts that DataFusion does as PostgreSQL.
    arguments: Vec<DataType>,
    returns: Type,
    function: Arc<dyn Function>,
}

impl Resolved {
    fn new(arguments: &[DataType], returns: Type, function: impl Function + 'static) -> Option<Self> {
        Some(Self { arguments: arguments.to_vec(), returns, function: Arc::new(function) })
    }
}

type Resolve = fn(name: &str, types: &[Type]) -> Option<Resolved>;

/// Whether the order of the rows, and how often one comes, can make a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cares {
    Neither,
    /// `DISTINCT` means something, `ORDER BY` does not.
    Often,
    OftenAndOrder,
    /// It is told by WITHIN GROUP; `DISTINCT` is not allowed.
    WithinGroup,
}

/// Aggregates of two numbers.
pub const OF_PAIRS: [&str; 12] = [
    "corr",
    "covar_pop",
    "covar_samp",
    "regr_avgx",
    "regr_avgy",
    "regr_count",
    "regr_intercept",
    "regr_r2",
    "regr_slope",
    "regr_sxx",
    "regr_sxy",
    "regr_syy",
];

/// Names, what resolves them, and what they care about.
const AGGREGATES: &[(&[&str], Resolve, Cares)] = &[
    (&["sum", "avg"], sum_or_avg, Cares::Often),
    (&["min", "max"], extreme::resolve, Cares::Neither),
    (&["bool_and", "bool_or", "every", "bit_and", "bit_or"], bits::resolve, Cares::Neither),
    (&["bit_xor"], bits::resolve, Cares::Often),
    (&["stddev", "stddev_samp", "stddev_pop", "variance", "var_samp", "var_pop"], spread, Cares::Often),
    (&OF_PAIRS, regression::resolve, Cares::Often),
    (
        &["array_agg", "string_agg", "json_agg", "jsonb_agg", "json_object_agg", "jsonb_object_agg"],
        kept::resolve,
        Cares::OftenAndOrder,
    ),
    (&ordered_set::ORDERED, ordered_set::resolve, Cares::WithinGroup),
    (&HYPOTHETICAL_NAMES, ordered_set::resolve, Cares::WithinGroup),
];

const HYPOTHETICAL_NAMES: [&str; 4] = {
    let [a, b, c, d] = ordered_set::HYPOTHETICAL;
    [a.1, b.1, c.1, d.1]
};

/// Our name of the aggregate that a call with WITHIN GROUP means.
pub fn within_group(name: &str) -> Option<&'static str> {
    let hypothetical = ordered_set::HYPOTHETICAL.into_iter().find(|(theirs, _)| *theirs == name);
    hypothetical.map(|(_, ours)| ours).or(ordered_set::ORDERED.into_iter().find(|ours| *ours == name))
}

/// PostgreSQL's name of one of our aggregates with WITHIN GROUP.
pub fn name_within_group(name: &str) -> Option<&'static str> {
    let hypothetical = ordered_set::HYPOTHETICAL.into_iter().find(|(_, ours)| *ours == name);
    hypothetical.map(|(theirs, _)| theirs).or(ordered_set::ORDERED.into_iter().find(|ours| *ours == name))
}

fn sum_or_avg(name: &str, types: &[Type]) -> Option<Resolved> {
    integer::sum_or_avg(name, types)
        .or_else(|| float::sum_or_avg(name, types))
        .or_else(|| decimal::sum_or_avg(name, types))
        .or_else(|| interval::sum_or_avg(name, types))
}

fn spread(name: &str, types: &[Type]) -> Option<Resolved> {
    integer::spread(name, types)
        .or_else(|| float::spread(name, types))
        .or_else(|| decimal::spread(name, types))
}

/// All aggregates, for a session.
pub fn all() -> Vec<Arc<AggregateUDF>> {
    let names = AGGREGATES
        .iter()
        .flat_map(|(names, resolve, cares)| names.iter().map(move |n| (*n, *resolve, *cares)));
    names
        .map(|(name, resolve, cares)| {
            Arc::new(AggregateUDF::new_from_impl(Aggregate::new(name, resolve, cares)))
        })
        .chain([Arc::new(AggregateUDF::new_from_impl(count::Count::default()))])
        .chain(combine::all().map(Arc::new))
        .collect()
}

/// The first value of a group, for the planner's own use.
pub fn first() -> AggregateUDF {
    AggregateUDF::new_from_impl(Aggregate::new("first", extreme::first, Cares::Neither))
}

fn no_function(name: &str, types: &[Type]) -> SqlError {
    let shown: Vec<_> = types.iter().map(|ty| ty.with_typmod(-1).display()).collect();
    let message = format!("function {name}({}) does not exist", shown.join(", "));
    SqlError::new(SqlState::UNDEFINED_FUNCTION, message).with_hint(
        "No function matches the given name and argument types. You might need to add explicit type casts.",
    )
}

/// An aggregate as DataFusion calls it.
#[derive(Debug, Clone)]
struct Aggregate {
    name: &'static str,
    resolve: Resolve,
    cares: Cares,
    signature: Signature,
}

impl PartialEq for Aggregate {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Aggregate {}

impl std::hash::Hash for Aggregate {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl Aggregate {
    fn new(name: &'static str, resolve: Resolve, cares: Cares) -> Self {
        Self { name, resolve, cares, signature: Signature::user_defined(Volatility::Immutable) }
    }

    fn resolved(&self, types: &[Type]) -> Result<Resolved> {
        (self.resolve)(self.name, types).ok_or_else(|| no_function(self.name, types))
    }

    fn of_fields(&self, fields: &[FieldRef]) -> DfResult<Resolved> {
        let types = fields.iter().map(|f| Type::of_field(f)).collect::<Result<Vec<_>>>();
        types.and_then(|types| self.resolved(&types)).map_err(external)
    }

    /// The function for one call. What cares about repetition or order keeps its rows if it is asked to mind them.
    fn function(
        &self,
        fields: &[FieldRef],
        is_distinct: bool,
        orders: Vec<kept::Order>,
    ) -> DfResult<Arc<dyn Function>> {
        let Resolved { function, .. } = self.of_fields(fields)?;
        let minds = match self.cares {
            Cares::Neither => false,
            Cares::Often => is_distinct,
            Cares::OftenAndOrder => is_distinct || !orders.is_empty(),
            Cares::WithinGroup => {
                let options: Vec<_> = orders.iter().map(|order| order.options).collect();
                return Ok(function.within_group(&options).unwrap_or(function));
            }
        };
        if !minds {
            return Ok(function);
        }
        let arguments = fields.iter().map(|f| f.data_type().clone()).collect();
        Ok(Arc::new(kept::Kept::new(function, arguments, orders, is_distinct)))
    }

    fn for_call(&self, args: &AccumulatorArgs) -> DfResult<Arc<dyn Function>> {
        let order = |o: &datafusion::physical_expr::PhysicalSortExpr| -> DfResult<kept::Order> {
            Ok(kept::Order { data_type: o.expr.data_type(args.schema)?, options: o.options })
        };
        let orders = args.order_bys.iter().map(order).collect::<DfResult<Vec<_>>>()?;
        self.function(args.expr_fields, args.is_distinct, orders)
    }
}

impl AggregateUDFImpl for Aggregate {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    /// With the casts, which DataFusion's names leave out: `avg(x)` is not `avg(x::bigint)`.
    fn schema_name(&self, params: &AggregateFunctionParams) -> DfResult<String> {
        let AggregateFunctionParams { args, distinct, filter, order_by, .. } = params;
        let shown = |exprs: &[Expr]| exprs.iter().map(Expr::to_string).collect::<Vec<_>>().join(",");
        let mut name = format!("{}({}{})", self.name, if *distinct { "DISTINCT " } else { "" }, shown(args));
        if let Some(filter) = filter {
            name += &format!(" FILTER (WHERE {filter})");
        }
        if !order_by.is_empty() {
            let items: Vec<_> = order_by.iter().map(ToString::to_string).collect();
            name += &format!(" ORDER BY [{}]", items.join(","));
        }
        Ok(name)
    }

    fn coerce_types(&self, types: &[DataType]) -> DfResult<Vec<DataType>> {
        // A bare NULL or string literal: PostgreSQL would look for the preferred type, which is text for both.
        let known = |ty: &DataType| match ty {
            DataType::Null => Ok(Type::new(Scalar::Text)),
            other => Type::from_arrow(other),
        };
        let types = types.iter().map(known).collect::<Result<Vec<_>>>();
        types.and_then(|types| self.resolved(&types)).map(|r| r.arguments).map_err(external)
    }

    fn return_type(&self, types: &[DataType]) -> DfResult<DataType> {
        let types = types.iter().map(Type::from_arrow).collect::<Result<Vec<_>>>();
        types.and_then(|types| self.resolved(&types)).map(|r| r.returns.arrow()).map_err(external)
    }

    fn return_field(&self, fields: &[FieldRef]) -> DfResult<FieldRef> {
        Ok(Arc::new(self.of_fields(fields)?.returns.field(self.name)))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> DfResult<Vec<FieldRef>> {
        let order =
            |f: &FieldRef| kept::Order { data_type: f.data_type().clone(), options: Default::default() };
        let orders = args.ordering_fields.iter().map(order).collect();
        let types = self.function(args.input_fields, args.is_distinct, orders)?.state();
        let field = |(i, ty): (usize, DataType)| {
            Arc::new(Field::new(format_state_name(args.name, &i.to_string()), ty, true))
        };
        Ok(types.into_iter().enumerate().map(field).collect())
    }

    fn accumulator(&self, args: AccumulatorArgs) -> DfResult<Box<dyn Accumulator>> {
        self.for_call(&args)?.accumulator()
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        self.for_call(&args).is_ok_and(|function| function.groups().is_some())
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> DfResult<Box<dyn GroupsAccumulator>> {
        let groups = self.for_call(&args)?.groups();
        groups.ok_or_else(|| external(SqlError::internal(format!("{} has no states for groups", self.name))))
    }

    /// A window whose start moves: the rows of the frame are kept and folded anew.
    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> DfResult<Box<dyn Accumulator>> {
        let Resolved { function, .. } = self.of_fields(args.expr_fields)?;
        let arguments = args.expr_fields.iter().map(|f| f.data_type().clone()).collect();
        kept::Kept::new(function, arguments, vec![], false).accumulator()
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        match self.cares {
            // "Beneficial": the order's columns are handed over, and nobody sorts the input for us.
            Cares::OftenAndOrder | Cares::WithinGroup => AggregateOrderSensitivity::Beneficial,
            _ => AggregateOrderSensitivity::Insensitive,
        }
    }

    fn with_beneficial_ordering(self: Arc<Self>, _: bool) -> DfResult<Option<Arc<dyn AggregateUDFImpl>>> {
        Ok(Some(self))
    }
}
