//! Finds other copies of a chunk, by its fingerprint or by the first 16 bytes, which a catalog copy
//! keeps.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use container::{CatalogView, Containers, PlainRegion};
use index::{HookIndex, HookKind, Index};
use types::{ChunkLocation, ContainerId, ContainerKind, Fingerprint, RegionIndex, SlotRange};

use crate::context::Context;
use crate::error::Result;
use crate::slots::SlotMap;

use super::patient::Patient;
use super::wanted::Wanted;

/// How many places of one chunk to keep.
const PLACES_MAX: usize = 4;

/// Places of wanted chunks.
pub(super) struct Donors<'a> {
    containers: &'a Containers,
    index: Option<&'a Index>,
    places: HashMap<Wanted, Vec<ChunkLocation>>,
    /// Slots that are damaged themselves, so that no chunk can come from there.
    bad: SlotMap,
    /// The region that was read last: it may have the next chunk, too.
    held: RefCell<Option<DonorRegion>>,
}

/// A region of a container.
type DonorRegion = (Arc<CatalogView>, RegionIndex, PlainRegion);

impl<'a> Donors<'a> {
    pub(super) fn new(context: &Context<'a>) -> Self {
        Self {
            containers: context.containers,
            index: context.index,
            places: HashMap::new(),
            bad: SlotMap::default(),
            held: RefCell::default(),
        }
    }

    /// Notes the chunks that a container lacks.
    pub(super) fn want(&mut self, patient: &Patient) {
        let wanted = patient.wanted().map(|wanted| (wanted, Vec::new()));
        self.places.extend(wanted);
    }

    /// Notes the slots of a container from which no chunk can come.
    pub(super) fn note_bad(&mut self, patient: &Patient) {
        for slot in patient.bad.keys() {
            self.bad.insert(patient.id, SlotRange::one(*slot));
        }
    }

    /// Drops the noted chunks and their places.
    pub(super) fn forget_places(&mut self) {
        self.places = HashMap::new();
        self.held = RefCell::default();
    }

    /// Looks for all noted chunks: in these containers, and where the index leads.
    pub(super) fn find(&mut self, fresh: &[ContainerId]) -> Result<()> {
        if self.places.is_empty() {
            return Ok(());
        }
        let mut seen = HashSet::new();
        for id in fresh {
            if seen.insert(*id) {
                self.look_into(*id)?;
            }
        }
        let Some(index) = self.index else {
            return Ok(());
        };
        let wanted: Vec<Wanted> = self.places.keys().copied().collect();
        let mut candidates = Vec::new();
        for wanted in wanted {
            if !self.places[&wanted].is_empty() {
                continue;
            }
            index.candidates(&wanted.fingerprint(), HookKind::Data, &mut candidates);
            for id in &candidates {
                if seen.insert(*id) {
                    self.look_into(*id)?;
                }
            }
        }
        Ok(())
    }

    /// Notes which wanted chunks are in a container. An unreadable container has none.
    fn look_into(&mut self, id: ContainerId) -> Result<()> {
        if !matches!(id.kind, ContainerKind::Data | ContainerKind::Small) {
            return Ok(());
        }
        let view = match self.containers.catalog(id) {
            Ok(view) => view,
            Err(error) if error.is_gone() => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        for entry in view.entries().iter().filter(|entry| entry.level.get() == 0) {
            if let Some(places) = self.places.get_mut(&Wanted::of(entry))
                && places.len() < PLACES_MAX
                && !self.bad.contains(view.id(), entry.slot)
            {
                places.push(ChunkLocation {
                    container: view.id(),
                    slot: entry.slot,
                });
            }
        }
        Ok(())
    }

    /// Whether a place is known of any chunk that a container lacks.
    pub(super) fn have_any(&self, patient: &Patient) -> bool {
        let places = |wanted| self.places.get(&wanted).is_some_and(|places| !places.is_empty());
        patient.wanted().any(places)
    }

    /// The bytes of a chunk, and its fingerprint, which begins as wanted.
    pub(super) fn fetch(&self, wanted: Wanted) -> Option<(Fingerprint, Vec<u8>)> {
        let places = self.places.get(&wanted)?.iter();
        let read = places.filter_map(|at| self.read(*at));
        let mut named = read.map(|bytes| (self.containers.fingerprinter().chunk(&bytes), bytes));
        named.find(|(found, bytes)| found.prefix16() == wanted.prefix && bytes.len() == wanted.len as usize)
    }

    /// The bytes at a place, if they are whole.
    fn read(&self, at: ChunkLocation) -> Option<Vec<u8>> {
        let mut held = self.held.borrow_mut();
        let is_held = |(view, region, _): &DonorRegion| {
            view.id() == at.container && view.region_of(at.slot) == Some(*region)
        };
        if !held.as_ref().is_some_and(is_held) {
            *held = self.read_region(at);
        }
        let own = held.as_ref().and_then(|(view, _, region)| {
            let bytes = region.slot_bytes(view, at.slot)?;
            let is_whole = self.containers.verify_chunk(view, at.slot, bytes).is_ok();
            is_whole.then(|| bytes.to_vec())
        });
        // A newer generation may have it.
        own.or_else(|| self.containers.read_chunk(at).ok())
    }

    fn read_region(&self, at: ChunkLocation) -> Option<DonorRegion> {
        let view = self.containers.catalog(at.container).ok()?;
        let region = view.region_of(at.slot)?;
        let plain = self.containers.read_region(&view, region).ok()?;
        Some((view, region, plain))
    }
}
