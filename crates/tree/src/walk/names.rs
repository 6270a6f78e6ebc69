//! The names in one folder, read at once: a folder may hold millions, so they share one buffer.

use std::os::fd::OwnedFd;

use rustix::fs::RawDir;
use rustix::io::Errno;

/// Names in byte order, handed out once.
#[derive(Debug, Default)]
pub(super) struct Names {
    bytes: Vec<u8>,
    /// Where each name lies in `bytes`.
    spans: Vec<(usize, usize)>,
    handed_out: usize,
}

impl Names {
    pub(super) fn push(&mut self, name: &[u8]) {
        self.spans.push((self.bytes.len(), self.bytes.len() + name.len()));
        self.bytes.extend_from_slice(name);
    }

    /// Puts them in order, each once.
    pub(super) fn sort(&mut self) {
        let bytes = &self.bytes;
        self.spans.sort_unstable_by_key(|&(from, to)| &bytes[from..to]);
        self.spans.dedup_by_key(|&mut (from, to)| &bytes[from..to]);
    }

    pub(super) fn contains(&self, name: &[u8]) -> bool {
        self.spans
            .binary_search_by_key(&name, |&(from, to)| &self.bytes[from..to])
            .is_ok()
    }

    pub(super) fn next(&mut self) -> Option<Vec<u8>> {
        let &(from, to) = self.spans.get(self.handed_out)?;
        self.handed_out += 1;
        Some(self.bytes[from..to].to_vec())
    }
}

/// Reads names with a buffer that is kept between folders.
#[derive(Debug)]
pub(super) struct NameReader {
    buffer: Vec<u8>,
}

impl NameReader {
    pub(super) fn new() -> Self {
        Self {
            buffer: Vec::with_capacity(64 << 10),
        }
    }

    /// Adds the names in the folder, without `.` and `..`; with a fault those read until then.
    pub(super) fn read(&mut self, folder: &OwnedFd, names: &mut Names) -> Result<(), Errno> {
        let mut entries = RawDir::new(folder, self.buffer.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            match entry {
                Ok(entry) => match entry.file_name().to_bytes() {
                    b"." | b".." => {}
                    name => names.push(name),
                },
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }
}
