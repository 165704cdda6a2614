//! `pg_get_keywords()`: the words of PostgreSQL's grammar, which is ours.

use tidemill_sql::{Result, SqlError};

use super::{Fillers, PG_CATALOG, Rows, Snapshot};

pub(super) const FILLERS: Fillers = &[(PG_CATALOG, "pg_get_keywords()", keywords)];

/// PostgreSQL 15's: word, category, whether it can be a bare label, and both in words.
const POSTGRESQL: &str = include_str!("keywords.tsv");

fn keywords(_: &Snapshot, rows: &mut Rows) -> Result<()> {
    for line in POSTGRESQL.lines() {
        let [word, category, bare, category_text, bare_text] = line.split('\t').collect::<Vec<_>>()[..]
        else {
            return Err(SqlError::internal("the table of keywords is damaged"));
        };
        rows.add([
            ("word", word.into()),
            ("catcode", category.into()),
            ("barelabel", (bare == "t").into()),
            ("catdesc", category_text.into()),
            ("baredesc", bare_text.into()),
        ])?;
    }
    Ok(())
}
