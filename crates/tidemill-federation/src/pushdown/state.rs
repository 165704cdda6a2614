//! What a server selects to be the keys and the partial states of an aggregation here.
//!
//! What the state of an aggregate consists of is told by the aggregates of `tidemill-sql`. Where it is kept in another form
//! than a server sends, as sums of integers and the keys of values are, a projection above the scan makes the one of the
//! other.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, Decimal128Array, Decimal256Array};
use arrow::datatypes::{DataType, Fields, Schema, SchemaRef, i256};
use datafusion::common::ScalarValue;
use datafusion::common::config::ConfigOptions;
use datafusion::common::metadata::FieldMetadata;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_expr::expressions::{Column, Literal};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::projection::ProjectionExec;
use tidemill_sql::aggregate::OF_PAIRS;
use tidemill_sql::aggregate::combine::Combination;
use tidemill_sql::function::key_function;
use tidemill_sql::numeric::Numeric;
use tidemill_sql::types::{Scalar, Type};
use tidemill_sql::{SqlError, SqlState};

use super::Source;
use crate::dialect::Operand;
use crate::scan::ForeignScanExec;
use crate::select::{Item, RemoteSelect};
use crate::view_state::{combined, state_of};

/// What is folded in any order, each value as often as it comes.
const KNOWN: [&str; 18] = [
    "count",
    "sum",
    "avg",
    "min",
    "max",
    "first",
    "bool_and",
    "bool_or",
    "every",
    "bit_and",
    "bit_or",
    "bit_xor",
    "stddev",
    "stddev_samp",
    "stddev_pop",
    "variance",
    "var_samp",
    "var_pop",
];

/// Whether a server may have a state for it.
pub(super) fn is_known(call: &AggregateFunctionExpr) -> bool {
    let is_plain = !call.is_distinct() && call.order_bys().is_empty() && !call.expressions().is_empty();
    let name = call.fun().name();
    is_plain && (KNOWN.contains(&name) || OF_PAIRS.contains(&name) || Combination::of(name).is_some())
}

/// A column that a server selects, and what becomes of it here.
pub(super) struct Part {
    pub item: Item,
    form: Form,
}

enum Form {
    AsItCame,
    /// This value, whatever came: what is above may rely on the rows having no other.
    Constant(ScalarValue),
    /// The key of the value.
    Key,
    /// An integer as a decimal of this type.
    Integer(DataType),
}

/// Sums of integers, and of their squares, as states have them.
const WIDE: DataType = DataType::Decimal128(38, 0);
const SQUARES: DataType = DataType::Decimal256(76, 0);

impl Part {
    fn new(sql: String, ty: Type) -> Self {
        Self { item: Item::computed(sql, ty.with_typmod(-1)), form: Form::AsItCame }
    }

    /// Something to group by.
    pub fn key(source: &Source, scan: &ForeignScanExec) -> Option<Self> {
        let (select, capabilities) = (scan.select(), scan.capabilities());
        if let Source::Constant(value) = source {
            // What the planner has made the key of a value does not look like one.
            let ty = Type::from_arrow(&value.data_type()).ok().filter(|ty| ty.scalar != Scalar::Numeric)?;
            let part = Self::new(capabilities.dialect.literal(value, ty)?, ty);
            return Some(Self { form: Form::Constant(value.clone()), ..part });
        }
        let key = select.key(source, capabilities)?;
        let form = if source.is_keyed() { Form::Key } else { Form::AsItCame };
        let sql = capabilities.dialect.grouped(&key);
        let item = match source {
            Source::Column { index, .. } => Item { sql, column: select.items.get(*index)?.column.clone() },
            _ => Item::computed(sql, key.ty),
        };
        Some(Self { item, form })
    }

    pub fn data_type(&self) -> DataType {
        let ty = self.item.column.ty;
        match &self.form {
            Form::AsItCame | Form::Constant(_) => ty.arrow(),
            Form::Key => key_function().return_type(&[ty.arrow()]).unwrap_or(DataType::Null),
            Form::Integer(decimal) => decimal.clone(),
        }
    }
}

/// An aggregate of what is below.
pub(super) struct Call<'a> {
    pub function: &'a str,
    pub arguments: &'a [Source],
    /// `FILTER (WHERE …)`
    pub filter: Option<&'a Source>,
}

/// The columns of the state of an aggregate.
pub(super) fn state(call: &Call<'_>, keys: &[Part], scan: &ForeignScanExec) -> Option<Vec<Part>> {
    let Call { function, arguments, filter } = *call;
    let (select, capabilities) = (scan.select(), scan.capabilities());
    // All of these functions pass over nulls.
    let filtered = |sql: String| match filter {
        None => Some(sql),
        Some(filter) => {
            Some(format!("(CASE WHEN {} THEN {sql} END)", select.condition(filter, capabilities)?))
        }
    };
    if let [y, x] = arguments {
        let operand = |source: &Source| {
            let operand = select.operand(source, capabilities).filter(|_| !source.is_keyed())?;
            capabilities.aggregates(function, operand.ty).then_some(operand)
        };
        return Some(pairs(&filtered(operand(y)?.sql)?, &operand(x)?.sql));
    }
    let [argument] = arguments else { return None };
    if Combination::of(function).is_some() {
        return combined_states(argument, filter, scan).map(|part| vec![part]);
    }
    if let ("count", Source::Constant(value)) = (function, argument) {
        let is_known = capabilities.aggregates.iter().any(|known| known.names.contains(&function));
        let counted = if filter.is_some() { filtered("1".into())? } else { "*".into() };
        let count = || vec![Part::new(format!("count({counted})"), Type::new(Scalar::Int8))];
        return (is_known && !value.is_null()).then(count);
    }
    let x = select.operand(argument, capabilities).filter(|_| !argument.is_keyed())?;
    if function == "first" {
        // All values of a group are equal, if they are what it is a group of.
        let is_key = keys.iter().any(|key| key.item.sql == capabilities.dialect.grouped(&x));
        return (is_key && filter.is_none()).then(|| vec![Part::new(x.sql, x.ty)]);
    }
    let x = Operand { sql: filtered(x.sql)?, ..x };
    capabilities.aggregates(function, x.ty).then(|| Folded { function, x: &x, scan }.parts())?
}

/// Of the states of a view's column there: the server merges them.
fn combined_states(argument: &Source, filter: Option<&Source>, scan: &ForeignScanExec) -> Option<Part> {
    let Source::Column { index, keyed: false } = argument else { return None };
    let item = scan.select().items.get(*index).filter(|_| filter.is_none())?;
    let name = scan.capabilities().dialect.name(&item.column.remote);
    (item.sql == state_of(&name)).then(|| Part::new(combined(&name), item.column.ty))
}

/// Of pairs: how many there are without a null, and for each side, and both together, the sum of products of the
/// differences from the means, as PostgreSQL has them in its own state.
fn pairs(y: &str, x: &str) -> Vec<Part> {
    let of = |function: &str| format!("{function}({y}, {x})");
    let count = of("regr_count");
    let sum = |mean: &str| format!("coalesce({} * {count}, 0)", of(mean));
    let products = |function: &str| format!("coalesce({}, 0)", of(function));
    let parts = [
        format!("CAST({count} AS double precision)"),
        sum("regr_avgx"),
        products("regr_sxx"),
        sum("regr_avgy"),
        products("regr_syy"),
        products("regr_sxy"),
    ];
    parts.into_iter().map(|sql| Part::new(sql, Type::new(Scalar::Float8))).collect()
}

/// An aggregate of something that a server can fold.
struct Folded<'a> {
    function: &'a str,
    x: &'a Operand,
    scan: &'a ForeignScanExec,
}

impl Folded<'_> {
    fn part(&self, sql: String, scalar: Scalar) -> Part {
        Part::new(sql, Type::new(scalar))
    }

    fn count(&self) -> Part {
        self.part(format!("count({})", self.x.sql), Scalar::Int8)
    }

    /// Of the values of a sum: only their average needs to know the number.
    fn count_for(&self, sum: &str) -> Part {
        match self.function {
            "sum" => self.part(self.scan.capabilities().dialect.counted_as_one(sum), Scalar::Int8),
            _ => self.count(),
        }
    }

    /// Of no rows it is zero.
    fn numeric_sum(&self, of: &str) -> Part {
        self.part(format!("coalesce(sum({of}), 0)"), Scalar::Numeric)
    }

    fn integer_sum(&self, of: &str, decimal: DataType) -> Part {
        Part { form: Form::Integer(decimal), ..self.numeric_sum(of) }
    }

    /// How many, months, days and microseconds: none of them is turned into another when intervals are added.
    fn interval_parts(&self) -> Vec<Part> {
        let field = |name: &str| format!("extract({name} FROM sum({}))", self.x.sql);
        let integer = |sql: String| self.part(format!("CAST(coalesce({sql}, 0) AS bigint)"), Scalar::Int8);
        let months = format!("{} * 12 + {}", field("year"), field("month"));
        let (hours, minutes) = (field("hour"), field("minute"));
        let micros = format!("{hours} * 3600000000 + {minutes} * 60000000 + {}", field("microseconds"));
        vec![self.count(), integer(months), integer(field("day")), integer(micros)]
    }

    fn parts(&self) -> Option<Vec<Part>> {
        let (dialect, x) = (self.scan.capabilities().dialect, self.x);
        Some(match (self.function, x.ty.scalar) {
            ("count", _) => vec![self.count()],
            ("sum", Scalar::Int2 | Scalar::Int4) => {
                // An overflow is an error there already.
                vec![self.part(dialect.integer_sum(x), Scalar::Int8), self.part("false".into(), Scalar::Bool)]
            }
            ("avg", Scalar::Int2 | Scalar::Int4) => {
                let sum = format!("coalesce({}, 0)", dialect.integer_sum(x));
                vec![self.part(sum, Scalar::Int8), self.count()]
            }
            ("sum" | "avg", Scalar::Int8) => {
                vec![self.integer_sum(&x.sql, WIDE), self.count_for(&format!("sum({})", x.sql))]
            }
            ("sum" | "avg", Scalar::Numeric) => {
                vec![self.count_for(&format!("sum({})", x.sql)), self.numeric_sum(&x.sql)]
            }
            ("sum" | "avg", Scalar::Float4 | Scalar::Float8) => {
                let (sum, infinite) = dialect.float_sum(x);
                let count = self.count_for(&sum);
                let sum = self.part(format!("coalesce({sum}, 0)"), Scalar::Float8);
                vec![sum, count, self.part(infinite, Scalar::Bool)]
            }
            ("sum" | "avg", Scalar::Interval) => self.interval_parts(),
            ("min" | "max", scalar) => {
                let value = dialect.extreme(self.function, x);
                // The state has no zone.
                let scalar = if scalar == Scalar::Timestamptz { Scalar::Timestamp } else { scalar };
                vec![self.part(value, scalar)]
            }
            ("bool_and" | "bool_or" | "every" | "bit_and" | "bit_or" | "bit_xor", scalar) => {
                vec![self.part(format!("{}({})", self.function, x.sql), scalar)]
            }
            // What is left are variances and deviations.
            (_, Scalar::Numeric) => {
                let squares = self.numeric_sum(&format!("{0} * {0}", x.sql));
                vec![self.count(), self.numeric_sum(&x.sql), squares]
            }
            (_, Scalar::Int2 | Scalar::Int4 | Scalar::Int8) => {
                let wide = format!("CAST({} AS numeric)", x.sql);
                let squares = self.integer_sum(&format!("{wide} * {wide}"), SQUARES);
                vec![self.count(), self.integer_sum(&wide, WIDE), squares]
            }
            (_, Scalar::Float4 | Scalar::Float8) => {
                let count = format!("CAST(count({}) AS double precision)", x.sql);
                let sum = format!("coalesce({}, 0)", dialect.float_sum(x).0);
                let squares = format!("coalesce(var_pop({0}) * count({0}), 0)", x.sql);
                [count, sum, squares].into_iter().map(|sql| self.part(sql, Scalar::Float8)).collect()
            }
            _ => return None,
        })
    }
}

/// The scan of what these are parts of, in the form of the schema.
pub(super) fn received(
    scan: &ForeignScanExec,
    select: RemoteSelect,
    parts: &[Part],
    schema: &SchemaRef,
) -> Result<Arc<dyn ExecutionPlan>> {
    let sent = parts.iter().zip(schema.fields()).map(|(part, field)| match part.form {
        Form::AsItCame | Form::Constant(_) => Arc::clone(field),
        _ => Arc::new(part.item.column.ty.field(field.name())),
    });
    let sent = Arc::new(Schema::new(sent.collect::<Fields>()));
    let scan = Arc::new(scan.with_select(select, Arc::clone(&sent)));
    if parts.iter().all(|part| matches!(part.form, Form::AsItCame)) {
        return Ok(scan);
    }
    let exprs = parts
        .iter()
        .enumerate()
        .map(|(i, part)| Ok((part.form.expr(i, &sent)?, sent.field(i).name().clone())));
    Ok(Arc::new(ProjectionExec::try_new(exprs.collect::<Result<Vec<_>>>()?, scan)?))
}

impl Form {
    /// What becomes of a column that came.
    fn expr(&self, index: usize, sent: &Schema) -> Result<Arc<dyn PhysicalExpr>> {
        let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(sent.field(index).name(), index));
        let function = match self {
            Form::AsItCame => return Ok(column),
            Form::Constant(value) => {
                let metadata = FieldMetadata::new_from_field(sent.field(index));
                return Ok(Arc::new(Literal::new_with_metadata(value.clone(), Some(metadata))));
            }
            Form::Key => key_function(),
            Form::Integer(decimal) => ScalarUDF::new_from_impl(Integer::new(decimal.clone())),
        };
        let options = Arc::new(ConfigOptions::default());
        Ok(Arc::new(ScalarFunctionExpr::try_new(Arc::new(function), vec![column], sent, options)?))
    }
}

/// An integer of type numeric as a decimal of Arrow.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Integer {
    decimal: DataType,
    signature: Signature,
}

impl Integer {
    fn new(decimal: DataType) -> Self {
        Self { decimal, signature: Signature::any(1, Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for Integer {
    fn name(&self) -> &str {
        "integer"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.decimal.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [values] = ColumnarValue::values_to_arrays(&args.args)?.try_into().map_err(|_| no_integer())?;
        let values = values.as_binary_opt::<i64>().ok_or_else(no_integer)?;
        let integers = values.iter().map(|value| value.map(integer).transpose());
        let integers = integers.collect::<Result<Vec<_>>>()?.into_iter();
        let array: ArrayRef = match &self.decimal {
            DataType::Decimal128(..) => {
                let narrow = |value: i256| value.to_i128().ok_or_else(no_integer);
                let integers = integers.map(|value| value.map(narrow).transpose());
                let array = integers.collect::<Result<Decimal128Array>>()?;
                Arc::new(array.with_data_type(self.decimal.clone()))
            }
            _ => Arc::new(integers.collect::<Decimal256Array>().with_data_type(self.decimal.clone())),
        };
        Ok(ColumnarValue::Array(array))
    }
}

fn integer(bytes: &[u8]) -> Result<i256> {
    let value = Numeric::decode(bytes).map_err(|error| DataFusionError::External(Box::new(error)))?;
    let value = Some(value).filter(Numeric::is_integral).ok_or_else(no_integer)?.trim_scale();
    let small = value.to_decimal(0).map(i256::from_i128);
    small.or_else(|| i256::from_string(&value.to_string())).ok_or_else(no_integer)
}

fn no_integer() -> DataFusionError {
    let message = "a foreign server sends something else than the sum of its integers";
    DataFusionError::External(Box::new(SqlError::new(SqlState::FDW_ERROR, message)))
}
