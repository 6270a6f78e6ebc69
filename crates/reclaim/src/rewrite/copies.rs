//! Copies chunks into containers of a rewrite, in the order of a stream. These are chunks that only
//! one archival backup has [RevDedup 2.4.3, 2.5] (R4), or that the newest backup has scattered.
//!
//! The lengths of chunks decide their places before any chunk is read. So trees are written at the
//! same time, and several threads fill containers: each reads the chunks of one container, and puts
//! it.
//!
//! Invariant: no rot is copied. Each chunk is compared with its fingerprint when it is read.
//! Memory: some 60 bytes for each chunk; for each thread one container, and the regions that it
//! read last.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use container::{
    CatalogCopies, CatalogView, ContainerBuilder, ContainerError, Containers, PendingEntry, PlainRegion,
    SealedContainer, compress_region,
};
use env::AlignedBuffer;
use types::{
    ChunkLocation, ContainerId, ContainerKind, Fingerprint, Generation, RegionIndex, SequenceNumber,
    SessionId, Slot,
};

use crate::compact::Packing;
use crate::error::{ReclaimError, Result};
use crate::progress::Progress;

/// Bytes of containers on their way to a storage far away, at most.
const FAR_BYTES_MAX: u64 = 64 << 20;

/// The most regions of one read.
const READ_REGIONS_MAX: u32 = 8;
/// The most regions that a thread keeps.
const HELD_REGIONS_MAX: usize = 32;

/// Gives out a session's container numbers.
#[derive(Debug)]
pub(crate) struct Numbers {
    session: SessionId,
    next: u32,
}

impl Numbers {
    pub(crate) const fn new(session: SessionId) -> Self {
        Self { session, next: 0 }
    }

    /// The next container number. `None`: the session may have no more.
    pub(crate) fn next(&mut self, kind: ContainerKind) -> Option<ContainerId> {
        let sequence = SequenceNumber::new(self.next).ok()?;
        self.next += 1;
        Some(ContainerId {
            session: self.session,
            kind,
            sequence,
        })
    }
}

/// A chunk to copy.
#[derive(Debug, Clone, Copy)]
struct Copied {
    from: ChunkLocation,
    fingerprint: Fingerprint,
    len: u32,
}

/// The planned content of one container.
#[derive(Debug)]
struct Planned {
    id: ContainerId,
    chunks: Vec<Copied>,
    /// The expected stored bytes of its chunks.
    weight: u64,
    /// Plain bytes of the open region.
    region: usize,
}

/// The chunks to copy, by target container.
#[derive(Debug)]
pub(crate) struct Copies {
    kind: ContainerKind,
    packing: Packing,
    containers: Vec<Planned>,
    known: HashMap<Fingerprint, ChunkLocation>,
    /// Plain bytes of all chunks.
    pub(crate) bytes: u64,
}

impl Copies {
    /// For containers of this kind, packed by these settings.
    pub(crate) fn new(kind: ContainerKind, packing: Packing) -> Self {
        Self {
            kind,
            packing,
            containers: Vec::new(),
            known: HashMap::new(),
            bytes: 0,
        }
    }

    /// Plans a copy of a chunk that will take about `weight` bytes, and returns its future place.
    /// Equal chunks get one place. `None`: there is no room for it.
    pub(crate) fn add(
        &mut self,
        numbers: &mut Numbers,
        fingerprint: Fingerprint,
        len: u32,
        from: ChunkLocation,
        weight: u64,
    ) -> Option<ChunkLocation> {
        if let Some(known) = self.known.get(&fingerprint) {
            return Some(*known);
        }
        let is_full = |open: &Planned| {
            // A container ends at the end of a region, as those of a backup do.
            (open.weight >= self.packing.container_bytes && open.region == 0)
                || open.chunks.len() > Slot::MAX.get() as usize
        };
        if self.containers.last().is_none_or(is_full) {
            self.containers.push(Planned {
                id: numbers.next(self.kind)?,
                chunks: Vec::new(),
                weight: 0,
                region: 0,
            });
        }
        let open = self.containers.last_mut()?;
        let slot = Slot::new(u32::try_from(open.chunks.len()).ok()?).ok()?;
        open.chunks.push(Copied {
            from,
            fingerprint,
            len,
        });
        open.weight += weight;
        open.region += len as usize;
        if open.region >= self.packing.region_bytes {
            open.region = 0;
        }
        self.bytes += u64::from(len);
        let at = ChunkLocation {
            container: open.id,
            slot,
        };
        self.known.insert(fingerprint, at);
        Some(at)
    }

    /// Fills and puts all containers, and copies of their catalogs. Returns their ids and the bytes
    /// stored. Not durable yet.
    ///
    /// # Errors
    /// Of the storage; `Interrupted`; the damage of the first chunk that no copy has whole.
    pub(crate) fn write(
        &self,
        containers: &Containers,
        numbers: &mut Numbers,
        workers: usize,
        progress: &dyn Progress,
    ) -> Result<(Vec<ContainerId>, u64)> {
        let next = AtomicUsize::new(0);
        let views = Mutex::new(Vec::with_capacity(self.containers.len()));
        let failed = Mutex::new(None);
        let work = || {
            while let Some(planned) = self.containers.get(next.fetch_add(1, Ordering::Relaxed)) {
                match fill(containers, planned, self.packing, progress) {
                    Ok(sealed) => {
                        let of_one = (sealed.catalog(), sealed.stored_bytes_total());
                        views.lock().unwrap_or_else(PoisonError::into_inner).push(of_one);
                    }
                    Err(error) => {
                        failed
                            .lock()
                            .unwrap_or_else(PoisonError::into_inner)
                            .get_or_insert(error);
                        next.store(self.containers.len(), Ordering::Relaxed);
                    }
                }
            }
        };
        // All that is on its way at once must arrive within the time that one answer may take.
        let workers = match containers.env().storage.is_far() {
            true => workers.min(at_once(self.packing.container_bytes)),
            false => workers,
        };
        thread::scope(|scope| {
            for _ in 1..workers.min(self.containers.len()) {
                // If the system gives no thread, this thread does the work.
                drop(
                    thread::Builder::new()
                        .name("copies".to_owned())
                        .spawn_scoped(scope, work),
                );
            }
            work();
        });
        if let Some(error) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(error);
        }
        let mut views: Vec<(Arc<CatalogView>, u64)> =
            views.into_inner().unwrap_or_else(PoisonError::into_inner);
        views.sort_unstable_by_key(|(view, _)| view.id());
        let mut put: Vec<ContainerId> = views.iter().map(|(view, _)| view.id()).collect();
        let mut stored: u64 = views.iter().map(|(_, bytes)| bytes).sum();
        if let Some(id) = numbers.next(ContainerKind::Catalog).filter(|_| !views.is_empty()) {
            let mut copies = CatalogCopies::new(containers, id, self.packing.compression);
            views.iter().for_each(|(view, _)| copies.add(view));
            let sealed = copies.seal(containers)?;
            containers.put(&sealed)?;
            put.push(id);
            stored += sealed.stored_bytes_total();
        }
        Ok((put, stored))
    }
}

/// How many containers of this length are sent at once to a storage far away.
fn at_once(container_bytes: u64) -> usize {
    usize::try_from(FAR_BYTES_MAX / container_bytes.max(1)).map_or(1, |count| count.max(1))
}

fn fill(
    containers: &Containers,
    planned: &Planned,
    packing: Packing,
    progress: &dyn Progress,
) -> Result<SealedContainer> {
    let expected = usize::try_from(planned.weight).unwrap_or(0);
    // The weight is an estimate, without regions' tags and the catalog.
    let bytes = AlignedBuffer::with_capacity(expected + expected / 16 + (64 << 10));
    let mut builder = ContainerBuilder::in_buffer(planned.id, Generation::FIRST, bytes);
    let mut reader = Reader {
        containers,
        view: None,
        held: VecDeque::new(),
    };
    let mut plain = Vec::with_capacity(packing.region_bytes);
    let mut entries: Vec<PendingEntry> = Vec::new();
    for (n, chunk) in planned.chunks.iter().enumerate() {
        if progress.is_cancelled() {
            return Err(ReclaimError::Interrupted);
        }
        reader.add(&planned.chunks[n..], &mut plain)?;
        entries.push(PendingEntry::chunk(chunk.fingerprint, chunk.len));
        if plain.len() >= packing.region_bytes || n + 1 == planned.chunks.len() {
            let region = compress_region(std::mem::take(&mut plain), packing.compression);
            progress.add_done(entries.iter().map(|entry| u64::from(entry.len)).sum());
            builder.append(region, &entries);
            entries.clear();
        }
    }
    let sealed = builder.seal(containers)?;
    containers.put(&sealed)?;
    Ok(sealed)
}

/// Reads chunks. It reads several regions at once if the next chunks are in them.
struct Reader<'a> {
    containers: &'a Containers,
    /// The container that was read last.
    view: Option<Arc<CatalogView>>,
    held: VecDeque<(Arc<CatalogView>, PlainRegion)>,
}

impl Reader<'_> {
    /// Appends the bytes of the first of these chunks.
    fn add(&mut self, chunks: &[Copied], to: &mut Vec<u8>) -> Result<(), ContainerError> {
        let Some(first) = chunks.first() else {
            return Ok(());
        };
        if matches!(self.held_bytes(first, to), Ok(true)) {
            return Ok(());
        }
        // If its generation was replaced meanwhile, the chunks are read one by one.
        if self.load(chunks).is_ok() && matches!(self.held_bytes(first, to), Ok(true)) {
            return Ok(());
        }
        let bytes = self.containers.read_chunk(first.from)?;
        if bytes.len() == first.len as usize
            && self.containers.fingerprinter().chunk(&bytes) == first.fingerprint
        {
            to.extend_from_slice(&bytes);
            return Ok(());
        }
        Err(ContainerError::Missing {
            container: first.from.container,
        })
    }

    fn held_bytes(&self, chunk: &Copied, to: &mut Vec<u8>) -> Result<bool, ContainerError> {
        let of_container = self
            .held
            .iter()
            .filter(|(view, _)| view.id() == chunk.from.container);
        for (view, region) in of_container {
            let Some(bytes) = region.slot_bytes(view, chunk.from.slot) else {
                continue;
            };
            self.containers.verify_chunk(view, chunk.from.slot, bytes)?;
            to.extend_from_slice(bytes);
            return Ok(true);
        }
        Ok(false)
    }

    /// Reads the region of the first chunk, and the regions after it with the next chunks.
    fn load(&mut self, chunks: &[Copied]) -> Result<(), ContainerError> {
        let Some(first) = chunks.first() else {
            return Ok(());
        };
        let container = first.from.container;
        let view = match &self.view {
            Some(view) if view.id() == container => Arc::clone(view),
            _ => self.containers.catalog(container)?,
        };
        self.view = Some(Arc::clone(&view));
        let region = |chunk: &Copied| view.region_of(chunk.from.slot).map(|region| region.get());
        let Some(begin) = region(first) else { return Ok(()) };
        let mut end = begin + 1;
        for chunk in chunks {
            match region(chunk).filter(|_| chunk.from.container == container) {
                Some(number) if number == end && (end - begin) < READ_REGIONS_MAX => end += 1,
                Some(number) if (begin..end).contains(&number) => {}
                _ => break,
            }
        }
        let (Ok(begin), Ok(end)) = (RegionIndex::new(begin), RegionIndex::new(end)) else {
            return Ok(());
        };
        for read in self.containers.read_regions(&view, begin..end)? {
            if self.held.len() >= HELD_REGIONS_MAX {
                self.held.pop_front();
            }
            self.held.push_back((Arc::clone(&view), read));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use container::Compression;

    use super::*;

    /// How many of 30 chunks of 30 bytes each container gets, if each chunk has this expected
    /// weight.
    fn chunks_of(weight: u64) -> Vec<usize> {
        let session = SessionId::new(1).unwrap();
        let packing = Packing {
            region_bytes: 100,
            compression: Compression::Off,
            container_bytes: 250,
        };
        let container = Numbers::new(session).next(ContainerKind::Data).unwrap();
        let mut numbers = Numbers::new(SessionId::new(2).unwrap());
        let mut copies = Copies::new(ContainerKind::Data, packing);
        for chunk in 0..30 {
            let slot = Slot::new(chunk.into()).unwrap();
            let from = ChunkLocation { container, slot };
            let fingerprint = Fingerprint::from_bytes([chunk; 32]);
            copies.add(&mut numbers, fingerprint, 30, from, weight).unwrap();
        }
        copies.containers.iter().map(|one| one.chunks.len()).collect()
    }

    #[test]
    fn a_container_closes_where_a_region_does() {
        // Regions of four chunks.
        assert_eq!(chunks_of(30), [12, 12, 6]);
        assert_eq!(chunks_of(15), [20, 10]);
    }
}
