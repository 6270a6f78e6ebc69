//! Starts a file's write-back early, so that the barrier finds little left to do.

#![cfg_attr(
    target_os = "linux",
    expect(
        unsafe_code,
        reason = "sync_file_range has no safe wrapper in the crates we use"
    )
)]

use std::fs::File;

/// Makes the system begin to write all dirty pages of the file. Only a hint: it makes nothing
/// durable, and a failure shows up when the file is synced.
#[cfg(target_os = "linux")]
pub(super) fn start(file: &File) {
    use std::os::fd::AsRawFd;
    // SAFETY: the call takes no pointers, and the descriptor is open for as long as `file` is
    // borrowed. It changes no memory of this process. The answer does not matter.
    unsafe {
        libc::sync_file_range(file.as_raw_fd(), 0, 0, libc::SYNC_FILE_RANGE_WRITE);
    }
}

/// Other systems have no such call.
#[cfg(not(target_os = "linux"))]
pub(super) fn start(_: &File) {}
