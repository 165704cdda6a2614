//! One value of any type, in text and in binary. What is taken must survive being written and read again.
#![no_main]

use arrow::array::ArrayRef;
use libfuzzer_sys::fuzz_target;
use tidemill_sql::value::{ColumnBuilder, ValueEncoder};
use tidemill_sql::text::{Context, TimeZone};
use tidemill_sql::types::{Scalar, Type};

const SCALARS: [Scalar; 21] = [
    Scalar::Bool, Scalar::Int2, Scalar::Int4, Scalar::Int8, Scalar::Float4, Scalar::Float8, Scalar::Numeric,
    Scalar::Text, Scalar::Varchar, Scalar::Bpchar, Scalar::Name, Scalar::Bytea, Scalar::Date, Scalar::Time,
    Scalar::Timestamp, Scalar::Timestamptz, Scalar::Interval, Scalar::Uuid, Scalar::Json, Scalar::Jsonb, Scalar::Oid,
];

fuzz_target!(|data: &[u8]| {
    let [kind, form, bytes @ ..] = data else { return };
    let scalar = SCALARS[usize::from(*kind) % SCALARS.len()];
    let ty = if form & 1 == 0 { Type::new(scalar) } else { Type::array(scalar) };
    let context = Context { now_us: 1_700_000_000_000_000, zone: TimeZone::UTC };
    let binary = form & 2 != 0;
    let Some(column) = column(ty, &context, bytes, binary) else { return };
    for binary in [false, true] {
        let written = written(&column, ty, &context, binary).expect("what was taken can be written");
        let again = self::column(ty, &context, &written, binary)
            .unwrap_or_else(|| panic!("{ty:?}: {:?} can't be read again", String::from_utf8_lossy(&written)));
        let written_again = self::written(&again, ty, &context, binary).expect("it could be written once");
        assert_eq!(written, written_again, "{ty:?}");
    }
});

fn column(ty: Type, context: &Context, bytes: &[u8], binary: bool) -> Option<ArrayRef> {
    let mut builder = ColumnBuilder::new(ty, context, 1);
    let taken = if binary { builder.append_binary(bytes) } else { builder.append_text(bytes) };
    taken.ok()?;
    Some(builder.finish())
}

fn written(column: &ArrayRef, ty: Type, context: &Context, binary: bool) -> tidemill_sql::Result<Vec<u8>> {
    let encoder = ValueEncoder::new(column, ty, context)?;
    let mut out = Vec::new();
    if binary { encoder.write_binary(0, &mut out)? } else { encoder.write_text(0, &mut out)? }
    Ok(out)
}
