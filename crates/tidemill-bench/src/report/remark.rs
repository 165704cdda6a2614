//! What a reader of the figures must know: what the generator cost, and what speaks against the figures.

use super::noise;
use crate::figure::{ms, percent};
use crate::result::ResultFile;
use crate::run::{Outcome, Pace};
use crate::stats::{Figure, STEADY_SECONDS_LEAST, Seconds};

/// Above this share of its processors the generator is suspected to measure itself.
const CPU_SHARE_MAX: f64 = 0.75;
/// Idle clients that wake up later than this in one of a hundred cases make responses look slower.
const OVERSLEEP_MAX_NS: u64 = 1_000_000;

/// What the generator had of the machine.
struct Generator {
    /// Of all processors, and of those that its threads could use.
    share: f64,
    share_of_threads: f64,
    us_an_operation: f64,
}

impl Generator {
    fn of(result: &ResultFile, outcome: &Outcome) -> Generator {
        let wall = (result.plan.warmup_s + outcome.elapsed_s).max(0.001);
        // Those of the warm-up are not counted, and cost the same.
        let operations = outcome.record.total().processed.max(1) as f64 * wall / outcome.elapsed_s.max(0.001);
        let share = |processors: usize| outcome.generator_cpu_s / (wall * processors.max(1) as f64);
        Generator {
            share: share(result.machine.cores),
            share_of_threads: share(outcome.threads),
            us_an_operation: outcome.generator_cpu_s * 1e6 / operations,
        }
    }
}

/// The database works in this process, so that its CPU is the generator's.
fn is_embedded(result: &ResultFile) -> bool {
    result.target.dialect == "sqlite"
}

/// What the generator cost, and the noise between repeats.
pub fn remarks(result: &ResultFile) -> Vec<String> {
    let embedded = match is_embedded(result) {
        true => " (the database's work included: it is in this process)",
        false => "",
    };
    let floor =
        result.floor_cpu_us.map(|us| format!("; against nothing it costs {us:.1} µs")).unwrap_or_default();
    let generator = |outcome: &Outcome| {
        let Generator { share, us_an_operation, .. } = Generator::of(result, outcome);
        format!(
            "generator: {:.1} % of the machine's CPU, {us_an_operation:.1} µs an operation{embedded}{floor}; {:.0} MB at most; \
             idle clients woke {} ms late (p99)",
            share * 100.0,
            result.memory_max_bytes as f64 / 1e6,
            ms(outcome.record.oversleep.quantile(0.99) as f64)
        )
    };
    let noise = spread(&result.repeats).map(|spread| {
        format!("noise of this machine (repeats of the same run, p50): {:.1} %", spread * 100.0)
    });
    let is_short = |outcome: &Outcome| !Seconds::of(std::slice::from_ref(outcome)).can_drift();
    let unjudged = result.outcomes().any(is_short).then(|| {
        format!("too short to tell whether it was steady: that takes {STEADY_SECONDS_LEAST} whole seconds")
    });
    result.repeats.iter().map(generator).chain(noise).chain(unjudged).collect()
}

/// Why the figures may not be the database's.
pub fn warnings(result: &ResultFile) -> Vec<String> {
    let mut found = Vec::new();
    for outcome in &result.repeats {
        found.extend(idle(outcome));
        let Generator { share, share_of_threads, .. } = Generator::of(result, outcome);
        if !is_embedded(result) && share > CPU_SHARE_MAX {
            found.push("the generator has most of the CPU: these are figures of the generator".to_owned());
        } else if !is_embedded(result) && share_of_threads > CPU_SHARE_MAX {
            found.push(
                "the generator's threads are busy most of the time: give it more of them (-j)".to_owned(),
            );
        }
        found.extend(outcome.errors.blemish());
        found.extend(behind(result, outcome));
        found.extend(unlucky(outcome));
        if outcome.record.oversleep.quantile(0.99) > OVERSLEEP_MAX_NS {
            found.push(
                "clients that were idle woke up late: the machine is too busy for these figures".to_owned(),
            );
        }
    }
    let runs = [(&result.repeats, "repeat"), (&result.again, "A/A repeat")];
    for (runs, name) in runs {
        for (i, outcome) in runs.iter().enumerate() {
            let Some(drift) = Seconds::of(std::slice::from_ref(outcome)).drift() else { continue };
            let which = if runs.len() > 1 { format!(" in {name} {}", i + 1) } else { String::new() };
            found.push(format!(
                "not steady{which}: responses changed by {:+.0} % from the first third to the last",
                drift * 100.0
            ));
        }
    }
    for (figure, change) in
        noise::differences(result, &[Figure::Mean, Figure::Quantile(0.5), Figure::Quantile(0.95)])
    {
        found.push(format!(
            "this machine is not quiet: the same run twice differs by {:+.1} % in {}, beyond chance",
            change * 100.0,
            figure.name()
        ));
    }
    found
}

/// The rate that was asked for was not reached.
pub fn behind(result: &ResultFile, outcome: &Outcome) -> Option<String> {
    let (Pace::Poisson(rate) | Pace::Constant(rate)) = result.plan.pace else { return None };
    let why = outcome.record.total().behind()?;
    Some(format!("the rate was not reached ({:.1} of {rate:.1} a second): {why}", outcome.rate()))
}

/// No operation ended well.
pub fn idle(outcome: &Outcome) -> Option<String> {
    let total = outcome.record.total();
    let told = format!(
        "nothing was measured: of {} operations that were due none ended well ({} skipped, {} failed, {} never begun)",
        total.due(),
        total.skipped,
        total.failed,
        total.backlog
    );
    (total.processed == 0).then_some(told)
}

/// Many operations failed.
pub fn unlucky(outcome: &Outcome) -> Option<String> {
    let total = outcome.record.total();
    let codes = || outcome.errors.iter().map(|(code, _)| code).collect::<Vec<_>>().join(", ");
    total.is_unlucky().then(|| {
        let share = percent(total.failed, total.asked());
        format!("{share:.1} % of the operations failed ({}): these are figures of the others", codes())
    })
}

/// How far the medians of repeats are apart: the change that means nothing here.
pub fn spread(repeats: &[Outcome]) -> Option<f64> {
    if repeats.len() < 2 {
        return None;
    }
    let medians: Vec<f64> = repeats.iter().map(|o| o.record.total().response.quantile(0.5) as f64).collect();
    let (low, high) = medians.iter().fold((f64::MAX, 0.0_f64), |(low, high), m| (low.min(*m), high.max(*m)));
    (low > 0.0).then(|| high / low - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::TargetRecord;
    use crate::run::{Interval, Plan, Slice, Tally};
    use std::time::Duration;

    /// Thirty seconds whose responses take `ms` at first, and `last_ms` in the last third.
    fn outcome(ms: u64, last_ms: u64) -> Outcome {
        let mut outcome = Outcome { elapsed_s: 30.0, threads: 1, ..Outcome::default() };
        let mut tally = Tally::default();
        for second in 0..30 {
            let mut slice = Slice { processed: 10, ..Slice::default() };
            for i in 0..10 {
                let time = (if second < 20 { ms } else { last_ms }) * 1_000_000 + i * 1_000;
                slice.response.record(time);
                tally.response.record(time);
                tally.processed += 1;
            }
            outcome.record.intervals.push(Interval { operations: vec![slice], ..Interval::new(0) });
        }
        (outcome.record.interval_ns, outcome.record.operations) = (1_000_000_000, vec![tally]);
        outcome
    }

    #[test]
    fn a_run_that_is_too_short_for_the_check_says_so() {
        let said = |seconds: usize| {
            let mut outcome = outcome(5, 9);
            outcome.record.intervals.truncate(seconds);
            let mut result = ResultFile::new("x", target(), &plan());
            result.repeats = vec![outcome];
            remarks(&result)
                .iter()
                .any(|remark| remark.starts_with("too short to tell whether it was steady"))
        };
        assert_eq!((said(14), said(15)), (true, false));
    }

    fn plan() -> Plan {
        Plan {
            clients: 1,
            threads: None,
            pace: Pace::Closed,
            limit: None,
            warmup: Duration::ZERO,
            time: Duration::from_secs(30),
            operations_max: None,
            seed: 1,
        }
    }

    fn target() -> TargetRecord {
        TargetRecord {
            url: String::new(),
            dialect: "postgres".to_owned(),
            version: String::new(),
            is_encrypted: false,
            server_settings: Default::default(),
        }
    }

    #[test]
    fn each_repeat_is_checked_for_its_steadiness() {
        let mut result = ResultFile::new("x", target(), &plan());
        result.repeats = vec![outcome(5, 5), outcome(5, 9)];
        let told = "not steady in repeat 2: responses changed by +80 % from the first third to the last";
        assert_eq!(warnings(&result), [told]);
        result.repeats.truncate(1);
        assert_eq!(warnings(&result), [""; 0]);
        result.plan.pace = Pace::Poisson(10.0);
        result.repeats[0].record.operations[0].backlog = 4;
        assert_eq!(warnings(&result), [""; 0]);
        result.repeats[0].record.operations[0].backlog = 5;
        let told = "the rate was not reached (10.0 of 10.0 a second): 5 of 305 operations that were due were never begun";
        assert_eq!(warnings(&result), [told]);
        result.repeats[0].record.operations[0].backlog = 0;
        result.again = vec![outcome(5, 9)];
        assert!(warnings(&result)[0].starts_with("not steady: responses changed by +80 %"));
    }
}
