//! Which files' bytes are streamed.
//!
//! Invariant: one function, [`Streamed::bytes_of`], decides which ranges of content are assembled
//! and which entries take bytes from them. A file that takes bytes which were not streamed would
//! get the next file's bytes. A file that is not requested, or that stays in the target, is not
//! streamed. [`tree::Survey`] finds such files once, before the restore. Its result is one bit for
//! each entry of the listing.
//!
//! If there are few entries, the survey holds them until the restore places them. Otherwise they
//! are read a second time.

use std::path::Path;

use format::listing::{EntryKind, ListingEntry};
use tree::{Listed, RestoreOptions, Survey, TreeError};
use types::ByteRange;

use super::TreeSource;
use crate::error::RestoreError;
use crate::listing::{Entries, Wanted};

/// The most memory for entries that the survey holds.
const HELD_BYTES_MAX: usize = 1 << 20;

/// The result of the survey.
#[derive(Debug, Default)]
pub(super) struct Streamed {
    /// One bit for each entry, by its number: whether none of its bytes are streamed. Entries after
    /// the end of the vector are streamed.
    left_out: Vec<u64>,
    /// Whether the whole content is streamed, including bytes of no entry.
    is_all: bool,
}

/// The entries that a restore places.
pub(super) enum Placing<'a> {
    /// Read from the listing as they are placed.
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
    /// Selects the files to stream. Returns their ranges of the content in order, and the entries
    /// to place.
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

    /// Whether none of the bytes of the entry with this number are streamed. A requested file with
    /// this bit exists and stays.
    pub(super) fn is_left_out(&self, number: u64) -> bool {
        let word = usize::try_from(number / 64)
            .ok()
            .and_then(|word| self.left_out.get(word));
        word.is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    /// How many bytes of content are streamed for an entry. `number` is its number among the
    /// entries that are read.
    pub(super) fn bytes_of(&self, number: u64, entry: &ListingEntry) -> u64 {
        if self.is_left_out(number) {
            0
        } else {
            entry.file_len()
        }
    }

    /// How many streamed bytes of no entry precede those of an entry.
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

    /// The ranges of content, and the entries themselves if there are few.
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

/// Approximate memory of an entry.
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
