//! COPY TO: Arrow batches to text, CSV or binary.

use crate::Result;
use crate::statement::CopyHeader;
use crate::text::Context;
use crate::types::{Scalar, Type};
use arrow::record_batch::RecordBatch;

use super::CopyColumn;
use super::binary::SIGNATURE;
use super::options::{CopyFormat, CsvOptions, TextOptions, flag, is_null};
use crate::value::ValueEncoder;

/// Encodes the rows of COPY TO; the bytes are appended to the caller's buffer, in whole rows.
pub struct CopyEncoder {
    format: CopyFormat,
    columns: Vec<CopyColumn>,
    context: Context,
    /// The bytes that text escapes or CSV quotes.
    special: [bool; 256],
    /// The columns whose values are written as they are: numbers that nothing in the options looks like.
    plain: Vec<bool>,
    value: Vec<u8>,
}

impl CopyEncoder {
    pub fn new(format: CopyFormat, columns: Vec<CopyColumn>, context: &Context) -> Self {
        let special = match &format {
            CopyFormat::Text(options) => special_bytes(options),
            CopyFormat::Binary => [false; 256],
        };
        let plain = columns.iter().map(|c| is_number(c.ty) && leaves_numbers_alone(&format)).collect();
        Self { format, columns, context: context.clone(), special, plain, value: Vec::new() }
    }

    /// What comes before the first row.
    pub fn start(&self, out: &mut Vec<u8>) {
        match &self.format {
            CopyFormat::Binary => {
                out.extend_from_slice(SIGNATURE);
                // No flags, no extension.
                out.extend_from_slice(&[0; 8]);
            }
            CopyFormat::Text(options) if options.header != CopyHeader::Off => {
                for (i, column) in self.columns.iter().enumerate() {
                    self.write_delimiter(i, options, out);
                    self.write_value(column.name.as_bytes(), options, false, out);
                }
                out.push(b'\n');
            }
            CopyFormat::Text(_) => {}
        }
    }

    /// The rows of a batch, whose columns are those of `new`; returns where each has ended in `out`.
    pub fn rows(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<Vec<usize>> {
        let mut ends = Vec::with_capacity(batch.num_rows());
        let encoders = self.columns.iter().zip(batch.columns());
        let encoders = encoders.map(|(column, array)| ValueEncoder::new(array, column.ty, &self.context));
        let encoders = encoders.collect::<Result<Vec<_>>>()?;
        let mut value = std::mem::take(&mut self.value);
        for row in 0..batch.num_rows() {
            match &self.format {
                CopyFormat::Binary => {
                    out.extend_from_slice(&(encoders.len() as i16).to_be_bytes());
                    encoders.iter().try_for_each(|encoder| encoder.write_binary_field(row, out))?;
                }
                CopyFormat::Text(options) => self.text_row(row, &encoders, options, &mut value, out)?,
            }
            ends.push(out.len());
        }
        self.value = value;
        Ok(ends)
    }

    /// What comes after the last row.
    pub fn finish(&self, out: &mut Vec<u8>) {
        if self.format == CopyFormat::Binary {
            out.extend_from_slice(&(-1_i16).to_be_bytes());
        }
    }

    fn text_row(
        &self,
        row: usize,
        encoders: &[ValueEncoder],
        options: &TextOptions,
        value: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        for (i, encoder) in encoders.iter().enumerate() {
            self.write_delimiter(i, options, out);
            if encoder.is_null(row) {
                out.extend_from_slice(&options.null);
            } else if self.plain[i] {
                encoder.write_text(row, out)?;
            } else {
                value.clear();
                encoder.write_text(row, value)?;
                let force_quote = options.csv.as_ref().is_some_and(|csv| flag(&csv.force_quote, i));
                self.write_value(value, options, force_quote, out);
            }
        }
        out.push(b'\n');
        Ok(())
    }

    fn write_delimiter(&self, column: usize, options: &TextOptions, out: &mut Vec<u8>) {
        if column > 0 {
            out.push(options.delimiter);
        }
    }

    fn write_value(&self, value: &[u8], options: &TextOptions, force_quote: bool, out: &mut Vec<u8>) {
        let has_special = || value.iter().any(|b| self.special[usize::from(*b)]);
        match &options.csv {
            None if has_special() => write_escaped(value, &self.special, out),
            None => out.extend_from_slice(value),
            Some(csv) => {
                // What would be read as NULL or as an end marker is quoted.
                let misread = is_null(value, &options.null) || (self.columns.len() == 1 && value == b"\\.");
                if force_quote || misread || has_special() {
                    write_quoted(value, csv, out);
                } else {
                    out.extend_from_slice(value);
                }
            }
        }
    }
}

fn is_number(ty: Type) -> bool {
    use Scalar::*;
    !ty.array && matches!(ty.scalar, Int2 | Int4 | Int8 | Oid | Float4 | Float8 | Numeric)
}

fn leaves_numbers_alone(format: &CopyFormat) -> bool {
    let CopyFormat::Text(options) = format else { return false };
    let in_number = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.');
    let Some(csv) = &options.csv else { return !in_number(options.delimiter) };
    let null_is_number = std::str::from_utf8(&options.null).is_ok_and(|null| null.parse::<f64>().is_ok());
    !in_number(options.delimiter)
        && !in_number(csv.quote)
        && !null_is_number
        && !csv.force_quote.contains(&true)
}

fn special_bytes(options: &TextOptions) -> [bool; 256] {
    let mut special = [false; 256];
    let fixed: &[u8] = if options.csv.is_some() { b"\n\r" } else { b"\\\x08\x0c\n\r\t\x0b" };
    for byte in
        fixed.iter().copied().chain([options.delimiter]).chain(options.csv.as_ref().map(|csv| csv.quote))
    {
        special[usize::from(byte)] = true;
    }
    special
}

fn write_escaped(value: &[u8], special: &[bool; 256], out: &mut Vec<u8>) {
    for &byte in value {
        if special[usize::from(byte)] {
            out.push(b'\\');
        }
        out.push(match byte {
            _ if !special[usize::from(byte)] => byte,
            0x08 => b'b',
            0x0c => b'f',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            0x0b => b'v',
            other => other,
        });
    }
}

fn write_quoted(value: &[u8], csv: &CsvOptions, out: &mut Vec<u8>) {
    out.push(csv.quote);
    for &byte in value {
        if byte == csv.quote || byte == csv.escape {
            out.push(csv.escape);
        }
        out.push(byte);
    }
    out.push(csv.quote);
}
