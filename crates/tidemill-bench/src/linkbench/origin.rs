//! What a graph was loaded with: a small table beside the others, so that no run asks for another graph than there is.

use super::schema::Schema;
use super::settings::Settings;
use crate::error::{Error, Result};
use crate::target::{Connection, Rows};
use std::collections::BTreeMap;

const TABLE: &str = "linkbench_load";

/// What decides which links there are.
fn of(settings: &Settings) -> [(&'static str, i64); 6] {
    let (graph, plan) = (&settings.graph, settings.graph.plan());
    let ids = graph.counts.ids();
    [
        ("startid1", ids.start),
        ("maxid1", ids.end),
        ("link_type_count", graph.counts.types()),
        ("links", plan.links),
        ("counts", plan.counts),
        ("randomid2max", graph.random_id2_max),
    ]
}

/// The last statements of a load.
pub fn write(schema: &Schema, settings: &Settings) -> Vec<String> {
    let table = schema.qualified(TABLE);
    let rows: Vec<String> = of(settings).iter().map(|(name, value)| format!("('{name}', {value})")).collect();
    vec![
        drop(schema),
        format!("CREATE TABLE {table} (name varchar(40) NOT NULL PRIMARY KEY, value bigint NOT NULL)"),
        format!("INSERT INTO {table} (name, value) VALUES {}", rows.join(", ")),
    ]
}

pub fn drop(schema: &Schema) -> String {
    format!("DROP TABLE IF EXISTS {}", schema.qualified(TABLE))
}

/// An error if the graph is another one than these settings make. One that something else has loaded does not tell.
pub fn check(connection: &mut dyn Connection, schema: &Schema, settings: &Settings) -> Result<()> {
    let mut rows = Rows::default();
    match connection.query(&format!("SELECT name, value FROM {}", schema.qualified(TABLE)), &mut rows) {
        Err(error) if error.is_of_a_missing_table() => return Ok(()),
        done => done?,
    };
    let found: BTreeMap<String, i64> = (0..rows.len())
        .filter_map(|row| Some((rows.text(row, 0)?.into_owned(), rows.int(row, 1)?)))
        .collect();
    let other = of(settings).into_iter().find(|(name, value)| found.get(*name) != Some(value));
    other.map_or(Ok(()), |(name, value)| {
        let found = found.get(name).map_or("unknown".to_owned(), i64::to_string);
        Err(Error::Wrong(format!(
            "the graph was loaded with other settings: {name} is {found} there, and {value} here"
        )))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linkbench::settings::Sources;
    use crate::linkbench::shard::Shards;
    use crate::linkbench::suite::{drop_tables, fill};
    use crate::linkbench::test_server::each_target;
    use crate::linkbench::validate::check_is_loaded;

    #[test]
    fn another_graph_than_that_of_the_load_is_told() {
        each_target(|server| {
            let settings = |nodes, more: &str| {
                let define = format!("nlinks_func=const nlinks_config=0 nlinks_default=2 loaders=1{more}");
                let define = define.split(' ').map(str::to_owned).collect();
                Sources { nodes: Some(nodes), define, ..Sources::default() }.settings().unwrap()
            };
            let loaded = settings(30, "");
            let shards = Shards::new(&loaded.properties, server.target().dialect()).unwrap();
            fill(server.target(), &loaded, &shards, 1, &|_| ()).unwrap();
            let mut connection = server.target().connect().unwrap();
            let mut told = |settings: &Settings| {
                let checked = check_is_loaded(connection.as_mut(), settings, &shards);
                checked.map_err(|error| error.to_string())
            };
            let message =
                |difference: &str| Err(format!("the graph was loaded with other settings: {difference}"));
            assert_eq!(told(&loaded), Ok(()), "{}", server.name());
            assert_eq!(told(&settings(40, "")), message("maxid1 is 31 there, and 41 here"));
            let random = settings(30, " randomid2max=50");
            assert_eq!(told(&random), message("randomid2max is 0 there, and 50 here"));
            // What something else has loaded is believed.
            connection.execute(&drop(&shards.schemas()[0])).unwrap();
            assert!(check_is_loaded(connection.as_mut(), &random, &shards).is_ok(), "{}", server.name());
            fill_again(server, &loaded, &shards);
        });
    }

    /// Nothing is left of a load that is dropped.
    fn fill_again(server: &crate::linkbench::test_server::Server, settings: &Settings, shards: &Shards) {
        for _ in 0..2 {
            drop_tables(server.target(), shards).unwrap();
            fill(server.target(), settings, shards, 1, &|_| ()).unwrap();
        }
    }
}
