//! Continuous transforms: CREATE, and the function that takes the rows.

use sqlparser::tokenizer::Token;

use super::StatementParser;
use crate::error::Result;
use crate::function::identifiers;
use crate::name::of_parts;
use crate::statement::{CreateView, OutputFunction, Statement};

/// The option of a view that calls the function.
pub(super) const OUTPUT: &str = "outputfunc";

impl StatementParser<'_> {
    /// `name AS query [THEN EXECUTE PROCEDURE function(arguments)]`
    pub(super) fn create_transform(&mut self, or_replace: bool) -> Result<Statement> {
        let if_not_exists = self.words(&["IF", "NOT", "EXISTS"]);
        let name = self.name()?;
        self.expect_word("AS")?;
        let (query, query_text, query_offset) = self.defining_query()?;
        let output = match self.word("THEN") {
            true => {
                self.expect_word("EXECUTE")?;
                if !self.word("FUNCTION") {
                    self.expect_word("PROCEDURE")?;
                }
                Some(self.output_function()?)
            }
            false => None,
        };
        Ok(Statement::CreateView(CreateView {
            continuous: true,
            transform: true,
            or_replace,
            if_not_exists,
            name,
            columns: Vec::new(),
            options: Vec::new(),
            output,
            query,
            query_text,
            query_offset,
        }))
    }

    /// `f('a', 'b')`: what takes a transform's rows, and where to.
    pub(super) fn output_function(&mut self) -> Result<OutputFunction> {
        let name = self.name()?;
        self.expect(&Token::LParen)?;
        let mut arguments = Vec::new();
        if !self.token(&Token::RParen) {
            loop {
                let position = self.next_position();
                let parts = identifiers(&self.value()?).map_err(|e| e.with_position(position))?;
                arguments.push(of_parts(&parts, position)?);
                if !self.token(&Token::Comma) {
                    break;
                }
            }
            self.expect(&Token::RParen)?;
        }
        Ok(OutputFunction { name, arguments })
    }
}
