//! What no restore can do with less of, whatever it knows and keeps: the yardstick that is proved
//! (L9).
//!
//! Cut the stream into phases. When a phase begins, memory holds so many bytes at most, whatever
//! they are; all else that the phase needs is read before it ends. A container that is read in it
//! brings no more than the bytes that the phase needs of it, so at least as many containers are
//! read as of the largest such shares make up what is missing. No read falls into two phases, so
//! their sum bounds the whole; before the first one memory is empty, so the stream as one phase
//! gives the number of its containers. Of some lengths of phases the best bound is taken. A
//! container that is being read is memory too.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;

use restore::plan::{ChunkPart, Reference};
use types::{ChunkLocation, ContainerId};

/// Bytes that a phase needs, in quarters of those that memory holds; 0: all of the stream is one.
const LENGTHS: [u64; 8] = [0, 5, 6, 8, 12, 16, 32, 64];

/// Containers that are read at least, by who keeps so many bytes at most. Each call of `references`
/// gives the stream anew.
pub(super) fn reads_at_least<I>(references: impl Fn() -> I, held_bytes: u64) -> u64
where
    I: Iterator<Item = Result<Reference, Infallible>>,
{
    let bounds = LENGTHS.map(|quarters| {
        let phase_bytes = if quarters == 0 {
            u64::MAX
        } else {
            held_bytes.saturating_mul(quarters) / 4
        };
        let mut phase = Phase::default();
        let mut reads = 0;
        // Nothing is held when the first one begins.
        let mut held = 0;
        for Ok(reference) in references() {
            let Some(chunk) = reference.chunk else { continue };
            phase.need(&chunk);
            if phase.bytes >= phase_bytes {
                reads += phase.end(held);
                held = held_bytes;
            }
        }
        reads + phase.end(held)
    });
    bounds.into_iter().max().unwrap_or(0)
}

/// What a phase needs, each chunk once.
#[derive(Debug, Default)]
struct Phase {
    chunks: HashSet<ChunkLocation>,
    shares: HashMap<ContainerId, u64>,
    bytes: u64,
}

impl Phase {
    fn need(&mut self, chunk: &ChunkPart) {
        if self.chunks.insert(chunk.location) {
            *self.shares.entry(chunk.location.container).or_default() += chunk.chunk_len;
            self.bytes += chunk.chunk_len;
        }
    }

    /// Containers that it reads at least, when so many bytes are there; the next one begins.
    fn end(&mut self, held_bytes: u64) -> u64 {
        let mut missing = self.bytes.saturating_sub(held_bytes);
        let mut shares: Vec<u64> = self.shares.drain().map(|(_, bytes)| bytes).collect();
        shares.sort_unstable_by_key(|bytes| std::cmp::Reverse(*bytes));
        self.chunks.clear();
        self.bytes = 0;
        let mut reads = 0;
        for share in shares {
            if missing == 0 {
                break;
            }
            missing = missing.saturating_sub(share);
            reads += 1;
        }
        reads
    }
}
