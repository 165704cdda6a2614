//! psql itself against the catalogs: what its commands and the queries of other clients give, as transcripts.
//!
//! `TIDEMILL_TRANSCRIPTS=update` writes the answers into the files; read the difference before it is committed.

use std::path::Path;
use std::process::Command;

use crate::server::{Server, rows};

/// Runs a file by psql, which is installed wherever PostgreSQL's clients are tested.
fn psql(server: &Server, file: &Path) -> String {
    let output = Command::new("psql")
        .args(["-X", "-h", "127.0.0.1", "-U", "postgres", "-d", "tidemill", "-f"])
        .arg(file.file_name().unwrap())
        .args(["-p", &server.port.to_string()])
        .current_dir(file.parent().unwrap())
        .env("LC_ALL", "C.UTF-8")
        .env("PGTZ", "UTC")
        .output()
        .expect("psql is needed for this test");
    let mut text = String::from_utf8(output.stdout).unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    if !errors.is_empty() {
        text += "\n-- messages\n";
        text += &errors;
    }
    text
}

fn compare(server: &Server, name: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wire/psql");
    let actual = psql(server, &folder.join(format!("{name}.sql")));
    let expected = folder.join(format!("{name}.out"));
    if std::env::var("TIDEMILL_TRANSCRIPTS").is_ok_and(|v| v == "update") {
        std::fs::write(&expected, &actual).unwrap();
    }
    let expected = std::fs::read_to_string(&expected).unwrap();
    for (i, (actual, expected)) in actual.lines().zip(expected.lines()).enumerate() {
        assert_eq!(actual, expected, "{name}.out, line {}", i + 1);
    }
    assert_eq!(actual.lines().count(), expected.lines().count(), "{name}.out");
}

async fn server_with_relations(dir: &Path) -> Server {
    let server = Server::start(dir);
    let client = server.connect().await;
    for sql in [
        "CREATE STREAM clicks (url text, ms int, price numeric(10,2), at timestamptz(3), tags text[], name varchar(20))",
        "CREATE CONTINUOUS VIEW hits AS SELECT url, count(*), max(ms) AS slowest FROM clicks GROUP BY url",
        "INSERT INTO clicks (url, ms) VALUES ('/a', 1), ('/b', 2), ('/a', 3)",
    ] {
        client.batch_execute(sql).await.unwrap_or_else(|e| panic!("{sql}: {e:?}"));
    }
    server
}

#[tokio::test]
async fn commands_of_psql_describe_streams_and_views() {
    let dir = tempfile::tempdir().unwrap();
    let server = server_with_relations(dir.path()).await;
    compare(&server, "describe");
}

#[tokio::test]
async fn psql_shows_tables() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    compare(&server, "table");
}

/// As PostgreSQL says it, and where the row is besides.
#[tokio::test]
async fn a_value_that_cannot_be_inserted_is_named_with_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    compare(&server, "insert_error");
}

#[tokio::test]
async fn clients_find_what_they_ask_the_catalogs_for() {
    let dir = tempfile::tempdir().unwrap();
    let server = server_with_relations(dir.path()).await;
    compare(&server, "catalog");
}

/// Every relation of the catalogs can be read, with the columns that it says it has.
#[tokio::test]
async fn every_system_relation_can_be_read() {
    let dir = tempfile::tempdir().unwrap();
    let server = server_with_relations(dir.path()).await;
    let client = server.connect().await;
    let relations = rows(
        &client,
        "SELECT quote_ident(n.nspname) || '.' || quote_ident(c.relname), c.relnatts
         FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid < 16384",
    )
    .await;
    assert!(relations.len() > 190);
    for relation in relations {
        let statement = client.prepare(&format!("SELECT * FROM {}", relation[0])).await.unwrap();
        assert_eq!(statement.columns().len().to_string(), relation[1], "{}", relation[0]);
        rows(&client, &format!("SELECT * FROM {}", relation[0])).await;
    }
}

/// The size of the database is that of its files.
#[tokio::test]
async fn sizes_are_those_of_the_files() {
    let dir = tempfile::tempdir().unwrap();
    let server = server_with_relations(dir.path()).await;
    let client = server.connect().await;
    let shown: u64 = rows(&client, "SELECT pg_database_size('tidemill')").await[0][0].parse().unwrap();
    let on_disk = disk_usage(dir.path());
    // Logs are counted as far as they are written, files may be reserved beyond that.
    assert!(shown > 0 && shown <= on_disk, "{shown} of {on_disk}");
}

fn disk_usage(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| if path.is_dir() { disk_usage(&path) } else { path.metadata().unwrap().len() }).sum()
}

/// A sleeping statement ends when it is cancelled by another session.
#[tokio::test]
async fn a_sleep_can_be_cancelled() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let (sleeper, other) = (server.connect().await, server.connect().await);
    let id = rows(&sleeper, "SELECT pg_backend_pid()").await[0][0].clone();
    let sleeping = tokio::spawn(async move {
        let outcome = sleeper.simple_query("SELECT pg_sleep(600)").await;
        // The session stays, so that the other can still name it however late it asks.
        (sleeper, outcome)
    });
    let busy = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE pid = {id} AND state = 'active' AND query LIKE '%sleep%'"
    );
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while !sleeping.is_finished() && std::time::Instant::now() < deadline {
        if rows(&other, &busy).await == [["1"]] {
            assert_eq!(rows(&other, &format!("SELECT pg_cancel_backend({id})")).await, [["t"]]);
        }
    }
    let (_sleeper, outcome) = sleeping.await.unwrap();
    assert_eq!(outcome.unwrap_err().code().unwrap().code(), "57014");
}

#[tokio::test]
async fn foreign_servers_are_defined_and_shown_as_postgresql_does() {
    let dir = tempfile::tempdir().unwrap();
    compare(&Server::start(dir.path()), "foreign");
}
