//! The maintenance thread: merges frozen states in memory, writes large ones to runs, merges runs, removes old files.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};
use tokio::sync::oneshot;

use crate::engine::Shared;
use crate::error::{Error, Result};
use crate::run::Run;
use crate::ttl::Alive;
use crate::view::{View, ViewId};
use crate::window;

/// So many neighbouring runs of similar size are merged into one.
const RUNS_MERGE_MIN: usize = 4;
/// What is merged in memory takes at most this part of what the states may take: a merge needs its room once more.
const MERGED_PARTS_MIN: usize = 8;
/// How often the thread looks for something to do while something is written.
const PERIOD: Duration = Duration::from_millis(20);
/// The same when nothing is: what grows old by itself is left.
const REST: Duration = Duration::from_millis(500);

/// What the other threads and the maintenance thread tell each other.
#[derive(Debug)]
pub(super) struct Maintenance {
    state: Mutex<State>,
    wake: Condvar,
    flushed: Condvar,
    /// The thread rests: whoever makes work for it [stirs](Self::stir) it.
    resting: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    stop: bool,
    flush_wanted: bool,
    /// Views that are to be flushed however small they are.
    flush_views: Vec<ViewId>,
    flush_done: bool,
    /// Flushes that were done or tried.
    flushes: u64,
    /// Views whose expired groups are to go now, and where to tell how many went.
    burials: Vec<(Arc<View>, oneshot::Sender<Result<u64>>)>,
    checkpointing: bool,
    /// The runs that the last checkpoint and the commits after it name: they stay on disk.
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

    /// Returns when a flush that begins now is done, or has failed, or takes too long.
    pub(super) fn flush_and_wait(&self, views: &[ViewId], patience: Duration) {
        let mut state = self.state.lock();
        state.flush_wanted = true;
        state.flush_views.extend_from_slice(views);
        self.wake.notify_one();
        let (deadline, before) = (Instant::now() + patience, state.flushes);
        while state.flushes == before && !state.stop {
            if self.flushed.wait_until(&mut state, deadline).timed_out() {
                break;
            }
        }
    }

    /// True once after a requested flush was done.
    pub(super) fn flushed_since_request(&self) -> bool {
        std::mem::take(&mut self.state.lock().flush_done)
    }

    /// After a start: the runs that the last checkpoint names.
    pub(super) fn new(named: Vec<Arc<Run>>) -> Self {
        Self {
            state: Mutex::new(State { named, ..State::default() }),
            wake: Condvar::new(),
            flushed: Condvar::new(),
            resting: AtomicBool::new(false),
        }
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
        drop(state);
        self.stir();
    }

    /// A commit in the log names these runs too.
    pub(super) fn name(&self, runs: impl IntoIterator<Item = Arc<Run>>) {
        self.state.lock().named.extend(runs);
    }

    pub(super) fn retire(&self, runs: impl IntoIterator<Item = Arc<Run>>) {
        self.state.lock().retired.extend(runs);
        self.stir();
    }

    /// There may be something to do again. Costs next to nothing unless the thread rests.
    pub(super) fn stir(&self) {
        if self.resting.load(Ordering::SeqCst) && self.resting.swap(false, Ordering::SeqCst) {
            // The thread may be about to wait.
            let _state = self.state.lock();
            self.wake.notify_one();
        }
    }

    /// Waits for a flush or a burial that is asked for, and for the next look.
    fn wait(&self, state: &mut MutexGuard<'_, State>, is_quiet: impl Fn() -> bool) {
        if state.flush_wanted || !state.burials.is_empty() {
            return;
        }
        let rests = is_quiet() && {
            self.resting.store(true, Ordering::SeqCst);
            // Who has made work before that did not see it.
            is_quiet()
        };
        self.wake.wait_for(state, if rests { REST } else { PERIOD });
        self.resting.store(false, Ordering::SeqCst);
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
        self.flushed.notify_all();
    }
}

pub(super) struct Maintainer {
    shared: Arc<Shared>,
}

impl Maintainer {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    pub(super) fn run(&self) {
        // Of the last pass.
        let (mut worked, mut commits) = (true, 0);
        loop {
            let (flush, asked_for, burials) = {
                let mut state = self.shared.maintenance.state.lock();
                if state.stop {
                    state.burials.clear();
                    return;
                }
                let is_quiet = || !worked && self.shared.commits.load(Ordering::SeqCst) == commits;
                self.shared.maintenance.wait(&mut state, is_quiet);
                let asked_for = std::mem::take(&mut state.flush_views);
                (std::mem::take(&mut state.flush_wanted), asked_for, std::mem::take(&mut state.burials))
            };
            commits = self.shared.commits.load(Ordering::SeqCst);
            for (view, answer) in burials {
                let gone = match view.alive(self.shared.options.clock.now_us()) {
                    Some(alive) => self.bury(&view, alive),
                    None => Ok(0),
                };
                // Who asked may have gone away.
                drop(answer.send(gone));
            }
            let views: Vec<_> = self.shared.registry.read().views.values().cloned().collect();
            worked = self.tend(&views);
            if flush || self.measure(&views) > self.shared.options.memory_bytes {
                for view in &views {
                    let flushed = self.flush(view, asked_for.contains(&view.id));
                    self.log_failure(view, flushed);
                }
                self.measure(&views);
            }
            if flush {
                let mut state = self.shared.maintenance.state.lock();
                state.flush_done = true;
                state.flushes += 1;
                self.shared.maintenance.flushed.notify_all();
            }
            for view in &views {
                worked |= self.log_failure(view, self.merge_runs(view)).unwrap_or(false);
            }
            self.remove_retired();
        }
    }

    /// What is to be done for views while they are in memory; true if there may be more of it.
    fn tend(&self, views: &[Arc<View>]) -> bool {
        let mut worked = false;
        for view in views {
            self.log_failure(view, self.expire(view));
            if let Some(alive) = view.alive_if_due(self.shared.options.clock.now_us()) {
                self.log_failure(view, self.bury(view, alive));
            }
            // What was there before the first look-up has no index, and a merge takes a while.
            self.log_failure(view, self.index(view));
            worked |= self.log_failure(view, self.merge_frozen(view)).unwrap_or(false);
        }
        worked
    }

    /// Bytes of memory that the states take.
    fn measure(&self, views: &[Arc<View>]) -> usize {
        let memory = views.iter().map(|view| view.size().1).sum();
        self.shared.memory.store(memory, Ordering::Relaxed);
        memory
    }

    fn log_failure<T>(&self, view: &View, result: Result<T>) -> Option<T> {
        let log = |error: &Error| {
            tracing::warn!(view = view.id.0, %error, "maintenance of a view failed and is tried again");
        };
        result.inspect_err(log).ok()
    }

    /// Drops what a sliding window has left behind.
    fn expire(&self, view: &View) -> Result<()> {
        let Some(first) = self.first_pane(view) else { return Ok(()) };
        let gone = view.state.lock().expire(first)?;
        self.shared.maintenance.retire(gone);
        Ok(())
    }

    /// Takes away what has outlived its time, from memory and from disk, and counts it.
    fn bury(&self, view: &View, alive: Alive) -> Result<u64> {
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
            let rows = run.scan().map(|block| Ok::<_, Error>(alive.rows(&block?)?));
            let rows = rows.filter(|rows| rows.as_ref().map_or(true, |rows| rows.num_rows() > 0));
            let written = match left {
                0 => None,
                _ => Some(self.shared.runs.write_sorted(aggregation, vec![rows])?),
            };
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

    /// False: there was nothing to merge.
    fn merge_frozen(&self, view: &View) -> Result<bool> {
        let Some(task) = view.state.lock().merge_task(self.shared.options.memory_bytes / MERGED_PARTS_MIN)
        else {
            return Ok(false);
        };
        let merged = view.merge(&task.batches);
        let mut state = view.state.lock();
        match merged {
            Ok(merged) => state.finish_merge(&task, merged),
            Err(error) => {
                state.end_task(&task);
                return Err(error);
            }
        }
        Ok(true)
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

    /// Writes what a view has in memory to a run, if it is much or `always`.
    fn flush(&self, view: &View, always: bool) -> Result<()> {
        if !always && view.size().1 <= self.shared.options.inline_bytes / 4 {
            return Ok(());
        }
        let task = view.state.lock().flush_task()?;
        if task.batches.is_empty() {
            view.state.lock().end_task(&task);
            return Ok(());
        }
        match self.shared.runs.write_states(&view.plan.aggregation, &task.batches) {
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

    /// Merges the newest runs once there are several that are not much smaller than their elders; false: there are not.
    fn merge_runs(&self, view: &View) -> Result<bool> {
        let runs = view.state.lock().runs().to_vec();
        let start = merge_start(&runs.iter().map(|r| r.rows()).collect::<Vec<_>>());
        if runs.len() - start < RUNS_MERGE_MIN {
            return Ok(false);
        }
        let old = &runs[start..];
        let inputs = match self.first_pane(view).map(window::key_from).transpose()? {
            None => old.iter().map(Run::scan).collect(),
            Some(from) => old.iter().map(|r| r.range(Bound::Included(&from), Bound::Unbounded)).collect(),
        };
        let merged = self.shared.runs.write_sorted(&view.plan.aggregation, inputs)?;
        if view.state.lock().replace_runs(old, Arc::clone(&merged)) {
            self.shared.maintenance.retire(old.iter().cloned());
        } else {
            self.shared.maintenance.retire([merged]);
        }
        Ok(true)
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
            self.shared.runs.remove(&run);
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
