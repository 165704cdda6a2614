//! What can go wrong, told so that the reader knows what to do next.

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The command line, a suite file or a script is wrong: nothing was sent.
    #[error("{0}")]
    Usage(String),
    /// A property of LinkBench is wrong, or a file of them: nothing was sent. The original ends with 2 then, like a run
    /// that did not begin.
    #[error("{0}")]
    Config(String),
    #[error("could not connect to {target}: {cause}")]
    Unreachable { target: String, cause: String },
    /// The server answered with an error.
    #[error(transparent)]
    Server(Box<ServerError>),
    /// An error that the workload lets through: it counts as failed, and the client goes on. One that it expects is part of
    /// what it measures; others keep the result from ranking.
    #[error("{error}")]
    Tolerated { error: Box<Error>, is_expected: bool },
    /// An error that ends its client, though others would go on after it.
    #[error("{0}")]
    Final(Box<Error>),
    /// The connection ended, or what came was not the protocol. What was sent last may or may not have been done.
    #[error("connection lost: {0}")]
    Lost(String),
    /// This kind of database, or this program, has no such thing.
    #[error("{0}")]
    Unsupported(String),
    /// What the database answers is not what it should.
    #[error("{0}")]
    Wrong(String),
    #[error("{path}: {cause}")]
    File { path: String, cause: String },
}

/// An error as the server tells it.
#[derive(Debug, Clone, Default)]
pub struct ServerError {
    /// Five characters; databases without SQLSTATE have their own code here.
    pub code: String,
    pub message: String,
    pub detail: String,
    pub hint: String,
}

impl std::error::Error for ServerError {}

impl std::fmt::Display for ServerError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.message, self.code)?;
        for (label, text) in [("detail", &self.detail), ("hint", &self.hint)] {
            if !text.is_empty() {
                write!(f, "; {label}: {text}")?;
            }
        }
        Ok(())
    }
}

/// By the codes of PostgreSQL and MySQL at the end of its first line, and by SQLite's words, which has no code for it.
pub fn tells_of_a_missing_table(text: &str) -> bool {
    ["(42P01)", "(42S02)", "no such table: "].iter().any(|sign| text.contains(sign))
}

/// By the same.
pub fn tells_of_an_existing_table(text: &str) -> bool {
    let is_of_sqlite = text.starts_with("table ") && text.contains(" already exists");
    is_of_sqlite || ["(42P07)", "(42S01)"].iter().any(|sign| text.contains(sign))
}

/// By PostgreSQL's code.
pub fn tells_of_something_unsupported(text: &str) -> bool {
    text.contains("(0A000)")
}

impl Error {
    pub fn usage(message: impl Into<String>) -> Self {
        Error::Usage(message.into())
    }

    pub fn file(path: &std::path::Path, cause: impl ToString) -> Self {
        Error::File { path: path.display().to_string(), cause: cause.to_string() }
    }

    pub(crate) fn server(code: impl Into<String>, message: impl Into<String>) -> Self {
        let error = ServerError { code: code.into(), message: message.into(), ..ServerError::default() };
        Error::Server(Box::new(error))
    }

    /// The code of a server's error.
    pub fn code(&self) -> Option<&str> {
        match self {
            Error::Server(error) => Some(&error.code),
            Error::Tolerated { error, .. } | Error::Final(error) => error.code(),
            _ => None,
        }
    }

    pub fn is_of_a_missing_table(&self) -> bool {
        tells_of_a_missing_table(&self.to_string())
    }

    /// The same with what to do about it, if it tells of a table that is not there.
    pub fn with_advice(self, advice: impl FnOnce() -> String) -> Self {
        self.with_advice_if(tells_of_a_missing_table, advice)
    }

    /// The same, if its text tells of what the advice is about.
    pub fn with_advice_if(self, is_meant: fn(&str) -> bool, advice: impl FnOnce() -> String) -> Self {
        let text = self.to_string();
        if is_meant(&text) { Error::Wrong(format!("{text}\n{}", advice())) } else { self }
    }

    /// What errors are counted by: the server's code, or what kind of error it is.
    pub fn kind(&self) -> &str {
        match self {
            Error::Server(error) => &error.code,
            Error::Tolerated { error, .. } | Error::Final(error) => error.kind(),
            Error::Usage(_) | Error::Config(_) => "usage",
            Error::Unreachable { .. } => "unreachable",
            Error::Lost(_) => "connection lost",
            Error::Unsupported(_) => "unsupported",
            Error::Wrong(_) => "wrong answer",
            Error::File { .. } => "file",
        }
    }

    /// The client goes on after it: the transaction lost against others, or the workload lets it through.
    pub fn is_retryable(&self) -> bool {
        matches!(self, Error::Tolerated { .. }) || self.is_conflict()
    }

    /// Operations may fail with it in a run that is as it was meant.
    pub fn is_expected(&self) -> bool {
        matches!(self, Error::Tolerated { is_expected: true, .. }) || self.is_conflict()
    }

    /// The transaction lost against others and may be tried again: serialization failure or deadlock, as pgbench has it.
    fn is_conflict(&self) -> bool {
        if matches!(self, Error::Final(_)) {
            return false;
        }
        let codes = ["40001", "40P01", "SQLITE_BUSY", "SQLITE_LOCKED", "1205"];
        self.code().is_some_and(|code| codes.contains(&code))
    }
}
