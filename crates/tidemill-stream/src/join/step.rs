//! The step of a front that joins.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch, UInt32Array, new_null_array};
use arrow::compute::{filter, take};
use arrow::datatypes::{Field, SchemaRef};
use datafusion::common::cast::as_boolean_array;
use datafusion::common::{JoinSide, JoinType, NullEquality};
use datafusion::error::{DataFusionError, Result};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter};
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec};
use parking_lot::{Mutex, RwLock};
use tidemill_sql::{SqlError, SqlState};

use super::rows::{Pairs, Rows, is_null};
use super::{Condition, Join, JoinedExec, JoinedRows};
use crate::front::{Step, appended, with_rows};
use crate::stream::StreamExec;

/// Pairs of an event and a row that are looked at together.
const SOME_PAIRS: usize = 8192;
/// Pairs that one batch of events may make: whoever joins without a key would stop all others.
const PAIRS_MAX: usize = 20_000_000;
/// Rows that one batch of events may become.
const JOINED_ROWS_MAX: usize = 4_000_000;

/// Which events go on, and with what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Once for each row that they meet.
    Inner,
    /// The same, and once if they meet none.
    Left,
    /// Once if they meet a row.
    Semi,
    /// If they meet none.
    Anti,
    /// All, and whether they meet one.
    Mark,
}

/// Where a column comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    Event(usize),
    Row(usize),
    Mark,
}

/// A join within one branch of a front.
#[derive(Debug, Clone)]
pub struct JoinStep {
    pub join: Arc<Join>,
    output: Vec<Side>,
    schema: SchemaRef,
}

/// A join of a physical plan, whatever its algorithm.
struct Plan<'a> {
    left: &'a Arc<dyn ExecutionPlan>,
    right: &'a Arc<dyn ExecutionPlan>,
    on: Vec<(Arc<dyn PhysicalExpr>, Arc<dyn PhysicalExpr>)>,
    filter: Option<&'a JoinFilter>,
    join_type: JoinType,
    projection: Option<Vec<usize>>,
    null_equality: NullEquality,
    is_null_aware: bool,
}

impl<'a> Plan<'a> {
    fn of(plan: &'a Arc<dyn ExecutionPlan>) -> Option<Self> {
        if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
            return Some(Self {
                left: join.left(),
                right: join.right(),
                on: join.on().to_vec(),
                filter: join.filter(),
                join_type: *join.join_type(),
                projection: join.projection.as_ref().map(|columns| columns.to_vec()),
                null_equality: join.null_equality(),
                is_null_aware: join.null_aware,
            });
        }
        let (left, right, filter, join_type, projection) = match plan.downcast_ref::<NestedLoopJoinExec>() {
            Some(join) => {
                let projection = join.projection().as_ref().map(|columns| columns.to_vec());
                (join.left(), join.right(), join.filter(), *join.join_type(), projection)
            }
            None => {
                let join = plan.downcast_ref::<CrossJoinExec>()?;
                (join.left(), join.right(), None, JoinType::Inner, None)
            }
        };
        let null_equality = NullEquality::NullEqualsNothing;
        Some(Self {
            left,
            right,
            on: vec![],
            filter,
            join_type,
            projection,
            null_equality,
            is_null_aware: false,
        })
    }
}

impl JoinStep {
    /// What a join of a stream does, and the plan of the stream's side. `None` if there are streams on both sides or on
    /// none, or if rows are kept that no event meets.
    pub(crate) fn compile(plan: &Arc<dyn ExecutionPlan>) -> Option<(JoinStep, &Arc<dyn ExecutionPlan>)> {
        let parts = Plan::of(plan)?;
        let stream_is_left = match (has_stream(parts.left), has_stream(parts.right)) {
            (true, false) => true,
            (false, true) => false,
            _ => return None,
        };
        let (stream, beside) =
            if stream_is_left { (parts.left, parts.right) } else { (parts.right, parts.left) };
        let kind = kind(parts.join_type, stream_is_left)?;
        let (joined, prepare) = kept(beside)?;
        let place = |column: &ColumnIndex| match column.side {
            JoinSide::None => Side::Mark,
            JoinSide::Left if stream_is_left => Side::Event(column.index),
            JoinSide::Right if !stream_is_left => Side::Event(column.index),
            JoinSide::Left | JoinSide::Right => Side::Row(column.index),
        };
        let keys = parts.on.into_iter().map(|(l, r)| if stream_is_left { (l, r) } else { (r, l) }).collect();
        let condition = parts.filter.map(|filter| Condition {
            expr: Arc::clone(filter.expression()),
            columns: filter.column_indices().iter().map(place).collect(),
            schema: Arc::clone(filter.schema()),
        });
        let events = (0..stream.schema().fields().len()).map(Side::Event);
        let rows = (0..beside.schema().fields().len()).map(Side::Row);
        let all: Vec<Side> = match kind {
            Kind::Inner | Kind::Left if stream_is_left => events.chain(rows).collect(),
            Kind::Inner | Kind::Left => rows.chain(events).collect(),
            Kind::Semi | Kind::Anti => events.collect(),
            Kind::Mark => events.chain([Side::Mark]).collect(),
        };
        let output = match parts.projection {
            Some(columns) => columns.iter().map(|&i| all.get(i).copied()).collect::<Option<_>>()?,
            None => all,
        };
        let join = Arc::new(Join {
            joined,
            kind,
            prepare,
            keys,
            condition,
            nulls_are_equal: parts.null_equality == NullEquality::NullEqualsNull,
            is_null_aware: parts.is_null_aware,
            loaded: RwLock::default(),
            postponed: Mutex::default(),
            loading: tokio::sync::Mutex::default(),
        });
        Some((JoinStep { join, output, schema: plan.schema() }, stream))
    }

    /// Why a plan that is no step is none, if it is a join.
    pub(crate) fn obstacle(plan: &Arc<dyn ExecutionPlan>) -> Option<SqlError> {
        let parts = Plan::of(plan)?;
        Some(match (has_stream(parts.left), has_stream(parts.right)) {
            (true, true) => {
                SqlError::unsupported("joins of streams are not supported in a continuous view yet")
                    .with_hint(
                        "Make a continuous view of each stream, and join them in the query that reads them.",
                    )
            }
            _ => SqlError::unsupported("a continuous view cannot keep rows of a table that no event joins")
                .with_hint("An outer join may keep the events of the stream: stream LEFT JOIN table."),
        })
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Has a column of the events be the last column; returns where that is.
    pub(crate) fn carry(&mut self, place: usize, field: &Arc<Field>) -> usize {
        self.output.push(Side::Event(place));
        self.schema = appended(&self.schema, field);
        self.output.len() - 1
    }

    pub(crate) fn run(&self, events: &RecordBatch, joined: &JoinedRows) -> Result<RecordBatch> {
        let loaded = joined.of(&self.join).ok_or_else(not_loaded)?;
        let rows = &loaded.rows;
        let count = events.num_rows();
        let keys = self.join.keys.iter().map(|(key, _)| key.evaluate(events)?.into_array(count));
        let keys = keys.collect::<Result<Vec<_>>>()?;
        match self.join.kind {
            Kind::Inner | Kind::Left => {
                let pairs = self.joined_pairs(events, rows, &keys)?;
                let (events_at, rows_at) = match self.join.kind {
                    Kind::Left => with_unmet(pairs, count),
                    _ => (UInt32Array::from(pairs.events), UInt32Array::from(pairs.rows)),
                };
                self.output(events, rows.batch(), &events_at, &rows_at)
            }
            kind => {
                let met = self.met(events, rows, &keys)?;
                let kept = match kind {
                    Kind::Semi => met,
                    Kind::Anti => arrow::compute::not(&met)?,
                    _ => return self.marked(events, met),
                };
                let columns = self.output.iter().map(|side| match side {
                    Side::Event(i) => Ok(filter(events.column(*i), &kept)?),
                    Side::Row(_) | Side::Mark => Err(misplaced()),
                });
                with_rows(&self.schema, columns.collect::<Result<_>>()?, kept.true_count())
            }
        }
    }

    fn joined_pairs(&self, events: &RecordBatch, rows: &Rows, keys: &[ArrayRef]) -> Result<Pairs> {
        let mut all = Pairs::default();
        self.each_pairs(events, rows, keys, |pairs| {
            all.events.extend(pairs.events);
            all.rows.extend(pairs.rows);
            if all.events.len() > JOINED_ROWS_MAX {
                return Err(too_many(format!(
                    "a batch of {} events joins more than {JOINED_ROWS_MAX} rows",
                    events.num_rows()
                )));
            }
            Ok(())
        })?;
        Ok(all)
    }

    /// Which events meet a row. For `NOT IN` those count that perhaps do.
    fn met(&self, events: &RecordBatch, rows: &Rows, keys: &[ArrayRef]) -> Result<BooleanArray> {
        let count = events.num_rows();
        let mut met = vec![false; count];
        self.each_pairs(events, rows, keys, |pairs| {
            pairs.events.iter().for_each(|event| met[*event as usize] = true);
            Ok(())
        })?;
        if self.join.is_null_aware && rows.count() > 0 {
            met.iter_mut()
                .enumerate()
                .for_each(|(event, met)| *met |= rows.has_null() || is_null(keys, event));
        }
        Ok(met.into())
    }

    /// The pairs of which the whole condition is true.
    fn each_pairs(
        &self,
        events: &RecordBatch,
        rows: &Rows,
        keys: &[ArrayRef],
        mut give: impl FnMut(Pairs) -> Result<()>,
    ) -> Result<()> {
        let mut seen = 0;
        rows.pairs(keys, events.num_rows(), SOME_PAIRS, |pairs| {
            seen += pairs.events.len();
            if seen > PAIRS_MAX {
                return Err(too_many(format!(
                    "a batch of {} events has more than {PAIRS_MAX} pairs with the joined rows",
                    events.num_rows()
                )));
            }
            match &self.join.condition {
                Some(condition) => give(condition.true_of(pairs, events, rows.batch())?),
                None => give(pairs),
            }
        })
    }

    fn output(
        &self,
        events: &RecordBatch,
        rows: &RecordBatch,
        events_at: &UInt32Array,
        rows_at: &UInt32Array,
    ) -> Result<RecordBatch> {
        // Mostly each event meets one row.
        let is_whole =
            events_at.len() == events.num_rows() && (0..).zip(events_at.values()).all(|(i, at)| i == *at);
        let columns = self.output.iter().map(|side| match side {
            Side::Event(i) if is_whole => Ok(Arc::clone(events.column(*i))),
            Side::Event(i) => Ok(take(events.column(*i), events_at, None)?),
            Side::Row(i) if rows.num_rows() == 0 => {
                Ok(new_null_array(rows.column(*i).data_type(), rows_at.len()))
            }
            Side::Row(i) => Ok(take(rows.column(*i), rows_at, None)?),
            Side::Mark => Err(misplaced()),
        });
        with_rows(&self.schema, columns.collect::<Result<_>>()?, events_at.len())
    }

    fn marked(&self, events: &RecordBatch, met: BooleanArray) -> Result<RecordBatch> {
        let met: ArrayRef = Arc::new(met);
        let columns = self.output.iter().map(|side| match side {
            Side::Event(i) => Ok(Arc::clone(events.column(*i))),
            Side::Mark => Ok(Arc::clone(&met)),
            Side::Row(_) => Err(misplaced()),
        });
        with_rows(&self.schema, columns.collect::<Result<_>>()?, events.num_rows())
    }
}

impl Condition {
    fn true_of(&self, pairs: Pairs, events: &RecordBatch, rows: &RecordBatch) -> Result<Pairs> {
        let (events_at, rows_at) =
            (UInt32Array::from(pairs.events.clone()), UInt32Array::from(pairs.rows.clone()));
        let columns = self.columns.iter().map(|side| match side {
            Side::Event(i) => Ok(take(events.column(*i), &events_at, None)?),
            Side::Row(i) => Ok(take(rows.column(*i), &rows_at, None)?),
            Side::Mark => Err(misplaced()),
        });
        let batch = with_rows(&self.schema, columns.collect::<Result<_>>()?, events_at.len())?;
        let is_true = self.expr.evaluate(&batch)?.into_array(events_at.len())?;
        Ok(pairs.only(as_boolean_array(&is_true)?))
    }
}

/// The pairs, and each event that is in none without a row, in the order of the events.
fn with_unmet(pairs: Pairs, events: usize) -> (UInt32Array, UInt32Array) {
    let mut met = pairs.events.into_iter().zip(pairs.rows).peekable();
    let (mut events_at, mut rows_at) = (Vec::with_capacity(events), Vec::with_capacity(events));
    for event in 0..events as u32 {
        let mut has_row = false;
        while let Some((_, row)) = met.next_if(|(of, _)| *of == event) {
            has_row = true;
            events_at.push(event);
            rows_at.push(Some(row));
        }
        if !has_row {
            events_at.push(event);
            rows_at.push(None);
        }
    }
    (UInt32Array::from(events_at), UInt32Array::from(rows_at))
}

fn kind(join_type: JoinType, stream_is_left: bool) -> Option<Kind> {
    Some(match (join_type, stream_is_left) {
        (JoinType::Inner, _) => Kind::Inner,
        (JoinType::Left, true) | (JoinType::Right, false) => Kind::Left,
        (JoinType::LeftSemi, true) | (JoinType::RightSemi, false) => Kind::Semi,
        (JoinType::LeftAnti, true) | (JoinType::RightAnti, false) => Kind::Anti,
        (JoinType::LeftMark, true) | (JoinType::RightMark, false) => Kind::Mark,
        _ => return None,
    })
}

/// The kept rows at the end of a chain of steps, and the steps, the first one first.
fn kept(plan: &Arc<dyn ExecutionPlan>) -> Option<(Arc<super::Joined>, Vec<Step>)> {
    let (mut steps, mut below) = (vec![], plan);
    loop {
        if let Some(leaf) = below.downcast_ref::<JoinedExec>() {
            let schema = leaf.schema();
            let fields = schema.fields().iter().zip(leaf.columns());
            let column = |(field, i): (&Arc<Field>, &usize)| {
                Arc::new(Column::new(field.name(), *i)) as Arc<dyn PhysicalExpr>
            };
            let expressions = fields.map(column).collect();
            steps.push(Step::Project { expressions, schema });
            steps.reverse();
            return Some((Arc::clone(&leaf.source().0), steps));
        }
        let (step, input) = Step::compile(below)?;
        steps.push(step);
        below = input;
    }
}

fn has_stream(plan: &Arc<dyn ExecutionPlan>) -> bool {
    plan.is::<StreamExec>() || plan.children().into_iter().any(has_stream)
}

fn too_many(message: String) -> DataFusionError {
    let error = SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message);
    DataFusionError::External(Box::new(error.with_hint("Join by columns that tell rows apart.")))
}

/// Rows are read before events are written. Only a view that becomes active in between has none.
fn not_loaded() -> DataFusionError {
    let message = "a continuous view became active whose joined rows have not been read";
    let error = SqlError::new(SqlState::SERIALIZATION_FAILURE, message);
    DataFusionError::External(Box::new(error.with_hint("Try again.")))
}

fn misplaced() -> DataFusionError {
    DataFusionError::Internal("a join gives a column that it does not have".into())
}
