//! The settings of one session: `SET`, `SET LOCAL`, `RESET` and `SHOW`, and how they follow the transaction.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tidemill_sql::{SqlError, SqlState};

use super::Settings;
use super::check::{self, DateOrder};
use super::current::Current;
use super::name::{
    Name, OF_TRANSACTION, TRANSACTION_NAMES, check_custom_name, effect_notice, hidden, older_form,
    survives_reset_all, transaction_default, unrecognized,
};
use super::row::SettingRow;
use super::table::{Context, Kind, SETTINGS, find};
use super::value::{Value, one_argument};
use crate::pg::wire_error::Notice;

/// How many custom settings (`my.name`) a session may make.
const CUSTOM_SETTINGS_MAX: usize = 1000;

/// Settings that a client is told of without asking, at the start and whenever they change.
const REPORTED: [&str; 14] = [
    "server_version",
    "server_encoding",
    "client_encoding",
    "application_name",
    "default_transaction_read_only",
    "in_hot_standby",
    "is_superuser",
    "session_authorization",
    "DateStyle",
    "IntervalStyle",
    "TimeZone",
    "integer_datetimes",
    "standard_conforming_strings",
    "server_version_num",
];

/// What a session sees of the settings and has changed in them.
#[derive(Debug, Clone)]
pub struct SessionSettings {
    server: Arc<Settings>,
    /// What `RESET` goes back to where it differs from the server's: the start-up packet's settings.
    startup: Arc<Overrides>,
    now: Changes,
    /// The changes as they were at BEGIN and at each savepoint that is open.
    saved: Vec<Changes>,
    custom: BTreeSet<Arc<str>>,
    query_seen: bool,
    current: Current,
    reported: Vec<String>,
}

type Overrides = BTreeMap<Name, Value>;

/// Shared so that remembering them at a savepoint costs nothing.
#[derive(Debug, Clone, Default, PartialEq)]
struct Changes {
    session: Arc<Overrides>,
    /// Until the transaction ends.
    local: Arc<Overrides>,
}

/// In what the settings of a session differ from the server's.
#[derive(Debug, Clone, PartialEq)]
pub struct Overridden {
    startup: Arc<Overrides>,
    now: Changes,
}

/// Whether a change is to the session or to the transaction (`LOCAL`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    Session,
    Local,
}

impl SessionSettings {
    pub fn new(server: Arc<Settings>, user: &str) -> Self {
        let mut startup = Overrides::new();
        if let Some(place) = find("session_authorization") {
            startup.insert(Name::Known(place), Value::text(user));
        }
        let current = Current::new(|place| server.values[place].clone());
        let mut settings = Self {
            server,
            startup: Arc::new(startup),
            now: Changes::default(),
            saved: Vec::new(),
            custom: BTreeSet::new(),
            query_seen: false,
            current,
            reported: Vec::new(),
        };
        settings.custom = settings.server.custom.keys().map(|name| name.as_str().into()).collect();
        settings
    }

    /// Applies what the start-up packet asks for; `RESET` comes back to it.
    pub fn apply_startup(&mut self, settings: &[(String, String)]) -> Result<Vec<Notice>, SqlError> {
        let mut notices = Vec::new();
        for (name, text) in settings {
            let name = self.writable(name)?;
            let (name, value) = self.read(name, text)?;
            notices.extend(effect_notice(&name));
            Arc::make_mut(&mut self.startup).insert(name, value);
        }
        self.refresh();
        Ok(notices)
    }

    /// `SET [LOCAL] name = values`.
    pub fn set(&mut self, name: &str, values: &[&str], scope: Scope) -> Result<Vec<Notice>, SqlError> {
        let found = self.writable(name)?;
        let text = match &found {
            Name::Known(place) => SETTINGS[*place].kind.join(SETTINGS[*place].name, values)?,
            Name::Custom(_) => match values {
                [one] => (*one).to_owned(),
                _ => return Err(one_argument(name)),
            },
        };
        self.change(found, Some(&text), scope)
    }

    /// `set_config(name, text, is_local)`: the text is one value, a list if the setting is one. `None` is the
    /// default.
    pub fn set_text(
        &mut self,
        name: &str,
        text: Option<&str>,
        scope: Scope,
    ) -> Result<Vec<Notice>, SqlError> {
        let found = self.writable(name)?;
        self.change(found, text, scope)
    }

    /// `RESET name`, and `SET [LOCAL] name TO DEFAULT`.
    pub fn reset(&mut self, name: &str, scope: Scope) -> Result<Vec<Notice>, SqlError> {
        self.set_text(name, None, scope)
    }

    /// `RESET ALL`, which leaves the transaction's own settings, the role and the session's user alone.
    pub fn reset_all(&mut self) {
        let kept =
            |name: &Name| matches!(name, Name::Known(place) if survives_reset_all(SETTINGS[*place].name));
        Arc::make_mut(&mut self.now.session).retain(|name, _| kept(name));
        Arc::make_mut(&mut self.now.local).retain(|name, _| kept(name));
        self.refresh();
    }

    /// `SHOW name`: the name as it is spelled in the table, and the value.
    pub fn show(&self, name: &str) -> Result<(String, String), SqlError> {
        match self.lookup(name) {
            Some(Name::Known(place)) => Ok((SETTINGS[place].name.to_owned(), self.shown(place))),
            Some(custom @ Name::Custom(_)) => {
                Ok((name.to_ascii_lowercase(), Kind::Text.raw(&self.effective(&custom))))
            }
            None => Err(unrecognized(name)),
        }
    }

    /// `SHOW ALL`: name, value and description, sorted by name.
    pub fn show_all(&self) -> Vec<(String, String, &'static str)> {
        let listed = SETTINGS.iter().enumerate().filter(|(_, setting)| !hidden(setting.name));
        let known =
            listed.map(|(place, setting)| (setting.name.to_owned(), self.shown(place), setting.description));
        let custom = self.custom.iter().map(|name| {
            let value = self.effective(&Name::Custom(name.clone()));
            (name.to_string(), Kind::Text.raw(&value), "")
        });
        let mut all: Vec<_> = known.chain(custom).collect();
        all.sort_by_key(|(name, _, _)| name.to_ascii_lowercase());
        all
    }

    /// The lines of `pg_settings`.
    pub fn rows(&self) -> Vec<SettingRow> {
        let listed = SETTINGS.iter().enumerate().filter(|(_, setting)| !hidden(setting.name));
        let row = |(place, _)| {
            let name = Name::Known(place);
            let changed = self.now.local.contains_key(&name) || self.now.session.contains_key(&name);
            let source = match () {
                () if changed => "session",
                () if self.startup.contains_key(&name) => "client",
                () => self.server.sources[place].as_str(),
            };
            SettingRow::new(SETTINGS[place], &self.effective(&name), &self.default(&name), source)
        };
        listed.map(row).collect()
    }

    /// Two sessions in which it is the same have the same settings.
    pub fn overridden(&self) -> Overridden {
        Overridden { startup: Arc::clone(&self.startup), now: self.now.clone() }
    }

    /// The values that the session itself works by.
    pub fn current(&self) -> &Current {
        &self.current
    }

    /// Whether the transaction, or a statement outside of one, may not write.
    pub fn transaction_read_only(&self) -> bool {
        let [_, (name, _), _] = &*TRANSACTION_NAMES;
        self.effective(name) == Value::Bool(true)
    }

    /// Whether everything in the transaction is read at one commit: from REPEATABLE READ on.
    pub fn keeps_snapshot(&self) -> bool {
        let [(name, _), _, _] = &*TRANSACTION_NAMES;
        let level = Kind::Text.raw(&self.effective(name));
        matches!(level.as_str(), "repeatable read" | "serializable")
    }

    /// The modes of the transaction, for one that is chained to it.
    pub fn transaction_modes(&self) -> Vec<(String, String)> {
        let modes = TRANSACTION_NAMES.iter().zip(OF_TRANSACTION);
        modes.map(|((name, _), (text, _))| (text.to_owned(), Kind::Text.raw(&self.effective(name)))).collect()
    }

    /// All reported settings, for the start of the session.
    pub fn initial_reports(&mut self) -> Vec<(&'static str, String)> {
        self.reported = REPORTED.iter().map(|name| self.reported_value(name)).collect();
        REPORTED.into_iter().zip(self.reported.iter().cloned()).collect()
    }

    /// The reported settings that have changed since the last call, to be sent before ReadyForQuery.
    pub fn take_reports(&mut self) -> Vec<(&'static str, String)> {
        if !self.current.take_changed() || self.reported.is_empty() {
            return Vec::new();
        }
        let before = std::mem::take(&mut self.reported);
        let all = self.initial_reports();
        all.into_iter()
            .zip(before)
            .filter(|((_, now), before)| now != before)
            .map(|(report, _)| report)
            .collect()
    }

    /// A transaction begins, explicit or of one statement.
    pub fn begin(&mut self) {
        self.saved.clear();
        self.saved.push(self.now.clone());
        self.query_seen = false;
        for (name, default) in TRANSACTION_NAMES.iter() {
            // Where the session has not changed the default, nothing needs to be remembered.
            if let Some(value) = self.now.session.get(default).cloned() {
                Arc::make_mut(&mut self.now.local).insert(name.clone(), value);
            }
        }
    }

    /// The transaction has run something that reads or writes data: its own settings are fixed from here.
    pub fn query_seen(&mut self) {
        self.query_seen = true;
    }

    /// The transaction commits: what was `LOCAL` ends.
    pub fn commit(&mut self) {
        self.saved.clear();
        if !self.now.local.is_empty() {
            self.now.local = Arc::default();
            self.refresh();
        }
    }

    /// The transaction rolls back, and with it what was set.
    pub fn rollback(&mut self) {
        if !self.saved.is_empty() {
            self.now = self.saved.swap_remove(0);
            self.saved.clear();
            self.refresh();
        }
    }

    /// Opens a savepoint and returns its number, from 1.
    pub fn savepoint(&mut self) -> usize {
        self.saved.push(self.now.clone());
        self.saved.len() - 1
    }

    /// Closes this savepoint and those after it, keeping what was set.
    pub fn release(&mut self, savepoint: usize) {
        self.saved.truncate(savepoint.max(1));
    }

    /// Takes back what was set since the savepoint, which stays open; those after it are closed.
    pub fn rollback_to(&mut self, savepoint: usize) {
        if let Some(changes) = self.saved.get(savepoint) {
            self.now = changes.clone();
            self.saved.truncate(savepoint + 1);
            self.refresh();
        }
    }

    fn in_transaction(&self) -> bool {
        !self.saved.is_empty()
    }

    fn lookup(&self, name: &str) -> Option<Name> {
        if let Some(place) = find(name) {
            return Some(Name::Known(place));
        }
        let name = name.to_ascii_lowercase();
        self.custom.get(name.as_str()).map(|name| Name::Custom(name.clone()))
    }

    /// The setting of this name, if a session may change it. A well-formed custom name is made known.
    fn writable(&mut self, name: &str) -> Result<Name, SqlError> {
        let found = match self.lookup(name) {
            Some(found) => found,
            None => self.add_custom(name)?,
        };
        if let Name::Known(place) = &found {
            let setting = SETTINGS[*place];
            let reason = match setting.context {
                Context::User => return Ok(found),
                Context::Internal => "cannot be changed",
                Context::Postmaster => "cannot be changed without restarting the server",
            };
            let message = format!("parameter \"{}\" {reason}", setting.name);
            return Err(SqlError::new(SqlState::CANT_CHANGE_RUNTIME_PARAM, message));
        }
        Ok(found)
    }

    fn add_custom(&mut self, name: &str) -> Result<Name, SqlError> {
        check_custom_name(name)?;
        if self.custom.len() >= CUSTOM_SETTINGS_MAX {
            let message = format!("a session can have at most {CUSTOM_SETTINGS_MAX} custom parameters");
            return Err(SqlError::new(SqlState::CONFIGURATION_LIMIT_EXCEEDED, message));
        }
        let name: Arc<str> = name.to_ascii_lowercase().into();
        self.custom.insert(name.clone());
        Ok(Name::Custom(name))
    }

    /// Reads a value for the setting, which may turn out to be a form of another setting.
    fn read(&self, name: Name, text: &str) -> Result<(Name, Value), SqlError> {
        let Name::Known(place) = name else {
            return Ok((name, Value::text(text)));
        };
        let setting = SETTINGS[place];
        if setting.name == "DateStyle" {
            let order = DateOrder::of(&Kind::Text.raw(&self.effective(&name)));
            return Ok((name, Value::text(check::date_style(text, order)?)));
        }
        let value = setting.kind.parse(setting.name, text)?;
        match (older_form(setting.name), &value) {
            (Some(form), Value::Bool(on)) => {
                let place = find(form.of).ok_or_else(|| unrecognized(form.of))?;
                Ok((Name::Known(place), Value::text(if *on { form.on } else { form.off })))
            }
            _ => Ok((name, value)),
        }
    }

    /// The one place where a setting changes. `None` takes it back to the default.
    fn change(&mut self, name: Name, text: Option<&str>, scope: Scope) -> Result<Vec<Notice>, SqlError> {
        let mut notices: Vec<Notice> = effect_notice(&name).into_iter().collect();
        let (name, value) = match text {
            Some(text) => self.read(name, text)?,
            None => self.read_default(name),
        };
        let of_transaction = transaction_default(&name).is_some();
        if of_transaction {
            self.check_transaction_setting(&name, &value)?;
        }
        let local = scope == Scope::Local || of_transaction;
        if local && !self.in_transaction() {
            let what = if of_transaction { "SET TRANSACTION" } else { "SET LOCAL" };
            let message = format!("{what} can only be used in transaction blocks");
            notices.push(Notice::warning(SqlState::NO_ACTIVE_SQL_TRANSACTION, message));
            return Ok(notices);
        }
        if local {
            Arc::make_mut(&mut self.now.local).insert(name, value);
        } else {
            Arc::make_mut(&mut self.now.local).remove(&name);
            Arc::make_mut(&mut self.now.session).insert(name, value);
        }
        self.refresh();
        Ok(notices)
    }

    fn read_default(&self, name: Name) -> (Name, Value) {
        let name = match &name {
            Name::Known(place) => {
                let newer = older_form(SETTINGS[*place].name).and_then(|form| find(form.of));
                newer.map_or(name, Name::Known)
            }
            Name::Custom(_) => name,
        };
        let value = self.default(&name);
        (name, value)
    }

    fn default(&self, name: &Name) -> Value {
        if let Some(value) = self.startup.get(name) {
            return value.clone();
        }
        match name {
            Name::Known(place) => self.server.values[*place].clone(),
            Name::Custom(name) => Value::text(self.server.custom.get(&**name).map_or("", String::as_str)),
        }
    }

    fn effective(&self, name: &Name) -> Value {
        if let Some(value) = self.now.local.get(name).or_else(|| self.now.session.get(name)) {
            return value.clone();
        }
        if let Name::Known(place) = name
            && let Some(form) = older_form(SETTINGS[*place].name)
            && let Some(newer) = find(form.of)
        {
            return Value::Bool(self.effective(&Name::Known(newer)) != Value::text(form.off));
        }
        match transaction_default(name) {
            Some(default) if self.in_transaction() => self.default(default),
            Some(default) => self.effective(default),
            None => self.default(name),
        }
    }

    fn shown(&self, place: usize) -> String {
        let setting = SETTINGS[place];
        setting.kind.show(&self.effective(&Name::Known(place)))
    }

    fn reported_value(&self, name: &str) -> String {
        find(name).map(|place| self.shown(place)).unwrap_or_default()
    }

    fn check_transaction_setting(&self, name: &Name, value: &Value) -> Result<(), SqlError> {
        if !self.in_transaction() || self.effective(name) == *value {
            return Ok(());
        }
        let [(isolation, _), (read_only, _), _] = &*TRANSACTION_NAMES;
        let nested = self.saved.len() > 1;
        let message = match (nested, self.query_seen) {
            (false, false) => return Ok(()),
            _ if name == read_only && *value == Value::Bool(true) => return Ok(()),
            (true, _) if name == read_only => {
                "cannot set transaction read-write mode inside a read-only transaction"
            }
            (_, true) if name == read_only => "transaction read-write mode must be set before any query",
            (_, true) if name == isolation => {
                "SET TRANSACTION ISOLATION LEVEL must be called before any query"
            }
            (true, _) if name == isolation => {
                "SET TRANSACTION ISOLATION LEVEL must not be called in a subtransaction"
            }
            (true, _) => "SET TRANSACTION [NOT] DEFERRABLE cannot be called within a subtransaction",
            (_, true) => "SET TRANSACTION [NOT] DEFERRABLE must be called before any query",
        };
        Err(SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, message))
    }

    fn refresh(&mut self) {
        let mut current = Current::new(|place| self.effective(&Name::Known(place)));
        current.mark_changed();
        self.current = current;
    }
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
