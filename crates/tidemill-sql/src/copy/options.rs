//! What COPY's options come to for one column list.

use crate::statement::{self, CopyColumns, CopyHeader, CopyOptions};
use crate::{Result, SqlError, SqlState};

use super::CopyColumn;

/// How rows are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopyFormat {
    /// Text, or CSV when `csv` is set.
    Text(TextOptions),
    Binary,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextOptions {
    pub delimiter: u8,
    pub null: Vec<u8>,
    pub header: CopyHeader,
    pub csv: Option<CsvOptions>,
}

/// The `force` lists hold a flag for each column, or nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CsvOptions {
    pub quote: u8,
    pub escape: u8,
    pub force_quote: Vec<bool>,
    pub force_not_null: Vec<bool>,
    pub force_null: Vec<bool>,
}

impl CopyFormat {
    /// The options of a statement, with PostgreSQL's defaults, for the columns that are copied.
    pub fn new(options: &CopyOptions, columns: &[CopyColumn]) -> Result<CopyFormat> {
        let mut text = match options.format {
            statement::CopyFormat::Binary => return Ok(CopyFormat::Binary),
            statement::CopyFormat::Text => TextOptions::text(),
            statement::CopyFormat::Csv => TextOptions::csv(),
        };
        text.header = options.header;
        if let Some(delimiter) = options.delimiter {
            text.delimiter = delimiter;
        }
        if let Some(null) = &options.null {
            text.null = null.clone().into_bytes();
        }
        if let Some(csv) = &mut text.csv {
            csv.quote = options.quote.unwrap_or(csv.quote);
            csv.escape = options.escape.unwrap_or(csv.quote);
            csv.force_quote = flags("FORCE_QUOTE", &options.force_quote, columns)?;
            csv.force_not_null = flags("FORCE_NOT_NULL", &options.force_not_null, columns)?;
            csv.force_null = flags("FORCE_NULL", &options.force_null, columns)?;
        }
        Ok(CopyFormat::Text(text))
    }
}

impl TextOptions {
    /// The defaults of `FORMAT text`.
    pub fn text() -> Self {
        Self { delimiter: b'\t', null: b"\\N".to_vec(), header: CopyHeader::Off, csv: None }
    }

    /// The defaults of `FORMAT csv`.
    pub fn csv() -> Self {
        let csv = CsvOptions {
            quote: b'"',
            escape: b'"',
            force_quote: Vec::new(),
            force_not_null: Vec::new(),
            force_null: Vec::new(),
        };
        Self { delimiter: b',', null: Vec::new(), header: CopyHeader::Off, csv: Some(csv) }
    }
}

fn flags(option: &str, chosen: &CopyColumns, columns: &[CopyColumn]) -> Result<Vec<bool>> {
    let names = match chosen {
        CopyColumns::None => return Ok(Vec::new()),
        CopyColumns::All => return Ok(vec![true; columns.len()]),
        CopyColumns::Some(names) => names,
    };
    if let Some(name) = names.iter().find(|name| columns.iter().all(|c| c.name != **name)) {
        let message = format!("{option} column \"{name}\" not referenced by COPY");
        return Err(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message));
    }
    Ok(columns.iter().map(|c| names.contains(&c.name)).collect())
}

/// Whether a field is the NULL marker. Comparing nothing with the marker that is nothing would hand `memcmp`
/// a dangling pointer, which is allowed and, with masked vector loads, costs 150 ns.
#[inline]
pub(super) fn is_null(field: &[u8], null: &[u8]) -> bool {
    field.len() == null.len() && (field.is_empty() || field == null)
}

/// A flag of a `force` list; a list that is too short does not hold the column.
pub(super) fn flag(flags: &[bool], column: usize) -> bool {
    flags.get(column).copied().unwrap_or(false)
}
