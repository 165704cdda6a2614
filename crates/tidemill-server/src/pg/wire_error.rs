//! Errors and notices as the protocol carries them: severity, and what a malformed message does to the session.

use std::fmt;

use tidemill_sql::{SqlError, SqlState};

/// The severity of an ErrorResponse or NoticeResponse, in the order in which `client_min_messages` compares
/// them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    Debug,
    Log,
    Info,
    Notice,
    Warning,
    Error,
    /// The session ends.
    Fatal,
    /// The server ends.
    Panic,
}

impl Severity {
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Debug => "DEBUG",
            Severity::Log => "LOG",
            Severity::Info => "INFO",
            Severity::Notice => "NOTICE",
            Severity::Warning => "WARNING",
            Severity::Error => "ERROR",
            Severity::Fatal => "FATAL",
            Severity::Panic => "PANIC",
        }
    }
}

/// Something to tell the client beside the result of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    pub severity: Severity,
    pub body: SqlError,
}

impl Notice {
    pub fn new(message: impl Into<String>) -> Self {
        Self { severity: Severity::Notice, body: SqlError::new(SqlState::SUCCESSFUL_COMPLETION, message) }
    }

    pub fn warning(state: SqlState, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, body: SqlError::new(state, message) }
    }

    pub fn debug(message: impl Into<String>) -> Self {
        Self { severity: Severity::Debug, body: SqlError::new(SqlState::SUCCESSFUL_COMPLETION, message) }
    }

    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.body = self.body.with_hint(hint);
        self
    }

    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.body = self.body.with_detail(detail);
        self
    }
}

/// A message that can't be read, and what the session has to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProtocolError {
    pub error: SqlError,
    pub recovery: Recovery,
}

/// How a session goes on after a [`ProtocolError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recovery {
    /// The boundaries of messages are lost, or the client may not go on: report as FATAL and close.
    Close,
    /// The message was one of the simple protocol and is skipped: report, then ReadyForQuery.
    Ready,
    /// The message was one of the extended protocol: report, then discard messages up to Sync.
    SkipToSync,
}

impl ProtocolError {
    /// An error after which the connection is closed.
    pub fn fatal(error: SqlError) -> Self {
        Self { error, recovery: Recovery::Close }
    }

    /// A violation of the protocol after which the connection is closed.
    pub fn violation(message: impl Into<String>) -> Self {
        Self::fatal(SqlError::new(SqlState::PROTOCOL_VIOLATION, message))
    }

    pub fn severity(&self) -> Severity {
        match self.recovery {
            Recovery::Close => Severity::Fatal,
            Recovery::Ready | Recovery::SkipToSync => Severity::Error,
        }
    }
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.error)
    }
}

impl std::error::Error for ProtocolError {}

/// PostgreSQL's report of text that is not UTF-8: the offending character's bytes, as many as its first byte
/// promises.
pub fn invalid_utf8(bytes: &[u8], error: std::str::Utf8Error) -> SqlError {
    let bad = &bytes[error.valid_up_to()..];
    let promised = match bad.first() {
        Some(0xc0..=0xdf) => 2,
        Some(0xe0..=0xef) => 3,
        Some(0xf0..=0xf7) => 4,
        _ => 1,
    };
    let shown: Vec<String> = bad.iter().take(promised).map(|byte| format!("0x{byte:02x}")).collect();
    SqlError::new(
        SqlState::CHARACTER_NOT_IN_REPERTOIRE,
        format!("invalid byte sequence for encoding \"UTF8\": {}", shown.join(" ")),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(bytes: &[u8]) -> String {
        invalid_utf8(bytes, std::str::from_utf8(bytes).unwrap_err()).into_report().message
    }

    #[test]
    fn invalid_text_is_shown_by_its_bytes() {
        assert_eq!(report(b"ab\xff"), "invalid byte sequence for encoding \"UTF8\": 0xff");
        assert_eq!(report(b"\xe2\x28\xa1z"), "invalid byte sequence for encoding \"UTF8\": 0xe2 0x28 0xa1");
        assert_eq!(report(b"\xf0\x9f"), "invalid byte sequence for encoding \"UTF8\": 0xf0 0x9f");
    }

    #[test]
    fn severities_compare_as_client_min_messages_does() {
        assert!(Severity::Debug < Severity::Notice && Severity::Notice < Severity::Warning);
        assert_eq!(ProtocolError::violation("x").severity(), Severity::Fatal);
    }
}
