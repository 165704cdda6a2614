//! What a server knows of its tables: how large they are and how many values columns have, without counting, how their texts
//! are compared, and of which types their columns are.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::join;
use parking_lot::Mutex;
use tidemill_sql::{Result, SqlState};
use tokio_postgres::types::Type;
use tokio_postgres::{Error, Row, Statement};

use super::column::{Found, fits, is_read_as_text, mismatch};
use super::connect::{Connection, Pool};
use super::dialect::PostgresDialect;
use super::error::is_lost;
use crate::fact::{TableFacts, TableSize};
use crate::table::{ForeignColumn, TableDefinition};

/// How long an answer is good for, and how long none is.
const FRESH_FOR: Duration = Duration::from_secs(60);
const UNKNOWN_FOR: Duration = Duration::from_secs(5);

/// As PostgreSQL's planner reckons: so many rows a page when it was last analyzed, and so many pages now. Ranges of pages are
/// read as such since version 14. Texts are in the order of their bytes in the locales C, POSIX and C.UTF-8, and whatever
/// the provider `builtin` does. Since version 12 there are collations in which texts are equal that have other bytes.
/// How many values a column has is what ANALYZE has found, of whoever may read it; of a table with others below it that of all.
const FACTS: &str = "\
    WITH of_values AS (SELECT DISTINCT ON (attname) attname, n_distinct \
                       FROM pg_stats \
                       WHERE (schemaname, tablename) = (SELECT nspname, relname \
                             FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace \
                             WHERE pg_class.oid = to_regclass($1)) \
                       ORDER BY attname, inherited DESC) \
    SELECT CASE WHEN relkind = 'p' THEN nullif(reltuples, -1) \
                WHEN relpages > 0 AND reltuples >= 0 THEN reltuples / relpages * pages END::float8, \
           CASE WHEN relkind IN ('r', 'm') AND current_setting('server_version_num')::int >= 140000 THEN pages ELSE 0 END, \
           ARRAY(SELECT attname::text \
                 FROM pg_attribute \
                 JOIN pg_collation ON pg_collation.oid = attcollation \
                 JOIN pg_database ON datname = current_database(), \
                 LATERAL (SELECT CASE collprovider WHEN 'd' THEN coalesce(to_jsonb(pg_database) ->> 'datlocprovider', 'c') \
                                                   ELSE collprovider::text END, \
                                 CASE collprovider WHEN 'd' THEN datcollate::text ELSE collcollate::text END) \
                         AS sorting (provider, locale) \
                 WHERE attrelid = pg_class.oid AND attnum > 0 AND (sorting.provider = 'b' OR \
                       sorting.provider = 'c' AND lower(replace(sorting.locale, '-', '')) IN ('c', 'posix', 'c.utf8'))), \
           ARRAY(SELECT attname::text \
                 FROM pg_attribute \
                 JOIN pg_collation ON pg_collation.oid = attcollation \
                 WHERE attrelid = pg_class.oid AND attnum > 0 AND \
                       to_jsonb(pg_collation) ->> 'collisdeterministic' = 'false'), \
           current_setting('server_version_num')::int, \
           ARRAY(SELECT attname::text FROM of_values), \
           ARRAY(SELECT n_distinct::float8 FROM of_values) \
    FROM pg_class, LATERAL (SELECT pg_relation_size(oid) / current_setting('block_size')::int8) AS now (pages) \
    WHERE oid = to_regclass($1)";

/// What is known, by relation.
#[derive(Debug, Default)]
pub struct Facts(Mutex<HashMap<String, Known>>);

#[derive(Debug)]
struct Known {
    since: Instant,
    /// `None`: the server has not told.
    facts: Option<Arc<TableFacts>>,
    /// Columns there, each with the type that it has been found to have.
    checked: Vec<(String, tidemill_sql::types::Type)>,
    /// Those of them that are read as texts.
    as_text: Vec<String>,
    addresses: Vec<String>,
}

impl Known {
    fn new(facts: Option<Arc<TableFacts>>) -> Self {
        Self { since: Instant::now(), facts, checked: Vec::new(), as_text: Vec::new(), addresses: Vec::new() }
    }

    fn is_fresh(&self) -> bool {
        self.since.elapsed() < if self.facts.is_some() { FRESH_FOR } else { UNKNOWN_FOR }
    }

    /// If the server has not told, any text may be compared in another way.
    fn facts_of(&self, table: &TableDefinition) -> Arc<TableFacts> {
        let facts =
            self.facts.clone().unwrap_or_else(|| Arc::new(TableFacts::unknown(table, &PostgresDialect)));
        match self.as_text.is_empty() {
            true => facts,
            false => {
                let (as_text, addresses) = (self.as_text.clone(), self.addresses.clone());
                Arc::new(TableFacts { as_text, addresses, ..(*facts).clone() })
            }
        }
    }

    fn has_checked(&self, column: &ForeignColumn) -> bool {
        self.checked.iter().any(|(name, ty)| *name == column.remote && *ty == column.ty)
    }
}

impl Facts {
    /// An error if one of the columns that are used is of another type there. Who asks again soon is told without the server.
    pub async fn of(&self, pool: &Pool, table: &TableDefinition, used: &[usize]) -> Result<Arc<TableFacts>> {
        let relation = table.relation(&PostgresDialect);
        let used: Vec<_> = used.iter().filter_map(|place| table.columns.get(*place)).collect();
        let known = self.known(&relation, table, &used);
        let is_known = known.is_some();
        let unchecked = match known {
            Some((facts, unchecked)) if unchecked.is_empty() => return Ok(facts),
            Some((_, unchecked)) => unchecked,
            None => used,
        };
        let question = Question { pool, relation: &relation, unchecked: &unchecked, is_known };
        let (facts, described) = question.ask().await?;
        let (mut checked, mut as_text, mut addresses) = (Vec::new(), Vec::new(), Vec::new());
        if let Some(described) = described {
            for (column, found) in unchecked.into_iter().zip(described.columns()) {
                let oid = found.type_().oid();
                if is_read_as_text(column.ty, oid) {
                    as_text.push(column.remote.clone());
                    if *found.type_() == Type::INET {
                        addresses.push(column.remote.clone());
                    }
                } else if !fits(column.ty, oid) || !Found::from(found).keeps_modifier(column.ty) {
                    let wanted = column.remote_column();
                    return Err(mismatch(&pool.server, &table.name, &relation, &wanted, &found.into()));
                }
                checked.push((column.remote.clone(), column.ty));
            }
        }
        let mut all = self.0.lock();
        if !is_known {
            all.insert(relation.clone(), Known::new(facts));
        }
        let Some(known) = all.get_mut(&relation) else {
            return Ok(Arc::new(TableFacts::unknown(table, &PostgresDialect)));
        };
        known.checked.extend(checked);
        known.as_text.extend(as_text);
        known.addresses.extend(addresses);
        Ok(known.facts_of(table))
    }

    /// What is known of a table, and the columns that it is not known of.
    fn known<'t>(
        &self,
        relation: &str,
        table: &TableDefinition,
        used: &[&'t ForeignColumn],
    ) -> Option<(Arc<TableFacts>, Vec<&'t ForeignColumn>)> {
        let all = self.0.lock();
        let known = all.get(relation).filter(|known| known.is_fresh())?;
        let unchecked = used.iter().filter(|column| !known.has_checked(column));
        Some((known.facts_of(table), unchecked.copied().collect()))
    }
}

/// What a server is asked in one round trip. What it does not answer, whoever reads the table is told.
struct Question<'a> {
    pool: &'a Pool,
    relation: &'a str,
    unchecked: &'a [&'a ForeignColumn],
    /// Only the columns are in question.
    is_known: bool,
}

impl Question<'_> {
    async fn ask(&self) -> Result<(Option<Arc<TableFacts>>, Option<Statement>)> {
        let connection = match self.pool.aside().await {
            Ok(connection) => connection,
            // Whoever reads the table would wait as long once more, to be told the same.
            Err(error) if error.state == SqlState::TOO_MANY_CONNECTIONS => return Err(error),
            Err(_) => return Ok((None, None)),
        };
        let is_used = connection.is_used;
        Ok(match self.ask_over(connection).await {
            // A connection that was kept may be lost without anybody knowing.
            Err(error) if is_used && is_lost(&error) => match self.pool.connect().await {
                Ok(connection) => self.ask_over(connection).await.unwrap_or_default(),
                Err(_) => (None, None),
            },
            answer => answer.unwrap_or_default(),
        })
    }

    async fn ask_over(
        &self,
        connection: Connection,
    ) -> std::result::Result<(Option<Arc<TableFacts>>, Option<Statement>), Error> {
        let client = &connection.client;
        let facts = async {
            // Another Tidemill compares texts by their bytes.
            if self.is_known || connection.is_tidemill {
                return Ok(Some(Arc::default()));
            }
            let found = client.query_typed(FACTS, &[(&self.relation, Type::TEXT)]).await?;
            Ok(found.first().and_then(facts).map(Arc::new))
        };
        let described = async {
            let names = self.unchecked.iter().map(|column| column.sql(&PostgresDialect));
            let names: Vec<_> = names.collect();
            match names.is_empty() {
                true => Ok(None),
                false => {
                    let query = format!("SELECT {} FROM {}", names.join(", "), self.relation);
                    client.prepare(&query).await.map(Some)
                }
            }
        };
        let answers = match join!(facts, described) {
            (Err(error), _) | (_, Err(error)) if is_lost(&error) => return Err(error),
            (facts, described) => (facts.unwrap_or_default(), described.unwrap_or_default()),
        };
        self.pool.put(connection);
        Ok(answers)
    }
}

fn facts(found: &Row) -> Option<TableFacts> {
    let (rows, pages): (Option<f64>, i64) = (found.try_get(0).ok()?, found.try_get(1).ok()?);
    let pages = u64::try_from(pages).ok()?;
    let size = rows.map(|rows| TableSize { rows: rows as u64, pages });
    let (columns, counts): (Vec<String>, Vec<f64>) = (found.try_get(5).ok()?, found.try_get(6).ok()?);
    let distinct =
        columns.into_iter().zip(counts).filter_map(|(column, count)| Some((column, distinct(count, rows)?)));
    Some(TableFacts {
        size,
        distinct: distinct.collect(),
        version: found.try_get(4).ok()?,
        ordered_by_bytes: found.try_get(2).ok()?,
        equal_otherwise: found.try_get(3).ok()?,
        as_text: vec![],
        addresses: vec![],
        years: vec![],
    })
}

/// Different values, as `pg_stats` tells them: how many, or less than 0 what share of the rows; 0 is not known.
fn distinct(count: f64, rows: Option<f64>) -> Option<u64> {
    let count = if count < 0.0 { -count * rows? } else { count };
    (count >= 1.0).then_some(count as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_values_are_a_number_or_a_share() {
        assert_eq!(distinct(40.0, None), Some(40));
        assert_eq!(distinct(-0.5, Some(3000.0)), Some(1500));
        assert_eq!((distinct(-0.5, None), distinct(0.0, Some(3000.0))), (None, None));
    }
}
