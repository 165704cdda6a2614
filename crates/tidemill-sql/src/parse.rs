//! Text to statements.
//!
//! The text is tokenised once and cut at semicolons. A statement that begins with words of ours is parsed here, on the
//! parser's tokens; everything else is handed to the parser untouched.

mod between;
mod collate;
mod comment;
mod conflict;
mod copy;
mod cursor;
mod dialect;
mod explain;
pub mod foreign;
mod grouping;
mod in_list;
mod migrate;
mod node;
mod operator;
mod position;
mod refused;
mod session;
mod stream;
mod table;
mod table_command;
mod token;
mod transform;
mod values;

use sqlparser::ast;
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};
use sqlparser::tokenizer::{Location, Span, Token, TokenWithSpan};

use crate::error::{Result, SqlError, SqlState};
use crate::name;
use crate::statement::{Name, Parsed, Statement};
use crate::types::Type;
use dialect::Bounded;
use position::Positions;

/// Longest text of a query string, in bytes.
pub const TEXT_BYTES_MAX: usize = 64 << 20;
/// Depth of nested expressions and subqueries.
const NESTING_MAX: usize = 128;

/// Parses all statements of a string; empty ones vanish.
pub fn parse(sql: &str) -> Result<Vec<Parsed>> {
    if sql.len() > TEXT_BYTES_MAX {
        return Err(SqlError::new(
            SqlState::PROGRAM_LIMIT_EXCEEDED,
            format!("query text of {} bytes exceeds the limit of {TEXT_BYTES_MAX} bytes", sql.len()),
        )
        .with_hint("Use COPY to send much data."));
    }
    if sql.contains('\0') {
        return Err(SqlError::new(
            SqlState::CHARACTER_NOT_IN_REPERTOIRE,
            "invalid byte sequence for encoding \"UTF8\": 0x00",
        ));
    }
    let positions = Positions::new(sql);
    let tokens = operator::tokens(sql, &positions)?;
    let mut statements = Vec::new();
    for part in tokens.split(|t| t.token == Token::SemiColon) {
        let is_code = |t: &TokenWithSpan| !matches!(t.token, Token::Whitespace(_) | Token::EOF);
        let (Some(first), Some(last)) = (part.iter().position(is_code), part.iter().rposition(is_code))
        else {
            continue;
        };
        let part = &part[first..=last];
        let start = positions.char_at(part[0].span.start);
        refused::check(part, &positions)?;
        let part = collate::with_collations_first(token::scanned(part, &positions)?);
        let part = node::without_node_filters(conflict::with_conflict_told(part));
        let part = table_command::without_table_commands(grouping::with_items_enclosed(part));
        let dialect = Bounded::of(part.len());
        let parser = StatementParser::new(&positions, &part, &dialect);
        let parsed = parser.parse().map_err(|e| e.moved_by(start))?;
        statements.push(Parsed { offset: start, ..parsed });
    }
    Ok(statements)
}

/// Parses exactly one statement.
pub fn parse_one(sql: &str) -> Result<Option<Parsed>> {
    let mut statements = parse(sql)?;
    if statements.len() > 1 {
        return Err(SqlError::syntax("cannot insert multiple commands into a prepared statement"));
    }
    Ok(statements.pop())
}

/// Parses the text of a SELECT that was stored.
pub fn parse_query(sql: &str) -> Result<Box<ast::Query>> {
    let mut statements = parse(sql)?;
    match (statements.pop().map(|p| p.statement), statements.is_empty()) {
        (Some(Statement::Sql(statement)), true) => match *statement {
            ast::Statement::Query(query) => Ok(query),
            _ => Err(SqlError::syntax("a SELECT is expected")),
        },
        _ => Err(SqlError::syntax("a SELECT is expected")),
    }
}

/// Parses the text of an expression that was stored.
pub fn parse_expr(text: &str) -> Result<ast::Expr> {
    let query = parse_query(&format!("SELECT {text}"))?;
    match *query.body {
        ast::SetExpr::Select(mut select) => match (select.projection.pop(), select.projection.is_empty()) {
            (Some(ast::SelectItem::UnnamedExpr(expr)), true) => Ok(expr),
            _ => Err(SqlError::syntax("an expression is expected")),
        },
        _ => Err(SqlError::syntax("an expression is expected")),
    }
}

/// `CAST(expr AS ty)`. An expression that is there goes into others as it is: what a literal is printed as need not be
/// read as the same literal, if there are quotes and backslashes in it.
pub fn cast_of(expr: ast::Expr, ty: Type) -> Result<ast::Expr> {
    let mut cast = parse_expr(&format!("CAST(NULL AS {})", ty.display()))?;
    if let ast::Expr::Cast { expr: inner, .. } = &mut cast {
        **inner = expr;
    }
    Ok(cast)
}

/// `SELECT` with nothing but these expressions.
pub fn select_of(expressions: impl IntoIterator<Item = ast::Expr>) -> Result<ast::Query> {
    let mut query = parse_query("SELECT 1")?;
    if let ast::SetExpr::Select(select) = query.body.as_mut() {
        select.projection = expressions.into_iter().map(ast::SelectItem::UnnamedExpr).collect();
    }
    Ok(*query)
}

/// The parser over the tokens of one statement. All its positions are characters of the statement's own text: the
/// tokens are given as if the statement were one line, so that each span in the tree is a position as well.
struct StatementParser<'a> {
    positions: Positions<'a>,
    parser: Parser<'a>,
    /// Characters of the statement.
    end: usize,
}

type Step<T> = std::result::Result<T, ParserError>;

impl<'a> StatementParser<'a> {
    fn new(positions: &Positions<'a>, tokens: &[TokenWithSpan], dialect: &'a Bounded) -> Self {
        // Some tokens stand in another order than they were written in.
        let start = tokens.iter().map(|token| positions.char_at(token.span.start)).min().unwrap_or(0);
        let end = tokens.iter().map(|token| positions.char_at(token.span.end)).max().unwrap_or(start);
        let place = |location| Location { line: 1, column: (positions.char_at(location) - start + 1) as u64 };
        let tokens = tokens.iter().map(|token| TokenWithSpan {
            token: token.token.clone(),
            span: Span { start: place(token.span.start), end: place(token.span.end) },
        });
        let parser = Parser::new(dialect)
            .with_recursion_limit(NESTING_MAX)
            .with_tokens_with_locations(tokens.collect());
        Self { positions: Positions::of_line(positions.slice(start, end)), parser, end: end - start }
    }

    fn parse(mut self) -> Result<Parsed> {
        let statement = self.statement()?;
        let next = self.parser.peek_token();
        if next.token != Token::EOF {
            return Err(self.unexpected(&next));
        }
        let text = self.positions.slice(0, self.end).to_string();
        Ok(Parsed { statement, text, offset: 0 })
    }

    fn statement(&mut self) -> Result<Statement> {
        let first = self.parser.peek_token();
        let Token::Word(word) = &first.token else { return self.other() };
        match word.keyword {
            Keyword::CREATE | Keyword::ALTER | Keyword::DROP if self.names_none_of_ours() => self.session(),
            Keyword::EXPLAIN => self.explain(),
            Keyword::CREATE | Keyword::ALTER | Keyword::DROP | Keyword::TRUNCATE => {
                if let Some(statement) = self.foreign_statement()? {
                    return Ok(statement);
                }
                let ours = match self.migration_statement()? {
                    Some(statement) => Some(statement),
                    None => self.stream_statement()?,
                };
                ours.map_or_else(|| self.other(), Ok)
            }
            Keyword::COPY => self.copy(),
            Keyword::DECLARE | Keyword::FETCH | Keyword::CLOSE => self.cursor(),
            _ => match word.value.to_uppercase().as_str() {
                "ACTIVATE" | "DEACTIVATE" | "FLUSH" => self.activation(),
                "MOVE" => self.cursor(),
                "COMMENT" => self.comment(),
                "IMPORT" => self.foreign_statement()?.map_or_else(|| self.other(), Ok),
                "MIGRATE" => self.migration_statement()?.map_or_else(|| self.other(), Ok),
                "SET" | "RESET" | "SHOW" | "DISCARD" | "BEGIN" | "START" | "COMMIT" | "END" | "ROLLBACK"
                | "ABORT" | "SAVEPOINT" | "RELEASE" | "PREPARE" | "EXECUTE" | "DEALLOCATE" | "LISTEN"
                | "GRANT" | "REVOKE" | "NOTIFY" | "LOCK" | "UNLISTEN" | "VACUUM" | "ANALYZE" | "ANALYSE"
                | "CHECKPOINT" => self.session(),
                _ => self.other(),
            },
        }
    }

    /// Whether the word after the first is that of a role (and not of a user mapping), or of PGSpider's functions: ours to
    /// refuse by their name.
    fn names_none_of_ours(&self) -> bool {
        let is_mapping = matches!(&self.parser.peek_nth_token(2).token, Token::Word(w)
            if w.value.eq_ignore_ascii_case("MAPPING"));
        !is_mapping
            && matches!(&self.parser.peek_nth_token(1).token, Token::Word(w)
            if ["ROLE", "USER", "GROUP", "DISTRIBUTED_FUNC"].iter().any(|word| w.value.eq_ignore_ascii_case(word)))
    }

    /// Everything that is not ours.
    fn other(&mut self) -> Result<Statement> {
        let statement = self.parser.parse_statement().map_err(|e| self.error(&e))?;
        Ok(Statement::Sql(Box::new(statement)))
    }

    fn error(&self, error: &ParserError) -> SqlError {
        self.positions.parser_error(error, self.end)
    }

    fn run<T>(&mut self, step: impl FnOnce(&mut Parser<'a>) -> Step<T>) -> Result<T> {
        step(&mut self.parser).map_err(|e| self.positions.parser_error(&e, self.end))
    }

    /// `syntax error at or near …` at a token.
    fn unexpected(&self, token: &TokenWithSpan) -> SqlError {
        if token.token == Token::EOF {
            return SqlError::syntax("syntax error at end of input").with_position(self.end + 1);
        }
        let start = self.positions.char_at(token.span.start);
        let end = self.positions.char_at(token.span.end).max(start + 1);
        let text = self.positions.slice(start, end);
        SqlError::syntax(format!("syntax error at or near \"{text}\"")).with_position(start + 1)
    }

    fn unexpected_next(&self) -> SqlError {
        self.unexpected(&self.parser.peek_token())
    }

    /// Character position of the next token in the statement, from 1.
    fn next_position(&self) -> usize {
        match self.parser.peek_token() {
            token if token.token == Token::EOF => self.end + 1,
            token => self.positions.char_at(token.span.start) + 1,
        }
    }

    /// Takes a word, whatever it means to the parser.
    fn word(&mut self, expected: &str) -> bool {
        let is_it = matches!(&self.parser.peek_token().token,
            Token::Word(w) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(expected));
        if is_it {
            self.parser.next_token();
        }
        is_it
    }

    /// Takes several words, or none of them.
    fn words(&mut self, expected: &[&str]) -> bool {
        let all = expected.iter().enumerate().all(|(i, word)| {
            matches!(&self.parser.peek_nth_token(i).token,
                Token::Word(w) if w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word))
        });
        if all {
            expected.iter().for_each(|_| drop(self.parser.next_token()));
        }
        all
    }

    fn expect_word(&mut self, expected: &str) -> Result<()> {
        if self.word(expected) { Ok(()) } else { Err(self.unexpected_next()) }
    }

    fn token(&mut self, expected: &Token) -> bool {
        self.parser.consume_token(expected)
    }

    fn expect(&mut self, expected: &Token) -> Result<()> {
        if self.token(expected) { Ok(()) } else { Err(self.unexpected_next()) }
    }

    fn identifier(&mut self) -> Result<String> {
        match self.parser.peek_token().token {
            Token::Word(_) => Ok(name::fold(&self.run(|p| p.parse_identifier())?)),
            _ => Err(self.unexpected_next()),
        }
    }

    fn name(&mut self) -> Result<Name> {
        let position = self.next_position();
        let object = self.run(|p| p.parse_object_name(false))?;
        name::resolve(&object, position)
    }

    fn names(&mut self) -> Result<Vec<Name>> {
        let mut names = vec![self.name()?];
        while self.token(&Token::Comma) {
            names.push(self.name()?);
        }
        Ok(names)
    }

    fn at_end(&self) -> bool {
        self.parser.peek_token().token == Token::EOF
    }

    fn string(&mut self) -> Result<String> {
        match self.parser.peek_token().token {
            Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text) => {
                self.parser.next_token();
                Ok(text)
            }
            Token::DollarQuotedString(text) => {
                self.parser.next_token();
                Ok(text.value)
            }
            _ => Err(self.unexpected_next()),
        }
    }

    /// A word, number (with its sign) or string, as text.
    fn value(&mut self) -> Result<String> {
        match self.parser.peek_token().token {
            Token::Minus => {
                self.parser.next_token();
                Ok(format!("-{}", self.value()?))
            }
            Token::Plus => {
                self.parser.next_token();
                self.value()
            }
            Token::Number(number, _) => {
                self.parser.next_token();
                Ok(number)
            }
            Token::Word(_) => self.identifier(),
            _ => self.string(),
        }
    }

    fn integer(&mut self) -> Result<i64> {
        let position = self.next_position();
        let text = self.value()?;
        text.parse().map_err(|_| {
            SqlError::syntax(format!("syntax error at or near \"{text}\"")).with_position(position)
        })
    }
}

#[cfg(test)]
mod tests;
