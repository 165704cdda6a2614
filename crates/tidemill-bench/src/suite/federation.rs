//! One table that lies in many databases: the three scenarios of PGSpider's measurement, against any engine that speaks
//! PostgreSQL's protocol.

mod queries;
mod schema;
mod table;

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::run::{Client, Seat, Workload};
use crate::suite::{Check, Context, Parameter, Suite};
use crate::target::{Connection, Rows, Target};
use queries::{Answer, QUERIES, Query};
use schema::Layout;
pub use table::Table;

const NAME: &str = "federation";
/// A query that was cancelled, as by the server's own limit (`--set statement_timeout=60s`).
const CANCELLED: &str = "57014";
/// The reference has all rows in memory.
const CHECKED_ROWS_MAX: u64 = 10_000_000;

pub struct Federation {
    parameters: Vec<Parameter>,
}

impl Default for Federation {
    fn default() -> Self {
        Self {
            parameters: vec![
                Parameter::new(
                    "nodes",
                    "",
                    "databases with a part of the large table each: URLs, separated by commas",
                ),
                Parameter::new("relational", "", "the database with the small tables; empty: the first node"),
                Parameter::new("rows", 100_000, "of the large table, of each node"),
                Parameter::new("sensors", 1000, "of each node"),
                Parameter::new(
                    "engine",
                    "auto",
                    "the target: tidemill, postgres_fdw, or local (all data in it); auto: as it says itself, local without nodes",
                ),
                Parameter::new("scenario", "all", "1, 2, 3 or all"),
                Parameter::new("check", "yes", "compare all answers with a reference: yes or no"),
                Parameter::data_seed(),
            ],
        }
    }
}

impl Suite for Federation {
    fn name(&self) -> &str {
        NAME
    }

    fn summary(&self) -> &str {
        "fifteen queries over a table that lies in many databases (FOSDEM 2020, PGSpider)"
    }

    fn needs(&self) -> Option<&'static str> {
        Some("keys and indexes")
    }

    fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    fn prepare(&self, context: &Context) -> Result<()> {
        let layout = Layout::of(context)?;
        if layout.is_local() {
            return layout.fill(Some(&context.target));
        }
        layout.fill(None)?;
        layout.federate(context.target.connect()?.as_mut())
    }

    fn workload(&self, context: &Context) -> Result<Arc<dyn Workload>> {
        Ok(Arc::new(Asked { queries: chosen(context)?, target: context.target.clone() }))
    }

    /// What an engine answers wrong is a mark in the table.
    fn measures_beside_wrong_answers(&self) -> bool {
        true
    }

    /// Every answer, compared with that of SQLite over the same rows.
    fn validate(&self, context: &Context, is_after: bool) -> Result<Vec<Check>> {
        let layout = Layout::of(context)?;
        let is_checked = super::one_of("check", context.text("check")?, &["yes", "no"])? == "yes";
        if is_after {
            return Ok(Vec::new());
        }
        layout.check_servers(context.target.connect()?.as_mut())?;
        if !is_checked {
            return Ok(Vec::new());
        }
        if layout.rows * layout.parts() as u64 > CHECKED_ROWS_MAX {
            return Err(Error::usage(format!(
                "more than {CHECKED_ROWS_MAX} rows are not compared with a reference; say -p check=no"
            )));
        }
        let reference = Target::open("sqlite::memory:")?;
        layout.fill(Some(&reference))?;
        let (mut found, mut wanted) = (context.target.connect()?, reference.connect()?);
        let check = |query: &&Query| -> Result<Check> {
            let name = query.title();
            let found = match answer(found.as_mut(), query) {
                // An engine that cannot do it has given no wrong answer: the query is N/A. Without its tables no engine can.
                Err(error @ Error::Server(_)) if !error.is_of_a_missing_table() => {
                    return Ok(Check { name, passed: true, detail: format!("no answer: {error}") });
                }
                found => found?,
            };
            match query.answer {
                Answer::Count(count) => {
                    let there = (layout.rows * layout.parts() as u64).min(count as u64);
                    Ok(Check::equal(&name, format!("{} rows", found.len()), format!("{there} rows")))
                }
                Answer::Rows => {
                    let wanted = answer(wanted.as_mut(), query)?;
                    let differing = found.iter().zip(&wanted).filter(|(a, b)| a != b).count();
                    let found = format!("{} rows, {differing} of them different", found.len());
                    Ok(Check::equal(&name, found, format!("{} rows, 0 of them different", wanted.len())))
                }
            }
        };
        chosen(context)?.iter().map(check).collect()
    }
}

fn chosen(context: &Context) -> Result<Vec<&'static Query>> {
    let scenario = super::one_of("scenario", context.text("scenario")?, &["all", "1", "2", "3"])?;
    let is_chosen = |query: &&Query| scenario == "all" || query.scenario.to_string() == scenario;
    Ok(QUERIES.iter().filter(is_chosen).collect())
}

/// Sorted, with numbers written in one way.
fn answer(connection: &mut dyn Connection, query: &Query) -> Result<Vec<String>> {
    let mut rows = Rows::default();
    connection.query(query.sql, &mut rows)?;
    let value = |row, column| {
        let text = rows.text(row, column).unwrap_or("NULL".into());
        // Fifteen digits: the last one depends on who divides.
        text.parse::<f64>().map_or(text.into_owned(), |number| crate::script::general(number, 12))
    };
    let row = |row| (0..rows.columns()).map(|column| value(row, column)).collect::<Vec<_>>().join("|");
    let mut all: Vec<String> = (0..rows.len()).map(row).collect();
    all.sort();
    Ok(all)
}

struct Asked {
    queries: Vec<&'static Query>,
    target: Target,
}

impl Workload for Asked {
    fn operations(&self) -> Vec<String> {
        self.queries.iter().map(|query| query.title()).collect()
    }

    fn blocks(&self) -> bool {
        self.target.is_embedded()
    }

    fn client(&self, seat: &Seat) -> Result<Box<dyn Client + '_>> {
        let connection = self.target.connect()?;
        // Clients begin at different queries.
        let next = seat.index % self.queries.len();
        Ok(Box::new(Asking {
            asked: self,
            connection,
            next,
            chosen: 0,
            cancelled: vec![0; self.queries.len()],
        }))
    }
}

/// The counter of a query that had no answer in time.
fn out_of_time(title: &str) -> String {
    format!("{title}: out of time")
}

/// One query after the other, all the way round.
struct Asking<'a> {
    asked: &'a Asked,
    connection: Box<dyn Connection>,
    next: usize,
    chosen: usize,
    /// How often each query had no answer in time.
    cancelled: Vec<u64>,
}

impl Client for Asking<'_> {
    fn next(&mut self) -> Result<usize> {
        self.chosen = self.next;
        self.next = (self.next + 1) % self.asked.queries.len();
        Ok(self.chosen)
    }

    fn perform(&mut self) -> Result<()> {
        match self.connection.execute(self.asked.queries[self.chosen].sql) {
            // What an engine cannot do is a mark in the table, and the others go on.
            Err(error @ Error::Server(_)) if !error.is_of_a_missing_table() => {
                self.cancelled[self.chosen] += u64::from(error.code() == Some(CANCELLED));
                Err(Error::Tolerated { error: Box::new(error), is_expected: true })
            }
            done => done.map(drop),
        }
    }

    fn counters(&self) -> Vec<(String, u64)> {
        let counted = self.asked.queries.iter().zip(&self.cancelled).filter(|(_, count)| **count > 0);
        counted.map(|(query, count)| (out_of_time(&query.title()), *count)).collect()
    }
}
