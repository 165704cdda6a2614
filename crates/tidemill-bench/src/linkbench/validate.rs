//! Does the graph hold together? Asked after a load and after a run.

use super::origin;
use super::schema::Schema;
use super::settings::Settings;
use super::shard::Shards;
use crate::catalog::{keys, lacks};
use crate::error::{Error, Result};
use crate::suite::Check;
use crate::target::{Connection, Dialect};

/// Up to this size every list is compared with its count, above only their sums are.
const LINKS_EACH_MAX: i64 = 20_000_000;

/// An error where a load was cut short, or somebody has removed what it made at its end: without keys every question would
/// take a walk over all links. Nor may the graph be another one than the settings make.
pub fn check_is_loaded(connection: &mut dyn Connection, settings: &Settings, shards: &Shards) -> Result<()> {
    let mut lacking = Vec::new();
    for schema in shards.schemas().iter().filter(|schema| schema.dialect != Dialect::Noop) {
        for (name, wanted) in schema.keys() {
            let table = schema.qualified(name);
            // A table that is not there is told by the server.
            connection.query_int(&format!("SELECT count(*) FROM {table} WHERE 1 = 0"))?;
            let found = keys(connection, schema.dialect, schema.namespace(), name)?;
            lacking.extend(lacks(&table, &found, &wanted));
        }
    }
    if lacking.is_empty() {
        let mut schemas = shards.schemas().iter().filter(|schema| schema.dialect != Dialect::Noop);
        return schemas.try_for_each(|schema| origin::check(connection, schema, settings));
    }
    let lacking = lacking.join(", ");
    Err(Error::Wrong(format!(
        "the load has not finished, or its keys were dropped since: {lacking}: load again"
    )))
}

/// After a load the totals are those of the plan as well; after requests only the invariants hold, and of those what
/// flaws that were asked for leave.
pub fn validate(
    connection: &mut dyn Connection,
    settings: &Settings,
    shards: &Shards,
    is_fresh: bool,
) -> Result<Vec<Check>> {
    check_is_loaded(connection, settings, shards)?;
    let mut checks = Vec::new();
    for schema in shards.schemas() {
        let of_shard = validate_shard(connection, settings, schema, is_fresh)?;
        let is_one_of_several = shards.schemas().len() > 1;
        checks.extend(of_shard.into_iter().map(|check| match is_one_of_several {
            true => Check { name: format!("{}: {}", schema.name(), check.name), ..check },
            false => check,
        }));
    }
    Ok(checks)
}

fn validate_shard(
    connection: &mut dyn Connection,
    settings: &Settings,
    schema: &Schema,
    is_fresh: bool,
) -> Result<Vec<Check>> {
    if schema.dialect == Dialect::Noop {
        return Ok(Vec::new());
    }
    let mut ask = |sql: String| connection.query_int(&sql);
    let (links, counts, nodes) = (schema.links(), schema.counts(), schema.nodes());
    let counted = ask(format!("SELECT coalesce(sum(count), 0) FROM {counts}"))?;
    let visible = ask(format!("SELECT count(*) FROM {links} WHERE visibility = 1"))?;
    let counts_drift = !is_fresh && counts_drift(settings);
    let mut checks = vec![if counts_drift {
        at_least("counts are no less than visible links", counted, visible)
    } else {
        check("counts equal visible links", counted, visible)
    }];
    if settings.graph.plan().links <= LINKS_EACH_MAX {
        let (name, differs) = match counts_drift {
            true => ("counts below their lists", "<"),
            false => ("counts that differ from their lists", "<>"),
        };
        let wrong = ask(format!(
            "SELECT count(*) FROM {counts} c WHERE c.count {differs} (SELECT count(*) FROM {links} l \
         WHERE l.id1 = c.id AND l.link_type = c.link_type AND l.visibility = 1)"
        ))?;
        // A list without a count has one that differs.
        let uncounted = ask(format!(
            "SELECT count(*) FROM (SELECT id1, link_type FROM {links} WHERE visibility = 1 GROUP BY id1, link_type) l \
             WHERE NOT EXISTS (SELECT 1 FROM {counts} c WHERE c.id = l.id1 AND c.link_type = l.link_type)"
        ))?;
        checks.push(check(name, wrong + uncounted, 0));
    }
    if is_fresh {
        let plan = settings.graph.plan();
        checks.push(check("links are as planned", ask(format!("SELECT count(*) FROM {links}"))?, plan.links));
        checks.push(check(
            "count rows are as planned",
            ask(format!("SELECT count(*) FROM {counts}"))?,
            plan.counts,
        ));
        if settings.properties.or("generate_nodes", true).unwrap_or(true) {
            checks.push(check(
                "nodes are as planned",
                ask(format!("SELECT count(*) FROM {nodes}"))?,
                plan.nodes,
            ));
        }
    }
    Ok(checks)
}

/// Under the flaw `upsert` a link that is there is counted again, so that counts may be above their lists, never below.
pub fn counts_drift(settings: &Settings) -> bool {
    settings.compat.upsert && settings.properties.text("link_update") == Some("upsert")
}

fn at_least(name: &str, seen: i64, least: i64) -> Check {
    let detail = format!("{seen}, at least {least}: equal they are not under the flaw upsert");
    Check { name: name.to_owned(), passed: seen >= least, detail }
}

fn check(name: &str, seen: i64, expected: i64) -> Check {
    Check { name: name.to_owned(), passed: seen == expected, detail: format!("{seen}, expected {expected}") }
}
