//! A proved lower bound on the containers that a restore reads, whatever it knows and keeps: the
//! yardstick (L9).
//!
//! The proof cuts the stream into phases. When a phase begins, memory holds at most a given number
//! of bytes. The restore reads all other bytes of the phase before the phase ends. Each read of a
//! container brings at most the bytes that the phase needs of it. So the phase reads at least as
//! many containers as it takes to cover the missing bytes, the largest shares first. No read
//! belongs to two phases, so the sum over the phases bounds the whole. Memory is empty before the
//! first phase, so the whole stream as one phase gives the number of its containers. The bound is
//! the best one of several phase lengths. Memory includes the container that is being read.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;

use restore::plan::{ChunkPart, Reference};
use types::{ChunkLocation, ContainerId};

/// Bytes that a phase needs, in quarters of the memory; 0: the whole stream is one phase.
const LENGTHS: [u64; 8] = [0, 5, 6, 8, 12, 16, 32, 64];

/// The least number of containers that any restore reads with a memory of `held_bytes`. Each call
/// of `references` returns the stream from its beginning.
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
        // Memory is empty when the first phase begins.
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

/// The chunks that a phase needs, each once.
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

    /// Ends the phase. Returns the least number of containers that it reads, if memory held
    /// `held_bytes` at its beginning.
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
