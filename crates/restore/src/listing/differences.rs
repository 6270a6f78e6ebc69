//! The differences of two backups' listings, without reading what both have.

use std::ops::ControlFlow;

use recipe::{Gaps, RecipeError, StoreReader, StreamBytes};
use tree::{
    Base, ComparedListing, Comparing, Difference, ListingPlace, ListingReader, TreeError, UnequalParts,
};
use types::ByteRange;

use super::{BackupListing, unread};

impl<'a> ComparedListing for BackupListing<'a> {
    type Source = StreamBytes<'a, dyn StoreReader + 'a>;

    fn read_from(&self, place: &ListingPlace) -> Result<ListingReader<Self::Source>, TreeError> {
        BackupListing::read_from(self, place)
    }

    fn part_at(&self, offset: u64) -> Option<ListingPlace> {
        self.found(|fences, read| fences.find_offset(offset, read))
    }

    fn give_up_parts(&self) {
        self.give_up();
    }
}

/// Where two listings differ, by the nodes of their streams.
fn unequal_parts<'a>(
    before: &'a BackupListing<'_>,
    after: &'a BackupListing<'_>,
    base: &Base,
) -> Box<dyn Iterator<Item = Result<UnequalParts, TreeError>> + 'a> {
    let whole = |listing: &BackupListing<'_>, from: u64| ByteRange {
        offset: from,
        len: listing.listing.len.saturating_sub(from),
    };
    // The part with the folder, if that is known without reading the listing.
    let begin = |listing: &BackupListing<'_>, base: &[u8]| {
        let place = (!base.is_empty()).then(|| listing.place(base)).flatten();
        place.map_or(0, |place| place.listing_offset)
    };
    let begins = (begin(before, &base.before), begin(after, &base.after));
    if base.before != base.after {
        let all = UnequalParts {
            before: whole(before, begins.0),
            after: whole(after, begins.1),
        };
        return Box::new(std::iter::once(Ok(all)));
    }
    let gaps = Gaps::new(before.reader, &before.listing, &after.listing);
    let parts = gaps.map(|gap| {
        let gap = gap.map_err(|error: RecipeError| unread(0, error))?;
        Ok(UnequalParts {
            before: gap.before,
            after: gap.after,
        })
    });
    // Parts that end before the folder have none of its entries.
    Box::new(parts.skip_while(move |part| {
        part.as_ref()
            .is_ok_and(|part| part.before.end() <= begins.0 && part.after.end() <= begins.1)
    }))
}

/// Calls `each` with every difference of two listings below these folders, in listing order, and
/// with the offset in the second listing up to which they are compared, until it breaks. Equal
/// nodes of the two are skipped unread. One reader must read both.
///
/// # Errors
/// [`TreeError::Stream`], [`TreeError::Damaged`].
pub fn for_each_difference<B>(
    before: &BackupListing<'_>,
    after: &BackupListing<'_>,
    base: &Base,
    mut each: impl FnMut(Difference, u64) -> ControlFlow<B>,
) -> Result<ControlFlow<B>, TreeError> {
    let parts = unequal_parts(before, after, base);
    let mut comparing = Comparing::new(before, after, base, parts);
    while let Some(difference) = comparing.next_difference()? {
        if let ControlFlow::Break(value) = each(difference, comparing.offset()) {
            return Ok(ControlFlow::Break(value));
        }
    }
    Ok(ControlFlow::Continue(()))
}
