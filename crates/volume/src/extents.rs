//! The table of the pool's extents (D5).
//!
//! Invariant: a change is durable before anybody acts on it. A page has two copies, which are
//! written in turn, so a torn write leaves the older one. Under one lock of the pool, which no
//! write of a volume takes: a volume asks for several extents at once, ahead of its need.
//!
//! A change that cannot be written is undone in memory. Its pages may be on the device or not, so
//! they are in doubt: the next change writes them first, over the same copies.

use std::collections::{BTreeMap, BTreeSet};

use env::BlockDevice;
use format::FormatError;
use format::pool::frame::{self, BlockKind, PoolId};
use format::pool::superblock::{POOL_EXTENTS_MAX, SUPERBLOCKS, Superblock};
use format::pool::table::{
    ExtentOwner, GRANTS_MAX, TABLE_EXTENT_ENTRIES, TABLE_PAGE_ENTRIES, TableEntry, TablePage,
};
use format::pool::{BLOCK_BYTES, EXTENT_BLOCKS};
use types::{BlockNumber, ExtentNumber, VolumeId};

use crate::error::{Result, VolumeError};
use crate::free::block_at;

/// An extent and its number of grants.
pub(crate) type Grant = (ExtentNumber, u32);

/// The table, in memory: eight bytes an extent.
#[derive(Debug)]
pub(crate) struct ExtentTable {
    entries: Vec<u64>,
    /// By page.
    counters: Vec<u64>,
    /// The extents that hold the table.
    extents: Vec<ExtentNumber>,
    pool: PoolId,
    /// Extents of the pool. A growth that has not succeeded leaves entries behind them.
    len: usize,
    /// Pages of which the device may have another content.
    in_doubt: BTreeSet<usize>,
    free: u64,
    next: usize,
}

fn number(index: usize) -> ExtentNumber {
    let number = u32::try_from(index).ok();
    let number = number.and_then(|number| ExtentNumber::new(number).ok());
    number.expect("a pool has no more extents than numbers")
}

const fn index(extent: ExtentNumber) -> usize {
    extent.get() as usize
}

/// Extents of the table that a pool of so many extents needs.
pub(crate) fn table_extents(extents: u32) -> u32 {
    let each = u32::try_from(TABLE_EXTENT_ENTRIES).unwrap_or(u32::MAX);
    extents.div_ceil(each)
}

impl ExtentTable {
    /// A new table: the first extents are the pool's own, all others free. Writes every page, and
    /// leaves the superblock to the caller.
    pub(crate) fn create(device: &dyn BlockDevice, pool: PoolId, extents: u32) -> Result<Self> {
        let own = 1 + table_extents(extents);
        let mut table = Self {
            entries: vec![TableEntry::FRESH.to_u64(); extents as usize],
            counters: vec![0; (extents as usize).div_ceil(TABLE_PAGE_ENTRIES)],
            extents: (1..own).map(|n| number(n as usize)).collect(),
            pool,
            len: extents as usize,
            in_doubt: BTreeSet::new(),
            free: u64::from(extents),
            next: own as usize,
        };
        if own + 3 > extents {
            return Err(VolumeError::Invalid {
                what: "size of the pool",
                why: format!("{extents} extents of 4 MiB are too few for a volume"),
            });
        }
        for extent in 0..own {
            table.set(number(extent as usize), ExtentOwner::Pool);
        }
        table.write_new_pages(device, 0)?;
        Ok(table)
    }

    /// Writes both copies of all pages from this one on. One copy is whole at any time: an earlier
    /// growth may have written them.
    fn write_new_pages(&mut self, device: &dyn BlockDevice, from: usize) -> Result<()> {
        for _ in 0..2 {
            for page in from..self.counters.len() {
                self.write_page(device, page)?;
            }
            device.flush()?;
        }
        Ok(())
    }

    /// The table of a pool.
    pub(crate) fn load(device: &dyn BlockDevice, superblock: &Superblock) -> Result<Self> {
        let extents = superblock.extents as usize;
        let mut table = Self {
            entries: Vec::with_capacity(extents),
            counters: Vec::new(),
            extents: superblock.table.clone(),
            pool: superblock.pool,
            len: extents,
            in_doubt: BTreeSet::new(),
            free: 0,
            next: 0,
        };
        for page in 0..extents.div_ceil(TABLE_PAGE_ENTRIES) {
            let found = table.read_page(device, page)?;
            table.counters.push(found.counter);
            let wanted = (extents - table.entries.len()).min(TABLE_PAGE_ENTRIES);
            let packed = found.entries.iter().take(wanted).map(|entry| entry.to_u64());
            table.entries.extend(packed);
        }
        let is_free = |packed: &&u64| owner(**packed) == ExtentOwner::Free;
        table.free = table.entries.iter().filter(is_free).count() as u64;
        Ok(table)
    }

    /// The blocks of the two copies of a page.
    fn copies(&self, page: usize) -> Result<[BlockNumber; 2]> {
        let pages_each = TABLE_EXTENT_ENTRIES / TABLE_PAGE_ENTRIES;
        let extent = self.extents.get(page / pages_each);
        let extent = *extent.ok_or_else(|| VolumeError::Invalid {
            what: "table of extents",
            why: "it has fewer extents than the pool needs".to_owned(),
        })?;
        let first = 2 * (page % pages_each);
        Ok([block_at(extent, first), block_at(extent, first + 1)])
    }

    fn read_page(&self, device: &dyn BlockDevice, page: usize) -> Result<TablePage> {
        let copies = self.copies(page)?;
        let mut best: Option<TablePage> = None;
        let (mut fault, mut unread) = (None, None);
        for block in copies {
            let mut bytes = [0; BLOCK_BYTES];
            if let Err(error) = device.read_at(block.get() * env::BLOCK_BYTES, &mut bytes) {
                unread = Some(error);
                continue;
            }
            let read = frame::open_in(self.pool, BlockKind::Table, &bytes).and_then(TablePage::from_bytes);
            match read {
                Ok(found) if index(found.first) == page * TABLE_PAGE_ENTRIES => {
                    if best.as_ref().is_none_or(|best| best.counter < found.counter) {
                        best = Some(found);
                    }
                }
                Ok(_) => {
                    fault = Some(FormatError::Invalid {
                        what: "table page",
                        why: "it is another page",
                    });
                }
                Err(error) => fault = Some(error),
            }
        }
        match (best, unread) {
            (Some(best), _) => Ok(best),
            (None, Some(error)) => Err(error.into()),
            (None, None) => Err(VolumeError::Damaged {
                what: "the table of extents",
                block: copies[0],
                why: fault.unwrap_or(FormatError::NotAStore),
            }),
        }
    }

    /// Writes the older copy of the page. If that fails, the next attempt writes the same copy.
    fn write_page(&mut self, device: &dyn BlockDevice, page: usize) -> Result<()> {
        let counter = self.counters[page] + 1;
        let first = page * TABLE_PAGE_ENTRIES;
        let packed = (first..first + TABLE_PAGE_ENTRIES).map(|at| self.entries.get(at).copied());
        let content = TablePage {
            counter,
            first: number(first),
            entries: packed
                .map(|packed| packed.and_then(TableEntry::from_u64).unwrap_or(TableEntry::FRESH))
                .collect(),
        };
        let mut bytes = [0; BLOCK_BYTES];
        frame::seal_in(self.pool, BlockKind::Table, &content.to_bytes(), &mut bytes);
        let block = self.copies(page)?[usize::from(!counter.is_multiple_of(2))];
        device.write_at(block.get() * env::BLOCK_BYTES, &bytes)?;
        self.counters[page] = counter;
        Ok(())
    }

    /// Makes pages durable, both copies of each. The second one comes behind a flush, so one is
    /// whole at each moment. Then either may rot: no earlier state takes the place of this one.
    fn write(&mut self, device: &dyn BlockDevice, pages: &BTreeSet<usize>) -> Result<()> {
        self.write_once(device, pages)?;
        self.write_once(device, pages)
    }

    /// Makes one copy of each page durable, the older one. If this fails, the next attempt writes
    /// the same copies.
    fn write_once(&mut self, device: &dyn BlockDevice, pages: &BTreeSet<usize>) -> Result<()> {
        let counters: Vec<u64> = pages.iter().map(|page| self.counters[*page]).collect();
        let mut written = pages.iter().try_for_each(|page| self.write_page(device, *page));
        if written.is_ok() && !pages.is_empty() {
            written = device.flush().map_err(VolumeError::from);
        }
        if written.is_err() {
            for (page, counter) in pages.iter().zip(counters) {
                self.counters[*page] = counter;
            }
        }
        written
    }

    /// Gives extents to other owners, durably. If that fails, they have their former owners.
    fn change(&mut self, device: &dyn BlockDevice, changes: &[(ExtentNumber, ExtentOwner)]) -> Result<()> {
        if changes.is_empty() {
            return Ok(());
        }
        let doubts = self.in_doubt.clone();
        self.write(device, &doubts)?;
        self.in_doubt.clear();
        let former = changes.iter().map(|(extent, _)| (*extent, self.entry(*extent)));
        let former: Vec<(ExtentNumber, TableEntry)> = former.collect();
        let free = self.free;
        for (extent, owner) in changes {
            self.set(*extent, *owner);
        }
        let pages = changes
            .iter()
            .map(|(extent, _)| index(*extent) / TABLE_PAGE_ENTRIES);
        let pages: BTreeSet<usize> = pages.collect();
        let written = self.write(device, &pages);
        if written.is_err() {
            for (extent, entry) in former {
                self.entries[index(extent)] = entry.to_u64();
            }
            self.free = free;
            self.in_doubt = pages;
        }
        written
    }

    /// The entry of an extent.
    pub(crate) fn entry(&self, extent: ExtentNumber) -> TableEntry {
        let packed = self.entries.get(index(extent)).copied();
        packed.and_then(TableEntry::from_u64).unwrap_or(TableEntry::FRESH)
    }

    fn set(&mut self, extent: ExtentNumber, owner: ExtentOwner) {
        let entry = self.entry(extent);
        let is_free = |owner| u64::from(owner == ExtentOwner::Free);
        if index(extent) < self.len {
            self.free = self.free + is_free(owner) - is_free(entry.owner);
        }
        let grants = match owner {
            ExtentOwner::Granted(_) | ExtentOwner::Header(_) => (entry.grants + 1) & GRANTS_MAX,
            _ => entry.grants,
        };
        self.entries[index(extent)] = TableEntry { owner, grants }.to_u64();
    }

    /// Free extents.
    pub(crate) const fn free(&self) -> u64 {
        self.free
    }

    /// The extents that hold the table.
    pub(crate) fn extents(&self) -> &[ExtentNumber] {
        &self.extents
    }

    /// All extents.
    pub(crate) const fn len(&self) -> usize {
        self.len
    }

    /// Finds free extents; fewer than `count` if there are no more.
    fn find_free(&mut self, count: usize) -> Vec<ExtentNumber> {
        let mut found = Vec::new();
        let wanted = count.min(usize::try_from(self.free).unwrap_or(usize::MAX));
        for _ in 0..self.len {
            if found.len() >= wanted {
                break;
            }
            let extent = number(self.next % self.len);
            self.next = (self.next + 1) % self.len;
            if self.entry(extent).owner == ExtentOwner::Free {
                found.push(extent);
            }
        }
        found
    }

    /// Grants extents to a volume; fewer than `count` if the pool has no more.
    pub(crate) fn grant(
        &mut self,
        device: &dyn BlockDevice,
        volume: VolumeId,
        count: usize,
    ) -> Result<Vec<Grant>> {
        let found = self.find_free(count);
        let changes = found.iter().map(|extent| (*extent, ExtentOwner::Granted(volume)));
        let changes: Vec<_> = changes.collect();
        self.change(device, &changes)?;
        let grants = found
            .into_iter()
            .map(|extent| (extent, self.entry(extent).grants));
        Ok(grants.collect())
    }

    /// Finds an extent for the header of a volume. The caller writes the header, then calls
    /// [`Self::begin_volume`].
    pub(crate) fn find_header(&mut self) -> Result<ExtentNumber> {
        let found = self.find_free(1);
        found.first().copied().ok_or(VolumeError::NoSpace)
    }

    /// The extent has the header of a volume: from now on, there is the volume.
    pub(crate) fn begin_volume(
        &mut self,
        device: &dyn BlockDevice,
        extent: ExtentNumber,
        volume: VolumeId,
    ) -> Result<()> {
        self.change(device, &[(extent, ExtentOwner::Header(volume))])
    }

    /// A checkpoint of the volume is about to know these extents.
    pub(crate) fn own(
        &mut self,
        device: &dyn BlockDevice,
        volume: VolumeId,
        extents: &[Grant],
    ) -> Result<()> {
        let mut changed = Vec::new();
        for (extent, grants) in extents {
            let entry = self.entry(*extent);
            if entry.owner == ExtentOwner::Granted(volume) && entry.grants == *grants {
                changed.push((*extent, ExtentOwner::Owned(volume)));
            }
        }
        self.change(device, &changed)
    }

    /// Takes extents back that a volume's durable log returned. An entry that was granted again
    /// since stays.
    pub(crate) fn release(&mut self, device: &dyn BlockDevice, extents: &[Grant]) -> Result<()> {
        let mut changed = Vec::new();
        for (extent, grants) in extents {
            let entry = self.entry(*extent);
            let is_held = matches!(
                entry.owner,
                ExtentOwner::Granted(_) | ExtentOwner::Owned(_) | ExtentOwner::Header(_)
            );
            if is_held && entry.grants == *grants {
                changed.push((*extent, ExtentOwner::Free));
            }
        }
        self.change(device, &changed)
    }

    /// The extents that were granted to the volume and that no checkpoint of it knows.
    pub(crate) fn granted(&self, volume: VolumeId) -> Vec<Grant> {
        let all = self.entries.iter().enumerate();
        let granted = all.filter(|(_, packed)| owner(**packed) == ExtentOwner::Granted(volume));
        granted
            .map(|(at, _)| (number(at), self.entry(number(at)).grants))
            .collect()
    }

    /// All extents that the volume has, but that of its header.
    pub(crate) fn held(&self, volume: VolumeId) -> Vec<Grant> {
        let all = self.entries.iter().enumerate();
        let held = all.filter(|(_, packed)| {
            let owner = owner(**packed);
            owner == ExtentOwner::Granted(volume) || owner == ExtentOwner::Owned(volume)
        });
        held.map(|(at, _)| (number(at), self.entry(number(at)).grants))
            .collect()
    }

    /// The extents with the headers of volumes.
    pub(crate) fn headers(&self) -> BTreeMap<VolumeId, ExtentNumber> {
        let all = self.entries.iter().enumerate();
        all.filter_map(|(at, packed)| match owner(*packed) {
            ExtentOwner::Header(volume) => Some((volume, number(at))),
            _ => None,
        })
        .collect()
    }

    /// Writes the pages of a longer pool. If the table needs more room, it takes some of the new
    /// extents. Returns the number of extents and those of the table, for the superblock. No new
    /// extent is granted before the caller has written it, and has called [`Self::end_growth`].
    ///
    /// If an earlier growth failed, nobody knows whether its superblock is on the device. So the
    /// pool gets at least as many extents as that growth began to add.
    pub(crate) fn extend(
        &mut self,
        device: &dyn BlockDevice,
        extents: u32,
    ) -> Result<(u32, Vec<ExtentNumber>)> {
        let last_page = self.len.saturating_sub(1) / TABLE_PAGE_ENTRIES;
        let len = self.entries.len().max(extents as usize);
        let extents = u32::try_from(len).unwrap_or(u32::MAX);
        let mut at = self.entries.len();
        self.entries.resize(len, TableEntry::FRESH.to_u64());
        self.counters.resize(len.div_ceil(TABLE_PAGE_ENTRIES), 0);
        while self.extents.len() < table_extents(extents) as usize {
            self.set(number(at), ExtentOwner::Pool);
            self.extents.push(number(at));
            at += 1;
        }
        self.write(device, &BTreeSet::from([last_page]))?;
        self.write_new_pages(device, last_page + 1)?;
        Ok((extents, self.extents.clone()))
    }

    /// The superblock says that the pool is longer.
    pub(crate) fn end_growth(&mut self) {
        let new = &self.entries[self.len..];
        let free = new.iter().filter(|packed| owner(**packed) == ExtentOwner::Free);
        self.free += free.count() as u64;
        self.len = self.entries.len();
    }
}

fn owner(packed: u64) -> ExtentOwner {
    TableEntry::from_u64(packed).map_or(ExtentOwner::Pool, |entry| entry.owner)
}

/// Reads the newer whole copy of the superblock.
pub(crate) fn read_superblock(device: &dyn BlockDevice) -> Result<Superblock> {
    let mut best: Option<Superblock> = None;
    let (mut fault, mut unread) = (FormatError::NotAStore, None);
    for block in SUPERBLOCKS {
        let mut bytes = [0; BLOCK_BYTES];
        if device.len() < (block + 1) * env::BLOCK_BYTES {
            continue;
        }
        if let Err(error) = device.read_at(block * env::BLOCK_BYTES, &mut bytes) {
            unread = Some(error);
            continue;
        }
        match frame::open(BlockKind::Superblock, &bytes).and_then(Superblock::decode) {
            Ok(found) if best.as_ref().is_none_or(|best| best.counter < found.counter) => best = Some(found),
            Ok(_) => {}
            Err(error @ FormatError::NewerVersion { .. }) => return Err(VolumeError::Newer { why: error }),
            Err(error) => fault = error,
        }
    }
    match (best, unread) {
        (Some(best), _) => Ok(best),
        (None, Some(error)) => Err(error.into()),
        (None, None) => Err(VolumeError::NotAPool { why: fault }),
    }
}

/// Writes both copies of the superblock, durably: as for pages of the table.
pub(crate) fn write_superblock(device: &dyn BlockDevice, superblock: &mut Superblock) -> Result<()> {
    write_copy(device, superblock)?;
    write_copy(device, superblock)
}

/// Writes the older copy of the superblock, durably. If that fails, the next attempt writes the
/// same copy.
fn write_copy(device: &dyn BlockDevice, superblock: &mut Superblock) -> Result<()> {
    let next = Superblock {
        counter: superblock.counter + 1,
        ..superblock.clone()
    };
    let mut bytes = [0; BLOCK_BYTES];
    frame::seal(BlockKind::Superblock, &next.to_bytes(), &mut bytes);
    let block = SUPERBLOCKS[usize::from(!next.counter.is_multiple_of(2))];
    device.write_at(block * env::BLOCK_BYTES, &bytes)?;
    device.flush()?;
    *superblock = next;
    Ok(())
}

/// Extents of a device of so many bytes.
pub(crate) fn extents_of(device_bytes: u64) -> Result<u32> {
    let extents = device_bytes / (EXTENT_BLOCKS * env::BLOCK_BYTES);
    u32::try_from(extents)
        .ok()
        .filter(|extents| *extents <= POOL_EXTENTS_MAX)
        .ok_or_else(|| VolumeError::Invalid {
            what: "size of the pool",
            why: "a pool has at most 504 TiB".to_owned(),
        })
}

#[cfg(test)]
mod tests;
