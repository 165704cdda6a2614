//! Ordered-set and hypothetical-set aggregates: what follows from the order of the rows of a group. Their state is these
//! rows, as that of `array_agg` is, with the direct arguments, which are the same for all rows of a group.
//!
//! The arguments of a call are the columns of WITHIN GROUP, then the direct ones:
//!
//! ```text
//! percentile_cont(0.5) WITHIN GROUP (ORDER BY x DESC)   =>   percentile_cont(x, 0.5 ORDER BY x DESC)
//! ```

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, Float64Array, IntervalMonthDayNanoArray, ListArray};
use arrow::buffer::OffsetBuffer;
use arrow::compute::{LexicographicalComparator, SortColumn, SortOptions, concat, filter, is_not_null, take};
use arrow::datatypes::{DataType, Field, Float64Type, IntervalMonthDayNanoType};
use datafusion::common::ScalarValue;
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::{Accumulator, GroupsAccumulator};

use super::kept::{Batches, keyed, stable};
use super::{Function, Resolved};
use crate::error::{Result, SqlError, SqlState};
use crate::function::{external, interpolate_interval};
use crate::types::{Scalar, Type};

/// Those that have no other meaning without WITHIN GROUP.
pub const ORDERED: [&str; 3] = ["percentile_cont", "percentile_disc", "mode"];

/// PostgreSQL's names of the hypothetical-set aggregates, and ours: the former are names of window functions too.
pub const HYPOTHETICAL: [(&str, &str); 4] = [
    ("rank", "rank within group"),
    ("dense_rank", "dense_rank within group"),
    ("percent_rank", "percent_rank within group"),
    ("cume_dist", "cume_dist within group"),
];

pub(super) fn resolve(name: &str, types: &[Type]) -> Option<Resolved> {
    let (kind, columns, returns) = match (name, types) {
        ("mode", [value]) => (Kind::Mode, 1, value.with_typmod(-1)),
        ("percentile_disc", [value, fraction]) if is_fraction(fraction) => {
            if value.array && fraction.array {
                return None;
            }
            let array = value.array || fraction.array;
            (Kind::Percentile { continuous: false }, 1, Type { array, ..value.with_typmod(-1) })
        }
        ("percentile_cont", [value, fraction]) if is_fraction(fraction) && !value.array => {
            if !matches!(value.scalar, Scalar::Float8 | Scalar::Interval) {
                return None;
            }
            let returns = Type { array: fraction.array, ..Type::new(value.scalar) };
            (Kind::Percentile { continuous: true }, 1, returns)
        }
        (name, types) => {
            let (hypothetical, scalar) = match name {
                "rank within group" => (Hypothetical::Rank, Scalar::Int8),
                "dense_rank within group" => (Hypothetical::DenseRank, Scalar::Int8),
                "percent_rank within group" => (Hypothetical::PercentRank, Scalar::Float8),
                "cume_dist within group" => (Hypothetical::CumeDist, Scalar::Float8),
                _ => return None,
            };
            if types.is_empty() || types.len() % 2 != 0 {
                return None;
            }
            (Kind::Hypothetical(hypothetical), types.len() / 2, Type::new(scalar))
        }
    };
    let arguments: Vec<_> = types.iter().map(|ty| ty.arrow()).collect();
    let (values, direct) = arguments.split_at(columns);
    let options = vec![SortOptions { descending: false, nulls_first: false }; columns];
    let set = OrderedSet {
        kind,
        values: values.to_vec(),
        direct: direct.to_vec(),
        options,
        result: returns.arrow(),
    };
    Resolved::new(&arguments, returns, set)
}

fn is_fraction(ty: &Type) -> bool {
    ty.scalar == Scalar::Float8
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Mode,
    Percentile { continuous: bool },
    Hypothetical(Hypothetical),
}

/// What is told of a row as if it were one of the group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hypothetical {
    Rank,
    DenseRank,
    PercentRank,
    CumeDist,
}

#[derive(Debug, Clone)]
struct OrderedSet {
    kind: Kind,
    values: Vec<DataType>,
    direct: Vec<DataType>,
    /// Of each column of WITHIN GROUP.
    options: Vec<SortOptions>,
    result: DataType,
}

impl Function for OrderedSet {
    fn state(&self) -> Vec<DataType> {
        let rows = Batches::new(&self.values);
        std::iter::once(rows.data_type()).chain(self.direct.iter().cloned()).collect()
    }

    fn accumulator(&self) -> DfResult<Box<dyn Accumulator>> {
        Ok(Box::new(Rows { set: self.clone(), rows: Batches::new(&self.values), direct: None }))
    }

    fn groups(&self) -> Option<Box<dyn GroupsAccumulator>> {
        None
    }

    fn within_group(&self, options: &[SortOptions]) -> Option<Arc<dyn Function>> {
        let mut set = self.clone();
        set.options.iter_mut().zip(options).for_each(|(own, asked)| *own = *asked);
        Some(Arc::new(set))
    }
}

impl OrderedSet {
    fn finish(&self, columns: &[ArrayRef], direct: &[ScalarValue]) -> DfResult<ScalarValue> {
        match self.kind {
            Kind::Hypothetical(what) => self.hypothetical(what, columns, direct),
            Kind::Mode => self.mode(&self.sorted(columns)?),
            Kind::Percentile { continuous } => {
                let percentile = Percentile { continuous, result: &self.result };
                match direct.first() {
                    None => ScalarValue::try_from(&self.result),
                    Some(ScalarValue::List(fractions)) => {
                        percentile.several(|| self.sorted(columns), &columns[0], fractions)
                    }
                    Some(ScalarValue::Float64(fraction)) => {
                        percentile.single(|| self.sorted(columns), &columns[0], *fraction)
                    }
                    Some(_) => Err(external(SqlError::internal("a fraction that is no number"))),
                }
            }
        }
    }

    fn sort(&self, columns: &[ArrayRef]) -> DfResult<Vec<SortColumn>> {
        let columns = columns.iter().zip(&self.options);
        columns.map(|(c, options)| Ok(SortColumn { values: keyed(c)?, options: Some(*options) })).collect()
    }

    /// The values of the one column, in order.
    fn sorted(&self, columns: &[ArrayRef]) -> DfResult<ArrayRef> {
        Ok(take(&columns[0], &stable(&self.sort(columns)?)?, None)?)
    }

    /// Of the values that come most often, the first one.
    fn mode(&self, sorted: &ArrayRef) -> DfResult<ScalarValue> {
        if sorted.is_empty() {
            return ScalarValue::try_from(&self.result);
        }
        let order = LexicographicalComparator::try_new(&self.sort(std::slice::from_ref(sorted))?)?;
        let (mut best, mut best_count, mut start) = (0, 0, 0);
        for i in 0..sorted.len() {
            if order.compare(start, i).is_ne() {
                start = i;
            }
            if i - start + 1 > best_count {
                (best, best_count) = (start, i - start + 1);
            }
        }
        ScalarValue::try_from_array(sorted, best)
    }

    fn hypothetical(
        &self,
        what: Hypothetical,
        columns: &[ArrayRef],
        direct: &[ScalarValue],
    ) -> DfResult<ScalarValue> {
        let rows = columns[0].len();
        let (before, peers, distinct) =
            if direct.is_empty() { (0, 0, 0) } else { self.place(columns, direct)? };
        let whole = |n: usize| ScalarValue::Int64(Some(n as i64));
        let share = |n: usize, of: usize| ScalarValue::Float64(Some(n as f64 / of as f64));
        Ok(match what {
            Hypothetical::Rank => whole(before + 1),
            Hypothetical::DenseRank => whole(distinct + 1),
            Hypothetical::PercentRank => share(before, rows.max(1)),
            Hypothetical::CumeDist => share(before + peers + 1, rows + 1),
        })
    }

    /// How many rows come before a row, how many are its equals, and how many different ones come before it.
    fn place(&self, columns: &[ArrayRef], row: &[ScalarValue]) -> DfResult<(usize, usize, usize)> {
        let rows = columns[0].len();
        let with_row = |(column, value): (&ArrayRef, &ScalarValue)| -> DfResult<ArrayRef> {
            Ok(concat(&[column, &value.to_array_of_size(1)?])?)
        };
        let columns = columns.iter().zip(row).map(with_row).collect::<DfResult<Vec<_>>>()?;
        let sort = self.sort(&columns)?;
        let order = LexicographicalComparator::try_new(&sort)?;
        let (mut before, mut peers, mut distinct, mut last) = (0, 0, 0, None);
        for i in stable(&sort)?.values().iter().map(|i| *i as usize).filter(|i| *i != rows) {
            match order.compare(i, rows) {
                Ordering::Less => {
                    before += 1;
                    let is_new = last.replace(i).is_none_or(|last| order.compare(last, i).is_ne());
                    distinct += usize::from(is_new);
                }
                Ordering::Equal => peers += 1,
                Ordering::Greater => break,
            }
        }
        Ok((before, peers, distinct))
    }
}

/// `percentile_cont` and `percentile_disc` of values in their order.
struct Percentile<'a> {
    continuous: bool,
    result: &'a DataType,
}

impl Percentile<'_> {
    /// As PostgreSQL, one fraction is looked at before the rows are.
    fn single(
        &self,
        sorted: impl Fn() -> DfResult<ArrayRef>,
        values: &ArrayRef,
        fraction: Option<f64>,
    ) -> DfResult<ScalarValue> {
        let fraction = fraction.map(checked).transpose().map_err(external)?;
        match fraction {
            Some(_) if !values.is_empty() => {
                ScalarValue::try_from_array(&self.at(&sorted()?, &[fraction])?, 0)
            }
            _ => ScalarValue::try_from(self.result),
        }
    }

    fn several(
        &self,
        sorted: impl Fn() -> DfResult<ArrayRef>,
        values: &ArrayRef,
        fractions: &ListArray,
    ) -> DfResult<ScalarValue> {
        if values.is_empty() || fractions.is_null(0) {
            return ScalarValue::try_from(self.result);
        }
        let fractions = fractions.value(0);
        let fractions = fractions.as_primitive::<Float64Type>().iter();
        let fractions = fractions.map(|f| f.map(checked).transpose()).collect::<Result<Vec<_>>>();
        let found = self.at(&sorted()?, &fractions.map_err(external)?)?;
        let item = Arc::new(Field::new_list_field(found.data_type().clone(), true));
        let offsets = OffsetBuffer::from_lengths([found.len()]);
        Ok(ScalarValue::List(Arc::new(ListArray::try_new(item, offsets, found, None)?)))
    }

    fn at(&self, sorted: &ArrayRef, fractions: &[Option<f64>]) -> DfResult<ArrayRef> {
        if !self.continuous {
            let rows = sorted.len();
            let row = |fraction: f64| ((fraction * rows as f64).ceil() as u32).max(1) - 1;
            let rows: arrow::array::UInt32Array = fractions.iter().map(|f| f.map(row)).collect();
            return Ok(take(sorted, &rows, None)?);
        }
        if let Some(numbers) = sorted.as_primitive_opt::<Float64Type>() {
            let between = |(low, high, share): (usize, usize, f64)| {
                let (low, high) = (numbers.value(low), numbers.value(high));
                low + share * (high - low)
            };
            let places = fractions.iter().map(|f| f.map(|f| place(f, numbers.len())));
            let found: Float64Array = places
                .map(|at| at.map(|at| if at.0 == at.1 { numbers.value(at.0) } else { between(at) }))
                .collect();
            return Ok(Arc::new(found));
        }
        let intervals = sorted.as_primitive::<IntervalMonthDayNanoType>();
        let between = |fraction: f64| match place(fraction, intervals.len()) {
            (low, high, _) if low == high => Ok(intervals.value(low)),
            (low, high, share) => interpolate_interval(intervals.value(low), intervals.value(high), share),
        };
        let found = fractions.iter().map(|f| f.map(between).transpose());
        let found = found.collect::<Result<IntervalMonthDayNanoArray>>().map_err(external)?;
        Ok(Arc::new(found))
    }
}

/// The rows around a fraction, and how far it is from the first to the second.
fn place(fraction: f64, rows: usize) -> (usize, usize, f64) {
    let at = fraction * (rows - 1) as f64;
    (at.floor() as usize, at.ceil() as usize, at - at.floor())
}

fn checked(fraction: f64) -> Result<f64> {
    if (0.0..=1.0).contains(&fraction) {
        return Ok(fraction);
    }
    let message = format!("percentile value {fraction} is not between 0 and 1");
    Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message))
}

#[derive(Debug)]
struct Rows {
    set: OrderedSet,
    rows: Batches,
    /// Those of the first row; `None` before there is one.
    direct: Option<Vec<ScalarValue>>,
}

impl Accumulator for Rows {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        let (columns, others) = values.split_at(self.set.values.len());
        let rows = columns.first().map_or(0, |column| column.len());
        if rows == 0 {
            return Ok(());
        }
        if self.direct.is_none() {
            let direct = &others[..self.set.direct.len()];
            let first = direct.iter().map(|column| ScalarValue::try_from_array(column, 0));
            self.direct = Some(first.collect::<DfResult<_>>()?);
        }
        let counts_nulls = matches!(self.set.kind, Kind::Hypothetical(_));
        match &columns[0] {
            column if !counts_nulls && column.null_count() > 0 => {
                self.rows.push(vec![filter(column, &is_not_null(column)?)?]);
            }
            _ => self.rows.push(columns.to_vec()),
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> DfResult<()> {
        let (lists, direct) = states.split_at(1);
        let lists = &lists[0];
        for i in 0..lists.len() {
            let has_rows = self.rows.push_list(lists, i)?;
            let is_told = has_rows || direct.iter().any(|column| column.is_valid(i));
            if self.direct.is_none() && is_told {
                let first = direct.iter().map(|column| ScalarValue::try_from_array(column, i));
                self.direct = Some(first.collect::<DfResult<_>>()?);
            }
        }
        Ok(())
    }

    fn state(&mut self) -> DfResult<Vec<ScalarValue>> {
        let mut state = vec![self.rows.to_list()?];
        match &self.direct {
            Some(direct) => state.extend(direct.iter().cloned()),
            None => {
                for data_type in &self.set.direct {
                    state.push(ScalarValue::try_from(data_type)?);
                }
            }
        }
        Ok(state)
    }

    fn evaluate(&mut self) -> DfResult<ScalarValue> {
        self.set.finish(&self.rows.columns()?, self.direct.as_deref().unwrap_or_default())
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.rows.size()
    }
}
