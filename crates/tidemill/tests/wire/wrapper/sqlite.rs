//! SQLite, whose values have types of their own, whatever their column declares.

use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::row::{COLUMNS, inserts, rows};
use super::{Ours, PATIENCE};
use crate::server::{failure, rows as read};

/// Text is declared to be without case, which PostgreSQL does not know.
const TABLE: &str =
    "CREATE TABLE f (id INTEGER, small SMALLINT, big BIGINT, x REAL, name TEXT COLLATE NOCASE,
                     ok BOOLEAN, day DATE, at TIMESTAMP)";

async fn start(encoding: &str) -> (Ours, Connection) {
    let ours = Ours::start().await;
    let path = ours.path("s.db");
    let remote = Connection::open(&path).unwrap();
    remote.execute_batch(&format!("PRAGMA encoding = '{encoding}'; {TABLE}")).unwrap();
    ours.run(&format!("CREATE SERVER s FOREIGN DATA WRAPPER sqlite_fdw OPTIONS (database '{path}')")).await;
    (ours, remote)
}

/// The same rows here and there.
async fn fill(ours: &Ours, remote: &Connection) {
    let rows = rows(300, 3);
    remote.execute_batch(&inserts("f", &rows, false)).unwrap();
    ours.run(&format!("CREATE FOREIGN TABLE f ({COLUMNS}) SERVER s; CREATE TABLE ours ({COLUMNS})")).await;
    ours.run(&inserts("ours", &rows, false)).await;
}

#[tokio::test]
async fn answers_are_those_of_a_table_of_ours() {
    let (ours, remote) = start("UTF-8").await;
    fill(&ours, &remote).await;
    ours.compare("f", 1).await;
    for off in ["enable_foreign_filters", "enable_foreign_aggregates", "enable_foreign_top_k"] {
        ours.run(&format!("SET {off} = off")).await;
        ours.compare("f", 2).await;
        ours.run(&format!("RESET {off}")).await;
    }
}

/// The order of UTF-16's bytes is another.
#[tokio::test]
async fn a_database_in_utf_16_is_sorted_here() {
    let (ours, remote) = start("UTF-16le").await;
    fill(&ours, &remote).await;
    ours.compare("f", 3).await;
    assert_eq!(
        ours.asked("SELECT id FROM f WHERE name < 'b' AND name = 'a'").await,
        r#"SELECT "id", "name" FROM "f" WHERE ("name" COLLATE BINARY = 'a')"#
    );
    assert_eq!(
        ours.asked("SELECT id FROM f ORDER BY id LIMIT 1").await,
        r#"SELECT "id" FROM "f" ORDER BY "id" ASC NULLS LAST LIMIT 1"#
    );
}

#[tokio::test]
async fn what_means_the_same_there_is_left_to_it() {
    let (ours, remote) = start("UTF-8").await;
    fill(&ours, &remote).await;
    for (query, sql) in [
        (
            "SELECT name, count(*), avg(small), max(name) FROM f WHERE name > 'a' AND ok GROUP BY name",
            r#"SELECT "name" COLLATE BINARY, count(*), coalesce(sum("small"), 0), count("small"), max("name" COLLATE BINARY) FROM "f" WHERE ("name" COLLATE BINARY > 'a') AND "ok" GROUP BY 1"#,
        ),
        ("SELECT count(*) FROM f", r#"SELECT count(*) FROM "f""#),
        (
            "SELECT id FROM f ORDER BY x DESC LIMIT 2",
            r#"SELECT "id", "x" FROM "f" ORDER BY "x" DESC NULLS FIRST LIMIT 2"#,
        ),
        (
            "SELECT id FROM f WHERE x = 'Infinity' OR x < -0.25",
            r#"SELECT "id" FROM "f" WHERE (("x" = 9e999) OR ("x" < -2.5e-1))"#,
        ),
        (
            "SELECT x FROM f WHERE id = ANY ('{1,2,3,4}') AND small = 3 OR name <> ALL (ARRAY['a', 'b', 'c', 'd'])",
            r#"SELECT "x" FROM "f" WHERE ((("id" IN (1, 2, 3, 4)) AND ("small" = 3)) OR ("name" COLLATE BINARY NOT IN ('a', 'b', 'c', 'd')))"#,
        ),
        // Too many digits for SQLite to read exactly; NaN is null there; times are texts of any form.
        ("SELECT id FROM f WHERE x = 0.12345678901234567", r#"SELECT "id", "x" FROM "f""#),
        ("SELECT id FROM f WHERE x <> 'NaN'", r#"SELECT "id", "x" FROM "f""#),
        ("SELECT id FROM f WHERE at > '2021-01-01'", r#"SELECT "id", "at" FROM "f""#),
        // Division is of integers here, and LIKE knows case.
        ("SELECT id FROM f WHERE small / 2 = 1", r#"SELECT "id", "small" FROM "f""#),
        ("SELECT id FROM f WHERE name LIKE 'a%'", r#"SELECT "id", "name" FROM "f""#),
        // Sums of floats are rounded in another way there.
        ("SELECT sum(x), count(x) FROM f", r#"SELECT "x" FROM "f""#),
        ("SELECT count(*) FROM f WHERE small / 2 = 1 OR random() < 2", r#"SELECT "small" FROM "f""#),
    ] {
        assert_eq!(ours.asked(query).await, sql, "{query}");
    }
}

/// What has come is told as what it is, not as the room that it was put into.
#[tokio::test]
async fn the_bytes_of_the_values_are_counted() {
    let (ours, remote) = start("UTF-8").await;
    remote
        .execute_batch("CREATE TABLE k (a INTEGER, t TEXT); INSERT INTO k VALUES (1, 'two'), (2, NULL)")
        .unwrap();
    ours.run("CREATE FOREIGN TABLE k (a int, t text) SERVER s").await;
    let bytes = "SELECT rows, bytes FROM tidemill.last_query_nodes";
    for (query, wanted) in [("SELECT * FROM k", ["2", "19"]), ("SELECT count(*) FROM k", ["1", "8"])] {
        read(&ours.client, query).await;
        assert_eq!(read(&ours.client, bytes).await, [wanted], "{query}");
    }
}

/// What a modifier makes of the values is asked of them here, whatever else is left to the server.
#[tokio::test]
async fn columns_with_modifiers_are_judged_here() {
    let (ours, remote) = start("UTF-8").await;
    let there = "CREATE TABLE rough (id INTEGER, n NUMERIC, v TEXT);
        INSERT INTO rough VALUES (1, 1.54, 'abc'), (2, 1.46, 'abd'), (3, NULL, 'abc')";
    remote.execute_batch(there).unwrap();
    ours.run("CREATE FOREIGN TABLE rough (id int, n numeric(5, 1), v varchar(3)) SERVER s").await;
    for (query, wanted) in [
        ("SELECT n, count(*) FROM rough WHERE id < 3 GROUP BY n", vec![["1.5", "2"]]),
        ("SELECT id, v FROM rough WHERE n = 1.5 ORDER BY id", vec![["1", "abc"], ["2", "abd"]]),
        ("SELECT max(v), count(n) FROM rough", vec![["abd", "2"]]),
        ("SELECT id, n FROM rough ORDER BY n, id LIMIT 1", vec![["1", "1.5"]]),
        ("SELECT n, n FROM rough WHERE v = 'abd'", vec![["1.5", "1.5"]]),
    ] {
        for rules in ["on", "off"] {
            let switches =
                ["filters", "aggregates", "top_k"].map(|rule| format!("SET enable_foreign_{rule} = {rules}"));
            ours.run(&switches.join("; ")).await;
            assert_eq!(read(&ours.client, query).await, wanted, "{rules}: {query}");
        }
    }
    ours.run("RESET ALL").await;
    let query = "SELECT v FROM rough WHERE id = 1 AND n = 1.5 AND v = 'abc'";
    assert_eq!(ours.asked(query).await, r#"SELECT "n", "v" FROM "rough" WHERE ("id" = 1)"#);
}

#[tokio::test]
async fn schemas_are_imported() {
    let (ours, remote) = start("UTF-8").await;
    remote
        .execute_batch(
            "CREATE TABLE kinds (i INTEGER PRIMARY KEY, v VARCHAR(10) NOT NULL, d DOUBLE, b BLOB, t, n DECIMAL(10,2),
                 at DATETIME, ok BOOL, \"Mixed Case\" TEXT);
             INSERT INTO kinds VALUES (1, 'v', 1.5, x'00ff', x'01', 12.25, '2020-01-02 03:04:05', 1, 'm'),
                 (2, '', NULL, NULL, NULL, 7, NULL, 0, NULL);
             CREATE VIEW seen AS SELECT i, v FROM kinds WHERE i > 1",
        )
        .unwrap();
    ours.run("IMPORT FOREIGN SCHEMA main EXCEPT (f) FROM SERVER s INTO public").await;
    let columns = "SELECT attname, format_type(atttypid, atttypmod), attnotnull FROM pg_attribute
                   WHERE attrelid = 'kinds'::regclass ORDER BY attnum";
    let wanted = [
        ["i", "bigint", "f"],
        ["v", "text", "t"],
        ["d", "double precision", "f"],
        ["b", "bytea", "f"],
        ["t", "bytea", "f"],
        ["n", "numeric", "f"],
        ["at", "timestamp without time zone", "f"],
        ["ok", "boolean", "f"],
        ["Mixed Case", "text", "f"],
    ];
    assert_eq!(read(&ours.client, columns).await, wanted);
    let all = "SELECT * FROM kinds WHERE n > 7 OR ok = false ORDER BY i";
    let wanted = [
        ["1", "v", "1.5", "\\x00ff", "\\x01", "12.25", "2020-01-02 03:04:05", "t", "m"],
        ["2", "", "NULL", "NULL", "NULL", "7", "NULL", "f", "NULL"],
    ];
    assert_eq!(read(&ours.client, all).await, wanted);
    assert_eq!(read(&ours.client, "SELECT i FROM seen").await, [["2"]]);
    ours.check_failure("SELECT * FROM f", "42P01", "relation \"f\" does not exist").await;
    ours.run("DROP FOREIGN TABLE kinds; IMPORT FOREIGN SCHEMA main LIMIT TO (kinds) FROM SERVER s INTO public OPTIONS (import_not_null 'false')")
        .await;
    let not_null = "SELECT count(*) FROM pg_attribute WHERE attrelid = 'kinds'::regclass AND attnotnull";
    assert_eq!(read(&ours.client, not_null).await, [["0"]]);
}

/// UPDATE refuses what INSERT does, and what SQLite makes of others is left to it.
#[tokio::test]
async fn new_values_are_kept_as_they_are_or_refused() {
    let (ours, remote) = start("UTF-8").await;
    remote
        .execute_batch(
            "CREATE TABLE made (id INTEGER, n NUMERIC, t TEXT, twice INTEGER AS (id * 2) STORED, v INT AS (id + 1));
             INSERT INTO made (id) VALUES (1)",
        )
        .unwrap();
    ours.run("CREATE FOREIGN TABLE made (id bigint, n numeric, t numeric, twice bigint, v bigint) SERVER s")
        .await;
    for (sql, state, message) in [
        (
            "UPDATE made SET n = 1234567890.1234567",
            "22003",
            "of more than 15 digits, numbers are rounded there",
        ),
        ("UPDATE made SET n = t", "0A000", "would not keep every value of column \"t\""),
        ("UPDATE made SET twice = 3", "428C9", "column \"twice\" can only be updated to DEFAULT"),
        (
            "INSERT INTO made (id, v) VALUES (3, 3)",
            "428C9",
            "cannot insert a non-DEFAULT value into column \"v\"",
        ),
    ] {
        ours.check_failure(sql, state, message).await;
    }
    ours.run("UPDATE made SET n = 1.25, t = 1234567890.12345678; INSERT INTO made (id, t) VALUES (2, 1.0)")
        .await;
    assert_eq!(
        read(&ours.client, "SELECT * FROM made ORDER BY id").await,
        [["1", "1.25", "1234567890.12345678", "2", "2"], ["2", "NULL", "1.0", "4", "3"]]
    );
}

#[tokio::test]
async fn what_is_wrong_is_told() {
    let (ours, remote) = start("UTF-8").await;
    let text = ours.path("text");
    std::fs::write(
        &text,
        "this is no database, although it is long enough to be taken for the header of one, perhaps",
    )
    .unwrap();
    let pipe = ours.path("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    remote
        .execute_batch(
            "INSERT INTO f (id, small, big, x, name) VALUES (1, 70000, 'many', 1.5, 7), (2, 1, 2, 3, 'a')",
        )
        .unwrap();
    remote
        .execute_batch(
            "CREATE TABLE deep (a INTEGER, t TEXT, e INTEGER); INSERT INTO deep VALUES (5, 'x', 86400)",
        )
        .unwrap();
    ours.run(&format!(
        "CREATE SERVER no_file FOREIGN DATA WRAPPER sqlite_fdw OPTIONS (database '/nowhere/s.db');
         CREATE SERVER no_db FOREIGN DATA WRAPPER sqlite_fdw OPTIONS (database '{text}');
         CREATE SERVER no_option FOREIGN DATA WRAPPER sqlite_fdw;
         CREATE SERVER pipe FOREIGN DATA WRAPPER sqlite_fdw OPTIONS (database '{pipe}');
         CREATE FOREIGN TABLE of_pipe (a int) SERVER pipe;
         CREATE FOREIGN TABLE of_no_file (a int) SERVER no_file;
         CREATE FOREIGN TABLE of_no_db (a int) SERVER no_db;
         CREATE FOREIGN TABLE of_no_option (a int) SERVER no_option;
         CREATE FOREIGN TABLE no_table (a int) SERVER s;
         CREATE FOREIGN TABLE no_column (id int, nope int) SERVER s OPTIONS (table 'f');
         CREATE FOREIGN TABLE other_type (id int, name int) SERVER s OPTIONS (table 'f');
         CREATE FOREIGN TABLE f ({COLUMNS}) SERVER s;
         CREATE FOREIGN TABLE short (id int, name varchar(2) OPTIONS (column_name 't')) SERVER s OPTIONS (table 'deep');
         CREATE FOREIGN TABLE epoch (e timestamp OPTIONS (column_type 'INT')) SERVER s OPTIONS (table 'deep')"
    ))
    .await;
    for (query, state, message) in [
        ("SELECT * FROM of_no_file", "08001", "could not connect to server \"no_file\""),
        ("SELECT * FROM of_no_db", "08001", "could not connect to server \"no_db\""),
        ("SELECT * FROM of_pipe", "08001", "could not connect to server \"pipe\""),
        (
            "CREATE SERVER x FOREIGN DATA WRAPPER sqlite_fdw OPTIONS (database ':memory:')",
            "22023",
            "invalid value for option \"database\": \":memory:\"",
        ),
        (
            "ALTER SERVER no_db OPTIONS (SET database '')",
            "22023",
            "invalid value for option \"database\": \"\"",
        ),
        ("SELECT * FROM of_no_option", "HV000", "server \"no_option\" has no database"),
        (
            "SELECT * FROM no_table",
            "42P01",
            "foreign table \"no_table\" does not fit server \"s\": no such table: no_table",
        ),
        (
            "SELECT nope FROM no_column",
            "42703",
            "foreign table \"no_column\" does not fit server \"s\": no such column",
        ),
        (
            "SELECT count(*) FROM other_type WHERE name > 5",
            "HV004",
            "column \"name\" of foreign table \"other_type\" is of type integer, but column \"name\" of \"f\" on server \"s\" is of type TEXT",
        ),
        ("SELECT small FROM f", "22003", "value \"70000\" is out of range for type smallint"),
        (
            "SELECT big FROM f",
            "HV004",
            "column \"big\" of foreign table \"f\" is of type bigint, but column \"big\" of \"f\" on server \"s\" has a value of type text",
        ),
        ("SELECT * FROM short", "42703", "no such column"),
        (
            "CREATE SERVER x FOREIGN DATA WRAPPER sqlite_fdw OPTIONS (host 'h')",
            "HV00D",
            "invalid option \"host\"",
        ),
        (
            "CREATE FOREIGN TABLE x (a int) SERVER s OPTIONS (table_name 'h')",
            "HV00D",
            "invalid option \"table_name\"",
        ),
        (
            "CREATE FOREIGN TABLE x (a int OPTIONS (column_type 'FLOAT')) SERVER s",
            "22023",
            "invalid value for option \"column_type\"",
        ),
    ] {
        ours.check_failure(query, state, message).await;
    }
    let hint = ours
        .client
        .simple_query("CREATE SERVER x FOREIGN DATA WRAPPER sqlite_fdw OPTIONS (host 'h')")
        .await
        .unwrap_err();
    let hint = hint.as_db_error().unwrap().hint().unwrap().to_string();
    assert_eq!(
        hint,
        "Valid options in this context are: database, truncatable, keep_connections, batch_size"
    );
    // What is right in a table is read in spite of what is wrong in it.
    assert_eq!(read(&ours.client, "SELECT id FROM f WHERE small = 1").await, [["2"]]);
    assert_eq!(read(&ours.client, "SELECT e FROM epoch").await, [["1970-01-02 00:00:00"]]);
}

/// A long query there ends with the statement, and a name in quotes is never a text.
#[tokio::test]
async fn a_query_that_is_given_up_ends() {
    let (ours, remote) = start("UTF-8").await;
    remote
        .execute_batch(
            "CREATE VIEW slow AS WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n WHERE i < 0",
        )
        .unwrap();
    ours.run("CREATE FOREIGN TABLE slow (i int) SERVER s; SET statement_timeout = 200").await;
    ours.check_failure("SELECT * FROM slow", "57014", "statement timeout").await;
    // Its thread ends, or the process would have one more for good.
    let others = || std::fs::read_dir("/proc/self/task").map(Iterator::count).unwrap_or(0);
    assert!(others() > 0);
    assert_eq!(read(&ours.client, "SELECT 1").await, [["1"]]);
}

#[tokio::test]
async fn what_is_written_is_there() {
    let (ours, remote) = start("UTF-8").await;
    ours.run(&format!("CREATE FOREIGN TABLE f ({COLUMNS}) SERVER s")).await;
    ours.compare_writes("f").await;
    let kinds = "SELECT DISTINCT typeof(id) || typeof(x) || typeof(name) || typeof(ok) || typeof(at) FROM f
                 WHERE id < 300 AND x IS NOT NULL AND name IS NOT NULL AND ok IS NOT NULL AND at IS NOT NULL";
    let found: String = remote.query_row(kinds, [], |row| row.get(0)).unwrap();
    assert_eq!(found, "integerrealtextintegertext");
    for (sql, wanted) in [
        ("INSERT INTO f (id, name) VALUES (50000, 'a') RETURNING id + 1, name", vec![vec!["50001", "a"]]),
        ("UPDATE f SET ok = true WHERE id = 50000 RETURNING ok, day", vec![vec!["t", "NULL"]]),
        ("DELETE FROM f WHERE id = 50000 RETURNING name", vec![vec!["a"]]),
    ] {
        assert_eq!(read(&ours.client, sql).await, wanted, "{sql}");
    }
}

#[tokio::test]
async fn what_cannot_be_kept_is_refused() {
    let (ours, remote) = start("UTF-8").await;
    remote
        .execute_batch(
            "CREATE TABLE k (id INTEGER PRIMARY KEY, x REAL, n NUMERIC, e INTEGER, t TEXT NOT NULL, c TEXT CHECK (c <> 'no'))",
        )
        .unwrap();
    ours.run(
        "CREATE FOREIGN TABLE k (id int, x float8, n numeric, e timestamp OPTIONS (column_type 'INT'), t text, c text) SERVER s;
         CREATE FOREIGN TABLE wrong (id int, t int) SERVER s OPTIONS (\"table\" 'k');
         CREATE FOREIGN TABLE gone (id int) SERVER s",
    )
    .await;
    ours.run("INSERT INTO k VALUES (1, 1.5, 12345678901234.5, '1970-01-02', 't', 'c')").await;
    assert_eq!(
        read(&ours.client, "SELECT * FROM k").await,
        [["1", "1.5", "12345678901234.5", "1970-01-02 00:00:00", "t", "c"]]
    );
    for (sql, state, message) in [
        ("INSERT INTO k (id, t, x) VALUES (2, 't', 'NaN')", "22003", "NaN is null there"),
        ("INSERT INTO k (id, t, n) VALUES (2, 't', 12345678901234567.8)", "22003", "cannot be kept"),
        (
            "INSERT INTO k (id, t, e) VALUES (2, 't', '2020-01-01 00:00:00.5')",
            "22003",
            "no whole number of seconds",
        ),
        (
            "INSERT INTO k (id, t) VALUES (2, 'a'), (1, 'b')",
            "23505",
            "server \"s\": UNIQUE constraint failed: k.id",
        ),
        ("INSERT INTO k (id) VALUES (2)", "23502", "server \"s\": NOT NULL constraint failed: k.t"),
        ("INSERT INTO k (id, t, c) VALUES (2, 't', 'no')", "23514", "server \"s\": CHECK constraint failed"),
        (
            "INSERT INTO wrong VALUES (1, 2)",
            "HV004",
            "column \"t\" of foreign table \"wrong\" is of type integer",
        ),
        (
            "INSERT INTO gone VALUES (1)",
            "42P01",
            "foreign table \"gone\" does not fit server \"s\": no such table: gone",
        ),
        ("UPDATE k SET t = upper(t)", "0A000", "this UPDATE cannot be left to the servers"),
    ] {
        ours.check_failure(sql, state, message).await;
    }
    let skipped = "INSERT INTO k (id, t) VALUES (1, 'x'), (3, 'y') ON CONFLICT DO NOTHING";
    assert_eq!(ours.client.execute(skipped, &[]).await.unwrap(), 1);
    assert_eq!(read(&ours.client, "SELECT id FROM k ORDER BY id").await, [["1"], ["3"]]);
    // Somebody else writes: it is waited for, not for ever.
    remote.execute_batch("BEGIN IMMEDIATE").unwrap();
    ours.run("SET statement_timeout = 300").await;
    ours.check_failure("INSERT INTO k (id, t) VALUES (4, 'z')", "57014", "statement timeout").await;
    remote.execute_batch("COMMIT").unwrap();
    ours.run("RESET statement_timeout; INSERT INTO k (id, t) VALUES (4, 'z')").await;
}

/// The file of a server that was found and is gone.
#[tokio::test]
async fn a_file_that_is_not_there_is_a_server_that_is_down() {
    let (ours, remote) = start("UTF-8").await;
    let path = ours.path("s.db");
    let state = "SELECT state FROM tidemill.nodes WHERE server = 's'";
    ours.until(state, "up").await;
    drop(remote);
    std::fs::rename(&path, ours.path("elsewhere")).unwrap();
    ours.until(state, "down").await;
    ours.run("CREATE FOREIGN TABLE f (id int) SERVER s").await;
    ours.check_failure("SELECT * FROM f", "08001", "could not connect to server \"s\"").await;
    std::fs::rename(ours.path("elsewhere"), &path).unwrap();
    ours.until(state, "up").await;
    assert_eq!(read(&ours.client, "SELECT count(*) FROM f").await, [["0"]]);
}

/// A query without end, of which nothing comes, ends when nobody waits for it any more.
#[tokio::test]
async fn what_nobody_waits_for_ends() {
    let (ours, remote) = start("UTF-8").await;
    remote
        .execute_batch(
            "CREATE VIEW endless AS
                 WITH RECURSIVE c (x) AS (SELECT 1 UNION ALL SELECT (x + 1) % 10 FROM c) SELECT max(x) AS id FROM c",
        )
        .unwrap();
    ours.run("CREATE FOREIGN TABLE endless (id int) SERVER s").await;
    let until = async |threads: usize| {
        let deadline = Instant::now() + PATIENCE;
        while ours.server.threads("foreign-scan") != threads {
            assert!(Instant::now() < deadline, "there are not {threads} threads that read");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    for (before, read) in [("", "TABLE endless"), ("BEGIN; DECLARE c CURSOR FOR TABLE endless", "FETCH c")] {
        let waiter = ours.server.connect().await;
        waiter.batch_execute(before).await.unwrap();
        let token = waiter.cancel_token();
        let waiting = tokio::spawn(async move {
            let told = failure(&waiter, read).await;
            (waiter, told)
        });
        // A cursor's thread reads since it was declared.
        ours.until(&format!("SELECT state FROM pg_stat_activity WHERE query = '{read}'"), "active").await;
        until(1).await;
        token.cancel_query(tokio_postgres::NoTls).await.unwrap();
        // The session goes on.
        let (_waiter, told) = waiting.await.unwrap();
        assert_eq!(told, ("57014".into(), "canceling statement due to user request".into()));
        until(0).await;
    }
}
