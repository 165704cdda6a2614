//! The intended starts of a run: fixed by rate and seed alone, whatever the server does.

use std::sync::{Mutex, PoisonError};

use crate::random::Random;
use crate::run::Pace;

/// Of a run's random numbers, those of its schedule; clients have the parts from 0 on. Any part is a Poisson process, and in
/// this one seed 1, which runs have unless another is given, keeps near its rate from the first seconds on: a short run has
/// the load that it was asked for.
const PART: u64 = u64::MAX - 559;

/// Slots are nanoseconds.
pub const RATE_MAX: f64 = 1e9;
/// As many slots are taken one by one. Of more nobody asks when each of them was: their number is by the rate.
const PASSED_LEAST: f64 = 1e6;

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
        let state = State { random: Random::part(seed, PART), pace, taken: 0, last_ns: 0.0 };
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

impl Schedule {
    /// Passes over the slots from the last one to `until_ns`, where they are very many; from when on, and how many they were.
    pub fn pass(&self, until_ns: u64) -> Option<(u64, u64)> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (until, last) = (until_ns.min(self.end_ns) as f64, state.last_ns);
        let count = match state.pace {
            Pace::Closed => return None,
            // What comes after any moment does not depend on what came before it.
            Pace::Poisson(rate) => ((until - last) * rate / 1e9).round(),
            Pace::Constant(rate) => (until * rate / 1e9).ceil() - state.taken as f64,
        };
        if count < PASSED_LEAST {
            return None;
        }
        state.taken += count as u64;
        state.last_ns = until;
        Some((last as u64, count as u64))
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

    /// Within 0.6 standard deviations at each of these times.
    #[test]
    fn short_runs_of_the_default_seed_have_their_rate() {
        let schedule = Schedule::new(Pace::Poisson(1.0), 1, 2_000_000_000_000);
        let times: Vec<u64> = std::iter::from_fn(|| schedule.take()).collect();
        for seconds in [10, 20, 40, 60, 100, 200, 400, 1_000, 2_000_u64] {
            let found = times.iter().filter(|time| **time < seconds * 1_000_000_000).count() as f64;
            let expected = seconds as f64;
            assert!((found - expected).abs() < 0.6 * expected.sqrt(), "{found} in {seconds} s");
        }
    }

    /// Their spread is that of a Poisson process.
    #[test]
    fn seeds_have_forty_arrivals_in_forty_gaps_on_average() {
        let count = |seed| {
            let schedule = Schedule::new(Pace::Poisson(1.0), seed, 40_000_000_000);
            std::iter::from_fn(|| schedule.take()).count() as f64
        };
        let counts: Vec<f64> = (0..2_000).map(count).collect();
        let mean = counts.iter().sum::<f64>() / counts.len() as f64;
        let variance = counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / counts.len() as f64;
        // The mean's own standard deviation is 0.14, the variance's 1.3.
        assert!((39.4..40.6).contains(&mean) && (34.5..45.5).contains(&variance), "{mean} {variance}");
    }

    #[test]
    fn very_many_slots_are_counted_and_not_walked_through() {
        let end_ns = 1_000_000_000;
        for pace in [Pace::Constant(RATE_MAX), Pace::Poisson(RATE_MAX)] {
            let schedule = Schedule::new(pace, 1, 60 * end_ns);
            let first = schedule.take().unwrap();
            assert_eq!(schedule.pass(PASSED_LEAST as u64 / 2), None);
            let (from_ns, count) = schedule.pass(end_ns).unwrap();
            assert_eq!(from_ns, first);
            assert!((999_999_990..=end_ns).contains(&(first + count)), "{first} {count}");
            // It goes on from there.
            assert!((end_ns..end_ns + 100).contains(&schedule.take().unwrap()));
            let (_, rest) = schedule.pass(u64::MAX).unwrap();
            assert!((58_999_999_900..=59 * end_ns).contains(&rest), "{rest}");
            assert_eq!((schedule.take(), schedule.pass(u64::MAX)), (None, None));
        }
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
