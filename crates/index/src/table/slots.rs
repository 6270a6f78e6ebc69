//! An entry in some 7 bytes: tag, rank, container.
//!
//! ```text
//! highest bits         lowest
//! tag | rank, 4 bits | ordinal of the container      5 to 8 bytes, little-endian
//! ```
//!
//! The first of the fingerprint's index bits choose the segment of an entry, and the following bits
//! are its tag. The rank is the one in runs: the level up to 14, or that of an anchor. Two
//! fingerprints count as equal if all those bits and their ranks agree. Values only.

use crate::sampling::{SampleLevel, SamplingRate, Standing};
use crate::table::pages::{PAGE_BYTES, Page};

const RANK_BITS: u32 = 4;
/// The scale of [`Near::slots_each`], in bits.
const SHIFT: u32 = 32;
/// A tag is nearly always within so many slots of the better guess.
const NEAR: usize = 8;
/// Most tags are within so many bytes of the better guess. With fewer, more lines are waited for
/// one by one; with more, lines are read for nothing.
const BESIDE: usize = 28;

/// The part of a [`Standing`] that runs keep: the level up to 14, or that it is an anchor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank(u8);

impl Rank {
    pub(crate) const ALL: usize = 1 << RANK_BITS;
    pub(crate) const ANCHOR: Self = Self((1 << RANK_BITS) - 1);

    pub(crate) fn of(standing: Standing) -> Self {
        if standing.is_anchor {
            Self::ANCHOR
        } else {
            Self::of_level(standing.level)
        }
    }

    pub(crate) fn of_level(level: SampleLevel) -> Self {
        Self(level.get().min(Self::ANCHOR.0 - 1))
    }

    pub(crate) fn number(self) -> usize {
        usize::from(self.0)
    }

    /// Like [`Standing::stays_at`], except that below 2^-14 only anchors stay.
    pub(crate) fn stays_at(self, rate: SamplingRate) -> bool {
        self == Self::ANCHOR || self.0 >= rate.halvings()
    }

    /// Whether both may belong to one fingerprint: the level of an anchor is not known.
    pub(crate) fn fits(self, other: Self) -> bool {
        self == other || self == Self::ANCHOR || other == Self::ANCHOR
    }
}

/// An entry, unpacked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entry {
    pub(crate) tag: u64,
    pub(crate) rank: Rank,
    pub(crate) ordinal: u32,
}

/// The packing of entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SlotLayout {
    pub(crate) bytes: usize,
    pub(crate) tag_bits: u32,
}

impl SlotLayout {
    /// Seven bytes: 30 bits of tag are enough for R = 1 (see [`tag_bits_for`]), and 22 for four
    /// million containers.
    pub(crate) const FIRST: Self = Self {
        bytes: 7,
        tag_bits: 30,
    };

    /// The smallest slot for so many bits of tag and so many containers. Spare bits are given to
    /// the tag, up to `tag_bits_max`, because dropped bits cannot be restored. `None` beyond 8
    /// bytes.
    pub(crate) fn fitting(tag_bits_min: u32, tag_bits_max: u32, containers: u64) -> Option<Self> {
        let ordinal_bits = (64 - containers.saturating_sub(1).leading_zeros()).max(8);
        let bytes = (tag_bits_min + RANK_BITS + ordinal_bits).div_ceil(8).max(5);
        let tag_bits = tag_bits_max.min((bytes * 8).checked_sub(RANK_BITS + ordinal_bits)?);
        (bytes <= 8 && ordinal_bits <= 32).then_some(Self {
            bytes: bytes as usize,
            tag_bits,
        })
    }

    /// A layout that was read, if it is possible.
    pub(crate) fn checked(bytes: u32, tag_bits: u32) -> Option<Self> {
        let is_one = (5..=8).contains(&bytes) && (1..=Self::FIRST.tag_bits).contains(&tag_bits);
        (is_one && tag_bits + RANK_BITS < bytes * 8).then_some(Self {
            bytes: bytes as usize,
            tag_bits,
        })
    }

    fn ordinal_bits(self) -> u32 {
        u32::try_from(self.bytes * 8).expect("at most 64") - RANK_BITS - self.tag_bits
    }

    /// The most containers that can have an ordinal.
    pub(crate) fn ordinals(self) -> u64 {
        1 << self.ordinal_bits().min(32)
    }

    /// Slots of a page.
    pub(crate) fn slots(self) -> usize {
        PAGE_BYTES / self.bytes
    }

    fn tag_shift(self) -> u32 {
        RANK_BITS + self.ordinal_bits()
    }

    fn pack(self, entry: Entry) -> u64 {
        let rank = u64::from(entry.rank.0) << self.ordinal_bits();
        (entry.tag << self.tag_shift()) | rank | u64::from(entry.ordinal)
    }

    fn unpack(self, packed: u64) -> Entry {
        let ordinal = packed & (self.ordinals() - 1);
        let rank = (packed >> self.ordinal_bits()) & ((1 << RANK_BITS) - 1);
        Entry {
            tag: packed >> self.tag_shift(),
            rank: Rank(u8::try_from(rank).expect("four bits")),
            ordinal: u32::try_from(ordinal).expect("32 bits at most"),
        }
    }

    fn packed(self, page: &Page, at: usize) -> u64 {
        let begin = at * self.bytes;
        // Eight bytes are within the page for every slot, because the last slot of an 8-byte layout
        // has eight itself.
        let bytes: &[u8; 8] = page[begin..].first_chunk().expect("a slot lies within its page");
        u64::from_le_bytes(*bytes) & (u64::MAX >> (64 - 8 * self.bytes))
    }

    pub(crate) fn entry(self, page: &Page, at: usize) -> Entry {
        self.unpack(self.packed(page, at))
    }

    pub(crate) fn tag(self, page: &Page, at: usize) -> u64 {
        self.packed(page, at) >> self.tag_shift()
    }

    pub(crate) fn set(self, page: &mut Page, at: usize, entry: Entry) {
        let packed = self.pack(entry).to_le_bytes();
        page[at * self.bytes..(at + 1) * self.bytes].copy_from_slice(&packed[..self.bytes]);
    }

    /// Moves the entries of a page from `at` on, and writes the entry there.
    pub(crate) fn insert(self, page: &mut Page, count: usize, at: usize, entry: Entry) {
        page.copy_within(at * self.bytes..count * self.bytes, (at + 1) * self.bytes);
        self.set(page, at, entry);
    }

    /// The approximate place of a tag among the first `count` slots of a page. Tags are spread
    /// evenly, so it is at the tag's share of the range from `first`, the page's first tag, to
    /// `end`, the next page's.
    pub(crate) fn near(self, page: &Page, count: usize, (first, end): (u64, u64), tag: u64) -> Near<'_> {
        // Tags have at most 30 bits, and counts nine.
        let slots_each = ((count as u64) << SHIFT) / end.saturating_sub(first).max(1);
        let share = tag.saturating_sub(first).saturating_mul(slots_each) >> SHIFT;
        let guess = usize::try_from(share).unwrap_or(0).min(count.saturating_sub(1));
        Near {
            layout: self,
            page,
            count,
            slots_each,
            guess,
            tag,
        }
    }

    /// The first of the slots from `low` to `high` whose tag is not less, or `high`.
    fn first_in(self, page: &Page, low: usize, high: usize, tag: u64) -> usize {
        let (mut low, mut size) = (low, high - low);
        while size > 0 {
            let half = size.div_ceil(2);
            let is_less = self.tag(page, low + half - 1) < tag;
            low = std::hint::select_unpredictable(is_less, low + half, low);
            size -= half;
        }
        low
    }
}

/// The approximate place of a tag on a page.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Near<'a> {
    layout: SlotLayout,
    page: &'a Page,
    count: usize,
    /// Slots for a step of one in tags, times 2^32.
    slots_each: u64,
    guess: usize,
    tag: u64,
}

impl<'a> Near<'a> {
    /// The slot where the tag should be: the first line to read.
    pub(crate) fn line(&self) -> &'a u8 {
        &self.page[self.guess * self.layout.bytes]
    }

    /// A better guess. It starts from the tag at the first guess and corrects by the difference.
    /// Only the unevenness of the tags in between remains.
    fn better(&self) -> usize {
        let found = self.layout.tag(self.page, self.guess);
        let off = found.abs_diff(self.tag).saturating_mul(self.slots_each) >> SHIFT;
        let off = usize::try_from(off).unwrap_or(self.count).min(self.count);
        let (before, behind) = (self.guess.saturating_sub(off), (self.guess + off).min(self.count));
        std::hint::select_unpredictable(found < self.tag, behind, before)
    }

    /// The other lines that will probably be read, once the first line has arrived.
    pub(crate) fn lines_beside(&self) -> [&'a u8; 2] {
        let begin = self.better() * self.layout.bytes;
        let last = PAGE_BYTES - 1;
        [
            &self.page[begin.saturating_sub(BESIDE)],
            &self.page[(begin + BESIDE).min(last)],
        ]
    }

    /// The first slot whose tag is not less. The search has no unpredictable branches.
    pub(crate) fn lower_bound(&self) -> usize {
        let Self {
            layout,
            page,
            count,
            tag,
            ..
        } = *self;
        let guess = self.better();
        let (low, high) = (guess.saturating_sub(NEAR), (guess + NEAR).min(count));
        let found = layout.first_in(page, low, high, tag);
        if found == low && low > 0 {
            layout.first_in(page, 0, low, tag)
        } else if found == high && high < count {
            layout.first_in(page, high, count, tag)
        } else {
            found
        }
    }
}

/// Look-ups of one GiB of new data: one for each chunk of 8 KiB.
pub(crate) const LOOKUPS_PER_GIB: f64 = 131_072.0;

/// The most entries that match an absent fingerprint, for each GiB of new data. Each causes the
/// load of a catalog for nothing.
///
/// Look-ups of level l are `2^-(l+1)` of all, and n entries have that level. In one segment, each
/// look-up compares with the entries of its level and with the anchors. A tag matches with a chance
/// of `2^-tag_bits`: `131,072 * (sum(2^-(l+1) n) + anchors) / segments / 2^tag_bits`. At R = 1, n
/// is `2^-(l+1)` of all entries, and the sum a third of them. Each halving drops the commonest
/// level, so the sum halves too.
#[expect(clippy::cast_precision_loss, reason = "an expectation")]
pub(crate) fn false_candidates_per_gib(ranks: &[u64; Rank::ALL], segments: usize, tag_bits: u32) -> f64 {
    let [levels @ .., anchors] = ranks;
    let met: f64 = (1..).zip(levels).map(|(l, n)| *n as f64 * 0.5f64.powi(l)).sum();
    let met = met + *anchors as f64;
    LOOKUPS_PER_GIB * met / segments as f64 * 0.5f64.powi(i32::try_from(tag_bits).unwrap_or(i32::MAX))
}

/// Bits of tag that keep [`false_candidates_per_gib`] at half of one, if entries grow by this
/// factor.
pub(crate) fn tag_bits_for(ranks: &[u64; Rank::ALL], segments: usize, growth: f64) -> u32 {
    let without = false_candidates_per_gib(ranks, segments, 0) * growth.max(1.0);
    (8..32)
        .find(|bits| without * 0.5f64.powi(*bits) <= 0.5)
        .map_or(32, i32::cast_unsigned)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For any guess: tags that are spread evenly, all equal, or crowded at either end; few tags or
    /// a full page.
    #[test]
    fn the_lower_bound_is_that_of_a_walk() {
        for bytes in 5..=8 {
            let tag_bits = (bytes * 8 - 12).min(SlotLayout::FIRST.tag_bits);
            walk(SlotLayout::checked(bytes, tag_bits).unwrap());
        }
    }

    fn walk(layout: SlotLayout) {
        let all = 1_u64 << layout.tag_bits;
        let spread = |n: u64| n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - layout.tag_bits);
        let shapes: [&dyn Fn(u64) -> u64; 5] = [&spread, &|n| spread(n / 40), &|_| 77, &|n| n, &|n| {
            all - 1 - n * n
        }];
        for shape in shapes {
            for count in [0, 1, 2, 9, 100, layout.slots()] {
                let mut tags: Vec<u64> = (0..count as u64).map(shape).collect();
                tags.sort_unstable();
                let mut page: Page = [0; PAGE_BYTES];
                for (slot, tag) in tags.iter().enumerate() {
                    let (rank, ordinal) = (Rank::ANCHOR, 5);
                    layout.set(
                        &mut page,
                        slot,
                        Entry {
                            tag: *tag,
                            rank,
                            ordinal,
                        },
                    );
                }
                let first = tags.first().copied().unwrap_or(all);
                let near = tags
                    .iter()
                    .flat_map(|tag| [tag.saturating_sub(1), *tag, (tag + 1).min(all - 1)]);
                for tag in near.chain([0, all / 2, all - 1]) {
                    let walked = tags.partition_point(|held| *held < tag);
                    for end in [all, tags.last().copied().unwrap_or(all)] {
                        let near = layout.near(&page, count, (first, end), tag);
                        let _ = (near.line(), near.lines_beside());
                        assert_eq!(near.lower_bound(), walked, "{tag} of {tags:?}");
                    }
                }
            }
        }
    }
}
