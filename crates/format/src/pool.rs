//! Blocks of a pool: what is written between the blocks of volumes (`docs/format-pool.md`).
//!
//! A pool is a device of blocks of 4 KiB. Blocks of metadata are framed ([`frame`]), except pages
//! of the map, whose digests are in the pages above them.

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
