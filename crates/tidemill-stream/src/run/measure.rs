//! Figures for runs of some million groups. By hand: `cargo test --release run::measure -- --ignored --nocapture`.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::*;

use super::*;
use crate::disk::{Disk, RealDisk};

const ROWS: i64 = 5_000_000;
const LAYOUT: &str = "measure";
const LOOKUPS: usize = 2_000;

/// Keys with gaps, and the states of count(*), sum(numeric) and avg(float8).
fn states(keys: impl Iterator<Item = i64>, text: bool) -> RecordBatch {
    let keys = Int64Array::from_iter_values(keys);
    let noise = |key: i64| key.wrapping_mul(0x9e37_79b9_7f4a_7c15_u64 as i64);
    let values = keys.values();
    let key: ArrayRef = match text {
        true => {
            Arc::new(StringArray::from_iter_values(values.iter().map(|key| format!("customer-{key:012}"))))
        }
        false => Arc::new(keys.clone()),
    };
    let columns: Vec<ArrayRef> = vec![
        key,
        Arc::new(Int64Array::from_iter_values(values.iter().map(|&key| noise(key) & 1023))),
        Arc::new(Decimal128Array::from_iter_values(values.iter().map(|&key| i128::from(noise(key) >> 24)))),
        Arc::new(UInt64Array::from_iter_values(values.iter().map(|&key| noise(key) as u64 & 1023))),
        Arc::new(Float64Array::from_iter_values(values.iter().map(|&key| noise(key) as f64))),
    ];
    let columns = columns.into_iter().enumerate().map(|(i, column)| (format!("c{i}"), column, true));
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

/// Wall clock and the CPU time of this thread, which does not see what else the machine does.
struct Stopwatch(Instant, Duration);

impl Stopwatch {
    fn start() -> Self {
        Self(Instant::now(), cpu_time())
    }

    fn report(&self, what: &str, rows: usize) {
        let (wall, cpu) = (self.0.elapsed().as_secs_f64(), (cpu_time() - self.1).as_secs_f64());
        let rate = |seconds: f64| rows as f64 / seconds / 1e6;
        eprintln!("  {what:44} {:8.2} M rows/s of CPU, {:8.2} by the clock", rate(cpu), rate(wall));
    }

    fn report_each(&self, what: &str, times: usize) {
        let (wall, cpu) = (self.0.elapsed().as_secs_f64(), (cpu_time() - self.1).as_secs_f64());
        let each = |seconds: f64| seconds * 1e6 / times as f64;
        eprintln!("  {what:44} {:8.2} µs of CPU each, {:8.2} by the clock", each(cpu), each(wall));
    }
}

fn cpu_time() -> Duration {
    let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(statistics.split(' ').next().unwrap().parse().unwrap())
}

fn write(disk: &Arc<dyn Disk>, path: &str, batches: &[RecordBatch]) -> RunInfo {
    let mut writer =
        RunWriter::create(Arc::clone(disk), Path::new(path), batches[0].schema(), 1, LAYOUT).unwrap();
    for batch in batches {
        writer.append(batch).unwrap();
    }
    writer.finish().unwrap()
}

fn measure(text: bool) {
    let directory = tempfile::tempdir().unwrap();
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::open(directory.path()).unwrap());
    let all = states((0..ROWS).map(|n| n * 3), text);
    let batches: Vec<_> =
        (0..ROWS as usize).step_by(8192).map(|at| all.slice(at, 8192.min(ROWS as usize - at))).collect();

    let start = Stopwatch::start();
    let info = write(&disk, "run", &batches);
    start.report("write, with sync", ROWS as usize);

    let cache = Arc::new(BlockCache::new(1 << 30));
    let start = Stopwatch::start();
    let run = Arc::new(Run::open(&*disk, Path::new("run"), LAYOUT, Arc::clone(&cache)).unwrap());
    eprintln!(
        "  {:.1} MB of {:.1} MB; opened in {:.2} ms; in memory {} kB",
        info.bytes as f64 / 1e6,
        compact::slice_bytes(&all) as f64 / 1e6,
        start.0.elapsed().as_secs_f64() * 1e3,
        run.memory_bytes() / 1000
    );
    for _ in 0..2 {
        let start = Stopwatch::start();
        let rows: usize = run.scan().map(|batch| batch.unwrap().num_rows()).sum();
        start.report("scan", rows);
    }
    look_up(&run, text);
    merges(&disk, &all, text);
}

fn look_up(run: &Run, text: bool) {
    // A permutation of places all over the run.
    let asked = |offset: i64| {
        let places =
            (0..LOOKUPS as i64).map(move |n| n * 7_919 % LOOKUPS as i64 * (ROWS / LOOKUPS as i64) * 3);
        run.encoder().encode(&states(places.map(move |key| key + offset), text)).unwrap()
    };
    let (present, absent) = (asked(0), asked(1));
    let time = |what: &str, rounds: usize, keys: &Keys, expected: bool| {
        let start = Stopwatch::start();
        for _ in 0..rounds {
            let found = (0..LOOKUPS).filter(|&row| run.get(keys.get(row)).unwrap().is_some()).count();
            assert_eq!(found, if expected { LOOKUPS } else { 0 });
        }
        start.report_each(what, rounds * LOOKUPS);
    };
    let first = Instant::now();
    assert!(run.get(present.get(0)).unwrap().is_some());
    eprintln!("  first look-up {:.0} µs", first.elapsed().as_secs_f64() * 1e6);
    time("absent key, filter not cached at first", 1, &absent, false);
    time("absent key, warm", 50, &absent, false);
    // Places are so far apart that almost every one is in a block of its own, 1221 in all.
    time("present key, block mostly not cached", 1, &present, true);
    time("present key, warm", 50, &present, true);
}

fn merges(disk: &Arc<dyn Disk>, all: &RecordBatch, text: bool) {
    let merge = |what: &str, inputs: Vec<Vec<RecordBatch>>| {
        let inputs: Vec<_> =
            inputs.into_iter().map(|input| input.into_iter().map(Ok::<_, RunError>)).collect();
        let start = Stopwatch::start();
        let rows: usize =
            Merge::try_new(all.schema(), 1, inputs).unwrap().map(|chunk| chunk.unwrap().groups.len()).sum();
        start.report(what, rows);
    };
    let quarter = ROWS / 4;
    merge(
        "merge in memory, 4 inputs row by row",
        (0..4).map(|i| vec![states((0..quarter).map(|n| (n * 4 + i) * 3), text)]).collect(),
    );
    merge(
        "merge in memory, 2 inputs of the same keys",
        (0..2).map(|_| vec![states((0..quarter).map(|n| n * 3), text)]).collect(),
    );
    merge(
        "merge in memory, base and a 10,000th",
        vec![vec![all.clone()], vec![states((0..ROWS / 10_000).map(|n| n * 30_000), text)]],
    );
    merge(
        "merge in memory, one behind the other",
        vec![vec![all.slice(0, ROWS as usize / 2)], vec![all.slice(ROWS as usize / 2, ROWS as usize / 2)]],
    );

    write(disk, "delta", &[states((0..ROWS / 10).map(|n| n * 30 + 1), text)]);
    let cache = Arc::new(BlockCache::new(1 << 20));
    let open =
        |path: &str| Arc::new(Run::open(&**disk, Path::new(path), LAYOUT, Arc::clone(&cache)).unwrap());
    let start = Stopwatch::start();
    let mut writer =
        RunWriter::create(Arc::clone(disk), Path::new("merged"), all.schema(), 1, LAYOUT).unwrap();
    for chunk in Merge::try_new(all.schema(), 1, vec![open("run").scan(), open("delta").scan()]).unwrap() {
        let chunk = chunk.unwrap();
        assert!(chunk.is_unique());
        writer.append(&chunk.batch).unwrap();
    }
    let info = writer.finish().unwrap();
    start.report("compact a run and a tenth to a run", info.rows as usize);
    let start = Stopwatch::start();
    let shuffled: UInt32Array =
        (0..ROWS as u64).map(|n| (n * 2_654_435_761 % ROWS as u64) as u32).collect::<Vec<_>>().into();
    let shuffled = arrow::compute::take_record_batch(all, &shuffled).unwrap();
    start.report("(shuffle)", ROWS as usize);
    let encoder = KeyEncoder::try_new(all.schema_ref(), 1).unwrap();
    let start = Stopwatch::start();
    let rows: usize = Sorted::try_new(shuffled, &encoder).unwrap().map(|w| w.unwrap().num_rows()).sum();
    assert_eq!(rows, ROWS as usize);
    start.report("sort by key", ROWS as usize);
}

#[test]
#[ignore = "takes a minute and is only worth it in a release build"]
fn int_keys() {
    measure(false);
}

#[test]
#[ignore = "takes a minute and is only worth it in a release build"]
fn text_keys() {
    measure(true);
}
