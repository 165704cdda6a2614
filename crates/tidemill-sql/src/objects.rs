//! What functions may ask about the server: its objects, the session's connection and settings.

use std::fmt::Debug;
use std::pin::Pin;

use crate::error::{Result, SqlError, SqlState};
use crate::types::Scalar;

/// A named object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// `None` for objects that are in no schema.
    pub schema: Option<String>,
    pub name: String,
    /// Found by its name alone on the search path.
    pub visible: bool,
}

/// A function as `pg_get_function_…` describe it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Described {
    pub name: String,
    pub arguments: String,
    pub result: String,
}

/// The two ends of a connection. A Unix socket has no addresses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Connection {
    pub process_id: u32,
    pub server: Option<std::net::SocketAddr>,
    pub client: Option<std::net::SocketAddr>,
}

/// What a function may tell the server to do with continuous views.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// One view by its name's parts, or all.
    Activate(Option<Vec<String>>),
    Deactivate(Option<Vec<String>>),
    /// Forgets a view's state.
    Truncate(Vec<String>),
    /// Gives a view a time to live, as an interval and a column; without both it has none.
    SetTtl {
        view: Vec<String>,
        ttl: Option<String>,
        column: Option<String>,
    },
    /// Takes away the groups of a view that have outlived its time to live.
    Expire(Vec<String>),
    /// Returns when everything accepted so far is visible.
    Flush,
}

/// A future that a function waits for.
pub type Work<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// As `pg_relation_is_updatable` tells them: PostgreSQL's numbers of commands, as bits.
pub const UPDATABLE: i32 = 1 << 2;
pub const INSERTABLE: i32 = 1 << 3;
pub const DELETABLE: i32 = 1 << 4;

/// The server as functions see it. `kind` is one of the object identifier types: `regclass` for relations and so on.
pub trait Objects: Debug + Send + Sync {
    /// The numbers of the objects of this name, written with its schema or without; several for overloaded functions.
    fn find(&self, kind: Scalar, name: &[String]) -> Vec<u32>;

    fn name(&self, kind: Scalar, oid: u32) -> Option<Named>;

    /// A type as `format_type` shows it without a modifier.
    fn type_name(&self, oid: u32) -> Option<String>;

    /// The query of a view.
    fn view_definition(&self, oid: u32) -> Option<String>;

    fn function(&self, oid: u32) -> Option<Described>;

    /// What COMMENT would have set, of an object of this catalog; column 0 is the object itself.
    fn comment(&self, catalog: &str, oid: u32, column: i32) -> Option<String>;

    /// Which statements change the rows of a relation: [`UPDATABLE`], [`INSERTABLE`] and [`DELETABLE`] together.
    fn changes(&self, oid: u32) -> i32;

    /// Bytes that a relation takes on disk.
    fn relation_bytes(&self, oid: u32) -> Option<u64>;

    /// Bytes that everything takes on disk.
    fn database_bytes(&self) -> u64;

    fn connection(&self) -> Connection;

    /// Ends what a session is doing; false if there is no session of that number.
    fn cancel(&self, process_id: u32) -> bool;

    /// Ends a session; false if there is none of that number.
    fn terminate(&self, process_id: u32) -> bool;

    /// Reads the settings anew as far as that is done while the server runs; false if that could not be asked for.
    fn reload(&self) -> bool;

    /// Waits for so many seconds, not at all for a negative number.
    fn sleep(&self, seconds: f64) -> Work<()>;

    /// Carries a command out, as the statement of the same name does; returns how many groups it took away if it counts
    /// them.
    fn command(&self, command: Command) -> Work<Result<u64>>;

    /// Microseconds since 1970.
    fn started_us(&self) -> i64;

    /// The session's value of a setting as SHOW has it, an error if there is none of the name.
    fn setting(&self, name: &str) -> Result<String>;

    /// `set_config`: changes a setting of the session and returns its new value.
    fn change_setting(&self, name: &str, value: Option<&str>, local: bool) -> Result<String>;
}

/// A server without objects: for expressions that are evaluated outside of a session.
#[derive(Debug)]
pub struct NoObjects;

impl Objects for NoObjects {
    fn find(&self, _: Scalar, _: &[String]) -> Vec<u32> {
        vec![]
    }

    fn name(&self, _: Scalar, _: u32) -> Option<Named> {
        None
    }

    fn type_name(&self, _: u32) -> Option<String> {
        None
    }

    fn view_definition(&self, _: u32) -> Option<String> {
        None
    }

    fn function(&self, _: u32) -> Option<Described> {
        None
    }

    fn comment(&self, _: &str, _: u32, _: i32) -> Option<String> {
        None
    }

    fn changes(&self, _: u32) -> i32 {
        0
    }

    fn relation_bytes(&self, _: u32) -> Option<u64> {
        None
    }

    fn database_bytes(&self) -> u64 {
        0
    }

    fn connection(&self) -> Connection {
        Connection::default()
    }

    fn cancel(&self, _: u32) -> bool {
        false
    }

    fn terminate(&self, _: u32) -> bool {
        false
    }

    fn reload(&self) -> bool {
        false
    }

    fn sleep(&self, _: f64) -> Work<()> {
        Box::pin(std::future::ready(()))
    }

    fn command(&self, _: Command) -> Work<Result<u64>> {
        let error = SqlError::unsupported("this function can only be called in a session");
        Box::pin(std::future::ready(Err(error)))
    }

    fn started_us(&self) -> i64 {
        0
    }

    fn setting(&self, name: &str) -> Result<String> {
        let message = format!("unrecognized configuration parameter \"{name}\"");
        Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message))
    }

    fn change_setting(&self, name: &str, _: Option<&str>, _: bool) -> Result<String> {
        self.setting(name)
    }
}
