//! Streams and continuous views: CREATE, ALTER, DROP, ACTIVATE, TRUNCATE.

use sqlparser::ast;
use sqlparser::keywords::Keyword;
use sqlparser::tokenizer::Token;

use super::StatementParser;
use super::transform::OUTPUT;
use crate::data_type::column_type;
use crate::error::{Result, SqlError, SqlState};
use crate::statement::{
    AlterAction, Column, CreateStream, CreateView, ObjectKind, OutputFunction, Statement, ViewOption,
};

impl StatementParser<'_> {
    /// A statement of ours, or `None` and nothing taken.
    pub(super) fn stream_statement(&mut self) -> Result<Option<Statement>> {
        let found = if self.words(&["CREATE", "OR", "REPLACE", "CONTINUOUS", "VIEW"]) {
            self.create_view(true, true)
        } else if self.words(&["CREATE", "CONTINUOUS", "VIEW"]) {
            self.create_view(true, false)
        } else if self.words(&["CREATE", "OR", "REPLACE", "VIEW"]) {
            self.create_view(false, true)
        } else if self.words(&["CREATE", "VIEW"]) {
            self.create_view(false, false)
        } else if self.words(&["CREATE", "EXTENSION"]) {
            self.create_extension()
        } else if self.words(&["DROP", "EXTENSION"]) {
            self.drop_extension()
        } else if self.words(&["CREATE", "STREAM"]) {
            self.create_stream()
        } else if self.words(&["CREATE", "FOREIGN", "TABLE"]) {
            self.create_foreign_table()
        } else if self.words(&["CREATE", "OR", "REPLACE", "CONTINUOUS", "TRANSFORM"]) {
            self.create_transform(true)
        } else if self.words(&["CREATE", "CONTINUOUS", "TRANSFORM"]) {
            self.create_transform(false)
        } else if self.words(&["ALTER", "FOREIGN", "TABLE"]) {
            self.alter_foreign_table()
        } else if self.words(&["ALTER", "STREAM"]) {
            self.alter(true)
        } else if self.words(&["ALTER", "CONTINUOUS", "VIEW"])
            || self.words(&["ALTER", "CONTINUOUS", "TRANSFORM"])
            || self.words(&["ALTER", "VIEW"])
        {
            self.alter(false)
        } else if self.words(&["DROP", "STREAM"]) {
            self.drop(ObjectKind::Stream)
        } else if self.words(&["DROP", "FOREIGN", "TABLE"]) {
            self.drop(ObjectKind::ForeignTable)
        } else if self.words(&["DROP", "MULTI", "TENANT", "TABLE"]) {
            self.drop(ObjectKind::MultiTenantTable)
        } else if self.words(&["DROP", "CONTINUOUS", "VIEW"]) {
            self.drop(ObjectKind::ContinuousView)
        } else if self.words(&["DROP", "CONTINUOUS", "TRANSFORM"]) {
            self.drop(ObjectKind::ContinuousTransform)
        } else if self.words(&["DROP", "VIEW"]) {
            self.drop(ObjectKind::View)
        } else if self.words(&["DROP", "TABLE"]) {
            self.drop(ObjectKind::Table)
        } else if self.words(&["TRUNCATE", "CONTINUOUS", "VIEW"]) {
            Ok(Statement::TruncateContinuousView(self.names()?))
        } else if self.words(&["TRUNCATE"]) {
            self.truncate()
        } else {
            return self.table_statement();
        };
        found.map(Some)
    }

    fn create_extension(&mut self) -> Result<Statement> {
        let if_not_exists = self.words(&["IF", "NOT", "EXISTS"]);
        let name = self.name()?;
        self.word("WITH");
        // There is nothing to create, so neither where nor in which version.
        let mut seen = Vec::new();
        while !self.at_end() {
            let position = self.next_position();
            let clause = if self.word("CASCADE") {
                "cascade"
            } else if self.word("SCHEMA") {
                self.identifier()?;
                "schema"
            } else {
                self.expect_word("VERSION")?;
                self.value()?;
                "version"
            };
            if seen.contains(&clause) {
                return Err(SqlError::syntax("conflicting or redundant options").with_position(position));
            }
            seen.push(clause);
        }
        Ok(Statement::CreateExtension { if_not_exists, name })
    }

    fn drop_extension(&mut self) -> Result<Statement> {
        let if_exists = self.words(&["IF", "EXISTS"]);
        let names = self.names()?;
        if !self.word("CASCADE") {
            self.word("RESTRICT");
        }
        Ok(Statement::DropExtension { if_exists, names })
    }

    fn create_view(&mut self, continuous: bool, or_replace: bool) -> Result<Statement> {
        let if_not_exists = self.words(&["IF", "NOT", "EXISTS"]);
        let name = self.name()?;
        let columns = if self.token(&Token::LParen) { self.identifiers_to_paren()? } else { Vec::new() };
        let (mut options, output) = if self.word("WITH") { self.options()? } else { Default::default() };
        let position = self.next_position();
        if self.word("TABLESPACE") {
            options.push(ViewOption { name: "tablespace".into(), value: Some(self.identifier()?), position });
        }
        self.expect_word("AS")?;
        let (query, query_text, query_offset) = self.defining_query()?;
        Ok(Statement::CreateView(CreateView {
            continuous,
            transform: false,
            or_replace,
            if_not_exists,
            name,
            columns,
            options,
            output,
            query,
            query_text,
            query_offset,
        }))
    }

    /// The query of a view, its text, and where that begins.
    pub(super) fn defining_query(&mut self) -> Result<(Box<ast::Query>, String, usize)> {
        let start = self.next_position() - 1;
        let query = self.run(|p| p.parse_query())?;
        let end = if self.at_end() { self.end } else { self.next_position() - 1 };
        Ok((query, self.positions.slice(start, end).trim_end().to_string(), start))
    }

    pub(super) fn identifiers_to_paren(&mut self) -> Result<Vec<String>> {
        let mut names = vec![self.identifier()?];
        while self.token(&Token::Comma) {
            names.push(self.identifier()?);
        }
        self.expect(&Token::RParen)?;
        Ok(names)
    }

    /// `( name [= value], … )`, and the function that `outputfunc` calls.
    fn options(&mut self) -> Result<(Vec<ViewOption>, Option<OutputFunction>)> {
        self.expect(&Token::LParen)?;
        let (mut options, mut output) = (Vec::new(), None);
        loop {
            let position = self.next_position();
            let mut name = self.identifier()?;
            if self.token(&Token::Period) {
                if name != "pipelinedb" {
                    let message = format!("unrecognized parameter namespace \"{name}\"");
                    return Err(
                        SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message).with_position(position)
                    );
                }
                name = self.identifier()?;
            }
            let has_value = self.token(&Token::Eq);
            let value = match name == OUTPUT {
                true if has_value => {
                    output = Some(self.output_function()?);
                    None
                }
                _ if has_value => Some(self.value()?),
                _ => None,
            };
            options.push(ViewOption { name, value, position });
            if !self.token(&Token::Comma) {
                break;
            }
        }
        self.expect(&Token::RParen)?;
        Ok((options, output))
    }

    fn create_stream(&mut self) -> Result<Statement> {
        let if_not_exists = self.words(&["IF", "NOT", "EXISTS"]);
        let name = self.name()?;
        let (mut columns, mut like) = (Vec::new(), None);
        self.expect(&Token::LParen)?;
        if self.word("LIKE") {
            like = Some(self.name()?);
        } else if self.parser.peek_token().token != Token::RParen {
            columns.push(self.column()?);
            while self.token(&Token::Comma) {
                columns.push(self.column()?);
            }
        }
        self.expect(&Token::RParen)?;
        Ok(Statement::CreateStream(CreateStream { if_not_exists, name, columns, like, server: None }))
    }

    /// The name and the type of a column.
    pub(super) fn typed_column(&mut self) -> Result<Column> {
        let position = self.next_position();
        let name = self.identifier()?;
        let type_position = self.next_position();
        let data_type = self.run(|p| p.parse_data_type())?;
        let ty = column_type(&data_type).map_err(|e| e.with_position(type_position))?;
        Ok(Column { name, ty, position })
    }

    fn column(&mut self) -> Result<Column> {
        let column = self.typed_column()?;
        let constraint = self.next_position();
        if self
            .parser
            .peek_one_of_keywords(&[Keyword::NOT, Keyword::NULL, Keyword::DEFAULT, Keyword::PRIMARY])
            .is_some()
        {
            return Err(SqlError::unsupported("a column of a stream has a name and a type only")
                .with_position(constraint)
                .with_hint(
                    "Filter in the WHERE clause of a continuous view, or COALESCE to a default there.",
                ));
        }
        Ok(column)
    }

    fn alter(&mut self, stream: bool) -> Result<Statement> {
        let if_exists = self.words(&["IF", "EXISTS"]);
        let name = self.name()?;
        let action = if self.words(&["RENAME", "TO"]) {
            AlterAction::RenameTo(self.name()?)
        } else if stream && self.word("ADD") {
            self.word("COLUMN");
            let if_not_exists = self.words(&["IF", "NOT", "EXISTS"]);
            AlterAction::AddColumn { if_not_exists, column: self.column()? }
        } else {
            let next = self.parser.peek_token();
            let known = matches!(&next.token, Token::Word(w) if matches!(
                w.value.to_uppercase().as_str(), "DROP" | "ALTER" | "ADD" | "SET" | "OWNER" | "RENAME"));
            if !known {
                return Err(self.unexpected(&next));
            }
            let what = if stream { "a stream" } else { "a view" };
            let hint = if stream {
                "Columns can be added: ALTER STREAM … ADD COLUMN."
            } else {
                "Views can be renamed."
            };
            return Err(SqlError::unsupported(format!("{what} cannot be altered in this way"))
                .with_position(self.next_position())
                .with_hint(hint));
        };
        Ok(match stream {
            true => Statement::AlterStream { if_exists, name, action },
            false => Statement::AlterView { if_exists, name, action },
        })
    }

    fn drop(&mut self, kind: ObjectKind) -> Result<Statement> {
        let if_exists = self.words(&["IF", "EXISTS"]);
        let names = self.names()?;
        let cascade = self.word("CASCADE");
        if !cascade {
            self.word("RESTRICT");
        }
        Ok(Statement::Drop { kind, if_exists, names, cascade })
    }

    pub(super) fn activation(&mut self) -> Result<Statement> {
        if self.word("FLUSH") {
            return Ok(Statement::Flush);
        }
        let on = self.word("ACTIVATE");
        if !on {
            self.expect_word("DEACTIVATE")?;
        }
        // 0.9 wrote CONTINUOUS VIEW in front of the names.
        if !self.words(&["CONTINUOUS", "VIEW"]) {
            self.words(&["CONTINUOUS", "TRANSFORM"]);
        }
        let names = if self.at_end() { Vec::new() } else { self.names()? };
        Ok(if on { Statement::Activate(names) } else { Statement::Deactivate(names) })
    }
}
