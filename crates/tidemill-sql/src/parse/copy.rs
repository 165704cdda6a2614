//! COPY, with the options of today and of PostgreSQL before 9.0.

use sqlparser::tokenizer::Token;

use super::StatementParser;
use crate::error::{Result, SqlError, SqlState};
use crate::statement::{
    Copy, CopyColumns, CopyEndpoint, CopyFormat, CopyHeader, CopyOptions, CopySource, Statement,
};

impl StatementParser<'_> {
    pub(super) fn copy(&mut self) -> Result<Statement> {
        self.expect_word("COPY")?;
        let mut binary = self.word("BINARY");
        let source = if self.token(&Token::LParen) {
            let query = self.run(|p| p.parse_query())?;
            self.expect(&Token::RParen)?;
            CopySource::Query(query)
        } else {
            let name = self.name()?;
            let columns = if self.token(&Token::LParen) { self.copy_columns()? } else { Vec::new() };
            CopySource::Relation { name, columns }
        };
        let position = self.next_position();
        let to = self.word("TO");
        if !to {
            self.expect_word("FROM")?;
        }
        if !to && matches!(source, CopySource::Query(_)) {
            return Err(SqlError::syntax("syntax error at or near \"FROM\"").with_position(position));
        }
        let endpoint = self.endpoint(to)?;
        let mut options = CopyOptions::default();
        self.word("WITH");
        if self.token(&Token::LParen) {
            self.option_list(&mut options)?;
        } else {
            self.old_options(&mut options, &mut binary)?;
        }
        if binary {
            options.format = CopyFormat::Binary;
        }
        if !to && self.parser.peek_token().token != Token::EOF && self.word("WHERE") {
            return Err(SqlError::unsupported("COPY FROM with WHERE is not supported")
                .with_position(self.next_position())
                .with_hint("Filter in the WHERE clause of a continuous view."));
        }
        check(&options, to)?;
        Ok(Statement::Copy(Copy { source, to, endpoint, options }))
    }

    fn copy_columns(&mut self) -> Result<Vec<(String, usize)>> {
        let mut columns = Vec::new();
        loop {
            let position = self.next_position();
            columns.push((self.identifier()?, position));
            if !self.token(&Token::Comma) {
                break;
            }
        }
        self.expect(&Token::RParen)?;
        Ok(columns)
    }

    fn endpoint(&mut self, to: bool) -> Result<CopyEndpoint> {
        if self.word(if to { "STDOUT" } else { "STDIN" }) || self.word(if to { "STDIN" } else { "STDOUT" }) {
            return Ok(CopyEndpoint::Client);
        }
        if self.word("PROGRAM") {
            return Ok(CopyEndpoint::Program(self.string()?));
        }
        Ok(CopyEndpoint::File(self.string()?))
    }

    fn option_list(&mut self, options: &mut CopyOptions) -> Result<()> {
        let mut seen: Vec<String> = Vec::new();
        loop {
            let position = self.next_position();
            let name = self.identifier()?;
            if seen.contains(&name) {
                return Err(SqlError::syntax("conflicting or redundant options").with_position(position));
            }
            match name.as_str() {
                "format" => options.format = self.format()?,
                "delimiter" => options.delimiter = Some(self.single_byte("COPY delimiter")?),
                "null" => options.null = Some(self.string()?),
                "header" => options.header = self.header()?,
                "quote" => options.quote = Some(self.single_byte("COPY quote")?),
                "escape" => options.escape = Some(self.single_byte("COPY escape")?),
                "freeze" => options.freeze = self.boolean("freeze")?,
                "encoding" => self.encoding()?,
                "force_quote" => options.force_quote = self.column_list(true)?,
                "force_not_null" => options.force_not_null = self.column_list(false)?,
                "force_null" => options.force_null = self.column_list(false)?,
                _ => {
                    return Err(
                        SqlError::syntax(format!("option \"{name}\" not recognized")).with_position(position)
                    );
                }
            }
            seen.push(name);
            if !self.token(&Token::Comma) {
                break;
            }
        }
        self.expect(&Token::RParen)
    }

    fn old_options(&mut self, options: &mut CopyOptions, binary: &mut bool) -> Result<()> {
        loop {
            if self.word("BINARY") {
                *binary = true;
            } else if self.word("CSV") {
                options.format = CopyFormat::Csv;
            } else if self.word("HEADER") {
                options.header = CopyHeader::On;
            } else if self.word("FREEZE") {
                options.freeze = true;
            } else if self.word("DELIMITER") || self.word("DELIMITERS") {
                self.word("AS");
                options.delimiter = Some(self.single_byte("COPY delimiter")?);
            } else if self.word("NULL") {
                self.word("AS");
                options.null = Some(self.string()?);
            } else if self.word("QUOTE") {
                self.word("AS");
                options.quote = Some(self.single_byte("COPY quote")?);
            } else if self.word("ESCAPE") {
                self.word("AS");
                options.escape = Some(self.single_byte("COPY escape")?);
            } else if self.word("ENCODING") {
                self.encoding()?;
            } else if self.words(&["FORCE", "QUOTE"]) {
                options.force_quote = self.old_columns(true)?;
            } else if self.words(&["FORCE", "NOT", "NULL"]) {
                options.force_not_null = self.old_columns(false)?;
            } else if self.words(&["FORCE", "NULL"]) {
                options.force_null = self.old_columns(false)?;
            } else {
                return Ok(());
            }
        }
    }

    fn old_columns(&mut self, star: bool) -> Result<CopyColumns> {
        if star && self.token(&Token::Mul) {
            return Ok(CopyColumns::All);
        }
        let mut names = vec![self.identifier()?];
        while self.token(&Token::Comma) {
            names.push(self.identifier()?);
        }
        Ok(CopyColumns::Some(names))
    }

    fn column_list(&mut self, star: bool) -> Result<CopyColumns> {
        if star && self.token(&Token::Mul) {
            return Ok(CopyColumns::All);
        }
        self.expect(&Token::LParen)?;
        Ok(CopyColumns::Some(self.identifiers_to_paren()?))
    }

    fn format(&mut self) -> Result<CopyFormat> {
        let position = self.next_position();
        let name = self.value()?;
        match name.as_str() {
            "text" => Ok(CopyFormat::Text),
            "csv" => Ok(CopyFormat::Csv),
            "binary" => Ok(CopyFormat::Binary),
            _ => Err(SqlError::new(
                SqlState::INVALID_PARAMETER_VALUE,
                format!("COPY format \"{name}\" not recognized"),
            )
            .with_position(position)),
        }
    }

    fn header(&mut self) -> Result<CopyHeader> {
        if self.word("MATCH") {
            return Ok(CopyHeader::Match);
        }
        Ok(if self.boolean("header")? { CopyHeader::On } else { CopyHeader::Off })
    }

    /// The value of an option that is true when it is only named.
    pub(super) fn boolean(&mut self, option: &str) -> Result<bool> {
        if matches!(self.parser.peek_token().token, Token::Comma | Token::RParen) {
            return Ok(true);
        }
        let position = self.next_position();
        match self.value()?.to_lowercase().as_str() {
            "true" | "on" | "1" => Ok(true),
            "false" | "off" | "0" => Ok(false),
            _ => Err(SqlError::syntax(format!("{option} requires a Boolean value")).with_position(position)),
        }
    }

    fn encoding(&mut self) -> Result<()> {
        let position = self.next_position();
        let name = self.value()?;
        match name.to_uppercase().replace(['-', '_'], "").as_str() {
            "UTF8" | "UNICODE" | "SQLASCII" => Ok(()),
            _ => Err(SqlError::unsupported(format!("COPY with encoding \"{name}\" is not supported"))
                .with_position(position)
                .with_hint("Data is UTF-8.")),
        }
    }

    fn single_byte(&mut self, what: &str) -> Result<u8> {
        let position = self.next_position();
        let text = self.string()?;
        match text.as_bytes() {
            [byte] => Ok(*byte),
            _ => Err(SqlError::unsupported(format!("{what} must be a single one-byte character"))
                .with_position(position)),
        }
    }
}

/// PostgreSQL's checks of options against each other, with its messages.
fn check(options: &CopyOptions, to: bool) -> Result<()> {
    let csv = options.format == CopyFormat::Csv;
    let refuse = |message: &str| Err(SqlError::unsupported(message));
    if options.format == CopyFormat::Binary {
        if options.delimiter.is_some() {
            return Err(SqlError::syntax("cannot specify DELIMITER in BINARY mode"));
        }
        if options.null.is_some() {
            return Err(SqlError::syntax("cannot specify NULL in BINARY mode"));
        }
        if options.header != CopyHeader::Off {
            return refuse("cannot specify HEADER in BINARY mode");
        }
    }
    let delimiter = options.delimiter.unwrap_or(if csv { b',' } else { b'\t' });
    if matches!(delimiter, b'\n' | b'\r') {
        return Err(invalid("COPY delimiter cannot be newline or carriage return"));
    }
    if options.null.as_ref().is_some_and(|n| n.contains(['\n', '\r'])) {
        return Err(invalid("COPY null representation cannot use newline or carriage return"));
    }
    if !csv && b"\\.abcdefghijklmnopqrstuvwxyz0123456789".contains(&delimiter) {
        return Err(invalid(format!("COPY delimiter cannot be \"{}\"", delimiter as char)));
    }
    if !csv && options.quote.is_some() {
        return refuse("COPY quote available only in CSV mode");
    }
    if !csv && options.escape.is_some() {
        return refuse("COPY escape available only in CSV mode");
    }
    if csv && delimiter == options.quote.unwrap_or(b'"') {
        return Err(invalid("COPY delimiter and quote must be different"));
    }
    if options.force_quote != CopyColumns::None && (!csv || !to) {
        return refuse(if csv {
            "COPY force quote only available using COPY TO"
        } else {
            "COPY force quote available only in CSV mode"
        });
    }
    if options.force_not_null != CopyColumns::None && (!csv || to) {
        return refuse(if csv {
            "COPY force not null only available using COPY FROM"
        } else {
            "COPY force not null available only in CSV mode"
        });
    }
    if options.force_null != CopyColumns::None && (!csv || to) {
        return refuse(if csv {
            "COPY force null only available using COPY FROM"
        } else {
            "COPY force null available only in CSV mode"
        });
    }
    if options.header == CopyHeader::Match && to {
        return refuse("cannot use \"match\" with HEADER in COPY TO");
    }
    let null = options.null.as_deref().unwrap_or(if csv { "" } else { "\\N" });
    if options.format != CopyFormat::Binary && null.as_bytes().contains(&delimiter) {
        return refuse("COPY delimiter must not appear in the NULL specification");
    }
    if csv && null.as_bytes().contains(&options.quote.unwrap_or(b'"')) {
        return refuse("CSV quote character must not appear in the NULL specification");
    }
    Ok(())
}

fn invalid(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}
