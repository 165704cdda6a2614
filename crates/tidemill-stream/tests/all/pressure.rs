//! Writers that outrun the disk wait; nothing is dropped, and what waits is bounded.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use parking_lot::{Condvar, Mutex};
use tidemill_stream::disk::sim::SimDisk;
use tidemill_stream::disk::{self, AppendFile, Disk, ReadFile};
use tidemill_stream::engine::{Level, Options, QUEUE_BYTES_MAX};

use crate::scenario::{batch, first_count, run};
use crate::support::{Harness, Plans};

/// How long something that must happen may take.
const DEADLINE: Duration = Duration::from_secs(30);
/// More than the queue takes, together.
const WRITERS: usize = 64;
const ROWS: i64 = 100_000;

/// A disk whose syncs of log segments wait at a gate.
#[derive(Debug, Clone)]
struct GatedDisk {
    disk: SimDisk,
    gate: Arc<Gate>,
}

#[derive(Debug, Default)]
struct Gate {
    is_shut: Mutex<bool>,
    opened: Condvar,
}

impl Gate {
    fn set_shut(&self, shut: bool) {
        *self.is_shut.lock() = shut;
        self.opened.notify_all();
    }

    fn pass(&self) {
        let mut is_shut = self.is_shut.lock();
        while *is_shut {
            self.opened.wait(&mut is_shut);
        }
    }
}

#[derive(Debug)]
struct GatedFile {
    file: Box<dyn AppendFile>,
    gate: Arc<Gate>,
}

impl AppendFile for GatedFile {
    fn append(&mut self, bytes: &[u8]) -> disk::Result<()> {
        self.file.append(bytes)
    }

    fn extend(&mut self, bytes: u64) -> disk::Result<()> {
        self.file.extend(bytes)
    }

    fn rewrite(&mut self, bytes: &[u8], offset: u64) -> disk::Result<()> {
        self.file.rewrite(bytes, offset)
    }

    fn sync(&mut self) -> disk::Result<()> {
        self.gate.pass();
        self.file.sync()
    }

    fn truncate(&mut self, bytes: u64) -> disk::Result<()> {
        self.file.truncate(bytes)
    }
}

impl GatedDisk {
    fn gated(&self, file: Box<dyn AppendFile>) -> Box<dyn AppendFile> {
        Box::new(GatedFile { file, gate: Arc::clone(&self.gate) })
    }
}

impl Disk for GatedDisk {
    fn create(&self, path: &Path) -> disk::Result<Box<dyn AppendFile>> {
        Ok(self.gated(self.disk.create(path)?))
    }

    fn open_append(&self, path: &Path) -> disk::Result<Box<dyn AppendFile>> {
        Ok(self.gated(self.disk.open_append(path)?))
    }

    fn open_read(&self, path: &Path) -> disk::Result<Arc<dyn ReadFile>> {
        self.disk.open_read(path)
    }

    fn list(&self, dir: &Path) -> disk::Result<Vec<String>> {
        self.disk.list(dir)
    }

    fn rename(&self, from: &Path, to: &Path) -> disk::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> disk::Result<()> {
        self.disk.remove(path)
    }

    fn create_dir(&self, path: &Path) -> disk::Result<()> {
        self.disk.create_dir(path)
    }

    fn sync_dir(&self, dir: &Path) -> disk::Result<()> {
        self.disk.sync_dir(dir)
    }

    fn free_bytes(&self) -> disk::Result<u64> {
        self.disk.free_bytes()
    }
}

#[test]
fn writers_that_outrun_the_disk_wait() {
    run(async {
        let plans = Plans::compile(&["SELECT count(*) FROM s".to_string()]).await;
        let gate = Arc::new(Gate::default());
        let disk = GatedDisk { disk: SimDisk::new(), gate: Arc::clone(&gate) };
        let harness = Arc::new(Harness::start(Arc::new(disk), Options::default(), &plans).unwrap());
        let events: RecordBatch = batch(0, ROWS, 7);
        let bytes = events.get_array_memory_size();
        assert!(WRITERS * bytes > 3 * QUEUE_BYTES_MAX, "the writers outrun the queue");

        gate.set_shut(true);
        harness.insert(batch(0, 1, 1), Level::Async).await.unwrap();
        let syncing = Arc::clone(&harness);
        let synced = tokio::spawn(async move { syncing.insert(batch(0, 1, 1), Level::SyncCommit).await });
        let accepted = Arc::new(AtomicUsize::new(0));
        let writers: Vec<_> = (0..WRITERS)
            .map(|_| {
                let (harness, accepted, events) =
                    (Arc::clone(&harness), Arc::clone(&accepted), events.clone());
                tokio::spawn(async move {
                    harness.insert(events, Level::Async).await.unwrap();
                    accepted.fetch_add(1, Ordering::SeqCst);
                })
            })
            .collect();
        // The queue fills up to its limit, beside what folder and committer hold, and stays there.
        let full = QUEUE_BYTES_MAX / bytes;
        wait_until(|| accepted.load(Ordering::SeqCst) >= full).await;
        tokio::task::yield_now().await;
        let held = 2 * full;
        assert!(
            accepted.load(Ordering::SeqCst) <= full + held,
            "{accepted:?} writes were accepted, {full} fit"
        );
        assert!(!synced.is_finished(), "nothing is acknowledged before it is synced");
        // Readers do not wait for the disk.
        assert!(first_count(&harness.read(0).await) >= 0);

        gate.set_shut(false);
        for writer in writers {
            writer.await.unwrap();
        }
        synced.await.unwrap().unwrap();
        harness.engine.flush().await.unwrap();
        assert_eq!(first_count(&harness.read(0).await), 2 + WRITERS as i64 * ROWS, "nothing is dropped");
    });
}

#[test]
fn a_writer_that_gives_up_waiting_has_written_nothing() {
    run(async {
        let plans = Plans::compile(&["SELECT count(*) FROM s".to_string()]).await;
        let gate = Arc::new(Gate::default());
        let disk = GatedDisk { disk: SimDisk::new(), gate: Arc::clone(&gate) };
        let harness = Arc::new(Harness::start(Arc::new(disk), Options::default(), &plans).unwrap());
        gate.set_shut(true);
        let syncing = Arc::clone(&harness);
        let synced = tokio::spawn(async move { syncing.insert(batch(0, 1, 1), Level::SyncCommit).await });
        let writers: Vec<_> = (0..WRITERS)
            .map(|_| {
                let harness = Arc::clone(&harness);
                tokio::spawn(async move { harness.insert(batch(0, ROWS, 7), Level::Async).await })
            })
            .collect();
        wait_until(|| writers.iter().any(|writer| writer.is_finished())).await;
        writers.iter().for_each(|writer| writer.abort());
        let mut accepted = 0;
        for writer in writers {
            accepted += i64::from(writer.await.is_ok());
        }
        gate.set_shut(false);
        synced.await.unwrap().unwrap();
        harness.engine.flush().await.unwrap();
        let count = first_count(&harness.read(0).await) - 1;
        // One that was aborted between its acceptance and its answer has written.
        assert_eq!(count % ROWS, 0);
        assert!(count >= accepted * ROWS, "{accepted} accepted, {count} rows");
        assert!(count < WRITERS as i64 * ROWS, "some gave up");
    });
}

async fn wait_until(condition: impl Fn() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !condition() {
        assert!(Instant::now() < deadline, "it did not come about");
        tokio::task::yield_now().await;
    }
}
