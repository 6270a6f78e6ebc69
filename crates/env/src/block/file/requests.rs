//! Reads and writes of several buffers, with one request of the system each if it can.
//!
//! Direct requests need aligned memory. If one buffer of a request is not aligned, all bytes of the
//! request are copied through an aligned buffer, 1 MiB at a time. Any number of threads may call.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::unix::fs::FileExt;

use rustix::io::Errno;

use super::FileCaching;
use crate::{ALIGN_BYTES, AlignedPool};

/// Bytes that are copied at a time.
const COPIED_BYTES: usize = 1 << 20;
/// Aligned buffers that are kept for the next request.
const SPARE_MAX: usize = 4;
/// Buffers that the system takes in one request (`IOV_MAX`).
const PARTS_MAX: usize = 1024;

#[derive(Debug)]
pub(super) struct Requests {
    caching: FileCaching,
    copies: AlignedPool,
}

impl Requests {
    pub(super) fn new(caching: FileCaching) -> Self {
        Self {
            caching,
            copies: AlignedPool::new(COPIED_BYTES, SPARE_MAX),
        }
    }

    /// Whether a request from or to these places needs a copy.
    fn needs_copy<'a>(&self, mut parts: impl Iterator<Item = &'a [u8]>) -> bool {
        let is_aligned = |part: &[u8]| part.as_ptr().addr().is_multiple_of(ALIGN_BYTES);
        self.caching == FileCaching::Direct && !parts.all(is_aligned)
    }

    pub(super) fn read(&self, file: &File, offset: u64, out: &mut [IoSliceMut<'_>]) -> io::Result<()> {
        if self.needs_copy(out.iter().map(|part| &**part)) {
            return self.read_copied(file, offset, out);
        }
        let mut parts: Vec<_> = out.iter_mut().map(|part| IoSliceMut::new(part)).collect();
        let (mut rest, mut at) = (&mut parts[..], offset);
        // Empty buffers count as read.
        IoSliceMut::advance_slices(&mut rest, 0);
        while !rest.is_empty() {
            let count = rest.len().min(PARTS_MAX);
            match rustix::io::preadv(file, &mut rest[..count], at) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(read) => {
                    IoSliceMut::advance_slices(&mut rest, read);
                    at += read as u64;
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    pub(super) fn write(&self, file: &File, offset: u64, parts: &[IoSlice<'_>]) -> io::Result<()> {
        if self.needs_copy(parts.iter().map(|part| &**part)) {
            return self.write_copied(file, offset, parts);
        }
        let mut parts = parts.to_vec();
        let (mut rest, mut at) = (&mut parts[..], offset);
        IoSlice::advance_slices(&mut rest, 0);
        while !rest.is_empty() {
            match rustix::io::pwritev(file, &rest[..rest.len().min(PARTS_MAX)], at) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    IoSlice::advance_slices(&mut rest, written);
                    at += written as u64;
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn read_copied(&self, file: &File, offset: u64, out: &mut [IoSliceMut<'_>]) -> io::Result<()> {
        let mut left: usize = out.iter().map(|part| part.len()).sum();
        let mut copy = self.copies.take();
        let (mut at, mut used) = (offset, 0);
        for part in out {
            let mut rest = &mut part[..];
            while !rest.is_empty() {
                if used == copy.len() {
                    copy.grow_to(left.min(COPIED_BYTES));
                    file.read_exact_at(&mut copy, at)?;
                    at += copy.len() as u64;
                    left -= copy.len();
                    used = 0;
                }
                let count = rest.len().min(copy.len() - used);
                let (now, later) = rest.split_at_mut(count);
                now.copy_from_slice(&copy[used..used + count]);
                used += count;
                rest = later;
            }
        }
        Ok(())
    }

    fn write_copied(&self, file: &File, offset: u64, parts: &[IoSlice<'_>]) -> io::Result<()> {
        let mut copy = self.copies.take();
        let mut at = offset;
        for part in parts {
            let mut rest = &part[..];
            while !rest.is_empty() {
                let (now, later) = rest.split_at(rest.len().min(COPIED_BYTES - copy.len()));
                copy.extend_from_slice(now);
                rest = later;
                if copy.len() == COPIED_BYTES {
                    file.write_all_at(&copy, at)?;
                    at += copy.len() as u64;
                    copy.clear();
                }
            }
        }
        file.write_all_at(&copy, at)
    }
}
