//! What writes rows, in lines: where they go, over the plan that they come from.
//!
//! ```text
//! Insert on m
//!   Routing: rows in turn
//!   ->  Foreign Insert on m__north__0
//!         Node: /north/
//!         Remote Table: "public"."m"
//!   ->  Function Scan on generate_series
//! ```

use arrow::datatypes::SchemaRef;
use chrono::TimeDelta;
use tidemill_federation::change::Change;
use tidemill_federation::health::cause;
use tidemill_federation::multi_tenant::URL;
use tidemill_federation::write::{Writing, Written};
use tidemill_sql::name::quote_ident;

use super::{head, milliseconds, property};

/// What came of it, if it was carried out.
pub struct Done<'a> {
    /// Of a foreign table.
    pub writing: Option<&'a Writing>,
    /// What RETURNING has given.
    pub returned: usize,
    /// `None`: times are not wanted.
    pub time: Option<TimeDelta>,
}

impl Done<'_> {
    /// As PostgreSQL has it, where only rows that come back count.
    fn measured(&self) -> String {
        let rows = self.returned;
        let time = self.time.map_or_else(String::new, |time| {
            let ms = milliseconds(time);
            format!("time={ms:.3}..{ms:.3} ")
        });
        format!(" (actual {time}rows={rows} loops=1)")
    }
}

/// Of a relation that is here.
pub fn local(verb: &str, relation: &str, done: Option<&Done<'_>>) -> Vec<String> {
    let measured = done.map(Done::measured).unwrap_or_default();
    vec![head(0, &format!("{verb} on {}{measured}", quote_ident(relation)))]
}

/// Rows that go to the nodes of a table; some rows may tell to which.
pub fn foreign_insert(
    table: &str,
    writing: &Writing,
    tells_nodes: bool,
    done: Option<&Done<'_>>,
) -> Vec<String> {
    let nodes: Vec<Written<'_>> = writing.written().collect();
    if let [node] = &nodes[..]
        && node.target.table.name == table
    {
        let mut lines = local("Foreign Insert", table, done);
        lines.extend(done.map(|done| written(node, done, 0)));
        lines.extend(place(node, 0));
        return lines;
    }
    let mut lines = local("Insert", table, done);
    let routing = if tells_nodes { format!("by {URL}, other rows in turn") } else { "rows in turn".into() };
    lines.push(property(0, "Routing", &routing));
    for node in &nodes {
        lines.push(head(1, &format!("Foreign Insert on {}", quote_ident(&node.target.table.name))));
        lines.push(match done {
            Some(done) => written(node, done, 1),
            None => property(1, "Node", &node.target.node),
        });
        lines.extend(place(node, 1));
    }
    lines
}

fn place(node: &Written<'_>, depth: usize) -> impl Iterator<Item = String> {
    let target = node.target;
    let relation = target.table.relation(target.connector.capabilities().dialect);
    let reason = target.refusal.clone().or_else(|| node.absent.cloned());
    let reason = reason.or_else(|| target.connector.absence());
    let reason = reason.map(|reason| property(depth, "Not Written", &cause(&reason)));
    std::iter::once(property(depth, "Remote Table", &relation)).chain(reason)
}

/// What a node got, and how long it took.
fn written(node: &Written<'_>, done: &Done<'_>, depth: usize) -> String {
    let time = node.time.filter(|_| done.time.is_some());
    let time = time.map_or_else(String::new, |time| format!(" time={:.3}", time.as_secs_f64() * 1e3));
    property(depth, "Node", &format!("{} rows={}{time}", node.target.node, node.rows))
}

/// What the servers of a table are told. `returned`: the columns of the table, if RETURNING wants any.
pub fn foreign_changes(
    verb: &str,
    table: &str,
    changes: &[Change],
    returned: Option<&SchemaRef>,
    done: Option<&Done<'_>>,
) -> Vec<String> {
    let nodes: Vec<_> = done.and_then(|done| done.writing).into_iter().flat_map(Writing::written).collect();
    let got = |i: usize, depth| Some(written(nodes.get(i)?, done?, depth));
    if let [change] = changes
        && change.member.is_none()
    {
        let mut lines = local(&format!("Foreign {verb}"), table, done);
        lines.extend(got(0, 0));
        lines.extend(told(change, returned, nodes.first(), 0));
        return lines;
    }
    let mut lines = local(verb, table, done);
    for (i, change) in changes.iter().enumerate() {
        lines.push(head(1, &format!("Foreign {verb} on {}", quote_ident(&change.table.name))));
        lines.push(got(i, 1).unwrap_or_else(|| property(1, "Node", &change.node())));
        lines.extend(told(change, returned, nodes.get(i), 1));
    }
    lines
}

fn told(
    change: &Change,
    returned: Option<&SchemaRef>,
    node: Option<&Written<'_>>,
    depth: usize,
) -> impl Iterator<Item = String> {
    let statement = change.returning(returned, None);
    let label = change.connector.capabilities().label;
    let absent = node.and_then(|node| node.absent.cloned());
    let absent = absent.or_else(|| change.connector.absence());
    let absent = absent.map(|absent| property(depth, "Not Written", &cause(&absent)));
    std::iter::once(property(depth, label, &statement.sql)).chain(absent)
}
