//! What servers of this kind tell each other when one is a node of the other: downwards the way that a statement has come,
//! by which a circle is found out, and whether nodes may be left out, upwards which were.

use std::sync::Arc;

use datafusion::execution::TaskContext;
use parking_lot::Mutex;
use tidemill_sql::name::quote_literal;
use tidemill_sql::{Result, SqlError, SqlState};

use crate::connector::Connector;

/// Servers that a statement may come through.
const HOPS_MAX: usize = 32;
/// Between hops, and between what a hop consists of: nobody types these.
const HOP: char = '\u{1e}';
const PART: char = '\u{1f}';

/// The way of a statement through servers up to this one. A query finds it as an extension of its session's configuration.
#[derive(Debug, Clone, Default)]
pub struct Route {
    /// What tells this server from all others.
    here: String,
    hops: Vec<Hop>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Hop {
    /// Where it starts.
    from: String,
    /// The foreign table by which it goes on, and the name of its server.
    table: String,
    to: String,
}

impl Route {
    /// `told` is what the server before has said, which is empty if a user is there.
    pub fn new(here: &str, told: &str) -> Self {
        let hop = |hop: &str| {
            let mut parts = hop.split(PART).map(str::to_string);
            Some(Hop { from: parts.next()?, table: parts.next()?, to: parts.next()? })
        };
        Self { here: here.to_string(), hops: told.split(HOP).filter_map(hop).collect() }
    }

    /// What the next server is told; an error if the statement has been here before to go the same way.
    pub fn by(&self, table: &str, server: &str) -> Result<String> {
        let next = Hop { from: self.here.clone(), table: table.to_string(), to: server.to_string() };
        if let Some(first) = self.hops.iter().position(|hop| *hop == next) {
            let names = self.hops[first..].iter().chain([&next]).map(|hop| format!("\"{}\"", hop.to));
            let names = names.collect::<Vec<_>>().join(" → ");
            let message = format!("foreign servers have each other as nodes, in a circle: {names}");
            return Err(SqlError::new(SqlState::INVALID_OBJECT_DEFINITION, message)
                .with_hint("Leave one of them out with IN ('/node/'), or as a child of its table."));
        }
        if self.hops.len() >= HOPS_MAX {
            let message = format!("nodes have nodes more than {HOPS_MAX} deep");
            return Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, message));
        }
        let written = |hop: &Hop| format!("{}{PART}{}{PART}{}", hop.from, hop.table, hop.to);
        let hops: Vec<_> = self.hops.iter().chain([&next]).map(written).collect();
        Ok(hops.join(&HOP.to_string()))
    }

    /// As [`Route::by`], if the server is one that listens. `skips`: it may leave out nodes that are not there.
    pub fn cascade(
        &self,
        connector: &dyn Connector,
        table: &str,
        server: &str,
        skips: bool,
    ) -> Result<Option<Arc<Cascade>>> {
        if !connector.is_cascade() {
            return Ok(None);
        }
        let route = self.by(table, server)?;
        let (warnings, nodes) = Default::default();
        Ok(Some(Arc::new(Cascade { route, skips, warnings, nodes })))
    }
}

/// What passes between this server and the next while a statement is carried out there.
#[derive(Debug)]
pub struct Cascade {
    route: String,
    skips: bool,
    warnings: Mutex<Vec<SqlError>>,
    nodes: Mutex<Vec<Below>>,
}

/// A node of that server, as it tells of it when it has left out any.
#[derive(Debug, Clone)]
pub struct Below {
    /// As it is called there: `/north/`.
    pub node: String,
    pub is_skipped: bool,
    /// What had come of it.
    pub rows: u64,
    /// Why it is left out.
    pub error: Option<String>,
}

impl PartialEq for Cascade {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Cascade {}

impl Cascade {
    /// Of a scan of a foreign table.
    pub fn of_scan(
        context: &TaskContext,
        connector: &dyn Connector,
        table: &str,
        server: &str,
        skips: bool,
    ) -> Result<Option<Arc<Self>>> {
        match context.session_config().get_extension::<Route>() {
            Some(route) => route.cascade(connector, table, server, skips),
            None => Ok(None),
        }
    }

    /// What is told downwards, for the transaction or for the session: `SET cascade_route = …`
    pub fn settings(&self, is_local: bool) -> String {
        let scope = if is_local { "LOCAL " } else { "" };
        let policy = if self.skips { "skip" } else { "error" };
        let route = quote_literal(&self.route);
        format!("SET {scope}cascade_route = {}; SET {scope}on_dead_node = {policy}", route.trim_start())
    }

    /// All nodes of that server, of which some are left out.
    pub fn report(&self, nodes: Vec<Below>) {
        *self.nodes.lock() = nodes;
    }

    /// What it has reported, if it has left out any.
    pub fn nodes(&self) -> Vec<Below> {
        self.nodes.lock().clone()
    }

    pub fn warn(&self, warnings: Vec<SqlError>) {
        self.warnings.lock().extend(warnings);
    }

    /// What was said and was not taken before.
    pub fn take_warnings(&self) -> Vec<SqlError> {
        std::mem::take(&mut self.warnings.lock())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_circle_is_told_by_its_servers() {
        let first = Route::new("a", "").by("m__b__0", "b").unwrap();
        let second = Route::new("b", &first).by("m__a__0", "it's \"a\"").unwrap();
        // Another table of the first server is no circle yet.
        assert!(Route::new("a", &second).by("other", "b").is_ok());
        let circle = Route::new("a", &second).by("m__b__0", "b").unwrap_err();
        assert_eq!(circle.state, SqlState::INVALID_OBJECT_DEFINITION);
        assert!(circle.message.ends_with("in a circle: \"b\" → \"it's \"a\"\" → \"b\""), "{circle}");
    }

    #[test]
    fn a_way_has_an_end() {
        let mut told = String::new();
        for i in 0..HOPS_MAX {
            told = Route::new(&format!("s{i}"), &told).by("t", "next").unwrap();
        }
        assert_eq!(Route::new("last", &told).by("t", "next").unwrap_err().state.0, "54001");
    }
}
