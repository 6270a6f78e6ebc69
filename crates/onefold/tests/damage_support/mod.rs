//! A small store with an object of every kind, and ways to damage a copy of it.
#![allow(dead_code, reason = "each test file uses a part")]

pub(crate) mod fixture;
pub(crate) mod judge;
pub(crate) mod tree;
pub(crate) mod ways;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use env::{Clock, Env, MemoryStorage, SeededEntropy, Storage, SystemClock};
use onefold::{BackupOptions, Compression, IngestOptions, TreeOptions};
use types::{ObjectName, UnixNanos};

/// All objects of a store.
pub(crate) type Objects = BTreeMap<ObjectName, Vec<u8>>;

/// A clock that always shows one time, so that no heartbeat or checkpoint comes in between.
/// Sleeping takes real time.
#[derive(Debug)]
pub(crate) struct StillClock;

impl Clock for StillClock {
    fn wall(&self) -> UnixNanos {
        UnixNanos::new(1_704_067_200_000_000_000)
    }

    fn monotonic(&self) -> Duration {
        Duration::ZERO
    }

    fn monotonic_with_suspend(&self) -> Duration {
        Duration::ZERO
    }

    fn sleep(&self, time: Duration) {
        SystemClock.sleep(time);
    }
}

/// An environment with that storage, the still clock and repeatable randomness.
pub(crate) fn env_on(storage: Arc<dyn Storage>, seed: u64) -> Env {
    Env {
        storage,
        clock: Arc::new(StillClock),
        entropy: Arc::new(SeededEntropy::new(seed)),
    }
}

/// A fresh storage in memory with these objects.
pub(crate) fn storage_of(objects: &Objects) -> Arc<MemoryStorage> {
    let storage = MemoryStorage::with_clock(Arc::new(StillClock));
    for (name, bytes) in objects {
        storage.put(name, &[bytes]).unwrap();
    }
    Arc::new(storage)
}

/// All objects of a storage.
pub(crate) fn objects_of(storage: &dyn Storage) -> Objects {
    let listed = storage.list("").unwrap();
    listed
        .into_iter()
        .map(|meta| {
            let bytes = storage.get(&meta.name).unwrap();
            (meta.name, bytes)
        })
        .collect()
}

/// One worker and one writer: the same seed gives the same bytes.
pub(crate) fn backup_options(host: &str, small_bytes_max: usize) -> BackupOptions {
    BackupOptions::default()
        .host(host.as_bytes().to_vec())
        .user(b"tester".to_vec())
        .tags(Vec::new())
        .ingest(
            IngestOptions::for_cores(1)
                .compression(Compression::Level(3))
                .workers(1)
                .writers(1)
                .small_bytes_max(small_bytes_max),
        )
}

/// A tree's backup of that folder.
pub(crate) fn tree_options(source: &std::path::Path, force: bool) -> TreeOptions {
    TreeOptions::default()
        .paths(vec![source.to_path_buf()])
        .current_folder(source.to_path_buf())
        .excludes(onefold::Excludes::default())
        .exclude_caches(false)
        .one_file_system(false)
        .leave_out(None)
        .force(force)
        .ignore_ctime(false)
        .ignore_inode(false)
}

/// Whether to try every byte instead of a sample.
pub(crate) fn is_long() -> bool {
    std::env::var_os("ONEFOLD_TEST_LONG").is_some_and(|value| value == "1")
}

/// Bytes that do not compress, the same for the same seed.
pub(crate) fn noise(seed: u64, len: usize) -> Vec<u8> {
    use env::Entropy;
    let mut bytes = vec![0; len];
    SeededEntropy::new(seed).fill(&mut bytes);
    bytes
}

/// Bytes that compress well and differ by seed.
pub(crate) fn text(seed: u64, len: usize) -> Vec<u8> {
    let words = noise(seed, len / 8 + 8);
    let mut out = Vec::with_capacity(len + 16);
    for word in words {
        out.extend_from_slice(format!("line {word:03} ").as_bytes());
        if out.len() >= len {
            break;
        }
    }
    out.resize(len, b'.');
    out
}
