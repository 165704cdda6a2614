//! The one error that a user of the SQL language sees: SQLSTATE, message, detail, hint and position.

use std::fmt;
use std::ops::{Deref, DerefMut};

/// A five-character SQLSTATE, as in PostgreSQL's appendix A.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SqlState(pub &'static str);

macro_rules! states {
    ($($name:ident = $code:literal),* $(,)?) => {
        impl SqlState {
            $(pub const $name: SqlState = SqlState($code);)*
            const ALL: &[SqlState] = &[$(SqlState::$name),*];
        }
    };
}

states! {
    SUCCESSFUL_COMPLETION = "00000",
    WARNING = "01000",
    PROTOCOL_VIOLATION = "08P01",
    UNABLE_TO_ESTABLISH_CONNECTION = "08001",
    CONNECTION_FAILURE = "08006",
    TRANSACTION_RESOLUTION_UNKNOWN = "08007",
    FEATURE_NOT_SUPPORTED = "0A000",
    INVALID_AUTHORIZATION = "28000",
    INVALID_PASSWORD = "28P01",
    DATA_EXCEPTION = "22000",
    STRING_DATA_RIGHT_TRUNCATION = "22001",
    NUMERIC_VALUE_OUT_OF_RANGE = "22003",
    INVALID_DATETIME_FORMAT = "22007",
    DATETIME_FIELD_OVERFLOW = "22008",
    DIVISION_BY_ZERO = "22012",
    INTERVAL_FIELD_OVERFLOW = "22015",
    INVALID_ARGUMENT_FOR_LOG = "2201E",
    INVALID_ARGUMENT_FOR_NTILE = "22014",
    INVALID_ARGUMENT_FOR_NTH_VALUE = "22016",
    INVALID_ARGUMENT_FOR_POWER = "2201F",
    INVALID_ROW_COUNT_IN_LIMIT = "2201W",
    INVALID_ROW_COUNT_IN_OFFSET = "2201X",
    CARDINALITY_VIOLATION = "21000",
    WINDOWING_ERROR = "42P20",
    INVALID_ESCAPE_SEQUENCE = "22025",
    INVALID_REGULAR_EXPRESSION = "2201B",
    CHARACTER_NOT_IN_REPERTOIRE = "22021",
    INVALID_PARAMETER_VALUE = "22023",
    UNTRANSLATABLE_CHARACTER = "22P05",
    ARRAY_SUBSCRIPT_ERROR = "2202E",
    INVALID_TEXT_REPRESENTATION = "22P02",
    INVALID_BINARY_REPRESENTATION = "22P03",
    BAD_COPY_FILE_FORMAT = "22P04",
    NOT_NULL_VIOLATION = "23502",
    FOREIGN_KEY_VIOLATION = "23503",
    UNIQUE_VIOLATION = "23505",
    CHECK_VIOLATION = "23514",
    EXCLUSION_VIOLATION = "23P01",
    INVALID_CURSOR_STATE = "24000",
    ACTIVE_SQL_TRANSACTION = "25001",
    NO_ACTIVE_SQL_TRANSACTION = "25P01",
    READ_ONLY_SQL_TRANSACTION = "25006",
    IDLE_IN_TRANSACTION_SESSION_TIMEOUT = "25P03",
    IN_FAILED_SQL_TRANSACTION = "25P02",
    INVALID_SQL_STATEMENT_NAME = "26000",
    DEPENDENT_OBJECTS_STILL_EXIST = "2BP01",
    INVALID_CURSOR_NAME = "34000",
    INVALID_SAVEPOINT = "3B001",
    SERIALIZATION_FAILURE = "40001",
    DEADLOCK_DETECTED = "40P01",
    INVALID_CATALOG_NAME = "3D000",
    INVALID_SCHEMA_NAME = "3F000",
    INSUFFICIENT_PRIVILEGE = "42501",
    SYNTAX_ERROR = "42601",
    INVALID_NAME = "42602",
    GENERATED_ALWAYS = "428C9",
    DUPLICATE_COLUMN = "42701",
    AMBIGUOUS_COLUMN = "42702",
    UNDEFINED_COLUMN = "42703",
    UNDEFINED_OBJECT = "42704",
    DUPLICATE_OBJECT = "42710",
    DUPLICATE_ALIAS = "42712",
    DUPLICATE_FUNCTION = "42723",
    GROUPING_ERROR = "42803",
    DATATYPE_MISMATCH = "42804",
    WRONG_OBJECT_TYPE = "42809",
    CANNOT_COERCE = "42846",
    UNDEFINED_FUNCTION = "42883",
    DUPLICATE_CURSOR = "42P03",
    UNDEFINED_TABLE = "42P01",
    UNDEFINED_PARAMETER = "42P02",
    DUPLICATE_DATABASE = "42P04",
    DUPLICATE_PREPARED_STATEMENT = "42P05",
    DUPLICATE_TABLE = "42P07",
    AMBIGUOUS_PARAMETER = "42P08",
    AMBIGUOUS_FUNCTION = "42725",
    INVALID_COLUMN_REFERENCE = "42P10",
    INVALID_TABLE_DEFINITION = "42P16",
    INVALID_OBJECT_DEFINITION = "42P17",
    INDETERMINATE_DATATYPE = "42P18",
    INVALID_OBJECT_STATE = "55000",
    OBJECT_IN_USE = "55006",
    CANT_CHANGE_RUNTIME_PARAM = "55P02",
    LOCK_NOT_AVAILABLE = "55P03",
    DISK_FULL = "53100",
    OUT_OF_MEMORY = "53200",
    TOO_MANY_CONNECTIONS = "53300",
    CONFIGURATION_LIMIT_EXCEEDED = "53400",
    PROGRAM_LIMIT_EXCEEDED = "54000",
    STATEMENT_TOO_COMPLEX = "54001",
    TOO_MANY_COLUMNS = "54011",
    QUERY_CANCELED = "57014",
    ADMIN_SHUTDOWN = "57P01",
    CRASH_SHUTDOWN = "57P02",
    CANNOT_CONNECT_NOW = "57P03",
    IDLE_SESSION_TIMEOUT = "57P05",
    IO_ERROR = "58030",
    UNDEFINED_FILE = "58P01",
    FDW_ERROR = "HV000",
    FDW_DYNAMIC_PARAMETER_VALUE_NEEDED = "HV002",
    FDW_INVALID_DATA_TYPE = "HV004",
    FDW_INVALID_OPTION_NAME = "HV00D",
    FDW_NO_SCHEMAS = "HV00P",
    FDW_SCHEMA_NOT_FOUND = "HV00Q",
    FDW_TABLE_NOT_FOUND = "HV00R",
    INTERNAL_ERROR = "XX000",
    DATA_CORRUPTED = "XX001",
}

impl SqlState {
    /// From a code that another server sent; `None` if this one never sends it.
    pub fn from_code(code: &str) -> Option<SqlState> {
        Self::ALL.iter().find(|state| state.0 == code).copied()
    }
}

impl fmt::Debug for SqlState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

/// An error as PostgreSQL reports one. It is one pointer, because nearly every function may return one and hardly any does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqlError(Box<Report>);

/// What an error says. `position` is a character index into the statement's text, from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub state: SqlState,
    pub message: String,
    pub detail: Option<String>,
    pub hint: Option<String>,
    pub position: Option<usize>,
    /// Where it happened, for example `COPY s, line 3, column x: "abc"`.
    pub context: Option<String>,
}

pub type Result<T, E = SqlError> = std::result::Result<T, E>;

impl SqlError {
    pub fn new(state: SqlState, message: impl Into<String>) -> Self {
        let message = message.into();
        Self(Box::new(Report { state, message, detail: None, hint: None, position: None, context: None }))
    }

    pub fn syntax(message: impl Into<String>) -> Self {
        Self::new(SqlState::SYNTAX_ERROR, message)
    }

    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(SqlState::FEATURE_NOT_SUPPORTED, message)
    }

    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(SqlState::INTERNAL_ERROR, message)
    }

    /// PostgreSQL's `invalid input syntax for type integer: "abc"`.
    pub fn invalid_text(type_name: &str, text: &str) -> Self {
        Self::new(
            SqlState::INVALID_TEXT_REPRESENTATION,
            format!("invalid input syntax for type {type_name}: \"{text}\""),
        )
    }

    /// PostgreSQL's `integer out of range`.
    pub fn out_of_range(type_name: &str) -> Self {
        Self::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("{type_name} out of range"))
    }

    pub fn division_by_zero() -> Self {
        Self::new(SqlState::DIVISION_BY_ZERO, "division by zero")
    }

    pub fn into_report(self) -> Report {
        *self.0
    }

    pub fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub fn with_position(mut self, position: usize) -> Self {
        self.position = Some(position);
        self
    }

    /// The position in a text that has this many characters more in front.
    pub fn moved_by(mut self, chars: usize) -> Self {
        self.position = self.position.map(|position| position + chars);
        self
    }

    pub fn with_context(mut self, context: impl Into<String>) -> Self {
        self.context = Some(context.into());
        self
    }

    /// The caller's context comes after what the type itself said.
    pub fn within(mut self, outer: String) -> Self {
        self.context = Some(match self.context.take() {
            Some(inner) => format!("{inner}\n{outer}"),
            None => outer,
        });
        self
    }
}

/// Bytes of a line or value that a context shows, PostgreSQL's `MAX_COPY_DATA_DISPLAY`.
const SHOWN_BYTES_MAX: usize = 100;

/// A line or a value as a context shows it.
pub fn shown(bytes: &[u8]) -> String {
    if bytes.len() <= SHOWN_BYTES_MAX {
        return String::from_utf8_lossy(bytes).into_owned();
    }
    // Back to the start of a character: continuation bytes are 0b10xx_xxxx.
    let mut end = SHOWN_BYTES_MAX;
    while end > SHOWN_BYTES_MAX - 4 && bytes[end] & 0xc0 == 0x80 {
        end -= 1;
    }
    format!("{}...", String::from_utf8_lossy(&bytes[..end]))
}

impl Deref for SqlError {
    type Target = Report;

    fn deref(&self) -> &Report {
        &self.0
    }
}

impl DerefMut for SqlError {
    fn deref_mut(&mut self) -> &mut Report {
        &mut self.0
    }
}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for SqlError {}
