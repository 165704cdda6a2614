//! Connections to the server of a foreign table: shared, waited for, lost and made anew.

use tokio_postgres::NoTls;

use super::{Setting, start};
use crate::node::until;
use crate::proxy::{Mode, Proxy};
use crate::server::{Server, failure, rows};

/// A server that has no room for one more connection is there, and the one that it has given is used.
#[tokio::test]
async fn a_server_that_is_full_is_not_down() {
    let Some(setting) = start().await else { return };
    let Setting { node, remote, .. } = &setting;
    remote.batch_execute("CREATE ROLE one LOGIN CONNECTION LIMIT 1; GRANT SELECT ON t TO one").await.unwrap();
    let dir = setting.dir.path();
    let config = dir.join("tidemill.toml");
    std::fs::write(&config, "node_check_interval = '20ms'\n").unwrap();
    let options = ["--trust-loopback", "--config", config.to_str().unwrap()];
    let server = Server::start_with(&dir.join("one"), &options);
    let client = server.connect().await;
    let create = format!(
        "CREATE SERVER full FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '127.0.0.1', port '{}', dbname 'postgres');
         CREATE USER MAPPING FOR PUBLIC SERVER full OPTIONS (user 'one');
         CREATE FOREIGN TABLE t (id int) SERVER full",
        node.port
    );
    client.batch_execute(&create.replace(" full", " \"full\"")).await.unwrap();
    let checks = "SELECT state FROM tidemill.nodes WHERE server = 'full'";
    until(&client, checks, "up").await;
    for _ in 0..5 {
        assert_eq!(rows(&client, "SELECT count(*) FROM t").await, [["5003"]]);
        let since = &rows(&client, "SELECT checked_at FROM tidemill.nodes WHERE server = 'full'").await[0][0];
        let later = format!("SELECT checked_at > '{since}' FROM tidemill.nodes WHERE server = 'full'");
        until(&client, &later, "t").await;
        assert_eq!(rows(&client, checks).await, [["up"]]);
    }
}

/// What nobody waits for any more ends there as well.
#[tokio::test]
async fn a_query_that_is_given_up_ends_there() {
    let Some(setting) = start().await else { return };
    let Setting { remote, client, server, .. } = &setting;
    remote
        .batch_execute("CREATE VIEW slow AS SELECT i AS id, pg_sleep(60) IS NULL AS z FROM generate_series(1, 9) AS i;
             CREATE VIEW endless AS SELECT i AS id, repeat('x', 1000) AS pad FROM (SELECT generate_series(1, 2000000000) AS i) AS many")
        .await
        .unwrap();
    client
        .batch_execute("IMPORT FOREIGN SCHEMA public LIMIT TO (slow, endless) FROM SERVER s INTO public")
        .await
        .unwrap();
    let running =
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'tidemill' AND state <> 'idle'";
    client.batch_execute("SET statement_timeout = 200").await.unwrap();
    assert_eq!(failure(client, "SELECT * FROM slow").await.0, "57014");
    until(remote, running, "0").await;
    // By another session.
    let other = server.connect().await;
    let waiter = server.connect().await;
    let token = waiter.cancel_token();
    let waiting = tokio::spawn(async move { failure(&waiter, "SELECT * FROM slow").await });
    until(remote, running, "1").await;
    token.cancel_query(NoTls).await.unwrap();
    assert_eq!(waiting.await.unwrap().0, "57014");
    until(remote, running, "0").await;
    // By a LIMIT that is applied here: nothing of the rest is kept.
    let before = server.memory_bytes();
    let few = "SELECT count(*) FROM (SELECT id FROM endless WHERE length(pad) = 1000 LIMIT 5) AS few";
    assert_eq!(rows(&other, few).await, [["5"]]);
    until(remote, running, "0").await;
    assert!(server.memory_bytes() < before + (256 << 20));
    // Connections are as good as new.
    assert_eq!(rows(&other, "SELECT count(*) FROM t").await, [["5003"]]);
}

/// A node that goes away under kept connections is an error once, and used again when it is back.
#[tokio::test]
async fn a_lost_connection_is_made_anew() {
    let Some(setting) = start().await else { return };
    let Setting { remote, client, server, .. } = &setting;
    assert_eq!(rows(client, "SELECT count(*) FROM t").await, [["5003"]]);
    let kill =
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'tidemill'";
    for _ in 0..5 {
        assert_eq!(rows(remote, kill).await, [["1"]]);
        assert_eq!(rows(client, "SELECT count(*) FROM t").await, [["5003"]]);
    }
    remote.batch_execute("CREATE VIEW slow AS SELECT pg_sleep(60) IS NULL AS z").await.unwrap();
    client.batch_execute("CREATE FOREIGN TABLE slow (z bool) SERVER s").await.unwrap();
    let other = server.connect().await;
    let asked = tokio::spawn(async move { failure(&other, "SELECT * FROM slow").await });
    let running = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'tidemill' AND state = 'active' AND query LIKE '%COPY (%slow%'";
    until(remote, running, "1").await;
    rows(remote, kill).await;
    let (code, message) = asked.await.unwrap();
    assert_eq!((code.as_str(), message.as_str()), ("08006", "lost the connection to server \"s\""));
    assert_eq!(rows(client, "SELECT count(*) FROM t").await, [["5003"]]);
}

/// A query that the server has never heard of does not wait for ever, while others are answered.
#[tokio::test]
async fn a_query_that_is_swallowed_is_lost() {
    let Some(setting) = start().await else { return };
    let Setting { node, client, server, .. } = &setting;
    let proxy = Proxy::start(node.port).await;
    let create = format!(
        "CREATE SERVER far FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '127.0.0.1', port '{}', dbname 'postgres');
         CREATE USER MAPPING FOR PUBLIC SERVER far;
         CREATE FOREIGN TABLE far_t (id int) SERVER far OPTIONS (table_name 't');
         CREATE FOREIGN TABLE far_slow (id int) SERVER far OPTIONS (table_name 'slow')",
        proxy.port
    );
    setting.remote.batch_execute("CREATE VIEW slow AS SELECT 1 AS id FROM pg_sleep(12)").await.unwrap();
    client.batch_execute(&create).await.unwrap();
    assert_eq!(rows(client, "SELECT count(*) FROM far_t").await, [["5003"]]);
    let other = server.connect().await;
    // That one is at work.
    let slow = tokio::spawn(async move { rows(&other, "SELECT id FROM far_slow").await });
    let at_work =
        "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query LIKE '%COPY (%slow%'";
    until(&setting.remote, &format!("{at_work} AND pid <> pg_backend_pid()"), "1").await;
    proxy.set(Mode::SwallowCopy);
    let told = failure(client, "SELECT count(*) FROM far_t").await;
    assert_eq!(told, ("08006".into(), "lost the connection to server \"far\"".into()));
    proxy.set(Mode::Pass);
    assert_eq!(rows(client, "SELECT state FROM tidemill.nodes WHERE server = 'far'").await, [["up"]]);
    assert_eq!(rows(client, "SELECT count(*) FROM far_t").await, [["5003"]]);
    assert_eq!(slow.await.unwrap(), [["1"]]);
}

/// A plan needs no connection of its own.
#[tokio::test]
async fn who_only_plans_does_not_wait() {
    let Some(setting) = start().await else { return };
    let Setting { node, remote, server, client, .. } = &setting;
    remote.batch_execute("CREATE TABLE note (id int)").await.unwrap();
    let define = |name: &str, wait: &str| {
        format!(
            "CREATE SERVER {name} FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '127.0.0.1', port '{}', dbname 'postgres',
                                                                            max_connections '1', connection_wait '{wait}');
             CREATE USER MAPPING FOR PUBLIC SERVER {name};
             CREATE FOREIGN TABLE {name}_t (id int) SERVER {name} OPTIONS (table_name 't');
             CREATE FOREIGN TABLE {name}_note (id int) SERVER {name} OPTIONS (table_name 'note')",
            node.port
        )
    };
    client.batch_execute(&(define("patient", "600") + ";" + &define("hasty", "0"))).await.unwrap();
    let checks = "SELECT count(*) FROM tidemill.nodes WHERE state = 'up' AND server IN ('patient', 'hasty')";
    until(client, checks, "2").await;
    let holder = server.connect().await;
    let hold = "BEGIN; INSERT INTO patient_note VALUES (1); INSERT INTO hasty_note VALUES (1)";
    holder.batch_execute(hold).await.unwrap();
    client.batch_execute("SET statement_timeout = '30s'").await.unwrap();
    assert!(!rows(client, "EXPLAIN SELECT count(*) FROM patient_t").await.is_empty());
    for statement in ["SELECT count(*) FROM hasty_t", "UPDATE hasty_t SET id = 1 WHERE id < 0"] {
        let told = failure(client, statement).await;
        assert_eq!(told, ("53300".into(), "too many connections to server \"hasty\"".into()));
    }
    holder.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(rows(client, "SELECT count(*) FROM patient_t").await, [["5003"]]);
}

/// Many sessions share the connections that there are.
#[tokio::test]
async fn who_needs_a_connection_waits_for_one() {
    let Some(setting) = start().await else { return };
    let Setting { node, remote, server, client, .. } = &setting;
    remote
        .batch_execute(
            "CREATE TABLE wide AS SELECT x AS id, repeat('x', 1000) AS t FROM generate_series(1, 30000) AS x;
             CREATE TABLE note (id int); CREATE ROLE few LOGIN CONNECTION LIMIT 3; GRANT SELECT ON wide TO few",
        )
        .await
        .unwrap();
    remote.batch_execute("VACUUM ANALYZE wide").await.unwrap();
    let define = |name: &str, user: &str, options: &str| {
        format!(
            "CREATE SERVER {name} FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '127.0.0.1', port '{}', dbname 'postgres', {options});
             CREATE USER MAPPING FOR PUBLIC SERVER {name} OPTIONS (user '{user}');
             CREATE FOREIGN TABLE {name}_wide (id int, t text) SERVER {name} OPTIONS (table_name 'wide');
             CREATE FOREIGN TABLE {name}_note (id int) SERVER {name} OPTIONS (table_name 'note')",
            node.port
        )
    };
    client
        .batch_execute(&define("two", "postgres", "max_connections '2', connection_wait '600'"))
        .await
        .unwrap();
    client.batch_execute(&define("role", "few", "connection_wait '600'")).await.unwrap();
    client.batch_execute(&define("many", "postgres", "max_connections '20'")).await.unwrap();
    client
        .batch_execute(&define("one", "postgres", "max_connections '1', connection_wait '0'"))
        .await
        .unwrap();
    for name in ["two", "role", "many"] {
        // Its parts are read by four where there are as many.
        let query = format!(
            "SET enable_foreign_aggregates = off; SELECT count(*), sum(id), count(DISTINCT id) FROM {name}_wide"
        );
        let sessions = (0..12).map(|_| async {
            let session = server.connect().await;
            for _ in 0..3 {
                assert_eq!(rows(&session, &query).await, [["30000", "450015000", "30000"]], "{name}");
            }
        });
        futures::future::join_all(sessions).await;
    }
    let most = "SELECT connections <= 3 FROM tidemill.nodes WHERE server = 'two'";
    assert_eq!(rows(client, most).await, [["t"]]);
    client.batch_execute("BEGIN; INSERT INTO one_note VALUES (1)").await.unwrap();
    let second = server.connect().await;
    let (code, told) = failure(&second, "SELECT count(*) FROM one_wide").await;
    assert_eq!((code.as_str(), told.as_str()), ("53300", "too many connections to server \"one\""));
    client.batch_execute("COMMIT").await.unwrap();
    assert_eq!(rows(&second, "SELECT count(*) FROM one_wide").await, [["30000"]]);
    second.batch_execute("SET enable_foreign_joins = off").await.unwrap();
    let twice = "SELECT count(*) FROM TABLE AS a JOIN TABLE AS b USING (id)";
    assert_eq!(rows(&second, &twice.replace("TABLE", "two_note")).await, [["1"]]);
    let (code, told) = failure(&second, &twice.replace("TABLE", "one_note")).await;
    assert_eq!(
        (code.as_str(), told.as_str()),
        ("53300", "this statement needs 2 connections to server \"one\"")
    );
}
