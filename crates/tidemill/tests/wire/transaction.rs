//! Transactions as PostgreSQL has them: blocks, savepoints, modes, what undoes what.

use tokio_postgres::error::SqlState;

use crate::server::{Server, failure, rows};

async fn start() -> (tempfile::TempDir, Server, tokio_postgres::Client) {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let client = server.connect().await;
    client
        .batch_execute("CREATE STREAM s (x int); CREATE CONTINUOUS VIEW v AS SELECT count(*), sum(x) FROM s")
        .await
        .unwrap();
    (dir, server, client)
}

#[tokio::test]
async fn savepoints() {
    let (_dir, _server, client) = start().await;
    client
        .batch_execute(
            "BEGIN;
             INSERT INTO s VALUES (1);
             SAVEPOINT a; INSERT INTO s VALUES (10);
             SAVEPOINT b; INSERT INTO s VALUES (100);
             ROLLBACK TO a; INSERT INTO s VALUES (1000);
             SAVEPOINT a; INSERT INTO s VALUES (10000); RELEASE a;
             INSERT INTO s SELECT generate_series(100000, 100000);
             COMMIT",
        )
        .await
        .unwrap();
    assert_eq!(rows(&client, "SELECT count, sum FROM v").await, [["4", "111001"]]);
    // A failed block goes on after ROLLBACK TO.
    client.batch_execute("BEGIN; INSERT INTO s VALUES (1); SAVEPOINT a").await.unwrap();
    assert_eq!(failure(&client, "INSERT INTO s VALUES (2), ('x')").await.0, "22P02");
    assert_eq!(failure(&client, "SELECT 1").await.0, "25P02");
    assert_eq!(failure(&client, "RELEASE a").await.0, "25P02");
    assert_eq!(failure(&client, "ROLLBACK TO nope").await.0, "3B001");
    client.batch_execute("ROLLBACK TO a; INSERT INTO s VALUES (3); COMMIT").await.unwrap();
    assert_eq!(rows(&client, "SELECT count, sum FROM v").await, [["6", "111005"]]);
    for sql in ["SAVEPOINT a", "RELEASE a", "ROLLBACK TO a", "COMMIT AND CHAIN"] {
        assert_eq!(failure(&client, sql).await.0, "25P01", "{sql}");
    }
}

#[tokio::test]
async fn modes() {
    let (_dir, _server, client) = start().await;
    client.batch_execute("BEGIN READ ONLY").await.unwrap();
    assert_eq!(
        failure(&client, "INSERT INTO s VALUES (1)").await,
        ("25006".into(), "cannot execute INSERT in a read-only transaction".into())
    );
    client.batch_execute("ROLLBACK; SET default_transaction_read_only = on").await.unwrap();
    for sql in ["INSERT INTO s VALUES (1)", "COPY s FROM STDIN", "CREATE STREAM t (x int)", "DROP STREAM s"] {
        assert_eq!(failure(&client, sql).await.0, "25006", "{sql}");
    }
    client.batch_execute("BEGIN READ WRITE; INSERT INTO s VALUES (1); COMMIT").await.unwrap();
    client.batch_execute("SET default_transaction_read_only = off").await.unwrap();
    client
        .batch_execute("START TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ ONLY, DEFERRABLE")
        .await
        .unwrap();
    assert_eq!(rows(&client, "SHOW transaction_isolation").await, [["serializable"]]);
    client.batch_execute("COMMIT AND CHAIN").await.unwrap();
    assert_eq!(rows(&client, "SHOW transaction_isolation").await, [["serializable"]]);
    assert_eq!(rows(&client, "SHOW transaction_read_only").await, [["on"]]);
    client
        .batch_execute("COMMIT; SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        .await
        .unwrap();
    assert_eq!(rows(&client, "BEGIN; SHOW transaction_isolation").await, [["repeatable read"]]);
    client.batch_execute("SELECT 1").await.unwrap();
    assert_eq!(failure(&client, "SET TRANSACTION ISOLATION LEVEL READ COMMITTED").await.0, "25001");
    client.batch_execute("ROLLBACK").await.unwrap();
}

#[tokio::test]
async fn repeatable_read_sees_one_commit() {
    let (_dir, server, client) = start().await;
    let writer = server.connect().await;
    client.batch_execute("CREATE CONTINUOUS VIEW w AS SELECT max(x) FROM s").await.unwrap();
    client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ").await.unwrap();
    writer.batch_execute("INSERT INTO s VALUES (1)").await.unwrap();
    assert_eq!(rows(&client, "SELECT count FROM v").await, [["1"]], "the first query takes the snapshot");
    writer.batch_execute("INSERT INTO s VALUES (2)").await.unwrap();
    assert_eq!(rows(&client, "SELECT count, max FROM v, w").await, [["1", "1"]]);
    client.batch_execute("COMMIT; BEGIN").await.unwrap();
    assert_eq!(rows(&client, "SELECT count, max FROM v, w").await, [["2", "2"]]);
    writer.batch_execute("INSERT INTO s VALUES (3)").await.unwrap();
    assert_eq!(rows(&client, "SELECT count, max FROM v, w").await, [["3", "3"]], "read committed");
    client.batch_execute("COMMIT").await.unwrap();
}

#[tokio::test]
async fn settings_follow_the_transaction() {
    let (_dir, _server, client) = start().await;
    let zone = async || rows(&client, "SHOW TimeZone").await[0][0].clone();
    client
        .batch_execute("SET TimeZone = 'UTC'; BEGIN; SET TimeZone = 'Europe/Berlin'; SAVEPOINT a")
        .await
        .unwrap();
    client.batch_execute("SET LOCAL TimeZone = 'Asia/Tokyo'").await.unwrap();
    assert_eq!(zone().await, "Asia/Tokyo");
    client.batch_execute("ROLLBACK TO a").await.unwrap();
    assert_eq!(zone().await, "Europe/Berlin");
    client.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(zone().await, "UTC");
    client
        .batch_execute("BEGIN; SET LOCAL TimeZone = 'Asia/Tokyo'; SET application_name = 'kept'; COMMIT")
        .await
        .unwrap();
    assert_eq!(zone().await, "UTC");
    assert_eq!(rows(&client, "SHOW application_name").await, [["kept"]]);
    assert!(client.batch_execute("SET TimeZone = 'Asia/Tokyo'; SELECT 1/0").await.is_err());
    assert_eq!(zone().await, "UTC", "a string of statements is one transaction");
}

#[tokio::test]
async fn definitions_do_not_run_in_a_block() {
    let (_dir, _server, client) = start().await;
    for sql in ["CREATE STREAM t (x int)", "DROP STREAM s CASCADE", "DEACTIVATE v", "DISCARD ALL"] {
        client.batch_execute("BEGIN").await.unwrap();
        let (state, message) = failure(&client, sql).await;
        assert_eq!(state, "25001", "{sql}");
        assert!(message.ends_with("cannot run inside a transaction block"), "{message}");
        client.batch_execute("ROLLBACK").await.unwrap();
    }
    assert_eq!(rows(&client, "SELECT count FROM v").await, [["0"]]);
}

#[tokio::test]
async fn a_pipeline_is_one_transaction_up_to_sync() {
    let (_dir, _server, client) = start().await;
    let good = client.prepare("INSERT INTO s (x) VALUES ($1)").await.unwrap();
    let text = client.prepare("INSERT INTO s (x) VALUES ($1::text::int)").await;
    drop(text);
    // Each of these ends with a Sync of its own.
    let (a, b) = tokio::join!(client.execute(&good, &[&1i32]), client.execute(&good, &[&2i32]));
    assert_eq!((a.unwrap(), b.unwrap()), (1, 1));
    assert_eq!(rows(&client, "SELECT count, sum FROM v").await, [["2", "3"]]);
    let error = client
        .batch_execute("INSERT INTO s VALUES (5); SELECT 1/0; INSERT INTO s VALUES (6)")
        .await
        .unwrap_err();
    assert_eq!(error.code(), Some(&SqlState::DIVISION_BY_ZERO));
    assert_eq!(rows(&client, "SELECT count, sum FROM v").await, [["2", "3"]]);
}
