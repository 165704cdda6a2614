//! The maintenance thread: merges frozen states in memory, writes large ones to runs, merges runs, removes old files.

use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;

use crate::engine::Shared;
use crate::error::Result;
use crate::fold::Aggregation;
use crate::run::{BlockCache, KeyEncoder, Merge, Run, RunWriter, sort_by_key};
use crate::ttl::Alive;
use crate::view::{States, View};
use crate::window;

pub(super) const RUN_DIR: &str = "run";
/// So many neighbouring runs of similar size are merged into one.
const RUNS_MERGE_MIN: usize = 4;
/// The rows of a view without aggregates are numbered: the number of their first run, then this many bits within it.
const ROWS_OF_RUN_BITS: u32 = 32;
/// How often the thread looks for something to do.
const PERIOD: Duration = Duration::from_millis(20);

/// What the other threads and the maintenance thread tell each other.
#[derive(Debug)]
pub(super) struct Maintenance {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct State {
    stop: bool,
    flush_wanted: bool,
    flush_done: bool,
    /// Views whose expired groups are to go now, and where to tell how many went.
    burials: Vec<(Arc<View>, oneshot::Sender<Result<u64>>)>,
    checkpointing: bool,
    /// The runs that the last checkpoint names: they stay on disk.
    named: Vec<Arc<Run>>,
    /// Runs that no view has any more; their files go when no checkpoint names them.
    retired: Vec<Arc<Run>>,
}

impl Maintenance {
    pub(super) fn request_flush(&self) {
        let mut state = self.state.lock();
        state.flush_wanted = true;
        self.wake.notify_one();
    }

    /// True once after a requested flush was done.
    pub(super) fn flushed_since_request(&self) -> bool {
        std::mem::take(&mut self.state.lock().flush_done)
    }

    /// After a start: the runs that the last checkpoint names.
    pub(super) fn new(named: Vec<Arc<Run>>) -> Self {
        Self { state: Mutex::new(State { named, ..State::default() }), wake: Condvar::new() }
    }

    /// No run is removed from here to [`Self::end_checkpoint`]: the checkpoint may come to name it.
    pub(super) fn begin_checkpoint(&self) {
        self.state.lock().checkpointing = true;
    }

    /// The runs that the new checkpoint names; none if it was not written.
    pub(super) fn end_checkpoint(&self, runs: Option<Vec<Arc<Run>>>) {
        let mut state = self.state.lock();
        state.checkpointing = false;
        if let Some(runs) = runs {
            state.named = runs;
        }
    }

    pub(super) fn retire(&self, runs: impl IntoIterator<Item = Arc<Run>>) {
        self.state.lock().retired.extend(runs);
    }

    /// Takes away what has expired of a view without waiting for its time; tells how many groups went.
    pub(super) fn request_burial(&self, view: Arc<View>) -> oneshot::Receiver<Result<u64>> {
        let (answer, done) = oneshot::channel();
        let mut state = self.state.lock();
        if !state.stop {
            state.burials.push((view, answer));
            self.wake.notify_one();
        }
        done
    }

    pub(super) fn stop(&self) {
        self.state.lock().stop = true;
        self.wake.notify_one();
    }
}

/// Names what the columns of a run mean: another version's states are refused rather than misread.
pub(super) fn layout(aggregation: &Aggregation) -> String {
    let functions: Vec<_> = aggregation.functions().map(|f| f.fun().name().to_string()).collect();
    format!(
        "datafusion {} keys {} [{}]",
        datafusion::DATAFUSION_VERSION,
        aggregation.key_count(),
        functions.join(" ")
    )
}

pub(super) fn run_path(name: &str) -> PathBuf {
    Path::new(RUN_DIR).join(name)
}

pub(super) fn run_name(run: &Run) -> String {
    run.path().file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default()
}

/// The number in a run's file name.
pub(super) fn run_number(name: &str) -> Option<u64> {
    name.strip_suffix(".run")?.parse().ok()
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

pub(super) struct Maintainer {
    shared: Arc<Shared>,
    cache: Arc<BlockCache>,
    next_run: u64,
}

impl Maintainer {
    pub(super) fn new(shared: Arc<Shared>, cache: Arc<BlockCache>, next_run: u64) -> Self {
        Self { shared, cache, next_run }
    }

    pub(super) fn run(&mut self) {
        loop {
            let (flush, burials) = {
                let mut state = self.shared.maintenance.state.lock();
                if state.stop {
                    state.burials.clear();
                    return;
                }
                if !state.flush_wanted && state.burials.is_empty() {
                    self.shared.maintenance.wake.wait_for(&mut state, PERIOD);
                }
                (std::mem::take(&mut state.flush_wanted), std::mem::take(&mut state.burials))
            };
            for (view, answer) in burials {
                let gone = match view.alive(self.shared.options.clock.now_us()) {
                    Some(alive) => self.bury(&view, alive),
                    None => Ok(0),
                };
                // Who asked may have gone away.
                drop(answer.send(gone));
            }
            let views: Vec<_> = self.shared.views.read().by_id.values().cloned().collect();
            for view in &views {
                self.log_failure(view, self.expire(view));
                if let Some(alive) = view.alive_if_due(self.shared.options.clock.now_us()) {
                    let buried = self.bury(view, alive).map(drop);
                    self.log_failure(view, buried);
                }
                self.log_failure(view, self.merge_frozen(view));
                self.log_failure(view, self.index(view));
            }
            let memory: usize = views.iter().map(|v| v.size().1).sum();
            if flush || memory > self.shared.options.memory_bytes {
                for view in &views {
                    let flushed = self.flush(view);
                    self.log_failure(view, flushed);
                }
            }
            if flush {
                self.shared.maintenance.state.lock().flush_done = true;
            }
            for view in &views {
                let merged = self.merge_runs(view);
                self.log_failure(view, merged);
            }
            self.remove_retired();
        }
    }

    fn log_failure(&self, view: &View, result: Result<()>) {
        if let Err(error) = result {
            tracing::warn!(view = view.id.0, %error, "maintenance of a view failed and is tried again");
        }
    }

    /// Drops what a sliding window has left behind.
    fn expire(&self, view: &View) -> Result<()> {
        let Some(first) = self.first_pane(view) else { return Ok(()) };
        let gone = view.state.lock().expire(first)?;
        self.shared.maintenance.retire(gone);
        Ok(())
    }

    /// Takes away what has outlived its time, from memory and from disk, and counts it.
    fn bury(&mut self, view: &View, alive: Alive) -> Result<u64> {
        let mut gone_rows = view.state.lock().bury(alive)? as u64;
        let aggregation = &view.plan.aggregation;
        // Kept rows have their number in front.
        let alive = alive.behind(usize::from(aggregation.keeps_rows()));
        let runs = view.state.lock().runs().to_vec();
        for run in runs {
            let mut left = 0;
            for block in run.scan() {
                left += alive.rows(&block?)?.num_rows() as u64;
            }
            if left == run.rows() {
                continue;
            }
            let (schema, keys) = run_schema(aggregation);
            let rows = run.scan().map(|block| Ok(alive.rows(&block?)?));
            let rows =
                rows.filter(|rows| rows.as_ref().map_or(true, |rows: &RecordBatch| rows.num_rows() > 0));
            let written =
                if left > 0 { Some(self.write_run(aggregation, schema, keys, rows)?) } else { None };
            let mut state = view.state.lock();
            let replaced = match &written {
                Some(new) => state.replace_runs(std::slice::from_ref(&run), Arc::clone(new)),
                None => state.remove_run(&run),
            };
            drop(state);
            gone_rows += if replaced { run.rows() - left } else { 0 };
            let gone = if replaced { Some(run) } else { written };
            self.shared.maintenance.retire(gone);
        }
        Ok(gone_rows)
    }

    fn first_pane(&self, view: &View) -> Option<i64> {
        view.plan.window.map(|window| window.first_pane(self.shared.options.clock.now_us()))
    }

    fn merge_frozen(&self, view: &View) -> Result<()> {
        let Some(task) = view.state.lock().merge_task() else { return Ok(()) };
        match view.plan.aggregation.combine(&task.batches) {
            Ok(merged) => view.state.lock().finish_merge(&task, merged.into()),
            Err(error) => {
                view.state.lock().end_task(&task);
                return Err(error.into());
            }
        }
        Ok(())
    }

    fn index(&self, view: &View) -> Result<()> {
        if view.is_looked_up() {
            let states = view.state.lock().without_index();
            for states in states {
                states.make_index(view.plan.aggregation.key_count())?;
            }
        }
        Ok(())
    }

    /// Writes what a view has in memory to a run, if it is much.
    fn flush(&mut self, view: &View) -> Result<()> {
        if view.size().1 <= self.shared.options.inline_bytes / 4 {
            return Ok(());
        }
        let task = view.state.lock().flush_task()?;
        // Larger than the number of any row in an earlier run, whatever has been dropped since.
        let first_row = i64::try_from(self.next_run << ROWS_OF_RUN_BITS).unwrap_or(i64::MAX);
        match self.write_states(&view.plan.aggregation, &task.batches, first_row) {
            Ok(run) => {
                if !view.state.lock().finish_flush(&task, Arc::clone(&run)) {
                    self.shared.maintenance.retire([run]);
                }
                Ok(())
            }
            Err(error) => {
                view.state.lock().end_task(&task);
                Err(error)
            }
        }
    }

    fn write_states(
        &mut self,
        aggregation: &Aggregation,
        batches: &[States],
        first_row: i64,
    ) -> Result<Arc<Run>> {
        let states = aggregation.combine(batches)?;
        let (schema, keys) = run_schema(aggregation);
        let sorted = if aggregation.keeps_rows() {
            let numbers = Int64Array::from_iter_values(first_row..first_row + states.num_rows() as i64);
            let mut columns: Vec<ArrayRef> = states.columns().to_vec();
            columns.insert(keys - 1, Arc::new(numbers));
            let rows = RecordBatch::try_new(Arc::clone(&schema), columns)?;
            if keys == 1 { rows } else { sort_by_key(&rows, &KeyEncoder::try_new(&schema, keys)?)? }
        } else {
            sort_by_key(&states, &KeyEncoder::try_new(&schema, keys)?)?
        };
        self.write_run(aggregation, schema, keys, std::iter::once(Ok(sorted)))
    }

    fn write_run(
        &mut self,
        aggregation: &Aggregation,
        schema: SchemaRef,
        keys: usize,
        batches: impl Iterator<Item = Result<RecordBatch>>,
    ) -> Result<Arc<Run>> {
        let path = run_path(&format!("{:016}.run", self.next_run));
        self.next_run += 1;
        let layout = layout(aggregation);
        let mut writer = RunWriter::create(Arc::clone(&self.shared.disk), &path, schema, keys, &layout)?;
        for batch in batches {
            writer.append(&batch?)?;
        }
        let info = writer.finish()?;
        self.shared.run_bytes.fetch_add(info.bytes, Ordering::Relaxed);
        Ok(Arc::new(Run::open(self.shared.disk.as_ref(), &path, &layout, Arc::clone(&self.cache))?))
    }

    /// Merges the newest runs once there are several that are not much smaller than their elders.
    fn merge_runs(&mut self, view: &View) -> Result<()> {
        let runs = view.state.lock().runs().to_vec();
        let start = merge_start(&runs.iter().map(|r| r.rows()).collect::<Vec<_>>());
        if runs.len() - start < RUNS_MERGE_MIN {
            return Ok(());
        }
        let old = &runs[start..];
        let aggregation = &view.plan.aggregation;
        let (schema, keys) = run_schema(aggregation);
        let inputs = match self.first_pane(view).map(window::key_from).transpose()? {
            None => old.iter().map(Run::scan).collect(),
            Some(from) => old.iter().map(|r| r.range(Bound::Included(&from), Bound::Unbounded)).collect(),
        };
        let keeps_rows = aggregation.keeps_rows();
        let merge = Merge::try_new(Arc::clone(&schema), keys, inputs)?.map(|chunk| {
            let chunk = chunk?;
            if keeps_rows || chunk.is_unique() {
                return Ok(chunk.batch);
            }
            let group_keys = chunk.group_keys(keys)?;
            let columns = chunk.batch.columns();
            Ok(aggregation.combine_grouped(columns, &chunk.groups, chunk.group_count, &group_keys)?)
        });
        let merged = self.write_run(aggregation, schema, keys, merge)?;
        if view.state.lock().replace_runs(old, Arc::clone(&merged)) {
            self.shared.maintenance.retire(old.iter().cloned());
        } else {
            self.shared.maintenance.retire([merged]);
        }
        Ok(())
    }

    fn remove_retired(&self) {
        let gone: Vec<Arc<Run>> = {
            let mut state = self.shared.maintenance.state.lock();
            if state.checkpointing {
                return;
            }
            let named = std::mem::take(&mut state.named);
            let (stay, go) = state.retired.drain(..).partition(|r| named.iter().any(|n| Arc::ptr_eq(n, r)));
            state.retired = stay;
            state.named = named;
            go
        };
        for run in gone {
            // A reader that still has the run keeps its open file.
            match self.shared.disk.remove(run.path()) {
                Ok(()) => drop(self.shared.run_bytes.fetch_sub(run.bytes(), Ordering::Relaxed)),
                Err(error) => tracing::warn!(%error, "an old run stays behind"),
            }
        }
    }
}

/// The first of the newest runs that are each at most twice as large as all that follow it together.
fn merge_start(rows: &[u64]) -> usize {
    let mut start = rows.len();
    let mut total = 0;
    while start > 0 && (rows.len() - start < RUNS_MERGE_MIN - 1 || rows[start - 1] <= 2 * total) {
        total += rows[start - 1];
        start -= 1;
    }
    start
}
