//! Tests of how values are read and shown; every case was run on PostgreSQL 15.

use super::*;
use crate::settings::table::{SETTINGS, find};

fn set(name: &str, text: &str) -> Result<String, SqlError> {
    let setting = SETTINGS[find(name).unwrap()];
    setting.kind.parse(setting.name, text).map(|value| setting.kind.show(&value))
}

fn shows(name: &str, cases: &[(&str, &str)]) {
    for (text, shown) in cases {
        assert_eq!(set(name, text).unwrap(), *shown, "{name} = {text}");
    }
}

fn refuses(name: &str, text: &str, message: &str, hint: Option<&str>) {
    let error = set(name, text).unwrap_err();
    assert_eq!((error.state.0, error.message.as_str(), error.hint.as_deref()), ("22023", message, hint));
}

const SIZES: &str = "Valid units for this parameter are \"B\", \"kB\", \"MB\", \"GB\", and \"TB\".";
const TIMES_HINT: &str =
    "Valid units for this parameter are \"us\", \"ms\", \"s\", \"min\", \"h\", and \"d\".";

#[test]
fn sizes() {
    let cases = [
        ("1.5MB", "1536kB"),
        ("1 GB", "1GB"),
        ("  8MB  ", "8MB"),
        ("1e3", "1000kB"),
        ("0100", "64kB"),
        ("+100", "100kB"),
        (".5MB", "512kB"),
        ("100.4", "100kB"),
        ("30.1GB", "30822MB"),
        ("0.1GB", "102MB"),
    ];
    shows("work_mem", &cases);
    shows("temp_buffers", &[("1MB", "1MB"), ("100", "800kB")]);
    let range = "outside the valid range for parameter \"work_mem\" (64 .. 2147483647)";
    for (text, shown) in [("1kB", "1 kB"), ("1", "1 kB"), ("-1", "-1 kB"), ("100.7B", "0 kB")] {
        refuses("work_mem", text, &format!("{shown} is {range}"), None);
    }
    for text in ["abc", "", "nan", "inf"] {
        refuses("work_mem", text, &format!("invalid value for parameter \"work_mem\": \"{text}\""), None);
    }
    for text in ["12 zB", "12gb", "12 qux", "8 MB x", "08"] {
        refuses(
            "work_mem",
            text,
            &format!("invalid value for parameter \"work_mem\": \"{text}\""),
            Some(SIZES),
        );
    }
    for text in ["99999999999", "999999999999999999999999999"] {
        let message = format!("invalid value for parameter \"work_mem\": \"{text}\"");
        refuses("work_mem", text, &message, Some("Value exceeds integer range."));
    }
}

#[test]
fn times() {
    let cases = [
        ("5 min", "5min"),
        ("1500", "1500ms"),
        ("90s", "90s"),
        ("1.5h", "90min"),
        ("0", "0"),
        ("0x10", "16ms"),
        ("1us", "0"),
        ("500us", "0"),
    ];
    shows("statement_timeout", &cases);
    shows("commit_delay", &[("2ms", "2ms"), ("1500", "1500us"), ("0", "0")]);
    let message = "invalid value for parameter \"statement_timeout\": \"5 MB\"";
    refuses("statement_timeout", "5 MB", message, Some(TIMES_HINT));
    let message = "-1 ms is outside the valid range for parameter \"statement_timeout\" (0 .. 2147483647)";
    refuses("statement_timeout", "-1", message, None);
}

#[test]
fn numbers() {
    shows("extra_float_digits", &[("1.5", "2"), ("-0", "0"), ("3 ", "3")]);
    let message = "4 is outside the valid range for parameter \"extra_float_digits\" (-15 .. 3)";
    refuses("extra_float_digits", "4", message, None);
    refuses(
        "extra_float_digits",
        "3 ms",
        "invalid value for parameter \"extra_float_digits\": \"3 ms\"",
        None,
    );
    shows("random_page_cost", &[("1.5", "1.5"), ("4", "4")]);
    let message = "-1 is outside the valid range for parameter \"random_page_cost\" (0 .. 1.79769e+308)";
    refuses("random_page_cost", "-1", message, None);
    refuses("random_page_cost", "1e400", "invalid value for parameter \"random_page_cost\": \"1e400\"", None);
    refuses("random_page_cost", "x", "invalid value for parameter \"random_page_cost\": \"x\"", None);
}

#[test]
fn booleans_and_enums() {
    shows("row_security", &[("of", "off"), ("1", "on"), ("YES", "on"), ("t", "on"), ("fals", "off")]);
    for text in ["maybe", "o", " on", "2", ""] {
        refuses("row_security", text, "parameter \"row_security\" requires a Boolean value", None);
    }
    shows("client_min_messages", &[("WARNING", "warning"), ("debug", "debug2")]);
    shows("synchronous_commit", &[("1", "on"), ("false", "off")]);
    let hint = "Available values: content, document.";
    refuses("xmloption", " document", "invalid value for parameter \"xmloption\": \" document\"", Some(hint));
}

#[test]
fn lists_of_names() {
    let join = |values: &[&str]| Kind::Names.join("search_path", values).unwrap();
    assert_eq!(join(&["a b", "Foo", "x", "$user"]), "\"a b\", \"Foo\", x, \"$user\"");
    assert_eq!(join(&[""]), "\"\"");
    assert_eq!(join(&["a,,b"]), "\"a,,b\"");
    assert_eq!(Kind::Names.join("stream_targets", &["v0,v1"]).unwrap(), "v0,v1");
    assert_eq!(Kind::Bool.join("x", &["1", "2"]).unwrap_err().message, "SET x takes only one argument");
    assert_eq!(split_names("a, \"B \"\"c\" ,D").unwrap(), ["a", "B \"c", "d"]);
    assert_eq!(split_names("").unwrap(), Vec::<String>::new());
    for text in ["a, \"B c", "a, \"B c\",,", "a b", ",", "a,"] {
        assert_eq!(split_names(text), None, "{text}");
    }
}
