//! The catalog's file: a redb database with one row an object, as JSON.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use tidemill_sql::{Result, SqlError, SqlState};

use super::foreign::{ForeignTableObject, ServerObject, UserMappingObject};
use super::object::{PlainViewObject, StreamObject, TableObject, ViewObject};
use super::{Change, FIRST_USER_OID};

const OBJECTS: TableDefinition<'static, u32, &'static str> = TableDefinition::new("objects");
/// By relation and column; the comment on the relation itself has no column.
const COMMENTS: TableDefinition<'static, (u32, &'static str), &'static str> =
    TableDefinition::new("comments");
const META: TableDefinition<'static, &'static str, u64> = TableDefinition::new("meta");
/// The version of the layout of this file; a server refuses to open a newer one.
const FORMAT: u64 = 1;
/// The unit of `st_blocks`, whatever the file system's own is.
const STAT_BLOCK_BYTES: u64 = 512;

#[derive(Debug)]
pub struct Store {
    db: Database,
    path: PathBuf,
}

#[derive(Debug, Default)]
pub struct Loaded {
    pub next_oid: u32,
    pub streams: Vec<(u32, StreamObject)>,
    pub views: Vec<(u32, ViewObject)>,
    pub plain_views: Vec<(u32, PlainViewObject)>,
    pub comments: Vec<(u32, String, String)>,
    pub tables: Vec<(u32, TableObject)>,
    pub servers: Vec<(u32, ServerObject)>,
    pub user_mappings: Vec<(u32, UserMappingObject)>,
    pub foreign_tables: Vec<(u32, ForeignTableObject)>,
}

#[derive(serde::Serialize, serde::Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Row {
    Stream(StreamObject),
    View(ViewObject),
    PlainView(PlainViewObject),
    Table(TableObject),
    Server(ServerObject),
    UserMapping(UserMappingObject),
    ForeignTable(ForeignTableObject),
}

fn failed(error: impl std::fmt::Display) -> SqlError {
    SqlError::new(SqlState::IO_ERROR, format!("could not use the catalog: {error}"))
}

impl Store {
    pub fn open(path: &Path) -> Result<Self> {
        let db = Database::create(path).map_err(failed)?;
        let store = Self { db, path: path.to_owned() };
        store.check_format()?;
        Ok(store)
    }

    fn check_format(&self) -> Result<()> {
        let transaction = self.db.begin_write().map_err(failed)?;
        {
            let mut meta = transaction.open_table(META).map_err(failed)?;
            let found = meta.get("format").map_err(failed)?.map(|v| v.value());
            match found {
                None => drop(meta.insert("format", FORMAT).map_err(failed)?),
                Some(format) if format > FORMAT => {
                    return Err(SqlError::new(
                        SqlState::DATA_CORRUPTED,
                        format!(
                            "the data directory was written by a newer version of Tidemill (catalog format {format}, this one knows {FORMAT})"
                        ),
                    ));
                }
                Some(_) => {}
            }
            transaction.open_table(OBJECTS).map_err(failed)?;
            transaction.open_table(COMMENTS).map_err(failed)?;
        }
        transaction.commit().map_err(failed)
    }

    pub fn load(&self) -> Result<Loaded> {
        let transaction = self.db.begin_read().map_err(failed)?;
        let meta = transaction.open_table(META).map_err(failed)?;
        let next_oid = meta.get("next_oid").map_err(failed)?.map_or(u64::from(FIRST_USER_OID), |v| v.value());
        let mut loaded = Loaded { next_oid: next_oid as u32, ..Loaded::default() };
        let objects = transaction.open_table(OBJECTS).map_err(failed)?;
        for row in objects.iter().map_err(failed)? {
            let (oid, json) = row.map_err(failed)?;
            match serde_json::from_str(json.value()).map_err(failed)? {
                Row::Stream(stream) => loaded.streams.push((oid.value(), stream)),
                Row::View(view) => loaded.views.push((oid.value(), view)),
                Row::PlainView(view) => loaded.plain_views.push((oid.value(), view)),
                Row::Table(table) => loaded.tables.push((oid.value(), table)),
                Row::Server(server) => loaded.servers.push((oid.value(), server)),
                Row::UserMapping(mapping) => loaded.user_mappings.push((oid.value(), mapping)),
                Row::ForeignTable(table) => loaded.foreign_tables.push((oid.value(), table)),
            }
        }
        let comments = transaction.open_table(COMMENTS).map_err(failed)?;
        for row in comments.iter().map_err(failed)? {
            let (key, text) = row.map_err(failed)?;
            let (oid, column) = key.value();
            loaded.comments.push((oid, column.to_string(), text.value().to_string()));
        }
        Ok(loaded)
    }

    pub fn apply(&self, changes: &[Change<'_>], next_oid: u32) -> Result<()> {
        let transaction = self.db.begin_write().map_err(failed)?;
        {
            let mut objects = transaction.open_table(OBJECTS).map_err(failed)?;
            let mut comments = transaction.open_table(COMMENTS).map_err(failed)?;
            for change in changes {
                let (oid, row) = match *change {
                    Change::PutStream(oid, object) => (oid, Row::Stream(object.clone())),
                    Change::PutView(oid, object) => (oid, Row::View(object.clone())),
                    Change::PutPlainView(oid, object) => (oid, Row::PlainView(object.clone())),
                    Change::PutTable(oid, object) => (oid, Row::Table(object.clone())),
                    Change::PutServer(oid, object) => (oid, Row::Server(object.clone())),
                    Change::PutUserMapping(oid, object) => (oid, Row::UserMapping(object.clone())),
                    Change::PutForeignTable(oid, object) => (oid, Row::ForeignTable(object.clone())),
                    Change::Remove(oid) => {
                        objects.remove(oid).map_err(failed)?;
                        comments.retain_in((oid, "")..(oid + 1, ""), |_, _| false).map_err(failed)?;
                        continue;
                    }
                    Change::Comment { oid, column, text } => {
                        match text {
                            Some(text) => drop(comments.insert((oid, column), text).map_err(failed)?),
                            None => drop(comments.remove((oid, column)).map_err(failed)?),
                        }
                        continue;
                    }
                };
                let json = serde_json::to_string(&row).map_err(failed)?;
                objects.insert(oid, json.as_str()).map_err(failed)?;
            }
            let mut meta = transaction.open_table(META).map_err(failed)?;
            meta.insert("next_oid", u64::from(next_oid)).map_err(failed)?;
        }
        transaction.commit().map_err(failed)
    }

    pub fn disk_bytes(&self) -> u64 {
        // The file has holes: what counts is what it takes.
        std::fs::metadata(&self.path).map_or(0, |m| m.blocks() * STAT_BLOCK_BYTES)
    }
}
