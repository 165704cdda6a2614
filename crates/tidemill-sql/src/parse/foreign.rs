//! Foreign servers, user mappings, foreign tables, IMPORT FOREIGN SCHEMA.

mod alter;

use sqlparser::tokenizer::Token;

use super::StatementParser;
use crate::error::{Result, SqlError};
use crate::statement::{
    AlterAction, Child, Column, CreateForeignTable, CreateMultiTenant, CreateServer, CreateStream,
    ForeignColumn, ForeignOption, ForeignStatement, ForeignTableAction, ImportSchema, ImportSelection,
    MappedUser, Name, OptionChange, Statement,
};

/// Foreign tables of this server are streams, as in PipelineDB 1.x.
const STREAM_SERVER: &str = "pipelinedb";

impl StatementParser<'_> {
    /// A statement about servers and what belongs to them, or `None` and nothing taken.
    pub(super) fn foreign_statement(&mut self) -> Result<Option<Statement>> {
        let found = if self.words(&["CREATE", "SERVER"]) {
            self.create_server()
        } else if self.words(&["ALTER", "SERVER"]) {
            self.alter_server()
        } else if self.words(&["DROP", "SERVER"]) {
            self.drop_servers()
        } else if self.words(&["CREATE", "USER", "MAPPING"]) {
            self.create_user_mapping()
        } else if self.words(&["ALTER", "USER", "MAPPING"]) {
            self.alter_user_mapping()
        } else if self.words(&["DROP", "USER", "MAPPING"]) {
            self.drop_user_mapping()
        } else if self.words(&["CREATE", "MULTI", "TENANT", "TABLE"]) {
            self.create_multi_tenant()
        } else if self.words(&["IMPORT", "FOREIGN", "SCHEMA"]) {
            self.import_schema()
        } else {
            return Ok(None);
        };
        found.map(|statement| Some(Statement::Foreign(statement)))
    }

    fn create_server(&mut self) -> Result<ForeignStatement> {
        let if_not_exists = self.words(&["IF", "NOT", "EXISTS"]);
        let name = self.identifier()?;
        let kind = if self.word("TYPE") { Some(self.string()?) } else { None };
        let version = self.version()?;
        for word in ["FOREIGN", "DATA", "WRAPPER"] {
            self.expect_word(word)?;
        }
        let wrapper = self.identifier()?;
        let options = self.foreign_options()?;
        Ok(ForeignStatement::CreateServer(CreateServer {
            if_not_exists,
            name,
            kind,
            version,
            wrapper,
            options,
        }))
    }

    fn version(&mut self) -> Result<Option<String>> {
        if self.word("VERSION") { self.string().map(Some) } else { Ok(None) }
    }

    fn alter_server(&mut self) -> Result<ForeignStatement> {
        let name = self.identifier()?;
        if self.words(&["RENAME", "TO"]) {
            return Ok(ForeignStatement::RenameServer { name, to: self.identifier()? });
        }
        self.refuse_owner("a server")?;
        let version = self.version()?;
        let options = self.option_changes()?;
        if version.is_none() && options.is_empty() {
            return Err(self.unexpected_next());
        }
        Ok(ForeignStatement::AlterServer { name, version, options })
    }

    fn drop_servers(&mut self) -> Result<ForeignStatement> {
        let if_exists = self.words(&["IF", "EXISTS"]);
        let mut names = vec![self.identifier()?];
        while self.token(&Token::Comma) {
            names.push(self.identifier()?);
        }
        let cascade = self.cascade();
        Ok(ForeignStatement::DropServers { if_exists, names, cascade })
    }

    fn cascade(&mut self) -> bool {
        let cascade = self.word("CASCADE");
        if !cascade {
            self.word("RESTRICT");
        }
        cascade
    }

    fn create_user_mapping(&mut self) -> Result<ForeignStatement> {
        let if_not_exists = self.words(&["IF", "NOT", "EXISTS"]);
        let (user, server) = self.mapping()?;
        let options = self.foreign_options()?;
        Ok(ForeignStatement::CreateUserMapping { if_not_exists, user, server, options })
    }

    fn alter_user_mapping(&mut self) -> Result<ForeignStatement> {
        let (user, server) = self.mapping()?;
        let options = self.option_changes()?;
        if options.is_empty() {
            return Err(self.unexpected_next());
        }
        Ok(ForeignStatement::AlterUserMapping { user, server, options })
    }

    fn drop_user_mapping(&mut self) -> Result<ForeignStatement> {
        let if_exists = self.words(&["IF", "EXISTS"]);
        let (user, server) = self.mapping()?;
        Ok(ForeignStatement::DropUserMapping { if_exists, user, server })
    }

    /// `FOR user SERVER name`
    fn mapping(&mut self) -> Result<(MappedUser, String)> {
        self.expect_word("FOR")?;
        let current = ["CURRENT_USER", "CURRENT_ROLE", "SESSION_USER", "USER"];
        let user = if current.iter().any(|word| self.word(word)) {
            MappedUser::Current
        } else if self.word("PUBLIC") {
            MappedUser::Public
        } else {
            MappedUser::Named(self.identifier()?)
        };
        self.expect_word("SERVER")?;
        Ok((user, self.identifier()?))
    }

    fn import_schema(&mut self) -> Result<ForeignStatement> {
        let remote = self.identifier()?;
        let selection = if self.words(&["LIMIT", "TO"]) {
            self.expect(&Token::LParen)?;
            ImportSelection::LimitTo(self.identifiers_to_paren()?)
        } else if self.word("EXCEPT") {
            self.expect(&Token::LParen)?;
            ImportSelection::Except(self.identifiers_to_paren()?)
        } else {
            ImportSelection::All
        };
        self.expect_word("FROM")?;
        self.expect_word("SERVER")?;
        let server = self.identifier()?;
        self.expect_word("INTO")?;
        let into = self.identifier()?;
        let options = self.foreign_options()?;
        Ok(ForeignStatement::ImportSchema(ImportSchema { remote, selection, server, into, options }))
    }

    /// The rest of `CREATE FOREIGN TABLE`: a stream, if the server is the one of streams.
    pub(super) fn create_foreign_table(&mut self) -> Result<Statement> {
        let if_not_exists = self.words(&["IF", "NOT", "EXISTS"]);
        let name = self.name()?;
        self.expect(&Token::LParen)?;
        let (mut columns, mut like) = (Vec::new(), None);
        let first = self.next_position();
        if self.word("LIKE") {
            like = Some(self.name()?);
        } else if self.parser.peek_token().token != Token::RParen {
            columns.push(self.foreign_column()?);
            while self.token(&Token::Comma) {
                columns.push(self.foreign_column()?);
            }
        }
        self.expect(&Token::RParen)?;
        self.expect_word("SERVER")?;
        let server = self.identifier()?;
        let position = self.next_position();
        let options = self.foreign_options()?;
        if server == STREAM_SERVER {
            if !options.is_empty() {
                let error = SqlError::unsupported("OPTIONS of a stream are not supported");
                return Err(error.with_position(position));
            }
            let columns = columns.into_iter().map(plain).collect::<Result<_>>()?;
            let create = CreateStream { if_not_exists, name, columns, like, server: Some(server) };
            return Ok(Statement::CreateStream(create));
        }
        if like.is_some() {
            return Err(SqlError::unsupported("LIKE is not supported for a foreign table")
                .with_position(first)
                .with_hint("IMPORT FOREIGN SCHEMA takes the columns from the server."));
        }
        let create = CreateForeignTable { if_not_exists, name, columns, server, options };
        Ok(Statement::Foreign(ForeignStatement::CreateTable(create)))
    }

    fn create_multi_tenant(&mut self) -> Result<ForeignStatement> {
        let if_not_exists = self.words(&["IF", "NOT", "EXISTS"]);
        let name = self.name()?;
        self.expect(&Token::LParen)?;
        let mut columns = vec![self.foreign_column()?];
        while self.token(&Token::Comma) {
            columns.push(self.foreign_column()?);
        }
        self.expect(&Token::RParen)?;
        self.expect_word("CHILDREN")?;
        self.expect(&Token::LParen)?;
        let mut children = vec![self.child()?];
        while self.token(&Token::Comma) {
            children.push(self.child()?);
        }
        self.expect(&Token::RParen)?;
        Ok(ForeignStatement::CreateMultiTenant(CreateMultiTenant { if_not_exists, name, columns, children }))
    }

    fn child(&mut self) -> Result<Child> {
        let position = self.next_position();
        let server = self.identifier()?;
        self.expect(&Token::Period)?;
        let table = self.identifier()?;
        let (schema, table) = match self.token(&Token::Period) {
            true => (Some(table), self.identifier()?),
            false => (None, table),
        };
        Ok(Child { server, schema, table, options: self.foreign_options()?, position })
    }

    /// `name type [OPTIONS (…)] [NOT NULL | NULL]`
    fn foreign_column(&mut self) -> Result<ForeignColumn> {
        let column = self.typed_column()?;
        let options = self.foreign_options()?;
        let position = self.next_position();
        let not_null = self.words(&["NOT", "NULL"]);
        if !not_null && !self.word("NULL") && self.is_constraint() {
            return Err(SqlError::unsupported(
                "a column of a foreign table has a name, a type, OPTIONS and NOT NULL",
            )
            .with_position(position)
            .with_hint("The server that has the table enforces what else there is, and makes the values of its generated columns."));
        }
        Ok(ForeignColumn { column, not_null, options })
    }

    fn is_constraint(&self) -> bool {
        let words = ["DEFAULT", "PRIMARY", "UNIQUE", "CHECK", "REFERENCES", "COLLATE", "GENERATED"];
        matches!(&self.parser.peek_token().token,
            Token::Word(word) if words.iter().any(|known| word.value.eq_ignore_ascii_case(known)))
    }

    /// `OPTIONS (name 'value', …)`, if they are there.
    pub(super) fn foreign_options(&mut self) -> Result<Vec<ForeignOption>> {
        let mut options = Vec::new();
        if !self.word("OPTIONS") {
            return Ok(options);
        }
        self.expect(&Token::LParen)?;
        loop {
            options.push(self.foreign_option()?);
            if !self.token(&Token::Comma) {
                break;
            }
        }
        self.expect(&Token::RParen)?;
        Ok(options)
    }

    fn foreign_option(&mut self) -> Result<ForeignOption> {
        Ok(ForeignOption { name: self.identifier()?, value: self.string()? })
    }

    /// `OPTIONS ([ADD | SET | DROP] name ['value'], …)`, if they are there.
    fn option_changes(&mut self) -> Result<Vec<OptionChange>> {
        let mut changes = Vec::new();
        if !self.word("OPTIONS") {
            return Ok(changes);
        }
        self.expect(&Token::LParen)?;
        loop {
            // Each of the words can be the name of an option.
            let named = !matches!(
                self.parser.peek_nth_token(1).token,
                Token::SingleQuotedString(_) | Token::EscapedStringLiteral(_) | Token::DollarQuotedString(_)
            );
            changes.push(if named && self.word("SET") {
                OptionChange::Set(self.foreign_option()?)
            } else if named && self.word("DROP") {
                OptionChange::Drop(self.identifier()?)
            } else {
                if named {
                    self.word("ADD");
                }
                OptionChange::Add(self.foreign_option()?)
            });
            if !self.token(&Token::Comma) {
                break;
            }
        }
        self.expect(&Token::RParen)?;
        Ok(changes)
    }
}

/// A column of a stream, which has a name and a type.
fn plain(column: ForeignColumn) -> Result<Column> {
    if column.not_null || !column.options.is_empty() {
        return Err(stream_column(column.column.position));
    }
    Ok(column.column)
}

fn stream_column(position: usize) -> SqlError {
    SqlError::unsupported("a column of a stream has a name and a type only")
        .with_position(position)
        .with_hint("Filter in the WHERE clause of a continuous view, or COALESCE to a default there.")
}

/// The same change of a stream, which `ALTER FOREIGN TABLE` may name.
pub fn of_stream(name: &Name, if_exists: bool, actions: &[ForeignTableAction]) -> Result<Statement> {
    let action = match actions {
        [ForeignTableAction::RenameTo(to)] => AlterAction::RenameTo(to.clone()),
        [ForeignTableAction::AddColumn { if_not_exists, column }] => {
            AlterAction::AddColumn { if_not_exists: *if_not_exists, column: plain(column.clone())? }
        }
        _ => {
            return Err(SqlError::unsupported("a stream cannot be altered in this way")
                .with_position(name.position)
                .with_hint("Columns can be added: ALTER STREAM … ADD COLUMN."));
        }
    };
    Ok(Statement::AlterStream { if_exists, name: name.clone(), action })
}
