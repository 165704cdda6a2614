//! Loads against every database that is there.

use super::*;
use crate::linkbench::explain::explain;
use crate::linkbench::oracle::check_reads;
use crate::linkbench::settings::Sources;
use crate::linkbench::shard::Shards;
use crate::linkbench::suite::{drop_tables, fill};
use crate::linkbench::test_server::{Server, each_target};
use crate::linkbench::validate::validate;
use crate::target::Rows;

fn settings(nodes: u64, definitions: &[&str]) -> Settings {
    let define = definitions.iter().map(|definition| (*definition).to_owned()).collect();
    Sources { nodes: Some(nodes), define, ..Sources::default() }.settings().unwrap()
}

/// Few links: the curve's largest value belongs to one id however few there are.
const SMALL: &[&str] =
    &["nlinks_func=Zipf", "nlinks_shape=0.8", "nlinks_mean=5", "loaders=3", "loader_chunk_size=100"];

fn run(server: &Server, settings: &Settings) -> (Loaded, Shards) {
    let shards = Shards::new(&settings.properties, server.target().dialect()).unwrap();
    drop_tables(server.target(), &shards).unwrap();
    (fill(server.target(), settings, &shards, 7, &|_| ()).unwrap(), shards)
}

/// Everything about the links that does not depend on the clock.
fn fingerprint(server: &Server, schema: &Schema) -> Vec<String> {
    let mut connection = server.target().connect().unwrap();
    let mut rows = Rows::default();
    let sql = format!(
        "SELECT id1, link_type, id2, length(data), visibility, version FROM {} ORDER BY 2, 1, 3",
        schema.links()
    );
    connection.query(&sql, &mut rows).unwrap();
    let row =
        |row| (0..6).map(|column| rows.int(row, column).unwrap().to_string()).collect::<Vec<_>>().join(" ");
    (0..rows.len()).map(row).collect()
}

#[test]
fn rows_are_as_planned_on_every_target() {
    let settings = settings(1_000, SMALL);
    let expected = settings.graph.plan();
    let prints = std::sync::Mutex::new(Vec::new());
    each_target(|server| {
        let (loaded, shards) = run(server, &settings);
        let schema = &shards.schemas()[0];
        let written = (loaded.nodes as i64, loaded.links as i64, loaded.counts as i64);
        assert_eq!(written, (expected.nodes, expected.links, expected.counts), "{}", server.name());
        let mut connection = server.target().connect().unwrap();
        let plans = explain(connection.as_mut(), &settings, schema).unwrap();
        assert!(plans.len() >= 4 && plans.iter().all(|explained| !explained.plan.is_empty()), "{plans:?}");
        let checks = validate(connection.as_mut(), &settings, &shards, true).unwrap();
        assert!(
            checks.len() == 5 && checks.iter().all(|check| check.passed),
            "{}: {checks:?}",
            server.name()
        );
        prints.lock().unwrap().push(fingerprint(server, schema));
    });
    let prints = prints.into_inner().unwrap();
    // One loader on SQLite, three elsewhere: the same rows.
    assert!(prints.windows(2).all(|pair| pair[0] == pair[1]));
}

/// Of every kind of answer one that is wrong is found, on a fresh graph and on one that was used.
#[test]
fn answers_are_compared_with_what_was_written() {
    each_target(|server| {
        for definitions in [&[][..], &["data_type=text", "statements=literal", "link_type_count=1"]] {
            let settings = settings(1_000, &[SMALL, definitions].concat());
            let (_, shards) = run(server, &settings);
            let schema = &shards.schemas()[0];
            let mut connection = server.target().connect().unwrap();
            let ask = |fresh| check_reads(server.target(), &settings, &shards, fresh).unwrap().remove(0);
            let is_right = |fresh| {
                let check = ask(fresh);
                assert!(check.passed, "{} {definitions:?} {}", server.name(), check.detail);
            };
            is_right(Some(7));
            is_right(None);
            assert!(!ask(Some(8)).passed);
            let (links, counts, nodes) = (schema.links(), schema.counts(), schema.nodes());
            let mut spoil = |spoil: &str, restore: &str, fresh| {
                connection.execute(spoil).unwrap();
                assert!(!ask(fresh).passed, "{spoil}");
                connection.execute(restore).unwrap();
            };
            let flip = |table: &str, column: &str, key: &str| {
                let set = |change| format!("UPDATE {table} SET {column} = {column} {change} WHERE {key}");
                (set("+ 1"), set("- 1"))
            };
            for (table, column, key) in
                [(&links, "time", "id1 = 1"), (&links, "version", "id1 = 1"), (&nodes, "version", "id = 1")]
            {
                let (there, back) = flip(table, column, key);
                spoil(&there, &back, Some(7));
            }
            let (there, back) = flip(&counts, "count", "id = 1");
            spoil(&there, &back, None);
            is_right(Some(7));
            connection.execute(&format!("DELETE FROM {links} WHERE id1 = 1 AND id2 = 2")).unwrap();
            connection.execute(&there.replace("+ 1", "- 1")).unwrap();
            assert!(ask(None).detail.contains("loaded links"), "{}", ask(None).detail);
        }
    });
}

#[test]
fn a_super_node_is_split_over_loaders() {
    let Some(server) = Server::postgres() else { return };
    let settings = settings(40, &["loaders=4", "link_type_count=1", "nlinks_func=real", "never_change=true"]);
    let lines = std::sync::Mutex::new(0);
    let schema = Schema::new(&settings.properties, server.target().dialect()).unwrap();
    let mut connection = server.target().connect().unwrap();
    for statement in schema.create_tables() {
        connection.execute(&statement).unwrap();
    }
    let plan = LoadPlan { progress_every: 1_000_000, ..LoadPlan::new(&settings, schema.dialect, 1).unwrap() };
    let report = |_: &str| *lines.lock().unwrap() += 1;
    let loaded = load(server.target(), &settings, &schema, &plan, &report).unwrap();
    let expected = settings.graph.plan();
    assert_eq!((loaded.links as i64, loaded.counts as i64), (expected.links, expected.counts));
    assert!(loaded.links_bulk.count() > 60, "{}", loaded.links_bulk.count());
    assert_eq!(*lines.lock().unwrap(), 4);
    let sql = format!(
        "SELECT count(*) FROM {} c WHERE c.time = (SELECT max(time) FROM {} l WHERE l.id1 = c.id)",
        schema.counts(),
        schema.links()
    );
    assert_eq!(connection.query_int(&sql).unwrap(), expected.counts);
}

#[test]
fn random_second_ids_are_distinct() {
    let server = Server::sqlite();
    let settings = settings(200, &[SMALL, &["randomid2max=5000"]].concat());
    let (loaded, shards) = run(&server, &settings);
    assert_eq!(loaded.links as i64, settings.graph.plan().links);
    let mut connection = server.target().connect().unwrap();
    let outside =
        format!("SELECT count(*) FROM {} WHERE id2 < 0 OR id2 >= 5000", shards.schemas()[0].links());
    assert_eq!(connection.query_int(&outside).unwrap(), 0);
}

#[test]
fn a_load_without_tables_fails_with_the_server_s_words() {
    let server = Server::sqlite();
    let settings = settings(10, SMALL);
    let schema = Schema::new(&settings.properties, server.target().dialect()).unwrap();
    let plan = LoadPlan::new(&settings, schema.dialect, 1).unwrap();
    let error = load(server.target(), &settings, &schema, &plan, &|_| ()).unwrap_err();
    assert!(error.to_string().contains("no such table"), "{error}");
}
