//! Random statements whose answers are PostgreSQL's: what tests of them have in common.
//!
//! `make test` makes the same choices each time, `make explore SECONDS=300` others for as long as it is told.

use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio_postgres::{Client, SimpleQueryMessage};

use crate::postgres::Postgres;

/// Tables of the seed before.
const FORGET: &str = "DROP SERVER IF EXISTS pg, a, b CASCADE; DROP TABLE IF EXISTS l1, l2, l3;";

/// Seeds of one test.
pub struct Seeds {
    next: Option<u64>,
    /// When to end; without it there is one seed.
    until: Option<Instant>,
}

impl Seeds {
    pub fn new() -> Seeds {
        let setting = |name: &str| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
        let until =
            setting("TIDEMILL_EXPLORE_SECONDS").map(|seconds| Instant::now() + Duration::from_secs(seconds));
        let given = setting("TIDEMILL_TEST_SEED");
        let next = given.unwrap_or_else(|| if until.is_some() { rand::random() } else { 1 });
        Seeds { next: Some(next), until }
    }
}

impl Iterator for Seeds {
    type Item = StdRng;

    fn next(&mut self) -> Option<StdRng> {
        let seed = self.next.take()?;
        if self.until.is_some_and(|until| Instant::now() < until) {
            self.next = Some(rand::random());
        }
        println!("the seed is {seed}: TIDEMILL_TEST_SEED={seed} makes the same choices again");
        Some(StdRng::seed_from_u64(seed))
    }
}

/// Its name, its type, and values of which a row has one.
pub type Column = (&'static str, &'static str, &'static [&'static str]);

/// Types of expressions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Int,
    Numeric,
    Text,
    Date,
    Bool,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::Int => "int",
            Kind::Numeric => "numeric",
            Kind::Text => "text",
            Kind::Date => "date",
            Kind::Bool => "bool",
        }
    }
}

/// Three tables, of which a fifth of the values is null.
pub struct Tables {
    pub columns: &'static [Column],
    pub rows: usize,
}

impl Tables {
    /// The first one is `l1` here, `f1` on a server, and `m1` on two nodes; so are the others. Those of before are gone.
    pub async fn make(&self, random: &mut StdRng, node: &Postgres, remote: &Client, client: &Client) {
        let mut here = FORGET.to_string();
        for name in ["pg", "a", "b"] {
            here += &format!(
                "CREATE SERVER {name} FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '127.0.0.1', port '{}', dbname 'postgres');
                 CREATE USER MAPPING FOR PUBLIC SERVER {name} OPTIONS (user 'postgres');",
                node.port
            );
        }
        let columns: Vec<_> = self.columns.iter().map(|(name, ty, _)| format!("{name} {ty}")).collect();
        let columns = columns.join(", ");
        let mut there = "DROP SCHEMA public CASCADE; CREATE SCHEMA public;".to_string();
        for i in 1..=3 {
            let values: Vec<_> = (0..self.rows).map(|_| self.row(random)).collect();
            let (all, (left, right)) = (values.join(", "), values.split_at(self.rows / 2));
            there += &format!("CREATE TABLE f{i} ({columns}); INSERT INTO f{i} VALUES {all};");
            for (node, part) in [("a", left), ("b", right)] {
                let part = part.join(", ");
                there += &format!("CREATE TABLE {node}{i} ({columns}); INSERT INTO {node}{i} VALUES {part};");
            }
            there +=
                &format!("CREATE VIEW l{i} AS SELECT * FROM f{i}; CREATE VIEW m{i} AS SELECT * FROM f{i};");
            here += &format!(
                "CREATE FOREIGN TABLE f{i} ({columns}) SERVER pg;
                 CREATE MULTI TENANT TABLE m{i} ({columns}) CHILDREN (a.public.a{i}, b.public.b{i});
                 CREATE TABLE l{i} ({columns}); INSERT INTO l{i} VALUES {all};"
            );
        }
        remote.batch_execute(&there).await.unwrap();
        client.batch_execute(&here).await.unwrap();
    }

    fn row(&self, random: &mut StdRng) -> String {
        let value = |(_, _, of): &Column| match random.random_ratio(1, 5) {
            true => "NULL",
            false => pick(random, of),
        };
        let values: Vec<_> = self.columns.iter().map(value).collect();
        format!("({})", values.join(", "))
    }
}

pub fn pick<'a>(random: &mut StdRng, from: &[&'a str]) -> &'a str {
    from[random.random_range(0..from.len())]
}

/// Why a statement has no rows.
#[derive(Debug, PartialEq)]
pub struct Refusal {
    pub code: String,
    pub message: String,
}

/// Rows in order.
pub async fn answer(client: &Client, query: &str) -> Result<Vec<Vec<String>>, Refusal> {
    let messages = client.simple_query(query).await.map_err(|error| {
        let told = error.as_db_error().unwrap_or_else(|| panic!("{query}: {error}"));
        Refusal { code: told.code().code().to_string(), message: told.message().to_string() }
    })?;
    let row = |message| match message {
        SimpleQueryMessage::Row(row) => {
            Some((0..row.len()).map(|i| row.get(i).unwrap_or("NULL").to_string()).collect())
        }
        _ => None,
    };
    let mut found: Vec<Vec<String>> = messages.into_iter().filter_map(row).collect();
    found.sort();
    Ok(found)
}
