//! TPC-H: the 22 queries over tables that are scattered over three nodes answer as in one PostgreSQL that holds all of them.

use std::fmt::Display;

use bytes::Bytes;
use futures::SinkExt;
use tokio_postgres::{Client, NoTls};
use tpchgen::distribution::Distributions;
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator, PartSuppGenerator,
    RegionGenerator, SupplierGenerator,
};
use tpchgen::text::TextPool;

use crate::postgres::Postgres;
use crate::server::{Server, rows};

const TABLES: &str = include_str!("tpch/table.sql");
const QUERIES: &str = include_str!("tpch/query.sql");
/// Under TIDEMILL_TEST_EVERYTHING=1 the data is ten times as large, and nothing is left to the nodes as well.
const SCALE: f64 = 0.01;
/// Comments are cut from so much text.
const TEXT_BYTES: i32 = 1_000_000;
const NODES: usize = 3;
/// These are on the first node; the others are scattered by their first column.
const SMALL: [&str; 3] = ["region", "nation", "supplier"];
const SETTINGS: [&str; 6] = [
    "enable_foreign_filters",
    "enable_foreign_aggregates",
    "enable_foreign_dynamic_filters",
    "enable_foreign_eager_aggregates",
    "enable_foreign_joins",
    "enable_foreign_top_k",
];

#[tokio::test]
async fn answers_are_those_of_one_database() {
    let Some(node) = Postgres::start() else { return };
    let whole = database(&node, "whole").await;
    let mut nodes = Vec::new();
    for i in 1..=NODES {
        nodes.push(database(&node, &format!("n{i}")).await);
    }
    load(&whole, &nodes).await;
    // PostgreSQL looks for the rows of correlated subqueries one by one.
    whole.batch_execute("CREATE INDEX ON lineitem (l_partkey, l_suppkey)").await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path());
    let ours = server.connect().await;
    define(&ours, node.port).await;
    // The whole of it here takes a while.
    let settings: &[&str] = if everything() { &["on", "off"] } else { &["on"] };
    let mut differing = Vec::new();
    for setting in settings {
        for name in SETTINGS {
            ours.batch_execute(&format!("SET {name} = {setting}")).await.unwrap();
        }
        for (number, query) in QUERIES.split("-- ").skip(1).filter_map(|query| query.split_once('\n')) {
            let wanted = rows(&whole, query).await;
            assert!(!wanted.is_empty(), "query {number} has an answer");
            match ours.batch_execute(&format!("EXPLAIN {query}")).await {
                Ok(()) if rows(&ours, query).await == wanted => {}
                Ok(()) => differing.push(format!("query {number} ({setting}): another answer")),
                Err(error) => differing.push(format!("query {number} ({setting}): {error:?}")),
            }
        }
    }
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

fn everything() -> bool {
    std::env::var("TIDEMILL_TEST_EVERYTHING").is_ok_and(|value| value == "1")
}

/// A new database with the tables, which are empty.
async fn database(node: &Postgres, name: &str) -> Client {
    connect(node, "postgres").await.batch_execute(&format!("CREATE DATABASE {name}")).await.unwrap();
    let client = connect(node, name).await;
    client.batch_execute(TABLES).await.unwrap();
    client
}

async fn connect(node: &Postgres, database: &str) -> Client {
    let config = format!("host=127.0.0.1 port={} user=postgres dbname={database}", node.port);
    let (client, connection) = tokio_postgres::connect(&config, NoTls).await.unwrap();
    tokio::spawn(async move { drop(connection.await) });
    client
}

async fn load(whole: &Client, nodes: &[Client]) {
    let scale = if everything() { SCALE * 10.0 } else { SCALE };
    let (words, pool) =
        (Distributions::static_default(), TextPool::new(TEXT_BYTES, Distributions::static_default()));
    macro_rules! of {
        ($generator:ident) => {
            lines($generator::new_with_distributions_and_text_pool(scale, 1, 1, words, &pool).iter())
        };
    }
    let tables = [
        ("region", lines(RegionGenerator::new_with_distributions_and_text_pool(words, &pool).iter())),
        ("nation", lines(NationGenerator::new_with_distributions_and_text_pool(words, &pool).iter())),
        ("supplier", of!(SupplierGenerator)),
        ("customer", of!(CustomerGenerator)),
        ("part", of!(PartGenerator)),
        ("partsupp", lines(PartSuppGenerator::new_with_text_pool(scale, 1, 1, &pool).iter())),
        ("orders", of!(OrderGenerator)),
        ("lineitem", of!(LineItemGenerator)),
    ];
    for (table, lines) in tables {
        copy(whole, table, lines.iter()).await;
        whole.batch_execute(&format!("ANALYZE {table}")).await.unwrap();
        for (i, node) in nodes.iter().enumerate() {
            let is_here = |line: &&String| match SMALL.contains(&table) {
                true => i == 0,
                false => line.split('|').next().unwrap().parse::<usize>().unwrap() % NODES == i,
            };
            copy(node, table, lines.iter().filter(is_here)).await;
            node.batch_execute(&format!("ANALYZE {table}")).await.unwrap();
        }
    }
}

/// As COPY reads them: each ends with a separator that is none.
fn lines(rows: impl Iterator<Item = impl Display>) -> Vec<String> {
    rows.map(|row| row.to_string().trim_end_matches('|').to_string() + "\n").collect()
}

async fn copy(client: &Client, table: &str, lines: impl Iterator<Item = &String>) {
    let sink = client.copy_in(&format!("COPY {table} FROM STDIN (DELIMITER '|')")).await.unwrap();
    let mut sink = std::pin::pin!(sink);
    sink.send(Bytes::from(lines.cloned().collect::<String>())).await.unwrap();
    sink.finish().await.unwrap();
}

/// The nodes' tables here.
async fn define(ours: &Client, port: u16) {
    for i in 1..=NODES {
        let server = format!(
            "CREATE SERVER n{i} FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '127.0.0.1', port '{port}', dbname 'n{i}');
             CREATE USER MAPPING FOR PUBLIC SERVER n{i}"
        );
        ours.batch_execute(&server).await.unwrap();
    }
    for statement in TABLES.split(';').map(str::trim).filter(|statement| !statement.is_empty()) {
        let rest = statement.strip_prefix("CREATE TABLE ").unwrap();
        let table = rest.split_once(' ').unwrap().0;
        let statement = match SMALL.contains(&table) {
            true => format!("CREATE FOREIGN TABLE {rest} SERVER n1"),
            false => {
                format!("CREATE MULTI TENANT TABLE {rest} CHILDREN (n1.{table}, n2.{table}, n3.{table})")
            }
        };
        ours.batch_execute(&statement).await.unwrap();
    }
}
