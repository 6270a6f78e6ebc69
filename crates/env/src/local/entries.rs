//! The entries of one open folder, by the cheapest call of the system.
//!
//! Many threads may read folders, each with a buffer of its own. An error ends the reading, except
//! that a folder which is removed meanwhile has no further entries.

use std::ffi::CStr;
use std::io;

use rustix::fd::BorrowedFd;
use rustix::fs::FileType;
use rustix::io::Errno;

/// Passes each name to `each`, with its kind if the file system gives it. `.` and `..` are names,
/// too. The names lie in the spare capacity of `buffer`.
#[cfg(target_os = "linux")]
pub(super) fn each(
    folder: BorrowedFd<'_>,
    buffer: &mut Vec<u8>,
    mut each: impl FnMut(&CStr, FileType) -> io::Result<()>,
) -> io::Result<()> {
    let mut entries = rustix::fs::RawDir::new(folder, buffer.spare_capacity_mut());
    loop {
        match entries.next() {
            None | Some(Err(Errno::NOENT)) => return Ok(()),
            Some(Err(Errno::INTR)) => {}
            Some(entry) => {
                let entry = entry?;
                each(entry.file_name(), entry.file_type())?;
            }
        }
    }
}

/// Passes each name to `each`, with its kind if the file system gives it. `.` and `..` are names,
/// too. The system's library has a buffer of its own.
#[cfg(not(target_os = "linux"))]
pub(super) fn each(
    folder: BorrowedFd<'_>,
    _: &mut Vec<u8>,
    mut each: impl FnMut(&CStr, FileType) -> io::Result<()>,
) -> io::Result<()> {
    let mut entries = rustix::fs::Dir::read_from(folder)?;
    loop {
        match entries.read() {
            None | Some(Err(Errno::NOENT)) => return Ok(()),
            Some(Err(Errno::INTR)) => {}
            Some(entry) => {
                let entry = entry?;
                each(entry.file_name(), entry.file_type())?;
            }
        }
    }
}
