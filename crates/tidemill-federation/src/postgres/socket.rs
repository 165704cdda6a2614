//! The way to a server: a socket, encrypted as `sslmode` says.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};

use super::tls::{Mode, Tls};

/// Asks for an encrypted connection, which is answered by one byte.
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];
const ENCRYPTS: u8 = b'S';
const DOES_NOT: u8 = b'N';
const FAILS: u8 = b'E';
/// Bytes of an error in the place of that answer at most.
const ERROR_BYTES_MAX: usize = 4 << 10;

pub trait Socket: AsyncRead + AsyncWrite + Unpin + Send {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send> Socket for S {}

/// Where a server is, and how it is reached.
#[derive(Debug)]
pub struct Address {
    /// A name, an address, or, if it begins with a slash, the folder of a Unix socket. A certificate is in this name.
    pub host: String,
    /// Where the host is, so that nobody has to be asked.
    pub hostaddr: Option<IpAddr>,
    pub port: u16,
    /// `None`: connections that are silent are not checked.
    pub keepalive: Option<TcpKeepalive>,
    pub user_timeout: Option<Duration>,
    pub tls: Tls,
}

impl Address {
    /// As errors tell it.
    pub fn shown(&self) -> String {
        format!("at \"{}\", port {}", self.host, self.port)
    }

    pub async fn connect(&self) -> io::Result<Box<dyn Socket>> {
        if self.host.starts_with('/') {
            let path = format!("{}/.s.PGSQL.{}", self.host, self.port);
            return Ok(Box::new(UnixStream::connect(path).await?));
        }
        let mut socket = match self.hostaddr {
            Some(address) => TcpStream::connect((address, self.port)).await?,
            None => TcpStream::connect((self.host.as_str(), self.port)).await?,
        };
        self.set_options(&socket)?;
        if !self.is_encrypted(&mut socket).await? {
            return Ok(Box::new(socket));
        }
        Ok(Box::new(self.tls.encrypt(&self.host, socket).await?))
    }

    fn set_options(&self, socket: &TcpStream) -> io::Result<()> {
        socket.set_nodelay(true)?;
        let socket = SockRef::from(socket);
        if let Some(keepalive) = &self.keepalive {
            socket.set_tcp_keepalive(keepalive)?;
        }
        socket.set_tcp_user_timeout(self.user_timeout)
    }

    /// Whether what comes next is encrypted; an error if it has to be and the server does not do it.
    async fn is_encrypted(&self, socket: &mut TcpStream) -> io::Result<bool> {
        if self.tls.mode == Mode::Disable {
            return Ok(false);
        }
        socket.write_all(&SSL_REQUEST).await?;
        match socket.read_u8().await? {
            ENCRYPTS => Ok(true),
            DOES_NOT if self.tls.mode == Mode::Require => {
                Err(io::Error::other("server does not support TLS"))
            }
            DOES_NOT => Ok(false),
            FAILS => {
                let mut said = vec![0; ERROR_BYTES_MAX];
                let length = socket.read(&mut said).await?;
                let said = message_of(&said[..length]);
                Err(io::Error::other(format!("server answers TLS with an error: {said}")))
            }
            _ => Err(io::Error::other("it does not speak PostgreSQL's protocol")),
        }
    }
}

/// The text of an error, after its kind: a length, then fields of a letter and a text. Servers before 7.4 send a text only.
fn message_of(said: &[u8]) -> String {
    let fields = said.get(4..).unwrap_or_default().split(|byte| *byte == 0);
    let text = fields.filter_map(|field| field.strip_prefix(b"M")).next().unwrap_or(said);
    String::from_utf8_lossy(text).trim_end_matches(['\0', '\n']).to_string()
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;
    use crate::keepalive;
    use crate::option::Options;

    #[tokio::test]
    async fn a_silent_connection_is_checked() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let set = |options: &Options| {
            super::super::address(options, &Options::default()).unwrap().set_options(&socket).unwrap();
            let socket = SockRef::from(&socket);
            let times = (socket.tcp_keepalive_time().unwrap(), socket.tcp_keepalive_interval().unwrap());
            (times.0, times.1, socket.tcp_keepalive_retries().unwrap())
        };
        assert_eq!(set(&Options::default()), (keepalive::IDLE, keepalive::INTERVAL, keepalive::COUNT));
        let own =
            Options::of([("keepalives_idle", "60"), ("keepalives_interval", "7"), ("keepalives_count", "5")]);
        assert_eq!(set(&own), (Duration::from_secs(60), Duration::from_secs(7), 5));
    }

    #[test]
    fn what_is_said_in_the_place_of_tls_is_told() {
        assert_eq!(message_of(b"\0\0\0\x20SFATAL\0C08P01\0Mno such thing\0\0"), "no such thing");
        assert_eq!(message_of(b"no such thing\n\0"), "no such thing");
        assert_eq!(message_of(b""), "");
    }
}
