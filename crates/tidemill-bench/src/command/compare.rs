//! `compare`: two results, figure by figure.

use std::path::PathBuf;

use super::exit;
use crate::error::Result;
use crate::report::difference::Differences;
use crate::report::noise::floors;
use crate::report::remark::{behind, idle, spread, unlucky};
use crate::result::ResultFile;
use crate::run::Pace;
use crate::stats::{Estimate, Figure, Seconds};

#[derive(clap::Args)]
pub(super) struct Compare {
    /// The result to compare with.
    base: PathBuf,
    /// The result that may be better.
    new: PathBuf,
    /// Exit with 3 when a figure is worse, and with 2 when that cannot be told.
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

const FIGURES_OF_OPERATIONS: [Figure; 2] = [Figure::Mean, Figure::Quantile(0.95)];

#[derive(Debug, Clone, Copy, PartialEq)]
enum Verdict {
    Better,
    Worse,
    NoChange,
    /// A rate that was asked for and reached, twice: they differ by the chance of the arrivals.
    Given,
    /// Of one of the two: the figures are those of the operations that did not fail.
    Survivors,
    Unknown,
}

impl Compare {
    pub fn run(self) -> Result<u8> {
        let (base, new) = (ResultFile::read(&self.base)?, ResultFile::read(&self.new)?);
        for (path, result) in [(&self.base, &base), (&self.new, &new)] {
            let idle = || result.repeats.iter().find_map(idle);
            if let Some(blemish) = result.blemish().or_else(idle) {
                println!("{} does not rank: {blemish}", path.display());
                return Ok(exit::INCOMPLETE);
            }
        }
        for (path, result) in [(&self.base, &base), (&self.new, &new)] {
            for why in result.repeats.iter().filter_map(|outcome| behind(result, outcome)) {
                println!("NOT THE RATE THAT WAS ASKED FOR: {}: {why}", path.display());
            }
            for why in result.repeats.iter().filter_map(unlucky) {
                println!("NOT ALL OPERATIONS: {}: {why}", path.display());
            }
        }
        Differences::between(&base, &new).lines().iter().for_each(|line| println!("{line}"));
        let noise = [&base, &new].iter().filter_map(|result| spread(&result.repeats)).fold(0.0, f64::max);
        let comparison = Comparison {
            noise,
            floors: Floors::of(&base, &new),
            is_rate_given: [&base, &new].into_iter().all(has_its_rate),
        };
        let is_whole = |result: &ResultFile| result.repeats.iter().all(|o| !o.record.total().is_unlucky());
        let ranks = is_whole(&base) && is_whole(&new);
        println!("figure            base          new   change   95 % interval      verdict");
        let (old, now) = (Seconds::of(&base.repeats), Seconds::of(&new.repeats));
        let verdicts = comparison.print(&Pair { old, now, ranks }, &FIGURES);
        // Of many operations one is soon worse by chance: they are told, and do not decide.
        let is_worse = verdicts.contains(&Verdict::Worse);
        for (name, pair) in operations(&base, &new) {
            println!("{name}");
            comparison.print(&pair, &FIGURES_OF_OPERATIONS);
        }
        comparison.floors.tell();
        if noise > 0.0 {
            println!(
                "repeats of the same run differ by up to {:.1} % in p50: less than that is no change",
                noise * 100.0
            );
        }
        Ok(match self.check {
            true if !ranks => exit::INCOMPLETE,
            true if is_worse => exit::THRESHOLD_MISSED,
            _ => 0,
        })
    }
}

/// What is compared, and whether there can be a verdict: not of the lucky operations of a run in which many failed.
struct Pair {
    old: Seconds,
    now: Seconds,
    ranks: bool,
}

/// What decides whether a change is one.
struct Comparison {
    noise: f64,
    floors: Floors,
    is_rate_given: bool,
}

impl Comparison {
    /// A line for each figure.
    fn print(&self, Pair { old, now, ranks }: &Pair, figures: &[Figure]) -> Vec<Verdict> {
        let ratios = now.ratios(old, figures);
        let (before, after) = (old.estimates(figures), now.estimates(figures));
        let line = |(i, figure): (usize, &Figure)| {
            let noise = self.noise.max(self.floors.of_figure(*figure));
            let verdict = match (figure, self.is_rate_given) {
                _ if !ranks => Verdict::Survivors,
                (Figure::Rate, true) => Verdict::Given,
                _ => verdict(*figure, &ratios[i], noise),
            };
            let interval = ratios[i].interval.map_or("too few to tell".to_owned(), |(low, high)| {
                format!("{:+.1} to {:+.1} %", change(low), change(high))
            });
            println!(
                "{:<9} {:>12} {:>12} {:>+7.1} %  {interval:<17}  {}",
                figure.name(),
                shown(*figure, before[i].value),
                shown(*figure, after[i].value),
                change(ratios[i].value),
                verdict.text()
            );
            verdict
        };
        figures.iter().enumerate().map(line).collect()
    }
}

/// What A/A runs say, of the noisier one of the two results; figures without one are not there.
struct Floors(Vec<(Figure, f64)>);

impl Floors {
    fn of(base: &ResultFile, new: &ResultFile) -> Self {
        let both = floors(base, &FIGURES).into_iter().zip(floors(new, &FIGURES));
        let noisier = FIGURES.iter().zip(both).filter_map(|(figure, (base, new))| {
            Some((*figure, base.into_iter().chain(new).reduce(f64::max)?))
        });
        Self(noisier.collect())
    }

    fn of_figure(&self, figure: Figure) -> f64 {
        self.0.iter().find(|(name, _)| *name == figure).map_or(0.0, |(_, floor)| *floor)
    }

    fn tell(&self) {
        if self.0.is_empty() {
            return;
        }
        let told = self.0.iter().map(|(figure, floor)| format!("{} {:.1} %", figure.name(), floor * 100.0));
        let told: Vec<String> = told.collect();
        println!("noise floor (A/A): {}: less than that is no change", told.join(", "));
    }
}

/// Those that both have, if there are several.
fn operations<'a>(base: &'a ResultFile, new: &ResultFile) -> Vec<(&'a str, Pair)> {
    let (Some(first), Some(other)) = (base.repeats.first(), new.repeats.first()) else { return Vec::new() };
    if first.operations.len() < 2 {
        return Vec::new();
    }
    let of = |result: &ResultFile, index| Seconds::of_operation(&result.repeats, index);
    let is_whole = |result: &ResultFile, index: usize| {
        let mut tallies = result.repeats.iter().filter_map(|outcome| outcome.record.operations.get(index));
        tallies.all(|tally| !tally.is_unlucky())
    };
    let both = first.operations.iter().enumerate().filter_map(|(i, name)| {
        let j = other.operations.iter().position(|other| other == name)?;
        let ranks = is_whole(base, i) && is_whole(new, j);
        Some((name.as_str(), Pair { old: of(base, i), now: of(new, j), ranks }))
    });
    both.filter(|(_, pair)| pair.old.is_asked() && pair.now.is_asked()).collect()
}

fn shown(figure: Figure, value: f64) -> String {
    match figure {
        Figure::Missed => format!("{value:.2} %"),
        figure => figure.show(value),
    }
}

fn change(ratio: f64) -> f64 {
    (ratio - 1.0) * 100.0
}

/// In an open loop that was kept up with, the rate is what was asked for.
fn has_its_rate(result: &ResultFile) -> bool {
    let is_open = result.plan.pace != Pace::Closed;
    is_open && result.repeats.iter().all(|outcome| outcome.record.total().has_its_rate())
}

fn verdict(figure: Figure, ratio: &Estimate, noise: f64) -> Verdict {
    let Some((low, high)) = ratio.interval else { return Verdict::Unknown };
    let is_chance = (low..=high).contains(&1.0) || (ratio.value - 1.0).abs() <= noise;
    match (is_chance, (ratio.value > 1.0) == figure.is_better_when_higher()) {
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
            Verdict::Given => "as asked: the chance of the arrivals",
            Verdict::Survivors => "does not rank: too many failed",
            Verdict::Unknown => "cannot tell",
        }
    }
}
