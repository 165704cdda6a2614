//! How the database would answer the two reads whose plans decide a run.

use super::link_count::LinkCounts;
use super::schema::Schema;
use super::settings::Settings;
use super::store::FIRST_LINK_TYPE;
use crate::error::Result;
use crate::target::{Connection, Dialect, Rows};

/// A read, and its plan line by line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explained {
    pub title: String,
    pub plan: Vec<String>,
}

/// Of an ordinary id and of the one with the most links: statistics may tell them apart.
pub fn explain(
    connection: &mut dyn Connection,
    settings: &Settings,
    schema: &Schema,
) -> Result<Vec<Explained>> {
    let counts = &settings.graph.counts;
    let mut explained = Vec::new();
    for (which, id) in [("ordinary id", ordinary(counts)), ("id with the most links", counts.id_of_rank(0))] {
        for (operation, sql) in reads(schema, id) {
            let title = format!("{operation}, {which}, values in the text");
            explained.push(Explained { title, plan: plan(connection, schema.dialect, &sql)? });
        }
    }
    if schema.dialect == Dialect::Postgres {
        explained.push(generic_multiget(connection, schema, ordinary(counts))?);
    }
    Ok(explained)
}

/// In the middle of the ranks.
fn ordinary(counts: &LinkCounts) -> i64 {
    let ids = counts.ids();
    counts.id_of_rank((ids.end - ids.start) / 2)
}

fn reads(schema: &Schema, id: i64) -> [(&'static str, String); 2] {
    let columns = "id1, id2, link_type, visibility, data, version, time";
    let list = format!(
        "SELECT {columns} FROM {} WHERE id1 = {id} AND link_type = {FIRST_LINK_TYPE}",
        schema.links()
    );
    [
        (
            "GET_LINKS_LIST",
            format!(
                "{list} AND time >= 0 AND time <= {} AND visibility = 1 ORDER BY time DESC LIMIT 10000 OFFSET 0",
                i64::MAX
            ),
        ),
        ("MULTIGET_LINK", format!("{list} AND id2 IN ({id},{},{})", id + 1, id + 2)),
    ]
}

fn plan(connection: &mut dyn Connection, dialect: Dialect, sql: &str) -> Result<Vec<String>> {
    let explain = if dialect == Dialect::Sqlite { "EXPLAIN QUERY PLAN" } else { "EXPLAIN" };
    lines(connection, &format!("{explain} {sql}"))
}

/// As a prepared MULTIGET is planned once it has been used some times: without its values.
fn generic_multiget(connection: &mut dyn Connection, schema: &Schema, id: i64) -> Result<Explained> {
    let links = schema.links();
    connection.execute("SET plan_cache_mode = force_generic_plan")?;
    connection.execute(&format!(
        "PREPARE linkbench_multiget (bigint, bigint, bigint, bigint, bigint) AS SELECT * FROM {links} \
         WHERE id1 = $1 AND link_type = $2 AND id2 IN ($3, $4, $5)"
    ))?;
    let values = format!("{id}, {FIRST_LINK_TYPE}, {id}, {}, {}", id + 1, id + 2);
    let plan = lines(connection, &format!("EXPLAIN EXECUTE linkbench_multiget ({values})"))?;
    Ok(Explained { title: "MULTIGET_LINK, prepared, any id".to_owned(), plan })
}

/// All columns of each row, with blanks between.
fn lines(connection: &mut dyn Connection, sql: &str) -> Result<Vec<String>> {
    let mut rows = Rows::default();
    connection.query(sql, &mut rows)?;
    let cell = |row, column| rows.text(row, column).unwrap_or_default().into_owned();
    let line = |row| (0..rows.columns()).map(|column| cell(row, column)).collect::<Vec<_>>().join(" ");
    Ok((0..rows.len()).map(line).collect())
}
