//! What a database's catalogue says of a table: its keys and indexes.

use std::collections::BTreeSet;

use crate::error::Result;
use crate::target::{Connection, Dialect, Rows};

pub const PRIMARY_KEY: &str = "PRIMARY KEY";

/// Those of a table, each in words: `PRIMARY KEY`, `FOREIGN KEY (column)`, `INDEX name`. Without a namespace it is the table
/// that statements find by that name. Names are plain ones.
pub fn keys(
    connection: &mut dyn Connection,
    dialect: Dialect,
    namespace: Option<&str>,
    table: &str,
) -> Result<BTreeSet<String>> {
    let sql = match dialect {
        Dialect::Postgres => of_postgres(namespace, table),
        Dialect::MySql => of_mysql(namespace, table),
        Dialect::Sqlite => of_sqlite(table),
        Dialect::Noop => return Ok(BTreeSet::new()),
    };
    let mut rows = Rows::default();
    connection.query(&sql, &mut rows)?;
    Ok((0..rows.len()).filter_map(|row| Some(rows.text(row, 0)?.into_owned())).collect())
}

/// What a table lacks of what it should have, in words; none if it lacks nothing.
pub fn lacks(table: &str, found: &BTreeSet<String>, wanted: &[String]) -> Option<String> {
    let missing: Vec<String> =
        wanted.iter().filter(|key| !found.contains(*key)).map(|key| format!("no {key}")).collect();
    (!missing.is_empty()).then(|| format!("{table} has {}", missing.join(" and ")))
}

/// An index whose building failed counts for nothing.
fn of_postgres(namespace: Option<&str>, table: &str) -> String {
    let place = match namespace {
        Some(namespace) => format!("n.nspname = '{namespace}'"),
        None => "pg_catalog.pg_table_is_visible(t.oid)".to_owned(),
    };
    let table = format!(
        "pg_catalog.pg_class t JOIN pg_catalog.pg_namespace n ON n.oid = t.relnamespace \
         AND t.relname = '{table}' AND {place}"
    );
    format!(
        "SELECT CASE WHEN i.indisprimary THEN '{PRIMARY_KEY}' ELSE 'INDEX ' || x.relname::text END \
         FROM {table} JOIN pg_catalog.pg_index i ON i.indrelid = t.oid AND i.indisvalid \
         JOIN pg_catalog.pg_class x ON x.oid = i.indexrelid \
         UNION ALL SELECT 'FOREIGN KEY (' || a.attname::text || ')' \
         FROM {table} JOIN pg_catalog.pg_constraint c ON c.conrelid = t.oid AND c.contype = 'f' \
         JOIN pg_catalog.pg_attribute a ON a.attrelid = t.oid AND a.attnum = c.conkey[1]"
    )
}

fn of_mysql(namespace: Option<&str>, table: &str) -> String {
    let place = namespace.map_or("database()".to_owned(), |namespace| format!("'{namespace}'"));
    let table = format!("table_schema = {place} AND table_name = '{table}'");
    format!(
        "SELECT CASE index_name WHEN 'PRIMARY' THEN '{PRIMARY_KEY}' ELSE concat('INDEX ', index_name) END \
         FROM information_schema.statistics WHERE {table} \
         UNION SELECT concat('FOREIGN KEY (', column_name, ')') FROM information_schema.key_column_usage \
         WHERE {table} AND referenced_table_name IS NOT NULL"
    )
}

/// Its foreign keys have no names, and its primary keys may be no index.
fn of_sqlite(table: &str) -> String {
    format!(
        "SELECT '{PRIMARY_KEY}' FROM pragma_table_info('{table}') WHERE pk > 0 \
         UNION SELECT 'INDEX ' || name FROM pragma_index_list('{table}') WHERE origin = 'c' \
         UNION SELECT 'FOREIGN KEY (' || \"from\" || ')' FROM pragma_foreign_key_list('{table}')"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linkbench::test_server::each_target;

    #[test]
    fn keys_are_told_in_the_same_words_everywhere() {
        each_target(|server| {
            let (dialect, mut connection) = (server.target().dialect(), server.target().connect().unwrap());
            for sql in [
                "CREATE TABLE a (id bigint NOT NULL, PRIMARY KEY (id))",
                "CREATE TABLE b (x bigint, y bigint, CONSTRAINT f FOREIGN KEY (x) REFERENCES a (id))",
                "CREATE INDEX i ON b (y)",
                "CREATE TABLE c (x bigint)",
            ] {
                connection.execute(sql).unwrap();
            }
            let mut told = |table| keys(connection.as_mut(), dialect, None, table).unwrap();
            let name = server.name();
            assert_eq!(told("a").into_iter().collect::<Vec<_>>(), [PRIMARY_KEY], "{name}");
            let of_b = told("b");
            assert!(of_b.contains("FOREIGN KEY (x)") && of_b.contains("INDEX i"), "{name} {of_b:?}");
            let wanted = ["INDEX i", PRIMARY_KEY, "INDEX j"].map(str::to_owned);
            let lacking = lacks("b", &of_b, &wanted);
            assert_eq!(lacking.as_deref(), Some("b has no PRIMARY KEY and no INDEX j"), "{name}");
            assert_eq!(lacks("b", &of_b, &wanted[..1]), None, "{name}");
            assert!(told("c").is_empty() && told("nothing").is_empty(), "{name}");
        });
    }
}
