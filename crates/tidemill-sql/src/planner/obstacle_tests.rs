use super::*;
use crate::parse::parse_query;
use crate::planner::session_state_builder;

/// The message, and the text from its place on.
fn obstacle(sql: &str) -> Option<(String, String)> {
    let state = session_state_builder().build();
    let is_stream = |name: &ast::ObjectName| ["a", "b", "c"].iter().any(|stream| is_named(name, stream));
    let error = view_obstacle(&parse_query(sql).unwrap(), sql, &state, &is_stream)?;
    assert_eq!(error.state.0, "0A000", "{sql}");
    assert!(error.hint.is_some(), "{sql}");
    let at = error.position.map_or(sql.len(), |position| position - 1);
    Some((error.message.clone(), sql[at..].to_string()))
}

#[test]
fn an_obstacle_has_a_place() {
    for (sql, message, at) in [
        ("SELECT count(*) FROM a JOIN b ON a.k = b.k", "joins of streams", "b ON a.k"),
        ("SELECT count(*) FROM a, b", "joins of streams", "b"),
        ("SELECT count(*) FROM (a CROSS JOIN b)", "joins of streams", "b)"),
        ("SELECT count(*) FROM a, d, (SELECT k FROM b) t", "joins of streams", "SELECT k FROM b) t"),
        ("SELECT count(*) FROM a, LATERAL (SELECT FROM d WHERE d.k = a.k) t", "LATERAL in", "SELECT FROM d"),
        ("SELECT count(*) FROM a FULL JOIN d USING (k)", "FULL JOIN in", "d USING"),
        ("SELECT count(*) FROM a RIGHT JOIN d USING (k)", "RIGHT JOIN with", "d USING"),
        ("SELECT count(*) FROM d LEFT JOIN a USING (k)", "LEFT JOIN with", "a USING"),
        (
            "SELECT k FROM (SELECT k, count(*) FROM a GROUP BY k) t JOIN d USING (k)",
            "a join over an aggregate",
            "count(*) FROM a",
        ),
        ("SELECT k FROM a WHERE k IN (SELECT k FROM b)", "subqueries in WHERE", "SELECT k FROM b"),
        ("SELECT k FROM a WHERE EXISTS (SELECT FROM b)", "subqueries in WHERE", "SELECT FROM b"),
        ("SELECT (SELECT max(k) FROM b) FROM a", "subqueries in the select list", "SELECT max(k)"),
        ("SELECT (SELECT 1), count(*) FROM a", "subqueries in the select list", "SELECT 1)"),
        ("SELECT count(*) FROM a HAVING count(*) > (SELECT 1)", "subqueries in HAVING", "SELECT 1)"),
        ("SELECT k FROM a GROUP BY RollUp (k)", "GROUP BY ROLLUP in", "RollUp (k)"),
        ("SELECT k FROM a GROUP BY GROUPING SETS ((), (k))", "GROUP BY GROUPING SETS in", "GROUPING SETS ("),
        ("SELECT max(c) FROM (SELECT count(*) c FROM a) t", "an aggregate over an aggregate", "count(*) c"),
        ("SELECT DISTINCT k FROM (SELECT k FROM a GROUP BY k) t", "DISTINCT over an aggregate", "k) t"),
        ("WITH t AS (SELECT k FROM a LIMIT 3) SELECT max(k) FROM t", "an aggregate over LIMIT", "3) SELECT"),
        (
            "SELECT max(n) FROM (SELECT rank() OVER () n FROM a) t",
            "an aggregate over a window function",
            "rank()",
        ),
        (
            "SELECT count(*) FROM a UNION ALL SELECT count(*) FROM b",
            "UNION ALL over an aggregate",
            "count(*) FROM a",
        ),
        ("SELECT k FROM a EXCEPT SELECT k FROM b", "EXCEPT in", "EXCEPT SELECT"),
        ("WITH RECURSIVE t AS (SELECT k FROM a UNION SELECT k FROM t) TABLE t", "WITH RECURSIVE", "t AS"),
    ] {
        let (found, place) = obstacle(sql).unwrap();
        assert!(found.starts_with(message), "{sql}: {found}");
        assert!(place.starts_with(at), "{sql}: {place}");
    }
}

#[test]
fn what_a_view_can_have_is_no_obstacle() {
    for sql in [
        "SELECT k, count(*) FROM a GROUP BY k HAVING count(*) > 1 ORDER BY 2 LIMIT 3",
        "WITH t AS (SELECT k FROM a UNION ALL SELECT k FROM a) SELECT sum(k) FROM (SELECT * FROM t) u",
        "SELECT k FROM a UNION SELECT k FROM b UNION SELECT k FROM c",
        "SELECT rank() OVER (ORDER BY k), unnest(ARRAY[k]) FROM a",
        "SELECT DISTINCT ON (k) k, x FROM a ORDER BY k, x",
        "SELECT n, count(*) FROM a LEFT JOIN (SELECT k, max(n) n FROM d GROUP BY k) t USING (k), e GROUP BY n",
        "WITH t AS (SELECT DISTINCT k FROM d) SELECT count(*) FROM t RIGHT JOIN a USING (k)",
        "SELECT k, (SELECT n FROM d) FROM a WHERE k IN (SELECT k FROM d) AND NOT EXISTS (SELECT FROM e)",
    ] {
        assert_eq!(obstacle(sql), None, "{sql}");
    }
}
