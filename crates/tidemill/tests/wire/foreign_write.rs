//! Rows that are written to foreign tables, and which node gets them.

use std::io::Write;

use bytes::Bytes;
use futures::SinkExt;
use tokio_postgres::Client;

use crate::client::Client as Wire;
use crate::node::until;
use crate::postgres::Postgres;
use crate::proxy::{Mode, Proxy};
use crate::server::{Server, failure, rows};

const STATE: &str = "SELECT state FROM tidemill.nodes WHERE server = 'n2'";

/// Three nodes in one PostgreSQL, the second behind a proxy.
pub struct Setting {
    _node: Postgres,
    pub remote: Client,
    pub proxy: Proxy,
    pub server: Server,
    pub client: Client,
    pub dir: tempfile::TempDir,
}

pub async fn start() -> Option<Setting> {
    let node = Postgres::start()?;
    let remote = node.connect("postgres").await;
    let proxy = Proxy::start(node.port).await;
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("data"));
    let client = server.connect().await;
    for i in 1..=3 {
        let port = if i == 2 { proxy.port } else { node.port };
        let there = format!(
            "CREATE SCHEMA n{i};
             CREATE TABLE n{i}.m (id int, name text DEFAULT 'there', v float8 CHECK (v < 1000), at timestamptz, n numeric);
             CREATE UNIQUE INDEX ON n{i}.m (id)"
        );
        remote.batch_execute(&there).await.unwrap();
        let here = format!(
            "CREATE SERVER n{i} FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '127.0.0.1', port '{port}', dbname 'postgres');
             CREATE USER MAPPING FOR PUBLIC SERVER n{i};
             CREATE FOREIGN TABLE t{i} (id int, label text OPTIONS (column_name 'name'), v float8, at timestamptz, n numeric)
                 SERVER n{i} OPTIONS (schema_name 'n{i}', table_name 'm')"
        );
        client.batch_execute(&here).await.unwrap();
    }
    let create = "CREATE MULTI TENANT TABLE m (id int, name text, v float8, at timestamptz, n numeric)
        CHILDREN (n1.n1.m, n2.n2.m, n3.n3.m)";
    client.batch_execute(create).await.unwrap();
    Some(Setting { _node: node, remote, proxy, server, client, dir })
}

/// How many rows each node has.
pub async fn counts(remote: &Client) -> Vec<String> {
    let counts =
        "SELECT (SELECT count(*) FROM n1.m), (SELECT count(*) FROM n2.m), (SELECT count(*) FROM n3.m)";
    rows(remote, counts).await.remove(0)
}

#[tokio::test]
async fn rows_are_written_to_a_server() {
    let Some(setting) = start().await else { return };
    let Setting { remote, client, .. } = &setting;
    let insert =
        "INSERT INTO t1 VALUES (1, 'one', 1.5, '2020-01-01 12:00+00', 1.10), (2, NULL, NULL, NULL, 'NaN')";
    assert_eq!(client.execute(insert, &[]).await.unwrap(), 2);
    client
        .batch_execute("INSERT INTO t1 (n, id) SELECT x, x FROM generate_series(3, 12) AS x")
        .await
        .unwrap();
    let prepared = client.prepare("INSERT INTO t1 (id, label, v) VALUES ($1, $2, $3)").await.unwrap();
    for id in [20, 21] {
        client.execute(&prepared, &[&id, &"prepared", &2.5_f64]).await.unwrap();
    }
    let sink = client.copy_in("COPY t1 (id, label) FROM STDIN").await.unwrap();
    let mut sink = std::pin::pin!(sink);
    for id in 100..200 {
        sink.send(Bytes::from(format!("{id}\tcopied {id}\n"))).await.unwrap();
    }
    assert_eq!(sink.finish().await.unwrap(), 100);
    let query = "SELECT * FROM TABLE ORDER BY id";
    let there = rows(remote, &format!("SET timezone = UTC; {}", query.replace("TABLE", "n1.m"))).await;
    assert_eq!(there.len(), 114);
    assert_eq!(there[0], ["1", "one", "1.5", "2020-01-01 12:00:00+00", "1.10"]);
    // As in postgres_fdw, what is not given is NULL, whatever the default is there.
    assert_eq!(there[2], ["3", "NULL", "NULL", "NULL", "3"]);
    let here = rows(client, &format!("SET timezone = UTC; {}", query.replace("TABLE", "t1"))).await;
    assert_eq!(here, there);
}

#[tokio::test]
async fn rows_are_dealt_out_to_the_nodes_in_turn() {
    let Some(setting) = start().await else { return };
    let Setting { remote, client, dir, .. } = &setting;
    client.batch_execute("INSERT INTO m (id) SELECT generate_series(1, 300)").await.unwrap();
    assert_eq!(counts(remote).await, ["100", "100", "100"]);
    for id in 301..=306 {
        client.execute(&format!("INSERT INTO m (id) VALUES ({id})"), &[]).await.unwrap();
    }
    assert_eq!(counts(remote).await, ["102", "102", "102"]);
    client
        .batch_execute("INSERT INTO m IN ('/n2/', '/n3/') (id) SELECT generate_series(401, 410)")
        .await
        .unwrap();
    assert_eq!(counts(remote).await, ["102", "107", "107"]);
    // Who names the node gets it.
    client
        .batch_execute("INSERT INTO m (id, __spd_url) VALUES (501, '/n1/'), (502, '/n1/'), (503, '/n3/')")
        .await
        .unwrap();
    assert_eq!(counts(remote).await, ["104", "107", "108"]);
    assert_eq!(failure(client, "INSERT INTO m (id, __spd_url) VALUES (504, '/x/')").await.0, "42704");
    let path = dir.path().join("rows.csv");
    let mut file = std::fs::File::create(&path).unwrap();
    (600..630).for_each(|id| writeln!(file, "{id},{id}.5").unwrap());
    client.batch_execute(&format!("COPY m (id, v) FROM '{}' (FORMAT csv)", path.display())).await.unwrap();
    assert_eq!(counts(remote).await, ["114", "117", "118"]);
    assert_eq!(
        rows(client, "SELECT count(*), count(DISTINCT id), sum(v) FROM m").await,
        [["349", "349", "18450"]]
    );
}

#[tokio::test]
async fn a_table_of_many_nodes_is_dropped_by_its_name() {
    let Some(setting) = start().await else { return };
    let client = &setting.client;
    client
        .batch_execute(
            "CREATE SERVER parent FOREIGN DATA WRAPPER pgspider_core_fdw;
             CREATE FOREIGN TABLE p (id int, __spd_url text) SERVER parent; CREATE VIEW v AS SELECT id FROM m",
        )
        .await
        .unwrap();
    for (statement, state, message) in [
        ("DROP MULTI TENANT TABLE t1", "42809", "\"t1\" is not a multi tenant table"),
        ("DROP MULTI TENANT TABLE nope", "42P01", "multi tenant table \"nope\" does not exist"),
        ("DROP MULTI TENANT TABLE m", "2BP01", "cannot drop"),
        ("DROP MULTI TENANT TABLE m IN ('/n1/')", "42601", "syntax error"),
    ] {
        let (code, told) = failure(client, statement).await;
        assert!(code == state && told.contains(message), "{statement}: {code} {told}");
    }
    client.batch_execute("DROP MULTI TENANT TABLE IF EXISTS nope, m, p CASCADE").await.unwrap();
    for table in ["m", "p", "v"] {
        assert_eq!(failure(client, &format!("SELECT * FROM {table}")).await.0, "42P01", "{table}");
    }
    assert_eq!(rows(client, "SELECT count(*) FROM t1").await, [["0"]]);
}

/// Lines have the columns of the table; which node gets them is told by a list of columns, or by the statement.
#[tokio::test]
async fn copied_rows_need_no_node() {
    let Some(setting) = start().await else { return };
    let Setting { remote, client, dir, .. } = &setting;
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let lines = file("lines", "1\tone\t1.5\t\\N\t\\N\n2\ttwo\t\\N\t\\N\t\\N\n3\tthree\t\\N\t\\N\t2.50\n");
    client.batch_execute(&format!("COPY m FROM '{lines}'")).await.unwrap();
    assert_eq!(counts(remote).await, ["1", "1", "1"]);
    let headed = file("headed", "id,name,v,at,n\n4,four,,,\n5,five,,,\n");
    client
        .batch_execute(&format!("COPY m IN ('/n2/') FROM '{headed}' (FORMAT csv, HEADER match)"))
        .await
        .unwrap();
    assert_eq!(counts(remote).await, ["1", "3", "1"]);
    let ids = file("ids", "6\n7\n8\n9\n");
    client.batch_execute(&format!("COPY public.m IN ('/n1/', '/n3/') (id) FROM '{ids}'")).await.unwrap();
    assert_eq!(counts(remote).await, ["3", "3", "3"]);
    let named = file("named", "10\t/n3/\n11\t/n3/\n");
    client.batch_execute(&format!("COPY m (id, __spd_url) FROM '{named}'")).await.unwrap();
    assert_eq!(counts(remote).await, ["3", "3", "5"]);
    assert_eq!(rows(client, "SELECT sum(id), max(n), max(name) FROM m").await, [["66", "2.50", "two"]]);
    let whole = file("whole", "12\ttwelve\t\\N\t\\N\t\\N\t/n1/\n");
    for (statement, state, message) in [
        (format!("COPY m FROM '{whole}'"), "22P04", "extra data after last expected column"),
        (format!("COPY m IN ('/n9/') FROM '{ids}'"), "42704", "table \"m\" has no node \"/n9/\""),
        (format!("COPY t1 IN ('/n1/') (id) FROM '{ids}'"), "42809", "\"t1\""),
        (format!("COPY m IN ('/n1/') TO '{ids}'"), "42809", "cannot copy from foreign table \"m\""),
        (format!("COPY m IN ('/n1/' FROM '{ids}'"), "42601", "syntax error"),
    ] {
        let (code, told) = failure(client, &statement).await;
        assert!(code == state && told.contains(message), "{statement}: {code} {told}");
    }
    assert_eq!(counts(remote).await, ["3", "3", "5"]);
}

/// None of the nodes has any of it.
#[tokio::test]
async fn what_one_node_refuses_is_on_none() {
    let Some(setting) = start().await else { return };
    let Setting { remote, client, .. } = &setting;
    client.batch_execute("INSERT INTO m (id) SELECT generate_series(1, 9)").await.unwrap();
    for (statement, state, message) in [
        (
            "INSERT INTO m (id) SELECT generate_series(4, 5000)",
            "23505",
            "duplicate key value violates unique constraint",
        ),
        (
            "INSERT INTO m (id, v) SELECT x, x FROM generate_series(10, 2000) AS x",
            "23514",
            "violates check constraint",
        ),
        ("INSERT INTO t1 (id) VALUES (1)", "23505", "duplicate key"),
        ("INSERT INTO m (id) VALUES (99), (1 / 0)", "22012", "division by zero"),
        ("INSERT INTO m (nope) VALUES (1)", "42703", "column \"nope\" of relation \"m\" does not exist"),
        (
            "BEGIN READ ONLY; COMMIT; SET default_transaction_read_only = on; INSERT INTO m (id) VALUES (99)",
            "25006",
            "read-only",
        ),
    ] {
        let (code, told) = failure(client, statement).await;
        assert!(code == state && told.contains(message), "{statement}: {code} {told}");
    }
    client.batch_execute("SET default_transaction_read_only = off").await.unwrap();
    assert_eq!(counts(remote).await, ["3", "3", "3"]);
    let open =
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'tidemill' AND state <> 'idle'";
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while rows(remote, open).await != [["0"]] {
        assert!(std::time::Instant::now() < deadline, "a transaction is left behind");
    }
}

#[tokio::test]
async fn rows_are_changed_where_they_are() {
    let Some(setting) = start().await else { return };
    let Setting { remote, client, .. } = &setting;
    let fill =
        "INSERT INTO m (id, name, v) SELECT x, 'name ' || x % 5, x * 0.5 FROM generate_series(1, 300) AS x";
    client.batch_execute(fill).await.unwrap();
    client.batch_execute("CREATE TABLE local AS SELECT id, name, v, __spd_url FROM m").await.unwrap();
    for (statement, tag) in [
        ("UPDATE TABLE SET name = 'new' WHERE id < 10", 9),
        ("UPDATE TABLE SET v = NULL, name = DEFAULT WHERE name = 'name 3' AND id > 200", 20),
        ("UPDATE TABLE SET v = id WHERE false", 0),
        ("UPDATE TABLE SET name = 'one node' WHERE __spd_url = '/n2/' AND id > 280", 7),
        ("DELETE FROM TABLE WHERE id IN (1, 50, 77)", 3),
        ("DELETE FROM TABLE AS x WHERE x.id > 290 OR x.v IS NULL", 28),
    ] {
        for table in ["m", "local"] {
            let statement = statement.replace("TABLE", table);
            assert_eq!(client.execute(&statement, &[]).await.unwrap(), tag, "{statement}");
        }
        let all = "SELECT id, name, v, __spd_url FROM TABLE ORDER BY id";
        let (there, here) = (all.replace("TABLE", "m"), all.replace("TABLE", "local"));
        assert_eq!(rows(client, &there).await, rows(client, &here).await, "{statement}");
    }
    let before = counts(remote).await;
    let prepared = client.prepare("DELETE FROM m IN ('/n1/') WHERE id > $1").await.unwrap();
    client.execute(&prepared, &[&0]).await.unwrap();
    assert_eq!(counts(remote).await, ["0", &before[1], &before[2]]);
    for (statement, state, message) in [
        ("UPDATE m SET name = upper(name)", "0A000", "this UPDATE cannot be left to the servers of \"m\""),
        (
            "DELETE FROM m WHERE upper(name) = 'NEW'",
            "0A000",
            "this DELETE cannot be left to the servers of \"m\"",
        ),
        ("UPDATE m SET v = 1 FROM t1", "0A000", "UPDATE … FROM of a foreign table is not supported"),
        ("DELETE FROM m USING t1", "0A000", "DELETE … USING of a foreign table is not supported"),
        ("UPDATE m SET __spd_url = '/n1/'", "42P10", "column \"__spd_url\""),
        ("UPDATE m SET id = 7 WHERE id = 8 OR id = 11", "23505", "duplicate key"),
        ("UPDATE m SET v = 5000 WHERE id > 1", "23514", "check constraint"),
        (
            "ALTER FOREIGN TABLE t1 OPTIONS (ADD updatable 'false'); DELETE FROM t1",
            "55000",
            "foreign table \"t1\" does not allow deletes",
        ),
        ("INSERT INTO t1 (id) VALUES (9)", "55000", "foreign table \"t1\" does not allow inserts"),
        ("UPDATE m SET nope = 1", "42703", "column \"nope\" of relation \"m\" does not exist"),
    ] {
        let (code, told) = failure(client, statement).await;
        assert!(code == state && told.contains(message), "{statement}: {code} {told}");
    }
}

/// A dead node is passed over by rows that nobody wants on it, and is an error, or left as it is, otherwise.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_node_gets_no_rows() {
    let Some(setting) = start().await else { return };
    let Setting { remote, client, proxy, server, .. } = &setting;
    client.batch_execute("INSERT INTO m (id) SELECT generate_series(1, 9)").await.unwrap();
    proxy.set(Mode::Refuse);
    client.batch_execute("INSERT INTO m (id) SELECT generate_series(11, 20)").await.unwrap();
    assert_eq!(counts(remote).await, ["8", "3", "8"]);
    assert_eq!(failure(client, "INSERT INTO m IN ('/n2/') (id) VALUES (21)").await.0, "08001");
    assert_eq!(failure(client, "INSERT INTO m (id, __spd_url) VALUES (21, '/n2/')").await.0, "08001");
    assert_eq!(failure(client, "UPDATE m SET name = 'x'").await.0, "08001");
    let mut wire = Wire::connect(server.port, "tidemill");
    wire.query("SET on_dead_node = skip");
    let answer = wire.query("UPDATE m SET name = 'x'");
    assert_eq!((answer.error, answer.tags), (None, vec!["UPDATE 16".to_string()]));
    let warning = &answer.notices[0];
    assert_eq!((warning.get('S'), warning.get('M')), ("WARNING", "node of table \"m\" not changed: /n2/"));
    proxy.set(Mode::Pass);
}

/// As PostgreSQL assigns, which is less than a cast does.
#[tokio::test]
async fn new_values_are_assigned() {
    let Some(setting) = start().await else { return };
    let Setting { remote, client, .. } = &setting;
    remote.batch_execute("ALTER TABLE n1.m ADD short varchar(3); INSERT INTO n1.m VALUES (7)").await.unwrap();
    client.batch_execute("ALTER FOREIGN TABLE t1 ADD COLUMN short varchar(3)").await.unwrap();
    client.batch_execute("UPDATE t1 SET label = 5, short = 'abc  ', v = 2.5::numeric").await.unwrap();
    assert_eq!(rows(remote, "SELECT id, name, v, short FROM n1.m").await, [["7", "5", "2.5", "abc"]]);
    client.batch_execute("UPDATE t1 SET id = 8.5, n = id, label = id").await.unwrap();
    assert_eq!(rows(remote, "SELECT id, n, name FROM n1.m").await, [["9", "7", "7"]]);
    assert_eq!(failure(client, "UPDATE t1 SET short = 'abcd'").await.0, "22001");
    let prepared = client.prepare("UPDATE t1 SET short = $1").await.unwrap();
    let error = client.execute(&prepared, &[&"abcd"]).await.unwrap_err();
    assert_eq!(error.code().unwrap().code(), "22001");
    assert_eq!(failure(client, "UPDATE t1 SET id = label").await.0, "42804");
    assert_eq!(failure(client, "UPDATE t1 SET at = 1").await.0, "42804");
    assert_eq!(rows(remote, "SELECT id, short FROM n1.m").await, [["9", "abc"]]);
}

/// The lines of EXPLAIN.
async fn explained(client: &Client, sql: &str) -> String {
    let lines = rows(client, &format!("EXPLAIN (COSTS OFF) {sql}")).await;
    lines.into_iter().map(|line| line[0].clone() + "\n").collect()
}

#[tokio::test]
async fn explain_shows_where_rows_go() {
    let Some(setting) = start().await else { return };
    let Setting { remote, proxy, client, .. } = &setting;
    let all = [
        (
            "INSERT INTO t1 (id) SELECT generate_series(1, 9)",
            "Foreign Insert on t1
  Remote Table: \"n1\".\"m\"
  ->  Unnest
        ->  Result
",
        ),
        (
            "INSERT INTO m IN ('/n1/', '/n3/') (id) SELECT x FROM generate_series(1, 9) AS x WHERE x > 3",
            "Insert on m
  Routing: rows in turn
  ->  Foreign Insert on \"n1.m\"
        Node: /n1/
        Remote Table: \"n1\".\"m\"
  ->  Foreign Insert on \"n3.m\"
        Node: /n3/
        Remote Table: \"n3\".\"m\"
  ->  Function Scan on generate_series
        Filter: (int4(value) > 3)
",
        ),
        (
            "UPDATE t1 SET v = v + 1, label = NULL WHERE id = 7",
            "Foreign Update on t1
  Remote SQL: UPDATE \"n1\".\"m\" SET \"v\" = (\"v\" + '1'::double precision), \"name\" = NULL WHERE (\"id\" = 7)
",
        ),
        (
            "DELETE FROM m WHERE __spd_url <> '/n2/' AND name = 'x' RETURNING id",
            "Delete on m
  ->  Foreign Delete on \"n1.m\"
        Node: /n1/
        Remote SQL: DELETE FROM \"n1\".\"m\" WHERE (\"name\" = 'x'::text) RETURNING \"id\", \"name\", \"v\", \"at\", \"n\"
  ->  Foreign Delete on \"n3.m\"
        Node: /n3/
        Remote SQL: DELETE FROM \"n3\".\"m\" WHERE (\"name\" = 'x'::text) RETURNING \"id\", \"name\", \"v\", \"at\", \"n\"
",
        ),
        ("DELETE FROM m WHERE false", "Delete on m\n"),
    ];
    for (sql, expected) in all {
        assert_eq!(explained(client, sql).await, expected, "{sql}");
    }
    let by_node = explained(client, "INSERT INTO m (id, __spd_url) VALUES (1, '/n2/')").await;
    assert!(by_node.contains("\n  Routing: by __spd_url, other rows in turn\n"), "{by_node}");
    proxy.set(Mode::Refuse);
    client.execute("INSERT INTO m IN ('/n2/') (id) VALUES (1)", &[]).await.unwrap_err();
    until(client, STATE, "down").await;
    let of_dead = explained(client, "UPDATE m SET v = 1").await;
    assert_eq!(of_dead.matches("Not Written: ").count(), 1, "{of_dead}");
    let of_dead = explained(client, "INSERT INTO m (id) VALUES (1)").await;
    assert_eq!(of_dead.matches("Not Written: connection to server").count(), 1, "{of_dead}");
    assert_eq!(failure(client, "EXPLAIN INSERT INTO m (id) VALUES ('x')").await.0, "22P02");
    assert_eq!(failure(client, "EXPLAIN UPDATE m SET v = now()").await.0, "42804");
    assert_eq!(counts(remote).await, ["0", "0", "0"]);
}

/// Without what no two runs have in common.
async fn analyzed(client: &Client, sql: &str) -> String {
    let lines = rows(client, &format!("EXPLAIN (ANALYZE, COSTS OFF, TIMING OFF, SUMMARY OFF) {sql}")).await;
    lines.into_iter().map(|line| line[0].clone() + "\n").collect()
}

#[tokio::test]
async fn explain_analyze_writes_and_tells_what_each_server_took() {
    let Some(setting) = start().await else { return };
    let Setting { remote, proxy, client, server, .. } = &setting;
    let all = [
        (
            "INSERT INTO m (id, v) SELECT x, x FROM generate_series(1, 8) AS x WHERE x > 1",
            "Insert on m (actual rows=0 loops=1)
  Routing: rows in turn
  ->  Foreign Insert on \"n1.m\"
        Node: /n1/ rows=3
        Remote Table: \"n1\".\"m\"
  ->  Foreign Insert on \"n2.m\"
        Node: /n2/ rows=2
        Remote Table: \"n2\".\"m\"
  ->  Foreign Insert on \"n3.m\"
        Node: /n3/ rows=2
        Remote Table: \"n3\".\"m\"
  ->  Function Scan on generate_series (actual rows=7 loops=1)
        Filter: (int4(value) > 1)
        Rows Removed by Filter: 1
",
        ),
        (
            "INSERT INTO t1 (id) VALUES (20) RETURNING id",
            "Foreign Insert on t1 (actual rows=1 loops=1)
  Node: /n1/ rows=1
  Remote Table: \"n1\".\"m\"
  ->  Memory Scan
",
        ),
        (
            "UPDATE t1 SET v = 0 WHERE id = 20",
            "Foreign Update on t1 (actual rows=0 loops=1)
  Node: /n1/ rows=1
  Remote SQL: UPDATE \"n1\".\"m\" SET \"v\" = '0'::double precision WHERE (\"id\" = 20)
",
        ),
        (
            "DELETE FROM m IN ('/n1/', '/n3/') WHERE id < 8 RETURNING __spd_url",
            "Delete on m (actual rows=4 loops=1)
  ->  Foreign Delete on \"n1.m\"
        Node: /n1/ rows=2
        Remote SQL: DELETE FROM \"n1\".\"m\" WHERE (\"id\" < 8) RETURNING \"id\", \"name\", \"v\", \"at\", \"n\"
  ->  Foreign Delete on \"n3.m\"
        Node: /n3/ rows=2
        Remote SQL: DELETE FROM \"n3\".\"m\" WHERE (\"id\" < 8) RETURNING \"id\", \"name\", \"v\", \"at\", \"n\"
",
        ),
        ("DELETE FROM m WHERE false", "Delete on m (actual rows=0 loops=1)\n"),
    ];
    for (sql, expected) in all {
        assert_eq!(analyzed(client, sql).await, expected, "{sql}");
    }
    assert_eq!(counts(remote).await, ["2", "2", "0"]);
    // It is written as without EXPLAIN: with the block, refused where that only reads, and undone by an error.
    client.batch_execute("BEGIN").await.unwrap();
    let in_block = analyzed(client, "DELETE FROM t1").await;
    assert!(in_block.contains("Node: /n1/ rows=2\n"), "{in_block}");
    assert_eq!(rows(client, "SELECT count(*) FROM t1").await, [["0"]]);
    client.batch_execute("ROLLBACK").await.unwrap();
    let read_only = "BEGIN READ ONLY; EXPLAIN ANALYZE DELETE FROM t1";
    assert_eq!(
        failure(client, read_only).await,
        ("25006".into(), "cannot execute DELETE in a read-only transaction".into())
    );
    client.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(failure(client, "EXPLAIN ANALYZE INSERT INTO m (v) VALUES (1), (2000)").await.0, "23514");
    assert_eq!(counts(remote).await, ["2", "2", "0"]);
    // Times, of parameters too.
    let timed = client.query("EXPLAIN ANALYZE UPDATE t2 SET v = $1", &[&1.5]).await.unwrap();
    let timed: String = timed.iter().map(|row| row.get::<_, String>(0) + "\n").collect();
    for part in [" (actual time=", "Node: /n2/ rows=2 time=", "\nPlanning Time: ", "\nExecution Time: "] {
        assert!(timed.contains(part), "{part} in {timed}");
    }
    // A node that is passed over is told, in lines and as a warning.
    proxy.set(Mode::Refuse);
    let mut wire = Wire::connect(server.port, "tidemill");
    wire.query("SET on_dead_node = skip");
    client.execute("INSERT INTO m IN ('/n2/') (id) VALUES (1)", &[]).await.unwrap_err();
    until(client, STATE, "down").await;
    let answer = wire.query("EXPLAIN (ANALYZE, COSTS OFF) UPDATE m SET v = 7");
    let lines: Vec<_> = answer.rows.iter().map(|row| row[0].clone().unwrap()).collect();
    let place = lines.iter().position(|line| line == "        Node: /n2/ rows=0").unwrap();
    assert!(lines[place + 2].starts_with("        Not Written: connection to server"), "{lines:?}");
    let warnings = answer.notices.iter().filter(|notice| notice.get('S') == "WARNING");
    assert_eq!(warnings.map(|w| w.get('M')).collect::<Vec<_>>(), ["node of table \"m\" not changed: /n2/"]);
}

/// Whoever has asked a server is told once that it has gone, and that it is back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_is_told_when_a_server_goes_and_comes() {
    let Some(setting) = start().await else { return };
    let Setting { client, proxy, server, .. } = &setting;
    let mut sessions: Vec<Wire> = (0..3).map(|_| Wire::connect(server.port, "tidemill")).collect();
    sessions[0].query("SELECT count(*) FROM m");
    sessions[1].query("INSERT INTO m (id) VALUES (1)");
    let mut told = |sql: &str| -> Vec<Vec<(String, String)>> {
        let notice = |answer: crate::client::ErrorFields| (answer.get('S').into(), answer.get('M').into());
        sessions.iter_mut().map(|s| s.query(sql).notices.into_iter().map(notice).collect()).collect()
    };
    let notice = |what: &str| vec![("NOTICE".to_string(), format!("server \"n2\" is {what}"))];
    until(client, STATE, "up").await;
    assert_eq!(told("SELECT 1"), [vec![], vec![], vec![]]);
    proxy.set(Mode::Refuse);
    until(client, STATE, "down").await;
    assert_eq!(told("SELECT 1"), [notice("down"), notice("down"), vec![]]);
    assert_eq!(told("SELECT 1"), [vec![], vec![], vec![]]);
    proxy.set(Mode::Pass);
    until(client, STATE, "up").await;
    assert_eq!(told("SHOW port"), [notice("back"), notice("back"), vec![]]);
    assert_eq!(told("SELECT 1"), [vec![], vec![], vec![]]);
}

/// What has one value for all rows is found first, wherever it is; the servers are told it.
#[tokio::test]
async fn new_values_may_be_those_of_subqueries() {
    let Some(setting) = start().await else { return };
    let Setting { remote, client, .. } = &setting;
    client
        .batch_execute("CREATE TABLE own (x int, t text); INSERT INTO own VALUES (5, 'five'), (7, 'seven')")
        .await
        .unwrap();
    client
        .batch_execute("INSERT INTO m (id, name, __spd_url) VALUES (1, (SELECT t FROM own WHERE x = 5), '/n1/'), ((SELECT 2), 'two', '/n2/')")
        .await
        .unwrap();
    assert_eq!(rows(client, "SELECT id, name FROM m ORDER BY id").await, [["1", "five"], ["2", "two"]]);
    let update = "UPDATE m SET v = (SELECT max(x) FROM own), n = 1 + (SELECT count(*) FROM m), name = (SELECT t FROM own WHERE false) WHERE id <= (SELECT 1)";
    let told = explained(client, update).await;
    assert!(told.contains(r#"SET "v" = '7'::double precision, "n" = '3'::numeric, "name" = NULL"#), "{told}");
    assert_eq!(client.execute(update, &[]).await.unwrap(), 1);
    assert_eq!(
        rows(remote, "SELECT id, name, v, n FROM n1.m UNION ALL SELECT id, name, v, n FROM n2.m ORDER BY 1")
            .await,
        [["1", "NULL", "7", "3"], ["2", "two", "NULL", "NULL"]]
    );
    let prepared = "UPDATE m SET v = (SELECT x FROM own WHERE x > $1) WHERE id = 2";
    assert_eq!(client.execute(prepared, &[&5_i32]).await.unwrap(), 1);
    assert_eq!(rows(remote, "SELECT v FROM n2.m").await, [["7"]]);
    assert_eq!(failure(client, "UPDATE m SET v = (SELECT x FROM own)").await.0, "21000");
    let of_row = "UPDATE m SET v = (SELECT max(x) FROM own WHERE x > id)";
    assert_eq!(failure(client, of_row).await.0, "0A000");
    assert_eq!(client.execute("DELETE FROM m WHERE v = (SELECT max(v) FROM m)", &[]).await.unwrap(), 2);
    let none = "UPDATE m SET v = 0 WHERE EXISTS (SELECT count(*) FROM own WHERE x < 0) AND NOT EXISTS (SELECT FROM own)";
    assert_eq!(client.execute(none, &[]).await.unwrap(), 0);
}

/// No server has to be there for that.
#[tokio::test]
async fn catalogs_tell_which_statements_change_rows() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("data"));
    let client = server.connect().await;
    for (name, wrapper, options) in [
        ("pg", "postgres_fdw", "host '127.0.0.1'"),
        ("points", "influxdb_fdw", "host '127.0.0.1', dbname 'd'"),
        ("files", "file_fdw", ""),
    ] {
        let options = if options.is_empty() { String::new() } else { format!("OPTIONS ({options})") };
        let create = format!(
            "CREATE SERVER {name} FOREIGN DATA WRAPPER {wrapper} {options}; CREATE USER MAPPING FOR PUBLIC SERVER {name}"
        );
        client.batch_execute(&create).await.unwrap();
    }
    client
        .batch_execute(
            "CREATE TABLE a_table (x int);
             CREATE STREAM b_stream (x int);
             CREATE CONTINUOUS VIEW c_view AS SELECT count(*) FROM b_stream;
             CREATE VIEW d_plain AS SELECT 1 AS x;
             CREATE FOREIGN TABLE e_pg (x int) SERVER pg;
             CREATE FOREIGN TABLE f_read (x int) SERVER pg OPTIONS (updatable 'false');
             CREATE FOREIGN TABLE g_points (x int) SERVER points;
             CREATE FOREIGN TABLE h_file (x int) SERVER files OPTIONS (filename '/x.csv', format 'csv');
             CREATE MULTI TENANT TABLE i_files (x int) CHILDREN (files.public.h OPTIONS (filename '/x.csv', format 'csv'));
             CREATE MULTI TENANT TABLE j_both (x int) CHILDREN (files.public.h OPTIONS (filename '/x.csv', format 'csv'), pg.public.h)",
        )
        .await
        .unwrap();
    let told = "SELECT c.relname, t.is_insertable_into, pg_relation_is_updatable(c.oid, false)
        FROM pg_class c JOIN information_schema.tables t ON t.table_name = c.relname
        WHERE t.table_schema = 'public' AND c.relname LIKE '_\\_%' ORDER BY 1";
    let wanted = [
        ["a_table", "YES", "28"],
        ["b_stream", "YES", "8"],
        ["c_view", "NO", "0"],
        ["d_plain", "NO", "0"],
        ["e_pg", "YES", "28"],
        ["f_read", "NO", "0"],
        ["g_points", "YES", "8"],
        ["h_file", "NO", "0"],
        ["i_files", "NO", "0"],
        ["j_both", "YES", "28"],
    ];
    assert_eq!(rows(&client, told).await, wanted);
    let named = "SELECT pg_relation_is_updatable('a_table', true), pg_relation_is_updatable('pg_class'::regclass, true)";
    assert_eq!(rows(&client, named).await, [["28", "0"]]);
}
