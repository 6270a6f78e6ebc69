//! Blocks of a pool: what is written between the blocks of volumes (`docs/format-pool.md`).
//!
//! A pool is a device of blocks of 4 KiB. Blocks of metadata are framed ([`frame`]), except pages
//! of the map, whose digests are in the pages above them. What must hold: as everywhere in this
//! crate, a decoder takes any bytes, and accepts exactly what the encoder writes. An encoder panics
//! rather than write what could not be read back: a block of log that cannot be read ends the log.

pub mod entry;
pub mod frame;
pub mod header;
pub mod log;
pub mod record;
pub mod state;
pub mod superblock;
pub mod table;

mod ids;

/// Bytes of a block.
pub const BLOCK_BYTES: usize = 4096;
/// Blocks of an extent.
pub const EXTENT_BLOCKS: u64 = 1024;
/// Entries of a page of the map, at every level.
pub const PAGE_ENTRIES: usize = BLOCK_BYTES / 8;
/// The first extent that a volume can have: extent 0 is the pool's.
pub const VOLUME_EXTENT_MIN: u32 = 1;
/// The first block that a volume can have.
pub const VOLUME_BLOCK_MIN: u64 = EXTENT_BLOCKS;
/// Blocks of the largest volume: 64 TiB.
pub const VOLUME_BLOCKS_MAX: u64 = 1 << 34;
