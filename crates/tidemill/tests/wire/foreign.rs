//! Tables of a real PostgreSQL: the rows, what is left to that server, and what is said when something is wrong.

use std::time::{Duration, Instant};

use tokio_postgres::{Client, NoTls};

use crate::postgres::Postgres;
use crate::server::{Server, failure, rows};

/// A node with a table, and a server of ours that knows it as `s`.
struct Setting {
    node: Postgres,
    remote: Client,
    client: Client,
    server: Server,
    dir: tempfile::TempDir,
}

const TABLE: &str =
    "CREATE TABLE t (id int, name text, x float8, n numeric, at timestamptz, day date, ok bool, u uuid,
                     b bytea, tags text[], doc jsonb, span interval, c char(3), v varchar(5) COLLATE \"en-x-icu\");
    INSERT INTO t SELECT i, CASE WHEN i % 7 <> 0 THEN 'name ' || i END, i / 8.0, i / 3.0::numeric,
        timestamptz '2020-01-01 UTC' + i * interval '1 hour', date '2020-01-01' + i % 400, i % 2 = 0,
        ('00000000-0000-0000-0000-' || lpad(i::text, 12, '0'))::uuid, int4send(i), ARRAY['a', i::text, NULL],
        jsonb_build_object('i', i), i * interval '1 minute', 'x' || i % 3, 'v' || i % 5
    FROM generate_series(1, 5000) AS i;
    INSERT INTO t (id, x, n) VALUES (5001, 'NaN', 'NaN'), (5002, '-0', 0), (5003, 'Infinity', -1e-20)";

async fn start() -> Option<Setting> {
    let node = Postgres::start()?;
    let remote = node.connect("postgres").await;
    remote.batch_execute(TABLE).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let client = server.connect().await;
    let create = format!(
        "CREATE SERVER s FOREIGN DATA WRAPPER postgres_fdw
             OPTIONS (host '127.0.0.1', port '{}', dbname 'postgres');
         CREATE USER MAPPING FOR CURRENT_USER SERVER s OPTIONS (user 'postgres');
         IMPORT FOREIGN SCHEMA public FROM SERVER s INTO public",
        node.port
    );
    client.batch_execute(&create).await.unwrap();
    Some(Setting { node, remote, client, server, dir })
}

/// The remote SQL of a query.
async fn remote_sql(client: &Client, query: &str) -> String {
    let lines = rows(client, &format!("EXPLAIN {query}")).await.concat();
    let found: Vec<_> = lines.iter().filter_map(|line| line.trim().strip_prefix("Remote SQL: ")).collect();
    found.join("; ")
}

/// Each gives what it gives there.
#[tokio::test]
async fn rows_are_those_of_the_server() {
    let Some(setting) = start().await else { return };
    let Setting { remote, client, .. } = &setting;
    for set in ["SET timezone = 'UTC'", "SET extra_float_digits = 1"] {
        remote.batch_execute(set).await.unwrap();
        client.batch_execute(set).await.unwrap();
    }
    for query in [
        "SELECT * FROM t ORDER BY id",
        "SELECT count(*), sum(id), count(name) FROM t",
        "SELECT ok, count(*), avg(id) FROM t GROUP BY ok ORDER BY ok",
        "SELECT id FROM t WHERE id > 4990 ORDER BY id",
        "SELECT id FROM t WHERE x >= 625 ORDER BY id",
        "SELECT id FROM t WHERE x = 0 OR x = 'NaN' ORDER BY id",
        "SELECT count(*) FROM t WHERE name < 'name 2'",
        "SELECT count(*) FROM t WHERE name IS NULL",
        "SELECT count(*) FROM t WHERE name <> 'name 5'",
        "SELECT count(*) FROM t WHERE name IS DISTINCT FROM 'name 5'",
        "SELECT count(*) FROM t WHERE NOT (id < 10 AND ok)",
        "SELECT count(*) FROM t WHERE ok",
        "SELECT id FROM t WHERE id IN (3, 5, NULL, 7) ORDER BY id",
        "SELECT count(*) FROM t WHERE id NOT IN (3, 5, NULL)",
        "SELECT count(*) FROM t WHERE name LIKE '%99' AND id BETWEEN 1000 AND 4000",
        "SELECT id FROM t WHERE name = E'na\\\\me''s' OR id = -1 OR id = 9",
        "SELECT count(*) FROM t WHERE at < '2020-02-01 00:00+01' AND day >= '2020-01-05'",
        "SELECT id FROM t WHERE u = '00000000-0000-0000-0000-000000000077'",
        "SELECT id FROM t WHERE b = '\\x0000004d'",
        "SELECT count(*) FROM t WHERE n > 1000",
        "SELECT count(*) FROM t WHERE v = 'v3' AND c = 'x1'",
        "SELECT count(*) FROM t WHERE span > '1 day'",
        "SELECT count(*) FROM t AS a JOIN t AS b ON a.id = b.id + 1 WHERE a.id < 100",
        "SELECT count(*) FROM t WHERE id < (SELECT max(id) / 2 FROM t)",
        "SELECT count(*) FROM t WHERE false",
        "SELECT id FROM t ORDER BY id DESC LIMIT 3",
        "SELECT count(*) FROM (SELECT * FROM t LIMIT 1234 OFFSET 2) AS part",
        "SELECT min(id), max(id), avg(id), sum(id), count(*) FROM t WHERE id < 0",
        "SELECT ok, min(name), max(name), min(at), max(day), count(u) FROM t GROUP BY ok ORDER BY ok",
        "SELECT day, c, count(*), avg(id) FROM t GROUP BY day, c ORDER BY day, c LIMIT 30",
        "SELECT count(*) FROM (SELECT DISTINCT day, ok FROM t) AS d",
        "SELECT v, sum(x) FROM t WHERE id <= 5000 GROUP BY v HAVING count(*) > 10 ORDER BY v",
        "SELECT sum(x), avg(x), max(x) FROM t WHERE id <> 5001",
        "SELECT sum(x), avg(x), max(x), min(x) FROM t",
        "SELECT x, count(*) FROM t WHERE x > 0 AND x < 1 GROUP BY x ORDER BY x",
        "SELECT n, count(*) FROM t WHERE id < 5 GROUP BY n ORDER BY n",
        "SELECT count(*) FILTER (WHERE ok), sum(DISTINCT id) FROM t",
        "SELECT sum(id::bigint), avg(n), stddev(x) FROM t WHERE id <= 5000",
        "SELECT id, x FROM t ORDER BY x DESC NULLS LAST, id LIMIT 4",
        "SELECT id, name FROM t ORDER BY name DESC, id DESC LIMIT 4",
        "SELECT id, name FROM t WHERE id < 500 ORDER BY name NULLS FIRST, id LIMIT 4 OFFSET 70",
        "SELECT id, n FROM t ORDER BY n DESC LIMIT 4",
        "SELECT max(id) FROM (SELECT id FROM t ORDER BY id LIMIT 7) AS few",
        "SELECT name FROM t GROUP BY name ORDER BY name DESC NULLS LAST LIMIT 3",
    ] {
        let wanted = rows(remote, query).await;
        for off in
            ["enable_hashjoin", "enable_foreign_filters", "enable_foreign_aggregates", "enable_foreign_top_k"]
        {
            client.batch_execute(&format!("SET {off} = off")).await.unwrap();
            assert_eq!(rows(client, query).await, wanted, "without {off}: {query}");
            client.batch_execute(&format!("RESET {off}")).await.unwrap();
        }
    }
}

#[tokio::test]
async fn what_means_the_same_there_is_left_to_the_server() {
    let Some(setting) = start().await else { return };
    let Setting { client, .. } = &setting;
    for (query, sql) in [
        ("SELECT id FROM t", r#"SELECT "id" FROM "public"."t""#),
        ("SELECT count(*) FROM t WHERE ok", r#"SELECT count(*) FROM "public"."t" WHERE "ok""#),
        (
            "SELECT name, avg(x), max(name) FROM t GROUP BY name HAVING avg(x) > 3",
            r#"SELECT "name", coalesce(sum("x"), 0), count("x"), coalesce(sum("x") IN ('Infinity', '-Infinity'), false), max("name" COLLATE "C") FROM "public"."t" GROUP BY 1"#,
        ),
        (
            "SELECT id FROM t ORDER BY name, x DESC LIMIT 3 OFFSET 2",
            r#"SELECT "id", "name", "x" FROM "public"."t" ORDER BY "name" ASC NULLS LAST, "x" DESC NULLS FIRST LIMIT 5"#,
        ),
        // Only what is in another order there is told to be in that of the bytes.
        (
            "SELECT id FROM t ORDER BY v, id LIMIT 3",
            r#"SELECT "id", "v" FROM "public"."t" ORDER BY "v" COLLATE "C" ASC NULLS LAST, "id" ASC NULLS LAST LIMIT 3"#,
        ),
        // Numerics that are equal look different, and what a group shows is one of them.
        ("SELECT n, count(*) FROM t GROUP BY n", r#"SELECT "n", count(*), "n" FROM "public"."t" GROUP BY 1"#),
        (
            "SELECT id FROM t WHERE n = 1 LIMIT 3",
            r#"SELECT "id" FROM "public"."t" WHERE ("n" = '1'::numeric) LIMIT 3"#,
        ),
        ("SELECT sum(id) FROM t WHERE upper(name) = 'A'", r#"SELECT "id", "name" FROM "public"."t""#),
        ("SELECT count(DISTINCT id) FROM t", r#"SELECT "id" FROM "public"."t""#),
        (
            "SELECT id FROM t WHERE name < 'b' AND x > 1.5 AND upper(name) = 'A'",
            r#"SELECT "id", "name" FROM "public"."t" WHERE ("name" < 'b'::text COLLATE "C") AND ("x" > '1.5'::double precision)"#,
        ),
        (
            "SELECT id FROM t WHERE ok AND NOT (id = 1 OR name IS NULL) LIMIT 3 OFFSET 1",
            r#"SELECT "id" FROM "public"."t" WHERE "ok" AND ("id" <> 1) AND ("name" IS NOT NULL) LIMIT 4"#,
        ),
        // What is compared in another way here stays here; so does LIMIT then.
        ("SELECT id FROM t WHERE c = 'x' LIMIT 3", r#"SELECT "id", "c" FROM "public"."t""#),
        ("SELECT id FROM t WHERE random() < 2", r#"SELECT "id" FROM "public"."t""#),
    ] {
        assert_eq!(remote_sql(client, query).await, sql, "{query}");
    }
    let off = "SET enable_foreign_filters = off; SET enable_foreign_aggregates = off; SET enable_foreign_top_k = off";
    client.batch_execute(off).await.unwrap();
    for query in
        ["SELECT id FROM t WHERE id = 1", "SELECT max(id) FROM t", "SELECT id FROM t ORDER BY id LIMIT 1"]
    {
        assert_eq!(remote_sql(client, query).await, r#"SELECT "id" FROM "public"."t""#, "{query}");
    }
}

#[tokio::test]
async fn definitions_last_and_connections_are_used_again() {
    let Some(mut setting) = start().await else { return };
    let Setting { remote, client, server, dir, .. } = &mut setting;
    client
        .batch_execute(
            "CREATE FOREIGN TABLE named (\"Key\" int OPTIONS (column_name 'id'), label text OPTIONS (column_name 'name'))
                 SERVER s OPTIONS (table_name 't');
             CREATE VIEW v AS SELECT \"Key\" AS k, label FROM named WHERE \"Key\" < 4",
        )
        .await
        .unwrap();
    let three = [["1", "name 1"], ["2", "name 2"], ["3", "name 3"]];
    for _ in 0..20 {
        assert_eq!(rows(client, "SELECT * FROM v ORDER BY k").await, three);
    }
    let ours = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'tidemill' AND state = 'idle'";
    wait_until(remote, ours, "1").await;
    assert_eq!(failure(client, "ALTER FOREIGN TABLE named DROP COLUMN label").await.0, "42703");
    assert_eq!(rows(client, "SELECT * FROM v ORDER BY k").await, three);
    client.batch_execute("ALTER FOREIGN TABLE named RENAME TO other").await.unwrap();
    server.kill();
    let server = Server::start(dir.path());
    let client = &server.connect().await;
    assert_eq!(rows(client, "SELECT * FROM v ORDER BY k").await, three);
    assert_eq!(failure(client, "DROP FOREIGN TABLE other").await.0, "2BP01");
    client.batch_execute("DROP SERVER s CASCADE").await.unwrap();
    assert_eq!(failure(client, "SELECT * FROM v").await.0, "42P01");
    assert_eq!(failure(client, "SELECT * FROM t").await.0, "42P01");
}

/// One clear error that names the server; the others go on.
#[tokio::test]
async fn what_is_wrong_is_told_with_the_name_of_the_server() {
    let Some(setting) = start().await else { return };
    let Setting { node, client, .. } = &setting;
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let options = format!("host '127.0.0.1', port '{}'", node.port);
    for (name, options, detail) in [
        ("no_port", format!("host '127.0.0.1', port '{free}'"), "Connection refused"),
        ("no_host", "host 'no.such.host.invalid'".into(), "failed"),
        ("no_db", format!("{options}, dbname 'nope'"), "database \"nope\" does not exist"),
        ("no_user", options.clone(), "role \"nobody\" does not exist"),
    ] {
        let user = if name == "no_user" { "nobody" } else { "postgres" };
        let sql = format!(
            "CREATE SERVER {name} FOREIGN DATA WRAPPER postgres_fdw OPTIONS ({options});
             CREATE USER MAPPING FOR PUBLIC SERVER {name} OPTIONS (user '{user}', password 'hush');
             CREATE FOREIGN TABLE of_{name} (id int) SERVER {name}"
        );
        client.batch_execute(&sql).await.unwrap();
        let error = client.simple_query(&format!("SELECT * FROM of_{name}")).await.unwrap_err();
        let error = error.as_db_error().unwrap();
        assert_eq!(error.code().code(), "08001");
        assert_eq!(error.message(), format!("could not connect to server \"{name}\""));
        assert!(error.detail().unwrap().contains(detail), "{name}: {error:?}");
        assert!(!format!("{error:?}").contains("hush"));
    }
    for (query, wanted) in [
        (
            "SELECT option_name, option_value FROM information_schema.user_mapping_options
             WHERE foreign_server_name = 'no_user' ORDER BY 1",
            vec![["password", "NULL"], ["user", "nobody"]],
        ),
        (
            "SELECT foreign_server_name, option_value FROM information_schema.foreign_server_options
             WHERE option_name = 'dbname' AND option_value = 'nope'",
            vec![["no_db", "nope"]],
        ),
        (
            "SELECT authorization_identifier, foreign_server_name FROM information_schema.user_mappings
             WHERE foreign_server_name = 'no_db'",
            vec![["PUBLIC", "no_db"]],
        ),
    ] {
        assert_eq!(rows(client, query).await, wanted, "{query}");
    }
    client
        .batch_execute(
            "CREATE FOREIGN TABLE no_table (id int) SERVER s;
             CREATE FOREIGN TABLE no_column (id int, nope int) SERVER s OPTIONS (table_name 't');
             CREATE FOREIGN TABLE other_type (id int, name int, x real) SERVER s OPTIONS (table_name 't');
             CREATE FOREIGN TABLE no_schema (id int) SERVER s OPTIONS (schema_name 'nope')",
        )
        .await
        .unwrap();
    let options = "SELECT foreign_table_name, option_value FROM information_schema.foreign_table_options
                   WHERE option_name = 'schema_name' AND option_value = 'nope'";
    assert_eq!(rows(client, options).await, [["no_schema", "nope"]]);
    for (query, state, message) in [
        (
            "SELECT * FROM no_table",
            "42P01",
            "foreign table \"no_table\" does not fit server \"s\": relation \"public.no_table\" does not exist",
        ),
        (
            "SELECT nope FROM no_column",
            "42703",
            "foreign table \"no_column\" does not fit server \"s\": column \"nope\" does not exist",
        ),
        (
            "SELECT * FROM other_type",
            "HV004",
            "column \"name\" of foreign table \"other_type\" is of type integer, but column \"name\" of \"public\".\"t\" on server \"s\" is of type text",
        ),
        ("SELECT id FROM other_type WHERE x > 1", "HV004", ""),
        (
            "SELECT * FROM no_schema",
            "42P01",
            "foreign table \"no_schema\" does not fit server \"s\": relation \"nope.no_schema\" does not exist",
        ),
    ] {
        let (code, told) = failure(client, query).await;
        assert_eq!(code, state, "{query}: {told}");
        assert!(told.contains(message), "{query}: {told}");
    }
    // What is computed there is called by its name there.
    setting.remote.batch_execute("CREATE TABLE far AS SELECT timestamp '294276-12-31' AS at").await.unwrap();
    client.batch_execute("CREATE FOREIGN TABLE far (at timestamp) SERVER s").await.unwrap();
    let query = "SELECT date_trunc('month', at), count(*) FROM far GROUP BY 1";
    let error = client.simple_query(query).await.unwrap_err();
    let place = error.as_db_error().and_then(|error| error.where_()).unwrap_or_default();
    assert!(place.contains(r#"column date_trunc('month'::text, "at")"#), "{error:?}");
    client.batch_execute("CREATE SERVER lonely FOREIGN DATA WRAPPER postgres_fdw").await.unwrap();
    let why = "SELECT coalesce(error, '') FROM tidemill.nodes WHERE server = 'lonely'";
    wait_until(client, why, "user mapping not found for \"postgres\"").await;
    assert_eq!(rows(client, "SELECT count(id) FROM other_type").await, [["5003"]]);
    assert_eq!(rows(client, "SELECT count(id) FROM no_column").await, [["5003"]]);
}

/// Texts of a collation in which others are equal than by their bytes.
#[tokio::test]
async fn texts_are_compared_by_their_bytes_whatever_their_collation() {
    let Some(setting) = start().await else { return };
    let Setting { remote, client, .. } = &setting;
    let table = |name: &str, collation: &str| {
        format!(
            "CREATE TABLE {name} (id int, a text {collation}, b text, v varchar(9) {collation});
             INSERT INTO {name} VALUES (1, 'a', 'a', 'x'), (2, 'A', 'a', 'X'), (3, 'b', 'B', 'x'), (4, 'B', 'b', 'x '), (5, NULL, 'c', NULL), (6, 'c', 'c', 'Y')"
        )
    };
    let alike = "CREATE COLLATION alike (provider = icu, locale = 'und-u-ks-level2', deterministic = false);";
    remote.batch_execute(&format!("{alike} {}", table("col", "COLLATE alike"))).await.unwrap();
    client
        .batch_execute("IMPORT FOREIGN SCHEMA public LIMIT TO (col) FROM SERVER s INTO public")
        .await
        .unwrap();
    client.batch_execute(&table("ours", "")).await.unwrap();
    for query in [
        "SELECT count(*) FROM TABLE WHERE a = 'a'",
        "SELECT id FROM TABLE WHERE a <> 'a' ORDER BY id",
        "SELECT id FROM TABLE WHERE a IN ('A', 'B') ORDER BY id",
        "SELECT id FROM TABLE WHERE a IN ('A', 'B', 'd', 'e', 'f', 'g', 'h', 'i', 'j', 'k', 'l') ORDER BY id",
        "SELECT id FROM TABLE WHERE a = b OR a IS NOT DISTINCT FROM v ORDER BY id",
        "SELECT id FROM TABLE WHERE a LIKE 'a%' OR strpos(v, 'x') > 0 ORDER BY id",
        "SELECT id FROM TABLE WHERE a || b = 'aa' ORDER BY id",
        "SELECT a, count(*) FROM TABLE GROUP BY a ORDER BY a",
        "SELECT DISTINCT v FROM TABLE ORDER BY v",
        "SELECT count(DISTINCT a), min(a), max(v) FROM TABLE",
        "SELECT a FROM TABLE ORDER BY a DESC NULLS LAST LIMIT 3",
        "SELECT x.id, y.id FROM TABLE AS x JOIN TABLE AS y ON x.a = y.a ORDER BY 1, 2",
        "SELECT x.id, y.id FROM TABLE AS x JOIN TABLE AS y ON x.a = y.b ORDER BY 1, 2",
        "SELECT x.id, y.id FROM ours AS x JOIN TABLE AS y ON x.a = y.a ORDER BY 1, 2",
        "SELECT id FROM TABLE WHERE a IN (SELECT v FROM ours UNION SELECT 'A') ORDER BY id",
        "SELECT o.id, count(*) FROM ours AS o JOIN TABLE AS t USING (a) GROUP BY o.id ORDER BY 1",
    ] {
        let wanted = rows(client, &query.replace("TABLE", "ours")).await;
        assert_eq!(rows(client, &query.replace("TABLE", "col")).await, wanted, "{query}");
    }
    let count = "SELECT count(*) FROM col WHERE";
    for (condition, there) in
        [("a = 'a'", r#"(("a" COLLATE "C") = 'a'::text)"#), ("b = 'a'", r#"("b" = 'a'::text)"#)]
    {
        let found = remote_sql(client, &format!("{count} {condition}")).await;
        assert_eq!(found, format!(r#"SELECT count(*) FROM "public"."col" WHERE {there}"#));
    }
    assert_eq!(client.execute("UPDATE col SET b = 'new' WHERE a = 'b'", &[]).await.unwrap(), 1);
    assert_eq!(client.execute("DELETE FROM col WHERE a = 'A'", &[]).await.unwrap(), 1);
    assert_eq!(
        rows(remote, "SELECT id, b FROM col WHERE id < 4 ORDER BY id").await,
        [["1", "a"], ["3", "new"]]
    );
}

/// Of the columns that a query has to do with, whatever that is, the types are those of the server.
#[tokio::test]
async fn types_are_those_of_the_server_also_where_no_values_come() {
    let Some(setting) = start().await else { return };
    let Setting { remote, client, .. } = &setting;
    let other = Server::start(&setting.dir.path().join("other"));
    let below = other.connect().await;
    remote
        .batch_execute("CREATE TABLE typed (g bigint, n numeric, at timestamptz, m int, x float8, d date)")
        .await
        .unwrap();
    below
        .batch_execute("CREATE TABLE typed (g bigint, n numeric, at timestamptz, m int, x float8, d date)")
        .await
        .unwrap();
    let create = format!(
        "CREATE SERVER west FOREIGN DATA WRAPPER tidemill_fdw OPTIONS (host '127.0.0.1', port '{}', dbname 'tidemill');
         CREATE USER MAPPING FOR PUBLIC SERVER west;
         CREATE FOREIGN TABLE s_typed (g int, n float8, at timestamp, m text, x float8, d date) SERVER s OPTIONS (table_name 'typed');
         CREATE FOREIGN TABLE west_typed (g int, n float8, at timestamp, m text, x float8, d date) SERVER west OPTIONS (table_name 'typed')",
        other.port
    );
    client.batch_execute(&create).await.unwrap();
    for name in ["s", "west"] {
        for (query, column) in [
            ("SELECT count(*) FROM TABLE WHERE g > 100", "g"),
            ("SELECT count(n) FROM TABLE", "n"),
            ("SELECT x FROM TABLE WHERE n = 0.13", "n"),
            ("SELECT extract(hour FROM at)::int, count(*) FROM TABLE GROUP BY 1", "at"),
            ("SELECT at::date FROM TABLE", "at"),
            ("SELECT count(*) FROM TABLE WHERE m = 'ok'", "m"),
            ("SELECT sum(n) FROM TABLE", "n"),
            ("SELECT min(m) FROM TABLE", "m"),
            ("SELECT x FROM TABLE ORDER BY m LIMIT 1", "m"),
            ("SELECT count(*) FROM TABLE AS a JOIN TABLE AS b USING (g)", "g"),
            ("UPDATE TABLE SET x = 1 WHERE g = 5", "g"),
            ("DELETE FROM TABLE WHERE at < '2020-01-01'", "at"),
        ] {
            let query = query.replace("TABLE", &format!("{name}_typed"));
            let (code, told) = failure(client, &query).await;
            let wanted = format!("column \"{column}\" of foreign table \"{name}_typed\" is of type ");
            let there =
                format!("column \"{column}\" of \"public\".\"typed\" on server \"{name}\" is of type ");
            assert!(
                code == "HV004" && told.starts_with(&wanted) && told.contains(&there),
                "{query}: {code} {told}"
            );
        }
        let fits = format!("SELECT count(x) FROM {name}_typed WHERE d > '2020-01-01'");
        assert_eq!(rows(client, &fits).await, [["0"]]);
    }
}

/// Their texts are what is compared, sorted and grouped.
#[tokio::test]
async fn types_that_there_are_none_of_here_are_texts() {
    let Some(setting) = start().await else { return };
    let Setting { client, remote, .. } = &setting;
    remote
        .batch_execute(
            "CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
             CREATE DOMAIN mine AS mood;
             CREATE TABLE odd (id int, m mood, d mine, ip inet, span int4range, moods mood[], bits bit(4), note varchar(5));
             INSERT INTO odd SELECT i, CASE i % 3 WHEN 0 THEN 'sad' WHEN 1 THEN 'ok' ELSE 'happy' END::mood,
                 'ok', ('10.0.0.' || i % 5)::inet, int4range(i, i + 2), ARRAY['sad', 'ok']::mood[], i::bit(4), 'n' || i
             FROM generate_series(1, 12) AS i;
             INSERT INTO odd (id) VALUES (13)",
        )
        .await
        .unwrap();
    client
        .batch_execute("IMPORT FOREIGN SCHEMA public LIMIT TO (odd) FROM SERVER s INTO public")
        .await
        .unwrap();
    let text = "SELECT id, m::text, d::text, host(ip), span::text, moods::text, bits::text, note FROM odd ORDER BY id";
    let ours = "SELECT id, m, d, replace(ip, '/32', ''), span, moods, bits, note FROM odd ORDER BY id";
    assert_eq!(rows(client, ours).await, rows(remote, text).await);
    let queries = [
        (
            "SELECT m, count(*) FROM odd GROUP BY m ORDER BY m",
            r#"SELECT m::text COLLATE "C", count(*) FROM odd GROUP BY 1 ORDER BY 1"#,
        ),
        (
            "SELECT id FROM odd WHERE m = 'ok' AND m >= 'a' ORDER BY id",
            "SELECT id FROM odd WHERE m = 'ok' ORDER BY id",
        ),
        (
            "SELECT id FROM odd WHERE m IN ('sad', 'nope') ORDER BY id",
            "SELECT id FROM odd WHERE m = 'sad' ORDER BY id",
        ),
        (
            "SELECT id, m FROM odd ORDER BY m DESC NULLS LAST, id LIMIT 3",
            r#"SELECT id, m::text FROM odd ORDER BY m::text COLLATE "C" DESC NULLS LAST, id LIMIT 3"#,
        ),
        (
            "SELECT min(m), max(d), count(DISTINCT bits) FROM odd",
            r#"SELECT min(m::text COLLATE "C"), max(d::text COLLATE "C"), count(DISTINCT bits) FROM odd"#,
        ),
        (
            "SELECT count(*) FROM odd AS a JOIN odd AS b USING (m)",
            "SELECT count(*) FROM odd AS a JOIN odd AS b USING (m)",
        ),
        ("SELECT count(*) FROM odd WHERE moods LIKE '{sad%' AND span IS NOT NULL", "SELECT 12"),
    ];
    let off = "SET enable_foreign_filters = off; SET enable_foreign_aggregates = off; SET enable_foreign_top_k = off; SET enable_foreign_joins = off";
    for settings in ["RESET ALL", off] {
        client.batch_execute(settings).await.unwrap();
        for (ours, theirs) in queries {
            assert_eq!(rows(client, ours).await, rows(remote, theirs).await, "{settings}: {ours}");
        }
    }
    client.batch_execute("RESET ALL").await.unwrap();
    texts_of_other_types_are_written(client, remote).await;
    // The binary form of an enum is its text; of the others it is not.
    remote
        .batch_execute("CREATE TABLE moods (id int, m mood); INSERT INTO moods SELECT id, m FROM odd")
        .await
        .unwrap();
    client
        .batch_execute(
            "IMPORT FOREIGN SCHEMA public LIMIT TO (moods) FROM SERVER s INTO public;
             INSERT INTO moods VALUES (14, 'happy'); DELETE FROM moods WHERE m = 'sad'",
        )
        .await
        .unwrap();
    let left = "SELECT count(*), count(*) FILTER (WHERE m = 'happy') FROM moods";
    assert_eq!(rows(remote, left).await, [["10", "5"]]);
    assert_eq!(rows(client, "INSERT INTO moods VALUES (15, 'ok') RETURNING m").await, [["ok"]]);
    assert_eq!(failure(client, "INSERT INTO moods VALUES (16, 'nope')").await.0, "22P02");
}

async fn texts_of_other_types_are_written(client: &Client, remote: &Client) {
    client
        .batch_execute(
            "INSERT INTO odd VALUES (20, 'ok', 'sad', '10.1.0.0/16', '[1,5)', '{ok}', '1010', E'a\\tb');
             INSERT INTO odd (id, ip) VALUES (21, NULL), (22, '::1');
             UPDATE odd SET ip = '10.2.0.1', span = 'empty', m = 'happy', note = NULL WHERE id = 20;
             UPDATE odd SET ip = NULL WHERE id = 22",
        )
        .await
        .unwrap();
    let update = client.prepare("UPDATE odd SET ip = $1, note = $2 WHERE ip = $3").await.unwrap();
    let changed = client.execute(&update, &[&"10.3.0.1", &"it's", &"10.2.0.1/32"]).await.unwrap();
    assert_eq!(changed, 1);
    let returned = "INSERT INTO odd (id, ip, bits, moods) VALUES (23, '10.0.0.0/8', '0001', '{sad}'), (24, NULL, NULL, NULL)
        RETURNING ip, bits, moods";
    assert_eq!(rows(client, returned).await, [["10.0.0.0/8", "0001", "{sad}"], ["NULL", "NULL", "NULL"]]);
    let returned = "UPDATE odd SET span = '(,0)' WHERE id = 22 RETURNING id, span, m, ip";
    assert_eq!(rows(client, returned).await, [["22", "(,0)", "NULL", "NULL"]]);
    let there = "SELECT id, m, d, ip, span, moods, bits, note FROM odd WHERE id >= 20 ORDER BY id";
    let wanted = [
        ["20", "happy", "sad", "10.3.0.1", "empty", "{ok}", "1010", "it's"],
        ["21", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL"],
        ["22", "NULL", "NULL", "NULL", "(,0)", "NULL", "NULL", "NULL"],
        ["23", "NULL", "NULL", "10.0.0.0/8", "NULL", "{sad}", "0001", "NULL"],
        ["24", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL", "NULL"],
    ];
    assert_eq!(rows(remote, there).await, wanted);
    for (sql, code) in [
        ("INSERT INTO odd (id, ip) VALUES (25, 'here')", "22P02"),
        ("INSERT INTO odd (id, bits) VALUES (25, '10101')", "HV000"),
        ("INSERT INTO odd (id, ip) VALUES (25, 'here') RETURNING id", "22P02"),
        ("UPDATE odd SET ip = 'here' WHERE id = 20", "22P02"),
        // An expression is a text there, too.
        ("UPDATE odd SET ip = note || '1' WHERE id = 20", "42804"),
    ] {
        assert_eq!(failure(client, sql).await.0, code, "{sql}");
    }
    let gone = "DELETE FROM odd WHERE id >= 20 AND ip = '10.3.0.1/32' RETURNING *";
    let wanted = [["20", "happy", "sad", "10.3.0.1/32", "empty", "{ok}", "1010", "it's"]];
    assert_eq!(rows(client, gone).await, wanted);
    assert_eq!(rows(client, "DELETE FROM odd WHERE id > 20 RETURNING bits").await.len(), 4);
}

/// A server that has no room for one more connection is there, and the one that it has given is used.
#[tokio::test]
async fn a_server_that_is_full_is_not_down() {
    let Some(setting) = start().await else { return };
    let Setting { node, remote, .. } = &setting;
    remote.batch_execute("CREATE ROLE one LOGIN CONNECTION LIMIT 1; GRANT SELECT ON t TO one").await.unwrap();
    let dir = setting.dir.path();
    let config = dir.join("tidemill.toml");
    std::fs::write(&config, "node_check_interval = '20ms'\n").unwrap();
    let options = ["--trust-loopback", "--config", config.to_str().unwrap()];
    let server = Server::start_with(&dir.join("one"), &options);
    let client = server.connect().await;
    let create = format!(
        "CREATE SERVER full FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '127.0.0.1', port '{}', dbname 'postgres');
         CREATE USER MAPPING FOR PUBLIC SERVER full OPTIONS (user 'one');
         CREATE FOREIGN TABLE t (id int) SERVER full",
        node.port
    );
    client.batch_execute(&create.replace(" full", " \"full\"")).await.unwrap();
    let checks = "SELECT state FROM tidemill.nodes WHERE server = 'full'";
    wait_until(&client, checks, "up").await;
    for _ in 0..5 {
        assert_eq!(rows(&client, "SELECT count(*) FROM t").await, [["5003"]]);
        let since = &rows(&client, "SELECT checked_at FROM tidemill.nodes WHERE server = 'full'").await[0][0];
        let later = format!("SELECT checked_at > '{since}' FROM tidemill.nodes WHERE server = 'full'");
        wait_until(&client, &later, "t").await;
        assert_eq!(rows(&client, checks).await, [["up"]]);
    }
}

async fn wait_until(client: &Client, query: &str, wanted: &str) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while rows(client, query).await != [[wanted]] {
        assert!(Instant::now() < deadline, "{query} did not become {wanted}");
    }
}

/// What nobody waits for any more ends there as well.
#[tokio::test]
async fn a_query_that_is_given_up_ends_there() {
    let Some(setting) = start().await else { return };
    let Setting { remote, client, server, .. } = &setting;
    remote
        .batch_execute("CREATE VIEW slow AS SELECT i AS id, pg_sleep(60) IS NULL AS z FROM generate_series(1, 9) AS i;
             CREATE VIEW endless AS SELECT i AS id, repeat('x', 1000) AS pad FROM (SELECT generate_series(1, 2000000000) AS i) AS many")
        .await
        .unwrap();
    client
        .batch_execute("IMPORT FOREIGN SCHEMA public LIMIT TO (slow, endless) FROM SERVER s INTO public")
        .await
        .unwrap();
    let running =
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'tidemill' AND state <> 'idle'";
    client.batch_execute("SET statement_timeout = 200").await.unwrap();
    assert_eq!(failure(client, "SELECT * FROM slow").await.0, "57014");
    wait_until(remote, running, "0").await;
    // By another session.
    let other = server.connect().await;
    let waiter = server.connect().await;
    let token = waiter.cancel_token();
    let waiting = tokio::spawn(async move { failure(&waiter, "SELECT * FROM slow").await });
    wait_until(remote, running, "1").await;
    token.cancel_query(NoTls).await.unwrap();
    assert_eq!(waiting.await.unwrap().0, "57014");
    wait_until(remote, running, "0").await;
    // By a LIMIT that is applied here: nothing of the rest is kept.
    let before = server.memory_bytes();
    let few = "SELECT count(*) FROM (SELECT id FROM endless WHERE length(pad) = 1000 LIMIT 5) AS few";
    assert_eq!(rows(&other, few).await, [["5"]]);
    wait_until(remote, running, "0").await;
    assert!(server.memory_bytes() < before + (256 << 20));
    // Connections are as good as new.
    assert_eq!(rows(&other, "SELECT count(*) FROM t").await, [["5003"]]);
}

/// A node that goes away under kept connections is an error once, and used again when it is back.
#[tokio::test]
async fn a_lost_connection_is_made_anew() {
    let Some(setting) = start().await else { return };
    let Setting { remote, client, server, .. } = &setting;
    assert_eq!(rows(client, "SELECT count(*) FROM t").await, [["5003"]]);
    let kill =
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'tidemill'";
    for _ in 0..5 {
        assert_eq!(rows(remote, kill).await, [["1"]]);
        assert_eq!(rows(client, "SELECT count(*) FROM t").await, [["5003"]]);
    }
    remote.batch_execute("CREATE VIEW slow AS SELECT pg_sleep(60) IS NULL AS z").await.unwrap();
    client.batch_execute("CREATE FOREIGN TABLE slow (z bool) SERVER s").await.unwrap();
    let other = server.connect().await;
    let asked = tokio::spawn(async move { failure(&other, "SELECT * FROM slow").await });
    let running = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'tidemill' AND state = 'active' AND query LIKE '%COPY (%slow%'";
    wait_until(remote, running, "1").await;
    rows(remote, kill).await;
    let (code, message) = asked.await.unwrap();
    assert_eq!((code.as_str(), message.as_str()), ("08006", "lost the connection to server \"s\""));
    assert_eq!(rows(client, "SELECT count(*) FROM t").await, [["5003"]]);
}

/// Three nodes, which are databases of one PostgreSQL, with tables of one shape and other rows.
async fn nodes(setting: &Setting) {
    let Setting { node, remote, client, .. } = setting;
    for (i, name) in ["n1", "n2", "n3"].into_iter().enumerate() {
        remote.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
        let there = node.connect(name).await;
        let rows = format!(
            "CREATE TABLE m (id int, name text, v float8);
             INSERT INTO m SELECT x, 'name ' || x % 4, x * {} FROM generate_series({i}, 1000, 3) AS x",
            i + 1
        );
        there.batch_execute(&rows).await.unwrap();
        let create = format!(
            "CREATE SERVER {name} FOREIGN DATA WRAPPER postgres_fdw
                 OPTIONS (host '127.0.0.1', port '{}', dbname '{name}');
             CREATE USER MAPPING FOR PUBLIC SERVER {name};
             CREATE FOREIGN TABLE p__{name}__0 (id int, name text, v float8) SERVER {name} OPTIONS (table_name 'm')",
            node.port
        );
        client.batch_execute(&create).await.unwrap();
    }
    let parents =
        "CREATE MULTI TENANT TABLE m (id int, name text, v float8) CHILDREN (n1.m, n2.m, n3.public.m);
        CREATE SERVER parent FOREIGN DATA WRAPPER pgspider_core_fdw;
        CREATE FOREIGN TABLE p (id int, name text, v float8, __spd_url text) SERVER parent;
        CREATE TABLE whole AS SELECT id, name, v, '/n1/' AS __spd_url FROM p__n1__0
            UNION ALL SELECT *, '/n2/' FROM p__n2__0 UNION ALL SELECT *, '/n3/' FROM p__n3__0";
    client.batch_execute(parents).await.unwrap();
}

/// What is read of the parent is what is read of one table that holds all of it.
#[tokio::test]
async fn tables_of_several_nodes_are_read_as_one() {
    let Some(setting) = start().await else { return };
    nodes(&setting).await;
    let client = &setting.client;
    for query in [
        "SELECT * FROM TABLE ORDER BY id",
        "SELECT count(*), sum(id), avg(v), round(stddev(v)::numeric, 6), count(DISTINCT name) FROM TABLE",
        "SELECT __spd_url, count(*) FROM TABLE GROUP BY __spd_url ORDER BY 1",
        "SELECT name, max(v), __spd_url FROM TABLE GROUP BY name, __spd_url HAVING max(v) > 990 ORDER BY 1, 3",
        "SELECT id FROM TABLE WHERE __spd_url = '/n2/' AND id < 20 ORDER BY id",
        "SELECT id FROM TABLE WHERE __spd_url IN ('/n2/', '/n3/') AND id < 20 ORDER BY id",
        "SELECT count(*) FROM TABLE WHERE __spd_url = '/nope/'",
        "SELECT count(*), sum(v) FROM TABLE WHERE false",
        "SELECT id, v FROM TABLE ORDER BY v DESC, id LIMIT 5",
        "SELECT __spd_url, id FROM TABLE ORDER BY __spd_url DESC, id LIMIT 5",
        "SELECT __spd_url, id % 2 = 0, max(id) FROM TABLE GROUP BY 1, 2 ORDER BY 1, 2",
        "SELECT name, count(*), sum(id), avg(id), min(v), max(name) FROM TABLE GROUP BY name ORDER BY name",
        "SELECT DISTINCT name FROM TABLE ORDER BY name",
        "SELECT count(*), min(id), avg(v) FROM TABLE WHERE id < 0",
        "SELECT max(n) FROM (SELECT count(*) AS n FROM TABLE GROUP BY __spd_url) AS counts",
        "SELECT a.id FROM TABLE AS a JOIN TABLE AS b ON a.id = b.id + 1 WHERE a.id < 9 ORDER BY 1",
        "SELECT count(*) FROM (SELECT * FROM TABLE LIMIT 700 OFFSET 10) AS part",
        "WITH g AS (SELECT name, sum(v) AS s FROM TABLE GROUP BY name) SELECT max(s) FROM g",
        "SELECT count(*) FROM TABLE WHERE v > (SELECT avg(v) FROM TABLE)",
    ] {
        let whole = rows(client, &query.replace("TABLE", "whole")).await;
        for table in ["m", "p"] {
            let query = query.replace("TABLE", table);
            assert_eq!(rows(client, &query).await, whole, "{query}");
        }
    }
}

#[tokio::test]
async fn nodes_can_be_chosen() {
    let Some(setting) = start().await else { return };
    nodes(&setting).await;
    let client = &setting.client;
    for (query, wanted) in [
        ("SELECT count(*) FROM m IN ('/n1/')", "334"),
        ("SELECT count(*) FROM public.p IN ('/n1/', '/n3/') WHERE p.id < 9", "6"),
        ("SELECT count(*) FROM m IN ('/n2/') AS x WHERE x.id < 9", "3"),
        ("SELECT count(*) FROM m IN ('/n2/') x WHERE x.id IN (1, 4)", "2"),
        ("SELECT count(*) FROM m IN ('/n2/') JOIN p IN ('/n2/', '/n1/') USING (id)", "334"),
        ("SELECT count(*) FROM (SELECT id FROM m IN ('/n2/') LIMIT 7) AS m", "7"),
        ("SELECT count(*) FROM m WHERE name IN ('/n1/') OR id IS DISTINCT FROM id", "0"),
    ] {
        assert_eq!(rows(client, query).await, [[wanted]], "{query}");
    }
    client.batch_execute("CREATE VIEW of_two AS SELECT id FROM m IN ('/n1/', '/n2/')").await.unwrap();
    assert_eq!(rows(client, "SELECT count(*) FROM of_two").await, [["668"]]);
    // A child on another node is not asked.
    let asked =
        remote_sql(client, "SELECT __spd_url, max(v) FROM m IN ('/n1/', '/n3/') GROUP BY __spd_url").await;
    let of = |node| format!(r#"SELECT '/{node}/'::text, max("v") FROM "public"."m" GROUP BY 1"#);
    assert_eq!(asked, [of("n1"), of("n3")].join("; "));
    let asked = remote_sql(client, "SELECT id FROM m WHERE __spd_url = '/n2/'").await;
    assert_eq!(asked, r#"SELECT "id" FROM "public"."m""#);
    for (query, state, message) in [
        ("SELECT * FROM m IN ('/n1/', '/x/')", "42704", "table \"m\" has no node \"/x/\""),
        ("SELECT * FROM nope IN ('/n1/')", "42P01", "relation \"nope\" does not exist"),
        ("SELECT * FROM t IN ('/n1/')", "42809", "\"t\" is not a multi-tenant table"),
        ("SELECT * FROM whole IN ('/n1/')", "42809", "\"whole\" is not a multi-tenant table"),
        ("DELETE FROM whole IN ('/n1/')", "42809", "\"whole\" is not a multi-tenant table"),
        ("UPDATE whole IN ('/n1/') SET id = 1", "42809", "\"whole\" is not a multi-tenant table"),
        ("INSERT INTO whole IN ('/n1/') VALUES (1)", "42809", "\"whole\" is not a multi-tenant table"),
        ("INSERT INTO m IN ('/n1/', '/x/') VALUES (1)", "42704", "table \"m\" has no node \"/x/\""),
        ("UPDATE t IN ('/n1/') SET id = 1", "42809", "\"t\" is not a multi-tenant table"),
    ] {
        let (code, told) = failure(client, query).await;
        assert!(code == state && told.contains(message), "{query}: {code} {told}");
    }
}

/// What is wrong with a child is told with its name and its server.
#[tokio::test]
async fn children_have_the_columns_of_their_table() {
    let Some(setting) = start().await else { return };
    nodes(&setting).await;
    let client = &setting.client;
    client
        .batch_execute(
            "CREATE FOREIGN TABLE q (id int, more int, __spd_url text) SERVER parent;
             CREATE FOREIGN TABLE q__n1__0 (id int) SERVER n1 OPTIONS (table_name 'm');
             CREATE FOREIGN TABLE r (id bigint) SERVER parent;
             CREATE FOREIGN TABLE r__n2__0 (id int) SERVER n2 OPTIONS (table_name 'm');
             CREATE FOREIGN TABLE childless (id int) SERVER parent;
             CREATE FOREIGN TABLE childless__n1__0 (id int) SERVER n2;
             CREATE MULTI TENANT TABLE wrong (id text) CHILDREN (n1.m)",
        )
        .await
        .unwrap();
    for (query, state, message) in [
        (
            "SELECT id FROM q",
            "42703",
            "column \"more\" of table \"q\" is not in its child \"q__n1__0\" of server \"n1\"",
        ),
        (
            "SELECT * FROM r",
            "HV004",
            "column \"id\" of table \"r\" is of type bigint, in its child \"r__n2__0\" of server \"n2\" of type integer",
        ),
        ("SELECT * FROM childless", "HV00R", "multi-tenant table \"childless\" has no children"),
        (
            "SELECT * FROM wrong",
            "HV004",
            "column \"id\" of foreign table \"n1.m\" is of type text, but column \"id\" of \"public\".\"m\" on server \"n1\" is of type integer",
        ),
        ("CREATE MULTI TENANT TABLE x (id int) CHILDREN (nope.m)", "42704", "server \"nope\" does not exist"),
        (
            "CREATE MULTI TENANT TABLE x (id int) CHILDREN (parent.m)",
            "0A000",
            "the tables of server \"parent\"",
        ),
        (
            "CREATE MULTI TENANT TABLE x (id int) CHILDREN (n1.m OPTIONS (multi_tenant 'perhaps'))",
            "42601",
            "multi_tenant requires a Boolean value",
        ),
        (
            "CREATE MULTI TENANT TABLE x (id int) CHILDREN (n1.m OPTIONS (nodes '5'))",
            "HV00D",
            "invalid option \"nodes\"",
        ),
        (
            "CREATE MULTI TENANT TABLE x (id int) CHILDREN (n1.m OPTIONS (table_name 'm'))",
            "HV00D",
            "invalid option \"table_name\"",
        ),
        (
            "CREATE SERVER f FOREIGN DATA WRAPPER file_fdw; CREATE MULTI TENANT TABLE x (id int) CHILDREN (f.m)",
            "HV002",
            "filename or program is required",
        ),
        (
            "CREATE SERVER l FOREIGN DATA WRAPPER sqlite_fdw OPTIONS (database ':memory:');
             CREATE MULTI TENANT TABLE x (id int) CHILDREN (l.m OPTIONS (multi_tenant 'true'))",
            "42809",
            "server \"l\" cannot have multi-tenant tables",
        ),
        (
            "CREATE MULTI TENANT TABLE read_only (id int) CHILDREN (n1.m OPTIONS (updatable 'false'));
             INSERT INTO read_only VALUES (1)",
            "55000",
            "foreign table \"n1.m\" does not allow inserts",
        ),
        ("CREATE MULTI TENANT TABLE m (id int) CHILDREN (n1.m)", "42P07", "relation \"m\" already exists"),
        ("DROP SERVER n1", "2BP01", "cannot drop server n1"),
        ("DROP SERVER tidemill", "42809", "server \"tidemill\" cannot be changed"),
    ] {
        let (code, told) = failure(client, query).await;
        assert!(code == state && told.contains(message), "{query}: {code} {told}");
    }
    client.batch_execute("DROP SERVER n1, n2 CASCADE").await.unwrap();
    assert_eq!(failure(client, "SELECT * FROM m").await.0, "42P01");
    assert_eq!(rows(client, "SELECT count(*) FROM p").await, [["333"]]);
}

/// Scans of one server in one statement see the same, whatever is committed there meanwhile.
#[tokio::test]
async fn a_statement_reads_one_snapshot_of_a_server() {
    let Some(setting) = start().await else { return };
    let Setting { node, remote, client, .. } = &setting;
    remote.batch_execute("CREATE TABLE c AS SELECT 0 AS x").await.unwrap();
    client
        .batch_execute("IMPORT FOREIGN SCHEMA public LIMIT TO (c) FROM SERVER s INTO public")
        .await
        .unwrap();
    let writer = node.connect("postgres").await;
    let writing = tokio::spawn(async move {
        loop {
            writer.execute("UPDATE c SET x = x + 1", &[]).await.unwrap();
        }
    });
    let query = "SELECT a.x = b.x AND b.x = d.x FROM c AS a, c AS b, (SELECT max(x) AS x FROM c) AS d";
    for _ in 0..100 {
        assert_eq!(rows(client, query).await, [["t"]]);
    }
    writing.abort();
    let left =
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'tidemill' AND state <> 'idle'";
    wait_until(remote, left, "0").await;
}

/// A modifier is what the values there have, or nobody could ask for them there.
#[tokio::test]
async fn modifiers_are_those_of_the_server() {
    let Some(setting) = start().await else { return };
    let Setting { remote, client, .. } = &setting;
    let other = Server::start(&setting.dir.path().join("other"));
    let below = other.connect().await;
    for there in [remote, &below] {
        there
            .batch_execute(
                "CREATE TABLE tm (n numeric, m numeric(5, 1), vc varchar(20), at timestamptz(0), id int)",
            )
            .await
            .unwrap();
        there
            .batch_execute(
                "INSERT INTO tm VALUES (1.54, 1.5, 'longer', now(), 1), (1.46, 1.5, 'abc', now(), 2)",
            )
            .await
            .unwrap();
    }
    let create = format!(
        "CREATE SERVER west FOREIGN DATA WRAPPER tidemill_fdw OPTIONS (host '127.0.0.1', port '{}', dbname 'tidemill');
         CREATE USER MAPPING FOR PUBLIC SERVER west",
        other.port
    );
    client.batch_execute(&create).await.unwrap();
    for server in ["s", "west"] {
        let create = format!(
            "CREATE FOREIGN TABLE {server}_less (n numeric(5, 1), m numeric(5, 2), vc varchar(5), at timestamptz, id int)
                 SERVER {server} OPTIONS (table_name 'tm');
             CREATE FOREIGN TABLE {server}_same (n numeric, m numeric(7, 1), vc varchar(20), at timestamptz(3), id int)
                 SERVER {server} OPTIONS (table_name 'tm')"
        );
        client.batch_execute(&create).await.unwrap();
        for (query, wanted) in [
            (
                "SELECT n, count(*) FROM TABLE GROUP BY n",
                "column \"n\" of foreign table \"TABLE\" is of type numeric(5,1), but column \"n\" of \"public\".\"tm\" on server \"SERVER\" is of type numeric",
            ),
            ("SELECT id FROM TABLE WHERE n = 1.5", "is of type numeric(5,1), but"),
            (
                "SELECT max(vc) FROM TABLE",
                "is of type character varying(5), but column \"vc\" of \"public\".\"tm\" on server \"SERVER\" is of type character varying(20)",
            ),
            ("SELECT id FROM TABLE ORDER BY m LIMIT 1", "is of type numeric(5,2), but"),
            ("DELETE FROM TABLE WHERE vc = 'longer'", "is of type character varying(5), but"),
        ] {
            for rules in ["on", "off"] {
                let switches =
                    format!("SET enable_foreign_filters = {rules}; SET enable_foreign_aggregates = {rules}");
                client.batch_execute(&switches).await.unwrap();
                if rules == "off" && query.starts_with("DELETE") {
                    continue;
                }
                let name =
                    |text: &str| text.replace("TABLE", &format!("{server}_less")).replace("SERVER", server);
                let (code, told) = failure(client, &name(query)).await;
                assert!(code == "HV004" && told.contains(&name(wanted)), "{rules} {query}: {code} {told}");
            }
        }
        client.batch_execute("RESET enable_foreign_filters; RESET enable_foreign_aggregates").await.unwrap();
        let fits = format!(
            "SELECT count(*), max(vc), max(at) = min(at) FROM {server}_same WHERE m = 1.5 AND at < now() + '1 h'"
        );
        assert_eq!(rows(client, &fits).await, [["2", "longer", "t"]]);
        let fits = format!("SELECT id, at < now() + '1 h' FROM {server}_less WHERE id = 1");
        assert_eq!(rows(client, &fits).await, [["1", "t"]]);
    }
    let create = "CREATE SERVER root FOREIGN DATA WRAPPER pgspider_core_fdw; CREATE USER MAPPING FOR PUBLIC SERVER root;
         CREATE FOREIGN TABLE whole (m numeric(3, 1)) SERVER root;
         CREATE FOREIGN TABLE whole__s__0 (m numeric(5, 1)) SERVER s OPTIONS (table_name 'tm')";
    client.batch_execute(create).await.unwrap();
    let (code, told) = failure(client, "SELECT m FROM whole").await;
    let wanted = "column \"m\" of table \"whole\" is of type numeric(3,1), in its child \"whole__s__0\" of server \"s\" of type numeric(5,1)";
    assert_eq!((code.as_str(), told.as_str()), ("HV004", wanted));
}

/// Many sessions share the connections that there are.
#[tokio::test]
async fn who_needs_a_connection_waits_for_one() {
    let Some(setting) = start().await else { return };
    let Setting { node, remote, server, client, .. } = &setting;
    remote
        .batch_execute(
            "CREATE TABLE wide AS SELECT x AS id, repeat('x', 1000) AS t FROM generate_series(1, 30000) AS x;
             CREATE TABLE note (id int); CREATE ROLE few LOGIN CONNECTION LIMIT 3; GRANT SELECT ON wide TO few",
        )
        .await
        .unwrap();
    remote.batch_execute("VACUUM ANALYZE wide").await.unwrap();
    let define = |name: &str, user: &str, options: &str| {
        format!(
            "CREATE SERVER {name} FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '127.0.0.1', port '{}', dbname 'postgres', {options});
             CREATE USER MAPPING FOR PUBLIC SERVER {name} OPTIONS (user '{user}');
             CREATE FOREIGN TABLE {name}_wide (id int, t text) SERVER {name} OPTIONS (table_name 'wide');
             CREATE FOREIGN TABLE {name}_note (id int) SERVER {name} OPTIONS (table_name 'note')",
            node.port
        )
    };
    client
        .batch_execute(&define("two", "postgres", "max_connections '2', connection_wait '600'"))
        .await
        .unwrap();
    client.batch_execute(&define("role", "few", "connection_wait '600'")).await.unwrap();
    client.batch_execute(&define("many", "postgres", "max_connections '20'")).await.unwrap();
    client
        .batch_execute(&define("one", "postgres", "max_connections '1', connection_wait '0'"))
        .await
        .unwrap();
    for name in ["two", "role", "many"] {
        // Its parts are read by four where there are as many.
        let query = format!(
            "SET enable_foreign_aggregates = off; SELECT count(*), sum(id), count(DISTINCT id) FROM {name}_wide"
        );
        let sessions = (0..12).map(|_| async {
            let session = server.connect().await;
            for _ in 0..3 {
                assert_eq!(rows(&session, &query).await, [["30000", "450015000", "30000"]], "{name}");
            }
        });
        futures::future::join_all(sessions).await;
    }
    let most = "SELECT connections <= 3 FROM tidemill.nodes WHERE server = 'two'";
    assert_eq!(rows(client, most).await, [["t"]]);
    client.batch_execute("BEGIN; INSERT INTO one_note VALUES (1)").await.unwrap();
    let second = server.connect().await;
    let (code, told) = failure(&second, "SELECT count(*) FROM one_wide").await;
    assert_eq!((code.as_str(), told.as_str()), ("53300", "too many connections to server \"one\""));
    client.batch_execute("COMMIT").await.unwrap();
    assert_eq!(rows(&second, "SELECT count(*) FROM one_wide").await, [["30000"]]);
    second.batch_execute("SET enable_foreign_joins = off").await.unwrap();
    let twice = "SELECT count(*) FROM TABLE AS a JOIN TABLE AS b USING (id)";
    assert_eq!(rows(&second, &twice.replace("TABLE", "two_note")).await, [["1"]]);
    let (code, told) = failure(&second, &twice.replace("TABLE", "one_note")).await;
    assert_eq!(
        (code.as_str(), told.as_str()),
        ("53300", "this statement needs 2 connections to server \"one\"")
    );
}
