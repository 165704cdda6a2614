//! A Tidemill whose nodes are Tidemills with nodes.

use tokio_postgres::Client;

use crate::client::Client as Wire;
use crate::node::until;
use crate::postgres::Postgres;
use crate::server::{Server, failure, rows};

#[tokio::test]
async fn nodes_of_nodes_are_read_and_chosen() {
    read_and_chosen("tidemill_fdw", FOUND_BY_NAME).await;
}

#[tokio::test]
async fn a_named_child_has_nodes_if_it_says_so() {
    read_and_chosen("tidemill_fdw", NAMED).await;
}

/// A Tidemill is found out by what it says of itself.
#[tokio::test]
async fn a_tidemill_is_one_behind_wrappers_of_postgresql() {
    read_and_chosen("pgspider_fdw", FOUND_BY_NAME).await;
    read_and_chosen("postgres_fdw", NAMED).await;
}

const FOUND_BY_NAME: &str = "
    CREATE SERVER parent FOREIGN DATA WRAPPER pgspider_core_fdw;
    CREATE FOREIGN TABLE m (id int, name text, v float8, __spd_url text) SERVER parent;
    CREATE FOREIGN TABLE m__n3__0 (id int, name text, v float8) SERVER n3 OPTIONS (schema_name 'n3', table_name 'm')";
const NAMED: &str = "CREATE MULTI TENANT TABLE m (id int, name text, v float8) CHILDREN (west.m OPTIONS (multi_tenant 'on'), n3.n3.m)";

async fn read_and_chosen(wrapper: &str, parent: &str) {
    let Some(node) = Postgres::start() else { return };
    let remote = node.connect("postgres").await;
    let dir = tempfile::tempdir().unwrap();
    let (lower, upper) = (Server::start(&dir.path().join("lower")), Server::start(&dir.path().join("upper")));
    let (below, client) = (lower.connect().await, upper.connect().await);
    for i in 1..=3 {
        let there = format!(
            "CREATE SCHEMA n{i}; CREATE TABLE n{i}.m AS SELECT x AS id, 'name ' || x % 4 AS name, x * 0.5::float8 AS v
             FROM generate_series({i}, 300, 3) AS x"
        );
        remote.batch_execute(&there).await.unwrap();
        let here = format!(
            "CREATE SERVER n{i} FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '127.0.0.1', port '{}', dbname 'postgres');
             CREATE USER MAPPING FOR PUBLIC SERVER n{i}",
            node.port
        );
        if i == 3 { &client } else { &below }.batch_execute(&here).await.unwrap();
    }
    below
        .batch_execute(
            "CREATE MULTI TENANT TABLE m (id int, name text, v float8) CHILDREN (n1.n1.m, n2.n2.m)",
        )
        .await
        .unwrap();
    let create = format!(
        "CREATE SERVER west FOREIGN DATA WRAPPER {wrapper} OPTIONS (host '127.0.0.1', port '{}', dbname 'tidemill');
         CREATE USER MAPPING FOR PUBLIC SERVER west;
         CREATE FOREIGN TABLE m__west__0 (id int, name text, v float8, __spd_url text) SERVER west OPTIONS (table_name 'm');
         {parent}",
        lower.port
    );
    client.batch_execute(&create).await.unwrap();
    for (query, wanted) in [
        ("SELECT count(*), sum(id), avg(v) FROM m", vec![vec!["300", "45150", "75.25"]]),
        (
            "SELECT __spd_url, count(*), min(name) FROM m GROUP BY __spd_url ORDER BY 1",
            vec![
                vec!["/n3/", "100", "name 0"],
                vec!["/west/n1/", "100", "name 0"],
                vec!["/west/n2/", "100", "name 0"],
            ],
        ),
        (
            "SELECT id, __spd_url FROM m WHERE id < 4 ORDER BY id",
            vec![vec!["1", "/west/n1/"], vec!["2", "/west/n2/"], vec!["3", "/n3/"]],
        ),
        ("SELECT count(*) FROM m IN ('/west/n2/')", vec![vec!["100"]]),
        ("SELECT count(*) FROM m IN ('/west/')", vec![vec!["200"]]),
        ("SELECT count(*) FROM m IN ('/west/n1/', '/n3/') WHERE name >= 'name 2'", vec![vec!["100"]]),
        ("SELECT count(*) FROM m WHERE __spd_url = '/west/n1/'", vec![vec!["100"]]),
        (
            "SELECT name, count(*) FROM m GROUP BY name HAVING count(*) > 1 ORDER BY name DESC LIMIT 1",
            vec![vec!["name 3", "75"]],
        ),
        ("SELECT count(*) FROM m AS a JOIN m AS b ON a.id = b.id + 1", vec![vec!["299"]]),
        ("SELECT count(*) FROM m WHERE id > (SELECT avg(id) FROM m)", vec![vec!["150"]]),
        ("SELECT count(*) FROM (SELECT * FROM m WHERE id > 5 LIMIT 200 OFFSET 100) AS x", vec![vec!["195"]]),
        ("SELECT count(*) FROM m__west__0", vec![vec!["200"]]),
        ("SELECT id FROM m ORDER BY v DESC LIMIT 2", vec![vec!["300"], vec!["299"]]),
    ] {
        assert_eq!(rows(&client, query).await, wanted, "{query}");
    }
    let (code, message) = failure(&client, "SELECT * FROM m IN ('/west/nope/')").await;
    assert!(code == "42704" && message.contains("no node \"/nope/\""), "{code} {message}");
    let (code, message) = failure(&client, "SELECT * FROM m IN ('/east/n1/')").await;
    assert!(code == "42704" && message.contains("no node \"/east/n1/\""), "{code} {message}");
    client.batch_execute("SET enable_foreign_aggregates = off").await.unwrap();
    assert_eq!(rows(&client, "SELECT count(*) FROM m").await, [["300"]]);
    client.batch_execute("RESET enable_foreign_aggregates").await.unwrap();
    // All nodes fold, those of this server and those below.
    let by_node = "EXPLAIN SELECT __spd_url, count(*), sum(id) FROM m GROUP BY __spd_url";
    let plan = rows(&client, by_node).await.concat();
    assert!(!plan.iter().any(|line| line.contains("Partial")), "{plan:#?}");
    // Rows that come to the lower one are dealt out there.
    client.batch_execute("INSERT INTO m (id) SELECT generate_series(1001, 1008)").await.unwrap();
    let counts =
        "SELECT (SELECT count(*) FROM n1.m), (SELECT count(*) FROM n2.m), (SELECT count(*) FROM n3.m)";
    assert_eq!(rows(&remote, counts).await, [["102", "102", "104"]]);
    client.batch_execute("INSERT INTO m IN ('/west/n2/') (id) VALUES (900), (901)").await.unwrap();
    // A row may name a node of a node; the others are dealt out as ever.
    let named = "INSERT INTO m (id, __spd_url) VALUES (910, '/west/n1/'), (911, '/n3/'), (912, '/west/'), (913, '/west/n2/'), (914, '/west/n2/')";
    client.batch_execute(named).await.unwrap();
    client.batch_execute("INSERT INTO m__west__0 (id, __spd_url) VALUES (915, '/n1/')").await.unwrap();
    let placed = "SELECT id, __spd_url FROM m WHERE id BETWEEN 910 AND 915 AND id <> 912 ORDER BY id";
    let wanted = [
        ["910", "/west/n1/"],
        ["911", "/n3/"],
        ["913", "/west/n2/"],
        ["914", "/west/n2/"],
        ["915", "/west/n1/"],
    ];
    assert_eq!(rows(&client, placed).await, wanted);
    let of_west = "SELECT count(*) FROM m WHERE id = 912 AND __spd_url LIKE '/west/%'";
    assert_eq!(rows(&client, of_west).await, [["1"]]);
    for (node, told) in
        [("/west/nope/", "/nope/"), ("/n3/n1/", "/n3/n1/"), ("/westward/n1/", "/westward/n1/")]
    {
        let insert = format!("INSERT INTO m (id, __spd_url) VALUES (1, '/n3/'), (1, '{node}')");
        let (code, message) = failure(&client, &insert).await;
        assert!(code == "42704" && message.contains(&format!("no node \"{told}\"")), "{code} {message}");
    }
    // What comes back calls the nodes as what is read does: the table there by its own name has them as they are there.
    for (table, id, node) in [
        ("m__west__0", 910, "/n1/"),
        ("m", 910, "/west/n1/"),
        ("m", 911, "/n3/"),
        ("m__west__0", 913, "/n2/"),
    ] {
        for statement in ["SELECT __spd_url FROM TABLE WHERE", "UPDATE TABLE SET v = 1 WHERE"] {
            let statement = statement.replace("TABLE", table);
            let end = if statement.starts_with("UPDATE") { " RETURNING __spd_url" } else { "" };
            assert_eq!(rows(&client, &format!("{statement} id = {id}{end}")).await, [[node]], "{statement}");
        }
    }
    let inserted = "INSERT INTO m__west__0 (id, __spd_url) VALUES (916, '/n2/') RETURNING __spd_url, id";
    assert_eq!(rows(&client, inserted).await, [["/n2/", "916"]]);
    let deleted = "DELETE FROM m__west__0 WHERE id = 916 RETURNING __spd_url";
    assert_eq!(rows(&client, deleted).await, [["/n2/"]]);
    assert_eq!(rows(&client, "DELETE FROM m WHERE id BETWEEN 910 AND 915 RETURNING 1").await.len(), 6);
    assert_eq!(rows(&remote, "SELECT count(*) FROM n2.m WHERE id >= 900").await, [["4"]]);
    assert_eq!(client.execute("DELETE FROM m WHERE id IN (900, 901)", &[]).await.unwrap(), 2);
    assert_eq!(client.execute("UPDATE m SET name = 'new' WHERE id > 1000", &[]).await.unwrap(), 8);
    assert_eq!(client.execute("DELETE FROM m IN ('/west/n1/') WHERE id > 1000", &[]).await.unwrap(), 2);
    assert_eq!(rows(&client, "SELECT count(*) FROM m WHERE name = 'new'").await, [["6"]]);
}

/// Two servers: `a` has a table of its own, and each has the other as a server.
async fn pair(dir: &std::path::Path, wrapper: &str) -> (Server, Server, Client, Client) {
    let (a, b) = (Server::start(&dir.join("a")), Server::start(&dir.join("b")));
    let (of_a, of_b) = (a.connect().await, b.connect().await);
    for (client, name, port) in [(&of_a, "b", b.port), (&of_b, "a", a.port)] {
        let create = format!(
            "CREATE SERVER {name} FOREIGN DATA WRAPPER {wrapper} OPTIONS (host '127.0.0.1', port '{port}', dbname 'tidemill');
             CREATE USER MAPPING FOR PUBLIC SERVER {name};
             CREATE SERVER parent FOREIGN DATA WRAPPER pgspider_core_fdw;
             CREATE FOREIGN TABLE m (id int, __spd_url text) SERVER parent;
             CREATE FOREIGN TABLE m__{name}__0 (id int, __spd_url text) SERVER {name} OPTIONS (table_name 'm')"
        );
        client.batch_execute(&create).await.unwrap();
    }
    of_a.batch_execute("CREATE TABLE own (id int); INSERT INTO own VALUES (1), (2)").await.unwrap();
    (a, b, of_a, of_b)
}

#[tokio::test]
async fn a_circle_of_servers_is_told() {
    for wrapper in ["tidemill_fdw", "pgspider_fdw", "postgres_fdw"] {
        told_of_circle(wrapper).await;
    }
}

async fn told_of_circle(wrapper: &str) {
    let dir = tempfile::tempdir().unwrap();
    let (_a, _b, of_a, of_b) = pair(dir.path(), wrapper).await;
    for statement in [
        "SELECT count(*) FROM m",
        "SELECT * FROM m WHERE id = 5",
        "INSERT INTO m (id) VALUES (1)",
        "UPDATE m SET id = 2 WHERE id = 1",
        "DELETE FROM m",
        "BEGIN; INSERT INTO m (id) VALUES (1)",
    ] {
        let (code, message) = failure(&of_a, statement).await;
        let circle = "in a circle: \"b\" → \"a\" → \"b\"";
        assert!(code == "42P17" && message.contains(circle), "{statement}: {code} {message}");
        of_a.batch_execute("ROLLBACK").await.unwrap();
    }
    // It is none to come back for another table.
    of_b.batch_execute(
        "DROP FOREIGN TABLE m__a__0; CREATE FOREIGN TABLE m__a__0 (id int) SERVER a OPTIONS (table_name 'own')",
    )
    .await
    .unwrap();
    assert_eq!(
        rows(&of_a, "SELECT id, __spd_url FROM m ORDER BY id").await,
        [["1", "/b/a/"], ["2", "/b/a/"]]
    );
    of_a.batch_execute("INSERT INTO m (id) VALUES (3)").await.unwrap();
    assert_eq!(rows(&of_a, "SELECT count(*) FROM own").await, [["3"]]);
}

/// A condition on the node is the lower server's in its own words, and leaves that server out if none of its nodes is meant.
#[tokio::test]
async fn conditions_on_nodes_leave_servers_out() {
    let dir = tempfile::tempdir().unwrap();
    let (_a, _b, of_a, of_b) = pair(dir.path(), "tidemill_fdw").await;
    of_b.batch_execute(
        "DROP FOREIGN TABLE m__a__0; CREATE FOREIGN TABLE m__a__0 (id int) SERVER a OPTIONS (table_name 'own')",
    )
    .await
    .unwrap();
    of_a.batch_execute(
        "CREATE SERVER gone FOREIGN DATA WRAPPER tidemill_fdw OPTIONS (host '127.0.0.1', port '1', dbname 'tidemill');
         CREATE USER MAPPING FOR PUBLIC SERVER gone;
         CREATE FOREIGN TABLE m__gone__0 (id int, __spd_url text) SERVER gone OPTIONS (table_name 'm')",
    )
    .await
    .unwrap();
    for (condition, count, told) in [
        ("__spd_url = '/b/a/'", "2", r#"("__spd_url" = '/a/'::text)"#),
        ("'/b/a/' = __spd_url AND id > 1", "1", r#"("__spd_url" = '/a/'::text)"#),
        ("__spd_url IN ('/b/a/', '/b/c/', '/b/d/', '/b/e/')", "2", "'/c/'"),
        ("__spd_url LIKE '/b/%'", "2", r#"("__spd_url" LIKE '/%'::text)"#),
        ("__spd_url = '/b/a/' OR (__spd_url = '/b/c/' AND id = 9)", "2", r#"("__spd_url" = '/a/'::text)"#),
        ("__spd_url = '/b/nope/'", "0", "'/nope/'"),
        ("NOT (__spd_url = '/gone/x/' OR __spd_url <> '/b/a/')", "2", r#"("__spd_url" = '/a/'::text)"#),
    ] {
        let query = format!("SELECT count(*) FROM m WHERE {condition}");
        assert_eq!(rows(&of_a, &query).await, [[count]], "{query}");
        let plan = rows(&of_a, &format!("EXPLAIN {query}")).await.concat();
        assert!(plan.iter().any(|line| line.contains(told)), "{query}: {plan:#?}");
        assert!(!plan.iter().any(|line| line.contains("gone")), "{query}: {plan:#?}");
    }
    let update = "UPDATE m SET id = id + 10 WHERE __spd_url = '/b/a/'";
    assert_eq!(of_a.execute(update, &[]).await.unwrap(), 2);
    assert_eq!(rows(&of_a, "SELECT sum(id) FROM own").await, [["23"]]);
    // Of a name's end nobody knows whose node it is.
    assert_eq!(failure(&of_a, "SELECT count(*) FROM m WHERE __spd_url LIKE '%/a/'").await.0, "08001");
}

/// What the lower server leaves out is a warning of the upper one's answer.
#[tokio::test]
async fn warnings_come_up() {
    let dir = tempfile::tempdir().unwrap();
    let (a, _b, _of_a, of_b) = pair(dir.path(), "tidemill_fdw").await;
    of_b.batch_execute(
        "DROP FOREIGN TABLE m__a__0; CREATE FOREIGN TABLE m__a__0 (id int) SERVER a OPTIONS (table_name 'own');
         CREATE SERVER gone FOREIGN DATA WRAPPER tidemill_fdw OPTIONS (host '127.0.0.1', port '1', dbname 'tidemill');
         CREATE USER MAPPING FOR PUBLIC SERVER gone;
         CREATE FOREIGN TABLE m__gone__0 (id int) SERVER gone;
         ALTER FOREIGN TABLE m OPTIONS (ADD on_dead_node 'skip')",
    )
    .await
    .unwrap();
    let mut wire = Wire::connect(a.port, "tidemill");
    for query in ["SELECT count(*) FROM m", "SELECT count(*) FROM (SELECT id FROM m) AS x"] {
        let answer = wire.query(query);
        assert_eq!(answer.error, None, "{query}");
        let [warning] = answer.notices.as_slice() else { panic!("{query}: one warning: {answer:?}") };
        assert_eq!((warning.get('S'), warning.get('C')), ("WARNING", "01000"), "{query}");
        assert_eq!(warning.get('M'), "node of table \"m\" missing from the answer: /b/gone/", "{query}");
        assert!(warning.get('D').starts_with("/b/gone/: connection to server at"), "{query}: {answer:?}");
        let report = wire.query("SELECT node, state FROM tidemill.last_query_nodes ORDER BY node");
        let report: Vec<_> = report.rows.iter().flatten().map(|cell| cell.as_deref().unwrap()).collect();
        assert_eq!(report, ["/b/", "complete", "/b/gone/", "skipped"], "{query}");
    }
    let query = "UPDATE m SET id = 5 WHERE id = 2";
    let answer = wire.query(query);
    let [warning] = answer.notices.as_slice() else { panic!("{query}: one warning: {answer:?}") };
    assert_eq!(warning.get('M'), "node of table \"m\" not changed: /b/gone/", "{query}");
    assert!(warning.get('D').starts_with("/b/gone/: connection to server at"), "{query}: {answer:?}");
}

/// Whether nodes may be left out, and how many, is for the session to say whose query it is.
#[tokio::test]
async fn what_the_session_says_of_dead_nodes_is_so_below() {
    let dir = tempfile::tempdir().unwrap();
    let (a, _b, of_a, of_b) = pair(dir.path(), "tidemill_fdw").await;
    of_b.batch_execute(
        "DROP FOREIGN TABLE m__a__0; CREATE FOREIGN TABLE m__a__0 (id int) SERVER a OPTIONS (table_name 'own');
         CREATE SERVER gone FOREIGN DATA WRAPPER tidemill_fdw OPTIONS (host '127.0.0.1', port '1', dbname 'tidemill');
         CREATE USER MAPPING FOR PUBLIC SERVER gone;
         CREATE FOREIGN TABLE m__gone__0 (id int) SERVER gone",
    )
    .await
    .unwrap();
    let all = "SELECT count(*) FROM m";
    let (code, told) = failure(&of_a, all).await;
    assert!(code == "08001" && told.contains("\"gone\""), "{code} {told}");
    let mut wire = Wire::connect(a.port, "tidemill");
    wire.query("SET on_dead_node = skip");
    let answer = wire.query(all);
    assert_eq!((&answer.error, answer.rows[0][0].as_deref(), answer.notices.len()), (&None, Some("2"), 1));
    // The setting of that server is what it was.
    assert_eq!(failure(&of_b, all).await.0, "08001");
    for (max, message) in [("1", None), ("0.5", None), ("0.4", Some("/b/gone/")), ("0", Some("/b/gone/"))] {
        wire.query(&format!("SET max_skipped_nodes = {max}"));
        let told =
            wire.query(all).error.map(|error| (error.get('C').to_string(), error.get('M').to_string()));
        let wanted = message.map(|node| {
            ("08001".to_string(), format!("too many nodes of table \"m\" are not there: {node}"))
        });
        assert_eq!(told, wanted, "max_skipped_nodes = {max}");
    }
}

/// They cannot be read, only written.
#[tokio::test]
async fn streams_of_another_tidemill_are_written() {
    let dir = tempfile::tempdir().unwrap();
    let (a, b) = (Server::start(&dir.path().join("a")), Server::start(&dir.path().join("b")));
    let (of_a, of_b) = (a.connect().await, b.connect().await);
    of_b.batch_execute(
        "CREATE STREAM reading (id int, v float8, at timestamptz, name text);
         CREATE VIEW total AS SELECT count(*), sum(id), sum(v) AS sum_v, max(at), max(name) AS last_name FROM reading",
    )
    .await
    .unwrap();
    let total = || rows(&of_b, "SELECT count, sum, sum_v FROM total");
    for (name, wrapper) in [("t", "tidemill_fdw"), ("p", "postgres_fdw")] {
        let create = format!(
            "CREATE SERVER {name} FOREIGN DATA WRAPPER {wrapper} OPTIONS (host '127.0.0.1', port '{}', dbname 'tidemill');
             CREATE USER MAPPING FOR PUBLIC SERVER {name};
             CREATE FOREIGN TABLE {name}_reading (id int, v float8, at timestamptz, name text) SERVER {name} OPTIONS (table_name 'reading')",
            b.port
        );
        of_a.batch_execute(&create).await.unwrap();
    }
    of_a.batch_execute("INSERT INTO t_reading VALUES (1, 0.5, '2026-01-02 03:04+00', 'a')").await.unwrap();
    of_a.batch_execute("INSERT INTO p_reading (name, id) VALUES ('b', 2)").await.unwrap();
    of_a.execute("INSERT INTO t_reading (id, v) SELECT x, x FROM generate_series(1, 1000) AS x", &[])
        .await
        .unwrap();
    assert_eq!(total().await, [["1002", "500503", "500500.5"]]);
    of_a.batch_execute("BEGIN; INSERT INTO t_reading (id) VALUES (7); ROLLBACK").await.unwrap();
    of_a.batch_execute(
        "BEGIN; INSERT INTO t_reading (id) VALUES (1000); INSERT INTO t_reading (id) VALUES (2000); COMMIT",
    )
    .await
    .unwrap();
    assert_eq!(total().await, [["1004", "503503", "500500.5"]]);
    of_a.batch_execute(
        "CREATE MULTI TENANT TABLE dealt (id int, v float8, at timestamptz, name text) CHILDREN (t.reading, p.reading);
         INSERT INTO dealt (id) SELECT 1 FROM generate_series(1, 10)",
    )
    .await
    .unwrap();
    assert_eq!(total().await, [["1014", "503513", "500500.5"]]);
    of_a.batch_execute(
        "CREATE STREAM s (id int);
         CREATE CONTINUOUS TRANSFORM up AS SELECT id FROM s THEN EXECUTE PROCEDURE pipeline_stream_insert('t_reading');
         INSERT INTO s SELECT * FROM generate_series(1, 100)",
    )
    .await
    .unwrap();
    until(&of_b, "SELECT sum(count) FROM total", "1114").await;
    for (statement, state) in [
        ("SELECT * FROM t_reading", "42809"),
        ("INSERT INTO t_reading (id) VALUES (1) RETURNING id", "42809"),
        ("UPDATE t_reading SET id = 1", "42809"),
    ] {
        let (code, message) = failure(&of_a, statement).await;
        assert_eq!(code, state, "{statement}: {message}");
    }
    of_a.batch_execute("CREATE FOREIGN TABLE wrong (id int, v text) SERVER t OPTIONS (table_name 'reading')")
        .await
        .unwrap();
    let (code, message) = failure(&of_a, "INSERT INTO wrong VALUES (1, 'x')").await;
    let told = "column \"v\" of foreign table \"wrong\" is of type text, but column \"v\" of";
    assert!(code == "HV004" && message.contains(told), "{code} {message}");
}
