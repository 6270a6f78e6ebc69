//! A storage that keeps some of what it reads and puts in a folder of this machine, so that it need
//! not be read again from an object store.
//!
//! Objects are created once and never changed, so bytes of an object stay right while it exists. It
//! may be deleted behind the cache's back, and a name may be used again after that. So a
//! [`CachePolicy`] says of each name how a kept object counts ([`Keep`]): while a listing of this
//! handle shows it, or within a period that the caller declares ([`CachedStorage::enter`]). All
//! else passes to the storage: listings, heads, locks, barriers, and reads of other objects.
//!
//! Kept are the stored bytes, which are sealed, so the folder reveals nothing that the storage does
//! not. Entries have digests. A damaged one is dropped, and the object is read from the storage. If
//! bytes turn out wrong later, [`Storage::drop_cached`] drops them. An error of the folder never
//! fails an operation. Many threads may call everything; many processes may share the folder.
//!
//! A storage without locks gets locks of this machine ([`CachedStorage::with_locks`]).

mod entry;
mod folder;
mod locks;
mod policy;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use types::{ByteRange, ObjectName, UnixNanos};

use self::entry::{Entry, Header, Stamp};
use self::folder::{Folder, Which};
use self::locks::HostLocks;
pub use self::policy::{CachePolicy, Keep};
use crate::plain::folder_prefix;
use crate::{
    AlignedBuffer, Clock, ListingOf, LockState, Moment, ObjectBytes, ObjectMeta, ProcessLock, Storage,
    StorageError,
};

/// The most objects whose listing is remembered (INV-7).
const LISTED_MAX: usize = 1 << 17;

/// The time of an object that this handle has put, until a listing shows it.
const NOT_SEEN: UnixNanos = UnixNanos::new(i64::MIN);

/// Another storage, with a cache in a folder.
#[derive(Debug)]
pub struct CachedStorage {
    inner: Arc<dyn Storage>,
    policy: Box<dyn CachePolicy>,
    folder: Folder,
    /// Length and time of the objects that the last listings showed.
    listed: Mutex<BTreeMap<ObjectName, (u64, UnixNanos)>>,
    period: Mutex<Option<u64>>,
    /// Guards that exist.
    past: AtomicUsize,
    locks: Option<HostLocks>,
}

/// While this exists, reads pass the cache and fill nothing.
#[derive(Debug)]
pub struct PastCache<'a>(&'a CachedStorage);

impl Drop for PastCache<'_> {
    fn drop(&mut self) {
        self.0.past.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The bytes of parts from `offset` on.
fn from_offset(parts: &[&[u8]], offset: u64) -> Vec<u8> {
    let mut skip = usize::try_from(offset).unwrap_or(usize::MAX);
    let mut bytes = Vec::new();
    for part in parts {
        bytes.extend_from_slice(part.get(skip..).unwrap_or_default());
        skip = skip.saturating_sub(part.len());
    }
    bytes
}

impl CachedStorage {
    /// A cache of `inner` in a folder that caches of other stores may share. `store` names the
    /// store in it, in digits and letters. All entries of the folder take about `bytes_max` bytes
    /// at most. Makes no folder before something is kept.
    #[must_use]
    pub fn new(
        inner: Arc<dyn Storage>,
        folder: &Path,
        store: &str,
        bytes_max: u64,
        policy: Box<dyn CachePolicy>,
        clock: Arc<dyn Clock>,
    ) -> Self {
        Self {
            inner,
            policy,
            folder: Folder::new(folder, store, bytes_max, clock),
            listed: Mutex::default(),
            period: Mutex::default(),
            past: AtomicUsize::new(0),
            locks: None,
        }
    }

    /// Gives the storage process locks in this folder, if it has none itself. Processes of this
    /// machine that use the same folder see them. The folder belongs to one store.
    #[must_use]
    pub fn with_locks(mut self, folder: &Path) -> Self {
        self.locks = Some(HostLocks::new(folder));
        self
    }

    /// Begins a period, which ends the earlier ones: what was kept in them counts no more. What is
    /// read or put from now on is kept in this one. Before the first call nothing counts that is
    /// kept by period, and nothing is kept so. A lower number than the last one changes nothing.
    pub fn enter(&self, period: u64) {
        let mut current = self.period.lock().unwrap_or_else(PoisonError::into_inner);
        *current = (*current).max(Some(period));
    }

    /// Passes the cache until the returned value is dropped: for what has to see the storage.
    #[must_use]
    pub fn pass(&self) -> PastCache<'_> {
        self.past.fetch_add(1, Ordering::AcqRel);
        PastCache(self)
    }

    fn period(&self) -> Option<u64> {
        *self.period.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn listed(&self) -> MutexGuard<'_, BTreeMap<ObjectName, (u64, UnixNanos)>> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How the object is kept, unless the cache is passed.
    fn keep(&self, name: &ObjectName) -> Keep {
        if self.past.load(Ordering::Acquire) > 0 {
            return Keep::Nothing;
        }
        self.policy.keep(name)
    }

    /// A missing object has no use for its entries.
    fn forget_if_missing<T>(&self, name: &ObjectName, read: &Result<T, StorageError>) {
        if matches!(read, Err(StorageError::NotFound { .. })) {
            self.folder.forget(name);
        }
    }

    /// Remembers what a listing shows of the names for which this is true, and forgets the rest of
    /// them.
    fn note_listing(&self, metas: &[ObjectMeta], prefix: &str, is_of: impl Fn(&ObjectName) -> bool) {
        let mut listed = self.listed();
        listed.retain(|name, _| !(name.as_str().starts_with(prefix) && is_of(name)));
        for meta in metas {
            if matches!(self.policy.keep(&meta.name), Keep::Listed { .. }) {
                listed.insert(meta.name.clone(), (meta.len, meta.put_at));
            }
        }
        if listed.len() > LISTED_MAX {
            listed.clear();
        }
    }

    /// The whole object, if it is kept and a listing shows it so.
    fn kept_whole(&self, name: &ObjectName) -> Option<Vec<u8>> {
        let (len, put_at) = *self.listed().get(name)?;
        let entry = self.folder.open(name, Which::End)?;
        let header = &entry.header;
        let is_it = match header.stamp {
            Stamp::PutAt(at) => at == put_at.get(),
            Stamp::Unlisted => true,
            Stamp::Period(_) => false,
        };
        let all = ByteRange { offset: 0, len };
        let is_same = is_it && header.object_len == len && header.range == all;
        if is_same {
            self.folder.read(&entry, Which::End, all)
        } else {
            None
        }
    }

    /// Keeps a whole object that a listing has shown.
    fn keep_whole(&self, name: &ObjectName, bytes: &[u8]) {
        let Some((len, put_at)) = self.listed().get(name).copied() else {
            return;
        };
        if len == bytes.len() as u64 && self.policy.is_whole(name, bytes) {
            self.keep_bytes(name, Stamp::PutAt(put_at.get()), len, 0, bytes);
        }
    }

    /// Keeps the end of an object, or all of it, from `offset` on.
    fn keep_bytes(&self, name: &ObjectName, stamp: Stamp, object_len: u64, offset: u64, bytes: &[u8]) {
        let len = bytes.len() as u64;
        let header = Header {
            name: name.clone(),
            stamp,
            object_len,
            range: ByteRange { offset, len },
        };
        let is_end = offset.checked_add(len) == Some(object_len);
        let which = if is_end { Which::End } else { Which::From(offset) };
        self.folder.keep(which, &header, bytes);
    }

    /// An entry of this period.
    fn kept_of_period(&self, name: &ObjectName, which: Which) -> Option<Entry> {
        let current = self.period()?;
        let entry = self.folder.open(name, which)?;
        let is_of = matches!(entry.header.stamp, Stamp::Period(period) if period >= current);
        is_of.then_some(entry)
    }

    /// These bytes, from the entry with the object's end or from that of the range.
    fn kept_range(&self, name: &ObjectName, range: ByteRange) -> Option<Vec<u8>> {
        [Which::From(range.offset), Which::End]
            .into_iter()
            .find_map(|which| {
                let entry = self.kept_of_period(name, which)?;
                self.folder.read(&entry, which, range)
            })
    }

    fn read_range(&self, name: &ObjectName, range: ByteRange) -> Result<Vec<u8>, StorageError> {
        if let Some(kept) = self.kept_range(name, range) {
            return Ok(kept);
        }
        let period = self.period();
        let read = self.inner.get_range(name, range);
        self.forget_if_missing(name, &read);
        let bytes = read?;
        if let Some(period) = period {
            // The object's length is not known: the entry has what comes before the end.
            self.keep_bytes(name, Stamp::Period(period), u64::MAX, range.offset, &bytes);
        }
        Ok(bytes)
    }

    fn kept_tail(&self, name: &ObjectName, len: u64) -> Option<(Vec<u8>, u64)> {
        let entry = self.kept_of_period(name, Which::End)?;
        let Header {
            object_len, range, ..
        } = entry.header;
        let len = len.min(range.len);
        let wanted = ByteRange {
            offset: object_len.checked_sub(len)?,
            len,
        };
        Some((self.folder.read(&entry, Which::End, wanted)?, object_len))
    }

    fn read_tail(&self, name: &ObjectName, len: u64) -> Result<(Vec<u8>, u64), StorageError> {
        if let Some(kept) = self.kept_tail(name, len) {
            return Ok(kept);
        }
        let period = self.period();
        let read = self.inner.get_tail(name, len);
        self.forget_if_missing(name, &read);
        let (bytes, object_len) = read?;
        if let Some(period) = period
            && let Some(kept) = self.policy.end_bytes(name, &bytes, object_len)
            && let Some(skipped) = (bytes.len() as u64).checked_sub(kept)
        {
            let end = from_offset(&[&bytes], skipped);
            self.keep_bytes(name, Stamp::Period(period), object_len, object_len - kept, &end);
        }
        Ok((bytes, object_len))
    }

    /// Forgets an object that is being deleted.
    fn forget_deleted(&self, name: &ObjectName) {
        if self.policy.keep(name) != Keep::Nothing {
            self.listed().remove(name);
            self.folder.forget(name);
        }
    }

    /// Keeps what was put.
    fn keep_put(&self, name: &ObjectName, parts: &[&[u8]], period: Option<u64>) {
        let object_len: u64 = parts.iter().map(|part| part.len() as u64).sum();
        match (self.policy.keep(name), period) {
            (Keep::Listed { when_put: true }, _) => {
                self.listed().insert(name.clone(), (object_len, NOT_SEEN));
                self.keep_bytes(name, Stamp::Unlisted, object_len, 0, &parts.concat());
            }
            (Keep::OfPeriod { ranges: true }, Some(period)) => {
                self.keep_bytes(name, Stamp::Period(period), object_len, 0, &parts.concat());
            }
            (Keep::OfPeriod { ranges: false }, Some(period)) => {
                let last = parts.last().copied().unwrap_or_default();
                if let Some(kept) = self.policy.end_bytes(name, last, object_len)
                    && let Some(offset) = object_len.checked_sub(kept)
                {
                    let end = from_offset(parts, offset);
                    self.keep_bytes(name, Stamp::Period(period), object_len, offset, &end);
                }
            }
            _ => {}
        }
    }
}

impl Storage for CachedStorage {
    fn put(&self, name: &ObjectName, parts: &[&[u8]]) -> Result<(), StorageError> {
        let period = self.period();
        self.inner.put(name, parts)?;
        self.keep_put(name, parts, period);
        Ok(())
    }

    fn barrier(&self) -> Result<(), StorageError> {
        self.inner.barrier()
    }

    fn get(&self, name: &ObjectName) -> Result<Vec<u8>, StorageError> {
        if !matches!(self.keep(name), Keep::Listed { .. }) {
            return self.inner.get(name);
        }
        if let Some(kept) = self.kept_whole(name) {
            return Ok(kept);
        }
        let read = self.inner.get(name);
        self.forget_if_missing(name, &read);
        let bytes = read?;
        self.keep_whole(name, &bytes);
        Ok(bytes)
    }

    fn map(&self, name: &ObjectName) -> Result<ObjectBytes, StorageError> {
        if !matches!(self.keep(name), Keep::Listed { .. }) {
            return self.inner.map(name);
        }
        if let Some(kept) = self.kept_whole(name) {
            return Ok(ObjectBytes::new(kept));
        }
        let read = self.inner.map(name);
        self.forget_if_missing(name, &read);
        let bytes = read?;
        self.keep_whole(name, &bytes);
        Ok(bytes)
    }

    fn get_range(&self, name: &ObjectName, range: ByteRange) -> Result<Vec<u8>, StorageError> {
        match self.keep(name) {
            Keep::OfPeriod { ranges: true } if range.len > 0 => self.read_range(name, range),
            _ => self.inner.get_range(name, range),
        }
    }

    fn get_range_into(
        &self,
        name: &ObjectName,
        range: ByteRange,
        into: &mut AlignedBuffer,
    ) -> Result<Range<usize>, StorageError> {
        match self.keep(name) {
            Keep::OfPeriod { ranges: true } if range.len > 0 => {
                let bytes = self.read_range(name, range)?;
                into.clear();
                into.extend_from_slice(&bytes);
                Ok(0..bytes.len())
            }
            _ => self.inner.get_range_into(name, range, into),
        }
    }

    fn get_tail(&self, name: &ObjectName, len: u64) -> Result<(Vec<u8>, u64), StorageError> {
        match self.keep(name) {
            Keep::OfPeriod { .. } if len > 0 => self.read_tail(name, len),
            _ => self.inner.get_tail(name, len),
        }
    }

    fn head(&self, name: &ObjectName) -> Result<ObjectMeta, StorageError> {
        self.inner.head(name)
    }

    fn list(&self, folder: &str) -> Result<Vec<ObjectMeta>, StorageError> {
        let metas = self.inner.list(folder)?;
        self.note_listing(&metas, &folder_prefix(folder)?, |_| true);
        Ok(metas)
    }

    fn list_in(&self, folder: &str, sub_folders: &BTreeSet<String>) -> Result<Vec<ObjectMeta>, StorageError> {
        let metas = self.inner.list_in(folder, sub_folders)?;
        let prefix = folder_prefix(folder)?;
        self.note_listing(&metas, &prefix, |name| {
            let rest = name.as_str().get(prefix.len()..).unwrap_or_default();
            rest.split_once('/')
                .is_some_and(|(sub, _)| sub_folders.contains(sub))
        });
        Ok(metas)
    }

    fn list_folders(&self, folder: &str) -> Result<Vec<String>, StorageError> {
        self.inner.list_folders(folder)
    }

    fn is_far(&self) -> bool {
        self.inner.is_far()
    }

    fn identity(&self) -> Option<String> {
        self.inner.identity()
    }

    fn moment(&self) -> Moment {
        self.inner.moment()
    }

    fn look_ahead(&self, all: &[ListingOf<'_>]) {
        self.inner.look_ahead(all);
    }

    fn list_since(&self, folder: &str, since: Moment) -> Result<Vec<ObjectMeta>, StorageError> {
        let metas = self.inner.list_since(folder, since)?;
        self.note_listing(&metas, &folder_prefix(folder)?, |_| true);
        Ok(metas)
    }

    fn list_folders_since(&self, folder: &str, since: Moment) -> Result<Vec<String>, StorageError> {
        self.inner.list_folders_since(folder, since)
    }

    fn delete(&self, name: &ObjectName) -> Result<(), StorageError> {
        self.forget_deleted(name);
        self.inner.delete(name)
    }

    fn delete_many(&self, names: &[ObjectName]) -> Result<(), StorageError> {
        names.iter().for_each(|name| self.forget_deleted(name));
        self.inner.delete_many(names)
    }

    fn can_trim(&self, name: &ObjectName) -> Result<bool, StorageError> {
        self.inner.can_trim(name)
    }

    fn trim(&self, from: &ObjectName, to: &ObjectName, ranges: &[ByteRange]) -> Result<bool, StorageError> {
        self.folder.forget(from);
        self.folder.forget(to);
        self.inner.trim(from, to, ranges)
    }

    fn drop_folder(&self, folder: &str) -> Result<(), StorageError> {
        self.inner.drop_folder(folder)
    }

    fn lock(&self, name: &ObjectName) -> Result<Option<Box<dyn ProcessLock>>, StorageError> {
        match (self.inner.lock(name)?, &self.locks) {
            (None, Some(locks)) => locks.take(name),
            (taken, _) => Ok(taken),
        }
    }

    fn lock_state(&self, name: &ObjectName) -> Result<LockState, StorageError> {
        match (self.inner.lock_state(name)?, &self.locks) {
            (LockState::Unknown, Some(locks)) => Ok(locks.state(name)),
            (state, _) => Ok(state),
        }
    }

    fn drop_lock(&self, name: &ObjectName) -> Result<(), StorageError> {
        if let Some(locks) = &self.locks {
            locks.forget(name);
        }
        self.inner.drop_lock(name)
    }

    fn drop_cached(&self, name: &ObjectName) -> bool {
        let was_here = self.policy.keep(name) != Keep::Nothing && self.folder.forget(name);
        self.inner.drop_cached(name) || was_here
    }
}
