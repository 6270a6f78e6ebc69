//! Plain values of the index: buckets, keys, rows, operations and their outcomes. No I/O.

use std::fmt;

use types::{BatchSequence, BlockNumber, Fingerprint, VolumeId};

/// A part of the index with its own rows and sequences.
///
/// A batch belongs to one bucket, because a bucket is what an index changes in one transaction. An
/// embedded index needs one bucket. A distributed one has few, and a sender splits an iteration by
/// prefixes of fingerprints (D3).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Bucket(u16);

impl Bucket {
    /// The bucket of a sender that needs one alone.
    pub const FIRST: Self = Self(0);
    /// The largest bucket. The next number begins the keys that are not rows.
    pub const MAX: Self = Self(u16::MAX - 1);

    /// Wraps a number; `None` if it is larger than [`Bucket::MAX`].
    #[must_use]
    pub const fn new(number: u16) -> Option<Self> {
        if number <= Self::MAX.0 {
            Some(Self(number))
        } else {
            None
        }
    }

    /// The number.
    #[must_use]
    pub const fn get(self) -> u16 {
        self.0
    }
}

impl fmt::Display for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The key of a row: the first 18 bytes of a content's fingerprint.
///
/// Fingerprints are keyed, so nobody without the key can choose contents with equal bytes. In a
/// full pool of 2^40 blocks (4 PiB), two contents share 144 bits with a probability of 2^-65; in
/// one of 16 TiB, of 2^-81. With its bucket, the key has 20 bytes: the database keeps so many
/// beside its pointers, and longer ones behind them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowKey([u8; 18]);

impl RowKey {
    /// Length in bytes.
    pub const BYTES: usize = 18;

    /// Wraps 18 bytes.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 18]) -> Self {
        Self(bytes)
    }

    /// The 18 bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 18] {
        &self.0
    }
}

impl From<&Fingerprint> for RowKey {
    fn from(fingerprint: &Fingerprint) -> Self {
        let mut key = [0; Self::BYTES];
        key.copy_from_slice(&fingerprint.as_bytes()[..Self::BYTES]);
        Self(key)
    }
}

impl fmt::Display for RowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl fmt::Debug for RowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0[..6].iter().try_for_each(|b| write!(f, "{b:02x}"))?;
        write!(f, "..")
    }
}

/// A row: the block that holds a content, and how many references volumes have to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Row {
    /// The content's key.
    pub key: RowKey,
    /// The block of the pool that holds it.
    pub block: BlockNumber,
    /// The references to the block, at least 1.
    pub references: u64,
}

/// One operation of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Test-and-increment: counts references to a content, and names the block that the sender has
    /// it in [DEDIS 2.2].
    Increment {
        /// The content.
        fingerprint: Fingerprint,
        /// The sender's block. It becomes the row's block if the content is new.
        block: BlockNumber,
        /// The references to add, at least 1.
        count: u32,
    },
    /// Test-and-decrement: takes references off a content [DEDIS 2.2].
    Decrement {
        /// The content.
        fingerprint: Fingerprint,
        /// The block that the references were to.
        block: BlockNumber,
        /// The references to take, at least 1.
        count: u32,
    },
}

impl Operation {
    /// The content's fingerprint.
    #[must_use]
    pub const fn fingerprint(&self) -> &Fingerprint {
        match self {
            Self::Increment { fingerprint, .. } | Self::Decrement { fingerprint, .. } => fingerprint,
        }
    }

    /// The number of references that it adds or takes.
    #[must_use]
    pub const fn count(&self) -> u32 {
        match self {
            Self::Increment { count, .. } | Self::Decrement { count, .. } => *count,
        }
    }
}

/// What an operation did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// The increment made a row with the sender's block and count: the content was new.
    Registered,
    /// The increment added to a row. Its block may be the sender's own.
    Hit {
        /// The row's block.
        block: BlockNumber,
    },
    /// The decrement left so many references, at least 1.
    Remaining(u64),
    /// The decrement took the last reference, and removed the row. The block is free.
    Freed,
    /// The decrement changed nothing: there is no row, or it has another block, or fewer
    /// references. The sender counted what the index did not; it reports damage and frees nothing.
    Unknown,
}

/// A client's last batch in a bucket, as a rebuild sets it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct ClientPosition {
    /// The bucket.
    pub bucket: Bucket,
    /// The client.
    pub client: VolumeId,
    /// The last sequence that counts as applied.
    pub last: BatchSequence,
}
