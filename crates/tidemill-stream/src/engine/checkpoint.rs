//! Checkpoints: the whole state in one record at the start of a new segment, so that the segments before it can go.
//!
//! Small states are in the record itself; large ones are written to runs by the maintenance thread beforehand, and the
//! record names the runs. The committer writes it between two groups, so it holds exactly what came before it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::engine::commit::Committer;
use crate::engine::record::{self, Persisted};
use crate::engine::run_store::run_name;
use crate::error::{Error, Result};
use crate::log::LogError;
use crate::run::Run;
use crate::view::{Layer, View, ViewId};

/// The log may grow to this many times the size of the state in memory before a checkpoint is due.
const LOG_PER_STATE: u64 = 2;
/// … but to no more than this many bytes.
const LOG_BYTES_MAX: u64 = 256 << 20;

impl Committer {
    pub(super) fn checkpoint_if_due(&mut self) {
        self.looked_at = self.since_checkpoint;
        if self.since_checkpoint < self.shared.options.checkpoint_log_bytes {
            return;
        }
        let memory = self.views().iter().map(|v| v.size().1 as u64).sum::<u64>();
        let due = (memory * LOG_PER_STATE).clamp(self.shared.options.checkpoint_log_bytes, LOG_BYTES_MAX);
        if self.since_checkpoint < due {
            return;
        }
        if memory > self.shared.options.inline_bytes as u64
            && !self.shared.maintenance.flushed_since_request()
        {
            self.shared.maintenance.request_flush();
            // A state that is too large for a record must be in runs first; the log grows until then.
            if self.since_checkpoint < LOG_BYTES_MAX * 2 {
                return;
            }
        }
        self.try_checkpoint();
    }

    /// At shutdown, so that the next start has nothing to replay.
    pub(super) fn checkpoint_at_end(&mut self) {
        if self.shared.fatal.cause().is_none() && self.since_checkpoint > 0 {
            self.try_checkpoint();
        }
    }

    pub(super) fn try_checkpoint(&mut self) {
        match self.checkpoint_with_reserve() {
            Ok(()) => {}
            Err(error @ Error::Log(LogError::DiskFull(_))) => {
                tracing::warn!(%error, "no room for a checkpoint; the log stays as it is");
            }
            Err(error @ Error::Log(LogError::TooLarge { .. })) => {
                tracing::warn!(%error, "a checkpoint waits until the states are in runs");
                self.shared.maintenance.request_flush();
            }
            Err(error) => self.give_up(&error.to_string()),
        }
    }

    /// On a full disk the reserve is what a checkpoint is written to, before anything else takes its room.
    pub(super) fn checkpoint_with_reserve(&mut self) -> Result<()> {
        match self.checkpoint() {
            Err(Error::Log(LogError::DiskFull(_))) if self.log.release_reserve()? => self.checkpoint(),
            done => done,
        }
    }

    fn checkpoint(&mut self) -> Result<()> {
        self.shared.maintenance.begin_checkpoint();
        let written = self.write_checkpoint();
        match &written {
            Ok(runs) => self.shared.maintenance.end_checkpoint(Some(runs.clone())),
            Err(Error::Log(LogError::DiskFull(_) | LogError::TooLarge { .. })) => {
                self.shared.maintenance.end_checkpoint(None);
            }
            // Nobody knows whether it is in the log: its runs must stay.
            Err(_) => {}
        }
        written.map(drop)
    }

    /// Returns the runs that it names.
    fn write_checkpoint(&mut self) -> Result<Vec<Arc<Run>>> {
        let mut views: Vec<(ViewId, Persisted, Vec<Arc<Run>>)> = Vec::new();
        for view in self.views() {
            let Layer { runs, batches } = view.state.lock().committed()?;
            let states = view.plan.aggregation.combine(&batches);
            // A sum that left its type's range can't be combined; the parts can still be kept apart.
            let batches = match states {
                Ok(states) if states.num_rows() > 0 => vec![states],
                Ok(_) => Vec::new(),
                Err(_) => batches.iter().map(|states| (**states).clone()).collect(),
            };
            let names = runs.iter().map(|r| run_name(r)).collect();
            views.push((view.id, Persisted { runs: names, batches }, runs));
        }
        let mut payload = Vec::new();
        record::encode_checkpoint(views.iter().map(|(id, persisted, _)| (*id, persisted)), &mut payload)?;
        self.log.rotate()?;
        let lsn = self.log.append(record::CHECKPOINT, &[&payload])?;
        self.sync()?;
        self.applied = lsn;
        self.log.drop_before(lsn)?;
        // A full disk is met here, and tried again at the next checkpoint.
        match self.log.restore_reserve() {
            Ok(()) | Err(LogError::DiskFull(_)) => {}
            Err(error) => return Err(error.into()),
        }
        (self.since_checkpoint, self.looked_at) = (0, 0);
        self.shared.log_bytes.store(self.log.size_bytes(), Ordering::Relaxed);
        Ok(views.into_iter().flat_map(|(_, _, runs)| runs).collect())
    }

    fn views(&self) -> Vec<Arc<View>> {
        let mut views: Vec<_> = self.shared.registry.read().views.values().cloned().collect();
        views.sort_by_key(|v| v.id);
        views
    }
}
