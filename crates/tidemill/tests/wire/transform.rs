//! Continuous transforms through the wire: every kind of write reaches their outputs, at its own commit and once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::server::{Server, failure, rows};

const SET_UP: &str = "CREATE STREAM s (id int, x int);
     CREATE STREAM half (id int, x numeric(10, 1));
     CREATE TABLE kept (id int NOT NULL, x int, name text DEFAULT 'nobody');
     CREATE CONTINUOUS VIEW given AS SELECT count(*), sum(x) FROM s;
     CREATE CONTINUOUS VIEW halves AS SELECT count(*), sum(x) FROM half;
     CREATE CONTINUOUS TRANSFORM halve AS SELECT id, x / 2.0 FROM s WHERE x >= 0
         THEN EXECUTE PROCEDURE pipeline_stream_insert('half');
     CREATE VIEW keep WITH (action=transform, outputfunc=pipelinedb.insert_into_table('kept')) AS
         SELECT id, 100 / x FROM half";
/// How much each has: all of them the same at any time, if nothing is negative.
const COUNTS: &str =
    "SELECT (SELECT count FROM given), (SELECT count FROM halves), (SELECT count(*) FROM kept)";

async fn start() -> (tempfile::TempDir, Server, tokio_postgres::Client) {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let client = server.connect().await;
    client.batch_execute(SET_UP).await.unwrap();
    (dir, server, client)
}

#[tokio::test]
async fn every_kind_of_write_reaches_the_outputs() {
    let (dir, mut server, client) = start().await;
    client.batch_execute("INSERT INTO s VALUES (1, 10), (2, -1)").await.unwrap();
    client.batch_execute("INSERT INTO s SELECT x, x FROM generate_series(3, 1000) AS x").await.unwrap();
    let insert = client.prepare("INSERT INTO s VALUES ($1, $2)").await.unwrap();
    for id in 1001..1004i32 {
        client.execute(&insert, &[&id, &4i32]).await.unwrap();
    }
    assert_eq!(rows(&client, COUNTS).await, [["1003", "1002", "1002"]]);
    let sums = "SELECT (SELECT sum FROM halves), sum(x), min(name), max(id) FROM kept";
    assert_eq!(rows(&client, sums).await, [["250259.5", "1240", "nobody", "1003"]]);

    std::fs::write(dir.path().join("rows.txt"), "7\t2\n8\t2\n").unwrap();
    std::fs::write(dir.path().join("zero.txt"), "7\t2\n8\t0\n").unwrap();
    client.batch_execute("COPY s FROM 'rows.txt'").await.unwrap();
    assert_eq!(rows(&client, COUNTS).await, [["1005", "1004", "1004"]]);
    for refused in ["COPY s FROM 'zero.txt'", "INSERT INTO s VALUES (7, 2), (8, 0)"] {
        assert_eq!(failure(&client, refused).await.0, "22012");
        let block = format!("BEGIN; INSERT INTO s VALUES (1, 1); {refused}");
        assert_eq!(failure(&client, &block).await.0, "22012");
        client.batch_execute("COMMIT").await.unwrap();
    }
    assert_eq!(failure(&client, "INSERT INTO s VALUES (NULL, 1)").await.0, "23502");
    assert_eq!(rows(&client, COUNTS).await, [["1005", "1004", "1004"]]);

    let other = server.connect().await;
    client
        .batch_execute("BEGIN; INSERT INTO s VALUES (1, 1); SAVEPOINT a; COPY s FROM 'rows.txt'")
        .await
        .unwrap();
    assert_eq!(rows(&client, COUNTS).await, [["1008", "1007", "1007"]]);
    assert_eq!(rows(&other, COUNTS).await, [["1005", "1004", "1004"]]);
    client.batch_execute("ROLLBACK TO a; INSERT INTO kept VALUES (0); COMMIT").await.unwrap();
    assert_eq!(rows(&other, COUNTS).await, [["1006", "1005", "1006"]]);
    client.batch_execute("BEGIN; INSERT INTO s VALUES (1, 1); ROLLBACK").await.unwrap();
    assert_eq!(rows(&other, COUNTS).await, [["1006", "1005", "1006"]]);

    // What is in a table is durable, whatever the setting for streams.
    client.batch_execute("SET stream_insert_level = async; INSERT INTO s VALUES (1, 1)").await.unwrap();
    for by_kill in [true, false] {
        if by_kill {
            server.kill();
        } else {
            server.terminate();
            assert!(server.wait().success());
        }
        server = Server::start(dir.path());
        let client = server.connect().await;
        assert_eq!(rows(&client, COUNTS).await, [["1007", "1006", "1007"]]);
    }
    let client = server.connect().await;
    client
        .batch_execute("INSERT INTO s VALUES (1, 1); DEACTIVATE keep; INSERT INTO s VALUES (1, 1)")
        .await
        .unwrap();
    assert_eq!(rows(&client, COUNTS).await, [["1009", "1008", "1008"]]);
    server.kill();
    server = Server::start(dir.path());
    let client = server.connect().await;
    client.batch_execute("INSERT INTO s VALUES (1, 1)").await.unwrap();
    assert_eq!(rows(&client, COUNTS).await, [["1010", "1009", "1008"]]);
}

/// Sessions write at every level until the server is killed: after each start the outputs have what the stream's view has.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn outputs_are_exactly_once_over_crashes() {
    let (dir, mut server, _client) = start().await;
    let mut acknowledged = 0;
    for round in 0..3 {
        let mut tasks = Vec::new();
        for (number, level) in ["sync_commit", "sync_receive", "async"].into_iter().enumerate() {
            let client = server.connect().await;
            tasks.push(tokio::spawn(async move {
                client.batch_execute(&format!("SET stream_insert_level = {level}")).await.unwrap();
                let mut written = 0;
                for i in 0.. {
                    let insert = match (i + number) % 3 {
                        0 => "INSERT INTO s VALUES (1, 1), (2, 2)",
                        1 => "INSERT INTO s SELECT 1, x FROM generate_series(1, 400) AS x",
                        _ => "BEGIN; INSERT INTO s VALUES (1, 1); INSERT INTO s VALUES (1, 2); COMMIT",
                    };
                    if client.batch_execute(insert).await.is_err() {
                        break;
                    }
                    written += if (i + number) % 3 == 1 { 400 } else { 2 };
                }
                written
            }));
        }
        let client = server.connect().await;
        let wanted = acknowledged + 2000;
        while rows(&client, COUNTS).await[0][2].parse::<i64>().unwrap() < wanted {
            tokio::task::yield_now().await;
        }
        server.kill();
        for task in tasks {
            acknowledged += task.await.unwrap();
        }
        server = Server::start(dir.path());
        let client = server.connect().await;
        let counts = &rows(&client, COUNTS).await[0];
        assert!(counts.iter().all(|count| *count == counts[0]), "round {round}: {counts:?}");
        // A table is behind: what was answered was durable. Each session may have had one write without an answer.
        let found: i64 = counts[0].parse().unwrap();
        assert!((acknowledged..=acknowledged + 3 * 400).contains(&found), "round {round}: {found}");
        acknowledged = found;
    }
}

/// An UPDATE puts new rows in the place of all: it must not miss those of writers to a stream.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_of_a_transform_are_not_lost_under_updates() {
    let (dir, server, client) = start().await;
    std::fs::write(dir.path().join("rows.txt"), "7\t2\n").unwrap();
    client.batch_execute("INSERT INTO kept VALUES (0, 0, 'counter')").await.unwrap();
    let (done, mut tasks) = (Arc::new(AtomicBool::new(false)), Vec::new());
    for number in 0..3 {
        let client = server.connect().await;
        tasks.push(tokio::spawn(async move {
            for _ in 0..25 {
                let write = match number {
                    0 => "INSERT INTO s VALUES (1, 1)",
                    1 => "BEGIN; INSERT INTO s VALUES (1, 1); COMMIT",
                    _ => "COPY s FROM 'rows.txt'",
                };
                client.batch_execute(write).await.unwrap();
            }
        }));
    }
    let definer = {
        let (client, done) = (server.connect().await, Arc::clone(&done));
        tokio::spawn(async move {
            while !done.load(Ordering::Relaxed) {
                client
                    .batch_execute(
                        "CREATE CONTINUOUS TRANSFORM more AS SELECT -id, x FROM s
                             THEN EXECUTE PROCEDURE pipeline_stream_insert('kept');
                         DROP CONTINUOUS TRANSFORM more",
                    )
                    .await
                    .unwrap();
            }
        })
    };
    let mut updates = 0;
    while tasks.iter().any(|task| !task.is_finished()) || updates < 20 {
        client.batch_execute("UPDATE kept SET x = x + 1 WHERE name = 'counter'").await.unwrap();
        updates += 1;
    }
    for task in tasks {
        task.await.unwrap();
    }
    done.store(true, Ordering::Relaxed);
    definer.await.unwrap();
    let found = "SELECT count(*), max(x) FILTER (WHERE name = 'counter') FROM kept WHERE id >= 0";
    assert_eq!(rows(&client, found).await, [["76".to_string(), updates.to_string()]]);
}

#[tokio::test]
async fn a_chain_is_as_long_as_one_likes() {
    let (_dir, _server, client) = start().await;
    client.batch_execute("CREATE STREAM c0 (x int)").await.unwrap();
    for i in 0..100 {
        let next = i + 1;
        let link = format!(
            "CREATE STREAM c{next} (x int);
             CREATE CONTINUOUS TRANSFORM t{i} AS SELECT x + 1 FROM c{i} THEN EXECUTE PROCEDURE pipeline_stream_insert('c{next}')"
        );
        client.batch_execute(&link).await.unwrap();
    }
    client
        .batch_execute("CREATE CONTINUOUS VIEW last AS SELECT x FROM c100; INSERT INTO c0 VALUES (1), (2)")
        .await
        .unwrap();
    assert_eq!(rows(&client, "SELECT * FROM last ORDER BY 1").await, [["101"], ["102"]]);
    let circle = "CREATE CONTINUOUS TRANSFORM more AS SELECT x FROM c100 THEN EXECUTE PROCEDURE pipeline_stream_insert('c0')";
    assert_eq!(failure(&client, circle).await.0, "42P17");
    client.batch_execute("DROP STREAM c0 CASCADE").await.unwrap();
}
