//! The HTTP listener: `GET /metrics` for Prometheus and `GET /health` for whoever watches the process. There is nothing
//! else, no state is changed, and a connection is for one request.
//!
//! Nobody has to say who he is: what is told has no secrets in it, and it is off unless `metrics_listen` says where.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use datafusion::common::runtime::SpawnedTask;
use memchr::memmem;
use tidemill_sql::Result;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::listen::{Listener, accept_any};
use crate::metrics;
use crate::server::{ACCEPT_PAUSE, Server};
use crate::session::wire::Socket;

/// The request line and the headers.
const HEAD_BYTES_MAX: usize = 8 << 10;
/// How long a client may take to send them.
const REQUEST_PATIENCE: Duration = Duration::from_secs(5);
/// How long a client may take to read the answer.
const ANSWER_PATIENCE: Duration = Duration::from_secs(5);
/// Those beyond wait in the system's queue until one of these ends, which is in ten seconds at the latest.
const CONNECTIONS_MAX: usize = 16;
/// Of what a client sends behind its request so much is read, that it gets the answer and not a reset.
const REST_BYTES_MAX: u64 = 64 << 10;

const PLAIN: &str = "text/plain; charset=utf-8";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    Ok,
    BadRequest,
    NotFound,
    MethodNotAllowed,
    RequestTimeout,
    HeadTooLarge,
    Unavailable,
    VersionNotSupported,
}

impl Status {
    fn line(self) -> &'static str {
        match self {
            Status::Ok => "200 OK",
            Status::BadRequest => "400 Bad Request",
            Status::NotFound => "404 Not Found",
            Status::MethodNotAllowed => "405 Method Not Allowed",
            Status::RequestTimeout => "408 Request Timeout",
            Status::HeadTooLarge => "431 Request Header Fields Too Large",
            Status::Unavailable => "503 Service Unavailable",
            Status::VersionNotSupported => "505 HTTP Version Not Supported",
        }
    }
}

/// What is asked for.
#[derive(Debug, PartialEq, Eq)]
struct Request<'a> {
    path: &'a str,
    /// HEAD: the answer without its body.
    is_head: bool,
}

/// The request line and the headers, or why there are none.
type Head = std::result::Result<Vec<u8>, Status>;

struct Answer {
    status: Status,
    content_type: &'static str,
    body: String,
}

impl Answer {
    fn plain(status: Status, text: &str) -> Self {
        Self { status, content_type: PLAIN, body: format!("{text}\n") }
    }

    fn refusal(status: Status) -> Self {
        let text = match status {
            Status::NotFound | Status::MethodNotAllowed => "GET /metrics and GET /health are served",
            other => other.line(),
        };
        Self::plain(status, text)
    }

    fn bytes(&self, is_head: bool) -> Vec<u8> {
        let allow = if self.status == Status::MethodNotAllowed { "Allow: GET, HEAD\r\n" } else { "" };
        let head = format!(
            "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{allow}Cache-Control: no-store\r\nConnection: close\r\n\r\n",
            self.status.line(),
            self.content_type,
            self.body.len()
        );
        let body = if is_head { "" } else { self.body.as_str() };
        [head.as_bytes(), body.as_bytes()].concat()
    }
}

/// The listener at work; it ends when this is dropped.
pub struct Serving {
    /// Where it listens.
    pub addresses: Vec<SocketAddr>,
    _accepting: SpawnedTask<()>,
}

impl Server {
    /// Answers HTTP on the addresses of `metrics_listen`.
    pub async fn serve_metrics(self: &Arc<Self>, addresses: &[SocketAddr]) -> Result<Serving> {
        let mut listeners = Vec::new();
        for address in addresses {
            listeners.push(Listener::tcp(*address, "--metrics-listen").await?);
        }
        let addresses = listeners.iter().filter_map(Listener::address).collect();
        let accepting = SpawnedTask::spawn(accept(Arc::clone(self), listeners));
        Ok(Serving { addresses, _accepting: accepting })
    }
}

async fn accept(server: Arc<Server>, listeners: Vec<Listener>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = accept_any(&listeners), if connections.len() < CONNECTIONS_MAX => match accepted {
                Ok((socket, _)) => {
                    connections.spawn(converse(Arc::clone(&server), socket));
                }
                Err(error) => {
                    tracing::warn!(%error, "could not accept a connection for metrics");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
            Some(ended) = connections.join_next(), if !connections.is_empty() => {
                if let Err(error) = ended {
                    tracing::error!(%error, "an answer over HTTP failed");
                }
            }
        }
    }
}

async fn converse(server: Arc<Server>, mut socket: Box<dyn Socket>) {
    let head = match timeout(REQUEST_PATIENCE, read_head(&mut socket)).await {
        Ok(Ok(head)) => head,
        Ok(Err(error)) => return tracing::debug!(%error, "a request over HTTP was not sent"),
        Err(_) => Err(Status::RequestTimeout),
    };
    let request = head.as_deref().map_err(|status| *status).and_then(request);
    let is_head = request.as_ref().is_ok_and(|request| request.is_head);
    let answer = request.map_or_else(Answer::refusal, |request| answer(&server, &request));
    match timeout(ANSWER_PATIENCE, send(&mut socket, &answer.bytes(is_head))).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "an answer over HTTP was not read"),
        Err(_) => tracing::debug!("an answer over HTTP was not read in time"),
    }
}

/// Up to the blank line, or why it is no head. Whoever begins with anything but a word does not speak HTTP, and is not
/// waited for.
async fn read_head(socket: &mut Box<dyn Socket>) -> io::Result<Head> {
    let mut head = Vec::new();
    loop {
        let room = HEAD_BYTES_MAX - head.len();
        if socket.take(room as u64).read_buf(&mut head).await? == 0 {
            return Ok(Err(if room == 0 { Status::HeadTooLarge } else { Status::BadRequest }));
        }
        let word = head.split(|byte| *byte == b' ').next().unwrap_or_default();
        if !word.iter().all(u8::is_ascii_uppercase) {
            return Ok(Err(Status::BadRequest));
        }
        if memmem::find(&head, b"\r\n\r\n").is_some() || memmem::find(&head, b"\n\n").is_some() {
            return Ok(Ok(head));
        }
    }
}

/// The first line says it; no header changes it.
fn request(head: &[u8]) -> std::result::Result<Request<'_>, Status> {
    let line = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = std::str::from_utf8(line).map_err(|_| Status::BadRequest)?;
    let words: Vec<&str> = line.strip_suffix('\r').unwrap_or(line).split(' ').collect();
    let [method, target, version] = words[..] else { return Err(Status::BadRequest) };
    if !version.starts_with("HTTP/") {
        return Err(Status::BadRequest);
    }
    if !matches!(version, "HTTP/1.0" | "HTTP/1.1") {
        return Err(Status::VersionNotSupported);
    }
    if !matches!(method, "GET" | "HEAD") {
        return Err(Status::MethodNotAllowed);
    }
    let path = target.split('?').next().unwrap_or_default();
    Ok(Request { path, is_head: method == "HEAD" })
}

fn answer(server: &Server, request: &Request<'_>) -> Answer {
    match request.path {
        "/metrics" => {
            let (relations, servers) = (server.catalog.relations(), server.catalog.servers());
            let body = metrics::write(&metrics::collect(server, &relations, &servers));
            Answer { status: Status::Ok, content_type: metrics::CONTENT_TYPE, body }
        }
        "/health" => match server.ailment() {
            None => Answer::plain(Status::Ok, "ok"),
            Some(cause) => Answer::plain(Status::Unavailable, &cause),
        },
        _ => Answer::refusal(Status::NotFound),
    }
}

async fn send(socket: &mut Box<dyn Socket>, bytes: &[u8]) -> io::Result<()> {
    socket.write_all(bytes).await?;
    socket.shutdown().await?;
    tokio::io::copy(&mut socket.take(REST_BYTES_MAX), &mut tokio::io::sink()).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_says_what_is_wanted() {
        let wanted = |path, is_head| Ok(Request { path, is_head });
        for (head, expected) in [
            ("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n", wanted("/metrics", false)),
            ("HEAD /health?verbose=1 HTTP/1.0\n\n", wanted("/health", true)),
            ("GET  HTTP/1.1\r\n\r\n", wanted("", false)),
            ("POST /metrics HTTP/1.1\r\n\r\n", Err(Status::MethodNotAllowed)),
            ("GET /metrics HTTP/2.0\r\n\r\n", Err(Status::VersionNotSupported)),
            ("GET /metrics\r\n\r\n", Err(Status::BadRequest)),
            ("GET /metrics FTP/1.1\r\n\r\n", Err(Status::BadRequest)),
            ("GET /a b HTTP/1.1\r\n\r\n", Err(Status::BadRequest)),
            ("\r\n\r\n", Err(Status::BadRequest)),
            ("", Err(Status::BadRequest)),
        ] {
            assert_eq!(request(head.as_bytes()), expected, "{head:?}");
        }
        assert_eq!(request(b"GET /\xff HTTP/1.1\r\n\r\n"), Err(Status::BadRequest));
    }

    #[tokio::test]
    async fn a_head_is_read_in_whatever_pieces_it_comes() {
        let (mut client, server) = tokio::net::UnixStream::pair().unwrap();
        let mut server: Box<dyn Socket> = Box::new(server);
        let reading = tokio::spawn(async move { read_head(&mut server).await.unwrap() });
        for piece in ["GE", "T /metrics HT", "TP/1.1\r", "\nHost: x\r\n", "\r", "\nmore"] {
            client.write_all(piece.as_bytes()).await.unwrap();
            tokio::task::yield_now().await;
        }
        assert!(reading.await.unwrap().is_ok_and(|head| head.starts_with(b"GET /metrics HTTP/1.1\r\n")));
    }

    #[tokio::test]
    async fn what_is_no_head_is_refused() {
        let long = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(HEAD_BYTES_MAX));
        for (sent, expected) in [
            ("\u{16}\u{3}\u{1}\u{2}", Status::BadRequest),
            ("", Status::BadRequest),
            ("GET /metrics HTTP/1.1\r\n", Status::BadRequest),
            (long.as_str(), Status::HeadTooLarge),
        ] {
            let (mut client, server) = tokio::net::UnixStream::pair().unwrap();
            client.write_all(sent.as_bytes()).await.unwrap();
            client.shutdown().await.unwrap();
            let mut server: Box<dyn Socket> = Box::new(server);
            assert_eq!(read_head(&mut server).await.unwrap(), Err(expected), "{sent:.20}");
        }
    }
}
