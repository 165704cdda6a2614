//! Clauses that the parser reads and nobody here would heed: of other dialects, and PostgreSQL's that are not there yet.

use sqlparser::ast::{
    self, GroupByExpr, Join, JoinOperator, LimitClause, Query, Select, SelectFlavor, Spanned, TableFactor,
};

use super::place::{self, Text};
use crate::error::{Result, SqlError};
use crate::relation::relations;

/// A clause: its name, the words that it begins with, and a hint.
type Clause = (&'static str, &'static str, Option<&'static str>);

fn clause(name: &'static str, begin: &'static str) -> Clause {
    (name, begin, None)
}

/// The error, where the words stand behind a place.
fn refused((name, begin, hint): Clause, text: &Text<'_>, behind: usize) -> SqlError {
    let error = SqlError::unsupported(format!("{name} is not supported"));
    let error = match hint {
        Some(hint) => error.with_hint(hint),
        None => error,
    };
    match text.words_behind(begin, behind) {
        0 => error,
        at => error.with_position(at),
    }
}

pub(super) fn query(query: &Query, text: &Text<'_>) -> Result<()> {
    let found = if !query.locks.is_empty() && !relations(query).is_empty() {
        Some((
            "FOR UPDATE/SHARE",
            "for",
            Some("Rows are not locked; a statement that writes sees all before it."),
        ))
    } else if query.for_clause.is_some() {
        Some(clause("FOR XML/JSON", "for"))
    } else if query.settings.is_some() {
        Some(clause("SETTINGS", "settings"))
    } else if query.format_clause.is_some() {
        Some(clause("FORMAT", "format"))
    } else if !query.pipe_operators.is_empty() {
        Some(clause("|>", "|>"))
    } else {
        match &query.limit_clause {
            Some(LimitClause::OffsetCommaLimit { .. }) => {
                Some(("LIMIT #,#", "limit", Some("Use separate LIMIT and OFFSET clauses.")))
            }
            Some(LimitClause::LimitOffset { limit_by, .. }) if !limit_by.is_empty() => {
                Some(clause("LIMIT BY", "limit"))
            }
            _ => None,
        }
    };
    let behind = place::of_span(query.body.span()).1;
    found.map_or(Ok(()), |found| Err(refused(found, text, behind)))
}

pub(super) fn select(select: &Select, text: &Text<'_>) -> Result<()> {
    let begin = place::of_span(select.select_token.0.span).0;
    let found = if select.into.is_some() {
        Some(("SELECT INTO", "into", Some("Use CREATE TABLE AS.")))
    } else if select.top.is_some() {
        Some(("TOP", "top", Some("Use LIMIT.")))
    } else if select.qualify.is_some() {
        Some(("QUALIFY", "qualify", Some("Use a subquery in FROM.")))
    } else if !select.connect_by.is_empty() {
        Some(("CONNECT BY", "connect by", Some("Use WITH RECURSIVE.")))
    } else if !select.cluster_by.is_empty() {
        Some(clause("CLUSTER BY", "cluster by"))
    } else if !select.distribute_by.is_empty() {
        Some(clause("DISTRIBUTE BY", "distribute by"))
    } else if !select.sort_by.is_empty() {
        Some(clause("SORT BY", "sort by"))
    } else if !select.lateral_views.is_empty() {
        Some(clause("LATERAL VIEW", "lateral view"))
    } else if select.prewhere.is_some() {
        Some(clause("PREWHERE", "prewhere"))
    } else if select.value_table_mode.is_some()
        || select.exclude.is_some()
        || select.select_modifiers.is_some()
    {
        Some(clause("this form of SELECT", "select"))
    } else if !matches!(select.flavor, SelectFlavor::Standard) {
        Some(clause("FROM before SELECT", "from"))
    } else {
        match &select.group_by {
            GroupByExpr::All(_) => Some(clause("GROUP BY ALL", "group by")),
            GroupByExpr::Expressions(_, modifiers) if !modifiers.is_empty() => {
                Some(clause("GROUP BY … WITH", "group by"))
            }
            GroupByExpr::Expressions(..) => None,
        }
    };
    if let Some(found) = found {
        return Err(refused(found, text, begin));
    }
    select.from.iter().flat_map(|table| &table.joins).try_for_each(|found| join(found, text))
}

fn join(join: &Join, text: &Text<'_>) -> Result<()> {
    let name = match &join.join_operator {
        _ if join.global => "GLOBAL JOIN",
        JoinOperator::Join(_)
        | JoinOperator::Inner(_)
        | JoinOperator::Left(_)
        | JoinOperator::LeftOuter(_)
        | JoinOperator::Right(_)
        | JoinOperator::RightOuter(_)
        | JoinOperator::FullOuter(_)
        | JoinOperator::CrossJoin(ast::JoinConstraint::None) => return Ok(()),
        JoinOperator::Semi(_) | JoinOperator::LeftSemi(_) | JoinOperator::RightSemi(_) => "SEMI JOIN",
        JoinOperator::Anti(_) | JoinOperator::LeftAnti(_) | JoinOperator::RightAnti(_) => "ANTI JOIN",
        _ => "this kind of join",
    };
    let error = refused((name, "", Some("PostgreSQL's joins are.")), text, 0);
    let at = place::of_span(join.relation.span()).0;
    Err(if at > 0 { error.with_position(at) } else { error })
}

pub(super) fn factor(factor: &TableFactor, text: &Text<'_>) -> Result<()> {
    let (begin, behind) = place::of_span(factor.span());
    let sampled = ("TABLESAMPLE", "tablesample", Some("Use WHERE random() < 0.1 for a tenth of the rows."));
    let found = match factor {
        TableFactor::Table { sample: Some(_), .. } | TableFactor::Derived { sample: Some(_), .. } => sampled,
        TableFactor::Table { args: None, with_ordinality: true, .. } => {
            return Err(at_words("with ordinality", text, behind));
        }
        TableFactor::Table { with_hints, .. } if !with_hints.is_empty() => {
            return Err(at_words("with", text, behind));
        }
        TableFactor::Table { index_hints, .. } if !index_hints.is_empty() => clause("an index hint", "index"),
        TableFactor::Table { version: Some(_), .. } => clause("a version of a table", "version"),
        TableFactor::Table { partitions, .. } if !partitions.is_empty() => clause("PARTITION", "partition"),
        TableFactor::Table { json_path: Some(_), .. } => clause("a path behind a table", ""),
        TableFactor::Table { .. }
        | TableFactor::Derived { .. }
        | TableFactor::Function { .. }
        | TableFactor::UNNEST { .. }
        | TableFactor::NestedJoin { .. } => return Ok(()),
        _ => {
            let error = SqlError::unsupported("this kind of item in FROM is not supported");
            return Err(if begin > 0 { error.with_position(begin) } else { error });
        }
    };
    Err(refused(found, text, behind))
}

/// What is no syntax in PostgreSQL at this place.
fn at_words(words: &str, text: &Text<'_>, behind: usize) -> SqlError {
    match text.words_behind(words, behind) {
        0 => SqlError::syntax("syntax error"),
        at => SqlError::syntax(format!("syntax error at or near \"{}\"", text.word_at(at))).with_position(at),
    }
}
