//! Transactions: blocks, savepoints, what is written in them and what they read.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidemill_federation::transaction::Transactions;
use tidemill_sql::planner::plan_error;
use tidemill_sql::statement::Statement;
use tidemill_sql::{Result, SqlError, SqlState};
use tidemill_stream::engine::{Engine, WriteSet, Written};
use tidemill_stream::view::{Snapshot, ViewId};

use super::Session;
use super::extended::Portal;
use super::interrupt::Shield;
use crate::catalog::Table;
use crate::insert::Target;
use crate::pg::wire_error::Notice;
use crate::query::Reads;
use crate::settings::Scope;

/// Savepoints that a block can hold.
const SAVEPOINTS_MAX: usize = 10_000;

/// Where a session is with respect to transactions.
pub(super) enum Transaction {
    None,
    /// Statements of one string, or of one pipeline up to Sync: committed at its end.
    Implicit(Work),
    Open(Work),
    Failed(Work),
}

/// What a transaction has written and read.
#[derive(Default)]
pub(super) struct Work {
    written: Option<WriteSet>,
    savepoints: Vec<Savepoint>,
    /// The tables that were written to, by number.
    tables: BTreeMap<u32, Arc<Table>>,
    /// Those on foreign servers that were written to.
    foreign: Option<Arc<Transactions>>,
    /// From REPEATABLE READ on, everything is read at one commit.
    pub(super) snapshot: Option<Arc<Snapshot>>,
}

struct Savepoint {
    name: String,
    /// Of the settings.
    number: usize,
    /// Portals with a number from here on were made after it.
    next_portal: u64,
    /// What was written after it.
    written: Option<WriteSet>,
}

impl Work {
    /// Where the next write goes: what ROLLBACK TO the last savepoint forgets.
    pub(super) fn set(&mut self, engine: &Arc<Engine>) -> &mut WriteSet {
        let slot = match self.savepoints.last_mut() {
            Some(savepoint) => &mut savepoint.written,
            None => &mut self.written,
        };
        slot.get_or_insert_with(|| engine.begin(false))
    }

    /// Remembers what was written to.
    pub(super) fn note(&mut self, target: &Target) {
        if let Some(table) = target.table() {
            self.tables.entry(table.oid).or_insert_with(|| Arc::clone(table));
        }
    }

    /// What was written to and is kept here.
    pub(super) fn tables(&self) -> Vec<ViewId> {
        self.tables.values().map(|table| table.id()).collect()
    }

    pub(super) fn has_tables(&self) -> bool {
        !self.tables.is_empty()
    }

    /// Where the next write to a foreign server goes.
    pub(super) fn foreign(&mut self, is_block: bool) -> Arc<Transactions> {
        let new = || Arc::new(Transactions::new(is_block, self.savepoints.len()));
        Arc::clone(self.foreign.get_or_insert_with(new))
    }

    /// What a query of the transaction sees.
    pub(super) fn reads(&self) -> Reads {
        let mut written = Written::default();
        let sets = self.written.iter().chain(self.savepoints.iter().filter_map(|s| s.written.as_ref()));
        sets.for_each(|set| written.push(set));
        Reads { snapshot: self.snapshot.clone(), written, foreign: self.foreign.clone() }
    }

    /// Takes in a write set that was filled apart.
    pub(super) fn add(&mut self, set: WriteSet, engine: &Arc<Engine>) -> Result<()> {
        self.set(engine).absorb(set).map_err(|e| e.into_sql(plan_error))
    }

    /// Bytes that the write sets hold.
    pub(super) fn memory(&self) -> usize {
        let sets = self.savepoints.iter().filter_map(|s| s.written.as_ref()).chain(&self.written);
        sets.map(WriteSet::memory).sum()
    }

    fn find(&self, name: &str) -> Result<usize> {
        self.savepoints.iter().rposition(|s| s.name == name).ok_or_else(|| {
            SqlError::new(SqlState::INVALID_SAVEPOINT, format!("savepoint \"{name}\" does not exist"))
        })
    }

    /// Ends the savepoints from `first` on and keeps what was written after them.
    fn release(&mut self, first: usize, engine: &Arc<Engine>) -> Result<()> {
        if let Some(foreign) = &self.foreign {
            foreign.keep_savepoints(first);
        }
        for savepoint in self.savepoints.split_off(first) {
            if let Some(set) = savepoint.written {
                self.add(set, engine)?;
            }
        }
        Ok(())
    }

    fn into_written(mut self, engine: &Arc<Engine>) -> Result<Option<WriteSet>> {
        self.release(0, engine)?;
        Ok(self.written)
    }
}

impl Session {
    pub(super) fn in_block(&self) -> bool {
        matches!(self.transaction, Transaction::Open(_) | Transaction::Failed(_))
    }

    pub(super) fn work(&mut self) -> Option<&mut Work> {
        match &mut self.transaction {
            Transaction::Open(work) | Transaction::Implicit(work) => Some(work),
            Transaction::None | Transaction::Failed(_) => None,
        }
    }

    /// PostgreSQL's 25001 for what can't be undone.
    pub(super) fn refuse_in_block(&self, command: &str) -> Result<()> {
        if !self.in_block() {
            return Ok(());
        }
        let message = format!("{command} cannot run inside a transaction block");
        Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message).with_hint(
            "It takes effect at once and can't be rolled back; run it on its own, with autocommit in drivers.",
        ))
    }

    pub(super) fn refuse_read_only(&self, command: &str) -> Result<()> {
        if !self.settings.transaction_read_only() {
            return Ok(());
        }
        let message = format!("cannot execute {command} in a read-only transaction");
        Err(SqlError::new(SqlState::READ_ONLY_SQL_TRANSACTION, message))
    }

    /// BEGIN, COMMIT and the like; the answer is the tag.
    pub(super) async fn transaction_command(
        &mut self,
        statement: Statement,
    ) -> Result<(String, Vec<Notice>)> {
        let mut notices = Vec::new();
        let tag = match statement {
            Statement::Begin { start, modes } => {
                let tag = if start { "START TRANSACTION" } else { "BEGIN" };
                if self.in_block() {
                    notices.push(Notice::warning(
                        SqlState::ACTIVE_SQL_TRANSACTION,
                        "there is already a transaction in progress",
                    ));
                } else {
                    self.begin_block().await?;
                }
                self.set_modes(&modes, &mut notices)?;
                tag
            }
            Statement::Commit { chain } => self.commit_block(chain, &mut notices).await?,
            Statement::Rollback { chain } => {
                self.end_block_allowed(chain)?;
                if self.in_block() {
                    self.rollback_block(chain);
                } else {
                    self.transaction = Transaction::None;
                    notices.push(no_transaction());
                }
                "ROLLBACK"
            }
            Statement::Savepoint(name) => {
                self.savepoint(name)?;
                "SAVEPOINT"
            }
            Statement::Release(name) => {
                self.release(&name)?;
                "RELEASE"
            }
            Statement::RollbackTo(name) => {
                self.rollback_to(&name)?;
                "ROLLBACK"
            }
            Statement::SetTransaction { session: false, modes } => {
                if !self.in_block() {
                    notices.push(Notice::warning(
                        SqlState::NO_ACTIVE_SQL_TRANSACTION,
                        "SET TRANSACTION can only be used in transaction blocks",
                    ));
                } else {
                    self.set_modes(&modes, &mut notices)?;
                }
                "SET"
            }
            Statement::SetTransaction { session: true, modes } => {
                for (name, value) in &modes {
                    let name = format!("default_{name}");
                    notices.extend(self.settings.set(&name, &[value], Scope::Session)?);
                }
                "SET"
            }
            other => return Err(SqlError::internal(format!("{other:?} is not a transaction's"))),
        };
        Ok((tag.into(), notices))
    }

    fn set_modes(&mut self, modes: &[(String, String)], notices: &mut Vec<Notice>) -> Result<()> {
        for (name, value) in modes {
            notices.extend(self.settings.set(name, &[value], Scope::Local)?);
        }
        Ok(())
    }

    /// BEGIN in the middle of a string of statements takes what went before into the block, as PostgreSQL does.
    async fn begin_block(&mut self) -> Result<()> {
        let work = match std::mem::replace(&mut self.transaction, Transaction::None) {
            Transaction::Implicit(work) => work,
            _ => {
                self.settings.begin();
                Work::default()
            }
        };
        self.transaction = Transaction::Open(work);
        self.first_portal = self.next_portal;
        Ok(())
    }

    async fn commit_block(&mut self, chain: bool, notices: &mut Vec<Notice>) -> Result<&'static str> {
        self.end_block_allowed(chain)?;
        match std::mem::replace(&mut self.transaction, Transaction::None) {
            Transaction::Open(work) => {
                let modes = self.settings.transaction_modes();
                let committed = self.commit_work(work).await;
                self.chain(chain, &modes)?;
                committed.map(|()| "COMMIT")
            }
            Transaction::Failed(work) => {
                self.transaction = Transaction::Failed(work);
                self.rollback_block(chain);
                Ok("ROLLBACK")
            }
            other => {
                // A block's end in a string of statements ends what the string has begun.
                if let Transaction::Implicit(work) = other {
                    self.commit_work(work).await?;
                }
                notices.push(no_transaction());
                Ok("COMMIT")
            }
        }
    }

    fn end_block_allowed(&self, chain: bool) -> Result<()> {
        if chain && !self.in_block() {
            let message = "COMMIT AND CHAIN can only be used in transaction blocks";
            return Err(SqlError::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, message));
        }
        Ok(())
    }

    fn chain(&mut self, chain: bool, modes: &[(String, String)]) -> Result<()> {
        if !chain {
            return Ok(());
        }
        self.settings.begin();
        self.transaction = Transaction::Open(Work::default());
        self.began_us = tidemill_sql::planner::vars::now_us();
        self.first_portal = self.next_portal;
        self.set_modes(modes, &mut Vec::new())
    }

    fn rollback_block(&mut self, chain: bool) {
        let modes = self.settings.transaction_modes();
        self.transaction = Transaction::None;
        self.settings.rollback();
        self.close_portals_from(self.first_portal);
        if self.chain(chain, &modes).is_err() {
            tracing::warn!("the modes of a transaction could not be taken over");
        }
    }

    /// Applies a transaction. Its settings last if it succeeds, and go back if not.
    pub(super) async fn commit_work(&mut self, work: Work) -> Result<()> {
        // What an interrupt leaves is rolled back as that of one string.
        self.transaction = Transaction::Implicit(Work::default());
        let committed = match self.commit_foreign(&work).await {
            Ok(()) => {
                let shield = Shield::lowered(&self.interrupt);
                // What servers have committed is not undone here.
                if work.foreign.is_some() {
                    shield.raise();
                }
                self.commit_written(work).await
            }
            Err(error) => Err(error),
        };
        self.transaction = Transaction::None;
        match &committed {
            Ok(()) => {
                self.settings.commit();
                self.portals.retain(Portal::outlives_transaction);
            }
            Err(_) => {
                self.settings.rollback();
                self.close_portals_from(self.first_portal);
            }
        }
        committed
    }

    /// As postgres_fdw: foreign servers come first, because they may refuse.
    async fn commit_foreign(&mut self, work: &Work) -> Result<()> {
        match &work.foreign {
            Some(foreign) => self.commit_on_servers(foreign).await,
            None => Ok(()),
        }
    }

    /// Up to the COMMITs all is undone by an interrupt; one that comes while they are under way is an error that says what is known.
    pub(super) async fn commit_on_servers(&mut self, transactions: &Transactions) -> Result<()> {
        transactions.judge().await?;
        let _shield = Shield::asking(&self.interrupt);
        transactions.commit(self.interrupt.asked()).await
    }

    async fn commit_written(&mut self, work: Work) -> Result<()> {
        let mut tables = work.tables.clone();
        let Some(set) = work.into_written(&self.server.engine)? else { return Ok(()) };
        let behind = self.server.catalog.tables_of(set.outputs());
        tables.extend(behind.into_iter().map(|table| (table.oid, table)));
        let tables = tables.into_values().collect::<Vec<_>>();
        let _shared = Table::share_all(&tables).await;
        let level = self.level_of(&tables);
        let shield = Shield::lowered(&self.interrupt);
        set.commit_with(level, || shield.raise()).await.map_err(|e| e.into_sql(plan_error))
    }

    /// Commits what an implicit transaction has gathered.
    pub(super) async fn end_implicit(&mut self) -> Result<()> {
        match std::mem::replace(&mut self.transaction, Transaction::None) {
            Transaction::Implicit(work) => self.commit_work(work).await,
            Transaction::None => {
                self.portals.retain(Portal::outlives_transaction);
                Ok(())
            }
            block => {
                self.transaction = block;
                Ok(())
            }
        }
    }

    /// Begins an implicit transaction, unless there is one already.
    pub(super) fn begin_implicit(&mut self) {
        if matches!(self.transaction, Transaction::None) {
            self.settings.begin();
            self.began_us = tidemill_sql::planner::vars::now_us();
            self.transaction = Transaction::Implicit(Work::default());
            self.first_portal = self.next_portal;
        }
    }

    /// After an error a block is over for everything but its end, and everything else is rolled back. What its cursors read ends
    /// at once, as in PostgreSQL; those from before the last savepoint are there if it goes back to that.
    pub(super) fn fail_transaction(&mut self) {
        self.transaction = match std::mem::replace(&mut self.transaction, Transaction::None) {
            Transaction::Open(work) | Transaction::Failed(work) => {
                if let Some(foreign) = &work.foreign {
                    foreign.give_up_reading();
                }
                let first = work.savepoints.last().map_or(self.first_portal, |last| last.next_portal);
                let failed = self.portals.iter_mut().filter(|portal| portal.number >= first);
                failed.for_each(Portal::fail);
                Transaction::Failed(work)
            }
            Transaction::Implicit(_) => {
                self.settings.rollback();
                self.close_portals_from(self.first_portal);
                Transaction::None
            }
            Transaction::None => Transaction::None,
        };
    }

    fn savepoint(&mut self, name: String) -> Result<()> {
        let (number, next_portal) = (self.settings.savepoint(), self.next_portal);
        match &mut self.transaction {
            Transaction::Open(work) if work.savepoints.len() < SAVEPOINTS_MAX => {
                work.savepoints.push(Savepoint { name, number, next_portal, written: None });
                if let Some(foreign) = &work.foreign {
                    foreign.keep_savepoints(work.savepoints.len());
                }
                Ok(())
            }
            Transaction::Open(_) => {
                self.settings.release(number);
                let message = format!("a transaction can hold at most {SAVEPOINTS_MAX} savepoints");
                Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message))
            }
            _ => {
                self.settings.release(number);
                Err(only_in_block("SAVEPOINT"))
            }
        }
    }

    fn release(&mut self, name: &str) -> Result<()> {
        let Transaction::Open(work) = &mut self.transaction else {
            return Err(only_in_block("RELEASE SAVEPOINT"));
        };
        let place = work.find(name)?;
        self.settings.release(work.savepoints[place].number);
        work.release(place, &self.server.engine)
    }

    fn rollback_to(&mut self, name: &str) -> Result<()> {
        let mut work = match std::mem::replace(&mut self.transaction, Transaction::None) {
            Transaction::Open(work) | Transaction::Failed(work) => work,
            other => {
                self.transaction = other;
                return Err(only_in_block("ROLLBACK TO SAVEPOINT"));
            }
        };
        let place = match work.find(name) {
            Ok(place) => place,
            Err(error) => {
                self.transaction = Transaction::Failed(work);
                return Err(error);
            }
        };
        work.savepoints.truncate(place + 1);
        if let Some(foreign) = &work.foreign {
            foreign.undo_to_savepoint(place + 1);
        }
        let savepoint = &mut work.savepoints[place];
        savepoint.written = None;
        let (number, next_portal) = (savepoint.number, savepoint.next_portal);
        self.settings.rollback_to(number);
        self.close_portals_from(next_portal);
        self.transaction = Transaction::Open(work);
        Ok(())
    }

    fn close_portals_from(&mut self, first: u64) {
        self.portals.retain(|portal| portal.number < first);
    }
}

fn only_in_block(command: &str) -> SqlError {
    let message = format!("{command} can only be used in transaction blocks");
    SqlError::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, message)
}

fn no_transaction() -> Notice {
    Notice::warning(SqlState::NO_ACTIVE_SQL_TRANSACTION, "there is no transaction in progress")
}
