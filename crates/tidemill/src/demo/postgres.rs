//! PostgreSQL servers of the demo's own, by the programs of an installed PostgreSQL. They listen on a Unix socket in their
//! folder, which nobody else may enter.

use std::fs::{self, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::node::failed;

pub struct Postgres {
    bin: PathBuf,
    /// PostgreSQL refuses to run as root.
    user: Option<SystemUser>,
}

#[derive(Clone, Copy)]
struct SystemUser {
    id: u32,
    group: u32,
}

const USER: &str = "postgres";
const PROGRAMS: [&str; 3] = ["postgres", "initdb", "pg_ctl"];
/// Where Debian has a folder a version.
const PACKAGED: &str = "/usr/lib/postgresql";
/// The socket is in the folder of the data.
const SETTINGS: &str = "\nlisten_addresses = ''\nunix_socket_directories = '.'\nport = 5432\n";
/// Its name, with that port.
const SOCKET: &str = ".s.PGSQL.5432";
/// The data directory is open to the group of [`USER`] to pass through, and to nobody else.
const PASSABLE: u32 = 0o710;

impl Postgres {
    /// What is installed; the error says why it is of no use.
    pub fn find() -> Result<Self, String> {
        let bin = bin().ok_or("PostgreSQL is not installed (apt-get install postgresql)")?;
        let user = match id(&["-u"])? {
            0 => {
                let refused = |_| format!("PostgreSQL does not run as root, and there is no user {USER}");
                let own = |what| id(&[what, USER]).map_err(refused);
                Some(SystemUser { id: own("-u")?, group: own("-g")? })
            }
            _ => None,
        };
        Ok(Self { bin, user })
    }

    /// Makes a folder that servers can be in.
    pub fn take_over(&self, dir: &Path) -> Result<(), String> {
        let Some(user) = self.user else { return Ok(()) };
        let opened = chown(dir, Some(user.id), Some(user.group)).and_then(|()| match dir.parent() {
            Some(parent) => {
                chown(parent, None, Some(user.group))?;
                fs::set_permissions(parent, Permissions::from_mode(PASSABLE))
            }
            None => Ok(()),
        });
        opened.map_err(|error| failed(dir, &error))?;
        let reached = self.command(Path::new("test")).arg("-w").arg(dir).status();
        match reached.is_ok_and(|status| status.success()) {
            true => Ok(()),
            false => {
                Err(format!("The user {USER} cannot get to {} (choose another --data-dir)", dir.display()))
            }
        }
    }

    /// Makes a server in a folder that is not there, and starts it.
    pub fn start(&self, folder: &Path) -> Result<(), String> {
        let mut initdb = self.command(&self.bin.join("initdb"));
        initdb.args(["-U", USER, "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync", "-D"]).arg(folder);
        carry_out(&mut initdb)?;
        let settings = folder.join("postgresql.conf");
        let written = OpenOptions::new().append(true).open(&settings);
        let written = written.and_then(|mut file| file.write_all(SETTINGS.as_bytes()));
        written.map_err(|error| failed(&settings, &error))?;
        carry_out(&mut self.start_command(folder))
    }

    /// At once, as a crash does: no session is ended in order.
    pub fn kill(&self, folder: &Path) -> Result<(), String> {
        announced(&mut self.stop_command(folder, "immediate"))
    }

    pub fn revive(&self, folder: &Path) -> Result<(), String> {
        announced(&mut self.start_command(folder))
    }

    /// Ends those of the servers that run. A file with a process id says nothing: it is left by a crash, after which the
    /// number may be another process's.
    pub fn end(&self, folders: &[PathBuf]) {
        for folder in folders.iter().filter(|folder| UnixStream::connect(folder.join(SOCKET)).is_ok()) {
            if let Err(cause) = carry_out(&mut self.stop_command(folder, "fast")) {
                tracing::warn!(folder = %folder.display(), cause, "a node of the demo could not be stopped");
            }
        }
    }

    fn start_command(&self, folder: &Path) -> Command {
        let mut command = self.command(&self.bin.join("pg_ctl"));
        command.arg("start").arg("-D").arg(folder).arg("-l").arg(folder.join("server.log"));
        command
    }

    fn stop_command(&self, folder: &Path, mode: &str) -> Command {
        let mut command = self.command(&self.bin.join("pg_ctl"));
        command.args(["stop", "-m", mode, "-D"]).arg(folder);
        command
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        // The current folder may be one that the user must not enter.
        command.current_dir("/").stdin(Stdio::null());
        if let Some(user) = self.user {
            command.uid(user.id).gid(user.group);
        }
        command
    }
}

/// The folder of the programs: what `PG_BIN` says, or in the search path, or the newest of Debian's.
fn bin() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut packaged: Vec<(u32, PathBuf)> = fs::read_dir(PACKAGED)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("bin"))))
        .collect();
    packaged.sort();
    let folders =
        std::env::var_os("PG_BIN").map(PathBuf::from).into_iter().chain(std::env::split_paths(&path));
    let newest = packaged.into_iter().rev().map(|(_, bin)| bin);
    folders.chain(newest).find(|folder| PROGRAMS.iter().all(|program| folder.join(program).is_file()))
}

/// What `id` says.
fn id(arguments: &[&str]) -> Result<u32, String> {
    let said = Command::new("id").args(arguments).output().map_err(|error| format!("id: {error}"))?;
    let number = String::from_utf8_lossy(&said.stdout).trim().parse();
    number.map_err(|_| format!("id: {}", String::from_utf8_lossy(&said.stderr).trim()))
}

/// Shows the command first.
fn announced(command: &mut Command) -> Result<(), String> {
    let arguments = command.get_args().map(|argument| argument.to_string_lossy());
    println!("$ pg_ctl {}\n", arguments.collect::<Vec<_>>().join(" "));
    carry_out(command)
}

fn carry_out(command: &mut Command) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stderr, output.stdout].map(|said| String::from_utf8_lossy(&said).trim().to_string());
    let line = said.iter().filter_map(|said| said.lines().next()).next().unwrap_or("it says nothing");
    Err(format!("{program} failed: {line}"))
}
