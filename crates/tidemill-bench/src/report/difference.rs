//! What is not the same in two results that are looked at side by side.

use std::collections::BTreeMap;

use crate::result::{ResultFile, ScriptRecord};
use crate::run::{Pace, TIME_MAX};

/// Differences, each as `name: of the first / of the second`.
#[derive(Debug, Default, PartialEq)]
pub struct Differences {
    /// What was asked: with these the two are not the same work.
    pub work: Vec<String>,
    /// How it was done: often what the comparison is about.
    pub way: Vec<String>,
}

impl Differences {
    pub fn between(base: &ResultFile, new: &ResultFile) -> Differences {
        Differences { work: work(base, new), way: way(base, new) }
    }

    /// With what they mean.
    pub fn lines(&self) -> Vec<String> {
        let work = self.work.iter().map(|difference| format!("NOT THE SAME RUN: {difference}"));
        work.chain(self.way.iter().map(|difference| format!("DIFFERENT: {difference}"))).collect()
    }
}

/// Values that differ, so far.
struct Found(Vec<String>);

impl Found {
    fn compare(&mut self, name: &str, old: impl ToString, new: impl ToString) {
        let (old, new) = (old.to_string(), new.to_string());
        if old != new {
            self.0.push(format!("{name}: {old} / {new}"));
        }
    }

    fn compare_all(&mut self, name: &str, old: &BTreeMap<String, String>, new: &BTreeMap<String, String>) {
        let added = new.keys().filter(|key| !old.contains_key(*key));
        for key in old.keys().chain(added) {
            let value = |values: &BTreeMap<String, String>| {
                values.get(key).map_or("none".to_owned(), |value| quoted(value))
            };
            self.compare(&format!("{name} {key}"), value(old), value(new));
        }
    }
}

/// An empty value is seen.
fn quoted(value: &str) -> String {
    if value.is_empty() { "\"\"".to_owned() } else { value.to_owned() }
}

fn work(base: &ResultFile, new: &ResultFile) -> Vec<String> {
    let mut found = Found(Vec::new());
    let (old, now) = (&base.plan, &new.plan);
    found.compare("suite", &base.suite, &new.suite);
    found.compare("clients", old.clients, now.clients);
    found.compare("pace", pace(old.pace), pace(now.pace));
    found.compare("limit", limit(old.limit_ms), limit(now.limit_ms));
    if base.suite == new.suite {
        found.compare_all("parameter", &base.parameters, &new.parameters);
        let mode = |result: &ResultFile| result.mode.map_or("none", |mode| mode.name());
        found.compare("mode", mode(base), mode(new));
        found.compare_all("variable", &base.variables, &new.variables);
        scripts(&mut found, &base.scripts, &new.scripts);
    }
    found.compare("machine", &base.machine.cpu, &new.machine.cpu);
    found.0
}

fn way(base: &ResultFile, new: &ResultFile) -> Vec<String> {
    let mut found = Found(Vec::new());
    found.compare("target", &base.target.url, &new.target.url);
    found.compare("version", &base.target.version, &new.target.version);
    let tls = |result: &ResultFile| if result.target.is_encrypted { "yes" } else { "no" };
    found.compare("TLS", tls(base), tls(new));
    found.compare_all("setting", &base.settings, &new.settings);
    // Two products, or two versions of one, have other defaults.
    if base.target.version == new.target.version {
        let (old, now) = (&base.target.server_settings, &new.target.server_settings);
        found.compare_all("the server's", old, now);
    }
    let threads = |result: &ResultFile| result.repeats.first().map_or(0, |outcome| outcome.threads);
    found.compare("threads", threads(base), threads(new));
    found.compare("seed", base.plan.seed, new.plan.seed);
    let seconds = |s: f64| if s < TIME_MAX.as_secs_f64() { format!("{s} s") } else { "none".to_owned() };
    found.compare("time", seconds(base.plan.time_s), seconds(new.plan.time_s));
    found.compare("warm-up", seconds(base.plan.warmup_s), seconds(new.plan.warmup_s));
    let operations = |max: Option<u64>| max.map_or("none".to_owned(), |max| max.to_string());
    found.compare("operations", operations(base.plan.operations_max), operations(new.plan.operations_max));
    found.0
}

/// By name: another text under the same name is another work.
fn scripts(found: &mut Found, old: &[ScriptRecord], new: &[ScriptRecord]) {
    let names = |scripts: &[ScriptRecord]| {
        scripts.iter().map(|script| script.name.clone()).collect::<Vec<_>>().join(" ")
    };
    found.compare("scripts", names(old), names(new));
    for (old, new) in old.iter().zip(new).filter(|(old, new)| old.name == new.name) {
        found.compare(&format!("weight of {}", old.name), old.weight, new.weight);
        if let Some((line, before, after)) = first_difference(&old.text, &new.text) {
            found.0.push(format!("text of {}, line {line}: {before} / {after}", old.name));
        }
    }
}

fn first_difference<'a>(old: &'a str, new: &'a str) -> Option<(usize, &'a str, &'a str)> {
    let (mut old, mut new) = (old.lines(), new.lines());
    for line in 1.. {
        match (old.next(), new.next()) {
            (None, None) => return None,
            (before, after) if before == after => {}
            (before, after) => return Some((line, before.unwrap_or("none"), after.unwrap_or("none"))),
        }
    }
    None
}

/// When operations were due.
fn pace(pace: Pace) -> String {
    match pace {
        Pace::Poisson(rate) => format!("{rate} a second (Poisson)"),
        Pace::Constant(rate) => format!("{rate} a second (evenly spaced)"),
        Pace::Closed => "closed loop".to_owned(),
    }
}

fn limit(ms: Option<f64>) -> String {
    ms.map_or("none".to_owned(), |ms| format!("{ms} ms"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_that_differs_is_told() {
        assert_eq!(first_difference("a\nb\n", "a\nb"), None);
        assert_eq!(first_difference("a\nb\n", "a\nc\n"), Some((2, "b", "c")));
        assert_eq!(first_difference("a", "a\nc"), Some((2, "none", "c")));
    }
}
