//! Memory-mapped objects.
//!
//! Invariant: a file never changes once it has its final name, so its mapping can be read as plain
//! bytes. This program keeps that rule. Another user with write permission, or a failing disk, may
//! break it. Digests find bytes that change under a reader if the reader reads them once. If a
//! mapped file is truncated, or a page cannot be read, SIGBUS ends the process. To open stores on
//! untrusted disks, use `get` and `get_range` instead.

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
        // SAFETY: objects are written under a temporary name, and never modified under their final
        // one. So the pages stay the same for the life of the mapping, and deleting the file keeps
        // them. The module's documentation describes the consequences if others break this rule.
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
