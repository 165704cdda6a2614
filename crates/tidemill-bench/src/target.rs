//! Databases, known by their client protocols only: a URL opens a target, a target makes connections.

mod channel;
mod keys;
mod load;
pub mod mysql;
mod noop;
pub mod postgres;
mod rows;
pub mod sqlite;
mod tls;
mod url;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub use load::{Load, copy_text};
pub use rows::{Cell, Rows};
pub use url::Url;
pub(crate) use url::without_passwords;

use crate::error::{Error, Result};

/// Where nothing is said: a file here, for which nothing has to be installed.
pub const DEFAULT_URL: &str = "sqlite:tidemill-bench.db";

/// A database that can be measured. Cheap to clone; all clones stop together.
#[derive(Clone)]
pub struct Target {
    driver: Arc<dyn Driver>,
    url: Url,
    /// Of the server, for each session.
    settings: Vec<(String, String)>,
    is_given_up: Arc<AtomicBool>,
}

/// What a kind of database has to offer.
pub trait Driver: Send + Sync {
    fn dialect(&self) -> Dialect;
    fn connect(&self) -> Result<Box<dyn Connection>>;
    /// Asks the server to give up what its sessions do, where the protocol has that. Whether it did shows in the sessions.
    fn cancel(&self) {}
    /// Ends all waits of all connections with an error: the last resort against a server that hangs.
    fn abort(&self);
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// PostgreSQL and all that speak its protocol.
    Postgres,
    MySql,
    Sqlite,
    /// Answers at once and does nothing: the cost of the generator itself.
    Noop,
}

impl Dialect {
    /// The `n`th parameter of a statement, from 1.
    pub fn placeholder(self, n: usize) -> String {
        match self {
            Dialect::Postgres | Dialect::Noop => format!("${n}"),
            Dialect::Sqlite => format!("?{n}"),
            Dialect::MySql => "?".to_owned(),
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Dialect::Postgres => "postgres",
            Dialect::MySql => "mysql",
            Dialect::Sqlite => "sqlite",
            Dialect::Noop => "noop",
        }
    }
}

impl Target {
    /// `postgres://user:password@host:port/database?option=value`, `mysql://…`, `sqlite:FILE` or `noop:`.
    pub fn open(url: &str) -> Result<Target> {
        let url = Url::parse(url)?;
        let driver: Arc<dyn Driver> = match url.scheme.as_str() {
            "postgres" | "postgresql" => Arc::new(postgres::Postgres::new(&url)?),
            "mysql" | "mariadb" => Arc::new(mysql::MySql::new(&url)?),
            "sqlite" | "file" => Arc::new(sqlite::Sqlite::new(&url)?),
            "noop" => Arc::new(noop::Noop),
            other => {
                return Err(Error::usage(format!(
                    "no database is known for \"{other}:\" (postgres://, mysql://, sqlite:FILE and noop: are)"
                )));
            }
        };
        Ok(Target { driver, url, settings: Vec::new(), is_given_up: Arc::default() })
    }

    /// The same database, with settings of the server for each session.
    pub fn with_settings(&self, settings: &[(String, String)]) -> Target {
        Target { settings: [&self.settings, settings].concat(), ..self.clone() }
    }

    pub fn connect(&self) -> Result<Box<dyn Connection>> {
        if self.is_given_up.load(Ordering::Relaxed) {
            return Err(Error::Lost("its connections were shut down".to_owned()));
        }
        let mut connection = self.driver.connect()?;
        for (name, value) in &self.settings {
            let quoted = format!("'{}'", value.replace('\'', "''"));
            let number = value.parse::<f64>().is_ok();
            let value = if number { value } else { &quoted };
            if self.dialect() == Dialect::Sqlite {
                sqlite::check_pragma(connection.as_mut(), name)?;
            }
            connection.execute(&match self.dialect() {
                Dialect::Sqlite => format!("pragma {name} = {value}"),
                Dialect::MySql => format!("set session {name} = {value}"),
                Dialect::Postgres | Dialect::Noop => format!("set {name} = {value}"),
            })?;
        }
        Ok(connection)
    }

    pub fn dialect(&self) -> Dialect {
        self.driver.dialect()
    }

    /// An error if the server does not have what somebody needs: a protocol does not tell.
    pub fn check_has(&self, who: &str, needs: &str) -> Result<()> {
        if self.dialect() != Dialect::Postgres || !self.connect()?.version()?.contains("QuestDB") {
            return Ok(());
        }
        Err(Error::Unsupported(format!(
            "{who} needs {needs}, which QuestDB does not have; scripts and suites of your own run there"
        )))
    }

    pub fn cancel(&self) {
        self.driver.cancel();
    }

    pub fn abort(&self) {
        self.driver.abort();
    }

    /// The same, and nobody is connected any more.
    pub fn give_up(&self) {
        self.is_given_up.store(true, Ordering::Relaxed);
        self.abort();
    }

    /// Whether the database works in the thread that asks it.
    pub fn is_embedded(&self) -> bool {
        self.dialect() == Dialect::Sqlite
    }

    /// For people and results: without the password.
    pub fn url(&self) -> &Url {
        &self.url
    }
}

/// A value of a parameter or of a row to load.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    Null,
    Int(i64),
    Float(f64),
    Text(&'a str),
    Bytes(&'a [u8]),
}

/// A statement that was prepared by one connection, and is good there only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Statement(pub(crate) u32);

/// Prepared statements of one transaction, none of which needs the answer of another one.
#[derive(Debug, Clone, Copy)]
pub struct Stretch<'a> {
    /// The transaction begins with them.
    pub begins: bool,
    pub steps: &'a [(Statement, &'a [Value<'a>])],
    /// It is committed behind them.
    pub commits: bool,
}

/// What a statement did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Done {
    /// Rows that came back, of the last statement.
    pub rows: u64,
    /// Rows that were written, as the server says.
    pub affected: u64,
}

/// One session. Statements of a text are as the protocol's simplest call has them: several are allowed, separated by `;`.
pub trait Connection: Send {
    /// Sends text, drops the rows (they are read all the same).
    fn execute(&mut self, sql: &str) -> Result<Done>;
    /// Sends text, keeps the rows of the last statement that has some.
    fn query(&mut self, sql: &str, rows: &mut Rows) -> Result<Done>;
    /// One statement with the dialect's placeholders.
    fn prepare(&mut self, sql: &str) -> Result<Statement>;
    /// Runs a prepared statement; keeps the rows if asked to.
    fn run(&mut self, statement: Statement, values: &[Value<'_>], rows: Option<&mut Rows>) -> Result<Done>;
    /// Opens a transaction that will write.
    fn begin(&mut self) -> Result<()> {
        self.execute("BEGIN").map(drop)
    }
    /// Runs them in one round trip where the protocol can; rows and what was done are those of the last one. Behind an
    /// error the transaction is open, and nothing that comes after it has been done.
    fn run_stretch(&mut self, stretch: Stretch<'_>, rows: &mut Rows) -> Result<Done> {
        if stretch.begins {
            self.begin()?;
        }
        let mut done = Done::default();
        for (statement, values) in stretch.steps {
            done = self.run(*statement, values, Some(rows))?;
        }
        if stretch.commits {
            self.execute("COMMIT")?;
        }
        Ok(done)
    }
    /// Parsed, bound and executed in one go, prepared for nobody (pgbench's mode "extended").
    fn run_once(&mut self, sql: &str, values: &[Value<'_>], rows: Option<&mut Rows>) -> Result<Done>;
    /// Adds rows to a table in the fastest way the database has.
    fn load<'a>(&'a mut self, table: &str, columns: &[&str]) -> Result<Box<dyn Load + 'a>>;

    /// From here to `pipeline_end`, `run` and `run_once` send without waiting and return nothing.
    fn pipeline_start(&mut self) -> Result<()> {
        Err(Error::Unsupported("this database's protocol has no pipelines".to_owned()))
    }

    /// Waits for all that was sent since `pipeline_start`; the first error wins.
    fn pipeline_end(&mut self) -> Result<Done> {
        Err(Error::Unsupported("this database's protocol has no pipelines".to_owned()))
    }

    /// Whether a transaction is open, by the last answer: what was done in it is not there for others.
    fn is_in_transaction(&self) -> bool;

    /// For the record of a run: product and version.
    fn version(&mut self) -> Result<String>;

    /// Whether what goes over the network is encrypted, which costs both sides.
    fn is_encrypted(&self) -> bool {
        false
    }
}

impl dyn Connection + '_ {
    /// The first value of the first row as text; an error when there is no row.
    pub fn query_value(&mut self, sql: &str) -> Result<Option<String>> {
        let mut rows = Rows::default();
        self.query(sql, &mut rows)?;
        if rows.is_empty() {
            return Err(Error::Wrong(format!("no row came back from: {sql}")));
        }
        Ok(rows.text(0, 0).map(|text| text.into_owned()))
    }

    pub fn query_int(&mut self, sql: &str) -> Result<i64> {
        let mut rows = Rows::default();
        self.query(sql, &mut rows)?;
        rows.int(0, 0).ok_or_else(|| Error::Wrong(format!("no number came back from: {sql}")))
    }
}
