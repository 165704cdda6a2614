//! Cursors: DECLARE, FETCH, MOVE, CLOSE.

use sqlparser::tokenizer::Token;

use super::StatementParser;
use crate::error::Result;
use crate::statement::{DeclareCursor, FetchDirection, Statement};

impl StatementParser<'_> {
    pub(super) fn cursor(&mut self) -> Result<Statement> {
        if self.word("DECLARE") {
            return self.declare();
        }
        if self.word("CLOSE") {
            return Ok(Statement::Close(if self.word("ALL") { None } else { Some(self.identifier()?) }));
        }
        let is_move = self.word("MOVE");
        if !is_move {
            self.expect_word("FETCH")?;
        }
        let direction = self.direction()?;
        if !self.word("FROM") {
            self.word("IN");
        }
        Ok(Statement::Fetch { cursor: self.identifier()?, direction, is_move })
    }

    fn declare(&mut self) -> Result<Statement> {
        let name = self.identifier()?;
        let (mut binary, mut scroll, mut hold) = (false, false, false);
        loop {
            if self.word("BINARY") {
                binary = true;
            } else if self.words(&["NO", "SCROLL"]) {
                scroll = false;
            } else if self.word("SCROLL") {
                scroll = true;
            } else if !self.word("INSENSITIVE") && !self.word("ASENSITIVE") {
                break;
            }
        }
        self.expect_word("CURSOR")?;
        if self.words(&["WITH", "HOLD"]) {
            hold = true;
        } else {
            self.words(&["WITHOUT", "HOLD"]);
        }
        self.expect_word("FOR")?;
        let query = self.run(|p| p.parse_query())?;
        Ok(Statement::DeclareCursor(DeclareCursor { name, binary, scroll, hold, query }))
    }

    fn direction(&mut self) -> Result<FetchDirection> {
        let is_number = |t: Token| matches!(t, Token::Number(..) | Token::Minus | Token::Plus);
        if self.word("NEXT") {
            return Ok(FetchDirection::Forward(1));
        }
        if self.word("PRIOR") {
            return Ok(FetchDirection::Forward(-1));
        }
        if self.word("FIRST") {
            return Ok(FetchDirection::First);
        }
        if self.word("LAST") {
            return Ok(FetchDirection::Last);
        }
        if self.word("ABSOLUTE") {
            return Ok(FetchDirection::Absolute(self.integer()?));
        }
        if self.word("RELATIVE") {
            return Ok(FetchDirection::Relative(self.integer()?));
        }
        if self.word("ALL") {
            return Ok(FetchDirection::ForwardAll);
        }
        for (word, all, sign) in
            [("FORWARD", FetchDirection::ForwardAll, 1), ("BACKWARD", FetchDirection::BackwardAll, -1)]
        {
            if self.word(word) {
                if self.word("ALL") {
                    return Ok(all);
                }
                let count = if is_number(self.parser.peek_token().token) { self.integer()? } else { 1 };
                return Ok(FetchDirection::Forward(sign * count));
            }
        }
        let count = if is_number(self.parser.peek_token().token) { self.integer()? } else { 1 };
        Ok(FetchDirection::Forward(count))
    }
}
