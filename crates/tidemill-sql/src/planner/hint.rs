//! A column that does not exist, and the one that was perhaps meant.

use datafusion::common::Column;

use crate::error::{SqlError, SqlState};

/// PostgreSQL's `MAX_FUZZY_DISTANCE`.
const DISTANCE_MAX: usize = 3;

pub fn column_not_found(field: &Column, valid: &[Column]) -> SqlError {
    let table = field.relation.as_ref().map(|relation| relation.table());
    let has_table = |name: &str| valid.iter().any(|c| c.relation.as_ref().is_some_and(|r| r.table() == name));
    let error = match table {
        Some(table) if !valid.is_empty() && !has_table(table) => {
            let message = format!("missing FROM-clause entry for table \"{table}\"");
            return at_span(SqlError::new(SqlState::UNDEFINED_TABLE, message), field);
        }
        Some(table) => {
            SqlError::new(SqlState::UNDEFINED_COLUMN, format!("column {table}.{} does not exist", field.name))
        }
        None => {
            SqlError::new(SqlState::UNDEFINED_COLUMN, format!("column \"{}\" does not exist", field.name))
        }
    };
    let error = match &similar(&field.name, table, valid)[..] {
        [one] => error.with_hint(format!("Perhaps you meant to reference the column \"{one}\".")),
        [one, two] => error.with_hint(format!(
            "Perhaps you meant to reference the column \"{one}\" or the column \"{two}\"."
        )),
        _ => error,
    };
    at_span(error, field)
}

fn at_span(error: SqlError, field: &Column) -> SqlError {
    match field.spans.first() {
        Some(span) if span.start.column > 0 => error.with_position(span.start.column as usize),
        _ => error,
    }
}

/// The one or two columns with the least distance; none when more are equally near.
fn similar(name: &str, table: Option<&str>, valid: &[Column]) -> Vec<String> {
    let mut best = DISTANCE_MAX + 1;
    let mut found: Vec<String> = vec![];
    for column in valid {
        let Some(relation) = &column.relation else { continue };
        let shown = super::name::display_name(&column.name);
        let apart = distance(name, shown);
        // With more than half of it different it is another name.
        if apart > name.chars().count() / 2 {
            continue;
        }
        let apart = apart + table.map_or(0, |table| distance(table, relation.table()));
        let written = format!("{}.{shown}", relation.table());
        if apart < best {
            best = apart;
            found = vec![written];
        } else if apart == best {
            found.push(written);
        }
    }
    if found.len() > 2 { vec![] } else { found }
}

/// The name that is the nearest to a wrong one, if it is near: what was perhaps meant.
pub fn closest<'a>(wrong: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let near = known.map(|name| (distance(wrong, name), name));
    let near = near.filter(|(apart, _)| *apart <= DISTANCE_MAX && *apart <= wrong.chars().count() / 2);
    near.min_by_key(|(apart, _)| *apart).map(|(_, name)| name)
}

/// Levenshtein's distance.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, y) in b.iter().enumerate() {
            let substituted = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row[b.len()]
}
