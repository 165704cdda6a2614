//! Between a client and a server of its own: passes everything on, or does what networks and dying hosts do.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Pass,
    /// Nobody listens, and what was connected is reset.
    Refuse,
    /// Connections are accepted, and nothing goes through them.
    Hang,
    /// What the client says arrives; what the server says does not.
    HalfOpen,
    /// Whatever the server says comes this much later.
    Delay(Duration),
    /// Connections are reset after so many more bytes of the server.
    ResetAfter(usize),
    /// Connections are reset when the client says COMMIT, before the server hears it or when it has carried it out.
    ResetAtCommit {
        carried_out: bool,
    },
    /// From COMMIT on the server says nothing and does not notice that its client is gone, as when that one's host dies.
    LingerAtCommit {
        carried_out: bool,
    },
    /// Connections linger from COPY on, of which the server hears nothing.
    SwallowCopy,
    /// As at COMMIT, when the server has carried out what it had refused in a block.
    EndAlone {
        lingers: bool,
    },
}

/// The message that carries out a prepared statement.
const EXECUTE: &[u8] = b"E\0\0\0\x09\0\0\0\0\0";

/// In which a server has committed what it was told to.
const COMMITTED: Duration = Duration::from_millis(50);
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Proxy {
    pub port: u16,
    mode: watch::Sender<Mode>,
    far: Arc<Far>,
    listening: JoinHandle<()>,
}

/// What is behind it.
struct Far {
    port: AtomicU16,
    /// Connections that linger.
    lingering: AtomicUsize,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

impl Proxy {
    pub async fn start(to: u16) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (mode, of_listener) = watch::channel(Mode::Pass);
        let far = Arc::new(Far { port: AtomicU16::new(to), lingering: AtomicUsize::new(0) });
        let listening = tokio::spawn(listen(listener, address, Arc::clone(&far), of_listener));
        Proxy { port: address.port(), mode, far, listening }
    }

    /// Another server behind the address, for connections to come.
    pub fn redirect(&self, to: u16) {
        self.far.port.store(to, Ordering::Release);
    }

    /// Waits until so many connections have begun to linger.
    pub async fn until_lingering(&self, connections: usize) {
        let deadline = Instant::now() + PATIENCE;
        while self.far.lingering.load(Ordering::Acquire) < connections {
            assert!(Instant::now() < deadline, "nobody commits");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    pub fn set(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }
}

async fn listen(listener: TcpListener, address: SocketAddr, far: Arc<Far>, mut mode: watch::Receiver<Mode>) {
    let mut listener = Some(listener);
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let refuses = *mode.borrow_and_update() == Mode::Refuse;
        match &listener {
            Some(_) if refuses => {
                listener = None;
                connections.abort_all();
            }
            None if !refuses => listener = Some(TcpListener::bind(address).await.unwrap()),
            Some(listening) => tokio::select! {
                accepted = listening.accept() => {
                    let (client, _) = accepted.unwrap();
                    connections.spawn(pass(client, Arc::clone(&far), mode.clone()));
                }
                changed = mode.changed() => changed.unwrap(),
            },
            None => mode.changed().await.unwrap(),
        }
    }
}

async fn pass(client: TcpStream, far: Arc<Far>, mode: watch::Receiver<Mode>) {
    // The server may have ended before its proxy.
    let port = far.port.load(Ordering::Acquire);
    let Ok(server) = TcpStream::connect(("127.0.0.1", port)).await else { return };
    // So that it is a reset when it is dropped.
    client.set_zero_linger().unwrap();
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let is_silent = AtomicBool::new(false);
    tokio::select! {
        () = pump(from_client, to_server, mode.clone(), false, &is_silent, &far) => {}
        () = pump(from_server, to_client, mode, true, &is_silent, &far) => {}
    }
}

async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut mode: watch::Receiver<Mode>,
    is_server: bool,
    is_silent: &AtomicBool,
    far: &Far,
) {
    let mut buffer = vec![0; 16 << 10];
    let mut passed = 0;
    // Whether it says what was refused before in a block.
    let mut is_alone = false;
    loop {
        let Ok(count @ 1..) = from.read(&mut buffer).await else { return };
        loop {
            let now = *mode.borrow_and_update();
            match now {
                Mode::Hang => {}
                Mode::HalfOpen if is_server => {}
                Mode::Delay(time) if is_server => {
                    tokio::time::sleep(time).await;
                    break;
                }
                Mode::ResetAfter(bytes) if is_server => {
                    passed += count;
                    if passed > bytes {
                        return;
                    }
                    break;
                }
                _ => break,
            }
            if mode.changed().await.is_err() {
                return;
            }
        }
        let says = |word: &[u8]| !is_server && buffer[..count].windows(word.len()).any(|said| said == word);
        let commits = says(b"COMMIT");
        let copies = says(b"COPY (");
        let executes = is_alone && says(EXECUTE);
        is_alone = (is_alone || says(b"ROLLBACK")) && !says(b"BEGIN");
        let (end, lingers) = match *mode.borrow() {
            Mode::ResetAtCommit { carried_out } if commits => (Some(carried_out), false),
            Mode::LingerAtCommit { carried_out } if commits => (Some(carried_out), true),
            Mode::SwallowCopy if copies => (Some(false), true),
            Mode::EndAlone { lingers } if executes => (Some(true), lingers),
            _ => (None, false),
        };
        // What the server says to it nobody hears.
        if end.is_some() {
            is_silent.store(true, Ordering::Release);
        }
        if is_server && is_silent.load(Ordering::Acquire) {
            continue;
        }
        if end != Some(false) && to.write_all(&buffer[..count]).await.is_err() {
            return;
        }
        if end == Some(true) {
            tokio::time::sleep(COMMITTED).await;
        }
        if lingers {
            far.lingering.fetch_add(1, Ordering::AcqRel);
            std::future::pending::<()>().await;
        }
        if end.is_some() {
            return;
        }
    }
}
