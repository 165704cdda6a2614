//! What DBeaver, Grafana and Metabase send before and beside their metadata queries: session statements, keep-alives, and
//! the queries that their query builders write over a continuous view.

use crate::client::Client;
use crate::server::Server;

/// A view of three measurements, five minutes apart.
fn server(dir: &std::path::Path) -> (Server, Client) {
    let server = Server::start(dir);
    let mut client = Client::connect(server.port, "tidemill");
    let made = client.query(
        "CREATE STREAM m (at timestamptz, host text, v float8);
         CREATE CONTINUOUS VIEW per_minute AS
           SELECT date_trunc('minute', at) AS t, host, avg(v) AS v, count(*) AS n FROM m GROUP BY 1, 2;
         INSERT INTO m (at, host, v) VALUES ('2026-01-01 10:01Z', 'a', 1), ('2026-01-01 10:06Z', 'a', 2),
           ('2026-01-01 10:06:30Z', 'b', 4), ('2026-01-02 00:00Z', 'a', 8)",
    );
    assert_eq!(made.error, None);
    (server, client)
}

/// Each statement works, in both protocols; with a value given, the first column of the first row is that.
fn check(client: &mut Client, statements: &[(&str, Option<&str>)]) {
    for (sql, wanted) in statements {
        for extended in [false, true] {
            let answer = if extended { client.extended(sql) } else { client.query(sql) };
            assert_eq!(answer.error, None, "{sql}");
            if let Some(wanted) = wanted {
                let got = answer.rows.first().and_then(|row| row[0].as_deref());
                assert_eq!(got, Some(*wanted), "{sql}");
            }
        }
    }
}

#[test]
fn dbeaver_and_jdbc_start() {
    let dir = tempfile::tempdir().unwrap();
    let (_server, mut client) = server(dir.path());
    check(
        &mut client,
        &[
            ("SET extra_float_digits = 3", None),
            ("SET application_name = 'DBeaver 24.1.0 - Main <tidemill>'", None),
            ("SHOW application_name", Some("DBeaver 24.1.0 - Main <tidemill>")),
            ("SELECT current_schema(),session_user", Some("public")),
            ("SHOW search_path", Some("\"$user\", public")),
            ("SELECT version()", None),
            ("SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE", None),
            ("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED", None),
            ("SHOW TRANSACTION ISOLATION LEVEL", Some("read committed")),
            ("SET search_path = public,\"$user\"", None),
            ("SET search_path = \"$user\",public", None),
            ("SELECT 1", Some("1")),
            ("SELECT 'x'", Some("x")),
            ("", None),
            ("SHOW server_version", None),
            ("SHOW standard_conforming_strings", Some("on")),
            ("SET statement_timeout = 0", None),
            ("SET statement_timeout TO '30s'", None),
            ("SHOW statement_timeout", Some("30s")),
            ("RESET statement_timeout", None),
            ("BEGIN READ ONLY", None),
            ("ROLLBACK", None),
            ("DISCARD ALL", None),
        ],
    );
}

#[test]
fn grafana_draws_a_view() {
    let dir = tempfile::tempdir().unwrap();
    let (_server, mut client) = server(dir.path());
    let range = "t BETWEEN '2026-01-01T10:00:00Z' AND '2026-01-01T11:00:00Z'";
    // $__timeGroup(t, '5m'), $__timeFilter(t), $__timeEpoch, $__unixEpochGroup and their fills.
    check(
        &mut client,
        &[
            ("SET client_encoding = 'UTF8'", None),
            ("SET datestyle = 'ISO, MDY'", None),
            ("SET timezone = 'UTC'", None),
            ("select 1 as one", Some("1")),
            ("SELECT current_setting('server_version_num')::int/100 as version", Some("1500")),
        ],
    );
    let grouped = format!(
        "SELECT floor(extract(epoch from t)/300)*300 AS \"time\", host AS metric, avg(v) AS \"v\" FROM per_minute \
         WHERE {range} GROUP BY 1, 2 ORDER BY 1, 2"
    );
    let answer = client.extended(&grouped);
    assert_eq!(answer.error, None);
    let rows: Vec<String> = answer
        .rows
        .iter()
        .map(|row| row.iter().map(|v| v.clone().unwrap()).collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!(rows, ["1767261600 a 1", "1767261900 a 2", "1767261900 b 4"]);
    check(
        &mut client,
        &[
            (
                &format!(
                    "SELECT t AS \"time\", v FROM per_minute WHERE {range} AND host IN ('a','b') ORDER BY 1"
                ),
                None,
            ),
            (
                "SELECT extract(epoch from t) as \"time\", v FROM per_minute WHERE host = 'b'",
                Some("1767261960.000000"),
            ),
            ("SELECT DISTINCT host FROM per_minute ORDER BY host", Some("a")),
            (
                "SELECT DISTINCT host AS __text, host AS __value FROM per_minute ORDER BY 1 LIMIT 1000",
                Some("a"),
            ),
        ],
    );
}

#[test]
fn metabase_asks_a_view() {
    let dir = tempfile::tempdir().unwrap();
    let (_server, mut client) = server(dir.path());
    let bucket = |unit: &str| {
        format!(
            "-- Metabase:: userID: 1 queryType: MBQL queryHash: abc\n\
             SELECT CAST(DATE_TRUNC('{unit}', \"public\".\"per_minute\".\"t\") AS timestamp) AS \"t\", \
             SUM(\"public\".\"per_minute\".\"n\") AS \"sum\" FROM \"public\".\"per_minute\" \
             WHERE (\"public\".\"per_minute\".\"t\" >= timestamp with time zone '2026-01-01 00:00:00.000Z') \
             AND (\"public\".\"per_minute\".\"t\" < CAST('2026-02-01' AS timestamp)) \
             GROUP BY CAST(DATE_TRUNC('{unit}', \"public\".\"per_minute\".\"t\") AS timestamp) \
             ORDER BY CAST(DATE_TRUNC('{unit}', \"public\".\"per_minute\".\"t\") AS timestamp) ASC"
        )
    };
    check(
        &mut client,
        &[
            ("SET SESSION TIMEZONE TO 'UTC'", None),
            ("SET LOCAL TIME ZONE 'UTC'", None),
            ("SELECT 1", Some("1")),
            (&bucket("day"), Some("2026-01-01 00:00:00")),
            (&bucket("month"), Some("2026-01-01 00:00:00")),
            (&bucket("hour"), Some("2026-01-01 10:00:00")),
            (
                "SELECT \"source\".\"host\" AS \"host\", COUNT(*) AS \"count\" FROM (SELECT \"public\".\"per_minute\".\"host\" \
                 AS \"host\" FROM \"public\".\"per_minute\") AS \"source\" GROUP BY \"source\".\"host\" \
                 ORDER BY \"count\" DESC, \"source\".\"host\" ASC LIMIT 10",
                Some("a"),
            ),
            (
                "SELECT SUM(CASE WHEN \"per_minute\".\"v\" > 1 THEN 1 ELSE 0.0 END) AS \"hits\", \
                 CAST(COUNT(*) AS float) / NULLIF(COUNT(*), 0) FROM \"per_minute\"",
                None,
            ),
            ("SELECT \"host\" FROM \"per_minute\" WHERE (LOWER(\"host\") LIKE '%b%') LIMIT 2000", Some("b")),
            (
                "SELECT extract(dow FROM t) + 1 AS d, count(distinct host) AS hosts FROM per_minute GROUP BY extract(dow FROM t) + 1 \
                 ORDER BY d",
                Some("5"),
            ),
            (
                "SELECT FLOOR((v - 0.0) / 2.0) * 2.0 + 0.0 AS bin, COUNT(*) FROM per_minute GROUP BY 1 ORDER BY 1",
                Some("0"),
            ),
        ],
    );
}
