//! Sliding windows through the wire, with the real clock.

use std::time::{Duration, Instant};

use crate::server::{Server, failure, rows};

/// Nothing here takes this long.
const DEADLINE: Duration = Duration::from_secs(20);

#[tokio::test]
async fn a_window_empties_while_nothing_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let client = server.connect().await;
    client
        .batch_execute(
            "CREATE CONTINUOUS VIEW option WITH (sw = '1 second', step_factor = 50) AS
                 SELECT k::int, count(*) FROM s GROUP BY k;
             CREATE CONTINUOUS VIEW clause AS SELECT count(*) FROM s
                 WHERE arrival_timestamp > clock_timestamp() - interval '1 second';
             CREATE CONTINUOUS VIEW long WITH (sw = '1 hour') AS SELECT sum(k::int) FROM s;
             INSERT INTO s (k) VALUES (1), (1), (2)",
        )
        .await
        .unwrap();
    assert_eq!(rows(&client, "SELECT sum FROM long").await, [["4"]]);
    let started = Instant::now();
    loop {
        let groups = rows(&client, "SELECT k, count FROM option ORDER BY k").await;
        let count = rows(&client, "SELECT count FROM clause").await;
        assert!(groups == [["1", "2"], ["2", "1"]] || groups.is_empty(), "{groups:?}");
        if groups.is_empty() && count == [["0"]] {
            break;
        }
        assert!(started.elapsed() < DEADLINE, "the window is still full: {groups:?} {count:?}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(rows(&client, "SELECT sum FROM long").await, [["4"]]);
}

#[tokio::test]
async fn what_makes_no_window_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let client = server.connect().await;
    for (sql, state) in [
        (
            "CREATE CONTINUOUS VIEW v WITH (sw = '1 hour', step_factor = 51) AS SELECT count(*) FROM s",
            "22023",
        ),
        ("CREATE CONTINUOUS VIEW v WITH (sw = '-1 hour') AS SELECT count(*) FROM s", "22023"),
        ("CREATE CONTINUOUS VIEW v WITH (step_factor = 10) AS SELECT count(*) FROM s", "22023"),
        (
            "CREATE CONTINUOUS VIEW v WITH (sw = '1 hour') AS SELECT count(*) FROM s
             WHERE arrival_timestamp > clock_timestamp() - interval '1 hour'",
            "42601",
        ),
        ("CREATE CONTINUOUS VIEW v AS SELECT count(*) FROM s WHERE x::timestamptz > now()", "0A000"),
    ] {
        assert_eq!(failure(&client, sql).await.0, state, "{sql}");
    }
}
