//! A storage that drops the payload of data containers. Guo and Efstathopoulos did the same, to
//! test a store larger than their disks [Guo 4.3] (G11).
//!
//! Invariant: everything except the regions of data containers stays as it was put: their headers,
//! catalogs and trailers, recipes, manifests, marks, the index. Lengths are those of the whole
//! objects. Dropped bytes read as zeros. Zeros never match a region's digest, so a restore fails,
//! and never gives wrong bytes. Only this value knows what was dropped. So a storage must be hollow
//! from its first object on, and within one process.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use env::{LockState, ObjectMeta, ProcessLock, Storage, StorageError};
use format::container::{ContainerTail, FOOTER_BYTES, HEADER_BYTES, TailParse};
use format::names;
use types::{ByteRange, ContainerKind, ObjectName};

/// The dropped bytes of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Gap {
    offset: u64,
    len: u64,
}

/// Wraps the storage that keeps the rest. Many threads may use it at once, as that storage allows.
#[derive(Debug)]
pub struct HollowStorage {
    inner: Arc<dyn Storage>,
    gaps: Mutex<HashMap<ObjectName, Gap>>,
}

impl Gap {
    /// The payload of an object. `None` if the object is no whole data container, or is a trimmed
    /// one.
    fn of(name: &ObjectName, object: &[u8]) -> Option<Self> {
        let (id, _) = names::parse_container(name)?;
        if id.kind != ContainerKind::Data {
            return None;
        }
        let mut tail = object.get(object.len().checked_sub(FOOTER_BYTES)?..)?;
        loop {
            match ContainerTail::parse(tail, object.len() as u64).ok()? {
                TailParse::Whole(whole) => {
                    let offset = HEADER_BYTES as u64;
                    let len = whole.footer.catalog_offset.checked_sub(offset)?;
                    return (len > 0 && whole.body.is_none()).then_some(Self { offset, len });
                }
                TailParse::Need { tail_bytes } => {
                    let len = usize::try_from(tail_bytes).ok()?;
                    tail = object.get(object.len().checked_sub(len)?..)?;
                }
            }
        }
    }

    fn end(self) -> u64 {
        self.offset + self.len
    }
}

impl HollowStorage {
    /// A hollow storage. `inner` must be empty, or hold no data container of any store.
    #[must_use]
    pub fn new(inner: Arc<dyn Storage>) -> Self {
        Self {
            inner,
            gaps: Mutex::default(),
        }
    }

    /// Dropped bytes of all existing objects.
    #[must_use]
    pub fn given_up_bytes(&self) -> u64 {
        self.gaps().values().map(|gap| gap.len).sum()
    }

    fn gaps(&self) -> MutexGuard<'_, HashMap<ObjectName, Gap>> {
        self.gaps.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn gap(&self, name: &ObjectName) -> Option<Gap> {
        self.gaps().get(name).copied()
    }

    fn whole(&self, mut meta: ObjectMeta) -> ObjectMeta {
        if let Some(gap) = self.gap(&meta.name) {
            meta.len += gap.len;
            meta.space += gap.len;
        }
        meta
    }
}

impl Storage for HollowStorage {
    fn put(&self, name: &ObjectName, parts: &[&[u8]]) -> Result<(), StorageError> {
        let joined;
        let object: &[u8] = match parts {
            [one] => one,
            _ => {
                joined = parts.concat();
                &joined
            }
        };
        let Some(gap) = Gap::of(name, object) else {
            return self.inner.put(name, &[object]);
        };
        let places = usize::try_from(gap.offset)
            .ok()
            .zip(usize::try_from(gap.end()).ok());
        let (begin, end) = places.expect("the gap lies within an object that is in memory");
        // Stores the gap before the object becomes visible.
        let before = self.gaps().insert(name.clone(), gap);
        let put = self.inner.put(name, &[&object[..begin], &object[end..]]);
        if put.is_err() {
            match before {
                Some(before) => self.gaps().insert(name.clone(), before),
                None => self.gaps().remove(name),
            };
        }
        put
    }

    fn barrier(&self) -> Result<(), StorageError> {
        self.inner.barrier()
    }

    fn get(&self, name: &ObjectName) -> Result<Vec<u8>, StorageError> {
        let len = self.head(name)?.len;
        self.get_range(name, ByteRange { offset: 0, len })
    }

    fn get_range(&self, name: &ObjectName, range: ByteRange) -> Result<Vec<u8>, StorageError> {
        let Some(gap) = self.gap(name) else {
            return self.inner.get_range(name, range);
        };
        let end = range.offset.saturating_add(range.len);
        let whole = self.head(name)?.len;
        if end > whole {
            let name = name.clone();
            return Err(StorageError::PastEnd {
                name,
                len: whole,
                end,
            });
        }
        let before = range.offset.min(gap.offset)..end.min(gap.offset);
        let within = range.offset.clamp(gap.offset, gap.end())..end.clamp(gap.offset, gap.end());
        let after = range.offset.max(gap.end()) - gap.len..end.max(gap.end()) - gap.len;
        let read = |part: std::ops::Range<u64>| {
            if part.is_empty() {
                return Ok(Vec::new());
            }
            let (offset, len) = (part.start, part.end - part.start);
            self.inner.get_range(name, ByteRange { offset, len })
        };
        let mut bytes = read(before)?;
        let zeros = usize::try_from(within.end - within.start).unwrap_or(usize::MAX);
        bytes.resize(bytes.len() + zeros, 0);
        bytes.extend_from_slice(&read(after)?);
        Ok(bytes)
    }

    fn get_tail(&self, name: &ObjectName, len: u64) -> Result<(Vec<u8>, u64), StorageError> {
        let Some(gap) = self.gap(name) else {
            return self.inner.get_tail(name, len);
        };
        let (bytes, stored) = self.inner.get_tail(name, len)?;
        let whole = stored + gap.len;
        if bytes.len() as u64 <= whole - gap.end() {
            return Ok((bytes, whole));
        }
        let len = len.min(whole);
        let offset = whole - len;
        Ok((self.get_range(name, ByteRange { offset, len })?, whole))
    }

    fn head(&self, name: &ObjectName) -> Result<ObjectMeta, StorageError> {
        Ok(self.whole(self.inner.head(name)?))
    }

    fn list(&self, folder: &str) -> Result<Vec<ObjectMeta>, StorageError> {
        let listed = self.inner.list(folder)?.into_iter();
        Ok(listed.map(|meta| self.whole(meta)).collect())
    }

    fn list_in(&self, folder: &str, sub_folders: &BTreeSet<String>) -> Result<Vec<ObjectMeta>, StorageError> {
        let listed = self.inner.list_in(folder, sub_folders)?.into_iter();
        Ok(listed.map(|meta| self.whole(meta)).collect())
    }

    fn list_folders(&self, folder: &str) -> Result<Vec<String>, StorageError> {
        self.inner.list_folders(folder)
    }

    fn delete(&self, name: &ObjectName) -> Result<(), StorageError> {
        self.inner.delete(name)?;
        self.gaps().remove(name);
        Ok(())
    }

    fn can_trim(&self, name: &ObjectName) -> Result<bool, StorageError> {
        self.inner.can_trim(name)
    }

    fn trim(&self, from: &ObjectName, to: &ObjectName, ranges: &[ByteRange]) -> Result<bool, StorageError> {
        let Some(gap) = self.gap(from) else {
            // The object was renamed before, or never had a gap.
            return match self.gap(to) {
                Some(_) => Ok(false),
                None => self.inner.trim(from, to, ranges),
            };
        };
        // Its payload was dropped already.
        let moved = self.inner.trim(from, to, &[]);
        if moved.is_ok() {
            let mut gaps = self.gaps();
            gaps.remove(from);
            gaps.insert(to.clone(), gap);
        }
        moved
    }

    fn drop_folder(&self, folder: &str) -> Result<(), StorageError> {
        self.inner.drop_folder(folder)
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

#[cfg(test)]
mod tests;
