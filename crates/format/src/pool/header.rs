//! The head of a volume: its name and settings, and where its last checkpoint and its log are. Two
//! copies are written in turn, in the first two blocks of an extent of the volume's own.

use types::{BlockNumber, ExtentNumber, VolumeId};

use super::EXTENT_BLOCKS;
pub use super::VOLUME_BLOCKS_MAX;
use super::entry::BIRTH_MAX;
use super::ids::{PoolId, are_in_range};
use crate::error::Result;
use crate::payload::{Payload, payload, rule};
use crate::wire::{Reader, Writer};

/// Bytes of a volume's name.
pub const VOLUME_NAME_BYTES_MAX: usize = 255;

/// The head of a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeHeader {
    /// The volume.
    pub volume: VolumeId,
    /// Counts the writes; the whole copy with the larger number holds.
    pub counter: u64,
    /// The name, unique in the pool. Empty for the pool's own volume, and for one that is being
    /// removed.
    pub name: String,
    /// The length in blocks.
    pub blocks: u64,
    /// The present generation: only private blocks born in it are written in place.
    pub birth: u32,
    /// The owner's epoch, which every block of the log repeats.
    pub epoch: u32,
    /// The highest page of the map, with its digest; `None` if every block is zeros.
    pub root: Option<(BlockNumber, u128)>,
    /// The first page of the state at the checkpoint; `None` before the first one.
    pub state: Option<BlockNumber>,
    /// Where the log continues after the checkpoint; `None` before the first block of log.
    pub log: Option<LogPosition>,
    /// The settings.
    pub settings: VolumeSettings,
}

/// A block of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogPosition {
    /// Its extent.
    pub extent: ExtentNumber,
    /// Its number in the extent.
    pub index: u32,
    /// Its sequence number.
    pub sequence: u64,
}

/// What a user sets for a volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VolumeSettings {
    /// Whether the finder shares its blocks.
    pub deduplicate: bool,
    /// Whether the finder compares bytes before it shares a block (D7).
    pub compare_bytes: bool,
    /// Seconds between two iterations of the finder (D2).
    pub interval_s: u32,
    /// Iterations in which a block must not be written before it is shared (D6); 0 shares hotspots
    /// too.
    pub quiet_intervals: u8,
    /// Bytes a second that the finder may examine; 0 for no limit (D11).
    pub finder_bytes_per_s: u64,
}

/// The finder waits five minutes between two iterations [DEDIS 3.2].
pub const INTERVAL_S_DEFAULT: u32 = 300;
/// Blocks are quiet for this and the previous iteration [DEDIS 3.2].
pub const QUIET_INTERVALS_DEFAULT: u8 = 2;

impl Default for VolumeSettings {
    fn default() -> Self {
        Self {
            deduplicate: true,
            compare_bytes: false,
            interval_s: INTERVAL_S_DEFAULT,
            quiet_intervals: QUIET_INTERVALS_DEFAULT,
            finder_bytes_per_s: 0,
        }
    }
}

payload!(VolumeHeader);

impl Payload for VolumeHeader {
    const WHAT: &'static str = "volume header";
    const VERSION: u8 = 1;

    fn write(&self, w: &mut Writer<'_>) {
        w.volume(self.volume);
        w.u64(self.counter);
        w.text(&self.name);
        w.varint(self.blocks);
        w.varint32(self.birth);
        w.varint32(self.epoch);
        w.option(self.root, |w, (block, digest)| {
            w.block(block);
            w.u128(digest);
        });
        w.option(self.state, Writer::block);
        w.option(self.log, |w, log| {
            w.extent(log.extent);
            w.varint32(log.index);
            w.varint(log.sequence);
        });
        let VolumeSettings {
            deduplicate,
            compare_bytes,
            interval_s,
            quiet_intervals,
            finder_bytes_per_s,
        } = self.settings;
        w.flag(deduplicate);
        w.flag(compare_bytes);
        w.varint32(interval_s);
        w.u8(quiet_intervals);
        w.varint(finder_bytes_per_s);
    }

    fn read(r: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            volume: r.volume()?,
            counter: r.u64()?,
            name: r.text(VOLUME_NAME_BYTES_MAX)?,
            blocks: r.varint()?,
            birth: r.varint32()?,
            epoch: r.varint32()?,
            root: r.option(|r| Ok((r.block()?, r.u128()?)))?,
            state: r.option(Reader::block)?,
            log: r.option(|r| {
                Ok(LogPosition {
                    extent: r.extent()?,
                    index: r.varint32()?,
                    sequence: r.varint()?,
                })
            })?,
            settings: VolumeSettings {
                deduplicate: r.flag()?,
                compare_bytes: r.flag()?,
                interval_s: r.varint32()?,
                quiet_intervals: r.u8()?,
                finder_bytes_per_s: r.varint()?,
            },
        })
    }

    fn rules(&self) -> Result<(), &'static str> {
        rule(self.volume.is_in_range(), "volumes are numbered from 1")?;
        rule(self.name.len() <= VOLUME_NAME_BYTES_MAX, "the name is too long")?;
        rule(
            (1..=VOLUME_BLOCKS_MAX).contains(&self.blocks),
            "the length of the volume is out of range",
        )?;
        rule(self.birth <= BIRTH_MAX, "the generation is out of range")?;
        let root = self.root.map(|(block, _)| block);
        rule(
            are_in_range(root) && are_in_range(self.state),
            "a page is in an extent of the pool",
        )?;
        let has_checkpoint = self.state.is_some();
        rule(
            self.log.is_some() == has_checkpoint && (root.is_none() || has_checkpoint),
            "a checkpoint has a state and a log, and no root is without one",
        )?;
        let Some(log) = self.log else {
            return Ok(());
        };
        rule(
            log.extent.is_in_range() && u64::from(log.index) < EXTENT_BLOCKS,
            "the log begins outside of an extent of the volume",
        )
    }
}
