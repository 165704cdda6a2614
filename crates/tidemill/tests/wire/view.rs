//! Plain views through the wire: what they show over restarts, changes of what they read, and many of them.

use crate::server::{Server, failure, rows};

#[tokio::test]
async fn a_view_is_kept_and_shows_what_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let client = server.connect().await;
    client
        .batch_execute(
            "CREATE CONTINUOUS VIEW hits AS SELECT k::int, count(*) AS n FROM clicks GROUP BY k;
             CREATE VIEW top (key, hits) AS SELECT k, n FROM hits WHERE n > 1;
             CREATE VIEW total AS SELECT sum(hits) FROM top;
             SET search_path = pipelinedb, public;
             CREATE VIEW public.listed AS SELECT name FROM views;
             RESET search_path;
             INSERT INTO clicks (k) VALUES (1), (1), (2)",
        )
        .await
        .unwrap();
    let prepared = client.prepare("SELECT hits FROM top WHERE key = $1").await.unwrap();
    assert_eq!(client.query_one(&prepared, &[&1i32]).await.unwrap().get::<_, i64>(0), 2);
    assert_eq!(rows(&client, "SELECT * FROM total").await, [["2"]]);
    client.batch_execute("INSERT INTO clicks (k) SELECT key FROM top").await.unwrap();
    assert_eq!(client.query_one(&prepared, &[&1i32]).await.unwrap().get::<_, i64>(0), 3);
    drop((client, server));

    let server = Server::start(dir.path());
    let client = server.connect().await;
    assert_eq!(rows(&client, "SELECT * FROM total").await, [["3"]]);
    assert_eq!(rows(&client, "SELECT * FROM listed").await, [["hits"]]);
    assert_eq!(failure(&client, "DROP CONTINUOUS VIEW hits").await.0, "2BP01");
    client.batch_execute("DROP STREAM clicks CASCADE").await.unwrap();
    let left = "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace";
    assert_eq!(rows(&client, left).await, [["listed"]]);
}

#[tokio::test]
async fn a_definition_that_would_break_a_view_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let client = server.connect().await;
    client
        .batch_execute(
            "CREATE CONTINUOUS VIEW hits AS SELECT count(*) AS n FROM clicks;
             CREATE VIEW more AS SELECT *, 7 AS max FROM hits;
             CREATE VIEW named AS WITH hits AS (SELECT * FROM hits) SELECT n FROM hits;
             INSERT INTO clicks (k) VALUES (1)",
        )
        .await
        .unwrap();
    // The view would have two columns of one name.
    let wider = "CREATE OR REPLACE CONTINUOUS VIEW hits AS SELECT count(*) AS n, max(k::int) FROM clicks";
    let (state, message) = failure(&client, wider).await;
    assert_eq!(state, "42702", "{message}");
    // The name means two things there.
    assert_eq!(failure(&client, "ALTER VIEW hits RENAME TO others").await.0, "0A000");
    assert_eq!(rows(&client, "SELECT * FROM more").await, [["1", "7"]]);
    // What was refused has left nothing.
    client.batch_execute("INSERT INTO clicks (k) VALUES (1)").await.unwrap();
    assert_eq!(rows(&client, "SELECT n FROM named").await, [["2"]]);
    let circle = "CREATE VIEW a AS SELECT 1 AS x; CREATE VIEW b AS SELECT * FROM a;
                  CREATE OR REPLACE VIEW a AS SELECT * FROM b";
    assert_eq!(failure(&client, circle).await.0, "42P17");
    assert_eq!(rows(&client, "SELECT * FROM b").await, [["1"]]);
}

#[tokio::test]
async fn views_are_nested_deep_but_not_without_end() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let client = server.connect().await;
    client.batch_execute("CREATE VIEW v0 AS SELECT 1 AS x").await.unwrap();
    let refused = 'refused: {
        for i in 1..200 {
            let next = format!("CREATE VIEW v{i} AS SELECT x FROM v{}", i - 1);
            if client.batch_execute(&next).await.is_err() {
                let error = failure(&client, &next).await;
                assert_eq!(error.0, "54001");
                break 'refused i;
            }
        }
        panic!("200 views over views");
    };
    let deepest = format!("SELECT x + 1 FROM v{}", refused - 1);
    assert_eq!(rows(&client, &deepest).await, [["2"]]);
    client.batch_execute("DROP VIEW v0 CASCADE").await.unwrap();
}

#[tokio::test]
async fn a_continuous_view_is_explained() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let client = server.connect().await;
    client
        .batch_execute(
            "CREATE CONTINUOUS VIEW hits WITH (sw = '1 hour') AS
                 SELECT k::int, count(*), sum(x::int) FILTER (WHERE y <> ''),
                     percentile_cont(0.5) WITHIN GROUP (ORDER BY z::float DESC), rank('b') WITHIN GROUP (ORDER BY y) FROM clicks
                 WHERE k::int > 0 GROUP BY k HAVING count(*) > 1;
             INSERT INTO clicks (k, x) VALUES (1, 2), (0, 1)",
        )
        .await
        .unwrap();
    let lines = |rows: Vec<Vec<String>>| rows.into_iter().map(|mut row| row.remove(0)).collect::<Vec<_>>();
    let plan = lines(rows(&client, "EXPLAIN CONTINUOUS VIEW hits").await);
    for part in [
        "Continuous View hits",
        "    State Scan",
        "      Filter: (count(*) > 1)",
        "    Group Key: k",
        "    Aggregates: count(*), sum(x) FILTER (WHERE (y <> ''::text)), \
         percentile_cont('0.5'::double precision) WITHIN GROUP (ORDER BY z DESC), rank('b'::text) WITHIN GROUP (ORDER BY y)",
        "    Window: 3600 s in panes of 180 s",
        "  Front on stream clicks",
        "    Filter: (k > 0)",
        "  Input: 2 rows in 1 batches, 0 errors",
    ] {
        assert!(plan.iter().any(|line| line == part), "{part}: {plan:#?}");
    }
    assert!(plan.iter().any(|line| line.starts_with("  State: 1 groups, ")), "{plan:#?}");
    let verbose = lines(rows(&client, "EXPLAIN VERBOSE CONTINUOUS VIEW hits").await);
    // The maintenance thread may have merged the state meanwhile.
    let is_state = |line: &String| line.starts_with("  State: ");
    assert!(plan.iter().all(|line| is_state(line) || verbose.contains(line)), "{verbose:#?}");
    assert!(verbose.iter().all(|line| !line.contains("FieldMetadata")), "{verbose:#?}");
    let output =
        "  Output: k integer, count bigint, sum bigint, percentile_cont double precision, rank bigint";
    assert!(verbose.iter().any(|line| line == output), "{verbose:#?}");
    let statement = client.prepare("EXPLAIN SELECT * FROM hits WHERE k = $1").await.unwrap();
    assert_eq!(statement.columns()[0].name(), "QUERY PLAN");
    let row = client.query_one("EXPLAIN (ANALYZE, COSTS OFF) SELECT $1::int", &[&1i32]).await;
    assert!(row.is_err(), "more than one line");
}
