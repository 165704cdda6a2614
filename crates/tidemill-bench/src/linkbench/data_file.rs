//! Reads the file of empirical distributions (`Distribution.dat`).

use super::distribution::{Empirical, Point};
use super::{Error, Result};
use std::path::Path;

/// What the file knows of ids: how many links they have, and how often they are read and written.
#[derive(Debug, Clone, PartialEq)]
pub struct Distributions {
    pub nlinks: Empirical,
    pub link_reads: Empirical,
    pub link_writes: Empirical,
    pub node_reads: Empirical,
    pub node_writes: Empirical,
    /// For reports: the file, or the words for the built-in fit.
    pub origin: String,
}

/// The sections a file must have, in the order of the fields above.
const SECTIONS: [&str; 5] = ["nlinks", "link_nreads", "link_nwrites", "node_nreads", "node_nwrites"];

impl Distributions {
    /// Errors name the file and the line.
    pub fn read(path: &Path) -> Result<Self> {
        let origin = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|error| Error::File { path: origin.clone(), message: error.to_string() })?;
        Self::parse(&text, &origin)
    }

    fn parse(text: &str, origin: &str) -> Result<Self> {
        let mut sections: [Vec<Point>; 5] = Default::default();
        let mut current: Option<usize> = None;
        for (index, line) in text.lines().enumerate() {
            let wrong = |message: String| Error::Line { path: origin.to_owned(), line: index + 1, message };
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                [] => {}
                [name] => {
                    let known = SECTIONS.iter().position(|section| *section == name);
                    current = Some(known.ok_or_else(|| wrong(format!("\"{name}\" is not a known section")))?);
                }
                [value, percent] => {
                    let section =
                        current.ok_or_else(|| wrong("a point before the first section".to_owned()))?;
                    let value =
                        value.parse().map_err(|_| wrong(format!("\"{value}\" is not a whole number")))?;
                    let percent: f64 =
                        percent.parse().map_err(|_| wrong(format!("\"{percent}\" is not a number")))?;
                    let point = Point { value, cumulative: percent / 100.0 };
                    sections[section].push(point);
                }
                _ => return Err(wrong("expected a section name, or a value and a percentage".to_owned())),
            }
        }
        let mut sections = sections.into_iter().zip(SECTIONS).map(|(points, name)| {
            Empirical::new(points).ok_or_else(|| Error::File {
                path: origin.to_owned(),
                message: format!("section \"{name}\" is missing or its points are not in ascending order"),
            })
        });
        let mut next = || sections.next().expect("five sections");
        Ok(Distributions {
            nlinks: next()?,
            link_reads: next()?,
            link_writes: next()?,
            node_reads: next()?,
            node_writes: next()?,
            origin: origin.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sections(nlinks: &str) -> String {
        let rest: String = SECTIONS[1..].iter().map(|name| format!("{name}\n0 50\n3 100.0\n")).collect();
        format!("nlinks\n{nlinks}\n{rest}")
    }

    #[test]
    fn reads_sections_of_points() {
        let file = Distributions::parse(&sections("1 79.5\n2 100"), "f").unwrap();
        let expected = [Point { value: 1, cumulative: 0.795 }, Point { value: 2, cumulative: 1.0 }];
        assert_eq!(file.nlinks.points(), expected);
        assert_eq!(file.node_writes.points().len(), 2);
    }

    #[test]
    fn tells_what_is_wrong_and_where() {
        let error = |text: &str| Distributions::parse(text, "f").unwrap_err().to_string();
        assert_eq!(error("1 2"), "f:1: a point before the first section");
        assert_eq!(error(&sections("1 2\nx 3")), "f:3: \"x\" is not a whole number");
        assert_eq!(error("links"), "f:1: \"links\" is not a known section");
        assert!(error("nlinks\n1 100").contains("\"link_nreads\" is missing"));
        assert!(error(&sections("2 3\n1 100")).contains("\"nlinks\" is missing or its points are not in"));
    }
}
