//! The original's output: log lines and CSV, so that scripts that read them go on working.

use super::load::Loaded;
use super::mix::Operation;
use super::request::Requests;
use super::request_log::retry_lines;
use super::settings::Settings;
use crate::histogram::Histogram;
use crate::run::{Outcome, Plan};
use std::fmt::Write;

/// Figures of one kind of operation.
struct Line<'a> {
    name: &'static str,
    times: &'a Histogram,
    threads: usize,
}

const PERCENTILES: [(&str, f64); 5] =
    [("p25", 0.25), ("p50", 0.5), ("p75", 0.75), ("p95", 0.95), ("p99", 0.99)];
const CSV_HEADER: &str = "op,count,p25_low,p25_high,p50_low,p50_high,p75_low,p75_high,p95_low,p95_high,p99_low,p99_high,max,mean,threads";

const CSV_HEADER_HDR: &str =
    "op,count,p25 (us),p50 (us),p75 (us),p95 (us),p99 (us),max (us),mean (us),threads";

/// The log of a load, line by line.
pub fn load_log(settings: &Settings, loaded: &Loaded) -> Vec<String> {
    let is_hdr = is_hdr(settings);
    let ids = settings.graph.counts.ids();
    let expected = (ids.end - ids.start) * loaded.graphs as i64;
    let (nodes, links, counts, seconds) =
        (loaded.nodes, loaded.links, loaded.counts, loaded.seconds.max(1e-3));
    let a_node = |rows: u64| rows as f64 / expected as f64;
    let rate = |rows: u64| (rows as f64 / seconds) as u64;
    let completed = if settings.properties.or("never_change", false).unwrap_or(false) {
        format!(
            "LOAD PHASE COMPLETED.  Loaded {nodes} nodes (Expected {expected}). Loaded {links} links ({:.2} links per node).  Took {seconds:.1} seconds.  Links/second = {}",
            a_node(links),
            rate(links)
        )
    } else {
        format!(
            "LOAD PHASE COMPLETED. Loaded {nodes} nodes (Expected {expected}), {links} links ({:.2} /node), {counts} counts ({:.2} /node). {seconds:.1} seconds, {} Links/s, {} (link+count)/s, {} (link+count+node)/s",
            a_node(links),
            a_node(counts),
            rate(links),
            rate(links + counts),
            rate(links + counts + nodes)
        )
    };
    let lines = load_lines(loaded);
    [completed].into_iter().chain(lines.iter().map(|line| line.log(is_hdr))).collect()
}

/// The log of a run's end, line by line. Times are service times, as the original's: from the send.
pub fn request_log(settings: &Settings, plan: &Plan, outcome: &Outcome, requests: &Requests) -> Vec<String> {
    let is_hdr = is_hdr(settings);
    let mut lines: Vec<String> = request_lines(plan, outcome).iter().map(|line| line.log(is_hdr)).collect();
    let done: u64 = outcome.record.operations.iter().map(|tally| tally.processed).sum();
    lines.extend(retry_lines(requests, outcome));
    let seconds = outcome.elapsed_s;
    lines.push(format!(
        "REQUEST PHASE COMPLETED. {done} requests done in {} seconds. Requests/second = {}",
        seconds as u64,
        (done as f64 / seconds.max(1e-3)) as u64
    ));
    if let Some(why) = &outcome.incomplete {
        // Why they were stands among the errors.
        let aborted = match outcome.errors.clients() {
            0 => why.clone(),
            aborted => format!("{aborted}/{} request threads aborted", plan.clients),
        };
        lines.push(format!("Benchmark did not complete cleanly: {aborted}"));
    }
    lines
}

/// The CSV of a load, and of a run.
pub fn load_csv(settings: &Settings, loaded: &Loaded) -> String {
    csv(&load_lines(loaded), is_hdr(settings))
}

pub fn request_csv(settings: &Settings, plan: &Plan, outcome: &Outcome) -> String {
    csv(&request_lines(plan, outcome), is_hdr(settings))
}

/// Percentiles as values in microseconds, or else as the buckets that they are in.
fn is_hdr(settings: &Settings) -> bool {
    settings.properties.or("use_hdr_histogram", false).unwrap_or(false)
}

fn load_lines(loaded: &Loaded) -> Vec<Line<'_>> {
    let line = |name, times| Line { name, times, threads: loaded.loaders };
    let lines = [
        line("LOAD_NODE_BULK", &loaded.node_bulk),
        line("LOAD_LINKS_BULK", &loaded.links_bulk),
        line("LOAD_COUNTS_BULK", &loaded.counts_bulk),
    ];
    lines.into_iter().filter(|line| line.times.count() > 0).collect()
}

fn request_lines<'a>(plan: &Plan, outcome: &'a Outcome) -> Vec<Line<'a>> {
    let lines = Operation::NAMES.into_iter().zip(&outcome.record.operations);
    let lines = lines.map(|(name, tally)| Line { name, times: &tally.service, threads: plan.clients });
    lines.filter(|line| line.times.count() > 0).collect()
}

fn csv(lines: &[Line<'_>], is_hdr: bool) -> String {
    if is_hdr {
        let rows = lines.iter().map(|line| format!("{},{}\n", line.name, line.microseconds().join(",")));
        return format!("{CSV_HEADER_HDR}\n{}", rows.collect::<String>());
    }
    let mut text = format!("{CSV_HEADER}\n");
    for line in lines {
        let _ = write!(text, "{},{}", line.name, line.times.count());
        for (_, share) in PERCENTILES {
            let (low, high) = percentile_ms(line.times, share);
            let _ = write!(text, ",{},{}", decimals(low, 2), decimals(high, 2));
        }
        let (max, mean) = (ms(line.times.max() as f64), ms(line.times.mean()));
        let _ = writeln!(text, ",{},{},{}", decimals(max, 2), decimals(mean, 2), line.threads);
    }
    text
}

impl Line<'_> {
    /// Count, percentiles, maximum, mean, threads.
    fn microseconds(&self) -> Vec<String> {
        let us = |ns: u64| decimals((ns as f64 / 1e3).round(), 0);
        let mut values = vec![self.times.count().to_string()];
        values.extend(PERCENTILES.map(|(_, share)| us(self.times.quantile(share))));
        values.extend([us(self.times.max()), decimals(self.times.mean() / 1e3, 3), self.threads.to_string()]);
        values
    }

    fn log(&self, is_hdr: bool) -> String {
        if is_hdr {
            let values = self.microseconds();
            let mut text = format!("{} count = {} ", self.name, values[0]);
            let names = PERCENTILES.map(|(name, _)| name).into_iter().chain(["max", "mean"]);
            for (name, value) in names.zip(&values[1..]) {
                let _ = write!(text, " {name} = {value}us");
            }
            return format!("{text} threads = {}", self.threads);
        }
        let mut text = format!("{} count = {} ", self.name, self.times.count());
        for (name, share) in PERCENTILES {
            let (low, high) = percentile_ms(self.times, share);
            let _ = write!(text, " {name} = [{},{}]ms ", decimals(low, 2), decimals(high, 2));
        }
        let (max, mean) = (ms(self.times.max() as f64), ms(self.times.mean()));
        let _ = write!(text, " max = {}ms  mean = {}ms", decimals(max, 3), decimals(mean, 3));
        let _ = write!(text, " threads = {}", self.threads);
        text
    }
}

fn ms(ns: f64) -> f64 {
    ns / 1e6
}

/// The bucket in which that share of all times, rounded down, is reached; the first one when it rounds to nothing.
fn percentile_ms(times: &Histogram, share: f64) -> (f64, f64) {
    let needed = (share * times.count() as f64) as u64;
    let mut counted = 0;
    let reached = times.buckets().find(|(_, count)| {
        counted += count;
        counted >= needed
    });
    bounds_ms(reached.filter(|_| needed > 0).map_or(0, |(time, _)| time))
}

/// The bucket that the original counts this time in, ms.
fn bounds_ms(ns: u64) -> (f64, f64) {
    let us = ns / 1_000;
    let bucket = |width_us: u64| {
        let low = us / width_us * width_us;
        (low as f64 / 1e3, (low + width_us) as f64 / 1e3)
    };
    match us {
        0..1_000 => bucket(100),
        1_000..100_000 => bucket(1_000),
        100_000..1_000_000 => bucket(100_000),
        1_000_000..10_000_000 => bucket(1_000_000),
        _ => (10_000.0, 100_000.0),
    }
}

/// With at most this many decimals, and no zeros at their end.
pub fn decimals(value: f64, most: usize) -> String {
    let text = format!("{value:.most$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// A log line in full: level, date and time with milliseconds, the requester's thread or the main one.
pub fn stamped(requester: Option<usize>, text: &str) -> String {
    let thread = requester.map_or("main".to_owned(), |index| format!("Thread-{index}"));
    let now = super::now_ms();
    let (days, ms_of_day) = (now.div_euclid(86_400_000), now.rem_euclid(86_400_000));
    let (year, month, day) = date(days);
    let (hours, minutes, ms) = (ms_of_day / 3_600_000, ms_of_day / 60_000 % 60, ms_of_day % 60_000);
    let seconds = format!("{:06.3}", ms as f64 / 1e3);
    let seconds = seconds.trim_end_matches('0').trim_end_matches('.');
    format!("INFO {year:04}-{month:02}-{day:02} {hours:02}:{minutes:02}:{seconds} [{thread}]: {text}")
}

/// Of a number of days since 1970, in the Gregorian calendar (Hinnant's algorithm).
fn date(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day_of_year - (153 * shifted_month + 2) / 5 + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_lies_in_its_bucket() {
        for us in (0..12_000_000u64).step_by(37).chain([999, 1_000, 99_999, 100_000, 999_999, 9_999_999]) {
            let (low, high) = bounds_ms(us * 1_000);
            let ms = us as f64 / 1e3;
            assert!(low <= ms && ms < high, "{us}: {low} {high}");
        }
        let bounds = [350, 1_500, 250_000, 3_400_000, 50_000_000].map(|us| bounds_ms(us * 1_000));
        let expected = [(0.3, 0.4), (1.0, 2.0), (200.0, 300.0), (3_000.0, 4_000.0), (10_000.0, 100_000.0)];
        assert_eq!(bounds, expected);
    }

    #[test]
    fn lines_are_the_original_s() {
        let mut times = Histogram::default();
        for us in [450, 550, 550, 4_500] {
            times.record(us * 1_000);
        }
        let line = Line { name: "ADD_NODE", times: &times, threads: 8 };
        assert_eq!(
            line.log(false),
            "ADD_NODE count = 4  p25 = [0.4,0.5]ms  p50 = [0.5,0.6]ms  p75 = [0.5,0.6]ms  p95 = [0.5,0.6]ms  p99 = [0.5,0.6]ms  max = 4.5ms  mean = 1.512ms threads = 8"
        );
        let csv = csv(&[line], false);
        let row = csv.lines().nth(1).unwrap();
        assert_eq!(row, "ADD_NODE,4,0.4,0.5,0.5,0.6,0.5,0.6,0.5,0.6,0.5,0.6,4.5,1.51,8");
    }

    #[test]
    fn hdr_rows_are_the_original_s() {
        let mut times = Histogram::default();
        (1..=100).for_each(|us| times.record(us * 1_000));
        let line = Line { name: "ADD_LINK", times: &times, threads: 8 };
        assert_eq!(
            line.log(true),
            "ADD_LINK count = 100  p25 = 25us p50 = 50us p75 = 75us p95 = 95us p99 = 99us max = 100us mean = 50.5us threads = 8"
        );
        let csv = csv(&[line], true);
        assert_eq!(csv.lines().nth(1), Some("ADD_LINK,100,25,50,75,95,99,100,50.5,8"));
    }

    #[test]
    fn dates() {
        assert_eq!(date(0), (1970, 1, 1));
        assert_eq!(date(17_055), (2016, 9, 11));
        assert_eq!(date(19_782), (2024, 2, 29));
    }
}
