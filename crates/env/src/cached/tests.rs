//! The cache over a storage in memory that counts reads.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::AtomicU64;

use super::*;
use crate::{ManualClock, MemoryStorage};

/// Counts reads of objects.
#[derive(Debug, Default)]
struct Counting {
    inner: MemoryStorage,
    reads: AtomicU64,
}

impl Counting {
    fn read(&self) -> &MemoryStorage {
        self.reads.fetch_add(1, Ordering::Relaxed);
        &self.inner
    }
}

impl Storage for Counting {
    fn put(&self, name: &ObjectName, parts: &[&[u8]]) -> Result<(), StorageError> {
        self.inner.put(name, parts)
    }
    fn barrier(&self) -> Result<(), StorageError> {
        self.inner.barrier()
    }
    fn get(&self, name: &ObjectName) -> Result<Vec<u8>, StorageError> {
        self.read().get(name)
    }
    fn get_range(&self, name: &ObjectName, range: ByteRange) -> Result<Vec<u8>, StorageError> {
        self.read().get_range(name, range)
    }
    fn get_tail(&self, name: &ObjectName, len: u64) -> Result<(Vec<u8>, u64), StorageError> {
        self.read().get_tail(name, len)
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

/// `small/` by listing, `big/` by period, `wide/` the same with ranges; ends are whole.
#[derive(Debug)]
struct ByFolder;

impl CachePolicy for ByFolder {
    fn keep(&self, name: &ObjectName) -> Keep {
        match name.parts().next() {
            Some("small") => Keep::Listed { when_put: false },
            Some("own") => Keep::Listed { when_put: true },
            Some("big") => Keep::OfPeriod { ranges: false },
            Some("wide") => Keep::OfPeriod { ranges: true },
            _ => Keep::Nothing,
        }
    }
    fn is_whole(&self, _: &ObjectName, bytes: &[u8]) -> bool {
        !bytes.starts_with(b"torn")
    }
    fn end_bytes(&self, _: &ObjectName, tail: &[u8], _: u64) -> Option<u64> {
        (!tail.starts_with(b"torn")).then_some(tail.len() as u64)
    }
}

/// One storage, and a folder for caches of it.
struct World {
    storage: Arc<Counting>,
    folder: tempfile::TempDir,
    clock: ManualClock,
}

impl World {
    fn new() -> Self {
        let clock = ManualClock::default();
        clock.advance(std::time::Duration::from_secs(1));
        let inner = MemoryStorage::with_clock(Arc::new(clock.clone()));
        let storage = Counting {
            inner,
            ..Counting::default()
        };
        Self {
            storage: Arc::new(storage),
            folder: tempfile::tempdir().unwrap(),
            clock,
        }
    }

    /// The cache of another process.
    fn cache_of(&self, bytes_max: u64) -> CachedStorage {
        let storage: Arc<dyn Storage> = self.storage.clone();
        let clock: Arc<dyn Clock> = Arc::new(self.clock.clone());
        CachedStorage::new(
            storage,
            self.folder.path(),
            "ab12",
            bytes_max,
            Box::new(ByFolder),
            clock,
        )
    }

    fn cache(&self) -> CachedStorage {
        self.cache_of(1 << 20)
    }

    /// Reads of the storage since the last call.
    fn reads(&self) -> u64 {
        self.storage.reads.swap(0, Ordering::Relaxed)
    }

    fn files(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        let mut folders = vec![self.folder.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).unwrap() {
                let entry = entry.unwrap();
                if entry.file_type().unwrap().is_dir() {
                    folders.push(entry.path());
                } else {
                    files.push(entry.path());
                }
            }
        }
        files.sort_unstable();
        files
    }
}

fn name(text: &str) -> ObjectName {
    ObjectName::new(text).unwrap()
}

fn noise(len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    blake3::Hasher::new().finalize_xof().fill(&mut bytes);
    bytes
}

#[test]
fn a_cached_storage_is_a_storage() {
    #[derive(Debug)]
    struct Everything(Keep);
    impl CachePolicy for Everything {
        fn keep(&self, _: &ObjectName) -> Keep {
            self.0
        }
        fn is_whole(&self, _: &ObjectName, _: &[u8]) -> bool {
            true
        }
        fn end_bytes(&self, _: &ObjectName, tail: &[u8], object_len: u64) -> Option<u64> {
            // A tail that is not whole would shorten a later one that asks for more.
            (tail.len() as u64 == object_len).then_some(object_len)
        }
    }
    let folder = tempfile::tempdir().unwrap();
    for (number, keep) in [
        Keep::Nothing,
        Keep::Listed { when_put: true },
        Keep::Listed { when_put: false },
        Keep::OfPeriod { ranges: false },
    ]
    .into_iter()
    .enumerate()
    {
        let inner: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::default());
        let policy = Box::new(Everything(keep));
        let cache = CachedStorage::new(inner, folder.path(), &number.to_string(), 64 << 20, policy, clock);
        cache.enter(1);
        crate::conformance::check(&cache);
    }
}

#[test]
fn a_small_object_counts_while_a_listing_shows_it_as_it_was() {
    let world = World::new();
    let object = name("small/a");
    world.storage.put(&object, &[b"one"]).unwrap();
    let cache = world.cache();
    assert_eq!(cache.get(&object).unwrap(), b"one");
    assert_eq!(
        (world.reads(), world.files().len()),
        (1, 0),
        "not listed: not kept"
    );
    cache.list("small").unwrap();
    assert_eq!(cache.get(&object).unwrap(), b"one");
    assert_eq!(&*cache.map(&object).unwrap(), b"one");
    assert_eq!(world.reads(), 1);

    let other = world.cache();
    assert_eq!(other.get(&object).unwrap(), b"one");
    assert_eq!(world.reads(), 1, "this handle has not listed it");
    other.list("").unwrap();
    assert_eq!(other.get(&object).unwrap(), b"one");
    assert_eq!(world.reads(), 0);
    // Somebody deletes it, and uses the name again for as many bytes.
    world.storage.delete(&object).unwrap();
    world.clock.advance(std::time::Duration::from_secs(1));
    world.storage.put(&object, &[b"two"]).unwrap();
    other.list_in("", &BTreeSet::from(["small".to_owned()])).unwrap();
    assert_eq!(other.get(&object).unwrap(), b"two");
    world.storage.delete(&object).unwrap();
    other.list("small").unwrap();
    other.get(&object).unwrap_err();
    assert_eq!(world.files().len(), 0, "nothing of a missing object is kept");
}

#[test]
fn torn_objects_are_not_kept() {
    let world = World::new();
    let cache = world.cache();
    cache.enter(1);
    for folder in ["small", "big"] {
        let object = name(&format!("{folder}/a"));
        world.storage.put(&object, &[b"torn"]).unwrap();
        cache.list(folder).unwrap();
        for _ in 0..2 {
            cache.get(&object).unwrap();
            cache.get_tail(&object, 9).unwrap();
        }
    }
    assert_eq!((world.reads(), world.files().len()), (8, 0));
}

#[test]
fn what_is_kept_by_period_counts_in_it_alone() {
    let world = World::new();
    let (big, wide) = (name("big/a"), name("wide/a"));
    let bytes = noise(200_000);
    world.storage.put(&big, &[&bytes]).unwrap();
    world.storage.put(&wide, &[&bytes]).unwrap();
    let range = ByteRange {
        offset: 70_000,
        len: 100_000,
    };
    let inner = ByteRange {
        offset: 70_000,
        len: 66_000,
    };
    let read = |cache: &CachedStorage| {
        for object in [&big, &wide] {
            let (tail, len) = cache.get_tail(object, 1000).unwrap();
            assert!(len == 200_000 && tail == bytes[199_000..]);
            assert_eq!(cache.get_range(object, range).unwrap(), bytes[70_000..170_000]);
            let mut into = AlignedBuffer::with_capacity(0);
            let place = cache.get_range_into(object, inner, &mut into).unwrap();
            assert_eq!(into[place], bytes[70_000..136_000]);
        }
        world.reads()
    };
    let cache = world.cache();
    assert_eq!(read(&cache), 6, "no period");
    assert_eq!(world.files().len(), 0);
    cache.enter(7);
    assert_eq!(read(&cache), 5);
    assert_eq!(read(&cache), 2, "ranges of the one that keeps ends");
    let other = world.cache();
    other.enter(7);
    assert_eq!(read(&other), 2);
    {
        let _past = other.pass();
        assert_eq!(read(&other), 6);
    }
    other.enter(3);
    assert_eq!(read(&other), 2, "an earlier period changes nothing");
    other.enter(8);
    assert_eq!(read(&other), 5, "the next one ends it");
    assert_eq!(read(&cache), 2, "which holds for later readers alone");
}

#[test]
fn what_is_put_is_kept() {
    let world = World::new();
    let bytes = noise(100_000);
    let cache = world.cache();
    cache.enter(1);
    let (first, last) = bytes.split_at(90_000);
    for folder in ["small", "own", "big", "wide", "other"] {
        cache.put(&name(&format!("{folder}/a")), &[first, last]).unwrap();
    }
    assert_eq!(cache.get(&name("own/a")).unwrap(), bytes);
    assert_eq!(world.reads(), 0, "it knows what it has put");
    let other = world.cache();
    other.enter(1);
    other.list("").unwrap();
    let range = ByteRange {
        offset: 5,
        len: 80_000,
    };
    assert_eq!(other.get(&name("own/a")).unwrap(), bytes);
    assert_eq!(
        other.get_tail(&name("big/a"), 10_000).unwrap(),
        (last.to_vec(), 100_000)
    );
    assert_eq!(other.get_range(&name("wide/a"), range).unwrap(), bytes[5..80_005]);
    assert_eq!(world.reads(), 0);
    assert_eq!(other.get(&name("small/a")).unwrap(), bytes);
    assert_eq!(other.get_range(&name("big/a"), range).unwrap(), bytes[5..80_005]);
    assert_eq!(other.get(&name("other/a")).unwrap(), bytes);
    assert_eq!(world.reads(), 3);
    // A put that fails keeps nothing of its bytes.
    cache.put(&name("own/a"), &[b"another"]).unwrap_err();
    assert_eq!(other.get(&name("own/a")).unwrap(), bytes);
    assert_eq!(world.reads(), 0);
    other.delete(&name("own/a")).unwrap();
    other.get(&name("own/a")).unwrap_err();
}

#[test]
fn damaged_and_cut_entries_are_dropped() {
    let world = World::new();
    let (small, wide) = (name("small/a"), name("wide/a"));
    let bytes = noise(250_000);
    world.storage.put(&small, &[&bytes]).unwrap();
    world.storage.put(&wide, &[&bytes]).unwrap();
    let range = ByteRange {
        offset: 1,
        len: 240_000,
    };
    let read = || {
        let cache = world.cache();
        cache.enter(1);
        cache.list("").unwrap();
        assert_eq!(cache.get(&small).unwrap(), bytes);
        assert_eq!(cache.get_range(&wide, range).unwrap(), bytes[1..240_001]);
        world.reads()
    };
    assert_eq!((read(), read()), (2, 0));
    let files = world.files();
    assert_eq!(files.len(), 2);
    let original: Vec<Vec<u8>> = files.iter().map(|file| fs::read(file).unwrap()).collect();
    let mut spoilings = 0;
    for (file, whole) in files.iter().zip(&original) {
        let places = (0..200).chain([whole.len() / 2, whole.len() - 1]);
        for place in places {
            let mut spoilt = whole.clone();
            spoilt[place] ^= 1;
            fs::write(file, spoilt).unwrap();
            assert_eq!(read(), 1, "{place}");
            spoilings += 1;
        }
        for len in [0, 1, 60, 500, whole.len() - 1] {
            fs::write(file, &whole[..len]).unwrap();
            assert_eq!(read(), 1, "{len}");
        }
        fs::write(file, [&whole[..], b"x"].concat()).unwrap();
        assert_eq!(read(), 1);
    }
    assert!(spoilings > 400 && read() == 0);
    // The entry of another object under this name.
    fs::copy(&files[0], &files[1]).unwrap();
    assert_eq!(read(), 1);
    fs::remove_dir_all(world.folder.path()).unwrap();
    assert_eq!((read(), read()), (2, 0), "deleted as a whole");
    let cache = world.cache();
    assert!(cache.drop_cached(&wide) && !cache.drop_cached(&wide));
    assert_eq!(read(), 1);
}

#[test]
fn what_was_used_least_recently_leaves_first() {
    let world = World::new();
    let cache = world.cache_of(1 << 20);
    cache.enter(1);
    let object = |n: u32| name(&format!("wide/{n:03}"));
    let bytes = noise(30_000);
    for n in 0..100 {
        world.clock.advance(std::time::Duration::from_hours(2));
        cache.put(&object(n), &[&bytes]).unwrap();
        cache.get_tail(&object(0), 100).unwrap();
    }
    assert_eq!(world.reads(), 0, "the first one was always used");
    let kept = |n: u32| {
        cache.get_tail(&object(n), 100).unwrap();
        world.reads() == 0
    };
    assert!(kept(0) && kept(99) && !kept(1) && !kept(50));
    let taken: u64 = world
        .files()
        .iter()
        .map(|file| fs::metadata(file).unwrap().len())
        .sum();
    assert!((700 << 10..1200 << 10).contains(&taken), "{taken}");
}

#[test]
fn a_folder_that_cannot_be_written_fails_nothing() {
    let mut world = World::new();
    let file = world.folder.path().join("file");
    fs::write(&file, b"").unwrap();
    let inside = tempfile::tempdir().unwrap();
    let storage: Arc<dyn Storage> = world.storage.clone();
    let clock: Arc<dyn Clock> = Arc::new(world.clock.clone());
    let cache = CachedStorage::new(storage, &file, "ab", 1 << 20, Box::new(ByFolder), clock);
    cache.enter(1);
    cache.put(&name("wide/a"), &[b"a"]).unwrap();
    assert_eq!(cache.get_tail(&name("wide/a"), 1).unwrap().0, b"a");
    assert_eq!(world.reads(), 1);
    world.folder = inside;
    assert!(world.files().is_empty());
}

#[test]
fn processes_share_a_folder() {
    let world = World::new();
    let bytes = noise(70_000);
    for n in 0..20 {
        world.storage.put(&name(&format!("wide/{n}")), &[&bytes]).unwrap();
    }
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                // Less than all of it: they delete each other's entries.
                let cache = world.cache_of(400 << 10);
                cache.enter(1);
                for round in 0..200u64 {
                    let object = name(&format!("wide/{}", round * 7 % 20));
                    let range = ByteRange {
                        offset: round % 3,
                        len: 69_000,
                    };
                    let from = usize::try_from(range.offset).unwrap();
                    assert_eq!(
                        cache.get_range(&object, range).unwrap(),
                        bytes[from..from + 69_000]
                    );
                    assert_eq!(cache.get_tail(&object, 70_000).unwrap().0, bytes);
                }
            });
        }
    });
}

#[test]
fn a_storage_without_locks_gets_those_of_this_machine() {
    let store: Arc<dyn Storage> = Arc::new(
        crate::ObjectStoreStorage::new(Arc::new(object_store::memory::InMemory::new()), "").unwrap(),
    );
    let folder = tempfile::tempdir().unwrap();
    let cached = |locks: &str| {
        let objects = folder.path().join("objects");
        let policy = Box::new(KeepNothing);
        let cache = CachedStorage::new(
            Arc::clone(&store),
            &objects,
            "s",
            1 << 20,
            policy,
            Arc::new(ManualClock::default()),
        );
        cache.with_locks(&folder.path().join(locks))
    };
    let (first, second, elsewhere) = (cached("locks/s"), cached("locks/s"), cached("other/s"));
    let name = ObjectName::new("sessions/1/lock").unwrap();
    let state = |of: &CachedStorage| of.lock_state(&name).unwrap();
    assert_eq!(
        state(&second),
        LockState::Unknown,
        "never missing: it may be another machine's"
    );
    assert!(!folder.path().join("locks").exists(), "asking makes nothing");
    let held = first.lock(&name).unwrap().expect("there are locks here");
    assert_eq!(
        (state(&first), state(&second)),
        (LockState::Held, LockState::Held)
    );
    assert_eq!(state(&elsewhere), LockState::Unknown);
    assert!(matches!(second.lock(&name), Err(StorageError::Locked { .. })));
    drop(held);
    assert_eq!(state(&second), LockState::Free);
    drop(second.lock(&name).unwrap().expect("it is free"));
    second.drop_lock(&name).unwrap();
    assert_eq!(state(&first), LockState::Unknown);
    // The folder may be deleted at any time.
    fs::remove_dir_all(folder.path().join("locks")).unwrap();
    first.lock(&ObjectName::new("sessions/2/lock").unwrap()).unwrap();
    // A folder that cannot be made gives none.
    fs::write(folder.path().join("file"), b"").unwrap();
    assert!(cached("file/s").lock(&name).unwrap().is_none());
}

#[derive(Debug)]
struct KeepNothing;

impl CachePolicy for KeepNothing {
    fn keep(&self, _: &ObjectName) -> Keep {
        Keep::Nothing
    }
    fn is_whole(&self, _: &ObjectName, _: &[u8]) -> bool {
        false
    }
    fn end_bytes(&self, _: &ObjectName, _: &[u8], _: u64) -> Option<u64> {
        None
    }
}
