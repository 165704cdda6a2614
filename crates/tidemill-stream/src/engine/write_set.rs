//! A write in progress: events folded by the writer's own thread, applied at one commit or never.
//!
//! A long COPY is a write set that readers can see while it runs: a snapshot takes the states that it has so far, and
//! the commit replaces them in the same moment in which it applies them. If the COPY fails they are gone. Nothing of it
//! is in the log before its end.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::RecordBatch;
use parking_lot::Mutex;

use crate::engine::{Engine, Level, Part};
use crate::error::Result;
use crate::fold::{Aggregation, Fold};
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

/// The folds of one write, by view.
#[derive(Debug, Default)]
pub(crate) struct Running {
    deltas: Mutex<HashMap<ViewId, (Arc<View>, Arc<Mutex<RunningDelta>>)>>,
}

#[derive(Debug)]
pub(crate) struct RunningDelta {
    fold: Fold,
    /// What readers have frozen so far, oldest first.
    pieces: Vec<RecordBatch>,
}

/// Pieces beyond this are merged into one.
const PIECES_MAX: usize = 8;

impl RunningDelta {
    fn freeze(&mut self, aggregation: &Aggregation) -> Result<&[RecordBatch]> {
        if !self.fold.is_empty() {
            self.pieces.push(self.fold.freeze(aggregation)?);
        }
        if self.pieces.len() > PIECES_MAX {
            self.pieces = vec![aggregation.combine(&self.pieces)?];
        }
        Ok(&self.pieces)
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
        for view in self.readers(stream, targets) {
            let delta = self.delta(&view)?;
            let aggregation = &view.plan.aggregation;
            for branch in view.plan.front.branches.iter().filter(|b| b.stream == stream) {
                let input = aggregation.evaluate(&branch.run(batch)?)?;
                delta.lock().fold.update(aggregation, &input)?;
            }
            view.count_input(batch);
        }
        Ok(())
    }

    fn readers(&mut self, stream: StreamId, targets: Option<&[ViewId]>) -> Vec<Arc<View>> {
        let same = |r: &&Readers| r.stream == stream && r.targets.as_deref() == targets;
        if let Some(readers) = self.readers.iter().find(same) {
            return readers.views.clone();
        }
        let views: Vec<_> = self.engine.shared.views.read().targets(stream, targets).cloned().collect();
        self.readers.push(Readers { stream, targets: targets.map(<[_]>::to_vec), views: views.clone() });
        views
    }

    fn delta(&self, view: &Arc<View>) -> Result<Arc<Mutex<RunningDelta>>> {
        let mut deltas = self.running.deltas.lock();
        if let Some((_, delta)) = deltas.get(&view.id) {
            return Ok(Arc::clone(delta));
        }
        let fold = Fold::new(&view.plan.aggregation)?;
        let delta = Arc::new(Mutex::new(RunningDelta { fold, pieces: Vec::new() }));
        deltas.insert(view.id, (Arc::clone(view), Arc::clone(&delta)));
        if self.visible {
            view.running.lock().push(Arc::clone(&delta));
        }
        Ok(delta)
    }

    /// Takes the folds of another write set into this one; neither is visible yet.
    pub fn absorb(&mut self, other: WriteSet) -> Result<()> {
        self.rows += other.rows;
        let others: Vec<_> = other.running.deltas.lock().values().cloned().collect();
        for (view, theirs) in others {
            let pieces = theirs.lock().freeze(&view.plan.aggregation)?.to_vec();
            let ours = self.delta(&view)?;
            let mut ours = ours.lock();
            ours.freeze(&view.plan.aggregation)?;
            ours.pieces.extend(pieces);
        }
        Ok(())
    }

    /// Bytes of memory that the folds hold.
    pub fn memory(&self) -> usize {
        let deltas = self.running.deltas.lock();
        deltas.values().map(|(_, d)| d.lock().fold.size()).sum()
    }

    /// Applies everything at one commit.
    pub async fn commit(self, level: Level) -> Result<()> {
        self.commit_with(level, || ()).await
    }

    /// Like [`WriteSet::commit`]; `submitted` is as in [`Engine::write_with`].
    pub async fn commit_with(self, level: Level, submitted: impl FnOnce() + Send) -> Result<()> {
        let parts = {
            let deltas = self.running.deltas.lock();
            let mut parts = Vec::with_capacity(deltas.len());
            for (id, (view, delta)) in deltas.iter() {
                let aggregation = &view.plan.aggregation;
                let mut delta = delta.lock();
                delta.freeze(aggregation)?;
                if !delta.pieces.is_empty() {
                    let states = aggregation.combine(&delta.pieces)?;
                    delta.pieces = vec![states.clone()];
                    parts.push(Part::Delta { view: *id, states });
                }
            }
            parts
        };
        let running = self.visible.then(|| Arc::clone(&self.running));
        self.engine.submit(parts, level, running, submitted).await
    }
}

impl Drop for WriteSet {
    /// Takes what readers could see away again; after a commit it is already gone.
    fn drop(&mut self) {
        if self.visible && Arc::strong_count(&self.running) == 1 {
            self.running.withdraw();
        }
    }
}

impl Running {
    /// Readers no longer see the folds. The caller holds the gate if the same states are being applied.
    pub(super) fn withdraw(&self) {
        for (view, delta) in self.deltas.lock().values() {
            view.running.lock().retain(|d| !Arc::ptr_eq(d, delta));
        }
    }
}

/// Adds what running writes have folded so far.
pub(super) fn append_running(view: &View, frozen: &mut Frozen) -> Result<()> {
    let running = view.running.lock().clone();
    for delta in running {
        let mut delta = delta.lock();
        frozen.batches.extend_from_slice(delta.freeze(&view.plan.aggregation)?);
    }
    Ok(())
}
