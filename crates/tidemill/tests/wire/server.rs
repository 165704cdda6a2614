//! A server process on a free port and a data directory of the test's own.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;

use tokio_postgres::error::DbError;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

const BINARY: &str = env!("CARGO_BIN_EXE_tidemill");

pub struct Server {
    process: Child,
    pub port: u16,
    /// Of HTTP, if an option asks for it.
    pub metrics_port: Option<u16>,
    /// Gives what the process has logged, once it has ended.
    logged: Option<JoinHandle<Vec<String>>>,
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
        let logged = Some(std::thread::spawn(move || lines.map_while(Result::ok).collect()));
        Server { process, port, metrics_port, logged }
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

    /// What the process has logged since it was ready; waits for its end.
    pub fn log(&mut self) -> Vec<String> {
        self.logged.take().unwrap().join().unwrap()
    }

    /// Resident memory of the process.
    pub fn memory_bytes(&self) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/statm", self.process.id())).unwrap();
        let pages: u64 = text.split_whitespace().nth(1).unwrap().parse().unwrap();
        pages * 4096
    }

    /// The most that was resident since its start.
    pub fn peak_memory_bytes(&self) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
        let peak = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        peak.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    }

    /// Threads of the process that have this name.
    pub fn threads(&self, name: &str) -> usize {
        let threads = std::fs::read_dir(format!("/proc/{}/task", self.process.id())).unwrap();
        // Some end meanwhile.
        let names =
            threads.filter_map(|thread| std::fs::read_to_string(thread.ok()?.path().join("comm")).ok());
        names.filter(|found| found.trim() == name).count()
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
