//! What readers see of a write that goes on.
//!
//! The writer folds; from time to time it *publishes*: it moves the states that it has out of the folds, of all views at
//! once, and starts over. Readers take what was published last and never wait for a fold. Starting over is work, because
//! the pieces have to be merged, so nothing is published unless somebody looks; who looks after a long while publishes
//! himself.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::engine::thread::spawn_background;
use crate::error::Result;
use crate::fold::{Evaluated, Fold};
use crate::view::{Frozen, States, View, ViewId};

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
    /// Oldest first.
    states: Vec<States>,
    /// A thread merges some of them.
    merging: bool,
}

impl Published {
    fn is_older_than(&self, delay: Duration) -> bool {
        self.at.is_none_or(|at| at.elapsed() >= delay)
    }

    fn append_to(&self, states: &mut HashMap<ViewId, Frozen>) {
        for (id, frozen) in states {
            if let Some(pieces) = self.by_view.get(id) {
                frozen.batches.extend_from_slice(&pieces.states);
            }
        }
    }

    fn push(&mut self, view: &Arc<View>, states: impl IntoIterator<Item = States>) {
        let pieces = match self.by_view.entry(view.id) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                entry.insert(Pieces { view: Arc::clone(view), states: Vec::new(), merging: false })
            }
        };
        pieces.states.extend(states);
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
    pub(super) fn update(self: &Arc<Self>, inputs: &[(ViewId, Evaluated)], delay: Duration) -> Result<()> {
        let mut folds = self.folds.lock();
        for (id, input) in inputs {
            if let Some((view, fold)) = folds.get_mut(id) {
                fold.update(&view.plan.aggregation, input)?;
            }
        }
        let published = self.published.lock();
        let due = published.wanted && published.is_older_than(delay);
        drop(published);
        if due {
            self.publish(&mut folds)?;
        }
        drop(folds);
        self.merge_pieces()
    }

    fn publish(&self, folds: &mut HashMap<ViewId, (Arc<View>, Fold)>) -> Result<()> {
        let mut new = Vec::with_capacity(folds.len());
        for (view, fold) in folds.values_mut().filter(|(_, fold)| !fold.is_empty()) {
            new.push((Arc::clone(view), States::from(fold.freeze(&view.plan.aggregation)?)));
        }
        let mut published = self.published.lock();
        for (view, states) in new {
            published.push(&view, [states]);
        }
        published.at = Some(Instant::now());
        published.wanted = false;
        Ok(())
    }

    /// Everything that was folded, of the views that anything was folded for.
    pub(super) fn states(&self) -> Result<Vec<(Arc<View>, Vec<States>)>> {
        self.publish(&mut self.folds.lock())?;
        let published = self.published.lock();
        Ok(published.by_view.values().map(|p| (Arc::clone(&p.view), p.states.clone())).collect())
    }

    /// Adds everything that was folded to the states of those views that are there.
    pub(super) fn append_to(&self, states: &mut HashMap<ViewId, Frozen>) -> Result<()> {
        self.publish(&mut self.folds.lock())?;
        self.published.lock().append_to(states);
        Ok(())
    }

    /// Adds states that another write has folded, behind those that are there.
    pub(super) fn append(&self, view: &Arc<View>, states: Vec<States>) -> Result<()> {
        self.begin(view)?;
        self.publish(&mut self.folds.lock())?;
        self.published.lock().push(view, states);
        Ok(())
    }

    /// Bytes of memory.
    pub(super) fn memory(&self) -> usize {
        let folds: usize = self.folds.lock().values().map(|(_, fold)| fold.size()).sum();
        let published = self.published.lock();
        let states = published.by_view.values().flat_map(|pieces| &pieces.states);
        folds + states.map(States::memory_bytes).sum::<usize>()
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

    fn merged(&self) -> Result<States> {
        let aggregation = &self.view.plan.aggregation;
        let merged = States::from(aggregation.combine(&self.pieces)?);
        if self.view.is_looked_up() && merged.wants_index() {
            merged.make_index(aggregation.key_count())?;
        }
        Ok(merged)
    }

    /// Puts the merge of the pieces in their place. Nobody else takes pieces away.
    fn carry_out(&self, running: &Running) -> Result<()> {
        let merged = self.merged();
        let mut published = running.published.lock();
        if let Some(pieces) = published.by_view.get_mut(&self.view.id) {
            pieces.merging = false;
            pieces.states.splice(self.start..self.start + self.pieces.len(), [merged?]);
        }
        Ok(())
    }
}
