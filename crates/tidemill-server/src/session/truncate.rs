//! TRUNCATE: tables here are emptied at one commit, foreign tables by their servers, in one transaction a server.

use std::sync::Arc;

use tidemill_federation::multi_tenant;
use tidemill_federation::node::DeadNodes;
use tidemill_federation::truncation::{self, Truncation};
use tidemill_federation::write::{Target, Writing};
use tidemill_sql::name::split_nodes;
use tidemill_sql::statement::Truncate;
use tidemill_sql::{Result, SqlError};

use super::Session;
use super::execute::Outcome;
use super::wire::Wire;
use crate::catalog::Relation;
use crate::define::{self, public};
use crate::insert::ForeignTarget;
use crate::tables::foreign::targets;
use crate::tables::no_nodes;

const VERB: &str = "TRUNCATE";
const TAG: &str = "TRUNCATE TABLE";

impl Session {
    pub(super) async fn truncate(&mut self, wire: &mut Wire, truncate: &Truncate) -> Result<Outcome> {
        let server = Arc::clone(&self.server);
        let foreign = self.foreign_among(truncate)?;
        let Some(first) = foreign.first() else {
            return self.define(wire, TAG, define::truncate(&server, &truncate.names)).await;
        };
        if foreign.len() < truncate.names.len() {
            let message = "TRUNCATE of foreign tables and of others at once is not supported";
            return Err(SqlError::unsupported(message).with_hint("Name them in statements of their own."));
        }
        self.refuse_read_only(TAG)?;
        let mut tables = Vec::new();
        for target in &foreign {
            tables.extend(self.truncated(target)?);
        }
        let how = Truncation { restarts: truncate.restarts, cascades: truncate.cascades };
        let changes = truncation::on_servers(tables, how)?;
        let mut writing = self.within_block(Writing::changing(&first.table.object.name, &changes));
        let _shield = self.carry_out(&mut writing, &changes).await?;
        let warnings = writing.warnings();
        self.end_writing(Some(&writing)).await?;
        self.missing.extend(warnings);
        Ok(Outcome::Tag(TAG.into()))
    }

    fn foreign_among(&self, truncate: &Truncate) -> Result<Vec<ForeignTarget>> {
        let mut foreign = Vec::new();
        for name in &truncate.names {
            let (plain, nodes) = split_nodes(public(name)?);
            match self.server.catalog.get(plain) {
                Some(Relation::Foreign(table)) => {
                    let nodes = nodes.map(|nodes| nodes.into_iter().map(String::from).collect());
                    foreign.push(ForeignTarget { table, nodes });
                }
                found if nodes.is_some() => {
                    return Err(no_nodes(plain, found.is_some()).with_position(name.position));
                }
                _ => {}
            }
        }
        Ok(foreign)
    }

    /// The tables that a foreign table stands for. Only nodes of a multi-tenant table may be left out.
    fn truncated(&self, target: &ForeignTarget) -> Result<Vec<(Target, DeadNodes)>> {
        let (table, catalog) = (&target.table, &self.server.catalog);
        let nodes: Option<Vec<&str>> =
            target.nodes.as_ref().map(|nodes| nodes.iter().map(String::as_str).collect());
        let dead_nodes = match catalog.server_of(table)?.has_multi_tenant_tables() {
            true => {
                let of_table = multi_tenant::dead_nodes(&table.object.options);
                self.settings.current().dead_nodes.of_table(of_table)
            }
            false => DeadNodes::default(),
        };
        let targets = targets(catalog, table, nodes.as_deref(), VERB)?;
        Ok(targets.into_iter().map(|target| (target, dead_nodes)).collect())
    }
}
