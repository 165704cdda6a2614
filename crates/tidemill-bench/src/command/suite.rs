//! `list`, `prepare` and `validate`.

use super::exit;
use super::load::Place;
use crate::error::Result;
use crate::suite;

#[derive(clap::Args)]
pub(super) struct List {
    /// Names or folders of suites [default: all that are built in].
    suites: Vec<String>,
}

impl List {
    pub fn run(self) -> Result<u8> {
        let chosen = self.suites.iter().map(|name| suite::find(name)).collect::<Result<Vec<_>>>()?;
        for suite in if chosen.is_empty() { suite::all() } else { chosen } {
            println!("{:<14} {}", suite.name(), suite.summary());
            for parameter in suite.parameters() {
                println!("    -p {}={}\t{}", parameter.name, parameter.default, parameter.help);
            }
        }
        Ok(0)
    }
}

#[derive(clap::Args)]
pub(super) struct Prepare {
    /// A suite's name or folder.
    suite: String,
    #[command(flatten)]
    place: Place,
    /// The parameter scale of suites that have one, as with run.
    #[arg(short, long)]
    scale: Option<String>,
}

impl Prepare {
    pub fn run(self) -> Result<u8> {
        let suite = suite::find(&self.suite)?;
        let context = self.place.scaled(self.scale).context(suite.as_ref(), 1)?;
        let begin = std::time::Instant::now();
        suite.prepare(&context)?;
        eprintln!("prepared {} in {:.1} s", suite.name(), begin.elapsed().as_secs_f64());
        Ok(0)
    }
}

#[derive(clap::Args)]
pub(super) struct Validate {
    /// A suite's name or folder.
    suite: String,
    #[command(flatten)]
    place: Place,
    /// Ask what must hold after a run, not before.
    #[arg(long)]
    after: bool,
    /// The parameter scale of suites that have one, as with run.
    #[arg(short, long)]
    scale: Option<String>,
}

impl Validate {
    pub fn run(self) -> Result<u8> {
        let suite = suite::find(&self.suite)?;
        let context = self.place.scaled(self.scale).context(suite.as_ref(), 1)?;
        let checks =
            suite.validate(&context, self.after).map_err(|error| error.with_advice(|| suite.advice()))?;
        for check in &checks {
            println!("{}: {}: {}", if check.passed { "right" } else { "WRONG" }, check.name, check.detail);
        }
        Ok(if checks.iter().all(|check| check.passed) { 0 } else { exit::INCOMPLETE })
    }
}
