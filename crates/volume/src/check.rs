//! A check of a whole pool: every block has exactly one use, and the index counts what the maps
//! refer to (V2, V3, V6).
//!
//! It reads all maps, and each block of the index once. Memory is bounded: blocks are checked range
//! by range. Nobody may write meanwhile; the caller has the pool alone.

use std::ops::{ControlFlow, Range};

use ddi::Bucket;
use format::pool::entry::MapEntry;
use format::pool::superblock::SUPERBLOCKS;
use format::pool::table::ExtentOwner;
use format::pool::{EXTENT_BLOCKS, PAGE_ENTRIES};
use types::{BlockNumber, ExtentNumber, Lba};

use crate::error::Result;
use crate::free::{block_at, place};
use crate::pool::Pool;
use crate::volume::Volume;

/// Blocks of a range: five bytes of memory each.
const RANGE_BLOCKS: u64 = 1 << 25;
/// Pages that are asked for at once.
const PAGES: usize = 4096;

/// A use of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Use {
    /// None: a block of a free extent, or lost.
    None,
    /// A superblock, or the table of extents.
    Pool,
    /// A volume's header, its log, a page of its map or of its state.
    Metadata,
    /// Free, or about to be.
    Free,
    /// Mapped by one volume alone.
    Private,
    /// In the duplicates index.
    Registered,
    /// Set aside because of damage.
    Suspect,
}

/// Something that is wrong in a pool.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Finding {
    /// A block has two uses.
    #[error("block {block} has two uses: {first:?} and {second:?}")]
    TwoUses {
        /// The block.
        block: BlockNumber,
        /// One use.
        first: Use,
        /// The other.
        second: Use,
    },
    /// A block of a volume's extent has no use. It is lost until the next recount of the pool.
    #[error("block {block} has no use: its space is lost")]
    Lost {
        /// The block.
        block: BlockNumber,
    },
    /// A block of a free extent is in use.
    #[error("block {block} is in use ({found:?}), but its extent is free")]
    InFreeExtent {
        /// The block.
        block: BlockNumber,
        /// The use.
        found: Use,
    },
    /// The index counts other references than there are.
    #[error("block {block} has {found} references, but the duplicates index counts {counted}")]
    References {
        /// The block.
        block: BlockNumber,
        /// References of maps, and those that the collector has to give back.
        found: u64,
        /// What the index counts; 0 if it does not know the block.
        counted: u64,
    },
    /// The content of a registered block is not the one that the index has.
    #[error("block {block} is rotten: its content is not the one that was registered")]
    Rotten {
        /// The block.
        block: BlockNumber,
        /// The blocks of volumes that refer to it, up to some.
        volumes: Vec<(String, Lba)>,
    },
    /// A page cannot be read.
    #[error("volume {volume:?}: {why}")]
    Unreadable {
        /// The volume.
        volume: String,
        /// The error.
        why: String,
    },
    /// A volume could not be recovered.
    #[error("volume number {volume} cannot be recovered: {why}")]
    Failed {
        /// The volume.
        volume: types::VolumeId,
        /// The error.
        why: String,
    },
    /// The index lost batches.
    #[error("{why}")]
    Mismatch {
        /// The error.
        why: String,
    },
}

/// What a check found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Checked {
    /// Blocks with a use.
    pub blocks: u64,
    /// Registered blocks.
    pub registered: u64,
    /// Registered blocks whose content was read.
    pub read: u64,
    /// What is wrong; at most [`FINDINGS_MAX`].
    pub findings: Vec<Finding>,
}

/// Findings that a check lists.
pub const FINDINGS_MAX: usize = 1000;

/// Blocks of a range and their uses.
struct Uses {
    range: Range<u64>,
    uses: Vec<Use>,
    references: Vec<u32>,
    checked: Checked,
}

impl Uses {
    fn new(range: Range<u64>, checked: Checked) -> Self {
        let len = usize::try_from(range.end - range.start).unwrap_or(0);
        Self {
            range,
            uses: vec![Use::None; len],
            references: vec![0; len],
            checked,
        }
    }

    fn find(&mut self, finding: Finding) {
        if self.checked.findings.len() < FINDINGS_MAX {
            self.checked.findings.push(finding);
        }
    }

    fn index(&self, block: BlockNumber) -> Option<usize> {
        let is_in = self.range.contains(&block.get());
        is_in
            .then(|| usize::try_from(block.get() - self.range.start).ok())
            .flatten()
    }

    fn add(&mut self, block: BlockNumber, second: Use) {
        let Some(index) = self.index(block) else {
            return;
        };
        match self.uses[index] {
            Use::None => {
                self.uses[index] = second;
                self.checked.blocks += 1;
            }
            first => self.find(Finding::TwoUses { block, first, second }),
        }
    }

    fn refer(&mut self, block: BlockNumber, count: u32) {
        if let Some(index) = self.index(block) {
            self.references[index] = self.references[index].saturating_add(count);
        }
    }
}

impl Pool {
    /// Checks the whole pool. With `read_data`, the content of every registered block is read and
    /// compared with its fingerprint. `progress` is called with the share that was checked.
    ///
    /// # Errors
    /// Errors of the device and of the index that leave nothing to check.
    pub fn check(&self, read_data: bool, progress: &mut dyn FnMut(f64)) -> Result<Checked> {
        let mut checked = Checked::default();
        for (volume, why) in self.failed() {
            checked.findings.push(Finding::Failed { volume, why });
        }
        if let Err(error) = self.shared.check_index() {
            let why = error.to_string();
            checked.findings.push(Finding::Mismatch { why });
        } else {
            // A batch without an answer: only the index knows what it counted.
            for volume in self.all() {
                if volume.check_running().is_ok() {
                    volume.settle(&mut volume.slot())?;
                }
            }
        }
        let blocks = self.shared.table().len() as u64 * EXTENT_BLOCKS;
        let mut from = 0;
        while from < blocks {
            let range = from..(from + RANGE_BLOCKS).min(blocks);
            let mut uses = Uses::new(range.clone(), checked);
            self.check_range(&mut uses)?;
            if read_data {
                self.read_registered(&mut uses)?;
            }
            checked = uses.checked;
            from = range.end;
            progress(from as f64 / blocks as f64);
        }
        Ok(checked)
    }

    /// Visits every block of the pool with its use, and the references of maps and lists to it.
    pub(crate) fn each_use(&self, each: &mut dyn FnMut(BlockNumber, Use, u32)) -> Result<()> {
        let blocks = self.shared.table().len() as u64 * EXTENT_BLOCKS;
        let mut from = 0;
        while from < blocks {
            let range = from..(from + RANGE_BLOCKS).min(blocks);
            let mut uses = Uses::new(range.clone(), Checked::default());
            self.check_range(&mut uses)?;
            for (index, number) in range.clone().enumerate() {
                let block = BlockNumber::new(number).expect("a block of the pool");
                each(block, uses.uses[index], uses.references[index]);
            }
            from = range.end;
        }
        Ok(())
    }

    fn check_range(&self, uses: &mut Uses) -> Result<()> {
        for block in SUPERBLOCKS {
            uses.add(BlockNumber::new(block).expect("a small number"), Use::Pool);
        }
        for index in 0..usize::try_from(EXTENT_BLOCKS).unwrap_or(0) {
            let block = block_at(ExtentNumber::new(0).expect("a small number"), index);
            if !SUPERBLOCKS.contains(&block.get()) {
                uses.add(block, Use::Pool);
            }
        }
        for extent in self.shared.table().extents() {
            each_of(*extent, |block| uses.add(block, Use::Pool));
        }
        for volume in self.all() {
            volume.uses(uses);
        }
        let rows = |uses: &mut Uses, row: ddi::Row| {
            uses.add(row.block, Use::Registered);
            if let Some(index) = uses.index(row.block) {
                uses.checked.registered += 1;
                let found = u64::from(uses.references[index]);
                if found != row.references {
                    let (block, counted) = (row.block, row.references);
                    uses.find(Finding::References {
                        block,
                        found,
                        counted,
                    });
                }
            }
        };
        self.shared.index.scan(Bucket::FIRST, &mut |row| {
            rows(uses, row);
            ControlFlow::Continue(())
        })?;
        self.check_uses(uses);
        Ok(())
    }

    /// Compares the uses with the owners of the extents, and the references with the index.
    fn check_uses(&self, uses: &mut Uses) {
        let table = self.shared.table();
        for number in uses.range.clone() {
            let block = BlockNumber::new(number).expect("a block of the pool");
            let Some(index) = uses.index(block) else {
                continue;
            };
            let (found, references) = (uses.uses[index], uses.references[index]);
            let owner = table.entry(place(block).0).owner;
            match (owner, found) {
                (ExtentOwner::Free, Use::None) => {}
                (ExtentOwner::Free, found) => uses.find(Finding::InFreeExtent { block, found }),
                (_, Use::None) if references == 0 => uses.find(Finding::Lost { block }),
                _ => {}
            }
            let is_known = matches!(found, Use::Registered | Use::Suspect);
            if references > 0 && !is_known {
                uses.find(Finding::References {
                    block,
                    found: u64::from(references),
                    counted: 0,
                });
            }
        }
    }

    /// Reads registered blocks, and compares their fingerprints with the index's keys.
    fn read_registered(&self, uses: &mut Uses) -> Result<()> {
        let mut rotten = Vec::new();
        let mut failed = None;
        let mut buffer = env::AlignedBuffer::with_capacity(4096);
        buffer.grow_to(4096);
        self.shared.index.scan(Bucket::FIRST, &mut |row| {
            if uses.index(row.block).is_none() {
                return ControlFlow::Continue(());
            }
            let read = self.shared.device.read_at(Volume::at(row.block), &mut buffer);
            if let Err(error) = read {
                failed = Some(error);
                return ControlFlow::Break(());
            }
            uses.checked.read += 1;
            if ddi::RowKey::from(&self.shared.printer.chunk(&buffer)) != row.key {
                rotten.push(row.block);
            }
            ControlFlow::Continue(())
        })?;
        if let Some(error) = failed {
            return Err(error.into());
        }
        for block in rotten {
            let volumes = self.referrers(block, 8);
            uses.find(Finding::Rotten { block, volumes });
        }
        Ok(())
    }

    /// The blocks of volumes that refer to a block, at most `max`.
    fn referrers(&self, block: BlockNumber, max: usize) -> Vec<(String, Lba)> {
        let mut found = Vec::new();
        for volume in self.all() {
            volume.each_entry(&mut |lba, entry| {
                if entry.block() == Some(block) && found.len() < max {
                    found.push((volume.name(), lba));
                }
            });
        }
        found
    }
}

fn each_of(extent: ExtentNumber, mut each: impl FnMut(BlockNumber)) {
    for index in 0..usize::try_from(EXTENT_BLOCKS).unwrap_or(0) {
        each(block_at(extent, index));
    }
}

impl Volume {
    /// Visits all entries of the map that are not zeros. Returns the first page that cannot be
    /// read.
    pub(crate) fn each_entry(&self, each: &mut dyn FnMut(Lba, MapEntry)) -> Option<String> {
        let (mut from, mut fault) = (0, None);
        loop {
            let numbers = self.map.numbers(from, u64::MAX / PAGE_ENTRIES as u64, PAGES);
            for number in &numbers {
                match self.map.leaf(*number) {
                    Ok(None) => {}
                    Err(error) => fault = fault.or(Some(error.to_string())),
                    Ok(Some(leaf)) => {
                        for index in 0..PAGE_ENTRIES {
                            let entry = leaf.get(index);
                            if entry != MapEntry::Zero {
                                each(leaf.lba(index), entry);
                            }
                        }
                    }
                }
            }
            match numbers.last() {
                Some(last) if numbers.len() == PAGES => from = last + 1,
                _ => return fault,
            }
        }
    }

    fn uses(&self, uses: &mut Uses) {
        {
            let head = self.head();
            for index in 0..crate::head::HEADER_BLOCKS {
                uses.add(block_at(head.extent, index), Use::Metadata);
            }
            for block in &head.state_pages {
                uses.add(*block, Use::Metadata);
            }
        }
        self.pages(&mut |block| uses.add(block, Use::Metadata));
        {
            let core = self.core();
            for extent in core.log.extents() {
                each_of(extent, |block| uses.add(block, Use::Metadata));
            }
            core.free.each(&mut |block| uses.add(block, Use::Free));
            for block in core.limbo() {
                uses.add(block, Use::Free);
            }
            for (first, count) in &core.reserved {
                for block in crate::free::each_block(&[(*first, *count)]) {
                    uses.add(block, Use::Free);
                }
            }
            for one in &core.unreferenced {
                uses.refer(one.block, one.count);
            }
            for block in &core.suspects {
                uses.add(*block, Use::Suspect);
            }
        }
        let fault = self.each_entry(&mut |_, entry| match entry {
            MapEntry::Counted { block, .. } => uses.refer(block, 1),
            MapEntry::Private { block, .. } | MapEntry::Frozen { block, .. } => uses.add(block, Use::Private),
            MapEntry::Zero => {}
        });
        if let Some(why) = fault {
            let volume = self.name();
            uses.find(Finding::Unreadable { volume, why });
        }
    }

    /// Visits the stored pages of the map.
    fn pages(&self, each: &mut dyn FnMut(BlockNumber)) {
        let upper = self.map.upper();
        let all = upper.second.values().chain(upper.third.values());
        for page in all.chain([&upper.root]) {
            if let Some(block) = page.stored {
                each(block);
            }
        }
        for page in upper.second.values() {
            page.references().for_each(|(_, leaf)| each(leaf.block));
        }
    }
}
