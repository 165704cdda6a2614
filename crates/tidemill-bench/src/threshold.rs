//! Conditions that a result must meet: `p99 < 50ms and skipped = 0`.

use std::time::Duration;

use crate::error::{Error, Result};
use crate::figure::{duration_with_unit, nearest, percent};
use crate::run::{Outcome, Tally};

/// Conditions that must all be met.
#[derive(Debug, Clone, PartialEq)]
pub struct Threshold(Vec<Condition>);

#[derive(Debug, Clone, PartialEq)]
struct Condition {
    text: String,
    /// None: of all operations.
    operation: Option<String>,
    measure: Measure,
    comparison: Comparison,
    /// Nanoseconds, percent, or a second.
    bound: f64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Measure {
    Quantile(f64),
    Mean,
    Max,
    Rate,
    Late,
    Skipped,
    Failed,
    Missed,
    Backlog,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Comparison {
    Less,
    LessOrEqual,
    Equal,
    GreaterOrEqual,
    Greater,
}

const COMPARISONS: [(&str, Comparison); 5] = [
    ("<=", Comparison::LessOrEqual),
    (">=", Comparison::GreaterOrEqual),
    ("<", Comparison::Less),
    (">", Comparison::Greater),
    ("=", Comparison::Equal),
];

impl Threshold {
    pub fn parse(text: &str) -> Result<Threshold> {
        let lower = text.to_ascii_lowercase();
        let mut conditions = Vec::new();
        let mut start = 0;
        for end in lower.match_indices(" and ").map(|(at, _)| at).chain([text.len()]) {
            conditions.push(Condition::parse(text[start..end].trim())?);
            start = (end + " and ".len()).min(text.len());
        }
        Ok(Threshold(conditions))
    }

    /// Before a run: are the operations that it names among those that there are?
    pub fn check(&self, operations: &[String]) -> Result<()> {
        self.0.iter().try_for_each(|condition| condition.index(operations).map(drop))
    }

    /// Those that every run meets that has no limit.
    pub fn without_effect(&self, limit: Option<Duration>) -> Vec<String> {
        let is_idle = |condition: &&Condition| matches!(condition.measure, Measure::Late | Measure::Skipped);
        let idle = self.0.iter().filter(|_| limit.is_none()).filter(is_idle);
        idle.map(|condition| {
            format!("nothing is late or skipped without --limit, whatever \"{}\" says", condition.text)
        })
        .collect()
    }

    /// The conditions that are not met, with what was found; and two that need no words: the rate was reached, and no operation
    /// failed of which no condition says how many may. Else a run would meet them by what it did not do.
    pub fn missed(&self, outcome: &Outcome) -> Result<Vec<String>> {
        let behind = outcome.record.total().behind();
        let mut missed = Vec::from_iter(behind.map(|why| format!("the rate was not reached: {why}")));
        missed.extend(self.failed(outcome)?);
        for condition in &self.0 {
            let found = condition.found(outcome)?;
            if !condition.comparison.holds(found, condition.bound) {
                missed.push(format!("{}: it is {}", condition.text, condition.measure.show(found)));
            }
        }
        Ok(missed)
    }
}

impl Threshold {
    /// What failed and may not.
    fn failed(&self, outcome: &Outcome) -> Result<Option<String>> {
        let mut total = Tally::default();
        let mut allowed = Vec::new();
        for condition in self.0.iter().filter(|condition| condition.measure == Measure::Failed) {
            match condition.index(&outcome.operations)? {
                None => return Ok(None),
                Some(index) => allowed.push(index),
            }
        }
        let tallies = outcome.record.operations.iter().enumerate();
        tallies.filter(|(index, _)| !allowed.contains(index)).for_each(|(_, tally)| total.merge(tally));
        let share = percent(total.failed, total.asked());
        let codes: Vec<&str> = outcome.errors.iter().map(|(code, _)| code).collect();
        Ok((total.failed > 0).then(|| {
            format!(
                "{share:.1} % of the operations failed ({}), and no condition says how many may, such as failed < 1%",
                codes.join(", ")
            )
        }))
    }
}

impl Condition {
    fn parse(text: &str) -> Result<Condition> {
        let wrong = |what: &str| {
            Error::usage(format!(
                "\"{text}\" is no condition: {what} (for example p99 < 50ms, skipped = 0, missed <= 1%, rate >= 100, or \
                 OPERATION.p95 < 20ms; several are joined by and)"
            ))
        };
        let found = COMPARISONS.iter().find_map(|(sign, c)| text.split_once(sign).map(|parts| (parts, *c)));
        let ((left, right), comparison) = found.ok_or_else(|| wrong("there is no <, <=, =, >= or >"))?;
        let left = left.trim();
        let (operation, name) = match Measure::parse(left) {
            Some(_) => (None, left),
            None => match left.match_indices('.').find(|(at, _)| Measure::parse(&left[at + 1..]).is_some()) {
                Some((at, _)) => (Some(left[..at].to_owned()), &left[at + 1..]),
                None => (None, left),
            },
        };
        let measure = Measure::parse(name).ok_or_else(|| wrong("that figure is not known"))?;
        let right = right.trim();
        let bound = match measure {
            Measure::Quantile(_) | Measure::Mean | Measure::Max => {
                duration_with_unit(right)?.as_nanos() as f64
            }
            _ => {
                let number = right.trim_end_matches(['%', ' ']).trim_end_matches("/s");
                number.parse().map_err(|_| wrong("the bound is no number"))?
            }
        };
        Ok(Condition { text: text.to_owned(), operation, measure, comparison, bound })
    }

    fn found(&self, outcome: &Outcome) -> Result<f64> {
        let total;
        let tally = match self.index(&outcome.operations)? {
            None => {
                total = outcome.record.total();
                &total
            }
            Some(index) => &outcome.record.operations[index],
        };
        Ok(self.measure.of(tally, outcome.elapsed_s))
    }

    /// Of its operation; none for all together.
    fn index(&self, operations: &[String]) -> Result<Option<usize>> {
        let Some(name) = &self.operation else { return Ok(None) };
        let index = operations.iter().position(|operation| operation == name);
        index.map(Some).ok_or_else(|| {
            let near = nearest(name, operations.iter().map(String::as_str));
            let hint = near.map(|near| format!("; did you mean \"{near}\"?")).unwrap_or_default();
            Error::usage(format!("\"{}\": there is no operation \"{name}\"{hint}", self.text))
        })
    }
}

impl Measure {
    fn parse(name: &str) -> Option<Measure> {
        Some(match name {
            "mean" => Measure::Mean,
            "max" => Measure::Max,
            "rate" => Measure::Rate,
            "late" => Measure::Late,
            "skipped" => Measure::Skipped,
            "failed" => Measure::Failed,
            "missed" => Measure::Missed,
            "backlog" => Measure::Backlog,
            name => {
                let share: f64 = name.strip_prefix('p')?.parse().ok()?;
                (0.0..=100.0).contains(&share).then_some(Measure::Quantile((share * 1e6).round() / 1e8))?
            }
        })
    }

    fn of(self, tally: &Tally, elapsed_s: f64) -> f64 {
        // Nothing that ended well has no good response time, and nothing that was due no good share.
        let time = |value: f64| if tally.processed == 0 { f64::INFINITY } else { value };
        let percent = |part, whole| if tally.due() == 0 { f64::INFINITY } else { percent(part, whole) };
        match self {
            Measure::Quantile(share) => time(tally.response.quantile(share) as f64),
            Measure::Mean => time(tally.response.mean()),
            Measure::Max => time(tally.response.max() as f64),
            Measure::Rate if elapsed_s > 0.0 => tally.processed as f64 / elapsed_s,
            Measure::Rate => 0.0,
            Measure::Late => percent(tally.late, tally.processed),
            Measure::Skipped => percent(tally.skipped, tally.asked()),
            Measure::Failed => percent(tally.failed, tally.asked()),
            Measure::Missed => percent(tally.late + tally.skipped + tally.backlog, tally.due()),
            Measure::Backlog => percent(tally.backlog, tally.due()),
        }
    }

    fn show(self, value: f64) -> String {
        match self {
            _ if value.is_infinite() => "of nothing: no such operation was measured".to_owned(),
            Measure::Quantile(_) | Measure::Mean | Measure::Max => format!("{} ms", crate::figure::ms(value)),
            Measure::Rate => format!("{value:.1}/s"),
            _ => format!("{value:.3} %"),
        }
    }
}

impl Comparison {
    fn holds(self, found: f64, bound: f64) -> bool {
        match self {
            Comparison::Less => found < bound,
            Comparison::LessOrEqual => found <= bound,
            Comparison::Equal => found == bound,
            Comparison::GreaterOrEqual => found >= bound,
            Comparison::Greater => found > bound,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_read() {
        let threshold = Threshold::parse("p99 < 50ms AND skipped = 0 and new.sql.p99.9<=1s").unwrap();
        let all: Vec<_> = threshold.0.iter().map(|c| (c.operation.as_deref(), c.measure, c.bound)).collect();
        assert_eq!(
            all,
            [
                (None, Measure::Quantile(0.99), 5e7),
                (None, Measure::Skipped, 0.0),
                (Some("new.sql"), Measure::Quantile(0.999), 1e9)
            ]
        );
    }

    /// A few may be due in the last moments: they are neither late nor skipped, as with pgbench. Many are a rate that was not
    /// reached, whatever the conditions say.
    #[test]
    fn what_was_never_begun_is_a_condition_of_its_own() {
        let missed = |backlog, text| {
            let tally = Tally { processed: 900, late: 9, skipped: 100, backlog, ..Tally::default() };
            let record = crate::run::Record { operations: vec![tally], ..Default::default() };
            let outcome = Outcome { operations: vec!["a".to_owned()], record, ..Outcome::default() };
            Threshold::parse(text).unwrap().missed(&outcome).unwrap()
        };
        assert_eq!(missed(4, "late <= 1 and skipped <= 10"), [""; 0]);
        assert_eq!(missed(4, "missed = 0 and backlog = 0").len(), 2);
        let told = "the rate was not reached: 250 of 1250 operations that were due were never begun";
        assert_eq!(missed(250, "late <= 1 and skipped <= 10"), [told]);
        assert_eq!(missed(250, "backlog = 0"), [told, "backlog = 0: it is 20.000 %"]);
    }

    /// Those that ended well are the lucky ones, unless somebody says how many others there may be.
    #[test]
    fn what_failed_meets_no_condition_that_does_not_speak_of_it() {
        let tally = |failed| Tally { processed: 100 - failed, failed, ..Tally::default() };
        let record = crate::run::Record { operations: vec![tally(90), tally(0)], ..Default::default() };
        let operations = ["a".to_owned(), "b".to_owned()].to_vec();
        let mut outcome = Outcome { operations, record, ..Outcome::default() };
        outcome.errors.add(&Error::server("40001", "could not serialize access"));
        let missed = |text| Threshold::parse(text).unwrap().missed(&outcome).unwrap();
        let told = "45.0 % of the operations failed (40001), and no condition says how many may, such as failed < 1%";
        assert_eq!(missed("p99 < 1s"), [told]);
        assert_eq!(missed("p99 < 1s and b.failed = 0"), [told.replace("45.0", "90.0")]);
        assert_eq!(missed("p99 < 1s and failed < 1%"), ["failed < 1%: it is 45.000 %"]);
        assert_eq!(missed("p99 < 1s and a.failed <= 90%"), [""; 0]);
    }

    #[test]
    fn what_always_holds_is_told() {
        let threshold = Threshold::parse("p99 < 1s and late < 5 and a.skipped = 0 and missed = 0").unwrap();
        let told = ["late < 5", "a.skipped = 0"]
            .map(|text| format!("nothing is late or skipped without --limit, whatever \"{text}\" says"));
        assert_eq!(threshold.without_effect(None), told);
        assert_eq!(threshold.without_effect(Some(Duration::from_millis(1))), [""; 0]);
    }

    #[test]
    fn what_was_not_measured_meets_no_condition() {
        let record = crate::run::Record { operations: vec![Tally::default()], ..Default::default() };
        let outcome = Outcome { operations: vec!["a".to_owned()], record, ..Outcome::default() };
        for text in ["p99 < 1s", "late = 0", "skipped = 0", "failed = 0", "missed = 0", "backlog = 0"] {
            let missed = Threshold::parse(text).unwrap().missed(&outcome).unwrap();
            assert_eq!(missed, [format!("{text}: it is of nothing: no such operation was measured")]);
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (text, what) in [("p99", "there is no <"), ("p101 < 1s", "not known"), ("late < x", "no number")]
        {
            let error = Threshold::parse(text).unwrap_err().to_string();
            assert!(error.contains(what), "{error}");
        }
        let error = Threshold::parse("p99 < 5").unwrap_err().to_string();
        assert!(error.contains("\"5\" has no unit: say 5ms or 5s"), "{error}");
    }

    #[test]
    fn an_operation_that_is_not_there_is_told() {
        let threshold = Threshold::parse("p99 < 1s and nwe.p99 < 5ms").unwrap();
        let error = threshold.check(&["new".to_owned(), "old".to_owned()]).unwrap_err().to_string();
        assert_eq!(error, "\"nwe.p99 < 5ms\": there is no operation \"nwe\"; did you mean \"new\"?");
        assert!(threshold.check(&["nwe".to_owned()]).is_ok());
    }
}
