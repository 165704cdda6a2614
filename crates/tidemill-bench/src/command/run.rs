//! `run` and `report`.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::exit;
use super::load::{Experiment, Load};
use super::watch::Watch;
use crate::error::{Error, Result, tells_of_a_missing_table};
use crate::file::{check_place, first_free, new_file, replace};
use crate::interrupt;
use crate::machine::memory_max_bytes;
use crate::report::difference::Differences;
use crate::report::html::page;
use crate::report::matrix::Matrix;
use crate::report::remark::idle;
use crate::report::text::report;
use crate::result::{ResultFile, ScriptRecord, TargetRecord, with_intervals};
use crate::run::{Plan, floor, run};
use crate::suite::Check;
use crate::suite::federation::Table;
use crate::target::{Target, without_passwords};
use crate::threshold::Threshold;

#[derive(clap::Args)]
pub(super) struct Run {
    #[command(flatten)]
    load: Load,
    /// Run this often; the spread tells the noise of the machine.
    #[arg(long, default_value = "1", value_name = "N")]
    repeats: NonZeroUsize,
    /// Run everything twice, by turns, and tell how far the two are apart: the noise floor of this machine (A/A).
    #[arg(long)]
    aa: bool,
    /// Exit with 3 unless the result meets this: "p99 < 50ms and skipped = 0".
    #[arg(long, value_name = "CONDITIONS")]
    threshold: Vec<String>,
    /// Where the result is kept [default: bench-results/SUITE-TIME.json, a new file].
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write a page with plots as well.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Seconds between lines of progress; 0 for none.
    #[arg(short = 'P', long, default_value_t = 5, value_name = "S")]
    progress: u64,
}

impl Run {
    pub fn run(self) -> Result<u8> {
        let experiment = self.load.experiment()?;
        let thresholds =
            self.threshold.iter().map(|text| Threshold::parse(text)).collect::<Result<Vec<_>>>()?;
        if !thresholds.is_empty() {
            let operations = experiment.suite.workload(&experiment.context)?.operations();
            thresholds.iter().try_for_each(|threshold| threshold.check(&operations))?;
        }
        for idle in thresholds.iter().flat_map(|threshold| threshold.without_effect(experiment.plan.limit)) {
            eprintln!("WARNING: {idle}");
        }
        check_place(self.output.as_deref().unwrap_or(&Path::new(FOLDER).join("new.json")))?;
        self.html.as_deref().map_or(Ok(()), check_place)?;
        interrupt::listen().map_err(|error| Error::usage(error.to_string()))?;
        let result =
            experiment.measure(Repeats { count: self.repeats.get(), is_aa: self.aa }, self.progress)?;
        print!("{}", report(&result));
        Table::of(std::slice::from_ref(&result)).iter().for_each(|table| print!("{}", table.text()));
        // What cannot be kept is told all the same, and then why.
        let written = [self.keep(&result), write_page(self.html.as_deref(), std::slice::from_ref(&result))];
        if result.blemish().is_some_and(|blemish| tells_of_a_missing_table(&blemish)) {
            println!("HINT: {}", experiment.suite.advice());
        }
        let mut missed = Vec::new();
        for (threshold, outcome) in thresholds.iter().flat_map(|t| result.repeats.iter().map(move |o| (t, o)))
        {
            let found = threshold.missed(outcome)?;
            let others = found.into_iter().filter(|condition| !missed.contains(condition));
            missed.extend(others.collect::<Vec<_>>());
        }
        missed.iter().for_each(|condition| println!("MISSED: {condition}"));
        written.into_iter().collect::<Result<()>>()?;
        let is_idle = result.repeats.iter().any(|outcome| idle(outcome).is_some());
        Ok(match (result.blemish(), missed.is_empty()) {
            (Some(_), _) => exit::INCOMPLETE,
            (None, false) => exit::THRESHOLD_MISSED,
            (None, true) if is_idle => exit::INCOMPLETE,
            (None, true) => 0,
        })
    }

    fn keep(&self, result: &ResultFile) -> Result<()> {
        let path = match &self.output {
            Some(path) => path.clone(),
            None => first_free(&default_stem(result), ".json", new_file)?,
        };
        result.write(&path)?;
        println!("result: {}", path.display());
        Ok(())
    }
}

/// Where results are kept unless somebody says otherwise.
const FOLDER: &str = "bench-results";

/// Without its extension, and what tells it from others of the same second.
fn default_stem(result: &ResultFile) -> PathBuf {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let name: String = result.suite.chars().map(|c| if is_plain(c) { c } else { '-' }).take(60).collect();
    Path::new(FOLDER).join(format!("{}-{}", name.trim_matches('-'), result.started_at_unix_s))
}

/// How often a run is made.
#[derive(Debug, Clone, Copy)]
pub(super) struct Repeats {
    pub count: usize,
    /// Each once more, with the same seed.
    pub is_aa: bool,
}

impl Experiment {
    /// Checks, runs, checks again. An error means that there is nothing worth keeping.
    pub fn measure(&self, repeats: Repeats, progress_s: u64) -> Result<ResultFile> {
        let Experiment { suite, context, plan, .. } = self;
        let mut result = ResultFile::new(suite.name(), TargetRecord::of(&context.target)?, plan);
        let recorded = |(name, value): (&String, &String)| (name.clone(), without_passwords(value));
        result.parameters = context.parameters.iter().map(recorded).collect();
        (result.variables, result.settings) = (self.variables.clone(), self.settings.clone());
        result.mode = suite.has_modes().then_some(context.mode);
        result.scripts = suite.scripts().iter().map(ScriptRecord::of).collect();
        let hint = |error: Error| error.with_advice(|| suite.advice());
        let checks = interrupt::cancelling(&context.target, || suite.validate(context, false));
        result.checks = checks.map_err(hint)?;
        let failed = result.checks.iter().find(|check| !check.passed);
        if let Some(failed) = failed.filter(|_| !suite.measures_beside_wrong_answers()) {
            let made_with = result.parameters.iter().map(|(name, value)| format!(" {name}={value}"));
            return Err(Error::Wrong(format!(
                "the answers are wrong before the run: {}: {}\nthe tables must have been made with the parameters of the run:{}",
                failed.name,
                failed.detail,
                made_with.collect::<String>()
            )));
        }
        result.floor_cpu_us = self.floor();
        self.repeat(repeats, progress_s, &mut result).map_err(hint)?;
        result.memory_max_bytes = memory_max_bytes();
        let is_cut_short = result.outcomes().any(|outcome| outcome.incomplete.is_some());
        // Whoever interrupts a run does not wait for answers, and it ranks with no other anyway.
        if is_cut_short && interrupt::interrupted() {
            return Ok(result);
        }
        // The server may be gone, and a check may be cancelled as well; what was measured is kept all the same.
        match interrupt::cancelling(&context.target, || suite.validate(context, true)) {
            Ok(checks) => result.checks.extend(checks),
            Err(_) if is_cut_short => {}
            Err(error) => result.checks.push(Check::not_made("the answers can be checked", &error)),
        }
        Ok(result)
    }

    /// Until one is cut short.
    fn repeat(&self, repeats: Repeats, progress_s: u64, result: &mut ResultFile) -> Result<()> {
        let Experiment { suite, context, plan, .. } = self;
        let workload = suite.workload(context)?;
        for repeat in 0..repeats.count {
            let plan = Plan { seed: plan.seed.wrapping_add(repeat as u64), ..plan.clone() };
            let kept = [Some(&mut result.repeats), repeats.is_aa.then_some(&mut result.again)];
            for kept in kept.into_iter().flatten() {
                let mut watcher = Watch::new(progress_s, suite.name(), &plan, &context.target);
                let mut outcome =
                    run(Arc::clone(&workload), &plan, Some(&context.target), &mut |p| watcher.show(p))?;
                // The server may be gone by now; what was measured is kept all the same.
                let asked = || suite.figures(context, &outcome);
                let figures = interrupt::cancelling(&context.target, asked);
                let failed = figures.as_ref().err().map(|error| format!("after the run: {error}"));
                outcome.incomplete = outcome.incomplete.or(failed);
                (result.figures, result.figure_intervals) = with_intervals(figures.unwrap_or_default());
                let is_cut = outcome.incomplete.is_some();
                kept.push(outcome);
                if is_cut {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// What the suite's work costs the generator by itself.
    fn floor(&self) -> Option<f64> {
        let mut context = self.context.clone();
        context.target = Target::open("noop:").ok()?;
        floor(self.suite.workload(&context).ok()?, self.plan.seed)
    }
}

#[derive(clap::Args)]
pub(super) struct Report {
    /// Results of `run`, or the folder of a sweep.
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Write them as a page with plots.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

impl Report {
    pub fn run(self) -> Result<u8> {
        let mut results = Vec::new();
        for path in self.files {
            for path in if path.is_dir() { results_in(&path)? } else { vec![path] } {
                results.push(ResultFile::read(&path)?);
            }
        }
        write_page(self.html.as_deref(), &results)?;
        if let Some(matrix) = Matrix::of(&results) {
            print!("{}", matrix.text());
            return Ok(0);
        }
        for (i, result) in results.iter().enumerate() {
            if i > 0 {
                println!();
            }
            print!("{}", report(result));
            if i > 0 {
                let lines = Differences::between(&results[0], result).lines();
                lines.iter().for_each(|line| println!("{line} (from the first result)"));
            }
        }
        Table::of(&results).iter().for_each(|table| print!("{}", table.text()));
        Ok(0)
    }
}

pub(super) fn write_page(path: Option<&Path>, results: &[ResultFile]) -> Result<()> {
    let Some(path) = path else { return Ok(()) };
    replace(path, &page(results))?;
    println!("page: {}", path.display());
    Ok(())
}

/// In the order in which a sweep made them.
fn results_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).map_err(|error| Error::file(folder, error))?;
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    if paths.is_empty() {
        return Err(Error::file(folder, "there is no result of tidemill bench in it"));
    }
    paths.sort();
    Ok(paths)
}
