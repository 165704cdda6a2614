//! The transcript of the article that Tidemill began with, and the promises around it.

use bytes::Bytes;
use futures::SinkExt;

use crate::server::{Server, failure, rows};

#[tokio::test]
async fn the_transcript_gives_its_answers() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let client = server.connect().await;
    for sql in [
        "CREATE CONTINUOUS VIEW v0 AS SELECT COUNT(*) FROM stream",
        "CREATE CONTINUOUS VIEW v1 AS SELECT COUNT(*) FROM stream",
        "ACTIVATE",
        "INSERT INTO stream (x) VALUES (1)",
        "SET stream_targets TO v0",
        "INSERT INTO stream (x) VALUES (1)",
        "SET stream_targets TO DEFAULT",
        "INSERT INTO stream (x) VALUES (1)",
        "DEACTIVATE",
    ] {
        client.batch_execute(sql).await.unwrap_or_else(|e| panic!("{sql}: {e:?}"));
    }
    assert_eq!(rows(&client, "SELECT count FROM v0").await, [["3"]]);
    assert_eq!(rows(&client, "SELECT count FROM v1").await, [["2"]]);
    client.batch_execute("INSERT INTO stream (x) VALUES (1); ACTIVATE v0").await.unwrap();
    assert_eq!(
        rows(&client, "SELECT count FROM v0").await,
        [["3"]],
        "an inactive view skips what is written"
    );
    client.batch_execute("insert into stream(x,y,z) select generate_series(1,1000),1,1").await.unwrap();
    assert_eq!(rows(&client, "SELECT count FROM v0").await, [["1003"]]);
}

#[tokio::test]
async fn a_copy_is_whole_or_not_at_all() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let client = server.connect().await;
    client
        .batch_execute("CREATE STREAM s (k int, x float8); CREATE CONTINUOUS VIEW v AS SELECT k, count(*) FROM s GROUP BY k")
        .await
        .unwrap();
    let sink = client.copy_in("COPY s (k, x) FROM STDIN").await.unwrap();
    futures::pin_mut!(sink);
    for i in 0..10_000 {
        sink.send(Bytes::from(format!("{}\t{}.5\n", i % 2, i))).await.unwrap();
    }
    assert_eq!(sink.finish().await.unwrap(), 10_000);
    let counts = [["0", "5000"], ["1", "5000"]];
    assert_eq!(rows(&client, "SELECT * FROM v ORDER BY k").await, counts);

    let sink = client.copy_in("COPY s (k, x) FROM STDIN").await.unwrap();
    futures::pin_mut!(sink);
    sink.send(Bytes::from_static(b"1\t1\n2\toops\n")).await.unwrap();
    let error = sink.finish().await.unwrap_err();
    let error = error.as_db_error().unwrap();
    assert_eq!(error.code().code(), "22P02");
    assert_eq!(error.where_(), Some("COPY s, line 2, column x: \"oops\""));
    assert_eq!(rows(&client, "SELECT * FROM v ORDER BY k").await, counts);
}

#[tokio::test]
async fn transactions_commit_or_leave_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let mut client = server.connect().await;
    client
        .batch_execute("CREATE STREAM s (x int); CREATE CONTINUOUS VIEW v AS SELECT count(*), sum(x) FROM s")
        .await
        .unwrap();
    let transaction = client.transaction().await.unwrap();
    let statement = transaction.prepare("INSERT INTO s (x) VALUES ($1)").await.unwrap();
    for x in 0..10 {
        transaction.execute(&statement, &[&x]).await.unwrap();
    }
    let other = server.connect().await;
    assert_eq!(rows(&other, "SELECT count FROM v").await, [["0"]]);
    transaction.commit().await.unwrap();
    assert_eq!(rows(&other, "SELECT count FROM v").await, [["10"]]);
    client.batch_execute("BEGIN; INSERT INTO s (x) VALUES (1); ROLLBACK").await.unwrap();
    assert_eq!(rows(&other, "SELECT count FROM v").await, [["10"]]);
    assert!(
        client.batch_execute("INSERT INTO s (x) VALUES (1); INSERT INTO s (x) VALUES ('a')").await.is_err()
    );
    assert_eq!(
        rows(&other, "SELECT count FROM v").await,
        [["10"]],
        "a string of statements is one transaction"
    );
}

#[tokio::test]
async fn errors_have_their_sqlstates() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let client = server.connect().await;
    client
        .batch_execute("CREATE STREAM s (x int); CREATE CONTINUOUS VIEW v AS SELECT count(*) FROM s")
        .await
        .unwrap();
    for (sql, state) in [
        ("INSERT INTO nowhere (x) VALUES (1)", "42P01"),
        ("INSERT INTO s (nope) VALUES (1)", "42703"),
        ("INSERT INTO s (x) VALUES ('a')", "22P02"),
        ("INSERT INTO s (x) VALUES (99999999999)", "22003"),
        ("INSERT INTO v (count) VALUES (1)", "42809"),
        ("SELECT * FROM s", "42809"),
        ("SELECT * FROM nowhere", "42P01"),
        ("SELECT 1/0", "22012"),
        ("SELEC 1", "42601"),
        ("DROP STREAM s", "2BP01"),
        ("CREATE STREAM s (x int)", "42P07"),
        ("CREATE CONTINUOUS VIEW w AS SELECT nope FROM s", "42703"),
        ("SET nope = 1", "42704"),
        ("CREATE TABLE t (x int PRIMARY KEY)", "0A000"),
    ] {
        assert_eq!(failure(&client, sql).await.0, state, "{sql}");
    }
    assert_eq!(rows(&client, "SELECT count FROM v").await, [["0"]]);
}
