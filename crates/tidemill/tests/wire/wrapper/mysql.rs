//! MariaDB, when it is installed, or MySQL.

use std::net::TcpListener;
use std::time::Instant;

use mysql_async::Conn;
use mysql_async::prelude::Queryable;

use super::Ours;
use super::mysql_server::{Mysqld, START_MAX};
use super::row::{COLUMNS, inserts, rows};
use crate::server::{failure, rows as read};

/// Texts that know no case, in a character set of its own.
const TABLE: &str = "CREATE TABLE f (id INT, small SMALLINT, big BIGINT, x DOUBLE,
     name VARCHAR(20) CHARACTER SET latin1 COLLATE latin1_swedish_ci, ok BOOLEAN, day DATE, at DATETIME(6), KEY (name))";

pub async fn start() -> Option<(Ours, Mysqld, Conn)> {
    let node = Mysqld::start().await?;
    let ours = Ours::start().await;
    let mut remote = node.connect().await;
    remote.query_drop(TABLE).await.unwrap();
    ours.run(&format!(
        "CREATE SERVER s FOREIGN DATA WRAPPER mysql_fdw OPTIONS (host '127.0.0.1', port '{}');
         CREATE USER MAPPING FOR PUBLIC SERVER s OPTIONS (username 'u', password 'p');
         CREATE FOREIGN TABLE f ({COLUMNS}) SERVER s OPTIONS (dbname 'd', table_name 'f')",
        node.port
    ))
    .await;
    Some((ours, node, remote))
}

#[tokio::test]
async fn answers_are_those_of_a_table_of_ours() {
    let Some((ours, _node, mut remote)) = start().await else { return };
    let rows = rows(300, 3);
    for insert in inserts("f", &rows, true).lines() {
        remote.query_drop(insert).await.unwrap();
    }
    ours.run(&format!("CREATE TABLE ours ({COLUMNS})")).await;
    ours.run(&inserts("ours", &rows, false)).await;
    ours.compare("f", 1).await;
    for off in ["enable_foreign_filters", "enable_foreign_aggregates", "enable_foreign_top_k"] {
        ours.run(&format!("SET {off} = off")).await;
        ours.compare("f", 2).await;
        ours.run(&format!("RESET {off}")).await;
    }
}

#[tokio::test]
async fn what_means_the_same_there_is_left_to_it() {
    let Some((ours, _node, _remote)) = start().await else { return };
    for (query, sql) in [
        (
            "SELECT id FROM f WHERE name = 'a'",
            "SELECT `id` FROM `d`.`f` WHERE (`name` = 'a' AND CAST(CONVERT(`name` USING utf8mb4) AS BINARY) = 'a')",
        ),
        (
            "SELECT id FROM f WHERE name = 'é'",
            "SELECT `id` FROM `d`.`f` WHERE (CAST(CONVERT(`name` USING utf8mb4) AS BINARY) = 'é')",
        ),
        (
            "SELECT id FROM f WHERE at >= '2021-01-02 03:00' AND x < 0.5",
            "SELECT `id` FROM `d`.`f` WHERE (`at` >= TIMESTAMP'2021-01-02 03:00:00') AND (`x` < 5e-1)",
        ),
        (
            "SELECT day, sum(small), avg(x) FROM f GROUP BY day",
            "SELECT `day`, CAST(sum(`small`) AS SIGNED), false, coalesce(sum(`x`), 0), count(`x`), false FROM `d`.`f` GROUP BY 1",
        ),
        (
            "SELECT id FROM f ORDER BY x LIMIT 3",
            "SELECT `id`, `x` FROM `d`.`f` ORDER BY `x` IS NULL ASC, `x` ASC LIMIT 3",
        ),
        ("SELECT id FROM f WHERE at > '0044-03-15 BC'", "SELECT `id`, `at` FROM `d`.`f`"),
        ("SELECT id FROM f WHERE small / 2 = 1", "SELECT `id`, `small` FROM `d`.`f`"),
        ("SELECT count(*) FROM f WHERE random() < 2", "SELECT NULL FROM `d`.`f`"),
    ] {
        assert_eq!(ours.asked(query).await, sql, "{query}");
    }
}

#[tokio::test]
async fn what_is_wrong_is_told() {
    let Some((ours, node, mut remote)) = start().await else { return };
    remote.query_drop("SET sql_mode = ''").await.unwrap();
    remote.query_drop("INSERT INTO f (id, small, day, ok) VALUES (1, 2, '0000-00-00', 5)").await.unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    // MySQL asks users that it does not have for some authentication or other.
    let denied: &[_] =
        if node.is_mariadb { &["Access denied"] } else { &["Access denied", "asks for authentication by"] };
    for (name, port, user, details) in [
        ("no_port", free, "u", &["Connection refused"][..]),
        ("no_user", node.port, "nobody", denied),
        ("no_password", node.port, "u", &["Access denied"]),
    ] {
        ours.run(&format!(
            "CREATE SERVER {name} FOREIGN DATA WRAPPER mysql_fdw OPTIONS (host '127.0.0.1', port '{port}');
             CREATE USER MAPPING FOR PUBLIC SERVER {name} OPTIONS (username '{user}', password 'hush');
             CREATE FOREIGN TABLE of_{name} (id int) SERVER {name} OPTIONS (dbname 'd', table_name 'f')"
        ))
        .await;
        let error = ours.client.simple_query(&format!("SELECT * FROM of_{name}")).await.unwrap_err();
        let error = error.as_db_error().unwrap();
        assert_eq!(error.message(), format!("could not connect to server \"{name}\""));
        let is_told = details.iter().any(|detail| error.detail().unwrap().contains(detail));
        assert!(error.code().code() == "08001" && is_told, "{error:?}");
        assert!(!format!("{error:?}").contains("hush"));
    }
    ours.run(
        "CREATE FOREIGN TABLE no_db (id int) SERVER s OPTIONS (dbname 'nope', table_name 'f');
         CREATE FOREIGN TABLE no_table (id int) SERVER s OPTIONS (dbname 'd');
         CREATE FOREIGN TABLE no_column (id int, nope int) SERVER s OPTIONS (dbname 'd', table_name 'f');
         CREATE FOREIGN TABLE other_type (id int, name int) SERVER s OPTIONS (dbname 'd', table_name 'f');
         CREATE FOREIGN TABLE narrow (id int, big int) SERVER s OPTIONS (dbname 'd', table_name 'f')",
    )
    .await;
    remote.query_drop("INSERT INTO f (id, big) VALUES (2, 5000000000)").await.unwrap();
    for (query, state, message) in [
        ("SELECT * FROM no_db", "42P01", "foreign table \"no_db\" does not fit server \"s\""),
        (
            "SELECT * FROM no_table",
            "42P01",
            "foreign table \"no_table\" does not fit server \"s\": Table 'd.no_table' doesn't exist",
        ),
        (
            "SELECT nope FROM no_column",
            "42703",
            "foreign table \"no_column\" does not fit server \"s\": Unknown column 'nope'",
        ),
        (
            "SELECT count(*) FROM other_type WHERE name = 0",
            "HV004",
            "column \"name\" of foreign table \"other_type\" is of type integer, but column \"name\" of `d`.`f` on server \"s\" is of type varchar",
        ),
        ("SELECT day FROM f", "22008", "date/time field value out of range: \"0000-00-00\""),
        ("SELECT big FROM narrow", "22003", "value \"5000000000\" is out of range for type integer"),
        (
            "SELECT ok FROM f",
            "HV004",
            "column \"ok\" of foreign table \"f\" is of type boolean, but column \"ok\" of `d`.`f` on server \"s\" has a value of type integer",
        ),
        (
            "CREATE SERVER x FOREIGN DATA WRAPPER mysql_fdw OPTIONS (dbname 'd')",
            "HV00D",
            "invalid option \"dbname\"",
        ),
        (
            "CREATE FOREIGN TABLE x (a int) SERVER s OPTIONS (\"table\" 'd')",
            "HV00D",
            "invalid option \"table\"",
        ),
    ] {
        ours.check_failure(query, state, message).await;
    }
    let error = ours
        .client
        .simple_query("CREATE FOREIGN TABLE x (a int) SERVER s OPTIONS (nope 'd')")
        .await
        .unwrap_err();
    assert_eq!(
        error.as_db_error().unwrap().hint(),
        Some("Valid options in this context are: dbname, table_name, max_blob_size, fetch_size")
    );
    assert_eq!(read(&ours.client, "SELECT id, small FROM f WHERE id = 1").await, [["1", "2"]]);
}

/// What nobody waits for any more ends there as well, and a connection that is lost is made anew.
#[tokio::test]
async fn connections_are_used_again_or_ended() {
    let Some((ours, _node, mut remote)) = start().await else { return };
    remote.query_drop("INSERT INTO f (id) VALUES (1)").await.unwrap();
    remote.query_drop("CREATE VIEW slow AS SELECT id, SLEEP(60) AS z FROM f").await.unwrap();
    ours.run("CREATE FOREIGN TABLE slow (id int, z int) SERVER s OPTIONS (dbname 'd')").await;
    for _ in 0..10 {
        assert_eq!(read(&ours.client, "SELECT count(*) FROM f").await, [["1"]]);
    }
    let others =
        "SELECT count(*) FROM information_schema.processlist WHERE user = 'u' AND id <> connection_id()";
    // One serves the queries, one is the probe's.
    assert!(remote.query_first::<i64, _>(others).await.unwrap() <= Some(2));
    let running = "SELECT count(*) FROM information_schema.processlist WHERE user = 'u' AND id <> connection_id() AND command <> 'Sleep'";
    for (before, read) in [("", "SELECT * FROM slow"), ("BEGIN; DECLARE c CURSOR FOR TABLE slow", "FETCH c")]
    {
        ours.run(&format!("{before}; SET statement_timeout = 300")).await;
        ours.check_failure(read, "57014", "statement timeout").await;
        until_none(&mut remote, running).await;
        ours.run("ROLLBACK; RESET statement_timeout").await;
    }
    let waiter = ours.server.connect().await;
    let token = waiter.cancel_token();
    let waiting = tokio::spawn(async move { failure(&waiter, "SELECT * FROM slow").await });
    let deadline = Instant::now() + START_MAX;
    while remote.query_first::<i64, _>(running).await.unwrap() != Some(1) {
        assert!(Instant::now() < deadline, "nobody reads");
    }
    token.cancel_query(tokio_postgres::NoTls).await.unwrap();
    assert_eq!(waiting.await.unwrap(), ("57014".into(), "canceling statement due to user request".into()));
    until_none(&mut remote, running).await;
    assert_eq!(read(&ours.client, "SELECT count(*) FROM f").await, [["1"]]);
    let ids = "SELECT id FROM information_schema.processlist WHERE user = 'u' AND id <> connection_id()";
    for id in remote.query::<u64, _>(ids).await.unwrap() {
        remote.query_drop(format!("KILL {id}")).await.unwrap();
    }
    assert_eq!(read(&ours.client, "SELECT count(*) FROM f").await, [["1"]]);
}

/// What is counted there comes to its end.
async fn until_none(remote: &mut Conn, count: &str) {
    let deadline = Instant::now() + START_MAX;
    while remote.query_first::<i64, _>(count).await.unwrap() != Some(0) {
        assert!(Instant::now() < deadline, "{count} does not become 0");
    }
}

#[tokio::test]
async fn what_is_written_is_there() {
    let Some((ours, _node, _remote)) = start().await else { return };
    // The table has a character set of its own, which has fewer letters than ours.
    ours.compare_writes("f").await;
}

#[tokio::test]
async fn what_cannot_be_kept_is_refused() {
    let Some((ours, _node, mut remote)) = start().await else { return };
    remote
        .query_drop(
            "CREATE TABLE k (id INT PRIMARY KEY AUTO_INCREMENT, small TINYINT, t VARCHAR(3) CHARACTER SET latin1 NOT NULL, x FLOAT,
                 at DATETIME, n DECIMAL(4,1), CHECK (small <> 9))",
        )
        .await
        .unwrap();
    ours.run(
        "CREATE FOREIGN TABLE k (id int, small int, t text, x float8, at timestamp, n numeric) SERVER s OPTIONS (dbname 'd');
         CREATE FOREIGN TABLE wrong (id int, t int) SERVER s OPTIONS (dbname 'd', table_name 'k');
         CREATE FOREIGN TABLE gone (id int) SERVER s OPTIONS (dbname 'd')",
    )
    .await;
    ours.run("INSERT INTO k VALUES (0, 1, 'abc', 0.5, '2020-01-01 12:00:00', 12.5)").await;
    assert_eq!(
        read(&ours.client, "SELECT * FROM k").await,
        [["0", "1", "abc", "0.5", "2020-01-01 12:00:00", "12.5"]]
    );
    for (sql, state, message) in [
        ("INSERT INTO k (id, t, small) VALUES (2, 't', 1000)", "22003", "server \"s\": Out of range value"),
        ("INSERT INTO k (id, t) VALUES (2, 'four')", "22001", "server \"s\": Data too long"),
        ("INSERT INTO k (id, t) VALUES (2, '漢')", "22P05", "server \"s\": "),
        ("INSERT INTO k (id, t, x) VALUES (2, 't', 0.1)", "22003", "rounded to a float of four bytes"),
        ("INSERT INTO k (id, t, x) VALUES (2, 't', 'Infinity')", "22003", "MySQL has no infinity"),
        (
            "INSERT INTO k (id, t, at) VALUES (2, 't', '2020-01-01 00:00:00.5')",
            "22003",
            "has 0 digits of a second",
        ),
        (
            "INSERT INTO k (id, t, at) VALUES (2, 't', '0044-03-15 BC')",
            "22007",
            "server \"s\": Incorrect datetime value",
        ),
        ("INSERT INTO k (id, t, n) VALUES (2, 't', 5000)", "22003", "server \"s\": Out of range value"),
        ("INSERT INTO k (id) VALUES (2)", "23502", "server \"s\": Column 't' cannot be null"),
        ("INSERT INTO k (id, t, small) VALUES (2, 't', 9)", "23514", "server \"s\": "),
        ("INSERT INTO k (id, t) VALUES (2, 'a'), (0, 'b')", "23505", "server \"s\": Duplicate entry"),
        (
            "INSERT INTO wrong VALUES (1, 2)",
            "HV004",
            "column \"t\" of foreign table \"wrong\" is of type integer",
        ),
        ("INSERT INTO gone VALUES (1)", "42P01", "foreign table \"gone\" does not fit server \"s\""),
        ("UPDATE k SET small = id, id = small", "0A000", "this UPDATE cannot be left to the servers"),
        (
            "INSERT INTO k (id, t) VALUES (1, 'a') RETURNING id",
            "0A000",
            "RETURNING is not supported by the server of node /s/",
        ),
        (
            "INSERT INTO k (id, t) VALUES (1, 'a') ON CONFLICT DO NOTHING",
            "0A000",
            "ON CONFLICT is not supported",
        ),
    ] {
        ours.check_failure(sql, state, message).await;
    }
    assert_eq!(read(&ours.client, "SELECT id FROM k").await, [["0"]]);
    ours.run("CREATE FOREIGN TABLE made (a bigint NOT NULL, b numeric(10,2), c timestamptz, d bytea, e varchar(9), f json) SERVER s OPTIONS (dbname 'd');
              SET timezone = 'UTC'; CREATE DATASOURCE TABLE made")
        .await;
    ours.run("INSERT INTO made VALUES (1, 1.10, '2020-01-01 12:00:00.5+02', '\\x00ff', '漢', '{\"x\": 1}')")
        .await;
    assert_eq!(
        read(&ours.client, "SELECT * FROM made").await,
        [["1", "1.10", "2020-01-01 10:00:00.5+00", "\\x00ff", "漢", "{\"x\": 1}"]]
    );
    ours.check_failure("BEGIN; DROP DATASOURCE TABLE made", "25001", "cannot run inside").await;
    ours.run("ROLLBACK; DROP DATASOURCE TABLE made").await;
}

#[tokio::test]
async fn a_server_that_ends_is_found_out() {
    let Some((ours, node, remote)) = start().await else { return };
    let state = "SELECT state FROM tidemill.nodes WHERE server = 's'";
    ours.until(state, "up").await;
    drop((remote, node));
    ours.until(state, "down").await;
    ours.check_failure("SELECT * FROM f", "08001", "could not connect to server \"s\"").await;
}
