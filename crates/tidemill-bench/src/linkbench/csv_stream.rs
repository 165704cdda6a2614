//! The original's `-csvstream`: figures of each requester and operation, interval by interval.

use std::io::Write;

use super::now_ms;
use super::sampled::Figures;
use super::settings::Settings;
use crate::error::{Error, Result};

const HEADER: &str = "threadID,timestamp,op,totalops,totalerrors,ops,sampleDuration_us,sampleOps,mean_us,min_us,p25_us,p50_us,p75_us,p90_us,p95_us,p99_us,max_us";

/// Writes rows as the run goes on; a file that cannot be written is told at the end.
pub struct CsvStream<W: Write> {
    out: W,
    failed: Option<std::io::Error>,
    /// As the original, which writes ms under a header that says µs.
    is_in_ms: bool,
}

impl<W: Write> CsvStream<W> {
    pub fn new(mut out: W, settings: &Settings) -> Self {
        let failed = writeln!(out, "{HEADER}").err();
        CsvStream { out, failed, is_in_ms: settings.compat.csv_stream }
    }

    pub fn add(&mut self, figures: &[Figures]) {
        let now_s = now_ms() / 1_000;
        for of in figures {
            if self.failed.is_none() {
                self.failed = writeln!(self.out, "{}", self.row(now_s, of)).err();
            }
        }
    }

    /// Without samples a row ends in empty fields.
    fn row(&self, now_s: i64, of: &Figures) -> String {
        let lasted = of.lasted_ms * if self.is_in_ms { 1 } else { 1_000 };
        let head = format!(
            "{},{now_s},{},{},{},{},{lasted},{}",
            of.requester, of.operation, of.total, of.errors, of.ended, of.samples
        );
        match &of.times {
            Some(times) => {
                format!("{head},{:.3},{}", times.mean, times.at.map(|us| us.to_string()).join(","))
            }
            None => format!("{head},,,,,,,,,"),
        }
    }

    pub fn finish(mut self) -> Result<()> {
        let flushed = self.out.flush();
        let failed = self.failed.or(flushed.err());
        failed.map_or(Ok(()), |error| {
            Err(Error::Wrong(format!("could not write the stream of figures: {error}")))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linkbench::compat::Compat;
    use crate::linkbench::sampled::{Sampled, tests::run_of_two};

    #[test]
    fn rows_are_the_original_s() {
        for (compat, rows, lasted) in [(Compat::none(), 22, "1000000"), (Compat::all(), 20, "1000")] {
            let (settings, plan, requests) = run_of_two(compat);
            let mut sampled = Sampled::new(&settings, &plan).unwrap();
            let operations = Vec::new();
            let record = crate::run::Record::default();
            let samples = [crate::linkbench::sampled::tests::sample(
                crate::linkbench::mix::Operation::GetNode,
                crate::run::Kind::Done,
                30,
            )];
            let at = std::time::Duration::from_secs(2);
            let progress = crate::run::Progress {
                at,
                is_warmup: false,
                operations: &operations,
                record: &record,
                errors: &crate::run::Failures::default(),
                samples: &samples,
            };
            let mut written = Vec::new();
            let mut stream = CsvStream::new(&mut written, &settings);
            stream.add(&sampled.add(&requests, &progress));
            stream.finish().unwrap();
            let text = String::from_utf8(written).unwrap();
            let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
            assert!(lines.iter().all(|line| line.len() == 17), "{text}");
            assert_eq!(lines.len(), 1 + rows, "{text}");
            let told = |row: &[&str]| [&row[..1], &row[2..]].concat().join(",");
            let last = format!("1,GET_NODE,1,0,1,{lasted},1,30.000,30,30,30,30,30,30,30,30");
            assert_eq!(told(&lines[rows]), last);
            assert_eq!(told(&lines[1]), format!("0,MULTIGET_LINK,0,0,0,{lasted},0,,,,,,,,,"));
        }
    }
}
