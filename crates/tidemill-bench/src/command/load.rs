//! Options that verbs share: which database, which suite, how much of it.

use std::collections::BTreeMap;
use std::num::{NonZeroU64, NonZeroUsize};
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::figure::{duration, duration_or_ms, duration_with_unit, rate};
use crate::run::{Pace, Plan, TIME_MAX};
use crate::script::{Mode, Script, Scripts, Variables, is_variable_name};
use crate::suite::{self, Check, Context, Parameter, Suite};
use crate::target::{Target, without_passwords};

const TIME_DEFAULT: &str = "60s";
/// Left out of the figures unless said otherwise: this share of the time, and not more than the seconds.
const WARMUP_SHARE: f64 = 0.1;
const WARMUP_MAX_S: f64 = 5.0;

/// The database, and the suite's parameters.
#[derive(clap::Args, Clone)]
pub(super) struct Place {
    /// postgres://user@host/database, mysql://…, sqlite:FILE or noop:; nothing has to be installed for the default.
    #[arg(long, value_name = "URL", default_value = crate::target::DEFAULT_URL)]
    target: String,
    /// A parameter of the suite; `list` shows them.
    #[arg(short, long = "parameter", value_name = "NAME=VALUE", value_parser = pair)]
    pub parameters: Vec<(String, String)>,
    /// A setting of the server for each session.
    #[arg(long = "set", value_name = "NAME=VALUE", value_parser = pair)]
    pub settings: Vec<(String, String)>,
}

impl Place {
    /// With `--scale`, which stands for a parameter of the suite.
    pub fn scaled(mut self, scale: Option<String>) -> Place {
        self.parameters.extend(scale.map(|scale| ("scale".to_owned(), scale)));
        self
    }

    pub fn context(&self, suite: &dyn Suite, clients: usize) -> Result<Context> {
        let target = Target::open(&self.target)?.with_settings(&self.settings);
        if let Some(needs) = suite.needs() {
            target.check_has(&format!("suite {}", suite.name()), needs)?;
        }
        Ok(Context {
            target,
            parameters: Context::parameters(suite, &self.parameters)?,
            clients,
            mode: suite.defaults().mode.unwrap_or_default(),
        })
    }
}

/// What is run, and how.
#[derive(clap::Args, Clone)]
pub(super) struct Load {
    /// A suite's name or folder, or pgbench scripts: FILE or FILE@WEIGHT.
    #[arg(required = true)]
    what: Vec<String>,
    #[command(flatten)]
    pub place: Place,
    /// Of the schedule, and of what scripts draw: the same seed is the same run. Data have their own (-p data_seed).
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Sessions at the same time.
    #[arg(short, long)]
    pub clients: Option<usize>,
    /// Threads that the clients share [default: one for each 16 clients, at most one a core].
    #[arg(short = 'j', long)]
    threads: Option<NonZeroUsize>,
    /// Operations a second of all clients together, or N/client.
    #[arg(short = 'R', long, value_name = "N")]
    pub rate: Option<String>,
    /// Evenly spaced operations rather than a Poisson process.
    #[arg(long)]
    constant: bool,
    /// As fast as it goes: the next operation when the one before has ended.
    #[arg(long, conflicts_with = "rate")]
    closed: bool,
    /// Longer responses are late; what is late before it begins is skipped. A number alone is milliseconds, as for pgbench.
    #[arg(short = 'L', long, value_name = "DURATION")]
    limit: Option<String>,
    /// How long is measured; a number alone is seconds [default: 60s].
    #[arg(short = 'T', long, value_name = "DURATION")]
    time: Option<String>,
    /// Run before that, and not counted [default: a tenth of the time, 5s at most; none with -t].
    #[arg(long, value_name = "DURATION")]
    warmup: Option<String>,
    /// End after this many operations of each client; without --warmup there is none then, and without --time no end before.
    #[arg(short = 't', long = "operations", value_name = "N")]
    operations_max: Option<NonZeroU64>,
    /// How scripts are sent.
    #[arg(short = 'M', long, value_enum)]
    mode: Option<Mode>,
    /// A variable of the scripts.
    #[arg(short = 'D', long = "define", value_name = "NAME=VALUE", value_parser = definition)]
    variables: Vec<(String, String)>,
    /// The variable :scale of scripts, the parameter of suites that have one.
    #[arg(short, long)]
    scale: Option<String>,
}

/// All that a run needs.
pub(super) struct Experiment {
    pub suite: Box<dyn Suite>,
    pub context: Context,
    pub plan: Plan,
    /// For the record, without passwords: variables of scripts, and settings of the server.
    pub variables: BTreeMap<String, String>,
    pub settings: BTreeMap<String, String>,
}

impl Load {
    /// One coordinate of a sweep: an option, a parameter of the suite, with `define.` a variable of the scripts, or with `set.` a
    /// setting of the server.
    pub fn vary(&mut self, name: &str, value: &str) -> Result<()> {
        let text = Some(value.to_owned());
        let wrong = |what: &str| Error::usage(format!("\"{value}\" is no {what}"));
        let count = |what: &str| value.parse::<usize>().ok().filter(|n| *n > 0).ok_or_else(|| wrong(what));
        match name {
            "clients" => self.clients = Some(count("number of clients")?),
            "threads" => self.threads = NonZeroUsize::new(count("number of threads")?),
            "operations" => {
                self.operations_max = Some(value.parse().map_err(|_| wrong("number of operations"))?);
            }
            "rate" => (self.rate, self.closed) = (text, false),
            "limit" => self.limit = text,
            "time" => self.time = text,
            "warmup" => self.warmup = text,
            "seed" => self.seed = value.parse().map_err(|_| wrong("seed"))?,
            "scale" if self.is_files() => self.scale = text,
            "mode" => {
                let mode = <Mode as clap::ValueEnum>::from_str(value, true);
                self.mode = Some(mode.map_err(|_| wrong("mode"))?);
            }
            name => self.vary_named(name, value)?,
        }
        Ok(())
    }

    fn vary_named(&mut self, name: &str, value: &str) -> Result<()> {
        let pair = |name: &str| (name.to_owned(), value.to_owned());
        if let Some(setting) = name.strip_prefix("set.") {
            self.place.settings.push(pair(setting));
            return Ok(());
        }
        if let Some(variable) = name.strip_prefix("define.") {
            let defined = definition(&format!("{variable}={value}")).map_err(Error::usage)?;
            self.variables.push(defined);
            return Ok(());
        }
        if !self.suite()?.parameters().iter().any(|parameter| parameter.name == name) {
            return Err(Error::usage(format!(
                "\"{name}\" cannot be varied (clients, threads, rate, limit, time, warmup, operations, seed, mode, a parameter of the \
                 suite, define.NAME for a variable of scripts, or set.NAME for a setting of the server)"
            )));
        }
        self.place.parameters.push(pair(name));
        Ok(())
    }

    pub fn experiment(&self) -> Result<Experiment> {
        let suite = self.suite()?;
        let defaults = suite.defaults();
        let clients = self.clients.or(defaults.clients).unwrap_or(1);
        // Scripts of the command line have it as a variable.
        let place = self.place.clone().scaled(self.scale.clone().filter(|_| !self.is_files()));
        if self.mode.is_some() && !suite.has_modes() {
            return Err(Error::usage(format!(
                "suite {} sends no scripts, so -M has nothing to change (`tidemill bench list` shows its parameters)",
                suite.name()
            )));
        }
        let mut context = place.context(suite.as_ref(), clients)?;
        context.mode = self.mode.unwrap_or(context.mode);
        let is_counted = self.operations_max.is_some();
        let time = match (&self.time, &defaults.time) {
            (Some(text), _) => duration(text)?,
            // As many as were asked for, however long it takes.
            (None, _) if is_counted => TIME_MAX,
            (None, default) => duration(default.as_deref().unwrap_or(TIME_DEFAULT))?,
        };
        if time.is_zero() {
            return Err(Error::usage("a run of no time measures nothing: --time must be above 0"));
        }
        let warmup = match self.warmup.as_ref().or(defaults.warmup.as_ref()) {
            Some(text) => duration(text)?,
            // N operations are N, as with pgbench.
            None if is_counted => Duration::ZERO,
            None => Duration::from_secs_f64((time.as_secs_f64() * WARMUP_SHARE).min(WARMUP_MAX_S)),
        };
        let limit = match (&self.limit, &defaults.limit) {
            (Some(text), _) => Some(duration_or_ms(text)?),
            (None, default) => default.as_deref().map(duration_with_unit).transpose()?,
        };
        if limit.is_some_and(|limit| limit.is_zero()) {
            return Err(Error::usage("a limit of no time is met by nothing: --limit must be above 0"));
        }
        let plan = Plan {
            clients,
            threads: self.threads.map(NonZeroUsize::get),
            pace: self.pace(clients, defaults.rate_text())?,
            limit,
            warmup,
            time,
            operations_max: self.operations_max.map(NonZeroU64::get),
            seed: self.seed,
        };
        let recorded = |pairs: &[(String, String)]| {
            pairs.iter().map(|(name, value)| (name.clone(), without_passwords(value))).collect()
        };
        let settings = recorded(&self.place.settings);
        Ok(Experiment { suite, context, plan, variables: recorded(&self.defined()), settings })
    }

    fn pace(&self, clients: usize, default: Option<String>) -> Result<Pace> {
        if self.closed {
            return Ok(Pace::Closed);
        }
        let rate = match (&self.rate, default) {
            (Some(text), _) => rate(text, clients)?,
            (None, Some(text)) => rate(&text, clients)?,
            (None, None) => {
                return Err(Error::usage(
                    "say how much is asked: --rate N (operations a second, whatever the server does) or --closed (as \
                     fast as it goes, which hides waiting)",
                ));
            }
        };
        Ok(if self.constant { Pace::Constant(rate) } else { Pace::Poisson(rate) })
    }

    /// Rather than the name of one suite.
    fn is_files(&self) -> bool {
        let is_file = |argument: &String| {
            let path = argument.rsplit_once('@').map_or(argument.as_str(), |(path, _)| path);
            std::path::Path::new(path).is_file() || std::path::Path::new(argument).is_file()
        };
        self.what.len() != 1 || is_file(&self.what[0])
    }

    /// Variables of the scripts.
    fn defined(&self) -> Vec<(String, String)> {
        let scale = self.scale.iter().filter(|_| self.is_files());
        let scale = scale.map(|scale| ("scale".to_owned(), scale.clone()));
        self.variables.iter().cloned().chain(scale).collect()
    }

    fn suite(&self) -> Result<Box<dyn Suite>> {
        if !self.is_files() {
            if let Some((name, value)) = self.variables.first() {
                return Err(Error::usage(format!(
                    "-D {name}={value} is for script files; a suite has parameters: -p {name}={value}"
                )));
            }
            return suite::find(&self.what[0]);
        }
        let is_scale = |scale: &&String| scale.parse::<i32>().is_ok_and(|scale| scale > 0);
        if let Some(scale) = self.scale.iter().find(|scale| !is_scale(scale)) {
            return Err(Error::usage(format!("-s {scale}: the scale of scripts is a whole number above 0")));
        }
        let scripts = self.what.iter().map(|argument| Script::read(argument)).collect::<Result<_>>()?;
        let mut variables = Variables::default();
        for (name, value) in &self.defined() {
            variables.set_text(name, value);
        }
        Ok(Box::new(Files { name: self.what.join(" "), scripts, variables }))
    }
}

fn pair(text: &str) -> std::result::Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("there is no = in it")?;
    Ok((name.trim().to_owned(), value.to_owned()))
}

/// What pgbench takes for `-D`: no spaces around the name, and no empty value.
fn definition(text: &str) -> std::result::Result<(String, String), String> {
    let given = text.split_once('=').filter(|(name, value)| !name.is_empty() && !value.is_empty());
    let (name, value) = given.ok_or_else(|| format!("invalid variable definition: \"{text}\""))?;
    match is_variable_name(name) {
        true => Ok((name.to_owned(), value.to_owned())),
        false => Err(format!("invalid variable name: \"{name}\"")),
    }
}

/// Script files of the command line: nothing to prepare, nothing to check.
struct Files {
    name: String,
    scripts: Vec<Script>,
    variables: Variables,
}

impl Suite for Files {
    fn name(&self) -> &str {
        &self.name
    }

    fn summary(&self) -> &str {
        "scripts of the command line"
    }

    fn parameters(&self) -> &[Parameter] {
        &[]
    }

    fn has_modes(&self) -> bool {
        true
    }

    fn scripts(&self) -> &[Script] {
        &self.scripts
    }

    fn advice(&self) -> String {
        "make the tables of the scripts first (those of pgbench's own with pgbench -i)".to_owned()
    }

    fn prepare(&self, _: &Context) -> Result<()> {
        Ok(())
    }

    fn workload(&self, context: &Context) -> Result<Arc<dyn crate::run::Workload>> {
        Ok(Arc::new(Scripts {
            scripts: self.scripts.clone(),
            target: context.target.clone(),
            mode: context.mode,
            variables: self.variables.clone(),
        }))
    }

    fn validate(&self, _: &Context, _: bool) -> Result<Vec<Check>> {
        Ok(Vec::new())
    }
}
