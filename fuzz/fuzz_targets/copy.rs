//! Data of COPY in text, CSV and binary. It means the same however it is cut into messages.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tidemill_sql::copy::{CopyColumn, CopyDecoder, CopyFormat, TextOptions};
use tidemill_sql::text::{Context, TimeZone};
use tidemill_sql::types::{Scalar, Type};

fuzz_target!(|data: &[u8]| {
    let [format, shape, cut, bytes @ ..] = data else { return };
    let options = match format % 4 {
        0 => TextOptions::text(),
        1 => TextOptions::csv(),
        2 => TextOptions { delimiter: b';', null: b"x".to_vec(), ..TextOptions::csv() },
        _ => TextOptions { delimiter: b'|', ..TextOptions::text() },
    };
    let format = if format & 0x80 != 0 { CopyFormat::Binary } else { CopyFormat::Text(options) };
    let columns = columns(*shape);
    let whole = decode(&format, &columns, &[bytes]);
    let (head, tail) = bytes.split_at(usize::from(*cut).min(bytes.len()));
    let parts = decode(&format, &columns, &[head, tail]);
    match (&whole, &parts) {
        (Ok(whole), Ok(parts)) => assert_eq!(whole, parts),
        (Err(whole), Err(parts)) => assert_eq!(whole, parts),
        _ => panic!("in one piece {whole:?}, in two {parts:?}"),
    }
});

/// The first columns are numbers: the fast path takes them.
fn columns(shape: u8) -> Vec<CopyColumn> {
    let scalars = [
        Scalar::Int4, Scalar::Int4, Scalar::Float8, Scalar::Text, Scalar::Numeric, Scalar::Timestamptz, Scalar::Bytea,
        Scalar::Bool,
    ];
    let mut columns: Vec<_> = scalars[..1 + usize::from(shape & 7)]
        .iter()
        .map(|scalar| CopyColumn { name: "c".into(), ty: Type::new(*scalar) })
        .collect();
    if shape & 8 != 0 {
        columns.push(CopyColumn { name: "a".into(), ty: Type::array(Scalar::Text) });
    }
    columns
}

/// The batches printed, or the error.
fn decode(format: &CopyFormat, columns: &[CopyColumn], chunks: &[&[u8]]) -> Result<String, String> {
    let context = Context { now_us: 1_700_000_000_000_000, zone: TimeZone::UTC };
    let mut decoder = CopyDecoder::with_batch_rows(format, columns, "s", &context, 3);
    let mut out = String::new();
    let mut take = || {
        for chunk in chunks {
            decoder.push(chunk)?;
        }
        while let Some(batch) = decoder.finish()? {
            for row in 0..batch.num_rows() {
                out.push_str(&format!("{:?}\n", batch.slice(row, 1).columns()));
            }
        }
        Ok(())
    };
    match take() {
        Ok(()) => Ok(out),
        Err::<(), tidemill_sql::SqlError>(error) => Err(format!("{} {:?}", error.message, error.context)),
    }
}
