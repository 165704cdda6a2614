//! What can go wrong with the suite's settings and files.

/// Every message stands alone: file, line and key are part of it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{path}: {message}")]
    File { path: String, message: String },
    #[error("{path}:{line}: {message}")]
    Line { path: String, line: usize, message: String },
    /// A word of the command line.
    #[error("{place}: {message}")]
    At { place: String, message: String },
    #[error("property \"{key}\" ({origin}): {message}")]
    Property { key: String, origin: String, message: String },
}

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub fn at(place: &str, message: String) -> Self {
        Error::At { place: place.to_owned(), message }
    }
}

impl From<Error> for crate::error::Error {
    fn from(error: Error) -> Self {
        let told = error.to_string();
        match error {
            Error::At { .. } => crate::error::Error::usage(told),
            Error::File { .. } | Error::Line { .. } | Error::Property { .. } => {
                crate::error::Error::Config(told)
            }
        }
    }
}
