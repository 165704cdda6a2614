//! The keys of the hashed side of a join, gathered as its rows pass, for the servers of the other side.
//!
//! DataFusion's own list of them would have an expression a row, and all rows of a side of few different keys. Here a key is
//! kept once, by columns, and no more of them than a server is told.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{Array, ArrayRef, BooleanArray};
use arrow::buffer::NullBuffer;
use arrow::compute::filter;
use arrow::datatypes::{Field, Schema};
use arrow::record_batch::RecordBatch;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::EmitTo;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::group_values::{GroupValues, new_group_values};
use datafusion::physical_plan::aggregates::order::GroupOrdering;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::{StreamExt, stream};
use parking_lot::Mutex;
use tidemill_sql::planner::Pass;

/// Different keys that are gathered; of more, servers get the range.
pub(super) const KEYS_MAX: usize = 200_000;
/// What they take in memory.
const KEY_BYTES_MAX: usize = 32 << 20;

/// What was gathered, a column a key column. Rows in which one is null, which equals nothing, are left out.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    found: Mutex<Option<Arc<[ArrayRef]>>>,
    scans: AtomicUsize,
}

impl Keys {
    /// `None`: not all rows have passed, or they had too many keys, or a null that equals another.
    pub fn found(&self) -> Option<Arc<[ArrayRef]>> {
        self.found.lock().clone()
    }

    /// How many scans are told them.
    pub fn scans(&self) -> usize {
        self.scans.load(Ordering::Relaxed)
    }

    pub fn add_scan(&self) {
        self.scans.fetch_add(1, Ordering::Relaxed);
    }
}

/// Gathers the keys of rows that come in one partition.
#[derive(Debug, Clone)]
pub(super) struct GatherKeys {
    pub exprs: Vec<Arc<dyn PhysicalExpr>>,
    pub nulls_are_equal: bool,
    pub keys: Arc<Keys>,
}

impl Pass for GatherKeys {
    const NAME: &'static str = "KeysExec";

    fn exprs(&self) -> &[Arc<dyn PhysicalExpr>] {
        &self.exprs
    }

    fn execute(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let rows = input.execute(partition, context)?;
        let gathering = Gathering::new(&self.exprs, &input.schema(), self.nulls_are_equal)?;
        let passing = (rows, Some(gathering), Arc::clone(&self.keys));
        let passed = stream::unfold(passing, |(mut rows, mut gathering, keys)| async move {
            let batch = match rows.next().await {
                Some(Ok(batch)) => gathering.as_mut().map_or(Ok(()), |all| all.add(&batch)).map(|()| batch),
                Some(error) => error,
                None => match gathering.take()?.found() {
                    Ok(found) => {
                        *keys.found.lock() = found;
                        return None;
                    }
                    Err(error) => Err(error),
                },
            };
            Some((batch, (rows, gathering, keys)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(input.schema(), passed)))
    }
}

/// Keys as they come.
struct Gathering {
    exprs: Vec<Arc<dyn PhysicalExpr>>,
    /// `None`: there are too many.
    values: Option<Box<dyn GroupValues>>,
    places: Vec<usize>,
    nulls_are_equal: bool,
}

impl Gathering {
    fn new(exprs: &[Arc<dyn PhysicalExpr>], schema: &Schema, nulls_are_equal: bool) -> Result<Self> {
        let field = |expr: &Arc<dyn PhysicalExpr>| Ok(Field::new("", expr.data_type(schema)?, true));
        let fields = exprs.iter().map(field).collect::<Result<Vec<_>>>()?;
        let values = new_group_values(Arc::new(Schema::new(fields)), &GroupOrdering::None)?;
        Ok(Self { exprs: exprs.to_vec(), values: Some(values), places: Vec::new(), nulls_are_equal })
    }

    fn add(&mut self, rows: &RecordBatch) -> Result<()> {
        let Some(values) = &mut self.values else { return Ok(()) };
        let column = |expr: &Arc<dyn PhysicalExpr>| expr.evaluate(rows)?.into_array(rows.num_rows());
        values.intern(&self.exprs.iter().map(column).collect::<Result<Vec<_>>>()?, &mut self.places)?;
        if values.len() > KEYS_MAX || values.size() > KEY_BYTES_MAX {
            self.values = None;
        }
        Ok(())
    }

    fn found(self) -> Result<Option<Arc<[ArrayRef]>>> {
        let Some(mut values) = self.values else { return Ok(None) };
        let columns = match values.is_empty() {
            true => return Ok(Some(vec![].into())),
            false => values.emit(EmitTo::All)?,
        };
        let nulls = columns.iter().fold(None, |nulls: Option<NullBuffer>, column| {
            NullBuffer::union(nulls.as_ref(), column.logical_nulls().as_ref())
        });
        let Some(nulls) = nulls else { return Ok(Some(columns.into())) };
        if self.nulls_are_equal {
            return Ok(None);
        }
        let known = BooleanArray::new(nulls.into_inner(), None);
        let known = columns.iter().map(|column| filter(column, &known));
        Ok(Some(known.collect::<std::result::Result<_, _>>()?))
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{AsArray, Int64Array, StringArray};
    use arrow::datatypes::Int64Type;
    use datafusion::physical_expr::expressions::Column;

    use super::*;

    fn gathered(batches: &[RecordBatch]) -> Option<Arc<[ArrayRef]>> {
        let schema = batches[0].schema();
        let column = |(i, field): (usize, &Arc<Field>)| Arc::new(Column::new(field.name(), i)) as _;
        let exprs: Vec<Arc<dyn PhysicalExpr>> = schema.fields().iter().enumerate().map(column).collect();
        let mut gathering = Gathering::new(&exprs, &schema, false).unwrap();
        for batch in batches {
            gathering.add(batch).unwrap();
        }
        gathering.found().unwrap()
    }

    fn numbers(numbers: impl IntoIterator<Item = Option<i64>>) -> RecordBatch {
        let numbers: ArrayRef = Arc::new(numbers.into_iter().collect::<Int64Array>());
        RecordBatch::try_from_iter([("k", numbers)]).unwrap()
    }

    #[test]
    fn keys_are_gathered_once_and_without_nulls() {
        let found = gathered(&[numbers([Some(3), None, Some(3)]), numbers([Some(1), Some(3), None])]);
        assert_eq!(found.unwrap()[0].as_primitive::<Int64Type>().values().to_vec(), [3, 1]);
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("a"), None, Some("a")]));
        let both: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), Some(2), None]));
        let found = gathered(&[RecordBatch::try_from_iter([("t", texts), ("n", both)]).unwrap()]).unwrap();
        assert_eq!((found[0].as_string::<i32>().value(0), found[0].len(), found[1].len()), ("a", 1, 1));
        assert_eq!(gathered(&[numbers([None, None])]).unwrap()[0].len(), 0);
    }

    #[test]
    fn more_keys_than_are_told_are_forgotten() {
        let few = numbers((0..2 * KEYS_MAX as i64).map(|i| Some(i % 100)));
        assert_eq!(gathered(&[few]).unwrap()[0].len(), 100);
        let all = |keys| numbers((0..keys as i64).map(Some));
        assert_eq!(gathered(&[all(KEYS_MAX)]).unwrap()[0].len(), KEYS_MAX);
        assert!(gathered(&[all(KEYS_MAX + 1), all(1)]).is_none());
        let long = (0..9).map(|i| Some(i.to_string().repeat(KEY_BYTES_MAX / 8)));
        let long: ArrayRef = Arc::new(long.collect::<StringArray>());
        assert!(gathered(&[RecordBatch::try_from_iter([("t", long)]).unwrap()]).is_none());
    }
}
