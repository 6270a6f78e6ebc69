//! The system calls that write, publish and sync files, behind a trait, so that tests can make them
//! fail.
//!
//! Everything here blocks. Many threads may call it, and it keeps no state.

use std::fmt;
use std::fs::File;
use std::io;

use rustix::fs::{AtFlags, linkat};
use types::ByteRange;

use super::place::Place;
use super::writeback;

/// The calls to the system. Tests wrap [`Kernel`] to count them and to make them fail.
pub(super) trait Calls: Send + Sync + fmt::Debug {
    /// Gives a file a second name, unless that name is taken.
    fn link(&self, from: Place<'_>, to: Place<'_>) -> io::Result<()> {
        let how = AtFlags::empty();
        Ok(linkat(from.folder, from.name, to.folder, to.name, how)?)
    }

    /// Renames a file, unless the new name is taken.
    fn rename_new(&self, from: Place<'_>, to: Place<'_>) -> io::Result<()> {
        rename_new(from, to)
    }

    /// Makes later writes bypass the page cache, or use it again.
    fn set_direct(&self, file: &File, direct: bool) -> io::Result<()> {
        set_direct(file, direct)
    }

    /// Reserves space for so many bytes, if the file system can. Fails only if there is no space.
    fn reserve(&self, file: &File, bytes: u64) -> io::Result<()> {
        reserve(file, bytes)
    }

    /// Writes bytes at an offset. Returns how many were written.
    fn write_at(&self, file: &File, bytes: &[u8], offset: u64) -> io::Result<usize> {
        std::os::unix::fs::FileExt::write_at(file, bytes, offset)
    }

    /// Gives the whole blocks in a range of the file back to the file system. They then read as
    /// zeros.
    fn give_back(&self, file: &File, range: ByteRange) -> io::Result<()> {
        give_back(file, range)
    }

    /// Makes the system begin to write the file. This is a hint, so a failure does not matter.
    fn start_write_back(&self, file: &File) {
        writeback::start(file);
    }

    /// Returns when the file's bytes and length are durable.
    fn sync_file(&self, file: &File) -> io::Result<()> {
        again_if_interrupted(|| file.sync_data())
    }

    /// Returns when the folder's entries are durable.
    fn sync_folder(&self, folder: &File) -> io::Result<()> {
        again_if_interrupted(|| folder.sync_all())
    }

    /// Whether this system supports [`Self::sync_all`].
    fn can_sync_all(&self) -> bool {
        cfg!(target_os = "linux")
    }

    /// Returns when the folder's whole file system is durable. Reports every failed write since
    /// `root` was opened, once (Linux 5.8 or later).
    fn sync_all(&self, root: &File) -> io::Result<()> {
        again_if_interrupted(|| sync_all(root))
    }
}

/// The system itself.
#[derive(Debug)]
pub(super) struct Kernel;

impl Calls for Kernel {}

fn again_if_interrupted(mut call: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            outcome => return outcome,
        }
    }
}

#[cfg(target_os = "linux")]
fn rename_new(from: Place<'_>, to: Place<'_>) -> io::Result<()> {
    use rustix::fs::{RenameFlags, renameat_with};
    let how = RenameFlags::NOREPLACE;
    Ok(renameat_with(from.folder, from.name, to.folder, to.name, how)?)
}

#[cfg(not(target_os = "linux"))]
fn rename_new(_: Place<'_>, _: Place<'_>) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(target_os = "linux")]
pub(super) fn set_direct(file: &File, direct: bool) -> io::Result<()> {
    use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
    let mut flags = fcntl_getfl(file)?;
    flags.set(OFlags::DIRECT, direct);
    Ok(fcntl_setfl(file, flags)?)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn set_direct(_: &File, direct: bool) -> io::Result<()> {
    if direct {
        Err(io::ErrorKind::Unsupported.into())
    } else {
        Ok(())
    }
}

#[cfg(target_os = "linux")]
fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    match fallocate(file, FallocateFlags::empty(), 0, bytes).map_err(io::Error::from) {
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
            ) =>
        {
            Err(error)
        }
        // The file system does not support it, or a signal arrived: writing takes the space.
        _ => Ok(()),
    }
}

#[cfg(not(target_os = "linux"))]
fn reserve(_: &File, _: u64) -> io::Result<()> {
    Ok(())
}

#[cfg(target_os = "linux")]
fn give_back(file: &File, range: ByteRange) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    loop {
        match fallocate(file, flags, range.offset, range.len).map_err(io::Error::from) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            outcome => return outcome,
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn give_back(_: &File, _: ByteRange) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(target_os = "linux")]
fn sync_all(root: &File) -> io::Result<()> {
    Ok(rustix::fs::syncfs(root)?)
}

#[cfg(not(target_os = "linux"))]
fn sync_all(_: &File) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
