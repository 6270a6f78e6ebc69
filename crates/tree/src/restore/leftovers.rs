//! Temporary entries that killed restores have left.
//!
//! A restore removes them from each existing folder that it puts an entry into. It recognises them
//! by their name, `.onefold-PROCESS-NUMBER.tmp`, and makes sure that no process works on them. The
//! process in the name must have ended. In a container, each restore may have the same number, so
//! for a file with the restore's own number only the next rule counts. A file must not be locked,
//! because its writer, maybe on another host, holds a lock on it.

use std::os::fd::OwnedFd;

use rustix::fs::{AtFlags, Dir, FileType, FlockOperation, Mode, OFlags, flock, openat, statat, unlinkat};
use rustix::process::{Pid, test_kill_process};

use crate::retry::retry;

/// The `number`th temporary name of a process.
pub(super) fn name(process: u32, number: u64) -> Vec<u8> {
    format!(".onefold-{process}-{number}.tmp").into_bytes()
}

/// The process in a temporary name.
fn process_of(name: &[u8]) -> Option<i32> {
    let text = std::str::from_utf8(name).ok()?;
    let numbers = text.strip_prefix(".onefold-")?.strip_suffix(".tmp")?;
    let (process, number) = numbers.split_once('-')?;
    let (process, number) = (process.parse().ok()?, number.parse().ok()?);
    // Another program made a name with another spelling of the numbers.
    (process > 0 && self::name(process, number) == name).then_some(())?;
    process.try_into().ok()
}

/// Whether a restore made the name, and removes it by itself.
pub(super) fn is_ours(name: &[u8]) -> bool {
    process_of(name).is_some()
}

/// Removes them from a folder. Entries that cannot be listed or removed stay, and do no harm.
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
    let has_ended =
        Pid::from_raw(process).is_some_and(|pid| test_kill_process(pid) == Err(rustix::io::Errno::SRCH));
    let is_our_number = u32::try_from(process) == Ok(std::process::id());
    if !has_ended && !is_our_number {
        return false;
    }
    let Ok(stat) = statat(at, name, AtFlags::SYMLINK_NOFOLLOW) else {
        return false;
    };
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return has_ended;
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
            ".onefold--1-7.tmp",
            ".onefold-0-7.tmp",
            ".onefold-012-7.tmp",
            ".onefold-+12-7.tmp",
            ".onefold-12-07.tmp",
        ] {
            assert_eq!(process_of(other.as_bytes()), None, "{other}");
        }
    }

    #[test]
    fn files_of_living_or_foreign_processes_stay() {
        let dir = tempfile::tempdir().unwrap();
        let mut ended = std::process::Command::new("true").spawn().unwrap();
        ended.wait().unwrap();
        let ours = name(ended.id(), 1);
        let of_our_number = name(std::process::id(), 900);
        let kept = [
            name(std::os::unix::process::parent_id(), 1),
            format!(".onefold-0{}-1.tmp", ended.id()).into_bytes(),
        ];
        let path = |name: &[u8]| dir.path().join(std::str::from_utf8(name).unwrap());
        for name in kept.iter().chain([&ours, &of_our_number]) {
            std::fs::write(path(name), "").unwrap();
        }
        let at = OwnedFd::from(std::fs::File::open(dir.path()).unwrap());
        let held = std::fs::File::open(path(&ours)).unwrap();
        flock(&held, FlockOperation::LockExclusive).unwrap();
        remove(&at);
        assert!(path(&ours).exists(), "its writer holds a lock on it");
        assert!(!path(&of_our_number).exists());
        drop(held);
        remove(&at);
        assert!(!path(&ours).exists());
        assert!(kept.iter().all(|name| path(name).exists()));
    }
}
