//! Errors of pools and volumes, sorted by what a caller would do.

use ddi::DdiError;
use env::DeviceError;
use format::FormatError;
use types::BlockNumber;

/// A failed operation of a pool or a volume.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum VolumeError {
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The duplicates index failed.
    #[error(transparent)]
    Index(#[from] DdiError),
    /// The device holds no pool.
    #[error("this is not a pool: {why}; make one with `onefold pool init`")]
    NotAPool {
        /// What was found.
        why: FormatError,
    },
    /// A newer program made the pool.
    #[error("a newer program made this pool: {why}; use that program")]
    Newer {
        /// What was found.
        why: FormatError,
    },
    /// A block of metadata is not what was written.
    #[error("{what} at block {block} is damaged: {why}; run `onefold pool check`")]
    Damaged {
        /// What the block is.
        what: &'static str,
        /// The block.
        block: BlockNumber,
        /// What is wrong.
        why: FormatError,
    },
    /// The device cannot read a block of a log that was flushed, or of which nobody knows.
    #[error(
        "the device cannot read block {block}, in the log of a volume, and what was flushed may be behind it: \
         {error}; the volume is not changed, and comes back when the device, or another one with a copy of it, \
         can read the block"
    )]
    UnreadableLog {
        /// The block.
        block: BlockNumber,
        /// The error.
        error: DeviceError,
    },
    /// Structures contradict each other.
    #[error("volume {volume:?} contradicts itself: {why}; run `onefold pool check`")]
    Contradiction {
        /// The volume's name.
        volume: String,
        /// What contradicts what.
        why: String,
    },
    /// The pool has no free block.
    #[error(
        "the pool is full; let the finder share blocks (`onefold volume drain`), discard blocks in the \
         guests, remove volumes, or run `onefold pool grow`"
    )]
    NoSpace,
    /// The request is not within the volume.
    #[error("bytes {offset} to {end} are not within the volume's {len} bytes")]
    OutOfRange {
        /// The first byte.
        offset: u64,
        /// The end.
        end: u64,
        /// The volume's length.
        len: u64,
    },
    /// An earlier error stopped the volume: nobody knows what of its last changes is durable.
    #[error("the volume stopped after an error: {why}; serve the pool again to recover it")]
    Stopped {
        /// The earlier error.
        why: String,
    },
    /// There is no such volume.
    #[error("there is no volume {name:?} in this pool")]
    NoVolume {
        /// The name.
        name: String,
    },
    /// The name is taken.
    #[error("a volume {name:?} exists already in this pool")]
    VolumeExists {
        /// The name.
        name: String,
    },
    /// A name or a number that was given cannot be used.
    #[error("{what}: {why}")]
    Invalid {
        /// What was given.
        what: &'static str,
        /// The rule.
        why: String,
    },
    /// The index lost batches that it had acknowledged, or an old copy of the pool is in use.
    #[error(
        "the duplicates index does not match volume {volume:?}: it has batch {found}, the volume's log has \
         batch {expected}; nothing is shared or freed until `onefold volume recount` was run"
    )]
    NeedsRecount {
        /// The volume's name.
        volume: String,
        /// The last batch of the index.
        found: u64,
        /// The last batch of the log.
        expected: u64,
    },
}

/// Shorthand for this crate.
pub type Result<T, E = VolumeError> = std::result::Result<T, E>;
