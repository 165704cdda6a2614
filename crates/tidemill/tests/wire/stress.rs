//! Clients that behave badly: too many, half-open, gone in the middle of things, talking rubbish. The server goes on, and
//! nothing of what they left half done counts.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, RngCore, SeedableRng};
use tokio_postgres::Client;
use tokio_postgres::error::SqlState;

use crate::server::{Server, rows};

const DEADLINE: Duration = Duration::from_secs(60);
/// Connections of the test that opens many, so many at a time.
const CONNECTIONS: usize = 500;
const AT_ONCE: usize = 80;
/// What a debug build of the server may take when it is told to use little. Its code alone is much of that.
const MEMORY_BYTES_MAX: u64 = 600 << 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_connections_come_and_go() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let client = server.connect().await;
    client
        .batch_execute("CREATE STREAM s (x int); CREATE CONTINUOUS VIEW v AS SELECT count(*) FROM s")
        .await
        .unwrap();
    // Those that never say anything must not keep the others out.
    let silent: Vec<TcpStream> =
        (0..10).map(|_| TcpStream::connect(("127.0.0.1", server.port)).unwrap()).collect();
    let half: Vec<TcpStream> = (0..5)
        .map(|_| {
            let mut socket = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
            socket.write_all(&[0, 0, 0, 41, 0, 3]).unwrap();
            socket
        })
        .collect();
    for _ in (0..CONNECTIONS).step_by(AT_ONCE) {
        let visits = (0..AT_ONCE).map(async |_| {
            let visitor = connect_patiently(&server).await;
            visitor.batch_execute("INSERT INTO s (x) VALUES (1)").await.unwrap();
            visitor
        });
        drop(futures::future::join_all(visits).await);
    }
    drop((silent, half));
    let written = CONNECTIONS.div_ceil(AT_ONCE) * AT_ONCE;
    assert_eq!(rows(&client, "SELECT count FROM v").await, [[written.to_string()]]);
}

/// The server may not have noticed yet that those before are gone: their places count until then.
async fn connect_patiently(server: &Server) -> Client {
    let deadline = Instant::now() + DEADLINE;
    loop {
        match server.try_connect().await {
            Err(e) if e.code() == Some(&SqlState::TOO_MANY_CONNECTIONS) && Instant::now() < deadline => {
                tokio::task::yield_now().await;
            }
            outcome => return outcome.unwrap(),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_that_vanish_leave_nothing_half_done() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let client = server.connect().await;
    client
        .batch_execute(
            "CREATE STREAM s (x int);
             CREATE CONTINUOUS VIEW v AS SELECT count(*) FROM s",
        )
        .await
        .unwrap();
    for _ in 0..10 {
        // In the middle of a row of a COPY that readers see already.
        let mut copying = Raw::connect(server.port);
        copying.query("COPY s (x) FROM STDIN");
        copying.read_until(b'G');
        copying.message(b'd', &b"1\n".repeat(20_000));
        copying.message(b'd', b"2\n3");
        let mut in_block = Raw::connect(server.port);
        in_block.query("BEGIN");
        in_block.query("INSERT INTO s (x) VALUES (1), (2)");
        in_block.read_until(b'Z');
        in_block.read_until(b'Z');
        // In the middle of a message.
        let mut in_message = Raw::connect(server.port);
        in_message.socket.write_all(b"Q\x00\x00\x01\x00INSERT INTO s (x) VALUES").unwrap();
        drop((copying, in_block, in_message));
    }
    let deadline = Instant::now() + DEADLINE;
    while rows(&client, "SELECT count FROM v").await != [["0"]] {
        assert!(Instant::now() < deadline, "what a client left half done still counts");
    }
    client.batch_execute("INSERT INTO s (x) VALUES (1)").await.unwrap();
    assert_eq!(rows(&client, "SELECT count FROM v").await, [["1"]]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_rows_of_a_copy_are_visible_while_its_client_pauses() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let client = server.connect().await;
    client
        .batch_execute("CREATE STREAM s (x int); CREATE CONTINUOUS VIEW v AS SELECT count(*) FROM s")
        .await
        .unwrap();
    let mut copying = Raw::connect(server.port);
    copying.query("COPY s (x) FROM STDIN");
    copying.read_until(b'G');
    copying.message(b'd', b"1\n2\n3\n");
    let deadline = Instant::now() + DEADLINE;
    while rows(&client, "SELECT count FROM v").await != [["3"]] {
        assert!(Instant::now() < deadline, "they wait for more");
    }
    copying.message(b'd', b"oops\n");
    copying.message(b'c', b"");
    copying.read_until(b'E');
    assert_eq!(rows(&client, "SELECT count FROM v").await, [["0"]], "and gone when it fails");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rubbish_on_the_port_ends_its_own_connection_only() {
    let seed: u64 = rand::random();
    println!("the seed is {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let client = server.connect().await;
    for round in 0..200 {
        let mut bytes = vec![0; random.random_range(1..2000)];
        random.fill_bytes(&mut bytes);
        if round % 2 == 0 {
            // After a proper start: a message of a real kind and any content.
            let mut raw = Raw::connect(server.port);
            let kind = *b"QPBDECSHFpdcfX".get(random.random_range(0..14)).unwrap();
            raw.message(kind, &bytes);
            // It may have been closed by now.
            drop(raw.socket.write_all(&bytes));
        } else {
            let mut socket = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
            drop(socket.write_all(&bytes));
            if random.random() {
                socket.shutdown(std::net::Shutdown::Write).unwrap();
                socket.set_read_timeout(Some(DEADLINE)).unwrap();
                // An error message or nothing, and the end.
                drop(socket.read_to_end(&mut Vec::new()));
            }
        }
    }
    assert_eq!(rows(&client, "SELECT 1").await, [["1"]], "the others go on");
    assert_eq!(rows(&server.connect().await, "SELECT 1").await, [["1"]], "and new ones are taken");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_is_bounded_while_writers_outrun_the_views() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("small.toml");
    std::fs::write(&config, "memory_limit = '64MB'\n").unwrap();
    let server = Server::start_with(
        &dir.path().join("data"),
        &["--trust-loopback", "--config", config.to_str().unwrap()],
    );
    let client = server.connect().await;
    client
        .batch_execute(
            "CREATE STREAM s (k int, t text);
             CREATE CONTINUOUS VIEW v AS SELECT k, count(*), max(t) FROM s GROUP BY k;
             CREATE CONTINUOUS VIEW w AS SELECT k % 100 AS m, count(*), min(t) FROM s GROUP BY k % 100",
        )
        .await
        .unwrap();
    const WRITERS: i32 = 4;
    const STATEMENTS: i32 = 30;
    const ROWS: i32 = 2000;
    let writers = (0..WRITERS).map(async |writer| {
        let client = server.connect().await;
        client.batch_execute("SET stream_insert_level = async").await.unwrap();
        for statement in 0..STATEMENTS {
            let first = (writer * STATEMENTS + statement) * ROWS;
            let values: Vec<_> =
                (first..first + ROWS).map(|k| format!("({k}, '{}')", "x".repeat(200))).collect();
            client.simple_query(&format!("INSERT INTO s (k, t) VALUES {}", values.join(","))).await.unwrap();
        }
    });
    let watch = async {
        let mut highest = 0;
        let done = futures::future::join_all(writers);
        futures::pin_mut!(done);
        loop {
            highest = server.memory_bytes().max(highest);
            tokio::select! {
                _ = &mut done => return highest,
                () = tokio::task::yield_now() => {}
            }
        }
    };
    let highest = watch.await;
    client.batch_execute("FLUSH").await.unwrap();
    let all = (WRITERS * STATEMENTS * ROWS).to_string();
    assert_eq!(rows(&client, "SELECT count(*), sum(count) FROM v").await, [[all.clone(), all.clone()]]);
    assert_eq!(rows(&client, "SELECT sum(count) FROM w").await, [[all]]);
    assert!(highest < MEMORY_BYTES_MAX, "{} MB with a limit of 64 MB", highest >> 20);
    println!("at most {} MB", highest >> 20);
}

/// A client that can stop anywhere.
struct Raw {
    socket: TcpStream,
}

impl Raw {
    /// Returns when the server is ready.
    fn connect(port: u16) -> Raw {
        let mut socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
        socket.set_read_timeout(Some(DEADLINE)).unwrap();
        let parameters = b"user\0postgres\0database\0tidemill\0\0";
        let mut packet = (parameters.len() as u32 + 8).to_be_bytes().to_vec();
        packet.extend_from_slice(&196_608u32.to_be_bytes());
        packet.extend_from_slice(parameters);
        socket.write_all(&packet).unwrap();
        let mut raw = Raw { socket };
        raw.read_until(b'Z');
        raw
    }

    fn message(&mut self, kind: u8, body: &[u8]) {
        let mut bytes = vec![kind];
        bytes.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
        bytes.extend_from_slice(body);
        self.socket.write_all(&bytes).unwrap();
    }

    fn query(&mut self, sql: &str) {
        self.message(b'Q', format!("{sql}\0").as_bytes());
    }

    /// Reads messages up to one of the kind.
    fn read_until(&mut self, kind: u8) {
        loop {
            let mut header = [0; 5];
            self.socket.read_exact(&mut header).unwrap();
            let length = u32::from_be_bytes(header[1..].try_into().unwrap()) as usize;
            let mut body = vec![0; length - 4];
            self.socket.read_exact(&mut body).unwrap();
            if header[0] == kind {
                return;
            }
        }
    }
}
