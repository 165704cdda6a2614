//! What is written to a Tidemill and to other nodes by one statement: all of it, or none, or the error tells which.

use tokio_postgres::{Client, NoTls};

use crate::node::until;
use crate::postgres::Postgres;
use crate::proxy::{Mode, Proxy};
use crate::server::{Server, error, failure, rows};

/// `own (id int, x int)` on two Tidemills, on a PostgreSQL that takes no `x` from 1000 on, and over them.
struct Setting {
    _servers: [Server; 3],
    _node: Postgres,
    _dir: tempfile::TempDir,
    west: Client,
    east: Client,
    remote: Client,
    client: Client,
}

impl Setting {
    async fn start() -> Option<Setting> {
        let node = Postgres::start()?;
        let dir = tempfile::tempdir().unwrap();
        let servers = ["west", "east", "upper"].map(|name| Server::start(&dir.path().join(name)));
        let [west, east, client] = [0, 1, 2].map(|i| servers[i].connect());
        let (west, east, client) = (west.await, east.await, client.await);
        let remote = node.connect("postgres").await;
        for there in [&west, &east] {
            there.batch_execute("CREATE TABLE own (id int, x int)").await.unwrap();
        }
        remote.batch_execute("CREATE TABLE own (id int, x int CHECK (x < 1000))").await.unwrap();
        for (name, wrapper, port, database) in [
            ("west", "tidemill_fdw", servers[0].port, "tidemill"),
            ("east", "postgres_fdw", servers[1].port, "tidemill"),
            ("pg", "postgres_fdw", node.port, "postgres"),
        ] {
            let create = format!(
                "CREATE SERVER {name} FOREIGN DATA WRAPPER {wrapper} OPTIONS (host '127.0.0.1', port '{port}', dbname '{database}');
                 CREATE USER MAPPING FOR PUBLIC SERVER {name}"
            );
            client.batch_execute(&create).await.unwrap();
        }
        client
            .batch_execute(
                "CREATE MULTI TENANT TABLE own (id int, x int) CHILDREN (west.own, east.own, pg.own)",
            )
            .await
            .unwrap();
        Some(Setting { _servers: servers, _node: node, _dir: dir, west, east, remote, client })
    }

    /// The values of `x` on each node.
    async fn values(&self) -> [String; 3] {
        let of = async |client: &Client| {
            let all = "SELECT coalesce(string_agg(x::text, ' ' ORDER BY id), '') FROM own";
            rows(client, all).await[0][0].clone()
        };
        [of(&self.west).await, of(&self.east).await, of(&self.remote).await]
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_one_node_refuses_is_on_none() {
    let Some(setting) = Setting::start().await else { return };
    let client = &setting.client;
    // Whichever of the rows is the one of PostgreSQL.
    for place in 0..3 {
        let x = |i: usize| if i == place { 2000 } else { 1 };
        let insert = format!("INSERT INTO own VALUES (1, {}), (2, {}), (3, {})", x(0), x(1), x(2));
        for _ in 0..3 {
            if let Err(error) = client.batch_execute(&insert).await {
                assert_eq!(error.code().unwrap().code(), "23514");
                assert_eq!(setting.values().await, ["", "", ""], "{insert}");
            } else {
                client.batch_execute("DELETE FROM own").await.unwrap();
            }
        }
    }
    client.batch_execute("INSERT INTO own SELECT g, 998 FROM generate_series(1, 6) g").await.unwrap();
    assert_eq!(setting.values().await, ["998 998", "998 998", "998 998"]);
    assert_eq!(client.execute("UPDATE own SET x = x + 1", &[]).await.unwrap(), 6);
    assert_eq!(failure(client, "UPDATE own SET x = x + 1").await.0, "23514");
    assert_eq!(setting.values().await, ["999 999", "999 999", "999 999"]);
    assert_eq!(client.execute("DELETE FROM own IN ('/west/', '/pg/')", &[]).await.unwrap(), 4);
    assert_eq!(setting.values().await, ["", "999 999", ""]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_could_not_be_undone_is_told() {
    let Some(setting) = Setting::start().await else { return };
    let client = &setting.client;
    client.batch_execute("INSERT INTO own IN ('/west/', '/pg/') VALUES (1, 5), (2, 5)").await.unwrap();
    setting.east.batch_execute("INSERT INTO own VALUES (3, 0)").await.unwrap();
    let error = error(client, "UPDATE own SET x = 100 / x").await;
    assert_eq!(error.code().code(), "22012");
    let detail = error.detail().unwrap();
    assert!(detail.ends_with("Nodes that are changed: /west/ (1 row); not: /pg/ (1 row)."), "{detail}");
    assert_eq!(setting.values().await, ["20", "0", "5"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_nobody_has_heard_of_is_told() {
    let Some(setting) = Setting::start().await else { return };
    let client = &setting.client;
    setting.remote.batch_execute("CREATE SCHEMA far; CREATE TABLE far.own (id int, x int)").await.unwrap();
    let proxy = Proxy::start(setting._node.port).await;
    let far = format!(
        "CREATE SERVER far FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '127.0.0.1', port '{}', dbname 'postgres');
         CREATE USER MAPPING FOR PUBLIC SERVER far;
         CREATE MULTI TENANT TABLE two (id int, x int) CHILDREN (pg.own, far.far.own)",
        proxy.port
    );
    client.batch_execute(&far).await.unwrap();
    proxy.set(Mode::ResetAtCommit { carried_out: true });
    let error = error(client, "INSERT INTO two VALUES (1, 1), (2, 2)").await;
    assert_eq!(error.code().code(), "08007");
    let detail = error.detail().unwrap();
    assert!(
        detail.ends_with("Nodes that are changed: /pg/ (1 row); not known: /far/ (1 row); not: none."),
        "{detail}"
    );
    until(&setting.remote, "SELECT count(*) FROM far.own", "1").await;
}

/// What a Tidemill does in no block it may have done, if it does not answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_that_is_not_answered_is_not_known() {
    let Some(setting) = Setting::start().await else { return };
    let Setting { client, west, remote, .. } = &setting;
    let proxy = Proxy::start(setting._servers[0].port).await;
    let far = format!(
        "CREATE SERVER far FOREIGN DATA WRAPPER tidemill_fdw OPTIONS (host '127.0.0.1', port '{}', dbname 'tidemill');
         CREATE USER MAPPING FOR PUBLIC SERVER far;
         CREATE FOREIGN TABLE alone (id int, x int) SERVER far OPTIONS (table_name 'own');
         CREATE MULTI TENANT TABLE two (id int, x int) CHILDREN (pg.own, far.own)",
        proxy.port
    );
    client.batch_execute(&far).await.unwrap();
    west.batch_execute("INSERT INTO own VALUES (1, 1)").await.unwrap();
    remote.batch_execute("INSERT INTO own VALUES (2, 2)").await.unwrap();
    let not_known = "whether the statement was carried out on server \"far\" is not known";
    for (x, lingers) in [(8, false), (9, true)] {
        proxy.set(Mode::EndAlone { lingers });
        let waiter = setting._servers[2].connect().await;
        let token = waiter.cancel_token();
        let waiting = tokio::spawn(async move { error(&waiter, &format!("UPDATE two SET x = {x}")).await });
        until(west, "SELECT x FROM own", &x.to_string()).await;
        if lingers {
            proxy.until_lingering(1).await;
            token.cancel_query(NoTls).await.unwrap();
        }
        let told = waiting.await.unwrap();
        assert_eq!((told.code().code(), told.message()), ("08007", not_known));
        let detail = told.detail().unwrap();
        assert!(
            detail.ends_with("\nNodes that are changed: none; not known: /far/; not: /pg/ (1 row)."),
            "{detail}"
        );
        assert!(!lingers || detail.starts_with("canceling statement due to user request\n"), "{detail}");
        assert_eq!(setting.values().await, [x.to_string().as_str(), "", "2"]);
    }
    proxy.set(Mode::EndAlone { lingers: false });
    for (statement, count) in [("UPDATE alone SET x = 10", "1"), ("TRUNCATE alone", "0")] {
        let told = failure(client, statement).await;
        assert_eq!(told, ("08007".into(), not_known.into()), "{statement}");
        until(west, "SELECT count(*) FROM own", count).await;
    }
}

/// A Tidemill empties its own table after the others, and in no block.
#[tokio::test]
async fn tables_of_tidemills_are_truncated() {
    let Some(setting) = Setting::start().await else { return };
    let Setting { client, remote, .. } = &setting;
    client
        .batch_execute("INSERT INTO own (id, x) SELECT x, x FROM generate_series(1, 6) AS x")
        .await
        .unwrap();
    assert_eq!(failure(client, "BEGIN; TRUNCATE own").await.0, "25001");
    client.batch_execute("ROLLBACK").await.unwrap();
    remote
        .batch_execute("CREATE UNIQUE INDEX ON own (id); CREATE TABLE child (id int REFERENCES own (id))")
        .await
        .unwrap();
    assert_eq!(failure(client, "TRUNCATE own").await.0, "0A000");
    assert_eq!(setting.values().await.concat().matches(' ').count(), 3);
    client.batch_execute("TRUNCATE own CASCADE").await.unwrap();
    assert_eq!(setting.values().await, ["", "", ""]);
}
