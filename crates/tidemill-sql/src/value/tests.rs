//! Values of every type through both forms; the generators serve the tests of COPY too.

use std::sync::Arc;

use crate::types::Scalar;
use arrow::array::*;
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::*;
use rand::Rng;
use rand::rngs::StdRng;

use super::*;

/// From `TIDEMILL_TEST_SEED`, or a new one, which is printed.
pub fn seed() -> u64 {
    let given = std::env::var("TIDEMILL_TEST_SEED").ok().and_then(|s| s.parse().ok());
    let seed = given.unwrap_or_else(rand::random);
    println!("TIDEMILL_TEST_SEED={seed}");
    seed
}

pub fn all_types() -> impl Iterator<Item = Type> {
    Scalar::ALL.into_iter().flat_map(|scalar| [Type::new(scalar), Type::array(scalar)])
}

/// A column of any values of a type, NULLs included.
pub fn random_column(ty: Type, rows: usize, random: &mut StdRng) -> ArrayRef {
    let mut builder = ColumnBuilder::new(ty, &context(), rows);
    for _ in 0..rows {
        if random.random_bool(0.2) {
            builder.append_null();
        } else {
            let value = random_binary(ty, random);
            builder.append_binary(&value).unwrap_or_else(|e| panic!("{}: {value:?}: {e}", ty.display()));
        }
    }
    builder.finish()
}

fn random_binary(ty: Type, random: &mut StdRng) -> Vec<u8> {
    if ty.array {
        return random_array(Type { array: false, ..ty }, random);
    }
    match ty.scalar {
        Scalar::Bool => vec![u8::from(random.random::<bool>())],
        Scalar::Int2 => random.random::<i16>().to_be_bytes().into(),
        Scalar::Int4 => (random.random::<i32>() >> random.random_range(0..31)).to_be_bytes().into(),
        Scalar::Int8 => (random.random::<i64>() >> random.random_range(0..63)).to_be_bytes().into(),
        Scalar::Oid
        | Scalar::Xid
        | Scalar::Regproc
        | Scalar::Regprocedure
        | Scalar::Regclass
        | Scalar::Regtype
        | Scalar::Regnamespace
        | Scalar::Regrole => random.random::<u32>().to_be_bytes().into(),
        Scalar::Float4 => pick(random, &[0.0, -0.0, 1.5, f32::NAN, f32::INFINITY, f32::MIN, 1e-40, 0.1])
            .to_be_bytes()
            .into(),
        Scalar::Float8 => {
            let any = f64::from_bits(random.random());
            let any = if any.is_nan() { f64::NAN } else { any };
            pick(random, &[0.0, -0.0, 123.25, f64::NAN, f64::NEG_INFINITY, 5e-324, any]).to_be_bytes().into()
        }
        Scalar::Numeric => {
            let any = format!("{}.{}", random.random::<i64>(), random.random::<u32>());
            let text = pick(random, &["0", "-1.50", "NaN", "1e40", "-1e-40", "0.00", any.as_str()]);
            let mut out = Vec::new();
            crate::numeric::Numeric::parse(text).unwrap().to_wire(&mut out);
            out
        }
        Scalar::Date => {
            pick(random, &[-2_451_545, 0, i32::MAX, i32::MIN, 2_145_031_948, 9_000]).to_be_bytes().into()
        }
        Scalar::Time => random.random_range(0..=86_400_000_000_i64).to_be_bytes().into(),
        Scalar::Timestamp | Scalar::Timestamptz => {
            let any = random.random_range(-200_000_000_000_000_000_i64..9_000_000_000_000_000_000);
            pick(random, &[0, i64::MAX, i64::MIN, -1, any]).to_be_bytes().into()
        }
        Scalar::Interval => {
            let micros = pick(random, &[0_i64, 1, -1_500_000, 90_061_000_001, -86_400_000_000]);
            let days = pick(random, &[0_i32, 3, -400]);
            let months = pick(random, &[0_i32, 1, -13, 1200]);
            [&micros.to_be_bytes()[..], &days.to_be_bytes(), &months.to_be_bytes()].concat()
        }
        Scalar::Uuid => random.random::<[u8; 16]>().into(),
        Scalar::Bytea => (0..random.random_range(0..20)).map(|_| random.random()).collect(),
        Scalar::Json => pick(random, &["{\"a\" : [1,null]}", "\"x\\u0041\"", " 1.50 ", "null"]).into(),
        Scalar::Jsonb => pick(random, &["\x01{\"a\": [1, null]}", "\x01\"xA\"", "\x011.50"]).into(),
        Scalar::Char => vec![random.random_range(b' '..127)],
        Scalar::Text | Scalar::Varchar | Scalar::Bpchar | Scalar::Name => random_text(random).into_bytes(),
    }
}

fn random_text(random: &mut StdRng) -> String {
    let words = [
        "",
        "a",
        "\\",
        "\\N",
        "NULL",
        "\"",
        "'",
        ",",
        ";",
        "|",
        "\t",
        "\n",
        "\r",
        "{",
        "}",
        " ",
        "\u{e4}",
        "\u{1f600}",
        "\\.",
    ];
    (0..random.random_range(0..6)).map(|_| words[random.random_range(0..words.len())]).collect()
}

fn random_array(item: Type, random: &mut StdRng) -> Vec<u8> {
    let count = random.random_range(0..4_i32);
    let head = [i32::from(count > 0), 1, item.oid() as i32];
    let mut out: Vec<u8> = head.iter().flat_map(|w| w.to_be_bytes()).collect();
    if count > 0 {
        out.extend([count, 1].iter().flat_map(|w| w.to_be_bytes()));
    }
    for _ in 0..count {
        if random.random_bool(0.3) {
            out.extend((-1_i32).to_be_bytes());
        } else {
            let value = random_binary(item, random);
            out.extend((value.len() as i32).to_be_bytes());
            out.extend(value);
        }
    }
    out
}

fn pick<T: Copy>(random: &mut StdRng, values: &[T]) -> T {
    values[random.random_range(0..values.len())]
}

fn text_of(array: &dyn Array, ty: Type) -> Vec<String> {
    let encoder = ValueEncoder::new(array, ty, &context()).unwrap();
    (0..array.len())
        .map(|row| {
            let mut out = Vec::new();
            encoder.write_text(row, &mut out).unwrap();
            if encoder.is_null(row) { "~".to_string() } else { String::from_utf8(out).unwrap() }
        })
        .collect()
}

/// The text of a column of any Arrow type, shown as the type that PostgreSQL would have; the binary form says
/// the same.
fn shown(array: &dyn Array) -> Vec<String> {
    let ty = Type::from_arrow(array.data_type()).unwrap();
    let encoder = ValueEncoder::new(array, ty, &context()).unwrap();
    let mut back = ColumnBuilder::new(ty, &context(), array.len());
    for row in 0..array.len() {
        let mut out = Vec::new();
        encoder.write_binary_field(row, &mut out).unwrap();
        match out.split_first_chunk::<4>().unwrap() {
            (length, []) if i32::from_be_bytes(*length) == -1 => back.append_null(),
            (length, value) => {
                assert_eq!(i32::from_be_bytes(*length) as usize, value.len());
                back.append_binary(value).unwrap();
            }
        }
    }
    let text = text_of(array, ty);
    assert_eq!(text_of(&back.finish(), ty), text);
    text
}

fn text_error(ty: Type, text: &str) -> [String; 3] {
    let e = ColumnBuilder::new(ty, &context(), 1).append_text(text.as_bytes()).unwrap_err();
    let e = e.into_report();
    [e.state.0.to_string(), e.message, e.detail.unwrap_or_default()]
}

fn through_text(ty: Type, text: &str) -> String {
    let mut builder = ColumnBuilder::new(ty, &context(), 1);
    builder.append_text(text.as_bytes()).unwrap_or_else(|e| panic!("{text}: {e:?}"));
    text_of(&builder.finish(), ty).remove(0)
}

#[test]
fn every_arrow_type_that_has_a_type_is_shown() {
    assert_eq!(shown(&NullArray::new(1)), ["~"]);
    assert_eq!(shown(&Int8Array::from(vec![Some(-8), None])), ["-8", "~"]);
    assert_eq!(shown(&UInt16Array::from(vec![65_535])), ["65535"]);
    assert_eq!(shown(&UInt64Array::from(vec![Some(7), None])), ["7", "~"]);
    let decimal = Decimal128Array::from(vec![-12_345]).with_precision_and_scale(10, 2).unwrap();
    assert_eq!(shown(&decimal), ["-123.45"]);
    let decimal =
        Decimal256Array::from(vec![i256::from_i128(-12_300)]).with_precision_and_scale(50, 3).unwrap();
    assert_eq!(shown(&decimal), ["-12.300"]);
    assert_eq!(
        shown(&StringViewArray::from(vec![Some("a view longer than twelve"), None])),
        ["a view longer than twelve", "~"]
    );
    assert_eq!(shown(&BinaryViewArray::from(vec![&b"\x01\xff"[..]])), ["\\x01ff"]);
    let dictionary: DictionaryArray<Int32Type> =
        vec![Some("a"), None, Some("b"), Some("a")].into_iter().collect();
    assert_eq!(shown(&dictionary), ["a", "~", "b", "a"]);
    assert_eq!(shown(&Date64Array::from(vec![-1])), ["1969-12-31"]);
    assert_eq!(shown(&Time32SecondArray::from(vec![3_661])), ["01:01:01"]);
    assert_eq!(shown(&Time64NanosecondArray::from(vec![1_500_000])), ["00:00:00.0015"]);
    assert_eq!(shown(&TimestampSecondArray::from(vec![Some(0), None])), ["1970-01-01 00:00:00", "~"]);
    assert_eq!(shown(&TimestampNanosecondArray::from(vec![-1])), ["1969-12-31 23:59:59.999999"]);
    assert_eq!(shown(&DurationMillisecondArray::from(vec![90_061_500])), ["25:01:01.5"]);
    assert_eq!(shown(&IntervalYearMonthArray::from(vec![14])), ["1 year 2 mons"]);
    assert_eq!(shown(&IntervalDayTimeArray::from(vec![IntervalDayTime::new(2, 1_000)])), ["2 days 00:00:01"]);
}

#[test]
fn lists_of_each_kind_are_arrays() {
    let list =
        ListArray::from_iter_primitive::<Int32Type, _, _>([Some(vec![Some(1), None]), None, Some(vec![])]);
    assert_eq!(shown(&list), ["{1,NULL}", "~", "{}"]);
    assert_eq!(shown(&list.slice(1, 2)), ["~", "{}"]);
    let items: ArrayRef = Arc::new(StringArray::from(vec!["a b", "", "null", "q\"\\", "plain"]));
    let field = Arc::new(Field::new_list_field(DataType::Utf8, true));
    let large = LargeListArray::new(field.clone(), OffsetBuffer::from_lengths([4, 1]), items.clone(), None);
    assert_eq!(shown(&large), ["{\"a b\",\"\",\"null\",\"q\\\"\\\\\"}", "{plain}"]);
    let fixed = FixedSizeListArray::new(field, 2, items.slice(0, 4), None);
    assert_eq!(shown(&fixed.slice(1, 1)), ["{\"null\",\"q\\\"\\\\\"}"]);
}

#[test]
fn array_literals() {
    let text = Type::array(Scalar::Text);
    let int = Type::array(Scalar::Int4);
    assert_eq!(
        through_text(text, "{a,\"b \\\"c\",NULL,\"NULL\", d e , \\n\\ }"),
        "{a,\"b \\\"c\",NULL,\"NULL\",\"d e\",\"n \"}"
    );
    assert_eq!(through_text(int, " [1:2] = { 1 , 2 } "), "{1,2}");
    assert_eq!(through_text(int, "{}"), "{}");
    for (literal, detail) in [
        ("{1,2", "Unexpected end of input."),
        ("1,2", "Array value must start with \"{\" or dimension information."),
        ("{1}}", "Junk after closing right brace."),
        ("{1,}", "Unexpected \"}\" character."),
        ("{,1}", "Unexpected \",\" character."),
        ("{\"1\" 2}", "Unexpected array element."),
        ("{1\"2\"}", "Unexpected array element."),
    ] {
        let message = format!("malformed array literal: \"{literal}\"");
        assert_eq!(text_error(int, literal), ["22P02".to_string(), message, detail.to_string()]);
    }
    assert_eq!(text_error(int, "{1,2,a}")[1], "invalid input syntax for type integer: \"a\"");
    assert_eq!(text_error(int, "{{1},{2}}")[0], "0A000");
    assert_eq!(text_error(int, "[2:3]={1,2}")[0], "0A000");
}

#[test]
fn modifiers_are_applied() {
    let limited = |scalar, chars| Type::new(scalar).with_typmod(chars + 4);
    assert_eq!(through_text(limited(Scalar::Varchar, 2), "\u{e4}b  "), "\u{e4}b");
    assert_eq!(through_text(limited(Scalar::Bpchar, 4), "\u{e4}b"), "\u{e4}b  ");
    let message = "value too long for type character(2)";
    assert_eq!(text_error(limited(Scalar::Bpchar, 2), "abc")[..2], ["22001", message]);
    let money = Type::new(Scalar::Numeric).with_typmod(Type::numeric_typmod(5, 2));
    assert_eq!(through_text(money, "1.005"), "1.01");
    assert_eq!(text_error(money, "1000")[0], "22003");
    assert_eq!(
        through_text(Type::new(Scalar::Timestamp).with_typmod(0), "2024-01-01 00:00:00.5"),
        "2024-01-01 00:00:01"
    );
    assert_eq!(through_text(Type::new(Scalar::Name), &"x".repeat(70)).len(), 63);
}

#[test]
fn binary_errors_are_those_of_postgresql() {
    let error = |ty: Type, bytes: &[u8]| {
        let e = ColumnBuilder::new(ty, &context(), 1).append_binary(bytes).unwrap_err();
        format!("{} {}", e.state.0, e.message)
    };
    let one = Type::new;
    assert_eq!(error(one(Scalar::Date), b"\x7f\xff\xff\xfe"), "22008 date out of range");
    assert_eq!(error(one(Scalar::Time), b"\x7f\xff\xff\xfeaaaa"), "22008 time out of range");
    assert_eq!(error(one(Scalar::Timestamp), b"\x7f\xff\xff\xfeaaaa"), "22008 timestamp out of range");
    assert_eq!(error(one(Scalar::Jsonb), b"\x02{}"), "XX000 unsupported jsonb version number 2");
    assert_eq!(error(one(Scalar::Uuid), b"\xffa"), "08P01 insufficient data left in message");
    assert_eq!(error(one(Scalar::Bool), b"\x01a"), "22P03 incorrect binary data format");
    let array = |words: &[i32]| {
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_be_bytes()).collect();
        error(Type::array(Scalar::Int4), &bytes)
    };
    let wrong_type = "42804 binary data has array element type 25 (text) instead of expected 23 (integer)";
    assert_eq!(array(&[0, 0, 25]), wrong_type);
    assert_eq!(array(&[9, 0, 25]), "54000 number of array dimensions (9) exceeds the maximum allowed (6)");
    assert_eq!(array(&[1, 2, 25]), "22P03 invalid array flags");
    assert_eq!(array(&[1, 0, 23, 1, 1, 3, 1]), "08P01 insufficient data left in message");
    assert_eq!(array(&[1, 0, 23, -1, 1]), "54000 array size exceeds the maximum allowed (134217727)");
    assert_eq!(array(&[1, 0, 23, i32::MAX, 1]), "54000 array size exceeds the maximum allowed (134217727)");
}

pub fn context() -> Context {
    Context { now: 0.into(), zone: crate::text::TimeZone::UTC }
}
