//! A disk in memory that forgets what was not synced: crash tests run against it.
//!
//! It keeps two versions of every file and of the tree of names: what the running program sees and what a
//! power cut can't take away. [`SimDisk::crash`] builds the disk that the next start finds: each unsynced
//! write is kept, lost, cut at a random byte, or full of holes of whole sectors, and each unsynced change of
//! a name is kept or lost, every one independently of the others. That is harsher than any one file system,
//! and it is what POSIX allows. All randomness comes from seeds.
//!
//! A test that wants to crash everywhere runs its work once, reads [`SimDisk::sync_points`], and then for
//! each `k` below that runs it again on a new disk after [`SimDisk::halt_at_sync`]`(k)`. A test that wants trouble
//! at every change of the disk does the same with [`SimDisk::changes`] and [`SimDisk::trouble_at`].

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::{AppendFile, Disk, DiskError, Operation, ReadFile, Result};

/// What a device writes whole or not at all.
const SECTOR_BYTES: usize = 512;

/// Clones are handles on the same disk.
#[derive(Debug, Clone)]
pub struct SimDisk {
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    /// Content by number; a number is never reused, so a handle outlives the removal of its name as in Unix.
    files: Vec<Content>,
    visible: Names,
    durable: Names,
    unsynced: Vec<NameChange>,
    capacity_bytes: u64,
    sync_points: u64,
    halt_at_sync: Option<u64>,
    changes: u64,
    trouble: Option<(u64, Trouble)>,
    halted: bool,
    faults: Vec<Fault>,
    random: Random,
}

/// What can happen at one change of the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trouble {
    /// It fails, an append after a random part of its bytes, and everything after it fails too.
    Halt,
    /// It fails with EIO, an append after a random part of its bytes; what comes after it goes well.
    Fail,
    /// The disk is full from here on, until [`SimDisk::set_capacity`].
    Full,
}

type Names = BTreeMap<PathBuf, Node>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Node {
    Directory,
    File(usize),
}

#[derive(Debug, Default, Clone)]
struct Content {
    visible: Vec<u8>,
    durable: Vec<u8>,
    unsynced: Vec<ContentChange>,
}

#[derive(Debug, Clone)]
enum ContentChange {
    Write { offset: usize, bytes: Vec<u8> },
    Truncate(usize),
}

#[derive(Debug, Clone)]
enum NameChange {
    Add(PathBuf, Node),
    Remove(PathBuf),
    Rename { from: PathBuf, to: PathBuf, node: Node },
}

#[derive(Debug)]
struct Fault {
    operation: Operation,
    /// Operations of the kind that still go well.
    after: u64,
    torn: bool,
}

impl Default for SimDisk {
    fn default() -> Self {
        Self::new()
    }
}

impl SimDisk {
    pub fn new() -> Self {
        Self::with_state(Names::new(), Vec::new(), u64::MAX, Random::new(0))
    }

    fn with_state(names: Names, files: Vec<Content>, capacity_bytes: u64, random: Random) -> Self {
        let state = State {
            files,
            visible: names.clone(),
            durable: names,
            unsynced: Vec::new(),
            capacity_bytes,
            sync_points: 0,
            halt_at_sync: None,
            changes: 0,
            trouble: None,
            halted: false,
            faults: Vec::new(),
            random,
        };
        SimDisk { state: Arc::new(Mutex::new(state)) }
    }

    /// The disk after a power cut at this moment. The seed decides what of the unsynced changes is kept. This
    /// disk stays as it was, so that one moment can be crashed in many ways.
    pub fn crash(&self, seed: u64) -> SimDisk {
        let state = self.state.lock();
        let mut random = Random::new(seed);
        let mut names = state.durable.clone();
        for change in &state.unsynced {
            if random.coin() {
                change.apply(&mut names);
            }
        }
        remove_orphans(&mut names);
        let files = state.files.iter().map(|content| content.after_crash(&mut random)).collect();
        Self::with_state(names, files, state.capacity_bytes, random)
    }

    /// The disk after the process was killed but the machine went on: all that was written is there, and none
    /// of it is durable yet.
    pub fn kill(&self) -> SimDisk {
        let state = self.state.lock();
        let new = Self::with_state(
            state.visible.clone(),
            state.files.clone(),
            state.capacity_bytes,
            Random::new(0),
        );
        {
            let mut new = new.state.lock();
            new.durable = state.durable.clone();
            new.unsynced = state.unsynced.clone();
        }
        new
    }

    /// Moments so far at which something was made durable: syncs of files and directories, and truncations.
    pub fn sync_points(&self) -> u64 {
        self.state.lock().sync_points
    }

    /// The sync with this number (the first is 0) and every operation after it fails.
    pub fn halt_at_sync(&self, sync_point: u64) {
        self.state.lock().halt_at_sync = Some(sync_point);
    }

    /// Operations so far that change the disk: everything but opening, reading and listing.
    pub fn changes(&self) -> u64 {
        self.state.lock().changes
    }

    /// The change with this number (the first is 0) meets trouble.
    pub fn trouble_at(&self, change: u64, trouble: Trouble) {
        self.state.lock().trouble = Some((change, trouble));
    }

    pub fn is_halted(&self) -> bool {
        self.state.lock().halted
    }

    /// Fails one operation of a kind with EIO: the next after `after` good ones. A failed sync behaves as
    /// Linux does: what was unsynced is never written, though it can still be read, and the next sync reports
    /// success.
    pub fn fail(&self, operation: Operation, after: u64) {
        self.state.lock().faults.push(Fault { operation, after, torn: false });
    }

    /// Like [`SimDisk::fail`] for appends, but a random part of the bytes has been written when the error
    /// comes.
    pub fn tear_append(&self, after: u64) {
        self.state.lock().faults.push(Fault { operation: Operation::Append, after, torn: true });
    }

    /// The room for the content of all files. Writes beyond it are cut there and fail with ENOSPC until it is
    /// raised or something is removed.
    pub fn set_capacity(&self, bytes: u64) {
        self.state.lock().capacity_bytes = bytes;
    }

    pub fn used_bytes(&self) -> u64 {
        self.state.lock().used_bytes()
    }

    /// What a reader sees in the file.
    pub fn content(&self, path: &Path) -> Result<Vec<u8>> {
        let state = self.state.lock();
        Ok(state.files[state.file(Operation::Read, path)?].visible.clone())
    }

    /// Replaces the file's content durably, for tests of damaged files. It is made if it doesn't exist.
    pub fn set_content(&self, path: &Path, bytes: &[u8]) {
        let mut state = self.state.lock();
        let node = Node::File(state.files.len());
        state.files.push(Content::durable(bytes.to_vec()));
        state.visible.insert(path.to_owned(), node);
        state.durable.insert(path.to_owned(), node);
    }

    fn begin(&self, operation: Operation, path: &Path) -> Result<parking_lot::MutexGuard<'_, State>> {
        let mut state = self.state.lock();
        match state.begin(operation) {
            Ok(()) => Ok(state),
            Err(error) => Err(DiskError::new(operation, path, error.source)),
        }
    }

    fn open(&self, path: &Path) -> Result<SimFile> {
        let state = self.begin(Operation::Open, path)?;
        let number = state.file(Operation::Open, path)?;
        let end = state.files[number].visible.len();
        drop(state);
        Ok(SimFile { disk: self.clone(), path: path.to_owned(), number, end })
    }
}

/// Why an operation may not go on; `torn` asks an append to write a part first.
struct Refusal {
    source: io::Error,
    torn: bool,
}

impl State {
    fn begin(&mut self, operation: Operation) -> Result<(), Refusal> {
        let syncs = matches!(operation, Operation::Sync | Operation::SyncDir | Operation::Truncate);
        self.halted |= syncs && self.halt_at_sync == Some(self.sync_points);
        if self.halted {
            return Err(Refusal { source: io::Error::other("the simulated disk has halted"), torn: false });
        }
        self.sync_points += u64::from(syncs);
        self.meet_trouble(operation)?;
        let mut due = None;
        for (index, fault) in self.faults.iter_mut().enumerate() {
            match fault.after.checked_sub(1) {
                _ if fault.operation != operation => {}
                Some(left) => fault.after = left,
                None => due = due.or(Some(index)),
            }
        }
        match due {
            None => Ok(()),
            Some(index) => {
                let torn = self.faults.remove(index).torn;
                Err(Refusal { source: io::Error::from_raw_os_error(libc::EIO), torn })
            }
        }
    }

    fn meet_trouble(&mut self, operation: Operation) -> Result<(), Refusal> {
        use Operation::{FreeBytes, List, Lock, Open, Read};
        if matches!(operation, FreeBytes | List | Lock | Open | Read) {
            return Ok(());
        }
        let number = self.changes;
        self.changes += 1;
        match self.trouble {
            Some((at, trouble)) if at == number => {
                self.halted = trouble == Trouble::Halt;
                if trouble == Trouble::Full {
                    self.capacity_bytes = self.used_bytes();
                    return Ok(());
                }
                Err(Refusal { source: io::Error::from_raw_os_error(libc::EIO), torn: true })
            }
            _ => Ok(()),
        }
    }

    fn file(&self, operation: Operation, path: &Path) -> Result<usize> {
        match self.visible.get(path) {
            Some(Node::File(number)) => Ok(*number),
            Some(Node::Directory) => Err(failure(operation, path, ErrorKind::IsADirectory)),
            None => Err(failure(operation, path, ErrorKind::NotFound)),
        }
    }

    /// That `path` is a directory; the data directory always is.
    fn check_directory(&self, operation: Operation, path: &Path) -> Result<()> {
        match self.visible.get(path) {
            _ if path == Path::new("") => Ok(()),
            Some(Node::Directory) => Ok(()),
            Some(Node::File(_)) => Err(failure(operation, path, ErrorKind::NotADirectory)),
            None => Err(failure(operation, path, ErrorKind::NotFound)),
        }
    }

    fn change_name(&mut self, change: NameChange) {
        change.apply(&mut self.visible);
        self.unsynced.push(change);
    }

    fn used_bytes(&self) -> u64 {
        let size = |node: &Node| match node {
            Node::File(number) => self.files[*number].visible.len() as u64,
            Node::Directory => 0,
        };
        self.visible.values().map(size).sum()
    }

    fn free_bytes(&self) -> u64 {
        self.capacity_bytes.saturating_sub(self.used_bytes())
    }
}

fn failure(operation: Operation, path: &Path, kind: ErrorKind) -> DiskError {
    DiskError::new(operation, path, kind.into())
}

fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}

/// Names in a directory that was itself lost.
fn remove_orphans(names: &mut Names) {
    let present =
        |names: &Names, dir: &Path| dir == Path::new("") || matches!(names.get(dir), Some(Node::Directory));
    // A parent sorts before its children, so that one pass sees a lost parent first.
    let paths: Vec<PathBuf> = names.keys().cloned().collect();
    for path in paths {
        if !present(names, parent(&path)) {
            names.remove(&path);
        }
    }
}

impl NameChange {
    fn apply(&self, names: &mut Names) {
        match self {
            NameChange::Add(path, node) => {
                names.insert(path.clone(), *node);
            }
            NameChange::Remove(path) => {
                names.remove(path);
            }
            NameChange::Rename { from, to, node } => {
                names.remove(from);
                names.insert(to.clone(), *node);
            }
        }
    }

    fn is_in(&self, dir: &Path) -> bool {
        match self {
            NameChange::Add(path, _) | NameChange::Remove(path) => parent(path) == dir,
            NameChange::Rename { from, to, .. } => parent(from) == dir || parent(to) == dir,
        }
    }
}

impl Content {
    fn durable(bytes: Vec<u8>) -> Self {
        Content { visible: bytes.clone(), durable: bytes, unsynced: Vec::new() }
    }

    fn write(&mut self, bytes: &[u8], offset: usize) {
        if !bytes.is_empty() {
            self.unsynced.push(ContentChange::Write { offset, bytes: bytes.to_vec() });
            write_at(&mut self.visible, offset, bytes);
        }
    }

    fn truncate(&mut self, bytes: usize) {
        self.unsynced.push(ContentChange::Truncate(bytes));
        self.visible.resize(bytes, 0);
    }

    fn sync(&mut self) {
        for change in self.unsynced.drain(..) {
            match change {
                ContentChange::Write { offset, bytes } => write_at(&mut self.durable, offset, &bytes),
                ContentChange::Truncate(bytes) => self.durable.resize(bytes, 0),
            }
        }
    }

    fn after_crash(&self, random: &mut Random) -> Content {
        let mut bytes = self.durable.clone();
        for change in &self.unsynced {
            match change {
                ContentChange::Truncate(length) if random.coin() => bytes.resize(*length, 0),
                ContentChange::Truncate(_) => {}
                ContentChange::Write { offset, bytes: written } => {
                    write_in_part(&mut bytes, *offset, written, random);
                }
            }
        }
        Content::durable(bytes)
    }
}

/// What a crash leaves of one write: all, nothing, a beginning, or some of its sectors.
fn write_in_part(file: &mut Vec<u8>, offset: usize, bytes: &[u8], random: &mut Random) {
    match random.below(4) {
        0 => {}
        1 => write_at(file, offset, bytes),
        2 => write_at(file, offset, &bytes[..random.below(bytes.len() + 1)]),
        _ => {
            let mut from = 0;
            while from < bytes.len() {
                let to = bytes.len().min(from + SECTOR_BYTES - (offset + from) % SECTOR_BYTES);
                if random.coin() {
                    write_at(file, offset + from, &bytes[from..to]);
                }
                from = to;
            }
        }
    }
}

fn write_at(file: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    let end = offset + bytes.len();
    if file.len() < end {
        file.resize(end, 0);
    }
    file[offset..end].copy_from_slice(bytes);
}

impl Disk for SimDisk {
    fn create(&self, path: &Path) -> Result<Box<dyn AppendFile>> {
        let mut state = self.begin(Operation::Create, path)?;
        state.check_directory(Operation::Create, parent(path))?;
        if state.visible.contains_key(path) {
            return Err(failure(Operation::Create, path, ErrorKind::AlreadyExists));
        }
        let number = state.files.len();
        state.files.push(Content::default());
        state.change_name(NameChange::Add(path.to_owned(), Node::File(number)));
        drop(state);
        Ok(Box::new(SimFile { disk: self.clone(), path: path.to_owned(), number, end: 0 }))
    }

    fn open_append(&self, path: &Path) -> Result<Box<dyn AppendFile>> {
        Ok(Box::new(self.open(path)?))
    }

    fn open_read(&self, path: &Path) -> Result<Arc<dyn ReadFile>> {
        Ok(Arc::new(self.open(path)?))
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        let state = self.begin(Operation::List, dir)?;
        state.check_directory(Operation::List, dir)?;
        let inside = state.visible.keys().filter(|path| parent(path) == dir);
        let names = inside.filter_map(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
        let mut names: Vec<String> = names.collect();
        names.sort_unstable();
        Ok(names)
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let mut state = self.begin(Operation::Rename, from)?;
        let node = Node::File(state.file(Operation::Rename, from)?);
        state.check_directory(Operation::Rename, parent(to))?;
        if state.visible.get(to) == Some(&Node::Directory) {
            return Err(failure(Operation::Rename, to, ErrorKind::IsADirectory));
        }
        if from != to {
            state.change_name(NameChange::Rename { from: from.to_owned(), to: to.to_owned(), node });
        }
        Ok(())
    }

    fn remove(&self, path: &Path) -> Result<()> {
        let mut state = self.begin(Operation::Remove, path)?;
        state.file(Operation::Remove, path)?;
        state.change_name(NameChange::Remove(path.to_owned()));
        Ok(())
    }

    fn create_dir(&self, path: &Path) -> Result<()> {
        let mut state = self.begin(Operation::CreateDir, path)?;
        state.check_directory(Operation::CreateDir, parent(path))?;
        match state.visible.get(path) {
            Some(Node::Directory) => Ok(()),
            Some(Node::File(_)) => Err(failure(Operation::CreateDir, path, ErrorKind::AlreadyExists)),
            None => {
                state.change_name(NameChange::Add(path.to_owned(), Node::Directory));
                Ok(())
            }
        }
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        let mut state = self.begin(Operation::SyncDir, dir)?;
        state.check_directory(Operation::SyncDir, dir)?;
        let State { durable, unsynced, .. } = &mut *state;
        unsynced.retain(|change| {
            let synced = change.is_in(dir);
            if synced {
                change.apply(durable);
            }
            !synced
        });
        Ok(())
    }

    fn free_bytes(&self) -> Result<u64> {
        Ok(self.begin(Operation::FreeBytes, Path::new(""))?.free_bytes())
    }
}

#[derive(Debug)]
struct SimFile {
    disk: SimDisk,
    path: PathBuf,
    number: usize,
    /// Where the next append goes.
    end: usize,
}

impl SimFile {
    /// Writes as much as there is room for.
    fn write(&self, state: &mut State, operation: Operation, bytes: &[u8], offset: usize) -> Result<()> {
        let free = usize::try_from(state.free_bytes()).unwrap_or(usize::MAX);
        let content = &mut state.files[self.number];
        let there = content.visible.len().saturating_sub(offset);
        let room = there.saturating_add(free).min(bytes.len());
        content.write(&bytes[..room], offset);
        if room < bytes.len() {
            return self.fail(operation, io::Error::from_raw_os_error(libc::ENOSPC));
        }
        Ok(())
    }

    fn fail<T>(&self, operation: Operation, source: io::Error) -> Result<T> {
        Err(DiskError::new(operation, &self.path, source))
    }
}

impl AppendFile for SimFile {
    fn append(&mut self, bytes: &[u8]) -> Result<()> {
        let mut state = self.disk.state.lock();
        if let Err(refusal) = state.begin(Operation::Append) {
            if refusal.torn {
                let kept = state.random.below(bytes.len() + 1);
                state.files[self.number].write(&bytes[..kept], self.end);
                self.end += kept;
            }
            return self.fail(Operation::Append, refusal.source);
        }
        self.write(&mut state, Operation::Append, bytes, self.end)?;
        self.end += bytes.len();
        Ok(())
    }

    fn extend(&mut self, bytes: u64) -> Result<()> {
        let mut state = self.disk.begin(Operation::Extend, &self.path)?;
        let length = state.files[self.number].visible.len();
        let zeros = vec![0; usize::try_from(bytes).unwrap_or(0).saturating_sub(length)];
        self.write(&mut state, Operation::Extend, &zeros, length)
    }

    fn rewrite(&mut self, bytes: &[u8], offset: u64) -> Result<()> {
        let mut state = self.disk.begin(Operation::Rewrite, &self.path)?;
        let content = &mut state.files[self.number];
        match usize::try_from(offset) {
            Ok(offset) if offset.saturating_add(bytes.len()) <= content.visible.len() => {
                content.write(bytes, offset);
                Ok(())
            }
            _ => self.fail(Operation::Rewrite, ErrorKind::InvalidInput.into()),
        }
    }

    fn sync(&mut self) -> Result<()> {
        let mut state = self.disk.state.lock();
        if let Err(refusal) = state.begin(Operation::Sync) {
            if !state.halted {
                state.files[self.number].unsynced.clear();
            }
            return self.fail(Operation::Sync, refusal.source);
        }
        state.files[self.number].sync();
        Ok(())
    }

    fn truncate(&mut self, bytes: u64) -> Result<()> {
        let Ok(bytes) = usize::try_from(bytes) else {
            return self.fail(Operation::Truncate, ErrorKind::FileTooLarge.into());
        };
        let mut state = self.disk.state.lock();
        let was_halted = state.halted;
        let outcome = state.begin(Operation::Truncate);
        if !was_halted {
            state.files[self.number].truncate(bytes);
        }
        // When it fails, the cut was made and only its sync did not happen: the harder case for the caller.
        match outcome {
            Ok(()) => {
                state.files[self.number].sync();
                self.end = bytes;
            }
            Err(refusal) => return self.fail(Operation::Truncate, refusal.source),
        }
        Ok(())
    }
}

impl ReadFile for SimFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        let state = self.disk.begin(Operation::Read, &self.path)?;
        let content = &state.files[self.number].visible;
        let range = usize::try_from(offset).ok().and_then(|from| Some(from..from.checked_add(buffer.len())?));
        match range.and_then(|range| content.get(range)) {
            Some(bytes) => buffer.copy_from_slice(bytes),
            None => return self.fail(Operation::Read, ErrorKind::UnexpectedEof.into()),
        }
        Ok(())
    }

    fn size_bytes(&self) -> Result<u64> {
        Ok(self.disk.begin(Operation::Read, &self.path)?.files[self.number].visible.len() as u64)
    }
}

/// SplitMix64: small, good enough to choose faults, and the same everywhere.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from 0 to `bound - 1`; 0 when the bound is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.number() % bound.max(1) as u64) as usize
    }

    pub fn coin(&mut self) -> bool {
        self.number() & 1 == 1
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn written(disk: &SimDisk, path: &str, synced: &[u8], unsynced: &[u8]) -> Box<dyn AppendFile> {
        let mut file = disk.create(Path::new(path)).unwrap();
        file.append(synced).unwrap();
        file.sync().unwrap();
        disk.sync_dir(Path::new("")).unwrap();
        file.append(unsynced).unwrap();
        file
    }

    #[test]
    fn a_crash_keeps_what_was_synced_and_anything_of_the_rest() {
        let disk = SimDisk::new();
        let _file = written(&disk, "f", b"synced", &[7; 2000]);
        let (mut lost, mut whole, mut torn, mut holed) = (0, 0, 0, 0);
        for seed in 0..400 {
            let content = disk.crash(seed).content(Path::new("f")).unwrap();
            assert_eq!(&content[..6], b"synced");
            match content[6..].iter().filter(|byte| **byte == 0).count() {
                0 if content.len() == 6 => lost += 1,
                0 if content.len() == 2006 => whole += 1,
                0 => torn += 1,
                _ => holed += 1,
            }
            assert_eq!(disk.crash(seed).content(Path::new("f")).unwrap(), content, "same seed, same crash");
        }
        assert!(lost > 20 && whole > 20 && torn > 20 && holed > 20, "{lost} {whole} {torn} {holed}");
    }

    #[test]
    fn unsynced_names_may_be_lost() {
        let disk = SimDisk::new();
        disk.create_dir(Path::new("d")).unwrap();
        disk.create(Path::new("d/f")).unwrap();
        disk.sync_dir(Path::new("d")).unwrap();
        let survives = |disk: &SimDisk| {
            (0..50).filter(|seed| disk.crash(*seed).content(Path::new("d/f")).is_ok()).count()
        };
        assert!((1..50).contains(&survives(&disk)), "the directory itself was not synced");
        disk.sync_dir(Path::new("")).unwrap();
        assert_eq!(survives(&disk), 50);
        disk.rename(Path::new("d/f"), Path::new("d/g")).unwrap();
        assert!((1..50).contains(&survives(&disk)));
        for seed in 0..50 {
            assert_eq!(disk.crash(seed).list(Path::new("d")).unwrap().len(), 1, "a rename is atomic");
        }
    }

    #[test]
    fn faults_come_once_and_where_asked() {
        let disk = SimDisk::new();
        let mut file = written(&disk, "f", b"", b"");
        disk.fail(Operation::Append, 1);
        disk.tear_append(2);
        file.append(b"one").unwrap();
        file.append(b"two").unwrap_err();
        file.append(&[3; 100]).unwrap_err();
        file.append(b"four").unwrap();
        let content = disk.content(Path::new("f")).unwrap();
        assert!(content.starts_with(b"one") && content.ends_with(b"four") && content.len() < 107);
    }

    #[test]
    fn a_failed_sync_loses_the_writes_and_the_next_one_lies() {
        let disk = SimDisk::new();
        let mut file = written(&disk, "f", b"synced", b"unsynced");
        disk.fail(Operation::Sync, 0);
        file.sync().unwrap_err();
        assert_eq!(disk.content(Path::new("f")).unwrap(), b"syncedunsynced");
        file.append(b"!").unwrap();
        file.sync().unwrap();
        assert_eq!(disk.crash(1).content(Path::new("f")).unwrap(), b"synced\0\0\0\0\0\0\0\0!");
    }

    #[test]
    fn a_full_disk_takes_what_fits_and_recovers() {
        let disk = SimDisk::new();
        disk.set_capacity(10);
        let mut file = written(&disk, "f", b"12345678", b"");
        assert!(file.append(b"abcd").unwrap_err().is_full());
        assert_eq!(disk.content(Path::new("f")).unwrap(), b"12345678ab");
        assert_eq!(disk.free_bytes().unwrap(), 0);
        file.truncate(8).unwrap();
        disk.set_capacity(12);
        file.append(b"abcd").unwrap();
        assert_eq!(disk.used_bytes(), 12);
    }

    #[test]
    fn a_halted_disk_does_nothing_more() {
        let disk = SimDisk::new();
        disk.halt_at_sync(2);
        let mut file = written(&disk, "f", b"1", b"2");
        assert_eq!(disk.sync_points(), 2);
        file.sync().unwrap_err();
        assert!(disk.is_halted() && file.append(b"3").is_err());
        assert!((0..50).any(|seed| disk.crash(seed).content(Path::new("f")).unwrap() == b"1"));
    }
}
