//! A requester's sessions with one of the schemas, and what was read there.

use super::Requests;
use crate::error::Result;
use crate::linkbench::history::History;
use crate::linkbench::schema::Schema;
use crate::linkbench::store::SqlStore;
use crate::target::Target;

pub struct Shard {
    pub store: SqlStore,
    /// For transactions, where they have a connection of their own.
    transactions: Option<SqlStore>,
    pub history: History,
    /// A request failed: the sessions may have ended, or have a transaction open.
    is_suspect: bool,
}

impl Shard {
    pub fn open(shared: &Requests, index: usize, schema: &Schema) -> Result<Shard> {
        let (settings, compat) = (&shared.settings, shared.settings.compat);
        let mut connection = shared.target.connect()?;
        shared.find_nodes(index, connection.as_mut(), schema)?;
        let open = |connection| -> Result<_> {
            let mut store = SqlStore::new(connection, &settings.properties, schema, compat)?;
            store.keep_last_rows();
            Ok(store)
        };
        let transactions = compat.connections.then(|| open(shared.target.connect()?)).transpose()?;
        Ok(Shard {
            store: open(connection)?,
            transactions,
            history: History::new(compat.history),
            is_suspect: false,
        })
    }

    pub fn transactions(&mut self) -> &mut SqlStore {
        self.transactions.as_mut().unwrap_or(&mut self.store)
    }

    pub fn stores(&self) -> impl Iterator<Item = &SqlStore> {
        self.transactions.iter().chain([&self.store])
    }

    pub fn suspect(&mut self) {
        self.is_suspect = true;
    }

    /// After a request that failed: what the server has ended is opened again, as in the original. When it refuses, the next
    /// request tries again.
    pub fn reopen_lost(&mut self, target: &Target) -> Result<()> {
        if !self.is_suspect {
            return Ok(());
        }
        for store in self.transactions.iter_mut().chain([&mut self.store]) {
            if store.is_lost() {
                store.reopen(target.connect()?)?;
            }
        }
        self.is_suspect = false;
        Ok(())
    }
}
