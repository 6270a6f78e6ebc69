//! Errors of a duplicates index, sorted by what a caller would do.

use std::path::PathBuf;

use format::pool::frame::PoolId;
use types::{BatchSequence, VolumeId};

use crate::{Bucket, RowKey};

/// A failed operation of a duplicates index.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DdiError {
    /// The batch is older than the client's last one.
    #[error(
        "the duplicates index has batch {last} of volume {client} in bucket {bucket}, but was sent the older \
         batch {given}: the volume's log is behind the index, so an old copy of the volume may be in use"
    )]
    SequenceBehind {
        /// The client.
        client: VolumeId,
        /// The bucket.
        bucket: Bucket,
        /// The client's last sequence in the index; 0 before its first batch.
        last: u64,
        /// The sequence that was sent.
        given: BatchSequence,
    },
    /// The batch is not the one after the client's last one.
    #[error(
        "the duplicates index has batch {last} of volume {client} in bucket {bucket}, but was sent batch \
         {given}: it has lost batches; count the references again with `onefold volume recount`"
    )]
    SequenceAhead {
        /// The client.
        client: VolumeId,
        /// The bucket.
        bucket: Bucket,
        /// The client's last sequence in the index; 0 before its first batch.
        last: u64,
        /// The sequence that was sent.
        given: BatchSequence,
    },
    /// The sequence is the client's last one, but its operations are others.
    #[error(
        "batch {sequence} of volume {client} in bucket {bucket} has other operations than the batch of this \
         number that the duplicates index applied: two servers may have served the volume at once"
    )]
    DifferentBatch {
        /// The client.
        client: VolumeId,
        /// The bucket.
        bucket: Bucket,
        /// The sequence.
        sequence: BatchSequence,
    },
    /// The sequence is one that a rebuild set, so its outcomes are not known.
    #[error(
        "the outcomes of batch {sequence} of volume {client} in bucket {bucket} are not known, because the \
         duplicates index was rebuilt after it"
    )]
    ForgottenOutcomes {
        /// The client.
        client: VolumeId,
        /// The bucket.
        bucket: Bucket,
        /// The sequence.
        sequence: BatchSequence,
    },
    /// An operation adds or takes no reference.
    #[error("operation {position} of a batch for the duplicates index has the count 0")]
    ZeroCount {
        /// Its place in the batch, from 0.
        position: usize,
    },
    /// A batch has too many operations.
    #[error("a batch for the duplicates index has {given} operations, at most {max} are allowed")]
    TooManyOperations {
        /// Its operations.
        given: usize,
        /// The most that are allowed.
        max: usize,
    },
    /// A row would have more references than a number of 64 bits can say.
    #[error("the references of the content {key} do not fit 64 bits")]
    TooManyReferences {
        /// The row.
        key: RowKey,
    },
    /// A rebuild is under way.
    #[error("the duplicates index is being rebuilt; send the batch again when the rebuild has ended")]
    Rebuilding,
    /// Rows or positions that a rebuild was given are wrong.
    #[error("the duplicates index cannot be rebuilt from these rows: {fault}")]
    InvalidRebuild {
        /// What is wrong.
        fault: RebuildFault,
    },
    /// There is no folder.
    #[error("{}: there is no duplicates index: no such folder", folder.display())]
    Missing {
        /// The folder.
        folder: PathBuf,
    },
    /// The folder holds something else than an index.
    #[error("{}: this folder is not a duplicates index", folder.display())]
    NotAnIndex {
        /// The folder.
        folder: PathBuf,
    },
    /// The index is that of another pool. Its blocks are not this pool's.
    #[error(
        "{place}: this is the duplicates index of another pool (its id is {}, this pool's is {}); bring this \
         pool's own index back there, or make it anew with `onefold volume recount`",
        hex(found),
        hex(wanted)
    )]
    OtherPool {
        /// The folder of the index, or how else it is reached.
        place: String,
        /// The pool that the index was made for.
        found: PoolId,
        /// The pool that asked.
        wanted: PoolId,
    },
    /// The folder for a new index exists.
    #[error("{}: a new duplicates index needs a folder that does not exist", folder.display())]
    Exists {
        /// The folder.
        folder: PathBuf,
    },
    /// Another process, or another value of this one, has the index open.
    #[error("{}: another process has the duplicates index open; stop it first", folder.display())]
    InUse {
        /// The folder.
        folder: PathBuf,
    },
    /// A newer program made the index.
    #[error(
        "{}: the duplicates index has format {found}, and this program reads format {newest}; use a newer \
         program", folder.display()
    )]
    NewerFormat {
        /// The folder.
        folder: PathBuf,
        /// Its format.
        found: u32,
        /// The newest format that this program reads.
        newest: u32,
    },
    /// Bytes on disk are not what was written.
    #[error(
        "{}: the duplicates index is damaged ({what}); count the references again with `onefold volume \
         recount`", folder.display()
    )]
    Damaged {
        /// The folder.
        folder: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// The database failed. The operation may have taken effect.
    #[error("{}: {action} failed: {why}", folder.display())]
    Failed {
        /// The operation.
        action: &'static str,
        /// The folder.
        folder: PathBuf,
        /// The database's reason.
        why: String,
    },
    /// No answer came. Only the tests' `fault::FaultyIndex` returns this.
    #[error("{action}: the answer of the duplicates index was lost")]
    NoAnswer {
        /// The operation.
        action: &'static str,
    },
}

impl DdiError {
    /// Whether the index refused the request and changed nothing. The same request again is refused
    /// again, except after [`DdiError::Rebuilding`].
    #[must_use]
    pub const fn is_refusal(&self) -> bool {
        match self {
            Self::SequenceBehind { .. }
            | Self::SequenceAhead { .. }
            | Self::DifferentBatch { .. }
            | Self::ForgottenOutcomes { .. }
            | Self::ZeroCount { .. }
            | Self::TooManyOperations { .. }
            | Self::TooManyReferences { .. }
            | Self::Rebuilding
            | Self::InvalidRebuild { .. }
            | Self::OtherPool { .. } => true,
            Self::Missing { .. }
            | Self::NotAnIndex { .. }
            | Self::Exists { .. }
            | Self::InUse { .. }
            | Self::NewerFormat { .. }
            | Self::Damaged { .. }
            | Self::Failed { .. }
            | Self::NoAnswer { .. } => false,
        }
    }
}

/// An id as digits.
fn hex(id: &PoolId) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What is wrong with the input of a rebuild.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RebuildFault {
    /// A row does not come after the one before it.
    #[error("the row {key} of bucket {bucket} does not come after the row before it")]
    OutOfOrder {
        /// The bucket.
        bucket: Bucket,
        /// The row.
        key: RowKey,
    },
    /// A row has no reference.
    #[error("the row {key} of bucket {bucket} has no reference")]
    NoReference {
        /// The bucket.
        bucket: Bucket,
        /// The row.
        key: RowKey,
    },
    /// A client has two positions in a bucket.
    #[error("volume {client} has two positions in bucket {bucket}")]
    TwoPositions {
        /// The bucket.
        bucket: Bucket,
        /// The client.
        client: VolumeId,
    },
}
