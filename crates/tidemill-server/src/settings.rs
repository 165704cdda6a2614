//! Settings: one table of them all, the server's values from file and command line, and each session's view.

mod check;
mod current;
mod file;
mod name;
mod pipelinedb;
mod postgres;
mod row;
mod session;
mod table;
mod tidemill;
mod value;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tidemill_sql::{SqlError, SqlState};

pub use check::DateOrder;
pub use current::{ByteaOutput, Current, InsertLevel};
pub use file::{ConfigError, DEFAULT_FILE};
pub use row::SettingRow;
pub use session::{Overridden, Scope, SessionSettings};
pub use table::{Context, Effect, Kind, SETTINGS, Setting, Unit};
pub use value::{Value, quote_name, split_names};

use self::table::{find, similar};
use crate::pg::wire_error::Notice;

/// What `SHOW server_version` says: the PostgreSQL version that clients may expect, and who is speaking.
pub const SERVER_VERSION: &str = concat!("15.0 (Tidemill ", env!("CARGO_PKG_VERSION"), ")");

/// What SIGHUP and `pg_reload_conf` do: whoever asks for it, and the log, are told what is needed instead.
pub fn reload() -> Notice {
    let message = "settings are read at the start; restart the server for others";
    tracing::warn!("{message}");
    Notice::warning(SqlState::WARNING, message)
}

/// The values that the server runs with; sessions start from them.
#[derive(Debug)]
pub struct Settings {
    /// By place in [`SETTINGS`].
    values: Vec<Value>,
    sources: Vec<Source>,
    /// Settings of the form `my.name`, in lower case.
    custom: BTreeMap<String, String>,
    notices: Vec<Notice>,
}

/// Where a value comes from, as in `pg_settings.source`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    Default,
    File,
    CommandLine,
}

impl Source {
    pub fn as_str(self) -> &'static str {
        match self {
            Source::Default => "default",
            Source::File => "configuration file",
            Source::CommandLine => "command line",
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        let default = |setting: &&Setting| {
            setting
                .kind
                .parse(setting.name, setting.default)
                .expect("a test reads every default of the table")
        };
        Self {
            values: SETTINGS.iter().map(default).collect(),
            sources: vec![Source::Default; SETTINGS.len()],
            custom: BTreeMap::new(),
            notices: Vec::new(),
        }
    }
}

impl Settings {
    /// The defaults, changed by the file, changed by `(name, text)` of the command line.
    pub fn load(path: Option<&Path>, overrides: &[(&str, &str)]) -> Result<Self, ConfigError> {
        let mut settings = Self::default();
        if let Some(path) = path {
            for entry in file::read(path)? {
                let problem = |problem: Problem| problem.at(Some((path, entry.line)));
                settings.put(&entry.name, &entry.text, Source::File).map_err(problem)?;
            }
            settings.assign("config_file", Value::text(path.to_string_lossy()), Source::CommandLine);
        }
        for (name, text) in overrides {
            settings.put(name, text, Source::CommandLine).map_err(|problem| problem.at(None))?;
        }
        Ok(settings)
    }

    fn put(&mut self, name: &str, text: &str, source: Source) -> Result<(), Problem> {
        let Some(place) = find(name) else {
            if !name.contains('.') {
                let hint = similar(name).map(|similar| format!("perhaps you meant \"{similar}\""));
                return Err(Problem { message: format!("unknown setting \"{name}\""), hint });
            }
            name::check_custom_name(name)?;
            self.custom.insert(name.to_ascii_lowercase(), text.to_owned());
            return Ok(());
        };
        let setting = SETTINGS[place];
        if setting.context == Context::Internal || of_session_only(setting.name) {
            let message = format!("setting \"{}\" can't be set here", setting.name);
            return Err(Problem { message, hint: None });
        }
        let value = setting.kind.parse(setting.name, text)?;
        self.notices.extend(name::effect_of(setting));
        // An older form of another setting.
        if let Some(form) = name::older_form(setting.name) {
            return self.put(form.of, if value == Value::Bool(true) { form.on } else { form.off }, source);
        }
        self.assign(setting.name, value, source);
        Ok(())
    }

    fn assign(&mut self, name: &str, value: Value, source: Source) {
        if let Some(place) = find(name) {
            self.values[place] = value;
            self.sources[place] = source;
        }
    }

    /// What to log about settings that were given and change nothing.
    pub fn notices(&self) -> &[Notice] {
        &self.notices
    }

    /// A value by the setting's name in the table.
    pub fn value(&self, name: &str) -> Option<&Value> {
        self.values.get(find(name)?)
    }

    pub fn port(&self) -> u16 {
        self.integer("port") as u16
    }

    pub fn listen_addresses(&self) -> Vec<String> {
        self.words("listen_addresses")
    }

    /// `address:port` each.
    pub fn metrics_listen(&self) -> Vec<String> {
        self.words("metrics_listen")
    }

    /// Relative ones are below the data directory.
    pub fn unix_socket_directories(&self) -> Vec<PathBuf> {
        self.words("unix_socket_directories").into_iter().map(PathBuf::from).collect()
    }

    pub fn data_directory(&self) -> Option<PathBuf> {
        Some(self.text("data_directory")).filter(|path| !path.is_empty()).map(PathBuf::from)
    }

    pub fn max_connections(&self) -> usize {
        self.integer("max_connections") as usize
    }

    pub fn authentication_timeout(&self) -> Duration {
        self.duration("authentication_timeout")
    }

    pub fn memory_limit_bytes(&self) -> u64 {
        self.bytes("memory_limit")
    }

    pub fn transform_backlog_limit_bytes(&self) -> u64 {
        self.bytes("transform_backlog_limit")
    }

    pub fn checkpoint_log_size_bytes(&self) -> u64 {
        self.bytes("checkpoint_log_size")
    }

    pub fn commit_delay(&self) -> Duration {
        self.duration("commit_delay")
    }

    pub fn node_check_interval(&self) -> Duration {
        self.duration("node_check_interval")
    }

    pub fn node_check_timeout(&self) -> Duration {
        self.duration("node_check_timeout")
    }

    /// One of PostgreSQL's names of message levels.
    pub fn log_min_messages(&self) -> String {
        self.text("log_min_messages")
    }

    fn text(&self, name: &str) -> String {
        self.value(name).map(|value| Kind::Text.raw(value)).unwrap_or_default()
    }

    fn words(&self, name: &str) -> Vec<String> {
        self.text(name)
            .split(',')
            .map(|word| word.trim().to_owned())
            .filter(|word| !word.is_empty())
            .collect()
    }

    fn integer(&self, name: &str) -> i64 {
        self.value(name).map_or(0, current::integer)
    }

    fn bytes(&self, name: &str) -> u64 {
        self.integer(name).unsigned_abs() * 1024
    }

    fn duration(&self, name: &str) -> Duration {
        self.value(name).and_then(|value| current::duration(name, value)).unwrap_or_default()
    }
}

/// Settings that mean something in a session only.
fn of_session_only(name: &str) -> bool {
    matches!(name, "role" | "session_authorization" | "config_file" | "cascade_route")
        || ["transaction_isolation", "transaction_read_only", "transaction_deferrable"].contains(&name)
}

/// A setting that can't be taken, before it is known where it stands.
struct Problem {
    message: String,
    hint: Option<String>,
}

impl Problem {
    fn at(self, place: Option<(&Path, usize)>) -> ConfigError {
        ConfigError {
            path: place.map(|(path, _)| path.to_owned()),
            line: place.map(|(_, line)| line),
            message: self.message,
            hint: self.hint,
        }
    }
}

impl From<SqlError> for Problem {
    fn from(error: SqlError) -> Self {
        let error = error.into_report();
        Self { message: error.message, hint: error.hint.or(error.detail) }
    }
}
