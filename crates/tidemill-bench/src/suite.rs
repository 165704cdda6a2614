//! Suites: what can be prepared, run and validated by name.

pub mod federation;
mod folder;
mod reporting;
mod streams;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use folder::Folder;

use crate::error::{Error, Result};
use crate::figure::{duration, duration_with_unit, nearest, rate};
use crate::interrupt::interrupted;
use crate::run::{Outcome, Workload};
use crate::script::{Mode, Script};
use crate::stats::Estimate;
use crate::target::Target;

/// A load with its data.
pub trait Suite: Send + Sync {
    fn name(&self) -> &str;
    /// One line for `list`.
    fn summary(&self) -> &str;
    fn parameters(&self) -> &[Parameter];
    /// How it is run when the command line says nothing.
    fn defaults(&self) -> Defaults {
        Defaults::default()
    }
    /// Whether it sends scripts, and so knows the modes of `-M`.
    fn has_modes(&self) -> bool {
        false
    }
    /// Those that it sends, if it is made of files.
    fn scripts(&self) -> &[Script] {
        &[]
    }
    /// What to do when tables are missing.
    fn advice(&self) -> String {
        format!("make the tables first: tidemill bench prepare {}", self.name())
    }
    /// What some servers that speak PostgreSQL's protocol do not have, if it needs that.
    fn needs(&self) -> Option<&'static str> {
        None
    }
    /// Makes the tables and fills them.
    fn prepare(&self, context: &Context) -> Result<()>;
    fn workload(&self, context: &Context) -> Result<Arc<dyn Workload>>;
    /// Are the answers right? Asked before a run with `is_after` false, and after it with true.
    fn validate(&self, context: &Context, is_after: bool) -> Result<Vec<Check>>;
    /// Whether an operation whose answer is wrong leaves the others worth measuring: the suite tells which one it is, and the
    /// result ranks with no other. Else a run with wrong answers does not begin.
    fn measures_beside_wrong_answers(&self) -> bool {
        false
    }
    /// Figures of the suite's own after a run, for its report.
    fn figures(&self, _context: &Context, _outcome: &Outcome) -> Result<BTreeMap<String, Estimate>> {
        Ok(BTreeMap::new())
    }
}

const DATA_SEED: &str = "data_seed";

/// A parameter of a suite: `-p name=value`.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameter {
    pub name: String,
    pub default: String,
    pub help: String,
}

impl Parameter {
    pub fn new(name: &str, default: impl ToString, help: &str) -> Self {
        Self { name: name.to_owned(), default: default.to_string(), help: help.to_owned() }
    }

    /// Of a suite that makes its data from a seed. That of a run is another one: it may change while the tables stay.
    pub fn data_seed() -> Self {
        Self::new(DATA_SEED, 1, "the data's; the run's own is --seed")
    }
}

/// What a suite suggests; texts are as on the command line.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Defaults {
    pub clients: Option<usize>,
    /// A number, or a text such as "1/client".
    pub rate: Option<toml::Value>,
    pub limit: Option<String>,
    pub time: Option<String>,
    pub warmup: Option<String>,
    pub mode: Option<Mode>,
}

impl Defaults {
    /// As on the command line.
    pub fn rate_text(&self) -> Option<String> {
        self.rate.as_ref().map(|rate| rate.as_str().map_or_else(|| rate.to_string(), str::to_owned))
    }

    /// What would be refused on the command line, with its key.
    fn check(&self) -> Result<()> {
        let wrong = |key: &str, error: Error| Error::usage(format!("{key} of [defaults]: {error}"));
        if self.clients == Some(0) {
            return Err(wrong("clients", Error::usage("a run needs at least one client")));
        }
        if let Some(text) = self.rate_text() {
            rate(&text, self.clients.unwrap_or(1)).map_err(|error| wrong("rate", error))?;
        }
        let limit = self.limit.as_deref().map(|text| duration_with_unit(text).map(drop));
        limit.unwrap_or(Ok(())).map_err(|error| wrong("limit", error))?;
        for (key, text) in [("time", &self.time), ("warmup", &self.warmup)] {
            let read = text.as_deref().map(|text| duration(text).map(drop));
            read.unwrap_or(Ok(())).map_err(|error| wrong(key, error))?;
        }
        Ok(())
    }

    /// What these say, and where they say nothing, what the others do.
    fn or(self, others: Defaults) -> Defaults {
        Defaults {
            clients: self.clients.or(others.clients),
            rate: self.rate.or(others.rate),
            limit: self.limit.or(others.limit),
            time: self.time.or(others.time),
            warmup: self.warmup.or(others.warmup),
            mode: self.mode.or(others.mode),
        }
    }
}

/// What a suite is given.
#[derive(Clone)]
pub struct Context {
    pub target: Target,
    pub parameters: BTreeMap<String, String>,
    /// Clients or loader threads.
    pub clients: usize,
    /// How scripts are sent, where a suite has scripts.
    pub mode: Mode,
}

/// One question about the answers, and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Check {
    pub name: String,
    pub passed: bool,
    pub detail: String,
}

impl Check {
    pub fn equal(name: &str, found: impl ToString, wanted: impl ToString) -> Check {
        let (found, wanted) = (found.to_string(), wanted.to_string());
        let passed = found == wanted;
        let detail = if passed { found } else { format!("{found} instead of {wanted}") };
        Check { name: name.to_owned(), passed, detail }
    }
}

impl Check {
    /// What nobody could find out: a result with it ranks with no other.
    pub fn not_made(name: &str, error: &Error) -> Check {
        let detail = if interrupted() { "interrupted".to_owned() } else { error.to_string() };
        Check { name: name.to_owned(), passed: false, detail }
    }
}

impl Context {
    /// The defaults of the suite with what was given; an unknown name is an error with a suggestion.
    pub fn parameters(suite: &dyn Suite, given: &[(String, String)]) -> Result<BTreeMap<String, String>> {
        let known = suite.parameters();
        let mut values: BTreeMap<String, String> =
            known.iter().map(|parameter| (parameter.name.clone(), parameter.default.clone())).collect();
        for (name, value) in given {
            let Some(slot) = values.get_mut(name) else {
                let near = nearest(name, known.iter().map(|parameter| parameter.name.as_str()));
                let hint = near.map(|near| format!("; did you mean \"{near}\"?")).unwrap_or_default();
                return Err(Error::usage(format!(
                    "suite {} has no parameter \"{name}\"{hint}",
                    suite.name()
                )));
            };
            slot.clone_from(value);
        }
        Ok(values)
    }

    /// The value of a parameter that the suite declares.
    pub fn text(&self, name: &str) -> Result<&str> {
        let value = self.parameters.get(name);
        value.map(String::as_str).ok_or_else(|| Error::usage(format!("parameter \"{name}\" has no value")))
    }

    /// Of a suite that has [`Parameter::data_seed`].
    pub fn data_seed(&self) -> Result<u64> {
        self.number(DATA_SEED)
    }

    pub fn number<T: std::str::FromStr>(&self, name: &str) -> Result<T> {
        let text = self.text(name)?;
        let number = text.replace('_', "").parse();
        number.map_err(|_| Error::usage(format!("parameter \"{name}\" is no such number: \"{text}\"")))
    }
}

/// All suites that are built in.
pub fn all() -> Vec<Box<dyn Suite>> {
    vec![
        Box::new(reporting::Reporting::default()),
        Box::new(streams::Streams::default()),
        Box::new(federation::Federation::default()),
        Box::new(crate::linkbench::LinkBench::default()),
    ]
}

/// A suite by its name, or by the folder that it is in.
pub fn find(name: &str) -> Result<Box<dyn Suite>> {
    let path = Path::new(name);
    if path.is_dir() {
        return Ok(Box::new(Folder::read(path)?));
    }
    built_in(name).ok_or_else(|| {
        let all = all();
        let near = nearest(name, all.iter().map(|suite| suite.name()));
        let hint = near.map(|near| format!("; did you mean \"{near}\"?")).unwrap_or_default();
        Error::usage(format!(
            "there is no suite, folder or script \"{name}\"{hint} (`tidemill bench list` shows the suites)"
        ))
    })
}

fn built_in(name: &str) -> Option<Box<dyn Suite>> {
    all().into_iter().find(|suite| suite.name() == name)
}

/// A parameter that is one of some words.
fn one_of<'a>(name: &str, value: &str, known: &[&'a str]) -> Result<&'a str> {
    known.iter().find(|word| **word == value).copied().ok_or_else(|| {
        Error::usage(format!("parameter \"{name}\" is one of {}, not \"{value}\"", known.join(", ")))
    })
}
