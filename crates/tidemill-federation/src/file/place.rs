//! Which files a table consists of.

use std::fmt;
use std::path::{Path, PathBuf};

use tidemill_sql::{Result, SqlError, SqlState};

use super::url::Url;
use super::{Access, Format, file_error};
use crate::table::TableDefinition;

/// Files of a table at most.
pub const FILES_MAX: usize = 10_000;

/// One file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// Of this machine.
    Local(PathBuf),
    Remote(Url),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Local(path) => path.display().fmt(f),
            Place::Remote(url) => url.fmt(f),
        }
    }
}

impl Place {
    /// The last part.
    pub fn name(&self) -> &str {
        match self {
            Place::Local(path) => path.file_name().and_then(|name| name.to_str()).unwrap_or_default(),
            Place::Remote(url) => url.name(),
        }
    }
}

/// What the table's definition says: a file, a folder, or a pattern.
pub fn of(definition: &TableDefinition) -> PathBuf {
    let options = &definition.options;
    match options.get("filename").or(options.get("dirname")) {
        Some(name) => PathBuf::from(name),
        None => Path::new(&definition.remote_schema).join(&definition.remote_table),
    }
}

/// The files, in the order of their names.
pub fn files(definition: &TableDefinition, format: Format, access: &Access) -> Result<Vec<Place>> {
    let place = of(definition);
    let is_folder = definition.options.get("dirname").is_some();
    let endings: &[&str] = match format {
        Format::Copy => &[".csv", ".txt", ".tsv", ".bin"],
        Format::Json => &[".json", ".jsonl", ".ndjson"],
        Format::Parquet => &[".parquet"],
    };
    let has_ending = |name: &str| endings.iter().any(|ending| name.ends_with(ending));
    if let Some(url) = Url::parse(&place.to_string_lossy())? {
        let url = if is_folder { url.folder()? } else { url };
        return remote(url, has_ending, access);
    }
    if is_folder || place.is_dir() {
        return found(&place.display(), local(&place, has_ending)?);
    }
    let pattern = place.file_name().and_then(|name| name.to_str()).filter(|name| name.contains(['*', '?']));
    match (pattern, place.parent()) {
        (Some(pattern), Some(folder)) if !place.exists() => {
            let fits = |name: &str| matches(pattern.as_bytes(), name.as_bytes());
            found(&place.display(), local(folder, fits)?)
        }
        _ => Ok(vec![Place::Local(place)]),
    }
}

fn remote(url: Url, has_ending: impl Fn(&str) -> bool, access: &Access) -> Result<Vec<Place>> {
    let Url::S3 { key, .. } = &url else { return Ok(vec![Place::Remote(url)]) };
    let name = key.rsplit('/').next().unwrap_or_default();
    let listed = match name {
        "" => access.list(&url, &has_ending)?,
        // What a store has by a name with a star cannot be told from a pattern.
        _ if name.contains(['*', '?']) => {
            access.list(&url, &|found| matches(name.as_bytes(), found.as_bytes()))?
        }
        _ => return Ok(vec![Place::Remote(url)]),
    };
    found(&url, listed)
}

/// The files of a folder whose names fit.
pub fn local(folder: &Path, fits: impl Fn(&str) -> bool) -> Result<Vec<Place>> {
    let failed = |error| file_error("open", &folder.display(), &error);
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let is_fit = path.file_name().and_then(|name| name.to_str()).is_some_and(&fits);
        if is_fit && path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files.into_iter().map(Place::Local).collect())
}

/// Some, but not too many. Of a store no more are listed than tell that they are.
fn found(place: &dyn fmt::Display, files: Vec<Place>) -> Result<Vec<Place>> {
    if files.len() > FILES_MAX {
        let message = format!("\"{place}\" are more than {FILES_MAX} files");
        return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
            .with_detail(format!("A table has at most {FILES_MAX}.")));
    }
    if files.is_empty() {
        let message = format!("could not open file \"{place}\": No such file or directory");
        return Err(SqlError::new(SqlState::UNDEFINED_FILE, message));
    }
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
