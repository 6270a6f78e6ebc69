//! The next generation of a container: its survivors, under the slots that they always had (INV-2), and those of
//! containers that are merged into it, under slots that were never given.
//!
//! Pure but for reads; nothing is put here. Survivors keep their physical order. Regions of few survivors are
//! gathered up to the store's size of regions. What was stored raw stays raw without being tried; what was
//! compressed is compressed again.
//!
//! What must hold: no rot is copied. Every region is opened under its seal, every chunk is compared with its
//! fingerprint, and the first that fails ends the rewriting. Nodes have the seal alone: their fingerprints are
//! over their children's.

use container::{
    CatalogView, CompressedRegion, Compression, ContainerBuilder, ContainerError, Containers, RegionBuffer,
    SealedContainer, compress_region,
};
use env::AlignedBuffer;
use format::container::{CatalogEntry, Codec, MergedRange};
use format::reclaim::Moved;
use types::{ContainerId, Generation, RegionIndex, Slot, SlotRange};

/// Stored bytes of one read.
const READ_BYTES_MAX: u64 = 4 << 20;
/// Stored bytes between two regions that are read rather than asked for apart.
const GAP_BYTES_MAX: u64 = 256 << 10;

/// How survivors are packed: the store's settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packing {
    /// Plain bytes at which a region closes.
    pub region_bytes: usize,
    /// For regions that were compressed.
    pub compression: Compression,
    /// Stored bytes at which a container is full: what is below a quarter of it is small.
    pub container_bytes: u64,
}

/// Whether a slot is on a list of sorted ranges.
pub(crate) fn is_listed(list: &[SlotRange], slot: Slot) -> bool {
    let after = list.partition_point(|range| range.first() <= slot);
    after > 0 && list[after - 1].contains(slot)
}

/// Whether a generation holds nothing of what is listed.
pub(crate) fn is_rid_of(view: &CatalogView, dead: &[SlotRange]) -> bool {
    !view.entries().iter().any(|entry| is_listed(dead, entry.slot))
}

/// What a new generation is made from: a container's survivors.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part<'a> {
    pub(crate) view: &'a CatalogView,
    pub(crate) dead: &'a [SlotRange],
    /// Of a container that is merged into another: where its slots go.
    pub(crate) moved: Option<&'a Moved>,
}

impl Part<'_> {
    fn survives(&self, entry: &CatalogEntry) -> bool {
        !is_listed(self.dead, entry.slot)
    }

    /// The entry as it stands in the new generation. Of a merged container only what was announced can be referred to.
    fn placed(&self, entry: &CatalogEntry) -> Option<CatalogEntry> {
        let Some(moved) = self.moved else {
            return Some(*entry);
        };
        let slot = entry.slot.get();
        let slot = (slot < moved.count).then(|| moved.first_here.checked_add(slot))??;
        Some(CatalogEntry { slot, ..*entry })
    }
}

/// What is left of `view` without the dead slots, sealed as that generation; `None` when nothing is.
///
/// # Errors
/// Of the storage; what is wrong with the first region or chunk that no copy has whole.
pub(crate) fn rewrite(
    containers: &Containers,
    view: &CatalogView,
    dead: &[SlotRange],
    generation: Generation,
    packing: Packing,
) -> Result<Option<SealedContainer>, ContainerError> {
    let part = Part {
        view,
        dead,
        moved: None,
    };
    join(containers, view.id(), &[part], generation, packing).map_err(|(_, error)| error)
}

/// What is left of `view` without the dead slots, where those fill whole regions: nothing is read, and its regions stay
/// where they are. `None` where they do not, or the container is of a kind that is not trimmed.
///
/// # Errors
/// What is wrong with the catalog.
pub(crate) fn trim(
    containers: &Containers,
    view: &CatalogView,
    dead: &[SlotRange],
    generation: Generation,
) -> Result<Option<SealedContainer>, ContainerError> {
    let merged = surviving(view.merged(), view, dead);
    let is_dead = |slot| is_listed(dead, slot);
    containers.trimmed(view, is_dead, generation, merged, view.slots_end())
}

/// The survivors of several containers, in the order given, sealed as that generation of one of them; `None` when
/// nothing is left. The one is the part that is not moved.
///
/// # Errors
/// As [`rewrite`], and which part it is.
pub(crate) fn join(
    containers: &Containers,
    id: ContainerId,
    parts: &[Part<'_>],
    generation: Generation,
    packing: Packing,
) -> Result<Option<SealedContainer>, (usize, ContainerError)> {
    let len: u64 = parts.iter().map(|part| part.view.stored_bytes()).sum();
    let room = AlignedBuffer::with_capacity(usize::try_from(len).unwrap_or(0));
    let mut regions = Regions {
        builder: ContainerBuilder::in_buffer(id, generation, room),
        packing,
        plain: Vec::new(),
        entries: Vec::new(),
        is_raw: true,
    };
    let (mut merged, mut given) = (Vec::new(), 0);
    for (n, part) in parts.iter().enumerate() {
        copy(containers, part, &mut regions).map_err(|error| (n, error))?;
        match part.moved {
            None => {
                merged.extend(surviving(part.view.merged(), part.view, part.dead));
                given = given.max(part.view.slots_end());
            }
            Some(moved) => {
                let slots = SlotRange::new(Slot::new(0).expect("slots begin at 0"), moved.count);
                merged.extend(slots.map(|slots| MergedRange {
                    from: moved.from,
                    slots,
                    first_here: moved.first_here,
                }));
                given = given.max(moved.here().map_or(0, SlotRange::end));
            }
        }
    }
    regions.close();
    let mut builder = regions.builder;
    if builder.entry_count() == 0 {
        return Ok(None);
    }
    merged.sort_unstable_by_key(|range| (range.from, range.slots.first()));
    builder.set_merged(merged);
    builder.set_slots_given(given);
    builder.seal(containers).map(Some).map_err(|error| (0, error))
}

/// A part's survivors.
fn copy(containers: &Containers, part: &Part<'_>, regions: &mut Regions) -> Result<(), ContainerError> {
    let view = part.view;
    let wanted: Vec<RegionIndex> = (0u32..)
        .zip(view.rows())
        .filter_map(|(number, _)| RegionIndex::new(number).ok())
        .filter(|region| {
            let mut entries = view.entries()[view.positions_in(*region)].iter();
            entries.any(|entry| part.survives(entry))
        })
        .collect();
    let mut buffer = RegionBuffer::default();
    for together in reads(view, &wanted) {
        containers.read_regions_into(view, together, &mut buffer)?;
        for (region, bytes) in buffer.regions() {
            let is_raw = view.row(region).is_none_or(|row| row.codec == Codec::Raw);
            let mut rest = bytes;
            for entry in &view.entries()[view.positions_in(region)] {
                let (chunk, after) = rest.split_at(rest.len().min(entry.len as usize));
                rest = after;
                if part.survives(entry) {
                    containers.verify_chunk(view, entry.slot, chunk)?;
                    if let Some(placed) = part.placed(entry) {
                        regions.add(placed, chunk, is_raw);
                    }
                }
            }
        }
    }
    Ok(())
}

/// Regions that are read at once.
fn reads<'a>(view: &CatalogView, mut wanted: &'a [RegionIndex]) -> Vec<&'a [RegionIndex]> {
    let place = |region: RegionIndex| {
        let row = view.row(region);
        row.map_or((0, 0), |row| (row.offset, row.offset + u64::from(row.stored_len)))
    };
    let mut out = Vec::new();
    while let Some(first) = wanted.first() {
        let begin = place(*first).0;
        let ends = wanted.windows(2).position(|pair| {
            let (end, (next, next_end)) = (place(pair[0]).1, place(pair[1]));
            next - end > GAP_BYTES_MAX || next_end - begin > READ_BYTES_MAX
        });
        let (together, rest) = wanted.split_at(ends.map_or(wanted.len(), |at| at + 1));
        out.push(together);
        wanted = rest;
    }
    out
}

/// Survivors on their way to regions.
struct Regions {
    builder: ContainerBuilder,
    packing: Packing,
    plain: Vec<u8>,
    entries: Vec<CatalogEntry>,
    /// Whether all that is gathered was stored raw.
    is_raw: bool,
}

impl Regions {
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

/// The ranges of what was merged here, as far as their slots survive.
fn surviving(merged: &[MergedRange], view: &CatalogView, dead: &[SlotRange]) -> Vec<MergedRange> {
    let mut out: Vec<MergedRange> = Vec::new();
    for range in merged {
        let mut open: Option<MergedRange> = None;
        for (ahead, old) in (0u32..).zip(range.slots.iter()) {
            let here = range.first_here.checked_add(ahead);
            let here = here.filter(|here| !is_listed(dead, *here) && view.entry(*here).is_some());
            let longer = open.and_then(|open| SlotRange::new(open.slots.first(), open.slots.count() + 1));
            open = match (here, open, longer) {
                (Some(_), Some(open), Some(slots)) => Some(MergedRange { slots, ..open }),
                (Some(first_here), _, _) => Some(MergedRange {
                    from: range.from,
                    slots: SlotRange::one(old),
                    first_here,
                }),
                (None, open, _) => {
                    out.extend(open);
                    None
                }
            };
        }
        out.extend(open);
    }
    out
}
