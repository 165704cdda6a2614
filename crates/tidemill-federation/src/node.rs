//! The nodes that one statement reads: what came from each, and what is missing from the answer.
//!
//! A child of a multi-tenant table whose server is not there fails the statement, or is left out and named in a warning:
//! whoever defines the table, or the session, decides. Never is anything left out without a word.

use std::borrow::Cow;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use datafusion::physical_plan::ExecutionPlan;
use parking_lot::Mutex;
use tidemill_sql::{Result, SqlError, SqlState};

use crate::cascade::{Below, Cascade};
use crate::connector::RemoteQuery;
use crate::health::cause;
use crate::scan::ForeignScanExec;

/// What becomes of a statement when a node of a multi-tenant table is not there.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DeadNodes {
    /// The answer comes from the others, with a warning; otherwise it is an error.
    pub skip: bool,
    /// How many nodes of a table may be left out: below 1 a share of them, from 1 on a number.
    pub skipped_max: f64,
}

impl Default for DeadNodes {
    fn default() -> Self {
        Self { skip: false, skipped_max: f64::INFINITY }
    }
}

impl DeadNodes {
    pub fn of_table(self, table: OfTable) -> Self {
        Self {
            skip: table.skip.unwrap_or(self.skip),
            skipped_max: table.skipped_max.unwrap_or(self.skipped_max),
        }
    }

    pub fn allows(self, skipped: usize, all: usize) -> bool {
        let max = if self.skipped_max < 1.0 { self.skipped_max * all as f64 } else { self.skipped_max };
        skipped < all && skipped as f64 <= max
    }
}

/// Whose child a foreign table is, and on which node.
#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    pub table: String,
    /// As in the column that tells the node: `/north/`.
    pub node: String,
    pub dead_nodes: OfTable,
}

/// What the options of a multi-tenant table say; the rest is the session's to say.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct OfTable {
    pub skip: Option<bool>,
    pub skipped_max: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// The statement has not needed it yet.
    Waiting,
    Running,
    Complete,
    /// The rows were not wanted any more.
    Stopped,
    Failed,
    /// Its rows, or the rest of them, are missing from the answer.
    Skipped,
}

impl State {
    pub fn as_str(self) -> &'static str {
        match self {
            State::Waiting => "waiting",
            State::Running => "running",
            State::Complete => "complete",
            State::Stopped => "stopped",
            State::Failed => "failed",
            State::Skipped => "skipped",
        }
    }
}

/// One scan of the statement, and how it goes.
pub struct Node {
    pub server: String,
    /// The foreign table.
    pub table: String,
    member: Option<Member>,
    dead_nodes: DeadNodes,
    /// As it was planned.
    query: Arc<RemoteQuery>,
    /// What was asked instead, as it is shown.
    asked: OnceLock<String>,
    rows: AtomicU64,
    bytes: AtomicU64,
    course: Mutex<Course>,
    /// What its server says, if it may have nodes itself.
    cascade: Mutex<Option<Arc<Cascade>>>,
}

struct Course {
    state: State,
    began: Option<Instant>,
    took: Option<Duration>,
    error: Option<SqlError>,
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node")
            .field("table", &self.table)
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}

impl Node {
    /// The node of a multi-tenant table, or the server.
    pub fn name(&self) -> String {
        self.member.as_ref().map_or_else(|| format!("/{}/", self.server), |member| member.node.clone())
    }

    pub fn state(&self) -> State {
        self.course.lock().state
    }

    pub fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// How long it took, or has taken so far; `None` if it was not asked.
    pub fn time(&self) -> Option<Duration> {
        let course = self.course.lock();
        course.took.or(course.began.map(|began| began.elapsed()))
    }

    pub fn error(&self) -> Option<String> {
        self.course.lock().error.as_ref().map(cause)
    }

    /// Its server may say something.
    pub fn listen(&self, cascade: Arc<Cascade>) {
        *self.cascade.lock() = Some(cascade);
    }

    /// What its server has said, but for what its nodes below are told by.
    fn take_warnings(&self) -> Vec<SqlError> {
        let mut told = self.cascade.lock().as_ref().map_or_else(Vec::new, |cascade| cascade.take_warnings());
        if !self.below().is_empty() {
            told.retain(|warning| !warning.message.contains(MISSING));
        }
        told
    }

    /// The nodes of its server, by their full names, if any of them is left out.
    pub fn below(&self) -> Vec<Below> {
        let mut nodes = self.cascade.lock().as_ref().map_or_else(Vec::new, |cascade| cascade.nodes());
        for below in &mut nodes {
            below.node = format!("{}{}", self.name().trim_end_matches('/'), below.node);
        }
        nodes
    }

    /// The multi-tenant table, or the foreign table itself.
    fn whole(&self) -> &str {
        self.member.as_ref().map_or(&self.table, |member| &member.table)
    }

    /// What is missing of it.
    fn missing(&self) -> Vec<Below> {
        match self.state() {
            State::Skipped => {
                vec![Below { node: self.name(), is_skipped: true, rows: self.rows(), error: self.error() }]
            }
            _ => self.below().into_iter().filter(|below| below.is_skipped).collect(),
        }
    }

    /// What its server was asked, as it is shown.
    pub fn remote_sql(&self) -> Cow<'_, str> {
        self.asked.get().map_or_else(|| self.query.excerpt(), |asked| Cow::Borrowed(asked))
    }

    /// What its server is asked.
    pub fn ask(&self, query: &RemoteQuery) {
        self.asked.get_or_init(|| query.excerpt().into_owned());
    }

    pub fn begin(&self) {
        let mut course = self.course.lock();
        (course.state, course.began) = (State::Running, Some(Instant::now()));
    }

    pub fn count_rows(&self, rows: usize) {
        self.rows.fetch_add(rows as u64, Ordering::Relaxed);
    }

    pub fn count_bytes(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Unless it has ended before.
    pub fn end(&self, state: State, error: Option<SqlError>) {
        let mut course = self.course.lock();
        if matches!(course.state, State::Waiting | State::Running) {
            course.took = course.began.map(|began| began.elapsed());
            (course.state, course.error) = (state, error);
        }
    }
}

/// The scans of one statement. A query finds them as an extension of its session's configuration.
#[derive(Debug)]
pub struct Nodes {
    nodes: Vec<Arc<Node>>,
    /// Nodes that a warning has named, with their tables.
    told: Mutex<Vec<(String, String)>>,
}

impl Nodes {
    /// `None` if the plan reads no foreign table.
    pub fn of(plan: &Arc<dyn ExecutionPlan>) -> Option<Self> {
        let (mut nodes, mut stack) = (Vec::new(), vec![plan]);
        while let Some(node) = stack.pop() {
            stack.extend(node.children().into_iter().rev());
            let Some(scan) = node.downcast_ref::<ForeignScanExec>() else { continue };
            nodes.push(Arc::new(Node {
                server: scan.server().to_string(),
                table: scan.table().to_string(),
                member: scan.member().cloned(),
                dead_nodes: scan.dead_nodes(),
                query: Arc::clone(scan.query()),
                asked: OnceLock::new(),
                rows: AtomicU64::new(0),
                bytes: AtomicU64::new(0),
                course: Mutex::new(Course { state: State::Waiting, began: None, took: None, error: None }),
                cascade: Mutex::default(),
            }));
        }
        (!nodes.is_empty()).then(|| Self { nodes, told: Mutex::default() })
    }

    pub fn all(&self) -> &[Arc<Node>] {
        &self.nodes
    }

    pub fn find(&self, query: &Arc<RemoteQuery>) -> Option<&Arc<Node>> {
        self.nodes.iter().find(|node| Arc::ptr_eq(&node.query, query))
    }

    /// The server of a node is not there: it is left out, or that is the error.
    pub fn skip(&self, node: &Node, error: SqlError) -> Result<()> {
        let Some(member) = node.member.as_ref().filter(|_| node.dead_nodes.skip) else {
            node.end(State::Failed, Some(error.clone()));
            return Err(error);
        };
        node.end(State::Skipped, Some(error.clone()));
        let (skipped, all) = self.count(&member.table);
        if node.dead_nodes.allows(skipped.len(), all) {
            return Ok(());
        }
        if skipped.len() == all {
            let hint = format!("No node of table \"{}\" that is asked is there.", member.table);
            return Err(error.with_hint(hint));
        }
        Err(too_many(&member.table, &skipped, all, error.state, &cause(&error)))
    }

    /// All rows of a node have come, unless its server has left out more nodes than may be.
    pub fn complete(&self, node: &Node) -> Result<()> {
        let missing = if node.state() == State::Running { node.missing() } else { vec![] };
        if let Some(first) = missing.first().filter(|_| node.dead_nodes.skip) {
            let (skipped, all) = self.count(node.whole());
            if !node.dead_nodes.allows(skipped.len(), all) {
                let why = first.error.as_deref().unwrap_or_default();
                let state = SqlState::UNABLE_TO_ESTABLISH_CONNECTION;
                let error = too_many(node.whole(), &skipped, all, state, why);
                node.end(State::Failed, Some(error.clone()));
                return Err(error);
            }
        }
        node.end(State::Complete, None);
        Ok(())
    }

    /// The nodes of a table that are left out, each once, and how many there are. Those below count where they are known.
    fn count(&self, table: &str) -> (Vec<String>, usize) {
        let (mut skipped, mut all) = (Vec::new(), Vec::new());
        for node in self.nodes.iter().filter(|node| node.whole() == table) {
            skipped.extend(node.missing().into_iter().map(|below| below.node));
            match node.below() {
                below if below.is_empty() => all.push(node.name()),
                below => all.extend(below.into_iter().map(|below| below.node)),
            }
        }
        for names in [&mut skipped, &mut all] {
            names.sort();
            names.dedup();
        }
        (skipped, all.len())
    }

    /// What is missing from the answer and was not told before: a warning for each table, and what the servers of nodes
    /// have said.
    pub fn warnings(&self) -> Vec<SqlError> {
        let mut told = self.told.lock();
        let mut new: Vec<(&str, Vec<Below>)> = Vec::new();
        for node in &self.nodes {
            for missing in node.missing() {
                let key = (node.whole().to_string(), missing.node.clone());
                if told.contains(&key) {
                    continue;
                }
                told.push(key);
                match new.iter_mut().find(|(table, _)| *table == node.whole()) {
                    Some((_, nodes)) => nodes.push(missing),
                    None => new.push((node.whole(), vec![missing])),
                }
            }
        }
        let told_there = self.nodes.iter().flat_map(|node| node.take_warnings());
        new.into_iter().map(|(table, nodes)| missing(table, &nodes)).chain(told_there).collect()
    }
}

fn too_many(table: &str, skipped: &[String], all: usize, state: SqlState, why: &str) -> SqlError {
    let message = format!("too many nodes of table \"{table}\" are not there: {}", skipped.join(", "));
    SqlError::new(state, message)
        .with_detail(format!("{} of {all} are missing. {why}", skipped.len()))
        .with_hint("\"max_skipped_nodes\" says how many may be.")
}

/// In the warning of a server about its nodes.
const MISSING: &str = "missing from the answer";

fn missing(table: &str, nodes: &[Below]) -> SqlError {
    let names: Vec<_> = nodes.iter().map(|node| node.node.as_str()).collect();
    let noun = if names.len() == 1 { "node" } else { "nodes" };
    let message = format!("{noun} of table \"{table}\" {MISSING}: {}", names.join(", "));
    let detail = nodes.iter().map(|node| {
        let part = match node.rows {
            0 => String::new(),
            rows => format!(" ({rows} rows had come before)"),
        };
        format!("{}: {}{part}", node.node, node.error.as_deref().unwrap_or_default())
    });
    SqlError::new(SqlState::WARNING, message).with_detail(detail.collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_or_a_number_may_be_left_out() {
        let allows = |max, skipped, all| DeadNodes { skip: true, skipped_max: max }.allows(skipped, all);
        assert!(allows(0.5, 2, 4) && !allows(0.5, 3, 4) && !allows(0.0, 1, 4));
        assert!(allows(1.0, 1, 4) && !allows(1.0, 2, 4) && allows(f64::INFINITY, 3, 4));
        // Somebody has to answer.
        assert!(!allows(f64::INFINITY, 4, 4));
    }
}
