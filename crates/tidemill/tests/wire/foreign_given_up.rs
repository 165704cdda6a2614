//! Foreign tables that are written to, or read in a block, by statements that are given up: what ends here ends there.

use std::pin::pin;

use bytes::Bytes;
use futures::{SinkExt, StreamExt};
use tokio_postgres::{NoTls, SimpleQueryMessage};

use crate::client::Client as Wire;
use crate::foreign_write::{Setting, counts, start};
use crate::node::until;
use crate::proxy::Mode;
use crate::server::{error, failure, rows};

/// What the nodes do for somebody, but the rows and locks of a transaction that waits for its end.
pub const AT_WORK: &str =
    "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'tidemill' AND state = 'active'";
pub const OPEN: &str =
    "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'tidemill' AND state <> 'idle'";

const NO_PARAMETERS: [i32; 0] = [];

/// Of the simple protocol.
fn query(sql: &str) -> (u8, Vec<u8>) {
    (b'Q', [sql.as_bytes(), b"\0"].concat())
}

/// Each row takes the nodes longer than anybody waits.
pub async fn start_slow() -> Option<Setting> {
    let setting = start().await?;
    let Setting { remote, client, .. } = &setting;
    let slow = (1..=3).map(|i| {
        format!("CREATE TRIGGER slow BEFORE INSERT OR UPDATE ON n{i}.m FOR EACH ROW WHEN (NEW.v = 1) EXECUTE FUNCTION slow();")
    });
    let function = "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql
         AS 'BEGIN PERFORM pg_sleep(600); RETURN NEW; END';
         CREATE VIEW n1.slow AS SELECT pg_sleep(600) IS NULL AS z;
         CREATE VIEW n1.many AS SELECT generate_series(1, 10000000) AS id;
         CREATE VIEW n1.begun AS SELECT generate_series(1, 3000) AS id UNION ALL SELECT 0 WHERE pg_sleep(600) IS NULL;";
    remote.batch_execute(&(function.to_string() + &slow.collect::<String>())).await.unwrap();
    client
        .batch_execute(
            "CREATE FOREIGN TABLE slow (z bool) SERVER n1 OPTIONS (schema_name 'n1');
             CREATE FOREIGN TABLE many (id int) SERVER n1 OPTIONS (schema_name 'n1');
             CREATE FOREIGN TABLE begun (id int) SERVER n1 OPTIONS (schema_name 'n1')",
        )
        .await
        .unwrap();
    Some(setting)
}

#[tokio::test]
async fn rows_that_are_given_up_are_nowhere() {
    let Some(setting) = start_slow().await else { return };
    let Setting { remote, client, server, .. } = &setting;
    client.batch_execute("SET statement_timeout = 300").await.unwrap();
    for statement in [
        "INSERT INTO t1 (id, v) SELECT x, 1 FROM generate_series(1, 9) AS x",
        "INSERT INTO t1 (id, v) VALUES (1, 1)",
        "INSERT INTO t1 (id, v) VALUES (1, 1) RETURNING id",
        "INSERT INTO m (id, v) VALUES (1, 1), (2, 1), (3, 1)",
        "BEGIN; INSERT INTO m (id, v) VALUES (1, 1), (2, 1), (3, 1)",
        "INSERT INTO m (id, v) VALUES (1, 2), (2, 2); INSERT INTO t1 (id, v) VALUES (9, 1)",
    ] {
        assert_eq!(failure(client, statement).await.0, "57014", "{statement}");
        // Before anybody ends the block.
        until(remote, OPEN, "0").await;
        client.batch_execute("ROLLBACK").await.unwrap();
        assert_eq!(counts(remote).await, ["0", "0", "0"], "{statement}");
    }
    let mut copying = Box::pin(client.copy_in("COPY t1 (id, v) FROM STDIN").await.unwrap());
    copying.send(Bytes::from_static(b"1\t1\n")).await.unwrap();
    let told = copying.as_mut().finish().await.unwrap_err();
    assert_eq!(told.code().unwrap().code(), "57014");
    until(remote, OPEN, "0").await;
    // By another session, and by a client that goes.
    let waiter = server.connect().await;
    let token = waiter.cancel_token();
    let insert = "INSERT INTO m (id, v) SELECT x, 1 FROM generate_series(1, 9) AS x";
    let waiting = tokio::spawn(async move { failure(&waiter, insert).await });
    until(remote, AT_WORK, "3").await;
    token.cancel_query(NoTls).await.unwrap();
    assert_eq!(waiting.await.unwrap().0, "57014");
    until(remote, OPEN, "0").await;
    let mut gone = Wire::connect(server.port, "tidemill");
    gone.send(&[query(insert)]);
    until(remote, AT_WORK, "3").await;
    drop(gone);
    until(remote, OPEN, "0").await;
    assert_eq!(counts(remote).await, ["0", "0", "0"]);
}

/// A block holds locks there: what it reads is ended with the statement, and what it has written with the block.
#[tokio::test]
async fn a_block_that_is_given_up_holds_nothing() {
    let Some(setting) = start_slow().await else { return };
    let Setting { remote, client, server, .. } = &setting;
    client.batch_execute("INSERT INTO t1 (id) VALUES (1), (2)").await.unwrap();
    client.batch_execute("SET statement_timeout = 300").await.unwrap();
    client.batch_execute("BEGIN; UPDATE t1 SET n = 1; SAVEPOINT a").await.unwrap();
    for _ in 0..2 {
        assert_eq!(failure(client, "SELECT * FROM slow").await.0, "57014");
        until(remote, AT_WORK, "0").await;
        client.batch_execute("ROLLBACK TO a").await.unwrap();
        assert_eq!(rows(client, "SELECT sum(n) FROM t1").await, [["2"]]);
    }
    // Where the connection is after an UPDATE nobody knows.
    assert_eq!(failure(client, "UPDATE t1 SET v = 1").await.0, "57014");
    until(remote, OPEN, "0").await;
    client.batch_execute("ROLLBACK TO a").await.unwrap();
    let told = failure(client, "SELECT sum(n) FROM t1").await;
    assert_eq!(told, ("25P02".into(), "the transaction on node /n1/ was interrupted".into()));
    client.batch_execute("ROLLBACK").await.unwrap();
    // A client that goes in the middle of it.
    let mut gone = Wire::connect(server.port, "tidemill");
    gone.query("BEGIN; DECLARE c CURSOR FOR SELECT id FROM t1; FETCH 1 FROM c; UPDATE t1 SET n = 3");
    gone.send(&[query("SELECT * FROM slow")]);
    until(remote, AT_WORK, "1").await;
    drop(gone);
    until(remote, OPEN, "0").await;
    client.batch_execute("SET statement_timeout = 0; UPDATE t1 SET n = 4").await.unwrap();
    assert_eq!(rows(remote, "SELECT DISTINCT n::int::text FROM n1.m").await, [["4"]]);
}

/// Before anybody ends the block, which may never happen.
#[tokio::test]
async fn what_the_cursors_of_a_failed_block_read_ends_with_it() {
    let Some(setting) = start_slow().await else { return };
    let Setting { remote, server, .. } = &setting;
    let mut client = server.connect().await;
    let limit = "SET LOCAL statement_timeout = 300";
    for hold in ["", "WITH HOLD"] {
        client
            .batch_execute(&format!("BEGIN; DECLARE c CURSOR {hold} FOR TABLE slow; {limit}"))
            .await
            .unwrap();
        assert_eq!(failure(&client, "FETCH c").await.0, "57014");
        until(remote, OPEN, "0").await;
        client.batch_execute("ROLLBACK").await.unwrap();
    }
    // Nobody waits for a row of a cursor when the block fails.
    let many = |name: &str| format!("DECLARE {name} CURSOR FOR TABLE many; FETCH 3 {name}");
    client.batch_execute(&format!("BEGIN; {}", many("c"))).await.unwrap();
    assert_eq!(failure(&client, "SELECT 1 / 0").await.0, "22012");
    until(remote, OPEN, "0").await;
    assert_eq!(failure(&client, "FETCH c").await.0, "25P02");
    client.batch_execute("ROLLBACK").await.unwrap();
    // A savepoint keeps what was there before it, but for the cursor that has failed.
    client.batch_execute(&format!("BEGIN; {}; SAVEPOINT a; {}", many("c"), many("d"))).await.unwrap();
    until(remote, OPEN, "2").await;
    assert_eq!(failure(&client, "SELECT 1 / 0").await.0, "22012");
    until(remote, OPEN, "1").await;
    client.batch_execute("ROLLBACK TO a").await.unwrap();
    assert_eq!(rows(&client, "FETCH c").await, [["4"]]);
    client.batch_execute(&format!("DECLARE e CURSOR FOR TABLE slow; SAVEPOINT b; {limit}")).await.unwrap();
    assert_eq!(failure(&client, "FETCH e").await.0, "57014");
    until(remote, AT_WORK, "1").await;
    client.batch_execute("ROLLBACK TO b").await.unwrap();
    assert_eq!(failure(&client, "FETCH e").await, ("55000".into(), "portal \"e\" cannot be run".into()));
    client.batch_execute("ROLLBACK").await.unwrap();
    until(remote, OPEN, "0").await;
    // One that outlives its block.
    client
        .batch_execute("DECLARE h CURSOR WITH HOLD FOR TABLE slow; SET statement_timeout = 300")
        .await
        .unwrap();
    assert_eq!(failure(&client, "FETCH h").await.0, "57014");
    client.batch_execute("RESET statement_timeout").await.unwrap();
    until(remote, OPEN, "0").await;
    assert_eq!(failure(&client, "FETCH h").await, ("55000".into(), "portal \"h\" cannot be run".into()));
    // What drivers with a fetch size do.
    let block = client.transaction().await.unwrap();
    let portal = block.bind("TABLE many", &[]).await.unwrap();
    assert_eq!(block.query_portal(&portal, 3).await.unwrap().len(), 3);
    until(remote, OPEN, "1").await;
    assert_eq!(block.simple_query("SELECT 1 / 0").await.unwrap_err().code().unwrap().code(), "22012");
    until(remote, OPEN, "0").await;
    let told = block.query_portal(&portal, 3).await.unwrap_err();
    assert_eq!(told.code().unwrap().code(), "25P02");
}

/// Who gives up a COMMIT is told of which node it is not known.
#[tokio::test]
async fn a_commit_without_an_answer_can_be_given_up() {
    let Some(setting) = start().await else { return };
    let Setting { remote, client, server, proxy, .. } = &setting;
    let insert = |id: i32| format!("INSERT INTO m (id) SELECT {id} + x FROM generate_series(1, 3) AS x");
    client.batch_execute("SET statement_timeout = 300").await.unwrap();
    proxy.set(Mode::LingerAtCommit { carried_out: true });
    for (i, statement) in [insert(10), format!("BEGIN; {}; COMMIT", insert(20))].iter().enumerate() {
        let told = error(client, statement).await;
        assert_eq!(told.code().code(), "08007");
        assert_eq!(told.message(), "whether the transaction on server \"n2\" was committed is not known");
        assert_eq!(
            told.detail().unwrap(),
            "canceling statement due to statement timeout\n\
             Nodes that are changed: /n1/ (1 row); not known: /n2/ (1 row); not: /n3/ (1 row)."
        );
        let done = (i + 1).to_string();
        until(remote, &format!("SELECT count(*) = {done} FROM n2.m"), "t").await;
        assert_eq!(counts(remote).await, [done.as_str(), &done, "0"]);
    }
    // The session goes on, in no block.
    client.batch_execute("SET statement_timeout = 0; INSERT INTO t1 (id) VALUES (1)").await.unwrap();
    // Parameters come in messages of their own.
    let waiter = server.connect().await;
    let token = waiter.cancel_token();
    let waiting = tokio::spawn(async move {
        let insert = "INSERT INTO t2 (id) SELECT x + $1::int FROM generate_series(1, 3) AS x";
        let told = waiter.execute(insert, &[&30_i32]).await.unwrap_err();
        told.as_db_error().unwrap().clone()
    });
    proxy.until_lingering(3).await;
    token.cancel_query(NoTls).await.unwrap();
    let told = waiting.await.unwrap();
    assert_eq!(
        (told.code().code(), told.detail()),
        ("08007", Some("canceling statement due to user request"))
    );
    // By an administrator.
    let waiter = server.connect().await;
    let pid = rows(&waiter, "SELECT pg_backend_pid()").await.remove(0).remove(0);
    let waiting = tokio::spawn(async move { error(&waiter, "INSERT INTO t2 (id) VALUES (41)").await });
    proxy.until_lingering(4).await;
    rows(client, &format!("SELECT pg_terminate_backend({pid})")).await;
    let told = waiting.await.unwrap();
    assert_eq!(
        (told.code().code(), told.detail()),
        ("08007", Some("terminating connection due to administrator command"))
    );
    // A client that goes.
    let mut gone = Wire::connect(server.port, "tidemill");
    gone.send(&[query("INSERT INTO t2 (id) VALUES (51)")]);
    proxy.until_lingering(5).await;
    drop(gone);
    until(client, "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%VALUES (51)'", "0").await;
}

/// The server is found dead while it commits.
#[tokio::test]
async fn a_server_that_goes_down_at_its_commit_may_have_carried_it_out() {
    let Some(setting) = start().await else { return };
    let Setting { client, proxy, .. } = &setting;
    proxy.set(Mode::LingerAtCommit { carried_out: true });
    let committing = error(client, "INSERT INTO t2 (id) VALUES (1)");
    let dying = async {
        proxy.until_lingering(1).await;
        proxy.set(Mode::Hang);
    };
    let (told, ()) = tokio::join!(committing, dying);
    assert_eq!(told.code().code(), "08007");
}

/// What is known to be lost is not committed, and neither is anything else.
#[tokio::test]
async fn a_node_that_is_lost_before_the_commit_has_nothing() {
    let Some(setting) = start().await else { return };
    let Setting { remote, client, .. } = &setting;
    client
        .batch_execute("BEGIN; INSERT INTO t1 (id) VALUES (1); INSERT INTO t3 (id) VALUES (1)")
        .await
        .unwrap();
    let of = "FROM pg_stat_activity WHERE application_name = 'tidemill' AND query LIKE '%\"n3\"%'";
    assert_eq!(rows(remote, &format!("SELECT pg_terminate_backend(pid) {of}")).await, [["t"]]);
    until(remote, &format!("SELECT count(*) {of}"), "0").await;
    let told = failure(client, "COMMIT").await;
    assert_eq!(told, ("08006".into(), "lost the connection to server \"n3\"".into()));
    until(remote, OPEN, "0").await;
    assert_eq!(counts(remote).await, ["0", "0", "0"]);
    client.batch_execute("INSERT INTO t3 (id) VALUES (1)").await.unwrap();
}

/// The client has rows, and so it may give up, while the others take the node for ever.
#[tokio::test]
async fn rows_that_have_come_are_sent_on() {
    let Some(setting) = start_slow().await else { return };
    let Setting { remote, server, .. } = &setting;
    let reader = server.connect().await;
    let mut rows = pin!(reader.query_raw("TABLE begun", NO_PARAMETERS).await.unwrap());
    assert_eq!(rows.next().await.unwrap().unwrap().get::<_, i32>(0), 1);
    let simple = server.connect().await;
    let mut messages = pin!(simple.simple_query_raw("TABLE begun").await.unwrap());
    let first = messages.next().await.unwrap().unwrap();
    assert!(matches!(first, SimpleQueryMessage::RowDescription(_)), "{first:?}");
    let SimpleQueryMessage::Row(row) = messages.next().await.unwrap().unwrap() else { panic!("no row") };
    assert_eq!(row.get(0), Some("1"));
    let copier = server.connect().await;
    let mut lines = pin!(copier.copy_out("COPY (TABLE begun) TO STDOUT").await.unwrap());
    assert_eq!(lines.next().await.unwrap().unwrap(), "1\n");
    for client in [&reader, &simple, &copier] {
        client.cancel_token().cancel_query(NoTls).await.unwrap();
    }
    until(remote, OPEN, "0").await;
}
