//! COPY's formats as a whole: errors as PostgreSQL 15 gives them, chunks, round trips, noise.

use std::sync::Arc;

use arrow::array::Array;

use crate::statement::{self, CopyColumns, CopyHeader, CopyOptions};
use crate::types::Scalar;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::binary::SIGNATURE;
use super::*;
use crate::value::tests::{all_types, context, random_column, seed};

fn column(name: &str, ty: Type) -> CopyColumn {
    CopyColumn { name: name.to_string(), ty }
}

fn columns(types: &[Type]) -> Vec<CopyColumn> {
    types.iter().zip(["x", "y", "z", "u", "v", "w"]).map(|(ty, name)| column(name, *ty)).collect()
}

const INT: Type = Type::new(Scalar::Int4);
const TEXT: Type = Type::new(Scalar::Text);
const FLOAT: Type = Type::new(Scalar::Float8);

fn decode(format: &CopyFormat, types: &[Type], chunks: &[&[u8]]) -> Result<Vec<RecordBatch>> {
    decode_by(3, format, types, chunks)
}

/// In batches of so many rows.
fn decode_by(rows: usize, format: &CopyFormat, types: &[Type], chunks: &[&[u8]]) -> Result<Vec<RecordBatch>> {
    let mut decoder = CopyDecoder::with_batch_rows(format, &columns(types), "s", &context(), rows);
    let mut batches = Vec::new();
    for chunk in chunks {
        decoder.push(chunk)?;
        while let Some(batch) = decoder.take_batch() {
            batches.push(batch);
        }
    }
    while let Some(batch) = decoder.finish()? {
        batches.push(batch);
    }
    assert_eq!(decoder.rows() as usize, batches.iter().map(RecordBatch::num_rows).sum::<usize>());
    Ok(batches)
}

fn encode(format: &CopyFormat, types: &[Type], batches: &[RecordBatch]) -> Vec<u8> {
    let mut encoder = CopyEncoder::new(format.clone(), columns(types), &context());
    let mut out = Vec::new();
    encoder.start(&mut out);
    for batch in batches {
        encoder.rows(batch, &mut out).unwrap();
    }
    encoder.finish(&mut out);
    out
}

fn text(change: impl FnOnce(&mut TextOptions)) -> CopyFormat {
    let mut options = TextOptions::text();
    change(&mut options);
    CopyFormat::Text(options)
}

fn csv(change: impl FnOnce(&mut TextOptions)) -> CopyFormat {
    let mut options = TextOptions::csv();
    change(&mut options);
    CopyFormat::Text(options)
}

fn csv_options(change: impl FnOnce(&mut CsvOptions)) -> CopyFormat {
    csv(|o| change(o.csv.as_mut().unwrap()))
}

/// The rows as plain text, NULL as `~`.
fn shown(format: &CopyFormat, types: &[Type], data: &[u8]) -> Result<String> {
    let plain = text(|o| o.null = b"~".to_vec());
    let batches = decode(format, types, &[data])?;
    Ok(String::from_utf8(encode(&plain, types, &batches)).unwrap())
}

fn error(format: &CopyFormat, types: &[Type], data: &[u8]) -> [String; 4] {
    let e = shown(format, types, data).expect_err("the data is wrong");
    let e = e.into_report();
    [e.state.0.to_string(), e.message, e.context.unwrap_or_default(), e.hint.unwrap_or_default()]
}

#[test]
fn text_is_read_as_postgresql_reads_it() {
    let rows = |types: &[Type], data: &[u8]| shown(&text(|_| ()), types, data).unwrap();
    assert_eq!(rows(&[INT, TEXT], b"1\ta\\\nb\n"), "1\ta\\nb\n");
    assert_eq!(rows(&[INT, TEXT], b"1\ta\n2\tb\\"), "1\ta\n2\tb\n");
    assert_eq!(rows(&[INT, TEXT], b"1\ta\n2\tb\\.\njunk"), "1\ta\n2\tb\n");
    assert_eq!(rows(&[INT, TEXT], b"1\ta\r\n2\tb\r\n3\t\\N\r\n"), "1\ta\n2\tb\n3\t~\n");
    assert_eq!(rows(&[INT, TEXT], b"1\ta\r2\tb\r"), "1\ta\n2\tb\n");
    assert_eq!(rows(&[INT, INT, FLOAT], b"\\N\t-5\t 1.5 \n+7\t\\N\t-1e3"), "~\t-5\t1.5\n7\t~\t-1000\n");
    assert_eq!(rows(&[TEXT], b"\n\n"), "\n\n");
    assert_eq!(rows(&[TEXT], b""), "");
    assert_eq!(
        rows(&[TEXT], b"\\N\n\\N\\N\n\\x4\\x41\\x414\\xg\\1\\101\\1011\\8\n"),
        "~\nNN\n\u{4}AA4xg\u{1}AA18\n"
    );
    let bars = text(|o| (o.delimiter, o.null) = (b'|', b"".to_vec()));
    assert_eq!(shown(&bars, &[TEXT, INT], b"|1\na\\|b|\n").unwrap(), "~\t1\na|b\t~\n");
    assert_eq!(shown(&text(|o| o.null = b"7".to_vec()), &[INT], b"7\n77\n").unwrap(), "~\n77\n");
}

#[test]
fn csv_is_read_as_postgresql_reads_it() {
    let rows = |types: &[Type], data: &[u8]| shown(&csv(|_| ()), types, data).unwrap();
    assert_eq!(rows(&[TEXT], b"a\n\\.x\n\\.\njunk"), "a\n\\\\.x\n");
    assert_eq!(rows(&[TEXT, INT], b"\"a\"\"b\nc\",1\n,\"2\"\n\"\",\n"), "a\"b\\nc\t1\n~\t2\n\t~\n");
    assert_eq!(rows(&[TEXT, INT], b"x\"y,\"z,1\r\n\"q\",2\r\n"), "xy,z\t1\nq\t2\n");
    let escaped = csv_options(|c| (c.quote, c.escape) = (b'\'', b'!'));
    assert_eq!(shown(&escaped, &[TEXT], b"a\n'b!'!!!c\n'\n").unwrap(), "a\nb'!!c\\n\n");
    let forced = csv(|o| {
        o.null = b"N".to_vec();
        o.csv.as_mut().unwrap().force_null = vec![true, false];
        o.csv.as_mut().unwrap().force_not_null = vec![false, true];
    });
    assert_eq!(shown(&forced, &[TEXT, TEXT], b"\"N\",N\nN,\"N\"\n").unwrap(), "~\tN\n~\tN\n");
    let header = csv(|o| o.header = CopyHeader::On);
    assert_eq!(shown(&header, &[INT, INT], b"whatever\n1,2").unwrap(), "1\t2\n");
    let header = csv(|o| o.header = CopyHeader::Match);
    assert_eq!(shown(&header, &[INT, INT], b"x,\"y\"\n1,2\n3,4\n").unwrap(), "1\t2\n3\t4\n");
}

/// Messages and contexts were taken from PostgreSQL 15.
#[test]
fn errors_of_text_and_csv_are_those_of_postgresql() {
    let tsv = text(|_| ());
    let csv_plain = csv(|_| ());
    let matched = csv(|o| o.header = CopyHeader::Match);
    let line2 = "COPY s, line 2";
    let cases: &[(&CopyFormat, &[Type], &[u8], &str, &str, &str)] = &[
        (
            &tsv,
            &[INT, INT],
            b"1\t2\n1\tabc\n",
            "22P02",
            "invalid input syntax for type integer: \"abc\"",
            "COPY s, line 2, column y: \"abc\"",
        ),
        (&tsv, &[INT, INT], b"1\n", "22P04", "missing data for column \"y\"", "COPY s, line 1: \"1\""),
        (
            &tsv,
            &[INT, INT],
            b"1\t2\n1\t2\t3\n",
            "22P04",
            "extra data after last expected column",
            "COPY s, line 2: \"1\t2\t3\"",
        ),
        (
            &tsv,
            &[INT, INT],
            b"1\t2\n\xff\t3\n",
            "22021",
            "invalid byte sequence for encoding \"UTF8\": 0xff",
            line2,
        ),
        (
            &tsv,
            &[INT, INT],
            b"abc\t\xff\n",
            "22021",
            "invalid byte sequence for encoding \"UTF8\": 0xff",
            "COPY s, line 1",
        ),
        (
            &tsv,
            &[INT, TEXT],
            b"1\ta\\xffb\n",
            "22021",
            "invalid byte sequence for encoding \"UTF8\": 0xff",
            "COPY s, line 1: \"1\ta\\xffb\"",
        ),
        (
            &tsv,
            &[INT, TEXT],
            b"1\ta\\0b\n",
            "22021",
            "invalid byte sequence for encoding \"UTF8\": 0x00",
            "COPY s, line 1: \"1\ta\\0b\"",
        ),
        (&tsv, &[INT, TEXT], b"1\ta\r\n2\tb\n", "22P04", "literal newline found in data", line2),
        (&tsv, &[INT, TEXT], b"1\ta\n2\tb\r\n", "22P04", "literal carriage return found in data", line2),
        (&tsv, &[INT, TEXT], b"1\ta\n2\tb\\.", "22P04", "end-of-copy marker corrupt", line2),
        (&tsv, &[INT, TEXT], b"1\ta\n\\.x\n", "22P04", "end-of-copy marker corrupt", line2),
        (
            &tsv,
            &[INT, TEXT],
            b"1\ta\n\\.\r\n",
            "22P04",
            "end-of-copy marker does not match previous newline style",
            line2,
        ),
        (
            &csv_plain,
            &[INT, TEXT],
            b"1,a\n\\.x\n",
            "22P02",
            "invalid input syntax for type integer: \"\\.x\"",
            "COPY s, line 2, column x: \"\\.x\"",
        ),
        (
            &csv_plain,
            &[TEXT],
            b"a\n\"b\nc\"\n\"d\n",
            "22P04",
            "unterminated CSV quoted field",
            "COPY s, line 5: \"\"d\n\"",
        ),
        (
            &csv_plain,
            &[TEXT],
            b"a\n\"b\r\nc\"\rd\n",
            "22P04",
            "unquoted carriage return found in data",
            "COPY s, line 3",
        ),
        (&csv_plain, &[TEXT], b"a\r\nb\n", "22P04", "unquoted newline found in data", line2),
        (
            &csv_plain,
            &[INT, INT],
            b"1,2\n\"3\n\",z\n",
            "22P02",
            "invalid input syntax for type integer: \"z\"",
            "COPY s, line 3, column y: \"z\"",
        ),
        (
            &matched,
            &[INT, INT],
            b"x,z\n",
            "22P04",
            "column name mismatch in header line field 2: got \"z\", expected \"y\"",
            "COPY s, line 1: \"x,z\"",
        ),
        (
            &matched,
            &[INT, INT],
            b"x\n",
            "22P04",
            "wrong number of fields in header line: got 1, expected 2",
            "COPY s, line 1: \"x\"",
        ),
        (
            &matched,
            &[INT, INT],
            b"x,\n",
            "22P04",
            "column name mismatch in header line field 2: got null value (\"\"), expected \"y\"",
            "COPY s, line 1: \"x,\"",
        ),
        (
            &tsv,
            &[Type::new(Scalar::Varchar).with_typmod(6)],
            b"abc\n",
            "22001",
            "value too long for type character varying(2)",
            "COPY s, line 1, column x: \"abc\"",
        ),
    ];
    for (format, types, data, state, message, context) in cases {
        let got = error(format, types, data);
        assert_eq!(got[..3], [*state, *message, *context], "{:?}", String::from_utf8_lossy(data));
    }
    assert_eq!(error(&tsv, &[TEXT], b"a\r\nb\n")[3], "Use \"\\n\" to represent newline.");
    assert_eq!(
        error(&csv_plain, &[TEXT], b"a\nb\r")[3],
        "Use quoted CSV field to represent carriage return."
    );
}

#[test]
fn options_of_a_statement() {
    let columns = columns(&[INT, TEXT]);
    let mut options =
        CopyOptions { format: statement::CopyFormat::Csv, quote: Some(b'\''), ..CopyOptions::default() };
    options.force_null = CopyColumns::Some(vec!["y".to_string()]);
    let CopyFormat::Text(text) = CopyFormat::new(&options, &columns).unwrap() else { panic!("not binary") };
    let csv = text.csv.unwrap();
    assert_eq!(
        (text.delimiter, csv.quote, csv.escape, csv.force_null),
        (b',', b'\'', b'\'', vec![false, true])
    );
    options.force_quote = CopyColumns::Some(vec!["b".to_string()]);
    let error = CopyFormat::new(&options, &columns).unwrap_err();
    assert_eq!(error.message, "FORCE_QUOTE column \"b\" not referenced by COPY");
    assert_eq!(
        CopyFormat::new(&CopyOptions::default(), &columns).unwrap(),
        CopyFormat::Text(TextOptions::text())
    );
}

fn binary_file(rows: &[u8]) -> Vec<u8> {
    [&b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0"[..], rows].concat()
}

#[test]
fn errors_of_binary_are_those_of_postgresql() {
    let row = |rows: &[u8]| error(&CopyFormat::Binary, &[INT], &binary_file(rows))[..3].join("|");
    let x = "COPY s, line 1, column x";
    assert_eq!(row(b"\0\x01\0\0\0\x03\0\0\0"), format!("08P01|insufficient data left in message|{x}"));
    assert_eq!(row(b"\0\x01\0\0\0\x05\0\0\0\0\0"), format!("22P03|incorrect binary data format|{x}"));
    assert_eq!(row(b"\0\x02\0\0\0\x04\0\0\0\0"), "22P04|row field count is 2, expected 1|COPY s, line 1");
    assert_eq!(row(b"\0\x01\0\0\0\x04\0\0\0"), format!("22P04|unexpected EOF in COPY data|{x}"));
    assert_eq!(row(b"\0\x01\xff\xff\xff\xfe"), format!("22P04|invalid field size|{x}"));
    let after = row(b"\0\x01\0\0\0\x04\0\0\0\x07\xff\xffz");
    assert_eq!(after, "22P04|received copy data after EOF marker|COPY s, line 2");
    let header = |data: &[u8]| error(&CopyFormat::Binary, &[INT], data)[1].clone();
    assert_eq!(header(b"PGCOPY\r"), "COPY file signature not recognized");
    assert_eq!(header(b""), "COPY file signature not recognized");
    assert_eq!(header(b"PGCOPY\n\xff\r\n\0\0\0"), "invalid COPY file header (missing flags)");
    assert_eq!(header(b"PGCOPY\n\xff\r\n\0\0\x01\0\0\0\0\0\0"), "invalid COPY file header (WITH OIDS)");
    assert_eq!(
        header(b"PGCOPY\n\xff\r\n\0\0\x02\0\0\0\0\0\0"),
        "unrecognized critical flags in COPY file header"
    );
    assert_eq!(header(b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0"), "invalid COPY file header (missing length)");
    assert_eq!(header(b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\x05abc"), "invalid COPY file header (wrong length)");
}

#[test]
fn where_chunks_are_split_does_not_matter() {
    let types = [INT, TEXT, FLOAT];
    let binary = encode(
        &CopyFormat::Binary,
        &types,
        &decode(&text(|_| ()), &types, &[b"1\ta\t1.5\n2\t\\N\t-3\n\\N\tlong enough\t4\n-4\t\t5\n"]).unwrap(),
    );
    let files: [(CopyFormat, Vec<u8>); 5] = [
        (
            text(|_| ()),
            b"1\ta\\\\\\nb\t1.5\n22\tx\\\ny\t-2.25\n\\N\t\xc3\xa4\\x41\t\\N\n-4\t\t5\n\\.\nrest".to_vec(),
        ),
        (text(|_| ()), b"1\ta\t1.5\r\n22\t\\N\t-2.25\r\n333\tb\\\r\t0.5\r\n\\.\r\nrest".to_vec()),
        (
            csv(|o| o.header = CopyHeader::Match),
            b"x,y,z\n1,\"a\n\"\"b\",1.5\n2,,\n\"3\",\"\\.\",7\n4,\xc3\xa4,8\n\\.\n".to_vec(),
        ),
        (csv_options(|c| c.escape = b'\\'), b"1,\"a\\\"\r\nb\",1.5\r\n2,\"q\\\\\",\r\n3,z,1\r\n".to_vec()),
        (CopyFormat::Binary, binary),
    ];
    for (format, data) in &files {
        let whole = decode(format, &types, &[data]).unwrap();
        assert!(whole.iter().map(RecordBatch::num_rows).sum::<usize>() >= 3);
        for first in 0..=data.len() {
            for second in first..=data.len() {
                let chunks = [&data[..first], &data[first..second], &data[second..]];
                assert_eq!(decode(format, &types, &chunks).unwrap(), whole, "split at {first} and {second}");
            }
        }
        let bytes: Vec<_> = data.chunks(1).collect();
        assert_eq!(decode(format, &types, &bytes).unwrap(), whole, "byte by byte");
    }
}

#[test]
fn a_row_that_is_longer_than_many_chunks() {
    let long = "ab\\\\c\"\n".repeat(20_000);
    let data = format!("1,\"{}\",2\n3,x,4\n", long.replace('"', "\"\""));
    let types = [INT, TEXT, INT];
    let whole = decode(&csv(|_| ()), &types, &[data.as_bytes()]).unwrap();
    let binary = encode(&CopyFormat::Binary, &types, &whole);
    for (format, data) in [(csv(|_| ()), data.as_bytes()), (CopyFormat::Binary, &binary[..])] {
        let chunks: Vec<_> = data.chunks(1000).collect();
        assert_eq!(decode(&format, &types, &chunks).unwrap(), whole);
    }
}

#[test]
fn every_type_in_every_format_comes_back() {
    let mut random = StdRng::seed_from_u64(seed());
    let formats = [
        text(|_| ()),
        text(|o| (o.delimiter, o.null, o.header) = (b'|', b"".to_vec(), CopyHeader::Match)),
        csv(|_| ()),
        csv(|o| {
            (o.delimiter, o.null, o.header) = (b';', b"NULL".to_vec(), CopyHeader::Match);
            let csv = o.csv.as_mut().unwrap();
            (csv.quote, csv.escape, csv.force_quote) = (b'\'', b'\\', vec![true]);
        }),
        CopyFormat::Binary,
    ];
    for ty in all_types() {
        let rows = random.random_range(1..50);
        let schema = arrow::datatypes::Schema::new(vec![ty.field("x")]);
        let column = random_column(ty, rows, &mut random);
        let batch = RecordBatch::try_new(schema.into(), vec![column]).unwrap();
        for format in &formats {
            // Text with an empty NULL cannot tell it from an empty string.
            let empty_null = matches!(format, CopyFormat::Text(o) if o.csv.is_none() && o.null.is_empty());
            let data = encode(format, &[ty], std::slice::from_ref(&batch));
            let back = decode(format, &[ty], &[&data]).unwrap_or_else(|e| {
                panic!("{}: {e:?} in {:?}", ty.display(), String::from_utf8_lossy(&data))
            });
            if empty_null && matches!(ty.arrow(), arrow::datatypes::DataType::Utf8) {
                continue;
            }
            let back = arrow::compute::concat_batches(batch.schema_ref(), &back).unwrap();
            assert_eq!(back, batch, "{} {:?}", ty.display(), String::from_utf8_lossy(&data));
        }
    }
}

#[test]
fn rows_of_binary_that_are_plain_are_read_as_the_others() {
    let mut random = StdRng::seed_from_u64(seed());
    let scalars = [Scalar::Int2, Scalar::Int4, Scalar::Int8, Scalar::Float4, Scalar::Float8, Scalar::Oid];
    let types = scalars.map(Type::new);
    let fields: Vec<_> = columns(&types).iter().map(|c| c.ty.field(c.name.as_str())).collect();
    let schema = Arc::new(arrow::datatypes::Schema::new(fields));
    // With NULLs here and there, and then without.
    let mut whole = encode(&CopyFormat::Binary, &types, &[]);
    whole.truncate(binary_file(b"").len());
    let mut batches = Vec::new();
    for rows in [700, 1, 300] {
        let columns = types.map(|ty| random_column(ty, rows, &mut random));
        let batch = RecordBatch::try_new(Arc::clone(&schema), columns.to_vec()).unwrap();
        let plain = arrow::compute::filter_record_batch(&batch, &without_nulls(&batch)).unwrap();
        for part in [batch, plain] {
            let file = encode(&CopyFormat::Binary, &types, std::slice::from_ref(&part));
            whole.extend(&file[binary_file(b"").len()..file.len() - 2]);
            batches.push(part);
        }
    }
    let expected = arrow::compute::concat_batches(&schema, &batches).unwrap();
    for batch_rows in [3, 100, BATCH_ROWS_TARGET] {
        let size = random.random_range(1..5_000);
        let chunks: Vec<_> = whole.chunks(size).collect();
        let back = decode_by(batch_rows, &CopyFormat::Binary, &types, &chunks).unwrap();
        let back = arrow::compute::concat_batches(&schema, &back).unwrap();
        assert_eq!(back, expected, "chunks of {size} into batches of {batch_rows}");
    }
    let line = expected.num_rows() + 1;
    whole.extend(b"\0\x07");
    let error = error(&CopyFormat::Binary, &types, &whole)[..3].join("|");
    assert_eq!(error, format!("22P04|row field count is 7, expected 6|COPY s, line {line}"));
}

fn without_nulls(batch: &RecordBatch) -> arrow::array::BooleanArray {
    let all = |row| Some(batch.columns().iter().all(|column| column.is_valid(row)));
    (0..batch.num_rows()).map(all).collect()
}

/// Files with carriage returns for newlines are not read by the fast path.
#[test]
fn the_fast_path_and_the_rules_agree() {
    let mut random = StdRng::seed_from_u64(seed());
    let words = [
        "1",
        "-2",
        "2147483648",
        "12345678901234567",
        "1.5",
        "-0",
        "1e400",
        "5.",
        " 7",
        "+8",
        "NaN",
        "",
        "x",
        "\"q\"",
        "\"a,b\"",
        "\"a\"\"b\"",
        "t",
        "\\N",
        "\\t",
        "123456789.123456789",
        "0.1e-3",
        "\u{e4}",
        "null",
        "2024-02-30",
        "-",
    ];
    let types = [
        Scalar::Int2,
        Scalar::Int4,
        Scalar::Int8,
        Scalar::Float4,
        Scalar::Float8,
        Scalar::Text,
        Scalar::Oid,
        Scalar::Bool,
    ];
    for _ in 0..20_000 {
        let types: Vec<_> = (0..3).map(|_| Type::new(types[random.random_range(0..types.len())])).collect();
        let formats = [(text(|_| ()), "\t"), (csv(|_| ()), ","), (csv(|o| o.null = b"null".to_vec()), ",")];
        for (format, delimiter) in formats {
            let mut row = || [(); 3].map(|()| words[random.random_range(0..words.len())]).join(delimiter);
            let [first, second] = [row(), row()];
            let decoded = |newline: &str| {
                let data = ["1", "1", "1"].join(delimiter) + newline + &first + newline + &second + newline;
                decode(&format, &types, &[data.as_bytes()])
            };
            assert_eq!(decoded("\n"), decoded("\r"), "{types:?} {first:?} {second:?}");
        }
    }
}

#[test]
fn noise_is_an_error_or_rows_but_never_a_panic() {
    let mut random = StdRng::seed_from_u64(seed());
    let words: [&[u8]; 24] = [
        b"\t",
        b"\n",
        b"\r\n",
        b"\r",
        b",",
        b"\"",
        b"\"\"",
        b"\\",
        b"\\.",
        b"\\N",
        b"\\x4",
        b"\\1",
        b"1",
        b"-2.5",
        b"abc",
        b"{1,2}",
        b"\xff",
        b"\0",
        b"\xc3\xa4",
        b"1e400",
        b"2024-01-01",
        b"\0\x01\0\0\0\x04\0\0\0\x01",
        b"\xff\xff",
        b"|",
    ];
    let all: Vec<_> = all_types().collect();
    for _ in 0..20_000 {
        let mut data = Vec::new();
        if random.random_bool(0.3) {
            data = binary_file(b"");
        }
        for _ in 0..random.random_range(0..20) {
            data.extend_from_slice(words[random.random_range(0..words.len())]);
        }
        let types: Vec<_> =
            (0..random.random_range(0..4)).map(|_| all[random.random_range(0..all.len())]).collect();
        let header = [CopyHeader::Off, CopyHeader::On, CopyHeader::Match][random.random_range(0..3)];
        let split = random.random_range(0..=data.len());
        let chunks = [&data[..split], &data[split..]];
        for format in [text(|o| o.header = header), csv(|o| o.header = header), CopyFormat::Binary] {
            let in_two = decode(&format, &types, &chunks);
            assert_eq!(in_two, decode(&format, &types, &[&data]), "{types:?} {data:?} split at {split}");
        }
    }
}

#[test]
fn messages_may_end_anywhere_in_a_row() {
    let seed = seed();
    let mut random = StdRng::seed_from_u64(seed);
    let types = [INT, TEXT, FLOAT];
    let rows =
        shown(&text(|_| {}), &types, b"1\tone\t0.5\n\\N\t\\N\t\\N\n3\t\t1e300\n4\tfour\t-0\n").unwrap();
    let batches = decode(&text(|o| o.null = b"~".to_vec()), &types, &[rows.as_bytes()]).unwrap();
    let data = encode(&CopyFormat::Binary, &types, &batches);
    for _ in 0..200 {
        let mut decoder =
            CopyDecoder::with_batch_rows(&CopyFormat::Binary, &columns(&types), "s", &context(), 100);
        let (mut rest, mut messages) = (data.as_slice(), Vec::new());
        while !rest.is_empty() {
            let (part, next) = rest.split_at(random.random_range(1..=rest.len().min(40)));
            messages.push(b'd');
            messages.extend((part.len() as u32 + 4).to_be_bytes());
            messages.extend_from_slice(part);
            rest = next;
            if random.random_bool(0.3) {
                decoder.push_messages(&std::mem::take(&mut messages)).unwrap();
            }
        }
        decoder.push_messages(&messages).unwrap();
        let decoded = decoder.finish().unwrap().unwrap();
        assert_eq!(encode(&CopyFormat::Binary, &types, &[decoded]), data);
    }
}

/// Rows come as a server sends them, one a message; some are not plain, and some messages hold more or less than a row.
#[test]
fn rows_in_messages_are_read_as_they_are_alone() {
    let mut random = StdRng::seed_from_u64(seed());
    let types = [INT, FLOAT];
    for batch_rows in [1, 7, 300, 10_000] {
        let header = [&SIGNATURE[..], &[0; 8]].concat();
        let mut parts = vec![header];
        for i in 0..2_000_i32 {
            let mut row = vec![0, 2, 0, 0, 0, 4];
            row.extend(i.to_be_bytes());
            match random.random_bool(0.01) {
                true => row.extend((-1_i32).to_be_bytes()),
                false => row.extend([&[0, 0, 0, 8][..], &(f64::from(i) / 8.0).to_be_bytes()].concat()),
            }
            match random.random_range(0..100) {
                0 => parts.extend([row[..5].to_vec(), row[5..].to_vec()]),
                1 => parts.last_mut().unwrap().extend(row),
                _ => parts.push(row),
            }
        }
        parts.push(vec![0xff, 0xff]);
        let message = |part: &Vec<u8>| [&b"d"[..], &(part.len() as u32 + 4).to_be_bytes(), part].concat();
        let columns = columns(&types);
        let new = || CopyDecoder::with_batch_rows(&CopyFormat::Binary, &columns, "s", &context(), batch_rows);
        let taken = |mut decoder: CopyDecoder| {
            let mut batches = Vec::new();
            while let Some(batch) = decoder.finish().unwrap() {
                batches.push(batch);
            }
            (decoder.rows(), batches)
        };
        let (mut alone, mut in_messages) = (new(), new());
        for part in &parts {
            alone.push(part).unwrap();
        }
        for messages in parts.chunks(random.random_range(1..500)) {
            in_messages.push_messages(&messages.iter().flat_map(message).collect::<Vec<_>>()).unwrap();
        }
        let (rows, batches) = taken(in_messages);
        assert_eq!(rows, 2_000);
        assert_eq!((rows, batches), taken(alone));
    }
}
