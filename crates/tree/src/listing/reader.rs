//! Reads a listing entry by entry.

use std::io::Read;

use format::listing::ListingEntry;

use super::ListingPlace;
use super::records::Records;
use crate::{TreeError, order};

/// An entry and where its content begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The entry.
    pub entry: ListingEntry,
    /// Where the file's bytes begin in the content stream, after its lead. For other kinds: where
    /// the bytes of the next file begin.
    pub content_offset: u64,
}

/// Reads a listing piece by piece. After a fault it ends: the offset of further entries is unknown
/// without the length of the damaged one.
#[derive(Debug)]
pub struct ListingReader<R> {
    records: Records<R>,
    previous: Option<Vec<u8>>,
    content_offset: u64,
}

impl<R: Read> ListingReader<R> {
    /// Reads a whole listing.
    pub fn new(source: R) -> Self {
        Self::at(source, 0, 0)
    }

    /// Reads a listing from a place on. The source must return its bytes from there.
    pub fn from_place(source: R, place: &ListingPlace) -> Self {
        Self::at(source, place.listing_offset, place.content_offset)
    }

    /// Where the next entry's record begins in the listing.
    pub fn offset(&self) -> u64 {
        self.records.offset()
    }

    fn at(source: R, listing_offset: u64, content_offset: u64) -> Self {
        Self {
            records: Records::new(source, "listing", listing_offset),
            previous: None,
            content_offset,
        }
    }

    /// The next entry. `None`: the listing ends.
    ///
    /// # Errors
    /// [`TreeError::Damaged`], also if entries are not in listing order; [`TreeError::Stream`].
    pub fn next_entry(&mut self) -> Result<Option<Listed>, TreeError> {
        let at = self.records.offset();
        let Some(entry) = self.records.next(ListingEntry::decode_one)? else {
            return Ok(None);
        };
        if self
            .previous
            .as_ref()
            .is_some_and(|p| order::compare(p, &entry.path).is_ge())
        {
            return Err(self.records.damaged(at, "an entry is not in its place"));
        }
        let begin = self.content_offset.checked_add(entry.lead());
        let ends = begin.and_then(|begin| Some((begin, begin.checked_add(entry.file_len())?)));
        let Some((content_offset, next)) = ends else {
            return Err(self.records.damaged(at, "the files are longer than any stream"));
        };
        self.content_offset = next;
        match &mut self.previous {
            Some(previous) => previous.clone_from(&entry.path),
            None => self.previous = Some(entry.path.clone()),
        }
        Ok(Some(Listed {
            entry,
            content_offset,
        }))
    }
}

impl<R: Read> Iterator for ListingReader<R> {
    type Item = Result<Listed, TreeError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_entry().transpose()
    }
}
