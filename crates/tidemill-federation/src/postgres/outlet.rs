//! Where the rows of COPY come out of a connection, and what the server says of them beside.

use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::channel::mpsc::{Receiver, Sender, channel};
use parking_lot::Mutex;
use tidemill_sql::copy::message::HEAD_BYTES;

/// Pieces that wait for who scans. When they are as many, the server is read no further.
const PIECES_AHEAD: usize = 2;

/// Whole messages of rows.
pub type Piece = Result<Bytes, TooLong>;

/// A row is longer than whoever scans allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLong;

/// What a server says of the rows of a COPY beside them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Told {
    pub columns: Option<u16>,
    /// That they are all.
    pub is_done: bool,
    /// How many they were.
    pub rows: Option<u64>,
}

impl Told {
    /// Whether all that is told of a result has been.
    pub fn is_ended(self) -> bool {
        matches!(self, Told { columns: Some(_), is_done: true, rows: Some(_) })
    }

    /// What is missing, or does not go with so many columns and rows, if anything.
    pub fn gap(self, columns: usize, rows: u64, has_trailer: bool) -> Option<String> {
        match self {
            Told { columns: Some(told), .. } if usize::from(told) != columns => {
                Some(format!("It announces {told} columns instead of {columns}."))
            }
            Told { rows: Some(told), .. } if self.is_ended() && has_trailer => {
                (told != rows).then(|| format!("It has sent {rows} rows, and says that they are {told}."))
            }
            _ => Some(format!("It has sent {rows} rows, and not said that they are all.")),
        }
    }
}

/// Where rows go. Nobody may want them.
#[derive(Clone, Default)]
pub struct Outlet(Arc<Mutex<Open>>);

#[derive(Default)]
struct Open {
    sender: Option<Sender<Piece>>,
    row_bytes_max: usize,
    told: Told,
    /// By which the server knows the session.
    backend: Option<u32>,
    /// Since when there has been nothing to read.
    silent_since: Option<Instant>,
}

impl Outlet {
    /// The rows of the next COPY; their end is that of the COPY.
    pub fn open(&self, row_bytes_max: usize) -> Receiver<Piece> {
        let (sender, receiver) = channel(PIECES_AHEAD);
        let mut open = self.0.lock();
        (open.sender, open.row_bytes_max, open.told) = (Some(sender), row_bytes_max, Told::default());
        drop(open);
        receiver
    }

    /// No more rows come.
    pub fn close(&self) {
        self.0.lock().sender = None;
    }

    /// Since it was opened.
    pub fn told(&self) -> Told {
        self.0.lock().told
    }

    pub fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut self.0.lock().sender {
            Some(sender) => sender.poll_ready(cx).map(drop),
            None => Poll::Ready(()),
        }
    }

    /// After `poll_ready`.
    pub fn send(&self, piece: Piece) {
        let mut open = self.0.lock();
        if open.sender.as_mut().is_some_and(|sender| sender.start_send(piece).is_err()) {
            open.sender = None;
        }
    }

    pub fn is_wanted(&self) -> bool {
        self.0.lock().sender.as_ref().is_some_and(|sender| !sender.is_closed())
    }

    pub fn is_too_long(&self, length: usize) -> bool {
        length > self.0.lock().row_bytes_max.saturating_add(HEAD_BYTES)
    }

    /// The answer to COPY: its format, then the number of columns.
    pub fn begins(&self, response: &[u8]) {
        let columns = response.get(1..).and_then(|after| after.first_chunk());
        self.0.lock().told.columns = columns.map(|columns| u16::from_be_bytes(*columns));
    }

    /// The rows are all there.
    pub fn ends(&self) {
        let mut open = self.0.lock();
        open.sender = None;
        open.told.is_done = true;
    }

    /// What the server says of the session: its number, and a secret.
    pub fn identify(&self, session: &[u8]) {
        self.0.lock().backend = session.first_chunk().map(|number| u32::from_be_bytes(*number));
    }

    pub fn backend(&self) -> Option<u32> {
        self.0.lock().backend
    }

    /// Whether there was something to read.
    pub fn listened(&self, is_silent: bool) {
        let mut open = self.0.lock();
        open.silent_since = is_silent.then(|| open.silent_since.unwrap_or_else(Instant::now));
    }

    /// How long there has been nothing to read.
    pub fn silent_for(&self) -> Duration {
        self.0.lock().silent_since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    /// Whether the rows are all there, and their number is still to come.
    pub fn awaits_count(&self) -> bool {
        let told = self.told();
        told.is_done && told.rows.is_none()
    }

    /// `COPY`, a space, a number.
    pub fn completes(&self, tag: &[u8]) {
        let tag = std::str::from_utf8(tag).unwrap_or_default().trim_end_matches('\0');
        self.0.lock().told.rows = tag.strip_prefix("COPY ").and_then(|rows| rows.parse().ok());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_as_long_as_it_says() {
        let whole = Told { columns: Some(1), is_done: true, rows: Some(3) };
        assert_eq!(whole.gap(1, 3, true), None);
        for (told, rows, has_trailer) in [
            (whole, 3, false),
            (whole, 2, true),
            (whole, 4, true),
            (Told { columns: Some(6), ..whole }, 3, true),
            (Told { columns: None, ..whole }, 3, true),
            (Told { is_done: false, ..whole }, 3, true),
            (Told { rows: None, ..whole }, 3, true),
        ] {
            assert!(told.gap(1, rows, has_trailer).is_some(), "{told:?}");
        }
        let outlet = Outlet::default();
        for (tag, rows) in
            [(&b"COPY 3\0"[..], Some(3)), (b"COPY\0", None), (b"COMMIT\0", None), (b"\xff", None)]
        {
            outlet.completes(tag);
            assert_eq!(outlet.told().rows, rows);
        }
    }
}
