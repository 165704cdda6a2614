//! A server process on a free port and a data directory of the test's own.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use tokio_postgres::error::DbError;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

const BINARY: &str = env!("CARGO_BIN_EXE_tidemill");

pub struct Server {
    process: Child,
    pub port: u16,
    /// Of HTTP, if an option asks for it.
    pub metrics_port: Option<u16>,
}

impl Server {
    /// What a server that cannot start says.
    pub fn refusal(data_dir: &Path, options: &[&str]) -> String {
        let mut command = Command::new(BINARY);
        command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(data_dir).args(options);
        let output = command.output().unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    }

    /// Starts a server and returns when it takes connections.
    pub fn start(data_dir: &Path) -> Server {
        Server::start_with(data_dir, &["--trust-loopback"])
    }

    /// The same with options of the test's own.
    pub fn start_with(data_dir: &Path, options: &[&str]) -> Server {
        Server::start_by(Command::new(BINARY), data_dir, options)
    }

    /// The same on a file system in memory of so many megabytes, which goes with the server. `None` where a user may
    /// not make one.
    pub fn start_on_small_disk(data_dir: &Path, megabytes: u32) -> Option<Server> {
        let mount = |then: &str| {
            let script = format!("mount -t tmpfs -o size={megabytes}m tidemill \"$0\" && {then}");
            let mut command = Command::new("unshare");
            command.args(["--user", "--map-root-user", "--mount", "sh", "-c", &script]).arg(data_dir);
            command
        };
        let is_allowed = mount("true").stderr(Stdio::null()).status().is_ok_and(|status| status.success());
        is_allowed.then(|| {
            let mut command = mount("exec \"$@\"");
            command.arg(BINARY);
            Server::start_by(command, data_dir, &["--trust-loopback"])
        })
    }

    fn start_by(mut command: Command, data_dir: &Path, options: &[&str]) -> Server {
        command.args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(data_dir).args(options);
        let mut process = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
        let mut metrics_port = None;
        let port = loop {
            let line = lines.next().expect("the server ended before it was ready").unwrap();
            if line.contains("ready for GET /metrics") {
                metrics_port = Some(line.rsplit_once(':').unwrap().1.trim().parse().unwrap());
            }
            if let Some((_, rest)) = line.split_once("Connect with: psql -h 127.0.0.1 -p ") {
                break rest.split_whitespace().next().unwrap().parse().unwrap();
            }
        };
        // Keeps the pipe from filling.
        std::thread::spawn(move || lines.for_each(drop));
        Server { process, port, metrics_port }
    }

    pub async fn connect(&self) -> Client {
        self.try_connect().await.unwrap()
    }

    pub async fn try_connect(&self) -> Result<Client, tokio_postgres::Error> {
        let config = format!("host=127.0.0.1 port={} user=postgres dbname=tidemill", self.port);
        let (client, connection) = tokio_postgres::connect(&config, NoTls).await?;
        tokio::spawn(async move { drop(connection.await) });
        Ok(client)
    }

    /// A path as the server sees it.
    pub fn sees(&self, path: &Path) -> PathBuf {
        Path::new(&format!("/proc/{}/root", self.process.id())).join(path.strip_prefix("/").unwrap())
    }

    /// SIGTERM.
    pub fn terminate(&self) {
        self.signal("TERM");
    }

    pub fn signal(&self, name: &str) {
        let id = self.process.id().to_string();
        assert!(Command::new("kill").args(["-s", name, &id]).status().unwrap().success());
    }

    pub fn wait(&mut self) -> ExitStatus {
        self.process.wait().unwrap()
    }

    /// Resident memory of the process.
    pub fn memory_bytes(&self) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/statm", self.process.id())).unwrap();
        let pages: u64 = text.split_whitespace().nth(1).unwrap().parse().unwrap();
        pages * 4096
    }

    /// SIGKILL, and waits for the end.
    pub fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// Rows of the last statement of a string, as text.
pub async fn rows(client: &Client, sql: &str) -> Vec<Vec<String>> {
    let messages = client.simple_query(sql).await.unwrap_or_else(|e| panic!("{sql}: {e:?}"));
    let row = |m: SimpleQueryMessage| match m {
        SimpleQueryMessage::Row(row) => {
            Some((0..row.len()).map(|i| row.get(i).unwrap_or("NULL").to_string()).collect())
        }
        _ => None,
    };
    messages.into_iter().filter_map(row).collect()
}

/// SQLSTATE and message of a statement that must fail.
pub async fn failure(client: &Client, sql: &str) -> (String, String) {
    let error = error(client, sql).await;
    (error.code().code().to_string(), error.message().to_string())
}

/// The error of a statement that must fail.
pub async fn error(client: &Client, sql: &str) -> DbError {
    let error = client.simple_query(sql).await.expect_err(sql);
    error.as_db_error().unwrap_or_else(|| panic!("{sql}: {error}")).clone()
}
