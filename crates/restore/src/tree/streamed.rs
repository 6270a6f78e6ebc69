//! Which files' bytes are streamed, whatever becomes of the files.
//!
//! What must hold: the ranges of content that are assembled, and the entries that take bytes from
//! it, are told by one and the same function, [`Streamed::bytes_of`]: a file that takes bytes which
//! were not streamed would get the next one's. Every file that is wanted is among them; patterns,
//! excludes and the base may leave some of them out, whose bytes are streamed and skipped. A file
//! that stays in the target is not streamed. [`tree::Survey`] looks for such files once, before the
//! restore, and the result is one bit for each entry of the listing.

use std::path::Path;

use format::listing::{Content, EntryKind, ListingEntry};
use recipe::StreamBytes;
use tree::{ListingReader, Overwrite, RestoreOptions, Survey, order};
use types::ByteRange;

use super::TreeSource;
use crate::error::RestoreError;

/// The choice.
#[derive(Debug)]
pub(super) struct Streamed {
    /// All files, when empty.
    paths: Vec<Vec<u8>>,
    /// Which entries of the listing, by number, exist and stay. Entries after the end of the vector
    /// do not.
    kept: Vec<u64>,
    /// Whether the content is streamed as it is, with what is nobody's.
    is_all: bool,
}

impl Streamed {
    /// The files to stream, and their parts of the content, in order.
    pub(super) fn of(
        source: TreeSource<'_>,
        target: &Path,
        options: &RestoreOptions,
    ) -> Result<(Self, Vec<ByteRange>), RestoreError> {
        // The matches of a pattern are known only after the whole listing.
        let by_paths = options.include.patterns.is_empty();
        let mut streamed = Self {
            paths: if by_paths {
                options.include.paths.clone()
            } else {
                Vec::new()
            },
            kept: Vec::new(),
            is_all: false,
        };
        streamed.is_all = streamed.paths.is_empty() && options.overwrite == Overwrite::Always;
        let ranges = streamed.ranges(source, target, options)?;
        Ok((streamed, ranges))
    }

    /// Whether the entry of that number exists and stays.
    pub(super) fn is_kept(&self, number: u64) -> bool {
        let word = usize::try_from(number / 64)
            .ok()
            .and_then(|word| self.kept.get(word));
        word.is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    /// How many bytes of content are streamed for an entry, the `number`th of the listing.
    pub(super) fn bytes_of(&self, number: u64, entry: &ListingEntry) -> u64 {
        let is_within = |path: &Vec<u8>| order::is_within(&entry.path, path);
        if !self.is_kept(number) && (self.paths.is_empty() || self.paths.iter().any(is_within)) {
            file_len(entry)
        } else {
            0
        }
    }

    /// How many bytes of content that are nobody's come before those of an entry.
    pub(super) fn lead_of(&self, entry: &ListingEntry) -> u64 {
        if self.is_all { entry.lead() } else { 0 }
    }

    fn keep(&mut self, number: u64) {
        let Ok(word) = usize::try_from(number / 64) else {
            return;
        };
        if self.kept.len() <= word {
            self.kept.resize(word + 1, 0);
        }
        self.kept[word] |= 1 << (number % 64);
    }

    fn ranges(
        &mut self,
        source: TreeSource<'_>,
        target: &Path,
        options: &RestoreOptions,
    ) -> Result<Vec<ByteRange>, RestoreError> {
        if self.is_all {
            return Ok(vec![ByteRange {
                offset: 0,
                len: source.content.len,
            }]);
        }
        let mut survey = Survey::new(target, options);
        let bytes = StreamBytes::new(source.nodes, source.listing, 0, source.listing.len)?;
        let mut listing = ListingReader::new(bytes);
        let mut ranges: Vec<ByteRange> = Vec::new();
        let mut number = 0;
        while let Some(listed) = listing.next_entry()? {
            // A part has another name than what is there.
            let is_part = matches!(listed.entry.state.content, Content::Partial { .. });
            if survey.stays(&listed.entry) && !is_part {
                self.keep(number);
            }
            let len = self.bytes_of(number, &listed.entry);
            number += 1;
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
