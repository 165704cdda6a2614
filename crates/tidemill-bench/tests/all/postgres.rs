//! PostgreSQL, when it is installed: a server to measure, and pgbench to agree with.

use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::bench::until;

pub struct Postgres {
    process: Child,
    pub port: u16,
    _dir: tempfile::TempDir,
}

impl Postgres {
    /// A fresh cluster on a free port; none when there is no PostgreSQL 15 here, and then says so.
    pub fn start() -> Option<Postgres> {
        Self::start_with(|_| Vec::new())
    }

    /// The same with settings, which may name files that are put into its folder before it gets them.
    pub fn start_with(settings: impl FnOnce(&Path) -> Vec<String>) -> Option<Postgres> {
        let Some(bin) = bin() else {
            println!("skipped: no PostgreSQL 15 found (set PG_BIN to the folder of its `postgres`)");
            return None;
        };
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        std::fs::create_dir(&data).unwrap();
        let settings = settings(dir.path());
        let is_root = std::fs::metadata(dir.path()).unwrap().uid() == 0;
        if is_root {
            // PostgreSQL does not run as root.
            run(Command::new("chown").args(["-R", "postgres"]).arg(dir.path()));
        }
        let initdb = ["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "-N", "-D"];
        run(as_user(is_root, &bin.join("initdb")).args(initdb).arg(&data));
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let process = as_user(is_root, &bin.join("postgres"))
            .args(["-c", "fsync=off", "-c", "timezone=UTC", "-c", "listen_addresses=127.0.0.1"])
            .args(["-c", "unix_socket_directories=", "-p", &port.to_string(), "-D"])
            .arg(&data)
            .args(settings.iter().flat_map(|setting| ["-c", setting]))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut postgres = Postgres { process, port, _dir: dir };
        postgres.wait_until_up();
        Some(postgres)
    }

    pub fn url(&self) -> String {
        self.url_by("127.0.0.1")
    }

    pub fn url_by(&self, host: &str) -> String {
        format!("postgres://postgres@{host}:{}/postgres", self.port)
    }

    /// The server's own process, which is not the one that was started when `runuser` stands in front.
    pub fn pid(&self) -> String {
        let file = std::fs::read_to_string(self._dir.path().join("data/postmaster.pid")).unwrap();
        file.lines().next().unwrap().to_owned()
    }

    /// To every process of the server.
    pub fn signal(&self, name: &str) {
        let pid = self.pid();
        let children = Command::new("pgrep").args(["-P", &pid]).output().unwrap().stdout;
        let children = String::from_utf8(children).unwrap();
        // `runuser` stops with the server that it stands in front of, and goes on only after it.
        let own = self.process.id().to_string();
        let all = children.split_whitespace().chain([pid.as_str(), &own]);
        // Children end with their parent, maybe before it is their turn.
        drop(Command::new("kill").arg(format!("-{name}")).args(all).output());
    }

    /// Its output.
    pub fn pgbench(&self, arguments: &[&str]) -> String {
        let output = self.pgbench_output(arguments);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
    }

    /// Without complaint?
    pub fn runs_pgbench(&self, arguments: &[&str]) -> bool {
        self.pgbench_output(arguments).status.success()
    }

    fn pgbench_output(&self, arguments: &[&str]) -> Output {
        Command::new(bin().unwrap().join("pgbench"))
            .args(["-n", "-h", "127.0.0.1", "-U", "postgres", "-p", &self.port.to_string()])
            .args(arguments)
            .arg("postgres")
            .output()
            .unwrap()
    }

    fn wait_until_up(&mut self) {
        let port = self.port.to_string();
        until("PostgreSQL starts", || {
            assert_eq!(self.process.try_wait().unwrap(), None, "PostgreSQL ended before it was ready");
            let asked = Command::new("pg_isready").args(["-q", "-h", "127.0.0.1", "-p", &port]).status();
            asked.map_or_else(
                |_| TcpStream::connect(("127.0.0.1", self.port)).is_ok(),
                |status| status.success(),
            )
        });
    }
}

impl Drop for Postgres {
    /// `runuser` passes SIGTERM on, unless it comes just before `runuser` waits, and the server stops its children.
    fn drop(&mut self) {
        let pid = self.process.id().to_string();
        while let Ok(None) = self.process.try_wait() {
            for signal in ["-CONT", "-TERM"] {
                drop(Command::new("kill").args([signal, &pid]).stderr(Stdio::null()).status());
            }
            let again = Instant::now() + Duration::from_secs(5);
            while Instant::now() < again && matches!(self.process.try_wait(), Ok(None)) {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

fn bin() -> Option<PathBuf> {
    let candidates = [std::env::var("PG_BIN").ok(), Some("/usr/lib/postgresql/15/bin".into())];
    candidates.into_iter().flatten().map(PathBuf::from).find(|dir| dir.join("postgres").exists())
}

fn as_user(is_root: bool, program: &Path) -> Command {
    let mut command = Command::new(if is_root { Path::new("runuser") } else { program });
    if is_root {
        command.args(["-u", "postgres", "--"]).arg(program);
    }
    command.current_dir("/");
    command
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
