//! Giving parts of a file back to the file system, under another name.
//!
//! Invariant: a file with a second name, as in a copy of the store by hard links, keeps its bytes:
//! the owner of the copy relies on them. The rename comes first, in one call that replaces nothing,
//! so that the file has one of the names at any moment. Only whole blocks are given back: nothing
//! is written. Bytes that the file system does not free stay unchanged.

use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{OFlags, renameat};
use types::{ByteRange, ObjectName};

use super::LocalStorage;
use super::files::{UNTRUSTED, absent, io_error};
use super::place::{self, Place};
use super::tracker::FileId;
use crate::StorageError;

/// The block length for file systems that report none, or an implausible one.
const BLOCK_BYTES: u64 = 4096;
const BLOCK_BYTES_MAX: u64 = 64 << 10;

impl LocalStorage {
    pub(super) fn may_trim(&self, name: &ObjectName) -> Result<bool, StorageError> {
        let opened = self.open_to_trim(name);
        let opened = opened.and_then(|file| Ok((file.metadata()?, file)));
        let (metadata, _) = match opened {
            Ok(opened) => opened,
            Err(error) if absent(&error) => {
                self.tracker.missed(name);
                return Err(StorageError::NotFound { name: name.clone() });
            }
            // The file belongs to another user, or has another name: it can be copied.
            Err(_) => return self.head_of(name).map(|_| false),
        };
        self.tracker.seen(name, FileId::of(&metadata));
        Ok(is_alone(&metadata) && self.takes_back())
    }

    pub(super) fn give_back(
        &self,
        from: &ObjectName,
        to: &ObjectName,
        ranges: &[ByteRange],
    ) -> Result<bool, StorageError> {
        match self.folders.at(to.as_str(), place::stat) {
            Ok(_) => {}
            Err(error) if absent(&error) => self.rename(from, to)?,
            Err(error) => return Err(io_error("look up", to.as_str(), error)),
        }
        // If bytes are not given back, only space is lost, until the container is rewritten.
        let given_back = self.open_to_trim(to).and_then(|file| {
            let metadata = file.metadata()?;
            let given_back = is_alone(&metadata) && self.punch(&file, &metadata, ranges)?;
            Ok((given_back, file.metadata()?))
        });
        match given_back {
            Ok((given_back, metadata)) => {
                self.tracker.seen(to, FileId::of(&metadata));
                Ok(given_back)
            }
            Err(error) if absent(&error) => {
                self.tracker.missed(to);
                Err(StorageError::NotFound { name: from.clone() })
            }
            Err(_) => self.head_of(to).map(|_| false),
        }
    }

    /// Renames without replacing. If the new name is taken, another process has done the same.
    fn rename(&self, from: &ObjectName, to: &ObjectName) -> Result<(), StorageError> {
        let both = |act: &dyn Fn(Place<'_>, Place<'_>) -> io::Result<()>| {
            self.folders.at(from.as_str(), |old| {
                self.folders.at(to.as_str(), |new| act(old, new))
            })
        };
        let mut renamed = both(&|old, new| self.calls.rename_new(old, new));
        let is_refused = |renamed: &io::Result<()>| {
            let other = [io::ErrorKind::AlreadyExists, io::ErrorKind::NotFound];
            renamed
                .as_ref()
                .is_err_and(|error| !other.contains(&error.kind()))
        };
        // File systems without that call. A crash between the two leaves both names, and the first
        // one is deleted later.
        if is_refused(&renamed) {
            renamed = both(&|old, new| self.calls.link(old, new).and_then(|()| place::remove_file(old)));
        }
        // Without links either. A moment ago the new name was free.
        if is_refused(&renamed) {
            renamed = both(&|old, new| Ok(renameat(old.folder, old.name, new.folder, new.name)?));
        }
        match renamed {
            Ok(()) => {
                self.tracker.deleted(from);
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            Err(error) if absent(&error) => {
                self.tracker.missed(from);
                // Another process may have renamed it since.
                self.head_of(to).map(drop).map_err(|error| match error {
                    StorageError::NotFound { .. } => StorageError::NotFound { name: from.clone() },
                    other => other,
                })
            }
            Err(error) => Err(io_error("rename", from.as_str(), error)),
        }
    }

    fn punch(&self, file: &File, metadata: &Metadata, ranges: &[ByteRange]) -> io::Result<bool> {
        let block = match metadata.blksize() {
            block if block.is_power_of_two() && block <= BLOCK_BYTES_MAX => block.max(512),
            _ => BLOCK_BYTES,
        };
        let mut given_back = false;
        for range in ranges {
            let begin = range.offset.next_multiple_of(block);
            // At the end of the file, the last partial block has no other bytes.
            let end = match range.end() {
                end if end >= metadata.len() => end,
                end => end / block * block,
            };
            if begin < end {
                let offset = begin;
                self.calls.give_back(
                    file,
                    ByteRange {
                        offset,
                        len: end - begin,
                    },
                )?;
                given_back = true;
            }
        }
        Ok(given_back)
    }

    fn open_to_trim(&self, name: &ObjectName) -> io::Result<File> {
        let how = OFlags::WRONLY | UNTRUSTED;
        Ok(self.folders.open(name.as_str(), how)?.into())
    }

    /// Whether the file system can free parts of files. It is tried on a file without a name, or on
    /// a temporary one, until there is an answer.
    fn takes_back(&self) -> bool {
        if let Some(known) = self.trims.get() {
            return *known;
        }
        let range = ByteRange {
            offset: 0,
            len: BLOCK_BYTES,
        };
        let tried = match open_nameless(&self.root) {
            Ok(file) => self.calls.give_back(&file, range),
            Err(_) => {
                let temporary = self.temporaries.create(&self.folders);
                temporary.and_then(|temporary| self.calls.give_back(&temporary.file, range))
            }
        };
        match tried {
            Ok(()) => *self.trims.get_or_init(|| true),
            Err(error) if error.kind() == io::ErrorKind::Unsupported => *self.trims.get_or_init(|| false),
            // A full disk, or a store without write permission: no answer.
            Err(_) => false,
        }
    }
}

/// Whether the file has no other name.
fn is_alone(metadata: &Metadata) -> bool {
    metadata.is_file() && metadata.nlink() == 1
}

/// A new file without a name.
#[cfg(target_os = "linux")]
fn open_nameless(folder: &Path) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .custom_flags(libc::O_TMPFILE)
        .open(folder)
}

/// Other systems give every new file a name.
#[cfg(not(target_os = "linux"))]
fn open_nameless(_: &Path) -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}
