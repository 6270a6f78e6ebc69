//! Streams of unique data, and repetitions of them [Guo 4, figure 4 and table 3, G10].
//!
//! In the first round every chunk is new, and in each other round none is. The paper's files have 3
//! GB each, and 768 GB in all; its chunks have 4 KiB. The workload needs no memory: it draws each
//! round again.

use simulate::{BackupHead, Extent, SimulateError};

use super::lengths::{Lengths, Maker};
use super::{Parts, Workload, check_chunk_bytes, check_some};
use crate::rng::Rng;

/// The workload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unique {
    /// The seed of all random numbers.
    pub seed: u64,
    /// Bytes of a stream; the paper has 3 GB.
    pub stream_bytes: u64,
    /// Number of streams; the paper has 1 to 256 at once.
    pub streams: u32,
    /// Rounds of backups of the same streams. The paper has 3: unique data, duplicates with cold
    /// caches, and duplicates with warm ones.
    pub rounds: u32,
    /// Bytes of a chunk on average; the paper has 4 KiB.
    pub chunk_bytes: u32,
}

impl Default for Unique {
    fn default() -> Self {
        Self {
            seed: 1,
            stream_bytes: 3_000_000_000,
            streams: 256,
            rounds: 3,
            chunk_bytes: 4096,
        }
    }
}

impl Workload for Unique {
    fn name(&self) -> &'static str {
        "unique"
    }

    fn seed(&self) -> u64 {
        self.seed
    }

    fn generate(&self, out: &mut dyn Parts) -> Result<(), SimulateError> {
        check_some(self.stream_bytes, "bytes of a stream")?;
        check_some(self.streams.into(), "streams")?;
        check_some(self.rounds.into(), "rounds")?;
        check_chunk_bytes(self.chunk_bytes)?;
        for round in 1..=self.rounds {
            for stream in 1..=self.streams {
                let rng = Rng::new(self.seed, stream.into());
                let mut maker = Maker::new(Lengths::Content(self.chunk_bytes), rng, stream.into());
                out.begin(&BackupHead {
                    name: format!("{}-{round}-{stream:03}", self.name()),
                    extent: Extent::Full,
                })?;
                maker.say(self.stream_bytes, out)?;
                out.end()?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::generate::tests::Seen;

    #[test]
    fn a_round_is_unique_and_the_next_the_same() {
        let seen = Seen::of(&mut Unique {
            stream_bytes: 10_000_000,
            streams: 3,
            rounds: 2,
            ..Unique::default()
        });
        let mut known = HashSet::new();
        for (n, (_, chunks)) in seen.0.iter().enumerate() {
            let bytes: u64 = chunks.iter().map(|chunk| u64::from(chunk.len)).sum();
            assert_eq!(bytes, 10_000_000);
            let mean = bytes / chunks.len() as u64;
            assert!((3700..4300).contains(&mean), "{mean}");
            assert!(
                chunks
                    .iter()
                    .all(|chunk| known.insert(chunk.fingerprint) == (n < 3))
            );
        }
        assert_eq!(seen.0[0].1, seen.0[3].1);
    }
}
