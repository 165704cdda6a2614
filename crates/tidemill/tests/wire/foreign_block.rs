//! Foreign tables that are written to in a transaction block.

use crate::foreign_write::{Setting, counts, start};
use crate::proxy::Mode;
use crate::server::{failure, rows};

#[tokio::test]
async fn a_block_is_one_transaction_on_each_node() {
    let Some(setting) = start().await else { return };
    let Setting { remote, client, .. } = &setting;
    client.batch_execute("INSERT INTO m (id, v) SELECT x, x FROM generate_series(1, 9) AS x").await.unwrap();
    client.batch_execute("CREATE TABLE local (id int)").await.unwrap();
    let block = "BEGIN; INSERT INTO m (id, v) SELECT x, x FROM generate_series(11, 16) AS x;
         UPDATE m SET v = 100 WHERE id > 14; DELETE FROM m WHERE id < 3; INSERT INTO local VALUES (1)";
    client.batch_execute(block).await.unwrap();
    // The block sees what it has written, nobody else does.
    let sum = "SELECT count(*), sum(v) FROM m";
    assert_eq!(rows(client, sum).await, [["13", "292"]]);
    assert_eq!(rows(client, "SELECT count(*) FROM m AS a JOIN m AS b ON a.id = b.id + 1").await, [["11"]]);
    assert_eq!(rows(client, "SELECT id FROM t2 WHERE v = 100 ORDER BY id LIMIT 1").await, [["15"]]);
    assert_eq!(counts(remote).await, ["3", "3", "3"]);
    assert_eq!(rows(&setting.server.connect().await, sum).await, [["9", "45"]]);
    client.batch_execute("COPY m (id) FROM '/dev/null'; COMMIT").await.unwrap();
    assert_eq!(rows(&setting.server.connect().await, sum).await, [["13", "292"]]);
    assert_eq!(rows(client, "SELECT count(*) FROM local").await, [["1"]]);
    client.batch_execute("BEGIN; DELETE FROM m; INSERT INTO local VALUES (2); ROLLBACK").await.unwrap();
    assert_eq!(rows(client, sum).await, [["13", "292"]]);
    assert_eq!(rows(client, "SELECT count(*) FROM local").await, [["1"]]);
}

#[tokio::test]
async fn an_error_undoes_the_block() {
    let Some(setting) = start().await else { return };
    let Setting { remote, client, proxy, .. } = &setting;
    for (statements, state) in [
        ("BEGIN; INSERT INTO m (id) VALUES (1), (2); INSERT INTO t1 (id) VALUES (7), (7)", "23505"),
        ("BEGIN; INSERT INTO m (id) VALUES (1), (2); SELECT 1 / 0", "22012"),
        // A string of statements is a block as well.
        ("INSERT INTO m (id) VALUES (1), (2); INSERT INTO m (id) VALUES (3); SELECT 1 / 0", "22012"),
    ] {
        assert_eq!(failure(client, statements).await.0, state, "{statements}");
        client.batch_execute("ROLLBACK").await.unwrap();
        assert_eq!(counts(remote).await, ["0", "0", "0"], "{statements}");
    }
    client.batch_execute("BEGIN; INSERT INTO m (id) VALUES (1), (2), (3)").await.unwrap();
    proxy.set(Mode::Refuse);
    let (state, message) = failure(client, "UPDATE m SET v = 1").await;
    assert!(state.starts_with("08") && message.contains("\"n2\""), "{state} {message}");
    assert_eq!(failure(client, "SELECT 1").await.0, "25P02");
    client.batch_execute("COMMIT").await.unwrap();
    assert_eq!(counts(remote).await, ["0", "0", "0"]);
}

#[tokio::test]
async fn savepoints_are_those_of_the_nodes() {
    let Some(setting) = start().await else { return };
    let Setting { client, .. } = &setting;
    let ids = "SELECT string_agg(id::text, ' ' ORDER BY id) FROM t1";
    for (statements, left) in [
        ("INSERT INTO t1 (id) VALUES (1); SAVEPOINT a; INSERT INTO t1 (id) VALUES (2); ROLLBACK TO a", "1"),
        ("SAVEPOINT a; INSERT INTO t1 (id) VALUES (3); ROLLBACK TO a; INSERT INTO t1 (id) VALUES (4)", "1 4"),
        (
            "INSERT INTO t1 (id) VALUES (5); SAVEPOINT a; SAVEPOINT b; INSERT INTO t1 (id) VALUES (6); RELEASE b;
             SAVEPOINT b; INSERT INTO t1 (id) VALUES (7); ROLLBACK TO b; ROLLBACK TO b",
            "1 4 5 6",
        ),
        (
            "INSERT INTO t1 (id) VALUES (8); SAVEPOINT a; INSERT INTO t1 (id) VALUES (9); RELEASE a; SAVEPOINT c;
             DELETE FROM t1; ROLLBACK TO c; SAVEPOINT d; DELETE FROM t1 WHERE id = 1",
            "4 5 6 8 9",
        ),
    ] {
        client.batch_execute(&format!("BEGIN; {statements}")).await.unwrap();
        assert_eq!(rows(client, ids).await, [[left]], "{statements}");
        client.batch_execute("COMMIT").await.unwrap();
        assert_eq!(rows(client, ids).await, [[left]], "{statements}");
    }
    client.batch_execute("BEGIN; INSERT INTO t1 (id) VALUES (10); SAVEPOINT a").await.unwrap();
    assert_eq!(failure(client, "INSERT INTO t1 (id) VALUES (4)").await.0, "23505");
    client.batch_execute("ROLLBACK TO a; INSERT INTO t1 (id) VALUES (11); COMMIT").await.unwrap();
    assert_eq!(rows(client, ids).await, [["4 5 6 8 9 10 11"]]);
}

/// What one node refuses is undone on the others as well, wherever they are with it.
#[tokio::test]
async fn a_savepoint_is_left_when_one_of_several_nodes_refuses() {
    let Some(setting) = start().await else { return };
    let Setting { remote, client, .. } = &setting;
    remote
        .batch_execute(
            "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS
                 $$ BEGIN PERFORM pg_sleep(0.2); RETURN new; END $$;
             CREATE TRIGGER slow BEFORE INSERT OR UPDATE ON n2.m FOR EACH ROW EXECUTE FUNCTION slow()",
        )
        .await
        .unwrap();
    client.batch_execute("INSERT INTO t1 (id) VALUES (1); INSERT INTO t2 (id) VALUES (2)").await.unwrap();
    client.batch_execute("BEGIN; INSERT INTO m (id) VALUES (5), (6), (7); SAVEPOINT a").await.unwrap();
    for (statement, state) in [
        ("INSERT INTO m IN ('/n1/', '/n2/') (id) VALUES (8), (8), (8), (8)", "23505"),
        ("INSERT INTO m IN ('/n1/', '/n2/') (id) VALUES (8), (9), (8), (10) RETURNING id", "23505"),
        ("UPDATE m SET v = 2000 WHERE id = 1 OR __spd_url = '/n2/'", "23514"),
        // Rows are on their way when the next one cannot be made.
        ("INSERT INTO t1 (id) SELECT x / (20000 - x) FROM generate_series(1, 30000) AS x", "22012|23505"),
    ] {
        let (found, message) = failure(client, statement).await;
        assert!(state.contains(&found), "{statement}: {found} {message}");
        client.batch_execute("ROLLBACK TO a").await.unwrap();
        assert_eq!(rows(client, "SELECT count(*) FROM m").await, [["5"]], "{statement}");
    }
    client.batch_execute("INSERT INTO t1 (id) VALUES (11); COMMIT").await.unwrap();
    assert_eq!(counts(remote).await, ["3", "2", "1"]);
}

/// Nodes that have committed cannot be asked to forget it, so each judges before the first one does.
#[tokio::test]
async fn what_a_node_would_refuse_to_commit_is_on_none() {
    let Some(setting) = start().await else { return };
    let Setting { remote, client, .. } = &setting;
    remote.batch_execute("ALTER TABLE n2.m ADD UNIQUE (v) DEFERRABLE INITIALLY DEFERRED").await.unwrap();
    client
        .batch_execute(
            "BEGIN; INSERT INTO t1 (id) VALUES (1); SAVEPOINT a; INSERT INTO t1 (id) VALUES (2), (3); ROLLBACK TO a;
             SAVEPOINT b; INSERT INTO t2 (id, v) VALUES (1, 5), (2, 5); RELEASE b",
        )
        .await
        .unwrap();
    assert_eq!(failure(client, "COMMIT").await.0, "23505");
    assert_eq!(counts(remote).await, ["0", "0", "0"]);
    let insert = "INSERT INTO m (id, v) SELECT x, 5 FROM generate_series(1, 6) AS x";
    assert_eq!(failure(client, insert).await.0, "23505");
    assert_eq!(counts(remote).await, ["0", "0", "0"]);
}
