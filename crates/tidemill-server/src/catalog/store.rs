//! The catalog's file: a redb database with one row an object, as JSON.

use std::fs::{OpenOptions, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use tidemill_sql::{Result, SqlError, SqlState};

use super::foreign::{ForeignTableObject, ServerObject, UserMappingObject};
use super::object::{PlainViewObject, StreamObject, TableObject, TransformObject, ViewObject};
use super::{Change, FIRST_USER_OID};

const OBJECTS: TableDefinition<'static, u32, &'static str> = TableDefinition::new("objects");
/// By relation and column; the comment on the relation itself has no column.
const COMMENTS: TableDefinition<'static, (u32, &'static str), &'static str> =
    TableDefinition::new("comments");
const META: TableDefinition<'static, &'static str, u64> = TableDefinition::new("meta");
/// The version of the layout of this file; a server refuses to open a newer one.
const FORMAT: u64 = 1;
/// It has the passwords of user mappings, as they are.
const FILE_MODE: u32 = 0o600;
/// The unit of `st_blocks`, whatever the file system's own is.
const STAT_BLOCK_BYTES: u64 = 512;

#[derive(Debug)]
pub struct Store {
    file: Mutex<CatalogFile>,
    path: PathBuf,
}

#[derive(Debug)]
struct CatalogFile {
    /// `None` after a full disk, until the next change: redb takes nothing after an error of the disk before it is
    /// opened anew.
    db: Option<Database>,
    /// Counts the changes, here and in the file: what was said to have failed must not be there after all.
    generation: u64,
}

#[derive(Debug, Default)]
pub struct Loaded {
    pub next_oid: u32,
    pub streams: Vec<(u32, StreamObject)>,
    pub views: Vec<(u32, ViewObject)>,
    pub transforms: Vec<(u32, TransformObject)>,
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
    Transform(TransformObject),
    PlainView(PlainViewObject),
    Table(TableObject),
    Server(ServerObject),
    UserMapping(UserMappingObject),
    ForeignTable(ForeignTableObject),
}

fn failed(error: impl Into<redb::Error>) -> SqlError {
    match error.into() {
        redb::Error::Io(error) if error.kind() == ErrorKind::StorageFull => {
            SqlError::new(SqlState::DISK_FULL, format!("could not write to the catalog: {error}"))
                .with_hint("Make room on the disk of the data directory.")
        }
        redb::Error::PreviousIo => unusable("an error of its disk came before"),
        error => unusable(error),
    }
}

fn unusable(why: impl std::fmt::Display) -> SqlError {
    SqlError::new(SqlState::IO_ERROR, format!("could not use the catalog: {why}"))
        .with_hint("Restart the server when its disk is in order.")
}

/// The changes that a catalog has seen.
fn generation(meta: &impl ReadableTable<&'static str, u64>) -> Result<u64> {
    Ok(meta.get("generation").map_err(failed)?.map_or(0, |v| v.value()))
}

impl Store {
    pub fn open(path: &Path) -> Result<Self> {
        make_private(path).map_err(redb::Error::Io).map_err(failed)?;
        let db = Database::create(path).map_err(failed)?;
        let generation = Self::check_format(&db)?;
        Ok(Self { file: Mutex::new(CatalogFile { db: Some(db), generation }), path: path.to_owned() })
    }

    fn check_format(db: &Database) -> Result<u64> {
        let transaction = db.begin_write().map_err(failed)?;
        let generation = {
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
            generation(&meta)?
        };
        transaction.commit().map_err(failed)?;
        Ok(generation)
    }

    pub fn load(&self) -> Result<Loaded> {
        let mut file = self.file.lock();
        let transaction = self.database(&mut file)?.begin_read().map_err(failed)?;
        let meta = transaction.open_table(META).map_err(failed)?;
        let next_oid = meta.get("next_oid").map_err(failed)?.map_or(u64::from(FIRST_USER_OID), |v| v.value());
        let mut loaded = Loaded { next_oid: next_oid as u32, ..Loaded::default() };
        let objects = transaction.open_table(OBJECTS).map_err(failed)?;
        for row in objects.iter().map_err(failed)? {
            let (oid, json) = row.map_err(failed)?;
            match serde_json::from_str(json.value()).map_err(unusable)? {
                Row::Stream(stream) => loaded.streams.push((oid.value(), stream)),
                Row::View(view) => loaded.views.push((oid.value(), view)),
                Row::Transform(transform) => loaded.transforms.push((oid.value(), transform)),
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

    /// Makes the changes durable, all of them or none.
    pub fn apply(&self, changes: &[Change<'_>], next_oid: u32) -> Result<()> {
        let mut file = self.file.lock();
        let generation = file.generation + 1;
        match write(self.database(&mut file)?, changes, next_oid, generation) {
            Ok(()) => {
                file.generation = generation;
                Ok(())
            }
            Err(error) => {
                if error.state == SqlState::DISK_FULL {
                    file.db = None;
                }
                Err(error)
            }
        }
    }

    fn database<'a>(&self, file: &'a mut CatalogFile) -> Result<&'a Database> {
        let db = match file.db.take() {
            Some(db) => db,
            None => {
                let db = Database::create(&self.path).map_err(failed)?;
                if Self::check_format(&db)? != file.generation {
                    return Err(unusable("a change is in it that was reported to have failed"));
                }
                db
            }
        };
        Ok(file.db.insert(db))
    }

    pub fn disk_bytes(&self) -> u64 {
        // The file has holes: what counts is what it takes.
        std::fs::metadata(&self.path).map_or(0, |m| m.blocks() * STAT_BLOCK_BYTES)
    }
}

/// Nobody else may read the file, which is made if there is none.
fn make_private(path: &Path) -> std::io::Result<()> {
    let file = OpenOptions::new().read(true).append(true).create(true).mode(FILE_MODE).open(path)?;
    file.set_permissions(Permissions::from_mode(FILE_MODE))
}

fn write(db: &Database, changes: &[Change<'_>], next_oid: u32, generation: u64) -> Result<()> {
    let transaction = db.begin_write().map_err(failed)?;
    {
        let mut objects = transaction.open_table(OBJECTS).map_err(failed)?;
        let mut comments = transaction.open_table(COMMENTS).map_err(failed)?;
        for change in changes {
            let (oid, row) = match *change {
                Change::PutStream(oid, object) => (oid, Row::Stream(object.clone())),
                Change::PutView(oid, object) => (oid, Row::View(object.clone())),
                Change::PutTransform(oid, object) => (oid, Row::Transform(object.clone())),
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
            let json = serde_json::to_string(&row).map_err(unusable)?;
            objects.insert(oid, json.as_str()).map_err(failed)?;
        }
        let mut meta = transaction.open_table(META).map_err(failed)?;
        meta.insert("next_oid", u64::from(next_oid)).map_err(failed)?;
        meta.insert("generation", generation).map_err(failed)?;
    }
    transaction.commit().map_err(failed)
}
