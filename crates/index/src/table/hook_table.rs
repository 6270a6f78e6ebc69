//! The hooks of one kind: segments of sorted pages.
//!
//! The first of the fingerprint's index bits choose a segment. In a segment, entries are sorted by
//! tag over a list of pages. If the page of a new entry is full, all entries are first spread
//! evenly over the segment's pages. If these are [`FULL`], one page is added. So a segment of k
//! pages (some 28) is filled between `k / (k + 1)` of that and all of it.
//!
//! Invariant: tags ascend over a segment, and counts are right. One thread writes at a time, many
//! read. If the pool has no page left, nothing is changed, and the caller makes room.

use crate::candidates::CANDIDATES_MAX;
use crate::table::directory::{Directory, PageRef};
use crate::table::ordinals::Ordinals;
use crate::table::pages::{Full, PAGE_BYTES, Pages};
use crate::table::slots::{Entry, Near, Rank, SlotLayout, false_candidates_per_gib, tag_bits_for};

/// The most entries of a segment in a full table. Then each segment has more than half as many,
/// because the number of segments is a power of two.
pub(crate) const SEGMENT_ENTRIES: u64 = 8192;
/// With 30 bits of tag, 48 of the index bits are used. Runs keep no more.
const SEGMENTS_MAX: u64 = 1 << 18;
/// A segment gets another page when so many percent of its slots are used.
const FULL: usize = 98;

/// One kind's entries.
#[derive(Debug)]
pub(crate) struct HookTable {
    pub(super) segments: Directory,
    segment_bits: u32,
    pub(super) layout: SlotLayout,
    /// Entries by rank.
    pub(super) ranks: [u64; Rank::ALL],
}

/// The position of an entry: the page in the segment, and the slot.
type At = (usize, usize);

impl HookTable {
    /// A table for some `entries_max` entries. More entries make segments longer.
    pub(crate) fn new(entries_max: u64) -> Self {
        let segments = entries_max
            .div_ceil(SEGMENT_ENTRIES)
            .next_power_of_two()
            .min(SEGMENTS_MAX);
        Self {
            segments: Directory::new(usize::try_from(segments).expect("at most 2^18")),
            segment_bits: segments.trailing_zeros(),
            layout: SlotLayout::FIRST,
            ranks: [0; Rank::ALL],
        }
    }

    pub(crate) fn layout(&self) -> SlotLayout {
        self.layout
    }

    pub(crate) fn segments(&self) -> &Directory {
        &self.segments
    }

    pub(crate) fn entries(&self) -> u64 {
        self.ranks.iter().sum()
    }

    /// Entries that R can drop.
    pub(crate) fn spare(&self) -> u64 {
        self.entries() - self.anchors()
    }

    /// Entries that never leave by sampling.
    pub(crate) fn anchors(&self) -> u64 {
        self.ranks[Rank::ANCHOR.number()]
    }

    pub(crate) fn pages(&self) -> usize {
        self.segments.pages()
    }

    /// Bytes besides pages.
    pub(crate) fn bytes_beside(&self) -> usize {
        self.segments.bytes()
    }

    pub(crate) fn false_candidates_per_gib(&self) -> f64 {
        false_candidates_per_gib(&self.ranks, self.segments.segments(), self.layout.tag_bits)
    }

    /// Bits of tag that are needed if entries grow by this factor, up to the present number.
    pub(crate) fn tag_bits_for(&self, growth: f64) -> u32 {
        tag_bits_for(&self.ranks, self.segments.segments(), growth).min(self.layout.tag_bits)
    }

    pub(super) fn split(&self, bits: u64) -> (usize, u64) {
        let segment = bits.checked_shr(64 - self.segment_bits).unwrap_or(0);
        let tag = (bits << self.segment_bits) >> (64 - self.layout.tag_bits);
        (usize::try_from(segment).expect("at most 2^18 segments"), tag)
    }

    /// The first position in a segment whose tag is not less.
    fn lower_bound(&self, pages: &Pages, segment: usize, tag: u64) -> At {
        let at = self.page_before(segment, tag);
        let Some(page) = self.segments.get(segment, at) else {
            return (0, 0);
        };
        (at, self.near(pages, segment, at, page, tag).lower_bound())
    }

    /// The approximate position of a tag on a page of a segment.
    pub(super) fn near<'a>(
        &self,
        pages: &'a Pages,
        segment: usize,
        at: usize,
        page: PageRef,
        tag: u64,
    ) -> Near<'a> {
        let end = self.segments.next_first(segment, at);
        let range = (
            u64::from(page.first),
            end.map_or(1 << self.layout.tag_bits, u64::from),
        );
        self.layout
            .near(pages.page(page.number), page.count.into(), range, tag)
    }

    /// A guess of the page with a tag: tags are spread evenly.
    pub(super) fn guess_page(&self, segment: usize, tag: u64) -> usize {
        let len = self.segments.len(segment);
        let share = (tag * len as u64) >> self.layout.tag_bits;
        usize::try_from(share).unwrap_or(0).min(len.saturating_sub(1))
    }

    /// The last page of a segment whose first tag is less, or the first page. The search begins
    /// near the tag's share of the range.
    pub(super) fn page_before(&self, segment: usize, tag: u64) -> usize {
        let mut at = self.guess_page(segment, tag);
        let is_less = |first: u32| u64::from(first) < tag;
        while self.segments.next_first(segment, at).is_some_and(is_less) {
            at += 1;
        }
        while at > 0
            && self
                .segments
                .get(segment, at)
                .is_some_and(|page| !is_less(page.first))
        {
            at -= 1;
        }
        at
    }

    /// Calls `f` with each entry of a tag, and its position. Returns the position where they begin
    /// or would begin.
    fn equal(&self, pages: &Pages, segment: usize, tag: u64, f: impl FnMut(At, Entry)) -> At {
        let first = self.lower_bound(pages, segment, tag);
        self.equal_from(pages, segment, tag, first, f);
        first
    }

    /// Like [`Self::equal`], if the position where entries of the tag begin is known.
    pub(super) fn equal_from(
        &self,
        pages: &Pages,
        segment: usize,
        tag: u64,
        (mut page, mut slot): At,
        mut f: impl FnMut(At, Entry),
    ) {
        while let Some(at) = self.segments.get(segment, page) {
            if slot >= usize::from(at.count) {
                (page, slot) = (page + 1, 0);
                continue;
            }
            let entry = self.layout.entry(pages.page(at.number), slot);
            if entry.tag != tag {
                break;
            }
            f((page, slot), entry);
            slot += 1;
        }
    }

    /// Passes to `f` the ordinals of the containers of hooks with these bits and this rank.
    pub(crate) fn find(&self, pages: &Pages, bits: u64, rank: Rank, mut f: impl FnMut(u32)) {
        let (segment, tag) = self.split(bits);
        self.equal(pages, segment, tag, |_, entry| {
            if entry.rank.fits(rank) {
                f(entry.ordinal);
            }
        });
    }

    /// Adds a hook, once. Of one fingerprint the newest [`CANDIDATES_MAX`] are kept.
    pub(crate) fn insert(
        &mut self,
        pages: &mut Pages,
        bits: u64,
        rank: Rank,
        ordinal: u32,
        ordinals: &Ordinals,
    ) -> Result<(), Full> {
        let (segment, tag) = self.split(bits);
        let new = Entry { tag, rank, ordinal };
        let (mut same, mut held, mut oldest) = (None, 0, None);
        let age = |ordinal| ordinals.age(pages, ordinal);
        let at = self.equal(pages, segment, tag, |at, entry| {
            if entry.rank.fits(rank) {
                held += 1;
                if entry.ordinal == ordinal {
                    same = Some((at, entry));
                }
                if oldest.is_none_or(|(_, oldest): (At, Entry)| age(entry.ordinal) < age(oldest.ordinal)) {
                    oldest = Some((at, entry));
                }
            }
        });
        if let Some((at, entry)) = same {
            if rank > entry.rank {
                self.overwrite(pages, segment, at, entry, new);
            }
            return Ok(());
        }
        if let Some((at, entry)) = oldest.filter(|_| held >= CANDIDATES_MAX) {
            if ordinals.age(pages, entry.ordinal) < ordinals.age(pages, ordinal) {
                self.overwrite(pages, segment, at, entry, new);
            }
            return Ok(());
        }
        let at = match self.segments.get(segment, at.0) {
            None => {
                self.append_page(pages, segment)?;
                (0, 0)
            }
            Some(page) if usize::from(page.count) >= self.layout.slots() => {
                self.make_room(pages, segment, at, tag)?
            }
            Some(_) => at,
        };
        let mut page = self.page_at(segment, at.0);
        self.layout
            .insert(pages.page_mut(page.number), usize::from(page.count), at.1, new);
        page.count += 1;
        if at.1 == 0 {
            page.first = first_of(tag);
        }
        self.segments.set(segment, at.0, page);
        self.ranks[rank.number()] += 1;
        Ok(())
    }

    fn overwrite(&mut self, pages: &mut Pages, segment: usize, at: At, old: Entry, new: Entry) {
        self.layout
            .set(pages.page_mut(self.page_at(segment, at.0).number), at.1, new);
        self.ranks[old.rank.number()] -= 1;
        self.ranks[new.rank.number()] += 1;
    }

    /// Adds an empty page to a segment.
    pub(super) fn append_page(&mut self, pages: &mut Pages, segment: usize) -> Result<(), Full> {
        let bytes = self.segments.bytes_to_push(segment);
        if pages.free_beside() < bytes {
            return Err(Full);
        }
        let number = pages.take()?;
        let page = PageRef {
            number,
            first: u32::MAX,
            count: 0,
        };
        self.push_page(pages, segment, page)
    }

    fn push_page(&mut self, pages: &mut Pages, segment: usize, page: PageRef) -> Result<(), Full> {
        pages.take_beside(self.segments.bytes_to_push(segment))?;
        self.segments.push(segment, page);
        Ok(())
    }

    pub(super) fn page_at(&self, segment: usize, at: usize) -> PageRef {
        self.segments.get(segment, at).expect("the segment has this page")
    }

    /// Entries of a segment.
    pub(super) fn held(&self, segment: usize) -> usize {
        self.segments
            .row(segment)
            .map(|page| usize::from(page.count))
            .sum()
    }

    /// Makes room at a position in a full page, and returns the new position. Hooks that come in
    /// order leave full pages behind.
    fn make_room(&mut self, pages: &mut Pages, segment: usize, at: At, tag: u64) -> Result<At, Full> {
        let len = self.segments.len(segment);
        let wanted = pages_for(self.held(segment) + 1, self.layout);
        if wanted > len {
            let is_at_end = at.0 + 1 == len && at.1 == usize::from(self.page_at(segment, at.0).count);
            self.append_page(pages, segment)?;
            if is_at_end {
                return Ok((at.0 + 1, 0));
            }
        }
        self.spread(pages, segment);
        Ok(self.lower_bound(pages, segment, tag))
    }

    /// Spreads a segment's entries evenly over its pages.
    fn spread(&mut self, pages: &mut Pages, segment: usize) {
        let bytes = self.layout.bytes;
        let len = self.segments.len(segment);
        let mut all = Vec::with_capacity(len * PAGE_BYTES);
        for page in self.segments.row(segment) {
            all.extend_from_slice(&pages.page(page.number)[..usize::from(page.count) * bytes]);
        }
        let count = all.len() / bytes;
        let (each, more) = (count / len, count % len);
        let mut rest = &all[..];
        for n in 0..len {
            let mut page = self.page_at(segment, n);
            let here = each + usize::from(n < more);
            let (front, back) = rest.split_at(here * bytes);
            let target = pages.page_mut(page.number);
            target[..front.len()].copy_from_slice(front);
            page.count = u16::try_from(here).expect("a page has few slots");
            page.first = if here == 0 {
                u32::MAX
            } else {
                first_of(self.layout.tag(target, 0))
            };
            self.segments.set(segment, n, page);
            rest = back;
        }
    }

    /// Restores entries from pages, with the number and count of each. Returns false if they are
    /// not in order, or if one segment has so many that the budget has no room for the directory.
    pub(crate) fn load(
        &mut self,
        pages: &mut Pages,
        layout: SlotLayout,
        segments: Vec<Vec<(u32, u16)>>,
    ) -> bool {
        self.layout = layout;
        for (segment, list) in segments.into_iter().enumerate() {
            let mut last = 0;
            for (number, count) in list {
                let (page, here) = (pages.page(number), usize::from(count));
                if here > layout.slots() {
                    return false;
                }
                let mut first = u32::MAX;
                for at in 0..here {
                    let entry = layout.entry(page, at);
                    if entry.tag < last {
                        return false;
                    }
                    last = entry.tag;
                    first = first.min(first_of(last));
                    self.ranks[entry.rank.number()] += 1;
                }
                if self
                    .push_page(pages, segment, PageRef { number, first, count })
                    .is_err()
                {
                    return false;
                }
            }
        }
        true
    }
}

pub(super) fn first_of(tag: u64) -> u32 {
    u32::try_from(tag).expect("a tag has at most 32 bits")
}

/// The number of pages for so many entries, none fuller than [`FULL`].
pub(super) fn pages_for(entries: usize, layout: SlotLayout) -> usize {
    entries.div_ceil(layout.slots() * FULL / 100)
}

const _: () = assert!(PAGE_BYTES <= u16::MAX as usize * 5, "counts of slots are 16 bits");

#[cfg(test)]
mod tests {
    use super::*;

    /// An invented image may have so many pages in one segment that lines for all segments would
    /// fill the memory.
    #[test]
    fn a_segment_that_is_far_too_long_is_not_taken_back() {
        for pages_of_one in [200, 1 << 16] {
            let mut pages = Pages::new(1 << 10, (1 << 10) * 32);
            let number = pages.take().unwrap();
            let mut table = HookTable::new(64 * SEGMENT_ENTRIES);
            let segments = vec![vec![(number, 0); pages_of_one]];
            assert!(!table.load(&mut pages, SlotLayout::FIRST, segments));
            assert!(table.bytes_beside() < 1 << 16);
        }
    }
}
