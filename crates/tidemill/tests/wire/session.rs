//! The session as drivers expect it: prepared statements, limits, interrupts, start-up and shutdown.

use tokio_postgres::SimpleQueryMessage;

use crate::client::Client as Wire;
use crate::server::{Server, failure, rows};

fn tags(messages: &[SimpleQueryMessage]) -> usize {
    messages.iter().filter(|m| matches!(m, SimpleQueryMessage::CommandComplete(_))).count()
}

#[tokio::test]
async fn prepared_statements_of_sql_and_of_the_protocol_share_their_names() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let client = server.connect().await;
    client
        .batch_execute("CREATE STREAM s (x int); CREATE CONTINUOUS VIEW v AS SELECT count(*), sum(x) FROM s")
        .await
        .unwrap();
    client
        .batch_execute(
            "PREPARE i (int) AS INSERT INTO s (x) VALUES ($1);
             EXECUTE i(1); EXECUTE i(1 + 1); EXECUTE i('39'); EXECUTE i(NULL)",
        )
        .await
        .unwrap();
    assert_eq!(rows(&client, "SELECT count, sum FROM v").await, [["4", "42"]]);
    client.batch_execute("PREPARE q AS SELECT $1::int + count AS n FROM v").await.unwrap();
    assert_eq!(rows(&client, "EXECUTE q(6)").await, [["10"]]);
    for (sql, state, message) in [
        ("PREPARE q AS SELECT 1", "42P05", "prepared statement \"q\" already exists"),
        ("EXECUTE nope", "26000", "prepared statement \"nope\" does not exist"),
        ("EXECUTE q(1, 2)", "42601", "wrong number of parameters for prepared statement \"q\""),
        ("DEALLOCATE nope", "26000", "prepared statement \"nope\" does not exist"),
    ] {
        assert_eq!(failure(&client, sql).await, (state.into(), message.into()), "{sql}");
    }
    // Planned for another catalog: planned anew.
    client
        .batch_execute("DROP CONTINUOUS VIEW v; CREATE CONTINUOUS VIEW v AS SELECT count(*) FROM s")
        .await
        .unwrap();
    assert_eq!(rows(&client, "EXECUTE q(6)").await, [["6"]]);
    client.batch_execute("EXECUTE i(5)").await.unwrap();
    assert_eq!(rows(&client, "EXECUTE q(6)").await, [["7"]]);
    client
        .batch_execute(
            "DROP CONTINUOUS VIEW v; CREATE CONTINUOUS VIEW v AS SELECT max(x)::text AS count FROM s",
        )
        .await
        .unwrap();
    client.batch_execute("DEALLOCATE ALL").await.unwrap();
    assert_eq!(failure(&client, "EXECUTE i(1)").await.0, "26000");
}

#[tokio::test]
async fn commands_that_return_rows_do_so_in_the_extended_protocol_too() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let client = server.connect().await;
    let row = client.query_one("SHOW TRANSACTION ISOLATION LEVEL", &[]).await.unwrap();
    assert_eq!(row.get::<_, &str>(0), "read committed");
    assert!(client.query("SHOW ALL", &[]).await.unwrap().len() > 100);
    client.batch_execute("PREPARE p AS SELECT 5 AS five").await.unwrap();
    assert_eq!(client.query_one("EXECUTE p", &[]).await.unwrap().get::<_, i32>("five"), 5);
    client.execute("SET application_name TO 'x'", &[]).await.unwrap();
    assert_eq!(rows(&client, "SHOW application_name").await, [["x"]]);
    for name in
        ["server_version", "TimeZone", "standard_conforming_strings", "max_identifier_length", "DateStyle"]
    {
        assert_eq!(client.query(&format!("SHOW {name}"), &[]).await.unwrap().len(), 1, "{name}");
    }
}

#[tokio::test]
async fn a_statement_ends_when_it_is_canceled_or_takes_too_long() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let client = server.connect().await;
    const ENDLESS: &str = "SELECT count(*) FROM generate_series(1, 1000000000000)";
    let timeout = ("57014".to_string(), "canceling statement due to statement timeout".to_string());
    client.batch_execute("SET statement_timeout = '50ms'").await.unwrap();
    assert_eq!(failure(&client, ENDLESS).await, timeout);
    let error = client.query(ENDLESS, &[]).await.unwrap_err();
    assert_eq!(error.as_db_error().unwrap().message(), timeout.1);
    let copied =
        client.copy_out("COPY (SELECT count(*) FROM generate_series(1, 1000000000000)) TO STDOUT").await;
    let error = futures::TryStreamExt::try_collect::<Vec<_>>(copied.unwrap()).await.unwrap_err();
    assert_eq!(error.as_db_error().unwrap().message(), timeout.1);
    client
        .batch_execute("CREATE STREAM s (x int); CREATE CONTINUOUS VIEW v AS SELECT count(*) FROM s")
        .await
        .unwrap();
    client.batch_execute("SET statement_timeout = 0").await.unwrap();

    let token = client.cancel_token();
    let error = tokio::select! {
        done = client.simple_query(ENDLESS) => done.unwrap_err(),
        // A request that comes too early does nothing, so it is made again.
        () = async { loop { token.cancel_query(tokio_postgres::NoTls).await.unwrap() } } => unreachable!(),
    };
    assert_eq!(error.as_db_error().unwrap().message(), "canceling statement due to user request");
    assert_eq!(rows(&client, "SELECT 1").await, [["1"]], "the session goes on");
}

/// What finds no rows for long, and what has more of them than anybody reads.
const LONG: [&str; 6] = [
    "SELECT count(*) FROM big a JOIN big b ON a.s < b.s AND a.id + b.id < 0",
    "SELECT count(*) FROM big a, big b WHERE a.id + b.id = 0",
    "SELECT count(*) FROM big a, big b, big c",
    "SELECT count(*) FROM big a JOIN big b ON a.id % 2 = b.id % 2 JOIN big c ON c.id % 2 = b.id % 2",
    "SELECT count(*) FROM big a JOIN big b ON a.id % 2 = b.id % 2 AND a.s || b.s = ''",
    "SELECT count(*) FROM big WHERE id > ALL (SELECT a.id FROM big a, big b WHERE a.id + b.id < 0)",
];

#[tokio::test]
async fn what_computes_for_long_ends_and_serves_others_meanwhile() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let client = server.connect().await;
    client
        .batch_execute(
            "CREATE TABLE big (id int, s text);
             INSERT INTO big SELECT x, 's' || x FROM generate_series(1, 20000) AS x;
             SET statement_timeout = '100ms'",
        )
        .await
        .unwrap();
    let late = ("57014".to_string(), "canceling statement due to statement timeout".to_string());
    for query in LONG.into_iter().chain(["SELECT a.s FROM big a, big b WHERE b.id < 100 ORDER BY a.s || b.s"])
    {
        assert_eq!(failure(&client, query).await, late, "{query}");
    }
    client.batch_execute("SET statement_timeout = 0").await.unwrap();
    let mut running = vec![];
    for query in LONG {
        let busy = server.connect().await;
        let token = busy.cancel_token();
        running.push((token, tokio::spawn(async move { failure(&busy, query).await })));
    }
    let active = "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '% FROM big %'
                  AND pid <> pg_backend_pid()";
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while rows(&client, active).await != [[LONG.len().to_string()]] {
        assert!(std::time::Instant::now() < deadline, "they do not run at the same time");
    }
    for (token, ended) in running {
        token.cancel_query(tokio_postgres::NoTls).await.unwrap();
        assert_eq!(ended.await.unwrap().1, "canceling statement due to user request");
    }
    // Nobody waits for it any more.
    let config = format!("host=127.0.0.1 port={} user=postgres dbname=tidemill", server.port);
    let (left, connection) = tokio_postgres::connect(&config, tokio_postgres::NoTls).await.unwrap();
    let socket = tokio::spawn(connection);
    let asked = tokio::spawn(async move { left.simple_query(LONG[1]).await.map(drop) });
    while rows(&client, active).await != [["1"]] {
        assert!(std::time::Instant::now() < deadline, "it does not run");
    }
    socket.abort();
    assert!(asked.await.unwrap().is_err());
    while rows(&client, active).await != [["0"]] {
        assert!(std::time::Instant::now() < deadline, "it goes on without its client");
    }
}

#[tokio::test]
async fn idle_sessions_are_ended() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    for (setting, state) in
        [("idle_session_timeout", "57P05"), ("idle_in_transaction_session_timeout", "25P03")]
    {
        let config = format!("host=127.0.0.1 port={} user=postgres dbname=tidemill", server.port);
        let (client, connection) = tokio_postgres::connect(&config, tokio_postgres::NoTls).await.unwrap();
        let ended = tokio::spawn(connection);
        client.batch_execute(&format!("SET {setting} = '20ms'")).await.unwrap();
        if state == "25P03" {
            client.batch_execute("BEGIN").await.unwrap();
        }
        let error = ended.await.unwrap().unwrap_err();
        assert_eq!(error.as_db_error().unwrap().code().code(), state);
    }
}

#[tokio::test]
async fn connections_are_limited() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("tidemill.toml");
    std::fs::write(&config, "max_connections = 2\n").unwrap();
    let server = Server::start_with(
        &dir.path().join("data"),
        &["--trust-loopback", "--config", config.to_str().unwrap()],
    );
    let (_one, _two) = (server.connect().await, server.connect().await);
    let config = format!("host=127.0.0.1 port={} user=postgres dbname=tidemill", server.port);
    let error = tokio_postgres::connect(&config, tokio_postgres::NoTls).await.err().unwrap();
    let error = error.as_db_error().unwrap();
    assert_eq!((error.code().code(), error.message()), ("53300", "sorry, too many clients already"));
}

#[tokio::test]
async fn a_query_has_its_limit_of_memory() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let client = server.connect().await;
    client.batch_execute("SET query_memory_limit = '2MB'").await.unwrap();
    let spilled = "SELECT count(*) FROM (SELECT g FROM generate_series(1, 500000) g GROUP BY g) t";
    assert_eq!(rows(&client, spilled).await, [["500000"]]);
    let sql = "SELECT array_length(array_agg(g), 1) FROM generate_series(1, 5000000) g";
    let (state, message) = failure(&client, sql).await;
    assert_eq!((state.as_str(), message.as_str()), ("53200", "out of memory"));
    client
        .batch_execute("BEGIN; DECLARE c SCROLL CURSOR FOR SELECT g FROM generate_series(1, 5000000) g")
        .await
        .unwrap();
    assert_eq!(failure(&client, "MOVE ALL c").await.0, "53200");
}

/// They are made while the query reads them, and not when it is planned.
#[tokio::test]
async fn a_series_is_never_whole_in_memory() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let client = server.connect().await;
    let long = "SELECT * FROM generate_series(timestamp '0020-01-01', '2020-01-01', '1 second')";
    client.batch_execute(&format!("EXPLAIN {long}; PREPARE p AS {long}")).await.unwrap();
    assert_eq!(rows(&client, &format!("{long} LIMIT 1")).await, [["0020-01-01 00:00:00"]]);
    assert_eq!(rows(&client, "SELECT generate_series(1, (SELECT 1000000000)) LIMIT 1").await, [["1"]]);
    client.batch_execute("SET statement_timeout = 300").await.unwrap();
    let started = std::time::Instant::now();
    let (state, _) = failure(&client, "SELECT count(*) FROM generate_series(1, (SELECT 1000000000))").await;
    assert_eq!(state, "57014");
    assert!(started.elapsed() < std::time::Duration::from_secs(10), "it ends when it is told to");
    // Two that run beside each other are lists.
    client.batch_execute("RESET statement_timeout").await.unwrap();
    let beside = "SELECT generate_series(1.0, (SELECT 1e9)), generate_series(1, 2)";
    let (state, message) = failure(&client, beside).await;
    assert_eq!(state, "54000");
    assert!(message.starts_with("a list of more than "), "{message}");
}

#[tokio::test]
async fn series_without_a_planner_have_a_limit() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let client = server.connect().await;
    client
        .batch_execute("CREATE STREAM s (x int); CREATE CONTINUOUS VIEW v AS SELECT sum(x) FROM s")
        .await
        .unwrap();
    let (state, message) = failure(&client, "INSERT INTO s SELECT generate_series(1, 10000001)").await;
    assert_eq!(state, "54000");
    assert_eq!(message, "a series of 10000001 rows exceeds the limit of 10000000 rows");
}

#[tokio::test]
async fn a_signal_ends_sessions_with_a_reason() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start(dir.path());
    let config = format!("host=127.0.0.1 port={} user=postgres dbname=tidemill", server.port);
    let (client, connection) = tokio_postgres::connect(&config, tokio_postgres::NoTls).await.unwrap();
    let ended = tokio::spawn(connection);
    client.batch_execute("BEGIN").await.unwrap();
    server.terminate();
    let error = ended.await.unwrap().unwrap_err();
    let error = error.as_db_error().unwrap();
    assert_eq!(
        (error.code().code(), error.message()),
        ("57P01", "terminating connection due to administrator command")
    );
    assert!(server.wait().success());
}

/// Programs that manage servers send it for new settings, and a terminal when it is closed.
#[tokio::test]
async fn a_hangup_ends_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let client = server.connect().await;
    server.signal("HUP");
    server.signal("HUP");
    let told = Wire::connect(server.port, "tidemill").query("SELECT pg_reload_conf()");
    let warnings: Vec<_> = told.notices.iter().map(|notice| (notice.get('S'), notice.get('M'))).collect();
    assert_eq!(told.rows, [[Some("t".to_string())]]);
    assert_eq!(warnings, [("WARNING", "settings are read at the start; restart the server for others")]);
    for client in [client, server.connect().await] {
        assert_eq!(rows(&client, "SELECT 1").await, [["1"]]);
    }
}

#[tokio::test]
async fn the_socket_in_the_data_directory_needs_no_password() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = Server::start_with(&data, &[]);
    let options = format!("host={} port={} user=postgres dbname=tidemill", data.display(), server.port);
    let (client, connection) = tokio_postgres::connect(&options, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(async move { drop(connection.await) });
    client.batch_execute("ALTER ROLE postgres PASSWORD 'I\u{AD}X'").await.unwrap();
    // SASLprep takes the soft hyphen away.
    let tcp = format!("host=127.0.0.1 port={} user=postgres dbname=tidemill password=IX", server.port);
    assert!(tokio_postgres::connect(&tcp, tokio_postgres::NoTls).await.is_ok());
    assert_eq!(failure(&client, "ALTER ROLE other PASSWORD 'x'").await.0, "42704");
    assert_eq!(failure(&client, "CREATE ROLE other").await.0, "0A000");
}

#[tokio::test]
async fn what_a_driver_sends_to_clean_up() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let client = server.connect().await;
    client.batch_execute("PREPARE p AS SELECT 1; DECLARE c CURSOR WITH HOLD FOR SELECT 1").await.unwrap();
    client.batch_execute("SET application_name = 'x'").await.unwrap();
    let done = client
        .simple_query("RESET ALL; CLOSE ALL; UNLISTEN *; DEALLOCATE ALL; DISCARD PLANS; DISCARD TEMP; DISCARD SEQUENCES")
        .await
        .unwrap();
    assert_eq!(tags(&done), 7);
    client.batch_execute("DISCARD ALL").await.unwrap();
    assert_eq!(rows(&client, "SHOW application_name").await, [[""]]);
    assert_eq!(failure(&client, "FETCH c").await.0, "34000");
    for sql in ["LISTEN x", "NOTIFY x", "LOCK TABLE t", "PREPARE TRANSACTION 'x'"] {
        assert_eq!(failure(&client, sql).await.0, "0A000", "{sql}");
    }
}
