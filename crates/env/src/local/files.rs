//! Files as objects: writing from parts, reading in full, and the meaning of the system's errors.

use std::fs::{self, File, Metadata};
use std::io::{self, IoSlice, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use rustix::fs::{OFlags, Stat};
use types::{ObjectName, UnixNanos};

use super::folders::misplaced;
use crate::{ObjectMeta, StorageError};

/// How this crate opens a file that somebody else may have put there: it follows no link, and does
/// not wait for the other end of a pipe.
pub(super) const UNTRUSTED: OFlags = OFlags::NONBLOCK.union(OFlags::NOFOLLOW);

/// Converts an error of the system to one of the storage.
pub(super) fn io_error(action: &'static str, name: &str, error: io::Error) -> StorageError {
    if let Some(found) = misplaced(&error) {
        return StorageError::Misplaced {
            place: found.place.clone(),
        };
    }
    let name = name.to_owned();
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => StorageError::NoSpace { name },
        io::ErrorKind::PermissionDenied => StorageError::Denied { name },
        io::ErrorKind::ReadOnlyFilesystem => StorageError::ReadOnly { name },
        _ => StorageError::Io {
            action,
            name,
            source: error,
        },
    }
}

/// Whether the error means that nothing exists: no such file, no folder where one is needed, or a
/// link that is not followed.
pub(super) fn absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    ) || error.raw_os_error() == Some(libc::ELOOP)
}

/// The needed attributes of a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Attributes {
    pub(super) inode: u64,
    /// Seconds and nanoseconds.
    pub(super) modified: (i64, i64),
    len: u64,
    /// The number of blocks of 512 bytes.
    blocks: u64,
}

impl From<&Metadata> for Attributes {
    fn from(metadata: &Metadata) -> Self {
        Self {
            inode: metadata.ino(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            len: metadata.len(),
            blocks: metadata.blocks(),
        }
    }
}

impl From<&Stat> for Attributes {
    #[allow(
        clippy::useless_conversion,
        clippy::unnecessary_fallible_conversions,
        reason = "the fields' widths differ between architectures"
    )]
    fn from(stat: &Stat) -> Self {
        let count = |n: i64| u64::try_from(n).unwrap_or(0);
        Self {
            inode: stat.st_ino.into(),
            modified: (stat.st_mtime.into(), stat.st_mtime_nsec.try_into().unwrap_or(0)),
            len: count(stat.st_size.into()),
            blocks: count(stat.st_blocks.into()),
        }
    }
}

pub(super) fn object_meta(name: ObjectName, attributes: impl Into<Attributes>) -> ObjectMeta {
    let attributes = attributes.into();
    let (seconds, nanos) = attributes.modified;
    ObjectMeta {
        name,
        len: attributes.len,
        space: attributes.len.min(attributes.blocks * 512),
        put_at: UnixNanos::new(seconds.saturating_mul(1_000_000_000).saturating_add(nanos)),
    }
}

pub(super) fn write_parts(file: &mut File, parts: &[&[u8]]) -> io::Result<()> {
    let mut slices: Vec<IoSlice<'_>> = parts
        .iter()
        .filter(|part| !part.is_empty())
        .map(|part| IoSlice::new(part))
        .collect();
    let mut rest = slices.as_mut_slice();
    while !rest.is_empty() {
        // Passes as many parts as the system takes in one call.
        match file.write_vectored(rest) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => IoSlice::advance_slices(&mut rest, written),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads `len` bytes, the length in the file's metadata.
pub(super) fn read_at(
    file: &File,
    name: &ObjectName,
    offset: u64,
    len: u64,
) -> Result<Vec<u8>, StorageError> {
    let fail = |error| io_error("read", name.as_str(), error);
    let mut bytes = Vec::new();
    // A damaged file system may claim any length: an error is better than running out of memory.
    let len = usize::try_from(len).map_err(|_| fail(io::ErrorKind::OutOfMemory.into()))?;
    bytes
        .try_reserve_exact(len)
        .map_err(|_| fail(io::ErrorKind::OutOfMemory.into()))?;
    bytes.resize(len, 0);
    file.read_exact_at(&mut bytes, offset).map_err(fail)?;
    Ok(bytes)
}

/// Creates a folder by `make`, and missing ones above it with the usual permissions. Makes the
/// entry of each durable in the folder above it.
pub(super) fn create_durably(folder: &Path, make: &dyn Fn(&Path) -> io::Result<()>) -> io::Result<()> {
    if folder.as_os_str().is_empty() || folder.is_dir() {
        return Ok(());
    }
    let above = folder.parent().filter(|path| !path.as_os_str().is_empty());
    if let Some(above) = above {
        create_durably(above, &|above| fs::create_dir(above))?;
    }
    match make(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => {}
        outcome => outcome?,
    }
    File::open(above.unwrap_or(Path::new(".")))?.sync_all()
}
