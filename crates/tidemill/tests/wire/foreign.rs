//! Tables of a real PostgreSQL: the rows, what is left to that server, and what is said when something is wrong.

mod connections;
mod nodes;
mod types;

use tokio_postgres::Client;

use crate::node::until;
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
        ("SELECT count(DISTINCT id) FROM t", r#"SELECT "id" FROM "public"."t" GROUP BY 1"#),
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
    until(remote, ours, "1").await;
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
    until(client, why, "user mapping not found for \"postgres\"").await;
    assert_eq!(rows(client, "SELECT count(id) FROM other_type").await, [["5003"]]);
    assert_eq!(rows(client, "SELECT count(id) FROM no_column").await, [["5003"]]);
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
    until(remote, left, "0").await;
}
