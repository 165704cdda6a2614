//! MIGRATE TABLE, CREATE and DROP DATASOURCE TABLE.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use futures::StreamExt;
use sqlparser::ast;
use tidemill_federation::definition;
use tidemill_federation::migration::Migration;
use tidemill_federation::transaction::Transactions;
use tidemill_sql::function::cast;
use tidemill_sql::name::quote_ident;
use tidemill_sql::planner::plan_error;
use tidemill_sql::statement::{Datasource, Migrate, MigrateTarget};
use tidemill_sql::types::Type;
use tidemill_sql::{Result, SqlError, SqlState, parse};

use super::Session;
use super::execute::{Outcome, Step, attempt};
use super::interrupt::Shield;
use super::wire::Wire;
use crate::catalog::{ForeignTable, Relation};
use crate::define::migrate::Plan;
use crate::define::public;
use crate::pg::wire_error::Notice;
use crate::query::Running;

const TAG: &str = "MIGRATE TABLE";
/// How often a migration tells how far it is.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

impl Session {
    /// Rows are moved in one transaction a server; if anything fails, the source is what it was and there is no new table.
    pub(super) async fn migrate(&mut self, wire: &mut Wire, migrate: Migrate) -> Step<Outcome> {
        attempt!(self.begin_definition(TAG).await);
        let server = Arc::clone(&self.server);
        let plan = attempt!(Plan::new(&server.catalog, &migrate));
        let is_replaced = matches!(migrate.target, MigrateTarget::Replace);
        // What is replaced is not written to meanwhile.
        let _alone = match &plan.source {
            Relation::Table(table) if is_replaced => Some(table.hold().await),
            _ => None,
        };
        let mut migration = attempt!(Migration::begin(plan.source.name(), plan.targets.clone()).await);
        let moved = self.move_rows(wire, &plan, &mut migration).await?;
        let moved = match moved {
            Ok(()) => migration.flush().await,
            failed => failed,
        };
        let shield = Shield::asking(&self.interrupt);
        let moved = match moved {
            Ok(()) => migration.commit(self.interrupt.asked()).await,
            failed => failed,
        };
        shield.raise();
        let installed = match moved {
            Ok(()) => plan.install(&server).await,
            failed => failed,
        };
        if let Err(error) = installed {
            return Ok(Err(migration.discard(error).await));
        }
        let report = report(&plan, &migration);
        migration.keep();
        self.notices(wire, plan.notices);
        self.notices(wire, vec![report]);
        Ok(Ok(Outcome::Tag(TAG.into())))
    }

    async fn move_rows(&mut self, wire: &mut Wire, plan: &Plan, migration: &mut Migration) -> Step {
        let columns: Vec<_> = plan.columns.iter().map(|column| quote_ident(&column.name)).collect();
        let text = format!("SELECT {} FROM {}", columns.join(", "), quote_ident(plan.source.name()));
        let query = ast::Statement::Query(attempt!(parse::parse_query(&text)));
        let mut running = attempt!(self.run_query(&query, &text, vec![]).await);
        let schema = Arc::new(Schema::new(
            plan.columns.iter().map(|column| column.ty.field(&column.name)).collect::<Vec<_>>(),
        ));
        let (mut rows, mut told_at) = (0, Instant::now());
        while let Some(batch) = running.stream.next().await {
            let batch = attempt!(batch.map_err(plan_error));
            rows += batch.num_rows();
            let batch = attempt!(self.typed(&running, &batch, &schema));
            attempt!(migration.insert(&batch).await);
            if told_at.elapsed() >= PROGRESS_EVERY {
                told_at = Instant::now();
                let progress = format!("{rows} rows of table \"{}\" so far", plan.source.name());
                self.notices(wire, vec![Notice::new(progress)]);
                wire.flush().await?;
            }
        }
        Ok(complete(&running))
    }

    /// Rows of the query as rows of the new tables.
    fn typed(&self, running: &Running, batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
        let vars = self.vars();
        let column = |i: usize| {
            let (from, to) = (Type::of_field(running.schema.field(i))?, Type::of_field(schema.field(i))?);
            cast::cast(batch.column(i), from, to, false, &vars)
        };
        let columns = (0..batch.num_columns()).map(column).collect::<Result<_>>()?;
        RecordBatch::try_new(Arc::clone(schema), columns).map_err(|e| SqlError::internal(e.to_string()))
    }

    /// `CREATE DATASOURCE TABLE` and `DROP DATASOURCE TABLE`.
    pub(super) async fn datasource(&mut self, statement: &Datasource) -> Result<Outcome> {
        let tag = statement.tag();
        self.refuse_read_only(tag)?;
        let table = self.table_elsewhere(statement)?;
        let server = self.server.catalog.server_of(&table)?;
        let connector = server.connector()?;
        let dialect = connector.capabilities().dialect;
        let definition = match statement.is_drop {
            true => definition::drop(&table.definition, dialect, statement.is_lenient),
            false => definition::create(&table.definition, dialect, statement.is_lenient)?,
        };
        if !dialect.undoes_definitions() {
            self.refuse_in_block(tag)?;
            definition::carry_out(&connector, &definition).await?;
            return Ok(Outcome::Tag(tag.into()));
        }
        let is_block = self.in_block();
        let block = self.work().map(|work| work.foreign(is_block));
        let transactions = block.clone().unwrap_or_else(|| Arc::new(Transactions::default()));
        let transaction = transactions.begin(&format!("/{}/", server.object.name), &connector).await?;
        transaction.execute(&definition).await?;
        if block.is_none() {
            self.commit_on_servers(&transactions).await?;
        }
        Ok(Outcome::Tag(tag.into()))
    }

    /// The foreign table whose table on the other side is meant.
    fn table_elsewhere(&self, statement: &Datasource) -> Result<Arc<ForeignTable>> {
        let (name, tag) = (public(&statement.name)?, statement.tag());
        let wrong = |message: String| {
            SqlError::new(SqlState::WRONG_OBJECT_TYPE, message).with_position(statement.name.position)
        };
        match self.server.catalog.get(name) {
            Some(Relation::Foreign(table)) => {
                if self.server.catalog.server_of(&table)?.has_multi_tenant_tables() {
                    let message = format!("{tag} is not of multi-tenant table \"{name}\"");
                    return Err(wrong(message).with_hint("Name its children, one by one."));
                }
                Ok(table)
            }
            Some(_) => Err(wrong(format!("\"{name}\" is not a foreign table"))),
            None => {
                let message = format!("relation \"{name}\" does not exist");
                Err(SqlError::new(SqlState::UNDEFINED_TABLE, message).with_position(statement.name.position))
            }
        }
    }
}

/// An error if a node was left out: what is moved has to be all.
fn complete(running: &Running) -> Result<()> {
    let missing = running.nodes.iter().flat_map(|nodes| nodes.warnings()).next();
    match missing {
        None => Ok(()),
        Some(warning) => {
            let mut error = SqlError::new(SqlState::UNABLE_TO_ESTABLISH_CONNECTION, warning.message.clone());
            error.detail.clone_from(&warning.detail);
            Err(error)
        }
    }
}

fn report(plan: &Plan, migration: &Migration) -> Notice {
    let (mut all, mut lines) = (0, Vec::new());
    for (target, rows) in migration.rows() {
        all += rows;
        let dialect = target.connector.capabilities().dialect;
        lines.push(format!("{} {}: {rows} rows", target.node, target.table.relation(dialect)));
    }
    let message = format!("{all} rows of \"{}\" were migrated", plan.source.name());
    Notice::new(message).with_detail(lines.join("\n"))
}
