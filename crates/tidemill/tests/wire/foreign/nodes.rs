//! Multi-tenant tables over servers of PostgreSQL.

use super::{Setting, remote_sql, start};
use crate::server::{failure, rows};

/// Three nodes, which are databases of one PostgreSQL, with tables of one shape and other rows.
async fn nodes(setting: &Setting) {
    let Setting { node, remote, client, .. } = setting;
    for (i, name) in ["n1", "n2", "n3"].into_iter().enumerate() {
        remote.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
        let there = node.connect(name).await;
        let rows = format!(
            "CREATE TABLE m (id int, name text, v float8);
             INSERT INTO m SELECT x, 'name ' || x % 4, x * {} FROM generate_series({i}, 1000, 3) AS x",
            i + 1
        );
        there.batch_execute(&rows).await.unwrap();
        let create = format!(
            "CREATE SERVER {name} FOREIGN DATA WRAPPER postgres_fdw
                 OPTIONS (host '127.0.0.1', port '{}', dbname '{name}');
             CREATE USER MAPPING FOR PUBLIC SERVER {name};
             CREATE FOREIGN TABLE p__{name}__0 (id int, name text, v float8) SERVER {name} OPTIONS (table_name 'm')",
            node.port
        );
        client.batch_execute(&create).await.unwrap();
    }
    let parents =
        "CREATE MULTI TENANT TABLE m (id int, name text, v float8) CHILDREN (n1.m, n2.m, n3.public.m);
        CREATE SERVER parent FOREIGN DATA WRAPPER pgspider_core_fdw;
        CREATE FOREIGN TABLE p (id int, name text, v float8, __spd_url text) SERVER parent;
        CREATE TABLE whole AS SELECT id, name, v, '/n1/' AS __spd_url FROM p__n1__0
            UNION ALL SELECT *, '/n2/' FROM p__n2__0 UNION ALL SELECT *, '/n3/' FROM p__n3__0";
    client.batch_execute(parents).await.unwrap();
}

/// What is read of the parent is what is read of one table that holds all of it.
#[tokio::test]
async fn tables_of_several_nodes_are_read_as_one() {
    let Some(setting) = start().await else { return };
    nodes(&setting).await;
    let client = &setting.client;
    for query in [
        "SELECT * FROM TABLE ORDER BY id",
        "SELECT count(*), sum(id), avg(v), round(stddev(v)::numeric, 6), count(DISTINCT name) FROM TABLE",
        "SELECT __spd_url, count(*) FROM TABLE GROUP BY __spd_url ORDER BY 1",
        "SELECT name, max(v), __spd_url FROM TABLE GROUP BY name, __spd_url HAVING max(v) > 990 ORDER BY 1, 3",
        "SELECT id FROM TABLE WHERE __spd_url = '/n2/' AND id < 20 ORDER BY id",
        "SELECT id FROM TABLE WHERE __spd_url IN ('/n2/', '/n3/') AND id < 20 ORDER BY id",
        "SELECT count(*) FROM TABLE WHERE __spd_url = '/nope/'",
        "SELECT count(*), sum(v) FROM TABLE WHERE false",
        "SELECT id, v FROM TABLE ORDER BY v DESC, id LIMIT 5",
        "SELECT __spd_url, id FROM TABLE ORDER BY __spd_url DESC, id LIMIT 5",
        "SELECT __spd_url, id % 2 = 0, max(id) FROM TABLE GROUP BY 1, 2 ORDER BY 1, 2",
        "SELECT name, count(*), sum(id), avg(id), min(v), max(name) FROM TABLE GROUP BY name ORDER BY name",
        "SELECT DISTINCT name FROM TABLE ORDER BY name",
        "SELECT count(*), min(id), avg(v) FROM TABLE WHERE id < 0",
        "SELECT max(n) FROM (SELECT count(*) AS n FROM TABLE GROUP BY __spd_url) AS counts",
        "SELECT a.id FROM TABLE AS a JOIN TABLE AS b ON a.id = b.id + 1 WHERE a.id < 9 ORDER BY 1",
        "SELECT count(*) FROM (SELECT * FROM TABLE LIMIT 700 OFFSET 10) AS part",
        "WITH g AS (SELECT name, sum(v) AS s FROM TABLE GROUP BY name) SELECT max(s) FROM g",
        "SELECT count(*) FROM TABLE WHERE v > (SELECT avg(v) FROM TABLE)",
    ] {
        let whole = rows(client, &query.replace("TABLE", "whole")).await;
        for table in ["m", "p"] {
            let query = query.replace("TABLE", table);
            assert_eq!(rows(client, &query).await, whole, "{query}");
        }
    }
}

#[tokio::test]
async fn nodes_can_be_chosen() {
    let Some(setting) = start().await else { return };
    nodes(&setting).await;
    let client = &setting.client;
    for (query, wanted) in [
        ("SELECT count(*) FROM m IN ('/n1/')", "334"),
        ("SELECT count(*) FROM public.p IN ('/n1/', '/n3/') WHERE p.id < 9", "6"),
        ("SELECT count(*) FROM m IN ('/n2/') AS x WHERE x.id < 9", "3"),
        ("SELECT count(*) FROM m IN ('/n2/') x WHERE x.id IN (1, 4)", "2"),
        ("SELECT count(*) FROM m IN ('/n2/') JOIN p IN ('/n2/', '/n1/') USING (id)", "334"),
        ("SELECT count(*) FROM (SELECT id FROM m IN ('/n2/') LIMIT 7) AS m", "7"),
        ("SELECT count(*) FROM m WHERE name IN ('/n1/') OR id IS DISTINCT FROM id", "0"),
    ] {
        assert_eq!(rows(client, query).await, [[wanted]], "{query}");
    }
    client.batch_execute("CREATE VIEW of_two AS SELECT id FROM m IN ('/n1/', '/n2/')").await.unwrap();
    assert_eq!(rows(client, "SELECT count(*) FROM of_two").await, [["668"]]);
    // A child on another node is not asked.
    let asked =
        remote_sql(client, "SELECT __spd_url, max(v) FROM m IN ('/n1/', '/n3/') GROUP BY __spd_url").await;
    let of = |node| format!(r#"SELECT '/{node}/'::text, max("v") FROM "public"."m" GROUP BY 1"#);
    assert_eq!(asked, [of("n1"), of("n3")].join("; "));
    let asked = remote_sql(client, "SELECT id FROM m WHERE __spd_url = '/n2/'").await;
    assert_eq!(asked, r#"SELECT "id" FROM "public"."m""#);
    for (query, state, message) in [
        ("SELECT * FROM m IN ('/n1/', '/x/')", "42704", "table \"m\" has no node \"/x/\""),
        ("SELECT * FROM nope IN ('/n1/')", "42P01", "relation \"nope\" does not exist"),
        ("SELECT * FROM t IN ('/n1/')", "42809", "\"t\" is not a multi-tenant table"),
        ("SELECT * FROM whole IN ('/n1/')", "42809", "\"whole\" is not a multi-tenant table"),
        ("DELETE FROM whole IN ('/n1/')", "42809", "\"whole\" is not a multi-tenant table"),
        ("UPDATE whole IN ('/n1/') SET id = 1", "42809", "\"whole\" is not a multi-tenant table"),
        ("INSERT INTO whole IN ('/n1/') VALUES (1)", "42809", "\"whole\" is not a multi-tenant table"),
        ("INSERT INTO m IN ('/n1/', '/x/') VALUES (1)", "42704", "table \"m\" has no node \"/x/\""),
        ("UPDATE t IN ('/n1/') SET id = 1", "42809", "\"t\" is not a multi-tenant table"),
    ] {
        let (code, told) = failure(client, query).await;
        assert!(code == state && told.contains(message), "{query}: {code} {told}");
    }
}

/// What is wrong with a child is told with its name and its server.
#[tokio::test]
async fn children_have_the_columns_of_their_table() {
    let Some(setting) = start().await else { return };
    nodes(&setting).await;
    let client = &setting.client;
    client
        .batch_execute(
            "CREATE FOREIGN TABLE q (id int, more int, __spd_url text) SERVER parent;
             CREATE FOREIGN TABLE q__n1__0 (id int) SERVER n1 OPTIONS (table_name 'm');
             CREATE FOREIGN TABLE r (id bigint) SERVER parent;
             CREATE FOREIGN TABLE r__n2__0 (id int) SERVER n2 OPTIONS (table_name 'm');
             CREATE FOREIGN TABLE childless (id int) SERVER parent;
             CREATE FOREIGN TABLE childless__n1__0 (id int) SERVER n2;
             CREATE MULTI TENANT TABLE wrong (id text) CHILDREN (n1.m)",
        )
        .await
        .unwrap();
    for (query, state, message) in [
        (
            "SELECT id FROM q",
            "42703",
            "column \"more\" of table \"q\" is not in its child \"q__n1__0\" of server \"n1\"",
        ),
        (
            "SELECT * FROM r",
            "HV004",
            "column \"id\" of table \"r\" is of type bigint, in its child \"r__n2__0\" of server \"n2\" of type integer",
        ),
        ("SELECT * FROM childless", "HV00R", "multi-tenant table \"childless\" has no children"),
        (
            "SELECT * FROM wrong",
            "HV004",
            "column \"id\" of foreign table \"n1.m\" is of type text, but column \"id\" of \"public\".\"m\" on server \"n1\" is of type integer",
        ),
        ("CREATE MULTI TENANT TABLE x (id int) CHILDREN (nope.m)", "42704", "server \"nope\" does not exist"),
        (
            "CREATE MULTI TENANT TABLE x (id int) CHILDREN (parent.m)",
            "0A000",
            "the tables of server \"parent\"",
        ),
        (
            "CREATE MULTI TENANT TABLE x (id int) CHILDREN (n1.m OPTIONS (multi_tenant 'perhaps'))",
            "42601",
            "multi_tenant requires a Boolean value",
        ),
        (
            "CREATE MULTI TENANT TABLE x (id int) CHILDREN (n1.m OPTIONS (nodes '5'))",
            "HV00D",
            "invalid option \"nodes\"",
        ),
        (
            "CREATE MULTI TENANT TABLE x (id int) CHILDREN (n1.m OPTIONS (table_name 'm'))",
            "HV00D",
            "invalid option \"table_name\"",
        ),
        (
            "CREATE SERVER f FOREIGN DATA WRAPPER file_fdw; CREATE MULTI TENANT TABLE x (id int) CHILDREN (f.m)",
            "HV002",
            "filename or program is required",
        ),
        (
            "CREATE SERVER l FOREIGN DATA WRAPPER sqlite_fdw OPTIONS (database '/nowhere/l.db');
             CREATE MULTI TENANT TABLE x (id int) CHILDREN (l.m OPTIONS (multi_tenant 'true'))",
            "42809",
            "server \"l\" cannot have multi-tenant tables",
        ),
        (
            "CREATE MULTI TENANT TABLE read_only (id int) CHILDREN (n1.m OPTIONS (updatable 'false'));
             INSERT INTO read_only VALUES (1)",
            "55000",
            "foreign table \"n1.m\" does not allow inserts",
        ),
        ("CREATE MULTI TENANT TABLE m (id int) CHILDREN (n1.m)", "42P07", "relation \"m\" already exists"),
        ("DROP SERVER n1", "2BP01", "cannot drop server n1"),
        ("DROP SERVER tidemill", "42809", "server \"tidemill\" cannot be changed"),
    ] {
        let (code, told) = failure(client, query).await;
        assert!(code == state && told.contains(message), "{query}: {code} {told}");
    }
    let unknown = "CREATE MULTI TENANT TABLE x (id int) CHILDREN (n1.m OPTIONS (nodes '5'))";
    let error = client.batch_execute(unknown).await.unwrap_err();
    let hint = error.as_db_error().unwrap().hint().unwrap();
    assert!(hint.ends_with(", multi_tenant") && !hint.contains("table_name"), "{hint}");
    client.batch_execute("DROP SERVER n1, n2 CASCADE").await.unwrap();
    assert_eq!(failure(client, "SELECT * FROM m").await.0, "42P01");
    assert_eq!(rows(client, "SELECT count(*) FROM p").await, [["333"]]);
}
