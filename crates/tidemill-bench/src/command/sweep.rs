//! `sweep`: every combination of some values.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use super::exit;
use super::load::Load;
use super::run::{Repeats, write_page};
use crate::error::{Error, Result};
use crate::file::{check_place, first_free, without_results};
use crate::interrupt;
use crate::report::matrix::Matrix;
use crate::report::remark::behind;
use crate::report::text::shown;
use crate::result::ResultFile;

/// More runs than this are a mistake.
const POINTS_MAX: usize = 10_000;

#[derive(clap::Args)]
pub(super) struct Sweep {
    #[command(flatten)]
    load: Load,
    /// What varies: clients, threads, rate, limit, time, warmup, operations, seed, mode, a parameter of the suite, scale or
    /// define.NAME of scripts, or set.NAME for a setting of the server. A comma within a value is written \,
    ///
    /// Repeated for more than one: the first goes across, the others down.
    #[arg(long, required = true, value_name = "NAME=A,B,C")]
    over: Vec<String>,
    /// Make the tables anew before each run, for parameters that change them.
    #[arg(long)]
    prepare: bool,
    #[arg(long, default_value = "1", value_name = "N")]
    repeats: NonZeroUsize,
    /// Where the results are kept: a folder with none in it [default: bench-results/sweep-SUITE-TIME].
    #[arg(short, long, value_name = "FOLDER")]
    output: Option<PathBuf>,
    /// Write a page with heat maps and plots as well.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Seconds between lines of progress; 0 for none.
    #[arg(short = 'P', long, default_value_t = 0, value_name = "S")]
    progress: u64,
}

impl Sweep {
    pub fn run(self) -> Result<u8> {
        let points = points(&self.over)?;
        // All that can be wrong with them is told before the first run.
        let loads = points.iter().map(|point| self.load_at(point)).collect::<Result<Vec<_>>>()?;
        for load in &loads {
            load.experiment()?;
        }
        if let Some(folder) = &self.output {
            without_results(folder)?;
            check_place(&folder.join("0000.json"))?;
        }
        self.html.as_deref().map_or(Ok(()), check_place)?;
        interrupt::listen().map_err(|error| Error::usage(error.to_string()))?;
        let mut results = Vec::new();
        let mut folder = self.output.clone();
        let mut ended = None;
        for (i, (point, load)) in points.iter().zip(&loads).enumerate() {
            // A server that is gone answers none of the other points either.
            let result = match self.measure(point, load) {
                Ok(result) => result,
                Err(error) if results.is_empty() => return Err(error),
                Err(error) => {
                    ended = Some(format!("{}: {error}", named(point)));
                    break;
                }
            };
            eprintln!("{} of {}: {}", i + 1, points.len(), described(&result));
            let path = match folder.take() {
                Some(folder) => folder,
                None => first_free(&default_stem(&result), "", |path| std::fs::create_dir(path))?,
            };
            result.write(&path.join(format!("{i:04}.json")))?;
            folder = Some(path);
            results.push(result);
            if interrupt::interrupted() {
                break;
            }
        }
        if let Some(matrix) = Matrix::of(&results) {
            print!("{}", matrix.text());
        }
        write_page(self.html.as_deref(), &results)?;
        println!("results: {}", folder.unwrap_or_default().display());
        if results.len() < points.len() {
            let why = ended.unwrap_or_else(|| "interrupted".to_owned());
            println!("INCOMPLETE: {} of {} points were run: {why}", results.len(), points.len());
        }
        let is_whole =
            results.len() == points.len() && results.iter().all(|result| result.blemish().is_none());
        Ok(if is_whole { 0 } else { exit::INCOMPLETE })
    }

    fn measure(&self, point: &[(String, String)], load: &Load) -> Result<ResultFile> {
        let experiment = load.experiment()?;
        if self.prepare {
            experiment.suite.prepare(&experiment.context)?;
        }
        let mut result =
            experiment.measure(Repeats { count: self.repeats.get(), is_aa: false }, self.progress)?;
        result.point = point.to_vec();
        Ok(result)
    }

    fn load_at(&self, point: &[(String, String)]) -> Result<Load> {
        let mut load = self.load.clone();
        for (name, value) in point {
            load.vary(name, value)?;
        }
        Ok(load)
    }
}

fn default_stem(result: &ResultFile) -> PathBuf {
    let name = format!("sweep-{}-{}", plain(&result.suite), result.started_at_unix_s);
    PathBuf::from("bench-results").join(name)
}

fn plain(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(60).collect()
}

fn named(point: &[(String, String)]) -> String {
    point.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" ")
}

fn described(result: &ResultFile) -> String {
    let total = result.repeats.first().map(|outcome| outcome.record.total()).unwrap_or_default();
    let behind = result.repeats.first().and_then(|outcome| behind(result, outcome));
    let behind = behind.map(|why| format!("; {why}")).unwrap_or_default();
    let blemish = result.blemish().map(|blemish| format!(" INCOMPLETE: {blemish}")).unwrap_or_default();
    format!(
        "{}: {} processed, {} late, {} skipped, {} failed, p99 {} ms{behind}{blemish}",
        named(&result.point),
        total.processed,
        total.late,
        total.skipped,
        total.failed,
        shown(&total.response, total.response.quantile(0.99) as f64)
    )
}

/// All combinations; the first name varies fastest.
fn points(over: &[String]) -> Result<Vec<Vec<(String, String)>>> {
    let mut points = vec![Vec::new()];
    for axis in over.iter().rev() {
        let (name, values) = axis
            .split_once('=')
            .filter(|(name, values)| !name.is_empty() && !values.is_empty())
            .ok_or_else(|| Error::usage(format!("\"{axis}\" is not NAME=A,B,C")))?;
        let name = name.trim();
        if points[0].iter().any(|(other, _): &(String, String)| other == name) {
            return Err(Error::usage(format!(
                "--over {name} is there twice: its values belong together, {name}=A,B"
            )));
        }
        let values = separated(values);
        if let Some(twice) = values.iter().enumerate().find(|(i, value)| values[..*i].contains(value)) {
            return Err(Error::usage(format!("--over {name}: \"{}\" is there twice", twice.1)));
        }
        let mut longer = Vec::new();
        for point in &points {
            for value in &values {
                let coordinate = (name.to_owned(), value.clone());
                longer.push([&[coordinate], point.as_slice()].concat());
            }
        }
        points = longer;
        if points.len() > POINTS_MAX {
            return Err(Error::usage(format!("these are more than {POINTS_MAX} runs")));
        }
    }
    Ok(points)
}

/// At commas, except those behind a backslash, which is not part of the value then.
fn separated(text: &str) -> Vec<String> {
    let mut values = vec![String::new()];
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match (character, values.last_mut()) {
            ('\\', Some(value)) if characters.next_if_eq(&',').is_some() => value.push(','),
            (',', _) => values.push(String::new()),
            (other, Some(value)) => value.push(other),
            (_, None) => {}
        }
    }
    values.into_iter().map(|value| value.trim().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_combinations_are_made() {
        let points = points(&["clients=1,2".to_owned(), "set.w=0,4".to_owned()]).unwrap();
        let texts: Vec<String> = points.iter().map(|p| format!("{}{}", p[0].1, p[1].1)).collect();
        assert_eq!(texts, ["10", "20", "14", "24"]);
        assert!(super::points(&["clients".to_owned()]).is_err());
        let twice =
            super::points(&["a.x=1,2".to_owned(), "b=1".to_owned(), "a.x =3".to_owned()]).unwrap_err();
        assert_eq!(twice.to_string(), "--over a.x is there twice: its values belong together, a.x=A,B");
        let same = super::points(&["clients=1,2, 1".to_owned()]).unwrap_err();
        assert_eq!(same.to_string(), "--over clients: \"1\" is there twice");
    }

    #[test]
    fn a_value_may_have_commas() {
        assert_eq!(separated(r"a\,b, c,d\n"), ["a,b", "c", r"d\n"]);
    }
}
