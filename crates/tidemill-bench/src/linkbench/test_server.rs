//! Databases for tests: SQLite always, PostgreSQL and MariaDB where they are installed, MySQL instead of MariaDB from the
//! folder of programs that `TIDEMILL_TEST_MYSQL` names.

use crate::target::Target;
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

/// An empty database of a test's own.
pub struct Server {
    name: &'static str,
    target: Target,
    _process: Option<Arc<Process>>,
    _folder: Option<tempfile::TempDir>,
}

impl Server {
    pub fn name(&self) -> &'static str {
        self.name
    }

    pub fn target(&self) -> &Target {
        &self.target
    }

    pub fn sqlite() -> Server {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("test.db").display());
        let target = Target::open(&url).unwrap();
        Server { name: "SQLite", target, _process: None, _folder: Some(folder) }
    }

    /// Does nothing.
    pub fn noop() -> Server {
        Server { name: "noop", target: Target::open("noop:").unwrap(), _process: None, _folder: None }
    }

    pub fn postgres() -> Option<Server> {
        let process = shared(&POSTGRES, start_postgres)?;
        Some(Server::of("PostgreSQL", "postgres://postgres", "postgres", process))
    }

    pub fn mariadb() -> Option<Server> {
        if let Err(error) = Target::open("mysql://root@127.0.0.1/test") {
            eprintln!("skipped: {error}");
            return None;
        }
        let process = shared(&MARIADB, start_mariadb)?;
        Some(Server::of("MariaDB", "mysql://root", "mysql", process))
    }

    fn of(name: &'static str, user: &str, database: &str, process: Arc<Process>) -> Server {
        static DATABASES: AtomicU32 = AtomicU32::new(0);
        let fresh = format!("test{}", DATABASES.fetch_add(1, Ordering::Relaxed));
        let open =
            |database: &str| Target::open(&format!("{user}@127.0.0.1:{}/{database}", process.port)).unwrap();
        let mut connection = until_up(&process, || open(database).connect());
        connection.execute(&format!("CREATE DATABASE {fresh}")).unwrap();
        Server { name, target: open(&fresh), _process: Some(process), _folder: None }
    }
}

/// Runs a check on every database that is here.
pub fn each_target(check: impl Fn(&Server)) {
    check(&Server::sqlite());
    for start in [Server::postgres, Server::mariadb] {
        start().iter().for_each(&check);
    }
}

/// A server that ends with the last test that uses it.
struct Process {
    child: Mutex<Child>,
    port: u16,
    _folder: tempfile::TempDir,
}

impl Drop for Process {
    /// `runuser` passes SIGTERM on, and the server stops its children.
    fn drop(&mut self) {
        let child = self.child.get_mut().unwrap();
        drop(Command::new("kill").arg(child.id().to_string()).status());
        drop(child.wait());
    }
}

static POSTGRES: Mutex<Weak<Process>> = Mutex::new(Weak::new());
static MARIADB: Mutex<Weak<Process>> = Mutex::new(Weak::new());

const START_MAX: Duration = Duration::from_secs(120);

fn shared(slot: &Mutex<Weak<Process>>, start: fn() -> Option<Process>) -> Option<Arc<Process>> {
    let mut slot = slot.lock().unwrap();
    if let Some(running) = slot.upgrade() {
        return Some(running);
    }
    let started = Arc::new(start()?);
    *slot = Arc::downgrade(&started);
    Some(started)
}

fn until_up<T, E: std::fmt::Display>(process: &Process, connect: impl Fn() -> Result<T, E>) -> T {
    let deadline = Instant::now() + START_MAX;
    loop {
        match connect() {
            Ok(connected) => return connected,
            Err(error) => {
                assert_eq!(
                    process.child.lock().unwrap().try_wait().unwrap(),
                    None,
                    "the server ended: {error}"
                );
                assert!(Instant::now() < deadline, "the server did not start: {error}");
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

fn start_postgres() -> Option<Process> {
    let candidates = [std::env::var("PG_BIN").ok(), Some("/usr/lib/postgresql/15/bin".into())];
    let bin = candidates.into_iter().flatten().map(PathBuf::from).find(|dir| dir.join("postgres").exists());
    let Some(bin) = bin else {
        eprintln!("skipped: no PostgreSQL 15 (apt-get install postgresql-15, or set PG_BIN)");
        return None;
    };
    let folder = tempfile::tempdir().unwrap();
    let user = user_of(&folder, "postgres");
    let data = folder.path().join("data");
    run(as_user(user, &bin.join("initdb"))
        .args(["-U", "postgres", "-A", "trust", "-E", "UTF8", "-N", "-D"])
        .arg(&data));
    let port = free_port();
    let mut command = as_user(user, &bin.join("postgres"));
    command
        .args(["-c", "fsync=off", "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="])
        .args(["-c", "max_connections=100", "-p", &port.to_string(), "-D"])
        .arg(&data);
    Some(spawned(&mut command, port, folder))
}

fn start_mariadb() -> Option<Process> {
    let mysql = std::env::var_os("TIDEMILL_TEST_MYSQL").map(|folder| PathBuf::from(folder).join("mysqld"));
    let (install, server) = match &mysql {
        Some(mysql) => (mysql.as_path(), mysql.as_path()),
        None => (Path::new("/usr/bin/mariadb-install-db"), Path::new("/usr/sbin/mariadbd")),
    };
    let (of_install, of_server): (&[_], &[_]) = match &mysql {
        Some(_) => {
            (&["--initialize-insecure"], &["--mysqlx=OFF", "--secure-file-priv=NULL", "--skip-log-bin"])
        }
        None => (&["--auth-root-authentication-method=normal", "--skip-test-db"], &["--skip-grant-tables"]),
    };
    if !install.exists() || !server.exists() {
        eprintln!("skipped: no MariaDB (apt-get install mariadb-server)");
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let user = user_of(&folder, "mysql");
    let data = folder.path().join("data");
    let data_argument = format!("--datadir={}", data.display());
    // Installers that run at the same time would meet in /tmp.
    let mut installing = as_user(user, install);
    run(installing.env("TMPDIR", folder.path()).args(["--no-defaults", &data_argument]).args(of_install));
    let port = free_port();
    let socket = format!("--socket={}", folder.path().join("socket").display());
    let mut command = as_user(user, server);
    command
        .env("TMPDIR", folder.path())
        .arg("--no-defaults")
        .args([data_argument, socket, format!("--port={port}"), "--bind-address=127.0.0.1".to_owned()])
        .arg("--innodb-flush-log-at-trx-commit=0")
        .args(of_server);
    Some(spawned(&mut command, port, folder))
}

fn spawned(command: &mut Command, port: u16, folder: tempfile::TempDir) -> Process {
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    Process { child: Mutex::new(child), port, _folder: folder }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Database servers do not run as root: the folder goes to their user then.
fn user_of(folder: &tempfile::TempDir, user: &'static str) -> Option<&'static str> {
    let is_root = std::fs::metadata(folder.path()).unwrap().uid() == 0;
    if is_root {
        run(Command::new("chown").arg(user).arg(folder.path()));
    }
    is_root.then_some(user)
}

fn as_user(user: Option<&str>, program: &Path) -> Command {
    let mut command = Command::new(if user.is_some() { Path::new("runuser") } else { program });
    if let Some(user) = user {
        command.args(["-u", user, "--"]).arg(program);
    }
    command.current_dir("/");
    command
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
