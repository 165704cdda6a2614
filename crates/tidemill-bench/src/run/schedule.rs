//! The intended starts of a run: fixed by rate and seed alone, whatever the server does.

use std::sync::{Mutex, PoisonError};

use crate::random::Random;
use crate::run::Pace;

/// Slots in order, each given to the client that asks next.
pub(crate) struct Schedule {
    state: Mutex<State>,
    /// No slot is at or after this (ns since the start of the run).
    end_ns: u64,
}

struct State {
    random: Random,
    pace: Pace,
    /// Slots given so far, and the time of the last.
    taken: u64,
    last_ns: f64,
}

impl Schedule {
    pub fn new(pace: Pace, seed: u64, end_ns: u64) -> Self {
        let state = State { random: Random::part(seed, u64::MAX), pace, taken: 0, last_ns: 0.0 };
        Self { state: Mutex::new(state), end_ns }
    }

    /// The next slot, or none before the end.
    pub fn take(&self) -> Option<u64> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let at = match state.pace {
            Pace::Closed => return None,
            Pace::Poisson(rate) => state.last_ns + state.random.exponential() * 1e9 / rate,
            // By multiplication: gaps that are no whole numbers do not add up to an error.
            Pace::Constant(rate) => state.taken as f64 * 1e9 / rate,
        };
        if at >= self.end_ns as f64 {
            return None;
        }
        state.taken += 1;
        state.last_ns = at;
        Some(at as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_poisson_process_has_its_rate_and_its_spread() {
        let schedule = Schedule::new(Pace::Poisson(1000.0), 7, 100_000_000_000);
        let times: Vec<u64> = std::iter::from_fn(|| schedule.take()).collect();
        // 100,000 expected; the standard deviation is 316.
        assert!((98_700..101_300).contains(&times.len()), "{}", times.len());
        assert!(times.is_sorted());
        let short = times.windows(2).filter(|w| w[1] - w[0] < 693_147).count();
        let share = short as f64 / times.len() as f64;
        assert!((share - 0.5).abs() < 0.01, "half of all gaps are below ln 2 of the mean: {share}");
    }

    #[test]
    fn a_constant_pace_is_exact_and_a_seed_is_a_schedule() {
        let schedule = Schedule::new(Pace::Constant(3.0), 0, 1_000_000_001);
        let times: Vec<u64> = std::iter::from_fn(|| schedule.take()).collect();
        assert_eq!(times, [0, 333_333_333, 666_666_666, 1_000_000_000]);
        let draw = || {
            let schedule = Schedule::new(Pace::Poisson(50.0), 9, 1_000_000_000);
            std::iter::from_fn(|| schedule.take()).collect::<Vec<_>>()
        };
        assert_eq!(draw(), draw());
    }
}
