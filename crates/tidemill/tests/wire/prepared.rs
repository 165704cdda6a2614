//! Generic plans: a prepared query that is planned once gives what it gives when it is planned anew.

use tokio_postgres::types::Type;

use crate::server::{Server, failure, rows};

const DEFINITIONS: &str = "
    CREATE STREAM s (k int, name text, at timestamptz, x float8, n numeric(6,2));
    CREATE CONTINUOUS VIEW v AS SELECT k, name, count(*), sum(x), max(n) AS most, max(at) AS last
        FROM s GROUP BY k, name HAVING count(*) > 1;
    CREATE CONTINUOUS VIEW total AS SELECT count(*), avg(x) FROM s;
    CREATE CONTINUOUS VIEW recent WITH (sw = '1 hour') AS SELECT k, count(*) FROM s GROUP BY k;
    CREATE CONTINUOUS VIEW short WITH (ttl = '1 hour', ttl_column = 'hour') AS
        SELECT date_trunc('hour', at) AS hour, k, count(*) FROM s GROUP BY 1, 2;
    CREATE TABLE t (k int, name text);
    CREATE VIEW shown AS SELECT name AS n, count * 2 AS twice, k FROM v WHERE k > 0;
    INSERT INTO t SELECT g, 'n' || g FROM generate_series(1, 20) g;
    INSERT INTO s SELECT g % 7, 'n' || g % 3, now() + (12 - g) * interval '10 minutes', g / 4.0, g / 8.0
        FROM generate_series(1, 200) g;
    INSERT INTO s (k) VALUES (NULL), (NULL)";

/// Types of the parameters, query, arguments of the executions, and whether it gets a generic plan.
type Case = (&'static str, &'static str, &'static [&'static str], bool);

const CASES: [Case; 18] = [
    (
        "int, text",
        "SELECT * FROM v WHERE k = $1 AND name = $2",
        &["1, 'n1'", "2, 'n0'", "9, 'n1'", "NULL, 'n1'"],
        true,
    ),
    ("int", "SELECT name, sum, most, last FROM v WHERE k = $1 ORDER BY name", &["1", "2"], false),
    ("int", "SELECT count(*) FROM v WHERE k = $1", &["1", "2", "3"], false),
    ("int", "SELECT sum + 1, most * 3 FROM v WHERE name = 'n1' AND $1 = k", &["1", "2", "8", "NULL"], true),
    ("int, int", "SELECT sum FROM v WHERE k IN ($1, $2) AND name = 'n1'", &["1, 2", "3, 3", "3, NULL"], true),
    (
        "int, float8",
        "SELECT k, name, sum > $2, $2, $2::numeric FROM v WHERE k = $1 AND name = 'n2'",
        &["1, 80", "2, 80.5"],
        true,
    ),
    (
        "numeric(4,1), int",
        "SELECT $1, most + $1 FROM v WHERE k = $2 AND name = 'n0'",
        &["1.25, 1", "7, 2"],
        true,
    ),
    (
        "json, int",
        "SELECT $1, pg_typeof($1) FROM v WHERE k = $2 AND name = 'n0'",
        &["'{\"a\": 1}', 1", "NULL, 2"],
        true,
    ),
    ("bigint", "SELECT * FROM total WHERE count > $1", &["1", "1000"], false),
    ("", "SELECT * FROM total", &["", ""], true),
    ("", "SELECT count, avg FROM total WHERE count > 10", &["", ""], true),
    ("int", "SELECT * FROM recent WHERE k = $1", &["1", "2"], false),
    (
        "int",
        "SELECT k, count FROM short WHERE k = $1 AND hour = date_trunc('hour', now())",
        &["1", "2", "3"],
        false,
    ),
    ("int", "SELECT name FROM t WHERE k = $1", &["1", "2", "30"], false),
    ("", "SELECT name, k FROM t WHERE k < 4", &["", ""], true),
    ("text", "SELECT twice, n FROM shown WHERE k = 3 AND n = $1", &["'n1'", "'n0'", "'n7'"], true),
    (
        "int",
        "SELECT v.sum, t.name FROM v JOIN t ON t.k = v.k WHERE v.k = $1 AND v.name = 'n1'",
        &["1", "2"],
        false,
    ),
    ("int", "SELECT now() > last, k FROM v WHERE k = $1 AND name = 'n0'", &["1", "2"], false),
];

#[tokio::test]
async fn a_generic_plan_gives_what_a_plan_of_the_values_gives() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let client = server.connect().await;
    client.batch_execute(DEFINITIONS).await.unwrap();
    for (types, query, arguments, is_generic) in CASES {
        let types = if types.is_empty() { String::new() } else { format!("({types})") };
        let prepare = |name| format!("PREPARE {name} {types} AS {query}");
        client.batch_execute(&prepare("q")).await.unwrap();
        let mut rows_found = 0;
        for arguments in arguments.iter().chain(arguments) {
            let list = if arguments.is_empty() { String::new() } else { format!("({arguments})") };
            let found = rows(&client, &format!("EXECUTE q{list}")).await;
            client.batch_execute(&prepare("once")).await.unwrap();
            assert_eq!(
                found,
                rows(&client, &format!("EXECUTE once{list}")).await,
                "{query} with {arguments}"
            );
            client.batch_execute("DEALLOCATE once").await.unwrap();
            rows_found += found.len();
        }
        assert!(rows_found > 0, "{query}");
        // The first execution of all, and none after it, is planned with its values.
        let counts =
            rows(&client, "SELECT generic_plans > 0, custom_plans > 1 FROM pg_prepared_statements").await;
        assert_eq!(counts, [if is_generic { ["t", "f"] } else { ["f", "t"] }], "{query}");
        client.batch_execute("DEALLOCATE q").await.unwrap();
    }
}

#[tokio::test]
async fn a_generic_plan_sees_what_a_query_sees() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let client = server.connect().await;
    client.batch_execute(DEFINITIONS).await.unwrap();
    let look = "EXECUTE q(1, 'n1')";
    client.batch_execute("PREPARE q AS SELECT count FROM v WHERE k = $1 AND name = $2").await.unwrap();
    let count = || async { rows(&client, look).await[0][0].parse::<i64>().unwrap() };
    let before = (count().await, count().await).1;
    let insert = "INSERT INTO s (k, name) VALUES (1, 'n1')";

    client.batch_execute(insert).await.unwrap();
    assert_eq!(count().await, before + 1);
    client.batch_execute(&format!("BEGIN; {insert}")).await.unwrap();
    assert_eq!(count().await, before + 2, "its own write");
    client.batch_execute("ROLLBACK; BEGIN ISOLATION LEVEL REPEATABLE READ").await.unwrap();
    assert_eq!(count().await, before + 1);
    server.connect().await.batch_execute(insert).await.unwrap();
    assert_eq!(count().await, before + 1, "the transaction's snapshot");
    client.batch_execute("COMMIT").await.unwrap();
    assert_eq!(count().await, before + 2);

    // Another view of the same name, with another type.
    let other = "DROP VIEW shown; DROP CONTINUOUS VIEW v;
                 CREATE CONTINUOUS VIEW v AS SELECT k, name, count(*) FROM s GROUP BY k, name;
                 INSERT INTO s (k, name) VALUES (1, 'n1')";
    client.batch_execute(other).await.unwrap();
    assert_eq!(count().await, 1);
    client.batch_execute("DROP CONTINUOUS VIEW v").await.unwrap();
    assert_eq!(failure(&client, look).await.0, "42P01");
}

#[tokio::test]
async fn a_number_of_rows_is_a_bigint() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let client = server.connect().await;
    let query = "SELECT x FROM generate_series(1, 9) AS x WHERE x > $1 ORDER BY x LIMIT $2 OFFSET $3";
    let query = client.prepare(query).await.unwrap();
    assert_eq!(query.params()[1..], [Type::INT8, Type::INT8]);
    let found = client.query(&query, &[&3_i32, &2_i64, &1_i64]).await.unwrap();
    assert_eq!(found.iter().map(|row| row.get(0)).collect::<Vec<i32>>(), [5, 6]);
}

#[tokio::test]
async fn a_parameter_that_is_shown_has_the_type_that_it_has_elsewhere() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let client = server.connect().await;
    client.batch_execute("CREATE TABLE t (k int2); INSERT INTO t VALUES (1), (2)").await.unwrap();
    for query in [
        "SELECT count(*), $1 FROM t WHERE k IN ($1, $1)",
        "SELECT x FROM (SELECT $1 AS x FROM t WHERE k = $1) q",
    ] {
        let error = client.prepare(query).await.unwrap_err();
        let error = error.as_db_error().unwrap();
        assert_eq!(error.code().code(), "42P08", "{query}");
        assert_eq!(error.detail(), Some("smallint versus text"), "{query}");
    }
    let query = client.prepare("SELECT $1::int2, $2 FROM t WHERE k = $1").await.unwrap();
    let row = client.query_one(&query, &[&1_i16, &"a"]).await.unwrap();
    assert_eq!((row.get::<_, i16>(0), row.get::<_, String>(1)), (1, "a".to_owned()));
}
