//! What lets the servers leave rows out: the values of subqueries, and DISTINCT.

use super::{asked_in_the_end, same, start};
use crate::server::rows;

#[tokio::test]
async fn values_of_subqueries_go_to_the_servers() {
    let Some(setting) = start().await else { return };
    for (query, condition) in [
        ("SELECT count(*) FROM hist WHERE n = (SELECT max(n) FROM hist)", r#"("n" = 16)"#),
        (
            "SELECT eid, v FROM hist WHERE b > (SELECT max(b) - 9000000000000000 FROM hist) ORDER BY b",
            r#"("b" > '8991000000000000000'::bigint)"#,
        ),
        (
            "SELECT count(v) FROM hist WHERE n > (SELECT 14) AND eid = (SELECT max(eid) FROM signal)",
            r#"("n" > 14) AND ("eid" = 'sensor 9'::text)"#,
        ),
        (
            "SELECT count(*) FROM hist WHERE n NOT BETWEEN (SELECT min(n) + 1 FROM hist) AND 15",
            r#"("n" < 1)"#,
        ),
        (
            "SELECT n, count(*) FROM hist GROUP BY n HAVING n > (SELECT max(n) - 2 FROM hist) ORDER BY n",
            r#"("n" > 14)"#,
        ),
        (
            "SELECT count(*) FROM hist WHERE at >= (SELECT max(at) - interval '1 hour' FROM hist)",
            r#"("at" >= '2020-01-15 13:00:00'::timestamp"#,
        ),
        // There is no such value, or it is one that only this server judges.
        ("SELECT count(*) FROM hist WHERE n = (SELECT n FROM hist WHERE n > 99)", "FROM"),
        ("SELECT count(*) FROM hist WHERE n > (SELECT 8) OR md5(eid) = (SELECT md5('sensor 1'))", "FROM"),
    ] {
        same(&setting, query).await;
        rows(&setting.client, query).await;
        let asked = rows(&setting.client, "SELECT remote_sql FROM tidemill.last_query_nodes").await.concat();
        assert!(asked.iter().any(|asked| asked.contains(condition)), "{query}: {asked:#?}");
    }
}

#[tokio::test]
async fn distinct_values_are_sent_once() {
    let Some(setting) = start().await else { return };
    for (query, sql) in [
        ("SELECT count(DISTINCT n) FROM hist", r#"SELECT "n" FROM "n1"."hist" GROUP BY 1"#),
        (
            "SELECT site, count(DISTINCT n), max(n) FROM hist WHERE n > 3 GROUP BY site ORDER BY site",
            r#"SELECT "site", "n" FROM "n1"."hist" WHERE ("n" > 3) GROUP BY 1, 2"#,
        ),
        (
            "SELECT count(DISTINCT n), sum(DISTINCT n), count(DISTINCT site), min(day) FROM hist",
            r#"SELECT "n", "site", "day" FROM "n1"."hist" GROUP BY 1, 2, 3"#,
        ),
        (
            "SELECT site % 2, avg(DISTINCT n) FROM hist GROUP BY 1 ORDER BY 1",
            r#"SELECT ("site" % 2), "n" FROM "n1"."hist" GROUP BY 1, 2"#,
        ),
        (
            "SELECT array_agg(DISTINCT n) FROM hist WHERE n < 5",
            r#"SELECT "n" FROM "n1"."hist" WHERE ("n" < 5) GROUP BY 1"#,
        ),
        // How often a value comes counts.
        ("SELECT count(DISTINCT n), sum(n) FROM hist", r#"SELECT "n" FROM "n1"."hist""#),
    ] {
        same(&setting, query).await;
        rows(&setting.client, query).await;
        assert_eq!(asked_in_the_end(&setting).await, sql, "{query}");
    }
    for query in [
        "SELECT n, count(DISTINCT eid), count(DISTINCT v) FROM hist GROUP BY n ORDER BY n",
        "SELECT count(DISTINCT free), sum(DISTINCT free), count(DISTINCT cost), avg(DISTINCT cost) FROM hist",
        "SELECT site, string_agg(DISTINCT eid, ','), bool_or(v > 3), count(DISTINCT d) FROM hist GROUP BY site ORDER BY site",
        "SELECT count(DISTINCT n) FILTER (WHERE site = 1), count(DISTINCT n) FROM hist",
        "SELECT site, n, count(DISTINCT v) FROM hist GROUP BY ROLLUP (site, n) ORDER BY 1, 2",
        "SELECT count(DISTINCT x) FROM (SELECT n + 1 AS x FROM hist WHERE md5(eid) > '5') AS s",
        "SELECT count(DISTINCT (site, n)), count(DISTINCT __spd_url) FROM hist",
        "SELECT count(DISTINCT n) FROM hist WHERE n > 99",
        "SELECT sum(DISTINCT v) > 0, count(DISTINCT 1) FROM hist",
    ] {
        same(&setting, query).await;
    }
}
