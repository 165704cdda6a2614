//! A multi-tenant table over nodes of several kinds is as one table that holds all their rows.

use rusqlite::Connection;

use super::Ours;
use super::row::{COLUMNS, inserts, rows};
use crate::postgres::Postgres;
use crate::server::rows as read;

#[tokio::test]
async fn nodes_of_several_kinds_are_read_as_one() {
    let Some(node) = Postgres::start() else { return };
    let ours = Ours::start().await;
    let rows = rows(300, 7);
    let (of_postgres, rest) = rows.split_at(100);
    let (of_sqlite, of_file) = rest.split_at(100);
    let there = node.connect("postgres").await;
    there
        .batch_execute(&format!("CREATE TABLE f ({COLUMNS}); {}", inserts("f", of_postgres, false)))
        .await
        .unwrap();
    let (database, csv) = (ours.path("s.db"), ours.path("f.csv"));
    let sqlite = Connection::open(&database).unwrap();
    sqlite.execute_batch(&format!("CREATE TABLE f ({COLUMNS}); {}", inserts("f", of_sqlite, false))).unwrap();
    std::fs::write(&csv, of_file.iter().map(|row| row.csv() + "\n").collect::<String>()).unwrap();
    ours.run(&format!(
        "CREATE SERVER pg FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '127.0.0.1', port '{}', dbname 'postgres');
         CREATE USER MAPPING FOR PUBLIC SERVER pg OPTIONS (user 'postgres');
         CREATE SERVER lite FOREIGN DATA WRAPPER sqlite_fdw OPTIONS (database '{database}');
         CREATE SERVER files FOREIGN DATA WRAPPER file_fdw;
         CREATE SERVER parent FOREIGN DATA WRAPPER pgspider_core_fdw;
         CREATE FOREIGN TABLE f ({COLUMNS}, __spd_url text) SERVER parent;
         CREATE FOREIGN TABLE f__pg__0 ({COLUMNS}) SERVER pg OPTIONS (table_name 'f');
         CREATE FOREIGN TABLE f__lite__0 ({COLUMNS}) SERVER lite OPTIONS (table 'f');
         CREATE FOREIGN TABLE f__files__0 ({COLUMNS}) SERVER files OPTIONS (filename '{csv}', format 'csv');
         CREATE TABLE ours ({COLUMNS})",
        node.port
    ))
    .await;
    ours.run(&inserts("ours", &rows, false)).await;
    ours.compare("f", 1).await;
    let by_node = "SELECT __spd_url, count(*), sum(id), max(name) FROM f GROUP BY __spd_url ORDER BY 1";
    let found = read(&ours.client, by_node).await;
    let nodes: Vec<_> = found.iter().map(|row| (row[0].as_str(), row[1].as_str())).collect();
    assert_eq!(nodes, [("/files/", "100"), ("/lite/", "100"), ("/pg/", "100")]);
    let few = "SELECT count(*) FROM f IN ('/lite/', '/files/') WHERE id > 150";
    assert_eq!(read(&ours.client, few).await, [["150"]]);
    // Children that are named: one in the main database of SQLite, one in a schema, one with options.
    ours.run(&format!(
        "CREATE MULTI TENANT TABLE m (id int, name text) CHILDREN (lite.f, pg.public.f);
         CREATE MULTI TENANT TABLE whole ({COLUMNS})
             CHILDREN (lite.f, pg.public.f, files.f OPTIONS (filename '{csv}', format 'csv'))"
    ))
    .await;
    assert_eq!(read(&ours.client, "SELECT count(*) FROM m").await, [["200"]]);
    ours.compare("whole", 1).await;
}

const MIXED: &str = "id int, k int, v float8, n numeric, s text, b bool, at timestamptz";

/// A row of `t`, as `VALUES` or as a line of CSV have it.
fn mixed(id: usize, quote: &str) -> String {
    let cells = [
        id.to_string(),
        (id % 5).to_string(),
        format!("{:?}", (id * 7 % 40) as f64 / 4.0),
        format!("{}", (id % 9) as f64 / 2.0),
        format!("{quote}s{}{quote}", id % 4),
        id.is_multiple_of(3).to_string(),
        format!("{quote}2021-03-0{} {:02}:30:00+00{quote}", 1 + id % 8, id % 24),
    ];
    cells.join(",")
}

/// `t` over two tables of PostgreSQL, one of SQLite and a file; `ours` has the same rows, as has `sig` the names of keys.
async fn projected(node: &Postgres) -> Ours {
    let ours = Ours::start().await;
    let values = |ids: std::ops::Range<usize>| {
        let rows: Vec<_> = ids.map(|id| format!("({})", mixed(id, "'"))).collect();
        rows.join(", ")
    };
    let there = node.connect("postgres").await;
    let create =
        |name: &str, ids| format!("CREATE TABLE {name} ({MIXED}); INSERT INTO {name} VALUES {}", values(ids));
    let two = format!("{}; {}", create("t1", 0..60), create("t2", 60..120));
    there.batch_execute(&two).await.unwrap();
    let (database, csv) = (ours.path("t.db"), ours.path("t.csv"));
    Connection::open(&database).unwrap().execute_batch(&create("t", 120..180)).unwrap();
    std::fs::write(&csv, (180..240).map(|id| mixed(id, "\"") + "\n").collect::<String>()).unwrap();
    ours.run(&format!(
        "CREATE SERVER pg FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '127.0.0.1', port '{}', dbname 'postgres');
         CREATE USER MAPPING FOR PUBLIC SERVER pg OPTIONS (user 'postgres');
         CREATE SERVER lite FOREIGN DATA WRAPPER sqlite_fdw OPTIONS (database '{database}');
         CREATE SERVER files FOREIGN DATA WRAPPER file_fdw;
         CREATE SERVER parent FOREIGN DATA WRAPPER pgspider_core_fdw;
         CREATE FOREIGN TABLE t ({MIXED}, __spd_url text) SERVER parent;
         CREATE FOREIGN TABLE t__pg__0 ({MIXED}) SERVER pg OPTIONS (table_name 't1');
         CREATE FOREIGN TABLE t__pg__1 ({MIXED}) SERVER pg OPTIONS (table_name 't2');
         CREATE FOREIGN TABLE t__lite__0 ({MIXED}) SERVER lite OPTIONS (table 't');
         CREATE FOREIGN TABLE t__files__0 ({MIXED}) SERVER files OPTIONS (filename '{csv}', format 'csv');
         CREATE TABLE ours ({MIXED}); INSERT INTO ours VALUES {};
         CREATE TABLE sig (s text, name text, n numeric); INSERT INTO sig VALUES ('s0', 'a', 0.50), ('s1', 'b', 1), ('s3', 'a', 2.0);
         SET timezone = 'UTC'",
        node.port,
        values(0..240)
    ))
    .await;
    ours
}

/// Rows go to the nodes that take some.
#[tokio::test]
async fn rows_are_dealt_to_nodes_that_can_be_written() {
    let Some(node) = Postgres::start() else { return };
    let ours = projected(&node).await;
    let counts = "SELECT __spd_url, count(*) FROM t WHERE id > 999 GROUP BY 1 ORDER BY 1";
    ours.run("INSERT INTO t (id, k) SELECT x, 1 FROM generate_series(1001, 1006) AS x").await;
    assert_eq!(read(&ours.client, counts).await, [["/lite/", "2"], ["/pg/", "4"]]);
    let sink = ours.client.copy_in("COPY t (id, k) FROM STDIN").await.unwrap();
    let mut sink = std::pin::pin!(sink);
    futures::SinkExt::send(&mut sink, bytes::Bytes::from("1007\t1\n1008\t1\n1009\t1\n")).await.unwrap();
    assert_eq!(sink.finish().await.unwrap(), 3);
    assert_eq!(read(&ours.client, counts).await, [["/lite/", "3"], ["/pg/", "6"]]);
    let returning = "INSERT INTO t (id, k) VALUES (1010, 1), (1011, 1), (1012, 1) RETURNING id";
    assert_eq!(read(&ours.client, returning).await.len(), 3);
    ours.run("ALTER FOREIGN TABLE t__pg__1 OPTIONS (ADD updatable 'false')").await;
    ours.run("INSERT INTO t (id) VALUES (1013), (1014), (1015), (1016)").await;
    assert_eq!(read(&ours.client, counts).await, [["/lite/", "6"], ["/pg/", "10"]]);
    let only_read = "foreign tables of this kind of server are only read";
    let not_updatable = "foreign table \"t__pg__1\" does not allow inserts";
    for (statement, state, message) in [
        ("INSERT INTO t IN ('/files/') (id) VALUES (1)", "0A000", only_read),
        ("INSERT INTO t IN ('/lite/', '/files/') (id) VALUES (1)", "0A000", only_read),
        ("INSERT INTO t (id, __spd_url) VALUES (1, '/lite/'), (2, '/files/')", "0A000", only_read),
        ("INSERT INTO t__files__0 (id) VALUES (1)", "0A000", only_read),
        ("INSERT INTO t__pg__1 (id) VALUES (1)", "55000", not_updatable),
        ("UPDATE t IN ('/lite/', '/files/') SET k = 2 WHERE id > 900", "0A000", only_read),
        ("DELETE FROM t__files__0 WHERE upper(s) = 'S1'", "0A000", only_read),
    ] {
        ours.check_failure(statement, state, message).await;
    }
    assert_eq!(read(&ours.client, counts).await, [["/lite/", "6"], ["/pg/", "10"]]);
    ours.run("DROP FOREIGN TABLE t__pg__0; DROP FOREIGN TABLE t__lite__0").await;
    // None of those that are left takes any.
    ours.check_failure("INSERT INTO t (id) VALUES (1)", "0A000", only_read).await;
}

/// An error tells what is in the way, and on which server.
#[tokio::test]
async fn updates_that_cannot_be_left_to_servers_say_why() {
    let Some(node) = Postgres::start() else { return };
    let ours = projected(&node).await;
    let condition = "Its condition does not mean the same there.";
    for (statement, message, detail) in [
        (
            "UPDATE t SET k = 2 WHERE id > 900",
            "foreign tables of this kind of server are only read",
            "Foreign table \"t__files__0\" is on server \"files\".",
        ),
        (
            "DELETE FROM t WHERE upper(s) = 'S1'",
            "foreign tables of this kind of server are only read",
            "Foreign table \"t__files__0\" is on server \"files\".",
        ),
        (
            "UPDATE t IN ('/pg/', '/lite/') SET v = 1, k = k + 1",
            "this UPDATE cannot be left to the servers of \"t\"",
            "The new value of \"k\" does not mean the same on server \"lite\".",
        ),
        (
            "UPDATE t SET s = upper(s) WHERE __spd_url = '/pg/'",
            "this UPDATE cannot be left to the servers of \"t\"",
            "The new value of \"s\" does not mean the same on server \"pg\".",
        ),
        (
            "DELETE FROM t IN ('/pg/') WHERE upper(s) = 'S1'",
            "this DELETE cannot be left to the servers of \"t\"",
            condition,
        ),
        (
            "UPDATE t IN ('/pg/') SET k = 1 WHERE id IN (SELECT id FROM t__files__0)",
            "this UPDATE cannot be left to the servers of \"t\"",
            condition,
        ),
    ] {
        let error = ours.client.batch_execute(statement).await.expect_err(statement);
        let error = error.as_db_error().unwrap_or_else(|| panic!("{statement}: {error}"));
        let told = (error.code().code(), error.message(), error.detail());
        assert_eq!(told, ("0A000", message, Some(detail)), "{statement}");
    }
    ours.run("UPDATE t SET k = 2 WHERE id > 900 AND __spd_url <> '/files/'").await;
    ours.run("UPDATE t IN ('/pg/') SET k = k + 1").await;
}

/// Some nodes fold what is over a projection, the rows of the others are folded here: over the same projection.
#[tokio::test]
async fn what_is_over_projections_is_folded_alike_on_all_nodes() {
    let Some(node) = Postgres::start() else { return };
    let ours = projected(&node).await;
    for query in [
        // The projection keeps the column's name.
        "SELECT sum(v), avg(v), min(v), max(v) FROM (SELECT v * 2 AS v FROM TABLE) AS x",
        "SELECT DISTINCT s FROM (SELECT s || 'z' AS s FROM TABLE) AS x",
        "SELECT b, count(*) FROM (SELECT NOT b AS b, id FROM TABLE) AS x GROUP BY b",
        "SELECT k, sum(k), count(*) FROM (SELECT k % 2 AS k FROM TABLE) AS x GROUP BY k",
        "SELECT id, k, count(*) FROM (SELECT k AS id, id % 3 AS k FROM TABLE) AS x GROUP BY id, k",
        "SELECT k, sum(n) FROM (SELECT k, -n AS n FROM TABLE) AS x GROUP BY k",
        "WITH x AS (SELECT n + 1 AS n, s FROM TABLE) SELECT n, max(s) FROM x GROUP BY n",
        "SELECT s, sum(v) FROM (SELECT s, v + 1 AS v FROM (SELECT s || s AS s, v * 2 AS v FROM TABLE) AS y) AS x GROUP BY s",
        "SELECT max(k), count(*) FROM (SELECT DISTINCT k + k AS k FROM TABLE) AS x",
        // Keys and arguments are computed.
        "SELECT extract(hour FROM at), count(*) FROM TABLE GROUP BY 1",
        "SELECT extract(hour FROM at), avg(v) FROM TABLE GROUP BY 1",
        "SELECT date_trunc('day', at), sum(n) FROM TABLE GROUP BY 1",
        "SELECT k + k, count(*), sum(v) FROM TABLE GROUP BY 1",
        "SELECT v::numeric, count(*) FROM TABLE GROUP BY 1",
        "SELECT v * 2, max(s) FROM TABLE GROUP BY 1",
        "SELECT n, count(*), sum(n * 2) FROM TABLE GROUP BY n",
        "SELECT upper(s), b, count(*), sum(id) FROM TABLE WHERE k > 1 GROUP BY 1, 2",
        "SELECT CASE WHEN k > 2 THEN 'many' ELSE s END, count(*) FROM TABLE GROUP BY 1",
        "SELECT DISTINCT n * 2, k FROM TABLE",
        "SELECT count(DISTINCT s), count(DISTINCT k + 1) FROM TABLE",
        "SELECT at::date, bool_and(b), variance(k) FROM TABLE GROUP BY 1",
        "SELECT k, count(*) FILTER (WHERE b) FROM TABLE GROUP BY k",
        "SELECT length(s || k), sum(length(s)) FROM TABLE GROUP BY 1 HAVING count(*) > 1",
        // Subqueries.
        "SELECT id, (SELECT count(*) FROM TABLE AS y WHERE y.s = x.s AND y.id < x.id) FROM TABLE AS x WHERE id IN (1, 100, 200)",
        "SELECT id, (SELECT sum(v) FROM TABLE AS y WHERE y.k = x.k) FROM TABLE AS x WHERE id % 50 = 1",
        "SELECT k, count(*) FROM TABLE AS x WHERE v > (SELECT avg(v) FROM TABLE AS y WHERE y.s = x.s) GROUP BY k",
        "SELECT s, count(*) FROM TABLE AS x WHERE EXISTS (SELECT FROM TABLE AS y WHERE y.id = x.id + 5) GROUP BY s",
        "SELECT count(*) FROM TABLE WHERE k IN (SELECT k + 3 FROM TABLE WHERE b)",
        "SELECT sum(x.v) FROM (SELECT v * 2 AS v, k FROM TABLE) AS x, (SELECT max(k) AS k FROM TABLE) AS y WHERE x.k = y.k",
        // Joins.
        "SELECT name, sum(w) FROM (SELECT s, v * 2 AS w FROM TABLE) AS x JOIN sig USING (s) GROUP BY name",
        "SELECT name, sum(v), count(*) FROM (SELECT s, v * 2 AS v FROM TABLE) AS x JOIN sig USING (s) GROUP BY name",
        "SELECT b, name, avg(v) FROM TABLE AS x JOIN sig ON upper(x.s) = upper(sig.s) GROUP BY b, name",
        "SELECT x.n, count(*) FROM TABLE AS x JOIN sig ON x.n = sig.n GROUP BY x.n",
        "SELECT x.n, count(*) FROM TABLE AS x JOIN TABLE AS y ON x.n = y.n GROUP BY x.n",
        "SELECT name, sum(x.k) FROM sig LEFT JOIN (SELECT k + 1 AS k, s || '' AS s FROM TABLE) AS x USING (s) GROUP BY name",
        "SELECT sig.name, count(*) FROM TABLE AS x JOIN sig ON x.k = length(sig.s) - 1 GROUP BY 1",
        // Unions.
        "SELECT a, sum(c) FROM (SELECT k AS a, v AS c FROM TABLE UNION ALL SELECT id, v * 3 FROM TABLE) AS x GROUP BY a",
        "SELECT DISTINCT a FROM (SELECT s AS a FROM TABLE UNION ALL SELECT name FROM sig) AS x",
    ] {
        let wanted = ours.answer(&query.replace("TABLE", "ours")).await;
        assert!(wanted.is_ok(), "{query}: {wanted:?}");
        let foreign = query.replace("TABLE", "t");
        for off in [
            "enable_hashjoin",
            "enable_foreign_aggregates",
            "enable_foreign_eager_aggregates",
            "enable_foreign_filters",
            "enable_foreign_dynamic_filters",
            "",
        ] {
            let set = |value| format!("SET {off} = {value}");
            if !off.is_empty() {
                ours.run(&set("off")).await;
            }
            assert_eq!(ours.answer(&foreign).await, wanted, "without {off}: {query}");
            if !off.is_empty() {
                ours.run(&set("on")).await;
            }
        }
    }
}

/// Nodes are asked once for what is wanted of them, also beside one that judges nothing.
#[tokio::test]
async fn conditions_go_to_the_nodes_beside_a_file() {
    let Some(node) = Postgres::start() else { return };
    let ours = projected(&node).await;
    for (query, found, asked) in [
        (
            "SELECT count(*) FROM t WHERE __spd_url = ANY('{/pg/,/nowhere/}')",
            "120",
            r#"SELECT count(*) FROM "public"."t1"; SELECT count(*) FROM "public"."t2""#,
        ),
        (
            "SELECT sum(id) FROM t WHERE k > 3 AND __spd_url <> '/lite/'",
            "4014",
            r#"SELECT sum("id"), false FROM "public"."t1" WHERE ("k" > 3); SELECT sum("id"), false FROM "public"."t2" WHERE ("k" > 3)"#,
        ),
        ("SELECT id FROM t WHERE date_trunc('minute', at) = at ORDER BY at, id LIMIT 1", "0", ""),
    ] {
        assert_eq!(read(&ours.client, query).await, [[found]], "{query}");
        let all = ours.asked(query).await;
        assert!(all.ends_with(asked), "{query}: {all}");
    }
    ours.run("SET enable_foreign_filters = off").await;
    let upper =
        "SELECT count(*) FROM (SELECT id, row_number() OVER (ORDER BY s, id) FROM t WHERE lower(s) = s) AS x";
    assert_eq!(read(&ours.client, upper).await, [["240"]]);
}
