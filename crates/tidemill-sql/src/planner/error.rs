//! What a DataFusion error means in PostgreSQL's terms. The only place that reads DataFusion's messages.

use std::error::Error;

use arrow::error::ArrowError;
use datafusion::common::{Column, SchemaError};
use datafusion::error::DataFusionError;

use super::hint;
use crate::error::{SqlError, SqlState};

/// The error to report for an error of planning or execution.
pub fn plan_error(error: DataFusionError) -> SqlError {
    if let Some(found) = own_error(&error) {
        return found.clone();
    }
    let place = error.diagnostic().and_then(|diagnostic| diagnostic.span);
    let found = translated(error);
    match place {
        // Spans of a statement are of one line: its characters.
        Some(span) if found.position.is_none() && span.start.column > 0 => {
            found.with_position(span.start.column as usize)
        }
        _ => found,
    }
}

fn translated(error: DataFusionError) -> SqlError {
    match error {
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => plan_error(*inner),
        DataFusionError::Collection(errors) => match errors.into_iter().next() {
            Some(first) => plan_error(first),
            None => SqlError::internal("an empty collection of errors"),
        },
        DataFusionError::Shared(inner) => from_text(&inner),
        DataFusionError::SchemaError(schema, _) => schema_error(*schema),
        DataFusionError::ArrowError(arrow, _) => arrow_error(&arrow),
        other => from_text(&other),
    }
}

/// As [`plan_error`], with the position of the name that the message quotes, when the statement has it.
pub fn plan_error_in(error: DataFusionError, sql: &str) -> SqlError {
    let error = plan_error(error);
    if error.position.is_some() {
        return error;
    }
    let names_object = [
        SqlState::UNDEFINED_COLUMN,
        SqlState::UNDEFINED_TABLE,
        SqlState::AMBIGUOUS_COLUMN,
        SqlState::GROUPING_ERROR,
        SqlState::UNDEFINED_FUNCTION,
        SqlState::UNDEFINED_PARAMETER,
        SqlState::DUPLICATE_ALIAS,
    ];
    if !names_object.contains(&error.state) {
        return error;
    }
    match quoted(&error.message).and_then(|name| position_of(name, sql)) {
        Some(position) => error.with_position(position),
        None => error,
    }
}

/// An error of ours that went through DataFusion.
fn own_error<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a SqlError> {
    let mut current = Some(error);
    while let Some(error) = current {
        if let Some(found) = error.downcast_ref::<SqlError>() {
            return Some(found);
        }
        let inner: Option<&'a (dyn Error + 'static)> = match error.downcast_ref::<DataFusionError>() {
            Some(DataFusionError::External(inner)) => Some(&**inner),
            Some(DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner)) => {
                Some(&**inner)
            }
            Some(DataFusionError::Shared(inner)) => Some(&**inner),
            Some(DataFusionError::Collection(errors)) => errors.first().map(|e| e as _),
            Some(DataFusionError::ArrowError(inner, _)) => Some(&**inner),
            Some(_) => None,
            None => match error.downcast_ref::<ArrowError>() {
                Some(ArrowError::ExternalError(inner)) => Some(&**inner),
                _ => None,
            },
        };
        current = inner.or_else(|| error.source());
    }
    None
}

const NO_FUNCTION: &str =
    "No function matches the given name and argument types. You might need to add explicit type casts.";

fn schema_error(error: SchemaError) -> SqlError {
    match error {
        SchemaError::FieldNotFound { field, valid_fields } => hint::column_not_found(&field, &valid_fields),
        SchemaError::AmbiguousReference { field } => SqlError::new(
            SqlState::AMBIGUOUS_COLUMN,
            format!("column reference \"{}\" is ambiguous", field.name),
        ),
        SchemaError::DuplicateQualifiedField { qualifier, .. } => SqlError::new(
            SqlState::DUPLICATE_ALIAS,
            format!("table name \"{}\" specified more than once", qualifier.table()),
        ),
        SchemaError::DuplicateUnqualifiedField { name } => SqlError::new(
            SqlState::DUPLICATE_COLUMN,
            format!("column \"{}\" specified more than once", super::name::display_name(&name)),
        ),
    }
}

/// What Arrow's kernels say; ours say it better, so this is for the few kernels that run by themselves.
fn arrow_error(error: &ArrowError) -> SqlError {
    match error {
        ArrowError::DivideByZero => SqlError::division_by_zero(),
        ArrowError::ArithmeticOverflow(message) => {
            SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("value out of range: {message}"))
        }
        ArrowError::CastError(message) | ArrowError::ParseError(message) => {
            SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, message.clone())
        }
        ArrowError::MemoryError(message) => SqlError::new(SqlState::OUT_OF_MEMORY, message.clone()),
        other => SqlError::internal(other.to_string()),
    }
}

fn from_text(error: &DataFusionError) -> SqlError {
    let text = message(error);
    if let Some(problem) =
        between(&text, "coercion failed with: External error: ", ". No function matches the given")
    {
        return SqlError::new(SqlState::UNDEFINED_FUNCTION, problem).with_hint(NO_FUNCTION);
    }
    if let Some(problem) =
        text.contains("regex parse error").then(|| between(&text, "error: ", "\n")).flatten()
    {
        let message = format!("invalid regular expression: {}", regex_problem(problem));
        return SqlError::new(SqlState::INVALID_REGULAR_EXPRESSION, message);
    }
    if text.contains("Scalar subquery returned more than one row") {
        let message = "more than one row returned by a subquery used as an expression";
        return SqlError::new(SqlState::CARDINALITY_VIOLATION, message);
    }
    if text.contains("NTILE requires a positive integer") {
        let message = "argument of ntile must be greater than zero";
        return SqlError::new(SqlState::INVALID_ARGUMENT_FOR_NTILE, message);
    }
    if let Some(what) = unplanned(&text) {
        return SqlError::unsupported(what);
    }
    if text.contains("Cannot access field at argument") {
        let message = "column notation applied to a value that is not of a composite type";
        return SqlError::new(SqlState::WRONG_OBJECT_TYPE, message);
    }
    if let Some(name) = between(&text, "Placeholder '", "' was not provided a value") {
        return SqlError::new(SqlState::UNDEFINED_PARAMETER, format!("there is no parameter {name}"));
    }
    match error {
        DataFusionError::ResourcesExhausted(_) => SqlError::new(SqlState::OUT_OF_MEMORY, "out of memory")
            .with_detail(sentence(&text))
            .with_hint("Raise \"query_memory_limit\", or let the query return or combine less at once."),
        DataFusionError::NotImplemented(_) => SqlError::unsupported(lower_first(&text)),
        DataFusionError::SQL(..) => SqlError::syntax(text),
        DataFusionError::Plan(_) | DataFusionError::SchemaError(..) => planning(&text),
        DataFusionError::ArrowError(arrow, _) => arrow_error(arrow),
        DataFusionError::IoError(_) => SqlError::new(SqlState::IO_ERROR, text),
        _ => SqlError::internal(text),
    }
}

/// What PostgreSQL says of a regular expression where the library says this.
fn regex_problem(problem: &str) -> &str {
    match problem {
        "unclosed group" | "unopened group" => "parentheses () not balanced",
        "unclosed character class" => "brackets [] not balanced",
        "repetition operator missing expression" => "quantifier operand invalid",
        p if p.contains("repetition quantifier") || p.contains("counted repetition") => {
            "invalid repetition count(s)"
        }
        p if p.contains("repetition count range") => "invalid repetition count(s)",
        p if p.contains("character class range") => "invalid character range",
        p if p.contains("escape sequence") => "invalid escape \\ sequence",
        other => other,
    }
}

fn planning(text: &str) -> SqlError {
    if let Some(error) = clause(text) {
        return error;
    }
    if let Some(function) = between(text, "Invalid function '", "'") {
        return SqlError::new(SqlState::UNDEFINED_FUNCTION, format!("function {function} does not exist"))
            .with_hint(NO_FUNCTION);
    }
    if let Some(table) = between(text, "table '", "' not found").or(between(text, "Table not found: ", "\n"))
    {
        let shown: Vec<&str> = table.split('.').collect();
        let name = match shown[..] {
            [_, super::UNQUALIFIED, name] => name.to_string(),
            [_, schema, name] => format!("{schema}.{name}"),
            _ => table.to_string(),
        };
        return SqlError::new(SqlState::UNDEFINED_TABLE, format!("relation \"{name}\" does not exist"));
    }
    if let Some(column) = between(text, "While expanding wildcard, column \"", "\" must appear") {
        return grouping(column);
    }
    if let Some(column) = between(text, "HAVING clause references: ", " must appear") {
        return grouping(column);
    }
    if text.contains("Ambiguous") || text.contains("ambiguous") {
        return SqlError::new(SqlState::AMBIGUOUS_COLUMN, lower_first(text));
    }
    if text.contains("must be the same number of columns") || text.contains("have the same number of columns")
    {
        return SqlError::syntax("each UNION query must have the same number of columns");
    }
    if text.contains("Order by column out of bounds") || text.contains("Order by index") {
        return SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, lower_first(text));
    }
    if let (Some(given), Some(names)) = (
        between(text, "Source table contains ", " columns but only "),
        between(text, " columns but only ", " names given as column alias"),
    ) {
        return match (given.parse::<usize>(), names.parse::<usize>()) {
            (Ok(given), Ok(names)) if given < names => {
                let message = format!("table has {given} columns available but {names} columns specified");
                SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message)
            }
            _ => SqlError::unsupported("names for only some of the columns of a table are not supported")
                .with_hint(format!("Name all {given} columns.")),
        };
    }
    if text.contains("Inconsistent data length across values list") {
        return SqlError::syntax("VALUES lists must all be the same length");
    }
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, lower_first(text))
}

/// Expressions that DataFusion's optimizer should have turned into joins, but could not.
fn unplanned(text: &str) -> Option<&'static str> {
    let expression = between(text, "Physical plan does not support logical expression ", "(")?;
    Some(match expression.trim() {
        "Exists" => "EXISTS is not supported at this place of a query",
        "InSubquery" => "IN with a subquery is supported only in WHERE",
        "OuterReferenceColumn" => "this LATERAL or correlated subquery is not supported",
        "WindowFunction" => "window functions are supported only in the select list and ORDER BY",
        "ScalarSubquery" => "this correlated subquery is not supported",
        "SetComparison" => "a comparison with ANY or ALL of a subquery is supported only in WHERE",
        _ => return None,
    })
}

/// What is wrong with a clause of a query.
fn clause(text: &str) -> Option<SqlError> {
    let error = |state, message: &str| Some(SqlError::new(state, message));
    if let Some(name) = between(text, "WITH query name \"", "\"") {
        let message = format!("WITH query name \"{name}\" specified more than once");
        return error(SqlState::DUPLICATE_ALIAS, &message);
    }
    for op in ["UNION", "INTERSECT", "EXCEPT"] {
        if text.contains(&format!("{op} queries have different number of columns")) {
            return error(
                SqlState::SYNTAX_ERROR,
                &format!("each {op} query must have the same number of columns"),
            );
        }
    }
    if text.contains("For SELECT DISTINCT, ORDER BY expressions") {
        let message = "for SELECT DISTINCT, ORDER BY expressions must appear in select list";
        return error(SqlState::INVALID_COLUMN_REFERENCE, message);
    }
    if text.contains("Aggregate functions are not allowed in the WHERE clause") {
        return error(SqlState::GROUPING_ERROR, "aggregate functions are not allowed in WHERE");
    }
    if text.contains("Aggregate function calls cannot be nested") {
        return error(SqlState::GROUPING_ERROR, "aggregate function calls cannot be nested");
    }
    if let Some(position) = between(text, "Cannot find column with position ", " ") {
        let message = format!("GROUP BY position {position} is not in select list");
        return error(SqlState::INVALID_COLUMN_REFERENCE, &message);
    }
    if let Some(position) = between(text, "Order by column out of bounds, specified: ", ",") {
        let message = format!("ORDER BY position {position} is not in select list");
        return error(SqlState::INVALID_COLUMN_REFERENCE, &message);
    }
    if text.contains("Order by index starts at 1") {
        return error(SqlState::INVALID_COLUMN_REFERENCE, "ORDER BY position 0 is not in select list");
    }
    if text.contains("DISTINCT ON expressions must match initial ORDER BY") {
        let message = "SELECT DISTINCT ON expressions must match initial ORDER BY expressions";
        return error(SqlState::INVALID_COLUMN_REFERENCE, message);
    }
    if text.contains("SELECT * with no tables specified") {
        return error(SqlState::SYNTAX_ERROR, "SELECT * with no tables specified is not valid");
    }
    if let Some(table) = between(text, "Invalid qualifier ", "\n") {
        return error(SqlState::UNDEFINED_TABLE, &format!("missing FROM-clause entry for table \"{table}\""));
    }
    if let Some(window) = between(text, "The window ", " is not defined") {
        return error(SqlState::UNDEFINED_OBJECT, &format!("window \"{window}\" does not exist"));
    }
    if text.contains("Too many columns! The subquery should only return one column") {
        return error(SqlState::SYNTAX_ERROR, "subquery must return only one column");
    }
    None
}

fn grouping(column: &str) -> SqlError {
    let column = Column::from_qualified_name(column);
    let name = match &column.relation {
        Some(relation) => format!("{}.{}", relation.table(), column.name),
        None => column.name,
    };
    SqlError::new(
        SqlState::GROUPING_ERROR,
        format!("column \"{name}\" must appear in the GROUP BY clause or be used in an aggregate function"),
    )
}

/// DataFusion's message without the class of the error in front and the backtrace behind.
fn message(error: &DataFusionError) -> String {
    let text = error.message().into_owned();
    match text.split_once(DataFusionError::BACK_TRACE_SEP) {
        Some((text, _)) => text.to_string(),
        None => text,
    }
}

fn between<'a>(text: &'a str, start: &str, end: &str) -> Option<&'a str> {
    let rest = &text[text.find(start)? + start.len()..];
    Some(rest.split(end).next().unwrap_or(rest))
}

fn lower_first(text: &str) -> String {
    let text = text.trim_end_matches('.');
    let mut chars = text.chars();
    match chars.next() {
        // A keyword keeps its capitals.
        Some(_) if chars.clone().next().is_some_and(char::is_uppercase) => text.to_string(),
        Some(first) => first.to_lowercase().chain(chars).collect(),
        None => String::new(),
    }
}

fn sentence(text: &str) -> String {
    if text.ends_with('.') { text.to_string() } else { format!("{text}.") }
}

/// The name that a message is about: in quotes, or what follows `column` or `function`.
fn quoted(message: &str) -> Option<&str> {
    if let Some(name) = between(message, "\"", "\"") {
        return Some(name);
    }
    let rest = message.strip_prefix("column ").or(message.strip_prefix("function "))?;
    rest.split([' ', '(']).next()
}

/// Where a name stands as a word, in characters from 1.
fn position_of(name: &str, sql: &str) -> Option<usize> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let (haystack, needle) = (sql.to_lowercase(), name.to_lowercase());
    // Lower case must not move the positions.
    if haystack.len() != sql.len() {
        return None;
    }
    let found = haystack.match_indices(&needle).find(|(at, _)| {
        !haystack[..*at].ends_with(is_word) && !haystack[at + needle.len()..].starts_with(is_word)
    });
    match found {
        Some((at, _)) => Some(sql[..at].chars().count() + 1),
        // A qualified name may be written without its qualifier.
        None => name.rsplit_once('.').and_then(|(_, last)| position_of(last, sql)),
    }
}
