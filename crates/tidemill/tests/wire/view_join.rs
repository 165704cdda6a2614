//! Continuous views that join a stream with tables, here and on other servers.

use std::time::Duration;

use tokio_postgres::Client;

use crate::client::Client as Wire;
use crate::node::until;
use crate::postgres::Postgres;
use crate::proxy::{Mode, Proxy};
use crate::server::{Server, failure, rows};

const SIGNALS: &str = "CREATE TABLE signal (id int, name text);
     INSERT INTO signal VALUES (1, 'one'), (2, 'two');
     CREATE STREAM s (k int, v int);
     CREATE CONTINUOUS VIEW named AS SELECT name, sum(v) FROM s JOIN signal ON k = id GROUP BY name";
const NAMED: &str = "SELECT * FROM named ORDER BY name";

#[tokio::test]
async fn every_way_of_writing_joins() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let client = server.connect().await;
    client.batch_execute(SIGNALS).await.unwrap();
    let insert = client.prepare("INSERT INTO s VALUES ($1, $2)").await.unwrap();
    client.execute(&insert, &[&1, &1]).await.unwrap();
    client.batch_execute("INSERT INTO s SELECT g % 4, 10 FROM generate_series(1, 8) g").await.unwrap();
    let file = dir.path().join("events.csv");
    std::fs::write(&file, "1,100\n2,100\n3,100\n").unwrap();
    client.batch_execute(&format!("COPY s FROM '{}' (FORMAT csv)", file.display())).await.unwrap();
    assert_eq!(rows(&client, NAMED).await, [["one", "121"], ["two", "120"]]);
    // The change of a table is seen by whoever writes after it was acknowledged, and by nobody's old events.
    client.batch_execute("TRUNCATE signal; INSERT INTO signal VALUES (3, 'three')").await.unwrap();
    client.execute(&insert, &[&3, &5]).await.unwrap();
    client.execute(&insert, &[&1, &5]).await.unwrap();
    assert_eq!(rows(&client, NAMED).await, [["one", "121"], ["three", "5"], ["two", "120"]]);
    let plan = rows(&client, "EXPLAIN CONTINUOUS VIEW named").await.concat().join("\n");
    assert!(plan.contains("    Join with signal\n      Join Cond: k = id\n      Rows: 1, "), "{plan}");
}

#[tokio::test]
async fn a_transaction_joins_what_it_has_written() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let (client, other) = (server.connect().await, server.connect().await);
    client.batch_execute(SIGNALS).await.unwrap();
    client
        .batch_execute("BEGIN; INSERT INTO signal VALUES (3, 'three'); INSERT INTO s VALUES (3, 1)")
        .await
        .unwrap();
    assert_eq!(rows(&client, NAMED).await, [["three", "1"]]);
    // Nobody else does.
    other.batch_execute("INSERT INTO s VALUES (3, 50), (1, 50)").await.unwrap();
    assert_eq!(rows(&other, NAMED).await, [["one", "50"]]);
    client.batch_execute("ROLLBACK; INSERT INTO s VALUES (3, 1)").await.unwrap();
    assert_eq!(rows(&client, NAMED).await, [["one", "50"]]);
    client
        .batch_execute(
            "BEGIN; SAVEPOINT a; INSERT INTO signal VALUES (4, 'four'); ROLLBACK TO a;
             INSERT INTO s SELECT 4, 7; INSERT INTO signal VALUES (5, 'five'); INSERT INTO s SELECT 5, 9; COMMIT;
             INSERT INTO s VALUES (4, 70), (5, 90)",
        )
        .await
        .unwrap();
    assert_eq!(rows(&client, NAMED).await, [["five", "99"], ["one", "50"]]);
}

#[tokio::test]
async fn a_start_joins_nothing_anew() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start(dir.path());
    let client = server.connect().await;
    client.batch_execute(SIGNALS).await.unwrap();
    client.batch_execute("INSERT INTO s VALUES (1, 1), (2, 2)").await.unwrap();
    client.batch_execute("UPDATE signal SET name = upper(name)").await.unwrap();
    client.batch_execute("INSERT INTO s VALUES (1, 1)").await.unwrap();
    let before = rows(&client, NAMED).await;
    assert_eq!(before, [["ONE", "1"], ["one", "1"], ["two", "2"]]);
    server.kill();
    let server = Server::start(dir.path());
    let client = server.connect().await;
    assert_eq!(rows(&client, NAMED).await, before);
    client.batch_execute("INSERT INTO s VALUES (2, 2)").await.unwrap();
    assert_eq!(rows(&client, NAMED).await[1], ["TWO", "2"]);
}

/// Signals in a PostgreSQL behind a proxy.
struct Elsewhere {
    _postgres: Postgres,
    remote: Client,
    proxy: Proxy,
    dir: tempfile::TempDir,
}

impl Elsewhere {
    async fn start() -> Option<(Elsewhere, Server, Client)> {
        let postgres = Postgres::start()?;
        let remote = postgres.connect("postgres").await;
        let signals = "CREATE TABLE signal (id int, name text, unit text); INSERT INTO signal VALUES (1, 'one', 'm'), (2, 'two', 'm')";
        remote.batch_execute(signals).await.unwrap();
        let proxy = Proxy::start(postgres.port).await;
        let dir = tempfile::tempdir().unwrap();
        let config = "node_check_interval = '100ms'\nnode_check_timeout = '1s'\n";
        std::fs::write(dir.path().join("tidemill.toml"), config).unwrap();
        let elsewhere = Elsewhere { _postgres: postgres, remote, proxy, dir };
        let (server, client) = elsewhere.server().await;
        let define = format!(
            "CREATE SERVER plant FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '127.0.0.1', port '{}', dbname 'postgres');
             CREATE USER MAPPING FOR PUBLIC SERVER plant;
             CREATE FOREIGN TABLE signal (id int, name text, unit text) SERVER plant;
             CREATE STREAM s (k int, v int);
             CREATE CONTINUOUS VIEW named WITH (join_refresh = '100 ms') AS
                 SELECT name, sum(v) FROM s JOIN signal ON k = id WHERE unit = 'm' GROUP BY name",
            elsewhere.proxy.port
        );
        client.batch_execute(&define).await.unwrap();
        Some((elsewhere, server, client))
    }

    async fn server(&self) -> (Server, Client) {
        let config = self.dir.path().join("tidemill.toml");
        let options = ["--trust-loopback", "--config", config.to_str().unwrap()];
        let server = Server::start_with(&self.dir.path().join("data"), &options);
        let client = server.connect().await;
        (server, client)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_of_another_server_are_read_again() {
    let Some((elsewhere, _server, client)) = Elsewhere::start().await else { return };
    client.batch_execute("INSERT INTO s VALUES (1, 1), (2, 2), (3, 3)").await.unwrap();
    assert_eq!(rows(&client, NAMED).await, [["one", "1"], ["two", "2"]]);
    elsewhere.remote.batch_execute("INSERT INTO signal VALUES (3, 'three', 'm')").await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    client.batch_execute("INSERT INTO s VALUES (3, 3)").await.unwrap();
    assert_eq!(rows(&client, NAMED).await, [["one", "1"], ["three", "3"], ["two", "2"]]);
    // What is joined further keeps its columns and its name.
    for (change, code, message) in [
        (
            "ALTER FOREIGN TABLE signal DROP COLUMN name",
            "2BP01",
            "column \"name\" of relation \"signal\" is joined by a continuous view or transform",
        ),
        (
            "ALTER FOREIGN TABLE signal ALTER COLUMN id TYPE bigint",
            "2BP01",
            "column \"id\" of relation \"signal\" is joined by a continuous view or transform",
        ),
        (
            "ALTER FOREIGN TABLE signal RENAME TO signals",
            "0A000",
            "cannot rename \"signal\", which a continuous view joins by that name",
        ),
        (
            "DROP FOREIGN TABLE signal",
            "2BP01",
            "cannot drop foreign table signal because other objects depend on it",
        ),
        ("DROP SERVER plant", "2BP01", "cannot drop server plant because other objects depend on it"),
    ] {
        assert_eq!(failure(&client, change).await, (code.to_string(), message.to_string()), "{change}");
    }
    // Others may come and go: the columns are found by their names.
    client.batch_execute("ALTER FOREIGN TABLE signal ADD COLUMN extra int").await.unwrap();
    elsewhere
        .remote
        .batch_execute(
            "ALTER TABLE signal ADD COLUMN extra int; UPDATE signal SET name = 'drei' WHERE id = 3",
        )
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    client.batch_execute("INSERT INTO s VALUES (3, 4)").await.unwrap();
    assert_eq!(rows(&client, NAMED).await[0], ["drei", "4"]);
    client.batch_execute("DROP SERVER plant CASCADE").await.unwrap();
    assert_eq!(failure(&client, NAMED).await.0, "42P01");
    client.batch_execute("INSERT INTO s VALUES (3, 4)").await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_server_keeps_no_events_from_coming_in() {
    let Some((elsewhere, server, client)) = Elsewhere::start().await else { return };
    let state = "SELECT state FROM tidemill.nodes";
    let mut wire = Wire::connect(server.port, "tidemill");
    assert_eq!(wire.query("INSERT INTO s VALUES (1, 1)").notices.len(), 0);
    elsewhere.proxy.set(Mode::Refuse);
    until(&client, state, "down").await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let answer = wire.query("INSERT INTO s VALUES (1, 1)");
    assert_eq!(answer.error, None);
    let warning = answer.notices.iter().find(|notice| notice.get('S') == "WARNING").expect("a warning");
    assert_eq!(warning.get('C'), "01000");
    let message = warning.get('M');
    assert!(
        message.starts_with("continuous view \"named\" joins rows of \"signal\" that were read "),
        "{message}"
    );
    assert!(warning.get('D').contains("\"plant\""), "{answer:?}");
    assert_eq!(rows(&client, NAMED).await, [["one", "2"]]);
    // Who has never read the rows can't go on without them, and nothing is half done.
    let create =
        "CREATE CONTINUOUS VIEW other AS SELECT name, count(*) FROM s JOIN signal ON k = id GROUP BY name";
    let (code, message) = failure(&client, create).await;
    assert!(code == "08001" && message.contains("\"plant\""), "{code} {message}");
    assert_eq!(failure(&client, "SELECT * FROM other").await.0, "42P01");
    drop((server, client, wire));
    let (_server, client) = elsewhere.server().await;
    assert_eq!(rows(&client, NAMED).await, [["one", "2"]]);
    let (code, message) = failure(&client, "INSERT INTO s VALUES (1, 1)").await;
    assert!(code == "08001" && message.contains("\"plant\""), "{code} {message}");
    elsewhere.proxy.set(Mode::Pass);
    until(&client, state, "up").await;
    client.batch_execute("INSERT INTO s VALUES (1, 1)").await.unwrap();
    assert_eq!(rows(&client, NAMED).await, [["one", "3"]]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_multi_tenant_table_is_joined_as_one() {
    let Some((elsewhere, _server, client)) = Elsewhere::start().await else { return };
    elsewhere
        .remote
        .batch_execute("CREATE TABLE more (id int, name text); INSERT INTO more VALUES (5, 'five')")
        .await
        .unwrap();
    client
        .batch_execute(
            "CREATE MULTI TENANT TABLE whole (id int, name text) CHILDREN (plant.public.signal, plant.public.more);
             CREATE CONTINUOUS VIEW all_named AS SELECT name, __spd_url, count(*) FROM s JOIN whole ON k = id GROUP BY 1, 2;
             CREATE CONTINUOUS VIEW some AS SELECT count(*) FROM s WHERE k IN (SELECT id FROM whole IN ('/plant/'))",
        )
        .await
        .unwrap();
    client.batch_execute("INSERT INTO s VALUES (1, 1), (5, 1), (6, 1)").await.unwrap();
    assert_eq!(
        rows(&client, "SELECT * FROM all_named ORDER BY 1").await,
        [["five", "/plant/", "1"], ["one", "/plant/", "1"]]
    );
    assert_eq!(rows(&client, "SELECT * FROM some").await, [["2"]]);
    let (code, message) = failure(&client, "DROP FOREIGN TABLE whole").await;
    assert!(code == "2BP01" && message.contains("whole"), "{code} {message}");
}
