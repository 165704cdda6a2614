//! MIGRATE TABLE and the tables of foreign tables, as PGSpider has them.

use tokio_postgres::Client;

use crate::client::Client as Wire;
use crate::postgres::Postgres;
use crate::server::{Server, failure, rows};

/// Servers `s1` to `s3` are schemas of one PostgreSQL, which `remote` is connected to.
struct Setting {
    _node: Postgres,
    remote: Client,
    server: Server,
    client: Client,
    _dir: tempfile::TempDir,
}

async fn start() -> Option<Setting> {
    let node = Postgres::start()?;
    let remote = node.connect("postgres").await;
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("data"));
    let client = server.connect().await;
    for i in 1..=3 {
        remote.batch_execute(&format!("CREATE DATABASE d{i}")).await.unwrap();
        let create = format!(
            "CREATE SERVER s{i} FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '127.0.0.1', port '{}', dbname 'd{i}');
             CREATE USER MAPPING FOR PUBLIC SERVER s{i}",
            node.port
        );
        client.batch_execute(&create).await.unwrap();
    }
    Some(Setting { _node: node, remote, server, client, _dir: dir })
}

const COLUMNS: &str = "c1 int NOT NULL, c2 varchar(10), c3 numeric(10,2), c4 timestamptz, c5 float8[]";
const ROWS: &str =
    "SELECT x, 'row ' || x, x * 1.25, '2020-01-01'::timestamptz + x * interval '1 day', ARRAY[x, NULL, 0.5]
    FROM generate_series(1, 1000) AS x";

impl Setting {
    async fn run(&self, sql: &str) {
        self.client.batch_execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    }

    /// A foreign table, its table there, and the rows in it.
    async fn source(&self) {
        self.run(&format!("CREATE FOREIGN TABLE ft1 ({COLUMNS}) SERVER s1 OPTIONS (table_name 'T 1')")).await;
        self.run(&format!("CREATE DATASOURCE TABLE ft1; INSERT INTO ft1 {ROWS}")).await;
    }

    async fn check_rows(&self, table: &str) {
        let query = "SELECT count(*), sum(c1), min(c2), sum(c3), max(c4), count(c5) FROM TABLE";
        let wanted = [["1000", "500500", "row 1", "625625.00", "2022-09-27 00:00:00+00", "1000"]];
        let found =
            rows(&self.client, &format!("SET timezone = 'UTC'; {}", query.replace("TABLE", table))).await;
        assert_eq!(found, wanted, "{table}");
    }

    /// The foreign tables and their servers.
    async fn tables(&self) -> Vec<String> {
        let query = "SELECT relname || ' ' || srvname FROM pg_foreign_table JOIN pg_class ON pg_class.oid = ftrelid
            JOIN pg_foreign_server ON pg_foreign_server.oid = ftserver WHERE srvname <> 'pipelinedb' ORDER BY 1";
        rows(&self.client, query).await.concat()
    }

    async fn check_failure(&self, sql: &str, state: &str, message: &str) {
        let (code, told) = failure(&self.client, sql).await;
        assert!(code == state && told.contains(message), "{sql}: {code} {told}");
    }
}

#[tokio::test]
async fn a_table_is_made_and_dropped_on_the_other_side() {
    let Some(setting) = start().await else { return };
    let Setting { client, .. } = &setting;
    setting.run(&format!("CREATE FOREIGN TABLE ft1 ({COLUMNS}) SERVER s1 OPTIONS (table_name 'T 1')")).await;
    setting.check_failure("SELECT * FROM ft1", "42P01", "does not fit server \"s1\"").await;
    setting.run("CREATE DATASOURCE TABLE ft1").await;
    assert_eq!(rows(client, "SELECT count(*) FROM ft1").await, [["0"]]);
    setting.check_failure("INSERT INTO ft1 (c2) VALUES ('x')", "23502", "null value in column \"c1\"").await;
    setting.check_failure("CREATE DATASOURCE TABLE ft1", "42P07", "relation \"T 1\" already exists").await;
    setting.run("CREATE DATASOURCE TABLE IF NOT EXISTS ft1; DROP DATASOURCE TABLE ft1").await;
    setting.check_failure("DROP DATASOURCE TABLE ft1", "42P01", "T 1").await;
    setting.run("DROP DATASOURCE TABLE IF EXISTS ft1").await;
    // In a block it goes with the block.
    setting.run("BEGIN; CREATE DATASOURCE TABLE ft1; INSERT INTO ft1 (c1) VALUES (1); ROLLBACK").await;
    setting.check_failure("SELECT * FROM ft1", "42P01", "does not fit server \"s1\"").await;
    setting.run("CREATE TABLE plain (i int); CREATE MULTI TENANT TABLE m (i int) CHILDREN (s1.x)").await;
    for (statement, state, message) in [
        ("CREATE DATASOURCE TABLE plain", "42809", "\"plain\" is not a foreign table"),
        ("DROP DATASOURCE TABLE m", "42809", "is not of multi-tenant table \"m\""),
        ("CREATE DATASOURCE TABLE nope", "42P01", "relation \"nope\" does not exist"),
        ("CREATE DATASOURCE TABLE IF EXISTS ft1", "42601", "syntax error"),
        ("DROP DATASOURCE ft1", "42601", "syntax error"),
    ] {
        setting.check_failure(statement, state, message).await;
    }
}

#[tokio::test]
async fn rows_move_to_new_tables() {
    let Some(setting) = start().await else { return };
    setting.source().await;
    setting.run("MIGRATE TABLE ft1 SERVER s2").await;
    assert_eq!(setting.tables().await, ["ft1 s1"]);
    setting.run("IMPORT FOREIGN SCHEMA public LIMIT TO (\"T 1\") FROM SERVER s2 INTO public").await;
    setting.check_rows("\"T 1\"").await;
    setting.run("DROP DATASOURCE TABLE \"T 1\"; DROP FOREIGN TABLE \"T 1\"").await;
    // To a table of another name, on one server or on several.
    setting.run("MIGRATE TABLE ft1 TO ft2 SERVER s2 OPTIONS (table_name 'T 2')").await;
    setting.check_rows("ft2").await;
    setting
        .run("MIGRATE TABLE ft1 TO ft3 SERVER s1 OPTIONS (table_name 'a'), s1 OPTIONS (table_name 'b'), s3")
        .await;
    setting.check_rows("ft3").await;
    let counts = "SELECT __spd_url, count(*) FROM ft3 GROUP BY __spd_url ORDER BY 1";
    assert_eq!(rows(&setting.client, counts).await, [["/s1/", "667"], ["/s3/", "333"]]);
    assert_eq!(
        setting.tables().await,
        ["ft1 s1", "ft2 s2", "ft3 pgspider_core_svr", "ft3__s1__0 s1", "ft3__s1__1 s1", "ft3__s3__0 s3"]
    );
    setting.run("MIGRATE TABLE ft3 TO ft4 OPTIONS (USE_MULTITENANT_SERVER 'other') SERVER s2").await;
    setting.check_rows("ft4").await;
    assert_eq!(setting.tables().await[6..], ["ft4 other", "ft4__s2__0 s2"]);
}

#[tokio::test]
async fn the_new_table_takes_the_place_of_the_old() {
    let Some(setting) = start().await else { return };
    setting.run(&format!("CREATE TABLE base ({COLUMNS}); INSERT INTO base {ROWS}")).await;
    let mut wire = Wire::connect(setting.server.port, "tidemill");
    let answer = wire.query("MIGRATE TABLE base REPLACE SERVER s1, s2 OPTIONS (table_name 'x')");
    assert_eq!((&answer.error, answer.tags.as_slice()), (&None, &["MIGRATE TABLE".to_string()][..]));
    let notice = answer.notices.last().unwrap();
    assert_eq!(notice.get('M'), "1000 rows of \"base\" were migrated");
    assert_eq!(notice.get('D'), "/s1/ \"public\".\"base\": 500 rows\n/s2/ \"public\".\"x\": 500 rows");
    setting.check_rows("base").await;
    let all = ["base pgspider_core_svr", "base__s1__0 s1", "base__s2__0 s2"];
    assert_eq!(setting.tables().await, all);
    // The children go with the table that is replaced; what they stood for stays.
    setting.run("MIGRATE TABLE base REPLACE SERVER s3").await;
    setting.check_rows("base").await;
    assert_eq!(setting.tables().await, ["base s3"]);
    setting
        .check_failure("MIGRATE TABLE base REPLACE SERVER s1", "42P07", "relation \"base\" already exists")
        .await;
    setting.run("CREATE VIEW reader AS SELECT c1 FROM base").await;
    setting
        .check_failure("MIGRATE TABLE base REPLACE SERVER s2", "2BP01", "other objects depend on it")
        .await;
    setting.run("MIGRATE TABLE reader TO copied SERVER s2").await;
    assert_eq!(rows(&setting.client, "SELECT sum(c1) FROM copied").await, [["500500"]]);
}

/// The source is what it was, and there is no new table.
#[tokio::test]
async fn a_migration_that_fails_leaves_nothing() {
    let Some(setting) = start().await else { return };
    setting.source().await;
    setting.run("CREATE SERVER parent FOREIGN DATA WRAPPER pgspider_core_fdw; CREATE STREAM s (i int)").await;
    for (statement, state, message) in [
        ("MIGRATE TABLE ft1 TO ft1 SERVER s2", "42P07", "relation \"ft1\" already exists"),
        ("MIGRATE TABLE ft1 TO x SERVER nope", "42704", "server \"nope\" does not exist"),
        ("MIGRATE TABLE ft1 TO x SERVER parent", "42809", "has multi-tenant tables only"),
        ("MIGRATE TABLE ft1 TO x SERVER s2, s2", "42P07", "relation \"T 1\" already exists"),
        ("MIGRATE TABLE ft1 TO x SERVER s2, s1", "42P07", "relation \"T 1\" already exists"),
        ("MIGRATE TABLE ft1 TO x SERVER s2 OPTIONS (relay 'r')", "HV00D", "invalid option \"relay\""),
        (
            "MIGRATE TABLE ft1 TO x OPTIONS (socket_port '1') SERVER s2",
            "HV00D",
            "invalid option \"socket_port\"",
        ),
        (
            "MIGRATE TABLE ft1 TO x OPTIONS (USE_MULTITENANT_SERVER 's1') SERVER s2",
            "42809",
            "no multi-tenant tables",
        ),
        ("MIGRATE TABLE s TO x SERVER s2", "42809", "is a stream"),
        ("MIGRATE TABLE nope SERVER s2", "42P01", "relation \"nope\" does not exist"),
        ("MIGRATE FOREIGN TABLE ft1 SERVER s2", "42601", "syntax error"),
        ("MIGRATE TABLE ft1 REPLACE TO x SERVER s2", "42601", "syntax error"),
        ("BEGIN; MIGRATE TABLE ft1 TO x SERVER s2", "25001", "cannot run inside a transaction block"),
    ] {
        setting.check_failure(statement, state, message).await;
    }
    setting.run("ROLLBACK").await;
    // Not null is promised here, and not kept there.
    let broken = format!(
        "CREATE FOREIGN TABLE broken ({}) SERVER s1 OPTIONS (table_name 'T 1')",
        COLUMNS.replace("c5 float8[]", "c5 float8[] NOT NULL")
    );
    setting.run(&broken).await;
    setting.run("INSERT INTO ft1 (c1) VALUES (5000)").await;
    setting
        .check_failure("MIGRATE TABLE broken REPLACE SERVER s2, s3", "23502", "null value in column \"c5\"")
        .await;
    assert_eq!(rows(&setting.client, "SELECT count(*) FROM broken").await, [["1001"]]);
    assert_eq!(setting.tables().await, ["broken s1", "ft1 s1"]);
    for server in ["s2", "s3"] {
        setting
            .run(&format!("CREATE FOREIGN TABLE there (c1 int) SERVER {server} OPTIONS (table_name 'T 1')"))
            .await;
        setting.check_failure("SELECT * FROM there", "42P01", "does not fit server").await;
        setting.run("DROP FOREIGN TABLE there").await;
    }
    let databases = rows(&setting.remote, "SELECT count(*) FROM pg_prepared_xacts").await;
    assert_eq!(databases, [["0"]]);
}

#[tokio::test]
async fn tables_move_to_databases_of_other_kinds() {
    let dir = tempfile::tempdir().unwrap();
    let (server, lower) = (Server::start(&dir.path().join("data")), Server::start(&dir.path().join("lower")));
    let (client, below) = (server.connect().await, lower.connect().await);
    let path = dir.path().join("s.db");
    let lite = rusqlite::Connection::open(&path).unwrap();
    let create = format!(
        "CREATE SERVER lite FOREIGN DATA WRAPPER sqlite_fdw OPTIONS (database '{}');
         CREATE SERVER west FOREIGN DATA WRAPPER tidemill_fdw OPTIONS (host '127.0.0.1', port '{}', dbname 'tidemill');
         CREATE USER MAPPING FOR PUBLIC SERVER west;
         CREATE TABLE base (id int NOT NULL, v float8, t text, n numeric(8,2), at timestamptz, b bytea, a int[], ok bool);
         INSERT INTO base SELECT x, x / 4.0, 'text ' || x, x * 1.25, '2020-01-01Z'::timestamptz + x * interval '1 hour',
             '\\x00ff', ARRAY[x, NULL], x % 2 = 0 FROM generate_series(1, 100) AS x;
         INSERT INTO base (id) VALUES (0)",
        path.display(),
        lower.port
    );
    client.batch_execute(&create).await.unwrap();
    client
        .batch_execute("SET timezone = 'UTC'; MIGRATE TABLE base TO moved SERVER lite, west")
        .await
        .unwrap();
    let all = "SELECT id, v, t, n, at, b, a, ok FROM TABLE ORDER BY id";
    let (moved, base) = (all.replace("TABLE", "moved"), all.replace("TABLE", "base"));
    assert_eq!(rows(&client, &moved).await, rows(&client, &base).await);
    assert_eq!(rows(&below, "SELECT count(*) FROM base").await, [["50"]]);
    assert_eq!(lite.query_row("SELECT count(*) FROM base", [], |row| row.get::<_, i64>(0)), Ok(51));
    // What one server refuses is on none, whether or not it undoes definitions.
    client.batch_execute("INSERT INTO base (id, v) VALUES (101, 'NaN'), (102, 'NaN')").await.unwrap();
    let migrate =
        "MIGRATE TABLE base TO other SERVER west OPTIONS (table_name 'x'), lite OPTIONS (\"table\" 'x')";
    let (code, message) = failure(&client, migrate).await;
    assert!(code == "22003" && message.contains("NaN is null there"), "{code} {message}");
    assert_eq!(failure(&below, "SELECT * FROM x").await.0, "42P01");
    assert!(lite.prepare("SELECT * FROM x").is_err());
    assert_eq!(failure(&client, "SELECT * FROM other").await.0, "42P01");
}
