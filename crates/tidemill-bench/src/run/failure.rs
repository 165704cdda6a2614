//! What failed: by code, with the first error's text.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::Error;

/// Servers raise some codes, functions of users any; what has another one than these counts as [`OTHER`].
const CODES_MAX: usize = 64;
const OTHER: &str = "other";
/// Of a text, in characters: it may have a row in it.
const TEXT_MAX: usize = 300;

/// Errors with one code.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// Of the first one.
    pub text: String,
    /// Operations that failed after the warm-up; their clients went on.
    pub operations: u64,
    /// Of these, those that are no part of the workload: with one of them a result does not rank.
    pub unexpected: u64,
    /// Clients that it ended.
    pub clients: u64,
}

/// By SQLSTATE, by the database's own code, or by what kind of error it is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Failures(BTreeMap<String, Failure>);

impl Failures {
    /// An operation failed, and its client goes on.
    pub fn add(&mut self, error: &Error) {
        let failure = self.of(error);
        failure.operations += 1;
        failure.unexpected += u64::from(!error.is_expected());
    }

    /// It ended a client.
    pub fn add_end(&mut self, error: &Error) {
        self.of(error).clients += 1;
    }

    fn of(&mut self, error: &Error) -> &mut Failure {
        let kind = error.kind();
        let is_other = self.0.len() >= CODES_MAX && !self.0.contains_key(kind);
        self.0.entry(if is_other { OTHER } else { kind }.to_owned()).or_insert_with(|| Failure {
            text: error.to_string().chars().take(TEXT_MAX).collect(),
            ..Failure::default()
        })
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &Failure)> {
        self.0.iter().map(|(code, failure)| (code.as_str(), failure))
    }

    /// Clients that ended early.
    pub fn clients(&self) -> u64 {
        self.0.values().map(|failure| failure.clients).sum()
    }

    /// A line for each code.
    pub fn lines(&self) -> Vec<String> {
        let line = |(code, failure): (&str, &Failure)| {
            let Failure { text, operations, unexpected, clients } = failure;
            let mut counts = Vec::new();
            counts.extend((*operations > 0).then(|| format!("{operations} operations failed")));
            counts.extend((*unexpected > 0).then(|| "which the workload does not expect".to_owned()));
            counts.extend((*clients > 0).then(|| format!("{clients} clients ended")));
            format!("error {code}: {}; the first: {text}", counts.join(", "))
        };
        self.iter().map(line).collect()
    }

    /// Why a result with them does not rank.
    pub fn blemish(&self) -> Option<String> {
        let unexpected = || self.iter().filter(|(_, failure)| failure.unexpected > 0);
        let (code, first) = unexpected().next()?;
        let count: u64 = unexpected().map(|(_, failure)| failure.unexpected).sum();
        let more = if unexpected().count() > 1 { " and others" } else { "" };
        Some(format!(
            "{count} operations failed with errors that the workload does not expect: {code}{more}: {}",
            first.text
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_counted_by_code_and_some_are_expected() {
        let mut failures = Failures::default();
        let error = Error::server("22021", "invalid byte sequence");
        let tolerated = |is_expected| Error::Tolerated { error: Box::new(error.clone()), is_expected };
        failures.add(&Error::server("40001", "could not serialize access"));
        failures.add(&tolerated(true));
        assert_eq!(failures.blemish(), None);
        failures.add(&tolerated(false));
        failures.add_end(&Error::Lost("reset".to_owned()));
        assert_eq!(
            failures.lines(),
            [
                "error 22021: 2 operations failed, which the workload does not expect; the first: invalid byte sequence (22021)",
                "error 40001: 1 operations failed; the first: could not serialize access (40001)",
                "error connection lost: 1 clients ended; the first: connection lost: reset",
            ]
        );
        assert!(failures.blemish().unwrap().starts_with("1 operations failed with errors"));
        assert_eq!(failures.clients(), 1);
    }

    #[test]
    fn codes_and_texts_are_bounded() {
        let mut failures = Failures::default();
        (0..2 * CODES_MAX)
            .for_each(|i| failures.add(&Error::server(i.to_string(), "x".repeat(2 * TEXT_MAX))));
        assert_eq!(failures.iter().count(), CODES_MAX + 1);
        let other = &failures.0[OTHER];
        assert_eq!((other.operations as usize, other.text.chars().count()), (CODES_MAX, TEXT_MAX));
    }
}
