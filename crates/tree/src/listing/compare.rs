//! Compares two listings entry by entry, and reads only the parts that differ.
//!
//! The caller knows which byte ranges of the two streams differ ([`UnequalParts`]); the bytes
//! between them are equal, and so are the entries there. A range rarely begins with an entry. So
//! the readers begin at the last part of both listings that begins before the range at the same
//! distance, by the fences, and they read on behind the range until both are at the same distance
//! from its end. From there on, both would return equal entries up to the next range.
//!
//! What must hold: the differences are those of the two lists of entries, whatever the ranges and
//! the fences are, as long as the bytes between the ranges are equal. Fences are a shortcut: a
//! place whose first entry has another path is not used. One thread. After an error the walk ends.

use std::cmp::Ordering;
use std::io::Read;

use types::ByteRange;

use super::{Listed, ListingPlace, ListingReader};
use crate::{TreeError, order};

/// Less than this is read on, and not jumped over, in bytes.
const JUMP_BYTES_MIN: u64 = 128 << 10;
/// How many places of each listing are tried for one jump.
const PLACES_MAX: usize = 16;

/// A listing that is compared.
pub trait ComparedListing {
    /// Its bytes.
    type Source: Read;

    /// The listing from this place on.
    ///
    /// # Errors
    /// [`TreeError::Stream`].
    fn read_from(&self, place: &ListingPlace) -> Result<ListingReader<Self::Source>, TreeError>;

    /// The last part that begins at this offset or before it; `None` if that is not known.
    fn part_at(&self, offset: u64) -> Option<ListingPlace>;

    /// Records that a place had another entry than it says.
    fn give_up_parts(&self);
}

/// A range of the first listing, in whose place the second one has another range, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnequalParts {
    /// In the first listing.
    pub before: ByteRange,
    /// In the second listing.
    pub after: ByteRange,
}

/// The folders that are compared. Paths are compared as they are below them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Base {
    /// In the first listing; empty: all of it.
    pub before: Vec<u8>,
    /// In the second listing; empty: all of it.
    pub after: Vec<u8>,
}

/// Entries of the same path that are not equal, or an entry whose path only one listing has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The entry in the first listing.
    pub before: Option<Listed>,
    /// The entry in the second listing.
    pub after: Option<Listed>,
}

/// One of the two listings, and where it is read.
struct Side<'a, L: ComparedListing> {
    listing: &'a L,
    base: &'a [u8],
    reader: Option<ListingReader<L::Source>>,
    /// The next entry, and where its record begins.
    next: Option<(u64, Listed)>,
}

impl<L: ComparedListing> Side<'_, L> {
    /// Where the record of the next entry begins.
    fn at(&self) -> u64 {
        match (&self.next, &self.reader) {
            (Some((at, _)), _) => *at,
            (None, Some(reader)) => reader.offset(),
            (None, None) => 0,
        }
    }

    /// Reads the next entry, if it is not read yet.
    fn fill(&mut self) -> Result<(), TreeError> {
        let reader = match &mut self.reader {
            Some(reader) => reader,
            none => none.insert(self.listing.read_from(&BEGINNING)?),
        };
        if self.next.is_none() {
            let at = reader.offset();
            self.next = reader.next_entry()?.map(|listed| (at, listed));
        }
        Ok(())
    }

    /// The path of the next entry, below the base.
    fn path(&self) -> Option<&[u8]> {
        let (_, listed) = self.next.as_ref()?;
        Some(&listed.entry.path[self.base.len()..])
    }

    fn take(&mut self) -> Option<Listed> {
        self.next.take().map(|(_, listed)| listed)
    }

    /// Skips what is not below the base. `false`: nothing below it follows.
    fn skip_outside(&mut self) -> Result<bool, TreeError> {
        while let Some((_, listed)) = &self.next {
            let path = &listed.entry.path;
            if order::is_within(path, self.base) {
                return Ok(true);
            }
            if order::compare(path, self.base).is_gt() {
                return Ok(false);
            }
            self.next = None;
            self.fill()?;
        }
        Ok(false)
    }

    /// A reader at this place, and its first entry; `None` if that is another one than the place
    /// says.
    fn opened(&self, place: &ListingPlace) -> Result<Option<Opened<L>>, TreeError> {
        let mut reader = self.listing.read_from(place)?;
        match reader.next_entry() {
            Ok(Some(first)) if first.entry.path == place.path => Ok(Some((reader, first))),
            Ok(_) | Err(TreeError::Damaged { .. }) => {
                self.listing.give_up_parts();
                Ok(None)
            }
            Err(fault) => Err(fault),
        }
    }
}

type Opened<L> = (ListingReader<<L as ComparedListing>::Source>, Listed);

const BEGINNING: ListingPlace = ListingPlace {
    path: Vec::new(),
    listing_offset: 0,
    content_offset: 0,
};

/// Compares two listings.
pub struct Comparing<'a, L: ComparedListing, P> {
    before: Side<'a, L>,
    after: Side<'a, L>,
    parts: P,
    /// The range that is read now.
    part: Option<UnequalParts>,
    /// The range after that.
    next_part: Option<UnequalParts>,
    is_over: bool,
}

impl<'a, L, P> Comparing<'a, L, P>
where
    L: ComparedListing,
    P: Iterator<Item = Result<UnequalParts, TreeError>>,
{
    /// The differences of two listings below these folders. `parts` has the ranges that differ, in
    /// order. Reads nothing yet.
    ///
    /// The names of the folders must be equal, unless one range is all of both listings.
    pub fn new(before: &'a L, after: &'a L, base: &'a Base, parts: P) -> Self {
        let side = |listing, base: &'a Vec<u8>| Side {
            listing,
            // Every path begins with the slash of the root.
            base: base.strip_suffix(b"/").unwrap_or(base),
            reader: None,
            next: None,
        };
        Self {
            before: side(before, &base.before),
            after: side(after, &base.after),
            parts,
            part: None,
            next_part: None,
            is_over: false,
        }
    }

    /// The next difference, in listing order; `None` at the end.
    ///
    /// # Errors
    /// Of the listings and of `parts`.
    pub fn next_difference(&mut self) -> Result<Option<Difference>, TreeError> {
        while !self.is_over {
            if self.part.is_none() && !self.enter_next()? {
                break;
            }
            self.before.fill()?;
            self.after.fill()?;
            if self.is_behind_part()? {
                self.part = None;
                continue;
            }
            if let Some(found) = self.step()? {
                return Ok(Some(found));
            }
        }
        self.is_over = true;
        Ok(None)
    }

    /// The offset in the second listing up to which the two are compared.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.after.at()
    }

    /// Whether the listings go on with equal bytes. If a reader has passed the beginning of the
    /// next range, that one is read instead.
    fn is_behind_part(&mut self) -> Result<bool, TreeError> {
        let (a, b) = (self.before.at(), self.after.at());
        loop {
            self.peek_part()?;
            match self.next_part {
                Some(next) if next.before.offset < a || next.after.offset < b => {
                    self.part = self.next_part.take();
                }
                _ => break,
            }
        }
        let Some(part) = self.part else { return Ok(true) };
        let behind = (a.checked_sub(part.before.end()), b.checked_sub(part.after.end()));
        Ok(matches!(behind, (Some(a), Some(b)) if a == b))
    }

    fn peek_part(&mut self) -> Result<(), TreeError> {
        if self.next_part.is_none() {
            self.next_part = self.parts.next().transpose()?;
        }
        Ok(())
    }

    /// Moves to the next range. `false`: there is none.
    fn enter_next(&mut self) -> Result<bool, TreeError> {
        self.peek_part()?;
        let Some(part) = self.next_part.take() else {
            return Ok(false);
        };
        self.part = Some(part);
        // Both readers are at the same distance from the range.
        let left = part.before.offset.saturating_sub(self.before.at());
        if left >= JUMP_BYTES_MIN {
            self.jump(part, left)?;
        }
        Ok(true)
    }

    /// Jumps to parts of both listings that begin at the same distance before the range, if there
    /// are such ahead.
    fn jump(&mut self, to: UnequalParts, left: u64) -> Result<(), TreeError> {
        let mut distance = 0;
        for _ in 0..PLACES_MAX {
            let place = |side: &Side<'_, L>, range: ByteRange| {
                let offset = range.offset.checked_sub(distance)?;
                side.listing
                    .part_at(offset)
                    .filter(|place| place.listing_offset <= offset)
            };
            let (Some(a), Some(b)) = (place(&self.before, to.before), place(&self.after, to.after)) else {
                return Ok(());
            };
            let of_a = to.before.offset - a.listing_offset;
            let of_b = to.after.offset - b.listing_offset;
            if of_a.max(of_b) >= left {
                return Ok(());
            }
            if of_a != of_b {
                distance = of_a.max(of_b);
                continue;
            }
            let (Some(before), Some(after)) = (self.before.opened(&a)?, self.after.opened(&b)?) else {
                return Ok(());
            };
            self.before.reader = Some(before.0);
            self.before.next = Some((a.listing_offset, before.1));
            self.after.reader = Some(after.0);
            self.after.next = Some((b.listing_offset, after.1));
            return Ok(());
        }
        Ok(())
    }

    /// Takes the next entry of one listing or both.
    fn step(&mut self) -> Result<Option<Difference>, TreeError> {
        let is_in = (self.before.skip_outside()?, self.after.skip_outside()?);
        let order = match is_in {
            (false, false) => {
                self.is_over = true;
                return Ok(None);
            }
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
            (true, true) => {
                let (a, b) = (self.before.path(), self.after.path());
                order::compare(a.unwrap_or_default(), b.unwrap_or_default())
            }
        };
        let before = if order.is_le() { self.before.take() } else { None };
        let after = if order.is_ge() { self.after.take() } else { None };
        let is_equal = match (&before, &after) {
            (Some(before), Some(after)) => self.are_equal(before, after),
            _ => false,
        };
        Ok((!is_equal).then_some(Difference { before, after }))
    }

    fn are_equal(&self, before: &Listed, after: &Listed) -> bool {
        if self.before.base == self.after.base {
            return before.entry == after.entry;
        }
        let mut moved = before.entry.clone();
        moved.path.clone_from(&after.entry.path);
        moved == after.entry
    }
}
