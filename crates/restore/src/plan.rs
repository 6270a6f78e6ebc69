//! A plan: the containers to read, their order, and the chunks to take from them.
//!
//! Values only. [`crate::belady`] makes a plan from a recipe and a budget, and
//! [`crate::assemble()`] carries it out.

use types::{ChunkLocation, ContainerId, Fingerprint, Slot};

/// Memory of a spot beside its bytes, whatever its length. It limits the spots of a stretch with
/// many tiny chunks.
pub const SPOT_BYTES: u64 = 256;

/// One reference of a stream to its stored bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reference {
    /// The chunk; `None` for a run of zeros.
    pub chunk: Option<ChunkPart>,
    /// Bytes of the stream, at least 1.
    pub len: u64,
}

/// A chunk. The stream needs bytes of it from `skip` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkPart {
    /// The chunk's location.
    pub location: ChunkLocation,
    /// The expected fingerprint.
    pub fingerprint: Fingerprint,
    /// The whole chunk's length.
    pub chunk_len: u64,
    /// Offset of the needed bytes in the chunk.
    pub skip: u64,
}

/// A read of a container, as far as its chunks are needed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The container.
    pub container: ContainerId,
    /// The chunks to take from it and the spots they fill, in stream order. A chunk that fills
    /// several spots occurs several times. The chunks to keep come last.
    pub fills: Vec<Fill>,
}

/// The purpose of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// It fills the spot with this number, counted from the stream's beginning.
    Spot(u64),
    /// It fills later spots. The whole chunk is kept under this number.
    Kept(u64),
}

/// A place and the chunk that fills it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fill {
    /// The place.
    pub place: Place,
    /// The chunk.
    pub part: ChunkPart,
    /// How many of its bytes are needed, from `part.skip` on.
    pub len: u64,
}

/// Spots that kept chunks fill, and chunks to drop.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Uses {
    /// In stream order. The step that brings the chunk may follow later.
    pub uses: Vec<Use>,
    /// Numbers of kept chunks to drop before their next use, but after all uses that were returned
    /// so far.
    pub evicted: Vec<u64>,
}

/// A spot that a kept chunk fills.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Use {
    /// The spot's number.
    pub spot: u64,
    /// The number under which the chunk is kept.
    pub number: u64,
    /// The chunk.
    pub part: ChunkPart,
    /// How many of its bytes are needed, from `part.skip` on.
    pub len: u64,
    /// Whether the chunk is dropped after this use.
    pub is_last: bool,
}

impl Fill {
    /// The spot's number, if the place is a spot.
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

/// The next action of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// A container to read. [`Next::Spots`] returned the references of its spots before.
    Step(Step),
    /// The next spots of the stream. Their numbers follow those of earlier spots.
    Spots(Vec<Reference>),
    /// Earlier spots that kept chunks fill.
    Uses(Uses),
}
