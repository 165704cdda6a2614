//! pgbench's script files, unchanged: what they say, and clients that do it.

mod client;
mod evaluate;
mod expression;
mod function;
mod parse;
mod query;
mod value;

use std::path::Path;

pub use client::{Mode, Scripts};
use parse::Command;
use query::Query;
pub use value::{Value, Variables};

use crate::error::{Error, Result};

/// One script with its weight among others.
#[derive(Debug, Clone)]
pub struct Script {
    pub name: String,
    pub weight: u64,
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
        Ok(Script { name: name.to_owned(), weight, steps: commands.into_iter().map(step).collect() })
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
