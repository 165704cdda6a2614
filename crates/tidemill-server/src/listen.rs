//! Where connections come in: TCP addresses and Unix sockets.

use std::fs::Permissions;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::task::{Context, Poll};

use tidemill_sql::{Result, SqlError, SqlState};
use tokio::net::{TcpListener, UnixListener};

use crate::server::Peer;
use crate::session::wire::Socket;

/// Only the server's own system user gets at the socket.
const SOCKET_MODE: u32 = 0o700;
/// The longest path that the kernel takes for a socket.
const SOCKET_PATH_BYTES_MAX: usize = 107;

#[derive(Debug)]
pub enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener, SocketFile),
}

/// Both ends of a connection; a Unix socket has no addresses.
#[derive(Debug, Clone, Copy)]
pub struct Connection {
    pub peer: Peer,
    pub client: Option<SocketAddr>,
    pub server: Option<SocketAddr>,
}

type Accepted = (Box<dyn Socket>, Connection);

/// The file of a socket, removed when the listener goes.
#[derive(Debug)]
pub struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.0) {
            tracing::debug!(%error, "could not remove the socket");
        }
    }
}

impl Listener {
    /// Listens on a TCP address; with port 0 the system chooses one, which [`Listener::address`] tells. The option is the
    /// one of the command line that says where.
    pub async fn tcp(address: SocketAddr, option: &str) -> Result<Self> {
        let listener = TcpListener::bind(address).await.map_err(|error| match error.kind() {
            std::io::ErrorKind::AddrInUse => {
                let message = format!("could not listen on {address}: the port is taken");
                SqlError::new(SqlState::OBJECT_IN_USE, message)
                    .with_hint(format!("Is another server running there? Choose another port with {option}."))
            }
            _ => failed(&address.to_string(), &error),
        })?;
        Ok(Listener::Tcp(listener))
    }

    /// Listens on `.s.PGSQL.port` in a directory of the server's own, where a file left by a crash is nobody's.
    pub fn unix(directory: &Path, port: u16) -> Result<Self> {
        let path = directory.join(format!(".s.PGSQL.{port}"));
        let shown = path.display().to_string();
        if path.as_os_str().len() > SOCKET_PATH_BYTES_MAX {
            let message =
                format!("the path of the socket \"{shown}\" is longer than {SOCKET_PATH_BYTES_MAX} bytes");
            return Err(SqlError::new(SqlState::IO_ERROR, message)
                .with_hint("Set \"unix_socket_directories\" to a shorter path, or to nothing."));
        }
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(failed(&shown, &error)),
            _ => {}
        }
        let listener = UnixListener::bind(&path).map_err(|error| failed(&shown, &error))?;
        let file = SocketFile(path);
        std::fs::set_permissions(&file.0, Permissions::from_mode(SOCKET_MODE))
            .map_err(|error| failed(&shown, &error))?;
        Ok(Listener::Unix(listener, file))
    }

    /// The address of a TCP listener.
    pub fn address(&self) -> Option<SocketAddr> {
        match self {
            Listener::Tcp(listener) => listener.local_addr().ok(),
            Listener::Unix(..) => None,
        }
    }

    fn poll_accept(&self, context: &mut Context<'_>) -> Poll<std::io::Result<Accepted>> {
        match self {
            Listener::Tcp(listener) => listener.poll_accept(context).map_ok(|(socket, address)| {
                let peer = if address.ip().is_loopback() { Peer::Loopback } else { Peer::Network };
                if let Err(error) = socket.set_nodelay(true) {
                    tracing::debug!(%error, "answers may be delayed");
                }
                let connection = Connection { peer, client: Some(address), server: socket.local_addr().ok() };
                (Box::new(socket) as Box<dyn Socket>, connection)
            }),
            Listener::Unix(listener, _) => listener.poll_accept(context).map(|accepted| {
                let (socket, _) = accepted?;
                let peer = Peer::Unix { uid: socket.peer_cred()?.uid() };
                Ok((Box::new(socket) as Box<dyn Socket>, Connection { peer, client: None, server: None }))
            }),
        }
    }
}

fn failed(place: &str, error: &std::io::Error) -> SqlError {
    SqlError::new(SqlState::IO_ERROR, format!("could not listen on {place}: {error}"))
}

/// The next connection of any of the listeners.
pub async fn accept_any(listeners: &[Listener]) -> std::io::Result<Accepted> {
    poll_fn(|context| {
        for listener in listeners {
            if let Poll::Ready(accepted) = listener.poll_accept(context) {
                return Poll::Ready(accepted);
            }
        }
        Poll::Pending
    })
    .await
}
