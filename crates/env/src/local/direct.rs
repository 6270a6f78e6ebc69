//! Large objects, written past the page cache.
//!
//! Copying into fresh pages of the page cache costs several times as much as the disk write, and
//! objects are not read soon after they were put. So whole blocks of a large object are written
//! directly (`O_DIRECT`), from the caller's memory if that is aligned, and else from a buffer. The
//! last partial block is written through the page cache. This makes nothing durable: the bytes may
//! be in the disk's own cache, and the file system writes extents and length later. The barrier
//! syncs the file like any other.
//!
//! If the system refuses (a file system without direct writes, or with larger blocks), this object
//! and all later ones of the handle are written through the page cache. Any number of threads may
//! write. An error leaves a temporary file for the caller to remove.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use super::sys::Calls;
use crate::buffer::{ALIGN_BYTES, AlignedPool};

/// Bytes of an unaligned object that are gathered at a time.
const GATHERED_BYTES: usize = 4 << 20;
/// Gathering buffers kept for the next object.
const SPARE_MAX: usize = 2;

/// Writes directly, as long as the system allows it.
#[derive(Debug)]
pub(super) struct Direct {
    bytes_min: u64,
    refused: AtomicBool,
    gathered: AlignedPool,
}

/// The result of direct writing.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Wrote {
    /// All bytes are written.
    All,
    /// The caller must write the object through the page cache, from its beginning.
    Nothing,
}

/// Why a direct write stopped.
enum Stop {
    /// The system refuses direct writes.
    Refused,
    Failed(io::Error),
}

impl Direct {
    /// Objects of at least `bytes_min` are written directly.
    pub(super) fn new(bytes_min: u64) -> Self {
        Self {
            bytes_min,
            refused: AtomicBool::new(false),
            gathered: AlignedPool::new(GATHERED_BYTES, SPARE_MAX),
        }
    }

    /// Writes the parts to a new file, unless they have few bytes or the system refuses.
    pub(super) fn write(&self, calls: &dyn Calls, file: &File, parts: &[&[u8]]) -> io::Result<Wrote> {
        let total: usize = parts.iter().map(|part| part.len()).sum();
        let whole = total & !(ALIGN_BYTES - 1);
        if (total as u64) < self.bytes_min || whole == 0 || self.refused.load(Ordering::Relaxed) {
            return Ok(Wrote::Nothing);
        }
        if calls.set_direct(file, true).is_err() {
            return Ok(self.refuse());
        }
        let mut rest = Parts::new(parts);
        let written = calls
            .reserve(file, total as u64)
            .map_err(Stop::Failed)
            .and_then(|()| self.write_blocks(calls, file, &mut rest, whole));
        calls.set_direct(file, false)?;
        match written {
            Ok(()) => {
                let mut last = [0; ALIGN_BYTES];
                let last = &mut last[..total - whole];
                rest.fill(last);
                write_all(calls, file, last, whole as u64)?;
                Ok(Wrote::All)
            }
            Err(Stop::Refused) => Ok(self.refuse()),
            Err(Stop::Failed(error)) => Err(error),
        }
    }

    fn refuse(&self) -> Wrote {
        self.refused.store(true, Ordering::Relaxed);
        Wrote::Nothing
    }

    /// Writes the first `whole` bytes of the parts, in whole blocks.
    fn write_blocks(
        &self,
        calls: &dyn Calls,
        file: &File,
        rest: &mut Parts<'_>,
        whole: usize,
    ) -> Result<(), Stop> {
        let mut buffer = None;
        let mut offset = 0;
        while offset < whole {
            let there = rest.aligned_blocks();
            let blocks = if there.is_empty() {
                let buffer = buffer.get_or_insert_with(|| self.gathered.take());
                buffer.grow_to(GATHERED_BYTES.min(whole - offset));
                rest.fill(buffer);
                &buffer[..]
            } else {
                rest.skip(there.len());
                there
            };
            write_blocks_at(calls, file, blocks, offset as u64)?;
            offset += blocks.len();
        }
        Ok(())
    }
}

fn write_blocks_at(calls: &dyn Calls, file: &File, mut blocks: &[u8], mut offset: u64) -> Result<(), Stop> {
    while !blocks.is_empty() {
        match calls.write_at(file, blocks, offset) {
            // A part of a block was written, or nothing: the rest is not aligned.
            Ok(written) if written == 0 || !written.is_multiple_of(ALIGN_BYTES) => return Err(Stop::Refused),
            Ok(written) => {
                blocks = &blocks[written..];
                offset += written as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP)) => {
                return Err(Stop::Refused);
            }
            Err(error) => return Err(Stop::Failed(error)),
        }
    }
    Ok(())
}

fn write_all(calls: &dyn Calls, file: &File, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match calls.write_at(file, bytes, offset) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                bytes = &bytes[written..];
                offset += written as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The bytes of an object's parts that are not written yet.
struct Parts<'a> {
    first: &'a [u8],
    others: &'a [&'a [u8]],
}

impl<'a> Parts<'a> {
    fn new(parts: &'a [&'a [u8]]) -> Self {
        Self {
            first: &[],
            others: parts,
        }
    }

    /// The current part; empty only at the end.
    fn front(&mut self) -> &'a [u8] {
        while self.first.is_empty()
            && let Some((first, others)) = self.others.split_first()
        {
            (self.first, self.others) = (first, others);
        }
        self.first
    }

    /// The whole blocks of the current part, if it is aligned.
    fn aligned_blocks(&mut self) -> &'a [u8] {
        let front = self.front();
        if front.as_ptr().addr().is_multiple_of(ALIGN_BYTES) {
            &front[..front.len() & !(ALIGN_BYTES - 1)]
        } else {
            &[]
        }
    }

    fn skip(&mut self, bytes: usize) {
        self.first = &self.first[bytes..];
    }

    /// Fills `out`. There must be as many bytes left.
    fn fill(&mut self, mut out: &mut [u8]) {
        while !out.is_empty() {
            let front = self.front();
            let len = front.len().min(out.len());
            let (now, later) = out.split_at_mut(len);
            now.copy_from_slice(&front[..len]);
            self.skip(len);
            out = later;
        }
    }
}
