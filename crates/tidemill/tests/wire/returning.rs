//! RETURNING and ON CONFLICT DO NOTHING of foreign tables.

use crate::foreign_write::{Setting, counts, start};
use crate::server::{failure, rows};

#[tokio::test]
async fn what_was_written_comes_back() {
    let Some(setting) = start().await else { return };
    let Setting { remote, client, .. } = &setting;
    remote
        .batch_execute(
            "CREATE FUNCTION n1.louder() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN new.name := upper(new.name); RETURN new; END $$;
             CREATE TRIGGER louder BEFORE INSERT ON n1.m FOR EACH ROW EXECUTE FUNCTION n1.louder()",
        )
        .await
        .unwrap();
    for (statement, wanted) in [
        (
            "INSERT INTO t1 VALUES (1, 'one', 1.5, '2020-01-01 12:00+00', 1.10) RETURNING *",
            vec![vec!["1", "ONE", "1.5", "2020-01-01 12:00:00+00", "1.10"]],
        ),
        (
            "INSERT INTO t1 (id, label) SELECT x, 'x' || x FROM generate_series(2, 3) AS x RETURNING id * 10 AS ten, t1.label || '!'",
            vec![vec!["20", "X2!"], vec!["30", "X3!"]],
        ),
        (
            "UPDATE t1 AS t SET v = id WHERE id > 1 RETURNING t.id, v, n",
            vec![vec!["2", "2", "NULL"], vec!["3", "3", "NULL"]],
        ),
        ("DELETE FROM t1 WHERE id = 2 RETURNING label, 1", vec![vec!["X2", "1"]]),
        ("DELETE FROM t1 WHERE id = 2 RETURNING id", vec![]),
        (
            "INSERT INTO m IN ('/n2/', '/n3/') (id, __spd_url) VALUES (50, '/n3/'), (51, '/n2/') RETURNING __spd_url, id",
            vec![vec!["/n2/", "51"], vec!["/n3/", "50"]],
        ),
        (
            "UPDATE m SET name = 'all' RETURNING id, __spd_url",
            vec![vec!["1", "/n1/"], vec!["3", "/n1/"], vec!["51", "/n2/"], vec!["50", "/n3/"]],
        ),
        ("INSERT INTO t2 (id) WITH x AS (SELECT 7 AS y) SELECT y FROM x RETURNING id", vec![vec!["7"]]),
    ] {
        let found = rows(client, &format!("SET timezone = 'UTC'; {statement}")).await;
        assert_eq!(found, wanted, "{statement}");
    }
    for (statement, wanted) in [
        (
            "INSERT INTO t1 (id) VALUES (9) RETURNING count(*)",
            ("42803", "aggregate functions are not allowed in RETURNING"),
        ),
        (
            "UPDATE m SET v = 9 RETURNING id + max(id)",
            ("42803", "aggregate functions are not allowed in RETURNING"),
        ),
        (
            "DELETE FROM m RETURNING count(*) OVER ()",
            ("42P20", "window functions are not allowed in RETURNING"),
        ),
    ] {
        let (state, message) = failure(client, statement).await;
        assert_eq!((state.as_str(), message.as_str()), wanted, "{statement}");
    }
    assert_eq!(rows(client, "SELECT count(*), count(v) FILTER (WHERE v = 9) FROM m").await, [["5", "0"]]);
    let insert =
        client.prepare("INSERT INTO t3 (id, v) VALUES ($1, $2) RETURNING id, v * 2 AS twice").await.unwrap();
    assert_eq!(insert.columns()[1].name(), "twice");
    let found = client.query_one(&insert, &[&70, &1.5_f64]).await.unwrap();
    assert_eq!((found.get::<_, i32>(0), found.get::<_, f64>(1)), (70, 3.0));
    let delete = client.prepare("DELETE FROM m WHERE id = $1 RETURNING __spd_url").await.unwrap();
    assert_eq!(client.query_one(&delete, &[&70]).await.unwrap().get::<_, String>(0), "/n3/");
    assert_eq!(
        client
            .execute("INSERT INTO m (id) SELECT generate_series(100, 104) RETURNING id", &[])
            .await
            .unwrap(),
        5
    );
}

/// As a foreign server's connection, whose search path names what is always there.
#[tokio::test]
async fn rows_come_back_whatever_the_search_path_is() {
    let Some(setting) = start().await else { return };
    let Setting { client, .. } = &setting;
    client.batch_execute("SET search_path = pg_catalog").await.unwrap();
    for (statement, wanted) in [
        ("INSERT INTO public.t1 (id, label) VALUES (1, 'a') RETURNING id, label", [["1", "a"]]),
        ("UPDATE public.t1 SET label = 'b' WHERE id = 1 RETURNING t1.id, label", [["1", "b"]]),
        ("DELETE FROM public.t1 WHERE id = 1 RETURNING id, label", [["1", "b"]]),
    ] {
        assert_eq!(rows(client, statement).await, wanted, "{statement}");
    }
}

#[tokio::test]
async fn rows_of_defaults_are_written() {
    let Some(setting) = start().await else { return };
    let Setting { client, .. } = &setting;
    client
        .batch_execute(
            "CREATE TABLE own (id int DEFAULT 7, label text); CREATE STREAM events (id int);
             CREATE CONTINUOUS VIEW counted AS SELECT count(*) AS n, count(id) AS known FROM events;
             INSERT INTO own DEFAULT VALUES; INSERT INTO own (id, label) VALUES (DEFAULT, NULL);
             INSERT INTO events DEFAULT VALUES; INSERT INTO events VALUES (DEFAULT), (NULL);
             INSERT INTO t1 DEFAULT VALUES",
        )
        .await
        .unwrap();
    assert_eq!(rows(client, "SELECT * FROM own").await, [["7", "NULL"], ["7", "NULL"]]);
    assert_eq!(rows(client, "SELECT * FROM counted").await, [["3", "0"]]);
    for (statement, wanted) in [
        ("INSERT INTO t2 (id, label) VALUES (DEFAULT, NULL) RETURNING id, label", [["NULL", "NULL"]]),
        ("INSERT INTO t2 DEFAULT VALUES RETURNING id, label", [["NULL", "NULL"]]),
        ("INSERT INTO t2 (id) SELECT NULL RETURNING id, label", [["NULL", "NULL"]]),
    ] {
        assert_eq!(rows(client, statement).await, wanted, "{statement}");
    }
}

#[tokio::test]
async fn rows_that_are_there_already_are_left_out() {
    let Some(setting) = start().await else { return };
    let Setting { remote, client, .. } = &setting;
    client.batch_execute("INSERT INTO t1 (id) SELECT generate_series(1, 1500, 2)").await.unwrap();
    let insert = "INSERT INTO t1 (id) SELECT x FROM generate_series(1, 3000) AS x ON CONFLICT DO NOTHING";
    assert_eq!(client.execute(insert, &[]).await.unwrap(), 2250);
    assert_eq!(counts(remote).await, ["3000", "0", "0"]);
    let none = "INSERT INTO t1 (id) SELECT generate_series(1, 10) ON CONFLICT DO NOTHING";
    assert_eq!(client.execute(none, &[]).await.unwrap(), 0);
    let both = "INSERT INTO t1 (id) VALUES (5), (4000), (6) ON CONFLICT DO NOTHING RETURNING id";
    assert_eq!(rows(client, both).await, [["4000"]]);
    client
        .batch_execute("BEGIN; INSERT INTO t1 (id) VALUES (5), (5000) ON CONFLICT DO NOTHING")
        .await
        .unwrap();
    assert_eq!(rows(client, "SELECT count(*) FROM t1 WHERE id >= 4000").await, [["2"]]);
    client.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(rows(client, "SELECT count(*) FROM t1").await, [["3001"]]);
    client.batch_execute("CREATE TABLE plain (id int); CREATE STREAM s (id int)").await.unwrap();
    for (statement, state, message) in [
        (
            "INSERT INTO t1 (id) VALUES (1) ON CONFLICT (id) DO NOTHING",
            "42P10",
            "there is no unique or exclusion constraint",
        ),
        (
            "INSERT INTO t1 (id) VALUES (1) ON CONFLICT (id) DO UPDATE SET v = 1",
            "42P10",
            "there is no unique or exclusion constraint",
        ),
        (
            "INSERT INTO t1 (id) VALUES (1) ON CONFLICT DO UPDATE SET v = 1",
            "42601",
            "ON CONFLICT DO UPDATE requires",
        ),
        ("INSERT INTO t1 (id) VALUES (1) RETURNING nope", "42703", "column \"nope\" does not exist"),
        ("INSERT INTO t1 (id) VALUES (9000) RETURNING id / 0", "22012", "division by zero"),
        ("DELETE FROM t1 RETURNING $1::int", "0A000", "parameters in RETURNING"),
        ("INSERT INTO plain VALUES (1) RETURNING id", "0A000", "RETURNING is not supported"),
        ("UPDATE plain SET id = 2 RETURNING id", "0A000", "RETURNING is not supported"),
        ("INSERT INTO plain VALUES (1) ON CONFLICT DO NOTHING", "0A000", "ON CONFLICT is not supported"),
        ("INSERT INTO s VALUES (1) RETURNING id", "0A000", "RETURNING is not supported"),
    ] {
        let (code, told) = failure(client, statement).await;
        assert!(code == state && told.contains(message), "{statement}: {code} {told}");
    }
    assert_eq!(rows(client, "SELECT count(*) FROM t1").await, [["3001"]]);
}
