//! The types of MySQL and MariaDB, as they are imported and compared.

use mysql_async::prelude::Queryable;

use super::mysql::start;
use crate::server::rows as read;

#[tokio::test]
async fn schemas_are_imported() {
    let Some((ours, _node, mut remote)) = start().await else { return };
    remote
        .query_drop(
            "CREATE TABLE kinds (t TINYINT NOT NULL, u INT UNSIGNED, b BIGINT UNSIGNED, f FLOAT, n DECIMAL(10,2), v VARCHAR(9),
                 e ENUM('x', 'y'), bin VARBINARY(4), d DATE, at DATETIME(3), z TIMESTAMP NULL, h TIME(1), l LONGTEXT)",
        )
        .await
        .unwrap();
    remote
        .query_drop(
            "INSERT INTO kinds VALUES (1, 4000000000, 18446744073709551615, 0.1, 12.50, 'v ', 'y', x'00ff', '2020-02-29',
                 '2020-01-02 03:04:05.678', '2020-01-02 03:04:05', '12:34:56.7', 'long'),
             (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)",
        )
        .await
        .unwrap();
    ours.run("IMPORT FOREIGN SCHEMA d LIMIT TO (kinds) FROM SERVER s INTO public").await;
    let columns = "SELECT attname, format_type(atttypid, atttypmod), attnotnull FROM pg_attribute
                   WHERE attrelid = 'kinds'::regclass ORDER BY attnum LIMIT 5";
    let wanted = [
        ["t", "smallint", "t"],
        ["u", "bigint", "f"],
        ["b", "numeric(20,0)", "f"],
        ["f", "real", "f"],
        ["n", "numeric(10,2)", "f"],
    ];
    assert_eq!(read(&ours.client, columns).await, wanted);
    ours.run("SET timezone = 'UTC'").await;
    let wanted = [
        "1",
        "4000000000",
        "18446744073709551615",
        "0.1",
        "12.50",
        "v ",
        "y",
        "\\x00ff",
        "2020-02-29",
        "2020-01-02 03:04:05.678",
        "2020-01-02 03:04:05+00",
        "12:34:56.7",
        "long",
    ];
    for query in [
        "SELECT * FROM kinds WHERE f = 0.1::real",
        "SELECT * FROM kinds WHERE z = '2020-01-02 03:04:05Z'",
        "SELECT * FROM kinds WHERE n = 12.5 AND bin = '\\x00ff'",
    ] {
        assert_eq!(read(&ours.client, query).await, [wanted], "{query}");
    }
    assert_eq!(
        read(&ours.client, "SELECT max(z), max(h), min(e) FROM kinds").await,
        [["2020-01-02 03:04:05+00", "12:34:56.7", "y"]]
    );
    ours.check_failure(
        "IMPORT FOREIGN SCHEMA nope FROM SERVER s INTO public",
        "HV00Q",
        "schema \"nope\" is not present",
    )
    .await;
}

/// A constant of two digits is another year there, and so is a number beside a column of years.
#[tokio::test]
async fn years_and_documents_are_what_they_are_here() {
    let Some((ours, _node, mut remote)) = start().await else { return };
    remote.query_drop("CREATE TABLE odd (id INT, y YEAR, small SMALLINT, j JSON)").await.unwrap();
    remote
        .query_drop(
            "INSERT INTO odd VALUES (1, 1999, 99, '[1]'), (2, 2001, 1, '\"x\"'), (3, 0, 0, '{}'), (99, 2070, 70, '7'),
                 (5, NULL, NULL, NULL)",
        )
        .await
        .unwrap();
    let columns = "(id int, y smallint, small int, j text)";
    ours.run(&format!(
        "CREATE FOREIGN TABLE odd {columns} SERVER s OPTIONS (dbname 'd');
         CREATE TABLE own AS SELECT * FROM odd"
    ))
    .await;
    let mut queries = vec![
        "y, count(*) FROM TABLE GROUP BY y".to_string(),
        "y FROM TABLE ORDER BY y DESC LIMIT 2".to_string(),
        "sum(y), min(y), max(y) FROM TABLE".to_string(),
        "id FROM TABLE WHERE y = id".to_string(),
        "id FROM TABLE WHERE y IN (99, 2001)".to_string(),
        "id FROM TABLE WHERE y NOT IN (99, 1)".to_string(),
        "id FROM TABLE WHERE small IN (99, 1, 70)".to_string(),
        "min(j), max(j), count(DISTINCT j) FROM TABLE".to_string(),
    ];
    for sign in ["=", "<>", "<", ">=", "IS NOT DISTINCT FROM"] {
        for number in [0, 1, 70, 99, 150, 1999, 3000] {
            queries.push(format!("id FROM TABLE WHERE y {sign} {number}"));
            queries.push(format!("id FROM TABLE WHERE small {sign} {number}"));
        }
        for text in ["[1]", "\"x\"", "x", "7", "{}"] {
            queries.push(format!("id FROM TABLE WHERE j {sign} '{text}'"));
        }
    }
    for query in queries {
        let (here, there) = (query.replace("TABLE", "own"), query.replace("TABLE", "odd"));
        let there = ours.answer(&format!("SELECT {there}")).await;
        assert_eq!(there, ours.answer(&format!("SELECT {here}")).await, "{query}");
    }
    assert_eq!(
        ours.asked("SELECT id FROM odd WHERE y > 99 AND small > 99").await,
        "SELECT `id` FROM `d`.`odd` WHERE ((`y` + 0) > 99) AND (`small` > 99)"
    );
    for (sql, state, message) in [
        (
            "INSERT INTO odd (id, y) VALUES (6, 70)",
            "22003",
            "a year of two digits would become one of this century or the last",
        ),
        (
            "UPDATE odd SET y = 70 WHERE id = 1",
            "22003",
            "a year of two digits would become one of this century or the last",
        ),
        ("UPDATE odd SET y = small", "0A000", "this UPDATE cannot be left to the servers"),
        (
            "INSERT INTO odd (id, y) VALUES (6, 1900)",
            "22003",
            "server \"s\": Out of range value for column 'y'",
        ),
    ] {
        ours.check_failure(sql, state, message).await;
    }
    ours.run(
        "INSERT INTO odd VALUES (6, 1970, 6); UPDATE odd SET y = 2000, small = 7 WHERE y = 1970; DELETE FROM odd WHERE y < 99",
    )
    .await;
    assert_eq!(
        read(&ours.client, "SELECT id, y, small FROM odd WHERE id < 9 ORDER BY id").await,
        [["1", "1999", "99"], ["2", "2001", "1"], ["5", "NULL", "NULL"], ["6", "2000", "7"]]
    );
}
