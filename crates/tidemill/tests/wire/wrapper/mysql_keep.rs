//! What a column of MySQL or MariaDB would make of a value without a word, and what is left of what fails.

use std::time::{Duration, Instant};

use mysql_async::prelude::Queryable;

use super::mysql::start;
use super::mysql_server::START_MAX;
use crate::server::{Server, failure, rows as read};

/// INSERT and UPDATE refuse what would be another value afterwards.
#[tokio::test]
async fn values_are_kept_as_they_are_or_refused() {
    let Some((ours, _node, mut remote)) = start().await else { return };
    remote
        .query_drop(
            "CREATE TABLE kept (id INT PRIMARY KEY, at DATETIME, ms DATETIME(3), us DATETIME(6), h TIME, z TIMESTAMP(1) NULL,
                 n DECIMAL(6,2), i INT, f FLOAT, g FLOAT(7,2), y YEAR, b BINARY(4), vb VARBINARY(4), c CHAR(5), v VARCHAR(3),
                 e ENUM('x', 'it''s'), st SET('a', 'b'), j JSON, tiny TINYTEXT)",
        )
        .await
        .unwrap();
    ours.run(
        "CREATE FOREIGN TABLE kept (id int, at timestamp, ms timestamp, us timestamp, h time, z timestamptz, n numeric, i numeric,
             f float8, g float8, y smallint, b bytea, vb bytea, c text, v text, e text, st text, j json, tiny text)
             SERVER s OPTIONS (dbname 'd');
         SET timezone = 'UTC'; INSERT INTO kept (id) VALUES (1)",
    )
    .await;
    for (column, kept, refused, why) in [
        ("at", "2020-01-01 00:00:01", "2020-01-01 00:00:00.5", "the column has 0 digits of a second"),
        ("ms", "2020-01-01 00:00:00.123", "2020-01-01 00:00:00.1234", "the column has 3 digits of a second"),
        ("h", "01:02:03", "01:02:03.4", "the column has 0 digits of a second"),
        ("z", "2020-01-01 00:00:00.5+00", "2020-01-01 00:00:00.55+00", "the column has 1 digits of a second"),
        ("n", "-12.50", "1.255", "the column has 2 digits behind the point"),
        ("n", "7.50", "NaN", "MySQL has no infinity and no NaN"),
        ("i", "100", "1.5", "the column has 0 digits behind the point"),
        ("f", "0.5", "0.1", "it would be rounded to a float of four bytes"),
        ("f", "-0.25", "NaN", "MySQL has no infinity and no NaN"),
        ("g", "0.25", "0.125", "the column has 2 digits behind the point"),
        ("y", "2000", "70", "a year of two digits would become one of this century or the last"),
        ("b", "\\x01020304", "\\x010203", "the column fills it up to 4 bytes"),
        ("c", " a", "a ", "the column loses spaces at the end"),
        ("v", "ab ", "abc ", "the column loses spaces at the end"),
        ("e", "it's", "X", "the column has enum('x','it''s'), in this case and order"),
        ("e", "x", "2", "the column has enum('x','it''s'), in this case and order"),
        ("st", "a,b", "b,a", "the column has set('a','b'), in this case and order"),
        ("st", "", "a,a", "the column has set('a','b'), in this case and order"),
        ("j", "{\"a\": 1}", "", ""),
        ("vb", "\\x0102", "", ""),
    ] {
        let literal = |value: &str| format!("'{}'", value.replace('\'', "''"));
        let (good, bad) = (literal(kept), literal(refused));
        for write in
            ["UPDATE kept SET NAME = NEW WHERE id = 1", "INSERT INTO kept (id, NAME) VALUES (2, NEW)"]
        {
            let write = write.replace("NAME", column);
            if !why.is_empty() {
                ours.check_failure(&write.replace("NEW", &bad), "22003", why).await;
            }
            ours.run(&write.replace("NEW", &good)).await;
        }
        let both = format!("SELECT {column} FROM kept ORDER BY id");
        assert_eq!(read(&ours.client, &both).await, [[kept], [kept]], "{column}");
        ours.run("DELETE FROM kept WHERE id = 2").await;
    }
    let spaces = format!("UPDATE kept SET tiny = '{}'", " ".repeat(256));
    ours.check_failure(&spaces, "22003", "the column loses spaces at the end").await;
    ours.check_failure("UPDATE kept SET v = 'abcd'", "22001", "server \"s\": Data too long").await;
    // Of a column that has more of them.
    let error = ours.client.simple_query("UPDATE kept SET ms = us").await.unwrap_err();
    let error = error.as_db_error().unwrap();
    assert_eq!(
        (error.code().code(), error.message(), error.detail()),
        (
            "0A000",
            "column \"ms\" of foreign table \"kept\" would not keep every value of column \"us\"",
            Some("In `d`.`kept` there, \"ms\" is datetime(3), \"us\" is datetime(6).")
        )
    );
    for (to, from) in [("c", "v"), ("e", "v"), ("v", "tiny"), ("i", "n"), ("b", "vb"), ("g", "f")] {
        let message = format!("would not keep every value of column \"{from}\"");
        ours.check_failure(&format!("UPDATE kept SET {to} = {from}"), "0A000", &message).await;
    }
    ours.run("UPDATE kept SET us = ms, tiny = v, n = i, vb = b, f = f WHERE id = 1").await;
    assert_eq!(
        read(&ours.client, "SELECT us, tiny, n, vb FROM kept").await,
        [["2020-01-01 00:00:00.123", "ab ", "100.00", "\\x01020304"]]
    );
}

/// Tables that are made at once are dropped when their rows are refused, or the source fails.
#[tokio::test]
async fn a_migration_that_fails_leaves_no_table() {
    let Some((ours, _node, mut remote)) = start().await else { return };
    ours.run(
        "CREATE TABLE l5 (id int, n numeric(12,2)); INSERT INTO l5 VALUES (1, 1), (2, 'NaN');
         CREATE VIEW breaks AS SELECT 7 / (30000 - x) AS x FROM generate_series(1, 40000) AS x",
    )
    .await;
    for (source, state) in [("l5", "22003"), ("breaks", "22012")] {
        let migrate = format!("MIGRATE TABLE {source} TO moved SERVER s OPTIONS (dbname 'd')");
        let error = ours.client.simple_query(&migrate).await.unwrap_err();
        let error = error.as_db_error().unwrap();
        assert_eq!(
            (error.code().code(), error.detail().unwrap_or_default().contains("dropped")),
            (state, false)
        );
        let tables: Vec<String> = remote.query("SHOW TABLES").await.unwrap();
        assert_eq!(tables, ["f"], "{source}");
    }
    let error = ours.client.simple_query("MIGRATE TABLE l5 TO moved SERVER s").await.unwrap_err();
    let error = error.as_db_error().unwrap();
    assert_eq!(
        (error.code().code(), error.hint()),
        ("42P01", Some("The table's option dbname says which database it is in."))
    );
}

#[tokio::test]
async fn generated_columns_are_left_to_the_server() {
    let Some((ours, _node, mut remote)) = start().await else { return };
    remote
        .query_drop("CREATE TABLE made (id INT, Twice INT AS (id * 2) STORED, v INT AS (id + 1) VIRTUAL)")
        .await
        .unwrap();
    ours.run("IMPORT FOREIGN SCHEMA d LIMIT TO (made) FROM SERVER s INTO public").await;
    ours.run("INSERT INTO made VALUES (1); INSERT INTO made (v, id) SELECT NULL, 2; TRUNCATE f").await;
    let path = ours.path("made.csv");
    std::fs::write(&path, "3\n").unwrap();
    ours.run(&format!("COPY made (id) FROM '{path}' (FORMAT csv)")).await;
    assert_eq!(
        read(&ours.client, "SELECT * FROM made ORDER BY id").await,
        [["1", "2", "2"], ["2", "4", "3"], ["3", "6", "4"]]
    );
    for (sql, message) in [
        ("INSERT INTO made VALUES (4, 8)", "cannot insert a non-DEFAULT value into column \"Twice\""),
        ("UPDATE made SET v = 1", "server \"s\": The value specified for generated column 'v'"),
    ] {
        ours.check_failure(sql, "428C9", message).await;
    }
    ours.run("UPDATE made SET id = 5 WHERE id = 3; MIGRATE TABLE made TO copied SERVER s OPTIONS (dbname 'd', table_name 'copied')")
        .await;
    assert_eq!(read(&ours.client, "SELECT * FROM copied WHERE id = 5").await, [["5", "10", "6"]]);
}

/// The process drops them before it ends: here, and on a Tidemill, whose tables are in no transaction either.
#[tokio::test]
async fn a_migration_leaves_no_table_when_the_process_ends() {
    let Some((mut ours, _node, mut remote)) = start().await else { return };
    let dir = tempfile::tempdir().unwrap();
    let other = Server::start(dir.path());
    let there = other.connect().await;
    ours.run(&format!(
        "CREATE SERVER t FOREIGN DATA WRAPPER tidemill_fdw OPTIONS (host '127.0.0.1', port '{}', dbname 'tidemill');
         CREATE USER MAPPING FOR PUBLIC SERVER t OPTIONS (user 'postgres');
         CREATE VIEW slow AS SELECT x AS id FROM generate_series(1, 20000) AS x
             UNION ALL SELECT 0 WHERE pg_sleep(600) IS NOT NULL",
        other.port
    ))
    .await;
    let tables = "SELECT relname FROM pg_class WHERE relname LIKE 'moved%'";
    for signal in ["TERM", "INT"] {
        let waiter = ours.server.connect().await;
        let migrate = "MIGRATE TABLE slow TO moved SERVER s OPTIONS (dbname 'd', table_name 'moved'), t OPTIONS (table_name 'moved')";
        let waiting = tokio::spawn(async move { failure(&waiter, migrate).await });
        // They have rows, too.
        let deadline = Instant::now() + START_MAX;
        let written = "SELECT count(*) FROM information_schema.innodb_trx";
        while remote.query_first::<i64, _>(written).await.unwrap() != Some(1)
            || read(&there, tables).await.is_empty()
        {
            assert!(Instant::now() < deadline, "nothing is written");
            // What is asked for again at once is answered as before.
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        ours.server.signal(signal);
        assert_eq!(waiting.await.unwrap().0, "57P01");
        assert!(ours.server.wait().success());
        let left: Vec<String> = remote.query("SHOW TABLES").await.unwrap();
        assert_eq!((left, read(&there, tables).await), (vec!["f".to_string()], vec![]), "{signal}");
        ours.server = Server::start(&ours.dir.path().join("data"));
        ours.client = ours.server.connect().await;
    }
}
