//! Reporting queries with a rate and a latency limit, after rustprooflabs' pgbench-tests: how many users at one query a
//! second each does this machine carry?

mod expected;

use std::sync::Arc;

use crate::catalog::{PRIMARY_KEY, keys, lacks};
use crate::error::{Error, Result, tells_of_something_unsupported};
use crate::random::Random;
use crate::run::Workload;
use crate::script::{Script, Scripts, Variables, fill};
use crate::suite::{Check, Context, Defaults, Parameter, Suite, one_of};
use crate::target::{Connection, Dialect, Rows, Value};
use expected::Expected;

const SCRIPTS: [(&str, &str); 3] = [
    ("reporting1", include_str!("reporting/1.sql")),
    ("reporting2", include_str!("reporting/2.sql")),
    ("reporting3", include_str!("reporting/3.sql")),
];

/// Names and columns; those that are looked up come first.
const TABLES: [(&str, &str); 3] = [
    ("pgbench_lookup1", "id bigint NOT NULL, data text"),
    ("pgbench_lookup2", "id bigint NOT NULL, data text"),
    (
        "pgbench_reporting",
        "id bigint NOT NULL, d1 text, fk1 bigint NOT NULL, fk2 bigint NOT NULL, v1 numeric(8,4), v2 int, d2 text",
    ),
];
const FOREIGN_KEYS: &str = ",
        CONSTRAINT fk_pgbench_reporting_fk1 FOREIGN KEY (fk1) REFERENCES pgbench_lookup1 (id),
        CONSTRAINT fk_pgbench_reporting_fk2 FOREIGN KEY (fk2) REFERENCES pgbench_lookup2 (id)";
const INDEXES: &str = "
    CREATE INDEX ix_pgbench_reporting_fk1 ON pgbench_reporting (fk1);
    CREATE INDEX ix_pgbench_reporting_fk2 ON pgbench_reporting (fk2);";
const VIEW: &str = "
    CREATE VIEW pgbench_view AS
      SELECT r.id, r.d1, r.fk1, l1.data AS fk1data, r.fk2, l2.data AS fk2data, r.v1, r.v2, r.d2
      FROM pgbench_reporting r
      INNER JOIN pgbench_lookup1 l1 ON r.fk1 = l1.id
      INNER JOIN pgbench_lookup2 l2 ON r.fk2 = l2.id;";

/// Values of v1 are whole numbers of this part.
const V1_PARTS: f64 = 10_000.0;

pub struct Reporting {
    parameters: Vec<Parameter>,
}

impl Default for Reporting {
    fn default() -> Self {
        Self {
            parameters: vec![
                Parameter::new(
                    "scale",
                    2,
                    "100,000 rows each; 10 and 20 rows of the tables that are looked up",
                ),
                Parameter::new("keys", "yes", "primary and foreign keys, and indexes on them: yes or no"),
                Parameter::data_seed(),
            ],
        }
    }
}

/// A row of pgbench_reporting, as the seed has it.
struct Row {
    d1: usize,
    fk1: u64,
    fk2: u64,
    /// In ten-thousandths.
    v1: u64,
    v2: u64,
    d2: usize,
}

struct Generator {
    random: Random,
    lookup1: u64,
    lookup2: u64,
}

impl Generator {
    fn new(scale: u64, seed: u64) -> Self {
        Self { random: Random::part(seed, 0), lookup1: 10 * scale, lookup2: 20 * scale }
    }

    fn rows(&self) -> u64 {
        10_000 * self.lookup1
    }

    /// `least` to twice that many characters, as `round(least * (random() + 1))` has them.
    fn length(random: &mut Random, least: f64) -> usize {
        (least * (random.unit() + 1.0)).round() as usize
    }

    fn row(&mut self) -> Row {
        let random = &mut self.random;
        Row {
            d1: Self::length(random, 25.0),
            fk1: 1 + random.below(self.lookup1),
            fk2: 1 + random.below(self.lookup2),
            v1: (random.unit() * 1000.0 * V1_PARTS).round() as u64,
            v2: (random.unit() * 10_000.0).round() as u64,
            d2: Self::length(random, 55.0),
        }
    }
}

impl Suite for Reporting {
    fn name(&self) -> &str {
        "reporting"
    }

    fn summary(&self) -> &str {
        "three reporting queries with a rate and a limit: late and skipped (rustprooflabs/pgbench-tests)"
    }

    fn needs(&self) -> Option<&'static str> {
        Some("keys and columns of type numeric")
    }

    fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    fn defaults(&self) -> Defaults {
        Defaults { rate: Some("1/client".into()), limit: Some("500ms".to_owned()), ..Defaults::default() }
    }

    fn has_modes(&self) -> bool {
        true
    }

    fn prepare(&self, context: &Context) -> Result<()> {
        let scale = scale(context)?;
        let has_keys = has_keys(context)?;
        let mut connection = context.target.connect()?;
        connection.execute("DROP VIEW IF EXISTS pgbench_view")?;
        for (table, _) in TABLES.iter().rev() {
            connection.execute(&format!("DROP TABLE IF EXISTS {table}"))?;
        }
        for (table, columns) in TABLES {
            let made = connection
                .execute(&format!("CREATE TABLE {table} ({columns}{})", constraints(table, has_keys)));
            made.map_err(|error| if has_keys { without_keys(error) } else { error })?;
        }
        load(connection.as_mut(), scale, context.data_seed()?)?;
        if has_keys {
            connection.execute(INDEXES).map_err(without_keys)?;
        }
        connection.execute(VIEW)?;
        settle(connection.as_mut(), context.target.dialect())
    }

    fn workload(&self, context: &Context) -> Result<Arc<dyn Workload>> {
        let mut variables = Variables::default();
        variables.set_text("scale", context.text("scale")?);
        let script = |(name, text): &(&str, &str)| Script::parse(name, text, 1);
        Ok(Arc::new(Scripts {
            scripts: SCRIPTS.iter().map(script).collect::<Result<_>>()?,
            target: context.target.clone(),
            mode: context.mode,
            variables,
        }))
    }

    /// The answers of all three queries, computed here from the seed.
    fn validate(&self, context: &Context, is_after: bool) -> Result<Vec<Check>> {
        if is_after {
            return Ok(Vec::new());
        }
        let expected = Expected::of(scale(context)?, context.data_seed()?);
        let mut connection = context.target.connect()?;
        let keys = check_keys(connection.as_mut(), context)?;
        if !keys.passed {
            return Ok(vec![keys]);
        }
        let mut rows = Rows::default();
        connection.query(SCRIPTS[0].1, &mut rows)?;
        let mut checks = vec![keys, expected.check("query 1 by the seed", &[rows], 2, expected.by_fk1.len())];
        for (i, (_, script)) in SCRIPTS.iter().enumerate().skip(1) {
            let mut answers = Vec::new();
            for fk1 in expected.asked() {
                let mut variables = Variables::default();
                variables.set_text("sel_fk1", &fk1.to_string());
                let (_, sql) = script.split_once('\n').unwrap_or(("", script));
                let mut rows = Rows::default();
                connection.query(&fill(sql, &variables), &mut rows)?;
                answers.push(rows);
            }
            let (at, groups) = match i {
                1 => (2, answers.len()),
                _ => (4, expected.by_both.len()),
            };
            checks.push(expected.check(&format!("query {} by the seed", i + 1), &answers, at, groups));
        }
        Ok(checks)
    }
}

fn has_keys(context: &Context) -> Result<bool> {
    Ok(one_of("keys", context.text("keys")?, &["yes", "no"])? == "yes")
}

/// Whether the tables have the keys and indexes that the result will say they have.
fn check_keys(connection: &mut dyn Connection, context: &Context) -> Result<Check> {
    let has_keys = has_keys(context)?;
    let mut wrong = Vec::new();
    for (table, _) in TABLES {
        let found = match keys(connection, context.target.dialect(), None, table) {
            // Servers that speak PostgreSQL's protocol need not have its catalogue.
            Err(error @ Error::Server(_)) => {
                return Ok(key_check(true, format!("the server does not tell: {error}")));
            }
            found => found?,
        };
        let wanted = wanted_keys(table);
        if has_keys {
            wrong.extend(lacks(table, &found, &wanted));
        } else {
            let others = wanted.iter().filter(|key| found.contains(*key));
            wrong.extend(others.map(|key| format!("{table} has {key}")));
        }
    }
    let detail = if wrong.is_empty() { "as made".to_owned() } else { wrong.join(", ") };
    Ok(key_check(wrong.is_empty(), detail))
}

fn key_check(passed: bool, detail: String) -> Check {
    Check { name: "keys and indexes".to_owned(), passed, detail }
}

fn wanted_keys(table: &str) -> Vec<String> {
    let more: &[&str] = match table {
        "pgbench_reporting" => &[
            "FOREIGN KEY (fk1)",
            "FOREIGN KEY (fk2)",
            "INDEX ix_pgbench_reporting_fk1",
            "INDEX ix_pgbench_reporting_fk2",
        ],
        _ => &[],
    };
    [PRIMARY_KEY].iter().chain(more).map(|key| (*key).to_owned()).collect()
}

/// Not every server has keys.
fn without_keys(error: Error) -> Error {
    error.with_advice_if(tells_of_something_unsupported, || {
        "without keys and indexes the tables may do: -p keys=no".to_owned()
    })
}

fn constraints(table: &str, has_keys: bool) -> String {
    match (table, has_keys) {
        (_, false) => String::new(),
        ("pgbench_reporting", true) => format!(", CONSTRAINT pk_{table} PRIMARY KEY (id){FOREIGN_KEYS}"),
        (_, true) => format!(", CONSTRAINT pk_{table} PRIMARY KEY (id)"),
    }
}

fn scale(context: &Context) -> Result<u64> {
    let scale: u64 = context.number("scale")?;
    match scale {
        1..=100_000 => Ok(scale),
        _ => Err(Error::usage(format!("parameter \"scale\" must be between 1 and 100000, not {scale}"))),
    }
}

fn load(connection: &mut dyn Connection, scale: u64, seed: u64) -> Result<()> {
    let mut generator = Generator::new(scale, seed);
    let marks = "X".repeat(128);
    for (i, (table, count)) in
        [("pgbench_lookup1", generator.lookup1), ("pgbench_lookup2", generator.lookup2)]
            .into_iter()
            .enumerate()
    {
        let mut load = connection.load(table, &["id", "data"])?;
        for (id, length) in (1..).zip(Lookup::new(seed, i as u64, count)) {
            load.row(&[Value::Int(id), Value::Text(&marks[..length])])?;
        }
        load.finish()?;
    }
    let mut load = connection.load("pgbench_reporting", &["id", "d1", "fk1", "fk2", "v1", "v2", "d2"])?;
    for id in 1..=generator.rows() {
        let row = generator.row();
        let v1 = format!("{}.{:04}", row.v1 / V1_PARTS as u64, row.v1 % V1_PARTS as u64);
        load.row(&[
            Value::Int(id as i64),
            Value::Text(&marks[..row.d1]),
            Value::Int(row.fk1 as i64),
            Value::Int(row.fk2 as i64),
            Value::Text(&v1),
            Value::Int(row.v2 as i64),
            Value::Text(&marks[..row.d2]),
        ])?;
    }
    load.finish().map(drop)
}

/// Statistics for the planner. Not every server with PostgreSQL's protocol has such a thing.
fn settle(connection: &mut dyn Connection, dialect: Dialect) -> Result<()> {
    let statements: &[&str] = match dialect {
        Dialect::Postgres => {
            &["VACUUM ANALYZE pgbench_reporting", "ANALYZE pgbench_lookup1", "ANALYZE pgbench_lookup2"]
        }
        Dialect::MySql => &["ANALYZE TABLE pgbench_reporting, pgbench_lookup1, pgbench_lookup2"],
        Dialect::Sqlite => &["ANALYZE"],
        Dialect::Noop => &[],
    };
    for statement in statements {
        match connection.execute(statement) {
            Err(error) if matches!(error.code(), Some("0A000" | "42601")) => {
                eprintln!("the server has no such statement: {statement}");
            }
            done => drop(done?),
        }
    }
    Ok(())
}

/// The lengths of the data of a table that is looked up, in the order of the ids.
struct Lookup {
    random: Random,
    left: u64,
}

impl Lookup {
    fn new(seed: u64, table: u64, count: u64) -> Self {
        Self { random: Random::part(seed, 1 + table), left: count }
    }
}

impl Iterator for Lookup {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        self.left = self.left.checked_sub(1)?;
        Some(Generator::length(&mut self.random, 10.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_are_as_the_specification_has_them() {
        let mut generator = Generator::new(2, 1);
        assert_eq!((generator.lookup1, generator.lookup2, generator.rows()), (20, 40, 200_000));
        for _ in 0..10_000 {
            let row = generator.row();
            assert!((25..=50).contains(&row.d1) && (55..=110).contains(&row.d2));
            assert!((1..=20).contains(&row.fk1) && (1..=40).contains(&row.fk2));
            assert!(row.v1 <= 10_000_000 && row.v2 <= 10_000);
        }
        let expected = Expected::of(2, 1);
        assert!(expected.by_fk1.iter().all(|group| (9_500..10_500).contains(&group.count)));
        assert_eq!((expected.asked().count(), expected.by_both.len()), (20, 20 * 40));
        assert!(expected.lookups.iter().flatten().all(|length| (10..=20).contains(length)));
    }

    #[test]
    fn a_server_without_keys_is_no_end() {
        let refused = without_keys(Error::server("0A000", "CONSTRAINT is not supported")).to_string();
        assert!(
            refused.ends_with("(0A000)\nwithout keys and indexes the tables may do: -p keys=no"),
            "{refused}"
        );
        assert_eq!(without_keys(Error::server("42P07", "it is there")).to_string(), "it is there (42P07)");
    }
}
