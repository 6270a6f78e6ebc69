//! The batch that a volume has under way with the duplicates index.

use std::sync::Arc;

use format::pool::record::IntentBlock;
use types::{BlockNumber, Fingerprint};

use crate::leaf::Leaf;

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

/// What a batch is about.
#[derive(Debug)]
pub(crate) enum BatchContent {
    /// Blocks that the finder registers, in the order of the volume.
    Intent(Vec<IntentBlock>),
    /// References that the collector gives back.
    DecIntent(Vec<(BlockNumber, Fingerprint, u32)>),
}

/// The slot: who holds it may send a batch, or make a checkpoint if no batch is open.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    pub(crate) open: Option<Batch>,
}
