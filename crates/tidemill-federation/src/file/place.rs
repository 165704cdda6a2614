//! Which files a table consists of.

use std::path::{Path, PathBuf};

use tidemill_sql::{Result, SqlError, SqlState};

use super::{Format, file_error};
use crate::table::TableDefinition;

/// Files of a table at most.
const FILES_MAX: usize = 10_000;

/// What the table's definition says: a file, a folder, or a pattern.
pub fn of(definition: &TableDefinition) -> PathBuf {
    match definition.options.get("filename") {
        Some(name) => PathBuf::from(name),
        None => Path::new(&definition.remote_schema).join(&definition.remote_table),
    }
}

/// The files, in the order of their names.
pub fn files(definition: &TableDefinition, format: Format) -> Result<Vec<PathBuf>> {
    let place = of(definition);
    local(&place.to_string_lossy())?;
    if place.is_dir() {
        let endings: &[&str] = match format {
            Format::Copy => &[".csv", ".txt", ".tsv", ".bin"],
            Format::Json => &[".json", ".jsonl", ".ndjson"],
            Format::Parquet => &[".parquet"],
        };
        let fits = |name: &str| endings.iter().any(|ending| name.ends_with(ending));
        return found(&place, &place, fits);
    }
    let pattern = place.file_name().and_then(|name| name.to_str()).filter(|name| name.contains(['*', '?']));
    match (pattern, place.parent()) {
        (Some(pattern), Some(folder)) if !place.exists() => {
            found(&place, folder, |name| matches(pattern.as_bytes(), name.as_bytes()))
        }
        _ => Ok(vec![place]),
    }
}

/// Refuses what is no file of this machine: `s3://bucket/file`.
pub fn local(name: &str) -> Result<()> {
    match name.split_once("://") {
        Some((scheme, _)) if !scheme.is_empty() && scheme.bytes().all(|b| b.is_ascii_alphanumeric()) => {
            Err(SqlError::unsupported(format!("files of \"{scheme}://\" are not supported"))
                .with_hint("\"filename\" is a local file, a folder, or a pattern of files."))
        }
        _ => Ok(()),
    }
}

fn found(place: &Path, folder: &Path, fits: impl Fn(&str) -> bool) -> Result<Vec<PathBuf>> {
    let failed = |error| file_error("open", folder, &error);
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let is_fit = path.file_name().and_then(|name| name.to_str()).is_some_and(&fits);
        if is_fit && path.is_file() {
            files.push(path);
        }
    }
    if files.len() > FILES_MAX {
        let message = format!("\"{}\" are {} files", place.display(), files.len());
        return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
            .with_detail(format!("A table has at most {FILES_MAX}.")));
    }
    if files.is_empty() {
        let message = format!("could not open file \"{}\": No such file or directory", place.display());
        return Err(SqlError::new(SqlState::UNDEFINED_FILE, message));
    }
    files.sort();
    Ok(files)
}

/// `*` is any number of bytes, `?` is one.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    // Where the last star and what it has taken so far were, to let it take more.
    let (mut p, mut n, mut star) = (0, 0, None);
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p, n));
                p += 1;
            }
            Some(byte) if *byte == b'?' || *byte == name[n] => {
                p += 1;
                n += 1;
            }
            _ => {
                let Some((at, taken)) = star else { return false };
                star = Some((at, taken + 1));
                p = at + 1;
                n = taken + 1;
            }
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn patterns() {
        for (pattern, name) in [("*.csv", "a.csv"), ("a?c*", "abcd"), ("*a*b", "xaab"), ("*", ""), ("a", "a")]
        {
            assert!(matches(pattern.as_bytes(), name.as_bytes()), "{pattern} {name}");
        }
        for (pattern, name) in [("*.csv", "a.csv.gz"), ("a?", "a"), ("*a*b", "xba"), ("", "a"), ("a*b", "ac")]
        {
            assert!(!matches(pattern.as_bytes(), name.as_bytes()), "{pattern} {name}");
        }
    }
}
