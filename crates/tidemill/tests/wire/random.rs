//! Random statements whose answers are PostgreSQL's: what tests of them have in common.
//!
//! `make test` makes the same choices each time, `make explore SECONDS=300` others for as long as it is told.

use std::time::{Duration, Instant};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio_postgres::{Client, SimpleQueryMessage};

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
