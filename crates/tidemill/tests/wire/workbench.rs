//! The workbench's suites with Tidemill as what is measured: their answers are right.

use std::path::Path;
use std::process::Command;

use crate::postgres::Postgres;
use crate::server::Server;

/// What it says; it must end well.
fn bench(folder: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidemill"));
    let output = command.current_dir(folder).arg("bench").args(arguments).output().unwrap();
    let said =
        [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned()).concat();
    assert!(output.status.success(), "{arguments:?}: {said}");
    said
}

/// With Tidemill in front of four PostgreSQL databases.
#[tokio::test]
async fn all_queries_of_the_federation_suite_are_answered_right() {
    let Some(postgres) = Postgres::start() else { return };
    let client = postgres.connect("postgres").await;
    let mut nodes = Vec::new();
    for node in 1..=4 {
        client.batch_execute(&format!("CREATE DATABASE node{node}")).await.unwrap();
        nodes.push(format!("postgres://postgres@127.0.0.1:{}/node{node}", postgres.port));
    }
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("data"));
    let target = format!("postgres://postgres@127.0.0.1:{}/tidemill", server.port);
    let nodes = format!("nodes={}", nodes.join(","));
    let suite = ["federation", "--target", &target, "-p", &nodes, "-p", "rows=5000", "-p", "sensors=50"];
    bench(dir.path(), &[&["prepare"], &suite[..]].concat());
    let once_each = ["--closed", "-t", "15", "--warmup", "0", "-P", "0"];
    let said = bench(dir.path(), &[&["run"], &suite[..], &once_each].concat());
    assert_eq!(said.matches("\nright: ").count(), 15, "{said}");
    assert!(!said.contains("no answer: ") && !said.contains("WRONG: "), "{said}");
    // One system is the fastest everywhere; the legend has the mark too.
    assert_eq!(said.matches('⊙').count(), 16, "{said}");
}

#[test]
fn rows_of_the_streams_suite_arrive_once_each() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("data"));
    let target = format!("postgres://postgres@127.0.0.1:{}/tidemill", server.port);
    for (insert, groups) in [("generate", "1"), ("values", "7"), ("prepared", "1"), ("copy", "7")] {
        let (insert, groups) = (format!("insert={insert}"), format!("groups={groups}"));
        let suite =
            ["streams", "--target", &target, "-p", "rows=50", "-p", "see=5", "-p", &insert, "-p", &groups];
        bench(dir.path(), &[&["prepare"], &suite[..]].concat());
        let few = ["--closed", "-c", "2", "-t", "20", "--warmup", "0", "-P", "0"];
        let said = bench(dir.path(), &[&["run"], &suite[..], &few].concat());
        assert_eq!(said.matches("right: rows in bench_view").count(), 5, "{said}");
        assert_eq!(said.matches("right: sums of bench_view").count(), 4, "{said}");
    }
    // What has left a window is nowhere to be counted; marks tell what is seen.
    let suite = ["streams", "--target", &target, "-p", "rows=50", "-p", "see=3", "-p", "window=1 hour"];
    bench(dir.path(), &[&["prepare"], &suite[..]].concat());
    let few = ["--closed", "-c", "2", "-t", "20", "--warmup", "0", "-P", "0"];
    let said = bench(dir.path(), &[&["run"], &suite[..], &few].concat());
    for part in [
        "right: the last row in every view: shown",
        "rows a second visible in every view: ",
        "ms until acknowledged rows are seen in every view, p99: ",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!(said.matches("are no more than were sent").count(), 5, "{said}");
}

#[test]
fn the_reporting_suite_is_answered_right() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("data"));
    let target = format!("postgres://postgres@127.0.0.1:{}/tidemill", server.port);
    let suite = ["reporting", "--target", &target, "-p", "scale=1", "-p", "keys=no"];
    bench(dir.path(), &[&["prepare"], &suite[..]].concat());
    for mode in ["simple", "extended", "prepared"] {
        let few = ["--closed", "-t", "6", "--warmup", "0", "-P", "0", "-M", mode];
        let said = bench(dir.path(), &[&["run"], &suite[..], &few].concat());
        for (query, groups) in [(1, 10), (2, 10), (3, 200)] {
            let right = format!("right: query {query} by the seed: {groups} groups, {groups} of them right");
            assert!(said.contains(&right), "{said}");
        }
    }
}
