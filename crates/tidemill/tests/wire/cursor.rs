//! Cursors: DECLARE, FETCH, MOVE and CLOSE, and the row limits of the extended protocol.

use futures::TryStreamExt;

use crate::server::{Server, failure, rows};

fn numbers(rows: Vec<Vec<String>>) -> Vec<i32> {
    rows.iter().map(|row| row[0].parse().unwrap()).collect()
}

#[tokio::test]
async fn a_scroll_cursor_goes_everywhere() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let client = server.connect().await;
    client
        .batch_execute("BEGIN; DECLARE c SCROLL CURSOR FOR SELECT g FROM generate_series(1, 20000) g")
        .await
        .unwrap();
    for (fetch, expected) in [
        ("FETCH c", vec![1]),
        ("FETCH 2 FROM c", vec![2, 3]),
        ("FETCH PRIOR IN c", vec![2]),
        ("FETCH ABSOLUTE 19999 c", vec![19999]),
        ("FETCH FORWARD ALL c", vec![20000]),
        ("FETCH BACKWARD 3 c", vec![20000, 19999, 19998]),
        ("FETCH LAST c", vec![20000]),
        ("FETCH FIRST c", vec![1]),
        ("FETCH RELATIVE 9000 c", vec![9001]),
        ("FETCH RELATIVE 0 c", vec![9001]),
    ] {
        assert_eq!(numbers(rows(&client, fetch).await), expected, "{fetch}");
    }
    client.batch_execute("MOVE BACKWARD ALL c").await.unwrap();
    assert_eq!(numbers(rows(&client, "FETCH ALL c").await).len(), 20000);
    client.batch_execute("CLOSE c").await.unwrap();
    assert_eq!(failure(&client, "FETCH c").await, ("34000".into(), "cursor \"c\" does not exist".into()));
}

#[tokio::test]
async fn rules() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let client = server.connect().await;
    assert_eq!(failure(&client, "DECLARE c CURSOR FOR SELECT 1").await.0, "25P01");
    client
        .batch_execute("BEGIN; DECLARE c CURSOR FOR SELECT g FROM generate_series(1, 9) g; FETCH 5 c")
        .await
        .unwrap();
    client.batch_execute("SAVEPOINT a").await.unwrap();
    let (state, message) = failure(&client, "FETCH PRIOR c").await;
    assert_eq!((state.as_str(), message.as_str()), ("55000", "cursor can only scan forward"));
    client.batch_execute("ROLLBACK TO a").await.unwrap();
    assert_eq!(failure(&client, "FETCH c").await, ("55000".into(), "portal \"c\" cannot be run".into()));
    client.batch_execute("ROLLBACK TO a; CLOSE c").await.unwrap();
    client
        .batch_execute("DECLARE c CURSOR FOR SELECT g FROM generate_series(1, 9) g; FETCH 5 c; SAVEPOINT a")
        .await
        .unwrap();
    assert_eq!(failure(&client, "DECLARE c CURSOR FOR SELECT 1").await.0, "42P03");
    client.batch_execute("ROLLBACK TO a; DECLARE d CURSOR FOR SELECT 1; ROLLBACK TO a").await.unwrap();
    assert_eq!(failure(&client, "FETCH d").await.0, "34000");
    client.batch_execute("ROLLBACK TO a").await.unwrap();
    assert_eq!(numbers(rows(&client, "FETCH ALL c").await), [6, 7, 8, 9]);
    assert_eq!(
        rows(&client, "SELECT name, is_scrollable, is_holdable FROM pg_cursors").await,
        [["c", "f", "f"]]
    );
    client
        .batch_execute("DECLARE h CURSOR WITH HOLD FOR SELECT g FROM generate_series(1, 9) g; COMMIT")
        .await
        .unwrap();
    assert_eq!(failure(&client, "FETCH c").await.0, "34000");
    assert_eq!(numbers(rows(&client, "FETCH 2 h").await), [1, 2]);
    client.batch_execute("CLOSE ALL").await.unwrap();
    assert_eq!(failure(&client, "CLOSE h").await.0, "34000");
}

#[tokio::test]
async fn a_cursor_reads_what_was_there_when_it_was_declared() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let client = server.connect().await;
    client
        .batch_execute(
            "CREATE STREAM s (x int); CREATE CONTINUOUS VIEW v AS SELECT x, count(*) FROM s GROUP BY x",
        )
        .await
        .unwrap();
    client.batch_execute("INSERT INTO s SELECT generate_series(1, 10)").await.unwrap();
    client.batch_execute("BEGIN; DECLARE c CURSOR FOR SELECT x FROM v ORDER BY x; FETCH 3 c").await.unwrap();
    server.connect().await.batch_execute("INSERT INTO s SELECT generate_series(11, 20)").await.unwrap();
    assert_eq!(numbers(rows(&client, "FETCH ALL c").await), [4, 5, 6, 7, 8, 9, 10]);
}

/// What JDBC's setFetchSize does.
#[tokio::test]
async fn portals_are_suspended() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let mut client = server.connect().await;
    let transaction = client.transaction().await.unwrap();
    let statement = transaction.prepare("SELECT g FROM generate_series(1, 25) g").await.unwrap();
    let portal = transaction.bind(&statement, &[]).await.unwrap();
    let mut sizes = Vec::new();
    loop {
        let rows = transaction.query_portal(&portal, 10).await.unwrap();
        sizes.push(rows.len());
        if rows.len() < 10 {
            break;
        }
    }
    assert_eq!(sizes, [10, 10, 5]);
    let all: Vec<_> =
        transaction.query_raw(&statement, Vec::<i32>::new()).await.unwrap().try_collect().await.unwrap();
    assert_eq!(all.len(), 25);
}
