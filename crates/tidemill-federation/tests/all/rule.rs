//! Each rule over servers that can follow it, that cannot, and that can in part: the rows are right, what the servers are asked
//! is as expected, and without the rule the answer is the same.

use tidemill_federation::pushdown::Pushdown;

use crate::recorded::{ABLE, HANGS, Node, PARTIAL, PLAIN, Setting};

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
        Pushdown { joins: false, ..Pushdown::default() },
        Pushdown { dynamic_filters: false, ..Pushdown::default() },
        Pushdown::NOTHING,
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

/// Any rows are taken from one node after the other, until there are enough of them.
#[tokio::test]
async fn limits_in_turn() {
    let node = |name, rows| Node { name, capabilities: &ABLE, rows };
    let nodes = [
        node("one", "VALUES ('a', 1, 10.0), ('b', 2, 1.0), ('c', 3, 0.0)"),
        node("two", "VALUES ('d', 4, 1.0), ('e', 5, 1.0)"),
        node("three", "VALUES ('f', 6, 1.0), ('g', 7, 1.0)"),
    ];
    for (limit, rows, asked) in [
        ("LIMIT 2", "2", &["one"][..]),
        ("LIMIT 2 OFFSET 2", "2", &["one", "two"]),
        ("LIMIT 5", "5", &["one", "two"]),
        ("LIMIT 100", "7", &["one", "three", "two"]),
        ("LIMIT 100000", "7", &["one", "three", "two"]),
    ] {
        let sql = format!("SELECT count(*) FROM (SELECT g FROM m {limit}) AS some");
        let on = Setting::new(&nodes, Pushdown::default()).await.query(&sql).await;
        assert_eq!(on.0, [rows], "{sql}");
        let names: Vec<_> = on.1.iter().map(|asked| asked.split(':').next().unwrap()).collect();
        assert_eq!(names, asked, "{sql}");
        let off = Setting::new(&nodes, Pushdown::NOTHING).await.query(&sql).await;
        assert_eq!(off.0, [rows], "{sql}");
    }
    // Where something is to be found first, all look for it.
    let sql = "SELECT count(*) FROM (SELECT g FROM m WHERE i > 0 LIMIT 1) AS some";
    let found = Setting::new(&nodes, Pushdown::default()).await.query(sql).await;
    assert_eq!((found.0.as_slice(), found.1.len()), (&["1".to_string()][..], 3));
    // One that does not answer is not waited for.
    let silent = [node(HANGS, "VALUES ('a', 1, 10.0)"), node("two", "VALUES ('d', 4, 1.0), ('e', 5, 1.0)")];
    let sql = "SELECT count(*) FROM (SELECT g FROM m LIMIT 2) AS some";
    let found = Setting::new(&silent, Pushdown::default()).await.query(sql).await;
    assert_eq!((found.0.as_slice(), found.1.len()), (&["2".to_string()][..], 2));
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

/// What is folded here is over the same projection as what is folded there.
#[tokio::test]
async fn partial_aggregates_over_projections() {
    check(
        "SELECT sum(n)::text, max(n)::text FROM (SELECT n * n AS n FROM m) AS d",
        &["80.0000000000|49.0000000000"],
        &[
            r#"able: SELECT CAST(CASE WHEN sum(("n" * "n")) IS NULL THEN 0 ELSE 1 END AS bigint), coalesce(sum(("n" * "n")), 0), max(("n" * "n")) FROM m"#,
            r#"part: SELECT "n" FROM m"#,
            r#"plain: SELECT "n" FROM m"#,
        ],
    )
    .await;
    check(
        "SELECT i, count(*) FROM (SELECT length(g) AS i FROM m) AS d GROUP BY i ORDER BY i",
        &["0|1", "1|6", "|1"],
        &[
            r#"able: SELECT length("g"), count(*) FROM m GROUP BY 1"#,
            r#"part: SELECT "g" FROM m"#,
            r#"plain: SELECT "g" FROM m"#,
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

/// Numerics are grouped by their value, whatever their decimals, and what is folded of them has the decimals that it has in
/// one place. A sum of integers has the form here that its state has.
#[tokio::test]
async fn states_of_numerics() {
    check(
        "SELECT i, sum(n)::text, avg(n)::text, count(n) FROM m WHERE n < 3 GROUP BY i, n ORDER BY i",
        &["1|2.00000|1.00000000000000000000|2", "2|2.0000|2.0000000000000000|1"],
        &[
            r#"able: SELECT "i", "n", CAST(CASE WHEN sum("n") IS NULL THEN 0 ELSE 1 END AS bigint), coalesce(sum("n"), 0), count("n"), coalesce(sum("n"), 0), count("n") FROM m WHERE ("n" < '3'::numeric) GROUP BY 1, 2"#,
            r#"part: SELECT "i", "n" FROM m"#,
            r#"plain: SELECT "i", "n" FROM m"#,
        ],
    )
    .await;
    check(
        "SELECT variance(i)::text, stddev_pop(n)::text, bit_or(i) FROM m WHERE n * n > 2 AND length(g) = 1",
        &["4.6666666666666667|1.8708286933869707|7"],
        &[
            r#"able: SELECT count("i"), coalesce(sum(CAST("i" AS numeric)), 0), coalesce(sum(CAST("i" AS numeric) * CAST("i" AS numeric)), 0), count("n"), coalesce(sum("n"), 0), coalesce(sum("n" * "n"), 0), bit_or("i") FROM m WHERE (("n" * "n") > '2'::numeric) AND (length("g") = 1)"#,
            r#"part: SELECT "g", "i", "n" FROM m"#,
            r#"plain: SELECT "g", "i", "n" FROM m"#,
        ],
    )
    .await;
    check(
        "SELECT x, count(*) FROM m WHERE g LIKE '_' GROUP BY x ORDER BY x LIMIT 2",
        &["-1.5|1", "1.0|1"],
        &[
            r#"able: SELECT "x", count(*) FROM m WHERE ("g" LIKE '_'::text) GROUP BY 1"#,
            r#"part: SELECT "g", "x" FROM m"#,
            r#"plain: SELECT "g", "x" FROM m"#,
        ],
    )
    .await;
}

/// Two tables of one server, which it joins. What is asked of a join is asked of it.
#[tokio::test]
async fn joins() {
    check(
        "SELECT a.g, b.x FROM able AS a JOIN able AS b ON a.i = b.i AND a.n <= b.n WHERE b.x > 5",
        &["a|10.0"],
        &[r#"able: SELECT l.c1, r.c2 FROM (SELECT "g", "i", "n" FROM m) AS l(c1, c2, c3) JOIN (SELECT "i", "x", "n" FROM m WHERE ("x" > '5'::double precision)) AS r(c1, c2, c3) ON (l.c2 = r.c1) AND (l.c3 <= r.c3)"#],
    )
    .await;
    check(
        "SELECT a.g, length(b.g) AS l FROM able AS a LEFT JOIN able AS b ON a.n = b.n ORDER BY a.g LIMIT 2",
        &["a|1", "b|1"],
        &[r#"able: SELECT l.c1, l.c2, r.c1, r.c2 FROM (SELECT "g", "n" FROM m) AS l(c1, c2) LEFT JOIN (SELECT "g", "n" FROM m) AS r(c1, c2) ON (l.c2 = r.c2) ORDER BY l.c1 ASC NULLS LAST LIMIT 2"#],
    )
    .await;
    check(
        "SELECT length(a.g) AS length, sum(b.n)::text FROM able AS a JOIN able AS b USING (i) GROUP BY length",
        &["1|3.0000"],
        &[r#"able: SELECT length(l.c1), CAST(CASE WHEN sum(r.c2) IS NULL THEN 0 ELSE 1 END AS bigint), coalesce(sum(r.c2), 0) FROM (SELECT "g", "i" FROM m) AS l(c1, c2) JOIN (SELECT "i", "n" FROM m) AS r(c1, c2) ON (l.c2 = r.c1) GROUP BY 1"#],
    )
    .await;
    check(
        "SELECT i FROM able AS a WHERE EXISTS (SELECT FROM able AS b WHERE b.i = a.i) AND x NOT IN (1, 2)",
        &["1"],
        &[r#"able: SELECT l.c1 FROM (SELECT "i" FROM m WHERE ("x" <> '1'::double precision) AND ("x" <> '2'::double precision)) AS l(c1) WHERE (EXISTS (SELECT 1 FROM (SELECT "i" FROM m) AS r(c1) WHERE (l.c1 = r.c1)))"#],
    )
    .await;
    check(
        "SELECT g FROM able AS a WHERE NOT EXISTS (SELECT FROM able AS b WHERE b.i = a.i)",
        &[""],
        &[r#"able: SELECT l.c1 FROM (SELECT "g", "i" FROM m) AS l(c1, c2) WHERE (NOT EXISTS (SELECT 1 FROM (SELECT "i" FROM m) AS r(c1) WHERE (l.c2 = r.c1)))"#],
    )
    .await;
    check(
        "SELECT a.i, b.i AS other FROM able AS a FULL JOIN able AS b ON a.i = b.i AND a.g = b.g ORDER BY 1, 2",
        &["1|1", "2|2", "|", "|"],
        &[r#"able: SELECT l.c2, r.c2 FROM (SELECT "g", "i" FROM m) AS l(c1, c2) FULL JOIN (SELECT "g", "i" FROM m) AS r(c1, c2) ON (l.c2 = r.c2) AND (l.c1 = r.c1)"#],
    )
    .await;
    check(
        "SELECT p.i FROM plain AS p JOIN plain AS q ON p.i = q.i ORDER BY p.i",
        &["1", "7"],
        &[r#"plain: SELECT "i" FROM m"#, r#"plain: SELECT "i" FROM m"#],
    )
    .await;
}

/// The keys of the side that is hashed go to the servers of the other one.
#[tokio::test]
async fn dynamic_filters() {
    check(
        "SELECT m.g, m.i FROM plain AS p JOIN m ON p.i = m.i WHERE p.g = 'a' ORDER BY m.g",
        &["a|1", "a|1"],
        &[
            r#"able: SELECT "g", "i" FROM m WHERE ("i" IN (1))"#,
            r#"part: SELECT "g", "i" FROM m"#,
            r#"plain: SELECT "g", "i" FROM m"#,
            r#"plain: SELECT "g", "i" FROM m"#,
        ],
    )
    .await;
    check(
        "SELECT g FROM m WHERE n IN (SELECT n FROM plain WHERE g < 'b') ORDER BY g",
        &["a", "a"],
        &[
            r#"able: SELECT "g", "n" FROM m WHERE ("n" IN ('1'::numeric))"#,
            r#"part: SELECT "g", "n" FROM m"#,
            r#"plain: SELECT "g", "n" FROM m"#,
            r#"plain: SELECT "g", "n" FROM m"#,
        ],
    )
    .await;
    check(
        "SELECT p.g, sum(m.x) FROM plain AS p JOIN m ON p.i = m.i AND p.g = m.g GROUP BY p.g ORDER BY p.g",
        &["a|15.0", "c|7.0"],
        &[r#"able: SELECT "i", "g", coalesce(sum("x"), 0), CAST(CASE WHEN sum("x") IS NULL THEN 0 ELSE 1 END AS bigint), coalesce(sum("x") IN ('Infinity', '-Infinity'), false) FROM m WHERE ("i" IN (1, 7)) AND ("g" IN ('a'::text, 'c'::text)) GROUP BY 1, 2"#, r#"part: SELECT "g", "i", "x" FROM m"#, r#"plain: SELECT "g", "i" FROM m"#, r#"plain: SELECT "g", "i", "x" FROM m"#],
    )
    .await;
}
