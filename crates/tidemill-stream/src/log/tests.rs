//! The log against crashes at every sync point, flipped bytes, cut files, failing and full disks.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::record::HEADER_BYTES;
use super::*;
use crate::disk::sim::{Random, SimDisk};
use crate::disk::{Operation, RealDisk};

const DIR: &str = "log";

fn options() -> LogOptions {
    LogOptions { segment_bytes: 600, reserve_bytes: 0, ahead_bytes: 1500, seed: 1 }
}

fn open(disk: &SimDisk) -> Result<(Log, Replay), LogError> {
    Log::open(Arc::new(disk.clone()), Path::new(DIR), options())
}

/// Opens and replays as a server does: any error is final.
fn recover(disk: &SimDisk) -> Result<(Log, Vec<Record>), LogError> {
    let (log, replay) = open(disk)?;
    let records = replay.collect::<Result<Vec<_>, _>>()?;
    Ok((log, records))
}

fn record(lsn: u64, size: usize) -> Record {
    let mut random = Random::new(lsn);
    Record { lsn: Lsn(lsn), kind: lsn as u8, payload: (0..size).map(|_| random.number() as u8).collect() }
}

fn append(log: &mut Log, size: usize) -> Result<Record, LogError> {
    let expected = record(log.last_lsn().0 + 1, size);
    let (front, back) = expected.payload.split_at(size / 3);
    let lsn = log.append(expected.kind, &[front, back])?;
    assert_eq!(lsn, expected.lsn);
    Ok(expected)
}

/// Groups of so many records of 40 bytes each, all synced.
fn written(groups: &[usize]) -> (SimDisk, Vec<Record>) {
    let disk = SimDisk::new();
    let (mut log, _) = open(&disk).unwrap();
    let mut all = Vec::new();
    for size in groups {
        for _ in 0..*size {
            all.push(append(&mut log, 40).unwrap());
        }
        assert_eq!(log.sync().unwrap(), log.last_lsn());
    }
    (disk, all)
}

fn segments(disk: &SimDisk) -> Vec<PathBuf> {
    disk.list(Path::new(DIR)).unwrap().iter().map(|name| Path::new(DIR).join(name)).collect()
}

fn with_content(disk: &SimDisk, path: &Path, bytes: &[u8]) -> SimDisk {
    let changed = disk.kill();
    changed.set_content(path, bytes);
    changed
}

#[test]
fn round_trip_over_segments() {
    let (disk, all) = written(&[3; 30]);
    assert!(segments(&disk).len() > 5);
    let (mut log, records) = recover(&disk).unwrap();
    assert_eq!(records, all);
    assert_eq!((log.first_lsn(), log.synced_lsn(), log.last_lsn()), (Lsn(1), Lsn(90), Lsn(90)));
    assert_eq!(log.size_bytes(), disk.used_bytes());
    assert_eq!(log.append(7, &[]).unwrap(), Lsn(91));
    assert_eq!(log.sync().unwrap(), Lsn(91));
    let (_, replay) = open(&disk).unwrap();
    let tail: Vec<_> = replay.after(Lsn(50)).unwrap().collect::<Result<_, _>>().unwrap();
    assert_eq!(tail.first().unwrap().lsn, Lsn(51));
    assert_eq!(tail.last().unwrap(), &Record { lsn: Lsn(91), kind: 7, payload: Vec::new() });
}

#[test]
fn round_trip_on_a_real_disk() {
    let directory = tempfile::tempdir().unwrap();
    let open = || {
        let disk = Arc::new(RealDisk::open(directory.path()).unwrap());
        Log::open(disk, Path::new(DIR), LogOptions { segment_bytes: 1 << 20, ..LogOptions::default() })
            .unwrap()
    };
    let mut all = Vec::new();
    for _ in 0..3 {
        let (mut log, replay) = open();
        assert_eq!(replay.collect::<Result<Vec<_>, _>>().unwrap(), all);
        assert!(log.has_reserve());
        for _ in 0..3 {
            // Larger than what is read at once, and than a segment.
            all.extend([10, 0, 3 << 20].map(|size| append(&mut log, size).unwrap()));
            log.sync().unwrap();
        }
        let gigabyte_and_more = [&[0; RECORD_BYTES_MAX / 512][..]; 513];
        assert!(matches!(log.append(0, &gigabyte_and_more), Err(LogError::TooLarge { .. })));
    }
    let (mut log, _) = open();
    log.rotate().unwrap();
    assert!(log.drop_before(Lsn(28)).unwrap() > 27 << 20);
    assert_eq!((log.first_lsn(), log.size_bytes()), (Lsn(28), 32));
    let names = std::fs::read_dir(directory.path().join(DIR)).unwrap().count();
    assert_eq!(names, 2, "one segment and the reserve");
}

#[test]
fn every_prefix_of_the_last_segment_replays_to_a_prefix() {
    let (disk, all) = written(&[2, 1, 3]);
    let path = &segments(&disk)[0];
    let content = disk.content(path).unwrap();
    let mut seen = 0;
    for length in 0..=content.len() {
        let disk = with_content(&disk, path, &content[..length]);
        let (mut log, records) = recover(&disk).unwrap();
        assert!(all.starts_with(&records), "length {length}");
        assert!(records.len() >= seen, "length {length}");
        seen = records.len();
        // What was cut stays cut, and its numbers are given again.
        let next = append(&mut log, 5).unwrap();
        log.sync().unwrap();
        let (_, again) = recover(&disk).unwrap();
        assert_eq!(again, [records, vec![next]].concat());
    }
    assert_eq!(seen, 6);
}

#[test]
fn every_flipped_byte_is_detected_or_in_the_tail() {
    let groups = [1, 3, 2, 4, 1, 5, 2, 3];
    let (disk, all) = written(&groups);
    let paths = segments(&disk);
    assert!(paths.len() >= 2);
    let certain = all.len() - groups[groups.len() - 1];
    let (mut detected, mut cut) = (0, 0);
    for path in &paths {
        let content = disk.content(path).unwrap();
        // A flip in the zeros ahead of the records takes none of them away.
        let zeros = content.iter().rev().take_while(|byte| **byte == 0).count();
        for at in 0..content.len() - zeros {
            for mask in [1, 0x80, 0xff] {
                let mut content = content.clone();
                content[at] ^= mask;
                match recover(&with_content(&disk, path, &content)) {
                    Err(LogError::Corrupt { segment, .. }) if segment == *path => detected += 1,
                    Err(error) => panic!("byte {at} of {}: {error}", path.display()),
                    Ok((_, records)) => {
                        assert!(all.starts_with(&records) && records.len() < all.len());
                        assert!(
                            records.len() >= certain,
                            "byte {at} of {} lost synced records",
                            path.display()
                        );
                        cut += 1;
                    }
                }
            }
        }
    }
    let last_group_bytes = groups[groups.len() - 1] * (HEADER_BYTES + 40);
    assert_eq!(cut, 3 * last_group_bytes);
    assert!(detected > cut);
    let mut content = disk.content(&paths[paths.len() - 1]).unwrap();
    *content.last_mut().unwrap() ^= 1;
    assert_eq!(recover(&with_content(&disk, &paths[paths.len() - 1], &content)).unwrap().1, all);
}

/// A random life of a log, remembering what a crash may and may not take.
struct Life {
    random: Random,
    synced: Vec<Record>,
    unsynced: Vec<Record>,
    dropped_before: Lsn,
}

impl Life {
    fn new(seed: u64) -> Self {
        Life { random: Random::new(seed), synced: Vec::new(), unsynced: Vec::new(), dropped_before: Lsn(1) }
    }

    /// Goes on over full disks, to which a little room is added each time; any other error ends it.
    fn live(&mut self, disk: &SimDisk, log: &mut Log, steps: usize) -> Result<(), LogError> {
        for _ in 0..steps {
            match self.step(log) {
                Err(LogError::DiskFull(_)) => {
                    self.note_synced(log);
                    self.unsynced.clear();
                    assert_eq!(log.last_lsn(), log.synced_lsn());
                    disk.set_capacity(disk.used_bytes() + 1 + self.random.below(2000) as u64);
                }
                outcome => outcome?,
            }
        }
        Ok(())
    }

    fn step(&mut self, log: &mut Log) -> Result<(), LogError> {
        match self.random.below(10) {
            0..=4 => {
                let size = [0, 20, 150, 900][self.random.below(4)];
                self.unsynced.push(append(log, size)?);
            }
            // A group that is written in several parts before its sync.
            5 => log.write_buffer()?,
            6..=7 => {
                assert_eq!(log.sync()?, log.last_lsn());
                self.note_synced(log);
                assert!(self.unsynced.is_empty());
            }
            8 => {
                log.rotate()?;
                self.note_synced(log);
            }
            _ => {
                let lsn = Lsn(1 + self.random.below(self.synced.len() + 1) as u64);
                self.dropped_before = self.dropped_before.max(lsn);
                log.drop_before(lsn)?;
            }
        }
        Ok(())
    }

    fn note_synced(&mut self, log: &Log) {
        let count = log.synced_lsn().0 as usize - self.synced.len();
        self.synced.extend(self.unsynced.drain(..count));
    }

    /// Checks what came back, and goes on from there.
    fn check(&mut self, records: &[Record], context: &str) {
        let first = records.first().map_or(self.synced.len() as u64 + 1, |record| record.lsn.0);
        assert!(
            first <= self.dropped_before.0,
            "{context}: starts at {first}, not at {}",
            self.dropped_before
        );
        let before = first as usize - 1;
        let written = [&self.synced[..], &self.unsynced[..]].concat();
        assert!(written[before..].starts_with(records), "{context}: other records than were written");
        assert!(before + records.len() >= self.synced.len(), "{context}: synced records are missing");
        self.synced = written[..before + records.len()].to_vec();
        self.unsynced.clear();
    }
}

#[test]
fn crash_at_every_sync_point() {
    let start = |seed: u64| {
        let disk = SimDisk::new();
        disk.set_capacity(if seed.is_multiple_of(2) { u64::MAX } else { 1000 });
        disk
    };
    let mut crashes = 0;
    for seed in 0..12 {
        let disk = start(seed);
        Life::new(seed).live(&disk, &mut open(&disk).unwrap().0, 60).unwrap();
        for point in 0..disk.sync_points() {
            let mut disk = start(seed);
            disk.halt_at_sync(point);
            let mut life = Life::new(seed);
            let halted = open(&disk).and_then(|(mut log, _)| life.live(&disk, &mut log, 60));
            assert!(halted.is_err() && disk.is_halted());
            // Crash again and again, also while recovering.
            for round in 0..4 {
                let context = format!("seed {seed}, sync point {point}, round {round}");
                disk = disk.crash(seed * 1_000_003 + point * 17 + round);
                crashes += 1;
                // A recovery may need room for a header.
                disk.set_capacity(disk.used_bytes() + 2000);
                disk.halt_at_sync(point % 5);
                let interrupted = recover(&disk);
                assert_eq!(interrupted.is_err(), disk.is_halted(), "{context}");
                disk = disk.crash(point + round);
                let (mut log, records) = recover(&disk).unwrap_or_else(|error| panic!("{context}: {error}"));
                life.check(&records, &context);
                disk.halt_at_sync(disk.sync_points() + 1 + point % 7);
                let lived = life.live(&disk, &mut log, 20);
                assert_eq!(lived.is_err(), disk.is_halted(), "{context}");
            }
        }
    }
    assert!(crashes > 1000, "{crashes}");
}

/// The process dies, the machine goes on, and the power fails later: what the first start showed must stay.
#[test]
fn what_a_replay_has_shown_is_durable() {
    for seed in 0..50 {
        let disk = SimDisk::new();
        let (mut log, _) = open(&disk).unwrap();
        append(&mut log, 100).unwrap();
        append(&mut log, 700).unwrap();
        log.write_buffer().unwrap();
        let killed = disk.kill();
        let (_, shown) = recover(&killed).unwrap();
        assert_eq!(shown.len(), 2);
        assert_eq!(recover(&killed.crash(seed)).unwrap().1, shown, "seed {seed}");
    }
}

/// The same after a failed sync, when the kernel shows what it will never write, and for the name of a new
/// segment.
#[test]
fn a_restart_does_not_trust_what_it_reads() {
    for (operation, rotate) in [(Operation::Sync, false), (Operation::Sync, true), (Operation::SyncDir, true)]
    {
        for seed in 0..30 {
            let context = format!("{operation:?}, rotate {rotate}, seed {seed}");
            let (disk, all) = written(&[2]);
            let (mut log, _) = recover(&disk).unwrap();
            if !rotate {
                append(&mut log, 700).unwrap();
                append(&mut log, 10).unwrap();
            }
            disk.fail(operation, 0);
            if rotate { log.rotate() } else { log.sync().map(drop) }.unwrap_err();
            let killed = disk.kill();
            let (mut log, mut shown) = recover(&killed).unwrap();
            assert_eq!(shown.len(), if rotate { all.len() } else { all.len() + 2 });
            shown.push(append(&mut log, 20).unwrap());
            log.sync().unwrap();
            let recovered = recover(&killed.crash(seed)).unwrap_or_else(|error| panic!("{context}: {error}"));
            assert_eq!(recovered.1, shown, "{context}");
        }
    }
}

/// Why a valid record behind a bad one is not enough: the second half of an unsynced group can be there
/// alone.
#[test]
fn half_an_unsynced_group_is_a_torn_tail() {
    let (disk, mut all) = written(&[1]);
    let (mut log, _) = recover(&disk).unwrap();
    append(&mut log, 100).unwrap();
    append(&mut log, 100).unwrap();
    log.write_buffer().unwrap();
    let path = &segments(&disk)[0];
    let mut content = disk.content(path).unwrap();
    let second = content.len() - 125;
    content[second - 60] ^= 1;
    assert_eq!(recover(&with_content(&disk, path, &content)).unwrap().1, all);
    // The same bytes are damage as soon as a later group proves that they had been synced.
    all.truncate(0);
    log.sync().unwrap();
    append(&mut log, 10).unwrap();
    log.sync().unwrap();
    let mut content = disk.content(path).unwrap();
    content[second - 60] ^= 1;
    let error = recover(&with_content(&disk, path, &content)).unwrap_err();
    assert!(matches!(error, LogError::Corrupt { offset, .. } if offset == second as u64 - 125), "{error}");
}

/// A client that stores bytes of a segment must not be able to make a torn tail look like damage.
#[test]
fn records_inside_a_payload_are_no_witness() {
    let (other, _) = written(&[1, 1, 1, 1, 1, 1, 1]);
    let stored = other.content(&segments(&other)[0]).unwrap();
    let disk = SimDisk::new();
    let new = LogOptions { seed: 2, ..options() };
    let (mut log, _) = Log::open(Arc::new(disk.clone()), Path::new(DIR), new).unwrap();
    append(&mut log, 10).unwrap();
    log.sync().unwrap();
    log.append(0, &[&stored]).unwrap();
    log.sync().unwrap();
    let path = &segments(&disk)[0];
    let mut content = disk.content(path).unwrap();
    let last = content.len() - 1;
    content[last] ^= 1;
    assert_eq!(recover(&with_content(&disk, path, &content)).unwrap().1.len(), 1);
}

#[test]
fn a_failed_sync_poisons_for_good() {
    for operation in [Operation::Sync, Operation::Append] {
        let (disk, all) = written(&[2]);
        let (mut log, _) = recover(&disk).unwrap();
        append(&mut log, 10).unwrap();
        disk.fail(operation, 0);
        assert!(matches!(log.sync(), Err(LogError::Disk(_))));
        for error in [
            log.sync().unwrap_err(),
            log.append(0, &[]).unwrap_err(),
            log.rotate().unwrap_err(),
            log.drop_before(Lsn(1)).unwrap_err(),
            log.release_reserve().unwrap_err(),
        ] {
            assert!(matches!(&error, LogError::Poisoned { cause } if cause.contains("error")), "{error}");
        }
        assert_eq!(log.synced_lsn(), Lsn(2));
        assert_eq!(recover(&disk.crash(1)).unwrap().1, all);
    }
}

/// Any single failure anywhere: an error now, and all that was synced after the restart.
#[test]
fn every_single_fault_is_reported_and_survived() {
    let kinds = [
        Operation::Create,
        Operation::Append,
        Operation::Sync,
        Operation::SyncDir,
        Operation::Remove,
        Operation::Truncate,
    ];
    for kind in kinds {
        for nth in 0..12 {
            for torn in [false, true] {
                let context = format!("{kind:?} {nth} torn {torn}");
                let disk = SimDisk::new();
                match torn && kind == Operation::Append {
                    true => disk.tear_append(nth),
                    false => disk.fail(kind, nth),
                }
                let mut life = Life::new(nth);
                if let Ok((mut log, _)) = open(&disk) {
                    let lived = life.live(&disk, &mut log, 60);
                    assert!(
                        lived.is_ok() || matches!(log.sync(), Err(LogError::Poisoned { .. })),
                        "{context}"
                    );
                }
                let (_, records) =
                    recover(&disk.crash(nth)).unwrap_or_else(|error| panic!("{context}: {error}"));
                life.check(&records, &context);
            }
        }
    }
}

#[test]
fn a_full_disk_costs_one_group_and_no_more() {
    // From the smallest disk on which the log can be made, byte by byte.
    for capacity in 32..1500 {
        let disk = SimDisk::new();
        disk.set_capacity(capacity);
        let (mut log, _) = open(&disk).unwrap();
        let mut kept = Vec::new();
        let full = loop {
            let group = append(&mut log, 30).and_then(|one| Ok([one, append(&mut log, 50)?]));
            match group.and_then(|group| log.sync().map(|_| group)) {
                Ok(group) => kept.extend(group),
                Err(error) => break error,
            }
        };
        assert!(matches!(full, LogError::DiskFull(_)), "{full}");
        assert_eq!(log.last_lsn(), log.synced_lsn());
        assert_eq!(disk.used_bytes(), log.size_bytes(), "the partial write is cut off");
        assert_eq!(recover(&disk.crash(capacity)).unwrap().1, kept, "capacity {capacity}");
        disk.set_capacity(capacity + 400);
        kept.extend([append(&mut log, 31).unwrap(), append(&mut log, 1).unwrap()]);
        log.sync().unwrap();
        assert_eq!(recover(&disk.crash(capacity)).unwrap().1, kept, "capacity {capacity}");
    }
}

#[test]
fn the_reserve_lets_a_checkpoint_go_on() {
    let disk = SimDisk::new();
    let with_reserve = LogOptions { reserve_bytes: 5000, ..options() };
    let open = || Log::open(Arc::new(disk.clone()), Path::new(DIR), with_reserve.clone()).unwrap();
    let (mut log, _) = open();
    disk.set_capacity(8000);
    while append(&mut log, 400).and_then(|_| log.sync()).is_ok() {}
    assert!(disk.free_bytes().unwrap() < 500);
    assert!(log.release_reserve().unwrap() && !log.release_reserve().unwrap());
    assert!(disk.free_bytes().unwrap() >= 5000);
    log.restore_reserve().unwrap();
    append(&mut log, 4000).unwrap();
    assert!(matches!(log.sync(), Err(LogError::DiskFull(_))), "the reserve holds its space");
    log.release_reserve().unwrap();
    disk.set_capacity(4000);
    assert!(matches!(log.restore_reserve(), Err(LogError::DiskFull(_))));
    drop(log);
    let (mut log, _) = open();
    assert!(!log.has_reserve(), "a full disk does not keep the log from opening");
    disk.set_capacity(8000);
    log.rotate().unwrap();
    let last = log.synced_lsn();
    assert!(log.drop_before(last).unwrap() > 0);
    log.restore_reserve().unwrap();
    drop(log);
    assert!(open().0.has_reserve());
}

#[test]
fn what_can_be_dropped() {
    let (disk, _) = written(&[3; 12]);
    let (mut log, _) = recover(&disk).unwrap();
    let firsts: Vec<Lsn> = log.sealed.iter().map(|segment| segment.first).collect();
    assert_eq!(log.drop_before(firsts[1].previous()).unwrap(), 0, "a record of it is still wanted");
    assert!(log.drop_before(firsts[1]).unwrap() > 0);
    assert_eq!(log.first_lsn(), firsts[1]);
    log.drop_before(Lsn(u64::MAX)).unwrap();
    assert_eq!(segments(&disk).len(), 1, "the active segment stays");
    log.rotate().unwrap();
    log.rotate().unwrap();
    log.drop_before(Lsn(u64::MAX)).unwrap();
    assert_eq!((log.first_lsn(), log.last_lsn()), (Lsn(37), Lsn(36)));
    let (log, records) = recover(&disk.crash(3)).unwrap();
    assert_eq!((log.first_lsn(), log.last_lsn(), records.len()), (Lsn(37), Lsn(36), 0));
}

#[test]
fn missing_segments_are_noticed() {
    let (disk, all) = written(&[3; 12]);
    let paths = segments(&disk);
    for gap in 1..paths.len() - 1 {
        let disk = disk.kill();
        disk.remove(&paths[gap]).unwrap();
        let error = recover(&disk).unwrap_err();
        assert!(matches!(&error, LogError::Missing { segment, .. } if *segment == paths[gap + 1]), "{error}");
        let (_, replay) = open(&disk).unwrap();
        let replay = replay.after(Lsn(all.len() as u64)).unwrap();
        assert_eq!(replay.count(), 0, "the gap lies before the checkpoint");
    }
    let first_gone = disk.kill();
    first_gone.remove(&paths[0]).unwrap();
    assert!(matches!(open(&first_gone).unwrap().1.after(Lsn(3)), Err(LogError::Missing { .. })));
    let last_gone = disk.kill();
    last_gone.remove(&paths[paths.len() - 1]).unwrap();
    let error = open(&last_gone).unwrap().1.after(Lsn(36)).unwrap_err();
    assert!(matches!(error, LogError::Behind { known: Lsn(36), .. }), "{error}");
    // A complete segment that was cut between two records.
    let content = disk.content(&paths[1]).unwrap();
    let error = recover(&with_content(&disk, &paths[1], &content[..content.len() - 65])).unwrap_err();
    assert!(matches!(error, LogError::Missing { .. }), "{error}");
}

#[test]
fn a_newer_format_is_its_own_error() {
    let (disk, _) = written(&[3; 12]);
    for path in segments(&disk) {
        let mut content = disk.content(&path).unwrap();
        let header = SegmentHeader::decode(content.first_chunk().unwrap()).unwrap();
        let newer = SegmentHeader { version: FORMAT_VERSION + 1, ..header };
        content[..SEGMENT_HEADER_BYTES].copy_from_slice(&newer.encode());
        let error = open(&with_content(&disk, &path, &content)).unwrap_err();
        assert!(
            matches!(&error, LogError::NewerVersion { segment, version: 2, supported: 1 } if *segment == path)
        );
        assert!(error.to_string().ends_with("has format version 2, this server reads up to 1"), "{error}");
    }
}

/// The committer is a thread of its own.
#[test]
fn the_log_can_move_to_another_thread() {
    let disk = SimDisk::new();
    let (mut log, replay) = open(&disk).unwrap();
    let committer = std::thread::spawn(move || {
        assert_eq!(replay.count(), 0);
        log.append(1, &[b"x"]).unwrap();
        log.sync().unwrap()
    });
    assert_eq!(committer.join().unwrap(), Lsn(1));
}

#[test]
fn a_large_group_goes_out_in_parts_and_is_synced_once() {
    let disk = SimDisk::new();
    let (mut log, _) = open(&disk).unwrap();
    let before = disk.sync_points();
    let all: Vec<Record> = (0..5).map(|_| append(&mut log, BUFFER_BYTES_MAX / 2).unwrap()).collect();
    assert!(log.buffer.len() < BUFFER_BYTES_MAX && log.active.bytes > 2 * BUFFER_BYTES_MAX as u64);
    assert_eq!(log.sync().unwrap(), Lsn(5));
    assert_eq!(log.sync().unwrap(), Lsn(5));
    assert_eq!(disk.sync_points(), before + 1, "nothing new, nothing to sync");
    assert_eq!(recover(&disk.crash(1)).unwrap().1, all);
}
