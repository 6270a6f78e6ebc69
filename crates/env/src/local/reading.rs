//! Large ranges, read past the page cache when they are not in it (R7).
//!
//! A restore or a check reads each byte once. Copying it through fresh pages of the page cache
//! costs more than the disk read, and drops pages that others use. So a range that is mostly cached
//! is copied from the cache, and any other is read directly (`O_DIRECT`), in whole blocks around
//! it. If the system refuses (a file system without direct reads, or with larger blocks), this and
//! all later ranges are read through the page cache.
//!
//! Any number of threads may read. Both ways give the same bytes.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering};

use types::ByteRange;

use super::cached::cached_bytes;
use super::sys::set_direct;
use crate::{ALIGN_BYTES, AlignedBuffer};

/// Shorter ranges are read through the page cache: their cost is the request, and they are read
/// again sooner.
const DIRECT_BYTES_MIN: u64 = 128 << 10;

/// Reads directly, as long as the system allows it.
#[derive(Debug, Default)]
pub(super) struct DirectReads {
    refused: AtomicBool,
}

impl DirectReads {
    /// Reads a range, which the file must have. Returns the place of its bytes in the buffer.
    pub(super) fn read(
        &self,
        file: &File,
        range: ByteRange,
        into: &mut AlignedBuffer,
    ) -> io::Result<Range<usize>> {
        let len = usize::try_from(range.len).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
        let lead = usize::try_from(range.offset % ALIGN_BYTES as u64).unwrap_or(0);
        let place = lead..lead + len;
        into.clear();
        into.grow_to(place.end.next_multiple_of(ALIGN_BYTES));
        if self.is_worth_it(file, range) {
            let begin = range.offset - lead as u64;
            match read_blocks(file, begin, into, place.end) {
                Ok(()) => return Ok(place),
                Err(error) if is_refusal(&error) => self.refused.store(true, Ordering::Relaxed),
                Err(error) => return Err(error),
            }
        }
        file.read_exact_at(&mut into[place.clone()], range.offset)?;
        Ok(place)
    }

    fn is_worth_it(&self, file: &File, range: ByteRange) -> bool {
        range.len >= DIRECT_BYTES_MIN
            && !self.refused.load(Ordering::Relaxed)
            && cached_bytes(file, range).is_some_and(|cached| cached < range.len / 2)
    }
}

/// Fills the buffer from the beginning of a block, at least up to `end`.
fn read_blocks(file: &File, begin: u64, into: &mut [u8], end: usize) -> io::Result<()> {
    set_direct(file, true)?;
    let mut done = 0;
    let mut outcome = Ok(());
    while done < end {
        match file.read_at(&mut into[done..], begin + done as u64) {
            Ok(0) => outcome = Err(io::ErrorKind::UnexpectedEof.into()),
            // This may happen only at the file's end. Elsewhere, the next read would not be
            // aligned.
            Ok(read) if done + read < end && !read.is_multiple_of(ALIGN_BYTES) => {
                outcome = Err(io::Error::from_raw_os_error(libc::EINVAL));
            }
            Ok(read) => done += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => outcome = Err(error),
        }
        if outcome.is_err() {
            break;
        }
    }
    set_direct(file, false)?;
    outcome
}

fn is_refusal(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::Unsupported
        || matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// Any range, cached or not, read directly or not, gives the file's bytes.
    #[test]
    fn a_range_is_the_same_by_every_way() {
        let mut file = tempfile::NamedTempFile::new_in(".").unwrap();
        let content: Vec<u8> = (0..300_001_u32)
            .map(|n| ((n * 7919) >> 3).to_le_bytes()[0])
            .collect();
        let content = content.repeat(5);
        file.write_all(&content).unwrap();
        file.as_file().sync_all().unwrap();
        let len = content.len() as u64;
        let ranges = [
            (0, len),
            (0, 4096),
            (1, len - 1),
            (4095, 4098),
            (4096, 1 << 20),
            (5_000, 700_001),
            (len - 1, 1),
            (len - 200_000, 200_000),
            (len, 0),
        ];
        let refusing = DirectReads {
            refused: AtomicBool::new(true),
        };
        let mut into = AlignedBuffer::with_capacity(0);
        for (offset, len) in ranges {
            for (reads, is_cold) in [
                (&DirectReads::default(), true),
                (&DirectReads::default(), false),
                (&refusing, true),
            ] {
                if is_cold {
                    rustix::fs::fadvise(file.as_file(), 0, None, rustix::fs::Advice::DontNeed).unwrap();
                }
                let place = reads
                    .read(file.as_file(), ByteRange { offset, len }, &mut into)
                    .unwrap();
                let (begin, len) = (usize::try_from(offset).unwrap(), usize::try_from(len).unwrap());
                assert!(into[place] == content[begin..begin + len], "{offset} {len}");
            }
        }
        let range = ByteRange {
            offset: 5,
            len: 1 << 20,
        };
        rustix::fs::fadvise(file.as_file(), 0, None, rustix::fs::Advice::DontNeed).unwrap();
        let reads = DirectReads::default();
        if reads.is_worth_it(file.as_file(), range) {
            reads.read(file.as_file(), range, &mut into).unwrap();
            if !reads.refused.load(Ordering::Relaxed) {
                assert!(reads.is_worth_it(file.as_file(), range), "it went past the cache");
            }
            file.as_file().read_exact_at(&mut into[..1 << 20], 5).unwrap();
            assert!(!reads.is_worth_it(file.as_file(), range), "it is cached now");
        }
    }
}
