//! What holds for every record. The reader and the writer of records both ask.

use types::{BlockNumber, ExtentNumber, Lba};

use super::{FoundOutcome, Record};
use crate::payload::rule;
use crate::pool::ids::{PoolId, are_in_range};
use crate::pool::table::GRANTS_MAX;
use crate::pool::{EXTENT_BLOCKS, PAGE_ENTRIES, VOLUME_BLOCKS_MAX};

impl Record {
    /// Returns the first rule that the record breaks.
    pub(super) fn rules(&self) -> Result<(), &'static str> {
        match self {
            Self::Map { lba, block, digests } => {
                let count = digests.len() as u64;
                within_page(*lba, count)?;
                let last = block.get().checked_add(count - 1);
                let last = last.and_then(|last| BlockNumber::new(last).ok());
                rule(
                    block.is_in_range() && last.is_some(),
                    "a new block is not one that a volume has",
                )
            }
            Self::Cut { lba, count } => within_page(*lba, *count),
            Self::Intent { batch, blocks, .. } => {
                rule(batch.is_in_range(), BATCH)?;
                rule(!blocks.is_empty(), "an intent has no block")?;
                let has_lbas = are_in_range(blocks.iter().map(|one| one.lba));
                let has_blocks = are_in_range(blocks.iter().map(|one| one.block));
                rule(has_lbas && has_blocks, BLOCK)
            }
            Self::Found {
                batch,
                from,
                outcomes,
            } => {
                rule(batch.is_in_range(), BATCH)?;
                answers(*from, outcomes.len())?;
                rule(are_in_range(outcomes.iter().filter_map(|one| one.block())), BLOCK)
            }
            Self::DecIntent { batch, blocks, .. } => {
                rule(batch.is_in_range(), BATCH)?;
                rule(!blocks.is_empty(), "an intent has no block")?;
                rule(are_in_range(blocks.iter().map(|(block, _, _)| *block)), BLOCK)?;
                rule(
                    blocks.iter().all(|(_, _, count)| *count > 0),
                    "no reference is given back",
                )
            }
            Self::Decided {
                batch,
                from,
                outcomes,
            } => {
                rule(batch.is_in_range(), BATCH)?;
                answers(*from, outcomes.len())
            }
            Self::Extents { extents } | Self::Returned { extents } => grants(extents),
            Self::Give {
                to: volume,
                gift,
                runs,
            }
            | Self::Take {
                from: volume,
                gift,
                runs,
            } => {
                rule(volume.is_in_range(), "volumes are numbered from 1")?;
                rule(*gift > 0, "gifts are numbered from 1")?;
                rule(!runs.is_empty(), "a gift has no block")?;
                rule(runs.iter().all(is_run), "a run does not stay in one extent")
            }
            Self::FlushMark { .. } => Ok(()),
            Self::Resized { blocks } => rule(
                (1..=VOLUME_BLOCKS_MAX).contains(blocks),
                "the length of a volume is out of range",
            ),
        }
    }
}

const BATCH: &str = "batches are numbered from 1";
const BLOCK: &str = "a block is out of range";

impl FoundOutcome {
    const fn block(self) -> Option<BlockNumber> {
        match self {
            Self::Registered => None,
            Self::Known(block) | Self::Different(block) => Some(block),
        }
    }
}

/// At least one block, all of one page of the map.
fn within_page(lba: Lba, count: u64) -> Result<(), &'static str> {
    let page = PAGE_ENTRIES as u64;
    rule(lba.is_in_range(), BLOCK)?;
    rule(
        (1..=page - lba.get() % page).contains(&count),
        "the blocks are none, or not all of one page of the map",
    )
}

/// At least one answer, each with a number of 32 bits.
fn answers(from: u32, count: usize) -> Result<(), &'static str> {
    let end = u64::from(from) + count as u64;
    rule(
        count > 0 && end <= 1 << u32::BITS,
        "there is no answer, or too many",
    )
}

fn grants(extents: &[(ExtentNumber, u32)]) -> Result<(), &'static str> {
    rule(!extents.is_empty(), "there is no extent")?;
    rule(
        are_in_range(extents.iter().map(|(extent, _)| *extent)),
        "an extent is out of range",
    )?;
    rule(
        extents.iter().all(|(_, grants)| *grants <= GRANTS_MAX),
        "a number of grants is out of range",
    )
}

/// Whether this is at least one block, all of one extent.
fn is_run((first, count): &(BlockNumber, u32)) -> bool {
    let room = EXTENT_BLOCKS - first.get() % EXTENT_BLOCKS;
    first.is_in_range() && (1..=room).contains(&u64::from(*count))
}
