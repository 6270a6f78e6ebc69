//! Records of a section's leaves: the parts of each hook that are not in the summary, in as few
//! bits as possible.
//!
//! A record has the key's low bits, the hook's rank (4 bits) and the container's ordinal, packed
//! without gaps, lowest bits first. Its position identifies it, so a leaf needs no count. The next
//! leaf repeats the last [`LEAF_OVERLAP`] records of a leaf, so one look-up reads its candidates
//! from one leaf. Pure; no bytes cause a panic.

use crate::block::{BODY_BYTES, Block, close_block};
use crate::sampling::Standing;

/// Records that a leaf shares with the next one: one fewer than the most candidates of a look-up.
pub(crate) const LEAF_OVERLAP: usize = crate::candidates::CANDIDATES_MAX - 1;
/// Bits of a rank.
pub(crate) const RANK_BITS: u32 = 4;

/// A hook in a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The key. In a record that was read, only its low bits.
    pub(crate) key: u64,
    /// See [`rank_of`].
    pub(crate) rank: u8,
    /// The ordinal of the container in the table.
    pub(crate) ordinal: u32,
}

/// The highest rank: that of an anchor.
const RANK_OF_ANCHOR: u8 = (1 << RANK_BITS) - 1;

/// A standing in four bits. Levels from 14 on have one rank, so below a rate of 2^-14 only anchors
/// stay.
pub(crate) fn rank_of(standing: Standing) -> u8 {
    if standing.is_anchor {
        RANK_OF_ANCHOR
    } else {
        standing.level.get().min(RANK_OF_ANCHOR - 1)
    }
}

/// The inverse of [`rank_of`], as far as the rank is exact.
pub(crate) fn standing_of(rank: u8) -> Standing {
    Standing {
        is_anchor: rank >= RANK_OF_ANCHOR,
        ..Standing::from_bits(rank)
    }
}

/// The widths of records, which are the same in a whole section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordShape {
    /// At most 32.
    pub(crate) low_bits: u32,
    /// At most 32.
    pub(crate) ordinal_bits: u32,
}

impl RecordShape {
    /// Bits of a record.
    pub(crate) const fn bits(self) -> usize {
        (self.low_bits + RANK_BITS + self.ordinal_bits) as usize
    }

    /// Records that fit a leaf.
    pub(crate) const fn per_leaf(self) -> usize {
        BODY_BYTES * 8 / self.bits()
    }

    /// Records from the first of a leaf to the first of the next.
    pub(crate) const fn stride(self) -> usize {
        self.per_leaf() - LEAF_OVERLAP
    }

    /// The number of leaves for so many records.
    pub(crate) const fn leaves(self, records: u64) -> u64 {
        records.div_ceil(self.stride() as u64)
    }

    /// The record at this position of a leaf.
    pub(crate) fn read(self, leaf: Block<'_>, at: usize) -> Option<Entry> {
        let bit = at.checked_mul(self.bits())?;
        if bit + self.bits() > BODY_BYTES * 8 {
            return None;
        }
        let mut bits = leaf.u128_at(bit / 8)? >> (bit % 8);
        let mut take = |count: u32| {
            let taken = bits & ((1 << count) - 1);
            bits >>= count;
            taken.to_le_bytes()
        };
        let (low, rank, ordinal) = (take(self.low_bits), take(RANK_BITS), take(self.ordinal_bits));
        Some(Entry {
            key: u64::from_le_bytes(*low.first_chunk()?),
            rank: rank[0],
            ordinal: u32::from_le_bytes(*ordinal.first_chunk()?),
        })
    }

    /// The leaves of all entries.
    pub(crate) fn write(self, entries: &[Entry]) -> Vec<u8> {
        let mut out = Vec::new();
        for first in (0..entries.len()).step_by(self.stride()) {
            let of_leaf = &entries[first..entries.len().min(first + self.per_leaf())];
            self.write_leaf(of_leaf, &mut out);
        }
        out
    }

    fn write_leaf(self, entries: &[Entry], out: &mut Vec<u8>) {
        let (mut held, mut count) = (0u128, 0);
        for entry in entries {
            let low = entry.key & ((1 << self.low_bits) - 1);
            let after_low = u128::from(low) | u128::from(entry.rank) << self.low_bits;
            let bits = after_low | u128::from(entry.ordinal) << (self.low_bits + RANK_BITS);
            held |= bits << count;
            count += self.bits();
            while count >= 8 {
                out.push(held.to_le_bytes()[0]);
                held >>= 8;
                count -= 8;
            }
        }
        if count > 0 {
            out.push(held.to_le_bytes()[0]);
        }
        close_block(out);
    }
}

#[cfg(test)]
mod tests;
