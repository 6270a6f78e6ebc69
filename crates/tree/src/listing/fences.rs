//! Fences: finding a path's part of the listing.

use std::io::Read;

use format::listing::Fence;
use types::ByteRange;

use super::records::Records;
use crate::{TreeError, order};

/// All fences of a listing: about a thousandth of its size.
#[derive(Debug, Clone, Default)]
pub struct Fences {
    /// In listing order; the first at offset 0.
    fences: Vec<Fence>,
    listing_len: u64,
}

/// A run of the listing that begins at a fence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListingPart {
    /// Its bytes in the listing stream.
    pub listing: ByteRange,
    /// Where the content of its first file begins.
    pub content_offset: u64,
}

impl Fences {
    /// Reads the fences of a listing of `listing_len` bytes.
    ///
    /// # Errors
    /// [`TreeError::Damaged`] where they are not in order, do not begin at 0 or run past the listing;
    /// [`TreeError::Stream`].
    pub fn read(source: impl Read, listing_len: u64) -> Result<Self, TreeError> {
        let mut records = Records::new(source, "fences", 0);
        let mut fences: Vec<Fence> = Vec::new();
        loop {
            let at = records.offset();
            let Some(fence) = records.next(Fence::decode_one)? else {
                break;
            };
            let in_place = match fences.last() {
                None => fence.listing_offset == 0 && fence.content_offset == 0,
                Some(last) => {
                    order::compare(&last.path, &fence.path).is_lt()
                        && last.listing_offset < fence.listing_offset
                        && last.content_offset <= fence.content_offset
                }
            };
            if !in_place || fence.listing_offset >= listing_len {
                return Err(records.damaged(at, "a fence is not in its place"));
            }
            fences.push(fence);
        }
        if fences.is_empty() && listing_len > 0 {
            return Err(records.damaged(0, "there are none"));
        }
        Ok(Self { fences, listing_len })
    }

    /// The part that holds the entry of `path`, if there is one, and all entries below it. None when no
    /// entry can be.
    #[must_use]
    pub fn part(&self, path: &[u8]) -> Option<ListingPart> {
        let first = self
            .fences
            .partition_point(|f| order::compare(&f.path, path).is_le())
            .checked_sub(1);
        let first = match first {
            Some(first) => first,
            // Everything lies behind the path; what is below it may still begin the listing.
            None => self
                .fences
                .first()
                .filter(|f| order::is_within(&f.path, path))
                .map(|_| 0)?,
        };
        let behind = self.fences[first + 1..]
            .partition_point(|f| order::compare(&f.path, path).is_le() || order::is_within(&f.path, path));
        let end = self
            .fences
            .get(first + 1 + behind)
            .map_or(self.listing_len, |f| f.listing_offset);
        let begin = &self.fences[first];
        let listing = ByteRange {
            offset: begin.listing_offset,
            len: end - begin.listing_offset,
        };
        Some(ListingPart {
            listing,
            content_offset: begin.content_offset,
        })
    }
}
