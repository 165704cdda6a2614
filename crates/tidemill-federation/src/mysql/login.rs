//! How a connection begins: TLS, and what is said of passwords.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use futures::FutureExt;
use mysql_async::{ClientIdentity, Conn, DriverError, Error, IoError, Opts, OptsBuilder, SslOpts};
use parking_lot::Mutex;
use tidemill_sql::{Result, SqlError, SqlState};

use crate::option::Options;
use crate::tls;

/// `verify-ca` is not among them: the library cannot verify a certificate without its name.
pub const MODES: &[&str] = &["disable", "allow", "prefer", "require", "verify-full"];

/// How long a server is not asked again after a panic, which the log tells at length: servers are probed each second.
const QUIET_FOR: Duration = Duration::from_secs(60);
const NO_WAY: &str = "the password cannot be given in the way that the server asks for";

/// What a connection begins with.
pub struct Login {
    first: Opts,
    /// Without TLS, for a server that has none that is good.
    otherwise: Option<Opts>,
    /// Whether that is so, which is tried once: servers lock out those who hang up too often.
    has_no_tls: AtomicBool,
    /// When the library has panicked last.
    panicked: Mutex<Option<Instant>>,
}

/// Without the password.
impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("has_no_tls", &self.has_no_tls).finish_non_exhaustive()
    }
}

impl Login {
    /// With `ssl_ca` the server's certificate and its name are verified; with `ssl_cert` and `ssl_key` it gets one.
    pub fn new(base: OptsBuilder, options: &Options) -> Result<Self> {
        let file = |name: &str| options.get(name).map(|path| PathBuf::from(path).into());
        let identity = match (file("ssl_cert"), file("ssl_key")) {
            (Some(certificate), Some(key)) => Some(ClientIdentity::new(certificate, key)),
            (None, None) => None,
            _ => return Err(invalid("options \"ssl_cert\" and \"ssl_key\" are given together")),
        };
        let root = options.get("ssl_ca");
        let mode = match (options.get("sslmode"), root, &identity) {
            (Some("verify-full"), None, _) => {
                return Err(invalid("sslmode \"verify-full\" needs a root certificate")
                    .with_hint("Name its file: OPTIONS (ssl_ca '/path/ca.pem')."));
            }
            (Some(mode), Some(_), _) if mode != "verify-full" => {
                let message = format!("sslmode \"{mode}\" verifies no certificate, but \"ssl_ca\" is given");
                return Err(invalid(&message));
            }
            (Some(mode), ..) => mode,
            (None, Some(_), _) => "verify-full",
            (None, None, Some(_)) => "require",
            (None, None, None) => "prefer",
        };
        if let Some(root) = root {
            tls::certificates(root)?;
        }
        let encryption = SslOpts::default()
            .with_root_certs(file("ssl_ca").into_iter().collect())
            .with_disable_built_in_roots(root.is_some())
            .with_danger_accept_invalid_certs(root.is_none())
            .with_client_identity(identity);
        let plain = Opts::from(base.clone());
        let encrypted = Opts::from(base.ssl_opts(encryption));
        let (first, otherwise) = match mode {
            "disable" => (plain, None),
            "allow" | "prefer" => (encrypted, Some(plain)),
            _ => (encrypted, None),
        };
        Ok(Self { first, otherwise, has_no_tls: AtomicBool::new(false), panicked: Mutex::default() })
    }

    /// A connection, and what another one to the same server begins with.
    pub async fn connect(&self) -> std::result::Result<(Conn, Opts), Error> {
        if self.panicked.lock().is_some_and(|at| at.elapsed() < QUIET_FOR) {
            return Err(Error::Other(NO_WAY.into()));
        }
        let connected = self.try_connect().await;
        if matches!(connected, Err(Error::Other(_))) {
            *self.panicked.lock() = Some(Instant::now());
        }
        connected
    }

    async fn try_connect(&self) -> std::result::Result<(Conn, Opts), Error> {
        let Some(plain) = &self.otherwise else {
            return Ok((opened(&self.first).await?, self.first.clone()));
        };
        if !self.has_no_tls.load(Ordering::Acquire) {
            match opened(&self.first).await {
                Err(error) if is_no_tls(&error) => self.has_no_tls.store(true, Ordering::Release),
                opened => return Ok((opened?, self.first.clone())),
            }
        }
        Ok((opened(plain).await?, plain.clone()))
    }
}

/// The server has none, or only versions that are given up.
fn is_no_tls(error: &Error) -> bool {
    match error {
        Error::Driver(DriverError::NoClientSslFlagFromServer) | Error::Io(IoError::Tls(_)) => true,
        Error::Io(IoError::Io(error)) => error.get_ref().is_some_and(|cause| cause.is::<rustls::Error>()),
        _ => false,
    }
}

fn invalid(message: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

/// Blocked by: the library panics where it has no way to give the password: an account of MariaDB's `ed25519`, a public key
/// of the server that is none, a password that is too long for it. Remove when: these are errors there.
pub async fn opened(options: &Opts) -> std::result::Result<Conn, Error> {
    match AssertUnwindSafe(Conn::new(options.clone())).catch_unwind().await {
        Ok(opened) => opened,
        Err(_) => Err(Error::Other(NO_WAY.into())),
    }
}

/// Why a connection failed, without what the library says around it.
pub fn cause(error: &Error) -> String {
    let said = match error {
        Error::Server(told) => told.message.clone(),
        Error::Io(error) => error.to_string(),
        Error::Driver(DriverError::UnknownAuthPlugin { name }) => format!(
            "the server asks for authentication by \"{name}\", which is not supported, and which some servers ask users for that they do not have"
        ),
        Error::Driver(DriverError::NoClientSslFlagFromServer) => "the server has no TLS".to_string(),
        Error::Driver(error) => error.to_string(),
        Error::Other(error) => error.to_string(),
        other => other.to_string(),
    };
    let said = said.strip_prefix("Input/output error: ").unwrap_or(&said);
    match said.split_once(" (os error") {
        Some((said, _)) => said.to_string(),
        None => said.to_string(),
    }
}
