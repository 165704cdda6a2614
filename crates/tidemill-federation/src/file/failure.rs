//! What object stores and web servers do not give, as PostgreSQL tells it of files and of servers.

use std::error::Error;
use std::fmt::Display;

use object_store::client::HttpError;
use reqwest::StatusCode;
use tidemill_sql::{SqlError, SqlState};

use super::client::Refused;
use super::store::Stores;

/// Of whoever was asked for the file, or for a list of files, of this name.
pub fn of(stores: &Stores, place: &dyn Display, error: &(dyn Error + 'static)) -> SqlError {
    if let Some(refused) = found::<Refused>(error) {
        return refusal(stores, place, refused);
    }
    if let Some(object_store::Error::NotSupported { .. }) = found(error) {
        return SqlError::unsupported(format!(
            "could not read file \"{place}\" of server \"{}\" in parts",
            stores.server
        ))
        .with_detail("Parquet files are read by ranges of their bytes, which the web server does not give.");
    }
    match found::<HttpError>(error).is_some() || found::<reqwest::Error>(error).is_some() {
        true => unreachable(stores, place, &cause(error)),
        false => unusable(stores, place, &cause(error)),
    }
}

fn refusal(stores: &Stores, place: &dyn Display, refused: &Refused) -> SqlError {
    let said = |error: SqlError| match refused.said() {
        Some(said) => error.with_detail(format!("Server \"{}\" says: {said}", stores.server)),
        None => error,
    };
    let opened = |state, reason| SqlError::new(state, format!("could not open file \"{place}\": {reason}"));
    match refused.status {
        StatusCode::NOT_FOUND | StatusCode::GONE => {
            said(opened(SqlState::UNDEFINED_FILE, "No such file or directory"))
        }
        StatusCode::FORBIDDEN | StatusCode::UNAUTHORIZED => {
            let error = said(opened(SqlState::INSUFFICIENT_PRIVILEGE, "Permission denied"));
            match stores.is_anonymous() {
                true if place.to_string().starts_with("s3:") => error.with_hint(format!(
                    "Nobody is named to the store: CREATE USER MAPPING FOR CURRENT_USER SERVER {} OPTIONS (user '…', password '…').",
                    stores.server
                )),
                _ => error,
            }
        }
        StatusCode::PRECONDITION_FAILED => {
            let message = format!("file \"{place}\" has changed while it was read");
            SqlError::new(SqlState::FDW_ERROR, message).with_hint("Read it again.")
        }
        _ => unusable(stores, place, &refused.to_string()),
    }
}

/// Whoever should have the file does not answer.
pub fn unreachable(stores: &Stores, place: &dyn Display, cause: &str) -> SqlError {
    let message = format!("could not connect to server \"{}\"", stores.server);
    let detail = format!("connection to server for \"{place}\" failed: {cause}");
    SqlError::new(SqlState::UNABLE_TO_ESTABLISH_CONNECTION, message).with_detail(detail)
}

/// It answered, and then no more.
pub fn lost(stores: &Stores, place: &dyn Display, error: &(dyn Error + 'static)) -> SqlError {
    let told = of(stores, place, error);
    if told.state != SqlState::UNABLE_TO_ESTABLISH_CONNECTION {
        return told;
    }
    let message = format!("lost the connection to server \"{}\"", stores.server);
    let detail = format!("file \"{place}\": {}", cause(error));
    SqlError::new(SqlState::CONNECTION_FAILURE, message).with_detail(detail)
}

/// It gave less than it had said.
pub fn cut(stores: &Stores, place: &dyn Display) -> SqlError {
    let message = format!("lost the connection to server \"{}\"", stores.server);
    SqlError::new(SqlState::CONNECTION_FAILURE, message)
        .with_detail(format!("file \"{place}\" ends too early"))
}

fn unusable(stores: &Stores, place: &dyn Display, cause: &str) -> SqlError {
    let message = format!("server \"{}\": could not read file \"{place}\"", stores.server);
    SqlError::new(SqlState::FDW_ERROR, message).with_detail(cause.to_string())
}

/// The first error of a type among an error and its causes.
fn found<'e, E: Error + 'static>(error: &'e (dyn Error + 'static)) -> Option<&'e E> {
    chain(error).find_map(|error| error.downcast_ref())
}

fn chain<'e>(error: &'e (dyn Error + 'static)) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| (*error).source())
}

/// The innermost cause, without the number of the operating system's error.
fn cause(error: &(dyn Error + 'static)) -> String {
    let innermost = chain(error).last().unwrap_or(error);
    let cause = innermost.to_string();
    match cause.split_once(" (os error") {
        Some((cause, _)) => cause.to_string(),
        None => cause,
    }
}
