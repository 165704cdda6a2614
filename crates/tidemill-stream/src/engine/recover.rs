//! Start-up: the last checkpoint, then every commit after it, in order.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use crate::disk::Disk;
use crate::engine::maintain::{RUN_DIR, layout, run_number, run_path};
use crate::engine::record::{self, Reader};
use crate::engine::{Options, Views, log_dir};
use crate::error::{Error, Result};
use crate::log::{Log, LogOptions, Record};
use crate::run::{BlockCache, Run};

/// What start-up found out that the threads go on with.
#[derive(Debug)]
pub(super) struct Recovered {
    pub next_run: u64,
    pub run_bytes: u64,
    pub cache: Arc<BlockCache>,
}

pub(super) fn recover(disk: &Arc<dyn Disk>, options: &Options, views: &Views) -> Result<(Log, Recovered)> {
    disk.create_dir(&log_dir())?;
    disk.create_dir(Path::new(RUN_DIR))?;
    disk.sync_dir(Path::new(""))?;
    let cache = Arc::new(BlockCache::new(options.cache_bytes));
    let log_options = LogOptions {
        segment_bytes: options.segment_bytes,
        reserve_bytes: options.reserve_bytes,
        ..LogOptions::default()
    };
    let (log, replay) = Log::open(Arc::clone(disk), &log_dir(), log_options)?;
    let mut recovery = Recovery { disk, views, cache: &cache, runs: HashSet::new() };
    for record in replay {
        recovery.take(&record?)?;
    }
    let runs = recovery.runs;
    let (next_run, run_bytes) = remove_strays(disk.as_ref(), &runs)?;
    Ok((log, Recovered { next_run, run_bytes, cache }))
}

struct Recovery<'a> {
    disk: &'a Arc<dyn Disk>,
    views: &'a Views,
    cache: &'a Arc<BlockCache>,
    /// File names of the runs that the last checkpoint names.
    runs: HashSet<String>,
}

impl Recovery<'_> {
    fn take(&mut self, record: &Record) -> Result<()> {
        let mut reader = Reader::new(&record.payload);
        match record.kind {
            record::COMMIT => self.commit(&mut reader),
            record::TRUNCATE => {
                // A view that was dropped later is not there any more.
                match self.views.by_id.get(&reader.view()?) {
                    Some(view) => view.state.lock().clear(),
                    None => Ok(()),
                }
            }
            record::CHECKPOINT => self.checkpoint(&mut reader),
            kind => Err(Error::Corrupt(format!("the log has a record of the unknown kind {kind}"))),
        }
    }

    fn commit(&self, reader: &mut Reader<'_>) -> Result<()> {
        for _ in 0..reader.u32()? {
            let id = reader.view()?;
            let states = reader.states()?;
            if let Some(view) = self.views.by_id.get(&id) {
                let states = states.decode(view.plan.aggregation.state_schema())?;
                view.state.lock().apply(&states)?;
            }
        }
        Ok(())
    }

    /// A checkpoint holds everything that came before it.
    fn checkpoint(&mut self, reader: &mut Reader<'_>) -> Result<()> {
        self.runs.clear();
        for _ in 0..reader.u32()? {
            let view = self.views.by_id.get(&reader.view()?);
            let mut runs = Vec::new();
            for _ in 0..reader.u32()? {
                let name = reader.string()?;
                if let Some(view) = view {
                    let layout = layout(&view.plan.aggregation);
                    let run =
                        Run::open(self.disk.as_ref(), &run_path(&name), &layout, Arc::clone(self.cache))?;
                    runs.push(Arc::new(run));
                    self.runs.insert(name);
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
                view.state.lock().restore(batches, runs)?;
            }
        }
        Ok(())
    }
}

/// Removes run files that no checkpoint names; returns the first free number and the bytes of those that stay.
fn remove_strays(disk: &dyn Disk, named: &HashSet<String>) -> Result<(u64, u64)> {
    let dir = Path::new(RUN_DIR);
    let (mut next, mut bytes, mut removed) = (1, 0, false);
    for name in disk.list(dir)? {
        if let Some(number) = run_number(&name) {
            next = next.max(number + 1);
        }
        if named.contains(&name) {
            bytes += disk.open_read(&dir.join(&name))?.size_bytes()?;
        } else {
            disk.remove(&dir.join(&name))?;
            removed = true;
        }
    }
    if removed {
        disk.sync_dir(dir)?;
    }
    Ok((next, bytes))
}
