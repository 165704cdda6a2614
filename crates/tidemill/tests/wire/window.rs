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

#[tokio::test]
async fn groups_outlive_their_time_to_live_by_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let client = server.connect().await;
    client
        .batch_execute(
            "CREATE STREAM s (at timestamptz, k int);
             CREATE CONTINUOUS VIEW v WITH (ttl = '1 hour', ttl_column = 'minute') AS
                 SELECT date_trunc('minute', at) AS minute, k, count(*) FROM s GROUP BY minute, k;
             CREATE CONTINUOUS VIEW kept WITH (ttl = '2 days', ttl_column = 'at') AS SELECT k, at FROM s;
             INSERT INTO s VALUES (now(), 1), (now() - interval '2 hours', 2), (now() - interval '3 days', 3), (NULL, 4)",
        )
        .await
        .unwrap();
    assert_eq!(rows(&client, "SELECT k FROM v ORDER BY k").await, [["1"], ["4"]]);
    assert_eq!(rows(&client, "SELECT k FROM kept ORDER BY k").await, [["1"], ["2"], ["4"]]);

    // Another one, and again after a restart. What has expired may be gone for good.
    client.batch_execute("SELECT pipelinedb.set_ttl('v', '1 second', 'minute')").await.unwrap();
    client.batch_execute("SELECT set_ttl('public.kept', NULL, NULL)").await.unwrap();
    client.batch_execute("INSERT INTO s VALUES (now() - interval '2 minutes', 5)").await.unwrap();
    let started = Instant::now();
    while rows(&client, "SELECT k FROM v WHERE k < 4 ORDER BY k").await.len() > 1 {
        assert!(started.elapsed() < DEADLINE);
    }
    let shown = "SELECT k FROM v WHERE k >= 4 ORDER BY k";
    assert_eq!(rows(&client, shown).await, [["4"]]);
    drop((client, server));
    let server = Server::start(dir.path());
    let client = server.connect().await;
    assert_eq!(rows(&client, shown).await, [["4"]]);
    client.batch_execute("INSERT INTO s VALUES (now() - interval '3 days', 6)").await.unwrap();
    assert!(rows(&client, "SELECT k FROM kept ORDER BY k").await.contains(&vec!["6".to_string()]));
}

#[tokio::test]
async fn what_makes_no_time_to_live_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let client = server.connect().await;
    client.batch_execute("CREATE STREAM s (at timestamptz, k int)").await.unwrap();
    for (options, query, state) in [
        ("ttl = '1 hour'", "SELECT at, count(*) FROM s GROUP BY at", "22023"),
        ("ttl_column = 'at'", "SELECT at, count(*) FROM s GROUP BY at", "22023"),
        ("ttl = '10 ms', ttl_column = 'at'", "SELECT at, count(*) FROM s GROUP BY at", "22023"),
        ("ttl = 'soon', ttl_column = 'at'", "SELECT at, count(*) FROM s GROUP BY at", "22007"),
        ("ttl = '1 h', ttl_column = 'at', sw = '1 h'", "SELECT at, count(*) FROM s GROUP BY at", "42601"),
        ("ttl = '1 h', ttl = '2 h', ttl_column = 'at'", "SELECT at, count(*) FROM s GROUP BY at", "42601"),
        ("ttl = '1 h', ttl_column = 'k'", "SELECT k, count(*) FROM s GROUP BY k", "42804"),
        ("ttl = '1 h', ttl_column = 'nope'", "SELECT at, count(*) FROM s GROUP BY at", "42703"),
        ("ttl = '1 h', ttl_column = 'max'", "SELECT k, max(at) FROM s GROUP BY k", "42P10"),
    ] {
        let sql = format!("CREATE CONTINUOUS VIEW v WITH ({options}) AS {query}");
        let (found, message) = failure(&client, &sql).await;
        assert_eq!(found, state, "{sql}: {message}");
    }
    client
        .batch_execute("CREATE CONTINUOUS VIEW w WITH (sw = '1 h') AS SELECT at, count(*) FROM s GROUP BY at")
        .await
        .unwrap();
    for (sql, state) in [
        ("SELECT set_ttl('w', '1 hour', 'at')", "42809"),
        ("SELECT set_ttl('nope', '1 hour', 'at')", "42P01"),
        ("SELECT set_ttl('s', '1 hour', 'at')", "42809"),
    ] {
        let (found, message) = failure(&client, sql).await;
        assert_eq!(found, state, "{sql}: {message}");
    }
}
