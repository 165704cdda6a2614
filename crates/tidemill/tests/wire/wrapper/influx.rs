//! InfluxDB 1.x, when it is installed.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::Ours;
use crate::server::rows as read;
use crate::tls::make_certificates;

const START_MAX: Duration = Duration::from_secs(60);
const PROGRAM: &str = "/usr/bin/influxd";

/// A server of its own, with a database `d`.
pub struct Influx {
    process: Child,
    pub port: u16,
    dir: tempfile::TempDir,
}

fn launch(dir: &Path, port: u16, http: &str) -> Child {
    let backup = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let place = dir.display();
    let config = format!(
        "reporting-disabled = true\nbind-address = \"127.0.0.1:{backup}\"\n[meta]\ndir = \"{place}/meta\"\n\
         [data]\ndir = \"{place}/data\"\nwal-dir = \"{place}/wal\"\n[http]\nbind-address = \"127.0.0.1:{port}\"\n{http}"
    );
    let file = dir.join("influxdb.conf");
    std::fs::write(&file, config).unwrap();
    let mut run = Command::new(PROGRAM);
    run.args(["run", "-config"]).arg(&file).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

impl Influx {
    /// `None` when there is no InfluxDB here, and then says so.
    pub fn start() -> Option<Self> {
        if !std::path::Path::new(PROGRAM).exists() {
            println!("skipped: no {PROGRAM} found (apt-get install influxdb)");
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut influx = Influx { process: launch(dir.path(), port, ""), port, dir };
        influx.wait_until_up();
        influx.post("/query?q=CREATE%20DATABASE%20d", "");
        Some(influx)
    }

    fn wait_until_up(&mut self) {
        let deadline = Instant::now() + START_MAX;
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            assert_eq!(self.process.try_wait().unwrap(), None, "InfluxDB ended before it was ready");
            assert!(Instant::now() < deadline, "InfluxDB did not start in {START_MAX:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The same server with HTTPS, by the certificate of this folder.
    pub fn encrypt(&mut self, certificates: &Path) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        let file = |name: &str| certificates.join(name).display().to_string();
        let https = format!(
            "https-enabled = true\nhttps-certificate = \"{}\"\nhttps-private-key = \"{}\"\n",
            file("server.crt"),
            file("server.key")
        );
        self.process = launch(self.dir.path(), self.port, &https);
        self.wait_until_up();
    }

    fn post(&self, path: &str, body: &str) {
        let mut socket = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let length = body.len();
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: influx\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        socket.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 20"), "{answer}");
    }

    /// Lines of InfluxDB's protocol.
    pub fn write(&self, lines: &str) {
        self.post("/write?db=d&precision=ns", lines);
    }
}

impl Drop for Influx {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

async fn start() -> Option<(Ours, Influx)> {
    let node = Influx::start()?;
    let ours = Ours::start().await;
    ours.run(&format!(
        "SET timezone = 'UTC';
         CREATE SERVER s FOREIGN DATA WRAPPER influxdb_fdw OPTIONS (host 'http://127.0.0.1', port '{}', dbname 'd')",
        node.port
    ))
    .await;
    Some((ours, node))
}

const COLUMNS: &str = "time timestamp, sensor text, unit text, v float8, n bigint, ok bool, note text";

/// Points of which each has some of the fields, some of the tags, and a part of a microsecond.
async fn fill(ours: &Ours, node: &Influx) {
    let (mut lines, mut values) = (String::new(), Vec::new());
    for i in 0..300_i64 {
        let ns = 1_600_000_000_000_000_000 + i * 60_000_000_000 + i % 3 * 400;
        let sensor = (i % 5 > 0).then(|| ["a", "B", "b c", "é"][(i % 4) as usize]);
        let unit = (i % 7 > 0).then(|| ["V", "A"][(i % 2) as usize]);
        let v = (i % 4 > 0).then(|| (i * 37 % 1000) as f64 / 4.0 - 100.0);
        let n = (i % 6 > 0 || v.is_none()).then_some(if i % 50 == 1 { 9_007_199_254_740_993 } else { i % 9 });
        let ok = (i % 3 > 0).then_some(i % 2 == 0);
        let note = (i % 8 > 0).then(|| ["", "it's", "say \"a\"", "back\\slash"][(i % 4) as usize]);
        let mut tags = String::new();
        if let Some(sensor) = sensor {
            write!(tags, ",sensor={}", sensor.replace(' ', "\\ ")).unwrap();
        }
        if let Some(unit) = unit {
            write!(tags, ",unit={unit}").unwrap();
        }
        let escaped = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
        let fields: Vec<_> = [
            v.map(|v| format!("v={v:?}")),
            n.map(|n| format!("n={n}i")),
            ok.map(|ok| format!("ok={ok}")),
            note.map(|note| format!("note=\"{}\"", escaped(note))),
        ]
        .into_iter()
        .flatten()
        .collect();
        writeln!(lines, "m{tags} {} {ns}", fields.join(",")).unwrap();
        let text =
            |text: Option<&str>| text.map_or("NULL".into(), |text| format!("'{}'", text.replace('\'', "''")));
        let shown = |value: Option<String>| value.unwrap_or("NULL".into());
        values.push(format!(
            "(timestamp '1970-01-01' + {} * interval '1 microsecond', {}, {}, {}, {}, {}, {})",
            ns / 1000,
            text(sensor),
            text(unit),
            shown(v.map(|v| format!("{v:?}"))),
            shown(n.map(|n| n.to_string())),
            shown(ok.map(|ok| ok.to_string())),
            text(note),
        ));
    }
    node.write(&lines);
    ours.run(&format!("CREATE TABLE here ({COLUMNS}); INSERT INTO here VALUES {}", values.join(", "))).await;
    ours.run(&format!("CREATE FOREIGN TABLE m ({COLUMNS}) SERVER s OPTIONS (tags 'sensor, unit')")).await;
}

#[tokio::test]
async fn answers_are_those_of_a_table_of_ours() {
    let Some((ours, node)) = start().await else { return };
    fill(&ours, &node).await;
    for query in [
        "SELECT * FROM TABLE",
        "SELECT sensor FROM TABLE",
        "SELECT n FROM TABLE",
        "SELECT count(*), count(v), sum(v), avg(n), min(note), max(time) FROM TABLE",
        "SELECT sensor, count(*), max(v) FROM TABLE GROUP BY sensor",
        "SELECT unit, sensor, count(n) FROM TABLE WHERE v > 0 GROUP BY 1, 2",
        "SELECT n FROM TABLE WHERE n = 9007199254740993",
        "SELECT n FROM TABLE WHERE n = 9007199254740992",
        "SELECT count(*) FROM TABLE WHERE n <> 3",
        "SELECT count(*) FROM TABLE WHERE NOT n = 3",
        "SELECT count(*) FROM TABLE WHERE v < -0.25 OR v >= 100.5",
        "SELECT count(*) FROM TABLE WHERE v = 'NaN' OR v = 'Infinity'",
        "SELECT count(*) FROM TABLE WHERE v < 'Infinity'",
        "SELECT count(*) FROM TABLE WHERE v < 1e21",
        "SELECT count(*) FROM TABLE WHERE sensor = 'a'",
        "SELECT count(*) FROM TABLE WHERE sensor = 'b c' AND unit = 'V'",
        "SELECT count(*) FROM TABLE WHERE sensor <> 'a'",
        "SELECT count(*) FROM TABLE WHERE sensor IN ('a', 'é') OR ok",
        "SELECT count(*) FROM TABLE WHERE sensor NOT IN ('a', 'é')",
        "SELECT count(*) FROM TABLE WHERE sensor IS NULL",
        "SELECT count(*) FROM TABLE WHERE sensor = ''",
        "SELECT count(*) FROM TABLE WHERE sensor < 'b'",
        "SELECT count(*) FROM TABLE WHERE note = ''",
        "SELECT count(*) FROM TABLE WHERE note <> 'it''s'",
        "SELECT count(*) FROM TABLE WHERE note = 'it''s' OR note = 'say \"a\"'",
        "SELECT count(*) FROM TABLE WHERE note = 'back\\slash'",
        "SELECT count(*) FROM TABLE WHERE ok",
        "SELECT count(*) FROM TABLE WHERE NOT ok",
        "SELECT count(*) FROM TABLE WHERE ok IS NOT TRUE",
        "SELECT count(*) FROM TABLE WHERE ok = false AND n > 4",
        "SELECT count(*) FROM TABLE WHERE n IN (1, 2, NULL)",
        "SELECT count(*) FROM TABLE WHERE n BETWEEN 2 AND 5 AND (v > 0 OR sensor = 'a')",
        "SELECT count(*) FROM TABLE WHERE n = n",
        "SELECT count(*) FROM TABLE WHERE time < '2020-09-13 13:00' AND time >= '2020-09-13 12:30'",
        "SELECT count(*) FROM TABLE WHERE time <= '2020-09-13 12:28:40.000000'",
        "SELECT count(*) FROM TABLE WHERE time > '2020-09-13 12:28:40.000000'",
        "SELECT count(*) FROM TABLE WHERE time = '2020-09-13 12:28:40'",
        "SELECT count(*) FROM TABLE WHERE time <> '2020-09-13 12:28:40'",
        "SELECT count(*) FROM TABLE WHERE '2020-09-13 12:28:40' < time",
        "SELECT count(*) FROM TABLE WHERE time < '2020-09-13 12:30' OR n = 3",
        "SELECT count(*) FROM TABLE WHERE time > '0044-03-15 BC'",
        "SELECT count(*) FROM (SELECT 1 FROM TABLE LIMIT 17) AS some",
        "SELECT count(*) FROM (SELECT 1 FROM TABLE WHERE n > 2 LIMIT 17 OFFSET 3) AS some",
        "SELECT * FROM (SELECT * FROM TABLE ORDER BY time DESC LIMIT 3) AS last",
    ] {
        let here = ours.answer(&query.replace("TABLE", "here")).await;
        assert!(here.is_ok(), "{query}");
        assert_eq!(ours.answer(&query.replace("TABLE", "m")).await, here, "{query}");
    }
    for (query, sql) in [
        (
            "SELECT v FROM m WHERE sensor = 'a' AND v > 1.5 LIMIT 3",
            r#"SELECT * FROM "m" WHERE ("sensor" = 'a') AND ("v" > 1.5) LIMIT 3"#,
        ),
        (
            "SELECT v FROM m WHERE time >= '2020-01-01' AND n <> 3",
            r#"SELECT * FROM "m" WHERE (time >= 1577836800000000000) AND ("n" <> 3)"#,
        ),
        (
            "SELECT v FROM m WHERE sensor IN ('a', 'b') OR ok",
            r#"SELECT * FROM "m" WHERE ((("sensor" = 'a') OR ("sensor" = 'b')) OR ("ok" = true))"#,
        ),
        // A tag that is not there is an empty text there; the time is a condition on all.
        ("SELECT v FROM m WHERE sensor <> 'a'", r#"SELECT * FROM "m""#),
        ("SELECT v FROM m WHERE time < '2020-01-01' OR n = 3", r#"SELECT * FROM "m""#),
        ("SELECT v FROM m WHERE NOT ok", r#"SELECT * FROM "m""#),
        ("SELECT sensor, sum(v) FROM m GROUP BY sensor", r#"SELECT * FROM "m""#),
    ] {
        assert_eq!(ours.asked(query).await, sql, "{query}");
    }
}

#[tokio::test]
async fn measurements_are_imported() {
    let Some((ours, node)) = start().await else { return };
    node.write(
        "one,t=a x=1.5,s=\"x\" 1000000000000000000\none y=2i,b=true 1600000000500000001\n\"Two\",u=b z=1 1",
    );
    ours.run("IMPORT FOREIGN SCHEMA public FROM SERVER s INTO public").await;
    let columns = "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute
                   WHERE attrelid = 'one'::regclass ORDER BY attnum";
    let wanted = [
        ["time", "timestamp with time zone"],
        ["t", "text"],
        ["b", "boolean"],
        ["s", "text"],
        ["x", "double precision"],
        ["y", "bigint"],
    ];
    assert_eq!(read(&ours.client, columns).await, wanted);
    let wanted = [
        ["2001-09-09 01:46:40+00", "a", "NULL", "x", "1.5", "NULL"],
        ["2020-09-13 12:26:40.5+00", "NULL", "t", "NULL", "NULL", "2"],
    ];
    assert_eq!(read(&ours.client, "SELECT * FROM one ORDER BY time").await, wanted);
    ours.run("CREATE FOREIGN TABLE texts (time_text text, x float8) SERVER s OPTIONS (\"table\" 'one')")
        .await;
    assert_eq!(
        read(&ours.client, "SELECT time_text FROM texts WHERE x IS NULL").await,
        [["2020-09-13T12:26:40.500000001Z"]]
    );
}

#[tokio::test]
async fn what_is_wrong_is_told() {
    let Some((ours, node)) = start().await else { return };
    node.write("m,t=a v=1.5,n=70000i 1");
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let garbage = TcpListener::bind("127.0.0.1:0").unwrap();
    let other = garbage.local_addr().unwrap().port();
    std::thread::spawn(move || {
        while let Ok((mut socket, _)) = garbage.accept() {
            drop(socket.write_all(b"220 mail.example.com ESMTP\r\n"));
        }
    });
    // What may be a password is shown nowhere.
    for statement in [
        "CREATE SERVER x FOREIGN DATA WRAPPER influxdb_fdw OPTIONS (host 'http://ann:hush@127.0.0.1', dbname 'd')",
        "ALTER SERVER s OPTIONS (SET host 'ann:hush@127.0.0.1')",
    ] {
        let error = ours.client.simple_query(statement).await.unwrap_err();
        assert_eq!(error.code().map(|code| code.code()), Some("22023"), "{error:?}");
        assert!(!format!("{error:?}").contains("hush"), "{error:?}");
    }
    ours.run(&format!(
        "CREATE SERVER no_port FOREIGN DATA WRAPPER influxdb_fdw OPTIONS (host '127.0.0.1', port '{free}', dbname 'd');
         CREATE SERVER mail FOREIGN DATA WRAPPER influxdb_fdw OPTIONS (host '127.0.0.1', port '{other}', dbname 'd');
         CREATE SERVER no_db FOREIGN DATA WRAPPER influxdb_fdw OPTIONS (host '127.0.0.1', port '{}', dbname 'nope');
         CREATE FOREIGN TABLE of_no_port (v float8) SERVER no_port;
         CREATE FOREIGN TABLE of_mail (v float8) SERVER mail;
         CREATE FOREIGN TABLE of_no_db (v float8) SERVER no_db;
         CREATE FOREIGN TABLE nothing (v float8) SERVER s;
         CREATE FOREIGN TABLE no_field (w float8) SERVER s OPTIONS (\"table\" 'm');
         CREATE FOREIGN TABLE no_tag (v float8) SERVER s OPTIONS (\"table\" 'm', tags 't, v');
         CREATE FOREIGN TABLE other_type (v int) SERVER s OPTIONS (\"table\" 'm');
         CREATE FOREIGN TABLE narrow (n smallint) SERVER s OPTIONS (\"table\" 'm')",
        node.port
    ))
    .await;
    for (query, state, message) in [
        ("SELECT * FROM of_no_port", "08001", "could not connect to server \"no_port\""),
        ("SELECT * FROM of_mail", "08001", "could not connect to server \"mail\""),
        ("SELECT * FROM of_no_db", "08001", "server \"no_db\": database not found: nope"),
        (
            "SELECT * FROM nothing",
            "42P01",
            "foreign table \"nothing\" does not fit server \"s\": measurement \"nothing\" does not exist",
        ),
        (
            "SELECT * FROM no_field",
            "42703",
            "foreign table \"no_field\" does not fit server \"s\": measurement \"m\" has no tag or field \"w\"",
        ),
        ("SELECT * FROM no_tag", "42703", "measurement \"m\" has no tag \"v\""),
        (
            "SELECT count(*) FROM other_type WHERE v = 1",
            "HV004",
            "column \"v\" of foreign table \"other_type\" is of type integer, but column \"v\" of \"m\" on server \"s\" is of type float",
        ),
        ("SELECT * FROM narrow", "22003", "value \"70000\" is out of range for type smallint"),
        (
            "CREATE SERVER x FOREIGN DATA WRAPPER influxdb_fdw OPTIONS (version '2')",
            "HV00D",
            "invalid option \"version\"",
        ),
        (
            "CREATE FOREIGN TABLE x (v int) SERVER s OPTIONS (schemaless 'true')",
            "22023",
            "invalid value for option \"schemaless\"",
        ),
    ] {
        ours.check_failure(query, state, message).await;
    }
}

#[tokio::test]
async fn what_is_written_is_there() {
    let Some((ours, node)) = start().await else { return };
    let table = |name: &str, tags: &str| {
        format!("CREATE FOREIGN TABLE {name} ({COLUMNS}) SERVER s OPTIONS (\"table\" 'w x', tags '{tags}')")
    };
    ours.run(&table("w", "sensor, unit")).await;
    ours.run(&format!("CREATE TABLE here ({COLUMNS})")).await;
    for insert in [
        r#"INSERT INTO TABLE VALUES ('2020-01-01', 'a,b=c d', NULL, 1.5, 9007199254740993, true, E'say "x" \\ y\nz'),
            ('2020-01-01 00:00:01.000001', NULL, 'V', -0.25, NULL, false, ''), ('1960-01-01', 'é', 'V', 1e300, -7, NULL, NULL)"#,
        "INSERT INTO TABLE (v, time) SELECT x, timestamp '2021-01-01' + x * interval '1 second' FROM generate_series(1, 20000) AS x",
        "BEGIN; INSERT INTO TABLE (time, n) VALUES ('2022-01-01', 1); ROLLBACK",
        "BEGIN; INSERT INTO TABLE (time, n) VALUES ('2022-01-02', 2); COMMIT",
    ] {
        for name in ["w", "here"] {
            ours.run(&insert.replace("TABLE", name)).await;
        }
    }
    let all = "SELECT * FROM TABLE ORDER BY time";
    let there = read(&ours.client, &all.replace("TABLE", "w")).await;
    assert_eq!(there, read(&ours.client, &all.replace("TABLE", "here")).await);
    ours.run("CREATE FOREIGN TABLE wrong (time timestamp, v bigint) SERVER s OPTIONS (\"table\" 'w x')")
        .await;
    for (sql, state, message) in [
        ("INSERT INTO w (sensor) VALUES ('a')", "23502", "has no field that is not null"),
        ("INSERT INTO w (v) VALUES ('NaN')", "22003", "InfluxDB has no such number"),
        ("INSERT INTO w (v, sensor) VALUES (1, '')", "22003", "a tag that is empty"),
        (
            "INSERT INTO wrong VALUES ('2020-01-01', 5)",
            "HV000",
            "server \"s\": partial write: field type conflict",
        ),
        ("UPDATE w SET v = 1 WHERE n = 2", "0A000", "of this kind of server are only added"),
        ("DELETE FROM w", "0A000", "of this kind of server are only added"),
        ("INSERT INTO w (v) VALUES (1) RETURNING v", "0A000", "RETURNING is not supported"),
    ] {
        ours.check_failure(sql, state, message).await;
    }
    let state = "SELECT state FROM tidemill.nodes WHERE server = 's'";
    ours.until(state, "up").await;
    drop(node);
    ours.until(state, "down").await;
    ours.check_failure("SELECT * FROM w", "08001", "could not connect to server \"s\"").await;
}

#[tokio::test]
async fn https_verifies_the_certificate() {
    let Some((ours, mut node)) = start().await else { return };
    node.write("m v=1.5 1");
    let dir = tempfile::tempdir().unwrap();
    if !make_certificates(dir.path()) {
        println!("skipped: no certificates could be made (install openssl)");
        return;
    }
    node.encrypt(dir.path());
    let root = |name: &str| format!("sslrootcert '{}'", dir.path().join(name).display());
    for (host, options, state) in [
        ("https://localhost", root("ca.crt"), ""),
        ("https://127.0.0.1", format!("sslmode 'verify-ca', {}", root("ca.crt")), ""),
        ("https://127.0.0.1", "sslmode 'require'".to_string(), ""),
        ("https://127.0.0.1", root("ca.crt"), "08001"),
        ("https://localhost", root("other.crt"), "08001"),
        ("https://localhost", "connect_timeout '5'".to_string(), "22023"),
        ("http://localhost", "connect_timeout '5'".to_string(), "HV000"),
    ] {
        ours.run(&format!(
            "DROP SERVER IF EXISTS safe CASCADE;
             CREATE SERVER safe FOREIGN DATA WRAPPER influxdb_fdw OPTIONS (host '{host}', port '{}', dbname 'd', {options});
             CREATE FOREIGN TABLE m (v float8) SERVER safe",
            node.port
        ))
        .await;
        match state {
            "" => assert_eq!(read(&ours.client, "SELECT v FROM m").await, [["1.5"]], "{host} {options}"),
            state => ours.check_failure("SELECT v FROM m", state, "").await,
        }
    }
}
