//! CREATE TABLE AS.

use std::sync::Arc;

use datafusion::common::ScalarValue;
use futures::StreamExt;
use sqlparser::ast;
use tidemill_sql::Result;
use tidemill_sql::planner::plan_error;
use tidemill_sql::statement::CreateTableAs;

use super::Session;
use super::execute::Outcome;
use super::interrupt::Shield;
use super::wire::Wire;
use crate::define::{self, NewTable};
use crate::pg::wire_error::Notice;

impl Session {
    pub(super) async fn create_table_as(
        &mut self,
        wire: &mut Wire,
        create: CreateTableAs,
        text: &str,
        values: Vec<ScalarValue>,
    ) -> Result<Outcome> {
        const TAG: &str = "CREATE TABLE AS";
        self.begin_definition(TAG).await?;
        let server = Arc::clone(&self.server);
        if !define::is_new(&server.catalog, &create)? {
            return self.skipped(wire, &create);
        }
        let statement = ast::Statement::Query(create.query.clone());
        let mut running = self.run_query(&statement, text, values).await?;
        let mut table = NewTable::new(&server, &create, &running.schema)?;
        let mut rows = 0;
        while create.with_data
            && let Some(batch) = running.stream.next().await
        {
            let batch = batch.map_err(plan_error)?;
            rows += batch.num_rows();
            table.add(&batch)?;
        }
        let _shield = Shield::raised(&self.interrupt);
        if !table.install(create.if_not_exists).await? {
            return self.skipped(wire, &create);
        }
        Ok(Outcome::Tag(if create.with_data { format!("SELECT {rows}") } else { TAG.into() }))
    }

    fn skipped(&self, wire: &mut Wire, create: &CreateTableAs) -> Result<Outcome> {
        let message = format!("relation \"{}\" already exists, skipping", create.name.name);
        self.notices(wire, vec![Notice::new(message)]);
        Ok(Outcome::Tag("CREATE TABLE AS".into()))
    }
}
