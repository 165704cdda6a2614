//! Suites that are folders: `suite.toml` beside SQL and script files, no Rust.
//!
//! ```toml
//! name = "orders"                     # the folder's name, when left out
//! summary = "order entry"
//! prepare = ["schema.sql"]            # :parameters are put in
//!
//! workload = "linkbench"              # a built-in suite instead of scripts: its tables, its work, its checks
//!
//! [parameters.scale]                  # of a built-in suite: other defaults
//! default = 1
//! help = "thousands of customers"
//!
//! [[script]]                          # pgbench scripts
//! file = "new_order.sql"
//! weight = 10
//!
//! [[check]]
//! name = "customers"
//! sql = "select count(*) from customers"
//! equals = ":scale * 1000"            # an expression as in \set, or text
//! when = "before"                     # before or after a run; both, when left out
//!
//! [defaults]                          # what the command line says wins
//! clients = 4
//! rate = 100
//! limit = "50ms"
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;

use crate::error::{Error, Result};
use crate::figure::nearest;
use crate::run::{Outcome, Workload};
use crate::script::{Script, Scripts, Variables, evaluate_text, fill};
use crate::stats::Estimate;
use crate::suite::{Check, Context, Defaults, Parameter, Suite};

pub struct Folder {
    name: String,
    folder: PathBuf,
    file: File,
    /// What is done instead of scripts.
    built_in: Option<Box<dyn Suite>>,
    parameters: Vec<Parameter>,
    scripts: Vec<Script>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: Option<String>,
    #[serde(default)]
    summary: String,
    #[serde(default)]
    prepare: Vec<String>,
    #[serde(default)]
    parameters: BTreeMap<String, ParameterEntry>,
    workload: Option<String>,
    #[serde(default)]
    script: Vec<ScriptEntry>,
    #[serde(default)]
    check: Vec<CheckEntry>,
    #[serde(default)]
    defaults: Defaults,
}

impl File {
    /// The suite that stands in the place of scripts; there must be one of the two.
    fn built_in(&self) -> std::result::Result<Option<Box<dyn Suite>>, String> {
        match (&self.workload, self.script.is_empty()) {
            (Some(name), true) => super::built_in(name).map(Some).ok_or_else(|| unknown_workload(name)),
            (Some(_), false) => Err("there is a workload and a [[script]] in it: one of them".to_owned()),
            (None, true) => Err("there is no [[script]] and no workload in it".to_owned()),
            (None, false) => Ok(None),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ParameterEntry {
    default: toml::Value,
    #[serde(default)]
    help: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptEntry {
    file: String,
    name: Option<String>,
    #[serde(default = "one")]
    weight: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CheckEntry {
    name: String,
    sql: String,
    equals: String,
    when: Option<When>,
}

#[derive(Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum When {
    Before,
    After,
}

fn one() -> u64 {
    1
}

impl Folder {
    pub fn read(folder: &Path) -> Result<Folder> {
        let path = folder.join("suite.toml");
        let text = std::fs::read_to_string(&path).map_err(|error| Error::file(&path, error))?;
        let file: File = toml::from_str(&text).map_err(|error| Error::usage(explained(&path, &error)))?;
        let wrong = |what: String| Error::usage(format!("{}: {what}", path.display()));
        file.defaults.check().map_err(|error| wrong(error.to_string()))?;
        let built_in = file.built_in().map_err(wrong)?;
        let read = |entry: &ScriptEntry| {
            let path = folder.join(&entry.file);
            let text = std::fs::read_to_string(&path).map_err(|error| Error::file(&path, error))?;
            let script = Script::parse(&path.display().to_string(), &text, entry.weight)?;
            Ok(script.named(entry.name.as_ref().unwrap_or(&entry.file)))
        };
        let scripts = file.script.iter().map(read).collect::<Result<Vec<_>>>()?;
        let parameters = parameters(&file.parameters, built_in.as_deref()).map_err(wrong)?;
        let base = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        let own_name = base.file_name().map(|name| name.to_string_lossy().into_owned());
        let name = file.name.clone().or(own_name).unwrap_or_else(|| "suite".to_owned());
        Ok(Folder { name, folder: folder.to_owned(), file, built_in, parameters, scripts })
    }

    fn variables(context: &Context) -> Variables {
        let mut variables = Variables::default();
        for (name, value) in &context.parameters {
            variables.set_text(name, value);
        }
        variables
    }
}

/// The file's own, or those of the built-in suite with other defaults.
fn parameters(
    entries: &BTreeMap<String, ParameterEntry>,
    built_in: Option<&dyn Suite>,
) -> std::result::Result<Vec<Parameter>, String> {
    let default = |entry: &ParameterEntry| {
        entry.default.as_str().map_or_else(|| entry.default.to_string(), str::to_owned)
    };
    let Some(suite) = built_in else {
        let own =
            |(name, entry): (&String, &ParameterEntry)| Parameter::new(name, default(entry), &entry.help);
        return Ok(entries.iter().map(own).collect());
    };
    let mut parameters = suite.parameters().to_vec();
    for (name, entry) in entries {
        let near = nearest(name, suite.parameters().iter().map(|parameter| parameter.name.as_str()));
        let Some(known) = parameters.iter_mut().find(|parameter| parameter.name == *name) else {
            let hint = near.map(|near| format!("; did you mean \"{near}\"?")).unwrap_or_default();
            return Err(format!("workload {} has no parameter \"{name}\"{hint}", suite.name()));
        };
        known.default = default(entry);
        if !entry.help.is_empty() {
            known.help.clone_from(&entry.help);
        }
    }
    Ok(parameters)
}

fn unknown_workload(name: &str) -> String {
    let all = super::all();
    let names: Vec<&str> = all.iter().map(|suite| suite.name()).collect();
    format!("\"{name}\" is no workload (there are {})", names.join(", "))
}

/// What the parser calls the types of keys, and what it means.
const RUST_WORDS: [(&str, &str); 4] = [
    ("usize", "a whole number, not below 0"),
    ("u64", "a whole number, not below 0"),
    ("a sequence", "a list"),
    ("struct ParameterEntry", "a table with default and help"),
];

/// TOML's own message tells the position; a key that is nearly right is named.
fn explained(path: &Path, error: &toml::de::Error) -> String {
    let message = error.message();
    let mut quoted = message.split('`').skip(1).step_by(2);
    let near = match (message.starts_with("unknown field"), quoted.next()) {
        (true, Some(unknown)) => nearest(unknown, quoted),
        _ => None,
    };
    let hint = near.map(|near| format!("\ndid you mean \"{near}\"?")).unwrap_or_default();
    let told = RUST_WORDS.iter().fold(error.to_string(), |told, (rust, word)| {
        told.replace(&format!(", expected {rust}"), &format!(", expected {word}"))
    });
    format!("{}: {}{hint}", path.display(), told.trim_end())
}

impl Suite for Folder {
    fn name(&self) -> &str {
        &self.name
    }

    fn summary(&self) -> &str {
        &self.file.summary
    }

    fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    fn defaults(&self) -> Defaults {
        let own = self.file.defaults.clone();
        match &self.built_in {
            Some(suite) => own.or(suite.defaults()),
            None => own,
        }
    }

    fn needs(&self) -> Option<&'static str> {
        self.built_in.as_ref().and_then(|suite| suite.needs())
    }

    fn has_modes(&self) -> bool {
        self.built_in.as_ref().is_none_or(|suite| suite.has_modes())
    }

    fn scripts(&self) -> &[Script] {
        &self.scripts
    }

    fn measures_beside_wrong_answers(&self) -> bool {
        self.built_in.as_ref().is_some_and(|suite| suite.measures_beside_wrong_answers())
    }

    fn figures(&self, context: &Context, outcome: &Outcome) -> Result<BTreeMap<String, Estimate>> {
        self.built_in.as_ref().map_or_else(|| Ok(BTreeMap::new()), |suite| suite.figures(context, outcome))
    }

    fn advice(&self) -> String {
        format!("make the tables first: tidemill bench prepare {}", self.folder.display())
    }

    fn prepare(&self, context: &Context) -> Result<()> {
        if let Some(suite) = &self.built_in {
            suite.prepare(context)?;
        }
        let mut connection = context.target.connect()?;
        for file in &self.file.prepare {
            let path = self.folder.join(file);
            let text = std::fs::read_to_string(&path).map_err(|error| Error::file(&path, error))?;
            let done = connection.execute(&fill(&text, &Self::variables(context)));
            done.map_err(|error| Error::file(&path, error))?;
            if connection.is_in_transaction() {
                return Err(Error::file(&path, "its last transaction is not completed"));
            }
        }
        Ok(())
    }

    fn workload(&self, context: &Context) -> Result<Arc<dyn Workload>> {
        if let Some(suite) = &self.built_in {
            return suite.workload(context);
        }
        Ok(Arc::new(Scripts {
            scripts: self.scripts.clone(),
            target: context.target.clone(),
            mode: context.mode,
            variables: Self::variables(context),
        }))
    }

    fn validate(&self, context: &Context, is_after: bool) -> Result<Vec<Check>> {
        let mut checks = match &self.built_in {
            Some(suite) => suite.validate(context, is_after)?,
            None => Vec::new(),
        };
        let mut connection = context.target.connect()?;
        let variables = Self::variables(context);
        let now = if is_after { When::After } else { When::Before };
        for check in
            self.file.check.iter().filter(|check| check.when.as_ref().is_none_or(|when| *when == now))
        {
            let found =
                connection.query_value(&fill(&check.sql, &variables))?.unwrap_or_else(|| "NULL".to_owned());
            let wanted = match evaluate_text(&check.equals, &variables) {
                Ok(value) => value.text(),
                Err(_) => check.equals.clone(),
            };
            let is_same_number = matches!(
                (found.parse::<f64>(), wanted.parse::<f64>()),
                (Ok(found), Ok(wanted)) if found == wanted
            );
            let found = if is_same_number { wanted.clone() } else { found };
            checks.push(Check::equal(&check.name, found, wanted));
        }
        Ok(checks)
    }
}
