//! Counts of reads, and reports of reads that a mirror copy served.

use std::sync::atomic::{AtomicU64, Ordering};

use types::{ContainerId, Generation};

use crate::error::Part;

/// A read that the mirror copy served, because the main copy could not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MirrorRead {
    /// The container.
    pub container: ContainerId,
    /// Its generation.
    pub generation: Generation,
    /// The part that was read.
    pub part: Part,
    /// The error of the main copy.
    pub why: String,
}

/// Counts since the start; a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ContainerStats {
    /// Read requests to the storage.
    pub reads: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Folders listed.
    pub lists: u64,
    /// Catalogs found in the cache.
    pub catalog_hits: u64,
    /// Catalogs loaded.
    pub catalog_loads: u64,
    /// Reads that a mirror copy served.
    pub mirror_reads: u64,
    /// Objects put, mirror copies included.
    pub puts: u64,
    /// Bytes put.
    pub bytes_put: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) reads: AtomicU64,
    pub(crate) bytes_read: AtomicU64,
    pub(crate) lists: AtomicU64,
    pub(crate) catalog_hits: AtomicU64,
    pub(crate) catalog_loads: AtomicU64,
    pub(crate) mirror_reads: AtomicU64,
    pub(crate) puts: AtomicU64,
    pub(crate) bytes_put: AtomicU64,
}

impl Counters {
    pub(crate) fn read(&self, bytes: u64) {
        add(&self.reads, 1);
        add(&self.bytes_read, bytes);
    }

    pub(crate) fn put(&self, bytes: u64) {
        add(&self.puts, 1);
        add(&self.bytes_put, bytes);
    }

    pub(crate) fn snapshot(&self) -> ContainerStats {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ContainerStats {
            reads: get(&self.reads),
            bytes_read: get(&self.bytes_read),
            lists: get(&self.lists),
            catalog_hits: get(&self.catalog_hits),
            catalog_loads: get(&self.catalog_loads),
            mirror_reads: get(&self.mirror_reads),
            puts: get(&self.puts),
            bytes_put: get(&self.bytes_put),
        }
    }
}

pub(crate) fn add(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Ordering::Relaxed);
}
