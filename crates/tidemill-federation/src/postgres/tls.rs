//! TLS in PostgreSQL's protocol.

use std::fmt;
use std::io;

use rustls::pki_types::ServerName;
use tidemill_sql::Result;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::option::Options;
use crate::tls;

/// How connections to a server are encrypted.
pub struct Tls {
    pub mode: Mode,
    connector: TlsConnector,
}

/// Whether they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Disable,
    /// If the server does it.
    Prefer,
    Require,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("mode", &self.mode).finish_non_exhaustive()
    }
}

impl Tls {
    /// By the options of a server and of a user.
    pub fn new(server: &Options, mapping: &Options) -> Result<Self> {
        let name = server.get("sslmode").unwrap_or("prefer");
        let mode = match name {
            "disable" => Mode::Disable,
            "allow" | "prefer" => Mode::Prefer,
            _ => Mode::Require,
        };
        Ok(Self { mode, connector: tls::connector(name, server, mapping)? })
    }

    pub async fn encrypt(&self, host: &str, socket: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let name = ServerName::try_from(host.to_string()).map_err(io::Error::other)?;
        self.connector.connect(name, socket).await
    }
}
