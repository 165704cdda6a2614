//! pgbench's script files, unchanged: what they say, and clients that do it.

mod client;
mod evaluate;
mod expression;
mod function;
mod number;
mod parse;
mod query;
mod scan;
mod value;

use std::path::Path;

pub use client::Scripts;
use parse::Command;
use query::Query;
pub use value::{Value, Variables};
pub(crate) use value::{general, is_variable_name};

use crate::error::{Error, Result};

/// How SQL is sent: pgbench's `-M`.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// As text, variables put in.
    #[default]
    Simple,
    /// Parsed, bound and executed each time.
    Extended,
    /// Prepared once by each client.
    Prepared,
}

impl Mode {
    pub fn name(self) -> &'static str {
        match self {
            Mode::Simple => "simple",
            Mode::Extended => "extended",
            Mode::Prepared => "prepared",
        }
    }
}

/// One script with its weight among others.
#[derive(Debug, Clone)]
pub struct Script {
    pub name: String,
    pub weight: u64,
    /// As it was read, for the record.
    pub text: String,
    steps: Vec<Step>,
}

#[derive(Debug, Clone)]
struct Step {
    command: Command,
    /// For SQL.
    query: Option<Query>,
}

impl Script {
    pub fn parse(name: &str, text: &str, weight: u64) -> Result<Script> {
        let commands = parse::parse(text)
            .map_err(|error| Error::usage(format!("{name}:{}: {}", error.line, error.message)))?;
        if commands.is_empty() {
            return Err(Error::usage(format!("{name}: there is no command in it")));
        }
        let step = |command: Command| {
            let query = match &command.action {
                parse::Action::Sql(sql) => Some(Query::new(&sql.text)),
                _ => None,
            };
            Step { command, query }
        };
        Ok(Script {
            name: name.to_owned(),
            weight,
            text: text.to_owned(),
            steps: commands.into_iter().map(step).collect(),
        })
    }

    /// Nothing in it sleeps, prints, starts programs, or needs rows.
    fn can_idle(&self) -> bool {
        self.steps.iter().all(|step| match &step.command.action {
            parse::Action::Sleep(..) | parse::Action::Shell(..) => false,
            parse::Action::Sql(sql) => sql.fetch == parse::Fetch::Drop,
            _ => !step.command.text.contains("debug"),
        })
    }

    fn starts_programs(&self) -> bool {
        self.steps.iter().any(|step| matches!(step.command.action, parse::Action::Shell(..)))
    }

    pub fn named(self, name: &str) -> Script {
        Script { name: name.to_owned(), ..self }
    }

    /// `FILE` or `FILE@WEIGHT`.
    pub fn read(argument: &str) -> Result<Script> {
        let (path, weight) = match argument.rsplit_once('@') {
            Some((path, weight)) => {
                let weight = weight
                    .parse()
                    .map_err(|_| Error::usage(format!("\"{argument}\": the weight after @ is no number")))?;
                (path, weight)
            }
            None => (argument, 1),
        };
        let text = std::fs::read_to_string(path).map_err(|error| Error::file(Path::new(path), error))?;
        Script::parse(path, &text, weight)
    }
}

/// SQL with the values of variables put in.
pub fn fill(sql: &str, variables: &Variables) -> String {
    let mut filled = String::new();
    Query::new(sql).filled(variables, &mut filled);
    filled
}

/// The value of an expression as in `\set`, with no randomness in it.
pub fn evaluate_text(text: &str, variables: &Variables) -> std::result::Result<Value, String> {
    let expression = expression::parse(text).map_err(|problem| problem.message)?;
    let mut random = crate::random::Random::new(0);
    evaluate::Scope { variables, random: &mut random, place: (0, 0) }.evaluate(&expression)
}
