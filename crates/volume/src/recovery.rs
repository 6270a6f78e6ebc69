//! Opening a volume: the last checkpoint, and the log behind it (D8).
//!
//! The log is replayed by the same changes that made it (`core`). What a tail without a mark means
//! depends on how the pool was closed. After a kill in the same boot of the system, all that was
//! written is there, so all of it counts (rule 13). After a power cut, a `Map` behind the last mark
//! counts only if the new block has its digest (rule 12): else the volume has the old block again,
//! which nobody has used since.
//!
//! Recovery ends with a checkpoint under a new epoch. So no block of log is judged twice, and none of
//! before a gap is ever taken for one of after it.

use std::collections::BTreeMap;
use std::sync::Arc;

use env::{AlignedBuffer, BLOCK_BYTES, BlockDevice};
use format::FormatError;
use format::pool::EXTENT_BLOCKS;
use format::pool::entry::MapEntry;
use format::pool::frame::{self, BlockKind};
use format::pool::header::{LogPosition, VolumeHeader};
use format::pool::log::LogBlockHead;
use format::pool::record::{FoundOutcome, IntentBlock, Record, block_digest};
use format::pool::state::{VolumeState, read_state_page};
use types::{BlockNumber, ExtentNumber, Fingerprint, Lba, VolumeId};

use crate::batch::{Batch, BatchContent};
use crate::core::Core;
use crate::error::{Result, VolumeError};
use crate::extents::Grant;
use crate::free::{FreeBlocks, block_at};
use crate::head::{HEADER_BLOCKS, read_header};
use crate::leaf::{LEAF_BLOCKS, Leaf};
use crate::log::LogBuffer;
use crate::map::{Map, Upper, UpperPages, read_page, references};
use crate::shared::Shared;
use crate::volume::{Head, Volume};

/// How the pool was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Closed {
    /// At most a kill of the process: all that was written is there.
    ByKill,
    /// Perhaps a power cut.
    ByPowerCut,
}

/// A volume whose log was replayed, before it serves.
pub(crate) struct Recovered {
    pub(crate) volume: Volume,
    /// A batch without all answers.
    pub(crate) open: Option<Batch>,
    /// Extents that the volume returned, and that the table may still say it has.
    pub(crate) returned: Vec<Grant>,
    /// Gifts to other volumes.
    pub(crate) gifts: Vec<Gift>,
}

/// Free blocks that one volume gave to another.
#[derive(Debug, Clone)]
pub(crate) struct Gift {
    pub(crate) from: VolumeId,
    pub(crate) to: VolumeId,
    pub(crate) number: u64,
    pub(crate) runs: Vec<(BlockNumber, u32)>,
}

/// Reads a volume and replays its log.
pub(crate) fn recover(
    shared: Arc<Shared>,
    id: VolumeId,
    extent: ExtentNumber,
    closed: Closed,
) -> Result<Recovered> {
    let device = Arc::clone(&shared.device);
    let header = read_header(&*device, extent, id)?;
    let (state, state_pages) = read_state(&*device, &header)?;
    let mut free = FreeBlocks::from_lists(&state.free_extents, &state.free_blocks);
    if header.state.is_none() {
        for index in HEADER_BLOCKS..usize::try_from(EXTENT_BLOCKS).unwrap_or(0) {
            free.add(block_at(extent, index));
        }
    }
    let upper = read_upper(&*device, &header)?;
    let map = Map::new(Arc::clone(&device), upper, shared.map_cache_bytes);
    let log = read_log(&*device, &header)?;
    let mut granted = shared.table().granted(id);
    let mut extents = log.extents;
    for later in extents.iter().skip(1) {
        free.remove_extent(*later);
    }
    let next = match extents.last() {
        Some(_) => log.next,
        None => {
            // A new volume: its log begins in an extent of its own.
            if granted.is_empty() {
                granted = shared.grant(id, 2)?;
            }
            let first = granted.first().ok_or(VolumeError::NoSpace)?;
            extents.push(first.0);
            LogPosition {
                extent: first.0,
                index: 0,
                sequence: 1,
            }
        }
    };
    let is_new = header.log.is_none();
    let buffer = LogBuffer::resume(
        id,
        header.epoch + 1,
        extents,
        next.index,
        next.sequence,
        log.blocks.len() as u64,
    );
    let mut core = Core::new(&state, free, buffer, header.birth);
    let mut header = header;
    header.epoch += 1;
    let log_extent = is_new.then_some(next.extent);
    let mut replay = Replay::new(&*device, &map, &mut core, header.blocks);
    replay.trusted = log.marked;
    replay.trusts_all = closed == Closed::ByKill;
    for (sequence, records) in log.blocks {
        for record in records {
            replay
                .record(sequence, record)
                .map_err(|error| contradiction(&header, error))?;
        }
    }
    let Replay {
        open,
        returned,
        credited,
        gifts,
        held,
        blocks,
        ..
    } = replay;
    header.blocks = blocks;
    core.empty_limbo();
    let unknown = granted
        .into_iter()
        .filter(|grant| !credited.contains(grant))
        .filter(|(extent, _)| Some(*extent) != log_extent);
    let mut new: Vec<Grant> = unknown.collect();
    for (extent, _) in &new {
        core.free.add_extent(*extent);
    }
    new.extend(credited);
    new.extend(log_extent.map(|extent| (extent, shared.table().entry(extent).grants)));
    core.credited = new;
    core.flushes_begun = 16;
    core.flushes_completed = 16;
    let head = Head {
        stored_epoch: header.epoch - 1,
        header,
        extent,
        state_pages,
    };
    let volume = Volume::new(id, shared, map, core, head);
    Ok(Recovered {
        volume,
        open: open.map(|(sequence, content)| Batch {
            sequence,
            content,
            held,
        }),
        returned,
        gifts: gifts.into_iter().map(|gift| Gift { from: id, ..gift }).collect(),
    })
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

fn read_state(device: &dyn BlockDevice, header: &VolumeHeader) -> Result<(VolumeState, Vec<BlockNumber>)> {
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
        let payload = frame::open(BlockKind::State, &page).map_err(damaged)?;
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
    upper.root = Upper {
        below: references(&page),
        stored: Some(block),
    };
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
        for (index, reference) in page.below.iter().enumerate() {
            if let Some(reference) = reference {
                let bytes = read_page(device, "a page of the map", *reference)?;
                let below = Upper {
                    below: references(&bytes),
                    stored: Some(reference.block),
                };
                pages.insert(number * LEAF_BLOCKS + index as u64, below);
            }
        }
    }
    Ok(pages)
}

/// The log behind a checkpoint.
struct FoundLog {
    /// Its extents, in order.
    extents: Vec<ExtentNumber>,
    blocks: Vec<(u64, Vec<Record>)>,
    /// The place of the block behind the last.
    next: LogPosition,
    /// Blocks before this one are covered by a mark.
    marked: u64,
}

/// Reads the log up to its end: the first block that is not the next one.
fn read_log(device: &dyn BlockDevice, header: &VolumeHeader) -> Result<FoundLog> {
    const AT_ONCE: u64 = 64;
    let Some(begin) = header.log else {
        let extent = ExtentNumber::MAX;
        return Ok(FoundLog {
            extents: Vec::new(),
            blocks: Vec::new(),
            next: LogPosition {
                extent,
                index: 0,
                sequence: 1,
            },
            marked: 0,
        });
    };
    let mut found = FoundLog {
        extents: vec![begin.extent],
        blocks: Vec::new(),
        next: begin,
        marked: begin.sequence,
    };
    let mut buffer = AlignedBuffer::with_capacity(64 * 4096);
    'all: loop {
        let index = u64::from(found.next.index);
        let count = AT_ONCE.min(EXTENT_BLOCKS - index);
        buffer.grow_to(usize::try_from(count * BLOCK_BYTES).unwrap_or(0));
        let first = block_at(found.next.extent, found.next.index as usize);
        device.read_at(Volume::at(first), &mut buffer)?;
        for block in buffer.chunks_exact(4096) {
            let read = frame::open(BlockKind::Log, block).and_then(LogBlockHead::read);
            let Ok((head, records)) = read else {
                break 'all;
            };
            let is_next = head.volume == header.volume
                && head.epoch == header.epoch
                && head.sequence == found.next.sequence;
            if !is_next {
                break 'all;
            }
            for record in &records {
                if let Record::FlushMark { covers } = record {
                    found.marked = found.marked.max(*covers);
                }
            }
            found.blocks.push((head.sequence, records));
            found.next.sequence += 1;
            found.next.index += 1;
            if let Some(next) = head.next {
                found.extents.push(next);
                found.next.extent = next;
                found.next.index = 0;
                continue 'all;
            }
        }
        if u64::from(found.next.index) >= EXTENT_BLOCKS {
            break;
        }
    }
    Ok(found)
}

/// Replays records.
struct Replay<'a> {
    device: &'a dyn BlockDevice,
    map: &'a Map,
    core: &'a mut Core,
    /// Blocks of log before this one are covered by a mark.
    trusted: u64,
    trusts_all: bool,
    blocks: u64,
    /// The batch of which all intents, and not all answers, were met.
    open: Option<(u64, BatchContent)>,
    /// The intents of a batch whose last one was not met.
    partial: Vec<IntentBlock>,
    partial_dec: Vec<(BlockNumber, Fingerprint, u32)>,
    returned: Vec<Grant>,
    credited: Vec<Grant>,
    gifts: Vec<Gift>,
    held: Vec<Arc<Leaf>>,
}

impl<'a> Replay<'a> {
    fn new(device: &'a dyn BlockDevice, map: &'a Map, core: &'a mut Core, blocks: u64) -> Self {
        Self {
            device,
            map,
            core,
            trusted: 0,
            trusts_all: false,
            blocks,
            open: None,
            partial: Vec::new(),
            partial_dec: Vec::new(),
            returned: Vec::new(),
            credited: Vec::new(),
            gifts: Vec::new(),
            held: Vec::new(),
        }
    }

    fn wrong(why: String) -> VolumeError {
        VolumeError::Contradiction {
            volume: String::new(),
            why,
        }
    }

    fn leaf(&self, lba: Lba) -> Result<(Arc<Leaf>, usize)> {
        let leaf = self.map.leaf_or_new(lba.get() / LEAF_BLOCKS)?;
        Ok((leaf, usize::try_from(lba.get() % LEAF_BLOCKS).unwrap_or(0)))
    }

    fn record(&mut self, at: u64, record: Record) -> Result<()> {
        match record {
            Record::Map { lba, block, digests } => self.map(at, lba, block, &digests)?,
            Record::Cut { lba, count } => {
                let (leaf, index) = self.leaf(lba)?;
                let end = index + usize::try_from(count).unwrap_or(usize::MAX);
                if end > leaf_len() {
                    return Err(Self::wrong(format!("a cut at {lba} crosses a page")));
                }
                self.core.cut(&leaf, index..end, at);
            }
            Record::Intent {
                batch,
                is_last,
                blocks,
            } => {
                self.partial.extend(blocks);
                if is_last {
                    self.intent(batch.get())?;
                }
            }
            Record::Found {
                batch,
                from,
                outcomes,
            } => self.found(at, batch.get(), from as usize, &outcomes)?,
            Record::DecIntent {
                batch,
                is_last,
                blocks,
            } => {
                self.partial_dec.extend(blocks);
                if is_last {
                    self.dec_intent(batch.get())?;
                }
            }
            Record::Decided {
                batch,
                from,
                outcomes,
            } => {
                let Some((open, BatchContent::DecIntent(blocks))) = &self.open else {
                    return Err(Self::wrong(format!(
                        "answers to batch {batch}, which is not open"
                    )));
                };
                let (open, count) = (*open, blocks.len());
                for (number, outcome) in outcomes.iter().enumerate() {
                    let decided = blocks.get(from as usize + number);
                    let (block, _, _) = decided.ok_or_else(|| Self::wrong("too many answers".to_owned()))?;
                    self.core.decided(*block, *outcome, at);
                }
                if from as usize + outcomes.len() >= count {
                    self.core.batch = open;
                    self.open = None;
                }
            }
            Record::Extents { extents } => {
                for (extent, _) in &extents {
                    self.core.free.add_extent(*extent);
                }
                self.returned.retain(|grant| !extents.contains(grant));
                self.credited.extend(extents);
            }
            Record::Returned { extents } => {
                for (extent, _) in &extents {
                    if !self.core.free.remove_extent(*extent) {
                        return Err(Self::wrong(format!(
                            "extent {extent} went back to the pool, but was not free"
                        )));
                    }
                }
                self.credited.retain(|grant| !extents.contains(grant));
                self.returned.extend(extents);
            }
            Record::Give { to, gift, runs } => {
                for block in each_block(&runs) {
                    self.core.free.remove(block);
                }
                self.core.given.insert(to, gift);
                self.gifts.push(Gift {
                    from: to,
                    to,
                    number: gift,
                    runs,
                });
            }
            Record::Take { from, gift, runs } => {
                for block in each_block(&runs) {
                    self.core.free.add(block);
                }
                self.core.taken.insert(from, gift);
            }
            Record::FlushMark { covers } => {
                self.core.marked = covers;
                self.core.leave_limbo(u64::MAX);
                self.core.era = 0;
            }
            Record::Resized { blocks } => self.blocks = blocks,
            Record::Unshared { lba, block } => {
                let (leaf, index) = self.leaf(lba)?;
                self.core.unshare(&leaf, index, block);
            }
        }
        Ok(())
    }

    fn map(&mut self, at: u64, lba: Lba, block: BlockNumber, digests: &[u64]) -> Result<()> {
        let (leaf, index) = self.leaf(lba)?;
        if index + digests.len() > leaf_len() {
            return Err(Self::wrong(format!(
                "blocks that are mapped at {lba} cross a page"
            )));
        }
        let is_trusted = self.trusts_all || at < self.trusted;
        let mut content = AlignedBuffer::with_capacity(0);
        if !is_trusted {
            content.grow_to(digests.len() * 4096);
            self.device.read_at(Volume::at(block), &mut content)?;
        }
        for (n, digest) in digests.iter().enumerate() {
            let is_there = is_trusted || block_digest(&content[n * 4096..(n + 1) * 4096]) == *digest;
            let new = BlockNumber::new(block.get() + n as u64);
            let new = new.map_err(|error| Self::wrong(error.to_string()))?;
            if !is_there {
                continue;
            }
            if !self.core.free.remove(new) {
                return Err(Self::wrong(format!(
                    "block {new} is mapped at {lba}, but was not free"
                )));
            }
            self.core.map(&leaf, index + n, new, 1, at);
        }
        Ok(())
    }

    /// The finder had these blocks in hand.
    fn intent(&mut self, batch: u64) -> Result<()> {
        let blocks = std::mem::take(&mut self.partial);
        for one in &blocks {
            let (leaf, index) = self.leaf(one.lba)?;
            match leaf.get(index) {
                MapEntry::Private { block, .. } if block == one.block => {
                    self.core.freeze(&leaf, index);
                }
                _ => {
                    // It was written before the intent was appended: the block is in limbo, or free.
                    self.core.take_from_limbo(one.block);
                    self.core.free.remove(one.block);
                    self.core.with_finder.insert(one.block);
                }
            }
            self.held.push(leaf);
        }
        self.open = Some((batch, BatchContent::Intent(blocks)));
        Ok(())
    }

    fn found(&mut self, at: u64, batch: u64, from: usize, outcomes: &[FoundOutcome]) -> Result<()> {
        let Some((open, BatchContent::Intent(blocks))) = &self.open else {
            return Err(Self::wrong(format!(
                "answers to batch {batch}, which is not open"
            )));
        };
        let (open, count) = (*open, blocks.len());
        let answered = blocks.get(from..from + outcomes.len());
        let answered = answered
            .ok_or_else(|| Self::wrong("too many answers".to_owned()))?
            .to_vec();
        for (one, outcome) in answered.iter().zip(outcomes) {
            let (leaf, index) = self.leaf(one.lba)?;
            self.core.found(&leaf, index, one.block, *outcome, at);
        }
        if from + outcomes.len() >= count {
            self.core.batch = open;
            self.open = None;
            self.held.clear();
        }
        Ok(())
    }

    /// The collector took these references: the first of the list.
    fn dec_intent(&mut self, batch: u64) -> Result<()> {
        let blocks = std::mem::take(&mut self.partial_dec);
        let mut left: u64 = blocks.iter().map(|(_, _, count)| u64::from(*count)).sum();
        while left > 0 {
            let first = self.core.unreferenced.pop_front();
            let first = first.ok_or_else(|| Self::wrong(format!("batch {batch} gives back too much")))?;
            left = left.saturating_sub(u64::from(first.count));
        }
        self.open = Some((batch, BatchContent::DecIntent(blocks)));
        Ok(())
    }
}

const fn leaf_len() -> usize {
    format::pool::PAGE_ENTRIES
}

/// The blocks of runs.
pub(crate) fn each_block(runs: &[(BlockNumber, u32)]) -> impl Iterator<Item = BlockNumber> + '_ {
    runs.iter().flat_map(|(first, count)| {
        (0..u64::from(*count)).filter_map(|n| BlockNumber::new(first.get() + n).ok())
    })
}
