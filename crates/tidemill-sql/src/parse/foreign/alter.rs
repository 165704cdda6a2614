//! ALTER FOREIGN TABLE.

use sqlparser::tokenizer::Token;

use crate::data_type::type_of;
use crate::error::{Result, SqlError};
use crate::parse::StatementParser;
use crate::parse::session::ONE_USER;
use crate::statement::{Column, ForeignStatement, ForeignTableAction, Statement};

impl StatementParser<'_> {
    /// The rest of `ALTER FOREIGN TABLE`; whether the table is a stream is only known to the catalog.
    pub(in crate::parse) fn alter_foreign_table(&mut self) -> Result<Statement> {
        let if_exists = self.words(&["IF", "EXISTS"]);
        let name = self.name()?;
        let mut actions = vec![self.foreign_table_action()?];
        while self.token(&Token::Comma) {
            actions.push(self.foreign_table_action()?);
        }
        Ok(Statement::Foreign(ForeignStatement::AlterTable { if_exists, name, actions }))
    }

    fn foreign_table_action(&mut self) -> Result<ForeignTableAction> {
        if self.words(&["RENAME", "TO"]) {
            return Ok(ForeignTableAction::RenameTo(self.name()?));
        }
        if self.word("RENAME") {
            self.word("COLUMN");
            let from = self.identifier()?;
            self.expect_word("TO")?;
            return Ok(ForeignTableAction::RenameColumn { from, to: self.identifier()? });
        }
        if self.word("ADD") {
            self.word("COLUMN");
            let if_not_exists = self.words(&["IF", "NOT", "EXISTS"]);
            return Ok(ForeignTableAction::AddColumn { if_not_exists, column: self.foreign_column()? });
        }
        if self.word("DROP") {
            self.word("COLUMN");
            let if_exists = self.words(&["IF", "EXISTS"]);
            let name = self.identifier()?;
            self.cascade();
            return Ok(ForeignTableAction::DropColumn { if_exists, name });
        }
        if self.word("ALTER") {
            return self.altered_column();
        }
        self.refuse_owner("a foreign table")?;
        self.refuse_schema()?;
        let options = self.option_changes()?;
        if options.is_empty() {
            return Err(self.unexpected_next());
        }
        Ok(ForeignTableAction::Options(options))
    }

    fn altered_column(&mut self) -> Result<ForeignTableAction> {
        self.word("COLUMN");
        let name = self.identifier()?;
        if self.words(&["SET", "NOT", "NULL"]) {
            return Ok(ForeignTableAction::ColumnNotNull { name, not_null: true });
        }
        if self.words(&["DROP", "NOT", "NULL"]) {
            return Ok(ForeignTableAction::ColumnNotNull { name, not_null: false });
        }
        if self.words(&["SET", "DATA", "TYPE"]) || self.word("TYPE") {
            let position = self.next_position();
            let data_type = self.run(|p| p.parse_data_type())?;
            let ty = type_of(&data_type).map_err(|e| e.with_position(position))?;
            let column = Column { name: name.clone(), ty, position };
            return Ok(ForeignTableAction::ColumnType { name, column });
        }
        let options = self.option_changes()?;
        if options.is_empty() {
            return Err(self.unexpected_next());
        }
        Ok(ForeignTableAction::ColumnOptions { name, options })
    }

    /// Refuses `OWNER TO`.
    pub(super) fn refuse_owner(&mut self, of: &str) -> Result<()> {
        let position = self.next_position();
        if !self.words(&["OWNER", "TO"]) {
            return Ok(());
        }
        Err(SqlError::unsupported(format!("the owner of {of} cannot be changed"))
            .with_position(position)
            .with_hint(ONE_USER))
    }

    fn refuse_schema(&mut self) -> Result<()> {
        let position = self.next_position();
        if !self.words(&["SET", "SCHEMA"]) {
            return Ok(());
        }
        Err(SqlError::unsupported("the schema of a foreign table cannot be changed")
            .with_position(position)
            .with_hint("All relations are in schema \"public\". The schema that the table is in on its server is an option: OPTIONS (SET schema_name '…')."))
    }
}
