//! A volume's state at a checkpoint, beside its map: free blocks, blocks for the collector,
//! counters. It fills a chain of framed pages.

use types::{BatchSequence, BlockNumber, ExtentNumber, VolumeId};

use super::frame::FRAMED_BYTES_MAX;
use super::ids::{PoolId, are_in_range};
use super::{EXTENT_BLOCKS, VOLUME_BLOCKS_MAX};
use crate::error::Result;
use crate::payload::{Payload, ascends, payload, rule};
use crate::wire::{Reader, Writer};

/// Bytes of state in a page.
pub const STATE_PAGE_BYTES: usize = FRAMED_BYTES_MAX - 8;

/// Free blocks of one extent: a bit for each, the lowest first.
pub type FreeBits = [u64; 16];

/// A volume's state at a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct VolumeState {
    /// The last batch that was sent to the duplicates index and answered.
    pub batch: Option<BatchSequence>,
    /// Blocks of the volume that are not zeros.
    pub mapped: u64,
    /// Those of them that refer to a registered block.
    pub counted: u64,
    /// Extents that are wholly free, ascending.
    pub free_extents: Vec<ExtentNumber>,
    /// Extents with some free blocks, and not all, ascending.
    pub free_blocks: Vec<(ExtentNumber, FreeBits)>,
    /// Blocks whose references the collector has to give back, and how many, in the order in which
    /// they were dropped.
    pub unreferenced: Vec<(BlockNumber, u32)>,
    /// Blocks that must never be used again, because the index does not know them; ascending.
    pub suspects: Vec<BlockNumber>,
    /// The last gift that was taken from each volume, ascending.
    pub taken: Vec<(VolumeId, u64)>,
    /// The last gift that was made to each volume, ascending.
    pub given: Vec<(VolumeId, u64)>,
    /// Private blocks whose fingerprint other content has: they are not shared (D7). Ascending.
    pub different: Vec<BlockNumber>,
}

payload!(VolumeState);

impl Payload for VolumeState {
    const WHAT: &'static str = "volume state";
    const VERSION: u8 = 1;

    fn write(&self, w: &mut Writer<'_>) {
        w.option(self.batch, Writer::batch);
        w.varint(self.mapped);
        w.varint(self.counted);
        w.list(&self.free_extents, |w, extent| w.extent(*extent));
        w.list(&self.free_blocks, |w, (extent, bits)| {
            w.extent(*extent);
            write_bits(w, bits);
        });
        w.list(&self.unreferenced, |w, (block, count)| {
            w.block(*block);
            w.varint32(*count);
        });
        w.list(&self.suspects, |w, block| w.block(*block));
        let gifts = |w: &mut Writer<'_>, (volume, gift): &(VolumeId, u64)| {
            w.volume(*volume);
            w.varint(*gift);
        };
        w.list(&self.taken, gifts);
        w.list(&self.given, gifts);
        w.list(&self.different, |w, block| w.block(*block));
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        let gift = |r: &mut Reader<'_>| Ok((r.volume()?, r.varint()?));
        Ok(Self {
            batch: r.option(Reader::batch)?,
            mapped: r.varint()?,
            counted: r.varint()?,
            free_extents: r.list(1, Reader::extent)?,
            free_blocks: r.list(4, |r| Ok((r.extent()?, read_bits(r)?)))?,
            unreferenced: r.list(2, |r| Ok((r.block()?, r.varint32()?)))?,
            suspects: r.list(1, Reader::block)?,
            taken: r.list(2, gift)?,
            given: r.list(2, gift)?,
            different: r.list(1, Reader::block)?,
        })
    }

    fn rules(&self) -> Result<(), &'static str> {
        rule(are_in_range(self.batch), "batches are numbered from 1")?;
        rule(
            self.counted <= self.mapped && self.mapped <= VOLUME_BLOCKS_MAX,
            "more blocks are mapped than a volume has, or counted than mapped",
        )?;
        self.rules_of_free_blocks()?;
        let unreferenced = self.unreferenced.iter();
        rule(
            are_in_range(unreferenced.clone().map(|(block, _)| *block))
                && unreferenced.clone().all(|one| one.1 > 0),
            "a block has no reference to give back, or is no volume's",
        )?;
        for blocks in [&self.suspects, &self.different] {
            rule(ascends(blocks), "blocks are not in ascending order")?;
            rule(are_in_range(blocks.iter().copied()), "a block is no volume's")?;
        }
        for gifts in [&self.taken, &self.given] {
            rule(
                gifts.is_sorted_by(|a, b| a.0 < b.0),
                "volumes are not in ascending order",
            )?;
            rule(
                gifts
                    .iter()
                    .all(|(volume, gift)| volume.is_in_range() && *gift > 0),
                "volumes and gifts are numbered from 1",
            )?;
        }
        Ok(())
    }
}

impl VolumeState {
    fn rules_of_free_blocks(&self) -> Result<(), &'static str> {
        let some = self.free_blocks.iter().map(|(extent, _)| *extent);
        rule(
            ascends(&self.free_extents) && some.clone().is_sorted_by(|a, b| a < b),
            "extents are not in ascending order",
        )?;
        rule(
            are_in_range(self.free_extents.iter().copied()) && are_in_range(some.clone()),
            "an extent is no volume's",
        )?;
        let mut both = some.filter(|extent| self.free_extents.binary_search(extent).is_ok());
        rule(both.next().is_none(), "an extent is wholly and partly free")?;
        let is_part = |bits: &FreeBits| *bits != [0; 16] && *bits != [u64::MAX; 16];
        rule(
            self.free_blocks.iter().all(|(_, bits)| is_part(bits)),
            "an extent that is partly free has no free block, or only free ones",
        )
    }
}

/// Free blocks from this number on are a bitmap, which then is not longer than their list.
const BITMAP_BLOCKS_MIN: u32 = 64;

/// Few free blocks are a list, many are a bitmap.
fn write_bits(w: &mut Writer<'_>, bits: &FreeBits) {
    let count: u32 = bits.iter().map(|word| word.count_ones()).sum();
    w.varint32(count);
    if count >= BITMAP_BLOCKS_MIN {
        for word in bits {
            w.u64(*word);
        }
        return;
    }
    for (number, word) in bits.iter().enumerate() {
        let mut left = *word;
        while left != 0 {
            let index = number as u64 * 64 + u64::from(left.trailing_zeros());
            w.u16(u16::try_from(index).expect("an extent has 1,024 blocks"));
            left &= left - 1;
        }
    }
}

fn read_bits(r: &mut Reader<'_>) -> Result<FreeBits> {
    let here = r.fault("free blocks of an extent are not those that were counted");
    let count = r.varint32()?;
    let mut bits = FreeBits::default();
    if count >= BITMAP_BLOCKS_MIN {
        for word in &mut bits {
            *word = r.u64()?;
        }
    } else {
        let mut least = 0;
        for _ in 0..count {
            let index = u64::from(r.u16()?);
            if index < least || index >= EXTENT_BLOCKS {
                return Err(here);
            }
            least = index + 1;
            bits[usize::try_from(index / 64).unwrap_or(0)] |= 1 << (index % 64);
        }
    }
    let found: u32 = bits.iter().map(|word| word.count_ones()).sum();
    if found == count { Ok(bits) } else { Err(here) }
}

/// The payload of a page of the chain.
///
/// # Panics
/// If there are more bytes than [`STATE_PAGE_BYTES`], or the next page is in extent 0, which is the
/// pool's: the page could not be read back.
#[must_use]
pub fn state_page(next: Option<BlockNumber>, bytes: &[u8]) -> Vec<u8> {
    assert!(bytes.len() <= STATE_PAGE_BYTES, "the bytes fit a page");
    assert!(are_in_range(next), "no state is in an extent of the pool");
    let mut out = Vec::with_capacity(8 + bytes.len());
    out.extend_from_slice(&next.map_or(0, BlockNumber::get).to_le_bytes());
    out.extend_from_slice(bytes);
    out
}

/// The next page of the chain, and the bytes of this one.
///
/// # Errors
/// `Malformed` if it is no such payload.
pub fn read_state_page(payload: &[u8]) -> Result<(Option<BlockNumber>, &[u8])> {
    let mut r = Reader::new("state page", payload);
    r.require(payload.len() <= FRAMED_BYTES_MAX, "it is longer than a page")?;
    let here = r.fault("the next page is out of range");
    let next = match r.u64()? {
        0 => None,
        number => {
            let next = BlockNumber::new(number).ok();
            Some(next.filter(|next| next.is_in_range()).ok_or(here)?)
        }
    };
    let bytes = r.take(r.remaining())?;
    Ok((next, bytes))
}
