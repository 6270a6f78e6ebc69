//! The create-only object interface that everything stored goes through.
//!
//! What must hold for every implementation (the public suite in `conformance` checks it):
//! an object is created once and never overwritten (but [`Storage::trim`] may take bytes away that
//! nobody reads any more); of any number of creators of one name exactly one wins; what was put is
//! listed and read at once by everybody; nothing is promised to survive a crash until a
//! [`Storage::barrier`] has returned. A barrier covers whatever its caller has put *or read or
//! listed* before: what one acted on is durable before what follows from it. That an object is
//! missing, or that a name was taken when one tried to put it, is read, too. After a crash an
//! object under its final name is whole or recognisably torn (its own digests tell). All methods
//! may be called from many threads at once.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::{Deref, Range};
use std::sync::Arc;

use types::{ByteRange, ObjectName, UnixNanos};

use crate::plain::{folder_prefix, folders_in, is_in};
use crate::{AlignedBuffer, StorageError};

/// So many folders are listed by a request each, rather than all that is beside them.
const REQUESTS_MAX: usize = 8;

/// What a storage knows of an object without reading it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectMeta {
    /// Its name.
    pub name: ObjectName,
    /// Its length in bytes.
    pub len: u64,
    /// Bytes that it takes: less than its length where some were given back ([`Storage::trim`]), or
    /// the storage packs them.
    pub space: u64,
    /// When it was put, by the storage's own clock (INV-6).
    pub put_at: UnixNanos,
}

/// An object's bytes, shared and possibly memory-mapped.
#[derive(Clone)]
pub struct ObjectBytes(Arc<dyn Deref<Target = [u8]> + Send + Sync>);

impl ObjectBytes {
    /// Wraps whatever holds the bytes.
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
    /// The lock's file exists on this host and nobody holds it: its process is dead.
    Free,
    /// The storage has locks, and none of this name: nobody has taken it, or who took it is
    /// through.
    Missing,
    /// It cannot be told from here: another host, or a storage without locks. Heartbeats decide.
    Unknown,
}

/// A held process lock; dropping it (or dying) frees it.
pub trait ProcessLock: Send + Sync + fmt::Debug {}

/// A create-only object store.
pub trait Storage: Send + Sync + fmt::Debug {
    /// Creates the object from the parts' bytes in order. May return before they are durable.
    ///
    /// # Errors
    /// `AlreadyExists` when the name is taken, now or by a rival at the same moment; `NoSpace`;
    /// others. After any error but `AlreadyExists` the object may exist or not, whole, never under
    /// another's bytes.
    fn put(&self, name: &ObjectName, parts: &[&[u8]]) -> Result<(), StorageError>;

    /// Returns when all this handle has put, deleted, read or listed before is durable.
    ///
    /// # Errors
    /// Any error means that nothing since the last barrier may be counted on, whatever a later one
    /// says; a storage may fail all later ones. A handle opened anew tells what is there.
    fn barrier(&self) -> Result<(), StorageError>;

    /// The whole object.
    ///
    /// # Errors
    /// `NotFound`; others.
    fn get(&self, name: &ObjectName) -> Result<Vec<u8>, StorageError>;

    /// The bytes of `range`, in full.
    ///
    /// # Errors
    /// `NotFound`; `PastEnd` when the object ends before the range does; others.
    fn get_range(&self, name: &ObjectName, range: ByteRange) -> Result<Vec<u8>, StorageError>;

    /// As [`Storage::get_range`], into memory that is used again and again, past the page cache
    /// where the storage has one and the bytes are not in it. Replaces what `into` held; answers
    /// where in it the bytes stand, what is around them being of no meaning.
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

    /// The last `len` bytes (or all, if fewer) and the object's whole length, in one request.
    ///
    /// # Errors
    /// `NotFound`; others.
    fn get_tail(&self, name: &ObjectName, len: u64) -> Result<(Vec<u8>, u64), StorageError>;

    /// The whole object for reading many times: memory-mapped where there is a file.
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

    /// All objects whose names begin with `folder` followed by `/` (with `""`: all), sorted by
    /// name. A folder that does not exist is empty.
    ///
    /// # Errors
    /// Of the storage; `Io` when `folder` is neither empty nor a name that an object could have.
    fn list(&self, folder: &str) -> Result<Vec<ObjectMeta>, StorageError>;

    /// As [`Storage::list`], and sorted as that, of these immediate sub-folders of `folder` alone;
    /// their names have no slashes. It is no word on the others: a barrier need not cover what is
    /// in them.
    ///
    /// # Errors
    /// As [`Storage::list`], of `folder` and of each.
    fn list_in(&self, folder: &str, sub_folders: &BTreeSet<String>) -> Result<Vec<ObjectMeta>, StorageError> {
        let folders = folders_in(folder, sub_folders)?;
        let mut listed = Vec::new();
        if folders.len() <= REQUESTS_MAX {
            for folder in &folders {
                listed.extend(self.list(folder)?);
            }
            // A folder's name may be the beginning of another's.
            listed.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        } else {
            // A storage without folders answers for many names at once.
            listed = self.list(folder)?;
            listed.retain(|meta| is_in(&meta.name, folder, sub_folders));
        }
        Ok(listed)
    }

    /// Names of the immediate sub-folders of `folder` (no slashes), sorted, without listing what is
    /// in them. A sub-folder without any object may be left out or not. This is no listing of
    /// objects: a barrier need not cover what was seen here.
    ///
    /// # Errors
    /// As [`Storage::list`].
    fn list_folders(&self, folder: &str) -> Result<Vec<String>, StorageError>;

    /// Removes an object.
    ///
    /// # Errors
    /// `NotFound`; others.
    fn delete(&self, name: &ObjectName) -> Result<(), StorageError>;

    /// Whether [`Storage::trim`] is to be had for this object: parts of it can be given back
    /// without copying the rest, and nobody else holds its bytes by another name.
    ///
    /// # Errors
    /// `NotFound`; others.
    fn can_trim(&self, name: &ObjectName) -> Result<bool, StorageError> {
        self.head(name).map(|_| false)
    }

    /// Gives an object another name, and the bytes of `ranges`, which lie in it, back. Where the
    /// other name is taken, that is the object, renamed before: nothing is renamed, what stands
    /// under the first name is left alone, and the ranges are those of the other. What of the
    /// ranges is given back is the storage's to say: bytes in them are zeros from then on, or as
    /// they were. True where some of it was.
    ///
    /// Durable after the next barrier; a crash before that leaves it under one of the names, with
    /// or without the ranges.
    ///
    /// # Errors
    /// `NotFound` when neither name is there; others. After an error the object is under one of the
    /// names, whole but for the ranges.
    fn trim(&self, from: &ObjectName, to: &ObjectName, _ranges: &[ByteRange]) -> Result<bool, StorageError> {
        // Nothing is given back: the object has its other name all the same.
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

    /// Forgets a folder whose objects are deleted and in which nobody puts any more, so that
    /// listings need not look into it for ever. Where there are objects in it, or the storage has
    /// no folders, does nothing.
    ///
    /// # Errors
    /// Of the storage; `Io` when `folder` is no name that an object could have.
    fn drop_folder(&self, folder: &str) -> Result<(), StorageError> {
        folder_prefix(folder).map(drop)
    }

    /// Takes the process lock of that name, to be held while the returned value lives. `None`: this
    /// storage has no locks.
    ///
    /// # Errors
    /// `Locked` when a live process holds it, or when that cannot be told from here; others.
    fn lock(&self, name: &ObjectName) -> Result<Option<Box<dyn ProcessLock>>, StorageError>;

    /// Whether the process lock of that name is held.
    ///
    /// # Errors
    /// Of the storage.
    fn lock_state(&self, name: &ObjectName) -> Result<LockState, StorageError>;

    /// Forgets a lock that nobody will ask for again: its state is [`LockState::Missing`] from then
    /// on. Its holder, if there is one, keeps what has no name any longer. Without such a lock,
    /// does nothing.
    ///
    /// # Errors
    /// Of the storage.
    fn drop_lock(&self, name: &ObjectName) -> Result<(), StorageError>;
}
