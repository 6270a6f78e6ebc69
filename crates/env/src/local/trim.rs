//! Giving parts of a file back to the file system, under another name.
//!
//! What must hold: a file with another name that is not ours, as a copy of the store by hard links has, is left alone: who
//! made it counts on its bytes. The rename comes first, in one call, so that the file has one of the names at any moment.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};

use types::{ByteRange, ObjectName};

use super::LocalStorage;
use super::files::{absent, io_error};
use super::tracker::FileId;
use crate::StorageError;

/// What is tried on a file of our own: two blocks of any file system that is in use.
const TRIED_BYTES: usize = 128 << 10;

impl LocalStorage {
    pub(super) fn may_trim(&self, name: &ObjectName) -> Result<bool, StorageError> {
        let file = match self.open_to_trim(name) {
            Ok(file) => file,
            Err(error) if absent(&error) => {
                self.tracker.missed(name);
                return Err(StorageError::NotFound { name: name.clone() });
            }
            // Somebody else's file in a store of several users: it can be copied.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
                ) =>
            {
                return Ok(false);
            }
            Err(error) => return Err(io_error("open", name.as_str(), error)),
        };
        let metadata = file.metadata();
        let metadata = metadata.map_err(|error| io_error("look up", name.as_str(), error))?;
        self.tracker.seen(name, FileId::of(&metadata));
        Ok(metadata.is_file() && metadata.nlink() == 1 && *self.trims.get_or_init(|| self.try_trim()))
    }

    pub(super) fn give_back(
        &self,
        from: &ObjectName,
        to: &ObjectName,
        ranges: &[ByteRange],
    ) -> Result<(), StorageError> {
        match fs::rename(self.path(from), self.path(to)) {
            Ok(()) => self.tracker.deleted(from),
            Err(error) if absent(&error) => self.tracker.missed(from),
            Err(error) => return Err(io_error("rename", from.as_str(), error)),
        }
        let file = match self.open_to_trim(to) {
            Ok(file) => file,
            Err(error) if absent(&error) => {
                self.tracker.missed(to);
                return Err(StorageError::NotFound { name: from.clone() });
            }
            Err(error) => return Err(io_error("open", to.as_str(), error)),
        };
        let fail = |error| io_error("give parts back of", to.as_str(), error);
        let given_back = ranges.iter().filter(|range| range.len > 0);
        let given_back = given_back
            .map(|range| self.calls.give_back(&file, *range))
            .collect::<io::Result<()>>();
        let metadata = file.metadata().map_err(fail)?;
        self.tracker.seen(to, FileId::of(&metadata));
        given_back.map_err(fail)
    }

    fn open_to_trim(&self, name: &ObjectName) -> io::Result<File> {
        OpenOptions::new()
            .write(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW)
            .open(self.path(name))
    }

    fn try_trim(&self) -> bool {
        let tried = self.temporaries.create().and_then(|mut temporary| {
            temporary.file.write_all(&[0; TRIED_BYTES])?;
            let range = ByteRange {
                offset: 0,
                len: TRIED_BYTES as u64 / 2,
            };
            self.calls.give_back(&temporary.file, range)
        });
        tried.is_ok()
    }
}
