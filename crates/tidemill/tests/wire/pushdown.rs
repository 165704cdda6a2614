//! What is left to servers beyond columns and conditions: the rows are those of one database, and it is asked for no more
//! than it has to be.

mod fewer_rows;

use tokio_postgres::Client;

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

const HIST: &str = "eid text, site int, at timestamp, v float8, n int, cost numeric(20, 4), free numeric, b bigint, d interval, day date";

async fn start() -> Option<Setting> {
    let node = Postgres::start()?;
    let remote = node.connect("postgres").await;
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let client = server.connect().await;
    let mut whole = Vec::new();
    for i in 1..=3 {
        let there = format!(
            "CREATE SCHEMA n{i}; CREATE TABLE n{i}.hist ({HIST});
             INSERT INTO n{i}.hist SELECT 'sensor ' || x % 40, x % 3, timestamp '2020-01-01' + x * interval '7 minutes',
                 CASE WHEN x % 11 <> 0 THEN x * 0.25 END, x % 17, CASE WHEN x % 13 <> 0 THEN (x % 97) / 8.0 END,
                 CASE x WHEN 2000 THEN 'NaN' ELSE round((x % 23) / 4.0, x % 4) END, x * 3000000000000000,
                 (x % 5) * interval '10 days' - (x % 3) * interval '1 hour', date '2020-01-01' + x % 9
             FROM generate_series({i}, 3000, 3) AS x"
        );
        remote.batch_execute(&there).await.unwrap();
        whole.push(format!("SELECT *, '/n{i}/' AS __spd_url FROM n{i}.hist"));
    }
    let rest = format!(
        "CREATE SCHEMA n4; CREATE SCHEMA whole; CREATE VIEW whole.hist AS {};
         CREATE TABLE n4.place (name text, town text, height numeric(8, 2));
         INSERT INTO n4.place VALUES ('name 1', 'Aalen', 429.5), ('name 2', 'Bonn', 60), ('name 3', 'Bonn', 60.00), ('nowhere', NULL, NULL);
         CREATE VIEW whole.place AS SELECT * FROM n4.place;
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
         CREATE FOREIGN TABLE signal (eid text, name text, ok bool) SERVER n4 OPTIONS (schema_name 'n4');
         CREATE FOREIGN TABLE place (name text, town text, height numeric(8, 2)) SERVER n4 OPTIONS (schema_name 'n4')"
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
        "enable_foreign_dynamic_filters",
        "enable_foreign_eager_aggregates",
        "enable_foreign_filters",
        "enable_foreign_joins",
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
            r#"SELECT max(length("eid")), coalesce(sum(("v" * '2'::double precision)), 0), CAST(CASE WHEN sum(("v" * '2'::double precision)) IS NULL THEN 0 ELSE 1 END AS bigint), coalesce(sum(("v" * '2'::double precision)) IN ('Infinity', '-Infinity'), false) FROM "n1"."hist" WHERE ("v" < '50'::double precision)"#,
        ),
        // What depends on collations stays here.
        ("SELECT upper(eid), count(*) FROM hist GROUP BY 1 ORDER BY 1", r#"SELECT "eid" FROM "n1"."hist""#),
        (
            "SELECT eid, n FROM hist ORDER BY n * 2 DESC, eid, at LIMIT 4",
            r#"SELECT "eid", "at", "n" FROM "n1"."hist" ORDER BY ("n" * 2) DESC NULLS FIRST, "eid" ASC NULLS LAST, "at" ASC NULLS LAST LIMIT 4"#,
        ),
    ] {
        same(&setting, query).await;
        assert_eq!(asked(&setting, query).await, [sql], "{query}");
    }
    // Windows rely on what is constant below them, and not on a column that equals what is computed of it.
    for query in [
        "SELECT 'x' FROM hist EXCEPT SELECT eid FROM hist",
        "SELECT x, row_number() OVER (PARTITION BY x ORDER BY x), count(*) OVER (PARTITION BY x)
         FROM (SELECT DISTINCT 'x' AS x FROM hist) q",
        "SELECT x, n, sum(c) OVER (PARTITION BY x) FROM (SELECT 'x' AS x, n, count(*) AS c FROM hist GROUP BY 1, 2) q ORDER BY 2",
        "SELECT eid, count(*) OVER (PARTITION BY eid) FROM hist WHERE lower(eid) = eid AND n = 3 ORDER BY eid",
    ] {
        same(&setting, query).await;
    }
}

/// What a time is in depends on the session's zone; the servers' sessions are in UTC.
#[tokio::test]
async fn times_are_grouped_on_the_servers_while_the_session_is_in_utc() {
    let Some(setting) = start().await else { return };
    let sql = |items: &str| format!(r#"SELECT {items} FROM "n1"."hist" GROUP BY 1"#);
    for (query, sql) in [
        (
            "SELECT date_trunc('hour', at::timestamptz), count(*) FROM hist GROUP BY 1 ORDER BY 1",
            sql(r#"date_trunc('hour'::text, ("at")::timestamp with time zone), count(*)"#),
        ),
        (
            "SELECT extract(hour FROM at::timestamptz)::int AS h, count(*) FROM hist GROUP BY h ORDER BY h",
            sql(r#"(extract('hour' FROM ("at")::timestamp with time zone))::integer, count(*)"#),
        ),
        (
            "SELECT (at::timestamptz + interval '90 minutes')::date, max(n) FROM hist GROUP BY 1 ORDER BY 1",
            sql(r#"((("at")::timestamp with time zone + '01:30:00'::interval))::date, max("n")"#),
        ),
    ] {
        same(&setting, query).await;
        assert_eq!(asked(&setting, query).await, [sql], "{query}");
        let zone = "SET timezone = 'America/New_York'";
        setting.client.batch_execute(zone).await.unwrap();
        setting.remote.batch_execute(zone).await.unwrap();
        same(&setting, query).await;
        let asked = asked(&setting, query).await.concat();
        assert!(asked.starts_with(r#"SELECT "at""#), "{query}: {asked}");
        setting.client.batch_execute("SET timezone = 'UTC'").await.unwrap();
        setting.remote.batch_execute("SET timezone = 'UTC'").await.unwrap();
    }
}

#[tokio::test]
async fn aggregates_with_filters_are_folded_on_the_servers() {
    let Some(setting) = start().await else { return };
    for (query, sql) in [
        (
            "SELECT site, count(*) FILTER (WHERE v > 100), count(*), count(n) FILTER (WHERE n > 8) FROM hist GROUP BY site ORDER BY site",
            r#"SELECT "site", count((CASE WHEN ("v" > '100'::double precision) THEN 1 END)), count(*), count((CASE WHEN ("n" > 8) THEN "n" END)) FROM "n1"."hist" GROUP BY 1"#,
        ),
        (
            "SELECT max(eid) FILTER (WHERE site = 1 OR v IS NULL), avg(cost) FILTER (WHERE n < 3) FROM hist WHERE b > 5",
            r#"SELECT max((CASE WHEN (("site" = 1) OR ("v" IS NULL)) THEN "eid" END) COLLATE "C"), count((CASE WHEN ("n" < 3) THEN "cost" END)), coalesce(sum((CASE WHEN ("n" < 3) THEN "cost" END)), 0) FROM "n1"."hist" WHERE ("b" > '5'::bigint)"#,
        ),
        (
            "SELECT hot, sum(n) FILTER (WHERE hot), stddev(n) FILTER (WHERE NOT hot AND n > 2) FROM (SELECT n, v > 200 AS hot FROM hist) AS x GROUP BY hot ORDER BY hot",
            r#"SELECT ("v" > '200'::double precision), sum((CASE WHEN ("v" > '200'::double precision) THEN "n" END)), false, count((CASE WHEN ((NOT ("v" > '200'::double precision)) AND ("n" > 2)) THEN "n" END)), coalesce(sum(CAST((CASE WHEN ((NOT ("v" > '200'::double precision)) AND ("n" > 2)) THEN "n" END) AS numeric)), 0), coalesce(sum(CAST((CASE WHEN ((NOT ("v" > '200'::double precision)) AND ("n" > 2)) THEN "n" END) AS numeric) * CAST((CASE WHEN ((NOT ("v" > '200'::double precision)) AND ("n" > 2)) THEN "n" END) AS numeric)), 0) FROM "n1"."hist" GROUP BY 1"#,
        ),
        // What cannot be a condition there is none here, either: all of it is folded here.
        (
            "SELECT count(*) FILTER (WHERE upper(eid) = 'SENSOR 1'), sum(n) FROM hist",
            r#"SELECT "eid", "n" FROM "n1"."hist""#,
        ),
        (
            "SELECT count(*) FILTER (WHERE __spd_url = '/n2/'), sum(n) FILTER (WHERE false), sum(v) FILTER (WHERE true) FROM hist",
            "",
        ),
    ] {
        same(&setting, query).await;
        if !sql.is_empty() {
            assert_eq!(asked(&setting, query).await, [sql], "{query}");
        }
    }
}

#[tokio::test]
async fn numerics_are_compared_and_folded_on_the_servers() {
    let Some(setting) = start().await else { return };
    for (query, sql) in [
        (
            "SELECT site, sum(cost), avg(cost), min(cost), max(cost) FROM hist WHERE cost BETWEEN 0.5 AND 7.25 GROUP BY site ORDER BY site",
            r#"SELECT "site", CAST(CASE WHEN sum("cost") IS NULL THEN 0 ELSE 1 END AS bigint), coalesce(sum("cost"), 0), count("cost"), coalesce(sum("cost"), 0), min("cost"), max("cost") FROM "n1"."hist" WHERE ("cost" >= '0.5'::numeric) AND ("cost" <= '7.25'::numeric) GROUP BY 1"#,
        ),
        (
            "SELECT sum(b), avg(b), variance(b), stddev_pop(n), stddev(cost) FROM hist WHERE site <> 1",
            r#"SELECT coalesce(sum("b"), 0), CAST(CASE WHEN sum("b") IS NULL THEN 0 ELSE 1 END AS bigint), coalesce(sum("b"), 0), count("b"), count("b"), coalesce(sum(CAST("b" AS numeric)), 0), coalesce(sum(CAST("b" AS numeric) * CAST("b" AS numeric)), 0), count("n"), coalesce(sum(CAST("n" AS numeric)), 0), coalesce(sum(CAST("n" AS numeric) * CAST("n" AS numeric)), 0), count("cost"), coalesce(sum("cost"), 0), coalesce(sum("cost" * "cost"), 0) FROM "n1"."hist" WHERE ("site" <> 1)"#,
        ),
        (
            "SELECT trim_scale(free), count(*), sum(free) FROM hist GROUP BY free ORDER BY free DESC",
            r#"SELECT "free", count(*), CAST(CASE WHEN sum("free") IS NULL THEN 0 ELSE 1 END AS bigint), coalesce(sum("free"), 0), "free" FROM "n1"."hist" GROUP BY 1"#,
        ),
        (
            "SELECT sum(free), avg(free), max(free), stddev(free) FROM hist WHERE free <> 'NaN' OR site = 2",
            r#"SELECT CAST(CASE WHEN sum("free") IS NULL THEN 0 ELSE 1 END AS bigint), coalesce(sum("free"), 0), count("free"), coalesce(sum("free"), 0), max("free"), count("free"), coalesce(sum("free"), 0), coalesce(sum("free" * "free"), 0) FROM "n1"."hist" WHERE (("free" <> 'NaN'::numeric) OR ("site" = 2))"#,
        ),
        (
            "SELECT sum(free), avg(free), count(DISTINCT free) FROM hist WHERE free < 1e3",
            r#"SELECT "free" FROM "n1"."hist" WHERE ("free" < '1000'::numeric)"#,
        ),
        (
            "SELECT v, count(*) FROM hist WHERE v < 2 GROUP BY v ORDER BY v",
            r#"SELECT "v", count(*) FROM "n1"."hist" WHERE ("v" < '2'::double precision) GROUP BY 1"#,
        ),
        (
            "SELECT d, count(*), max(n) FROM hist WHERE d > interval '9 days 23 hours' GROUP BY d ORDER BY d",
            r#"SELECT "d", count(*), max("n"), "d" FROM "n1"."hist" WHERE ("d" > '9 days 23:00:00'::interval) GROUP BY 1"#,
        ),
        (
            "SELECT min(d), max(d), bool_and(n > 3), bit_or(n), bit_xor(b) FROM hist WHERE eid LIKE 'sensor 1_'",
            r#"SELECT min("d"), max("d"), bool_and(("n" > 3)), bit_or("n"), bit_xor("b") FROM "n1"."hist" WHERE ("eid" LIKE 'sensor 1_'::text)"#,
        ),
        (
            "SELECT sum(cost * (1 - free) / 3) FROM hist WHERE free IN (0.25, 0.5, 0.750) AND extract(hour FROM at) = 3",
            r#"SELECT CAST(CASE WHEN sum((("cost" * ('1'::numeric - "free")) / '3'::numeric)) IS NULL THEN 0 ELSE 1 END AS bigint), coalesce(sum((("cost" * ('1'::numeric - "free")) / '3'::numeric)), 0) FROM "n1"."hist" WHERE ((("free" = '0.25'::numeric) OR ("free" = '0.5'::numeric)) OR ("free" = '0.75'::numeric)) AND (extract('hour' FROM "at") = '3'::numeric)"#,
        ),
        // As drivers write a list, which may have a null.
        (
            "SELECT count(*) FROM hist WHERE n = ANY ('{1,2,5,7,7}') AND site <> ALL (ARRAY[2, 8]) AND (n = 5 OR n = ANY (ARRAY[7, 8, 9, 10]))",
            r#"SELECT count(*) FROM "n1"."hist" WHERE ("n" IN (1, 2, 5, 7)) AND ("site" <> 2) AND ("site" <> 8) AND ("n" IN (5, 7, 8, 9, 10))"#,
        ),
        (
            "SELECT count(*) FROM hist WHERE n <> ALL ('{1,2,5,null,7}') OR site = ANY ('{}')",
            r#"SELECT count(*) FROM "n1"."hist" WHERE ("n" NOT IN (1, 2, 5, NULL::integer, 7))"#,
        ),
        (
            "SELECT extract(month FROM at) AS month, sum(n) FROM hist GROUP BY month ORDER BY month",
            r#"SELECT extract('month' FROM "at"), sum("n"), false, extract('month' FROM "at") FROM "n1"."hist" GROUP BY 1"#,
        ),
        (
            "SELECT eid, free FROM hist WHERE free IS DISTINCT FROM 1.50 ORDER BY free DESC, at LIMIT 3",
            r#"SELECT "eid", "at", "free" FROM "n1"."hist" WHERE ("free" IS DISTINCT FROM '1.5'::numeric) ORDER BY "free" DESC NULLS FIRST, "at" ASC NULLS LAST LIMIT 3"#,
        ),
        (
            "SELECT count(*) FROM hist WHERE substring(eid FROM 8 FOR 1) IN ('1', '2') AND at::date + 3 > date '2020-01-05'",
            r#"SELECT count(*) FROM "n1"."hist" WHERE (substring("eid", 8, 1) IN ('1'::text, '2'::text)) AND ((("at")::date + 3) > '2020-01-05'::date)"#,
        ),
        (
            "SELECT sum(free), avg(b), stddev(n), variance(cost), min(free), bit_and(n) FROM hist WHERE n > 100",
            r#"SELECT CAST(CASE WHEN sum("free") IS NULL THEN 0 ELSE 1 END AS bigint), coalesce(sum("free"), 0), coalesce(sum("b"), 0), count("b"), count("n"), coalesce(sum(CAST("n" AS numeric)), 0), coalesce(sum(CAST("n" AS numeric) * CAST("n" AS numeric)), 0), count("cost"), coalesce(sum("cost"), 0), coalesce(sum("cost" * "cost"), 0), min("free"), bit_and("n") FROM "n1"."hist" WHERE ("n" > 100)"#,
        ),
        (
            "SELECT round(stddev(v)::numeric, 6) FROM hist",
            r#"SELECT CAST(count("v") AS double precision), coalesce(sum("v"), 0), coalesce(var_pop("v") * count("v"), 0) FROM "n1"."hist""#,
        ),
        (
            "SELECT site, round(corr(v, v)::numeric, 6) FROM hist GROUP BY site ORDER BY site",
            r#"SELECT "site", CAST(regr_count("v", "v") AS double precision), coalesce(regr_avgx("v", "v") * regr_count("v", "v"), 0), coalesce(regr_sxx("v", "v"), 0), coalesce(regr_avgy("v", "v") * regr_count("v", "v"), 0), coalesce(regr_syy("v", "v"), 0), coalesce(regr_sxy("v", "v"), 0) FROM "n1"."hist" GROUP BY 1"#,
        ),
    ] {
        same(&setting, query).await;
        assert_eq!(asked(&setting, query).await, [sql], "{query}");
    }
    for intervals in [
        "avg(d)",
        "sum(d - interval '40 days 1:02:03.000004')",
        "avg(d * -1.5)",
        "sum(d) FILTER (WHERE n > 9)",
    ] {
        let query = format!("SELECT site, {intervals} FROM hist GROUP BY site ORDER BY site");
        same(&setting, &query).await;
    }
    let asked_for = asked(&setting, "SELECT avg(d) FROM hist").await;
    assert!(asked_for[0].contains("extract(day FROM sum(\"d\"))"), "{asked_for:?}");
    for pairs in [
        "corr(v, n)",
        "covar_samp(v, n * 2) FILTER (WHERE site <> 1)",
        "regr_slope(n, v)",
        "regr_intercept(cost, n)",
        "regr_r2(free, v)",
        "regr_avgx(b, v)",
        "regr_count(v, free)",
    ] {
        let query = format!("SELECT site, round({pairs}::numeric, 6) FROM hist GROUP BY site ORDER BY site");
        same(&setting, &query).await;
        let asked = asked(&setting, &query).await;
        assert!(asked[0].contains("regr_sxy("), "{query}: {asked:?}");
    }
}

#[tokio::test]
async fn tables_of_one_server_are_joined_there() {
    let Some(setting) = start().await else { return };
    for (query, sql) in [
        (
            "SELECT eid, town FROM signal JOIN place USING (name) WHERE ok AND town > 'B' ORDER BY eid",
            r#"SELECT l.c1, r.c2 FROM (SELECT "eid", "name" FROM "n4"."signal" WHERE "ok") AS l(c1, c2) JOIN (SELECT "name", "town" FROM "n4"."place" WHERE ("town" > 'B'::text COLLATE "C")) AS r(c1, c2) ON (l.c2 = r.c1)"#,
        ),
        (
            "SELECT s.eid, upper(town) FROM signal s LEFT JOIN place p ON s.name = p.name AND p.height < 100 ORDER BY 1, 2",
            r#"SELECT l.c1, l.c2, r.c1, r.c2 FROM (SELECT "eid", "name" FROM "n4"."signal") AS l(c1, c2) LEFT JOIN (SELECT "name", "town" FROM "n4"."place" WHERE ("height" < '100'::numeric)) AS r(c1, c2) ON (l.c2 = r.c1)"#,
        ),
        (
            "SELECT coalesce(s.name, p.name), count(*), sum(height) FROM signal s FULL JOIN place p ON s.name = p.name GROUP BY 1 ORDER BY 1",
            r#"SELECT (CASE WHEN (l.c1 IS NOT NULL) THEN l.c1 ELSE r.c1 END), count(*), CAST(CASE WHEN sum(r.c2) IS NULL THEN 0 ELSE 1 END AS bigint), coalesce(sum(r.c2), 0) FROM (SELECT "name" FROM "n4"."signal") AS l(c1) FULL JOIN (SELECT "name", "height" FROM "n4"."place") AS r(c1, c2) ON (l.c1 = r.c1) GROUP BY 1"#,
        ),
        (
            "SELECT town, count(*), max(eid) FROM place RIGHT JOIN signal USING (name) GROUP BY town ORDER BY town",
            r#"SELECT l.c2, count(*), max(r.c1 COLLATE "C") FROM (SELECT "name", "town" FROM "n4"."place") AS l(c1, c2) RIGHT JOIN (SELECT "eid", "name" FROM "n4"."signal") AS r(c1, c2) ON (l.c1 = r.c2) GROUP BY 1"#,
        ),
        (
            "SELECT eid FROM signal WHERE name IN (SELECT name FROM place WHERE town = 'Bonn') ORDER BY eid",
            r#"SELECT l.c1 FROM (SELECT "eid", "name" FROM "n4"."signal") AS l(c1, c2) WHERE (EXISTS (SELECT 1 FROM (SELECT "name" FROM "n4"."place" WHERE ("town" = 'Bonn'::text)) AS r(c1) WHERE (l.c2 = r.c1)))"#,
        ),
        (
            "SELECT count(*) FROM signal s WHERE NOT EXISTS (SELECT FROM place p WHERE p.name = s.name)",
            r#"SELECT count(*) FROM (SELECT "name" FROM "n4"."signal") AS l(c1) WHERE (NOT EXISTS (SELECT 1 FROM (SELECT "name" FROM "n4"."place") AS r(c1) WHERE (l.c1 = r.c1)))"#,
        ),
        (
            "SELECT a.name, b.name FROM place a JOIN place b ON a.height = b.height AND a.name < b.name",
            r#"SELECT l.c1, r.c1 FROM (SELECT "name", "height" FROM "n4"."place") AS l(c1, c2) JOIN (SELECT "name", "height" FROM "n4"."place") AS r(c1, c2) ON (l.c2 = r.c2) AND (l.c1 < r.c1 COLLATE "C")"#,
        ),
        (
            "SELECT town, eid FROM signal JOIN place USING (name) ORDER BY eid DESC, town LIMIT 3",
            r#"SELECT r.c2, l.c1 FROM (SELECT "eid", "name" FROM "n4"."signal") AS l(c1, c2) JOIN (SELECT "name", "town" FROM "n4"."place") AS r(c1, c2) ON (l.c2 = r.c1) ORDER BY l.c1 COLLATE "C" DESC NULLS FIRST, r.c2 COLLATE "C" ASC NULLS LAST LIMIT 3"#,
        ),
        (
            "SELECT count(*) FROM (SELECT eid FROM signal JOIN place USING (name) LIMIT 4) AS part",
            r#"SELECT  FROM (SELECT "name" FROM "n4"."signal") AS l(c1) JOIN (SELECT "name" FROM "n4"."place") AS r(c1) ON (l.c1 = r.c1) LIMIT 4"#,
        ),
        (
            "SELECT p.town, s.eid FROM signal s JOIN place p USING (name) JOIN signal t ON t.eid = s.eid AND t.ok WHERE p.height > 100 ORDER BY 2, 1",
            r#"SELECT l.c4, l.c1 FROM (SELECT l.c1, l.c2, r.c1, r.c2 FROM (SELECT "eid", "name" FROM "n4"."signal") AS l(c1, c2) JOIN (SELECT "name", "town" FROM "n4"."place" WHERE ("height" > '100'::numeric)) AS r(c1, c2) ON (l.c2 = r.c1)) AS l(c1, c2, c3, c4) JOIN (SELECT "eid" FROM "n4"."signal" WHERE "ok") AS r(c1) ON (l.c1 = r.c1)"#,
        ),
        (
            "SELECT count(*), sum(height) FROM signal JOIN place USING (name) WHERE ok OR town = 'Bonn'",
            r#"SELECT count(*), CAST(CASE WHEN sum(r.c3) IS NULL THEN 0 ELSE 1 END AS bigint), coalesce(sum(r.c3), 0) FROM (SELECT "name", "ok" FROM "n4"."signal") AS l(c1, c2) JOIN (SELECT "name", "town", "height" FROM "n4"."place") AS r(c1, c2, c3) ON (l.c1 = r.c1) AND (l.c2 OR (r.c2 = 'Bonn'::text))"#,
        ),
    ] {
        same(&setting, query).await;
        assert_eq!(asked(&setting, query).await, [sql], "{query}");
    }
    for query in [
        // What a row that is not there would have is made here.
        "SELECT s.eid, p.h FROM signal s LEFT JOIN (SELECT name, coalesce(town, '?') AS h FROM place) p ON s.name = p.name ORDER BY 1, 2 LIMIT 9",
        "SELECT name FROM place WHERE height NOT IN (SELECT height FROM place WHERE town IS NOT NULL)",
        "SELECT town, avg(v) FROM hist JOIN signal USING (eid) JOIN place USING (name) GROUP BY town ORDER BY town",
        "SELECT count(*) FROM signal a JOIN signal b USING (eid) JOIN hist USING (eid)",
    ] {
        same(&setting, query).await;
    }
}

/// As any table of the server, unless it may be left out of the answer while the other one may not.
#[tokio::test]
async fn one_node_of_a_table_is_joined_there() {
    let Some(setting) = start().await else { return };
    let there =
        "CREATE TABLE n1.town AS SELECT x AS site, 'town ' || x AS town FROM generate_series(1, 4) AS x;
         CREATE VIEW whole.town AS SELECT * FROM n1.town";
    setting.remote.batch_execute(there).await.unwrap();
    let here = "CREATE FOREIGN TABLE town (site int, town text) SERVER n1 OPTIONS (schema_name 'n1')";
    setting.client.batch_execute(here).await.unwrap();
    for query in [
        "SELECT town, count(*), min(v) FROM hist JOIN town USING (site) WHERE __spd_url = '/n1/' GROUP BY town ORDER BY town",
        "SELECT t.town, h.__spd_url, h.n FROM town t JOIN hist h ON h.site = t.site AND h.__spd_url = '/n1/' ORDER BY h.at LIMIT 4",
        "SELECT count(*) FROM hist WHERE __spd_url = '/n1/' AND site IN (SELECT site FROM town WHERE town > 'town 1')",
    ] {
        same(&setting, query).await;
        let sql = asked(&setting, query).await;
        let is_joined = |sql: &str| sql.contains(" JOIN ") || sql.contains("EXISTS");
        assert!(sql.len() == 1 && is_joined(&sql[0]), "{query}: {sql:#?}");
        setting.client.batch_execute("SET on_dead_node = skip").await.unwrap();
        let sql = asked(&setting, query).await;
        assert!(sql.len() == 2 && !sql.iter().any(|sql| is_joined(sql)), "{query}: {sql:#?}");
        setting.client.batch_execute("RESET on_dead_node").await.unwrap();
    }
    let chosen = asked(&setting, "SELECT count(*) FROM hist IN ('/n1/') AS h JOIN town USING (site)").await;
    assert!(chosen.len() == 1 && chosen[0].contains(" JOIN "), "{chosen:#?}");
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
        // What is cast to be compared here is compared as it is there.
        (
            "SELECT sum(n) FROM hist WHERE day < date '2020-01-03' + interval '1 day' AND timestamp '2020-01-02' <= day",
            vec![],
        ),
        (
            "SELECT max(at) FROM hist WHERE n = 3000000000 OR n IN (1::bigint, 2, 3, 4) OR n::bigint = b",
            vec![],
        ),
        // A limit counts what is joined.
        (
            "SELECT count(*) FROM (SELECT h.eid FROM hist h JOIN signal s ON s.eid = h.eid LIMIT 4) AS part",
            vec![],
        ),
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

/// What the nodes of `hist` were asked in the last query.
async fn asked_in_the_end(setting: &Setting) -> String {
    let asked = "SELECT DISTINCT replace(replace(remote_sql, '\"n2\"', '\"n1\"'), '\"n3\"', '\"n1\"')
                 FROM tidemill.last_query_nodes WHERE node LIKE '/n_/' AND remote_sql LIKE '%hist%'";
    let asked = rows(&setting.client, asked).await;
    assert_eq!(asked.len(), 1, "{asked:?}");
    asked[0][0].clone()
}

#[tokio::test]
async fn keys_of_one_side_go_to_the_servers_of_the_other() {
    let Some(setting) = start().await else { return };
    setting.client.batch_execute("SET foreign_dynamic_filter_wait = '60s'").await.unwrap();
    setting.client.batch_execute("CREATE TABLE wanted (eid text, free numeric)").await.unwrap();
    let fill = "INSERT INTO wanted VALUES ('sensor 3', 1.5), ('sensor 4', 2.250), ('none', NULL)";
    setting.client.batch_execute(fill).await.unwrap();
    setting
        .remote
        .batch_execute(&format!("CREATE TABLE whole.wanted (eid text, free numeric); {fill}"))
        .await
        .unwrap();
    for (query, sql) in [
        (
            "SELECT h.eid, n FROM wanted w JOIN hist h ON w.eid = h.eid WHERE w.free > 2 ORDER BY h.at LIMIT 5",
            r#"SELECT "eid", "at", "n" FROM "n1"."hist" WHERE ("eid" IN ('sensor 4'::text))"#,
        ),
        (
            "SELECT count(*), sum(n) FROM hist WHERE free IN (SELECT free FROM wanted)",
            r#"SELECT "n", "free" FROM "n1"."hist" WHERE ("free" IN ('1.5'::numeric, '2.25'::numeric))"#,
        ),
        (
            "SELECT w.free, avg(v) FROM wanted w JOIN hist h USING (eid) GROUP BY w.free ORDER BY w.free",
            r#"SELECT "eid", "v" FROM "n1"."hist" WHERE ("eid" IN ('sensor 3'::text, 'sensor 4'::text, 'none'::text))"#,
        ),
        (
            "SELECT count(*) FROM (SELECT 'sensor ' || x AS eid FROM generate_series(1, 12) AS x) s JOIN hist USING (eid)",
            r#"SELECT "eid", count(*) FROM "n1"."hist" WHERE ("eid" = ANY ('{"sensor 1","sensor 2","sensor 3","sensor 4","sensor 5","sensor 6","sensor 7","sensor 8","sensor 9","sensor 10","sensor 11","sensor 12"}'::text[])) GROUP BY 1"#,
        ),
        (
            "SELECT count(*) FROM wanted w JOIN hist h ON (w.eid, w.free) = (h.eid, h.free)",
            r#"SELECT "eid", "free", count(*) FROM "n1"."hist" WHERE (("eid", "free") IN (SELECT * FROM unnest('{"sensor 3","sensor 4"}'::text[], '{1.5,2.25}'::numeric[]))) GROUP BY 1, 2"#,
        ),
    ] {
        let wanted = rows(&setting.remote, query).await;
        assert_eq!(rows(&setting.client, query).await, wanted, "{query}");
        assert_eq!(asked_in_the_end(&setting).await, sql, "{query}");
        same(&setting, query).await;
    }
    // Nobody waits for what takes long.
    setting.client.batch_execute("SET foreign_dynamic_filter_wait = 0").await.unwrap();
    let query =
        "SELECT count(*) FROM hist WHERE eid IN (SELECT eid FROM wanted WHERE pg_sleep(0.2) IS NOT NULL)";
    assert_eq!(rows(&setting.client, query).await, [["150"]], "{query}");
    assert_eq!(asked_in_the_end(&setting).await, r#"SELECT "eid" FROM "n1"."hist""#);
}

/// The last query's text, without the numbers of bytes that are not shown.
fn without_counts(asked: &str) -> String {
    let parts = asked.split(" … ").enumerate();
    parts.map(|(i, part)| if i == 1 { " … " } else { part }).collect()
}

/// The keys of a series, as the nodes are asked for them.
async fn told_of_keys(setting: &Setting, keys: &str, condition: &str) -> String {
    let query = format!(
        "SELECT count(*), sum(h.n), min(h.eid) FROM (SELECT {keys} FROM generate_series(-1300, 3000) AS x) AS s
         JOIN hist AS h ON {condition}"
    );
    setting.client.batch_execute("SET enable_foreign_eager_aggregates = off").await.unwrap();
    assert_eq!(rows(&setting.client, &query).await, rows(&setting.remote, &query).await, "{query}");
    let told = asked_in_the_end(setting).await;
    same(setting, &query).await;
    told
}

#[tokio::test]
async fn many_keys_are_a_relation_on_the_servers() {
    let Some(setting) = start().await else { return };
    setting.client.batch_execute("SET foreign_dynamic_filter_wait = '60s'").await.unwrap();
    for (keys, condition, starts, ends) in [
        ("x AS k", "s.k = h.n", r#"("n" = ANY ('{-1300,-1299,"#, "2999,3000}'::integer[]))"),
        (
            "x * 3000000000000000::bigint AS k",
            "s.k = h.b",
            r#"("b" = ANY ('{-3900000000000000000,"#,
            "}'::bigint[]))",
        ),
        // The server would compare arrays of another type than the column's value by value.
        ("x::bigint AS k", "s.k = h.n", r#"("n" IN (SELECT unnest('{-1300,-1299,"#, "3000}'::bigint[])))"),
        (
            "x * 0.250 AS k",
            "s.k = h.free",
            r#"("free" = ANY ('{-325,-324.75,-324.5,"#,
            "749.75,750}'::numeric[]))",
        ),
        (
            r#"CASE x WHEN 9 THEN E'\'\\",{}' WHEN 8 THEN NULL ELSE 'sensor ' || x END AS k"#,
            "s.k = h.eid",
            r#"("eid" = ANY (E'{"sensor -1300","sensor -1299","#,
            r#""sensor 3000"}'::text[]))"#,
        ),
        (
            "timestamp '2020-01-01' + x * interval '7 minutes' AS k",
            "s.k = h.at",
            r#"("at" = ANY ('{"2019-12-25 16:20:00","#,
            r#""2020-01-15 14:00:00"}'::timestamp without time zone[]))"#,
        ),
        (
            "nullif(x % 17, 3) AS k, CASE WHEN x <> 7 THEN 'sensor ' || x % 40 END AS t, x % 2 AS other",
            "(s.k, s.t) = (h.n, h.eid) AND h.site = s.other",
            r#"(("n", "eid", "site") IN (SELECT * FROM unnest('{"#,
            "}'::integer[])))",
        ),
    ] {
        let told = without_counts(&told_of_keys(&setting, keys, condition).await);
        let (_, told) = told.split_once(" WHERE ").unwrap();
        assert!(told.starts_with(starts) && told.ends_with(ends), "{keys}, {condition}: {told}");
    }
}

/// What servers know of their tables decides where it is not plain what is cheaper.
#[tokio::test]
async fn what_is_worth_while_is_chosen_by_statistics() {
    let Some(setting) = start().await else { return };
    setting.client.batch_execute("SET foreign_dynamic_filter_wait = '60s'").await.unwrap();
    setting.remote.batch_execute("VACUUM ANALYZE n1.hist, n2.hist, n3.hist").await.unwrap();
    let part =
        "(SELECT x * 3000000000000000::bigint AS b, x % 7 AS g FROM generate_series(1, 900) AS x) AS s";
    for (query, sql) in [
        // As many groups as rows are not folded there, a few are; of two columns there are as many as of one at least.
        ("SELECT b, sum(n) FROM hist GROUP BY b ORDER BY b".into(), r#"SELECT "n", "b" FROM "n1"."hist""#),
        (
            "SELECT n, max(b) FROM hist GROUP BY n ORDER BY n".into(),
            r#"SELECT "n", max("b") FROM "n1"."hist" GROUP BY 1"#,
        ),
        ("SELECT DISTINCT site, b FROM hist ORDER BY b".into(), r#"SELECT "site", "b" FROM "n1"."hist""#),
        (
            format!("SELECT g, sum(n) FROM {part} JOIN hist USING (b) GROUP BY g ORDER BY g"),
            r#"SELECT "n", "b" FROM "n1"."hist""#,
        ),
        (
            "SELECT name, sum(n) FROM hist JOIN signal USING (eid) GROUP BY name ORDER BY name".into(),
            r#"SELECT "eid", sum("n"), false FROM "n1"."hist" GROUP BY 1"#,
        ),
    ] {
        same(&setting, &query).await;
        assert_eq!(asked(&setting, &query).await[0], sql, "{query}");
    }
    // More keys than a list has are sent if they leave out half of the values. It may be known before.
    let wanted = "CREATE TABLE wanted AS SELECT x FROM generate_series(1, 2001) AS x";
    setting.client.batch_execute(wanted).await.unwrap();
    for (values, is_sent) in [(4100, true), (3900, false)] {
        let there = format!(
            "CREATE TABLE n4.t{values} AS SELECT x AS k FROM generate_series(1, {values}) AS x; ANALYZE n4.t{values}"
        );
        setting.remote.batch_execute(&there).await.unwrap();
        let here = format!("CREATE FOREIGN TABLE t{values} (k int) SERVER n4 OPTIONS (schema_name 'n4')");
        setting.client.batch_execute(&here).await.unwrap();
        let query = format!("SELECT count(*) FROM generate_series(1, 2001) AS x JOIN t{values} ON k = x");
        assert_eq!(rows(&setting.client, &query).await, [["2001"]]);
        let asked = "SELECT remote_sql FROM tidemill.last_query_nodes";
        let asked = rows(&setting.client, asked).await.concat().concat();
        assert_eq!((asked.contains("= ANY"), asked.contains(">= 1")), (is_sent, !is_sent), "{asked}");
        let query = query.replace("generate_series(1, 2001) AS x", "wanted");
        assert_eq!(rows(&setting.client, &query).await, [["2001"]]);
        assert_eq!(waits_for_keys(&setting, &query).await, is_sent, "{query}");
    }
}

async fn waits_for_keys(setting: &Setting, query: &str) -> bool {
    let lines = rows(&setting.client, &format!("EXPLAIN {query}")).await.concat();
    lines.iter().any(|line| line.contains("Dynamic Filter: "))
}

/// Another Tidemill, which is told keys one by one: so many, and of more the range.
#[tokio::test]
async fn how_many_keys_are_sent_is_bounded() {
    let Some(setting) = start().await else { return };
    let dir = tempfile::tempdir().unwrap();
    let west = Server::start(dir.path());
    let there = "CREATE TABLE t AS SELECT x % 500 AS k FROM generate_series(0, 3000) AS x";
    west.connect().await.batch_execute(there).await.unwrap();
    let here = format!(
        "SET foreign_dynamic_filter_wait = '60s';
         CREATE SERVER west FOREIGN DATA WRAPPER tidemill_fdw OPTIONS (host '127.0.0.1', port '{}', dbname 'tidemill');
         CREATE USER MAPPING FOR PUBLIC SERVER west OPTIONS (user 'postgres');
         CREATE FOREIGN TABLE t (k int) SERVER west;
         CREATE TABLE most AS SELECT 'sensor ' || x AS eid FROM generate_series(1, 200000) AS x;
         CREATE TABLE more AS SELECT 'sensor ' || x AS eid FROM generate_series(1, 200001) AS x",
        west.port
    );
    setting.client.batch_execute(&here).await.unwrap();
    for (keys, starts) in [(2000, "IN (1, 2, "), (2001, ">= 1) AND (\"k\" <= 2001)")] {
        let query = format!("SELECT count(*) FROM generate_series(1, {keys}) AS x JOIN t ON k = x");
        assert_eq!(rows(&setting.client, &query).await, [["2994"]]);
        let asked = rows(&setting.client, "SELECT remote_sql FROM tidemill.last_query_nodes").await;
        let wanted = format!("SELECT \"k\", count(*) FROM \"public\".\"t\" WHERE (\"k\" {starts}");
        assert!(asked[0][0].starts_with(&wanted), "{asked:?}");
    }
    // PostgreSQL gets more. Nobody waits for what are too many in any case.
    for (keys, is_sent) in [(200_000, true), (200_001, false)] {
        let query = format!("SELECT count(*) FROM generate_series(1, {keys}) AS x JOIN hist ON n = x");
        assert_eq!(rows(&setting.client, &query).await, rows(&setting.remote, &query).await);
        let asked = asked_in_the_end(&setting).await;
        assert_eq!(asked.contains("= ANY"), is_sent, "{asked}");
    }
    for (keys, waits) in [("most", true), ("more", false)] {
        let query = format!("SELECT count(*) FROM {keys} JOIN hist USING (eid)");
        assert_eq!(waits_for_keys(&setting, &query).await, waits, "{query}");
    }
}
