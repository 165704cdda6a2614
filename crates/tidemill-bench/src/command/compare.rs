//! `compare`: two results, figure by figure.

use std::path::PathBuf;

use super::exit;
use crate::error::Result;
use crate::figure::ms;
use crate::report::text::spread;
use crate::result::ResultFile;
use crate::run::Pace;
use crate::stats::{Estimate, Figure, Seconds};

#[derive(clap::Args)]
pub(super) struct Compare {
    /// The result to compare with.
    base: PathBuf,
    /// The result that may be better.
    new: PathBuf,
    /// Exit with 3 when a figure is worse.
    #[arg(long)]
    check: bool,
}

const FIGURES: [Figure; 6] = [
    Figure::Rate,
    Figure::Mean,
    Figure::Quantile(0.5),
    Figure::Quantile(0.95),
    Figure::Quantile(0.99),
    Figure::Missed,
];

#[derive(Debug, Clone, Copy, PartialEq)]
enum Verdict {
    Better,
    Worse,
    NoChange,
    Unknown,
}

impl Compare {
    pub fn run(self) -> Result<u8> {
        let (base, new) = (ResultFile::read(&self.base)?, ResultFile::read(&self.new)?);
        for (path, result) in [(&self.base, &base), (&self.new, &new)] {
            if let Some(blemish) = result.blemish() {
                println!("{} does not rank: {blemish}", path.display());
                return Ok(exit::INCOMPLETE);
            }
        }
        for difference in differences(&base, &new) {
            println!("NOT THE SAME RUN: {difference}");
        }
        let noise = [&base, &new].iter().filter_map(|result| spread(&result.repeats)).fold(0.0, f64::max);
        let (old_seconds, new_seconds) = (Seconds::of(&base.repeats), Seconds::of(&new.repeats));
        let ratios = new_seconds.ratios(&old_seconds, &FIGURES);
        let (old, now) = (old_seconds.estimates(&FIGURES), new_seconds.estimates(&FIGURES));
        println!("figure            base          new   change   95 % interval      verdict");
        let mut is_worse = false;
        for (i, figure) in FIGURES.into_iter().enumerate() {
            let verdict = verdict(figure, &ratios[i], noise, base.plan.pace);
            is_worse |= verdict == Verdict::Worse;
            println!(
                "{:<9} {:>12} {:>12} {:>+7.1} %  {:<17}  {}",
                figure.name(),
                shown(figure, old[i].value),
                shown(figure, now[i].value),
                change(ratios[i].value),
                ratios[i].interval.map_or("too few intervals".to_owned(), |(low, high)| {
                    format!("{:+.1} to {:+.1} %", change(low), change(high))
                }),
                verdict.text()
            );
        }
        if noise > 0.0 {
            println!(
                "repeats of the same run differ by up to {:.1} % in p50: less than that is no change",
                noise * 100.0
            );
        }
        Ok(if self.check && is_worse { exit::THRESHOLD_MISSED } else { 0 })
    }
}

fn shown(figure: Figure, value: f64) -> String {
    match figure {
        Figure::Rate => format!("{value:.1}/s"),
        Figure::Missed => format!("{value:.2} %"),
        _ => format!("{} ms", ms(value)),
    }
}

fn change(ratio: f64) -> f64 {
    (ratio - 1.0) * 100.0
}

fn verdict(figure: Figure, ratio: &Estimate, noise: f64, pace: Pace) -> Verdict {
    let Some((low, high)) = ratio.interval else { return Verdict::Unknown };
    let is_chance = (low..=high).contains(&1.0) || (ratio.value - 1.0).abs() <= noise;
    // In an open loop the rate is what was asked for, up to the chance of the arrivals.
    let is_given = figure == Figure::Rate && pace != Pace::Closed && (ratio.value - 1.0).abs() < 0.02;
    match (is_chance || is_given, (ratio.value > 1.0) == figure.is_better_when_higher()) {
        (true, _) => Verdict::NoChange,
        (false, true) => Verdict::Better,
        (false, false) => Verdict::Worse,
    }
}

impl Verdict {
    fn text(self) -> &'static str {
        match self {
            Verdict::Better => "better",
            Verdict::Worse => "worse",
            Verdict::NoChange => "no change",
            Verdict::Unknown => "cannot tell",
        }
    }
}

/// What makes a comparison mean something else than "the same work, done otherwise".
fn differences(base: &ResultFile, new: &ResultFile) -> Vec<String> {
    let mut found = Vec::new();
    let mut compare = |name: &str, old: String, new: String| {
        if old != new {
            found.push(format!("{name}: {old} / {new}"));
        }
    };
    compare("suite", base.suite.clone(), new.suite.clone());
    compare("clients", base.plan.clients.to_string(), new.plan.clients.to_string());
    compare("pace", format!("{:?}", base.plan.pace), format!("{:?}", new.plan.pace));
    compare("limit", format!("{:?} ms", base.plan.limit_ms), format!("{:?} ms", new.plan.limit_ms));
    compare("parameters", format!("{:?}", base.parameters), format!("{:?}", new.parameters));
    compare("machine", base.machine.cpu.clone(), new.machine.cpu.clone());
    found
}
