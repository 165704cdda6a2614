//! Which columns of a table are generated there, always: stored ones and identities. A server is asked once a minute.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Error};

/// How long an answer is good for.
const FRESH_FOR: Duration = Duration::from_secs(60);
/// Tables that are known at most.
const KNOWN_MAX: usize = 1000;
/// Before version 12 no column is stored, before 10 none is an identity, and there are no such attributes.
const GENERATED: &str = "SELECT attname::text FROM pg_attribute \
                         WHERE attrelid = to_regclass($1) AND attnum > 0 AND (to_jsonb(pg_attribute) ->> 'attgenerated' <> '' \
                         OR to_jsonb(pg_attribute) ->> 'attidentity' = 'a')";

const SAVEPOINT: &str = "SAVEPOINT tidemill_asks";
const UNDO: &str = "ROLLBACK TO SAVEPOINT tidemill_asks";
const RELEASE: &str = "RELEASE SAVEPOINT tidemill_asks";

/// What is known, by relation.
#[derive(Debug, Default)]
pub struct Generated(Mutex<HashMap<String, (Instant, Arc<[String]>)>>);

impl Generated {
    pub fn known(&self, relation: &str) -> Option<Arc<[String]>> {
        let all = self.0.lock();
        let (since, columns) = all.get(relation)?;
        (since.elapsed() < FRESH_FOR).then(|| Arc::clone(columns))
    }

    /// In a transaction, which goes on if the server has no such catalog: then it says itself what it does not take.
    pub async fn ask(&self, client: &Client, relation: &str) -> Result<Arc<[String]>, Error> {
        client.batch_execute(SAVEPOINT).await?;
        let columns = match client.query_typed(GENERATED, &[(&relation, Type::TEXT)]).await {
            Ok(rows) => rows.iter().map(|row| row.try_get(0)).collect::<Result<Arc<[String]>, _>>()?,
            Err(error) if error.as_db_error().is_some() => {
                client.batch_execute(UNDO).await?;
                Arc::new([])
            }
            Err(error) => return Err(error),
        };
        client.batch_execute(RELEASE).await?;
        let mut all = self.0.lock();
        if all.len() >= KNOWN_MAX {
            all.clear();
        }
        all.insert(relation.to_string(), (Instant::now(), Arc::clone(&columns)));
        Ok(columns)
    }
}
