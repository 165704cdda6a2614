//! Client libraries as their users have them: each program in `tests/clients` does its own checks and ends with 0.
//!
//! The libraries are fetched once by `tests/clients/fetch.sh` (`make test` does); what is not there is skipped, and said so.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::server::Server;

fn cache() -> PathBuf {
    let home = || PathBuf::from(std::env::var("HOME").unwrap_or_default()).join(".cache");
    std::env::var("XDG_CACHE_HOME").map_or_else(|_| home(), PathBuf::from).join("tidemill/clients")
}

fn program(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(name)
}

fn check(command: &mut Command) {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let output = command.arg(server.port.to_string()).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}{err}");
}

fn python(name: &str) {
    let python = cache().join("venv/bin/python");
    if !python.exists() {
        return println!("skipped: psycopg is not there (tests/clients/fetch.sh fetches it)");
    }
    check(Command::new(python).arg(program(name)));
}

#[test]
fn psycopg3() {
    python("psycopg3.py");
}

#[test]
fn psycopg2() {
    python("psycopg2_test.py");
}

#[test]
fn jdbc() {
    let jars = std::fs::read_dir(cache()).into_iter().flatten().flatten().map(|entry| entry.path());
    let Some(jar) = jars.into_iter().find(|path| path.extension().is_some_and(|e| e == "jar")) else {
        return println!("skipped: the JDBC driver is not there (tests/clients/fetch.sh fetches it)");
    };
    if Command::new("java").arg("-version").output().is_err() {
        return println!("skipped: there is no java");
    }
    check(Command::new("java").arg("-cp").arg(jar).arg(program("Jdbc.java")));
}
