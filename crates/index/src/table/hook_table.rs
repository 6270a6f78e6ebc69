//! The hooks of one kind: segments of sorted pages.
//!
//! The first of the fingerprint's index bits choose a segment; in it, entries stand sorted by tag over a list
//! of pages, each at most full. An entry for which its page has no room first spreads all evenly over the
//! segment's pages, and takes one page more when these are [`FULL`]; so pages are between `k / (k + 1)` of
//! that and all of it full, k being a segment's pages (some 28).
//!
//! What must hold: tags ascend over a segment; counts agree with what stands there. One thread writes at a
//! time, many read. When the pool has no page left nothing was changed, and the caller makes room.

use crate::hook::{CANDIDATES_MAX, EXPECTED_MAX};
use crate::table::ordinals::Ordinals;
use crate::table::pages::{Full, PAGE_BYTES, Pages};
use crate::table::slots::{Entry, Rank, SlotLayout, false_candidates_per_gib, tag_bits_for};

/// Entries of a segment when the table is full: more than half of it, at most.
pub(crate) const SEGMENT_ENTRIES: u64 = 8192;
/// With 30 bits of tag, 48 of the index bits are used: runs keep no more.
const SEGMENTS_MAX: u64 = 1 << 18;
/// Slots of a hundred that are used when a segment takes one page more.
const FULL: usize = 98;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PageRef {
    pub(crate) number: u32,
    /// The page's first tag.
    first: u32,
    pub(crate) count: u16,
}

pub(crate) type Segment = Vec<PageRef>;

/// One kind's entries.
#[derive(Debug)]
pub(crate) struct HookTable {
    segments: Vec<Segment>,
    segment_bits: u32,
    layout: SlotLayout,
    /// Entries by rank.
    ranks: [u64; Rank::ALL],
}

/// A place of an entry: page of the segment, slot.
type At = (usize, usize);

impl HookTable {
    /// For some `entries_max` entries; more of them make segments longer.
    pub(crate) fn new(entries_max: u64) -> Self {
        let segments = entries_max
            .div_ceil(SEGMENT_ENTRIES)
            .next_power_of_two()
            .min(SEGMENTS_MAX);
        Self {
            segments: vec![Segment::new(); usize::try_from(segments).expect("at most 2^18")],
            segment_bits: segments.trailing_zeros(),
            layout: SlotLayout::FIRST,
            ranks: [0; Rank::ALL],
        }
    }

    pub(crate) fn layout(&self) -> SlotLayout {
        self.layout
    }

    pub(crate) fn segments(&self) -> &[Segment] {
        &self.segments
    }

    pub(crate) fn entries(&self) -> u64 {
        self.ranks.iter().sum()
    }

    /// Entries that R can drop.
    pub(crate) fn spare(&self) -> u64 {
        self.entries() - self.anchors()
    }

    /// Entries that stay for ever.
    pub(crate) fn anchors(&self) -> u64 {
        self.ranks[Rank::ANCHOR.number()]
    }

    pub(crate) fn pages(&self) -> usize {
        self.segments.iter().map(Vec::len).sum()
    }

    /// Bytes besides pages.
    pub(crate) fn bytes_beside(&self) -> usize {
        let of_segment = |segment: &Segment| size_of::<Segment>() + segment.capacity() * size_of::<PageRef>();
        self.segments.iter().map(of_segment).sum()
    }

    pub(crate) fn false_candidates_per_gib(&self) -> f64 {
        false_candidates_per_gib(&self.ranks, self.segments.len(), self.layout.tag_bits)
    }

    /// Bits of tag needed when entries grow by a factor; never more than there are.
    pub(crate) fn tag_bits_for(&self, growth: f64) -> u32 {
        tag_bits_for(&self.ranks, self.segments.len(), growth).min(self.layout.tag_bits)
    }

    fn split(&self, bits: u64) -> (usize, u64) {
        let segment = bits.checked_shr(64 - self.segment_bits).unwrap_or(0);
        let tag = (bits << self.segment_bits) >> (64 - self.layout.tag_bits);
        (usize::try_from(segment).expect("at most 2^18 segments"), tag)
    }

    /// The first place in a segment whose tag is not less.
    fn lower_bound(&self, pages: &Pages, segment: usize, tag: u64) -> At {
        let list = &self.segments[segment];
        let after = self.first_page_after(list, tag);
        let Some(at) = after.checked_sub(1) else {
            return (0, 0);
        };
        let end = list
            .get(after)
            .map_or(1 << self.layout.tag_bits, |page| page.first.into());
        let (page, range) = (&list[at], (u64::from(list[at].first), end));
        let count = usize::from(page.count);
        let slot = self
            .layout
            .lower_bound(pages.page(page.number), count, range, tag);
        (at, slot)
    }

    /// About how many of a segment's pages begin before a tag.
    fn guess_page(&self, list: &[PageRef], tag: u64) -> usize {
        let share = (tag * list.len() as u64) >> self.layout.tag_bits;
        usize::try_from(share).unwrap_or(0).min(list.len())
    }

    /// The first of a segment's pages whose first tag is not less: near its share of the way, for tags are spread evenly.
    fn first_page_after(&self, list: &[PageRef], tag: u64) -> usize {
        let mut after = self.guess_page(list, tag);
        while list.get(after).is_some_and(|page| u64::from(page.first) < tag) {
            after += 1;
        }
        while after > 0 && u64::from(list[after - 1].first) >= tag {
            after -= 1;
        }
        after
    }

    /// Brings into the processor's caches what look-ups of these bits will read. All first steps together, then all second
    /// ones: each waits for memory, and the processor waits for many at once.
    pub(crate) fn expect(&self, pages: &Pages, bits: impl Iterator<Item = u64>) {
        let mut lists = [(&[][..], 0); EXPECTED_MAX];
        let mut count = 0;
        for (list, bits) in lists.iter_mut().zip(bits) {
            let (segment, tag) = self.split(bits);
            *list = (&self.segments[segment], tag);
            count += 1;
        }
        let mut spots = [(0, 0); EXPECTED_MAX];
        let mut used = 0;
        for (list, tag) in &lists[..count] {
            let after = self.guess_page(list, *tag);
            let near = list.get(after).filter(|page| u64::from(page.first) < *tag);
            let Some(page) = near.or_else(|| list.get(after.checked_sub(1)?)) else {
                continue;
            };
            let position = list.get(after + usize::from(near.is_some()));
            let end = position.map_or(1 << self.layout.tag_bits, |page| u64::from(page.first));
            let range = (u64::from(page.first), end);
            spots[used] = (
                page.number,
                self.layout.guess(usize::from(page.count), range, *tag),
            );
            used += 1;
        }
        let touched = spots[..used]
            .iter()
            .map(|(number, slot)| self.layout.touch(pages.page(*number), *slot));
        std::hint::black_box(touched.fold(0, u8::wrapping_add));
    }

    /// Calls `f` with each entry of a tag, and where it stands, until it says no.
    fn equal(&self, pages: &Pages, segment: usize, tag: u64, mut f: impl FnMut(At, Entry)) -> At {
        let first = self.lower_bound(pages, segment, tag);
        let (mut page, mut slot) = first;
        while let Some(at) = self.segments[segment].get(page) {
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
        first
    }

    /// The ordinals of the containers of hooks with these bits, of this rank.
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
        let is_full = |at: At| usize::from(self.segments[segment][at.0].count) >= self.layout.slots();
        let at = if self.segments[segment].is_empty() {
            self.append_page(pages, segment)?;
            (0, 0)
        } else if is_full(at) {
            self.make_room(pages, segment, at, tag)?
        } else {
            at
        };
        let page = &mut self.segments[segment][at.0];
        self.layout
            .insert(pages.page_mut(page.number), usize::from(page.count), at.1, new);
        page.count += 1;
        if at.1 == 0 {
            page.first = first_of(tag);
        }
        self.ranks[rank.number()] += 1;
        Ok(())
    }

    fn overwrite(&mut self, pages: &mut Pages, segment: usize, at: At, old: Entry, new: Entry) {
        self.layout
            .set(pages.page_mut(self.segments[segment][at.0].number), at.1, new);
        self.ranks[old.rank.number()] -= 1;
        self.ranks[new.rank.number()] += 1;
    }

    fn append_page(&mut self, pages: &mut Pages, segment: usize) -> Result<(), Full> {
        let number = pages.take()?;
        let page = PageRef {
            number,
            first: u32::MAX,
            count: 0,
        };
        self.segments[segment].push(page);
        Ok(())
    }

    /// Makes room around a place in a full page, and says where the place is then. Hooks that come in order
    /// leave full pages behind.
    fn make_room(&mut self, pages: &mut Pages, segment: usize, at: At, tag: u64) -> Result<At, Full> {
        let list = &self.segments[segment];
        let total: usize = list.iter().map(|page| usize::from(page.count)).sum();
        let wanted = pages_for(total + 1, self.layout);
        if wanted > list.len() {
            let is_at_end = at.0 + 1 == list.len() && at.1 == usize::from(list[at.0].count);
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
        let list = &mut self.segments[segment];
        let mut all = Vec::with_capacity(list.len() * PAGE_BYTES);
        for page in list.iter() {
            all.extend_from_slice(&pages.page(page.number)[..usize::from(page.count) * bytes]);
        }
        let count = all.len() / bytes;
        let (each, more) = (count / list.len(), count % list.len());
        let mut rest = &all[..];
        for (n, page) in list.iter_mut().enumerate() {
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
            rest = back;
        }
    }

    /// Pages needed beyond those in use, when all entries are packed anew.
    fn pages_more(&self, layout: SlotLayout) -> usize {
        let of_segment = |segment: &Segment| {
            let total: usize = segment.iter().map(|page| usize::from(page.count)).sum();
            total.div_ceil(layout.slots()).saturating_sub(segment.len())
        };
        self.segments.iter().map(of_segment).sum()
    }

    /// Packs all entries anew, those for which `change` gives one. The tag may become shorter.
    ///
    /// # Errors
    /// [`Full`], nothing changed, when the pool has not the pages: never when slots do not become larger.
    pub(crate) fn rewrite(
        &mut self,
        pages: &mut Pages,
        layout: SlotLayout,
        mut change: impl FnMut(Entry) -> Option<Entry>,
    ) -> Result<(), Full> {
        if self.pages_more(layout) > pages.free() {
            return Err(Full);
        }
        let old = std::mem::replace(&mut self.layout, layout);
        let shorter = old.tag_bits - layout.tag_bits;
        self.ranks = [0; Rank::ALL];
        let mut kept = Vec::new();
        for segment in 0..self.segments.len() {
            let mut list = std::mem::take(&mut self.segments[segment]);
            for page in &list {
                let bytes = pages.page(page.number);
                let entries = (0..usize::from(page.count)).map(|at| old.entry(bytes, at));
                kept.extend(entries.filter_map(&mut change).map(|entry| Entry {
                    tag: entry.tag >> shorter,
                    ..entry
                }));
            }
            for page in list.drain(pages_for(kept.len(), layout).min(list.len())..) {
                pages.give_back(page.number);
            }
            self.segments[segment] = list;
            while self.segments[segment].len() < kept.len().div_ceil(layout.slots()) {
                self.append_page(pages, segment)?;
            }
            self.fill(pages, segment, &kept);
            kept.clear();
        }
        Ok(())
    }

    fn fill(&mut self, pages: &mut Pages, segment: usize, entries: &[Entry]) {
        let list = &mut self.segments[segment];
        list.shrink_to_fit();
        let mut rest = entries;
        for n in (1..=list.len()).rev() {
            let (here, back) = rest.split_at(rest.len().div_ceil(n));
            let at = list.len() - n;
            let page = pages.page_mut(list[at].number);
            for (slot, entry) in here.iter().enumerate() {
                self.layout.set(page, slot, *entry);
            }
            list[at].count = u16::try_from(here.len()).expect("a page has few slots");
            list[at].first = here.first().map_or(u32::MAX, |entry| first_of(entry.tag));
            rest = back;
        }
        for entry in entries {
            self.ranks[entry.rank.number()] += 1;
        }
    }

    /// Takes back entries from pages, number and count of each; false when they are not in order.
    pub(crate) fn load(&mut self, pages: &Pages, layout: SlotLayout, segments: Vec<Vec<(u32, u16)>>) -> bool {
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
                self.segments[segment].push(PageRef { number, first, count });
            }
        }
        true
    }
}

fn first_of(tag: u64) -> u32 {
    u32::try_from(tag).expect("a tag has at most 32 bits")
}

/// Pages for so many entries, each no more than [`FULL`].
fn pages_for(entries: usize, layout: SlotLayout) -> usize {
    entries.div_ceil(layout.slots() * FULL / 100)
}

const _: () = assert!(PAGE_BYTES <= u16::MAX as usize * 5, "counts of slots are 16 bits");
