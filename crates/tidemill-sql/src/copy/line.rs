//! The lines of COPY text and CSV by PostgreSQL's rules for newlines, quotes and the end marker.

use crate::Result;
use memchr::memchr3;

use super::error::bad_format;

/// The newline of a file is that of its first line; any other is then an error in text and unquoted CSV.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Newline {
    Unknown,
    Nl,
    CrNl,
    Cr,
}

/// A line at the start of the data: its bytes end at `end`, the next line starts at `next`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Line {
    pub end: usize,
    pub next: usize,
    /// Nothing comes after it: the data ended without a newline, or there was an end marker.
    pub last: bool,
}

/// Scans one line at a time and remembers how far it came when the data ends in mid-line.
pub(super) struct LineScanner {
    /// Quote and escape of CSV.
    csv: Option<(u8, u8)>,
    pub newline: Newline,
    at: usize,
    in_quote: bool,
    after_escape: bool,
    lines: u64,
    /// Newlines inside quotes of the current line.
    quoted: u64,
}

enum Marker {
    End { next: usize },
    Data,
    Incomplete,
}

impl LineScanner {
    pub fn new(csv: Option<(u8, u8)>) -> Self {
        let newline = Newline::Unknown;
        Self { csv, newline, at: 0, in_quote: false, after_escape: false, lines: 0, quoted: 0 }
    }

    /// The number of the line that is being read, from 1, as PostgreSQL counts them.
    pub fn line_number(&self) -> u64 {
        self.lines + 1 + self.quoted
    }

    /// The line that was found is done with.
    pub fn next_line(&mut self) {
        self.lines = self.line_number();
        (self.at, self.in_quote, self.after_escape, self.quoted) = (0, false, false, 0);
    }

    /// Rows that were read by other means.
    pub fn skip_lines(&mut self, count: u64) {
        self.lines += count;
    }

    pub fn is_in_line(&self) -> bool {
        self.at > 0
    }

    /// `data` starts at a line; it is the same data and more when the call before returned `None`
    /// (incomplete).
    pub fn scan(&mut self, data: &[u8], at_end: bool) -> Result<Option<Line>> {
        loop {
            let Some(found) = self.next_special(data) else {
                self.at = data.len();
                return Ok(at_end.then_some(Line { end: data.len(), next: data.len(), last: true }));
            };
            self.at = found;
            let byte = data[found];
            if byte == b'\\' && (self.csv.is_none() || found == 0) {
                match self.end_marker(data, at_end)? {
                    Marker::End { next } => return Ok(Some(Line { end: found, next, last: true })),
                    Marker::Incomplete => return Ok(None),
                    Marker::Data if self.csv.is_none() => {
                        // Whatever follows a backslash is data, a newline too.
                        self.at = (found + 2).min(data.len());
                        continue;
                    }
                    Marker::Data => {}
                }
            }
            if let Some(csv) = self.csv
                && self.quoting(byte, csv)
            {
                self.at += 1;
            } else if byte == b'\r' {
                let looks_ahead = matches!(self.newline, Newline::Unknown | Newline::CrNl);
                if looks_ahead && found + 1 == data.len() && !at_end {
                    return Ok(None);
                }
                return self.carriage_return(data, found).map(Some);
            } else if byte == b'\n' {
                return self.line_feed(found).map(Some);
            } else {
                self.at += 1;
            }
        }
    }

    fn next_special(&self, data: &[u8]) -> Option<usize> {
        let rest = data.get(self.at..)?;
        let found = match self.csv {
            None => memchr3(b'\n', b'\r', b'\\', rest),
            // The first byte may start an end marker.
            Some(_) if self.at == 0 => (!rest.is_empty()).then_some(0),
            // The byte after an escape ends its effect.
            Some(_) if self.after_escape => (!rest.is_empty()).then_some(0),
            Some((quote, escape)) if self.in_quote => memchr3(quote, escape, self.counted(), rest),
            Some((quote, _)) => memchr3(quote, b'\n', b'\r', rest),
        };
        found.map(|i| self.at + i)
    }

    /// The byte that counts as a newline within quotes.
    fn counted(&self) -> u8 {
        if self.newline == Newline::Nl { b'\n' } else { b'\r' }
    }

    /// Follows quotes and escapes; whether `byte` is data, whatever it is.
    fn quoting(&mut self, byte: u8, (quote, escape): (u8, u8)) -> bool {
        let escapes = escape != quote && byte == escape;
        if self.in_quote && escapes {
            self.after_escape = !self.after_escape;
        }
        let toggles = byte == quote && !self.after_escape;
        if toggles {
            self.in_quote = !self.in_quote;
        }
        if !escapes {
            self.after_escape = false;
        }
        if self.in_quote && byte == self.counted() {
            self.quoted += 1;
        }
        self.in_quote || toggles
    }

    fn carriage_return(&mut self, data: &[u8], at: usize) -> Result<Line> {
        let before_line_feed = data.get(at + 1) == Some(&b'\n');
        match self.newline {
            Newline::Unknown | Newline::CrNl if before_line_feed => {
                self.newline = Newline::CrNl;
                Ok(Line { end: at, next: at + 2, last: false })
            }
            Newline::Unknown | Newline::Cr => {
                self.newline = Newline::Cr;
                Ok(Line { end: at, next: at + 1, last: false })
            }
            Newline::Nl | Newline::CrNl => Err(match self.csv {
                None => bad_format("literal carriage return found in data")
                    .with_hint("Use \"\\r\" to represent carriage return."),
                Some(_) => bad_format("unquoted carriage return found in data")
                    .with_hint("Use quoted CSV field to represent carriage return."),
            }),
        }
    }

    fn line_feed(&mut self, at: usize) -> Result<Line> {
        if matches!(self.newline, Newline::Unknown | Newline::Nl) {
            self.newline = Newline::Nl;
            return Ok(Line { end: at, next: at + 1, last: false });
        }
        Err(match self.csv {
            None => {
                bad_format("literal newline found in data").with_hint("Use \"\\n\" to represent newline.")
            }
            Some(_) => bad_format("unquoted newline found in data")
                .with_hint("Use quoted CSV field to represent newline."),
        })
    }

    /// Whether the backslash at `self.at` starts `\.` and a newline of this file's kind.
    fn end_marker(&self, data: &[u8], at_end: bool) -> Result<Marker> {
        // The end of the data reads as a byte that is no newline.
        let mut next = self.at + 1;
        let mut take = || {
            let byte = data.get(next).copied().or(at_end.then_some(0));
            next += 1;
            byte
        };
        let Some(second) = take() else { return Ok(Marker::Incomplete) };
        if second != b'.' {
            return Ok(Marker::Data);
        }
        let Some(mut third) = take() else { return Ok(Marker::Incomplete) };
        if self.newline == Newline::CrNl {
            match third {
                b'\n' if self.csv.is_none() => return Err(mismatch()),
                b'\r' => {}
                _ => return self.corrupt(),
            }
            let Some(fourth) = take() else { return Ok(Marker::Incomplete) };
            third = fourth;
        }
        let fits = match third {
            b'\n' => matches!(self.newline, Newline::Unknown | Newline::Nl | Newline::CrNl),
            b'\r' => matches!(self.newline, Newline::Unknown | Newline::Cr),
            _ => return self.corrupt(),
        };
        if fits { Ok(Marker::End { next: next.min(data.len()) }) } else { Err(mismatch()) }
    }

    fn corrupt(&self) -> Result<Marker> {
        if self.csv.is_some() { Ok(Marker::Data) } else { Err(bad_format("end-of-copy marker corrupt")) }
    }
}

fn mismatch() -> crate::SqlError {
    bad_format("end-of-copy marker does not match previous newline style")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(csv: Option<(u8, u8)>, data: &str) -> Result<Vec<(String, u64)>> {
        let mut scanner = LineScanner::new(csv);
        let (mut at, mut found) = (0, Vec::new());
        while at < data.len() {
            let rest = &data.as_bytes()[at..];
            // A byte more at a time: what was incomplete goes on where it stopped.
            let mut line = None;
            for length in 0..=rest.len() {
                line = scanner.scan(&rest[..length], length == rest.len())?;
                if line.is_some() {
                    break;
                }
            }
            let line = line.unwrap();
            if !(line.last && line.end == 0) {
                found.push((String::from_utf8_lossy(&rest[..line.end]).into_owned(), scanner.line_number()));
            }
            scanner.next_line();
            if line.last {
                break;
            }
            at += line.next;
        }
        Ok(found)
    }

    fn texts(csv: Option<(u8, u8)>, data: &str) -> Vec<String> {
        lines(csv, data).unwrap().into_iter().map(|l| l.0).collect()
    }

    #[test]
    fn text() {
        assert_eq!(texts(None, "a\nb\\\nc\\\\\nd"), ["a", "b\\\nc\\\\", "d"]);
        assert_eq!(texts(None, "a\r\nb\r\n"), ["a", "b"]);
        assert_eq!(texts(None, "a\rb\r"), ["a", "b"]);
        assert_eq!(texts(None, "a\nb\\.\njunk"), ["a", "b"]);
        assert_eq!(texts(None, "a\nb\\"), ["a", "b\\"]);
        let message = |data| lines(None, data).unwrap_err().into_report().message;
        assert_eq!(message("a\r\nb\n"), "literal newline found in data");
        assert_eq!(message("a\nb\r\n"), "literal carriage return found in data");
        assert_eq!(message("a\n\\."), "end-of-copy marker corrupt");
        assert_eq!(message("a\r\n\\.\n"), "end-of-copy marker does not match previous newline style");
    }

    #[test]
    fn csv() {
        let csv = Some((b'"', b'"'));
        assert_eq!(texts(csv, "a,\"b\n\"\"\nc\"\n\\.x\n\\.\njunk"), ["a,\"b\n\"\"\nc\"", "\\.x"]);
        assert_eq!(lines(csv, "a\n\"b\nc\"\nd").unwrap().last().unwrap().1, 4);
        assert_eq!(texts(Some((b'\'', b'!')), "'a!'\n!!'\n'!\n'"), ["'a!'\n!!'", "'!\n'"]);
        assert_eq!(lines(csv, "a\nb\r").unwrap_err().message, "unquoted carriage return found in data");
    }
}
