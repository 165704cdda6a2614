//! PostgreSQL itself, when it is installed: what Tidemill is compared with.

use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tokio_postgres::{Client, NoTls};

pub struct Postgres {
    pub process: Child,
    pub port: u16,
    _dir: tempfile::TempDir,
}

const START_MAX: Duration = Duration::from_secs(60);

impl Postgres {
    /// A fresh cluster on a free port; none when there is no PostgreSQL 15 here, and then says so.
    pub fn start() -> Option<Postgres> {
        let bin = installed()?;
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        std::fs::create_dir(&data).unwrap();
        let is_root = std::fs::metadata(dir.path()).unwrap().uid() == 0;
        if is_root {
            // PostgreSQL does not run as root.
            run(Command::new("chown").args(["-R", "postgres"]).arg(dir.path()));
        }
        let initdb = ["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "-N", "-D"];
        run(as_user(is_root, &bin.join("initdb")).args(initdb).arg(&data));
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let process = serve(&bin, is_root, &data, port);
        let mut postgres = Postgres { process, port, _dir: dir };
        postgres.wait_until_up();
        Some(postgres)
    }

    pub fn wait_until_up(&mut self) {
        let deadline = Instant::now() + START_MAX;
        while Command::new("pg_isready")
            .args(["-q", "-h", "127.0.0.1", "-p", &self.port.to_string()])
            .status()
            .map_or_else(
                |_| TcpStream::connect(("127.0.0.1", self.port)).is_err(),
                |status| !status.success(),
            )
        {
            assert_eq!(self.process.try_wait().unwrap(), None, "PostgreSQL ended before it was ready");
            assert!(Instant::now() < deadline, "PostgreSQL did not start in {START_MAX:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub async fn connect(&self, database: &str) -> Client {
        let config = format!("host=127.0.0.1 port={} user=postgres dbname={database}", self.port);
        let (client, connection) = tokio_postgres::connect(&config, NoTls).await.unwrap();
        tokio::spawn(connection);
        client
    }
}

impl Drop for Postgres {
    /// `runuser` passes SIGTERM on, unless it comes just before `runuser` waits, and the server stops its children.
    fn drop(&mut self) {
        let pid = self.process.id().to_string();
        while let Ok(None) = self.process.try_wait() {
            drop(Command::new("kill").arg(&pid).status());
            let again = Instant::now() + Duration::from_secs(5);
            while Instant::now() < again && matches!(self.process.try_wait(), Ok(None)) {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

/// The folder of its programs; says if it is not there.
pub fn installed() -> Option<PathBuf> {
    let candidates = [std::env::var("PG_BIN").ok(), Some("/usr/lib/postgresql/15/bin".into())];
    let found = candidates.into_iter().flatten().map(PathBuf::from).find(|dir| dir.join("postgres").exists());
    if found.is_none() {
        println!("skipped: no PostgreSQL 15 found (set PG_BIN to the folder of its `postgres`)");
    }
    found
}

pub fn serve(bin: &Path, is_root: bool, data: &Path, port: u16) -> Child {
    as_user(is_root, &bin.join("postgres"))
        .args(["-c", "fsync=off", "-c", "timezone=UTC", "-c", "listen_addresses=127.0.0.1"])
        // What is known of a table is what a test has made known.
        .args(["-c", "autovacuum=off"])
        .args(["-c", "unix_socket_directories=", "-p", &port.to_string(), "-D"])
        .arg(data)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

pub fn as_user(is_root: bool, program: &Path) -> Command {
    let mut command = Command::new(if is_root { Path::new("runuser") } else { program });
    if is_root {
        command.args(["-u", "postgres", "--"]).arg(program);
    }
    command.current_dir("/");
    command
}

pub fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
