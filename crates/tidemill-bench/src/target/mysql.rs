//! The MySQL protocol, version 4.1: MySQL and MariaDB.

mod connect;
mod rsa;
mod session;
mod value;
mod wire;

use std::time::Duration;

use crate::error::{Error, Result};
use crate::target::channel::{Channel, OpenSockets, Socket};
use crate::target::keys::{CANCEL_TIMEOUT, Keys};
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
    /// By their numbers.
    keys: Keys<u64>,
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
            keys: Keys::default(),
            url: url.clone(),
        })
    }

    fn host(&self) -> &str {
        self.url.host.as_deref().unwrap_or("localhost")
    }

    fn socket(&self, timeout: Duration) -> std::io::Result<Socket> {
        match self.url.option("socket") {
            Some(path) => Socket::unix(path),
            None => Socket::tcp(self.host(), self.url.port.unwrap_or(PORT), timeout),
        }
    }

    /// A session that waits so long for an answer, and its number.
    fn start(&self, timeout: Duration) -> Result<(Channel, u64)> {
        let target = self.url.option("socket").map_or_else(|| self.url.place(PORT), str::to_owned);
        let refused = |cause: String| Error::Unreachable { target: target.clone(), cause };
        let socket = self.socket(timeout).map_err(|e| refused(e.to_string()))?;
        let mut channel = Channel::new(socket, &self.open);
        channel.set_timeout(Some(timeout));
        let number = connect::start(self, &mut channel).map_err(|e| match e {
            Error::Lost(cause) => refused(cause),
            Error::Server(error) => refused(error.to_string()),
            other => other,
        })?;
        Ok((channel, number))
    }
}

impl Driver for MySql {
    fn dialect(&self) -> Dialect {
        Dialect::MySql
    }

    fn connect(&self) -> Result<Box<dyn Connection>> {
        let (mut channel, number) = self.start(self.connect_timeout)?;
        channel.set_timeout(None);
        Ok(Box::new(Session::new(channel, Some(self.keys.add(number)))))
    }

    /// In a session of its own, as MySQL's own client does it.
    fn cancel(&self) {
        let numbers = self.keys.all();
        let Ok((channel, _)) = self.start(CANCEL_TIMEOUT) else { return };
        let mut session = Session::new(channel, None);
        for number in numbers {
            // A session that has ended meanwhile is what is wanted; a server that does not answer has the others waiting, too.
            if let Err(Error::Lost(_)) = session.execute(&format!("KILL QUERY {number}")) {
                return;
            }
        }
    }

    fn abort(&self) {
        self.open.shut_down();
    }
}
