//! The disk as the log, the runs and the manifest see it: few operations, and when each is durable.
//!
//! Everything durable goes through the trait [`Disk`], so that a test can put [`sim::SimDisk`] in the place
//! of [`RealDisk`] and cut the power at any moment. Paths are relative to the data directory. Nothing is
//! durable before it is synced: content by [`AppendFile::sync`], a name that was created, renamed or removed
//! by [`Disk::sync_dir`].

pub mod sim;

use std::fmt::{self, Debug};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// The file whose lock says that a server owns the data directory; it holds the server's process id.
pub const LOCK_FILE: &str = "LOCK";

/// Permissions as PostgreSQL sets them: nobody but the server's user may look in.
const DIRECTORY_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

pub type Result<T, E = DiskError> = std::result::Result<T, E>;

pub trait Disk: Send + Sync + Debug {
    /// Makes a file that must not exist yet, open at its end. Its name lasts only after [`Disk::sync_dir`].
    fn create(&self, path: &Path) -> Result<Box<dyn AppendFile>>;
    fn open_append(&self, path: &Path) -> Result<Box<dyn AppendFile>>;
    fn open_read(&self, path: &Path) -> Result<Arc<dyn ReadFile>>;
    /// The names in a directory, sorted; no order or completeness is promised against changes made meanwhile.
    fn list(&self, dir: &Path) -> Result<Vec<String>>;
    /// Replaces `to` if it exists; a reader sees the old file or the new one.
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;
    fn remove(&self, path: &Path) -> Result<()>;
    /// Makes one directory; that it exists already is fine.
    fn create_dir(&self, path: &Path) -> Result<()>;
    /// Makes every name created, renamed or removed in `dir` so far durable. The data directory is the empty
    /// path.
    fn sync_dir(&self, dir: &Path) -> Result<()>;
    /// Bytes that can still be written.
    fn free_bytes(&self) -> Result<u64>;
}

pub trait AppendFile: Send + Debug {
    /// Writes all of `bytes` at the end. After an error any prefix of them may be there until it is
    /// truncated.
    fn append(&mut self, bytes: &[u8]) -> Result<()>;
    /// Fills the file with zeros up to `bytes`, behind what was appended. Appends overwrite them, and to sync those costs
    /// less because the file's length stays as it is. After an error any part of the zeros may be there.
    fn extend(&mut self, bytes: u64) -> Result<()>;
    /// Writes `bytes` again where they are already, so that the next sync has to write them: after a failed
    /// sync and a restart the kernel may show what it never wrote and hold it for clean.
    fn rewrite(&mut self, bytes: &[u8], offset: u64) -> Result<()>;
    /// Makes the content and the length durable. After an error nothing is known about what was written since
    /// the last success, and asking again proves nothing: the kernel forgets that the pages were never
    /// written.
    fn sync(&mut self) -> Result<()>;
    /// Cuts the file to `bytes` and makes that durable, so that what was cut can't come back behind later
    /// appends.
    fn truncate(&mut self, bytes: u64) -> Result<()>;
}

pub trait ReadFile: Send + Sync + Debug {
    /// Fills `buffer` from `offset`; an end of file before that is an error.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<()>;
    fn size_bytes(&self) -> Result<u64>;
}

/// Replaces a small file as a whole: after a crash it has the old content or the new, and after `Ok` the new.
pub fn atomic_write(disk: &dyn Disk, path: &Path, bytes: &[u8]) -> Result<()> {
    let mut unfinished = path.as_os_str().to_owned();
    unfinished.push(".tmp");
    let unfinished = PathBuf::from(unfinished);
    match disk.remove(&unfinished) {
        Err(error) if !error.is_not_found() => return Err(error),
        _ => {}
    }
    let mut file = disk.create(&unfinished)?;
    let written = file.append(bytes).and_then(|()| file.sync());
    drop(file);
    if let Err(error) = written {
        // Give the space back at once, above all when the disk is full; the first error is the one that
        // matters.
        if let Err(second) = disk.remove(&unfinished) {
            tracing::warn!(error = %second, "an unfinished file stays behind");
        }
        return Err(error);
    }
    disk.rename(&unfinished, path)?;
    disk.sync_dir(path.parent().unwrap_or(Path::new("")))
}

/// Reads a whole file that is known to be small.
pub fn read_file(disk: &dyn Disk, path: &Path) -> Result<Vec<u8>> {
    let file = disk.open_read(path)?;
    let size = usize::try_from(file.size_bytes()?)
        .map_err(|_| DiskError::new(Operation::Read, path, io::ErrorKind::FileTooLarge.into()))?;
    let mut bytes = vec![0; size];
    file.read_at(&mut bytes, 0)?;
    Ok(bytes)
}

#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    #[error("could not {operation} \"{}\": {source}", path.display())]
    Io { operation: Operation, path: PathBuf, source: io::Error },
    #[error("data directory \"{}\" is in use by another server{}", directory.display(), owner(*pid))]
    InUse { directory: PathBuf, pid: Option<u32> },
}

fn owner(pid: Option<u32>) -> String {
    pid.map(|pid| format!(" (process {pid})")).unwrap_or_default()
}

impl DiskError {
    pub fn new(operation: Operation, path: &Path, source: io::Error) -> Self {
        DiskError::Io { operation, path: path.to_owned(), source }
    }

    /// No space or no quota left: room can be made, unlike with any other error.
    pub fn is_full(&self) -> bool {
        matches!(self.kind(), Some(io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded))
    }

    pub fn is_not_found(&self) -> bool {
        self.kind() == Some(io::ErrorKind::NotFound)
    }

    fn kind(&self) -> Option<io::ErrorKind> {
        match self {
            DiskError::Io { source, .. } => Some(source.kind()),
            DiskError::InUse { .. } => None,
        }
    }
}

/// What was asked of the disk, for error messages and for the faults of [`sim::SimDisk`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operation {
    Create,
    Open,
    Read,
    Append,
    Extend,
    Rewrite,
    Sync,
    Truncate,
    List,
    Rename,
    Remove,
    CreateDir,
    SyncDir,
    FreeBytes,
    Lock,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Operation::Create => "create file",
            Operation::Open => "open file",
            Operation::Read => "read file",
            Operation::Append => "write to file",
            Operation::Extend => "extend file",
            Operation::Rewrite => "rewrite file",
            Operation::Sync => "sync file",
            Operation::Truncate => "truncate file",
            Operation::List => "list directory",
            Operation::Rename => "rename file",
            Operation::Remove => "remove file",
            Operation::CreateDir => "create directory",
            Operation::SyncDir => "sync directory",
            Operation::FreeBytes => "ask for the free space of",
            Operation::Lock => "lock file",
        })
    }
}

/// The data directory on a file system, owned for as long as this value lives.
#[derive(Debug)]
pub struct RealDisk {
    root: PathBuf,
    /// Holds the lock; the kernel releases it when the file is closed, however the process ends.
    _lock: File,
}

impl RealDisk {
    /// Opens the data directory, making it if it is missing, and locks out every other server.
    pub fn open(directory: &Path) -> Result<Self> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(DIRECTORY_MODE)
            .create(directory)
            .map_err(|source| DiskError::new(Operation::CreateDir, directory, source))?;
        let lock = lock(directory)?;
        Ok(RealDisk { root: directory.to_owned(), _lock: lock })
    }

    /// Runs `action` on the full path. A path that would leave the data directory is refused.
    fn at<T>(
        &self,
        operation: Operation,
        path: &Path,
        action: impl FnOnce(&Path) -> io::Result<T>,
    ) -> Result<T> {
        let inside = path.components().all(|part| matches!(part, Component::Normal(_)));
        let outcome = match inside {
            true => action(&self.root.join(path)),
            false => Err(io::Error::new(io::ErrorKind::InvalidInput, "path leaves the data directory")),
        };
        outcome.map_err(|source| DiskError::new(operation, path, source))
    }
}

/// An flock, not a pid check: it can't be fooled by a reused pid and never outlives its owner.
fn lock(directory: &Path) -> Result<File> {
    let path = directory.join(LOCK_FILE);
    let failed = |source| DiskError::new(Operation::Lock, &path, source);
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(FILE_MODE)
        .open(&path)
        .map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let mut text = String::new();
            let pid = file.read_to_string(&mut text).ok().and_then(|_| text.trim().parse().ok());
            return Err(DiskError::InUse { directory: directory.to_owned(), pid });
        }
        Err(TryLockError::Error(source)) => return Err(failed(source)),
    }
    file.set_len(0).map_err(failed)?;
    // The pid only informs people: a disk too full for it must not keep the server from starting.
    if let Err(error) = writeln!(file, "{}", std::process::id()) {
        tracing::warn!(%error, "could not note the process id in the lock file");
    }
    Ok(file)
}

impl Disk for RealDisk {
    fn create(&self, path: &Path) -> Result<Box<dyn AppendFile>> {
        let file = self.at(Operation::Create, path, |full| {
            OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(full)
        })?;
        Ok(Box::new(RealWriter { file, path: path.to_owned(), end: 0, length: 0 }))
    }

    fn open_append(&self, path: &Path) -> Result<Box<dyn AppendFile>> {
        let (file, end) = self.at(Operation::Open, path, |full| {
            let file = OpenOptions::new().write(true).open(full)?;
            let end = file.metadata()?.len();
            Ok((file, end))
        })?;
        Ok(Box::new(RealWriter { file, path: path.to_owned(), end, length: end }))
    }

    fn open_read(&self, path: &Path) -> Result<Arc<dyn ReadFile>> {
        let file = self.at(Operation::Open, path, |full| File::open(full))?;
        Ok(Arc::new(RealReader { file, path: path.to_owned() }))
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        self.at(Operation::List, dir, |full| {
            let mut names = Vec::new();
            for entry in fs::read_dir(full)? {
                // All our own names are ASCII; a lossy foreign name is of no use but to be reported.
                names.push(entry?.file_name().to_string_lossy().into_owned());
            }
            names.sort_unstable();
            Ok(names)
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let to = self.at(Operation::Rename, to, |full| Ok(full.to_owned()))?;
        self.at(Operation::Rename, from, |full| fs::rename(full, to))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        self.at(Operation::Remove, path, |full| fs::remove_file(full))
    }

    fn create_dir(&self, path: &Path) -> Result<()> {
        self.at(Operation::CreateDir, path, |full| {
            match fs::DirBuilder::new().mode(DIRECTORY_MODE).create(full) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && full.is_dir() => Ok(()),
                outcome => outcome,
            }
        })
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.at(Operation::SyncDir, dir, |full| File::open(full)?.sync_all())
    }

    fn free_bytes(&self) -> Result<u64> {
        self.at(Operation::FreeBytes, Path::new(""), free_bytes)
    }
}

/// The standard library has no call for it; this is the only unsafe code of the crate's durable half.
#[allow(unsafe_code)]
fn free_bytes(path: &Path) -> io::Result<u64> {
    use std::os::unix::ffi::OsStrExt;
    let path = std::ffi::CString::new(path.as_os_str().as_bytes())?;
    let mut figures = std::mem::MaybeUninit::<libc::statvfs>::uninit();
    // SAFETY: the path is NUL-terminated and lives through the call; the kernel fills the struct when it returns 0.
    let figures = unsafe {
        if libc::statvfs(path.as_ptr(), figures.as_mut_ptr()) != 0 {
            return Err(io::Error::last_os_error());
        }
        figures.assume_init()
    };
    // `f_bavail` leaves out what is kept for root. The widths of both fields differ between platforms.
    #[allow(clippy::unnecessary_cast)]
    Ok((figures.f_bavail as u64).saturating_mul(figures.f_frsize as u64))
}

static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// Keeps its end itself, because Linux ignores the offset of a positional write to a file opened with
/// O_APPEND.
#[derive(Debug)]
struct RealWriter {
    file: File,
    path: PathBuf,
    end: u64,
    /// Of the file, with the zeros behind `end`.
    length: u64,
}

impl RealWriter {
    fn failed(&self, operation: Operation) -> impl FnOnce(io::Error) -> DiskError {
        move |source| DiskError::new(operation, &self.path, source)
    }
}

impl AppendFile for RealWriter {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all_at(bytes, self.end).map_err(self.failed(Operation::Append))?;
        self.end += bytes.len() as u64;
        self.length = self.length.max(self.end);
        Ok(())
    }

    fn extend(&mut self, bytes: u64) -> Result<()> {
        while self.length < bytes {
            let part = (bytes - self.length).min(ZEROS.len() as u64);
            self.file
                .write_all_at(&ZEROS[..part as usize], self.length)
                .map_err(self.failed(Operation::Extend))?;
            self.length += part;
        }
        Ok(())
    }

    fn rewrite(&mut self, bytes: &[u8], offset: u64) -> Result<()> {
        self.file.write_all_at(bytes, offset).map_err(self.failed(Operation::Rewrite))
    }

    fn sync(&mut self) -> Result<()> {
        self.file.sync_data().map_err(self.failed(Operation::Sync))
    }

    fn truncate(&mut self, bytes: u64) -> Result<()> {
        let cut = self.file.set_len(bytes).and_then(|()| self.file.sync_all());
        cut.map_err(self.failed(Operation::Truncate))?;
        self.end = bytes;
        self.length = bytes;
        Ok(())
    }
}

#[derive(Debug)]
struct RealReader {
    file: File,
    path: PathBuf,
}

impl ReadFile for RealReader {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        let read = self.file.read_exact_at(buffer, offset);
        read.map_err(|source| DiskError::new(Operation::Read, &self.path, source))
    }

    fn size_bytes(&self) -> Result<u64> {
        let metadata = self.file.metadata();
        Ok(metadata.map_err(|source| DiskError::new(Operation::Read, &self.path, source))?.len())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::sim::SimDisk;
    use super::*;

    fn both(test: impl Fn(&dyn Disk)) {
        let directory = tempfile::tempdir().unwrap();
        test(&RealDisk::open(directory.path()).unwrap());
        test(&SimDisk::new());
    }

    #[test]
    fn every_operation_does_what_it_says() {
        both(|disk| {
            let (dir, path) = (Path::new("d"), Path::new("d/f"));
            disk.create_dir(dir).unwrap();
            disk.create_dir(dir).unwrap();
            disk.sync_dir(Path::new("")).unwrap();
            let mut file = disk.create(path).unwrap();
            assert!(disk.create(path).is_err(), "create is exclusive");
            file.append(b"hello ").unwrap();
            file.append(b"world").unwrap();
            file.truncate(7).unwrap();
            file.append(b"!").unwrap();
            file.rewrite(b"lo", 3).unwrap();
            file.sync().unwrap();
            drop(file);
            disk.open_append(path).unwrap().append(b"?").unwrap();
            assert_eq!(read_file(disk, path).unwrap(), b"hello w!?");
            let reader = disk.open_read(path).unwrap();
            let mut two = [0; 2];
            reader.read_at(&mut two, 4).unwrap();
            assert_eq!(&two, b"o ");
            assert!(reader.read_at(&mut two, 8).is_err(), "half a read is an error");
            disk.rename(path, Path::new("d/g")).unwrap();
            assert_eq!(disk.list(dir).unwrap(), ["g"]);
            assert!(disk.open_read(path).unwrap_err().is_not_found());
            disk.remove(Path::new("d/g")).unwrap();
            disk.sync_dir(dir).unwrap();
            assert!(disk.list(dir).unwrap().is_empty());
            assert!(disk.free_bytes().unwrap() > 0);
        });
    }

    #[test]
    fn atomic_write_replaces_and_survives_a_leftover() {
        both(|disk| {
            let path = Path::new("manifest");
            disk.create(Path::new("manifest.tmp")).unwrap().append(b"left by a crash").unwrap();
            for content in [&b"one"[..], b"a longer second", b""] {
                atomic_write(disk, path, content).unwrap();
                assert_eq!(read_file(disk, path).unwrap(), content);
            }
            assert!(!disk.list(Path::new("")).unwrap().contains(&"manifest.tmp".to_owned()));
        });
    }

    #[test]
    fn a_data_directory_has_one_owner() {
        let directory = tempfile::tempdir().unwrap();
        let first = RealDisk::open(directory.path()).unwrap();
        let error = RealDisk::open(directory.path()).unwrap_err();
        assert!(
            matches!(&error, DiskError::InUse { pid: Some(pid), .. } if *pid == std::process::id()),
            "{error}"
        );
        assert!(error.to_string().contains("is in use by another server (process "), "{error}");
        assert!(!error.is_full());
        drop(first);
        // A process that another test starts at this moment has the file, and so the lock, until it is another program.
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while let Err(error) = RealDisk::open(directory.path()) {
            assert!(std::time::Instant::now() < deadline, "{error}");
            std::thread::yield_now();
        }
    }

    /// The lock is known to the kernel and not only to this process.
    #[test]
    fn another_process_sees_the_lock() {
        let directory = tempfile::tempdir().unwrap();
        let disk = RealDisk::open(directory.path()).unwrap();
        let try_lock = || {
            let lock = directory.path().join(LOCK_FILE);
            std::process::Command::new("flock").arg("--nonblock").arg(lock).arg("true").status()
        };
        match try_lock() {
            Ok(status) => assert!(!status.success()),
            Err(error) => return assert_eq!(error.kind(), io::ErrorKind::NotFound, "no flock(1) here"),
        }
        drop(disk);
        assert!(try_lock().unwrap().success());
    }

    #[test]
    fn paths_stay_inside() {
        let directory = tempfile::tempdir().unwrap();
        let disk = RealDisk::open(directory.path()).unwrap();
        for path in ["../x", "/tmp/x", "a/../../x"] {
            assert!(disk.create(Path::new(path)).is_err(), "{path}");
            assert!(disk.rename(Path::new("LOCK"), Path::new(path)).is_err(), "{path}");
        }
    }
}
