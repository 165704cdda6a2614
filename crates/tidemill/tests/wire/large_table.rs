//! What is known about the size of a server's tables, and what is done with it.

use tokio_postgres::{Client, NoTls};

use crate::postgres::Postgres;
use crate::server::{Server, rows};

struct Setting {
    remote: Client,
    client: Client,
    _node: Postgres,
    _server: Server,
    _dir: tempfile::TempDir,
}

/// A table of some 20 MB on one server, a small one on another, which are the same.
async fn start() -> Option<Setting> {
    let node = Postgres::start()?;
    let config = format!("host=127.0.0.1 port={} user=postgres", node.port);
    let (remote, connection) = tokio_postgres::connect(&config, NoTls).await.unwrap();
    tokio::spawn(async move { drop(connection.await) });
    let tables = "CREATE TABLE large AS SELECT x AS id, x * 0.5::float8 AS v, repeat('x', 300) AS pad FROM generate_series(1, 60000) AS x;
                  CREATE INDEX ON large (id);
                  CREATE TABLE small AS SELECT x * 1000 AS id, 'name ' || x AS name FROM generate_series(1, 40) AS x;
                  ANALYZE large; ANALYZE small";
    remote.batch_execute(tables).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let client = server.connect().await;
    for (name, columns) in [("large", "id int, v float8, pad text"), ("small", "id int, name text")] {
        let here = format!(
            "CREATE SERVER of_{name} FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '127.0.0.1', port '{}', dbname 'postgres');
             CREATE USER MAPPING FOR PUBLIC SERVER of_{name};
             CREATE FOREIGN TABLE {name} ({columns}) SERVER of_{name}",
            node.port
        );
        client.batch_execute(&here).await.unwrap();
    }
    Some(Setting { remote, client, _node: node, _server: server, _dir: dir })
}

/// Lines of EXPLAIN that begin like this, after the beginning.
async fn explained(client: &Client, explain: &str, begin: &str) -> Vec<String> {
    let lines = rows(client, explain).await.concat();
    lines.iter().filter_map(|line| line.trim().strip_prefix(begin)).map(str::to_string).collect()
}

#[tokio::test]
async fn a_large_table_is_read_in_ranges_of_pages() {
    let Some(Setting { remote, client, .. }) = &start().await else { return };
    let asked = explained(client, "EXPLAIN SELECT id, v FROM large", "Remote SQL: ").await;
    assert_eq!(asked.len(), 2, "{asked:?}");
    assert!(asked[0].contains("(ctid < '(") && asked[1].contains("(ctid >= '("), "{asked:?}");
    let query = "SELECT count(*), sum(v), sum(length(pad)), min(id), max(id) FROM large";
    let wanted = rows(remote, query).await;
    client.batch_execute("SET enable_foreign_aggregates = off").await.unwrap();
    assert_eq!(rows(client, query).await, wanted);
    let nodes = "SELECT count(*), sum(rows), count(DISTINCT remote_sql) FROM tidemill.last_query_nodes";
    assert_eq!(rows(client, nodes).await, [["2", "60000", "2"]]);
    // What has an index, a limit or an end of its own is one query.
    client.batch_execute("RESET enable_foreign_aggregates").await.unwrap();
    for query in ["SELECT v FROM large WHERE id = 7", "SELECT v FROM large LIMIT 9", query] {
        assert_eq!(explained(client, &format!("EXPLAIN {query}"), "Remote SQL: ").await.len(), 1, "{query}");
    }
    client.batch_execute("SET foreign_scan_connections = 1").await.unwrap();
    assert_eq!(explained(client, "EXPLAIN SELECT id, v FROM large", "Remote SQL: ").await.len(), 1);
}

/// The smaller side is hashed, whichever is named first.
#[tokio::test]
async fn sizes_choose_the_side_of_a_join_that_is_read_first() {
    let Some(Setting { remote, client, .. }) = &start().await else { return };
    client.batch_execute("SET foreign_dynamic_filter_wait = '60s'").await.unwrap();
    for from in ["large JOIN small USING (id)", "small JOIN large USING (id)"] {
        let query = format!("SELECT name, v FROM {from} WHERE name <> 'name 3' ORDER BY name");
        assert_eq!(rows(client, &query).await, rows(remote, &query).await, "{query}");
        let explain = format!("EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF) {query}");
        let nodes = explained(client, &explain, "Node: ").await;
        assert!(nodes[0].starts_with("/of_small/ rows=39 bytes="), "{nodes:?}");
        assert!(nodes[1].starts_with("/of_large/ rows=39 bytes="), "{nodes:?}");
        let asked = explained(client, &explain, "Remote SQL: ").await;
        assert!(asked[1].contains(r#"("id" = ANY ('{1000,2000,"#), "{asked:?}");
    }
    let lines = rows(client, "EXPLAIN SELECT v FROM large LIMIT 100000").await.concat();
    assert!(lines.iter().any(|line| line.contains("Foreign Scan on large  (rows=60000)")), "{lines:?}");
}
