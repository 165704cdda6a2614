//! What can go wrong with streams and views, and the SQLSTATE of each.

use datafusion::error::DataFusionError;
use tidemill_sql::{SqlError, SqlState};

use crate::disk::DiskError;
use crate::log::LogError;
use crate::run::RunError;

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
    Log(#[from] LogError),
    #[error("{0}")]
    Disk(#[from] DiskError),
    #[error("{0}")]
    Run(#[from] RunError),
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
            Error::Log(error) => log_error(error),
            Error::Disk(error) => disk_error(&error),
            Error::Run(error) => run_error(&error),
            Error::Stopped(cause) => SqlError::new(
                SqlState::CRASH_SHUTDOWN,
                format!("the server is shutting down after an error of its disk: {cause}"),
            ),
            Error::Corrupt(message) => SqlError::new(SqlState::DATA_CORRUPTED, message),
        }
    }
}

const MAKE_ROOM: &str = "Make room on the disk of the data directory; reads go on meanwhile.";

pub(crate) fn disk_full(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::DISK_FULL, message).with_hint(MAKE_ROOM)
}

fn disk_error(error: &DiskError) -> SqlError {
    match error {
        full if full.is_full() => disk_full(full.to_string()),
        DiskError::Io { .. } | DiskError::InUse { .. } => {
            SqlError::new(SqlState::IO_ERROR, error.to_string())
        }
    }
}

fn log_error(error: LogError) -> SqlError {
    let state = match &error {
        LogError::DiskFull(_) => return disk_full(error.to_string()),
        LogError::Disk(error) => return disk_error(error),
        LogError::Poisoned { .. } => SqlState::IO_ERROR,
        LogError::Corrupt { .. } | LogError::Missing { .. } | LogError::Behind { .. } => {
            SqlState::DATA_CORRUPTED
        }
        LogError::NewerVersion { .. } => SqlState::FEATURE_NOT_SUPPORTED,
        LogError::TooLarge { .. } => SqlState::PROGRAM_LIMIT_EXCEEDED,
    };
    SqlError::new(state, error.to_string())
}

/// What reading or writing a run led to, in a query's terms.
pub(crate) fn run_error(error: &RunError) -> SqlError {
    let state = match error {
        RunError::Disk(error) => return disk_error(error),
        RunError::Corrupt { .. } => SqlState::DATA_CORRUPTED,
        RunError::Version { .. } | RunError::Layout { .. } => SqlState::FEATURE_NOT_SUPPORTED,
        RunError::Failed { .. } => SqlState::IO_ERROR,
        RunError::Arrow(_) | RunError::Schema { .. } | RunError::Unsorted => SqlState::INTERNAL_ERROR,
    };
    SqlError::new(state, error.to_string())
}

/// `0A000` for a query that a continuous view cannot have.
pub fn unsupported(message: impl Into<String>) -> Error {
    Error::Sql(SqlError::unsupported(message))
}
