//! Transforms that write to foreign tables: each row is there once, whatever dies in between.

mod dealt;
mod fate;

use std::path::Path;
use std::time::Duration;

use tokio_postgres::Client;

use crate::client::Client as Wire;
use crate::node::until;
use crate::postgres::Postgres;
use crate::proxy::{Mode, Proxy};
use crate::server::{Server, failure, rows};

/// A PostgreSQL behind a proxy, with a table for readings.
struct Archive {
    postgres: Postgres,
    remote: Client,
    proxy: Proxy,
    dir: tempfile::TempDir,
}

const READINGS: &str = "CREATE TABLE reading (id int, v numeric(8, 2), at timestamptz DEFAULT now())";

impl Archive {
    async fn start() -> Option<(Archive, Server, Client)> {
        let postgres = Postgres::start()?;
        let remote = postgres.connect("postgres").await;
        remote.batch_execute(READINGS).await.unwrap();
        let proxy = Proxy::start(postgres.port).await;
        let dir = tempfile::tempdir().unwrap();
        let config =
            "node_check_interval = '100ms'\nnode_check_timeout = '1s'\ntransform_backlog_limit = '1MB'\n";
        std::fs::write(dir.path().join("tidemill.toml"), config).unwrap();
        let archive = Archive { postgres, remote, proxy, dir };
        let server = archive.server();
        let client = server.connect().await;
        let define = format!(
            "CREATE SERVER archive FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '127.0.0.1', port '{}', dbname 'postgres');
             CREATE USER MAPPING FOR PUBLIC SERVER archive;
             CREATE FOREIGN TABLE reading (id int, v numeric(8, 2)) SERVER archive;
             CREATE STREAM s (id int, v float8);
             CREATE CONTINUOUS VIEW seen AS SELECT id FROM s;
             CREATE CONTINUOUS TRANSFORM keep AS SELECT id, v * 2 FROM s WHERE v >= 0
                 THEN EXECUTE PROCEDURE pipeline_stream_insert('reading')",
            archive.proxy.port
        );
        client.batch_execute(&define).await.unwrap();
        Some((archive, server, client))
    }

    fn server(&self) -> Server {
        let config = self.dir.path().join("tidemill.toml");
        let options = ["--trust-loopback", "--config", config.to_str().unwrap()];
        Server::start_with(&self.dir.path().join("data"), &options)
    }

    async fn until(&self, query: &str, wanted: &str) {
        until(&self.remote, query, wanted).await;
    }
}

const WAITING: &str = "SELECT waiting_rows FROM tidemill.deliveries";
const COUNT: &str = "SELECT count(*) FROM reading";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_go_to_a_foreign_table() {
    let Some((archive, _server, client)) = Archive::start().await else { return };
    client.batch_execute("INSERT INTO s VALUES (1, 0.125), (2, -1), (3, 5)").await.unwrap();
    archive.until(COUNT, "2").await;
    assert_eq!(
        rows(&archive.remote, "SELECT id, v FROM reading ORDER BY 1").await,
        [["1", "0.25"], ["3", "10.00"]]
    );
    // COPY and transactions, and what is rolled back.
    let file = archive.dir.path().join("events.csv");
    std::fs::write(&file, (10..5010).map(|id| format!("{id},1\n")).collect::<String>()).unwrap();
    client.batch_execute(&format!("COPY s FROM '{}' (FORMAT csv)", file.display())).await.unwrap();
    client
        .batch_execute(
            "BEGIN; INSERT INTO s VALUES (6000, 1); COMMIT; BEGIN; INSERT INTO s VALUES (6001, 1); ROLLBACK",
        )
        .await
        .unwrap();
    archive.until(COUNT, "5003").await;
    until(&client, WAITING, "0").await;
    let told = "SELECT transform, table_name, server, waiting_bytes < 100000, delivered_rows, failing_since, error FROM tidemill.deliveries";
    assert_eq!(rows(&client, told).await, [["keep", "reading", "archive", "t", "5003", "NULL", "NULL"]]);
    // What the server does not take is kept, and tells why, until it does.
    archive.remote.batch_execute("ALTER TABLE reading ADD CHECK (id < 7000)").await.unwrap();
    client.batch_execute("INSERT INTO s VALUES (8000, 1)").await.unwrap();
    until(&client, "SELECT error LIKE '%violates check constraint%' FROM tidemill.deliveries", "t").await;
    client.batch_execute("INSERT INTO s VALUES (8001, 1)").await.unwrap();
    archive.remote.batch_execute("ALTER TABLE reading DROP CONSTRAINT reading_id_check").await.unwrap();
    archive.until(COUNT, "5005").await;
    until(&client, "SELECT error IS NULL AND failing_since IS NULL FROM tidemill.deliveries", "t").await;
    client
        .batch_execute("CREATE FOREIGN TABLE fixed (id int) SERVER archive OPTIONS (table_name 'reading', updatable 'false')")
        .await
        .unwrap();
    let refused = "CREATE CONTINUOUS TRANSFORM other AS SELECT id FROM s THEN EXECUTE PROCEDURE pipeline_stream_insert('fixed')";
    let (code, message) = failure(&client, refused).await;
    assert_eq!(
        (code.as_str(), message.as_str()),
        ("55000", "foreign table \"fixed\" does not allow inserts")
    );
    // In the place of another, and what depends on what.
    let replace = "CREATE OR REPLACE CONTINUOUS TRANSFORM keep AS SELECT id FROM s THEN EXECUTE PROCEDURE pipeline_stream_insert('reading')";
    client.batch_execute(replace).await.unwrap();
    client.batch_execute("INSERT INTO s VALUES (9000, -1)").await.unwrap();
    archive.until("SELECT count(*) FROM reading WHERE id = 9000 AND v IS NULL", "1").await;
    let (code, message) = failure(&client, "DROP FOREIGN TABLE reading").await;
    assert_eq!(
        (code.as_str(), message.as_str()),
        ("2BP01", "cannot drop foreign table reading because other objects depend on it")
    );
    client
        .batch_execute(
            "DROP CONTINUOUS TRANSFORM keep; INSERT INTO s VALUES (9001, 1); DROP FOREIGN TABLE reading",
        )
        .await
        .unwrap();
    assert_eq!(rows(&archive.remote, COUNT).await, [["5006"]]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_dead_server_is_to_get_waits_over_a_crash() {
    let Some((archive, mut server, client)) = Archive::start().await else { return };
    client.batch_execute("INSERT INTO s VALUES (1, 1)").await.unwrap();
    archive.until(COUNT, "1").await;
    archive.proxy.set(Mode::Refuse);
    client.batch_execute("INSERT INTO s SELECT g, 1 FROM generate_series(2, 1000) g").await.unwrap();
    until(&client, WAITING, "999").await;
    until(
        &client,
        "SELECT error LIKE '%refused%' AND failing_since IS NOT NULL FROM tidemill.deliveries",
        "t",
    )
    .await;
    server.kill();
    let server = archive.server();
    let client = server.connect().await;
    assert_eq!(rows(&client, WAITING).await, [["999"]]);
    client.batch_execute("INSERT INTO s VALUES (1001, 1)").await.unwrap();
    archive.proxy.set(Mode::Pass);
    archive.until(COUNT, "1001").await;
    until(&client, WAITING, "0").await;
    assert_eq!(
        rows(&archive.remote, "SELECT count(DISTINCT id), max(id) FROM reading").await,
        [["1001", "1001"]]
    );
    // More than may wait is refused, and said to be.
    archive.proxy.set(Mode::Refuse);
    let mut wire = Wire::connect(server.port, "tidemill");
    let refused = loop {
        let answer = wire.query("INSERT INTO s SELECT g, 1 FROM generate_series(1, 20000) g");
        if let Some(error) = answer.error {
            break error;
        }
    };
    assert_eq!(
        (refused.get('C'), refused.get('M')),
        ("53400", "what waits for foreign table \"reading\" exceeds the limit of 1048576 bytes")
    );
    assert!(refused.get('D').contains("\"archive\""), "{refused:?}");
    let dropped = wire.query("DROP CONTINUOUS TRANSFORM keep");
    let notice = dropped.notices.first().expect("a notice").get('M').to_string();
    assert!(notice.ends_with(" rows for foreign table \"reading\" were not delivered"), "{notice}");
    assert_eq!(wire.query("INSERT INTO s VALUES (1, 1)").error, None);
}

/// A transform that goes with the server of its table ends as one that is dropped by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_waits_for_a_server_that_is_dropped_is_told() {
    let Some((archive, server, client)) = Archive::start().await else { return };
    archive.proxy.set(Mode::Refuse);
    client.batch_execute("INSERT INTO s VALUES (1, 1), (2, 1), (3, 1)").await.unwrap();
    let mut wire = Wire::connect(server.port, "tidemill");
    let dropped = wire.query("DROP SERVER archive CASCADE");
    let notices: Vec<_> = dropped.notices.iter().map(|notice| notice.get('M')).collect();
    assert!(notices.contains(&"3 rows for foreign table \"reading\" were not delivered"), "{notices:?}");
    client.batch_execute("INSERT INTO s VALUES (4, 1)").await.unwrap();
    assert_eq!(rows(&client, "SELECT count(*) FROM tidemill.deliveries").await, [["0"]]);
    assert_eq!(rows(&client, "SELECT count(*) FROM seen").await, [["4"]]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_whose_answer_is_lost_counts_once() {
    let Some((archive, mut server, mut client)) = Archive::start().await else { return };
    for (round, carried_out) in [true, false, true].into_iter().enumerate() {
        archive.proxy.set(Mode::ResetAtCommit { carried_out });
        let insert = format!("INSERT INTO s SELECT {round} * 1000 + g, 1 FROM generate_series(1, 100) g");
        client.batch_execute(&insert).await.unwrap();
        if carried_out {
            // The server there is asked, and says that it has them.
            until(&client, WAITING, "0").await;
        } else {
            until(&client, "SELECT error IS NOT NULL FROM tidemill.deliveries", "t").await;
        }
        server.kill();
        archive.proxy.set(Mode::Pass);
        server = archive.server();
        client = server.connect().await;
        until(&client, WAITING, "0").await;
        let wanted = ((round + 1) * 100).to_string();
        let there = rows(&archive.remote, "SELECT count(*), count(DISTINCT id) FROM reading").await;
        assert_eq!(there, [[wanted.clone(), wanted]]);
    }
}

/// Events are written while the server is killed and connections to the other one are cut.
async fn write_until_killed(port: u16, first: i32) {
    let connect = format!("host=127.0.0.1 port={port} user=postgres dbname=tidemill");
    let Ok((client, connection)) = tokio_postgres::connect(&connect, tokio_postgres::NoTls).await else {
        return;
    };
    tokio::spawn(connection);
    for id in (first..).step_by(3) {
        let insert = format!("INSERT INTO s VALUES ({id}, 1), ({}, 1), ({}, 1)", id + 1, id + 2);
        if client.batch_execute(&insert).await.is_err() {
            return;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_row_is_there_once() {
    let Some((archive, mut server, client)) = Archive::start().await else { return };
    drop(client);
    for round in 0..8u64 {
        let writer = tokio::spawn(write_until_killed(server.port, round as i32 * 1_000_000));
        for cut in 0..3 {
            tokio::time::sleep(Duration::from_millis(40 + (round * 7 + cut * 13) % 50)).await;
            let carried_out = cut == 1;
            let fault =
                [Mode::Refuse, Mode::HalfOpen, Mode::ResetAtCommit { carried_out }][round as usize % 3];
            archive.proxy.set(fault);
            tokio::time::sleep(Duration::from_millis(5 + round * 3)).await;
            archive.proxy.set(Mode::Pass);
        }
        tokio::time::sleep(Duration::from_millis((round * 11) % 40)).await;
        server.kill();
        writer.await.unwrap();
        server = archive.server();
    }
    let client = server.connect().await;
    until(&client, WAITING, "0").await;
    let ours = rows(&client, "SELECT count(*), count(DISTINCT id), sum(id) FROM seen").await;
    let theirs = rows(&archive.remote, "SELECT count(*), count(DISTINCT id), sum(id) FROM reading").await;
    assert_eq!(ours, theirs);
    assert!(ours[0][0] == ours[0][1] && ours[0][0].parse::<i64>().unwrap() > 100, "{ours:?}");
}

#[tokio::test]
async fn a_file_is_a_foreign_table_too() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("data"));
    let client = server.connect().await;
    let database = dir.path().join("archive.db");
    make_database(&database);
    let define = format!(
        "CREATE SERVER file FOREIGN DATA WRAPPER sqlite_fdw OPTIONS (database '{}');
         CREATE FOREIGN TABLE reading (id int, name text) SERVER file;
         CREATE TABLE device (id int, name text);
         INSERT INTO device VALUES (1, 'one'), (2, 'two');
         CREATE STREAM s (id int);
         CREATE STREAM named (id int, name text);
         CREATE CONTINUOUS VIEW names AS SELECT name, count(*) FROM named GROUP BY name;
         CREATE VIEW keep WITH (action = transform, outputfunc = pipelinedb.insert_into_stream('named', 'reading'))
             AS SELECT s.id, name FROM s LEFT JOIN device USING (id);
         INSERT INTO s VALUES (1), (1), (3)",
        database.display()
    );
    client.batch_execute(&define).await.unwrap();
    until(&client, "SELECT count(*) FROM reading", "3").await;
    assert_eq!(
        rows(&client, "SELECT * FROM reading ORDER BY 1, 2").await,
        [["1", "one"], ["1", "one"], ["3", "NULL"]]
    );
    assert_eq!(rows(&client, "SELECT * FROM names ORDER BY 1").await, [["one", "2"], ["NULL", "1"]]);
    let too_many = "CREATE CONTINUOUS TRANSFORM other AS SELECT id, id, id FROM s THEN EXECUTE PROCEDURE pipeline_stream_insert('reading')";
    let (code, message) = failure(&client, too_many).await;
    assert_eq!(
        (code.as_str(), message.as_str()),
        ("42601", "a continuous transform has more columns than its output")
    );
}

fn make_database(path: &Path) {
    let database = rusqlite::Connection::open(path).unwrap();
    database.execute_batch("CREATE TABLE reading (id INTEGER, name TEXT)").unwrap();
}
