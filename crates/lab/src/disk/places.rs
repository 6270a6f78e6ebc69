//! Which blocks a process reads or writes, one after another.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::rng::Rng;

/// How a process chooses blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Access {
    /// Some blocks far more often than others, by NURand of TPC-C.
    #[default]
    Hotspots,
    /// Every block with the same probability.
    Uniform,
    /// One block after another, from the first one again after the last.
    Sequential,
}

impl Access {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Hotspots, Self::Uniform, Self::Sequential];

    /// Its name on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hotspots => "hotspots",
            Self::Uniform => "uniform",
            Self::Sequential => "sequential",
        }
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A choice of blocks below a number.
#[derive(Debug)]
pub(crate) struct Places {
    access: Access,
    blocks: u64,
    /// NURand's A: one less than a power of two. TPC-C has 8191 for 100,000 items, so this is the
    /// largest one below a twelfth of the blocks.
    mask: u64,
    /// NURand's C: the same for all draws.
    shift: u64,
    next: u64,
}

impl Places {
    /// A choice among `blocks` blocks, at least one.
    pub(crate) fn new(access: Access, blocks: u64, rng: &mut Rng) -> Self {
        let mask = (1 << (blocks / 12).max(1).ilog2()) - 1;
        Self {
            access,
            blocks,
            mask,
            shift: rng.below(mask + 1),
            next: 0,
        }
    }

    /// The next block.
    pub(crate) fn next(&mut self, rng: &mut Rng) -> u64 {
        match self.access {
            Access::Hotspots => {
                let drawn = rng.below(self.mask + 1) | rng.below(self.blocks);
                (drawn + self.shift) % self.blocks
            }
            Access::Uniform => rng.below(self.blocks),
            Access::Sequential => {
                let place = self.next;
                self.next = (place + 1) % self.blocks;
                place
            }
        }
    }
}
