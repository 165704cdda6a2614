//! Transactions on servers: one a server, for a statement or for a block of them.
//!
//! What a block writes to a server is one transaction there, which what the block reads of it sees as well. It is
//! committed with the block. Savepoints are made there when they are needed: at the first use of the transaction after them.

mod alone;
mod outcome;
mod rows;

use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::record_batch::RecordBatch;
use futures::future::{join_all, try_join_all};
use outcome::{Outcome, Tally, half_done};
use parking_lot::Mutex;
use tidemill_sql::{Result, SqlError, SqlState};
use tokio::sync::{Mutex as AsyncMutex, MutexGuard, watch};

use crate::connector::{Answer, Connector, Insertion, RemoteQuery, Writer, unknown};
use crate::generated::left_out;
use crate::table::TableDefinition;

/// How long the answer to what lasts, a COMMIT for one, is waited for when it is to wait no longer: most of the time it is on its
/// way, and who is told that it is not known has to find it out.
const ANSWER_GRACE: Duration = Duration::from_millis(200);

/// The transactions that a statement, or a block, has begun. A query of a block finds them as an extension of its
/// session's configuration.
#[derive(Debug, Default)]
pub struct Transactions {
    /// More statements are to come.
    is_block: bool,
    open: Mutex<Open>,
    /// What is under way is not wanted any more when this is sent to, or gone.
    unwanted: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Open {
    transactions: Vec<Arc<Transaction>>,
    /// Savepoints that the block has.
    savepoints: usize,
}

impl Transactions {
    /// Of a block that has so many savepoints; otherwise of statements that are all there at once.
    pub fn new(is_block: bool, savepoints: usize) -> Self {
        let open = Mutex::new(Open { transactions: vec![], savepoints });
        Self { is_block, open, unwanted: watch::Sender::default() }
    }

    /// The transaction on a server, if one was begun.
    pub fn find(&self, connector: &Arc<dyn Connector>) -> Option<Arc<Transaction>> {
        let open = self.open.lock();
        open.transactions.iter().find(|known| Arc::ptr_eq(&known.connector, connector)).cloned()
    }

    /// The transaction on the server of a node, which is begun unless it has been.
    pub async fn begin(&self, node: &str, connector: &Arc<dyn Connector>) -> Result<Arc<Transaction>> {
        if let Some(known) = self.find(connector) {
            return Ok(known);
        }
        let writer = connector.begin(self.is_block).await?;
        let mut open = self.open.lock();
        let due = Due { kept: 0, wanted: open.savepoints, undone_to: None };
        let new = Arc::new(Transaction {
            node: node.to_string(),
            connector: Arc::clone(connector),
            course: AsyncMutex::new(Course {
                writer: Some(writer),
                tally: Tally::default(),
                savepoints: vec![],
                generated: None,
            }),
            due: Mutex::new(due),
            outcome: Mutex::default(),
            spent: Mutex::default(),
            unwanted: self.unwanted.subscribe(),
        });
        open.transactions.push(Arc::clone(&new));
        Ok(new)
    }

    /// The block has so many savepoints now, and keeps what was written after those that it had.
    pub fn keep_savepoints(&self, count: usize) {
        self.change(count, |due| due.kept = due.kept.min(count));
    }

    /// What was written after the last of the first `count` savepoints is undone.
    pub fn undo_to_savepoint(&self, count: usize) {
        self.change(count, |due| due.undone_to = Some(due.undone_to.map_or(count, |n| n.min(count))));
    }

    fn change(&self, count: usize, change: impl Fn(&mut Due)) {
        let mut open = self.open.lock();
        open.savepoints = count;
        for transaction in &open.transactions {
            let mut due = transaction.due.lock();
            due.wanted = count;
            change(&mut due);
        }
    }

    fn all(&self) -> Vec<Arc<Transaction>> {
        self.open.lock().transactions.clone()
    }

    /// Parts of one statement, on a server each. What one of them refuses ends the others at once, unless there are savepoints:
    /// a block that goes back to one needs connections that are done with what they were asked.
    pub async fn together<T>(
        &self,
        parts: impl Iterator<Item = impl Future<Output = Result<T>>>,
    ) -> Result<Vec<T>> {
        let goes_on = self.open.lock().savepoints > 0;
        match goes_on {
            true => join_all(parts).await.into_iter().collect(),
            false => try_join_all(parts).await,
        }
    }

    /// Returns when all servers have taken what was written to them.
    pub async fn flush(&self) -> Result<()> {
        let all = self.all();
        self.together(all.iter().map(|transaction| transaction.flush())).await.map(drop)
    }

    /// Returns when all servers are ready to commit: they have taken what was written to them, and, if they are several, each has
    /// answered once more, with what it has deferred to the commit.
    pub async fn judge(&self) -> Result<()> {
        let all = self.all();
        match all.len() {
            0 | 1 => self.flush().await,
            _ => self.together(all.iter().map(|transaction| transaction.judge())).await.map(drop),
        }
    }

    /// A statement has failed: what it has begun to read ends, here and there.
    pub fn give_up_reading(&self) {
        self.unwanted.send_replace(());
    }

    /// Makes all of it last, one server after the other, once all have taken their part. An error that comes in between
    /// tells which nodes are changed. `given_up` says when, and why, no server is waited for any longer.
    pub async fn commit(&self, given_up: impl Future<Output = &'static str>) -> Result<()> {
        if let Err(error) = self.flush().await {
            return Err(self.half_done(error).await);
        }
        let all = self.all();
        let mut given_up = pin!(async {
            let why = given_up.await;
            tokio::time::sleep(ANSWER_GRACE).await;
            why
        });
        for transaction in &all {
            let committed = tokio::select! {
                biased;
                committed = transaction.commit() => committed,
                why = &mut given_up => Err(unknown(transaction.node.trim_matches('/'), why)),
            };
            if let Err(error) = committed {
                transaction.outcome.lock().note(&error);
                return Err(half_done(&all, error).await);
            }
        }
        Ok(())
    }

    /// The error with the nodes that are changed all the same, or may be, by statements that cannot be in a transaction.
    pub async fn half_done(&self, error: SqlError) -> SqlError {
        let all = self.all();
        match all.iter().any(|transaction| *transaction.outcome.lock() != Outcome::Open) {
            true => half_done(&all, error).await,
            false => error,
        }
    }
}

/// A transaction on one server.
pub struct Transaction {
    /// By which errors name it.
    node: String,
    connector: Arc<dyn Connector>,
    course: AsyncMutex<Course>,
    due: Mutex<Due>,
    outcome: Mutex<Outcome>,
    /// What writing, flushing and committing have taken so far.
    spent: Mutex<Duration>,
    unwanted: watch::Receiver<()>,
}

struct Course {
    /// `None` while it is used. If that does not come to its end, nobody knows where the connection is: the writer is dropped, which
    /// ends the transaction there.
    writer: Option<Box<dyn Writer>>,
    /// Added and changed so far, without what was undone.
    tally: Tally,
    /// What that was at each savepoint that was made there.
    savepoints: Vec<Tally>,
    /// The columns that are generated there, of the table that got the last rows.
    generated: Option<(Arc<TableDefinition>, Arc<[String]>)>,
}

/// A transaction that is used.
struct Used<'a> {
    course: MutexGuard<'a, Course>,
    writer: Box<dyn Writer>,
}

/// What has become of the block's savepoints since the transaction was used.
#[derive(Debug, Clone, Copy)]
struct Due {
    /// Of those that it had, these are left.
    kept: usize,
    /// So many it is to have.
    wanted: usize,
    /// What was done after this one is undone.
    undone_to: Option<usize>,
}

impl fmt::Debug for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transaction").field("node", &self.node).finish_non_exhaustive()
    }
}

impl Transaction {
    pub async fn insert(&self, into: &Insertion, rows: &RecordBatch) -> Result<Answer> {
        let mut used = self.ready().await?;
        let answer = self.timed(used.insert(into, rows)).await;
        used.counted(answer)
    }

    /// A statement that changes rows, or defines something.
    pub async fn execute(&self, statement: &RemoteQuery) -> Result<Answer> {
        let mut used = self.ready().await?;
        let answer = self.timed(used.writer.execute(statement)).await;
        used.course.tally.is_emptied |= statement.empties && answer.is_ok();
        used.counted(answer)
    }

    pub async fn flush(&self) -> Result<()> {
        let mut used = self.ready().await?;
        let flushed = self.timed(used.writer.flush()).await;
        used.end();
        flushed
    }

    async fn judge(&self) -> Result<()> {
        let mut used = self.ready().await?;
        let judged = self.timed(used.writer.judge()).await;
        used.end();
        judged
    }

    /// By which its [fate](Connector::fate) can be asked for, once all that is to be written was.
    pub async fn id(&self) -> Result<Option<String>> {
        let mut used = self.ready().await?;
        let id = used.writer.id().await;
        used.end();
        id
    }

    async fn commit(&self) -> Result<()> {
        let mut used = self.used().await?;
        self.timed(used.writer.commit()).await?;
        *self.outcome.lock() = Outcome::Done;
        Ok(())
    }

    async fn timed<T>(&self, work: impl Future<Output = T>) -> T {
        let began = Instant::now();
        let done = work.await;
        *self.spent.lock() += began.elapsed();
        done
    }

    /// What the server has taken so far for what was written, up to its commit.
    pub fn spent(&self) -> Duration {
        *self.spent.lock()
    }

    pub fn is_committed(&self) -> bool {
        *self.outcome.lock() == Outcome::Done
    }

    /// The connection, with the savepoints that it is to have.
    async fn ready(&self) -> Result<Used<'_>> {
        let mut used = self.used().await?;
        let due = {
            let mut due = self.due.lock();
            let now = *due;
            *due = Due { kept: now.wanted, wanted: now.wanted, undone_to: None };
            now
        };
        used.catch_up(due).await?;
        Ok(used)
    }

    async fn used(&self) -> Result<Used<'_>> {
        let mut course = self.course.lock().await;
        let Some(writer) = course.writer.take() else {
            let message = format!("the transaction on node {} was interrupted", self.node);
            return Err(SqlError::new(SqlState::IN_FAILED_SQL_TRANSACTION, message)
                .with_hint("ROLLBACK ends the whole transaction."));
        };
        Ok(Used { course, writer })
    }
}

impl Used<'_> {
    async fn insert(&mut self, into: &Insertion, rows: &RecordBatch) -> Result<Answer> {
        let generated = match &self.course.generated {
            Some((table, generated)) if Arc::ptr_eq(table, &into.definition) => Arc::clone(generated),
            _ => {
                let generated = self.writer.generated(into).await?;
                self.course.generated = Some((Arc::clone(&into.definition), Arc::clone(&generated)));
                generated
            }
        };
        match left_out(into, rows, &generated)? {
            Some((into, rows)) => self.writer.insert(&into, &rows).await,
            None => self.writer.insert(into, rows).await,
        }
    }

    async fn catch_up(&mut self, due: Due) -> Result<()> {
        if let Some(savepoint) = due.undone_to
            && let Some(tally) = savepoint.checked_sub(1).and_then(|last| self.course.savepoints.get(last))
        {
            let tally = *tally;
            // What a statement that failed has left on its way is not sent first.
            self.writer.forget();
            self.command("ROLLBACK TO SAVEPOINT", savepoint).await?;
            self.course.tally = tally;
            self.course.savepoints.truncate(savepoint);
        }
        if due.kept < self.course.savepoints.len() {
            self.command("RELEASE SAVEPOINT", due.kept + 1).await?;
            self.course.savepoints.truncate(due.kept);
        }
        while self.course.savepoints.len() < due.wanted {
            self.command("SAVEPOINT", self.course.savepoints.len() + 1).await?;
            let tally = self.course.tally;
            self.course.savepoints.push(tally);
        }
        Ok(())
    }

    async fn command(&mut self, command: &str, savepoint: usize) -> Result<()> {
        let statement = RemoteQuery::command(format!("{command} tidemill_{savepoint}"));
        self.writer.execute(&statement).await.map(drop)
    }

    fn counted(mut self, answer: Result<Answer>) -> Result<Answer> {
        if let Ok(answer) = &answer {
            self.course.tally.rows += answer.count;
        }
        self.end();
        answer
    }

    /// What was begun has come to its end.
    fn end(mut self) {
        self.course.writer = Some(self.writer);
    }
}
