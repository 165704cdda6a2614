//! OPTIONS of servers, user mappings, foreign tables and columns: what there is, and what is secret.

use std::fmt;

use serde::{Deserialize, Serialize};
use tidemill_sql::statement::{ForeignOption, OptionChange};
use tidemill_sql::{Result, SqlError, SqlState};

/// What a secret is shown as.
const HIDDEN: &str = "********";
/// Names of options whose values nobody is shown.
const SECRETS: [&str; 3] = ["password", "sslpassword", "session_token"];

/// Options in the order in which they were given.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Options(Vec<(String, String)>);

/// Secrets are not shown.
impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.shown()).finish()
    }
}

impl Options {
    pub fn new(options: &[ForeignOption]) -> Result<Self> {
        let mut new = Self::default();
        for option in options {
            new.add(option)?;
        }
        Ok(new)
    }

    pub fn of<const N: usize>(options: [(&str, &str); N]) -> Self {
        Self(options.map(|(name, value)| (name.to_string(), value.to_string())).into())
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Names and values for a catalog, secrets without theirs.
    pub fn listed(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        self.iter().map(|(name, value)| (name, (!SECRETS.contains(&name)).then_some(value)))
    }

    /// As `name=value` for a catalog, secrets hidden.
    pub fn shown(&self) -> Vec<String> {
        let shown = |(name, value): (&str, &str)| {
            let value = if SECRETS.contains(&name) { HIDDEN } else { value };
            format!("{name}={value}")
        };
        self.iter().map(shown).collect()
    }

    /// After the OPTIONS of an ALTER.
    pub fn changed(&self, changes: &[OptionChange]) -> Result<Self> {
        let mut changed = self.clone();
        for change in changes {
            match change {
                OptionChange::Add(option) => changed.add(option)?,
                OptionChange::Set(option) => {
                    let place = changed.place(&option.name)?;
                    changed.0[place].1.clone_from(&option.value);
                }
                OptionChange::Drop(name) => {
                    let place = changed.place(name)?;
                    changed.0.remove(place);
                }
            }
        }
        Ok(changed)
    }

    fn add(&mut self, option: &ForeignOption) -> Result<()> {
        if self.get(&option.name).is_some() {
            let message = format!("option \"{}\" provided more than once", option.name);
            return Err(SqlError::new(SqlState::DUPLICATE_OBJECT, message));
        }
        self.0.push((option.name.clone(), option.value.clone()));
        Ok(())
    }

    fn place(&self, name: &str) -> Result<usize> {
        self.0
            .iter()
            .position(|(known, _)| known == name)
            .ok_or_else(|| SqlError::new(SqlState::UNDEFINED_OBJECT, format!("option \"{name}\" not found")))
    }
}

/// Whose options they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Server,
    UserMapping,
    Table,
    Column,
    Import,
}

/// What a value has to be.
#[derive(Debug, Clone, Copy)]
pub enum Check {
    Text,
    Bool,
    /// An integer from 0.
    Count,
    /// An integer above zero.
    Positive,
    /// A number from 0, with or without a fraction.
    Quantity,
    Port,
    /// Any of these.
    OneOf(&'static [&'static str]),
}

/// What comes of an option.
#[derive(Debug, Clone, Copy)]
pub enum Support {
    Yes,
    /// It is accepted, and a notice says why it changes nothing.
    NoEffect(&'static str),
    /// It is refused.
    No,
}

/// An option of a wrapper.
#[derive(Debug)]
pub struct OptionSpec {
    pub name: &'static str,
    pub places: &'static [Place],
    pub check: Check,
    pub support: Support,
}

impl OptionSpec {
    pub const fn new(name: &'static str, places: &'static [Place], check: Check, support: Support) -> Self {
        Self { name, places, check, support }
    }
}

/// Refuses what a wrapper does not know or cannot do. Returns what changes nothing, and why.
pub fn validate(
    specs: impl Iterator<Item = &'static OptionSpec> + Clone,
    place: Place,
    options: &Options,
) -> Result<Vec<(&str, &'static str)>> {
    let here = specs.filter(|spec| spec.places.contains(&place));
    let mut idle = Vec::new();
    for (name, value) in options.iter() {
        let Some(spec) = here.clone().find(|spec| spec.name == name) else {
            let valid: Vec<_> = here.map(|spec| spec.name).collect();
            let error =
                SqlError::new(SqlState::FDW_INVALID_OPTION_NAME, format!("invalid option \"{name}\""));
            return Err(error.with_hint(match valid.is_empty() {
                true => "There are no valid options in this context.".to_string(),
                false => format!("Valid options in this context are: {}", valid.join(", ")),
            }));
        };
        spec.check.holds(name, value)?;
        match spec.support {
            Support::Yes => {}
            Support::NoEffect(why) => idle.push((name, why)),
            Support::No => {
                return Err(SqlError::unsupported(format!("option \"{name}\" is not supported"))
                    .with_hint("docs/federation.md lists the options that are."));
            }
        }
    }
    Ok(idle)
}

impl Check {
    fn holds(self, name: &str, value: &str) -> Result<()> {
        let invalid = |message: String| Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        match self {
            Check::Text => Ok(()),
            Check::Bool if parse_bool(value).is_some() => Ok(()),
            Check::Bool => Err(SqlError::syntax(format!("{name} requires a Boolean value"))),
            Check::Count if value.trim().parse::<u32>().is_ok() => Ok(()),
            Check::Count => {
                invalid(format!("\"{name}\" must be an integer value greater than or equal to zero"))
            }
            Check::Positive if value.trim().parse::<u32>().is_ok_and(|n| n > 0) => Ok(()),
            Check::Positive => invalid(format!("\"{name}\" must be an integer value greater than zero")),
            Check::Quantity if value.trim().parse::<f64>().is_err() => {
                invalid(format!("invalid value for floating point option \"{name}\": {value}"))
            }
            Check::Quantity if value.trim().parse::<f64>().is_ok_and(|n| n >= 0.0) => Ok(()),
            Check::Quantity => {
                invalid(format!("\"{name}\" must be a floating point value greater than or equal to zero"))
            }
            Check::Port if value.trim().parse::<u16>().is_ok_and(|port| port > 0) => Ok(()),
            Check::Port => invalid(format!("invalid port number: \"{value}\"")),
            Check::OneOf(known) if known.contains(&value) => Ok(()),
            Check::OneOf(known) => {
                let error = SqlError::new(
                    SqlState::INVALID_PARAMETER_VALUE,
                    format!("invalid value for option \"{name}\": \"{value}\""),
                );
                Err(error.with_hint(format!("Valid values are: {}", known.join(", "))))
            }
        }
    }
}

/// As PostgreSQL's `defGetBoolean`.
pub fn parse_bool(value: &str) -> Option<bool> {
    match value.to_ascii_lowercase().as_str() {
        "true" | "on" | "1" => Some(true),
        "false" | "off" | "0" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_shown() {
        let options = Options::of([("user", "ann"), ("password", "guess me")]);
        assert_eq!(options.shown(), ["user=ann", "password=********"]);
        assert!(!format!("{options:?}").contains("guess"));
        let change = OptionChange::Add(ForeignOption { name: "password".into(), value: "guess me".into() });
        assert!(!format!("{change:?}").contains("guess"));
        let twice = options.changed(std::slice::from_ref(&change)).unwrap_err();
        assert_eq!(twice.message, "option \"password\" provided more than once");
    }
}
