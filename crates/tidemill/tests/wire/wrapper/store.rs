//! An object store of the test's own: as much of S3 as it takes to be read, with the ways in which stores fail.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

use super::request::{Request, USER, decoded, hex};

/// What comes with the key of a session.
pub const TOKEN: &str = "for-one-session";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Serve,
    /// Nothing is answered.
    Hang,
    /// Connections end after so many bytes of a file.
    CutAfter(usize),
    /// The same, and what is asked after it is not answered.
    HangAfter(usize),
    /// What is answered is not HTTP.
    Garbage,
    Status(u16),
    /// There are no ranges of bytes.
    WholeFiles,
    /// Files are others once their size is asked for.
    Changing,
    /// Files are said to be behind so many bytes that are never asked for.
    Behind(usize),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readers {
    Anybody,
    WithKey,
    WithToken,
}

/// What there is by path, `/bucket/key`, and what was asked.
pub struct State {
    files: Mutex<BTreeMap<String, Vec<u8>>>,
    mode: Mutex<Mode>,
    readers: Mutex<Readers>,
    asked: Mutex<Vec<String>>,
    sent: AtomicUsize,
    /// Connections on which somebody waits for an answer in vain.
    hanging: watch::Sender<usize>,
    /// Names in a page of a list.
    page: usize,
}

pub struct Store {
    pub port: u16,
    pub state: Arc<State>,
    listening: JoinHandle<()>,
}

impl Drop for Store {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

impl Store {
    pub async fn start() -> Self {
        Self::start_with(None, 2).await
    }

    pub async fn start_with(tls: Option<TlsAcceptor>, page: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::new(State {
            files: Mutex::default(),
            mode: Mutex::new(Mode::Serve),
            readers: Mutex::new(Readers::Anybody),
            asked: Mutex::default(),
            sent: AtomicUsize::new(0),
            hanging: watch::Sender::new(0),
            page,
        });
        let of_listener = Arc::clone(&state);
        let listening = tokio::spawn(async move {
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                let (state, tls) = (Arc::clone(&of_listener), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        None => state.serve(socket).await,
                        Some(tls) => match tls.accept(socket).await {
                            Ok(socket) => state.serve(socket).await,
                            Err(error) => println!("no TLS: {error}"),
                        },
                    }
                });
            }
        });
        Self { port, state, listening }
    }

    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// A file by its path, `/bucket/key`.
    pub fn put(&self, path: &str, bytes: impl Into<Vec<u8>>) {
        self.state.files.lock().unwrap().insert(path.to_string(), bytes.into());
    }

    pub fn set(&self, mode: Mode) {
        *self.state.mode.lock().unwrap() = mode;
    }

    pub fn readers(&self, readers: Readers) {
        *self.state.readers.lock().unwrap() = readers;
    }

    /// Bytes of files that were sent since the last time.
    pub fn sent(&self) -> usize {
        self.state.sent.swap(0, Ordering::Relaxed)
    }

    /// Requests since the last time.
    pub fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.state.asked.lock().unwrap())
    }
}

/// By the certificate of a folder, for `localhost`.
pub fn tls(certificates: &Path) -> TlsAcceptor {
    let chain = CertificateDer::pem_file_iter(certificates.join("server.crt")).unwrap();
    let key = PrivateKeyDer::from_pem_file(certificates.join("server.key")).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain.collect::<Result<_, _>>().unwrap(), key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

struct Answer {
    status: u16,
    headers: String,
    body: Vec<u8>,
    is_file: bool,
}

impl Answer {
    fn said(status: u16, code: &str) -> Self {
        let body = format!(
            "<Error><Code>{code}</Code><Message>What {code} means.</Message><AWSAccessKeyId>{USER}</AWSAccessKeyId></Error>"
        );
        Self { status, headers: String::new(), body: body.into(), is_file: false }
    }
}

impl State {
    async fn serve(&self, socket: impl AsyncRead + AsyncWrite + Unpin) {
        let mut socket = BufReader::new(socket);
        while let Some(request) = Request::read(&mut socket).await {
            self.asked.lock().unwrap().push(format!("{} {}", request.method, request.path));
            let mode = *self.mode.lock().unwrap();
            match mode {
                Mode::Hang => return self.hang(&mut socket).await,
                Mode::Garbage => {
                    drop(socket.write_all(b"220 this is no HTTP\r\n\r\n").await);
                    return;
                }
                _ => {}
            }
            let answer = self.answer(&request, mode);
            let mut head = format!("HTTP/1.1 {} Said\r\n{}", answer.status, answer.headers);
            if !head.contains("Content-Length") {
                head += &format!("Content-Length: {}\r\n", answer.body.len());
            }
            head += "\r\n";
            if socket.write_all(head.as_bytes()).await.is_err() {
                return;
            }
            if request.method == "HEAD" {
                continue;
            }
            let most = match mode {
                Mode::CutAfter(bytes) | Mode::HangAfter(bytes) if answer.is_file => bytes,
                _ => usize::MAX,
            };
            for piece in answer.body[..answer.body.len().min(most)].chunks(64 << 10) {
                if socket.write_all(piece).await.is_err() {
                    return;
                }
                if answer.is_file {
                    self.sent.fetch_add(piece.len(), Ordering::Relaxed);
                }
            }
            drop(socket.flush().await);
            if answer.body.len() > most {
                if matches!(mode, Mode::HangAfter(_)) {
                    *self.mode.lock().unwrap() = Mode::Hang;
                    return self.hang(&mut socket).await;
                }
                return;
            }
        }
    }

    /// Until the other side leaves.
    async fn hang(&self, socket: &mut (impl AsyncRead + Unpin)) {
        self.hanging.send_modify(|hanging| *hanging += 1);
        drop(socket.read(&mut [0]).await);
        self.hanging.send_modify(|hanging| *hanging -= 1);
    }

    pub async fn until_hanging(&self, patience: Duration) {
        let mut hanging = self.hanging.subscribe();
        tokio::time::timeout(patience, hanging.wait_for(|hanging| *hanging > 0)).await.unwrap().unwrap();
    }

    pub async fn until_left(&self, patience: Duration) {
        let mut hanging = self.hanging.subscribe();
        tokio::time::timeout(patience, hanging.wait_for(|hanging| *hanging == 0)).await.unwrap().unwrap();
    }

    fn answer(&self, request: &Request, mode: Mode) -> Answer {
        if let Mode::Status(status) = mode {
            return Answer::said(status, "Chosen");
        }
        let readers = *self.readers.lock().unwrap();
        if readers != Readers::Anybody
            && let Err(code) = request.is_signed()
        {
            return Answer::said(403, code);
        }
        if readers == Readers::WithToken && request.header("x-amz-security-token") != TOKEN {
            return Answer::said(400, "InvalidToken");
        }
        if request.query.contains("list-type=2") {
            return self.list(request);
        }
        let files = self.files.lock().unwrap();
        let Some(file) = files.get(&decoded(&request.path)) else { return Answer::said(404, "NoSuchKey") };
        let is_old = mode == Mode::Changing && request.method == "HEAD";
        let tag =
            if is_old { "\"old\"".into() } else { format!("\"{}\"", &hex(&Sha256::digest(file))[..16]) };
        if !["", tag.as_str()].contains(&request.header("if-match")) {
            return Answer::said(412, "PreconditionFailed");
        }
        let behind = if let Mode::Behind(bytes) = mode { bytes } else { 0 };
        let size = behind + file.len();
        let ranged = request.range(size).filter(|_| mode != Mode::WholeFiles);
        let mut headers = format!("ETag: {tag}\r\nLast-Modified: Wed, 01 Jan 2020 00:00:00 GMT\r\n");
        if request.method == "HEAD" {
            headers += &format!("Content-Length: {size}\r\n");
        }
        if let Some((start, end)) = ranged {
            headers += &format!("Content-Range: bytes {start}-{}/{size}\r\n", end - 1);
        }
        let (start, end) = ranged.unwrap_or((behind, size));
        Answer {
            status: if ranged.is_some() { 206 } else { 200 },
            headers,
            body: if request.method == "HEAD" {
                Vec::new()
            } else {
                file[start - behind..end - behind].to_vec()
            },
            is_file: true,
        }
    }

    /// Names in order, a page at a time; what is behind the next slash is one name.
    fn list(&self, request: &Request) -> Answer {
        let bucket = format!("{}/", request.path);
        let (prefix, after) = (request.parameter("prefix"), request.parameter("continuation-token"));
        let files = self.files.lock().unwrap();
        let keys = files.iter().filter_map(|(path, file)| Some((path.strip_prefix(&bucket)?, file.len())));
        let mut names: Vec<(String, Option<usize>)> = Vec::new();
        for (key, size) in keys.filter(|(key, _)| key.starts_with(&prefix)) {
            let name = match key[prefix.len()..].split_once('/') {
                Some((folder, _)) => (format!("{prefix}{folder}/"), None),
                None => (key.to_string(), Some(size)),
            };
            if names.last() != Some(&name) {
                names.push(name);
            }
        }
        let mut rest = names.into_iter().filter(|(name, _)| *name > after).peekable();
        let (mut body, mut last) = ("<?xml version=\"1.0\"?><ListBucketResult>".to_string(), String::new());
        for (name, size) in rest.by_ref().take(self.page) {
            last.clone_from(&name);
            body += &match size {
                None => format!("<CommonPrefixes><Prefix>{name}</Prefix></CommonPrefixes>"),
                Some(size) => format!(
                    "<Contents><Key>{name}</Key><LastModified>2020-01-01T00:00:00.000Z</LastModified><Size>{size}</Size></Contents>"
                ),
            };
        }
        if rest.peek().is_some() {
            body += &format!("<NextContinuationToken>{last}</NextContinuationToken>");
        }
        body += "</ListBucketResult>";
        Answer { status: 200, headers: String::new(), body: body.into(), is_file: false }
    }
}
