//! The command line: `tidemill bench VERB …`.

use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::error::{Error, Result};
use crate::suite;

/// Measure a database.
#[derive(Args)]
pub struct Arguments {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// The suites and their parameters.
    List,
}

/// What a run ended with, for scripts.
mod exit {
    pub const WRONG_USAGE: u8 = 1;
    pub const INCOMPLETE: u8 = 2;
}

pub fn main(arguments: Arguments) -> ExitCode {
    match dispatch(arguments.verb) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("tidemill bench: {error}");
            let is_usage = matches!(error, Error::Usage(_) | Error::Unsupported(_));
            ExitCode::from(if is_usage { exit::WRONG_USAGE } else { exit::INCOMPLETE })
        }
    }
}

fn dispatch(verb: Verb) -> Result<ExitCode> {
    match verb {
        Verb::List => {
            for suite in suite::all() {
                println!("{}\t{}", suite.name(), suite.summary());
            }
            Ok(ExitCode::SUCCESS)
        }
    }
}
