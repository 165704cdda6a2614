//! Start-up: the last checkpoint, then every commit after it, in order.

use std::path::Path;
use std::sync::Arc;

use crate::disk::Disk;
use crate::engine::maintain::{RUN_DIR, layout, run_name, run_number, run_path};
use crate::engine::record::{self, Reader};
use crate::engine::{Options, Views, log_dir};
use crate::error::{Error, Result};
use crate::log::{Log, LogOptions, Lsn, Record};
use crate::run::{BlockCache, Run, RunError};
use crate::view::{View, ViewId};

/// What start-up found out that the threads go on with.
#[derive(Debug)]
pub(super) struct Recovered {
    pub next_run: u64,
    pub run_bytes: u64,
    /// The runs that the last checkpoint names.
    pub named: Vec<Arc<Run>>,
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
    check_log_exists(disk.as_ref())?;
    let (mut log, replay) = Log::open(Arc::clone(disk), &log_dir(), log_options)?;
    let mut recovery = Recovery { disk, views, cache: &cache, named: Vec::new(), last: None };
    for record in replay {
        recovery.take(&record?)?;
    }
    // Segments go only when a later checkpoint is durable.
    if log.first_lsn() > Lsn::ZERO.next() && recovery.last.is_none() {
        return Err(Error::Corrupt(format!(
            "the records before {} are missing in the directory \"log\", and no checkpoint follows",
            log.first_lsn()
        )));
    }
    let named = recovery.named;
    // An earlier checkpoint that a crash left in the log names runs that are about to go: it goes first.
    if let Some(lsn) = recovery.last {
        log.drop_before(lsn)?;
    }
    let (next_run, run_bytes) = remove_strays(disk.as_ref(), &named)?;
    Ok((log, Recovered { next_run, run_bytes, named, cache }))
}

/// The first segment is durable before any run is: runs without a segment mean that the log was lost, and starting
/// without it would throw them away.
fn check_log_exists(disk: &dyn Disk) -> Result<()> {
    let has = |dir: &Path, suffix| Ok::<_, Error>(disk.list(dir)?.iter().any(|name| name.ends_with(suffix)));
    if has(Path::new(RUN_DIR), ".run")? && !has(&log_dir(), ".seg")? {
        let message = "the segments of the directory \"log\" are missing, but there are runs of view state";
        return Err(Error::Corrupt(message.into()));
    }
    Ok(())
}

struct Recovery<'a> {
    disk: &'a Arc<dyn Disk>,
    views: &'a Views,
    cache: &'a Arc<BlockCache>,
    /// The runs that the last checkpoint names.
    named: Vec<Arc<Run>>,
    /// The last checkpoint.
    last: Option<Lsn>,
}

impl Recovery<'_> {
    fn take(&mut self, record: &Record) -> Result<()> {
        let mut reader = Reader::new(&record.payload);
        match record.kind {
            record::COMMIT => self.commit(&mut reader),
            record::TRUNCATE => self.truncate(reader.view()?),
            record::REPLACE => {
                for _ in 0..reader.u32()? {
                    self.truncate(reader.view()?)?;
                }
                self.commit(&mut reader)
            }
            record::CHECKPOINT => {
                self.last = Some(record.lsn);
                self.checkpoint(&mut reader)
            }
            kind => Err(Error::Corrupt(format!("the log has a record of the unknown kind {kind}"))),
        }
    }

    /// A view that was dropped later is not there any more.
    fn truncate(&self, view: ViewId) -> Result<()> {
        match self.views.by_id.get(&view) {
            Some(view) => view.state.lock().clear(),
            None => Ok(()),
        }
    }

    fn commit(&self, reader: &mut Reader<'_>) -> Result<()> {
        for _ in 0..reader.u32()? {
            let id = reader.view()?;
            let states = reader.states()?;
            if let Some(view) = self.views.by_id.get(&id) {
                let states = states.decode(view.plan.aggregation.state_schema())?;
                view.apply(&states);
            }
        }
        Ok(())
    }

    /// A checkpoint holds everything that came before it.
    fn checkpoint(&mut self, reader: &mut Reader<'_>) -> Result<()> {
        self.named.clear();
        for _ in 0..reader.u32()? {
            let view = self.views.by_id.get(&reader.view()?);
            let mut runs = Vec::new();
            for _ in 0..reader.u32()? {
                let name = reader.string()?;
                if let Some(view) = view {
                    runs.push(Arc::new(self.open_run(view, &name)?));
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

    fn open_run(&self, view: &View, name: &str) -> Result<Run> {
        let (path, layout) = (run_path(name), layout(&view.plan.aggregation));
        match Run::open(self.disk.as_ref(), &path, &layout, Arc::clone(self.cache)) {
            Err(RunError::Disk(error)) if error.is_not_found() => Err(Error::Corrupt(format!(
                "run \"{}\" is missing, but the last checkpoint names it",
                path.display()
            ))),
            outcome => Ok(outcome?),
        }
    }
}

/// Removes run files that no checkpoint names; returns the first free number and the bytes of those that stay.
fn remove_strays(disk: &dyn Disk, named: &[Arc<Run>]) -> Result<(u64, u64)> {
    let dir = Path::new(RUN_DIR);
    let (mut next, mut bytes, mut removed) = (1, 0, false);
    for name in disk.list(dir)? {
        if let Some(number) = run_number(&name) {
            next = next.max(number + 1);
        }
        if let Some(run) = named.iter().find(|run| run_name(run) == name) {
            bytes += run.bytes();
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
