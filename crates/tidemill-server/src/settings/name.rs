//! Which setting a name means, the rules for custom names, and what single settings are exempt from.

use std::sync::{Arc, LazyLock};

use tidemill_sql::{SqlError, SqlState};

use super::table::{Effect, SETTINGS, Setting, find, similar};
use crate::pg::wire_error::Notice;

/// Settings of a transaction, and where each begins.
pub(super) const OF_TRANSACTION: [(&str, &str); 3] = [
    ("transaction_isolation", "default_transaction_isolation"),
    ("transaction_read_only", "default_transaction_read_only"),
    ("transaction_deferrable", "default_transaction_deferrable"),
];

/// The same by their names' places, for every transaction looks at them.
pub(super) static TRANSACTION_NAMES: LazyLock<[(Name, Name); 3]> = LazyLock::new(|| {
    let known =
        |name| Name::Known(find(name).expect("the names above are in the table, which a test checks"));
    OF_TRANSACTION.map(|(setting, default)| (known(setting), known(default)))
});

/// A known setting by its place in the table, or a custom one by its name in lower case.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Name {
    Known(usize),
    Custom(Arc<str>),
}

/// The default from which a setting of the transaction begins; `None` for other settings.
pub(super) fn transaction_default(name: &Name) -> Option<&'static Name> {
    TRANSACTION_NAMES.iter().find(|(setting, _)| setting == name).map(|(_, default)| default)
}

/// A setting that is another form of one: on and off are values of that.
pub(super) struct OlderForm {
    pub of: &'static str,
    pub on: &'static str,
    pub off: &'static str,
}

pub(super) fn older_form(name: &str) -> Option<OlderForm> {
    let (of, on, off) = match name {
        "synchronous_stream_insert" => ("stream_insert_level", "sync_commit", "async"),
        "pgspider_core_fdw.throw_error_ifdead" => ("on_dead_node", "error", "skip"),
        _ => return None,
    };
    Some(OlderForm { of, on, off })
}

/// What PostgreSQL marks as `GUC_NO_RESET_ALL`.
pub(super) fn survives_reset_all(name: &str) -> bool {
    matches!(name, "role" | "session_authorization")
        || OF_TRANSACTION.iter().any(|(setting, _)| *setting == name)
}

/// What PostgreSQL marks as `GUC_NO_SHOW_ALL`.
pub(super) fn hidden(name: &str) -> bool {
    matches!(name, "is_superuser" | "role" | "session_authorization")
}

/// What to tell about a setting that changes nothing here.
pub(super) fn effect_of(setting: &Setting) -> Option<Notice> {
    let message = format!("parameter \"{}\" is accepted for compatibility and has no effect", setting.name);
    match setting.effect {
        Effect::Honoured => None,
        Effect::None => Some(Notice::debug(message)),
        Effect::Replaced("") => Some(Notice::new(message)),
        Effect::Replaced(hint) => Some(Notice::new(message).with_hint(hint)),
    }
}

pub(super) fn effect_notice(name: &Name) -> Option<Notice> {
    let Name::Known(place) = name else { return None };
    effect_of(SETTINGS[*place])
}

pub(super) fn unrecognized(name: &str) -> SqlError {
    let error =
        SqlError::new(SqlState::UNDEFINED_OBJECT, format!("unrecognized configuration parameter \"{name}\""));
    match similar(name) {
        Some(similar) => error.with_hint(format!("Perhaps you meant \"{similar}\".")),
        None => error,
    }
}

/// A custom name is two or more simple identifiers with dots between, not under a prefix that has a fixed set
/// of names.
pub(super) fn check_custom_name(name: &str) -> Result<(), SqlError> {
    let Some((prefix, _)) = name.split_once('.') else {
        return Err(unrecognized(name));
    };
    let simple = |part: &str| {
        part.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_' || !first.is_ascii())
            && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '$') || !c.is_ascii())
    };
    let error =
        SqlError::new(SqlState::INVALID_NAME, format!("invalid configuration parameter name \"{name}\""));
    if !name.split('.').all(simple) {
        return Err(error.with_detail(
            "Custom parameter names must be two or more simple identifiers separated by dots.",
        ));
    }
    if ["pipelinedb", "tidemill", "pgspider_core_fdw"].contains(&prefix.to_ascii_lowercase().as_str()) {
        let error = error.with_detail(format!("\"{prefix}\" is a reserved prefix."));
        return Err(match similar(name) {
            Some(similar) => error.with_hint(format!("Perhaps you meant \"{similar}\".")),
            None => error,
        });
    }
    Ok(())
}
