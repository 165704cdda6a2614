//! TRUNCATE of foreign and multi-tenant tables, which their servers carry out.

use crate::foreign_write::{Setting, counts, start};
use crate::proxy::Mode;
use crate::server::{error, failure, rows};

const FILL: &str = "INSERT INTO m (id) SELECT x FROM generate_series(1, 9) AS x";

#[tokio::test]
async fn tables_are_emptied_on_their_servers() {
    let Some(setting) = start().await else { return };
    let Setting { remote, client, .. } = &setting;
    for (statement, left) in [
        ("TRUNCATE m", ["0", "0", "0"]),
        ("TRUNCATE t1", ["0", "3", "3"]),
        ("TRUNCATE TABLE m IN ('/n1/', '/n3/')", ["0", "3", "0"]),
        ("TRUNCATE ONLY t1, t2, t1 CONTINUE IDENTITY RESTRICT", ["0", "0", "3"]),
        ("TRUNCATE t2, m RESTART IDENTITY", ["0", "0", "0"]),
    ] {
        client.batch_execute(FILL).await.unwrap();
        client.batch_execute(statement).await.unwrap_or_else(|error| panic!("{statement}: {error:?}"));
        assert_eq!(counts(remote).await, left, "{statement}");
        client.batch_execute("DELETE FROM m").await.unwrap();
    }
    // In a block it goes with the block, and with a savepoint.
    client.batch_execute(FILL).await.unwrap();
    client.batch_execute("BEGIN; SAVEPOINT a; TRUNCATE m").await.unwrap();
    assert_eq!(rows(client, "SELECT count(*) FROM m").await, [["0"]]);
    client.batch_execute("ROLLBACK TO a; TRUNCATE t1; COMMIT").await.unwrap();
    assert_eq!(counts(remote).await, ["0", "3", "3"]);
    client.batch_execute("BEGIN; TRUNCATE m; ROLLBACK").await.unwrap();
    assert_eq!(counts(remote).await, ["0", "3", "3"]);
}

#[tokio::test]
async fn what_one_node_refuses_is_on_none() {
    let Some(setting) = start().await else { return };
    let Setting { remote, client, proxy, .. } = &setting;
    client.batch_execute(FILL).await.unwrap();
    remote.batch_execute("CREATE TABLE n3.child (id int REFERENCES n3.m (id))").await.unwrap();
    remote.batch_execute("INSERT INTO n3.child SELECT min(id) FROM n3.m").await.unwrap();
    let (code, message) = failure(client, "TRUNCATE m").await;
    assert!(
        code == "0A000" && message.contains("referenced in a foreign key constraint"),
        "{code} {message}"
    );
    assert_eq!(counts(remote).await, ["3", "3", "3"]);
    client.batch_execute("TRUNCATE m IN ('/n3/') CASCADE").await.unwrap();
    assert_eq!(counts(remote).await, ["3", "3", "0"]);
    assert_eq!(rows(remote, "SELECT count(*) FROM n3.child").await, [["0"]]);
    // A commit that fails after others, here for what is deferred again when it is judged, tells which tables are empty.
    remote
        .batch_execute(
            "DROP TABLE n3.child;
             CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                 IF current_query() = 'COMMIT' THEN RAISE 'not now'; END IF;
                 SET CONSTRAINTS ALL DEFERRED;
                 INSERT INTO n2.log VALUES (2);
                 RETURN NULL;
             END $$;
             CREATE TABLE n2.log (id int);
             CREATE CONSTRAINT TRIGGER late AFTER INSERT ON n2.log DEFERRABLE INITIALLY DEFERRED
                 FOR EACH ROW EXECUTE FUNCTION refuse();
             CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS
                 $$ BEGIN INSERT INTO n2.log VALUES (1); RETURN NULL; END $$;
             CREATE TRIGGER note AFTER TRUNCATE ON n2.m EXECUTE FUNCTION note()",
        )
        .await
        .unwrap();
    let failed = error(client, "TRUNCATE m").await;
    let detail = failed.detail().unwrap_or_default();
    assert!(
        detail.ends_with("Nodes that are changed: /n1/ (all rows); not: /n2/ (all rows), /n3/ (all rows)."),
        "{failed:?}"
    );
    // A node that is down is left as it is if others may be without it.
    client.batch_execute("DELETE FROM m IN ('/n1/', '/n3/')").await.unwrap();
    client.batch_execute("INSERT INTO t1 (id) VALUES (1)").await.unwrap();
    proxy.set(Mode::Refuse);
    assert!(failure(client, "TRUNCATE m").await.0.starts_with("08"));
    assert_eq!(counts(remote).await, ["1", "3", "0"]);
    client.batch_execute("SET on_dead_node = skip; TRUNCATE m").await.unwrap();
    assert_eq!(counts(remote).await, ["0", "3", "0"]);
    assert!(failure(client, "TRUNCATE t2").await.0.starts_with("08"));
}

#[tokio::test]
async fn what_cannot_be_emptied_is_refused() {
    let Some(setting) = start().await else { return };
    let Setting { remote, client, .. } = &setting;
    client.batch_execute(FILL).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.db");
    let lite = rusqlite::Connection::open(&path).unwrap();
    lite.execute_batch("CREATE TABLE l (id int); INSERT INTO l VALUES (1), (2)").unwrap();
    let create = format!(
        "CREATE SERVER lite FOREIGN DATA WRAPPER sqlite_fdw OPTIONS (database '{}');
         CREATE FOREIGN TABLE l (id bigint) SERVER lite;
         CREATE SERVER files FOREIGN DATA WRAPPER file_fdw;
         CREATE FOREIGN TABLE f (id int) SERVER files OPTIONS (filename '/nowhere.csv', format 'csv');
         CREATE SERVER metrics FOREIGN DATA WRAPPER influxdb_fdw OPTIONS (host 'http://127.0.0.1', port '1', dbname 'x');
         CREATE FOREIGN TABLE cpu (id int) SERVER metrics;
         CREATE TABLE own (id int); CREATE STREAM s (id int)",
        path.display()
    );
    client.batch_execute(&create).await.unwrap();
    for (statement, state, message) in [
        ("TRUNCATE f", "0A000", "cannot truncate foreign table \"f\""),
        ("TRUNCATE cpu", "0A000", "cannot truncate foreign table \"cpu\""),
        ("TRUNCATE l CASCADE", "0A000", "RESTART IDENTITY or CASCADE is not supported by server \"lite\""),
        ("TRUNCATE own, t1", "0A000", "TRUNCATE of foreign tables and of others at once"),
        ("TRUNCATE own IN ('/n1/')", "42809", ""),
        ("TRUNCATE m IN ('/nope/')", "42704", "nope"),
        ("TRUNCATE s", "42809", "\"s\" is not a table"),
        ("BEGIN READ ONLY; TRUNCATE t1", "25006", "cannot execute TRUNCATE TABLE in a read-only transaction"),
    ] {
        let (code, told) = failure(client, statement).await;
        assert!(code == state && told.contains(message), "{statement}: {code} {told}");
    }
    client.batch_execute("ROLLBACK; ALTER FOREIGN TABLE t1 OPTIONS (ADD truncatable 'false')").await.unwrap();
    client.batch_execute("ALTER SERVER n2 OPTIONS (ADD truncatable 'false')").await.unwrap();
    for statement in ["TRUNCATE t1", "TRUNCATE t2", "TRUNCATE m"] {
        let (code, told) = failure(client, statement).await;
        assert!(code == "55000" && told.contains("does not allow truncates"), "{statement}: {code} {told}");
    }
    assert_eq!(counts(remote).await, ["3", "3", "3"]);
    client
        .batch_execute("ALTER SERVER n2 OPTIONS (SET truncatable 'true'); TRUNCATE t2; TRUNCATE l")
        .await
        .unwrap();
    assert_eq!(counts(remote).await, ["3", "0", "3"]);
    assert_eq!(lite.query_row("SELECT count(*) FROM l", [], |row| row.get::<_, i64>(0)), Ok(0));
}
