//! The batch that a volume has under way with the duplicates index.

use std::sync::Arc;

use format::pool::record::{IntentBlock, Record};
use types::{BatchSequence, BlockNumber, Fingerprint};

use crate::leaf::{LEAF_BLOCKS, Leaf};

/// Intents in one record: at most 46 bytes each.
const INTENTS_MAX: usize = 85;
/// Blocks of the collector in one record: at most 43 bytes each.
const DECREMENTS_MAX: usize = 90;

/// A batch that was sent, or is about to be.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) sequence: u64,
    pub(crate) content: BatchContent,
    /// The first of its operations whose answers are in the log already: recovery acted on them.
    pub(crate) answered: usize,
    /// The pages of the blocks: they stay in memory, because only there they are frozen.
    #[expect(dead_code, reason = "holding the pages is all that it is for")]
    pub(crate) held: Vec<Arc<Leaf>>,
}

const fn page(one: &IntentBlock) -> u64 {
    one.lba.get() / LEAF_BLOCKS
}

/// What a batch is about.
#[derive(Debug)]
pub(crate) enum BatchContent {
    /// Blocks that the finder registers, in the order of the volume.
    Intent(Vec<IntentBlock>),
    /// References that the collector gives back.
    DecIntent(Vec<(BlockNumber, Fingerprint, u32)>),
}

impl BatchContent {
    /// The records that say what the batch is about.
    pub(crate) fn records(&self, batch: BatchSequence) -> Vec<Record> {
        match self {
            Self::Intent(blocks) => {
                let parts = blocks.chunks(INTENTS_MAX);
                let count = parts.len();
                let record = |(number, part): (usize, &[IntentBlock])| Record::Intent {
                    batch,
                    is_last: number + 1 == count,
                    blocks: part.to_vec(),
                };
                parts.enumerate().map(record).collect()
            }
            Self::DecIntent(blocks) => {
                let parts = blocks.chunks(DECREMENTS_MAX);
                let count = parts.len();
                let record = |(number, part): (usize, &[_])| Record::DecIntent {
                    batch,
                    is_last: number + 1 == count,
                    blocks: part.to_vec(),
                };
                parts.enumerate().map(record).collect()
            }
        }
    }

    /// Pages of the map that the answers may change.
    pub(crate) fn pages(&self) -> usize {
        match self {
            Self::Intent(blocks) => blocks.chunk_by(|a, b| page(a) == page(b)).count(),
            Self::DecIntent(_) => 0,
        }
    }

    /// References that the batch gives back.
    pub(crate) fn references(&self) -> impl Iterator<Item = (BlockNumber, u32)> + '_ {
        let blocks = match self {
            Self::Intent(_) => &[][..],
            Self::DecIntent(blocks) => &blocks[..],
        };
        blocks.iter().map(|(block, _, count)| (*block, *count))
    }
}

/// The slot: who holds it may send a batch, or make a checkpoint.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    pub(crate) open: Option<Batch>,
}
