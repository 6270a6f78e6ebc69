//! A client's row: its last sequence, and the outcomes of that batch.
//!
//! The row changes in the transaction of the batch. So the index knows of a repeated batch that it
//! was applied, and answers it as the first time.

use types::BatchSequence;

use crate::{Operation, Outcome};

/// What the index remembers of a client in a bucket.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ClientRow {
    /// The last batch.
    pub(crate) last: BatchSequence,
    /// What it was; `None` after a rebuild.
    pub(crate) batch: Option<AppliedBatch>,
}

/// A batch that was applied.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct AppliedBatch {
    pub(crate) digest: [u8; 16],
    pub(crate) outcomes: Vec<Outcome>,
}

/// The digest by which the index tells a repeated batch from another one of the same number: the
/// first 16 bytes of BLAKE3 over the operations in their order.
#[must_use]
pub fn operations_digest(operations: &[Operation]) -> [u8; 16] {
    let mut bytes = Vec::with_capacity(operations.len().saturating_mul(45));
    for operation in operations {
        let (kind, fingerprint, block, count) = match operation {
            Operation::Increment {
                fingerprint,
                block,
                count,
            } => (0, fingerprint, block, count),
            Operation::Decrement {
                fingerprint,
                block,
                count,
            } => (1, fingerprint, block, count),
        };
        bytes.push(kind);
        bytes.extend_from_slice(fingerprint.as_bytes());
        bytes.extend_from_slice(&block.get().to_le_bytes());
        bytes.extend_from_slice(&count.to_le_bytes());
    }
    let mut digest = [0; 16];
    digest.copy_from_slice(&blake3::hash(&bytes).as_bytes()[..16]);
    digest
}
