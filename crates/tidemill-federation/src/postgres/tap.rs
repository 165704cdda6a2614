//! Takes the rows of COPY out of what a server sends, before the client library sees them: it looks at each message by
//! itself, and a row is a message. Who scans gets them as they came, many at once.

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes, BytesMut};
use futures::channel::mpsc::{Receiver, Sender, channel};
use parking_lot::Mutex;
use tidemill_sql::copy::message::{self, COPY_DATA};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::task::coop::poll_proceed;

use super::socket::Socket;

const COPY_OUT_RESPONSE: u8 = b'H';
const COPY_DONE: u8 = b'c';
/// What is read at once: as much as at first, or up to the most where more is there each time.
const READ_BYTES_MIN: usize = 8 << 10;
const READ_BYTES_MAX: usize = 256 << 10;
/// Pieces that wait for who scans. When they are as many, the server is read no further.
const PIECES_AHEAD: usize = 2;

/// The socket of a connection as the client library sees it.
pub struct Tap {
    socket: Box<dyn Socket>,
    read: BytesMut,
    read_bytes: usize,
    /// Bytes of the message that is being passed on to the library.
    passing: usize,
    rows: Outlet,
}

/// Where rows go: whole messages of the kind [`COPY_DATA`]. Nobody may want them.
#[derive(Clone, Default)]
pub struct Outlet(Arc<Mutex<Option<Sender<Bytes>>>>);

impl Outlet {
    /// The rows of the next COPY; their end is that of the COPY.
    pub fn open(&self) -> Receiver<Bytes> {
        let (sender, receiver) = channel(PIECES_AHEAD);
        *self.0.lock() = Some(sender);
        receiver
    }

    /// No more rows come.
    pub fn close(&self) {
        *self.0.lock() = None;
    }

    fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut *self.0.lock() {
            Some(sender) => sender.poll_ready(cx).map(drop),
            None => Poll::Ready(()),
        }
    }

    /// After `poll_ready`.
    fn send(&self, rows: Bytes) {
        let mut sender = self.0.lock();
        if sender.as_mut().is_some_and(|sender| sender.start_send(rows).is_err()) {
            *sender = None;
        }
    }
}

impl Tap {
    pub fn new(socket: Box<dyn Socket>, rows: Outlet) -> Self {
        Self { socket, read: BytesMut::new(), read_bytes: READ_BYTES_MIN, passing: 0, rows }
    }

    /// Hands on what has been read, as far as there is room; pending if who scans has no room. What came before rows gets
    /// to the library before they get anywhere.
    fn poll_hand_on(&mut self, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<()> {
        let before = out.filled().len();
        while out.remaining() > 0 {
            if self.passing == 0 {
                match message::head(&self.read) {
                    None => break,
                    Some((COPY_OUT_RESPONSE | COPY_DATA | COPY_DONE, _)) if out.filled().len() > before => {
                        break;
                    }
                    Some((COPY_OUT_RESPONSE | COPY_DATA | COPY_DONE, _)) => {
                        match ready!(self.poll_copy(cx)) {
                            true => continue,
                            false => break,
                        }
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
        Poll::Ready(())
    }

    /// Messages of COPY, as many as have been read; false if not even one is whole.
    fn poll_copy(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        let end = message::rows_bytes(&self.read);
        if end > 0 {
            ready!(self.rows.poll_ready(cx));
            self.rows.send(self.read.split_to(end).freeze());
            return Poll::Ready(true);
        }
        match message::head(&self.read) {
            Some((kind, length)) if kind != COPY_DATA && length <= self.read.len() => {
                self.read.advance(length);
                if kind == COPY_DONE {
                    self.rows.close();
                    self.read_bytes = READ_BYTES_MIN;
                }
                Poll::Ready(true)
            }
            _ => Poll::Ready(false),
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
        let count = ready!(pin!(self.socket.read_buf(&mut self.read)).poll(cx))?;
        if count == room {
            self.read_bytes = (2 * self.read_bytes).min(READ_BYTES_MAX);
        }
        Poll::Ready(Ok(count > 0))
    }
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
            ready!(handed_on);
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
        let copy = [message(COPY_OUT_RESPONSE, &[1, 0, 0]), rows.clone(), message(COPY_DONE, b"")].concat();
        for piece in [1, 7, 4096, 1 << 20] {
            let (mut server, socket) = tokio::io::duplex(1 << 16);
            let outlet = Outlet::default();
            let mut taken = outlet.open();
            let mut tap = Tap::new(Box::new(socket), outlet);
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
                    bytes.extend_from_slice(&rows);
                }
                bytes
            };
            let (read, taken) = tokio::join!(tap.read_to_end(&mut library), taking);
            sending.await.unwrap();
            assert_eq!(read.unwrap(), library.len());
            assert!(library == [&before[..], &after].concat() && taken == rows, "{piece}");
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
        drop(outlet.open());
        let mut tap = Tap::new(Box::new(socket), outlet);
        server.write_all(&[message(COPY_DATA, b"row"), message(b'Z', b"I")].concat()).await.unwrap();
        drop(server);
        let mut library = Vec::new();
        tap.read_to_end(&mut library).await.unwrap();
        assert_eq!(library, message(b'Z', b"I"));
    }
}
