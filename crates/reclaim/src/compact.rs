//! The next generation of a container: its survivors, under their old slots (INV-2).
//!
//! This reads, and puts nothing. Survivors keep their physical order. Regions with few survivors
//! are joined up to the store's region size. Raw regions stay raw. Compressed regions are
//! compressed again, except a region of some size whose chunks all survive: that one stays as it
//! is.
//!
//! Invariant: no rot is copied. Every region is opened under its seal, and every chunk is
//! compared with its fingerprint. The first failure ends the rewriting. Nodes have only the seal,
//! because their fingerprints cover their children's.

mod len;

use std::ops::ControlFlow;
use std::sync::mpsc;
use std::thread;

use container::{
    CatalogView, CompressedRegion, Compression, ContainerBuilder, ContainerError, Containers, RegionBuffer,
    SealedContainer, compress_region,
};
use env::AlignedBuffer;
use format::container::{CatalogEntry, Codec};
use types::{Generation, RegionIndex, Slot, SlotRange};

pub(crate) use len::len_of;

/// Stored bytes of one read.
const READ_BYTES_MAX: u64 = 1 << 20;
/// The same on a far storage: as a rule a whole container.
const FAR_READ_BYTES_MAX: u64 = 32 << 20;
/// A read of at least so many stored bytes runs on another thread.
const THREAD_BYTES_MIN: u64 = 1 << 20;
/// If the gap between two regions is at most so many stored bytes, one read covers both.
const GAP_BYTES_MAX: u64 = 256 << 10;
/// The same on a far storage.
const FAR_GAP_BYTES_MAX: u64 = 2 << 20;

/// How survivors are packed: the store's settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packing {
    /// Plain bytes at which a region closes.
    pub region_bytes: usize,
    /// The compression of regions that were compressed before.
    pub compression: Compression,
    /// Stored bytes at which a container is full.
    pub container_bytes: u64,
}

/// Whether a slot is on a list of sorted ranges.
pub(crate) fn is_listed(list: &[SlotRange], slot: Slot) -> bool {
    let after = list.partition_point(|range| range.first() <= slot);
    after > 0 && list[after - 1].contains(slot)
}

/// Whether a generation has none of the listed slots.
pub(crate) fn is_rid_of(view: &CatalogView, dead: &[SlotRange]) -> bool {
    !view.entries().iter().any(|entry| is_listed(dead, entry.slot))
}

/// What a new generation is made from: a container's survivors.
#[derive(Debug, Clone, Copy)]
struct Survivors<'a> {
    view: &'a CatalogView,
    dead: &'a [SlotRange],
}

impl Survivors<'_> {
    fn survives(&self, entry: &CatalogEntry) -> bool {
        !is_listed(self.dead, entry.slot)
    }

    /// The regions that have survivors.
    fn regions(&self) -> Vec<RegionIndex> {
        let view = self.view;
        let all = (0u32..).zip(view.rows());
        let all = all.filter_map(|(number, _)| RegionIndex::new(number).ok());
        all.filter(|region| {
            let mut entries = view.entries()[view.positions_in(*region)].iter();
            entries.any(|entry| self.survives(entry))
        })
        .collect()
    }

    /// The survivors of a region, and their bytes.
    fn of_region<'b>(
        &self,
        region: RegionIndex,
        bytes: &'b [u8],
    ) -> impl Iterator<Item = (&CatalogEntry, &'b [u8])> {
        let mut rest = bytes;
        let entries = self.view.entries()[self.view.positions_in(region)].iter();
        let all = entries.map(move |entry| {
            let (chunk, after) = rest.split_at(rest.len().min(entry.len as usize));
            rest = after;
            (entry, chunk)
        });
        all.filter(|(entry, _)| self.survives(entry))
    }
}

/// Seals the survivors of `view` as this generation. `None`: nothing survives.
///
/// # Errors
/// Of the storage; the damage of the first region or chunk that no copy has whole.
pub(crate) fn rewrite(
    containers: &Containers,
    view: &CatalogView,
    dead: &[SlotRange],
    generation: Generation,
    packing: Packing,
) -> Result<Option<SealedContainer>, ContainerError> {
    let survivors = Survivors { view, dead };
    let room = AlignedBuffer::with_capacity(usize::try_from(view.stored_bytes()).unwrap_or(0));
    let mut regions = Regions {
        builder: ContainerBuilder::in_buffer(view.id(), generation, room),
        packing,
        plain: Vec::new(),
        entries: Vec::new(),
        is_raw: true,
    };
    copy(containers, survivors, &mut regions)?;
    regions.close();
    let builder = regions.builder;
    if builder.entry_count() == 0 {
        return Ok(None);
    }
    builder.seal(containers).map(Some)
}

/// Seals the survivors of `view` as this generation, if the dead slots fill whole regions. It reads
/// no region, and all surviving regions stay where they are. `None`: the dead slots do not fill
/// whole regions, or this kind of container is never trimmed.
///
/// # Errors
/// Of the catalog.
pub(crate) fn trim(
    containers: &Containers,
    view: &CatalogView,
    dead: &[SlotRange],
    generation: Generation,
) -> Result<Option<SealedContainer>, ContainerError> {
    containers.trimmed(view, |slot| is_listed(dead, slot), generation)
}

/// Gathers the survivors. If they are many, it reads, opens and compares the next regions while the
/// last ones are compressed and sealed.
fn copy(
    containers: &Containers,
    survivors: Survivors<'_>,
    regions: &mut Regions,
) -> Result<(), ContainerError> {
    let here = |regions: &mut Regions| {
        let mut buffer = RegionBuffer::default();
        read(containers, survivors, |fill| {
            fill(&mut buffer)?;
            regions.add_all(survivors, &buffer);
            Ok(ControlFlow::Continue(()))
        })
    };
    if survivors.view.stored_bytes() < THREAD_BYTES_MIN {
        return here(regions);
    }
    thread::scope(|scope| {
        let (full, filled) = mpsc::sync_channel::<RegionBuffer>(1);
        let (empty, emptied) = mpsc::channel();
        let reader = thread::Builder::new().spawn_scoped(scope, move || {
            read(containers, survivors, |fill| {
                let mut buffer: RegionBuffer = emptied.try_recv().unwrap_or_default();
                fill(&mut buffer)?;
                Ok(match full.send(buffer) {
                    Ok(()) => ControlFlow::Continue(()),
                    Err(_) => ControlFlow::Break(()),
                })
            })
        });
        // The system gave no thread.
        let Ok(reader) = reader else {
            return here(regions);
        };
        for buffer in filled {
            regions.add_all(survivors, &buffer);
            // The reader may have ended.
            drop(empty.send(buffer));
        }
        reader.join().expect("reading survivors does not panic")
    })
}

/// Fills a buffer with the next regions that have survivors. The bytes of all of them were
/// verified.
type Fill<'a> = &'a dyn Fn(&mut RegionBuffer) -> Result<(), ContainerError>;

/// Reads the regions that have survivors.
fn read(
    containers: &Containers,
    survivors: Survivors<'_>,
    mut each: impl FnMut(Fill<'_>) -> Result<ControlFlow<()>, ContainerError>,
) -> Result<(), ContainerError> {
    let view = survivors.view;
    let is_far = containers.env().storage.is_far();
    for together in reads(view, &survivors.regions(), is_far) {
        let fill = |buffer: &mut RegionBuffer| {
            containers.read_regions_into(view, together, buffer)?;
            for (region, bytes) in buffer.regions() {
                for (entry, chunk) in survivors.of_region(region, bytes) {
                    containers.verify_chunk(view, entry.slot, chunk)?;
                }
            }
            Ok(())
        };
        if each(&fill)?.is_break() {
            break;
        }
    }
    Ok(())
}

/// Regions that are read at once.
fn reads<'a>(view: &CatalogView, mut wanted: &'a [RegionIndex], is_far: bool) -> Vec<&'a [RegionIndex]> {
    let (gap_max, read_max) = if is_far {
        (FAR_GAP_BYTES_MAX, FAR_READ_BYTES_MAX)
    } else {
        (GAP_BYTES_MAX, READ_BYTES_MAX)
    };
    let place = |region: RegionIndex| {
        let row = view.row(region);
        row.map_or((0, 0), |row| (row.offset, row.offset + u64::from(row.stored_len)))
    };
    let mut out = Vec::new();
    while let Some(first) = wanted.first() {
        let begin = place(*first).0;
        let ends = wanted.windows(2).position(|pair| {
            let (end, (next, next_end)) = (place(pair[0]).1, place(pair[1]));
            next - end > gap_max || next_end - begin > read_max
        });
        let (together, rest) = wanted.split_at(ends.map_or(wanted.len(), |at| at + 1));
        out.push(together);
        wanted = rest;
    }
    out
}

/// Whether a region of this length may stay as it is: neither it nor the region gathered before it
/// would be tiny.
const fn takes_whole(packing: &Packing, gathered_len: usize, is_empty: bool, plain_len: usize) -> bool {
    let is_tiny = gathered_len < packing.region_bytes / 4;
    plain_len >= packing.region_bytes / 2 && (is_empty || !is_tiny)
}

/// Survivors on their way to regions.
struct Regions {
    builder: ContainerBuilder,
    packing: Packing,
    plain: Vec<u8>,
    entries: Vec<CatalogEntry>,
    /// Whether all gathered chunks were stored raw.
    is_raw: bool,
}

impl Regions {
    /// Adds the survivors among what was read.
    fn add_all(&mut self, survivors: Survivors<'_>, buffer: &RegionBuffer) {
        let view = survivors.view;
        for (region, bytes) in buffer.regions() {
            let survivors: Vec<_> = survivors.of_region(region, bytes).collect();
            let is_whole = survivors.len() == view.positions_in(region).len();
            match buffer.packed(region).filter(|_| is_whole) {
                Some(packed)
                    if takes_whole(
                        &self.packing,
                        self.plain.len(),
                        self.entries.is_empty(),
                        bytes.len(),
                    ) =>
                {
                    self.close();
                    let entries: Vec<_> = survivors.into_iter().map(|(entry, _)| *entry).collect();
                    self.builder
                        .append_survivors(CompressedRegion::as_read(packed, bytes.len()), &entries);
                }
                _ => {
                    let is_raw = view.row(region).is_none_or(|row| row.codec == Codec::Raw);
                    survivors
                        .into_iter()
                        .for_each(|(entry, chunk)| self.add(*entry, chunk, is_raw));
                }
            }
        }
    }

    /// A region of both kinds is better than two tiny ones, and worse than two that are not.
    fn add(&mut self, entry: CatalogEntry, chunk: &[u8], is_raw: bool) {
        if is_raw != self.is_raw && self.plain.len() >= self.packing.region_bytes / 4 {
            self.close();
        }
        self.is_raw = is_raw && (self.is_raw || self.entries.is_empty());
        self.plain.extend_from_slice(chunk);
        self.entries.push(entry);
        if self.plain.len() >= self.packing.region_bytes {
            self.close();
        }
    }

    fn close(&mut self) {
        if self.entries.is_empty() {
            return;
        }
        let plain = std::mem::take(&mut self.plain);
        let region = if self.is_raw {
            CompressedRegion::raw(plain)
        } else {
            compress_region(plain, self.packing.compression)
        };
        self.builder
            .append_survivors(region, &std::mem::take(&mut self.entries));
        self.is_raw = true;
    }
}
