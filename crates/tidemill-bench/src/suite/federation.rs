//! One table that lies in many databases: the three scenarios of PGSpider's measurement, against any engine that speaks
//! PostgreSQL's protocol.

mod queries;
mod schema;

use crate::error::{Error, Result};
use crate::run::{Client, Seat, Workload};
use crate::suite::{Check, Context, Parameter, Suite};
use crate::target::{Connection, Rows, Target};
use queries::{Answer, QUERIES, Query};
use schema::Layout;

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
                    "tidemill",
                    "the target: tidemill, postgres_fdw, or local (all data in the target)",
                ),
                Parameter::new("scenario", "all", "1, 2, 3 or all"),
                Parameter::new("check", "yes", "compare all answers with a reference: yes or no"),
            ],
        }
    }
}

impl Suite for Federation {
    fn name(&self) -> &str {
        "federation"
    }

    fn summary(&self) -> &str {
        "fifteen queries over a table that lies in many databases (FOSDEM 2020, PGSpider)"
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

    fn workload(&self, context: &Context) -> Result<Box<dyn Workload>> {
        Ok(Box::new(Asked { queries: chosen(context)?, target: context.target.clone() }))
    }

    /// Every answer, compared with that of SQLite over the same rows.
    fn validate(&self, context: &Context, is_after: bool) -> Result<Vec<Check>> {
        let layout = Layout::of(context)?;
        if is_after || super::one_of("check", context.text("check")?, &["yes", "no"])? == "no" {
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
            let name = format!("scenario {}: {}", query.scenario, query.name);
            let found = answer(found.as_mut(), query)?;
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
        self.queries.iter().map(|query| format!("{}: {}", query.scenario, query.name)).collect()
    }

    fn client(&self, seat: &Seat) -> Result<Box<dyn Client + '_>> {
        let connection = self.target.connect()?;
        // Clients begin at different queries.
        Ok(Box::new(Asking { asked: self, connection, next: seat.index % self.queries.len(), chosen: 0 }))
    }
}

/// One query after the other, all the way round.
struct Asking<'a> {
    asked: &'a Asked,
    connection: Box<dyn Connection>,
    next: usize,
    chosen: usize,
}

impl Client for Asking<'_> {
    fn next(&mut self) -> Result<usize> {
        self.chosen = self.next;
        self.next = (self.next + 1) % self.asked.queries.len();
        Ok(self.chosen)
    }

    fn perform(&mut self) -> Result<()> {
        self.connection.execute(self.asked.queries[self.chosen].sql).map(drop)
    }
}
