//! What readers see of a write that goes on.
//!
//! The writer folds; from time to time it *publishes*: it moves the states that it has out of the folds, of all views at
//! once, and starts over. Readers take what was published last and never wait for a fold. Starting over is work, because
//! the pieces have to be merged, so nothing is published unless somebody looks; who looks after a long while publishes
//! himself.
//!
//! What does not fit into memory is *spilled*: written to runs, which readers see in the place of the states and which the
//! commit hands to the views.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::engine::Shared;
use crate::engine::run_store::RunStore;
use crate::engine::thread::{blocking, spawn_background};
use crate::error::Result;
use crate::fold::{Evaluated, Fold};
use crate::run::Run;
use crate::view::{Frozen, Layer, States, View, ViewId};

/// Fewer pieces are not worth the work: a look-up passes them by.
const MERGE_PIECES_MIN: usize = 4;
/// Larger pieces are merged by a thread of their own: what the writer's client sends is to be seen meanwhile.
const INLINE_MERGE_ROWS_MAX: usize = 32 << 10;

/// The folds of one write, and what was published of them. Whoever wants both locks takes `folds` first.
#[derive(Debug, Default)]
pub(crate) struct Running {
    folds: Mutex<HashMap<ViewId, (Arc<View>, Fold)>>,
    published: Mutex<Published>,
}

#[derive(Debug, Default)]
struct Published {
    at: Option<Instant>,
    /// Somebody has looked since.
    wanted: bool,
    by_view: HashMap<ViewId, Pieces>,
}

#[derive(Debug)]
struct Pieces {
    view: Arc<View>,
    /// Older than `states`.
    runs: Vec<Arc<Run>>,
    /// Oldest first.
    states: Vec<States>,
    /// A thread merges some of them.
    merging: bool,
}

/// What a write has folded for a view, oldest first.
pub(super) struct Folded {
    pub view: Arc<View>,
    pub runs: Vec<Arc<Run>>,
    pub states: Vec<States>,
}

impl Published {
    fn is_older_than(&self, delay: Duration) -> bool {
        self.at.is_none_or(|at| at.elapsed() >= delay)
    }

    fn append_to(&self, states: &mut HashMap<ViewId, Frozen>) {
        for (id, frozen) in states {
            if let Some(pieces) = self.by_view.get(id) {
                frozen.layers.push(Layer { runs: pieces.runs.clone(), batches: pieces.states.clone() });
            }
        }
    }

    fn pieces(&mut self, view: &Arc<View>) -> &mut Pieces {
        match self.by_view.entry(view.id) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(Pieces {
                view: Arc::clone(view),
                runs: Vec::new(),
                states: Vec::new(),
                merging: false,
            }),
        }
    }
}

impl Pieces {
    /// Of memory.
    fn bytes(&self) -> usize {
        self.states.iter().map(States::memory_bytes).sum()
    }
}

impl Running {
    /// Makes the fold of a view, which is empty.
    pub(super) fn begin(&self, view: &Arc<View>) -> Result<()> {
        if let Entry::Vacant(entry) = self.folds.lock().entry(view.id) {
            entry.insert((Arc::clone(view), Fold::new(&view.plan.aggregation)?));
        }
        Ok(())
    }

    /// Folds events in, for all views at once.
    pub(super) fn update(self: &Arc<Self>, inputs: &[(ViewId, Evaluated)], shared: &Shared) -> Result<()> {
        let mut folds = self.folds.lock();
        for (id, input) in inputs {
            if let Some((view, fold)) = folds.get_mut(id) {
                fold.update(&view.plan.aggregation, input)?;
            }
        }
        let published = self.published.lock();
        let due = published.wanted && published.is_older_than(shared.options.publish_delay);
        drop(published);
        if due {
            self.publish(&mut folds)?;
        }
        drop(folds);
        if self.memory() > shared.write_set_bytes() {
            return self.spill(&shared.runs, 0);
        }
        self.merge_pieces()
    }

    fn publish(&self, folds: &mut HashMap<ViewId, (Arc<View>, Fold)>) -> Result<()> {
        let mut new = Vec::with_capacity(folds.len());
        for (view, fold) in folds.values_mut().filter(|(_, fold)| !fold.is_empty()) {
            let states = view.states(fold.freeze(&view.plan.aggregation)?)?;
            new.push((Arc::clone(view), states));
        }
        let mut published = self.published.lock();
        for (view, states) in new {
            published.pieces(&view).states.push(states);
        }
        published.at = Some(Instant::now());
        published.wanted = false;
        Ok(())
    }

    /// Everything that was folded, of the views that anything was folded for.
    pub(super) fn folded(&self) -> Result<Vec<Folded>> {
        self.publish(&mut self.folds.lock())?;
        let published = self.published.lock();
        let folded =
            |p: &Pieces| Folded { view: Arc::clone(&p.view), runs: p.runs.clone(), states: p.states.clone() };
        Ok(published.by_view.values().map(folded).collect())
    }

    /// Adds everything that was folded to the states of those views that are there.
    pub(super) fn append_to(&self, states: &mut HashMap<ViewId, Frozen>) -> Result<()> {
        self.publish(&mut self.folds.lock())?;
        self.published.lock().append_to(states);
        Ok(())
    }

    /// Adds what another write has folded, behind what is there.
    pub(super) fn append(&self, folded: Folded) -> Result<()> {
        self.begin(&folded.view)?;
        self.publish(&mut self.folds.lock())?;
        let mut published = self.published.lock();
        let pieces = published.pieces(&folded.view);
        pieces.runs.extend(folded.runs);
        pieces.states.extend(folded.states);
        Ok(())
    }

    /// Writes the states of each view that take more than so many bytes to a run. For the writer's thread.
    pub(super) fn spill(&self, runs: &RunStore, above_bytes: usize) -> Result<()> {
        self.publish(&mut self.folds.lock())?;
        let views: Vec<_> = self.published.lock().by_view.keys().copied().collect();
        for id in views {
            let (view, states) = match self.published.lock().by_view.get(&id) {
                // Those that are being merged are for the next time.
                Some(pieces) if !pieces.merging && pieces.bytes() > above_bytes => {
                    (Arc::clone(&pieces.view), pieces.states.clone())
                }
                _ => continue,
            };
            let run = blocking(|| runs.write_states(&view.plan.aggregation, &states))?;
            // What readers have published meanwhile is behind.
            if let Some(pieces) = self.published.lock().by_view.get_mut(&id) {
                pieces.states.drain(..states.len());
                pieces.runs.push(run);
            }
        }
        Ok(())
    }

    /// The views of which something is in runs.
    pub(super) fn spilled(&self) -> Vec<ViewId> {
        let published = self.published.lock();
        published.by_view.iter().filter(|(_, pieces)| !pieces.runs.is_empty()).map(|(id, _)| *id).collect()
    }

    /// Takes the runs out, which nobody is to see any more.
    pub(super) fn take_runs(&self) -> Vec<Arc<Run>> {
        self.published
            .lock()
            .by_view
            .values_mut()
            .flat_map(|pieces| std::mem::take(&mut pieces.runs))
            .collect()
    }

    /// Bytes of memory.
    pub(super) fn memory(&self) -> usize {
        let folds: usize = self.folds.lock().values().map(|(_, fold)| fold.size()).sum();
        let published = self.published.lock();
        folds + published.by_view.values().map(Pieces::bytes).sum::<usize>()
    }

    /// Readers no longer see the write. The caller holds the gate if the same states are being applied.
    pub(super) fn withdraw(self: &Arc<Self>) {
        let views: Vec<_> = self.folds.lock().values().map(|(view, _)| Arc::clone(view)).collect();
        for view in views {
            view.running.lock().retain(|running| !Arc::ptr_eq(running, self));
        }
    }

    /// Merges what readers have split up, without keeping them waiting.
    fn merge_pieces(self: &Arc<Self>) -> Result<()> {
        let merges: Vec<_> = self.published.lock().by_view.values_mut().filter_map(Merge::take).collect();
        for merge in merges {
            let (running, merge) = (Arc::clone(self), Arc::new(merge));
            let theirs = Arc::clone(&merge);
            let carry_out = move || {
                // The pieces stay as they are, and the commit meets the error again.
                if let Err(error) = theirs.carry_out(&running) {
                    tracing::warn!(%error, "could not merge what readers see of a COPY");
                }
            };
            if merge.rows() <= INLINE_MERGE_ROWS_MAX || spawn_background("merge", carry_out).is_err() {
                merge.carry_out(self)?;
            }
        }
        Ok(())
    }
}

/// Adds what running writes have published to the states of views, for each write the same of all views.
pub(super) fn append_running(
    views: &[Arc<View>],
    states: &mut HashMap<ViewId, Frozen>,
    delay: Duration,
) -> Result<()> {
    let mut writes: Vec<Arc<Running>> = Vec::new();
    for view in views {
        for running in view.running.lock().iter() {
            if !writes.iter().any(|write| Arc::ptr_eq(write, running)) {
                writes.push(Arc::clone(running));
            }
        }
    }
    for write in writes {
        if write.published.lock().is_older_than(2 * delay) {
            write.publish(&mut write.folds.lock())?;
        }
        let mut published = write.published.lock();
        published.wanted = true;
        published.append_to(states);
    }
    Ok(())
}

/// Pieces that are to become one.
struct Merge {
    view: Arc<View>,
    start: usize,
    pieces: Vec<States>,
}

impl Merge {
    /// The newest pieces that are of much the same size, so that a group is merged a logarithmic number of times.
    fn take(pieces: &mut Pieces) -> Option<Merge> {
        let states = &pieces.states;
        let mut start = states.len().checked_sub(1)?;
        let mut rows = states[start].num_rows();
        while start > 0 && states[start - 1].num_rows() <= 2 * rows {
            start -= 1;
            rows += states[start].num_rows();
        }
        if pieces.merging || states.len() - start < MERGE_PIECES_MIN {
            return None;
        }
        let merge = Merge { view: Arc::clone(&pieces.view), start, pieces: states[start..].to_vec() };
        pieces.merging = true;
        Some(merge)
    }

    fn rows(&self) -> usize {
        self.pieces.iter().map(|states| states.num_rows()).sum()
    }

    /// Puts the merge of the pieces in their place. Nobody else takes pieces away.
    fn carry_out(&self, running: &Running) -> Result<()> {
        let merged = self.view.merge(&self.pieces);
        let mut published = running.published.lock();
        if let Some(pieces) = published.by_view.get_mut(&self.view.id) {
            pieces.merging = false;
            pieces.states.splice(self.start..self.start + self.pieces.len(), [merged?]);
        }
        Ok(())
    }
}
