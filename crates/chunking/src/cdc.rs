//! Content-defined chunks by a gear hash; the scalar reference.
//!
//! What must hold: whether a boundary *may* stand after a byte (a candidate) depends on the 64 bytes that end
//! with it, on the gear table and on the threshold, and on nothing else: not on where the chunk began. The
//! shortest length only ignores candidates. So candidates can be looked for in any order and in parallel, and
//! give the same boundaries as this code.
//!
//! The hash is `h = 2h + gear[b]` over 64 bits, which shifts a byte out after 64 steps. A candidate is where
//! `h < threshold`: the top bits, those that all 64 bytes reach. Since no boundary is looked for within the
//! first `min >= 64` bytes of a chunk, the 64 bytes always lie in the chunk itself, and hashing starts
//! at `min - 64`: with the default sizes half of all bytes are never looked at.
//!
//! The threshold: of random bytes each position is a candidate with probability `q = threshold / 2^64`. The
//! first possible boundary is at `min`; the number of positions passed over before one is hit is geometric with
//! mean `(1 - q) / q`. Setting `min + (1 - q) / q = avg` gives `q = 1 / (avg - min + 1)`. The cut at `max`
//! shortens the mean by a part of `e^-((max - min) / (avg - min))` of `avg - min`: 3 in 10 million for
//! min = avg / 2, max = 8 avg, and so left out.
//!
//! A plain threshold with a minimum of half the average deduplicates better than normalised chunking at equal
//! average and minimum.

use crate::chunker::{CHUNK_BYTES_MAX, Chunker};
use crate::error::ChunkingError;

/// How many bytes a candidate depends on, the last one included.
pub const GEAR_WINDOW_BYTES: u32 = 64;

const WINDOW: usize = GEAR_WINDOW_BYTES as usize;
/// Bytes taken at once by the inner loop.
const STEP: usize = 16;

/// Lengths of content-defined chunks, in bytes. Checked by [`Cdc::new`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CdcSizes {
    /// The shortest, but for the last of a stream or file; at least 64.
    pub min: u32,
    /// The mean over random bytes.
    pub avg: u32,
    /// The longest; at least twice the average, at most [`CHUNK_BYTES_MAX`].
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
    /// 4 KiB, 8 KiB, 64 KiB.
    fn default() -> Self {
        Self::around(8 << 10)
    }
}

/// Content-defined chunks. The gear table comes from the domain key, so that lengths tell nothing about
/// content to who has not got it.
#[derive(Clone)]
pub struct Cdc {
    min: usize,
    max: usize,
    threshold: u64,
    /// The table, and the table doubled: the second saves a step for every other byte.
    gear: Box<[u64; 256]>,
    gear_doubled: Box<[u64; 256]>,
    sizes: CdcSizes,
}

impl std::fmt::Debug for Cdc {
    /// Without the table, which is a secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cdc")
            .field("sizes", &self.sizes)
            .finish_non_exhaustive()
    }
}

impl Cdc {
    /// A chunker of these lengths with the domain's gear table.
    ///
    /// # Errors
    /// [`ChunkingError::Sizes`] says which rule the lengths break.
    pub fn new(sizes: CdcSizes, gear: &[u64; 256]) -> Result<Self, ChunkingError> {
        sizes.check()?;
        let positions = u128::from(sizes.avg - sizes.min) + 1;
        let threshold =
            u64::try_from((1 << 64) / positions).expect("the average is above the shortest: at least 2");
        Ok(Self {
            min: sizes.min as usize,
            max: sizes.max as usize,
            threshold,
            gear: Box::new(*gear),
            gear_doubled: Box::new(gear.map(|g| g << 1)),
            sizes,
        })
    }

    /// The lengths it was made with.
    #[must_use]
    pub const fn sizes(&self) -> CdcSizes {
        self.sizes
    }

    /// A position is a candidate where the hash is below this.
    #[must_use]
    pub const fn threshold(&self) -> u64 {
        self.threshold
    }

    /// How many bytes of `bytes` go into the chunk up to and with the first candidate, given the hash so far.
    fn find(&self, mut hash: u64, bytes: &[u8]) -> Option<usize> {
        let (gear, doubled, threshold) = (&*self.gear, &*self.gear_doubled, self.threshold);
        let (steps, rest) = bytes.as_chunks::<STEP>();
        for (n, step) in steps.iter().enumerate() {
            let before = hash;
            // Two bytes a turn: the chain from hash to hash is one shift and one add for both.
            let mut hit = false;
            for pair in step.as_chunks::<2>().0 {
                let (a, b) = (usize::from(pair[0]), usize::from(pair[1]));
                let first = (hash << 1).wrapping_add(gear[a]);
                hash = (hash << 2).wrapping_add(doubled[a].wrapping_add(gear[b]));
                hit |= (first < threshold) | (hash < threshold);
            }
            if hit {
                return self.find_in(before, step).map(|at| n * STEP + at);
            }
        }
        self.find_in(hash, rest).map(|at| steps.len() * STEP + at)
    }

    fn find_in(&self, mut hash: u64, bytes: &[u8]) -> Option<usize> {
        let at = bytes.iter().position(|&b| {
            hash = (hash << 1).wrapping_add(self.gear[usize::from(b)]);
            hash < self.threshold
        })?;
        Some(at + 1)
    }

    fn hash(&self, window: &[u8]) -> u64 {
        window.iter().fold(0u64, |hash, &b| {
            (hash << 1).wrapping_add(self.gear[usize::from(b)])
        })
    }
}

impl Chunker for Cdc {
    fn first_cut(&self, bytes: &[u8], last: bool) -> Option<u32> {
        let reach = &bytes[..bytes.len().min(self.max)];
        let len = u32::try_from(reach.len()).expect("at most max, 32 bits");
        if reach.len() < self.min {
            return (last && len > 0).then_some(len);
        }
        let (head, tail) = reach.split_at(self.min);
        let hash = self.hash(&head[self.min - WINDOW..]);
        if hash < self.threshold {
            return Some(self.sizes.min);
        }
        match self.find(hash, tail) {
            Some(more) => Some(self.sizes.min + u32::try_from(more).expect("at most max, 32 bits")),
            None if reach.len() == self.max || last => Some(len),
            None => None,
        }
    }

    fn chunk_bytes_max(&self) -> u32 {
        self.sizes.max
    }
}
