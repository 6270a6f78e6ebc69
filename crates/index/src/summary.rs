//! The summary of a section: its resident part, and its filter [Guo 3.2, SSD indexing] (G6).
//!
//! A key is cut into a quotient (the upper bits), a remainder of 8 bits, and low bits, which are in
//! the leaves. A summary block has some 3,000 keys: unary counts of how many keys each quotient
//! has, from the block's first quotient on, and the remainders, a byte each. This takes some 11
//! bits for each key. A look-up finds the quotient's keys by counting bits, and compares
//! remainders. So only one in some 250 absent keys reads a leaf. The result is the key's position,
//! which also gives its leaf: no other fences are needed.
//!
//! ```text
//! 0   u16 keys        2   u16 quotients passed (zeros)        4   u32 position of the first key
//! 8   u64 first quotient
//! 16  u16 each: zeros before each group of 512 bits
//! ..  u64 each: the bits, a one for each key and a zero after each quotient, lowest first
//! ..  u8 each: remainders; up to the digest zeros
//! ```
//!
//! Equal keys are in one block. Pure; no bytes cause a panic.

use std::ops::Range;

use format::wire::Writer;

use crate::block::{BODY_BYTES, Block, close_block};

/// Bits of a key: the upper ones of [`crate::Hook::bits`]. With n keys in an index, one look-up in
/// 2^48 / n finds the key of another fingerprint. With 64 Mi hooks that is one in 2^22; a GiB has
/// 131,072 new chunks.
pub(crate) const KEY_BITS: u32 = 48;
/// Bits of a key in the summary, beside the quotient.
pub(crate) const REMAINDER_BITS: u32 = 8;
/// The least number of bits below the quotient: those of the remainder.
pub(crate) const SHIFT_MIN: u32 = REMAINDER_BITS;
/// The most bits below the quotient: then there are 32 low bits.
pub(crate) const SHIFT_MAX: u32 = 40;

/// Approximate bits of a key in the summary, overlap of leaves and digests included.
pub(crate) const SUMMARY_BITS: u64 = 12;

const HEAD_BYTES: usize = 16;
const GROUP_BITS: usize = 512;
const GROUP_WORDS: usize = GROUP_BITS / 64;

/// The key of index bits.
pub(crate) const fn key_of(bits: u64) -> u64 {
    bits >> (u64::BITS - KEY_BITS)
}

/// Index bits with this key. The lower bits are lost.
pub(crate) const fn bits_of_key(key: u64) -> u64 {
    key << (u64::BITS - KEY_BITS)
}

/// The shift at which so many keys over this span have one to two quotients each.
pub(crate) fn shift_for(keys: usize, first: u64, last: u64) -> u32 {
    let gap = last.saturating_sub(first) / (keys.max(1) as u64);
    gap.checked_ilog2().unwrap_or(0).clamp(SHIFT_MIN, SHIFT_MAX)
}

const fn block_bytes(keys: usize, zeros: usize) -> usize {
    let bits = keys + zeros;
    HEAD_BYTES + 2 * bits.div_ceil(GROUP_BITS) + 8 * bits.div_ceil(64) + keys
}

/// Writes a section's summary. Keys must come in order.
#[derive(Debug)]
pub(crate) struct SummaryBuilder {
    shift: u32,
    blocks: Vec<u8>,
    /// The first key of each block.
    tops: Vec<u64>,
    /// Keys in closed blocks.
    position: u32,
    /// The open block.
    first: u64,
    remainders: Vec<u8>,
    words: Vec<u64>,
    zeros: usize,
}

impl SummaryBuilder {
    pub(crate) fn new(shift: u32) -> Self {
        Self {
            shift,
            blocks: Vec::new(),
            tops: Vec::new(),
            position: 0,
            first: 0,
            remainders: Vec::new(),
            words: Vec::new(),
            zeros: 0,
        }
    }

    /// Adds `count` equal keys, which must fit into one block.
    pub(crate) fn push(&mut self, key: u64, count: usize) {
        let quotient = key >> self.shift;
        let zeros = usize::try_from(quotient - (self.first >> self.shift)).unwrap_or(usize::MAX);
        let keys = self.remainders.len() + count;
        if self.remainders.is_empty() || zeros > 8 * BODY_BYTES || block_bytes(keys, zeros) > BODY_BYTES {
            self.close();
            self.first = key;
            self.tops.push(key);
        } else {
            self.zeros = zeros;
        }
        let remainder = (key >> (self.shift - REMAINDER_BITS)).to_le_bytes()[0];
        for _ in 0..count {
            let at = self.remainders.len() + self.zeros;
            self.words.resize(at / 64 + 1, 0);
            self.words[at / 64] |= 1 << (at % 64);
            self.remainders.push(remainder);
        }
    }

    fn close(&mut self) {
        let keys = self.remainders.len();
        if keys == 0 {
            return;
        }
        let bits = keys + self.zeros;
        let mut w = Writer::new(&mut self.blocks);
        w.u16(u16::try_from(keys).expect("fewer than bytes in a block"));
        w.u16(u16::try_from(self.zeros).expect("fewer than bits in a block"));
        w.u32(self.position);
        w.u64(self.first >> self.shift);
        let mut zeros = 0;
        for (at, word) in self.words.iter().enumerate() {
            if at % GROUP_WORDS == 0 {
                w.u16(zeros);
            }
            zeros += u16::try_from(word.count_zeros()).expect("at most 64");
        }
        for word in &self.words {
            w.u64(*word);
        }
        w.put(&self.remainders);
        debug_assert_eq!(self.words.len(), bits.div_ceil(64));
        close_block(&mut self.blocks);
        self.position += u32::try_from(keys).expect("fewer than bytes in a block");
        self.remainders.clear();
        self.words.clear();
        self.zeros = 0;
    }

    /// The blocks and the first key of each.
    pub(crate) fn finish(mut self) -> (Vec<u8>, Vec<u64>) {
        self.close();
        (self.blocks, self.tops)
    }
}

/// One block of a summary.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SummaryBlock<'a> {
    block: Block<'a>,
    keys: usize,
    zeros: usize,
    pub(crate) position: u64,
    first_quotient: u64,
    words_at: usize,
    remainders: &'a [u8],
}

impl<'a> SummaryBlock<'a> {
    /// `None` if its counts do not fit the block.
    pub(crate) fn parse(block: Block<'a>) -> Option<Self> {
        let keys = usize::from(block.u16_at(0)?);
        let zeros = usize::from(block.u16_at(2)?);
        let bits = keys + zeros;
        let words_at = HEAD_BYTES + 2 * bits.div_ceil(GROUP_BITS);
        let remainders_at = words_at + 8 * bits.div_ceil(64);
        Some(Self {
            block,
            keys,
            zeros,
            position: u64::from(block.u32_at(4)?),
            first_quotient: block.u64_at(8)?,
            words_at,
            remainders: block
                .body()
                .get(remainders_at..remainders_at.checked_add(keys)?)?,
        })
    }

    fn word(&self, at: usize) -> Option<u64> {
        self.block.u64_at(self.words_at + 8 * at)
    }

    /// Positions of the keys with this key's quotient and remainder.
    pub(crate) fn find(&self, key: u64, shift: u32) -> Option<Range<u64>> {
        let rank = (key >> shift).checked_sub(self.first_quotient)?;
        let rank = usize::try_from(rank).ok().filter(|rank| *rank <= self.zeros)?;
        let from = match rank.checked_sub(1) {
            None => 0,
            Some(before) => self.zero(before)? + 1,
        };
        let first = from.checked_sub(rank)?;
        let count = self.ones_from(from)?.min(self.keys.checked_sub(first)?);
        let of_quotient = self.remainders.get(first..first + count)?;
        let remainder = (key >> shift.checked_sub(REMAINDER_BITS)?).to_le_bytes()[0];
        let begin = of_quotient.iter().take_while(|held| **held < remainder).count();
        let same = of_quotient[begin..]
            .iter()
            .take_while(|held| **held == remainder)
            .count();
        let begin = self.position + (first + begin) as u64;
        (same > 0).then_some(begin..begin + same as u64)
    }

    /// The place of the zero with this number, from 0.
    fn zero(&self, number: usize) -> Option<usize> {
        let groups = (self.keys + self.zeros).div_ceil(GROUP_BITS);
        let before = |group: usize| self.block.u16_at(HEAD_BYTES + 2 * group).map(usize::from);
        let (mut low, mut high) = (0, groups);
        while high - low > 1 {
            let middle = usize::midpoint(low, high);
            if before(middle)? <= number {
                low = middle;
            } else {
                high = middle;
            }
        }
        let mut left = number.checked_sub(before(low)?)?;
        for at in low * GROUP_WORDS..(low + 1) * GROUP_WORDS {
            let mut zeros = !self.word(at)?;
            let count = zeros.count_ones() as usize;
            if left < count {
                for _ in 0..left {
                    zeros &= zeros - 1;
                }
                return Some(at * 64 + zeros.trailing_zeros() as usize);
            }
            left -= count;
        }
        None
    }

    /// The number of ones from this bit on.
    fn ones_from(&self, from: usize) -> Option<usize> {
        let bits = self.keys + self.zeros;
        let mut ones = 0;
        while from + ones < bits {
            let at = from + ones;
            let run = (self.word(at / 64)? >> (at % 64)).trailing_ones() as usize;
            ones += run;
            if run < 64 - at % 64 {
                break;
            }
        }
        Some(ones.min(bits.saturating_sub(from)))
    }

    /// The upper bits of all keys, in order: quotient and remainder.
    pub(crate) fn keys(self) -> impl Iterator<Item = u64> + use<'a> {
        let bits = self.keys + self.zeros;
        let quotients = (0..bits).scan(self.first_quotient, move |quotient, at| {
            let is_key = self.word(at / 64)? >> (at % 64) & 1 == 1;
            let of_key = *quotient;
            *quotient = quotient.wrapping_add(u64::from(!is_key));
            Some(is_key.then_some(of_key))
        });
        let pairs = quotients.flatten().zip(self.remainders);
        pairs.map(|(quotient, remainder)| quotient << REMAINDER_BITS | u64::from(*remainder))
    }
}

#[cfg(test)]
mod tests;
