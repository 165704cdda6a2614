//! Statements about foreign servers, user mappings and foreign tables.

use std::fmt;

use super::{Column, Name};

/// `CREATE/ALTER/DROP SERVER`, `… USER MAPPING`, `… FOREIGN TABLE` and `IMPORT FOREIGN SCHEMA`.
#[derive(Debug, Clone)]
pub enum ForeignStatement {
    CreateServer(CreateServer),
    AlterServer {
        name: String,
        /// `VERSION 'text'`
        version: Option<String>,
        options: Vec<OptionChange>,
    },
    RenameServer {
        name: String,
        to: String,
    },
    DropServers {
        if_exists: bool,
        names: Vec<String>,
        cascade: bool,
    },
    CreateUserMapping {
        if_not_exists: bool,
        user: MappedUser,
        server: String,
        options: Vec<ForeignOption>,
    },
    AlterUserMapping {
        user: MappedUser,
        server: String,
        options: Vec<OptionChange>,
    },
    DropUserMapping {
        if_exists: bool,
        user: MappedUser,
        server: String,
    },
    CreateTable(CreateForeignTable),
    CreateMultiTenant(CreateMultiTenant),
    AlterTable {
        if_exists: bool,
        name: Name,
        actions: Vec<ForeignTableAction>,
    },
    ImportSchema(ImportSchema),
}

impl ForeignStatement {
    /// As the statement is answered.
    pub fn tag(&self) -> &'static str {
        match self {
            Self::CreateServer(_) => "CREATE SERVER",
            Self::AlterServer { .. } | Self::RenameServer { .. } => "ALTER SERVER",
            Self::DropServers { .. } => "DROP SERVER",
            Self::CreateUserMapping { .. } => "CREATE USER MAPPING",
            Self::AlterUserMapping { .. } => "ALTER USER MAPPING",
            Self::DropUserMapping { .. } => "DROP USER MAPPING",
            Self::CreateTable(_) => "CREATE FOREIGN TABLE",
            Self::CreateMultiTenant(_) => "CREATE MULTI TENANT TABLE",
            Self::AlterTable { .. } => "ALTER FOREIGN TABLE",
            Self::ImportSchema(_) => "IMPORT FOREIGN SCHEMA",
        }
    }
}

#[derive(Debug, Clone)]
pub struct CreateServer {
    pub if_not_exists: bool,
    pub name: String,
    /// `TYPE 'text'`
    pub kind: Option<String>,
    pub version: Option<String>,
    pub wrapper: String,
    pub options: Vec<ForeignOption>,
}

/// Whom a user mapping is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MappedUser {
    /// `CURRENT_USER`, `USER`, `SESSION_USER`, `CURRENT_ROLE`
    Current,
    Public,
    Named(String),
}

/// `name 'value'` in OPTIONS.
#[derive(Clone, PartialEq, Eq)]
pub struct ForeignOption {
    pub name: String,
    pub value: String,
}

/// Values may be passwords.
impl fmt::Debug for ForeignOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} '…'", self.name)
    }
}

/// One entry in the OPTIONS of an ALTER.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OptionChange {
    Add(ForeignOption),
    Set(ForeignOption),
    Drop(String),
}

#[derive(Debug, Clone)]
pub struct CreateForeignTable {
    pub if_not_exists: bool,
    pub name: Name,
    pub columns: Vec<ForeignColumn>,
    pub server: String,
    pub options: Vec<ForeignOption>,
}

/// `CREATE MULTI TENANT TABLE name (…) CHILDREN (server.table [OPTIONS (…)], …)`.
#[derive(Debug, Clone)]
pub struct CreateMultiTenant {
    pub if_not_exists: bool,
    pub name: Name,
    pub columns: Vec<ForeignColumn>,
    pub children: Vec<Child>,
}

/// A table of a server, as `server.table` or `server.schema.table`.
#[derive(Debug, Clone)]
pub struct Child {
    pub server: String,
    pub schema: Option<String>,
    pub table: String,
    pub options: Vec<ForeignOption>,
    pub position: usize,
}

#[derive(Debug, Clone)]
pub struct ForeignColumn {
    pub column: Column,
    pub not_null: bool,
    pub options: Vec<ForeignOption>,
}

#[derive(Debug, Clone)]
pub enum ForeignTableAction {
    AddColumn { if_not_exists: bool, column: ForeignColumn },
    DropColumn { if_exists: bool, name: String },
    ColumnType { name: String, column: Column },
    ColumnNotNull { name: String, not_null: bool },
    ColumnOptions { name: String, options: Vec<OptionChange> },
    Options(Vec<OptionChange>),
    RenameColumn { from: String, to: String },
    RenameTo(Name),
}

/// `IMPORT FOREIGN SCHEMA remote [LIMIT TO (…) | EXCEPT (…)] FROM SERVER server INTO local`.
#[derive(Debug, Clone)]
pub struct ImportSchema {
    pub remote: String,
    pub selection: ImportSelection,
    pub server: String,
    pub into: String,
    pub options: Vec<ForeignOption>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImportSelection {
    All,
    LimitTo(Vec<String>),
    Except(Vec<String>),
}

impl ImportSelection {
    pub fn has(&self, name: &str) -> bool {
        match self {
            ImportSelection::All => true,
            ImportSelection::LimitTo(names) => names.iter().any(|n| n == name),
            ImportSelection::Except(names) => !names.iter().any(|n| n == name),
        }
    }
}
