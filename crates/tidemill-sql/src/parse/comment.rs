//! COMMENT ON a relation or a column.

use sqlparser::tokenizer::Token;

use super::StatementParser;
use crate::error::{Result, SqlError};
use crate::name::of_parts;
use crate::statement::{Commented, ObjectKind, Statement};

impl StatementParser<'_> {
    pub(super) fn comment(&mut self) -> Result<Statement> {
        self.expect_word("COMMENT")?;
        self.expect_word("ON")?;
        let position = self.next_position();
        let object = if self.word("TABLE") {
            Commented::Relation(ObjectKind::Table, self.name()?)
        } else if self.word("VIEW") {
            Commented::Relation(ObjectKind::View, self.name()?)
        } else if self.words(&["CONTINUOUS", "VIEW"]) {
            Commented::Relation(ObjectKind::ContinuousView, self.name()?)
        } else if self.words(&["CONTINUOUS", "TRANSFORM"]) {
            Commented::Relation(ObjectKind::ContinuousTransform, self.name()?)
        } else if self.words(&["FOREIGN", "TABLE"]) {
            Commented::Relation(ObjectKind::ForeignTable, self.name()?)
        } else if self.word("STREAM") {
            Commented::Relation(ObjectKind::Stream, self.name()?)
        } else if self.word("COLUMN") {
            self.commented_column()?
        } else {
            let kind = self.identifier()?.to_uppercase();
            return Err(SqlError::unsupported(format!("COMMENT ON {kind} is not supported"))
                .with_position(position)
                .with_hint("Tables, views, streams and their columns can have comments."));
        };
        self.expect_word("IS")?;
        let text = if self.word("NULL") { None } else { Some(self.string()?) };
        Ok(Statement::Comment { object, text })
    }

    /// `table.column` or `schema.table.column`
    fn commented_column(&mut self) -> Result<Commented> {
        let position = self.next_position();
        let mut parts = vec![self.identifier()?];
        while self.token(&Token::Period) {
            parts.push(self.identifier()?);
        }
        match parts.pop() {
            Some(column) if !parts.is_empty() => {
                Ok(Commented::Column { relation: of_parts(&parts, position)?, column })
            }
            _ => Err(SqlError::syntax("column name must be qualified")),
        }
    }
}
