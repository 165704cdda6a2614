//! A multi-tenant table as the output of a transform: each delivery goes to one of its nodes.

use tokio_postgres::Client;

use super::{Archive, WAITING};
use crate::node::until;
use crate::proxy::Mode;
use crate::server::{Server, failure, rows};

const ALL: &str = "SELECT count(*), count(DISTINCT id) FROM (SELECT id FROM reading UNION ALL SELECT id FROM b.reading) AS x";
const EACH: &str = "SELECT (SELECT count(*) FROM reading), (SELECT count(*) FROM b.reading)";

/// A node behind the proxy, and one that is always there.
async fn start() -> Option<(Archive, Server, Client)> {
    let (archive, server, client) = Archive::start().await?;
    archive
        .remote
        .batch_execute("CREATE SCHEMA b; CREATE TABLE b.reading (id int, v numeric(8, 2))")
        .await
        .unwrap();
    let define = format!(
        "DROP CONTINUOUS TRANSFORM keep;
         CREATE SERVER other FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '127.0.0.1', port '{}', dbname 'postgres');
         CREATE USER MAPPING FOR PUBLIC SERVER other;
         CREATE MULTI TENANT TABLE readings (id int, v numeric(8, 2)) CHILDREN (archive.reading, other.b.reading);
         CREATE CONTINUOUS TRANSFORM deal AS SELECT id, v FROM s THEN EXECUTE PROCEDURE pipeline_stream_insert('readings')",
        archive.postgres.port
    );
    client.batch_execute(&define).await.unwrap();
    Some((archive, server, client))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_get_deliveries_in_turn() {
    let Some((archive, _server, client)) = start().await else { return };
    let insert = async |first: i32, last: i32| {
        for id in first..=last {
            client.batch_execute(&format!("INSERT INTO s VALUES ({id}, 1), ({id}00, 1)")).await.unwrap();
            until(&client, WAITING, "0").await;
        }
    };
    insert(1, 6).await;
    assert_eq!(rows(&archive.remote, EACH).await, [["6", "6"]]);
    assert_eq!(rows(&client, "SELECT count(*), sum(v) FROM readings").await, [["12", "12.00"]]);
    // One that is not there is passed over.
    archive.proxy.set(Mode::Refuse);
    until(&client, "SELECT state FROM tidemill.nodes WHERE server = 'archive'", "down").await;
    insert(11, 14).await;
    assert_eq!(rows(&archive.remote, EACH).await, [["6", "14"]]);
    // Nor does one that is to be read only get any.
    let read_only = "CREATE MULTI TENANT TABLE one (id int) CHILDREN (archive.reading, other.b.reading OPTIONS (updatable 'false'));
        CREATE CONTINUOUS TRANSFORM ones AS SELECT id FROM s WHERE id = 20 THEN EXECUTE PROCEDURE pipeline_stream_insert('one')";
    client.batch_execute(read_only).await.unwrap();
    client.batch_execute("INSERT INTO s VALUES (20, 1)").await.unwrap();
    let waiting =
        "SELECT waiting_rows FROM tidemill.deliveries WHERE transform = 'ones' AND error IS NOT NULL";
    until(&client, waiting, "1").await;
    archive.proxy.set(Mode::Pass);
    until(&client, "SELECT sum(waiting_rows) FROM tidemill.deliveries", "0").await;
    assert_eq!(
        rows(&archive.remote, "SELECT count(*) FROM reading WHERE id = 20 AND v IS NULL").await,
        [["1"]]
    );
    // Which node gets a row is not the transform's to say.
    let chosen = "CREATE CONTINUOUS TRANSFORM other AS SELECT id, v, '/other/' FROM s THEN EXECUTE PROCEDURE pipeline_stream_insert('readings')";
    let (code, message) = failure(&client, chosen).await;
    assert_eq!(
        (code.as_str(), message.as_str()),
        ("42601", "a continuous transform has more columns than its output")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_is_on_one_node_once() {
    let Some((archive, mut server, mut client)) = start().await else { return };
    for round in 0..6 {
        archive.proxy.set(Mode::ResetAtCommit { carried_out: round % 3 > 0 });
        let insert = format!("INSERT INTO s SELECT {round} * 1000 + g, 1 FROM generate_series(1, 100) g");
        client.batch_execute(&insert).await.unwrap();
        let seen = "SELECT waiting_rows = 0 OR error IS NOT NULL FROM tidemill.deliveries";
        until(&client, seen, "t").await;
        server.kill();
        archive.proxy.set(Mode::Pass);
        server = archive.server();
        client = server.connect().await;
        until(&client, WAITING, "0").await;
        let wanted = ((round + 1) * 100).to_string();
        assert_eq!(rows(&archive.remote, ALL).await, [[wanted.clone(), wanted]]);
    }
}
