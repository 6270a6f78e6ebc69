//! A process of a load: a part of the device, and what it reads and writes there.

use std::ops::Range;
use std::sync::Arc;

use super::BLOCK_BYTES;
use super::distribution::{Distribution, Drawn};
use super::places::{Access, Places};
use crate::error::LabError;
use crate::rng::{Rng, drawn, noise};

/// What processes of a load have in common.
#[derive(Debug, Clone)]
pub(crate) struct Traffic {
    /// The contents of blocks.
    pub(crate) contents: Arc<Distribution>,
    /// The choice of blocks.
    pub(crate) access: Access,
    /// The seed of all random numbers.
    pub(crate) seed: u64,
}

/// A process. Its operations follow from the traffic and from its number.
#[derive(Debug)]
pub(crate) struct Process {
    traffic: Traffic,
    number: u64,
    /// Its blocks of the device.
    blocks: Range<u64>,
    places: Places,
    of_places: Rng,
    of_contents: Rng,
    /// Unique contents that it has written.
    fresh: u64,
}

/// The number of a content: unique ones have the highest bit, the process, and a count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Content(u64);

impl Content {
    /// The bytes of the content, under a seed. No content is all zeros, and no two are equal.
    pub(crate) fn fill(self, seed: u64, block: &mut [u8]) {
        noise(drawn(seed, self.0), 0, block);
    }
}

impl Process {
    /// The process with this number, below 2^15, on these blocks of the device. Processes of one
    /// load have different numbers.
    ///
    /// # Errors
    /// `Settings` if it has no block.
    pub(crate) fn new(traffic: Traffic, number: u64, blocks: Range<u64>) -> Result<Self, LabError> {
        let len = blocks.end.saturating_sub(blocks.start);
        if len == 0 {
            return Err(LabError::settings(
                "a process of the load needs at least one block",
            ));
        }
        let mut of_places = Rng::new(traffic.seed, 2 * number);
        Ok(Self {
            places: Places::new(traffic.access, len, &mut of_places),
            of_contents: Rng::new(traffic.seed, 2 * number + 1),
            traffic,
            number,
            blocks,
            of_places,
            fresh: 0,
        })
    }

    /// `count` processes with numbers from `first` on, each on a part of its own of so many blocks.
    ///
    /// # Errors
    /// `Settings` if there are more processes than blocks.
    pub(crate) fn side_by_side(
        traffic: &Traffic,
        first: u64,
        count: u64,
        blocks: u64,
    ) -> Result<Vec<Self>, LabError> {
        let part = |number: u64| blocks * number / count..blocks * (number + 1) / count;
        (0..count)
            .map(|number| Self::new(traffic.clone(), first + number, part(number)))
            .collect()
    }

    /// The number of its blocks.
    pub(crate) fn len_blocks(&self) -> u64 {
        self.blocks.end - self.blocks.start
    }

    /// The offset of the next block, in bytes.
    pub(crate) fn next_offset(&mut self) -> u64 {
        (self.blocks.start + self.places.next(&mut self.of_places)) * BLOCK_BYTES
    }

    /// The next content.
    pub(crate) fn next_content(&mut self) -> Content {
        match self.traffic.contents.draw(&mut self.of_contents) {
            Drawn::Shared(number) => Content(number),
            Drawn::Unique => {
                self.fresh += 1;
                Content(1 << 63 | self.number << 48 | self.fresh)
            }
        }
    }

    /// Fills a block with the next content. Returns its offset in bytes.
    pub(crate) fn next_write(&mut self, block: &mut [u8]) -> u64 {
        self.next_content().fill(self.traffic.seed, block);
        self.next_offset()
    }
}
