//! A write in progress: events folded by the writer's own thread, applied at one commit or never.
//!
//! A long COPY is a write set that readers can see while it runs: a snapshot takes the states that were published last,
//! and the commit replaces them in the same moment in which it applies them. If the COPY fails they are gone. Nothing of
//! it is in the log before its end. States that outgrow their share of the memory go to runs, which the commit names.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use arrow::array::RecordBatch;

use crate::engine::cascade::{Readers, cascade};
use crate::engine::running::{Folded, Running};
use crate::engine::thread::blocking;
use crate::engine::{Engine, Level, Part};
use crate::error::Result;
use crate::join::JoinedRows;
use crate::log::RECORD_BYTES_MAX;
use crate::stream::StreamId;
use crate::view::{Snapshot, ViewId};

/// So long at most for the sake of the order, which only values that are kept as they came depend on.
const FLUSH_PATIENCE: Duration = Duration::from_secs(10);

/// What a write set keeps in memory is one record of the log at its commit.
const BYTES_MAX: usize = RECORD_BYTES_MAX / 2;

/// What each of so many write sets may hold in memory: all of them together half of what the views may.
pub(super) fn share_bytes(memory_bytes: usize, write_sets: usize) -> usize {
    (memory_bytes / 2 / write_sets.max(1)).min(BYTES_MAX)
}

pub struct WriteSet {
    engine: Arc<Engine>,
    running: Arc<Running>,
    visible: bool,
    /// The commit is on its way and minds what readers see, and the runs.
    submitted: bool,
    rows: u64,
    met: Vec<Met>,
    outputs: Vec<StreamId>,
    /// Views that get what is written in the place of all that they have.
    emptied: Vec<ViewId>,
}

/// What several write sets hold so far, in their order: a transaction reads what it has written.
#[derive(Default)]
pub struct Written(Vec<Arc<Running>>);

impl Written {
    pub fn push(&mut self, set: &WriteSet) {
        self.0.push(Arc::clone(&set.running));
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A snapshot with it, which nobody else has.
    pub fn over(&self, snapshot: &Snapshot) -> Result<Snapshot> {
        let mut states = snapshot.views().clone();
        self.0.iter().try_for_each(|running| running.append_to(&mut states))?;
        Ok(Snapshot::new(states))
    }
}

/// What read a stream when the write first wrote to it. A view or a transform that is made or activated meanwhile gets
/// nothing of the write, or else it would get a part.
struct Met {
    stream: StreamId,
    targets: Option<Vec<ViewId>>,
    readers: Readers,
}

impl WriteSet {
    pub(super) fn new(engine: Arc<Engine>, visible: bool) -> Self {
        engine.shared.write_sets.fetch_add(1, Ordering::Relaxed);
        Self {
            engine,
            running: Arc::default(),
            visible,
            submitted: false,
            rows: 0,
            met: Vec::new(),
            outputs: Vec::new(),
            emptied: Vec::new(),
        }
    }

    /// The commit forgets what the view has before it applies what is written.
    pub fn replace(&mut self, view: ViewId) {
        self.emptied.push(view);
    }

    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// The streams that transforms have written to.
    pub fn outputs(&self) -> &[StreamId] {
        &self.outputs
    }

    /// Folds a batch of events. After an error the write set must be dropped.
    pub fn add(&mut self, stream: StreamId, targets: Option<&[ViewId]>, batch: &RecordBatch) -> Result<()> {
        self.add_joining(stream, targets, batch, &JoinedRows::default())
    }

    /// As [`WriteSet::add`], where the events join other rows than those of the views.
    pub fn add_joining(
        &mut self,
        stream: StreamId,
        targets: Option<&[ViewId]>,
        batch: &RecordBatch,
        joined: &JoinedRows,
    ) -> Result<()> {
        self.rows += batch.num_rows() as u64;
        let mut inputs = Vec::new();
        let given = stream;
        cascade(stream, targets, batch, joined, |stream, targets, batch| {
            if stream != given && !self.outputs.contains(&stream) {
                self.outputs.push(stream);
            }
            let Readers { views, transforms } = self.readers(stream, targets)?;
            for view in &views {
                for branch in view.plan.front.branches.iter().filter(|b| b.stream == stream) {
                    inputs.push((view.id, view.plan.aggregation.evaluate(&branch.run(batch, joined)?)?));
                }
                view.count_input(batch);
            }
            Ok(transforms)
        })?;
        self.running.update(&inputs, &self.engine.shared)
    }

    fn readers(&mut self, stream: StreamId, targets: Option<&[ViewId]>) -> Result<Readers> {
        let same = |met: &&Met| met.stream == stream && met.targets.as_deref() == targets;
        if let Some(met) = self.met.iter().find(same) {
            return Ok(met.readers.clone());
        }
        let readers = self.engine.shared.registry.read().targets(stream, targets);
        let views = &readers.views;
        for view in views {
            self.running.begin(view)?;
        }
        if self.visible {
            for view in views {
                let mut running = view.running.lock();
                if !running.iter().any(|r| Arc::ptr_eq(r, &self.running)) {
                    running.push(Arc::clone(&self.running));
                }
            }
        }
        let targets = targets.map(<[_]>::to_vec);
        self.met.push(Met { stream, targets, readers: readers.clone() });
        Ok(readers)
    }

    /// Takes the folds of another write set into this one; neither is visible yet.
    pub fn absorb(&mut self, mut other: WriteSet) -> Result<()> {
        self.outputs.append(&mut other.outputs);
        self.rows += other.rows;
        for folded in other.running.folded()? {
            self.running.append(folded)?;
        }
        // They are this one's now.
        other.running.take_runs();
        Ok(())
    }

    /// Bytes of memory that the folds hold.
    pub fn memory(&self) -> usize {
        self.running.memory()
    }

    /// Applies everything at one commit.
    pub async fn commit(self, level: Level) -> Result<()> {
        self.commit_with(level, || ()).await
    }

    /// Like [`WriteSet::commit`]; `submitted` is as in [`Engine::write_with`].
    pub async fn commit_with(mut self, level: Level, submitted: impl FnOnce() + Send) -> Result<()> {
        let shared = Arc::clone(&self.engine.shared);
        let mut parts: Vec<_> = self.emptied.iter().map(|view| Part::Truncate { view: *view }).collect();
        if !self.running.spilled().is_empty() {
            // What is large would be written twice, to the log and to the next run.
            self.running.spill(&shared.runs, shared.options.inline_bytes)?;
            // Runs are older than what is in memory: what was there before, and stays, goes to runs of its own first.
            let mut views = self.running.spilled();
            views.retain(|view| !self.emptied.contains(view));
            blocking(|| shared.maintenance.flush_and_wait(&views, FLUSH_PATIENCE));
        }
        for Folded { view, runs, states } in self.running.folded()? {
            // Readers see the pieces until the commit is applied.
            let states = view.merge(&states)?;
            if states.num_rows() > 0 {
                parts.push(Part::Delta { view: view.id, states });
            }
            if !runs.is_empty() {
                parts.push(Part::Runs { view: view.id, runs });
            }
        }
        let running = self.visible.then(|| Arc::clone(&self.running));
        let engine = Arc::clone(&self.engine);
        let is_submitted = &mut self.submitted;
        let submitted = || {
            *is_submitted = true;
            submitted();
        };
        engine.submit(parts, level, running, submitted).await
    }
}

impl Drop for WriteSet {
    /// Takes what readers could see away again, unless a commit does.
    fn drop(&mut self) {
        let shared = &self.engine.shared;
        shared.write_sets.fetch_sub(1, Ordering::Relaxed);
        if self.submitted {
            return;
        }
        if self.visible {
            self.running.withdraw();
        }
        shared.maintenance.retire(self.running.take_runs());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_set_is_no_larger_than_a_record() {
        assert_eq!(share_bytes(100 << 20, 0), 50 << 20);
        assert_eq!(share_bytes(100 << 20, 5), 10 << 20);
        assert_eq!(share_bytes(RECORD_BYTES_MAX * 8, 1), BYTES_MAX);
    }
}
