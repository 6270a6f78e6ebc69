//! Asks the system how much of a range of a file is in the page cache, without reading any of it.
//!
//! Any thread may ask. The answer is a hint, and may be out of date when it arrives. If the system
//! cannot answer (before Linux 6.5, or for files of other users), there is none.

#![cfg_attr(
    target_os = "linux",
    expect(unsafe_code, reason = "cachestat has no wrapper in the crates we use")
)]

use std::os::fd::AsFd;

use types::ByteRange;

/// `cachestat`'s number, the same on every architecture that Rust's standard library runs on.
#[cfg(target_os = "linux")]
const SYS_CACHESTAT: libc::c_long = 451;

/// Bytes of the range that are cached, in whole pages; `None` if the system does not say.
#[cfg(target_os = "linux")]
#[must_use]
pub fn cached_bytes(file: impl AsFd, range: ByteRange) -> Option<u64> {
    use std::os::fd::AsRawFd;

    /// The system's structure: pages cached, dirty, under write-back, evicted, recently evicted.
    #[repr(C)]
    #[derive(Default)]
    struct Counts([u64; 5]);
    #[repr(C)]
    struct Asked {
        offset: u64,
        len: u64,
    }
    if range.len == 0 {
        // A length of 0 would mean the file to its end.
        return None;
    }
    let asked = Asked {
        offset: range.offset,
        len: range.len,
    };
    let mut counts = Counts::default();
    // SAFETY: the descriptor is open for as long as `file` lives; both pointers are to live values
    // of the sizes that the call reads (two words) and writes (five words); no flags are known, and
    // 0 is given.
    let answer = unsafe {
        libc::syscall(
            SYS_CACHESTAT,
            file.as_fd().as_raw_fd(),
            std::ptr::from_ref(&asked),
            std::ptr::from_mut(&mut counts),
            0,
        )
    };
    // SAFETY: the call takes no pointers and only answers.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    (answer == 0).then(|| counts.0[0].saturating_mul(u64::try_from(page).unwrap_or(0)))
}

/// Other systems have no such call.
#[cfg(not(target_os = "linux"))]
#[must_use]
pub fn cached_bytes(_: impl AsFd, _: ByteRange) -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::FileExt;

    use super::*;

    /// The safe equivalent: bytes that were just written or read can be read without waiting, and
    /// count as cached.
    #[test]
    fn bytes_that_are_read_without_waiting_are_counted() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(&[1; 100_000]).unwrap();
        let range = ByteRange {
            offset: 4096,
            len: 8192,
        };
        let Some(cached) = cached_bytes(&file, range) else {
            return;
        };
        assert_eq!(cached, 8192);
        let mut bytes = [0; 8192];
        let parts = &mut [std::io::IoSliceMut::new(&mut bytes)];
        // A failure would not prove that bytes are uncached: a read without waiting makes the
        // system begin to read them.
        match rustix::io::preadv2(&file, parts, 4096, rustix::io::ReadWriteFlags::NOWAIT) {
            Err(rustix::io::Errno::OPNOTSUPP) => {}
            now => assert_eq!((now, bytes), (Ok(8192), [1; 8192])),
        }
        file.sync_all().unwrap();
        rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
        // A file system in memory evicts nothing.
        assert!(cached_bytes(&file, range).is_some_and(|cached| cached <= 8192));
        file.read_exact_at(&mut [0; 8192], 4096).unwrap();
        assert_eq!(cached_bytes(&file, range), Some(8192));
        let past = ByteRange {
            offset: 1 << 20,
            len: 4096,
        };
        assert_eq!(cached_bytes(&file, past), Some(0));
    }
}
