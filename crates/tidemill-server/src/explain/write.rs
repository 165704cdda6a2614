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

use tidemill_federation::change::Change;
use tidemill_federation::health::cause;
use tidemill_federation::multi_tenant::URL;
use tidemill_federation::write::{Target, Writing};
use tidemill_sql::name::quote_ident;

use super::{head, property};

/// Of a relation that is here.
pub fn local(verb: &str, relation: &str) -> Vec<String> {
    vec![head(0, &format!("{verb} on {}", quote_ident(relation)))]
}

/// Rows that go to the nodes of a table; some rows may tell to which.
pub fn foreign_insert(table: &str, writing: &Writing, tells_nodes: bool) -> Vec<String> {
    let targets: Vec<&Target> = writing.rows_by_node().map(|(target, _)| target).collect();
    if let [target] = &targets[..]
        && target.table.name == table
    {
        let lines = std::iter::once(head(0, &format!("Foreign Insert on {}", quote_ident(table))));
        return lines.chain(place(target, 0)).collect();
    }
    let mut lines = local("Insert", table);
    let routing = if tells_nodes { format!("by {URL}, other rows in turn") } else { "rows in turn".into() };
    lines.push(property(0, "Routing", &routing));
    for target in targets {
        lines.push(head(1, &format!("Foreign Insert on {}", quote_ident(&target.table.name))));
        lines.push(property(1, "Node", &target.node));
        lines.extend(place(target, 1));
    }
    lines
}

fn place(target: &Target, depth: usize) -> impl Iterator<Item = String> {
    let relation = target.table.relation(target.connector.capabilities().dialect);
    let reason = target.refusal.clone().or_else(|| target.connector.absence());
    let reason = reason.map(|reason| property(depth, "Not Written", &cause(&reason)));
    std::iter::once(property(depth, "Remote Table", &relation)).chain(reason)
}

/// What the servers of a table are told.
pub fn foreign_changes(verb: &str, table: &str, changes: &[Change]) -> Vec<String> {
    if let [change] = changes
        && change.member.is_none()
    {
        let lines = std::iter::once(head(0, &format!("Foreign {verb} on {}", quote_ident(table))));
        return lines.chain(told(change, 0)).collect();
    }
    let mut lines = local(verb, table);
    for change in changes {
        lines.push(head(1, &format!("Foreign {verb} on {}", quote_ident(&change.table.name))));
        lines.push(property(1, "Node", &change.node()));
        lines.extend(told(change, 1));
    }
    lines
}

fn told(change: &Change, depth: usize) -> impl Iterator<Item = String> {
    let label = change.connector.capabilities().label;
    let down = change.connector.absence().map(|down| property(depth, "Not Written", &cause(&down)));
    std::iter::once(property(depth, label, &change.statement.sql)).chain(down)
}
