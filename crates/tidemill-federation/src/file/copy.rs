//! Files in the formats of COPY, by its decoder and with its options and messages.

use std::io::Read;
use std::sync::Arc;

use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use tidemill_sql::copy::{CopyColumn, CopyDecoder, CopyFormat};
use tidemill_sql::name::{quote_ident, quote_literal};
use tidemill_sql::parse::parse_one;
use tidemill_sql::statement::{CopyOptions, Statement};
use tidemill_sql::text::{Context, TimeZone};
use tidemill_sql::{Result, SqlError};

use super::Scan;
use super::input::{Input, read_error};
use super::place::Place;
use crate::option::{Options, parse_bool};
use crate::table::ForeignColumn;

const CHUNK_BYTES: usize = 256 << 10;

/// The options of COPY that a table's are, checked as COPY checks them.
pub fn options(options: &Options, columns: &[ForeignColumn]) -> Result<CopyOptions> {
    let mut list = Vec::new();
    for (name, value) in options.iter().filter(|(name, _)| *name != "filename") {
        // Without quotes, because MATCH is a word.
        let shown = match name {
            "header" if value.eq_ignore_ascii_case("match") => "MATCH".to_string(),
            _ => quote_literal(value),
        };
        list.push(format!("{name} {shown}"));
    }
    for name in ["force_not_null", "force_null"] {
        let on = |column: &&ForeignColumn| column.options.get(name).and_then(parse_bool) == Some(true);
        let forced: Vec<_> = columns.iter().filter(on).map(|column| quote_ident(&column.name)).collect();
        if !forced.is_empty() {
            list.push(format!("{name} ({})", forced.join(", ")));
        }
    }
    let list = if list.is_empty() { String::new() } else { format!(" WITH ({})", list.join(", ")) };
    let parsed = parse_one(&format!("COPY t FROM STDIN{list}")).map_err(|mut error| {
        // It is one in a text that nobody has written.
        error.position = None;
        error
    })?;
    match parsed.map(|parsed| parsed.statement) {
        Some(Statement::Copy(copy)) => Ok(copy.options),
        _ => Err(SqlError::internal("the options of a file are no options of COPY")),
    }
}

/// False: nobody wants more.
pub fn read(scan: &Scan<'_>, place: &Place) -> Result<bool> {
    let definition = scan.definition();
    let columns: Vec<_> =
        definition.columns.iter().map(|c| CopyColumn { name: c.name.clone(), ty: c.ty }).collect();
    let format = CopyFormat::new(&options(&definition.options, &definition.columns)?, &columns)?;
    let context = Context { now: 0.into(), zone: TimeZone::UTC };
    let mut decoder =
        CopyDecoder::with_batch_rows(&format, &columns, &definition.name, &context, scan.batch_rows);
    let wanted = scan.wanted()?;
    let mut file = Input::open(place, &scan.access)?;
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let count = file.read(&mut chunk).map_err(|error| read_error(place, &error))?;
        if count == 0 {
            break;
        }
        (scan.access.counted)(count);
        decoder.push(&chunk[..count])?;
        while let Some(batch) = decoder.take_batch() {
            if !scan.pass_on(projected(scan, &batch, &wanted)?) {
                return Ok(false);
            }
        }
    }
    while let Some(batch) = decoder.finish()? {
        if !scan.pass_on(projected(scan, &batch, &wanted)?) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn projected(scan: &Scan<'_>, batch: &RecordBatch, wanted: &[usize]) -> Result<RecordBatch> {
    let columns = wanted.iter().map(|place| Arc::clone(batch.column(*place))).collect();
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(&scan.schema), columns, &options)
        .map_err(|error| SqlError::internal(error.to_string()))
}
