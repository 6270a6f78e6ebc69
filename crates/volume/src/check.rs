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
use crate::finding::{Checked, FINDINGS_MAX, Finding, Use};
use crate::free::{block_at, place};
use crate::pool::Pool;
use crate::volume::Volume;

/// Blocks of a range: five bytes of memory each.
const RANGE_BLOCKS: u64 = 1 << 25;
/// Pages that are asked for at once.
const PAGES: usize = 4096;

/// Blocks of a range and their uses.
pub(crate) struct Uses {
    range: Range<u64>,
    uses: Vec<Use>,
    references: Vec<u32>,
    pub(crate) checked: Checked,
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

    pub(crate) fn find(&mut self, finding: Finding) {
        if self.checked.findings.len() < FINDINGS_MAX {
            self.checked.findings.push(finding);
        }
    }

    pub(crate) fn index(&self, block: BlockNumber) -> Option<usize> {
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
            // Several collectors may have set it aside.
            Use::Suspect if second == Use::Suspect => {}
            first => self.find(Finding::TwoUses { block, first, second }),
        }
    }

    /// Whether a map refers to the block, or a collector has references to it.
    pub(crate) fn is_referred(&self, block: BlockNumber) -> bool {
        self.index(block).is_some_and(|index| self.references[index] > 0)
    }

    fn refer(&mut self, block: BlockNumber, count: u32) {
        if let Some(index) = self.index(block) {
            self.references[index] = self.references[index].saturating_add(count);
        }
    }
}

impl Pool {
    /// Checks the whole pool. With `read_data`, the content of every registered block is read and
    /// compared with its fingerprint, and all others are read, too. `progress` is called with the
    /// share that was checked.
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
                self.read_private(&mut uses)?;
            } else {
                self.list_unreadable(&mut uses);
            }
            self.list_suspects(&mut uses);
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
            for one in core.references() {
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
    pub(crate) fn pages(&self, each: &mut dyn FnMut(BlockNumber)) {
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
