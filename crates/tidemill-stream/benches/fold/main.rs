//! How fast events are folded into a view, beside DataFusion's own aggregation of the same batches in the same run.
//!
//! `cargo bench --bench fold` measures CPU time, `cargo bench --bench fold -- instructions` counts instructions.

#![allow(clippy::unwrap_used)]

mod case;
mod count;

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, SamplingMode, Throughput};

use crate::case::{Case, ROWS, Side};

/// As in the server.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const GROUPS: [usize; 3] = [1, 1_000, 1_000_000];
/// The share of DataFusion's rate that the project has set itself.
const GOAL: f64 = 0.8;

fn main() {
    let args: Vec<_> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["instructions", ..] => count::report(&GROUPS),
        [count::ONCE, side, groups, ..] => count::once(side, groups.parse().unwrap()),
        _ => measure(),
    }
}

fn measure() {
    let mut criterion = Criterion::default().without_plots().configure_from_args();
    let rates = GROUPS.map(|groups| rates(&mut criterion, groups));
    criterion.final_summary();
    println!("{:>9}{:>28}{:>28}{:>8}", "groups", "Tidemill, rows/CPU s", "DataFusion, rows/CPU s", "ratio");
    for (groups, rates) in GROUPS.iter().zip(rates) {
        // Criterion may have been told to leave a side out.
        let [Some(ours), Some(theirs)] = rates else { continue };
        let ratio = ours / theirs;
        let verdict = if ratio >= GOAL { "met" } else { "missed" };
        let [ours, theirs] = [ours, theirs].map(|rate| format!("{:.1} million", rate / 1e6));
        println!("{groups:>9}{ours:>28}{theirs:>28}{ratio:>8.2}  goal of {GOAL} {verdict}");
    }
}

/// Rows a second of CPU time, by the median sample of each side.
fn rates(criterion: &mut Criterion, groups: usize) -> [Option<f64>; 2] {
    let case = Case::new(groups);
    case.check();
    let mut group = criterion.benchmark_group("fold");
    group.throughput(Throughput::Elements(ROWS as u64)).sampling_mode(SamplingMode::Flat).sample_size(10);
    let rates = Side::BOTH.map(|side| {
        let mut samples = Vec::new();
        group.bench_function(BenchmarkId::new(side.name(), groups), |bencher| {
            bencher.iter_custom(|times| {
                let took = cpu_time(|| (0..times).for_each(|_| drop(black_box(case.answer(side)))));
                samples.push(took.as_secs_f64() / times as f64);
                took
            });
        });
        samples.sort_by(f64::total_cmp);
        samples.get(samples.len() / 2).map(|median| ROWS as f64 / median)
    });
    group.finish();
    rates
}

/// CPU time of this thread, which does all the work: other processes on the machine do not count.
fn cpu_time(work: impl FnOnce()) -> Duration {
    let before = thread_clock();
    work();
    thread_clock() - before
}

/// The standard library has no call for it.
#[allow(unsafe_code)]
fn thread_clock() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid place for the one structure that the call writes.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert_eq!(result, 0, "Linux has this clock");
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
