//! What restores read: the engine's planners over a simulated recipe.

use std::convert::Infallible;

use restore::lru::LruPlanner;
use restore::plan::{Assembler, Assembly, ChunkPart, Next, Planner, Reference};

use super::store::{Recipe, Store};

/// How a restore uses memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// Bytes of the assembly area, or of the containers kept.
    pub bytes: u64,
    /// How they are used.
    pub assembly: Assembly,
}

/// What a restore reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restored {
    /// With this memory.
    pub memory: Memory,
    /// Containers that are read, each time counted.
    pub containers_read: u64,
    /// Bytes restored, zeros not counted.
    pub bytes: u64,
}

impl Restored {
    /// Containers read for each MiB: how fragmented the backup is for this memory [Lillibridge 2]. None where nothing is
    /// restored.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a figure to show")]
    pub fn containers_a_mib(&self) -> Option<f64> {
        let mib = self.bytes as f64 / f64::from(1 << 20);
        (self.bytes > 0).then(|| self.containers_read as f64 / mib)
    }

    /// MiB restored for each container read [Lillibridge 4.1]: the higher, the faster. None where nothing is read.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a figure to show")]
    pub fn speed_factor(&self) -> Option<f64> {
        let mib = self.bytes as f64 / f64::from(1 << 20);
        (self.containers_read > 0).then(|| mib / self.containers_read as f64)
    }
}

pub(super) fn restore(store: &Store, recipe: &Recipe, memory: Memory) -> Restored {
    let references = store.pieces(recipe).map(|piece| {
        let chunk = piece.location.map(|(location, fingerprint)| ChunkPart {
            location,
            fingerprint,
            chunk_len: u64::from(piece.len),
            skip: 0,
        });
        Ok::<_, Infallible>(Reference {
            chunk,
            len: u64::from(piece.len),
        })
    });
    let containers_read = match memory.assembly {
        assembly @ (Assembly::Rolling | Assembly::Fixed) => {
            reads(Planner::new(references, assembly, memory.bytes))
        }
        Assembly::Lru => reads(LruPlanner::new(references, memory.bytes, |_| store.slot_bytes())),
    };
    Restored {
        memory,
        containers_read,
        bytes: recipe.bytes(),
    }
}

fn reads(mut assembler: impl Assembler<Error = Infallible>) -> u64 {
    let mut reads = 0;
    loop {
        match assembler.next_action() {
            Ok(Some(Next::Step(step))) => reads += u64::from(step.is_read()),
            Ok(Some(Next::Spots(_))) => {}
            Ok(None) => return reads,
        }
    }
}
