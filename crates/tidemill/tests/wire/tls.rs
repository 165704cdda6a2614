//! Encrypted connections to servers, and certificates that do not verify.

use std::path::Path;
use std::process::Command;

use tokio_postgres::Client;

use crate::postgres::Postgres;
use crate::server::{Server, failure, rows};

/// Two authorities, and a certificate of the first for `localhost`.
pub fn make_certificates(dir: &Path) -> bool {
    let script = "set -e
        for ca in ca other; do
            openssl req -x509 -newkey rsa:2048 -nodes -keyout $ca.key -out $ca.crt -subj /CN=$ca -days 30 -addext basicConstraints=critical,CA:TRUE
        done
        openssl req -newkey rsa:2048 -nodes -keyout server.key -out server.csr -subj /CN=localhost
        openssl req -x509 -newkey rsa:2048 -nodes -keyout self.key -out self.crt -subj /CN=localhost -days 30 -addext subjectAltName=DNS:localhost
        printf 'subjectAltName=DNS:localhost' > san
        openssl x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -out server.crt -days 30 -extfile san
        chmod 600 server.key self.key
        if [ $(id -u) = 0 ]; then chown -R postgres . ; fi";
    Command::new("sh")
        .args(["-c", script])
        .current_dir(dir)
        .output()
        .is_ok_and(|output| output.status.success())
}

/// A server with these options, as `s`.
async fn define(client: &Client, options: &str) {
    let create = format!(
        "DROP SERVER IF EXISTS s CASCADE;
         CREATE SERVER s FOREIGN DATA WRAPPER postgres_fdw OPTIONS (dbname 'postgres', {options});
         CREATE USER MAPPING FOR PUBLIC SERVER s;
         CREATE FOREIGN TABLE encrypted (ssl bool) SERVER s"
    );
    client.batch_execute(&create).await.unwrap();
}

#[tokio::test]
async fn connections_are_encrypted_as_sslmode_says() {
    let Some(node) = Postgres::start() else { return };
    let dir = tempfile::tempdir().unwrap();
    if !make_certificates(dir.path()) {
        println!("skipped: no certificates could be made (install openssl)");
        return;
    }
    let remote = node.connect("postgres").await;
    let view = "CREATE VIEW encrypted AS SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
    remote.batch_execute(view).await.unwrap();
    let server = Server::start(&dir.path().join("data"));
    let client = server.connect().await;
    let at = |host: &str, rest: &str| format!("host '{host}', port '{}', {rest}", node.port);
    let query = "SELECT ssl FROM encrypted";
    for (mode, wanted) in [("disable", "f"), ("allow", "f"), ("prefer", "f")] {
        define(&client, &at("localhost", &format!("sslmode '{mode}'"))).await;
        assert_eq!(rows(&client, query).await, [[wanted]], "{mode}");
    }
    define(&client, &at("localhost", "sslmode 'require'")).await;
    assert_eq!(failure(&client, query).await.0, "08001");
    let file = |name: &str| dir.path().join(name).display().to_string();
    for set in [
        format!("ssl_cert_file = '{}'", file("server.crt")),
        format!("ssl_key_file = '{}'", file("server.key")),
        "ssl = on".into(),
    ] {
        remote.batch_execute(&format!("ALTER SYSTEM SET {set}")).await.unwrap();
    }
    remote.batch_execute("SELECT pg_reload_conf()").await.unwrap();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
    while rows(&remote, "SHOW ssl").await != [["on"]] {
        assert!(std::time::Instant::now() < deadline, "the server takes no TLS");
    }
    let root = |name: &str| format!("sslrootcert '{}'", file(name));
    for (host, options, wanted) in [
        ("127.0.0.1", "sslmode 'disable'".to_string(), "f"),
        ("127.0.0.1", "sslmode 'prefer'".to_string(), "t"),
        ("127.0.0.1", "sslmode 'require'".to_string(), "t"),
        ("localhost", format!("sslmode 'require', {}", root("ca.crt")), "t"),
        ("127.0.0.1", format!("sslmode 'verify-ca', {}", root("ca.crt")), "t"),
        ("localhost", format!("sslmode 'verify-full', {}", root("ca.crt")), "t"),
    ] {
        define(&client, &at(host, &options)).await;
        assert_eq!(rows(&client, query).await, [[wanted]], "{host}, {options}");
        // What is cancelled is cancelled by a connection of the same kind.
        assert_eq!(
            failure(
                &client,
                "SET statement_timeout = 1; SELECT count(*) FROM encrypted, generate_series(1, 100000000)"
            )
            .await
            .0,
            "57014"
        );
        client.batch_execute("RESET statement_timeout").await.unwrap();
    }
    for (host, options, state, detail) in [
        (
            "127.0.0.1",
            format!("sslmode 'verify-full', {}", root("ca.crt")),
            "08001",
            "server certificate does not match host name \"127.0.0.1\"",
        ),
        (
            "localhost",
            format!("sslmode 'verify-ca', {}", root("other.crt")),
            "08001",
            "certificate verify failed: it is not of an authority in sslrootcert",
        ),
        ("localhost", format!("sslmode 'verify-full', {}", root("other.crt")), "08001", "verify failed"),
        ("localhost", "sslmode 'verify-full'".to_string(), "22023", "The server is \"s\"."),
        (
            "localhost",
            format!("sslmode 'verify-full', {}", root("nope.crt")),
            "22023",
            "The server is \"s\".",
        ),
    ] {
        define(&client, &at(host, &options)).await;
        refused(&client, query, state, detail).await;
    }
    // A certificate that is its own authority, as PostgreSQL's manual makes one.
    for set in
        [format!("ssl_cert_file = '{}'", file("self.crt")), format!("ssl_key_file = '{}'", file("self.key"))]
    {
        remote.batch_execute(&format!("ALTER SYSTEM SET {set}")).await.unwrap();
    }
    remote.batch_execute("SELECT pg_reload_conf()").await.unwrap();
    while rows(&remote, "SHOW ssl_key_file").await != [[file("self.key")]] {
        assert!(std::time::Instant::now() < deadline, "the server takes no other certificate");
    }
    for (host, mode) in [("127.0.0.1", "verify-ca"), ("localhost", "verify-full")] {
        define(&client, &at(host, &format!("sslmode '{mode}', {}", root("self.crt")))).await;
        assert_eq!(rows(&client, query).await, [["t"]], "{mode}");
    }
    for (host, mode, file, detail) in [
        ("127.0.0.1", "verify-full", "self.crt", "does not match host name"),
        ("localhost", "verify-ca", "other.crt", "verify failed"),
        (
            "localhost",
            "verify-full",
            "ca.crt",
            "verify failed: it is that of an authority, which is none in sslrootcert",
        ),
    ] {
        define(&client, &at(host, &format!("sslmode '{mode}', {}", root(file)))).await;
        refused(&client, query, "08001", detail).await;
    }
}

async fn refused(client: &Client, query: &str, state: &str, detail: &str) {
    let error = client.simple_query(query).await.unwrap_err();
    let error = error.as_db_error().unwrap();
    assert_eq!(error.code().code(), state, "{error:?}");
    assert!(error.detail().is_some_and(|told| told.contains(detail)), "{error:?}");
}
