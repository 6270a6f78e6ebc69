//! What a block has, and how it reads.

use std::sync::Arc;

use rand_chacha::ChaCha8Rng;
use rand_core::{Rng, SeedableRng};

use crate::block::device::BLOCK_LEN;

/// Bytes of a part that a disk writes whole or not at all: a sector.
pub(super) const PART_BYTES: usize = 512;

/// The bytes of a block.
pub(super) type Block = [u8; BLOCK_LEN];

/// How discarded blocks read. Whichever way, they read the same until the next power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiscardedReads {
    /// As zeros.
    Zeros,
    /// As before the discard.
    Old,
    /// As random bytes of this seed. They are others after a power cut.
    Garbage(u64),
    /// Each block in one of these three ways, as the seed says; in another way after a power cut.
    Seeded(u64),
}

/// What a block has.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Content {
    Zeros,
    Bytes(Arc<Block>),
    /// Anything. `change` tells one discard from another.
    Discarded {
        old: Option<Arc<Block>>,
        change: u64,
    },
}

/// Turns contents into bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader {
    pub(super) discarded: DiscardedReads,
    /// Power cuts so far.
    pub(super) cuts: u64,
}

impl Reader {
    pub(super) fn read(&self, number: u64, content: &Content, out: &mut [u8]) {
        match content {
            Content::Zeros => out.fill(0),
            Content::Bytes(bytes) => out.copy_from_slice(&bytes[..]),
            Content::Discarded { old, change } => self.read_discarded(number, old.as_deref(), *change, out),
        }
    }

    fn read_discarded(&self, number: u64, old: Option<&Block>, change: u64, out: &mut [u8]) {
        let random = |seed: u64| {
            let mut key = [0; 32];
            for (place, word) in key.chunks_exact_mut(8).zip([seed, self.cuts, number, change]) {
                place.copy_from_slice(&word.to_le_bytes());
            }
            ChaCha8Rng::from_seed(key)
        };
        let mut garbage = match self.discarded {
            DiscardedReads::Zeros => None,
            DiscardedReads::Old => return read_old(old, out),
            DiscardedReads::Garbage(seed) => Some(random(seed)),
            DiscardedReads::Seeded(seed) => {
                let mut random = random(seed);
                match random.next_u64() % 3 {
                    0 => None,
                    1 => return read_old(old, out),
                    _ => Some(random),
                }
            }
        };
        match &mut garbage {
            Some(random) => random.fill_bytes(out),
            None => out.fill(0),
        }
    }
}

fn read_old(old: Option<&Block>, out: &mut [u8]) {
    match old {
        Some(old) => out.copy_from_slice(old),
        None => out.fill(0),
    }
}
