//! Reading a state that is partly on disk: merge by key, finish chunk by chunk, in bounded memory.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;

use crate::engine::run_schema;
use crate::error::run_error;
use crate::fold::{Aggregation, Finish};
use crate::run::{KeyEncoder, Merge, Run, RunError, Sorted};
use crate::view::lookup::KeyFilter;
use crate::view::{Frozen, States};

/// Batches of fewer rows are combined before they are merged with runs.
const SMALL_ROWS: usize = 64 << 10;
/// Chunks that wait for the reader above.
const CHUNKS_AHEAD: usize = 2;

pub fn stream_state(
    finish: Arc<Finish>,
    frozen: Frozen,
    filter: Option<Arc<KeyFilter>>,
) -> SendableRecordBatchStream {
    let schema = Arc::clone(finish.schema());
    let mut builder = RecordBatchReceiverStreamBuilder::new(schema, CHUNKS_AHEAD);
    let sender = builder.tx();
    builder.spawn_blocking(move || {
        let mut receiver_gone = false;
        read(&finish, &frozen, filter.as_ref(), &mut |batch| {
            receiver_gone = sender.blocking_send(Ok(batch)).is_err();
            !receiver_gone
        })
    });
    builder.build()
}

/// The finished groups that a filter for few keys wants, in one batch.
pub fn look_up(finish: &Finish, frozen: &Frozen, filter: Option<&Arc<KeyFilter>>) -> Result<RecordBatch> {
    let mut found = Vec::new();
    read(finish, frozen, filter, &mut |batch| {
        found.push(batch);
        true
    })?;
    Ok(concat_batches(finish.schema(), &found)?)
}

fn external(error: RunError) -> DataFusionError {
    DataFusionError::External(Box::new(run_error(&error)))
}

/// Gives finished batches to `give` until it returns false.
fn read(
    finish: &Finish,
    frozen: &Frozen,
    filter: Option<&Arc<KeyFilter>>,
    give: &mut dyn FnMut(RecordBatch) -> bool,
) -> Result<()> {
    let aggregation = finish.aggregation();
    if aggregation.keeps_rows() {
        return read_rows(aggregation, frozen, give);
    }
    let (schema, keys) = run_schema(aggregation);
    let mut inputs: Vec<Box<dyn Iterator<Item = Result<RecordBatch, RunError>>>> = Vec::new();
    let encoder = KeyEncoder::try_new(&schema, keys).map_err(external)?;
    for layer in &frozen.layers {
        for run in &layer.runs {
            inputs.push(match filter {
                Some(filter) => filter.run(run),
                None => Box::new(run.scan()),
            });
        }
        let recent = match filter {
            Some(filter) => vec![aggregation.combine(&filter.batches(&layer.batches)?)?],
            None => join_small(aggregation, &layer.batches)?,
        };
        for states in recent {
            inputs.push(Box::new(Sorted::try_new(states, &encoder).map_err(external)?));
        }
    }
    for chunk in Merge::try_new(schema, keys, inputs).map_err(external)? {
        let chunk = chunk.map_err(external)?;
        let finished = if chunk.is_unique() {
            finish.unique(&chunk.batch)?
        } else {
            let group_keys = chunk.group_keys(keys).map_err(external)?;
            let columns = chunk.batch.columns();
            finish.grouped(columns, &chunk.groups, chunk.group_count, &group_keys)?
        };
        if !give(finished) {
            break;
        }
    }
    Ok(())
}

/// Small neighbours made one; large batches as they are, so that reading takes no second copy of them.
fn join_small(aggregation: &Aggregation, batches: &[States]) -> Result<Vec<RecordBatch>> {
    let is_small = |states: &States| states.num_rows() < SMALL_ROWS;
    let neighbours = batches.chunk_by(|a, b| is_small(a) && is_small(b));
    neighbours.map(|batches| aggregation.combine(batches)).collect()
}

/// Rows are on disk and in memory in the order in which they came.
fn read_rows(
    aggregation: &Aggregation,
    frozen: &Frozen,
    give: &mut dyn FnMut(RecordBatch) -> bool,
) -> Result<()> {
    for layer in &frozen.layers {
        for block in layer.runs.iter().flat_map(Run::scan) {
            let block = block.map_err(external)?;
            let rows = block.columns()[1..].to_vec();
            let states = RecordBatch::try_new(Arc::clone(aggregation.state_schema()), rows)?;
            if !give(aggregation.finish_unique(&states)?) {
                return Ok(());
            }
        }
        for batch in &layer.batches {
            if !give(aggregation.finish_unique(batch)?) {
                return Ok(());
            }
        }
    }
    Ok(())
}
