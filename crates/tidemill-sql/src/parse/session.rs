//! What concerns a session: transactions, settings, prepared statements, and the like.

use sqlparser::ast;
use sqlparser::tokenizer::Token;

use super::{StatementParser, parse};
use crate::data_type::column_type;
use crate::error::{Result, SqlError};
use crate::statement::{Parsed, Statement};

/// Why nobody needs rights.
pub(super) const ONE_USER: &str = "There is one user, who owns everything.";

impl StatementParser<'_> {
    pub(super) fn session(&mut self) -> Result<Statement> {
        if self.word("BEGIN") {
            self.optional_work();
            return Ok(Statement::Begin { start: false, modes: self.transaction_modes()? });
        }
        if self.words(&["START", "TRANSACTION"]) {
            return Ok(Statement::Begin { start: true, modes: self.transaction_modes()? });
        }
        self.refused()?;
        if self.word("COMMIT") || self.word("END") {
            self.optional_work();
            return Ok(Statement::Commit { chain: self.chain() });
        }
        if self.word("ROLLBACK") || self.word("ABORT") {
            self.optional_work();
            if self.word("TO") {
                self.word("SAVEPOINT");
                return Ok(Statement::RollbackTo(self.identifier()?));
            }
            return Ok(Statement::Rollback { chain: self.chain() });
        }
        if self.word("SAVEPOINT") {
            return Ok(Statement::Savepoint(self.identifier()?));
        }
        if self.word("RELEASE") {
            self.word("SAVEPOINT");
            return Ok(Statement::Release(self.identifier()?));
        }
        if self.word("SET") {
            return self.set();
        }
        if self.words(&["ALTER", "ROLE"]) || self.words(&["ALTER", "USER"]) {
            return self.alter_role();
        }
        self.rest_of_session()
    }

    /// Statements of PostgreSQL that there is nothing for.
    fn refused(&mut self) -> Result<()> {
        const REFUSED: [(&[&str], &str); 14] = [
            (&["PREPARE", "TRANSACTION"], "There are no two-phase commits."),
            (&["COMMIT", "PREPARED"], "There are no two-phase commits."),
            (&["ROLLBACK", "PREPARED"], "There are no two-phase commits."),
            (&["LISTEN"], "Read a continuous view to learn what has changed."),
            (&["NOTIFY"], "Read a continuous view to learn what has changed."),
            (&["LOCK"], "Readers and writers do not block each other."),
            (&["CREATE", "DISTRIBUTED_FUNC"], "What aggregates of many nodes need is in docs/federation.md."),
            (&["GRANT"], ONE_USER),
            (&["REVOKE"], ONE_USER),
            (&["CREATE", "ROLE"], "There is one user, \"postgres\"."),
            (&["CREATE", "USER"], "There is one user, \"postgres\"."),
            (&["CREATE", "GROUP"], "There is one user, \"postgres\"."),
            (&["DROP", "ROLE"], "There is one user, \"postgres\"."),
            (&["DROP", "USER"], "There is one user, \"postgres\"."),
        ];
        match REFUSED.iter().find(|(words, _)| self.words(words)) {
            Some((words, hint)) => {
                Err(SqlError::unsupported(format!("{} is not supported", words.join(" ")))
                    .with_position(1)
                    .with_hint(*hint))
            }
            None => Ok(()),
        }
    }

    /// `ALTER ROLE postgres [WITH] [ENCRYPTED] PASSWORD 'text'`.
    fn alter_role(&mut self) -> Result<Statement> {
        let name = self.identifier()?;
        self.word("WITH");
        self.word("ENCRYPTED");
        if !self.word("PASSWORD") {
            return Err(SqlError::unsupported("only the password of a role can be changed")
                .with_position(self.next_position())
                .with_hint("ALTER ROLE postgres PASSWORD '…'."));
        }
        let password = if self.word("NULL") { None } else { Some(self.string()?) };
        Ok(Statement::AlterRole { name, password })
    }

    fn rest_of_session(&mut self) -> Result<Statement> {
        if self.word("RESET") {
            return Ok(Statement::Reset(self.setting_or_all()?));
        }
        if self.word("SHOW") {
            return Ok(Statement::Show(self.setting_or_all()?));
        }
        if self.word("DISCARD") {
            return Ok(Statement::Discard(self.identifier()?.to_uppercase()));
        }
        if self.word("PREPARE") {
            return self.prepare();
        }
        if self.word("EXECUTE") {
            let (name, arguments) = self.call()?;
            return Ok(Statement::Execute { name, arguments });
        }
        if self.word("DEALLOCATE") {
            self.word("PREPARE");
            return Ok(Statement::Deallocate(if self.word("ALL") { None } else { Some(self.identifier()?) }));
        }
        if self.word("UNLISTEN") {
            if !self.token(&Token::Mul) {
                self.identifier()?;
            }
            return Ok(Statement::Unlisten);
        }
        if self.word("VACUUM") {
            self.skip_to_end();
            return Ok(Statement::Vacuum);
        }
        if self.word("ANALYZE") || self.word("ANALYSE") {
            self.skip_to_end();
            return Ok(Statement::Analyze);
        }
        self.expect_word("CHECKPOINT")?;
        Ok(Statement::Checkpoint)
    }

    fn skip_to_end(&mut self) {
        while !self.at_end() {
            self.parser.next_token();
        }
    }

    fn optional_work(&mut self) {
        if !self.word("WORK") {
            self.word("TRANSACTION");
        }
    }

    fn chain(&mut self) -> bool {
        if self.words(&["AND", "NO", "CHAIN"]) {
            return false;
        }
        self.words(&["AND", "CHAIN"])
    }

    /// `ISOLATION LEVEL …`, `READ ONLY`, `DEFERRABLE`, as settings and values.
    fn transaction_modes(&mut self) -> Result<Vec<(String, String)>> {
        let mut modes = Vec::new();
        while !self.at_end() {
            let mode = if self.words(&["ISOLATION", "LEVEL"]) {
                let level = ["SERIALIZABLE", "REPEATABLE READ", "READ COMMITTED", "READ UNCOMMITTED"]
                    .into_iter()
                    .find(|level| self.words(&level.split(' ').collect::<Vec<_>>()))
                    .ok_or_else(|| self.unexpected_next())?;
                ("transaction_isolation", level.to_lowercase())
            } else if self.words(&["READ", "ONLY"]) {
                ("transaction_read_only", "on".into())
            } else if self.words(&["READ", "WRITE"]) {
                ("transaction_read_only", "off".into())
            } else if self.words(&["NOT", "DEFERRABLE"]) {
                ("transaction_deferrable", "off".into())
            } else if self.word("DEFERRABLE") {
                ("transaction_deferrable", "on".into())
            } else {
                return Err(self.unexpected_next());
            };
            modes.push((mode.0.to_string(), mode.1));
            self.token(&Token::Comma);
        }
        Ok(modes)
    }

    fn set(&mut self) -> Result<Statement> {
        if self.words(&["SESSION", "CHARACTERISTICS", "AS", "TRANSACTION"]) {
            return Ok(Statement::SetTransaction { session: true, modes: self.transaction_modes()? });
        }
        let local = self.word("LOCAL");
        if !local {
            self.word("SESSION");
        }
        if self.word("TRANSACTION") {
            return Ok(Statement::SetTransaction { session: false, modes: self.transaction_modes()? });
        }
        if self.words(&["TIME", "ZONE"]) {
            let value = if self.word("LOCAL") || self.word("DEFAULT") {
                None
            } else if self.word("INTERVAL") {
                Some(vec![self.string()?])
            } else {
                Some(vec![self.value()?])
            };
            return Ok(Statement::Set { local, name: "TimeZone".into(), value });
        }
        if self.word("NAMES") {
            let value = if self.at_end() || self.word("DEFAULT") { None } else { Some(vec![self.value()?]) };
            return Ok(Statement::Set { local, name: "client_encoding".into(), value });
        }
        if self.words(&["SESSION", "AUTHORIZATION"]) || self.word("AUTHORIZATION") || self.word("ROLE") {
            return Err(SqlError::unsupported("there is one user: roles cannot be changed").with_position(1));
        }
        let name = self.setting()?;
        if !self.token(&Token::Eq) {
            self.expect_word("TO")?;
        }
        if self.word("DEFAULT") {
            return Ok(Statement::Set { local, name, value: None });
        }
        let mut values = vec![self.value()?];
        while self.token(&Token::Comma) {
            values.push(self.value()?);
        }
        Ok(Statement::Set { local, name, value: Some(values) })
    }

    fn setting(&mut self) -> Result<String> {
        let mut name = self.identifier()?;
        while self.token(&Token::Period) {
            name = format!("{name}.{}", self.identifier()?);
        }
        Ok(name)
    }

    fn setting_or_all(&mut self) -> Result<Option<String>> {
        if self.word("ALL") {
            return Ok(None);
        }
        if self.words(&["TIME", "ZONE"]) {
            return Ok(Some("TimeZone".into()));
        }
        if self.words(&["TRANSACTION", "ISOLATION", "LEVEL"]) {
            return Ok(Some("transaction_isolation".into()));
        }
        if self.words(&["SESSION", "AUTHORIZATION"]) {
            return Ok(Some("session_authorization".into()));
        }
        self.setting().map(Some)
    }

    /// `name (expressions)` of a prepared statement, behind EXECUTE.
    pub(super) fn call(&mut self) -> Result<(String, Vec<ast::Expr>)> {
        let name = self.identifier()?;
        let mut arguments = Vec::new();
        if self.token(&Token::LParen) && !self.token(&Token::RParen) {
            arguments = self.run(|p| p.parse_comma_separated(|p| p.parse_expr()))?;
            self.expect(&Token::RParen)?;
        }
        Ok((name, arguments))
    }

    fn prepare(&mut self) -> Result<Statement> {
        let name = self.identifier()?;
        let mut types = Vec::new();
        if self.token(&Token::LParen) {
            loop {
                let position = self.next_position();
                let data_type = self.run(|p| p.parse_data_type())?;
                types.push(column_type(&data_type).map_err(|e| e.with_position(position))?);
                if !self.token(&Token::Comma) {
                    break;
                }
            }
            self.expect(&Token::RParen)?;
        }
        self.expect_word("AS")?;
        let start = self.next_position() - 1;
        let text = self.positions.slice(start, self.end);
        self.skip_to_end();
        let moved = |e: SqlError| match e.position {
            Some(p) => e.with_position(p + start),
            None => e,
        };
        let mut inner = parse(text).map_err(moved)?;
        let Some(Parsed { statement, text, offset }) = inner.pop() else {
            return Err(SqlError::syntax("syntax error at end of input").with_position(self.end + 1));
        };
        if !matches!(statement, Statement::Sql(_)) {
            return Err(SqlError::syntax(format!(
                "syntax error at or near \"{}\"",
                text.split_whitespace().next().unwrap_or_default()
            ))
            .with_position(start + offset + 1));
        }
        Ok(Statement::Prepare {
            name,
            types,
            statement: Box::new(Parsed { statement, text, offset: start + offset }),
        })
    }
}
