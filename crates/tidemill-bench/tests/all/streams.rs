//! The streams suite where there are tables and triggers.

use crate::bench::{bench, result};

/// Streams made of triggers, where there are no streams: rows arrive once each, however they are sent.
#[test]
fn streams_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let server = crate::postgres::Postgres::start();
    let sqlite = format!("sqlite:{}", dir.path().join("s.db").display());
    let urls = [Some(sqlite), server.as_ref().map(|server| server.url())];
    for url in urls.into_iter().flatten() {
        for (insert, groups) in [("generate", "1"), ("values", "7"), ("prepared", "1"), ("copy", "7")] {
            let (insert_is, groups_are) = (format!("insert={insert}"), format!("groups={groups}"));
            let target =
                ["--target", &url, "-p", &insert_is, "-p", &groups_are, "-p", "rows=50", "-p", "see=5"];
            let prepared = bench(dir.path(), &[&["prepare", "streams"], &target[..]].concat());
            assert_eq!(prepared.code, 0, "{}", prepared.err);
            let run = [
                "run", "streams", "--closed", "-c", "2", "-t", "20", "--warmup", "0", "-P", "0", "-o",
                "s.json",
            ];
            let ran = bench(dir.path(), &[&run, &target[..]].concat());
            assert_eq!(ran.code, 0, "{url} {insert}: {}{}", ran.out, ran.err);
            assert_eq!(ran.out.matches("right: rows in bench_view").count(), 5, "{}", ran.out);
            assert_eq!(ran.out.matches("right: sums of bench_view").count(), 4, "{}", ran.out);
            let found = result(dir.path().join("s.json").to_str().unwrap());
            let figure = |name: &str| found.figures[name];
            let (sent, visible) = (
                figure("rows a second sent and acknowledged"),
                figure("rows a second visible in every view"),
            );
            assert!(visible > 0.0 && visible <= sent, "{visible} {sent}");
            let tallies = &found.repeats[0].record.operations;
            assert_eq!(tallies[1].processed, tallies[2].processed, "each mark is seen");
            assert!(tallies[2].processed > 0 && tallies[2].lag.max() == 0, "from the acknowledgement");
            assert!(figure("ms until acknowledged rows are seen in every view, p50") > 0.0);
            assert!(found.floor_cpu_us.is_some_and(|floor| floor > 0.0), "the generator's own");
        }
    }
}

/// A view that nothing arrives in: the run is kept, and its checks say what is missing.
#[test]
fn rows_that_no_view_shows_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let target = ["--target", "sqlite:s.db", "-p", "rows=5", "-p", "views=2", "-p", "streams=1"];
    let prepared = bench(dir.path(), &[&["prepare", "streams"], &target[..]].concat());
    assert_eq!(prepared.code, 0, "{}", prepared.err);
    let url = format!("sqlite:{}", dir.path().join("s.db").display());
    let mut connection = tidemill_bench::target::Target::open(&url).unwrap().connect().unwrap();
    // The first view goes on, so that rows of both can be inserted.
    connection.execute("drop trigger bench_view1_fold").unwrap();
    let run = ["run", "streams", "--closed", "-t", "3", "--warmup", "0", "-P", "0", "-o", "s.json"];
    let ran = bench(dir.path(), &[&run[..], &target, &["-p", "see=0"]].concat());
    assert_eq!(ran.code, 2, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("WRONG: rows in bench_view1: 0 instead of 15"), "{}", ran.out);
    assert!(!ran.out.contains("rows a second visible"), "{}", ran.out);
    // The next one does not begin.
    let ran = bench(dir.path(), &[&run[..], &target, &["-p", "see=0"]].concat());
    let told = "the answers are wrong before the run: rows in bench_view1 and bench_view0: 0 instead of 15";
    assert!(ran.code == 2 && ran.err.contains(told), "{}{}", ran.out, ran.err);
    let prepared = bench(dir.path(), &[&["prepare", "streams"], &target[..]].concat());
    assert_eq!(prepared.code, 0, "{}", prepared.err);
    connection.execute("drop trigger bench_view1_fold").unwrap();
    let ran = bench(dir.path(), &[&run[..], &target, &["-p", "see=1"]].concat());
    assert_eq!(ran.code, 2, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("bench_view1 does not show rows that were acknowledged"), "{}", ran.out);
}
