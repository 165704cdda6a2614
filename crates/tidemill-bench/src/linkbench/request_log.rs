//! What the original logs while requests are made, and at the end of each requester.

use super::mix::Operation;
use super::request::{RequesterEnd, Requests};
use super::sampled::Figures;
use super::settings::Settings;
use crate::error::Result;
use crate::run::{Failure, Kind, Outcome, Plan, Progress};

const PROGRESS_EVERY_S: u64 = 6;
const REQUESTS_EVERY: u64 = 10_000;

/// A line, and the requester whose thread would have logged it; none for the main thread.
pub type Logged = (Option<usize>, String);

/// Counts requests, and has lines to tell when enough of them, or of the time, have passed.
pub struct RequestLog {
    requests: u64,
    clients: usize,
    warmup_s: f64,
    limit_s: f64,
    every_requests: u64,
    every_s: f64,
    told: u64,
    told_at_s: f64,
    /// By requester, after the warm-up.
    done: Vec<u64>,
    last_end_ns: Vec<u64>,
}

impl RequestLog {
    pub fn new(settings: &Settings, plan: &Plan) -> Result<Self> {
        let properties = &settings.properties;
        let warmup_s = plan.warmup.as_secs_f64();
        Ok(RequestLog {
            requests: plan.operations_max.unwrap_or(0),
            clients: plan.clients,
            warmup_s,
            limit_s: (plan.warmup + plan.time).as_secs_f64(),
            every_requests: properties.or("req_progress_interval", REQUESTS_EVERY)?,
            every_s: properties.or("progressfreq", PROGRESS_EVERY_S)? as f64,
            told: 0,
            told_at_s: warmup_s,
            done: vec![0; plan.clients],
            last_end_ns: vec![plan.warmup.as_nanos() as u64; plan.clients],
        })
    }

    pub fn add(&mut self, progress: &Progress<'_>) -> Vec<Logged> {
        for sample in progress.samples {
            let is_counted = matches!(sample.kind, Kind::Done | Kind::Failed);
            let Some(done) = self.done.get_mut(sample.client as usize).filter(|_| is_counted) else {
                continue;
            };
            let last = &mut self.last_end_ns[sample.client as usize];
            *last = (*last).max(sample.end_ns);
            *done += u64::from(sample.due_ns as f64 >= self.warmup_s * 1e9);
        }
        let mut lines = Vec::from_iter(self.of_all(progress).map(|line| (None, line)));
        let at_s = progress.at.as_secs_f64();
        if self.every_s > 0.0 && at_s >= self.told_at_s + self.every_s {
            self.told_at_s = at_s;
            let line = |(requester, done)| {
                (Some(requester), format!("Requester #{requester} {done}/{} requests done", self.requests))
            };
            lines.extend(self.done.iter().enumerate().map(line));
        }
        lines
    }

    /// Each time the number of requests of all passes a multiple of the interval.
    fn of_all(&mut self, progress: &Progress<'_>) -> Option<String> {
        let done = progress.record.operations.iter().map(|tally| tally.processed).sum::<u64>();
        let before = std::mem::replace(&mut self.told, done);
        let is_due = self.every_requests > 0 && done / self.every_requests > before / self.every_requests;
        is_due.then(|| {
            let (total, seconds) = (self.clients as u64 * self.requests, progress.at.as_secs_f64());
            format!(
                "{done}/{total} requests finished: {:.1}% complete at {:.1} ops/sec {seconds:.1}/{} secs elapsed: {:.1}% of time limit used",
                100.0 * done as f64 / total.max(1) as f64,
                done as f64 / (seconds - self.warmup_s).max(1e-3),
                self.limit_s,
                100.0 * seconds / self.limit_s,
            )
        })
    }

    /// Of each requester when it has ended.
    pub fn ends(&self, requests: &Requests) -> Vec<Logged> {
        let ends = requests.ends();
        let line = |(requester, done): (usize, &u64)| {
            let end = ends.get(&requester).copied().unwrap_or_default();
            let seconds = self.last_end_ns[requester] as f64 / 1e9 - self.warmup_s;
            let text = format!(
                "ThreadID = {requester} total requests = {done} requests/second = {} found = {} not found = {} history queries = {}/{}",
                (*done as f64 / seconds.max(1e-3)) as u64,
                end.found,
                end.not_found,
                end.lists_from_history,
                end.lists,
            );
            (Some(requester), text)
        };
        self.done.iter().enumerate().map(line).collect()
    }
}

/// The figures of an interval.
pub fn sampled_line(of: &Figures) -> Logged {
    let head = format!("ThreadID = {} {}", of.requester, of.operation);
    let (total, errors, ended, samples) = (of.total, of.errors, of.ended, of.samples);
    let rest = format!(
        "totalErrors = {errors} ops = {ended} sampleDuration = {}ms samples = {samples}",
        of.lasted_ms
    );
    let text = match &of.times {
        None => format!("{head} totalops = {total} {rest}"),
        Some(times) => {
            let names = ["min", "25%", "50%", "75%", "90%", "95%", "99%", "max"];
            let at = names.iter().zip(times.at).map(|(name, us)| format!(" {name} = {us}"));
            let mean = super::original::decimals(times.mean, 2);
            format!("{head} totalOps = {total} {rest} mean = {mean}{}", at.collect::<String>())
        }
    };
    (Some(of.requester), text)
}

/// How often what was tried again, and which errors there were. What loads do stands in the log of a load.
pub fn retry_lines(requests: &Requests, outcome: &Outcome) -> Vec<String> {
    let ends: Vec<RequesterEnd> = requests.ends().into_values().collect();
    let sum = |of: Operation| ends.iter().map(|end| end.retries[of.index()].0).sum::<u64>();
    let most = |of: Operation| ends.iter().map(|end| u64::from(end.retries[of.index()].1)).max().unwrap_or(0);
    let links = |of: &dyn Fn(Operation) -> u64| {
        use Operation::{AddLink, CountLink, DeleteLink, GetLinksList, MultigetLink, UpdateLink};
        let [add, update, delete] = [AddLink, UpdateLink, DeleteLink].map(of);
        let [multiget, list, count] = [MultigetLink, GetLinksList, CountLink].map(of);
        format!(
            "{add} add, {update} update, {delete} delete, 0 get, {multiget} multiget, {list} get_link_list, {count} count, 0 add_bulk_links, 0 add_bulk_counts"
        )
    };
    let nodes = |of: &dyn Fn(Operation) -> u64| {
        use Operation::{AddNode, DeleteNode, GetNode, UpdateNode};
        let [add, get, update, delete] = [AddNode, GetNode, UpdateNode, DeleteNode].map(of);
        format!("{add} add, 0 add_bulk, {get} get, {update} update, {delete} delete")
    };
    let detour = |name: &str| outcome.counters.get(name).copied().unwrap_or(0);
    let mut lines = vec![
        format!("Graph Link total retry: {}", links(&sum)),
        format!("Graph Link max retry: {}", links(&most)),
        // A COMMIT that fails is an attempt that is made again, or a failed request: it is among those.
        format!(
            "Graph Link other: {} add_to_upd, {} upd_to_add, 0 commit_failed",
            detour("adds that became updates"),
            detour("updates that became adds")
        ),
        format!("Graph Node total retry: {}", nodes(&sum)),
        format!("Graph Node max retry: {}", nodes(&most)),
    ];
    // The one that ended a requester is an error as well.
    let times = |failure: &Failure| failure.operations + failure.clients;
    let error = |(code, failure): (&str, &Failure)| format!("error({code}) {} times", times(failure));
    let errors: Vec<String> = outcome.errors.iter().map(error).collect();
    if !errors.is_empty() {
        lines.push("Error counts".to_owned());
    }
    lines.extend(errors);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use crate::linkbench::compat::Compat;
    use crate::linkbench::sampled::tests::{run_of_two, sample};
    use crate::run::{Failures, Record};
    use std::time::Duration;

    #[test]
    fn requesters_say_how_far_they_are() {
        let (settings, plan, requests) = run_of_two(Compat::none());
        let mut log = RequestLog::new(&settings, &plan).unwrap();
        let get = sample(Operation::GetNode, Kind::Done, 250_000);
        // One of the warm-up, one that counts, one that was never begun.
        let samples =
            [crate::run::Sample { due_ns: 0, ..get }, get, crate::run::Sample { kind: Kind::Backlog, ..get }];
        let (record, errors) = (Record::default(), Failures::default());
        let mut at = |ms, samples| {
            let at = Duration::from_millis(ms);
            log.add(&Progress {
                at,
                is_warmup: false,
                operations: &[],
                record: &record,
                errors: &errors,
                samples,
            })
        };
        assert!(at(1_900, &samples).is_empty());
        let lines = ["Requester #0 0/1 requests done", "Requester #1 1/1 requests done"];
        let lines: Vec<Logged> = lines
            .iter()
            .map(|line| (*line).to_owned())
            .enumerate()
            .map(|(i, line)| (Some(i), line))
            .collect();
        assert_eq!(at(2_000, &[]), lines);
        assert!(at(2_900, &[]).is_empty());
        // It ended 0.75 s after the warm-up.
        let end = "ThreadID = 1 total requests = 1 requests/second = 1 found = 0 not found = 0 history queries = 0/0";
        assert_eq!(log.ends(&requests)[1], (Some(1), end.to_owned()));
    }

    #[test]
    fn retries_are_told_by_operation_and_errors_by_number() {
        let (.., requests) = run_of_two(Compat::none());
        let mut ends = [RequesterEnd::default(); 2];
        ends[0].retries[Operation::AddLink.index()] = (5, 3);
        ends[1].retries[Operation::AddLink.index()] = (2, 2);
        ends[1].retries[Operation::UpdateNode.index()] = (1, 1);
        ends.into_iter().enumerate().for_each(|(index, end)| requests.ended(index, end));
        let mut errors = Failures::default();
        (0..4).for_each(|_| errors.add(&Error::server("22021", "invalid byte sequence")));
        errors.add_end(&Error::server("22021", "invalid byte sequence"));
        let lines = retry_lines(&requests, &Outcome { errors, ..Outcome::default() });
        let links = "0 update, 0 delete, 0 get, 0 multiget, 0 get_link_list, 0 count, 0 add_bulk_links, 0 add_bulk_counts";
        let expected = [
            format!("Graph Link total retry: 7 add, {links}"),
            format!("Graph Link max retry: 3 add, {links}"),
            "Graph Link other: 0 add_to_upd, 0 upd_to_add, 0 commit_failed".to_owned(),
            "Graph Node total retry: 0 add, 0 add_bulk, 0 get, 1 update, 0 delete".to_owned(),
            "Graph Node max retry: 0 add, 0 add_bulk, 0 get, 1 update, 0 delete".to_owned(),
            "Error counts".to_owned(),
            "error(22021) 5 times".to_owned(),
        ];
        assert_eq!(lines, expected);
    }
}
