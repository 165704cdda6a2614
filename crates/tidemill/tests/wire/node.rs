//! Nodes that die: one clear error or a warning, in time, and used again as soon as they are back.

use std::time::{Duration, Instant};

use tokio_postgres::Client;

use crate::client::{Answer, Client as Wire};
use crate::postgres::Postgres;
use crate::proxy::{Mode, Proxy};
use crate::server::{Server, failure, rows};

/// In which a test that goes well is over many times.
const PATIENCE: Duration = Duration::from_secs(60);

/// Four nodes in one PostgreSQL, the third behind a proxy, and a table over them with 100 rows on each.
struct Setting {
    _node: Postgres,
    remote: Client,
    proxy: Proxy,
    server: Server,
    client: Client,
    _dir: tempfile::TempDir,
}

async fn start() -> Option<Setting> {
    let node = Postgres::start()?;
    let remote = node.connect("postgres").await;
    let proxy = Proxy::start(node.port).await;
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("tidemill.toml");
    std::fs::write(&config, "node_check_interval = '100ms'\nnode_check_timeout = '1s'\n").unwrap();
    let data = dir.path().join("data");
    let server = Server::start_with(&data, &["--trust-loopback", "--config", config.to_str().unwrap()]);
    let client = server.connect().await;
    for i in 1..=4 {
        let port = if i == 3 { proxy.port } else { node.port };
        let there = format!(
            "CREATE SCHEMA n{i};
             CREATE TABLE n{i}.m AS SELECT x AS id, x * 0.5::float8 AS v FROM generate_series({i}, 400, 4) AS x;
             CREATE VIEW n{i}.slow AS SELECT id, v FROM n{i}.m WHERE pg_sleep(CASE WHEN {i} = 3 THEN 0.05 ELSE 0 END) IS NOT NULL;
             CREATE VIEW n{i}.many AS SELECT m.id, g * 0.5::float8 AS v FROM n{i}.m, generate_series(1, 20000) AS g"
        );
        remote.batch_execute(&there).await.unwrap();
        let here = format!(
            "CREATE SERVER n{i} FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '127.0.0.1', port '{port}', dbname 'postgres', connect_timeout '30');
             CREATE USER MAPPING FOR PUBLIC SERVER n{i}"
        );
        client.batch_execute(&here).await.unwrap();
    }
    for name in ["m", "slow", "many"] {
        let create = format!(
            "CREATE MULTI TENANT TABLE {name} (id int, v float8)
                 CHILDREN (n1.n1.{name}, n2.n2.{name}, n3.n3.{name}, n4.n4.{name})"
        );
        client.batch_execute(&create).await.unwrap();
    }
    let setting = Setting { _node: node, remote, proxy, server, client, _dir: dir };
    setting.until_state("up").await;
    Some(setting)
}

impl Setting {
    /// Waits until the node behind the proxy is in a state.
    async fn until_state(&self, state: &str) {
        let states = "SELECT state FROM tidemill.nodes WHERE server = 'n3'";
        until(&self.client, states, state).await;
    }

    fn wire(&self) -> Wire {
        let mut wire = Wire::connect(self.server.port, "tidemill");
        wire.query("SET on_dead_node = skip");
        wire
    }
}

/// Waits for an answer.
pub async fn until(client: &Client, query: &str, wanted: &str) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let found = rows(client, query).await;
        if found == [[wanted]] {
            return;
        }
        assert!(Instant::now() < deadline, "{query} is {found:?} and does not become {wanted}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn value(answer: &Answer) -> &str {
    assert_eq!(answer.error, None);
    answer.rows[0][0].as_deref().unwrap()
}

fn warning(answer: &Answer) -> String {
    let [warning] = answer.notices.as_slice() else { panic!("one warning: {answer:?}") };
    assert_eq!((warning.get('S'), warning.get('C')), ("WARNING", "01000"));
    format!("{}; {}", warning.get('M'), warning.get('D'))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_node_is_an_error_or_a_warning_until_it_is_back() {
    let Some(setting) = start().await else { return };
    let Setting { client, proxy, .. } = &setting;
    let mut wire = setting.wire();
    for fault in [Mode::Refuse, Mode::Hang, Mode::HalfOpen] {
        proxy.set(fault);
        setting.until_state("down").await;
        let (code, message) = failure(client, "SELECT count(*) FROM m").await;
        assert!(code == "08001" && message.contains("\"n3\""), "{fault:?}: {code} {message}");
        let why = &rows(client, "SELECT error FROM tidemill.nodes WHERE server = 'n3'").await[0][0];
        assert!(why.contains(&format!("at \"127.0.0.1\", port {}", proxy.port)), "{fault:?}: {why}");
        // Also where the others have enough.
        let (code, message) = failure(client, "SELECT id FROM m LIMIT 3").await;
        assert!(code == "08001" && message.contains("\"n3\""), "{fault:?}: {code} {message}");
        let answer = wire.query("SELECT id FROM m LIMIT 3");
        assert_eq!((answer.rows.len(), answer.notices.len()), (3, 1), "{fault:?}: {answer:?}");
        // The others are not harmed.
        assert_eq!(rows(client, "SELECT count(*) FROM m IN ('/n1/', '/n4/')").await, [["200"]]);
        assert_eq!(rows(client, "SELECT sum(id) FROM m WHERE __spd_url = '/n2/'").await, [["20000"]]);
        for query in
            ["SELECT count(*) FROM m", "SELECT count(*) FROM (SELECT * FROM m ORDER BY v LIMIT 301) x"]
        {
            let answer = wire.query(query);
            assert_eq!(value(&answer), "300");
            let warning = warning(&answer);
            assert!(
                warning.starts_with("node of table \"m\" missing from the answer: /n3/; /n3/: "),
                "{warning}"
            );
            let answer = wire.extended(query);
            assert_eq!((value(&answer), answer.notices.len()), ("300", 1));
        }
        let report = wire.query("SELECT node, state, rows FROM tidemill.last_query_nodes ORDER BY node");
        let states: Vec<_> = report.rows.iter().map(|row| row[1].as_deref().unwrap()).collect();
        assert_eq!(states, ["complete", "complete", "skipped", "complete"], "{report:?}");
        // Whoever asks for the dead node alone gets no answer.
        let error = wire.query("SELECT count(*) FROM m IN ('/n3/')").error.unwrap();
        assert_eq!(
            (error.get('C'), error.get('H')),
            ("08001", "No node of table \"m\" that is asked is there.")
        );
        proxy.set(Mode::Pass);
        setting.until_state("up").await;
        let answer = wire.query("SELECT count(*) FROM m");
        let notices: Vec<_> = answer.notices.iter().map(|notice| notice.get('M')).collect();
        assert_eq!((value(&answer), &notices[..]), ("400", &["server \"n3\" is back"][..]), "{fault:?}");
        assert_eq!(rows(client, "SELECT count(*) FROM m").await, [["400"]]);
    }
}

/// Long before the connection would say so itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_dies_in_mid_query_is_noticed() {
    let Some(setting) = start().await else { return };
    let Setting { remote, proxy, server, client, .. } = &setting;
    let active = "SELECT count(*) > 0 FROM pg_stat_activity WHERE query LIKE '%COPY (%n3\".\"slow%' AND state = 'active' AND application_name = 'tidemill'";
    let left =
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'tidemill' AND state <> 'idle'";
    for fault in [Mode::Refuse, Mode::Hang, Mode::HalfOpen] {
        until(remote, left, "0").await;
        let asking = server.connect().await;
        let asked = tokio::spawn(async move { failure(&asking, "SELECT sum(v) FROM slow").await });
        until(remote, active, "t").await;
        // The answer has begun, too.
        tokio::time::sleep(Duration::from_millis(50)).await;
        proxy.set(fault);
        let (code, message) = tokio::time::timeout(PATIENCE, asked).await.unwrap().unwrap();
        assert_eq!((code.as_str(), message.as_str()), ("08006", "lost the connection to server \"n3\""));
        proxy.set(Mode::Pass);
        setting.until_state("up").await;
        until(remote, left, "0").await;
        let mut wire = setting.wire();
        let asked = tokio::task::spawn_blocking(move || wire.query("SELECT count(*) FROM slow"));
        until(remote, active, "t").await;
        proxy.set(fault);
        let answer = tokio::time::timeout(PATIENCE, asked).await.unwrap().unwrap();
        assert_eq!(value(&answer), "300");
        assert!(warning(&answer).contains("/n3/"));
        proxy.set(Mode::Pass);
        setting.until_state("up").await;
    }
    // Nothing is left behind: of each server one connection of the probe, and what is kept for the next query.
    until(remote, left, "0").await;
    let open = "SELECT max(connections) < 10 FROM tidemill.nodes";
    until(client, open, "t").await;
}

/// What had come before is told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reset_in_mid_result_is_told_with_what_had_come() {
    let Some(setting) = start().await else { return };
    let Setting { client, proxy, .. } = &setting;
    let query = "SELECT count(v) FROM many";
    proxy.set(Mode::ResetAfter(20_000_000));
    let (code, message) = failure(client, &format!("SET enable_foreign_aggregates = off; {query}")).await;
    assert!(code.starts_with("08") && message.contains("\"n3\""), "{code} {message}");
    let mut wire = setting.wire();
    proxy.set(Mode::Pass);
    setting.until_state("up").await;
    proxy.set(Mode::ResetAfter(20_000_000));
    wire.query("SET enable_foreign_aggregates = off");
    let answer = wire.query(query);
    let count: u64 = value(&answer).parse().unwrap();
    assert!((6_000_000..8_000_000).contains(&count), "{count}");
    let warning = warning(&answer);
    assert!(warning.contains("/n3/") && warning.contains("rows had come before"), "{warning}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn how_many_may_be_missing_is_bounded() {
    let Some(setting) = start().await else { return };
    let Setting { client, proxy, .. } = &setting;
    proxy.set(Mode::Refuse);
    setting.until_state("down").await;
    let mut wire = setting.wire();
    let count = "SELECT count(*) FROM m";
    for (max, is_enough) in [("0", false), ("0.2", false), ("0.25", true), ("1", true)] {
        wire.query(&format!("SET max_skipped_nodes = {max}"));
        let answer = wire.query(count);
        match answer.error {
            Some(error) => {
                assert!(!is_enough);
                assert_eq!(error.get('M'), "too many nodes of table \"m\" are not there: /n3/");
            }
            None => assert!(is_enough, "{max}"),
        }
    }
    // Whoever makes the table decides.
    let alter = |options: &str| format!("ALTER FOREIGN TABLE m OPTIONS ({options})");
    client.batch_execute(&alter("ADD on_dead_node 'error'")).await.unwrap();
    assert_eq!(wire.query(count).error.unwrap().get('C'), "08001");
    client.batch_execute(&alter("SET on_dead_node 'skip', ADD max_skipped_nodes '0'")).await.unwrap();
    assert!(failure(client, count).await.1.starts_with("too many nodes"));
    client.batch_execute(&alter("DROP max_skipped_nodes")).await.unwrap();
    assert_eq!(rows(client, count).await, [["300"]]);
    client.batch_execute(&alter("DROP on_dead_node")).await.unwrap();
    // PGSpider's name of the setting.
    client.batch_execute("SET pgspider_core_fdw.throw_error_ifdead = off").await.unwrap();
    assert_eq!(rows(client, "SHOW on_dead_node").await, [["skip"]]);
    assert_eq!(rows(client, count).await, [["300"]]);
}

/// A node that takes its time is waited for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_node_is_not_a_dead_one() {
    let Some(setting) = start().await else { return };
    let Setting { client, proxy, .. } = &setting;
    proxy.set(Mode::Delay(Duration::from_millis(600)));
    setting.until_state("slow").await;
    assert_eq!(rows(client, "SELECT count(*) FROM m").await, [["400"]]);
}
