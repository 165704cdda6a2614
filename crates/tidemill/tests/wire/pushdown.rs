//! What is left to servers beyond columns and conditions: the rows are those of one database, and it is asked for no more
//! than it has to be.

use tokio_postgres::{Client, NoTls};

use crate::postgres::Postgres;
use crate::server::{Server, rows};

/// Three nodes with a part of a history each, a fourth with the names of its sensors; all in one PostgreSQL, whose schema
/// `whole` has the history in one table.
struct Setting {
    _node: Postgres,
    remote: Client,
    client: Client,
    _server: Server,
    _dir: tempfile::TempDir,
}

const HIST: &str = "eid text, site int, at timestamp, v float8, n int";

async fn start() -> Option<Setting> {
    let node = Postgres::start()?;
    let config = format!("host=127.0.0.1 port={} user=postgres", node.port);
    let (remote, connection) = tokio_postgres::connect(&config, NoTls).await.unwrap();
    tokio::spawn(connection);
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let client = server.connect().await;
    let mut whole = Vec::new();
    for i in 1..=3 {
        let there = format!(
            "CREATE SCHEMA n{i}; CREATE TABLE n{i}.hist ({HIST});
             INSERT INTO n{i}.hist SELECT 'sensor ' || x % 40, x % 3, timestamp '2020-01-01' + x * interval '7 minutes',
                 CASE WHEN x % 11 <> 0 THEN x * 0.25 END, x % 17 FROM generate_series({i}, 3000, 3) AS x"
        );
        remote.batch_execute(&there).await.unwrap();
        whole.push(format!("SELECT *, '/n{i}/' AS __spd_url FROM n{i}.hist"));
    }
    let rest = format!(
        "CREATE SCHEMA n4; CREATE SCHEMA whole; CREATE VIEW whole.hist AS {};
         CREATE TABLE n4.signal AS SELECT 'sensor ' || x AS eid, 'name ' || x % 7 AS name, x % 2 = 0 AS ok FROM generate_series(0, 50) AS x;
         INSERT INTO n4.signal SELECT 'sensor 3', 'twice', true;
         CREATE VIEW whole.signal AS SELECT * FROM n4.signal",
        whole.join(" UNION ALL ")
    );
    remote.batch_execute(&rest).await.unwrap();
    for i in 1..=4 {
        let here = format!(
            "CREATE SERVER n{i} FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '127.0.0.1', port '{}', dbname 'postgres');
             CREATE USER MAPPING FOR PUBLIC SERVER n{i}",
            node.port
        );
        client.batch_execute(&here).await.unwrap();
    }
    let here = format!(
        "CREATE MULTI TENANT TABLE hist ({HIST}) CHILDREN (n1.n1.hist, n2.n2.hist, n3.n3.hist);
         CREATE FOREIGN TABLE signal (eid text, name text, ok bool) SERVER n4 OPTIONS (schema_name 'n4')"
    );
    client.batch_execute(&here).await.unwrap();
    remote.batch_execute("SET search_path = whole; SET timezone = 'UTC'").await.unwrap();
    client.batch_execute("SET timezone = 'UTC'").await.unwrap();
    Some(Setting { _node: node, remote, client, _server: server, _dir: dir })
}

/// The same rows as in one database, whatever is left to the servers.
async fn same(setting: &Setting, query: &str) {
    let wanted = rows(&setting.remote, query).await;
    for off in [
        "enable_hashjoin",
        "enable_foreign_aggregates",
        "enable_foreign_eager_aggregates",
        "enable_foreign_filters",
        "enable_foreign_top_k",
    ] {
        setting.client.batch_execute(&format!("SET {off} = off")).await.unwrap();
        assert_eq!(rows(&setting.client, query).await, wanted, "without {off}: {query}");
        setting.client.batch_execute(&format!("RESET {off}")).await.unwrap();
    }
}

/// What the servers are asked, without what they are asked alike.
async fn asked(setting: &Setting, query: &str) -> Vec<String> {
    let lines = rows(&setting.client, &format!("EXPLAIN {query}")).await.concat();
    let mut asked: Vec<String> = Vec::new();
    for line in lines.iter().filter_map(|line| line.trim().strip_prefix("Remote SQL: ")) {
        let line = line.replace("\"n2\"", "\"n1\"").replace("\"n3\"", "\"n1\"");
        if !asked.contains(&line) {
            asked.push(line);
        }
    }
    asked
}

#[tokio::test]
async fn groups_of_expressions_are_folded_on_the_servers() {
    let Some(setting) = start().await else { return };
    for (query, sql) in [
        (
            "SELECT date_trunc('hour', at), count(*), max(v) FROM hist GROUP BY 1 ORDER BY 1",
            r#"SELECT date_trunc('hour'::text, "at"), count(*), max("v") FROM "n1"."hist" GROUP BY 1"#,
        ),
        (
            "SELECT extract(hour FROM at)::int AS h, count(v) FROM hist GROUP BY h ORDER BY h",
            r#"SELECT (extract('hour' FROM "at"))::integer, count("v") FROM "n1"."hist" GROUP BY 1"#,
        ),
        (
            "SELECT left(eid, 8), sum(n) FROM hist WHERE site = 1 GROUP BY left(eid, 8) ORDER BY 1",
            r#"SELECT left("eid", 8), sum("n"), false FROM "n1"."hist" WHERE ("site" = 1) GROUP BY 1"#,
        ),
        (
            "SELECT n % 5, sum(n * 2), min(v + 1) FROM hist GROUP BY 1 ORDER BY 1",
            r#"SELECT ("n" % 5), sum(("n" * 2)), false, min(("v" + '1'::double precision)) FROM "n1"."hist" GROUP BY 1"#,
        ),
        (
            "SELECT at::date, site + 1, avg(v) FROM hist GROUP BY 1, 2 HAVING avg(v) > 100 ORDER BY 1 DESC, 2 LIMIT 5",
            r#"SELECT ("at")::date, ("site" + 1), coalesce(sum("v"), 0), count("v"), coalesce(sum("v") IN ('Infinity', '-Infinity'), false) FROM "n1"."hist" GROUP BY 1, 2"#,
        ),
        (
            "SELECT CASE WHEN n > 8 THEN 'high' ELSE 'low' END AS kind, count(*) FROM hist GROUP BY kind ORDER BY kind",
            r#"SELECT (CASE WHEN ("n" > 8) THEN 'high'::text ELSE 'low'::text END), count(*) FROM "n1"."hist" GROUP BY 1"#,
        ),
        (
            "SELECT count(*) FROM (SELECT DISTINCT n / 3 FROM hist) AS d",
            r#"SELECT ("n" / 3) FROM "n1"."hist" GROUP BY 1"#,
        ),
        (
            "SELECT max(length(eid)), sum(v * 2) FROM hist WHERE v < 50",
            r#"SELECT max(length("eid")), coalesce(sum(("v" * '2'::double precision)), 0), count(("v" * '2'::double precision)), coalesce(sum(("v" * '2'::double precision)) IN ('Infinity', '-Infinity'), false) FROM "n1"."hist" WHERE ("v" < '50'::double precision)"#,
        ),
        // What depends on collations stays here.
        ("SELECT upper(eid), count(*) FROM hist GROUP BY 1 ORDER BY 1", r#"SELECT "eid" FROM "n1"."hist""#),
        (
            "SELECT eid, n FROM hist ORDER BY n * 2 DESC, eid, at LIMIT 4",
            r#"SELECT "eid", "at", "n" FROM "n1"."hist" ORDER BY ("n" * 2) DESC NULLS FIRST, "eid" COLLATE "C" ASC NULLS LAST, "at" ASC NULLS LAST LIMIT 4"#,
        ),
    ] {
        same(&setting, query).await;
        assert_eq!(asked(&setting, query).await, [sql], "{query}");
    }
}

#[tokio::test]
async fn rows_are_folded_before_they_are_joined() {
    let Some(setting) = start().await else { return };
    let signal = r#"SELECT "eid", "name" FROM "n4"."signal""#;
    let states = r#"SELECT "eid", coalesce(sum("v"), 0), count("v"), coalesce(sum("v") IN ('Infinity', '-Infinity'), false) FROM "n1"."hist" GROUP BY 1"#;
    for (query, sql) in [
        (
            "SELECT name, avg(v) FROM hist JOIN signal USING (eid) GROUP BY name ORDER BY name",
            vec![states, signal],
        ),
        (
            "SELECT name, avg(v) FROM hist JOIN signal USING (eid) WHERE site = 1 AND ok GROUP BY name ORDER BY name",
            vec![
                r#"SELECT "eid", coalesce(sum("v"), 0), count("v"), coalesce(sum("v") IN ('Infinity', '-Infinity'), false) FROM "n1"."hist" WHERE ("site" = 1) GROUP BY 1"#,
                r#"SELECT "eid", "name" FROM "n4"."signal" WHERE "ok""#,
            ],
        ),
        (
            "SELECT name, site, count(*), max(n) FROM signal AS s JOIN hist AS h ON s.eid = h.eid GROUP BY name, site ORDER BY 1, 2",
            vec![signal, r#"SELECT "eid", "site", count(*), max("n") FROM "n1"."hist" GROUP BY 1, 2"#],
        ),
        ("SELECT count(*), sum(n) FROM hist JOIN signal USING (eid)", vec![]),
        (
            "SELECT name, avg(v) FROM (SELECT eid, v FROM hist WHERE n < 9) AS h JOIN signal USING (eid) GROUP BY name HAVING avg(v) > 300 ORDER BY 2 DESC LIMIT 3",
            vec![],
        ),
        (
            "SELECT name, count(*) FROM hist LEFT JOIN signal USING (eid) GROUP BY name ORDER BY name NULLS FIRST",
            vec![],
        ),
        (
            "SELECT name, count(v), count(*) FROM signal LEFT JOIN hist USING (eid) GROUP BY name ORDER BY name",
            vec![],
        ),
        ("SELECT ok, min(v), max(at) FROM hist JOIN signal USING (eid) GROUP BY ok ORDER BY ok", vec![]),
        (
            "SELECT s.name, h.eid, sum(h.n) FROM hist h JOIN signal s ON s.eid = h.eid GROUP BY 1, 2 ORDER BY 1, 2",
            vec![],
        ),
        (
            "SELECT name, sum(n) FROM hist h JOIN signal s ON s.eid = h.eid AND h.n > length(s.name) GROUP BY name ORDER BY name",
            vec![],
        ),
        ("SELECT count(*) FROM hist a JOIN hist b ON a.eid = b.eid AND a.at = b.at", vec![]),
        (
            "SELECT name, sum(length(name)), sum(n) FROM hist JOIN signal USING (eid) GROUP BY name ORDER BY name",
            vec![],
        ),
        ("SELECT count(*) FROM hist WHERE eid IN (SELECT eid FROM signal WHERE ok)", vec![]),
    ] {
        same(&setting, query).await;
        if !sql.is_empty() {
            assert_eq!(asked(&setting, query).await, sql, "{query}");
        }
    }
}

#[tokio::test]
async fn changes_of_expressions_are_left_to_the_servers() {
    let Some(setting) = start().await else { return };
    let Setting { remote, client, .. } = &setting;
    for (statement, check) in [
        ("UPDATE hist SET n = n * 2 + 1, v = v / 2 WHERE site = 2", "SELECT sum(n), sum(v) FROM hist"),
        (
            "UPDATE hist SET eid = eid || ' x', v = n WHERE n > 30",
            "SELECT count(*), sum(v) FROM hist WHERE right(eid, 2) = ' x'",
        ),
    ] {
        remote.batch_execute("BEGIN").await.unwrap();
        for i in 1..=3 {
            remote
                .batch_execute(&statement.replace("UPDATE hist", &format!("UPDATE n{i}.hist")))
                .await
                .unwrap();
        }
        let wanted = rows(remote, check).await;
        remote.batch_execute("ROLLBACK").await.unwrap();
        client.batch_execute(statement).await.unwrap();
        assert_eq!(rows(client, check).await, wanted, "{statement}");
    }
}
