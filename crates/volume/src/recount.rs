//! Counts all references again, and builds the duplicates index anew from the volumes' maps (V7).
//!
//! The maps alone are counted: lists of the collector are void. Two blocks of one content become
//! one block. Blocks without any use become free again. A block that cannot be read or is rotten
//! gets no row: nothing is shared with it, and it is never freed. A block is rotten if its content
//! is not the one that the old index has: then it is set aside, as the collector does, and later
//! recounts pass over it. An old index that does not match the volumes is not asked: its rows may
//! be those of earlier contents. Nobody writes meanwhile; the caller has the
//! pool alone. The maps are durable before the index is replaced, so a crash leaves the old index,
//! which does not match, and the next recount ends the work.
//!
//! Memory: some 150 bytes for each distinct content that is shared.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::ControlFlow;

use ddi::{Bucket, ClientPosition, Row, RowKey};
use format::pool::entry::MapEntry;
use format::pool::table::ExtentOwner;
use types::{BatchSequence, BlockNumber};

use crate::error::{Result, VolumeError};
use crate::finding::Use;
use crate::free::place;
use crate::leaf::LEAF_BLOCKS;
use crate::pool::Pool;
use crate::volume::Volume;

/// What a recount found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Recounted {
    /// Distinct contents: rows of the new index.
    pub contents: u64,
    /// References to them.
    pub references: u64,
    /// Blocks whose content another block had as well.
    pub merged: u64,
    /// Shared blocks that the device cannot read. The new index does not have them, so nothing is
    /// shared with them, and they are never freed.
    pub unreadable: u64,
    /// Shared blocks whose content is not the one that was registered. The new index does not have
    /// them either.
    pub rotten: u64,
    /// Blocks without any use, which are free again.
    pub freed: u64,
}

impl Pool {
    /// Counts again. `progress` is called with the share of the work that is done.
    ///
    /// # Errors
    /// Errors of the device and of the index: the old index stays.
    pub fn recount(&self, progress: &mut dyn FnMut(f64)) -> Result<Recounted> {
        let volumes = self.all();
        if let Some((volume, why)) = self.failed().first_key_value() {
            // Nobody can count its references, and its blocks would look lost.
            return Err(VolumeError::Contradiction {
                volume: volume.to_string(),
                why: why.clone(),
            });
        }
        for volume in &volumes {
            let mut slot = volume.slot();
            volume.count_open(&mut slot)?;
            drop(slot);
            volume.flush_now()?;
            // No batch of the index has this number. So a crash before the end leaves a mismatch,
            // and nothing is given back that the old index still counts, or the new one does not.
            let last = volume.last_in_index()?;
            let mut core = volume.core();
            core.batch = core.batch.max(last) + 1;
            core.unreferenced.clear();
            core.aside.clear();
            core.is_changed = true;
        }
        let mut done = Recounted::default();
        let references = self.references()?;
        done.references = references.values().sum();
        let rows = self.rows(&references, progress, &mut done)?;
        for volume in &volumes {
            volume.checkpoint()?;
        }
        let mut rebuild = self.shared.index.rebuild()?;
        let all: Vec<Row> = rows
            .iter()
            .map(|(key, (block, references))| Row {
                key: *key,
                block: *block,
                references: *references,
            })
            .collect();
        done.contents = all.len() as u64;
        for part in all.chunks(65_536) {
            rebuild.load(Bucket::FIRST, part)?;
        }
        let clients: Vec<ClientPosition> = volumes
            .iter()
            .filter_map(|volume| {
                let last = BatchSequence::new(volume.core().batch).ok();
                Some(ClientPosition {
                    bucket: Bucket::FIRST,
                    client: volume.id,
                    last: last.filter(|last| last.get() > 0)?,
                })
            })
            .collect();
        rebuild.finish(&clients)?;
        self.shared.set_mismatch(None);
        done.freed = self.sweep()?;
        for volume in &volumes {
            volume.flush_now()?;
            volume.checkpoint()?;
        }
        Ok(done)
    }

    /// The counted blocks of all maps, and how many references each has.
    fn references(&self) -> Result<BTreeMap<BlockNumber, u64>> {
        let mut references = BTreeMap::new();
        for volume in self.all() {
            let fault = volume.each_entry(&mut |_, entry| {
                if let MapEntry::Counted { block, .. } = entry {
                    *references.entry(block).or_insert(0) += 1;
                }
            });
            if let Some(why) = fault {
                let volume = volume.name();
                return Err(VolumeError::Contradiction { volume, why });
            }
        }
        Ok(references)
    }

    /// The contents that blocks had when they were registered, as far as the old index knows.
    fn registered(&self) -> Result<HashMap<BlockNumber, RowKey>> {
        let mut registered = HashMap::new();
        if self.shared.check_index().is_ok() {
            self.shared.index.scan(Bucket::FIRST, &mut |row| {
                registered.insert(row.block, row.key);
                ControlFlow::Continue(())
            })?;
        }
        Ok(registered)
    }

    /// The rows of the new index. Maps refer to one block for each content afterwards.
    fn rows(
        &self,
        references: &BTreeMap<BlockNumber, u64>,
        progress: &mut dyn FnMut(f64),
        done: &mut Recounted,
    ) -> Result<BTreeMap<RowKey, (BlockNumber, u64)>> {
        let mut rows: BTreeMap<RowKey, (BlockNumber, u64)> = BTreeMap::new();
        let mut other: HashMap<BlockNumber, BlockNumber> = HashMap::new();
        let mut buffer = env::AlignedBuffer::with_capacity(4096);
        buffer.grow_to(4096);
        let registered = self.registered()?;
        let volumes = self.all();
        let suspects = volumes.iter().flat_map(|volume| volume.core().suspects.clone());
        let suspects: BTreeSet<BlockNumber> = suspects.collect();
        let total = references.len().max(1) as f64;
        for (number, (block, count)) in references.iter().enumerate() {
            if !self.shared.try_read(*block, &mut buffer)? {
                tracing::warn!(%block, "the device cannot read a shared block");
                done.unreadable += 1;
                continue;
            }
            let key = RowKey::from(&self.shared.printer.chunk(&buffer));
            let is_other = registered.get(block).is_some_and(|registered| *registered != key);
            let is_aside = suspects.contains(block);
            if is_other || is_aside {
                tracing::warn!(%block, "a shared block is rotten");
                done.rotten += 1;
                if let Some(volume) = volumes.first().filter(|_| !is_aside) {
                    volume.core().suspects.insert(*block);
                }
                continue;
            }
            match rows.get_mut(&key) {
                None => {
                    rows.insert(key, (*block, *count));
                }
                Some((first, sum)) => {
                    *sum += count;
                    other.insert(*block, *first);
                }
            }
            if number % 65_536 == 0 {
                progress(number as f64 / total);
            }
        }
        done.merged = other.len() as u64;
        if !other.is_empty() {
            for volume in self.all() {
                volume.refer_instead(&other)?;
            }
        }
        Ok(rows)
    }

    /// Frees blocks without any use. They go to the first volume.
    fn sweep(&self) -> Result<u64> {
        let Some(volume) = self.all().first().cloned() else {
            return Ok(0);
        };
        let lost = self.lost_blocks()?;
        let mut core = volume.core();
        core.is_changed = true;
        for block in &lost {
            let at = core.log.last_record();
            core.drop_block(*block, at);
        }
        Ok(lost.len() as u64)
    }

    /// Blocks of volumes' extents without any use.
    fn lost_blocks(&self) -> Result<Vec<BlockNumber>> {
        let mut lost = Vec::new();
        self.each_use(&mut |block, used, references| {
            let owner = self.shared.table().entry(place(block).0).owner;
            let is_volumes = !matches!(owner, ExtentOwner::Free | ExtentOwner::Pool);
            if is_volumes && used == Use::None && references == 0 {
                lost.push(block);
            }
        })?;
        Ok(lost)
    }
}

impl Volume {
    /// Refers to other blocks of equal content.
    fn refer_instead(&self, other: &HashMap<BlockNumber, BlockNumber>) -> Result<()> {
        let mut changes = Vec::new();
        self.each_entry(&mut |lba, entry| {
            if let MapEntry::Counted { block, birth } = entry
                && let Some(first) = other.get(&block)
            {
                changes.push((lba, MapEntry::Counted { block: *first, birth }));
            }
        });
        for (lba, entry) in changes {
            let leaf = self.map.leaf_or_new(lba.get() / LEAF_BLOCKS)?;
            let _gate = leaf.hold();
            let index = usize::try_from(lba.get() % LEAF_BLOCKS).unwrap_or(0);
            self.core().set(&leaf, index, entry);
        }
        Ok(())
    }
}
