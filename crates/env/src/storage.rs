//! The create-only interface to all stored objects.
//!
//! Every implementation must fulfil the following. (The public suite in `conformance` checks it.)
//! An object is created once and never overwritten, but [`Storage::trim`] may remove bytes that
//! nobody reads any more. Of any number of creators of one name exactly one wins. Everybody lists
//! and reads a new object at once. A [`Storage::barrier`] must return before anything is guaranteed
//! to survive a crash.
//!
//! A barrier covers everything that its caller has put *or read or listed* before. So an
//! observation is durable before the actions that follow from it. The observations include that an
//! object is missing, and that a name was taken when the caller tried to put it. After a crash an
//! object under its final name is whole or recognisably torn (by its own digests). Many threads may
//! call all methods.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

use types::{ByteRange, ObjectName, UnixNanos};

use crate::plain::{each_deleted, folder_prefix, folders_in, is_in};
use crate::{AlignedBuffer, ListingOf, Moment, StorageError};

/// Up to so many sub-folders are listed by a request each. With more, the whole folder is listed.
pub(crate) const REQUESTS_MAX: usize = 8;

/// The storage's metadata of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectMeta {
    /// Its name.
    pub name: ObjectName,
    /// Its length in bytes.
    pub len: u64,
    /// Bytes that it takes. They are fewer than its length if some were given back
    /// ([`Storage::trim`]), or if the storage packs them.
    pub space: u64,
    /// When it was put, by the storage's own clock (INV-6).
    pub put_at: UnixNanos,
}

/// An object's bytes, shared and possibly memory-mapped.
#[derive(Clone)]
pub struct ObjectBytes(Arc<dyn Deref<Target = [u8]> + Send + Sync>);

impl ObjectBytes {
    /// Wraps an owner of bytes.
    pub fn new(holder: impl Deref<Target = [u8]> + Send + Sync + 'static) -> Self {
        Self(Arc::new(holder))
    }
}

impl Deref for ObjectBytes {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for ObjectBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.len())
    }
}

/// Whether a process lock is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockState {
    /// A live process on this host holds it.
    Held,
    /// The lock's file exists on this host and no process holds it: its process is dead.
    Free,
    /// The storage supports locks, but there is none of this name: nobody took it, or its holder
    /// has dropped it.
    Missing,
    /// The state cannot be found out here: another host's lock, or a storage without locks.
    /// Heartbeats decide.
    Unknown,
}

/// A held process lock. Dropping it frees it, and so does the end of the process.
pub trait ProcessLock: Send + Sync + fmt::Debug {}

/// A create-only object store.
pub trait Storage: Send + Sync + fmt::Debug {
    /// Creates the object from the parts' bytes, in order. It may return before they are durable.
    ///
    /// # Errors
    /// `AlreadyExists` if the name is taken, possibly by a rival at the same moment; `NoSpace`;
    /// others. After any error but `AlreadyExists` the whole object may exist or not. It never has
    /// another caller's bytes.
    fn put(&self, name: &ObjectName, parts: &[&[u8]]) -> Result<(), StorageError>;

    /// Returns when everything that this handle has put, deleted, read or listed before is durable.
    ///
    /// # Errors
    /// After any error, nothing since the last successful barrier counts as durable, even if a
    /// later barrier succeeds. A storage may fail all later barriers. A new handle shows the actual
    /// state.
    fn barrier(&self) -> Result<(), StorageError>;

    /// Reads the whole object.
    ///
    /// # Errors
    /// `NotFound`; others.
    fn get(&self, name: &ObjectName) -> Result<Vec<u8>, StorageError>;

    /// Reads the bytes of `range`, in full.
    ///
    /// # Errors
    /// `NotFound`; `PastEnd` if the object ends before the range does; others.
    fn get_range(&self, name: &ObjectName, range: ByteRange) -> Result<Vec<u8>, StorageError>;

    /// Like [`Storage::get_range`], into reused memory. If the storage has a page cache and the
    /// bytes are not in it, this bypasses it. Replaces the content of `into`. Returns the place of
    /// the bytes in it; the bytes around them are meaningless.
    ///
    /// # Errors
    /// As [`Storage::get_range`].
    fn get_range_into(
        &self,
        name: &ObjectName,
        range: ByteRange,
        into: &mut AlignedBuffer,
    ) -> Result<Range<usize>, StorageError> {
        let bytes = self.get_range(name, range)?;
        into.clear();
        into.extend_from_slice(&bytes);
        Ok(0..bytes.len())
    }

    /// Reads the last `len` bytes (or all, if there are fewer) and the object's whole length, in
    /// one request.
    ///
    /// # Errors
    /// `NotFound`; others.
    fn get_tail(&self, name: &ObjectName, len: u64) -> Result<(Vec<u8>, u64), StorageError>;

    /// The whole object, for repeated reading: memory-mapped if there is a file.
    ///
    /// # Errors
    /// As [`Storage::get`].
    fn map(&self, name: &ObjectName) -> Result<ObjectBytes, StorageError> {
        Ok(ObjectBytes::new(self.get(name)?))
    }

    /// Length and time of one object.
    ///
    /// # Errors
    /// `NotFound`; others.
    fn head(&self, name: &ObjectName) -> Result<ObjectMeta, StorageError>;

    /// All objects whose names begin with `folder` and `/` (all objects with `""`), sorted by name.
    /// A folder that does not exist is empty.
    ///
    /// # Errors
    /// Errors of the storage; `Io` if `folder` is neither empty nor a possible beginning of a name.
    /// A local storage returns `Misplaced` if a symbolic link is in the place of a folder.
    fn list(&self, folder: &str) -> Result<Vec<ObjectMeta>, StorageError>;

    /// Like [`Storage::list`] and sorted like it, for these immediate sub-folders of `folder` only.
    /// Their names have no slashes. The call says nothing about other sub-folders: a barrier need
    /// not cover their content.
    ///
    /// # Errors
    /// As [`Storage::list`], for `folder` and for each sub-folder.
    fn list_in(&self, folder: &str, sub_folders: &BTreeSet<String>) -> Result<Vec<ObjectMeta>, StorageError> {
        let folders = folders_in(folder, sub_folders)?;
        let mut listed = Vec::new();
        if folders.len() <= REQUESTS_MAX {
            for folder in &folders {
                listed.extend(self.list(folder)?);
            }
            // The name of a folder may be a prefix of another's.
            listed.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        } else {
            // A storage without folders lists many names in one request.
            listed = self.list(folder)?;
            listed.retain(|meta| is_in(&meta.name, folder, sub_folders));
        }
        Ok(listed)
    }

    /// Names of the immediate sub-folders of `folder` (no slashes), sorted, without listing their
    /// content. A sub-folder without objects may be left out. This does not list objects: a barrier
    /// need not cover what was seen here.
    ///
    /// # Errors
    /// As [`Storage::list`].
    fn list_folders(&self, folder: &str) -> Result<Vec<String>, StorageError>;

    /// Whether every request takes a round trip over a network. Then few large requests are better
    /// than many small ones, and many at once better than one after another.
    fn is_far(&self) -> bool {
        false
    }

    /// Digits that tell this storage from others that may hold a store of the same id, as a copied
    /// bucket does. All handles of one storage have the same. `None`: nothing is known.
    fn identity(&self) -> Option<String> {
        None
    }

    /// This moment of the handle, for [`Self::list_since`].
    fn moment(&self) -> Moment {
        Moment::default()
    }

    /// Makes these listings now, side by side, if the storage is far and its puts are durable when
    /// they return. [`Self::list_since`] then answers from them. Else it does nothing. A listing
    /// that fails is made again when somebody asks for it.
    fn look_ahead(&self, _: &[ListingOf<'_>]) {}

    /// Like [`Self::list`], but the answer may be what the folder had at any moment after `since`.
    ///
    /// # Errors
    /// As [`Self::list`].
    fn list_since(&self, folder: &str, _since: Moment) -> Result<Vec<ObjectMeta>, StorageError> {
        self.list(folder)
    }

    /// Like [`Self::list_folders`], but the answer may be what the folder had at any moment after
    /// `since`.
    ///
    /// # Errors
    /// As [`Self::list_folders`].
    fn list_folders_since(&self, folder: &str, _since: Moment) -> Result<Vec<String>, StorageError> {
        self.list_folders(folder)
    }

    /// Deletes an object.
    ///
    /// # Errors
    /// `NotFound`; others.
    fn delete(&self, name: &ObjectName) -> Result<(), StorageError>;

    /// Deletes objects in any order, in few requests if the storage is far. Objects that do not
    /// exist are passed over.
    ///
    /// # Errors
    /// Of the first object whose deletion failed. `Denied` only if all others are deleted; after
    /// another error some may be left.
    fn delete_many(&self, names: &[ObjectName]) -> Result<(), StorageError> {
        each_deleted(names, |name| self.delete(name))
    }

    /// Whether [`Storage::trim`] can give back parts of this object without copying the rest. This
    /// must be false if the bytes also have another name.
    ///
    /// # Errors
    /// `NotFound`; others.
    fn can_trim(&self, name: &ObjectName) -> Result<bool, StorageError> {
        self.head(name).map(|_| false)
    }

    /// Renames an object, and gives back the bytes of `ranges`, which must be within it. If the
    /// other name is taken, the object was renamed before. Then nothing is renamed, an object under
    /// the first name is left alone, and the ranges apply to the object under the other name. The
    /// storage decides which bytes of the ranges it gives back: afterwards they are zeros or
    /// unchanged. Returns whether any were given back.
    ///
    /// The trim is durable after the next barrier. A crash before that leaves the object under one
    /// of the names, with or without the ranges.
    ///
    /// # Errors
    /// `NotFound` if neither name exists; others. After an error the object is under one of the
    /// names, whole except for the ranges.
    fn trim(&self, from: &ObjectName, to: &ObjectName, _ranges: &[ByteRange]) -> Result<bool, StorageError> {
        // Nothing is given back, but the object gets its other name.
        match self.head(to) {
            Ok(_) => return Ok(false),
            Err(StorageError::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
        let bytes = self.get(from)?;
        match self.put(to, &[&bytes]) {
            Ok(()) | Err(StorageError::AlreadyExists { .. }) => {}
            Err(error) => return Err(error),
        }
        self.barrier()?;
        match self.delete(from) {
            Ok(()) | Err(StorageError::NotFound { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Removes a folder whose objects are deleted and which gets no new ones, so that listings need
    /// not look into it for ever. Does nothing if there are objects in it, or if the storage has no
    /// folders.
    ///
    /// # Errors
    /// Errors of the storage; `Io` if `folder` is no possible beginning of a name.
    fn drop_folder(&self, folder: &str) -> Result<(), StorageError> {
        folder_prefix(folder).map(drop)
    }

    /// Takes the process lock of that name. The returned value holds it. `None`: this storage does
    /// not support locks.
    ///
    /// # Errors
    /// `Locked` if a live process holds it, or if this cannot be found out here; others.
    fn lock(&self, name: &ObjectName) -> Result<Option<Box<dyn ProcessLock>>, StorageError>;

    /// Whether the process lock of that name is held.
    ///
    /// # Errors
    /// Errors of the storage.
    fn lock_state(&self, name: &ObjectName) -> Result<LockState, StorageError>;

    /// Removes a lock that nobody will ask for again: its state is [`LockState::Missing`] from then
    /// on. A holder keeps the lock, but it has no name any more. Does nothing if there is no such
    /// lock.
    ///
    /// # Errors
    /// Errors of the storage.
    fn drop_lock(&self, name: &ObjectName) -> Result<(), StorageError>;

    /// Drops what a cache keeps of the object: its bytes, as they were read, are wrong. Returns
    /// whether anything was dropped. Then reading again may give other bytes.
    fn drop_cached(&self, _: &ObjectName) -> bool {
        false
    }
}
