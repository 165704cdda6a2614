//! The command line: `tidemill bench VERB …`.

mod compare;
mod load;
mod run;
mod search;
mod suite;
mod sweep;
mod watch;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::error::{Error, Result};
use crate::output;

/// Measure a database.
#[derive(Args)]
pub struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Suites and their parameters.
    List(suite::List),
    /// Make the tables of a suite and fill them.
    Prepare(suite::Prepare),
    /// Ask a suite's questions whose answers are known.
    Validate(suite::Validate),
    /// Run a suite, a suite's folder, or pgbench scripts, and keep the result.
    ///
    /// Open loop: operations start when they are due, whatever the server does, and response times count from there.
    Run(run::Run),
    /// Facebook's social graph benchmark as its users know it: plan, load, request, validate.
    Linkbench(crate::linkbench::Arguments),
    /// Run every combination of some values, and show matrices.
    Sweep(sweep::Sweep),
    /// Find the highest rate that still meets conditions, by bisection.
    Search(search::Search),
    /// Is the second result better, worse, or the same as the first, beyond chance?
    Compare(compare::Compare),
    /// Show results again.
    Report(run::Report),
}

/// What a call ends with, for scripts.
mod exit {
    pub const WRONG_USAGE: u8 = 1;
    /// The run did not begin, ended early, or answers were wrong.
    pub const INCOMPLETE: u8 = 2;
    pub const THRESHOLD_MISSED: u8 = 3;
}

/// The arguments of a program that has these among its own. What is refused is wrong usage and has its exit code; help has none.
pub fn parse<P: clap::Parser>() -> std::result::Result<P, ExitCode> {
    P::try_parse().map_err(|refused| {
        // That nobody reads it changes nothing.
        let _ = refused.print();
        ExitCode::from(if refused.use_stderr() { exit::WRONG_USAGE } else { 0 })
    })
}

pub fn main(arguments: Arguments) -> ExitCode {
    // The allocator asks for huge pages, of which so small a process uses a part. Where the kernel refuses it takes more.
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    match dispatch(arguments.verb) {
        Ok(0) if !output::is_complete() => {
            eprintln!("tidemill bench: the output could not be written");
            ExitCode::from(exit::INCOMPLETE)
        }
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            eprintln!("tidemill bench: {error}");
            let is_usage = matches!(error, Error::Usage(_) | Error::Unsupported(_));
            ExitCode::from(if is_usage { exit::WRONG_USAGE } else { exit::INCOMPLETE })
        }
    }
}

fn dispatch(verb: Verb) -> Result<u8> {
    match verb {
        Verb::List(list) => list.run(),
        Verb::Prepare(prepare) => prepare.run(),
        Verb::Validate(validate) => validate.run(),
        Verb::Run(run) => run.run(),
        Verb::Linkbench(linkbench) => Ok(if linkbench.run()? { 0 } else { exit::INCOMPLETE }),
        Verb::Sweep(sweep) => sweep.run(),
        Verb::Search(search) => search.run(),
        Verb::Compare(compare) => compare.run(),
        Verb::Report(report) => report.run(),
    }
}
