//! Memory-mapped objects.
//!
//! What must hold: a file is never changed once it has its final name, which is what lets its
//! mapping be read as plain bytes. This program keeps that; somebody else with write permission, or
//! a failing disk, may not: bytes that change under a reader are caught by digests if they are read
//! once, and a file that is cut short while mapped, or a page that cannot be read, ends the process
//! with SIGBUS. Whoever opens stores on disks that are not to be trusted reads by `get` and
//! `get_range` instead.

#![expect(
    unsafe_code,
    reason = "a memory map is read as bytes that the compiler takes for constant"
)]

use std::fs::File;
use std::io;
use std::ops::Deref;

/// A file's bytes.
pub(super) struct Mapped(memmap2::Mmap);

impl Mapped {
    /// Maps a whole file, which must not be empty.
    pub(super) fn new(file: &File) -> io::Result<Self> {
        // SAFETY: objects are written under a temporary name and never modified under their final
        // one, so the pages stay as they are for the life of the mapping; deleting the file keeps
        // them. What happens where others break this rule is in the module's documentation.
        let map = unsafe { memmap2::Mmap::map(file) }?;
        Ok(Self(map))
    }
}

impl Deref for Mapped {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.0
    }
}
