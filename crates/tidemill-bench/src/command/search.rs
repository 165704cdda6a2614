//! `search`: the highest rate that meets conditions.

use std::path::PathBuf;

use super::exit;
use super::load::Load;
use super::run::Repeats;
use crate::error::{Error, Result};
use crate::file::check_place;
use crate::interrupt;
use crate::report::remark::idle;
use crate::report::text::shown;
use crate::result::ResultFile;
use crate::threshold::Threshold;

/// Doublings and halvings in all: from one a second beyond any rate that there is.
const STEPS_MAX: usize = 64;
/// Lower rates are not tried, whatever the first one was.
const RATE_LEAST: f64 = 0.01;

#[derive(clap::Args)]
pub(super) struct Search {
    #[command(flatten)]
    load: Load,
    /// What must hold: "p99 < 50ms and skipped = 0".
    #[arg(long, value_name = "CONDITIONS")]
    until: String,
    /// The rate to begin with; doubled while it is met.
    #[arg(long, default_value_t = 10.0, value_name = "N")]
    from: f64,
    /// How near the answer has to be, percent.
    #[arg(long, default_value_t = 5.0, value_name = "PERCENT")]
    tolerance: f64,
    /// Search this often, with other seeds, and tell how far the rates are apart.
    #[arg(long, default_value_t = 1, value_name = "N")]
    repeats: u64,
    /// Where the result at the rate that was found is kept.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// What one search has come to.
#[derive(Default)]
struct Found {
    good: Option<(f64, ResultFile)>,
    bad: Option<f64>,
    /// Why it ended before it was near enough.
    ended: Option<String>,
}

impl Search {
    pub fn run(self) -> Result<u8> {
        let threshold = Threshold::parse(&self.until)?;
        if !(self.from > 0.0 && self.from.is_finite() && self.tolerance > 0.0 && self.repeats > 0) {
            return Err(Error::usage("--from, --tolerance and --repeats must be above 0"));
        }
        let experiment = self.load_at(self.from)?.experiment()?;
        threshold.check(&experiment.suite.workload(&experiment.context)?.operations())?;
        for idle in threshold.without_effect(experiment.plan.limit) {
            eprintln!("WARNING: {idle}");
        }
        self.output.as_deref().map_or(Ok(()), check_place)?;
        let time_s = experiment.plan.time.as_secs_f64();
        interrupt::listen().map_err(|error| Error::usage(error.to_string()))?;
        let mut all = Vec::new();
        for repeat in 0..self.repeats {
            let found = match self.search(repeat, &threshold, time_s) {
                // What the searches before have found is told and kept.
                Err(error) if repeat > 0 => Found { ended: Some(error.to_string()), ..Found::default() },
                found => found?,
            };
            let is_ended = found.ended.is_some();
            all.push(found);
            if is_ended {
                break;
            }
        }
        self.tell(all)
    }

    fn search(&self, repeat: u64, threshold: &Threshold, time_s: f64) -> Result<Found> {
        let mut found = Found::default();
        let mut rate = self.from;
        for _ in 0..STEPS_MAX {
            match self.attempt(rate, repeat, threshold) {
                Ok(Attempt::Met(result)) => found.good = Some((rate, *result)),
                Ok(Attempt::Missed) => found.bad = Some(rate),
                Ok(Attempt::Cut(why)) => found.ended = Some(why),
                // Before anything was measured there is nothing to keep.
                Err(error) if found.good.is_none() && found.bad.is_none() => return Err(error),
                Err(error) => found.ended = Some(error.to_string()),
            }
            if interrupt::interrupted() {
                found.ended = Some("interrupted".to_owned());
            }
            if found.ended.is_some() {
                break;
            }
            let low = found.good.as_ref().map_or(0.0, |(rate, _)| *rate);
            rate = match found.bad {
                None => low * 2.0,
                Some(bad) if low > 0.0 && bad / low - 1.0 <= self.tolerance / 100.0 => break,
                Some(bad) if low == 0.0 && !has_lower(bad, self.from, time_s) => break,
                Some(bad) if low == 0.0 => bad / 2.0,
                // By the geometric middle: the tolerance is a share.
                Some(bad) => (low * bad).sqrt(),
            };
        }
        Ok(found)
    }

    /// Of several searches the one in the middle counts.
    fn tell(&self, mut all: Vec<Found>) -> Result<u8> {
        let ended = all.iter().find_map(|found| found.ended.clone());
        let lowest = all.iter().filter_map(|found| found.bad).fold(f64::INFINITY, f64::min);
        all.retain(|found| found.good.is_some());
        let rate = |found: &Found| found.good.as_ref().map_or(0.0, |(rate, _)| *rate);
        all.sort_by(|a, b| rate(a).total_cmp(&rate(b)));
        let spread = match all.as_slice() {
            [first, .., last] => format!("; {} searches: {:.1} to {:.1}", all.len(), rate(first), rate(last)),
            _ => String::new(),
        };
        let mut written = Ok(());
        let middle = all.len().saturating_sub(1) / 2;
        match all.get(middle).and_then(|found| Some((found.good.as_ref()?, found.bad))) {
            None if ended.is_some() => {}
            None => {
                println!("no rate meets {}; the lowest that was tried is {lowest:.3} a second", self.until)
            }
            Some(((rate, result), bad)) => {
                written = self.output.as_deref().map_or(Ok(()), |path| result.write(path));
                let bad =
                    bad.map_or("nothing higher was tried".to_owned(), |bad| format!("{bad:.1} does not"));
                println!("{rate:.1} a second meets {} ({bad}{spread})", self.until);
            }
        }
        if let Some(why) = ended {
            println!("INCOMPLETE: the search ended early: {why}");
            return written.map(|()| exit::INCOMPLETE);
        }
        written?;
        Ok(if all.is_empty() { exit::THRESHOLD_MISSED } else { 0 })
    }

    fn load_at(&self, rate: f64) -> Result<Load> {
        let mut load = self.load.clone();
        load.vary("rate", &rate.to_string())?;
        Ok(load)
    }

    fn attempt(&self, rate: f64, repeat: u64, threshold: &Threshold) -> Result<Attempt> {
        let mut load = self.load_at(rate)?;
        load.seed = load.seed.wrapping_add(repeat);
        let result = load.experiment()?.measure(Repeats { count: 1, is_aa: false }, 0)?;
        let mut missed = Vec::new();
        for outcome in &result.repeats {
            missed.extend(threshold.missed(outcome)?);
            let total = outcome.record.total();
            missed.extend(idle(outcome));
            missed.extend(result.blemish());
            eprintln!(
                "{rate:.1}/s: p50 {} p99 {} ms, {} late, {} skipped, {} failed: {}",
                shown(&total.response, total.response.quantile(0.5) as f64),
                shown(&total.response, total.response.quantile(0.99) as f64),
                total.late,
                total.skipped,
                total.failed,
                if missed.is_empty() { "met".to_owned() } else { missed.join("; ") }
            );
        }
        // That tells nothing of the rate.
        if let Some(why) = result.outcomes().find_map(|outcome| outcome.incomplete.clone()) {
            return Ok(Attempt::Cut(why));
        }
        Ok(if missed.is_empty() { Attempt::Met(Box::new(result)) } else { Attempt::Missed })
    }
}

/// Whether a rate below one that was missed says anything: some operation is due in its time.
fn has_lower(missed: f64, from: f64, time_s: f64) -> bool {
    missed >= RATE_LEAST.min(from / 1000.0) && missed * time_s >= 1.0
}

/// What one rate has come to.
enum Attempt {
    Met(Box<ResultFile>),
    Missed,
    /// The run was cut short, and why.
    Cut(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However far the first rate is above what a server does.
    #[test]
    fn a_search_goes_down_to_where_nothing_is_due() {
        assert!(has_lower(585.9, 600_000.0, 1.0) && has_lower(1.0, 600_000.0, 1.0));
        assert!(!has_lower(0.9, 600_000.0, 1.0) && !has_lower(0.009, 10.0, 1e8));
        assert!(has_lower(0.009, 0.1, 600.0));
        let halvings = (crate::run::RATE_MAX / RATE_LEAST).log2();
        assert!(halvings < STEPS_MAX as f64, "{halvings}");
    }
}
