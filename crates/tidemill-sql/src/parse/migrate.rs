//! MIGRATE TABLE, CREATE and DROP DATASOURCE TABLE.

use sqlparser::tokenizer::Token;

use super::StatementParser;
use crate::error::Result;
use crate::statement::{Datasource, Migrate, MigrateServer, MigrateTarget, Statement};

impl StatementParser<'_> {
    /// One of these statements, or `None` and nothing taken.
    pub(super) fn migration_statement(&mut self) -> Result<Option<Statement>> {
        let found = if self.words(&["CREATE", "DATASOURCE", "TABLE"]) {
            let is_lenient = self.words(&["IF", "NOT", "EXISTS"]);
            Statement::Datasource(Datasource { is_drop: false, is_lenient, name: self.name()? })
        } else if self.words(&["DROP", "DATASOURCE", "TABLE"]) {
            let is_lenient = self.words(&["IF", "EXISTS"]);
            Statement::Datasource(Datasource { is_drop: true, is_lenient, name: self.name()? })
        } else if self.words(&["MIGRATE", "TABLE"]) {
            Statement::Migrate(self.migrate()?)
        } else {
            return Ok(None);
        };
        Ok(Some(found))
    }

    fn migrate(&mut self) -> Result<Migrate> {
        let source = self.name()?;
        let target = if self.word("REPLACE") {
            MigrateTarget::Replace
        } else if self.word("TO") {
            MigrateTarget::To(self.name()?)
        } else {
            MigrateTarget::None
        };
        let options = self.foreign_options()?;
        self.expect_word("SERVER")?;
        let mut servers = vec![self.migrate_server()?];
        while self.token(&Token::Comma) {
            servers.push(self.migrate_server()?);
        }
        Ok(Migrate { source, target, options, servers })
    }

    fn migrate_server(&mut self) -> Result<MigrateServer> {
        let position = self.next_position();
        Ok(MigrateServer { name: self.identifier()?, options: self.foreign_options()?, position })
    }
}
