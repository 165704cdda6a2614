//! How large the tables of a server are, as it knows without counting.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::connect::Pool;
use crate::connector::TableSize;

/// How long an answer is good for, and how long none is.
const FRESH_FOR: Duration = Duration::from_secs(60);
const UNKNOWN_FOR: Duration = Duration::from_secs(5);
/// A plan waits no longer for it.
const WAIT_MAX: Duration = Duration::from_millis(100);

/// As PostgreSQL's planner reckons: so many rows a page when it was last analyzed, and so many pages now. Ranges of pages are
/// read as such since version 14.
const SIZE: &str = "\
    SELECT CASE WHEN relkind = 'p' THEN nullif(reltuples, -1) \
                WHEN relpages > 0 AND reltuples >= 0 THEN reltuples / relpages * pages END::float8, \
           CASE WHEN relkind IN ('r', 'm') AND current_setting('server_version_num')::int >= 140000 THEN pages ELSE 0 END \
    FROM pg_class, LATERAL (SELECT pg_relation_size(oid) / current_setting('block_size')::int8) AS now (pages) \
    WHERE oid = to_regclass($1)";

/// What is known, by relation.
#[derive(Debug, Default)]
pub struct Sizes(Mutex<HashMap<String, (Instant, Option<TableSize>)>>);

impl Sizes {
    pub async fn of(&self, pool: &Pool, relation: &str) -> Option<TableSize> {
        let known = self.0.lock().get(relation).copied();
        if let Some((since, size)) = known
            && since.elapsed() < if size.is_some() { FRESH_FOR } else { UNKNOWN_FOR }
        {
            return size;
        }
        let asked = tokio::time::timeout(WAIT_MAX, ask(pool, relation)).await;
        let size = asked.ok().flatten();
        self.0.lock().insert(relation.to_string(), (Instant::now(), size));
        size
    }
}

/// `None` if the server does not know, or does not answer: whoever reads the table is told why.
async fn ask(pool: &Pool, relation: &str) -> Option<TableSize> {
    let connection = pool.get().await.ok()?;
    let found = connection.client.query_opt(SIZE, &[&relation]).await.ok()?;
    pool.put(connection);
    let found = found?;
    let (rows, pages): (Option<f64>, i64) = (found.try_get(0).ok()?, found.try_get(1).ok()?);
    Some(TableSize { rows: rows? as u64, pages: u64::try_from(pages).ok()? })
}
