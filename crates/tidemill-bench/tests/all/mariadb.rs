//! MariaDB, when it is installed, or MySQL from the folder of programs that `TIDEMILL_TEST_MYSQL` names.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::bench::until;

pub struct MariaDb {
    process: Child,
    port: u16,
    _dir: tempfile::TempDir,
}

impl MariaDb {
    /// A fresh server on a free port, whose root has no password; none when there is no MariaDB here, and then says so.
    pub fn start() -> Option<MariaDb> {
        Self::start_with(|_| Vec::new())
    }

    /// The same with options, which may name files that are put into its folder before it starts.
    pub fn start_with(options: impl FnOnce(&Path) -> Vec<String>) -> Option<MariaDb> {
        let Some((server, is_mariadb)) = program() else {
            println!("skipped: no MariaDB found (apt-get install mariadb-server)");
            return None;
        };
        let install = if is_mariadb { find("mariadb-install-db")? } else { server.clone() };
        let (of_install, of_server): (&[_], &[_]) = match is_mariadb {
            true => (&["--auth-root-authentication-method=normal", "--skip-test-db"], &[]),
            false => {
                (&["--initialize-insecure"], &["--mysqlx=OFF", "--secure-file-priv=NULL", "--skip-log-bin"])
            }
        };
        let dir = tempfile::tempdir().unwrap();
        let data = format!("--datadir={}", dir.path().join("data").display());
        let is_root = Command::new("id").arg("-u").output().unwrap().stdout == b"0\n";
        let user = if is_root { vec!["--user=root"] } else { vec![] };
        // Installers that run at the same time would meet in /tmp.
        let installed = Command::new(install)
            .env("TMPDIR", dir.path())
            .args(["--no-defaults", &data])
            .args(of_install)
            .args(&user)
            .output()
            .unwrap();
        assert!(installed.status.success(), "{}", String::from_utf8_lossy(&installed.stderr));
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let process = Command::new(server)
            .env("TMPDIR", dir.path())
            .args(["--no-defaults", "--bind-address=127.0.0.1", "--innodb-flush-log-at-trx-commit=0", &data])
            .args(of_server)
            .args([format!("--port={port}"), format!("--socket={}", dir.path().join("s").display())])
            .args(options(dir.path()))
            .args(&user)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut server = MariaDb { process, port, _dir: dir };
        until("MariaDB starts", || {
            assert_eq!(server.process.try_wait().unwrap(), None, "it ended before it was ready");
            TcpStream::connect(("127.0.0.1", port)).is_ok()
        });
        Some(server)
    }

    /// `user` may have a password behind a colon.
    pub fn url(&self, user: &str) -> String {
        format!("mysql://{user}@127.0.0.1:{}/mysql", self.port)
    }
}

impl Drop for MariaDb {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// And whether it is MariaDB's.
fn program() -> Option<(PathBuf, bool)> {
    match std::env::var_os("TIDEMILL_TEST_MYSQL") {
        Some(folder) => Some((PathBuf::from(folder).join("mysqld"), false)),
        None => Some((find("mariadbd")?, true)),
    }
}

fn find(program: &str) -> Option<PathBuf> {
    ["/usr/sbin", "/usr/bin", "/usr/local/bin"]
        .iter()
        .map(|dir| Path::new(dir).join(program))
        .find(|path| path.exists())
}
