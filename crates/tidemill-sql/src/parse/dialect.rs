//! PostgreSQL's dialect, without what makes the parser start over and over again.
//!
//! The parser tries several readings of a place one after the other, and what is nested in it is read anew by each: that
//! doubles the work with each level. Names of arguments are the usual case, which is ruled out here. Others need a
//! mistake further in, so the work is counted, and ends in an error when it is far more than the text can need.
//!
//! Everything else is asked of the crate's dialect. A new version of it may answer more questions: look there then.

use std::any::TypeId;
use std::sync::atomic::{AtomicUsize, Ordering};

use sqlparser::ast::Expr;
use sqlparser::dialect::{Dialect, PostgreSqlDialect, Precedence};
use sqlparser::keywords::Keyword;
use sqlparser::parser::{Parser, ParserError};

use super::{between, in_list, values};

/// Expressions that the parser may begin to read, for each token of the statement, and in any case.
const STEPS_PER_TOKEN_MAX: usize = 64;
const STEPS_MIN: usize = 10_000;

pub(super) static POSTGRESQL: PostgreSqlDialect = PostgreSqlDialect {};

/// The dialect for one statement.
#[derive(Debug)]
pub(super) struct Bounded {
    steps_left: AtomicUsize,
}

impl Bounded {
    pub fn of(tokens: usize) -> Self {
        Self { steps_left: AtomicUsize::new(STEPS_MIN + tokens.saturating_mul(STEPS_PER_TOKEN_MAX)) }
    }
}

/// Says what PostgreSQL's dialect says.
macro_rules! as_postgresql {
    ($($name:ident)*) => { $(fn $name(&self) -> bool { $crate::parse::dialect::POSTGRESQL.$name() })* };
}
pub(super) use as_postgresql;

impl Dialect for Bounded {
    /// For what the parser does by the dialect's name.
    fn dialect(&self) -> TypeId {
        POSTGRESQL.dialect()
    }

    fn parse_prefix(&self, parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
        let step = |left: usize| left.checked_sub(1);
        match self.steps_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, step) {
            Ok(_) => values::parse(parser),
            // The one error after which nothing else is tried.
            Err(_) => Some(Err(ParserError::RecursionLimitExceeded)),
        }
    }

    fn parse_infix(&self, parser: &mut Parser, expr: &Expr, _: u8) -> Option<Result<Expr, ParserError>> {
        between::parse(parser, expr).or_else(|| in_list::parse(parser, expr))
    }

    /// `f(x => 1)`: a name, and not any expression, which would be read twice where there is none.
    fn supports_named_fn_args_with_expr_name(&self) -> bool {
        false
    }

    /// `SELECT … THEN EXECUTE PROCEDURE …`: THEN is reserved in PostgreSQL.
    fn is_column_alias(&self, word: &Keyword, parser: &mut Parser) -> bool {
        *word != Keyword::THEN && POSTGRESQL.is_column_alias(word, parser)
    }

    fn is_table_alias(&self, word: &Keyword, parser: &mut Parser) -> bool {
        *word != Keyword::THEN && POSTGRESQL.is_table_alias(word, parser)
    }

    fn identifier_quote_style(&self, identifier: &str) -> Option<char> {
        POSTGRESQL.identifier_quote_style(identifier)
    }

    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        POSTGRESQL.is_delimited_identifier_start(ch)
    }

    fn is_identifier_start(&self, ch: char) -> bool {
        POSTGRESQL.is_identifier_start(ch)
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        POSTGRESQL.is_identifier_part(ch)
    }

    fn is_custom_operator_part(&self, ch: char) -> bool {
        POSTGRESQL.is_custom_operator_part(ch)
    }

    fn is_reserved_for_identifier(&self, word: Keyword) -> bool {
        POSTGRESQL.is_reserved_for_identifier(word)
    }

    fn get_next_precedence(&self, parser: &Parser) -> Option<Result<u8, ParserError>> {
        POSTGRESQL.get_next_precedence(parser)
    }

    fn prec_value(&self, precedence: Precedence) -> u8 {
        POSTGRESQL.prec_value(precedence)
    }

    as_postgresql! {
        supports_unicode_string_literal
        supports_filter_during_aggregation
        supports_group_by_expr
        allow_extract_custom
        allow_extract_single_quotes
        supports_create_index_with_clause
        supports_explain_with_utility_options
        supports_listen_notify
        supports_factorial_operator
        supports_bitwise_shift_operators
        supports_comment_on
        supports_load_extension
        supports_named_fn_args_with_colon_operator
        supports_empty_projections
        supports_nested_comments
        supports_string_escape_constant
        supports_numeric_literal_underscores
        supports_array_typedef_with_brackets
        supports_geometric_types
        supports_set_names
        supports_alter_column_type_using
        supports_notnull_operator
        supports_interval_options
        supports_insert_table_alias
        supports_create_table_like_parenthesized
        supports_select_wildcard_with_alias
        supports_comma_separated_trim
        supports_xml_expressions
        supports_comment_optimizer_hint
    }
}
