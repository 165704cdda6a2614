//! Files: CSV, COPY's text and binary formats, JSON lines, Parquet. A table is a file, all files of a folder, or those whose
//! names fit a pattern; of this machine, of an object store, or a file of a web server.

mod access;
mod client;
mod conversion;
mod copy;
mod failure;
mod import;
mod input;
mod json;
mod parquet;
mod place;
mod ranged;
mod store;
mod url;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use arrow::record_batch::RecordBatch;
use async_trait::async_trait;
use datafusion::common::ScalarValue;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;
use tidemill_sql::statement::ImportSelection;
use tidemill_sql::types::Type;
use tidemill_sql::{Result, SqlError, SqlState};
use tokio::sync::mpsc::Sender;
use tokio::sync::watch;

use self::access::Access;
use self::place::Place as FilePlace;
use self::store::Stores;
use self::url::Url;
use crate::bound::Bounds;
use crate::connector::{Capabilities, Connector, ImportedTable, RemoteQuery};
use crate::dialect::Dialect;
use crate::option::{Check, OptionSpec, Options, Place, Support};
use crate::select::RemoteSelect;
use crate::snapshot::Shared;
use crate::table::TableDefinition;
use crate::thread;

const SERVER: &[Place] = &[Place::Server];
const MAPPING: &[Place] = &[Place::UserMapping];
const TABLE: &[Place] = &[Place::Table];
const COLUMN: &[Place] = &[Place::Column];

const KEPT: Support = Support::NoEffect("connections are always kept for a while");

/// A wrapper's own options, and those of `parquet_s3_fdw` for object stores.
macro_rules! with_store_options {
    ($($own:expr,)*) => {
        &[
            $($own,)*
            OptionSpec::new("endpoint", SERVER, Check::Text, Support::Yes),
            OptionSpec::new("region", SERVER, Check::Text, Support::Yes),
            OptionSpec::new("use_minio", SERVER, Check::Bool, Support::Yes),
            OptionSpec::new("connect_timeout", SERVER, Check::Count, Support::Yes),
            OptionSpec::new("sslrootcert", SERVER, Check::Text, Support::Yes),
            OptionSpec::new("keep_connections", SERVER, Check::Bool, KEPT),
            OptionSpec::new("user", MAPPING, Check::Text, Support::Yes),
            OptionSpec::new("password", MAPPING, Check::Text, Support::Yes),
            OptionSpec::new("session_token", MAPPING, Check::Text, Support::Yes),
        ]
    };
}

/// The options of `file_fdw`, in its order, and what JSON needs.
pub const OPTIONS: &[OptionSpec] = with_store_options! {
    OptionSpec::new("filename", TABLE, Check::Text, Support::Yes),
    OptionSpec::new("program", TABLE, Check::Text, Support::No),
    OptionSpec::new("format", TABLE, Check::Text, Support::Yes),
    OptionSpec::new("header", TABLE, Check::Text, Support::Yes),
    OptionSpec::new("delimiter", TABLE, Check::Text, Support::Yes),
    OptionSpec::new("quote", TABLE, Check::Text, Support::Yes),
    OptionSpec::new("escape", TABLE, Check::Text, Support::Yes),
    OptionSpec::new("null", TABLE, Check::Text, Support::Yes),
    OptionSpec::new("encoding", TABLE, Check::Text, Support::Yes),
    OptionSpec::new("force_not_null", COLUMN, Check::Bool, Support::Yes),
    OptionSpec::new("force_null", COLUMN, Check::Bool, Support::Yes),
    OptionSpec::new("column_name", COLUMN, Check::Text, Support::Yes),
};

/// The options of `parquet_fdw`.
pub const PARQUET_OPTIONS: &[OptionSpec] = with_store_options! {
    OptionSpec::new("filename", TABLE, Check::Text, Support::Yes),
    OptionSpec::new("dirname", TABLE, Check::Text, Support::Yes),
    OptionSpec::new("column_name", COLUMN, Check::Text, Support::Yes),
    OptionSpec::new("sorted", TABLE, Check::Text, Support::NoEffect("rows are sorted here")),
    OptionSpec::new("use_mmap", TABLE, Check::Bool, Support::NoEffect("files are read piece by piece")),
    OptionSpec::new("use_threads", TABLE, Check::Bool, Support::NoEffect("files are read one after another")),
};

pub(crate) static CAPABILITIES: Capabilities = Capabilities::none(&FileDialect, "Foreign File");
/// Groups of rows in which a condition cannot hold are not read.
pub(crate) static PARQUET: Capabilities =
    Capabilities { prunes: true, ..Capabilities::none(&FileDialect, "Foreign File") };

/// A file is asked nothing: what EXPLAIN shows is where it is.
#[derive(Debug)]
struct FileDialect;

impl Dialect for FileDialect {
    fn literal(&self, _: &ScalarValue, _: Type) -> Option<String> {
        None
    }

    fn relation(&self, schema: &str, table: &str) -> String {
        match schema {
            "" => table.to_string(),
            schema => Path::new(schema).join(table).display().to_string(),
        }
    }

    fn select(&self, select: &RemoteSelect) -> String {
        place::of(&select.table).display().to_string()
    }
}

/// How the rows of a table are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    /// What COPY reads.
    Copy,
    /// An object a line.
    Json,
    Parquet,
}

pub fn connector(name: &str, server: &Options, mapping: &Options) -> Result<Arc<dyn Connector>> {
    Ok(Arc::new(Files { stores: Arc::new(Stores::new(name, server, mapping)?), is_parquet: false }))
}

pub fn parquet_connector(name: &str, server: &Options, mapping: &Options) -> Result<Arc<dyn Connector>> {
    Ok(Arc::new(Files { stores: Arc::new(Stores::new(name, server, mapping)?), is_parquet: true }))
}

/// What `file_fdw` says of options as a whole.
pub fn check(place: Place, options: &Options) -> Result<()> {
    if place != Place::Table {
        return check_server(place, options);
    }
    let Some(name) = options.get("filename") else {
        let message = "either filename or program is required for file_fdw foreign tables";
        return Err(SqlError::new(SqlState::FDW_DYNAMIC_PARAMETER_VALUE_NEEDED, message));
    };
    Url::parse(name)?;
    match format(options) {
        Format::Copy => copy::options(options, &[]).map(drop),
        Format::Json | Format::Parquet => json::check(options),
    }
}

pub fn check_parquet(place: Place, options: &Options) -> Result<()> {
    if place != Place::Table {
        return check_server(place, options);
    }
    let needed = |message| Err(SqlError::new(SqlState::FDW_DYNAMIC_PARAMETER_VALUE_NEEDED, message));
    match (options.get("filename"), options.get("dirname")) {
        (Some(name), None) => Url::parse(name).map(drop),
        (None, Some(name)) => Url::parse(name)?.map_or(Ok(()), |url| url.folder().map(drop)),
        (None, None) => needed("parquet_fdw: filename or dirname is required"),
        (Some(_), Some(_)) => needed("parquet_fdw: filename and dirname are not given together"),
    }
}

fn check_server(place: Place, options: &Options) -> Result<()> {
    match place {
        Place::Server => store::endpoint(options).map(drop),
        _ => Ok(()),
    }
}

fn format(options: &Options) -> Format {
    match options.get("format") {
        Some("json") => Format::Json,
        Some("parquet") => Format::Parquet,
        _ => Format::Copy,
    }
}

#[derive(Debug)]
struct Files {
    stores: Arc<Stores>,
    is_parquet: bool,
}

#[async_trait]
impl Connector for Files {
    fn capabilities(&self) -> &'static Capabilities {
        if self.is_parquet { &PARQUET } else { &CAPABILITIES }
    }

    fn rows(
        self: Arc<Self>,
        query: Arc<RemoteQuery>,
        schema: SchemaRef,
        bounds: Bounds,
        _: Option<Arc<Shared>>,
        counted: Box<dyn Fn(usize) + Send + Sync>,
    ) -> SendableRecordBatchStream {
        let mut builder = RecordBatchReceiverStreamBuilder::new(Arc::clone(&schema), BATCHES_AHEAD);
        let batches = builder.tx();
        let (wanting, wanted) = watch::channel(());
        let access = Access { stores: Arc::clone(&self.stores), wanted, counted: counted.into() };
        let scanned = thread::run(move || {
            let scan = Scan {
                server: &self.stores.server,
                query: &query,
                schema,
                batch_rows: bounds.batch_rows,
                access,
                batches,
            };
            let is_parquet = self.is_parquet;
            scan.run(if is_parquet { Format::Parquet } else { format(&query.definition.options) })
        });
        builder.spawn(async move {
            let _wanting = wanting;
            scanned.await
        });
        builder.build()
    }

    /// A folder is a schema, and each of its files a table. Only Parquet says what is in it.
    async fn tables(
        &self,
        schema: &str,
        selection: &ImportSelection,
        _: &Options,
    ) -> Result<Option<Vec<ImportedTable>>> {
        if !self.is_parquet {
            let message = "foreign-data wrapper \"file_fdw\" does not support IMPORT FOREIGN SCHEMA";
            return Err(SqlError::new(SqlState::FDW_NO_SCHEMAS, message));
        }
        let (_wanting, wanted) = watch::channel(());
        let access = Access { stores: Arc::clone(&self.stores), wanted, counted: Arc::new(|_| ()) };
        let (folder, selection) = (schema.to_string(), selection.clone());
        let tables = tokio::task::spawn_blocking(move || import::tables(&folder, &selection, &access));
        tables.await.map_err(|error| SqlError::internal(error.to_string()))?
    }

    /// Files of this machine are always there, and each web server is one of its own.
    async fn probe(&self) -> Result<()> {
        Arc::clone(&self.stores).probe().await
    }

    fn address(&self) -> Option<String> {
        self.stores.is_probed.then(|| self.stores.shown())
    }
}

/// Batches that wait for whoever reads them. When they are as many, nothing more is read.
const BATCHES_AHEAD: usize = 2;

/// One scan, in a thread of its own.
struct Scan<'a> {
    server: &'a str,
    query: &'a RemoteQuery,
    schema: SchemaRef,
    batch_rows: usize,
    access: Access,
    batches: Sender<datafusion::error::Result<RecordBatch>>,
}

impl Scan<'_> {
    fn run(&self, format: Format) -> Result<()> {
        let files = place::files(&self.query.definition, format, &self.access);
        for place in files.map_err(|error| self.told(error, None))? {
            let goes_on = match format {
                Format::Copy => copy::read(self, &place),
                Format::Json => json::read(self, &place),
                Format::Parquet => parquet::read(self, &place),
            };
            if !goes_on.map_err(|error| self.told(error, Some(&place)))? {
                break;
            }
        }
        Ok(())
    }

    /// An error with where it comes from.
    fn told(&self, error: SqlError, file: Option<&FilePlace>) -> SqlError {
        let file = file.map_or(String::new(), |file| format!("file \"{file}\" of "));
        let place = format!("{file}foreign table \"{}\" on server \"{}\"", self.query.table, self.server);
        let context = match &error.context {
            Some(inner) => format!("{inner}\n{place}"),
            None => place,
        };
        error.with_context(context)
    }

    /// Waits until there is room; false: nobody wants it.
    fn pass_on(&self, batch: RecordBatch) -> bool {
        self.batches.blocking_send(Ok(batch)).is_ok()
    }

    fn definition(&self) -> &TableDefinition {
        &self.query.definition
    }

    /// The places of the wanted columns among the table's.
    fn wanted(&self) -> Result<Vec<usize>> {
        let columns = &self.definition().columns;
        let place = |name: &str| columns.iter().position(|column| column.name == name);
        let wanted = self.query.columns.iter().map(|column| place(&column.name));
        wanted.collect::<Option<_>>().ok_or_else(|| SqlError::internal("a column of no file is wanted"))
    }
}

/// As PostgreSQL tells it of files.
fn file_error(what: &str, place: &dyn fmt::Display, error: &std::io::Error) -> SqlError {
    let (state, reason) = match error.kind() {
        std::io::ErrorKind::NotFound => (SqlState::UNDEFINED_FILE, "No such file or directory".to_string()),
        std::io::ErrorKind::PermissionDenied => {
            (SqlState::INSUFFICIENT_PRIVILEGE, "Permission denied".into())
        }
        std::io::ErrorKind::InvalidInput => (SqlState::WRONG_OBJECT_TYPE, error.to_string()),
        _ => (SqlState::IO_ERROR, error.to_string()),
    };
    SqlError::new(state, format!("could not {what} file \"{place}\": {reason}"))
}
