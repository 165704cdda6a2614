//! A server of MySQL's protocol for tests: MariaDB where it is installed, or MySQL from the folder of programs that
//! `TIDEMILL_TEST_MYSQL` names.

use std::net::TcpListener;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use mysql_async::{Conn, OptsBuilder};

pub const START_MAX: Duration = Duration::from_secs(60);
const MARIADB: &str = "/usr/sbin/mariadbd";

/// A server of its own, with a user `u` whose password is `p` and a database `d`.
pub struct Mysqld {
    process: Child,
    pub port: u16,
    pub is_mariadb: bool,
    _dir: tempfile::TempDir,
}

impl Mysqld {
    /// `None` when there is no server here, and then says so.
    pub async fn start() -> Option<Self> {
        Self::start_with(None).await
    }

    /// With certificates of a folder, if there is one. MySQL makes its own otherwise.
    pub async fn start_with(certificates: Option<&Path>) -> Option<Self> {
        let mysql =
            std::env::var_os("TIDEMILL_TEST_MYSQL").map(|folder| PathBuf::from(folder).join("mysqld"));
        let is_mariadb = mysql.is_none();
        let program = mysql.unwrap_or_else(|| PathBuf::from(MARIADB));
        if is_mariadb && !program.exists() {
            println!("skipped: no {MARIADB} found (apt-get install mariadb-server)");
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        for name in ["server.crt", "server.key"] {
            if let Some(certificates) = certificates {
                std::fs::copy(certificates.join(name), dir.path().join(name)).unwrap();
            }
        }
        let is_root = std::fs::metadata(dir.path()).unwrap().uid() == 0;
        if is_root {
            assert!(Command::new("chown").args(["-R", "mysql"]).arg(dir.path()).status().unwrap().success());
        }
        let init = dir.path().join("init.sql");
        std::fs::write(
            &init,
            "CREATE DATABASE d;\nCREATE USER u@'%' IDENTIFIED BY 'p';\nGRANT ALL ON *.* TO u@'%';\n",
        )
        .unwrap();
        let command = |program: &Path| {
            let mut command = Command::new(program);
            command
                .arg("--no-defaults")
                .arg(format!("--datadir={}", dir.path().join("data").display()))
                // Servers that share one take each other's temporary tables away.
                .arg(format!("--tmpdir={}", dir.path().display()));
            if is_root {
                command.arg("--user=mysql");
            }
            command
        };
        let mut install = command(if is_mariadb { Path::new("mariadb-install-db") } else { &program });
        match is_mariadb {
            true => install.args(["--auth-root-authentication-method=normal", "--skip-test-db"]),
            false => install.arg("--initialize-insecure"),
        };
        let installed = install.output().unwrap();
        assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut serve = command(&program);
        serve
            .arg(format!("--socket={}", dir.path().join("s").display()))
            .arg(format!("--port={port}"))
            .arg(format!("--init-file={}", init.display()))
            .args(["--bind-address=127.0.0.1", "--skip-name-resolve", "--innodb-flush-log-at-trx-commit=0"]);
        if !is_mariadb {
            serve.args(["--mysqlx=OFF", "--secure-file-priv=NULL", "--skip-log-bin"]);
        }
        if certificates.is_some() {
            serve.arg(format!("--ssl-cert={}", dir.path().join("server.crt").display()));
            serve.arg(format!("--ssl-key={}", dir.path().join("server.key").display()));
        }
        let process = serve.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let mut server = Mysqld { process, port, is_mariadb, _dir: dir };
        let deadline = Instant::now() + START_MAX;
        while server.try_connect().await.is_err() {
            assert_eq!(server.process.try_wait().unwrap(), None, "{program:?} ended before it was ready");
            assert!(Instant::now() < deadline, "{program:?} did not start in {START_MAX:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Some(server)
    }

    async fn try_connect(&self) -> mysql_async::Result<Conn> {
        let options = OptsBuilder::default().ip_or_hostname("127.0.0.1").tcp_port(self.port);
        Conn::new(options.user(Some("u")).pass(Some("p")).db_name(Some("d")).prefer_socket(false)).await
    }

    pub async fn connect(&self) -> Conn {
        self.try_connect().await.unwrap()
    }
}

impl Drop for Mysqld {
    fn drop(&mut self) {
        drop(Command::new("kill").arg(self.process.id().to_string()).status());
        drop(self.process.wait());
    }
}
