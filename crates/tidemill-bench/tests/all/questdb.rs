//! QuestDB, played by this test: it speaks PostgreSQL's protocol, and has no tables as the built-in suites need them.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use crate::bench::{bench, write};

const VERSION: &[u8] = b"PostgreSQL 12.3, 64-bit, QuestDB";

fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    [&[tag][..], &(body.len() as u32 + 4).to_be_bytes(), body].concat()
}

/// Answers whatever it is asked with its version, and what deletes with an error.
fn serve(mut socket: TcpStream) -> std::io::Result<()> {
    let mut said = [0; 4096];
    // First whether there is TLS.
    socket.read_exact(&mut said[..8])?;
    socket.write_all(b"N")?;
    let _ = socket.read(&mut said)?;
    let ready = message(b'Z', b"I");
    socket.write_all(&[message(b'R', &[0; 4]), ready.clone()].concat())?;
    loop {
        let count = socket.read(&mut said)?;
        if count == 0 || said[0] == b'X' {
            return Ok(());
        }
        let answer = match said[..count].windows(6).any(|word| word == b"delete") {
            true => message(b'E', b"SERROR\0C00000\0Munexpected token [from]\0\0"),
            false => {
                let column = b"\0\x01version\0\0\0\0\0\0\0\0\0\0\x19\xff\xff\xff\xff\xff\xff\0\0";
                let row = [b"\0\x01", &(VERSION.len() as u32).to_be_bytes()[..], VERSION].concat();
                [message(b'T', column), message(b'D', &row), message(b'C', b"SELECT 1\0")].concat()
            }
        };
        socket.write_all(&[answer, ready.clone()].concat())?;
    }
}

#[test]
fn suites_say_what_questdb_does_not_have() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("postgres://admin@127.0.0.1:{}/qdb", listener.local_addr().unwrap().port());
    std::thread::spawn(move || {
        while let Ok((socket, _)) = listener.accept() {
            std::thread::spawn(move || drop(serve(socket)));
        }
    });
    let dir = tempfile::tempdir().unwrap();
    for (arguments, message) in [
        (
            &["prepare", "reporting"][..],
            "suite reporting needs keys and columns of type numeric, which QuestDB does not have",
        ),
        (&["run", "streams"], "suite streams needs streams, or triggers, which QuestDB does not have"),
        (&["validate", "federation"], "suite federation needs"),
        (
            &["prepare", "linkbench"],
            "suite linkbench needs keys, upserts and DELETE, which QuestDB does not have",
        ),
        (
            &["linkbench", "load", "--nodes", "10"],
            "LinkBench needs keys, upserts and DELETE, which QuestDB does not have",
        ),
    ] {
        let ran = bench(dir.path(), &[arguments, &["--target", &url]].concat());
        assert!(ran.code != 0 && ran.err.contains(message), "{arguments:?}: {} {}", ran.code, ran.err);
    }
    // A suite of one's own has the SQL of its own.
    std::fs::create_dir(dir.path().join("own")).unwrap();
    write(
        &dir.path().join("own"),
        "suite.toml",
        "summary = \"own\"\nprepare = [\"old.sql\"]\n[[script]]\nfile = \"one.sql\"\n",
    );
    write(&dir.path().join("own"), "one.sql", "select 1;\n");
    write(&dir.path().join("own"), "old.sql", "delete from t;\n");
    let ran = bench(dir.path(), &["prepare", "own", "--target", &url]);
    assert!(ran.err.contains("own/old.sql: unexpected token [from] (00000)"), "{}", ran.err);
    write(&dir.path().join("own"), "old.sql", "select 1;\n");
    let ran = bench(dir.path(), &["prepare", "own", "--target", &url]);
    assert_eq!(ran.code, 0, "{}", ran.err);
}
