//! The head of a pool. Two copies are written in turn, so that one is always whole.

use types::{ExtentNumber, VolumeId};

use super::EXTENT_BLOCKS;
use super::ids::{PoolId, are_in_range};
use super::table::TABLE_EXTENT_ENTRIES;
use crate::error::Result;
use crate::payload::{Payload, ascends, payload, rule};
use crate::wire::{Reader, Writer};

/// The blocks of the two copies.
pub const SUPERBLOCKS: [u64; 2] = [0, EXTENT_BLOCKS / 2];

/// Extents that may hold the table of extents.
pub const TABLE_EXTENTS_MAX: usize = 512;

/// Extents of the largest pool, 504 TiB: those that the table has room for.
pub const POOL_EXTENTS_MAX: u32 = 132_120_576;
const _: () = assert!(POOL_EXTENTS_MAX as usize == TABLE_EXTENTS_MAX * TABLE_EXTENT_ENTRIES);

/// Bytes of the path of the pool's index.
pub const INDEX_PATH_BYTES_MAX: usize = 1024;

/// The head of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Superblock {
    /// Counts the writes; the whole copy with the larger number holds.
    pub counter: u64,
    /// The pool's id, random.
    pub pool: [u8; 16],
    /// The key of the fingerprints of this pool's blocks, random.
    pub domain_key: [u8; 32],
    /// Extents of the device that the pool uses.
    pub extents: u32,
    /// The extents that hold the table of extents, ascending; as many as `extents` need.
    pub table: Vec<ExtentNumber>,
    /// The number of the next volume.
    pub next_volume: VolumeId,
    /// The folder of the duplicates index; empty if it is beside the pool's file.
    pub index: String,
}

payload!(Superblock);

impl Payload for Superblock {
    const WHAT: &'static str = "superblock";
    const VERSION: u8 = 1;

    fn write(&self, w: &mut Writer<'_>) {
        w.u64(self.counter);
        w.put(&self.pool);
        w.put(&self.domain_key);
        w.u32(self.extents);
        w.list(&self.table, |w, extent| w.extent(*extent));
        w.volume(self.next_volume);
        w.text(&self.index);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            counter: r.u64()?,
            pool: r.array()?,
            domain_key: r.array()?,
            extents: r.u32()?,
            table: r.list(1, Reader::extent)?,
            next_volume: r.volume()?,
            index: r.text(INDEX_PATH_BYTES_MAX)?,
        })
    }

    fn rules(&self) -> Result<(), &'static str> {
        rule(
            (1..=POOL_EXTENTS_MAX).contains(&self.extents),
            "the number of extents is out of range",
        )?;
        let needed = (self.extents as usize).div_ceil(TABLE_EXTENT_ENTRIES);
        rule(
            self.table.len() == needed,
            "the table has not as many extents as the pool needs",
        )?;
        rule(
            ascends(&self.table),
            "the table's extents are not in ascending order",
        )?;
        rule(
            are_in_range(self.table.iter().copied())
                && self.table.iter().all(|extent| extent.get() < self.extents),
            "the table is outside of the pool",
        )?;
        rule(self.next_volume.is_in_range(), "volumes are numbered from 1")?;
        rule(
            self.index.len() <= INDEX_PATH_BYTES_MAX,
            "the path of the index is too long",
        )
    }
}
