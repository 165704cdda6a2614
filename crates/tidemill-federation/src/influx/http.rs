//! As much of HTTP/1.1 as asking a database takes: one request a connection, and an answer that comes line by line.

use std::fmt;
use std::time::Duration;

use base64::Engine;
use parking_lot::Mutex;
use rustls::pki_types::ServerName;
use socket2::SockRef;
use tidemill_sql::{Result, SqlError, SqlState};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::connector::{RemoteQuery, unknown};
use crate::option::Options;
use crate::table::TableDefinition;
use crate::tls;
use crate::{health, keepalive};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
const HOST: &str = "localhost";
const PORT: u16 = 8086;
/// Bytes of the head of an answer, and of a line of it, at most.
const HEAD_BYTES_MAX: usize = 64 << 10;
const LINE_BYTES_MAX: usize = 256 << 20;
/// Tables that are known to fit their definitions at most.
const CHECKED_MAX: usize = 1000;

/// A connection, encrypted or not.
pub trait Duplex: AsyncRead + AsyncWrite + Send + Sync + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Sync + Unpin> Duplex for S {}

/// Where a server is, and as whom it is asked.
pub struct Address {
    /// The server's name.
    pub server: String,
    host: String,
    port: u16,
    database: String,
    /// Of basic authentication.
    credentials: Option<String>,
    /// `None`: nothing is encrypted.
    tls: Option<TlsConnector>,
    connect_timeout: Duration,
    checked: Mutex<Vec<TableDefinition>>,
}

/// Without the password.
impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Address").field("server", &self.server).finish_non_exhaustive()
    }
}

impl Address {
    pub fn new(server: &str, options: &Options, mapping: &Options) -> Result<Self> {
        let host = options.get("host").unwrap_or(HOST);
        let tls = match host.starts_with("https://") {
            true => {
                // A root certificate or a mode has to be named: there is no list of authorities.
                let mode = options.get("sslmode").unwrap_or("verify-full");
                Some(tls::connector(mode, options, mapping)?)
            }
            false => None,
        };
        let Some(database) = options.get("dbname") else {
            let message = format!("server \"{server}\" has no database");
            return Err(SqlError::new(SqlState::FDW_ERROR, message)
                .with_hint(format!("ALTER SERVER {server} OPTIONS (ADD dbname '…').")));
        };
        let host = host.strip_prefix("http://").or(host.strip_prefix("https://")).unwrap_or(host);
        let host = host.trim_end_matches('/');
        let number = |name: &str| options.get(name).and_then(|text| text.trim().parse::<u64>().ok());
        let connect_timeout = match number("connect_timeout") {
            None | Some(0) => CONNECT_TIMEOUT,
            Some(seconds) => Duration::from_secs(seconds),
        };
        let credentials = mapping.get("user").map(|user| {
            let pair = format!("{user}:{}", mapping.get("password").unwrap_or_default());
            base64::engine::general_purpose::STANDARD.encode(pair)
        });
        Ok(Self {
            server: server.to_string(),
            host: host.to_string(),
            port: number("port").and_then(|port| u16::try_from(port).ok()).unwrap_or(PORT),
            database: database.to_string(),
            credentials,
            tls,
            connect_timeout,
            checked: Mutex::default(),
        })
    }

    /// Asks, and returns when the head of the answer is there.
    pub async fn ask(&self, query: &str) -> Result<Answer> {
        let path =
            format!("/query?epoch=ns&chunked=true&db={}&q={}", encoded(&self.database), encoded(query));
        self.request("GET", &path, &[]).await
    }

    /// Adds points in the line protocol. Only a refusal says that they are not there.
    pub async fn write(&self, lines: &[u8]) -> Result<()> {
        let path = format!("/write?precision=ns&db={}", encoded(&self.database));
        let mut is_sent = false;
        let answered = self.answered("POST", &path, lines, &mut is_sent).await;
        answered.map(drop).map_err(|fault| match fault {
            Fault::Io(error) if is_sent => unknown(&self.server, cause(&error)),
            Fault::Io(error) => self.not_connected(&cause(&error)),
            Fault::Told(error) => error,
            Fault::Unclear(error) => unknown(&self.server, health::cause(&error)),
        })
    }

    /// A round trip.
    pub async fn ping(&self) -> Result<()> {
        self.request("GET", "/ping", &[]).await.map(drop)
    }

    /// What is read may be asked for again, so that it is only told why there is no answer.
    async fn request(&self, method: &str, path: &str, body: &[u8]) -> Result<Answer> {
        let mut is_sent = false;
        self.answered(method, path, body, &mut is_sent).await.map_err(|fault| match fault {
            Fault::Io(error) if is_sent => self.lost(&error),
            Fault::Io(error) => self.not_connected(&cause(&error)),
            Fault::Told(error) | Fault::Unclear(error) => error,
        })
    }

    async fn answered(
        &self,
        method: &str,
        path: &str,
        body: &[u8],
        is_sent: &mut bool,
    ) -> std::result::Result<Answer, Fault> {
        let asked = tokio::time::timeout(self.connect_timeout, self.head(method, path, body, is_sent));
        asked.await.unwrap_or_else(|_| Err(Fault::Io(std::io::Error::other("timeout expired"))))
    }

    async fn connect(&self) -> std::io::Result<Box<dyn Duplex>> {
        let socket = TcpStream::connect((self.host.as_str(), self.port)).await?;
        SockRef::from(&socket).set_tcp_keepalive(&keepalive::of_socket())?;
        let Some(tls) = &self.tls else { return Ok(Box::new(socket)) };
        let name = ServerName::try_from(self.host.clone());
        let name = name.map_err(|error| std::io::Error::other(error.to_string()))?;
        Ok(Box::new(tls.connect(name, socket).await?))
    }

    /// As errors tell it.
    pub fn shown(&self) -> String {
        format!("at \"{}\", port {}", self.host, self.port)
    }

    fn not_connected(&self, cause: &str) -> SqlError {
        let message = format!("could not connect to server \"{}\"", self.server);
        let detail = format!("connection to server {} failed: {cause}", self.shown());
        SqlError::new(SqlState::UNABLE_TO_ESTABLISH_CONNECTION, message).with_detail(detail)
    }

    /// `is_sent`: all of the request is on its way.
    async fn head(
        &self,
        method: &str,
        path: &str,
        body: &[u8],
        is_sent: &mut bool,
    ) -> std::result::Result<Answer, Fault> {
        let mut socket = self.connect().await?;
        let credentials = self.credentials.as_ref();
        let authorization = credentials.map(|pair| format!("Authorization: Basic {pair}\r\n"));
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}:{}\r\nConnection: close\r\nAccept: application/json\r\nContent-Length: {}\r\n{}\r\n",
            self.host,
            self.port,
            body.len(),
            authorization.unwrap_or_default(),
        );
        socket.write_all(request.as_bytes()).await?;
        socket.write_all(body).await?;
        *is_sent = true;
        socket.flush().await?;
        let mut socket = BufReader::new(socket);
        let status = head_line(&mut socket).await?;
        let code =
            status.strip_prefix("HTTP/1.").and_then(|rest| rest.get(2..5)).unwrap_or_default().to_string();
        if code.parse::<u16>().is_err() {
            return Err(Fault::Unclear(self.not_connected("the server does not speak HTTP")));
        }
        let mut body = Body::ToEnd;
        loop {
            let line = head_line(&mut socket).await?;
            if line.is_empty() {
                break;
            }
            let Some((name, value)) = line.split_once(':') else { continue };
            match (name.to_ascii_lowercase().as_str(), value.trim()) {
                ("transfer-encoding", value) if value.eq_ignore_ascii_case("chunked") => {
                    body = Body::Chunked { left: 0, is_first: true };
                }
                ("content-length", value) => {
                    let length = value.parse().map_err(|_| garbage("a length that is no number"))?;
                    body = Body::Sized(length);
                }
                _ => {}
            }
        }
        let mut answer = Answer { socket, body, pending: Vec::new() };
        match code.as_str() {
            "200" | "204" => Ok(answer),
            "401" | "403" => {
                let said = answer.line().await.ok().flatten().unwrap_or_default();
                let said = super::answer::error_of(&said).unwrap_or_else(|| "unauthorized".to_string());
                Err(Fault::Told(self.not_connected(&said)))
            }
            _ => {
                let said = answer.line().await.ok().flatten().unwrap_or_default();
                let said = super::answer::error_of(&said).unwrap_or_else(|| format!("status {code}"));
                let message = format!("server \"{}\": {said}", self.server);
                let error = SqlError::new(SqlState::FDW_ERROR, message);
                // It has failed at its work, or what stands before it has not heard of its end.
                Err(if code.starts_with('5') { Fault::Unclear(error) } else { Fault::Told(error) })
            }
        }
    }

    /// Whether a table is known to fit.
    pub fn is_checked(&self, definition: &TableDefinition) -> bool {
        self.checked.lock().contains(definition)
    }

    pub fn set_checked(&self, definition: &TableDefinition) {
        let mut checked = self.checked.lock();
        if checked.len() < CHECKED_MAX {
            checked.push(definition.clone());
        }
    }

    /// What is said of an answer that ended before its end.
    pub fn lost(&self, error: &std::io::Error) -> SqlError {
        let message = format!("lost the connection to server \"{}\"", self.server);
        SqlError::new(SqlState::CONNECTION_FAILURE, message).with_detail(cause(error))
    }

    /// What the server says of a query.
    pub fn failed(&self, query: &RemoteQuery, said: &str) -> SqlError {
        let message = format!("server \"{}\": {said}", self.server);
        let state = match said.starts_with("database not found") {
            true => SqlState::UNABLE_TO_ESTABLISH_CONNECTION,
            false => SqlState::FDW_ERROR,
        };
        SqlError::new(state, message).with_context(format!(
            "remote SQL command on server \"{}\": {}",
            self.server,
            query.excerpt()
        ))
    }
}

/// Why there is no answer.
enum Fault {
    Io(std::io::Error),
    /// The server refuses to do it.
    Told(SqlError),
    /// What is said leaves open whether it was done.
    Unclear(SqlError),
}

impl From<std::io::Error> for Fault {
    fn from(error: std::io::Error) -> Self {
        Fault::Io(error)
    }
}

/// Without the number of the operating system's error.
fn cause(error: &std::io::Error) -> String {
    let cause = error.to_string();
    match cause.split_once(" (os error") {
        Some((cause, _)) => cause.to_string(),
        None => cause,
    }
}

fn garbage(what: &str) -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::InvalidData, what.to_string())
}

/// For the query of a URL.
fn encoded(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    text.bytes().map(byte).collect()
}

async fn head_line(socket: &mut BufReader<Box<dyn Duplex>>) -> std::io::Result<String> {
    let mut line = Vec::new();
    let taken = (&mut *socket).take(HEAD_BYTES_MAX as u64).read_until(b'\n', &mut line).await?;
    if taken == 0 || line.last() != Some(&b'\n') {
        return Err(garbage("the answer ends in its head"));
    }
    Ok(String::from_utf8_lossy(&line).trim_end().to_string())
}

/// The answer to a query, which is read as it is needed.
pub struct Answer {
    socket: BufReader<Box<dyn Duplex>>,
    body: Body,
    pending: Vec<u8>,
}

enum Body {
    Chunked { left: usize, is_first: bool },
    Sized(usize),
    ToEnd,
}

impl Answer {
    /// The next line; `None` at the end.
    pub async fn line(&mut self) -> std::io::Result<Option<String>> {
        let mut searched = 0;
        loop {
            if let Some(end) = memchr::memchr(b'\n', &self.pending[searched..]) {
                let rest = self.pending.split_off(searched + end + 1);
                return text(std::mem::replace(&mut self.pending, rest)).map(Some);
            }
            searched = self.pending.len();
            if searched > LINE_BYTES_MAX {
                return Err(garbage("a line that is too long"));
            }
            if !self.more().await? {
                let last = std::mem::take(&mut self.pending);
                return if last.is_empty() { Ok(None) } else { text(last).map(Some) };
            }
        }
    }

    /// False: that was all.
    async fn more(&mut self) -> std::io::Result<bool> {
        if let Body::Chunked { left: 0, is_first } = self.body {
            if !is_first {
                head_line(&mut self.socket).await?;
            }
            let size = head_line(&mut self.socket).await?;
            let size = size.split(';').next().unwrap_or_default();
            let left = usize::from_str_radix(size, 16).map_err(|_| garbage("a chunk without a size"))?;
            self.body = Body::Chunked { left, is_first: false };
            if left == 0 {
                self.body = Body::Sized(0);
                return Ok(false);
            }
        }
        let most = match &self.body {
            Body::Chunked { left, .. } | Body::Sized(left) => *left,
            Body::ToEnd => usize::MAX,
        };
        if most == 0 {
            return Ok(false);
        }
        let found = self.socket.fill_buf().await?;
        let taken = found.len().min(most);
        self.pending.extend_from_slice(&found[..taken]);
        self.socket.consume(taken);
        match &mut self.body {
            Body::ToEnd => return Ok(taken > 0),
            Body::Chunked { left, .. } | Body::Sized(left) => *left -= taken,
        }
        if taken == 0 {
            return Err(std::io::Error::new(std::io::ErrorKind::UnexpectedEof, "the answer ends too early"));
        }
        Ok(true)
    }
}

fn text(line: Vec<u8>) -> std::io::Result<String> {
    String::from_utf8(line).map_err(|_| garbage("an answer that is no UTF-8"))
}
