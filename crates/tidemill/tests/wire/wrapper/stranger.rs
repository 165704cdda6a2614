//! Servers that are something else than what they are said to be: one clear error, and the others are not harmed.

use std::io::{Read, Write};
use std::net::TcpListener;

use rusqlite::Connection;

use super::Ours;
use crate::server::{error, failure, rows};

/// Somebody who says this to whoever connects, and hangs up when that has said something.
fn stranger(says: &'static [u8]) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        while let Ok((mut socket, _)) = listener.accept() {
            drop(socket.write_all(says));
            drop(socket.read(&mut [0; 1024]));
        }
    });
    port
}

#[tokio::test]
async fn who_does_not_speak_the_protocol_is_told() {
    let ours = Ours::start().await;
    let path = ours.path("s.db");
    let own = Connection::open(&path).unwrap();
    own.execute_batch("CREATE TABLE f (id INTEGER); INSERT INTO f VALUES (1)").unwrap();
    ours.run(&format!(
        "CREATE SERVER own FOREIGN DATA WRAPPER sqlite_fdw OPTIONS (database '{path}');
         CREATE FOREIGN TABLE f (id int) SERVER own"
    ))
    .await;
    let talks: [&[u8]; 4] = [
        b"220 mail.example.com ESMTP\r\n",
        b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n",
        &[0xff; 4096],
        b"",
    ];
    for (place, says) in talks.into_iter().enumerate() {
        for (wrapper, options, mapping) in [
            ("postgres_fdw", "dbname 'd'", "user 'u'"),
            ("tidemill_fdw", "dbname 'd'", "user 'u'"),
            ("mysql_fdw", "init_command 'SET @a = 1'", "username 'u'"),
            ("influxdb_fdw", "dbname 'd'", "user 'u'"),
        ] {
            let name = format!("{wrapper}_{place}");
            let port = stranger(says);
            ours.run(&format!(
                "CREATE SERVER {name} FOREIGN DATA WRAPPER {wrapper} OPTIONS (host '127.0.0.1', port '{port}', connect_timeout '2', {options});
                 CREATE USER MAPPING FOR PUBLIC SERVER {name} OPTIONS ({mapping});
                 CREATE FOREIGN TABLE t_{name} (id int) SERVER {name}"
            ))
            .await;
            let (state, message) = failure(&ours.client, &format!("SELECT * FROM t_{name}")).await;
            let is_told = message.contains(&format!("\"{name}\""));
            let is_http = wrapper == "influxdb_fdw" && place == 1;
            assert!(is_told && (state == "08001" || is_http), "{name}: {state} {message}");
        }
    }
    assert_eq!(rows(&ours.client, "SELECT id FROM f").await, [["1"]]);
}

/// QuestDB speaks PostgreSQL's protocol: NULL equals NULL there, so what it is asked would mean something else.
fn be_questdb(socket: &mut std::net::TcpStream) -> std::io::Result<()> {
    let mut said = [0; 1024];
    // First whether there is TLS.
    socket.read_exact(&mut said[..8])?;
    socket.write_all(b"N")?;
    let _ = socket.read(&mut said)?;
    socket.write_all(b"R\0\0\0\x08\0\0\0\0S\0\0\0\x1aquestdb_version\09.3.4\0Z\0\0\0\x05I")?;
    socket.read(&mut said).map(drop)
}

#[tokio::test]
async fn questdb_is_told_apart() {
    let ours = Ours::start().await;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        while let Ok((mut socket, _)) = listener.accept() {
            drop(be_questdb(&mut socket));
        }
    });
    ours.run(&format!(
        "CREATE SERVER q FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '127.0.0.1', port '{port}');
         CREATE USER MAPPING FOR PUBLIC SERVER q OPTIONS (user 'u');
         CREATE FOREIGN TABLE q (id int) SERVER q"
    ))
    .await;
    for sql in [
        "SELECT * FROM q",
        "UPDATE q SET id = 1 WHERE id <> 1",
        "INSERT INTO q VALUES (1)",
        "IMPORT FOREIGN SCHEMA public FROM SERVER q INTO public",
    ] {
        ours.check_failure(
            sql,
            "0A000",
            "server \"q\" is QuestDB 9.3.4, whose tables cannot be foreign tables",
        )
        .await;
    }
}

/// What a server says when it is asked for TLS, and what says that it is none, is told.
#[tokio::test]
async fn what_answers_in_the_place_of_a_server_is_told() {
    let ours = Ours::start().await;
    for (name, says, cause) in [
        (
            "fails",
            &b"E\0\0\0\x24SFATAL\0C08P01\0Mno TLS is spoken\0\0"[..],
            "server answers TLS with an error: no TLS is spoken",
        ),
        ("web", b"HTTP/1.1 400 Bad Request\r\n\r\n", "it does not speak PostgreSQL's protocol"),
    ] {
        let port = stranger(says);
        ours.run(&format!(
            "CREATE SERVER {name} FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '127.0.0.1', port '{port}');
             CREATE USER MAPPING FOR PUBLIC SERVER {name} OPTIONS (user 'u');
             CREATE FOREIGN TABLE {name} (id int) SERVER {name}"
        ))
        .await;
        let told = error(&ours.client, &format!("SELECT * FROM {name}")).await;
        assert_eq!(told.code().code(), "08001", "{told:?}");
        assert!(told.detail().unwrap().ends_with(cause), "{told:?}");
    }
    for (options, message) in [
        (
            "postgres_fdw OPTIONS (fdw_startup_cost 'x')",
            "invalid value for floating point option \"fdw_startup_cost\": x",
        ),
        (
            "postgres_fdw OPTIONS (fdw_tuple_cost '-1')",
            "\"fdw_tuple_cost\" must be a floating point value greater than or equal to zero",
        ),
        (
            "influxdb_fdw OPTIONS (host 'ftp://127.0.0.1', dbname 'd')",
            "invalid value for option \"host\": \"ftp://127.0.0.1\"",
        ),
    ] {
        ours.check_failure(&format!("CREATE SERVER x FOREIGN DATA WRAPPER {options}"), "22023", message)
            .await;
    }
}
