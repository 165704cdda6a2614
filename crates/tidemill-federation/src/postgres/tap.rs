//! Takes the rows of COPY out of what a server sends, before the client library sees them: it looks at each message by
//! itself, and a row is a message. Who scans gets them as they came, many at once.

use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};

use bytes::{Buf, BytesMut};
use tidemill_sql::copy::message::{self, COPY_DATA, HEAD_BYTES};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::task::coop::poll_proceed;

use super::outlet::{Outlet, TooLong};
use super::socket::Socket;
use crate::connector::ANSWER_BYTES_MAX;

const COPY_OUT_RESPONSE: u8 = b'H';
const COPY_DONE: u8 = b'c';
const COMMAND_COMPLETE: u8 = b'C';
const DATA_ROW: u8 = b'D';
const BACKEND_KEY_DATA: u8 = b'K';
/// What is read at once: as much as at first, or up to the most where more is there each time.
const READ_BYTES_MIN: usize = 8 << 10;
const READ_BYTES_MAX: usize = 256 << 10;
/// What the library gets is kept by it until it is whole. A longer message is none of PostgreSQL: those of rows apart, the
/// longest are texts of errors.
const MESSAGE_BYTES_MAX: usize = 16 << 20;
/// Rows that nobody wants any more: a server that goes on for longer is hung up on.
const UNWANTED_BYTES_MAX: usize = 64 << 20;

/// The socket of a connection as the client library sees it.
pub struct Tap {
    socket: Box<dyn Socket>,
    read: BytesMut,
    read_bytes: usize,
    /// Bytes of the message that is being passed on to the library.
    passing: usize,
    /// Bytes of the row that is being left out.
    skipping: usize,
    /// Bytes of rows that nobody wanted.
    unwanted: usize,
    rows: Outlet,
}

impl Tap {
    pub fn new(socket: Box<dyn Socket>, rows: Outlet) -> Self {
        Self {
            socket,
            read: BytesMut::new(),
            read_bytes: READ_BYTES_MIN,
            passing: 0,
            skipping: 0,
            unwanted: 0,
            rows,
        }
    }

    /// Hands on what has been read, as far as there is room; pending if who scans has no room. What came before rows gets
    /// to the library before they get anywhere.
    fn poll_hand_on(&mut self, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = out.filled().len();
        while out.remaining() > 0 {
            if self.skipping > 0 {
                self.leave_out(0)?;
                if self.skipping > 0 {
                    break;
                }
            }
            if self.passing == 0 {
                match message::head(&self.read) {
                    None => break,
                    Some((kind, length)) if length > longest(kind) => {
                        return Poll::Ready(Err(no_message(kind, length)));
                    }
                    Some((COPY_OUT_RESPONSE | COPY_DATA | COPY_DONE, _)) if out.filled().len() > before => {
                        break;
                    }
                    Some((COPY_OUT_RESPONSE | COPY_DATA | COPY_DONE, _)) => {
                        match ready!(self.poll_copy(cx))? {
                            true => continue,
                            false => break,
                        }
                    }
                    Some((COMMAND_COMPLETE, length)) if self.rows.awaits_count() => {
                        let Some(message) = self.read.get(HEAD_BYTES..length) else { break };
                        self.rows.completes(message);
                        self.passing = length;
                    }
                    Some((BACKEND_KEY_DATA, length)) => {
                        let Some(message) = self.read.get(HEAD_BYTES..length) else { break };
                        self.rows.identify(message);
                        self.passing = length;
                    }
                    Some((_, length)) => self.passing = length,
                }
            }
            let length = self.passing.min(self.read.len()).min(out.remaining());
            if length == 0 {
                break;
            }
            out.put_slice(&self.read[..length]);
            self.read.advance(length);
            self.passing -= length;
        }
        Poll::Ready(Ok(()))
    }

    /// Messages of COPY, as many as have been read; false if not even one is whole.
    fn poll_copy(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        let end = message::rows_bytes(&self.read);
        if end > 0 {
            ready!(self.rows.poll_ready(cx));
            match self.rows.is_wanted() {
                true => self.rows.send(Ok(self.read.split_to(end).freeze())),
                false => self.leave_out(end)?,
            }
            return Poll::Ready(Ok(true));
        }
        match message::head(&self.read) {
            Some((COPY_DATA, length)) if !self.rows.is_wanted() => self.leave_out(length)?,
            Some((COPY_DATA, length)) if self.rows.is_too_long(length) => {
                ready!(self.rows.poll_ready(cx));
                self.rows.send(Err(TooLong));
                self.rows.close();
                self.leave_out(length)?;
            }
            Some((kind, length)) if kind != COPY_DATA && length <= self.read.len() => {
                match kind {
                    COPY_DONE => {
                        self.rows.ends();
                        (self.read_bytes, self.unwanted) = (READ_BYTES_MIN, 0);
                    }
                    _ => self.rows.begins(&self.read[HEAD_BYTES..length]),
                }
                self.read.advance(length);
            }
            _ => return Poll::Ready(Ok(false)),
        }
        Poll::Ready(Ok(true))
    }

    /// So many bytes more are wanted by nobody; what has been read of them is let go.
    fn leave_out(&mut self, length: usize) -> io::Result<()> {
        self.skipping += length;
        let read = self.skipping.min(self.read.len());
        self.read.advance(read);
        self.skipping -= read;
        self.unwanted += read;
        match self.unwanted > UNWANTED_BYTES_MAX {
            true => Err(io::Error::other("it goes on sending rows that nobody wants")),
            false => Ok(()),
        }
    }

    /// Reads some more; false at the end.
    fn poll_more(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        if self.read.is_empty() {
            // A large piece is not kept for the sake of its rest.
            self.read = BytesMut::new();
        }
        self.read.reserve(self.read_bytes);
        let room = self.read.capacity() - self.read.len();
        let read = pin!(self.socket.read_buf(&mut self.read)).poll(cx);
        self.rows.listened(read.is_pending());
        let count = ready!(read)?;
        if count == room {
            self.read_bytes = (2 * self.read_bytes).min(READ_BYTES_MAX);
        }
        Poll::Ready(Ok(count > 0))
    }
}

/// The longest message of a kind, with its head; whoever scans says how long a row may be.
fn longest(kind: u8) -> usize {
    match kind {
        COPY_DATA => usize::MAX,
        DATA_ROW => ANSWER_BYTES_MAX,
        _ => MESSAGE_BYTES_MAX,
    }
}

fn no_message(kind: u8, length: usize) -> io::Error {
    let kind = kind.escape_ascii();
    let message = format!("it does not speak PostgreSQL's protocol: a message \"{kind}\" has {length} bytes");
    io::Error::new(io::ErrorKind::InvalidData, message)
}

impl AsyncRead for Tap {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // What was read at once may be handed on in many pieces: others have their turn in between.
        let turn = ready!(poll_proceed(cx));
        let before = out.filled().len();
        loop {
            let handed_on = self.poll_hand_on(cx, out);
            if out.filled().len() > before {
                turn.made_progress();
                return Poll::Ready(Ok(()));
            }
            ready!(handed_on)?;
            if !ready!(self.poll_more(cx))? {
                self.rows.close();
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl AsyncWrite for Tap {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.socket).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;
    use tokio::io::AsyncWriteExt;

    use super::super::outlet::Told;
    use super::*;

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = (body.len() as u32 + 4).to_be_bytes();
        [&[kind][..], &length, body].concat()
    }

    /// However the bytes come, rows go one way and all else the other.
    #[tokio::test]
    async fn rows_are_taken_out() {
        let rows: Vec<_> = (0..300_usize).flat_map(|i| message(COPY_DATA, &vec![7; i])).collect();
        let before = [message(b'C', b"BEGIN\0"), message(b'N', b"")].concat();
        let after = [message(b'C', b"COPY 300\0"), message(b'Z', b"I")].concat();
        let copy =
            [message(COPY_OUT_RESPONSE, &[1, 0, 1, 0, 1]), rows.clone(), message(COPY_DONE, b"")].concat();
        for piece in [1, 7, 4096, 1 << 20] {
            let (mut server, socket) = tokio::io::duplex(1 << 16);
            let outlet = Outlet::default();
            let mut taken = outlet.open(299);
            let mut tap = Tap::new(Box::new(socket), outlet.clone());
            let all = [&before[..], &copy, &after].concat();
            let sending = tokio::spawn(async move {
                for piece in all.chunks(piece) {
                    server.write_all(piece).await.unwrap();
                }
            });
            let mut library = Vec::new();
            let taking = async {
                let mut bytes = Vec::new();
                while let Some(rows) = taken.next().await {
                    bytes.extend_from_slice(&rows.unwrap());
                }
                bytes
            };
            let (read, taken) = tokio::join!(tap.read_to_end(&mut library), taking);
            sending.await.unwrap();
            assert_eq!(read.unwrap(), library.len());
            assert!(library == [&before[..], &after].concat() && taken == rows, "{piece}");
            assert_eq!(outlet.told(), Told { columns: Some(1), is_done: true, rows: Some(300) });
        }
    }

    /// A socket that always has more.
    struct Flood;

    impl AsyncRead for Flood {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            out: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            let notices = message(b'N', b"").repeat(out.remaining() / 5 + 1);
            out.put_slice(&notices[..out.remaining() / 5 * 5]);
            Poll::Ready(Ok(()))
        }
    }

    impl AsyncWrite for Flood {
        fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test]
    async fn a_server_that_never_pauses_lets_others_in() {
        let reading = tokio::spawn(async {
            let mut tap = Tap::new(Box::new(Flood), Outlet::default());
            let mut library = [0; 8 << 10];
            while tap.read(&mut library).await.unwrap() > 0 {}
        });
        tokio::task::yield_now().await;
        reading.abort();
        assert!(reading.await.unwrap_err().is_cancelled());
    }

    #[tokio::test]
    async fn rows_that_nobody_wants_are_dropped() {
        let (mut server, socket) = tokio::io::duplex(1 << 16);
        let outlet = Outlet::default();
        drop(outlet.open(usize::MAX));
        let mut tap = Tap::new(Box::new(socket), outlet);
        server.write_all(&[message(COPY_DATA, b"row"), message(b'Z', b"I")].concat()).await.unwrap();
        drop(server);
        let mut library = Vec::new();
        tap.read_to_end(&mut library).await.unwrap();
        assert_eq!(library, message(b'Z', b"I"));
    }

    /// Of a row that is too long, or that nobody wants any more, nothing is kept, and only so much is read.
    #[tokio::test]
    async fn a_row_without_end_is_not_kept() {
        for is_dropped in [false, true] {
            let (mut server, socket) = tokio::io::duplex(1 << 16);
            let outlet = Outlet::default();
            let mut taken = outlet.open(if is_dropped { usize::MAX } else { 1 << 20 });
            let mut tap = Tap::new(Box::new(socket), outlet);
            let sending = tokio::spawn(async move {
                let head = [&[COPY_DATA][..], &0x7fff_fff0_u32.to_be_bytes()].concat();
                server.write_all(&[message(COPY_DATA, b"row"), head].concat()).await.unwrap();
                let mut sent = 0;
                while server.write_all(&[7; 1 << 16]).await.is_ok() {
                    sent += 1 << 16;
                }
                sent
            });
            let reading = tokio::spawn(async move {
                let mut library = Vec::new();
                let error = tap.read_to_end(&mut library).await.unwrap_err();
                assert!(tap.read.capacity() <= 4 * READ_BYTES_MAX && library.is_empty(), "{error}");
                error.to_string()
            });
            assert_eq!(taken.next().await.unwrap().unwrap(), message(COPY_DATA, b"row"));
            if !is_dropped {
                assert_eq!(taken.next().await, Some(Err(TooLong)));
                assert_eq!(taken.next().await, None);
            }
            drop(taken);
            assert_eq!(reading.await.unwrap(), "it goes on sending rows that nobody wants");
            let most = UNWANTED_BYTES_MAX + if is_dropped { 64 << 20 } else { 1 << 20 };
            assert!(sending.await.unwrap() < most);
        }
    }

    /// Nor of any other message.
    #[tokio::test]
    async fn what_is_no_message_is_told() {
        for (said, why) in [
            (&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], "a message \"H\" has 1414811696 bytes"),
            (b"E\x7f\xff\xff\xf0S", "a message \"E\" has 2147483633 bytes"),
            (b"D\x20\0\0\0\0", "a message \"D\" has 536870913 bytes"),
        ] {
            let (mut server, socket) = tokio::io::duplex(1 << 16);
            let mut tap = Tap::new(Box::new(socket), Outlet::default());
            server.write_all(said).await.unwrap();
            let error = tap.read_to_end(&mut Vec::new()).await.unwrap_err().to_string();
            assert!(error.ends_with(why), "{error}");
        }
    }
}
