//! How connections to MySQL and MariaDB begin: TLS, accounts.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use mysql_async::prelude::Queryable;

use super::Ours;
use super::mysql_server::Mysqld;
use crate::server::rows as read;
use crate::tls::make_certificates;

#[tokio::test]
async fn connections_are_encrypted() {
    let dir = tempfile::tempdir().unwrap();
    if !make_certificates(dir.path()) {
        println!("skipped: no certificates could be made (install openssl)");
        return;
    }
    let Some(node) = Mysqld::start_with(Some(dir.path())).await else { return };
    let ours = Ours::start().await;
    let ca = |name: &str| format!(", ssl_ca '{}'", dir.path().join(name).display());
    let query = "SELECT variable_value <> '' FROM status WHERE upper(variable_name) = 'SSL_CIPHER'";
    for (host, options, wanted) in [
        ("127.0.0.1", String::new(), Ok("t")),
        ("127.0.0.1", ", sslmode 'disable'".to_string(), Ok("f")),
        ("127.0.0.1", ", sslmode 'require'".to_string(), Ok("t")),
        ("localhost", ca("ca.crt"), Ok("t")),
        ("localhost", format!("{}, sslmode 'verify-full'", ca("ca.crt")), Ok("t")),
        ("127.0.0.1", ca("ca.crt"), Err(("08001", "could not connect"))),
        ("localhost", ca("other.crt"), Err(("08001", "could not connect"))),
        ("localhost", ca("nope.crt"), Err(("22023", "nope.crt"))),
        ("localhost", ca("ca.crt").replace("ssl_ca", "ssl_cert"), Err(("22023", "are given together"))),
        ("localhost", ", sslmode 'verify-full'".to_string(), Err(("22023", "needs a root certificate"))),
        (
            "localhost",
            format!("{}, sslmode 'require'", ca("ca.crt")),
            Err(("22023", "verifies no certificate")),
        ),
    ] {
        let schema = if node.is_mariadb { "information_schema" } else { "performance_schema" };
        ours.run(&format!(
            "DROP SERVER IF EXISTS safe CASCADE;
             CREATE SERVER safe FOREIGN DATA WRAPPER mysql_fdw OPTIONS (host '{host}', port '{}'{options});
             CREATE USER MAPPING FOR PUBLIC SERVER safe OPTIONS (username 'u', password 'p');
             CREATE FOREIGN TABLE status (variable_name text, variable_value text) SERVER safe
                 OPTIONS (dbname '{schema}', table_name '{}')",
            node.port,
            if node.is_mariadb { "SESSION_STATUS" } else { "session_status" },
        ))
        .await;
        match wanted {
            Ok(wanted) => assert_eq!(read(&ours.client, query).await, [[wanted]], "{options}"),
            Err((state, message)) => ours.check_failure(query, state, message).await,
        }
    }
}

/// `name` is also the user's; nothing comes of it here.
async fn check_refused(ours: &Ours, port: u16, name: &str, options: &str, why: &str) {
    ours.run(&format!(
        "CREATE SERVER {name} FOREIGN DATA WRAPPER mysql_fdw OPTIONS (host '127.0.0.1', port '{port}'{options});
         CREATE USER MAPPING FOR PUBLIC SERVER {name} OPTIONS (username '{name}', password 'p');
         CREATE FOREIGN TABLE t_{name} (id int) SERVER {name} OPTIONS (dbname 'd')"
    ))
    .await;
    let error = ours.client.simple_query(&format!("SELECT * FROM t_{name}")).await.unwrap_err();
    let error = error.as_db_error().unwrap();
    assert_eq!(error.message(), format!("could not connect to server \"{name}\""));
    assert!(error.code().code() == "08001" && error.detail().unwrap().contains(why), "{error:?}");
}

#[tokio::test]
async fn what_a_login_needs_and_is_not_there_is_told() {
    let Some(node) = Mysqld::start().await else { return };
    let ours = Ours::start().await;
    if !node.is_mariadb {
        return;
    }
    check_refused(&ours, node.port, "u", ", sslmode 'require'", "the server has no TLS").await;
    let mut remote = node.connect().await;
    if remote.query_drop("INSTALL SONAME 'auth_ed25519'").await.is_err() {
        println!("skipped: no ed25519 plugin");
        return;
    }
    remote.query_drop("CREATE USER ed@'%' IDENTIFIED VIA ed25519 USING PASSWORD('p')").await.unwrap();
    check_refused(&ours, node.port, "ed", "", "cannot be given in the way that the server asks for").await;
}

fn send(socket: &mut TcpStream, sequence: u8, body: &[u8]) -> std::io::Result<()> {
    let length = (body.len() as u32).to_le_bytes();
    socket.write_all(&[&length[..3], &[sequence], body].concat())
}

/// Greets as MySQL 8 without TLS, does not know the password yet, and gives what is no public key.
fn give_no_key(socket: &mut TcpStream) -> std::io::Result<()> {
    let greeting = [
        b"\x0a8.0.36\0\x01\0\0\0abcdefgh\0\x00\x82\x2d\x02\0\x08\x00\x15",
        &[0; 10][..],
        b"ijklmnopqrst\0caching_sha2_password\0",
    ];
    send(socket, 0, &greeting.concat())?;
    let mut said = [0; 1024];
    let _ = socket.read(&mut said)?;
    send(socket, 2, &[1, 4])?;
    let _ = socket.read(&mut said)?;
    send(socket, 4, b"\x01no key")
}

#[tokio::test]
async fn a_public_key_that_is_none_is_told() {
    let ours = Ours::start().await;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    std::thread::spawn(move || {
        while let Ok((mut socket, _)) = listener.accept() {
            count.fetch_add(1, Ordering::Relaxed);
            drop(give_no_key(&mut socket));
        }
    });
    check_refused(&ours, port, "fake", "", "cannot be given in the way that the server asks for").await;
    for _ in 0..5 {
        ours.check_failure("SELECT * FROM t_fake", "08001", "could not connect to server \"fake\"").await;
    }
    // By the first query, and by the probe at the same time; without TLS, which each of them finds out.
    assert!(asked.load(Ordering::Relaxed) <= 4, "it is asked again and again");
    assert_eq!(read(&ours.client, "SELECT 1").await, [["1"]]);
}
