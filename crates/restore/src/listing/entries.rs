//! Entries of a listing, in listing order.

use std::cmp::Ordering;

use recipe::{StoreReader, StreamBytes};
use tree::{Listed, ListingReader, TreeError, order};

use super::{BackupListing, Wanted};

/// The requested entries. They end after a fault.
#[derive(Debug)]
pub struct Entries<'a> {
    listing: &'a BackupListing<'a>,
    wanted: Wanted,
    reader: ListingReader<StreamBytes<'a, dyn StoreReader + 'a>>,
    /// An entry that was read and not yet returned.
    peeked: Option<Listed>,
    /// Whether the fences were already asked for the current path.
    is_sought: bool,
}

impl<'a> Entries<'a> {
    pub(super) fn new(listing: &'a BackupListing<'a>, wanted: Wanted) -> Result<Self, TreeError> {
        Ok(Self {
            listing,
            wanted,
            reader: listing.read_all()?,
            peeked: None,
            is_sought: false,
        })
    }

    /// The next entry; `None` at the end.
    ///
    /// # Errors
    /// As [`ListingReader::next_entry`].
    pub fn next_entry(&mut self) -> Result<Option<Listed>, TreeError> {
        while let Some(target) = self.wanted.next() {
            let next = self.peeked.as_ref();
            let is_before = next.is_none_or(|next| order::compare(&next.entry.path, &target.path).is_lt());
            // The root is the first entry, so it needs no jump.
            if is_before && !self.is_sought && target.path != b"/" {
                self.is_sought = true;
                let path = target.path.clone();
                self.seek(&path)?;
                continue;
            }
            let listed = match self.peeked.take() {
                Some(listed) => Some(listed),
                None => self.reader.next_entry()?,
            };
            let Some(listed) = listed else { return Ok(None) };
            let path = &listed.entry.path;
            match order::compare(path, &target.path) {
                Ordering::Less => {}
                Ordering::Equal => {
                    if !target.with_below {
                        self.pass();
                    }
                    return Ok(Some(listed));
                }
                Ordering::Greater if target.with_below && order::is_within(path, &target.path) => {
                    return Ok(Some(listed));
                }
                Ordering::Greater => {
                    self.peeked = Some(listed);
                    self.pass();
                }
            }
        }
        Ok(None)
    }

    fn pass(&mut self) {
        self.wanted.pass();
        self.is_sought = false;
    }

    /// Jumps to the beginning of the path, if that is ahead.
    fn seek(&mut self, path: &[u8]) -> Result<(), TreeError> {
        self.listing.seek(path, &mut self.reader, &mut self.peeked)
    }
}
