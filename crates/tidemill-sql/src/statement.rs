//! A statement: Tidemill's own forms spelled out, everything else as the parser's tree.

mod foreign;
mod migrate;

use sqlparser::ast;

use crate::types::Type;

pub use foreign::{
    Child, CreateForeignTable, CreateMultiTenant, CreateServer, ForeignColumn, ForeignOption,
    ForeignStatement, ForeignTableAction, ImportSchema, ImportSelection, MappedUser, OptionChange,
};
pub use migrate::{Datasource, Migrate, MigrateServer, MigrateTarget};

/// One statement of a string of them.
#[derive(Debug, Clone)]
pub struct Parsed {
    pub statement: Statement,
    /// The statement's own text, without the semicolon.
    pub text: String,
    /// Where `text` begins in the whole string, in characters from 0.
    pub offset: usize,
}

/// A name as written: `schema.name` or `name`, folded as PostgreSQL does.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Name {
    pub schema: Option<String>,
    pub name: String,
    /// Character position in the statement, from 1.
    pub position: usize,
}

#[derive(Debug, Clone)]
pub struct Truncate {
    pub names: Vec<Name>,
    /// `RESTART IDENTITY`
    pub restarts: bool,
    pub cascades: bool,
}

#[derive(Debug, Clone)]
pub enum Statement {
    CreateView(CreateView),
    CreateStream(CreateStream),
    CreateTable(CreateTable),
    CreateTableAs(CreateTableAs),
    Foreign(ForeignStatement),
    Datasource(Datasource),
    Migrate(Migrate),
    Truncate(Truncate),
    AlterStream {
        if_exists: bool,
        name: Name,
        action: AlterAction,
    },
    AlterView {
        if_exists: bool,
        name: Name,
        action: AlterAction,
    },
    Drop {
        kind: ObjectKind,
        if_exists: bool,
        names: Vec<Name>,
        cascade: bool,
    },
    /// No names: all of them.
    Activate(Vec<Name>),
    Deactivate(Vec<Name>),
    Flush,
    CreateExtension {
        if_not_exists: bool,
        name: Name,
    },
    DropExtension {
        if_exists: bool,
        names: Vec<Name>,
    },
    TruncateContinuousView(Vec<Name>),
    Comment {
        object: Commented,
        /// `None` takes the comment away.
        text: Option<String>,
    },
    /// Of a query, or of an INSERT, UPDATE or DELETE.
    Explain {
        options: ExplainOptions,
        statement: Box<ast::Statement>,
    },
    ExplainExecute {
        options: ExplainOptions,
        name: String,
        arguments: Vec<ast::Expr>,
    },
    ExplainContinuousView {
        verbose: bool,
        name: Name,
    },
    Begin {
        /// Written `START TRANSACTION`.
        start: bool,
        /// Settings and their values.
        modes: Vec<(String, String)>,
    },
    Commit {
        chain: bool,
    },
    Rollback {
        chain: bool,
    },
    Savepoint(String),
    Release(String),
    RollbackTo(String),
    Set {
        local: bool,
        name: String,
        value: Option<Vec<String>>,
    },
    /// `SET TRANSACTION` and `SET SESSION CHARACTERISTICS AS TRANSACTION`: settings and their values.
    SetTransaction {
        session: bool,
        modes: Vec<(String, String)>,
    },
    /// `None` is ALL.
    Reset(Option<String>),
    Show(Option<String>),
    Discard(String),
    Prepare {
        name: String,
        types: Vec<Type>,
        statement: Box<Parsed>,
    },
    Execute {
        name: String,
        arguments: Vec<ast::Expr>,
    },
    /// `None` is ALL.
    Deallocate(Option<String>),
    DeclareCursor(DeclareCursor),
    Fetch {
        cursor: String,
        direction: FetchDirection,
        is_move: bool,
    },
    /// `None` is ALL.
    Close(Option<String>),
    Copy(Copy),
    /// `ALTER ROLE name PASSWORD 'text'`; `None` is NULL.
    AlterRole {
        name: String,
        password: Option<String>,
    },
    Unlisten,
    Vacuum,
    Analyze,
    Checkpoint,
    Sql(Box<ast::Statement>),
}

/// `CREATE VIEW` and `CREATE CONTINUOUS VIEW`.
#[derive(Debug, Clone)]
pub struct CreateView {
    /// Written with CONTINUOUS. Without it the FROM clause decides.
    pub continuous: bool,
    /// Written with TRANSFORM. The option `action` can say the same.
    pub transform: bool,
    pub or_replace: bool,
    pub if_not_exists: bool,
    pub name: Name,
    pub columns: Vec<String>,
    pub options: Vec<ViewOption>,
    /// Of a transform.
    pub output: Option<OutputFunction>,
    pub query: Box<ast::Query>,
    /// The text of the SELECT as written.
    pub query_text: String,
    /// Where it begins in the statement, in characters from 0.
    pub query_offset: usize,
}

/// What takes the rows of a transform, as in `pipeline_stream_insert('a', 'b')`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputFunction {
    pub name: Name,
    /// The names in the arguments.
    pub arguments: Vec<Name>,
}

impl CreateView {
    pub fn is_transform(&self) -> bool {
        let says = |o: &ViewOption| o.name == "action" && o.value.as_deref() == Some("transform");
        self.transform || self.options.iter().any(says)
    }

    /// As the statement is answered.
    pub fn tag(&self) -> &'static str {
        match (self.continuous, self.transform) {
            (_, true) => "CREATE CONTINUOUS TRANSFORM",
            (true, false) => "CREATE CONTINUOUS VIEW",
            (false, false) => "CREATE VIEW",
        }
    }
}

/// `name = value` in a WITH clause; a bare name is true.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ViewOption {
    pub name: String,
    pub value: Option<String>,
    pub position: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExplainOptions {
    /// Carry the query out and tell what it took.
    pub analyze: bool,
    pub verbose: bool,
    /// Estimates.
    pub costs: bool,
    /// With `analyze`: the times of each node.
    pub timing: bool,
    /// The times of the whole; `None`: as `analyze`.
    pub summary: Option<bool>,
}

impl Default for ExplainOptions {
    fn default() -> Self {
        Self { analyze: false, verbose: false, costs: true, timing: true, summary: None }
    }
}

#[derive(Debug, Clone)]
pub struct CreateStream {
    pub if_not_exists: bool,
    pub name: Name,
    pub columns: Vec<Column>,
    pub like: Option<Name>,
    /// From `CREATE FOREIGN TABLE … SERVER name`.
    pub server: Option<String>,
}

#[derive(Debug, Clone)]
pub struct CreateTable {
    pub if_not_exists: bool,
    pub name: Name,
    pub columns: Vec<TableColumn>,
}

#[derive(Debug, Clone)]
pub struct TableColumn {
    pub column: Column,
    pub not_null: bool,
    pub default: Option<ColumnDefault>,
}

/// `DEFAULT expression`.
#[derive(Debug, Clone)]
pub struct ColumnDefault {
    /// As written.
    pub text: String,
    pub position: usize,
}

/// `CREATE TABLE … AS SELECT …`.
#[derive(Debug, Clone)]
pub struct CreateTableAs {
    pub if_not_exists: bool,
    pub name: Name,
    /// Names for the first columns.
    pub columns: Vec<String>,
    pub query: Box<ast::Query>,
    /// Without WITH NO DATA.
    pub with_data: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    pub name: String,
    pub ty: Type,
    pub position: usize,
}

#[derive(Debug, Clone)]
pub enum AlterAction {
    AddColumn { if_not_exists: bool, column: Column },
    RenameTo(Name),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ObjectKind {
    Stream,
    ForeignTable,
    MultiTenantTable,
    ContinuousView,
    ContinuousTransform,
    View,
    Table,
}

impl ObjectKind {
    /// As `DROP …` is answered.
    pub fn keywords(self) -> &'static str {
        match self {
            ObjectKind::Stream => "STREAM",
            ObjectKind::ForeignTable => "FOREIGN TABLE",
            ObjectKind::MultiTenantTable => "MULTI TENANT TABLE",
            ObjectKind::ContinuousView => "CONTINUOUS VIEW",
            ObjectKind::ContinuousTransform => "CONTINUOUS TRANSFORM",
            ObjectKind::View => "VIEW",
            ObjectKind::Table => "TABLE",
        }
    }
}

/// What a comment is on.
#[derive(Debug, Clone)]
pub enum Commented {
    Relation(ObjectKind, Name),
    Column { relation: Name, column: String },
}

#[derive(Debug, Clone)]
pub struct DeclareCursor {
    pub name: String,
    pub binary: bool,
    pub scroll: bool,
    pub hold: bool,
    pub query: Box<ast::Query>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FetchDirection {
    /// Rows forward; negative is backward.
    Forward(i64),
    ForwardAll,
    BackwardAll,
    First,
    Last,
    Absolute(i64),
    Relative(i64),
}

#[derive(Debug, Clone)]
pub struct Copy {
    pub source: CopySource,
    pub to: bool,
    pub endpoint: CopyEndpoint,
    pub options: CopyOptions,
}

#[derive(Debug, Clone)]
pub enum CopySource {
    Relation { name: Name, columns: Vec<(String, usize)> },
    Query(Box<ast::Query>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopyEndpoint {
    /// STDIN or STDOUT.
    Client,
    File(String),
    Program(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CopyFormat {
    #[default]
    Text,
    Csv,
    Binary,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CopyHeader {
    #[default]
    Off,
    On,
    Match,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum CopyColumns {
    #[default]
    None,
    All,
    Some(Vec<String>),
}

/// Checked against each other as PostgreSQL does; what was not given is `None`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CopyOptions {
    pub format: CopyFormat,
    pub delimiter: Option<u8>,
    pub null: Option<String>,
    pub header: CopyHeader,
    pub quote: Option<u8>,
    pub escape: Option<u8>,
    pub force_quote: CopyColumns,
    pub force_not_null: CopyColumns,
    pub force_null: CopyColumns,
    pub freeze: bool,
}
