//! Decoded regions of the store, and the chunks in them.
//!
//! A region is read, decrypted and decompressed once while it is in the cache. Each of its chunks
//! is compared with its fingerprint before its bytes leave for the first time (INV-5). Slots change
//! neither number nor content (INV-2), so a cached region stays right whatever is pruned.

#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use container::{CatalogView, ContainerError, PlainBuffer, PlainRegion, RegionBuffer};
use onefold::AlignedBuffer;
use recipe::{ChunkRef, Place, RecipeError, StoreReader};
use types::{ChunkLocation, ContainerId, Fingerprint, Generation, RegionIndex, Slot};

use crate::cache::{Cache, Turn};

/// One read takes regions with at most so many stored bytes between them.
const GAP_BYTES_MAX: u64 = 128 << 10;
/// ... and so many regions.
const REGIONS_MAX: usize = 32;

/// Of the budget, this part is for memory that reads have used.
const SPARE_PART: u64 = 16;

/// A region as a container's catalog names it.
type Key = (ContainerId, Generation, RegionIndex);

/// A region in memory.
#[derive(Debug)]
pub(crate) struct Region {
    view: Arc<CatalogView>,
    plain: PlainRegion,
    positions: Range<usize>,
    /// Whether a chunk was compared with its fingerprint, by its position.
    is_verified: Box<[AtomicBool]>,
}

impl Region {
    fn new(view: Arc<CatalogView>, plain: PlainRegion) -> Self {
        let positions = view.positions_in(plain.index());
        Self {
            view,
            plain,
            is_verified: positions.clone().map(|_| AtomicBool::new(false)).collect(),
            positions,
        }
    }

    /// Whether it holds a slot.
    fn has(&self, at: ChunkLocation) -> bool {
        self.view.id() == at.container && { self.view.position(at.slot) }
            .is_some_and(|position| self.positions.contains(&position))
    }

    fn key(&self) -> Key {
        (self.view.id(), self.view.generation(), self.plain.index())
    }

    /// A slot of which the bytes were not compared with the fingerprint yet.
    fn unverified(&self, at: ChunkLocation) -> Option<Unverified> {
        let position = self.view.position(at.slot)?;
        let nth = position.checked_sub(self.positions.start)?;
        let is_verified = self.is_verified.get(nth)?.load(Ordering::Relaxed);
        let entry = self.view.entries().get(position).filter(|_| !is_verified)?;
        Some(Unverified {
            slot: at.slot,
            nth,
            fingerprint: entry.fingerprint,
        })
    }

    fn bytes_of(&self, slot: &Unverified) -> Option<&[u8]> {
        self.plain.slot_bytes(&self.view, slot.slot)
    }

    /// Memory that it takes, without the catalog.
    fn bytes(&self) -> u64 {
        (self.plain.bytes().len() + self.is_verified.len() + size_of::<Self>()) as u64
    }

    /// The bytes of the chunk that a reference names.
    fn chunk(
        &self,
        reader: &dyn StoreReader,
        at: ChunkLocation,
        reference: &ChunkRef,
    ) -> Result<&[u8], RecipeError> {
        let view = &self.view;
        let position = view.position(at.slot).ok_or_else(|| no_slot(view, at))?;
        let bytes = { self.plain.slot_bytes(view, at.slot) }.ok_or_else(|| no_slot(view, at))?;
        // The catalog may belong to another generation than the one that verified the reference.
        let is_named = view.entries().get(position).is_some_and(|entry| {
            entry.fingerprint == reference.fingerprint && u64::from(entry.len) == reference.chunk_len
        });
        if !is_named {
            return Err(no_slot(view, at));
        }
        let nth = position.checked_sub(self.positions.start);
        let is_verified = nth.and_then(|nth| self.is_verified.get(nth));
        if is_verified.is_none_or(|is_verified| !is_verified.load(Ordering::Relaxed)) {
            reader.verify(view, at.slot, bytes)?;
            if let Some(is_verified) = is_verified {
                is_verified.store(true, Ordering::Relaxed);
            }
        }
        Ok(bytes)
    }
}

/// A slot of a region, its number in it, and what its bytes must have.
struct Unverified {
    slot: Slot,
    nth: usize,
    fingerprint: Fingerprint,
}

/// The region of the chunk before: the next one is nearly always in it too.
#[derive(Debug, Default)]
pub(crate) struct LastRegion(Option<Arc<Region>>);

impl LastRegion {
    fn get(&self, at: ChunkLocation) -> Option<&Arc<Region>> {
        self.0.as_ref().filter(|region| region.has(at))
    }
}

/// How much of a region a long read has passed.
#[derive(Debug, Default)]
pub(crate) struct Passed {
    last: LastRegion,
    chunks: usize,
}

/// The cache of regions.
#[derive(Debug)]
pub(crate) struct Regions {
    cache: Cache<Key, Region>,
    /// Memory that reads have used, for the next ones: new memory costs more than what is read
    /// into it.
    spare: Mutex<Vec<(AlignedBuffer, PlainBuffer)>>,
    spare_bytes_max: u64,
}

impl Regions {
    pub(crate) fn new(budget_bytes: u64) -> Self {
        let spare_bytes_max = budget_bytes / SPARE_PART;
        Self {
            cache: Cache::new(budget_bytes - spare_bytes_max),
            spare: Mutex::default(),
            spare_bytes_max,
        }
    }

    /// The region that holds a slot.
    pub(crate) fn region(
        &self,
        reader: &dyn StoreReader,
        at: ChunkLocation,
    ) -> Result<Arc<Region>, RecipeError> {
        let view = reader.catalog(at.container)?;
        let Some(index) = view.region_of(at.slot) else {
            // A newer generation may have it.
            let (view, plain) = reader.region(at)?;
            return Ok(Arc::new(Region::new(view, plain)));
        };
        let key = (view.id(), view.generation(), index);
        match self.cache.get_or_turn(key) {
            Ok(region) => Ok(region),
            Err(turn) => {
                let (view, plain) = reader.region(at)?;
                let found = (view.id(), view.generation(), plain.index());
                let region = Region::new(view, plain);
                if found != key {
                    // It is of a newer generation. Under this key it would be taken for the region
                    // that has other slots.
                    return Ok(Arc::new(region));
                }
                let bytes = region.bytes();
                Ok(turn.keep(region, bytes))
            }
        }
    }

    /// A copy of the region that holds a slot, with its catalog.
    pub(crate) fn copy(
        &self,
        reader: &dyn StoreReader,
        at: ChunkLocation,
    ) -> Result<(Arc<CatalogView>, PlainRegion), RecipeError> {
        let region = self.region(reader, at)?;
        Ok((Arc::clone(&region.view), region.plain.clone()))
    }

    /// Whether the region that a reference needs is here. Zeros need none.
    pub(crate) fn has(&self, reader: &dyn StoreReader, reference: &ChunkRef, last: &mut LastRegion) -> bool {
        let Place::At(at) = reference.place else {
            return true;
        };
        if last.get(at).is_none() {
            last.0 = self.held(reader, at);
        }
        last.0.is_some()
    }

    /// The region that holds a slot, if it is here.
    fn held(&self, reader: &dyn StoreReader, at: ChunkLocation) -> Option<Arc<Region>> {
        let view = reader.catalog(at.container).ok()?;
        let index = view.region_of(at.slot)?;
        self.cache.get((view.id(), view.generation(), index))
    }

    /// Drops the regions of which these references have every chunk.
    pub(crate) fn let_go<'r>(
        &self,
        reader: &dyn StoreReader,
        references: impl Iterator<Item = &'r ChunkRef>,
        passed: &mut Passed,
    ) {
        for reference in references {
            let Place::At(at) = reference.place else { continue };
            if passed.last.get(at).is_none() {
                passed.last.0 = self.held(reader, at);
                passed.chunks = 0;
            }
            passed.chunks += 1;
            if let Some(region) = &passed.last.0
                && passed.chunks == region.positions.len()
            {
                self.cache.forget(region.key());
            }
        }
    }

    /// Reads regions that these references need and that are not here, several with one read where
    /// they are near each other. It is an attempt: [`Self::region`] reads again what fails here,
    /// and has the error.
    pub(crate) fn load<'r>(&self, reader: &dyn StoreReader, references: impl Iterator<Item = &'r ChunkRef>) {
        let mut wanted: Vec<(Arc<CatalogView>, RegionIndex)> = Vec::new();
        for reference in references {
            let Place::At(at) = reference.place else { continue };
            let Ok(view) = reader.catalog(at.container) else {
                continue;
            };
            let Some(index) = view.region_of(at.slot) else {
                continue;
            };
            let is_last = wanted
                .last()
                .is_some_and(|(last, region)| last.id() == view.id() && *region == index);
            if !is_last {
                wanted.push((view, index));
            }
        }
        wanted.sort_by_key(|(view, index)| (view.id(), *index));
        wanted.dedup_by_key(|(view, index)| (view.id(), *index));
        let mut run: Vec<(RegionIndex, Turn<'_, Key, Region>)> = Vec::new();
        let mut of: Option<Arc<CatalogView>> = None;
        for (view, index) in wanted {
            let Some(turn) = self.cache.turn((view.id(), view.generation(), index)) else {
                continue;
            };
            let is_near = of.as_ref().is_some_and(|of| {
                let last = run.last().map(|(last, _)| *last);
                of.id() == view.id() && last.is_some_and(|last| are_near(&view, last, index))
            });
            if !is_near || run.len() >= REGIONS_MAX {
                self.read_run(reader, of.as_ref(), &mut run);
            }
            of = Some(view);
            run.push((index, turn));
        }
        self.read_run(reader, of.as_ref(), &mut run);
    }

    /// Reads regions of one container with one read, and keeps them.
    fn read_run(
        &self,
        reader: &dyn StoreReader,
        view: Option<&Arc<CatalogView>>,
        run: &mut Vec<(RegionIndex, Turn<'_, Key, Region>)>,
    ) {
        let Some(view) = view.filter(|_| !run.is_empty()) else {
            return;
        };
        let indices: Vec<RegionIndex> = run.iter().map(|(index, _)| *index).collect();
        let spare = self.spare().pop();
        let mut buffer = spare.map_or_else(RegionBuffer::default, |(stored, plain)| {
            RegionBuffer::of(stored, plain)
        });
        if reader.read_regions_into(view, &indices, &mut buffer).is_ok() {
            let mut turns = run.drain(..);
            for (index, bytes) in buffer.regions() {
                let Some((_, turn)) = turns.by_ref().find(|(of, _)| *of == index) else {
                    break;
                };
                let region = Region::new(Arc::clone(view), PlainRegion::from_sent(index, bytes.to_vec()));
                let bytes = region.bytes();
                turn.keep(region, bytes);
            }
        }
        let memory = buffer.into_memory();
        let bytes = |(read, plain): &(AlignedBuffer, PlainBuffer)| read.capacity() + plain.memory_bytes();
        let mut spare = self.spare();
        let held: usize = spare.iter().map(bytes).sum();
        if (held + bytes(&memory)) as u64 <= self.spare_bytes_max {
            spare.push(memory);
        }
        drop(spare);
        // The turns that are left end here.
        run.clear();
    }

    fn spare(&self) -> MutexGuard<'_, Vec<(AlignedBuffer, PlainBuffer)>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The region of a chunk, by way of the one before.
    fn following<'l>(
        &self,
        reader: &dyn StoreReader,
        at: ChunkLocation,
        last: &'l mut LastRegion,
    ) -> Result<&'l Region, RecipeError> {
        let region = match last.0.take().filter(|region| region.has(at)) {
            Some(region) => region,
            None => self.region(reader, at)?,
        };
        Ok(last.0.insert(region))
    }

    /// Appends the bytes of a chunk that a reference names: `len` of them from `skip` on.
    pub(crate) fn append(
        &self,
        reader: &dyn StoreReader,
        at: ChunkLocation,
        reference: &ChunkRef,
        (skip, len): (u64, u64),
        last: &mut LastRegion,
        out: &mut Vec<u8>,
    ) -> Result<(), RecipeError> {
        let region = self.following(reader, at, last)?;
        let bytes = region.chunk(reader, at, reference)?;
        let part = usize::try_from(skip).ok().and_then(|skip| {
            let len = usize::try_from(len).ok()?;
            bytes.get(skip..skip.checked_add(len)?)
        });
        out.extend_from_slice(part.ok_or_else(|| no_slot(&region.view, at))?);
        Ok(())
    }

    /// Compares chunks that are here with their fingerprints ahead of their use, many side by side.
    /// What is wrong is told when it is used.
    pub(crate) fn verify<'r>(
        &self,
        reader: &dyn StoreReader,
        references: impl Iterator<Item = &'r ChunkRef>,
    ) {
        let mut last = LastRegion::default();
        let mut open = Vec::new();
        for reference in references {
            let Place::At(at) = reference.place else { continue };
            // What could not be loaded is left to its use.
            if self.has(reader, reference, &mut last)
                && let Some(region) = last.get(at)
                && let Some(slot) = region.unverified(at)
            {
                open.push((Arc::clone(region), slot));
            }
        }
        open.retain(|(region, slot): &(Arc<Region>, Unverified)| region.bytes_of(slot).is_some());
        let plain = open.iter().filter_map(|(region, slot)| region.bytes_of(slot));
        let plain: Vec<&[u8]> = plain.collect();
        let mut prints = Vec::with_capacity(plain.len());
        reader.fingerprinter().chunks(&plain, &mut prints);
        for ((region, slot), print) in open.iter().zip(prints) {
            if slot.fingerprint == print {
                region.is_verified[slot.nth].store(true, Ordering::Relaxed);
            }
        }
    }
}

/// Whether one read shall take both regions, of which the second comes later.
fn are_near(view: &CatalogView, first: RegionIndex, second: RegionIndex) -> bool {
    let (Some(first), Some(second)) = (view.row(first), view.row(second)) else {
        return false;
    };
    let end = first.offset.saturating_add(u64::from(first.stored_len));
    second.offset.saturating_sub(end) <= GAP_BYTES_MAX
}

fn no_slot(view: &CatalogView, at: ChunkLocation) -> RecipeError {
    let missing = ContainerError::NoSlot {
        container: at.container,
        generation: view.generation(),
        slot: at.slot,
    };
    missing.into()
}
