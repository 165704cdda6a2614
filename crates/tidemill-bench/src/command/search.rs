//! `search`: the highest rate that meets conditions.

use std::path::PathBuf;

use super::exit;
use super::load::Load;
use super::run::Repeats;
use crate::error::{Error, Result};
use crate::figure::ms;
use crate::interrupt;
use crate::result::ResultFile;
use crate::threshold::Threshold;

/// Doublings and halvings in all: from one a second beyond any rate that there is.
const STEPS_MAX: usize = 64;

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
    /// Where the result at the rate that was found is kept.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Search {
    pub fn run(self) -> Result<u8> {
        let threshold = Threshold::parse(&self.until)?;
        if !(self.from > 0.0 && self.from.is_finite() && self.tolerance > 0.0) {
            return Err(Error::usage("--from and --tolerance must be above 0"));
        }
        let experiment = self.load_at(self.from)?.experiment()?;
        threshold.check(&experiment.suite.workload(&experiment.context)?.operations())?;
        interrupt::listen().map_err(|error| Error::usage(error.to_string()))?;
        let (mut good, mut bad): (Option<(f64, ResultFile)>, Option<f64>) = (None, None);
        let mut rate = self.from;
        for _ in 0..STEPS_MAX {
            let (result, missed) = self.attempt(rate, &threshold)?;
            if interrupt::interrupted() {
                return Err(Error::Wrong("interrupted".to_owned()));
            }
            if missed.is_empty() {
                good = Some((rate, result));
            } else {
                bad = Some(rate);
            }
            let low = good.as_ref().map_or(0.0, |(rate, _)| *rate);
            rate = match bad {
                None => low * 2.0,
                Some(bad) if low > 0.0 && bad / low - 1.0 <= self.tolerance / 100.0 => break,
                Some(bad) if low == 0.0 && bad < self.from / 1000.0 => break,
                Some(bad) if low == 0.0 => bad / 2.0,
                // By the geometric middle: the tolerance is a share.
                Some(bad) => (low * bad).sqrt(),
            };
        }
        let Some((rate, result)) = good else {
            println!("no rate meets {}", self.until);
            return Ok(exit::THRESHOLD_MISSED);
        };
        if let Some(path) = &self.output {
            result.write(path)?;
        }
        let bad = bad.map_or("nothing higher was tried".to_owned(), |bad| format!("{bad:.1} does not"));
        println!("{rate:.1} a second meets {} ({bad})", self.until);
        Ok(0)
    }

    fn load_at(&self, rate: f64) -> Result<Load> {
        let mut load = self.load.clone();
        load.vary("rate", &rate.to_string())?;
        Ok(load)
    }

    fn attempt(&self, rate: f64, threshold: &Threshold) -> Result<(ResultFile, Vec<String>)> {
        let load = self.load_at(rate)?;
        let mut result = load.experiment()?.measure(Repeats { count: 1, is_aa: false }, 0)?;
        result.settings = load.place.settings.iter().cloned().collect();
        let mut missed = Vec::new();
        for outcome in &result.repeats {
            missed.extend(threshold.missed(outcome)?);
            let total = outcome.record.total();
            // The rate is not kept then, whatever the conditions say.
            missed.extend(total.behind());
            eprintln!(
                "{rate:.1}/s: p50 {} p99 {} ms, {} late, {} skipped: {}",
                ms(total.response.quantile(0.5) as f64),
                ms(total.response.quantile(0.99) as f64),
                total.late,
                total.skipped,
                if missed.is_empty() { "met".to_owned() } else { missed.join("; ") }
            );
        }
        missed.extend(result.blemish());
        Ok((result, missed))
    }
}
