//! Free blocks of a volume.
//!
//! Each volume has its own, so that a write takes no lock of the pool, and the volume's log alone
//! says what is free (D5). A free block may be in any extent: the volume that gives up the last
//! reference to a block keeps it.

use std::collections::{BTreeMap, BTreeSet};

use format::pool::EXTENT_BLOCKS;
use format::pool::state::FreeBits;
use types::{BlockNumber, ExtentNumber};

/// A run of successive blocks: the first, and how many.
pub(crate) type Run = (BlockNumber, u32);

/// The extent of a block, and its number there.
pub(crate) fn place(block: BlockNumber) -> (ExtentNumber, usize) {
    let extent = u32::try_from(block.get() / EXTENT_BLOCKS).ok();
    let extent = extent.and_then(|number| ExtentNumber::new(number).ok());
    let index = usize::try_from(block.get() % EXTENT_BLOCKS).unwrap_or(0);
    (
        extent.expect("a block number has 30 bits above its extent's"),
        index,
    )
}

/// The block at this number of the extent.
pub(crate) fn block_at(extent: ExtentNumber, index: usize) -> BlockNumber {
    let number = u64::from(extent.get()) * EXTENT_BLOCKS + index as u64;
    BlockNumber::new(number).expect("an extent's blocks have numbers")
}

/// The blocks of runs.
pub(crate) fn each_block(runs: &[Run]) -> impl Iterator<Item = BlockNumber> + '_ {
    runs.iter().flat_map(|(first, count)| {
        (0..u64::from(*count)).filter_map(|n| BlockNumber::new(first.get() + n).ok())
    })
}

/// A set of free blocks.
#[derive(Debug, Default, Clone)]
pub(crate) struct FreeBlocks {
    whole: BTreeSet<ExtentNumber>,
    parts: BTreeMap<ExtentNumber, FreeBits>,
    /// Free blocks in `parts`.
    scattered: u64,
}

const WORD: usize = 64;
/// Blocks of an extent.
pub(crate) const EXTENT_LEN: usize = 1024;
const ALL: FreeBits = [u64::MAX; 16];

impl FreeBlocks {
    /// From the lists of a checkpoint.
    pub(crate) fn from_lists(whole: &[ExtentNumber], parts: &[(ExtentNumber, FreeBits)]) -> Self {
        Self {
            whole: whole.iter().copied().collect(),
            parts: parts.iter().copied().collect(),
            scattered: parts.iter().map(|(_, bits)| count(bits)).sum(),
        }
    }

    /// As the lists of a checkpoint.
    pub(crate) fn to_lists(&self) -> (Vec<ExtentNumber>, Vec<(ExtentNumber, FreeBits)>) {
        let parts = self.parts.iter().map(|(extent, bits)| (*extent, *bits));
        (self.whole.iter().copied().collect(), parts.collect())
    }

    /// Free blocks.
    pub(crate) fn len(&self) -> u64 {
        self.whole.len() as u64 * EXTENT_BLOCKS + self.scattered
    }

    /// Bytes that the lists take in a checkpoint, at most.
    pub(crate) fn state_bytes(&self) -> usize {
        5 * self.whole.len() + 140 * self.parts.len()
    }

    /// Extents of which all blocks are free.
    pub(crate) fn whole_extents(&self) -> usize {
        self.whole.len()
    }

    /// Adds an extent, all of whose blocks are free.
    pub(crate) fn add_extent(&mut self, extent: ExtentNumber) {
        self.whole.insert(extent);
    }

    /// Takes an extent, all of whose blocks are free.
    pub(crate) fn take_extent(&mut self) -> Option<ExtentNumber> {
        self.whole.pop_last()
    }

    /// Takes this extent; `false` if some of its blocks are not free.
    pub(crate) fn remove_extent(&mut self, extent: ExtentNumber) -> bool {
        self.whole.remove(&extent)
    }

    /// Whether a block of this extent is free.
    pub(crate) fn has_some_of(&self, extent: ExtentNumber) -> bool {
        self.whole.contains(&extent) || self.parts.contains_key(&extent)
    }

    /// Visits the free blocks.
    pub(crate) fn each(&self, each: &mut dyn FnMut(BlockNumber)) {
        for extent in &self.whole {
            for index in 0..EXTENT_LEN {
                each(block_at(*extent, index));
            }
        }
        for (extent, bits) in &self.parts {
            for index in 0..EXTENT_LEN {
                if bits[index / WORD] >> (index % WORD) & 1 == 1 {
                    each(block_at(*extent, index));
                }
            }
        }
    }

    /// Adds a block. `false` if it was free before: that is a contradiction.
    pub(crate) fn add(&mut self, block: BlockNumber) -> bool {
        let (extent, index) = place(block);
        if self.whole.contains(&extent) {
            return false;
        }
        let bits = self.parts.entry(extent).or_default();
        let (word, bit) = (index / WORD, 1u64 << (index % WORD));
        if bits[word] & bit != 0 {
            return false;
        }
        bits[word] |= bit;
        self.scattered += 1;
        if *bits == ALL {
            self.parts.remove(&extent);
            self.scattered -= EXTENT_BLOCKS;
            self.whole.insert(extent);
        }
        true
    }

    /// Takes this block; `false` if it is not free.
    pub(crate) fn remove(&mut self, block: BlockNumber) -> bool {
        let (extent, index) = place(block);
        if self.whole.remove(&extent) {
            self.parts.insert(extent, ALL);
            self.scattered += EXTENT_BLOCKS;
        }
        let Some(bits) = self.parts.get_mut(&extent) else {
            return false;
        };
        let (word, bit) = (index / WORD, 1u64 << (index % WORD));
        if bits[word] & bit == 0 {
            return false;
        }
        bits[word] &= !bit;
        self.scattered -= 1;
        if *bits == [0; 16] {
            self.parts.remove(&extent);
        }
        true
    }

    /// Takes a run of at most `wanted` successive blocks. Short runs come from extents with few
    /// free blocks, so that whole extents stay whole; long ones begin a whole extent.
    pub(crate) fn take_run(&mut self, wanted: u32) -> Option<Run> {
        if wanted >= LONG_RUN
            && let Some(extent) = self.open_extent_for(wanted)
        {
            return self.take_from(extent, wanted);
        }
        let extent = match self.parts.first_key_value() {
            Some((extent, _)) => *extent,
            None => self.open_whole()?,
        };
        self.take_from(extent, wanted)
    }

    /// Moves the first whole extent to the others.
    fn open_whole(&mut self) -> Option<ExtentNumber> {
        let extent = self.whole.pop_first()?;
        self.parts.insert(extent, ALL);
        self.scattered += EXTENT_BLOCKS;
        Some(extent)
    }

    /// An extent with a long run at its end: the one that the last long run left, or a whole one.
    fn open_extent_for(&mut self, wanted: u32) -> Option<ExtentNumber> {
        let is_open = |bits: &FreeBits| longest_tail(bits) >= wanted.min(LONG_RUN);
        if let Some((extent, bits)) = self.parts.last_key_value()
            && is_open(bits)
        {
            return Some(*extent);
        }
        self.open_whole()
    }

    fn take_from(&mut self, extent: ExtentNumber, wanted: u32) -> Option<Run> {
        let bits = self.parts.get_mut(&extent)?;
        let tail = longest_tail(bits);
        let first = if wanted >= LONG_RUN && tail >= LONG_RUN {
            EXTENT_LEN - tail as usize
        } else {
            first_set(bits)?
        };
        let mut len = 0;
        while len < wanted as usize && first + len < EXTENT_LEN {
            let (word, bit) = ((first + len) / WORD, 1u64 << ((first + len) % WORD));
            if bits[word] & bit == 0 {
                break;
            }
            bits[word] &= !bit;
            len += 1;
        }
        self.scattered -= len as u64;
        if *bits == [0; 16] {
            self.parts.remove(&extent);
        }
        let len = u32::try_from(len).expect("an extent has 1,024 blocks");
        Some((block_at(extent, first), len))
    }

    /// Takes out up to `max` blocks as runs, scattered ones first.
    pub(crate) fn take_scattered(&mut self, max: u64) -> Vec<Run> {
        let (mut runs, mut taken) = (Vec::new(), 0);
        while taken < max {
            let extent = match self.parts.first_key_value() {
                Some((extent, _)) => *extent,
                None => match self.open_whole() {
                    Some(extent) => extent,
                    None => break,
                },
            };
            let wanted = u32::try_from((max - taken).min(EXTENT_BLOCKS)).unwrap_or(1);
            let Some(run) = self.take_from(extent, wanted.min(LONG_RUN - 1)) else {
                break;
            };
            taken += u64::from(run.1);
            runs.push(run);
        }
        runs
    }
}

/// Runs of at least this many blocks (256 KiB) are laid out in a row.
const LONG_RUN: u32 = 64;

fn count(bits: &FreeBits) -> u64 {
    bits.iter().map(|word| u64::from(word.count_ones())).sum()
}

fn first_set(bits: &FreeBits) -> Option<usize> {
    let (number, word) = bits.iter().enumerate().find(|(_, word)| **word != 0)?;
    Some(number * WORD + word.trailing_zeros() as usize)
}

/// Free blocks in a row at the end of the extent.
fn longest_tail(bits: &FreeBits) -> u32 {
    let mut len = 0;
    for word in bits.iter().rev() {
        len += word.leading_ones();
        if *word != u64::MAX {
            break;
        }
    }
    len
}

#[cfg(test)]
mod tests;
