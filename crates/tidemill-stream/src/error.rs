//! What can go wrong with streams and views, and the SQLSTATE of each.

use datafusion::error::DataFusionError;
use tidemill_sql::{SqlError, SqlState};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The user's statement: reported as it is.
    #[error("{0}")]
    Sql(SqlError),
    #[error("{0}")]
    DataFusion(#[from] DataFusionError),
    #[error("{0}")]
    Arrow(#[from] arrow::error::ArrowError),
    #[error("{0}")]
    Log(#[from] crate::log::LogError),
    #[error("{0}")]
    Disk(#[from] crate::disk::DiskError),
    #[error("{0}")]
    Run(#[from] crate::run::RunError),
    /// The committer has stopped; the cause was logged when it happened.
    #[error("the server is shutting down after an error of its disk: {0}")]
    Stopped(String),
    /// Something on disk contradicts the catalog or itself.
    #[error("{0}")]
    Corrupt(String),
}

pub type Result<T, E = Error> = std::result::Result<T, E>;

impl From<SqlError> for Error {
    fn from(error: SqlError) -> Self {
        Error::Sql(error)
    }
}

impl Error {
    /// Adds a hint to an error of the user's statement.
    pub fn with_hint(self, hint: &str) -> Self {
        match self {
            Error::Sql(error) => Error::Sql(error.with_hint(hint)),
            other => other,
        }
    }

    /// The one mapping from this crate's errors to what a client sees.
    pub fn into_sql(self, map_datafusion: impl Fn(DataFusionError) -> SqlError) -> SqlError {
        match self {
            Error::Sql(error) => error,
            Error::DataFusion(error) => map_datafusion(error),
            Error::Arrow(error) => map_datafusion(DataFusionError::ArrowError(Box::new(error), None)),
            Error::Disk(error) if error.is_full() => SqlError::new(SqlState::DISK_FULL, error.to_string())
                .with_hint("Make room on the disk of the data directory; reads go on meanwhile."),
            Error::Log(crate::log::LogError::DiskFull(error)) => {
                SqlError::new(SqlState::DISK_FULL, error.to_string())
                    .with_hint("Make room on the disk of the data directory; reads go on meanwhile.")
            }
            Error::Disk(error) => SqlError::new(SqlState::IO_ERROR, error.to_string()),
            Error::Log(error) => SqlError::new(SqlState::IO_ERROR, error.to_string()),
            Error::Run(error) => SqlError::new(SqlState::DATA_CORRUPTED, error.to_string()),
            Error::Stopped(cause) => SqlError::new(
                SqlState::CRASH_SHUTDOWN,
                format!("the server is shutting down after an error of its disk: {cause}"),
            ),
            Error::Corrupt(message) => SqlError::new(SqlState::DATA_CORRUPTED, message),
        }
    }
}

/// `0A000` for a query that a continuous view cannot have.
pub fn unsupported(message: impl Into<String>) -> Error {
    Error::Sql(SqlError::unsupported(message))
}
