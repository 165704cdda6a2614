//! The original's `-csvstream`: figures of each requester and operation, interval by interval, from a sample of each.

use std::io::Write;

use super::mix::Operation;
use super::now_ms;
use super::random::Random;
use super::settings::Settings;
use crate::error::{Error, Result};
use crate::run::{Kind, Plan, Progress, Sample};

const HEADER: &str = "threadID,timestamp,op,totalops,totalerrors,ops,sampleDuration_us,sampleOps,mean_us,min_us,p25_us,p50_us,p75_us,p90_us,p95_us,p99_us,max_us";
const DISPLAY_EVERY_S: u64 = 60;
const SAMPLES_MAX: usize = 10_000;

/// Writes rows as the run goes on; a file that cannot be written is told at the end.
pub struct CsvStream<W: Write> {
    out: W,
    failed: Option<std::io::Error>,
    /// By requester, then operation.
    columns: Vec<Column>,
    samples_max: usize,
    every_ms: u64,
    began_ms: u64,
    at_ms: u64,
    warmup_ns: u64,
    random: Random,
}

/// One operation of one requester.
#[derive(Clone, Default)]
struct Column {
    total: u64,
    errors: u64,
    /// Of this interval; a sample of them is kept.
    ended: u64,
    sum_us: f64,
    kept_us: Vec<u32>,
}

impl<W: Write> CsvStream<W> {
    pub fn new(mut out: W, settings: &Settings, plan: &Plan) -> Result<Self> {
        let properties = &settings.properties;
        let failed = writeln!(out, "{HEADER}").err();
        let warmup_ns = plan.warmup.as_nanos() as u64;
        Ok(CsvStream {
            out,
            failed,
            columns: vec![Column::default(); plan.clients * Operation::NAMES.len()],
            samples_max: properties.or("maxsamples", SAMPLES_MAX)?,
            every_ms: properties.or("displayfreq", DISPLAY_EVERY_S)?.saturating_mul(1_000),
            began_ms: warmup_ns / 1_000_000,
            at_ms: warmup_ns / 1_000_000,
            warmup_ns,
            random: Random::part(plan.seed, u64::MAX),
        })
    }

    pub fn add(&mut self, progress: &Progress<'_>) {
        progress.samples.iter().for_each(|sample| self.record(sample));
        self.at_ms = progress.at.as_millis() as u64;
        if self.every_ms > 0 && self.at_ms >= self.began_ms.saturating_add(self.every_ms) {
            self.write();
        }
    }

    /// The last interval.
    pub fn finish(mut self) -> Result<()> {
        self.write();
        let flushed = self.out.flush();
        let failed = self.failed.or(flushed.err());
        failed.map_or(Ok(()), |error| {
            Err(Error::Wrong(format!("could not write the stream of figures: {error}")))
        })
    }

    fn record(&mut self, sample: &Sample) {
        let index = sample.client as usize * Operation::NAMES.len() + sample.operation as usize;
        let Some(column) = self.columns.get_mut(index).filter(|_| sample.due_ns >= self.warmup_ns) else {
            return;
        };
        match sample.kind {
            Kind::Done => {}
            Kind::Failed => {
                column.errors += 1;
                return;
            }
            Kind::Skipped | Kind::Backlog => return,
        }
        let us = (sample.end_ns - sample.begin_ns) / 1_000;
        column.total += 1;
        column.ended += 1;
        column.sum_us += us as f64;
        let us = u32::try_from(us).unwrap_or(u32::MAX);
        if column.kept_us.len() < self.samples_max {
            column.kept_us.push(us);
        } else {
            // Vitter's algorithm R: each has the same chance to be kept.
            let place = self.random.below(column.ended as i64) as usize;
            column.kept_us.get_mut(place).into_iter().for_each(|kept| *kept = us);
        }
    }

    fn write(&mut self) {
        let lasted_us = self.at_ms.saturating_sub(self.began_ms) * 1_000;
        let now_s = now_ms() / 1_000;
        for (index, column) in self.columns.iter_mut().enumerate() {
            let operations = Operation::NAMES.len();
            let (requester, name) = (index / operations, Operation::NAMES[index % operations]);
            let row = format!("{requester},{now_s},{name},{}", column.row(lasted_us));
            if self.failed.is_none() {
                self.failed = writeln!(self.out, "{row}").err();
            }
        }
        self.began_ms = self.at_ms;
    }
}

impl Column {
    /// From `totalops` on; without samples the row ends in empty fields. The next interval begins empty.
    fn row(&mut self, lasted_us: u64) -> String {
        let Column { total, errors, ended, sum_us, .. } = *self;
        let mut sorted = std::mem::take(&mut self.kept_us);
        (self.ended, self.sum_us) = (0, 0.0);
        sorted.sort_unstable();
        let n = sorted.len();
        let head = format!("{total},{errors},{ended},{lasted_us},{n}");
        if n == 0 {
            return format!("{head},,,,,,,,,");
        }
        let at = [0, n / 4, n / 2, n - 1 - n / 4, n - 1 - n / 10, n - 1 - n / 20, n - 1 - n / 100, n - 1];
        let times = at.map(|index| sorted[index].to_string()).join(",");
        format!("{head},{:.3},{times}", sum_us / ended as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn rows_are_the_original_s() {
        let settings = super::super::settings::Sources {
            nodes: Some(10),
            define: ["requesters=2", "requests=1", "displayfreq=1", "warmup_time=1"]
                .map(str::to_owned)
                .to_vec(),
            ..Default::default()
        };
        let settings = settings.settings().unwrap();
        let plan = Plan {
            clients: 2,
            threads: None,
            pace: crate::run::Pace::Closed,
            limit: None,
            warmup: Duration::from_secs(1),
            time: Duration::from_secs(5),
            operations_max: None,
            seed: 1,
        };
        let mut written = Vec::new();
        let mut stream = CsvStream::new(&mut written, &settings, &plan).unwrap();
        let sample = |kind, us: u64| {
            let begin_ns = 1_500_000_000;
            Sample { client: 1, ..Sample::new(3, kind, begin_ns, begin_ns, begin_ns + us * 1_000) }
        };
        (1..=100).for_each(|us| stream.record(&sample(Kind::Done, us)));
        stream.record(&sample(Kind::Failed, 7));
        stream.record(&Sample { due_ns: 0, ..sample(Kind::Done, 7) });
        stream.at_ms = 2_000;
        stream.write();
        stream.at_ms = 3_000;
        stream.finish().unwrap();
        let text = String::from_utf8(written).unwrap();
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
        assert!(rows.iter().all(|row| row.len() == 17), "{text}");
        assert_eq!(rows.len(), 1 + 2 * 2 * 10);
        let told = |row: &[&str]| [&row[..1], &row[2..]].concat().join(",");
        assert_eq!(told(&rows[14]), "1,GET_NODE,100,1,100,1000000,100,50.500,1,26,51,75,90,95,99,100");
        assert_eq!(told(&rows[34]), "1,GET_NODE,100,1,0,1000000,0,,,,,,,,,");
    }
}
