//! Trouble of the disk at every single change of it: power cut, error, no space.
//!
//! `make test` takes a sample of the changes, `make crash` all of them.

use tidemill_stream::disk::sim::{SimDisk, Trouble};
use tidemill_stream::disk::{Disk, Operation};
use tidemill_stream::engine::Level;

use crate::scenario::{Outcome, Play, Trace, batch, first_count, mask, run};
use crate::support::everything;

/// Changes of the disk that `make test` tries, spread over the scenario.
const SAMPLE: u64 = 16;

/// Numbers of the changes to try out of `changes`.
fn points(changes: u64) -> impl Iterator<Item = u64> {
    let step = if everything() { 1 } else { (changes / SAMPLE).max(1) };
    (0..changes).step_by(step as usize)
}

/// Changes of the disk of a scenario without trouble, which ends as it should.
async fn untroubled(play: &mut Play) -> u64 {
    let disk = SimDisk::new();
    let harness = play.start(&disk).unwrap();
    let trace = play.perform(&harness, &disk).await;
    assert!(!trace.0.iter().any(|o| matches!(o, Outcome::Refused | Outcome::Unknown)), "{:?}", trace.0);
    let seen = play.visible(&harness, &trace, "no trouble").await;
    assert_eq!(mask(&seen.0), mask(&trace.0));
    assert!(!disk.list(std::path::Path::new("run")).unwrap().is_empty(), "the scenario writes runs");
    drop(harness);
    disk.changes()
}

#[test]
fn a_power_cut_at_any_change_loses_nothing_acknowledged() {
    run(async {
        let mut play = Play::new().await;
        let changes = untroubled(&mut play).await;
        for change in points(changes) {
            let note = format!("power cut at change {change} of {changes}");
            let disk = SimDisk::new();
            disk.trouble_at(change, Trouble::Halt);
            let trace = match play.start(&disk) {
                Ok(harness) => play.perform(&harness, &disk).await,
                Err(_) => Trace::default(),
            };
            for seed in 0..if everything() { 4 } else { 2 } {
                play.recover(&disk, &trace, change * 100 + seed * 10, &note).await;
            }
        }
    });
}

#[test]
fn an_error_at_any_change_stops_the_engine_or_harms_nothing() {
    run(async {
        let mut play = Play::new().await;
        let changes = untroubled(&mut play).await;
        for change in points(changes) {
            let note = format!("error at change {change} of {changes}");
            let disk = SimDisk::new();
            disk.trouble_at(change, Trouble::Fail);
            let trace = match play.start(&disk) {
                Ok(harness) => {
                    let trace = play.perform(&harness, &disk).await;
                    if trace.0.contains(&Outcome::Unknown) {
                        let cause =
                            harness.fatal.cause().unwrap_or_else(|| panic!("{note}: no cause is told"));
                        assert!(cause.contains("could not") && cause.contains('"'), "{note}: {cause}");
                        harness.insert(batch(7, 1, 1), Level::SyncCommit).await.unwrap_err();
                    }
                    // Reads go on.
                    play.visible(&harness, &trace, &note).await;
                    trace
                }
                Err(error) => {
                    assert!(error.to_string().contains("could not"), "{note}: {error}");
                    Trace::default()
                }
            };
            play.recover(&disk, &trace, change * 10, &note).await;
        }
    });
}

#[test]
fn a_full_disk_refuses_writes_and_recovers() {
    run(async {
        let mut play = Play::new().await;
        let changes = untroubled(&mut play).await;
        for change in points(changes) {
            let note = format!("disk full at change {change} of {changes}");
            let disk = SimDisk::new();
            disk.trouble_at(change, Trouble::Full);
            let trace = match play.start(&disk) {
                Ok(harness) => {
                    let trace = play.perform(&harness, &disk).await;
                    let stopped = trace.0.contains(&Outcome::Unknown);
                    assert!(!stopped, "{note}: the engine stopped: {:?}", harness.fatal.cause());
                    let seen = play.visible(&harness, &trace, &note).await;
                    assert_eq!(mask(&seen.0), mask(&trace.0), "{note}: a write is missing");
                    disk.set_capacity(u64::MAX);
                    harness.engine.flush().await.unwrap_or_else(|e| panic!("{note}: room again: {e}"));
                    // What FLUSH has answered for is durable.
                    let durable = |o: &Outcome| if o.happened() { Outcome::Durable } else { *o };
                    Trace(trace.0.iter().map(durable).collect())
                }
                Err(error) => {
                    assert!(error.to_string().contains("could not"), "{note}: {error}");
                    Trace::default()
                }
            };
            play.recover(&disk, &trace, change * 10, &note).await;
        }
    });
}

#[test]
fn a_failed_fsync_of_the_log_stops_the_engine_and_acknowledges_nothing() {
    run(async {
        let play = Play::new().await;
        let disk = SimDisk::new();
        let harness = play.start(&disk).unwrap();
        harness.insert(batch(0, 1, 1), Level::SyncCommit).await.unwrap();
        disk.fail(Operation::Sync, 0);
        harness.insert(batch(1, 1, 1), Level::SyncCommit).await.unwrap_err();
        let cause = harness.fatal.cause().unwrap();
        assert!(cause.starts_with("could not sync file \"log/"), "{cause}");
        let error = harness.insert(batch(2, 1, 1), Level::SyncCommit).await.unwrap_err();
        assert!(error.to_string().contains("shutting down after an error of its disk"), "{error}");
        harness.insert(batch(3, 1, 1), Level::Async).await.unwrap_err();
        // Readers see what is durable.
        assert_eq!(first_count(&harness.read(0).await), 1);
    });
}
