//! A file that is being restored. Several threads may write it at any offsets. It has holes where
//! it should.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use format::listing::{EntryKind, HOLES_MAX, ListingEntry};
use rustix::fs::{FallocateFlags, fallocate, ftruncate};
use rustix::io::Errno;

use super::arrive::{self, Arrival};
use super::folders::Place;
use super::subject::Subject;
use super::{Context, SkipReason, Sparse, flags, metadata};
use crate::blocks::{BlockWriter, write_all};
use crate::retry::retry;
use crate::{Action, TreeError};

/// Under [`Sparse::Zeros`], blocks of zeros of this size, at multiples of it, are not written: it
/// is the unit in which file systems allocate.
const BLOCK_BYTES: usize = 4096;
/// Files from this length on are written in large blocks, past the page cache.
const BLOCKS_BYTES_MIN: u64 = 1 << 20;
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// A file of the target that needs its bytes. Write or skip every byte once, in any order, from any
/// thread. [`Self::finish`] gives it its name, and replaces an older entry. If it is dropped
/// before, nothing of it stays.
#[derive(Debug)]
pub struct FileWriter {
    context: Arc<Context>,
    /// Keeps the folder from being completed before the file is.
    parent: Arc<Place>,
    name: Vec<u8>,
    /// An open file.
    arrival: Arrival,
    entry: ListingEntry,
    len: u64,
    done: AtomicU64,
    /// The block writer of a large file.
    blocks: Mutex<Option<BlockWriter>>,
    /// Whether the file has its name, or another entry keeps that name.
    is_named: bool,
}

impl FileWriter {
    pub(super) fn new(
        context: Arc<Context>,
        parent: Arc<Place>,
        name: &[u8],
        arrival: Arrival,
        entry: &ListingEntry,
    ) -> Self {
        let len = entry.file_len();
        // If this fails, the file is written through the page cache.
        let is_large = len >= BLOCKS_BYTES_MIN;
        let file = arrival.file().filter(|_| is_large);
        let blocks = file.and_then(|file| BlockWriter::new(file, len).ok());
        context.unfinished().insert(entry.path.clone());
        let writer = Self {
            context,
            parent,
            name: name.to_vec(),
            arrival,
            entry: entry.clone(),
            len,
            done: AtomicU64::new(0),
            blocks: Mutex::new(blocks),
            is_named: false,
        };
        flags::set_early(writer.file(), entry);
        writer.reserve();
        writer
    }

    /// Reserves the space of a large file without holes. This is only a hint: a full disk reports
    /// an error when the bytes are written.
    fn reserve(&self) {
        let may_have_holes = match self.context.sparse {
            Sparse::Never => false,
            Sparse::Zeros => true,
            Sparse::AsSource => !self.holes().is_empty(),
        };
        if self.len >= BLOCKS_BYTES_MIN && !may_have_holes {
            fallocate(self.file(), FallocateFlags::KEEP_SIZE, 0, self.len).ok();
        }
    }

    fn file(&self) -> &OwnedFd {
        self.arrival.file().expect("a writer is made of an open file")
    }

    /// The entry being restored.
    #[must_use]
    pub fn entry(&self) -> &ListingEntry {
        &self.entry
    }

    /// Bytes that the file will have.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether the file has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Writes bytes. It leaves a hole for zeros where the source had one (for all blocks of zeros
    /// under [`Sparse::Zeros`]). It writes bytes that are not zeros even where the listing has a
    /// hole.
    ///
    /// # Errors
    /// [`TreeError::System`]; `EFBIG` for bytes beyond the file's length.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), TreeError> {
        self.check(offset, bytes.len() as u64)?;
        let written = match self.context.sparse {
            Sparse::Never => self.write_all(offset, bytes),
            Sparse::Zeros => self.write_blocks(offset, bytes),
            Sparse::AsSource => {
                let noted = self.noted_up_to().saturating_sub(offset);
                let noted = usize::try_from(noted).map_or(bytes.len(), |noted| noted.min(bytes.len()));
                let (before, behind) = bytes.split_at(noted);
                self.write_around_holes(offset, before)
                    .and_then(|()| self.write_blocks(offset + noted as u64, behind))
            }
        };
        self.count(bytes.len() as u64, written)
    }

    /// Skips zeros. It leaves a hole where the source had one (everywhere under [`Sparse::Zeros`]).
    /// Elsewhere it allocates space without writing, if the file system can.
    ///
    /// # Errors
    /// Those of [`Self::write_at`].
    pub fn skip_zeros(&self, offset: u64, len: u64) -> Result<(), TreeError> {
        self.check(offset, len)?;
        let passed = match self.context.sparse {
            Sparse::Zeros => Ok(()),
            Sparse::Never => self.allocate(offset, len),
            Sparse::AsSource => self
                .split_at_holes(offset, len.min(self.noted_up_to().saturating_sub(offset)))
                .try_for_each(|(part, part_len, in_hole)| {
                    if in_hole {
                        Ok(())
                    } else {
                        self.allocate(part, part_len)
                    }
                }),
        };
        self.count(len, passed)
    }

    /// Completes the file: its length, its metadata and its name. The restorer collects faults of
    /// the metadata. Returns a reason if the same file appeared meanwhile and stays.
    ///
    /// # Errors
    /// [`TreeError::Incomplete`] if bytes are missing, [`TreeError::SameName`],
    /// [`TreeError::System`]. Then nothing of the file stays.
    pub fn finish(mut self) -> Result<Option<SkipReason>, TreeError> {
        self.name_it().inspect_err(|fault| self.context.note(fault))
    }

    fn name_it(&mut self) -> Result<Option<SkipReason>, TreeError> {
        let written = self.done.load(Ordering::Acquire);
        let gathered = self.take_blocks().map_or(Ok(()), BlockWriter::finish);
        if written != self.len {
            return Err(TreeError::Incomplete {
                path: self.entry.path.clone(),
                written,
                expected: self.len,
            });
        }
        let cut = gathered.and_then(|()| retry(|| ftruncate(self.file(), self.len)));
        cut.map_err(|errno| self.fault(errno))?;
        metadata::apply(&self.context, Subject::Open(self.file()), &self.entry);
        let opened = self.parent.folder.descriptor();
        let at = opened.map_err(|errno| TreeError::system(&self.entry.path[..], Action::Open, errno))?;
        let (name, entry) = (&self.name, &self.entry);
        let stays = arrive::settle(&self.context, &self.parent, &at, &self.arrival, name, entry)?;
        self.is_named = true;
        self.context.unfinished().remove(&self.entry.path);
        if stays.is_none() {
            // Set flags last: an immutable file could not take its name.
            flags::set(&self.context, self.file(), &self.entry);
        }
        Ok(stays)
    }

    fn take_blocks(&mut self) -> Option<BlockWriter> {
        self.blocks
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner)
            .take()
    }

    fn check(&self, offset: u64, len: u64) -> Result<(), TreeError> {
        match offset.checked_add(len) {
            Some(end) if end <= self.len => Ok(()),
            _ => Err(self.fault(Errno::FBIG)),
        }
    }

    fn count(&self, len: u64, result: Result<(), Errno>) -> Result<(), TreeError> {
        result
            .map_err(|errno| self.fault(errno))
            .inspect_err(|fault| self.context.note(fault))?;
        self.done.fetch_add(len, Ordering::AcqRel);
        Ok(())
    }

    fn fault(&self, errno: Errno) -> TreeError {
        TreeError::system(&self.entry.path[..], Action::Write, errno)
    }

    fn holes(&self) -> &[(u64, u64)] {
        if let EntryKind::File { holes, .. } = &self.entry.kind {
            holes
        } else {
            &[]
        }
    }

    /// The offset up to which the source's holes are recorded. If the list is full, there may be
    /// more holes after it.
    fn noted_up_to(&self) -> u64 {
        match self.holes().last() {
            Some(&(offset, len)) if self.holes().len() >= HOLES_MAX => offset.saturating_add(len),
            _ => u64::MAX,
        }
    }

    /// Makes a write of the large file fail, after `writes` other ones.
    #[cfg(test)]
    pub(crate) fn fail_after(&self, writes: u64, errno: Errno) {
        let blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        blocks.as_ref().expect("a large file").fail_after(writes, errno);
    }

    /// The parts of a range as (offset, length, whether the source had a hole there).
    fn split_at_holes(&self, offset: u64, len: u64) -> impl Iterator<Item = (u64, u64, bool)> {
        let holes = self.holes();
        let mut next = holes.partition_point(|&(begin, len)| begin.saturating_add(len) <= offset);
        let end = offset + len;
        let mut position = offset;
        std::iter::from_fn(move || {
            if position >= end {
                return None;
            }
            let begin = position;
            let in_hole = match holes.get(next) {
                Some(&(hole, hole_len)) if hole <= begin => {
                    next += 1;
                    position = hole.saturating_add(hole_len).min(end);
                    true
                }
                Some(&(hole, _)) => {
                    position = hole.min(end);
                    false
                }
                None => {
                    position = end;
                    false
                }
            };
            // Unsorted holes must not move the position back.
            position = position.max(begin);
            Some((begin, position - begin, in_hole))
        })
    }

    fn write_around_holes(&self, offset: u64, bytes: &[u8]) -> Result<(), Errno> {
        let mut rest = bytes;
        for (part, len, in_hole) in self.split_at_holes(offset, bytes.len() as u64) {
            // A part is never longer than the bytes.
            let (now, later) = rest.split_at(usize::try_from(len).unwrap_or(rest.len()));
            rest = later;
            if !(in_hole && is_zeros(now)) {
                self.write_all(part, now)?;
            }
        }
        Ok(())
    }

    fn write_blocks(&self, offset: u64, bytes: &[u8]) -> Result<(), Errno> {
        // Up to the first multiple of a block, then block by block. Each run of data is one write.
        let into = usize::try_from(offset % BLOCK_BYTES as u64).unwrap_or(0);
        let head = ((BLOCK_BYTES - into) % BLOCK_BYTES).min(bytes.len());
        let (mut from, mut to) = (0, head);
        while to < bytes.len() {
            let next = bytes.len().min(to + BLOCK_BYTES);
            if is_zeros(&bytes[to..next]) {
                self.write_all(offset + from as u64, &bytes[from..to])?;
                from = next;
            }
            to = next;
        }
        self.write_all(offset + from as u64, &bytes[from..])
    }

    fn write_all(&self, offset: u64, bytes: &[u8]) -> Result<(), Errno> {
        let mut blocks = self.blocks.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *blocks {
            Some(blocks) => blocks.write(offset, bytes),
            None => write_all(self.file(), bytes, offset),
        }
    }

    fn allocate(&self, offset: u64, len: u64) -> Result<(), Errno> {
        if len == 0 {
            return Ok(());
        }
        match retry(|| fallocate(self.file(), FallocateFlags::empty(), offset, len)) {
            Err(Errno::OPNOTSUPP) => {}
            other => return other,
        }
        let (mut offset, mut left) = (offset, len);
        while left > 0 {
            let now = usize::try_from(left).map_or(ZEROS.len(), |n| n.min(ZEROS.len()));
            self.write_all(offset, &ZEROS[..now])?;
            offset += now as u64;
            left -= now as u64;
        }
        Ok(())
    }
}

/// Whether all bytes are zero.
fn is_zeros(bytes: &[u8]) -> bool {
    bytes.chunks(ZEROS.len()).all(|part| *part == ZEROS[..part.len()])
}

impl Drop for FileWriter {
    fn drop(&mut self) {
        if self.is_named {
            return;
        }
        // Pending writes end before the file is removed.
        drop(self.take_blocks());
        if let Ok(at) = self.parent.folder.descriptor() {
            // The next restore recognises a leftover.
            self.arrival.remove(&at).ok();
        }
    }
}
