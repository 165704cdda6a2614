//! Run files: their names, and how states get into them.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

use crate::disk::Disk;
use crate::error::{Error, Result};
use crate::fold::Aggregation;
use crate::run::{BlockCache, KeyEncoder, Merge, Run, RunError, RunWriter, Sorted};
use crate::view::States;

const DIR: &str = "run";
/// The rows of a view without aggregates are numbered: the number of their first run, then this many bits within it.
const ROWS_OF_RUN_BITS: u32 = 32;

/// All runs of all views.
#[derive(Debug)]
pub(crate) struct RunStore {
    disk: Arc<dyn Disk>,
    cache: Arc<BlockCache>,
    /// Numbers from here on are of runs that were not there when the store was opened.
    first_new: u64,
    next: AtomicU64,
    bytes: AtomicU64,
}

impl RunStore {
    /// Makes the directory. New runs get numbers behind those that are there.
    pub(super) fn open(disk: &Arc<dyn Disk>, cache: Arc<BlockCache>) -> Result<Self> {
        disk.create_dir(Path::new(DIR))?;
        let last = file_names(disk.as_ref())?.iter().filter_map(|name| number(name)).max();
        let first_new = last.map_or(1, |last| last + 1);
        let next = AtomicU64::new(first_new);
        Ok(Self { disk: Arc::clone(disk), cache, first_new, next, bytes: AtomicU64::new(0) })
    }

    /// Of all runs.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// A run that the log names. One that was written since the store was opened is another, which has got the number of
    /// one that is lost.
    pub(super) fn open_run(&self, aggregation: &Aggregation, name: &str) -> Result<Arc<Run>> {
        let path = Path::new(DIR).join(name);
        let missing =
            || Error::Corrupt(format!("run \"{}\" is missing, but the log names it", path.display()));
        if number(name).is_none_or(|number| number >= self.first_new) {
            return Err(missing());
        }
        match Run::open(self.disk.as_ref(), &path, &layout(aggregation), Arc::clone(&self.cache)) {
            Err(RunError::Disk(error)) if error.is_not_found() => Err(missing()),
            outcome => Ok(Arc::new(outcome?)),
        }
    }

    /// Removes the files that are not of these runs.
    pub(super) fn keep_only<'a>(&self, kept: impl Iterator<Item = &'a Arc<Run>>) -> Result<()> {
        let kept: HashMap<_, _> = kept.map(|run| (run_name(run), run.bytes())).collect();
        self.bytes.store(kept.values().sum(), Ordering::Relaxed);
        let mut removed = false;
        for name in file_names(self.disk.as_ref())? {
            if !kept.contains_key(&name) {
                self.disk.remove(&Path::new(DIR).join(&name))?;
                removed = true;
            }
        }
        if removed {
            self.disk.sync_dir(Path::new(DIR))?;
        }
        Ok(())
    }

    /// Writes states, oldest first, of which each has unique keys. In memory at once are a number a row and a window of
    /// each.
    pub(super) fn write_states(&self, aggregation: &Aggregation, batches: &[States]) -> Result<Arc<Run>> {
        let number = self.take_number();
        let (schema, keys) = run_schema(aggregation);
        let encoder = KeyEncoder::try_new(&schema, keys)?;
        // Larger than the number of any row in an earlier run, whatever has been dropped since.
        let mut row = i64::try_from(number << ROWS_OF_RUN_BITS).unwrap_or(i64::MAX);
        let mut inputs = Vec::with_capacity(batches.len());
        for states in batches {
            let rows = match aggregation.keeps_rows() {
                true => numbered(states, &schema, keys, row)?,
                false => (**states).clone(),
            };
            row += rows.num_rows() as i64;
            inputs.push(Sorted::try_new(rows, &encoder)?);
        }
        self.write_merged(aggregation, number, inputs)
    }

    /// Writes what is sorted already, oldest first.
    pub(super) fn write_sorted<I, E>(&self, aggregation: &Aggregation, inputs: Vec<I>) -> Result<Arc<Run>>
    where
        I: Iterator<Item = Result<RecordBatch, E>>,
        E: From<RunError>,
        Error: From<E>,
    {
        self.write_merged(aggregation, self.take_number(), inputs)
    }

    fn write_merged<I, E>(&self, aggregation: &Aggregation, number: u64, inputs: Vec<I>) -> Result<Arc<Run>>
    where
        I: Iterator<Item = Result<RecordBatch, E>>,
        E: From<RunError>,
        Error: From<E>,
    {
        let (schema, keys) = run_schema(aggregation);
        let (path, layout) = (Path::new(DIR).join(format!("{number:016}.run")), layout(aggregation));
        let mut writer =
            RunWriter::create(Arc::clone(&self.disk), &path, Arc::clone(&schema), keys, &layout)?;
        for chunk in Merge::try_new(schema, keys, inputs)? {
            let chunk = chunk?;
            if aggregation.keeps_rows() || chunk.is_unique() {
                writer.append(&chunk.batch)?;
                continue;
            }
            let group_keys = chunk.group_keys(keys)?;
            let columns = chunk.batch.columns();
            let states =
                aggregation.combine_grouped(columns, &chunk.groups, chunk.group_count, &group_keys)?;
            writer.append(&states)?;
        }
        let info = writer.finish()?;
        self.bytes.fetch_add(info.bytes, Ordering::Relaxed);
        Ok(Arc::new(Run::open(self.disk.as_ref(), &path, &layout, Arc::clone(&self.cache))?))
    }

    /// A reader that still has the run keeps its open file.
    pub(super) fn remove(&self, run: &Run) {
        match self.disk.remove(run.path()) {
            Ok(()) => drop(self.bytes.fetch_sub(run.bytes(), Ordering::Relaxed)),
            Err(error) => tracing::warn!(%error, "an old run stays behind"),
        }
    }

    fn take_number(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }
}

pub(super) fn has_runs(disk: &dyn Disk) -> Result<bool> {
    Ok(file_names(disk)?.iter().any(|name| name.ends_with(".run")))
}

fn file_names(disk: &dyn Disk) -> Result<Vec<String>> {
    Ok(disk.list(Path::new(DIR))?)
}

pub(super) fn run_name(run: &Run) -> String {
    run.path().file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default()
}

/// The number in a run's file name.
fn number(name: &str) -> Option<u64> {
    name.strip_suffix(".run")?.parse().ok()
}

/// Names what the columns of a run mean: another version's states are refused rather than misread.
fn layout(aggregation: &Aggregation) -> String {
    let functions: Vec<_> = aggregation.functions().map(|f| f.fun().name().to_string()).collect();
    format!(
        "datafusion {} keys {} [{}]",
        datafusion::DATAFUSION_VERSION,
        aggregation.key_count(),
        functions.join(" ")
    )
}

/// The schema of an aggregation's runs and the number of key columns. Kept rows have no key: they are numbered.
pub(crate) fn run_schema(aggregation: &Aggregation) -> (SchemaRef, usize) {
    let states = aggregation.state_schema();
    if !aggregation.keeps_rows() {
        return (Arc::clone(states), aggregation.key_count());
    }
    let panes = usize::from(aggregation.has_panes());
    let mut fields = states.fields().to_vec();
    fields.insert(panes, Arc::new(Field::new("row", DataType::Int64, false)));
    (Arc::new(Schema::new(fields)), panes + 1)
}

/// Kept rows with their numbers.
fn numbered(states: &RecordBatch, schema: &SchemaRef, keys: usize, first: i64) -> Result<RecordBatch> {
    let numbers = Int64Array::from_iter_values(first..first + states.num_rows() as i64);
    let mut columns: Vec<ArrayRef> = states.columns().to_vec();
    columns.insert(keys - 1, Arc::new(numbers));
    Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
}
