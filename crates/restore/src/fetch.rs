//! Reads one piece of a container's regions, and verifies every wanted chunk of them.
//!
//! Runs on any thread. A bad region costs only the chunks in it: each spot has its own result, so
//! one lost chunk does not end a restore. If a generation vanishes during a read, or is damaged,
//! the next generation is read at the same slots (INV-2).
//!
//! Bytes are not moved: the thread decrypts them in place (or decompresses them beside it),
//! compares them there, and passes them on from there. Only if few of the read bytes are wanted, it
//! copies these, so that memory does not include the bytes between them.

use std::ops::Range;
use std::sync::Arc;

use container::{BytesAt, CatalogView, RegionBuffer};
use crypto::Fingerprinter;
use recipe::StoreReader;
use types::{Fingerprint, RegionIndex};

use crate::charge::charge;
use crate::error::RestoreError;
use crate::memory_budget::{Extra, MemoryBudget};
use crate::plan::{Fill, Place};
use crate::pool::{Pooled, RegionPool};

/// Read bytes stay where they are if at least one of so many parts of their memory is wanted.
const HELD_SHARE: usize = 3;
/// How often the fetch follows a replaced generation.
const GENERATIONS_MAX: u32 = 4;

/// Some regions of one container, and the chunks that are wanted of them.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) view: Arc<CatalogView>,
    /// In ascending order. Regions in between are read too, but not opened.
    pub(crate) regions: Vec<RegionIndex>,
    /// In the order of their bytes. A chunk that fills several spots occurs several times.
    pub(crate) fills: Vec<Fill>,
}

/// The result of a piece, for some spots.
#[derive(Debug)]
pub(crate) struct Brought {
    pub(crate) bytes: Arc<FetchedBytes>,
    pub(crate) runs: Vec<SpotRun>,
    pub(crate) to_keep: Vec<ToKeep>,
    /// Plain bytes of the regions that were read.
    pub(crate) read_bytes: u64,
}

/// A whole chunk that stays until the planner drops it.
#[derive(Debug)]
pub(crate) struct ToKeep {
    /// The number under which it is kept.
    pub(crate) number: u64,
    pub(crate) found: Result<Box<[u8]>, Arc<RestoreError>>,
    /// Its charge on the budget until it is dropped.
    pub(crate) charged: u64,
}

/// Consecutive spots. Either their bytes are adjacent, or all are lost for the same reason.
#[derive(Debug)]
pub(crate) struct SpotRun {
    pub(crate) first: u64,
    pub(crate) count: u64,
    pub(crate) len: u64,
    pub(crate) found: Result<FoundAt, Arc<RestoreError>>,
}

/// A place in [`FetchedBytes`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FoundAt {
    /// In the regions.
    Region(BytesAt),
    /// Among the copies.
    Copied(Range<usize>),
}

impl FoundAt {
    /// `len` of the bytes, from `skip` on; `None` if there are not so many.
    fn part(&self, skip: usize, len: usize) -> Option<Self> {
        match self {
            Self::Region(at) => Some(Self::Region(at.part(skip, len)?)),
            Self::Copied(range) => {
                let begin = range.start.checked_add(skip)?;
                let end = begin.checked_add(len).filter(|end| *end <= range.end)?;
                Some(Self::Copied(begin..end))
            }
        }
    }

    fn join(&mut self, next: &Self) -> bool {
        match (self, next) {
            (Self::Region(bytes), Self::Region(next)) => bytes.join(next),
            (Self::Copied(bytes), Self::Copied(next)) if bytes.end == next.start => {
                bytes.end = next.end;
                true
            }
            _ => false,
        }
    }
}

/// Verified bytes. Their memory returns to its pool with them.
#[derive(Debug, Default)]
pub(crate) struct FetchedBytes {
    regions: Option<Pooled>,
    copied: Vec<u8>,
    /// The memory of the regions beyond the wanted bytes.
    extra: Option<Extra>,
}

impl FetchedBytes {
    pub(crate) fn get(&self, at: &FoundAt) -> &[u8] {
        match at {
            FoundAt::Copied(range) => &self.copied[range.clone()],
            FoundAt::Region(at) => {
                let regions = self.regions.as_ref();
                regions
                    .expect("they are kept as long as something is found there")
                    .bytes(at)
            }
        }
    }
}

/// Reads the piece. Memory beyond the wanted bytes is charged to `room`.
pub(crate) fn fetch(
    reader: &dyn StoreReader,
    printer: &Fingerprinter,
    pool: &Arc<RegionPool>,
    room: &Arc<MemoryBudget>,
    piece: &Piece,
) -> Brought {
    let mut work = Work {
        reader,
        printer,
        piece,
        bytes: FetchedBytes::default(),
        found: Vec::new(),
        to_keep: Vec::new(),
        read_bytes: 0,
    };
    let mut regions = pool.take();
    let read = reader.read_regions_into(&piece.view, &piece.regions, &mut regions);
    match read {
        Ok(()) => {
            work.read_bytes += regions.plain_len() as u64;
            work.take_all(&regions);
            work.bytes.regions = Some(regions);
        }
        Err(error) => {
            let error = Arc::new(RestoreError::from(error));
            work.found = piece.fills.iter().map(|_| Err(Arc::clone(&error))).collect();
        }
    }
    let is_over = |found: &Found| matches!(found, Err(error) if error.is_of_whole_store());
    if work.found.iter().any(Result::is_err) && !work.found.iter().any(is_over) {
        let singly = work.bytes.regions.is_none();
        work.mend(singly);
    }
    work.set_aside();
    work.hold_or_copy(room);
    work.finish()
}

impl Brought {
    /// A result without bytes, for this reason.
    pub(crate) fn failed(fills: &[Fill], error: &Arc<RestoreError>) -> Self {
        let (mut runs, mut to_keep) = (Vec::new(), Vec::new());
        for fill in fills {
            let error = Arc::clone(error);
            match fill.place {
                Place::Spot(spot) => push(&mut runs, spot, fill.len, Err(error)),
                Place::Kept(number) => to_keep.push(ToKeep {
                    number,
                    found: Err(error),
                    charged: charge(fill),
                }),
            }
        }
        Self {
            bytes: Arc::default(),
            runs,
            to_keep,
            read_bytes: 0,
        }
    }
}

/// A whole chunk's bytes.
type Found = Result<FoundAt, Arc<RestoreError>>;

struct Work<'a> {
    reader: &'a dyn StoreReader,
    printer: &'a Fingerprinter,
    piece: &'a Piece,
    bytes: FetchedBytes,
    /// The whole chunk of each fill.
    found: Vec<Found>,
    to_keep: Vec<ToKeep>,
    read_bytes: u64,
}

impl Work<'_> {
    /// Verifies every chunk of the regions that were read. It computes all fingerprints together,
    /// which is faster.
    fn take_all(&mut self, regions: &RegionBuffer) {
        let fills = &self.piece.fills;
        // A chunk that fills several spots is verified once.
        let same = |a: &Fill, b: &Fill| a.slot() == b.slot();
        let places: Vec<Option<BytesAt>> = fills
            .chunk_by(same)
            .map(|of| regions.slot(&self.piece.view, of[0].slot()))
            .collect();
        let chunks: Vec<&[u8]> = places.iter().flatten().map(|at| regions.bytes(at)).collect();
        let mut prints = Vec::new();
        self.printer.chunks(&chunks, &mut prints);
        let mut prints = prints.into_iter();
        self.found.reserve(fills.len());
        for (of, place) in fills.chunk_by(same).zip(places) {
            let there = place.and_then(|at| Some((prints.next()?, FoundAt::Region(at))));
            let found = judge(&of[0], there);
            self.found.extend(std::iter::repeat_n(found, of.len()));
        }
    }

    /// Tries again to read missing chunks: region by region if the piece could not be read as a
    /// whole, and then from newer generations.
    fn mend(&mut self, singly: bool) {
        let mut view = Arc::clone(&self.piece.view);
        if singly {
            self.take_singly(&view);
        }
        for _ in 1..GENERATIONS_MAX {
            if self.found.iter().all(Result::is_ok) {
                return;
            }
            match self.reader.newer_catalog(&view) {
                Ok(Some(newer)) => view = newer,
                Ok(None) | Err(_) => return,
            }
            self.take_singly(&view);
        }
    }

    /// Copies missing chunks out of one region at a time.
    fn take_singly(&mut self, view: &CatalogView) {
        let mut region = None;
        for (number, fill) in self.piece.fills.iter().enumerate() {
            if self.found[number].is_ok() {
                continue;
            }
            self.found[number] = self.take_one(view, fill, &mut region).map(FoundAt::Copied);
        }
    }

    fn take_one(
        &mut self,
        view: &CatalogView,
        fill: &Fill,
        held: &mut Option<(RegionIndex, Result<RegionBuffer, Arc<RestoreError>>)>,
    ) -> Result<Range<usize>, Arc<RestoreError>> {
        let location = fill.part.location;
        let wrong_slot = || Arc::new(RestoreError::WrongSlot { location });
        if !fits(view, fill) {
            return Err(wrong_slot());
        }
        let index = view.region_of(fill.slot()).ok_or_else(wrong_slot)?;
        if held.as_ref().is_none_or(|(held, _)| *held != index) {
            let mut region = RegionBuffer::default();
            let read = self.reader.read_regions_into(view, &[index], &mut region);
            self.read_bytes += region.plain_len() as u64;
            let read = read.map(|()| region);
            *held = Some((index, read.map_err(|error| Arc::new(error.into()))));
        }
        let Some((_, read)) = held else {
            return Err(wrong_slot());
        };
        let region = read.as_ref().map_err(Arc::clone)?;
        let chunk = region.slot(view, fill.slot()).ok_or_else(wrong_slot)?;
        let chunk = region.bytes(&chunk);
        let start = self.bytes.copied.len();
        let range = start..start + chunk.len();
        judge(
            fill,
            Some((self.printer.chunk(chunk), FoundAt::Copied(range.clone()))),
        )?;
        self.bytes.copied.extend_from_slice(chunk);
        Ok(range)
    }

    /// Copies the chunks to keep: they stay for longer than the bytes that were read with them.
    fn set_aside(&mut self) {
        for (fill, found) in self.piece.fills.iter().zip(&self.found) {
            if let Place::Kept(number) = fill.place {
                self.to_keep.push(ToKeep {
                    number,
                    found: found
                        .as_ref()
                        .map(|at| self.bytes.get(at).into())
                        .map_err(Arc::clone),
                    charged: charge(fill),
                });
            }
        }
    }

    /// Copies the wanted bytes, and returns the memory at once, if most of it is unwanted or has no
    /// room in the budget.
    fn hold_or_copy(&mut self, room: &Arc<MemoryBudget>) {
        let Some(regions) = &mut self.bytes.regions else {
            return;
        };
        regions.give_back_unused();
        let mut last = None;
        let mut wanted = 0;
        let each = self.piece.fills.iter().zip(&self.found);
        for found in each.filter_map(|(fill, found)| found.as_ref().ok().filter(|_| fill.spot().is_some())) {
            if let FoundAt::Region(at) = found
                && last != Some(at)
            {
                wanted += at.len();
                last = Some(at);
            }
        }
        let of_spots = self.piece.fills.iter().filter(|fill| fill.spot().is_some());
        let charged: u64 = of_spots.map(|fill| fill.len).sum();
        let extra = (regions.used_bytes() as u64).saturating_sub(charged);
        if wanted * HELD_SHARE >= regions.memory_bytes()
            && let Some(extra) = room.take_extra(extra)
        {
            self.bytes.extra = Some(extra);
            return;
        }
        self.bytes.copied.reserve_exact(wanted);
        let mut last: Option<(BytesAt, Range<usize>)> = None;
        for (fill, found) in self.piece.fills.iter().zip(&mut self.found) {
            let (Some(_), Ok(found)) = (fill.spot(), found) else {
                continue;
            };
            let FoundAt::Region(at) = found else { continue };
            let copy = match last.take() {
                Some((of, copy)) if of == *at => copy,
                _ => {
                    let start = self.bytes.copied.len();
                    self.bytes.copied.extend_from_slice(regions.bytes(at));
                    start..self.bytes.copied.len()
                }
            };
            last = Some((at.clone(), copy.clone()));
            *found = FoundAt::Copied(copy);
        }
        self.bytes.regions = None;
    }

    /// Cuts the wanted parts out of the chunks, and joins neighbours.
    fn finish(self) -> Brought {
        let mut runs: Vec<SpotRun> = Vec::new();
        for (fill, whole) in self.piece.fills.iter().zip(self.found) {
            let Some(spot) = fill.spot() else { continue };
            let part = whole.and_then(|whole| {
                part(&whole, fill).ok_or_else(|| {
                    let location = fill.part.location;
                    Arc::new(RestoreError::WrongSlot { location })
                })
            });
            push(&mut runs, spot, fill.len, part);
        }
        Brought {
            bytes: Arc::new(self.bytes),
            runs,
            to_keep: self.to_keep,
            read_bytes: self.read_bytes,
        }
    }
}

/// Accepts a chunk if its slot has the expected fingerprint (INV-5).
fn judge(fill: &Fill, there: Option<(Fingerprint, FoundAt)>) -> Found {
    let (location, expected) = (fill.part.location, fill.part.fingerprint);
    match there {
        None => Err(Arc::new(RestoreError::WrongSlot { location })),
        Some((found, at)) if found == expected => Ok(at),
        Some((found, _)) => Err(Arc::new(RestoreError::WrongBytes {
            location,
            expected,
            found,
        })),
    }
}

/// Whether the catalog has the chunk of the verified recipe in the fill's slot.
pub(crate) fn fits(view: &CatalogView, fill: &Fill) -> bool {
    view.entry(fill.slot()).is_some_and(|entry| {
        entry.fingerprint == fill.part.fingerprint && u64::from(entry.len) == fill.part.chunk_len
    })
}

/// The part of a chunk that the fill needs.
fn part(whole: &FoundAt, fill: &Fill) -> Option<FoundAt> {
    whole.part(
        usize::try_from(fill.part.skip).ok()?,
        usize::try_from(fill.len).ok()?,
    )
}

/// Adds the result of the next spot.
fn push(runs: &mut Vec<SpotRun>, spot: u64, len: u64, found: Found) {
    if let Some(run) = runs.last_mut()
        && run.first + run.count == spot
    {
        let joins = match (&mut run.found, &found) {
            (Ok(at), Ok(next)) => at.join(next),
            _ => false,
        };
        if joins {
            run.count += 1;
            run.len += len;
            return;
        }
    }
    runs.push(SpotRun {
        first: spot,
        count: 1,
        len,
        found,
    });
}
