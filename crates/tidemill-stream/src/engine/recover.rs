//! Start-up: the last checkpoint, then every commit after it, in order.

use std::path::Path;
use std::sync::Arc;

use crate::disk::Disk;
use crate::engine::cascade::Registry;
use crate::engine::record::{self, Reader};
use crate::engine::run_store::{self, RunStore};
use crate::engine::{Options, log_dir};
use crate::error::{Error, Result};
use crate::log::{Log, LogOptions, Lsn, Record};
use crate::run::{BlockCache, Run};
use crate::view::{View, ViewId};

/// What start-up found out that the threads go on with.
#[derive(Debug)]
pub(super) struct Recovered {
    pub runs: RunStore,
    /// The runs that the log names.
    pub named: Vec<Arc<Run>>,
}

/// States are not measured more often than after so many bytes of deltas.
const REPLAYED_MIN: usize = 4 << 20;

pub(super) fn recover(
    disk: &Arc<dyn Disk>,
    options: &Options,
    registry: &Registry,
) -> Result<(Log, Recovered)> {
    disk.create_dir(&log_dir())?;
    let runs = RunStore::open(disk, Arc::new(BlockCache::new(options.cache_bytes)))?;
    disk.sync_dir(Path::new(""))?;
    let log_options = LogOptions {
        segment_bytes: options.segment_bytes,
        reserve_bytes: options.reserve_bytes,
        ..LogOptions::default()
    };
    check_log_exists(disk.as_ref())?;
    let (mut log, replay) = Log::open(Arc::clone(disk), &log_dir(), log_options)?;
    let mut recovery = Recovery {
        registry,
        runs: &runs,
        memory_bytes: options.memory_bytes,
        replayed: 0,
        named: Vec::new(),
        written: Vec::new(),
        last: None,
    };
    let replayed = replay.into_iter().try_for_each(|record| recovery.take(&record?));
    if let Err(error) = replayed.and_then(|()| recovery.check_beginning(log.first_lsn())) {
        // The next start would take them for runs that are lost, whose numbers they may have.
        recovery.written.iter().for_each(|run| runs.remove(run));
        return Err(error);
    }
    let (named, written) = (recovery.named, recovery.written);
    // An earlier checkpoint that a crash left in the log names runs that are about to go: it goes first.
    if let Some(lsn) = recovery.last {
        log.drop_before(lsn)?;
    }
    runs.keep_only(named.iter().chain(&written))?;
    Ok((log, Recovered { runs, named }))
}

/// The first segment is durable before any run is: runs without a segment mean that the log was lost, and starting
/// without it would throw them away.
fn check_log_exists(disk: &dyn Disk) -> Result<()> {
    let has_segments = disk.list(&log_dir())?.iter().any(|name| name.ends_with(".seg"));
    if run_store::has_runs(disk)? && !has_segments {
        let message = "the segments of the directory \"log\" are missing, but there are runs of view state";
        return Err(Error::Corrupt(message.into()));
    }
    Ok(())
}

struct Recovery<'a> {
    registry: &'a Registry,
    runs: &'a RunStore,
    memory_bytes: usize,
    /// Bytes of deltas since the states were last measured.
    replayed: usize,
    /// The runs that the last checkpoint names, and the commits after it.
    named: Vec<Arc<Run>>,
    /// Runs that were written meanwhile.
    written: Vec<Arc<Run>>,
    /// The last checkpoint.
    last: Option<Lsn>,
}

impl Recovery<'_> {
    fn take(&mut self, record: &Record) -> Result<()> {
        let mut reader = Reader::new(&record.payload);
        match record.kind {
            record::COMMIT => self.commit(&mut reader),
            record::TRUNCATE => self.truncate(reader.view()?),
            record::MOVE => {
                for _ in 0..reader.u32()? {
                    self.move_state(reader.view()?, reader.view()?)?;
                }
                Ok(())
            }
            record::FULL_COMMIT => {
                for _ in 0..reader.u32()? {
                    self.truncate(reader.view()?)?;
                }
                self.commit_runs(&mut reader)?;
                self.commit(&mut reader)
            }
            record::CHECKPOINT => {
                self.last = Some(record.lsn);
                self.checkpoint(&mut reader)
            }
            kind => Err(Error::Corrupt(format!("the log has a record of the unknown kind {kind}"))),
        }
    }

    /// Segments go only when a later checkpoint is durable.
    fn check_beginning(&self, first: Lsn) -> Result<()> {
        if first <= Lsn::ZERO.next() || self.last.is_some() {
            return Ok(());
        }
        Err(Error::Corrupt(format!(
            "the records before {first} are missing in the directory \"log\", and no checkpoint follows"
        )))
    }

    /// A view that was dropped later is not there any more.
    fn truncate(&self, view: ViewId) -> Result<()> {
        match self.registry.views.get(&view) {
            Some(view) => view.state.lock().clear(),
            None => Ok(()),
        }
    }

    /// What belongs to a view that was dropped later is nobody's.
    fn move_state(&self, from: ViewId, to: ViewId) -> Result<()> {
        match (self.registry.views.get(&from), self.registry.views.get(&to)) {
            (Some(from), Some(to)) => to.take_state_of(from),
            _ => self.truncate(from),
        }
    }

    fn commit(&mut self, reader: &mut Reader<'_>) -> Result<()> {
        for _ in 0..reader.u32()? {
            let id = reader.view()?;
            let states = reader.states()?;
            if let Some(view) = self.registry.views.get(&id) {
                let states = states.decode(view.plan.aggregation.state_schema())?;
                self.replayed += states.get_array_memory_size();
                view.apply(&states.into());
            }
        }
        if self.replayed > self.memory_bytes / 4 + REPLAYED_MIN {
            self.replayed = 0;
            self.flush_if_large()?;
        }
        Ok(())
    }

    /// The log may hold more than fits into memory.
    fn flush_if_large(&mut self) -> Result<()> {
        let mut views: Vec<_> = self.registry.views.values().map(|view| (view.size().1, view)).collect();
        let mut memory: usize = views.iter().map(|(bytes, _)| bytes).sum();
        views.sort_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
        for (bytes, view) in views {
            if memory <= self.memory_bytes {
                break;
            }
            self.flush(view)?;
            memory -= bytes;
        }
        Ok(())
    }

    fn flush(&mut self, view: &View) -> Result<()> {
        let task = view.state.lock().flush_task()?;
        if task.batches.is_empty() {
            view.state.lock().end_task(&task);
            return Ok(());
        }
        let run = self.runs.write_states(&view.plan.aggregation, &task.batches)?;
        view.state.lock().finish_flush(&task, Arc::clone(&run));
        self.written.push(run);
        Ok(())
    }

    /// As the writer of the runs did, what is in memory goes to a run first: it is older.
    fn commit_runs(&mut self, reader: &mut Reader<'_>) -> Result<()> {
        for _ in 0..reader.u32()? {
            let view = self.registry.views.get(&reader.view()?);
            if let Some(view) = view {
                self.flush(view)?;
            }
            for name in reader.names()? {
                if let Some(view) = view {
                    let run = self.runs.open_run(&view.plan.aggregation, &name)?;
                    self.named.push(Arc::clone(&run));
                    view.state.lock().add_run(run);
                }
            }
        }
        Ok(())
    }

    /// A checkpoint holds everything that came before it.
    fn checkpoint(&mut self, reader: &mut Reader<'_>) -> Result<()> {
        self.named.clear();
        for _ in 0..reader.u32()? {
            let view = self.registry.views.get(&reader.view()?);
            let mut runs = Vec::new();
            for name in reader.names()? {
                if let Some(view) = view {
                    runs.push(self.runs.open_run(&view.plan.aggregation, &name)?);
                }
            }
            let mut batches = Vec::new();
            for _ in 0..reader.u32()? {
                let states = reader.states()?;
                if let Some(view) = view {
                    batches.push(states.decode(view.plan.aggregation.state_schema())?);
                }
            }
            if let Some(view) = view {
                self.named.extend_from_slice(&runs);
                view.state.lock().restore(batches, runs)?;
            }
        }
        Ok(())
    }
}
