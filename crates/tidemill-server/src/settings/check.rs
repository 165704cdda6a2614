//! What single settings demand of their values beyond their kind, and the spelling they are kept in.

use tidemill_sql::text::TimeZone;
use tidemill_sql::{SqlError, SqlState};

use super::value::{Value, invalid, split_names};

/// The order of day, month and year when a date could be read in several ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DateOrder {
    Mdy,
    Dmy,
    Ymd,
}

/// The only role there is.
const SUPERUSER: &str = "postgres";

/// Checks a text value and gives it the spelling that `SHOW` prints.
pub(super) fn text(name: &str, text: &str) -> Result<String, SqlError> {
    match name {
        "DateStyle" => date_style(text, DateOrder::Mdy),
        "IntervalStyle" if text != "postgres" => {
            Err(SqlError::unsupported(format!("IntervalStyle \"{text}\" is not supported"))
                .with_hint("Intervals are shown in the style \"postgres\"."))
        }
        "TimeZone" => TimeZone::parse(text).map(|zone| zone.name().to_owned()),
        "client_encoding" => client_encoding(text),
        "application_name" => Ok(printable(text)),
        "search_path" | "stream_targets" | "temp_tablespaces" => match split_names(text) {
            Some(_) => Ok(text.to_owned()),
            None => Err(invalid(name, text).with_detail("List syntax is invalid.")),
        },
        "metrics_listen" => addresses(text),
        "lc_messages" | "lc_monetary" | "lc_numeric" | "lc_time" => locale(name, text),
        "role" if text.eq_ignore_ascii_case("none") => Ok("none".to_owned()),
        "role" | "session_authorization" if !matches!(text, "" | SUPERUSER) => {
            Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, format!("role \"{text}\" does not exist")))
        }
        _ => Ok(text.to_owned()),
    }
}

/// Checks a value that was read.
pub(super) fn value(name: &str, value: Value) -> Result<Value, SqlError> {
    match (name, &value) {
        ("standard_conforming_strings", Value::Bool(false)) => Err(invalid(name, "off")
            .with_detail("Backslashes in '...' strings are always literal.")
            .with_hint("Use the escape string syntax for backslash escapes, e.g., E'\\r\\n'.")),
        _ => Ok(value),
    }
}

/// Reads a list of key words as PostgreSQL does; an order that is not given is the one before. Dates are
/// shown in ISO only.
pub(super) fn date_style(text: &str, before: DateOrder) -> Result<String, SqlError> {
    let words =
        split_names(text).ok_or_else(|| invalid("DateStyle", text).with_detail("List syntax is invalid."))?;
    let mut style: Option<&str> = None;
    let mut order: Option<DateOrder> = None;
    for word in &words {
        let (word_style, word_order) = match word.as_str() {
            "iso" => (Some("ISO"), None),
            "sql" => (Some("SQL"), None),
            "german" => (Some("German"), None),
            "ymd" => (None, Some(DateOrder::Ymd)),
            "default" => (Some("ISO"), Some(DateOrder::Mdy)),
            _ if word.starts_with("postgres") => (Some("Postgres"), None),
            _ if word == "dmy" || word.starts_with("euro") => (None, Some(DateOrder::Dmy)),
            _ if matches!(word.as_str(), "mdy" | "us") || word.starts_with("noneuro") => {
                (None, Some(DateOrder::Mdy))
            }
            _ => {
                return Err(
                    invalid("DateStyle", text).with_detail(format!("Unrecognized key word: \"{word}\"."))
                );
            }
        };
        let conflict = (style.is_some() && word_style.is_some() && style != word_style)
            || (order.is_some() && word_order.is_some() && order != word_order);
        if conflict {
            return Err(invalid("DateStyle", text).with_detail("Conflicting \"datestyle\" specifications."));
        }
        style = style.or(word_style);
        order = order.or(word_order);
    }
    match style {
        None | Some("ISO") => Ok(format!("ISO, {}", order.unwrap_or(before).as_str())),
        Some(other) => Err(SqlError::unsupported(format!("DateStyle \"{other}\" is not supported"))
            .with_hint("Dates are shown in the style \"ISO\".")),
    }
}

impl DateOrder {
    pub fn as_str(self) -> &'static str {
        match self {
            DateOrder::Mdy => "MDY",
            DateOrder::Dmy => "DMY",
            DateOrder::Ymd => "YMD",
        }
    }

    /// The order in a value of `DateStyle`.
    pub(super) fn of(date_style: &str) -> Self {
        match date_style {
            _ if date_style.ends_with("DMY") => DateOrder::Dmy,
            _ if date_style.ends_with("YMD") => DateOrder::Ymd,
            _ => DateOrder::Mdy,
        }
    }
}

/// Only UTF-8 is spoken; with SQL_ASCII a client takes bytes as they come, which are UTF-8 too.
fn client_encoding(text: &str) -> Result<String, SqlError> {
    let name: String =
        text.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
    match name.as_str() {
        "utf8" | "unicode" => Ok("UTF8".to_owned()),
        "sqlascii" => Ok("SQL_ASCII".to_owned()),
        _ => Err(invalid("client_encoding", text).with_hint("Available values: UTF8, SQL_ASCII.")),
    }
}

/// `address:port`, separated by commas; whether there is such an address is found out when it is listened on.
fn addresses(text: &str) -> Result<String, SqlError> {
    let is_address = |word: &str| {
        word.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
    };
    if text.trim().is_empty() || text.split(',').all(|word| is_address(word.trim())) {
        return Ok(text.to_owned());
    }
    Err(invalid("metrics_listen", text)
        .with_hint("Write addresses with their ports, such as 127.0.0.1:9187."))
}

/// Messages are in English and no value depends on a locale; the names of locales that agree with that are
/// taken.
fn locale(name: &str, text: &str) -> Result<String, SqlError> {
    let language = text.split('.').next().unwrap_or_default();
    if matches!(language, "" | "C" | "POSIX" | "en_US" | "en_GB") {
        return Ok(text.to_owned());
    }
    Err(invalid(name, text))
}

/// As PostgreSQL shows names that end up in logs: bytes that are not printable ASCII are question marks.
fn printable(text: &str) -> String {
    text.bytes().map(|byte| if (32..127).contains(&byte) { char::from(byte) } else { '?' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detail(error: SqlError) -> String {
        let error = error.into_report();
        error.detail.unwrap_or(error.message)
    }

    #[test]
    fn date_styles() {
        let set = |text| date_style(text, DateOrder::Dmy);
        assert_eq!(set("iso").unwrap(), "ISO, DMY");
        assert_eq!(set("").unwrap(), "ISO, DMY");
        assert_eq!(set("iso,iso,mdy,us").unwrap(), "ISO, MDY");
        assert_eq!(set("\"iso\" , ymd").unwrap(), "ISO, YMD");
        assert_eq!(set("default").unwrap(), "ISO, MDY");
        assert_eq!(detail(set("foo").unwrap_err()), "Unrecognized key word: \"foo\".");
        assert_eq!(detail(set("mdy,dmy").unwrap_err()), "Conflicting \"datestyle\" specifications.");
        assert_eq!(detail(set("us,,iso").unwrap_err()), "List syntax is invalid.");
        assert_eq!(set("German").unwrap_err().message, "DateStyle \"German\" is not supported");
    }

    #[test]
    fn encodings_names_and_locales() {
        assert_eq!(text("client_encoding", "utf-8").unwrap(), "UTF8");
        assert_eq!(text("client_encoding", "Unicode").unwrap(), "UTF8");
        assert!(text("client_encoding", "latin1").unwrap_err().into_report().hint.unwrap().contains("UTF8"));
        assert_eq!(text("application_name", "gr\u{fc}n\n").unwrap(), "gr??n?");
        assert!(text("lc_messages", "xx_YY").is_err() && text("lc_messages", "en_US.UTF-8").is_ok());
        for (given, is_good) in [
            ("", true),
            ("127.0.0.1:9187", true),
            ("localhost:0, [::1]:9187", true),
            ("9187", false),
            (":9187", false),
            ("127.0.0.1", false),
            ("127.0.0.1:99999", false),
            ("127.0.0.1:1,", false),
        ] {
            assert_eq!(text("metrics_listen", given).is_ok(), is_good, "{given}");
        }
        assert_eq!(text("role", "NONE").unwrap(), "none");
        assert_eq!(text("role", "nobody").unwrap_err().message, "role \"nobody\" does not exist");
        assert_eq!(
            text("search_path", "a, \"b").unwrap_err().into_report().detail.unwrap(),
            "List syntax is invalid."
        );
    }
}
