//! Tables of other databases and of files, each beside a table of ours with the same rows: what is read of one is what is
//! read of the other, whatever is left to the other side.

mod file;
mod influx;
mod liar;
mod long_row;
mod mixed;
mod mysql;
mod mysql_keep;
mod mysql_login;
mod mysql_server;
mod mysql_type;
mod object;
mod object_fault;
mod query;
mod request;
mod row;
mod sqlite;
mod store;
mod stranger;
mod write;

use std::time::{Duration, Instant};

use tokio_postgres::Client;

use crate::random::answer;
use crate::server::{Server, failure, rows};
use query::Queries;

/// Random queries of one test.
const QUERIES: usize = 100;

/// In which a test that goes well is over many times.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server of ours.
struct Ours {
    client: Client,
    server: Server,
    dir: tempfile::TempDir,
}

impl Ours {
    async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let server = Server::start(&dir.path().join("data"));
        Ours { client: server.connect().await, server, dir }
    }

    /// A path for a file of the test's own.
    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    async fn run(&self, sql: &str) {
        self.client.batch_execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    }

    /// Waits until a query has this answer.
    async fn until(&self, query: &str, wanted: &str) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let found = rows(&self.client, query).await;
            if found == [[wanted]] {
                return;
            }
            assert!(Instant::now() < deadline, "{query} is {found:?} and does not become {wanted}");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// What is asked for a query there.
    async fn asked(&self, query: &str) -> String {
        let lines = rows(&self.client, &format!("EXPLAIN {query}")).await.concat();
        let found = lines.iter().filter_map(|line| {
            let line = line.trim();
            ["Remote SQL: ", "Remote InfluxQL: ", "Foreign File: "]
                .iter()
                .find_map(|label| line.strip_prefix(label))
        });
        found.collect::<Vec<_>>().join("; ")
    }

    async fn check_failure(&self, sql: &str, state: &str, message: &str) {
        let (code, told) = failure(&self.client, sql).await;
        assert!(code == state && told.contains(message), "{sql}: {code} {told}");
    }

    /// Random queries over a foreign table answer as they do over `ours`.
    async fn compare(&self, foreign: &str, seed: u64) {
        let seed =
            std::env::var("TIDEMILL_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(seed);
        println!("seed {seed}");
        let mut queries = Queries::new(seed);
        let mut answered = 0;
        for _ in 0..QUERIES {
            let query = queries.next();
            let here = self.answer(&query.replace("TABLE", "ours")).await;
            let there = self.answer(&query.replace("TABLE", foreign)).await;
            if there != here {
                let asked = self.asked(&query.replace("TABLE", foreign)).await;
                panic!("seed {seed}: {query}\nhere: {here:?}\nthere: {there:?}\nasked: {asked}");
            }
            answered += usize::from(here.is_ok());
        }
        assert!(answered > QUERIES * 9 / 10, "{answered} of {QUERIES} queries have an answer");
    }

    /// Rows in order, or the SQLSTATE.
    async fn answer(&self, query: &str) -> Result<Vec<Vec<String>>, String> {
        answer(&self.client, query).await.map_err(|refusal| refusal.code)
    }
}
