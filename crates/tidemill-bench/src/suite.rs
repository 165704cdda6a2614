//! Suites: what can be prepared, run and validated by name.

use std::collections::BTreeMap;

use crate::error::{Error, Result};
use crate::run::Workload;
use crate::target::Target;

/// A load with its data.
pub trait Suite: Send + Sync {
    fn name(&self) -> &str;
    /// One line for `list`.
    fn summary(&self) -> &str;
    fn parameters(&self) -> &[Parameter];
    /// Makes the tables and fills them.
    fn prepare(&self, context: &Context) -> Result<()>;
    fn workload(&self, context: &Context) -> Result<Box<dyn Workload>>;
    /// Are the answers right? Before a run with `during` false, after it with true.
    fn validate(&self, context: &Context, after: bool) -> Result<Vec<Check>>;
}

/// A parameter of a suite: `-p name=value`.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameter {
    pub name: String,
    pub default: String,
    pub help: String,
}

/// What a suite is given.
pub struct Context {
    pub target: Target,
    pub parameters: BTreeMap<String, String>,
    pub seed: u64,
    /// Clients or loader threads.
    pub clients: usize,
}

/// One question about the answers, and what came of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Check {
    pub name: String,
    pub passed: bool,
    pub detail: String,
}

impl Context {
    /// The value of a parameter that the suite declares.
    pub fn text(&self, name: &str) -> Result<&str> {
        let value = self.parameters.get(name);
        value.map(String::as_str).ok_or_else(|| Error::usage(format!("parameter \"{name}\" has no value")))
    }

    pub fn number<T: std::str::FromStr>(&self, name: &str) -> Result<T> {
        let text = self.text(name)?;
        text.replace('_', "")
            .parse()
            .map_err(|_| Error::usage(format!("parameter \"{name}\" is no number: \"{text}\"")))
    }
}

/// All suites that are built in.
pub fn all() -> Vec<Box<dyn Suite>> {
    Vec::new()
}
