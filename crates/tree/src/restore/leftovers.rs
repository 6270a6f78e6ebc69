//! Temporary entries that killed restores have left.
//!
//! A restore removes them from each existing folder that it puts an entry into. It recognises them
//! by their name, `.onefold-PROCESS-NUMBER.tmp`, and makes sure that nobody is working on them. The
//! process that writes a file holds a lock on it. For any other entry, the process in the name must
//! have ended.

use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, flock, openat, statat, unlinkat};
use rustix::process::{Pid, test_kill_process};

use crate::folder::retry;

/// The `number`th temporary name of a process.
pub(super) fn name(process: u32, number: u64) -> Vec<u8> {
    format!(".onefold-{process}-{number}.tmp").into_bytes()
}

/// The process in a temporary name.
fn process_of(name: &[u8]) -> Option<i32> {
    let text = std::str::from_utf8(name).ok()?;
    let numbers = text.strip_prefix(".onefold-")?.strip_suffix(".tmp")?;
    let (process, number) = numbers.split_once('-')?;
    number.parse::<u64>().ok()?;
    process.parse().ok()
}

/// Removes them from a folder. Entries that cannot be listed or removed stay, which is harmless.
pub(super) fn remove(at: &OwnedFd) {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(entries) = retry(|| openat(at, ".", flags, Mode::empty())).and_then(Dir::new) else {
        return;
    };
    for entry in entries.filter_map(Result::ok) {
        let name = entry.file_name().to_bytes();
        if let Some(process) = process_of(name)
            && is_abandoned(at, name, process)
        {
            unlinkat(at, name, AtFlags::empty()).ok();
        }
    }
}

fn is_abandoned(at: &OwnedFd, name: &[u8], process: i32) -> bool {
    let Ok(stat) = statat(at, name, AtFlags::SYMLINK_NOFOLLOW) else {
        return false;
    };
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Pid::from_raw(process)
            .is_some_and(|pid| test_kill_process(pid) == Err(rustix::io::Errno::SRCH));
    }
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    retry(|| openat(at, name, flags, Mode::empty()))
        .and_then(|file| flock(&file, FlockOperation::NonBlockingLockExclusive))
        .is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_names_are_recognised() {
        assert_eq!(process_of(&name(12, 7)), Some(12));
        for other in [
            ".onefold-12-7.tm",
            "onefold-12-7.tmp",
            ".onefold-a-7.tmp",
            ".onefold-12.tmp",
            ".onefold--1-x.tmp",
        ] {
            assert_eq!(process_of(other.as_bytes()), None, "{other}");
        }
    }
}
