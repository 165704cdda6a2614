//! A multi-tenant table over nodes of several kinds is as one table that holds all their rows.

use rusqlite::Connection;

use super::Ours;
use super::row::{COLUMNS, inserts, rows};
use crate::postgres::Postgres;
use crate::server::rows as read;

#[tokio::test]
async fn nodes_of_several_kinds_are_read_as_one() {
    let Some(node) = Postgres::start() else { return };
    let ours = Ours::start().await;
    let rows = rows(300, 7);
    let (of_postgres, rest) = rows.split_at(100);
    let (of_sqlite, of_file) = rest.split_at(100);
    let config = format!("host=127.0.0.1 port={} user=postgres", node.port);
    let (there, connection) = tokio_postgres::connect(&config, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    there
        .batch_execute(&format!("CREATE TABLE f ({COLUMNS}); {}", inserts("f", of_postgres, false)))
        .await
        .unwrap();
    let (database, csv) = (ours.path("s.db"), ours.path("f.csv"));
    let sqlite = Connection::open(&database).unwrap();
    sqlite.execute_batch(&format!("CREATE TABLE f ({COLUMNS}); {}", inserts("f", of_sqlite, false))).unwrap();
    std::fs::write(&csv, of_file.iter().map(|row| row.csv() + "\n").collect::<String>()).unwrap();
    ours.run(&format!(
        "CREATE SERVER pg FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '127.0.0.1', port '{}', dbname 'postgres');
         CREATE USER MAPPING FOR PUBLIC SERVER pg OPTIONS (user 'postgres');
         CREATE SERVER lite FOREIGN DATA WRAPPER sqlite_fdw OPTIONS (database '{database}');
         CREATE SERVER files FOREIGN DATA WRAPPER file_fdw;
         CREATE SERVER parent FOREIGN DATA WRAPPER pgspider_core_fdw;
         CREATE FOREIGN TABLE f ({COLUMNS}, __spd_url text) SERVER parent;
         CREATE FOREIGN TABLE f__pg__0 ({COLUMNS}) SERVER pg OPTIONS (table_name 'f');
         CREATE FOREIGN TABLE f__lite__0 ({COLUMNS}) SERVER lite OPTIONS (table 'f');
         CREATE FOREIGN TABLE f__files__0 ({COLUMNS}) SERVER files OPTIONS (filename '{csv}', format 'csv');
         CREATE TABLE ours ({COLUMNS})",
        node.port
    ))
    .await;
    ours.run(&inserts("ours", &rows, false)).await;
    ours.compare("f", 1).await;
    let by_node = "SELECT __spd_url, count(*), sum(id), max(name) FROM f GROUP BY __spd_url ORDER BY 1";
    let found = read(&ours.client, by_node).await;
    let nodes: Vec<_> = found.iter().map(|row| (row[0].as_str(), row[1].as_str())).collect();
    assert_eq!(nodes, [("/files/", "100"), ("/lite/", "100"), ("/pg/", "100")]);
    let few = "SELECT count(*) FROM f IN ('/lite/', '/files/') WHERE id > 150";
    assert_eq!(read(&ours.client, few).await, [["150"]]);
    // Children that are named: one in the main database of SQLite, one in a folder.
    ours.run("CREATE MULTI TENANT TABLE m (id int, name text) CHILDREN (lite.f, pg.public.f)").await;
    assert_eq!(read(&ours.client, "SELECT count(*) FROM m").await, [["200"]]);
}
