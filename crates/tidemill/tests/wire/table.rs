//! Plain tables: what is written is read, together with what else was written in the transaction, and after a start.

use crate::client::Client;
use crate::server::{Server, failure, rows};

async fn start() -> (tempfile::TempDir, Server, tokio_postgres::Client) {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let client = server.connect().await;
    client
        .batch_execute(
            "CREATE STREAM s (id int, x int);
             CREATE CONTINUOUS VIEW v AS SELECT id, count(*), sum(x) FROM s GROUP BY id;
             CREATE TABLE t (id int NOT NULL, name text DEFAULT 'nobody')",
        )
        .await
        .unwrap();
    (dir, server, client)
}

#[tokio::test]
async fn tables_and_views_are_read_and_written_together() {
    let (_dir, server, client) = start().await;
    client.batch_execute("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, DEFAULT)").await.unwrap();
    client.batch_execute("INSERT INTO s SELECT id, id * 10 FROM t WHERE id < 3").await.unwrap();
    let joined = "SELECT t.name, v.sum FROM t LEFT JOIN v USING (id) ORDER BY t.id";
    assert_eq!(rows(&client, joined).await, [["a", "10"], ["b", "20"], ["nobody", "NULL"]]);
    assert_eq!(
        rows(&client, "SELECT max(length(name)) FROM t WHERE id IN (SELECT id FROM v)").await,
        [["1"]]
    );
    // Only these views read what is inserted into streams; a table is no view's.
    client
        .batch_execute("CREATE CONTINUOUS VIEW w AS SELECT count(*) FROM s; SET stream_targets TO w")
        .await
        .unwrap();
    client.batch_execute("INSERT INTO t VALUES (4, 'd'); INSERT INTO s VALUES (4, 4)").await.unwrap();
    assert_eq!(rows(&client, "SELECT count(*) FROM t").await, [["4"]]);
    assert_eq!(rows(&client, "SELECT count(*), (SELECT count FROM w) FROM v").await, [["2", "1"]]);
    client.batch_execute("RESET stream_targets").await.unwrap();

    let other = server.connect().await;
    let both = "SELECT (SELECT count(*) FROM t), (SELECT sum(count)::int FROM v)";
    client.batch_execute("BEGIN; INSERT INTO t VALUES (5, 'e'); INSERT INTO s VALUES (5, 5)").await.unwrap();
    assert_eq!(rows(&other, both).await, [["4", "2"]]);
    client.batch_execute("COMMIT").await.unwrap();
    assert_eq!(rows(&other, both).await, [["5", "3"]]);
    client.batch_execute("BEGIN; INSERT INTO t VALUES (6); INSERT INTO s VALUES (6, 6)").await.unwrap();
    assert_eq!(failure(&client, "INSERT INTO t VALUES (NULL)").await.0, "23502");
    client.batch_execute("COMMIT").await.unwrap();
    assert_eq!(rows(&other, both).await, [["5", "3"]]);
    client.batch_execute("INSERT INTO t VALUES (7); SELECT 1/0; INSERT INTO t VALUES (8)").await.unwrap_err();
    assert_eq!(rows(&other, both).await, [["5", "3"]]);

    other.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ").await.unwrap();
    assert_eq!(rows(&other, both).await, [["5", "3"]]);
    client.batch_execute("INSERT INTO t VALUES (9); TRUNCATE t").await.unwrap();
    assert_eq!(rows(&other, both).await, [["5", "3"]]);
    other.batch_execute("COMMIT").await.unwrap();
    assert_eq!(rows(&other, both).await, [["0", "3"]]);
}

#[tokio::test]
async fn tables_last() {
    let (dir, mut server, client) = start().await;
    client
        .batch_execute(
            "SET stream_insert_level = async;
             CREATE TABLE many AS SELECT x, 'row ' || x AS name FROM generate_series(1, 20000) AS x;
             INSERT INTO t SELECT x FROM generate_series(1, 100) AS x;
             CREATE TABLE gone AS SELECT 1 AS x;
             CREATE TABLE emptied (x int DEFAULT 7, at timestamptz NOT NULL DEFAULT now());
             INSERT INTO emptied DEFAULT VALUES;
             TRUNCATE emptied;
             DROP TABLE gone",
        )
        .await
        .unwrap();
    for by_kill in [true, false, true] {
        if by_kill {
            server.kill();
        } else {
            server.terminate();
            assert!(server.wait().success());
        }
        server = Server::start(dir.path());
        let client = server.connect().await;
        assert_eq!(
            rows(&client, "SELECT count(*), sum(x), max(name) FROM many").await,
            [["20000", "200010000", "row 9999"]]
        );
        assert_eq!(
            rows(&client, "SELECT count(*), count(DISTINCT id), min(name) FROM t").await,
            [["100", "100", "nobody"]]
        );
        assert_eq!(rows(&client, "SELECT count(*) FROM emptied").await, [["0"]]);
        assert_eq!(failure(&client, "SELECT * FROM gone").await.0, "42P01");
        client.batch_execute("INSERT INTO emptied DEFAULT VALUES; TRUNCATE emptied").await.unwrap();
        assert_eq!(failure(&client, "INSERT INTO emptied VALUES (1, NULL)").await.0, "23502");
    }
}

/// A statement that fails leaves nothing behind, and what it would have made is not there.
#[tokio::test]
async fn a_table_of_a_query_is_there_whole_or_not_at_all() {
    let (_dir, _server, client) = start().await;
    let fails = "CREATE TABLE half AS SELECT 1 / (50000 - x) AS y FROM generate_series(1, 60000) AS x";
    assert_eq!(failure(&client, fails).await.0, "22012");
    assert_eq!(failure(&client, "SELECT * FROM half").await.0, "42P01");
    assert_eq!(failure(&client, "CREATE TABLE half AS SELECT 1 AS a, 2 AS a").await.0, "42701");
    assert_eq!(failure(&client, "CREATE TABLE t AS SELECT 1").await.0, "42P07");
    client.batch_execute("CREATE TABLE half AS SELECT 1 AS a").await.unwrap();
    client.batch_execute("BEGIN").await.unwrap();
    assert_eq!(failure(&client, "CREATE TABLE u AS SELECT 1").await.0, "25001");
    client.batch_execute("ROLLBACK").await.unwrap();
}

#[tokio::test]
async fn prepared_inserts_fill_in_defaults() {
    let (_dir, _server, client) = start().await;
    client
        .batch_execute(
            "CREATE TABLE d (a int, b int DEFAULT 1 + 1, c text DEFAULT 'x', at timestamptz DEFAULT now())",
        )
        .await
        .unwrap();
    let some = client.prepare("INSERT INTO d (a) VALUES ($1)").await.unwrap();
    assert_eq!(client.execute(&some, &[&1i32]).await.unwrap(), 1);
    let mixed = client.prepare("INSERT INTO d (a, b, c) VALUES ($1, DEFAULT, DEFAULT), ($1, $2, $3)").await;
    assert_eq!(client.execute(&mixed.unwrap(), &[&2i32, &5i32, &"y"]).await.unwrap(), 2);
    let selected = client.prepare("INSERT INTO d (c) SELECT $1::text").await.unwrap();
    assert_eq!(client.execute(&selected, &[&"z"]).await.unwrap(), 1);
    assert_eq!(
        rows(&client, "SELECT a, b, c, at <= now() FROM d ORDER BY a, b").await,
        [["1", "2", "x", "t"], ["2", "2", "x", "t"], ["2", "5", "y", "t"], ["NULL", "2", "z", "t"]]
    );
}

/// Rows of a COPY come all at once, or not at all.
#[tokio::test]
async fn rows_of_a_copy_come_at_once() {
    let (_dir, server, _client) = start().await;
    let mut client = Client::connect(server.port, "tidemill");
    let copy = |client: &mut Client, lines: &str| {
        client.send(&[(b'Q', b"COPY t FROM STDIN\0".to_vec())]);
        client.send(&[(b'd', lines.as_bytes().to_vec()), (b'c', vec![])]);
        crate::client::answer_of(client.until_ready())
    };
    let answer = copy(&mut client, "1\ta\n2\tb\n\\N\tc\n4\td\n");
    let error = answer.error.unwrap();
    assert_eq!(error.get('C'), "23502");
    assert_eq!(error.get('D'), "Failing row contains (null, c).");
    assert_eq!(error.get('W'), "COPY t, line 3");
    assert_eq!(copy(&mut client, "1\ta\n2\tb\n").tags, ["COPY 2"]);
    let answer = client.query("SELECT count(*), max(name) FROM t");
    assert_eq!(answer.rows, [[Some("2".to_string()), Some("b".to_string())]]);
}

#[tokio::test]
async fn a_transaction_reads_what_it_has_written() {
    let (_dir, server, client) = start().await;
    let other = server.connect().await;
    let both = "SELECT (SELECT count(*) FROM t), (SELECT coalesce(sum(sum), 0)::int FROM v)";
    client.batch_execute("INSERT INTO t VALUES (1, 'a'); INSERT INTO s VALUES (1, 1)").await.unwrap();
    for mode in ["READ COMMITTED", "REPEATABLE READ"] {
        client.batch_execute(&format!("BEGIN ISOLATION LEVEL {mode}")).await.unwrap();
        assert_eq!(rows(&client, both).await, [["1", "1"]], "{mode}");
        client.batch_execute("INSERT INTO t VALUES (2, 'b'); INSERT INTO s VALUES (1, 10)").await.unwrap();
        assert_eq!(rows(&client, both).await, [["2", "11"]], "{mode}");
        client.batch_execute("SAVEPOINT a; INSERT INTO t SELECT id + 2, name FROM t").await.unwrap();
        assert_eq!(rows(&client, "SELECT id FROM t ORDER BY 1").await, [["1"], ["2"], ["3"], ["4"]]);
        client.batch_execute("ROLLBACK TO a; INSERT INTO s VALUES (2, 100)").await.unwrap();
        assert_eq!(rows(&client, both).await, [["2", "111"]], "{mode}");
        assert_eq!(rows(&client, "SELECT sum FROM v WHERE id = 2").await, [["100"]], "{mode}");
        assert_eq!(rows(&other, both).await, [["1", "1"]], "{mode}");
        client.batch_execute("ROLLBACK").await.unwrap();
        assert_eq!(rows(&client, both).await, [["1", "1"]], "{mode}");
    }
    client.batch_execute("BEGIN; INSERT INTO t VALUES (2, 'b')").await.unwrap();
    assert_eq!(rows(&client, both).await, [["2", "1"]]);
    client.batch_execute("INSERT INTO t VALUES (3, 'c'); COMMIT").await.unwrap();
    assert_eq!(rows(&other, both).await, [["3", "1"]]);
}

#[tokio::test]
async fn rows_are_updated_and_deleted() {
    let (dir, mut server, client) = start().await;
    client
        .batch_execute("INSERT INTO t SELECT x, 'row ' || x FROM generate_series(1, 20000) AS x")
        .await
        .unwrap();
    let tag = async |sql: &str| client.execute(sql, &[]).await.unwrap();
    assert_eq!(tag("UPDATE t SET name = upper(name), id = id + 100000 WHERE id % 4 = 0").await, 5000);
    assert_eq!(tag("DELETE FROM t WHERE id > 100000 AND id % 8 = 0").await, 2500);
    assert_eq!(tag("UPDATE t SET name = DEFAULT WHERE id IN (SELECT min(id) FROM t)").await, 1);
    assert_eq!(tag("UPDATE t SET name = 'x' WHERE false").await, 0);
    let update = client.prepare("UPDATE t AS a SET name = $1 WHERE a.id = $2").await.unwrap();
    assert_eq!(client.execute(&update, &[&"named", &2i32]).await.unwrap(), 1);
    let sums = "SELECT count(*), sum(id), count(*) FILTER (WHERE name = 'nobody'), max(name) FROM t";
    let wanted = rows(
        &client,
        "SELECT count(*), sum(x)::text, 1, 'row 9999' FROM
        (SELECT CASE WHEN x % 4 = 0 THEN x + 100000 ELSE x END AS x FROM generate_series(1, 20000) AS x) AS t
        WHERE NOT (x > 100000 AND x % 8 = 0)",
    )
    .await;
    assert_eq!(rows(&client, sums).await, wanted);
    assert_eq!(rows(&client, "SELECT name FROM t WHERE id < 3 ORDER BY id").await, [["nobody"], ["named"]]);
    for (sql, state) in [
        ("UPDATE t SET id = NULL WHERE id = 1", "23502"),
        ("UPDATE t SET id = 1 / (id - 1)", "22012"),
        ("UPDATE t SET id = true", "42804"),
        ("UPDATE t SET id = 'x'", "22P02"),
        ("UPDATE t SET nope = 1", "42703"),
        ("UPDATE t SET id = 1, id = 2", "42601"),
        ("UPDATE t SET id = 1 RETURNING id", "0A000"),
        ("UPDATE s SET id = 1", "42809"),
        ("DELETE FROM v", "42809"),
        ("DELETE FROM nope", "42P01"),
        ("BEGIN; DELETE FROM t", "25001"),
        ("ROLLBACK; DELETE FROM t WHERE nope", "42703"),
    ] {
        assert_eq!(failure(&client, sql).await.0, state, "{sql}");
    }
    server.kill();
    server = Server::start(dir.path());
    let client = server.connect().await;
    assert_eq!(rows(&client, sums).await, wanted);
    client.batch_execute("DELETE FROM t").await.unwrap();
    assert_eq!(rows(&client, "SELECT count(*) FROM t").await, [["0"]]);
}

/// With other tables: what is meant is what joins, and a row is meant once.
#[tokio::test]
async fn rows_that_join_others_are_updated_and_deleted() {
    let (dir, mut server, client) = start().await;
    client
        .batch_execute(
            "INSERT INTO t SELECT x, 'row ' || x FROM generate_series(1, 20000) AS x;
             INSERT INTO t SELECT x, 'row ' || x FROM generate_series(1, 100) AS x;
             INSERT INTO s SELECT x % 1000 + 1, x FROM generate_series(1, 30000) AS x;
             CREATE TABLE other (id int, name text);
             INSERT INTO other SELECT x % 5000, 'other' FROM generate_series(1, 20000) AS x",
        )
        .await
        .unwrap();
    let tag = async |sql: &str| client.execute(sql, &[]).await.unwrap();
    assert_eq!(tag("UPDATE t SET name = other.name FROM other WHERE other.id = t.id").await, 5099);
    assert_eq!(
        tag("UPDATE t AS a SET id = a.id + 100000 FROM v WHERE v.id = a.id AND count = 30").await,
        1100
    );
    assert_eq!(tag("UPDATE t SET name = 'x' FROM other WHERE other.id = -1").await, 0);
    let update = "UPDATE t SET name = $1 FROM other o WHERE o.id = t.id AND o.id = $2";
    let update = client.prepare(update).await.unwrap();
    assert_eq!(client.execute(&update, &[&"named", &2000i32]).await.unwrap(), 1);
    assert_eq!(tag("DELETE FROM t USING other AS o, v WHERE o.id = t.id AND v.id + 2000 = o.id").await, 1000);
    assert_eq!(tag("DELETE FROM t USING t AS o WHERE o.id = t.id + 1 AND t.id >= 100000").await, 1099);
    let explained = rows(&client, "EXPLAIN DELETE FROM t USING other WHERE other.id = t.id").await.concat();
    assert!(explained[0].starts_with("Delete on t") && explained.concat().contains("Join"), "{explained:?}");
    let sums = "SELECT count(*), sum(id), count(*) FILTER (WHERE name = 'other'), count(*) FILTER (WHERE name = 'named') FROM t";
    let wanted = [["18001", "197110000", "2999", "1"]];
    assert_eq!(rows(&client, sums).await, wanted);
    client.batch_execute("SET transaction_memory_limit = '1MB'").await.unwrap();
    for (sql, state, message) in [
        (
            "UPDATE t SET name = repeat(o.name, 100) FROM t AS o WHERE o.id = t.id",
            "53200",
            "the writes of a transaction exceed the limit of 1048576 bytes",
        ),
        (
            "UPDATE t SET id = NULL FROM other WHERE other.id = t.id",
            "23502",
            "null value in column \"id\" of relation \"t\" violates not-null constraint",
        ),
    ] {
        assert_eq!(failure(&client, sql).await, (state.to_string(), message.to_string()), "{sql}");
    }
    server.kill();
    server = Server::start(dir.path());
    assert_eq!(rows(&server.connect().await, sums).await, wanted);
}

/// A table that is several times what a write may keep in memory.
#[tokio::test]
async fn large_tables_are_changed_in_little_memory() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("tidemill.toml");
    std::fs::write(&config, "memory_limit = '64MB'\n").unwrap();
    let start = || {
        let options = ["--trust-loopback", "--config", config.to_str().unwrap()];
        Server::start_with(&dir.path().join("data"), &options)
    };
    let mut server = start();
    let client = server.connect().await;
    client
        .batch_execute(
            "CREATE TABLE t (id int, name text);
             INSERT INTO t SELECT x, repeat('x', 200) FROM generate_series(1, 200000) AS x;
             SET transaction_memory_limit = '1MB'",
        )
        .await
        .unwrap();
    for (sql, count) in [
        ("UPDATE t SET name = 'five' WHERE id = 5", 1),
        ("DELETE FROM t WHERE id = 6", 1),
        ("DELETE FROM t WHERE id > 150000", 50000),
        ("UPDATE t SET id = id + 1 WHERE id % 2 = 1", 75000),
    ] {
        assert_eq!(client.execute(sql, &[]).await.unwrap(), count, "{sql}");
    }
    let sums = "SELECT count(*), sum(id), sum(length(name)), count(*) FILTER (WHERE name = 'five' AND id = 6) FROM t";
    let wanted = [["149999", "11250149994", "29999604", "1"]];
    assert_eq!(rows(&client, sums).await, wanted);
    server.kill();
    server = start();
    let client = server.connect().await;
    assert_eq!(rows(&client, sums).await, wanted);
}

/// No change is lost between the reading and the writing of another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_at_the_same_time_are_all_there() {
    let (_dir, server, client) = start().await;
    client.batch_execute("INSERT INTO t VALUES (0, 'counter')").await.unwrap();
    let mut tasks = Vec::new();
    for number in 1..=4 {
        let client = server.connect().await;
        tasks.push(tokio::spawn(async move {
            for i in 0..20 {
                let id = number * 1000 + i;
                client.batch_execute("UPDATE t SET id = id + 1 WHERE name = 'counter'").await.unwrap();
                client.batch_execute(&format!("INSERT INTO t VALUES ({id}, 'kept')")).await.unwrap();
                client
                    .batch_execute(&format!("BEGIN; INSERT INTO t VALUES ({id}, 'gone'); COMMIT"))
                    .await
                    .unwrap();
                client
                    .batch_execute(&format!("DELETE FROM t WHERE id = {id} AND name = 'gone'"))
                    .await
                    .unwrap();
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    let found = rows(&client, "SELECT name, count(*), min(id) FROM t GROUP BY name ORDER BY name").await;
    assert_eq!(found, [["counter", "1", "80"], ["kept", "80", "1000"]]);
}

/// Each side of the union has its own constant, which counts in the order of the whole.
#[tokio::test]
async fn first_rows_of_a_union_with_constants_are_the_first() {
    let (_dir, _server, client) = start().await;
    client
        .batch_execute("CREATE TABLE many AS SELECT x AS id FROM generate_series(1, 1000) AS x")
        .await
        .unwrap();
    let query =
        "SELECT url, id FROM (SELECT id, 'a' AS url FROM many UNION ALL SELECT id, 'b' FROM many) AS u
                 ORDER BY url DESC, id LIMIT 3";
    for _ in 0..20 {
        assert_eq!(rows(&client, query).await, [["b", "1"], ["b", "2"], ["b", "3"]]);
    }
}

/// Rows of literals take no planner, rows with an expression do.
#[tokio::test]
async fn a_literal_is_the_same_beside_an_expression() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let client = server.connect().await;
    client.batch_execute("CREATE TABLE t (k int, c text)").await.unwrap();
    let literals =
        [r"'a''''b'", r"'it''s'", r"'back\''slash'", r"E'x\'y\\z\n'", "$$d'q$$", r"'a\\b'", r"''''''"];
    for (k, literal) in literals.iter().enumerate() {
        client.batch_execute(&format!("INSERT INTO t VALUES ({k}, {literal})")).await.unwrap();
        let planned = format!("INSERT INTO t VALUES ({k} + 100, {literal}), (-1, lower('X'))");
        client.batch_execute(&planned).await.unwrap_or_else(|error| panic!("{planned}: {error:?}"));
    }
    let same = "SELECT count(*) FROM t a JOIN t b ON a.k + 100 = b.k AND a.c = b.c";
    assert_eq!(rows(&client, same).await, [[literals.len().to_string()]]);
    assert_eq!(
        rows(&client, "SELECT c FROM t WHERE k IN (0, 2) ORDER BY k").await,
        [["a''b"], [r"back\'slash"]]
    );
    client
        .batch_execute(
            r"CREATE TABLE d (k int, c text DEFAULT 'a''''b' || 'x', e text DEFAULT 'b\''s' || 'y');
            INSERT INTO d (k) VALUES (1); PREPARE p AS SELECT $1::text, $2::text",
        )
        .await
        .unwrap();
    assert_eq!(rows(&client, "SELECT c, e FROM d").await, [["a''bx", r"b\'sy"]]);
    assert_eq!(rows(&client, r"EXECUTE p('a''''b' || 'x', 'b\''s')").await, [["a''bx", r"b\'s"]]);
}

/// A row in a condition is looked up by all of its columns, as one column is.
#[tokio::test]
async fn rows_in_subqueries_are_semi_joins() {
    let (_dir, _server, client) = start().await;
    client.batch_execute("INSERT INTO t SELECT x, 'n' || x FROM generate_series(1, 50) AS x").await.unwrap();
    for condition in [
        "(id, name) IN (SELECT id, name FROM t WHERE id < 20)",
        "id > 0 AND (id, name) = ANY (SELECT max(id), name FROM t WHERE id < 20 GROUP BY name)",
    ] {
        let query = format!("SELECT count(*) FROM t WHERE {condition}");
        assert_eq!(rows(&client, &query).await, [["19"]], "{condition}");
        let plan = rows(&client, &format!("EXPLAIN {query}")).await.concat().join("\n");
        assert!(!plan.contains("Nested Loop"), "{plan}");
    }
}
