//! Opening a volume: the last checkpoint, and the log behind it (D8).
//!
//! The log is replayed by the same changes that made it (`core`). A `Map` behind the last mark
//! counts only if the new block has its digest (rule 12): else the volume has the old block again.
//! After a kill every such block has it, because nobody writes in place what no durable mark covers
//! (rule 14). After a power cut, or after a flush that failed, a block may not have been written.
//!
//! Recovery ends with a checkpoint under a new epoch. So no block of log is judged twice, and none
//! of before a gap is ever taken for one of after it.

use std::collections::BTreeMap;
use std::sync::Arc;

use env::{AlignedBuffer, BLOCK_BYTES, BlockDevice};
use format::FormatError;
use format::pool::frame::{self, BlockKind, PoolId};
use format::pool::header::VolumeHeader;
use format::pool::state::{VolumeState, read_state_page};
use types::{BlockNumber, ExtentNumber, VolumeId};

use crate::core::Core;
use crate::error::{Result, VolumeError};
use crate::extents::Grant;
use crate::found_log::read_log;
use crate::free::{EXTENT_LEN, FreeBlocks, block_at};
use crate::head::{HEADER_BLOCKS, read_header};
use crate::leaf::LEAF_BLOCKS;
use crate::log::LogBuffer;
use crate::map::{Map, Upper, UpperPages, read_page};
use crate::replay::Replay;
use crate::shared::{Gift, Shared};
use crate::slot::Batch;
use crate::volume::{Head, Volume};

/// A volume whose log was replayed, before it serves.
pub(crate) struct Recovered {
    pub(crate) volume: Volume,
    /// A batch without all answers.
    pub(crate) open: Option<Batch>,
    /// Extents that the volume returned, and that the table may still say it has.
    pub(crate) returned: Vec<Grant>,
    /// Extents that the table says it has, and that neither its checkpoint nor its log knows. They
    /// are adopted behind the checkpoint that ends the recovery, or before it if it lacks space: a
    /// checkpoint makes the table forget that they are unknown, and a crash before its end would
    /// lose them.
    pub(crate) unknown: Vec<Grant>,
    /// Gifts to other volumes.
    pub(crate) gifts: Vec<Gift>,
}

/// Reads a volume and replays its log.
pub(crate) fn recover(shared: Arc<Shared>, id: VolumeId, extent: ExtentNumber) -> Result<Recovered> {
    let device = Arc::clone(&shared.device);
    let mut header = read_header(&*device, shared.pool, extent, id)?;
    let (state, state_pages) = read_state(&*device, shared.pool, &header)?;
    let free = free_of(&header, &state, extent);
    let upper = read_upper(&*device, &header)?;
    let map = Map::new(Arc::clone(&device), upper, shared.map_cache_bytes);
    let log = read_log(&*device, shared.pool, &header)?;
    // Before its first checkpoint, a volume knows of no extent, whatever the table says.
    let mut granted = match header.log {
        Some(_) => shared.table().granted(id),
        None => shared.table().held(id),
    };
    let mut extents = log.extents;
    let later_extents = extents.get(1..).unwrap_or_default().to_vec();
    let (is_new, mut next, limit) = (header.log.is_none(), log.next, log.limit);
    if is_new {
        // The log of a new volume begins in an extent of its own.
        if granted.is_empty() {
            granted = shared.grant(id, 2)?;
        }
        next.extent = granted.first().ok_or(VolumeError::NoSpace)?.0;
        extents.push(next.extent);
    }
    // No other opening of the pool had this epoch, so no older block of log continues this one.
    let stored_epoch = header.epoch;
    header.epoch = shared.epoch;
    let buffer = LogBuffer::resume(shared.pool, id, header.epoch, extents, next, limit, log.len);
    let mut core = Core::new(&state, free, buffer, header.birth);
    let log_extent = is_new.then_some(next.extent);
    let mut replay = Replay::new(id, &*device, &map, &mut core, header.blocks);
    replay.trusted = log.marked;
    for (sequence, records) in log.blocks {
        for record in records {
            replay
                .record(sequence, record)
                .map_err(|error| contradiction(&header, error))?;
        }
    }
    header.blocks = replay.blocks;
    let Replay {
        open,
        answered,
        returned,
        credited,
        gifts,
        held,
        ..
    } = replay;
    core.empty_limbo();
    take_log_extents(&mut core.free, &later_extents).map_err(|error| contradiction(&header, error))?;
    let unknown = granted
        .into_iter()
        .filter(|grant| !credited.contains(grant) && !returned.contains(grant))
        .filter(|(extent, _)| Some(*extent) != log_extent)
        .collect();
    core.credited = credited;
    let log_grant = log_extent.map(|extent| (extent, shared.table().entry(extent).grants));
    core.credited.extend(log_grant);
    core.settle();
    let head = Head {
        stored_epoch,
        header,
        extent,
        state_pages,
    };
    let batch = |(sequence, content)| Batch {
        sequence,
        content,
        answered,
        held,
    };
    Ok(Recovered {
        volume: Volume::new(id, shared, map, core, head),
        open: open.map(batch),
        returned,
        unknown,
        gifts,
    })
}

/// The free blocks of a checkpoint; of a new volume, those behind its header.
fn free_of(header: &VolumeHeader, state: &VolumeState, extent: ExtentNumber) -> FreeBlocks {
    let mut free = FreeBlocks::from_lists(&state.free_extents, &state.free_blocks);
    if header.state.is_none() {
        for index in HEADER_BLOCKS..EXTENT_LEN {
            free.add(block_at(extent, index));
        }
    }
    free
}

/// Takes the extents of the log out of the free blocks. The log took whole free extents, and before
/// that they may have held data. So they are free when everything is replayed, and not before.
fn take_log_extents(free: &mut FreeBlocks, extents: &[ExtentNumber]) -> Result<()> {
    for extent in extents {
        if !free.remove_extent(*extent) {
            return Err(VolumeError::Contradiction {
                volume: String::new(),
                why: format!("extent {extent} is of the log, but other things use it"),
            });
        }
    }
    Ok(())
}

fn contradiction(header: &VolumeHeader, error: VolumeError) -> VolumeError {
    match error {
        VolumeError::Contradiction { why, .. } => VolumeError::Contradiction {
            volume: header.name.clone(),
            why,
        },
        other => other,
    }
}

fn read_state(
    device: &dyn BlockDevice,
    pool: PoolId,
    header: &VolumeHeader,
) -> Result<(VolumeState, Vec<BlockNumber>)> {
    let Some(first) = header.state else {
        return Ok((VolumeState::default(), Vec::new()));
    };
    let (mut next, mut pages, mut bytes) = (Some(first), Vec::new(), Vec::new());
    let damaged = |why| VolumeError::Damaged {
        what: "the state of a volume",
        block: first,
        why,
    };
    while let Some(block) = next {
        if pages.len() as u64 > device.len() / BLOCK_BYTES {
            return Err(damaged(FormatError::Invalid {
                what: "state pages",
                why: "they form a circle",
            }));
        }
        let mut page = AlignedBuffer::with_capacity(4096);
        page.grow_to(4096);
        device.read_at(Volume::at(block), &mut page)?;
        let payload = frame::open_in(pool, BlockKind::State, &page).map_err(damaged)?;
        let (behind, part) = read_state_page(payload).map_err(damaged)?;
        bytes.extend_from_slice(part);
        pages.push(block);
        next = behind;
    }
    let state = VolumeState::decode(&bytes).map_err(damaged)?;
    Ok((state, pages))
}

fn read_upper(device: &dyn BlockDevice, header: &VolumeHeader) -> Result<UpperPages> {
    let mut upper = UpperPages::default();
    let Some((block, digest)) = header.root else {
        return Ok(upper);
    };
    let mut page = Box::new([0; 4096]);
    device.read_at(Volume::at(block), &mut page[..])?;
    let found = format::wire::digest(&page[..]);
    if found != digest {
        return Err(VolumeError::Damaged {
            what: "the root of a volume's map",
            block,
            why: FormatError::DigestMismatch {
                what: "map page",
                expected: digest,
                found,
            },
        });
    }
    upper.root = Upper::from_page(&page, block);
    upper.third = read_below(device, [(0, &upper.root)].into_iter())?;
    upper.second = read_below(device, upper.third.iter().map(|(number, page)| (*number, page)))?;
    Ok(upper)
}

fn read_below<'a>(
    device: &dyn BlockDevice,
    above: impl Iterator<Item = (u64, &'a Upper)>,
) -> Result<BTreeMap<u64, Upper>> {
    let mut pages = BTreeMap::new();
    for (number, page) in above {
        for (index, reference) in page.references() {
            let bytes = read_page(device, "a page of the map", reference)?;
            let below = Upper::from_page(&bytes, reference.block);
            pages.insert(number * LEAF_BLOCKS + index as u64, below);
        }
    }
    Ok(pages)
}
