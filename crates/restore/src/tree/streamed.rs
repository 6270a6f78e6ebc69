//! Which files' bytes are streamed, whatever becomes of the files.
//!
//! What must hold: the ranges of content that are assembled, and the entries that take bytes from it, are told
//! by one and the same function, [`Streamed::bytes_of`]: a file that takes bytes which were not streamed would
//! get the next one's. Every file that is wanted is among them; patterns, excludes and the base may leave some
//! of them out, whose bytes are streamed and passed over.

use format::listing::{EntryKind, ListingEntry};
use recipe::StreamBytes;
use tree::{Include, ListingReader, order};
use types::ByteRange;

use super::TreeSource;
use crate::error::RestoreError;

/// The choice.
#[derive(Debug)]
pub(super) struct Streamed {
    /// All files, when empty.
    paths: Vec<Vec<u8>>,
}

impl Streamed {
    /// What is streamed to have what is included. What a pattern takes is not known before all is seen.
    pub(super) fn of(include: &Include) -> Self {
        let by_paths = include.patterns.is_empty();
        Self {
            paths: if by_paths {
                include.paths.clone()
            } else {
                Vec::new()
            },
        }
    }

    /// How many bytes of content come for an entry.
    pub(super) fn bytes_of(&self, entry: &ListingEntry) -> u64 {
        let is_within = |path: &Vec<u8>| order::is_within(&entry.path, path);
        if self.paths.is_empty() || self.paths.iter().any(is_within) {
            file_len(entry)
        } else {
            0
        }
    }

    /// The parts of the content that are streamed, in order.
    pub(super) fn ranges(&self, source: TreeSource<'_>) -> Result<Vec<ByteRange>, RestoreError> {
        if self.paths.is_empty() {
            return Ok(vec![ByteRange {
                offset: 0,
                len: source.content.len,
            }]);
        }
        let bytes = StreamBytes::new(source.nodes, source.listing, 0, source.listing.len)?;
        let mut listing = ListingReader::new(bytes);
        let mut ranges: Vec<ByteRange> = Vec::new();
        while let Some(listed) = listing.next_entry()? {
            let len = self.bytes_of(&listed.entry);
            if len == 0 {
                continue;
            }
            match ranges.last_mut() {
                Some(last) if last.end() == listed.content_offset => last.len += len,
                _ => ranges.push(ByteRange {
                    offset: listed.content_offset,
                    len,
                }),
            }
        }
        Ok(ranges)
    }
}

/// The bytes of content that belong to an entry.
pub(super) fn file_len(entry: &ListingEntry) -> u64 {
    match entry.kind {
        EntryKind::File { len, .. } => len,
        _ => 0,
    }
}
