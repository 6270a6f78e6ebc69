//! Sources that change, shrink or vanish while they are read: they are reported and counted, and
//! the rest of the backup is not affected.
//!
//! The store determines the moment: the first container is put while the first, long file is still
//! being read, because no queue can hold all of it. Then the tree is changed.

use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::damage_support::tree::{self, Entry, Tree};
use crate::damage_support::{StillClock, backup_options, env_on, noise, tree_options};
use env::{LockState, MemoryStorage, ObjectMeta, ProcessLock, Storage, StorageError};
use onefold::{
    AssembleOptions, BackupReport, Credential, Fault, InitOptions, Monitor, ReadData, ReaderSource,
    RestoreRequest, Store,
};
use types::{ByteRange, ObjectName};

/// More than all buffers of the pipeline hold.
const LONG_BYTES: usize = 64 << 20;
/// More entries than are walked and read ahead of their turn.
const MANY_ENTRIES: usize = 7000;

type Hook = Box<dyn FnOnce() + Send>;

/// A storage that calls back once, before the first data container is put.
struct Hooked {
    inner: MemoryStorage,
    hook: Mutex<Option<Hook>>,
}

impl std::fmt::Debug for Hooked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hooked")
    }
}

impl Storage for Hooked {
    fn put(&self, name: &ObjectName, parts: &[&[u8]]) -> Result<(), StorageError> {
        if name.as_str().starts_with("data/")
            && let Some(hook) = self.hook.lock().unwrap().take()
        {
            hook();
        }
        self.inner.put(name, parts)
    }
    fn barrier(&self) -> Result<(), StorageError> {
        self.inner.barrier()
    }
    fn get(&self, name: &ObjectName) -> Result<Vec<u8>, StorageError> {
        self.inner.get(name)
    }
    fn get_range(&self, name: &ObjectName, range: ByteRange) -> Result<Vec<u8>, StorageError> {
        self.inner.get_range(name, range)
    }
    fn get_tail(&self, name: &ObjectName, len: u64) -> Result<(Vec<u8>, u64), StorageError> {
        self.inner.get_tail(name, len)
    }
    fn head(&self, name: &ObjectName) -> Result<ObjectMeta, StorageError> {
        self.inner.head(name)
    }
    fn list(&self, folder: &str) -> Result<Vec<ObjectMeta>, StorageError> {
        self.inner.list(folder)
    }
    fn list_folders(&self, folder: &str) -> Result<Vec<String>, StorageError> {
        self.inner.list_folders(folder)
    }
    fn delete(&self, name: &ObjectName) -> Result<(), StorageError> {
        self.inner.delete(name)
    }
    fn lock(&self, name: &ObjectName) -> Result<Option<Box<dyn ProcessLock>>, StorageError> {
        self.inner.lock(name)
    }
    fn lock_state(&self, name: &ObjectName) -> Result<LockState, StorageError> {
        self.inner.lock_state(name)
    }
    fn drop_lock(&self, name: &ObjectName) -> Result<(), StorageError> {
        self.inner.drop_lock(name)
    }
}

struct Scene {
    store: Store,
    storage: Arc<Hooked>,
    source: PathBuf,
    _folder: tempfile::TempDir,
}

impl Scene {
    /// `a-long` is read first; everything else comes after it.
    fn new() -> Self {
        let storage = Arc::new(Hooked {
            inner: MemoryStorage::with_clock(Arc::new(StillClock)),
            hook: Mutex::new(None),
        });
        let env = env_on(Arc::clone(&storage) as Arc<dyn Storage>, 1);
        let options = InitOptions::default().container_bytes(256 << 10);
        let store = Store::init(&env, &Credential::None, &options, None).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("source");
        fs::create_dir_all(source.join("folder")).unwrap();
        fs::write(source.join("a-long"), noise(1, LONG_BYTES)).unwrap();
        for name in ["b", "c", "d", "folder/x", "folder/y", "z"] {
            fs::write(source.join(name), name.repeat(1000)).unwrap();
        }
        Self {
            store,
            storage,
            source,
            _folder: folder,
        }
    }

    /// Backs up; `change` runs while `a-long` is read. Returns the faults as text.
    fn back_up(&self, change: impl FnOnce(&Path) + Send + 'static) -> (BackupReport, Vec<String>) {
        let source = self.source.clone();
        *self.storage.hook.lock().unwrap() = Some(Box::new(move || change(&source)));
        let mut faults = Vec::new();
        let made = self.store.backup_tree(
            &backup_options("host", 0),
            &tree_options(&self.source, false),
            &Monitor::default(),
            &mut |fault| faults.push(fault.to_string()),
        );
        (made.unwrap(), faults)
    }

    /// The restored tree of the newest backup, whole and sound.
    fn restored(&self) -> Tree {
        let snapshot = self.store.find("latest", &onefold::Filter::default()).unwrap();
        let target = tempfile::tempdir().unwrap();
        let request = RestoreRequest::new(AssembleOptions::for_cores(1));
        let mut fault = |fault: &Fault| panic!("{fault:?}");
        self.store
            .restore(
                &snapshot,
                target.path(),
                &request,
                &Monitor::default(),
                &mut fault,
            )
            .unwrap();
        let check = self
            .store
            .check(ReadData::Share(1.0), &Monitor::default())
            .unwrap();
        assert!(check.is_sound(), "{check:#?}");
        tree::read(&target.path().join(self.source.strip_prefix("/").unwrap()))
    }

    /// The next backup sees no change, and has the present tree.
    fn judge_next(&self) {
        let mut faults = Vec::new();
        let made = self
            .store
            .backup_tree(
                &backup_options("host", 0),
                &tree_options(&self.source, false),
                &Monitor::default(),
                &mut |fault| faults.push(fault.to_string()),
            )
            .unwrap();
        assert_eq!((faults, made.totals.files_failed), (Vec::new(), 0));
        assert!(
            self.restored() == tree::read(&self.source),
            "the next backup differs from its source"
        );
    }
}

fn bytes<'a>(tree: &'a Tree, path: &str) -> &'a [u8] {
    match tree.get(Path::new(path)) {
        Some(Entry::File(bytes)) => bytes,
        other => panic!("{path}: {other:?}"),
    }
}

#[test]
fn a_file_that_grows_while_it_is_read() {
    let scene = Scene::new();
    let (report, faults) = scene.back_up(|source| {
        let mut file = fs::OpenOptions::new()
            .append(true)
            .open(source.join("a-long"))
            .unwrap();
        file.write_all(&noise(2, 1 << 20)).unwrap();
    });
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert!(faults[0].contains("a-long"), "{faults:?}");
    assert_eq!(report.totals.files_failed, 1);
    let (restored, source) = (scene.restored(), tree::read(&scene.source));
    let (got, now) = (bytes(&restored, "a-long"), bytes(&source, "a-long"));
    assert!(
        got.len() >= LONG_BYTES && now.starts_with(got),
        "{} bytes",
        got.len()
    );
    assert_eq!(restored.len(), source.len());
    assert_eq!(bytes(&restored, "z"), bytes(&source, "z"));
    scene.judge_next();
}

#[test]
fn a_file_that_shrinks_while_it_is_read() {
    let scene = Scene::new();
    let before = noise(1, LONG_BYTES);
    let (report, faults) = scene.back_up(|source| {
        let file = fs::OpenOptions::new()
            .write(true)
            .open(source.join("a-long"))
            .unwrap();
        file.set_len(100).unwrap();
    });
    assert_eq!(faults.len(), 1, "{faults:?}");
    assert!(faults[0].contains("a-long"), "{faults:?}");
    assert_eq!(report.totals.files_failed, 1);
    let restored = scene.restored();
    let got = bytes(&restored, "a-long");
    assert!(got.len() < LONG_BYTES, "it was read to its old end");
    assert!(before.starts_with(got), "bytes that were never in it");
    assert_eq!(bytes(&restored, "folder/y"), "folder/y".repeat(1000).as_bytes());
    scene.judge_next();
}

#[test]
fn a_file_whose_bytes_change_while_it_is_read() {
    let scene = Scene::new();
    let (report, faults) = scene.back_up(|source| {
        let file = fs::OpenOptions::new()
            .write(true)
            .open(source.join("a-long"))
            .unwrap();
        file.write_all_at(b"changed", LONG_BYTES as u64 - 7).unwrap();
    });
    assert_eq!((faults.len(), report.totals.files_failed), (1, 1), "{faults:?}");
    assert!(faults[0].contains("a-long"), "{faults:?}");
    scene.judge_next();
}

#[test]
fn files_and_folders_that_vanish_or_turn_into_something_else() {
    let scene = Scene::new();
    // Entries after these are neither walked nor read while `a-long` is.
    fs::create_dir(scene.source.join("a-more")).unwrap();
    for n in 0..MANY_ENTRIES {
        fs::write(scene.source.join(format!("a-more/{n}")), b"").unwrap();
    }
    let (report, faults) = scene.back_up(|source| {
        fs::remove_file(source.join("b")).unwrap();
        fs::remove_file(source.join("c")).unwrap();
        std::os::unix::fs::symlink("/etc/hostname", source.join("c")).unwrap();
        fs::remove_file(source.join("d")).unwrap();
        fs::create_dir(source.join("d")).unwrap();
        fs::remove_dir_all(source.join("folder")).unwrap();
    });
    for gone in ["b", "folder"] {
        assert!(
            faults
                .iter()
                .any(|fault| fault.contains(&format!("source/{gone}"))),
            "{gone}: {faults:?}"
        );
    }
    assert_eq!(report.totals.files_failed, faults.len() as u64);
    let restored = scene.restored();
    assert_eq!(bytes(&restored, "a-long").len(), LONG_BYTES);
    assert_eq!(bytes(&restored, "z"), "z".repeat(1000).as_bytes());
    assert!(!restored.contains_key(Path::new("b")));
    // The backup may have the new entry as what it is, but never a link's target as the file.
    for name in ["c", "d"] {
        if let Some(Entry::File(bytes)) = restored.get(Path::new(name)) {
            assert_eq!(*bytes, name.repeat(1000).into_bytes());
        }
    }
    scene.judge_next();
}

/// A stream that ends in an error after some bytes.
struct Broken(usize);

impl Read for Broken {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.0 == 0 {
            return Err(io::Error::other("the pipe broke"));
        }
        let len = self.0.min(buffer.len());
        buffer[..len].fill(7);
        self.0 -= len;
        Ok(len)
    }
}

#[test]
fn half_a_stream_makes_no_backup_and_hinders_none() {
    let env = env_on(Arc::new(MemoryStorage::new()), 1);
    let store = Store::init(&env, &Credential::None, &InitOptions::default(), None).unwrap();
    let back_up = |source: &mut dyn onefold::StreamSource| {
        store.backup_stream(
            &backup_options("host", 1 << 20),
            Path::new("/stream"),
            &onefold::StreamOptions::default(),
            source,
            &Monitor::default(),
        )
    };
    let error = back_up(&mut ReaderSource(Broken(100_000)))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("/stream") && error.contains("100000") && error.contains("pipe"),
        "{error}"
    );
    assert!(store.snapshots().unwrap().snapshots.is_empty());
    back_up(&mut ReaderSource(noise(1, 50_000).as_slice())).unwrap();
    assert_eq!(store.snapshots().unwrap().snapshots.len(), 1);
    let check = store.check(ReadData::Share(1.0), &Monitor::default()).unwrap();
    assert!(check.is_sound(), "{check:#?}");
}
