//! Instructions a row, counted by callgrind: the same on a busy machine and on an idle one.

use std::hint::black_box;
use std::process::Command;

use crate::case::{Case, ROWS, Side};

/// First argument of the process that callgrind runs.
pub const ONCE: &str = "once";

pub fn report(groups: &[usize]) {
    println!(
        "{:>9}{:>30}{:>30}{:>8}",
        "groups", "Tidemill, instructions/row", "DataFusion, instructions/row", "ratio"
    );
    for groups in groups {
        let [ours, theirs] = Side::BOTH.map(|side| instructions(side, *groups) as f64 / ROWS as f64);
        println!("{groups:>9}{ours:>30.1}{theirs:>30.1}{:>8.2}", ours / theirs);
    }
}

/// Runs this program again under callgrind.
fn instructions(side: Side, groups: usize) -> u64 {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--collect-atstart=no"])
        .args(["--toggle-collect=*counted*"])
        .arg(std::env::current_exe().unwrap())
        .args([ONCE, side.name(), &groups.to_string()])
        .output()
        .expect("callgrind is part of valgrind, which must be installed");
    let report = String::from_utf8_lossy(&output.stderr);
    let collected = report.lines().find_map(|line| line.split("Collected :").nth(1));
    collected
        .and_then(|count| count.trim().parse().ok())
        .unwrap_or_else(|| panic!("callgrind said:\n{report}"))
}

/// One side of one case, once.
pub fn once(side: &str, groups: usize) {
    let side = Side::BOTH.into_iter().find(|s| s.name() == side).expect("the name of a side");
    let case = Case::new(groups);
    counted(&case, side);
}

/// The only function that callgrind looks at, by its name.
#[inline(never)]
fn counted(case: &Case, side: Side) {
    drop(black_box(case.answer(side)));
}
