//! A disk without room: writes are refused, reads go on, and with room everything goes on.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use tokio_postgres::Client;

use crate::server::{Server, failure, rows};

const DISK_MEGABYTES: u32 = 48;
/// Bytes of a row.
const ROW_BYTES: usize = 100_000;
/// More than fits.
const ROWS_MAX: usize = 1000;
/// How long a server may take to notice that there is room.
const PATIENCE: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_refuses_writes_until_there_is_room() {
    let dir = tempfile::tempdir().unwrap();
    let Some(server) = Server::start_on_small_disk(dir.path(), DISK_MEGABYTES) else {
        eprintln!("skipped: no file system of one's own can be mounted here");
        return;
    };
    let client = server.connect().await;
    let definitions = "CREATE CONTINUOUS VIEW kept AS SELECT x::text FROM s; CREATE TABLE t (a text)";
    client.batch_execute(definitions).await.unwrap();
    let filler = server.sees(&dir.path().join("filler"));
    fill(&filler);

    let mut acknowledged = 0;
    let refused = loop {
        assert!(acknowledged < ROWS_MAX, "nothing was refused");
        match client.simple_query(&insert()).await {
            Ok(_) => acknowledged += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(refused.code().map(|code| code.code()), Some("53100"), "{refused}");
    assert_eq!(kept(&client).await, acknowledged);
    let into_table = format!("INSERT INTO t VALUES ('{}')", "x".repeat(ROW_BYTES));
    for sql in [&into_table, "CREATE STREAM another (a int)"] {
        let (state, message) = failure(&client, sql).await;
        assert_eq!(state, "53100", "{sql}: {message}");
    }
    assert_eq!(rows(&client, "SELECT count(*) FROM t").await, [["0"]]);

    std::fs::remove_file(&filler).unwrap();
    let deadline = Instant::now() + PATIENCE;
    while let Err(error) = client.simple_query(&insert()).await {
        assert_eq!(error.code().map(|code| code.code()), Some("53100"), "{error}");
        assert!(Instant::now() < deadline, "there is room and still {error}");
    }
    assert_eq!(kept(&client).await, acknowledged + 1);
    client.batch_execute("CREATE STREAM another (a int); INSERT INTO t VALUES ('y')").await.unwrap();
    assert_eq!(rows(&client, "SELECT a FROM t").await, [["y"]]);
}

fn insert() -> String {
    format!("INSERT INTO s (x) VALUES ('{}')", "x".repeat(ROW_BYTES))
}

async fn kept(client: &Client) -> usize {
    rows(client, "SELECT count(*) FROM kept").await[0][0].parse().unwrap()
}

/// Takes all the room that there is.
fn fill(path: &Path) {
    let mut file = File::create(path).unwrap();
    let piece = [1; 4096];
    while file.write_all(&piece).is_ok() {}
}
