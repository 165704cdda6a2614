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
            // One connection is one question there: it has been asked before it is clear that there is no answer.
            let is_http = wrapper == "influxdb_fdw" && (place == 1 || state == "08006");
            assert!(is_told && (state == "08001" || is_http), "{name}: {state} {message}");
        }
    }
    assert_eq!(rows(&ours.client, "SELECT id FROM f").await, [["1"]]);
}

/// Takes requests as InfluxDB does, is there, and says this to whoever asks for more.
fn influx(says: &'static [u8]) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        while let Ok((mut socket, _)) = listener.accept() {
            let (mut request, mut some) = (Vec::new(), [0; 1024]);
            let is_whole = |request: &[u8]| match request.starts_with(b"POST") {
                true => request.ends_with(b"\n") && !request.ends_with(b"\r\n"),
                false => request.ends_with(b"\r\n\r\n"),
            };
            while !is_whole(&request)
                && let Ok(count @ 1..) = socket.read(&mut some)
            {
                request.extend_from_slice(&some[..count]);
            }
            let is_probe = request.starts_with(b"GET /ping");
            drop(socket.write_all(if is_probe { b"HTTP/1.1 204 No Content\r\n\r\n" } else { says }));
        }
    });
    port
}

/// Points that were sent may be there, unless they are refused.
#[tokio::test]
async fn points_that_are_not_answered_may_be_there() {
    let ours = Ours::start().await;
    let unknown = "whether the transaction on server \"s\" was committed is not known";
    let answers: [(&[u8], _, _, _); 6] = [
        (b"", "08007", unknown, "08006"),
        (b"HTTP/1.1 20", "08007", unknown, "08006"),
        (b"HTTP/1.1 204 No Content\r\nX-", "08007", unknown, "08006"),
        (b"220 mail.example.com ESMTP\r\n", "08007", unknown, "08001"),
        (b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n", "08007", unknown, "HV000"),
        (b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", "HV000", "status 400", "HV000"),
    ];
    for (says, written, message, read) in answers {
        ours.run(&format!(
            "DROP SERVER IF EXISTS s CASCADE;
             CREATE SERVER s FOREIGN DATA WRAPPER influxdb_fdw OPTIONS (host '127.0.0.1', port '{}', dbname 'd');
             CREATE FOREIGN TABLE p (v float8) SERVER s",
            influx(says)
        ))
        .await;
        ours.check_failure("INSERT INTO p VALUES (1)", written, message).await;
        ours.check_failure("SELECT * FROM p", read, "server \"s\"").await;
    }
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
