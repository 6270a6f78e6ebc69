//! All names in one folder. A folder may have millions of names, so they share one buffer.

use std::os::fd::OwnedFd;

use rustix::fs::{FileType, RawDir};
use rustix::io::Errno;

/// Names in byte order, each returned once.
#[derive(Debug, Default)]
pub(super) struct Names {
    bytes: Vec<u8>,
    spans: Vec<Span>,
    handed_out: usize,
}

/// Where a name is in the bytes.
#[derive(Debug, Clone, Copy)]
struct Span {
    from: usize,
    to: usize,
    /// Whether the folder's listing shows that it is no folder.
    is_file: bool,
}

impl Names {
    /// Adds a name, and its kind by the folder's listing.
    pub(super) fn push(&mut self, name: &[u8], kind: FileType) {
        self.spans.push(Span {
            from: self.bytes.len(),
            to: self.bytes.len() + name.len(),
            is_file: !matches!(kind, FileType::Directory | FileType::Unknown),
        });
        self.bytes.extend_from_slice(name);
    }

    /// Removes those that are not to stay.
    pub(super) fn retain(&mut self, stays: impl Fn(&[u8]) -> bool) {
        let bytes = &self.bytes;
        self.spans.retain(|span| stays(&bytes[span.from..span.to]));
    }

    /// Sorts them, and removes duplicates.
    pub(super) fn sort(&mut self) {
        let bytes = &self.bytes;
        self.spans.sort_unstable_by_key(|span| &bytes[span.from..span.to]);
        self.spans.dedup_by_key(|span| &bytes[span.from..span.to]);
    }

    pub(super) fn contains(&self, name: &[u8]) -> bool {
        self.spans
            .binary_search_by_key(&name, |span| &self.bytes[span.from..span.to])
            .is_ok()
    }

    pub(super) fn next(&mut self) -> Option<Vec<u8>> {
        let span = self.spans.get(self.handed_out)?;
        self.handed_out += 1;
        Some(self.bytes[span.from..span.to].to_vec())
    }

    /// The next name, if it is no folder's. [`Self::skip`] moves past it.
    pub(super) fn peek_file(&self) -> Option<&[u8]> {
        let span = self.spans.get(self.handed_out).filter(|span| span.is_file)?;
        Some(&self.bytes[span.from..span.to])
    }

    /// Moves past the name that was seen.
    pub(super) fn skip(&mut self) {
        self.handed_out += 1;
    }
}

/// Reads names with a buffer that is reused between folders.
#[derive(Debug)]
pub(crate) struct NameReader {
    buffer: Vec<u8>,
}

impl NameReader {
    pub(crate) fn new() -> Self {
        Self {
            buffer: Vec::with_capacity(64 << 10),
        }
    }

    /// The names in the folder, without `.` and `..`, in no order.
    pub(crate) fn all(&mut self, folder: &OwnedFd) -> Result<Vec<Vec<u8>>, Errno> {
        let mut names = Names::default();
        self.read(folder, &mut names)?;
        Ok(std::iter::from_fn(|| names.next()).collect())
    }

    /// Adds the names in the folder, without `.` and `..`. After a fault, the names read before
    /// stay added.
    pub(super) fn read(&mut self, folder: &OwnedFd, names: &mut Names) -> Result<(), Errno> {
        let mut entries = RawDir::new(folder, self.buffer.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            match entry {
                Ok(entry) => match entry.file_name().to_bytes() {
                    b"." | b".." => {}
                    name => names.push(name, entry.file_type()),
                },
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }
}
