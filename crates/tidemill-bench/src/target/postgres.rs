//! The PostgreSQL protocol, version 3: PostgreSQL, Tidemill, TimescaleDB, QuestDB and whoever else speaks it.

mod answer;
mod cancel;
mod connect;
mod session;
mod wire;

use std::time::Duration;

use crate::error::{Error, Result};
use crate::target::channel::{Channel, OpenSockets, Socket};
use crate::target::keys::{CANCEL_TIMEOUT, Keys};
use crate::target::tls::{self, Tls};
use crate::target::{Connection, Dialect, Driver, Url};
use session::Session;

const PORT: u16 = 5432;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

pub struct Postgres {
    url: Url,
    host: String,
    port: u16,
    user: String,
    password: Option<String>,
    database: String,
    connect_timeout: Duration,
    tls: Tls,
    open: OpenSockets,
    keys: Keys<cancel::Key>,
}

impl Postgres {
    pub fn new(url: &Url) -> Result<Self> {
        url.check_options(
            "postgres",
            &["host", "connect_timeout", "application_name", "options"],
            &tls::OPTIONS,
        )?;
        let environment = |name: &str| std::env::var(name).ok().filter(|v| !v.is_empty());
        let user = url.user.clone().or_else(|| environment("PGUSER")).or_else(|| environment("USER"));
        let user = user.unwrap_or_else(|| "postgres".to_owned());
        let host = url.option("host").map(str::to_owned).or_else(|| url.host.clone());
        let database = Some(url.path.clone()).filter(|p| !p.is_empty()).or_else(|| environment("PGDATABASE"));
        let seconds = url.option("connect_timeout").map(str::parse::<u64>).transpose();
        let seconds = seconds.map_err(|_| Error::usage("connect_timeout is no number of seconds"))?;
        Ok(Self {
            host: host.or_else(|| environment("PGHOST")).unwrap_or_else(|| "localhost".to_owned()),
            port: url.port.or_else(|| environment("PGPORT")?.parse().ok()).unwrap_or(PORT),
            password: url.password.clone().or_else(|| environment("PGPASSWORD")),
            database: database.unwrap_or_else(|| user.clone()),
            user,
            connect_timeout: seconds.map_or(CONNECT_TIMEOUT, Duration::from_secs),
            tls: Tls::of(url)?,
            open: OpenSockets::default(),
            keys: Keys::default(),
            url: url.clone(),
        })
    }

    /// A socket of this machine, where there is nobody to hide from.
    fn is_local(&self) -> bool {
        self.host.starts_with('/')
    }

    fn socket(&self, timeout: Duration) -> std::io::Result<Socket> {
        if self.is_local() {
            return Socket::unix(&format!("{}/.s.PGSQL.{}", self.host, self.port));
        }
        Socket::tcp(&self.host, self.port, timeout)
    }
}

impl Driver for Postgres {
    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    fn connect(&self) -> Result<Box<dyn Connection>> {
        let refused = |cause: String| Error::Unreachable { target: self.url.place(self.port), cause };
        let socket = self.socket(self.connect_timeout).map_err(|e| refused(e.to_string()))?;
        let mut channel = Channel::new(socket, &self.open);
        channel.set_timeout(Some(self.connect_timeout));
        let key = connect::start(self, &mut channel).map_err(|e| match e {
            Error::Lost(cause) => refused(cause),
            Error::Server(error) => refused(error.to_string()),
            other => other,
        })?;
        channel.set_timeout(None);
        Ok(Box::new(Session::new(channel, key.map(|key| self.keys.add(key)))))
    }

    fn cancel(&self) {
        for key in self.keys.all() {
            let asked = self.socket(CANCEL_TIMEOUT).and_then(|socket| cancel::request(&socket, &key));
            // Where one cannot be asked, nor can the others: what is left is the end of their connections.
            if asked.is_err() {
                return;
            }
        }
    }

    fn abort(&self) {
        self.open.shut_down();
    }
}
