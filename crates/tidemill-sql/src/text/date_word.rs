//! The words in dates and times: months, `pm`, `today`, abbreviations of zones.

use super::abbreviation::{self, Meaning};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    /// `at`, `on`.
    Filler,
    /// From 1.
    Month(i32),
    Weekday,
    Am,
    Pm,
    Ad,
    Bc,
    /// `DST` after a zone: an hour more.
    SummerTime,
    /// The `T` before a time of day.
    IsoTime,
    /// The next number is a Julian day.
    Julian,
    Now,
    Yesterday,
    Today,
    Tomorrow,
    /// `allballs`: midnight in UTC.
    Zulu,
    Epoch,
    Infinity,
    MinusInfinity,
    /// An abbreviation of a zone.
    Zone(Meaning),
}

/// `name` is in lower case. Zones come first: `sat` is never one, but PostgreSQL's table may be changed to
/// have it.
pub fn find(name: &str) -> Option<Word> {
    match abbreviation::find(name) {
        Some(meaning) => Some(Word::Zone(meaning)),
        None => find_keyword(name),
    }
}

/// All but abbreviations of zones.
pub fn find_keyword(name: &str) -> Option<Word> {
    Some(match name {
        "at" | "on" => Word::Filler,
        "jan" | "january" => Word::Month(1),
        "feb" | "february" => Word::Month(2),
        "mar" | "march" => Word::Month(3),
        "apr" | "april" => Word::Month(4),
        "may" => Word::Month(5),
        "jun" | "june" => Word::Month(6),
        "jul" | "july" => Word::Month(7),
        "aug" | "august" => Word::Month(8),
        "sep" | "sept" | "september" => Word::Month(9),
        "oct" | "october" => Word::Month(10),
        "nov" | "november" => Word::Month(11),
        "dec" | "december" => Word::Month(12),
        "sun" | "sunday" | "mon" | "monday" | "tue" | "tues" | "tuesday" | "wed" | "weds" | "wednesday" => {
            Word::Weekday
        }
        "thu" | "thur" | "thurs" | "thursday" | "fri" | "friday" | "sat" | "saturday" => Word::Weekday,
        "am" => Word::Am,
        "pm" => Word::Pm,
        "ad" => Word::Ad,
        "bc" => Word::Bc,
        "dst" => Word::SummerTime,
        "t" => Word::IsoTime,
        "j" | "jd" | "julian" => Word::Julian,
        "now" => Word::Now,
        "yesterday" => Word::Yesterday,
        "today" => Word::Today,
        "tomorrow" => Word::Tomorrow,
        "allballs" => Word::Zulu,
        "epoch" => Word::Epoch,
        "infinity" => Word::Infinity,
        "-infinity" => Word::MinusInfinity,
        _ => return None,
    })
}

/// Whether a digit or a plus after the word begins something new. Units are keywords too (`y2001`), though
/// they mean nothing here.
pub fn is_keyword(name: &str) -> bool {
    find_keyword(name).is_some()
        || matches!(name, "d" | "dow" | "doy" | "h" | "isodow" | "isoyear" | "m" | "mm" | "s" | "y")
}
