//! Each rule over servers that can follow it, that cannot, and that can in part: the rows are right, what the servers are asked
//! is as expected, and without the rule the answer is the same.

use tidemill_federation::pushdown::Pushdown;

use crate::recorded::{ABLE, Node, PARTIAL, PLAIN, Setting};

const OFF: Pushdown = Pushdown { filters: false, aggregates: false, eager_aggregates: false, top_k: false };

fn nodes() -> [Node; 3] {
    [
        Node {
            name: "able",
            capabilities: &ABLE,
            rows: "VALUES ('a', 1, 10.0), ('b', 2, 1.0), (NULL, NULL, NULL)",
        },
        Node {
            name: "part",
            capabilities: &PARTIAL,
            rows: "VALUES ('b', 3, 'NaN'), ('B', 4, -1.5), ('', NULL, 0.0)",
        },
        Node { name: "plain", capabilities: &PLAIN, rows: "VALUES ('a', 1, 5.0), ('c', 7, 7.0)" },
    ]
}

/// The rows of a query and what the nodes are asked for them.
async fn check(sql: &str, rows: &[&str], asked: &[&str]) {
    let on = Setting::new(&nodes(), Pushdown::default()).await.query(sql).await;
    assert_eq!(on.0, rows, "{sql}");
    let wanted: Vec<_> = asked.iter().map(|asked| asked.replace("FROM m", r#"FROM "m""#)).collect();
    assert_eq!(on.1, wanted, "{sql}");
    for off in [
        Pushdown { filters: false, ..Pushdown::default() },
        Pushdown { aggregates: false, ..Pushdown::default() },
        Pushdown { top_k: false, ..Pushdown::default() },
        OFF,
    ] {
        let without = Setting::new(&nodes(), off).await.query(sql).await;
        assert_eq!(without.0, rows, "{off:?}: {sql}");
    }
}

/// A condition is left to those that judge it alike.
#[tokio::test]
async fn conditions() {
    check(
        "SELECT i FROM m WHERE i = 1",
        &["1", "1"],
        &[
            r#"able: SELECT "i" FROM m WHERE ("i" = 1)"#,
            r#"part: SELECT "i" FROM m WHERE ("i" = 1)"#,
            r#"plain: SELECT "i" FROM m"#,
        ],
    )
    .await;
    check(
        "SELECT i FROM m WHERE g = 'b' AND i < 4 ORDER BY i",
        &["2", "3"],
        &[
            r#"able: SELECT "i" FROM m WHERE ("g" = 'b'::text) AND ("i" < 4)"#,
            r#"part: SELECT "g", "i" FROM m WHERE ("i" < 4)"#,
            r#"plain: SELECT "g", "i" FROM m"#,
        ],
    )
    .await;
    check(
        "SELECT count(*) FROM m WHERE NOT (i = 1 OR g IS NULL)",
        &["4"],
        &[
            r#"able: SELECT count(*) FROM m WHERE ("i" <> 1) AND ("g" IS NOT NULL)"#,
            r#"part: SELECT "g", "i" FROM m"#,
            r#"plain: SELECT "g", "i" FROM m"#,
        ],
    )
    .await;
    check("SELECT i FROM m WHERE x IN (5, 'NaN') ORDER BY i", &["1", "3"], &[
        r#"able: SELECT "i" FROM m WHERE (("x" = '5'::double precision) OR ("x" = 'NaN'::double precision))"#,
        r#"part: SELECT "i", "x" FROM m"#,
        r#"plain: SELECT "i", "x" FROM m"#,
    ])
    .await;
}

/// LIMIT goes with conditions only where nothing is left to be judged.
#[tokio::test]
async fn limits() {
    check(
        "SELECT count(*) FROM (SELECT g FROM m WHERE g >= '' LIMIT 2) AS some",
        &["2"],
        &[
            r#"able: SELECT NULL FROM m WHERE ("g" >= ''::text) LIMIT 2"#,
            r#"part: SELECT "g" FROM m"#,
            r#"plain: SELECT "g" FROM m"#,
        ],
    )
    .await;
}

/// States of one side are merged with those that are made here of the rows of the other.
#[tokio::test]
async fn partial_aggregates() {
    check(
        "SELECT g, count(*), avg(x) FROM m WHERE x < 'NaN' GROUP BY g ORDER BY g",
        &["|1|0.0", "B|1|-1.5", "a|2|7.5", "b|1|1.0", "c|1|7.0"],
        &[
            r#"able: SELECT "g", count(*), coalesce(sum("x"), 0), count("x"), coalesce(sum("x") IN ('Infinity', '-Infinity'), false) FROM m WHERE ("x" < 'NaN'::double precision) GROUP BY 1"#,
            r#"part: SELECT "g", "x" FROM m"#,
            r#"plain: SELECT "g", "x" FROM m"#,
        ],
    )
    .await;
    check(
        "SELECT max(i), count(g) FROM m",
        &["7|7"],
        &[
            r#"able: SELECT max("i"), count("g") FROM m"#,
            r#"part: SELECT max("i"), count("g") FROM m"#,
            r#"plain: SELECT "g", "i" FROM m"#,
        ],
    )
    .await;
    check(
        "SELECT sum(i), min(g) FROM m",
        &["18|"],
        &[
            r#"able: SELECT sum("i"), false, min("g") FROM m"#,
            r#"part: SELECT "g", "i" FROM m"#,
            r#"plain: SELECT "g", "i" FROM m"#,
        ],
    )
    .await;
    check(
        "SELECT count(*) FROM (SELECT DISTINCT i FROM m) AS d",
        &["6"],
        &[
            r#"able: SELECT "i" FROM m GROUP BY 1"#,
            r#"part: SELECT "i" FROM m GROUP BY 1"#,
            r#"plain: SELECT "i" FROM m"#,
        ],
    )
    .await;
}

/// A side that cannot sort sends all it has.
#[tokio::test]
async fn first_rows() {
    check(
        "SELECT x FROM m ORDER BY x DESC NULLS LAST LIMIT 2",
        &["NaN", "10.0"],
        &[
            r#"able: SELECT "x" FROM m ORDER BY "x" DESC NULLS LAST LIMIT 2"#,
            r#"part: SELECT "x" FROM m"#,
            r#"plain: SELECT "x" FROM m"#,
        ],
    )
    .await;
    check(
        "SELECT g FROM m ORDER BY g LIMIT 3",
        &["", "B", "a"],
        &[
            r#"able: SELECT "g" FROM m ORDER BY "g" ASC NULLS LAST LIMIT 3"#,
            r#"part: SELECT "g" FROM m"#,
            r#"plain: SELECT "g" FROM m"#,
        ],
    )
    .await;
}
