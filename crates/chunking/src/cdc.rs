//! Content-defined chunks by the gear hash.
//!
//! Invariant: whether a position is a *candidate* for a boundary depends only on the 64 bytes
//! before it, the gear table and the threshold. The beginning of the chunk has no influence. The
//! shortest length only ignores candidates. So threads can search candidates in any order and in
//! parallel.
//!
//! No boundary is searched within the first `min >= 64` bytes of a chunk. So the 64 bytes are
//! always in the chunk itself, and hashing starts at `min - 64`: with the default sizes, half of
//! all bytes are never read.
//!
//! The threshold: among random bytes each position is a candidate with probability `q = threshold /
//! 2^32`. The first possible boundary is at `min`. The number of positions before the first
//! candidate is geometric with mean `(1 - q) / q`. Setting `min + (1 - q) / q = avg` gives `q = 1 /
//! (avg - min + 1)`. The cut at `max` shortens the mean by a part of `e^-((max - min) / (avg -
//! min))` of `avg - min`. That is 3 in 10 million for min = avg / 2, max = 8 avg, and so it is left
//! out.
//!
//! A plain threshold with a minimum of half the average deduplicates better than normalised
//! chunking at equal average and minimum.

use crate::chunker::{CHUNK_BYTES_MAX, Chunker};
use crate::error::ChunkingError;
use crate::gear::{GEAR_TABLE_WORDS, GEAR_WINDOW_BYTES, Gear, Isa};

/// Lengths of content-defined chunks, in bytes. Checked by [`Cdc::new`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CdcSizes {
    /// The shortest length, except for the last chunk of a stream or file: at least 64.
    pub min: u32,
    /// The mean over random bytes.
    pub avg: u32,
    /// The longest length: at least twice the average, at most [`CHUNK_BYTES_MAX`].
    pub max: u32,
}

impl CdcSizes {
    /// The usual spread: half the average to eight times the average.
    #[must_use]
    pub const fn around(avg: u32) -> Self {
        Self {
            min: avg / 2,
            avg,
            max: avg.saturating_mul(8),
        }
    }

    const fn check(self) -> Result<(), ChunkingError> {
        let Self { min, avg, max } = self;
        let why = if min < GEAR_WINDOW_BYTES {
            "the shortest must hold the hash's window of 64 bytes"
        } else if avg <= min {
            "the average must be above the shortest"
        } else if max / 2 < avg {
            "the longest must be at least twice the average"
        } else if max > CHUNK_BYTES_MAX {
            "the longest must not exceed 1 MiB"
        } else {
            return Ok(());
        };
        Err(ChunkingError::Sizes { min, avg, max, why })
    }
}

impl Default for CdcSizes {
    /// Lengths of 4 KiB, 8 KiB and 64 KiB.
    fn default() -> Self {
        Self::around(8 << 10)
    }
}

/// Content-defined chunks. The gear table comes from the domain key, so lengths show nothing about
/// content without that key.
#[derive(Clone)]
pub struct Cdc {
    min: usize,
    max: usize,
    gear: Box<Gear>,
    isa: Isa,
    sizes: CdcSizes,
}

impl std::fmt::Debug for Cdc {
    /// Leaves out the table, which is a secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cdc")
            .field("sizes", &self.sizes)
            .field("isa", &self.isa)
            .finish_non_exhaustive()
    }
}

impl Cdc {
    /// A chunker of these lengths with the domain's gear table. It uses the processor's fastest
    /// instructions.
    ///
    /// # Errors
    /// [`ChunkingError::Sizes`] names the rule that the lengths break.
    pub fn new(sizes: CdcSizes, table: &[u16; GEAR_TABLE_WORDS]) -> Result<Self, ChunkingError> {
        sizes.check()?;
        let positions = u64::from(sizes.avg - sizes.min) + 1;
        let threshold =
            u32::try_from((1 << 32) / positions).expect("the average is above the shortest: at least 2");
        Ok(Self {
            min: sizes.min as usize,
            max: sizes.max as usize,
            gear: Box::new(Gear::new(table, threshold, sizes.min as usize)),
            isa: Isa::best(),
            sizes,
        })
    }

    /// The same chunker with other instructions, for comparison: boundaries do not depend on them.
    #[must_use]
    pub fn by(mut self, isa: Isa) -> Self {
        self.isa = isa;
        self
    }

    /// The lengths it was made with.
    #[must_use]
    pub const fn sizes(&self) -> CdcSizes {
        self.sizes
    }

    /// A position is a candidate if the hash is below this.
    #[must_use]
    pub fn threshold(&self) -> u32 {
        self.gear.threshold()
    }
}

impl Chunker for Cdc {
    fn first_cut(&self, bytes: &[u8], last: bool) -> Option<u32> {
        let reach = &bytes[..bytes.len().min(self.max)];
        let cut = match self.gear.first(self.isa, reach, self.min) {
            Some(end) => end,
            None if reach.len() == self.max || (last && !reach.is_empty()) => reach.len(),
            None => return None,
        };
        Some(u32::try_from(cut).expect("at most max, 32 bits"))
    }

    fn chunk_bytes_max(&self) -> u32 {
        self.sizes.max
    }
}
