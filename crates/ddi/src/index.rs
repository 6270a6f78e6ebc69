//! The interface of a duplicates index.

use std::fmt;
use std::ops::ControlFlow;

use format::pool::frame::PoolId;
use types::{BatchSequence, Fingerprint, VolumeId};

use crate::{Bucket, ClientPosition, DdiError, Operation, Outcome, Row};

/// An index of contents: which block holds each, and how many references it has (D3).
///
/// Many threads may call it. Batches of one client in one bucket must not overlap: a client sends
/// the next one when it has the outcomes of the last.
///
/// Invariants: a row has at least one reference. A batch takes effect as a whole or not at all,
/// together with its client's row. An acknowledged batch is durable, unless the implementation says
/// otherwise in its header.
pub trait DuplicatesIndex: Send + Sync + fmt::Debug {
    /// Applies operations in their order, and returns the outcome of each.
    ///
    /// `sequence` is 1 for a client's first batch in the bucket, and one more for each further
    /// batch. If it is the client's last one, nothing changes, and the outcomes are those of the
    /// first time. So a client whose answer was lost sends the same batch again.
    ///
    /// When this returns outcomes, the batch is durable.
    ///
    /// # Errors
    /// [`DdiError::is_refusal`] if the index refused the batch and changed nothing. After any other
    /// error the batch may have been applied: the client sends it again with the same sequence.
    fn apply(
        &self,
        bucket: Bucket,
        client: VolumeId,
        sequence: BatchSequence,
        operations: &[Operation],
    ) -> Result<Vec<Outcome>, DdiError>;

    /// Checks that the index is that of this pool: a pool does so before anything else. The pool is
    /// the one that the index was made for, also after a rebuild.
    ///
    /// # Errors
    /// [`DdiError::OtherPool`]; others if the index cannot be read.
    fn check_pool(&self, pool: PoolId) -> Result<(), DdiError>;

    /// The client's last sequence in the bucket; `None` before its first batch.
    ///
    /// If it is behind the client's own log, the index has lost acknowledged batches. Then nothing
    /// may be freed until the index was rebuilt.
    ///
    /// # Errors
    /// If the index cannot be read.
    fn client(&self, bucket: Bucket, client: VolumeId) -> Result<Option<BatchSequence>, DdiError>;

    /// The clients with a batch in the bucket, in their order. So a pool notices that the index has
    /// counted for volumes which the pool does not have.
    ///
    /// An index that does not list its clients names none, as here.
    ///
    /// # Errors
    /// If the index cannot be read.
    fn clients(&self, bucket: Bucket) -> Result<Vec<VolumeId>, DdiError> {
        let _ = bucket;
        Ok(Vec::new())
    }

    /// Forgets a removed client in all buckets. Its references stay counted.
    ///
    /// # Errors
    /// If the index cannot be written.
    fn forget_client(&self, client: VolumeId) -> Result<(), DdiError>;

    /// The rows of contents, in the order of the fingerprints, without a change. Another client may
    /// change a row at any time, so nothing may be freed by what this says.
    ///
    /// # Errors
    /// If the index cannot be read.
    fn look_up(&self, bucket: Bucket, fingerprints: &[Fingerprint]) -> Result<Vec<Option<Row>>, DdiError>;

    /// Visits the rows of a bucket in the order of their keys, until `visit` breaks.
    ///
    /// The rows are those of one moment, whatever batches are applied meanwhile. Memory is bounded
    /// at any number of rows.
    ///
    /// # Errors
    /// If the index cannot be read. A row may have been visited before.
    fn scan(&self, bucket: Bucket, visit: &mut dyn FnMut(Row) -> ControlFlow<()>) -> Result<(), DdiError>;

    /// The numbers of rows and references, as the batches kept them, and the space on disk.
    ///
    /// # Errors
    /// If the index cannot be read.
    fn statistics(&self) -> Result<Statistics, DdiError>;

    /// Begins to replace everything in the index, for a recount from the volumes' maps.
    ///
    /// Until [`Rebuild::finish`] returns, reads see the old rows, and batches are refused with
    /// [`DdiError::Rebuilding`]. If the rebuild is dropped or the process ends, the old rows stay.
    ///
    /// # Errors
    /// [`DdiError::Rebuilding`] if another rebuild has begun; others if the index cannot be
    /// written.
    fn rebuild(&self) -> Result<Box<dyn Rebuild + '_>, DdiError>;
}

/// The new rows of an index, before they replace the old ones.
pub trait Rebuild: fmt::Debug {
    /// Adds rows of a bucket. Over all calls, buckets must not decrease, and the keys of a bucket
    /// must increase.
    ///
    /// # Errors
    /// [`DdiError::InvalidRebuild`] if a row is out of order or has no reference; others if the
    /// index cannot be written. The rebuild can then only be dropped.
    fn load(&mut self, bucket: Bucket, rows: &[Row]) -> Result<(), DdiError>;

    /// Replaces all rows and all client rows of the index, durably and at one moment.
    ///
    /// A client without a position begins again with sequence 1. The outcomes of a client's last
    /// batch are not kept: the index refuses it with [`DdiError::ForgottenOutcomes`].
    ///
    /// # Errors
    /// [`DdiError::InvalidRebuild`] if a client has two positions in a bucket; others if the index
    /// cannot be written. The old rows stay.
    fn finish(self: Box<Self>, clients: &[ClientPosition]) -> Result<(), DdiError>;
}

/// The size of an index.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Statistics {
    /// The buckets that have had a row, in their order.
    pub buckets: Vec<BucketStatistics>,
    /// Bytes on disk, journals included; 0 for an index in memory.
    pub disk_bytes: u64,
}

impl Statistics {
    /// The rows of all buckets.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.rows).sum()
    }

    /// The references of all buckets.
    #[must_use]
    pub fn references(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.references).sum()
    }
}

/// The size of a bucket. A check compares it with a scan: batches keep these sums, so a difference
/// means that the index has lost rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BucketStatistics {
    /// The bucket.
    pub bucket: Bucket,
    /// Its rows: distinct contents.
    pub rows: u64,
    /// The sum of their references.
    pub references: u64,
}
