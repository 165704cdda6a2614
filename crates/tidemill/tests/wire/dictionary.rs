//! What tells of streams and views, and the functions that PipelineDB's scripts call on them.

use crate::server::{Server, failure, rows};

async fn with_two_views() -> (tempfile::TempDir, Server, tokio_postgres::Client) {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let client = server.connect().await;
    let statements = "CREATE CONTINUOUS VIEW v0 AS SELECT count(*) FROM stream;
                      CREATE CONTINUOUS VIEW v1 AS SELECT x::int AS k, avg(y::int) FROM stream GROUP BY k;
                      INSERT INTO stream (x, y, z) SELECT generate_series(1, 1000), 1, 1";
    client.batch_execute(statements).await.unwrap();
    (dir, server, client)
}

#[tokio::test]
async fn relations_list_streams_views_and_what_they_did() {
    let (_dir, _server, client) = with_two_views().await;
    assert_eq!(
        rows(&client, "SELECT schema, name, active FROM pipelinedb.views ORDER BY name").await,
        [["public", "v0", "t"], ["public", "v1", "t"]]
    );
    assert_eq!(rows(&client, "SELECT name FROM pipeline_views() ORDER BY id").await, [["v0"], ["v1"]]);
    assert_eq!(
        rows(&client, "SELECT name, queries FROM pipelinedb.get_streams()").await,
        [["stream", "{v0,v1}"]]
    );
    assert_eq!(
        rows(&client, "SELECT stream, continuous_queries FROM pipelinedb.stream_readers").await,
        [["stream", "{v0,v1}"]]
    );
    assert_eq!(
        rows(&client, "SELECT relname FROM pg_class WHERE relkind = 'C' ORDER BY 1").await,
        [["v0"], ["v1"]]
    );
    assert_eq!(
        rows(&client, "SELECT stream, input_rows, input_batches FROM pipelinedb.stream_stats").await,
        [["stream", "1000", "1"]]
    );
    assert_eq!(
        rows(
            &client,
            "SELECT type, continuous_query, input_rows, output_rows, updated_rows, errors
             FROM pipelinedb.query_stats ORDER BY type, continuous_query"
        )
        .await,
        [
            ["combiner", "v0", "1", "0", "1", "0"],
            ["combiner", "v1", "1000", "0", "1000", "0"],
            ["worker", "v0", "1000", "1", "0", "0"],
            ["worker", "v1", "1000", "1000", "0", "0"],
        ]
    );
    assert_eq!(
        rows(&client, "SELECT type, input_rows, output_rows FROM pipelinedb.db_stats ORDER BY type").await,
        [["combiner", "1001", "0"], ["worker", "2000", "1001"]]
    );
    assert_eq!(rows(&client, "SELECT extname FROM pg_extension").await, [["pipelinedb"]]);
}

#[tokio::test]
async fn functions_do_what_the_statements_do() {
    let (_dir, _server, client) = with_two_views().await;
    let insert = "INSERT INTO stream (x, y) VALUES (1, 1)";
    assert_eq!(rows(&client, "SELECT pipelinedb.deactivate('v0')").await, [["t"]]);
    client.batch_execute(insert).await.unwrap();
    assert_eq!(rows(&client, "SELECT count FROM v0").await, [["1000"]]);
    assert_eq!(
        rows(&client, "SELECT name, activate(name) FROM pipelinedb.views ORDER BY 1").await,
        [["v0", "t"], ["v1", "t"]]
    );
    client.batch_execute(insert).await.unwrap();
    assert_eq!(rows(&client, "SELECT pipelinedb.flush()").await, [["t"]]);
    assert_eq!(rows(&client, "SELECT count FROM v0").await, [["1001"]]);
    rows(&client, "SELECT truncate_continuous_view('public.v1')").await;
    assert_eq!(rows(&client, "SELECT count(*) FROM v1").await, [["0"]]);
    assert_eq!(failure(&client, "SELECT activate('nope')").await.0, "42P01");
    assert_eq!(failure(&client, "SELECT truncate_continuous_view('stream')").await.0, "42809");
}

#[tokio::test]
async fn views_are_renamed_and_replaced() {
    let (_dir, _server, client) = with_two_views().await;
    client.batch_execute("ALTER VIEW v0 RENAME TO total").await.unwrap();
    assert_eq!(rows(&client, "SELECT count FROM total").await, [["1000"]]);
    assert_eq!(failure(&client, "SELECT * FROM v0").await.0, "42P01");
    assert_eq!(failure(&client, "ALTER CONTINUOUS VIEW v1 RENAME TO total").await.0, "42P07");
    // The same query keeps its state; another one starts anew.
    let same = "CREATE OR REPLACE CONTINUOUS VIEW total AS SELECT count(*) FROM stream";
    client.batch_execute(same).await.unwrap();
    assert_eq!(rows(&client, "SELECT count FROM total").await, [["1000"]]);
    let more = "CREATE OR REPLACE CONTINUOUS VIEW total AS SELECT count(*), max(x::int) FROM stream";
    client.batch_execute(more).await.unwrap();
    client.batch_execute("INSERT INTO stream (x, y) VALUES (7, 1)").await.unwrap();
    assert_eq!(rows(&client, "SELECT count, max FROM total").await, [["1", "7"]]);
    let fewer = "CREATE OR REPLACE CONTINUOUS VIEW total AS SELECT max(x::int) FROM stream";
    assert_eq!(failure(&client, fewer).await.0, "42P16");
    let notice = "CREATE EXTENSION pipelinedb; CREATE EXTENSION IF NOT EXISTS pipelinedb";
    client.batch_execute(notice).await.unwrap();
    let written = "CREATE EXTENSION IF NOT EXISTS postgres_fdw WITH SCHEMA public VERSION '1.1' CASCADE";
    client.batch_execute(written).await.unwrap();
    assert_eq!(failure(&client, "CREATE EXTENSION postgis").await.0, "0A000");
    assert_eq!(failure(&client, "CREATE EXTENSION pipelinedb SCHEMA a SCHEMA b").await.0, "42601");
    client.batch_execute("DROP EXTENSION IF EXISTS postgis CASCADE").await.unwrap();
    assert_eq!(failure(&client, "DROP EXTENSION postgis").await.0, "42704");
    assert_eq!(failure(&client, "DROP EXTENSION IF EXISTS postgis, postgres_fdw").await.0, "2BP01");
}

#[tokio::test]
async fn comments_stay_with_what_they_are_on() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let client = server.connect().await;
    client
        .batch_execute(
            "CREATE STREAM s (k int);
             CREATE CONTINUOUS VIEW v AS SELECT k, count(*) FROM s GROUP BY k;
             COMMENT ON STREAM s IS 'events';
             COMMENT ON COLUMN s.arrival_timestamp IS 'when';
             COMMENT ON CONTINUOUS VIEW v IS 'groups';
             COMMENT ON COLUMN v.count IS 'how many';
             ALTER STREAM s ADD COLUMN x int;
             CREATE OR REPLACE CONTINUOUS VIEW v AS SELECT k, count(*), sum(x) FROM s GROUP BY k;
             ALTER VIEW v RENAME TO w",
        )
        .await
        .unwrap();
    let all = "SELECT c.relname, d.objsubid, d.description FROM pg_description d JOIN pg_class c ON c.oid = d.objoid
               WHERE d.classoid = 'pg_class'::regclass ORDER BY 1, 2";
    let expected = [["s", "0", "events"], ["s", "3", "when"], ["w", "0", "groups"], ["w", "2", "how many"]];
    assert_eq!(rows(&client, all).await, expected);
    drop((client, server));
    let server = Server::start(dir.path());
    let client = server.connect().await;
    assert_eq!(rows(&client, all).await, expected);
    client.batch_execute("DROP STREAM s CASCADE; CREATE STREAM s (k int)").await.unwrap();
    assert!(rows(&client, all).await.is_empty());
}

#[tokio::test]
async fn a_session_is_ended_by_another() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let (client, other) = (server.connect().await, server.connect().await);
    let id = rows(&other, "SELECT pg_backend_pid()").await[0][0].clone();
    let sleeping = tokio::spawn(async move {
        let error = other.simple_query("SELECT pg_sleep(1000)").await.unwrap_err();
        error.code().map(|code| code.code().to_string())
    });
    let asleep =
        format!("SELECT count(*) FROM pg_stat_activity WHERE pid = {id} AND query LIKE '%pg_sleep(1000)'");
    let started = std::time::Instant::now();
    while rows(&client, &asleep).await != [["1"]] {
        assert!(started.elapsed() < std::time::Duration::from_secs(20));
    }
    assert_eq!(rows(&client, &format!("SELECT pg_terminate_backend({id})")).await, [["t"]]);
    assert_eq!(sleeping.await.unwrap().as_deref(), Some("57P01"));
    while rows(&client, &format!("SELECT pg_terminate_backend({id})")).await != [["f"]] {
        assert!(started.elapsed() < std::time::Duration::from_secs(20));
    }
}
