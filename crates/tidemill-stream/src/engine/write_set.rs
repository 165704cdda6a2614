//! A write in progress: events folded by the writer's own thread, applied at one commit or never.
//!
//! A long COPY is a write set that readers can see while it runs: a snapshot takes the states that were published last,
//! and the commit replaces them in the same moment in which it applies them. If the COPY fails they are gone. Nothing of
//! it is in the log before its end. Readers publish, and not more often than anybody looks: a fold that starts over is
//! work for the writer, who has to merge the pieces.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use parking_lot::Mutex;

use crate::engine::{Engine, Level, Part};
use crate::error::Result;
use crate::fold::Fold;
use crate::stream::StreamId;
use crate::view::{Frozen, View, ViewId};

pub struct WriteSet {
    engine: Arc<Engine>,
    running: Arc<Running>,
    visible: bool,
    rows: u64,
    readers: Vec<Readers>,
}

/// The views that read a stream when the write first wrote to it. One that is made or activated meanwhile gets nothing
/// of the write, or else it would get a part.
struct Readers {
    stream: StreamId,
    targets: Option<Vec<ViewId>>,
    views: Vec<Arc<View>>,
}

/// The folds of one write. One lock for all views, so that readers see the same events in each of them.
#[derive(Debug, Default)]
pub(crate) struct Running {
    folds: Mutex<Folds>,
}

#[derive(Debug, Default)]
struct Folds {
    by_view: HashMap<ViewId, RunningFold>,
    published_at: Option<Instant>,
}

#[derive(Debug)]
struct RunningFold {
    view: Arc<View>,
    fold: Fold,
    /// What has been published so far, oldest first.
    pieces: Vec<RecordBatch>,
    /// A thread merges some of them.
    merging: bool,
}

/// Fewer pieces are not worth the work: a look-up passes them by.
const MERGE_PIECES_MIN: usize = 4;
/// Larger pieces are merged by a thread of their own: what the writer's client sends is to be seen meanwhile.
const INLINE_MERGE_ROWS_MAX: usize = 32 << 10;

impl RunningFold {
    fn freeze(&mut self) -> Result<()> {
        if !self.fold.is_empty() {
            self.pieces.push(self.fold.freeze(&self.view.plan.aggregation)?);
        }
        Ok(())
    }

    /// Where the newest pieces begin that are to be merged: neighbours of much the same size are, so that a group is
    /// merged a logarithmic number of times.
    fn merge_from(&self) -> Option<usize> {
        if self.merging {
            return None;
        }
        let mut start = self.pieces.len().checked_sub(1)?;
        let mut rows = self.pieces[start].num_rows();
        while start > 0 && self.pieces[start - 1].num_rows() <= 2 * rows {
            start -= 1;
            rows += self.pieces[start].num_rows();
        }
        (self.pieces.len() - start >= MERGE_PIECES_MIN).then_some(start)
    }
}

impl Folds {
    fn fold(&mut self, view: &Arc<View>) -> Result<&mut RunningFold> {
        Ok(match self.by_view.entry(view.id) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                let fold = Fold::new(&view.plan.aggregation)?;
                entry.insert(RunningFold { view: Arc::clone(view), fold, pieces: Vec::new(), merging: false })
            }
        })
    }

    fn publish(&mut self, now: Instant, delay: Duration) -> Result<()> {
        if self.published_at.is_none_or(|at| now.saturating_duration_since(at) >= delay) {
            self.by_view.values_mut().try_for_each(RunningFold::freeze)?;
            self.published_at = Some(now);
        }
        Ok(())
    }
}

/// Pieces of a fold that are to become one.
struct Merge {
    view: Arc<View>,
    start: usize,
    pieces: Vec<RecordBatch>,
}

impl Merge {
    fn take(fold: &mut RunningFold) -> Option<Merge> {
        let start = fold.merge_from()?;
        fold.merging = true;
        Some(Merge { view: Arc::clone(&fold.view), start, pieces: fold.pieces[start..].to_vec() })
    }

    fn carry_out(&self, running: &Running) -> Result<()> {
        let merged = self.view.plan.aggregation.combine(&self.pieces);
        let mut folds = running.folds.lock();
        let Some(fold) = folds.by_view.get_mut(&self.view.id) else { return Ok(()) };
        fold.merging = false;
        let end = self.start + self.pieces.len();
        // A commit may have merged everything meanwhile.
        let same = |a: &RecordBatch, b: &RecordBatch| {
            a.columns().iter().zip(b.columns()).all(|(a, b)| Arc::ptr_eq(a, b))
        };
        let now = fold.pieces.get(self.start..end).unwrap_or_default();
        if now.len() == self.pieces.len() && now.iter().zip(&self.pieces).all(|(a, b)| same(a, b)) {
            fold.pieces.splice(self.start..end, [merged?]);
        }
        Ok(())
    }
}

impl WriteSet {
    pub(super) fn new(engine: Arc<Engine>, visible: bool) -> Self {
        Self { engine, running: Arc::default(), visible, rows: 0, readers: Vec::new() }
    }

    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Folds a batch of events. After an error the write set must be dropped.
    pub fn add(&mut self, stream: StreamId, targets: Option<&[ViewId]>, batch: &RecordBatch) -> Result<()> {
        self.rows += batch.num_rows() as u64;
        let views = self.readers(stream, targets)?;
        let mut inputs = Vec::with_capacity(views.len());
        for view in &views {
            for branch in view.plan.front.branches.iter().filter(|b| b.stream == stream) {
                inputs.push((view, view.plan.aggregation.evaluate(&branch.run(batch)?)?));
            }
            view.count_input(batch);
        }
        let mut folds = self.running.folds.lock();
        for (view, input) in inputs {
            folds.fold(view)?.fold.update(&view.plan.aggregation, &input)?;
        }
        drop(folds);
        self.merge_pieces()
    }

    /// Merges what readers have split up, without keeping them waiting.
    fn merge_pieces(&self) -> Result<()> {
        let merges: Vec<_> = self.running.folds.lock().by_view.values_mut().filter_map(Merge::take).collect();
        for merge in merges {
            let rows: usize = merge.pieces.iter().map(RecordBatch::num_rows).sum();
            let (running, merge) = (Arc::clone(&self.running), Arc::new(merge));
            let theirs = Arc::clone(&merge);
            let carry_out = move || {
                // The pieces stay as they are, and the commit meets the error again.
                if let Err(error) = theirs.carry_out(&running) {
                    tracing::warn!(%error, "could not merge what readers see of a COPY");
                }
            };
            let thread = std::thread::Builder::new().name("merge".into());
            if rows <= INLINE_MERGE_ROWS_MAX || thread.spawn(carry_out).is_err() {
                merge.carry_out(&self.running)?;
            }
        }
        Ok(())
    }

    fn readers(&mut self, stream: StreamId, targets: Option<&[ViewId]>) -> Result<Vec<Arc<View>>> {
        let same = |r: &&Readers| r.stream == stream && r.targets.as_deref() == targets;
        if let Some(readers) = self.readers.iter().find(same) {
            return Ok(readers.views.clone());
        }
        let views: Vec<_> = self.engine.shared.views.read().targets(stream, targets).cloned().collect();
        for view in &views {
            self.running.folds.lock().fold(view)?;
        }
        if self.visible {
            for view in &views {
                let mut running = view.running.lock();
                if !running.iter().any(|r| Arc::ptr_eq(r, &self.running)) {
                    running.push(Arc::clone(&self.running));
                }
            }
        }
        self.readers.push(Readers { stream, targets: targets.map(<[_]>::to_vec), views: views.clone() });
        Ok(views)
    }

    /// Takes the folds of another write set into this one; neither is visible yet.
    pub fn absorb(&mut self, other: WriteSet) -> Result<()> {
        self.rows += other.rows;
        let others = std::mem::take(&mut *other.running.folds.lock());
        let mut folds = self.running.folds.lock();
        for mut theirs in others.by_view.into_values() {
            theirs.freeze()?;
            let ours = folds.fold(&theirs.view)?;
            ours.freeze()?;
            ours.pieces.extend(theirs.pieces);
        }
        Ok(())
    }

    /// Bytes of memory that the folds hold.
    pub fn memory(&self) -> usize {
        let folds = self.running.folds.lock();
        let pieces =
            |fold: &RunningFold| fold.pieces.iter().map(RecordBatch::get_array_memory_size).sum::<usize>();
        folds.by_view.values().map(|fold| fold.fold.size() + pieces(fold)).sum()
    }

    /// Applies everything at one commit.
    pub async fn commit(self, level: Level) -> Result<()> {
        self.commit_with(level, || ()).await
    }

    /// Like [`WriteSet::commit`]; `submitted` is as in [`Engine::write_with`].
    pub async fn commit_with(mut self, level: Level, submitted: impl FnOnce() + Send) -> Result<()> {
        let mut parts = Vec::new();
        for (view, pieces) in self.frozen()? {
            // Readers see the pieces until the commit is applied.
            let states = view.plan.aggregation.combine(&pieces)?;
            parts.push(Part::Delta { view: view.id, states });
        }
        let running = self.visible.then(|| Arc::clone(&self.running));
        let visible = &mut self.visible;
        let submitted = || {
            // From here on the commit takes away what readers see.
            *visible = false;
            submitted();
        };
        self.engine.submit(parts, level, running, submitted).await
    }

    /// Everything that was folded, of the views that anything was folded for.
    fn frozen(&self) -> Result<Vec<(Arc<View>, Vec<RecordBatch>)>> {
        let mut folds = self.running.folds.lock();
        folds.by_view.values_mut().try_for_each(RunningFold::freeze)?;
        let filled = folds.by_view.values().filter(|fold| !fold.pieces.is_empty());
        Ok(filled.map(|fold| (Arc::clone(&fold.view), fold.pieces.clone())).collect())
    }
}

impl Drop for WriteSet {
    /// Takes what readers could see away again, unless a commit does.
    fn drop(&mut self) {
        if self.visible {
            self.running.withdraw();
        }
    }
}

impl Running {
    /// Readers no longer see the folds. The caller holds the gate if the same states are being applied.
    pub(super) fn withdraw(self: &Arc<Self>) {
        let views: Vec<_> = self.folds.lock().by_view.values().map(|fold| Arc::clone(&fold.view)).collect();
        for view in views {
            view.running.lock().retain(|running| !Arc::ptr_eq(running, self));
        }
    }
}

/// Adds what running writes have published to the states of views, for each write the same of all views.
pub(super) fn append_running(
    views: &[Arc<View>],
    states: &mut HashMap<ViewId, Frozen>,
    delay: Duration,
) -> Result<()> {
    let now = Instant::now();
    let mut writes: Vec<Arc<Running>> = Vec::new();
    for view in views {
        for running in view.running.lock().iter() {
            if !writes.iter().any(|write| Arc::ptr_eq(write, running)) {
                writes.push(Arc::clone(running));
            }
        }
    }
    for write in writes {
        let mut folds = write.folds.lock();
        folds.publish(now, delay)?;
        for (id, frozen) in states.iter_mut() {
            if let Some(fold) = folds.by_view.get(id) {
                frozen.batches.extend_from_slice(&fold.pieces);
            }
        }
    }
    Ok(())
}
