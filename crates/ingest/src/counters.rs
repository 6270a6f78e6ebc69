//! Counters of a running backup, for progress.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use format::listing::ListingEntry;
use format::manifest::BackupTotals;

/// What a backup did with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileFate {
    /// It is in no backup before, and was read.
    New,
    /// It differs from the backup before, and was read.
    Changed,
    /// It looks as in the backup before, and was not read.
    Unchanged,
    /// It could not be read, and stays as in the backup before.
    Kept,
}

/// Is told of each file of a backup, in listing order. It must return soon.
pub type FileObserver = dyn Fn(FileFate, &ListingEntry) + Send + Sync;

/// A place for an observer.
#[derive(Default)]
struct Observer(OnceLock<Box<FileObserver>>);

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.get().is_some() { "set" } else { "none" })
    }
}

/// A number that only grows during a backup, or that its stage alone changes.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// Sets it to 0.
    fn clear(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// The number now.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Counters of one backup, in units named by [`BackupTotals`].
#[derive(Debug, Default)]
#[expect(missing_docs, reason = "the other fields are their namesakes in BackupTotals")]
pub struct Counters {
    pub files: Counter,
    pub folders: Counter,
    pub others: Counter,
    pub files_new: Counter,
    pub files_changed: Counter,
    pub files_unchanged: Counter,
    pub files_failed: Counter,
    pub bytes_logical: Counter,
    pub bytes_read: Counter,
    pub bytes_new: Counter,
    pub bytes_stored: Counter,
    pub chunks: Counter,
    pub chunks_new: Counter,
    pub segments: Counter,
    pub segments_known: Counter,
    /// Files that could not be read, and keep the content of the previous backup.
    pub files_kept: Counter,
    /// Chunks that were found, and stored again because of the cap.
    pub chunks_capped: Counter,
    /// Their bytes.
    pub bytes_capped: Counter,
    current: Mutex<Vec<u8>>,
    observer: Observer,
}

impl Counters {
    /// Sets all counters to 0, for a backup that is made a second time.
    pub fn clear(&self) {
        let Self {
            files,
            folders,
            others,
            files_new,
            files_changed,
            files_unchanged,
            files_failed,
            bytes_logical,
            bytes_read,
            bytes_new,
            bytes_stored,
            chunks,
            chunks_new,
            segments,
            segments_known,
            files_kept,
            chunks_capped,
            bytes_capped,
            current: _,
            observer: _,
        } = self;
        let counted = [
            files,
            folders,
            others,
            files_new,
            files_changed,
            files_unchanged,
            files_failed,
            bytes_logical,
            bytes_read,
            bytes_new,
            bytes_stored,
            chunks,
            chunks_new,
            segments,
            segments_known,
            files_kept,
            chunks_capped,
            bytes_capped,
        ];
        counted.iter().for_each(|counter| counter.clear());
        self.set_current(&[]);
    }

    /// Sets who is told of each file. Only the first call has an effect.
    pub fn observe_files(&self, observer: Box<FileObserver>) {
        drop(self.observer.0.set(observer));
    }

    pub(crate) fn tell(&self, fate: FileFate, file: &ListingEntry) {
        if let Some(observer) = self.observer.0.get() {
            observer(fate, file);
        }
    }

    /// Sets the path that is read now.
    pub fn set_current(&self, path: &[u8]) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        current.clear();
        current.extend_from_slice(path);
    }

    /// The path that is read now.
    #[must_use]
    pub fn current(&self) -> Vec<u8> {
        self.current
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// The counts of the client. The store's counts are 0.
    #[must_use]
    pub fn of_client(&self) -> BackupTotals {
        BackupTotals {
            files: self.files.get(),
            folders: self.folders.get(),
            others: self.others.get(),
            files_new: self.files_new.get(),
            files_changed: self.files_changed.get(),
            files_unchanged: self.files_unchanged.get(),
            files_failed: self.files_failed.get(),
            bytes_logical: self.bytes_logical.get(),
            bytes_read: self.bytes_read.get(),
            chunks: self.chunks.get(),
            ..BackupTotals::default()
        }
    }

    /// The counts of a client, with the store's counts from here.
    pub(crate) fn with_stored(&self, client: BackupTotals) -> BackupTotals {
        BackupTotals {
            bytes_new: self.bytes_new.get(),
            bytes_stored: self.bytes_stored.get(),
            chunks_new: self.chunks_new.get(),
            segments: self.segments.get(),
            segments_known: self.segments_known.get(),
            ..client
        }
    }
}
