//! Plain tables: CREATE TABLE, CREATE TABLE AS, TRUNCATE.

use sqlparser::dialect::{Dialect, Precedence};
use sqlparser::tokenizer::Token;

use super::StatementParser;
use super::dialect::POSTGRESQL;
use crate::error::{Result, SqlError};
use crate::statement::{ColumnDefault, CreateTable, CreateTableAs, Statement, TableColumn, Truncate};

/// What PostgreSQL has between CREATE and TABLE.
const KINDS: [&str; 5] = ["TEMP", "TEMPORARY", "UNLOGGED", "LOCAL", "GLOBAL"];
/// What may begin a constraint of a table, or something else that is no column.
const TABLE_CONSTRAINTS: [&str; 6] = ["CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK", "FOREIGN", "LIKE"];
/// What a column may have that is not enforced here.
const COLUMN_CONSTRAINTS: [&str; 11] = [
    "PRIMARY",
    "UNIQUE",
    "CHECK",
    "REFERENCES",
    "GENERATED",
    "COLLATE",
    "STORAGE",
    "COMPRESSION",
    "DEFERRABLE",
    "INITIALLY",
    "OPTIONS",
];
/// What may follow the columns.
const TABLE_OPTIONS: [&str; 7] = ["INHERITS", "PARTITION", "USING", "WITH", "WITHOUT", "ON", "TABLESPACE"];

impl StatementParser<'_> {
    /// CREATE TABLE in its forms, or `None` and nothing taken.
    pub(super) fn table_statement(&mut self) -> Result<Option<Statement>> {
        let kinds = (1..3).take_while(|i| KINDS.iter().any(|kind| self.is_word(*i, kind))).count();
        if !self.is_word(0, "CREATE") || !self.is_word(1 + kinds, "TABLE") {
            return Ok(None);
        }
        self.word("CREATE");
        if kinds > 0 {
            return Err(SqlError::unsupported("temporary and unlogged tables are not supported")
                .with_position(self.next_position())
                .with_hint("CREATE TABLE makes a table that lasts; DROP TABLE takes it away."));
        }
        self.word("TABLE");
        self.create_table().map(Some)
    }

    fn is_word(&self, place: usize, expected: &str) -> bool {
        matches!(&self.parser.peek_nth_token(place).token,
            Token::Word(w) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(expected))
    }

    fn create_table(&mut self) -> Result<Statement> {
        let if_not_exists = self.words(&["IF", "NOT", "EXISTS"]);
        let name = self.name()?;
        if !self.names_columns() {
            let columns = if self.token(&Token::LParen) { self.identifiers_to_paren()? } else { Vec::new() };
            self.refuse_options()?;
            self.expect_word("AS")?;
            let query = self.run(|p| p.parse_query())?;
            let with_data = !self.words(&["WITH", "NO", "DATA"]);
            if with_data {
                self.words(&["WITH", "DATA"]);
            }
            let create = CreateTableAs { if_not_exists, name, columns, query, with_data };
            return Ok(Statement::CreateTableAs(create));
        }
        self.expect(&Token::LParen)?;
        if self.token(&Token::RParen) {
            return Err(SqlError::unsupported("a table without columns is not supported")
                .with_position(name.position)
                .with_hint("Name its columns and their types in parentheses."));
        }
        let mut columns = vec![self.table_column(&name.name)?];
        while self.token(&Token::Comma) {
            columns.push(self.table_column(&name.name)?);
        }
        self.expect(&Token::RParen)?;
        self.refuse_options()?;
        Ok(Statement::CreateTable(CreateTable { if_not_exists, name, columns }))
    }

    /// Whether a list of columns with types follows, as opposed to nothing or to the names of a query's columns.
    fn names_columns(&self) -> bool {
        let is = |place, token: &Token| self.parser.peek_nth_token(place).token == *token;
        match self.parser.peek_token().token {
            Token::LParen => !is(2, &Token::Comma) && !is(2, &Token::RParen),
            // OF and PARTITION OF are refused with the options, and what is nonsense is found there.
            _ => !["AS", "OF", "PARTITION"].iter().chain(&TABLE_OPTIONS).any(|word| self.is_word(0, word)),
        }
    }

    fn refuse_options(&mut self) -> Result<()> {
        let option = TABLE_OPTIONS.iter().chain(&["OF"]).find(|word| self.is_word(0, word));
        match option {
            None => Ok(()),
            Some(option) => Err(SqlError::unsupported(format!("{option} of a table is not supported"))
                .with_position(self.next_position())
                .with_hint("A table has columns with types, NOT NULL and DEFAULT.")),
        }
    }

    fn table_column(&mut self, table: &str) -> Result<TableColumn> {
        let begins = |word: &&&str| self.is_word(0, word);
        if let Some(word) = TABLE_CONSTRAINTS.iter().find(begins) {
            let constraint = match *word {
                "PRIMARY" | "FOREIGN" => format!("{word} KEY"),
                word => word.to_string(),
            };
            return Err(self.not_enforced(&constraint));
        }
        let column = self.typed_column()?;
        let (mut nullable, mut default) = (None, None);
        loop {
            let position = self.next_position();
            if self.is_word(0, "CONSTRAINT") {
                // As in PostgreSQL, the name of a NOT NULL is of no use.
                self.word("CONSTRAINT");
                self.identifier()?;
                if !["NOT", "NULL", "DEFAULT"].iter().any(|word| self.is_word(0, word)) {
                    return Err(self.column_end());
                }
                continue;
            }
            let null = if self.words(&["NOT", "NULL"]) {
                false
            } else if self.word("NULL") {
                true
            } else if self.word("DEFAULT") {
                if default.is_some() {
                    let what = "multiple default values specified for";
                    return Err(twice(what, &column.name, table).with_position(position));
                }
                default = Some(self.default()?);
                continue;
            } else if self.at_column_end() {
                return Ok(TableColumn { column, not_null: nullable == Some(false), default });
            } else {
                return Err(self.column_end());
            };
            if nullable.replace(null).is_some_and(|before| before != null) {
                let what = "conflicting NULL/NOT NULL declarations for";
                return Err(twice(what, &column.name, table).with_position(position));
            }
        }
    }

    fn default(&mut self) -> Result<ColumnDefault> {
        let position = self.next_position();
        // PostgreSQL's b_expr: what binds less than a comparison needs parentheses, so that NOT NULL can follow.
        self.run(|p| p.parse_subexpr(POSTGRESQL.prec_value(Precedence::Is)))?;
        let text = self.positions.slice(position - 1, self.next_position() - 1).trim_end().to_string();
        Ok(ColumnDefault { text, position })
    }

    fn at_column_end(&self) -> bool {
        matches!(self.parser.peek_token().token, Token::Comma | Token::RParen)
    }

    /// The error for what stands where a column has ended.
    fn column_end(&self) -> SqlError {
        match COLUMN_CONSTRAINTS.iter().find(|word| self.is_word(0, word)) {
            Some(&"PRIMARY") => self.not_enforced("PRIMARY KEY"),
            Some(word) => self.not_enforced(word),
            None => self.unexpected_next(),
        }
    }

    fn not_enforced(&self, constraint: &str) -> SqlError {
        SqlError::unsupported(format!("{constraint} is not supported"))
            .with_position(self.next_position())
            .with_hint("Columns of a table can have NOT NULL and DEFAULT.")
    }

    pub(super) fn truncate(&mut self) -> Result<Statement> {
        self.word("TABLE");
        let mut names = Vec::new();
        loop {
            self.word("ONLY");
            names.push(self.name()?);
            self.token(&Token::Mul);
            if !self.token(&Token::Comma) {
                break;
            }
        }
        // There are no sequences to restart here and no references to follow, but where foreign tables are.
        let restarts = self.words(&["RESTART", "IDENTITY"]);
        if !restarts {
            self.words(&["CONTINUE", "IDENTITY"]);
        }
        let cascades = self.word("CASCADE");
        if !cascades {
            self.word("RESTRICT");
        }
        Ok(Statement::Truncate(Truncate { names, restarts, cascades }))
    }
}

fn twice(what: &str, column: &str, table: &str) -> SqlError {
    SqlError::syntax(format!("{what} column \"{column}\" of table \"{table}\""))
}
