//! The end of the process: what its sessions wait for on other servers ends there, and what is half done is told.

use std::net::TcpStream;

use tokio_postgres::Client;

use crate::client::Client as Wire;
use crate::foreign_given_up::{AT_WORK, OPEN, start_slow};
use crate::foreign_write::{Setting, counts};
use crate::node::until;
use crate::proxy::Mode;
use crate::server::{Server, error, failure, rows};

impl Setting {
    /// Ends the process by a signal while a session waits, and starts another one. What the session is told.
    async fn end(&mut self, signal: &str, waiter: Client, sql: &'static str) -> (String, String) {
        let waiting = tokio::spawn(async move { failure(&waiter, sql).await });
        until(&self.remote, AT_WORK, "1").await;
        self.server.signal(signal);
        let told = waiting.await.unwrap();
        assert!(self.server.wait().success());
        told
    }

    fn restart(&mut self) {
        self.server = Server::start(&self.dir.path().join("data"));
    }
}

/// As in PostgreSQL with postgres_fdw, whose backends end what they have asked for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_servers_were_asked_for_ends_with_the_process() {
    let Some(mut setting) = start_slow().await else { return };
    setting.client.batch_execute("INSERT INTO t1 (id) VALUES (1), (2)").await.unwrap();
    let terminated = ("57P01".into(), "terminating connection due to administrator command".into());
    for (signal, before, sql) in [
        ("TERM", "", "UPDATE t1 SET v = 1"),
        ("INT", "", "SELECT * FROM slow"),
        (
            "TERM",
            "BEGIN; UPDATE t1 SET n = 7",
            "INSERT INTO t1 (id, v) SELECT x, 1 FROM generate_series(3, 9) AS x",
        ),
        ("INT", "BEGIN; DECLARE c CURSOR FOR TABLE slow", "FETCH c"),
    ] {
        let waiter = setting.server.connect().await;
        waiter.batch_execute(before).await.unwrap();
        assert_eq!(setting.end(signal, waiter, sql).await, terminated, "{sql}");
        // At once: there is no process any more that could tell them.
        assert_eq!(rows(&setting.remote, OPEN).await, [["0"]], "{sql}");
        assert_eq!(
            rows(&setting.remote, "SELECT count(*), count(v), count(n) FROM n1.m").await,
            [["2", "0", "0"]]
        );
        setting.restart();
    }
}

/// Who was waiting for it knows which nodes are changed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_without_an_answer_keeps_no_process() {
    let Some(mut setting) = start_slow().await else { return };
    setting.proxy.set(Mode::LingerAtCommit { carried_out: true });
    let waiter = setting.server.connect().await;
    let waiting = tokio::spawn(async move {
        error(&waiter, "INSERT INTO m (id) SELECT x FROM generate_series(1, 3) AS x").await
    });
    setting.proxy.until_lingering(1).await;
    setting.server.terminate();
    let told = waiting.await.unwrap();
    assert_eq!(
        (told.code().code(), told.detail()),
        (
            "08007",
            Some(
                "terminating connection due to administrator command\n\
                 Nodes that are changed: /n1/ (1 row); not known: /n2/ (1 row); not: /n3/ (1 row)."
            )
        )
    );
    assert!(setting.server.wait().success());
    until(&setting.remote, "SELECT count(*) FROM n2.m", "1").await;
    assert_eq!(counts(&setting.remote).await, ["1", "1", "0"]);
    let left = format!("{OPEN} AND query NOT LIKE '%\"n2\"%' AND query <> 'COMMIT'");
    assert_eq!(rows(&setting.remote, &left).await, [["0"]]);
}

/// Neither a client that has not said yet who it is, nor one that reads no answers.
#[tokio::test]
async fn who_does_nothing_keeps_no_process() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start(dir.path());
    let silent = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    // By then the server has taken the one before.
    let client = server.connect().await;
    let mut deaf = Wire::connect(server.port, "tidemill");
    deaf.send(&[(b'Q', b"SELECT repeat('x', 1000) FROM generate_series(1, 10000000)\0".to_vec())]);
    let active =
        "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT repeat%' AND state = 'active'";
    until(&client, active, "1").await;
    server.terminate();
    assert!(server.wait().success());
    drop((silent, deaf));
    let log = server.log();
    assert!(!log.iter().any(|line| line.contains("WARN")), "{log:?}");
}

/// The files with secrets are nobody else's.
#[tokio::test]
async fn files_are_private() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    drop(Server::start(&data));
    let catalog = data.join("catalog.redb");
    std::fs::set_permissions(&catalog, std::fs::Permissions::from_mode(0o644)).unwrap();
    let _server = Server::start(&data);
    let files = std::fs::read_dir(&data).unwrap().map(|entry| entry.unwrap());
    for file in files.filter(|file| file.file_type().unwrap().is_file()) {
        let mode = file.metadata().unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{:?}", file.path());
    }
}
