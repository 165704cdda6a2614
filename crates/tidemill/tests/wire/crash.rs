//! SIGKILL under concurrent writers: everything acknowledged at `sync_commit` is there, once, and whole.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::server::{Server, rows};

const WRITERS: u64 = 6;
const ROUNDS: u64 = 3;
/// Rows of one statement: a statement counts whole or not at all.
const ROWS: u64 = 7;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_rows_survive_kill_9() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start(dir.path());
    let client = server.connect().await;
    client
        .batch_execute(
            "CREATE STREAM s (w int, x int);
             CREATE CONTINUOUS VIEW total AS SELECT count(*), sum(x) FROM s;
             CREATE CONTINUOUS VIEW by_writer AS SELECT w, count(*) FROM s GROUP BY w",
        )
        .await
        .unwrap();
    // Per writer: statements acknowledged, and sent.
    let counts: Arc<Vec<[AtomicU64; 2]>> = Arc::new((0..WRITERS).map(|_| Default::default()).collect());
    for round in 0..ROUNDS {
        let mut writers = Vec::new();
        for w in 0..WRITERS {
            let client = server.connect().await;
            let counts = Arc::clone(&counts);
            let values = vec![format!("({w}, 1)"); ROWS as usize].join(", ");
            writers.push(tokio::spawn(async move {
                loop {
                    counts[w as usize][1].fetch_add(1, Ordering::SeqCst);
                    let sql = format!("INSERT INTO s (w, x) VALUES {values}");
                    if client.simple_query(&sql).await.is_err() {
                        return;
                    }
                    counts[w as usize][0].fetch_add(1, Ordering::SeqCst);
                }
            }));
        }
        // The instant of the kill is what the test is about: any will do.
        let until = tokio::time::Instant::now() + Duration::from_millis(150 + 70 * round);
        tokio::time::sleep_until(until).await;
        server.kill();
        for writer in writers {
            writer.await.unwrap();
        }
        server = Server::start(dir.path());
        let client = server.connect().await;
        let found = rows(&client, "SELECT w, count FROM by_writer ORDER BY w").await;
        let mut sum = 0;
        for row in &found {
            let (w, rows): (usize, u64) = (row[0].parse().unwrap(), row[1].parse().unwrap());
            let [acknowledged, sent] = &counts[w];
            let (acknowledged, sent) = (acknowledged.load(Ordering::SeqCst), sent.load(Ordering::SeqCst));
            assert_eq!(rows % ROWS, 0, "writer {w}: a statement is half there");
            assert!(rows / ROWS >= acknowledged, "writer {w}: {} of {acknowledged} statements", rows / ROWS);
            assert!(rows / ROWS <= sent, "writer {w}: {} of {sent} statements sent", rows / ROWS);
            // What was in flight is known now.
            counts[w][0].store(rows / ROWS, Ordering::SeqCst);
            counts[w][1].store(rows / ROWS, Ordering::SeqCst);
            sum += rows;
        }
        let total = rows(&client, "SELECT count, sum FROM total").await;
        assert_eq!(total, [[sum.to_string(), sum.to_string()]], "both views are at the same commit");
    }
}
