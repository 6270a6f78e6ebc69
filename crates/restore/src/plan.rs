//! A plan: which containers to read, in which order, for which chunks.
//!
//! Values only. [`crate::belady`] makes a plan of a recipe and a budget, and
//! [`crate::assemble()`] carries it out.

use types::{ChunkLocation, ContainerId, Fingerprint, Slot};

/// What a spot costs to keep, whatever its length: a window of the chunks of tiny files holds no
/// more spots than memory for it.
pub const SPOT_BYTES: u64 = 256;

/// One reference of a stream: where its bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reference {
    /// The chunk; `None` for a run of zeros.
    pub chunk: Option<ChunkPart>,
    /// Bytes of the stream, at least 1.
    pub len: u64,
}

/// A chunk, of which `len` bytes from `skip` on are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkPart {
    /// Where the chunk lies.
    pub location: ChunkLocation,
    /// What its fingerprint must be.
    pub fingerprint: Fingerprint,
    /// The whole chunk's length.
    pub chunk_len: u64,
    /// Where in the chunk the wanted bytes begin.
    pub skip: u64,
}

/// Reads a container, as far as its chunks are needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The container.
    pub container: ContainerId,
    /// The chunks to take from it and the spots they fill, in stream order; a chunk that fills
    /// several spots stands several times. Those to keep come after.
    pub fills: Vec<Fill>,
}

/// What a chunk is taken for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The spot of that number, counted from the stream's beginning.
    Spot(u64),
    /// Spots later on: the whole chunk is kept by that number.
    Kept(u64),
}

/// A place and what fills it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fill {
    /// The place.
    pub place: Place,
    /// The chunk.
    pub part: ChunkPart,
    /// How many of its bytes, from `part.skip` on.
    pub len: u64,
}

/// Spots that kept chunks fill, and chunks that go.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Uses {
    /// In stream order. What keeps the chunk may be a step that is told after them.
    pub uses: Vec<Use>,
    /// Numbers of kept chunks that go before their next use, after all their uses that were told so
    /// far.
    pub evicted: Vec<u64>,
}

/// A spot that a kept chunk fills.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Use {
    /// The spot's number.
    pub spot: u64,
    /// What the chunk is kept by.
    pub number: u64,
    /// The chunk.
    pub part: ChunkPart,
    /// How many of its bytes, from `part.skip` on.
    pub len: u64,
    /// The chunk is dropped after it.
    pub is_last: bool,
}

impl Fill {
    /// The spot's number, where it is for one.
    #[must_use]
    pub const fn spot(&self) -> Option<u64> {
        match self.place {
            Place::Spot(spot) => Some(spot),
            Place::Kept(_) => None,
        }
    }

    /// The chunk's slot.
    #[must_use]
    pub const fn slot(&self) -> Slot {
        self.part.location.slot
    }
}

/// What comes next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// A container to read. The spots' references came with [`Next::Spots`] before.
    Step(Step),
    /// The next spots of the stream, in order from the number of those before.
    Spots(Vec<Reference>),
    /// Spots, told before, that kept chunks fill.
    Uses(Uses),
}
