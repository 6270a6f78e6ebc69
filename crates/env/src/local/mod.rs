//! A folder on a local (or mounted) file system, with one file for each object.
//!
//! Invariants:
//! - A file gets its final name only when all its bytes are written, by a call that fails if the
//!   name is taken ([`PublishWay`]). It never changes afterwards, except for bytes that [`trim`]
//!   gives back.
//! - Each handle tracks what its barrier must cover ([`tracker`]). Large objects are written past
//!   the page cache ([`direct`]), and write-back of others starts with the put. So little is left
//!   for the barrier.
//! - Opening, reading and listing create nothing: a store without write permission can be read.
//! - The storage creates files and folders for their owner alone, or also for a group ([`Access`]).
//! - A name is not also the folder of another name. A store is within one file system. Existing
//!   folders are never removed, except by [`Storage::drop_folder`].
//! - No operation follows a symbolic link below the store's folder ([`folders`]).
//!
//! Many threads may call all methods, and any number of processes may use the folder. After a
//! failed sync every later barrier of the handle fails, because the system may have dropped the
//! bytes that it could not write: open the store again, and look at its state. On a network file
//! system, a barrier covers other hosts' objects as far as their server has written them.

mod access;
mod barrier;
mod cached;
mod direct;
mod entries;
mod files;
mod folders;
mod host;
mod listing;
mod lock;
mod mapped;
mod place;
mod publish;
mod reading;
mod sys;
mod temporary;
#[cfg(test)]
mod tests;
mod tracker;
mod trim;
mod writeback;

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{File, Metadata};
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};

use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;
use types::{ByteRange, ObjectName};

use crate::plain::{folder_prefix, folders_in};
use crate::{AlignedBuffer, LockState, ObjectBytes, ObjectMeta, ProcessLock, Storage, StorageError};
use barrier::Barrier;
use direct::{Direct, Wrote};
use files::{UNTRUSTED, absent, create_durably, io_error, object_meta, read_at, write_parts};
use folders::Folders;
use host::Host;
use listing::Found;
use reading::DirectReads;
use sys::{Calls, Kernel};
use temporary::Temporaries;
use tracker::{Bounds, FileId, Tracker};

pub use access::Access;
pub use cached::cached_bytes;
pub use publish::PublishWay;

/// Folders beside the objects that the storage has in its folder.
pub const LOCAL_FOLDERS: [&str; 2] = [temporary::ALL, lock::ALL];

/// Smaller objects are written together with later ones: starting each by itself would only cost
/// calls.
const WRITE_BACK_BYTES_MIN: u64 = 64 << 10;

/// Options of a [`LocalStorage`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LocalOptions {
    /// The first way of publishing to try. If it does not work, the following ones are tried.
    /// Default: [`PublishWay::Link`].
    pub first_way: PublishWay,
    /// A barrier syncs at most so many files and folders one by one. With more, it syncs the file
    /// system. So many files are kept open between a put and its barrier. Default: 16.
    pub sync_calls_max: usize,
    /// The most names that are remembered as not yet durable, and the most that are remembered as
    /// durable, at some 150 bytes each. Default: 65,536. If a file system cannot be synced as a
    /// whole (on any system but Linux), all names that are not yet durable are remembered.
    pub tracked_names_max: usize,
    /// Objects of at least so many bytes are written past the page cache, if the file system can;
    /// with `u64::MAX` none is. Default: 1 MiB.
    pub direct_bytes_min: u64,
}

impl Default for LocalOptions {
    fn default() -> Self {
        Self {
            first_way: PublishWay::Link,
            sync_calls_max: 16,
            tracked_names_max: 1 << 16,
            direct_bytes_min: 1 << 20,
        }
    }
}

/// A storage in a folder of a file system, with one file for each object.
///
/// Opening, reading and listing create nothing, so that a store without write permission can be
/// read. The folder must be within one file system. A symbolic link in it is refused; a link to the
/// folder is followed. A name cannot also be the folder of other names. Only
/// [`Storage::drop_folder`] removes folders.
///
/// A barrier covers everything that this handle has put, deleted, read, listed or found missing.
/// Until it is called, it costs only a little memory. After a failed sync all later barriers of the
/// handle fail, because the system may have dropped the bytes that it could not write: open the
/// store again, and look at its state. (From version 5.8 on, Linux reports failed writes to every
/// waiting process.) On a network file system, a barrier covers other hosts' objects as far as
/// their server has written them.
///
/// [`Storage::map`] maps files into memory. If a mapped file is truncated, or its disk cannot be
/// read, the process ends with SIGBUS. On untrusted disks, read by [`Storage::get`] and
/// [`Storage::get_range`], which return errors.
pub struct LocalStorage {
    root: PathBuf,
    root_file: File,
    calls: Box<dyn Calls>,
    access: Access,
    host: Host,
    temporaries: Temporaries,
    folders: Folders,
    tracker: Tracker,
    bounds: Bounds,
    direct: Direct,
    /// The last way that worked.
    way: Mutex<PublishWay>,
    direct_reads: DirectReads,
    /// Whether the file system can free parts of files.
    trims: OnceLock<bool>,
}

impl LocalStorage {
    /// Opens an existing folder. Creates nothing. Removes temporary files of dead processes, if it
    /// may.
    ///
    /// # Errors
    /// `NoFolder` if it does not exist, `Io` if it is no folder, `Denied` if it must not be read.
    pub fn open(root: impl AsRef<Path>) -> Result<Self, StorageError> {
        Self::open_with(root, LocalOptions::default())
    }

    /// Like [`Self::open`], with options.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_with(root: impl AsRef<Path>, options: LocalOptions) -> Result<Self, StorageError> {
        Self::open_on(root.as_ref(), &options, Box::new(Kernel), Host::here())
    }

    /// Durably creates the folder, and missing ones above it. Then opens it.
    ///
    /// # Errors
    /// As [`Self::open`]; errors of creating a folder.
    pub fn create(root: impl AsRef<Path>) -> Result<Self, StorageError> {
        Self::create_for(root, Access::Owner)
    }

    /// Like [`Self::create`], with this access. If the folder exists, the group access is added if
    /// requested; otherwise nothing changes. Later files in it follow its mode.
    ///
    /// # Errors
    /// As [`Self::create`].
    pub fn create_for(root: impl AsRef<Path>, access: Access) -> Result<Self, StorageError> {
        let root = root.as_ref();
        let made =
            create_durably(root, &|folder| access.create_folder(folder)).and_then(|()| access.share(root));
        made.map_err(|error| io_error("create", &root.display().to_string(), error))?;
        Self::open(root)
    }

    fn open_on(
        root: &Path,
        options: &LocalOptions,
        calls: Box<dyn Calls>,
        host: Host,
    ) -> Result<Self, StorageError> {
        let fail = |error: io::Error| {
            let folder = root.display().to_string();
            match error.kind() {
                io::ErrorKind::NotFound => StorageError::NoFolder { folder },
                _ => io_error("open", &folder, error),
            }
        };
        let absolute = root.canonicalize().map_err(fail)?;
        let root_file = File::open(&absolute).map_err(fail)?;
        let metadata = root_file.metadata().map_err(fail)?;
        if !metadata.is_dir() {
            return Err(fail(io::ErrorKind::NotADirectory.into()));
        }
        let access = Access::of_metadata(&metadata);
        let folders = Folders::new(absolute.clone());
        let temporaries = Temporaries::new(access, host);
        temporaries.sweep(&folders);
        let bounds = Bounds {
            sync_calls_max: options.sync_calls_max,
            names_max: options.tracked_names_max,
            // If names were dropped, only a sync of the whole file system would do.
            pending_max: if calls.can_sync_all() {
                options.tracked_names_max
            } else {
                usize::MAX
            },
        };
        Ok(Self {
            root: absolute,
            root_file,
            calls,
            access,
            host,
            temporaries,
            folders,
            tracker: Tracker::new(bounds),
            bounds,
            direct: Direct::new(options.direct_bytes_min),
            way: Mutex::new(options.first_way),
            direct_reads: DirectReads::default(),
            trims: OnceLock::new(),
        })
    }

    /// The folder.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Opens an object for reading, and records that it was seen or missed.
    fn open_object(&self, name: &ObjectName) -> Result<(File, Metadata), StorageError> {
        let opened = self.folders.open(name.as_str(), OFlags::RDONLY | UNTRUSTED);
        let opened = opened.map(File::from).and_then(|file| {
            let metadata = file.metadata()?;
            Ok((file, metadata))
        });
        match opened {
            Ok((file, metadata)) if metadata.is_file() => {
                self.tracker.seen(name, FileId::of(&metadata));
                Ok((file, metadata))
            }
            Ok(_) => Err(StorageError::NotFound { name: name.clone() }),
            Err(error) if absent(&error) => {
                self.tracker.missed(name);
                Err(StorageError::NotFound { name: name.clone() })
            }
            Err(error) => Err(io_error("open", name.as_str(), error)),
        }
    }

    fn note_listed(&self, folder: &str, found: io::Result<Found>) -> Result<Vec<ObjectMeta>, StorageError> {
        let found = found.map_err(|error| io_error("list", folder, error))?;
        let seen = found.objects.iter().map(|(meta, id)| (&meta.name, *id));
        self.tracker
            .listed(seen, found.folders.iter().map(String::as_str));
        Ok(found.objects.into_iter().map(|(meta, _)| meta).collect())
    }

    fn head_of(&self, name: &ObjectName) -> Result<ObjectMeta, StorageError> {
        match self.folders.at(name.as_str(), place::stat) {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile => {
                self.tracker.seen(name, FileId::of(&stat));
                Ok(object_meta(name.clone(), &stat))
            }
            Ok(_) => Err(StorageError::NotFound { name: name.clone() }),
            Err(error) if absent(&error) => {
                self.tracker.missed(name);
                Err(StorageError::NotFound { name: name.clone() })
            }
            Err(error) => Err(io_error("look up", name.as_str(), error)),
        }
    }

    /// Opens an object that must have all bytes of the range.
    fn open_for_range(&self, name: &ObjectName, range: ByteRange) -> Result<File, StorageError> {
        let (file, metadata) = self.open_object(name)?;
        let end = range.offset.checked_add(range.len);
        match end.filter(|end| *end <= metadata.len()) {
            Some(_) => Ok(file),
            None => Err(StorageError::PastEnd {
                name: name.clone(),
                len: metadata.len(),
                end: range.end(),
            }),
        }
    }
}

impl fmt::Debug for LocalStorage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LocalStorage({})", self.root.display())
    }
}

/// Reads once more if another host has removed the file since it was opened, as a network file
/// system says by this error. A removed object is not found then.
fn once_more<T>(mut read: impl FnMut() -> Result<T, StorageError>) -> Result<T, StorageError> {
    match read() {
        Err(StorageError::Io { source, .. }) if source.kind() == io::ErrorKind::StaleNetworkFileHandle => {
            read()
        }
        outcome => outcome,
    }
}

impl Storage for LocalStorage {
    fn put(&self, name: &ObjectName, parts: &[&[u8]]) -> Result<(), StorageError> {
        let fail = |error| io_error("write", name.as_str(), error);
        let mut temporary = self.temporaries.create(&self.folders).map_err(fail)?;
        let wrote = self.direct.write(&*self.calls, &temporary.file, parts);
        let wrote = wrote.map_err(fail)?;
        if wrote == Wrote::Nothing {
            write_parts(&mut temporary.file, parts).map_err(fail)?;
        }
        let metadata = temporary.file.metadata().map_err(fail)?;
        if wrote == Wrote::Nothing && metadata.len() >= WRITE_BACK_BYTES_MIN {
            self.calls.start_write_back(&temporary.file);
        }
        // The tracker's copy of the descriptor. It is made first, because once the file is
        // published the put has succeeded.
        let file = temporary.try_clone_file().map_err(fail)?;
        match self.publish(&mut temporary, name.as_str(), name) {
            Ok(()) => {
                self.tracker.put(name, FileId::of(&metadata), file);
                Ok(())
            }
            Err(error) => {
                if matches!(error, StorageError::AlreadyExists { .. }) {
                    // The loser knows that the other's object exists, and may rely on that.
                    match self.folders.at(name.as_str(), place::stat) {
                        Ok(stat) => self.tracker.seen(name, FileId::of(&stat)),
                        Err(_) => self.tracker.missed(name),
                    }
                }
                Err(error)
            }
        }
    }

    fn barrier(&self) -> Result<(), StorageError> {
        let barrier = Barrier {
            root: &self.root,
            folders: &self.folders,
            root_file: &self.root_file,
            calls: &*self.calls,
            tracker: &self.tracker,
            bounds: self.bounds,
        };
        let again = |failure: &str| StorageError::Io {
            action: "barrier after an earlier one",
            name: self.root.display().to_string(),
            source: io::Error::other(failure.to_owned()),
        };
        self.tracker.barrier(|work| barrier.carry_out(work), again)
    }

    fn get(&self, name: &ObjectName) -> Result<Vec<u8>, StorageError> {
        once_more(|| {
            let (file, metadata) = self.open_object(name)?;
            read_at(&file, name, 0, metadata.len())
        })
    }

    fn get_range(&self, name: &ObjectName, range: ByteRange) -> Result<Vec<u8>, StorageError> {
        once_more(|| {
            let file = self.open_for_range(name, range)?;
            read_at(&file, name, range.offset, range.len)
        })
    }

    fn get_range_into(
        &self,
        name: &ObjectName,
        range: ByteRange,
        into: &mut AlignedBuffer,
    ) -> Result<Range<usize>, StorageError> {
        once_more(|| {
            let file = self.open_for_range(name, range)?;
            let read = self.direct_reads.read(&file, range, into);
            read.map_err(|error| io_error("read", name.as_str(), error))
        })
    }

    fn get_tail(&self, name: &ObjectName, len: u64) -> Result<(Vec<u8>, u64), StorageError> {
        once_more(|| {
            let (file, metadata) = self.open_object(name)?;
            let whole = metadata.len();
            let offset = whole.saturating_sub(len);
            Ok((read_at(&file, name, offset, whole - offset)?, whole))
        })
    }

    /// Memory-mapped. `local/mapped.rs` describes the risk of hostile disks.
    fn map(&self, name: &ObjectName) -> Result<ObjectBytes, StorageError> {
        let (file, metadata) = self.open_object(name)?;
        if metadata.len() == 0 {
            return Ok(ObjectBytes::new(Vec::new()));
        }
        match mapped::Mapped::new(&file) {
            Ok(mapped) => Ok(ObjectBytes::new(mapped)),
            // Some file systems, such as some of FUSE, map no files.
            Err(error) if error.raw_os_error() == Some(Errno::NODEV.raw_os_error()) => {
                Ok(ObjectBytes::new(self.get(name)?))
            }
            Err(error) => Err(io_error("map", name.as_str(), error)),
        }
    }

    fn head(&self, name: &ObjectName) -> Result<ObjectMeta, StorageError> {
        self.head_of(name)
    }

    fn list(&self, folder: &str) -> Result<Vec<ObjectMeta>, StorageError> {
        folder_prefix(folder)?;
        self.note_listed(folder, listing::walk(&self.folders, folder))
    }

    fn list_in(&self, folder: &str, sub_folders: &BTreeSet<String>) -> Result<Vec<ObjectMeta>, StorageError> {
        let folders = folders_in(folder, sub_folders)?;
        self.note_listed(folder, listing::walk_each(&self.folders, folder, folders))
    }

    fn list_folders(&self, folder: &str) -> Result<Vec<String>, StorageError> {
        folder_prefix(folder)?;
        listing::sub_folders(&self.folders, folder).map_err(|error| io_error("list", folder, error))
    }

    fn drop_folder(&self, folder: &str) -> Result<(), StorageError> {
        folder_prefix(folder)?;
        match self.folders.at(folder, place::remove_folder) {
            Ok(()) => {
                self.tracker.dropped(folder);
                Ok(())
            }
            // The folder has objects, or the name is an object's file.
            Err(error)
                if absent(&error)
                    || matches!(
                        error.kind(),
                        io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::NotADirectory
                    ) =>
            {
                Ok(())
            }
            Err(error) => Err(io_error("drop the folder", folder, error)),
        }
    }

    fn delete(&self, name: &ObjectName) -> Result<(), StorageError> {
        match self.folders.at(name.as_str(), place::remove_file) {
            Ok(()) => {
                self.tracker.deleted(name);
                Ok(())
            }
            Err(error) if absent(&error) || error.kind() == io::ErrorKind::IsADirectory => {
                self.tracker.missed(name);
                Err(StorageError::NotFound { name: name.clone() })
            }
            Err(error) => Err(io_error("delete", name.as_str(), error)),
        }
    }

    fn can_trim(&self, name: &ObjectName) -> Result<bool, StorageError> {
        self.may_trim(name)
    }

    fn trim(&self, from: &ObjectName, to: &ObjectName, ranges: &[ByteRange]) -> Result<bool, StorageError> {
        self.give_back(from, to, ranges)
    }

    fn lock(&self, name: &ObjectName) -> Result<Option<Box<dyn ProcessLock>>, StorageError> {
        self.take_lock(name)
    }

    fn lock_state(&self, name: &ObjectName) -> Result<LockState, StorageError> {
        Ok(self.ask_lock(name))
    }

    fn drop_lock(&self, name: &ObjectName) -> Result<(), StorageError> {
        self.forget_lock(name)
    }
}
