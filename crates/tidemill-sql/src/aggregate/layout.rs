//! What the states of an aggregate are states of: enough to merge and finish them elsewhere, also on another server.

use std::fmt;
use std::sync::Arc;

use arrow::compute::SortOptions;
use arrow::datatypes::Schema;
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::AggregateUDF;
use datafusion::physical_expr::aggregate::{AggregateExprBuilder, AggregateFunctionExpr};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{PhysicalExpr, PhysicalSortExpr};

use super::{all, name_within_group};
use crate::error::{Result, SqlError, SqlState};
use crate::function::external;
use crate::types::Type;

/// Changes whenever the state of some aggregate does. The states of `count(DISTINCT x)` are DataFusion's.
const FORM: &str = "1";

/// An aggregate and the types of its arguments.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Layout {
    function: String,
    is_distinct: bool,
    arguments: Vec<Type>,
    order: Vec<(Type, Direction)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Direction {
    descending: bool,
    nulls_first: bool,
}

impl Layout {
    /// Of an aggregate over rows of this schema.
    pub fn of(function: &AggregateFunctionExpr, schema: &Schema) -> DfResult<Self> {
        let ty = |expr: &Arc<dyn PhysicalExpr>| {
            Type::of_field(expr.return_field(schema)?.as_ref()).map(|ty| ty.with_typmod(-1)).map_err(external)
        };
        let ordered = |item: &PhysicalSortExpr| {
            let SortOptions { descending, nulls_first } = item.options;
            Ok((ty(&item.expr)?, Direction { descending, nulls_first }))
        };
        Ok(Self {
            function: function.fun().name().to_string(),
            is_distinct: function.is_distinct(),
            arguments: function.expressions().iter().map(ty).collect::<DfResult<_>>()?,
            order: function.order_bys().iter().map(ordered).collect::<DfResult<_>>()?,
        })
    }

    /// The aggregate, over rows that have its arguments and what it is ordered by.
    pub(super) fn function(&self) -> DfResult<AggregateFunctionExpr> {
        let known = all().into_iter().find(|known| known.name() == self.function);
        let function: Arc<AggregateUDF> = known.ok_or_else(|| external(no_layout()))?;
        let column = |i: usize| Arc::new(Column::new(&format!("a{i}"), i)) as Arc<dyn PhysicalExpr>;
        let arguments = (0..self.arguments.len()).map(column).collect();
        let order = self.order.iter().enumerate().map(|(i, (_, direction))| PhysicalSortExpr {
            expr: column(self.arguments.len() + i),
            options: SortOptions { descending: direction.descending, nulls_first: direction.nulls_first },
        });
        AggregateExprBuilder::new(function, arguments)
            .order_by(order.collect())
            .schema(Arc::new(self.schema()))
            .with_distinct(self.is_distinct)
            .alias(self.to_string())
            .build()
    }

    /// Of the rows that it is over: the arguments, then what it is ordered by.
    fn schema(&self) -> Schema {
        let types = self.arguments.iter().chain(self.order.iter().map(|(ty, _)| ty));
        let fields: Vec<_> = types.enumerate().map(|(i, ty)| ty.field(format!("a{i}"))).collect();
        Schema::new(fields)
    }

    /// For another server, which has to have the same form of states.
    pub fn encode(&self) -> String {
        let types: Vec<_> = self.arguments.iter().map(|ty| ty.oid().to_string()).collect();
        let item = |(ty, direction): &(Type, Direction)| {
            let Direction { descending, nulls_first } = direction;
            format!("{} {} {}", ty.oid(), u8::from(*descending), u8::from(*nulls_first))
        };
        let order: Vec<_> = self.order.iter().map(item).collect();
        let distinct = u8::from(self.is_distinct);
        format!("{}|{}|{distinct}|{}|{}", form(), self.function, types.join(","), order.join(","))
    }

    pub fn decode(text: &str) -> Result<Self> {
        let Some((found, rest)) = text.split_once('|') else { return Err(no_layout()) };
        if found != form() {
            let message = "the states of aggregates have another form there";
            return Err(SqlError::new(SqlState::FDW_ERROR, message)
                .with_detail(format!("It is {found}, here {}.", form()))
                .with_hint("Run the same release on both servers."));
        }
        Self::decode_rest(rest)
            .filter(|layout| layout.is_whole() && layout.function().is_ok())
            .ok_or_else(no_layout)
    }

    /// Whether an aggregate with WITHIN GROUP has its columns: they are the first of its arguments, and its order.
    fn is_whole(&self) -> bool {
        let columns = self.order.iter().map(|(ty, _)| ty);
        name_within_group(&self.function).is_none()
            || columns.eq(self.arguments.iter().take(self.order.len()))
    }

    fn decode_rest(text: &str) -> Option<Self> {
        let [function, distinct, arguments, order] = text.split('|').collect::<Vec<_>>().try_into().ok()?;
        let list =
            |text: &'_ str| text.split(',').filter(|item| !item.is_empty()).map(str::to_string).collect();
        let (arguments, order): (Vec<String>, Vec<String>) = (list(arguments), list(order));
        let ty = |text: &str| Type::from_oid(text.parse().ok()?);
        let item = |text: &String| {
            let mut parts = text.split(' ');
            let ty = ty(parts.next()?)?;
            let mut flag = || Some(parts.next()? == "1");
            Some((ty, Direction { descending: flag()?, nulls_first: flag()? }))
        };
        Some(Self {
            function: function.to_string(),
            is_distinct: distinct == "1",
            arguments: arguments.iter().map(|text| ty(text)).collect::<Option<_>>()?,
            order: order.iter().map(item).collect::<Option<_>>()?,
        })
    }
}

fn form() -> String {
    format!("tidemill {FORM}, datafusion {}", datafusion::DATAFUSION_VERSION)
}

fn no_layout() -> SqlError {
    SqlError::new(SqlState::FDW_ERROR, "a server tells of an aggregate that is not known here")
}

/// As PostgreSQL shows the arguments of an aggregate: `percentile_cont(double precision ORDER BY double precision)`.
impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let theirs = name_within_group(&self.function);
        // The columns of WITHIN GROUP come first, as arguments, too.
        let arguments =
            if theirs.is_some() { &self.arguments[self.order.len()..] } else { &self.arguments[..] };
        let arguments: Vec<_> = arguments.iter().map(|ty| ty.display()).collect();
        let distinct = if self.is_distinct { "DISTINCT " } else { "" };
        write!(f, "{}({distinct}{}", theirs.unwrap_or(&self.function), arguments.join(", "))?;
        let item = |(ty, direction): &(Type, Direction)| {
            format!("{}{}", ty.display(), if direction.descending { " DESC" } else { "" })
        };
        let order: Vec<_> = self.order.iter().map(item).collect();
        if !order.is_empty() {
            let space = if arguments.is_empty() { "" } else { " " };
            write!(f, "{space}ORDER BY {}", order.join(", "))?;
        }
        write!(f, ")")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Scalar;

    fn layout(function: &str, arguments: &[Scalar], order: &[Scalar], is_distinct: bool) -> Layout {
        let direction = Direction { descending: true, nulls_first: false };
        Layout {
            function: function.into(),
            is_distinct,
            arguments: arguments.iter().map(|ty| Type::new(*ty)).collect(),
            order: order.iter().map(|ty| (Type::new(*ty), direction)).collect(),
        }
    }

    #[test]
    fn a_layout_comes_back_as_it_was() {
        let all = [
            (layout("avg", &[Scalar::Int4], &[], false), "avg(integer)"),
            (layout("count", &[Scalar::Text], &[], true), "count(DISTINCT text)"),
            (
                layout("array_agg", &[Scalar::Text], &[Scalar::Int4], false),
                "array_agg(text ORDER BY integer DESC)",
            ),
            (
                layout("percentile_cont", &[Scalar::Float8, Scalar::Float8], &[Scalar::Float8], false),
                "percentile_cont(double precision ORDER BY double precision DESC)",
            ),
            (
                layout("rank within group", &[Scalar::Int4, Scalar::Int4], &[Scalar::Int4], false),
                "rank(integer ORDER BY integer DESC)",
            ),
        ];
        for (layout, shown) in all {
            assert_eq!(layout.to_string(), shown);
            assert_eq!(Layout::decode(&layout.encode()).unwrap(), layout);
            assert_eq!(Layout::of(&layout.function().unwrap(), &layout.schema()).unwrap(), layout);
        }
    }

    #[test]
    fn what_is_no_layout_is_an_error() {
        let good = layout("avg", &[Scalar::Int4], &[], false).encode();
        for text in [
            "",
            "avg",
            "x|avg|0|23|",
            &good.replace("avg", "nothing"),
            &good.replace("23", "0"),
            &format!("{good}|"),
        ] {
            assert_eq!(Layout::decode(text).unwrap_err().state, SqlState::FDW_ERROR, "{text}");
        }
        // More columns of WITHIN GROUP than arguments, and others.
        for wrong in
            ["mode|0||701 0 0", "percentile_cont|0|701,701|701 0 0,701 0 0,701 0 0", "mode|0|701|23 0 0"]
        {
            let text = format!("{}|{wrong}", form());
            assert_eq!(Layout::decode(&text).unwrap_err().state, SqlState::FDW_ERROR, "{text}");
        }
        // An aggregate of types that it does not take.
        assert!(Layout::decode(&good.replace("23", "25")).is_err());
    }
}
