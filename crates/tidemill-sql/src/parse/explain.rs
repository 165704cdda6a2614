//! EXPLAIN of a query, of what writes rows, of a prepared one of them, or of a continuous view.

use sqlparser::ast;
use sqlparser::tokenizer::Token;

use super::StatementParser;
use crate::error::{Result, SqlError, SqlState};
use crate::statement::{ExplainOptions, Statement};

impl StatementParser<'_> {
    pub(super) fn explain(&mut self) -> Result<Statement> {
        self.expect_word("EXPLAIN")?;
        let position = self.next_position();
        let mut options = ExplainOptions::default();
        if self.token(&Token::LParen) {
            self.explain_options(&mut options)?;
        } else {
            options.analyze = self.word("ANALYZE") || self.word("ANALYSE");
            options.verbose = self.word("VERBOSE");
        }
        if self.words(&["CONTINUOUS", "VIEW"]) {
            if options.analyze {
                return Err(SqlError::unsupported("a continuous view is not carried out by EXPLAIN ANALYZE")
                    .with_position(position)
                    .with_hint(
                        "EXPLAIN CONTINUOUS VIEW shows what it has done; EXPLAIN ANALYZE is of queries.",
                    ));
            }
            let verbose = self.word("VERBOSE") || options.verbose;
            return Ok(Statement::ExplainContinuousView { verbose, name: self.name()? });
        }
        if self.word("EXECUTE") {
            let (name, arguments) = self.call()?;
            return Ok(Statement::ExplainExecute { options, name, arguments });
        }
        let position = self.next_position();
        match self.run(|p| p.parse_statement())? {
            statement @ (ast::Statement::Query(_)
            | ast::Statement::Insert(_)
            | ast::Statement::Update(_)
            | ast::Statement::Delete(_)) => {
                Ok(Statement::Explain { options, statement: Box::new(statement) })
            }
            other => {
                let text = other.to_string();
                let word = text.split_whitespace().next().unwrap_or_default().to_uppercase();
                Err(SqlError::unsupported(format!("EXPLAIN of {word} is not supported"))
                    .with_position(position)
                    .with_hint("Explain the query that it contains."))
            }
        }
    }

    /// `( option [value], … )`, the parenthesis taken.
    fn explain_options(&mut self, options: &mut ExplainOptions) -> Result<()> {
        let (mut timing, mut summary) = (None, None);
        loop {
            let position = self.next_position();
            let name = self.identifier()?.to_lowercase();
            match name.as_str() {
                "analyze" | "analyse" => options.analyze = self.explain_flag("analyze")?,
                "verbose" => options.verbose = self.explain_flag("verbose")?,
                "costs" => options.costs = self.explain_flag("costs")?,
                "summary" => summary = Some(self.explain_flag("summary")?),
                "timing" => timing = Some(self.explain_flag("timing")?),
                "format" => self.explain_format(position)?,
                "buffers" | "wal" | "settings" => {
                    if self.explain_flag(&name)? {
                        let message = format!("EXPLAIN option \"{name}\" is not supported");
                        return Err(SqlError::unsupported(message).with_position(position));
                    }
                }
                _ => {
                    let message = format!("unrecognized EXPLAIN option \"{name}\"");
                    return Err(SqlError::syntax(message).with_position(position));
                }
            }
            if !self.token(&Token::Comma) {
                break;
            }
        }
        self.expect(&Token::RParen)?;
        if timing == Some(true) && !options.analyze {
            let message = "EXPLAIN option TIMING requires ANALYZE";
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
        options.timing = timing.unwrap_or(true);
        options.summary = summary;
        Ok(())
    }

    /// As PostgreSQL: of a value that is none the place is not told.
    fn explain_flag(&mut self, option: &str) -> Result<bool> {
        self.boolean(option).map_err(|mut error| {
            error.position = None;
            error
        })
    }

    fn explain_format(&mut self, position: usize) -> Result<()> {
        let value = self.value()?.to_lowercase();
        match value.as_str() {
            "text" => Ok(()),
            "json" | "xml" | "yaml" => {
                Err(SqlError::unsupported(format!("EXPLAIN format \"{value}\" is not supported"))
                    .with_position(position))
            }
            _ => {
                let message = format!("unrecognized value for EXPLAIN option \"format\": \"{value}\"");
                Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message).with_position(position))
            }
        }
    }
}
