//! A store in memory whose reads are counted and can be falsified, and a file system over it.

#![expect(
    clippy::unwrap_used,
    reason = "a helper of tests that fails is a test that fails"
)]

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use env::{
    Clock, LockState, MemoryStorage, ObjectMeta, ProcessLock, SeededEntropy, Storage, StorageError,
    SystemClock,
};
use mount::{FileSystem, Kind, Listed, MountOptions};
use onefold::{
    BackupOptions, Compression, Credential, Env, IngestOptions, InitOptions, Monitor, OpenOptions,
    ReaderSource, Store, StreamOptions, TreeOptions,
};
use types::{ByteRange, ObjectName, UnixNanos};

/// A storage that counts what is read, and falsifies the data of containers if it is told to.
#[derive(Debug)]
pub(crate) struct Watched {
    storage: MemoryStorage,
    pub(crate) reads: AtomicU64,
    pub(crate) bytes: AtomicU64,
    /// Flips a bit of what is read of every container of data.
    pub(crate) is_rotten: AtomicBool,
    /// While a test has it, nobody begins a session.
    pub(crate) sessions: Mutex<()>,
    /// How many sessions were begun.
    pub(crate) sessions_begun: AtomicU64,
}

impl Watched {
    fn count(&self, name: &ObjectName, mut bytes: Vec<u8>) -> Vec<u8> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.bytes.fetch_add(bytes.len() as u64, Ordering::SeqCst);
        let name = name.to_string();
        let is_data = ["data/", "small/", "mirror/"]
            .iter()
            .any(|folder| name.starts_with(folder));
        if is_data && self.is_rotten.load(Ordering::SeqCst) {
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
        }
        bytes
    }
}

impl Storage for Watched {
    fn put(&self, name: &ObjectName, parts: &[&[u8]]) -> Result<(), StorageError> {
        let text = name.to_string();
        if text.starts_with("sessions/") && text.ends_with("/claim") {
            self.sessions_begun.fetch_add(1, Ordering::SeqCst);
            drop(self.sessions.lock().unwrap());
        }
        self.storage.put(name, parts)
    }
    fn barrier(&self) -> Result<(), StorageError> {
        self.storage.barrier()
    }
    fn get(&self, name: &ObjectName) -> Result<Vec<u8>, StorageError> {
        Ok(self.count(name, self.storage.get(name)?))
    }
    fn get_range(&self, name: &ObjectName, range: ByteRange) -> Result<Vec<u8>, StorageError> {
        Ok(self.count(name, self.storage.get_range(name, range)?))
    }
    fn get_tail(&self, name: &ObjectName, len: u64) -> Result<(Vec<u8>, u64), StorageError> {
        // Of a container that is its catalog, which stays right.
        self.reads.fetch_add(1, Ordering::SeqCst);
        let (bytes, of) = self.storage.get_tail(name, len)?;
        self.bytes.fetch_add(bytes.len() as u64, Ordering::SeqCst);
        Ok((bytes, of))
    }
    fn head(&self, name: &ObjectName) -> Result<ObjectMeta, StorageError> {
        self.storage.head(name)
    }
    fn list(&self, folder: &str) -> Result<Vec<ObjectMeta>, StorageError> {
        self.storage.list(folder)
    }
    fn list_folders(&self, folder: &str) -> Result<Vec<String>, StorageError> {
        self.storage.list_folders(folder)
    }
    fn delete(&self, name: &ObjectName) -> Result<(), StorageError> {
        self.storage.delete(name)
    }
    fn lock(&self, name: &ObjectName) -> Result<Option<Box<dyn ProcessLock>>, StorageError> {
        self.storage.lock(name)
    }
    fn lock_state(&self, name: &ObjectName) -> Result<LockState, StorageError> {
        self.storage.lock_state(name)
    }
    fn drop_lock(&self, name: &ObjectName) -> Result<(), StorageError> {
        self.storage.drop_lock(name)
    }
}

/// A clock that only the test moves. Who sleeps waits for a moment of real time.
#[derive(Debug, Clone, Default)]
pub(crate) struct HandClock(Arc<AtomicU64>);

impl HandClock {
    pub(crate) fn advance(&self, time: Duration) {
        self.0.fetch_add(time.as_secs(), Ordering::SeqCst);
    }
}

impl Clock for HandClock {
    fn wall(&self) -> UnixNanos {
        UnixNanos::new(1_700_000_000_000_000_000 + i64::try_from(self.monotonic().as_nanos()).unwrap())
    }
    fn monotonic(&self) -> Duration {
        Duration::from_secs(self.0.load(Ordering::SeqCst))
    }
    fn monotonic_with_suspend(&self) -> Duration {
        self.monotonic()
    }
    fn sleep(&self, _: Duration) {
        SystemClock.sleep(Duration::from_millis(1));
    }
}

/// A store, and what a test does with it.
pub(crate) struct Bed {
    pub(crate) storage: Arc<Watched>,
    pub(crate) clock: HandClock,
    env: Env,
    /// What cannot be read was told of: paths.
    pub(crate) faults: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Bed {
    /// Everything in the store is small, so that there is some of everything.
    pub(crate) fn new() -> Self {
        let clock = HandClock::default();
        let storage = Arc::new(Watched {
            storage: MemoryStorage::with_clock(Arc::new(clock.clone())),
            reads: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            is_rotten: AtomicBool::new(false),
            sessions: Mutex::default(),
            sessions_begun: AtomicU64::new(0),
        });
        let env = Env {
            storage: storage.clone(),
            clock: Arc::new(clock.clone()),
            entropy: Arc::new(SeededEntropy::new(7)),
        };
        let small = InitOptions::default()
            .chunk_avg_bytes(1 << 10)
            .region_bytes(8 << 10)
            .container_bytes(64 << 10)
            .node_avg_children(16);
        Store::init(&env, &Credential::None, &small, None).unwrap();
        Self {
            storage,
            clock,
            env,
            faults: Arc::default(),
        }
    }

    /// Another process that has the store open.
    pub(crate) fn store(&self) -> Store {
        Store::open(&self.env, &Credential::None, &OpenOptions::default()).unwrap()
    }

    fn options(host: &str, tags: &[&str]) -> BackupOptions {
        let ingest = IngestOptions::default().compression(Compression::Off);
        let tags = tags.iter().map(|&tag| tag.to_owned()).collect();
        BackupOptions::default().host(host).tags(tags).ingest(ingest)
    }

    /// Backs up a folder.
    pub(crate) fn back_up(&self, folder: &Path, host: &str, tags: &[&str]) {
        let tree = TreeOptions::new([folder]);
        let mut faults = |fault: &onefold::TreeError| panic!("{fault}");
        let options = Self::options(host, tags);
        { self.store() }
            .backup_tree(&options, &tree, &Monitor::default(), &mut faults)
            .unwrap();
    }

    /// Backs up bytes under a name.
    pub(crate) fn back_up_stream(&self, bytes: &[u8], name: &str, how: &StreamOptions) {
        let options = Self::options("host", &[]);
        { self.store() }
            .backup_stream(
                &options,
                name.as_ref(),
                how,
                &mut ReaderSource(bytes),
                &Monitor::default(),
            )
            .unwrap();
    }

    /// A file system over the store, which another process has opened.
    pub(crate) fn files(&self) -> FileSystem {
        self.files_with(|_| {})
    }

    pub(crate) fn files_with(&self, set: impl FnOnce(&mut MountOptions)) -> FileSystem {
        let faults = Arc::clone(&self.faults);
        let mut options = MountOptions {
            on_fault: Arc::new(move |fault| faults.lock().unwrap().push(fault.path.clone())),
            ..MountOptions::new(|time| format!("t{}", time.get() / 1_000_000_000))
        };
        set(&mut options);
        FileSystem::new(Box::leak(Box::new(self.store())), options).unwrap()
    }

    /// How many reads the storage got, and how many bytes it returned, while something ran.
    pub(crate) fn cost<T>(&self, run: impl FnOnce() -> T) -> (T, u64, u64) {
        let now = || {
            let (reads, bytes) = (&self.storage.reads, &self.storage.bytes);
            (reads.load(Ordering::SeqCst), bytes.load(Ordering::SeqCst))
        };
        let before = now();
        let done = run();
        let after = now();
        (done, after.0 - before.0, after.1 - before.1)
    }
}

/// The number of the inode at a path. Links are not followed.
pub(crate) fn number(files: &FileSystem, path: &str) -> u64 {
    let names = path.split('/').filter(|name| !name.is_empty());
    names.fold(1, |folder, name| {
        let entry = files.look_up(folder, name.as_bytes());
        let entry = entry.unwrap_or_else(|errno| panic!("{name} of {path}: {errno}"));
        entry.attributes.number
    })
}

/// All entries of a folder, asked for in pieces.
pub(crate) fn list(files: &FileSystem, folder: u64, is_told: bool) -> Vec<Listed> {
    let mut found: Vec<Listed> = Vec::new();
    loop {
        let (offset, before) = (found.last().map_or(0, |last| last.next), found.len());
        let mut room = 7;
        let mut each = |listed: &Listed| {
            if room == 0 {
                return true;
            }
            room -= 1;
            found.push(listed.clone());
            false
        };
        files.list(folder, offset, is_told, &mut each).unwrap();
        if found.len() == before {
            return found;
        }
    }
}

/// The names in a folder.
pub(crate) fn names(files: &FileSystem, path: &str) -> Vec<String> {
    let listed = list(files, number(files, path), false);
    let name = |listed: Listed| String::from_utf8(listed.name).unwrap();
    listed.into_iter().map(name).collect()
}

/// All bytes of a file, in pieces.
pub(crate) fn read(files: &FileSystem, number: u64) -> Result<Vec<u8>, rustix::io::Errno> {
    let mut bytes = Vec::new();
    loop {
        let piece = files.read_file(number, bytes.len() as u64, 10_000)?;
        if piece.is_empty() {
            return Ok(bytes);
        }
        bytes.extend(piece);
    }
}

/// Bytes without order, by a number.
pub(crate) fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    env::Entropy::fill(&SeededEntropy::new(seed), &mut bytes);
    bytes
}

/// Files below a folder with their numbers, in the order of the listing.
pub(crate) fn walk(files: &FileSystem, folder: u64) -> Vec<u64> {
    let mut found = Vec::new();
    for listed in list(files, folder, true) {
        match listed.kind {
            Kind::Folder => found.extend(walk(files, listed.number)),
            Kind::File => found.push(listed.number),
            _ => {}
        }
    }
    found
}
