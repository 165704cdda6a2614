//! Plans that are kept are used as long as a new one would be the same, and not longer.

use std::time::Duration;

use tokio_postgres::Client;

use crate::postgres::Postgres;
use crate::server::{Server, failure, rows};

struct Setting {
    _node: Postgres,
    remote: Client,
    server: Server,
    client: Client,
    _dir: tempfile::TempDir,
}

/// Two nodes with a table of 50 rows each.
async fn start() -> Option<Setting> {
    let node = Postgres::start()?;
    let remote = node.connect("postgres").await;
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start_with(dir.path(), &["--trust-loopback"]);
    let client = server.connect().await;
    for i in 1..=2 {
        let there = format!(
            "CREATE SCHEMA n{i};
             CREATE TABLE n{i}.m AS SELECT x AS id, timestamptz '2020-01-01 00:00Z' + x * interval '1 hour' AS at
                 FROM generate_series({i}, 100, 2) AS x"
        );
        remote.batch_execute(&there).await.unwrap();
        let here = format!(
            "CREATE SERVER n{i} FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '127.0.0.1', port '{}', dbname 'postgres');
             CREATE USER MAPPING FOR PUBLIC SERVER n{i}",
            node.port
        );
        client.batch_execute(&here).await.unwrap();
    }
    let create = "CREATE MULTI TENANT TABLE m (id int, at timestamptz) CHILDREN (n1.n1.m, n2.n2.m)";
    client.batch_execute(create).await.unwrap();
    Some(Setting { _node: node, remote, server, client, _dir: dir })
}

async fn reused(client: &Client) -> u64 {
    let query = "SELECT value::int8 FROM tidemill.metrics WHERE name = 'tidemill_plans_reused_total'";
    rows(client, query).await[0][0].parse().unwrap()
}

#[tokio::test]
async fn a_query_that_is_asked_again_is_planned_once() {
    let Some(Setting { remote, server, client, .. }) = &start().await else { return };
    let alone = "CREATE FOREIGN TABLE alone (id int) SERVER n1 OPTIONS (schema_name 'n1', table_name 'm')";
    client.batch_execute(alone).await.unwrap();
    let queries = [
        ("SELECT id FROM m WHERE id = 7", "7"),
        ("SELECT id FROM alone ORDER BY id DESC LIMIT 1 OFFSET 1", "97"),
        ("SELECT id FROM m ORDER BY id DESC LIMIT 1", "100"),
        ("SELECT row_number() OVER () FROM m WHERE id = 8", "1"),
        ("SELECT id FROM m WHERE at = '2020-01-01 03:00Z'", "3"),
        ("SELECT id FROM (SELECT * FROM m ORDER BY at LIMIT 1) AS first", "1"),
    ];
    for (query, answer) in queries {
        let is_kept = !query.contains("OVER");
        let before = reused(client).await;
        for _ in 0..3 {
            assert_eq!(rows(client, query).await, [[answer]], "{query}");
        }
        assert_eq!(reused(client).await - before, if is_kept { 2 } else { 0 }, "{query}");
    }
    let before = reused(client).await;
    let other = server.connect().await;
    assert_eq!(rows(&other, "SELECT id FROM m WHERE id = 7").await, [["7"]]);
    assert_eq!(reused(client).await - before, 1);
    // The rows are those of the moment.
    remote.batch_execute("INSERT INTO n1.m VALUES (101, now()), (7, now())").await.unwrap();
    assert_eq!(rows(client, "SELECT id FROM m ORDER BY id DESC LIMIT 1").await, [["101"]]);
    assert_eq!(rows(client, "SELECT id FROM m WHERE id = 7").await, [["7"], ["7"]]);
    assert_eq!(reused(client).await - before, 3);
    let nodes = "SELECT server, state, rows FROM tidemill.last_query_nodes ORDER BY server";
    assert_eq!(rows(client, nodes).await, [["n1", "complete", "2"], ["n2", "complete", "0"]]);
    // In a transaction as well, which reads what it has written there.
    let block = "BEGIN; INSERT INTO m (id, at, __spd_url) VALUES (500, now(), '/n1/')";
    client.batch_execute(block).await.unwrap();
    assert_eq!(rows(client, "SELECT id FROM m ORDER BY id DESC LIMIT 1").await, [["500"]]);
    client.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(rows(client, "SELECT id FROM m ORDER BY id DESC LIMIT 1").await, [["101"]]);
}

#[tokio::test]
async fn a_prepared_statement_without_parameters_is_planned_once() {
    let Some(Setting { client, .. }) = &start().await else { return };
    let before = reused(client).await;
    let prepared = client.prepare("SELECT id FROM m WHERE id = 7").await.unwrap();
    for _ in 0..4 {
        assert_eq!(client.query(&prepared, &[]).await.unwrap()[0].get::<_, i32>(0), 7);
    }
    assert_eq!(reused(client).await - before, 3);
    let with_one = client.prepare("SELECT id FROM m WHERE id = $1").await.unwrap();
    for id in [7, 8, 8] {
        assert_eq!(client.query(&with_one, &[&id]).await.unwrap()[0].get::<_, i32>(0), id);
    }
    assert_eq!(reused(client).await - before, 3);
}

#[tokio::test]
async fn what_depends_on_more_is_planned_each_time() {
    let Some(Setting { remote, client, .. }) = &start().await else { return };
    client.batch_execute("CREATE TABLE here (id int); INSERT INTO here VALUES (7)").await.unwrap();
    let lately = "CREATE VIEW lately AS SELECT id FROM m WHERE at < timestamptz 'now'";
    client.batch_execute(lately).await.unwrap();
    let before = reused(client).await;
    for query in [
        "SELECT id FROM m WHERE id = 7 AND at < now()",
        "SELECT id FROM m WHERE id = 7 AND at < 'now'",
        "SELECT id FROM m WHERE id = 7 AND at < timestamptz 'tomorrow'",
        "SELECT id FROM m WHERE id = 7 AND random() >= 0",
        "SELECT id FROM m WHERE id = 7 AND current_setting('TimeZone') <> ''",
        "SELECT id FROM m WHERE id = (SELECT id FROM here)",
        "SELECT id FROM m JOIN here USING (id)",
        "SELECT id FROM lately WHERE id = 7",
    ] {
        for _ in 0..2 {
            assert_eq!(rows(client, query).await, [["7"]], "{query}");
        }
        assert_eq!(reused(client).await, before, "{query}");
    }
    // The clock goes on.
    remote
        .batch_execute("INSERT INTO n1.m VALUES (300, clock_timestamp() + interval '0.2 s')")
        .await
        .unwrap();
    let query = "SELECT id FROM m WHERE id = 300 AND at < 'now'";
    assert!(rows(client, query).await.is_empty());
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(rows(client, query).await, [["300"]]);
}

#[tokio::test]
async fn there_are_limits_to_what_is_kept() {
    let Some(Setting { remote, client, .. }) = &start().await else { return };
    let twice = async |query: &str| {
        let before = reused(client).await;
        for _ in 0..2 {
            assert_eq!(rows(client, query).await, [["7"]], "{query}");
        }
        reused(client).await - before
    };
    // TEXT_BYTES_MAX
    let long = |bytes: usize| {
        let query = "SELECT id FROM m WHERE id = 7 AND id <> ";
        format!("{query}{:>1$}", 8, bytes - query.len())
    };
    assert_eq!((twice(&long(4096)).await, twice(&long(4097)).await), (1, 0));
    // SCANS_MAX
    for i in 0..65 {
        remote.batch_execute(&format!("CREATE TABLE n1.t{i} AS SELECT {i} AS id")).await.unwrap();
    }
    for children in [64, 65] {
        let names: Vec<_> = (0..children).map(|i| format!("n1.n1.t{i}")).collect();
        let create =
            format!("CREATE MULTI TENANT TABLE t{children} (id int) CHILDREN ({})", names.join(", "));
        client.batch_execute(&create).await.unwrap();
    }
    let of = |children| format!("SELECT id FROM t{children} WHERE id = 7");
    assert_eq!((twice(&of(64)).await, twice(&of(65)).await), (1, 0));
    // PLANS_MAX
    let query = |other: usize| format!("SELECT id FROM m WHERE id = 7 AND id <> 10{other}");
    for other in 0..64 {
        twice(&query(other)).await;
    }
    assert_eq!(twice(&query(0)).await, 2);
    twice(&query(64)).await;
    assert_eq!(twice(&query(1)).await, 1);
}

#[tokio::test]
async fn settings_and_definitions_make_another_plan() {
    let Some(Setting { client, .. }) = &start().await else { return };
    let query = "SELECT id FROM m WHERE at = '2020-01-01 03:00'";
    for (zone, id) in [("UTC", "3"), ("Europe/Berlin", "2"), ("UTC", "3")] {
        client.batch_execute(&format!("SET TimeZone = '{zone}'")).await.unwrap();
        for _ in 0..2 {
            assert_eq!(rows(client, query).await, [[id]], "{zone}");
        }
    }
    client.batch_execute("BEGIN; SET LOCAL TimeZone = 'Europe/Berlin'").await.unwrap();
    assert_eq!(rows(client, query).await, [["2"]]);
    client.batch_execute("COMMIT").await.unwrap();
    assert_eq!(rows(client, query).await, [["3"]]);
    let prepared = client.prepare(query).await.unwrap();
    for _ in 0..2 {
        assert_eq!(client.query(&prepared, &[]).await.unwrap()[0].get::<_, i32>(0), 3);
    }
    let again =
        "DROP FOREIGN TABLE m; CREATE MULTI TENANT TABLE m (id int, at timestamptz) CHILDREN (n2.n2.m)";
    client.batch_execute(again).await.unwrap();
    assert!(rows(client, query).await.is_empty());
    assert!(client.query(&prepared, &[]).await.unwrap().is_empty());
    client.batch_execute("DROP FOREIGN TABLE m").await.unwrap();
    assert_eq!(failure(client, query).await.0, "42P01");
}

#[tokio::test]
async fn plans_do_not_keep_a_dropped_server() {
    let Some(Setting { remote, client, .. }) = &start().await else { return };
    for _ in 0..2 {
        assert_eq!(rows(client, "SELECT id FROM m WHERE id = 7").await, [["7"]]);
    }
    client
        .batch_execute("DROP FOREIGN TABLE m; DROP SERVER n1 CASCADE; DROP SERVER n2 CASCADE")
        .await
        .unwrap();
    let connections = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'";
    let end = tokio::time::Instant::now() + Duration::from_secs(30);
    while rows(remote, connections).await != [["1"]] {
        assert!(tokio::time::Instant::now() < end, "{:?}", rows(remote, connections).await);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
