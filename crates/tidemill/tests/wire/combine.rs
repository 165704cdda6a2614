//! `combine`: groups of a continuous view, and views of several servers, merged by their states.

use tokio_postgres::Client;

use crate::node::until;
use crate::postgres::Postgres;
use crate::proxy::{Mode, Proxy};
use crate::server::{Server, failure, rows};

const AGGREGATES: [(&str, &str, &str); 8] = [
    ("n", "count(*)", "bigint"),
    ("mean", "avg(x)", "numeric"),
    ("total", "sum(x) FILTER (WHERE x > 100)", "bigint"),
    ("kinds", "count(DISTINCT kind)", "bigint"),
    ("median", "percentile_cont(0.5) WITHIN GROUP (ORDER BY y)", "float8"),
    ("kind_list", "string_agg(DISTINCT kind, ',' ORDER BY kind)", "text"),
    ("spread", "stddev(x)", "numeric"),
    ("last", "max(kind)", "text"),
];

fn view(name: &str) -> String {
    let shown = AGGREGATES.map(|(name, call, _)| format!("{call} AS {name}"));
    format!(
        "CREATE STREAM {name}_events (k int, g text, x int, y float8, kind text);
         CREATE CONTINUOUS VIEW {name} AS SELECT k, g, {} FROM {name}_events GROUP BY k, g",
        shown.join(", ")
    )
}

/// Every third row belongs to one of three servers.
fn events(part: Option<i32>) -> String {
    let part = part.map_or(String::new(), |part| format!("WHERE i % 3 = {part}"));
    format!(
        "SELECT i % 7, 'g' || i % 4, i, i * 0.25::float8, 'kind ' || i % 11 FROM generate_series(1, 600) AS i {part}"
    )
}

/// Calls of `combine` for all columns, and the aggregates that they stand for.
fn calls() -> (String, String) {
    let combined = AGGREGATES.map(|(name, ..)| format!("combine({name})")).join(", ");
    (combined, AGGREGATES.map(|(_, call, _)| call).join(", "))
}

async fn with_events(client: &Client, part: Option<i32>) {
    client.batch_execute(&view("v")).await.unwrap();
    client.batch_execute(&format!("INSERT INTO v_events {}", events(part))).await.unwrap();
}

/// A PostgreSQL that has all events.
async fn all_events() -> Option<(Postgres, Client)> {
    let postgres = Postgres::start()?;
    let client = postgres.connect("postgres").await;
    let create = format!("CREATE TABLE e (k, g, x, y, kind) AS {}", events(None));
    client.batch_execute(&create).await.unwrap();
    Some((postgres, client))
}

#[tokio::test]
async fn groups_of_a_view_are_combined() {
    let Some((_postgres, all)) = all_events().await else { return };
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let client = &server.connect().await;
    with_events(client, None).await;
    let (combined, aggregates) = calls();
    for (ours, theirs) in [
        (format!("SELECT {combined} FROM v"), format!("SELECT {aggregates} FROM e")),
        (
            format!("SELECT g, {combined} FROM v WHERE k > 2 GROUP BY g ORDER BY g"),
            format!("SELECT g, {aggregates} FROM e WHERE k > 2 GROUP BY g ORDER BY g"),
        ),
        (
            "SELECT k, combine(c) FROM (SELECT k % 2 AS k, mean AS c FROM v) AS q GROUP BY k ORDER BY k".into(),
            "SELECT k % 2, avg(x) FROM e GROUP BY 1 ORDER BY 1".into(),
        ),
        (
            "SELECT combine(mean) FILTER (WHERE k = 1), combine(n) FROM v HAVING combine(n) > 5".into(),
            "SELECT avg(x) FILTER (WHERE k = 1), count(*) FROM e".into(),
        ),
        ("SELECT combine(n), combine(mean) FROM v WHERE false".into(), "SELECT 0, NULL".into()),
        (
            "WITH w AS (SELECT * FROM v) SELECT combine(mean) FROM (SELECT mean FROM w WHERE k < 3 UNION ALL SELECT mean FROM w WHERE k >= 3) AS u".into(),
            "SELECT avg(x) FROM e".into(),
        ),
        (
            "SELECT d, combine(mean) FROM (VALUES (1, 'a'), (2, 'b'), (9, 'c')) AS t (k, d) LEFT JOIN v USING (k) GROUP BY d ORDER BY d".into(),
            "SELECT d, avg(x) FROM (VALUES (1, 'a'), (2, 'b'), (9, 'c')) AS t (k, d) LEFT JOIN e USING (k) GROUP BY d ORDER BY d".into(),
        ),
        (
            "SELECT k, (SELECT combine(w.n) FROM v AS w WHERE w.k <= t.k) FROM generate_series(1, 3) AS t (k)".into(),
            "SELECT k, (SELECT count(*) FROM e WHERE e.k <= t.k) FROM generate_series(1, 3) AS t (k)".into(),
        ),
    ] {
        assert_eq!(rows(client, &ours).await, rows(&all, &theirs).await, "{ours}");
    }
    client.batch_execute("CREATE VIEW w AS SELECT g, mean AS m FROM v WHERE k < 5").await.unwrap();
    let of_view = rows(client, "SELECT combine(m) FROM w WHERE g = 'g1'").await;
    assert_eq!(of_view, rows(&all, "SELECT avg(x) FROM e WHERE g = 'g1' AND k < 5").await);
    // The states that other servers ask for.
    let own = "SELECT DISTINCT length(partial_state(mean)) > 4 FROM v WHERE k < 2";
    assert_eq!(rows(client, own).await, [["t"]]);
}

#[tokio::test]
async fn what_has_no_states_is_not_combined() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let client = &server.connect().await;
    client
        .batch_execute(
            "CREATE STREAM s (k int, x int);
             CREATE CONTINUOUS VIEW v AS SELECT k, count(*) AS n, sum(x) + 1 AS more FROM s GROUP BY k;
             CREATE CONTINUOUS VIEW ranked AS SELECT k, c, rank() OVER (ORDER BY c) FROM (SELECT k, count(*) AS c FROM s GROUP BY k) AS q;
             CREATE CONTINUOUS VIEW kept AS SELECT k, x FROM s;
             CREATE TABLE t (n bigint)",
        )
        .await
        .unwrap();
    for (query, code) in [
        ("SELECT combine(k) FROM v", "42809"),
        ("SELECT combine(more) FROM v", "42809"),
        ("SELECT combine(n + 1) FROM v", "42809"),
        ("SELECT combine(n) OVER () FROM v", "42809"),
        ("SELECT combine(c) FROM ranked", "42809"),
        ("SELECT combine(x) FROM kept", "42809"),
        ("SELECT combine(n) FROM t", "42809"),
        ("SELECT combine(n) FROM (SELECT max(n) AS n FROM v) AS q", "42809"),
        ("SELECT combine(1)", "42809"),
        ("SELECT combine() FROM v", "42883"),
        ("SELECT combine(n, k) FROM v", "42883"),
        ("SELECT partial_state(k) FROM v", "42809"),
        ("SELECT k FROM v WHERE partial_state(n) IS NULL", "42809"),
        ("SELECT combine(DISTINCT n) FROM v", "0A000"),
        ("SELECT combine(n) FROM (SELECT n FROM v UNION ALL SELECT count(*) FROM t) AS u", "42809"),
        (
            "SELECT combine(x) FROM (SELECT n AS x FROM v UNION ALL SELECT s FROM (SELECT n AS s FROM v) AS q) AS u GROUP BY nope",
            "42703",
        ),
        ("CREATE CONTINUOUS VIEW w AS SELECT combine(x) FROM s", "42809"),
    ] {
        let (found, message) = failure(client, query).await;
        assert_eq!(found, code, "{query}: {message}");
    }
}

/// Three servers with a third of the events each, the last behind a proxy.
struct Setting {
    _dir: tempfile::TempDir,
    servers: Vec<Server>,
    proxy: Proxy,
    client: Client,
}

async fn three() -> Setting {
    let dir = tempfile::tempdir().unwrap();
    let servers: Vec<_> = (0..3).map(|i| Server::start(&dir.path().join(i.to_string()))).collect();
    let proxy = Proxy::start(servers[2].port).await;
    let client = servers[0].connect().await;
    let columns = AGGREGATES.map(|(name, _, ty)| format!("{name} {ty}")).join(", ");
    for (i, server) in servers.iter().enumerate() {
        with_events(&server.connect().await, Some(i as i32)).await;
        let port = if i == 2 { proxy.port } else { server.port };
        let create = format!(
            "CREATE SERVER n{i} FOREIGN DATA WRAPPER tidemill_fdw OPTIONS (host '127.0.0.1', port '{port}', dbname 'tidemill');
             CREATE USER MAPPING FOR PUBLIC SERVER n{i}"
        );
        client.batch_execute(&create).await.unwrap();
    }
    let create =
        format!("CREATE MULTI TENANT TABLE m (k int, g text, {columns}) CHILDREN (n0.v, n1.v, n2.v)");
    client.batch_execute(&create).await.unwrap();
    Setting { _dir: dir, servers, proxy, client }
}

#[tokio::test]
async fn views_of_several_servers_are_combined() {
    let Some((_postgres, all)) = all_events().await else { return };
    let setting = three().await;
    let client = &setting.client;
    let (combined, aggregates) = calls();
    for is_pushed in [true, false] {
        let set =
            format!("SET enable_foreign_aggregates = {is_pushed}; SET enable_foreign_filters = {is_pushed}");
        client.batch_execute(&set).await.unwrap();
        for tail in ["", "WHERE k > 2 AND g <> 'g1'"] {
            let ours = format!("SELECT g, {combined} FROM m {tail} GROUP BY g ORDER BY g");
            let theirs = format!("SELECT g, {aggregates} FROM e {tail} GROUP BY g ORDER BY g");
            assert_eq!(rows(client, &ours).await, rows(&all, &theirs).await, "{ours}");
        }
        let one = rows(client, "SELECT combine(mean) FROM m WHERE __spd_url = '/n1/'").await;
        assert_eq!(one, rows(&all, "SELECT avg(x) FROM e WHERE x % 3 = 1").await);
        let joined = "SELECT d, combine(mean) FROM m JOIN (VALUES (1, 'a'), (2, 'b')) AS t (k, d) USING (k) GROUP BY d ORDER BY d";
        assert_eq!(
            rows(client, joined).await,
            rows(&all, "SELECT CASE k WHEN 1 THEN 'a' ELSE 'b' END, avg(x) FROM e WHERE k IN (1, 2) GROUP BY 1 ORDER BY 1").await
        );
    }
    client.batch_execute("RESET ALL").await.unwrap();
    let plan = rows(client, "EXPLAIN (COSTS OFF) SELECT g, combine(mean) FROM m GROUP BY g")
        .await
        .concat()
        .join("\n");
    assert_eq!(
        plan.matches(r#"SELECT "g", partial_combine("mean") FROM "public"."v" GROUP BY 1"#).count(),
        3,
        "{plan}"
    );
    let (code, message) = failure(client, "SELECT combine(k) FROM m").await;
    assert!(code == "42809" && message.contains("combine"), "{code} {message}");

    // A view there that is another one now.
    let second = setting.servers[1].connect().await;
    second.batch_execute("DROP VIEW v; CREATE CONTINUOUS VIEW v AS SELECT k, g, sum(x::bigint) AS mean FROM v_events GROUP BY k, g").await.unwrap();
    let (code, message) = failure(client, "SELECT combine(mean) FROM m").await;
    assert_eq!(
        (code.as_str(), message.as_str()),
        ("42804", "states of avg(integer) and sum(bigint) cannot be combined")
    );
}

/// A server with nodes asks those.
#[tokio::test]
async fn nodes_of_nodes_are_combined() {
    let Some((_postgres, all)) = all_events().await else { return };
    let setting = three().await;
    let dir = tempfile::tempdir().unwrap();
    let top = Server::start(dir.path());
    let client = top.connect().await;
    let create = format!(
        "CREATE SERVER west FOREIGN DATA WRAPPER tidemill_fdw OPTIONS (host '127.0.0.1', port '{}', dbname 'tidemill');
         CREATE USER MAPPING FOR PUBLIC SERVER west;
         CREATE FOREIGN TABLE f (k int, g text, mean numeric, kinds bigint, __spd_url text) SERVER west OPTIONS (table_name 'm')",
        setting.servers[0].port
    );
    client.batch_execute(&create).await.unwrap();
    let ours = "SELECT k, combine(mean), combine(kinds) FROM f GROUP BY k ORDER BY k";
    let theirs = "SELECT k, avg(x), count(DISTINCT kind) FROM e GROUP BY k ORDER BY k";
    assert_eq!(rows(&client, ours).await, rows(&all, theirs).await);
}

#[tokio::test]
async fn a_dead_node_is_an_error_or_left_out() {
    let Some((_postgres, all)) = all_events().await else { return };
    let setting = three().await;
    let client = &setting.client;
    rows(client, "SELECT combine(n) FROM m").await;
    setting.proxy.set(Mode::Refuse);
    until(client, "SELECT state FROM tidemill.nodes WHERE server = 'n2'", "down").await;
    let (code, message) = failure(client, "SELECT combine(mean) FROM m").await;
    assert!(code == "08001" && message.contains("n2"), "{code} {message}");
    client.batch_execute("SET on_dead_node = skip").await.unwrap();
    let left = rows(client, "SELECT combine(mean), combine(kinds) FROM m").await;
    assert_eq!(left, rows(&all, "SELECT avg(x), count(DISTINCT kind) FROM e WHERE x % 3 < 2").await);
}
