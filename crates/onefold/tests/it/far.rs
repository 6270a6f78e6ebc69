//! A store in an object store: how many requests the usual commands make, one after another or side
//! by side, and that what is rewritten there side by side is right.

use std::fmt;
use std::future::Future;
use std::io;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::{
    How, Tree, assert_restores_bytes, assert_sound, back_up, back_up_bytes, back_up_stream, noise, snapshot,
    tiny, try_restore_within, wait_until,
};
use env::{Env, ObjectStoreStorage, SeededEntropy, Storage, SystemClock};
use futures::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    CopyOptions, Error as RemoteError, GetOptions, GetRange, GetResult, ListResult, MultipartUpload,
    ObjectMeta, ObjectStore, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result as RemoteResult,
};
use onefold::{
    CacheOptions, Credential, Filter, ForgetRequest, ForgetWhat, InitOptions, Monitor, OpenOptions,
    PruneLimits, PruneOptions, PruneUnused, ReaderSource, SessionId, Store,
};

type Answer<'a, T> = Pin<Box<dyn Future<Output = RemoteResult<T>> + Send + 'a>>;

/// An object store in memory that counts requests. Deletes of many are one, as with S3.
#[derive(Debug)]
struct Counted {
    inner: InMemory,
    requests: AtomicU64,
    /// Reads of more than a MiB.
    long_reads: AtomicU64,
    /// Creates below `data` that are refused: all after so many.
    puts_max: AtomicU64,
}

impl Default for Counted {
    fn default() -> Self {
        Self {
            inner: InMemory::new(),
            requests: AtomicU64::new(0),
            long_reads: AtomicU64::new(0),
            puts_max: AtomicU64::new(u64::MAX),
        }
    }
}

impl Counted {
    fn count(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }
}

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("counted")
    }
}

// The trait's own macro is not a dependency. These are the signatures that it makes.
impl ObjectStore for Counted {
    fn put_opts<'a, 'b, 'c>(
        &'a self,
        path: &'b Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Answer<'c, PutResult>
    where
        'a: 'c,
        'b: 'c,
    {
        self.count();
        if path.as_ref().contains("/data/") {
            let left = self
                .puts_max
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
            if left.is_err() {
                let refused = RemoteError::Generic {
                    store: "counted",
                    source: "the bucket is full".into(),
                };
                return Box::pin(async { Err(refused) });
            }
        }
        self.inner.put_opts(path, payload, options)
    }

    fn put_multipart_opts<'a, 'b, 'c>(
        &'a self,
        path: &'b Path,
        options: PutMultipartOptions,
    ) -> Answer<'c, Box<dyn MultipartUpload>>
    where
        'a: 'c,
        'b: 'c,
    {
        self.inner.put_multipart_opts(path, options)
    }

    fn get_opts<'a, 'b, 'c>(&'a self, path: &'b Path, options: GetOptions) -> Answer<'c, GetResult>
    where
        'a: 'c,
        'b: 'c,
    {
        self.count();
        if let Some(GetRange::Bounded(range)) = &options.range
            && range.end - range.start > 1 << 20
        {
            self.long_reads.fetch_add(1, Ordering::Relaxed);
        }
        self.inner.get_opts(path, options)
    }

    fn get_ranges<'a, 'b, 'd, 'c>(
        &'a self,
        path: &'b Path,
        ranges: &'d [Range<u64>],
    ) -> Answer<'c, Vec<bytes::Bytes>>
    where
        'a: 'c,
        'b: 'c,
        'd: 'c,
    {
        self.inner.get_ranges(path, ranges)
    }

    fn delete_stream(
        &self,
        paths: BoxStream<'static, RemoteResult<Path>>,
    ) -> BoxStream<'static, RemoteResult<Path>> {
        self.count();
        self.inner.delete_stream(paths)
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, RemoteResult<ObjectMeta>> {
        self.count();
        self.inner.list(prefix)
    }

    fn list_with_delimiter<'a, 'b, 'c>(&'a self, prefix: Option<&'b Path>) -> Answer<'c, ListResult>
    where
        'a: 'c,
        'b: 'c,
    {
        self.count();
        self.inner.list_with_delimiter(prefix)
    }

    fn copy_opts<'a, 'b, 'd, 'c>(
        &'a self,
        from: &'b Path,
        to: &'d Path,
        options: CopyOptions,
    ) -> Answer<'c, ()>
    where
        'a: 'c,
        'b: 'c,
        'd: 'c,
    {
        self.inner.copy_opts(from, to, options)
    }
}

/// A bucket.
struct Bucket(Arc<Counted>);

impl Bucket {
    fn with_store(options: &InitOptions) -> Self {
        let bucket = Self(Arc::default());
        Store::init(&bucket.env(), &Credential::None, options, None).unwrap();
        bucket
    }

    /// A new handle, as another process has one.
    fn env(&self) -> Env {
        let store = Arc::clone(&self.0) as Arc<dyn ObjectStore>;
        Env {
            storage: Arc::new(ObjectStoreStorage::new(store, "prefix").unwrap()),
            clock: Arc::new(SystemClock),
            entropy: Arc::new(SeededEntropy::new(7)),
        }
    }

    fn open(&self) -> Store {
        self.open_with(None)
    }

    fn open_with(&self, cache: Option<CacheOptions>) -> Store {
        let options = OpenOptions::default().cache(cache);
        Store::open(&self.env(), &Credential::None, &options).unwrap()
    }

    fn requests(&self) -> u64 {
        self.0.requests.load(Ordering::Relaxed)
    }
}

#[test]
fn an_unchanged_backup_takes_few_requests() {
    let bucket = Bucket::with_store(&InitOptions::default());
    let folder = tempfile::tempdir().unwrap();
    let open = || bucket.open_with(Some(CacheOptions::new(folder.path())));
    let tree = Tree::plant_apart(1, 3 << 20);
    back_up(&open(), &tree, &How::plain()).unwrap();
    let requests: Vec<u64> = (0..4)
        .map(|_| {
            let before = bucket.requests();
            let again = back_up(&open(), &tree, &How::plain()).unwrap();
            assert!(again.totals.bytes_stored < 64 << 10, "{:?}", again.totals);
            bucket.requests() - before
        })
        .collect();
    // docs/results/far.md has the figures of larger trees.
    assert!(requests.iter().all(|requests| *requests <= 34), "{requests:?}");
}

/// A disk would be asked four times, and decompressing begins earlier there.
#[test]
fn a_restore_reads_half_a_container_at_once() {
    let bucket = Bucket::with_store(&InitOptions::default());
    let bytes = noise(4, 15 << 20);
    let made = back_up_bytes(&bucket.open(), "/file", &bytes, &How::plain()).unwrap();
    let store = bucket.open();
    let backup = snapshot(&store, made.id);
    let target = tempfile::tempdir().unwrap();
    let before = bucket.0.long_reads.load(Ordering::Relaxed);
    try_restore_within(&store, &backup, target.path(), 96 << 20).unwrap();
    let reads = bucket.0.long_reads.load(Ordering::Relaxed) - before;
    assert!(std::fs::read(target.path().join("file")).unwrap() == bytes);
    assert_eq!(reads, 2);
}

/// A bucket with a backup whose containers, 64 or so, have lost some chunks each, and its bytes.
fn with_dead_chunks() -> (Bucket, SessionId, Vec<u8>) {
    let bucket = Bucket::with_store(&tiny().container_bytes(64 << 10));
    let bytes = noise(2, 4 << 20);
    let first = back_up_bytes(&bucket.open(), "/file", &bytes, &How::plain()).unwrap();
    let mut changed = bytes;
    for at in (0..changed.len()).step_by(25 << 10) {
        changed[at..at + (5 << 10)].copy_from_slice(&noise(at as u64, 5 << 10));
    }
    let second = back_up_bytes(&bucket.open(), "/file", &changed, &How::plain()).unwrap();
    let request = ForgetRequest::new(ForgetWhat::Named(vec![first.id.to_string()]));
    bucket.open().forget(&request, &Monitor::default()).unwrap();
    (bucket, second.id, changed)
}

fn everything() -> PruneOptions {
    PruneOptions::default().limits(PruneLimits::default().unused_max(PruneUnused::Bytes(0)))
}

/// More containers with some dead chunks each than the threads share at once.
#[test]
fn prune_rewrites_several_containers_at_once() {
    let (bucket, id, bytes) = with_dead_chunks();
    let (report, warnings) = bucket.open().prune(&everything(), &Monitor::default()).unwrap();
    assert!(warnings.is_empty(), "{warnings:?}");
    assert!(report.containers_compacted >= 40, "{report:?}");
    let store = bucket.open();
    assert_sound(&store, "after prune");
    assert_restores_bytes(&store, &snapshot(&store, id), "/file", &bytes, "after prune");
    assert!(store.find("1", &Filter::default()).is_err());
}

/// Each run that is refused some puts has freed what it could, so that the next one goes on.
#[test]
fn a_prune_that_fails_has_deleted_what_it_has_replaced() {
    let (bucket, id, bytes) = with_dead_chunks();
    let containers = || {
        let listed = bucket.env().storage.list("data").unwrap();
        let first = |name: &str| name.ends_with(".0");
        let old = listed.iter().filter(|meta| first(meta.name.as_str())).count();
        (old, listed.len())
    };
    let (before, all) = containers();
    assert_eq!(before, all);
    for _ in 0..3 {
        let (old, all) = containers();
        bucket.0.puts_max.store(10, Ordering::Relaxed);
        let error = bucket
            .open()
            .prune(&everything(), &Monitor::default())
            .unwrap_err();
        assert!(error.to_string().contains("the bucket is full"), "{error}");
        let (old_after, all_after) = containers();
        assert_eq!(old_after, old - 10, "ten were rewritten");
        assert!(all_after <= all, "{all_after} {all}");
    }
    bucket.0.puts_max.store(u64::MAX, Ordering::Relaxed);
    bucket.open().prune(&everything(), &Monitor::default()).unwrap();
    let store = bucket.open();
    assert_sound(&store, "after prune");
    assert_restores_bytes(&store, &snapshot(&store, id), "/file", &bytes, "after prune");
}

/// Bytes that end with an error at their end, once a checkpoint was put.
struct Broken<'a> {
    rest: &'a [u8],
    storage: Arc<dyn Storage>,
}

impl io::Read for Broken<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.rest.is_empty() {
            wait_until("a checkpoint", || {
                let listed = self.storage.list("sessions").unwrap();
                listed
                    .iter()
                    .any(|meta| meta.name.as_str().contains("/checkpoint."))
            });
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.rest.read(into)
    }
}

/// An object store has no locks. Those in the cache folder show that a process of this machine has
/// ended. Without them, a backup cannot tell.
#[test]
fn a_killed_backup_is_taken_over_by_the_next_one_of_its_machine() {
    for has_cache in [true, false] {
        let bucket = Bucket::with_store(&tiny());
        let folder = tempfile::tempdir().unwrap();
        let cache = || has_cache.then(|| CacheOptions::new(folder.path()));
        let bytes = noise(3, 3 << 20);
        let mut how = How::plain();
        how.ingest.checkpoint_bytes = 32 << 10;
        let broken = Broken {
            rest: &bytes[..2 << 20],
            storage: bucket.env().storage,
        };
        let mut source = ReaderSource(broken);
        back_up_stream(&bucket.open_with(cache()), "/file", &mut source, &how).unwrap_err();
        let store = bucket.open_with(cache());
        let again = back_up_bytes(&store, "/file", &bytes, &how).unwrap();
        assert_eq!(again.adopted.len(), usize::from(has_cache), "{has_cache}");
        assert_restores_bytes(&store, &snapshot(&store, again.id), "/file", &bytes, "taken over");
        assert_sound(&store, "taken over");
    }
}
