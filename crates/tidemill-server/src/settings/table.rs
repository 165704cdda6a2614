//! The table of all settings: what each is called, holds, defaults to, and who may change it when.

use std::sync::LazyLock;

use super::{pipelinedb, postgres, tidemill};

/// One row of the table.
#[derive(Debug)]
pub struct Setting {
    pub name: &'static str,
    pub kind: Kind,
    /// As it would be written in the configuration file.
    pub default: &'static str,
    pub context: Context,
    pub effect: Effect,
    pub category: &'static str,
    pub description: &'static str,
}

/// What a setting holds. Bounds are inclusive and in the base unit.
#[derive(Debug)]
pub enum Kind {
    Bool,
    Integer {
        min: i64,
        max: i64,
        unit: Option<Unit>,
    },
    Real {
        min: f64,
        max: f64,
    },
    /// The values that are listed, and other spellings of them that are not.
    Enum {
        values: &'static [&'static str],
        aliases: &'static [(&'static str, &'static str)],
    },
    Text,
    /// Comma-separated words that `SET` takes as a list: `DateStyle`, `listen_addresses`.
    Words,
    /// Comma-separated SQL names, quoted where they must be: `search_path`.
    Names,
}

/// The unit of an integer setting without a unit in its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Kilobytes,
    /// Blocks of 8 kB.
    Blocks,
    Microseconds,
    Milliseconds,
    Seconds,
}

/// When a setting can be changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Context {
    /// Never: it tells a property of the server.
    Internal,
    /// In the configuration file or on the command line.
    Postmaster,
    /// At any time, by `SET`.
    User,
}

/// What changing a setting does. Nothing is ignored without a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    Honoured,
    /// PostgreSQL's, for clients that set it; here it changes nothing. Says so at DEBUG1.
    None,
    /// PipelineDB's, for scripts that set it; here it changes nothing. Says so as a NOTICE; the text, if any,
    /// is the hint.
    Replaced(&'static str),
}

impl Context {
    /// As in `pg_settings.context`.
    pub fn as_str(self) -> &'static str {
        match self {
            Context::Internal => "internal",
            Context::Postmaster => "postmaster",
            Context::User => "user",
        }
    }
}

/// Other names under which a setting is known, all of PipelineDB.
const ALIASES: [(&str, &str); 3] = [
    ("pipelinedb.stream_insert_level", "stream_insert_level"),
    ("pipelinedb.stream_targets", "stream_targets"),
    ("pipelinedb.sliding_window_step_factor", "sliding_window_step_factor"),
];

/// All settings, sorted by name without regard to case, as `SHOW ALL` lists them.
pub static SETTINGS: LazyLock<Vec<&'static Setting>> = LazyLock::new(|| {
    let mut all: Vec<_> = [tidemill::SETTINGS, postgres::SETTINGS, pipelinedb::SETTINGS].concat();
    all.sort_by_key(|setting| setting.name.to_ascii_lowercase());
    all
});

/// The place in [`SETTINGS`] of a setting, by its name or an alias, in any case.
pub fn find(name: &str) -> Option<usize> {
    let alias = ALIASES.iter().find(|(alias, _)| alias.eq_ignore_ascii_case(name));
    let name = alias.map_or(name, |(_, name)| name);
    SETTINGS.binary_search_by(|setting| lower_case(setting.name).cmp(lower_case(name))).ok()
}

fn lower_case(name: &str) -> impl Iterator<Item = u8> {
    name.bytes().map(|byte| byte.to_ascii_lowercase())
}

/// A setting whose name is like this one, for a hint.
pub fn similar(name: &str) -> Option<&'static str> {
    let name = name.to_ascii_lowercase();
    let candidates =
        SETTINGS.iter().map(|setting| (distance(&name, &setting.name.to_ascii_lowercase()), setting.name));
    candidates
        .min()
        .filter(|(distance, _)| *distance <= (2 + name.len() / 8).min(name.len() / 2))
        .map(|(_, name)| name)
}

/// The Levenshtein distance in bytes.
fn distance(left: &str, right: &str) -> usize {
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, a) in left.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in right.bytes().enumerate() {
            let substituted = diagonal + usize::from(a != b);
            diagonal = row[j + 1];
            row[j + 1] = substituted.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[right.len()]
}

pub(super) const fn integer(min: i64, max: i64) -> Kind {
    Kind::Integer { min, max, unit: None }
}

pub(super) const fn quantity(min: i64, max: i64, unit: Unit) -> Kind {
    Kind::Integer { min, max, unit: Some(unit) }
}

pub(super) const fn choice(values: &'static [&'static str]) -> Kind {
    Kind::Enum { values, aliases: &[] }
}

/// Writes rows as `name: kind = default, context, "description";` under a category and an effect.
macro_rules! settings {
    ($($category:literal, $effect:expr => { $($name:literal: $kind:expr, $default:expr, $context:ident, $description:expr;)* })*) => {
        pub(super) static SETTINGS: &[&$crate::settings::table::Setting] = &[$($(
            &$crate::settings::table::Setting {
                name: $name,
                kind: $kind,
                default: $default,
                context: $crate::settings::table::Context::$context,
                effect: $effect,
                category: $category,
                description: $description,
            },
        )*)*];
    };
}
pub(super) use settings;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_in_any_case_and_by_alias() {
        assert_eq!(SETTINGS[find("timezone").unwrap()].name, "TimeZone");
        assert_eq!(SETTINGS[find("PipelineDB.Stream_Targets").unwrap()].name, "stream_targets");
        assert_eq!(find("nonsense"), None);
        for (index, setting) in SETTINGS.iter().enumerate() {
            assert_eq!(find(setting.name), Some(index), "{}", setting.name);
        }
    }

    #[test]
    fn similar_names_are_suggested() {
        assert_eq!(similar("memry_limit"), Some("memory_limit"));
        assert_eq!(similar("statement_timout"), Some("statement_timeout"));
        assert_eq!(similar("zzzzzz"), None);
    }

    #[test]
    fn every_row_is_in_order() {
        for setting in SETTINGS.iter() {
            let value = setting.kind.parse(setting.name, setting.default);
            assert!(value.is_ok(), "{}: {value:?}", setting.name);
            assert!(setting.description.ends_with('.'), "{}", setting.name);
        }
    }
}
