//! The command line: `tidemill bench linkbench VERB …`, for those who know the original.

use super::csv_stream::CsvStream;
use super::explain::explain;
use super::oracle::check_reads;
use super::origin;
use super::original;
use super::original_url::{place_without_effect, url_of};
use super::request::Requests;
use super::request_log::{Logged, RequestLog, sampled_line};
use super::sampled::{Figures, Sampled};
use super::settings::{Settings, Sources};
use super::shard::Shards;
use super::suite::{NEEDS, drop_tables, fill};
use super::validate::{check_is_loaded, validate};
use crate::error::{Error, Result, tells_of_an_existing_table};
use crate::file::check_place;
use crate::interrupt;
use crate::machine::memory_max_bytes;
use crate::report::text::report;
use crate::result::{ResultFile, TargetRecord};
use crate::run::{Outcome, Plan as RunPlan, floor, run};
use crate::suite::Check;
use crate::target::{Connection, Target};
use clap::{Args, Subcommand};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Facebook's social graph benchmark: plan, load, request, validate.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// The exact totals of the graph, without a database.
    Plan(Plan),
    /// The statements that make the tables.
    Ddl(Ddl),
    /// Make the tables, fill them, and validate them (the original's -l).
    Load(Load),
    /// Do the mix of operations, and validate the graph (the original's -r).
    Request(Request),
    /// Check that counts and links agree.
    Validate(Validate),
    /// The plans of the reads that decide a run.
    Explain(Explain),
}

#[derive(Debug, Args)]
struct Plan {
    #[command(flatten)]
    sources: Sources,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct Ddl {
    #[command(flatten)]
    sources: Sources,
    /// Database by URL; only its kind counts here.
    #[arg(long, value_name = "URL", default_value = "postgres://localhost/linkbench")]
    target: String,
}

/// Of a load without another.
const LOAD_SEED: u64 = 1;

/// Where to, and what is written beside.
#[derive(Debug, Args)]
struct Output {
    /// Database by URL; without it the properties host, port, user and password count, and without those it is a file of
    /// SQLite here.
    #[arg(long, value_name = "URL")]
    target: Option<String>,
    /// Figures of the operations as the original's CSV.
    #[arg(long, value_name = "FILE")]
    csvstats: Option<PathBuf>,
    /// Lines as the original logs them, with level, time and thread.
    #[arg(long)]
    original_log: bool,
    /// Seed of everything random [default: 1 for a load; another one for each run, because a seed chooses the links that
    /// are added, and they are there the second time].
    #[arg(long)]
    seed: Option<u64>,
}

#[derive(Debug, Args)]
struct Load {
    #[command(flatten)]
    sources: Sources,
    #[command(flatten)]
    output: Output,
    /// Remove the tables of an earlier load first.
    #[arg(long)]
    drop: bool,
}

#[derive(Debug, Args)]
struct Request {
    #[command(flatten)]
    sources: Sources,
    #[command(flatten)]
    place: Output,
    /// Figures of each requester and operation every `displayfreq` seconds, as the original's CSV.
    #[arg(long, value_name = "FILE")]
    csvstream: Option<PathBuf>,
    /// Leave out the comparison of answers before the run, and the validation after it.
    #[arg(long)]
    no_validate: bool,
    /// Keep the result as JSON, for `report` and `compare`.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct Validate {
    #[command(flatten)]
    sources: Sources,
    #[command(flatten)]
    output: Output,
    /// Totals must be the plan's, and answers what the load made of `--seed`: nothing was requested since.
    #[arg(long)]
    fresh: bool,
}

#[derive(Debug, Args)]
struct Explain {
    #[command(flatten)]
    sources: Sources,
    #[command(flatten)]
    output: Output,
}

impl Arguments {
    /// True when everything is as it should be.
    pub fn run(&self) -> Result<bool> {
        match &self.verb {
            Verb::Plan(plan) => plan.run(),
            Verb::Ddl(ddl) => ddl.run(),
            Verb::Load(load) => load.run(),
            Verb::Request(request) => request.run().map_err(load_first),
            Verb::Validate(validate) => validate.run().map_err(load_first),
            Verb::Explain(explain) => explain.run().map_err(load_first),
        }
    }
}

fn drop_first(error: Error) -> Error {
    error.with_advice_if(tells_of_an_existing_table, || {
        "remove the tables of an earlier load first: tidemill bench linkbench load --drop".to_owned()
    })
}

fn load_first(error: Error) -> Error {
    error.with_advice(|| "make the tables first: tidemill bench linkbench load".to_owned())
}

impl Plan {
    fn run(&self) -> Result<bool> {
        let plan = self.sources.settings()?.graph.plan();
        if self.json {
            let json = serde_json::to_string_pretty(&plan);
            println!("{}", json.map_err(|error| Error::Wrong(error.to_string()))?);
        } else {
            println!("{plan}");
        }
        Ok(true)
    }
}

impl Ddl {
    fn run(&self) -> Result<bool> {
        let settings = self.sources.settings()?;
        let shards = Shards::new(&settings.properties, Target::open(&self.target)?.dialect())?;
        for schema in shards.schemas() {
            println!("-- before the load");
            schema.create_tables().iter().for_each(|statement| println!("{statement};"));
            println!("-- after the load");
            let next = schema.restart_nodes(settings.graph.counts.ids().end);
            let last = [schema.finish(), origin::write(schema, &settings)].concat();
            next.iter().chain(&last).for_each(|statement| println!("{statement};"));
        }
        Ok(true)
    }
}

impl Output {
    fn open(&self, settings: &Settings) -> Result<(Target, Shards)> {
        let url = match &self.target {
            Some(url) => url.clone(),
            None => url_of(settings)?,
        };
        let target = Target::open(&url)?;
        target.check_has("LinkBench", NEEDS)?;
        let shards = Shards::new(&settings.properties, target.dialect())?;
        Ok((target, shards))
    }

    fn say(&self, line: &str) {
        self.say_of(&(None, line.to_owned()));
    }

    /// What requesters say stands in the original's log only.
    fn say_of(&self, (requester, line): &Logged) {
        match requester {
            _ if self.original_log => println!("{}", original::stamped(*requester, line)),
            Some(_) => {}
            None => println!("{line}"),
        }
    }

    /// What a reader of the figures must know.
    fn tell_settings(&self, settings: &Settings, shards: &Shards) {
        self.say(&format!("distributions: {}", settings.graph.source));
        let flaws = settings.compat.names();
        if !flaws.is_empty() {
            self.say(&format!("reproduced flaws of the original: {}", flaws.join(", ")));
        }
        let mut idle = settings.properties.without_effect();
        idle.extend(shards.without_effect(&settings.properties));
        idle.extend(place_without_effect(settings, self.target.is_some()));
        if !idle.is_empty() {
            self.say(&format!("without effect here: {}", idle.join(", ")));
        }
    }

    /// Made before anything is done, so that a place where nothing can be written is told at once.
    fn create_csv(&self) -> Result<Option<File>> {
        self.csvstats.as_deref().map(created).transpose()
    }

    fn write_csv(&self, file: Option<File>, csv: &str) -> Result<()> {
        let written = file.map_or(Ok(()), |mut file| file.write_all(csv.as_bytes()));
        written.map_err(|error| Error::file(self.csvstats.as_deref().unwrap_or(Path::new("")), error))
    }
}

/// The original takes a file that cannot be made for a wrong command line.
fn created(path: &Path) -> Result<File> {
    File::create(path).map_err(|error| Error::usage(Error::file(path, error).to_string()))
}

impl Load {
    fn run(&self) -> Result<bool> {
        let settings = self.sources.settings()?;
        let (target, shards) = self.output.open(&settings)?;
        let csv = self.output.create_csv()?;
        if self.drop {
            drop_tables(&target, &shards)?;
        }
        self.output.tell_settings(&settings, &shards);
        let seed = self.output.seed.unwrap_or(LOAD_SEED);
        let loaded =
            fill(&target, &settings, &shards, seed, &|line| self.output.say(line)).map_err(drop_first)?;
        original::load_log(&settings, &loaded).iter().for_each(|line| self.output.say(line));
        let written = self.output.write_csv(csv, &original::load_csv(&settings, &loaded));
        let mut checks = validate(target.connect()?.as_mut(), &settings, &shards, true)?;
        checks.extend(check_reads(&target, &settings, &shards, Some(seed))?);
        let holds = tell(&checks, &self.output);
        written.map(|()| holds)
    }
}

impl Request {
    fn run(&self) -> Result<bool> {
        let settings = self.sources.settings()?;
        let (target, shards) = self.place.open(&settings)?;
        self.place.tell_settings(&settings, &shards);
        let mut requests = Requests::new(&target, &settings, &shards)?;
        let plan = requests.plan(self.place.seed.unwrap_or_else(|| super::now_ms() as u64))?;
        if plan.clients == 0 {
            self.place.say("no requesters, no request phase");
            return Ok(true);
        }
        if self.is_sampled() {
            requests.keep_list_sizes(plan.clients);
        }
        let requests = Arc::new(requests);
        interrupt::listen().map_err(|error| Error::usage(error.to_string()))?;
        let mut result = ResultFile::new("linkbench", TargetRecord::of(&target)?, &plan);
        result.parameters = settings.told();
        result.floor_cpu_us = floor_of(&settings, plan.seed);
        let csv = self.place.create_csv()?;
        let mut stream = self.create_stream(&settings)?;
        self.output.as_deref().map_or(Ok(()), check_place)?;
        if !self.no_validate {
            let checks = interrupt::cancelling(&target, || {
                check_is_loaded(target.connect()?.as_mut(), &settings, &shards)?;
                check_reads(&target, &settings, &shards, None)
            });
            right_before(&checks?)?;
        }
        let outcome = self.measure(requests, &settings, &plan, &target, stream.as_mut())?;
        let figures = original::request_csv(&settings, &plan, &outcome);
        let is_complete = outcome.incomplete.is_none();
        if self.place.original_log {
            outcome.errors.lines().iter().for_each(|line| self.place.say(line));
        }
        result.repeats.push(outcome);
        result.memory_max_bytes = memory_max_bytes();
        if !self.no_validate && is_complete {
            // The server may have gone, or Ctrl-C cancels the check: what was measured is told all the same.
            let checks = || validate(target.connect()?.as_mut(), &settings, &shards, false);
            let checks = interrupt::cancelling(&target, checks);
            result.checks =
                checks.unwrap_or_else(|error| vec![Check::not_made("the graph can be validated", &error)]);
        }
        if self.place.original_log {
            tell(&result.checks, &self.place);
        } else {
            print!("{}", report(&result));
        }
        // Each is tried, whatever becomes of the others.
        let written = [
            self.output.as_deref().map_or(Ok(()), |path| result.write(path)),
            self.place.write_csv(csv, &figures),
            stream.map_or(Ok(()), CsvStream::finish),
        ];
        written.into_iter().collect::<Result<()>>()?;
        Ok(result.blemish().is_none())
    }

    fn create_stream(&self, settings: &Settings) -> Result<Option<Stream>> {
        let create = |path: &PathBuf| Ok(CsvStream::new(BufWriter::new(created(path)?), settings));
        self.csvstream.as_ref().map(create).transpose()
    }

    /// Somebody wants figures of each requester.
    fn is_sampled(&self) -> bool {
        self.csvstream.is_some() || self.place.original_log
    }

    /// The run, with what the original tells of it while it goes on and when it has ended.
    fn measure(
        &self,
        requests: Arc<Requests>,
        settings: &Settings,
        plan: &RunPlan,
        target: &Target,
        mut stream: Option<&mut Stream>,
    ) -> Result<Outcome> {
        let mut log = RequestLog::new(settings, plan)?;
        let mut sampled = if self.is_sampled() { Some(Sampled::new(settings, plan)?) } else { None };
        let mut show = |figures: &[Figures]| {
            figures.iter().for_each(|of| self.place.say_of(&sampled_line(of)));
            stream.iter_mut().for_each(|stream| stream.add(figures));
        };
        let workload = Arc::clone(&requests);
        let mut told = BTreeSet::new();
        let outcome = run(workload, plan, Some(target), &mut |progress| {
            // A new kind of error is told at once.
            for (code, failure) in progress.errors.iter().filter(|(code, _)| told.insert(code.to_string())) {
                self.place.say(&format!("error {code}: {}", failure.text));
            }
            log.add(progress).iter().for_each(|line| self.place.say_of(line));
            sampled.iter_mut().for_each(|sampled| show(&sampled.add(&requests, progress)));
        })?;
        sampled.iter_mut().for_each(|sampled| show(&sampled.sum_up()));
        if self.place.original_log {
            log.ends(&requests).iter().for_each(|line| self.place.say_of(line));
            let lines = original::request_log(settings, plan, &outcome, &requests);
            lines.iter().for_each(|line| self.place.say(line));
        }
        Ok(outcome)
    }
}

/// What the requesters cost by themselves.
fn floor_of(settings: &Settings, seed: u64) -> Option<f64> {
    let nothing = Target::open("noop:").ok()?;
    let shards = Shards::new(&settings.properties, nothing.dialect()).ok()?;
    floor(Arc::new(Requests::new(&nothing, settings, &shards).ok()?), seed)
}

type Stream = CsvStream<BufWriter<File>>;

/// What answers wrongly is not timed.
fn right_before(checks: &[Check]) -> Result<()> {
    let failed = checks.iter().find(|check| !check.passed);
    failed.map_or(Ok(()), |check| {
        Err(Error::Wrong(format!("the answers are wrong before the run: {}: {}", check.name, check.detail)))
    })
}

impl Validate {
    fn run(&self) -> Result<bool> {
        let settings = self.sources.settings()?;
        let (target, shards) = self.output.open(&settings)?;
        let mut connection: Box<dyn Connection> = target.connect()?;
        let mut checks = validate(connection.as_mut(), &settings, &shards, self.fresh)?;
        let seed = self.output.seed.unwrap_or(LOAD_SEED);
        checks.extend(check_reads(&target, &settings, &shards, self.fresh.then_some(seed))?);
        Ok(tell(&checks, &self.output))
    }
}

impl Explain {
    fn run(&self) -> Result<bool> {
        let settings = self.sources.settings()?;
        let (target, shards) = self.output.open(&settings)?;
        for explained in explain(target.connect()?.as_mut(), &settings, &shards.schemas()[0])? {
            println!("{}", explained.title);
            explained.plan.iter().for_each(|line| println!("    {line}"));
        }
        Ok(true)
    }
}

fn tell(checks: &[Check], output: &Output) -> bool {
    for check in checks {
        let word = if check.passed { "passed" } else { "FAILED" };
        output.say(&format!("check {word}: {} ({})", check.name, check.detail));
    }
    checks.iter().all(|check| check.passed)
}
