//! The state of a view: a log-structured tree of partial states.
//!
//! Newest first: the *active* fold, which commits merge into; *frozen* batches in memory, each with unique keys; *runs*
//! on disk, sorted by key. A reader freezes the active fold (a move) and takes references to the rest, so it never
//! stops a writer for longer than that move. A key may have a part of its state in each part of the tree; merging the
//! parts in commit order, oldest first, gives its state.

use std::sync::Arc;

use arrow::array::RecordBatch;

use crate::error::Result;
use crate::fold::{Aggregation, Fold};
use crate::run::Run;
use crate::ttl::Alive;
use crate::view::states::States;
use crate::window;

/// Neighbouring frozen batches of together at most this many rows are merged as soon as they arise; larger ones by
/// the maintenance thread.
const INLINE_MERGE_ROWS_MAX: usize = 4096;
/// Fewer batches than this are not worth the maintenance thread's while.
const MERGE_BATCHES_MIN: usize = 4;

#[derive(Debug)]
pub struct ViewState {
    aggregation: Arc<Aggregation>,
    active: Fold,
    frozen: Vec<States>,
    runs: Vec<Arc<Run>>,
    /// The first so many frozen batches are being merged or written by the maintenance thread: they stay as they are.
    pinned: usize,
    /// Grows when the state is thrown away, so that the maintenance thread knows that its result is not wanted.
    epoch: u64,
    /// Panes before this one have been dropped.
    first_pane: i64,
}

/// A state at one commit: immutable, shared with the view.
#[derive(Debug, Clone)]
pub struct Frozen {
    /// Oldest first: what is committed, then the writes that go on.
    pub layers: Vec<Layer>,
    /// Of a sliding window: the oldest pane that counts at the time of the snapshot.
    pub first_pane: Option<i64>,
    /// Of a view with a time to live: what had not expired at the time of the snapshot.
    pub alive: Option<Alive>,
}

/// Parts of a state, oldest first; the runs are older than the batches.
#[derive(Debug, Clone)]
pub struct Layer {
    pub runs: Vec<Arc<Run>>,
    pub batches: Vec<States>,
}

impl Frozen {
    pub fn rows(&self) -> usize {
        let in_runs = self.layers.iter().flat_map(|layer| &layer.runs).map(|run| run.rows() as usize);
        self.batches().iter().map(|states| states.num_rows()).sum::<usize>() + in_runs.sum::<usize>()
    }

    pub fn has_runs(&self) -> bool {
        self.layers.iter().any(|layer| !layer.runs.is_empty())
    }

    /// What is in memory, oldest first.
    pub fn batches(&self) -> Vec<States> {
        self.layers.iter().flat_map(|layer| layer.batches.iter().cloned()).collect()
    }
}

/// Frozen batches that the maintenance thread has taken out to merge or to write.
#[derive(Debug)]
pub struct Task {
    epoch: u64,
    start: usize,
    pub batches: Vec<States>,
}

impl ViewState {
    pub fn new(aggregation: Arc<Aggregation>) -> Result<Self> {
        let mut active = Fold::new(&aggregation)?;
        // A view without GROUP BY has its row from the start.
        let frozen = match &mut active {
            Fold::Global { .. } => vec![active.freeze(&aggregation)?.into()],
            _ => Vec::new(),
        };
        Ok(Self { aggregation, active, frozen, runs: Vec::new(), pinned: 0, epoch: 0, first_pane: i64::MIN })
    }

    /// Merges the delta of a commit. Keys within `delta` are unique.
    pub fn apply(&mut self, delta: &States) -> Result<()> {
        // A large delta becomes a part of its own: the lock stays short.
        if delta.num_rows() > INLINE_MERGE_ROWS_MAX {
            self.freeze_active()?;
            self.push(delta.clone())?;
            return Ok(());
        }
        self.active.merge(&self.aggregation, delta).map_err(Into::into)
    }

    fn freeze_active(&mut self) -> Result<()> {
        if !self.active.is_empty() {
            let batch = self.active.freeze(&self.aggregation)?;
            self.push(batch.into())?;
        }
        Ok(())
    }

    /// Appends a frozen batch and merges small neighbours, so that their number stays logarithmic.
    fn push(&mut self, states: States) -> Result<()> {
        self.frozen.push(states);
        while let [.., a, b] = &self.frozen[self.pinned.min(self.frozen.len())..] {
            let rows = a.num_rows() + b.num_rows();
            if rows > INLINE_MERGE_ROWS_MAX || a.num_rows() > 2 * b.num_rows() {
                break;
            }
            let merged = self.aggregation.combine(&[a.clone(), b.clone()])?;
            self.frozen.truncate(self.frozen.len() - 2);
            self.frozen.push(merged.into());
        }
        Ok(())
    }

    /// The state as of the last commit applied.
    pub fn freeze(&mut self) -> Result<Frozen> {
        let committed = self.committed()?;
        Ok(Frozen { layers: vec![committed], first_pane: None, alive: None })
    }

    /// All of it as of the last commit applied.
    pub fn committed(&mut self) -> Result<Layer> {
        self.freeze_active()?;
        Ok(Layer { runs: self.runs.clone(), batches: self.frozen.clone() })
    }

    /// What the maintenance thread should merge: the newest batches, back to the first that is much larger than all
    /// that follow it.
    pub fn merge_task(&mut self, bytes_max: usize) -> Option<Task> {
        let mut start = self.frozen.len();
        let (mut rows, mut bytes) = (0, 0);
        while start > 0 {
            let next = &self.frozen[start - 1];
            bytes += next.memory_bytes();
            let is_larger = self.frozen.len() - start >= 2 && next.num_rows() > 2 * rows;
            if is_larger || bytes > bytes_max {
                break;
            }
            rows += next.num_rows();
            start -= 1;
        }
        (self.frozen.len() - start >= MERGE_BATCHES_MIN).then(|| self.task(start))
    }

    /// Everything that is only in memory, for a run.
    pub fn flush_task(&mut self) -> Result<Task> {
        self.freeze_active()?;
        Ok(self.task(0))
    }

    fn task(&mut self, start: usize) -> Task {
        self.pinned = self.frozen.len();
        Task { epoch: self.epoch, start, batches: self.frozen[start..].to_vec() }
    }

    /// Puts the merge of a task's batches in their place.
    pub fn finish_merge(&mut self, task: &Task, merged: States) {
        if self.end_task(task) {
            self.frozen.splice(task.start..task.start + task.batches.len(), [merged]);
        }
    }

    /// Puts a run in the place of a flush task's batches. False if the state was thrown away meanwhile.
    pub fn finish_flush(&mut self, task: &Task, run: Arc<Run>) -> bool {
        let wanted = self.end_task(task);
        if wanted {
            self.frozen.drain(..task.batches.len());
            self.runs.push(run);
        }
        wanted
    }

    /// Adds the parts of another state, which are younger than what is there already.
    pub fn add(&mut self, layer: Layer) -> Result<()> {
        self.freeze_active()?;
        self.runs.extend(layer.runs);
        layer.batches.into_iter().try_for_each(|states| self.push(states))
    }

    /// Adds a run of a commit. Its states count as older than what is in memory, which the writer had flushed: what came
    /// since then was written while that write went on, and between those there is no order.
    pub fn add_run(&mut self, run: Arc<Run>) {
        self.runs.push(run);
    }

    /// Puts one run in the place of `merged`, which are neighbours.
    pub fn replace_runs(&mut self, merged: &[Arc<Run>], run: Arc<Run>) -> bool {
        let Some(start) = self.runs.iter().position(|r| merged.first().is_some_and(|m| Arc::ptr_eq(m, r)))
        else {
            return false;
        };
        self.runs.splice(start..start + merged.len(), [run]);
        true
    }

    /// Gives a task up: its batches stay where they are.
    pub fn end_task(&mut self, task: &Task) -> bool {
        let wanted = self.epoch == task.epoch;
        if wanted {
            self.pinned = 0;
        }
        wanted
    }

    /// Large parts without an index.
    pub fn without_index(&self) -> Vec<States> {
        self.frozen.iter().filter(|states| states.wants_index()).cloned().collect()
    }

    pub fn runs(&self) -> &[Arc<Run>] {
        &self.runs
    }

    /// Sets the state that a checkpoint holds.
    pub fn restore(&mut self, batches: Vec<RecordBatch>, runs: Vec<Arc<Run>>) -> Result<()> {
        self.active = Fold::new(&self.aggregation)?;
        self.frozen = batches.into_iter().map(States::from).collect();
        self.runs = runs;
        self.epoch += 1;
        self.pinned = 0;
        Ok(())
    }

    /// Drops the panes before `first` from memory, and returns the runs that hold nothing else. For the maintenance
    /// thread, while it has no task at hand.
    pub fn expire(&mut self, first: i64) -> Result<Vec<Arc<Run>>> {
        if first <= self.first_pane || self.pinned > 0 {
            return Ok(Vec::new());
        }
        self.freeze_active()?;
        let kept = self.frozen.iter().map(|batch| window::from_pane(batch, first).map(States::from));
        self.frozen = kept.collect::<Result<_, _>>()?;
        self.frozen.retain(|batch| batch.num_rows() > 0);
        let from = window::key_from(first)?;
        let is_gone = |run: &Arc<Run>| run.last_key().is_none_or(|last| last < from.as_slice());
        let (gone, kept) = self.runs.drain(..).partition(is_gone);
        self.runs = kept;
        self.first_pane = first;
        Ok(gone)
    }

    /// Drops what has expired from memory, and returns how much. For the maintenance thread, while it has no task at
    /// hand.
    pub fn bury(&mut self, alive: Alive) -> Result<usize> {
        if self.pinned > 0 {
            return Ok(0);
        }
        self.freeze_active()?;
        let mut gone = 0;
        for states in &mut self.frozen {
            let rows = alive.rows(states)?;
            if rows.num_rows() < states.num_rows() {
                gone += states.num_rows() - rows.num_rows();
                *states = rows.into();
            }
        }
        self.frozen.retain(|states| states.num_rows() > 0);
        Ok(gone)
    }

    /// Removes a run of which nothing is left.
    pub fn remove_run(&mut self, run: &Arc<Run>) -> bool {
        let before = self.runs.len();
        self.runs.retain(|r| !Arc::ptr_eq(r, run));
        self.runs.len() < before
    }

    /// Forgets everything.
    pub fn clear(&mut self) -> Result<()> {
        let epoch = self.epoch + 1;
        *self = ViewState::new(Arc::clone(&self.aggregation))?;
        self.epoch = epoch;
        Ok(())
    }

    pub fn groups(&self) -> usize {
        self.active.groups()
            + self.frozen.iter().map(|b| b.num_rows()).sum::<usize>()
            + self.runs.iter().map(|r| r.rows() as usize).sum::<usize>()
    }

    /// Bytes of memory.
    pub fn memory(&self) -> usize {
        self.active.size() + self.frozen.iter().map(States::memory_bytes).sum::<usize>()
    }
}
