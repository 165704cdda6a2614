//! SIGKILL at random instants under concurrent writers of every kind and level, again and again on one data directory:
//! nothing acknowledged at `sync_commit` is lost, nothing counts twice, nothing is half there, and of each connection
//! no write is there without those before it.
//!
//! `make test` takes a few rounds, `make crash SECONDS=300` as many as fit. The seed of a run is printed.

mod definer;
mod writer;

use std::sync::Arc;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::server::{Server, rows};
use definer::Definer;
use writer::{Kind, Level, Writer};

/// Rounds of the short form.
const ROUNDS: u32 = 3;
/// Longest life of a server.
const LIFE_MS_MAX: u64 = 1200;

/// `units` tells every write to the stream from every other, `t` those to the table; the rest is there to be at the same commit, and to have states of
/// other kinds.
const SCHEMA: &str = "
    CREATE STREAM s (w int, n int8, x int);
    CREATE CONTINUOUS VIEW units AS SELECT w, n, count(*) FROM s GROUP BY w, n;
    CREATE CONTINUOUS VIEW by_writer AS SELECT w, count(*), sum(n), max(n) FROM s GROUP BY w;
    CREATE CONTINUOUS VIEW total AS SELECT count(*), sum(n) FROM s;
    CREATE CONTINUOUS VIEW kept AS SELECT w, n FROM s WHERE x = 0;
    CREATE TABLE t (w int NOT NULL, n int8 NOT NULL, x int)";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_survives_kill_9() {
    let setting = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let seed = setting("TIDEMILL_TEST_SEED").unwrap_or_else(rand::random);
    println!("the seed is {seed}: TIDEMILL_TEST_SEED={seed} makes the same choices again");
    let until =
        setting("TIDEMILL_CRASH_SECONDS").map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let mut random = StdRng::seed_from_u64(seed);
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start(dir.path());
    server.connect().await.batch_execute(SCHEMA).await.unwrap();
    let mut writers: Vec<Writer> = Kind::ALL
        .into_iter()
        .flat_map(|kind| Level::ALL.map(|level| (kind, level)))
        .enumerate()
        .map(|(number, (kind, level))| Writer::new(number as i32, kind, level))
        .collect();
    let mut definer = Definer::default();
    definer.prepare(&server.connect().await).await;
    let mut round = 0;
    while until.map_or(round < ROUNDS, |until| Instant::now() < until) {
        round += 1;
        let mut tasks = Vec::new();
        for writer in writers.drain(..) {
            let (client, seed) = (server.connect().await, random.random());
            tasks.push(tokio::spawn(writer.write_until_killed(client, seed)));
        }
        let defining = tokio::spawn(definer.define_until_killed(server.connect().await, random.random()));
        // The instant of the kill is what the test is about: any will do.
        tokio::time::sleep(Duration::from_millis(random.random_range(1..LIFE_MS_MAX))).await;
        server.kill();
        for task in tasks {
            writers.push(task.await.unwrap());
        }
        definer = defining.await.unwrap();
        server = Server::start(dir.path());
        // One of the starts is killed on its own, before anything was written.
        if random.random_ratio(1, 4) {
            server.kill();
            server = Server::start(dir.path());
        }
        check(&server, &mut writers).await;
        definer.check(&server.connect().await).await;
    }
    let written: usize = writers.iter().map(Writer::found).sum();
    println!("{round} kills, {written} writes found whole and once");
}

/// The views against what the writers know, and against each other.
async fn check(server: &Server, writers: &mut [Writer]) {
    let client = Arc::new(server.connect().await);
    let numbers = async |sql: &str| -> Vec<Vec<i64>> {
        let parse = |row: Vec<String>| row.iter().map(|value| value.parse().unwrap_or_default()).collect();
        rows(&client, sql).await.into_iter().map(parse).collect()
    };
    let units = numbers("SELECT w, n, count FROM units ORDER BY w, n").await;
    let in_table = numbers("SELECT w, n, count(*) FROM t GROUP BY w, n ORDER BY w, n").await;
    for writer in writers.iter_mut() {
        let own = |all: &[Vec<i64>]| -> Vec<(i64, i64)> {
            let own = all.iter().filter(|unit| unit[0] == i64::from(writer.number));
            own.map(|unit| (unit[1], unit[2])).collect()
        };
        let (events, in_table) = (own(&units), own(&in_table));
        match writer.kind {
            Kind::Table => writer.check(in_table),
            Kind::Transaction => {
                assert_eq!(events, in_table, "a transaction is half there");
                writer.check(events);
            }
            _ => writer.check(events),
        }
    }
    let (mut total, mut by_writer) = ([0, 0], Vec::<[i64; 4]>::new());
    for unit in &units {
        let (w, n, count) = (unit[0], unit[1], unit[2]);
        total = [total[0] + count, total[1] + n * count];
        match by_writer.last_mut() {
            Some(last) if last[0] == w => *last = [w, last[1] + count, last[2] + n * count, n],
            _ => by_writer.push([w, count, n * count, n]),
        }
    }
    assert_eq!(numbers("SELECT count, coalesce(sum, 0) FROM total").await, [total], "another commit");
    assert_eq!(numbers("SELECT * FROM by_writer ORDER BY w").await, by_writer, "another commit");
    let kept = numbers("SELECT w, n FROM kept ORDER BY w, n").await;
    assert_eq!(kept.len(), units.len(), "each unit has one row with x = 0");
    assert!(kept.iter().zip(&units).all(|(kept, unit)| kept[..] == unit[..2]), "another commit");
}
