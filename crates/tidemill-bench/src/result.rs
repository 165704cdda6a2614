//! The result of a run as it is kept: one JSON file that reports and comparisons read.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::file::replace;
use crate::machine::Machine;
use crate::run::{Outcome, Pace, Plan};
use crate::script::{Mode, Script};
use crate::stats::Estimate;
use crate::suite::Check;
use crate::target::Target;

/// Readers of other formats refuse the file rather than guess.
const FORMAT: u32 = 3;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ResultFile {
    pub format: u32,
    /// Of this program.
    pub version: String,
    pub suite: String,
    pub started_at_unix_s: u64,
    pub target: TargetRecord,
    pub parameters: BTreeMap<String, String>,
    /// Settings of the server that the run asked for.
    pub settings: BTreeMap<String, String>,
    /// How scripts were sent; none where there are none.
    #[serde(default)]
    pub mode: Option<Mode>,
    /// What the command line gave the scripts (`-D`, `-s`).
    #[serde(default)]
    pub variables: BTreeMap<String, String>,
    #[serde(default)]
    pub scripts: Vec<ScriptRecord>,
    pub plan: PlanRecord,
    /// Where it lies in a sweep: names and values.
    #[serde(default)]
    pub point: Vec<(String, String)>,
    pub machine: Machine,
    pub checks: Vec<Check>,
    /// What an operation costs against a target that does nothing, µs of CPU; none where the workload needs answers.
    pub floor_cpu_us: Option<f64>,
    pub memory_max_bytes: u64,
    /// The suite's own, of the last repeat.
    #[serde(default)]
    pub figures: BTreeMap<String, f64>,
    /// Of these, 95 percent, where there were enough seconds.
    #[serde(default)]
    pub figure_intervals: BTreeMap<String, (f64, f64)>,
    pub repeats: Vec<Outcome>,
    /// Of an A/A run: each repeat once more, the same in every respect.
    #[serde(default)]
    pub again: Vec<Outcome>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TargetRecord {
    pub url: String,
    pub dialect: String,
    pub version: String,
    /// By TLS.
    pub is_encrypted: bool,
    /// What the server has set otherwise than by default, where it tells.
    pub server_settings: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanRecord {
    pub clients: usize,
    pub pace: Pace,
    pub limit_ms: Option<f64>,
    pub warmup_s: f64,
    pub time_s: f64,
    pub operations_max: Option<u64>,
    pub seed: u64,
}

/// A script with its text: the file may be another one by the time somebody compares.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScriptRecord {
    pub name: String,
    pub weight: u64,
    pub text: String,
}

impl ScriptRecord {
    pub fn of(script: &Script) -> Self {
        Self { name: script.name.clone(), weight: script.weight, text: script.text.clone() }
    }
}

/// Figures of a suite, and the intervals of those that have one.
pub fn with_intervals(
    figures: BTreeMap<String, Estimate>,
) -> (BTreeMap<String, f64>, BTreeMap<String, (f64, f64)>) {
    let intervals = figures.iter().filter_map(|(name, figure)| Some((name.clone(), figure.interval?)));
    let intervals = intervals.collect();
    (figures.into_iter().map(|(name, figure)| (name, figure.value)).collect(), intervals)
}

impl PlanRecord {
    pub fn of(plan: &Plan) -> Self {
        PlanRecord {
            clients: plan.clients,
            pace: plan.pace,
            limit_ms: plan.limit.map(|limit| limit.as_nanos() as f64 / 1e6),
            warmup_s: plan.warmup.as_secs_f64(),
            time_s: plan.time.as_secs_f64(),
            operations_max: plan.operations_max,
            seed: plan.seed,
        }
    }
}

impl TargetRecord {
    pub fn of(target: &Target) -> Result<Self> {
        let mut connection = target.connect()?;
        let (version, is_encrypted) = (connection.version()?, connection.is_encrypted());
        let sql = "select name, current_setting(name) from pg_settings where source not in ('default', 'override', 'client', 'session')";
        let mut server_settings = BTreeMap::new();
        if target.dialect() == crate::target::Dialect::Postgres {
            let mut rows = crate::target::Rows::default();
            // Not every server with this protocol has the relation; the record is then without it.
            if connection.query(sql, &mut rows).is_ok() {
                let text = |row, column| rows.text(row, column).unwrap_or_default().into_owned();
                server_settings = (0..rows.len()).map(|row| (text(row, 0), text(row, 1))).collect();
            }
        }
        let dialect = target.dialect().name().to_owned();
        Ok(Self { url: target.url().to_string(), dialect, version, is_encrypted, server_settings })
    }
}

impl ResultFile {
    pub fn new(suite: &str, target: TargetRecord, plan: &Plan) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        ResultFile {
            format: FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            suite: suite.to_owned(),
            started_at_unix_s: now.as_secs(),
            target,
            parameters: BTreeMap::new(),
            settings: BTreeMap::new(),
            mode: None,
            variables: BTreeMap::new(),
            scripts: Vec::new(),
            plan: PlanRecord::of(plan),
            point: Vec::new(),
            machine: Machine::look(),
            checks: Vec::new(),
            floor_cpu_us: None,
            memory_max_bytes: 0,
            figures: BTreeMap::new(),
            figure_intervals: BTreeMap::new(),
            repeats: Vec::new(),
            again: Vec::new(),
        }
    }

    /// Of all runs, in no particular order.
    pub fn outcomes(&self) -> impl Iterator<Item = &Outcome> {
        self.repeats.iter().chain(&self.again)
    }

    /// Why this result ranks with no other.
    pub fn blemish(&self) -> Option<String> {
        let failed = self.checks.iter().find(|check| !check.passed);
        let incomplete = self.outcomes().find_map(|outcome| outcome.incomplete.clone());
        let nothing = self.repeats.is_empty().then(|| "there is no run in it".to_owned());
        let wrong = failed.map(|check| format!("{}: {}", check.name, check.detail));
        let errors = || self.outcomes().find_map(|outcome| outcome.errors.blemish());
        nothing.or(incomplete).or(wrong).or_else(errors)
    }

    pub fn write(&self, path: &Path) -> Result<()> {
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder).map_err(|error| Error::file(folder, error))?;
        }
        let text = serde_json::to_string(self).map_err(|error| Error::file(path, error))?;
        replace(path, &text)
    }

    pub fn read(path: &Path) -> Result<ResultFile> {
        let text = std::fs::read_to_string(path).map_err(|error| Error::file(path, error))?;
        let wrong = |cause: String| Error::file(path, format!("not a result of tidemill bench: {cause}"));
        let value: serde_json::Value =
            serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        match value.get("format").and_then(serde_json::Value::as_u64) {
            Some(format) if format == u64::from(FORMAT) => {}
            Some(format) => {
                return Err(wrong(format!(
                    "it has format {format}, and {FORMAT} is what this version reads"
                )));
            }
            None => return Err(wrong("it has no format".to_owned())),
        }
        serde_json::from_value(value).map_err(|error| wrong(error.to_string()))
    }
}
