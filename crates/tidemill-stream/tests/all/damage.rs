//! Damaged files: a flipped bit, a cut file, a lost file. The server names the file or gives the right answer; it never
//! gives a wrong one.
//!
//! What no log can tell from a torn tail is allowed for: damage of the last group, and the end of the last segment.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use tidemill_sql::SqlState;
use tidemill_sql::planner::plan_error;
use tidemill_stream::Error;
use tidemill_stream::disk::Disk;
use tidemill_stream::disk::sim::{Random, SimDisk};
use tidemill_stream::engine::{Level, Options};

use crate::scenario::{Outcome, Play, Trace, batch, run};
use crate::support::{Harness, Plans, everything, printed};

/// Flipped bits and cuts a file that are tried, spread evenly.
fn samples() -> (usize, usize) {
    if everything() { (5000, 200) } else { (200, 10) }
}

struct Damaged {
    play: Play,
    disk: SimDisk,
    trace: Trace,
    /// Path and content of each file of the log and of the runs.
    files: Vec<(PathBuf, Vec<u8>)>,
}

impl Damaged {
    /// The scenario up to a power cut.
    async fn new() -> Damaged {
        let play = Play::new().await;
        let disk = SimDisk::new();
        let harness = play.start(&disk).unwrap();
        let mut trace = play.perform(&harness, &disk).await;
        harness.engine.flush().await.unwrap();
        let disk = disk.crash(1);
        drop(harness);
        let mut files = Vec::new();
        for dir in ["log", "run"] {
            for name in disk.list(Path::new(dir)).unwrap().iter().filter(|name| *name != "reserve") {
                let path = Path::new(dir).join(name);
                files.push((path.clone(), disk.content(&path).unwrap()));
            }
        }
        assert!(files.iter().any(|(path, _)| path.starts_with("run")), "the scenario writes runs");
        // The last group can be taken for a torn tail.
        let last = trace.0.iter_mut().rfind(|o| **o == Outcome::Durable).unwrap();
        *last = Outcome::Applied;
        Damaged { play, disk, trace, files }
    }

    fn is_last_segment(&self, path: &Path) -> bool {
        self.files.iter().rfind(|(p, _)| p.starts_with("log")).is_some_and(|(last, _)| last == path)
    }

    /// Puts `content` in the place of a file, or removes it.
    async fn check(&mut self, path: &Path, content: Option<&[u8]>, trace: &Trace, note: &str) {
        let disk = self.disk.crash(0);
        match content {
            Some(bytes) => disk.set_content(path, bytes),
            None => disk.remove(path).unwrap(),
        }
        let seen = match self.play.start(&disk) {
            Ok(harness) => self.play.try_visible(&harness, trace, note).await.map(drop),
            Err(error) => Err(error),
        };
        if let Err(error) = seen {
            tells_of(path, error, note);
        }
    }
}

/// The error names the file, and the place in it unless all of it is gone or of another version.
fn tells_of(path: &Path, error: Error, note: &str) {
    let error = error.into_sql(plan_error);
    let message = error.message.replace("run \"", "file \"");
    assert!(message.contains(&path.display().to_string()) || message.contains("log"), "{note}: {message}");
    match error.state {
        SqlState::DATA_CORRUPTED => {
            assert!(message.contains(" byte ") || message.contains("missing"), "{note}: {message}");
        }
        SqlState::FEATURE_NOT_SUPPORTED => assert!(message.contains("version"), "{note}: {message}"),
        state => panic!("{note}: {state:?} {message}"),
    }
}

#[test]
fn a_flipped_bit_is_named_or_harmless() {
    run(async {
        let mut damaged = Damaged::new().await;
        let trace = damaged.trace.clone();
        let total: usize = damaged.files.iter().map(|(_, bytes)| bytes.len()).sum();
        let step = (total / samples().0).max(1);
        let mut random = Random::new(7);
        for place in (0..total).step_by(step) {
            let (path, mut bytes, at) = at(&damaged.files, place);
            let bit = random.below(8);
            bytes[at] ^= 1 << bit;
            let note = format!("bit {bit} of byte {at} of {}", path.display());
            damaged.check(&path, Some(&bytes), &trace, &note).await;
        }
    });
}

fn at(files: &[(PathBuf, Vec<u8>)], mut place: usize) -> (PathBuf, Vec<u8>, usize) {
    for (path, bytes) in files {
        if place < bytes.len() {
            return (path.clone(), bytes.clone(), place);
        }
        place -= bytes.len();
    }
    unreachable!("the place is within the files")
}

#[test]
fn a_cut_or_lost_file_is_named() {
    run(async {
        let mut damaged = Damaged::new().await;
        for (path, bytes) in damaged.files.clone() {
            let mut trace = damaged.trace.clone();
            if damaged.is_last_segment(&path) {
                trace.0.fill(Outcome::Applied);
            }
            let step = (bytes.len() / samples().1).max(1);
            for length in (0..bytes.len()).step_by(step) {
                let note = format!("{} cut to {length} bytes", path.display());
                damaged.check(&path, Some(&bytes[..length]), &trace, &note).await;
            }
            let note = format!("{} lost", path.display());
            damaged.check(&path, None, &trace, &note).await;
        }
    });
}

/// The replay writes what is older than a run of the log to a run first. If the newest ones are lost, their numbers are free.
#[test]
fn a_start_does_not_take_its_own_run_for_one_that_is_lost() {
    run(async {
        let plans = Plans::compile(&["SELECT k, count(*) FROM s GROUP BY k".to_string()]).await;
        let options = Options { memory_bytes: 32 << 10, checkpoint_log_bytes: 1 << 30, ..Options::default() };
        let disk = SimDisk::new();
        let harness = Harness::start(Arc::new(disk.clone()), options.clone(), &plans).unwrap();
        let mut batches = vec![batch(0, 10, 10)];
        harness.insert(batches[0].clone(), Level::SyncCommit).await.unwrap();
        let mut set = harness.engine.begin(false);
        for part in 0..4 {
            batches.push(batch(part * 2000, 2000, 8000));
            set.add(harness.stream.id, None, batches.last().unwrap()).unwrap();
        }
        set.commit(Level::SyncCommit).await.unwrap();
        let killed = disk.kill();
        drop(harness);
        let whole = printed(&plans.batch_query(0, &batches, "").await);
        let dir = Path::new("run");
        let (mut lost, mut refused) = (Vec::new(), 0);
        while let Some(newest) = killed.list(dir).unwrap().pop() {
            killed.remove(&dir.join(&newest)).unwrap();
            lost.push(newest);
            let disk = Arc::new(killed.kill());
            for start in ["first", "second"] {
                let note = format!("{start} start without {lost:?}");
                match Harness::start(disk.clone(), options.clone(), &plans) {
                    Ok(harness) => assert_eq!(printed(&harness.read(0).await), whole, "{note}"),
                    Err(error) => {
                        let error = error.to_string();
                        assert!(error.contains("is missing, but the log names it"), "{note}: {error}");
                        refused += 1;
                    }
                }
            }
        }
        assert!(refused > 1, "what does not fit into memory is in runs that the log names");
    });
}
