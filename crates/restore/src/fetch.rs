//! Carries out one step of a plan: reads the regions that it needs, verifies every chunk.
//!
//! Runs on any thread. A bad region costs only the chunks in it: each spot has its own result, so that
//! one lost chunk does not take a whole restore with it. A generation that vanishes while it is read, or
//! is damaged, is followed to the next one, at the same slots (INV-2).

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use container::{CatalogView, Containers, PlainRegion};
use crypto::Fingerprinter;
use types::{RegionIndex, Slot};

use crate::error::RestoreError;
use crate::plan::{ChunkPart, Fill, Step};

/// Regions this close to each other are read in one request, gap included.
const GAP_REGIONS_MAX: u32 = 1;
/// Regions read in one request at most: bounds the memory of a step to some MiB above its chunks.
const RUN_REGIONS_MAX: u32 = 32;
/// How often a replaced generation is followed.
const GENERATIONS_MAX: u32 = 4;

/// Where a chunk's bytes are among the fetched ones, or why they are not.
pub(crate) type SlotResult = Result<Range<usize>, Arc<RestoreError>>;

/// What a step brought: the chunks' bytes one after another, and where each spot's are.
#[derive(Debug)]
pub(crate) struct Fetched {
    pub(crate) bytes: Vec<u8>,
    pub(crate) spots: Vec<(u64, SlotResult)>,
    pub(crate) read_bytes: u64,
}

/// Reads what the step needs.
pub(crate) fn fetch(containers: &Containers, printer: &Fingerprinter, step: &Step) -> Fetched {
    let capacity = step
        .fills
        .iter()
        .map(|fill| usize::try_from(fill.part.chunk_len).unwrap_or(0))
        .sum();
    let mut work = Work {
        containers,
        printer,
        step,
        bytes: Vec::with_capacity(capacity),
        done: HashMap::with_capacity(step.fills.len()),
        read_bytes: 0,
    };
    match containers.catalog(step.container) {
        Ok(view) => work.follow(view),
        Err(error) => work.fail_rest(error.into()),
    }
    let missing = || Err(Arc::new(RestoreError::Internal("a planned chunk was not read")));
    let result = |fill: &Fill| {
        let whole = work.done.get(&fill.slot()).cloned().unwrap_or_else(missing)?;
        let part = (usize::try_from(fill.part.skip), usize::try_from(fill.len));
        match part {
            (Ok(skip), Ok(len)) if skip + len <= whole.len() => {
                Ok(whole.start + skip..whole.start + skip + len)
            }
            _ => Err(Arc::new(RestoreError::WrongSlot {
                location: fill.part.location,
            })),
        }
    };
    let spots = step.fills.iter().map(|fill| (fill.spot, result(fill))).collect();
    Fetched {
        bytes: work.bytes,
        spots,
        read_bytes: work.read_bytes,
    }
}

struct Work<'a> {
    containers: &'a Containers,
    printer: &'a Fingerprinter,
    step: &'a Step,
    bytes: Vec<u8>,
    done: HashMap<Slot, SlotResult>,
    read_bytes: u64,
}

/// A chunk to take, and the region it lies in.
struct Wanted {
    region: RegionIndex,
    offset: u32,
    fill: Fill,
}

impl Work<'_> {
    /// Takes what this generation has; what it fails to give, the next newer one may.
    fn follow(&mut self, mut view: Arc<CatalogView>) {
        for _ in 0..GENERATIONS_MAX {
            self.take_all(&view);
            if self.done.values().all(Result::is_ok) {
                return;
            }
            match self.containers.newer(&view) {
                Ok(Some(newer)) => view = newer,
                Ok(None) | Err(_) => return,
            }
        }
    }

    fn take_all(&mut self, view: &CatalogView) {
        let wanted = self.wanted(view);
        let mut regions: Vec<RegionIndex> = wanted.iter().map(|wanted| wanted.region).collect();
        regions.dedup();
        let mut rest = wanted.as_slice();
        for run in runs(&regions) {
            let count = rest.iter().take_while(|wanted| wanted.region < run.end).count();
            let (here, later) = rest.split_at(count);
            rest = later;
            match self.containers.read_regions(view, run) {
                Ok(plains) => plains.iter().for_each(|plain| self.take(view, plain, here)),
                // One of them is bad: read one by one, to lose no more than that one.
                Err(_) => self.take_singly(view, here),
            }
        }
    }

    /// What is still to be had, in physical order, each slot once.
    fn wanted(&mut self, view: &CatalogView) -> Vec<Wanted> {
        let mut wanted = Vec::with_capacity(self.step.fills.len());
        for fill in &self.step.fills {
            if self.done.get(&fill.slot()).is_some_and(Result::is_ok) {
                continue;
            }
            let entry = view.entry(fill.slot());
            let fits = entry.is_some_and(|entry| {
                entry.fingerprint == fill.part.fingerprint && u64::from(entry.len) == fill.part.chunk_len
            });
            match view.place_of(fill.slot()).filter(|_| fits) {
                Some(place) => {
                    wanted.push(Wanted {
                        region: place.region,
                        offset: place.offset,
                        fill: *fill,
                    });
                }
                None => {
                    let location = fill.part.location;
                    self.done
                        .insert(fill.slot(), Err(Arc::new(RestoreError::WrongSlot { location })));
                }
            }
        }
        wanted.sort_unstable_by_key(|wanted| (wanted.region, wanted.offset));
        wanted.dedup_by_key(|wanted| wanted.fill.slot());
        wanted
    }

    fn take_singly(&mut self, view: &CatalogView, wanted: &[Wanted]) {
        for of_region in wanted.chunk_by(|a, b| a.region == b.region) {
            match self.containers.read_region(view, of_region[0].region) {
                Ok(plain) => self.take(view, &plain, of_region),
                Err(error) => {
                    let error = Arc::new(RestoreError::from(error));
                    for wanted in of_region {
                        self.done.insert(wanted.fill.slot(), Err(Arc::clone(&error)));
                    }
                }
            }
        }
    }

    fn take(&mut self, view: &CatalogView, plain: &PlainRegion, wanted: &[Wanted]) {
        self.read_bytes += plain.bytes().len() as u64;
        for wanted in wanted.iter().filter(|wanted| wanted.region == plain.index()) {
            let ChunkPart {
                location,
                fingerprint: expected,
                ..
            } = wanted.fill.part;
            let slot = location.slot;
            let result = match plain.slot_bytes(view, slot) {
                None => Err(Arc::new(RestoreError::WrongSlot { location })),
                Some(chunk) => {
                    let found = self.printer.chunk(chunk);
                    if found == expected {
                        let start = self.bytes.len();
                        self.bytes.extend_from_slice(chunk);
                        Ok(start..self.bytes.len())
                    } else {
                        Err(Arc::new(RestoreError::WrongBytes {
                            location,
                            expected,
                            found,
                        }))
                    }
                }
            };
            self.done.insert(slot, result);
        }
    }

    fn fail_rest(&mut self, error: RestoreError) {
        let error = Arc::new(error);
        for fill in &self.step.fills {
            self.done
                .entry(fill.slot())
                .or_insert_with(|| Err(Arc::clone(&error)));
        }
    }
}

/// Groups sorted regions into runs to read at once.
fn runs(regions: &[RegionIndex]) -> Vec<Range<RegionIndex>> {
    let mut runs: Vec<Range<RegionIndex>> = Vec::new();
    for &region in regions {
        let end = region.next();
        match runs.last_mut() {
            Some(run)
                if region.get() <= run.end.get() + GAP_REGIONS_MAX
                    && end.get() - run.start.get() <= RUN_REGIONS_MAX =>
            {
                run.end = end;
            }
            _ => runs.push(region..end),
        }
    }
    runs
}
