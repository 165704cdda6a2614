//! `GET /metrics` over a socket: every line is of Prometheus's text format and agrees with what SQL says; nobody keeps
//! the listener from answering the next one.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use tokio_postgres::Client;

use crate::node::until;
use crate::server::{Server, rows};

/// `CONNECTIONS_MAX` of the listener.
const CONNECTIONS_MAX: usize = 16;
/// In which a test that goes well is over many times.
const PATIENCE: Duration = Duration::from_secs(60);

struct Setting {
    server: Server,
    client: Client,
    dir: tempfile::TempDir,
}

async fn start() -> Setting {
    let dir = tempfile::tempdir().unwrap();
    let options = ["--trust-loopback", "--metrics-listen", "127.0.0.1:0"];
    let server = Server::start_with(&dir.path().join("data"), &options);
    let client = server.connect().await;
    Setting { server, client, dir }
}

fn connect(server: &Server) -> TcpStream {
    let socket = TcpStream::connect(("127.0.0.1", server.metrics_port.unwrap())).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// Sends bytes and reads until the server closes: status line, headers, body.
fn exchange(mut socket: TcpStream, sent: &[u8]) -> (String, String, String) {
    socket.write_all(sent).unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let (status, headers) = head.split_once("\r\n").unwrap();
    (status.to_string(), headers.to_string(), body.to_string())
}

fn get(server: &Server, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nHost: here\r\nAccept: */*\r\n\r\n");
    let (status, headers, body) = exchange(connect(server), request.as_bytes());
    assert_eq!(status, "HTTP/1.1 200 OK");
    assert!(headers.contains(&format!("Content-Length: {}\r\n", body.len())), "{headers}");
    body
}

/// Name and labels of a figure.
type Key = (String, BTreeMap<String, String>);

/// Reads the text format and holds it to its rules: HELP and TYPE before the figures of a name, which are together; names
/// and labels of the right letters; values that are numbers; no figure twice; a counter is called `_total`.
fn parse(text: &str) -> BTreeMap<Key, f64> {
    assert!(text.ends_with('\n'));
    let (mut figures, mut names, mut lines) = (BTreeMap::new(), BTreeSet::new(), text.lines().peekable());
    while let Some(help) = lines.next() {
        let (name, help) = help.strip_prefix("# HELP ").unwrap().split_once(' ').unwrap();
        assert!(!help.is_empty() && is_name(name) && names.insert(name), "{name}");
        let kind = lines.next().unwrap().strip_prefix(&format!("# TYPE {name} ")).unwrap();
        assert!(
            ["counter", "gauge"].contains(&kind) && (kind == "counter") == name.ends_with("_total"),
            "{name}"
        );
        let count = figures.len();
        while let Some(line) = lines.next_if(|line| !line.starts_with('#')) {
            let rest = line.strip_prefix(name).unwrap();
            let (labels, value) = match rest.strip_prefix('{') {
                Some(rest) => parse_labels(rest),
                None => (BTreeMap::new(), rest),
            };
            let value: f64 = value.strip_prefix(' ').unwrap().parse().unwrap();
            assert!(
                value.is_finite() && figures.insert((name.to_string(), labels), value).is_none(),
                "{line}"
            );
        }
        assert!(figures.len() > count, "{name} has no figures");
    }
    figures
}

fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

/// Behind the opening brace: the labels, and what follows the closing one.
fn parse_labels(mut rest: &str) -> (BTreeMap<String, String>, &str) {
    let mut labels = BTreeMap::new();
    loop {
        let (label, value) = rest.split_once("=\"").unwrap();
        let (mut text, mut chars) = (String::new(), value.char_indices());
        let end = loop {
            match chars.next().unwrap() {
                (end, '"') => break end + 1,
                (_, '\\') => text.push(match chars.next().unwrap().1 {
                    'n' => '\n',
                    same @ ('\\' | '"') => same,
                    other => panic!("\\{other} is no escape"),
                }),
                (_, same) => text.push(same),
            }
        };
        assert!(is_name(label) && labels.insert(label.to_string(), text).is_none(), "{label}");
        rest = &value[end..];
        match rest.strip_prefix(',') {
            Some(more) => rest = more,
            None => return (labels, rest.strip_prefix('}').unwrap()),
        }
    }
}

fn figure(figures: &BTreeMap<Key, f64>, name: &str, labels: &[(&str, &str)]) -> f64 {
    let labels = labels.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    *figures.get(&(name.to_string(), labels)).unwrap_or_else(|| panic!("{name} in {figures:#?}"))
}

/// What the same figures are in SQL.
async fn shown(client: &Client) -> BTreeMap<Key, f64> {
    let query = "SELECT m.name, m.labels::text, m.value FROM tidemill.metrics m";
    let key = |row: &Vec<String>| {
        let labels: BTreeMap<String, String> = serde_json::from_str(&row[1]).unwrap();
        ((row[0].clone(), labels), row[2].parse().unwrap())
    };
    rows(client, query).await.iter().map(key).collect()
}

const DEFINITIONS: &str = r#"
    CREATE STREAM events (k int, v int);
    CREATE STREAM "odd ""name\ of it" (k int);
    CREATE CONTINUOUS VIEW totals AS SELECT k, sum(100 / v) FROM events GROUP BY k;
    CREATE CONTINUOUS VIEW counts AS SELECT count(*) FROM events;
    CREATE SERVER gone FOREIGN DATA WRAPPER sqlite_fdw OPTIONS (database '/nowhere/secret.db');
    CREATE SERVER files FOREIGN DATA WRAPPER sqlite_fdw OPTIONS (database '{here}');
    INSERT INTO events (k, v) VALUES (1, 1), (2, 2), (3, 3);
    INSERT INTO events (k, v) VALUES (1, 1);
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn figures_are_those_of_sql() {
    let Setting { server, client, dir } = start().await;
    let database = dir.path().join("here.db");
    rusqlite::Connection::open(&database).unwrap().execute_batch("CREATE TABLE t (x int)").unwrap();
    client.batch_execute(&DEFINITIONS.replace("{here}", database.to_str().unwrap())).await.unwrap();
    assert!(client.batch_execute("INSERT INTO events (k, v) VALUES (9, 0)").await.is_err());
    until(&client, "SELECT count(*) FROM tidemill.nodes WHERE state IN ('down', 'up')", "2").await;
    let figures = parse(&get(&server, "/metrics"));
    let of = |name: &str, labels: &[(&str, &str)]| figure(&figures, name, labels);
    assert_eq!(of("tidemill_stream_input_rows_total", &[("stream", "events")]), 5.0);
    assert_eq!(of("tidemill_view_input_rows_total", &[("view", "totals")]), 5.0);
    assert_eq!(of("tidemill_stream_input_rows_total", &[("stream", "odd \"name\\ of it")]), 0.0);
    assert_eq!(of("tidemill_view_groups", &[("view", "totals")]), 3.0);
    assert_eq!(of("tidemill_view_errors_total", &[("view", "totals")]), 1.0);
    assert_eq!(of("tidemill_node_up", &[("server", "gone"), ("wrapper", "sqlite_fdw")]), 0.0);
    assert_eq!(of("tidemill_node_up", &[("server", "files"), ("wrapper", "sqlite_fdw")]), 1.0);
    for (state, is_in) in [("unknown", 0.0), ("up", 0.0), ("slow", 0.0), ("down", 1.0)] {
        let labels = [("server", "gone"), ("state", state), ("wrapper", "sqlite_fdw")];
        assert_eq!(of("tidemill_node_state", &labels), is_in, "{state}");
    }
    assert_eq!(of("tidemill_sessions", &[("state", "idle")]), 1.0);
    assert!(of("process_resident_memory_bytes", &[]) > 1e6 && of("tidemill_log_bytes", &[]) > 0.0);
    assert_eq!(of("tidemill_build_info", &[("version", env!("CARGO_PKG_VERSION"))]), 1.0);

    // The older relations say the same.
    let stats = "SELECT s.input_rows, s.input_batches, s.input_bytes, q.input_rows, q.input_bytes, q.executions, q.errors, q.state_rows
                     FROM pipelinedb.stream_stats s, pipelinedb.query_stats q
                     WHERE s.stream = 'events' AND q.continuous_query = 'totals' AND q.type = 'worker'";
    let stats = rows(&client, stats).await.remove(0);
    let (stream, view) = ([("stream", "events")], [("view", "totals")]);
    let same = [
        of("tidemill_stream_input_rows_total", &stream),
        of("tidemill_stream_input_batches_total", &stream),
        of("tidemill_stream_input_bytes_total", &stream),
        of("tidemill_view_input_rows_total", &view),
        of("tidemill_view_input_bytes_total", &view),
        of("tidemill_view_input_batches_total", &view),
        of("tidemill_view_errors_total", &view),
        of("tidemill_view_groups", &view),
    ];
    assert_eq!(stats, same.map(|value| value.to_string()));

    // So does the relation of all of them: the same names and labels, and the same values of what does not move on.
    let shown = shown(&client).await;
    assert_eq!(figures.keys().collect::<Vec<_>>(), shown.keys().collect::<Vec<_>>());
    for (key, value) in figures
        .iter()
        .filter(|(key, _)| key.0.starts_with("tidemill_view") || key.0.starts_with("tidemill_stream"))
    {
        assert_eq!(shown[key], *value, "{key:?}");
    }
    let odd =
        "SELECT value FROM tidemill.metrics WHERE labels->>'stream' LIKE 'odd%' AND name LIKE '%rows_total'";
    assert_eq!(rows(&client, odd).await, [["0"]]);
    assert_eq!(
        rows(&client, "SELECT count(*) FROM tidemill.metrics WHERE help IS NULL OR type IS NULL").await,
        [["0"]]
    );

    // Neither options nor texts are in it.
    let text = get(&server, "/metrics?names=all");
    assert!(!text.contains("secret") && !text.to_lowercase().contains("select"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_request_is_told_so() {
    let Setting { server, .. } = start().await;
    assert_eq!(get(&server, "/health"), "ok\n");
    let large = format!("GET /metrics HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(20_000));
    for (sent, status) in [
        (&b"GET / HTTP/1.1\r\n\r\n"[..], "404 Not Found"),
        (b"GET /metrics/../metrics HTTP/1.1\r\n\r\n", "404 Not Found"),
        (b"POST /metrics HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", "405 Method Not Allowed"),
        (b"DELETE /health HTTP/1.1\r\n\r\n", "405 Method Not Allowed"),
        (b"GET /metrics HTTP/3.0\r\n\r\n", "505 HTTP Version Not Supported"),
        (b"GET /metrics\r\n\r\n", "400 Bad Request"),
        // TLS, the PostgreSQL protocol, nothing.
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "400 Bad Request"),
        (b"\0\0\0\x08\x04\xd2\x16\x2f", "400 Bad Request"),
        (b"\r\n\r\n", "400 Bad Request"),
        (b"GET \xff\xfe HTTP/1.1\r\n\r\n", "400 Bad Request"),
        (large.as_bytes(), "431 Request Header Fields Too Large"),
    ] {
        let (found, headers, body) = exchange(connect(&server), sent);
        assert_eq!(found, format!("HTTP/1.1 {status}"));
        assert!(headers.contains("Connection: close") && !body.is_empty());
    }
    let (status, headers, body) = exchange(connect(&server), b"HEAD /metrics HTTP/1.0\r\n\r\n");
    assert_eq!((status.as_str(), body.as_str()), ("HTTP/1.1 200 OK", ""));
    assert!(
        headers.contains("text/plain; version=0.0.4") && !headers.contains("Content-Length: 0"),
        "{headers}"
    );
    // Who goes in mid-sentence harms nobody.
    for part in ["", "GET /met", "GET /metrics HTTP/1.1\r\n\r\n"] {
        connect(&server).write_all(part.as_bytes()).unwrap();
    }
    parse(&get(&server, "/metrics"));
}

fn is_answered(socket: &TcpStream) -> bool {
    socket.set_nonblocking(true).unwrap();
    let peeked = socket.peek(&mut [0; 1]);
    socket.set_nonblocking(false).unwrap();
    peeked.is_ok()
}

/// Those beyond the limit wait until one goes, and who says nothing is sent away.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_are_bounded() {
    let Setting { server, client, .. } = start().await;
    let mut silent: Vec<TcpStream> = (0..CONNECTIONS_MAX).map(|_| connect(&server)).collect();
    let mut waiting = connect(&server);
    waiting.write_all(b"GET /health HTTP/1.1\r\n\r\n").unwrap();
    // Sessions are not concerned.
    assert_eq!(rows(&client, "SELECT 1").await, [["1"]]);
    // On a machine that is very slow, those that are silent have been sent away by now.
    assert!(!is_answered(&waiting) || is_answered(&silent[0]));
    silent.pop().unwrap().shutdown(Shutdown::Both).unwrap();
    let (status, ..) = exchange(waiting, b"");
    assert_eq!(status, "HTTP/1.1 200 OK");
    for mut socket in silent {
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 408 Request Timeout\r\n"), "{answer}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_it_listens_is_a_setting() {
    let dir = tempfile::tempdir().unwrap();
    let off = Server::start(&dir.path().join("off"));
    assert_eq!(off.metrics_port, None);
    assert_eq!(rows(&off.connect().await, "SHOW metrics_listen").await, [[""]]);

    let config = dir.path().join("tidemill.toml");
    let path = config.to_str().unwrap();
    std::fs::write(&config, "metrics_listen = '127.0.0.1:0'\n").unwrap();
    let on = Server::start_with(&dir.path().join("on"), &["--trust-loopback", "--config", path]);
    assert_eq!(get(&on, "/health"), "ok\n");
    assert_eq!(rows(&on.connect().await, "SHOW metrics_listen").await, [["127.0.0.1:0"]]);

    let data = dir.path().join("data");
    let taken = format!("127.0.0.1:{}", on.metrics_port.unwrap());
    for (address, message) in [
        ("9187", "command line: invalid value for parameter \"metrics_listen\": \"9187\" (Write addresses"),
        ("nowhere.invalid:9187", "\"nowhere.invalid:9187\" is not an address to listen on"),
        (
            &taken,
            "the port is taken (Is another server running there? Choose another port with --metrics-listen.)",
        ),
        ("192.0.2.1:9187", "could not listen on 192.0.2.1:9187"),
    ] {
        let said = Server::refusal(&data, &["--metrics-listen", address]);
        assert!(said.contains(message), "{said}");
    }
    std::fs::write(&config, "port = 7432\nmetrics_listen = 'here'\n").unwrap();
    let said = Server::refusal(&data, &["--config", path]);
    assert!(
        said.contains("tidemill.toml:2: invalid value for parameter \"metrics_listen\": \"here\""),
        "{said}"
    );
}
