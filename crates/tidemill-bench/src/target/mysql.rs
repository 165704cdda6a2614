//! The MySQL protocol, version 4.1: MySQL and MariaDB.

mod connect;
mod rsa;
mod session;
mod value;
mod wire;

use std::time::Duration;

use crate::error::{Error, Result};
use crate::target::channel::{Channel, OpenSockets, Socket};
use crate::target::tls::{self, Tls};
use crate::target::{Connection, Dialect, Driver, Url};
use session::Session;

const PORT: u16 = 3306;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

pub struct MySql {
    url: Url,
    user: String,
    password: String,
    database: String,
    connect_timeout: Duration,
    tls: Tls,
    open: OpenSockets,
}

impl MySql {
    pub fn new(url: &Url) -> Result<Self> {
        url.check_options("mysql", &["socket", "connect_timeout"], &tls::OPTIONS)?;
        let environment = |name: &str| std::env::var(name).ok().filter(|v| !v.is_empty());
        let seconds = url.option("connect_timeout").map(str::parse::<u64>).transpose();
        let seconds = seconds.map_err(|_| Error::usage("connect_timeout is no number of seconds"))?;
        Ok(Self {
            user: url.user.clone().or_else(|| environment("USER")).unwrap_or_else(|| "root".to_owned()),
            password: url.password.clone().or_else(|| environment("MYSQL_PWD")).unwrap_or_default(),
            database: url.path.clone(),
            connect_timeout: seconds.map_or(CONNECT_TIMEOUT, Duration::from_secs),
            tls: Tls::of(url)?,
            open: OpenSockets::default(),
            url: url.clone(),
        })
    }

    fn host(&self) -> &str {
        self.url.host.as_deref().unwrap_or("localhost")
    }

    fn socket(&self) -> std::io::Result<Socket> {
        match self.url.option("socket") {
            Some(path) => Socket::unix(path),
            None => Socket::tcp(self.host(), self.url.port.unwrap_or(PORT), self.connect_timeout),
        }
    }
}

impl Driver for MySql {
    fn dialect(&self) -> Dialect {
        Dialect::MySql
    }

    fn connect(&self) -> Result<Box<dyn Connection>> {
        let target = self.url.option("socket").map_or_else(|| self.url.place(PORT), str::to_owned);
        let refused = |cause: String| Error::Unreachable { target: target.clone(), cause };
        let socket = self.socket().map_err(|e| refused(e.to_string()))?;
        let mut channel = Channel::new(socket, &self.open);
        channel.set_timeout(Some(self.connect_timeout));
        connect::start(self, &mut channel).map_err(|e| match e {
            Error::Lost(cause) => refused(cause),
            Error::Server(error) => refused(error.to_string()),
            other => other,
        })?;
        channel.set_timeout(None);
        Ok(Box::new(Session::new(channel)))
    }

    fn abort(&self) {
        self.open.shut_down();
    }
}
