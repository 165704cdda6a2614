//! What that server, or the way to it, says, as an error that names the server.

use std::error::Error as _;
use std::io;

use tidemill_sql::{SqlError, SqlState};
use tokio_postgres::Error;
use tokio_postgres::error::DbError;

use super::socket::Address;
use crate::connector::{RemoteQuery, unanswered};
use crate::excerpt::excerpt;
use crate::health;
use crate::tls;

/// No connection could be made.
pub fn not_connected(server: &str, address: &Address, error: &Error) -> SqlError {
    match error.as_db_error() {
        Some(refused) => {
            unreachable(server, address, &format!("{}:  {}", refused.severity(), excerpt(refused.message())))
        }
        None => unreachable(server, address, &cause(error)),
    }
}

/// As [`not_connected`], for this cause.
pub fn unreachable(server: &str, address: &Address, cause: &str) -> SqlError {
    let message = format!("could not connect to server \"{server}\"");
    SqlError::new(SqlState::UNABLE_TO_ESTABLISH_CONNECTION, message)
        .with_detail(format!("connection to server {} failed: {cause}", address.shown()))
}

/// A server that speaks PostgreSQL's protocol and means something else by it.
pub fn not_read(server: &str, product: &str) -> SqlError {
    SqlError::unsupported(format!("server \"{server}\" is {product}, whose tables cannot be foreign tables"))
        .with_detail("It has no binary COPY, and to it NULL equals NULL.")
}

/// What the operating system says of a socket.
pub fn of_socket(error: &io::Error) -> String {
    if let Some(cause) = tls::cause(error) {
        return cause;
    }
    let question = match error.kind() {
        io::ErrorKind::ConnectionRefused => {
            "\n\tIs the server running on that host and accepting TCP/IP connections?"
        }
        _ => "",
    };
    format!("{}{question}", without_number(error.to_string()))
}

/// A query failed there.
pub fn failed(server: &str, query: &RemoteQuery, error: &Error) -> SqlError {
    let context = format!("remote SQL command on server \"{server}\": {}", query.excerpt());
    let Some(told) = error.as_db_error() else { return lost(server, &cause(error)).with_context(context) };
    let code = told.code().code();
    if code.starts_with("57P") {
        return lost(server, &excerpt(told.message())).with_context(context);
    }
    // What the definition of the foreign table has got wrong is told with its name.
    let message = match code {
        "42P01" | "42703" | "3F000" => {
            let (table, message) = (&query.table, excerpt(told.message()));
            format!("foreign table \"{table}\" does not fit server \"{server}\": {message}")
        }
        _ => excerpt(told.message()).into_owned(),
    };
    let state = SqlState::from_code(code).unwrap_or(SqlState::FDW_ERROR);
    let mut failed = SqlError::new(state, message).with_context(context);
    failed.detail = told.detail().map(|detail| excerpt(detail).into_owned());
    failed.hint = told.hint().map(|hint| excerpt(hint).into_owned());
    failed
}

/// An answer ended before its end.
pub fn incomplete(server: &str, query: &RemoteQuery, gap: String) -> SqlError {
    let message = format!("the answer of server \"{server}\" is not complete");
    SqlError::new(SqlState::PROTOCOL_VIOLATION, message)
        .with_detail(gap)
        .with_context(format!("remote SQL command on server \"{server}\": {}", query.excerpt()))
}

/// A warning of that server, which says where it comes from.
pub fn warning(server: &str, told: &DbError) -> SqlError {
    let mut warning = SqlError::new(SqlState::WARNING, excerpt(told.message()));
    warning.detail = told.detail().map(|detail| excerpt(detail).into_owned());
    warning.hint = told.hint().map(|hint| excerpt(hint).into_owned());
    warning.context =
        told.where_().filter(|inner| !inner.is_empty()).map(|inner| excerpt(inner).into_owned());
    warning.within(format!("server \"{server}\""))
}

/// Why a statement that was sent has no answer.
pub enum Fault {
    /// What the server, or the library of its protocol, says.
    Told(Error),
    /// What the answer is found to be here.
    Found(SqlError),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Told(error)
    }
}

impl From<SqlError> for Fault {
    fn from(error: SqlError) -> Self {
        Self::Found(error)
    }
}

impl Fault {
    pub fn told(self, server: &str, query: &RemoteQuery) -> SqlError {
        match self {
            Fault::Told(error) => failed(server, query, &error),
            Fault::Found(error) => error,
        }
    }

    /// Of a statement outside of a transaction: only the server itself can say that it was not carried out.
    pub fn of_alone(self, server: &str, query: &RemoteQuery) -> SqlError {
        let is_refused =
            matches!(&self, Fault::Told(error) if error.as_db_error().is_some() && !is_lost(error));
        let error = self.told(server, query);
        if is_refused {
            return error;
        }
        let mut unanswered = unanswered(server, health::cause(&error));
        unanswered.context.clone_from(&error.context);
        unanswered
    }
}

/// Whether an error is the end of a connection.
pub fn is_lost(error: &Error) -> bool {
    error.is_closed() || error.code().is_some_and(|code| code.code().starts_with("57P"))
}

/// The connection ended before the answer did.
pub fn lost(server: &str, cause: &str) -> SqlError {
    SqlError::new(SqlState::CONNECTION_FAILURE, format!("lost the connection to server \"{server}\""))
        .with_detail(cause)
}

/// Without what the library says around it.
fn cause(error: &Error) -> String {
    without_number(match error.source() {
        Some(source) => source.to_string(),
        None => error.to_string(),
    })
}

/// Without the number of the operating system's error.
fn without_number(cause: String) -> String {
    match cause.split_once(" (os error") {
        Some((cause, _)) => cause.to_string(),
        None => cause,
    }
}
