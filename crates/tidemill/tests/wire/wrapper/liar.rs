//! Servers that speak PostgreSQL's protocol and do not keep to it: no result that is cut short is taken for a whole one, and
//! none fills the memory.

use std::io::{Read, Result, Write};
use std::net::{TcpListener, TcpStream};

use super::Ours;
use crate::server::{error, failure, rows};

const HEADER: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
const TRAILER: &[u8] = b"\xff\xff";

/// What it says to a COPY, and then again and again.
#[derive(Clone, Default)]
struct Lie {
    says: Vec<u8>,
    goes_on: Vec<u8>,
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    [&[kind][..], &(body.len() as u32 + 4).to_be_bytes(), body].concat()
}

fn row(id: u8) -> Vec<u8> {
    message(b'd', &[0, 1, 0, 0, 0, 4, 0, 0, 0, id])
}

/// The answer to `BEGIN; COPY …; COMMIT`, with these pieces in the place of the rows.
fn begin(columns: u8) -> Vec<u8> {
    let copies =
        message(b'H', &[1, 0, columns].into_iter().chain([0, 1].repeat(columns.into())).collect::<Vec<_>>());
    [message(b'C', b"BEGIN\0"), copies, message(b'd', HEADER)].concat()
}

fn end(tag: &[u8]) -> Vec<u8> {
    [message(b'C', tag), message(b'C', b"COMMIT\0"), message(b'Z', b"I")].concat()
}

fn liar(lie: Lie) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        while let Ok((mut socket, _)) = listener.accept() {
            let lie = lie.clone();
            std::thread::spawn(move || drop(lie.tell(&mut socket)));
        }
    });
    port
}

impl Lie {
    fn tell(&self, socket: &mut TcpStream) -> Result<()> {
        let mut head = [0; 8];
        socket.read_exact(&mut head)?;
        if head[4..] == [0x04, 0xd2, 0x16, 0x2f] {
            socket.write_all(b"N")?;
            socket.read_exact(&mut head)?;
        }
        if head[4..] == [0x04, 0xd2, 0x16, 0x2e] {
            return Ok(());
        }
        skip(socket, u32::from_be_bytes([head[0], head[1], head[2], head[3]]) as usize - 8)?;
        let version = message(b'S', b"server_version\x0015.0\0");
        let hello = [message(b'R', &[0; 4]), version, message(b'K', &[0; 8]), message(b'Z', b"I")];
        socket.write_all(&hello.concat())?;
        let (mut prepared, mut is_copying) = (String::new(), false);
        loop {
            let mut head = [0; 5];
            socket.read_exact(&mut head)?;
            let [kind, length @ ..] = head;
            let mut body = vec![0; u32::from_be_bytes(length) as usize - 4];
            socket.read_exact(&mut body)?;
            let text = String::from_utf8_lossy(&body);
            let is_refused = prepared.contains("pg_");
            let answer = match kind {
                b'P' => {
                    prepared = text.into_owned();
                    match prepared.contains("pg_") {
                        true => message(b'E', b"SERROR\0C42501\0Mno catalogs\0\0"),
                        false => message(b'1', b""),
                    }
                }
                b'D' | b'B' | b'E' if is_refused => vec![],
                b'D' if prepared.contains("STDIN") => [message(b't', &[0; 2]), message(b'n', b"")].concat(),
                b'D' => {
                    let id =
                        [&b"\0\x01id\0"[..], &[0; 6], &23_u32.to_be_bytes(), &[0, 4], &[0xff; 4], &[0; 2]];
                    [message(b't', &[0; 2]), message(b'T', &id.concat())].concat()
                }
                b'C' => message(b'3', b""),
                b'B' => message(b'2', b""),
                b'E' if prepared.contains("STDIN") => {
                    is_copying = true;
                    message(b'G', &[1, 0, 1, 0, 1])
                }
                b'c' => {
                    is_copying = false;
                    message(b'C', b"COPY 9\0")
                }
                b'S' if !is_copying => message(b'Z', b"I"),
                b'Q' if text.contains("COPY (") => {
                    socket.write_all(&self.says)?;
                    while !self.goes_on.is_empty() {
                        socket.write_all(&self.goes_on)?;
                    }
                    vec![]
                }
                b'Q' => [message(b'C', b"SET\0"), message(b'Z', b"I")].concat(),
                b'X' => return Ok(()),
                _ => vec![],
            };
            socket.write_all(&answer)?;
        }
    }
}

fn skip(socket: &mut TcpStream, bytes: usize) -> Result<()> {
    socket.read_exact(&mut vec![0; bytes])
}

async fn define(ours: &Ours, name: &str, lie: Lie) {
    let port = liar(lie);
    ours.run(&format!(
        "CREATE SERVER {name} FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '127.0.0.1', port '{port}');
         CREATE USER MAPPING FOR PUBLIC SERVER {name} OPTIONS (user 'u');
         CREATE FOREIGN TABLE {name} (id int) SERVER {name}"
    ))
    .await;
}

#[tokio::test]
async fn a_result_that_is_cut_short_is_an_error() {
    let ours = Ours::start().await;
    let (trailer, done, three) = (message(b'd', TRAILER), message(b'c', b""), end(b"COPY 3\0"));
    let (two, all) = ([row(1), row(2)].concat(), [row(1), row(2), row(3)].concat());
    let whole = [begin(1), all.clone(), trailer.clone(), done.clone(), three.clone()];
    let unended = "not said that they are all.";
    for (name, says, gap) in [
        ("whole", whole.to_vec(), ""),
        ("no_trailer", vec![begin(1), two.clone(), done.clone(), three.clone()], unended),
        ("ready", vec![begin(1), row(1), message(b'Z', b"I")], unended),
        ("complete", vec![begin(1), row(1), three.clone()], unended),
        ("not_done", vec![begin(1), all.clone(), trailer.clone(), three.clone()], unended),
        ("no_rows", vec![message(b'Z', b"I")], unended),
        ("no_tag", vec![begin(1), all.clone(), trailer.clone(), done.clone(), message(b'Z', b"I")], unended),
        (
            "fewer",
            vec![begin(1), two.clone(), trailer.clone(), done.clone(), three.clone()],
            "It has sent 2 rows, and says that they are 3.",
        ),
        (
            "wide",
            vec![begin(6), all.clone(), trailer.clone(), done.clone(), three.clone()],
            "It announces 6 columns instead of 1.",
        ),
    ] {
        define(&ours, name, Lie { says: says.concat(), ..Lie::default() }).await;
        let query = format!("SELECT id FROM {name}");
        if gap.is_empty() {
            assert_eq!(rows(&ours.client, &query).await, [["1"], ["2"], ["3"]]);
            continue;
        }
        // It is there, so it is not left out either.
        for skips in [false, true] {
            ours.run(&format!("SET on_dead_node = {}", if skips { "skip" } else { "error" })).await;
            let told = error(&ours.client, &query).await;
            assert_eq!(
                (told.code().code(), told.message()),
                ("08P01", &*format!("the answer of server \"{name}\" is not complete"))
            );
            let detail = told.detail().unwrap();
            assert!(detail.ends_with(gap), "{name}: {detail}");
            assert!(told.where_().unwrap().starts_with("remote SQL command on server"), "{name}: {told:?}");
        }
    }
    // It says that it has taken nine.
    let (state, message) = failure(&ours.client, "INSERT INTO whole VALUES (1), (2)").await;
    assert_eq!(
        (state.as_str(), message.as_str()),
        ("08P01", "the answer of server \"whole\" is not complete")
    );
}

#[tokio::test]
async fn a_row_without_end_is_refused() {
    let ours = Ours::start().await;
    let field = [&[0, 1][..], &2_000_000_000_u32.to_be_bytes()].concat();
    let announced = [&b"d"[..], &0x7fff_fff0_u32.to_be_bytes()].concat();
    let endless = [0, 1, 0x03, 0, 0, 0];
    let (data, text) = (message(b'd', &[b'x'; 60_000]), vec![b'x'; 60_000]);
    for (name, says, goes_on) in [
        ("one_message", announced, text),
        ("one_field", message(b'd', &field), data.clone()),
        // Of 48 MB: it is too long for the query, not for the protocol.
        ("below", message(b'd', &endless), data),
    ] {
        define(&ours, name, Lie { says: [begin(1), says].concat(), goes_on }).await;
        ours.run("SET query_memory_limit = '32MB'").await;
        let before = ours.server.memory_bytes();
        let told = error(&ours.client, &format!("SELECT id FROM {name}")).await;
        assert_eq!(told.code().code(), "53200", "{told:?}");
        assert_eq!(told.message(), format!("a row of server \"{name}\" is longer than 33554432 bytes"));
        assert!(ours.server.memory_bytes() < before + (256 << 20));
    }
}

/// A node's words are shown, but not without end, and with the place that they come from.
#[tokio::test]
async fn what_it_says_is_cut() {
    let ours = Ours::start().await;
    let fields = [&b"SERROR\0C22012\0M"[..], &[b'A'; 5_000_000], b"\0\0"].concat();
    define(
        &ours,
        "long",
        Lie { says: [message(b'E', &fields), message(b'Z', b"I")].concat(), ..Lie::default() },
    )
    .await;
    let told = error(&ours.client, "SELECT id FROM long").await;
    assert_eq!(told.code().code(), "22012");
    assert!(told.message().len() < 5_000 && told.message().contains("AAA … "), "{}", told.message().len());
    let header = message(b'd', b"PGCOPX\n\xff\r\n\0\0\0\0\0\0\0\0\0");
    let copies = message(b'H', &[1, 0, 1, 0, 1]);
    let says = [message(b'C', b"BEGIN\0"), copies, header, message(b'c', b""), end(b"COPY 0\0")].concat();
    define(&ours, "other", Lie { says, ..Lie::default() }).await;
    let told = error(&ours.client, "SELECT id FROM other").await;
    assert_eq!((told.code().code(), told.message()), ("22P04", "COPY file signature not recognized"));
    assert!(told.where_().unwrap().starts_with("remote SQL command on server \"other\": "), "{told:?}");
}
