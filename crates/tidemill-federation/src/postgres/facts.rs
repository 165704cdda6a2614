//! What a server knows of its tables: how large they are, without counting, and in which order their texts are.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::connect::Pool;
use crate::connector::{TableFacts, TableSize};

/// How long an answer is good for, and how long none is.
const FRESH_FOR: Duration = Duration::from_secs(60);
const UNKNOWN_FOR: Duration = Duration::from_secs(5);
/// A plan waits no longer for it.
const WAIT_MAX: Duration = Duration::from_millis(500);

/// As PostgreSQL's planner reckons: so many rows a page when it was last analyzed, and so many pages now. Ranges of pages are
/// read as such since version 14. Texts are in the order of their bytes in the locales C, POSIX and C.UTF-8, and whatever
/// the provider `builtin` does.
const FACTS: &str = "\
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
                       sorting.provider = 'c' AND lower(replace(sorting.locale, '-', '')) IN ('c', 'posix', 'c.utf8'))) \
    FROM pg_class, LATERAL (SELECT pg_relation_size(oid) / current_setting('block_size')::int8) AS now (pages) \
    WHERE oid = to_regclass($1)";

/// What is known, by relation.
#[derive(Debug, Default)]
pub struct Facts(Mutex<HashMap<String, (Instant, Option<Arc<TableFacts>>)>>);

impl Facts {
    pub async fn of(&self, pool: &Pool, relation: &str) -> Arc<TableFacts> {
        let known = self.0.lock().get(relation).cloned();
        if let Some((since, facts)) = known
            && since.elapsed() < if facts.is_some() { FRESH_FOR } else { UNKNOWN_FOR }
        {
            return facts.unwrap_or_default();
        }
        let asked = tokio::time::timeout(WAIT_MAX, ask(pool, relation)).await;
        let facts = asked.ok().flatten().map(Arc::new);
        self.0.lock().insert(relation.to_string(), (Instant::now(), facts.clone()));
        facts.unwrap_or_default()
    }
}

/// `None` if the server does not answer: whoever reads the table is told why.
async fn ask(pool: &Pool, relation: &str) -> Option<TableFacts> {
    let connection = pool.get().await.ok()?;
    let found = connection.client.query_opt(FACTS, &[&relation]).await.ok()?;
    pool.put(connection);
    let found = found?;
    let (rows, pages): (Option<f64>, i64) = (found.try_get(0).ok()?, found.try_get(1).ok()?);
    let pages = u64::try_from(pages).ok()?;
    let size = rows.map(|rows| TableSize { rows: rows as u64, pages });
    Some(TableFacts { size, ordered_by_bytes: found.try_get(2).ok()? })
}
