//! Which files' bytes are streamed, whatever becomes of the files.
//!
//! Invariant: the ranges of content that are assembled, and the entries that take bytes from
//! it, are told by one and the same function, [`Streamed::bytes_of`]: a file that takes bytes which
//! were not streamed would get the next one's. A file that is not asked for, or stays in the
//! target, is not streamed. [`tree::Survey`] looks for such files once, before the restore, and the
//! result is one bit for each entry that is read of the listing.
//!
//! Few entries are held from that look until the restore places them; more are read a second time.

use std::path::Path;

use format::listing::{EntryKind, ListingEntry};
use tree::{Listed, RestoreOptions, Survey, TreeError};
use types::ByteRange;

use super::TreeSource;
use crate::error::RestoreError;
use crate::listing::{Entries, Wanted};

/// Memory for entries between the two looks at them.
const HELD_BYTES_MAX: usize = 1 << 20;

/// The choice.
#[derive(Debug, Default)]
pub(super) struct Streamed {
    /// Which entries, by number, have no bytes streamed though they may have some. Entries after
    /// the end of the vector do.
    left_out: Vec<u64>,
    /// Whether the content is streamed as it is, with what is nobody's.
    is_all: bool,
}

/// The entries that a restore places.
pub(super) enum Placing<'a> {
    /// Read as they are placed.
    Stored(Box<Entries<'a>>),
    Held(std::vec::IntoIter<Listed>),
}

impl Placing<'_> {
    pub(super) fn next_entry(&mut self) -> Result<Option<Listed>, TreeError> {
        match self {
            Self::Stored(entries) => entries.next_entry(),
            Self::Held(entries) => Ok(entries.next()),
        }
    }
}

impl Streamed {
    /// The files to stream, and their parts of the content, in order; the entries to place.
    pub(super) fn of<'a>(
        source: TreeSource<'a>,
        target: &Path,
        options: &RestoreOptions,
    ) -> Result<(Self, Vec<ByteRange>, Placing<'a>), RestoreError> {
        let mut streamed = Self::default();
        let wanted = Wanted::by_restore(options);
        if options.takes_all() {
            streamed.is_all = true;
            let whole = ByteRange {
                offset: 0,
                len: source.content.len,
            };
            let entries = source.listing.entries(wanted)?;
            return Ok((streamed, vec![whole], Placing::Stored(Box::new(entries))));
        }
        let mut entries = source.listing.entries(wanted.clone())?;
        let (ranges, held) = streamed.survey(&mut entries, Survey::new(target, options))?;
        let placing = match held {
            Some(held) => Placing::Held(held.into_iter()),
            None => Placing::Stored(Box::new(source.listing.entries(wanted)?)),
        };
        Ok((streamed, ranges, placing))
    }

    /// Whether the entry of that number has no bytes streamed: of a file that is asked for, it
    /// exists and stays.
    pub(super) fn is_left_out(&self, number: u64) -> bool {
        let word = usize::try_from(number / 64)
            .ok()
            .and_then(|word| self.left_out.get(word));
        word.is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    /// How many bytes of content are streamed for an entry, the `number`th that is read.
    pub(super) fn bytes_of(&self, number: u64, entry: &ListingEntry) -> u64 {
        if self.is_left_out(number) {
            0
        } else {
            entry.file_len()
        }
    }

    /// How many bytes of content that are nobody's come before those of an entry.
    pub(super) fn lead_of(&self, entry: &ListingEntry) -> u64 {
        if self.is_all { entry.lead() } else { 0 }
    }

    fn leave_out(&mut self, number: u64) {
        let Ok(word) = usize::try_from(number / 64) else {
            return;
        };
        if self.left_out.len() <= word {
            self.left_out.resize(word + 1, 0);
        }
        self.left_out[word] |= 1 << (number % 64);
    }

    /// The ranges of content, and the entries themselves where they are few.
    fn survey(
        &mut self,
        entries: &mut Entries<'_>,
        mut survey: Survey,
    ) -> Result<(Vec<ByteRange>, Option<Vec<Listed>>), RestoreError> {
        let mut ranges: Vec<ByteRange> = Vec::new();
        let (mut held, mut held_bytes) = (Some(Vec::new()), 0);
        let mut number = 0;
        while let Some(listed) = entries.next_entry()? {
            if !survey.needs_content(&listed.entry) && listed.entry.file_len() > 0 {
                self.leave_out(number);
            }
            let len = self.bytes_of(number, &listed.entry);
            number += 1;
            if len > 0 {
                match ranges.last_mut() {
                    Some(last) if last.end() == listed.content_offset => last.len += len,
                    _ => ranges.push(ByteRange {
                        offset: listed.content_offset,
                        len,
                    }),
                }
            }
            held_bytes += memory_of(&listed.entry);
            held = held.filter(|_| held_bytes <= HELD_BYTES_MAX);
            if let Some(held) = &mut held {
                held.push(listed);
            }
        }
        Ok((ranges, held))
    }
}

/// What an entry takes of memory, nearly.
fn memory_of(entry: &ListingEntry) -> usize {
    let kind = match &entry.kind {
        EntryKind::File { holes, .. } => size_of_val(&holes[..]),
        EntryKind::HardLink { target } | EntryKind::Symlink { target } => target.len(),
        _ => 0,
    };
    let xattrs = entry.xattrs.iter();
    let xattrs = xattrs.map(|(name, value)| name.len() + value.len() + size_of::<(Vec<u8>, Vec<u8>)>());
    let names = entry.user.len() + entry.group.len() + entry.path.len();
    size_of::<Listed>() + names + kind + xattrs.sum::<usize>()
}
